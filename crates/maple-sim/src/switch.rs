//! A simulated switch: the model of `maple-switch`, with faults that tests ask for.
//!
//! It shares only the messages with the engine. They pass through the codec of the switch's version, so parts that this
//! version cannot express do not arrive.

use std::collections::BTreeMap;

use maple_core::engine::{ReportedRule, Time};
use maple_switch::{ControllerId, Outgoing, Rule, Switch, SwitchOptions};
use maple_wire::msg::command::{ADD, DELETE};
use maple_wire::msg::{ErrorMsg, FlowMod, FlowModCommand, Header, Hello, MeterMod, NO_BUFFER, PacketIn, ReplyBody};
use maple_wire::{Action, Constraint, Dpid, Field, Instruction, Match, Message, PortNo, Version};

/// The controller that other programs are to a switch.
const OTHER: ControllerId = ControllerId(1);

/// A simulated switch.
pub struct SimSwitch {
    /// The switch as it works unless a fault is planted.
    pub model: Switch,
    /// The tables of exact matches: each takes rules that match all of these fields exactly and nothing else, and a
    /// table-miss rule.
    pub exact_tables: BTreeMap<u8, Vec<Field>>,
    /// The first table for which the switch accepts no rules.
    pub refuses_table: Option<u8>,
    /// Whether the switch accepts rules that write metadata.
    pub takes_metadata: bool,
    /// Whether the switch accepts rules that write or clear action sets.
    pub takes_action_sets: bool,
    /// The ports that the switch does not accept in rules, as if they had just gone.
    pub refused_ports: RefusedPorts,
    /// The number of bytes of a packet that the switch sends to the controller.
    pub send_len: usize,
    /// Whether the switch keeps the packets that it sends only in part, until the controller answers.
    pub buffers: bool,
    kept: BTreeMap<u32, Vec<u8>>,
    last_kept: u32,
    /// Whether the switch accepts meters.
    pub takes_meters: bool,
    /// Whether the switch refuses to delete rules.
    pub refuses_deletions: bool,
    /// Rules that do not have the match that they show. In Open vSwitch these are the rules for untagged packets that
    /// were made in 1.0, when it speaks 1.3. No strict deletion finds them.
    pub disguised: Vec<ReportedRule>,
    /// Whether the switch reports its counters.
    pub answers_statistics: bool,
    pub(crate) now: Time,
}

/// The ports that a switch refuses in rules.
#[derive(Clone, Copy, Debug, Default)]
pub struct RefusedPorts {
    /// The port that it refuses in action sets.
    pub in_sets: Option<PortNo>,
    /// The port that it refuses in the actions that rules apply.
    pub in_actions: Option<PortNo>,
}

impl SimSwitch {
    /// Creates a switch without rules, without a limit on them and without bundles, which sends whole packets. Switches
    /// with even ids follow Open vSwitch where that violates the specification.
    pub fn new(dpid: Dpid, version: Version) -> SimSwitch {
        let options = SwitchOptions {
            table_size: usize::MAX,
            open_vswitch: dpid.0.is_multiple_of(2),
            bundles: false,
            ..SwitchOptions::default()
        };
        SimSwitch {
            model: Switch::new(dpid, version, options),
            exact_tables: BTreeMap::new(),
            refuses_table: None,
            takes_metadata: true,
            takes_action_sets: true,
            refused_ports: RefusedPorts::default(),
            takes_meters: true,
            send_len: usize::MAX,
            buffers: false,
            kept: BTreeMap::new(),
            last_kept: 0,
            refuses_deletions: false,
            disguised: Vec::new(),
            answers_statistics: true,
            now: Time(0),
        }
    }

    /// Begins a connection to the controller. Bundles of an earlier one are gone.
    pub(crate) fn connect(&mut self) {
        self.model.connect();
        let hello = Hello { version: self.model.version() as u8, elements: Vec::new() };
        self.model.handle(self.now.0, 0, Message::Hello(hello), &[]);
    }

    /// Returns the rules of the switch, by table and falling priority.
    pub fn flows(&self) -> Vec<ReportedRule> {
        let tables = (0..).zip(self.model.tables());
        tables.flat_map(|(id, table)| table.rules().into_iter().map(move |rule| reported(id, rule))).collect()
    }

