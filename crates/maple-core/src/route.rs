//! Routes: f's answer to a packet, and what it comes to at each switch.
//!
//! A [`Route`] is what f says; it may be wrong. [`Route::resolve`] checks it against the network and gives a
//! [`Resolved`]: for each switch which ports the packet leaves by.
//!
//! What f says is mostly a [`Plan`]: the path to a host, or everywhere. What a plan comes to changes with the topology, and f
//! has not looked at that; so a leaf keeps the plan, and those with one plan share what it comes to ([`Goal`]). Only if f
//! looks at the hops of a path, or rewrites headers, does the leaf depend on them.

mod copies;
mod limit;
mod plan;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::Hash;
use std::panic::Location as Caller;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use maple_wire::{Dpid, Field, FieldSet, PortNo, Version};

pub use limit::{Limit, Meter, Unit};
pub(crate) use plan::Goal;
pub use plan::Plan;

use crate::network::{Hop, Location, OwnFrame, PortKind};
use crate::run::{PacketHandle, caller};
use crate::state::{Cell, CellValue, Name, Txn};
use crate::trace::Source;

/// f's answer: drop, or a tree of hops from the ingress to one or more egress ports, with header rewrites, queue and
/// meter. Build with [`Route::drop`], [`Route::flood`], [`Route::to`], [`Route::hops`], [`Route::union`] or the
/// queries of [`crate::policy::Net`].
#[derive(Clone, Default)]
pub struct Route {
    branches: Vec<Branch>,
    /// What f was told of the branches' paths.
    found: Vec<Found>,
    unreachable: bool,
    meter: Option<Meter>,
    /// Frames of f's own, to where the packet came from.
    answers: Vec<Arc<[u8]>>,
    /// The line of f that made it. Equal routes may come from different lines.
    made_at: Option<Source>,
}

/// Places to send the packet to, all with the same treatment.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
struct Branch {
    flood: bool,
    ports: BTreeSet<PortNo>,
    hops: BTreeSet<Hop>,
    path: Option<PathTo>,
    /// A copy goes there, from wherever on the route that is nearest.
    copy_to: Option<Location>,
    treatment: Treatment,
}

/// The best path to a place, whichever that is at the time.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct PathTo {
    from: Dpid,
    to: Location,
    weight: Option<Name>,
}

/// What a path query found.
#[derive(Clone)]
struct Found {
    path: PathTo,
    /// `None` if there was no path.
    hops: Option<Arc<[Hop]>>,
    looked: Arc<Looked>,
}

/// What of a path that was found somebody has looked at.
#[derive(Debug, Default)]
pub(crate) struct Looked {
    existence: AtomicBool,
    hops: AtomicBool,
}

impl Looked {
    /// The cell that whoever looked depends on.
    pub fn at(&self, path: &Cell) -> Option<Cell> {
        match path {
            _ if self.hops.load(Relaxed) => Some(path.clone()),
            Cell::Path { from, to, weight } if self.existence.load(Relaxed) => {
                Some(Cell::HasPath { from: *from, to: *to, weight: weight.clone() })
            }
            _ => None,
        }
    }
}

impl PathTo {
    fn cell(&self) -> Cell {
        Cell::Path { from: self.from, to: self.to.switch, weight: self.weight.clone() }
    }

    /// The hop out of the network.
    fn last(&self) -> Hop {
        Hop::new(self.to.switch, self.to.port)
    }
}

impl fmt::Debug for PathTo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the path from {} to {}", self.from, self.to)?;
        self.weight.iter().try_for_each(|name| write!(f, " by {name:?}"))
    }
}

/// What is done to the packet where it leaves the network.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Treatment {
    /// Header fields to rewrite, one value a field.
    pub rewrites: BTreeMap<Field, u128>,
    /// The queue of the egress ports to use.
    pub queue: Option<u32>,
}

/// How many bits of packets choose between routes: 256 rules, at most, take the place of one for each flow.
pub const SPREAD_BITS: u32 = 8;

