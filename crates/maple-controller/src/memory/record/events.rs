//! Engines' events in a recording.
//!
//! Messages with actions or matches of rules are written as a switch sends them. Of mails from other shards, and of
//! policies, only the names are written: a replay makes them itself.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use maple_core::engine::{Candidate, CounterKind, Event, InstalledFlow, LiveFilter, Mail};
use maple_core::ids::ShardId;
use maple_core::network::{Facts, Location, Mac, OwnFrame};
use maple_core::policy::Policy;
use maple_core::remembered::{Surroundings, Witness};
use maple_core::rule::Rule;
use maple_core::state::{Commit, Selection, Write};
use maple_wire::msg::stats::Desc;
use maple_wire::msg::{ErrorMsg, Features, Message, PacketIn};
use maple_wire::{Constraint, Dpid, Port, Version};
use serde::{Deserialize, Serialize};

use crate::memory::format::{Damaged, Reader, put};
use crate::memory::message_bytes::{OTHER, flows, message, put_flows};

/// The reason why an event can't be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event can't be recorded: {0}")]
pub struct Unrecordable(String);

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
    /// The messages of the event that is being written.
    messages: Vec<u8>,
}

/// An event as it is written.
#[derive(Serialize, Deserialize)]
enum WrittenEvent<'a> {
    PacketIn(Dpid, Cow<'a, PacketIn>),
    OfSwitch(Dpid, #[serde(borrow)] SwitchEvent<'a>),
    Presume(Arc<Surroundings>, Cow<'a, BTreeSet<Dpid>>),
    LinkUp(Location, Location),
    LinkDown(Location, Location),
    Segment(Cow<'a, BTreeSet<Location>>),
    SegmentLeft(Location),
    PortIsEdge(Location),
    PortIsNew(Location),
    Mail(ShardId, u64),
    Send(Cow<'a, OwnFrame>),
    Invalidate(Cow<'a, Selection>),
    Write(Cow<'a, [Write]>),
    Committed(Cow<'a, Commit>),
    Try(u64),
    Adopt(u64),
    Abandon(u64),
    AwaitBarriers(u64),
    Tick,
    LiveBegin(u64, Location, Mac, Cow<'a, [Constraint]>),
    LiveGoOn(u64),
    LiveEnd(u64),
    Declare(u64, Arc<Facts>),
}

/// An event that a switch causes, other than a packet, as it is written.
#[derive(Serialize, Deserialize)]
enum SwitchEvent<'a> {
    Up {
        version: Version,
        features: Cow<'a, Features>,
        description: Cow<'a, Desc>,
        ports: Cow<'a, [Port]>,
        has_bundles: bool,
    },
    Down,
    Unreachable,
    Reachable,
    PortStatus(#[serde(with = "serde_bytes")] &'a [u8]),
    Restore {
        has_flows: bool,
        #[serde(with = "serde_bytes")]
        flows: &'a [u8],
        witnesses: Cow<'a, [Witness]>,
        earlier: Arc<Surroundings>,
    },
    FlowRemoved(#[serde(with = "serde_bytes")] &'a [u8]),
    Error(u32, Cow<'a, ErrorMsg>),
    BarrierReply(u32),
    FlowsRead(#[serde(with = "serde_bytes")] &'a [u8]),
    FlowStats(u32, #[serde(with = "serde_bytes")] &'a [u8]),
    Unsent(u32),
    ShowCounters(CounterKind),
    CountRule(u64, #[serde(with = "serde_bytes")] &'a [u8]),
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
    ///
    /// # Errors
    /// [`Unrecordable`] if a message of the event can't be encoded in the switch's version.
    pub fn put(&mut self, event: &Event, out: &mut Vec<u8>) -> Result<(), Unrecordable> {
        self.follow(event);
        let mut messages = std::mem::take(&mut self.messages);
        messages.clear();
        let written = self.written(event, &mut messages)?;
        put(&written, out).map_err(|error| Unrecordable(format!("{event:?}: {error}")))?;
        self.messages = messages;
        Ok(())
    }

    /// Reads an event.
    pub fn take(&mut self, from: &mut Reader<'_>, named: &mut impl NamedMessages) -> Result<Event, Damaged> {
        let event = from.take::<WrittenEvent<'_>>()?.event(named)?;
        self.follow(&event);
        Ok(event)
    }

    fn written<'a>(&self, event: &'a Event, messages: &'a mut Vec<u8>) -> Result<WrittenEvent<'a>, Unrecordable> {
        use Cow::Borrowed;
        Ok(match event {
            Event::PacketIn { dpid, packet_in } => WrittenEvent::PacketIn(*dpid, Borrowed(packet_in)),
            Event::Presume { earlier, switches } => WrittenEvent::Presume(Arc::clone(earlier), Borrowed(switches)),
            Event::LinkUp { a, b } => WrittenEvent::LinkUp(*a, *b),
            Event::LinkDown { a, b } => WrittenEvent::LinkDown(*a, *b),
            Event::Segment { ports } => WrittenEvent::Segment(Borrowed(ports)),
            Event::SegmentLeft { port } => WrittenEvent::SegmentLeft(*port),
            Event::PortIsEdge { port } => WrittenEvent::PortIsEdge(*port),
            Event::PortIsNew { port } => WrittenEvent::PortIsNew(*port),
            Event::Mail(mail) => {
                let (from, number) = mail.name();
                WrittenEvent::Mail(from, number)
            }
            Event::Send(own) => WrittenEvent::Send(Borrowed(own)),
            Event::Invalidate(selection) => WrittenEvent::Invalidate(Borrowed(selection)),
            Event::Write(writes) => WrittenEvent::Write(Borrowed(writes)),
            Event::Committed(commit) => WrittenEvent::Committed(Borrowed(commit)),
            Event::Try(candidate) => WrittenEvent::Try(candidate.number),
            Event::Adopt(candidate) => WrittenEvent::Adopt(candidate.number),
            Event::Abandon(number) => WrittenEvent::Abandon(*number),
            Event::AwaitBarriers(token) => WrittenEvent::AwaitBarriers(*token),
            Event::Tick => WrittenEvent::Tick,
            Event::LiveBegin { token, filter: LiveFilter { at, from, fields } } => {
                WrittenEvent::LiveBegin(*token, *at, *from, Borrowed(fields))
            }
            Event::LiveGoOn(token) => WrittenEvent::LiveGoOn(*token),
            Event::LiveEnd(token) => WrittenEvent::LiveEnd(*token),
            Event::Declare { number, facts } => WrittenEvent::Declare(*number, Arc::clone(facts)),
            _ => {
                let (dpid, event) = self.of_switch(event, messages)?;
                WrittenEvent::OfSwitch(dpid, event)
            }
        })
    }

    fn of_switch<'a>(
        &self,
        event: &'a Event,
        messages: &'a mut Vec<u8>,
    ) -> Result<(Dpid, SwitchEvent<'a>), Unrecordable> {
        use Cow::Borrowed;
        Ok(match event {
            Event::SwitchUp { dpid, version, features, description, ports, has_bundles } => {
                let (features, description, ports) = (Borrowed(features), Borrowed(description), Borrowed(&ports[..]));
                (*dpid, SwitchEvent::Up { version: *version, features, description, ports, has_bundles: *has_bundles })
            }
            Event::SwitchDown { dpid } => (*dpid, SwitchEvent::Down),
            Event::SwitchUnreachable { dpid } => (*dpid, SwitchEvent::Unreachable),
            Event::SwitchReachable { dpid } => (*dpid, SwitchEvent::Reachable),
            Event::PortStatus { dpid, status } => {
                let message = Message::PortStatus(status.clone());
                (*dpid, SwitchEvent::PortStatus(self.encoded(*dpid, &message, messages)?))
            }
            Event::Restore { dpid, flows, witnesses, earlier } => {
                let (has_flows, flows) = (flows.is_some(), flows.as_deref().unwrap_or_default());
                let (flows, witnesses) = (self.rules(*dpid, flows, messages)?, Borrowed(&witnesses[..]));
                (*dpid, SwitchEvent::Restore { has_flows, flows, witnesses, earlier: Arc::clone(earlier) })
            }
            Event::FlowRemoved { dpid, removed } => {
                let message = Message::FlowRemoved(removed.clone());
                (*dpid, SwitchEvent::FlowRemoved(self.encoded(*dpid, &message, messages)?))
            }
            Event::SwitchError { dpid, xid, error } => (*dpid, SwitchEvent::Error(*xid, Borrowed(error))),
            Event::BarrierReply { dpid, xid } => (*dpid, SwitchEvent::BarrierReply(*xid)),
            Event::FlowsRead { dpid, flows } => (*dpid, SwitchEvent::FlowsRead(self.rules(*dpid, flows, messages)?)),
            Event::FlowStats { dpid, xid, reply } => {
                let message = Message::StatsReply(reply.clone());
                (*dpid, SwitchEvent::FlowStats(*xid, self.encoded(*dpid, &message, messages)?))
            }
            Event::Unsent { dpid, xid } => (*dpid, SwitchEvent::Unsent(*xid)),
            Event::ShowCounters { dpid, what } => (*dpid, SwitchEvent::ShowCounters(*what)),
            Event::CountRule { dpid, token, table, rule } => {
                let Rule { priority, matching, instructions, cookie } = rule.clone();
                let (table_id, instructions) = (*table, instructions.to_vec());
                let flow = InstalledFlow { table_id, priority, cookie, matching, instructions };
                (*dpid, SwitchEvent::CountRule(*token, self.rules(*dpid, &[flow], messages)?))
            }
            other => return Err(Unrecordable(format!("{other:?}"))),
        })
    }

    /// Encodes a message in the version of its switch.
    fn encoded<'a>(&self, dpid: Dpid, message: &Message, out: &'a mut Vec<u8>) -> Result<&'a [u8], Unrecordable> {
        let done = message.encode(self.version(dpid), 0, out);
        done.map_err(|error| Unrecordable(format!("a message of switch {dpid}: {error}")))?;
        Ok(out)
    }

    /// Encodes the rules of a switch.
    fn rules<'a>(&self, dpid: Dpid, rules: &[InstalledFlow], out: &'a mut Vec<u8>) -> Result<&'a [u8], Unrecordable> {
        let done = put_flows(self.version(dpid), rules, out);
        done.map_err(|error| Unrecordable(format!("a rule of switch {dpid}: {error}")))?;
        Ok(out)
    }
}

impl WrittenEvent<'_> {
    fn event(self, named: &mut impl NamedMessages) -> Result<Event, Damaged> {
        Ok(match self {
            WrittenEvent::PacketIn(dpid, packet_in) => Event::PacketIn { dpid, packet_in: packet_in.into_owned() },
            WrittenEvent::OfSwitch(dpid, event) => event.event(dpid)?,
            WrittenEvent::Presume(earlier, switches) => Event::Presume { earlier, switches: switches.into_owned() },
            WrittenEvent::LinkUp(a, b) => Event::LinkUp { a, b },
            WrittenEvent::LinkDown(a, b) => Event::LinkDown { a, b },
            WrittenEvent::Segment(ports) => Event::Segment { ports: ports.into_owned() },
            WrittenEvent::SegmentLeft(port) => Event::SegmentLeft { port },
            WrittenEvent::PortIsEdge(port) => Event::PortIsEdge { port },
            WrittenEvent::PortIsNew(port) => Event::PortIsNew { port },
            WrittenEvent::Mail(of, number) => {
                Event::Mail(named.mail(of, number).ok_or(Damaged("it names a message that no shard has sent"))?)
            }
            WrittenEvent::Send(own) => Event::Send(own.into_owned()),
            WrittenEvent::Invalidate(selection) => Event::Invalidate(selection.into_owned()),
            WrittenEvent::Write(writes) => Event::Write(writes.into_owned()),
            WrittenEvent::Committed(commit) => Event::Committed(commit.into_owned()),
            WrittenEvent::Try(number) => Event::Try(candidate(number, named)?),
            WrittenEvent::Adopt(number) => Event::Adopt(candidate(number, named)?),
            WrittenEvent::Abandon(number) => Event::Abandon(number),
            WrittenEvent::AwaitBarriers(token) => Event::AwaitBarriers(token),
            WrittenEvent::Tick => Event::Tick,
            WrittenEvent::LiveBegin(token, at, from, fields) => {
                Event::LiveBegin { token, filter: LiveFilter { at, from, fields: fields.into_owned() } }
            }
            WrittenEvent::LiveGoOn(token) => Event::LiveGoOn(token),
            WrittenEvent::LiveEnd(token) => Event::LiveEnd(token),
            WrittenEvent::Declare(number, facts) => Event::Declare { number, facts },
        })
    }
}

fn candidate(number: u64, named: &mut impl NamedMessages) -> Result<Candidate, Damaged> {
    let policy = named.policy(number).ok_or(Damaged("it names a policy that it does not have"))?;
    Ok(Candidate { number, policy })
}

impl SwitchEvent<'_> {
    fn event(self, dpid: Dpid) -> Result<Event, Damaged> {
        Ok(match self {
            SwitchEvent::Up { version, features, description, ports, has_bundles } => {
                let (features, description) = (features.into_owned(), description.into_owned());
                Event::SwitchUp { dpid, version, features, description, ports: ports.into_owned(), has_bundles }
            }
            SwitchEvent::Down => Event::SwitchDown { dpid },
            SwitchEvent::Unreachable => Event::SwitchUnreachable { dpid },
            SwitchEvent::Reachable => Event::SwitchReachable { dpid },
            SwitchEvent::PortStatus(bytes) => {
                let Message::PortStatus(status) = message(bytes)? else { return Err(OTHER) };
                Event::PortStatus { dpid, status }
            }
            SwitchEvent::Restore { has_flows, flows: bytes, witnesses, earlier } => {
                let flows = flows(bytes)?;
                let (flows, witnesses) = (has_flows.then_some(flows), witnesses.into_owned());
                Event::Restore { dpid, flows, witnesses, earlier }
            }
            SwitchEvent::FlowRemoved(bytes) => {
                let Message::FlowRemoved(removed) = message(bytes)? else { return Err(OTHER) };
                Event::FlowRemoved { dpid, removed }
            }
            SwitchEvent::Error(xid, error) => Event::SwitchError { dpid, xid, error: error.into_owned() },
            SwitchEvent::BarrierReply(xid) => Event::BarrierReply { dpid, xid },
            SwitchEvent::FlowsRead(bytes) => Event::FlowsRead { dpid, flows: flows(bytes)? },
            SwitchEvent::FlowStats(xid, bytes) => {
                let Message::StatsReply(reply) = message(bytes)? else { return Err(OTHER) };
                Event::FlowStats { dpid, xid, reply }
            }
            SwitchEvent::Unsent(xid) => Event::Unsent { dpid, xid },
            SwitchEvent::ShowCounters(what) => Event::ShowCounters { dpid, what },
            SwitchEvent::CountRule(token, bytes) => {
                let flow = flows(bytes)?.pop().ok_or(Damaged("a rule is missing"))?;
                let InstalledFlow { table_id, priority, cookie, matching, instructions } = flow;
                let rule = Rule { priority, matching, instructions: instructions.into(), cookie };
                Event::CountRule { dpid, token, table: table_id, rule }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use maple_core::network::HostFacts;
    use maple_wire::msg::{NO_BUFFER, PacketInReason};
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
        let flow = InstalledFlow {
            table_id: 1,
            priority: 7,
            cookie: 1 << 60,
            matching: Match::any().exact(Field::EthType, 0x800),
            instructions: vec![Instruction::GotoTable(2)],
        };
        let packet_in = PacketIn {
            buffer_id: NO_BUFFER,
            total_len: 64,
            reason: PacketInReason::NoMatch,
            table_id: 1,
            cookie: u64::MAX,
            pipeline,
            data: vec![0xab; 64],
        };
        let at = Location::new(dpid, PortNo(1));
        vec![
            Event::SwitchUp { dpid, version, features, description, ports, has_bundles: true },
            Event::FlowsRead { dpid, flows: vec![flow] },
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
        all.iter().for_each(|event| writer.put(event, &mut bytes).expect("it can be written"));
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
        events().iter().for_each(|event| writer.put(event, &mut bytes).expect("it can be written"));
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
        put(&WrittenEvent::Adopt(7), &mut bytes).expect("it can be written");
        let read = Events::default().take(&mut Reader::new(&bytes), &mut Nothing);
        assert_eq!(read.map(drop), Err(Damaged("it names a policy that it does not have")));
    }
}
