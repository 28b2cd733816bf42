//! Views for people: the rules of the switches, the trees, and the reasons for both.

use std::sync::Arc;

use maple_wire::Dpid;

use super::classifier::reason;
use super::cookies::{Subject, subject_of};
use super::leaf::{Leaf, source_lines};
use super::polls::{Reading, RuleCount};
use super::reports::ViolationKey;
use super::switch::Switch;
use super::{Engine, Histogram, InstalledFlow};
use crate::ids::LeafId;
use crate::labels::outline;
use crate::report::Counted;
use crate::rule::Rule;
use crate::trace::show;
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
    /// The rule's counters in the switch's last answer; `None` if there is none.
    pub counted: Option<RuleCount>,
    /// The rule's purpose in words: the source lines that decided, or the engine's reason.
    pub why: String,
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

impl Engine {
    /// The numbers of rules, labels and leaves of a switch. `None` if this shard does not serve it.
    pub fn switch_counts(&self, dpid: Dpid) -> Option<SwitchCounts> {
        let switch = self.switches.get(&dpid)?;
        let (rules, barrier_rules) = switch.tables.counts();
        let (labels, leaves) = (switch.labels.len() as u64, switch.table.tree().len() as u64);
        Some(SwitchCounts { rules, barrier_rules, labels, leaves })
    }

    /// The times from the decision of leaves, or their change to another route, to the confirmation of their rules.
    pub fn install_times(&self) -> Histogram {
        self.ctx.install_times
    }

    /// The number of packets that f has decided, or failed on.
    pub fn decided(&self) -> u64 {
        self.ctx.stats.misses
    }

    /// The number of packets that wait until something that f read changes.
    pub fn parked(&self) -> usize {
        self.waiting.parked()
    }

    /// The rules that a switch has, as it would report them.
    pub fn installed(&self, dpid: Dpid) -> Vec<InstalledFlow> {
        let Some(switch) = self.switches.get(&dpid) else { return Vec::new() };
        let flow = |(table_id, rule): (u8, Rule)| InstalledFlow {
            table_id,
            priority: rule.priority,
            cookie: rule.cookie,
            matching: rule.matching,
            instructions: rule.instructions.to_vec(),
        };
        switch.tables.installed().map(flow).collect()
    }

    /// The rules of a switch, by table and descending priority, with the cookies that it reports; empty if this shard
    /// does not serve it.
    pub fn rules(&self, dpid: Dpid) -> Vec<TableRule> {
        let Some(switch) = self.switches.get(&dpid) else { return Vec::new() };
        let installed = switch.tables.installed();
        let mut rules: Vec<TableRule> = installed.map(|(table, rule)| self.table_rule(switch, table, rule)).collect();
        rules.sort_by_key(|r| (r.table_id, std::cmp::Reverse(r.rule.priority)));
        rules
    }

    /// A rule of a switch, with its purpose.
    pub(super) fn table_rule(&self, switch: &Switch, table_id: u8, rule: Rule) -> TableRule {
        let subject = subject_of(self.ctx.options.epoch, rule.cookie);
        let leaf = match subject {
            Some(Subject::Leaf(leaf)) if self.routes.of_subscription(leaf).is_none() => Some(leaf),
            _ => None,
        };
        let (newest, _) = switch.polls.readings(Counted::Rules);
        let of = |round: &Reading| Some(round.rules.get(&(table_id, entry_key(rule.priority, &rule.matching)))?.count);
        let counted = newest.and_then(|round| of(round)).filter(|count| count.cookie == rule.cookie);
        let why = self.why(switch, &rule, subject);
        let cookie = switch.tables.reported_cookie(table_id, &rule).unwrap_or(rule.cookie);
        TableRule { table_id, counted, why, rule: Rule { cookie, ..rule }, leaf }
    }

    /// Reports whether an update of a switch's rules is between its two steps: additions have been sent, and old rules
    /// are still there.
    pub fn is_half_way(&self, dpid: Dpid) -> bool {
        self.switches.get(&dpid).is_some_and(|switch| switch.tables.has_second_step())
    }

    /// The reported errors of f, each with the number of packets that were dropped because of it.
    pub fn failures(&self) -> Vec<(Arc<str>, u64)> {
        self.ctx.reports.failures().map(|(error, count)| (Arc::clone(error), count)).collect()
    }

    /// The routes that constraints refused, by constraint and line, each with the number of times.
    pub fn violations(&self) -> Vec<(ViolationKey, u64)> {
        self.ctx.reports.violations().map(|(key, count)| (key.clone(), count)).collect()
    }

    /// The trace tree of a switch as text; empty if this shard does not serve the switch.
    pub fn tree(&self, dpid: Dpid) -> String {
        self.switches.get(&dpid).map(|switch| switch.table.tree().render()).unwrap_or_default()
    }

    fn why(&self, switch: &Switch, rule: &Rule, subject: Option<Subject>) -> String {
        match subject {
            None => reason(rule).to_owned(),
            Some(Subject::Label(serial)) => switch.labels.describe(serial).unwrap_or_default(),
            Some(Subject::Leaf(name)) if let Some(route) = self.routes.of_subscription(name) => {
                self.routes.get(route).map(|route| format!("route {}", outline(route.exits()))).unwrap_or_default()
            }
            Some(Subject::Leaf(leaf)) => self.leaves.get(&leaf).map(|leaf| reasons(leaf)).unwrap_or_default(),
        }
    }
}

/// The source lines that decided about a leaf's packets, and the constraints to which the leaf is specialised.
fn reasons(leaf: &Leaf) -> String {
    let lines = Some(source_lines(&leaf.trace)).filter(|lines| !lines.is_empty());
    let specialisation = leaf.specialisation.iter().map(|read| format!("specialised to {}", show(read)));
    lines.into_iter().chain(specialisation).collect::<Vec<_>>().join(", ")
}
