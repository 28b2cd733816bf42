//! The rows of each metric. Whatever peers and hosts do, their number is bounded.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use maple_wire::{Dpid, Port};

use crate::names::Names;
use crate::printable::printable;
use crate::status::{ShardMetrics, SwitchMetrics};

/// The maximum number of switches with rows of their own. Chosen: more than a network has, and a bound on the text of a
/// scrape, whoever claims datapath ids.
const MAX_SWITCHES: usize = 10_000;
/// The maximum number of ports, of all switches, with rows of their own. Chosen: some megabytes of text; of a larger
/// network the rest is said as a number.
const MAX_PORTS: usize = 32_768;
/// The maximum number of source lines with rows of their own. Chosen: the lines of most policies that decide; each is a
/// time series for as long as Prometheus keeps it.
const MAX_LINES: usize = 64;
/// The row of the other lines.
const OTHERS: &str = "others";
/// The row of failures that name no line.
const NO_LINE: &str = "unknown";
/// The maximum length of a label, in characters. A longer text keeps its end. Chosen: a path of a file with its line
/// fits in most cases.
const MAX_LABEL: usize = 120;
/// The ends of the names of policy files.
const SOURCES: [&str; 4] = [".py", ".rs", ".yaml", ".yml"];
/// The maximum number of parts, names of tiers and the place, that are searched for the place. Chosen: compositions are
/// nested a few deep.
const MAX_TIERS: usize = 4;

/// Returns the switches of all shards, ordered by datapath id. A switch that has changed its shard is one row.
pub(super) fn switches(shards: &mut [ShardMetrics]) -> BTreeMap<Dpid, SwitchMetrics> {
    let mut all: BTreeMap<Dpid, SwitchMetrics> = BTreeMap::new();
    for switch in shards.iter_mut().flat_map(|shard| std::mem::take(&mut shard.switches)) {
        match all.get_mut(&switch.dpid) {
            None => drop(all.insert(switch.dpid, switch)),
            Some(there) => {
                there.counters += switch.counters;
                there.now = there.now.take().or(switch.now);
            }
        }
    }
    all
}

/// The rows that are listed, and the number of those left out.
#[derive(Debug)]
pub(super) struct Listed<T> {
    pub rows: Vec<T>,
    pub left_out: u64,
}

impl<T> Listed<T> {
    fn new(all: impl Iterator<Item = T>, most: usize) -> Listed<T> {
        let mut all = all;
        let rows = all.by_ref().take(most).collect();
        Listed { rows, left_out: all.count() as u64 }
    }
}

/// A switch with the labels of its rows.
#[derive(Debug)]
pub(super) struct SwitchRow {
    /// The datapath id, as Faucet writes it.
    pub dp_id: String,
    /// The configured name; without one, the `dp_id`.
    pub dp_name: String,
    pub metrics: SwitchMetrics,
}

/// Returns the rows of switches. If there are too many, those that are connected come first.
pub(super) fn switch_rows(all: BTreeMap<Dpid, SwitchMetrics>, names: &Names) -> Listed<SwitchRow> {
    let (connected, former): (Vec<_>, Vec<_>) = all.into_values().partition(|switch| switch.now.is_some());
    let switch_row = |metrics: SwitchMetrics| {
        let dp_id = format!("{:#x}", metrics.dpid.0);
        let dp_name = names.of_switch(metrics.dpid).map_or_else(|| dp_id.clone(), str::to_owned);
        SwitchRow { dp_id, dp_name, metrics }
    };
    Listed::new(connected.into_iter().chain(former).map(switch_row), MAX_SWITCHES)
}

/// A port of a listed switch.
#[derive(Debug)]
pub(super) struct PortRow<'a> {
    pub switch: &'a SwitchRow,
    pub number: String,
    pub name: String,
    pub up: bool,
}

/// Returns the rows of the ports of these switches.
pub(super) fn port_rows(switches: &[SwitchRow]) -> Listed<PortRow<'_>> {
    let ports = switches.iter().flat_map(|switch| {
        let ports: &[Port] = switch.metrics.now.as_ref().map_or(&[], |now| &now.ports);
        ports.iter().map(move |port| (switch, port))
    });
    let port_row = |(switch, port): (_, &Port)| PortRow {
        switch,
        number: port.number.to_string(),
        name: printable(&port.name()),
        up: port.is_up(),
    };
    // Texts are made only for what is listed.
    let Listed { rows, left_out } = Listed::new(ports, MAX_PORTS);
    Listed { rows: rows.into_iter().map(port_row).collect(), left_out }
}

/// The lines that have rows. A line that has one keeps it, so that its count never goes down.
#[derive(Debug, Default)]
pub(super) struct Lines {
    failures: BTreeSet<String>,
    violations: BTreeSet<(String, String)>,
}

