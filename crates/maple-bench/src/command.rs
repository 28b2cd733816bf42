//! The command line of `maple bench`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde::Serialize;

use crate::floor::{self, FloorArgs};
use crate::generate::GenerateError;
use crate::generate::command::{self as sets, GenerateArgs, StatisticsArgs};
use crate::growth::{self, GrowthArgs};
use crate::input::InputError;
use crate::misses::{self, MissesArgs};
use crate::mt_route::{self, MtRouteArgs};
use crate::report::{Chart, PlotError, TextTable};
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
    /// What adding and removing a trace costs, against the size of the table
    Growth(GrowthArgs),
    /// How fast traces could be added by who had nothing to do but run f and keep the rule
    Floor(FloorArgs),
    /// Rules, changes and speed of multi-tenant routing in a data centre (the first rows of the paper's Tables 1 and 2)
    MtRoute(MtRouteArgs),
    /// How many packets of a switch go to the controller, against exact-match rules (the paper's Figure 6a)
    Misses(MissesArgs),
    /// What transactions and writes of tracked state cost, against threads and against who depends on them
    State(StateArgs),
    /// Make a filter set and traces out of a seed, in the format of ClassBench
    Generate(GenerateArgs),
    /// Compare filter sets: prefix lengths, ranges, overlaps
    Statistics(StatisticsArgs),
}

/// Why a benchmark has no result.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// An input file is wrong.
    #[error(transparent)]
    Input(#[from] InputError),
    /// A generated file can't be written.
    #[error(transparent)]
    Generate(#[from] GenerateError),
    /// A plot can't be written.
    #[error(transparent)]
    Plot(#[from] PlotError),
    /// The options don't go together.
    #[error("{0}")]
    Usage(String),
    /// There is something that must not be.
    #[error("{0}")]
    Wrong(String),
    /// A policy in another language failed.
    #[error("the policy failed: {0}")]
    Policy(Box<dyn std::error::Error + Send + Sync>),
}

/// How results are told.
#[derive(Debug, Args)]
pub struct Output {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Write plots (SVG) into this folder
    #[arg(long, value_name = "DIR")]
    pub plot: Option<PathBuf>,
}

/// Runs a benchmark, and prints what it measures on standard output. Policies in Python are made by `python`.
///
/// # Errors
/// [`BenchError`], also where an answer is wrong: then what was measured means nothing.
pub fn main(args: BenchArgs, python: Option<&dyn OtherLanguage>) -> Result<(), BenchError> {
    match args.what {
        Bench::Rules(args) => rules::main(&args, python),
        Bench::Growth(args) => growth::main(&args),
        Bench::Floor(args) => floor::main(&args),
        Bench::MtRoute(args) => mt_route::main(&args),
        Bench::Misses(args) => misses::main(&args),
        Bench::State(args) => state::main(&args),
        Bench::Generate(args) => sets::generate(&args),
        Bench::Statistics(args) => sets::statistics(&args),
    }
}

impl Output {
    /// Tells results as asked.
    ///
    /// # Errors
    /// [`BenchError`] where a chart can't be written.
    pub(crate) fn tell(
        &self,
        results: &impl Serialize,
        text: impl FnOnce() -> String,
        charts: impl FnOnce() -> Vec<Chart>,
    ) -> Result<(), BenchError> {
        if self.json {
            let text = serde_json::to_string_pretty(results).map_err(|error| BenchError::Wrong(error.to_string()))?;
            say(text);
        } else {
            say(text().trim_end());
        }
        if let Some(folder) = &self.plot {
            for chart in charts() {
                // Standard output may be JSON for a machine.
                eprintln!("maple: wrote {}", chart.write(folder)?.display());
            }
        }
        Ok(())
    }
}

/// A table and a line below it.
pub(crate) fn with_note(table: &TextTable, note: &str) -> String {
    format!("{table}\n{note}")
}

/// Prints on standard output. Whoever closed it has read enough.
pub(crate) fn say(text: impl std::fmt::Display) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}
