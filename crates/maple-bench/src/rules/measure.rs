//! One filter set under one compiler: what is played, in which order, and what is timed.

use std::collections::{BTreeMap, BTreeSet};
use std::hint::black_box;
use std::time::{Duration, Instant};

use maple_core::{Change, LeafId, Strategy, Table};
use maple_heap::bytes_kept;
use maple_wire::{Constraint, Field};

use super::measured::Measured;
use super::play::{Counts, Expected, Learned, Play, action, table};
use super::policy::FilterPolicy;
use crate::command::BenchError;
use crate::filters::FilterSet;
use crate::passes::median_of_passes;
use crate::report::Progress;

/// For how long look-ups are timed, at least.
const LOOKUPS: Duration = Duration::from_millis(300);

/// How long passes of augments, of invalidations of a kind, or of f take in all.
const TIMED: Duration = Duration::from_millis(1500);

/// What is to be measured.
pub(super) struct Task<'a> {
    pub(super) set: &'a FilterSet,
    pub(super) trace: &'a [Expected],
    pub(super) then: Option<&'a [Expected]>,
    pub(super) strategy: Strategy,
}

/// The figures, and how the table grew: after each header, rules and flow-mods.
pub(super) struct Outcome {
    pub(super) measured: Measured,
    pub(super) growth: Vec<(usize, usize)>,
    pub(super) first_wrong: Option<String>,
    /// Headers of the trace that the switch does not know though the controller does.
    pub(super) unanswered: usize,
}

/// Time of a pass over what is learned from the trace.
#[derive(Clone, Copy, Default)]
struct Pass {
    in_f: Duration,
    in_augment: Duration,
}

/// What came of invalidating one after the other.
struct Invalidated {
    per_s: f64,
    /// Wrong answers half-way and at the end, and the first of them.
    wrong: usize,
    first_wrong: Option<String>,
}

