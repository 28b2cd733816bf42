//! The one door for the output of the command, which lets nothing pass that could control a terminal.

use std::path::{Path, PathBuf};

/// Texts of code that prints, or leads to where something can be printed.
const PRINTS: [&str; 8] = ["println!", "print!(", "eprintln!", "eprint!(", "dbg!(", "stdout()", "stderr()", "/dev/tty"];

/// Files that draw on a terminal of their own, with the reasons why that is safe.
const DRAW: [(&str, &str); 1] =
    [("console/screen.rs", "prints again what came through the door, above the line that is edited")];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("the folder is there") {
        let path = entry.expect("it can be read").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn only_one_file_prints() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut all = Vec::new();
    sources(&root, &mut all);
    assert!(all.len() > 50, "these are the sources: {all:?}");
    let (mut wrong, mut doors) = (Vec::new(), 0);
    for path in all {
        let name = path.strip_prefix(&root).expect("it is in there").to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).expect("it is text");
        let is_one = |line: &&str| {
            let code = line.split("//").next().unwrap_or_default();
            PRINTS.iter().any(|prints| code.contains(prints)) && !code.contains("output::")
        };
        let lines: Vec<&str> = text.lines().filter(is_one).collect();
        match (name.as_str(), lines.is_empty()) {
            ("output.rs", _) => doors += 1,
            (name, true) => assert!(DRAW.iter().all(|(file, _)| *file != name), "{name} draws nothing any more"),
            (name, false) if DRAW.iter().any(|(file, _)| *file == name) => {}
            (name, false) => wrong.push(format!("{name}: {}", lines.join(" | "))),
        }
    }
    assert_eq!(doors, 1);
    assert!(wrong.is_empty(), "these print past `output.rs`: {wrong:#?}");
}
