//! An audit: finds whether a switch has the rules that it is to have.
//!
//! The switch is asked for all its rules. Each part of its answer is compared, when it comes, with what the switch is
//! presumed to have. Updates go on meanwhile: an entry that was changed after the request, or whose change was not yet
//! confirmed then, is left to the next audit. An audit corrects nothing: that follows after all rules were read
//! ([`Tables::begin_reread`]).
//!
//! # Cost
//!
//! Eight bytes for each rule while the answer comes, and a look-up for each.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

use maple_wire::msg::stats::FlowStats;
use rustc_hash::FxHashSet;

use super::{Tables, Unconfirmed};
use crate::rule::Rule;
use crate::update::{EntryKey, entry_key, key_of};

/// The maximum number of entries that may change during an audit. If more do, it is given up. Chosen: more than a table
/// of most switches holds; after that many changes the answer says little about the table.
const MAX_CHANGED: usize = 1 << 18;
/// The maximum number of foreign rules of a switch that are kept. Chosen: enough to show people what another program
/// did, and a bound on what it can cost.
const MAX_FOREIGN: usize = 256;
/// The maximum number of places of wrong rules that are kept. Chosen: a bound on what a switch can make us remember.
const MAX_PLACES: usize = 1 << 12;

/// The findings of an audit.
#[derive(Clone, Debug, Default)]
pub(in crate::engine) struct AuditFindings {
    /// The number of rules that the switch does not have.
    pub missing: usize,
    /// The number of rules of which the switch does something else.
    pub altered: usize,
    /// The number of rules with our cookies that are not ours.
    pub unknown: usize,
    /// The first of these rules, with its table.
    pub example: Option<(u8, Rule)>,
    /// The places of these rules, at most [`MAX_PLACES`].
    pub places: BTreeSet<u64>,
    /// The places that were not judged, because something was about to change there.
    pub unjudged: FxHashSet<u64>,
    /// The rules that others have made, with their tables.
    pub foreign: Vec<(u8, Rule)>,
}

/// An audit that is under way.
#[derive(Clone, Debug)]
pub(super) struct RuleAudit {
    xid: u32,
    /// The entries that the switch has reported.
    seen: FxHashSet<u64>,
    /// The entries that may have changed since the request.
    changed: FxHashSet<u64>,
    found: AuditFindings,
}

impl AuditFindings {
    fn note(&mut self, count: fn(&mut AuditFindings) -> &mut usize, at: u64, table: u8, rule: impl FnOnce() -> Rule) {
        *count(self) += 1;
        if self.places.len() < MAX_PLACES {
            self.places.insert(at);
        }
        if self.example.is_none() {
            self.example = Some((table, rule()));
        }
    }
}

impl Tables {
    /// Begins an audit. The message with this id asks the switch for all its rules.
    pub fn begin_audit(&mut self, xid: u32) {
        let is_open = |(_, sent): &(u32, Unconfirmed)| match sent {
            Unconfirmed::FlowMod { table, change } => Some(place(*table, &key_of(change.rule()))),
            Unconfirmed::Bundle | Unconfirmed::Barrier(_) => None,
        };
        let changed = self.sent.unconfirmed.iter().filter_map(is_open).collect();
        self.reading.audit =
            Some(RuleAudit { xid, seen: FxHashSet::default(), changed, found: AuditFindings::default() });
    }

    /// Reports whether an audit is under way.
    pub fn is_audited(&self) -> bool {
        self.reading.audit.is_some()
    }

    /// Reports whether the answer to this request is part of an audit.
    pub fn is_audited_by(&self, xid: u32) -> bool {
        self.reading.audit.as_ref().is_some_and(|audit| audit.xid == xid)
    }

    /// Ends the audit without a result.
    pub fn give_up_audit(&mut self) {
        self.reading.audit = None;
    }

    /// Notes that an entry changes, so that an audit under way does not judge it.
    pub(super) fn changes_during_audit(&mut self, table: u8, key: &EntryKey) {
        if let Some(audit) = &mut self.reading.audit {
            audit.changed.insert(place(table, key));
            if audit.changed.len() > MAX_CHANGED {
                self.reading.audit = None;
            }
        }
    }

    /// Compares a part of the switch's report with the known rules. `is_ours`: whether a rule with this cookie is ours.
    pub fn audit_part(&mut self, flows: &[FlowStats], is_ours: fn(u64) -> bool) {
        let Some(audit) = &mut self.reading.audit else { return };
        for flow in flows {
            let key = entry_key(flow.priority, &flow.matching);
            let installed_rule = self.installed.get(&flow.table_id).and_then(|installed| installed.get(&key));
            let rule = || Rule {
                priority: flow.priority,
                matching: flow.matching.clone(),
                instructions: flow.instructions[..].into(),
                cookie: flow.cookie,
            };
            let place = place(flow.table_id, &key);
            match installed_rule {
                Some(installed_rule) => {
                    let is_right =
                        installed_rule.cookie == flow.cookie && installed_rule.has_instructions(&flow.instructions);
                    if audit.seen.insert(place) && !is_right && !audit.changed.contains(&place) {
                        audit.found.note(|found| &mut found.altered, place, flow.table_id, rule);
                    }
                }
                None if audit.changed.contains(&place) => {}
                None if is_ours(flow.cookie) => {
                    audit.found.note(|found| &mut found.unknown, place, flow.table_id, rule);
                }
                None if audit.found.foreign.len() < MAX_FOREIGN => audit.found.foreign.push((flow.table_id, rule())),
                None => {}
            }
        }
    }

    /// Ends the audit, because the switch has reported all its rules. Returns `None` if there is no audit.
    pub fn end_audit(&mut self) -> Option<AuditFindings> {
        let RuleAudit { seen, changed, mut found, .. } = self.reading.audit.take()?;
        for (table, installed) in &self.installed {
            for key in installed.keys() {
                let place = place(*table, key);
                let rule = || installed.get(key).map(|installed_rule| installed_rule.at(key));
                if !seen.contains(&place)
                    && !changed.contains(&place)
                    && let Some(rule) = rule()
                {
                    found.note(|found| &mut found.missing, place, *table, || rule);
                }
            }
        }
        for (table, key) in self.deletions.refused.entries() {
            let installed_rule = self.installed.get(table).and_then(|installed| installed.get(key));
            if let Some(installed_rule) = installed_rule.filter(|_| seen.contains(&place(*table, key))) {
                found.note(|found| &mut found.unknown, place(*table, key), *table, || installed_rule.at(key));
            }
        }
        found.unjudged = changed;
        Some(found)
    }
}

/// Returns the hash of an entry, which very likely no other entry has.
pub(in crate::engine) fn place(table: u8, key: &EntryKey) -> u64 {
    let mut hasher = DefaultHasher::new();
    (table, key).hash(&mut hasher);
    hasher.finish()
}
