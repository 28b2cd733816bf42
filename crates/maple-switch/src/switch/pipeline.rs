//! The path of one packet through the tables and out of the ports (1.0 §3.3–3.4, 1.3 §5.1, §5.6–5.12).

use std::sync::Arc;

use maple_wire::msg::{NO_BUFFER, PacketIn, PacketInReason, Version};
use maple_wire::packet::flight::{Effect, Flight, Next};
use maple_wire::{Action, ActionSet, Field, Instruction, Match, Message, PortNo};

use super::{Lost, Outgoing, PassedTable, Switch};
use crate::time::Nanoseconds;

/// The maximum nesting depth of outputs to `TABLE` and of groups, which bounds the stack; deeper packets are dropped.
/// Chosen: groups lead to groups once or twice, and a circle of them ends soon.
const MAX_DEPTH: u8 = 8;

/// `OFPPC_NO_RECV`.
const NO_RECV: u32 = 1 << 2;
/// `OFPPC_NO_FLOOD` (1.0).
const NO_FLOOD: u32 = 1 << 4;
/// `OFPPC_NO_FWD`.
const NO_FWD: u32 = 1 << 5;
/// `OFPPC_NO_PACKET_IN`: in 1.0 no packet-ins of the port's packets (1.0 §5.2.1), in 1.3 none of table misses (1.3
/// §7.2.1).
pub(super) const NO_PACKET_IN: u32 = 1 << 6;

/// A packet inside the switch, and what its packet-ins say.
#[derive(Clone, Debug)]
pub(super) struct PacketInSwitch {
    pub flight: Flight,
    /// The rule that acts at present.
    origin: Origin,
    /// The origin for the action set: the first table's rule, or the packet-out.
    first: Option<Origin>,
    /// Whether a packet-out injected it.
    is_injected: bool,
    depth: u8,
}

/// The passage of a packet through one table.
enum TableOutcome {
    /// The packet goes on to this table, or to the end.
    To(Option<u8>),
    /// No rule took the packet, or its time to live ran out.
    Ended,
    /// The packet is gone.
    Dropped,
}

/// The acting rule, as packet-ins report it.
#[derive(Clone, Copy, Debug)]
struct Origin {
    table: u8,
    cookie: u64,
    reason: PacketInReason,
}

impl PacketInSwitch {
    pub(super) fn new(frame: Vec<u8>, in_port: PortNo) -> PacketInSwitch {
        let origin = Origin { table: 0, cookie: u64::MAX, reason: PacketInReason::Action };
        PacketInSwitch { flight: Flight::new(frame, in_port), origin, first: None, is_injected: false, depth: 0 }
    }

    /// Creates the packet of a packet-out. Packet-ins that it causes name the packet-out as their origin: never a miss
    /// in 1.3, and without the cookie of a rule if an action set sends it.
    pub(super) fn injected(frame: Vec<u8>, in_port: PortNo) -> PacketInSwitch {
        let passing = PacketInSwitch::new(frame, in_port);
        PacketInSwitch { first: Some(passing.origin), is_injected: true, ..passing }
    }

    /// Creates a copy for the buckets of a group, unless groups are nested too deeply. Buckets never report a miss.
    pub(super) fn inside_group(&self) -> Option<PacketInSwitch> {
        let origin = Origin { reason: PacketInReason::Action, ..self.origin };
        (self.depth < MAX_DEPTH).then(|| PacketInSwitch { origin, depth: self.depth + 1, ..self.clone() })
    }

    /// Returns a copy of the packet without actions to apply at the end, which passes the tables again.
    fn again(&self, queue: Option<u32>) -> PacketInSwitch {
        let set = ActionSet::default();
        let flight = Flight { queue, set, ..self.flight.clone() };
        PacketInSwitch { flight, depth: self.depth + 1, ..self.clone() }
    }
}

impl Switch {
    /// Receives a frame at a port. Returns the resulting outputs; then [`Switch::record`] has the rules that it met.
    pub fn receive(&mut self, now: Nanoseconds, in_port: PortNo, frame: impl Into<Vec<u8>>) -> Vec<Outgoing> {
        let frame = frame.into();
        let mut out = self.advance(now);
        self.record.clear();
        let Some(port) = self.ports.get_mut(&in_port) else {
            self.record.lost.push(Lost::NoSuchPort(in_port));
            return out;
        };
        if !port.description.is_up() || port.description.config & NO_RECV != 0 {
            port.counters.rx_dropped += 1;
            self.record.lost.push(Lost::PortDown(in_port));
            return out;
        }
        port.counters.rx_packets += 1;
        port.counters.rx_bytes += frame.len() as u64;
        let before = out.len();
        self.tables_from(now, 0, PacketInSwitch::new(frame, in_port), &mut out);
        if out.len() == before && self.record.lost.is_empty() {
            self.record.lost.push(Lost::ByRule);
        }
        out
    }

