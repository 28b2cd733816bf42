//! The path of one packet through the tables and out of the ports (1.0 §3.3–3.4, 1.3 §5.1, §5.6–5.12).

use maple_wire::msg::{NO_BUFFER, PacketIn, PacketInReason, Version};
use maple_wire::packet::rewrite::{self, Applied};
use maple_wire::{Action, ActionSet, Constraint, Field, Instruction, Match, Message, Packet, PortNo};

use crate::switch::{Lost, Outgoing, Step, Switch};
use crate::time::Time;

/// The maximum nesting depth of outputs to `TABLE` and of groups; deeper packets are dropped.
const MAX_DEPTH: u8 = 8;

/// `OFPPC_NO_RECV`.
const NO_RECV: u32 = 1 << 2;
/// `OFPPC_NO_FLOOD` (1.0).
const NO_FLOOD: u32 = 1 << 4;
/// `OFPPC_NO_FWD`.
const NO_FWD: u32 = 1 << 5;
/// `OFPPC_NO_PACKET_IN`.
const NO_PACKET_IN: u32 = 1 << 6;

/// A packet inside the switch, with its pipeline fields.
#[derive(Clone, Debug)]
pub(super) struct Flight {
    pub frame: Vec<u8>,
    pub in_port: PortNo,
    metadata: u64,
    tunnel: u64,
    queue: Option<u32>,
    /// The rule that acts at present.
    origin: Origin,
    /// The origin for the action set: the first table's rule, or the packet-out.
    first: Option<Origin>,
    /// Whether a packet-out injected it.
    is_injected: bool,
    depth: u8,
}

/// The acting rule, as packet-ins report it.
#[derive(Clone, Copy, Debug)]
struct Origin {
    table: u8,
    cookie: u64,
    reason: PacketInReason,
}

impl Flight {
    pub(super) fn new(frame: Vec<u8>, in_port: PortNo) -> Flight {
        let origin = Origin { table: 0, cookie: u64::MAX, reason: PacketInReason::Action };
        Flight {
            frame,
            in_port,
            metadata: 0,
            tunnel: 0,
            queue: None,
            origin,
            first: None,
            is_injected: false,
            depth: 0,
        }
    }

    /// Creates the packet of a packet-out. Packet-ins that it causes name the packet-out as their origin: never a miss
    /// in 1.3, and without the cookie of a rule if an action set sends it.
    pub(super) fn injected(frame: Vec<u8>, in_port: PortNo) -> Flight {
        let flight = Flight::new(frame, in_port);
        Flight { first: Some(flight.origin), is_injected: true, ..flight }
    }

    /// Returns a copy for the buckets of a group, unless groups are nested too deeply. Buckets never report a miss.
    pub(super) fn inside_group(&self) -> Option<Flight> {
        let origin = Origin { reason: PacketInReason::Action, ..self.origin };
        (self.depth < MAX_DEPTH).then(|| Flight { origin, depth: self.depth + 1, ..self.clone() })
    }

    fn packet(&self) -> Packet<'_> {
        Packet::with_wire_len(&self.frame, self.in_port.0, self.frame.len())
    }

    /// The value of a field, as a switch sees it.
    fn value(&self, field: Field) -> Option<u128> {
        match field {
            Field::InPort | Field::InPhyPort => Some(u128::from(self.in_port.0)),
            Field::Metadata => Some(u128::from(self.metadata)),
            Field::TunnelId => Some(u128::from(self.tunnel)),
            field => self.packet().switch_value(field),
        }
    }
}

impl Switch {
    /// Receives a frame at a port. Returns the resulting outputs; then [`Switch::record`] has the rules that it met.
    pub fn receive(&mut self, now: Time, in_port: PortNo, frame: &[u8]) -> Vec<Outgoing> {
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
        self.tables_from(now, 0, Flight::new(frame.to_vec(), in_port), &mut out);
        if out.len() == before && self.record.lost.is_empty() {
            self.record.lost.push(Lost::ByRule);
        }
        out
    }

