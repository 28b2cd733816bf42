//! From a leaf's part at a switch to the switch's actions.
//!
//! The order is fixed: the path tag, if there is one, is pushed at the ingress; output to links, with the headers that f
//! saw; the tag is popped; then the rewrites, and output to edge ports.

use maple_wire::{Action, Constraint, Field, Instruction, PortNo, Version};

use super::tags::has_tag;
use crate::route::{Part, Resolved};

/// The bit of `vlan_vid` that says that there is a tag.
const TAG_PRESENT: u128 = 0x1000;

/// The Ethernet type of a pushed VLAN tag.
const VLAN_TYPE: u16 = 0x8100;

/// What a switch does with the packets of a part. None is to drop.
pub(super) fn instructions(version: Version, part: &Part, tag: Option<u16>, meter: Option<u32>) -> Vec<Instruction> {
    let actions = all(version, part, tag);
    if actions.is_empty() {
        return Vec::new();
    }
    let meter = meter.filter(|_| version == Version::Of13).map(Instruction::Meter);
    meter.into_iter().chain([Instruction::ApplyActions(actions)]).collect()
}

/// All actions of a part, for packets of a route with this path tag.
pub(super) fn all(version: Version, part: &Part, tag: Option<u16>) -> Vec<Action> {
    let mut actions = Vec::new();
    if let Some(id) = tag.filter(|_| part.arrives.is_none()) {
        actions.extend([Action::PushVlan(VLAN_TYPE), Action::SetField(has_tag(id))]);
    }
    actions.extend(part.links.iter().map(|port| Action::output(*port)));
    if tag.is_some() && !part.edges.is_empty() {
        actions.push(Action::PopVlan);
    }
    actions.extend(egress(version, part));
    actions
}

/// The actions that lead out of the network.
pub(super) fn egress(version: Version, part: &Part) -> Vec<Action> {
    if part.edges.is_empty() {
        return Vec::new();
    }
    let mut actions: Vec<Action> = part
        .treatment
        .rewrites
        .iter()
        // The priority goes with the tag; 1.0 would push a new tag to hold it.
        .filter(|(field, _)| **field != Field::VlanPcp || part.treatment.rewrites.get(&Field::VlanVid) != Some(&0))
        .flat_map(|(field, value)| rewrite(version, *field, *value, part.tagged))
        .collect();
    match (part.treatment.queue, version) {
        (None, _) => actions.extend(part.edges.iter().map(|port| Action::output(*port))),
        (Some(queue), Version::Of10) => {
            actions.extend(part.edges.iter().map(|port| Action::Enqueue { port: *port, queue }));
        }
        (Some(queue), Version::Of13) => {
            actions.push(Action::SetQueue(queue));
            actions.extend(part.edges.iter().map(|port| Action::output(*port)));
        }
    }
    actions
}

fn rewrite(version: Version, field: Field, value: u128, tagged: bool) -> Vec<Action> {
    match (field, version) {
        (Field::VlanVid, _) if value == 0 => tagged.then_some(Action::PopVlan).into_iter().collect(),
        (Field::VlanVid, Version::Of10) => vec![Action::SetVlanVid(value as u16 & 0xfff)],
        (Field::VlanVid, Version::Of13) => {
            let set = Action::SetField(Constraint::exact(field, TAG_PRESENT | value));
            if tagged { vec![set] } else { vec![Action::PushVlan(VLAN_TYPE), set] }
        }
        (Field::VlanPcp, Version::Of10) => vec![Action::SetVlanPcp(value as u8)],
        (Field::TcpSrc | Field::UdpSrc, Version::Of10) => vec![Action::SetTpSrc(value as u16)],
        (Field::TcpDst | Field::UdpDst, Version::Of10) => vec![Action::SetTpDst(value as u16)],
        _ => vec![Action::SetField(Constraint::exact(field, value))],
    }
}

/// Whether each switch of a route sends packets on by at most one port.
pub(super) fn is_path(route: &Resolved) -> bool {
    route.parts.values().all(|part| part.links.len() + part.edges.len() <= 1)
}

/// The instructions of a rule that sends to the controller.
pub(super) fn to_controller() -> Vec<Instruction> {
    vec![Instruction::ApplyActions(vec![Action::to_controller()])]
}

/// Whether a rule sends to the controller.
pub(super) fn is_to_controller(instructions: &[Instruction]) -> bool {
    let to = |action: &Action| matches!(action, Action::Output { port: PortNo::CONTROLLER, .. });
    instructions.iter().any(|i| matches!(i, Instruction::ApplyActions(actions) if actions.iter().any(to)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::route::Treatment;

    #[test]
    fn a_priority_goes_with_its_tag_in_both_versions() {
        let rewrites = BTreeMap::from([(Field::VlanVid, 0), (Field::VlanPcp, 3)]);
        let part = Part {
            edges: [PortNo(1)].into(),
            treatment: Treatment { rewrites, queue: None },
            tagged: true,
            ..Part::default()
        };
        for version in [Version::Of10, Version::Of13] {
            assert_eq!(all(version, &part, None), [Action::PopVlan, Action::output(PortNo(1))]);
        }
    }
}