    /// Sends a packet through the tables, from `table` on.
    pub(super) fn tables_from(
        &mut self,
        now: Nanoseconds,
        table: u8,
        mut passing: PacketInSwitch,
        out: &mut Vec<Outgoing>,
    ) {
        let mut next = Some(table);
        while let Some(table) = next {
            next = match self.table(now, table, &mut passing, out) {
                TableOutcome::To(next) => next,
                // Open vSwitch applies the action set all the same.
                TableOutcome::Ended if self.options.open_vswitch => None,
                TableOutcome::Ended | TableOutcome::Dropped => return,
            };
        }
        if let Some(first) = passing.first {
            passing.origin = first;
        }
        let set = passing.flight.set.in_order();
        self.apply(now, &mut passing, &set, out);
    }

    /// Sends a packet through one table.
    fn table(
        &mut self,
        now: Nanoseconds,
        table: u8,
        passing: &mut PacketInSwitch,
        out: &mut Vec<Outgoing>,
    ) -> TableOutcome {
        let Some(instructions) = self.look_up(now, table, passing) else {
            self.miss(passing, table, out);
            return TableOutcome::Ended;
        };
        let mut next = None;
        for instruction in &*instructions {
            match passing.flight.execute(instruction) {
                Next::Apply(actions) if !self.apply(now, passing, actions, out) => return TableOutcome::Ended,
                Next::Meter(meter) if !self.meter(now, meter, passing.flight.frame.len()) => {
                    return TableOutcome::Dropped;
                }
                Next::Table(table) => next = Some(table),
                // The checks keep unknown instructions out of tables.
                Next::Apply(_) | Next::Meter(_) | Next::Done | Next::Unknown => {}
            }
        }
        TableOutcome::To(next)
    }

    /// Returns the instructions of the rule that takes the packet.
    fn look_up(&mut self, now: Nanoseconds, table: u8, passing: &mut PacketInSwitch) -> Option<Arc<[Instruction]>> {
        let of13 = self.version == Version::Of13;
        self.make_room(table);
        let (flight, fields) = (&passing.flight, &mut self.fields);
        let packet = flight.packet();
        fields.clear();
        let read = |field: Field| flight.carried(field).or_else(|| packet.switch_value(field));
        let found = self.tables[usize::from(table)].lookup(|field| fields.get(field, || read(field)));
        let Some(found) = found else {
            self.record.steps.push(PassedTable::Miss { table });
            return None;
        };
        let rule = found.rule;
        rule.packets += 1;
        rule.bytes += flight.frame.len() as u64;
        rule.used = now;
        let (priority, cookie, ambiguous) = (rule.priority, rule.cookie, found.ambiguous);
        self.record.steps.push(PassedTable::Rule { table, priority, cookie, ambiguous });
        let is_miss = rule.is_table_miss() && of13 && !passing.is_injected;
        let reason = if is_miss { PacketInReason::NoMatch } else { PacketInReason::Action };
        passing.origin = Origin { table, cookie, reason };
        passing.first.get_or_insert(Origin { reason: PacketInReason::Action, ..passing.origin });
        Some(Arc::clone(&rule.instructions))
    }

    /// Handles a table miss: 1.0 sends the packet to the controller, 1.3 drops it.
    fn miss(&mut self, passing: &mut PacketInSwitch, table: u8, out: &mut Vec<Outgoing>) {
        match self.version {
            Version::Of10 => {
                passing.origin = Origin { table, cookie: u64::MAX, reason: PacketInReason::NoMatch };
                self.packet_in(passing, out);
            }
            Version::Of13 => self.record.lost.push(Lost::NoRule),
        }
    }

    /// Applies the actions in order. Returns `false` if the packet was dropped because its time to live ran out.
    pub(super) fn apply(
        &mut self,
        now: Nanoseconds,
        passing: &mut PacketInSwitch,
        actions: &[Action],
        out: &mut Vec<Outgoing>,
    ) -> bool {
        for action in actions {
            match passing.flight.act(action) {
                Effect::Output(port, queue) => self.output(now, passing, port, queue, out),
                Effect::Group(group) => self.group(now, passing, group, out),
                Effect::Expired => {
                    self.expired(passing, out);
                    return false;
                }
                // The checks keep unknown actions out of tables.
                Effect::Done | Effect::Unknown => {}
            }
        }
        true
    }

