//! An OpenFlow switch without sockets and clocks: messages and frames in, messages and frames out.
//!
//! It accepts, refuses and answers what Open vSwitch does, and [`Record`] describes what happened to each packet.
//! `docs/emulator.md` lists the differences, and `tests/system/test_emulator.py` compares the two. If several matching
//! rules have one priority, the oldest rule wins.

use std::collections::BTreeMap;
use std::fmt;

use maple_wire::msg::ALL_TABLES;
use maple_wire::msg::{FlowMod, FlowModCommand, FlowRemoved, Header, NO_BUFFER, PacketOut};
use maple_wire::{Dpid, Message, PortNo, Version};

use crate::time::{Nanoseconds, SECOND};

mod refusal;
mod table;

mod bundles;
mod check;
mod connection;
mod fields;
mod groups;
mod meters;
mod normal;
mod operator;
mod pipeline;
mod ports;
mod queues;
mod roles;
mod stats;

pub use groups::{Group, GroupKind};
pub use meters::Meter;
pub use ports::{PortCounters, SwitchPort};
pub use queues::{Queue, QueueCounters, QueueRates};
pub use refusal::Refusal;
pub use table::{Removal, Rule, Table};

#[cfg(test)]
mod tests;

use check::{Abilities, ActionPlace};
use connection::Connection;
use fields::Fields;
use normal::Learned;
use pipeline::PacketInSwitch;

/// The capacity of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchOptions {
    /// The number of tables in 1.3, 1 to 254. In 1.0 it is always one.
    pub n_tables: u8,
    /// The maximum number of rules of each table whose size was not set with [`Switch::set_table_size`].
    pub table_size: usize,
    /// The maximum number of rules of all tables together.
    pub capacity: usize,
    /// Whether it claims to be an Open vSwitch, and follows it where that violates the specification:
    ///
    /// * It accepts masks on transport ports.
    /// * It accepts no port above 0xfeff.
    /// * It applies the action set of a packet that is dropped on its way.
    /// * It grants Nicira's role requests, which have no generations, in 1.3 too.
    /// * It lets no slave choose what becomes of fragments.
    pub open_vswitch: bool,
    /// Whether it has bundles, in 1.3.
    pub bundles: bool,
}

impl Default for SwitchOptions {
    /// Returns 254 tables of 65,536 rules, as many tables as Open vSwitch has; strict, with bundles.
    fn default() -> SwitchOptions {
        SwitchOptions { n_tables: 254, table_size: 65_536, capacity: usize::MAX, open_vswitch: false, bundles: true }
    }
}

/// One of a switch's controllers, by its place in the switch's list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ControllerId(pub u16);

impl ControllerId {
    /// The first one, and the only one of most switches.
    pub const FIRST: ControllerId = ControllerId(0);

    fn index(self) -> usize {
        self.0.into()
    }
}

/// The output of a switch after a message, a frame, or time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outgoing {
    /// Sends a message to a controller.
    Message {
        /// The controller.
        controller: ControllerId,
        /// The transaction id: the request's, or 0.
        xid: u32,
        /// The message.
        message: Message,
    },
    /// Sends a frame.
    Frame {
        /// The port to send it out of.
        port: PortNo,
        /// The queue of the port, if the rule chose one.
        queue: Option<u32>,
        /// The frame.
        frame: Vec<u8>,
    },
    /// Closes the connection to this controller.
    Close(ControllerId),
}

/// A table that a packet passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PassedTable {
    /// A rule took it.
    Rule {
        /// The table.
        table: u8,
        /// The rule's priority.
        priority: u16,
        /// The rule's cookie.
        cookie: u64,
        /// Whether another rule of this priority with other instructions matches as well.
        ambiguous: bool,
    },
    /// No rule matched.
    Miss {
        /// The table.
        table: u8,
    },
}

