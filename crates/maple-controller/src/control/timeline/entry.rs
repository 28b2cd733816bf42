//! Entries of segments, which the timeline keeps.

use std::ops::Add;

use maple_wire::Dpid;
use serde::{Deserialize, Serialize};

use super::network::{NetworkChange, NetworkThen};

/// A time of the [ordered clock](super::clock), or of one of the two clocks from which it is made.
pub(super) type Milliseconds = u64;

/// An entry with its time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stamped {
    pub time: Milliseconds,
    pub entry: Entry,
}

/// The maximum number of bytes that an entry about the network takes without its changes, roughly: its time and the
/// lengths of its lists.
pub(super) const LOOK_ENTRY_BYTES: usize = 40;

/// An event, or a state, of the network or the controller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Entry {
    /// The beginning of a segment.
    Begin(Box<Begin>),
    /// The changes in the network, and how well it is known from now on.
    Look { known: Known, changes: Vec<NetworkChange> },
    /// A line of the log.
    Line(LineThen),
    /// The packets that were dropped in a minute, those with the most packets first, and the packets of all others.
    Drops { rows: Vec<DropThen>, others: u64 },
    /// The rates since the entry of this kind before.
    Rates(RatesThen),
}

/// The beginning of a segment: a whole network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Begin {
    /// The reason why it does not go on where the segment before ended; `None` if it does. A run's first segment never
    /// does.
    pub after: Option<Pause>,
    /// The milliseconds by which the ordered clock is ahead of the system's clock.
    pub ahead: i64,
    /// The bytes of the segment before, if it goes on there.
    pub former: u64,
    pub known: Known,
    pub network: NetworkThen,
}

/// The reason why nothing was kept for a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Pause {
    /// The controller did not run.
    Stopped,
    /// The controller ran, and could not look.
    Held,
    /// The clock was set by this number of milliseconds; less than zero if it was set back.
    Clock(i64),
}

/// The extent to which the network is known at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Known {
    /// The version of the snapshot, as events have it.
    pub version: u64,
    /// The number of parts of the network that are not as they are kept: there was too much to keep at once.
    pub pending: u64,
    /// The number of parts of the network that are not kept: there are more than are followed.
    pub beyond: u64,
    /// The number of parts of the network that are as an earlier run knew them: this one has not seen them yet.
    pub unseen: u64,
    /// Whether a shard did not answer in time, so its part of the network may be older.
    pub late: bool,
}

/// A line of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct LineThen {
    /// The milliseconds before the time of the entry at which the line was written: zero, or it is from before the
    /// segment.
    pub before: u64,
    pub number: u64,
    pub level: String,
    pub area: String,
    pub text: String,
}

/// The drops of a switch in a minute for one reason.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct DropThen {
    pub packets: u64,
    pub switch: Dpid,
    pub line: Option<String>,
    pub why: String,
}

/// The rates of some seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RatesThen {
    /// The milliseconds that it is about.
    pub span: u64,
    /// The growth of counts; `None` if a shard did not answer, or for want of counts before.
    pub growth: Option<Growth>,
    /// Whether a shard did not answer in time.
    pub late: bool,
    pub switches: u32,
    pub links: u32,
    pub hosts: u32,
    /// The changes of the network that were kept.
    pub changes: u32,
    /// The number of parts of the network that were not as they are kept, or are not kept.
    pub pending: u64,
    /// The lines of the log, and kinds of drops, for which there was no room.
    pub left_out: u64,
}

/// The growth of counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Growth {
    /// The milliseconds in which they grew: longer than the span of an entry, if a shard had not answered before.
    pub span: u64,
    pub counts: CountsThen,
}

/// Counts of all shards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CountsThen {
    pub packet_ins: u64,
    pub decisions: u64,
    pub flow_mods: u64,
    pub failures: u64,
}

impl Add for CountsThen {
    type Output = CountsThen;

    fn add(self, other: CountsThen) -> CountsThen {
        CountsThen {
            packet_ins: self.packet_ins.saturating_add(other.packet_ins),
            decisions: self.decisions.saturating_add(other.decisions),
            flow_mods: self.flow_mods.saturating_add(other.flow_mods),
            failures: self.failures.saturating_add(other.failures),
        }
    }
}

impl CountsThen {
    /// Returns how much they have grown since these counts.
    pub fn growth_since(self, before: CountsThen) -> CountsThen {
        CountsThen {
            packet_ins: self.packet_ins.saturating_sub(before.packet_ins),
            decisions: self.decisions.saturating_sub(before.decisions),
            flow_mods: self.flow_mods.saturating_sub(before.flow_mods),
            failures: self.failures.saturating_sub(before.failures),
        }
    }
}

impl LineThen {
    /// Returns about how many bytes the line takes.
    pub fn size(&self) -> usize {
        40 + self.text.len()
    }
}

impl DropThen {
    /// Returns about how many bytes the drop takes.
    pub fn size(&self) -> usize {
        32 + self.line.as_ref().map_or(0, String::len) + self.why.len()
    }
}

impl RatesThen {
    /// Joins these rates with those that came after them.
    pub fn join(self, next: RatesThen) -> RatesThen {
        let growth = match (self.growth, next.growth) {
            (Some(a), Some(b)) => Some(Growth { span: a.span + b.span, counts: a.counts + b.counts }),
            (one, other) => one.or(other),
        };
        RatesThen {
            span: self.span + next.span,
            growth,
            late: self.late || next.late,
            changes: self.changes.saturating_add(next.changes),
            left_out: self.left_out.saturating_add(next.left_out),
            ..next
        }
    }
}

/// Shortens a text to about this many characters. Its last line stays: that of a traceback says what the error is.
pub(super) fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let begin = |text: &str, most: usize| text.chars().take(most).collect::<String>();
    match text.trim_end().rsplit_once('\n') {
        Some((head, last)) => {
            let last = begin(last, most / 2);
            format!("{}\n…\n{last}", begin(head, most - last.chars().count()))
        }
        None => begin(text, most) + "…",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_keeps_its_last_line() {
        assert_eq!(shortened("short\ntext", 400), "short\ntext");
        let traceback = format!("Traceback:\n{}KeyError: 'h7'\n", "  File \"acl.py\", line 3, in f\n".repeat(100));
        let kept = shortened(&traceback, 400);
        assert!(kept.starts_with("Traceback:\n  File") && kept.ends_with("\n…\nKeyError: 'h7'"), "{kept}");
        assert!(kept.chars().count() <= 403);
        let long = shortened(&format!("a\n{}", "é".repeat(5000)), 400);
        assert!(long.starts_with("a\n…\nééé") && long.chars().count() <= 403);
        assert_eq!(shortened(&"x".repeat(500), 400), "x".repeat(400) + "…");
    }
}
