//! The answers to requests of the control socket, as JSON: `answers.json` describes them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use maple_core::engine::{
    CounterKind, Exploration, LabelView, LeafSelection, LookUpStatus, OpenQuestion, Party, PortCount, TableRule,
    Traffic, Trial,
};
use maple_core::network::{HostInfo, Location, Mac, PortKind};
use maple_core::snooping::{self, Lease};
use maple_core::state::{Snapshot, Stored, Value as TableValue};
use maple_core::trace::Source;
use maple_wire::msg::FlowMod;
use maple_wire::print::FlowLine;
use maple_wire::{Dpid, PortNo, Version};
use serde_json::{Value, json};

use super::asker::Asker;
use super::explain::{ExplainRequest, Unanswered};
use super::protocol::versions;
use super::reload::{ReloadAnswer, ReloadTask, Reloaded};
use super::request::{Invalidate, RefusalKind, Reload, Request, RequestError, Show};
use super::{
    COUNT_TIMEOUT, Handle, ReportedError, access_lists, doctor, dropped, explain, heat, history_answer, map,
    membership, state, timeline,
};
use crate::kept_files::FileStatus;
use crate::log::LogEntry;
use crate::names::Names;
use crate::session::TableSize;
use crate::status::{Stats, SwitchPort, SwitchStatus};

/// The number below which each table may have rules of Maple's, even without look-ups: those of classifier, ingress,
/// labels and routes.
const TABLES: u8 = 4;

/// Answers a request, or says why it is refused.
pub(super) fn answer(handle: &Handle, asker: &Asker, request: Result<Request, RequestError>) -> Value {
    match request.and_then(|request| answer_to(handle, asker, &request)) {
        Ok(value) => json!({ "ok": value }),
        Err(refusal) => refusal.to_json(),
    }
}

/// Answers a request that has one answer: what stands under `ok`.
///
/// # Errors
/// [`RequestError`] if it is refused.
pub(super) fn answer_to(handle: &Handle, asker: &Asker, request: &Request) -> Result<Value, RequestError> {
    membership::check_answers(handle, request)?;
    Ok(match request {
        Request::Show(Show::Cluster) => membership::to_json(handle),
        Request::Cluster(change) => membership::change(handle, *change)?,
        Request::Show(Show::Rules(switch)) => rules(handle, switch.as_deref())?,
        Request::Show(Show::Switches) => {
            let state = handle.snapshot();
            handle.switches()?.iter().map(|status| switch(&state, status)).collect()
        }
        Request::Show(Show::Ports(switch)) => ports(handle, switch.as_deref())?,
        Request::Show(Show::Tables(switch)) => tables(handle, switch.as_deref())?,
        Request::Show(Show::Tree(switch)) => tree(handle, switch.as_deref())?,
        Request::Show(Show::Labels(switch)) => labels(handle, switch.as_deref())?,
        Request::Show(Show::Flows(switch)) => flows(handle, switch.as_deref())?,
        Request::Show(Show::Names) => handle.names().to_json(),
        Request::Show(Show::Links) => handle.links().iter().map(|(a, b)| json!([location(*a), location(*b)])).collect(),
        Request::Show(Show::Map) => map::answer(handle)?,
        Request::Show(Show::Hosts) => handle.hosts().iter().map(|(mac, info)| host(*mac, info)).collect(),
        Request::Show(Show::Groups) => groups(&handle.snapshot()),
        Request::Show(Show::Leases) => leases(&handle.snapshot()),
        Request::Show(Show::Controller) => about(handle),
        Request::Show(Show::Stats) => stats(&handle.stats()?),
        // A live watch has many answers, which the socket sends.
        Request::Show(Show::Live(_)) => Value::Null,
        Request::Show(Show::AccessLists) => access_lists::answer(handle)?,
        Request::Show(Show::Policy) => heat::answer(handle)?,
        Request::Show(Show::Dropped(minutes)) => dropped::answer(handle, *minutes)?,
        Request::Show(Show::Log(_)) => handle.operations().log_since(0, Duration::ZERO).iter().map(log_line).collect(),
        Request::Show(Show::History) => history_answer::answer(handle),
        Request::Show(Show::Doctor) => doctor::answer(handle, asker)?,
        Request::Show(Show::Time) => timeline::overview(handle)?,
        Request::Show(Show::TimeAt(time)) => timeline::at(handle, *time)?,
        Request::Show(Show::TimeChanges(span)) => timeline::changes(handle, span)?,
        Request::Show(Show::Version) => versions(),
        Request::Show(Show::Errors) => handle.errors().iter().map(error).collect(),
        Request::State(request) => state::answer(handle, asker, request)?,
        Request::Reload(Reload::Policy { name, tolerate }) => {
            reload(handle, asker, ReloadTask::Reload { policy: name.clone(), tolerate: *tolerate })?
        }
        Request::Reload(Reload::Plan { name }) => reload(handle, asker, ReloadTask::Plan { policy: name.clone() })?,
        Request::Reload(Reload::Apply { name, sources, changes, decided, canary }) => {
            let (policy, sources, changes) = (name.clone(), sources.clone(), changes.clone());
            let (decided, canary) = (decided.clone(), canary.clone());
            reload(handle, asker, ReloadTask::Apply { policy, sources, changes, decided, canary })?
        }
        Request::Reload(Reload::Promote) => reload(handle, asker, ReloadTask::Promote)?,
        Request::Reload(Reload::Rollback) => reload(handle, asker, ReloadTask::Rollback)?,
        Request::Explain(question) => explain::answer(handle, question).map_err(|why| match why {
            Unanswered::Late(late) => late.into(),
            Unanswered::Question(refusal) => {
                let form = if matches!(question, ExplainRequest::Packet(_)) { "packet" } else { "rule" };
                let field = format!("explain.{form}.{}", refusal.field);
                RequestError::at(field.trim_end_matches('.'), refusal.text)
            }
        })?,
        Request::Invalidate(what) => json!(handle.invalidate(selection(&handle.names(), what)?).is_ok()),
    })
}