/// The reason why a packet, or a copy of it, was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lost {
    /// No rule matched.
    NoRule,
    /// A rule without outputs took it.
    ByRule,
    /// A rule would have sent it back out of its ingress port.
    ToIngress(PortNo),
    /// The switch has no such port.
    NoSuchPort(PortNo),
    /// The port is down or configured not to pass packets.
    PortDown(PortNo),
    /// A flood found no port that is up.
    NowhereToFlood,
    /// Its time to live ran out.
    TimeToLive,
    /// The packet was for the controller, which is not connected or does not want it.
    NoController,
    /// A meter's rate was exceeded.
    Metered(u32),
    /// Its destination is an address that bridges do not forward.
    Reserved,
    /// Groups or outputs to the table were nested too deeply.
    TooDeep,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Lost::NoRule => f.write_str("no rule matched"),
            Lost::ByRule => f.write_str("a rule dropped it"),
            Lost::ToIngress(port) => write!(f, "it would have gone back out of port {port}"),
            Lost::NoSuchPort(port) => write!(f, "there is no port {port}"),
            Lost::PortDown(port) => write!(f, "port {port} was down"),
            Lost::NowhereToFlood => f.write_str("there was no port to flood to"),
            Lost::TimeToLive => f.write_str("its time to live was over"),
            Lost::NoController => f.write_str("it was for the controller, which was not there"),
            Lost::Reserved => f.write_str("bridges do not forward its destination"),
            Lost::Metered(meter) => write!(f, "meter {meter} dropped it"),
            Lost::TooDeep => f.write_str("groups or tables led in a circle"),
        }
    }
}

/// The record of the last processed packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The tables that it passed, in order.
    pub steps: Vec<PassedTable>,
    /// Its losses.
    pub lost: Vec<Lost>,
}

impl Record {
    fn clear(&mut self) {
        self.steps.clear();
        self.lost.clear();
    }
}

/// The counters of a switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SwitchCounters {
    /// Packet-ins sent.
    pub packet_ins: u64,
    /// Packet-outs executed.
    pub packet_outs: u64,
    /// Flow-mods received, including refused ones.
    pub flow_mods: u64,
    /// Barriers answered.
    pub barriers: u64,
    /// Errors sent, except for messages of unknown experimenters, by which a controller discovers the abilities of a
    /// switch.
    pub errors: u64,
}

/// A switch.
#[derive(Clone, Debug)]
pub struct Switch {
    dpid: Dpid,
    version: Version,
    options: SwitchOptions,
    /// The tables from the first to the last used one, at least one.
    tables: Vec<Table>,
    groups: BTreeMap<u32, Group>,
    meters: BTreeMap<u32, Meter>,
    queues: BTreeMap<(PortNo, u32), Queue>,
    ports: BTreeMap<PortNo, SwitchPort>,
    learned: Learned,
    /// The treatment of fragments: the flags `OFPC_FRAG_*`.
    fragments: u16,
    /// The connections, by controller.
    connections: Vec<Connection>,
    /// The latest generation of a master or slave. It outlives connections.
    generation: Option<u64>,
    fields: Fields,
    record: Record,
    counters: SwitchCounters,
}

impl Switch {
    /// Creates a switch without ports, rules and connection.
    pub fn new(dpid: Dpid, version: Version, options: SwitchOptions) -> Switch {
        Switch {
            dpid,
            version,
            options,
            tables: vec![Table::new(options.table_size)],
            groups: BTreeMap::new(),
            meters: BTreeMap::new(),
            queues: BTreeMap::new(),
            ports: BTreeMap::new(),
            learned: Learned::default(),
            fragments: 0,
            connections: Vec::new(),
            generation: None,
            fields: Fields::default(),
            record: Record::default(),
            counters: SwitchCounters::default(),
        }
    }

    /// Returns the switch's datapath id.
    pub fn dpid(&self) -> Dpid {
        self.dpid
    }

    /// Returns the OpenFlow version that the switch speaks.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Returns the tables, in order: at least the first one, and all up to the last used one.
    pub fn tables(&self) -> &[Table] {
        &self.tables
    }

    /// Returns the ports, by number.
    pub fn ports(&self) -> &BTreeMap<PortNo, SwitchPort> {
        &self.ports
    }

    /// Returns the counters.
    pub fn counters(&self) -> SwitchCounters {
        self.counters
    }

    /// Returns the record of the last processed packet, from [`Switch::receive`] or a packet-out.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// Returns the number of packets that met several rules of one priority with different instructions.
    pub fn ambiguous_matches(&self) -> u64 {
        self.tables.iter().map(|t| t.ambiguous_matches).sum()
    }

