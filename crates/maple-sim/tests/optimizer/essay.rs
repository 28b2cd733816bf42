//! The path from a packet to a flow-mod that `docs/algorithm.md` describes is in the code.

use std::path::Path;

const ESSAY: &str = "## One leaf, from packet to flow-mod";

/// Returns the files that the essay names, each with a function that the file should have.
fn functions(essay: &str) -> Vec<(String, String)> {
    let (mut file, mut functions) = (None, Vec::new());
    for code in essay.split('`').skip(1).step_by(2) {
        if code.ends_with(".rs") {
            file = Some(code.to_string());
        } else if code.chars().all(|c| c.is_ascii_lowercase() || c == '_') {
            let file = file.clone().expect("a file is named before its functions");
            functions.push((file, code.to_string()));
        }
    }
    functions
}

#[test]
fn each_function_that_the_essay_names_is_in_the_file_named_before_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = std::fs::read_to_string(root.join("docs/algorithm.md")).expect("the essay is there");
    let (_, after) = text.split_once(ESSAY).expect("the section is there");
    let essay = after.split("\n## ").next().unwrap_or_default();
    let functions = functions(essay);
    assert!(functions.len() > 30, "{functions:?}");
    for (file, function) in functions {
        let source = std::fs::read_to_string(root.join("crates/maple-core/src").join(&file));
        let source = source.unwrap_or_else(|error| panic!("{file}: {error}"));
        let is_there = ["(", "<"].iter().any(|next| source.contains(&format!("fn {function}{next}")));
        assert!(is_there, "{file} has no function `{function}`");
    }
}
