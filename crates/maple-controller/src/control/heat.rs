//! The source of the policy, and what rests on each of its lines: decisions, rules, packets, drops and errors, and the
//! runs that ended there.
//!
//! The files are those whose lines the policy's runs have named, and the one that the policy was loaded from. No
//! request names a file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, absolute};
use std::sync::Arc;

use maple_core::engine::{CounterKind, KEPT_MINUTES, LineUse};
use serde_json::{Value, json};

use super::answer::milliseconds;
use super::explain::SourceLines;
use super::queries::LateShard;
use super::{COUNT_TIMEOUT, Handle};

/// The maximum number of files in an answer. Chosen: more than policies have, and a bound on the answer, which says
/// that it is not complete.
const MAX_FILES: usize = 64;
/// The maximum number of lines of a file in an answer. Chosen: more than people write in a file, and a bound on the
/// answer.
const MAX_LINES: usize = 10_000;
/// The maximum number of bytes of the texts of all files in an answer. Chosen: as large as one file may be that is read
/// for an explanation.
const MAX_TEXT: usize = 4 << 20;
/// The maximum number of tiers before the line of an error. Chosen: compositions are nested a few deep, and each part
/// of an error's text is searched for a place.
const MAX_TIERS: usize = 16;

/// The use of a line: what rests on it, which runs ended there, what is dropped there, and the packets on which the
/// policy failed there.
#[derive(Clone, Copy, Debug, Default)]
struct LineHeat {
    rests: LineUse,
    drops: u64,
    errors: u64,
}

/// The lines of each file.
type Heat = BTreeMap<Arc<str>, BTreeMap<u32, LineHeat>>;

/// Answers with the files of the policy that runs, and with what is known of their lines.
///
/// # Errors
/// [`LateShard`] if a shard does not answer in time.
pub(super) fn answer(handle: &Handle) -> Result<Value, LateShard> {
    handle.count(CounterKind::Rules, None, COUNT_TIMEOUT)?;
    let name = handle.shared().about.policy_name();
    let mut heat = heat(handle)?;
    let own = name.as_deref().and_then(file_of);
    if let Some(own) = own
        && !heat.keys().any(|file| absolute(&**file).is_ok_and(|path| path == Path::new(own)))
    {
        heat.insert(own.into(), BTreeMap::new());
    }
    add_errors(handle, &mut heat)?;
    let loaded = handle.policy_loaded();
    let mut texts = SourceLines::new(Some(loaded));
    let mut is_complete = heat.len() <= MAX_FILES;
    let mut room = MAX_TEXT;
    let mut files = Vec::new();
    for (file, lines) in heat.iter().take(MAX_FILES) {
        let text = texts.whole(file);
        let fits = text.as_ref().is_none_or(|text| text.len() <= room);
        is_complete &= fits && lines.len() <= MAX_LINES;
        let text = text.filter(|_| fits);
        room -= text.as_ref().map_or(0, String::len);
        files.push(json!({
            "file": &**file,
            "text": text,
            "changed_since": texts.has_changed(file),
            "lines": lines.iter().take(MAX_LINES).map(line).collect::<Value>(),
        }));
    }
    Ok(json!({ "policy": name, "version": milliseconds(loaded), "files": files, "complete": is_complete }))
}

fn line((number, heat): (&u32, &LineHeat)) -> Value {
    let LineHeat { rests: LineUse { leaves, rules, packets, misses, runs, time }, drops, errors } = heat;
    json!({
        "line": number, "packets": packets, "rules": rules, "leaves": leaves, "drops": drops, "errors": errors,
        "misses": misses, "runs": runs, "seconds": time.as_secs_f64(),
    })
}

/// Returns the path of the file that a policy was loaded from, by its name, which has the whole path.
fn file_of(name: &str) -> Option<&str> {
    let end = name.find(".py:").map_or(name.len(), |at| at + ".py".len());
    Some(&name[..end]).filter(|file| Path::new(file).is_absolute())
}

/// Returns what rests on lines, and what they drop.
fn heat(handle: &Handle) -> Result<Heat, LateShard> {
    let mut heat = Heat::new();
    for shard in 0..handle.shared().mailboxes.len() {
        for ((file, line), own) in handle.inspect_shard(shard, |engine| engine.view().by_line())? {
            heat.entry(file).or_default().entry(line).or_default().rests.add(own);
        }
    }
    for dropped in handle.drops(KEPT_MINUTES)? {
        if let Some(source) = dropped.cause.line() {
            let line = heat.entry(Arc::clone(&source.file)).or_default().entry(source.line).or_default();
            line.drops = line.drops.saturating_add(dropped.packets);
        }
    }
    Ok(heat)
}

/// Adds the packets on which the policy failed. They count at the innermost line of these files that the error's
/// traceback names, or at the line that made a route which can't be followed.
fn add_errors(handle: &Handle, heat: &mut Heat) -> Result<(), LateShard> {
    let files: BTreeSet<Arc<str>> = heat.keys().cloned().collect();
    for (error, packets) in handle.operations().policy_errors()? {
        let known = |(file, number): (&str, u32)| Some((files.get(file)?, number));
        let named = error.lines().rev().find_map(|line| known(frame(line)?));
        let named = named.or_else(|| error.split(": ").take(MAX_TIERS).find_map(|part| known(place(part)?)));
        if let Some((file, number)) = named {
            let line = heat.entry(Arc::clone(file)).or_default().entry(number).or_default();
            line.errors = line.errors.saturating_add(packets);
        }
    }
    Ok(())
}

/// Reads a line of a traceback of Python: `File "acl.py", line 12, in f`.
fn frame(line: &str) -> Option<(&str, u32)> {
    let (file, rest) = line.trim_start().strip_prefix("File \"")?.rsplit_once("\", line ")?;
    let digits = rest.split(',').next().unwrap_or_default();
    Some((file, digits.parse().ok()?))
}

/// Reads the place of a route's error, `src/policy.rs:12`, which stands at the beginning or after the names of tiers.
fn place(part: &str) -> Option<(&str, u32)> {
    let (file, number) = part.rsplit_once(':')?;
    Some((file, number.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_a_route_begins_with_a_line_or_with_tiers() {
        let found = |text: &str| text.split(": ").find_map(place).map(|(file, line)| (file.to_owned(), line));
        assert_eq!(found("src/policy.rs:12: there is no port 9"), Some(("src/policy.rs".to_owned(), 12)));
        assert_eq!(found("tenant/red: a.py:3: there is no port 9"), Some(("a.py".to_owned(), 3)));
        assert_eq!(found("there is no port 9"), None);
    }

    #[test]
    fn a_line_of_a_traceback_names_a_file_and_a_line() {
        assert_eq!(frame("  File \"/a b/acl.py\", line 12, in f"), Some(("/a b/acl.py", 12)));
        assert_eq!(frame("  File \"acl.py\", line 7"), Some(("acl.py", 7)));
        for other in ["KeyError: 7", "  File \"acl.py\", line x, in f", "    x = \"File\""] {
            assert_eq!(frame(other), None, "{other}");
        }
    }

    #[test]
    fn the_file_of_a_policy_is_in_its_name() {
        assert_eq!(file_of("/no/such/acl.py:policy"), Some("/no/such/acl.py"));
        assert_eq!(file_of("builtin:flood"), None);
        assert_eq!(file_of("/etc/campus.yaml"), Some("/etc/campus.yaml"));
    }
}
