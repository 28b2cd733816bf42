//! Questions to the timeline: moments, spans, and the times of which not everything is kept.
//!
//! A request plans under the lock what it has to read, and reads without it. What turns out to be unreadable becomes a
//! gap, and the request plans again. So a damaged file costs its own time, and nothing else.

use std::fmt;
use std::time::{Duration, SystemTime};

use super::entry::{Entry, Known, Milliseconds, Pause, Stamped};
use super::network::NetworkThen;
use super::segment_format::{each_entry, entry_at};
use super::segments::{Block, Unreadable};
use super::timeline_state::TimelineState;
use crate::time::timestamp;

/// A time of which not everything is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Gap {
    pub from: u64,
    pub to: u64,
    pub why: GapReason,
}

/// The reason why not everything is kept of a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum GapReason {
    Paused(Pause),
    /// The disk refused it.
    Refused,
    /// The entries of that time had to give way to what is newer.
    GaveWay,
    /// A file can't be read. Recording may also have paused after it, for this reason.
    Damaged(String, Option<Pause>),
    /// A shard did not answer in time. Moments are kept, but counts and drops are missing.
    Late,
}

impl GapReason {
    /// Returns the name in JSON.
    pub fn name(&self) -> &'static str {
        match self {
            GapReason::Paused(Pause::Stopped) => "stopped",
            GapReason::Paused(Pause::Held) => "held",
            GapReason::Paused(Pause::Clock(_)) => "clock",
            GapReason::Refused => "disk",
            GapReason::GaveWay => "room",
            GapReason::Damaged(..) => "damaged",
            GapReason::Late => "late",
        }
    }
}

impl fmt::Display for GapReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GapReason::Paused(Pause::Stopped) => f.write_str("the controller did not run"),
            GapReason::Paused(Pause::Held) => f.write_str("the controller was held up"),
            GapReason::Paused(Pause::Clock(by)) => {
                let (way, seconds) = (if *by < 0 { "back" } else { "forward" }, by.unsigned_abs().div_ceil(1000));
                write!(f, "the clock was set {way} by {seconds} s")
            }
            GapReason::Refused => f.write_str("the disk refused to keep what happened"),
            GapReason::GaveWay => f.write_str("what happened gave way to what is newer"),
            GapReason::Damaged(what, None) => write!(f, "what was kept can't be read ({what})"),
            GapReason::Damaged(what, Some(pause)) => {
                let pause = GapReason::Paused(*pause);
                write!(f, "what was kept last can't be read ({what}), and then {pause}")
            }
            GapReason::Late => f.write_str("a worker did not answer in time"),
        }
    }
}

/// A part of the timeline that is to be read.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub number: u32,
    source: Source,
}

#[derive(Clone, Debug)]
enum Source {
    Memory(Vec<Block>),
    /// The first bytes of a file, as many as this.
    File(usize),
}

/// The error of reading a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ReadError {
    /// The disk has not answered in time.
    Late,
    /// The system refuses to read what is kept, which is there as before for all that is known.
    Refused(String),
    /// The file is damaged, or gone.
    Unreadable(String),
}

/// Reads the first bytes of a segment's file.
pub(super) type ReadFile<'a> = &'a dyn Fn(u32, usize) -> Result<Vec<u8>, ReadError>;

impl Part {
    /// Reports whether the part is in memory.
    pub fn is_in_memory(&self) -> bool {
        matches!(self.source, Source::Memory(_))
    }

    /// Reads the entries in order.
    pub fn each(&self, read: ReadFile<'_>, mut each: impl FnMut(Stamped)) -> Result<(), ReadError> {
        let unreadable = |why: &dyn fmt::Display| ReadError::Unreadable(why.to_string());
        match &self.source {
            Source::Memory(blocks) => {
                for block in blocks.iter().skip(1) {
                    each(entry_at(block).map_err(|damage| unreadable(&damage))?.0);
                }
                Ok(())
            }
            Source::File(length) => match each_entry(&read(self.number, *length)?, each) {
                (_, Some(damage)) => Err(unreadable(&damage)),
                (whole, None) if whole < *length => Err(unreadable(&"it is shorter than it was")),
                _ => Ok(()),
            },
        }
    }

