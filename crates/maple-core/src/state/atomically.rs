//! Transactions from outside of f: [`Store::atomically`], [`Stop::Retry`], [`Access::or_else`].
//!
//! # What
//!
//! A transaction is a function of a [`Tx`] that may run several times and takes effect once, as if it had run alone.
//! Each run sees one snapshot and its own writes. At commit what it read must still hold; if not, it runs again. One
//! that ends with [`Stop::Retry`] has no effect, and runs again when something that it read has changed. A caller that
//! only reads takes a [`View`]: one snapshot, which needs neither log nor commit.
//!
//! # Why long transactions end
//!
//! A run fails only because another transaction committed, so some transaction always makes progress. One that has lost
//! [`Store::PATIENT`] times passes the turnstile alone: until it has committed, all other commits wait. It then runs
//! once, as nothing can change under it.
//!
//! # Who may call
//!
//! Any thread, but not from within a transaction: it would wait for itself, and [`Store::attempt`] panics if it detects
//! that. Core does not block: the caller's [`Patience`] says how to wait.

use std::cell::{Cell as Slot, RefCell};
use std::fmt;
use std::sync::{Arc, RwLockWriteGuard};
use std::task::Waker;

use arc_swap::Guard;

use super::sync::{HeldLock, LockRank};
use super::{Cell, CellValue, Commit, Conflict, Name, Savepoint, Snapshot, Store, Txn, Value, Write, Written, sync};
use crate::ids::DependentId;
use crate::trace::Source;

/// Something that can read tracked state.
pub trait Read {
    /// Returns the value of a cell.
    #[track_caller]
    fn cell(&self, cell: Cell) -> CellValue;

    /// Returns the value at a key of a table.
    #[track_caller]
    fn at(&self, table: &Name, key: &Value) -> Option<Value> {
        match self.cell(Cell::Table(table.clone(), key.clone())) {
            CellValue::Value(value) => value,
            _ => None,
        }
    }
}

/// A transaction: a [`Tx`], or the [`crate::Net`] of a run of f.
pub trait Access: Read {
    /// Makes a write, which later reads of this transaction see.
    #[track_caller]
    fn put(&self, write: Write);

    /// Returns the present moment of the transaction, for [`Access::roll_back`].
    fn savepoint(&self) -> Savepoint;

    /// Takes back what was written since `to`.
    fn roll_back(&self, to: Savepoint);

    /// Runs `first`. If it would wait ([`Stop::Retry`]), takes back its writes and runs `second` instead.
    ///
    /// # Errors
    /// The error of the one that takes effect. If both would wait, the transaction waits for what either of them read.
    fn or_else<T>(
        &self,
        first: impl FnOnce(&Self) -> Result<T, Stop>,
        second: impl FnOnce(&Self) -> Result<T, Stop>,
    ) -> Result<T, Stop> {
        let before = self.savepoint();
        match first(self) {
            Err(Stop::Retry) => {
                self.roll_back(before);
                second(self)
            }
            done => done,
        }
    }
}

/// The reason why a transaction has no effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Stop {
    /// The transaction is not possible yet. It runs again when something that it read has changed.
    #[error("it waits until something that it read changes")]
    Retry,
    /// The transaction must not be done.
    #[error("it was cancelled")]
    Cancel,
}

impl Stop {
    /// Lets the transaction continue if `possible`, and makes it wait otherwise.
    ///
    /// # Errors
    /// [`Stop::Retry`] if `possible` is false.
    pub fn unless(possible: bool) -> Result<(), Stop> {
        if possible { Ok(()) } else { Err(Stop::Retry) }
    }
}

/// One run of a transaction.
#[derive(Debug)]
pub struct Tx(RefCell<Txn>);

/// One consistent state, for reading.
pub struct View(Guard<Arc<Snapshot>>);

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View").field("version", &self.0.version()).finish_non_exhaustive()
    }
}

/// The right to commit alone: no other thread commits while it lives.
pub struct ExclusiveCommit<'a> {
    pub(super) store: &'a Store,
    _turnstile: HeldLock<RwLockWriteGuard<'a, ()>>,
}

impl fmt::Debug for ExclusiveCommit<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExclusiveCommit").finish_non_exhaustive()
    }
}

impl ExclusiveCommit<'_> {
    /// Commits a transaction, as [`Store::commit`] does, without passing the turnstile, which this holds.
    ///
    /// # Errors
    /// [`Conflict`] if the transaction began before the turn, and something that it read has changed.
    pub fn commit(&self, txn: Txn, dependent: Option<DependentId>) -> Result<Commit, Conflict> {
        self.store.commit_past_turnstile(txn, dependent, true).0
    }
}

/// The result of one run.
#[derive(Debug)]
pub enum Attempt<T> {
    /// The run committed, with this result.
    Done(T, Commit),
    /// Another transaction changed something that the run had read; nothing happened.
    Conflict,
    /// The run waits. It is to be repeated when something that this transaction read has changed.
    Retry(Txn),
    /// The run cancelled itself.
    Cancelled,
}

/// A thread's way of waiting. One value serves one thread.
pub trait Patience {
    /// Waits a little, after a transaction has lost `lost` times in a row.
    fn back_off(&self, lost: u32);

    /// Returns the waker that ends [`Patience::wait`].
    fn waker(&self) -> Waker;

    /// Waits until the waker is used, and returns at once if it was used already. Returns `false` if that takes longer
    /// than this patience.
    fn wait(&self) -> bool;
}