    /// Sends a packet through the tables, from `table` on.
    pub(super) fn tables_from(&mut self, now: Time, table: u8, mut flight: Flight, out: &mut Vec<Outgoing>) {
        let mut set = ActionSet::default();
        let mut next = Some(table);
        while let Some(table) = next {
            let Some(instructions) = self.look_up(now, table, &mut flight) else {
                self.miss(flight, table, out);
                return;
            };
            let mut alive = true;
            next = None;
            for instruction in &instructions {
                match instruction {
                    Instruction::ApplyActions(actions) => alive = alive && self.apply(now, &mut flight, actions, out),
                    Instruction::ClearActions => set.clear(),
                    Instruction::WriteActions(actions) => set.write(actions),
                    Instruction::WriteMetadata { metadata, mask } => {
                        flight.metadata = flight.metadata & !mask | metadata & mask;
                    }
                    Instruction::GotoTable(table) => next = Some(*table),
                    Instruction::Meter(meter) => alive = alive && self.meter(now, *meter, flight.frame.len()),
                    // The checks keep experimenter and unknown instructions out of tables.
                    Instruction::Experimenter { .. } | Instruction::Unknown { .. } => {}
                }
            }
            if !alive {
                return;
            }
        }
        if let Some(first) = flight.first {
            flight.origin = first;
        }
        self.apply(now, &mut flight, &set.in_order(), out);
    }

    /// Returns the instructions of the rule that takes the packet.
    fn look_up(&mut self, now: Time, table: u8, flight: &mut Flight) -> Option<Vec<Instruction>> {
        let of13 = self.version == Version::Of13;
        self.make_room(table);
        let packet = flight.packet();
        let found = self.tables[usize::from(table)].lookup(|field| match field {
            Field::InPort | Field::InPhyPort | Field::Metadata | Field::TunnelId => flight.value(field),
            field => packet.switch_value(field),
        });
        let Some(found) = found else {
            self.record.steps.push(Step::Miss { table });
            return None;
        };
        let rule = found.rule;
        rule.packets += 1;
        rule.bytes += flight.frame.len() as u64;
        rule.used = now;
        let (priority, cookie, ambiguous) = (rule.priority, rule.cookie, found.ambiguous);
        self.record.steps.push(Step::Rule { table, priority, cookie, ambiguous });
        let is_miss = rule.is_table_miss() && of13 && !flight.is_injected;
        let reason = if is_miss { PacketInReason::NoMatch } else { PacketInReason::Action };
        let instructions = rule.instructions.clone();
        flight.origin = Origin { table, cookie, reason };
        flight.first.get_or_insert(Origin { reason: PacketInReason::Action, ..flight.origin });
        Some(instructions)
    }

    /// Handles a table miss: 1.0 sends the packet to the controller, 1.3 drops it.
    fn miss(&mut self, mut flight: Flight, table: u8, out: &mut Vec<Outgoing>) {
        match self.version {
            Version::Of10 => {
                flight.origin = Origin { table, cookie: u64::MAX, reason: PacketInReason::NoMatch };
                self.packet_in(&flight, out);
            }
            Version::Of13 => self.record.lost.push(Lost::NoRule),
        }
    }

    /// Applies the actions in order. Returns `false` if the packet was dropped because its time to live ran out.
    pub(super) fn apply(
        &mut self,
        now: Time,
        flight: &mut Flight,
        actions: &[Action],
        out: &mut Vec<Outgoing>,
    ) -> bool {
        for action in actions {
            match action {
                Action::Output { port, .. } => self.output(now, flight, *port, out),
                Action::Enqueue { port, queue } => {
                    let before = flight.queue.replace(*queue);
                    self.output(now, flight, *port, out);
                    flight.queue = before;
                }
                Action::SetQueue(queue) => flight.queue = Some(*queue),
                Action::Group(group) => self.group(now, flight, *group, out),
                Action::SetField(Constraint { field: Field::Metadata, value, .. }) => flight.metadata = *value as u64,
                Action::SetField(Constraint { field: Field::TunnelId, value, .. }) => flight.tunnel = *value as u64,
                // The checks keep all other actions that change nothing out of tables.
                action => {
                    if rewrite::apply(action, &mut flight.frame) == Applied::Expired {
                        self.expired(flight, out);
                        return false;
                    }
                }
            }
        }
        true
    }

