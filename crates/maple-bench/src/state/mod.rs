//! `maple-bench state`: the cost of tracked state.
//!
//! * A table that is mostly read: transactions of one read on one and on two threads. The comparison is `papaya`, a
//!   concurrent hash table without transactions, with its own hash function and with that of our tables.
//! * Bandwidth reservation over random paths of 1 to 6 links: rates and repeated runs, against the number of threads.
//! * A write without dependents, and its steps.
//! * A write against the number of leaves that depend on it, on other keys, and on nothing.
//!
//! Each result is the median of several rounds, and compared things alternate. Work of a single thread is measured in
//! processor time, so that other programs matter less.

use clap::Args;
use serde::Serialize;

use crate::error::BenchError;
use crate::output::Output;
use crate::report::{Chart, Progress, Series, TextTable};

mod reads;
mod reservations;
mod writes;

use reads::Reads;
use reservations::Reservations;
use writes::{Invalidation, Writes};

/// `maple-bench state`.
#[derive(Debug, Args)]
pub struct StateArgs {
    /// Numbers of leaves that depend on the table, separated by commas
    #[arg(long, value_name = "N,N,…", value_delimiter = ',', value_parser = clap::value_parser!(u64).range(0..=10_000_000),
          default_values_t = [0, 1000, 10_000, 100_000, 1_000_000])]
    pub leaves: Vec<u64>,
    /// Numbers of threads that reserve bandwidth, separated by commas
    #[arg(long, value_name = "N,N,…", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=256),
          default_values_t = [1, 2, 4])]
    pub threads: Vec<u32>,
    /// Rounds of each measurement; the result is the median
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Form of the results
    #[command(flatten)]
    pub output: Output,
}

/// All results.
#[derive(Debug, Serialize)]
pub struct Costs {
    /// Transactions of one read.
    pub reads: Reads,
    /// Bandwidth reservation, by threads.
    pub reservations: Vec<Reservations>,
    /// Writes without dependents.
    pub writes: Writes,
    /// Writes against the number of leaves.
    pub invalidations: Vec<Invalidation>,
}

/// The default number of keys of a table.
const KEYS: u64 = 10_000;

/// Runs the benchmark and prints the results.
///
/// # Errors
/// [`BenchError`] if a plot can't be written, a link was oversold, or a leaf was withdrawn that does not depend on the
/// key.
pub fn main(args: &StateArgs) -> Result<(), BenchError> {
    let costs = measure(args)?;
    args.output.print(&costs, || text(&costs), || vec![chart(&costs.invalidations)])
}

/// Measures the costs that the options select.
///
/// # Errors
/// [`BenchError`] if a link was oversold, or if a leaf was withdrawn that does not depend on the key.
pub fn measure(args: &StateArgs) -> Result<Costs, BenchError> {
    let rounds = args.rounds as usize;
    let progress = Progress::new((2 + args.threads.len() + args.leaves.len()) as u64);
    progress.set_message("reads");
    let reads = Reads::measure(rounds);
    progress.step();
    let mut reservations = Vec::new();
    for threads in &args.threads {
        progress.set_message(format!("reservations on {threads} threads"));
        reservations.push(Reservations::measure(*threads as usize, rounds)?);
        progress.step();
    }
    progress.set_message("writes");
    let writes = Writes::measure(rounds);
    progress.step();
    let mut invalidations = Vec::new();
    // The table's size is constant, so only the number of dependents varies.
    let keys = args.leaves.iter().copied().fold(1000, u64::max);
    for leaves in &args.leaves {
        progress.set_message(format!("{leaves} leaves"));
        invalidations.push(Invalidation::measure(*leaves, keys, rounds)?);
        progress.step();
    }
    Ok(Costs { reads, reservations, writes, invalidations })
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

fn text(costs: &Costs) -> String {
    format!(
        "{}\nBandwidth reservation over random paths of 1 to 6 of {} links\n{}\nWrites, in nanoseconds of processor time\n{}\n\
         A write to one key of a table with as many keys as there are leaves at most, in nanoseconds of processor time\n{}",
        costs.reads.text(),
        reservations::LINKS,
        reservations::text(&costs.reservations),
        costs.writes.text(),
        writes::text(&costs.invalidations),
    )
}

fn chart(invalidations: &[Invalidation]) -> Chart {
    let line = |name: &str, value: fn(&Invalidation) -> f64| {
        let there = invalidations.iter().filter(|one| one.leaves > 0 && value(one) > 0.0);
        Series { name: name.into(), points: there.map(|one| (one.leaves as f64, value(one) / 1e3)).collect() }
    };
    Chart {
        title: "Cost of a write by number of leaves".into(),
        x: "leaves that depend on the table".into(),
        y: "µs of processor time (median)".into(),
        log_x: true,
        log_y: true,
        labels: Vec::new(),
        series: vec![
            line("finding that the key has no dependents", |one| one.lookup_ns),
            line("a write to a key without dependents", |one| one.no_reader_ns),
            line("a write to a key with one dependent", |one| one.one_reader_ns),
            line("a write to a key that all leaves depend on", |one| one.all_readers_ns),
        ],
    }
}

/// Returns rows of a name and a number.
fn list(figures: &[(&str, f64)]) -> String {
    let mut table = TextTable::new(["", "ns"]);
    for (name, figure) in figures {
        table.row([(*name).to_string(), format!("{figure:.0}")]);
    }
    table.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_is_measured_and_only_readers_are_withdrawn() {
        let output = Output { json: false, plot: None };
        let args = StateArgs { leaves: vec![0, 100], threads: vec![2], rounds: 1, output };
        let costs = measure(&args).expect("no link is oversold, and exactly the readers are withdrawn");
        assert!(costs.reads.maple_ns > 0.0 && costs.reads.papaya_ns > 0.0 && costs.writes.variable > 0.0);
        assert_eq!(costs.invalidations.iter().map(|one| one.leaves).collect::<Vec<_>>(), [0, 100]);
        assert!(text(&costs).contains("papaya"));
        assert_eq!(chart(&costs.invalidations).series.len(), 4);
    }
}
