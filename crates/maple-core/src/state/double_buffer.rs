//! The snapshot before the newest: when no reader holds it any more, it becomes the next one.
//!
//! # Why
//!
//! Snapshots are immutable for every reader. Making the next one by copying costs memory for each node on the way to
//! what changes. But most snapshots are read for a moment, and then no reader holds them. So a commit takes the
//! snapshot before the newest, repeats the writes that led from it to the newest, applies its own, and publishes the
//! result. Two snapshots take turns, and are changed in place.
//!
//! # Why it is correct
//!
//! [`Arc::get_mut`] and [`Arc::make_mut`] change in place exactly what has no other owner, the snapshot as a whole and
//! each node of its maps. What has another owner is copied. So readers see no difference, except in time. (A reader's
//! guard counts as an owner too: replacing the newest snapshot turns each guard into a reference count.) The same
//! writes in the same order make equal snapshots, as [`Snapshot::apply`] depends on nothing else.
//!
//! # Cost
//!
//! Each write is done twice, and what is written often is in memory twice. If a reader still holds the snapshot before
//! the newest, the next one is made by copying. The next few commits copy too: other readers are probably in the middle
//! of transactions again, and nodes that two snapshots share would be copied twice. No snapshot is kept after a commit
//! of many writes.

use std::sync::Arc;

use super::{Snapshot, Write};

/// The snapshot before the newest, if it may be of use.
#[derive(Debug, Default)]
pub(super) struct DoubleBuffer {
    /// The snapshot, and the writes that lead from it to the newest.
    before: Option<(Arc<Snapshot>, Vec<Write>)>,
    /// The number of coming commits that copy.
    copies: u32,
}

impl DoubleBuffer {
    /// The maximum number of writes that are done twice. A commit with more costs more than it saves the next one.
    const MAX_REPEATED_WRITES: usize = 64;
    /// The number of commits that copy after one that had to. Chosen: readers are then probably in the middle of
    /// transactions, and nodes that two snapshots share would be copied twice.
    const COPIES: u32 = 64;

    /// Makes the snapshot that these writes lead to from the newest one.
    pub fn next(&mut self, newest: &Snapshot, writes: &[Write]) -> Arc<Snapshot> {
        let mut next = match self.before.take() {
            Some((mut before, behind)) => match Arc::get_mut(&mut before) {
                Some(state) => {
                    state.apply_all(&behind, newest.version());
                    before
                }
                None => {
                    self.copies = DoubleBuffer::COPIES;
                    Arc::new(newest.clone())
                }
            },
            None => Arc::new(newest.clone()),
        };
        Arc::make_mut(&mut next).apply_all(writes, newest.version() + 1);
        next
    }

    /// Keeps the snapshot before the newest, and the writes that lead from it to the newest, unless copies are due or
    /// the writes are too many.
    pub fn keep(&mut self, before: Arc<Snapshot>, behind: Vec<Write>) {
        match self.copies.checked_sub(1) {
            Some(left) => self.copies = left,
            None if behind.len() <= DoubleBuffer::MAX_REPEATED_WRITES => self.before = Some((before, behind)),
            None => {}
        }
    }
}