/// The reason why a transaction was given up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Stopped {
    /// The transaction cancelled itself.
    #[error("the transaction was cancelled")]
    Cancelled,
    /// The change that the transaction waited for did not come in time.
    #[error("what the transaction waited for did not come in time")]
    TimedOut,
}

impl Store {
    /// The number of times in a row that a transaction may lose against others before these must wait for it. Chosen: a
    /// transaction that conflicts by chance succeeds within a few attempts, and waiting holds up every other commit.
    pub const PATIENT: u32 = 16;

    /// Returns the newest state, for reading. Takes no lock.
    pub fn view(&self) -> View {
        sync::step();
        View(self.current.load())
    }

    /// Runs `f` until it takes effect or cancels itself.
    ///
    /// # Errors
    /// [`Stopped`] if it cancelled itself, or waited longer than `patience`; it had no effect then.
    pub fn atomically<T>(
        &self,
        patience: &impl Patience,
        mut f: impl FnMut(&Tx) -> Result<T, Stop>,
    ) -> Result<(T, Commit), Stopped> {
        let mut lost = 0;
        loop {
            let attempt = if lost < Store::PATIENT { self.attempt(&mut f) } else { self.attempt_alone(&mut f) };
            match attempt {
                Attempt::Done(value, commit) => return Ok((value, commit)),
                Attempt::Cancelled => return Err(Stopped::Cancelled),
                Attempt::Conflict => {
                    lost += 1;
                    patience.back_off(lost);
                }
                Attempt::Retry(txn) => {
                    lost = 0;
                    let Some(waiter) = self.watch(&txn, patience.waker()) else { continue };
                    let in_time = patience.wait();
                    self.unwatch(waiter);
                    if !in_time {
                        return Err(Stopped::TimedOut);
                    }
                }
            }
        }
    }

    /// Runs `f` once, and commits what it did if that is possible.
    ///
    /// # Panics
    /// If it is called within a transaction of this thread for which others wait.
    pub fn attempt<T>(&self, f: impl FnOnce(&Tx) -> Result<T, Stop>) -> Attempt<T> {
        assert!(!ALONE.get(), "a transaction was begun within a transaction of the same thread");
        self.run(f, |txn| self.commit(txn, None).ok())
    }

    /// Runs `f` once while no other transaction can commit, and commits what it did.
    fn attempt_alone<T>(&self, f: impl FnOnce(&Tx) -> Result<T, Stop>) -> Attempt<T> {
        let turn = self.turn();
        let _alone = NestingGuard::enter();
        self.run(f, |txn| turn.commit(txn, None).ok())
    }

    /// Waits until all commits under way are done, and then makes all others wait. What the holder reads and commits
    /// through the returned value cannot conflict. The holder must not commit in any other way.
    pub fn turn(&self) -> ExclusiveCommit<'_> {
        ExclusiveCommit { store: self, _turnstile: sync::write(LockRank::Turnstile, &self.turnstile) }
    }

    fn run<T>(&self, f: impl FnOnce(&Tx) -> Result<T, Stop>, commit: impl FnOnce(Txn) -> Option<Commit>) -> Attempt<T> {
        let tx = Tx::new(self.begin());
        let ended = f(&tx);
        let txn = tx.into_txn();
        match ended {
            // All that it read was true when it began, and no other transaction needs to know of it.
            Ok(value) if !txn.wrote() => Attempt::Done(value, Commit::default()),
            Ok(value) => commit(txn).map_or(Attempt::Conflict, |commit| Attempt::Done(value, commit)),
            Err(Stop::Retry) => Attempt::Retry(txn),
            Err(Stop::Cancel) => Attempt::Cancelled,
        }
    }
}

thread_local! {
    /// Whether this thread is in a transaction that the others wait for.
    static ALONE: Slot<bool> = const { Slot::new(false) };
}

/// A mark that this thread must not begin another transaction while it lives.
struct NestingGuard;

impl NestingGuard {
    fn enter() -> NestingGuard {
        // Simulated threads share the thread-local values of one system thread.
        ALONE.set(!sync::is_simulated());
        NestingGuard
    }
}

impl Drop for NestingGuard {
    fn drop(&mut self) {
        ALONE.set(false);
    }
}

impl Tx {
    /// Starts one run over this transaction.
    pub fn new(txn: Txn) -> Tx {
        Tx(RefCell::new(txn))
    }

    /// Sets who writes, and when, for [`Store::last_write`]. The source lines of later writes are recorded too.
    pub fn sign(&self, written: Written) {
        self.0.borrow_mut().sign(written);
    }

    /// Returns the transaction, with all that the run read and wrote.
    pub fn into_txn(self) -> Txn {
        self.0.into_inner()
    }
}

impl Read for Tx {
    fn cell(&self, cell: Cell) -> CellValue {
        self.0.borrow_mut().read(cell)
    }
}

impl Access for Tx {
    #[track_caller]
    fn put(&self, write: Write) {
        let mut txn = self.0.borrow_mut();
        let line = txn.is_signed().then(Source::here);
        txn.write_at(write, line);
    }

    fn savepoint(&self) -> Savepoint {
        self.0.borrow().savepoint()
    }

    fn roll_back(&self, to: Savepoint) {
        self.0.borrow_mut().roll_back(to);
    }
}

impl View {
    /// Returns the snapshot.
    #[must_use]
    pub fn snapshot(&self) -> &Snapshot {
        &self.0
    }
}

impl Read for View {
    fn cell(&self, cell: Cell) -> CellValue {
        cell.evaluate(&self.0)
    }

    fn at(&self, table: &Name, key: &Value) -> Option<Value> {
        self.0.table(table)?.get(key).cloned()
    }
}
