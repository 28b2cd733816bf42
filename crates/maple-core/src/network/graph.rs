//! Paths and broadcast trees, as pure functions of a network.
//!
//! Ties go to the lowest datapath ids and ports, so equal networks give equal answers, whatever happened before.
//! A path costs O((links + switches) · log switches); a flood O(links · log links).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use maple_wire::{Dpid, PortNo};

use super::{Hop, Location, PortInfo, PortKind};
use crate::ids::Name;

/// The network as a search sees it.
pub trait Graph {
    /// Reports whether the switch is there.
    fn has_switch(&self, switch: Dpid) -> bool;

    /// Returns the links of a switch that are up and known at both ends, in order: its port, and the port at the other
    /// end.
    fn links_of(&self, switch: Dpid) -> impl Iterator<Item = (Location, Location)>;

    /// Returns the ports of a switch, in order.
    fn ports_of(&self, switch: Dpid) -> impl Iterator<Item = (PortNo, PortInfo)>;

    /// Returns the cost of the link that leaves by this port, under a link attribute; `to` is the switch at its far
    /// end.
    fn cost(&self, costs: &Name, from: Location, to: Dpid) -> u64;
}

/// Returns the hops of the best path from one switch to another: the port by which each switch but the last is left.
/// The path is empty if both are the same switch. Returns `None` if there is no path or one of them is not there.
///
/// The best path has the least sum of costs, then the fewest hops, then the hops that come first in order.
pub fn path(network: &impl Graph, from: Dpid, to: Dpid, costs: Option<&Name>) -> Option<Vec<Hop>> {
    path_along(network, from, to, costs, &distances_to(network, to, costs))
}

/// Returns the best path, as [`path`], from the result of [`distances_to`] for `to` in this network.
pub(crate) fn path_along(
    network: &impl Graph,
    from: Dpid,
    to: Dpid,
    costs: Option<&Name>,
    distance: &Distances,
) -> Option<Vec<Hop>> {
    if !network.has_switch(from) || !network.has_switch(to) {
        return None;
    }
    // Distances are measured towards `to`. So the path from `from` takes, at each switch, the lowest port that is on a
    // best path.
    let (mut at, mut hops) = (from, Vec::new());
    while at != to {
        let here = distance.get(&at)?;
        let next = network.links_of(at).find(|(out, peer)| {
            let step = cost(network, *out, peer.switch, costs);
            distance.get(&peer.switch).is_some_and(|(sum, len)| (sum.saturating_add(step), len + 1) == *here)
        });
        let (out, peer) = next?;
        hops.push(Hop::new(out.switch, out.port));
        at = peer.switch;
    }
    Some(hops)
}

/// Returns the hops of a flood that starts at `from`: along the spanning tree of its part of the network, away from
/// `from`, and out of every edge port that is up. Branches without such a port are left out. The hops are in order.
///
/// All starts share one spanning tree, so two floods that arrive at a switch by the same port continue in the same way.
pub fn flood(network: &impl Graph, from: Dpid) -> Vec<Hop> {
    let tree = spanning_tree(network, from);
    // Each switch with the hop that leads to it, those nearest to `from` first.
    let (mut seen, mut reached, mut next) = (BTreeSet::from([from]), vec![(from, None)], 0);
    while let Some((at, _)) = reached.get(next).copied() {
        for (out, peer) in network.links_of(at).filter(|(out, _)| tree.contains(out)) {
            if seen.insert(peer.switch) {
                reached.push((peer.switch, Some(Hop::new(out.switch, out.port))));
            }
        }
        next += 1;
    }
    let (mut hops, mut used) = (BTreeSet::new(), BTreeSet::new());
    for (at, towards) in reached.into_iter().rev() {
        let edges = network.ports_of(at).filter(|(_, info)| info.up && info.kind == PortKind::Edge);
        let before = hops.len();
        hops.extend(edges.map(|(port, _)| Hop::new(at, port)));
        if (hops.len() > before || used.contains(&at))
            && let Some(towards) = towards
        {
            hops.insert(towards);
            used.insert(towards.switch);
        }
    }
    hops.into_iter().collect()
}

/// Returns both ends of each link of the spanning tree of the part of the network that holds `member`: breadth first
/// from its lowest switch.
fn spanning_tree(network: &impl Graph, member: Dpid) -> BTreeSet<Location> {
    let part = reachable(network, member);
    let Some(root) = part.first().copied() else { return BTreeSet::new() };
    let (mut seen, mut level, mut tree) = (BTreeSet::from([root]), vec![root], BTreeSet::new());
    while !level.is_empty() {
        let mut next = Vec::new();
        for at in level {
            for (out, peer) in network.links_of(at) {
                if seen.insert(peer.switch) {
                    tree.extend([out, peer]);
                    next.push(peer.switch);
                }
            }
        }
        next.sort_unstable();
        level = next;
    }
    tree
}

fn reachable(network: &impl Graph, from: Dpid) -> BTreeSet<Dpid> {
    let (mut seen, mut queue) = (BTreeSet::from([from]), vec![from]);
    while let Some(at) = queue.pop() {
        queue.extend(network.links_of(at).map(|(_, peer)| peer.switch).filter(|next| seen.insert(*next)));
    }
    seen
}

/// The least cost from each switch to one switch, and the number of hops of that path.
pub type Distances = BTreeMap<Dpid, (u64, u32)>;

/// Returns the least (cost, hops) from each switch to `to`.
pub fn distances_to(network: &impl Graph, to: Dpid, costs: Option<&Name>) -> Distances {
    let mut distance = BTreeMap::from([(to, (0, 0))]);
    let mut heap = BinaryHeap::from([Reverse((0u64, 0u32, to))]);
    while let Some(Reverse((sum, len, at))) = heap.pop() {
        if distance.get(&at).is_some_and(|best| *best < (sum, len)) {
            continue;
        }
        for (near, far) in network.links_of(at) {
            // The link is used from its far end towards this switch.
            let next = (sum.saturating_add(cost(network, far, near.switch, costs)), len + 1);
            if distance.get(&far.switch).is_none_or(|best| next < *best) {
                distance.insert(far.switch, next);
                heap.push(Reverse((next.0, next.1, far.switch)));
            }
        }
    }
    distance
}

fn cost(network: &impl Graph, from: Location, to: Dpid, costs: Option<&Name>) -> u64 {
    costs.map_or(1, |name| network.cost(name, from, to))
}
