//! Usage errors: command lines that parse but name something that does not exist, or options that contradict each
//! other. The exit status is 2, as for command lines that do not parse.

use std::fmt;

/// A usage error.
#[derive(Debug)]
pub struct UsageError(anyhow::Error);

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#}", self.0)
    }
}

impl std::error::Error for UsageError {}

/// Converts an error to a usage error.
pub fn usage_error(error: impl Into<anyhow::Error>) -> anyhow::Error {
    UsageError(error.into()).into()
}

/// Converts the error of a result to a usage error.
pub trait OrUsageError<T> {
    /// Returns the result with a usage error.
    ///
    /// # Errors
    /// The error of the result, as a usage error.
    fn or_usage_error(self) -> anyhow::Result<T>;
}

impl<T, E: Into<anyhow::Error>> OrUsageError<T> for Result<T, E> {
    fn or_usage_error(self) -> anyhow::Result<T> {
        self.map_err(usage_error)
    }
}
