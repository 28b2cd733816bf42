//! `maple-bench growth`: the cost of an augment and of a removal, against the size of the table.
//!
//! f reads the /24 of the destination, and then makes eight tests that overlap, like an access list for each subnet. At
//! each size, half of the traces of all subnets are known. So every trace has the same length and affects the same
//! number of rules at any size. The cost of a compiler that depends only on the change is the same at each size.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;
use maple_core::{Augmented, Cond, Item, LeafId, Recorder, RuleTable};
use maple_wire::{Constraint, Field};
use serde::Serialize;

use crate::error::BenchError;
use crate::headers::FiveTuple;
use crate::output::Output;
use crate::report::{Chart, Progress, Series, TextTable};
use crate::rules::Compiler;
use crate::rules::play::{action, table};

/// `maple-bench growth`.
#[derive(Debug, Args)]
pub struct GrowthArgs {
    /// Sizes of the table at which costs are measured, in traces
    #[arg(long, value_name = "N,N,…", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(100..=10_000_000),
          default_values_t = [1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000])]
    pub sizes: Vec<u32>,
    /// Which compiler makes the rules
    #[arg(long, value_enum, default_value = "maple")]
    pub compiler: Compiler,
    /// Form of the results
    #[command(flatten)]
    pub output: Output,
}

/// The cost of edits at one size.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Cost {
    /// Traces in the table before.
    pub traces: usize,
    /// Rules in the table before.
    pub rules: usize,
    /// The median time to add a trace and produce the changes, in microseconds.
    pub augment_us: f64,
    /// The median time to remove a leaf and produce the changes, in microseconds.
    pub removal_us: f64,
    /// Changes for a trace, on average.
    pub mods_per_augment: f64,
    /// Changes for a removal, on average.
    pub mods_per_removal: f64,
}

/// The number of f's tests in a subnet. Each one matches packets that no other test matches.
const TESTS: usize = 8;

/// The maximum number of timed edits of each kind: enough for a steady median.
const SAMPLES: usize = 500;
/// The number of traces for each timed edit: a small table is not changed much by its own measurement.
const TRACES_PER_SAMPLE: usize = 10;
/// The maximum time of the edits of one size, so that a slow compiler does not make a run endless.
const TIME: Duration = Duration::from_secs(3);

/// Runs the benchmark and prints the results.
///
/// # Errors
/// [`BenchError`] if a plot can't be written.
pub fn main(args: &GrowthArgs) -> Result<(), BenchError> {
    let costs = measure(args)?;
    args.output.print(&costs, || text(&costs), || vec![chart(args.compiler, &costs)])
}

/// Measures the sizes that the options select, in ascending order.
///
/// # Errors
/// [`BenchError`] if the tree refuses a trace.
pub fn measure(args: &GrowthArgs) -> Result<Vec<Cost>, BenchError> {
    let mut sizes: Vec<usize> = args.sizes.iter().map(|size| *size as usize).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let progress = Progress::new(sizes.len() as u64);
    let mut costs = Vec::new();
    for size in sizes {
        progress.set_message(format!("{size} traces"));
        costs.push(Subject::new(args.compiler, 2 * size).cost_at(size)?);
        progress.step();
    }
    Ok(costs)
}

/// A table under test.
struct Subject {
    table: RuleTable,
    tests: Vec<Arc<Cond>>,
    /// The number of headers; each has its own trace.
    headers: usize,
    /// The number of headers that have been used.
    used: usize,
}

impl Subject {
    fn new(compiler: Compiler, headers: usize) -> Subject {
        let test = |number: usize| {
            let src = Constraint::masked(Field::Ipv4Src, (10 << 24) + ((number as u128) << 20), 0xfff0_0000);
            // Every other test is on a port, and overlaps all of these.
            let port = Constraint::exact(Field::TcpDst, 1000 + number as u128);
            Arc::new(Cond { constraints: vec![if number.is_multiple_of(2) { src } else { port }], ranges: Vec::new() })
        };
        let headers = headers.next_multiple_of(TESTS + 1);
        Subject { table: table(compiler.strategy()), tests: (0..TESTS).map(test).collect(), headers, used: 0 }
    }

