//! Classes of refusals of a rule, from the switch, the rule and the error alone.

use maple_wire::msg::ErrorMsg;
use maple_wire::{Instruction, Match};

use crate::engine::one_switch::Switch;
use crate::engine::one_switch::look_up_tables::Involved;
use crate::ids::Time;
use crate::report::Lowered;
use crate::rule::Rule;

/// The errors about instructions (1.3 §7.4.4.4) which say that a switch does not have one: `OFPBIC_UNKNOWN_INST` and
/// `OFPBIC_UNSUP_INST`.
const NOT_AN_INSTRUCTION: [u16; 2] = [0, 1];
/// The errors about actions (1.3 §7.4.4.3) of switches that do not take them in a set: `OFPBAC_BAD_TYPE`, `TOO_MANY`,
/// `MATCH_INCONSISTENT`, `UNSUPPORTED_ORDER`, `BAD_SET_TYPE`.
const NOT_IN_SETS: [u16; 5] = [0, 7, 10, 11, 13];

/// The subject of a refusal.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RefusedKind {
    /// A meter that the switch has lost.
    LostMeter,
    /// The action set of packets, which the switch does not have, or in which it does not take these actions.
    ActionSet,
    /// A table that the layout rests on.
    Layout,
    /// The way that a key's rule writes: for example, a port of it has gone.
    Way,
    /// Look-ups, which are lowered for this reason.
    LookUps(Involved, Lowered),
    /// A rule of a host, in a table that is full or not.
    Host { is_full: bool },
    /// A rule of the table of routes, or one that leads there.
    Route,
    /// A rule of a leaf or label, or one of the engine's own, in a table that is full or not.
    Leaf { is_full: bool },
}

/// Returns the subject of a refusal. The first that applies counts: a full table says nothing about what a switch can
/// do, and what the layout rests on comes before what uses it.
pub(super) fn classify(switch: &Switch, now: Time, table: u8, rule: &Rule, error: &ErrorMsg) -> RefusedKind {
    let is_full = error.number() == ErrorMsg::table_full(switch.version());
    let layout = switch.layout();
    let involved = switch.involved(table, rule);
    if error.kind == ErrorMsg::METER_MOD_FAILED && switch.paths.meters.lost_with(now, rule).next().is_some() {
        RefusedKind::LostMeter
    } else if !is_full && is_of_action_set(switch, table, rule, error) {
        RefusedKind::ActionSet
    } else if !is_full && is_needed(switch, table, rule) {
        RefusedKind::Layout
    } else if is_of_way(switch, table, rule, error) {
        RefusedKind::Way
    } else if !involved.is_nothing() && (!is_full || layout.look_ups().contains(&table)) {
        // If the table of the rules of leaves or hosts is full, that says nothing about look-ups.
        RefusedKind::LookUps(involved, if is_full { Lowered::TableFull } else { Lowered::Refused })
    } else if switch.ports.host_rules.contains(rule) {
        RefusedKind::Host { is_full }
    } else if switch.has_pipeline() && (table == layout.routes() || !is_full && leads_to_routes(rule)) {
        RefusedKind::Route
    } else {
        RefusedKind::Leaf { is_full }
    }
}

/// Reports whether a switch refuses a rule because of what it does to the action set of packets: it does not have the
/// instruction, or has actions that it does not take in a set.
fn is_of_action_set(switch: &Switch, table: u8, rule: &Rule, error: &ErrorMsg) -> bool {
    let sent = switch.tables.action_sets().to_switch(table, rule.instructions.to_vec());
    let lacks_it = error.kind == ErrorMsg::BAD_INSTRUCTION && NOT_AN_INSTRUCTION.contains(&error.code);
    let not_in_sets = error.kind == ErrorMsg::BAD_ACTION && NOT_IN_SETS.contains(&error.code);
    let is_blamed = |instruction: &Instruction| match instruction {
        Instruction::WriteActions(_) => lacks_it || not_in_sets,
        Instruction::ClearActions => lacks_it,
        _ => false,
    };
    switch.layout().has_action_sets() && sent.iter().any(is_blamed)
}

/// Reports whether a refused rule is one that the layout with several tables rests on.
fn is_needed(switch: &Switch, table: u8, rule: &Rule) -> bool {
    let layout = switch.layout();
    let rests_on = layout.look_ups().chain([layout.ingress(), layout.labels()]).any(|needed| needed == table);
    switch.has_pipeline() && rests_on && (rule.priority, &rule.matching) == (0, &Match::any())
}

/// Reports whether a switch refuses a key's rule because of the way that it writes.
fn is_of_way(switch: &Switch, table: u8, rule: &Rule, error: &ErrorMsg) -> bool {
    let says_way = |instruction: &Instruction| matches!(instruction, Instruction::WriteActions(_));
    let is_of_key = switch.layout().look_ups().contains(&table) && rule.instructions.iter().any(says_way);
    switch.layout().has_action_sets() && is_of_key && error.kind == ErrorMsg::BAD_ACTION
}

fn leads_to_routes(rule: &Rule) -> bool {
    rule.instructions.iter().any(|instruction| matches!(instruction, Instruction::WriteMetadata { .. }))
}
