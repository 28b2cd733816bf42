//! Packets on which to try a policy: frames from their fields, and the fields of frames.
//!
//! Any frame is a valid sample. So if the wanted fields contradict each other, the frame has those that come first
//! (Ethernet type, VLAN tag, protocol) and as many of the others as fit.

use std::collections::BTreeMap;
use std::sync::Arc;

use maple_wire::eth_type::value::{ARP, IPV4, IPV6};
use maple_wire::ip_proto::value::{ICMP, TCP, UDP};
use maple_wire::packet::build::frame_of;
use maple_wire::packet::rewrite;
use maple_wire::{Constraint, Field, Packet};

use super::Host;
use crate::network::{HostInfo, Location};

/// A packet that enters the network.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sample {
    /// The port where it enters.
    pub at: Location,
    /// The bytes of the packet.
    pub frame: Arc<[u8]>,
}

/// The values of a packet's fields.
pub(crate) type Headers = BTreeMap<Field, u128>;

impl Sample {
    /// Parses the packet's fields.
    pub fn packet(&self) -> Packet<'_> {
        Packet::new(&self.frame, self.at.port.0)
    }

    /// Returns the values of the fields that the packet has.
    pub(crate) fn headers(&self) -> Headers {
        let packet = self.packet();
        Field::ALL.into_iter().filter_map(|field| packet.get(field).map(|value| (field, value))).collect()
    }

    /// Returns the packet with some fields changed. The rest stays as far as it fits these.
    pub(crate) fn with(&self, changes: &Headers) -> Sample {
        let mut at = self.at;
        if let Some(port) = changes.get(&Field::InPort) {
            at.port.0 = *port as u32;
        }
        let mut frame = self.frame.to_vec();
        let in_frame = changes.iter().filter(|(field, _)| **field != Field::InPort);
        let mut set = in_frame.map(|(field, value)| Constraint::exact(*field, *value));
        if !set.all(|set| rewrite::set_field(&mut frame, &set).is_ok()) {
            let mut headers = self.headers();
            headers.extend(changes);
            frame = frame_of(&headers);
        }
        Sample { at, frame: frame.into() }
    }
}

/// Returns packets of the usual kinds between the first hosts of the network, and from each to all hosts and to an
/// unknown address.
pub(super) fn first_packets(hosts: &[Host]) -> Vec<Sample> {
    let hosts = &hosts[..hosts.len().min(4)];
    let mut all = Vec::new();
    for (index, (mac, info)) in hosts.iter().enumerate() {
        let (other, there) = &hosts[(index + 1) % hosts.len()];
        let v4 = |info: &HostInfo| info.ipv4.first().map_or(0, |ip| u128::from(u32::from(*ip)));
        let v6 = |info: &HostInfo| info.ipv6.last().map_or(0, |ip| u128::from(*ip));
        let ipv4 = [(Field::EthType, IPV4), (Field::Ipv4Src, v4(info)), (Field::Ipv4Dst, v4(there))];
        let ipv6 = [(Field::EthType, IPV6), (Field::Ipv6Src, v6(info)), (Field::Ipv6Dst, v6(there))];
        let mut add = |to: u128, rest: &[&[(Field, u128)]]| {
            let mut headers = Headers::from([(Field::EthSrc, mac.bits()), (Field::EthDst, to)]);
            headers.extend(rest.concat());
            all.push(Sample { at: info.location, frame: frame_of(&headers).into() });
        };
        let arp = [(Field::EthType, ARP), (Field::ArpOp, 1), (Field::ArpSpa, v4(info)), (Field::ArpTpa, v4(there))];
        add(0xffff_ffff_ffff, &[&arp]);
        for (proto, port) in [(TCP, Field::TcpDst), (UDP, Field::UdpDst)] {
            add(other.bits(), &[&ipv4, &[(Field::IpProto, proto), (port, 80)]]);
            add(other.bits(), &[&ipv6, &[(Field::IpProto, proto), (port, 80)]]);
        }
        add(other.bits(), &[&ipv4, &[(Field::IpProto, ICMP), (Field::Icmpv4Type, 8)]]);
        add(0x0200_0000_0099, &[&ipv4, &[(Field::IpProto, UDP), (Field::UdpDst, 53)]]);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use maple_wire::{Dpid, PortNo};

    const AT: Location = Location::new(Dpid(1), PortNo(1));

    fn sample(headers: &[(Field, u128)]) -> Sample {
        Sample { at: AT, frame: frame_of(&headers.iter().copied().collect()).into() }
    }

    #[test]
    fn a_built_frame_has_the_fields_that_were_wanted() {
        let all: [&[(Field, u128)]; 6] = [
            &[(Field::EthSrc, 1), (Field::EthType, IPV4), (Field::IpProto, 6), (Field::TcpDst, 22)],
            &[(Field::EthType, IPV4), (Field::IpProto, 1), (Field::Icmpv4Type, 3), (Field::Ipv4Src, 7)],
            &[(Field::EthType, IPV6), (Field::IpProto, 17), (Field::UdpSrc, 53), (Field::Ipv6Dst, 9)],
            &[(Field::EthType, IPV6), (Field::IpProto, 58), (Field::Icmpv6Type, 135), (Field::Ipv6NdTarget, 5)],
            &[(Field::EthType, ARP), (Field::ArpOp, 2), (Field::ArpTpa, 8), (Field::VlanVid, 0x1007)],
            &[(Field::EthType, 0x8847), (Field::MplsLabel, 77)],
        ];
        for wanted in all {
            let headers = sample(wanted).headers();
            for (field, value) in wanted {
                assert_eq!(headers.get(field), Some(value), "{field} of {wanted:?}");
            }
        }
    }

    #[test]
    fn a_change_that_needs_other_headers_keeps_what_fits_them() {
        let tcp = sample(&[(Field::EthSrc, 3), (Field::EthType, IPV4), (Field::IpProto, 6), (Field::Ipv4Dst, 4)]);
        let udp = tcp.with(&[(Field::IpProto, 17), (Field::UdpDst, 53), (Field::InPort, 2)].into());
        let headers = udp.headers();
        let has = [(Field::EthSrc, 3), (Field::Ipv4Dst, 4), (Field::UdpDst, 53), (Field::InPort, 2)];
        assert!(has.iter().all(|(field, value)| headers.get(field) == Some(value)), "{headers:?}");
        assert!(!headers.contains_key(&Field::TcpDst));
    }
}
