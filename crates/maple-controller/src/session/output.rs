//! The outputs of a session: messages to send, results of the handshake, warnings, and the reason why a connection
//! ends.

use std::time::Duration;

use maple_core::engine::ReportedRule;
use maple_wire::msg::Features;
use maple_wire::msg::stats::Desc;
use maple_wire::{Dpid, Error, Message, Port, Version};
use serde::{Deserialize, Serialize};

use super::negotiate::Incompatible;
use super::questions::SwitchAnswer;
use super::roles::RoleNews;
use super::table_sizes::TableSize;
use crate::printable::printable;
use crate::tls::NotThisSwitch;

/// A task for the owner of a session. Outputs must be handled in order.
#[derive(Debug)]
pub enum Output {
    /// Sends this message to the switch, in the session's version.
    Send {
        /// Transaction id.
        xid: u32,
        /// The message.
        message: Message,
    },
    /// Claims this datapath id for the switch. The owner answers with `Session::admit` or `Session::refuse`.
    Claim(Dpid),
    /// Reports that the handshake is done.
    Up(Box<SwitchInfo>),
    /// Reports what has become of the role at the switch, if this controller is one of several.
    Role(RoleNews),
    /// Reports all rules of the switch, as `Session::read_flows` requested.
    Rules(Vec<ReportedRule>),
    /// Reports the switch's tables, as `Session::ask_for_table_sizes` requested.
    TableSizes(Vec<TableSize>),
    /// The answer to the question of this number.
    Answered(u32, SwitchAnswer),
    /// Reports the switch's ports, as `Session::ask_for_ports` requested.
    Ports(Vec<Port>),
    /// Passes this message to the engine or the handler: packet-in, port-status, flow-removed, error, barrier reply or
    /// statistics.
    Deliver {
        /// Transaction id.
        xid: u32,
        /// The message.
        message: Message,
    },
    /// Reports that the switch answered the echo request of `Session::challenge`.
    Alive,
    /// Reports that the switch has not answered an echo request in time, which it may while another request is open.
    /// With `false`, the switch is heard again.
    Silent(bool),
    /// Counts this violation of the protocol, which does not end the session.
    Warning {
        /// The violation.
        warning: ProtocolWarning,
        /// Whether it is the first of its kind on this connection. Only that one is logged.
        first: bool,
    },
    /// Closes the connection after all earlier outputs are sent.
    Close(CloseReason),
}

/// The results of the handshake.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwitchInfo {
    /// The negotiated OpenFlow version.
    pub version: Version,
    /// The features reply.
    pub features: Features,
    /// The switch's ports, including changes during the handshake.
    pub ports: Vec<Port>,
    /// The switch's description of itself, as received; empty if it sent none. [`SwitchInfo::text`] is safe to print.
    pub description: Desc,
    /// Whether the switch makes bundled changes together or not at all.
    pub has_bundles: bool,
}

impl SwitchInfo {
    /// Returns manufacturer, hardware and software in one line that is safe to print.
    pub fn text(&self) -> String {
        let Desc { manufacturer, hardware, software, .. } = &self.description;
        printable(format!("{manufacturer} {hardware} {software}").trim())
    }
}

/// A violation of the protocol, or a limitation of the switch, that does not end the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolWarning {
    /// A message type that the version does not have, or that switches never send. Answered with `BAD_TYPE`.
    UnknownType(u8),
    /// A reply without a request. Ignored.
    UnexpectedReply(u8),
    /// Statistics of another kind than the request asked for. Ignored.
    OtherStatistics,
    /// A packet-in before the handshake was done. Dropped.
    EarlyPacketIn,
    /// The switch refused a request of the handshake; type and code of its error.
    Refused(u16, u16),
    /// The switch does not report its rules. Those that may be Maple's are deleted.
    RulesUnreadable,
}

impl ProtocolWarning {
    /// Returns the bit of this kind of warning.
    pub(super) fn bit(self) -> u8 {
        match self {
            ProtocolWarning::UnknownType(_) => 1,
            ProtocolWarning::UnexpectedReply(_) => 2,
            ProtocolWarning::EarlyPacketIn => 4,
            ProtocolWarning::Refused(..) => 8,
            ProtocolWarning::RulesUnreadable => 16,
            ProtocolWarning::OtherStatistics => 32,
        }
    }
}