    /// Drops a packet whose time to live is over, and sends it to a controller that wants such packets.
    fn expired(&mut self, flight: &Flight, out: &mut Vec<Outgoing>) {
        self.record.lost.push(Lost::TimeToLive);
        let reason = PacketInReason::InvalidTtl;
        if self.version == Version::Of13 && self.is_connected() && self.wants_packet_in(reason) {
            let origin = Origin { reason, ..flight.origin };
            self.packet_in(&Flight { origin, ..flight.clone() }, out);
        }
    }

    fn output(&mut self, now: Time, flight: &Flight, port: PortNo, out: &mut Vec<Outgoing>) {
        match port {
            PortNo::IN_PORT => self.transmit(flight, flight.in_port, out),
            PortNo::CONTROLLER => self.packet_in(flight, out),
            PortNo::NORMAL => self.normal(now, flight, out),
            PortNo::TABLE if flight.depth < MAX_DEPTH => {
                let mut again = flight.clone();
                again.depth += 1;
                self.tables_from(now, 0, again, out);
            }
            PortNo::TABLE => self.record.lost.push(Lost::TooDeep),
            PortNo::FLOOD | PortNo::ALL => self.flood(flight, port, out),
            port if port == flight.in_port => self.record.lost.push(Lost::ToIngress(port)),
            port => self.transmit(flight, port, out),
        }
    }

    /// Sends the packet out of all ports, or of those that take part in a flood.
    pub(super) fn flood(&mut self, flight: &Flight, port: PortNo, out: &mut Vec<Outgoing>) {
        let open = |config: u32| config & NO_FWD == 0 && (port == PortNo::ALL || config & NO_FLOOD == 0);
        let targets: Vec<PortNo> = self
            .ports
            .values()
            .map(|p| &p.description)
            .filter(|p| p.number != flight.in_port && p.is_up() && open(p.config))
            .map(|p| p.number)
            .collect();
        if targets.is_empty() {
            self.record.lost.push(Lost::NowhereToFlood);
        }
        targets.into_iter().for_each(|port| self.transmit(flight, port, out));
    }

    pub(super) fn transmit(&mut self, flight: &Flight, number: PortNo, out: &mut Vec<Outgoing>) {
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
        port.counters.tx_bytes += flight.frame.len() as u64;
        out.push(Outgoing::Frame { port: number, queue: flight.queue, frame: flight.frame.clone() });
    }

    /// Sends the whole packet to the controller, because no buffer keeps the rest (1.0 §5.4.1, 1.3 §7.4.1).
    fn packet_in(&mut self, flight: &Flight, out: &mut Vec<Outgoing>) {
        let muted = self.ports.get(&flight.in_port).is_some_and(|p| p.description.config & NO_PACKET_IN != 0);
        let reason = flight.origin.reason;
        if muted || !self.is_connected() || !self.wants_packet_in(reason) {
            self.record.lost.push(Lost::NoController);
            return;
        }
        self.counters.packet_ins += 1;
        let mut pipeline = Match::any().exact(Field::InPort, u128::from(flight.in_port.0));
        if flight.metadata != 0 {
            pipeline = pipeline.exact(Field::Metadata, u128::from(flight.metadata));
        }
        if flight.tunnel != 0 {
            pipeline = pipeline.exact(Field::TunnelId, u128::from(flight.tunnel));
        }
        let of13 = self.version == Version::Of13;
        let message = Message::PacketIn(PacketIn {
            buffer_id: NO_BUFFER,
            total_len: flight.frame.len().min(usize::from(u16::MAX)) as u16,
            reason,
            table_id: if of13 { flight.origin.table } else { 0 },
            cookie: if of13 { flight.origin.cookie } else { u64::MAX },
            pipeline,
            data: flight.frame.clone(),
        });
        out.push(Outgoing::Message { xid: 0, message });
    }
}
