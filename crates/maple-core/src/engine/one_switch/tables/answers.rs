//! Handles what a switch reports: that it has done what was sent, that it has refused some of it, which rules it has,
//! and that a rule is gone.

use super::{Requests, Tables, Unconfirmed, UpdatePhase, Waiter};
use crate::ids::Time;
use crate::rule::Rule;
use crate::update::{Change, EntryKey};

/// The maximum number of removals that are remembered while rules are read. An audit finds others. Chosen: more than
/// most switches have rules, and a bound on what a switch can make us remember.
const MAX_REMOVED: usize = 1 << 16;

/// The outcome of a barrier reply.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::engine) struct ConfirmedRequests {
    pub waiters: Vec<Waiter>,
    /// Whether the second step of an update may follow.
    pub has_second_step: bool,
}

/// A request that the switch has refused.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::engine) enum RefusedRequest {
    /// A change of this rule, in this table.
    Rule(u8, Rule),
    /// The deletion of this rule.
    Deletion(u8, Rule),
    /// A bundle as such. The switch gets none afterwards.
    Bundle,
}

impl Tables {
    /// Handles the reply to the barrier request with this id: everything sent before is done. Returns `None` if there
    /// was no such request.
    pub fn on_barrier_reply(&mut self, xid: u32) -> Option<ConfirmedRequests> {
        let is_barrier_request =
            |(id, sent): &(u32, Unconfirmed)| *id == xid && matches!(sent, Unconfirmed::Barrier(_));
        let index = self.sent.unconfirmed.iter().position(is_barrier_request)?;
        let done = self.sent.unconfirmed.drain(..=index);
        let waiters =
            done.flat_map(|(_, sent)| if let Unconfirmed::Barrier(waiters) = sent { waiters } else { Vec::new() });
        let waiters = waiters.collect();
        self.sent.phase = match std::mem::take(&mut self.sent.phase) {
            UpdatePhase::First(awaited, step) if awaited == xid => UpdatePhase::Second(step),
            other => other,
        };
        Some(ConfirmedRequests { waiters, has_second_step: matches!(self.sent.phase, UpdatePhase::Second(_)) })
    }

    /// Handles the refusal of the message with this id. `of_bundle`: the error says that a bundle was refused, and not
    /// the change in it. Returns what was refused, if that was not known.
    pub fn on_refused(&mut self, xid: u32, of_bundle: bool) -> Option<RefusedRequest> {
        let is_refused_request =
            |(id, sent): &(u32, Unconfirmed)| *id == xid && !matches!(sent, Unconfirmed::Barrier(_));
        // The message leaves the list, so further refusals of it have no effect.
        let index = self.sent.unconfirmed.iter().position(is_refused_request)?;
        let (_, sent) = self.sent.unconfirmed.remove(index)?;
        let refused = match sent {
            Unconfirmed::FlowMod { table, change: Change::Delete(rule) } if !of_bundle => {
                RefusedRequest::Deletion(table, rule)
            }
            Unconfirmed::FlowMod { table, change } if !of_bundle => RefusedRequest::Rule(table, change.into_rule()),
            // A commit also fails because of a change whose own refusal came before.
            Unconfirmed::FlowMod { .. } | Unconfirmed::Bundle if !self.reading.is_known => return None,
            Unconfirmed::FlowMod { .. } | Unconfirmed::Bundle => RefusedRequest::Bundle,
            Unconfirmed::Barrier(_) => return None,
        };
        self.has_bundles &= refused != RefusedRequest::Bundle;
        // The barriers after it confirm nothing of it. Their waiters wait for the update after the rules were read.
        let mut waiters = Vec::new();
        for (_, sent) in self.sent.unconfirmed.iter_mut().skip(index) {
            if let Unconfirmed::Barrier(awaiting) = sent {
                waiters.append(awaiting);
            }
        }
        self.sent.waiters.splice(0..0, waiters);
        Some(refused)
    }

    /// Begins to read the rules of the switch, because they are not known. Returns whether the switch has to be asked.
    pub fn begin_reread(&mut self, out: &mut Requests) -> bool {
        if self.reading.is_unreachable || !std::mem::take(&mut self.reading.is_known) {
            return false;
        }
        self.reading.audit = None;
        // The second step depends on changes that the switch may have refused, so the update starts again.
        if let UpdatePhase::First(_, step) | UpdatePhase::Second(step) = std::mem::take(&mut self.sent.phase) {
            if let Some(bundle) = step.bundle {
                let xid = self.take_xid();
                out.push((xid, bundle.discard()));
            }
            self.sent.waiters.splice(0..0, step.waiters);
        }
        true
    }

    /// Replaces the known rules by those that the switch has reported, by table.
    pub fn read(&mut self, rules: impl Iterator<Item = (u8, Rule)>) {
        self.installed.clear();
        rules.for_each(|(table, rule)| self.installed.entry(table).or_default().insert(rule));
        // They may have been reported before they were removed.
        for (table, cookie, key) in std::mem::take(&mut self.reading.removed_meanwhile) {
            let installed = self.installed.entry(table).or_default();
            if installed.get(&key).is_some_and(|rule| rule.cookie == cookie) {
                installed.remove(&key);
            }
        }
        (self.reading.is_known, self.reading.is_synchronised) = (true, false);
    }

    /// Handles the switch's report that it has removed a rule. Returns whether that rule is missing: we did not delete
    /// it, and the switch's rules are not being read.
    pub fn on_rule_removed(&mut self, now: Time, table: u8, cookie: u64, key: EntryKey) -> bool {
        let removal = (table, cookie, key);
        // We deleted this rule, and may have added it again since.
        if self.deletions.lately.take_expected(now, &removal) {
            return false;
        }
        if !self.reading.is_known {
            if self.reading.removed_meanwhile.len() < MAX_REMOVED {
                self.reading.removed_meanwhile.push(removal);
            }
            return false;
        }
        let Some(installed) = self.installed.get_mut(&table) else { return false };
        let is_there = installed.get(&removal.2).is_some_and(|rule| rule.cookie == cookie);
        if is_there {
            installed.remove(&removal.2);
            self.reading.is_synchronised = false;
            self.changes_during_audit(table, &removal.2);
        }
        is_there
    }
}
