//! The forwarding of the switches: tables, groups, rewrites, ports, and the links between them.
//!
//! The fabric assumes nothing about the encoding of routes: it follows a frame through the present rules, whatever they
//! push, set or pop. A frame crosses a link without delay.

use std::rc::Rc;

use maple_wire::msg::{FlowMod, FlowModCommand, GroupMod, PacketInReason};
use maple_wire::packet::rewrite::{self, Applied};
use maple_wire::{Action, ActionSet, Field, Instruction, Packet, PortNo, Version};
use rustc_hash::FxHashMap;

use super::table::{Fields, Rule, Table};

/// Maximum number of switches on a frame's path.
const MOST_HOPS: usize = 64;
/// Maximum depth of nested groups.
const DEPTH: u8 = 4;
/// `OFPGC_*`, and the group number that means all groups.
const ADD: u16 = 0;
const MODIFY: u16 = 1;
const ALL_GROUPS: u32 = 0xffff_fffc;
/// `OFPGT_ALL`: each bucket gets a copy. For the other types the first bucket is used.
const EACH: u8 = 0;
/// The table number that means all tables.
const ALL_TABLES: u8 = 0xff;

/// A switch's place in the network, and a port.
pub type Place = (usize, u32);

/// The other end of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Far {
    /// A port with or without a host, but without a link.
    Edge,
    /// Another switch.
    Link(Place),
}

/// A port.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Port {
    pub far: Far,
    pub is_up: bool,
}

/// The part of a switch that forwards packets.
#[derive(Debug)]
pub(crate) struct Node {
    pub tables: Vec<Table>,
    pub groups: FxHashMap<u32, Rc<GroupMod>>,
    /// The ports by number. The first one is port 0, which does not exist.
    pub ports: Vec<Option<Port>>,
}

/// The outcome for a packet or a copy of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// It left by an edge port.
    Egress { at: Place, frame: Vec<u8> },
    /// A switch sends it to the controller.
    Punt { at: Place, table: u8, cookie: u64, metadata: u64, reason: PacketInReason, frame: Vec<u8> },
    /// It was lost: no rule matched, the rule has no output, or a port is down.
    Lost,
}

/// The switches and links of a network.
#[derive(Debug)]
pub(crate) struct Fabric {
    pub nodes: Vec<Node>,
    version: Version,
    fields: Fields,
    /// Frames that are about to arrive.
    arriving: Vec<(Place, Vec<u8>)>,
    /// The ports of links that the last packet left by, in order.
    pub crossed: Vec<Place>,
}

/// A packet inside a switch.
struct Flight {
    at: Place,
    frame: Vec<u8>,
    metadata: u64,
    table: u8,
    cookie: u64,
    reason: PacketInReason,
}

impl Flight {
    fn new(at: Place, frame: Vec<u8>) -> Flight {
        Flight { at, frame, metadata: 0, table: 0, cookie: u64::MAX, reason: PacketInReason::Action }
    }
}

impl Node {
    pub fn new(tables: u8, ports: Vec<Option<Port>>) -> Node {
        Node { tables: (0..tables).map(|_| Table::default()).collect(), groups: FxHashMap::default(), ports }
    }

    pub fn rules(&self) -> usize {
        self.tables.iter().map(Table::len).sum()
    }

    fn port(&self, number: u32) -> Option<Port> {
        self.ports.get(number as usize).copied().flatten().filter(|port| port.is_up)
    }

    /// Obeys a flow-mod. Returns the removed rules, with their tables. `None` if it cannot be obeyed.
    pub fn flow_mod(&mut self, version: Version, mut request: FlowMod) -> Option<Vec<(u8, Rule)>> {
        if version == Version::Of10 {
            (request.table_id, request.cookie_mask) = (0, 0);
        }
        let deletes = matches!(request.command, FlowModCommand::Delete | FlowModCommand::DeleteStrict);
        if request.table_id == ALL_TABLES && deletes {
            let strict = request.command == FlowModCommand::DeleteStrict;
            let tables = (0..).zip(&mut self.tables);
            let gone = |(id, table): (u8, &mut Table)| table.delete(&request, strict).into_iter().map(move |r| (id, r));
            return Some(tables.flat_map(gone).collect());
        }
        let id = request.table_id;
        let table = self.tables.get_mut(usize::from(id))?;
        match request.command {
            FlowModCommand::Add => table.add(request).then(Vec::new),
            FlowModCommand::Modify | FlowModCommand::ModifyStrict => {
                let strict = request.command == FlowModCommand::ModifyStrict;
                // In 1.0 a change of nothing is an addition.
                if table.modify(&request, strict) == 0 && version == Version::Of10 {
                    return table.add(request).then(Vec::new);
                }
                Some(Vec::new())
            }
            FlowModCommand::Delete => Some(table.delete(&request, false).into_iter().map(|rule| (id, rule)).collect()),
            FlowModCommand::DeleteStrict => {
                Some(table.delete(&request, true).into_iter().map(|rule| (id, rule)).collect())
            }
        }
    }

