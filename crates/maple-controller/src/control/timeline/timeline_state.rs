//! The state that is kept: follows the network, the log and the counts, within bounds. Nothing here touches a disk.

use std::collections::{BTreeMap, VecDeque};

use maple_core::engine::Dropped;
use maple_core::state::Snapshot;
use maple_wire::Dpid;

use super::ask_shards::{Answers, AskingProgress};
use super::budget::{Budget, Rate};
use super::clock::{OrderedClock, Reading, RunTimes};
use super::entry::{Begin, CountsThen, DropThen, Entry, Growth, Known, LineThen, Pause, RatesThen, Stamped, shortened};
use super::follower::{FollowLimits, Follower};
use super::network::{NetworkChange, NetworkThen};
use super::segment_format::{MAGIC, each_entry};
use super::segments::{EarlierSegment, SegmentBounds, Segments, UnreadableKind};
use crate::control::answer::milliseconds;
use crate::log::{Level, LogEntry};

/// The maximum number of characters of a line of the log. Chosen: most lines fit, and the budget of a day has room for
/// thousands.
const MAX_TEXT: usize = 400;
/// The maximum number of kinds of drops of a minute. Chosen: more than people look at; the rest is one sum.
const MAX_DROPS: usize = 64;
/// The maximum time before the beginning of a run at which a line may have been written, in milliseconds. Chosen: a
/// start takes less than ten minutes, also with a large state file.
const BEFORE: u64 = 600_000;
/// The time after an earlier run, in milliseconds, for which its network is still of use: a day, as long as the
/// timeline reaches back.
const DAY: u64 = 24 * 3_600_000;

/// The bounds of a timeline.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub bytes: SegmentBounds,
    pub follow: FollowLimits,
    pub lines: Rate,
    pub drops: Rate,
}

/// The limits with files. What comes at most in a day, networks at the beginning of segments included, is 50 MB.
pub(super) const ON_DISK: Limits = Limits {
    bytes: SegmentBounds { all: 48_000_000, waiting: 8_000_000, count: 192 },
    follow: FollowLimits {
        parts: 125_000,
        switches: Rate { burst: 200_000, refill: 20 },
        ports: Rate { burst: 1_500_000, refill: 45 },
        hosts: Rate { burst: 1_500_000, refill: 55 },
    },
    lines: Rate { burst: 600_000, refill: 80 },
    drops: Rate { burst: 600_000, refill: 80 },
};
/// The limits without files.
pub(super) const IN_MEMORY: Limits = Limits {
    bytes: SegmentBounds { all: 6_000_000, waiting: 6_000_000, count: 192 },
    follow: FollowLimits {
        parts: 20_000,
        switches: Rate { burst: 50_000, refill: 4 },
        ports: Rate { burst: 600_000, refill: 8 },
        hosts: Rate { burst: 600_000, refill: 8 },
    },
    lines: Rate { burst: 200_000, refill: 20 },
    drops: Rate { burst: 200_000, refill: 20 },
};

/// The timeline as it is now. Times are those of its [clock](super::clock), unless they are said to be shown.
#[derive(Debug)]
pub(super) struct TimelineState {
    pub segments: Segments,
    pub clock: OrderedClock,
    pub run_times: RunTimes,
    /// The time up to which everything is kept.
    pub now: u64,
    /// The network as it is kept, and how well it is known.
    network: NetworkThen,
    known: Known,
    /// The completeness that the last entry about the network said.
    reported: Known,
    links: u32,
    follower: Follower,
    /// The milliseconds after its beginning for which this run takes nothing as gone that it has not seen, and the time
    /// when they end.
    grace: u64,
    grace_end: Option<u64>,
    /// The reason why the next segment does not go on where the last one ends.
    pause: Option<Pause>,
    lines: Budget,
    drops: Budget,
    pub rates: Rates,
}

/// The rates of the last day.
#[derive(Debug, Default)]
pub(super) struct Rates {
    /// The rates, by the time at which they were written.
    pub all: VecDeque<(u64, RatesThen)>,
    /// The rates that the next entry says.
    next: RatesThen,
    since: Option<u64>,
    /// The last counts, with their time.
    counted: Option<(u64, CountsThen)>,
    /// Whether a shard did not answer in time.
    late: bool,
}

impl TimelineState {
    /// Creates an empty timeline. What a run has not seen stays as an earlier one knew it for `grace` milliseconds.
    pub fn new(in_files: bool, limits: Limits, grace: u64) -> TimelineState {
        TimelineState {
            segments: Segments::new(in_files, limits.bytes),
            clock: OrderedClock::default(),
            run_times: RunTimes::default(),
            now: 0,
            network: NetworkThen::default(),
            known: Known::default(),
            reported: Known::default(),
            links: 0,
            follower: Follower::new(&limits.follow),
            grace,
            grace_end: None,
            pause: None,
            lines: Budget::new(limits.lines),
            drops: Budget::new(limits.drops),
            rates: Rates::default(),
        }
    }

