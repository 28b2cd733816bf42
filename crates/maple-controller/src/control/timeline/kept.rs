//! What is kept: follows the network, the log and the counts, within bounds.
//!
//! Hosts and switches cause most of what happens, so each kind of entry has a budget of bytes. What is beyond it is left
//! out and counted. A change of the network that is left out stays pending: it is kept as soon as there is room.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use maple_core::engine::Dropped;
use maple_core::state::Snapshot;
use maple_wire::Dpid;

use super::entry::{CountsThen, DropThen, Entry, RatesThen, Stamped};
use super::network::NetworkThen;
use super::segments::{Bounds, Segments};
use crate::log::{Level, LogEntry};
use crate::time::timestamp;

/// Maximum number of characters of a line of the log.
const MAX_TEXT: usize = 400;
/// Maximum number of kinds of drops of a minute.
const MAX_DROPS: usize = 64;

/// The bounds of a timeline.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub bytes: Bounds,
    /// The number of ports, and of hosts, that are followed.
    pub parts: usize,
    /// The bytes that each kind of entry may take at once, and a second.
    burst: usize,
    refill: usize,
}

/// With files: what comes at most in a day, networks at the beginning of segments included, is 50 MB.
pub(super) const ON_DISK: Limits =
    Limits { bytes: Bounds { all: 45_000_000, in_memory: 8_000_000 }, parts: 125_000, burst: 1_500_000, refill: 120 };
/// Without files.
pub(super) const IN_MEMORY: Limits =
    Limits { bytes: Bounds { all: 6_000_000, in_memory: 6_000_000 }, parts: 20_000, burst: 600_000, refill: 20 };

/// The bytes that one kind of entry may still take.
#[derive(Clone, Copy, Debug, Default)]
struct Budget {
    left: usize,
    since: u64,
}

impl Budget {
    /// Takes this many bytes, unless there are fewer.
    fn spend(&mut self, now: u64, bytes: usize, limits: &Limits) -> bool {
        let earned = limits.refill.saturating_mul(now.saturating_sub(self.since) as usize) / 1000;
        if self.since == 0 || earned > 0 {
            self.left = if self.since == 0 { limits.burst } else { (self.left + earned).min(limits.burst) };
            self.since = now;
        }
        let fits = bytes <= self.left;
        self.left -= if fits { bytes } else { 0 };
        fits
    }
}

/// The timeline as it is now.
#[derive(Debug)]
pub(super) struct Kept {
    pub segments: Segments,
    limits: Limits,
    /// How it went, by the time at which that was written.
    pub rates: VecDeque<(u64, RatesThen)>,
    /// The network as it is kept.
    network: NetworkThen,
    /// The time up to which everything is kept.
    pub now: u64,
    /// Whether this run has begun a segment.
    has_begun: bool,
    changes: Budget,
    lines: Budget,
    drops: Budget,
    /// What the next rates say.
    interval: RatesThen,
    rated: u64,
    counted: Option<CountsThen>,
}

impl Kept {
    /// Creates an empty timeline, in files if there is a folder.
    pub fn new(folder: Option<PathBuf>) -> Kept {
        let limits = if folder.is_some() { ON_DISK } else { IN_MEMORY };
        Kept::with_limits(folder, limits)
    }

    pub fn with_limits(folder: Option<PathBuf>, limits: Limits) -> Kept {
        Kept {
            segments: Segments::new(folder, limits.bytes),
            limits,
            rates: VecDeque::new(),
            network: NetworkThen::default(),
            now: 0,
            has_begun: false,
            changes: Budget::default(),
            lines: Budget::default(),
            drops: Budget::default(),
            interval: RatesThen::default(),
            rated: 0,
            counted: None,
        }
    }

    /// Reads what earlier runs have kept. Returns what is wrong with it.
    pub fn open(&mut self) -> io::Result<Vec<String>> {
        let (rates, now) = (&mut self.rates, &mut self.now);
        self.segments.open(|stamped| {
            *now = (*now).max(stamped.time);
            if let Entry::Rates(own) = stamped.entry {
                rates.push_back((stamped.time, own));
            }
        })
    }

