//! The encoding of engines' events in a recording.
//!
//! OpenFlow messages are written as a switch sends them. Of mails from other shards, and of policies, only the names
//! are written: a replay makes them itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use maple_core::engine::{Candidate, Counted, Event, InstalledFlow, LiveFilter, Mail};
use maple_core::ids::ShardId;
use maple_core::policy::Policy;
use maple_core::rule::Rule;
use maple_wire::msg::stats::{Desc, StatsReply};
use maple_wire::msg::{ErrorMsg, FlowMod, FlowModCommand, Message, PacketIn, PacketInReason, PortStatus};
use maple_wire::{Constraint, Dpid, Field, Match, MatchField, Version};

use super::codec::{Codec, Damaged, Reader, codec_enum, codec_struct, put_sized};

codec_struct!(Desc { manufacturer, hardware, software, serial, datapath });
codec_struct!(LiveFilter { at, from, fields });
codec_enum!(Counted { 0 => Ports, 1 => Rules });

/// The reason why an event can't be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event can't be recorded: {0}")]
pub struct Unrecordable(String);

/// The mails and policies of a replay, which events name.
pub(crate) trait Named {
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
    scratch: Vec<u8>,
}

/// The numbers of events. 0 is left out.
mod tag {
    pub const SWITCH_UP: u8 = 1;
    pub const SWITCH_DOWN: u8 = 2;
    pub const PACKET_IN: u8 = 3;
    pub const PORT_STATUS: u8 = 4;
    pub const PRESUME: u8 = 5;
    pub const RESTORE: u8 = 6;
    pub const FLOW_REMOVED: u8 = 7;
    pub const SWITCH_ERROR: u8 = 8;
    pub const BARRIER_REPLY: u8 = 9;
    pub const FLOWS_READ: u8 = 10;
    pub const FLOW_STATS: u8 = 11;
    pub const UNSENT: u8 = 12;
    pub const WATCH: u8 = 13;
    pub const LINK_UP: u8 = 14;
    pub const LINK_DOWN: u8 = 15;
    pub const SEGMENT: u8 = 16;
    pub const SEGMENT_LEFT: u8 = 17;
    pub const PORT_IS_EDGE: u8 = 18;
    pub const PORT_IS_NEW: u8 = 19;
    pub const MAIL: u8 = 20;
    pub const SEND: u8 = 21;
    pub const INVALIDATE: u8 = 22;
    pub const WRITE: u8 = 23;
    pub const COMMITTED: u8 = 24;
    pub const TRY: u8 = 25;
    pub const ADOPT: u8 = 26;
    pub const ABANDON: u8 = 27;
    pub const AWAIT_BARRIERS: u8 = 28;
    pub const TICK: u8 = 29;
    pub const COUNT_RULE: u8 = 30;
    pub const LIVE_BEGIN: u8 = 31;
    pub const LIVE_GO_ON: u8 = 32;
    pub const LIVE_END: u8 = 33;
    pub const DECLARE: u8 = 34;
    pub const SWITCH_UNREACHABLE: u8 = 35;
    pub const SWITCH_REACHABLE: u8 = 36;
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
        match event {
            Event::PacketIn { dpid, packet_in } => {
                (tag::PACKET_IN, *dpid).put(out);
                put_packet_in(packet_in, out);
            }
            Event::Presume { earlier, switches } => {
                out.push(tag::PRESUME);
                (**earlier).put(out);
                switches.put(out);
            }
            Event::LinkUp { a, b } => (tag::LINK_UP, *a, *b).put(out),
            Event::LinkDown { a, b } => (tag::LINK_DOWN, *a, *b).put(out),
            Event::Segment { ports } => (tag::SEGMENT, ports.clone()).put(out),
            Event::SegmentLeft { port } => (tag::SEGMENT_LEFT, *port).put(out),
            Event::PortIsEdge { port } => (tag::PORT_IS_EDGE, *port).put(out),
            Event::PortIsNew { port } => (tag::PORT_IS_NEW, *port).put(out),
            Event::Mail(mail) => {
                let (from, number) = mail.name();
                (tag::MAIL, from, number).put(out);
            }
            Event::Send(own) => (tag::SEND, own.clone()).put(out),
            Event::Invalidate(selection) => (tag::INVALIDATE, selection.clone()).put(out),
            Event::Write(writes) => (tag::WRITE, writes.clone()).put(out),
            Event::Committed(commit) => (tag::COMMITTED, commit.clone()).put(out),
            Event::Try(candidate) => (tag::TRY, candidate.number).put(out),
            Event::Adopt(candidate) => (tag::ADOPT, candidate.number).put(out),
            Event::Abandon(number) => (tag::ABANDON, *number).put(out),
            Event::AwaitBarriers(token) => (tag::AWAIT_BARRIERS, *token).put(out),
            Event::Tick => out.push(tag::TICK),
            Event::LiveBegin { token, filter } => {
                (tag::LIVE_BEGIN, *token).put(out);
                filter.put(out);
            }
            Event::LiveGoOn(token) => (tag::LIVE_GO_ON, *token).put(out),
            Event::LiveEnd(token) => (tag::LIVE_END, *token).put(out),
            Event::Declare { number, facts } => (tag::DECLARE, *number, Arc::clone(facts)).put(out),
            Event::SwitchUp { .. }
            | Event::SwitchDown { .. }
            | Event::SwitchUnreachable { .. }
            | Event::SwitchReachable { .. }
            | Event::PortStatus { .. }
            | Event::Restore { .. }
            | Event::FlowRemoved { .. }
            | Event::SwitchError { .. }
            | Event::BarrierReply { .. }
            | Event::FlowsRead { .. }
            | Event::FlowStats { .. }
            | Event::Unsent { .. }
            | Event::Watch { .. }
            | Event::CountRule { .. } => self.put_of_switch(event, out)?,
        }
        Ok(())
    }

    /// Writes an event that a switch causes, other than a packet.
    fn put_of_switch(&mut self, event: &Event, out: &mut Vec<u8>) -> Result<(), Unrecordable> {
        match event {
            Event::SwitchUp { dpid, version, features, description, ports, has_bundles } => {
                (tag::SWITCH_UP, *dpid, *version).put(out);
                self.put_message(*dpid, &Message::FeaturesReply(features.clone()), out)?;
                description.put(out);
                (ports.clone(), *has_bundles).put(out);
            }
            Event::SwitchDown { dpid } => (tag::SWITCH_DOWN, *dpid).put(out),
            Event::SwitchUnreachable { dpid } => (tag::SWITCH_UNREACHABLE, *dpid).put(out),
            Event::SwitchReachable { dpid } => (tag::SWITCH_REACHABLE, *dpid).put(out),
            Event::PortStatus { dpid, status } => {
                (tag::PORT_STATUS, *dpid).put(out);
                self.put_message(*dpid, &Message::PortStatus(status.clone()), out)?;
            }
            Event::Restore { dpid, flows, witnesses, earlier } => {
                (tag::RESTORE, *dpid).put(out);
                flows.is_some().put(out);
                self.put_flows(*dpid, flows.as_deref().unwrap_or_default(), out)?;
                witnesses.put(out);
                (**earlier).put(out);
            }
            Event::FlowRemoved { dpid, removed } => {
                (tag::FLOW_REMOVED, *dpid).put(out);
                self.put_message(*dpid, &Message::FlowRemoved(removed.clone()), out)?;
            }
            Event::SwitchError { dpid, xid, error: ErrorMsg { kind, code, data } } => {
                (tag::SWITCH_ERROR, *dpid, *xid).put(out);
                (*kind, *code).put(out);
                put_sized(data, out);
            }
            Event::BarrierReply { dpid, xid } => (tag::BARRIER_REPLY, *dpid, *xid).put(out),
            Event::FlowsRead { dpid, flows } => {
                (tag::FLOWS_READ, *dpid).put(out);
                self.put_flows(*dpid, flows, out)?;
            }
            Event::FlowStats { dpid, xid, reply } => {
                (tag::FLOW_STATS, *dpid, *xid).put(out);
                self.put_message(*dpid, &Message::StatsReply(reply.clone()), out)?;
            }
            Event::Unsent { dpid, xid } => (tag::UNSENT, *dpid, *xid).put(out),
            Event::Watch { dpid, what } => {
                (tag::WATCH, *dpid).put(out);
                what.put(out);
            }
            Event::CountRule { dpid, token, table, rule } => {
                (tag::COUNT_RULE, *dpid, *token).put(out);
                let Rule { priority, matching, instructions, cookie } = rule.clone();
                let (table_id, instructions) = (*table, instructions.to_vec());
                let flow = InstalledFlow { table_id, priority, cookie, matching, instructions };
                self.put_flows(*dpid, &[flow], out)?;
            }
            other => return Err(Unrecordable(format!("{other:?}"))),
        }
        Ok(())
    }

    /// Reads an event.
    pub fn take(&mut self, from: &mut Reader<'_>, named: &mut impl Named) -> Result<Event, Damaged> {
        let event = self.take_one(from, named)?;
        self.follow(&event);
        Ok(event)
    }

    fn take_one(&mut self, from: &mut Reader<'_>, named: &mut impl Named) -> Result<Event, Damaged> {
        let tag = from.byte()?;
        Ok(match tag {
            tag::LINK_UP => Event::LinkUp { a: Codec::take(from)?, b: Codec::take(from)? },
            tag::LINK_DOWN => Event::LinkDown { a: Codec::take(from)?, b: Codec::take(from)? },
            tag::SEGMENT => Event::Segment { ports: Codec::take(from)? },
            tag::SEGMENT_LEFT => Event::SegmentLeft { port: Codec::take(from)? },
            tag::PORT_IS_EDGE => Event::PortIsEdge { port: Codec::take(from)? },
            tag::PORT_IS_NEW => Event::PortIsNew { port: Codec::take(from)? },
            tag::MAIL => {
                let (of, number) = Codec::take(from)?;
                Event::Mail(named.mail(of, number).ok_or(Damaged("it names a message that no shard has sent"))?)
            }
            tag::SEND => Event::Send(Codec::take(from)?),
            tag::INVALIDATE => Event::Invalidate(Codec::take(from)?),
            tag::WRITE => Event::Write(Codec::take(from)?),
            tag::COMMITTED => Event::Committed(Codec::take(from)?),
            tag::TRY => Event::Try(candidate(Codec::take(from)?, named)?),
            tag::ADOPT => Event::Adopt(candidate(Codec::take(from)?, named)?),
            tag::ABANDON => Event::Abandon(Codec::take(from)?),
            tag::AWAIT_BARRIERS => Event::AwaitBarriers(Codec::take(from)?),
            tag::TICK => Event::Tick,
            tag::LIVE_BEGIN => Event::LiveBegin { token: Codec::take(from)?, filter: Codec::take(from)? },
            tag::LIVE_GO_ON => Event::LiveGoOn(Codec::take(from)?),
            tag::LIVE_END => Event::LiveEnd(Codec::take(from)?),
            tag::DECLARE => Event::Declare { number: Codec::take(from)?, facts: Codec::take(from)? },
            tag::PRESUME => Event::Presume { earlier: Arc::new(Codec::take(from)?), switches: Codec::take(from)? },
            _ => {
                let dpid = Codec::take(from)?;
                self.take_of_switch(tag, dpid, from)?
            }
        })
    }

    fn take_of_switch(&mut self, tag: u8, dpid: Dpid, from: &mut Reader<'_>) -> Result<Event, Damaged> {
        Ok(match tag {
            tag::SWITCH_UP => {
                let version = Version::take(from)?;
                self.versions.insert(dpid, version);
                let Message::FeaturesReply(features) = message(from)? else { return Err(OTHER) };
                let description = Desc::take(from)?;
                let (ports, has_bundles) = Codec::take(from)?;
                Event::SwitchUp { dpid, version, features, description, ports, has_bundles }
            }
            tag::SWITCH_DOWN => Event::SwitchDown { dpid },
            tag::SWITCH_UNREACHABLE => Event::SwitchUnreachable { dpid },
            tag::SWITCH_REACHABLE => Event::SwitchReachable { dpid },
            tag::PACKET_IN => Event::PacketIn { dpid, packet_in: take_packet_in(from)? },
            tag::PORT_STATUS => Event::PortStatus { dpid, status: port_status(from)? },
            tag::RESTORE => Event::Restore {
                dpid,
                flows: told_flows(from)?,
                witnesses: Codec::take(from)?,
                earlier: Arc::new(Codec::take(from)?),
            },
            tag::FLOW_REMOVED => {
                let Message::FlowRemoved(removed) = message(from)? else { return Err(OTHER) };
                Event::FlowRemoved { dpid, removed }
            }
            tag::SWITCH_ERROR => {
                let (xid, (kind, code)) = Codec::take(from)?;
                Event::SwitchError { dpid, xid, error: ErrorMsg { kind, code, data: from.sized()?.to_vec() } }
            }
            tag::BARRIER_REPLY => Event::BarrierReply { dpid, xid: Codec::take(from)? },
            tag::FLOWS_READ => Event::FlowsRead { dpid, flows: flows(from)? },
            tag::FLOW_STATS => Event::FlowStats { dpid, xid: Codec::take(from)?, reply: stats(from)? },
            tag::COUNT_RULE => count_rule(dpid, from)?,
            tag::UNSENT => Event::Unsent { dpid, xid: Codec::take(from)? },
            tag::WATCH => Event::Watch { dpid, what: Codec::take(from)? },
            _ => return Err(Damaged("there is no such event")),
        })
    }

    /// Writes a message with its length.
    fn put_message(&mut self, dpid: Dpid, message: &Message, out: &mut Vec<u8>) -> Result<(), Unrecordable> {
        let version = self.version(dpid);
        self.scratch.clear();
        let done = message.encode(version, 0, &mut self.scratch);
        done.map_err(|error| Unrecordable(format!("a message of switch {dpid}: {error}")))?;
        put_sized(&self.scratch, out);
        Ok(())
    }

    /// Writes the rules of a switch, each as a message that would add it.
    fn put_flows(&mut self, dpid: Dpid, flows: &[InstalledFlow], out: &mut Vec<u8>) -> Result<(), Unrecordable> {
        flows.len().put(out);
        for flow in flows {
            let InstalledFlow { table_id, priority, cookie, matching, instructions } = flow.clone();
            let added = FlowMod::new(FlowModCommand::Add, priority, matching, instructions);
            self.put_message(dpid, &Message::FlowMod(FlowMod { table_id, cookie, ..added }), out)?;
        }
        Ok(())
    }
}

