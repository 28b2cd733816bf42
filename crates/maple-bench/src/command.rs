//! The command line of `maple-bench`.

use std::ffi::OsString;

use clap::{Parser, Subcommand};

use crate::error::BenchError;
use crate::floor::{self, FloorArgs};
use crate::flows::{self, FlowsArgs};
use crate::generate::command::{self as filter_sets, GenerateArgs, StatisticsArgs};
use crate::growth::{self, GrowthArgs};
use crate::misses::{self, MissesArgs};
use crate::mt_route::{self, MtRouteArgs};
use crate::rebuild::{self, RebuildArgs};
use crate::rules::policy::Language;
use crate::rules::{self, RulesArgs};
use crate::state::{self, StateArgs};
use crate::throughput::{self, ThroughputArgs};

/// Measures the optimizer and the runtime.
#[derive(Debug, Parser)]
#[command(name = "maple-bench", version, max_term_width = 100)]
struct CommandLine {
    /// The measurement
    #[command(subcommand)]
    what: Benchmark,
}

/// The benchmarks.
#[derive(Debug, Subcommand)]
enum Benchmark {
    /// Rules, priorities, changes and speed of policies that interpret filter sets (the paper's Tables 1 and 2)
    Rules(RulesArgs),
    /// Cost of adding and removing a trace, against the size of the table
    Growth(GrowthArgs),
    /// Cost of building the table of an access list at once, and of building it again, against its length
    Rebuild(RebuildArgs),
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
    /// Rate and delay of answers, against switches, windows, workers and rates, compared with other controllers
    Throughput(ThroughputArgs),
    /// Rate of new flows through whole networks, with rules, flow-mods and memory; cost of a failure, a flood and
    /// discovery
    Flows(FlowsArgs),
}

/// Runs a benchmark and prints the results on standard output. `arguments` begin with the program's name; filter sets
/// become policies in `language`. Returns the exit status: 0 for success, 1 for a failure or a figure that is not a
/// valid result, 2 for a usage error.
pub fn main(arguments: impl IntoIterator<Item = OsString>, language: &dyn Language) -> u8 {
    let what = match CommandLine::try_parse_from(arguments) {
        Ok(CommandLine { what }) => what,
        Err(error) => {
            // If printing fails, the terminal is closed and needs no text.
            let _ = error.print();
            return error.exit_code() as u8;
        }
    };
    if cfg!(debug_assertions) {
        eprintln!("maple-bench: this build is not optimised, so its speeds mean nothing: cargo run --release");
    }
    run(what, language).unwrap_or_else(|error| {
        eprintln!("maple-bench: {error:#}");
        if matches!(error.downcast_ref(), Some(BenchError::Usage(_))) { 2 } else { 1 }
    })
}

fn run(what: Benchmark, language: &dyn Language) -> anyhow::Result<u8> {
    match what {
        Benchmark::Rules(args) => rules::main(&args, language)?,
        Benchmark::Growth(args) => growth::main(&args)?,
        Benchmark::Rebuild(args) => rebuild::main(&args)?,
        Benchmark::Floor(args) => floor::main(&args)?,
        Benchmark::MtRoute(args) => mt_route::main(&args)?,
        Benchmark::Misses(args) => misses::main(&args)?,
        Benchmark::State(args) => state::main(&args)?,
        Benchmark::Generate(args) => filter_sets::generate(&args)?,
        Benchmark::Statistics(args) => filter_sets::statistics(&args)?,
        Benchmark::Throughput(args) => return throughput::main(&args),
        Benchmark::Flows(args) => return flows::main(&args),
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        CommandLine::command().debug_assert();
    }
}
