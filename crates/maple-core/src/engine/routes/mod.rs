//! The routes that leaves of this shard take, each kept once, with the labels that carry its packets.
//!
//! A leaf *joins* the route that f answered, *uses* it while the ingress switch may have a rule for it, and leaves it.
//! While leaves have joined a route it holds its labels, unless one of them was refused: then it gives all of them back
//! as soon as no leaf uses it, and asks again after a while.
//!
//! # Routes that follow a plan
//!
//! What a plan comes to ([`Goal`]) changes with the topology. Then the route gets another *path*, once for all its leaves:
//! it holds the labels of both until the new path is ready, rules change over, and when the switch has confirmed that the
//! old path's labels go back. Where the ingress switch has a table for routes, its leaves' rules lead to the route's *entry*
//! there, by a number that packets carry in their metadata, and one rule changes for all of them. An entry's number never
//! comes to mean another route: rules that lead to one that is gone find nothing, and the packet comes to the controller.

mod path;
mod shared_route;

use std::collections::BTreeSet;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use maple_wire::{Dpid, PortNo};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::ids::{LeafId, ShardId, Time};
use crate::labels::{Holder, LabelEffect, News, Refusal};
use crate::route::{Meter, Resolved};
use path::{LabelledPath, PathState};
pub(super) use shared_route::{RouteKey, SharedRoute};

/// How long a route waits before it asks again for labels that were refused, at first and at most.
const RETRY: Duration = Duration::from_millis(250);
const LONGEST_RETRY: Duration = Duration::from_secs(16);

/// Names a route of this shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct RouteId(NonZeroU64);

/// The routes of a shard.
#[derive(Debug)]
pub(super) struct Routes {
    shard: ShardId,
    /// The run of the controller, which is part of the numbers of entries.
    epoch: u16,
    by_key: FxHashMap<Arc<RouteKey>, RouteId>,
    by_subscription: FxHashMap<LeafId, RouteId>,
    all: FxHashMap<RouteId, SharedRoute>,
    /// Requests for labels, by their serial number.
    requests: FxHashMap<u64, RouteId>,
    /// Routes whose rule in the table of routes may have changed.
    dirty: BTreeSet<(Dpid, RouteId)>,
    /// What stood in the store for routes that have ended.
    ended_subscriptions: Vec<LeafId>,
    next_id: NonZeroU64,
    next_serial: u64,
    next_metadata: u64,
}

/// What comes of news for a route.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RouteNews {
    /// These leaves may be installed.
    Ready(BTreeSet<LeafId>),
    /// The next path is ready.
    NextReady(RouteId),
    /// No leaf may use it any more: those that do have to stop. Those that wait go on waiting.
    Refused(RouteId, Refusal),
}

/// What comes of a plan that leads elsewhere.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PlanChange {
    /// It does not, or rules know nothing of it yet.
    Nothing,
    /// Its leaves may be installed.
    Ready(BTreeSet<LeafId>),
    /// The next path is asked for.
    Asking,
    /// The next path is ready.
    NextReady,
}

/// What has to be done with rules when a route takes its next path.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PathSwitch {
    /// Leaves that waited.
    pub waiting: BTreeSet<LeafId>,
    /// The former path, if it has labels to give back when the switch has confirmed.
    pub former: Option<u64>,
    /// Whether each leaf's rule has to change.
    pub each_leaf: bool,
}

impl Routes {
    pub fn new(shard: ShardId, epoch: u16) -> Routes {
        Routes {
            shard,
            epoch,
            by_key: FxHashMap::default(),
            by_subscription: FxHashMap::default(),
            all: FxHashMap::default(),
            requests: FxHashMap::default(),
            dirty: BTreeSet::new(),
            ended_subscriptions: Vec::new(),
            next_id: NonZeroU64::MIN,
            next_serial: 0,
            next_metadata: 0,
        }
    }

    /// A leaf joins the route, if that is there.
    pub fn join(&mut self, leaf: LeafId, key: &RouteKey) -> Option<RouteId> {
        let id = *self.by_key.get(key)?;
        let route = self.all.get_mut(&id)?;
        route.members += 1;
        route.leaves.insert(leaf);
        Some(id)
    }

