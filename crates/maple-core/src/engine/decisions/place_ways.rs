//! The ways to the places that open look-ups find: the routes along which rules of keys lead.
//!
//! A decision for all places says no more than which paths it follows. Where they lead is said by the rules of keys, so
//! for each place that a key has and packets go to, one route is its *way*. It is a member of
//! [`crate::engine::fabric::routes`] like a leaf: it has labels, follows its plan, and changes its path while packets
//! flow. Until it is ready, and when it is lost, the rules of its keys send to the controller. The first packet that
//! comes by such a rule wants the way, or exploration does so before. There are at most as many ways as keys.
//!
//! A rule of a key changes with an update of its own, which everything else of the switch waits for. So what waits for
//! the confirmation of the switch's next update waits for the change of all keys' rules that are due by then.

use std::collections::{BTreeMap, BTreeSet};

use maple_wire::Dpid;
use rustc_hash::FxHashMap;

use super::Decisions;
use crate::engine::fabric::Fabric;
use crate::engine::fabric::routes::WayState;
use crate::ids::RouteId;
use crate::network::{Location, Mac};

/// The routes that are ways, by switch and place.
#[derive(Clone, Debug, Default)]
pub(in crate::engine) struct PlaceWays {
    by_place: BTreeMap<(Dpid, Location), RouteId>,
    by_route: FxHashMap<RouteId, (Dpid, Location)>,
    /// The places whose route was closed, and which are to have another.
    lost: BTreeSet<(Dpid, Location)>,
    /// The hosts to which rules of an earlier run said the ways, and for which that was not looked at.
    earlier: BTreeMap<Dpid, BTreeSet<Mac>>,
    /// The switches where a decision for all places has ended, and perhaps none is left.
    ended_leaves: BTreeSet<Dpid>,
}

impl PlaceWays {
    /// Makes a route the way to a place.
    pub fn insert(&mut self, at: (Dpid, Location), route: RouteId) {
        self.by_place.insert(at, route);
        self.by_route.insert(route, at);
    }

    /// Returns the way to a place.
    pub fn to(&self, at: (Dpid, Location)) -> Option<RouteId> {
        self.by_place.get(&at).copied()
    }

    /// Returns the switch and the place of a way; `None` if the route is not a way.
    fn place(&self, route: RouteId) -> Option<(Dpid, Location)> {
        self.by_route.get(&route).copied()
    }

    /// Returns all ways of a switch.
    fn of_switch(&self, dpid: Dpid) -> Vec<RouteId> {
        let first = (dpid, Location::new(Dpid(0), maple_wire::PortNo(0)));
        let all = self.by_place.range(first..).take_while(|((of, _), _)| *of == dpid);
        all.map(|(_, route)| *route).collect()
    }

    /// Removes and returns the places of a switch whose route was closed.
    pub fn take_lost(&mut self, dpid: Dpid) -> Vec<Location> {
        let (lost, others) = std::mem::take(&mut self.lost).into_iter().partition(|(of, _)| *of == dpid);
        self.lost = others;
        let lost: BTreeSet<(Dpid, Location)> = lost;
        lost.into_iter().map(|(_, place)| place).collect()
    }

    /// Notes that rules of an earlier run said the ways to hosts.
    pub fn note_earlier(&mut self, dpid: Dpid, hosts: BTreeSet<Mac>) {
        if !hosts.is_empty() {
            self.earlier.insert(dpid, hosts);
        }
    }

    /// Removes and returns the hosts to which rules of an earlier run said the ways.
    pub fn take_earlier(&mut self, dpid: Dpid) -> BTreeSet<Mac> {
        self.earlier.remove(&dpid).unwrap_or_default()
    }

    /// Notes that a decision for all places has ended, or one of an earlier run may not have come back.
    pub fn note_ended_leaf(&mut self, dpid: Dpid) {
        self.ended_leaves.insert(dpid);
    }

    /// Forgets a switch that has gone, which has no ways any more.
    pub fn forget_switch(&mut self, dpid: Dpid) {
        self.earlier.remove(&dpid);
        self.ended_leaves.remove(&dpid);
    }

    /// Reports whether perhaps no decision for all places is left.
    pub fn may_have_no_leaf(&self, dpid: Dpid) -> bool {
        self.ended_leaves.contains(&dpid)
    }

    /// Notes that it was found out whether a decision for all places is left.
    pub fn forget_ended_leaves(&mut self, dpid: Dpid) {
        self.ended_leaves.remove(&dpid);
    }

    fn remove(&mut self, route: RouteId) -> Option<(Dpid, Location)> {
        let at = self.by_route.remove(&route)?;
        self.by_place.remove(&at);
        self.lost.remove(&at);
        Some(at)
    }
}

impl Decisions {
    /// Lets the rules of keys lead along a way that is ready, or has got another path. Does nothing if the route is not
    /// a way.
    pub fn update_way(&mut self, fabric: &mut Fabric, id: RouteId) {
        let Some((dpid, place)) = self.ways.place(id) else { return };
        let Some(route) = fabric.routes.get(id) else { return };
        match route.way() {
            Some(WayState::Waiting) if route.is_ready() => fabric.routes.begin_way(id),
            Some(WayState::Used) => {}
            Some(WayState::Waiting) | None => return,
        }
        let actions = fabric.routes.get(id).map(|route| route.actions());
        let Some(switch) = fabric.switches.get_mut(&dpid) else { return };
        if switch.ingress.look_ups.set_way(place, actions) {
            fabric.mark_dirty(dpid);
        }
    }

    /// Lets the rules of keys send to the controller, because their way can carry no packets now.
    pub fn lose_way(&mut self, fabric: &mut Fabric, id: RouteId) {
        if let Some((dpid, place)) = self.ways.place(id) {
            close_way(fabric, dpid, place);
            fabric.end_way(id, true);
        }
    }

    /// Ends a way whose route is closed. The place gets another, if there is a route.
    pub fn replace_way(&mut self, fabric: &mut Fabric, id: RouteId) {
        if let Some((dpid, place)) = self.end_way(fabric, id) {
            self.ways.lost.insert((dpid, place));
            fabric.mark_dirty(dpid);
        }
    }

    /// Ends a way, because nobody wants it any more. Returns its switch and place.
    pub fn end_way(&mut self, fabric: &mut Fabric, id: RouteId) -> Option<(Dpid, Location)> {
        let (dpid, place) = self.ways.remove(id)?;
        close_way(fabric, dpid, place);
        fabric.end_way(id, false);
        Some((dpid, place))
    }

    /// Ends all ways of a switch.
    pub fn end_ways(&mut self, fabric: &mut Fabric, dpid: Dpid) {
        for id in self.ways.of_switch(dpid) {
            self.end_way(fabric, id);
        }
        self.ways.take_lost(dpid);
    }
}

fn close_way(fabric: &mut Fabric, dpid: Dpid, place: Location) {
    if let Some(switch) = fabric.switches.get_mut(&dpid)
        && switch.ingress.look_ups.set_way(place, None)
    {
        fabric.mark_dirty(dpid);
    }
}
