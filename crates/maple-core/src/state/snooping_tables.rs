//! The tables of what snooping learns, and the rows of leases. `snooping.rs` is about what they mean to f.

use std::net::Ipv4Addr;

use super::{Kind, Stored, Value};
use crate::network::{Location, Mac};

/// The name of the table of group members, by the group's address.
pub const MEMBERS: &str = "net.members";
/// The name of the table of group members, by the hardware address of a group's frames, which several groups share.
pub const MEMBERS_BY_MAC: &str = "net.members.mac";
/// The name of the table of leases, by IP address.
pub const LEASES: &str = "net.leases";
/// The name of the table of each client's newest lease, by hardware address.
pub const LEASES_BY_MAC: &str = "net.leases.mac";

/// An address that DHCP gave to a host for some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lease {
    /// The host.
    pub mac: Mac,
    /// The address of the host.
    pub ip: Ipv4Addr,
    /// The edge port from which the host asked for it.
    pub location: Location,
    /// The end of the lease, in seconds since 1970; `None` for a lease that never ends.
    pub ends: Option<u64>,
}

impl Stored for Lease {
    fn kind() -> Kind {
        Kind::Tuple([Mac::kind(), Ipv4Addr::kind(), Location::kind(), Option::<u64>::kind()].into())
    }

    fn to_value(&self) -> Value {
        let parts = [self.mac.to_value(), self.ip.to_value(), self.location.to_value(), self.ends.to_value()];
        Value::Tuple(parts.into())
    }

    fn from_value(value: &Value) -> Option<Lease> {
        let Value::Tuple(parts) = value else { return None };
        let [mac, ip, location, ends] = &**parts else { return None };
        Some(Lease {
            mac: Mac::from_value(mac)?,
            ip: Ipv4Addr::from_value(ip)?,
            location: Location::from_value(location)?,
            ends: Option::from_value(ends)?,
        })
    }
}
