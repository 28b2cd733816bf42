//! The store: the newest snapshot, and which leaves depend on which cells.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, RwLock, RwLockReadGuard};
use std::task::Waker;

use arc_swap::{ArcSwap, Guard};
use serde::{Deserialize, Serialize};

use super::coordination::Coordination;
use super::dependents::{AddressKinds, Dependents, Invalidated, WaiterId};
use super::double_buffer::DoubleBuffer;
use super::journal::KeptNames;
use super::last_writes::{Author, LastWrites, Written};
use super::names::DeclaredNames;
use super::store_moves::{StoreRecorder, UseMoment};
use super::sync::{HeldLock, LockRank};
use super::versions::Versions;
use super::write_log::StoreLog;
use super::{Cell, CellValue, Mismatch, Name, Snapshot, Txn, Write, sync};
use crate::ids::{DependentId, LeafId, ShardId};
use crate::network::{Location, Mac};
use crate::state::LeafSelection;

/// All tracked state, shared by the shards.
///
/// Its locks have an order, `LockRank` of `sync.rs`.
#[derive(Debug, Default)]
pub struct Store {
    /// Read without a lock; replaced under the lock of `inner`.
    pub(super) current: ArcSwap<Snapshot>,
    inner: Mutex<StoreState>,
    /// Twice the number of moves (`store_moves.rs`), and one more while one becomes visible.
    pub(super) moves: AtomicU64,
    /// Held exclusively by a transaction that no other may overtake, and shared by all other commits.
    pub(super) turnstile: RwLock<()>,
    /// The news between shards besides the tracked state.
    pub(super) coordination: Coordination,
    /// The number of declarations of ports and hosts that were numbered.
    declarations: AtomicU64,
    /// The versions of tables that policies have.
    versions: Mutex<Versions>,
    /// A copy of the kinds of addresses in `inner.dependents`, for callers that ask often.
    address_kinds: AtomicU8,
    /// A copy of the count of measurements in `inner.dependents`, for callers that ask often.
    measurings: AtomicU64,
}

/// Counts of how transactions ended so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreCounts {
    /// Transactions that committed: runs of f, and those of handlers and other threads.
    pub commits: u64,
    /// Transactions that did not commit, because something that they had read had changed. They run again.
    pub conflicts: u64,
}

/// The state under the store's lock: all that a commit has to look up.
#[derive(Default)]
pub(crate) struct StoreState {
    pub(crate) dependents: Dependents,
    pub(super) kept: KeptNames,
    pub(super) declared: DeclaredNames,
    observers: Vec<Observer>,
    pub(super) recorder: Option<Arc<dyn StoreRecorder>>,
    counts: StoreCounts,
    /// The snapshot that the next one may be made of, instead of a copy.
    pub(super) spare: DoubleBuffer,
    pub(super) last_writes: LastWrites,
    pub(super) write_log: StoreLog,
}

impl fmt::Debug for StoreState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreState").field("counts", &self.counts).finish_non_exhaustive()
    }
}

/// Receives each snapshot, just before it becomes the newest.
struct Observer(Box<ObserverFn>);

type ObserverFn = dyn Fn(&Arc<Snapshot>) + Send + Sync;

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observer")
    }
}

/// The effects of a commit on leaves and switches.
///
/// It must be given to an engine of the store as [`crate::Event::Committed`]; otherwise rules stay that should go.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commit {
    /// The dependents of all shards to be withdrawn or run again, because a cell that they read has another value now.
    /// Their subscriptions have ended.
    pub withdraw: BTreeSet<DependentId>,
    /// The ports that changed.
    pub ports: BTreeSet<Location>,
    /// The hosts that came to a port or left it.
    pub hosts: BTreeSet<(Location, Mac)>,
    /// The selections that the transaction asked to invalidate.
    pub invalidate: Vec<LeafSelection>,
    /// The version that the commit made, if a [`super::Journal`] received it.
    pub kept: Option<u64>,
}

