//! A simulated switch: the tables of `maple-switch`, and faults that tests ask for.
//!
//! It shares only the messages with the engine. They pass through the codec of the switch's version, so parts that this
//! version cannot express do not arrive.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use maple_core::engine::{ReportedRule, Time};
use maple_switch::{Rule, Table};
use maple_wire::msg::stats::{AggregateStats, FlowStats, MeterConfig, PortStats, ReplyBody, RequestBody, StatsReply};
use maple_wire::msg::{Band, ErrorMsg, FlowMod, FlowModCommand, MeterMod, NO_BUFFER, PacketIn, PacketOut};
use maple_wire::packet::flight::{Effect, Flight, Next};
use maple_wire::{Action, Constraint, Dpid, Field, Instruction, Match, PortNo, Version};

mod bundles;

use bundles::Bundle;

/// A simulated switch.
pub struct SimSwitch {
    /// The datapath id of the switch.
    pub dpid: Dpid,
    /// The OpenFlow version of the switch.
    pub version: Version,
    /// The number of tables.
    pub tables: u8,
    /// The maximum number of rules.
    pub capacity: usize,
    /// The tables with a capacity of their own, and the maximum number of rules in each.
    pub table_sizes: BTreeMap<u8, usize>,
    /// The tables of exact matches: each takes rules that match all of these fields exactly and nothing else, and a
    /// table-miss rule.
    pub exact_tables: BTreeMap<u8, Vec<Field>>,
    /// The first table for which the switch accepts no rules.
    pub refuses_table: Option<u8>,
    /// Whether the switch accepts rules that write metadata.
    pub takes_metadata: bool,
    /// Whether the switch accepts rules that write or clear action sets.
    pub takes_action_sets: bool,
    /// A port that the switch does not accept in action sets, as if it had just gone.
    pub refuses_in_set: Option<PortNo>,
    /// The number of bytes of a packet that the switch sends to the controller.
    pub send_len: usize,
    /// Whether the switch keeps the packets that it sends only in part, until the controller answers.
    pub buffers: bool,
    kept: BTreeMap<u32, Vec<u8>>,
    last_kept: u32,
    /// Whether the switch has bundles.
    pub takes_bundles: bool,
    /// The open bundles.
    pub(crate) bundles: BTreeMap<u32, Bundle>,
    /// Whether the switch accepts meters.
    pub takes_meters: bool,
    /// The meters: their flags and bands.
    pub meters: BTreeMap<u32, (u16, Vec<Band>)>,
    /// The tables that were ever used.
    flow_tables: BTreeMap<u8, Table>,
    /// Whether the switch refuses to delete rules.
    pub refuses_deletions: bool,
    /// Rules that do not have the match that they show. In Open vSwitch these are the rules for untagged packets that
    /// were made in 1.0, when it speaks 1.3. No strict deletion finds them.
    pub disguised: Vec<ReportedRule>,
    /// Whether the switch reports its counters.
    pub tells: bool,
    /// The current time.
    pub now: Time,
    /// The counters of the ports.
    pub ports: BTreeMap<PortNo, PortStats>,
}

/// A rule with its table.
pub(crate) type Placed = (u8, Rule);

/// A packet on its way out of a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Out {
    /// The packet leaves by a port.
    Port(PortNo, Vec<u8>),
    /// The packet goes to the controller.
    Controller(Box<PacketIn>),
}

impl SimSwitch {
    /// Creates a switch without rules and without a limit on them, which sends whole packets.
    pub fn new(dpid: Dpid, version: Version) -> SimSwitch {
        SimSwitch {
            dpid,
            version,
            tables: if version == Version::Of13 { 254 } else { 1 },
            capacity: usize::MAX,
            table_sizes: BTreeMap::new(),
            exact_tables: BTreeMap::new(),
            refuses_table: None,
            takes_metadata: true,
            takes_action_sets: true,
            refuses_in_set: None,
            takes_meters: true,
            meters: BTreeMap::new(),
            send_len: usize::MAX,
            buffers: false,
            kept: BTreeMap::new(),
            last_kept: 0,
            takes_bundles: false,
            bundles: BTreeMap::new(),
            flow_tables: BTreeMap::new(),
            refuses_deletions: false,
            disguised: Vec::new(),
            tells: true,
            now: Time(0),
            ports: BTreeMap::new(),
        }
    }

