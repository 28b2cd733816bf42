//! Constraints on the routes of a policy, checked before a route reaches a switch.
//!
//! ```
//! use maple::guard::{HostGroup, isolate, max_hops};
//! use maple::testing::*;
//!
//! let lab = HostGroup::place((1, 1));
//! let office = HostGroup::place((1, 2));
//! let policy = (|_: &Packet, net: &Net| net.flood()).guarded([isolate(&lab, &office), max_hops(3, &HostGroup::all())]);
//!
//! let bench = Bench::new().switch(1, 1..=3);
//! assert!(bench.decide(&policy, &tcp(1024, 80), bench.port(1, 1)).exits().is_empty());
//! assert_eq!(bench.decide(&policy, &tcp(1024, 80), bench.port(1, 3)).exits(), [bench.port(1, 1), bench.port(1, 2)]);
//! ```

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use maple_core::guard::{HostGroup as CoreHostGroup, Member, Requirement, RouteConstraint as CoreConstraint};
use maple_core::network::{LinkName, Location, Mac};
use maple_core::policy::PolicyError;
use maple_core::route::Route;
use maple_core::state::Table;
use maple_core::trace::{Cond, Source};
use maple_wire::Dpid;

use crate::field::Address;
use crate::field::Prefix;
use crate::net::Net;
use crate::packet::Packet;
use crate::policy::Policy;

/// The parts of a route that a guard sees.
///
/// ```
/// use maple::guard::constraint;
/// use maple::testing::*;
///
/// let near = constraint("near", |_, route, _| {
///     let far = route.deliveries.iter().find(|delivery| delivery.path.len() > 1);
///     far.map_or(Ok(()), |delivery| Err(format!("{} is far", delivery.at)))
/// });
/// let bench = Bench::new().switch(1, 1..=2).switch(2, 1..=2).link((1, 2), (2, 2));
/// let policy = (|_: &Packet, net: &Net| net.flood()).guarded([near]);
/// assert!(bench.decide(&policy, &tcp(1024, 80), bench.port(1, 1)).exits().is_empty());
/// ```
#[doc(inline)]
pub use maple_core::route::{Delivery, RouteView};

/// A condition on every route of a policy, for [`Compose::guarded`](crate::compose::Compose::guarded).
///
/// ```
/// use maple::guard::{HostGroup, RouteConstraint, avoid, max_hops};
/// use maple::net::{Dpid, LinkName};
///
/// let all = HostGroup::all();
/// let both: [RouteConstraint; 2] = [max_hops(4, &all), avoid(LinkName::Switches(Dpid(1), Dpid(2)), &all)];
/// assert!(format!("{both:?}").contains("max_hops"));
/// ```
#[derive(Clone)]
#[must_use = "a constraint judges nothing until a policy is guarded by it"]
pub struct RouteConstraint(pub(crate) CoreConstraint<Arc<dyn Policy>>);

impl fmt::Debug for RouteConstraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.name())
    }
}

/// The hosts or packets that a constraint is about. A member sends the packets that come from its address or place, and
/// gets those that are addressed to it or delivered at its place.
///
/// ```
/// use std::net::Ipv4Addr;
///
/// use maple::guard::HostGroup;
/// use maple::field::Prefix;
/// use maple::net::Mac;
///
/// let staff: Prefix<Ipv4Addr> = "10.0.1.0/24".parse()?;
/// let group = HostGroup::hosts(staff).or(HostGroup::mac(Mac([0, 0, 0, 0, 0, 5])));
/// assert_ne!(group, HostGroup::hosts(staff));
/// # Ok::<(), maple::field::PrefixError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct HostGroup(Vec<Member>);

impl HostGroup {
    /// Creates the group of all hosts and packets.
    ///
    /// ```
    /// use maple::field::Cond;
    /// use maple::guard::HostGroup;
    ///
    /// assert_eq!(HostGroup::all(), HostGroup::fits(Cond::default()));
    /// ```
    pub fn all() -> HostGroup {
        HostGroup::fits(Cond::default())
    }

    /// Creates the group of the host with this address.
    ///
    /// ```
    /// use maple::guard::{HostGroup, isolate};
    /// use maple::testing::*;
    ///
    /// let [a, b] = [1, 2].map(|number| HostGroup::mac(Mac([0, 0, 0, 0, 0, number])));
    /// let policy = (|_: &Packet, net: &Net| net.flood()).guarded([isolate(&a, &b)]);
    /// let bench = Bench::new().switch(1, 1..=2);
    /// let decision = bench.decide(&policy, &tcp(1024, 80), bench.port(1, 1));
    /// assert!(decision.exits().is_empty(), "the packet is from one to the other");
    /// ```
    pub fn mac(mac: Mac) -> HostGroup {
        HostGroup(vec![Member::Mac(mac)])
    }

