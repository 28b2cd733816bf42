//! What the timeline says about moments, as JSON.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use maple_core::network::{HostInfo, Location, PortInfo};
use maple_wire::Dpid;
use serde_json::{Value, json};

use super::Timeline;
use super::entry::{DropThen, Entry, RatesThen, Stamped};
use super::kept::Kept;
use super::network::{NetworkChange, NetworkThen};
use crate::control::Handle;
use crate::control::answer::{host, kind, location, milliseconds};
use crate::control::map;
use crate::control::request::{RefusalKind, RequestError, TimeSpan};

/// Maximum number of points of rates in an answer.
const MAX_POINTS: usize = 480;
/// Maximum number of lines of the log in an answer.
const MAX_LINES: usize = 1000;
/// Maximum number of kinds of drops in an answer.
const MAX_DROPS: usize = 1000;

/// Answers with the moments that are kept, and how it went.
///
/// # Errors
/// [`RequestError`] if there is no timeline.
pub(in crate::control) fn overview(handle: &Handle) -> Result<Value, RequestError> {
    let timeline = timeline(handle)?;
    let kept = timeline.lock();
    let (bytes, most_bytes) = kept.segments.size();
    let each = kept.rates.len().div_ceil(MAX_POINTS).max(1);
    let rates: Vec<(u64, RatesThen)> = kept.rates.iter().copied().collect();
    let point = |some: &[(u64, RatesThen)]| {
        let joined = some.iter().copied().reduce(|(_, sum), (time, next)| (time, sum.join(next)));
        joined.map(|(time, rates)| rates_at(time, rates))
    };
    Ok(json!({
        "from": kept.range().map(|(from, _)| from),
        "to": kept.range().map(|(_, to)| to),
        "gaps": gaps(&kept, 0, u64::MAX),
        "in_files": kept.segments.folder().is_some(),
        "bytes": bytes,
        "most_bytes": most_bytes,
        "rates": rates.chunks(each).filter_map(point).collect::<Value>(),
        "recording": handle.recording().filter(|recording| recording.failure().is_none()).map(|recording| recording.folder()),
    }))
}

/// Answers with the network at a moment, in milliseconds since 1970; without one, as it is kept now.
///
/// # Errors
/// [`RequestError`] if the moment is not kept.
pub(in crate::control) fn at(handle: &Handle, time: Option<u64>) -> Result<Value, RequestError> {
    let timeline = timeline(handle)?;
    let kept = timeline.lock();
    let field = "show.time_at";
    let time = moment(&kept, time, field)?;
    let (then, version) = kept.network_at(time).map_err(|why| not_kept(field, why))?;
    let pending = kept.pending_at(time);
    drop(kept);
    let mut hosts: BTreeMap<Dpid, u64> = BTreeMap::new();
    for host in then.hosts.values() {
        *hosts.entry(host.location.switch).or_default() += 1;
    }
    let (names, places) = (handle.names(), map::places(handle));
    let switch = |(dpid, connected): (&Dpid, &bool)| {
        let place = places(*dpid);
        json!({
            "switch": dpid.to_string(), "name": names.of_switch(*dpid), "connected": connected,
            "x": place.map(|(x, _)| x), "y": place.map(|(_, y)| y),
            "hosts": hosts.get(dpid).copied().unwrap_or_default(),
        })
    };
    let link = |(from, to): (Location, Location)| json!({ "from": location(from), "to": location(to) });
    Ok(json!({
        "time": time,
        "version": version,
        "pending": pending,
        "switches": then.switches.iter().map(switch).collect::<Value>(),
        "links": then.links().map(link).collect::<Value>(),
        "hosts": then.hosts.iter().map(|(mac, info)| host(*mac, info)).collect::<Value>(),
    }))
}

