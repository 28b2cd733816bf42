//! The network, as one run of a policy sees it.

mod cells;
mod look_up;
mod names;
mod operand;
mod place;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

use maple_core::Net as CoreNet;
use maple_core::policy::PolicyError;
use maple_core::route::Route;
use maple_core::snooping::{Lease, MulticastGroup};
use maple_core::state::Stop;
use maple_core::trace::Source;

pub use names::{
    BadDpid, BadLocation, BadMac, BadPort, Dpid, Hop, HostLocation, LinkName, Load, Location, Mac, PortNo, UTILISATION,
};
pub use operand::Operand;
pub use place::Place;

/// The network, as one run of a policy sees it. Each answer is a dependency: when it changes, the policy decides again
/// the packets that depended on it, and no others.
///
/// Tables, variables and queries also read and write through it: see [`Table`](crate::state::Table).
///
/// ```
/// use maple::testing::*;
///
/// fn shortest(pkt: &Packet, net: &Net) -> Route {
///     let Some(dst) = net.locate(pkt.eth_dst()) else { return net.flood() };
///     net.shortest_path(net.locate(pkt.eth_src()), dst)
/// }
///
/// let bench = Bench::new().switch(1, 1..=2).switch(2, 1..=2);
/// let (a, b) = (bench.port(1, 1), bench.port(2, 1));
/// let bench = bench.link((1, 2), (2, 2)).host("00:00:00:00:00:01", a).host("00:00:00:00:00:02", b);
/// assert_eq!(bench.decide(&shortest, &tcp(1024, 80), a).exits(), [b]);
/// ```
pub struct Net(CoreNet);

/// Records nothing, so it shows nothing that a policy could observe.
impl fmt::Debug for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Net").finish_non_exhaustive()
    }
}

impl Net {
    pub(crate) fn from_handle(net: &CoreNet) -> Net {
        Net(net.clone())
    }

    /// Returns the engine's handle.
    pub(crate) fn handle(&self) -> &CoreNet {
        &self.0
    }