    /// Returns the rules of the switch, by table and falling priority.
    pub fn flows(&self) -> Vec<ReportedRule> {
        let of_table = |(id, table): (&u8, &Table)| {
            let rules = table.rules().into_iter().map(|rule| installed(*id, rule));
            rules.collect::<Vec<_>>()
        };
        self.flow_tables.iter().flat_map(of_table).collect()
    }

    /// Changes the rules of the switch as another controller would. Rules that stay keep their counters.
    pub fn edit_flows(&mut self, edit: impl FnOnce(&mut Vec<ReportedRule>)) {
        let before = self.flows();
        let mut after = before.clone();
        edit(&mut after);
        for gone in before.iter().filter(|flow| !after.contains(flow)) {
            self.remove(gone);
        }
        let (now, version) = (self.now.0, self.version);
        for new in after.iter().filter(|flow| !before.contains(flow)) {
            let request = request(FlowModCommand::Add, new);
            self.table(new.table_id).add(now, version, &request).expect("there is room");
        }
    }

    /// Removes a rule. Returns it with its counters, if it is there.
    pub(crate) fn remove(&mut self, flow: &ReportedRule) -> Option<Placed> {
        let request = request(FlowModCommand::DeleteStrict, flow);
        self.table(flow.table_id).delete(&request, true).pop().map(|rule| (flow.table_id, rule))
    }

    fn table(&mut self, id: u8) -> &mut Table {
        self.flow_tables.entry(id).or_insert_with(|| Table::new(usize::MAX))
    }

    /// Changes a meter.
    ///
    /// # Errors
    /// The error that the switch answers with.
    pub fn meter_mod(&mut self, request: &MeterMod) -> Result<(), ErrorMsg> {
        let refuse = |code| Err(ErrorMsg { kind: 12, code, data: Vec::new() });
        let is_there = self.meters.contains_key(&request.meter);
        match request.command {
            0 if is_there => return refuse(1),
            0 if !self.takes_meters => return refuse(8),
            1 if !is_there => return refuse(3),
            0 | 1 => drop(self.meters.insert(request.meter, (request.flags, request.bands.clone()))),
            _ => {
                let uses = |i: &Instruction| *i == Instruction::Meter(request.meter);
                let mut rules = self.flow_tables.values().flat_map(Table::iter);
                assert!(!rules.any(|rule| rule.instructions.iter().any(uses)), "a rule needs that meter");
                self.meters.remove(&request.meter);
            }
        }
        Ok(())
    }

    /// Checks whether the switch could obey a request if it had the capacity.
    ///
    /// # Errors
    /// The error that the switch answers with.
    fn check(&self, request: &FlowMod) -> Result<(), ErrorMsg> {
        if request.command != FlowModCommand::Add {
            let no_such_table = ErrorMsg { kind: 5, code: 2, data: Vec::new() };
            return if self.refuses_deletions || request.table_id >= self.tables { Err(no_such_table) } else { Ok(()) };
        }
        if self.version == Version::Of10 && request.table_id != 0 {
            return Err(ErrorMsg { kind: 3, code: 5, data: Vec::new() });
        }
        let unknown = |i: &Instruction| matches!(i, Instruction::Meter(meter) if !self.meters.contains_key(meter));
        if request.instructions.iter().any(unknown) {
            // Open vSwitch answers with OFPMMFC_INVALID_METER.
            return Err(ErrorMsg { kind: 12, code: 2, data: Vec::new() });
        }
        let carries = |instruction: &Instruction| matches!(instruction, Instruction::WriteMetadata { .. });
        if !self.takes_metadata && request.instructions.iter().any(carries) {
            return Err(ErrorMsg { kind: 3, code: 3, data: Vec::new() });
        }
        let is_of_set =
            |instruction: &Instruction| matches!(instruction, Instruction::WriteActions(_) | Instruction::ClearActions);
        if !self.takes_action_sets && request.instructions.iter().any(is_of_set) {
            return Err(ErrorMsg { kind: 3, code: 1, data: Vec::new() });
        }
        let is_refused =
            |action: &Action| matches!(action, Action::Output { port, .. } if Some(*port) == self.refuses_in_set);
        let leads_there =
            |of: &Instruction| matches!(of, Instruction::WriteActions(actions) if actions.iter().any(is_refused));
        if request.instructions.iter().any(leads_there) {
            // OFPBAC_BAD_OUT_PORT.
            return Err(ErrorMsg { kind: 2, code: 4, data: Vec::new() });
        }
        if self.refuses_table.is_some_and(|first| first <= request.table_id) {
            return Err(ErrorMsg { kind: 5, code: 2, data: Vec::new() });
        }
        if request.table_id >= self.tables {
            return Err(ErrorMsg { kind: 5, code: 2, data: Vec::new() });
        }
        let is_miss = request.priority == 0 && request.matching.fields.is_empty();
        let exact = self.exact_tables.get(&request.table_id).filter(|_| !is_miss);
        if exact.is_some_and(|fields| !matches_exactly(&request.matching, fields)) {
            // OFPBMC_BAD_WILDCARDS.
            return Err(ErrorMsg { kind: 4, code: 5, data: Vec::new() });
        }
        Ok(())
    }

