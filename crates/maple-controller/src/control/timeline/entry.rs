//! What the timeline keeps: the entries of segments.

use maple_wire::Dpid;
use serde::{Deserialize, Serialize};

use super::network::{NetworkChange, NetworkThen};

/// An entry with its time, in milliseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stamped {
    pub time: u64,
    pub entry: Entry,
}

/// What happened, or what was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Entry {
    /// The network with which a segment begins. The version is that of the snapshot, as events tell it.
    Begin { continues: bool, version: u64, network: NetworkThen },
    /// What changed in the network up to this version.
    Changes { version: u64, changes: Vec<NetworkChange> },
    /// A line of the log.
    Line { number: u64, level: String, area: String, text: String },
    /// What was dropped in a minute, those with the most packets first, and the packets of all others.
    Drops { rows: Vec<DropThen>, others: u64 },
    /// How it went since the entry of this kind before.
    Rates(RatesThen),
}

/// What a switch dropped in a minute for one reason.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct DropThen {
    pub packets: u64,
    pub switch: Dpid,
    pub line: Option<String>,
    pub why: String,
}

/// How it went for some seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RatesThen {
    /// The milliseconds that it is about.
    pub span: u64,
    /// The growth of counts; `None` if a shard did not answer, or for want of counts before.
    pub counts: Option<CountsThen>,
    pub switches: u32,
    pub links: u32,
    pub hosts: u32,
    /// The changes of the network that were kept.
    pub changes: u32,
    /// How many parts of the network are not as they are kept, because there was too much to keep.
    pub pending: u64,
    /// The lines of the log, and kinds of drops, for which there was no room.
    pub left_out: u64,
}

/// The growth of counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CountsThen {
    pub packet_ins: u64,
    pub decisions: u64,
    pub flow_mods: u64,
    pub failures: u64,
}

impl RatesThen {
    /// Joins this with what came after it.
    pub fn join(self, next: RatesThen) -> RatesThen {
        let counts = match (self.counts, next.counts) {
            (Some(a), Some(b)) => Some(CountsThen {
                packet_ins: a.packet_ins + b.packet_ins,
                decisions: a.decisions + b.decisions,
                flow_mods: a.flow_mods + b.flow_mods,
                failures: a.failures + b.failures,
            }),
            _ => None,
        };
        RatesThen {
            span: self.span + next.span,
            counts,
            changes: self.changes.saturating_add(next.changes),
            left_out: self.left_out.saturating_add(next.left_out),
            ..next
        }
    }
}