    /// Creates the group of hosts with IP addresses in a prefix.
    ///
    /// ```
    /// use std::net::Ipv4Addr;
    ///
    /// use maple::field::Prefix;
    /// use maple::guard::{HostGroup, max_hops};
    /// use maple::testing::*;
    ///
    /// let bench = Bench::new().switch(1, 1..=2);
    /// let exits = |senders: Prefix<Ipv4Addr>| {
    ///     let policy = (|_: &Packet, net: &Net| net.flood()).guarded([max_hops(0, &HostGroup::hosts(senders))]);
    ///     bench.decide(&policy, &tcp(1024, 80), bench.port(1, 1)).exits().len()
    /// };
    /// assert_eq!((exits("10.0.0.0/24".parse()?), exits("10.0.9.0/24".parse()?)), (0, 1), "10.0.0.1 sends");
    /// # Ok::<(), maple::field::PrefixError>(())
    /// ```
    pub fn hosts<T: Address + Into<IpAddr>>(prefix: Prefix<T>) -> HostGroup {
        HostGroup(vec![Member::Ip(prefix.address().into(), prefix.length())])
    }

    /// Creates the group of hosts at an edge port, given as a location or as a pair of switch and port.
    ///
    /// ```
    /// use maple::guard::HostGroup;
    /// use maple::net::{Dpid, Location, PortNo};
    ///
    /// assert_eq!(HostGroup::place((1, 4)), HostGroup::place(Location::new(Dpid(1), PortNo(4))));
    /// ```
    pub fn place(at: impl Into<Location>) -> HostGroup {
        HostGroup(vec![Member::Place(at.into())])
    }

    /// Creates the group of packets that fit a condition, whichever host sends or gets them.
    ///
    /// ```
    /// use maple::guard::{HostGroup, never};
    /// use maple::testing::*;
    /// use maple::field::{Cond, Constraint};
    ///
    /// let web = HostGroup::fits(Cond::default().and(Constraint::exact(Field::TcpDst, 80)));
    /// let policy = (|_: &Packet, net: &Net| net.flood()).guarded([never((1, 2), &web)]);
    /// let bench = Bench::new().switch(1, 1..=2);
    /// let exits = |port| bench.decide(&policy, &tcp(1024, port), bench.port(1, 1)).exits().len();
    /// assert_eq!((exits(80), exits(22)), (0, 1));
    /// ```
    pub fn fits(cond: Cond) -> HostGroup {
        HostGroup(vec![Member::Fits(cond)])
    }

    /// Returns the union of both groups: who is in one of them or in both.
    ///
    /// ```
    /// use maple::guard::{HostGroup, max_hops};
    /// use maple::testing::*;
    ///
    /// let two_ports = HostGroup::place((1, 1)).or(HostGroup::place((1, 2)));
    /// let policy = (|_: &Packet, net: &Net| net.flood()).guarded([max_hops(0, &two_ports)]);
    /// let bench = Bench::new().switch(1, 1..=3);
    /// assert_eq!([1, 2, 3].map(|port| bench.decide(&policy, &tcp(1, 2), bench.port(1, port)).exits().len()), [0, 0, 2]);
    /// ```
    pub fn or(mut self, other: HostGroup) -> HostGroup {
        self.0.extend(other.0);
        self
    }

    pub(crate) fn core(&self) -> CoreHostGroup {
        CoreHostGroup::new(self.0.iter().cloned())
    }
}

/// Requires that packets from `src` pass one of these switches before they are delivered to `dst`.
///
/// ```
/// use maple::guard::{HostGroup, waypoint};
/// use maple::testing::*;
///
/// let bench = Bench::new().switch(1, 1..=2).switch(2, 1..=2).link((1, 2), (2, 2));
/// let (a, b) = (bench.port(1, 1), bench.port(2, 1));
/// let across = move |_: &Packet, net: &Net| net.shortest_path(a, b);
/// let by = |switch: u64| across.guarded([waypoint(&HostGroup::place((1, 1)), &HostGroup::all(), [switch])]);
/// assert_eq!(bench.decide(&by(2), &tcp(1024, 80), a).exits(), [b]);
/// assert!(bench.decide(&by(3), &tcp(1024, 80), a).exits().is_empty());
/// ```
#[track_caller]
pub fn waypoint(src: &HostGroup, dst: &HostGroup, via: impl IntoIterator<Item = impl Into<Dpid>>) -> RouteConstraint {
    let via = via.into_iter().map(Into::into).collect();
    with_requirement("waypoint", Requirement::Waypoint { src: src.core(), dst: dst.core(), via })
}

