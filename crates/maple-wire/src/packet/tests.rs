//! Bytes in, fields out.

use super::*;
use crate::field::Field::*;

const A: [u8; 6] = [2, 0, 0, 0, 0, 1];
const B: [u8; 6] = [2, 0, 0, 0, 0, 2];

#[track_caller]
fn check(frame: &[u8], expect: &[(Field, u128)]) {
    let packet = Packet::with_wire_len(frame, 1, frame.len());
    for (field, value) in expect {
        assert_eq!(packet.get(*field), Some(*value), "{field}");
        assert_eq!(packet.switch_value(*field), Some(*value), "{field}");
    }
}

#[test]
fn a_tcp_frame_has_its_fields() {
    let frame =
        Frame::ethernet(B, A).vlan(5).ipv4([10, 0, 0, 1], [10, 0, 0, 2]).dscp(46).ecn(1).tcp(1234, 80).payload(b"x");
    let expect = [
        (InPort, 1),
        (EthDst, 0x020000000002),
        (EthSrc, 0x020000000001),
        (EthType, 0x800),
        (VlanVid, 0x1005),
        (VlanPcp, 0),
        (IpDscp, 46),
        (IpEcn, 1),
        (IpProto, 6),
        (Ipv4Src, 0x0a000001),
        (Ipv4Dst, 0x0a000002),
        (TcpSrc, 1234),
        (TcpDst, 80),
    ];
    check(&frame, &expect);
    assert_eq!(Packet::new(&frame, 1).get(UdpSrc), None);
}
