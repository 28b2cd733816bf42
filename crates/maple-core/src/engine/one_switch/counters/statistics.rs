//! Questions for statistics: which of ours an answer is for.

use maple_wire::msg::stats::StatsReply;

use crate::engine::one_switch::Switch;

/// The question that statistics are to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum StatisticsQuestion {
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

/// The answer to a question, or its failure.
pub(in crate::engine) enum Reply {
    /// The answer, or a part of it.
    Statistics(StatsReply),
    /// The switch refuses to answer.
    Refused,
    /// The question was not sent, because too much already waits for the switch.
    Unsent,
}

impl Switch {
    /// Returns the question that was asked with this transaction id.
    pub fn question(&self, xid: u32) -> StatisticsQuestion {
        if self.tables.is_audited_by(xid) {
            StatisticsQuestion::Audit
        } else if self.paths.meters.is_audited_by(xid) {
            StatisticsQuestion::Meters
        } else if self.counters.rule_counts.awaits(xid) {
            StatisticsQuestion::Rule
        } else if self.counters.polls.is_answer(xid) {
            StatisticsQuestion::Counters
        } else if self.room.capacity.is_answer(xid) {
            StatisticsQuestion::Usage
        } else {
            StatisticsQuestion::Hosts
        }
    }
}