    /// Returns the groups, by number.
    pub fn groups(&self) -> impl Iterator<Item = (u32, &Group)> {
        self.groups.iter().map(|(number, group)| (*number, group))
    }

    /// Restarts the switch as after a power cut: it loses rules, groups, meters, learned addresses, configuration,
    /// connections and the generation of masters. Ports, queues and sizes of tables stay as they are.
    pub fn restart(&mut self) {
        let fresh = Switch::new(self.dpid, self.version, self.options);
        let (ports, queues, counters) =
            (std::mem::take(&mut self.ports), std::mem::take(&mut self.queues), self.counters);
        let tables = self.tables.iter().map(|table| Table::new(table.capacity())).collect();
        *self = Switch { ports, queues, counters, tables, ..fresh };
        for port in self.ports.values_mut() {
            port.description.config = 0;
        }
    }

    /// Lets time pass: removes rules whose timeouts are over.
    pub fn advance(&mut self, now: Nanoseconds) -> Vec<Outgoing> {
        let mut out = Vec::new();
        for table in 0..self.tables.len() {
            for (rule, why) in self.tables[table].expire(now) {
                self.flow_removed(now, table as u8, rule, why, &mut out);
            }
        }
        out
    }

    /// Returns the time when the next rule's timeout is over, if no packet comes before.
    pub fn next_timeout(&self) -> Option<Nanoseconds> {
        self.tables.iter().filter_map(Table::next_expiry).min()
    }

    fn flow_removed(&self, now: Nanoseconds, table_id: u8, rule: Rule, why: Removal, out: &mut Vec<Outgoing>) {
        if rule.flags & FlowMod::SEND_FLOW_REM == 0 {
            return;
        }
        let lived = now - rule.added;
        let message = Message::FlowRemoved(FlowRemoved {
            cookie: rule.cookie,
            priority: rule.priority,
            reason: why as u8,
            table_id,
            duration_sec: (lived / SECOND) as u32,
            duration_nsec: (lived % SECOND) as u32,
            idle_timeout: rule.idle_timeout,
            hard_timeout: if self.version == Version::Of13 { rule.hard_timeout } else { 0 },
            packet_count: rule.packets,
            byte_count: rule.bytes,
            matching: rule.matching,
        });
        self.notify(|connection| connection.wants_flow_removed(why), message, out);
    }

    /// Obeys one message of a controller, with whom a connection was opened.
    pub fn handle_message_from(
        &mut self,
        from: ControllerId,
        now: Nanoseconds,
        header: Header,
        message: Message,
    ) -> Vec<Outgoing> {
        let mut bytes = Vec::new();
        if message.encode(self.version, header.xid, &mut bytes).is_err() {
            // A message that this version can't encode can't have arrived in it; the header alone identifies the
            // request.
            bytes = vec![header.version, header.kind];
            bytes.extend(header.length.to_be_bytes());
            bytes.extend(header.xid.to_be_bytes());
        }
        self.handle_from(from, now, header.xid, message, &bytes)
    }

