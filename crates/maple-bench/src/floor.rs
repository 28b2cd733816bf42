//! `maple-bench floor`: the minimum cost of an augment, for any controller.
//!
//! An augment runs f, so no controller adds traces faster than f runs. On filter sets, f searches for the first filter
//! that a header matches. Here that is a plain loop over the filters without tracing. For `mt-route` the rule is built
//! as well, and entered into two hash tables, because a controller must find the rule and the leaf again. There is no
//! tree, no compiler and no trace. So these rates are upper bounds for every design.

use std::hint::black_box;
use std::path::{Path, PathBuf};

use clap::Args;
use maple_core::{Augmented, LeafId};
use maple_sim::oracles::Strategy;
use serde::Serialize;

use crate::error::BenchError;
use crate::filters::FilterSet;
use crate::headers::{FiveTuple, TracedHeader};
use crate::mt_route::floor::floor;
use crate::mt_route::{RATES, SEED, TENANTS};
use crate::output::print_line;
use crate::passes::median_time;
use crate::report::TextTable;
use crate::rules::play::{action, table};
use crate::rules::policy::{FilterPolicy, Interpreter, Ranges};
use crate::rules::published::published;
use crate::rules::sets_in;

/// `maple-bench floor`.
#[derive(Debug, Args)]
pub struct FloorArgs {
    /// A folder of filter sets with their traces, besides mt-route
    #[arg(long, value_name = "DIR")]
    pub all: Option<PathBuf>,
    /// Number of pairs of racks that talk in mt-route
    #[arg(long, value_name = "N", default_value_t = 73_563, value_parser = clap::value_parser!(u32).range(1..=140_000))]
    pub pairs: u32,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// The minimum cost of augments of one policy.
#[derive(Clone, Debug, Serialize)]
pub struct Floor {
    /// `mt-route`, or the set's name.
    pub policy: String,
    /// Headers that add a trace.
    pub augments: usize,
    /// f alone, in microseconds.
    pub f_us: f64,
    /// f with the required bookkeeping (on filter sets f alone), in microseconds.
    pub floor_us: f64,
    /// The resulting augments per second.
    pub at_most_per_s: f64,
    /// The published rate, if there is one.
    pub published_per_s: Option<f64>,
    /// The ratio to the published rate.
    pub at_most_times: Option<f64>,
}

/// Runs the benchmark and prints the results.
///
/// # Errors
/// [`BenchError`] for invalid input.
pub fn main(args: &FloorArgs) -> Result<(), BenchError> {
    let floors = measure(args)?;
    if args.json {
        print_line(serde_json::to_string_pretty(&floors).map_err(|error| BenchError::WrongResult(error.to_string()))?);
    } else {
        print_line(text(&floors));
    }
    Ok(())
}

/// Measures the policies that the options select.
///
/// # Errors
/// [`BenchError`] for invalid input.
pub fn measure(args: &FloorArgs) -> Result<Vec<Floor>, BenchError> {
    let (augments, f_us, floor_us) = floor(args.pairs as usize, TENANTS.into(), SEED);
    let mut floors = vec![Floor::new("mt-route".into(), augments, f_us, floor_us, Some(RATES[0]))];
    for (filters, trace, _) in args.all.as_deref().map_or(Ok(Vec::new()), sets_in)? {
        floors.push(of_set(&filters, &trace)?);
    }
    Ok(floors)
}

fn of_set(filters: &Path, trace: &Path) -> Result<Floor, BenchError> {
    let set = FilterSet::read(filters)?;
    let headers: Vec<FiveTuple> = TracedHeader::read(trace)?.into_iter().map(|line| line.header).collect();
    let new = new_headers(&set, &headers)?;
    let scan = median_time(|| new.iter().for_each(|header| _ = black_box(set.first_match(black_box(header)))));
    let f_us = scan.as_secs_f64() * 1e6 / new.len().max(1) as f64;
    let rate = published(&set.name).map(|row| row.augments_per_s);
    Ok(Floor::new(set.name, new.len(), f_us, f_us, rate))
}

/// Returns the headers that add a trace to Maple's tree.
fn new_headers(set: &FilterSet, headers: &[FiveTuple]) -> Result<Vec<FiveTuple>, BenchError> {
    let (mut table, mut policy) = (table(Strategy::Maple), Interpreter::new(set, Ranges::Auto));
    let mut new = Vec::new();
    for header in headers {
        if table.tree().search(header).is_some() {
            continue;
        }
        let mut run = table.begin_replay();
        let filter = policy.run(header, &mut run).map_err(BenchError::Policy)?;
        let run = run.finish(header);
        match table.insert_replayed(run, LeafId(new.len() as u64), action(filter), header) {
            Augmented::Added => new.push(*header),
            other => return Err(BenchError::WrongResult(format!("{header:?} is not new: {other:?}"))),
        }
    }
    Ok(new)
}

impl Floor {
    fn new(policy: String, augments: usize, f_us: f64, floor_us: f64, published_per_s: Option<f64>) -> Floor {
        let at_most_per_s = 1e6 / floor_us;
        let at_most_times = published_per_s.map(|rate| at_most_per_s / rate);
        Floor { policy, augments, f_us, floor_us, at_most_per_s, published_per_s, at_most_times }
    }
}

fn text(floors: &[Floor]) -> String {
    let mut table = TextTable::new(["policy", "augments", "f µs", "at least µs", "at most/s", "published/s", "times"]);
    for floor in floors {
        let rate = |rate: Option<f64>| rate.map_or("-".into(), |rate| format!("{rate:.0}"));
        table.row([
            floor.policy.clone(),
            floor.augments.to_string(),
            format!("{:.2}", floor.f_us),
            format!("{:.2}", floor.floor_us),
            format!("{:.0}", floor.at_most_per_s),
            rate(floor.published_per_s),
            rate(floor.at_most_times),
        ]);
    }
    table.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_of_the_traffic_is_an_augment_and_f_is_part_of_its_cost() {
        let args = FloorArgs { all: None, pairs: 500, json: false };
        let floors = measure(&args).unwrap();
        assert_eq!((floors.len(), floors[0].augments), (1, 500));
        assert!(floors[0].f_us > 0.0 && floors[0].floor_us > 0.0);
        assert!(text(&floors).contains("mt-route"));
    }
}
