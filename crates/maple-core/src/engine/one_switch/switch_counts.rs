//! A switch in numbers, and the rules that it has.

use super::Switch;
use crate::engine::messages::event::ReportedRule;
use crate::rule::Rule;

impl Switch {
    /// Returns the numbers of rules, labels and leaves.
    pub fn counts(&self) -> SwitchCounts {
        let (rules, barrier_rules) = self.tables.counts();
        let (labels, leaves) = (self.paths.labels.len() as u64, self.ingress.table.tree().len() as u64);
        SwitchCounts { rules, barrier_rules, labels, leaves }
    }

    /// Returns the rules that the switch has, as it would report them.
    pub fn installed(&self) -> Vec<ReportedRule> {
        let flow = |(table_id, rule): (u8, Rule)| ReportedRule {
            table_id,
            priority: rule.priority,
            cookie: rule.cookie,
            matching: rule.matching,
            instructions: self.tables.action_sets().to_switch(table_id, rule.instructions.to_vec()),
        };
        self.tables.installed().map(flow).collect()
    }
}

/// The numbers of rules, labels and leaves of a switch. All are kept up as they change, so a query costs little.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SwitchCounts {
    /// The number of rules by table.
    pub rules: Vec<(u8, u64)>,
    /// The number of barrier rules among them.
    pub barrier_rules: u64,
    /// The number of labels.
    pub labels: u64,
    /// The number of leaves whose packets enter at the switch.
    pub leaves: u64,
}