    fn cost_at(mut self, size: usize) -> Result<Cost, BenchError> {
        while self.table.tree().len() < size {
            let (items, number) = self.next();
            self.augment(&items, number)?;
        }
        self.table.take_changes();
        let (traces, rules) = (self.table.tree().len(), self.table.rules().len());
        let (mut augments, mut removals) = (Samples::default(), Samples::default());
        let begin = Instant::now();
        let samples = SAMPLES.min(size / TRACES_PER_SAMPLE);
        while augments.times.len() < samples && (begin.elapsed() < TIME || augments.times.is_empty()) {
            let (items, number) = self.next();
            let started = Instant::now();
            self.augment(&items, number)?;
            let changes = self.table.take_changes().len();
            augments.add(started.elapsed(), changes);
        }
        let begin = Instant::now();
        // Headers come in random order, so the first ones are anywhere in the tree.
        let leaves: Vec<LeafId> = self.table.tree().leaves().take(augments.times.len()).collect();
        for leaf in leaves {
            if begin.elapsed() > TIME && !removals.times.is_empty() {
                break;
            }
            let started = Instant::now();
            self.table.remove(leaf);
            let changes = self.table.take_changes().len();
            removals.add(started.elapsed(), changes);
        }
        let (augment_us, mods_per_augment) = augments.median_and_mean();
        let (removal_us, mods_per_removal) = removals.median_and_mean();
        Ok(Cost { traces, rules, augment_us, removal_us, mods_per_augment, mods_per_removal })
    }

    fn augment(&mut self, items: &[Item], number: usize) -> Result<(), BenchError> {
        match self.table.augment(items, LeafId(number as u64), action(Some(number % 60_000))) {
            Augmented::Added => Ok(()),
            other => Err(BenchError::WrongResult(format!("trace {number} is not new: {other:?}"))),
        }
    }

    /// Returns the trace of the next header, and the header's number.
    fn next(&mut self) -> (Vec<Item>, usize) {
        let number = self.used;
        self.used += 1;
        // The step is a prime greater than the number of headers, so it visits each of them once.
        let at = number.wrapping_mul(2_654_435_761) % self.headers;
        let (subnet, test) = (at / (TESTS + 1), at % (TESTS + 1));
        let mut header =
            FiveTuple { src: 0x0b00_0000, dst: (subnet as u32) << 8 | 1, src_port: 1, dst_port: 1, proto: 6 };
        match test % 2 {
            _ if test == TESTS => {}
            0 => header.src = (10 << 24) + ((test as u32) << 20),
            _ => header.dst_port = 1000 + test as u16,
        }
        let mut recorder = Recorder::new();
        recorder.read_there(&header, Field::Ipv4Dst, 0xffff_ff00, None);
        let _ = self.tests.iter().position(|test| recorder.fits(&header, test, None));
        (recorder.finish().items, number)
    }
}

/// The times of edits, and the total number of changes.
#[derive(Default)]
struct Samples {
    times: Vec<Duration>,
    changes: usize,
}

impl Samples {
    fn add(&mut self, time: Duration, changes: usize) {
        self.times.push(time);
        self.changes += changes;
    }

    /// Returns the median time, in microseconds, and the mean number of changes.
    fn median_and_mean(mut self) -> (f64, f64) {
        self.times.sort_unstable();
        let median = self.times.get(self.times.len() / 2).copied().unwrap_or_default();
        (median.as_secs_f64() * 1e6, self.changes as f64 / self.times.len().max(1) as f64)
    }
}

fn text(costs: &[Cost]) -> String {
    let mut table = TextTable::new(["traces", "rules", "augment µs", "removal µs", "mods/augment", "mods/removal"]);
    for cost in costs {
        table.row([
            cost.traces.to_string(),
            cost.rules.to_string(),
            format!("{:.1}", cost.augment_us),
            format!("{:.1}", cost.removal_us),
            format!("{:.2}", cost.mods_per_augment),
            format!("{:.2}", cost.mods_per_removal),
        ]);
    }
    table.to_string()
}

fn chart(compiler: Compiler, costs: &[Cost]) -> Chart {
    let line = |name: &str, value: fn(&Cost) -> f64| {
        let points = costs.iter().map(|cost| (cost.rules as f64, value(cost))).collect();
        Series { name: name.into(), points }
    };
    Chart {
        title: format!("Cost of a change by size of the table, compiler {}", compiler.name()),
        x: "rules in the table".into(),
        y: "µs (median)".into(),
        log_x: true,
        log_y: true,
        labels: Vec::new(),
        series: vec![line("augment", |cost| cost.augment_us), line("removal", |cost| cost.removal_us)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_changes_as_much_in_a_large_table_as_in_a_small_one() {
        for compiler in [Compiler::Maple, Compiler::Paper] {
            let output = Output { json: false, plot: None };
            let costs = measure(&GrowthArgs { sizes: vec![1000, 4000], compiler, output }).unwrap();
            assert_eq!(costs.iter().map(|cost| cost.traces).collect::<Vec<_>>(), [1000, 4000]);
            for cost in &costs {
                assert!(cost.rules >= cost.traces, "{cost:?}");
            }
            let like = |value: fn(&Cost) -> f64| (0.5..2.0).contains(&(value(&costs[0]) / value(&costs[1])));
            assert!(
                like(|cost| cost.mods_per_augment) && like(|cost| cost.mods_per_removal),
                "{compiler:?}: {costs:?}"
            );
        }
    }
}