/// Answers with what is another at one moment than at an earlier one, and what happened between them.
///
/// # Errors
/// [`RequestError`] if one of the moments is not kept.
pub(in crate::control) fn changes(handle: &Handle, span: &TimeSpan) -> Result<Value, RequestError> {
    let timeline = timeline(handle)?;
    let kept = timeline.lock();
    let (in_from, in_to) = ("show.time_changes.from", "show.time_changes.to");
    let from = moment(&kept, span.from.or(kept.range().map(|(from, _)| from)), in_from)?;
    let to = moment(&kept, span.to, in_to)?;
    if from > to {
        return Err(RequestError::at(in_to, format!("{in_to}: must not be before from")));
    }
    let (before, _) = kept.network_at(from).map_err(|why| not_kept(in_from, why))?;
    let (after, _) = kept.network_at(to).map_err(|why| not_kept(in_to, why))?;
    let between = kept.between(from, to).map_err(|why| not_kept(in_from, why))?;
    let gaps = gaps(&kept, from, to);
    drop(kept);
    let mut answer = differences(&before, &after);
    let happened = Happened::of(between);
    let unseen = happened.lines.len().saturating_sub(MAX_LINES);
    answer["from"] = from.into();
    answer["to"] = to.into();
    answer["gaps"] = gaps;
    let (drops, others) = happened.drops();
    (answer["drops"], answer["other_drops"]) = (drops, others.into());
    answer["lines"] = happened.lines[unseen..].into();
    answer["left_out"] = (happened.left_out + unseen as u64).into();
    Ok(answer)
}

fn timeline(handle: &Handle) -> Result<&Arc<Timeline>, RequestError> {
    let none = || RequestError::at("", "this controller keeps no timeline".to_owned()).of_kind(RefusalKind::NotKept);
    handle.timeline().ok_or_else(none)
}

fn not_kept(field: &str, why: String) -> RequestError {
    RequestError::at(field, format!("{field}: {why}")).of_kind(RefusalKind::NotKept)
}

/// Returns a moment that is kept. What has happened since the newest one is about to be kept.
fn moment(kept: &Kept, time: Option<u64>, field: &str) -> Result<u64, RequestError> {
    let newest = kept.now;
    let time = match time {
        Some(time) if time > newest && time <= milliseconds(SystemTime::now()) => newest,
        time => time.unwrap_or(newest),
    };
    kept.segment_of(time).map(|_| time).map_err(|why| not_kept(field, why))
}

/// Encodes the gaps in a span.
fn gaps(kept: &Kept, from: u64, to: u64) -> Value {
    let within = kept.gaps().filter(|(end, begin)| from <= *begin && *end <= to);
    within.map(|(from, to)| json!({ "from": from, "to": to })).collect()
}

fn rates_at(time: u64, rates: RatesThen) -> Value {
    let RatesThen { span, counts, switches, links, hosts, changes, pending, left_out } = rates;
    let seconds = span as f64 / 1000.0;
    let rate = |count: u64| (count as f64 / seconds * 1000.0).round() / 1000.0;
    let counts = counts.filter(|_| span > 0);
    json!({
        "time": time, "seconds": seconds, "switches": switches, "links": links, "hosts": hosts, "changes": changes,
        "pending": pending, "left_out": left_out,
        "packet_ins_per_second": counts.map(|counts| rate(counts.packet_ins)),
        "decisions_per_second": counts.map(|counts| rate(counts.decisions)),
        "flow_mods_per_second": counts.map(|counts| rate(counts.flow_mods)),
        "failures_per_second": counts.map(|counts| rate(counts.failures)),
    })
}

