//! The routes that leaves of this shard use, each kept once, with the labels that carry its packets.
//!
//! # What
//!
//! A leaf *joins* the route that f decided. It *uses* the route while the ingress switch may have a rule for it. Then
//! it *leaves*. A route holds its labels while leaves are members of it. If one label is refused, the route releases
//! all of them as soon as no leaf uses it, and asks again after a while.
//!
//! # Routes that follow a plan
//!
//! The resolution of a plan ([`Goal`](crate::route::Goal)) changes with the topology. Then the route changes its
//! [path](LabelledPath) once for all its leaves:
//!
//! * The *next* path asks for its labels. Meanwhile packets follow the current path, and the route holds the labels of
//!   both.
//! * When the next path is ready, it becomes the current one and rules change over. The old path becomes a *former*
//!   one.
//! * When the switch has confirmed the change, the labels of the former path are released.
//!
//! Some ingress switches have a table of routes. There the rules of the leaves write a number into the packet's
//! metadata, and one rule in that table matches it. So one rule changes for all leaves. The number is a hash of the
//! route's key, so it is the same when the controller has restarted. A number belongs to one route at a time. If its
//! route is gone, packets match nothing there and come to the controller.
//!
//! Where leaves look things up, there is mostly one leaf for each place, and each leads elsewhere. There a route gets
//! its rule when a second leaf uses it, because for one leaf that rule would save nothing. Nor has a route one that
//! crosses no link, until it does. A route that had a rule before the controller restarted keeps it, whatever has
//! changed by now.
//!
//! # Why no packet is lost or misrouted
//!
//! A rule that leads along a path is sent only when all labels of that path are ready, which means that all rules
//! further on are confirmed. A path's labels are released only when no rule can lead along it.
//!
//! # Cost and callers
//!
//! Each call costs a look-up; [`Routes::retry`] looks at all routes. `install.rs`, `join_route.rs`, `route_use.rs`
//! and `route_news.rs` call it, and do what it asks for.

mod path;
mod requests;
mod shared_route;

use std::collections::BTreeSet;
use std::num::NonZeroU64;
use std::sync::Arc;

use maple_wire::Dpid;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::engine::tools::expected::Expected;
use crate::ids::{DependentId, LeafId, RouteId, ShardId, Time};
use crate::labels::{LabelEffect, Refusal};
use crate::route::{Meter, Resolved};
use path::{LabelledPath, PathState};
use shared_route::RouteUses;

pub(in crate::engine) use shared_route::{RouteKey, RuleCondition, SharedRoute, WayState};

/// The routes of a shard.
#[derive(Clone, Debug)]
pub(in crate::engine) struct Routes {
    shard: ShardId,
    by_key: FxHashMap<Arc<RouteKey>, RouteId>,
    by_subscription: FxHashMap<DependentId, RouteId>,
    all: FxHashMap<RouteId, SharedRoute>,
    /// The requests for labels, by their serial number.
    requests: FxHashMap<u64, RouteId>,
    /// Routes whose rule in the table of routes may have changed.
    dirty: BTreeSet<(Dpid, RouteId)>,
    /// The subscriptions of routes that have ended.
    ended_subscriptions: Vec<DependentId>,
    next_id: NonZeroU64,
    next_serial: u64,
    /// The metadata numbers in use.
    metadata: FxHashSet<u64>,
}

/// The consequence of news about a label for a route.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::engine) enum RouteNews {
    /// The route is ready, and these leaves may be installed.
    Ready(RouteId, BTreeSet<LeafId>),
    /// The next path is ready.
    NextReady(RouteId),
    /// No leaf may use the route, and those that use it have to stop. Leaves that wait continue to wait.
    Refused(RouteId, Refusal),
}

/// The consequence for a route when its plan resolves to something else.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::engine) enum PlanChange {
    /// Nothing: it resolves to the same as before, or no rule depends on it yet.
    Nothing,
    /// These leaves may be installed.
    Ready(BTreeSet<LeafId>),
    /// The labels of the next path have been asked for.
    Asking,
    /// The next path is ready.
    NextReady,
}