    /// A leaf joins a new route, which comes to this now; asks for its labels. Where it follows a plan something stands for it
    /// in the store. Whether the ingress has a table for routes, and the number of the route's meter there.
    pub fn create(
        &mut self,
        leaf: LeafId,
        key: RouteKey,
        resolved: &Arc<Resolved>,
        subscription: Option<LeafId>,
        (uses_route_table, meter): (bool, Option<u32>),
        out: &mut Vec<LabelEffect>,
    ) -> RouteId {
        let (id, key) = (RouteId(self.next_id), Arc::new(key));
        self.next_id = self.next_id.saturating_add(1);
        let path = LabelledPath::new(&key, resolved);
        let crosses_links = resolved.switches.get(&key.ingress).is_some_and(|hops| !hops.links.is_empty());
        self.by_key.insert(Arc::clone(&key), id);
        self.by_subscription.extend(subscription.map(|name| (name, id)));
        self.all.insert(
            id,
            SharedRoute {
                key,
                subscription,
                resolved: Arc::clone(resolved),
                path,
                next: None,
                former: Vec::new(),
                meter,
                uses_route_table: uses_route_table && subscription.is_some() && crosses_links,
                metadata: None,
                refusals: 0,
                members: 1,
                leaves: FxHashSet::from_iter([leaf]),
                users: 0,
                waiting: BTreeSet::new(),
            },
        );
        self.ask(id, out);
        id
    }

    /// Asks for the labels of the path that the route has, or is to have next.
    fn ask(&mut self, id: RouteId, out: &mut Vec<LabelEffect>) {
        let Some(route) = self.all.get_mut(&id) else { return };
        let path = route.next.as_mut().map_or(&mut route.path, |(next, _)| next);
        if path.state == PathState::Asking && path.serial.is_none() {
            self.next_serial += 1;
            path.serial = Some(self.next_serial);
            self.requests.insert(self.next_serial, id);
            path.onward.ask(holder(self.shard, self.next_serial), out);
        }
    }

    /// A leaf takes the route no more, though the switch may still have a rule that leads there.
    pub fn detach(&mut self, id: RouteId, leaf: LeafId) {
        if let Some(route) = self.all.get_mut(&id) {
            route.leaves.remove(&leaf);
        }
    }

    /// A leaf leaves the route. If a rule of its switch may still lead that way, the route ends with that use.
    pub fn leave(&mut self, id: RouteId, confirmed: bool, out: &mut Vec<LabelEffect>) {
        let Some(route) = self.all.get_mut(&id) else { return };
        route.members -= 1;
        self.end_unused(id, confirmed, out);
    }

    /// Whether a request of this number is known.
    pub fn knows(&self, serial: u64) -> bool {
        self.requests.contains_key(&serial)
    }

    /// The route that something stands for in the store.
    pub fn by_subscription_id(&self, name: LeafId) -> Option<RouteId> {
        self.by_subscription.get(&name).copied()
    }

    /// Nobody joins the route any more: it does not follow its plan.
    pub fn close(&mut self, id: RouteId, out: &mut Vec<LabelEffect>) {
        let Some(route) = self.all.get_mut(&id) else { return };
        if self.by_key.get(&route.key) == Some(&id) {
            self.by_key.remove(&route.key);
        }
        if let Some(name) = route.subscription.take() {
            self.by_subscription.remove(&name);
            self.ended_subscriptions.push(name);
        }
        if let Some((mut next, _)) = route.next.take() {
            self.give_back(&mut next, true, out);
        }
    }

    fn end_unused(&mut self, id: RouteId, confirmed: bool, out: &mut Vec<LabelEffect>) {
        if self.all.get(&id).is_some_and(|route| route.members == 0 && route.users == 0) {
            self.close(id, out);
            self.give_all_back(id, confirmed, out);
            if let Some(route) = self.all.remove(&id) {
                self.dirty.insert((route.key.ingress, id));
            }
        }
    }

    /// A leaf waits until the route is ready.
    pub fn wait(&mut self, id: RouteId, leaf: LeafId) {
        if let Some(route) = self.all.get_mut(&id) {
            route.waiting.insert(leaf);
        }
    }

    /// A leaf waits no more.
    pub fn stop_waiting(&mut self, id: RouteId, leaf: LeafId) {
        if let Some(route) = self.all.get_mut(&id) {
            route.waiting.remove(&leaf);
        }
    }

    /// The ingress switch gets a rule for a leaf.
    pub fn begin_use(&mut self, id: RouteId) {
        let Some(route) = self.all.get_mut(&id) else { return };
        route.users += 1;
        if route.uses_route_table && route.metadata.is_none() {
            self.next_metadata += 1;
            let shard = u64::from(self.shard.0) << 40;
            route.metadata = Some(u64::from(self.epoch) << 48 | shard | self.next_metadata & 0xff_ffff_ffff);
            self.dirty.insert((route.key.ingress, id));
        }
    }

    /// The ingress switch has no rule for a leaf any more, which it has `confirmed` or not.
    pub fn end_use(&mut self, id: RouteId, now: Time, confirmed: bool, out: &mut Vec<LabelEffect>) {
        let Some(route) = self.all.get_mut(&id) else { return };
        route.users -= 1;
        if let PathState::Refused { retry } = route.path.state
            && route.users == 0
        {
            self.give_all_back(id, confirmed, out);
            out.push(LabelEffect::Wake(retry.max(now)));
        }
        self.end_unused(id, confirmed, out);
    }

