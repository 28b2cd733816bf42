//! The frames that hosts send, and their recognition at the egress port.

use maple_wire::eth_type;
use maple_wire::packet::build::Frame;

use crate::workload::NetworkHost;

/// The mark of our frames. The flow's number follows it.
const MARK: [u8; 4] = *b"mplf";
/// The position of the mark in bytes: after Ethernet, IPv4 and UDP, or after Ethernet and ARP.
const AT: usize = 42;
/// The length of the shortest Ethernet frame without its checksum, in bytes (IEEE 802.3 §4.4.2).
const SHORTEST: usize = 60;
/// The UDP source and destination ports of frames. Chosen: no service has them, so no policy treats them in a special
/// way.
const PORTS: (u16, u16) = (31_256, 22_635);
/// The operation of an ARP request (RFC 826).
const REQUEST: u8 = 1;

/// Builds the first packet of a flow.
pub(crate) fn packet(src: &NetworkHost, dst: &NetworkHost, flow: u32) -> Vec<u8> {
    let mut payload = [0; SHORTEST - AT];
    payload[..4].copy_from_slice(&MARK);
    payload[4..8].copy_from_slice(&flow.to_be_bytes());
    let frame = Frame::ethernet(dst.mac, src.mac).ipv4(src.ip.octets(), dst.ip.octets());
    frame.udp(PORTS.0, PORTS.1).payload(&payload)
}

/// Builds a host's announcement: an ARP request for another host, or for itself if there is none.
pub(crate) fn announcement(host: &NetworkHost, to: Option<&NetworkHost>, flow: u32) -> Vec<u8> {
    let (mac, ip) = to.map_or(([0xff; 6], host.ip), |to| (to.mac, to.ip));
    let mut frame = Frame::ethernet(mac, host.mac).arp_request(host.ip.octets(), ip.octets());
    frame.extend(MARK);
    frame.extend(flow.to_be_bytes());
    frame.resize(SHORTEST, 0);
    frame
}

/// Builds a packet from an address that was never seen, to a host.
pub(crate) fn stranger(number: u32, to: &NetworkHost) -> Vec<u8> {
    let [a, b, c, d] = number.to_be_bytes();
    let frame = Frame::ethernet(to.mac, [0x06, 0, a, b, c, d]).ipv4([11, b, c, d], to.ip.octets());
    frame.udp(PORTS.0, PORTS.1).payload(&[0; SHORTEST - AT])
}

/// Returns the number of the flow to which a frame belongs.
pub(crate) fn flow_of(frame: &[u8]) -> Option<u32> {
    let number = frame.get(AT..AT + 8)?.strip_prefix(&MARK)?;
    Some(u32::from_be_bytes(number.try_into().ok()?))
}

/// Returns the requested address and the requesting host's addresses, if the frame is an ARP request other than our
/// announcements.
pub(crate) fn arp_request(frame: &[u8]) -> Option<([u8; 4], [u8; 6], [u8; 4])> {
    let is_request =
        frame.get(12..14)? == eth_type::ARP.to_be_bytes() && *frame.get(21)? == REQUEST && flow_of(frame).is_none();
    let at = |at: usize| frame.get(at..at + 4)?.try_into().ok();
    is_request.then(|| Some((at(38)?, frame.get(22..28)?.try_into().ok()?, at(28)?)))?
}

/// Builds a host's answer to an ARP request.
pub(crate) fn answer(host: &NetworkHost, mac: [u8; 6], ip: [u8; 4]) -> Vec<u8> {
    Frame::ethernet(mac, host.mac).arp(2, host.mac, host.ip, mac, ip.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use maple_wire::{Field, Packet};

    fn host(n: u8) -> NetworkHost {
        NetworkHost { switch: 0, port: n.into(), mac: [2, 0, 0, 0, 0, n], ip: [10, 0, 0, n].into() }
    }

    #[test]
    fn a_flow_is_recognised_in_each_frame_of_ours_and_in_no_other() {
        let frame = packet(&host(1), &host(2), 0x0102_0304);
        assert_eq!((frame.len(), flow_of(&frame)), (60, Some(0x0102_0304)));
        assert_eq!(Packet::new(&frame, 1).get(Field::UdpDst), Some(22_635));
        for to in [None, Some(&host(2))] {
            let frame = announcement(&host(1), to, 7);
            assert_eq!((frame.len(), flow_of(&frame), arp_request(&frame)), (60, Some(7), None));
            assert_eq!(Packet::new(&frame, 1).get(Field::ArpSpa), Some(0x0a00_0001));
        }
        assert_eq!(flow_of(&stranger(7, &host(2))), None);
        assert_eq!(flow_of(&frame[..44]), None);
    }

    #[test]
    fn a_question_of_the_controller_is_answered_by_the_host_that_it_asks_for() {
        let question = Frame::ethernet([0xff; 6], [6; 6]).arp_request([0, 0, 0, 0], [10, 0, 0, 2]);
        assert_eq!(arp_request(&question), Some(([10, 0, 0, 2], [6; 6], [0, 0, 0, 0])));
        let answer = answer(&host(2), [6; 6], [0, 0, 0, 0]);
        assert_eq!(Packet::new(&answer, 2).get(Field::ArpSpa), Some(0x0a00_0002));
        assert_eq!((arp_request(&answer), arp_request(&question[..30])), (None, None));
    }
}
