//! Engines' events in a recording.
//!
//! Of mails from other shards, and of policies, only the names are written: a replay makes them itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use maple_core::engine::{Candidate, Event, Mail};
use maple_core::ids::ShardId;
use maple_core::policy::Policy;
use maple_wire::{Dpid, Version};
use serde::{Deserialize, Serialize};

use crate::storage::format::{Damaged, Reader, put};

/// The mails and policies of a replay, which events name.
pub(crate) trait NamedMessages {
    /// Returns the mail that this shard sent after `number` others.
    fn mail(&mut self, from: ShardId, number: u64) -> Option<Mail>;

    /// Returns the policy of the candidate with this number.
    fn policy(&mut self, number: u64) -> Option<Arc<dyn Policy>>;
}

/// Writes and reads the events of one shard.
#[derive(Debug, Default)]
pub(crate) struct Events {
    /// The versions of OpenFlow that switches speak.
    versions: BTreeMap<Dpid, Version>,
}

/// An event as it is written.
#[derive(Serialize, Deserialize)]
enum WrittenEvent<E> {
    Whole(E),
    Mail(ShardId, u64),
    Try(u64),
    Adopt(u64),
}

impl Events {
    /// Returns the version that a switch speaks; 1.3 if that is not known.
    pub fn version(&self, dpid: Dpid) -> Version {
        self.versions.get(&dpid).copied().unwrap_or(Version::Of13)
    }

    /// Notes the version of a switch that comes up.
    fn follow(&mut self, event: &Event) {
        if let Event::SwitchUp { dpid, version, .. } = event {
            self.versions.insert(*dpid, *version);
        }
    }

    /// Writes an event.
    pub fn put(&mut self, event: &Event, out: &mut Vec<u8>) {
        self.follow(event);
        let written = match event {
            Event::Mail(mail) => {
                let (from, number) = mail.name();
                WrittenEvent::Mail(from, number)
            }
            Event::Try(candidate) => WrittenEvent::Try(candidate.number),
            Event::Adopt(candidate) => WrittenEvent::Adopt(candidate.number),
            other => WrittenEvent::Whole(other),
        };
        let done = put(&written, out);
        debug_assert!(done.is_ok(), "each value has a form: {event:?}");
    }

    /// Reads an event.
    pub fn take(&mut self, from: &mut Reader<'_>, named: &mut impl NamedMessages) -> Result<Event, Damaged> {
        let event = match from.take()? {
            WrittenEvent::Whole(event) => event,
            WrittenEvent::Mail(of, number) => {
                Event::Mail(named.mail(of, number).ok_or(Damaged("it names a message that no shard has sent"))?)
            }
            WrittenEvent::Try(number) => Event::Try(candidate(number, named)?),
            WrittenEvent::Adopt(number) => Event::Adopt(candidate(number, named)?),
        };
        self.follow(&event);
        Ok(event)
    }
}

fn candidate(number: u64, named: &mut impl NamedMessages) -> Result<Candidate, Damaged> {
    let policy = named.policy(number).ok_or(Damaged("it names a policy that it does not have"))?;
    Ok(Candidate { number, policy })
}

#[cfg(test)]
mod tests {
    use maple_core::engine::ReportedRule;
    use maple_core::network::{Facts, HostFacts, Location, Mac};
    use maple_core::state::Write;
    use maple_wire::msg::stats::Desc;
    use maple_wire::msg::{ErrorMsg, Features, PacketIn};
    use maple_wire::{Field, Instruction, Match, PortNo};

    use super::*;

    struct Nothing;

    impl NamedMessages for Nothing {
        fn mail(&mut self, _: ShardId, _: u64) -> Option<Mail> {
            None
        }

        fn policy(&mut self, _: u64) -> Option<Arc<dyn Policy>> {
            None
        }
    }

    fn events() -> Vec<Event> {
        let (dpid, version) = (Dpid(9), Version::Of13);
        let ports = vec![maple_wire::Port::new(PortNo(1), [2; 6], "one")];
        let features = Features { capabilities: 7, ..Features::new(dpid, 254) };
        let description = Desc { hardware: "Open vSwitch".into(), ..Desc::default() };
        let pipeline = Match::any().exact(Field::InPort, 1).exact(Field::Metadata, 1 << 40);
        let flow = ReportedRule {
            table_id: 1,
            priority: 7,
            cookie: 1 << 60,
            matching: Match::any().exact(Field::EthType, 0x800),
            instructions: vec![Instruction::GotoTable(2)],
        };
        let packet_in = PacketIn { table_id: 1, pipeline, ..PacketIn::new(1, vec![0xab; 64]) };
        let at = Location::new(dpid, PortNo(1));
        vec![
            Event::SwitchUp { dpid, version, features, description, ports, has_bundles: true },
            Event::RulesRead { dpid, rules: vec![flow] },
            Event::PacketIn { dpid, packet_in },
            Event::SwitchError { dpid, xid: 5, error: ErrorMsg { kind: 3, code: 1, data: vec![1, 2] } },
            Event::LinkUp { a: at, b: at },
            Event::Write(vec![Write::CostName("cost".into())]),
            Event::Declare {
                number: 3,
                facts: Arc::new(Facts::new([].into(), [(Mac([2; 6]), HostFacts::default())].into())),
            },
            Event::Tick,
        ]
    }

    #[test]
    fn events_are_read_as_they_were_written() {
        let (mut bytes, mut writer, mut reader) = (Vec::new(), Events::default(), Events::default());
        let all = events();
        all.iter().for_each(|event| writer.put(event, &mut bytes));
        let mut from = Reader::new(&bytes);
        for event in &all {
            let read = reader.take(&mut from, &mut Nothing).expect("it can be read");
            assert_eq!(format!("{read:?}"), format!("{event:?}"));
        }
        assert!(from.is_empty());
    }

    #[test]
    fn damaged_events_are_refused_and_never_a_panic() {
        let (mut bytes, mut writer) = (Vec::new(), Events::default());
        events().iter().for_each(|event| writer.put(event, &mut bytes));
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut other = bytes.clone();
                other[at] ^= 1 << bit;
                let (mut from, mut reader) = (Reader::new(&other), Events::default());
                while !from.is_empty() && reader.take(&mut from, &mut Nothing).is_ok() {}
            }
        }
    }

    #[test]
    fn an_event_that_names_a_policy_without_a_source_is_refused() {
        let mut bytes = Vec::new();
        put(&WrittenEvent::<Event>::Adopt(7), &mut bytes).expect("it can be written");
        let read = Events::default().take(&mut Reader::new(&bytes), &mut Nothing);
        assert_eq!(read.map(drop), Err(Damaged("it names a policy that it does not have")));
    }
}