    /// Changes the tables. Returns the rules that were deleted.
    ///
    /// # Errors
    /// The error that the switch answers with.
    pub(crate) fn flow_mod(&mut self, request: &FlowMod) -> Result<Vec<Placed>, ErrorMsg> {
        let is_exact = self.version == Version::Of10 && has_no_wildcards(&request.matching);
        let priority = if is_exact { u16::MAX } else { request.priority };
        let request = FlowMod { priority, matching: in_order(&request.matching), ..request.clone() };
        self.check(&request)?;
        match request.command {
            FlowModCommand::Add if self.is_full_for(&request) => {
                let (kind, code) = if self.version == Version::Of10 { (3, 0) } else { (5, 1) };
                Err(ErrorMsg { kind, code, data: Vec::new() })
            }
            FlowModCommand::Add => {
                let (now, version) = (self.now.0, self.version);
                self.table(request.table_id).add(now, version, &request).expect("there is room");
                Ok(Vec::new())
            }
            FlowModCommand::DeleteStrict | FlowModCommand::Delete => Ok(self.delete(&request)),
            _ => Err(ErrorMsg { kind: 5, code: 6, data: Vec::new() }),
        }
    }

    /// Reports whether there is no room for a new rule.
    fn is_full_for(&self, request: &FlowMod) -> bool {
        let table = self.flow_tables.get(&request.table_id);
        let replaces = table.is_some_and(|table| table.iter().any(|rule| is_same(rule, request)));
        let in_table = table.map_or(0, Table::len);
        let is_table_full = self.table_sizes.get(&request.table_id).is_some_and(|most| in_table >= *most);
        !replaces && (self.flow_tables.values().map(Table::len).sum::<usize>() >= self.capacity || is_table_full)
    }

    fn delete(&mut self, request: &FlowMod) -> Vec<Placed> {
        let (is_strict, mut deleted) = (request.command == FlowModCommand::DeleteStrict, Vec::new());
        for (id, table) in &mut self.flow_tables {
            let is_disguised = |rule: &Rule| is_same(rule, request) && self.disguised.contains(&installed(*id, rule));
            // In 1.0 a deletion is for all tables that the switch may have had in another version.
            let is_meant = self.version == Version::Of10 || *id == request.table_id;
            if is_meant && !(is_strict && table.iter().any(is_disguised)) {
                deleted.extend(table.delete(request, is_strict).into_iter().map(|rule| (*id, rule)));
            }
        }
        deleted
    }

    /// Counts a frame that goes through a port, in or out.
    pub fn count(&mut self, port: PortNo, bytes: usize, is_in: bool) {
        let Some(port) = self.ports.get_mut(&port) else { return };
        let (packets, sum) =
            if is_in { (&mut port.rx_packets, &mut port.rx_bytes) } else { (&mut port.tx_packets, &mut port.tx_bytes) };
        (*packets, *sum) = (*packets + 1, *sum + bytes as u64);
    }

