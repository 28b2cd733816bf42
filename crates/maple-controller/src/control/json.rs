//! Requests and answers of the control socket, as JSON: what `schema.json` says, which each request is held
//! against first.

use std::collections::BTreeMap;
use std::time::Duration;

use maple_core::engine::{Counted, PortCount, Selection, TableRule, Traffic};
use maple_core::network::{BadMac, HostInfo, Location, Mac, PortKind};
use maple_core::snooped::{self, Lease};
use maple_core::state::{Snapshot, Stored, Value as Kept};
use maple_wire::msg::FlowMod;
use maple_wire::print::FlowLine;
use maple_wire::{Dpid, PortNo, Version};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::schema;
use super::state::{self, State};
use super::{Handle, Stats, SwitchPort, SwitchStatus, Trouble};

/// How long switches may take to say what they have counted; after that what they said before is shown.
const COUNT: Duration = Duration::from_secs(2);

/// What other programs may ask: one JSON object a line, `{"show": {"rules": "1"}}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Request {
    /// Show something.
    Show(Show),
    /// Withdraw leaves.
    Invalidate(Invalidate),
    /// Read or write tracked state.
    State(State),
}

/// What to show.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Show {
    /// The rules of this switch (hex digits), or of all.
    Rules(Option<String>),
    /// The switches with their ports.
    Switches,
    /// What went through the ports of this switch (hex digits), or of all.
    Ports(Option<String>),
    /// What hosts send to each other, entering at this switch (hex digits), or at any.
    Flows(Option<String>),
    /// The links.
    Links,
    /// The hosts.
    Hosts,
    /// The multicast groups with the ports that belong to them.
    Groups,
    /// The DHCP leases.
    Leases,
    /// All counts.
    Stats,
    /// What went wrong lately.
    Errors,
}

/// What to withdraw.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Invalidate {
    /// Everything.
    All,
    /// What concerns the host with this hardware address.
    Host(String),
    /// What concerns this port of this switch (hex digits).
    Port(String, u32),
}

/// What is wrong with a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    /// The part of the request that is wrong: the names that lead to it, with dots between them.
    pub field: String,
    /// Why.
    pub text: String,
}

impl Refusal {
    pub fn at(field: &str, text: String) -> Refusal {
        Refusal { field: field.to_owned(), text }
    }

    /// As an answer.
    pub fn to_json(&self) -> Value {
        json!({ "error": self.text, "field": self.field })
    }
}

/// The request that a line is.
pub(super) fn request(line: &str) -> Result<Request, Refusal> {
    let json: Value = serde_json::from_str(line).map_err(|error| Refusal::at("", format!("not a request: {error}")))?;
    let named = |field: &str, text: String| match field {
        "" => format!("not a request: {text}"),
        field => format!("{field}: {text}"),
    };
    schema::check(&json).map_err(|wrong| Refusal::at(&wrong.field, named(&wrong.field, wrong.text)))?;
    serde_json::from_value(json).map_err(|error| Refusal::at("", named("", error.to_string())))
}

/// The answer to a request, or what is wrong with it.
pub(super) fn answer(handle: &Handle, request: Result<Request, Refusal>) -> Value {
    match request.and_then(|request| answer_to(handle, &request)) {
        Ok(value) => json!({ "ok": value }),
        Err(refusal) => refusal.to_json(),
    }
}

fn answer_to(handle: &Handle, request: &Request) -> Result<Value, Refusal> {
    Ok(match request {
        Request::Show(Show::Rules(switch)) => rules(handle, switch.as_deref())?,
        Request::Show(Show::Switches) => {
            let state = handle.snapshot();
            handle.switches().iter().map(|status| switch(&state, status)).collect()
        }
        Request::Show(Show::Ports(switch)) => ports(handle, switch.as_deref())?,
        Request::Show(Show::Flows(switch)) => flows(handle, switch.as_deref())?,
        Request::Show(Show::Links) => handle.links().iter().map(|(a, b)| json!([location(*a), location(*b)])).collect(),
        Request::Show(Show::Hosts) => handle.hosts().iter().map(|(mac, info)| host(*mac, info)).collect(),
        Request::Show(Show::Groups) => groups(&handle.snapshot()),
        Request::Show(Show::Leases) => leases(&handle.snapshot()),
        Request::Show(Show::Stats) => stats(&handle.stats()),
        Request::Show(Show::Errors) => handle.errors().iter().map(trouble).collect(),
        Request::State(request) => state::answer(handle, request)?,
        Request::Invalidate(what) => json!(handle.invalidate(selection(what)?)),
    })
}

