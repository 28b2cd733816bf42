//! The transaction of one run: noted reads of one snapshot, and own writes, kept apart until commit.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use super::last_writes::Author;
use super::{Cell, CellValue, Kind, Snapshot, Types, Write, Written};
use crate::network::OwnFrame;
use crate::state::LeafSelection;
use crate::trace::Source;

/// A transaction. Reads come from one snapshot plus the transaction's own writes; nothing is visible to others before
/// [`super::Store::commit`].
#[derive(Clone, Debug)]
pub struct Txn {
    pub(super) base: Arc<Snapshot>,
    /// The base with the own writes. Made when a read needs more than the last write to a key or variable.
    working: OnceLock<Box<Snapshot>>,
    pub(super) reads: BTreeMap<Cell, CellValue>,
    /// The cells that were read without becoming dependencies. Their values must still hold at commit.
    pub(super) looked_up: BTreeMap<Cell, CellValue>,
    pub(super) writes: Vec<Write>,
    /// The source lines of the writes, as far as they are known; it may be shorter than `writes`.
    lines: Vec<Option<Source>>,
    signed: Option<Box<Written>>,
    pub(super) invalidations: Vec<LeafSelection>,
    /// Frames to send when it commits.
    sends: Vec<OwnFrame>,
}

/// A moment of a transaction, to which its writes can be taken back.
#[derive(Debug)]
pub struct Savepoint {
    working: OnceLock<Box<Snapshot>>,
    writes: usize,
    invalidations: usize,
    sends: usize,
}

impl Txn {
    /// The maximum number of own writes that are searched for a key, instead of being applied to a snapshot. Chosen:
    /// comparing a few keys costs less than a snapshot of a transaction's own.
    const MAX_SEARCHED: usize = 16;

    /// Begins a transaction over this snapshot.
    pub fn new(base: Arc<Snapshot>) -> Txn {
        let (reads, looked_up, writes, lines, signed, invalidations, sends) = Default::default();
        Txn { base, working: OnceLock::new(), reads, looked_up, writes, lines, signed, invalidations, sends }
    }

    /// Reads the value of `cell`, own writes included. The cell becomes a dependency.
    ///
    /// # Panics
    /// If it is a key of a type other than its table was declared with.
    #[track_caller]
    pub fn read(&mut self, cell: Cell) -> CellValue {
        if let Some(value) = self.reads.get(&cell)
            && self.writes.is_empty()
        {
            return value.clone();
        }
        if let Cell::Table(table, key) = &cell
            && let Err(mismatch) = self.base.check_key(table, key)
        {
            panic!("{mismatch}");
        }
        let value = self.own(&cell).unwrap_or_else(|| cell.evaluate(self.peek()));
        if !self.reads.contains_key(&cell) {
            // What must still hold at commit is what the snapshot says, without the own writes.
            let seen = if self.writes.is_empty() { value.clone() } else { cell.evaluate(&self.base) };
            self.reads.insert(cell, seen);
        }
        value
    }

    /// Reads the value of a cell before the first write. The cell does not become a dependency: who uses the value
    /// depends on it in another way. As long as the transaction has not committed, the value must hold as if it did.
    ///
    /// # Panics
    /// If it is a key of a type other than its table was declared with.
    #[track_caller]
    pub(crate) fn look_up(&mut self, cell: Cell) -> CellValue {
        debug_assert!(self.writes.is_empty(), "a look-up does not see own writes");
        if let Cell::Table(table, key) = &cell
            && let Err(mismatch) = self.base.check_key(table, key)
        {
            panic!("{mismatch}");
        }
        let value = cell.evaluate(&self.base);
        self.looked_up.insert(cell, value.clone());
        value
    }

    /// Makes a dependency of all that was read.
    #[must_use]
    pub(crate) fn depending_on_all(mut self) -> Txn {
        self.reads.append(&mut self.looked_up);
        self
    }

    /// Makes a write, which later reads of this transaction see. A write of the value that is there is not a write but
    /// a dependency on that value. So what a run does once for each host, say, becomes a rule.
    ///
    /// # Panics
    /// If it puts a value of a type other than its table or variable was declared with, or if that can't be written.
    #[track_caller]
    pub fn write(&mut self, write: Write) {
        self.write_at(write, None);
    }

    /// Writes as [`Txn::write`] does, and notes the line that writes, for [`super::Store::last_write`]. Returns whether
    /// it is a write.
    ///
    /// # Panics
    /// If it puts a value of a type other than its table or variable was declared with, or if that can't be written.
    #[track_caller]
    pub fn write_at(&mut self, write: Write, line: Option<Source>) -> bool {
        if let Err(mismatch) = self.base.check(&write) {
            panic!("{mismatch}");
        }
        if self.read_if_there(&write) {
            return false;
        }
        if let Err(refused) = self.base.check_commit(self.writes.iter().chain([&write])) {
            panic!("{refused}");
        }
        if let Some(working) = self.working.get_mut() {
            working.apply(&write);
        }
        self.writes.push(write);
        if line.is_some() {
            self.lines.resize(self.writes.len() - 1, None);
            self.lines.push(line);
        }
        true
    }