    /// Obeys a group-mod. Returns `false` if it cannot be obeyed. Rules that use a deleted group are deleted too.
    pub fn group_mod(&mut self, request: GroupMod) -> bool {
        let is_there = self.groups.contains_key(&request.group);
        match request.command {
            ADD if is_there => return false,
            MODIFY if !is_there => return false,
            ADD | MODIFY => {
                self.groups.insert(request.group, Rc::new(request));
            }
            _ => {
                let all = request.group == ALL_GROUPS;
                self.groups.retain(|group, _| !all && *group != request.group);
                let groups = &self.groups;
                let dangles = |rule: &Rule| {
                    rule.instructions
                        .iter()
                        .flat_map(Instruction::actions)
                        .any(|a| matches!(a, Action::Group(g) if !groups.contains_key(g)))
                };
                for table in &mut self.tables {
                    let users: Vec<Rule> = table.rules().filter(|rule| dangles(rule)).cloned().collect();
                    for rule in users {
                        let command = FlowModCommand::DeleteStrict;
                        table.delete(&FlowMod::new(command, rule.priority, rule.matching, Vec::new()), true);
                    }
                }
            }
        }
        true
    }
}

impl Fabric {
    pub fn new(version: Version, nodes: Vec<Node>) -> Fabric {
        Fabric { nodes, version, fields: Fields::new(), arriving: Vec::new(), crossed: Vec::new() }
    }

    /// Takes the ends of a link down or up.
    pub fn set_link(&mut self, ends: [Place; 2], is_up: bool) {
        for (switch, number) in ends {
            if let Some(port) = self.nodes[switch].ports[number as usize].as_mut() {
                port.is_up = is_up;
            }
        }
    }

    /// Takes a frame in by a port, and follows it.
    pub fn receive(&mut self, at: Place, frame: Vec<u8>, seen: &mut Vec<Seen>) {
        self.crossed.clear();
        self.arriving.push((at, frame));
        self.settle(seen);
    }

    /// Sends a packet-out's frame, and follows it.
    pub fn send(&mut self, at: Place, actions: &[Action], frame: Vec<u8>, seen: &mut Vec<Seen>) {
        self.crossed.clear();
        self.apply(&mut Flight::new(at, frame), actions, 0, seen);
        self.settle(seen);
    }

    /// Follows frames until none is in flight.
    fn settle(&mut self, seen: &mut Vec<Seen>) {
        let mut hops = 0;
        while let Some((at, frame)) = self.arriving.pop() {
            hops += 1;
            if hops > MOST_HOPS * 64 || self.nodes[at.0].port(at.1).is_none() {
                seen.push(Seen::Lost);
                continue;
            }
            self.pass(Flight::new(at, frame), seen);
        }
    }

    /// Passes a frame through one switch.
    fn pass(&mut self, mut flight: Flight, seen: &mut Vec<Seen>) {
        let before = seen.len() + self.arriving.len();
        let mut set = ActionSet::default();
        let mut next = Some(0);
        while let Some(table) = next {
            let Some(instructions) = self.look_up(table, &mut flight) else {
                self.miss(flight, table, seen);
                return;
            };
            next = None;
            for instruction in &*instructions {
                match instruction {
                    Instruction::ApplyActions(actions) => self.apply(&mut flight, actions, 0, seen),
                    Instruction::ClearActions => set.clear(),
                    Instruction::WriteActions(actions) => set.write(actions),
                    Instruction::WriteMetadata { metadata, mask } => {
                        flight.metadata = flight.metadata & !mask | metadata & mask;
                    }
                    Instruction::GotoTable(table) => next = Some(*table),
                    Instruction::Meter(_) | Instruction::Experimenter { .. } | Instruction::Unknown { .. } => {}
                }
            }
        }
        self.apply(&mut flight, &set.in_order(), 0, seen);
        if seen.len() + self.arriving.len() == before {
            seen.push(Seen::Lost);
        }
    }