const OTHER: Damaged = Damaged("a message is of another type than its event");

fn message(from: &mut Reader<'_>) -> Result<Message, Damaged> {
    let decoded = Message::decode(from.sized()?);
    Ok(decoded.map_err(|_| Damaged("an OpenFlow message can't be read"))?.1)
}

fn port_status(from: &mut Reader<'_>) -> Result<PortStatus, Damaged> {
    let Message::PortStatus(status) = message(from)? else { return Err(OTHER) };
    Ok(status)
}

fn stats(from: &mut Reader<'_>) -> Result<StatsReply, Damaged> {
    let Message::StatsReply(reply) = message(from)? else { return Err(OTHER) };
    Ok(reply)
}

fn flows(from: &mut Reader<'_>) -> Result<Vec<InstalledFlow>, Damaged> {
    let mut all = Vec::new();
    for _ in 0..from.length()? {
        let Message::FlowMod(flow) = message(from)? else { return Err(OTHER) };
        let FlowMod { table_id, priority, cookie, matching, instructions, .. } = flow;
        all.push(InstalledFlow { table_id, priority, cookie, matching, instructions });
    }
    Ok(all)
}

/// Reads the rules that another controller has reported, if it has.
fn told_flows(from: &mut Reader<'_>) -> Result<Option<Vec<InstalledFlow>>, Damaged> {
    let (is_told, flows) = (bool::take(from)?, flows(from)?);
    Ok(is_told.then_some(flows))
}

