//! Finds the leaves that an invalidation selects, without looking at all the others.
//!
//! * By fields: each switch's tree knows which leaves can have a value ([`crate::Tree::leaves_fitting`]).
//! * By port: a route that uses a port depends on that port's cell, or on the flood that led there. So the store knows
//!   its leaf. The packets that can enter by the port are again found by field.
//!
//! The result may contain too many leaves, so each one is checked. The cost is one step for each leaf found.
//! [`crate::engine::Stats::leaves_examined`] counts them.

use std::collections::BTreeSet;

use maple_wire::{Constraint, Field};

use super::Decisions;
use super::disjoint::are_disjoint;
use super::leaf::Leaf;
use crate::engine::fabric::Fabric;
use crate::engine::messages::received_packet::from_port;
use crate::engine::tools::expected::Expected;
use crate::ids::{DependentId, LeafId, RouteId};
use crate::network::{Location, Mac};
use crate::state::{Cell, LeafSelection};
use crate::trace::Item;

impl Decisions {
    /// Withdraws a leaf that is no longer f's answer. Packets that wait for it are decided again.
    pub fn withdraw(&mut self, fabric: &mut Fabric, id: LeafId) {
        fabric.ctx.store.forget(id);
        if !self.leaves.contains_key(&id) {
            return;
        }
        self.release(fabric, id);
        let Some(leaf) = self.leaves.remove(&id).expected() else { return };
        self.keep_counting_leaf(fabric, id, &leaf);
        fabric.ctx.stats.leaves_withdrawn += 1;
        let ingress = leaf.ingress();
        if leaf.has_open_route() {
            self.ways.note_ended_leaf(ingress);
        }
        if let Some(switch) = fabric.switches.get_mut(&ingress) {
            switch.ingress.table.remove(id);
            fabric.mark_dirty(ingress);
        }
        self.undecided.add_misses(leaf.held.into_iter().flat_map(|held| held.packets));
    }

    /// Withdraws those of this shard's leaves that are selected.
    pub fn withdraw_selected(&mut self, fabric: &mut Fabric, selection: &LeafSelection) {
        let found: BTreeSet<LeafId> = match selection {
            LeafSelection::All => self.leaves.keys().copied().collect(),
            LeafSelection::Leaves(leaves) => leaves.clone(),
            LeafSelection::Cell(cell) => leaves_among(fabric, &owned(fabric, fabric.ctx.store.dependents_of(cell))),
            LeafSelection::Fields(all) => self.leaves_with_all(fabric, all),
            LeafSelection::Host(mac) => leaves_of_host(fabric, *mac),
            LeafSelection::Port(at) => leaves_at_port(fabric, *at),
        };
        fabric.ctx.stats.leaves_examined += found.len() as u64;
        let is_meant = |id: &LeafId| self.leaves.get(id).is_some_and(|leaf| is_selected(fabric, leaf, selection));
        let chosen: Vec<LeafId> = found.into_iter().filter(is_meant).collect();
        self.withdraw_all(fabric, chosen);
    }

    /// Withdraws these leaves.
    pub fn withdraw_all(&mut self, fabric: &mut Fabric, leaves: impl IntoIterator<Item = LeafId>) {
        leaves.into_iter().for_each(|leaf| self.withdraw(fabric, leaf));
    }

    /// Returns the leaves that can fit the most selective of these constraints.
    fn leaves_with_all(&self, fabric: &Fabric, constraints: &[Constraint]) -> BTreeSet<LeafId> {
        let each = constraints.iter().map(|constraint| leaves_with(fabric, constraint));
        each.min_by_key(BTreeSet::len).unwrap_or_else(|| self.leaves.keys().copied().collect())
    }
}

/// Reports whether a leaf is selected. A selection that names leaves or a cell has been evaluated already.
fn is_selected(fabric: &Fabric, leaf: &Leaf, selection: &LeafSelection) -> bool {
    let can_have = |constraints: &[Constraint]| {
        let items: Vec<Item> = constraints.iter().map(|c| Item::Read(*c)).collect();
        !are_disjoint(&leaf.trace.items, &items)
    };
    match selection {
        LeafSelection::All | LeafSelection::Cell(_) | LeafSelection::Leaves(_) => true,
        LeafSelection::Fields(constraints) => can_have(constraints),
        LeafSelection::Host(mac) => {
            [Field::EthSrc, Field::EthDst].into_iter().any(|field| can_have(&[Constraint::exact(field, mac.bits())]))
        }
        LeafSelection::Port(at) => uses_port(fabric, leaf, *at),
    }
}

fn leaves_of_host(fabric: &Fabric, mac: Mac) -> BTreeSet<LeafId> {
    let leaves_with_mac = |field| leaves_with(fabric, &Constraint::exact(field, mac.bits()));
    leaves_with_mac(Field::EthSrc).into_iter().chain(leaves_with_mac(Field::EthDst)).collect()
}

fn uses_port(fabric: &Fabric, leaf: &Leaf, at: Location) -> bool {
    let passes = Decisions::resolved(fabric, leaf).is_none_or(|route| {
        route.switches.get(&at.switch).is_some_and(|hops| {
            hops.arrives == Some(at.port) || hops.links.contains_key(&at.port) || hops.edges.contains(&at.port)
        })
    });
    let enters = || !are_disjoint(&leaf.trace.items, &[Item::Read(from_port(at.port))]);
    passes || leaf.ingress() == at.switch && enters()
}

/// Returns the leaves, at all switches, whose packets can fit a constraint.
fn leaves_with(fabric: &Fabric, constraint: &Constraint) -> BTreeSet<LeafId> {
    fabric.switches.values().flat_map(|switch| switch.tree().leaves_fitting(constraint)).collect()
}

fn leaves_at_port(fabric: &Fabric, at: Location) -> BTreeSet<LeafId> {
    let mut dependents = owned(fabric, fabric.ctx.store.dependents_of_floods());
    dependents.extend(owned(fabric, fabric.ctx.store.dependents_of(&Cell::Port(at))));
    let mut found = leaves_among(fabric, &dependents);
    if let Some(switch) = fabric.switches.get(&at.switch) {
        found.extend(switch.tree().leaves_fitting(&from_port(at.port)));
    }
    found
}

/// Returns those of the dependents that this shard owns.
fn owned(fabric: &Fabric, dependents: BTreeSet<DependentId>) -> BTreeSet<DependentId> {
    dependents.into_iter().filter(|dependent| fabric.ctx.owns(*dependent)).collect()
}

/// Returns the leaves among these dependents, with the leaves of the routes whose plans are among them. Ids of parked
/// packets stay, as those of leaves that have gone.
fn leaves_among(fabric: &Fabric, dependents: &BTreeSet<DependentId>) -> BTreeSet<LeafId> {
    let (mut leaves, mut routes) = (BTreeSet::new(), BTreeSet::<RouteId>::new());
    for dependent in dependents {
        match fabric.routes.of_subscription(*dependent) {
            Some(route) => drop(routes.insert(route)),
            None => drop(leaves.insert(dependent.possible_leaf())),
        }
    }
    leaves.extend(routes.into_iter().flat_map(|route| fabric.leaves_of_route(route)));
    leaves
}