    fn abilities(&self) -> Abilities<'_> {
        Abilities {
            version: self.version,
            n_tables: self.n_tables(),
            open_vswitch: self.options.open_vswitch,
            groups: &self.groups,
            meters: &self.meters,
        }
    }

    fn flow_mod(&mut self, now: Nanoseconds, request: FlowMod, out: &mut Vec<Outgoing>) -> Result<(), Refusal> {
        self.counters.flow_mods += 1;
        let request = self.checked(request)?;
        let strict = matches!(request.command, FlowModCommand::ModifyStrict | FlowModCommand::DeleteStrict);
        let used = self.used(request.table_id);
        match request.command {
            FlowModCommand::Add => self.add_rule(now, request.table_id, &request)?,
            FlowModCommand::Modify | FlowModCommand::ModifyStrict => {
                let modify = |table: &mut Table| table.modify(self.version, &request, strict);
                let changed: usize = self.tables[used].iter_mut().map(modify).sum();
                // In 1.0, modifying no rule adds one.
                if changed == 0 && self.version == Version::Of10 {
                    self.add_rule(now, 0, &request)?;
                }
            }
            FlowModCommand::Delete | FlowModCommand::DeleteStrict => {
                for at in used {
                    for rule in self.tables[at].delete(&request, strict) {
                        self.flow_removed(now, at as u8, rule, Removal::Delete, out);
                    }
                }
            }
        }
        Ok(())
    }

    fn add_rule(&mut self, now: Nanoseconds, table_id: u8, request: &FlowMod) -> Result<(), Refusal> {
        self.make_room(table_id);
        let is_full = self.is_full();
        let table = &mut self.tables[usize::from(table_id)];
        if is_full && !table.has(request) {
            return Err(Refusal::TableFull);
        }
        table.add(now, self.version, request)
    }

    /// Checks a flow-mod independently of the tables' content. Returns it in the form in which it is obeyed.
    fn checked(&self, mut request: FlowMod) -> Result<FlowMod, Refusal> {
        let known = match self.version {
            Version::Of10 => {
                // 1.0 has one table and no cookie masks; its emergency rules are not kept. As in Open vSwitch, changes
                // and deletions are for all tables that the switch may have had in another version.
                request.table_id = if request.command == FlowModCommand::Add { 0 } else { ALL_TABLES };
                request.cookie_mask = 0;
                FLAGS10
            }
            Version::Of13 => FLAGS13,
        };
        if self.version == Version::Of10 && request.flags & EMERGENCY != 0 {
            return Err(Refusal::TableFull);
        }
        if request.flags & !known != 0 {
            return Err(Refusal::FlowModFlags);
        }
        request.matching = check::matching(&self.abilities(), &request.matching)?;
        check::instructions(&self.abilities(), request.table_id, &request.matching, &request.instructions)?;
        request.instructions = check::in_order(request.instructions);
        let deletes = is_deletion(&request);
        let takes_all = deletes || self.version == Version::Of10;
        if !self.has_table(request.table_id) || (!takes_all && request.table_id == ALL_TABLES) {
            return Err(Refusal::BadTable);
        }
        // The switch has no buffers, so it has no packet to send through the tables.
        if !deletes && request.buffer_id != NO_BUFFER {
            return Err(Refusal::BufferUnknown);
        }
        Ok(request)
    }

    /// Reports whether there is a table with this number, or the number means all.
    fn has_table(&self, table_id: u8) -> bool {
        table_id == ALL_TABLES || table_id < self.n_tables()
    }

    /// Creates a table before its first use.
    fn make_room(&mut self, table_id: u8) {
        let needed = usize::from(table_id) + 1;
        if self.tables.len() < needed {
            self.tables.resize(needed, Table::new(self.options.table_size));
        }
    }

    /// Returns the tables that a request means, as far as they were ever used.
    fn used(&self, table_id: u8) -> std::ops::Range<usize> {
        let (at, count) = (usize::from(table_id), self.tables.len());
        if table_id == ALL_TABLES { 0..count } else { at.min(count)..(at + 1).min(count) }
    }

    fn packet_out(&mut self, now: Nanoseconds, request: PacketOut, out: &mut Vec<Outgoing>) -> Result<(), Refusal> {
        self.record.clear();
        if request.buffer_id != NO_BUFFER {
            return Err(Refusal::BufferUnknown);
        }
        let from_nowhere = matches!(request.in_port, PortNo::CONTROLLER | PortNo::ANY | PortNo::LOCAL);
        if !from_nowhere && !check::is_number(&self.abilities(), request.in_port) {
            return Err(Refusal::BadInPort);
        }
        let packet = check::describe(&request.data);
        check::actions(&self.abilities(), ActionPlace::Applied(&packet), &request.actions)?;
        self.counters.packet_outs += 1;
        let before = out.len();
        let mut passing = PacketInSwitch::injected(request.data, request.in_port);
        self.apply(now, &mut passing, &request.actions, out);
        if out.len() == before && self.record.lost.is_empty() {
            self.record.lost.push(Lost::ByRule);
        }
        Ok(())
    }
}

/// `OFPFF_EMERG` (1.0).
const EMERGENCY: u16 = 1 << 2;
/// The flags of a flow-mod in 1.0: report its end, check overlaps, emergency.
const FLAGS10: u16 = 0b111;
/// The flags of a flow-mod in 1.3: report its end, check overlaps, reset counts, count no packets, count no bytes.
const FLAGS13: u16 = 0b1_1111;

fn is_deletion(request: &FlowMod) -> bool {
    matches!(request.command, FlowModCommand::Delete | FlowModCommand::DeleteStrict)
}