/// The rules that have to change when a route switches over to its next path.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::engine) struct PathSwitch {
    /// The leaves that waited.
    pub waiting_leaves: BTreeSet<LeafId>,
    /// The serial number of the former path, if it has labels to release when the switch has confirmed the change.
    pub former: Option<u64>,
    /// Whether the rule of each leaf has to change.
    pub each_leaf: bool,
}

/// The means that the ingress of a new route has for it.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct AtIngress {
    /// The table of routes, if the ingress has one.
    pub route_table: Option<u8>,
    /// The number of the route's meter there.
    pub meter: Option<u32>,
    /// The condition on which the route gets a rule of its own there.
    pub rule_condition: RuleCondition,
}

impl Routes {
    /// Creates the routes of a shard, of which there are none yet.
    pub fn new(shard: ShardId) -> Routes {
        Routes {
            shard,
            by_key: FxHashMap::default(),
            by_subscription: FxHashMap::default(),
            all: FxHashMap::default(),
            requests: FxHashMap::default(),
            dirty: BTreeSet::new(),
            ended_subscriptions: Vec::new(),
            next_id: NonZeroU64::MIN,
            next_serial: 0,
            metadata: FxHashSet::default(),
        }
    }

    /// Makes a leaf join the route, if it exists.
    pub fn join(&mut self, leaf: LeafId, key: &RouteKey) -> Option<RouteId> {
        let id = *self.by_key.get(key)?;
        let route = self.all.get_mut(&id)?;
        route.members += 1;
        route.leaves.insert(leaf);
        Some(id)
    }

    /// Makes the route the way to a place that an open look-up finds, if it exists.
    pub fn join_as_way(&mut self, key: &RouteKey) -> Option<RouteId> {
        let id = *self.by_key.get(key)?;
        let route = self.all.get_mut(&id)?;
        route.members += 1;
        route.uses.way = Some(WayState::Waiting);
        Some(id)
    }

    /// Notes that rules of keys may lead along the route.
    pub fn begin_way(&mut self, id: RouteId) {
        let Some(route) = self.all.get_mut(&id).expected() else { return };
        route.uses.count += 1;
        route.uses.of_keys += 1;
        route.uses.way = Some(WayState::Used);
    }

    /// Notes that no further rules of keys lead along the route. If `stays`, they may again when it is ready. Returns
    /// whether they may have led along it: then that use goes on until the switch has confirmed their changes.
    pub fn end_way(&mut self, id: RouteId, stays: bool) -> bool {
        let Some(route) = self.all.get_mut(&id).expected() else { return false };
        let was = std::mem::replace(&mut route.uses.way, stays.then_some(WayState::Waiting));
        was == Some(WayState::Used)
    }

    /// Notes that a use that is about to end was that of keys' rules.
    pub fn end_key_use(&mut self, id: RouteId) {
        if let Some(route) = self.all.get_mut(&id).expected() {
            route.uses.of_keys -= 1;
        }
    }

    /// Makes a leaf join a new route, which resolves to `resolved` now, and asks for its labels. Without a leaf, the
    /// route is the way to a place that an open look-up finds. A route that follows a plan has a `subscription` in the
    /// store.
    pub fn create(
        &mut self,
        leaf: Option<LeafId>,
        key: RouteKey,
        resolved: &Arc<Resolved>,
        subscription: Option<DependentId>,
        at_ingress: AtIngress,
        out: &mut Vec<LabelEffect>,
    ) -> RouteId {
        let id = RouteId(self.next_id);
        let key = Arc::new(key);
        self.next_id = self.next_id.saturating_add(1);
        let path = LabelledPath::new(&key, resolved);
        let route_table = at_ingress.route_table.filter(|_| subscription.is_some());
        self.by_key.insert(Arc::clone(&key), id);
        self.by_subscription.extend(subscription.map(|dependent| (dependent, id)));
        self.all.insert(
            id,
            SharedRoute {
                key,
                subscription,
                resolved: Arc::clone(resolved),
                path,
                next: None,
                former: Vec::new(),
                meter: at_ingress.meter,
                route_table,
                rule_condition: at_ingress.rule_condition,
                metadata: None,
                refusals: 0,
                members: 1,
                leaves: leaf.into_iter().collect(),
                uses: RouteUses { count: 0, of_keys: 0, way: leaf.is_none().then_some(WayState::Waiting) },
                waiting_leaves: BTreeSet::new(),
            },
        );
        self.request_labels(id, out);
        id
    }

