//! Slices: tenants' policies. Each has its own packets, its own part of the network and its own state.

use std::fmt;
use std::sync::Arc;

use maple_core::compose::{Composition, Slice as CoreSlice};
use maple_core::guard::Requirement;
use maple_core::network::{LinkName, Location, Mac};
use maple_core::trace::{Cond, Source};

use super::{Composed, composition};
use crate::guard::{self, HostGroup, RouteConstraint};
use crate::policy::Policy;

/// The reason why slices are refused: two of them have a packet in common, or a name is not allowed.
///
/// ```
/// use maple::prelude::*;
/// use maple::compose::{Slice, SliceError};
///
/// let flood = |_: &Packet, net: &Net| net.flood();
/// let error = maple::compose::slices([Slice::new("a/b", flood)], flood).err();
/// assert_eq!(error, Some(SliceError::Name("a/b".into())));
/// ```
pub use maple_core::compose::SliceError;

/// A tenant of [`slices`]: its name, its policy, its packets, and its part of the network.
///
/// ```
/// use maple::testing::*;
/// use maple::compose::Slice;
/// use maple::field::{Cond, Constraint};
///
/// let web = Cond::default().and(Constraint::exact(Field::TcpDst, 80));
/// let red = Slice::new("red", |_: &Packet, net: &Net| net.flood()).only([web]);
/// let all = maple::compose::slices([red], |_: &Packet, _: &Net| Route::drop())?;
/// let bench = Bench::new().switch(1, 1..=2);
/// let exits = |port| bench.decide(&all, &tcp(1024, port), bench.port(1, 1)).exits().len();
/// assert_eq!((exits(80), exits(22)), (1, 0));
/// # Ok::<(), maple::compose::SliceError>(())
/// ```
#[derive(Clone)]
#[must_use = "a slice does nothing until it is one of `slices`"]
pub struct Slice(CoreSlice<Arc<dyn Policy>>);

impl fmt::Debug for Slice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Slice {}", self.0.name())
    }
}

impl Slice {
    /// Creates a slice of all packets, with the whole network.
    ///
    /// ```
    /// use maple::prelude::*;
    ///
    /// let everything = maple::compose::Slice::new("everything", |_: &Packet, net: &Net| net.flood());
    /// assert_eq!(format!("{everything:?}"), "Slice everything");
    /// ```
    pub fn new(name: &str, policy: impl Policy + 'static) -> Slice {
        Slice(CoreSlice::new(name, composition(policy)))
    }

    /// Restricts the slice to packets that fit one of these conditions.
    ///
    /// ```
    /// use maple::prelude::*;
    /// use maple::compose::Slice;
    /// use maple::field::{Cond, Constraint};
    ///
    /// let to = |port| Cond::default().and(Constraint::exact(Field::TcpDst, port));
    /// let flood = |_: &Packet, net: &Net| net.flood();
    /// let (web, ssh) = (Slice::new("web", flood).only([to(80), to(443)]), Slice::new("ssh", flood).only([to(22)]));
    /// assert!(maple::compose::slices([web, ssh], flood).is_ok(), "no packet belongs to both");
    /// ```
    pub fn only(self, conditions: impl IntoIterator<Item = Cond>) -> Slice {
        Slice(self.0.only(conditions))
    }

    /// Restricts the slice to these edge ports: its packets enter there, and it sends to no other port.
    ///
    /// ```
    /// use maple::testing::*;
    ///
    /// let bench = Bench::new().switch(1, 1..=3);
    /// let red = maple::compose::Slice::new("red", |_: &Packet, net: &Net| net.flood());
    /// let red = red.ports([bench.port(1, 1), bench.port(1, 2)]);
    /// let all = maple::compose::slices([red], |_: &Packet, _: &Net| Route::pass())?;
    /// assert_eq!(bench.decide(&all, &tcp(1024, 80), bench.port(1, 1)).exits(), [bench.port(1, 2)]);
    /// # Ok::<(), maple::compose::SliceError>(())
    /// ```
    pub fn ports(self, ports: impl IntoIterator<Item = Location>) -> Slice {
        Slice(self.0.ports(ports))
    }

