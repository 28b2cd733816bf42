//! The store: the newest snapshot, and which leaves depend on which cells.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, RwLock};
use std::task::Waker;

use arc_swap::{ArcSwap, Guard};
use maple_wire::Dpid;

use super::journal::Kept;
use super::names::Declared;
use super::readers::{Readers, Touched, WaiterId};
use super::spare::Spare;
use super::{Cell, CellValue, Snapshot, Txn, Write, sync};
use crate::engine::{Selection, ShardId};
use crate::tree::LeafId;

/// All tracked state, shared by the shards.
#[derive(Debug, Default)]
pub struct Store {
    /// Read without a lock; replaced under the lock of `books`.
    pub(super) current: ArcSwap<Snapshot>,
    books: Mutex<Books>,
    /// Held alone by a transaction that nobody may overtake, and by everybody else's commits together.
    pub(super) turnstile: RwLock<()>,
    tags: Mutex<TagPool>,
    /// Every snapshot since it was last asked for, for tests that compare with what was true at any moment; nothing
    /// before it was first asked for.
    #[cfg(any(test, feature = "testing"))]
    trail: Mutex<Option<Vec<Arc<Snapshot>>>>,
}

/// What a commit has to look up.
#[derive(Debug, Default)]
pub(super) struct Books {
    pub(super) readers: Readers,
    pub(super) kept: Kept,
    pub(super) declared: Declared,
    /// What the next snapshot is made of, if there is any.
    spare: Spare,
}

/// Which path tags leaves of any shard have.
#[derive(Debug, Default)]
struct TagPool {
    taken: BTreeSet<u16>,
    /// The last one that was taken: the next is taken behind it, so that each rests as long as can be.
    last: u16,
}

/// What a commit did.
///
/// Whoever gets it gives it to an engine of the store as [`crate::Event::Committed`], or rules stay that should not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Commit {
    /// The leaves of all shards that must be withdrawn, because a cell they read has another value now. They are no
    /// longer subscribed.
    pub withdraw: BTreeSet<LeafId>,
    /// The switches whose ports or hosts changed, so that their classifier must be looked at.
    pub refresh: BTreeSet<Dpid>,
    /// What the transaction asked to invalidate besides.
    pub invalidate: Vec<Selection>,
    /// The version that it made, if a [`super::Journal`] was told of it.
    pub kept: Option<u64>,
}

/// The transaction read something that has another value now; run it again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} changed during the run")]
pub struct Conflict(pub Cell);

impl Commit {
    /// What concerns each shard. Whoever has more to tell the shards than the commit uses this and keeps the order.
    pub fn by_shard(self, state: &Snapshot) -> BTreeMap<ShardId, Commit> {
        let mut shards: BTreeMap<ShardId, Commit> = BTreeMap::new();
        for leaf in self.withdraw {
            shards.entry(ShardId::of(leaf)).or_default().withdraw.insert(leaf);
        }
        for dpid in self.refresh {
            if let Some(shard) = state.shard_of(dpid) {
                shards.entry(shard).or_default().refresh.insert(dpid);
            }
        }
        if !self.invalidate.is_empty() {
            // Any shard tells all others.
            shards.entry(ShardId(0)).or_default().invalidate = self.invalidate;
        }
        shards
    }
}

impl Store {
    /// A store that knows nothing.
    pub fn new() -> Arc<Store> {
        Arc::new(Store::default())
    }