/// The error for a transaction that read something which has another value now. It is to run again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} changed during the run")]
pub struct Conflict(pub Cell);

impl Commit {
    /// Notes the port or host that a write changes.
    fn mark_changed(&mut self, write: &Write, before: &Snapshot) {
        match write {
            Write::Port { at, .. } => drop(self.ports.insert(*at)),
            Write::Host { mac, info } => {
                let old = before.host(*mac).map(|host| host.location);
                let new = info.as_ref().map(|host| host.location);
                if old != new {
                    self.hosts.extend(old.into_iter().chain(new).map(|at| (at, *mac)));
                }
            }
            _ => {}
        }
    }

    /// Splits the commit by shard. A caller that sends the shards more than the commit uses this and keeps the order.
    pub fn by_shard(self, state: &Snapshot) -> BTreeMap<ShardId, Commit> {
        let mut shards: BTreeMap<ShardId, Commit> = BTreeMap::new();
        for dependent in self.withdraw {
            shards.entry(ShardId::owning(dependent)).or_default().withdraw.insert(dependent);
        }
        for at in self.ports {
            if let Some(shard) = state.shard_of(at.switch) {
                shards.entry(shard).or_default().ports.insert(at);
            }
        }
        for (at, mac) in self.hosts {
            if let Some(shard) = state.shard_of(at.switch) {
                shards.entry(shard).or_default().hosts.insert((at, mac));
            }
        }
        if !self.invalidate.is_empty() {
            // Any shard passes it on to all others.
            shards.entry(ShardId(0)).or_default().invalidate = self.invalidate;
        }
        shards
    }
}

impl Store {
    /// Creates an empty store.
    pub fn new() -> Arc<Store> {
        Arc::new(Store::default())
    }

    /// Creates an independent store with the same state, dependents and label ids. Nothing of it is kept, observed or
    /// watched.
    pub fn copy(&self) -> Arc<Store> {
        let versions = self.versions().clone();
        let (inner, state) = (self.lock(), self.snapshot());
        let dependents = inner.dependents.without_waiters();
        let copied = StoreState { dependents, declared: inner.declared.clone(), ..StoreState::default() };
        Arc::new(Store {
            current: ArcSwap::new(state),
            inner: Mutex::new(copied),
            moves: AtomicU64::default(),
            turnstile: RwLock::default(),
            coordination: self.coordination.copy(),
            declarations: AtomicU64::new(self.declarations.load(Ordering::Relaxed)),
            versions: Mutex::new(versions),
            address_kinds: AtomicU8::new(self.address_kinds.load(Ordering::Acquire)),
            measurings: AtomicU64::new(self.measurings.load(Ordering::Acquire)),
        })
    }

