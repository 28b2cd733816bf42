//! The rows of the state file about witness packets and surroundings, as JSON. A process that hands over sends them
//! too.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, Ipv6Addr};

use maple_core::network::{HostInfo, Location, Mac};
use maple_core::remembered::{Model, RememberedLabel, Surroundings, Witness};
use maple_wire::{Constraint, Dpid, Field, PortNo, Version};
use serde::{Deserialize, Serialize};

pub(super) fn to_json(row: &impl Serialize) -> String {
    // These rows have only numbers and text.
    serde_json::to_string(row).unwrap_or_default()
}

/// A port: datapath id and number.
type Port = (u64, u32);

fn port(at: Location) -> Port {
    (at.switch.0, at.port.0)
}

pub(super) fn location((switch, port): Port) -> Location {
    Location::new(Dpid(switch), PortNo(port))
}

/// A witness packet.
#[derive(Serialize, Deserialize)]
pub(crate) struct WitnessRow {
    at: Port,
    /// The bytes in hexadecimal digits.
    frame: String,
    total_len: usize,
    /// The specialisation: the number of a field, value and mask of each part.
    narrower: Vec<(u8, u128, u128)>,
}

impl WitnessRow {
    pub fn of(witness: &Witness) -> WitnessRow {
        let part = |part: &Constraint| (part.field as u8, part.value, part.mask);
        WitnessRow {
            at: port(witness.at),
            frame: hex(&witness.frame),
            total_len: witness.total_len,
            narrower: witness.specialisation.iter().map(part).collect(),
        }
    }

    /// Parses a row; `None` if it makes no sense.
    pub fn parse(text: &str) -> Option<Witness> {
        serde_json::from_str::<WitnessRow>(text).ok()?.witness()
    }

    /// Returns the witness packet; `None` if the row makes no sense.
    pub fn witness(self) -> Option<Witness> {
        let part = |(field, value, mask)| Some(Constraint { field: Field::from_oxm(field)?, value, mask });
        let frame = unhex(&self.frame)?;
        Some(Witness {
            at: location(self.at),
            frame: frame.into(),
            total_len: self.total_len,
            specialisation: self.narrower.into_iter().map(part).collect::<Option<_>>()?,
        })
    }
}

/// Encodes bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let digit = |digit: u8| char::from_digit(digit.into(), 16).unwrap_or('0');
    bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]).map(digit).collect()
}

/// Decodes hexadecimal digits; `None` if the text is not an even number of them.
pub(crate) fn unhex(text: &str) -> Option<Vec<u8>> {
    let value = |digit: u8| char::from(digit).to_digit(16).map(|value| value as u8);
    let pair = |pair: &[u8]| Some(value(pair[0])? << 4 | value(pair[1])?);
    text.len().is_multiple_of(2).then(|| text.as_bytes().chunks_exact(2).map(pair).collect())?
}

/// The surroundings of switches: where things are, and what labels mean.
#[derive(Serialize, Deserialize)]
pub(crate) struct SurroundingsRow {
    links: Vec<(Port, Port)>,
    edges: Vec<Port>,
    hosts: Vec<(u64, Port, Vec<Ipv4Addr>, Vec<Ipv6Addr>)>,
    /// Switch, arrival port, id, meaning.
    labels: Vec<(u64, Option<u32>, u16, u64)>,
    /// Switch, OpenFlow version, tables, whether it is Open vSwitch, whether it has bundles.
    #[serde(default)]
    models: Vec<(u64, u8, u8, bool, bool)>,
}

impl SurroundingsRow {
    pub fn of(all: Surroundings) -> SurroundingsRow {
        let Surroundings { links, edges, hosts, labels, models } = all;
        let links: BTreeSet<(Port, Port)> = links.into_iter().map(|(a, b)| (port(a.min(b)), port(a.max(b)))).collect();
        let host = |(mac, host): (Mac, HostInfo)| {
            let (v4, v6) = (host.ipv4.into_iter().collect(), host.ipv6.into_iter().collect());
            (mac.bits() as u64, port(host.location), v4, v6)
        };
        let label = |label: RememberedLabel| (label.switch.0, label.port.map(|port| port.0), label.id, label.meaning);
        SurroundingsRow {
            links: links.into_iter().collect(),
            edges: edges.into_iter().map(port).collect(),
            hosts: hosts.into_iter().map(host).collect(),
            labels: labels.into_iter().map(label).collect(),
            models: models
                .into_iter()
                .map(|(dpid, model)| (dpid, model_row(dpid, model)))
                .collect::<BTreeMap<_, _>>()
                .into_values()
                .collect(),
        }
    }

    pub fn surroundings(self) -> Surroundings {
        let host = |(mac, at, v4, v6): (u64, Port, Vec<Ipv4Addr>, Vec<Ipv6Addr>)| {
            let (ipv4, ipv6) = (v4.into_iter().collect(), v6.into_iter().collect());
            (Mac::from_bits(mac.into()), HostInfo { location: location(at), ipv4, ipv6 })
        };
        let label = |(switch, port, id, meaning): (u64, Option<u32>, u16, u64)| RememberedLabel {
            switch: Dpid(switch),
            port: port.map(PortNo),
            id,
            meaning,
        };
        Surroundings {
            links: self.links.into_iter().map(|(a, b)| (location(a), location(b))).collect(),
            edges: self.edges.into_iter().map(location).collect(),
            hosts: self.hosts.into_iter().map(host).collect(),
            labels: self.labels.into_iter().map(label).collect(),
            models: self.models.into_iter().filter_map(model).collect(),
        }
    }
}

fn model_row(dpid: Dpid, model: Model) -> (u64, u8, u8, bool, bool) {
    (dpid.0, model.version as u8, model.tables, model.is_open_vswitch, model.has_bundles)
}

fn model((dpid, version, tables, is_open_vswitch, has_bundles): (u64, u8, u8, bool, bool)) -> Option<(Dpid, Model)> {
    let version = [Version::Of10, Version::Of13].into_iter().find(|known| *known as u8 == version)?;
    Some((Dpid(dpid), Model { version, tables, is_open_vswitch, has_bundles }))
}