/// Encodes what the controller says about itself.
fn about(handle: &Handle) -> Value {
    let file = |status: FileStatus| {
        let FileStatus { file, path, trouble } = status;
        let path = std::path::absolute(&path).unwrap_or(path);
        let since = trouble.as_ref().map(|(_, since)| milliseconds(*since));
        json!({ "file": file.name(), "path": path, "fails": trouble.map(|(why, _)| why), "since": since })
    };
    let mut all = handle.shared().about.to_json(handle.shared().mailboxes.len());
    all["files"] = handle.operations().files().all().into_iter().map(file).collect();
    all["cluster"] = membership::to_json(handle);
    all
}

/// Passes on a request about the policy, and encodes its outcome.
fn reload(handle: &Handle, asker: &Asker, task: ReloadTask) -> Result<Value, RequestError> {
    let answer = handle.operations().ask_for_reload(task, asker.changer());
    let answer = answer.map_err(|error| RequestError::at("", error).of_kind(RefusalKind::Conflict));
    Ok(match answer? {
        ReloadAnswer::Reloaded { reloaded: done, warnings, restart } => reloaded(&done, &warnings, &restart),
        ReloadAnswer::Planned(plan) => plan.to_json(),
    })
}

/// Encodes the outcome of a reload.
fn reloaded(done: &Reloaded, warnings: &[String], restart: &[String]) -> Value {
    let Reloaded { trial, took, is_settled, unconfirmed } = done;
    let Trial { leaves, same, failed, .. } = trial;
    json!({
        "packets": leaves, "same": same, "failed": failed, "errors": errors(&trial.errors),
        "seconds": seconds(*took), "settled": is_settled, "warnings": warnings, "restart": restart,
        "unconfirmed": unconfirmed.map(|late| late.to_string()),
    })
}

/// Encodes the errors of a trial, each with its number of packets.
pub(super) fn errors(errors: &BTreeMap<Arc<str>, usize>) -> Value {
    errors.iter().map(|(text, leaves)| json!({ "text": &**text, "packets": leaves })).collect()
}

/// Answers with the rules of one switch or of all: one object for each switch.
fn rules(handle: &Handle, only: Option<&str>) -> Result<Value, RequestError> {
    let mut all = Vec::new();
    each_switch_with_rules(handle, only, |SwitchStatus { dpid, version, .. }, rules, age| {
        let rules: Value = rules.iter().map(|one| rule(*version, one)).collect();
        all.push(json!({ "switch": dpid.to_string(), "rules": rules, "counted_seconds_ago": age }));
    })?;
    Ok(all.into())
}