    /// Returns where a host is, or `None` if that is not known. Without host tracking the run fails.
    ///
    /// If the host is named by a packet field and the switch can look it up, the run observes only the location, not
    /// the address. The location of the packet's source is where the packet came in, mostly: its port is read when the
    /// policy asks for it, and a path that starts there needs the switch alone.
    ///
    /// ```
    /// # use maple::prelude::*;
    /// # maple::testing::run(|_, net| {
    /// let at = net.locate(Mac([0, 0, 0, 0, 0, 2])).expect("it is known");
    /// assert_eq!((at.switch(), at.port()), (Dpid(1), PortNo(2)));
    /// # });
    /// ```
    #[track_caller]
    pub fn locate(&self, host: impl Operand<Mac>) -> Option<HostLocation<'_>> {
        match host.as_field() {
            Some(field) => self.0.locate_by(field, Some(Source::here())).ok().flatten(),
            None => self.0.locate(host.operand()?).map(HostLocation::from),
        }
    }

    /// Returns the host that uses an IP address, and where it is. `None` if no such host is known.
    ///
    /// ```
    /// maple::testing::run(|pkt, net| assert_eq!(net.locate_ip(pkt.ipv4_dst()), None));
    /// ```
    #[track_caller]
    pub fn locate_ip(&self, ip: impl Operand<IpAddr>) -> Option<(Mac, Location)> {
        self.0.locate_ip(ip.operand()?)
    }

    /// Reports whether an IP address is that of a host, given by its hardware address: no other host has announced it
    /// since that one did.
    ///
    /// The host that announced an address last owns it. So this stops forgers only where announcements are trusted;
    /// elsewhere use `is_leased`, which checks DHCP leases. With two packet fields as arguments, the run observes only
    /// this answer, as for [`Net::look_up`]: so a guard costs a rule for each address, and no decision for each host.
    ///
    /// ```
    /// use maple::prelude::*;
    ///
    /// fn guard(pkt: &Packet, net: &Net) -> Route {
    ///     if net.is_bound(pkt.eth_src(), pkt.ipv4_src()) { net.flood() } else { Route::drop() }
    /// }
    /// # use maple::testing::{Bench, tcp};
    /// # let bench = Bench::new().switch(1, 1..=2);
    /// # assert!(bench.decide(&guard, &tcp(1024, 80), bench.port(1, 1)).exits().is_empty());
    /// ```
    #[track_caller]
    pub fn is_bound(&self, host: impl Operand<Mac>, ip: impl Operand<IpAddr>) -> bool {
        match (host.as_field(), ip.as_field()) {
            (Some(host), Some(ip)) => self.0.is_bound_by(host, ip, Some(Source::here())),
            _ => host.operand().zip(ip.operand()).is_some_and(|(host, ip)| self.0.is_bound(host, ip)),
        }
    }

    /// Returns the IP addresses of a host, IPv4 before IPv6. `None` if the host is not known.
    ///
    /// ```
    /// maple::testing::run(|pkt, net| assert_eq!(net.addresses(pkt.eth_src()), None));
    /// ```
    #[track_caller]
    pub fn addresses(&self, host: impl Operand<Mac>) -> Option<Vec<IpAddr>> {
        let (ipv4, ipv6) = self.0.host_addresses(host.operand()?)?;
        Some(ipv4.into_iter().map(IpAddr::V4).chain(ipv6.into_iter().map(IpAddr::V6)).collect())
    }

    /// Returns all hosts and where they are, by address: a dependency on each of them.
    ///
    /// ```
    /// maple::testing::run(|_, net| assert_eq!(net.hosts().len(), 1));
    /// ```
    #[track_caller]
    #[must_use]
    pub fn hosts(&self) -> Vec<(Mac, Location)> {
        self.0.hosts()
    }

    /// Returns the datapath ids of all switches, in order.
    ///
    /// ```
    /// # use maple::net::Dpid;
    /// maple::testing::run(|_, net| assert_eq!(net.switches(), [Dpid(1)]));
    /// ```
    #[track_caller]
    #[must_use]
    pub fn switches(&self) -> Vec<Dpid> {
        self.0.switches()
    }

    /// Returns all links, each once, with its lower end first.
    ///
    /// ```
    /// # use maple::testing::Bench;
    /// # let bench = Bench::new().switch(1, 1..=2).switch(2, 1..=2).link((1, 2), (2, 2));
    /// # bench.run(|_, net| {
    /// let [(a, b)] = net.links()[..] else { panic!("there is one link") };
    /// assert_eq!((a.switch.0, b.switch.0), (1, 2));
    /// # });
    /// ```
    #[track_caller]
    #[must_use]
    pub fn links(&self) -> Vec<(Location, Location)> {
        self.0.links()
    }

    /// Returns the edge ports of a switch that are up, in order.
    ///
    /// ```
    /// # use maple::net::PortNo;
    /// maple::testing::run(|pkt, net| assert_eq!(net.edge_ports(pkt.switch()), [PortNo(1), PortNo(2)]));
    /// ```
    #[track_caller]
    #[must_use]
    pub fn edge_ports(&self, switch: impl Into<Dpid>) -> Vec<PortNo> {
        self.0.edge_ports(switch.into())
    }

    /// Reports whether packets can pass a port: its switch reports that link and port are up, and Maple knows what is
    /// behind it, which takes 0.3 s after the port came up. A host stays located at a port that goes down, and paths
    /// still lead there. `None`, a port that does not exist, and a port of a segment that Maple has shut are not up.
    /// Ports of an unreachable switch keep their last state.
    ///
    /// ```
    /// use maple::testing::*;
    ///
    /// /// To the server, or while its port is down to the spare one.
    /// fn to_a_server(_: &Packet, net: &Net) -> Route {
    ///     let server = Location::new(Dpid(1), PortNo(2));
    ///     Route::to([if net.is_up(server) { PortNo(2) } else { PortNo(3) }])
    /// }
    ///
    /// let bench = Bench::new().switch(1, 1..=3);
    /// let (client, server, spare) = (bench.port(1, 1), bench.port(1, 2), bench.port(1, 3));
    /// assert_eq!(bench.decide(&to_a_server, &tcp(1024, 80), client).exits(), [server]);
    /// let bench = bench.set_up(server, false);
    /// assert_eq!(bench.decide(&to_a_server, &tcp(1024, 80), client).exits(), [spare]);
    /// ```
    #[track_caller]
    pub fn is_up(&self, at: impl Place) -> bool {
        at.place().is_some_and(|at| self.0.is_up(at))
    }

    /// Returns the route out of every edge port of the network except the one where the packet entered, along the
    /// spanning tree. Packets that bridges never forward go nowhere
    /// ([`Packet::is_reserved`](crate::Packet::is_reserved)); [`Route::flood_reserved`] floods these too.
    ///
    /// ```
    /// maple::testing::run(|_, net| assert!(net.flood().floods()));
    /// ```
    #[track_caller]
    pub fn flood(&self) -> Route {
        self.0.flood()
    }

    /// Returns the path with the fewest hops from `src`'s switch out of `dst`. It is unreachable if there is no path,
    /// if a place is `None`, or if `dst` is absent: its switch is absent or has no such port, or the port leads to
    /// another switch. A route to an absent place makes the run fail, except as a member of a
    /// [`Route::multicast`](crate::Route::multicast).
    ///
    /// ```
    /// # maple::testing::run(|pkt, net| {
    /// let route = net.shortest_path(net.locate(pkt.eth_src()), net.locate(pkt.eth_dst()));
    /// assert!(route.is_unreachable());
    /// # });
    /// ```
    #[track_caller]
    pub fn shortest_path(&self, src: impl Place, dst: impl Place) -> Route {
        match (src.start(), dst.end()) {
            (Some(src), Some(dst)) => self.0.shortest_path(src, dst),
            _ => Route::unreachable().from_line(Some(Source::here())),
        }
    }

    /// Returns the path of least cost, otherwise as [`Net::shortest_path`]. `cost` names link costs, which
    /// [`App::link_cost`](crate::App::link_cost) sets. A link without a cost of this name costs 1. With
    /// [`UTILISATION`] a link costs 1, and 1 more for each used tenth of its capacity.
    /// If no link has costs of this name, the run fails and its packet is dropped; [`Net::try_path`] returns that as an
    /// error instead.
    ///
    /// ```
    /// use maple::testing::*;
    /// use maple::net::LinkName;
    ///
    /// // Three switches in a ring, with a link from 1 to 2 that costs more than the way over 3.
    /// let bench = Bench::new().switch(1, 1..=3).switch(2, 1..=3).switch(3, 2..=3);
    /// let bench = bench.link((1, 2), (2, 2)).link((1, 3), (3, 2)).link((2, 3), (3, 3));
    /// let (a, b) = (bench.port(1, 1), bench.port(2, 1));
    /// bench.run(|_, net| {
    ///     net.set_cost("secure", LinkName::Switches(Dpid(1), Dpid(2)), 10);
    ///     assert_eq!(net.path(a, b, "secure").explicit_hops().count(), 3);
    ///     assert_eq!(net.shortest_path(a, b).explicit_hops().count(), 2);
    /// });
    /// ```
    #[track_caller]
    pub fn path(&self, src: impl Place, dst: impl Place, cost: &str) -> Route {
        match (src.start(), dst.end()) {
            (Some(src), Some(dst)) => self.0.path(src, dst, cost),
            _ => Route::unreachable().from_line(Some(Source::here())),
        }
    }

    /// Returns the path of least cost, as [`Net::path`], for a name that may have no costs.
    ///
    /// ```
    /// # use maple::policy::PolicyError;
    /// # use maple::testing::Bench;
    /// # let bench = Bench::new().switch(1, 1..=2);
    /// # let (a, b) = (bench.port(1, 1), bench.port(1, 2));
    /// # bench.run(|_, net| {
    /// assert!(matches!(net.try_path(a, b, "secure"), Err(PolicyError::NoSuchCosts { .. })));
    /// # });
    /// ```
    ///
    /// # Errors
    /// [`PolicyError::NoSuchCosts`] if no link has costs of this name. The error is a dependency like any answer,
    /// and the run can continue.
    #[track_caller]
    pub fn try_path(&self, src: impl Place, dst: impl Place, cost: &str) -> Result<Route, PolicyError> {
        let route = match (src.start(), dst.end()) {
            (Some(src), Some(dst)) => self.0.try_path(src, dst, cost)?,
            _ => Route::unreachable(),
        };
        Ok(route.from_line(Some(Source::here())))
    }

    /// Returns the names of link costs, in order.
    ///
    /// ```
    /// maple::testing::run(|_, net| assert!(net.cost_names().is_empty()));
    /// ```
    #[track_caller]
    pub fn cost_names(&self) -> Vec<String> {
        self.0.cost_names().iter().map(ToString::to_string).collect()
    }

    /// Sets the cost named `name` of a link.
    ///
    /// ```
    /// # use maple::net::{Dpid, LinkName};
    /// # maple::testing::run(|_, net| {
    /// net.set_cost("secure", LinkName::Switches(Dpid(1), Dpid(2)), 10);
    /// assert_eq!(net.cost_names(), ["secure"]);
    /// # });
    /// ```
    #[track_caller]
    pub fn set_cost(&self, name: &str, link: LinkName, cost: u64) {
        self.0.set_cost(name, link, cost);
    }

    /// Returns the traffic that a port sends. [`Load::received`] is the traffic that it receives.
    ///
    /// ```
    /// # use maple::testing::Bench;
    /// # let bench = Bench::new().switch(1, 1..=2);
    /// # let at = bench.port(1, 2);
    /// # bench.run(|_, net| {
    /// // From more than 50 Mbit/s on, until it is at most 20 Mbit/s.
    /// let is_busy = net.port_load(at).is_above_mbps(50.0, 20.0);
    /// # assert!(!is_busy);
    /// # });
    /// ```
    #[track_caller]
    #[must_use]
    pub fn port_load(&self, at: impl Into<Location>) -> Load {
        self.0.port_load(at.into())
    }

    /// Returns the traffic from one switch to another over the link between them, or over the busiest of several links.
    ///
    /// ```
    /// maple::testing::run(|_, net| assert_eq!(net.link_load(1, 2).utilisation(), 0.0));
    /// ```
    #[track_caller]
    #[must_use]
    pub fn link_load(&self, from: impl Into<Dpid>, to: impl Into<Dpid>) -> Load {
        self.0.link_load(from.into(), to.into())
    }

    /// Returns the traffic over the link between two ports, from the first to the second.
    ///
    /// ```
    /// # maple::testing::run(|_, net| {
    /// let busy = net.links().into_iter().filter(|(a, b)| net.link_load_at(*a, *b).utilisation() > 0.8);
    /// assert_eq!(busy.count(), 0);
    /// # });
    /// ```
    #[track_caller]
    #[must_use]
    pub fn link_load_at(&self, from: Location, to: Location) -> Load {
        self.0.link_load_at(from, to)
    }

    /// Returns the traffic from one host to another, as counted by rules that match both, at the first host's switch. A
    /// policy that observes both addresses of its packets has such rules. Without host tracking the run fails.
    ///
    /// ```
    /// # maple::testing::run(|pkt, net| {
    /// let is_large = net.traffic(pkt.eth_src(), pkt.eth_dst()).is_above_mbps(50.0, 20.0);
    /// # assert!(!is_large);
    /// # });
    /// ```
    #[track_caller]
    pub fn traffic(&self, from: impl Operand<Mac>, to: impl Operand<Mac>) -> Load {
        match (from.operand(), to.operand()) {
            (Some(from), Some(to)) => self.0.traffic(from, to),
            _ => self.0.no_load(),
        }
    }

    /// Returns the edge ports with members of a multicast group, in order. Without snooping on groups
    /// ([`App::snoop`](crate::App::snoop)) the run fails.
    ///
    /// Of a group that a field of the packet names and that has no members, the run observes that alone, as for
    /// [`Net::has_key`].
    ///
    /// ```
    /// use maple::prelude::*;
    ///
    /// fn to_members(pkt: &Packet, net: &Net) -> Route {
    ///     let Some(src) = net.locate(pkt.eth_src()) else { return net.flood() };
    ///     let members = net.members(pkt.ipv4_dst()).into_iter().filter(|at| *at != src.location());
    ///     Route::multicast(members.map(|at| net.shortest_path(src, at)))
    /// }
    /// # use maple::testing::{Bench, tcp};
    /// # let bench = Bench::new().switch(1, 1..=2);
    /// # let bench = bench.host("00:00:00:00:00:01", Location::new(Dpid(1), PortNo(1)));
    /// let unsnooped = bench.decide(&to_members, &tcp(1024, 80), bench.port(1, 1));
    /// assert!(matches!(unsnooped.error(), Some(PolicyError::NotSnooped(..))));
    /// ```
    #[track_caller]
    pub fn members(&self, group: impl Operand<MulticastGroup>) -> Vec<Location> {
        match group.as_field() {
            Some(field) => self.0.try_members_by(field, Some(Source::here())).unwrap_or_default(),
            None => group.operand().map(|group| self.0.members(group)).unwrap_or_default(),
        }
    }

    /// Returns the DHCP lease of an IPv4 address, or `None`. Without snooping on DHCP the run fails.
    ///
    /// ```
    /// use maple::prelude::*;
    ///
    /// /// Drops what comes from an address that was leased at another port.
    /// fn guard(pkt: &Packet, net: &Net) -> Route {
    ///     let here = Location::new(pkt.switch(), pkt.in_port().get());
    ///     match net.lease(pkt.ipv4_src()) {
    ///         Some(lease) if lease.location == here => net.flood(),
    ///         _ => Route::drop(),
    ///     }
    /// }
    /// # use maple::testing::{Bench, tcp};
    /// # let bench = Bench::new().switch(1, 1..=2);
    /// # let bench = bench.host("00:00:00:00:00:01", Location::new(Dpid(1), PortNo(1)));
    /// let unsnooped = bench.decide(&guard, &tcp(1024, 80), bench.port(1, 1));
    /// assert!(matches!(unsnooped.error(), Some(PolicyError::NotSnooped(..))));
    /// ```
    #[track_caller]
    pub fn lease(&self, ip: impl Operand<Ipv4Addr>) -> Option<Lease> {
        self.0.lease(ip.operand()?)
    }

    /// Returns the newest DHCP lease of a host, or `None`. Without snooping on DHCP the run fails.
    ///
    /// ```
    /// use maple::prelude::*;
    ///
    /// fn only_known(pkt: &Packet, net: &Net) -> Route {
    ///     if net.lease_of(pkt.eth_src()).is_some() { net.flood() } else { Route::drop() }
    /// }
    /// # use maple::testing::{Bench, tcp};
    /// # let bench = Bench::new().switch(1, 1..=2);
    /// # let bench = bench.host("00:00:00:00:00:01", Location::new(Dpid(1), PortNo(1)));
    /// let unsnooped = bench.decide(&only_known, &tcp(1024, 80), bench.port(1, 1));
    /// assert!(matches!(unsnooped.error(), Some(PolicyError::NotSnooped(..))));
    /// ```
    #[track_caller]
    pub fn lease_of(&self, host: impl Operand<Mac>) -> Option<Lease> {
        self.0.lease_of(host.operand()?)
    }

    /// Reports whether DHCP gave an IPv4 address to a host last, given by its hardware address, at the port where the
    /// host is. Without snooping on DHCP the run fails.
    ///
    /// With two packet fields as arguments, the run observes only this answer, as for [`Net::look_up`].
    ///
    /// ```
    /// use maple::prelude::*;
    ///
    /// fn guard(pkt: &Packet, net: &Net) -> Route {
    ///     if net.is_leased(pkt.eth_src(), pkt.ipv4_src()) { net.flood() } else { Route::drop() }
    /// }
    /// # use maple::testing::{Bench, tcp};
    /// # let bench = Bench::new().switch(1, 1..=2);
    /// # let unsnooped = bench.decide(&guard, &tcp(1024, 80), bench.port(1, 1));
    /// # assert!(matches!(unsnooped.error(), Some(PolicyError::NotSnooped(..))));
    /// ```
    #[track_caller]
    pub fn is_leased(&self, host: impl Operand<Mac>, ip: impl Operand<Ipv4Addr>) -> bool {
        match (host.as_field(), ip.as_field()) {
            (Some(host), Some(ip)) => self.0.try_is_leased_by(host, ip, Some(Source::here())).unwrap_or_default(),
            _ => {
                let addresses = host.operand().zip(ip.operand());
                addresses.is_some_and(|(host, ip)| self.0.try_is_leased(host, ip).unwrap_or_default())
            }
        }
    }

    /// Returns all DHCP leases, by IP address: a dependency on each of them. Without snooping on DHCP the run fails.
    ///
    /// ```
    /// use maple::prelude::*;
    ///
    /// fn while_there_is_room(_: &Packet, net: &Net) -> Route {
    ///     if net.leases().len() < 100 { net.flood() } else { Route::drop() }
    /// }
    /// # use maple::testing::{Bench, tcp};
    /// # let bench = Bench::new().switch(1, 1..=2);
    /// # let bench = bench.host("00:00:00:00:00:01", Location::new(Dpid(1), PortNo(1)));
    /// let unsnooped = bench.decide(&while_there_is_room, &tcp(1024, 80), bench.port(1, 1));
    /// assert!(matches!(unsnooped.error(), Some(PolicyError::NotSnooped(..))));
    /// ```
    #[track_caller]
    #[must_use]
    pub fn leases(&self) -> Vec<Lease> {
        self.0.leases()
    }

    /// Sends a frame that the policy made out of an edge port when the run commits, in addition to the route. Because
    /// each such packet must cause a frame, each comes to the controller.
    ///
    /// ```
    /// # use maple::testing::{Bench, tcp};
    /// # let bench = Bench::new().switch(1, 1..=2);
    /// # let at = bench.port(1, 2);
    /// # bench.run(|_, net| {
    /// net.send(tcp(1024, 80), at);
    /// # });
    /// ```
    #[track_caller]
    pub fn send(&self, frame: Vec<u8>, at: Location) {
        self.0.send(frame, at);
    }

    /// Sends a frame that the policy made out of the port where the packet entered, otherwise as [`Net::send`].
    /// [`Route::answer`] is the route that does only this.
    ///
    /// ```
    /// # use maple::testing::{Bench, tcp};
    /// # let bench = Bench::new().switch(1, 1..=2);
    /// # bench.run(|_, net| {
    /// net.reply(tcp(80, 1024));
    /// # });
    /// ```
    #[track_caller]
    pub fn reply(&self, frame: Vec<u8>) {
        self.0.reply(frame);
    }

    /// Runs `f`, whose writes take effect all or not at all. The whole run is one transaction; this marks a part of it
    /// that may fail.
    ///
    /// ```
    /// # use maple::prelude::*;
    /// # maple::testing::run(|_, net| {
    /// let free = Var::new("free", 1);
    /// let took = net.atomically(|net| {
    ///     let left: i64 = free.get(net) - 2;
    ///     free.set(net, &left);
    ///     Stop::unless(left >= 0)
    /// });
    /// assert_eq!((took, free.get(net)), (Err(Stop::Retry), 1));
    /// # });
    /// ```
    ///
    /// # Errors
    /// The error that `f` returned; then its writes are undone.
    #[track_caller]
    pub fn atomically<T>(&self, f: impl FnOnce(&Net) -> Result<T, Stop>) -> Result<T, Stop> {
        self.0.atomically(|_| f(self))
    }

    /// Postpones the decision: the packet waits until something that the run read has changed, and this run has no
    /// effect.
    ///
    /// ```
    /// use maple::testing::*;
    ///
    /// fn when_open(_: &Packet, net: &Net) -> Route {
    ///     let open = Var::new("open", false);
    ///     if open.get(net) { net.flood() } else { net.retry() }
    /// }
    ///
    /// let bench = Bench::new().switch(1, 1..=2);
    /// let decision = bench.decide(&when_open, &tcp(1024, 80), bench.port(1, 1));
    /// assert_eq!(decision.error(), Some(&PolicyError::Retry));
    /// ```
    #[track_caller]
    pub fn retry(&self) -> Route {
        self.0.retry()
    }
}