    /// Changes the rules of the switch as another program would, in any version. Rules that stay keep their counters.
    pub fn edit_flows(&mut self, edit: impl FnOnce(&mut Vec<ReportedRule>)) {
        let before = self.flows();
        let mut after = before.clone();
        edit(&mut after);
        for gone in before.iter().filter(|flow| !after.contains(flow)) {
            self.model.table_mut(gone.table_id).delete(&request(FlowModCommand::DeleteStrict, gone), true);
        }
        let (now, version) = (self.now.0, self.model.version());
        for new in after.iter().filter(|flow| !before.contains(flow)) {
            let request = request(FlowModCommand::Add, new);
            self.model.table_mut(new.table_id).add(now, version, &request).expect("there is room");
        }
    }

    /// Obeys a message of another controller. Returns what leaves the switch to the first one, and by ports.
    pub fn obey_another(&mut self, message: Message) -> Vec<Outgoing> {
        let version = self.model.version() as u8;
        let header = Header { version, kind: 0, length: 0, xid: 0 };
        let out = self.model.handle_message_from(OTHER, self.now.0, header, message);
        self.as_sent(out)
    }

    /// Deletes a rule as another controller would. Returns what leaves the switch.
    pub(crate) fn lose(&mut self, flow: &ReportedRule) -> Vec<Outgoing> {
        self.obey_another(Message::FlowMod(request(FlowModCommand::DeleteStrict, flow)))
    }

    /// Obeys a message of the controller. Returns what leaves the switch.
    pub(crate) fn obey(&mut self, xid: u32, message: &Message) -> Vec<Outgoing> {
        let bytes = message
            .to_bytes(self.model.version(), xid)
            .unwrap_or_else(|error| panic!("the engine sends what the version has: {error}: {message:?}"));
        let (_, mut read) = Message::decode(&bytes).unwrap_or_else(|error| panic!("{error}: {message:?}"));
        if let Some(error) = self.planted_refusal(&read) {
            return vec![Outgoing::Message { controller: ControllerId::FIRST, xid, message: Message::Error(error) }];
        }
        match &mut read {
            Message::FlowMod(request) if self.finds_disguised(request) => return Vec::new(),
            Message::PacketOut(request) => {
                if let Some(frame) = self.kept.remove(&request.buffer_id) {
                    (request.buffer_id, request.data) = (NO_BUFFER, frame);
                }
            }
            _ => {}
        }
        let out = self.model.handle(self.now.0, xid, read, &bytes);
        for item in &out {
            if let Outgoing::Message { message: Message::Error(error), .. } = item {
                assert!(may_meet(error), "the engine sends what no switch obeys: {error:?} for {message:?}");
            }
        }
        self.as_sent(out)
    }

    /// Processes a frame that came in by a port. Returns what leaves the switch.
    pub fn receive(&mut self, frame: &[u8], in_port: PortNo) -> Vec<Outgoing> {
        let out = self.model.receive(self.now.0, in_port, frame);
        self.as_sent(out)
    }

    /// Returns the error of a planted fault for a message.
    fn planted_refusal(&self, message: &Message) -> Option<ErrorMsg> {
        let error = |kind, code| Some(ErrorMsg { kind, code, data: Vec::new() });
        match message {
            Message::FlowMod(request) => self.planted_refusal_of(request),
            Message::BundleAdd(added) => self.planted_refusal(&added.message),
            // OFPMMFC_BAD_BAND.
            Message::MeterMod(request) if request.command == ADD && !self.takes_meters => error(12, 8),
            Message::MeterMod(MeterMod { command: DELETE, meter, .. }) => {
                let uses = |flow: &ReportedRule| flow.instructions.contains(&Instruction::Meter(*meter));
                assert!(!self.flows().iter().any(uses), "a rule needs that meter");
                None
            }
            // OFPBRC_BAD_STAT.
            Message::StatsRequest(_) if !self.answers_statistics => error(1, 2),
            _ => None,
        }
    }

