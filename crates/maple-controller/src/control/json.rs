//! Requests and answers of the control socket, as JSON: what `schema.json` says, which each request is held
//! against first.

use maple_core::engine::{Selection, TableRule};
use maple_core::network::{BadMac, HostInfo, Location, Mac, PortKind};
use maple_core::state::Snapshot;
use maple_wire::msg::FlowMod;
use maple_wire::print::FlowLine;
use maple_wire::{Dpid, PortNo, Version};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::schema;
use super::state::{self, State};
use super::{Handle, Stats, SwitchStatus, Trouble};

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
    /// The links.
    Links,
    /// The hosts.
    Hosts,
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
        Request::Show(Show::Links) => handle.links().iter().map(|(a, b)| json!([location(*a), location(*b)])).collect(),
        Request::Show(Show::Hosts) => handle.hosts().iter().map(|(mac, info)| host(*mac, info)).collect(),
        Request::Show(Show::Stats) => stats(&handle.stats()),
        Request::Show(Show::Errors) => handle.errors().iter().map(trouble).collect(),
        Request::State(request) => state::answer(handle, request)?,
        Request::Invalidate(what) => json!(handle.invalidate(selection(what)?)),
    })
}

/// The rules of one switch or of all, one object a switch.
fn rules(handle: &Handle, only: Option<&str>) -> Result<Value, Refusal> {
    const FIELD: &str = "show.rules";
    let only = only.map(dpid).transpose().map_err(|error| Refusal::at(FIELD, error))?;
    let switches = handle.switches();
    if let Some(dpid) = only
        && !switches.iter().any(|switch| switch.dpid == dpid)
    {
        return Err(Refusal::at(FIELD, format!("switch {dpid} is not connected")));
    }
    let chosen = switches.iter().filter(|switch| only.is_none_or(|dpid| dpid == switch.dpid));
    Ok(chosen
        .map(|switch| {
            let rules: Value = handle.rules(switch.dpid).iter().map(|r| rule(switch.version, r)).collect();
            json!({ "switch": switch.dpid.to_string(), "rules": rules })
        })
        .collect())
}

fn rule(version: Version, rule: &TableRule) -> Value {
    json!({
        "table": rule.table_id,
        "priority": rule.rule.priority,
        "match": maple_wire::print::matching(version, &rule.rule.matching),
        "actions": maple_wire::print::instructions(version, &rule.rule.instructions),
        "cookie": format!("{:#018x}", rule.rule.cookie),
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
    let ports: Value = switch
        .ports
        .iter()
        .map(|port| {
            let known = state.port(Location::new(switch.dpid, port.number));
            let kind = known.map(|known| kind(known.kind));
            json!({ "port": number(port.number), "name": port.name, "up": port.up, "kind": kind })
        })
        .collect();
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

/// What is behind a port; a reserved one (the switch's own) has no kind.
fn kind(kind: PortKind) -> &'static str {
    match kind {
        PortKind::New => "new",
        PortKind::Edge => "edge",
        PortKind::Link(_) => "link",
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
