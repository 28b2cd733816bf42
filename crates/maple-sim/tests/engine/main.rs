//! Text scripts for the engine: events in a small network, and the messages that switches get.
//!
//! `README.md` beside this file explains the language of the scripts, which are the files in `scripts/`.
//! `MAPLE_BLESS=1 cargo test -p maple-sim --test engine` rewrites what they print.

mod packet;
mod policy;
mod stage;

use std::path::{Path, PathBuf};

/// The line between the events and the results.
const END: &str = "----\n";

#[test]
fn scripts_print_what_they_say() {
    let paths = scripts();
    assert!(paths.len() >= 12, "{paths:?}");
    for path in paths {
        let text = std::fs::read_to_string(&path).expect("a script can be read");
        let (script, wanted) = text.split_once(END).unwrap_or((&text, ""));
        let printed = stage::play(script).unwrap_or_else(|error| panic!("{}:{error}", path.display()));
        if std::env::var_os("MAPLE_BLESS").is_some() {
            std::fs::write(&path, format!("{script}{END}{printed}")).expect("a script can be written");
        } else if printed != wanted {
            let lines = difference(wanted, &printed);
            panic!("{}: prints something else (MAPLE_BLESS=1 writes it anew)\n{lines}", path.display());
        }
    }
}

#[test]
fn a_wrong_script_names_its_line() {
    let network = "switch 1 ports 4\nhost a at 1:3\nhost b at 1:4\n";
    for (script, error) in [
        ("swich 1 ports 4", "1: \"swich\" is no step"),
        ("switch one ports 4", "1: \"one\" is not a number"),
        ("switch 1\n\nlink 1:1", "1: expected switch NUMBER ports NUMBER"),
        ("host a at 1:3\nhost b at 7", "2: \"7\" is no SWITCH:PORT"),
        ("when tcp_dst = 22 drop", "1: expected when TEST: ROUTE"),
        ("when tcp_port = 22: drop", "1: \"tcp_port\" is not a field"),
        ("when tcp_dst = 70000: drop", "1: \"70000\" is not a value of tcp_dst"),
        ("otherwise: teleport", "1: \"teleport\" is no route"),
        ("packet a b tcp 80", "1: there is no host \"a\""),
        ("otherwise: drop\nstart\nshow 9", "3: there is no switch 9"),
        ("packet a b sctp 80", "4: \"sctp\" is no kind of packet"),
    ] {
        let whole = if script.starts_with("packet a b s") { format!("{network}{script}") } else { script.to_owned() };
        assert_eq!(stage::play(&whole).expect_err(script), error, "{script}");
    }
}

/// Returns the files in `scripts/`, in order.
fn scripts() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/engine/scripts");
    let files = std::fs::read_dir(&folder).expect("the scripts are there");
    let mut paths: Vec<_> = files.map(|file| file.expect("the folder can be read").path()).collect();
    paths.sort();
    paths
}

/// Returns the lines that are missing (`-`) and those that are new (`+`), between lines that agree.
fn difference(wanted: &str, printed: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (wanted.lines().collect(), printed.lines().collect());
    // The length, for each position, of the longest common part of the remaining lines.
    let mut common = vec![vec![0u32; new.len() + 1]; old.len() + 1];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i][j] =
                if old[i] == new[j] { common[i + 1][j + 1] + 1 } else { common[i + 1][j].max(common[i][j + 1]) };
        }
    }
    let (mut i, mut j, mut lines) = (0, 0, Vec::new());
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            lines.push(format!("  {}", old[i]));
            (i, j) = (i + 1, j + 1);
        } else if j == new.len() || i < old.len() && common[i + 1][j] >= common[i][j + 1] {
            lines.push(format!("- {}", old[i]));
            i += 1;
        } else {
            lines.push(format!("+ {}", new[j]));
            j += 1;
        }
    }
    lines.join("\n")
}