/// The rules of one switch or of all, one object a switch.
fn rules(handle: &Handle, only: Option<&str>) -> Result<Value, Refusal> {
    let (only, switches) = chosen(handle, "show.rules", only)?;
    handle.count(Counted::Rules, only, COUNT);
    Ok(switches
        .iter()
        .map(|switch| {
            let (rules, age) = handle.rules_with_age(switch.dpid);
            let rules: Value = rules.iter().map(|r| rule(switch.version, r)).collect();
            json!({ "switch": switch.dpid.to_string(), "rules": rules, "counted_seconds_ago": age.map(seconds) })
        })
        .collect())
}

/// The switch that is meant, if only one is, and those to show.
fn chosen(handle: &Handle, field: &str, only: Option<&str>) -> Result<(Option<Dpid>, Vec<SwitchStatus>), Refusal> {
    let only = only.map(dpid).transpose().map_err(|error| Refusal::at(field, error))?;
    let mut switches = handle.switches();
    switches.retain(|switch| only.is_none_or(|dpid| dpid == switch.dpid));
    match only {
        Some(dpid) if switches.is_empty() => Err(Refusal::at(field, format!("switch {dpid} is not connected"))),
        _ => Ok((only, switches)),
    }
}

/// The ports of one switch or of all, one object a switch, with what went through them.
fn ports(handle: &Handle, only: Option<&str>) -> Result<Value, Refusal> {
    let (only, switches) = chosen(handle, "show.ports", only)?;
    handle.count(Counted::Ports, only, COUNT);
    let (state, counts) = (handle.snapshot(), handle.port_counts());
    let counts: BTreeMap<Location, &(PortCount, Duration)> = counts.iter().map(|count| (count.0.at, count)).collect();
    let port = |dpid: Dpid, port: &SwitchPort| {
        let at = Location::new(dpid, port.number);
        let mut all = port_of(&state, dpid, port);
        all["speed"] = json!(state.speed(at));
        if let Some((count, age)) = counts.get(&at) {
            counted(&mut all, count, *age);
        }
        all
    };
    let one = |switch: &SwitchStatus| {
        let ports: Value = switch.ports.iter().map(|one| port(switch.dpid, one)).collect();
        json!({ "switch": switch.dpid.to_string(), "ports": ports })
    };
    Ok(switches.iter().map(one).collect())
}

/// Adds what a port has counted; what a switch does not count is left out.
fn counted(port: &mut Value, count: &PortCount, age: Duration) {
    let c = &count.counters;
    let all = [
        ("rx_packets", c.rx_packets),
        ("rx_bytes", c.rx_bytes),
        ("rx_dropped", c.rx_dropped),
        ("rx_errors", c.rx_errors),
        ("tx_packets", c.tx_packets),
        ("tx_bytes", c.tx_bytes),
        ("tx_dropped", c.tx_dropped),
        ("tx_errors", c.tx_errors),
    ];
    for (name, value) in all.into_iter().filter(|(_, value)| *value != u64::MAX) {
        port[name] = value.into();
    }
    if let Some((sent, received)) = count.rates {
        for (name, rate) in [("tx", sent), ("rx", received)] {
            port[format!("{name}_bits_per_second")] = rate.bits.into();
            port[format!("{name}_packets_per_second")] = rate.packets.into();
        }
    }
    port["counted_seconds_ago"] = seconds(age).into();
}

/// What hosts send to each other, one object for a pair where it enters.
fn flows(handle: &Handle, only: Option<&str>) -> Result<Value, Refusal> {
    let (only, _) = chosen(handle, "show.flows", only)?;
    handle.count(Counted::Rules, only, COUNT);
    let traffic = handle.traffic();
    let one = |(traffic, age): &(Traffic, Duration)| {
        json!({
            "switch": traffic.switch.to_string(),
            "from": traffic.from.map(|mac| mac.to_string()),
            "to": traffic.to.map(|mac| mac.to_string()),
            "packets": traffic.packets,
            "bytes": traffic.bytes,
            "bits_per_second": traffic.rate.map(|rate| rate.bits),
            "packets_per_second": traffic.rate.map(|rate| rate.packets),
            "counted_seconds_ago": seconds(*age),
        })
    };
    Ok(traffic.iter().filter(|(one, _)| only.is_none_or(|dpid| one.switch == dpid)).map(one).collect())
}

/// In thousandths.
fn seconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1000.0).round() / 1000.0
}

fn rule(version: Version, rule: &TableRule) -> Value {
    json!({
        "table": rule.table_id,
        "priority": rule.rule.priority,
        "match": maple_wire::print::matching(version, &rule.rule.matching),
        "actions": maple_wire::print::instructions(version, &rule.rule.instructions),
        "cookie": format!("{:#018x}", rule.rule.cookie),
        "n_packets": rule.counted.map(|count| count.packets),
        "n_bytes": rule.counted.map(|count| count.bytes),
        "leaf": rule.leaf.map(|leaf| leaf.0),
        "flow": flow(version, rule),
        "why": rule.why,
    })
}