impl Lines {
    /// Returns the number of packets on which f failed, by line. `all` is the number of all such packets.
    pub fn failures(&mut self, shards: &[ShardMetrics], all: u64) -> BTreeMap<String, u64> {
        let failures = shards.iter().flat_map(|shard| &shard.failures);
        let mut rows = BTreeMap::new();
        let mut listed = 0;
        for (text, count) in failures {
            let line = source_line(text).map_or_else(|| NO_LINE.to_owned(), |line| label(&line));
            *rows.entry(row(&mut self.failures, line, || OTHERS.to_owned())).or_default() += count;
            listed += count;
        }
        // Each shard remembers a bounded number of errors.
        if let Some(more) = all.checked_sub(listed).filter(|more| *more > 0) {
            *rows.entry(OTHERS.to_owned()).or_default() += more;
        }
        rows
    }

    /// Returns the number of routes that constraints refused, by constraint and line.
    pub fn violations(&mut self, shards: &[ShardMetrics]) -> BTreeMap<(String, String), u64> {
        let mut rows = BTreeMap::new();
        for ((constraint, place), count) in shards.iter().flat_map(|shard| &shard.violations) {
            let (constraint, place): (&Arc<str>, &Arc<str>) = (constraint, place);
            let key = (label(constraint), label(place));
            *rows.entry(row(&mut self.violations, key, || (OTHERS.to_owned(), OTHERS.to_owned()))).or_default() +=
                count;
        }
        rows
    }
}

/// Returns the row of a key: its own, if it has one or may have one.
fn row<K: Ord + Clone>(known: &mut BTreeSet<K>, key: K, others: impl Fn() -> K) -> K {
    if !known.contains(&key) {
        if known.len() >= MAX_LINES {
            return others();
        }
        known.insert(key.clone());
    }
    key
}

/// Makes a text a label: printable, and at most [`MAX_LABEL`] characters.
fn label(text: &str) -> String {
    let text = printable(text);
    let long = text.chars().count().saturating_sub(MAX_LABEL);
    text.chars().skip(long).collect()
}

/// Returns the line of the policy that an error's text is about: the last one of a traceback of Python, or the one that
/// the text begins with. The rest of a text may be about a packet, so it is not searched for a line.
fn source_line(text: &str) -> Option<String> {
    traceback_line(text).or_else(|| first_line(text))
}

/// Returns the place of the last frame of a traceback. The lines of frames are indented; the error's message follows
/// them.
fn traceback_line(text: &str) -> Option<String> {
    let (mut is_inside, mut last) = (false, None);
    for line in text.lines() {
        match line.strip_prefix("  ") {
            Some(frame) if is_inside => last = python_place(frame).or(last),
            _ => is_inside = line == "Traceback (most recent call last):",
        }
    }
    last
}

/// Converts `File "policy.py", line 12, in f` to `policy.py:12`.
fn python_place(frame: &str) -> Option<String> {
    let (file, rest) = frame.strip_prefix("File \"")?.split_once("\", line ")?;
    let (line, _) = rest.split_once(", in ")?;
    Some(format!("{file}:{}", line.parse::<u32>().ok()?))
}