    /// Takes over what an earlier run has kept in a file. Files come in the order of their numbers. Returns what is
    /// wrong with it, if something is.
    pub fn read_file(&mut self, number: u32, bytes: &[u8]) -> Option<String> {
        if !bytes.starts_with(&MAGIC) && !MAGIC.starts_with(bytes) {
            let why = "it is of another format";
            self.segments.add_unreadable(number, UnreadableKind::Foreign, bytes.len(), why.to_owned());
            return Some(format!("{why}; it is left as it is"));
        }
        let (last, mut begin, mut ended) = (self.now, None, self.now);
        let (whole, damage) = each_entry(bytes, |Stamped { time, entry }| {
            match (&mut begin, entry) {
                (none @ None, Entry::Begin(first)) if time >= last => {
                    *none = Some((time, first.after));
                    if first.after.is_none() {
                        self.segments.check_end(number.saturating_sub(1), first.former);
                    }
                    self.clock = OrderedClock::resume(first.ahead, time);
                    self.network = first.network;
                }
                (None, _) => {}
                (Some(_), entry) => self.read_entry(time, entry),
            }
            ended = ended.max(time);
        });
        let damage = damage.map(|damage| format!("byte {whole}: {damage}"));
        let Some(begin) = begin else {
            let is_empty = whole == MAGIC.len();
            let why = if is_empty {
                "it is cut before its first entry"
            } else {
                "its times are before those of the file before it"
            };
            let why = damage.unwrap_or_else(|| why.to_owned());
            self.segments.add_unreadable(number, UnreadableKind::Damaged, bytes.len(), why.clone());
            return Some(format!("{why}; it is left as it is"));
        };
        self.clock = OrderedClock::resume(self.clock.ahead(), ended);
        self.now = ended;
        let (began, after) = begin;
        let (size, unused) = (whole, bytes.len() - whole);
        self.segments.add(EarlierSegment { number, began, after, ended, size, unused, damage: damage.clone() });
        damage.map(|why| format!("{why}; what comes after that is left as it is, and not used"))
    }

    fn read_entry(&mut self, time: u64, entry: Entry) {
        match entry {
            Entry::Begin(_) => {}
            Entry::Look { changes, .. } => {
                for change in changes {
                    self.follower.spent(time, &change);
                    self.network.apply(change);
                }
            }
            Entry::Line(line) => self.lines.spent(time, line.size()),
            Entry::Drops { rows, .. } => self.drops.spent(time, rows.iter().map(DropThen::size).sum()),
            Entry::Rates(rates) => self.rates.all.push_back((time, rates)),
        }
    }

    /// Goes on to a moment, and gives up what is too old or too much.
    pub fn advance(&mut self, reading: Reading) {
        let (now, pause) = self.clock.read(reading);
        self.now = now;
        self.run_times.note(now, reading.passed);
        self.pause = self.pause.or(pause);
        self.segments.trim(now);
        let first = self.segments.all.front().map_or(0, |first| first.began);
        while self.rates.all.front().is_some_and(|(time, _)| *time < first) {
            self.rates.all.pop_front();
        }
    }

    /// Reports whether the next look begins a segment that does not go on where the last one ends.
    pub fn begins_anew(&self) -> bool {
        self.grace_end.is_none() || self.pause.is_some()
    }

    fn append(&mut self, entry: Entry) {
        self.segments.append(&Stamped { time: self.now, entry });
    }

    /// Follows the network to a snapshot, and keeps the lines from this number on.
    pub fn look_and_read(
        &mut self,
        state: &Snapshot,
        is_away: impl Fn(Dpid) -> bool,
        lines: &[LogEntry],
        next: &mut u64,
    ) {
        // Lines go to the segment that is there when they are written.
        let begins_anew = self.begins_anew();
        if begins_anew {
            self.look(state, &is_away);
        }
        for line in lines {
            self.leave_out(line.number - *next);
            self.line(line);
            *next = line.number + 1;
        }
        if !begins_anew {
            self.look(state, is_away);
        }
    }

    /// Keeps what shards have answered.
    pub fn note(&mut self, progress: AskingProgress) {
        match progress {
            AskingProgress::Nothing | AskingProgress::Asked | AskingProgress::Ended => {}
            AskingProgress::Late => self.rate(None, true),
            AskingProgress::Answered(Answers { counts, drops }) => {
                self.rate(Some(counts), false);
                self.drop_packets(&drops);
            }
        }
    }

