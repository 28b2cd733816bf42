//! The routes that leaves of this shard take, each kept once, with the labels that carry its packets.
//!
//! A leaf *joins* the route that f answered, *uses* it while the ingress switch may have a rule for it, and leaves it.
//! While leaves have joined a route it holds its labels, unless one of them was refused: then it gives all of them back
//! as soon as no leaf uses it, and asks again after a while.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use maple_wire::{Action, Constraint, Dpid, Field, PortNo, Version};
use rustc_hash::FxHashMap;

use crate::compile::LeafAction;
use crate::forwarding::{self, Forwarding};
use crate::labels::{Carriage, Holder, LabelEffect, News, Onward, Refusal};
use crate::route::{Part, Resolved};
use crate::shard::{ShardId, Time};
use crate::tree::LeafId;

/// How long a route waits before it asks again for labels that were refused, at first and at most.
const RETRY: Duration = Duration::from_millis(250);
const LONGEST_RETRY: Duration = Duration::from_secs(16);

/// Names a route of this shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct RouteId(u64);

/// The routes of a shard.
#[derive(Debug)]
pub(super) struct Routes {
    shard: ShardId,
    by_key: FxHashMap<Arc<RouteKey>, RouteId>,
    /// By the address of what f answered last, which the route holds: so it is found without a look at all hops.
    by_answer: FxHashMap<usize, RouteId>,
    all: FxHashMap<RouteId, SharedRoute>,
    /// Requests for labels, by their serial number.
    asked: FxHashMap<u64, RouteId>,
    next_id: u64,
    next_serial: u64,
}

/// What makes two routes the same.
#[derive(Debug, PartialEq, Eq, Hash)]
struct RouteKey {
    ingress: Dpid,
    /// What the ingress speaks.
    version: Version,
    route: Arc<Resolved>,
    carriage: Carriage,
}

/// A route, for all leaves that take it.
#[derive(Debug)]
pub(super) struct SharedRoute {
    key: Arc<RouteKey>,
    /// What f answered last, which equals the key's.
    answer: Arc<Resolved>,
    onward: Onward,
    /// The number of its requests for labels; `None` while it holds none.
    serial: Option<u64>,
    state: RouteState,
    /// How often in a row labels were refused.
    refusals: u32,
    /// How many leaves have joined it.
    members: usize,
    /// Of how many leaves the ingress switch may have rules.
    users: usize,
    /// Leaves that wait for it to be ready.
    waiting: BTreeSet<LeafId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RouteState {
    Asking,
    Ready,
    /// No packets may be sent; at the earliest then it asks again.
    Refused {
        retry: Time,
    },
}

/// What comes of news for a route.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RouteNews {
    /// These leaves may be installed.
    Ready(BTreeSet<LeafId>),
    /// No leaf may use it any more: those that do have to stop. Those that wait go on waiting.
    Refused(RouteId, Refusal),
}

impl Routes {
    pub fn new(shard: ShardId) -> Routes {
        Routes {
            shard,
            by_key: FxHashMap::default(),
            by_answer: FxHashMap::default(),
            all: FxHashMap::default(),
            asked: FxHashMap::default(),
            next_id: 0,
            next_serial: 0,
        }
    }

    /// A leaf joins the route. Asks for its labels if nobody has.
    pub fn join(
        &mut self,
        ingress: (Dpid, Version),
        route: &Arc<Resolved>,
        carriage: Carriage,
        out: &mut Vec<LabelEffect>,
    ) -> RouteId {
        let (ingress, version) = ingress;
        if let Some(id) = self.find(ingress, version, route, &carriage) {
            if let Some(route) = self.all.get_mut(&id) {
                route.members += 1;
            }
            return id;
        }
        self.next_id += 1;
        let key = RouteKey { ingress, version, route: Arc::clone(route), carriage };
        let (id, key) = (RouteId(self.next_id), Arc::new(key));
        let onward = Onward::new(key.carriage.suffixes(&key.route, ingress).into_iter());
        let state = if onward.is_ready() { RouteState::Ready } else { RouteState::Asking };
        self.by_key.insert(Arc::clone(&key), id);
        self.by_answer.insert(address(route), id);
        self.all.insert(
            id,
            SharedRoute {
                key,
                answer: Arc::clone(route),
                onward,
                serial: None,
                state,
                refusals: 0,
                members: 1,
                users: 0,
                waiting: BTreeSet::new(),
            },
        );
        self.ask(id, out);
        id
    }

    /// The route, if some leaf has joined it.
    fn find(&mut self, ingress: Dpid, version: Version, route: &Arc<Resolved>, carriage: &Carriage) -> Option<RouteId> {
        let is_it = |there: &RouteKey| (there.ingress, there.version, &there.carriage) == (ingress, version, carriage);
        if let Some(id) = self.by_answer.get(&address(route))
            && self.all.get(id).is_some_and(|there| is_it(&there.key))
        {
            return Some(*id);
        }
        let key = RouteKey { ingress, version, route: Arc::clone(route), carriage: carriage.clone() };
        let id = *self.by_key.get(&key)?;
        // From now on equal answers most likely are this object.
        if let Some(there) = self.all.get_mut(&id) {
            self.by_answer.remove(&address(&there.answer));
            there.answer = Arc::clone(route);
            self.by_answer.insert(address(route), id);
        }
        Some(id)
    }