    fn planted_refusal_of(&self, request: &FlowMod) -> Option<ErrorMsg> {
        let error = |kind, code| Some(ErrorMsg { kind, code, data: Vec::new() });
        let has = |is_refused: &dyn Fn(&Instruction) -> bool| request.instructions.iter().any(is_refused);
        let leads_to = |actions: &[Action], refused: Option<PortNo>| {
            let is_refused_output =
                |action: &Action| matches!(action, Action::Output { port, .. } if Some(*port) == refused);
            actions.iter().any(is_refused_output)
        };
        let is_bad_port = |instruction: &Instruction| match instruction {
            Instruction::WriteActions(actions) => leads_to(actions, self.refused_ports.in_sets),
            Instruction::ApplyActions(actions) => leads_to(actions, self.refused_ports.in_actions),
            _ => false,
        };
        let is_miss = request.priority == 0 && request.matching.fields.is_empty();
        let exact = self.exact_tables.get(&request.table_id).filter(|_| !is_miss);
        match request.command {
            // OFPFMFC_BAD_TABLE_ID.
            FlowModCommand::Delete | FlowModCommand::DeleteStrict if self.refuses_deletions => error(5, 2),
            FlowModCommand::Delete | FlowModCommand::DeleteStrict => None,
            // OFPBIC_UNSUP_METADATA.
            _ if !self.takes_metadata && has(&|of| matches!(of, Instruction::WriteMetadata { .. })) => error(3, 3),
            // OFPBIC_UNSUP_INST.
            _ if !self.takes_action_sets
                && has(&|of| matches!(of, Instruction::WriteActions(_) | Instruction::ClearActions)) =>
            {
                error(3, 1)
            }
            // OFPBAC_BAD_OUT_PORT.
            _ if has(&is_bad_port) => error(2, 4),
            // OFPFMFC_BAD_TABLE_ID.
            _ if self.refuses_table.is_some_and(|first| first <= request.table_id) => error(5, 2),
            // OFPBMC_BAD_WILDCARDS.
            _ if exact.is_some_and(|fields| !matches_exactly(&request.matching, fields)) => error(4, 5),
            _ => None,
        }
    }

    /// Reports whether a request is the strict deletion of a rule that shows another match than it has.
    fn finds_disguised(&self, request: &FlowMod) -> bool {
        let matching = in_order(&request.matching);
        let is_meant = |flow: &ReportedRule| {
            let is_of_table = self.model.version() == Version::Of10 || flow.table_id == request.table_id;
            is_of_table && flow.priority == request.priority && flow.matching == matching
        };
        request.command == FlowModCommand::DeleteStrict
            && self.disguised.iter().any(is_meant)
            && self.flows().iter().any(|flow| is_meant(flow) && self.disguised.contains(flow))
    }

    /// Returns what leaves the switch in the form in which it does: packets for the controller in part, and matches
    /// with their fields in an order of the switch's own, as in Open vSwitch.
    fn as_sent(&mut self, mut out: Vec<Outgoing>) -> Vec<Outgoing> {
        let to_other = |item: &Outgoing| matches!(item, Outgoing::Message { controller: OTHER, .. });
        out.retain(|item| !to_other(item));
        for item in &mut out {
            match item {
                Outgoing::Message { message: Message::PacketIn(packet_in), .. } => self.cut(packet_in),
                Outgoing::Message { message: Message::FlowRemoved(gone), .. } => gone.matching.fields.reverse(),
                Outgoing::Message { message: Message::StatsReply(reply), .. } => {
                    if let ReplyBody::Flow(flows) = &mut reply.body {
                        flows.iter_mut().for_each(|flow| flow.matching.fields.reverse());
                    }
                }
                _ => {}
            }
        }
        out
    }

    /// Cuts off what the switch does not send of a packet, and keeps the packet if it has buffers.
    fn cut(&mut self, packet_in: &mut PacketIn) {
        if packet_in.data.len() <= self.send_len {
            return;
        }
        if self.buffers {
            self.last_kept += 1;
            packet_in.buffer_id = self.last_kept;
            self.kept.insert(self.last_kept, packet_in.data.clone());
        }
        packet_in.data.truncate(self.send_len);
    }
}

/// Reports whether a correct request can meet this error: that a table is full or not there, that a meter is there or
/// not, or that a bundle is not there or contains such a request.
fn may_meet(error: &ErrorMsg) -> bool {
    matches!((error.kind, error.code), (3, 0) | (5, 1 | 2) | (12, 1..=3) | (0xffff, 2302 | 2313))
}

/// Reports whether a match fixes exactly these fields.
fn matches_exactly(matching: &Match, fields: &[Field]) -> bool {
    let is_exact = |constraint: &Constraint| constraint.is_exact() && fields.contains(&constraint.field);
    matching.constraints().count() == fields.len() && matching.constraints().all(is_exact)
}

fn reported(table_id: u8, rule: &Rule) -> ReportedRule {
    ReportedRule {
        table_id,
        priority: rule.priority,
        cookie: rule.cookie,
        matching: rule.matching.clone(),
        instructions: rule.instructions.to_vec(),
    }
}

fn request(command: FlowModCommand, flow: &ReportedRule) -> FlowMod {
    FlowMod {
        table_id: flow.table_id,
        cookie: flow.cookie,
        flags: FlowMod::SEND_FLOW_REM,
        ..FlowMod::new(command, flow.priority, in_order(&flow.matching), flow.instructions.clone())
    }
}

/// Returns a match with its fields in OXM order, whatever version it came in.
fn in_order(matching: &Match) -> Match {
    Match::from_constraints(matching.constraints().copied())
}
