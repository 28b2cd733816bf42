//! Routes: where f sends a packet, and what each switch does for that.
//!
//! A [`Route`] is what f returns; it may be invalid. [`Route::resolve`] checks it against the network and returns a
//! [`Resolved`]: for each switch, the ports that the packet leaves by.
//!
//! What f returns is mostly a [`Plan`]: the path to a host, or a flood. What a plan resolves to changes with the
//! topology, and f has not looked at that. So a leaf keeps the plan, and leaves with equal plans share what it resolves
//! to (`Goal`). Only if f looks at the hops of a path, or rewrites headers, does the leaf depend on them.

mod copies;
mod view;

use std::collections::BTreeMap;
use std::fmt;
use std::hash::Hash;
use std::panic::Location as Caller;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use maple_wire::{Dpid, Field, PortNo, Version};

pub(crate) use copies::rewritten;
pub use view::{Delivery, RouteView};

use crate::network::{Hop, Location, OwnFrame, PortKind, Scope};
use crate::plan::{Branch, PathTo};
pub use crate::plan::{
    FRAME_BYTES, FrameError, Limit, MOST_FRAMES, Meter, Plan, Resolved, RouteError, SwitchHops, Treatment, Unit,
    is_settable,
};
use crate::state::{Cell, CellValue, Snapshot, Txn};
use crate::trace::{Source, caller};

/// f's answer: drop, or a tree of hops from the ingress to one or more egress ports, with header rewrites, queue and
/// meter. Build with [`Route::drop`], [`Route::flood`], [`Route::to`], [`Route::hops`], [`Route::union`] or the
/// queries of [`crate::run::Net`].
#[derive(Clone, Default)]
pub struct Route {
    branches: Vec<Branch>,
    /// What path queries found for the branches' paths.
    found: Vec<Found>,
    unreachable: bool,
    meter: Option<Meter>,
    /// Frames of f's own, sent back to where the packet came from.
    answers: Vec<Arc<[u8]>>,
    /// For a route that leaves the decision to the next policy: what is done to the packet before.
    passes: Option<Treatment>,
    /// The line of f that made it. Equal routes may come from different lines.
    made_at: Option<Source>,
}

/// What a path query found.
#[derive(Clone)]
struct Found {
    path: PathTo,
    /// `None` if there was no path.
    hops: Option<Arc<[Hop]>>,
    looked: Arc<Looked>,
}

/// What f has looked at of a path that was found.
#[derive(Debug, Default)]
pub(crate) struct Looked {
    existence: AtomicBool,
    hops: AtomicBool,
}

impl Looked {
    /// The cell that the run depends on because it looked; `None` if it did not look.
    pub fn at(&self, path: &Cell) -> Option<Cell> {
        match path {
            _ if self.hops.load(Relaxed) => Some(path.clone()),
            Cell::Path { from, to, weight, within } if self.existence.load(Relaxed) => {
                let (weight, within) = (weight.clone(), within.clone());
                Some(Cell::HasPath { from: *from, to: *to, weight, within })
            }
            _ => None,
        }
    }
}

/// How many bits of a packet choose between routes: at most 256 rules replace one rule for each flow.
pub const SPREAD_BITS: u32 = 8;

/// A number whose every bit depends on all bits of the argument (the finish of SplitMix64).
fn scatter(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

/// Where a packet goes: the part of f's answer that lasts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Goal {
    /// Wherever the plan leads, as the topology changes.
    Plan(Plan),
    /// Exactly these hops: the route has rewrites, or frames of f's own.
    Fixed(Arc<Resolved>),
}

impl Goal {
    /// The meter that packets pass where they enter.
    pub fn meter(&self) -> Option<&Meter> {
        match self {
            Goal::Plan(plan) => plan.meter(),
            Goal::Fixed(resolved) => resolved.meter.as_ref(),
        }
    }

    /// What it resolves to in a state.
    pub fn now(&self, state: &Snapshot) -> Result<Arc<Resolved>, RouteError> {
        match self {
            Goal::Plan(plan) => state.route(plan),
            Goal::Fixed(resolved) => Ok(Arc::clone(resolved)),
        }
    }
}

impl PartialEq for Route {
    fn eq(&self, other: &Route) -> bool {
        let all = |route: &Route| {
            let of_all = (route.meter.clone(), route.answers.clone(), route.passes.clone());
            (route.spelled_out(), route.unreachable, of_all)
        };
        all(self) == all(other)
    }
}

