//! Who depends on which cell: leaves, which are withdrawn when it changes, and waiters, which are woken.
//!
//! # Cost
//!
//! Cells are found by hash, so a write costs the look-ups of the few cells that it can change, whether there are ten
//! subscriptions or a million; where a table has no reader at all even these are saved. Questions about the topology
//! are kept in order besides, as a change of a link may concern all paths: each *distinct* one is evaluated once.
//!
//! A query that somebody is subscribed to is in turn subscribed to what its answer was made of. When that changes the
//! query is evaluated, once for all its readers; they hear of it only if the answer differs.

use std::collections::{BTreeMap, BTreeSet};
use std::task::Waker;

use rustc_hash::{FxHashMap, FxHashSet};

use super::{Cell, CellValue, Name, Snapshot, Value, Write};
use crate::network::HostInfo;
use crate::tree::LeafId;

/// Who depends on what. Leaves come here when their run commits and go when they are withdrawn or forgotten.
#[derive(Debug, Default)]
pub(super) struct Readers {
    cells: FxHashMap<Cell, Subscription>,
    /// Those of `cells` that are about the topology, in order.
    topology: BTreeSet<Cell>,
    /// How many of `cells` are about which table.
    tables: FxHashMap<Name, About>,
    /// What the answers of those of `cells` that are queries were made of.
    inputs: FxHashMap<Cell, Vec<Cell>>,
    leaves: FxHashMap<LeafId, Vec<Cell>>,
    waiters: BTreeMap<WaiterId, (Vec<Cell>, Waker)>,
    next_waiter: WaiterId,
}

/// A transaction that waits for a change.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct WaiterId(u64);

/// How many subscribed cells are about a table.
#[derive(Debug, Default)]
struct About {
    keys: usize,
    /// The table as a whole, or the number of its keys.
    whole: usize,
}

#[derive(Debug)]
struct Subscription {
    /// The cell's value in the newest snapshot.
    value: CellValue,
    leaves: BTreeSet<LeafId>,
    waiters: BTreeSet<WaiterId>,
    /// Queries whose answers were made of it.
    queries: BTreeSet<Cell>,
}

/// What a change of cells means to their readers, who are subscribed no more.
#[derive(Default)]
pub(super) struct Touched {
    pub withdraw: BTreeSet<LeafId>,
    pub wake: Vec<Waker>,
}

impl About {
    fn of(&mut self, cell: &Cell) -> &mut usize {
        if matches!(cell, Cell::Table(..)) { &mut self.keys } else { &mut self.whole }
    }
}

impl Readers {
    /// Subscribes a leaf to cells with the values that they have now, in place of what it was subscribed to.
    pub fn subscribe(&mut self, leaf: LeafId, reads: BTreeMap<Cell, CellValue>, now: &Snapshot) {
        self.forget(leaf);
        self.leaves.insert(leaf, reads.keys().cloned().collect());
        for (cell, value) in reads {
            self.subscription(cell, value, now).leaves.insert(leaf);
        }
    }

