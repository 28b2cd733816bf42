//! Alternatives: one answer that f got is changed at a time, and f runs again.
//!
//! The answers are those of f's account, the latest first: changing a later one leaves more of the run as it was. An
//! answer about the packet is changed by another packet, one about the state by a write that is not committed. So every
//! alternative was tried. Where many packets would give the other answer, one was tried. It is shown as an example,
//! because others may meet another line.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use maple_wire::{Constraint, Field};

use super::words::cell_text;
use super::{Decision, Entering, Journey, Network, Tried, Verdict};
use crate::check::{Headers, Sample, failing, fitting};
use crate::network::{HostInfo, Location, Mac, PortInfo, PortKind};
use crate::run::Asked;
use crate::state::{Cell, CellValue, Snapshot, Value, Write};
use crate::trace::{Cond, Source, show, text};

/// The maximum number of alternatives that are tried: each costs a run of f.
pub const MAX_ALTERNATIVES: usize = 32;
/// The maximum number of alternatives that are shown, so that an explanation fits a screen.
const MAX_SHOWN: usize = 6;
/// The maximum number of rows of a table that are searched for a value that a key might hold.
const ROWS: usize = 64;

/// A change with which f would decide otherwise.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// The packet would fit a condition (`true`), or would not (`false`).
    Test(Cond, bool),
    /// The packet would not fit this entry of a list.
    NotEntry(Cond),
    /// A key of a table, or a variable, would hold this value, or nothing.
    State(Cell, Option<Value>),
    /// A host would be known.
    Known(Mac),
    /// An edge port would be up (`true`), or down (`false`).
    Up(Location, bool),
}

/// A change, and f's decision with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alternative {
    /// The change.
    pub change: Change,
    /// The line that asked for the changed answer.
    pub source: Option<Source>,
    /// f's verdict with the change.
    pub verdict: Verdict,
    /// The line that decides with the change.
    pub line: Option<Source>,
    /// The changed packet, if the change is about the packet.
    pub packet: Option<Entering>,
    /// The changed fields of the packet, unless `change` states them itself.
    pub example: Vec<Constraint>,
}

/// A change to be tried.
struct Candidate {
    change: Change,
    source: Option<Source>,
    packet: Option<Entering>,
    example: Vec<Constraint>,
    writes: Vec<Write>,
}

/// Returns changes with which f gives another verdict about a packet than it did. A change of the packet also changes
/// what the controller learns before f runs: an ARP packet with another sender announces another address. From `packet`
/// it has `learned` these writes.
pub fn instead(
    tried: &Tried<'_>,
    network: &mut dyn Network,
    packet: &Entering,
    learned: &[Write],
    decision: &Decision,
) -> Vec<Alternative> {
    let state = tried.store.snapshot();
    let sample = Sample { at: packet.at, frame: Arc::clone(&packet.frame) };
    let (mut told, mut seen) = (Vec::new(), BTreeSet::new());
    let mut left = MAX_ALTERNATIVES;
    for step in decision.account.iter().rev() {
        for candidate in candidates(&step.what, step.source.as_ref(), &sample, &state) {
            if left == 0 || told.len() == MAX_SHOWN {
                return told;
            }
            if seen.contains(&candidate.change) {
                continue;
            }
            left -= 1;
            let other = match &candidate.packet {
                Some(changed) => {
                    let comes_in =
                        |network: &mut dyn Network| Journey::of(network, &state, changed).begins_at_controller();
                    match super::learned(network, changed, comes_in) {
                        Ok(learned) => Decision::of(tried, changed, &learned),
                        // f never sees a packet that is refused.
                        Err(_) => continue,
                    }
                }
                None => Decision::of(tried, packet, &[learned, &candidate.writes].concat()),
            };
            if differs(decision, &other) {
                seen.insert(candidate.change.clone());
                let Candidate { change, source, packet, example, .. } = candidate;
                let line = other.line().cloned();
                told.push(Alternative { change, source, verdict: other.verdict, line, packet, example });
            }
        }
    }
    told
}

/// Reports whether the two decisions differ for the sender: the packet passes in one of them, or leaves elsewhere.
fn differs(decision: &Decision, other: &Decision) -> bool {
    match (&decision.verdict, &other.verdict) {
        (Verdict::Forwarded, Verdict::Dropped) => true,
        (Verdict::Forwarded, _) => false,
        (_, verdict) => *verdict == Verdict::Forwarded && other.exits() != decision.exits(),
    }
}