    /// Reads a key or a variable if it has the value that is to be written: it becomes a dependency. Returns whether it
    /// has.
    fn read_if_there(&mut self, write: &Write) -> bool {
        let (cell, value) = match write {
            Write::Table { table, key, value } => (Cell::Table(table.clone(), key.clone()), value),
            Write::Var { name, value } => (Cell::Var(name.clone()), value),
            _ => return false,
        };
        let current = self.own(&cell).unwrap_or_else(|| cell.evaluate(self.peek()));
        let is_there = matches!(&current, CellValue::Value(current) if current == value);
        if is_there {
            self.read(cell);
        }
        is_there
    }

    /// Sets who writes, and when. May be called at any moment before the commit.
    pub fn sign(&mut self, written: Written) {
        self.signed = Some(Box::new(written));
    }

    /// Reports whether it is known who writes.
    pub(super) fn is_signed(&self) -> bool {
        self.signed.is_some()
    }

    /// Takes the author of the writes, for the commit.
    pub(super) fn take_author(&mut self) -> Author {
        let lines = std::mem::take(&mut self.lines);
        self.signed.take().map_or(Author::Unknown, |written| Author::Known(written, lines))
    }

    /// Returns the value of a key or a variable, if there are few own writes and the last one or the base determines
    /// it.
    fn own(&self, cell: &Cell) -> Option<CellValue> {
        if self.writes.len() > Txn::MAX_SEARCHED {
            return None;
        }
        let last = self.writes.iter().rev().find(|write| match (cell, write) {
            (Cell::Table(of, at), Write::Table { table, key, .. }) => key == at && table == of,
            (Cell::Var(of), Write::Var { name, .. } | Write::Add { name, .. }) => name == of,
            _ => false,
        });
        match (cell, last) {
            (Cell::Table(..) | Cell::Var(_), None) => Some(cell.evaluate(&self.base)),
            (_, Some(Write::Table { value, .. } | Write::Var { value, .. })) => Some(CellValue::Value(value.clone())),
            _ => None,
        }
    }

    /// Returns the present moment, for [`Txn::roll_back`].
    pub fn savepoint(&self) -> Savepoint {
        Savepoint {
            working: self.working.clone(),
            writes: self.writes.len(),
            invalidations: self.invalidations.len(),
            sends: self.sends.len(),
        }
    }

    /// Takes back what was written since `to`. What was read stays a dependency: the decision to roll back rests on it.
    pub fn roll_back(&mut self, to: Savepoint) {
        self.sends.truncate(to.sends);
        self.roll_back_state(to);
    }

    /// Takes back what was written since `to`, but not the frames that were sent. That something else was there than
    /// was written becomes a dependency: what f was asked meanwhile may rest on it.
    pub fn roll_back_state(&mut self, to: Savepoint) {
        self.working = to.working;
        let taken_back = self.writes.split_off(to.writes);
        self.lines.truncate(to.writes);
        self.invalidations.truncate(to.invalidations);
        for write in taken_back {
            match write {
                Write::Table { table, key, .. } => drop(self.read(Cell::Table(table, key))),
                Write::Var { name, .. } => drop(self.read(Cell::Var(name))),
                _ => {}
            }
        }
    }

    /// Drops all that the transaction writes, invalidates or sends, and keeps its reads.
    pub fn without_writes(self) -> Txn {
        let (writes, lines, signed, invalidations, sends) = Default::default();
        Txn { working: OnceLock::new(), writes, lines, signed, invalidations, sends, ..self }
    }

    /// Sends a frame when the transaction commits. A frame is not a write: no cell holds it.
    pub(crate) fn send(&mut self, frame: OwnFrame) {
        self.sends.push(frame);
    }

    /// Returns the frames to send, in order.
    pub(crate) fn sends(&self) -> &[OwnFrame] {
        &self.sends
    }

    /// Withdraws what `selection` names when the transaction commits.
    pub fn invalidate(&mut self, selection: LeafSelection) {
        self.invalidations.push(selection);
    }

    /// Returns the types of a table's keys and values, if they were declared. They never change, so they are not a
    /// dependency.
    pub fn types(&self, table: &str) -> Option<&Arc<Types>> {
        self.base.types(table)
    }

    /// Returns the type of a variable, if it was declared.
    pub fn kind(&self, var: &str) -> Option<&Arc<Kind>> {
        self.base.kind(var)
    }

    /// Reports whether the transaction changes anything.
    pub fn wrote(&self) -> bool {
        !self.writes.is_empty() || !self.invalidations.is_empty()
    }

    /// Returns the writes so far, in order.
    pub fn writes(&self) -> &[Write] {
        &self.writes
    }

    /// Returns the state as the transaction sees it, without noting a dependency. For display, and for decisions that
    /// are validated in another way.
    pub fn peek(&self) -> &Snapshot {
        if self.writes.is_empty() {
            return &self.base;
        }
        self.working.get_or_init(|| {
            let mut draft = Box::new(self.base.draft());
            self.writes.iter().for_each(|write| draft.apply(write));
            draft
        })
    }

    /// Returns the snapshot that the transaction began with.
    pub(crate) fn base(&self) -> Arc<Snapshot> {
        Arc::clone(&self.base)
    }

    /// Returns the cells read so far, in order.
    pub fn reads(&self) -> impl Iterator<Item = (&Cell, &CellValue)> {
        self.reads.iter()
    }
}
