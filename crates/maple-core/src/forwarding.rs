//! Turns what a switch does with a packet into the switch's actions.
//!
//! The order is fixed. First come the rewrites that all copies share. Then the packet goes out to links, each time
//! under the label of the next switch. Then the label is removed. Then come the rewrites of this switch alone, and the
//! packet leaves by edge ports. A queue is chosen last, because it would apply to links too.

use std::collections::{BTreeMap, BTreeSet};

use maple_wire::eth_type;
use maple_wire::field::VLAN_PRESENT;
use maple_wire::{Action, Constraint, Field, Instruction, PortNo, Version};

use crate::route_plan::{SwitchHops, Treatment};

/// [`VLAN_PRESENT`], with the width of label ids.
pub(crate) const TAG_PRESENT: u16 = VLAN_PRESENT as u16;

/// The treatment of a packet at a switch after the rewrites that all copies share.
pub(crate) struct Forwarding<'a> {
    /// The links by which the packet goes on, each with the label under which the next switch knows it.
    pub links: &'a [(PortNo, u16)],
    /// The edge ports that the packet leaves by.
    pub edges: &'a BTreeSet<PortNo>,
    /// The rewrites and the queue of the copies that leave by edge ports.
    pub treatment: &'a Treatment,
    /// Whether the packet has a VLAN tag of its own; known only if the treatment rewrites the tag.
    pub tagged: bool,
    /// The VLAN id that the label replaces. With `None`, the label is a tag in addition to those of the packet.
    pub replaced: Option<u16>,
}

/// Returns the actions of the ingress switch for a packet. The `shared` fields are rewritten in all copies.
pub(crate) fn at_ingress(version: Version, shared: &BTreeMap<Field, u128>, forwarding: &Forwarding<'_>) -> Vec<Action> {
    let mut actions = rewrites(version, shared, forwarding.tagged);
    if version == Version::Of13 && !forwarding.links.is_empty() {
        actions.push(Action::PushVlan(eth_type::VLAN));
    }
    forward(version, !forwarding.links.is_empty(), forwarding, &mut actions);
    actions
}

/// Returns the actions of a later switch for a packet that arrives under a label.
pub(crate) fn under_label(version: Version, forwarding: &Forwarding<'_>) -> Vec<Action> {
    let mut actions = Vec::new();
    forward(version, true, forwarding, &mut actions);
    actions
}

/// Appends the actions that send the packet on by links, and out of edge ports without its label, if it has one.
fn forward(version: Version, labelled: bool, forwarding: &Forwarding<'_>, actions: &mut Vec<Action>) {
    for (port, label) in forwarding.links {
        actions.extend([set_vlan(version, *label), Action::output(*port)]);
    }
    if forwarding.edges.is_empty() {
        return;
    }
    if labelled {
        actions.push(forwarding.replaced.map_or(Action::PopVlan, |vid| set_vlan(version, vid)));
    }
    actions.extend(leave(version, forwarding.edges, forwarding.treatment, forwarding.tagged));
}

fn set_vlan(version: Version, vid: u16) -> Action {
    match version {
        Version::Of10 => Action::SetVlanVid(vid),
        Version::Of13 => Action::SetField(has_vlan(vid)),
    }
}

/// Returns the constraint that a packet has this VLAN id in its first tag.
pub(crate) fn has_vlan(vid: u16) -> Constraint {
    Constraint::exact(Field::VlanVid, u128::from(TAG_PRESENT | vid))
}

/// Returns the actions that send a packet, as it entered the network, straight out of a switch's edge ports.
pub(crate) fn egress(version: Version, hops: &SwitchHops) -> Vec<Action> {
    leave(version, &hops.edges, &hops.treatment, hops.tagged)
}

fn leave(version: Version, edges: &BTreeSet<PortNo>, treatment: &Treatment, tagged: bool) -> Vec<Action> {
    if edges.is_empty() {
        return Vec::new();
    }
    let mut actions = rewrites(version, &treatment.rewrites, tagged);
    match (treatment.queue, version) {
        (None, _) => actions.extend(edges.iter().map(|port| Action::output(*port))),
        (Some(queue), Version::Of10) => {
            actions.extend(edges.iter().map(|port| Action::Enqueue { port: *port, queue }));
        }
        (Some(queue), Version::Of13) => {
            actions.push(Action::SetQueue(queue));
            actions.extend(edges.iter().map(|port| Action::output(*port)));
        }
    }
    actions
}

