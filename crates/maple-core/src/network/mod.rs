//! The network as f sees it: hosts, ports and links, all of them tracked state.
//!
//! The types here are plain values. A [`crate::state::Snapshot`] holds the facts about the network; [`graph`] answers
//! questions about them (paths, broadcast trees) as pure functions, with ties broken towards the lowest datapath id and
//! port.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use maple_wire::packet::ethernet;
pub use maple_wire::packet::ethernet::RESERVED;
use maple_wire::packet::text::{mac_text, parse_mac};
use maple_wire::{Dpid, PortNo};
use serde::{Deserialize, Serialize};

mod facts;
pub mod graph;
pub(crate) mod own_frames;
mod rate;
mod scope;

pub use facts::{Facts, HostFacts, PortRole, PortSet, SwitchFacts};
pub use own_frames::{PROBE_MAC, is_the_controllers};
pub use rate::{Gauge, Scale, UTILISATION};
pub(crate) use scope::Reduced;
pub use scope::Scope;

/// A hardware address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// Creates the address whose 48 bits are the low ones of `bits`, as fields such as `eth_src` carry it.
    #[must_use]
    pub const fn from_bits(bits: u128) -> Mac {
        let b = bits.to_be_bytes();
        Mac([b[10], b[11], b[12], b[13], b[14], b[15]])
    }

    /// Returns the address as a field value.
    #[must_use]
    pub const fn bits(self) -> u128 {
        let b = self.0;
        u128::from_be_bytes([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, b[0], b[1], b[2], b[3], b[4], b[5]])
    }

    /// Reports whether a host can have this address: it is neither zero nor a group address.
    #[must_use]
    pub const fn is_host(self) -> bool {
        self.0[0] & 1 == 0 && self.bits() != 0
    }

    /// Reports whether bridges never forward packets for this address ([`RESERVED`]).
    #[must_use]
    pub fn is_reserved(self) -> bool {
        ethernet::is_reserved(self.0)
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&mac_text(&self.0))
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// The error for text that is not a hardware address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a hardware address (six bytes in hex, such as 00:00:00:00:00:01)")]
pub struct BadMac(pub String);

impl std::str::FromStr for Mac {
    type Err = BadMac;

    /// Reads six hex bytes, all with `:` or all with `-` between them.
    fn from_str(text: &str) -> Result<Mac, BadMac> {
        let bits = parse_mac(text).ok_or_else(|| BadMac(text.to_owned()))?;
        Ok(Mac::from_bits(bits.into()))
    }
}

/// A frame of f's own, and the edge port that it leaves by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct OwnFrame {
    /// The port.
    pub at: Location,
    /// The frame, without its check sequence.
    pub bytes: Arc<[u8]>,
}

/// A port of a switch. Hosts are located at one, links join two.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Location {
    /// The switch.
    pub switch: Dpid,
    /// The port of the switch.
    pub port: PortNo,
}

impl Location {
    /// Creates the location `port` of `switch`.
    #[must_use]
    pub const fn new(switch: Dpid, port: PortNo) -> Location {
        Location { switch, port }
    }
}

impl From<(u64, u32)> for Location {
    fn from((switch, port): (u64, u32)) -> Location {
        Location::new(Dpid(switch), PortNo(port))
    }
}

impl fmt::Display for Location {
    /// Writes `0000000000000001:3`, the form that `FromStr` reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.switch, self.port)
    }
}

/// The error for text that is not a location.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a port of a switch such as 1:3 or 1:LOCAL")]
pub struct BadLocation(pub String);

impl std::str::FromStr for Location {
    type Err = BadLocation;

    /// Reads a switch and its port, with a colon between them. The port is one that packets come in by.
    fn from_str(text: &str) -> Result<Location, BadLocation> {
        let (switch, port) = split_place(text).ok_or_else(|| BadLocation(text.to_owned()))?;
        let switch = switch.parse().map_err(|_| BadLocation(text.to_owned()))?;
        Ok(Location::new(switch, port))
    }
}

/// Splits a place into the text of its switch and its port, which must be one that packets come in by. Returns `None`
/// if the text is not a place.
#[must_use]
pub fn split_place(text: &str) -> Option<(&str, PortNo)> {
    let (switch, port) = text.rsplit_once(':')?;
    let port = port.parse::<PortNo>().ok().filter(|port| port.is_ordinary_or_local())?;
    Some((switch, port))
}

impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// The far side of a port.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum PortKind {
    /// The kind is not known yet: discovery has not had time to find out. Nothing is learned at the port, and nothing
    /// is sent out of it.
    New,
    /// Hosts are behind the port.
    Edge,
    /// Another of our switches is behind the port, at this port of it.
    Link(Location),
    /// A segment that several ports share is behind the port. Its hosts enter and leave by another port; this one is
    /// shut: the switch drops what comes in by it.
    Shut {
        /// The port that is open, which is an edge port.
        with: Location,
        /// The port of this switch where the link through the controller to the other port's switch begins. `None` if
        /// another port has that link, or both ports are on one switch.
        link: Option<PortNo>,
    },
    /// A middlebox that forwards packets with their sources unchanged is behind the port. No host is located there, and
    /// floods leave it out.
    Middlebox,
}

/// One port, as the state holds it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct PortInfo {
    /// Whether packets can pass the port.
    pub up: bool,
    /// The far side of the port.
    pub kind: PortKind,
}

/// One host, as the state holds it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct HostInfo {
    /// The location of the host.
    pub location: Location,
    /// The IPv4 addresses that this host was the last to announce.
    pub ipv4: BTreeSet<Ipv4Addr>,
    /// The IPv6 addresses that this host was the last to announce.
    pub ipv6: BTreeSet<Ipv6Addr>,
}

impl HostInfo {
    /// Returns all IP addresses of the host.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.ipv4.iter().copied().map(IpAddr::V4).chain(self.ipv6.iter().copied().map(IpAddr::V6))
    }

    /// Adds an address of the host.
    pub fn insert(&mut self, ip: IpAddr) {
        match ip {
            IpAddr::V4(ip) => drop(self.ipv4.insert(ip)),
            IpAddr::V6(ip) => drop(self.ipv6.insert(ip)),
        }
    }

    /// Removes an address of the host.
    pub fn remove(&mut self, ip: IpAddr) {
        match ip {
            IpAddr::V4(ip) => drop(self.ipv4.remove(&ip)),
            IpAddr::V6(ip) => drop(self.ipv6.remove(&ip)),
        }
    }
}

/// One hop of a route: leave `switch` by `port`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hop {
    /// The switch.
    pub switch: Dpid,
    /// The port by which the packet leaves it.
    pub port: PortNo,
}

impl Hop {
    /// Creates the hop that leaves `switch` by `port`.
    #[must_use]
    pub const fn new(switch: Dpid, port: PortNo) -> Hop {
        Hop { switch, port }
    }

    /// Returns the switch and the port as a location.
    #[must_use]
    pub const fn location(self) -> Location {
        Location { switch: self.switch, port: self.port }
    }
}

impl fmt::Debug for Hop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.switch, self.port)
    }
}

/// The link, or links, that a cost applies to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub enum LinkName {
    /// The link that leaves by this port, in this direction.
    Port(Location),
    /// Every link from the first switch to the second. A cost by port takes precedence over one by switches.
    Switches(Dpid, Dpid),
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn every_place_and_every_hardware_address_is_read_as_it_is_written(dpid: u64, port in 1..=PortNo::MAX.0, bits: u128) {
            for port in [PortNo(port), PortNo::LOCAL] {
                let at = Location::new(Dpid(dpid), port);
                assert_eq!(at.to_string().parse(), Ok(at));
                let bytes = dpid.to_be_bytes().map(|byte| format!("{byte:02x}")).join(":");
                assert_eq!(format!("{bytes}:{port}").parse(), Ok(at), "as Open vSwitch's tools write datapath ids");
                assert_eq!(format!("{dpid:x}:{port}").parse(), Ok(at));
            }
            let mac = Mac::from_bits(bits);
            assert_eq!(mac.to_string().parse(), Ok(mac));
        }
    }

    #[test]
    fn invalid_locations_are_refused() {
        for text in ["", "1", "1:", ":1", "1:0", "1:FLOOD", "1:4294967295", "1:2:3", "x:1", "00:00:00:00:00:00:00:01"] {
            assert_eq!(text.parse::<Location>(), Err(BadLocation(text.to_owned())));
        }
    }
}
