//! Who depends on which cell: leaves, which are withdrawn when it changes, and waiters, which are woken.
//!
//! # Cost
//!
//! Cells are found by hash, so a write costs the look-ups of the few cells that it can change, whether there are ten
//! subscriptions or a million; where a table has no reader at all even these are saved. Questions about the topology
//! are kept in order besides, as a change of a link may concern all paths: each *distinct* one is evaluated once.

use std::collections::{BTreeMap, BTreeSet};
use std::task::Waker;

use rustc_hash::{FxHashMap, FxHashSet};

use super::{Cell, CellValue, Name, Snapshot, Write};
use crate::network::HostInfo;
use crate::tree::LeafId;

/// Who depends on what. Leaves come here when their run commits and go when they are withdrawn or forgotten.
#[derive(Debug, Default)]
pub(super) struct Readers {
    cells: FxHashMap<Cell, Subscription>,
    /// Those of `cells` that are about the topology, in order.
    topology: BTreeSet<Cell>,
    /// How many of `cells` are about which table.
    tables: FxHashMap<Name, usize>,
    leaves: FxHashMap<LeafId, Vec<Cell>>,
    waiters: BTreeMap<WaiterId, (Vec<Cell>, Waker)>,
    next_waiter: WaiterId,
}

/// A transaction that waits for a change.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct WaiterId(u64);

#[derive(Debug)]
struct Subscription {
    /// The cell's value in the newest snapshot.
    value: CellValue,
    leaves: BTreeSet<LeafId>,
    waiters: BTreeSet<WaiterId>,
}

/// What a change of cells means to their readers, who are subscribed no more.
#[derive(Default)]
pub(super) struct Touched {
    pub withdraw: BTreeSet<LeafId>,
    pub wake: Vec<Waker>,
}

impl Readers {
    /// Subscribes a leaf to cells with the values that they have now, in place of what it was subscribed to.
    pub fn subscribe(&mut self, leaf: LeafId, reads: BTreeMap<Cell, CellValue>) {
        self.forget(leaf);
        self.leaves.insert(leaf, reads.keys().cloned().collect());
        for (cell, value) in reads {
            self.subscription(cell, value).leaves.insert(leaf);
        }
    }

    /// Subscribes somebody who is to be woken when one of these cells changes.
    pub fn watch(&mut self, reads: &BTreeMap<Cell, CellValue>, waker: Waker) -> WaiterId {
        self.next_waiter.0 += 1;
        let id = self.next_waiter;
        for (cell, value) in reads {
            self.subscription(cell.clone(), value.clone()).waiters.insert(id);
        }
        self.waiters.insert(id, (reads.keys().cloned().collect(), waker));
        id
    }

    /// Ends a leaf's subscriptions.
    pub fn forget(&mut self, leaf: LeafId) {
        for cell in self.leaves.remove(&leaf).unwrap_or_default() {
            self.release(&cell, |subscription| subscription.leaves.remove(&leaf));
        }
    }

    /// Ends a waiter's subscriptions.
    pub fn unwatch(&mut self, waiter: WaiterId) -> Option<Waker> {
        let (cells, waker) = self.waiters.remove(&waiter)?;
        for cell in cells {
            self.release(&cell, |subscription| subscription.waiters.remove(&waiter));
        }
        Some(waker)
    }

    /// Whether a leaf is subscribed.
    pub fn has(&self, leaf: LeafId) -> bool {
        self.leaves.contains_key(&leaf)
    }

    /// The leaves that depend on a cell.
    pub fn of(&self, cell: &Cell) -> BTreeSet<LeafId> {
        self.cells.get(cell).map(|subscription| subscription.leaves.clone()).unwrap_or_default()
    }

    /// How many leaves are subscribed, and to how many distinct cells.
    pub fn count(&self) -> (usize, usize) {
        (self.leaves.len(), self.cells.len())
    }

    /// Evaluates the subscribed cells that `writes` may have changed and ends the subscriptions of those that did.
    pub fn changed(&mut self, writes: &[Write], before: &Snapshot, next: &Snapshot) -> Touched {
        let mut touched = Touched::default();
        if self.cells.is_empty() {
            return touched;
        }
        let mut waiters = BTreeSet::new();
        for cell in self.suspects(writes, before) {
            let Some(subscription) = self.cells.get(&cell) else { continue };
            if cell.evaluate(next) != subscription.value {
                touched.withdraw.extend(subscription.leaves.iter().copied());
                waiters.extend(subscription.waiters.iter().copied());
            }
        }
        touched.withdraw.iter().for_each(|leaf| self.forget(*leaf));
        touched.wake = waiters.into_iter().filter_map(|waiter| self.unwatch(waiter)).collect();
        touched
    }

    /// The cells that these writes can change, as far as somebody may be subscribed to them.
    fn suspects(&self, writes: &[Write], before: &Snapshot) -> FxHashSet<Cell> {
        let mut suspects = FxHashSet::default();
        for write in writes {
            match write {
                Write::Table { table, .. } if !self.tables.contains_key(table) => {}
                Write::Table { table, key, .. } => suspects.extend([
                    Cell::Table(table.clone(), key.clone()),
                    Cell::TableAll(table.clone()),
                    Cell::TableLen(table.clone()),
                ]),
                Write::Var { name, .. } | Write::Add { name, .. } => suspects.extend([Cell::Var(name.clone())]),
                Write::Host { mac, info } => {
                    suspects.extend([Cell::HostAt(*mac), Cell::HostAddresses(*mac), Cell::Hosts]);
                    let ips = before.host(*mac).into_iter().chain(info).flat_map(HostInfo::addresses);
                    suspects.extend(ips.map(Cell::HostByIp));
                }
                Write::Weight(name) | Write::Cost { name, .. } => {
                    suspects.extend([Cell::Weights]);
                    suspects.extend(self.topology.iter().filter(|cell| cell.is_path_by(name)).cloned());
                }
                Write::Switch { .. } => {
                    suspects.extend([Cell::Switches]);
                    suspects.extend(self.topology.iter().cloned());
                }
                Write::Port { at, .. } => {
                    suspects.extend([Cell::Port(*at), Cell::EdgePorts(at.switch)]);
                    suspects.extend(self.topology.iter().cloned());
                }
            }
        }
        suspects
    }

    fn subscription(&mut self, cell: Cell, value: CellValue) -> &mut Subscription {
        let (topology, tables) = (&mut self.topology, &mut self.tables);
        self.cells.entry(cell).or_insert_with_key(|cell| {
            if cell.is_topology() {
                topology.insert(cell.clone());
            }
            if let Some(table) = cell.table() {
                *tables.entry(table.clone()).or_default() += 1;
            }
            Subscription { value, leaves: BTreeSet::new(), waiters: BTreeSet::new() }
        })
    }

    fn release(&mut self, cell: &Cell, remove: impl FnOnce(&mut Subscription) -> bool) {
        let Some(subscription) = self.cells.get_mut(cell) else { return };
        remove(subscription);
        if !subscription.leaves.is_empty() || !subscription.waiters.is_empty() {
            return;
        }
        self.cells.remove(cell);
        self.topology.remove(cell);
        if let Some(table) = cell.table()
            && let Some(count) = self.tables.get_mut(table)
        {
            *count -= 1;
            if *count == 0 {
                self.tables.remove(table);
            }
        }
    }
}