fn rewrites(version: Version, fields: &BTreeMap<Field, u128>, tagged: bool) -> Vec<Action> {
    // The priority is removed with the tag. In 1.0, setting it would push a new tag.
    let goes = |field: &Field| *field == Field::VlanPcp && fields.get(&Field::VlanVid) == Some(&0);
    let kept = fields.iter().filter(|(field, _)| !goes(field));
    kept.flat_map(|(field, value)| rewrite(version, *field, *value, tagged)).collect()
}

fn rewrite(version: Version, field: Field, value: u128, tagged: bool) -> Vec<Action> {
    match (field, version) {
        (Field::VlanVid, _) if value == 0 => tagged.then_some(Action::PopVlan).into_iter().collect(),
        (Field::VlanVid, Version::Of10) => vec![Action::SetVlanVid(value as u16 & 0xfff)],
        (Field::VlanVid, Version::Of13) => {
            let set = Action::SetField(Constraint::exact(field, u128::from(TAG_PRESENT) | value));
            if tagged { vec![set] } else { vec![Action::PushVlan(eth_type::VLAN), set] }
        }
        (Field::VlanPcp, Version::Of10) => vec![Action::SetVlanPcp(value as u8)],
        (Field::TcpSrc | Field::UdpSrc, Version::Of10) => vec![Action::SetTpSrc(value as u16)],
        (Field::TcpDst | Field::UdpDst, Version::Of10) => vec![Action::SetTpDst(value as u16)],
        _ => vec![Action::SetField(Constraint::exact(field, value))],
    }
}

/// Returns the actions as instructions, after a meter if the version has meters. An empty list drops the packet.
pub(crate) fn instructions(version: Version, actions: Vec<Action>, meter: Option<u32>) -> Vec<Instruction> {
    if actions.is_empty() {
        return Vec::new();
    }
    let meter = meter.filter(|_| version == Version::Of13).map(Instruction::Meter);
    meter.into_iter().chain([Instruction::ApplyActions(actions)]).collect()
}

/// Returns the instructions of a rule that sends to the controller.
pub(crate) fn to_controller() -> Vec<Instruction> {
    vec![Instruction::ApplyActions(vec![Action::to_controller()])]
}

/// Reports whether a rule sends to the controller.
pub(crate) fn is_to_controller(instructions: &[Instruction]) -> bool {
    let to = |action: &Action| matches!(action, Action::Output { port: PortNo::CONTROLLER, .. });
    instructions
        .iter()
        .any(|instruction| matches!(instruction, Instruction::ApplyActions(actions) if actions.iter().any(to)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const EDGE: PortNo = PortNo(1);

    fn treatment(rewrites: &[(Field, u128)]) -> Treatment {
        Treatment { rewrites: rewrites.iter().copied().collect(), queue: None }
    }

    #[test]
    fn a_priority_goes_with_its_tag_in_both_versions() {
        let treatment = treatment(&[(Field::VlanVid, 0), (Field::VlanPcp, 3)]);
        for version in [Version::Of10, Version::Of13] {
            assert_eq!(leave(version, &[EDGE].into(), &treatment, true), [Action::PopVlan, Action::output(EDGE)]);
        }
    }

    #[test]
    fn the_ingress_rewrites_pushes_a_label_and_leaves_without_it() {
        let (shared, link) = (BTreeMap::from([(Field::EthDst, 7)]), (PortNo(9), 5));
        let forwarding = Forwarding {
            links: &[link],
            edges: &[EDGE].into(),
            treatment: &treatment(&[]),
            tagged: false,
            replaced: None,
        };
        let set = Action::SetField(Constraint::exact(Field::EthDst, 7));
        let out = Action::output(link.0);
        assert_eq!(
            at_ingress(Version::Of13, &shared, &forwarding),
            [
                set.clone(),
                Action::PushVlan(eth_type::VLAN),
                Action::SetField(has_vlan(5)),
                out.clone(),
                Action::PopVlan,
                Action::output(EDGE)
            ]
        );
        assert_eq!(
            at_ingress(Version::Of10, &shared, &forwarding),
            [set, Action::SetVlanVid(5), out, Action::PopVlan, Action::output(EDGE)]
        );
    }

    #[test]
    fn a_tag_that_a_label_replaced_comes_back_where_the_packet_leaves() {
        for version in [Version::Of10, Version::Of13] {
            let forwarding = Forwarding {
                links: &[],
                edges: &[EDGE].into(),
                treatment: &treatment(&[]),
                tagged: true,
                replaced: Some(20),
            };
            assert_eq!(under_label(version, &forwarding), [set_vlan(version, 20), Action::output(EDGE)]);
        }
    }
}