    /// Restricts the hosts that the slice sees to these.
    ///
    /// ```
    /// use maple::testing::*;
    ///
    /// // The policy answers with the number of hosts that it sees.
    /// let count = |_: &Packet, net: &Net| Route::to([PortNo(net.hosts().len() as u32)]);
    /// let bench = Bench::new().switch(1, 1..=3);
    /// let (a, b) = (bench.port(1, 2), bench.port(1, 3));
    /// let bench = bench.host("00:00:00:00:00:01", a).host("00:00:00:00:00:02", b);
    /// let red = maple::compose::Slice::new("red", count).hosts([Mac([0, 0, 0, 0, 0, 1])]);
    /// let all = maple::compose::slices([red], |_: &Packet, _: &Net| Route::drop())?;
    /// assert_eq!(bench.decide(&all, &tcp(1024, 80), a).exits(), [bench.port(1, 1)]);
    /// # Ok::<(), maple::compose::SliceError>(())
    /// ```
    pub fn hosts(self, hosts: impl IntoIterator<Item = Mac>) -> Slice {
        Slice(self.0.hosts(hosts))
    }

    /// Restricts the links that the slice's packets take to these, in both directions. A port names the link at it, and
    /// two switches name all links between them.
    ///
    /// ```
    /// use maple::testing::*;
    /// use maple::net::LinkName;
    ///
    /// let bench = Bench::new().switch(1, 1..=2).switch(2, 1..=2).link((1, 2), (2, 2));
    /// let (a, b) = (bench.port(1, 1), bench.port(2, 1));
    /// let across = move |_: &Packet, net: &Net| net.shortest_path(a, b);
    /// let exits = |link| {
    ///     let red = maple::compose::Slice::new("red", across).links([link]);
    ///     let all = maple::compose::slices([red], |_: &Packet, _: &Net| Route::drop())?;
    ///     Ok::<_, maple::compose::SliceError>(bench.decide(&all, &tcp(1024, 80), a).exits())
    /// };
    /// assert_eq!(exits(LinkName::Switches(Dpid(1), Dpid(2)))?, [b]);
    /// assert_eq!(exits(LinkName::Switches(Dpid(1), Dpid(3)))?, [], "the slice does not have the link that is there");
    /// # Ok::<(), maple::compose::SliceError>(())
    /// ```
    pub fn links(self, links: impl IntoIterator<Item = LinkName>) -> Slice {
        Slice(self.0.links(links))
    }

    /// Creates a constraint: packets from `src` take the slice's links only, and leave by its edge ports. They need not
    /// be packets of the slice.
    ///
    /// ```
    /// use maple::guard::HostGroup;
    /// use maple::testing::*;
    ///
    /// let bench = Bench::new().switch(1, 1..=3);
    /// let flood = |_: &Packet, net: &Net| net.flood();
    /// let lab = maple::compose::Slice::new("lab", flood).ports([bench.port(1, 1), bench.port(1, 2)]);
    /// let inside = flood.guarded([lab.only_within(&HostGroup::place((1, 1)))]);
    /// assert!(bench.decide(&inside, &tcp(1024, 80), bench.port(1, 1)).exits().is_empty(), "the flood leaves by port 3");
    /// ```
    #[track_caller]
    pub fn only_within(&self, src: &HostGroup) -> RouteConstraint {
        let scope = self.0.scope().clone();
        guard::with_requirement("only_within", Requirement::OnlyWithinScope { scope, src: src.core() })
    }
}

/// Gives each packet to the policy of the slice that it belongs to, or else to `otherwise`. No packet may belong to
/// two.
///
/// A slice's policy sees only its own edge ports, hosts and links, and a route that leaves them is an error. Tables,
/// variables, counters and link costs are the slice's own: the table `limits` of the slice `red` is `red/limits`
/// everywhere else. A name of link costs that the slice does not have means the network's costs.
///
/// ```
/// use maple::prelude::*;
/// use maple::compose::Slice;
/// use maple::field::{Cond, Constraint};
///
/// let vlan = |id: u128| Cond::default().and(Constraint::exact(Field::VlanVid, 0x1000 | id));
/// let flood = |_: &Packet, net: &Net| net.flood();
/// let red = Slice::new("red", flood).only([vlan(10)]);
/// let blue = Slice::new("blue", flood).only([vlan(20)]);
/// let network = maple::compose::slices([red.clone(), blue], |_: &Packet, _: &Net| Route::pass())?;
///
/// let green = Slice::new("green", flood).only([vlan(10)]);
/// let error = maple::compose::slices([red, green], flood).unwrap_err().to_string();
/// assert!(error.starts_with("the slices \"red\" and \"green\" overlap: vlan_vid=10 fits condition 1"));
/// # Ok::<(), maple::compose::SliceError>(())
/// ```
///
/// # Errors
/// [`SliceError`] if two slices have a packet in common, which the error names, or if a name is not allowed.
#[track_caller]
pub fn slices(
    slices: impl IntoIterator<Item = Slice>,
    otherwise: impl Policy + 'static,
) -> Result<Composed, SliceError> {
    let slices = slices.into_iter().map(|slice| slice.0);
    Composition::slices(slices, composition(otherwise), Some(Source::here())).map(Composed)
}
