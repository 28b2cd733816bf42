//! Replays a trace: a miss goes to the controller, which runs f and changes the switch's rules.

use std::collections::HashMap;
use std::sync::Arc;

use maple_core::{Augmented, Capabilities, Change, LeafAction, LeafId, Rule, RuleTable, TableTarget};
use maple_sim::oracles::Strategy;
use maple_wire::{Action, Instruction, PortNo};

use super::policy::FilterPolicy;
use crate::error::BenchError;
use crate::filters::FilterSet;
use crate::headers::FiveTuple;
use crate::switch::{RuleList, Verdict};

/// A header and its first matching filter, by linear search.
pub(crate) type Expected = (FiveTuple, Option<usize>);

/// A controller and its switch.
pub(super) struct Play {
    pub(super) table: RuleTable,
    pub(super) switch: RuleList,
    pub(super) learned: Vec<LearnedTrace>,
    pub(super) counts: Counts,
}

/// A trace that was added.
#[derive(Clone)]
pub(super) struct LearnedTrace {
    pub(super) leaf: LeafId,
    pub(super) header: FiveTuple,
    pub(super) filter: Option<usize>,
}

/// Counts of a replay.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    pub(super) flow_mods: usize,
    pub(super) reprioritised: usize,
    /// The number of headers that went to the controller.
    pub(super) misses: usize,
    pub(super) wrong: usize,
    /// The first wrong answer.
    pub(super) first_wrong: Option<String>,
}

impl Play {
    pub(super) fn new(strategy: Strategy) -> Play {
        let table = table(strategy);
        Play { table, switch: RuleList::default(), learned: Vec::new(), counts: Counts::default() }
    }

    /// Handles a header that arrives at the switch.
    pub(super) fn header(&mut self, policy: &mut dyn FilterPolicy, expected: &Expected) -> Result<(), BenchError> {
        let (header, wanted) = expected;
        let verdict = self.switch.treat(header).map_err(BenchError::WrongResult)?;
        if verdict != Verdict::Controller {
            self.judge(header, verdict, *wanted);
            return Ok(());
        }
        self.counts.misses += 1;
        match self.table.tree().search(header) {
            Some(leaf) => {
                let verdict = verdict_of(self.learned[leaf.0 as usize].filter);
                self.judge(header, verdict, *wanted);
                Ok(())
            }
            None => self.learn(policy, header, *wanted),
        }
    }

    /// Checks headers that should all be known. Returns the number that go to the controller.
    pub(super) fn check(&mut self, headers: &[Expected]) -> Result<usize, BenchError> {
        let mut unknown = 0;
        for (header, wanted) in headers {
            match self.switch.treat(header).map_err(BenchError::WrongResult)? {
                Verdict::Controller => unknown += 1,
                verdict => self.judge(header, verdict, *wanted),
            }
            if let Some(leaf) = self.table.tree().search(header) {
                let verdict = verdict_of(self.learned[leaf.0 as usize].filter);
                self.judge(header, verdict, *wanted);
            }
        }
        Ok(unknown)
    }

    /// Checks that the switch has the table's rules.
    pub(super) fn check_rules(&self) -> Result<(), BenchError> {
        let sorted = |rules: &mut Vec<&Rule>| {
            rules.sort_by_key(|rule| (rule.priority, rule.cookie, format!("{:?}", rule.matching)))
        };
        let wanted = self.table.rules();
        let there = self.switch.rules();
        let (mut wanted, mut there): (Vec<&Rule>, Vec<&Rule>) = (wanted.iter().collect(), there.iter().collect());
        sorted(&mut wanted);
        sorted(&mut there);
        let agree = wanted == there;
        if agree { Ok(()) } else { Err(BenchError::WrongResult("the changes do not lead to the table's rules".into())) }
    }

    fn learn(
        &mut self,
        policy: &mut dyn FilterPolicy,
        header: &FiveTuple,
        wanted: Option<usize>,
    ) -> Result<(), BenchError> {
        let mut run = self.table.begin_replay();
        let filter = policy.run(header, &mut run).map_err(BenchError::Policy)?;
        let followed = run.finish(header);
        let leaf = LeafId(self.learned.len() as u64);
        let outcome = self.table.insert_replayed(followed, leaf, action(filter), header);
        let changes = self.table.take_changes();
        if outcome != Augmented::Added {
            let what = "f is not a function of its observations, or a trace was inserted wrongly";
            return Err(BenchError::WrongResult(format!("{header:?}: {what}: {outcome:?}")));
        }
        self.judge(header, verdict_of(filter), wanted);
        self.learned.push(LearnedTrace { leaf, header: *header, filter });
        self.change(&changes)
    }

    /// Applies changes to the switch, and counts them.
    pub(super) fn change(&mut self, changes: &[Change]) -> Result<(), BenchError> {
        self.counts.flow_mods += changes.len();
        self.counts.reprioritised += reprioritised(changes);
        changes.iter().try_for_each(|change| self.switch.apply(change)).map_err(BenchError::WrongResult)
    }

    fn judge(&mut self, header: &FiveTuple, verdict: Verdict, wanted: Option<usize>) {
        if verdict != verdict_of(wanted) {
            self.counts.wrong += 1;
            self.counts
                .first_wrong
                .get_or_insert(format!("{header:?} must match filter {wanted:?}, but gets {verdict:?}"));
        }
    }
}

/// Returns the first matching filter of each header, by linear search.
pub(super) fn expected(set: &FilterSet, headers: impl Iterator<Item = FiveTuple>) -> Vec<Expected> {
    headers.map(|header| (header, set.first_match(&header))).collect()
}

/// Creates an empty table for headers.
pub(crate) fn table(strategy: Strategy) -> RuleTable {
    let cookie = Arc::new(|leaf: Option<LeafId>| leaf.map_or(u64::MAX, |leaf| leaf.0));
    let capabilities = Capabilities::of_abstract_headers();
    (strategy.new_table())(TableTarget { under: Vec::new(), capabilities, priorities: 1..=u16::MAX, cookie })
}

/// Returns the actions for f's decision: each filter has its own port.
pub(crate) fn action(filter: Option<usize>) -> LeafAction {
    match verdict_of(filter) {
        Verdict::Output(port) => LeafAction::Apply(vec![Instruction::ApplyActions(vec![Action::output(PortNo(port))])]),
        Verdict::Drop | Verdict::Controller => LeafAction::Apply(Vec::new()),
    }
}

fn verdict_of(filter: Option<usize>) -> Verdict {
    filter.map_or(Verdict::Drop, |filter| Verdict::Output(filter as u32 + 1))
}

/// Returns the number of rules that are deleted at one priority and added at another.
fn reprioritised(changes: &[Change]) -> usize {
    let mut deleted: HashMap<_, usize> = HashMap::new();
    let key = |rule: &Rule| (rule.matching.clone(), rule.instructions.clone());
    for change in changes {
        if let Change::Delete(rule) = change {
            *deleted.entry(key(rule)).or_default() += 1;
        }
    }
    let comes_again = |change: &&Change| {
        let Change::Add(rule) = change else { return false };
        !deleted.is_empty() && deleted.get_mut(&key(rule)).filter(|left| **left > 0).map(|left| *left -= 1).is_some()
    };
    changes.iter().filter(comes_again).count()
}
