//! A packet that a switch sent to the controller, and how much of it is here.

use std::sync::Arc;

use maple_wire::msg::{NO_BUFFER, PacketIn};
use maple_wire::{Constraint, Dpid, Field, Packet, PortNo};

use crate::network::Location;
use crate::trace::Fields;

/// A packet that a switch sent to the controller, or could send.
#[derive(Clone, Debug)]
pub(in crate::engine) struct ReceivedPacket {
    /// The captured bytes.
    pub frame: Arc<[u8]>,
    /// The packet's length on the wire, in bytes.
    pub total_len: usize,
    /// The switch's buffer that holds it, or [`maple_wire::msg::NO_BUFFER`].
    pub buffer_id: u32,
    /// The port where it came in.
    pub at: Location,
    /// Whether nobody has sent it: the engine has made it up, to decide packets before they come.
    pub is_made_up: bool,
}

impl ReceivedPacket {
    /// Creates a packet that came in by a port, of which the switch keeps no copy.
    pub fn new(frame: Arc<[u8]>, total_len: usize, at: Location) -> ReceivedPacket {
        ReceivedPacket { frame, total_len, buffer_id: NO_BUFFER, at, is_made_up: false }
    }

    /// Creates the packet of a switch's packet-in; `None` if that does not say where it came in.
    pub fn from_packet_in(dpid: Dpid, packet_in: PacketIn) -> Option<ReceivedPacket> {
        let at = Location::new(dpid, packet_in.in_port()?);
        let PacketIn { buffer_id, total_len, data, .. } = packet_in;
        let total_len = usize::from(total_len).max(data.len());
        Some(ReceivedPacket { buffer_id, ..ReceivedPacket::new(data.into(), total_len, at) })
    }

    /// Creates a packet that could come in by a port, and that nobody has sent.
    pub fn made_up(frame: &Arc<[u8]>, at: Location) -> ReceivedPacket {
        ReceivedPacket { is_made_up: true, ..ReceivedPacket::new(Arc::clone(frame), frame.len(), at) }
    }

    /// Returns the packet's fields.
    pub fn packet(&self) -> Packet<'_> {
        Packet::with_wire_len(&self.frame, self.at.port.0, self.total_len)
    }

    /// Reports whether the packet certainly has no VLAN tag.
    pub fn is_untagged(&self) -> bool {
        let packet = self.packet();
        let known = self.is_whole() || packet.is_captured(Field::VlanVid);
        known && packet.switch_value(Field::VlanVid) == Some(0)
    }

    /// Reports whether all bytes of the packet were captured.
    pub fn is_whole(&self) -> bool {
        self.frame.len() >= self.total_len
    }

    /// Returns the packet-in with which a switch sends a packet that no rule matches.
    pub fn into_packet_in(self) -> PacketIn {
        PacketIn {
            buffer_id: self.buffer_id,
            total_len: u16::try_from(self.total_len).unwrap_or(u16::MAX),
            ..PacketIn::new(self.at.port.0, self.frame.to_vec())
        }
    }
}

/// Returns the constraint that a packet comes in by `port`.
pub(in crate::engine) fn from_port(port: PortNo) -> Constraint {
    Constraint::exact(Field::InPort, u128::from(port.0))
}

/// The fields of a packet that may be captured in part only. Remembers whether a field beyond the captured bytes was
/// read.
pub(in crate::engine) struct CapturedFields<'a> {
    packet: Packet<'a>,
    whole: bool,
    pub read_uncaptured: std::cell::Cell<bool>,
}

impl<'a> CapturedFields<'a> {
    pub fn new(received: &'a ReceivedPacket) -> CapturedFields<'a> {
        CapturedFields {
            packet: received.packet(),
            whole: received.is_whole(),
            read_uncaptured: std::cell::Cell::new(false),
        }
    }
}

impl Fields for CapturedFields<'_> {
    fn value(&self, field: Field) -> Option<u128> {
        if !self.whole && !self.packet.is_captured(field) {
            self.read_uncaptured.set(true);
        }
        self.packet.value(field)
    }

    fn is_captured(&self, field: Field) -> bool {
        self.packet.is_captured(field)
    }
}