    /// Returns the newest snapshot.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        sync::step();
        self.current.load_full()
    }

    /// Returns the number of a new declaration of ports and hosts ([`crate::Event::Declare`]), above those of all
    /// before it.
    pub fn number_declaration(&self) -> u64 {
        self.declarations.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Begins a transaction over the newest snapshot.
    pub fn begin(&self) -> Txn {
        Txn::new(self.snapshot())
    }

    /// Publishes a transaction's writes, or subscribes `leaf`, if given, to what it read.
    ///
    /// A transaction that writes gets no subscription: only without writes are its reads those of the published state.
    ///
    /// # Errors
    /// [`Conflict`] if something that it read has another value by now; nothing happened then.
    pub fn commit(&self, txn: Txn, leaf: Option<LeafId>) -> Result<Commit, Conflict> {
        let _pass = self.pass();
        self.commit_past_turnstile(txn, leaf.map(DependentId::from), true).0
    }

    /// Applies the writes that `decide` derives from the newest snapshot; no other commit can come between.
    ///
    /// The writer is not remembered; [`Store::update_as`] does that.
    pub fn update(&self, decide: impl FnOnce(&Snapshot) -> Vec<Write>) -> Commit {
        self.update_by(&Author::Unknown, true, decide).0
    }

    /// Updates as [`Store::update`] does, and remembers who wrote and when ([`Store::last_write`]).
    pub fn update_as(&self, written: Written, decide: impl FnOnce(&Snapshot) -> Vec<Write>) -> Commit {
        self.update_by(&Author::Known(Box::new(written), Vec::new()), true, decide).0
    }

    /// Updates for this author. The recorder receives the writes if `is_recorded`.
    pub(crate) fn update_by(
        &self,
        author: &Author,
        is_recorded: bool,
        decide: impl FnOnce(&Snapshot) -> Vec<Write>,
    ) -> (Commit, UseMoment) {
        let _pass = self.pass();
        let ((commit, wake), moment) = self.use_locked(|inner| {
            let newest = self.newest();
            let writes = decide(&newest);
            self.record_writes(inner, is_recorded, &writes);
            self.publish(inner, newest, writes, author)
        });
        wake.into_iter().for_each(Waker::wake);
        (commit, moment)
    }

    /// Gives the recorder writes that are about to be published, if `is_recorded`.
    pub(super) fn record_writes(&self, inner: &StoreState, is_recorded: bool, writes: &[Write]) {
        if let Some(recorder) = inner.recorder.as_ref().filter(|_| is_recorded && !writes.is_empty()) {
            recorder.wrote(self.moves.load(Ordering::SeqCst) / 2, writes);
        }
    }

    /// Puts values into tables and variables, in the form in which these keep them.
    ///
    /// # Errors
    /// [`Mismatch`] if one is not of the declared type of its place, or they can't be written; nothing happened then.
    pub fn change(&self, writes: Vec<Write>) -> Result<Commit, Mismatch> {
        self.change_by(&Author::Unknown, writes)
    }

    /// Puts values as [`Store::change`] does, and remembers who wrote and when ([`Store::last_write`]).
    ///
    /// # Errors
    /// [`Mismatch`] if a value is not of the declared type of its place; nothing happened then.
    pub fn change_as(&self, writes: Vec<Write>, written: Written) -> Result<Commit, Mismatch> {
        self.change_by(&Author::Known(Box::new(written), Vec::new()), writes)
    }

    fn change_by(&self, author: &Author, writes: Vec<Write>) -> Result<Commit, Mismatch> {
        let mut mismatch = None;
        let normal = |state: &Snapshot, write: Write| Ok(state.normalise(&write)?.unwrap_or(write));
        let commit = self.update_by(author, true, |state| {
            let writes: Result<Vec<Write>, Mismatch> = writes.into_iter().map(|write| normal(state, write)).collect();
            let checked = writes.and_then(|writes| state.check_commit(&writes).map(|()| writes));
            checked.unwrap_or_else(|error| {
                mismatch = Some(error);
                Vec::new()
            })
        });
        mismatch.map_or(Ok(commit.0), Err)
    }

    /// Commits in a turn, or past the turnstile. The recorder receives the writes if `is_recorded`.
    pub(crate) fn commit_past_turnstile(
        &self,
        mut txn: Txn,
        dependent: Option<DependentId>,
        is_recorded: bool,
    ) -> (Result<Commit, Conflict>, UseMoment) {
        let (done, moment) = self.use_locked(|inner| {
            let newest = self.newest();
            if let Some(cell) = outdated(&txn, &newest) {
                inner.counts.conflicts += 1;
                return Err(Conflict(cell));
            }
            inner.counts.commits += 1;
            let author = txn.take_author();
            if let Some(dependent) = dependent.filter(|_| txn.writes.is_empty()) {
                inner.dependents.subscribe(dependent, txn.reads, &newest);
                self.note_dependents(inner);
            }
            self.record_writes(inner, is_recorded, &txn.writes);
            let (mut commit, wake) = self.publish(inner, newest, txn.writes, &author);
            commit.invalidate = txn.invalidations;
            Ok((commit, wake))
        });
        let done = done.map(|(commit, wake)| {
            wake.into_iter().for_each(Waker::wake);
            commit
        });
        (done, moment)
    }

    /// Reports whether everything that a transaction read still has the value that it saw.
    pub(crate) fn is_valid(&self, txn: &Txn) -> bool {
        let newest = self.snapshot();
        outdated(txn, &newest).is_none()
    }

    /// Wakes `waker` once when one of the cells that the transaction read has another value than it saw. `None` if one
    /// has another value already.
    pub fn watch(&self, txn: &Txn, waker: Waker) -> Option<WaiterId> {
        let mut inner = self.lock();
        let newest = self.snapshot();
        let changed = changed_since(&txn.reads, txn.base.version, &newest);
        let id = changed.is_none().then(|| inner.dependents.watch(&txn.reads, waker, &newest));
        let at = self.moves.load(Ordering::SeqCst);
        self.note_dependents(&mut inner);
        if self.moves.load(Ordering::SeqCst) != at {
            inner.recorder.iter().for_each(|recorder| recorder.watched(at / 2));
        }
        id
    }

    /// Ends a [`Store::watch`].
    pub fn unwatch(&self, waiter: WaiterId) {
        self.lock().dependents.unwatch(waiter);
    }

    /// Returns the counts of how transactions ended so far.
    pub fn counts(&self) -> StoreCounts {
        self.lock().counts
    }

    /// Reports whether the dependent is subscribed: its run is what f would do now.
    pub fn is_current(&self, dependent: impl Into<DependentId>) -> bool {
        self.lock().dependents.has(dependent.into())
    }

    /// Returns the dependents of a cell.
    pub fn dependents_of(&self, cell: &Cell) -> BTreeSet<DependentId> {
        self.lock().dependents.of_cell(cell)
    }

    /// Starts to give `observe` every snapshot, just before it becomes the newest, for comparison with what was true at
    /// any moment. No other commit publishes until it returns, so it must be quick, and it must not call the store.
    pub fn observe(&self, observe: impl Fn(&Arc<Snapshot>) + Send + Sync + 'static) {
        self.lock().observers.push(Observer(Box::new(observe)));
    }

    /// Declares that host locations are not tracked: queries that ask for them fail, as f does.
    pub fn know_no_hosts(&self) {
        self.newest().memo.know_no_hosts();
    }

    /// Returns the kinds of addresses that a dependent or a waiter has ever subscribed to.
    pub(crate) fn address_kinds(&self) -> AddressKinds {
        AddressKinds::of_bits(self.address_kinds.load(Ordering::Acquire))
    }

    /// Returns a count that goes up when a subscription needs a measurement that none needed before.
    pub(crate) fn measurings(&self) -> u64 {
        self.measurings.load(Ordering::Acquire)
    }

    fn note_dependents(&self, inner: &mut StoreState) {
        let (kinds, measurings) = (inner.dependents.address_kinds().bits(), inner.dependents.measurings());
        let is_new = self.address_kinds.load(Ordering::Relaxed) != kinds
            || self.measurings.load(Ordering::Relaxed) != measurings;
        if is_new {
            self.make_move(inner, |_| self.publish_dependents(kinds, measurings));
        }
    }

    fn publish_dependents(&self, kinds: u8, measurings: u64) {
        self.address_kinds.store(kinds, Ordering::Release);
        self.measurings.store(measurings, Ordering::Release);
    }

    /// Ends a dependent's subscriptions.
    pub fn forget(&self, dependent: impl Into<DependentId>) {
        self.lock().dependents.forget(dependent.into());
    }

    /// Returns the number of subscribed dependents, and the number of distinct cells with subscribers.
    pub fn subscriptions(&self) -> (usize, usize) {
        self.lock().dependents.count()
    }

    /// Returns the number of subscribed cells that these writes could change: the first step of a commit, by itself.
    pub fn concerned(&self, writes: &[Write]) -> usize {
        self.lock().dependents.suspects(writes, &self.newest()).len()
    }

    /// Returns the newest snapshot, for a caller that holds the lock of `inner`.
    pub(super) fn newest(&self) -> Guard<Arc<Snapshot>> {
        sync::step();
        self.current.load()
    }

    /// Makes and publishes the snapshot that these writes lead to. Returns the commit, and those to wake.
    pub(super) fn publish(
        &self,
        inner: &mut StoreState,
        newest: Guard<Arc<Snapshot>>,
        writes: Vec<Write>,
        author: &Author,
    ) -> (Commit, Vec<Waker>) {
        let mut commit = Commit::default();
        if writes.is_empty() {
            return (commit, Vec::new());
        }
        let next = inner.spare.next(&newest, &writes);
        for write in &writes {
            commit.mark_changed(write, &newest);
        }
        let Invalidated { withdraw, wake } = inner.dependents.changed(&writes, &newest, &next);
        commit.withdraw = withdraw;
        commit.kept = inner.kept.record(&writes, &next);
        inner.last_writes.note(&writes, author);
        inner.write_log.record(&writes, author, &newest, &next);
        inner.observers.iter().for_each(|Observer(observe)| observe(&next));
        drop(newest);
        // A query that was asked again may rest on other cells now.
        let (kinds, measurings) = (inner.dependents.address_kinds().bits(), inner.dependents.measurings());
        let before = self.make_move(inner, |_| {
            self.publish_dependents(kinds, measurings);
            self.current.swap(next)
        });
        inner.spare.keep(before, writes);
        sync::step();
        (commit, wake)
    }

    pub(super) fn lock(&self) -> HeldLock<MutexGuard<'_, StoreState>> {
        sync::lock_in_order(LockRank::State, &self.inner)
    }

    /// Passes the turnstile: as long as the result is held, no exclusive commit begins.
    pub(crate) fn pass(&self) -> HeldLock<RwLockReadGuard<'_, ()>> {
        sync::read(LockRank::Turnstile, &self.turnstile)
    }

    pub(super) fn versions(&self) -> HeldLock<MutexGuard<'_, Versions>> {
        sync::lock_in_order(LockRank::Versions, &self.versions)
    }
}

