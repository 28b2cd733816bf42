//! The beginning of the ways to the places that an open look-up finds, and when other paths may have the look-up.

use maple_wire::{Dpid, Field};

use super::Decisions;
use super::leaf::Leaf;
use crate::engine::fabric::Fabric;
use crate::engine::fabric::routes::RouteKey;
use crate::ids::{LeafId, RouteId};
use crate::labels::Carriage;
use crate::network::Location;
use crate::route::OpenGoal;
use crate::trace::Item;

impl Decisions {
    /// Lets the ways of a switch follow what is wanted of its open look-up.
    pub fn follow_ways(&mut self, fabric: &mut Fabric, dpid: Dpid) {
        let Some(switch) = fabric.switches.known_mut(dpid).filter(|switch| switch.layout().has_action_sets()) else {
            return;
        };
        switch.ingress.look_ups.begin_ways();
        self.let_other_paths_have(fabric, dpid);
        self.want_earlier_ways(fabric, dpid);
        let Some(switch) = fabric.switches.known_mut(dpid) else { return };
        let look_ups = &mut switch.ingress.look_ups;
        if look_ups.open_look_up().is_none() {
            return self.end_ways(fabric, dpid);
        }
        let mut changed = look_ups.take_changed_places();
        let lost = self.ways.take_lost(dpid).into_iter();
        changed.extend(lost.map(|place| (place, look_ups.is_way_wanted(place))));
        for (place, is_wanted) in changed {
            match self.ways.to((dpid, place)) {
                None if is_wanted => drop(self.way_to(fabric, dpid, place)),
                Some(way) if !is_wanted => drop(self.end_way(fabric, way)),
                _ => {}
            }
        }
    }

    /// Wants the ways to further places before packets go there, at most this many and up to a number in all. Returns
    /// how many.
    pub fn foresee_ways(&mut self, fabric: &mut Fabric, dpid: Dpid, count: usize, in_all: usize) -> usize {
        let Some(switch) = fabric.switches.known_mut(dpid) else { return 0 };
        if switch.ingress.look_ups.open_look_up().is_none() {
            return 0;
        }
        let further = switch.ingress.look_ups.want_further_ways(count, in_all);
        if further > 0 {
            self.follow_ways(fabric, dpid);
        }
        further
    }

    /// Wants the ways that rules of an earlier run say, so that these rules stay. While a switch is restored, decisions
    /// for all places and hosts may still come.
    fn want_earlier_ways(&mut self, fabric: &mut Fabric, dpid: Dpid) {
        let mut hosts = self.ways.take_earlier(dpid);
        let Some(switch) = fabric.switches.known_mut(dpid).filter(|_| !hosts.is_empty()) else { return };
        let state = fabric.ctx.store.snapshot();
        let look_ups = &mut switch.ingress.look_ups;
        hosts.retain(|mac| !state.host(*mac).is_some_and(|host| look_ups.want_way(host.location)));
        if switch.restoring.is_some() {
            self.ways.note_earlier(dpid, hosts);
        }
    }

    /// Lets other paths have the open look-up of a switch, if these were asked for and no decision follows the present
    /// ones to all places any more. Withdraws the leaves that may rest on a place because other paths had the look-up.
    fn let_other_paths_have(&mut self, fabric: &mut Fabric, dpid: Dpid) {
        let Some(switch) = fabric.switches.known_mut(dpid).filter(|_| self.ways.may_have_no_leaf(dpid)) else { return };
        let Some((number, _)) = switch.ingress.look_ups.open_look_up() else { return };
        if !switch.ingress.look_ups.has_refused_paths(number) {
            return;
        }
        self.ways.forget_ended_leaves(dpid);
        if switch.tree().leaves().any(|leaf| self.leaves.get(&leaf).is_some_and(|leaf| leaf.has_open_route())) {
            return;
        }
        let of_places = switch.ingress.look_ups.release_paths(number);
        let reads_address = |item: &Item| matches!(item, Item::Read(read) if read.field == Field::EthDst);
        let rests = |leaf: &Leaf| leaf.metadata().mask & of_places != 0 || leaf.trace.items.iter().any(reads_address);
        let resting: Vec<LeafId> =
            switch.tree().leaves().filter(|leaf| self.leaves.get(leaf).is_some_and(|leaf| rests(leaf))).collect();
        // A trial has asked for the places too.
        fabric.switches.note_classes_changed();
        self.end_ways(fabric, dpid);
        self.withdraw_all(fabric, resting);
        fabric.mark_dirty(dpid);
    }

    /// Returns the way to a place that the open look-up of a switch finds, which follows its plan in the newest state.
    /// `None` if f's path can't be followed now.
    pub fn way_to(&mut self, fabric: &mut Fabric, dpid: Dpid, place: Location) -> Option<RouteId> {
        if let Some(way) = self.ways.to((dpid, place)) {
            // It may turn out that it can't be followed any more.
            self.follow_plan(fabric, way);
            return self.ways.to((dpid, place));
        }
        let switch = fabric.switches.get(&dpid)?;
        let (_, paths) = switch.ingress.look_ups.open_look_up()?;
        let goal = OpenGoal { ingress: dpid, paths }.ending_at(place);
        let key = RouteKey { ingress: dpid, version: switch.version(), goal, carriage: Carriage::default() };
        if let Some(route) = fabric.routes.of_key(&key) {
            self.follow_plan(fabric, route);
        }
        let way = match fabric.routes.join_as_way(&key) {
            Some(way) => way,
            None => self.create_route(fabric, None, key)?,
        };
        self.ways.insert((dpid, place), way);
        self.update_way(fabric, way);
        Some(way)
    }
}
