//! Frames from the values of their fields.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::{Frame, IpFrame};
use crate::eth_type::value::{ARP, IPV4, IPV6, MPLS, MPLS_MULTICAST};
use crate::field::VLAN_PRESENT;
use crate::icmpv6_type::value::{NEIGHBOR_ADVERT, NEIGHBOR_SOLICIT};
use crate::ip_proto::value::{ICMP, ICMPV6, SCTP, TCP, UDP};
use crate::packet::rewrite;
use crate::{Constraint, Field};

/// Builds a frame that has as many of these fields as fit together.
///
/// ```
/// use maple_wire::{Field, Packet};
///
/// let frame = maple_wire::packet::build::frame_of(&[(Field::EthType, 0x806), (Field::ArpOp, 2)].into());
/// assert_eq!(Packet::new(&frame, 1).get(Field::ArpOp), Some(2));
/// ```
pub fn frame_of(headers: &BTreeMap<Field, u128>) -> Vec<u8> {
    let mut frame = skeleton(headers);
    for (field, value) in headers {
        if !matches!(field, Field::EthType | Field::IpProto | Field::MplsBos) {
            // A field that does not fit the others stays as it is.
            let _ = rewrite::set_field(&mut frame, &Constraint::exact(*field, *value));
        }
    }
    frame
}

/// Builds a frame with the right headers, whose values are arbitrary.
fn skeleton(headers: &BTreeMap<Field, u128>) -> Vec<u8> {
    let get = |field| headers.get(&field).copied();
    let mut frame = Frame::ethernet([0; 6], [0; 6]);
    if get(Field::VlanVid).is_some_and(|vid| vid & VLAN_PRESENT != 0) {
        frame = frame.vlan(0);
    }
    match get(Field::EthType) {
        Some(ARP) => frame.arp_request(Ipv4Addr::UNSPECIFIED, Ipv4Addr::UNSPECIFIED),
        Some(IPV4) => transport(frame.ipv4(Ipv4Addr::UNSPECIFIED, Ipv4Addr::UNSPECIFIED), headers),
        Some(IPV6) if matches!(get(Field::Icmpv6Type), Some(NEIGHBOR_SOLICIT | NEIGHBOR_ADVERT)) => {
            frame.neighbor_solicit(Ipv6Addr::UNSPECIFIED, Ipv6Addr::UNSPECIFIED)
        }
        Some(IPV6) => transport(frame.ipv6(Ipv6Addr::UNSPECIFIED, Ipv6Addr::UNSPECIFIED), headers),
        Some(MPLS | MPLS_MULTICAST) => frame.mpls(&[get(Field::MplsLabel).unwrap_or(0) as u32], &[0; 20]),
        other => frame.raw(other.unwrap_or(0x88b5) as u16, &[0; 46]),
    }
}

fn transport(ip: IpFrame, headers: &BTreeMap<Field, u128>) -> Vec<u8> {
    match headers.get(&Field::IpProto).copied() {
        Some(TCP) => ip.tcp(0, 0).build(),
        Some(UDP) => ip.udp(0, 0).build(),
        Some(SCTP) => ip.sctp(0, 0).build(),
        Some(ICMP | ICMPV6) => ip.echo_request(1, 1).build(),
        other => ip.proto(other.map_or(253, |proto| proto as u8)).build(),
    }
}
