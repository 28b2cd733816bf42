//! Errors of a list, with their places.

use std::fmt;

use maple_wire::nearest;

/// A place in a file; lines and columns count from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct FilePlace {
    /// The line.
    pub line: usize,
    /// The column, in characters.
    pub column: usize,
}

/// Something that is wrong at a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    place: FilePlace,
    what: String,
}

/// The reason why a list can't be used: the file, and the faults with their places. Its text has a line for each fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub struct AclError {
    /// The file's name as the caller gave it.
    pub file: String,
    /// The faults by place, 1 to 50.
    pub faults: Vec<(FilePlace, String)>,
    /// The number of further faults.
    pub more: usize,
}

/// The maximum number of faults of a list that are reported. A file that is not a list may have one in each line.
const MAX_FAULTS: usize = 50;

impl fmt::Display for AclError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (place, what)) in self.faults.iter().enumerate() {
            write!(f, "{}{}:{place}: {what}", if number > 0 { "\n" } else { "" }, self.file)?;
        }
        if self.more > 0 { write!(f, "\n{}: and {} more", self.file, self.more) } else { Ok(()) }
    }
}

impl Fault {
    pub fn new(place: FilePlace, what: impl Into<String>) -> Fault {
        Fault { place, what: what.into() }
    }

    pub fn in_file(self, file: &str) -> AclError {
        AclError::from_faults(file, vec![self])
    }
}

impl AclError {
    /// Creates the error for a file's faults.
    pub(crate) fn from_faults(file: &str, mut faults: Vec<Fault>) -> AclError {
        faults.sort_by_key(|fault| fault.place);
        let more = faults.len().saturating_sub(MAX_FAULTS);
        faults.truncate(MAX_FAULTS);
        let faults = faults.into_iter().map(|Fault { place, what }| (place, what)).collect();
        AclError { file: file.to_owned(), faults, more }
    }
}

impl From<Fault> for Vec<Fault> {
    fn from(fault: Fault) -> Vec<Fault> {
        vec![fault]
    }
}

impl fmt::Display for FilePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// Returns the hint that a word may be meant as one of these; empty if none is similar.
pub(crate) fn did_you_mean<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(word, known).map(|near| format!("; did you mean `{near}`?")).unwrap_or_default()
}