/// A number in which each bit depends on all bits of another (the finish of SplitMix64).
fn scatter(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

/// A route that can't be taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum RouteError {
    #[error("the route does not start at the ingress switch {ingress}: no hop leaves it")]
    NotAtIngress { ingress: Dpid },
    #[error("hop {0:?}: the switch is not reached from the ingress by the hops before it")]
    NotConnected(Hop),
    #[error("hop {hop:?}: there is no such port; {}", listed(.hop.switch, .ports))]
    NoSuchPort { hop: Hop, ports: Vec<PortNo> },
    #[error(
        "hop {hop:?} is a link to switch {next}, but the route has no hop there; \
         a route ends at edge ports (use net.shortest_path, or give the whole list of hops)"
    )]
    EndsAtLink { hop: Hop, next: Dpid },
    #[error("the route comes to switch {0} a second time")]
    Loop(Dpid),
    #[error("can't set {field}: the packet has no such field")]
    NoSuchField { field: Field },
    #[error("can't set {field} to {value:#x}: the field has {} bits", field.bits())]
    TooWide { field: Field, value: u128 },
    #[error("can't set {field}: no switch can rewrite it")]
    NotSettable { field: Field },
    #[error("routes with different rewrites or queues leave by the same switch {0}")]
    MixedTreatment(Dpid),
    #[error(transparent)]
    Frame(#[from] FrameError),
}

/// A frame of f's own that can't be sent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages say it")]
pub enum FrameError {
    #[error("a frame has {least} to {most} bytes, not {0}", least = FRAME_BYTES.start(), most = FRAME_BYTES.end())]
    Length(usize),
    #[error("more than {MOST_FRAMES} frames are sent for one packet")]
    TooMany,
    #[error("{0} is no port where a frame can leave the network: it is not there, or a link to another switch")]
    NoEdge(Location),
}

/// How long a frame of f's own may be: an Ethernet header at least, a jumbo frame at most.
pub const FRAME_BYTES: std::ops::RangeInclusive<usize> = 14..=9216;
/// How many frames of its own f may send for one packet.
pub const MOST_FRAMES: usize = 64;

/// The ports of a switch, as the end of an error.
fn listed(switch: Dpid, ports: &[PortNo]) -> String {
    match ports {
        [] => format!("there is no switch {switch}"),
        _ => {
            let ports: Vec<String> = ports.iter().map(ToString::to_string).collect();
            format!("switch {switch} has the ports {}", ports.join(", "))
        }
    }
}

impl PartialEq for Route {
    fn eq(&self, other: &Route) -> bool {
        let all = |route: &Route| (route.spelled_out(), route.unreachable, route.meter.clone(), route.answers.clone());
        all(self) == all(other)
    }
}

impl Eq for Route {}

impl fmt::Debug for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Route");
        shown.field("branches", &self.spelled_out()).field("unreachable", &self.unreachable);
        shown.field("meter", &self.meter).field("answers", &self.answers).field("made_at", &self.made_at).finish()
    }
}

/// What it says, such as `to 1, 2 set vlan_vid=10 queue 2` or `by 1:3, 2:1`. In a run this is a look at the hops of paths.
impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let branches = self.spelled_out();
        if self.unreachable {
            return f.write_str("unreachable");
        }
        let mut all: Vec<String> = branches.iter().filter(|branch| !branch.is_empty()).map(Branch::text).collect();
        all.extend(self.answers.iter().map(|frame| format!("answer with {} bytes", frame.len())));
        if all.is_empty() {
            return f.write_str("drop");
        }
        f.write_str(&all.join(" and "))?;
        self.meter.iter().try_for_each(|meter| write!(f, " meter {meter}"))
    }
}

impl Branch {
    /// Whether it sends the packet nowhere.
    fn is_empty(&self) -> bool {
        !self.flood && self.ports.is_empty() && self.hops.is_empty() && self.copy_to.is_none()
    }

    fn text(&self) -> String {
        let listed = |texts: Vec<String>| texts.join(", ");
        let mut parts = Vec::new();
        if self.flood {
            parts.push("flood".to_owned());
        }
        if !self.ports.is_empty() {
            parts.push(format!("to {}", listed(self.ports.iter().map(ToString::to_string).collect())));
        }
        if !self.hops.is_empty() {
            let hop = |hop: &Hop| format!("{:x}:{}", hop.switch.0, hop.port);
            parts.push(format!("by {}", listed(self.hops.iter().map(hop).collect())));
        }
        parts.extend(self.copy_to.map(|at| format!("copy to {:x}:{}", at.switch.0, at.port)));
        let Treatment { rewrites, queue } = &self.treatment;
        let shown = |field: Field, value: u128| match field {
            Field::VlanVid => (value & 0xfff).to_string(),
            _ => crate::trace::text(field, value),
        };
        parts.extend(rewrites.iter().map(|(field, value)| format!("set {field}={}", shown(*field, *value))));
        parts.extend(queue.iter().map(|queue| format!("queue {queue}")));
        parts.join(" ")
    }
}

