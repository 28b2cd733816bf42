//! The compiler's assumptions about switches, compared with a real Open vSwitch, with the bytes of our own codec.
//!
//! Open vSwitch must accept every match that [`Capabilities`] allow and every rewrite that routes may ask for, and it
//! must match frames as [`Packet::switch_value`] says. Each test starts an Open vSwitch of its own. Where none is
//! installed they print that and are skipped; in CI they fail.

#[path = "../../../maple-switch/tests/open_vswitch/bridge.rs"]
#[allow(dead_code, reason = "these tests send no frames")]
mod bridge;
mod frames;
#[path = "../../../../tests/skip.rs"]
mod skip;

use bridge::{Bridge, Daemons};
use maple_core::Capabilities;
use maple_core::route::is_settable;
use maple_wire::msg::{FlowMod, FlowModCommand};
use maple_wire::{Action, Constraint, Field, Instruction, Match, Message, Packet, PortNo, Version};

/// Returns all ways to state that a packet has the field.
fn promises(field: Field) -> Vec<Vec<Constraint>> {
    let alternatives = field.prerequisites().iter();
    alternatives.map(|all| all.iter().map(|p| Constraint::masked(p.field, p.value, p.mask)).collect()).collect()
}

/// Returns values and masks of a field to try: with arbitrary bits, leading bits and all bits.
fn constraints(field: Field) -> Vec<Constraint> {
    let full = field.full_mask();
    let odd = 0x5a5a_a5a5_0ff0_1234_8765_cafe_0660_1001 & full;
    let leading = full & !(full >> (field.bits() / 2).max(1));
    let mut all: Vec<Constraint> =
        [odd, leading, full, 1].into_iter().map(|mask| Constraint::masked(field, odd & mask, mask)).collect();
    all.extend([0, 1, 0x7f & full].map(|value| Constraint::exact(field, value)));
    match field {
        Field::EthType => all.extend([0x8100, 0x88a8, 0x05ff, 0x05fe, 0x88e7].map(|t| Constraint::exact(field, t))),
        Field::VlanVid => {
            all.extend([0x1000, 0x1005, 0x1fff].map(|vid| Constraint::exact(field, vid)));
            all.push(Constraint::masked(field, 0x1000, 0x1000));
            all.push(Constraint::masked(field, 0, 0x1000));
        }
        Field::InPort => all.extend([1, 0xfeff].map(|port| Constraint::exact(field, port))),
        _ => {}
    }
    all
}

fn rule(priority: u16, cookie: u64, all: &[Constraint], actions: Vec<Action>) -> FlowMod {
    let instructions = vec![Instruction::ApplyActions(actions)];
    let matching = Match::from_constraints(all.iter().copied());
    FlowMod { cookie, ..FlowMod::new(FlowModCommand::Add, priority, matching, instructions) }
}

fn with(promise: &[Constraint], constraint: Constraint) -> Vec<Constraint> {
    let mut all: Vec<Constraint> = promise.iter().copied().filter(|c| c.field != constraint.field).collect();
    all.push(constraint);
    all.sort();
    all
}

/// Sends flow-mods, all of which must be accepted.
fn assert_accepted(bridge: &mut Bridge<'_>, rules: &[FlowMod]) {
    let ids: Vec<u32> = rules.iter().map(|rule| bridge.send(&Message::FlowMod(rule.clone()))).collect();
    let refused = bridge.errors().into_iter().map(|(id, error)| {
        let rule = ids.iter().position(|other| *other == id).map(|at| (&rules[at].matching, &rules[at].instructions));
        format!("error {}/{}: {rule:?}\n", error.kind, error.code)
    });
    let refused: Vec<String> = refused.collect();
    assert!(refused.is_empty(), "{} of {} refused:\n{}", refused.len(), rules.len(), refused.concat());
}

fn capabilities(bridge: &mut Bridge<'_>, version: Version) -> Capabilities {
    Capabilities::from_features(version, &bridge.features()).of_open_vswitch()
}

#[test]
fn every_match_that_the_compiler_may_use_is_accepted() {
    let Some(daemons) = Daemons::start() else { return };
    for (name, version) in [("cf-match10", Version::Of10), ("cf-match13", Version::Of13)] {
        let mut bridge = daemons.bridge(name, version);
        let capabilities = capabilities(&mut bridge, version);
        let mut rules = Vec::new();
        for field in Field::ALL {
            for promise in promises(field) {
                let all = constraints(field).into_iter().map(|constraint| with(&promise, constraint));
                let allowed = all.filter(|all| capabilities.can_match_all(all));
                rules.extend(allowed.map(|all| rule(100, 1, &all, vec![Action::output(PortNo(1))])));
            }
        }
        assert!(rules.len() > 80, "only {} matches", rules.len());
        assert_accepted(&mut bridge, &rules);
    }
}

