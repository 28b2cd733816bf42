//! The messages of a take-over, as JSON.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;

use maple_core::engine::InstalledFlow;
use maple_core::state::Write as StateWrite;
use maple_wire::msg::stats::{FlowStats, ReplyBody};
use maple_wire::msg::{PacketIn, PortReason, PortStatus, StatsReply};
use maple_wire::{Dpid, Message, Version};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{HandedConnection, invalid};
use crate::memory::remember::{SurroundingsRow, WitnessRow, hex, unhex};
use crate::memory::state_json::{from_json, to_json};
use crate::session::{SwitchInfo, installed};

/// The first answer: a copy of the knowledge of the controller that runs.
#[derive(Serialize, Deserialize)]
pub(super) struct CopyRow {
    /// The addresses on which it listens, each with whether connections begin with TLS there.
    pub listening: Vec<(SocketAddr, bool)>,
    pub state_file: Option<PathBuf>,
    /// The tables and variables that are known.
    pub names: Vec<String>,
    /// Those of them that are kept in the file.
    pub kept: Vec<String>,
    pub state: Vec<StateRow>,
    pub remembered: Option<RememberedRow>,
    #[serde(default)]
    pub probe_key: Option<[u8; 16]>,
    pub switches: Vec<SwitchRow>,
}

/// The leaves and surroundings that the state file has for a restart.
#[derive(Serialize, Deserialize)]
pub(super) struct RememberedRow {
    pub epoch: u16,
    /// Rows of leaves as they are in the file.
    pub leaves: Vec<(u64, String)>,
    pub surroundings: SurroundingsRow,
}

/// The second answer: the changes since the first one, and a description of the sockets that follow.
#[derive(Serialize, Deserialize)]
pub(super) struct HandedRow {
    /// Whether connections of each listening socket begin with TLS.
    pub listeners: Vec<bool>,
    pub connections: Vec<ConnectionRow>,
    pub names: Vec<String>,
    pub state: Vec<StateRow>,
    /// Rows of leaves that came, changed or went.
    pub leaves: Vec<(u64, Option<WitnessRow>)>,
    pub surroundings: Option<SurroundingsRow>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct ConnectionRow {
    pub version: u8,
    pub dpid: u64,
    /// The start of a message that has not arrived whole.
    pub partial: Vec<u8>,
    /// Packets without an answer as messages, in hexadecimal digits. Earlier versions drop them.
    #[serde(default)]
    pub packets: Vec<String>,
}

impl ConnectionRow {
    /// Makes a row. A packet that its version can't express is left out.
    pub fn of(connection: &HandedConnection) -> ConnectionRow {
        let HandedConnection { socket: _, dpid, version, partial, packets } = connection;
        let packet = |packet: &PacketIn| match encoded(*version, &Message::PacketIn(packet.clone())) {
            Ok(bytes) => Some(hex(&bytes)),
            Err(error) => {
                tracing::warn!(%dpid, %error, "a packet can't be handed over");
                None
            }
        };
        let packets = packets.iter().filter_map(packet).collect();
        ConnectionRow { version: *version as u8, dpid: dpid.0, partial: partial.clone(), packets }
    }

    pub fn connection(self, socket: TcpStream) -> io::Result<HandedConnection> {
        let ConnectionRow { version: number, dpid, partial, packets } = self;
        let packet = |text: String| match decoded(&unhex(&text).ok_or_else(|| invalid("no hexadecimal digits"))?)? {
            Message::PacketIn(packet) => Ok(packet),
            _ => Err(invalid("no packet")),
        };
        let packets = packets.into_iter().map(packet).collect::<io::Result<_>>()?;
        Ok(HandedConnection { socket, dpid: Dpid(dpid), version: version(number)?, partial, packets })
    }
}

/// A write to a table or variable: its name, its key if it is a table, and the value unless it was deleted.
#[derive(Serialize, Deserialize)]
pub(super) struct StateRow(String, Vec<Value>, Vec<Value>);

impl StateRow {
    /// Makes a row; `None` if the write is not of a table or variable.
    pub fn of(write: &StateWrite) -> Option<StateRow> {
        let list = |value: &Option<maple_core::state::Value>| value.iter().map(to_json).collect();
        match write {
            StateWrite::Table { table, key, value } => {
                Some(StateRow(table.to_string(), vec![to_json(key)], list(value)))
            }
            StateWrite::Var { name, value } => Some(StateRow(name.to_string(), Vec::new(), list(value))),
            _ => None,
        }
    }

