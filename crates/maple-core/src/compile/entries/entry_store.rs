//! The entries themselves: match, tree node, verdict and state of each.
//!
//! The store is a set of arrays with one item for each entry, so that a question about many neighbours reads little
//! memory. It knows nothing about overlaps, levels or rules.

use maple_wire::{Constraint, Field};

use super::actions::ActionId;
use super::packed::{PackedLayout, PackedMatches};
use crate::tree::{LeafId, NodeId, Tree};

/// The name of an entry while it exists. Numbers are reused ([`EntryStore::recycle`]).
pub(in crate::compile) type EntryId = u32;

/// The treatment of a packet whose first entry this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::compile) enum EntryVerdict {
    /// Sends it to the controller: no trace has reached it. It may become [`EntryVerdict::Forward`].
    Unexplored,
    /// Sends it to the controller, which can tell more packets apart than a match can.
    PartiallyExplored,
    /// Applies a leaf's instructions.
    Forward(ActionId),
}

/// The state of an entry: what it counts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EntryState {
    /// The entry was removed, and lists may still name it; or the number was never used.
    Gone,
    /// The entry is covered by earlier ones, so no packet gets to it. It counts for nothing.
    Shadowed,
    /// The entry sends packets to the controller. It is a rule if it is required (`redundancy/`).
    Barrier,
    /// The entry applies instructions. It is a rule.
    Forward,
}

/// The parts of an entry that neighbours read most often, besides its state.
#[derive(Clone, Copy, Debug)]
struct EntryHot {
    node: NodeId,
    verdict: EntryVerdict,
}

/// The entries of a table.
#[derive(Clone, Debug, Default)]
pub(super) struct EntryStore {
    layout: PackedLayout,
    matches: PackedMatches,
    hot: Vec<EntryHot>,
    states: Vec<EntryState>,
    leaves: Vec<Option<LeafId>>,
    /// Numbers that no entry has and no list names.
    free: Vec<EntryId>,
    len: usize,
    shadowed: usize,
}

impl EntryStore {
    /// Adds an entry whose match was packed by [`EntryStore::pack`].
    pub(super) fn insert(&mut self, set: &[u64], node: NodeId, leaf: Option<LeafId>, verdict: EntryVerdict) -> EntryId {
        let hot = EntryHot { node, verdict };
        let id = match self.free.pop() {
            Some(id) => {
                (self.hot[id as usize], self.leaves[id as usize]) = (hot, leaf);
                id
            }
            None => {
                self.hot.push(hot);
                self.leaves.push(leaf);
                self.states.push(EntryState::Gone);
                EntryId::try_from(self.hot.len() - 1).expect("a table has fewer than 2^32 entries")
            }
        };
        self.matches.set(id, set);
        self.len += 1;
        self.set_state(id, state_of(verdict));
        id
    }

    /// Removes an entry and returns its verdict. Its match can be read until the number is reused.
    pub(super) fn remove(&mut self, id: EntryId) -> EntryVerdict {
        self.set_state(id, EntryState::Gone);
        self.len -= 1;
        self.verdict(id)
    }

    /// Allows numbers of removed entries to be reused. Nothing may name them.
    pub(super) fn recycle(&mut self, mut ids: Vec<EntryId>) {
        self.free.append(&mut ids);
    }

    /// Changes an entry's verdict and leaf.
    pub(super) fn set_verdict(&mut self, id: EntryId, leaf: Option<LeafId>, verdict: EntryVerdict) {
        self.hot[id as usize].verdict = verdict;
        self.leaves[id as usize] = leaf;
        if self.state(id) != EntryState::Shadowed {
            self.set_state(id, state_of(verdict));
        }
    }

    /// Sets whether earlier entries cover an entry.
    pub(super) fn set_shadowed(&mut self, id: EntryId, is_shadowed: bool) {
        let state = if is_shadowed { EntryState::Shadowed } else { state_of(self.verdict(id)) };
        self.set_state(id, state);
    }

    pub(super) fn state(&self, id: EntryId) -> EntryState {
        self.states[id as usize]
    }

