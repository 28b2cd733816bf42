//! Switches, ports, links and hosts as Ryu's `rest_topology` has them, from what Maple knows.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use maple_core::network::{HostInfo, Location};
use maple_wire::{Dpid, Port, Version};
use serde_json::{Value, json};

use super::InPath;
use super::rules::port as port_number;
use crate::control::Handle;
use crate::control::http::problem::Problem;

/// The ports of each connected switch.
type Ports = BTreeMap<Dpid, Vec<Port>>;

fn ports(handle: &Handle) -> Result<Ports, Problem> {
    let all = handle.shard_metrics()?.into_iter().flat_map(|shard| shard.switches);
    Ok(all.filter_map(|switch| Some((switch.dpid, switch.now?.ports.to_vec()))).collect())
}

/// Reads a number as Ryu does: in the decimal system, or with `0x`, `0o` or `0b` before its digits.
pub(super) fn number(text: &str) -> Option<u64> {
    let (digits, radix) = match text.get(..2).map(str::to_ascii_lowercase).as_deref() {
        Some("0x") => (&text[2..], 16),
        Some("0o") => (&text[2..], 8),
        Some("0b") => (&text[2..], 2),
        _ => (text, 10),
    };
    let is_number = digits.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_number.then(|| u64::from_str_radix(digits, radix).ok()).flatten()
}

/// Returns the connected switch of a path, which has its number, and its version.
pub(super) fn switch(handle: &Handle, in_path: &InPath) -> Result<(Dpid, Version), Problem> {
    let text = in_path.get("dpid").map_or("", String::as_str);
    let wrong = || Problem::field(StatusCode::BAD_REQUEST, "dpid", format!("dpid: {text:?} is not a number"));
    let dpid = Dpid(number(text).ok_or_else(wrong)?);
    let known = handle.snapshot().switch(dpid).filter(|_| !handle.shared().registry.is_away(dpid));
    let missing = || Problem::field(StatusCode::NOT_FOUND, "dpid", format!("dpid: switch {text} is not connected"));
    known.map(|info| (dpid, info.version)).ok_or_else(missing)
}

/// Puts an answer under the number of its switch.
pub(super) fn of_switch(dpid: Dpid, answer: Value) -> String {
    json!({ dpid.0.to_string(): answer }).to_string()
}

/// Answers with the numbers of all connected switches.
pub(super) fn ids(handle: &Handle, _: &InPath) -> Result<String, Problem> {
    Ok(ports(handle)?.into_keys().map(|dpid| Value::from(dpid.0)).collect::<Value>().to_string())
}

/// Answers with what a switch says of its ports.
pub(super) fn port_descriptions(handle: &Handle, in_path: &InPath) -> Result<String, Problem> {
    let (dpid, version) = switch(handle, in_path)?;
    Ok(ports_described(dpid, version, &ports(handle)?.remove(&dpid).unwrap_or_default()))
}

/// Writes what a switch says of its ports.
pub(super) fn ports_described(dpid: Dpid, version: Version, ports: &[Port]) -> String {
    let description = |port: &Port| {
        let mut all = json!({
            "port_no": port_number(port.number), "hw_addr": address(port), "name": port.name(), "config": port.config,
            "state": port.state, "curr": port.curr, "advertised": port.advertised, "supported": port.supported,
            "peer": port.peer,
        });
        if version == Version::Of13 {
            all["curr_speed"] = port.curr_speed.into();
            all["max_speed"] = port.max_speed.into();
        }
        all
    };
    of_switch(dpid, ports.iter().map(description).collect())
}

fn address(port: &Port) -> String {
    maple_core::network::Mac(port.hw_addr).to_string()
}

/// Writes a port: `{"dpid": "0000000000000001", "port_no": "00000003", …}`.
fn port(dpid: Dpid, port: &Port) -> Value {
    json!({
        "dpid": dpid.to_string(), "port_no": format!("{:08x}", port.number.0), "hw_addr": address(port),
        "name": port.name(),
    })
}

/// Returns the switch of a path that asks for one, by 16 hex digits.
fn only(in_path: &InPath) -> Result<Option<Dpid>, Problem> {
    let Some(text) = in_path.get("dpid") else { return Ok(None) };
    let is_id = text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let dpid = is_id.then(|| text.parse().ok()).flatten();
    let wrong = || Problem::field(StatusCode::BAD_REQUEST, "dpid", format!("dpid: {text:?} is not 16 hex digits"));
    dpid.ok_or_else(wrong).map(Some)
}

/// Answers with switches and their ports.
pub(super) fn switches(handle: &Handle, in_path: &InPath) -> Result<String, Problem> {
    let (only, all) = (only(in_path)?, ports(handle)?);
    let wanted = all.iter().filter(|(dpid, _)| only.is_none_or(|only| only == **dpid));
    let one = |(dpid, ports): (&Dpid, &Vec<Port>)| {
        let ports: Value = ports.iter().filter(|one| one.number.is_physical()).map(|one| port(*dpid, one)).collect();
        json!({ "dpid": dpid.to_string(), "ports": ports })
    };
    Ok(wanted.map(one).collect::<Value>().to_string())
}

/// Answers with links, one for each direction.
pub(super) fn links(handle: &Handle, in_path: &InPath) -> Result<String, Problem> {
    let (only, all) = (only(in_path)?, ports(handle)?);
    let mut links: Vec<(Location, Location)> = handle.links().into_iter().flat_map(|(a, b)| [(a, b), (b, a)]).collect();
    links.sort();
    let wanted = links.into_iter().filter(|(from, _)| only.is_none_or(|only| only == from.switch));
    let one = |(from, to)| Some(json!({ "src": at(&all, from)?, "dst": at(&all, to)? }));
    Ok(wanted.filter_map(one).collect::<Value>().to_string())
}

/// Answers with hosts and the ports where they are.
pub(super) fn hosts(handle: &Handle, in_path: &InPath) -> Result<String, Problem> {
    let (only, all) = (only(in_path)?, ports(handle)?);
    let hosts = handle.hosts();
    let wanted = hosts.iter().filter(|(_, host)| only.is_none_or(|only| only == host.location.switch));
    let one = |(mac, host): &(_, HostInfo)| {
        let mac: &maple_core::network::Mac = mac;
        Some(json!({ "mac": mac.to_string(), "ipv4": host.ipv4, "ipv6": host.ipv6, "port": at(&all, host.location)? }))
    };
    Ok(wanted.filter_map(one).collect::<Value>().to_string())
}

/// Writes the port at a place; `None` if its switch is not connected.
fn at(all: &Ports, place: Location) -> Option<Value> {
    let found = all.get(&place.switch)?.iter().find(|port| port.number == place.port)?;
    Some(port(place.switch, found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_ryu_reads_them() {
        let all = [("0", 0), ("17", 17), ("0x1f", 31), ("0X1F", 31), ("0o17", 15), ("0b101", 5)];
        for (text, expected) in all {
            assert_eq!(number(text), Some(expected), "{text}");
        }
        for wrong in ["", "x", "1f", "0x", "0x+1", "-1", "1.0", "0b2", "99999999999999999999"] {
            assert_eq!(number(wrong), None, "{wrong}");
        }
    }
}
