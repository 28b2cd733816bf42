//! A plan: what a policy would change, if it took the place of the one that runs, as JSON and as a fingerprint.
//!
//! Plans with equal fingerprints make the same changes. Cookies are left out: they have the numbers of leaves, which go up
//! with every packet that is decided, whether or not it has to do with the changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use maple_core::engine::{Candidate, Decision, Difference, Rehearsal, Rehearsed, RuleDifference, TableRule, Trial};
use maple_core::policy::Policy;
use maple_wire::{Dpid, Version};
use serde_json::{Value, json};

use super::answer::{errors, flow, location};
pub use crate::fingerprint::Fingerprint;

/// The form of the JSON.
pub(super) const FORMAT: u64 = 1;
/// The maximum number of differences that are told one by one.
const MAX_DIFFERENCES: usize = 1000;

/// What a policy would change.
#[derive(Debug)]
pub struct Plan {
    /// The policy, as for `maple run`.
    policy: String,
    /// Its files.
    sources: Fingerprint,
    rehearsed: Rehearsed,
    versions: BTreeMap<Dpid, Version>,
    warnings: Vec<String>,
}

impl Plan {
    /// What would change if this policy, which has these files, took the place of the one that is rehearsed. The rules of
    /// switches are told in their OpenFlow versions.
    pub fn rehearse(
        rehearsal: Rehearsal,
        (policy, candidate): (String, Arc<dyn Policy>),
        sources: Fingerprint,
        versions: BTreeMap<Dpid, Version>,
    ) -> Plan {
        let mut rehearsed = rehearsal.adopt(&Candidate { number: 0, policy: candidate });
        rehearsed.trial.differences.sort();
        rehearsed.trial.differences.truncate(MAX_DIFFERENCES);
        Plan { policy, sources, rehearsed, versions, warnings: Vec::new() }
    }

    /// The plan with warnings about its policy.
    #[must_use]
    pub fn with_warnings(self, warnings: Vec<String>) -> Plan {
        Plan { warnings, ..self }
    }

    /// The policy's files.
    pub fn sources(&self) -> &Fingerprint {
        &self.sources
    }

    /// What came of the rehearsal.
    pub fn rehearsed(&self) -> &Rehearsed {
        &self.rehearsed
    }

    /// What changes: decisions and rules.
    pub fn changes(&self) -> Fingerprint {
        let counts = self.counts().to_string();
        let differences = self.rehearsed.trial.differences.iter().map(|one| difference(one).to_string());
        let side = |rule: Option<&TableRule>| match rule {
            Some(TableRule { table_id, rule, .. }) => {
                format!("{table_id} {} {:?} {:?}", rule.priority, rule.matching, rule.instructions)
            }
            None => String::new(),
        };
        // A rule that only has another cookie does the same.
        let sides = |(before, after): (Option<&TableRule>, Option<&TableRule>)| [side(before), side(after)];
        let of_switch = |(dpid, rules): (&Dpid, &Vec<RuleDifference>)| {
            let changed = rules.iter().map(|rule| sides(rule.sides())).filter(|[before, after]| before != after);
            std::iter::once(dpid.to_string()).chain(changed.flatten()).collect::<Vec<String>>()
        };
        let rules = self.rehearsed.rules.iter().flat_map(of_switch);
        Fingerprint::of(std::iter::once(counts).chain(differences).chain(rules))
    }

    fn counts(&self) -> Value {
        counts(&self.rehearsed.trial)
    }

    /// The plan as a document.
    pub fn to_json(&self) -> Value {
        let rules: Value = self.rehearsed.rules.iter().map(|(dpid, rules)| self.rules(*dpid, rules)).collect();
        let mut plan = decisions(&self.rehearsed.trial);
        plan["format"] = FORMAT.into();
        plan["policy"] = self.policy.as_str().into();
        plan["sources"] = json!(self.sources);
        plan["changes"] = json!(self.changes());
        plan["rules"] = rules;
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

/// What a policy decides otherwise, as in a plan.
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
    let Difference { kind, at, from, to, packet, before, after } = one;
    json!({
        "kind": kind.name().replace(' ', "_"),
        "at": location(*at),
        "from": from.to_string(),
        "to": to.to_string(),
        "packet": packet,
        "before": decision(before),
        "after": decision(after),
    })
}

fn decision(one: &Decision) -> Value {
    let exits: Value = one.exits.iter().copied().map(location).collect();
    json!({ "route": one.route, "exits": exits, "lines": one.lines })
}
