//! Table semantics as texts: flow-mods in, rules or errors out.
//!
//! A line of a script is `COMMAND PRIORITY [name=value[/mask] ...] -> [ACTION ...]`. Names are fields, or `cookie`,
//! `cookie_mask`, `idle`, `hard`, `flags`, `table`, `out_port`. Actions are port numbers, `controller`, `flood`, `all`,
//! `in_port`, `goto:TABLE`, `write:PORT`, `clear`, `meta:VALUE`, `set:FIELD=VALUE`. A line `at SECONDS` sets the clock.

use maple_wire::msg::{FlowMod, FlowModCommand, Header, PacketOut};
use maple_wire::packet::Frame;
use maple_wire::{Action, Constraint, Dpid, Field, Instruction, Match, MatchField, Message, PortNo, Version};

use super::*;

mod bundles;
mod messages;
mod meters;
mod packets;
mod reference;
mod roles;
mod tables;

/// A switch with ports 1 to 4 and a connected controller, and its clock.
pub(super) struct TestSwitch {
    pub switch: Switch,
    pub now: Nanoseconds,
}

impl TestSwitch {
    pub fn new(version: Version) -> TestSwitch {
        TestSwitch::with(version, SwitchOptions { n_tables: 4, table_size: 100, ..SwitchOptions::default() })
    }

    pub fn with(version: Version, options: SwitchOptions) -> TestSwitch {
        let mut switch = Switch::new(Dpid(1), version, options);
        (1..=4).for_each(|port| assert!(switch.add_port(0, PortNo(port)).is_empty()));
        let mut tested = TestSwitch { switch, now: 0 };
        assert_eq!(tested.switch.connect().len(), 1);
        assert!(tested.say(Message::Hello(maple_wire::msg::Hello { version: 4, elements: vec![] })).is_empty());
        tested
    }

    /// Sends a message from the controller. Returns the reaction of the switch.
    pub fn say(&mut self, message: Message) -> Vec<Outgoing> {
        let header = Header { version: self.switch.version() as u8, kind: 0, length: 8, xid: 7 };
        self.switch.handle_message_from(ControllerId::FIRST, self.now, header, message)
    }

    /// Runs a script. Returns the resulting errors, as `type/code`.
    pub fn run(&mut self, script: &str) -> Vec<String> {
        let mut errors = Vec::new();
        for line in script.lines().map(str::trim).filter(|l| !l.is_empty()) {
            if let Some(seconds) = line.strip_prefix("at ") {
                self.now = (seconds.parse::<f64>().unwrap() * SECOND as f64) as Nanoseconds;
                continue;
            }
            for item in self.say(Message::FlowMod(flow_mod(line))) {
                if let Outgoing::Message { message: Message::Error(e), .. } = item {
                    errors.push(format!("{}/{}", e.kind, e.code));
                }
            }
        }
        errors
    }

    /// Lists the rules of all tables, one on each line.
    pub fn dump(&self) -> String {
        let mut text = String::new();
        for (number, table) in self.switch.tables().iter().enumerate() {
            for rule in table.rules() {
                let fields: Vec<String> = rule.matching.constraints().map(field_text).collect();
                let table = if number == 0 { String::new() } else { format!(" table={number}") };
                let cookie = if rule.cookie == 0 { String::new() } else { format!(" cookie={}", rule.cookie) };
                let fields: String = fields.into_iter().map(|f| format!(" {f}")).collect();
                text += &format!("{}{table}{cookie}{fields} ->{}\n", rule.priority, instructions_text(rule));
            }
        }
        text
    }

    /// Sends a frame into a port. Returns where it leaves: port numbers, and `controller`.
    pub fn send(&mut self, in_port: u32, frame: &[u8]) -> Vec<String> {
        let out = self.switch.receive(self.now, PortNo(in_port), frame);
        places(&out)
    }
}

/// Runs a script on a fresh switch, and compares the remaining rules and the resulting errors.
#[track_caller]
fn check(version: Version, script: &str, rules: &str, errors: &[&str]) {
    let mut tested = TestSwitch::new(version);
    assert_eq!(tested.run(script), errors, "errors of {script}");
    let tidy = |text: &str| text.lines().map(str::trim).filter(|l| !l.is_empty()).collect::<Vec<_>>().join("\n");
    assert_eq!(tidy(&tested.dump()), tidy(rules), "rules left by {script}");
}