    /// Follows the network to a snapshot.
    pub fn look(&mut self, state: &Snapshot, is_away: impl Fn(Dpid) -> bool) {
        let is_first = self.grace_end.is_none();
        let grace_end = *self.grace_end.get_or_insert(self.now + self.grace);
        if is_first {
            match self.segments.all.back() {
                Some(last) if self.now - last.ended <= DAY => self.follower.take_over(&mut self.network),
                _ => self.network = NetworkThen::default(),
            }
        }
        if self.now >= grace_end {
            self.follower.give_up_unseen();
        }
        // A segment begins with the whole network, so what has changed takes no further room there.
        let begins = is_first || self.pause.is_some() || self.segments.is_full(self.now);
        let (changes, known) = self.follower.look(self.now, begins, &mut self.network, state, is_away);
        self.known = Known { late: self.rates.late, ..known };
        self.rates.next.pending = known.pending + known.beyond;
        self.rates.next.changes = self.rates.next.changes.saturating_add(changes.len() as u32);
        if is_first || !changes.is_empty() {
            self.links = self.network.links().count() as u32;
        }
        if begins {
            let (after, ahead, known) = (self.pause.take(), self.clock.ahead(), self.known);
            let former = self.segments.all.back().map_or(0, |last| last.size as u64);
            self.segments.begin(self.now, Begin { after, ahead, former, known, network: self.network.clone() });
            self.reported = known;
        } else if !changes.is_empty() || is_worse(&self.known, &self.reported) {
            self.announce(changes);
        }
        self.segments.extend(self.now);
    }

    fn announce(&mut self, changes: Vec<NetworkChange>) {
        self.reported = self.known;
        self.append(Entry::Look { known: self.known, changes });
    }

    /// Keeps a line of the log, if it is about the network, or says that something is wrong.
    pub fn line(&mut self, line: &LogEntry) {
        let is_about_network = matches!(line.area, "topology" | "hosts");
        if line.level > Level::Warning && !is_about_network {
            return;
        }
        let Some(began) = self.segments.all.back().map(|last| last.began) else { return };
        let own = self.clock.own(milliseconds(line.time));
        let time = own.clamp(began, self.now);
        // A line that is much older is from before the clock was set.
        let before = Some(time - own.min(time)).filter(|before| *before <= BEFORE).unwrap_or_default();
        let (level, area) = (line.level.name().to_owned(), line.area.to_owned());
        let kept = LineThen { before, number: line.number, level, area, text: shortened(&line.text, MAX_TEXT) };
        if self.lines.spend(self.now, kept.size()) {
            self.segments.append(&Stamped { time, entry: Entry::Line(kept) });
        } else {
            self.leave_out(1);
        }
    }

    /// Counts what is not kept.
    pub fn leave_out(&mut self, count: u64) {
        self.rates.next.left_out = self.rates.next.left_out.saturating_add(count);
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
        let (now, budget) = (self.now, &mut self.drops);
        let fit = rows.iter().take(MAX_DROPS).take_while(|row| budget.spend(now, row.size())).count();
        let others = rows.drain(fit..).fold(0u64, |sum, row| sum.saturating_add(row.packets));
        if !rows.is_empty() || others > 0 {
            self.append(Entry::Drops { rows, others });
        }
    }

    /// Keeps the rates since the last time, by these counts. `late`: whether a shard did not answer in time.
    pub fn rate(&mut self, counts: Option<CountsThen>, late: bool) {
        let (now, rates) = (self.now, &mut self.rates);
        let growth = |((since, before), counts): ((u64, CountsThen), CountsThen)| Growth {
            span: now.saturating_sub(since),
            counts: counts.growth_since(before),
        };
        let own = RatesThen {
            span: now.saturating_sub(rates.since.unwrap_or(now)),
            growth: rates.counted.zip(counts).map(growth),
            late,
            switches: self.network.switches.len() as u32,
            links: self.links,
            hosts: self.network.hosts.len() as u32,
            ..rates.next
        };
        rates.all.push_back((now, own));
        // After a late answer, the next one says what has grown since the one before.
        rates.counted = counts.map(|counts| (now, counts)).or(rates.counted);
        (rates.since, rates.late) = (Some(now), late);
        rates.next = RatesThen { pending: rates.next.pending, ..RatesThen::default() };
        self.append(Entry::Rates(own));
        self.known.late = late;
        if (Known { version: 0, ..self.known }) != (Known { version: 0, ..self.reported }) {
            self.announce(Vec::new());
        }
    }
}

/// Reports whether there is a doubt that is not kept yet. What has become better is kept with the rates.
fn is_worse(known: &Known, reported: &Known) -> bool {
    let kinds = |known: &Known| [known.pending > 0, known.beyond > 0, known.unseen > 0, known.late];
    kinds(known).into_iter().zip(kinds(reported)).any(|(now, before)| now && !before)
}
