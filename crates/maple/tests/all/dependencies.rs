//! Dependencies of the library: who depends on it gets no command line, no emulator and no benchmark.

use std::process::Command;

const NOT_WANTED: [&str; 11] = [
    "anyhow",
    "clap",
    "ctrlc",
    "indicatif",
    "maple-bench",
    "maple-cli",
    "maple-emulator",
    "maple-lab",
    "maple-load",
    "plotters",
    "tracing-subscriber",
];

#[test]
fn the_library_pulls_in_nothing_of_the_command() {
    let tree =
        ["tree", "--package", "maple", "--edges", "normal", "--prefix", "none", "--format", "{lib}", "--offline"];
    let output = Command::new(env!("CARGO")).args(tree).current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let crates: Vec<String> = text.split_whitespace().map(|name| name.replace('_', "-")).collect();
    assert!(crates.iter().any(|name| name == "maple-core"), "cargo tree said:\n{text}");
    let found: Vec<&String> = crates.iter().filter(|name| NOT_WANTED.contains(&name.as_str())).collect();
    assert!(found.is_empty(), "maple depends on {found:?}");
}
