//! Properties of every frame; etherparse is the oracle for well-formed ones.

use etherparse::checksum::Sum16BitWords;
use etherparse::{
    ArpHardwareId, ArpPacketSlice, EtherType, Ipv6ExtensionSlice, LinkExtSlice, LinkSlice, NetSlice, SlicedPacket,
    TransportHeader, TransportSlice,
};
use proptest::collection::vec;
use proptest::prelude::*;

use super::frames::{broken_frames, frames};
use crate::field::Field::{self, *};
use crate::packet::Packet;

fn number(bytes: &[u8]) -> u128 {
    bytes.iter().fold(0, |number, byte| number << 8 | u128::from(*byte))
}

/// Returns the fields that etherparse finds in a frame with at most one tag; `None` if it refuses the frame.
pub(super) fn etherparse_fields(frame: &[u8]) -> Option<Vec<(Field, u128)>> {
    let sliced = SlicedPacket::from_ethernet(frame).ok()?;
    let mut found = Vec::new();
    if let Some(LinkSlice::Ethernet2(link)) = &sliced.link {
        found.push((EthDst, number(&link.destination())));
        found.push((EthSrc, number(&link.source())));
    }
    if let Some(LinkExtSlice::Vlan(tag)) = sliced.link_exts.first() {
        found.push((VlanVid, 0x1000 | u128::from(tag.vlan_identifier().value())));
        found.push((VlanPcp, u128::from(tag.priority_code_point().value())));
        // Smaller numbers are lengths, which etherparse treats as types.
        found.extend(Some((EthType, u128::from(tag.ether_type().0))).filter(|(_, value)| *value >= 0x600));
    }
    match &sliced.net {
        Some(NetSlice::Ipv4(ip)) => {
            let ip = ip.header();
            found.extend([
                (Ipv4Src, number(&ip.source())),
                (Ipv4Dst, number(&ip.destination())),
                (IpDscp, u128::from(ip.dcp().value())),
                (IpEcn, u128::from(ip.ecn().value())),
                (IpProto, u128::from(ip.protocol().0)),
            ]);
        }
        // etherparse treats a length of zero as unknown.
        Some(NetSlice::Ipv6(ip)) if ip.header().payload_length() == 0 => return None,
        Some(NetSlice::Ipv6(ip)) => {
            let ip = ip.header();
            found.extend([
                (Ipv6Src, number(&ip.source())),
                (Ipv6Dst, number(&ip.destination())),
                (Ipv6Flabel, u128::from(ip.flow_label().value())),
                (IpDscp, u128::from(ip.traffic_class() >> 2)),
                (IpEcn, u128::from(ip.traffic_class() & 3)),
            ]);
        }
        Some(NetSlice::Arp(arp)) if is_plain(arp) => found.extend([
            (ArpOp, u128::from(arp.operation().0)),
            (ArpSha, number(arp.sender_hw_addr())),
            (ArpSpa, number(arp.sender_protocol_addr())),
            (ArpTha, number(arp.target_hw_addr())),
            (ArpTpa, number(arp.target_protocol_addr())),
        ]),
        _ => {}
    }
    // etherparse reads past an IPv4 authentication header. Switches don't.
    let is_behind_auth = matches!(&sliced.net, Some(NetSlice::Ipv4(ip)) if ip.header().protocol().0 == 51);
    // etherparse reads each ICMP in both versions of IP. For switches the other version's ICMP is a protocol like any
    // other.
    let is_v4 = matches!(&sliced.net, Some(NetSlice::Ipv4(_)));
    // A fragment header with only reserved bits makes a fragment for switches, but not for etherparse.
    let is_fragment = |extension| matches!(extension, Ipv6ExtensionSlice::Fragment(_));
    let has_fragment =
        matches!(&sliced.net, Some(NetSlice::Ipv6(ip)) if ip.extensions().clone().into_iter().any(is_fragment));
    match &sliced.transport {
        _ if is_behind_auth || has_fragment => {}
        Some(TransportSlice::Icmpv4(_)) if !is_v4 => {}
        Some(TransportSlice::Icmpv6(_)) if is_v4 => {}
        Some(TransportSlice::Tcp(tcp)) => {
            found.extend([(TcpSrc, tcp.source_port().into()), (TcpDst, tcp.destination_port().into())]);
        }
        Some(TransportSlice::Udp(udp)) => {
            found.extend([(UdpSrc, udp.source_port().into()), (UdpDst, udp.destination_port().into())]);
        }
        Some(TransportSlice::Icmpv4(icmp)) => {
            found.extend([(Icmpv4Type, icmp.type_u8().into()), (Icmpv4Code, icmp.code_u8().into())]);
        }
        Some(TransportSlice::Icmpv6(icmp)) => {
            found.extend([(Icmpv6Type, icmp.type_u8().into()), (Icmpv6Code, icmp.code_u8().into())]);
        }
        _ => {}
    }
    Some(found)
}

/// Reports whether switches treat this as ARP.
fn is_plain(arp: &ArpPacketSlice) -> bool {
    let kind = (arp.hw_addr_type(), arp.proto_addr_type(), arp.hw_addr_size(), arp.proto_addr_size());
    arp.operation().0 <= 0xff && kind == (ArpHardwareId::ETHERNET, EtherType::IPV4, 6, 4)
}

