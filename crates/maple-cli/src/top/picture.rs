//! The picture of a reading: rates, and tables of text and numbers.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::time::{Duration, UNIX_EPOCH};

use maple_controller::names::Names;
use maple_controller::timestamp;
use maple_wire::counted;
use serde_json::Value;

use super::reading::Reading;
use crate::explain::dropped;
use crate::show::{items, location, plain, scaled, with_name};

/// The counters whose growth is shown, with what they are called.
const RATES: [(&str, &str); 6] = [
    ("of_packet_ins", "packet-ins"),
    ("hits", "packets with a decision"),
    ("misses", "decisions by the policy"),
    ("of_flow_mods", "flow-mods"),
    ("policy_errors", "failures of the policy"),
    ("of_shed", "packets shed"),
];
/// The number of rates that are kept, to show how they went. Chosen: five minutes, one a second, and more columns than
/// a terminal has.
const KEPT: usize = 300;

/// The picture of a controller.
#[derive(Debug, Default)]
pub struct Picture {
    /// The role and the load of the controller, in a line.
    pub head: String,
    pub rates: Vec<Rate>,
    pub tables: Vec<PictureTable>,
}

/// The growth of a counter over time.
#[derive(Clone, Debug, PartialEq)]
pub struct Rate {
    pub name: &'static str,
    /// A second; `None` if that is not known.
    pub rate: Option<f64>,
    pub total: u64,
}

/// A table of the picture.
#[derive(Debug)]
pub struct PictureTable {
    pub title: &'static str,
    pub columns: &'static [PictureColumn],
    pub rows: Vec<Vec<Cell>>,
    /// The text that is shown if there are no rows.
    pub none: &'static str,
}

/// A column of a table.
#[derive(Debug)]
pub struct PictureColumn {
    pub name: &'static str,
    /// The width, in characters; the widest ones share what is left.
    pub width: u16,
    pub is_number: bool,
}

/// A cell of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    Text(String),
    /// A number, and how it is written.
    Number(f64, String),
}

/// The latest values of rates.
#[derive(Debug, Default)]
pub struct Trends(Vec<VecDeque<u64>>);

const fn text(name: &'static str, width: u16) -> PictureColumn {
    PictureColumn { name, width, is_number: false }
}

const fn number(name: &'static str, width: u16) -> PictureColumn {
    PictureColumn { name, width, is_number: true }
}

const TALKERS: &[PictureColumn] = &[
    text("from", 24),
    text("to", 24),
    text("at", 8),
    number("bit/s", 8),
    number("packet/s", 8),
    number("bytes so far", 12),
];
const DROPS: &[PictureColumn] =
    &[number("packets", 8), number("latest", 8), text("line", 18), text("host", 26), text("why", 40)];
const ERRORS: &[PictureColumn] = &[text("time", 24), number("packets", 8), text("error", 60)];
const SWITCHES: &[PictureColumn] = &[
    text("switch", 16),
    text("state", 24),
    number("ports up", 8),
    number("ports", 8),
    number("links", 8),
    text("OpenFlow", 8),
    number("shard", 6),
    number("bytes waiting", 13),
];

impl Picture {
    /// Makes the picture of a reading. Rates are those since the reading before.
    pub fn new(now: &Reading, before: Option<&Reading>) -> Picture {
        let tables = vec![talkers(now), drops(now), errors(now), switches(now)];
        Picture { head: head(now), rates: rates(now, before), tables }
    }
}

impl PictureTable {
    /// Returns the rows that have each word of a filter in some cell, in the order of a column.
    pub fn chosen(&self, filter: &str, sort: Option<(usize, bool)>) -> Vec<&Vec<Cell>> {
        let words: Vec<String> = filter.split_whitespace().map(str::to_lowercase).collect();
        let has = |row: &[Cell], word: &str| row.iter().any(|cell| cell.text().to_lowercase().contains(word));
        let mut rows: Vec<&Vec<Cell>> =
            self.rows.iter().filter(|row| words.iter().all(|word| has(row, word))).collect();
        if let Some((column, descends)) = sort {
            rows.sort_by(|a, b| {
                let order = a[column].compare(&b[column]);
                if descends { order.reverse() } else { order }
            });
        }
        rows
    }
}

impl Cell {
    fn of(value: f64, written: impl Into<String>) -> Cell {
        Cell::Number(value, written.into())
    }

