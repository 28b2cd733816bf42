//! The rules of one flow through the network, with their purposes, as text.

use std::fmt::Write as _;

use maple_controller::{Handle, LateShard};
use maple_core::Location;
use maple_core::engine::TableRule;
use maple_core::state::Snapshot;
use maple_wire::field::VLAN_PRESENT;
use maple_wire::print::flow_line;
use maple_wire::{Action, Dpid, Field, Instruction, PortNo, Version};

/// The maximum number of switches that are shown for a flow. Chosen: most paths are shorter, and rules that lead round
/// in a circle must end.
const MAX_HOPS: usize = 8;

/// Writes the number of rules of each switch, and the rules of one flow along its path: each as `ovs-ofctl dump-flows
/// --no-stats` prints it, below its purpose. The flow is the one whose first rule matches most fields.
///
/// # Errors
/// [`LateShard`] if a shard does not answer in time.
pub fn of_one_flow(controller: &Handle) -> Result<String, LateShard> {
    let mut text = String::from("rules");
    let mut first: Option<(Dpid, Version, TableRule)> = None;
    let names = controller.names();
    let named = |dpid: Dpid| names.of_switch(dpid).map_or_else(|| format!("{:x}", dpid.0), str::to_owned);
    for (number, switch) in controller.switches()?.into_iter().enumerate() {
        let rules = controller.rules(switch.dpid)?;
        let separator = if number == 0 { ":" } else { "," };
        let _ = write!(text, "{separator} switch {}: {}", named(switch.dpid), rules.len());
        for rule in rules.into_iter().filter(forwards_decided) {
            let fields = |rule: &TableRule| rule.rule.matching.constraints().count();
            if first.as_ref().is_none_or(|(_, _, best)| fields(&rule) > fields(best)) {
                first = Some((switch.dpid, switch.version, rule));
            }
        }
    }
    text.push('\n');
    if let Some((switch, version, rule)) = first {
        text.push_str(
            "\none flow, explained: the rule of its kind of packets, and the rules that it meets after that\n",
        );
        follow(&mut text, controller, switch, version, rule)?;
    }
    Ok(text)
}

/// Reports whether a rule came from the policy and forwards packets.
fn forwards_decided(rule: &TableRule) -> bool {
    rule.leaf.is_some() && !rule.rule.instructions.is_empty()
}

/// Appends a rule, and the rules that its packets meet after it.
fn follow(
    text: &mut String,
    controller: &Handle,
    mut switch: Dpid,
    mut version: Version,
    mut rule: TableRule,
) -> Result<(), LateShard> {
    let state = controller.snapshot();
    for _ in 0..MAX_HOPS {
        append(text, switch, version, &rule);
        let next = match metadata(&rule) {
            Some(number) => find(controller, switch, Field::Metadata, number)?.map(|next| (switch, version, next)),
            None => match next_switch(&rule, switch, &state) {
                Some((at, label)) => {
                    let found = find(controller, at, Field::VlanVid, label)?;
                    state.switch(at).map(|info| info.version).zip(found).map(|(version, next)| (at, version, next))
                }
                None => None,
            },
        };
        let Some(next) = next else { break };
        (switch, version, rule) = next;
    }
    Ok(())
}

fn append(text: &mut String, switch: Dpid, version: Version, rule: &TableRule) {
    let TableRule { table_id, rule, why, .. } = rule;
    let line = flow_line(version, *table_id, rule.priority, rule.cookie, &rule.matching, &rule.instructions);
    let _ = write!(text, "  switch {:x}  # {why}\n    {}\n", switch.0, line.trim_start());
}

/// Returns the number of the route that a rule selects for its packets.
fn metadata(rule: &TableRule) -> Option<u128> {
    rule.rule.instructions.iter().find_map(|instruction| match instruction {
        Instruction::WriteMetadata { metadata, .. } => Some(u128::from(*metadata)),
        _ => None,
    })
}

/// Returns the rule of a switch that matches this value of a field.
fn find(controller: &Handle, switch: Dpid, field: Field, value: u128) -> Result<Option<TableRule>, LateShard> {
    let has = |rule: &TableRule| rule.rule.matching.get(field).is_some_and(|one| one.is_exact() && one.value == value);
    Ok(controller.rules(switch)?.into_iter().find(has))
}

/// Returns the switch at the far end of the first link over which a rule sends packets, and the label that they carry
/// there. The label is the value of their VLAN id.
fn next_switch(rule: &TableRule, switch: Dpid, state: &Snapshot) -> Option<(Dpid, u128)> {
    let mut label = None;
    let actions = rule.rule.instructions.iter().filter_map(|instruction| match instruction {
        Instruction::ApplyActions(actions) => Some(actions),
        _ => None,
    });
    for action in actions.flatten() {
        match action {
            Action::SetField(set) if set.field == Field::VlanVid => label = Some(set.value),
            Action::SetVlanVid(vid) => label = Some(VLAN_PRESENT | u128::from(*vid)),
            Action::Output { port, .. } if *port != PortNo::CONTROLLER => {
                if let Some(far) = state.peer(Location::new(switch, *port)) {
                    return label.map(|label| (far.switch, label));
                }
            }
            _ => {}
        }
    }
    None
}
