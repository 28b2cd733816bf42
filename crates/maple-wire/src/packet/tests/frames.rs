//! Random frames of all the kinds that the builders can make, and broken ones.

use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::*;

use crate::packet::build::{self, IpFrame, TransportFrame};
use crate::packet::{Frame, ipv6, lldp};

/// Generates well-formed frames with at most `tags` VLAN tags.
pub(super) fn frames(tags: usize) -> impl Strategy<Value = Vec<u8>> {
    let tag = (prop_oneof![Just(0x8100), Just(0x88a8)], 0..4096u16, 0..8u8);
    let body = prop_oneof![
        1 => other().prop_map(Body::Other),
        5 => (ip(), transport(), vec(any::<u8>(), 0..40)).prop_map(|(ip, transport, payload)| Body::Ip(ip, transport, payload)),
    ];
    (any::<[[u8; 6]; 2]>(), vec(tag, 0..=tags), body).prop_map(|([dst, src], tags, body)| {
        let frame = Frame::ethernet(dst, src);
        let frame = tags.into_iter().fold(frame, |frame, (tpid, vid, pcp)| frame.tag(tpid, vid, pcp));
        match body {
            Body::Other(other) => build_other(frame, other),
            Body::Ip(ip, transport, payload) => build_transport(build_ip(frame, ip), transport).payload(&payload),
        }
    })
}

/// Generates frames with some bytes changed, and cut or padded.
pub(super) fn broken_frames(tags: usize) -> impl Strategy<Value = Vec<u8>> {
    let changes = vec((12..64usize, any::<u8>()), 0..3);
    (frames(tags), changes, 0..100usize, 0..8usize).prop_map(|(mut frame, changes, cut, padding)| {
        for (at, byte) in changes {
            let at = at % frame.len();
            frame[at] = byte;
        }
        let len = if cut < frame.len() { frame.len() - cut } else { frame.len() + padding };
        frame.resize(len, 0);
        frame
    })
}

#[derive(Clone, Debug)]
enum Body {
    Other(Other),
    Ip(Ip, Transport, Vec<u8>),
}

#[derive(Clone, Debug)]
enum Other {
    Arp(u16, [[u8; 6]; 2], [[u8; 4]; 2]),
    Mpls(Vec<u32>, Vec<u8>),
    Discovery(bool, [[u8; 16]; 2]),
    Raw(u16, Vec<u8>),
    Snap(Vec<u8>),
    Lldp,
}

/// A fragment's offset, and whether more fragments follow.
type Fragment = Option<(u16, bool)>;

#[derive(Clone, Debug)]
enum Ip {
    V4([[u8; 4]; 2], [u8; 2], Vec<u8>, Fragment),
    V6([[u8; 16]; 2], [u8; 2], u32, Vec<(u8, Vec<u8>)>, Fragment),
}

#[derive(Clone, Debug)]
enum Transport {
    Tcp(u16, u16),
    Udp(u16, u16),
    Sctp(u16, u16),
    Icmp(u8, u8, [u8; 4]),
    Echo(u16),
    Proto(u8),
}

fn other() -> impl Strategy<Value = Other> {
    prop_oneof![
        (0..300u16, any::<[[u8; 6]; 2]>(), any::<[[u8; 4]; 2]>()).prop_map(|(op, hw, ip)| Other::Arp(op, hw, ip)),
        (vec(0..1u32 << 20, 1..4), vec(any::<u8>(), 0..30)).prop_map(|(labels, payload)| Other::Mpls(labels, payload)),
        (any::<bool>(), any::<[[u8; 16]; 2]>()).prop_map(|(solicit, ip)| Other::Discovery(solicit, ip)),
        (any::<u16>(), vec(any::<u8>(), 0..30)).prop_map(|(kind, payload)| Other::Raw(kind, payload)),
        vec(any::<u8>(), 0..30).prop_map(Other::Snap),
        Just(Other::Lldp),
    ]
}

