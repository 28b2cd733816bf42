//! `maple-bench rebuild`: the cost of a table that is built at once, against its size.
//!
//! The policy is an access list: a filter set, asked as a whole. At each size a switch's table first learns the header
//! that fits no filter. That brings the entries of all filters in one step. Then it learns one header of each filter.
//! So do switches that get a list. Then the table is built again from the same traces, as after a restart or a reload.

use std::hash::BuildHasher as _;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use maple_core::trace::CondList;
use maple_core::{Augmented, LeafId, Recorder, RuleTable, Trace};
use rustc_hash::FxBuildHasher;
use serde::Serialize;

use crate::error::BenchError;
use crate::filters::FilterSet;
use crate::generate::{self, Style};
use crate::headers::FiveTuple;
use crate::output::Output;
use crate::passes::{Passes, timed};
use crate::report::{Chart, Progress, Series, TextTable};
use crate::rules::Compiler;
use crate::rules::play::{action, table};
use crate::rules::policy::condition;

/// The number of times that each table is built again.
const PASSES: usize = 3;

/// `maple-bench rebuild`.
#[derive(Debug, Args)]
pub struct RebuildArgs {
    /// Lengths of the list at which costs are measured, in filters
    #[arg(long, value_name = "N,N,…", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(100..=1_000_000),
          default_values_t = [3000, 10_000, 30_000])]
    pub sizes: Vec<u32>,
    /// Kind of the networks
    #[arg(long, value_enum, default_value = "acl")]
    pub style: Style,
    /// Seed of the filters
    #[arg(long, value_name = "N", default_value_t = 9)]
    pub seed: u64,
    /// Form of the results
    #[command(flatten)]
    pub output: Output,
}

/// The costs at one size, in microseconds for each rule of the table.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct BuildingCost {
    /// Filters in the list.
    pub filters: usize,
    /// Rules in the table.
    pub rules: usize,
    /// The time of the step that brings the entries of all filters.
    pub first_us: f64,
    /// The time of the other traces, one after the other, each with its changes.
    pub learn_us: f64,
    /// The time to put all traces into an empty table that is built again, in the fastest of some passes.
    pub put_us: f64,
    /// The time to compute the rules of that table, and to take its changes.
    pub compute_us: f64,
    /// A hash of the rules as they were learned, and of the changes of the table that is built again. Two builds of
    /// Maple can be compared by it.
    pub digest: u64,
}

impl BuildingCost {
    /// Returns the time to build the table again, in microseconds.
    #[must_use]
    pub fn rebuild_us(&self) -> f64 {
        self.put_us + self.compute_us
    }
}

/// Runs the benchmark and prints the results.
///
/// # Errors
/// [`BenchError`] if a plot can't be written.
pub fn main(args: &RebuildArgs) -> Result<(), BenchError> {
    let costs = measure(args)?;
    args.output.print(&costs, || text(&costs), || vec![chart(&costs)])
}

/// Measures the sizes that the options select, in ascending order.
///
/// # Errors
/// [`BenchError`] if a table refuses a trace, or differs when it is built again.
pub fn measure(args: &RebuildArgs) -> Result<Vec<BuildingCost>, BenchError> {
    let mut sizes: Vec<usize> = args.sizes.iter().map(|size| *size as usize).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let progress = Progress::new(sizes.len() as u64);
    let mut costs = Vec::new();
    for size in sizes {
        progress.set_message(format!("{size} filters"));
        costs.push(cost_of(&generate::filter_set(args.style, size, args.seed), args.seed)?);
        progress.step();
    }
    Ok(costs)
}

/// A run of the policy, with the answer.
struct Traced {
    header: FiveTuple,
    trace: Trace,
    first: Option<usize>,
}

