//! An explanation as JSON: `answers.json` describes it.

use std::fmt;
use std::time::SystemTime;

use maple_core::engine::RuleCount;
use maple_core::explain::{
    Alternative, Decision, EnteringPacket, Explanation, JourneyHop, PacketFate, PassageOutcome, PassedRule,
};
use maple_core::network::{Location, Mac};
use maple_core::run::AccountStep;
use maple_core::state::{Snapshot, Store};
use maple_wire::packet::text::summary;
use maple_wire::{Field, Packet, Version, print};
use serde_json::{Value, json};

use super::super::answer::location;
use super::super::state::written;
use super::RuleCounters;
use super::source_lines::SourceLines;

/// The context of an explanation's encoding: the state, the counters, and the age of the policy.
pub struct AnswerContext<'a> {
    /// The state, which has the hosts and the last writers.
    pub store: &'a Store,
    /// The counters of the rules on the path.
    pub counts: &'a RuleCounters,
    /// The time at which the policy was loaded. Source files that were written later are not quoted. With `None`, the
    /// files on disk are current.
    pub loaded: Option<SystemTime>,
}

impl fmt::Debug for AnswerContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnswerContext").field("loaded", &self.loaded).finish_non_exhaustive()
    }
}

/// Encodes an explanation as JSON.
pub fn to_json(explanation: &Explanation, context: &AnswerContext<'_>) -> Value {
    let AnswerContext { store, counts, loaded } = *context;
    let mut lines = SourceLines::new(loaded);
    let state = &*store.snapshot();
    let packet = &explanation.packet;
    let mut all = json!({
        "packet": packet_json(packet, state),
        "instead": instead(&explanation.alternatives, &mut lines),
        "leaf": explanation.leaf.as_ref().map(|leaf| json!({
            "id": leaf.id.0, "under_way": leaf.under_way, "specialised_to": leaf.specialised_to,
            "made_up": leaf.is_made_up,
        })),
        "hops": hops(explanation, counts),
        "arrives": explanation.journey.arrivals.iter().map(|arrival| {
            exit(arrival.at, &arrival.frame, packet, state)
        }).collect::<Vec<_>>(),
        "lost": explanation.journey.lost.iter().map(|(at, why)| {
            json!({ "at": location(*at), "why": why })
        }).collect::<Vec<_>>(),
        "has_loop": explanation.journey.has_loop,
        "asks_controller": explanation.journey.asks_controller(),
        "agrees": explanation.agrees(),
    });
    match &explanation.decision {
        Ok(decision) => decided(decision, packet, store, &mut lines, &mut all),
        Err(why) => {
            all["verdict"] = json!("refused");
            all["why"] = json!(why);
            all["line"] = Value::Null;
            all["steps"] = json!([]);
        }
    }
    let changed = lines.changed();
    if !changed.is_empty() {
        all["changed_files"] = json!(changed);
    }
    all
}

/// Adds f's decision to the explanation.
fn decided(decision: &Decision, packet: &EnteringPacket, store: &Store, lines: &mut SourceLines, all: &mut Value) {
    let state = &*store.snapshot();
    all["verdict"] = json!(decision.fate.word());
    all["line"] = lines.maybe(decision.line());
    all["route"] = json!(decision.route);
    let headers = Packet::new(&packet.frame, packet.at.port.0);
    all["steps"] = decision.account.iter().map(|one| step(one, &headers, store, lines)).collect();
    let exits = decision.copies.iter().flatten();
    all["exits"] = exits.map(|(at, frame)| exit(*at, frame, packet, state)).collect();
    if let PacketFate::Failed(error) = &decision.fate {
        all["why"] = json!(error.to_string());
    }
    if !decision.violations.is_empty() {
        let violation = |one: &maple_core::run::Violation| json!({ "constraint": &*one.constraint, "why": &*one.why, "line": lines.maybe(one.place.as_ref()) });
        all["violations"] = decision.violations.iter().map(violation).collect();
    }
    all["lasts"] = json!(decision.trace.lasts() && decision.writes.is_empty());
}

