//! `maple show time`: what the network was at a moment, and what changed between two.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use maple_controller::control::socket::{Show, TimeSpan};
use maple_controller::timestamp;
use maple_wire::counted;
use serde_json::Value;

use super::{items, location, plain};
use crate::moment;

/// Returns the question for the moments that a user wrote.
///
/// # Errors
/// If one of them is not a moment.
pub fn question(at: Option<&str>, from: Option<&str>, to: Option<&str>) -> anyhow::Result<Show> {
    let now = SystemTime::now();
    let read = |text: Option<&str>| -> anyhow::Result<Option<u64>> {
        let moment = text.map(|text| moment::before(text, now)).transpose()?;
        Ok(moment.map(|moment| moment.as_millis() as u64))
    };
    Ok(match (at, from) {
        (Some(at), _) => Show::TimeAt(read(Some(at))?),
        (None, Some(from)) => Show::TimeChanges(TimeSpan { from: read(Some(from))?, to: read(to)? }),
        (None, None) => Show::Time,
    })
}

/// Writes which moments are kept.
pub fn overview(answer: &Value) -> String {
    let mut text = match (answer["from"].as_u64(), answer["to"].as_u64()) {
        (Some(from), Some(to)) => format!("kept from {} to {}", clock(from), clock(to)),
        _ => match answer["trouble"].as_str() {
            Some(why) => return format!("nothing is kept yet: {why}\n"),
            None => return "nothing is kept yet\n".to_owned(),
        },
    };
    let place = if answer["in_files"] == true { "in files" } else { "in memory" };
    let megabytes = |name: &str| answer[name].as_u64().unwrap_or_default() as f64 / 1e6;
    let _ = writeln!(text, ", {place}: {:.1} of {:.0} MB", megabytes("bytes"), megabytes("most_bytes"));
    if let Some(folder) = answer["recording"].as_str() {
        let _ = writeln!(text, "recorded in {folder}: maple replay runs it again exactly");
    }
    text + &gaps(answer)
}

/// Writes the network at a moment.
pub fn moment(answer: &Value) -> String {
    let sum = |name: &str, one: &str| counted(items(&answer[name]).count(), one);
    let mut text = format!(
        "{}: {}, {}, {}\n",
        clock(number(answer, "time")),
        sum("switches", "switch"),
        sum("links", "link"),
        sum("hosts", "host")
    );
    for (name, what) in [
        ("pending", "not shown as they were: too much had changed at once"),
        ("not_kept", "not kept: there were more than are followed"),
        ("unseen", "shown as an earlier run knew them"),
    ] {
        if number(answer, name) > 0 {
            let _ = writeln!(text, "{} of the network: {what}", counted(number(answer, name), "part"));
        }
    }
    if answer["late"] == true {
        text.push_str("a worker did not answer in time, so what is shown of its switches may be older\n");
    }
    for switch in items(&answer["switches"]) {
        let state = if switch["connected"] == true { "connected" } else { "not connected" };
        let _ = writeln!(
            text,
            "switch {}: {state}, {}",
            plain(&switch["switch"]),
            counted(number(switch, "hosts"), "host")
        );
    }
    for link in items(&answer["links"]) {
        let _ = writeln!(text, "link {}", ends(link));
    }
    for host in items(&answer["hosts"]) {
        let _ = writeln!(text, "host {} at {}{}", plain(&host["mac"]), location(&host["at"]), addresses(host));
    }
    text
}

/// Writes which command shows the network at a moment exactly, if there is one.
pub fn exactly(answer: &Value) -> String {
    let line = |command| format!("exactly, with the number of rules: {command}\n");
    answer["replay"].as_str().map(line).unwrap_or_default()
}

