//! A plan: what a policy would change in the place of the running one, as JSON and as a fingerprint.
//!
//! Plans with equal fingerprints make equal changes. Cookies are left out: they have the numbers of leaves, which
//! increase with every packet that is decided, related to the changes or not.
//!
//! A network in use decides packets all the time, and its labels and priorities follow. None of that changes what a
//! plan decides. So a plan holds as long as each of its packets goes as it says, and the policy fails on no other
//! packet. [`Plan::goes_beyond`] finds what came since.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use maple_core::engine::{
    Candidate, DecidedPacket, DecisionSummary, Difference, DifferenceKind, MAX_DIFFERENCES, Rehearsal, Rehearsed,
    RuleDifference, TableRule, Trial,
};
use maple_core::policy::Policy;
use maple_wire::{Dpid, Version};
use serde_json::{Value, json};

use super::access_lists;
use super::answer::{errors, flow, location};
pub use crate::fingerprint::Fingerprint;

/// The version of the JSON's form. It grows when a reader of the form before would misread a plan
/// (docs/compatibility.md).
pub const FORMAT: u64 = 1;
/// The changes that a policy would make.
#[derive(Debug)]
pub struct Plan {
    /// The policy's name, as for `maple run`.
    policy: String,
    /// The fingerprint of the policy's files.
    sources: Fingerprint,
    rehearsed: Rehearsed,
    versions: BTreeMap<Dpid, Version>,
    warnings: Vec<String>,
    /// The differences of the access lists, as JSON.
    lists: Value,
    /// The packets that the network had decided.
    packets: BTreeSet<DecidedPacket>,
}

/// A decision of a plan as digits that stand for it: for the packet, for its outcome, and for the lines that decide
/// before and after.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Digits {
    packet: String,
    outcome: String,
    lines: String,
}

/// The number of digits of each part of [`Digits`]. Chosen: with 48 bits two of some thousand decisions hardly ever
/// agree, and all decisions of a plan have to fit into a request.
const DIGITS: usize = 12;

impl Digits {
    fn from_difference(one: &Difference) -> Digits {
        let Difference { kind, before, after, .. } = one;
        let exits =
            |decision: &DecisionSummary| decision.exits.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let (from, to) = (exits(before), exits(after));
        // Where the ports are equal, the path or the treatment differs; an error has no ports at all.
        let is_in_route = from == to || *kind == DifferenceKind::Fails;
        let reason = if is_in_route { after.route.as_str() } else { "" };
        let error = if *kind == DifferenceKind::Fails { reason } else { "" };
        Digits {
            packet: digits_of(&one.packet),
            outcome: digits([kind.name(), &from, &to, reason]),
            lines: digits([kind.name(), &before.lines, &after.lines, error]),
        }
    }

    fn parse(text: &str) -> Option<Digits> {
        let part = |at: usize| text.get(at * DIGITS..(at + 1) * DIGITS).map(str::to_owned);
        Some(Digits { packet: part(0)?, outcome: part(1)?, lines: part(2)? })
    }

    fn text(&self) -> String {
        [self.packet.as_str(), &self.outcome, &self.lines].concat()
    }
}

fn digits<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
    Fingerprint::from_parts(parts).to_string().chars().take(DIGITS).collect()
}

fn digits_of(packet: &DecidedPacket) -> String {
    // Whether somebody has sent it by now is not part of what was decided.
    let DecidedPacket { at, from, to, summary, is_made_up: _ } = packet;
    digits([at.to_string().as_str(), &from.to_string(), &to.to_string(), summary])
}

