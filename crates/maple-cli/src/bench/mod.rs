//! `maple bench`: the benchmarks of the optimizer, and those that need a controller on sockets.

mod charts;
mod controllers;
mod results;
mod throughput;

mod flows;

use clap::{Args, Subcommand};
use flows::FlowsArgs;
use throughput::ThroughputArgs;

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
    #[command(flatten)]
    Optimizer(maple_bench::Bench),
    /// Rate and delay of answers, against switches, windows, workers and rates, compared with other controllers
    Throughput(ThroughputArgs),
    /// Rate of new flows through whole networks, with rules, flow-mods and memory; cost of a failure, a flood and
    /// discovery
    Flows(FlowsArgs),
}

/// Runs a benchmark, and prints what it measures. `python` makes policies in Python.
///
/// # Errors
/// If the benchmark can't be run.
pub fn main(args: BenchArgs, python: Option<&dyn maple_bench::OtherLanguage>) -> anyhow::Result<u8> {
    match args.what {
        Bench::Optimizer(what) => {
            maple_bench::main(maple_bench::BenchArgs { what }, python).map(|()| 0).map_err(Into::into)
        }
        Bench::Throughput(args) => throughput::main(&args),
        Bench::Flows(args) => flows::main(&args),
    }
}
