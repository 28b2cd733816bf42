//! The text of source lines, as far as the files are still those that were loaded.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::SystemTime;

use maple_core::trace::Source;
use serde_json::{Value, json};

/// The largest file that is read.
const LARGEST: u64 = 4 << 20;
/// The most characters of a line that are told.
const LONGEST: usize = 160;

/// Source files that were read for one answer.
pub(in crate::control) struct SourceLines {
    /// Files that were written after this are no longer what runs.
    loaded: Option<SystemTime>,
    files: BTreeMap<String, Option<Vec<String>>>,
    /// The files that were written since.
    changed: Vec<String>,
}

impl SourceLines {
    /// Of a policy that was loaded at this time; `None`: the files are what runs.
    pub fn new(loaded: Option<SystemTime>) -> SourceLines {
        SourceLines { loaded, files: BTreeMap::new(), changed: Vec::new() }
    }

    /// A line as JSON, with its text if that is known.
    pub fn json(&mut self, source: &Source) -> Value {
        let mut line = json!({ "file": &*source.file, "line": source.line });
        if let Some(tier) = &source.tier {
            line["tier"] = json!(&**tier);
        }
        if let Some(text) = self.text(&source.file, source.line) {
            line["text"] = json!(text);
        }
        line
    }

    /// The same for a line that may not be known.
    pub fn maybe(&mut self, source: Option<&Source>) -> Value {
        source.map_or(Value::Null, |source| self.json(source))
    }

    /// The files that were written after the policy was loaded.
    pub fn changed(self) -> Vec<String> {
        self.changed
    }

    /// The text of a line, if it is known.
    pub fn text(&mut self, file: &str, line: u32) -> Option<String> {
        if !self.files.contains_key(file) {
            let read = self.read(file);
            self.files.insert(file.to_owned(), read);
        }
        let lines = self.files.get(file)?.as_ref()?;
        let text = lines.get(usize::try_from(line.checked_sub(1)?).ok()?)?.trim();
        Some(text.chars().filter(|c| !c.is_control()).take(LONGEST).collect())
    }

    /// The lines of a file; `None` if it can't be read, or is no longer what runs. Explanations do without.
    fn read(&mut self, file: &str) -> Option<Vec<String>> {
        let about = fs::metadata(Path::new(file)).ok().filter(|about| about.is_file() && about.len() <= LARGEST)?;
        if self.loaded.is_some_and(|loaded| about.modified().is_ok_and(|written| written > loaded)) {
            self.changed.push(file.to_owned());
            return None;
        }
        Some(fs::read_to_string(file).ok()?.lines().map(str::to_owned).collect())
    }
}
