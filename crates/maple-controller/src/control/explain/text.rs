//! An explanation as text for people, made from its JSON.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use serde_json::Value;

use crate::names::Names;
use crate::time::timestamp;

/// The maximum number of characters of a source line that are shown. Chosen: with what stands before it, a line fits a
/// terminal.
const WIDEST: usize = 56;
/// The number of hex digits of a datapath id, and the digits that ids of small networks begin with.
const DPID_DIGITS: usize = 16;
const ZEROS: &str = "00000000";

/// Writes an explanation as text: a few lines, with names where there are some.
///
/// ```
/// use maple_controller::control::explain::to_text;
/// use maple_controller::names::Names;
/// use serde_json::json;
///
/// let answer = json!({
///     "packet": {"at": {"switch": "1", "port": 3}, "from": "00:00:00:00:00:01", "to": "00:00:00:00:00:02", "summary": "tcp"},
///     "verdict": "dropped", "line": {"file": "acl.py", "line": 12, "text": "return drop()"}, "steps": [], "hops": [],
/// });
/// assert!(to_text(&answer, &Names::new()).starts_with("00:00:00:00:00:01 (1:3) → 00:00:00:00:00:02  tcp  dropped by acl.py:12"));
/// ```
pub fn to_text(answer: &Value, names: &Names) -> String {
    short_ids(&names.in_text(&with_ids(answer)))
}

/// Shortens datapath ids to the form that people write: without leading zeros.
fn short_ids(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for word in text.split_inclusive(|c: char| !c.is_ascii_alphanumeric()) {
        let digits = word.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        if digits.len() == DPID_DIGITS && digits.starts_with(ZEROS) && digits.bytes().all(|c| c.is_ascii_hexdigit()) {
            match word.trim_start_matches('0') {
                // The id 0.
                rest if rest.len() == word.len() - DPID_DIGITS => out.push_str(&word[DPID_DIGITS - 1..]),
                rest => out.push_str(rest),
            }
        } else {
            out.push_str(word);
        }
    }
    out
}

/// Writes the explanation with ids as in JSON.
fn with_ids(answer: &Value) -> String {
    let mut out = String::new();
    if let Some(of) = answer.get("of_rule") {
        let _ = writeln!(out, "rule of switch {}: {}", plain(&of["switch"]), plain(&of["flow"]));
        let _ = writeln!(out, "  {}", plain(&of["why"]));
    }
    if answer.get("packet").is_none() {
        return out;
    }
    if let Some(time) = answer["time"].as_str() {
        let _ = writeln!(out, "at {time}");
    }
    if let Some(differs) = answer["differs"].as_str() {
        let _ = writeln!(out, "the replay is not what was recorded, from {differs}");
    }
    heading(answer, &mut out);
    for one in items(&answer["assumed"]) {
        let _ = writeln!(out, "  assumed: {}", plain(one));
    }
    steps(answer, &mut out);
    for one in items(&answer["violations"]) {
        let _ = writeln!(out, "  refused by {}: {}", plain(&one["constraint"]), plain(&one["why"]));
    }
    for why in answer["why"].as_str().into_iter().flat_map(str::lines) {
        let _ = writeln!(out, "  {why}");
    }
    exits(answer, &mut out);
    instead(answer, &mut out);
    network(answer, &mut out);
    for file in items(&answer["changed_files"]) {
        let _ =
            writeln!(out, "  {} has been written since the policy was loaded: its lines are not shown", plain(file));
    }
    out
}

/// Writes the sender, the receiver, and what becomes of the packet.
fn heading(answer: &Value, out: &mut String) {
    let packet = &answer["packet"];
    let to_at = packet.get("to_at").filter(|at| !at.is_null()).map(|at| format!(" ({})", place(at)));
    let by = match answer["line"].get("file") {
        Some(_) if answer["verdict"] == "failed" => format!(" after {}", line(&answer["line"])),
        Some(_) => format!(" by {}", line(&answer["line"])),
        None => String::new(),
    };
    let verdict = match plain(&answer["verdict"]) {
        waits if waits == "waits" => "waits until something that the policy read changes".to_owned(),
        verdict => verdict,
    };
    let _ = writeln!(
        out,
        "{} ({}) → {}{}  {}  {verdict}{by}",
        plain(&packet["from"]),
        place(&packet["at"]),
        plain(&packet["to"]),
        to_at.unwrap_or_default(),
        plain(&packet["summary"]),
    );
}

