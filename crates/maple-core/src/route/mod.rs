//! Routes: where f sends a packet, and how each switch takes it there.
//!
//! A [`Route`] is what f returns; it may be invalid. [`Route::resolve`] checks it against the network and returns a
//! [`Resolved`]: for each switch, the ports that the packet leaves by.
//!
//! f mostly returns a [`RoutePlan`]: the path to a host, or a flood. The hops that a plan resolves to change with the
//! topology, and f has not read them. So a leaf keeps the plan, and leaves with equal plans share its hops (`Goal`). A
//! leaf depends on the hops only if f reads the hops of a path, or rewrites headers.

mod composed;
mod copies;
mod ecmp;
mod questions;
mod resolve;
mod route_view;

use std::fmt;
use std::panic::Location as Caller;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use maple_wire::{Field, PortNo};

pub use copies::rewritten;
pub use ecmp::{SPREAD_BITS, choose_by};
pub(crate) use resolve::{Goal, OpenGoal};
pub use route_view::{Delivery, RouteView};

use crate::network::{Hop, Location};
pub use crate::route_plan::{
    Absence, FRAME_BYTES, FrameError, Limit, MAX_FRAMES, Meter, OmittedPlace, Resolved, RouteError, RoutePlan,
    SwitchHops, Treatment, Unit, is_settable,
};
use crate::route_plan::{Branch, Flood, PathTo};
use crate::state::Cell;
use crate::trace::{Source, caller};

/// f's answer: drop, or a tree of hops from the ingress to one or more egress ports, with header rewrites, queue and
/// meter. Build with [`Route::drop`], [`Route::flood`], [`Route::to`], [`Route::hops`], [`Route::multicast`] or the
/// queries of [`crate::run::Net`].
#[derive(Clone, Default)]
#[must_use = "a route that the policy does not return sends nothing"]
pub struct Route {
    branches: Vec<Branch>,
    /// The results of path queries for the branches' paths.
    found: Vec<Found>,
    unreachable: bool,
    /// Whether the route may send nothing because all its places are absent.
    is_multicast: bool,
    meter: Option<Meter>,
    /// Frames of f's own, which go back to where the packet came from.
    answers: Vec<Arc<[u8]>>,
    /// The treatment of the packet before the next policy decides; `None` if the route does not pass.
    passes: Option<Treatment>,
    /// The line of f that made the route. Equal routes may come from different lines.
    made_at: Option<Source>,
}

/// The result of a path query.
#[derive(Clone)]
struct Found {
    path: PathTo,
    /// `None` if there was no path.
    hops: Option<Arc<[Hop]>>,
    reads: Arc<PathReads>,
}

/// The record of what f has read of a path that it requested.
#[derive(Debug, Default)]
pub(crate) struct PathReads {
    /// The place where the path ends, if a path leads to its switch. The answer then depends on whether that place is
    /// there.
    end: Option<Location>,
    existence: AtomicBool,
    hops: AtomicBool,
    /// Whether f has read where the path ends, and no more.
    last: AtomicBool,
}

impl PathReads {
    /// Reports whether f has read anything of the path.
    pub fn are_any(&self) -> bool {
        [&self.existence, &self.hops, &self.last].into_iter().any(|read| read.load(Relaxed))
    }