    /// Drops a packet whose time to live is over, and sends it to a controller that wants such packets.
    fn expired(&mut self, passing: &PacketInSwitch, out: &mut Vec<Outgoing>) {
        self.record.lost.push(Lost::TimeToLive);
        let reason = PacketInReason::InvalidTtl;
        if self.version == Version::Of13 && self.has_packet_in_listener(reason) {
            let origin = Origin { reason, ..passing.origin };
            self.packet_in(&PacketInSwitch { origin, ..passing.clone() }, out);
        }
    }

    /// Reports whether a controller gets packet-ins for this reason.
    fn has_packet_in_listener(&self, reason: PacketInReason) -> bool {
        self.listeners(|connection| connection.wants_packet_in(reason)).next().is_some()
    }

    fn output(
        &mut self,
        now: Nanoseconds,
        passing: &PacketInSwitch,
        port: PortNo,
        queue: Option<u32>,
        out: &mut Vec<Outgoing>,
    ) {
        let in_port = passing.flight.in_port;
        match port {
            PortNo::IN_PORT => self.transmit(passing, in_port, queue, out),
            PortNo::CONTROLLER => self.packet_in(passing, out),
            PortNo::NORMAL => self.normal(now, passing, queue, out),
            PortNo::TABLE if passing.depth < MAX_DEPTH => self.tables_from(now, 0, passing.again(queue), out),
            PortNo::TABLE => self.record.lost.push(Lost::TooDeep),
            PortNo::FLOOD | PortNo::ALL => self.flood(passing, port, queue, out),
            port if port == in_port => self.record.lost.push(Lost::ToIngress(port)),
            port => self.transmit(passing, port, queue, out),
        }
    }

    /// Sends the packet out of all ports, or of those that take part in a flood.
    pub(super) fn flood(
        &mut self,
        passing: &PacketInSwitch,
        port: PortNo,
        queue: Option<u32>,
        out: &mut Vec<Outgoing>,
    ) {
        let open = |config: u32| config & NO_FWD == 0 && (port == PortNo::ALL || config & NO_FLOOD == 0);
        let targets: Vec<PortNo> = self
            .ports
            .values()
            .map(|p| &p.description)
            .filter(|p| p.number != passing.flight.in_port && p.is_up() && open(p.config))
            .map(|p| p.number)
            .collect();
        if targets.is_empty() {
            self.record.lost.push(Lost::NowhereToFlood);
        }
        targets.into_iter().for_each(|port| self.transmit(passing, port, queue, out));
    }

    pub(super) fn transmit(
        &mut self,
        passing: &PacketInSwitch,
        number: PortNo,
        queue: Option<u32>,
        out: &mut Vec<Outgoing>,
    ) {
        let frame = &passing.flight.frame;
        let Some(port) = self.ports.get_mut(&number) else {
            self.record.lost.push(Lost::NoSuchPort(number));
            return;
        };
        if !port.description.is_up() || port.description.config & NO_FWD != 0 {
            port.counters.tx_dropped += 1;
            self.record.lost.push(Lost::PortDown(number));
            return;
        }
        port.counters.tx_packets += 1;
        port.counters.tx_bytes += frame.len() as u64;
        out.push(Outgoing::Frame { port: number, queue, frame: frame.clone() });
    }

    /// Sends the whole packet to the controller, because no buffer keeps the rest (1.0 §5.4.1, 1.3 §7.4.1).
    fn packet_in(&mut self, PacketInSwitch { flight, origin, .. }: &PacketInSwitch, out: &mut Vec<Outgoing>) {
        let reason = origin.reason;
        let may_mute = self.version == Version::Of10 || reason == PacketInReason::NoMatch;
        let is_muted =
            may_mute && self.ports.get(&flight.in_port).is_some_and(|port| port.description.config & NO_PACKET_IN != 0);
        if is_muted || !self.has_packet_in_listener(reason) {
            self.record.lost.push(Lost::NoController);
            return;
        }
        let mut pipeline = Match::any().exact(Field::InPort, u128::from(flight.in_port.0));
        let of13 = self.version == Version::Of13;
        if of13 && flight.metadata != 0 {
            pipeline = pipeline.exact(Field::Metadata, u128::from(flight.metadata));
        }
        if of13 && flight.tunnel != 0 {
            pipeline = pipeline.exact(Field::TunnelId, u128::from(flight.tunnel));
        }
        let message = Message::PacketIn(PacketIn {
            buffer_id: NO_BUFFER,
            total_len: flight.frame.len().min(usize::from(u16::MAX)) as u16,
            reason,
            table_id: if of13 { origin.table } else { 0 },
            cookie: if of13 { origin.cookie } else { u64::MAX },
            pipeline,
            data: flight.frame.clone(),
        });
        self.counters.packet_ins += self.notify(|connection| connection.wants_packet_in(reason), message, out);
    }
}