/// A checked route: what each switch does with the packet.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub struct Resolved {
    /// The switches that send the packet on, by datapath id. A drop has none.
    pub parts: BTreeMap<Dpid, Part>,
    /// The meter that the packet passes at the ingress (OpenFlow 1.3).
    pub meter: Option<Meter>,
    /// What f sends itself. No rule does that: each packet of the kind comes to the controller.
    pub own: Vec<OwnFrame>,
}

/// What one switch does with a packet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Part {
    /// The link port it arrives by; `None` at the ingress.
    pub arrives: Option<PortNo>,
    /// The links it goes on by, and the port of the next switch where each ends.
    pub links: BTreeMap<PortNo, Location>,
    /// The edge ports it leaves by.
    pub edges: BTreeSet<PortNo>,
    /// What is done to it before it leaves by an edge port.
    pub treatment: Treatment,
    /// Whether the packet has a VLAN tag; known where the treatment rewrites it.
    pub tagged: bool,
}

impl Resolved {
    /// How many edge ports the packet leaves by.
    pub fn egress_count(&self) -> usize {
        self.parts.values().map(|part| part.edges.len()).sum()
    }

    /// Without the ingress' part where that sends nothing: a drop has no parts.
    fn pruned(mut self, ingress: Dpid) -> Resolved {
        self.parts.retain(|switch, part| *switch != ingress || !part.links.is_empty() || !part.edges.is_empty());
        self
    }
}

impl Route {
    /// Sends the packet nowhere.
    #[track_caller]
    pub fn drop() -> Route {
        Route::default().from_line(caller(Caller::caller()))
    }

    /// Sends the packet nowhere because there is no way; what path queries answer then. Falsy in Python.
    pub fn unreachable() -> Route {
        Route { unreachable: true, ..Route::default() }
    }

    /// Sends the packet out of every edge port of the network but the one it came in by, along the spanning tree.
    #[track_caller]
    pub fn flood() -> Route {
        Route::of(Branch { flood: true, ..Branch::default() }).from_line(caller(Caller::caller()))
    }

    /// Sends the packet out of these edge ports of the ingress switch, but not back out of the one that it came in by: only
    /// [`PortNo::IN_PORT`] says that (OpenFlow 1.3 §7.2.5).
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

    /// Sends the packet nowhere, and these frames of f's own out of the port that it came in by: an ARP or ICMP answer, say.
    /// Frames are whole, from the Ethernet header on, without their check sequence; [`maple_wire::packet::build`] makes them.
    /// Each such packet comes to the controller: only f can say what the answer is. [`Net::send`](crate::policy::Net::send)
    /// sends to other places, and beside any route.
    #[track_caller]
    pub fn answer(frames: impl IntoIterator<Item = Vec<u8>>) -> Route {
        let answers = frames.into_iter().map(Arc::from).collect();
        Route { answers, ..Route::default() }.from_line(caller(Caller::caller()))
    }

    /// Sends the packet along all of these routes, over each hop once: a multicast tree. It is unreachable only if
    /// all of them are. The first meter given counts.
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
    /// tag is pushed where the packet has none), or 0 to take the tag away.
    #[must_use]
    pub fn set(mut self, field: Field, value: u128) -> Route {
        self.branches.iter_mut().for_each(|b| {
            b.treatment.rewrites.insert(field, value);
        });
        self
    }

    /// The same route through this queue of the egress ports.
    #[must_use]
    pub fn queue(mut self, queue: u32) -> Route {
        self.branches.iter_mut().for_each(|b| b.treatment.queue = Some(queue));
        self
    }

    /// The same route, and a copy of the packet as it sends it to an edge port besides: a mirror. The copy leaves the route where
    /// that is nearest to the place; where there is no way, or the packet came in there, there is none.
    #[must_use]
    pub fn copy_to(mut self, place: Location) -> Route {
        let treatment = self.branches.first().map(|branch| branch.treatment.clone()).unwrap_or_default();
        self.branches.push(Branch { copy_to: Some(place), treatment, ..Branch::default() });
        self
    }