    fn count(value: &Value) -> Cell {
        Cell::of(value.as_f64().unwrap_or_default(), plain(value))
    }

    /// Returns the cell as it is written.
    pub fn text(&self) -> &str {
        match self {
            Cell::Text(text) | Cell::Number(_, text) => text,
        }
    }

    fn compare(&self, other: &Cell) -> Ordering {
        match (self, other) {
            (Cell::Number(a, _), Cell::Number(b, _)) => a.total_cmp(b),
            (a, b) => a.text().cmp(b.text()),
        }
    }
}

impl Trends {
    /// Adds the newest rates. Those that are not known are left out.
    pub fn add(&mut self, rates: &[Rate]) {
        self.0.resize_with(rates.len(), VecDeque::new);
        for (trend, rate) in self.0.iter_mut().zip(rates) {
            let Some(rate) = rate.rate else { continue };
            if trend.len() == KEPT {
                trend.pop_front();
            }
            trend.push_back(rate.round() as u64);
        }
    }

    /// Returns the newest rates of a counter, at most this many.
    pub fn newest(&self, of: usize, most: usize) -> Vec<u64> {
        let trend = self.0.get(of);
        trend.map(|trend| trend.iter().skip(trend.len().saturating_sub(most)).copied().collect()).unwrap_or_default()
    }
}

/// Describes the controller in a line.
fn head(now: &Reading) -> String {
    let is_down = |switch: &&Value| !switch["unreachable"].is_null();
    let (all, down) = (items(&now.switches).count(), items(&now.switches).filter(is_down).count());
    let down = if down > 0 { format!(", {down} down") } else { String::new() };
    let policy = now.controller["policy"]["name"].as_str();
    let policy = policy.map(|name| format!("policy {}, ", name.rsplit('/').next().unwrap_or(name))).unwrap_or_default();
    let rules = now.count("rules").unwrap_or_default();
    format!("{policy}{}{down}, {}", counted(all, "switch"), counted(rules, "rule"))
}

fn rates(now: &Reading, before: Option<&Reading>) -> Vec<Rate> {
    let seconds = before.map(|before| (now.at - before.at).as_secs_f64());
    let rate = |(counter, name): (&str, &'static str)| {
        let total = now.count(counter).unwrap_or_default();
        // A controller that was started again counts from zero.
        let grown = before.and_then(|before| total.checked_sub(before.count(counter)?));
        let rate = grown.zip(seconds.filter(|seconds| *seconds > 0.0)).map(|(grown, seconds)| grown as f64 / seconds);
        Rate { name, rate, total }
    };
    RATES.map(rate).into()
}

fn talkers(now: &Reading) -> PictureTable {
    let mut flows: Vec<&Value> = items(&now.flows).collect();
    let figure = |flow: &Value, name: &str| flow[name].as_f64().unwrap_or(f64::NEG_INFINITY);
    flows.sort_by(|a, b| {
        let by = |name: &str| figure(b, name).total_cmp(&figure(a, name));
        by("bits_per_second").then(by("bytes"))
    });
    let host = |flow: &Value, end: &str| match (flow[end].as_str(), &flow[format!("{end}_at")]) {
        (Some(mac), _) => now.names.in_text(mac),
        (None, Value::Null) => "any".to_owned(),
        (None, at) => format!("hosts at {}", now.names.in_text(&location(at))),
    };
    let row = |flow: &&Value| {
        // A rate is not known before a rule was counted twice. That is not 0, and less than that in order.
        let scale = |name: &str| match flow[name].as_f64() {
            Some(value) => Cell::of(value, scaled(value).trim_end()),
            None => Cell::of(f64::NEG_INFINITY, ""),
        };
        vec![
            Cell::Text(host(flow, "from")),
            Cell::Text(host(flow, "to")),
            Cell::Text(now.names.in_text(&plain(&flow["switch"]))),
            scale("bits_per_second"),
            scale("packets_per_second"),
            scale("bytes"),
        ]
    };
    let rows = flows.iter().map(row).collect();
    PictureTable { title: "talkers", columns: TALKERS, rows, none: "no rules have counted packets between hosts" }
}