/// Hands on the rules of one switch or of all, each with its switch and the age of its counters, one at a time: so a
/// long list is never there as a whole.
///
/// # Errors
/// [`RequestError`] if there is no such switch, or if a shard is late. Some rules may have been handed on before.
pub(super) fn each_rule(handle: &Handle, only: Option<&str>, mut each: impl FnMut(Value)) -> Result<(), RequestError> {
    each_switch_with_rules(handle, only, |SwitchStatus { dpid, version, .. }, rules, age| {
        let switch = dpid.to_string();
        for one in rules {
            let mut row = rule(*version, &one);
            (row["switch"], row["counted_seconds_ago"]) = (switch.as_str().into(), age.into());
            each(row);
        }
    })
}

/// Hands on the rules of one switch or of all, with the age of their counters in seconds.
fn each_switch_with_rules(
    handle: &Handle,
    only: Option<&str>,
    mut each: impl FnMut(&SwitchStatus, Vec<TableRule>, Option<f64>),
) -> Result<(), RequestError> {
    let (only, switches) = selected(handle, "show.rules", only)?;
    handle.count(CounterKind::Rules, only, COUNT_TIMEOUT)?;
    for switch in &switches {
        let (rules, age) = handle.operations().rules_with_age(switch.dpid)?;
        each(switch, rules, age.map(seconds));
    }
    Ok(())
}

/// Answers with the tables, of one switch or of all, that have rules or may have Maple's: one object for each switch.
fn tables(handle: &Handle, only: Option<&str>) -> Result<Value, RequestError> {
    let (_, switches) = selected(handle, "show.tables", only)?;
    let ids: Vec<Dpid> = switches.iter().map(|switch| switch.dpid).collect();
    let has_some = |table: &&TableSize| table.rules.is_some_and(|rules| rules > 0) || table.table < TABLES;
    let table = |table: &TableSize| json!({ "table": table.table, "rules": table.rules, "most": table.most });
    let look_up = |of: &LookUpStatus| {
        let why = of.lowered.map(|why| why.to_string());
        json!({ "look_up": of.look_up, "table": of.table, "lowered": why })
    };
    let one = |(switch, sizes): (&SwitchStatus, Option<Vec<TableSize>>)| {
        let tables = sizes.map(|sizes| sizes.iter().filter(has_some).map(table).collect::<Value>());
        let dpid = switch.dpid;
        let asked =
            handle.inspect(dpid, move |engine| (engine.view().look_ups(dpid), engine.view().action_sets(dpid)))?;
        let (look_ups, action_sets) = asked.unwrap_or_default();
        let look_ups = look_ups.map(|all| all.iter().map(look_up).collect::<Value>());
        Ok(json!({ "switch": dpid.to_string(), "tables": tables, "look_ups": look_ups, "action_sets": action_sets }))
    };
    switches.iter().zip(handle.table_sizes(&ids)?).map(one).collect()
}

/// Answers with the trace trees of one switch or of all, and what exploration has found: one object for each switch.
fn tree(handle: &Handle, only: Option<&str>) -> Result<Value, RequestError> {
    let (_, switches) = selected(handle, "show.tree", only)?;
    let question = |of: &OpenQuestion| {
        let line = of.source.as_ref().map(ToString::to_string);
        json!({ "line": line, "what": of.what, "count": of.count })
    };
    let explored = |of: Exploration| {
        let open: Value = of.open.iter().map(question).collect();
        json!({ "complete": of.is_complete(), "current": of.is_current, "stopped": of.stopped.map(|bound| bound.to_string()), "open": open })
    };
    let one = |switch: &SwitchStatus| {
        let dpid = switch.dpid;
        let found = handle.inspect(dpid, move |engine| (engine.view().tree(dpid), engine.view().exploration(dpid)))?;
        let (tree, exploration) = found.unwrap_or_default();
        Ok(json!({ "switch": dpid.to_string(), "tree": tree, "exploration": exploration.map(explored) }))
    };
    switches.iter().map(one).collect()
}