/// Encodes how two moments differ.
fn differences(before: &NetworkThen, after: &NetworkThen) -> Value {
    let (mut switches, mut ports, mut hosts) = (Vec::new(), Vec::new(), Vec::new());
    for change in before.changes_to_other(after) {
        match change {
            NetworkChange::Switch(dpid, now) => {
                let was = before.switches.get(&dpid);
                let how = how(was, now.as_ref(), |_, now| if *now { "connected" } else { "unreachable" });
                switches.push(json!({ "switch": dpid.to_string(), "how": how }));
            }
            NetworkChange::Port(at, now) => {
                let was = before.ports.get(&at);
                let how = how(was, now.as_ref(), |was, now| match (was.up, now.up) {
                    (false, true) => "up",
                    (true, false) => "down",
                    _ => "changed",
                });
                let mut row = location(at);
                (row["how"], row["before"], row["after"]) =
                    (how.into(), json!(was.map(port)), json!(now.as_ref().map(port)));
                ports.push(row);
            }
            NetworkChange::Host(mac, now) => {
                let was = before.hosts.get(&mac);
                let how =
                    how(was, now.as_ref(), |was, now| if was.location == now.location { "changed" } else { "moved" });
                let of = |info: Option<&HostInfo>| info.map(|info| host(mac, info));
                hosts.push(json!({ "mac": mac.to_string(), "how": how, "before": of(was), "after": of(now.as_ref()) }));
            }
        }
    }
    json!({ "switches": switches, "ports": ports, "links": links(before, after), "hosts": hosts })
}

/// Says how a part changed.
fn how<T>(was: Option<&T>, now: Option<&T>, other: impl Fn(&T, &T) -> &'static str) -> &'static str {
    match (was, now) {
        (Some(was), Some(now)) => other(was, now),
        (None, _) => "added",
        (_, None) => "gone",
    }
}

fn port(info: &PortInfo) -> Value {
    json!({ "up": info.up, "kind": kind(info.kind) })
}

/// Encodes the links of one of two moments only.
fn links(before: &NetworkThen, after: &NetworkThen) -> Value {
    let only = |some: &NetworkThen, other: &NetworkThen, how: &str| -> Vec<Value> {
        let missing = some.links().filter(|(from, to)| other.peer(*from) != Some(*to));
        missing.map(|(from, to)| json!({ "from": location(from), "to": location(to), "how": how })).collect()
    };
    [only(before, after, "gone"), only(after, before, "added")].concat().into()
}

/// What happened between two moments.
#[derive(Debug, Default)]
struct Happened {
    lines: Vec<Value>,
    /// The packets that were dropped, by line, reason and switch.
    drops: BTreeMap<(Option<String>, String, Dpid), u64>,
    other_drops: u64,
    left_out: u64,
}

impl Happened {
    fn of(entries: Vec<Stamped>) -> Happened {
        let mut all = Happened::default();
        for Stamped { time, entry } in entries {
            match entry {
                Entry::Line { number, level, area, text } => all.lines.push(json!({
                    "number": number, "time": time, "level": level, "area": area, "text": text,
                })),
                Entry::Drops { rows, others } => {
                    all.other_drops = all.other_drops.saturating_add(others);
                    for DropThen { packets, switch, line, why } in rows {
                        let sum = all.drops.entry((line, why, switch)).or_default();
                        *sum = sum.saturating_add(packets);
                    }
                }
                Entry::Rates(rates) => all.left_out = all.left_out.saturating_add(rates.left_out),
                Entry::Begin { .. } | Entry::Changes { .. } => {}
            }
        }
        all
    }

    /// Encodes the drops, those with the most packets first, and the packets of all others.
    fn drops(&self) -> (Value, u64) {
        let mut rows: Vec<_> = self.drops.iter().collect();
        rows.sort_by(|a, b| b.1.cmp(a.1).then_with(|| a.0.cmp(b.0)));
        let others = rows.iter().skip(MAX_DROPS).fold(self.other_drops, |sum, row| sum.saturating_add(*row.1));
        let row = |((line, why, switch), packets): (&(Option<String>, String, Dpid), &u64)| json!({ "packets": packets, "switch": switch.to_string(), "line": line, "why": why });
        (rows.into_iter().take(MAX_DROPS).map(row).collect(), others)
    }
}