    /// No rule leads along the former path any more, which the switch has `confirmed` or not.
    pub fn release_former(&mut self, id: RouteId, serial: u64, confirmed: bool, out: &mut Vec<LabelEffect>) {
        let Some(route) = self.all.get_mut(&id) else { return };
        let (gone, left) = std::mem::take(&mut route.former).into_iter().partition(|path| path.serial == Some(serial));
        route.former = left;
        let gone: Vec<LabelledPath> = gone;
        gone.into_iter().for_each(|mut path| self.give_back(&mut path, confirmed, out));
    }

    /// Gives the labels of all paths back that rules led along, and the entry.
    fn give_all_back(&mut self, id: RouteId, confirmed: bool, out: &mut Vec<LabelEffect>) {
        let Some(mut route) = self.all.remove(&id) else { return };
        let former = std::mem::take(&mut route.former);
        former.into_iter().for_each(|mut path| self.give_back(&mut path, confirmed, out));
        self.give_back(&mut route.path, confirmed, out);
        if route.metadata.take().is_some() {
            self.dirty.insert((route.key.ingress, id));
        }
        self.all.insert(id, route);
    }

    fn give_back(&mut self, path: &mut LabelledPath, confirmed: bool, out: &mut Vec<LabelEffect>) {
        if let Some(serial) = path.serial.take() {
            self.requests.remove(&serial);
            path.onward.release(holder(self.shard, serial), confirmed, out);
        }
    }

    /// The plan leads elsewhere. If rules lead along the old path, the new one has to be ready by `until`.
    pub fn change(
        &mut self,
        id: RouteId,
        resolved: &Arc<Resolved>,
        until: Time,
        out: &mut Vec<LabelEffect>,
    ) -> PlanChange {
        let Some(route) = self.all.get_mut(&id).filter(|route| route.resolved != *resolved) else {
            return PlanChange::Nothing;
        };
        route.resolved = Arc::clone(resolved);
        if let Some((mut next, _)) = route.next.take() {
            self.give_back(&mut next, true, out);
        }
        let Some(route) = self.all.get_mut(&id) else { return PlanChange::Nothing };
        if route.path.resolved == *resolved && !route.is_refused() {
            return route.take_ready();
        }
        let path = LabelledPath::new(&route.key, resolved);
        let is_ready = path.state == PathState::Ready;
        if route.users > 0 {
            route.next = Some((path, until));
            self.ask(id, out);
            return if is_ready { PlanChange::NextReady } else { PlanChange::Asking };
        }
        // No rule leads anywhere.
        self.give_all_back(id, true, out);
        let Some(route) = self.all.get_mut(&id) else { return PlanChange::Nothing };
        (route.path, route.refusals) = (path, 0);
        let changed = route.take_ready();
        self.ask(id, out);
        changed
    }

    /// The route takes its next path, which is ready.
    pub fn switch_over(&mut self, id: RouteId) -> Option<PathSwitch> {
        let route = self.all.get_mut(&id)?;
        let (next, _) = route.next.take()?;
        let former = std::mem::replace(&mut route.path, next);
        route.refusals = 0;
        let serial = former.serial;
        if serial.is_some() {
            route.former.push(former);
        }
        if route.metadata.is_some() {
            self.dirty.insert((route.key.ingress, id));
        }
        let waiting = std::mem::take(&mut route.waiting);
        Some(PathSwitch { waiting, former: serial, each_leaf: route.metadata.is_none() })
    }

    /// The next path was not ready in time. Whether there was one: then no leaf may use the route any more.
    pub fn abandon_next(&mut self, id: RouteId, now: Time, out: &mut Vec<LabelEffect>) -> bool {
        let is_late = |route: &&mut SharedRoute| route.next.as_ref().is_some_and(|(_, until)| *until <= now);
        if self.all.get_mut(&id).filter(is_late).is_none() {
            return false;
        }
        self.refuse(id, now, out);
        true
    }

    /// A label of the path or of the next one was refused: rules may not lead along the one, and can't along the other.
    fn refuse(&mut self, id: RouteId, now: Time, out: &mut Vec<LabelEffect>) {
        let Some(route) = self.all.get_mut(&id) else { return };
        let wait = RETRY.saturating_mul(1 << route.refusals.min(6)).min(LONGEST_RETRY);
        let retry = now + wait;
        route.refusals += 1;
        let next = route.next.take();
        route.path.state = PathState::Refused { retry };
        let is_unused = route.users == 0;
        if let Some((mut next, _)) = next {
            // No rule has led along it.
            self.give_back(&mut next, true, out);
        }
        if is_unused {
            self.give_all_back(id, true, out);
            out.push(LabelEffect::Wake(retry));
        }
    }

