//! Measures a compiler's speeds on one filter set, by passes without a switch over the learned traces.

use std::hint::black_box;
use std::time::{Duration, Instant};

use maple_core::{LeafId, RuleTable};
use maple_sim::oracles::Strategy;

use super::invalidation::{hosts, invalidate_host, ports, withdraw};
use super::measured::RulesResult;
use super::play::{Expected, LearnedTrace, action, table};
use super::policy::FilterPolicy;
use crate::error::BenchError;
use crate::passes::{Augments, Passes, Spent, timed};

/// The number of times that a round looks up all headers of the trace, each of which is timed: enough for a median.
const WALKS: usize = 100;

/// The timed work, with the times so far.
pub(super) struct Speeds<'a> {
    strategy: Strategy,
    trace: &'a [Expected],
    learned: Vec<LearnedTrace>,
    hosts: Vec<u32>,
    ports: Vec<Vec<LeafId>>,
    spent: Spent,
    augments: Passes<Augments>,
    f_alone: Passes<Duration>,
    lookups: Passes<Duration>,
    of_hosts: Passes<Duration>,
    of_ports: Passes<Duration>,
}

impl<'a> Speeds<'a> {
    /// Starts without times, for a table that learned these traces.
    pub(super) fn new(strategy: Strategy, trace: &'a [Expected], learned: Vec<LearnedTrace>) -> Speeds<'a> {
        Speeds {
            strategy,
            trace,
            hosts: hosts(trace),
            ports: ports(&learned),
            learned,
            spent: Spent::default(),
            augments: Passes::default(),
            f_alone: Passes::default(),
            lookups: Passes::default(),
            of_hosts: Passes::default(),
            of_ports: Passes::default(),
        }
    }

    /// Makes passes until the budget is spent. Before that, times runs of f alone and look-ups.
    pub(super) fn passes_until(&mut self, budget: Duration, policy: &mut dyn FilterPolicy) -> Result<(), BenchError> {
        let mut alone = |LearnedTrace { header, .. }: &LearnedTrace| {
            policy.run_alone(black_box(header)).map(|found| _ = black_box(found))
        };
        let (ran, took) = timed(|| self.learned.iter().try_for_each(&mut alone));
        ran.map_err(BenchError::Policy)?;
        self.f_alone.push(took);
        self.look_up(policy)?;
        let mut spent = std::mem::take(&mut self.spent);
        spent.spend(budget, || self.pass(policy))?;
        self.spent = spent;
        Ok(())
    }

    fn look_up(&mut self, policy: &mut dyn FilterPolicy) -> Result<(), BenchError> {
        let table = self.grow(policy)?;
        let look_up = |(header, _): &Expected| _ = black_box(table.tree().search(black_box(header)));
        for _ in 0..WALKS {
            self.lookups.push(timed(|| self.trace.iter().for_each(look_up)).1);
        }
        Ok(())
    }

    /// Fills two tables. Host invalidations use one, port invalidations the other.
    fn pass(&mut self, policy: &mut dyn FilterPolicy) -> Result<(), BenchError> {
        let mut table = self.grow(policy)?;
        let invalidate = |host: &u32| drop(black_box(invalidate_host(&mut table, *host)));
        self.of_hosts.push(timed(|| self.hosts.iter().for_each(invalidate)).1);
        table = self.grow(policy)?;
        let invalidate = |leaves: &Vec<LeafId>| drop(black_box(withdraw(&mut table, leaves)));
        self.of_ports.push(timed(|| self.ports.iter().for_each(invalidate)).1);
        Ok(())
    }

    fn grow(&mut self, policy: &mut dyn FilterPolicy) -> Result<RuleTable, BenchError> {
        let (table, augments) = grown(self.strategy, policy, &self.learned)?;
        self.augments.push(augments);
        Ok(table)
    }

    /// Adds the speeds to the results.
    pub(super) fn write_into(&self, measured: &mut RulesResult) {
        let augments = self.augments.per_second(self.learned.len());
        let lookups = self.lookups.per_second(self.trace.len());
        let hosts = self.of_hosts.per_second(self.hosts.len());
        let ports = self.of_ports.per_second(self.ports.len());
        let Augments { in_f, in_augment } = self.augments.fastest();
        let per_augment = |time: Duration| time.as_secs_f64() * 1e6 / self.learned.len().max(1) as f64;
        *measured = RulesResult {
            augments_per_s: augments.fastest,
            lookups_per_s: lookups.fastest,
            host_invalidations_per_s: hosts.fastest,
            port_invalidations_per_s: ports.fastest,
            f_us: per_augment(in_f),
            f_alone_us: per_augment(self.f_alone.fastest()),
            augment_us: per_augment(in_augment),
            augments_per_s_median: augments.median,
            lookups_per_s_median: lookups.median,
            host_invalidations_per_s_median: hosts.median,
            port_invalidations_per_s_median: ports.median,
            ..*measured
        };
    }
}

/// Builds a table from these traces. Returns it with the times.
pub(super) fn grown(
    strategy: Strategy,
    policy: &mut dyn FilterPolicy,
    learned: &[LearnedTrace],
) -> Result<(RuleTable, Augments), BenchError> {
    let (mut table, mut augments) = (table(strategy), Augments::default());
    for LearnedTrace { leaf, header, .. } in learned {
        let begin = Instant::now();
        let mut run = table.begin_replay();
        let filter = policy.run(header, &mut run).map_err(BenchError::Policy)?;
        let run = run.finish(header);
        let ran = Instant::now();
        table.insert_replayed(run, *leaf, action(filter), header);
        black_box(table.take_changes());
        augments.in_augment += ran.elapsed();
        augments.in_f += ran - begin;
    }
    Ok((table, augments))
}