    pub fn write(self) -> io::Result<StateWrite> {
        let StateRow(name, key, value) = self;
        let decoded = |list: Vec<Value>| list.first().map(from_json).transpose();
        let (key, value) =
            (decoded(key).map_err(|what| invalid(&what))?, decoded(value).map_err(|what| invalid(&what))?);
        Ok(match key {
            Some(key) => StateWrite::Table { table: name.into(), key, value },
            None => StateWrite::Var { name: name.into(), value },
        })
    }
}

/// The description of a switch, as messages of its version of OpenFlow, and its rules.
#[derive(Serialize, Deserialize)]
pub(super) struct SwitchRow {
    version: u8,
    /// The reply with its features.
    features: Vec<u8>,
    /// The reply with its description.
    description: Vec<u8>,
    /// One port-status for each port.
    ports: Vec<Vec<u8>>,
    has_bundles: bool,
    /// Its rules, as replies to a request for statistics, in hexadecimal digits.
    rules: Vec<String>,
}

/// A connected switch, with its description of itself and its rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CopiedSwitch {
    pub info: SwitchInfo,
    pub rules: Vec<InstalledFlow>,
}

/// The maximum number of rules in a reply.
const RULES: usize = 128;

impl SwitchRow {
    /// Makes a row.
    ///
    /// # Errors
    /// An error if its version can't express what the switch has sent itself.
    pub fn of(switch: CopiedSwitch) -> io::Result<SwitchRow> {
        let CopiedSwitch { info, rules: all_rules } = switch;
        let SwitchInfo { version, features, ports, description, has_bundles } = info;
        let encoded = |message: Message| encoded(version, &message);
        let rules = |rules: &[InstalledFlow]| {
            let all = rules.iter().cloned().map(statistics).collect();
            encoded(Message::StatsReply(StatsReply::new(ReplyBody::Flow(all)))).map(|bytes| hex(&bytes))
        };
        let replies = all_rules.chunks(RULES).map(rules).collect::<io::Result<_>>()?;
        let port = |port| encoded(Message::PortStatus(PortStatus { reason: PortReason::Modify, port }));
        Ok(SwitchRow {
            version: version as u8,
            features: encoded(Message::FeaturesReply(features))?,
            description: encoded(Message::StatsReply(StatsReply::new(ReplyBody::Desc(description))))?,
            ports: ports.into_iter().map(port).collect::<io::Result<_>>()?,
            has_bundles,
            rules: replies,
        })
    }

    pub fn switch(self) -> io::Result<CopiedSwitch> {
        let Message::FeaturesReply(features) = decoded(&self.features)? else { return Err(invalid("no features")) };
        let Message::StatsReply(StatsReply { body: ReplyBody::Desc(description), .. }) = decoded(&self.description)?
        else {
            return Err(invalid("no description"));
        };
        let port = |bytes: &Vec<u8>| match decoded(bytes)? {
            Message::PortStatus(status) => Ok(status.port),
            _ => Err(invalid("no port")),
        };
        let ports = self.ports.iter().map(port).collect::<io::Result<_>>()?;
        let mut rules = Vec::new();
        for text in &self.rules {
            let bytes = unhex(text).ok_or_else(|| invalid("no hexadecimal digits"))?;
            let Message::StatsReply(StatsReply { body: ReplyBody::Flow(all), .. }) = decoded(&bytes)? else {
                return Err(invalid("no rules"));
            };
            rules.extend(all.into_iter().map(installed));
        }
        let (version, has_bundles) = (version(self.version)?, self.has_bundles);
        Ok(CopiedSwitch { info: SwitchInfo { version, features, ports, description, has_bundles }, rules })
    }
}

/// Makes the report of a rule that a switch would send.
fn statistics(rule: InstalledFlow) -> FlowStats {
    let InstalledFlow { table_id, priority, cookie, matching, instructions } = rule;
    FlowStats {
        table_id,
        duration_sec: 0,
        duration_nsec: 0,
        priority,
        idle_timeout: 0,
        hard_timeout: 0,
        flags: 0,
        cookie,
        packet_count: 0,
        byte_count: 0,
        matching,
        instructions,
    }
}

fn encoded(version: Version, message: &Message) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    message.encode(version, 0, &mut bytes).map_err(io::Error::other)?;
    Ok(bytes)
}

fn decoded(bytes: &[u8]) -> io::Result<Message> {
    Message::decode(bytes).map(|(_, message)| message).map_err(io::Error::other)
}

/// Returns the version of OpenFlow with this number.
fn version(number: u8) -> io::Result<Version> {
    let known = [Version::Of10, Version::Of13].into_iter().find(|known| *known as u8 == number);
    known.ok_or_else(|| invalid("an unknown version of OpenFlow"))
}
