//! The output of benchmarks: tables, JSON, plots, and progress while they run.

mod plot;
mod progress;
mod table;

pub use plot::{Chart, PlotError, Series};
pub use progress::Progress;
pub use table::TextTable;
