//! What a session says: messages to send, what it learned, and why a connection ends.

use std::time::Duration;

use maple_core::engine::InstalledFlow;
use maple_wire::msg::Features;
use maple_wire::msg::stats::Desc;
use maple_wire::{Dpid, Error, Message, Port, Version};

use super::negotiate::Incompatible;
use crate::printable::printable;

/// One thing that the owner of a session has to do. In order.
#[derive(Debug)]
pub enum Output {
    /// Send this to the switch, in the session's version.
    Send {
        /// Transaction id.
        xid: u32,
        /// The message.
        message: Message,
    },
    /// The switch says that this is its datapath id. Answer with `Session::admit` or `Session::refuse`.
    Claim(Dpid),
    /// The handshake is done.
    Up(Box<SwitchInfo>),
    /// All rules that the switch has, as `Session::read_flows` asked.
    Flows(Vec<InstalledFlow>),
    /// A message for the engine: packet-in, port-status, flow-removed, error, barrier reply or statistics.
    Deliver {
        /// Transaction id.
        xid: u32,
        /// The message.
        message: Message,
    },
    /// The switch answered the probe that `Session::challenge` asked for.
    Alive,
    /// Something odd that does not end the session. The owner counts it; `first` is true the first time of its kind.
    Note {
        /// What.
        note: Note,
        /// Whether it is the first of its kind on this connection, and so deserves a line in the log.
        first: bool,
    },
    /// The connection ends once everything before is sent.
    Close(CloseReason),
}

/// All that the handshake found out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchInfo {
    /// The version spoken.
    pub version: Version,
    /// What the switch says of itself.
    pub features: Features,
    /// Its ports, whichever message they came in, with the changes since.
    pub ports: Vec<Port>,
    /// What it is in words; empty where it does not say. As it came: printed by [`SwitchInfo::text`].
    pub description: Desc,
}

impl SwitchInfo {
    /// Manufacturer, hardware and software in one line that is fit to print.
    pub fn text(&self) -> String {
        let Desc { manufacturer, hardware, software, .. } = &self.description;
        printable(format!("{manufacturer} {hardware} {software}").trim())
    }
}

/// Something odd that does not end a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// A message type that the version does not have, or that a switch never sends. Answered with `BAD_TYPE`.
    UnknownType(u8),
    /// A reply that nothing was asked for. Ignored.
    UnexpectedReply(u8),
    /// A packet-in before the handshake was done. Dropped.
    EarlyPacketIn,
    /// The switch refused one of the handshake's requests; class and code of its error.
    Refused(u16, u16),
    /// The switch does not tell its rules; those that may be ours are deleted.
    RulesUntold,
}

impl Note {
    /// One bit for each kind, to tell the first of a kind from the rest.
    pub(super) fn bit(self) -> u8 {
        match self {
            Note::UnknownType(_) => 1,
            Note::UnexpectedReply(_) => 2,
            Note::EarlyPacketIn => 4,
            Note::Refused(..) => 8,
            Note::RulesUntold => 16,
        }
    }
}

impl std::fmt::Display for Note {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Note::UnknownType(kind) => write!(f, "sent a message of type {kind}, which no switch sends"),
            Note::UnexpectedReply(kind) => write!(f, "sent a reply of type {kind} that nothing was asked for"),
            Note::EarlyPacketIn => f.write_str("sent packets before the handshake was done"),
            Note::Refused(class, code) => {
                write!(f, "refused a request of the handshake (error type {class} code {code})")
            }
            Note::RulesUntold => {
                f.write_str("does not tell its rules; those that may be of an earlier run are deleted")
            }
        }
    }
}

/// Why a connection ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CloseReason {
    /// It connected and closed without a word. Normal: scripts probe so whether a controller is there.
    #[error("closed without a word")]
    Probe,
    /// The peer closed.
    #[error("closed by the switch")]
    ByPeer,
    /// The socket failed.
    #[error("{0}")]
    Io(std::io::ErrorKind),
    /// The first message was not a hello.
    #[error("the first message is not a hello (version byte {version:#04x}, type {kind})")]
    NotHello {
        /// The version byte.
        version: u8,
        /// The type byte.
        kind: u8,
    },
    /// No common version.
    #[error(transparent)]
    Incompatible(#[from] Incompatible),
    /// The peer says that it can't speak with us.
    #[error("the switch refused the handshake (Maple speaks OpenFlow 1.0 and 1.3): {0}")]
    RefusedByPeer(String),
    /// A message that does not hold together.
    #[error("malformed message: {0}")]
    Malformed(#[from] Error),
    /// A message in another version than the one agreed on.
    #[error("message in version {0:#04x} after another was agreed on")]
    WrongVersion(u8),
    /// The handshake took too long.
    #[error("no {waiting_for} within {within:?}")]
    HandshakeTimeout {
        /// What was waited for.
        waiting_for: &'static str,
        /// How long.
        within: Duration,
    },
    /// A request was not answered.
    #[error("a request was not answered within {0:?}")]
    RequestTimeout(Duration),
    /// An echo request was not answered.
    #[error("dead: nothing heard, not even the answer to an echo within {0:?}")]
    EchoTimeout(Duration),
    /// An auxiliary connection.
    #[error("auxiliary connection {0}: Maple uses main connections only")]
    Auxiliary(u8),
    /// A live switch has this datapath id.
    #[error("datapath id {0} belongs to another connection, which is alive")]
    Duplicate(Dpid),
    /// The switch connected anew, and this connection did not answer.
    #[error("switch {0} connected anew, and this connection did not answer")]
    Replaced(Dpid),
    /// The switch did not read what it was sent.
    #[error("the switch does not read: {0} bytes wait for it")]
    NotReading(usize),
    /// The switch has more of something than a controller can hold.
    #[error("the switch reports more than {1} {0}")]
    TooMany(&'static str, usize),
    /// The controller stops.
    #[error("the controller stops")]
    Stopping,
}
