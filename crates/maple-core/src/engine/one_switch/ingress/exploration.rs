//! The exploration of a switch: what was explored, and what is still open.

use std::fmt;
use std::time::Duration;

use maple_wire::counted;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::ids::Time;
use crate::trace::Source;

/// Numbers that change when there may be something new to explore: edits of the tree, changes of the classes of keys,
/// and moves of hosts.
pub(in crate::engine) type SeenState = (u64, u64, u64);

/// The exploration of a switch. `engine/beforehand/explore/` drives it.
#[derive(Clone, Debug, Default)]
pub(in crate::engine) struct ExplorationState {
    /// The state at the end of the last pass.
    pub seen: Option<SeenState>,
    /// Whether a pass is to begin, and a timer is set for it.
    pub is_due: bool,
    /// The time before which no pass begins.
    pub not_before: Time,
    /// The pass under way.
    pub pass: Option<ExplorationPass>,
    /// The result of the last pass.
    pub result: Option<Exploration>,
    /// The packets that were tried and have no leaf, by their hashes, and why. A pass that begins before
    /// [`ExplorationState::again_at`] does not try them again.
    pub without_leaf: FxHashMap<u64, NoLeaf>,
    pub again_at: Time,
    /// The time between two passes that try them again. It grows.
    pub rest: Duration,
}

/// A pass over the open places of a tree.
#[derive(Clone, Debug, Default)]
pub(in crate::engine) struct ExplorationPass {
    /// Hashes of the packets on which f ran, in this pass or in one that is not to be repeated yet.
    pub tried: FxHashSet<u64>,
    /// The number of packets on which f ran in this pass.
    pub runs: usize,
    /// The number of runs that were stopped because they took too long.
    pub too_long: usize,
}

/// The reason why a run on a packet that exploration made up gives no leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoLeaf {
    /// f writes state for such a packet.
    Writes,
    /// f prints for such a packet.
    Prints,
    /// f waits until something changes (`retry`).
    Waits,
    /// f fails.
    Fails,
    /// A constraint refuses the route.
    Refused,
    /// f looks up what no packet has looked up yet, and the last table for look-ups is for packets that come.
    AsksFirst,
    /// Each such packet must come to the controller: f sends frames of its own, looks at the whole frame, or a listener
    /// receives it.
    NeedsController,
}

/// The result of exploration at a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exploration {
    /// Whether nothing has changed since.
    pub is_current: bool,
    /// The bound that ended the exploration before all was tried, if one did.
    pub stopped: Option<ExplorationBound>,
    /// The open questions, each once, in order.
    pub open: Vec<OpenQuestion>,
}

/// A bound of exploration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExplorationBound {
    /// The switch has this number of decisions.
    Leaves(usize),
    /// Half of the rules that the switch can hold are used.
    Rules,
    /// The policy has run on this number of packets, and more were left.
    Runs(usize),
    /// The policy reads what is not tracked.
    Untracked,
    /// The policy took too long for some packets.
    TooLong,
}

/// A question of f to which packets may give an answer that none has given yet.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OpenQuestion {
    /// The line of the question, if it is known.
    pub source: Option<Source>,
    /// The question, and which answers are missing.
    pub what: String,
    /// The number of places in the tree where they are missing, or of packets.
    pub count: usize,
}

impl ExplorationState {
    /// Forgets what was explored, because another policy decides, or packets may enter by other ports.
    pub fn forget(&mut self) {
        *self = ExplorationState { not_before: self.not_before, ..ExplorationState::default() };
    }
}

impl Exploration {
    /// Reports whether no packet of a known host comes to the controller, unless something changes.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.is_current && self.stopped.is_none() && self.open.is_empty()
    }
}

impl fmt::Display for NoLeaf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NoLeaf::Writes => "the policy writes state for it",
            NoLeaf::Prints => "the policy prints for it",
            NoLeaf::Waits => "the policy waits for a change",
            NoLeaf::Fails => "the policy fails on it",
            NoLeaf::Refused => "a constraint refuses its route",
            NoLeaf::AsksFirst => "the last table for look-ups is for packets that come",
            NoLeaf::NeedsController => "each such packet comes to the controller",
        })
    }
}

impl fmt::Display for ExplorationBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExplorationBound::Leaves(count) => {
                write!(f, "the switch has {}, the bound of exploration", counted(*count as u64, "decision"))
            }
            ExplorationBound::Runs(count) => {
                write!(f, "the policy has run on {}", counted(*count as u64, "packet"))
            }
            ExplorationBound::Untracked => f.write_str("the policy reads what is not tracked"),
            ExplorationBound::TooLong => f.write_str("the policy takes too long for packets that were tried"),
            ExplorationBound::Rules => f.write_str("half of the switch's room for rules is used"),
        }
    }
}
