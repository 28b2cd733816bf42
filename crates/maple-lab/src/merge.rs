//! One state for two compared policies: the network's state, and what the second policy needs besides.

use std::collections::BTreeMap;

use maple_core::state::{Snapshot, Write};
use maple_emulator::Topology;
use maple_emulator::commands::CommandError;

use crate::costs_of;

/// The costs of links, by name, as text.
type Costs<'a> = BTreeMap<&'a str, Vec<String>>;

/// Returns what loading another policy wrote, except what the network's state has under the same name. A table, a
/// variable or a cost that both policies name stays as it is in the network.
///
/// # Errors
/// [`CommandError::Failed`] if the policies declare or set one name differently when they are loaded, because then no
/// state fits both.
pub fn besides(network: &Snapshot, other: &Snapshot, topology: &Topology) -> Result<Vec<Write>, CommandError> {
    let (ours, mut theirs) = (network.of_users(), other.of_users());
    theirs.extend(costs_of(topology, other));
    let (our_costs, their_costs) = (costs(&ours), costs(&theirs));
    for (name, costs) in &their_costs {
        if our_costs.get(name).is_some_and(|known| known != costs) {
            let why = format!("the policies give links other costs of the name {name:?}, so no state fits both");
            return Err(CommandError::Failed(why));
        }
    }
    let mut also = Vec::new();
    for write in &theirs {
        let is_new = match write {
            Write::Table { table, .. } => network.table(table).is_none_or(|rows| rows.is_empty()),
            Write::Var { name, .. } => network.var(name).is_none(),
            Write::Types { table, types } => declared(network.types(table), types, table)?,
            Write::Kind { name, kind } => declared(network.kind(name), kind, name)?,
            Write::CostName(name) | Write::Cost { name, .. } => !our_costs.contains_key(&**name),
            _ => false,
        };
        if is_new {
            also.push(write.clone());
        }
    }
    Ok(also)
}

/// Reports whether a declaration is new to the network. Fails if the network has a different declaration of that name.
fn declared<T: PartialEq>(
    known: Option<&std::sync::Arc<T>>,
    wanted: &std::sync::Arc<T>,
    name: &str,
) -> Result<bool, CommandError> {
    match known {
        Some(known) if known != wanted => {
            Err(CommandError::Failed(format!("the policies declare other types for {name:?}, so no state fits both")))
        }
        known => Ok(known.is_none()),
    }
}

fn costs(writes: &[Write]) -> Costs<'_> {
    let mut costs = Costs::new();
    for write in writes {
        match write {
            Write::CostName(name) => _ = costs.entry(&**name).or_default(),
            Write::Cost { name, link, cost } => costs.entry(&**name).or_default().push(format!("{link:?}={cost:?}")),
            _ => {}
        }
    }
    costs.values_mut().for_each(|links| {
        links.sort();
        links.dedup();
    });
    costs
}