fn count_rule(dpid: Dpid, from: &mut Reader<'_>) -> Result<Event, Damaged> {
    let token = Codec::take(from)?;
    let flow = flows(from)?.pop().ok_or(Damaged("a rule is missing"))?;
    let InstalledFlow { table_id, priority, cookie, matching, instructions } = flow;
    let rule = Rule { priority, matching, instructions: instructions.into(), cookie };
    Ok(Event::CountRule { dpid, token, table: table_id, rule })
}

fn candidate(number: u64, named: &mut impl Named) -> Result<Candidate, Damaged> {
    let policy = named.policy(number).ok_or(Damaged("it names a policy that it does not have"))?;
    Ok(Candidate { number, policy })
}

/// Writes a packet-in, the most frequent event.
fn put_packet_in(packet_in: &PacketIn, out: &mut Vec<u8>) {
    let PacketIn { buffer_id, total_len, reason, table_id, cookie, pipeline, data } = packet_in;
    out.extend_from_slice(&buffer_id.to_be_bytes());
    out.extend_from_slice(&total_len.to_be_bytes());
    out.extend_from_slice(&[reason_number(*reason), *table_id]);
    out.extend_from_slice(&cookie.to_be_bytes());
    pipeline.fields.len().put(out);
    for field in &pipeline.fields {
        match field {
            // Mostly this is the port, unmasked.
            MatchField::Known(Constraint { field, value, mask }) if *mask == field.full_mask() => {
                out.extend_from_slice(&[0, field.oxm()]);
                value.put(out);
            }
            MatchField::Known(constraint) => {
                out.push(1);
                constraint.put(out);
            }
            MatchField::Unknown { header, body } => {
                out.push(2);
                header.put(out);
                put_sized(body, out);
            }
        }
    }
    put_sized(data, out);
}