/// Forbids that a packet from a member of one group, or a copy of it, is addressed or delivered to a member of the
/// other.
///
/// ```
/// use std::net::Ipv4Addr;
///
/// use maple::field::Prefix;
/// use maple::guard::{HostGroup, isolate};
/// use maple::testing::*;
///
/// let guests: Prefix<Ipv4Addr> = "10.0.0.0/24".parse()?;
/// let apart = isolate(&HostGroup::hosts(guests), &HostGroup::place((1, 2)));
/// let policy = (|_: &Packet, net: &Net| net.flood()).guarded([apart]);
/// let bench = Bench::new().switch(1, 1..=3);
/// assert!(bench.decide(&policy, &tcp(1024, 80), bench.port(1, 1)).exits().is_empty());
/// # Ok::<(), maple::field::PrefixError>(())
/// ```
#[track_caller]
pub fn isolate(a: &HostGroup, b: &HostGroup) -> RouteConstraint {
    with_requirement("isolate", Requirement::Isolate(a.core(), b.core()))
}

/// Forbids that packets from `src` leave by this port, which is an edge port or one end of a link.
///
/// ```
/// use maple::guard::{HostGroup, never};
/// use maple::testing::*;
///
/// let policy = (|_: &Packet, net: &Net| net.flood()).guarded([never((1, 3), &HostGroup::all())]);
/// let bench = Bench::new().switch(1, 1..=3);
/// assert!(bench.decide(&policy, &tcp(1024, 80), bench.port(1, 1)).exits().is_empty());
/// assert_eq!(bench.decide(&policy, &tcp(1024, 80), bench.port(1, 3)).exits().len(), 2);
/// ```
#[track_caller]
pub fn never(port: impl Into<Location>, src: &HostGroup) -> RouteConstraint {
    with_requirement("never", Requirement::Never { port: port.into(), src: src.core() })
}

/// Requires that packets from `src` pass at most `max` switches on their way to each place.
///
/// ```
/// use maple::guard::{HostGroup, max_hops};
/// use maple::testing::*;
///
/// let bench = Bench::new().switch(1, 1..=2).switch(2, 1..=2).link((1, 2), (2, 2));
/// let (a, b) = (bench.port(1, 1), bench.port(2, 1));
/// let across = move |_: &Packet, net: &Net| net.shortest_path(a, b);
/// let within = |hops| across.guarded([max_hops(hops, &HostGroup::all())]);
/// assert_eq!(bench.decide(&within(2), &tcp(1024, 80), a).exits(), [b]);
/// assert!(bench.decide(&within(1), &tcp(1024, 80), a).exits().is_empty());
/// ```
#[track_caller]
pub fn max_hops(max: usize, src: &HostGroup) -> RouteConstraint {
    with_requirement("max_hops", Requirement::MaxHops { max, src: src.core() })
}

/// Forbids that packets from `src` take this link, in either direction.
///
/// ```
/// use maple::guard::{HostGroup, avoid};
/// use maple::testing::*;
/// use maple::net::LinkName;
///
/// let bench = Bench::new().switch(1, 1..=2).switch(2, 1..=2).link((1, 2), (2, 2));
/// let (a, b) = (bench.port(1, 1), bench.port(2, 1));
/// let across = move |_: &Packet, net: &Net| net.shortest_path(a, b);
/// let around = across.guarded([avoid(LinkName::Switches(Dpid(1), Dpid(2)), &HostGroup::all())]);
/// assert!(bench.decide(&around, &tcp(1024, 80), a).exits().is_empty());
/// ```
#[track_caller]
pub fn avoid(link: LinkName, src: &HostGroup) -> RouteConstraint {
    with_requirement("avoid", Requirement::Avoid { link, src: src.core() })
}