/// Returns the changes of one answer that are worth a try.
fn candidates(what: &Asked, source: Option<&Source>, sample: &Sample, state: &Snapshot) -> Vec<Candidate> {
    let headers = sample.headers();
    let with_packet = |change: Change, changes: Headers| {
        let Sample { at, frame } = sample.with(&changes);
        let is_other = |(field, value): &(&Field, &u128)| headers.get(*field) != Some(*value);
        let others = changes.iter().filter(is_other);
        let example = if change.is_one() {
            Vec::new()
        } else {
            others.map(|(field, value)| Constraint::exact(*field, *value)).collect()
        };
        Candidate { change, source: source.cloned(), packet: Some(Entering { at, frame }), example, writes: Vec::new() }
    };
    let with_writes = |change: Change, writes: Vec<Write>| Candidate {
        change,
        source: source.cloned(),
        packet: None,
        example: Vec::new(),
        writes,
    };
    match what {
        Asked::Test(cond, true) => elsewhere(failing(cond, &headers))
            .filter(|changes| !cond.holds(&sample.with(changes).packet()))
            .map(|changes| with_packet(Change::Test(cond.clone(), false), changes))
            .collect(),
        Asked::Test(cond, false) => elsewhere(fitting(&stated(cond, &headers), &headers))
            .filter(|changes| cond.holds(&sample.with(changes).packet()))
            .map(|changes| with_packet(Change::Test(cond.clone(), true), changes))
            .collect(),
        Asked::List(answer) => {
            let entry = answer.cond().into_iter();
            entry
                .flat_map(|cond| elsewhere(failing(cond, &headers)).map(move |changes| (cond, changes)))
                .map(|(cond, changes)| with_packet(Change::NotEntry((**cond).clone()), changes))
                .collect()
        }
        Asked::Cell(cell, value) => {
            let of = |(change, write)| with_writes(change, vec![write]);
            other_values(cell, value, sample.at, state).into_iter().map(of).collect()
        }
        Asked::Field(..) | Asked::Present(..) | Asked::Switch(_) | Asked::Frame | Asked::Path(..) | Asked::Wrote(_) => {
            Vec::new()
        }
    }
}

/// Returns the changes of packets that still come in by the same port.
fn elsewhere(changes: Vec<Headers>) -> impl Iterator<Item = Headers> {
    changes.into_iter().filter(|changes| !changes.contains_key(&Field::InPort))
}

/// Adds to a condition the prerequisites of its fields, as the packet has them: an IPv6 packet stays one.
fn stated(cond: &Cond, headers: &Headers) -> Cond {
    let mut all = cond.clone();
    let fields = cond.all.iter().map(|c| c.field).chain(cond.ranges.iter().map(|r| r.field));
    for field in fields.collect::<Vec<_>>() {
        let fits = |alternative: &&&[maple_wire::field::Prerequisite]| {
            alternative.iter().all(|p| headers.get(&p.field).is_some_and(|value| value & p.mask == p.value))
        };
        let alternatives = field.prerequisites();
        let chosen = alternatives.iter().find(fits).or_else(|| {
            // Prefer the packet's network protocol.
            let is_near = |alternative: &&&[maple_wire::field::Prerequisite]| {
                alternative.iter().any(|p| headers.get(&p.field).is_some_and(|value| value & p.mask == p.value))
            };
            alternatives.iter().find(is_near).or(alternatives.first())
        });
        for p in chosen.into_iter().flat_map(|alternative| alternative.iter()) {
            if !all.all.iter().any(|c| c.field == p.field) {
                all = all.and(Constraint { field: p.field, value: p.value, mask: p.mask });
            }
        }
    }
    all
}