fn packet_json(packet: &EnteringPacket, state: &Snapshot) -> Value {
    let headers = Packet::new(&packet.frame, packet.at.port.0);
    let mac = |field| headers.switch_value(field).map(|bits| Mac::from_bits(bits).to_string());
    let to = headers.switch_value(Field::EthDst).map(Mac::from_bits).and_then(|mac| state.host(mac));
    json!({
        "at": location(packet.at),
        "from": mac(Field::EthSrc),
        "to": mac(Field::EthDst),
        "to_at": to.map(|host| location(host.location)),
        "summary": summary(&headers),
        "frame": hex::encode(&packet.frame),
    })
}

fn step(step: &AccountStep, packet: &Packet<'_>, store: &Store, lines: &mut SourceLines) -> Value {
    let mut one =
        json!({ "line": lines.maybe(step.source.as_ref()), "asked": step.question(), "answer": step.answer() });
    if let Some(evidence) = step.evidence(packet) {
        one["evidence"] = json!(evidence);
    }
    if let Some(last) = step.cell().and_then(|cell| store.last_write(cell)) {
        one["written"] = written(Some(last));
    }
    one
}

/// Encodes a copy that leaves: where, to whom, and how it differs from the packet.
fn exit(at: Location, frame: &[u8], packet: &EnteringPacket, state: &Snapshot) -> Value {
    let hosts: Vec<String> =
        state.hosts().filter(|(_, info)| info.location == at).map(|(mac, _)| mac.to_string()).take(8).collect();
    let mut one = json!({ "at": location(at), "hosts": hosts });
    let changes = changes(&packet.frame, frame);
    if !changes.is_empty() {
        one["rewrites"] = json!(changes);
    }
    one
}

/// Lists the fields in which two frames differ, such as `vlan_vid=10`.
fn changes(before: &[u8], after: &[u8]) -> Vec<String> {
    let (before, after) = (Packet::new(before, 0), Packet::new(after, 0));
    let differs = |field: &Field| *field != Field::InPort && before.get(*field) != after.get(*field);
    let text = |field: Field| match after.get(field) {
        Some(value) => format!("{field}={}", maple_core::trace::field_value_text(field, value)),
        None => format!("no {field}"),
    };
    Field::ALL.into_iter().filter(differs).map(text).collect()
}

fn instead(all: &[Alternative], lines: &mut SourceLines) -> Value {
    let one = |other: &Alternative| {
        json!({
            "if": other.to_string(),
            "asked_at": lines.maybe(other.source.as_ref()),
            "verdict": other.fate.word(),
            "line": lines.maybe(other.line.as_ref()),
        })
    };
    all.iter().map(one).collect()
}

fn hops(explanation: &Explanation, counts: &RuleCounters) -> Value {
    let hop = |(number, hop): (usize, &JourneyHop)| {
        let rules = hop.passage.rules.iter().enumerate();
        let rules: Value = rules.map(|(at, one)| rule(hop.passage.version, one, counts.get(&(number, at)))).collect();
        json!({
            "at": location(hop.at),
            "rules": rules,
            "missed_in_table": hop.passage.missed,
            "meters": hop.passage.meters,
            "outcomes": hop.passage.outcomes.iter().map(outcome).collect::<Vec<_>>(),
        })
    };
    explanation.journey.hops.iter().enumerate().map(hop).collect()
}

fn outcome(outcome: &PassageOutcome) -> Value {
    match outcome {
        PassageOutcome::Port(port, _) if port.is_physical() => json!({ "port": port.0 }),
        PassageOutcome::Port(port, _) => json!({ "port": port.to_string() }),
        PassageOutcome::Controller(_) => json!({ "controller": true }),
        PassageOutcome::Expired => json!({ "expired": true }),
        PassageOutcome::Elsewhere(action) => json!({ "elsewhere": action }),
    }
}

fn rule(version: Version, one: &PassedRule, count: Option<&RuleCount>) -> Value {
    json!({
        "table": one.table,
        "priority": one.rule.priority,
        "match": print::matching(version, &one.rule.matching),
        "actions": print::instructions(version, &one.rule.instructions),
        "cookie": format!("{:#018x}", one.rule.cookie),
        "n_packets": count.map(|count| count.packets),
        "n_bytes": count.map(|count| count.bytes),
        "leaf": one.leaf.map(|leaf| leaf.0),
        "why": one.why,
        "foreign": one.is_foreign,
    })
}