    fn ask(&mut self, id: RouteId, out: &mut Vec<LabelEffect>) {
        let Some(route) = self.all.get_mut(&id).filter(|route| route.state == RouteState::Asking) else { return };
        self.next_serial += 1;
        route.serial = Some(self.next_serial);
        self.asked.insert(self.next_serial, id);
        route.onward.ask(holder(self.shard, self.next_serial), out);
    }

    /// A leaf leaves the route. If a rule of its switch may still lead that way, the route ends with that use.
    pub fn leave(&mut self, id: RouteId, confirmed: bool, out: &mut Vec<LabelEffect>) {
        let Some(route) = self.all.get_mut(&id) else { return };
        route.members -= 1;
        self.end_unused(id, confirmed, out);
    }

    /// Whether a request of this number is known.
    pub fn knows(&self, serial: u64) -> bool {
        self.asked.contains_key(&serial)
    }

    fn end_unused(&mut self, id: RouteId, confirmed: bool, out: &mut Vec<LabelEffect>) {
        if self.all.get(&id).is_some_and(|route| route.members == 0 && route.users == 0) {
            self.give_back(id, confirmed, out);
            if let Some(route) = self.all.remove(&id) {
                self.by_key.remove(&route.key);
                self.by_answer.remove(&address(&route.answer));
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
        if let Some(route) = self.all.get_mut(&id) {
            route.users += 1;
        }
    }

    /// The ingress switch has no rule for a leaf any more, which it has `confirmed` or not.
    pub fn end_use(&mut self, id: RouteId, now: Time, confirmed: bool, out: &mut Vec<LabelEffect>) {
        let Some(route) = self.all.get_mut(&id) else { return };
        route.users -= 1;
        if let RouteState::Refused { retry } = route.state
            && route.users == 0
        {
            self.give_back(id, confirmed, out);
            out.push(LabelEffect::Wake(retry.max(now)));
        }
        self.end_unused(id, confirmed, out);
    }

    fn give_back(&mut self, id: RouteId, confirmed: bool, out: &mut Vec<LabelEffect>) {
        let Some(route) = self.all.get_mut(&id) else { return };
        if let Some(serial) = route.serial.take() {
            self.asked.remove(&serial);
            route.onward.release(holder(self.shard, serial), confirmed, out);
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
        let id = *self.asked.get(&serial)?;
        let route = self.all.get_mut(&id)?;
        if matches!(route.state, RouteState::Refused { .. }) {
            return None;
        }
        route.onward.learn(port, news);
        match news {
            News::Allocated(_) => None,
            News::Ready => {
                let is_ready = route.onward.is_ready() && route.onward.labels().is_some();
                is_ready.then(|| {
                    (route.state, route.refusals) = (RouteState::Ready, 0);
                    RouteNews::Ready(std::mem::take(&mut route.waiting))
                })
            }
            News::Refused(why) => {
                let wait = RETRY.saturating_mul(1 << route.refusals.min(6)).min(LONGEST_RETRY);
                let retry = now + wait;
                route.refusals += 1;
                route.state = RouteState::Refused { retry };
                if route.users == 0 {
                    self.give_back(id, true, out);
                    out.push(LabelEffect::Wake(retry));
                }
                Some(RouteNews::Refused(id, *why))
            }
        }
    }

    /// Asks again for labels that were refused, where it is time.
    pub fn retry(&mut self, now: Time, out: &mut Vec<LabelEffect>) {
        let is_due = |route: &SharedRoute| {
            route.users == 0
                && route.serial.is_none()
                && matches!(route.state, RouteState::Refused { retry } if retry <= now)
        };
        let mut due: Vec<RouteId> = self.all.iter().filter(|(_, route)| is_due(route)).map(|(id, _)| *id).collect();
        due.sort_unstable();
        for id in due {
            if let Some(route) = self.all.get_mut(&id) {
                route.state = RouteState::Asking;
                self.ask(id, out);
            }
        }
    }

    /// A route.
    pub fn get(&self, id: RouteId) -> Option<&SharedRoute> {
        self.all.get(&id)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }
}

/// Where an answer lies. Of answers that are held at one time no two have the same.
fn address(route: &Arc<Resolved>) -> usize {
    Arc::as_ptr(route) as usize
}

/// The holders that a request of this number names.
fn holder(shard: ShardId, serial: u64) -> impl Fn(PortNo) -> Holder {
    move |port| Holder::Route { shard, serial, port }
}

impl SharedRoute {
    /// Whether packets may be sent.
    pub fn is_ready(&self) -> bool {
        self.state == RouteState::Ready
    }

    /// Whether a label was refused.
    pub fn is_refused(&self) -> bool {
        matches!(self.state, RouteState::Refused { .. })
    }

    /// Where its packets enter.
    pub fn ingress(&self) -> Dpid {
        self.key.ingress
    }

    /// What f answered.
    pub fn resolved(&self) -> &Arc<Resolved> {
        &self.key.route
    }

    /// Whether only packets without a VLAN tag can take it.
    pub fn is_for_untagged(&self) -> bool {
        self.key.carriage.untagged_only
    }

    /// What the ingress does with packets; nothing is to drop.
    pub fn actions(&self) -> Vec<Action> {
        let RouteKey { ingress, version, route, carriage } = &*self.key;
        let none = Part::default();
        let part = route.parts.get(ingress).unwrap_or(&none);
        let links = self.onward.labels().unwrap_or_default();
        let treatment = carriage.left(part);
        let forwarding = Forwarding {
            links: &links,
            edges: &part.edges,
            treatment: &treatment,
            tagged: part.tagged || carriage.tagged,
            replaced: carriage.replaced,
        };
        forwarding::at_ingress(*version, &carriage.shared, &forwarding)
    }

    /// What the ingress' rules do with packets.
    pub fn action(&self) -> LeafAction {
        let instructions = forwarding::instructions(self.key.version, self.actions(), self.key.route.meter);
        match self.is_for_untagged() {
            true => LeafAction::ApplyTo(Constraint::exact(Field::VlanVid, 0), instructions),
            false => LeafAction::Apply(instructions),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::Location;

    /// A route from switch 1 over a link to a port of switch 2.
    fn route() -> Arc<Resolved> {
        let far = Location::new(Dpid(2), PortNo(1));
        let first = Part { links: [(PortNo(2), far)].into(), ..Part::default() };
        let last = Part { arrives: Some(PortNo(1)), edges: [PortNo(3)].into(), ..Part::default() };
        Arc::new(Resolved { parts: [(Dpid(1), first), (Dpid(2), last)].into(), meter: None })
    }

    fn is_release(effect: &LabelEffect) -> bool {
        matches!(effect, LabelEffect::Release { .. })
    }

    #[test]
    fn a_route_is_given_back_when_no_rule_leads_that_way_however_its_leaves_left() {
        let mut routes = Routes::new(ShardId(0));
        let mut out = Vec::new();
        let id = routes.join((Dpid(1), Version::Of13), &route(), Carriage::default(), &mut out);
        assert_eq!(routes.join((Dpid(1), Version::Of13), &route(), Carriage::default(), &mut out), id, "equal routes");
        let Some(LabelEffect::Ask(asked)) = out.pop() else { panic!("one label is asked for") };
        let Holder::Route { serial, port, .. } = asked.holder else { panic!("{asked:?}") };
        assert!(out.is_empty());
        routes.wait(id, LeafId(1));
        routes.learn(serial, port, &News::Allocated(7), Time(1), &mut out);
        let ready = routes.learn(serial, port, &News::Ready, Time(1), &mut out);
        assert_eq!(ready, Some(RouteNews::Ready([LeafId(1)].into())));
        routes.begin_use(id);
        // Both leave, one of them while its rule is on its way out.
        [1, 2].into_iter().for_each(|_| routes.leave(id, true, &mut out));
        assert!(!out.iter().any(is_release) && routes.len() == 1);
        routes.end_use(id, Time(2), false, &mut out);
        assert!(matches!(out[..], [LabelEffect::Release { confirmed: false, .. }]), "{out:?}");
        assert_eq!(routes.len(), 0);
    }

    #[test]
    fn a_route_that_was_refused_a_label_asks_again_when_nobody_uses_it_and_time_has_passed() {
        let mut routes = Routes::new(ShardId(0));
        let mut out = Vec::new();
        let id = routes.join((Dpid(1), Version::Of13), &route(), Carriage::default(), &mut out);
        let Some(LabelEffect::Ask(asked)) = out.pop() else { panic!("a label is asked for") };
        let Holder::Route { serial, port, .. } = asked.holder else { panic!("{asked:?}") };
        routes.begin_use(id);
        let refused = routes.learn(serial, port, &News::Refused(Refusal::NoLabel(Dpid(2))), Time(1), &mut out);
        assert_eq!(refused, Some(RouteNews::Refused(id, Refusal::NoLabel(Dpid(2)))));
        let later = Time(1) + LONGEST_RETRY;
        routes.retry(later, &mut out);
        assert!(out.is_empty(), "a rule may still lead that way");
        routes.end_use(id, Time(2), true, &mut out);
        assert!(out.iter().any(is_release));
        out.clear();
        routes.retry(Time(3), &mut out);
        assert!(out.is_empty(), "it is too early");
        routes.retry(later, &mut out);
        assert!(matches!(out[..], [LabelEffect::Ask(_)]));
    }
}
