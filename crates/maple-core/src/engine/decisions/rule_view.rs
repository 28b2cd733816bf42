//! Views for people: the rules of the switches, the trees, and the reasons for both.

use maple_wire::Dpid;

use super::Decisions;
use super::leaf::{Leaf, source_lines};
use crate::engine::fabric::Fabric;
use crate::engine::messages::event::RuleCount;
use crate::engine::one_switch::Switch;
use crate::engine::one_switch::classifier::reason;
use crate::engine::one_switch::cookies::{Subject, subject_of};
use crate::engine::one_switch::counters::polls::StatisticsReading;
use crate::ids::LeafId;
use crate::labels::outline;
use crate::report::CounterKind;
use crate::rule::Rule;
use crate::trace::{Source, constraint_text};
use crate::update::entry_key;

/// A rule that the engine has installed in a switch, with its purpose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableRule {
    /// The number of the table.
    pub table_id: u8,
    /// The rule.
    pub rule: Rule,
    /// The rule's leaf; `None` for the engine's own rules (classifier, table-miss) and barrier rules.
    pub leaf: Option<LeafId>,
    /// The line of the policy that made the leaf's decision, if it is known.
    pub line: Option<Source>,
    /// The rule's counters in the switch's last answer; `None` if there is none.
    pub counted: Option<RuleCount>,
    /// The rule's purpose in words: the source lines that decided, or the engine's reason.
    pub why: String,
}

impl Decisions {
    /// Returns the rules of a switch, by table and descending priority, with the cookies that it reports; empty if this
    /// shard does not serve it.
    pub fn rules(&self, fabric: &Fabric, dpid: Dpid) -> Vec<TableRule> {
        let Some(switch) = fabric.switches.get(&dpid) else { return Vec::new() };
        let installed = switch.tables.installed();
        let mut rules: Vec<TableRule> =
            installed.map(|(table, rule)| self.table_rule(fabric, switch, table, rule)).collect();
        rules.sort_by_key(|row| (row.table_id, std::cmp::Reverse(row.rule.priority)));
        rules
    }

    /// Returns a rule of a switch, with its purpose.
    pub fn table_rule(&self, fabric: &Fabric, switch: &Switch, table_id: u8, rule: Rule) -> TableRule {
        let subject = subject_of(fabric.ctx.options.epoch, rule.cookie);
        let leaf = match subject {
            Some(Subject::Dependent(id)) if fabric.routes.of_subscription(id).is_none() => Some(id.possible_leaf()),
            _ => None,
        };
        let (newest, _) = switch.counters.polls.readings(CounterKind::Rules);
        let count_in = |round: &StatisticsReading| {
            Some(round.rules.get(&(table_id, entry_key(rule.priority, &rule.matching)))?.count)
        };
        let counted = newest.and_then(|round| count_in(round)).filter(|count| count.cookie == rule.cookie);
        let decided = leaf.and_then(|leaf| self.leaves.get(&leaf));
        let line = decided.and_then(|leaf| leaf.origin.line.clone());
        let of_key = switch.ingress.look_ups.describe_key(table_id, &rule);
        let why = of_key.unwrap_or_else(|| self.why(fabric, switch, &rule, subject));
        let cookie = switch.tables.reported_cookie(table_id, &rule).unwrap_or(rule.cookie);
        let instructions = switch.tables.action_sets().to_switch(table_id, rule.instructions.to_vec()).into();
        TableRule { table_id, counted, why, rule: Rule { cookie, instructions, ..rule }, leaf, line }
    }

    fn why(&self, fabric: &Fabric, switch: &Switch, rule: &Rule, subject: Option<Subject>) -> String {
        match subject {
            None => reason(rule, switch.layout()).to_owned(),
            Some(Subject::Label(serial)) => switch.paths.labels.describe(serial).unwrap_or_default(),
            Some(Subject::Dependent(id)) if let Some(route) = fabric.routes.of_subscription(id) => {
                fabric.routes.get(route).map(|route| format!("route {}", outline(route.exits()))).unwrap_or_default()
            }
            Some(Subject::Dependent(id)) => {
                self.leaves.get(&id.possible_leaf()).map(|leaf| reasons(switch, leaf)).unwrap_or_default()
            }
        }
    }
}

/// Returns the source lines that decided about a leaf's packets, what look-ups found for these, and the constraints to
/// which the leaf is specialised.
fn reasons(switch: &Switch, leaf: &Leaf) -> String {
    let lines = Some(source_lines(&leaf.trace)).filter(|lines| !lines.is_empty());
    let extra_reads = leaf.extra_reads.iter().map(|read| format!("specialised to {}", constraint_text(read)));
    let found = switch.ingress.look_ups.describe(&leaf.trace);
    lines.into_iter().chain(found).chain(extra_reads).collect::<Vec<_>>().join(", ")
}