    /// Processes a frame that came in by a port. Returns what leaves the switch.
    pub fn receive(&mut self, frame: &[u8], in_port: PortNo) -> Vec<Out> {
        let mut out = Vec::new();
        let mut flight = Flight::new(frame.to_vec(), in_port);
        let mut table = 0;
        loop {
            let Some(rule) = self.look_up(table, &flight) else {
                // If no rule matches, 1.0 asks the controller, and 1.3 drops the packet.
                if self.version == Version::Of10 {
                    out.push(self.packet_in(&flight, table, u64::MAX));
                }
                return out;
            };
            (rule.packets, rule.bytes) = (rule.packets + 1, rule.bytes + flight.frame.len() as u64);
            let (instructions, cookie) = (Arc::clone(&rule.instructions), rule.cookie);
            let mut next = None;
            for instruction in &*instructions {
                match flight.execute(instruction) {
                    Next::Apply(actions) => {
                        if !self.act(actions, &mut flight, table, cookie, &mut out) {
                            return out;
                        }
                    }
                    Next::Table(to) => next = Some(to),
                    Next::Meter(_) | Next::Done => {}
                    Next::Unknown => panic!("the engine uses no {instruction:?}"),
                }
            }
            match next {
                Some(next) => table = next,
                None => break,
            }
        }
        let set = flight.set.in_order();
        self.act(&set, &mut flight, table, u64::MAX, &mut out);
        out
    }

    /// Returns the counters that the switch reports.
    ///
    /// # Errors
    /// The error that the switch answers with.
    pub fn stats(&self, request: &RequestBody) -> Result<StatsReply, ErrorMsg> {
        if !self.tells {
            return Err(ErrorMsg { kind: 1, code: 2, data: Vec::new() });
        }
        if *request == RequestBody::Port(PortNo::ANY) {
            return Ok(StatsReply { flags: 0, body: ReplyBody::Port(self.ports.values().copied().collect()) });
        }
        if let RequestBody::MeterConfig(_) = request {
            let config = |(meter, (flags, bands)): (&u32, &(u16, Vec<Band>))| MeterConfig {
                flags: *flags,
                meter: *meter,
                bands: bands.clone(),
            };
            return Ok(StatsReply { flags: 0, body: ReplyBody::MeterConfig(self.meters.iter().map(config).collect()) });
        }
        let (RequestBody::Flow(asked) | RequestBody::Aggregate(asked)) = request else {
            panic!("the engine asks for no {request:?}")
        };
        let wanted = FlowMod::new(FlowModCommand::Delete, 0, asked.matching.clone(), Vec::new());
        let is_meant = |(id, _): &(&u8, &Table)| asked.table_id == 0xff || asked.table_id == **id;
        let lines: Vec<FlowStats> = self
            .flow_tables
            .iter()
            .filter(is_meant)
            .flat_map(|(id, table)| table.covered(&wanted).into_iter().map(|rule| self.line(*id, rule)))
            .collect();
        let body = match request {
            RequestBody::Aggregate(_) => ReplyBody::Aggregate(AggregateStats {
                packet_count: lines.iter().map(|line| line.packet_count).sum(),
                byte_count: 0,
                flow_count: lines.len() as u32,
            }),
            _ => ReplyBody::Flow(lines),
        };
        Ok(StatsReply { flags: 0, body })
    }

    fn line(&self, table_id: u8, rule: &Rule) -> FlowStats {
        let age = Duration::from_nanos(self.now.0.saturating_sub(rule.added));
        FlowStats {
            table_id,
            duration_sec: age.as_secs() as u32,
            duration_nsec: age.subsec_nanos(),
            priority: rule.priority,
            idle_timeout: 0,
            hard_timeout: 0,
            flags: 0,
            cookie: rule.cookie,
            packet_count: rule.packets,
            byte_count: rule.bytes,
            // Switches report fields in an order of their own.
            matching: Match { fields: rule.matching.fields.iter().rev().cloned().collect() },
            instructions: rule.instructions.to_vec(),
        }
    }

    /// Processes a packet-out. Returns what leaves the switch.
    pub fn packet_out(&mut self, request: &PacketOut) -> Vec<Out> {
        let mut out = Vec::new();
        let frame = match request.buffer_id {
            NO_BUFFER => request.data.clone(),
            id => match self.kept.remove(&id) {
                Some(frame) => frame,
                None => return out,
            },
        };
        self.act(&request.actions, &mut Flight::new(frame, request.in_port), 0, u64::MAX, &mut out);
        out
    }

