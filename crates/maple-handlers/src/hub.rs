//! A hub, and the encoder of packet-outs.

use maple_controller::session::SwitchInfo;
use maple_wire::msg::{NO_BUFFER, PacketInView};
use maple_wire::packet::ethernet;
use maple_wire::{PortNo, Version};

use crate::handler::{Handler, install_table_miss};
use crate::replies::Replies;

/// Sends every packet out of all ports except its ingress port. It uses packet-outs and installs no rules. It drops
/// packets to addresses that bridges never forward.
#[derive(Debug, Default)]
pub struct Hub;

impl Handler for Hub {
    fn switch_up(&mut self, _: &SwitchInfo, out: &mut Replies) {
        install_table_miss(out);
    }

    fn packet_in(&mut self, packet: &PacketInView<'_>, out: &mut Replies) {
        if let Some(in_port) = packet.in_port() {
            flood(packet, in_port, out);
        }
    }
}

/// Answers a packet with a packet-out to all ports: by its buffer id if the switch buffered it, otherwise with its
/// bytes. Ignores a packet that bridges never forward.
pub(crate) fn flood(packet: &PacketInView<'_>, in_port: PortNo, out: &mut Replies) {
    if packet.data().first_chunk().is_some_and(|to| ethernet::is_reserved(*to)) {
        return;
    }
    send(packet, in_port, PortNo::FLOOD, out);
}

/// Answers a packet with a packet-out to one port.
pub(crate) fn send(packet: &PacketInView<'_>, in_port: PortNo, to: PortNo, out: &mut Replies) {
    let data = if packet.buffer_id() == NO_BUFFER { packet.data() } else { &[] };
    let message = match out.version() {
        Version::Of10 => {
            let (Some(in_port), Some(to)) = (in_port.to_of10(), to.to_of10()) else { return };
            let message = out.append_two(&PACKET_OUT10, data);
            write_at(message, 12, in_port.to_be_bytes());
            write_at(message, 20, to.to_be_bytes());
            message
        }
        Version::Of13 => {
            let message = out.append_two(&PACKET_OUT13, data);
            write_at(message, 12, in_port.0.to_be_bytes());
            write_at(message, 28, to.0.to_be_bytes());
            message
        }
    };
    write_at(message, 4, packet.xid().to_be_bytes());
    write_at(message, 8, packet.buffer_id().to_be_bytes());
}

/// Overwrites the bytes from `at` on. Does nothing if the message is too short.
#[inline]
pub(crate) fn write_at<const N: usize>(message: &mut [u8], at: usize, bytes: [u8; N]) {
    if let Some(part) = message.get_mut(at..at + N) {
        part.copy_from_slice(&bytes);
    }
}

/// A packet-out with one output action in 1.0 (§5.3.6). To fill in: xid 4, buffer 8, in port 12, port 20.
const PACKET_OUT10: [u8; 24] = [1, 13, 0, 24, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 8, 0, 0, 0, 0];

/// A packet-out with one output action in 1.3 (§7.3.7). To fill in: xid 4, buffer 8, in port 12, port 28.
const PACKET_OUT13: [u8; 40] = [
    4, 13, 0, 40, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, // up to the actions
    0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, // output
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{decoded, packet_in};
    use maple_wire::msg::PacketOut;
    use maple_wire::packet::build::Frame;
    use maple_wire::{Action, Message};

    #[test]
    fn packets_are_flooded_in_both_versions() {
        for version in [Version::Of10, Version::Of13] {
            for buffer_id in [7, NO_BUFFER] {
                let frame = Frame::ethernet([1; 6], [2; 6]).raw(0x9999, &[1, 2, 3]);
                let message = packet_in(version, 99, buffer_id, 3, &frame);
                let mut out = Replies::new(version);
                Hub.packet_in(&PacketInView::new_checked(version, &message).unwrap(), &mut out);
                let data = if buffer_id == NO_BUFFER { frame } else { vec![] };
                let actions = vec![Action::output(PortNo::FLOOD)];
                let expected = PacketOut { buffer_id, in_port: PortNo(3), actions, data };
                assert_eq!(decoded(out.bytes()), [(99, Message::PacketOut(expected))]);
            }
        }
    }

    #[test]
    fn frames_to_reserved_addresses_are_not_flooded() {
        for (to, answers) in [([1, 0x80, 0xc2, 0, 0, 0xf], 0), ([1, 0x80, 0xc2, 0, 0, 0x10], 1), ([0xff; 6], 1)] {
            let frame = Frame::ethernet(to, [2; 6]).raw(0x9999, &[1, 2, 3]);
            let message = packet_in(Version::Of13, 99, NO_BUFFER, 3, &frame);
            let mut out = Replies::new(Version::Of13);
            Hub.packet_in(&PacketInView::new_checked(Version::Of13, &message).unwrap(), &mut out);
            assert_eq!(decoded(out.bytes()).len(), answers, "{to:02x?}");
        }
    }

    #[test]
    fn a_packet_too_long_for_a_packet_out_is_counted_and_dropped() {
        let message = packet_in(Version::Of10, 1, NO_BUFFER, 3, &vec![0; 65_517]);
        let mut out = Replies::new(Version::Of10);
        Hub.packet_in(&PacketInView::new_checked(Version::Of10, &message).unwrap(), &mut out);
        assert_eq!((out.bytes().len(), out.counts().unencodable), (0, 1));
    }
}
