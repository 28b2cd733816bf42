//! The classifier: which packets go on to which logical table, so that a host's packets are believed only where the
//! host is (design §5, the location check).

use maple_wire::{Field, Instruction, Match, PortNo};

use super::Options;
use super::actions::to_controller;
use super::hosts::PROBE_MAC;
use super::leaf::from_port;
use super::switch::{INGRESS, Switch, TRANSIT};
use super::tags::UNKNOWN_TAG;
use super::transit::MERGED;
use crate::compile::Rule;
use crate::network::{Location, PortKind};
use crate::state::Snapshot;

/// Discovery's frames.
const LLDP: u16 = 65535;
/// Answers to our probes.
const PROBES: u16 = 65534;
/// Packets from other switches.
const LINKS: u16 = 40000;
/// Packets from hosts with a VLAN id of the block kept for path tags.
const RESERVED: u16 = 35000;
/// Packets from hosts.
const HOSTS: u16 = 30000;

/// The Ethernet type of LLDP.
pub(super) const LLDP_TYPE: u128 = 0x88cc;

/// The highest priority that compiled rules may have: below the engine's own in a table of all.
pub(super) const MAX_COMPILED: u16 = 65000;

/// The classifier's rules, table-miss not included. Without further tables only what must not reach the policy.
pub(super) fn classifier(switch: &Switch, state: &Snapshot, options: &Options, cookie: u64) -> Vec<Rule> {
    let track_hosts = options.track_hosts;
    let rule = |priority, matching, instructions: Vec<_>| Rule {
        priority,
        matching,
        instructions: instructions.into(),
        cookie,
    };
    let goto = |table| vec![Instruction::GotoTable(table)];
    let mut rules = vec![rule(LLDP, Match::any().exact(Field::EthType, LLDP_TYPE), to_controller())];
    if track_hosts {
        rules.push(rule(PROBES, Match::any().exact(Field::EthDst, PROBE_MAC.bits()), to_controller()));
    }
    if !switch.three_tables {
        return rules;
    }
    if let Some(block) = options.path_tags {
        rules.push(rule(RESERVED, Match::any().with(block.constraint()), to_controller()));
    }
    let from = |port: PortNo| Match::any().with(from_port(port));
    for (port, info) in state.ports_of(switch.dpid) {
        match info.kind {
            PortKind::New => {}
            PortKind::Link(_) => rules.push(rule(LINKS, from(port), goto(TRANSIT))),
            PortKind::Edge if !track_hosts => rules.push(rule(HOSTS, from(port), goto(INGRESS))),
            PortKind::Edge => rules.extend(
                state
                    .hosts_at(Location::new(switch.dpid, port))
                    .map(|mac| rule(HOSTS, from(port).exact(Field::EthSrc, mac.bits()), goto(INGRESS))),
            ),
        }
    }
    rules
}

/// Takes out the classifier's rules that lead to tables past a guard that the switch has refused: without it a host's
/// VLAN id could be taken for a path tag. Their packets come to the controller.
pub(super) fn retain_guarded(rules: &mut Vec<Rule>, transit_is_guarded: bool) {
    let ingress_is_guarded = rules.iter().any(|rule| rule.priority == RESERVED);
    rules.retain(|rule| match &rule.instructions[..] {
        [Instruction::GotoTable(INGRESS)] => ingress_is_guarded,
        [Instruction::GotoTable(TRANSIT)] => transit_is_guarded,
        _ => true,
    });
}

/// The rule that sends what no other rule takes to the controller.
pub(super) fn table_miss(cookie: u64) -> Rule {
    Rule { priority: 0, matching: Match::any(), instructions: to_controller().into(), cookie }
}

/// What a rule that belongs to no leaf is for, in words for people.
pub(super) fn reason(rule: &Rule) -> &'static str {
    match (rule.priority, &rule.instructions[..]) {
        (LLDP, _) => "maple: link discovery",
        (PROBES, _) => "maple: answers of hosts that were asked whether they are still there",
        (_, [Instruction::GotoTable(TRANSIT)]) => "maple: from another switch",
        (_, [Instruction::GotoTable(INGRESS)]) => "maple: from a host, where it is known to be",
        (0, _) => "maple: everything else",
        (MERGED, _) => "maple: all that comes by this link and goes there goes this way",
        (UNKNOWN_TAG, _) => "maple: path tags of routes that are gone",
        (RESERVED, _) if rule.matching.get(Field::VlanVid).is_some() => "maple: VLAN ids of hosts like path tags",
        _ => "maple: not decided yet; lower rules must not take these",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_of_no_leaf_say_what_they_are_for() {
        let reason = |priority, does: Vec<_>| reason(&Rule { priority, instructions: does.into(), ..table_miss(0) });
        assert_eq!(reason(LLDP, to_controller()), "maple: link discovery");
        assert!(reason(LINKS, vec![Instruction::GotoTable(TRANSIT)]).contains("another switch"));
        assert!(reason(HOSTS, vec![Instruction::GotoTable(INGRESS)]).contains("from a host"));
        assert!(reason(HOSTS, to_controller()).contains("not decided yet"), "a barrier may have any priority");
        assert!(reason(0, to_controller()).contains("everything else"));
    }
}