impl Plan {
    /// Rehearses what would change if `candidate`, a policy with this name and these files, took the place of the
    /// rehearsed one. The rules of switches are printed in their OpenFlow versions.
    pub fn rehearse(
        rehearsal: Rehearsal,
        policy: String,
        candidate: Arc<dyn Policy>,
        sources: Fingerprint,
        versions: BTreeMap<Dpid, Version>,
    ) -> Plan {
        let packets = rehearsal.packets();
        let lists = access_lists::compare(&rehearsal.access_lists(), &candidate.access_lists());
        let mut rehearsed = rehearsal.adopt(&Candidate { number: 0, policy: candidate });
        rehearsed.trial.differences.sort();
        rehearsed.trial.differences.truncate(MAX_DIFFERENCES);
        Plan { policy, sources, rehearsed, versions, warnings: Vec::new(), lists, packets }
    }

    /// Returns the plan with warnings about its policy.
    #[must_use]
    pub fn with_warnings(self, warnings: Vec<String>) -> Plan {
        Plan { warnings, ..self }
    }

    /// Returns the fingerprint of the policy's files.
    pub fn sources(&self) -> &Fingerprint {
        &self.sources
    }

    /// Returns the outcome of the rehearsal.
    pub fn rehearsed(&self) -> &Rehearsed {
        &self.rehearsed
    }

    /// Returns the fingerprint of what changes: decisions and rules.
    pub fn changes(&self) -> Fingerprint {
        let counts = self.counts().to_string();
        let as_sent = |one: &Difference| {
            let packet = DecidedPacket { is_made_up: false, ..one.packet.clone() };
            difference(&Difference { packet, ..one.clone() }).to_string()
        };
        let differences = self.rehearsed.trial.differences.iter().map(as_sent);
        let side = |rule: Option<&TableRule>| match rule {
            Some(TableRule { table_id, rule, .. }) => {
                format!("{table_id} {} {:?} {:?}", rule.priority, rule.matching, rule.instructions)
            }
            None => String::new(),
        };
        // A rule whose cookie alone differs does nothing else.
        let sides = |(before, after): (Option<&TableRule>, Option<&TableRule>)| [side(before), side(after)];
        let of_switch = |(dpid, rules): (&Dpid, &Vec<RuleDifference>)| {
            let changed = rules.iter().map(|rule| sides(rule.sides())).filter(|[before, after]| before != after);
            std::iter::once(dpid.to_string()).chain(changed.flatten()).collect::<Vec<String>>()
        };
        let rules = self.rehearsed.rules.iter().flat_map(of_switch);
        Fingerprint::from_parts(std::iter::once(counts).chain(differences).chain(rules))
    }

    /// Returns the plan's decisions, for [`Plan::goes_beyond`].
    pub fn decided(&self) -> Vec<String> {
        self.rehearsed.trial.differences.iter().map(|one| Digits::from_difference(one).text()).collect()
    }

    /// Compares this plan with an earlier one that had these decisions. Returns the packets that have come since and go
    /// otherwise by lines that the earlier plan does not have.
    ///
    /// # Errors
    ///
    /// A text about the first packet of the earlier plan that does not go as that plan says, or about the first other
    /// packet on which the policy fails for a reason that is not in that plan.
    pub fn goes_beyond(&self, decided: &[String]) -> Result<Vec<String>, String> {
        let expected: BTreeSet<Digits> = decided.iter().filter_map(|text| Digits::parse(text)).collect();
        let packets: BTreeSet<&str> = expected.iter().map(|one| one.packet.as_str()).collect();
        let lines: BTreeSet<&str> = expected.iter().map(|one| one.lines.as_str()).collect();
        let (mut again, mut new) = (BTreeSet::new(), Vec::new());
        for one in &self.rehearsed.trial.differences {
            let digits = Digits::from_difference(one);
            if packets.contains(digits.packet.as_str()) {
                if !expected.contains(&digits) {
                    return Err(format!("{}, which is in the plan, would go otherwise: {}", one.packet, change(one)));
                }
                again.insert(digits.packet);
            } else if !lines.contains(digits.lines.as_str()) {
                let what = format!("{}, which is not in the plan: {}", one.packet, change(one));
                if one.kind == DifferenceKind::Fails {
                    return Err(format!("the policy fails on {what}"));
                }
                new.push(what);
            }
        }
        // A packet that is missing may be among those that are only counted.
        let is_whole = self.rehearsed.trial.counts.values().sum::<usize>() == self.rehearsed.trial.differences.len();
        let is_missing = |packet: &&DecidedPacket| {
            let digits = digits_of(packet);
            packets.contains(digits.as_str()) && !again.contains(&digits)
        };
        match self.packets.iter().find(is_missing).filter(|_| is_whole) {
            Some(missing) => Err(format!("{missing}, which is in the plan, would go as before")),
            None => Ok(new),
        }
    }