    /// A later switch says something of a label that was asked for.
    pub fn learn(
        &mut self,
        serial: u64,
        port: PortNo,
        news: &News,
        now: Time,
        out: &mut Vec<LabelEffect>,
    ) -> Option<RouteNews> {
        let id = *self.requests.get(&serial)?;
        let route = self.all.get_mut(&id)?;
        let has_next = route.next.is_some();
        let is_next = route.next.as_ref().is_some_and(|(next, _)| next.serial == Some(serial));
        let path = match &mut route.next {
            Some((next, _)) if is_next => next,
            _ => &mut route.path,
        };
        if path.serial != Some(serial) || matches!(path.state, PathState::Refused { .. }) {
            return None;
        }
        path.onward.learn(port, news);
        match news {
            News::Allocated(_) => None,
            News::Ready => {
                if !path.onward.is_ready() || path.onward.labels().is_none() {
                    return None;
                }
                path.state = PathState::Ready;
                if is_next {
                    return Some(RouteNews::NextReady(id));
                }
                route.refusals = 0;
                // Where another path is to come, leaves wait for that.
                (!has_next).then(|| RouteNews::Ready(std::mem::take(&mut route.waiting)))
            }
            // Packets go on into what is gone until the next path is ready. Nothing leads back.
            News::Refused(_) if has_next && !is_next => {
                path.state = PathState::Refused { retry: now };
                None
            }
            News::Refused(why) => {
                self.refuse(id, now, out);
                Some(RouteNews::Refused(id, *why))
            }
        }
    }

    /// Asks again for labels that were refused, where it is time.
    pub fn retry(&mut self, now: Time, out: &mut Vec<LabelEffect>) {
        let is_due = |route: &SharedRoute| {
            route.users == 0
                && route.next.is_none()
                && route.path.serial.is_none()
                && matches!(route.path.state, PathState::Refused { retry } if retry <= now)
        };
        let mut due: Vec<RouteId> = self.all.iter().filter(|(_, route)| is_due(route)).map(|(id, _)| *id).collect();
        due.sort_unstable();
        for id in due {
            if let Some(route) = self.all.get_mut(&id) {
                let path = LabelledPath::new(&route.key, &route.resolved);
                route.path = LabelledPath { state: PathState::Asking, ..path };
                self.ask(id, out);
            }
        }
    }

    /// A route.
    pub fn get(&self, id: RouteId) -> Option<&SharedRoute> {
        self.all.get(&id)
    }

    /// The rules of the route's leaves do all themselves from now on.
    pub fn drop_rule(&mut self, id: RouteId) {
        if let Some(route) = self.all.get_mut(&id) {
            (route.uses_route_table, route.metadata) = (false, None);
            self.dirty.insert((route.key.ingress, id));
        }
    }

    /// Those that have a rule of their own at a switch.
    pub fn with_rules_at(&self, ingress: Dpid) -> Vec<RouteId> {
        let has_rule = |route: &SharedRoute| route.metadata.is_some() && route.key.ingress == ingress;
        let mut all: Vec<RouteId> = self.all.iter().filter(|(_, route)| has_rule(route)).map(|(id, _)| *id).collect();
        all.sort_unstable();
        all
    }

    /// The meters that routes pass at a switch.
    pub fn meters_at(&self, ingress: Dpid) -> BTreeSet<u32> {
        self.all.values().filter(|route| route.key.ingress == ingress).filter_map(|route| route.meter).collect()
    }

    /// The leaves that take routes under limits at a switch.
    pub fn limited_leaves_at(&self, ingress: Dpid) -> BTreeSet<LeafId> {
        let is_limited = |route: &&SharedRoute| matches!(route.resolved.meter, Some(Meter::Limit(_)));
        let routes = self.all.values().filter(|route| route.key.ingress == ingress).filter(is_limited);
        routes.flat_map(SharedRoute::leaves).collect()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// The routes whose rule in the table of routes may have changed since this was last asked, with their switches.
    pub fn take_dirty(&mut self) -> BTreeSet<(Dpid, RouteId)> {
        std::mem::take(&mut self.dirty)
    }

    /// What stood in the store for routes that have ended since this was last asked.
    pub fn take_ended(&mut self) -> Vec<LeafId> {
        std::mem::take(&mut self.ended_subscriptions)
    }
}

/// The holders that a request of this number names.
fn holder(shard: ShardId, serial: u64) -> impl Fn(PortNo) -> Holder {
    move |port| Holder::Route { shard, serial, port }
}

#[cfg(test)]
mod tests;