    /// Returns the cells that the run depends on because f read the path; none if f did not.
    pub fn at(&self, path: &Cell) -> impl Iterator<Item = Cell> + use<> {
        let path = match path {
            _ if self.hops.load(Relaxed) => Some(path.clone()),
            Cell::Path { from, to, costs, within } if self.existence.load(Relaxed) => {
                let (costs, within) = (costs.clone(), within.clone());
                Some(Cell::HasPath { from: *from, to: *to, costs, within })
            }
            _ => None,
        };
        let end = self.end.filter(|_| path.is_some()).map(Cell::IsPlace);
        path.into_iter().chain(end)
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

/// Shows the route as text, such as `to 1, 2 set vlan_vid=10 queue 2` or `by 1:3, 2:1`. In a run, this reads the hops
/// of paths.
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

/// A field that [`Route::set`] rewrites, with the type of its values. A [`Field`] takes bits, for programs that know
/// only at run time which field it is.
///
/// ```
/// use maple_core::route::RewrittenField;
/// use maple_wire::Field;
///
/// assert_eq!(Field::TcpDst.with_bits(80), (Field::TcpDst, 80));
/// ```
pub trait RewrittenField {
    /// The type of the field's values.
    type Value;

    /// Returns which field it is, and the bits that a value has in it.
    fn with_bits(self, value: Self::Value) -> (Field, u128);
}

impl RewrittenField for Field {
    type Value = u128;

    fn with_bits(self, bits: u128) -> (Field, u128) {
        (self, bits)
    }
}

impl Route {
    /// Sends the packet nowhere.
    ///
    /// ```
    /// use maple_core::Route;
    ///
    /// assert!(Route::drop().is_drop());
    /// ```
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

    /// Sends the packet nowhere because there is no path, or because the path's end is not known. Path queries return
    /// this route in these cases. It is falsy in Python.
    ///
    /// ```
    /// use maple_core::Route;
    ///
    /// assert!(Route::unreachable().is_unreachable());
    /// ```
    pub fn unreachable() -> Route {
        Route { unreachable: true, ..Route::default() }
    }

    /// Sends the packet out of every edge port of the network but the one it came in by, along the spanning tree. A
    /// packet for an address that bridges never forward ([`crate::network::RESERVED`]) goes nowhere.
    ///
    /// ```
    /// use maple_core::Route;
    ///
    /// assert_eq!(Route::flood().to_string(), "flood");
    /// ```
    #[track_caller]
    pub fn flood() -> Route {
        let branch = Branch { flood: Flood::UnlessReserved, ..Branch::default() };
        Route::from_branch(branch).from_line(caller(Caller::caller()))
    }

    /// Floods like [`Route::flood`], but also packets that bridges never forward, such as those of LACP or spanning
    /// trees: the network is a cable for them.
    ///
    /// ```
    /// use maple_core::Route;
    ///
    /// assert!(Route::flood_reserved().floods());
    /// ```
    #[track_caller]
    pub fn flood_reserved() -> Route {
        Route::from_branch(Branch { flood: Flood::All, ..Branch::default() }).from_line(caller(Caller::caller()))
    }

    /// Sends the packet out of these edge ports of the ingress switch, but not back out of the one that it came in by:
    /// only [`PortNo::IN_PORT`] does that (OpenFlow 1.3 §7.2.5). Absent ports are left out; the run fails if all are
    /// absent.
    ///
    /// ```
    /// use maple_core::Route;
    /// use maple_wire::PortNo;
    ///
    /// assert_eq!(Route::to([PortNo(1), PortNo(2)]).to_string(), "to 1, 2");
    /// ```
    #[track_caller]
    pub fn to(ports: impl IntoIterator<Item = PortNo>) -> Route {
        let ports = ports.into_iter().collect();
        Route::from_branch(Branch { ports, ..Branch::default() }).from_line(caller(Caller::caller()))
    }

    /// Sends the packet along these hops, in any order: each link port leads to a switch that has a hop too. A hop
    /// whose port is not there is left out, with all that leads to it only or comes after it; the run fails if nothing
    /// is left.
    ///
    /// ```
    /// use maple_core::{Hop, Route};
    /// use maple_wire::{Dpid, PortNo};
    ///
    /// let route = Route::hops([Hop::new(Dpid(1), PortNo(3)), Hop::new(Dpid(2), PortNo(1))]);
    /// assert_eq!(route.explicit_hops().count(), 2);
    /// ```
    #[track_caller]
    pub fn hops(hops: impl IntoIterator<Item = Hop>) -> Route {
        let hops = hops.into_iter().collect();
        Route::from_branch(Branch { hops, ..Branch::default() }).from_line(caller(Caller::caller()))
    }

    /// Sends the packet nowhere, and these frames of f's own out of the port that it came in by: for example, an ARP or
    /// ICMP answer. Each frame is whole, from the Ethernet header on, without its check sequence;
    /// [`maple_wire::packet::build`] makes them. Each such packet comes to the controller: only f can compute the
    /// answer. [`Net::send`](crate::run::Net::send) sends to other places, and in addition to any route.
    ///
    /// ```
    /// use maple_core::Route;
    /// use maple_wire::packet::Frame;
    ///
    /// let frame = Frame::ethernet([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]).ipv4([10, 0, 0, 1], [10, 0, 0, 2]).udp(1, 2).build();
    /// let text = format!("answer with {} bytes", frame.len());
    /// assert_eq!(Route::answer([frame]).to_string(), text);
    /// ```
    #[track_caller]
    pub fn answer(frames: impl IntoIterator<Item = Vec<u8>>) -> Route {
        let answers = frames.into_iter().map(Arc::from).collect();
        Route { answers, ..Route::default() }.from_line(caller(Caller::caller()))
    }

    /// Sends the packet along all of these routes, over each hop once: a multicast tree. It is unreachable only if all
    /// of them are. Absent places are left out, even if that leaves none. The first meter given counts. A route that
    /// passes adds only its copies.
    ///
    /// ```
    /// use maple_core::Route;
    /// use maple_wire::PortNo;
    ///
    /// let both = Route::multicast([Route::to([PortNo(1)]), Route::unreachable()]);
    /// assert!(!both.is_unreachable() && Route::multicast([Route::unreachable()]).is_unreachable());
    /// ```
    #[track_caller]
    pub fn multicast(routes: impl IntoIterator<Item = Route>) -> Route {
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
        all.is_multicast = true;
        all
    }

    /// Rewrites a header field where the packet leaves the network. The value has the field's type, or is the field's
    /// bits if the field is a [`Field`]. `vlan_vid` takes a VLAN id (a tag is pushed if the packet has none), or 0 to
    /// remove the tag. `vlan_pcp` needs a tag: the packet's, or that of a `vlan_vid` in the same route.
    ///
    /// ```
    /// use maple_core::Route;
    /// use maple_wire::{Field, PortNo};
    ///
    /// assert_eq!(Route::to([PortNo(2)]).set(Field::VlanVid, 10).to_string(), "to 2 set vlan_vid=10");
    /// ```
    pub fn set<F: RewrittenField>(mut self, field: F, value: F::Value) -> Route {
        let (field, bits) = field.with_bits(value);
        for treatment in self.treatments() {
            treatment.rewrites.insert(field, bits);
        }
        self
    }

    /// Sends the packet through this queue of the egress ports.
    ///
    /// ```
    /// use maple_core::Route;
    /// use maple_wire::PortNo;
    ///
    /// assert_eq!(Route::to([PortNo(2)]).queue(1).to_string(), "to 2 queue 1");
    /// ```
    pub fn queue(mut self, queue: u32) -> Route {
        self.treatments().for_each(|treatment| treatment.queue = Some(queue));
        self
    }

    /// Adds a copy of the packet to an edge port: a mirror. The copy is treated as the route's first branch treats the
    /// packet. It leaves the route at the switch nearest to the port. There is no copy if no path leads there, or if
    /// the packet came in there.
    ///
    /// ```
    /// use maple_core::{Location, Route};
    /// use maple_wire::{Dpid, PortNo};
    ///
    /// let mirrored = Route::to([PortNo(2)]).copy_to(Location::new(Dpid(3), PortNo(1)));
    /// assert!(mirrored.to_string().starts_with("to 2 and "));
    /// ```
    pub fn copy_to(mut self, place: Location) -> Route {
        let first = || self.branches.first().map(|branch| branch.treatment.clone());
        let treatment = self.passes.clone().or_else(first).unwrap_or_default();
        self.branches.push(Branch { copy_to: Some(place), treatment, ..Branch::default() });
        self
    }

    /// Sends the packet through the meter of this number, which must exist at the ingress switch (OpenFlow 1.3).
    ///
    /// ```
    /// use maple_core::Route;
    ///
    /// assert!(Route::flood().meter(1).to_string().ends_with(" meter 1"));
    /// ```
    pub fn meter(mut self, meter: u32) -> Route {
        self.meter = Some(Meter::Number(meter));
        self
    }

    /// Puts the packet under this limit at the switch where packets enter (OpenFlow 1.3). Maple makes the meter, and
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
    pub fn limit(mut self, limit: Limit) -> Route {
        self.meter = Some(Meter::Limit(Arc::new(limit)));
        self
    }

    /// Records the line of f that made the route, for bindings that know their own source lines.
    ///
    /// ```
    /// use maple_core::{Route, Source};
    ///
    /// let route = Route::flood().from_line(Some(Source::new("policy.py", 7)));
    /// assert_eq!(route.made_at().unwrap().to_string(), "policy.py:7");
    /// ```
    #[doc(hidden)]
    pub fn from_line(mut self, made_at: Option<Source>) -> Route {
        self.made_at = made_at;
        self
    }

    /// Creates the route of this path cell out of `to`, and the record of what f reads of it. `hops` are the path's
    /// hops at the time of the query. `is_there` reports whether the place `to` is there, for a path that leads to its
    /// switch.
    pub(crate) fn path(
        path: &Cell,
        to: Location,
        hops: Option<Arc<[Hop]>>,
        is_there: Option<bool>,
    ) -> (Route, Arc<PathReads>) {
        let reads = Arc::new(PathReads { end: is_there.map(|_| to), ..PathReads::default() });
        let hops = hops.filter(|_| is_there != Some(false));
        let unreachable = hops.is_none();
        let (mut branches, mut found) = (Vec::new(), Vec::new());
        if let Cell::Path { from, costs, within, .. } = path {
            let path = PathTo { from: *from, to, costs: costs.clone(), within: within.clone() };
            branches.push(Branch { path: Some(path.clone()), ..Branch::default() });
            found.push(Found { path, hops, reads: Arc::clone(&reads) });
        }
        (Route { branches, found, unreachable, ..Route::default() }, reads)
    }

    /// Returns the treatments that rewrites and queues of the whole route change. In a route that passes, the
    /// treatments of its copies do not change, because the copies have left already.
    fn treatments(&mut self) -> impl Iterator<Item = &mut Treatment> {
        let passes = self.passes.is_some();
        let of_branches = self.branches.iter_mut().filter(move |_| !passes).map(|branch| &mut branch.treatment);
        of_branches.chain(&mut self.passes)
    }

    fn from_branch(branch: Branch) -> Route {
        Route { branches: vec![branch], ..Route::default() }
    }
}

#[cfg(test)]
mod tests;
