//! Link costs, from the attributes of a topology.

use std::collections::BTreeSet;

use maple_core::network::{LinkName, Location};
use maple_core::state::{Snapshot, Write};
use maple_emulator::Topology;

/// Returns the writes that set link costs from a topology's link attributes, rounded up to whole numbers. Leaves out
/// costs whose name the state has already.
pub fn costs_of(topology: &Topology, state: &Snapshot) -> Vec<Write> {
    let (mut names, mut writes) = (BTreeSet::new(), Vec::new());
    for link in &topology.links {
        for (name, value) in &link.attributes {
            if !state.has_costs(name) {
                names.insert(name.as_str().into());
            }
            let cost = value.ceil().max(1.0) as u64;
            for ((from, port), (to, _)) in [(link.a, link.b), (link.b, link.a)] {
                if cost != 1 && state.cost(name, Location::new(from, port), to) == 1 {
                    let link = LinkName::Switches(from, to);
                    writes.push(Write::Cost { name: name.as_str().into(), link, cost: Some(cost) });
                }
            }
        }
    }
    names.into_iter().map(Write::CostName).chain(writes).collect()
}

#[cfg(test)]
mod tests {
    use maple_core::state::Store;

    use super::*;

    #[test]
    fn a_topology_gives_costs_that_the_policy_does_not() {
        let store = Store::new();
        let ring = Topology::parse("ring:3").unwrap();
        let costs = costs_of(&ring, &store.snapshot());
        assert_eq!(costs[0], Write::CostName("secure".into()));
        assert_eq!(costs.len(), 3);
        store.update(|_| costs);
        assert_eq!(costs_of(&ring, &store.snapshot()), []);
    }
}
