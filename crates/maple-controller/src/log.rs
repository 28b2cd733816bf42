//! The log that people read: each notice once, with its time, level and area, in a ring of the latest ones.
//!
//! Peers and hosts cause most notices, so none of them can fill the log: each source (a port, a switch, an address) has
//! a budget of lines, and lines beyond it are counted. The next line of that source says how many were left out. The
//! ring, the sources and the texts of errors are bounded. Control characters are escaped, whoever chose the text.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use maple_core::Location;
use maple_wire::Dpid;
use parking_lot::{Condvar, Mutex, MutexGuard};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::printable::{self, printable};

/// The number of lines that are kept. Chosen: the last minutes of a network that has trouble, and a bound on memory.
const KEPT: usize = 1024;
/// The number of lines that one source may write at once. Chosen: what a switch has to say when it connects fits, and a
/// source that writes without end fills a tenth of the log.
const BURST: u32 = 100;
/// The time after which a source may write one more line. Chosen: ten lines a second are as many as people can read.
const REFILL: Duration = Duration::from_millis(100);
/// The maximum number of sources, and of errors of the policy, that are remembered. Chosen: more than the switches and
/// ports of a network that write, and a bound on memory.
const REMEMBERED: usize = 4096;

/// The importance of a line. Lines of lower levels may be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// The controller can't do its work.
    Error,
    /// Something is wrong in the network or in the policy.
    Warning,
    /// Something happened that is in order.
    Info,
    /// A detail for developers.
    Debug,
}

impl Level {
    /// Returns the name.
    pub const fn name(self) -> &'static str {
        match self {
            Level::Error => "error",
            Level::Warning => "warning",
            Level::Info => "info",
            Level::Debug => "debug",
        }
    }

    /// Returns the severity in syslog.
    pub const fn priority(self) -> u8 {
        match self {
            Level::Error => 3,
            Level::Warning => 4,
            Level::Info => 6,
            Level::Debug => 7,
        }
    }
}

/// The subjects of lines. Each has a level of its own.
pub const AREAS: [&str; 8] = ["control", "hosts", "policy", "rules", "run", "session", "state", "topology"];

/// Returns the area of messages from this module of the program.
pub fn area_of_module(module: &str) -> &'static str {
    let names = |name: &str| module.split("::").any(|part| part == name);
    let table: [(&str, &[&str]); 5] = [
        ("control", &["control", "takeover"]),
        ("policy", &["handler", "listen", "maple_python", "snoop"]),
        ("session", &["session", "shard"]),
        ("state", &["late", "persistence", "remember", "restart"]),
        ("topology", &["discovery"]),
    ];
    table.iter().find(|(_, parts)| parts.iter().any(|part| names(part))).map_or("run", |(area, _)| area)
}

/// A line of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEntry {
    /// The number of the line. Each is one higher than the one before.
    pub number: u64,
    /// The time when it was written.
    pub time: SystemTime,
    /// Its importance.
    pub level: Level,
    /// Its subject, one of [`AREAS`].
    pub area: &'static str,
    /// The text, with names. It may have several lines.
    pub text: String,
}

/// The cause of lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Source {
    Port(Location),
    Switch(Dpid),
    /// An address; of IPv6, the network of a link, in which a peer has any address it likes.
    Address(IpAddr),
    Program,
    /// A client of the HTTP API that may change something. Its lines are never left out: they say who changed what.
    Client,
    /// All sources beyond those that are remembered.
    Others,
}

impl Source {
    /// Returns the source of lines about a peer with this address.
    pub fn address(ip: IpAddr) -> Source {
        Source::Address(match ip.to_canonical() {
            IpAddr::V6(ip) => IpAddr::V6((u128::from(ip) >> 64 << 64).into()),
            ip => ip,
        })
    }
}

/// A line to be written.
#[derive(Clone, Debug)]
pub(crate) struct LogLine {
    pub source: Source,
    pub level: Level,
    pub area: &'static str,
    pub text: String,
    /// An error of the policy, which is written once.
    pub error: Option<Arc<str>>,
}