fn take_packet_in(from: &mut Reader<'_>) -> Result<PacketIn, Damaged> {
    let buffer_id = u32::from_be_bytes(Codec::take(from)?);
    let total_len = u16::from_be_bytes(Codec::take(from)?);
    let (reason, table_id) = (reason(from.byte()?), from.byte()?);
    let cookie = u64::from_be_bytes(Codec::take(from)?);
    let mut fields = Vec::new();
    for _ in 0..from.length()? {
        fields.push(match from.byte()? {
            0 => MatchField::Known(Constraint::exact(Field::take(from)?, Codec::take(from)?)),
            1 => MatchField::Known(Codec::take(from)?),
            2 => MatchField::Unknown { header: Codec::take(from)?, body: from.sized()?.to_vec() },
            _ => return Err(Damaged("there is no such match")),
        });
    }
    let (pipeline, data) = (Match { fields }, from.sized()?.to_vec());
    Ok(PacketIn { buffer_id, total_len, reason, table_id, cookie, pipeline, data })
}

fn reason_number(reason: PacketInReason) -> u8 {
    match reason {
        PacketInReason::NoMatch => 0,
        PacketInReason::Action => 1,
        PacketInReason::InvalidTtl => 2,
        PacketInReason::Other(number) => number,
    }
}

fn reason(number: u8) -> PacketInReason {
    match number {
        0 => PacketInReason::NoMatch,
        1 => PacketInReason::Action,
        2 => PacketInReason::InvalidTtl,
        number => PacketInReason::Other(number),
    }
}

#[cfg(test)]
mod tests {
    use maple_core::network::{Facts, HostFacts, Location, Mac};
    use maple_core::state::Write;
    use maple_wire::msg::{Features, NO_BUFFER};
    use maple_wire::{Instruction, PortNo};

    use super::*;

    struct Nothing;

    impl Named for Nothing {
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
        let features = Features {
            dpid,
            n_buffers: 0,
            n_tables: 254,
            auxiliary_id: 0,
            capabilities: 7,
            actions: 0,
            ports: Vec::new(),
        };
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
            Event::Write(vec![Write::Weight("cost".into())]),
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
        let bytes = [tag::ADOPT, 7];
        let read = Events::default().take(&mut Reader::new(&bytes), &mut Nothing);
        assert_eq!(read.map(drop), Err(Damaged("it names a policy that it does not have")));
    }
}