impl Eq for Route {}

impl fmt::Debug for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Route");
        shown.field("branches", &self.spelled_out()).field("unreachable", &self.unreachable);
        shown.field("meter", &self.meter).field("answers", &self.answers).field("passes", &self.passes);
        shown.field("made_at", &self.made_at).finish()
    }
}

/// The route as text, such as `to 1, 2 set vlan_vid=10 queue 2` or `by 1:3, 2:1`. In a run, this looks at the hops of
/// paths.
impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let branches = self.spelled_out();
        if self.unreachable {
            return f.write_str("unreachable");
        }
        let passes = self.passes.as_ref().map(|treatment| format!("pass {}", treatment.text()).trim_end().to_owned());
        let mut all: Vec<String> = passes.into_iter().collect();
        all.extend(branches.iter().filter(|branch| !branch.is_empty()).map(Branch::text));
        all.extend(self.answers.iter().map(|frame| format!("answer with {} bytes", frame.len())));
        if all.is_empty() {
            return f.write_str("drop");
        }
        f.write_str(&all.join(" and "))?;
        self.meter.iter().try_for_each(|meter| write!(f, " meter {meter}"))
    }
}

impl Route {
    /// Sends the packet nowhere.
    #[track_caller]
    pub fn drop() -> Route {
        Route::default().from_line(caller(Caller::caller()))
    }

    /// Leaves the decision to the next policy of a composition ([`crate::compose`]). [`Route::set`] changes the packet
    /// before that policy sees it. [`Route::copy_to`], [`Route::queue`], [`Route::meter`] and [`Route::limit`] hold for
    /// whatever route it is given. Without a next policy the packet goes nowhere.
    ///
    /// ```
    /// use maple_core::Route;
    /// use maple_wire::Field;
    ///
    /// assert_eq!(Route::pass().set(Field::VlanVid, 10).to_string(), "pass set vlan_vid=10");
    /// ```
    #[track_caller]
    pub fn pass() -> Route {
        Route { passes: Some(Treatment::default()), ..Route::default() }.from_line(caller(Caller::caller()))
    }

    /// Sends the packet nowhere because there is no path: what path queries then return. Falsy in Python.
    pub fn unreachable() -> Route {
        Route { unreachable: true, ..Route::default() }
    }

    /// Sends the packet out of every edge port of the network but the one it came in by, along the spanning tree.
    #[track_caller]
    pub fn flood() -> Route {
        Route::of(Branch { flood: true, ..Branch::default() }).from_line(caller(Caller::caller()))
    }

    /// Sends the packet out of these edge ports of the ingress switch, but not back out of the one that it came in by:
    /// only [`PortNo::IN_PORT`] does that (OpenFlow 1.3 §7.2.5).
    #[track_caller]
    pub fn to(ports: impl IntoIterator<Item = PortNo>) -> Route {
        let ports = ports.into_iter().collect();
        Route::of(Branch { ports, ..Branch::default() }).from_line(caller(Caller::caller()))
    }

    /// Sends the packet along these hops, in any order: each link port leads to a switch that has a hop too.
    #[track_caller]
    pub fn hops(hops: impl IntoIterator<Item = Hop>) -> Route {
        let hops = hops.into_iter().collect();
        Route::of(Branch { hops, ..Branch::default() }).from_line(caller(Caller::caller()))
    }

    /// Sends the packet nowhere, and these frames of f's own out of the port that it came in by: for example, an ARP or
    /// ICMP answer. Each frame is whole, from the Ethernet header on, without its check sequence;
    /// [`maple_wire::packet::build`] makes them. Each such packet comes to the controller: only f can compute the
    /// answer. [`Net::send`](crate::run::Net::send) sends to other places, and in addition to any route.
    #[track_caller]
    pub fn answer(frames: impl IntoIterator<Item = Vec<u8>>) -> Route {
        let answers = frames.into_iter().map(Arc::from).collect();
        Route { answers, ..Route::default() }.from_line(caller(Caller::caller()))
    }

    /// Sends the packet along all of these routes, over each hop once: a multicast tree. It is unreachable only if all
    /// of them are. The first meter given counts. A route that passes adds nothing but its copies.
    #[track_caller]
    pub fn union(routes: impl IntoIterator<Item = Route>) -> Route {
        let mut all = Route::drop().from_line(caller(Caller::caller()));
        let (mut count, mut unreachable) = (0, 0);
        for route in routes {
            count += 1;
            unreachable += usize::from(route.unreachable);
            all.meter = all.meter.or(route.meter);
            all.branches.extend(route.branches);
            all.found.extend(route.found);
            all.answers.extend(route.answers);
        }
        all.unreachable = count > 0 && count == unreachable;
        all
    }