/// The lines that a source may still write.
#[derive(Clone, Copy, Debug)]
struct SourceBudget {
    lines: u32,
    since: Instant,
    left_out: u64,
}

/// The log.
#[derive(Debug, Default)]
pub(crate) struct Log {
    ring: Mutex<Ring>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Ring {
    entries: VecDeque<LogEntry>,
    next: u64,
    /// The budget of each source for each level, so that a flood of harmless lines hides no warning.
    budgets: FxHashMap<(Source, Level), SourceBudget>,
    /// Errors of the policy that are in the log. Each shard reports an error once.
    errors: FxHashSet<Arc<str>>,
}

impl Log {
    /// Adds a line, unless its source has written too much, or its error is in the log already.
    pub fn add(&self, line: LogLine, now: Instant, time: SystemTime) {
        let mut ring = self.lock();
        if line.error.as_ref().is_some_and(|error| ring.errors.contains(error)) {
            return;
        }
        let LogLine { source, level, area, .. } = line;
        let Some(left_out) = ring.admit((source, level), now) else { return };
        if let Some(error) = &line.error {
            if ring.errors.len() >= REMEMBERED {
                ring.errors.clear();
            }
            ring.errors.insert(Arc::clone(error));
        }
        let mut text = printable_lines(&line.text);
        if left_out > 0 {
            text.push_str(&format!(" ({left_out} lines of the same source were left out before)"));
        }
        let number = ring.next;
        ring.next += 1;
        if ring.entries.len() == KEPT {
            ring.entries.pop_front();
        }
        ring.entries.push_back(LogEntry { number, time, level, area, text });
        drop(ring);
        self.changed.notify_all();
    }

    /// Returns the entries from this number on that are still kept. If there are none yet, waits for one, at most for
    /// `timeout`.
    pub fn since(&self, number: u64, timeout: Duration) -> Vec<LogEntry> {
        let deadline = Instant::now() + timeout;
        let mut ring = self.lock();
        while ring.next <= number {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Vec::new();
            }
            self.changed.wait_for(&mut ring, left);
        }
        ring.entries.iter().filter(|entry| entry.number >= number).cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock()
    }
}

impl Ring {
    /// Admits a line of a source: returns how many of its lines were left out since its last one. `None`: this one is
    /// left out.
    fn admit(&mut self, source: (Source, Level), now: Instant) -> Option<u64> {
        if source.0 == Source::Client {
            return Some(0);
        }
        if self.budgets.len() >= REMEMBERED && !self.budgets.contains_key(&source) {
            // Sources that could write a whole burst again need not be remembered.
            let rests = |budget: &SourceBudget| now.saturating_duration_since(budget.since) >= REFILL * BURST;
            self.budgets.retain(|_, budget| !rests(budget));
            if self.budgets.len() >= REMEMBERED {
                // Too many sources write at once: the further ones share one budget.
                return self.spend((Source::Others, source.1), now);
            }
        }
        self.spend(source, now)
    }

    fn spend(&mut self, source: (Source, Level), now: Instant) -> Option<u64> {
        let budget = self.budgets.entry(source).or_insert(SourceBudget { lines: BURST, since: now, left_out: 0 });
        let earned = (now.saturating_duration_since(budget.since).as_nanos() / REFILL.as_nanos()) as u32;
        if earned > 0 {
            budget.lines = budget.lines.saturating_add(earned).min(BURST);
            budget.since += REFILL * earned;
        }
        if budget.lines == 0 {
            budget.left_out += 1;
            return None;
        }
        budget.lines -= 1;
        Some(std::mem::take(&mut budget.left_out))
    }
}

/// Reports whether a character can be shown as it is: it is not a control character, has a width, and does not change
/// the direction of text.
pub fn is_printable(c: char) -> bool {
    printable::is_printable(c)
}

