//! The text of source lines, from files that have not changed since the policy was loaded.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use maple_core::trace::Source;
use serde_json::{Value, json};

/// The maximum size of a source file that is read, in bytes. Chosen: far beyond a policy that people write, and a bound
/// on the memory of a request.
const MAX_FILE_BYTES: u64 = 4 << 20;
/// The maximum number of characters of a line that are reported. Chosen: a wide line of code; what goes beyond is text
/// that was made by programs.
const MAX_LINE_CHARS: usize = 160;

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
        Some(text.chars().filter(|c| !c.is_control()).take(MAX_LINE_CHARS).collect())
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
        let about =
            fs::metadata(Path::new(file)).ok().filter(|about| about.is_file() && about.len() <= MAX_FILE_BYTES)?;
        if self.loaded.is_some_and(|loaded| written_at(&about) > loaded) {
            self.changed.push(file.to_owned());
            return None;
        }
        Some(fs::read_to_string(file).ok()?.lines().map(str::to_owned).collect())
    }
}

/// Returns when a file was written last, or put in its place: what copies and unpacks files can keep older times of
/// writing.
fn written_at(about: &fs::Metadata) -> SystemTime {
    let part = |time: i64| u64::try_from(time).unwrap_or_default();
    let placed = UNIX_EPOCH + Duration::from_secs(part(about.ctime())) + Duration::from_nanos(part(about.ctime_nsec()));
    about.modified().map_or(placed, |written| written.max(placed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_put_in_place_of_the_one_that_runs_has_changed_though_its_time_is_old() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, other) = (folder.path().join("acl.py"), folder.path().join("other.py"));
        let write = |path: &Path, text: &str| {
            fs::write(path, text).expect("it is written");
            let file = fs::File::options().write(true).open(path).expect("it is there");
            file.set_modified(UNIX_EPOCH + Duration::from_secs(1_000_000_000)).expect("it has a time");
        };
        write(&path, "one\n");
        let loaded = fs::metadata(&path).map(|about| written_at(&about)).expect("it is there");
        let file = path.to_str().expect("UTF-8");
        let mut lines = SourceLines::new(Some(loaded));
        assert_eq!((lines.text(file, 1).as_deref(), lines.has_changed(file)), (Some("one"), false));
        // Times of files have the clock of the kernel's ticks.
        while SystemTime::now() < loaded + Duration::from_millis(50) {
            std::thread::yield_now();
        }
        write(&other, "two\n");
        fs::rename(&other, &path).expect("it takes the name");
        let mut lines = SourceLines::new(Some(loaded));
        assert_eq!((lines.text(file, 1), lines.has_changed(file)), (None, true));
    }
}