fn cost_of(set: &FilterSet, seed: u64) -> Result<BuildingCost, BenchError> {
    let traces = traces_of(set, seed);
    let mut learned = table(Compiler::Maple.strategy());
    let (first, others) = traces.split_at(1);
    let learn = |table: &mut RuleTable, traces: &[Traced], from: usize| {
        timed(|| {
            traces
                .iter()
                .zip(from..)
                .try_for_each(|(traced, number)| put(table, traced, number).map(|()| drop(table.take_changes())))
        })
    };
    let (done, first) = learn(&mut learned, first, 0);
    done?;
    let (done, learn) = learn(&mut learned, others, 1);
    done?;
    learned.remove_redundant();
    let (rules, preferred) = (learned.rules().len(), learned.priorities());
    let (mut puts, mut computes, mut digest) = (Passes::default(), Passes::default(), 0);
    for _ in 0..PASSES {
        let mut again = table(Compiler::Maple.strategy());
        again.begin_rebuild();
        let put_all = || traces.iter().enumerate().try_for_each(|(number, traced)| put(&mut again, traced, number));
        let (done, time) = timed(put_all);
        done?;
        puts.push(time);
        let (changes, time) = timed(|| {
            again.end_rebuild(&preferred);
            again.take_changes()
        });
        computes.push(time);
        digest = FxBuildHasher.hash_one(format!("{:?} {changes:?}", learned.rules()));
        if changes.is_empty() {
            return Err(BenchError::WrongResult(format!("the table of {} has no rules when built again", set.name)));
        }
    }
    let per_rule = |time: Duration| time.as_secs_f64() * 1e6 / rules as f64;
    Ok(BuildingCost {
        filters: set.filters.len(),
        rules,
        first_us: per_rule(first),
        learn_us: per_rule(learn),
        put_us: per_rule(puts.fastest()),
        compute_us: per_rule(computes.fastest()),
        digest,
    })
}

/// Runs the policy on a header that fits no filter, if there is one, and then on one header for each filter. Headers
/// with the answer of an earlier one are left out.
fn traces_of(set: &FilterSet, seed: u64) -> Vec<Traced> {
    let list = Arc::new(CondList::new(set.filters.iter().map(condition)));
    let none = FiveTuple { src: u32::MAX, dst: u32::MAX, src_port: 0, dst_port: 0, proto: 0 };
    let mut is_answered = vec![false; set.filters.len() + 1];
    let mut traced = Vec::with_capacity(set.filters.len() + 1);
    for header in [none].into_iter().chain(generate::header_of_each(set, seed)) {
        let mut recorder = Recorder::new();
        let first = recorder.first_of(&header, &list, |_| None);
        if !std::mem::replace(&mut is_answered[first.unwrap_or(set.filters.len())], true) {
            traced.push(Traced { header, trace: recorder.finish(), first });
        }
    }
    traced
}

/// Puts a trace into a table, as the engine does.
fn put(table: &mut RuleTable, Traced { header, trace, first }: &Traced, number: usize) -> Result<(), BenchError> {
    let mut run = table.begin_replay();
    run.observe(header, trace);
    let run = run.finish(header);
    match table.insert_replayed(run, LeafId(number as u64), action(*first), header) {
        Augmented::Added | Augmented::Existing(_) => Ok(()),
        other => Err(BenchError::WrongResult(format!("{header:?}: a trace contradicts others: {other:?}"))),
    }
}

fn text(costs: &[BuildingCost]) -> String {
    let heads = ["filters", "rules", "first step µs/rule", "learn", "rebuild", "put", "compute"];
    let mut table = TextTable::new(heads);
    for cost in costs {
        let times = [cost.first_us, cost.learn_us, cost.rebuild_us(), cost.put_us, cost.compute_us];
        let numbers = [cost.filters.to_string(), cost.rules.to_string()].into_iter();
        table.row(numbers.chain(times.map(|time| format!("{time:.2}"))).collect::<Vec<_>>());
    }
    table.to_string()
}

fn chart(costs: &[BuildingCost]) -> Chart {
    let line = |name: &str, value: fn(&BuildingCost) -> f64| {
        let points = costs.iter().map(|cost| (cost.rules as f64, value(cost))).collect();
        Series { name: name.into(), points }
    };
    Chart {
        title: "Cost of a table that is built at once, for each rule".into(),
        x: "rules in the table".into(),
        y: "µs a rule".into(),
        log_x: true,
        log_y: true,
        labels: Vec::new(),
        series: vec![
            line("first step", |cost| cost.first_us),
            line("learn", |cost| cost.learn_us),
            line("rebuild", BuildingCost::rebuild_us),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_filter_that_a_header_reaches_has_a_trace_and_the_table_has_rules_for_them() {
        let set = generate::filter_set(Style::Acl, 300, 9);
        let traces = traces_of(&set, 9);
        assert!(traces.len() > 200, "{}", traces.len());
        for traced in &traces {
            assert_eq!(traced.first, set.first_match(&traced.header));
        }
        let output = Output { json: false, plot: None };
        let costs = measure(&RebuildArgs { sizes: vec![300], style: Style::Acl, seed: 9, output }).unwrap();
        assert_eq!(costs.iter().map(|cost| cost.filters).collect::<Vec<_>>(), [300]);
        assert!(costs[0].rules >= traces.len(), "{costs:?}");
    }
}