/// Answers with the labels of one switch or of all: one object for each switch.
fn labels(handle: &Handle, only: Option<&str>) -> Result<Value, RequestError> {
    let (_, switches) = selected(handle, "show.labels", only)?;
    let label = |of: &LabelView| {
        let to: Value = of.to.iter().map(|at| location(*at)).collect();
        json!({
            "id": of.id, "port": of.port.map(number), "stage": of.stage.name(), "holders": of.holders, "to": to,
            "refused": of.refused,
        })
    };
    let one = |switch: &SwitchStatus| {
        let dpid = switch.dpid;
        // A switch that has gone since is left out.
        let labels = handle.inspect(dpid, move |engine| engine.view().labels(dpid))?.flatten();
        let answer = |labels: Vec<LabelView>| json!({ "switch": dpid.to_string(), "labels": labels.iter().map(label).collect::<Value>() });
        Ok(labels.map(answer))
    };
    switches.iter().filter_map(|switch| one(switch).transpose()).collect()
}

/// Returns the requested switch, if only one is requested, and the switches to show.
fn selected(
    handle: &Handle,
    field: &str,
    only: Option<&str>,
) -> Result<(Option<Dpid>, Vec<SwitchStatus>), RequestError> {
    let only =
        only.map(|text| handle.names().switch(text)).transpose().map_err(|error| RequestError::at(field, error))?;
    let mut switches = handle.switches()?;
    switches.retain(|switch| only.is_none_or(|dpid| dpid == switch.dpid));
    match only {
        Some(dpid) if switches.is_empty() => Err(RequestError::at(field, format!("switch {dpid} is not connected"))),
        _ => Ok((only, switches)),
    }
}

/// Answers with the ports of one switch or of all, with their counters: one object for each switch.
fn ports(handle: &Handle, only: Option<&str>) -> Result<Value, RequestError> {
    let (only, switches) = selected(handle, "show.ports", only)?;
    handle.count(CounterKind::Ports, only, COUNT_TIMEOUT)?;
    let (state, counts) = (handle.snapshot(), handle.port_counts()?);
    let counts: BTreeMap<Location, &(PortCount, Duration)> = counts.iter().map(|count| (count.0.at, count)).collect();
    let port = |dpid: Dpid, port: &SwitchPort| {
        let at = Location::new(dpid, port.number);
        let mut all = port_of(&state, dpid, port);
        all["speed"] = json!(state.speed(at));
        if let Some((count, age)) = counts.get(&at) {
            add_counters(&mut all, count, *age);
        }
        all
    };
    let one = |switch: &SwitchStatus| {
        let ports: Value = switch.ports.iter().map(|one| port(switch.dpid, one)).collect();
        json!({ "switch": switch.dpid.to_string(), "ports": ports })
    };
    Ok(switches.iter().map(one).collect())
}

/// Adds the counters of a port to its object. Counters that the switch does not have are left out.
fn add_counters(port: &mut Value, count: &PortCount, age: Duration) {
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

/// Answers with the traffic between hosts: one object for each pair and ingress switch.
fn flows(handle: &Handle, only: Option<&str>) -> Result<Value, RequestError> {
    let (only, _) = selected(handle, "show.flows", only)?;
    handle.count(CounterKind::Rules, only, COUNT_TIMEOUT)?;
    let traffic = handle.traffic()?;
    let one = |(traffic, age): &(Traffic, Duration)| {
        json!({
            "switch": traffic.switch.to_string(),
            "from": traffic.from.host().map(|mac| mac.to_string()),
            "from_at": place_of(traffic.from),
            "to": traffic.to.host().map(|mac| mac.to_string()),
            "to_at": place_of(traffic.to),
            "packets": traffic.packets,
            "bytes": traffic.bytes,
            "bits_per_second": traffic.rate.map(|rate| rate.bits),
            "packets_per_second": traffic.rate.map(|rate| rate.packets),
            "lines": traffic.lines.iter().map(line_of).collect::<BTreeSet<String>>(),
            "counted_seconds_ago": seconds(*age),
        })
    };
    Ok(traffic.iter().filter(|(one, _)| only.is_none_or(|dpid| one.switch == dpid)).map(one).collect())
}

/// Returns a source line without its tier, so that all rows about it are found by the same text.
fn line_of(source: &Source) -> String {
    format!("{}:{}", source.file, source.line)
}

/// Returns the port at which one of several hosts is that rules do not tell apart.
fn place_of(party: Party) -> Option<Value> {
    match party {
        Party::At(at) => Some(location(at)),
        Party::Any | Party::Host(_) => None,
    }
}

/// Returns a duration in seconds, rounded to milliseconds.
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
        "line": rule.line.as_ref().map(line_of),
        "flow": flow(version, rule),
        "why": rule.why,
    })
}

