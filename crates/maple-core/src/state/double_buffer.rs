//! The snapshot before the newest: where nobody holds it any more, it becomes the next one.
//!
//! # Why
//!
//! Snapshots are immutable for whoever has one. To make the next one by copying costs memory for each node on the way to
//! what changes. But most snapshots are read for a moment, and then nobody has them. So a commit takes the snapshot
//! before the newest, does again what led from it to the newest, does its own writes, and publishes it: two snapshots
//! take turns, and are changed in place.
//!
//! # Why it is correct
//!
//! [`Arc::get_mut`] and [`Arc::make_mut`] change in place exactly what nobody else has, the snapshot as a whole and each
//! node of its maps; what somebody else has is copied. So nobody can tell, except by the time it takes. (Dependents' guards
//! count as well: to replace the newest snapshot turns each guard into a count.) The same writes in the same order make
//! equal snapshots, as [`Snapshot::apply`] depends on nothing else.
//!
//! # Cost
//!
//! Each write is done twice, and what is written often is in memory twice. Where somebody still has the snapshot before
//! the newest, the next one is made by copying; so are some more then, as others are likely to be in the midst of
//! transactions again, and nodes that two snapshots share would be copied twice. After a commit of many writes there is
//! no spare either.

use std::sync::Arc;

use super::{Snapshot, Write};

/// The snapshot before the newest, where it may be of use.
#[derive(Debug, Default)]
pub(super) struct DoubleBuffer {
    /// The snapshot, and the writes that lead from it to the newest.
    before: Option<(Arc<Snapshot>, Vec<Write>)>,
    /// So many more commits copy.
    copies: u32,
}

impl DoubleBuffer {
    /// More writes than this are not done twice.
    const MOST: usize = 64;
    /// So many commits copy after one that had to.
    const COPIES: u32 = 64;

    /// The snapshot that these writes lead to from the newest one.
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

    /// From now on this is the snapshot before the newest, and these writes lead to that.
    pub fn keep(&mut self, before: Arc<Snapshot>, behind: Vec<Write>) {
        match self.copies.checked_sub(1) {
            Some(left) => self.copies = left,
            None if behind.len() <= DoubleBuffer::MOST => self.before = Some((before, behind)),
            None => {}
        }
    }
}
