//! The errors of benchmarks.

use std::io;
use std::path::PathBuf;

use crate::input::InputError;
use crate::report::PlotError;

/// The reason why a benchmark has no result.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// An input file is invalid.
    #[error(transparent)]
    Input(#[from] InputError),
    /// A generated file can't be written.
    #[error("{path}: {source}")]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A plot can't be written.
    #[error(transparent)]
    Plot(#[from] PlotError),
    /// The options contradict each other.
    #[error("{0}")]
    Usage(String),
    /// A result is wrong, so the measurement has no meaning.
    #[error("{0}")]
    WrongResult(String),
    /// A policy in another language failed.
    #[error("the policy failed: {0}")]
    Policy(Box<dyn std::error::Error + Send + Sync>),
}

impl BenchError {
    /// Creates the error of an option whose value makes no sense.
    pub(crate) fn usage(error: impl std::fmt::Display) -> BenchError {
        BenchError::Usage(error.to_string())
    }
}