/// Escapes control characters in a text, except ends of lines.
pub fn printable_lines(text: &str) -> String {
    text.split('\n').map(printable).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use maple_wire::PortNo;

    use super::*;

    fn line(port: u32, text: &str) -> LogLine {
        let source = Source::Port(Location::new(Dpid(1), PortNo(port)));
        LogLine { source, level: Level::Info, area: "hosts", text: text.to_owned(), error: None }
    }

    /// A log, with the time of its clock.
    struct Clocked {
        log: Log,
        now: Instant,
    }

    impl Clocked {
        fn new() -> Clocked {
            Clocked { log: Log::default(), now: Instant::now() }
        }

        fn add(&self, line: LogLine) {
            self.log.add(line, self.now, SystemTime::UNIX_EPOCH);
        }

        fn count(&self) -> usize {
            self.log.since(0, Duration::ZERO).len()
        }
    }

    #[test]
    fn a_network_of_ipv6_is_one_source_and_an_address_of_ipv4_is_one_however_it_is_written() {
        let source = |text: &str| Source::address(text.parse().expect("an address"));
        assert_eq!(source("2001:db8::1"), source("2001:db8::ffff:1"));
        assert_ne!(source("2001:db8::1"), source("2001:db8:0:1::1"));
        assert_eq!(source("::ffff:192.0.2.1"), source("192.0.2.1"));
        assert_ne!(source("::ffff:192.0.2.1"), source("::ffff:192.0.2.2"));
    }

    #[test]
    fn one_port_cannot_fill_the_log_and_the_number_of_omitted_lines_is_reported() {
        let mut clocked = Clocked::new();
        (0..200).for_each(|_| clocked.add(line(1, "found")));
        assert_eq!(clocked.count(), BURST as usize);
        clocked.add(line(2, "found"));
        assert_eq!(clocked.count(), BURST as usize + 1, "another port has its own budget");
        clocked.now += REFILL;
        clocked.add(line(1, "found"));
        let last = clocked.log.since(0, Duration::ZERO).pop().expect("it is there");
        assert_eq!(last.text, "found (100 lines of the same source were left out before)");
    }

    #[test]
    fn ring_and_sources_are_bounded_and_numbers_go_on() {
        let clocked = Clocked::new();
        for port in 1..=2 * REMEMBERED as u32 {
            clocked.add(line(port, "found"));
        }
        let ring = clocked.log.lock();
        assert!(ring.budgets.len() <= REMEMBERED + 1 && ring.entries.len() == KEPT);
        assert_eq!(ring.entries.back().map(|entry| entry.number + 1), Some(ring.next));
        let next = ring.next;
        drop(ring);
        assert_eq!(clocked.log.since(next, Duration::ZERO), []);
        assert_eq!(clocked.log.since(next - 2, Duration::ZERO).len(), 2);
    }

    #[test]
    fn changes_by_clients_are_never_left_out_of_the_log() {
        let clocked = Clocked::new();
        (0..200).for_each(|_| clocked.add(LogLine { source: Source::Client, ..line(1, "changed") }));
        assert_eq!(clocked.count(), 200);
    }

    #[test]
    fn control_characters_are_escaped_and_lines_stay_lines() {
        let clocked = Clocked::new();
        clocked.add(line(1, "a\u{1b}[2Jb\nc\rd"));
        assert_eq!(clocked.log.since(0, Duration::ZERO)[0].text, "a\\u{1b}[2Jb\nc\\rd");
    }

    #[test]
    fn an_error_of_the_policy_is_there_once() {
        let clocked = Clocked::new();
        (1..=3).for_each(|port| clocked.add(LogLine { error: Some("x".into()), ..line(port, "x") }));
        assert_eq!(clocked.count(), 1);
    }

    #[test]
    fn modules_belong_to_areas() {
        for (module, area) in [
            ("maple_controller::shard::io", "session"),
            ("maple_controller::control::socket", "control"),
            ("maple_controller::storage::persistence", "state"),
            ("maple_cli::run::past_states", "run"),
        ] {
            assert_eq!(area_of_module(module), area);
            assert!(AREAS.contains(&area));
        }
    }
}
