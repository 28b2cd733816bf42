//! The kinds of frames between two hosts, and their deliveries.

use maple_wire::{Field, Packet};

use crate::host::FlowKind;

/// Frames from one host to another, of one kind. Answers count for the host that answers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PairKey {
    /// The sender's name.
    pub src: String,
    /// The receiver's name.
    pub dst: String,
    /// The kind of the frames.
    pub kind: FlowKind,
}

/// The deliveries of frames from one host to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PairCounters {
    /// Frames that the first host sent to the second.
    pub sent: u64,
    /// Frames that arrived at the second host. Each copy counts.
    pub delivered: u64,
}

/// Returns the sender, the receiver and the kind of a frame; `None` for frames that are not unicast between two hosts,
/// and for address resolution. `name` finds hosts by their hardware addresses.
pub(crate) fn classify(frame: &[u8], name: impl Fn([u8; 6]) -> Option<String>) -> Option<PairKey> {
    let packet = Packet::new(frame, 0);
    let get = |field| packet.get(field).map(|value| value as u16);
    let server = |a: Option<u16>, b: Option<u16>| a.zip(b).map(|(a, b)| a.min(b));
    let kind = if let Some(port) = server(get(Field::TcpSrc), get(Field::TcpDst)) {
        FlowKind::Tcp(port)
    } else if let Some(port) = server(get(Field::UdpSrc), get(Field::UdpDst)) {
        FlowKind::Udp(port)
    } else if matches!(get(Field::Icmpv4Type), Some(0 | 8)) || matches!(get(Field::Icmpv6Type), Some(128 | 129)) {
        FlowKind::Ping
    } else {
        return None;
    };
    let address = |at: usize| frame[at..at + 6].try_into().ok().and_then(&name);
    Some(PairKey { src: address(6)?, dst: address(0)?, kind })
}