/// The rule as `ovs-ofctl dump-flows --no-stats` prints it. The engine wants to hear of the end of every rule.
fn flow(version: Version, rule: &TableRule) -> String {
    let TableRule { table_id, rule, .. } = rule;
    FlowLine {
        version,
        cookie: rule.cookie,
        table: *table_id,
        idle_timeout: 0,
        hard_timeout: 0,
        flags: if version == Version::Of10 { 0 } else { FlowMod::SEND_FLOW_REM },
        priority: rule.priority,
        matching: &rule.matching,
        instructions: &rule.instructions,
    }
    .to_string()
}

fn switch(state: &Snapshot, switch: &SwitchStatus) -> Value {
    let ports: Value = switch.ports.iter().map(|port| port_of(state, switch.dpid, port)).collect();
    json!({
        "switch": switch.dpid.to_string(),
        "peer": switch.peer.to_string(),
        "version": switch.version.to_string(),
        "description": switch.description,
        "tables": switch.tables,
        "shard": switch.shard.0,
        "waiting_bytes": switch.waiting_bytes,
        "ports": ports,
    })
}

fn port_of(state: &Snapshot, dpid: Dpid, port: &SwitchPort) -> Value {
    let kind = state.port(Location::new(dpid, port.number)).map(|known| kind(known.kind));
    json!({ "port": number(port.number), "name": port.name, "up": port.up, "kind": kind })
}

/// What is behind a port; a reserved one (the switch's own) has no kind.
fn kind(kind: PortKind) -> &'static str {
    match kind {
        PortKind::New => "new",
        PortKind::Edge => "edge",
        PortKind::Link(_) => "link",
        PortKind::Shared { .. } => "shared",
        PortKind::Middlebox => "middlebox",
    }
}

fn host(mac: Mac, info: &HostInfo) -> Value {
    json!({
        "mac": mac.to_string(),
        "at": location(info.location),
        "ipv4": info.ipv4,
        "ipv6": info.ipv6,
    })
}

/// Who belongs to which group, by group. Nothing where nobody snoops.
fn groups(state: &Snapshot) -> Value {
    let rows = state.table(snooped::MEMBERS).into_iter().flatten();
    let group = |(group, members): (&Kept, &Kept)| {
        let at: Vec<Value> = Vec::from_value(members).unwrap_or_default().into_iter().map(location).collect();
        json!({ "group": group.to_string(), "at": at })
    };
    rows.map(group).collect()
}

/// The leases, by address. Nothing where nobody snoops.
fn leases(state: &Snapshot) -> Value {
    let rows = state.table(snooped::LEASES).into_iter().flatten();
    let lease = |lease: Lease| {
        json!({
            "mac": lease.mac.to_string(),
            "ip": lease.ip.to_string(),
            "at": location(lease.location),
            "ends": lease.ends,
        })
    };
    rows.filter_map(|(_, value)| Lease::from_value(value)).map(lease).collect()
}

fn stats(stats: &Stats) -> Value {
    let counters = serde_json::Map::from_iter(
        stats.total.counters.iter().map(|(name, value)| (name.to_owned(), Value::from(value))),
    );
    let engine: serde_json::Map<String, Value> =
        stats.total.engine.iter().map(|(name, value)| (name.to_owned(), Value::from(value))).collect();
    let mut all = json!({
        "connections": stats.connections,
        "shards": stats.shards.len(),
        "controller": counters,
        "engine": engine,
    });
    if let Some(bytes) = maple_heap::held() {
        all["heap_bytes"] = bytes.into();
    }
    all
}

fn trouble(trouble: &Trouble) -> Value {
    match trouble.packets {
        Some(packets) => json!({ "text": trouble.text, "packets": packets }),
        None => json!({ "text": trouble.text }),
    }
}

fn location(at: Location) -> Value {
    json!({ "switch": at.switch.to_string(), "port": number(at.port) })
}

/// An ordinary port as a number, a reserved one by its name.
fn number(port: PortNo) -> Value {
    if port.is_physical() { Value::from(port.0) } else { Value::from(port.to_string()) }
}

pub(super) fn dpid(text: &str) -> Result<Dpid, String> {
    text.parse().map_err(|_| format!("{text:?} is no datapath id (hex digits, such as 1 or 00000000000000ab)"))
}

fn selection(what: &Invalidate) -> Result<Selection, Refusal> {
    Ok(match what {
        Invalidate::All => Selection::All,
        Invalidate::Host(mac) => {
            let wrong = |error: BadMac| Refusal::at("invalidate.host", error.to_string());
            Selection::Host(mac.parse().map_err(wrong)?)
        }
        Invalidate::Port(switch, port) => {
            let dpid = dpid(switch).map_err(|error| Refusal::at("invalidate.port[0]", error))?;
            Selection::Port(Location::new(dpid, PortNo(*port)))
        }
    })
}
