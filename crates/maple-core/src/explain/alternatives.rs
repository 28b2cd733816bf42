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

use super::account_text::cell_text;
use super::{Decision, EnteringPacket, ExplainedNetwork, Journey, PacketFate, PolicyTrial};
use crate::check::{Headers, Sample, failing, fitting};
use crate::network::{HostInfo, Location, Mac, PortInfo, PortKind};
use crate::run::AccountItem;
use crate::state::{Cell, CellValue, Snapshot, Value, Write};
use crate::trace::{Cond, Source, constraint_text, field_value_text};

/// The maximum number of alternatives that are tried: each costs a run of f.
pub const MAX_ALTERNATIVES: usize = 32;
/// The maximum number of alternatives that are shown, so that an explanation fits a screen.
const MAX_SHOWN: usize = 6;
/// The maximum number of rows of a table that are searched for a value that a key might hold. Chosen: tables have few
/// different values, and of these at most [`MAX_ALTERNATIVES`] can be tried.
const ROWS: usize = 64;

/// A hypothesis about the packet or the state under which f would decide otherwise.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hypothesis {
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

/// A hypothesis, and f's decision under it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alternative {
    /// The hypothesis.
    pub hypothesis: Hypothesis,
    /// The line that asked for the changed answer.
    pub source: Option<Source>,
    /// The packet's fate under it.
    pub fate: PacketFate,
    /// The line that decides with the change.
    pub line: Option<Source>,
    /// The changed packet, if the change is about the packet.
    pub packet: Option<EnteringPacket>,
    /// The changed fields of the packet, unless `hypothesis` states them itself.
    pub example: Vec<Constraint>,
}

/// A hypothesis to be tried.
struct HypothesisTrial {
    hypothesis: Hypothesis,
    source: Option<Source>,
    packet: Option<EnteringPacket>,
    example: Vec<Constraint>,
    writes: Vec<Write>,
}

/// Returns changes with which f gives a packet another fate than it did. A change of the packet also changes
/// what the controller learns before f runs: an ARP packet with another sender announces another address. From `packet`
/// it has `learned` these writes.
pub fn find_alternatives(
    tried: &PolicyTrial<'_>,
    network: &mut dyn ExplainedNetwork,
    packet: &EnteringPacket,
    learned: &[Write],
    decision: &Decision,
) -> Vec<Alternative> {
    let state = tried.store.snapshot();
    let sample = Sample { at: packet.at, frame: Arc::clone(&packet.frame) };
    let (mut shown, mut seen) = (Vec::new(), BTreeSet::new());
    let mut left = MAX_ALTERNATIVES;
    for step in decision.account.iter().rev() {
        for candidate in candidates(&step.what, step.source.as_ref(), &sample, &state) {
            if left == 0 || shown.len() == MAX_SHOWN {
                return shown;
            }
            if seen.contains(&candidate.hypothesis) {
                continue;
            }
            left -= 1;
            let other = match &candidate.packet {
                Some(changed) => {
                    let comes_in = |network: &mut dyn ExplainedNetwork| {
                        Journey::follow(network, &state, changed).begins_at_controller()
                    };
                    match super::learned(network, changed, comes_in) {
                        Ok(learned) => Decision::from_trial(tried, changed, &learned),
                        // f never sees a packet that is refused.
                        Err(_) => continue,
                    }
                }
                None => Decision::from_trial(tried, packet, &[learned, &candidate.writes].concat()),
            };
            if differs(decision, &other) {
                seen.insert(candidate.hypothesis.clone());
                let HypothesisTrial { hypothesis, source, packet, example, .. } = candidate;
                let line = other.line().cloned();
                shown.push(Alternative { hypothesis, source, fate: other.fate, line, packet, example });
            }
        }
    }
    shown
}