    /// Removes a leaf from the leaves of the route. The switch may still have a rule of the leaf that leads there.
    pub fn detach(&mut self, id: RouteId, leaf: LeafId) {
        if let Some(route) = self.all.get_mut(&id) {
            route.leaves.remove(&leaf);
        }
    }

    /// Ends a leaf's membership of the route. If a rule may still lead along the route, the route ends when that use
    /// ends.
    pub fn leave(&mut self, id: RouteId, confirmed: bool, out: &mut Vec<LabelEffect>) {
        let Some(route) = self.all.get_mut(&id).expected() else { return };
        route.members -= 1;
        self.end_unused(id, confirmed, out);
    }

    /// Reports whether a request with this serial number is open.
    pub fn knows(&self, serial: u64) -> bool {
        self.requests.contains_key(&serial)
    }

    /// Returns the route that leaves with this key join, if it exists.
    pub fn of_key(&self, key: &RouteKey) -> Option<RouteId> {
        self.by_key.get(key).copied()
    }

    /// Returns the route with this subscription in the store.
    pub fn of_subscription(&self, dependent: DependentId) -> Option<RouteId> {
        self.by_subscription.get(&dependent).copied()
    }

    /// Returns the subscriptions of routes in the store.
    pub fn subscriptions(&self) -> impl Iterator<Item = DependentId> {
        self.by_subscription.keys().copied()
    }

    /// Closes the route: no leaf can join it, and it stops following its plan.
    pub fn close(&mut self, id: RouteId, out: &mut Vec<LabelEffect>) {
        let Some(route) = self.all.get_mut(&id).expected() else { return };
        if self.by_key.get(&route.key) == Some(&id) {
            self.by_key.remove(&route.key);
        }
        if let Some(dependent) = route.subscription.take() {
            self.by_subscription.remove(&dependent);
            self.ended_subscriptions.push(dependent);
        }
        if let Some((mut next, _)) = route.next.take() {
            self.release_path(&mut next, true, out);
        }
    }

    fn end_unused(&mut self, id: RouteId, confirmed: bool, out: &mut Vec<LabelEffect>) {
        if self.all.get(&id).is_some_and(|route| route.members == 0 && route.uses.count == 0) {
            self.close(id, out);
            self.release_all(id, confirmed, out);
            if let Some(route) = self.all.remove(&id) {
                self.dirty.insert((route.key.ingress, id));
            }
        }
    }

    /// Reports whether some route from this switch waits for labels.
    pub fn any_waits_at(&self, ingress: Dpid) -> bool {
        let mut here = self.all.values().filter(|route| route.key.ingress == ingress);
        here.any(|route| !route.is_ready() && !route.is_refused())
    }

    /// Makes a leaf wait until the route is ready.
    pub fn wait(&mut self, id: RouteId, leaf: LeafId) {
        if let Some(route) = self.all.get_mut(&id) {
            route.waiting_leaves.insert(leaf);
        }
    }

    /// Ends a leaf's wait.
    pub fn stop_waiting(&mut self, id: RouteId, leaf: LeafId) {
        if let Some(route) = self.all.get_mut(&id) {
            route.waiting_leaves.remove(&leaf);
        }
    }