/// Finds something that the transaction read and that has another value or another meaning by now.
fn outdated(txn: &Txn, newest: &Snapshot) -> Option<Cell> {
    let changed = |reads| changed_since(reads, txn.base.version, newest);
    changed(&txn.reads).or_else(|| changed(&txn.looked_up)).or_else(|| declared_since(txn, newest))
}

/// Finds a cell that has another value than was read at `version`.
fn changed_since(reads: &BTreeMap<Cell, CellValue>, version: u64, newest: &Snapshot) -> Option<Cell> {
    if newest.version == version {
        return None;
    }
    reads.iter().find(|(cell, seen)| !cell.still(seen, Some(version), newest)).map(|(cell, _)| cell.clone())
}

/// Finds a place that the transaction wrote or read before it was declared to hold something else, or wrote before the
/// gate was shut.
fn declared_since(txn: &Txn, newest: &Snapshot) -> Option<Cell> {
    if txn.base.version == newest.version {
        return None;
    }
    let is_new = |table: &Name| txn.base.types(table).is_none();
    let reads = txn.reads.keys().chain(txn.looked_up.keys()).find(|cell| match cell {
        Cell::Table(table, key) => is_new(table) && newest.types(table).is_some_and(|types| !types.key.admits(key)),
        _ => false,
    });
    let writes = || {
        let is_closed = newest.declared().gate.is_closed();
        txn.writes.iter().filter(|write| is_closed || newest.check(write).is_err()).find_map(|write| match write {
            Write::Table { table, key, .. } => Some(Cell::Table(table.clone(), key.clone())),
            Write::Var { name, .. } | Write::Add { name, .. } => Some(Cell::Var(name.clone())),
            _ => None,
        })
    };
    reads.cloned().or_else(writes)
}
