//! The command line of `maple bench`.

use clap::{Args, Subcommand};

use crate::error::BenchError;
use crate::floor::{self, FloorArgs};
use crate::generate::command::{self as filter_sets, GenerateArgs, StatisticsArgs};
use crate::growth::{self, GrowthArgs};
use crate::misses::{self, MissesArgs};
use crate::mt_route::{self, MtRouteArgs};
use crate::rules::policy::OtherLanguage;
use crate::rules::{self, RulesArgs};
use crate::state::{self, StateArgs};

/// `maple bench`.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// What to measure
    #[command(subcommand)]
    pub what: Bench,
}

/// The benchmarks.
#[derive(Debug, Subcommand)]
pub enum Bench {
    /// Rules, priorities, changes and speed of policies that interpret filter sets (the paper's Tables 1 and 2)
    Rules(RulesArgs),
    /// Cost of adding and removing a trace, against the size of the table
    Growth(GrowthArgs),
    /// Upper bound for the rate of new traces: only run the policy and store the rule
    Floor(FloorArgs),
    /// Rules, changes and speed of multi-tenant routing in a data centre (the first rows of the paper's Tables 1 and 2)
    MtRoute(MtRouteArgs),
    /// Share of a switch's packets that go to the controller, against exact-match rules (the paper's Figure 6a)
    Misses(MissesArgs),
    /// Cost of transactions and writes of tracked state, against the numbers of threads and of dependents
    State(StateArgs),
    /// Generate a filter set and traces from a seed, in the format of ClassBench
    Generate(GenerateArgs),
    /// Compare filter sets: prefix lengths, ranges, overlaps
    Statistics(StatisticsArgs),
}

/// Runs a benchmark and prints the results on standard output. `python` makes policies in Python.
///
/// # Errors
/// [`BenchError`] if the input is invalid or results can't be written. A wrong answer is an error too, because then the
/// measurement has no meaning.
pub fn main(args: BenchArgs, python: Option<&dyn OtherLanguage>) -> Result<(), BenchError> {
    match args.what {
        Bench::Rules(args) => rules::main(&args, python),
        Bench::Growth(args) => growth::main(&args),
        Bench::Floor(args) => floor::main(&args),
        Bench::MtRoute(args) => mt_route::main(&args),
        Bench::Misses(args) => misses::main(&args),
        Bench::State(args) => state::main(&args),
        Bench::Generate(args) => filter_sets::generate(&args),
        Bench::Statistics(args) => filter_sets::statistics(&args),
    }
}
