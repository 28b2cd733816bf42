//! Frames given byte by byte, with their fields.

use crate::field::Field::{self, *};
use crate::packet::{Frame, Packet, build, ethernet, lldp, mpls, text};

const A: [u8; 6] = [2, 0, 0, 0, 0, 1];
const B: [u8; 6] = [2, 0, 0, 0, 0, 2];

/// Returns the bytes that hexadecimal digits represent. White space between them is skipped.
fn hex(text: &str) -> Vec<u8> {
    let digits: String = text.split_whitespace().collect();
    (0..digits.len()).step_by(2).map(|i| u8::from_str_radix(&digits[i..i + 2], 16).unwrap()).collect()
}

/// Checks the fields that belong to the frame's own headers: these values, and no others.
#[track_caller]
fn check(frame: &[u8], summary: &str, expect: &[(Field, u128)]) {
    let packet = Packet::with_wire_len(frame, 1, frame.len());
    let always = [InPort, InPhyPort, Metadata, TunnelId, EthDst, EthSrc, VlanVid];
    for field in Field::ALL {
        match expect.iter().find(|(expected, _)| *expected == field) {
            Some((_, value)) => assert_eq!(packet.get(field), Some(*value), "{field}"),
            None if always.contains(&field) => {}
            None => assert_eq!(packet.get(field), None, "{field}"),
        }
    }
    assert_eq!(text::summary(&packet), summary);
}

