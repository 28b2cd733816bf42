//! The values of a take-over that come with sockets.

use std::borrow::Cow;
use std::net::TcpStream;

use maple_core::engine::ReportedRule;
use maple_core::memory::Surroundings;
use maple_core::state::{Name, Write};
use maple_wire::msg::PacketIn;
use maple_wire::{Dpid, Version};
use serde::{Deserialize, Serialize};

use super::HandedConnection;
use crate::session::SwitchInfo;
use crate::storage::remember::Rows;

/// The second answer: the changes since the first one, and a description of the sockets that follow.
#[derive(Serialize, Deserialize)]
pub(super) struct SecondAnswer<'a> {
    /// Whether connections of each listening socket begin with TLS.
    pub listeners: Vec<bool>,
    #[serde(borrow)]
    pub connections: Vec<ConnectionRow<'a>>,
    pub names: Cow<'a, [Name]>,
    pub state: Cow<'a, [Write]>,
    /// The leaves that came, changed or went, by their rows in the file.
    pub leaves: Cow<'a, Rows>,
    pub surroundings: Cow<'a, Option<Surroundings>>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct ConnectionRow<'a> {
    version: Version,
    dpid: Dpid,
    /// The start of a message that has not arrived whole.
    #[serde(with = "serde_bytes")]
    partial: &'a [u8],
    /// Packets without an answer.
    packets: Cow<'a, [PacketIn]>,
}

impl ConnectionRow<'_> {
    /// Returns what the other process must know of a connection besides its socket.
    pub fn from_connection(connection: &HandedConnection) -> ConnectionRow<'_> {
        let HandedConnection { socket: _, dpid, version, partial, packets } = connection;
        ConnectionRow { version: *version, dpid: *dpid, partial, packets: Cow::Borrowed(packets) }
    }

    /// Joins what the other process sent of a connection with its socket.
    pub fn connection(self, socket: TcpStream) -> HandedConnection {
        let ConnectionRow { version, dpid, partial, packets } = self;
        HandedConnection { socket, dpid, version, partial: partial.to_vec(), packets: packets.into_owned() }
    }
}

/// A connected switch, with its description of itself and its rules.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CopiedSwitch {
    pub info: SwitchInfo,
    pub rules: Vec<ReportedRule>,
}
