//! Counters of a switch, and the questions for them.

pub(in crate::engine) mod audit_state;
pub(in crate::engine) mod drops;
pub(in crate::engine) mod polls;
pub(in crate::engine) mod rule_counts;
pub(in crate::engine) mod rule_growth;
pub(in crate::engine) mod senders;
pub(in crate::engine) mod statistics;

use audit_state::Audits;
use drops::Drops;
use polls::Polls;
use rule_counts::RuleCounts;
use rule_growth::RuleGrowth;
use senders::Senders;

/// The counters of a switch, and when to ask for them.
#[derive(Default)]
pub(in crate::engine) struct Counters {
    /// The counters of all rules and ports, and when to ask for them.
    pub polls: Polls,
    /// Comparisons of the rules that the switch has with those that it should have.
    pub audits: Audits,
    /// Questions about single rules.
    pub rule_counts: RuleCounts,
    /// The drops here in the last minutes.
    pub drops: Drops,
    /// The packets that the classifier has let in, and drops whose senders are looked for.
    pub senders: Senders,
    /// The growth of the counters of its rules.
    pub growth: RuleGrowth,
}