    /// Reads the network at a moment, and how well it was known.
    pub fn network_at(&self, read: ReadFile<'_>, time: Milliseconds) -> Result<(NetworkThen, Known), ReadError> {
        let (mut then, mut of_then) = (NetworkThen::default(), Known::default());
        self.each(read, |one| {
            if one.time <= time {
                then.follow(&one.entry);
                match one.entry {
                    Entry::Begin(begin) => of_then = begin.known,
                    Entry::Look { known, .. } => of_then = known,
                    Entry::Line(_) | Entry::Drops { .. } | Entry::Rates(_) => {}
                }
            }
        })?;
        Ok((then, of_then))
    }
}

impl TimelineState {
    /// Returns the first and the last moment that is kept.
    pub fn range(&self) -> Option<(u64, u64)> {
        self.segments.all.front().zip(self.segments.all.back()).map(|(first, last)| (first.began, last.ended))
    }

    /// Returns the times in which nothing was kept, in order.
    pub fn gaps(&self) -> impl Iterator<Item = Gap> + '_ {
        let segments = &self.segments;
        segments.all.iter().zip(segments.all.iter().skip(1)).filter_map(|(one, next)| {
            let missing = one.number + 1..next.number;
            let unreadable = segments.unreadable.range(missing.clone()).next();
            let why = if let Some(damage) = &one.damage {
                GapReason::Damaged(format!("{}, {damage}", file_name(one.number)), next.after)
            } else if segments.refused.contains(&next.number) {
                GapReason::Refused
            } else if let Some((number, Unreadable { why, .. })) = unreadable {
                GapReason::Damaged(format!("{}: {why}", file_name(*number)), next.after)
            } else if !missing.is_empty() {
                GapReason::GaveWay
            } else {
                GapReason::Paused(next.after?)
            };
            Some(Gap { from: one.ended, to: next.began, why })
        })
    }

    /// Returns the times in which a shard did not answer in time, in order.
    pub fn late(&self) -> Vec<Gap> {
        let mut all: Vec<Gap> = Vec::new();
        for (to, rates) in self.rates.all.iter().filter(|(_, rates)| rates.late) {
            let from = to.saturating_sub(rates.span);
            match all.last_mut() {
                Some(last) if last.to == from => last.to = *to,
                _ => all.push(Gap { from, to: *to, why: GapReason::Late }),
            }
        }
        all
    }

    /// Returns what to read for a moment.
    ///
    /// # Errors
    /// A text that says what is kept, if this is not.
    pub fn part_of(&self, time: Milliseconds) -> Result<Part, String> {
        let Some((from, to)) = self.range() else { return Err("nothing is kept yet".to_owned()) };
        if !(from..=to).contains(&time) {
            let (from, to) = (self.text(from), self.text(to));
            return Err(format!("this moment is not kept; what is kept is from {from} to {to}"));
        }
        if let Some(Gap { from, to, why }) = self.gap_at(time) {
            return Err(format!("this moment is not kept: {why} from {} to {}", self.text(from), self.text(to)));
        }
        Ok(self.part(self.segments.all.partition_point(|segment| segment.began <= time) - 1))
    }

    fn gap_at(&self, time: Milliseconds) -> Option<Gap> {
        self.gaps().find(|gap| gap.from < time && time < gap.to)
    }

    /// Returns the first moment from this one on that is kept, and the last one up to it.
    pub fn nearest(&self, time: Milliseconds) -> (Milliseconds, Milliseconds) {
        self.gap_at(time).map_or((time, time), |gap| (gap.to, gap.from))
    }

    /// Returns what to read of the time between two moments.
    pub fn parts(&self, from: Milliseconds, to: Milliseconds) -> Vec<Part> {
        let all = &self.segments.all;
        let first = all.partition_point(|segment| segment.began <= from).saturating_sub(1);
        (first..all.partition_point(|segment| segment.began <= to)).map(|at| self.part(at)).collect()
    }

    fn part(&self, at: usize) -> Part {
        let segment = &self.segments.all[at];
        let source = segment.blocks.clone().map_or(Source::File(segment.size), Source::Memory);
        Part { number: segment.number, source }
    }

    /// Returns a moment for people.
    fn text(&self, time: u64) -> String {
        timestamp(SystemTime::UNIX_EPOCH + Duration::from_millis(self.clock.shown(time)))
    }
}

/// Returns the name of a segment's file.
pub(super) fn file_name(number: u32) -> String {
    format!("{number:08}.segment")
}