impl std::fmt::Display for ProtocolWarning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ProtocolWarning::UnknownType(kind) => write!(f, "sent a message of type {kind}, which no switch sends"),
            ProtocolWarning::UnexpectedReply(kind) => write!(f, "sent a reply of type {kind} without a request"),
            ProtocolWarning::OtherStatistics => f.write_str("sent statistics of another kind than it was asked for"),
            ProtocolWarning::EarlyPacketIn => f.write_str("sent packets before the handshake was done"),
            ProtocolWarning::Refused(class, code) => {
                write!(f, "refused a request of the handshake (error type {class} code {code})")
            }
            ProtocolWarning::RulesUnreadable => {
                f.write_str("does not report its rules; those that may be of an earlier run are deleted")
            }
        }
    }
}

/// The reason why a connection ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CloseReason {
    /// The peer closed without sending anything. This is normal: scripts check in this way whether a controller
    /// listens.
    #[error("closed without sending anything")]
    Silent,
    /// The peer closed.
    #[error("closed by the switch")]
    ByPeer,
    /// The socket failed.
    #[error("{0}")]
    Io(std::io::ErrorKind),
    /// The TLS session failed.
    #[error("TLS: {0}")]
    Tls(String),
    /// The peer's certificate, or the lack of one, does not allow it to be the switch that it says it is.
    #[error(transparent)]
    NotThisSwitch(#[from] NotThisSwitch),
    /// The first message was not a hello.
    #[error("the first message is not a hello (version byte {version:#04x}, type {kind}){}", hint(*version))]
    NotHello {
        /// The version byte.
        version: u8,
        /// The type byte.
        kind: u8,
    },
    /// The peer and Maple have no common version.
    #[error(transparent)]
    Incompatible(#[from] Incompatible),
    /// The peer refused the handshake.
    #[error("the switch refused the handshake (Maple speaks OpenFlow 1.0 and 1.3): {0}")]
    RefusedByPeer(String),
    /// A malformed message.
    #[error("malformed message: {0}")]
    Malformed(#[from] Error),
    /// A message in another version than the negotiated one.
    #[error("message in version {0:#04x} after another was negotiated")]
    WrongVersion(u8),
    /// The handshake took too long.
    #[error("no {waiting_for} within {within:?}")]
    HandshakeTimeout {
        /// The missing message.
        waiting_for: &'static str,
        /// The time limit.
        within: Duration,
    },
    /// A request was not answered.
    #[error("a request was not answered within {0:?}")]
    RequestTimeout(Duration),
    /// An echo request was not answered.
    #[error("no message, not even an echo reply, within {0:?}")]
    EchoTimeout(Duration),
    /// An auxiliary connection.
    #[error("auxiliary connection {0}: Maple uses main connections only")]
    Auxiliary(u8),
    /// The switch takes no rules in tables that it says it has. When it reconnects, it gets another layout of its
    /// tables.
    #[error("the switch takes no rules in some of its tables: it gets the layout for one table when it is back")]
    OneTable,
    /// The switch has another datapath id than before on the same connection.
    #[error("the switch says that it is {1}, on the connection on which it was {0}")]
    OtherDpid(Dpid, Dpid),
    /// Another connection, which is alive, has this datapath id.
    #[error("datapath id {0} belongs to another connection, which is alive")]
    Duplicate(Dpid),
    /// The switch connected again, and this connection did not answer.
    #[error("switch {0} connected again, and this connection did not answer")]
    Replaced(Dpid),
    /// The switch did not read what it was sent.
    #[error("the switch does not read: {0} bytes wait for it")]
    NotReading(usize),
    /// The switch reports more of something than the controller accepts.
    #[error("the switch reports more than {1} {0}")]
    TooMany(&'static str, usize),
    /// The controller stops.
    #[error("the controller stops")]
    Stopping,
}

impl CloseReason {
    /// Returns the reason for a socket error. Whether a peer that closes is seen as an end or as a reset depends on
    /// what the controller had sent at that moment.
    pub(crate) fn from_socket_error(kind: std::io::ErrorKind) -> CloseReason {
        use std::io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
        match kind {
            UnexpectedEof | ConnectionReset | ConnectionAborted | BrokenPipe => CloseReason::ByPeer,
            kind => CloseReason::Io(kind),
        }
    }
}

/// Returns what a first byte that is not a version of OpenFlow may mean.
fn hint(version: u8) -> &'static str {
    /// The type of a TLS record that has a handshake (RFC 8446 §5.1).
    const HANDSHAKE: u8 = 0x16;
    if version == HANDSHAKE { ": it speaks TLS, and this port has none" } else { "" }
}
