//! Packet-in: a packet that a switch sends to its controller (1.0 §5.4.1, 1.3 §7.4.1).

use crate::flow::Match;
use crate::port::PortNo;

/// Why a switch sent a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketInReason {
    /// No rule matched (`OFPR_NO_MATCH`).
    NoMatch,
    /// A rule said so (`OFPR_ACTION`).
    Action,
    /// The time to live was not valid (`OFPR_INVALID_TTL`, 1.3).
    InvalidTtl,
    /// Any other number.
    Other(u8),
}

/// A packet that a switch sends to its controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketIn {
    /// Where the switch keeps the packet, or [`super::NO_BUFFER`].
    pub buffer_id: u32,
    /// Length of the whole frame in bytes; `data` may be shorter.
    pub total_len: u16,
    /// Why.
    pub reason: PacketInReason,
    /// The table whose rule sent it; 0 in OpenFlow 1.0.
    pub table_id: u8,
    /// The cookie of the rule that sent it; all ones in OpenFlow 1.0 or where there is none.
    pub cookie: u64,
    /// The port it came in by, and other pipeline fields. In OpenFlow 1.0 just `in_port`.
    pub pipeline: Match,
    /// The frame, or its first bytes.
    pub data: Vec<u8>,
}

impl PacketIn {
    /// The port that the packet came in by, if the message says it.
    pub fn in_port(&self) -> Option<PortNo> {
        self.pipeline.get(crate::Field::InPort).map(|c| PortNo(c.value as u32))
    }
}