    /// One of several routes, the same for packets that agree in these fields: to spread flows over several ways. Routes
    /// without a way don't count; give one twice for twice its share.
    ///
    /// Some of the lower bits of the fields choose, at most [`SPREAD_BITS`] in all, so that a few rules do for all flows. Who gets
    /// which is the same in every process, and when a way fails only its packets change.
    ///
    /// ```
    /// use maple_core::{Net, PacketHandle, Route};
    /// use maple_wire::Field;
    ///
    /// fn f(pkt: &PacketHandle, net: &Net) -> Route {
    ///     let (Some(src), Some(dst)) = (net.locate(pkt.eth_src()), net.locate(pkt.eth_dst())) else { return net.flood() };
    ///     let ways = ["upper", "lower"].map(|weight| net.path(src, dst, weight));
    ///     Route::one_of(ways, pkt, &[Field::Ipv4Src, Field::TcpSrc])
    /// }
    /// ```
    #[track_caller]
    pub fn one_of(routes: impl IntoIterator<Item = Route>, pkt: &PacketHandle, by: &[Field]) -> Route {
        let at = caller(Caller::caller());
        Route::one_by(routes, |field, mask| pkt.read(field, mask, at.clone()), by).from_line(at.clone())
    }

    /// The same for bindings that know their own source lines: `read` reads a field under a mask.
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

    /// The same route through the meter of this number, which somebody has made at the ingress switch (OpenFlow 1.3).
    #[must_use]
    pub fn meter(mut self, meter: u32) -> Route {
        self.meter = Some(Meter::Number(meter));
        self
    }

    /// The same route under this limit at the switch where packets enter (OpenFlow 1.3): Maple makes the meter, and takes it away
    /// when no rule needs it.
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

    /// The line of f that made it, where that is known.
    pub fn made_at(&self) -> Option<&Source> {
        self.made_at.as_ref()
    }

    /// Whether there was no way. In a policy this makes a dependency of whether there is a path, and a look at its hops makes
    /// one of the hops; a route that is only returned follows the path wherever it leads.
    pub fn is_unreachable(&self) -> bool {
        self.found.iter().for_each(|found| found.looked.existence.store(true, Relaxed));
        self.unreachable
    }

    /// Whether the packet goes to all edge ports of the network, be it among others.
    pub fn floods(&self) -> bool {
        self.branches.iter().any(|branch| branch.flood)
    }

    /// Whether the packet is sent nowhere, and is not answered.
    pub fn is_drop(&self) -> bool {
        self.answers.is_empty() && self.spelled_out().iter().all(Branch::is_empty)
    }

