//! The store: the newest snapshot, and which leaves depend on which cells.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use maple_wire::Dpid;

use super::{Cell, CellValue, Snapshot, Txn, Write};
use crate::engine::Selection;
use crate::tree::LeafId;

/// All tracked state, shared by the shards.
#[derive(Debug, Default)]
pub struct Store {
    current: RwLock<Arc<Snapshot>>,
    readers: Mutex<Readers>,
    tags: Mutex<TagPool>,
    /// Every snapshot since it was last asked for, for tests that compare with what was true at any moment.
    #[cfg(any(test, feature = "testing"))]
    trail: Mutex<Vec<Arc<Snapshot>>>,
}

/// Who depends on what. Leaves come here when their run commits and go when they are withdrawn or forgotten.
#[derive(Debug, Default)]
struct Readers {
    cells: BTreeMap<Cell, Subscription>,
    leaves: BTreeMap<LeafId, Vec<Cell>>,
}

/// Which path tags leaves of any shard have.
#[derive(Debug, Default)]
struct TagPool {
    taken: BTreeSet<u16>,
    /// The last one that was taken: the next is taken behind it, so that each rests as long as can be.
    last: u16,
}

#[derive(Debug)]
struct Subscription {
    /// The cell's value in the newest snapshot.
    value: CellValue,
    leaves: BTreeSet<LeafId>,
}

/// What a commit did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Commit {
    /// The leaves of all shards that must be withdrawn, because a cell they read has another value now. They are no
    /// longer subscribed.
    pub withdraw: BTreeSet<LeafId>,
    /// The switches whose ports or hosts changed, so that their classifier must be looked at.
    pub refresh: BTreeSet<Dpid>,
    /// What the transaction asked to invalidate besides.
    pub invalidate: Vec<Selection>,
}

/// The transaction read something that has another value now; run it again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} changed during the run")]
pub struct Conflict(pub Cell);

impl Store {
    /// A store that knows nothing.
    pub fn new() -> Arc<Store> {
        Arc::new(Store::default())
    }