fn drops(now: &Reading) -> PictureTable {
    let mut drops: Vec<&Value> = items(&now.drops).collect();
    drops.sort_by_key(|drop| std::cmp::Reverse(drop["packets"].as_u64()));
    let row = |drop: &&Value| {
        let line = drop["line"].as_str().unwrap_or("no source line");
        vec![
            Cell::count(&drop["packets"]),
            Cell::count(&drop["latest"]),
            Cell::Text(line.to_owned()),
            Cell::Text(dropped::sender(drop, &now.names)),
            Cell::Text(now.names.in_text(&dropped::reason(drop))),
        ]
    };
    let rows = drops.iter().map(row).collect();
    PictureTable { title: "drops", columns: DROPS, rows, none: "nothing was dropped in the last five minutes" }
}

fn errors(now: &Reading) -> PictureTable {
    let row = |error: &Value| {
        let time = UNIX_EPOCH + Duration::from_millis(error["time"].as_u64().unwrap_or_default());
        let packets = error["packets"].as_u64();
        vec![
            Cell::Text(timestamp(time)),
            Cell::of(packets.unwrap_or_default() as f64, packets.map(|count| count.to_string()).unwrap_or_default()),
            Cell::Text(plain(&error["text"])),
        ]
    };
    let mut rows: Vec<Vec<Cell>> = items(&now.errors).map(row).collect();
    rows.reverse();
    PictureTable { title: "errors", columns: ERRORS, rows, none: "nothing is wrong" }
}

fn switches(now: &Reading) -> PictureTable {
    let mut switches: Vec<&Value> = items(&now.switches).collect();
    // Those that are down come first.
    let is_well = |switch: &Value| switch["unreachable"].is_null() && switch["silent"] != true;
    switches.sort_by_key(|switch| is_well(switch));
    let rows = switches.iter().map(|switch| switch_row(switch, &now.names)).collect();
    PictureTable { title: "switches", columns: SWITCHES, rows, none: "no switch has connected" }
}