    fn look_up(&mut self, table: u8, flight: &Flight) -> Option<&mut Rule> {
        let packet = flight.packet();
        let value = |field| flight.carried(field).or_else(|| packet.switch_value(field));
        Some(self.flow_tables.get_mut(&table)?.lookup(value)?.rule)
    }

    /// Applies actions in their order. Returns whether the packet goes on after them.
    fn act(&mut self, actions: &[Action], flight: &mut Flight, table: u8, cookie: u64, out: &mut Vec<Out>) -> bool {
        for action in actions {
            match flight.act(action) {
                Effect::Output(PortNo::CONTROLLER, _) => out.push(self.packet_in(flight, table, cookie)),
                Effect::Output(port, _) if port == flight.in_port => {}
                Effect::Output(PortNo::IN_PORT, _) => out.push(Out::Port(flight.in_port, flight.frame.clone())),
                Effect::Output(port, _) => out.push(Out::Port(port, flight.frame.clone())),
                Effect::Done => {}
                Effect::Expired => return false,
                Effect::Group(_) | Effect::Unknown => panic!("the engine uses no {action:?}"),
            }
        }
        true
    }

    fn packet_in(&mut self, flight: &Flight, table_id: u8, cookie: u64) -> Out {
        let frame = &flight.frame;
        let captured = frame.len().min(self.send_len);
        let mut buffer_id = NO_BUFFER;
        if captured < frame.len() && self.buffers {
            self.last_kept += 1;
            buffer_id = self.last_kept;
            self.kept.insert(buffer_id, frame.clone());
        }
        Out::Controller(Box::new(PacketIn {
            buffer_id,
            total_len: frame.len() as u16,
            table_id,
            cookie,
            ..PacketIn::new(flight.in_port.0, frame[..captured].to_vec())
        }))
    }
}

/// Reports whether a match fixes exactly these fields.
fn matches_exactly(matching: &Match, fields: &[Field]) -> bool {
    let is_exact = |constraint: &Constraint| constraint.is_exact() && fields.contains(&constraint.field);
    matching.constraints().count() == fields.len() && matching.constraints().all(is_exact)
}

/// Reports whether a 1.0 match fixes everything that it can: then its rule has the highest priority (§3.4).
fn has_no_wildcards(matching: &Match) -> bool {
    const ALL: [Field; 9] = [
        Field::InPort,
        Field::EthSrc,
        Field::EthDst,
        Field::EthType,
        Field::VlanVid,
        Field::IpDscp,
        Field::IpProto,
        Field::Ipv4Src,
        Field::Ipv4Dst,
    ];
    const PORTS: [[Field; 2]; 4] = [
        [Field::TcpSrc, Field::TcpDst],
        [Field::UdpSrc, Field::UdpDst],
        [Field::SctpSrc, Field::SctpDst],
        [Field::Icmpv4Type, Field::Icmpv4Code],
    ];
    let has = |field: &Field| matching.get(*field).is_some_and(Constraint::is_exact);
    let untagged = matching.get(Field::VlanVid).is_some_and(|vid| vid.value == 0);
    ALL.iter().all(has) && PORTS.iter().any(|both| both.iter().all(has)) && (untagged || has(&Field::VlanPcp))
}

fn installed(table_id: u8, rule: &Rule) -> ReportedRule {
    ReportedRule {
        table_id,
        priority: rule.priority,
        cookie: rule.cookie,
        matching: rule.matching.clone(),
        instructions: rule.instructions.to_vec(),
    }
}

fn is_same(rule: &Rule, request: &FlowMod) -> bool {
    rule.priority == request.priority && rule.matching == request.matching
}

fn request(command: FlowModCommand, flow: &ReportedRule) -> FlowMod {
    FlowMod {
        table_id: flow.table_id,
        cookie: flow.cookie,
        ..FlowMod::new(command, flow.priority, in_order(&flow.matching), flow.instructions.clone())
    }
}

/// A match with its fields in OXM order, whatever version it came in.
fn in_order(matching: &Match) -> Match {
    let ordered = Match::from_constraints(matching.constraints().copied());
    assert_eq!(ordered.fields.len(), matching.fields.len(), "the engine uses no unknown fields");
    ordered
}