    /// The newest snapshot.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner))
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
        let mut readers = self.lock();
        let newest = self.snapshot();
        if newest.version != txn.base.version {
            let changed = txn.reads.iter().find(|(cell, seen)| cell.evaluate(&newest) != **seen);
            if let Some((cell, _)) = changed {
                return Err(Conflict(cell.clone()));
            }
        }
        let mut commit = self.publish(&mut readers, &newest, &txn.writes);
        commit.invalidate = txn.invalidations;
        if let Some(leaf) = reader.filter(|_| txn.writes.is_empty()) {
            readers.subscribe(leaf, txn.reads);
        }
        Ok(commit)
    }

    /// Changes the state by what `decide` makes of the newest snapshot; nothing can come between.
    pub fn update(&self, decide: impl FnOnce(&Snapshot) -> Vec<Write>) -> Commit {
        let mut readers = self.lock();
        let newest = self.snapshot();
        let writes = decide(&newest);
        self.publish(&mut readers, &newest, &writes)
    }

    /// Whether the leaf is subscribed: its run is what f would do now.
    pub fn is_current(&self, leaf: LeafId) -> bool {
        self.lock().leaves.contains_key(&leaf)
    }

    /// The leaves that depend on a cell.
    pub fn readers_of(&self, cell: &Cell) -> BTreeSet<LeafId> {
        self.lock().cells.get(cell).map(|subscription| subscription.leaves.clone()).unwrap_or_default()
    }

    /// Takes a path tag that nobody has.
    pub(crate) fn take_tag(&self, ids: std::ops::RangeInclusive<u16>) -> Option<u16> {
        let mut pool = self.tags.lock().unwrap_or_else(PoisonError::into_inner);
        let (behind, before): (Vec<u16>, Vec<u16>) = ids.partition(|id| *id > pool.last);
        let free = behind.into_iter().chain(before).find(|id| !pool.taken.contains(id))?;
        pool.taken.insert(free);
        pool.last = free;
        Some(free)
    }

    /// Gives a path tag back.
    pub(crate) fn give_tag_back(&self, id: u16) {
        self.tags.lock().unwrap_or_else(PoisonError::into_inner).taken.remove(&id);
    }

    /// Ends a leaf's subscriptions.
    pub fn forget(&self, leaf: LeafId) {
        self.lock().forget(leaf);
    }

    /// How many leaves are subscribed, and to how many distinct cells.
    pub fn subscriptions(&self) -> (usize, usize) {
        let readers = self.lock();
        (readers.leaves.len(), readers.cells.len())
    }

    fn publish(&self, readers: &mut Readers, newest: &Snapshot, writes: &[Write]) -> Commit {
        let mut commit = Commit::default();
        if writes.is_empty() {
            return commit;
        }
        let mut next = newest.clone();
        next.version += 1;
        for write in writes {
            commit.refresh.extend(touched(write, newest));
            next.apply(write);
        }
        commit.withdraw = readers.changed(writes, &next);
        let next = Arc::new(next);
        #[cfg(any(test, feature = "testing"))]
        self.trail.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&next));
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = next;
        commit
    }

    /// Every snapshot that was published since this was last asked.
    #[cfg(any(test, feature = "testing"))]
    pub fn take_trail(&self) -> Vec<Arc<Snapshot>> {
        std::mem::take(&mut self.trail.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn lock(&self) -> MutexGuard<'_, Readers> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Readers {
    fn subscribe(&mut self, leaf: LeafId, reads: BTreeMap<Cell, CellValue>) {
        self.forget(leaf);
        self.leaves.insert(leaf, reads.keys().cloned().collect());
        for (cell, value) in reads {
            self.cells
                .entry(cell)
                .or_insert_with(|| Subscription { value, leaves: BTreeSet::new() })
                .leaves
                .insert(leaf);
        }
    }

    fn forget(&mut self, leaf: LeafId) {
        for cell in self.leaves.remove(&leaf).unwrap_or_default() {
            if let Some(subscription) = self.cells.get_mut(&cell) {
                subscription.leaves.remove(&leaf);
                if subscription.leaves.is_empty() {
                    self.cells.remove(&cell);
                }
            }
        }
    }

    /// Evaluates the subscribed cells that `writes` may have changed and ends the subscriptions of those that did.
    fn changed(&mut self, writes: &[Write], next: &Snapshot) -> BTreeSet<LeafId> {
        let mut suspects = BTreeSet::new();
        let mut network = false;
        for write in writes {
            match write {
                Write::Table { table, key, .. } => suspects.extend([
                    Cell::Table(table.clone(), key.clone()),
                    Cell::TableAll(table.clone()),
                    Cell::TableLen(table.clone()),
                ]),
                Write::Var { name, .. } => suspects.extend([Cell::Var(name.clone())]),
                _ => network = true,
            }
        }
        if network {
            suspects.extend(self.cells.keys().filter(|c| writes.iter().any(|w| concerns(w, c))).cloned());
        }
        let mut withdrawn = BTreeSet::new();
        for cell in suspects {
            let Some(subscription) = self.cells.get(&cell) else { continue };
            if cell.evaluate(next) != subscription.value {
                withdrawn.extend(subscription.leaves.iter().copied());
            }
        }
        withdrawn.iter().for_each(|leaf| self.forget(*leaf));
        withdrawn
    }
}

/// Whether a write of network state can change the value of a cell.
fn concerns(write: &Write, cell: &Cell) -> bool {
    if cell.is_stored() {
        return false;
    }
    match write {
        Write::Host { mac, .. } => match cell {
            Cell::HostAt(m) | Cell::HostAddresses(m) => m == mac,
            Cell::HostByIp(_) | Cell::Hosts => true,
            _ => false,
        },
        Write::Cost { name, .. } | Write::Weight(name) => match cell {
            Cell::Path { weight, .. } => weight.as_ref() == Some(name),
            Cell::Weights => true,
            _ => false,
        },
        Write::Switch { .. } => {
            matches!(cell, Cell::Switches | Cell::Links | Cell::Path { .. } | Cell::Flood(_) | Cell::Port(_))
        }
        Write::Port { at, .. } => match cell {
            Cell::Port(port) => port == at,
            Cell::EdgePorts(dpid) => *dpid == at.switch,
            Cell::Links | Cell::Path { .. } | Cell::Flood(_) => true,
            _ => false,
        },
        Write::Table { .. } | Write::Var { .. } => false,
    }
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
