//! The classifier: which packets go to which logical table. It lets a host's packets pass only at the host's own port.

use maple_wire::{Field, Instruction, Match, PortNo};

use super::Switch;
use super::layout::{ENTRY, Layout};
use super::priorities;
use crate::engine::context::options::Options;
use crate::engine::messages::received_packet::from_port;
use crate::engine::one_switch::counters::senders::Entrance;
use crate::engine::one_switch::ports::is_virtual;
use crate::forwarding::to_controller;
use crate::network::own_frames::{DISCOVERY_TYPES, PROBE_MAC};
use crate::network::{Location, Mac, PortKind, PortRole};
use crate::rule::Rule;
use crate::state::Snapshot;

/// Returns the classifier's rules, except those of hosts and the table-miss rule. With one table, only rules for
/// packets that must not reach the policy.
pub(in crate::engine) fn classifier(switch: &Switch, state: &Snapshot, options: &Options, cookie: u64) -> Vec<Rule> {
    let track_hosts = options.track_hosts;
    let rule = |priority, matching, instructions: Vec<_>| Rule {
        priority,
        matching,
        instructions: instructions.into(),
        cookie,
    };
    let goto = |table| vec![Instruction::GotoTable(table)];
    let labels = switch.layout.labels();
    let discovery = |kind| rule(priorities::LLDP, Match::any().exact(Field::EthType, kind), to_controller());
    let mut rules: Vec<Rule> = DISCOVERY_TYPES.map(discovery).into();
    if track_hosts {
        rules.push(rule(priorities::PROBES, Match::any().exact(Field::EthDst, PROBE_MAC.bits()), to_controller()));
    }
    let packets_from = |port: PortNo| Match::any().with(from_port(port));
    let facts = state.facts();
    let is_closed = |port| facts.role(Location::new(switch.dpid, port)) == PortRole::Closed;
    let ports = || state.ports_of(switch.dpid).filter(|(port, _)| !is_virtual(*port));
    if !switch.has_pipeline() {
        let shut = ports().filter(|(port, info)| matches!(info.kind, PortKind::Shut { .. }) || is_closed(*port));
        rules.extend(shut.map(|(port, _)| rule(priorities::SHUT, packets_from(port), Vec::new())));
        return rules;
    }
    for (port, info) in ports() {
        match info.kind {
            PortKind::New if is_closed(port) => rules.push(rule(priorities::LINKS, packets_from(port), Vec::new())),
            PortKind::New => {}
            PortKind::Shut { .. } => rules.push(rule(priorities::LINKS, packets_from(port), Vec::new())),
            PortKind::Middlebox => rules.push(rule(priorities::HOSTS, packets_from(port), goto(ENTRY))),
            PortKind::Link(_) => rules.push(rule(priorities::LINKS, packets_from(port), goto(labels))),
            PortKind::Edge if !track_hosts => rules.push(rule(priorities::HOSTS, packets_from(port), goto(ENTRY))),
            // Each host has its own rules (`host_rules`).
            PortKind::Edge => {}
        }
    }
    rules
}

/// Returns the rule that sends everything else to the controller.
pub(in crate::engine) fn table_miss(cookie: u64) -> Rule {
    Rule { priority: 0, matching: Match::any(), instructions: to_controller().into(), cookie }
}

/// Returns the rule of a look-up's table that sends everything else on to the next table.
pub(in crate::engine) fn pass_on(table: u8, cookie: u64) -> Rule {
    let instructions = vec![Instruction::GotoTable(table + 1)].into();
    Rule { priority: 0, matching: Match::any(), instructions, cookie }
}

/// Distinguishes the rules of this priority that drop and belong to no leaf. `true`: they are for unknown hosts at a
/// port with too many. `false`: they are for a port that is shut or closed. `None`: there are no such rules.
pub(in crate::engine) fn drops_by_priority(priority: u16, has_pipeline: bool) -> Option<bool> {
    match priority {
        priorities::GUARD if has_pipeline => Some(true),
        priorities::LINKS if has_pipeline => Some(false),
        priorities::LAST if !has_pipeline => Some(true),
        priorities::SHUT if !has_pipeline => Some(false),
        _ => None,
    }
}

impl Switch {
    /// Returns where the packets come in that a rule of the classifier lets in; `None` for rules that let none in.
    pub fn entrance(&self, priority: u16, matching: &Match) -> Option<Entrance> {
        let exact = |field| matching.get(field).filter(|of| of.is_exact()).map(|of| of.value);
        let lets_in = self.has_pipeline() && matches!(priority, priorities::HOSTS | priorities::COPIES);
        let port = exact(Field::InPort).filter(|_| lets_in)?;
        Some((PortNo(port as u32), exact(Field::EthSrc).map(Mac::from_bits)))
    }
}

/// Returns the purpose of a rule that belongs to no leaf, in words for people.
pub(in crate::engine) fn reason(rule: &Rule, layout: Layout) -> &'static str {
    match (rule.priority, &rule.instructions[..]) {
        (priorities::LLDP, _) => "maple: link discovery",
        (priorities::PROBES, _) => "maple: answers of hosts that were asked whether they are still there",
        (0, [Instruction::GotoTable(_)]) => "maple: no look-up by this packet has a key here",
        (_, [Instruction::GotoTable(table)]) if *table == layout.labels() => "maple: from another switch",
        (_, [Instruction::GotoTable(ENTRY)] | [Instruction::WriteMetadata { .. }, Instruction::GotoTable(ENTRY)]) => {
            "maple: from a host, where it is known to be"
        }
        (priorities::COPIES, [_, .., Instruction::GotoTable(ENTRY)]) => {
            "maple: a host announces an address, and f depends on addresses"
        }
        (priorities::ANNOUNCED, _) => "maple: a host announces an address, and f depends on addresses",
        (priorities::LINKS | priorities::SHUT, []) => {
            "maple: from a closed port, or from a segment whose hosts use another port"
        }
        (priorities::GUARD | priorities::LAST, []) => "maple: from too many hosts at one port",
        (priorities::KNOWN, _) => "maple: from a host that is known at a port with too many",
        (0, _) => "maple: everything else",
        _ => "maple: not decided yet; lower rules must not take these",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_without_a_leaf_state_their_purpose() {
        let layout = Layout::with_look_ups(3);
        let rule = |priority, does: Vec<_>| Rule { priority, instructions: does.into(), ..table_miss(0) };
        let reason = |priority, does| reason(&rule(priority, does), layout);
        assert_eq!(reason(priorities::LLDP, to_controller()), "maple: link discovery");
        assert!(reason(priorities::LINKS, vec![Instruction::GotoTable(layout.labels())]).contains("another switch"));
        assert!(reason(priorities::HOSTS, vec![Instruction::GotoTable(ENTRY)]).contains("from a host"));
        assert!(
            reason(priorities::HOSTS, to_controller()).contains("not decided yet"),
            "a barrier rule may have any priority"
        );
        assert!(reason(0, to_controller()).contains("everything else"));
    }
}
