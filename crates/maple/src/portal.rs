//! Constraints on the routes of a policy, checked before a route reaches a switch.
//!
//! ```
//! use maple::portal::{Group, isolate, max_hops};
//! use maple::prelude::*;
//! use maple::testing::{Bench, tcp};
//!
//! let lab = Group::place((1, 1));
//! let office = Group::place((1, 2));
//! let policy = (|_: &Packet, net: &Net| net.flood()).guarded([isolate(&lab, &office), max_hops(3, &Group::all())]);
//!
//! let bench = Bench::new().switch(1, 1..=3);
//! assert!(bench.decide(&policy, &tcp(1024, 80), bench.port(1, 1)).exits().is_empty());
//! assert_eq!(bench.decide(&policy, &tcp(1024, 80), bench.port(1, 3)).exits(), [bench.port(1, 1), bench.port(1, 2)]);
//! ```

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use maple_core::network::{LinkName, Location, Mac};
use maple_core::policy::PolicyError;
use maple_core::portal::{Constraint as CoreConstraint, Group as CoreGroup, Member, Rule};
use maple_core::route::Route;
use maple_core::state::Table;
use maple_core::trace::{Cond, Source};
use maple_wire::{Dpid, PortNo};

use crate::net::Net;
use crate::packet::Packet;
use crate::policy::Policy;

/// ```
/// use maple::portal::{Group, constraint};
/// use maple::prelude::*;
///
/// let near = constraint("near", |_, route, _| {
///     let far = route.deliveries.iter().find(|delivery| delivery.path.len() > 2);
///     far.map_or(Ok(()), |delivery| Err(format!("{} is far", delivery.at)))
/// });
/// ```
#[doc(inline)]
pub use maple_core::route::{Delivery, RouteView};

/// A condition on every route of a policy, for [`Compose::guarded`](crate::Compose::guarded).
///
/// ```
/// use maple::portal::{Constraint, Group, avoid, max_hops};
/// use maple::{Dpid, LinkName};
///
/// let all: [Constraint; 2] = [max_hops(4, &Group::all()), avoid(LinkName::Switches(Dpid(1), Dpid(2)), &Group::all())];
/// ```
#[derive(Clone)]
pub struct Constraint(pub(crate) CoreConstraint<Arc<dyn Policy>>);

impl fmt::Debug for Constraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.name())
    }
}

/// The hosts or packets that a constraint is about. A member sends the packets that come from its address or place, and
/// gets those that are addressed to it or delivered at its place.
///
/// ```
/// use maple::portal::Group;
///
/// let staff = Group::hosts("10.0.1.0".parse().unwrap(), 24).and(Group::mac("00:00:00:00:00:05".parse().unwrap()));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Group(Vec<Member>);

impl Group {
    /// Creates the group of all hosts and packets.
    ///
    /// ```
    /// let anybody = maple::portal::Group::all();
    /// ```
    pub fn all() -> Group {
        Group::fits(Cond::default())
    }

    /// Creates the group of the host with this address.
    ///
    /// ```
    /// let printer = maple::portal::Group::mac("00:00:00:00:00:05".parse().unwrap());
    /// ```
    pub fn mac(mac: Mac) -> Group {
        Group(vec![Member::Mac(mac)])
    }

    /// Creates the group of hosts whose IP addresses agree with this one in the first `length` bits. A length beyond
    /// the address's width means all of its bits.
    ///
    /// ```
    /// let guests = maple::portal::Group::hosts("10.0.9.0".parse().unwrap(), 24);
    /// ```
    pub fn hosts(network: IpAddr, length: u8) -> Group {
        Group(vec![Member::Ip(network, length)])
    }

    /// Creates the group of hosts at an edge port, given as a location or as a pair of switch and port.
    ///
    /// ```
    /// use maple::portal::Group;
    /// use maple::{Dpid, Location, PortNo};
    ///
    /// assert_eq!(Group::place((1, 4)), Group::place(Location::new(Dpid(1), PortNo(4))));
    /// ```
    pub fn place(at: impl Into<Place>) -> Group {
        Group(vec![Member::Place(at.into().0)])
    }

    /// Creates the group of packets that fit a condition, whichever host sends or gets them.
    ///
    /// ```
    /// use maple::portal::Group;
    /// use maple::{Cond, Constraint, Field};
    ///
    /// let web = Group::fits(Cond::default().and(Constraint::exact(Field::TcpDst, 80)));
    /// ```
    pub fn fits(cond: Cond) -> Group {
        Group(vec![Member::Fits(cond)])
    }

    /// Returns the union of both groups.
    ///
    /// ```
    /// use maple::portal::Group;
    ///
    /// let two_ports = Group::place((1, 4)).and(Group::place((1, 5)));
    /// ```
    #[must_use]
    pub fn and(mut self, other: Group) -> Group {
        self.0.extend(other.0);
        self
    }

    pub(crate) fn core(&self) -> CoreGroup {
        CoreGroup::new(self.0.iter().cloned())
    }
}

/// A port of a switch, in the form that constraints accept.
///
/// ```
/// use maple::portal::Place;
///
/// let place: Place = (1, 4).into();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(Location);

impl From<Location> for Place {
    fn from(at: Location) -> Place {
        Place(at)
    }
}

