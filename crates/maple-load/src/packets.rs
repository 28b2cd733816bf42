//! The packet-ins that a switch sends, from a template.

use maple_wire::msg::PacketIn;
use maple_wire::packet::build::Frame;
use maple_wire::{Message, Version};

/// The port by which packets come in.
pub(crate) const NEAR: u32 = 1;
/// The port at which the destination of packets is.
pub(crate) const FAR: u32 = 2;
/// The length of a frame in bytes: the shortest of Ethernet, so that a packet-in has 82 bytes in 1.0 like those of
/// `cbench`.
const FRAME: usize = 64;
/// The position of the transaction id in a packet-in, in bytes (1.0 §5.1, 1.3 §7.1).
const XID: usize = 4;
/// The position of the buffer id in a packet-in, in bytes (1.0 §5.4.1, 1.3 §7.4.1).
const BUFFER_ID: usize = 8;
/// The position of the source address in a frame, in bytes (IEEE 802.3 §3.1).
const SOURCE: usize = 6;

/// A packet-in to copy.
#[derive(Debug)]
pub(crate) struct Template {
    bytes: Vec<u8>,
    /// The offset of the frame in bytes.
    frame: usize,
}

/// Returns the address of the destination at a switch's far port.
pub(crate) fn destination(switch: u64) -> [u8; 6] {
    let [.., a, b, c] = switch.to_be_bytes();
    [0x06, 0, 0, a, b, c]
}

/// Returns a source address of a switch.
fn source(switch: u64, number: u32) -> [u8; 6] {
    let [.., low] = switch.to_be_bytes();
    let [a, b, c, d] = number.to_be_bytes();
    [0x02, low, a, b, c, d]
}

impl Template {
    /// Creates the template of a switch's packet-ins (its datapath id is below 2^24).
    pub fn new(version: Version, switch: u64) -> Template {
        let [.., high, low] = switch.to_be_bytes();
        let ethernet = Frame::ethernet(destination(switch), source(switch, 0));
        let headers = 14 + 20 + 8;
        let frame = ethernet
            .ipv4([10, 1, high, low], [10, 2, high, low])
            .udp(31_256, 22_635)
            .payload(&[0x55; FRAME - 14 - 20 - 8]);
        debug_assert_eq!(frame.len(), headers + FRAME - headers);
        let bytes = packet_in(version, NEAR, &frame);
        Template { frame: bytes.len() - frame.len(), bytes }
    }

    /// Appends the packet-in from the source address with this number.
    #[inline]
    pub fn append(&self, switch: u64, number: u32, buffer_id: u32, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.bytes);
        let message = &mut out[start..];
        stamp(message, buffer_id);
        let at = self.frame + SOURCE;
        message[at..at + 6].copy_from_slice(&source(switch, number));
    }

    /// Returns the length of one packet-in in bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }
}

/// Writes the number of a packet-in as its buffer id and transaction id.
#[inline]
pub(crate) fn stamp(message: &mut [u8], buffer_id: u32) {
    message[XID..XID + 4].copy_from_slice(&buffer_id.to_be_bytes());
    message[BUFFER_ID..BUFFER_ID + 4].copy_from_slice(&buffer_id.to_be_bytes());
}

/// Builds the packet-in that teaches a controller where the switch's destination is: a broadcast from its far port.
pub(crate) fn teaching(version: Version, switch: u64) -> Vec<u8> {
    let [.., high, low] = switch.to_be_bytes();
    announcement(version, FAR, destination(switch), [10, 2, high, low])
}

/// Builds the packet-in that teaches a controller where an address is: a broadcast from it.
pub(crate) fn announcement(version: Version, in_port: u32, mac: [u8; 6], ip: [u8; 4]) -> Vec<u8> {
    packet_in(version, in_port, &Frame::ethernet([0xff; 6], mac).arp_request(ip, ip))
}

/// Encodes a packet-in, with a buffer id whose answer does not count.
pub(crate) fn packet_in(version: Version, in_port: u32, frame: &[u8]) -> Vec<u8> {
    let message = Message::PacketIn(PacketIn { buffer_id: 0x8000_0000, ..PacketIn::new(in_port, frame.to_vec()) });
    message.to_bytes(version, 0).expect("both versions have packet-ins with a port alone")
}

#[cfg(test)]
mod tests {
    use super::*;
    use maple_wire::Field;
    use maple_wire::packet::Packet;

    #[test]
    fn a_packet_in_of_1_0_has_82_bytes_and_what_was_asked_for() {
        for (version, length) in [(Version::Of10, 82), (Version::Of13, 106)] {
            let template = Template::new(version, 0x1234);
            let mut out = Vec::new();
            template.append(0x1234, 7, 9, &mut out);
            assert_eq!((out.len(), template.len()), (length, length));
            let (header, Message::PacketIn(packet_in)) = Message::decode(&out).unwrap() else { panic!() };
            assert_eq!((header.xid, packet_in.buffer_id, packet_in.total_len), (9, 9, 64));
            assert_eq!(packet_in.in_port().map(|port| port.0), Some(NEAR));
            let packet = Packet::new(&packet_in.data, NEAR);
            assert_eq!(packet.get(Field::EthSrc), Some(0x0234_0000_0007));
            assert_eq!(packet.get(Field::EthDst), Some(0x0600_0000_1234));
            assert_eq!(packet.get(Field::UdpDst), Some(22_635));
        }
    }
}