    fn look_up(&mut self, table: u8, flight: &mut Flight) -> Option<Rc<[Instruction]>> {
        let (switch, port) = flight.at;
        self.fields.clear();
        self.fields.set(Field::InPort, port.into());
        self.fields.set(Field::InPhyPort, port.into());
        self.fields.set(Field::Metadata, flight.metadata.into());
        let packet = Packet::with_wire_len(&flight.frame, port, flight.frame.len());
        let rule = self.nodes[switch].tables.get_mut(usize::from(table))?.look_up(&mut self.fields, &packet)?;
        rule.packets += 1;
        rule.bytes += flight.frame.len() as u64;
        (flight.table, flight.cookie) = (table, rule.cookie);
        let is_miss_rule = rule.priority == 0 && rule.matching.fields.is_empty();
        flight.reason = if is_miss_rule { PacketInReason::NoMatch } else { PacketInReason::Action };
        Some(Rc::clone(&rule.instructions))
    }

    /// Handles a table miss: 1.0 sends the packet to the controller, 1.3 drops it.
    fn miss(&mut self, mut flight: Flight, table: u8, seen: &mut Vec<Seen>) {
        if self.version == Version::Of13 {
            seen.push(Seen::Lost);
            return;
        }
        (flight.table, flight.cookie, flight.reason) = (table, u64::MAX, PacketInReason::NoMatch);
        self.punt(&flight, seen);
    }

    fn punt(&self, flight: &Flight, seen: &mut Vec<Seen>) {
        let Flight { at, table, cookie, metadata, reason, .. } = *flight;
        seen.push(Seen::Punt { at, table, cookie, metadata, reason, frame: flight.frame.clone() });
    }

    fn apply(&mut self, flight: &mut Flight, actions: &[Action], depth: u8, seen: &mut Vec<Seen>) {
        for action in actions {
            match action {
                Action::Output { port, .. } | Action::Enqueue { port, .. } => self.output(flight, *port, seen),
                Action::Group(group) => self.group(flight, *group, depth, seen),
                other => {
                    if rewrite::apply(other, &mut flight.frame) == Applied::Expired {
                        return seen.push(Seen::Lost);
                    }
                }
            }
        }
    }

    /// Applies a group to copies of the packet.
    fn group(&mut self, flight: &Flight, group: u32, depth: u8, seen: &mut Vec<Seen>) {
        let Some(group) = self.nodes[flight.at.0].groups.get(&group).cloned() else { return };
        if depth == DEPTH {
            seen.push(Seen::Lost);
            return;
        }
        let count = if group.kind == EACH { group.buckets.len() } else { 1 };
        for bucket in group.buckets.iter().take(count) {
            let mut copy = Flight { frame: flight.frame.clone(), ..*flight };
            self.apply(&mut copy, &bucket.actions, depth + 1, seen);
        }
    }

    fn output(&mut self, flight: &Flight, port: PortNo, seen: &mut Vec<Seen>) {
        let (switch, in_port) = flight.at;
        match port {
            PortNo::CONTROLLER => self.punt(flight, seen),
            PortNo::TABLE => self.arriving.push((flight.at, flight.frame.clone())),
            PortNo::IN_PORT => self.transmit((switch, in_port), &flight.frame, seen),
            PortNo::FLOOD | PortNo::ALL => {
                for number in 1..self.nodes[switch].ports.len() as u32 {
                    if number != in_port && self.nodes[switch].port(number).is_some() {
                        self.transmit((switch, number), &flight.frame, seen);
                    }
                }
            }
            port if port.0 == in_port => seen.push(Seen::Lost),
            port => self.transmit((switch, port.0), &flight.frame, seen),
        }
    }

    fn transmit(&mut self, from: Place, frame: &[u8], seen: &mut Vec<Seen>) {
        match self.nodes[from.0].port(from.1).map(|port| port.far) {
            Some(Far::Edge) => seen.push(Seen::Egress { at: from, frame: frame.to_vec() }),
            Some(Far::Link(to)) => {
                self.crossed.push(from);
                self.arriving.push((to, frame.to_vec()));
            }
            None => seen.push(Seen::Lost),
        }
    }

    /// The number of rules of a switch that send to the controller.
    pub fn to_controller(&self, switch: usize) -> usize {
        let rules = self.nodes[switch].tables.iter().flat_map(Table::rules);
        rules.filter(|rule| Instruction::lead_to(&rule.instructions, PortNo::CONTROLLER, u32::MAX)).count()
    }
}