/// Reports whether the checksums that etherparse knows are right. True for frames that it can't read, and for
/// transport headers of fragments.
pub(super) fn checksums_are_right(frame: &[u8]) -> bool {
    let (Ok(sliced), Ok(headers)) =
        (SlicedPacket::from_ethernet(frame), etherparse::PacketHeaders::from_ethernet_slice(frame))
    else {
        return true;
    };
    let payload = headers.payload.slice();
    if let Some(NetSlice::Ipv4(ip)) = &sliced.net {
        let header = ip.header();
        let transport = match headers.transport {
            Some(TransportHeader::Tcp(tcp)) => {
                tcp.calc_checksum_ipv4_raw(header.source(), header.destination(), payload).unwrap() == tcp.checksum
            }
            Some(TransportHeader::Udp(udp)) => {
                udp.calc_checksum_ipv4_raw(header.source(), header.destination(), payload).unwrap() == udp.checksum
            }
            // etherparse's own check of an ICMP message drops bytes that the type does not use, so this uses its sum of
            // words.
            Some(TransportHeader::Icmpv4(_)) => match &sliced.transport {
                Some(TransportSlice::Icmpv4(icmp)) => {
                    Sum16BitWords::new().add_slice(icmp.slice()).ones_complement() == 0
                }
                _ => false,
            },
            _ => true,
        };
        return transport && header.header_checksum() == header.to_header().calc_header_checksum();
    }
    let Some(NetSlice::Ipv6(ip)) = &sliced.net else { return true };
    let (src, dst) = (ip.header().source(), ip.header().destination());
    match (headers.transport, &sliced.transport) {
        (Some(TransportHeader::Tcp(tcp)), _) => tcp.calc_checksum_ipv6_raw(src, dst, payload).unwrap() == tcp.checksum,
        (Some(TransportHeader::Udp(udp)), _) => udp.calc_checksum_ipv6_raw(src, dst, payload).unwrap() == udp.checksum,
        (_, Some(TransportSlice::Icmpv6(icmp))) => icmp.is_checksum_valid(src, dst),
        _ => true,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1024, failure_persistence: None, ..Default::default() })]

    #[test]
    fn etherparse_finds_the_same_fields_in_built_frames(frame in frames(1)) {
        let packet = Packet::new(&frame, 1);
        for (field, value) in etherparse_fields(&frame).unwrap_or_default() {
            prop_assert_eq!(packet.get(field), Some(value), "{}", field);
        }
    }

    #[test]
    fn etherparse_finds_the_same_fields_in_what_it_accepts_of_broken_frames(frame in broken_frames(1)) {
        let packet = Packet::with_wire_len(&frame, 1, frame.len());
        prop_assume!(packet.vlans().count() <= 1);
        // etherparse treats 0x9100 as the type of a tag. Switches don't.
        let type_after_tags = 12 + 4 * packet.vlans().count();
        prop_assume!(frame.get(type_after_tags..type_after_tags + 2) != Some(&[0x91, 0x00]));
        for (field, value) in etherparse_fields(&frame).unwrap_or_default() {
            prop_assert_eq!(packet.get(field), Some(value), "{} of {:02x?}", field, frame);
        }
    }

    #[test]
    fn etherparse_confirms_the_checksums_of_built_frames(frame in frames(2)) {
        prop_assert!(checksums_are_right(&frame));
    }

    #[test]
    fn a_cut_frame_has_the_same_fields_or_none(frame in broken_frames(2)) {
        let whole = Packet::with_wire_len(&frame, 1, frame.len());
        for len in 0..frame.len() {
            let cut = Packet::with_wire_len(&frame[..len], 1, frame.len());
            prop_assert!(cut.payload().len() <= len);
            for field in Field::ALL {
                // vlan_vid is never absent: it is 0 if the tag is cut off.
                let same = cut.get(field).is_none_or(|value| whole.get(field) == Some(value));
                prop_assert!(same || field == VlanVid && len < 16, "{field} at {len}");
            }
        }
    }

    #[test]
    fn a_cut_frame_of_unknown_length_has_the_same_fields_or_none(frame in frames(2)) {
        let whole = Packet::new(&frame, 1);
        for len in 0..frame.len() {
            let cut = Packet::new(&frame[..len], 1);
            for field in Field::ALL {
                let same = cut.get(field).is_none_or(|value| whole.get(field) == Some(value));
                prop_assert!(same || field == VlanVid && len < 16, "{field} at {len}");
            }
        }
    }

    #[test]
    fn a_packet_has_a_field_exactly_if_its_prerequisites_hold(frame in broken_frames(2)) {
        let packet = Packet::with_wire_len(&frame, 1, frame.len());
        for field in Field::ALL {
            let holds = field.prerequisites().iter().any(|all| {
                all.iter().all(|c| packet.switch_value(c.field).is_some_and(|value| value & c.mask == c.value))
            });
            prop_assert_eq!(packet.switch_value(field).is_some(), holds);
            prop_assert!(packet.get(field).is_none() || holds, "{} without prerequisites", field);
            prop_assert!(packet.get(field).unwrap_or(0) & !field.full_mask() == 0);
        }
    }

    #[test]
    fn arbitrary_bytes_are_read_without_panic(bytes in vec(any::<u8>(), 0..120), wire_len in 0..200usize) {
        for packet in [Packet::new(&bytes, 1), Packet::with_wire_len(&bytes, 1, wire_len)] {
            let _ = Field::ALL.map(|field| packet.get(field));
            let _ = (packet.vlans().count(), packet.mpls_stack().count());
            let _ = crate::packet::lldp::tlvs(&packet).map(Iterator::count);
            prop_assert!(!crate::packet::text::summary(&packet).is_empty());
        }
    }
}