/// Returns the place at the beginning of a text, perhaps after the names of tiers.
fn first_line(text: &str) -> Option<String> {
    let place = |part: &str| {
        let (file, line) = part.rsplit_once(':')?;
        let is_source = SOURCES.iter().any(|source| file.ends_with(source)) && !file.contains(char::is_whitespace);
        let line: u32 = line.parse().ok().filter(|_| is_source)?;
        Some(format!("{file}:{line}"))
    };
    text.split(": ").take(MAX_TIERS).find_map(|part| place(part).or_else(|| python_place(part)))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use maple_core::engine::SwitchCounts;
    use maple_wire::PortNo;

    use super::*;
    use crate::counters::SwitchCounters;
    use crate::names::Named;
    use crate::status::ConnectedMetrics;

    fn shard(switches: impl IntoIterator<Item = (u64, u64, bool)>) -> ShardMetrics {
        let switch = |(dpid, packet_ins, connected): (u64, u64, bool)| {
            let now =
                ConnectedMetrics { waiting_bytes: 0, ports: Arc::default(), counts: Some(SwitchCounts::default()) };
            let counters = SwitchCounters { packet_ins, ..SwitchCounters::default() };
            SwitchMetrics { dpid: Dpid(dpid), counters, now: connected.then_some(now) }
        };
        ShardMetrics { switches: switches.into_iter().map(switch).collect(), ..ShardMetrics::default() }
    }

    #[test]
    fn a_switch_that_came_back_to_another_shard_is_one_row() {
        let mut shards = [shard([(1, 5, false), (2, 7, false)]), shard([(1, 2, true)])];
        let mut names = Names::new();
        names.add("core", Named::Switch(Dpid(1))).expect("nothing else has this name");
        let rows = switch_rows(switches(&mut shards), &names).rows;
        let reported: Vec<_> = rows
            .iter()
            .map(|row| (&*row.dp_id, &*row.dp_name, row.metrics.counters.packet_ins, row.metrics.now.is_some()))
            .collect();
        assert_eq!(reported, [("0x1", "core", 7, true), ("0x2", "0x2", 7, false)]);
    }

    #[test]
    fn switches_beyond_the_limit_are_left_out_and_those_that_are_gone_first() {
        let mut shards = [shard((0..6000).map(|n| (n, 0, false))), shard((6000..12_000).map(|n| (n, 0, true)))];
        let Listed { rows, left_out } = switch_rows(switches(&mut shards), &Names::new());
        assert_eq!((rows.len(), left_out), (MAX_SWITCHES, 2000));
        assert_eq!(rows.iter().filter(|row| row.metrics.now.is_some()).count(), 6000);
    }

    #[test]
    fn ports_beyond_the_limit_are_left_out() {
        let port = |number| Port::new(PortNo(number), [0; 6], "eth\x1b[2J");
        let ports = Arc::new((1..=20_000).map(port).collect::<Vec<_>>());
        let mut all = [shard([(1, 0, true), (2, 0, true)])];
        for switch in &mut all[0].switches {
            switch.now.as_mut().expect("it is connected").ports = Arc::clone(&ports);
        }
        let rows = switch_rows(switches(&mut all), &Names::new()).rows;
        let Listed { rows, left_out } = port_rows(&rows);
        assert_eq!((rows.len(), left_out), (MAX_PORTS, 40_000 - MAX_PORTS as u64));
        assert_eq!((&*rows[0].number, &*rows[0].name), ("1", "eth\\u{1b}[2J"), "nothing that could control a terminal");
    }

    fn failing(texts: impl IntoIterator<Item = (String, u64)>) -> [ShardMetrics; 1] {
        let failures = texts.into_iter().map(|(text, count)| (Arc::from(text), count)).collect();
        [ShardMetrics { failures, ..ShardMetrics::default() }]
    }

    #[test]
    fn failures_are_counted_by_line_and_never_by_what_they_say() {
        let traceback = |line, what: &str| {
            format!(
                "Traceback (most recent call last):\n  File \"/p/a.py\", line 3, in f\n    g()\n  File \"/p/b.py\", \
                     line {line}, in g\n    x\nKeyError: {what}"
            )
        };
        let forged = "'\n  File \"10.0.0.1\", line 80, in x'";
        let texts = [
            (traceback(7, "1"), 2),
            (traceback(7, forged), 3),
            ("guest: File \"/p/c.py\", line 9, in f: the policy returned 'ssh' (str)".to_owned(), 1),
            ("inner: src/policy.rs:12: no such port".to_owned(), 4),
            ("the policy panicked: no route to 10.0.0.1:80".to_owned(), 5),
            ("no route to 10.0.0.1:80".to_owned(), 6),
        ];
        let rows = Lines::default().failures(&failing(texts), 23);
        let expected = [("/p/b.py:7", 5), ("/p/c.py:9", 1), ("others", 2), ("src/policy.rs:12", 4), ("unknown", 11)];
        assert_eq!(rows, expected.map(|(line, count)| (line.to_owned(), count)).into());
    }

    #[test]
    fn the_number_of_lines_is_bounded_and_counts_never_go_down() {
        let text = |n: u64| format!("policy.py:{}: it failed on {}", n % 500, Ipv4Addr::from(n as u32));
        let (mut lines, mut before) = (Lines::default(), BTreeMap::new());
        for most in [10, 70, 300, 2000] {
            let rows = lines.failures(&failing((0..most).map(|n| (text(n), n + 1))), most * (most + 1) / 2);
            assert!(rows.len() <= MAX_LINES + 1);
            assert_eq!(rows.values().sum::<u64>(), most * (most + 1) / 2);
            assert!(before.iter().all(|(line, count)| rows[line] >= *count));
            before = rows;
        }
        let violation = |n: u64| ((Arc::from(format!("never {n}")), Arc::from("policy.py:1")), 1);
        let violations = (0..1000).map(violation).collect();
        let rows = lines.violations(&[ShardMetrics { violations, ..ShardMetrics::default() }]);
        assert_eq!((rows.len(), rows.values().sum::<u64>()), (MAX_LINES + 1, 1000));
    }

    #[test]
    fn a_label_is_not_long() {
        let path = format!("/{}/policy.py:7", "x".repeat(4000));
        let made = label(&path);
        assert!(made.len() == MAX_LABEL && made.ends_with("x/policy.py:7"), "{made}");
    }
}