impl From<(u64, u32)> for Place {
    fn from((switch, port): (u64, u32)) -> Place {
        Place(Location::new(Dpid(switch), PortNo(port)))
    }
}

/// Requires that packets from `src` pass one of these switches before they are delivered to `dst`.
///
/// ```
/// use maple::portal::{Group, waypoint};
///
/// let inspected = waypoint(&Group::place((1, 4)), &Group::all(), [3]);
/// ```
#[track_caller]
pub fn waypoint(src: &Group, dst: &Group, via: impl IntoIterator<Item = u64>) -> Constraint {
    let via = via.into_iter().map(Dpid).collect();
    of("waypoint", Rule::Waypoint { src: src.core(), dst: dst.core(), via })
}

/// Forbids that a packet from a member of one group, or a copy of it, is addressed or delivered to a member of the
/// other.
///
/// ```
/// use maple::portal::{Group, isolate};
///
/// let apart = isolate(&Group::hosts("10.0.9.0".parse().unwrap(), 24), &Group::place((1, 4)));
/// ```
#[track_caller]
pub fn isolate(a: &Group, b: &Group) -> Constraint {
    of("isolate", Rule::Isolate(a.core(), b.core()))
}

/// Forbids that packets from `src` leave by this port, which is an edge port or one end of a link.
///
/// ```
/// use maple::portal::{Group, never};
///
/// let shut = never((1, 3), &Group::hosts("10.0.9.0".parse().unwrap(), 24));
/// ```
#[track_caller]
pub fn never(port: impl Into<Place>, src: &Group) -> Constraint {
    of("never", Rule::Never { port: port.into().0, src: src.core() })
}

/// Requires that packets from `of_` pass at most `most` switches on their way to each place.
///
/// ```
/// use maple::portal::{Group, max_hops};
///
/// let short = max_hops(4, &Group::all());
/// ```
#[track_caller]
pub fn max_hops(most: usize, of_: &Group) -> Constraint {
    of("max_hops", Rule::MaxHops { most, of: of_.core() })
}

/// Forbids that packets from `of_` take this link, in either direction.
///
/// ```
/// use maple::portal::{Group, avoid};
/// use maple::{Dpid, LinkName};
///
/// let around = avoid(LinkName::Switches(Dpid(1), Dpid(2)), &Group::all());
/// ```
#[track_caller]
pub fn avoid(link: LinkName, of_: &Group) -> Constraint {
    of("avoid", Rule::Avoid { link, of: of_.core() })
}

/// Requires that packets from `of_` pass these switches only.
///
/// ```
/// use maple::portal::{Group, only_within};
///
/// let inside = only_within([1, 2, 3], &Group::hosts("10.0.1.0".parse().unwrap(), 24));
/// ```
#[track_caller]
pub fn only_within(switches: impl IntoIterator<Item = u64>, of_: &Group) -> Constraint {
    let switches = switches.into_iter().map(Dpid).collect();
    of("only_within", Rule::OnlyWithin { switches, of: of_.core() })
}

/// Forbids that packets from `of_` take a link on which more is reserved than it can carry. The table maps the sending
/// end of a link to bits per second. Only `link` counts, or every link if it is `None`. `capacity` is in bits per
/// second; without it, the capacity that the switches report counts. A link that has reservations but no known capacity
/// is refused.
///
/// ```
/// use maple::portal::{Group, no_overload};
/// use maple::prelude::*;
///
/// let reserved: Table<Location, u64> = Table::new("reserved");
/// let fair = no_overload(&reserved, None, Some(1_000_000_000), &Group::all());
/// ```
#[track_caller]
pub fn no_overload(
    reserved: &Table<Location, u64>,
    link: Option<LinkName>,
    capacity: Option<u64>,
    of_: &Group,
) -> Constraint {
    of("no_overload", Rule::NoOverload { reserved: reserved.name().into(), link, capacity, of: of_.core() })
}

/// Creates a constraint of your own: `judge` allows the route, or returns why not. The function is traced like a
/// policy. If it panics, the packet is dropped.
///
/// ```
/// use maple::portal::constraint;
/// use maple::prelude::*;
/// use maple::testing::{Bench, tcp};
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
pub fn constraint<F>(name: &str, judge: F) -> Constraint
where
    F: Fn(&Packet, &RouteView, &Net) -> Result<(), String> + Send + Sync + 'static,
{
    let own: Arc<dyn Policy> = Arc::new(Own(judge));
    Constraint(CoreConstraint::new(name, Some(Source::here()), Rule::Own(own)))
}

/// Creates the constraint with this rule. Its source line is that of the caller's caller.
#[track_caller]
pub(crate) fn of(name: &str, rule: Rule<Arc<dyn Policy>>) -> Constraint {
    Constraint(CoreConstraint::new(name, Some(Source::here()), rule))
}

/// Adapts a function of packet, route and network to the form that compositions call.
struct Own<F>(F);

impl<F> Policy for Own<F>
where
    F: Fn(&Packet, &RouteView, &Net) -> Result<(), String> + Send + Sync,
{
    fn decide(&self, pkt: &Packet, net: &Net) -> Result<Route, PolicyError> {
        let view = pkt.handle().judged_route().unwrap_or_default();
        (self.0)(pkt, &view, net).map_err(|why| PolicyError::Violates(why.into()))?;
        Ok(Route::pass())
    }
}
