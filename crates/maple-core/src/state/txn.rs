//! The transaction of one run: reads of one snapshot, noted; writes of its own, kept apart until commit.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Cell, CellValue, Snapshot, Write};
use crate::engine::Selection;

/// A transaction. Reads come from one snapshot plus the transaction's own writes; nothing is visible to others before
/// [`super::Store::commit`].
#[derive(Clone, Debug)]
pub struct Txn {
    pub(super) base: Arc<Snapshot>,
    /// The base with the own writes, once there are any.
    working: Option<Box<Snapshot>>,
    pub(super) reads: BTreeMap<Cell, CellValue>,
    pub(super) writes: Vec<Write>,
    pub(super) invalidations: Vec<Selection>,
}

/// A moment of a transaction, to which its writes can be taken back.
#[derive(Debug)]
pub struct Savepoint {
    working: Option<Box<Snapshot>>,
    writes: usize,
    invalidations: usize,
}

impl Txn {
    /// A transaction over this snapshot.
    pub fn new(base: Arc<Snapshot>) -> Txn {
        Txn { base, working: None, reads: BTreeMap::new(), writes: Vec::new(), invalidations: Vec::new() }
    }

    /// The value of `cell`, own writes included. The cell becomes a dependency.
    pub fn read(&mut self, cell: Cell) -> CellValue {
        if let Some(value) = self.reads.get(&cell)
            && self.writes.is_empty()
        {
            return value.clone();
        }
        let value = cell.evaluate(self.peek());
        if !self.reads.contains_key(&cell) {
            // What must still hold at commit is what the snapshot says, without the own writes.
            let seen = if self.writes.is_empty() { value.clone() } else { cell.evaluate(&self.base) };
            self.reads.insert(cell, seen);
        }
        value
    }

    /// Writes; later reads of this transaction see it.
    pub fn write(&mut self, write: Write) {
        let draft = || Box::new(self.base.draft());
        self.working.get_or_insert_with(draft).apply(&write);
        self.writes.push(write);
    }

    /// This moment, for [`Txn::roll_back`].
    pub fn savepoint(&self) -> Savepoint {
        Savepoint { working: self.working.clone(), writes: self.writes.len(), invalidations: self.invalidations.len() }
    }

    /// Takes back what was written since. What was read stays read: that it was rolled back depends on it.
    pub fn roll_back(&mut self, to: Savepoint) {
        self.working = to.working;
        self.writes.truncate(to.writes);
        self.invalidations.truncate(to.invalidations);
    }

    /// The same reads without any writes.
    pub fn without_writes(self) -> Txn {
        Txn { working: None, writes: Vec::new(), invalidations: Vec::new(), ..self }
    }

    /// Withdraws what `selection` says when the transaction commits.
    pub fn invalidate(&mut self, selection: Selection) {
        self.invalidations.push(selection);
    }

    /// Whether the transaction changes anything.
    pub fn wrote(&self) -> bool {
        !self.writes.is_empty() || !self.invalidations.is_empty()
    }

    /// The writes so far, in order.
    pub fn writes(&self) -> &[Write] {
        &self.writes
    }

    /// The state as the transaction sees it, without noting anything. For showing, and for decisions that are
    /// validated in another way.
    pub fn peek(&self) -> &Snapshot {
        self.working.as_deref().unwrap_or(&self.base)
    }

    /// The cells read so far, in order.
    pub fn reads(&self) -> impl Iterator<Item = (&Cell, &CellValue)> {
        self.reads.iter()
    }
}