    /// Notes that the ingress switch gets a rule for a leaf of the route. Returns the other leaves whose rules have to
    /// change, because they are to lead to the table of routes from now on.
    pub fn begin_use(&mut self, id: RouteId, leaf: LeafId) -> BTreeSet<LeafId> {
        let Some(route) = self.all.get_mut(&id).expected() else { return BTreeSet::new() };
        route.uses.count += 1;
        if !route.is_to_get_rule() {
            return BTreeSet::new();
        }
        let others = if route.uses.count > 1 {
            route.leaves().filter(|other| *other != leaf).collect()
        } else {
            BTreeSet::new()
        };
        self.give_number(id);
        others
    }

    fn give_number(&mut self, id: RouteId) {
        let Some(route) = self.all.get_mut(&id).expected() else { return };
        let mut number = route.key.number();
        while !self.metadata.insert(number) {
            number = number.wrapping_add(1);
        }
        route.metadata = Some(number);
        self.dirty.insert((route.key.ingress, id));
    }

    /// Opens the table of routes of a switch that has no rule of this run yet. Returns the leaves that are to have
    /// other rules. `there`: the numbers of the routes that have rules in that table already, from an earlier run.
    pub fn use_route_table(&mut self, ingress: Dpid, table: u8, there: &FxHashSet<u64>) -> BTreeSet<LeafId> {
        let mut leaves = BTreeSet::new();
        let mut used = BTreeSet::new();
        for (id, route) in self.all.iter_mut().filter(|(_, route)| route.key.ingress == ingress) {
            if route.subscription.is_some() {
                route.route_table = Some(table);
            }
            route.rule_condition.had_rule |= there.contains(&route.key.number());
            if route.is_to_get_rule() {
                used.insert(*id);
                leaves.extend(route.leaves());
            }
        }
        used.into_iter().for_each(|id| self.give_number(id));
        leaves
    }

    /// Notes that the ingress switch has lost the rule for a leaf of the route. `confirmed`: the switch has confirmed
    /// that.
    pub fn end_use(&mut self, id: RouteId, now: Time, confirmed: bool, out: &mut Vec<LabelEffect>) {
        let Some(route) = self.all.get_mut(&id).expected() else { return };
        route.uses.count -= 1;
        if let PathState::Refused { retry } = route.path.state
            && route.uses.count == 0
        {
            self.release_all(id, confirmed, out);
            out.push(LabelEffect::Wake(retry.max(now)));
        }
        self.end_unused(id, confirmed, out);
    }

    /// Releases a former path, along which no rule leads. `confirmed`: the switch has confirmed that.
    pub fn release_former(&mut self, id: RouteId, serial: u64, confirmed: bool, out: &mut Vec<LabelEffect>) {
        // A route that ended has released all its paths.
        let Some(route) = self.all.get_mut(&id) else { return };
        let (gone, left) = std::mem::take(&mut route.former).into_iter().partition(|path| path.serial == Some(serial));
        route.former = left;
        let gone: Vec<LabelledPath> = gone;
        gone.into_iter().for_each(|mut path| self.release_path(&mut path, confirmed, out));
    }

    /// Takes a new resolution of the route's plan. If it changes the path, or the path has lost a label, and rules lead
    /// along the path, the next path has to be ready by `until`.
    pub fn on_plan_resolved(
        &mut self,
        id: RouteId,
        resolved: &Arc<Resolved>,
        until: Time,
        out: &mut Vec<LabelEffect>,
    ) -> PlanChange {
        let is_lost = |route: &SharedRoute| route.has_lost_label() && route.uses.count > 0;
        let changed = |route: &&mut SharedRoute| route.resolved != *resolved || is_lost(route);
        let Some(route) = self.all.get_mut(&id).filter(changed) else { return PlanChange::Nothing };
        route.resolved = Arc::clone(resolved);
        if let Some((mut next, _)) = route.next.take() {
            self.release_path(&mut next, true, out);
        }
        let Some(route) = self.all.get_mut(&id).expected() else { return PlanChange::Nothing };
        if route.path.resolved == *resolved && !route.is_refused() {
            return route.take_ready();
        }
        let path = LabelledPath::new(&route.key, resolved);
        let is_ready = path.state == PathState::Ready;
        if route.uses.count > 0 {
            route.next = Some((path, until));
            self.request_labels(id, out);
            return if is_ready { PlanChange::NextReady } else { PlanChange::Asking };
        }
        // No rule leads along any path.
        self.release_all(id, true, out);
        let Some(route) = self.all.get_mut(&id).expected() else { return PlanChange::Nothing };
        (route.path, route.refusals) = (path, 0);
        let changed = route.take_ready();
        self.request_labels(id, out);
        changed
    }