    /// Subscribes somebody who is to be woken when one of these cells changes.
    pub fn watch(&mut self, reads: &BTreeMap<Cell, CellValue>, waker: Waker, now: &Snapshot) -> WaiterId {
        self.next_waiter.0 += 1;
        let id = self.next_waiter;
        for (cell, value) in reads {
            self.subscription(cell.clone(), value.clone(), now).waiters.insert(id);
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

    /// The cells that somebody is subscribed to, in no order.
    pub fn cells(&self) -> impl Iterator<Item = &Cell> {
        self.cells.keys()
    }

    /// How many leaves are subscribed, and to how many distinct cells.
    pub fn count(&self) -> (usize, usize) {
        (self.leaves.len(), self.cells.len())
    }

    /// Evaluates the subscribed cells that `writes` may have changed and ends the subscriptions of those that did.
    pub fn changed(&mut self, writes: &[Write], before: &Snapshot, next: &Snapshot) -> Touched {
        let mut touched = Touched::default();
        let mut suspects: Vec<Cell> = self.suspects(writes, before).into_iter().collect();
        if suspects.is_empty() {
            return touched;
        }
        let mut waiters = BTreeSet::new();
        let mut seen: FxHashSet<Cell> = suspects.iter().cloned().collect();
        while let Some(cell) = suspects.pop() {
            let Some(subscription) = self.cells.get_mut(&cell) else { continue };
            let value = cell.evaluate(next);
            let differs = match &cell {
                Cell::TableAll(table) => differs(table, writes, before, next),
                _ => value != subscription.value,
            };
            if differs {
                touched.withdraw.extend(subscription.leaves.iter().copied());
                waiters.extend(subscription.waiters.iter().copied());
                suspects.extend(subscription.queries.iter().filter(|query| seen.insert((*query).clone())).cloned());
                subscription.value = value;
            }
            self.resubscribe(&cell, next);
        }
        touched.withdraw.iter().for_each(|leaf| self.forget(*leaf));
        touched.wake = waiters.into_iter().filter_map(|waiter| self.unwatch(waiter)).collect();
        touched
    }

    /// The cells that these writes can change and somebody is subscribed to.
    pub fn suspects(&self, writes: &[Write], before: &Snapshot) -> FxHashSet<Cell> {
        let mut suspects = FxHashSet::default();
        if self.cells.is_empty() {
            return suspects;
        }
        for write in writes {
            match write {
                Write::Table { table, key, .. } => self.suspect_table(&mut suspects, table, key),
                Write::Var { name, .. } | Write::Add { name, .. } => {
                    self.suspect(&mut suspects, [Cell::Var(name.clone())]);
                }
                Write::Host { mac, info } => {
                    self.suspect(&mut suspects, [Cell::HostAt(*mac), Cell::HostAddresses(*mac), Cell::Hosts]);
                    let ips = before.host(*mac).into_iter().chain(info).flat_map(HostInfo::addresses);
                    self.suspect(&mut suspects, ips.map(Cell::HostByIp));
                }
                Write::Weight(name) | Write::Cost { name, .. } => {
                    self.suspect(&mut suspects, [Cell::Weights]);
                    suspects.extend(self.topology.iter().filter(|cell| cell.is_path_by(name)).cloned());
                }
                Write::Switch { .. } => {
                    self.suspect(&mut suspects, [Cell::Switches]);
                    suspects.extend(self.topology.iter().cloned());
                }
                Write::Port { at, .. } => {
                    self.suspect(&mut suspects, [Cell::Port(*at), Cell::EdgePorts(at.switch)]);
                    suspects.extend(self.topology.iter().cloned());
                }
            }
        }
        suspects
    }

    fn suspect_table(&self, suspects: &mut FxHashSet<Cell>, table: &Name, key: &Value) {
        let Some(about) = self.tables.get(table) else { return };
        if about.keys > 0 {
            self.suspect(suspects, [Cell::Table(table.clone(), key.clone())]);
        }
        if about.whole > 0 {
            self.suspect(suspects, [Cell::TableAll(table.clone()), Cell::TableLen(table.clone())]);
        }
    }

    fn suspect(&self, suspects: &mut FxHashSet<Cell>, cells: impl IntoIterator<Item = Cell>) {
        suspects.extend(cells.into_iter().filter(|cell| self.cells.contains_key(cell)));
    }

    fn subscription(&mut self, cell: Cell, value: CellValue, now: &Snapshot) -> &mut Subscription {
        if !self.cells.contains_key(&cell) {
            if cell.is_topology() {
                self.topology.insert(cell.clone());
            }
            if let Some(table) = cell.table() {
                *self.tables.entry(table.clone()).or_default().of(&cell) += 1;
            }
            self.resubscribe(&cell, now);
        }
        self.cells.entry(cell).or_insert_with(|| Subscription {
            value,
            leaves: BTreeSet::new(),
            waiters: BTreeSet::new(),
            queries: BTreeSet::new(),
        })
    }

    /// Subscribes a query to what its answer is made of now, and no more to what it was made of.
    fn resubscribe(&mut self, cell: &Cell, now: &Snapshot) {
        let Cell::Query(question) = cell else { return };
        let (_, reads) = question.answer_with_reads(now);
        let old = self.inputs.insert(cell.clone(), reads.iter().map(|(input, _)| input.clone()).collect());
        for (input, value) in reads.iter() {
            self.subscription(input.clone(), value.clone(), now).queries.insert(cell.clone());
        }
        for input in old.unwrap_or_default() {
            if reads.iter().all(|(new, _)| *new != input) {
                self.release(&input, |subscription| subscription.queries.remove(cell));
            }
        }
    }

    fn release(&mut self, cell: &Cell, remove: impl FnOnce(&mut Subscription) -> bool) {
        let Some(subscription) = self.cells.get_mut(cell) else { return };
        remove(subscription);
        if !subscription.leaves.is_empty() || !subscription.waiters.is_empty() || !subscription.queries.is_empty() {
            return;
        }
        self.cells.remove(cell);
        self.topology.remove(cell);
        if let Some(table) = cell.table()
            && let Some(about) = self.tables.get_mut(table)
        {
            *about.of(cell) -= 1;
            if about.keys + about.whole == 0 {
                self.tables.remove(table);
            }
        }
        for input in self.inputs.remove(cell).unwrap_or_default() {
            self.release_query(&input, cell);
        }
    }

    /// Ends a query's subscription to what its answer was made of. Apart from [`Readers::release`], which is generic and
    /// would otherwise have no end of types.
    fn release_query(&mut self, input: &Cell, query: &Cell) {
        self.release(input, |subscription| subscription.queries.remove(query));
    }
}

/// Whether a table has other keys or values than before; nothing but these writes happened to it.
fn differs(table: &Name, writes: &[Write], before: &Snapshot, next: &Snapshot) -> bool {
    let at = |state: &Snapshot, key: &Value| state.table(table).and_then(|rows| rows.get(key)).cloned();
    writes.iter().any(|write| match write {
        Write::Table { table: of, key, .. } => of == table && at(before, key) != at(next, key),
        _ => false,
    })
}