/// Writes the questions of f line by line, and the line that decided.
fn steps(answer: &Value, out: &mut String) {
    let mut rows: Vec<[String; 3]> = Vec::new();
    let mut before = None;
    for one in items(&answer["steps"]) {
        let at = line(&one["line"]);
        let (first, text) = if before.as_ref() == Some(&at) {
            (String::new(), String::new())
        } else {
            (at.clone(), source_text(&one["line"]))
        };
        let evidence = one.get("evidence").map(|value| format!(" ({})", plain(value))).unwrap_or_default();
        let written = one.get("written").map(|last| format!("  {}", written(last))).unwrap_or_default();
        let asked = format!("{}: {}{evidence}{written}", plain(&one["asked"]), plain(&one["answer"]));
        rows.push([first, text, asked]);
        before = Some(at);
    }
    let decided = line(&answer["line"]);
    if before.as_ref() != Some(&decided) && answer["line"].get("text").is_some() {
        rows.push([decided, source_text(&answer["line"]), String::new()]);
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let (first, second) = (width(0), width(1));
    for [at, text, asked] in &rows {
        let row = format!("  {at:first$}  {text:second$}  {asked}");
        let _ = writeln!(out, "{}", row.trim_end());
    }
}

/// Writes when and by whom something was written last.
pub fn written(last: &Value) -> String {
    let Some(by) = last["by"].as_str() else { return "written by an unknown writer".to_owned() };
    let at = SystemTime::UNIX_EPOCH + Duration::from_millis(last["at"].as_u64().unwrap_or_default());
    format!("written {} by {by}", timestamp(at))
}

/// Returns the text of a source line, cut at [`WIDEST`] characters.
fn source_text(line: &Value) -> String {
    let text = line.get("text").map(plain).unwrap_or_default();
    match text.char_indices().nth(WIDEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// Writes where copies leave by f's decision.
fn exits(answer: &Value, out: &mut String) {
    for one in items(&answer["exits"]) {
        let hosts: Vec<String> = items(&one["hosts"]).map(plain).collect();
        let to = if hosts.is_empty() { String::new() } else { format!(" to {}", hosts.join(", ")) };
        let rewrites: Vec<String> = items(&one["rewrites"]).map(plain).collect();
        let with = if rewrites.is_empty() { String::new() } else { format!(" with {}", rewrites.join(", ")) };
        let _ = writeln!(out, "  leaves by {}{to}{with}", place(&one["at"]));
    }
}

fn instead(answer: &Value, out: &mut String) {
    let passes = |one: &&Value| one["verdict"] == "forwarded";
    let is_forwarded = answer["verdict"] == "forwarded";
    let others = items(&answer["instead"]).filter(|one| passes(one) != is_forwarded);
    let others: Vec<String> = others.map(|one| plain(&one["if"])).collect();
    if !others.is_empty() {
        let what = if is_forwarded { "would be dropped" } else { "would pass" };
        let _ = writeln!(out, "  {what} if: {}", others.join("; or "));
    }
}

/// Writes what the switches do with the packet.
fn network(answer: &Value, out: &mut String) {
    for hop in items(&answer["hops"]) {
        let switch = plain(&hop["at"]["switch"]);
        for rule in items(&hop["rules"]) {
            let whose = if rule["foreign"] == Value::Bool(true) { "rule of others" } else { "rule" };
            let count = rule["n_packets"].as_u64().map(|count| format!("  n_packets {count}")).unwrap_or_default();
            let matching = Some(plain(&rule["match"])).filter(|text| !text.is_empty());
            let _ = writeln!(
                out,
                "  {whose}  switch {switch} table {} priority {}{} actions={}  cookie {}{count}",
                plain(&rule["table"]),
                plain(&rule["priority"]),
                matching.map(|text| format!(" {text}")).unwrap_or_default(),
                plain(&rule["actions"]),
                plain(&rule["cookie"]),
            );
        }
        for outcome in items(&hop["outcomes"]) {
            if outcome.get("expired").is_some() {
                let _ = writeln!(out, "  switch {switch} drops it: its time to live has run out");
            }
            if let Some(action) = outcome.get("elsewhere") {
                let _ = writeln!(out, "  switch {switch} does what is not followed here: {}", plain(action));
            }
        }
        if items(&hop["outcomes"]).next().is_none() && !hop["missed_in_table"].is_null() {
            let _ = writeln!(out, "  switch {switch} drops it: no rule in table {}", plain(&hop["missed_in_table"]));
        }
    }
    for one in items(&answer["lost"]) {
        let _ = writeln!(out, "  lost at {}: {}", place(&one["at"]), plain(&one["why"]));
    }
    if answer["has_loop"] == Value::Bool(true) {
        let _ = writeln!(out, "  it goes in a loop");
    }
    if answer["leaf"]["made_up"] == true {
        let _ = writeln!(out, "  it was decided before such a packet came");
    }
    state_of_rules(answer, out);
}

/// Writes whether the switches do what f decides, and if not, why.
fn state_of_rules(answer: &Value, out: &mut String) {
    let under_way = answer["leaf"]["under_way"].as_str();
    let foreign = items(&answer["hops"]).flat_map(|hop| items(&hop["rules"])).any(|rule| rule["foreign"] == true);
    let text = match (answer["agrees"].as_bool(), under_way) {
        _ if answer["verdict"] == "refused" => return,
        (Some(true), None) => return,
        (Some(true), Some(_)) => return,
        (_, Some(text)) => text.to_owned(),
        (Some(false), None) if foreign => {
            "a rule of others takes the packet: the network does not do what the policy says".to_owned()
        }
        (Some(false), None) => "the network does not do what the policy says".to_owned(),
        (None, None) if answer["lasts"] == Value::Bool(false) => {
            let why = match items(&answer["steps"]).filter(|step| step["asked"] == "wrote").last() {
                Some(step) => format!("the policy writes for it ({})", line(&step["line"])),
                None => "no rule can do what the policy does".to_owned(),
            };
            format!("each such packet comes to the controller, because {why}")
        }
        (None, None) if answer["leaf"].is_null() => {
            "the network has no rule for it yet: the next such packet goes to the controller, which decides as above"
                .to_owned()
        }
        (None, None) => "such packets go through the controller".to_owned(),
    };
    let _ = writeln!(out, "  {text}");
}

/// Returns a line such as `acl.py:12`, after the tier that it is in. A file's folder is left out.
fn line(line: &Value) -> String {
    let Some(file) = line["file"].as_str() else { return String::new() };
    let name = file.rsplit('/').next().unwrap_or(file);
    let tier = line["tier"].as_str().map(|tier| format!("{tier}: ")).unwrap_or_default();
    format!("{tier}{name}:{}", line["line"])
}

fn place(at: &Value) -> String {
    format!("{}:{}", plain(&at["switch"]), plain(&at["port"]))
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Returns text without quotes, and numbers as they are.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "?".into(),
        other => other.to_string(),
    }
}
