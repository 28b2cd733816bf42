//! Hosts and ports of a trace, and their invalidation (paper §6.3).

use std::collections::{BTreeMap, BTreeSet};

use maple_core::{Change, LeafId, RuleTable};
use maple_wire::{Constraint, Field};

use super::play::{Expected, LearnedTrace};

/// Returns the addresses of a trace, in ascending order.
pub(super) fn hosts(trace: &[Expected]) -> Vec<u32> {
    Vec::from_iter(trace.iter().flat_map(|(header, _)| [header.src, header.dst]).collect::<BTreeSet<_>>())
}

/// Returns the leaves of each port that routes use.
pub(super) fn ports(learned: &[LearnedTrace]) -> Vec<Vec<LeafId>> {
    let mut by_port: BTreeMap<Option<usize>, Vec<LeafId>> = BTreeMap::new();
    for LearnedTrace { leaf, filter, .. } in learned {
        by_port.entry(*filter).or_default().push(*leaf);
    }
    Vec::from_iter(by_port.into_values())
}

/// Removes the leaves whose packets may come from or go to a host. Returns the changes.
pub(super) fn invalidate_host(table: &mut RuleTable, host: u32) -> Vec<Change> {
    let mut leaves = table.tree().leaves_fitting(&Constraint::exact(Field::Ipv4Src, host.into()));
    leaves.extend(table.tree().leaves_fitting(&Constraint::exact(Field::Ipv4Dst, host.into())));
    withdraw(table, &leaves)
}

/// Removes leaves, for example those of a port. Returns the changes.
pub(super) fn withdraw(table: &mut RuleTable, leaves: &[LeafId]) -> Vec<Change> {
    table.remove_all(leaves);
    table.take_changes()
}
