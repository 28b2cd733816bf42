//! Names of the parts of a network: switches, ports, links, hosts; and the traffic that was measured there.

/// A step of a route, from a switch out of one of its ports.
///
/// ```
/// use maple::net::{Dpid, Hop, Location, PortNo};
///
/// let hop = Hop::new(Dpid(1), PortNo(2));
/// assert_eq!(hop.location(), Location::new(Dpid(1), PortNo(2)));
/// ```
#[doc(inline)]
pub use maple_core::network::Hop;

/// The place of a host, which [`Net::locate`](crate::Net::locate) returns and paths take.
///
/// ```
/// use maple::testing::*;
///
/// /// Drops what comes from a host at another switch than its peer.
/// fn near(pkt: &Packet, net: &Net) -> Route {
///     match (net.locate(pkt.eth_src()), net.locate(pkt.eth_dst())) {
///         (Some(src), Some(dst)) if src.switch() == dst.switch() => net.shortest_path(src, dst),
///         _ => Route::drop(),
///     }
/// }
///
/// let bench = Bench::new().switch(1, 1..=2);
/// let (a, b) = (bench.port(1, 1), bench.port(1, 2));
/// let bench = bench.host("00:00:00:00:00:01", a).host("00:00:00:00:00:02", b);
/// assert_eq!(bench.decide(&near, &tcp(1024, 80), a).exits(), [b]);
/// ```
#[doc(inline)]
pub use maple_core::run::HostLocation;

/// The name of links whose cost a program sets.
///
/// ```
/// use maple::net::{Dpid, LinkName, Location, PortNo};
///
/// let both = LinkName::Switches(Dpid(1), Dpid(2));
/// let one = LinkName::Port(Location::new(Dpid(1), PortNo(2)));
/// assert_ne!(both, one);
/// ```
#[doc(inline)]
pub use maple_core::network::LinkName;

/// A switch and one of its ports.
///
/// ```
/// use maple::net::{Dpid, Location, PortNo};
///
/// let at = Location::new(Dpid(1), PortNo(3));
/// assert_eq!(at.to_string(), "0000000000000001:3");
/// ```
#[doc(inline)]
pub use maple_core::network::Location;

/// An Ethernet address.
///
/// ```
/// use maple::net::Mac;
///
/// let mac: Mac = "00-11-22-33-44-55".parse()?;
/// assert_eq!(mac.to_string(), "00:11:22:33:44:55");
/// assert!(mac.is_host() && !Mac([0xff; 6]).is_host());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(inline)]
pub use maple_core::network::Mac;

/// The name of link costs that rise with the use of links.
///
/// ```
/// use maple::testing::*;
///
/// /// Around links that are full.
/// fn policy(pkt: &Packet, net: &Net) -> Route {
///     net.path(net.locate(pkt.eth_src()), net.locate(pkt.eth_dst()), maple::net::UTILISATION)
/// }
///
/// let bench = Bench::new().switch(1, 1..=2);
/// let (a, b) = (bench.port(1, 1), bench.port(1, 2));
/// let bench = bench.host("00:00:00:00:00:01", a).host("00:00:00:00:00:02", b);
/// assert_eq!(bench.decide(&policy, &tcp(1024, 80), a).exits(), [b]);
/// ```
#[doc(inline)]
pub use maple_core::network::UTILISATION;

/// The number of a switch, which it reports when it connects.
///
/// ```
/// assert_eq!(maple::net::Dpid(0xab).to_string(), "00000000000000ab");
/// ```
#[doc(inline)]
pub use maple_wire::Dpid;

/// The number of a port of a switch.
///
/// ```
/// use maple::net::PortNo;
///
/// assert!(PortNo(1).is_physical() && !PortNo::CONTROLLER.is_physical());
/// ```
#[doc(inline)]
pub use maple_wire::PortNo;

/// The rate of packets that a policy compares with limits, in bits per second.
///
/// ```
/// use maple::testing::*;
///
/// /// Large flows leave the shortest path: from more than 50 Mbit/s on, until they are at 20 or below.
/// fn policy(pkt: &Packet, net: &Net) -> Route {
///     let (src, dst) = (net.locate(pkt.eth_src()), net.locate(pkt.eth_dst()));
///     let is_large = net.traffic(pkt.eth_src(), pkt.eth_dst()).is_above_mbps(50.0, 20.0);
///     if is_large { net.path(src, dst, "long") } else { net.shortest_path(src, dst) }
/// }
///
/// let bench = Bench::new().switch(1, 1..=2);
/// let (a, b) = (bench.port(1, 1), bench.port(1, 2));
/// let bench = bench.host("00:00:00:00:00:01", a).host("00:00:00:00:00:02", b);
/// assert_eq!(bench.decide(&policy, &tcp(1024, 80), a).exits(), [b], "nothing was measured yet");
/// ```
#[doc(inline)]
pub use maple_core::policy::Load;

/// The error for text of which no location, or no hardware address, can be read.
///
/// ```
/// use maple::net::{BadLocation, BadMac, Location, Mac};
///
/// let mac: Result<Mac, BadMac> = "00:11:22:33:44".parse();
/// let location: Result<Location, BadLocation> = "1".parse();
/// assert!(mac.is_err() && location.is_err());
/// ```
#[doc(inline)]
pub use maple_core::network::{BadLocation, BadMac};

/// The error for text of which no switch, or no port, can be read.
///
/// ```
/// use maple::net::{BadDpid, BadPort, Dpid, PortNo};
///
/// let switch: Result<Dpid, BadDpid> = "no number".parse();
/// let port: Result<PortNo, BadPort> = "no number".parse();
/// assert!(switch.is_err() && port.is_err());
/// ```
#[doc(inline)]
pub use maple_wire::{BadDpid, BadPort};
