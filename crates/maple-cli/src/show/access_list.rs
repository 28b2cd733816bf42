//! `maple show access-list`: the rules of access lists in their order, with the packets that each has decided.

use std::fmt::Write as _;

use anyhow::bail;
use serde_json::Value;

use super::{items, plain, retain};

/// Keeps the lists of a file, named in full or by the end of its name.
///
/// # Errors
/// If the answer has lists, but none of this file.
pub(super) fn choose(answer: &mut Value, file: Option<&str>) -> anyhow::Result<()> {
    let Some(file) = file else { return Ok(()) };
    let is_of_file = |list: &Value| {
        let name = plain(&list["file"]);
        name == file || name.ends_with(&format!("/{file}"))
    };
    if !items(answer).any(is_of_file) {
        let known: Vec<String> = items(answer).map(|list| plain(&list["file"])).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        bail!("the policy that runs has no access list of {file}; its lists: {known}");
    }
    retain(answer, is_of_file);
    Ok(())
}

/// Writes the lists for people.
pub(super) fn text(answer: &Value) -> String {
    if items(answer).next().is_none() {
        return "the policy that runs has no access lists\n".to_owned();
    }
    items(answer).map(list).collect::<Vec<String>>().join("\n")
}

fn list(list: &Value) -> String {
    let mut text = format!("{}\n{:>12}  {:>5}  {:6}  rule\n", plain(&list["file"]), "packets", "line", "says");
    for rule in items(&list["rules"]) {
        let written = match rule["text"].as_str() {
            Some(text) if plain(&rule["rule"]).starts_with("rule") => text.trim().to_owned(),
            _ => plain(&rule["rule"]),
        };
        let line = rule["line"].as_u64().map_or_else(String::new, |line| line.to_string());
        let (packets, action) = (plain(&rule["packets"]), plain(&rule["action"]));
        let _ = writeln!(text, "{packets:>12}  {line:>5}  {action:6}  {written}");
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answer() -> Value {
        let rule = |rule: &str, action: &str, packets: u64, line: u64, text: Option<&str>| json!({ "rule": rule, "action": action, "packets": packets, "line": line, "text": text });
        json!([{
            "file": "/etc/maple/a.yaml",
            "rules": [
                rule("rule web (/etc/maple/a.yaml:7)", "allow", 1204, 7, Some("  - {name: web, action: allow}")),
                rule("rule (/etc/maple/a.yaml:8)", "deny", 0, 8, None),
                rule("`default: deny` of /etc/maple/a.yaml", "deny", 3, 2, Some("default: deny")),
            ],
        }])
    }

    #[test]
    fn rules_are_reported_in_their_order_with_what_they_decided() {
        let expected = "\
/etc/maple/a.yaml
     packets   line  says    rule
        1204      7  allow   - {name: web, action: allow}
           0      8  deny    rule (/etc/maple/a.yaml:8)
           3      2  deny    `default: deny` of /etc/maple/a.yaml
";
        assert_eq!(text(&answer()), expected);
        assert_eq!(text(&json!([])), "the policy that runs has no access lists\n");
    }

    #[test]
    fn a_file_is_named_by_the_end_of_its_name() {
        for file in ["a.yaml", "maple/a.yaml", "/etc/maple/a.yaml"] {
            let mut all = answer();
            choose(&mut all, Some(file)).expect("it is there");
            assert_eq!(all, answer());
        }
        for file in ["b.yaml", "aple/a.yaml"] {
            let error = choose(&mut answer(), Some(file)).expect_err("there is none").to_string();
            assert_eq!(
                error,
                format!("the policy that runs has no access list of {file}; its lists: /etc/maple/a.yaml")
            );
        }
    }
}
