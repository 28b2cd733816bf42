//! The outputs of a discovery: to its owner, to other shards, to people.

use maple_core::engine::Time;
use maple_core::network::Location;

use super::Attachment;

/// A task for the owner of a discovery. Outputs must be handled in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiscoveryOutput {
    /// Send a probe out of this port. [`frames`](super::Discovery::frames) makes its frames when it leaves.
    Probe {
        /// The port.
        at: Location,
    },
    /// Pass this message to the discovery that owns the switch `to.switch`.
    Message {
        /// The port that the message is about.
        to: Location,
        /// The message.
        message: PeerMessage,
    },
    /// The thing that is attached to a port has changed.
    Attachment {
        /// The port.
        at: Location,
        /// The new attachment.
        now: Attachment,
        /// The attachment before.
        before: Attachment,
    },
    /// Count this anomaly.
    Anomaly {
        /// The port.
        at: Location,
        /// The anomaly to count.
        anomaly: Anomaly,
        /// Whether it is the first of its kind at this port since the port came up. Only that one is reported.
        first: bool,
    },
}

/// A message from one end of a possible link to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerMessage {
    /// Your probe has arrived.
    ProbeReceived {
        /// The port where it arrived.
        by: Location,
        /// The time when it was sent.
        sent: Time,
    },
    /// A port is down, or its side of the link has ended.
    PortGone {
        /// The port.
        peer: Location,
        /// The time. Probes sent after it belong to a later link.
        when: Time,
    },
    /// No probe sent after this one was reported. Unless you have received a later one, our link ends. This must be
    /// delivered after everything that the switch has sent so far is read.
    Unanswered {
        /// The port that sent the probes.
        peer: Location,
        /// The time when its last reported probe was sent.
        sent: Time,
    },
}

/// The origin of an LLDP frame or broadcast probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeOrigin {
    /// Maple, or so it claims.
    Own,
    /// Another device: it is an ordinary packet.
    Foreign,
}

/// Something unusual about a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anomaly {
    /// Its code is wrong: a forged probe, or another Maple controls the switch at the other end.
    Forged,
    /// A probe that is too old, or has arrived before: a replay.
    Replayed,
    /// A probe that came back to the port that it left by.
    Reflected,
    /// More ports of switches are on the segment than a port remembers.
    TooManyPeers,
    /// Probes arrive in one direction only.
    OneWay,
    /// A bridge between the port and another switch does not forward LLDP. Only broadcast probes pass.
    Bridged,
    /// LLDP, or a probe, arrived at a port that is declared an edge port.
    AtEdge,
    /// No switch is found at a port that is declared a link port.
    NoLink,
}

impl Anomaly {
    /// Returns the bit of the anomaly in a set of them.
    pub(super) fn bit(self) -> u8 {
        1 << self as u8
    }

    /// Reports whether the anomaly is a lasting state, not an event.
    pub(super) fn is_state(self) -> bool {
        matches!(self, Anomaly::OneWay | Anomaly::Bridged | Anomaly::NoLink)
    }
}

impl std::fmt::Display for Anomaly {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Anomaly::Forged => "LLDP with Maple's entry but a wrong code: forged, or from another Maple controller",
            Anomaly::Replayed => {
                "a probe that is too old or arrived twice: replayed, or the network or this controller was slow"
            }
            Anomaly::Reflected => "a probe came back to the port that it left by",
            Anomaly::TooManyPeers => "more than 64 ports of switches are on one segment; the others are ignored",
            Anomaly::OneWay => "probes arrive in one direction only",
            Anomaly::Bridged => {
                "a bridge that filters LLDP is between this port and another switch: it must forward frames with the VLAN \
                 tags of labels, and its address table must not be full (docs/networks.md)"
            }
            Anomaly::AtEdge => {
                "LLDP at a port that is declared an edge port: a cable leads to a switch, or a host sends it; the port stays \
                 an edge port"
            }
            Anomaly::NoLink => "declared a link port, and no switch is found there: nothing passes",
        })
    }
}

/// Makes the message that reports to `peer` that the port `at` is gone since `when`.
pub(super) fn gone(peer: Location, at: Location, when: Time) -> DiscoveryOutput {
    DiscoveryOutput::Message { to: peer, message: PeerMessage::PortGone { peer: at, when } }
}