fn places(out: &[Outgoing]) -> Vec<String> {
    out.iter()
        .filter_map(|item| match item {
            Outgoing::Frame { port, .. } => Some(port.to_string()),
            Outgoing::Message { message: Message::PacketIn(_), .. } => Some("controller".to_string()),
            _ => None,
        })
        .collect()
}

fn number(text: &str) -> u128 {
    match text.strip_prefix("0x") {
        Some(digits) => u128::from_str_radix(digits, 16).unwrap(),
        None => text.parse().unwrap_or_else(|_| panic!("{text:?} is not a number")),
    }
}

fn flow_mod(line: &str) -> FlowMod {
    let (left, right) = line.split_once("->").unwrap_or((line, ""));
    let mut words = left.split_whitespace();
    let command = match words.next().unwrap() {
        "add" => FlowModCommand::Add,
        "modify" => FlowModCommand::Modify,
        "modify_strict" => FlowModCommand::ModifyStrict,
        "delete" => FlowModCommand::Delete,
        "delete_strict" => FlowModCommand::DeleteStrict,
        other => panic!("no such command: {other}"),
    };
    let priority = number(words.next().unwrap()) as u16;
    let mut request = FlowMod::new(command, priority, Match::any(), instructions(right));
    for word in words {
        let (name, value) = word.split_once('=').unwrap();
        let (value, mask) = value.split_once('/').map_or((value, None), |(v, m)| (v, Some(number(m))));
        let value = number(value);
        match name {
            "cookie" => request.cookie = value as u64,
            "cookie_mask" => request.cookie_mask = value as u64,
            "idle" => request.idle_timeout = value as u16,
            "hard" => request.hard_timeout = value as u16,
            "flags" => request.flags = value as u16,
            "table" => request.table_id = value as u8,
            "out_port" => request.out_port = PortNo(value as u32),
            "buffer" => request.buffer_id = value as u32,
            name => {
                let field = Field::from_name(name).unwrap_or_else(|| panic!("no field {name}"));
                let mask = mask.unwrap_or(field.full_mask());
                request.matching.fields.push(MatchField::Known(Constraint { field, value, mask }));
            }
        }
    }
    request
}

fn instructions(text: &str) -> Vec<Instruction> {
    let (mut apply, mut other) = (Vec::new(), Vec::new());
    for word in text.split_whitespace() {
        match word.split_once(':') {
            Some(("goto", table)) => other.push(Instruction::GotoTable(number(table) as u8)),
            Some(("write", port)) => {
                other.push(Instruction::WriteActions(vec![Action::output(PortNo(number(port) as u32))]));
            }
            Some(("meta", value)) => {
                other.push(Instruction::WriteMetadata { metadata: number(value) as u64, mask: u64::MAX });
            }
            Some(("set", set)) => {
                let (name, value) = set.split_once('=').unwrap();
                let field = Field::from_name(name).unwrap();
                apply.push(Action::SetField(Constraint::exact(field, number(value))));
            }
            Some(_) => panic!("no such action: {word}"),
            None if word == "clear" => other.push(Instruction::ClearActions),
            None => apply.push(match word {
                "controller" => Action::to_controller(),
                "flood" => Action::output(PortNo::FLOOD),
                "all" => Action::output(PortNo::ALL),
                "in_port" => Action::output(PortNo::IN_PORT),
                port => Action::output(PortNo(number(port) as u32)),
            }),
        }
    }
    if !apply.is_empty() {
        other.insert(0, Instruction::ApplyActions(apply));
    }
    other
}

fn field_text(c: &Constraint) -> String {
    if c.is_exact() {
        format!("{}={:#x}", c.field, c.value)
    } else {
        format!("{}={:#x}/{:#x}", c.field, c.value, c.mask)
    }
}

fn instructions_text(rule: &Rule) -> String {
    let mut text = String::new();
    for instruction in &*rule.instructions {
        match instruction {
            Instruction::ApplyActions(actions) => {
                for action in actions {
                    match action {
                        Action::Output { port, .. } => text += &format!(" {port}"),
                        other => text += &format!(" {other:?}"),
                    }
                }
            }
            Instruction::GotoTable(table) => text += &format!(" goto:{table}"),
            other => text += &format!(" {other:?}"),
        }
    }
    text
}

/// Builds a TCP packet from 10.0.0.1 to 10.0.0.2.
pub(super) fn tcp(dst: u16) -> Vec<u8> {
    Frame::ethernet([0, 0, 0, 0, 0, 2], [0, 0, 0, 0, 0, 1]).ipv4([10, 0, 0, 1], [10, 0, 0, 2]).tcp(4000, dst).build()
}
