//! `maple bench`: benchmarks as commands (`docs/benchmarks.md`).

mod generate;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use serde::Serialize;

use maple_bench::report::{Chart, TextTable};

use crate::say;

/// `maple bench`.
#[derive(Debug, Args)]
pub struct BenchArgs {
    /// What to measure
    #[command(subcommand)]
    what: BenchWhat,
}

#[derive(Debug, Subcommand)]
enum BenchWhat {
    /// Make a filter set and traces out of a seed, in the format of ClassBench
    Generate(generate::GenerateArgs),
    /// Compare filter sets: prefix lengths, ranges, overlaps
    Statistics(generate::StatisticsArgs),
}

/// How results are told.
#[derive(Debug, Args)]
struct Output {
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Draw the results into this folder, as SVG
    #[arg(long, value_name = "DIR")]
    plot: Option<PathBuf>,
}

impl Output {
    /// Tells results as asked. What is drawn is named on standard error.
    fn tell(&self, results: &impl Serialize, table: &TextTable, charts: &[Chart]) -> anyhow::Result<()> {
        if self.json {
            say(serde_json::to_string(results)?);
        } else {
            say(table.to_string().trim_end());
        }
        for chart in charts {
            if let Some(folder) = &self.plot {
                eprintln!("{}", chart.write(folder)?.display());
            }
        }
        Ok(())
    }
}

/// Runs a benchmark. The exit status is 1 where a result is wrong.
pub fn main(args: BenchArgs) -> anyhow::Result<u8> {
    match args.what {
        BenchWhat::Generate(args) => generate::main(args),
        BenchWhat::Statistics(args) => generate::statistics(args),
    }
}