/// Requires that packets from `src` pass these switches only.
///
/// ```
/// use maple::guard::{HostGroup, only_within};
/// use maple::testing::*;
///
/// let bench = Bench::new().switch(1, 1..=2).switch(2, 1..=2).link((1, 2), (2, 2));
/// let (a, b) = (bench.port(1, 1), bench.port(2, 1));
/// let across = move |_: &Packet, net: &Net| net.shortest_path(a, b);
/// let within = |switches: &[u64]| across.guarded([only_within(switches.iter().copied(), &HostGroup::all())]);
/// assert_eq!(bench.decide(&within(&[1, 2]), &tcp(1024, 80), a).exits(), [b]);
/// assert!(bench.decide(&within(&[1]), &tcp(1024, 80), a).exits().is_empty());
/// ```
#[track_caller]
pub fn only_within(switches: impl IntoIterator<Item = impl Into<Dpid>>, src: &HostGroup) -> RouteConstraint {
    let switches = switches.into_iter().map(Into::into).collect();
    with_requirement("only_within", Requirement::OnlyWithin { switches, src: src.core() })
}

/// Forbids that packets from `src` take a link on which more is reserved than it can carry. The table maps the sending
/// end of a link to bits per second. Only `link` counts, or every link if it is `None`. `bits_per_second` is what a
/// link can carry; without it, the capacity that the switches report counts. A link that has reservations but no known
/// capacity is refused.
///
/// ```
/// use maple::guard::{HostGroup, no_overload};
/// use maple::testing::*;
///
/// let reserved: Table<Location, u64> = Table::new("reserved");
/// let bench = Bench::new().switch(1, 1..=2).switch(2, 1..=2).link((1, 2), (2, 2));
/// let (a, b, link) = (bench.port(1, 1), bench.port(2, 1), bench.port(1, 2));
/// let across = move |_: &Packet, net: &Net| net.shortest_path(a, b);
/// let fair = across.guarded([no_overload(&reserved, None, Some(1_000_000_000), &HostGroup::all())]);
/// assert_eq!(bench.decide(&fair, &tcp(1024, 80), a).exits(), [b]);
/// let bench = bench.with_state(|tx| reserved.set(tx, &link, &2_000_000_000));
/// assert!(bench.decide(&fair, &tcp(1024, 80), a).exits().is_empty());
/// ```
#[track_caller]
pub fn no_overload(
    reserved: &Table<Location, u64>,
    link: Option<LinkName>,
    bits_per_second: Option<u64>,
    src: &HostGroup,
) -> RouteConstraint {
    with_requirement(
        "no_overload",
        Requirement::NoOverload { reserved: reserved.name().into(), link, capacity: bits_per_second, src: src.core() },
    )
}

/// Creates a constraint of your own: `judge` allows the route, or returns why not. The function is traced like a
/// policy. If it panics, the packet is dropped.
///
/// ```
/// use maple::guard::constraint;
/// use maple::testing::*;
///
/// let one_exit = constraint("one_exit", |_, route, _| match route.deliveries.len() {
///     0 | 1 => Ok(()),
///     exits => Err(format!("it leaves by {exits} ports")),
/// });
/// let policy = (|_: &Packet, net: &Net| net.flood()).guarded([one_exit]);
/// let bench = Bench::new().switch(1, 1..=3);
/// assert!(bench.decide(&policy, &tcp(1024, 80), bench.port(1, 1)).exits().is_empty());
/// ```
#[track_caller]
pub fn constraint<F>(name: &str, judge: F) -> RouteConstraint
where
    F: Fn(&Packet, &RouteView, &Net) -> Result<(), String> + Send + Sync + 'static,
{
    let own: Arc<dyn Policy> = Arc::new(CustomConstraint(judge));
    RouteConstraint(CoreConstraint::new(name, Some(Source::here()), Requirement::Custom(own)))
}

/// Creates the constraint with this requirement. Its source line is that of the caller's caller.
#[track_caller]
pub(crate) fn with_requirement(name: &str, requirement: Requirement<Arc<dyn Policy>>) -> RouteConstraint {
    RouteConstraint(CoreConstraint::new(name, Some(Source::here()), requirement))
}

/// Adapts a function of packet, route and network to the form that compositions call.
struct CustomConstraint<F>(F);

impl<F> Policy for CustomConstraint<F>
where
    F: Fn(&Packet, &RouteView, &Net) -> Result<(), String> + Send + Sync,
{
    fn decide(&self, pkt: &Packet, net: &Net) -> Result<Route, PolicyError> {
        let view = pkt.handle().judged_route().unwrap_or_default();
        (self.0)(pkt, &view, net).map_err(|why| PolicyError::Violates(why.into()))?;
        Ok(Route::pass())
    }
}