impl Task<'_> {
    pub(super) fn run(&self, policy: &mut dyn FilterPolicy, progress: &Progress) -> Result<Outcome, BenchError> {
        let name = &self.set.name;
        progress.say(format!("{name}: playing the trace"));
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
        progress.say(format!("{name}: augments and look-ups"));
        let learned = play.learned.clone();
        let pass = self.timed_pass(policy, Pass::of(&play), &learned)?;
        let in_f_alone = f_alone(policy, &learned)?;
        let lookups_per_s = self.lookups(play.table.tree());
        progress.say(format!("{name}: memory and invalidations"));
        let (grown, bytes) = bytes_kept(|| self.grown(policy, &learned));
        let hosts = self.host_invalidations(policy, grown?.0, &learned)?;
        let (table, _) = self.grown(policy, &learned)?;
        let ports = self.port_invalidations(policy, table, &learned)?;
        progress.say(format!("{name}: the second trace"));
        let misses_then = self.then.map(|then| self.play_on(&mut play, policy, then)).transpose()?;
        let first_wrong = play.counts.first_wrong.clone().or(hosts.first_wrong).or(ports.first_wrong);
        let per_augment = |time: Duration| time.as_secs_f64() * 1e6 / learned.len().max(1) as f64;
        let measured = Measured {
            filters: self.set.filters.len(),
            matched: self.trace.iter().filter_map(|(_, filter)| *filter).collect::<BTreeSet<_>>().len(),
            rules,
            barriers,
            levels,
            flow_mods: counts.flow_mods,
            reprioritised: counts.reprioritised,
            mods_per_rule: counts.flow_mods as f64 / rules.max(1) as f64,
            misses_then,
            augments_per_s: 1e6 / (per_augment(pass.in_f) + per_augment(pass.in_augment)),
            lookups_per_s,
            host_invalidations_per_s: hosts.per_s,
            port_invalidations_per_s: ports.per_s,
            f_us: per_augment(pass.in_f),
            f_alone_us: per_augment(in_f_alone),
            augment_us: per_augment(pass.in_augment),
            bytes_per_trace: bytes.map(|bytes| bytes as f64 / learned.len().max(1) as f64),
            headers: self.trace.len(),
            wrong: play.counts.wrong + hosts.wrong + ports.wrong,
        };
        Ok(Outcome { measured, growth, first_wrong, unanswered })
    }

    /// The median of some passes over what was learned, each from nothing, by the controller alone; of the first, which had
    /// its switch beside it, alone where passes take long.
    fn timed_pass(&self, policy: &mut dyn FilterPolicy, first: Pass, learned: &[Learned]) -> Result<Pass, BenchError> {
        let whole = |pass: &Pass| pass.in_f + pass.in_augment;
        median_of_passes(TIMED, first, whole, || Ok(self.grown(policy, learned)?.1))
    }

    /// Headers that the tree answers in a second.
    fn lookups(&self, tree: &maple_core::Tree) -> f64 {
        let begin = Instant::now();
        let mut done = 0;
        while begin.elapsed() < LOOKUPS {
            for (header, _) in self.trace {
                black_box(tree.search(black_box(header)));
            }
            done += self.trace.len();
        }
        done as f64 / begin.elapsed().as_secs_f64()
    }

    /// Plays another trace, and gives how many of its headers went to the controller.
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

    /// Invalidates every host of the trace, one after the other.
    fn host_invalidations(
        &self,
        policy: &mut dyn FilterPolicy,
        table: Table,
        learned: &[Learned],
    ) -> Result<Invalidated, BenchError> {
        let hosts: BTreeSet<u32> = self.trace.iter().flat_map(|(header, _)| [header.src, header.dst]).collect();
        let leaves = |table: &Table, host: &u32| {
            let mut leaves = table.tree().touching(&Constraint::exact(Field::Ipv4Src, (*host).into()));
            leaves.extend(table.tree().touching(&Constraint::exact(Field::Ipv4Dst, (*host).into())));
            leaves
        };
        self.invalidations(policy, table, learned, &Vec::from_iter(hosts), leaves)
    }

    /// Invalidates every port that routes use, one after the other.
    fn port_invalidations(
        &self,
        policy: &mut dyn FilterPolicy,
        table: Table,
        learned: &[Learned],
    ) -> Result<Invalidated, BenchError> {
        let mut by_port: BTreeMap<Option<usize>, Vec<LeafId>> = BTreeMap::new();
        for Learned { leaf, filter, .. } in learned {
            by_port.entry(*filter).or_default().push(*leaf);
        }
        self.invalidations(policy, table, learned, &Vec::from_iter(by_port.into_values()), |_, leaves| leaves.clone())
    }

    /// Invalidates all of these, one after the other, in a table with all traces: once with every answer checked, and, as long
    /// as there is time, again in tables like it. The median pass counts.
    fn invalidations<T>(
        &self,
        policy: &mut dyn FilterPolicy,
        table: Table,
        learned: &[Learned],
        all: &[T],
        leaves: impl Fn(&Table, &T) -> Vec<LeafId>,
    ) -> Result<Invalidated, BenchError> {
        let mut play = Play::new(self.strategy);
        (play.table, play.learned) = (table, learned.to_vec());
        let there: Vec<Change> = play.table.rules().into_iter().map(Change::Add).collect();
        play.change(&there)?;
        let mut first = Duration::ZERO;
        for (at, selected) in all.iter().enumerate() {
            let begin = Instant::now();
            let leaves = leaves(&play.table, selected);
            play.table.remove_all(&leaves);
            let changes = play.table.take_changes();
            first += begin.elapsed();
            play.change(&changes)?;
            if at == all.len() / 2 {
                play.check(self.trace)?;
            }
        }
        play.check(self.trace)?;
        play.check_rules()?;
        let time = median_of_passes(
            TIMED,
            first,
            |time| *time,
            || {
                let (mut table, _) = self.grown(policy, learned)?;
                let begin = Instant::now();
                for selected in all {
                    let leaves = leaves(&table, selected);
                    table.remove_all(&leaves);
                    black_box(table.take_changes());
                }
                Ok(begin.elapsed())
            },
        )?;
        let Counts { wrong, first_wrong, .. } = play.counts;
        let per_s = all.len() as f64 / time.as_secs_f64();
        Ok(Invalidated { per_s, wrong, first_wrong })
    }

    /// A table with these traces, and how long it took to add them.
    fn grown(&self, policy: &mut dyn FilterPolicy, learned: &[Learned]) -> Result<(Table, Pass), BenchError> {
        let (mut table, mut pass) = (table(self.strategy), Pass::default());
        for Learned { leaf, header, .. } in learned {
            let begin = Instant::now();
            let mut run = table.follow();
            let filter = policy.run(header, &mut run).map_err(BenchError::Policy)?;
            let run = run.finish(header);
            let ran = Instant::now();
            table.plant(run, *leaf, action(filter), header);
            black_box(table.take_changes());
            pass.in_augment += ran.elapsed();
            pass.in_f += ran - begin;
        }
        Ok((table, pass))
    }
}

/// The time that f takes for these headers, each recorded by itself: the median of some passes.
fn f_alone(policy: &mut dyn FilterPolicy, learned: &[Learned]) -> Result<Duration, BenchError> {
    let mut pass = || {
        let begin = Instant::now();
        for Learned { header, .. } in learned {
            black_box(policy.run_alone(black_box(header)).map_err(BenchError::Policy)?);
        }
        Ok(begin.elapsed())
    };
    median_of_passes(TIMED, pass()?, |time| *time, pass)
}

impl Pass {
    fn of(play: &Play) -> Pass {
        Pass { in_f: play.counts.in_f, in_augment: play.counts.in_augment }
    }
}