/// Returns what a cell might hold instead, each with the write that makes it so.
fn other_values(cell: &Cell, value: &CellValue, at: Location, state: &Snapshot) -> Vec<(Change, Write)> {
    match (cell, value) {
        (Cell::Table(table, key), CellValue::Value(now)) => {
            let write = |value: Option<Value>| {
                let change = Change::State(cell.clone(), value.clone());
                (change, Write::Table { table: table.clone(), key: key.clone(), value })
            };
            let rows = state.table(table).into_iter().flat_map(|rows| rows.iter()).take(ROWS);
            let mut values: BTreeSet<Value> = rows.map(|(_, value)| value.clone()).collect();
            values.extend(now.is_none().then_some(Value::Bool(true)));
            values.extend(now.iter().filter_map(opposite));
            let others = values.into_iter().filter(|value| Some(value) != now.as_ref()).take(3).map(Some);
            let absent = now.is_some().then_some(None);
            let all = absent.into_iter().chain(others).map(write);
            all.filter(|(_, write)| state.check(write).is_ok()).collect()
        }
        (Cell::Var(name), CellValue::Value(now)) => {
            let others = now.iter().filter_map(opposite).chain(now.is_none().then_some(Value::Bool(true)));
            let write = |value: Value| {
                let change = Change::State(cell.clone(), Some(value.clone()));
                (change, Write::Var { name: name.clone(), value: Some(value) })
            };
            others.map(write).filter(|(_, write)| state.check(write).is_ok()).collect()
        }
        (Cell::HostAt(mac), CellValue::Location(None)) if mac.is_host() => {
            let is_edge =
                |place: &Location| *place != at && state.port(*place).is_some_and(|p| p.kind == PortKind::Edge);
            let ports = state
                .switches()
                .flat_map(|(dpid, _)| state.ports_of(dpid).map(move |(port, _)| Location::new(dpid, port)));
            let place = ports.into_iter().find(is_edge);
            let info = |location| HostInfo { location, ipv4: BTreeSet::new(), ipv6: BTreeSet::new() };
            let write = |place| (Change::Known(*mac), Write::Host { mac: *mac, info: Some(info(place)) });
            place.into_iter().map(write).collect()
        }
        (Cell::IsUp(port), CellValue::Exists(up)) => {
            let (now, then) = if *up { (PortKind::Edge, PortKind::New) } else { (PortKind::New, PortKind::Edge) };
            let is_meant = *port != at && state.port(*port).is_some_and(|info| info.kind == now);
            let info = Some(PortInfo { up: !up, kind: then });
            is_meant.then_some((Change::Up(*port, !up), Write::Port { at: *port, info })).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

fn opposite(value: &Value) -> Option<Value> {
    if let Value::Bool(value) = value { Some(Value::Bool(!value)) } else { None }
}

impl Change {
    /// Reports whether exactly one changed packet fits the change.
    fn is_one(&self) -> bool {
        matches!(self, Change::Test(cond, true) if cond.ranges.is_empty() && cond.all.iter().all(Constraint::is_exact))
    }
}

impl fmt::Display for Alternative {
    /// Completes "if …", as [`Change`] does, or gives the example that was tried: `ipv4_src=10.0.0.2, for example`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.example.is_empty() {
            return self.change.fmt(f);
        }
        let fields: Vec<String> = self.example.iter().map(show).collect();
        write!(f, "{}, for example", fields.join(", "))
    }
}

impl fmt::Display for Change {
    /// Completes "if …": `blocked[00:00:00:00:00:01] were absent`, `ipv4_src outside 10.0.0.0/24`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::Test(cond, true) => write!(f, "{cond}"),
            Change::Test(cond, false) => f.write_str(&other_than(cond)),
            Change::NotEntry(cond) => write!(f, "not ({cond})"),
            Change::State(cell, None) => write!(f, "{} were absent", cell_text(cell)),
            Change::State(cell, Some(value)) => write!(f, "{} were {value}", cell_text(cell)),
            Change::Known(mac) => write!(f, "{mac} were a known host"),
            Change::Up(at, up) => write!(f, "port {at} were {}", if *up { "up" } else { "down" }),
        }
    }
}

/// Returns, in words, what fails a condition.
fn other_than(cond: &Cond) -> String {
    match (&cond.all[..], &cond.ranges[..]) {
        ([only], []) if only.is_exact() => format!("{} other than {}", only.field, text(only.field, only.value)),
        ([only], []) => match show(only).split_once('=') {
            Some((field, block)) => format!("{field} outside {block}"),
            None => show(only),
        },
        ([], [range]) => {
            let ends = (text(range.field, range.lo), text(range.field, range.hi));
            format!("{} outside {}..{}", range.field, ends.0, ends.1)
        }
        _ => format!("not ({cond})"),
    }
}