/// Reports whether the two decisions differ for the sender: the packet passes in one of them, or leaves elsewhere.
fn differs(decision: &Decision, other: &Decision) -> bool {
    match (&decision.fate, &other.fate) {
        (PacketFate::Forwarded, PacketFate::Dropped) => true,
        (PacketFate::Forwarded, _) => false,
        (_, fate) => *fate == PacketFate::Forwarded && other.exits() != decision.exits(),
    }
}

/// Returns the changes of one answer that are worth a try.
fn candidates(what: &AccountItem, source: Option<&Source>, sample: &Sample, state: &Snapshot) -> Vec<HypothesisTrial> {
    let headers = sample.headers();
    let with_packet = |hypothesis: Hypothesis, changes: Headers| {
        let Sample { at, frame } = sample.with(&changes);
        let is_other = |(field, value): &(&Field, &u128)| headers.get(*field) != Some(*value);
        let others = changes.iter().filter(is_other);
        let example = if hypothesis.is_one() {
            Vec::new()
        } else {
            others.map(|(field, value)| Constraint::exact(*field, *value)).collect()
        };
        HypothesisTrial {
            hypothesis,
            source: source.cloned(),
            packet: Some(EnteringPacket { at, frame }),
            example,
            writes: Vec::new(),
        }
    };
    let with_writes = |hypothesis: Hypothesis, writes: Vec<Write>| HypothesisTrial {
        hypothesis,
        source: source.cloned(),
        packet: None,
        example: Vec::new(),
        writes,
    };
    match what {
        AccountItem::Test(cond, true) => without_moves(failing(cond, &headers))
            .filter(|changes| !cond.holds(&sample.with(changes).packet()))
            .map(|changes| with_packet(Hypothesis::Test(cond.clone(), false), changes))
            .collect(),
        AccountItem::Test(cond, false) => without_moves(fitting(&with_prerequisites_of(cond, &headers), &headers))
            .filter(|changes| cond.holds(&sample.with(changes).packet()))
            .map(|changes| with_packet(Hypothesis::Test(cond.clone(), true), changes))
            .collect(),
        AccountItem::List(answer) => {
            let entry = answer.cond().into_iter();
            entry
                .flat_map(|cond| without_moves(failing(cond, &headers)).map(move |changes| (cond, changes)))
                .map(|(cond, changes)| with_packet(Hypothesis::NotEntry((**cond).clone()), changes))
                .collect()
        }
        AccountItem::Cell(cell, value) => {
            let candidate = |(hypothesis, write)| with_writes(hypothesis, vec![write]);
            other_values(cell, value, sample.at, state).into_iter().map(candidate).collect()
        }
        AccountItem::Field(..)
        | AccountItem::Present(..)
        | AccountItem::Switch(_)
        | AccountItem::Frame
        | AccountItem::Path(..)
        | AccountItem::Wrote(_) => Vec::new(),
    }
}

/// Returns the changes of packets that still come in by the same port.
fn without_moves(changes: Vec<Headers>) -> impl Iterator<Item = Headers> {
    changes.into_iter().filter(|changes| !changes.contains_key(&Field::InPort))
}

/// Adds to a condition the prerequisites of its fields, as the packet has them: an IPv6 packet stays one.
fn with_prerequisites_of(cond: &Cond, headers: &Headers) -> Cond {
    let mut all = cond.clone();
    let fields = cond.constraints.iter().map(|c| c.field).chain(cond.ranges.iter().map(|r| r.field));
    for field in fields.collect::<Vec<_>>() {
        let fits = |alternative: &&&[maple_wire::field::Prerequisite]| {
            alternative.iter().all(|need| headers.get(&need.field).is_some_and(|value| value & need.mask == need.value))
        };
        let alternatives = field.prerequisites();
        let chosen = alternatives.iter().find(fits).or_else(|| {
            // Prefer the packet's network protocol.
            let is_near = |alternative: &&&[maple_wire::field::Prerequisite]| {
                alternative
                    .iter()
                    .any(|need| headers.get(&need.field).is_some_and(|value| value & need.mask == need.value))
            };
            alternatives.iter().find(is_near).or(alternatives.first())
        });
        for p in chosen.into_iter().flat_map(|alternative| alternative.iter()) {
            if !all.constraints.iter().any(|c| c.field == p.field) {
                all = all.and(Constraint { field: p.field, value: p.value, mask: p.mask });
            }
        }
    }
    all
}

