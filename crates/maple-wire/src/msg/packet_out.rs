//! Packet-out: a packet that the controller has a switch send (1.0 §5.3.6, 1.3 §7.3.7).

use crate::flow::Action;
use crate::port::PortNo;

/// A packet that the controller has a switch send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketOut {
    /// Which of the switch's buffered packets, or [`super::NO_BUFFER`] when `data` is the packet.
    pub buffer_id: u32,
    /// The port that the packet counts as having come in by: [`PortNo::CONTROLLER`] or a real one.
    pub in_port: PortNo,
    /// What to do with it.
    pub actions: Vec<Action>,
    /// The frame; empty with a buffer id.
    pub data: Vec<u8>,
}
