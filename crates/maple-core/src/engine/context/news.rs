//! The knowledge of a shard about changes of the state: which of its dependents are stale, and
//! whether it has heard of all commits.
//!
//! A commit of another shard is in the store before its message comes. Until then this shard does not know that its
//! dependents are stale. What reads the newest state meanwhile, as the rules of keys do, must not meet what rests on an
//! earlier one: see [`Context::are_leaves_current`].

use std::collections::BTreeSet;

use maple_wire::Dpid;

use super::Context;
use crate::ids::DependentId;

/// The news that this shard has heard, and those who wait for more.
#[derive(Clone, Debug, Default)]
pub(super) struct CommitNews {
    /// Dependents of something that has changed: a leaf may no longer be what f would answer. Ids of none are allowed.
    stale: BTreeSet<DependentId>,
    /// The number of commits that this shard has heard of, among those that ended subscriptions of its dependents.
    heard: u64,
    /// The switches that are to be updated when this shard has heard of another commit.
    awaited_by: BTreeSet<Dpid>,
}

impl CommitNews {
    /// Forgets a switch that is gone.
    pub fn forget_switch(&mut self, dpid: Dpid) {
        self.awaited_by.remove(&dpid);
    }
}

impl Context {
    /// Notes which dependents of this shard a commit has made stale.
    pub fn hear(&mut self, dependents: BTreeSet<DependentId>) {
        self.news.heard += 1;
        self.news.stale.extend(dependents);
        self.dirty.append(&mut self.news.awaited_by);
    }

    /// Reports whether some dependents of this shard are stale.
    pub fn has_stale(&self) -> bool {
        !self.news.stale.is_empty()
    }

    /// Removes and returns the stale dependents of this shard.
    pub fn take_stale(&mut self) -> BTreeSet<DependentId> {
        std::mem::take(&mut self.news.stale)
    }

    /// Notes all dependents of this shard that commits so far have made stale, where no message has named them.
    pub fn catch_up(&mut self, stale: impl IntoIterator<Item = DependentId>) {
        self.news.stale.extend(stale);
        self.news.heard = self.store.ended(self.shard);
        self.dirty.append(&mut self.news.awaited_by);
    }

    /// Reports whether the leaves of this shard, and its routes, are what f says in the newest state. If not, some are
    /// to be decided again, or another shard has changed the state and its message is on the way. Then `dpid`, which
    /// has to wait for that, is updated again afterwards.
    pub fn are_leaves_current(&mut self, dpid: Dpid) -> bool {
        let is_stale = self.has_stale();
        let has_heard_all = self.news.heard >= self.store.ended(self.shard);
        if is_stale {
            // They are decided again before the next update of this batch.
            self.mark_dirty(dpid);
        } else if !has_heard_all {
            self.news.awaited_by.insert(dpid);
        }
        !is_stale && has_heard_all
    }
}
