//! Questions for statistics: which of ours an answer is for.

use maple_wire::Dpid;

use super::fabric::Fabric;
use super::switch::Switch;

/// What the engine wants to know from statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Question {
    /// All rules, to compare them with those that the switch should have.
    Audit,
    /// All meters, likewise.
    Meters,
    /// The counters of one rule.
    Rule,
    /// The counters of all rules or ports.
    Counters,
    /// Which rules are in use, before an eviction.
    Usage,
    /// Whether hosts still send.
    Hosts,
}

impl Switch {
    fn question(&self, xid: u32) -> Question {
        if self.tables.is_audited_by(xid) {
            Question::Audit
        } else if self.paths.meters.is_audited_by(xid) {
            Question::Meters
        } else if self.counters.rule_counts.awaits(xid) {
            Question::Rule
        } else if self.counters.polls.is_answer(xid) {
            Question::Counters
        } else if self.room.capacity.is_answer(xid) {
            Question::Usage
        } else {
            Question::Hosts
        }
    }
}

impl Fabric {
    /// The question that was asked with this transaction id. The hosts know themselves which questions are theirs.
    pub(super) fn question(&self, dpid: Dpid, xid: u32) -> Question {
        self.switches.get(&dpid).map_or(Question::Hosts, |switch| switch.question(xid))
    }
}