/// Writes what changed between two moments, and what happened.
pub fn changes(answer: &Value) -> String {
    let mut text =
        format!("from {} to {}\n{}", clock(number(answer, "from")), clock(number(answer, "to")), gaps(answer));
    let before = text.len();
    for switch in items(&answer["switches"]) {
        let _ = writeln!(text, "switch {}: {}", plain(&switch["switch"]), plain(&switch["how"]));
    }
    for link in items(&answer["links"]) {
        let _ = writeln!(text, "link {}: {}", ends(link), plain(&link["how"]));
    }
    for port in items(&answer["ports"]) {
        let state = |port: &Value| {
            let up = if port["up"] == true { "up" } else { "down" };
            if port.is_null() { "not there".to_owned() } else { format!("{up}, {}", plain(&port["kind"])) }
        };
        let (was, is) = (state(&port["before"]), state(&port["after"]));
        let _ = writeln!(text, "port {}: {}, was {was}, is {is}", location(port), plain(&port["how"]));
    }
    for host in items(&answer["hosts"]) {
        let place = |host: &Value| match &host["at"] {
            Value::Null => "nowhere".to_owned(),
            at => format!("{}{}", location(at), addresses(host)),
        };
        let (was, is) = (place(&host["before"]), place(&host["after"]));
        let _ = writeln!(text, "host {}: {}, was at {was}, is at {is}", plain(&host["mac"]), plain(&host["how"]));
    }
    if text.len() == before {
        text.push_str("nothing has changed\n");
    }
    for drops in items(&answer["drops"]) {
        let (packets, switch) = (counted(number(drops, "packets"), "packet"), plain(&drops["switch"]));
        let line = drops["line"].as_str().map(|line| format!(" {line}")).unwrap_or_default();
        let why = lines_of_one(&plain(&drops["why"]));
        let _ = writeln!(text, "dropped {packets} at switch {switch}:{line} {why}");
    }
    if number(answer, "other_drops") > 0 {
        let _ = writeln!(text, "dropped {} for further reasons", counted(number(answer, "other_drops"), "packet"));
    }
    for line in items(&answer["lines"]) {
        let said = lines_of_one(&plain(&line["text"]));
        let (level, area) = (plain(&line["level"]), plain(&line["area"]));
        let _ = writeln!(text, "{} {level} {area}: {said}", clock(number(line, "time")));
    }
    if number(answer, "left_out") > 0 {
        let _ = writeln!(text, "{} left out", counted(number(answer, "left_out"), "further event"));
    }
    text
}

/// Writes of which times not everything is kept.
fn gaps(answer: &Value) -> String {
    let gap = |gap: &Value| {
        let (from, to) = (clock(number(gap, "from")), clock(number(gap, "to")));
        format!("not everything is kept from {from} to {to}: {}\n", plain(&gap["text"]))
    };
    items(&answer["gaps"]).map(gap).collect()
}

/// Indents what follows the first line of a text, so that none of its lines passes for another one of the answer.
fn lines_of_one(text: &str) -> String {
    text.trim_end().replace('\n', "\n    ")
}

fn ends(link: &Value) -> String {
    format!("{} - {}", location(&link["from"]), location(&link["to"]))
}

fn addresses(host: &Value) -> String {
    items(&host["ipv4"]).chain(items(&host["ipv6"])).map(|address| format!(" {}", plain(address))).collect()
}

fn number(value: &Value, name: &str) -> u64 {
    value[name].as_u64().unwrap_or_default()
}