fn ip() -> impl Strategy<Value = Ip> {
    let fragment = || weighted(0.2, (0..3u16, any::<bool>()));
    let extension = prop_oneof![Just(0), Just(43), Just(51), Just(60)];
    let extensions = vec((extension, vec(any::<u8>(), 6..20)), 0..3);
    prop_oneof![
        (any::<[[u8; 4]; 2]>(), any::<[u8; 2]>(), vec(any::<u8>(), 0..12), fragment())
            .prop_map(|(ends, class_ttl, options, fragment)| Ip::V4(ends, class_ttl, options, fragment)),
        (any::<[[u8; 16]; 2]>(), any::<[u8; 2]>(), 0..1u32 << 20, extensions, fragment())
            .prop_map(|(ends, class_ttl, label, chain, fragment)| Ip::V6(ends, class_ttl, label, chain, fragment)),
    ]
}

fn transport() -> impl Strategy<Value = Transport> {
    prop_oneof![
        any::<[u16; 2]>().prop_map(|[a, b]| Transport::Tcp(a, b)),
        any::<[u16; 2]>().prop_map(|[a, b]| Transport::Udp(a, b)),
        any::<[u16; 2]>().prop_map(|[a, b]| Transport::Sctp(a, b)),
        (any::<[u8; 2]>(), any::<[u8; 4]>()).prop_map(|([a, b], rest)| Transport::Icmp(a, b, rest)),
        any::<u16>().prop_map(Transport::Echo),
        // Only protocols without a checksum of their own.
        prop_oneof![2..6u8, 70..130u8, Just(59)].prop_map(Transport::Proto),
    ]
}

fn build_other(frame: Frame, other: Other) -> Vec<u8> {
    match other {
        Other::Arp(op, [sha, tha], [spa, tpa]) => frame.arp(op, sha, spa.into(), tha, tpa.into()),
        Other::Mpls(labels, payload) => frame.mpls(&labels, &payload),
        Other::Discovery(true, [a, b]) => frame.neighbor_solicit(a, b),
        Other::Discovery(false, [a, b]) => frame.neighbor_advert(a, b),
        Other::Raw(kind, payload) => frame.raw(kind, &payload),
        Other::Snap(payload) => build::snap([1; 6], [2; 6], 0x1234, &payload),
        Other::Lldp => frame.lldp(&[lldp::Tlv::PortId { subtype: 7, id: b"1" }, lldp::Tlv::Ttl(9)]),
    }
}

fn build_ip(frame: Frame, ip: Ip) -> IpFrame {
    let (ip, [class, ttl], fragment) = match ip {
        Ip::V4([src, dst], class_ttl, options, fragment) => {
            (frame.ipv4(src, dst).options(&options), class_ttl, fragment)
        }
        Ip::V6([src, dst], class_ttl, label, chain, fragment) => {
            let extend = |ip: IpFrame, (number, body): (u8, Vec<u8>)| match number {
                ipv6::AUTH => ip.extension(number, &body[..6]),
                // Routing headers have no segments left, so that checksums cover the destination as it is.
                ipv6::ROUTING => ip.extension(number, &[&[body[0], 0], &body[2..]].concat()),
                number => ip.extension(number, &body),
            };
            (chain.into_iter().fold(frame.ipv6(src, dst).flow_label(label), extend), class_ttl, fragment)
        }
    };
    let ip = ip.dscp(class >> 2).ecn(class).ttl(ttl);
    fragment.into_iter().fold(ip, |ip, (offset, more)| ip.fragment(offset, more, 7))
}

fn build_transport(ip: IpFrame, transport: Transport) -> TransportFrame {
    match transport {
        Transport::Tcp(src, dst) => ip.tcp(src, dst),
        Transport::Udp(src, dst) => ip.udp(src, dst),
        Transport::Sctp(src, dst) => ip.sctp(src, dst),
        Transport::Icmp(kind, code, rest) => ip.icmp(kind, code, rest),
        Transport::Echo(id) => ip.echo_request(id, 1),
        Transport::Proto(number) => ip.proto(number),
    }
}