#[test]
fn every_rewrite_that_a_route_may_ask_for_is_accepted() {
    let Some(daemons) = Daemons::start() else { return };
    for (name, version) in [("cf-set10", Version::Of10), ("cf-set13", Version::Of13)] {
        let mut bridge = daemons.bridge(name, version);
        let capabilities = capabilities(&mut bridge, version);
        let mut rules = Vec::new();
        for field in Field::ALL.into_iter().filter(|field| is_settable(*field, version)) {
            let value = if field == Field::VlanVid { 0x1005 } else { 3 & field.full_mask() };
            let actions = match (field, version) {
                (Field::VlanVid, Version::Of10) => vec![Action::SetVlanVid(5)],
                (Field::VlanVid, Version::Of13) => {
                    vec![Action::PushVlan(0x8100), Action::SetField(Constraint::exact(field, value))]
                }
                (Field::VlanPcp, Version::Of10) => vec![Action::SetVlanPcp(3)],
                (Field::TcpSrc | Field::UdpSrc, Version::Of10) => vec![Action::SetTpSrc(3)],
                (Field::TcpDst | Field::UdpDst, Version::Of10) => vec![Action::SetTpDst(3)],
                _ => vec![Action::SetField(Constraint::exact(field, value))],
            };
            let actions = [actions, vec![Action::output(PortNo(1))]].concat();
            let possible = promises(field).into_iter().filter(|promise| capabilities.can_match_all(promise));
            rules.extend(possible.map(|promise| rule(100, 1, &promise, actions.clone())));
        }
        assert!(rules.len() > 10, "only {} rewrites", rules.len());
        assert_accepted(&mut bridge, &rules);
    }
}

#[test]
fn rules_take_the_frames_that_the_packet_view_says() {
    let Some(daemons) = Daemons::start() else { return };
    for (name, version) in [("cf-view10", Version::Of10), ("cf-view13", Version::Of13)] {
        let mut bridge = daemons.bridge(name, version);
        let capabilities = capabilities(&mut bridge, version);
        let (mut compared, mut wrong) = (0, Vec::new());
        for (what, frame) in frames::all() {
            let packet = Packet::with_wire_len(&frame, 1, frame.len());
            for field in Field::ALL {
                let Some(rules) = alternatives(&packet, field, &capabilities) else { continue };
                compared += 1;
                let taken = bridge.cookie_of(&rules, &frame);
                if taken != Some(RIGHT) {
                    wrong.push(format!("{what}: {field} is not {:x?}: {taken:?}\n", packet.switch_value(field)));
                }
            }
        }
        assert!(wrong.is_empty(), "{version}: {} of {compared} differ:\n{}", wrong.len(), wrong.concat());
        assert!(compared > 150, "only {compared} rules compared");
    }
}

/// The cookie of the rule that must take the packet. The rules that must not take it have [`WRONG`].
const RIGHT: u64 = 1;
const WRONG: u64 = 2;

/// Returns a rule that matches the packet's value of the field exactly, and others above it. Each of those matches
/// another value, or other bits. Returns `None` if the switch can't match the value.
fn alternatives(packet: &Packet, field: Field, capabilities: &Capabilities) -> Option<Vec<FlowMod>> {
    let value = packet.switch_value(field)?;
    let holds = |promise: &Vec<Constraint>| {
        promise.iter().all(|c| packet.switch_value(c.field).is_some_and(|value| c.holds(value)))
    };
    let promise = promises(field).into_iter().find(holds)?;
    let drop = |priority, cookie, all: &[Constraint]| rule(priority, cookie, all, Vec::new());
    let right = with(&promise, Constraint::exact(field, value));
    let mut rules = vec![drop(10, RIGHT, &right)];
    for bit in [0, field.bits() / 2, field.bits() - 1] {
        let exact = with(&promise, Constraint::exact(field, value ^ 1 << bit));
        let masked = with(&promise, Constraint::masked(field, (value ^ 1 << bit) & 1 << bit, 1 << bit));
        let others = [exact, masked].into_iter().filter(|all| capabilities.can_match_all(all));
        rules.extend(others.map(|all| drop(20, WRONG, &all)));
    }
    capabilities.can_match_all(&right).then_some(rules)
}
