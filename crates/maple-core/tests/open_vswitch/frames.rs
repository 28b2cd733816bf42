//! Frames of every kind that switches distinguish: whole, odd and broken.

use maple_wire::packet::Frame;
use maple_wire::packet::build::{IpFrame, snap};

const A: [u8; 6] = [2, 0, 0, 0, 0, 1];
const B: [u8; 6] = [2, 0, 0, 0, 0, 2];

/// Returns all frames, each with a name.
pub fn all() -> Vec<(String, Vec<u8>)> {
    let named = |(name, frame): (&str, Vec<u8>)| (name.to_owned(), frame);
    let mut all: Vec<(String, Vec<u8>)> = link_layer().into_iter().map(named).collect();
    all.extend(transport(v4).into_iter().map(|(name, frame)| (format!("ipv4 {name}"), frame)));
    all.extend(transport(v6).into_iter().map(|(name, frame)| (format!("ipv6 {name}"), frame)));
    all.extend(neighbors().into_iter().map(named));
    all
}

fn ethernet() -> Frame {
    Frame::ethernet(B, A)
}

fn v4() -> IpFrame {
    ethernet().ipv4([10, 1, 2, 3], [192, 168, 7, 9]).dscp(46).ecn(2)
}

fn v6() -> IpFrame {
    ethernet()
        .ipv6([0x2001, 0xdb8, 1, 2, 3, 4, 5, 6], [0xfe80, 0, 0, 0, 9, 8, 7, 6])
        .dscp(10)
        .ecn(1)
        .flow_label(0x12345)
}

fn link_layer() -> Vec<(&'static str, Vec<u8>)> {
    let tagged = |tpid, vid, pcp| ethernet().tag(tpid, vid, pcp).ipv4([1, 2, 3, 4], [5, 6, 7, 8]).tcp(5, 6).build();
    let mut broken = v4().tcp(5, 6).build();
    broken[14] = 0x4f;
    let mut length = vec![0x42, 0x42, 3];
    length.resize(46, 0);
    vec![
        ("tag", tagged(0x8100, 77, 5)),
        ("tag of priority only", tagged(0x8100, 0, 3)),
        ("service tag", tagged(0x88a8, 77, 5)),
        ("two tags", ethernet().vlan(5).vlan(6).ipv4([1, 2, 3, 4], [5, 6, 7, 8]).tcp(5, 6).build()),
        (
            "service and customer tag",
            ethernet().service_vlan(5).vlan(6).ipv4([1, 2, 3, 4], [5, 6, 7, 8]).udp(5, 6).build(),
        ),
        ("two service tags", ethernet().service_vlan(5).service_vlan(6).raw(0x0800, &[0; 46])),
        ("802.3", ethernet().raw(46, &length)),
        ("802.3 with SNAP", snap(B, A, 0x0806, &[0; 28])),
        ("tagged 802.3", ethernet().vlan(9).raw(46, &length)),
        ("type 0x0600", ethernet().raw(0x0600, &[0; 46])),
        ("tag cut off", ethernet().raw(0x8100, &[0])),
        ("arp", ethernet().arp_request([10, 0, 0, 1], [10, 0, 0, 2])),
        ("arp, tagged", ethernet().vlan(7).arp_reply([10, 0, 0, 1], [10, 0, 0, 2])),
        ("arp of operation 256", ethernet().arp(256, A, [10, 0, 0, 1].into(), B, [10, 0, 0, 2].into())),
        ("arp of operation 300", ethernet().arp(300, A, [10, 0, 0, 1].into(), B, [10, 0, 0, 2].into())),
        ("arp, short", ethernet().raw(0x0806, &[0, 1, 8, 0, 6, 4, 0, 1])),
        ("mpls", ethernet().mpls(&[0x12345, 99], &[0x45; 40])),
        ("mpls, short", ethernet().raw(0x8847, &[1, 2])),
        ("mpls multicast", ethernet().raw(0x8848, &[0x12, 0x34, 0x5b, 64])),
        ("pbb", ethernet().raw(0x88e7, &[0x11; 46])),
        ("ipv4 of a header that is too long", broken),
        ("ipv4, short", ethernet().raw(0x0800, &[0x45, 0, 0, 20])),
        ("ipv6, short", ethernet().raw(0x86dd, &[0x60, 0, 0, 0])),
        ("an Ethernet header alone", ethernet().raw(0x0800, &[])),
    ]
}

fn transport(ip: fn() -> IpFrame) -> Vec<(&'static str, Vec<u8>)> {
    let mut data_offset = ip().tcp(7, 8).build();
    let at = data_offset.len() - 8;
    data_offset[at] = 0x40;
    vec![
        ("tcp", ip().tcp(0x401, 0x8102).build()),
        ("tcp of a data offset that is too small", data_offset),
        ("udp", ip().udp(53, 5353).payload(b"name")),
        ("sctp", ip().sctp(2905, 36412).build()),
        ("icmp", ip().icmp(3, 13, [0; 4]).build()),
        ("ping", ip().echo_request(1, 2).build()),
        ("protocol 89", ip().proto(89).payload(&[9; 24])),
        ("tcp, cut off", ip().proto(6).payload(&[0, 80, 0, 81])),
        ("udp, cut off", ip().proto(17).payload(&[0, 80, 0, 81])),
        ("icmp, cut off", ip().proto(1).payload(&[3, 1])),
        ("first fragment of tcp", ip().fragment(0, true, 7).tcp(80, 81).build()),
        ("first fragment of udp", ip().fragment(0, true, 7).udp(80, 81).build()),
        ("first fragment of sctp", ip().fragment(0, true, 7).sctp(80, 81).build()),
        ("first fragment of icmp", ip().fragment(0, true, 7).icmp(3, 13, [0; 4]).build()),
        ("middle fragment of tcp", ip().fragment(3, true, 7).tcp(80, 81).build()),
        ("last fragment of udp", ip().fragment(3, false, 7).udp(80, 81).build()),
        ("last fragment of icmp", ip().fragment(3, false, 7).icmp(3, 13, [0; 4]).build()),
    ]
}

fn neighbors() -> Vec<(&'static str, Vec<u8>)> {
    let (me, you) = ([0xfe80, 0, 0, 0, 0, 0, 0, 1], [0xfe80, 0, 0, 0, 0, 0, 0, 2]);
    let chain = || v6().extension(0, &[0; 6]).extension(60, &[0; 6]);
    let mut other_code = ethernet().neighbor_advert(you, me);
    other_code[55] = 1;
    vec![
        ("solicitation", ethernet().neighbor_solicit(me, you)),
        ("advertisement", ethernet().neighbor_advert(you, me)),
        ("advertisement of code 1", other_code),
        ("first fragment of an advertisement", v6().fragment(0, true, 7).icmp(136, 0, [0; 4]).payload(&[1; 24])),
        ("extension headers and tcp", chain().tcp(5, 6).build()),
        ("extension headers and nothing", chain().proto(59).build()),
        ("authentication header", v6().extension(51, &[0; 10]).udp(5, 6).build()),
        ("extension header that is too long", v6().proto(0).payload(&[6, 9, 0, 0, 0, 0, 0, 0])),
        ("atomic fragment", v6().fragment(0, false, 7).tcp(5, 6).build()),
    ]
}