/// Prints a rule as `ovs-ofctl dump-flows --no-stats` does. The engine requests a flow-removed message for every rule.
pub(super) fn flow(version: Version, rule: &TableRule) -> String {
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
        "peer": switch.peer.map(|peer| peer.to_string()),
        "unreachable": switch.unreachable.map(|since| since.as_secs_f64()),
        "silent": switch.silent,
        "version": switch.version.to_string(),
        "description": switch.description,
        "tables": switch.tables,
        "bundles": switch.bundles,
        "shard": switch.shard.0,
        "waiting_bytes": switch.waiting_bytes,
        "ports": ports,
    })
}

fn port_of(state: &Snapshot, dpid: Dpid, port: &SwitchPort) -> Value {
    let kind = state.port(Location::new(dpid, port.number)).map(|known| kind(known.kind));
    json!({ "port": number(port.number), "name": port.name, "up": port.up, "kind": kind })
}

/// Returns the name of a kind of port. Reserved ports (the switch's own) have no kind.
pub(super) fn kind(kind: PortKind) -> &'static str {
    match kind {
        PortKind::New => "new",
        PortKind::Edge => "edge",
        PortKind::Link(_) => "link",
        PortKind::Shut { .. } => "shared",
        PortKind::Middlebox => "middlebox",
    }
}

/// Encodes a host: its addresses, and where it is.
pub(super) fn host(mac: Mac, info: &HostInfo) -> Value {
    json!({
        "mac": mac.to_string(),
        "at": location(info.location),
        "ipv4": info.ipv4,
        "ipv6": info.ipv6,
    })
}

/// Encodes the members of each multicast group. Empty without snooping.
fn groups(state: &Snapshot) -> Value {
    let rows = state.table(snooping::MEMBERS).into_iter().flatten();
    let group = |(group, members): (&TableValue, &TableValue)| {
        let at: Vec<Value> = Vec::from_value(members).unwrap_or_default().into_iter().map(location).collect();
        json!({ "group": group.to_string(), "at": at })
    };
    rows.map(group).collect()
}

/// Encodes the leases, ordered by address. Empty without snooping.
fn leases(state: &Snapshot) -> Value {
    let rows = state.table(snooping::LEASES).into_iter().flatten();
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
    if let Some(bytes) = stats.heap_bytes {
        all["heap_bytes"] = bytes.into();
    }
    all
}

/// Returns a time in milliseconds since 1970.
pub(super) fn milliseconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

/// Encodes a line of the log. Its time is in milliseconds since 1970.
pub(super) fn log_line(entry: &LogEntry) -> Value {
    json!({
        "number": entry.number, "time": milliseconds(entry.time), "level": entry.level.name(), "area": entry.area,
        "text": entry.text,
    })
}

fn error(error: &ReportedError) -> Value {
    let mut answer = json!({ "time": milliseconds(error.time), "text": error.text });
    if let Some(packets) = error.packets {
        answer["packets"] = packets.into();
    }
    answer
}

/// Encodes a port of a switch.
pub(super) fn location(at: Location) -> Value {
    json!({ "switch": at.switch.to_string(), "port": number(at.port) })
}

/// Encodes a physical port as a number, a reserved port as its name.
fn number(port: PortNo) -> Value {
    if port.is_physical() { Value::from(port.0) } else { Value::from(port.to_string()) }
}

fn selection(names: &Names, what: &Invalidate) -> Result<LeafSelection, RequestError> {
    Ok(match what {
        Invalidate::All => LeafSelection::All,
        Invalidate::Host(mac) => {
            let refuse = |error| RequestError::at("invalidate.host", error);
            LeafSelection::Host(names.host(mac).map_err(refuse)?)
        }
        Invalidate::Port(switch, port) => {
            let dpid = names.switch(switch).map_err(|error| RequestError::at("invalidate.port[0]", error))?;
            let port = port.port().map_err(|error| RequestError::at("invalidate.port[1]", error.to_string()))?;
            LeafSelection::Port(Location::new(dpid, port))
        }
    })
}
