//! Every public item of the library has an example. That examples run is what their own tests show.

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

#[test]
fn every_public_item_has_an_example() {
    let (mut items, mut without) = (0, Vec::new());
    for path in files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src")) {
        // The prelude has nothing of its own.
        if path.extension().is_none_or(|extension| extension != "rs") || path.ends_with("prelude.rs") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let text = text.split("#[cfg(test)]").next().unwrap();
        let mut has_example = false;
        for line in text.lines() {
            let trimmed = line.trim_start();
            if is_public_item(line) {
                items += 1;
                if !has_example {
                    without.push(format!("{}: {trimmed}", path.file_name().unwrap().to_string_lossy()));
                }
            }
            let is_about_the_next =
                trimmed.starts_with("///") || trimmed.starts_with("#[") || trimmed.starts_with("$(#[");
            has_example = is_about_the_next && (has_example || trimmed.starts_with("/// ```"));
        }
    }
    assert!(items > 140, "only {items} items were found: does this test read the right files?");
    assert!(without.is_empty(), "without an example: {without:#?}");
}