    fn counts(&self) -> Value {
        counts(&self.rehearsed.trial)
    }

    /// Encodes the plan as a document.
    pub fn to_json(&self) -> Value {
        let rules: Value = self.rehearsed.rules.iter().map(|(dpid, rules)| self.rules(*dpid, rules)).collect();
        let mut plan = decisions(&self.rehearsed.trial);
        plan["format"] = FORMAT.into();
        plan["policy"] = self.policy.as_str().into();
        plan["sources"] = json!(self.sources);
        plan["changes"] = json!(self.changes());
        plan["decided"] = json!(self.decided());
        plan["rules"] = rules;
        plan["lists"] = self.lists.clone();
        plan["warnings"] = json!(self.warnings);
        plan
    }

    fn rules(&self, dpid: Dpid, rules: &[RuleDifference]) -> Value {
        let version = self.versions.get(&dpid).copied().unwrap_or(Version::Of13);
        let shown = |rule: &TableRule| json!({ "flow": flow(version, rule), "why": rule.why });
        let (mut add, mut change, mut delete) = (Vec::new(), Vec::new(), Vec::new());
        for rule in rules {
            match rule {
                RuleDifference::Add(rule) => add.push(shown(rule)),
                RuleDifference::Change { before, after } => {
                    change.push(json!({ "before": shown(before), "after": shown(after) }));
                }
                RuleDifference::Delete(rule) => delete.push(shown(rule)),
            }
        }
        json!({ "switch": dpid.to_string(), "add": add, "change": change, "delete": delete })
    }
}

/// Writes what becomes of a packet, before and after.
fn change(one: &Difference) -> String {
    let Difference { kind, before, after, .. } = one;
    let lines = |lines: &str| if lines.is_empty() { String::new() } else { format!(" ({lines})") };
    format!("it {kind}, {}{} -> {}{}", before.route, lines(&before.lines), after.route, lines(&after.lines))
}

/// Encodes what a policy decides otherwise, as in a plan.
///
/// ```
/// use maple_controller::control::plan::decisions;
/// use maple_core::engine::Trial;
/// assert_eq!(decisions(&Trial::default())["packets"], 0);
/// ```
pub fn decisions(trial: &Trial) -> Value {
    json!({
        "packets": trial.leaves, "same": trial.same, "failed": trial.failed,
        "errors": errors(&trial.errors),
        "counts": counts(trial),
        "differences": trial.differences.iter().map(difference).collect::<Value>(),
    })
}

fn counts(trial: &Trial) -> Value {
    let all = trial.counts.iter().map(|(kind, count)| (kind.name().replace(' ', "_"), Value::from(*count)));
    Value::Object(all.collect())
}

fn difference(one: &Difference) -> Value {
    let Difference { kind, packet, before, after } = one;
    let DecidedPacket { at, from, to, summary, is_made_up } = packet;
    json!({
        "kind": kind.name().replace(' ', "_"),
        "at": location(*at),
        "from": from.to_string(),
        "to": to.to_string(),
        "packet": summary,
        "made_up": is_made_up,
        "before": decision(before),
        "after": decision(after),
    })
}

fn decision(one: &DecisionSummary) -> Value {
    let exits: Value = one.exits.iter().copied().map(location).collect();
    json!({ "route": one.route, "exits": exits, "lines": one.lines })
}