    /// Keeps the time, which does not go back, and gives up what is too old or too much.
    fn advance(&mut self, now: u64) {
        if self.segments.trim(now) {
            (self.now, self.has_begun, self.rated) = (now, false, now);
            [&mut self.changes, &mut self.lines, &mut self.drops].into_iter().for_each(|budget| budget.since = now);
            self.rates.retain(|(time, _)| *time <= now);
        }
        let last = self.segments.all.back().map_or(0, |last| last.ended);
        self.now = self.now.max(now).max(last);
        let first = self.segments.all.front().map_or(0, |first| first.began);
        while self.rates.front().is_some_and(|(time, _)| *time < first) {
            self.rates.pop_front();
        }
    }

    fn append(&mut self, entry: Entry) -> usize {
        self.segments.append(&Stamped { time: self.now, entry })
    }

    /// Follows the network to a snapshot.
    pub fn look(&mut self, now: u64, state: &Snapshot, is_away: impl Fn(Dpid) -> bool) {
        self.advance(now);
        let (mut changes, beyond) = self.network.changes_to(state, is_away, self.limits.parts);
        let (limits, now, budget) = (self.limits, self.now, &mut self.changes);
        let fit = changes.iter().take_while(|change| budget.spend(now, change.size(), &limits)).count();
        self.interval.pending = (changes.len() - fit + beyond) as u64;
        changes.truncate(fit);
        self.interval.changes = self.interval.changes.saturating_add(fit as u32);
        changes.iter().cloned().for_each(|change| self.network.apply(change));
        if !self.has_begun || self.segments.is_full(self.now) {
            self.segments.begin(self.now, &self.network, state.version(), self.has_begun);
            self.has_begun = true;
        } else if !changes.is_empty() {
            self.append(Entry::Changes { version: state.version(), changes });
        }
        self.segments.extend(self.now);
    }

    /// Keeps a line of the log, if it is about the network, or says that something is wrong.
    pub fn line(&mut self, line: &LogEntry) {
        let is_about_network = matches!(line.area, "topology" | "hosts");
        if line.level > Level::Warning && !is_about_network {
            return;
        }
        let text: String = line.text.chars().take(MAX_TEXT).collect();
        if self.lines.spend(self.now, text.len() + 40, &self.limits) {
            let (number, level, area) = (line.number, line.level.name().to_owned(), line.area.to_owned());
            self.append(Entry::Line { number, level, area, text });
        } else {
            self.leave_out(1);
        }
    }

    /// Counts what is not kept.
    pub fn leave_out(&mut self, count: u64) {
        self.interval.left_out = self.interval.left_out.saturating_add(count);
    }

    /// Keeps the drops of a minute.
    pub fn drop_packets(&mut self, dropped: &[Dropped]) {
        let mut sums: BTreeMap<(Dpid, Option<String>, String), u64> = BTreeMap::new();
        for one in dropped {
            let key = (one.switch, one.cause.line().map(ToString::to_string), one.cause.to_string());
            let sum = sums.entry(key).or_default();
            *sum = sum.saturating_add(one.packets);
        }
        let row = |((switch, line, why), packets)| DropThen { packets, switch, line, why };
        let mut rows: Vec<DropThen> = sums.into_iter().map(row).collect();
        rows.sort_by(|a, b| b.packets.cmp(&a.packets).then_with(|| a.cmp(b)));
        let size = |row: &DropThen| 24 + row.line.as_ref().map_or(0, String::len) + row.why.len();
        let (now, limits, budget) = (self.now, self.limits, &mut self.drops);
        let fit = rows.iter().take(MAX_DROPS).take_while(|row| budget.spend(now, size(row), &limits)).count();
        let others = rows.drain(fit..).fold(0u64, |sum, row| sum.saturating_add(row.packets));
        if !rows.is_empty() || others > 0 {
            self.append(Entry::Drops { rows, others });
        }
    }