    /// The newest snapshot.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        sync::step();
        self.current.load_full()
    }

    /// Begins a transaction over the newest snapshot.
    pub fn begin(&self) -> Txn {
        Txn::new(self.snapshot())
    }

    /// Publishes a transaction's writes and subscribes `reader`, if given, to what it read.
    ///
    /// Only a transaction without writes may have a reader: its reads are then those of the published state.
    ///
    /// # Errors
    /// [`Conflict`] if something it read has another value by now; nothing happened then.
    pub fn commit(&self, txn: Txn, reader: Option<LeafId>) -> Result<Commit, Conflict> {
        let pass = sync::read(&self.turnstile);
        let done = self.commit_past_turnstile(txn, reader);
        drop(pass);
        done
    }

    /// Changes the state by what `decide` makes of the newest snapshot; nothing can come between.
    pub fn update(&self, decide: impl FnOnce(&Snapshot) -> Vec<Write>) -> Commit {
        let _pass = sync::read(&self.turnstile);
        let mut books = self.lock();
        let newest = self.newest();
        let writes = decide(&newest);
        let (commit, wake) = self.publish(&mut books, newest, writes);
        drop(books);
        wake.into_iter().for_each(Waker::wake);
        commit
    }

    pub(super) fn commit_past_turnstile(&self, txn: Txn, reader: Option<LeafId>) -> Result<Commit, Conflict> {
        let mut books = self.lock();
        let newest = self.newest();
        if let Some(cell) = changed_since(&txn.reads, txn.base.version, &newest) {
            return Err(Conflict(cell));
        }
        if let Some(leaf) = reader.filter(|_| txn.writes.is_empty()) {
            books.readers.subscribe(leaf, txn.reads, &newest);
        }
        let (mut commit, wake) = self.publish(&mut books, newest, txn.writes);
        commit.invalidate = txn.invalidations;
        drop(books);
        wake.into_iter().for_each(Waker::wake);
        Ok(commit)
    }

    /// Has `waker` woken once when one of the cells that the transaction read has another value than it saw. `None`
    /// if one has already.
    pub fn watch(&self, txn: &Txn, waker: Waker) -> Option<WaiterId> {
        let mut books = self.lock();
        let newest = self.snapshot();
        let changed = changed_since(&txn.reads, txn.base.version, &newest);
        changed.is_none().then(|| books.readers.watch(&txn.reads, waker, &newest))
    }

    /// Ends a [`Store::watch`].
    pub fn unwatch(&self, waiter: WaiterId) {
        self.lock().readers.unwatch(waiter);
    }

    /// Whether the leaf is subscribed: its run is what f would do now.
    pub fn is_current(&self, leaf: LeafId) -> bool {
        self.lock().readers.has(leaf)
    }

    /// The leaves that depend on a cell.
    pub fn readers_of(&self, cell: &Cell) -> BTreeSet<LeafId> {
        self.lock().readers.of(cell)
    }

    /// Says that nobody notes where hosts are: queries that ask for it fail from now on, as f does.
    pub fn know_no_hosts(&self) {
        self.newest().memo.know_no_hosts();
    }

    /// Takes a path tag that nobody has.
    pub(crate) fn take_tag(&self, ids: std::ops::RangeInclusive<u16>) -> Option<u16> {
        let mut pool = sync::lock(&self.tags);
        let (behind, before): (Vec<u16>, Vec<u16>) = ids.partition(|id| *id > pool.last);
        let free = behind.into_iter().chain(before).find(|id| !pool.taken.contains(id))?;
        pool.taken.insert(free);
        pool.last = free;
        Some(free)
    }

    /// Gives a path tag back.
    pub(crate) fn give_tag_back(&self, id: u16) {
        sync::lock(&self.tags).taken.remove(&id);
    }

    /// Ends a leaf's subscriptions.
    pub fn forget(&self, leaf: LeafId) {
        self.lock().readers.forget(leaf);
    }

    /// How many leaves are subscribed, and to how many distinct cells.
    pub fn subscriptions(&self) -> (usize, usize) {
        self.lock().readers.count()
    }

    /// How many of the cells that somebody is subscribed to these writes could change: what a commit has to find out
    /// before anything is withdrawn, by itself.
    pub fn concerned(&self, writes: &[Write]) -> usize {
        self.lock().readers.suspects(writes, &self.newest()).len()
    }

    /// The newest snapshot, for whoever has the lock of the books.
    pub(super) fn newest(&self) -> Guard<Arc<Snapshot>> {
        sync::step();
        self.current.load()
    }

    pub(super) fn publish(
        &self,
        books: &mut Books,
        newest: Guard<Arc<Snapshot>>,
        writes: Vec<Write>,
    ) -> (Commit, Vec<Waker>) {
        let mut commit = Commit::default();
        if writes.is_empty() {
            return (commit, Vec::new());
        }
        let next = books.spare.next(&newest, &writes);
        for write in &writes {
            commit.refresh.extend(touched(write, &newest));
        }
        let Touched { withdraw, wake } = books.readers.changed(&writes, &newest, &next);
        commit.withdraw = withdraw;
        commit.kept = books.kept.tell(&writes, &next);
        #[cfg(any(test, feature = "testing"))]
        if let Some(trail) = &mut *sync::lock(&self.trail) {
            trail.push(Arc::clone(&next));
        }
        drop(newest);
        books.spare.keep(self.current.swap(next), writes);
        sync::step();
        (commit, wake)
    }

    /// Every snapshot that was published since this was last asked; nothing the first time.
    #[cfg(any(test, feature = "testing"))]
    pub fn take_trail(&self) -> Vec<Arc<Snapshot>> {
        sync::lock(&self.trail).replace(Vec::new()).unwrap_or_default()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Books> {
        sync::lock(&self.books)
    }
}

/// A cell that has another value than was read at `version`.
fn changed_since(reads: &BTreeMap<Cell, CellValue>, version: u64, newest: &Snapshot) -> Option<Cell> {
    if newest.version == version {
        return None;
    }
    reads.iter().find(|(cell, seen)| !cell.still(seen, Some(version), newest)).map(|(cell, _)| cell.clone())
}

/// The switches whose classifier a write may change.
fn touched(write: &Write, before: &Snapshot) -> Vec<Dpid> {
    match write {
        Write::Port { at, .. } => vec![at.switch],
        Write::Host { mac, info } => {
            let old = before.host(*mac).map(|host| host.location.switch);
            old.into_iter().chain(info.iter().map(|host| host.location.switch)).collect()
        }
        _ => Vec::new(),
    }
}
