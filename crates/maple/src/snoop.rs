//! Multicast groups and DHCP leases, learned from packets of hosts.

/// The protocols whose packets teach the controller about hosts.
///
/// ```
/// use maple::net::{Dpid, Location, PortNo};
/// use maple::snoop::{SnoopedProtocol, Snooping};
///
/// let server = Location::new(Dpid(1), PortNo(3));
/// let snooping = Snooping::new([SnoopedProtocol::Igmp, SnoopedProtocol::Dhcp], [server])?.with_querier()?;
/// assert!(snooping.is_on() && snooping.on_leases());
/// # Ok::<(), maple::snoop::SnoopingError>(())
/// ```
#[doc(inline)]
pub use maple_controller::snoop::Snooping;

/// A protocol whose packets the controller can read.
///
/// ```
/// use maple::snoop::SnoopedProtocol;
///
/// assert_eq!("mld".parse(), Ok(SnoopedProtocol::Mld));
/// ```
#[doc(inline)]
pub use maple_controller::snoop::SnoopedProtocol;

/// The error for options of snooping that make no sense together.
///
/// ```
/// use maple::snoop::{SnoopedProtocol, Snooping, SnoopingError};
///
/// assert_eq!(Snooping::new([SnoopedProtocol::Dhcp], []), Err(SnoopingError::NoServers));
/// ```
#[doc(inline)]
pub use maple_controller::snoop::SnoopingError;

/// A multicast group, by its IP address or by its Ethernet address.
///
/// ```
/// use std::net::Ipv4Addr;
///
/// use maple::net::Mac;
/// use maple::snoop::MulticastGroup;
///
/// // One group, and all groups whose frames go to one hardware address.
/// let one = MulticastGroup::from(Ipv4Addr::new(239, 1, 2, 3));
/// let all = MulticastGroup::from(Mac([1, 0, 0x5e, 1, 2, 3]));
/// assert_ne!(one, all);
/// ```
#[doc(inline)]
pub use maple_core::snooping::MulticastGroup;

/// An IP address that a host has by DHCP, and where the host is.
///
/// ```
/// use std::net::Ipv4Addr;
///
/// use maple::prelude::*;
/// use maple::snoop::Lease;
/// use maple::state::Stored as _;
///
/// let at = Location::new(Dpid(1), PortNo(2));
/// let lease = Lease { mac: Mac([2, 0, 0, 0, 0, 1]), ip: Ipv4Addr::new(10, 0, 0, 1), location: at, ends: None };
/// assert_eq!(Lease::from_value(&lease.to_value()), Some(lease), "tables can hold leases");
/// ```
#[doc(inline)]
pub use maple_core::snooping::Lease;