    /// Keeps how it went since the last time, by these counts.
    pub fn rate(&mut self, now: u64, counts: Option<CountsThen>) {
        self.advance(now);
        let growth = |before: CountsThen, now: CountsThen| CountsThen {
            packet_ins: now.packet_ins.saturating_sub(before.packet_ins),
            decisions: now.decisions.saturating_sub(before.decisions),
            flow_mods: now.flow_mods.saturating_sub(before.flow_mods),
            failures: now.failures.saturating_sub(before.failures),
        };
        let since = if self.rated == 0 { self.now } else { self.rated };
        let own = RatesThen {
            span: self.now.saturating_sub(since),
            counts: self.counted.zip(counts).map(|(before, now)| growth(before, now)),
            switches: self.network.switches.len() as u32,
            links: self.network.links().count() as u32,
            hosts: self.network.hosts.len() as u32,
            ..self.interval
        };
        self.append(Entry::Rates(own));
        self.rates.push_back((self.now, own));
        (self.rated, self.counted) = (self.now, counts);
        self.interval = RatesThen { pending: self.interval.pending, ..RatesThen::default() };
    }

    /// Returns the first and the last moment that is kept.
    pub fn range(&self) -> Option<(u64, u64)> {
        self.segments.all.front().map(|first| (first.began, self.now))
    }

    /// Returns the times in which nothing was kept.
    pub fn gaps(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let all = &self.segments.all;
        all.iter()
            .zip(all.iter().skip(1))
            .filter(|(_, next)| !next.continues)
            .map(|(one, next)| (one.ended, next.began))
    }

    /// Returns the number of the segment of a moment.
    ///
    /// # Errors
    /// A text that says what is kept, if this is not.
    pub fn segment_of(&self, time: u64) -> Result<usize, String> {
        let Some((from, to)) = self.range() else { return Err("nothing is kept yet".to_owned()) };
        if !(from..=to).contains(&time) {
            return Err(format!("this moment is not kept; what is kept is from {} to {}", text(from), text(to)));
        }
        match self.gaps().find(|(end, begin)| *end < time && time < *begin) {
            Some((end, begin)) => {
                let (end, begin) = (text(end), text(begin));
                Err(format!("this moment is not kept: the controller did not run from {end} to {begin}"))
            }
            None => Ok(self.segments.all.partition_point(|segment| segment.began <= time) - 1),
        }
    }

    /// Returns the network at a moment, with the version of its snapshot.
    ///
    /// # Errors
    /// As [`Kept::segment_of`]; also if a file can't be read.
    pub fn network_at(&self, time: u64) -> Result<(NetworkThen, u64), String> {
        let (mut then, mut of_then) = (NetworkThen::default(), 0);
        for Stamped { entry, .. } in
            self.entries(self.segment_of(time)?)?.into_iter().take_while(|one| one.time <= time)
        {
            match entry {
                Entry::Begin { version, network, .. } => (then, of_then) = (network, version),
                Entry::Changes { version, changes } => {
                    changes.into_iter().for_each(|change| then.apply(change));
                    of_then = version;
                }
                _ => {}
            }
        }
        Ok((then, of_then))
    }

    /// Returns what was kept after a moment, up to another one.
    ///
    /// # Errors
    /// As [`Kept::network_at`].
    pub fn between(&self, from: u64, to: u64) -> Result<Vec<Stamped>, String> {
        let mut all = Vec::new();
        for segment in self.segment_of(from)?..=self.segment_of(to)? {
            all.extend(self.entries(segment)?.into_iter().filter(|one| from < one.time && one.time <= to));
        }
        Ok(all)
    }

    fn entries(&self, segment: usize) -> Result<Vec<Stamped>, String> {
        self.segments.entries(segment).map_err(|error| format!("what was kept of this moment can't be read: {error}"))
    }

    /// Returns how many parts of the network were not kept as they were at a moment.
    pub fn pending_at(&self, time: u64) -> u64 {
        let after = self.rates.partition_point(|(at, _)| *at < time);
        self.rates.get(after).map_or(self.interval.pending, |(_, rates)| rates.pending)
    }
}

/// Returns a moment for people.
fn text(time: u64) -> String {
    timestamp(SystemTime::UNIX_EPOCH + Duration::from_millis(time))
}