#[test]
fn a_tagged_tcp_frame() {
    let bytes = hex("02 00 00 00 00 02  02 00 00 00 00 01  81 00 60 05  08 00
        45 b9 00 28 00 00 00 00 40 06 66 15 0a 00 00 01 0a 00 00 02
        04 d2 00 50 00 00 00 00 00 00 00 00 50 02 ff ff 96 be 00 00");
    let built =
        Frame::ethernet(B, A).tag(0x8100, 5, 3).ipv4([10, 0, 0, 1], [10, 0, 0, 2]).dscp(46).ecn(1).tcp(1234, 80);
    assert_eq!(built.build(), bytes);
    let fields = [
        (InPort, 1),
        (InPhyPort, 1),
        (Metadata, 0),
        (TunnelId, 0),
        (EthDst, 0x0200_0000_0002),
        (EthSrc, 0x0200_0000_0001),
        (EthType, 0x800),
        (VlanVid, 0x1005),
        (VlanPcp, 3),
        (IpDscp, 46),
        (IpEcn, 1),
        (IpProto, 6),
        (Ipv4Src, 0x0a00_0001),
        (Ipv4Dst, 0x0a00_0002),
        (TcpSrc, 1234),
        (TcpDst, 80),
    ];
    check(&bytes, "vlan 5 tcp 10.0.0.1:1234 > 10.0.0.2:80", &fields);
}

#[test]
fn arp_request_and_reply() {
    let bytes = hex("ff ff ff ff ff ff  02 00 00 00 00 01  08 06  00 01 08 00 06 04 00 01
        02 00 00 00 00 01 0a 00 00 01  00 00 00 00 00 00 0a 00 00 02");
    assert_eq!(Frame::ethernet(build::BROADCAST, A).arp_request([10, 0, 0, 1], [10, 0, 0, 2]), bytes);
    let fields = [
        (EthType, 0x806),
        (VlanVid, 0),
        (ArpOp, 1),
        (ArpSpa, 0x0a00_0001),
        (ArpTpa, 0x0a00_0002),
        (ArpSha, 0x0200_0000_0001),
        (ArpTha, 0),
    ];
    check(&bytes, "arp who-has 10.0.0.2 tell 10.0.0.1", &fields);
    let reply = Frame::ethernet(A, B).arp_reply([10, 0, 0, 2], [10, 0, 0, 1]);
    assert_eq!(text::summary(&Packet::new(&reply, 1)), "arp 10.0.0.2 is-at 02:00:00:00:00:02");
}

#[test]
fn transport_after_ipv4_options() {
    let frame = Frame::ethernet(B, A).ipv4([10, 0, 0, 1], [10, 0, 0, 2]).options(&[7, 3, 4]).udp(53, 99).payload(b"x");
    assert_eq!(frame[14], 0x46);
    let network = [(IpDscp, 0), (IpEcn, 0), (IpProto, 17), (Ipv4Src, 0x0a00_0001), (Ipv4Dst, 0x0a00_0002)];
    let fields = [&[(EthType, 0x800), (UdpSrc, 53), (UdpDst, 99)][..], &network].concat();
    check(&frame, "udp 10.0.0.1:53 > 10.0.0.2:99", &fields);
}

#[test]
fn fragments_of_ipv4() {
    let fragment =
        |offset| Frame::ethernet(B, A).ipv4([1, 2, 3, 4], [5, 6, 7, 8]).fragment(offset, true, 1).tcp(5, 6).build();
    let (first, later) = (fragment(0), fragment(3));
    assert_eq!(Packet::new(&first, 1).get(TcpDst), Some(0));
    assert_eq!(Packet::new(&first, 1).literal().get(TcpDst), Some(6));
    assert_eq!(Packet::new(&later, 1).get(TcpDst), Some(0));
    assert_eq!(text::summary(&Packet::new(&later, 1)), "fragment of proto 6 1.2.3.4 > 5.6.7.8");
}

#[test]
fn malformed_ipv4_headers_have_no_fields() {
    let frame = Frame::ethernet(B, A).ipv4([1, 2, 3, 4], [5, 6, 7, 8]).tcp(5, 6).build();
    let broken = |at: usize, byte| {
        let mut frame = frame.clone();
        frame[at] = byte;
        let packet = Packet::with_wire_len(&frame, 1, frame.len());
        assert_eq!((packet.get(Ipv4Src), packet.get(IpProto), packet.get(TcpDst)), (None, None, None));
        assert_eq!((packet.switch_value(Ipv4Src), packet.switch_value(TcpDst)), (Some(0), None));
    };
    broken(14, 0x44); // header of 16 bytes
    broken(14, 0x4b); // header longer than the packet
    broken(17, 19); // total length shorter than the header
    broken(17, 41); // total length longer than the frame
    let longer = Packet::with_wire_len(&frame[..40], 1, 54);
    assert_eq!(longer.get(Ipv4Src), Some(0x0102_0304), "a prefix of a frame is not malformed");
    assert_eq!(longer.get(TcpDst), None, "the data offset was not captured");
}

#[test]
fn ipv6_with_extension_headers() {
    let ip = || Frame::ethernet(B, A).ipv6([1; 16], [2; 16]).dscp(10).flow_label(0x12345);
    let frame =
        ip().extension(0, &[0; 6]).extension(43, &[0; 14]).fragment(0, true, 1).extension(60, &[]).tcp(5, 6).build();
    let fields = [
        (EthType, 0x86dd),
        (IpDscp, 10),
        (IpEcn, 0),
        (IpProto, 6),
        (Ipv6Src, u128::from_be_bytes([1; 16])),
        (Ipv6Dst, u128::from_be_bytes([2; 16])),
        (Ipv6Flabel, 0x12345),
        (Ipv6Exthdr, 0x78),
        (TcpSrc, 0),
        (TcpDst, 0),
    ];
    let summary = "tcp [101:101:101:101:101:101:101:101]:5 > [202:202:202:202:202:202:202:202]:6";
    check(&frame, summary, &fields);
    let later = ip().fragment(1, false, 1).tcp(5, 6).build();
    assert_eq!(Packet::new(&later, 1).get(IpProto), Some(44));
    assert_eq!(Packet::new(&later, 1).get(TcpSrc), None);
}

#[test]
fn extension_header_bits() {
    let bits = |numbers: &[u8], proto| {
        let ip = Frame::ethernet(B, A).ipv6([1; 16], [2; 16]);
        let frame = numbers.iter().fold(ip, |ip, number| ip.extension(*number, &[0; 6])).proto(proto).build();
        Packet::new(&frame, 1).get(Ipv6Exthdr).unwrap()
    };
    assert_eq!(bits(&[], 6), 0);
    assert_eq!(bits(&[], 59), 0x1);
    assert_eq!(bits(&[], 50), 0x2);
    assert_eq!(bits(&[51], 6), 0x4);
    assert_eq!(bits(&[60, 43, 60], 6), 0x28, "destination options may stand before routing and at the end");
    assert_eq!(bits(&[60, 60, 60], 6), 0x88, "but not three times");
    assert_eq!(bits(&[43, 43], 6), 0xa0);
    assert_eq!(bits(&[43, 0], 6), 0x160);
    assert_eq!(bits(&[60, 51, 43], 6), 0x12c);
}

#[test]
fn neighbor_discovery() {
    let (me, you) = ([0xfe80, 0, 0, 0, 0, 0, 0, 1], [0xfe80, 0, 0, 0, 0, 0, 0, 2]);
    let group = build::multicast_mac(build::solicited_node(you.into()));
    assert_eq!(group, [0x33, 0x33, 0xff, 0, 0, 2]);
    let solicit = Frame::ethernet(group, A).neighbor_solicit(me, you);
    let packet = Packet::new(&solicit, 1);
    assert_eq!(packet.get(Icmpv6Type), Some(135));
    assert_eq!(packet.get(Ipv6NdTarget), Some(0xfe80 << 112 | 2));
    assert_eq!(packet.get(Ipv6NdSll), Some(0x0200_0000_0001));
    assert_eq!(packet.get(Ipv6NdTll), None);
    assert_eq!(text::summary(&packet), "icmp6 fe80::1 > ff02::1:ff00:2 neighbor who-has fe80::2");
    let advert = Frame::ethernet(A, B).neighbor_advert(you, me);
    let packet = Packet::new(&advert, 1);
    assert_eq!(packet.get(Ipv6NdTll), Some(0x0200_0000_0002));
    assert_eq!(packet.get(Ipv6NdSll), None);
    let mut other_code = advert.clone();
    other_code[55] = 1;
    assert_eq!(Packet::new(&other_code, 1).get(Ipv6NdTarget), None);
}

#[test]
fn two_tags_hide_what_follows() {
    let frame = Frame::ethernet(B, A).service_vlan(7).vlan(5).ipv4([1, 2, 3, 4], [5, 6, 7, 8]).tcp(1, 2).build();
    let tags: Vec<(u16, u16)> = Packet::new(&frame, 1).vlans().map(|tag: ethernet::Vlan| (tag.tpid, tag.vid)).collect();
    assert_eq!(tags, [(0x88a8, 7), (0x8100, 5)]);
    let summary = "vlan 7 vlan 5 eth_type 0x8100 02:00:00:00:00:01 > 02:00:00:00:00:02";
    check(&frame, summary, &[(EthType, 0x8100), (VlanVid, 0x1007), (VlanPcp, 0)]);
}

#[test]
fn frames_with_a_length_instead_of_a_type() {
    let spanning_tree = hex("01 80 c2 00 00 00  02 00 00 00 00 01  00 03  42 42 03");
    check(&spanning_tree, "eth_type 0x05ff 02:00:00:00:00:01 > 01:80:c2:00:00:00", &[(EthType, 0x05ff)]);
    let ip = &Frame::ethernet(B, A).ipv4([1, 2, 3, 4], [5, 6, 7, 8]).tcp(1, 2).build()[14..];
    let snap = build::snap(B, A, 0x800, ip);
    assert_eq!(Packet::new(&snap, 1).get(TcpDst), Some(2));
}

#[test]
fn mpls_and_backbone_frames() {
    let frame = Frame::ethernet(B, A).mpls(&[16, 17], b"");
    check(&frame, "mpls 16/17", &[(EthType, 0x8847), (MplsLabel, 16), (MplsTc, 0), (MplsBos, 0)]);
    let stack: Vec<mpls::Entry> = Packet::new(&frame, 1).mpls_stack().collect();
    assert_eq!(stack[1], mpls::Entry { label: 17, tc: 0, bottom: true, ttl: 64 });
    let backbone = Frame::ethernet(B, A).raw(0x88e7, &[0x20, 0x12, 0x34, 0x56]);
    assert_eq!(Packet::new(&backbone, 1).get(PbbIsid), Some(0x123456));
}

#[test]
fn lldp_entries_are_read_as_written() {
    let tlvs = [
        lldp::Tlv::ChassisId { subtype: lldp::CHASSIS_LOCAL, id: b"dpid:1" },
        lldp::Tlv::PortId { subtype: lldp::PORT_LOCAL, id: b"3" },
        lldp::Tlv::Ttl(120),
        lldp::Tlv::Organisation { oui: [0, 1, 2], subtype: 9, value: b"code" },
        lldp::Tlv::Other { kind: 5, value: b"name" },
    ];
    let frame = Frame::ethernet(lldp::MULTICAST, A).lldp(&tlvs);
    assert_eq!(frame[12..25], hex("88 cc 02 07 07 64 70 69 64 3a 31 04 02"));
    let read: Result<Vec<_>, _> = lldp::tlvs(&Packet::new(&frame, 1)).unwrap().collect();
    assert_eq!(read.unwrap(), tlvs);
    check(&frame, "lldp chassis dpid:1 port 3", &[(EthType, 0x88cc)]);
    let cut: Vec<_> = lldp::tlvs(&Packet::new(&frame[..20], 1)).unwrap().collect();
    assert_eq!(cut.len(), 1);
    assert_eq!(cut[0].as_ref().unwrap_err().to_string(), "LLDP entry: 6 bytes, 9 needed");
}

#[test]
fn values_are_read_as_they_are_written() {
    let check = |field: Field, value: u128, expect: &str| {
        assert_eq!(text::field_value_to_string(field, value), expect);
        assert_eq!(text::parse_field_value(field, expect), Ok(value));
    };
    check(EthSrc, 0x0200_0000_00ff, "02:00:00:00:00:ff");
    check(Ipv4Dst, 0x0a00_0001, "10.0.0.1");
    check(Ipv6Src, 0xfe80 << 112 | 1, "fe80::1");
    check(EthType, 0x800, "0x0800");
    check(VlanVid, 0x1005, "0x1005");
    check(TcpDst, 80, "80");
    check(InPort, 0xffff_fffe, "LOCAL");
    check(Metadata, 1, "0x0000000000000001");
    assert_eq!(text::parse_field_value(EthSrc, "0x1"), Ok(1));
    assert_eq!(text::parse_field_value(EthType, "2048"), Ok(2048));
    let error = text::parse_field_value(TcpDst, "65536").unwrap_err().to_string();
    assert_eq!(error, "tcp_dst: `65536` is not a number from 0 to 0xffff");
    let error = text::parse_field_value(EthSrc, "2:0:0:0:0").unwrap_err().to_string();
    assert_eq!(error, "eth_src: `2:0:0:0:0` is not a hardware address such as 02:00:00:00:00:01");
}

proptest::proptest! {
    #[test]
    fn every_value_of_every_field_and_every_port_and_id_is_read_as_it_is_written(value: u128, at in 0..Field::ALL.len()) {
        let field = Field::ALL[at];
        let value = value & field.full_mask();
        assert_eq!(text::parse_field_value(field, &text::field_value_to_string(field, value)), Ok(value));
        let (port, dpid) = (crate::PortNo(value as u32 | 0xffff_ff00), crate::Dpid(value as u64));
        assert_eq!(port.to_string().parse(), Ok(port));
        assert_eq!(crate::PortNo(value as u32).to_string().parse(), Ok(crate::PortNo(value as u32)));
        assert_eq!(dpid.to_string().parse(), Ok(dpid));
        let vid = value as u16 & 0xfff;
        let tagged = text::field_value_to_string(VlanVid, 0x1000 | u128::from(vid));
        for text in [vid.to_string(), format!("{vid:#x}"), tagged] {
            assert_eq!(text::parse_vlan_id(&text), Some(vid), "{text}");
        }
    }
}

#[test]
fn invalid_vlan_ids_and_ports_are_refused() {
    for text in ["", "4096", "0x2000", "-1", "+1", "x", "0x", "4116", "none", "99999999999999999999"] {
        assert_eq!(text::parse_vlan_id(text), None, "{text}");
    }
    for text in ["", "LOCALS", "4294967296", "-1", "0x", "1.0"] {
        assert!(text.parse::<crate::PortNo>().is_err(), "{text}");
    }
    assert_eq!("local".parse(), Ok(crate::PortNo::LOCAL));
}

#[test]
fn a_payload_is_what_follows_the_innermost_header_without_padding() {
    let payload = |frame: &[u8]| Packet::new(frame, 1).payload().to_vec();
    let ethernet = || Frame::ethernet([0, 0, 0, 0, 0, 2], [0, 0, 0, 0, 0, 1]);
    let ip = || ethernet().vlan(3).ipv4([10, 0, 0, 1], [10, 0, 0, 2]);
    let udp = ip().udp(1, 2).payload(b"hello");
    assert_eq!(payload(&udp), b"hello");
    assert_eq!(payload(&[&udp[..], &[0; 20]].concat()), b"hello", "padding is none of it");
    assert_eq!(payload(&udp[..udp.len() - 2]), b"hel", "what there is of it");
    assert_eq!(payload(&udp[..30]), b"");
    assert_eq!(payload(&ip().tcp(1, 2).payload(b"x")), b"x");
    assert_eq!(payload(&ip().icmp(8, 0, [1, 2, 3, 4]).payload(b"x")), [1, 2, 3, 4, b'x']);
    assert_eq!(payload(&ethernet().ipv6([0; 16], [1; 16]).sctp(1, 2).payload(b"x")), b"x");
    assert_eq!(payload(&ip().proto(2).payload(b"igmp")), b"igmp");
    assert_eq!(payload(&ip().fragment(100, false, 7).udp(1, 2).payload(b"x")).len(), 9, "a later part has no header");
    assert_eq!(payload(&ethernet().raw(0x88b5, b"x")), b"x");
    assert_eq!(payload(&[1, 2, 3]), b"");
}
