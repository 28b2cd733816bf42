//! `maple show history`: who changed the policy, tables and variables, and when.

use std::time::{Duration, UNIX_EPOCH};

use maple_controller::log::printable_lines;
use maple_controller::timestamp;
use serde_json::Value;

use super::{items, plain, retain};

/// The changes to show.
pub struct Chosen<'a> {
    pub who: Option<&'a str>,
    /// The table or the variable.
    pub of: Option<&'a str>,
    pub policies: bool,
    /// The maximum number of changes, the newest ones.
    pub last: usize,
}

impl Chosen<'_> {
    /// Keeps the chosen changes of an answer.
    pub fn choose(&self, answer: &mut Value) {
        retain(answer, |change| {
            self.who.is_none_or(|who| change["who"] == who)
                && self.of.is_none_or(|name| change["table"] == name || change["var"] == name)
                && (!self.policies || !change["policy"].is_null())
        });
        if let Some(changes) = answer.as_array_mut() {
            changes.drain(..changes.len().saturating_sub(self.last));
        }
    }
}

/// Writes a line for each change. Whoever chose what is in it, it is one line, without control characters.
pub fn text(answer: &Value) -> String {
    items(answer).map(|change| printable_lines(&line(change).replace('\n', "\\n")) + "\n").collect()
}

fn line(change: &Value) -> String {
    let time = UNIX_EPOCH + Duration::from_millis(change["time"].as_u64().unwrap_or_default());
    let by = plain(&change["by"]);
    let by = if change["kind"] == "process" { format!("{} by {by}", plain(&change["who"])) } else { by };
    let time = timestamp(time);
    if let Some(policy) = change["policy"].as_str() {
        let hash: String = plain(&change["hash"]).chars().take(12).collect();
        return format!("{time} {by}: {} of {policy} ({hash})", plain(&change["what"]));
    }
    let place = match change["table"].as_str() {
        Some(table) => format!("{table}[{}]", value(&change["key"])),
        None => plain(&change["var"]),
    };
    let was = if change["old"].is_null() { "nothing".to_owned() } else { value(&change["old"]) };
    let is = if change["what"] == "delete" { "deleted".to_owned() } else { value(&change["new"]) };
    format!("{time} {by}: {place} = {is}, was {was}")
}

/// Returns a value without quotes and without the name of its type.
fn value(value: &Value) -> String {
    match value {
        Value::Object(members) if members.len() == 1 && members.contains_key("long") => "(long)".to_owned(),
        Value::Object(members) if members.len() == 1 => members.values().map(plain).collect(),
        other => plain(other),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_line_says_who_changed_what() {
        let mut changes = json!([
            { "time": 1000, "who": "the start", "kind": "start", "by": "the start", "what": "start",
              "policy": "/p.py", "hash": "0123456789abcdef" },
            { "time": 1500, "who": "ann", "kind": "client", "by": "ann over HTTP", "what": "set", "table": "blocked",
              "key": { "mac": "00:00:00:00:00:07" }, "old": null, "new": true, "policy": null },
            { "time": 2000, "who": "root", "kind": "process", "by": "`maple state delete` (pid 42)", "what": "delete",
              "table": null, "var": "mode", "key": null, "old": { "long": true }, "new": null, "policy": null },
        ]);
        let lines = "1970-01-01T00:00:01.000Z the start: start of /p.py (0123456789ab)\n\
                     1970-01-01T00:00:01.500Z ann over HTTP: blocked[00:00:00:00:00:07] = true, was nothing\n\
                     1970-01-01T00:00:02.000Z root by `maple state delete` (pid 42): mode = deleted, was (long)\n";
        assert_eq!(text(&changes), lines);
        let chosen = |who, of, policies, last, changes: &Value| {
            let mut some = changes.clone();
            Chosen { who, of, policies, last }.choose(&mut some);
            some.as_array().map(Vec::len)
        };
        assert_eq!(chosen(None, None, false, 2, &changes), Some(2));
        assert_eq!(chosen(Some("ann"), None, false, 9, &changes), Some(1));
        assert_eq!(chosen(Some("bob"), None, false, 9, &changes), Some(0));
        assert_eq!(chosen(None, Some("mode"), false, 9, &changes), Some(1));
        Chosen { who: None, of: None, policies: true, last: 9 }.choose(&mut changes);
        assert_eq!(changes[0]["who"], "the start");
    }

    #[test]
    fn no_value_makes_a_line_or_moves_the_cursor() {
        let forged = "x\n1970-01-01T00:00:01.000Z root: mode = night\u{1b}[1A";
        let change = json!([{ "time": 0, "who": "s", "kind": "client", "by": forged, "what": "set", "table": forged,
                              "key": { "str": forged }, "old": forged, "new": forged, "policy": null }]);
        let line = text(&change);
        assert_eq!(
            (line.lines().count(), line.matches('\n').count(), line.contains('\u{1b}')),
            (1, 1, false),
            "{line}"
        );
        assert_eq!(line.matches("x\\n1970").count(), 5, "{line}");
        let policy = json!([{ "time": 0, "kind": "file", "by": "f", "what": "start", "policy": "a\nb", "hash": "" }]);
        assert_eq!(text(&policy), "1970-01-01T00:00:00.000Z f: start of a\\nb ()\n");
    }
}