    pub(super) fn verdict(&self, id: EntryId) -> EntryVerdict {
        self.hot[id as usize].verdict
    }

    pub(super) fn node(&self, id: EntryId) -> NodeId {
        self.hot[id as usize].node
    }

    /// Returns the leaf that the entry belongs to, if any.
    pub(super) fn leaf(&self, id: EntryId) -> Option<LeafId> {
        self.leaves[id as usize]
    }

    /// Returns a number that is smaller for entries that take precedence.
    pub(super) fn rank(&self, tree: &Tree, id: EntryId) -> u64 {
        tree.rank(self.node(id))
    }

    /// Returns the packed match of an entry.
    #[inline]
    pub(super) fn matching(&self, id: EntryId) -> &[u64] {
        self.matches.get(id)
    }

    /// Returns all packed matches, by entry.
    pub(super) fn matches(&self) -> &PackedMatches {
        &self.matches
    }

    /// Reports whether an entry has this number.
    pub(super) fn is_there(&self, id: EntryId) -> bool {
        self.state(id) != EntryState::Gone
    }

    pub(super) fn is_shadowed(&self, id: EntryId) -> bool {
        self.state(id) == EntryState::Shadowed
    }

    /// Returns all entries, by number.
    pub(super) fn ids(&self) -> impl Iterator<Item = EntryId> {
        (0..self.states.len() as EntryId).filter(|id| self.is_there(*id))
    }

    /// Returns the number of entries.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns the number of shadowed entries.
    pub(super) fn shadowed(&self) -> usize {
        self.shadowed
    }

    /// Returns one more than the largest number that was ever used.
    pub(super) fn numbers(&self) -> usize {
        self.states.len()
    }

    /// Packs a match, if all its fields have a place.
    pub(super) fn pack(&self, all: &[Constraint], set: &mut Vec<u64>) -> bool {
        self.layout.pack(all, set)
    }

    /// Gives each field of a match a place. If that makes matches longer, returns the number of words that they then
    /// take.
    pub(super) fn admit(&mut self, all: &[Constraint]) -> Option<usize> {
        let is_longer = self.layout.admit(all);
        is_longer.then(|| {
            self.matches.widen(self.layout.stride(), self.numbers());
            self.layout.stride()
        })
    }

    /// Returns the constraints of a packed match, in OXM order.
    pub(super) fn unpack(&self, set: &[u64]) -> impl Iterator<Item = Constraint> {
        self.layout.unpack(set)
    }

    /// Returns the fields that matches of this table name, in OXM order.
    pub(super) fn fields(&self) -> impl ExactSizeIterator<Item = Field> {
        self.layout.all()
    }

    #[cfg(test)]
    pub(super) fn free(&self) -> &[EntryId] {
        &self.free
    }

    fn set_state(&mut self, id: EntryId, state: EntryState) {
        let old = std::mem::replace(&mut self.states[id as usize], state);
        self.shadowed += usize::from(state == EntryState::Shadowed);
        self.shadowed -= usize::from(old == EntryState::Shadowed);
    }
}

/// Returns the state of an entry that is not shadowed.
fn state_of(verdict: EntryVerdict) -> EntryState {
    match verdict {
        EntryVerdict::Forward(_) => EntryState::Forward,
        EntryVerdict::Unexplored | EntryVerdict::PartiallyExplored => EntryState::Barrier,
    }
}

impl EntryState {
    /// Reports whether some packet may get to the entry.
    pub(super) fn is_reachable(self) -> bool {
        matches!(self, EntryState::Barrier | EntryState::Forward)
    }
}

impl EntryVerdict {
    /// Returns the minimum number of levels that the later of two overlapping entries must be below the earlier one. If
    /// 0, both may share a level, but the later one must not be above, because it might hide the earlier one.
    pub(super) fn gap(self, later: EntryVerdict) -> u32 {
        match (self, later) {
            (EntryVerdict::PartiallyExplored, EntryVerdict::PartiallyExplored) => 0,
            (EntryVerdict::Forward(a), EntryVerdict::Forward(b)) => u32::from(a != b),
            _ => 1,
        }
    }
}
