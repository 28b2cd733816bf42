//! Measures one filter set under one compiler: replays the traces and checks all answers.

use std::collections::BTreeSet;

use maple_core::{Change, RuleTable};
use maple_heap::bytes_kept;
use maple_sim::oracles::Strategy;

use super::invalidation::{hosts, invalidate_host, ports, withdraw};
use super::measured::RulesResult;
use super::play::{Counts, Expected, LearnedTrace, Play};
use super::policy::FilterPolicy;
use super::speeds::grown;
use crate::error::BenchError;
use crate::filters::FilterSet;
use crate::report::Progress;

/// The subject of a measurement.
pub(super) struct Task<'a> {
    pub(super) set: &'a FilterSet,
    pub(super) trace: &'a [Expected],
    pub(super) then: Option<&'a [Expected]>,
    pub(super) strategy: Strategy,
}

/// The measurement.
pub(super) struct Measurement {
    /// The results except for the speeds.
    pub(super) measured: RulesResult,
    /// The traces that the controller learned.
    pub(super) learned: Vec<LearnedTrace>,
    /// The growth of the table: the numbers of rules and of flow-mods after each header.
    pub(super) growth: Vec<(usize, usize)>,
    pub(super) first_wrong: Option<String>,
    /// Headers of the trace for which the controller has a leaf, but the switch has no rule.
    pub(super) unanswered: usize,
}

impl Task<'_> {
    pub(super) fn run(&self, policy: &mut dyn FilterPolicy, progress: &Progress) -> Result<Measurement, BenchError> {
        let name = &self.set.name;
        progress.set_message(format!("{name}: replaying the trace"));
        let mut play = Play::new(self.strategy);
        let mut growth = Vec::new();
        for expected in self.trace {
            play.header(policy, expected)?;
            growth.push((play.switch.len(), play.counts.flow_mods));
        }
        let unanswered = play.check(self.trace)?;
        play.check_rules()?;
        let counts = play.counts.clone();
        let (rules, barriers, levels) = (play.switch.len(), play.switch.barriers(), play.switch.levels());
        let learned = play.learned.clone();
        progress.set_message(format!("{name}: memory and invalidations"));
        let (grown_once, bytes) = bytes_kept(|| grown(self.strategy, policy, &learned));
        let hosts = self
            .invalidations(grown_once?.0, &learned, &hosts(self.trace), |table, host| invalidate_host(table, *host))?;
        let (table, _) = grown(self.strategy, policy, &learned)?;
        let ports = self.invalidations(table, &learned, &ports(&learned), |table, leaves| withdraw(table, leaves))?;
        progress.set_message(format!("{name}: the second trace"));
        let misses_then = self.then.map(|then| self.play_on(&mut play, policy, then)).transpose()?;
        let measured = RulesResult {
            filters: self.set.filters.len(),
            matched: self.trace.iter().filter_map(|(_, filter)| *filter).collect::<BTreeSet<_>>().len(),
            rules,
            barriers,
            levels,
            flow_mods: counts.flow_mods,
            reprioritised: counts.reprioritised,
            mods_per_rule: counts.flow_mods as f64 / rules.max(1) as f64,
            misses_then,
            bytes_per_trace: bytes.map(|bytes| bytes as f64 / learned.len().max(1) as f64),
            headers: self.trace.len(),
            wrong: play.counts.wrong + hosts.wrong + ports.wrong,
            ..RulesResult::default()
        };
        let first_wrong = play.counts.first_wrong.or(hosts.first_wrong).or(ports.first_wrong);
        Ok(Measurement { measured, learned, growth, first_wrong, unanswered })
    }

    /// Replays another trace. Returns the number of its misses.
    fn play_on(&self, play: &mut Play, policy: &mut dyn FilterPolicy, then: &[Expected]) -> Result<usize, BenchError> {
        let before = play.counts.misses;
        for expected in then {
            play.header(policy, expected)?;
        }
        let misses = play.counts.misses - before;
        play.check(then)?;
        play.check(self.trace)?;
        play.check_rules()?;
        Ok(misses)
    }

    /// Invalidates each of `all`, one at a time, in a table with all traces. Counts wrong answers half-way and at the
    /// end.
    fn invalidations<T>(
        &self,
        table: RuleTable,
        learned: &[LearnedTrace],
        all: &[T],
        invalidate: impl Fn(&mut RuleTable, &T) -> Vec<Change>,
    ) -> Result<Counts, BenchError> {
        let mut play = Play::new(self.strategy);
        (play.table, play.learned) = (table, learned.to_vec());
        let there: Vec<Change> = play.table.rules().into_iter().map(Change::Add).collect();
        play.change(&there)?;
        for (at, selected) in all.iter().enumerate() {
            let changes = invalidate(&mut play.table, selected);
            play.change(&changes)?;
            if at == all.len() / 2 {
                play.check(self.trace)?;
            }
        }
        play.check(self.trace)?;
        play.check_rules()?;
        Ok(play.counts)
    }
}