    /// The same route with a header field rewritten where the packet leaves the network. `vlan_vid` takes a VLAN id (a
    /// tag is pushed if the packet has none), or 0 to remove the tag. `vlan_pcp` needs a tag: the packet's, or that of a
    /// `vlan_vid` in the same route.
    #[must_use]
    pub fn set(mut self, field: Field, value: u128) -> Route {
        for treatment in self.treatments() {
            treatment.rewrites.insert(field, value);
        }
        self
    }

    /// The same route through this queue of the egress ports.
    #[must_use]
    pub fn queue(mut self, queue: u32) -> Route {
        self.treatments().for_each(|treatment| treatment.queue = Some(queue));
        self
    }

    /// The same route, with a copy of the packet to an edge port in addition: a mirror. The copy is treated as the
    /// route's first branch treats the packet. It leaves the route at the switch nearest to the port. There is no copy
    /// if no path leads there, or if the packet came in there.
    #[must_use]
    pub fn copy_to(mut self, place: Location) -> Route {
        let first = || self.branches.first().map(|branch| branch.treatment.clone());
        let treatment = self.passes.clone().or_else(first).unwrap_or_default();
        self.branches.push(Branch { copy_to: Some(place), treatment, ..Branch::default() });
        self
    }

    /// [`Route::one_of`] for bindings that know their own source lines: `read` reads a field under a mask.
    pub fn one_by(
        routes: impl IntoIterator<Item = Route>,
        mut read: impl FnMut(Field, u128) -> Option<u128>,
        by: &[Field],
    ) -> Route {
        let routes: Vec<(usize, Route)> = routes.into_iter().enumerate().filter(|(_, r)| !r.is_unreachable()).collect();
        if routes.len() < 2 {
            return routes.into_iter().next().map_or_else(Route::unreachable, |(_, route)| route);
        }
        let share = (SPREAD_BITS / by.len().max(1) as u32).max(1);
        let mut key = 0;
        for field in by {
            let mask = field.full_mask() & ((1 << share) - 1);
            let value = read(*field, mask).map_or(0, |value| value as u64 + 1);
            key = scatter(key ^ scatter(u64::from(field.oxm()) << 32 | value));
        }
        let score = |number: &usize| scatter(key ^ scatter(*number as u64 + 1));
        let chosen = routes.into_iter().max_by_key(|(number, _)| score(number));
        chosen.map_or_else(Route::unreachable, |(_, route)| route)
    }

    /// The same route through the meter of this number, which must exist at the ingress switch (OpenFlow 1.3).
    #[must_use]
    pub fn meter(mut self, meter: u32) -> Route {
        self.meter = Some(Meter::Number(meter));
        self
    }

    /// The same route under this limit at the switch where packets enter (OpenFlow 1.3). Maple makes the meter, and
    /// removes it when no rule needs it.
    ///
    /// ```
    /// use maple_core::{Net, PacketHandle, Route};
    /// use maple_core::route::Limit;
    ///
    /// fn f(_: &PacketHandle, net: &Net) -> Route {
    ///     net.flood().limit(Limit::kilobits("floods", 10_000))
    /// }
    /// ```
    #[must_use]
    pub fn limit(mut self, limit: Limit) -> Route {
        self.meter = Some(Meter::Limit(Arc::new(limit)));
        self
    }

    /// The same route, made at this line of f, for bindings that know their own source lines.
    #[must_use]
    pub fn from_line(mut self, made_at: Option<Source>) -> Route {
        self.made_at = made_at;
        self
    }

    /// The line of f that made it, if it is known.
    pub fn made_at(&self) -> Option<&Source> {
        self.made_at.as_ref()
    }

    /// Whether there was no path. In a policy, this call makes the run depend on whether there is a path; a look at the
    /// hops makes it depend on the hops. A route that is only returned follows the path wherever it leads.
    pub fn is_unreachable(&self) -> bool {
        self.found.iter().for_each(|found| found.looked.existence.store(true, Relaxed));
        self.unreachable
    }

    /// Whether the packet goes to all edge ports of the network, perhaps with other places.
    pub fn floods(&self) -> bool {
        self.branches.iter().any(|branch| branch.flood)
    }