/// Returns what a cell might hold instead, each with the write that makes it so.
fn other_values(cell: &Cell, value: &CellValue, at: Location, state: &Snapshot) -> Vec<(Hypothesis, Write)> {
    match (cell, value) {
        (Cell::Table(table, key), CellValue::Value(now)) => {
            let write = |value: Option<Value>| {
                let hypothesis = Hypothesis::State(cell.clone(), value.clone());
                (hypothesis, Write::Table { table: table.clone(), key: key.clone(), value })
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
                let hypothesis = Hypothesis::State(cell.clone(), Some(value.clone()));
                (hypothesis, Write::Var { name: name.clone(), value: Some(value) })
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
            let write = |place| (Hypothesis::Known(*mac), Write::Host { mac: *mac, info: Some(info(place)) });
            place.into_iter().map(write).collect()
        }
        (Cell::IsUp(port), CellValue::Exists(up)) => {
            let (now, then) = if *up { (PortKind::Edge, PortKind::New) } else { (PortKind::New, PortKind::Edge) };
            let is_meant = *port != at && state.port(*port).is_some_and(|info| info.kind == now);
            let info = Some(PortInfo { up: !up, kind: then });
            is_meant.then_some((Hypothesis::Up(*port, !up), Write::Port { at: *port, info })).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

fn opposite(value: &Value) -> Option<Value> {
    if let Value::Bool(value) = value { Some(Value::Bool(!value)) } else { None }
}

impl Hypothesis {
    /// Reports whether exactly one changed packet fits the change.
    fn is_one(&self) -> bool {
        matches!(self, Hypothesis::Test(cond, true) if cond.ranges.is_empty() && cond.constraints.iter().all(Constraint::is_exact))
    }
}

impl fmt::Display for Alternative {
    /// Completes "if …", as [`Hypothesis`] does, or gives the example that was tried: `ipv4_src=10.0.0.2, for example`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.example.is_empty() {
            return self.hypothesis.fmt(f);
        }
        let fields: Vec<String> = self.example.iter().map(constraint_text).collect();
        write!(f, "{}, for example", fields.join(", "))
    }
}

impl fmt::Display for Hypothesis {
    /// Completes "if …": `blocked[00:00:00:00:00:01] were absent`, `ipv4_src outside 10.0.0.0/24`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Hypothesis::Test(cond, true) => write!(f, "{cond}"),
            Hypothesis::Test(cond, false) => f.write_str(&other_than(cond)),
            Hypothesis::NotEntry(cond) => write!(f, "not ({cond})"),
            Hypothesis::State(cell, None) => write!(f, "{} were absent", cell_text(cell)),
            Hypothesis::State(cell, Some(value)) => write!(f, "{} were {value}", cell_text(cell)),
            Hypothesis::Known(mac) => write!(f, "{mac} were a known host"),
            Hypothesis::Up(at, up) => write!(f, "port {at} were {}", if *up { "up" } else { "down" }),
        }
    }
}

/// Returns, in words, what fails a condition.
fn other_than(cond: &Cond) -> String {
    match (&cond.constraints[..], &cond.ranges[..]) {
        ([only], []) if only.is_exact() => {
            format!("{} other than {}", only.field, field_value_text(only.field, only.value))
        }
        ([only], []) => match constraint_text(only).split_once('=') {
            Some((field, block)) => format!("{field} outside {block}"),
            None => constraint_text(only),
        },
        ([], [range]) => {
            let ends = (field_value_text(range.field, range.lo), field_value_text(range.field, range.hi));
            format!("{} outside {}..{}", range.field, ends.0, ends.1)
        }
        _ => format!("not ({cond})"),
    }
}
