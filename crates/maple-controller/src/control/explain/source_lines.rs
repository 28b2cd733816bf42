//! The text of source lines, from files that have not changed since the policy was loaded.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::SystemTime;

use maple_core::trace::Source;
use serde_json::{Value, json};

/// Maximum size of a source file that is read, in bytes.
const LARGEST: u64 = 4 << 20;
/// Maximum number of characters of a line that are reported.
const LONGEST: usize = 160;

/// Source files that were read for one answer.
pub(in crate::control) struct SourceLines {
    /// The time at which the policy was loaded. Files that were written later are not the ones that run.
    loaded: Option<SystemTime>,
    files: BTreeMap<String, Option<Vec<String>>>,
    /// The files that were written after that time.
    changed: Vec<String>,
}

impl SourceLines {
    /// Creates a reader for a policy that was loaded at this time. With `None`, the files on disk are current.
    pub fn new(loaded: Option<SystemTime>) -> SourceLines {
        SourceLines { loaded, files: BTreeMap::new(), changed: Vec::new() }
    }

    /// Encodes a line as JSON, with its text if that is known.
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

    /// Encodes a line, or null if it is not known.
    pub fn maybe(&mut self, source: Option<&Source>) -> Value {
        source.map_or(Value::Null, |source| self.json(source))
    }

    /// Returns the text of a file without control characters, if it is known.
    pub fn whole(&mut self, file: &str) -> Option<String> {
        let lines = self.lines(file)?;
        let mut text = String::new();
        for line in lines {
            text.extend(line.chars().filter(|c| !c.is_control() || *c == '\t'));
            text.push('\n');
        }
        Some(text)
    }

    /// Reports whether a file of which something was asked was written after the policy was loaded.
    pub fn has_changed(&self, file: &str) -> bool {
        self.changed.iter().any(|changed| changed == file)
    }

    /// Returns the files that were written after the policy was loaded.
    pub fn changed(self) -> Vec<String> {
        self.changed
    }

    /// Returns the text of a line, if it is known.
    pub fn text(&mut self, file: &str, line: u32) -> Option<String> {
        let text = self.lines(file)?.get(usize::try_from(line.checked_sub(1)?).ok()?)?.trim();
        Some(text.chars().filter(|c| !c.is_control()).take(LONGEST).collect())
    }

    fn lines(&mut self, file: &str) -> Option<&[String]> {
        if !self.files.contains_key(file) {
            let read = self.read(file);
            self.files.insert(file.to_owned(), read);
        }
        self.files.get(file)?.as_deref()
    }

    /// Reads the lines of a file. Returns `None` if it can't be read, or has changed since the policy was loaded. An
    /// explanation does without them.
    fn read(&mut self, file: &str) -> Option<Vec<String>> {
        let about = fs::metadata(Path::new(file)).ok().filter(|about| about.is_file() && about.len() <= LARGEST)?;
        if self.loaded.is_some_and(|loaded| about.modified().is_ok_and(|written| written > loaded)) {
            self.changed.push(file.to_owned());
            return None;
        }
        Some(fs::read_to_string(file).ok()?.lines().map(str::to_owned).collect())
    }
}