fn clock(milliseconds: u64) -> String {
    timestamp(UNIX_EPOCH + Duration::from_millis(milliseconds))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const AT: u64 = 1_000;

    #[test]
    fn the_moments_of_a_question_are_read() {
        assert_eq!(question(None, None, None).expect("none"), Show::Time);
        let second = question(Some("1970-01-01T00:00:01Z"), None, None);
        assert_eq!(second.expect("a moment"), Show::TimeAt(Some(1000)));
        let span = question(None, Some("1970-01-01T00:00:01Z"), None).expect("a span");
        assert_eq!(span, Show::TimeChanges(TimeSpan { from: Some(1000), to: None }));
        assert!(question(Some("soon"), None, None).is_err());
    }

    #[test]
    fn a_moment_and_what_is_not_sure_of_it_are_reported() {
        let answer = json!({
            "time": AT, "version": 7, "pending": 2, "not_kept": 0, "unseen": 1, "late": false,
            "replay": "maple replay r --until T --network",
            "switches": [{ "switch": "1", "name": null, "connected": false, "hosts": 1 }],
            "links": [{ "from": { "switch": "1", "port": 2 }, "to": { "switch": "2", "port": 3 } }],
            "hosts": [{ "mac": "m", "at": { "switch": "1", "port": 4 }, "ipv4": ["10.0.0.1"], "ipv6": [] }],
        });
        let expected = "1970-01-01T00:00:01.000Z: 1 switch, 1 link, 1 host\n\
                        2 parts of the network: not shown as they were: too much had changed at once\n\
                        1 part of the network: shown as an earlier run knew them\n\
                        switch 1: not connected, 1 host\nlink 1:2 - 2:3\nhost m at 1:4 10.0.0.1\n";
        assert_eq!(moment(&answer), expected);
        assert_eq!(exactly(&answer), "exactly, with the number of rules: maple replay r --until T --network\n");
        assert_eq!(exactly(&json!({ "replay": null })), "");
    }

    #[test]
    fn changes_and_events_are_printed_and_further_lines_of_a_text_are_indented() {
        let place = |port: u64| json!({ "switch": "1", "port": port });
        let host = |port: u64| json!({ "mac": "m", "at": place(port), "ipv4": [], "ipv6": [] });
        let nothing = json!({
            "from": AT, "to": 2 * AT, "gaps": [], "switches": [], "links": [], "ports": [], "hosts": [], "drops": [],
            "other_drops": 0, "lines": [], "left_out": 0,
        });
        let head = "from 1970-01-01T00:00:01.000Z to 1970-01-01T00:00:02.000Z\n";
        assert_eq!(changes(&nothing), format!("{head}nothing has changed\n"));
        let mut all = nothing;
        all["gaps"] = json!([{ "from": AT, "to": AT + 1, "why": "stopped", "text": "the controller did not run" }]);
        all["switches"] = json!([{ "switch": "1", "how": "unreachable" }]);
        all["links"] = json!([{ "from": place(1), "to": place(2), "how": "gone" }]);
        all["ports"] = json!([{ "switch": "1", "port": 1, "how": "down",
                                "before": { "up": true, "kind": "edge" }, "after": null }]);
        all["hosts"] = json!([{ "mac": "m", "how": "moved", "before": host(3), "after": host(4) }]);
        all["drops"] = json!([{ "packets": 5, "switch": "1", "line": "acl.py:3", "why": "KeyError:\nmac\n" }]);
        all["lines"] = json!([{ "number": 1, "time": AT, "level": "error", "area": "run", "text": "a\nb" }]);
        all["left_out"] = 3.into();
        let expected = format!(
            "{head}not everything is kept from 1970-01-01T00:00:01.000Z to 1970-01-01T00:00:01.001Z: the controller did not \
             run\nswitch 1: unreachable\nlink 1:1 - 1:2: gone\nport 1:1: down, was up, edge, is not there\nhost m: moved, was \
             at 1:3, is at 1:4\ndropped 5 packets at switch 1: acl.py:3 KeyError:\n    mac\n"
        );
        let reported = changes(&all);
        assert!(reported.starts_with(&expected), "{reported}");
        assert!(reported.ends_with("3 further events left out\n"), "{reported}");
        assert!(reported.contains("error run: a\n    b"), "{reported}");
    }

    #[test]
    fn the_overview_reports_the_period_that_is_kept_and_why_nothing_is_kept() {
        let mut answer = json!({ "from": AT, "to": 2 * AT, "gaps": [], "in_files": true, "bytes": 1_250_000,
                                 "most_bytes": 48_000_000, "rates": [], "recording": null, "trouble": null });
        let kept = "kept from 1970-01-01T00:00:01.000Z to 1970-01-01T00:00:02.000Z, in files: 1.2 of 48 MB\n";
        assert_eq!(overview(&answer), kept);
        answer["recording"] = "r/1".into();
        assert_eq!(overview(&answer), format!("{kept}recorded in r/1: maple replay runs it again exactly\n"));
        answer["from"] = Value::Null;
        assert_eq!(overview(&answer), "nothing is kept yet\n");
        answer["trouble"] = "it is read".into();
        assert_eq!(overview(&answer), "nothing is kept yet: it is read\n");
    }
}
