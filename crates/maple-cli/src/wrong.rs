//! Command lines that could be read and yet are wrong: they name what is not there, or what does not go together. The exit
//! status is 2, as for those that can't be read.

use std::fmt;

/// What is wrong.
#[derive(Debug)]
pub struct Wrong(anyhow::Error);

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#}", self.0)
    }
}

impl std::error::Error for Wrong {}

/// An error that is the command line's.
pub fn wrong(error: impl Into<anyhow::Error>) -> anyhow::Error {
    Wrong(error.into()).into()
}

/// Says of what failed that the command line is wrong.
pub trait OrWrong<T> {
    /// The same, as an error of the command line.
    fn or_wrong(self) -> anyhow::Result<T>;
}

impl<T, E: Into<anyhow::Error>> OrWrong<T> for Result<T, E> {
    fn or_wrong(self) -> anyhow::Result<T> {
        self.map_err(wrong)
    }
}
