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
//! [`Arc::make_mut`] changes in place exactly what nobody else has, the snapshot as a whole and each node of its maps, and
//! copies the rest; so nobody can tell, except by the time it takes. (Readers' guards count as well: to replace the
//! newest snapshot turns each guard into a count.) The same writes in the same order make equal snapshots, as
//! [`Snapshot::apply`] depends on nothing else.
//!
//! # Cost
//!
//! Each write is done twice, and what is written often is in memory twice. After a commit of many writes there is no
//! spare, and the next ones copy.

use std::sync::Arc;

use super::{Snapshot, Write};

/// A snapshot, and the writes that lead from it to the newest.
#[derive(Debug)]
pub(super) struct Spare {
    snapshot: Arc<Snapshot>,
    behind: Vec<Write>,
}

impl Spare {
    /// More writes than this are not done twice.
    const MOST: usize = 64;

    /// The snapshot before the newest, which these writes led from.
    pub fn new(snapshot: Arc<Snapshot>, behind: Vec<Write>) -> Option<Spare> {
        (behind.len() <= Spare::MOST).then_some(Spare { snapshot, behind })
    }

    /// The snapshot that these writes lead to from the newest one.
    pub fn next(spare: Option<Spare>, newest: &Snapshot, writes: &[Write]) -> Arc<Snapshot> {
        let (mut next, behind) = match spare {
            Some(Spare { snapshot, behind }) => (snapshot, behind),
            None => (Arc::new(newest.clone()), Vec::new()),
        };
        let state = Arc::make_mut(&mut next);
        state.apply_all(&behind, newest.version());
        state.apply_all(writes, newest.version() + 1);
        next
    }
}