    /// Whether it leaves the decision to the next policy.
    pub fn passes(&self) -> bool {
        self.passes.is_some()
    }

    /// Whether the packet is sent nowhere, and is not answered.
    pub fn is_drop(&self) -> bool {
        !self.passes() && self.answers.is_empty() && self.spelled_out().iter().all(Branch::is_empty)
    }

    /// The hops that were given one by one, and those that path queries found; in order within each branch.
    pub fn explicit_hops(&self) -> impl Iterator<Item = Hop> + '_ {
        self.spelled_out().into_iter().flat_map(|branch| branch.hops)
    }

    /// The paths that the route follows, wherever they lead. This is no look at their hops.
    pub fn paths(&self) -> impl Iterator<Item = Cell> + '_ {
        self.branches.iter().filter_map(|branch| branch.path.as_ref()).map(cell)
    }

    /// Notes that f looks at the hops that path queries found.
    fn look(&self) {
        self.found.iter().for_each(|found| found.looked.hops.store(true, Relaxed));
    }

    /// The branches with the hops of their paths, without those branches for which no path was found.
    fn spelled_out(&self) -> Vec<Branch> {
        self.look();
        let hops = |path: &PathTo| {
            let found = self.found.iter().find(|found| found.path == *path)?.hops.as_ref()?;
            Some(found.iter().copied().chain([path.last()]).collect::<Vec<_>>())
        };
        let spelled_out = |branch: &Branch| {
            let mut branch = branch.clone();
            if let Some(path) = branch.path.take() {
                branch.hops.extend(hops(&path)?);
            }
            Some(branch)
        };
        self.branches.iter().filter_map(spelled_out).collect()
    }

    /// The path of this cell out of `to`, which had these hops when f asked, and the record of what f looks at.
    pub(crate) fn path(path: &Cell, to: Location, hops: Option<Arc<[Hop]>>) -> (Route, Arc<Looked>) {
        let (unreachable, looked) = (hops.is_none(), Arc::new(Looked::default()));
        let (mut branches, mut found) = (Vec::new(), Vec::new());
        if let Cell::Path { from, weight, within, .. } = path {
            let path = PathTo { from: *from, to, weight: weight.clone(), within: within.clone() };
            branches.push(Branch { path: Some(path.clone()), ..Branch::default() });
            found.push(Found { path, hops, looked: Arc::clone(&looked) });
        }
        (Route { branches, found, unreachable, ..Route::default() }, looked)
    }

    /// The same route as the answer of a policy in a slice: it must be in the slice, and its limit is the slice's own.
    #[must_use]
    pub(crate) fn in_slice(mut self, scope: &Scope) -> Route {
        if let Some(Meter::Limit(limit)) = &mut self.meter
            && !scope.owns(&limit.name)
        {
            *limit = Arc::new(Limit { name: scope.own(&limit.name), ..(**limit).clone() });
        }
        for branch in &mut self.branches {
            let within = branch.within.take();
            branch.within = Some(within.map_or_else(|| scope.clone(), |other| other.limited_to(scope)));
        }
        self
    }

    /// What the route resolves to when a packet enters at `ingress`. `ask` answers whether the packet has a field with
    /// a value under a mask, and records that in the trace.
    ///
    /// Output to a port that is not known yet to be edge or link (it just came up) is left out until it is known, and
    /// so is output to a link whose far end does not know of it. Output to an edge port that is down stays: the switch
    /// drops it.
    ///
    /// # Errors
    /// [`RouteError`] says what is wrong.
    pub fn resolve(
        &self,
        ingress: Dpid,
        txn: &mut Txn,
        ask: &mut dyn FnMut(Field, u128, u128) -> bool,
    ) -> Result<Arc<Resolved>, RouteError> {
        Ok(self.goal(ingress, false, txn, ask)?.1)
    }

    /// The same, with the part of it that lasts. A plan is no dependency of the run: a leaf that keeps it follows it.
    /// All that a fixed goal rests on is read through `txn`. With `is_fixed` it is never a plan.
    pub(crate) fn goal(
        &self,
        ingress: Dpid,
        is_fixed: bool,
        txn: &mut Txn,
        ask: &mut dyn FnMut(Field, u128, u128) -> bool,
    ) -> Result<(Goal, Arc<Resolved>), RouteError> {
        let plan = self.plan(ingress);
        if !is_fixed && self.branches.iter().all(|branch| branch.treatment.rewrites.is_empty()) {
            let resolved = txn.peek().route(&plan)?;
            return Ok((Goal::Plan(plan), resolved));
        }
        let resolved = self.hops_now(ingress, txn)?;
        if self.branches.iter().all(|branch| branch.treatment.rewrites.is_empty()) {
            return Ok((Goal::Fixed(Arc::clone(&resolved)), resolved));
        }
        let mut resolved = (*resolved).clone();
        for (switch, hops) in &mut resolved.switches {
            check_treatment(*switch, hops, txn, ask)?;
        }
        let resolved = Arc::new(resolved);
        Ok((Goal::Fixed(Arc::clone(&resolved)), resolved))
    }

    /// What is sent in addition to the packet: the frames that f sent with [`Net::send`](crate::run::Net::send), and
    /// the route's answers to the place where the packet came in.
    pub(crate) fn own_frames(&self, came_in: Location, txn: &Txn) -> Result<Vec<OwnFrame>, FrameError> {
        let answers = self.answers.iter().map(|bytes| OwnFrame { at: came_in, bytes: Arc::clone(bytes) });
        let all: Vec<OwnFrame> = txn.sends().iter().cloned().chain(answers).collect();
        if all.len() > MOST_FRAMES {
            return Err(FrameError::TooMany);
        }
        for OwnFrame { at, bytes } in &all {
            if !FRAME_BYTES.contains(&bytes.len()) {
                return Err(FrameError::Length(bytes.len()));
            }
            let is_edge = txn.peek().port(*at).is_some_and(|port| port.kind == PortKind::Edge);
            if *at != came_in && !is_edge {
                return Err(FrameError::NoEdge(*at));
            }
        }
        Ok(all)
    }

    /// Whether the route names the port where the packet came in, and the packet would leave by no other. A path to a
    /// host at that port, or a flood, does not name it.
    pub(crate) fn goes_back(&self, resolved: &Resolved, came_in: Location) -> bool {
        let back =
            |(switch, hops): (&Dpid, &SwitchHops)| *switch == came_in.switch && hops.edges.contains(&came_in.port);
        let is_named = |branch: &Branch| !branch.flood && branch.path.is_none() && branch.copy_to.is_none();
        let named = self.branches.iter().all(is_named);
        named && resolved.egress_count() == 1 && resolved.switches.iter().any(back)
    }

    /// Whether it is more than one path, flood or set of ports.
    pub(crate) fn may_loop(&self) -> bool {
        self.branches.len() > 1 || self.branches.iter().any(|branch| !branch.hops.is_empty())
    }

    /// Whether it has a loop in the state of a transaction.
    pub(crate) fn loops_now(&self, ingress: Dpid, txn: &Txn) -> bool {
        matches!(txn.peek().route(&self.plan(ingress)), Err(RouteError::Loop(_)))
    }

    /// The part of the route that determines its hops.
    fn plan(&self, ingress: Dpid) -> Plan {
        Plan::new(ingress, self.branches.clone(), self.meter.clone())
    }

    /// The fields that each of its branches writes.
    pub(crate) fn rewrites(&self) -> impl Iterator<Item = &BTreeMap<Field, u128>> {
        self.branches.iter().map(|branch| &branch.treatment.rewrites)
    }

    /// What a route that passes does to the packet before the next policy decides.
    pub(crate) fn passed(&self) -> Option<&Treatment> {
        self.passes.as_ref()
    }

    /// A route that passes and does this to the packet.
    pub(crate) fn pass_with(treatment: Treatment) -> Route {
        Route { passes: Some(treatment), ..Route::default() }
    }

    /// Whether a packet that came in here can take the route, now. What this rests on is read through `txn`.
    pub(crate) fn can_follow(
        &self,
        came_in: Location,
        txn: &mut Txn,
        ask: &mut dyn FnMut(Field, u128, u128) -> bool,
    ) -> bool {
        let CellValue::Route(Ok(_)) = txn.read(Cell::Route(self.plan(came_in.switch))) else { return false };
        self.goal(came_in.switch, false, txn, ask).is_ok() && self.own_frames(came_in, txn).is_ok()
    }

    /// The hops of packets that enter at a switch. What this rests on is read through `txn`.
    pub(crate) fn hops_now(&self, ingress: Dpid, txn: &mut Txn) -> Result<Arc<Resolved>, RouteError> {
        match txn.read(Cell::Route(self.plan(ingress))) {
            CellValue::Route(resolved) => resolved,
            _ => Err(RouteError::NotAtIngress { ingress }),
        }
    }

    /// A drop in its place, from the same line. Frames of f's own are still sent.
    pub(crate) fn refused(&self) -> Route {
        Route { answers: self.answers.clone(), made_at: self.made_at.clone(), ..Route::default() }
    }

    /// Whether it says by name that the packet leaves by the port that it came in by.
    pub(crate) fn sends_back_by_name(&self) -> bool {
        let named = |branch: &Branch| {
            branch.ports.contains(&PortNo::IN_PORT) || branch.hops.iter().any(|hop| hop.port == PortNo::IN_PORT)
        };
        self.branches.iter().any(named)
    }

    /// Whether the route sends nothing anywhere, whatever the network is. This is no look at the hops of paths.
    pub(crate) fn sends_nothing(&self) -> bool {
        self.branches.iter().all(|branch| branch.path.is_none() && branch.is_empty())
    }

    /// The route of a packet that `earlier` let pass and that then got this route: what `earlier` does to the packet
    /// comes first, and its copies are made too.
    #[must_use]
    pub(crate) fn after(mut self, earlier: Route) -> Route {
        let first = earlier.passes.unwrap_or_default();
        let all = self.branches.iter_mut().map(|branch| &mut branch.treatment).chain(&mut self.passes);
        all.for_each(|treatment| *treatment = first.then(treatment));
        self.meter = self.meter.or(earlier.meter);
        self.made_at = self.made_at.or(earlier.made_at);
        self.branches.extend(earlier.branches);
        self.found.extend(earlier.found);
        self.answers.extend(earlier.answers);
        self
    }

    /// The route, and a copy to each place where `beside` sends its packet; treated as `beside` says.
    pub(crate) fn with_copies(mut self, beside: Route, ingress: Dpid) -> Result<Route, RouteError> {
        if beside.meter.is_some() {
            return Err(RouteError::NoCopy("has a meter, which would limit the packet itself"));
        }
        for branch in beside.branches {
            if branch.flood || !branch.hops.is_empty() {
                return Err(RouteError::NoCopy("floods, or gives hops"));
            }
            let ports = branch.ports.iter().map(|port| Location::new(ingress, *port));
            let places = ports.chain(branch.path.map(|path| path.to)).chain(branch.copy_to);
            let copy = |place| {
                let (treatment, within) = (branch.treatment.clone(), branch.within.clone());
                Branch { copy_to: Some(place), treatment, within, ..Branch::default() }
            };
            self.branches.extend(places.map(copy));
        }
        self.answers.extend(beside.answers);
        Ok(self)
    }

    /// The treatments that rewrites and queues of the whole route change: of one that passes not those of its copies,
    /// which have left already.
    fn treatments(&mut self) -> impl Iterator<Item = &mut Treatment> {
        let passes = self.passes.is_some();
        let of_branches = self.branches.iter_mut().filter(move |_| !passes).map(|branch| &mut branch.treatment);
        of_branches.chain(&mut self.passes)
    }

    fn of(branch: Branch) -> Route {
        Route { branches: vec![branch], ..Route::default() }
    }
}

/// The cell that a path is.
fn cell(path: &PathTo) -> Cell {
    let (weight, within) = (path.weight.clone(), path.within.clone());
    Cell::Path { from: path.from, to: path.to.switch, weight, within }
}

/// Checks that the packet has what is rewritten and that the switch can rewrite it.
fn check_treatment(
    switch: Dpid,
    hops: &mut SwitchHops,
    txn: &Txn,
    ask: &mut dyn FnMut(Field, u128, u128) -> bool,
) -> Result<(), RouteError> {
    let version = txn.peek().switch(switch).map_or(Version::Of13, |info| info.version);
    for (&field, &value) in &hops.treatment.rewrites {
        if value & !field.full_mask() != 0 {
            return Err(RouteError::TooWide { field, value });
        }
        if !is_settable(field, version) {
            return Err(RouteError::NotSettable { field });
        }
        let pushes_tag = hops.treatment.rewrites.get(&Field::VlanVid).is_some_and(|vid| *vid != 0);
        if field == Field::VlanVid {
            hops.tagged = ask(Field::VlanVid, 0x1000, 0x1000);
        } else if field == Field::VlanPcp && pushes_tag {
            continue;
        } else if !ask(field, 0, 0) {
            return Err(RouteError::NoSuchField { field });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
