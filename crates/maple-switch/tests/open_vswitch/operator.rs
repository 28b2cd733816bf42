//! Random changes of rules in both versions, and of tables' sizes: [`Switch`] has the rules that Open vSwitch has, and
//! refuses the same changes with the same errors.

use std::collections::BTreeSet;

use maple_switch::{Outgoing, Switch, SwitchOptions};
use maple_wire::msg::stats::FlowStatsRequest;
use maple_wire::msg::{FlowMod, FlowModCommand, ReplyBody, RequestBody, StatsRequest};
use maple_wire::{Dpid, Field, Match, Message, PortNo, Version};

use crate::bridge::{Connection, Daemons};
use crate::generate::Random;
use crate::{number, seed};

/// The number of changes of a usual run.
const CHANGES: u64 = 600;
/// The number of tables that have rules.
const TABLES: u64 = 3;

/// A rule as 1.3 reports it: its table, priority, match and cookie.
type Seen = (u8, u16, String, u64);

/// Returns a change at random, and the version in which it is sent.
fn change(random: &mut Random) -> (Version, FlowMod) {
    const COMMANDS: [FlowModCommand; 5] = [
        FlowModCommand::Add,
        FlowModCommand::Modify,
        FlowModCommand::ModifyStrict,
        FlowModCommand::Delete,
        FlowModCommand::DeleteStrict,
    ];
    let version = if random.percent(40) { Version::Of10 } else { Version::Of13 };
    // Most changes add, so that tables get full.
    let command = COMMANDS[random.below(12).saturating_sub(7) as usize];
    let matching = match random.below(6) {
        0 => Match::any(),
        port @ 1..4 => Match::any().exact(Field::InPort, port.into()),
        address => Match::any().exact(Field::EthDst, address.into()),
    };
    let mut change = FlowMod::new(command, 1 + random.below(3) as u16, matching, Vec::new());
    if command == FlowModCommand::Add {
        change.cookie = random.below(1 << 20);
    }
    if version == Version::Of13 {
        let is_deletion = matches!(command, FlowModCommand::Delete | FlowModCommand::DeleteStrict);
        let is_for_all = is_deletion && random.percent(20);
        change.table_id = if is_for_all { 0xff } else { random.below(TABLES) as u8 };
    }
    (version, change)
}

/// Sends a change. Returns the error that answers it.
fn send(connection: &mut Connection, change: &FlowMod) -> Option<(u16, u16)> {
    connection.send(&Message::FlowMod(change.clone()));
    let barrier = connection.send(&Message::BarrierRequest);
    let mut refused = None;
    loop {
        match connection.receive() {
            (header, Message::BarrierReply) if header.xid == barrier => return refused,
            (_, Message::Error(error)) => refused = Some((error.kind, error.code)),
            _ => {}
        }
    }
}

/// Returns the rules of the bridge.
fn rules(connection: &mut Connection) -> BTreeSet<Seen> {
    let (out_port, matching) = (PortNo::ANY, Match::any());
    let asked = FlowStatsRequest { table_id: 0xff, out_port, out_group: u32::MAX, cookie: 0, cookie_mask: 0, matching };
    let request = connection.send(&Message::StatsRequest(StatsRequest { flags: 0, body: RequestBody::Flow(asked) }));
    let mut seen = BTreeSet::new();
    loop {
        match connection.receive() {
            (header, Message::StatsReply(reply)) if header.xid == request => {
                let ReplyBody::Flow(flows) = reply.body else { panic!("{:?}", reply.body) };
                seen.extend(
                    flows
                        .into_iter()
                        .map(|rule| (rule.table_id, rule.priority, format!("{:?}", rule.matching), rule.cookie)),
                );
                if reply.flags == 0 {
                    return seen;
                }
            }
            _ => {}
        }
    }
}

#[test]
fn changes_in_both_versions_meet_the_same_rules_and_room_as_in_open_vswitch() {
    let Some(daemons) = Daemons::start() else { return };
    let (first, changes) = (seed(), number("MAPLE_CHANGES").unwrap_or(CHANGES));
    println!("MAPLE_SEED={first}, {changes} changes");
    let bridge = daemons.bridge("operator", Version::Of13);
    daemons.vsctl(&["set", "bridge", "operator", "protocols=OpenFlow10,OpenFlow13"]);
    let (mut in10, mut in13) = (bridge.connect_in(Version::Of10), bridge.connect_in(Version::Of13));
    let mut switch = Switch::new(Dpid(1), Version::Of13, SwitchOptions { open_vswitch: true, ..Default::default() });
    let mut random = Random::new(first);
    let (mut refused, mut done) = (0, String::new());
    for _ in 0..changes {
        if random.percent(5) {
            let (table, size) = (random.below(TABLES) as u8, 1 + random.below(8) as usize);
            let (set, limit) = (format!("flow_tables:{table}=@table"), format!("flow_limit={size}"));
            daemons.vsctl(&["--id=@table", "create", "Flow_Table", &limit, "--", "set", "bridge", "operator", &set]);
            switch.set_table_size(table, size);
            done = format!("{done}\ntable {table} has room for {size} rules");
        }
        let (version, change) = change(&mut random);
        done = format!("{done}\n{version:?} {change:?}");
        let expected = send(if version == Version::Of10 { &mut in10 } else { &mut in13 }, &change);
        switch.speak(version);
        let bytes = Message::FlowMod(change).to_bytes(version, 0).expect("the version has it");
        let found = switch.receive_bytes(0, &bytes).into_iter().find_map(|item| match item {
            Outgoing::Message { message: Message::Error(error), .. } => Some((error.kind, error.code)),
            _ => None,
        });
        assert_eq!(found, expected, "ours, Open vSwitch's: MAPLE_SEED={first}{done}");
        refused += u64::from(found.is_some());
        let ours: BTreeSet<Seen> = (0..)
            .zip(switch.tables())
            .flat_map(|(table, rules)| rules.rules().into_iter().map(move |rule| (table, rule)))
            .map(|(table, rule)| (table, rule.priority, format!("{:?}", rule.matching), rule.cookie))
            .collect();
        assert_eq!(ours, rules(&mut in13), "ours, Open vSwitch's: MAPLE_SEED={first}{done}");
    }
    println!("{refused} of {changes} were refused");
    assert!(refused > changes / 20, "tables must get full");
}