    /// Switches over to the next path, which is ready.
    pub fn switch_over(&mut self, id: RouteId) -> Option<PathSwitch> {
        let route = self.all.get_mut(&id)?;
        let (next, _) = route.next.take()?;
        let former = std::mem::replace(&mut route.path, next);
        route.refusals = 0;
        let serial = former.serial;
        if serial.is_some() {
            route.former.push(former);
        }
        let waiting_leaves = std::mem::take(&mut route.waiting_leaves);
        let (each_leaf, is_to_get_rule) = (route.metadata.is_none(), route.is_to_get_rule());
        if is_to_get_rule {
            self.give_number(id);
        } else if !each_leaf {
            self.dirty.insert((route.key.ingress, id));
        }
        Some(PathSwitch { waiting_leaves, former: serial, each_leaf })
    }

    /// Gives up the next path if it is late. Returns whether it was: then no leaf may use the route.
    pub fn abandon_next(&mut self, id: RouteId, now: Time, out: &mut Vec<LabelEffect>) -> bool {
        let is_late = |route: &&mut SharedRoute| route.next.as_ref().is_some_and(|(_, until)| *until <= now);
        if self.all.get_mut(&id).filter(is_late).is_none() {
            return false;
        }
        self.refuse(id, now, out);
        true
    }

    /// Returns the route with this id.
    pub fn get(&self, id: RouteId) -> Option<&SharedRoute> {
        self.all.get(&id)
    }

    /// Removes the route's rule in the table of routes. Afterwards the rules of its leaves carry its actions.
    pub fn drop_rule(&mut self, id: RouteId) {
        if let Some(route) = self.all.get_mut(&id) {
            route.route_table = None;
            if let Some(number) = route.metadata.take() {
                self.metadata.remove(&number);
            }
            self.dirty.insert((route.key.ingress, id));
        }
    }

    /// Returns the routes that have a rule of their own at a switch.
    pub fn with_rules_at(&self, ingress: Dpid) -> Vec<RouteId> {
        let has_rule = |route: &SharedRoute| route.metadata.is_some() && route.key.ingress == ingress;
        let mut all: Vec<RouteId> = self.all.iter().filter(|(_, route)| has_rule(route)).map(|(id, _)| *id).collect();
        all.sort_unstable();
        all
    }

    /// Returns the meters that routes use at a switch.
    pub fn meters_at(&self, ingress: Dpid) -> BTreeSet<u32> {
        self.all.values().filter(|route| route.key.ingress == ingress).filter_map(|route| route.meter).collect()
    }

    /// Returns the leaves whose routes have limits at a switch.
    pub fn limited_leaves_at(&self, ingress: Dpid) -> BTreeSet<LeafId> {
        let is_limited = |route: &&SharedRoute| matches!(route.resolved.meter, Some(Meter::Limit(_)));
        let routes = self.all.values().filter(|route| route.key.ingress == ingress).filter(is_limited);
        routes.flat_map(SharedRoute::leaves).collect()
    }

    /// Returns the number of routes.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Removes and returns the routes whose rule in the table of routes may have changed, with their switches.
    pub fn take_dirty(&mut self) -> BTreeSet<(Dpid, RouteId)> {
        std::mem::take(&mut self.dirty)
    }

    /// Removes and returns the subscriptions of routes that have ended.
    pub fn take_ended(&mut self) -> Vec<DependentId> {
        std::mem::take(&mut self.ended_subscriptions)
    }
}

#[cfg(test)]
mod tests;
