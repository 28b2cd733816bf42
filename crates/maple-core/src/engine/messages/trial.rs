//! Candidates for the place of a policy, and what came of their trials.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::network::{Location, Mac};
use crate::policy::Policy;

/// The maximum number of different errors that a trial reports. Chosen: they fit a screen. Errors with values of
/// packets in them would be as many as leaves.
const MAX_ERRORS: usize = 16;
/// The maximum number of differences between two policies, or two lists, that are reported one by one. Chosen: more
/// than people read, and a bound on the answer; the counts include all.
pub const MAX_DIFFERENCES: usize = 1000;

/// A policy that may take the place of the one that runs.
#[derive(Clone)]
pub struct Candidate {
    /// The candidate's number, which tells candidates apart.
    pub number: u64,
    /// The policy.
    pub policy: Arc<dyn Policy>,
}

impl fmt::Debug for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Candidate").field("number", &self.number).finish_non_exhaustive()
    }
}

/// The outcome of a shard's trial of a candidate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trial {
    /// The number of leaves whose witness packets the candidate decided.
    pub leaves: usize,
    /// The number of leaves whose packets go where they went, in the same way.
    pub same: usize,
    /// The number of leaves that it decided otherwise, by kind.
    pub counts: BTreeMap<DifferenceKind, usize>,
    /// The decisions that differ, the first 1000 of each shard.
    pub differences: Vec<Difference>,
    /// The number of leaves for which it failed, without those of packets that nobody has sent.
    pub failed: usize,
    /// The candidate's errors, each with the number of leaves; at most 16 of them.
    pub errors: BTreeMap<Arc<str>, usize>,
}

impl Trial {
    /// Counts a leaf on whose packet f fails with this error.
    pub(in crate::engine) fn count_error(&mut self, text: Arc<str>) {
        if self.errors.len() < MAX_ERRORS || self.errors.contains_key(&text) {
            *self.errors.entry(text).or_default() += 1;
        }
    }
}

impl std::ops::AddAssign for Trial {
    fn add_assign(&mut self, other: Trial) {
        self.leaves += other.leaves;
        self.same += other.same;
        self.failed += other.failed;
        other.counts.into_iter().for_each(|(kind, count)| *self.counts.entry(kind).or_default() += count);
        self.differences.extend(other.differences);
        for (error, leaves) in other.errors {
            if self.errors.len() < MAX_ERRORS || self.errors.contains_key(&error) {
                *self.errors.entry(error).or_default() += leaves;
            }
        }
    }
}

/// The kind of difference between a candidate's decision and that of the policy that runs, from the point of view of
/// those who receive packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DifferenceKind {
    /// The packet leaves by fewer edge ports: some are gone, and none is new.
    Loses,
    /// The packet leaves by more edge ports: some are new, and none is gone.
    Gains,
    /// The packet leaves by other edge ports: some are gone, and others are new.
    GoesElsewhere,
    /// The packet leaves by the same edge ports, but takes another path to them.
    Moves,
    /// The packet takes the same path, but is treated otherwise: rewrites, queues, limits, frames of f's own.
    Treated,
    /// The candidate has no answer until state changes (`retry`).
    Waits,
    /// The candidate fails.
    Fails,
}

/// A decision, as people read it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DecisionSummary {
    /// The route, such as `drop` or `1:2, 2:3`, or the error.
    pub route: String,
    /// The edge ports where it leaves, in order.
    pub exits: Vec<Location>,
    /// The source lines that decided, in order; empty if they are not known.
    pub lines: String,
}

/// A packet that the network has decided, as people read it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DecidedPacket {
    /// The port where it entered.
    pub at: Location,
    /// The host that sent it.
    pub from: Mac,
    /// The address that it is sent to.
    pub to: Mac,
    /// The packet in one line.
    pub summary: String,
    /// Whether nobody has sent it: exploration has made it up.
    pub is_made_up: bool,
}

/// A difference between two decisions about a leaf's packets: that of the policy that runs, and that of a candidate.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Difference {
    /// The kind of difference.
    pub kind: DifferenceKind,
    /// The leaf's witness packet.
    pub packet: DecidedPacket,
    /// The decision of the policy that runs.
    pub before: DecisionSummary,
    /// The decision of the candidate.
    pub after: DecisionSummary,
}

impl DifferenceKind {
    /// All kinds, in the order in which people want to read them.
    pub const ALL: [DifferenceKind; 7] = [
        DifferenceKind::Loses,
        DifferenceKind::Gains,
        DifferenceKind::GoesElsewhere,
        DifferenceKind::Moves,
        DifferenceKind::Treated,
        DifferenceKind::Waits,
        DifferenceKind::Fails,
    ];

    /// Returns the name of the kind, such as `loses`.
    pub fn name(self) -> &'static str {
        match self {
            DifferenceKind::Loses => "loses",
            DifferenceKind::Gains => "gains",
            DifferenceKind::GoesElsewhere => "goes elsewhere",
            DifferenceKind::Moves => "moves",
            DifferenceKind::Treated => "treated otherwise",
            DifferenceKind::Waits => "waits",
            DifferenceKind::Fails => "fails",
        }
    }
}

impl fmt::Display for DifferenceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for DecidedPacket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let made_up = if self.is_made_up { " (made up)" } else { "" };
        write!(f, "{} at {}{made_up}", self.summary, self.at)
    }
}