    /// The hops given one by one, in order; what a path query found.
    pub fn explicit_hops(&self) -> impl Iterator<Item = Hop> + '_ {
        self.spelled_out().into_iter().flat_map(|branch| branch.hops)
    }

    /// The paths that the route follows wherever they lead, without a look at where that is.
    pub fn paths(&self) -> impl Iterator<Item = Cell> + '_ {
        self.branches.iter().filter_map(|branch| branch.path.as_ref()).map(PathTo::cell)
    }

    /// Notes that somebody looks at the hops that path queries found.
    fn look(&self) {
        self.found.iter().for_each(|found| found.looked.hops.store(true, Relaxed));
    }

    /// The branches with the hops of their paths; those without a path are none.
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

    /// The best path from a switch out of `to`, which had these hops when f asked, and who looks at them.
    pub(crate) fn path(
        from: Dpid,
        to: Location,
        weight: Option<Name>,
        hops: Option<Arc<[Hop]>>,
    ) -> (Route, Arc<Looked>) {
        let (unreachable, looked) = (hops.is_none(), Arc::new(Looked::default()));
        let path = PathTo { from, to, weight };
        let branches = vec![Branch { path: Some(path.clone()), ..Branch::default() }];
        let found = vec![Found { path, hops, looked: Arc::clone(&looked) }];
        (Route { branches, found, unreachable, ..Route::default() }, looked)
    }

    /// What the route comes to when a packet enters at `ingress`. `ask` answers whether the packet has a
    /// field with a value under a mask, and records that in the trace.
    ///
    /// Output to a port that is not known yet to be edge or link (it just came up), or to a link whose far end does
    /// not know of it, is left out until it is known; output to an edge port that is down stays: the switch loses it.
    ///
    /// # Errors
    /// [`RouteError`] says what is wrong.
    pub fn resolve(
        &self,
        ingress: Dpid,
        txn: &mut Txn,
        ask: &mut dyn FnMut(Field, u128, u128) -> bool,
    ) -> Result<Arc<Resolved>, RouteError> {
        Ok(self.goal(ingress, txn, ask)?.1)
    }

    /// The same, and what of it lasts. A plan is no dependency of the run: whoever keeps it follows it. All that a fixed
    /// goal rests on is read through `txn`.
    pub(crate) fn goal(
        &self,
        ingress: Dpid,
        txn: &mut Txn,
        ask: &mut dyn FnMut(Field, u128, u128) -> bool,
    ) -> Result<(Goal, Arc<Resolved>), RouteError> {
        let plan = self.plan(ingress);
        if self.branches.iter().all(|branch| branch.treatment.rewrites.is_empty()) {
            let resolved = plan.now(txn.peek())?;
            return Ok((Goal::Plan(plan), resolved));
        }
        let CellValue::Route(resolved) = txn.read(Cell::Route(plan)) else {
            return Err(RouteError::NotAtIngress { ingress });
        };
        let mut resolved = (*resolved?).clone();
        for (switch, part) in &mut resolved.parts {
            check_treatment(*switch, part, txn, ask)?;
        }
        let resolved = Arc::new(resolved);
        Ok((Goal::Fixed(Arc::clone(&resolved)), resolved))
    }

    /// What the packet comes to besides: the frames that f sent with [`Net::send`](crate::policy::Net::send), and its answers
    /// to the place where the packet came in.
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

    /// Whether the only port that a packet would leave by is the one where it came in, and the route names that port. A path to
    /// a host that is there, or a flood, means no such thing.
    pub(crate) fn goes_back(&self, resolved: &Resolved, came_in: Location) -> bool {
        let back = |(switch, part): (&Dpid, &Part)| *switch == came_in.switch && part.edges.contains(&came_in.port);
        let is_named = |branch: &Branch| !branch.flood && branch.path.is_none() && branch.copy_to.is_none();
        let named = self.branches.iter().all(is_named);
        named && resolved.egress_count() == 1 && resolved.parts.iter().any(back)
    }

    /// What of the route its hops come from.
    fn plan(&self, ingress: Dpid) -> Plan {
        Plan::new(ingress, self.branches.clone(), self.meter.clone())
    }

    fn of(branch: Branch) -> Route {
        Route { branches: vec![branch], ..Route::default() }
    }
}

/// Checks that the packet has what is rewritten and that the switch can rewrite it.
fn check_treatment(
    switch: Dpid,
    part: &mut Part,
    txn: &Txn,
    ask: &mut dyn FnMut(Field, u128, u128) -> bool,
) -> Result<(), RouteError> {
    let version = txn.peek().switch(switch).map_or(Version::Of13, |info| info.version);
    for (&field, &value) in &part.treatment.rewrites {
        if value & !field.full_mask() != 0 {
            return Err(RouteError::TooWide { field, value });
        }
        if !is_settable(field, version) {
            return Err(RouteError::NotSettable { field });
        }
        if field == Field::VlanVid {
            part.tagged = ask(Field::VlanVid, 0x1000, 0x1000);
        } else if !ask(field, 0, 0) {
            return Err(RouteError::NoSuchField { field });
        }
    }
    Ok(())
}

/// Whether switches can rewrite a field (1.0 §5.2.4; 1.3 §7.2.5, as far as Open vSwitch does it).
pub fn is_settable(field: Field, version: Version) -> bool {
    const OF10: FieldSet = FieldSet::of(&[
        Field::EthDst,
        Field::EthSrc,
        Field::VlanVid,
        Field::VlanPcp,
        Field::IpDscp,
        Field::Ipv4Src,
        Field::Ipv4Dst,
        Field::TcpSrc,
        Field::TcpDst,
        Field::UdpSrc,
        Field::UdpDst,
    ]);
    const FIXED: FieldSet = FieldSet::of(&[
        Field::InPort,
        Field::InPhyPort,
        Field::Metadata,
        Field::EthType,
        Field::IpProto,
        Field::Ipv6Exthdr,
        Field::MplsBos,
        Field::PbbIsid,
    ]);
    match version {
        Version::Of10 => OF10.contains(field),
        Version::Of13 => !FIXED.contains(field),
    }
}

#[cfg(test)]
mod tests;
