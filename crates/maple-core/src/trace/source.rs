//! Lines of the policy's source: where a run's observations come from.

use std::cell::RefCell;
use std::fmt;
use std::panic::Location as Caller;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::ids::Name;

/// A line of the policy's source.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Source {
    /// The file, as the policy's language names it.
    pub file: Arc<str>,
    /// The line, from 1.
    pub line: u32,
    /// The tier of a composed policy that ran the line; outer tiers come first, as in `tenant/red`.
    pub tier: Option<Name>,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.tier.iter().try_for_each(|tier| write!(f, "{tier}: "))?;
        write!(f, "{}:{}", self.file, self.line)
    }
}

thread_local! {
    /// Names of Rust files, by their address in memory.
    static FILES: RefCell<FxHashMap<*const u8, Arc<str>>> = RefCell::default();
}

impl Source {
    /// Creates a line of a file, outside of any tier.
    pub fn new(file: impl Into<Arc<str>>, line: u32) -> Source {
        Source { file: file.into(), line, tier: None }
    }

    /// Returns this line as a part of a tier. A line that already has a tier keeps it.
    #[must_use]
    pub fn in_tier(self, tier: &Name) -> Source {
        Source { tier: Some(self.tier.unwrap_or_else(|| Arc::clone(tier))), ..self }
    }

    /// Returns the line of Rust code that called the current function, if that function tracks its caller.
    ///
    /// ```
    /// use maple_core::Source;
    ///
    /// #[track_caller]
    /// fn question() -> Source {
    ///     Source::here()
    /// }
    /// assert_eq!(question().line, line!());
    /// ```
    #[track_caller]
    #[must_use]
    pub fn here() -> Source {
        from_caller(Caller::caller())
    }
}

/// Returns the line of Rust code that called a handle. `None` if the line is in Rust's own library, which calls
/// functions that it is given.
pub(crate) fn caller(at: &Caller<'_>) -> Option<Source> {
    let is_rusts = at.file().starts_with("/rustc/") || at.file().contains("/lib/rustlib/src/rust/library/");
    (!is_rusts).then(|| from_caller(at))
}

fn from_caller(at: &Caller<'_>) -> Source {
    let name = at.file();
    let file = FILES.with_borrow_mut(|files| Arc::clone(files.entry(name.as_ptr()).or_insert_with(|| name.into())));
    Source::new(file, at.line())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn question() -> Option<Source> {
        caller(Caller::caller())
    }

    #[test]
    fn a_function_that_is_called_by_rusts_own_code_has_no_line() {
        assert_eq!(question().map(|source| source.line), Some(line!()));
        let nobody: [Option<Option<Source>>; 1] = [None];
        assert!(nobody.into_iter().all(|none| none.unwrap_or_else(question).is_none()));
    }
}
