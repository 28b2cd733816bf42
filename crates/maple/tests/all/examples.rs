//! Every public item of the library has a first sentence and an example. That examples run is what their own tests
//! show.

use std::path::{Path, PathBuf};

/// Reports whether the line begins an item that users see. Types and traits that are indented stand in a module of the
/// crate's own.
fn is_public_item(line: &str) -> bool {
    let item = line.trim_start();
    let begins =
        |words: &[&str]| item.strip_prefix("pub ").is_some_and(|rest| words.iter().any(|word| rest.starts_with(word)));
    let shows_another_crates = begins(&["use maple_"]);
    shows_another_crates
        || begins(&["fn ", "const "])
        || item == line && begins(&["struct ", "enum ", "trait ", "type "])
}

/// Returns all files in a folder and the folders in it.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

/// Returns all public items, each with the lines before it that are about it.
fn public_items() -> Vec<(String, Vec<String>)> {
    let mut items = Vec::new();
    for path in files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src")) {
        // The prelude has nothing of its own.
        if path.extension().is_none_or(|extension| extension != "rs") || path.ends_with("prelude.rs") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let text = text.split("#[cfg(test)]").next().unwrap();
        let mut about = Vec::new();
        for line in text.lines() {
            let trimmed = line.trim_start();
            if is_public_item(line) {
                let item = format!("{}: {trimmed}", path.file_name().unwrap().to_string_lossy());
                items.push((item, std::mem::take(&mut about)));
            } else if ["///", "#[", "$(#["].iter().any(|start| trimmed.starts_with(start)) {
                about.push(trimmed.to_owned());
            } else {
                about.clear();
            }
        }
    }
    assert!(items.len() > 140, "only {} items were found: does this test read the right files?", items.len());
    items
}

/// Returns the public items about which this does not hold.
fn items_without(holds: impl Fn(&[String]) -> bool) -> Vec<String> {
    public_items().into_iter().filter(|(_, about)| !holds(about)).map(|(item, _)| item).collect()
}

#[test]
fn every_public_item_has_an_example() {
    let without = items_without(|about| about.iter().any(|line| line.starts_with("/// ```")));
    assert!(without.is_empty(), "without an example: {without:#?}");
}

/// A list of items shows the first sentence of each, and nothing if an example is first.
#[test]
fn every_public_item_begins_with_a_sentence() {
    let without = items_without(|about| about.first().is_some_and(|line| !line.starts_with("/// ```")));
    assert!(without.is_empty(), "without a first sentence: {without:#?}");
}
