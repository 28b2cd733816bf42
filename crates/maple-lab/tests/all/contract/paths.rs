//! Paths and floods as the documentation describes them, found by trying everything.

use std::collections::BTreeSet;

use maple_core::Location;
use maple_wire::{Dpid, PortNo};

use crate::contract::state::State;

/// A hop: leave a switch by a port.
type Hop = (Dpid, PortNo);

/// Finds the best path between two switches: least cost, then fewest hops, then first in order. Tries all simple
/// paths.
pub fn best(state: &State, from: Dpid, to: Dpid, by_costs: bool) -> Option<Vec<Hop>> {
    if !state.switches.contains_key(&from) || !state.switches.contains_key(&to) {
        return None;
    }
    let mut found = Vec::new();
    extend(state, by_costs, to, &mut Trail { at: from, cost: 0, hops: Vec::new(), seen: vec![from] }, &mut found);
    found.into_iter().min_by_key(|(cost, hops)| (*cost, hops.len(), hops.clone())).map(|(_, hops)| hops)
}

/// A path under construction.
struct Trail {
    at: Dpid,
    cost: u64,
    hops: Vec<Hop>,
    seen: Vec<Dpid>,
}

fn extend(state: &State, by_costs: bool, to: Dpid, trail: &mut Trail, found: &mut Vec<(u64, Vec<Hop>)>) {
    if trail.at == to {
        found.push((trail.cost, trail.hops.clone()));
        return;
    }
    for (near, far) in state.links_of(trail.at) {
        if trail.seen.contains(&far.switch) {
            continue;
        }
        let step = if by_costs { state.cost(near.switch, far.switch) } else { 1 };
        let (at, cost) = (trail.at, trail.cost);
        trail.hops.push((near.switch, near.port));
        trail.seen.push(far.switch);
        (trail.at, trail.cost) = (far.switch, cost + step);
        extend(state, by_costs, to, trail, found);
        (trail.at, trail.cost) = (at, cost);
        trail.seen.pop();
        trail.hops.pop();
    }
}

/// Returns the hops of a flood from a switch: the spanning tree of its part of the network, away from it, and all edge
/// ports there. Branches without edge ports are left out.
pub fn flood(state: &State, from: Dpid) -> Vec<Hop> {
    spread(state, &spanning_tree(state, from), from, None)
}

fn spread(state: &State, tree: &BTreeSet<Location>, at: Dpid, came_from: Option<Location>) -> Vec<Hop> {
    let mut hops: Vec<Hop> = state.edge_ports().iter().filter(|p| p.switch == at).map(|p| (p.switch, p.port)).collect();
    for (near, far) in state.links_of(at) {
        if tree.contains(&near) && Some(near) != came_from {
            let beyond = spread(state, tree, far.switch, Some(far));
            if !beyond.is_empty() {
                hops.push((near.switch, near.port));
                hops.extend(beyond);
            }
        }
    }
    hops
}

/// Returns both ends of each link of the spanning tree: from the lowest switch, level by level, each switch joined to
/// the lowest switch of the level above, by that one's lowest port.
fn spanning_tree(state: &State, member: Dpid) -> BTreeSet<Location> {
    let mut part = BTreeSet::from([member]);
    while let Some(next) =
        part.iter().flat_map(|at| state.links_of(*at)).map(|(_, far)| far.switch).find(|next| !part.contains(next))
    {
        part.insert(next);
    }
    let root = *part.first().expect("the member is in it");
    let (mut level, mut joined, mut tree) = (BTreeSet::from([root]), BTreeSet::from([root]), BTreeSet::new());
    while !level.is_empty() {
        let mut below = BTreeSet::new();
        for (near, far) in level.iter().flat_map(|at| state.links_of(*at)) {
            if joined.insert(far.switch) {
                tree.extend([near, far]);
                below.insert(far.switch);
            }
        }
        level = below;
    }
    tree
}
