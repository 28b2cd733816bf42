//! Prints the results of benchmarks.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use crate::error::BenchError;
use crate::report::{Chart, TextTable};

/// The form of the results.
#[derive(Debug, Args)]
pub struct Output {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Write plots (SVG) into this folder
    #[arg(long, value_name = "DIR")]
    pub plot: Option<PathBuf>,
}

impl Output {
    /// Prints results as text or JSON, and writes plots if they are requested.
    ///
    /// # Errors
    /// [`BenchError`] if a plot can't be written.
    pub(crate) fn print(
        &self,
        results: &impl Serialize,
        text: impl FnOnce() -> String,
        charts: impl FnOnce() -> Vec<Chart>,
    ) -> Result<(), BenchError> {
        if self.json {
            let text =
                serde_json::to_string_pretty(results).map_err(|error| BenchError::WrongResult(error.to_string()))?;
            print_line(text);
        } else {
            print_line(text().trim_end());
        }
        if let Some(folder) = &self.plot {
            for chart in charts() {
                // Standard output can be JSON.
                eprintln!("maple-bench: wrote {}", chart.write(folder)?.display());
            }
        }
        Ok(())
    }
}

/// Puts a line below a table.
pub(crate) fn with_note(table: &TextTable, note: &str) -> String {
    format!("{table}\n{note}")
}

/// Prints a line on standard output. Does nothing if a reader such as `head` has closed it.
pub(crate) fn print_line(text: impl std::fmt::Display) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}