fn switch_row(switch: &Value, names: &Names) -> Vec<Cell> {
    let state = match switch["unreachable"].as_f64() {
        Some(seconds) => format!("DOWN for {seconds:.0} s"),
        None if switch["silent"] == true => "SILENT".to_owned(),
        None => format!("up, {}", plain(&switch["peer"])),
    };
    let is_up = |port: &&Value| port["up"] == true;
    let count = |count: usize| Cell::of(count as f64, count.to_string());
    let ports = || items(&switch["ports"]);
    vec![
        Cell::Text(with_name(names, &switch["switch"])),
        Cell::Text(state),
        count(ports().filter(is_up).count()),
        count(ports().count()),
        count(ports().filter(is_up).filter(|port| port["kind"] == "link").count()),
        Cell::Text(plain(&switch["version"])),
        Cell::count(&switch["shard"]),
        Cell::count(&switch["waiting_bytes"]),
    ]
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Instant;

    use serde_json::json;

    use super::*;

    /// Makes a reading at this many seconds, with this many packet-ins so far.
    pub fn reading(at: Instant, packet_ins: u64) -> Reading {
        let port = |up: bool, kind: &str| json!({ "port": 1, "name": "p", "up": up, "kind": kind });
        let switch = |dpid: &str, unreachable: Value| {
            json!({
                "switch": dpid, "peer": "10.0.0.9:4711", "unreachable": unreachable, "silent": false, "version": "1.3",
                "shard": 0, "waiting_bytes": 7, "ports": [port(true, "link"), port(true, "edge"), port(false, "edge")],
            })
        };
        let flow = |from: &str, bits: u64| {
            json!({
                "switch": "0000000000000001", "from": from, "from_at": null, "to": null,
                "to_at": { "switch": "0000000000000002", "port": 3 }, "packets": 9, "bytes": 12_345,
                "bits_per_second": bits, "packets_per_second": 10,
            })
        };
        Reading {
            at,
            names: Names::from_json(
                &json!({ "switches": [{ "name": "s1", "switch": "0000000000000001" }], "hosts": [] }),
            ),
            controller: json!({ "policy": { "name": "/etc/maple/acl.py" } }),
            stats: json!({ "controller": { "of_packet_ins": packet_ins, "of_flow_mods": 3 }, "engine": { "rules": 40, "misses": 5 } }),
            switches: json!([switch("0000000000000001", Value::Null), switch("0000000000000002", json!(12.3))]),
            flows: json!([flow("00:00:00:00:00:01", 1000), flow("00:00:00:00:00:02", 2_500_000)]),
            drops: json!([{
                "packets": 1234, "latest": 20, "switch": "1", "at": null, "host": null, "host_at": null,
                "line": "acl.py:12", "text": "return drop()", "why": "the policy drops it", "example": null,
            }]),
            errors: json!([{ "time": 1500, "text": "an old one" }, { "time": 2500, "text": "acl.py:9: KeyError", "packets": 3 }]),
        }
    }

    #[test]
    fn rates_are_those_between_two_readings_and_not_known_after_a_restart() {
        let start = Instant::now();
        let (first, second) = (reading(start, 100), reading(start + Duration::from_secs(2), 150));
        let rate = |now: &Reading, before| Picture::new(now, before).rates[0].rate;
        assert_eq!(rate(&second, Some(&first)), Some(25.0));
        assert_eq!(rate(&first, None), None);
        assert_eq!(rate(&reading(start + Duration::from_secs(3), 7), Some(&second)), None);
        let mut trends = Trends::default();
        for _ in 0..KEPT + 5 {
            trends.add(&Picture::new(&second, Some(&first)).rates);
        }
        assert_eq!((trends.newest(0, 3), trends.newest(0, 2 * KEPT).len()), (vec![25, 25, 25], KEPT));
        assert!(trends.newest(99, 3).is_empty());
    }

    #[test]
    fn the_most_important_row_of_each_table_comes_first() {
        let picture = Picture::new(&reading(Instant::now(), 1), None);
        assert_eq!(picture.head, "policy acl.py, 2 switches, 1 down, 40 rules");
        let first = |table: usize| {
            let cells = picture.tables[table].rows[0].iter().map(Cell::text);
            cells.collect::<Vec<_>>().join(" | ")
        };
        assert_eq!(first(0), "00:00:00:00:00:02 | hosts at 0000000000000002:3 | s1 | 2.50 M | 10 | 12.3 k");
        assert!(first(1).starts_with("1234 | 20 | acl.py:12 | several hosts at switch 1 | the policy drops it"));
        assert_eq!(first(2), "1970-01-01T00:00:02.500Z | 3 | acl.py:9: KeyError");
        assert_eq!(first(3), "0000000000000002 | DOWN for 12 s | 2 | 3 | 1 | 1.3 | 0 | 7");
    }

    #[test]
    fn a_rate_that_is_not_known_is_not_shown_as_none() {
        let mut now = reading(Instant::now(), 1);
        let flows = now.flows.as_array_mut().expect("a list");
        flows[0]["bits_per_second"] = json!(0);
        for name in ["bits_per_second", "packets_per_second"] {
            flows[1][name] = Value::Null;
        }
        let talkers = &Picture::new(&now, None).tables[0];
        let rates = |rows: &[&Vec<Cell>]| -> Vec<String> {
            rows.iter().map(|row| format!("{}|{}|{}", row[3].text(), row[4].text(), row[5].text())).collect()
        };
        let (idle, unknown) = ("0|10|12.3 k".to_owned(), "||12.3 k".to_owned());
        assert_eq!(rates(&talkers.chosen("", None)), [idle.clone(), unknown.clone()]);
        assert_eq!(rates(&talkers.chosen("", Some((3, false)))), [unknown.clone(), idle.clone()]);
        assert_eq!(rates(&talkers.chosen("", Some((3, true)))), [idle, unknown]);
    }

    #[test]
    fn rows_are_filtered_by_words_and_sorted_by_a_column() {
        let picture = Picture::new(&reading(Instant::now(), 1), None);
        let talkers = &picture.tables[0];
        let senders = |filter: &str, sort| -> Vec<String> {
            talkers.chosen(filter, sort).iter().map(|row| row[0].text().to_owned()).collect()
        };
        let (one, two) = ("00:00:00:00:00:01".to_owned(), "00:00:00:00:00:02".to_owned());
        assert_eq!(senders("", None), [two.clone(), one.clone()]);
        assert_eq!(senders("", Some((3, false))), [one.clone(), two.clone()]);
        assert_eq!(senders("", Some((0, true))), [two, one.clone()]);
        assert_eq!(senders("HOSTS 00:01", None), [one]);
        assert!(senders("nobody", None).is_empty());
    }
}
