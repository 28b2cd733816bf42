//! Dependents of cells, which are notified when a cell changes, and waiters, which are woken.
//!
//! # Cost
//!
//! Cells are found by hash. Each has a number by which dependents know it: 4 bytes for each dependent and cell. So a
//! write costs the look-ups of the few cells that it can change, however many subscriptions there are. For a table that
//! no one reads, even these are saved. Questions about the topology are also kept in order, as a change of a link may
//! concern all paths: each *distinct* one is evaluated once.
//!
//! A query with subscribers is itself subscribed to the cells that its answer was made of. When one of these changes,
//! the query is evaluated once for all its dependents; they are affected only if the answer differs.

use std::collections::{BTreeMap, BTreeSet};
use std::task::Waker;

use maple_wire::Dpid;
use rustc_hash::{FxHashMap, FxHashSet};

use super::snapshot::concerns_links;
use super::{Cell, CellValue, Name, Snapshot, Value, Write};
use crate::ids::{DependentId, ShardId};
use crate::network::{Gauge, HostInfo, Location, Mac, PortInfo};

/// The subscriptions of dependents and waiters to cells. Dependents are added when their run commits, and removed when
/// a cell that they read changes or they are forgotten.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dependents {
    ids: FxHashMap<Cell, CellId>,
    /// The subscriptions by number; `None`: the number is free.
    cells: Vec<Option<Subscription>>,
    free: Vec<CellId>,
    /// The subscribed cells that are about the topology, in order.
    topology: BTreeSet<Cell>,
    /// The subscribed cells that are about a prefix of IP addresses.
    prefixes: BTreeSet<Cell>,
    /// The subscribed cells that are about measured rates, by rate.
    rates: BTreeMap<Gauge, BTreeSet<Cell>>,
    /// The number of subscribed paths by the utilisation of links.
    paths_by_use: usize,
    /// The number of times that a subscription was the first to need a measurement.
    measurings: u64,
    /// The number of subscribed cells about each table.
    tables: FxHashMap<Name, TableSubscriptions>,
    dependents: FxHashMap<DependentId, Box<[CellId]>>,
    waiters: BTreeMap<WaiterId, (Box<[CellId]>, Waker)>,
    next_waiter: WaiterId,
    /// The number of commits so far that ended subscriptions of dependents of a shard, by shard.
    ended: BTreeMap<ShardId, u64>,
    address_kinds: AddressKinds,
}

/// Kinds of IP addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct AddressKinds {
    pub v4: bool,
    pub v6: bool,
}

impl AddressKinds {
    /// Returns the kinds of addresses that a cell is about.
    fn from_cell(cell: &Cell) -> AddressKinds {
        match cell {
            Cell::HostByIp(ip) | Cell::HostsIn(ip, _) => AddressKinds { v4: ip.is_ipv4(), v6: ip.is_ipv6() },
            Cell::Bindings { is_v6 } => AddressKinds { v4: !is_v6, v6: *is_v6 },
            Cell::HostAddresses(_) => AddressKinds { v4: true, v6: true },
            _ => AddressKinds::default(),
        }
    }

    pub(super) fn of_bits(bits: u8) -> AddressKinds {
        AddressKinds { v4: bits & 1 != 0, v6: bits & 2 != 0 }
    }

    pub(super) fn bits(self) -> u8 {
        u8::from(self.v4) | u8::from(self.v6) << 1
    }
}

/// The number of a cell with subscribers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct CellId(u32);

/// A transaction that waits for a change.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct WaiterId(u64);

/// The number of subscribed cells about a table.
#[derive(Clone, Debug, Default)]
struct TableSubscriptions {
    keys: usize,
    /// The cells about the table as a whole, or about its number of keys.
    whole: usize,
}

#[derive(Clone, Debug)]
struct Subscription {
    cell: Cell,
    /// The cell's value in the newest snapshot.
    value: CellValue,
    dependents: BTreeSet<DependentId>,
    waiters: BTreeSet<WaiterId>,
    /// The queries and routes whose values rest on the cell.
    made_of_it: BTreeSet<CellId>,
    /// The cells that its own value rests on, if it is a query or a route.
    inputs: Vec<CellId>,
}

impl Subscription {
    fn is_wanted(&self) -> bool {
        !self.dependents.is_empty() || !self.waiters.is_empty() || !self.made_of_it.is_empty()
    }
}

/// The dependents of cells that changed. Their subscriptions have ended.
#[derive(Default)]
pub(crate) struct Invalidated {
    pub withdraw: BTreeSet<DependentId>,
    pub wake: Vec<Waker>,
}

impl TableSubscriptions {
    fn count_of(&mut self, cell: &Cell) -> &mut usize {
        if matches!(cell, Cell::Table(..)) { &mut self.keys } else { &mut self.whole }
    }
}

impl Dependents {
    /// Returns a copy without waiters.
    pub fn without_waiters(&self) -> Dependents {
        let mut copy = self.clone();
        self.waiters.keys().for_each(|waiter| drop(copy.unwatch(*waiter)));
        copy
    }

    /// Subscribes a dependent to cells with their present values, in place of its earlier subscriptions.
    pub fn subscribe(&mut self, dependent: DependentId, reads: BTreeMap<Cell, CellValue>, now: &Snapshot) {
        let before = self.dependents.remove(&dependent);
        let mut cells = Vec::with_capacity(reads.len());
        for (cell, value) in reads {
            let id = self.id(cell, value, now);
            self.at(id).dependents.insert(dependent);
            cells.push(id);
        }
        for id in before.iter().flatten().filter(|id| !cells.contains(id)) {
            self.release(*id, |subscription| subscription.dependents.remove(&dependent));
        }
        self.dependents.insert(dependent, cells.into());
    }

    /// Subscribes a waiter, whose waker is used when one of these cells changes.
    pub fn watch(&mut self, reads: &BTreeMap<Cell, CellValue>, waker: Waker, now: &Snapshot) -> WaiterId {
        self.next_waiter.0 += 1;
        let waiter = self.next_waiter;
        let mut cells = Vec::with_capacity(reads.len());
        for (cell, value) in reads {
            let id = self.id(cell.clone(), value.clone(), now);
            self.at(id).waiters.insert(waiter);
            cells.push(id);
        }
        self.waiters.insert(waiter, (cells.into(), waker));
        waiter
    }

    /// Ends a dependent's subscriptions.
    pub fn forget(&mut self, dependent: DependentId) {
        for id in self.dependents.remove(&dependent).unwrap_or_default() {
            self.release(id, |subscription| subscription.dependents.remove(&dependent));
        }
    }

    /// Ends a waiter's subscriptions.
    pub fn unwatch(&mut self, waiter: WaiterId) -> Option<Waker> {
        let (cells, waker) = self.waiters.remove(&waiter)?;
        for id in cells {
            self.release(id, |subscription| subscription.waiters.remove(&waiter));
        }
        Some(waker)
    }

    /// Reports whether a dependent is subscribed.
    pub fn has(&self, dependent: DependentId) -> bool {
        self.dependents.contains_key(&dependent)
    }

    /// Returns the dependents of a cell, directly or through queries and routes.
    pub fn of_cell(&self, cell: &Cell) -> BTreeSet<DependentId> {
        let (mut dependents, mut seen) = (BTreeSet::new(), BTreeSet::new());
        let mut next: Vec<CellId> = self.ids.get(cell).copied().into_iter().collect();
        while let Some(id) = next.pop() {
            let Some(subscription) = self.get(id).filter(|_| seen.insert(id)) else { continue };
            dependents.extend(subscription.dependents.iter().copied());
            next.extend(&subscription.made_of_it);
        }
        dependents
    }

    /// Returns the dependents of a flood.
    pub fn of_floods(&self) -> BTreeSet<DependentId> {
        let floods = self.topology.range(Cell::Flood(Dpid(0), None)..);
        floods.take_while(|cell| matches!(cell, Cell::Flood(..))).flat_map(|flood| self.of_cell(flood)).collect()
    }

    /// Returns the cells with subscribers, in no particular order.
    pub fn cells(&self) -> impl Iterator<Item = &Cell> {
        self.ids.keys()
    }

    /// Returns the number of subscribed dependents, and the number of distinct cells with subscribers.
    pub fn count(&self) -> (usize, usize) {
        (self.dependents.len(), self.ids.len())
    }

    /// Returns the kinds of addresses that a dependent or a waiter has ever subscribed to.
    pub fn address_kinds(&self) -> AddressKinds {
        self.address_kinds
    }

    /// Returns the rates that subscriptions need from the counters of a switch's ports.
    pub fn wanted_of_ports(&self, dpid: Dpid, state: &Snapshot) -> BTreeSet<Gauge> {
        let ports = state.ports_of(dpid).map(|(port, _)| Location::new(dpid, port));
        let gauges = ports.flat_map(|at| [Gauge::Sent(at), Gauge::Received(at)]);
        let mut wanted: BTreeSet<Gauge> = gauges.filter(|gauge| self.rates.contains_key(gauge)).collect();
        if self.want_use_of_links() {
            wanted.extend(state.links_of(dpid).map(|(at, _)| Gauge::Sent(at)));
        }
        wanted
    }

    /// Returns the rates that subscriptions need from the counters of a switch's rules.
    pub fn wanted_of_rules(&self, dpid: Dpid, state: &Snapshot) -> BTreeSet<Gauge> {
        let traffic = |from: Mac| self.rates.range(Gauge::all_from(from)).map(|(gauge, _)| *gauge);
        state.hosts_of(dpid).flat_map(traffic).collect()
    }

    /// Reports whether a subscription needs the utilisation of every link.
    pub fn want_use_of_links(&self) -> bool {
        self.paths_by_use > 0
    }

    /// Returns the number of commits so far that ended subscriptions of dependents of a shard. A shard that has heard
    /// of as many knows which of its dependents are current.
    pub fn ended(&self, shard: ShardId) -> u64 {
        self.ended.get(&shard).copied().unwrap_or_default()
    }

    /// Returns a count that goes up when a subscription needs a measurement that none needed before.
    pub fn measurings(&self) -> u64 {
        self.measurings
    }

    /// Evaluates the subscribed cells that `writes` may have changed. Ends the subscriptions to those that did change,
    /// and returns their dependents.
    pub fn changed(&mut self, writes: &[Write], before: &Snapshot, next: &Snapshot) -> Invalidated {
        let mut touched = Invalidated::default();
        let suspects = self.suspects(writes, before);
        if suspects.is_empty() {
            return touched;
        }
        let mut suspects: Vec<CellId> = suspects.iter().filter_map(|cell| self.ids.get(cell).copied()).collect();
        suspects.sort_unstable();
        let mut waiters = BTreeSet::new();
        let mut seen: FxHashSet<CellId> = suspects.iter().copied().collect();
        while let Some(id) = suspects.pop() {
            let Some(subscription) = self.get(id) else { continue };
            let value = subscription.cell.evaluate(next);
            let differs = match &subscription.cell {
                Cell::TableAll(table) => differs(table, writes, before, next),
                _ => value != subscription.value,
            };
            if differs {
                let subscription = self.at(id);
                touched.withdraw.extend(subscription.dependents.iter().copied());
                waiters.extend(subscription.waiters.iter().copied());
                suspects.extend(subscription.made_of_it.iter().filter(|made| seen.insert(**made)));
                subscription.value = value;
            }
            self.resubscribe(id, next);
        }
        touched.withdraw.iter().for_each(|dependent| self.forget(*dependent));
        let shards: BTreeSet<ShardId> = touched.withdraw.iter().map(|dependent| ShardId::owning(*dependent)).collect();
        shards.into_iter().for_each(|shard| *self.ended.entry(shard).or_default() += 1);
        touched.wake = waiters.into_iter().filter_map(|waiter| self.unwatch(waiter)).collect();
        touched
    }

    /// Returns the subscribed cells that these writes can change.
    pub fn suspects(&self, writes: &[Write], before: &Snapshot) -> FxHashSet<Cell> {
        let mut suspects = FxHashSet::default();
        if self.ids.is_empty() {
            return suspects;
        }
        for write in writes {
            match write {
                Write::Table { table, key, .. } => self.suspect_table(&mut suspects, table, key),
                Write::Var { name, .. } | Write::Add { name, .. } => {
                    self.suspect(&mut suspects, [Cell::Var(name.clone())]);
                }
                Write::Host { mac, info } => self.suspect_host(&mut suspects, *mac, info.as_ref(), before),
                // No run depends on declared types. What a run sees of ports and hosts follows from the facts, by
                // writes of its own.
                Write::Types { .. } | Write::Kind { .. } | Write::Facts { .. } => {}
                Write::CostName(name) | Write::Cost { name, .. } => {
                    self.suspect(&mut suspects, [Cell::CostNames]);
                    suspects.extend(self.topology.iter().filter(|cell| cell.is_path_by(name)).cloned());
                }
                Write::Switch { .. } => {
                    self.suspect(&mut suspects, [Cell::Switches]);
                    suspects.extend(self.topology.iter().cloned());
                }
                Write::Port { at, info } => self.suspect_port(&mut suspects, *at, *info, before),
                Write::Speed { at, .. } => self.suspect(&mut suspects, [Cell::Speed(*at)]),
                Write::Rate { gauge, .. } => self.suspect_rate(&mut suspects, gauge),
            }
        }
        suspects
    }

    /// Adds the cells that a change of a host can change.
    fn suspect_host(&self, suspects: &mut FxHashSet<Cell>, mac: Mac, now: Option<&HostInfo>, before: &Snapshot) {
        let was = before.host(mac);
        self.suspect(suspects, [Cell::HostAt(mac), Cell::HostAddresses(mac), Cell::Hosts]);
        self.suspect(suspects, [false, true].map(|is_v6| Cell::Bindings { is_v6 }));
        let ips = || was.into_iter().chain(now).flat_map(HostInfo::addresses);
        self.suspect(suspects, ips().map(Cell::HostByIp));
        let places = [was, now].into_iter().flatten().map(|host| host.location);
        self.suspect(suspects, places.flat_map(|at| [Cell::HostsAt(at), Cell::HostsOf(at.switch)]));
        suspects.extend(self.prefixes.iter().filter(|cell| ips().any(|ip| cell.has_ip(ip))).cloned());
        if was.map(|host| host.location) != now.map(|host| host.location) {
            before.traffic_from(mac).for_each(|gauge| self.suspect_rate(suspects, &gauge));
        }
    }

    /// Adds the cells that a change of a port can change.
    fn suspect_port(&self, suspects: &mut FxHashSet<Cell>, at: Location, now: Option<PortInfo>, before: &Snapshot) {
        self.suspect(suspects, [Cell::Port(at), Cell::IsPlace(at), Cell::IsUp(at), Cell::EdgePorts(at.switch)]);
        let links = concerns_links(before.port(at), now);
        let may_change = |cell: &&Cell| links || matches!(cell, Cell::Flood(..));
        suspects.extend(self.topology.iter().filter(may_change).cloned());
        if now.is_none() {
            self.suspect(suspects, [Cell::Speed(at)]);
            self.suspect_rate(suspects, &Gauge::Sent(at));
            self.suspect_rate(suspects, &Gauge::Received(at));
        }
    }

    fn suspect_rate(&self, suspects: &mut FxHashSet<Cell>, gauge: &Gauge) {
        suspects.extend(self.rates.get(gauge).into_iter().flatten().cloned());
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
        suspects.extend(cells.into_iter().filter(|cell| self.ids.contains_key(cell)));
    }

    fn get(&self, id: CellId) -> Option<&Subscription> {
        self.cells.get(id.0 as usize)?.as_ref()
    }

    /// Returns the subscription with a number that was given out and not released since.
    fn at(&mut self, id: CellId) -> &mut Subscription {
        self.cells[id.0 as usize].as_mut().expect("numbers are given out for cells that somebody is subscribed to")
    }

    /// Returns the number of a cell, a new one if it has none. The caller then adds a subscriber to it.
    fn id(&mut self, cell: Cell, value: CellValue, now: &Snapshot) -> CellId {
        if let Some(id) = self.ids.get(&cell) {
            return *id;
        }
        let kinds = AddressKinds::from_cell(&cell);
        self.address_kinds.v4 |= kinds.v4;
        self.address_kinds.v6 |= kinds.v6;
        if cell.is_topology() {
            self.topology.insert(cell.clone());
        }
        if matches!(cell, Cell::HostsIn(..)) {
            self.prefixes.insert(cell.clone());
        }
        if let Some(gauge) = cell.gauge() {
            let cells = self.rates.entry(gauge).or_default();
            self.measurings += u64::from(cells.is_empty());
            cells.insert(cell.clone());
        }
        if cell.is_path_by_use() {
            self.measurings += u64::from(self.paths_by_use == 0);
            self.paths_by_use += 1;
        }
        if let Some(table) = cell.table() {
            *self.tables.entry(table.clone()).or_default().count_of(&cell) += 1;
        }
        let id = self.free.pop().unwrap_or_else(|| {
            self.cells.push(None);
            CellId(self.cells.len() as u32 - 1)
        });
        self.ids.insert(cell.clone(), id);
        let (dependents, waiters, made_of_it, inputs) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new(), Vec::new());
        self.cells[id.0 as usize] = Some(Subscription { cell, value, dependents, waiters, made_of_it, inputs });
        self.resubscribe(id, now);
        id
    }

    /// Subscribes a query or route to the cells that its value rests on now, and ends the subscriptions to its former
    /// inputs.
    fn resubscribe(&mut self, id: CellId, now: &Snapshot) {
        let Some(subscription) = self.get(id) else { return };
        let reads = match &subscription.cell {
            Cell::Query(question) => question.answer_with_reads(now).1,
            cell @ Cell::Route(_) => now.derive_with_inputs(cell).1,
            _ => return,
        };
        let mut inputs = Vec::with_capacity(reads.len());
        for (input, value) in reads.iter() {
            let input = self.id(input.clone(), value.clone(), now);
            self.at(input).made_of_it.insert(id);
            inputs.push(input);
        }
        let old = std::mem::replace(&mut self.at(id).inputs, inputs.clone());
        let kept: FxHashSet<CellId> = inputs.into_iter().collect();
        for input in old.into_iter().filter(|input| !kept.contains(input)) {
            self.release(input, |subscription| subscription.made_of_it.remove(&id));
        }
    }

    /// Ends a subscription to a cell, and forgets all cells that then have no subscriber.
    fn release(&mut self, id: CellId, remove: impl FnOnce(&mut Subscription) -> bool) {
        remove(self.at(id));
        let mut unwanted = vec![id];
        while let Some(id) = unwanted.pop() {
            if self.get(id).is_none_or(Subscription::is_wanted) {
                continue;
            }
            let Some(Subscription { cell, inputs, .. }) = self.cells[id.0 as usize].take() else { continue };
            self.free.push(id);
            self.ids.remove(&cell);
            self.topology.remove(&cell);
            self.prefixes.remove(&cell);
            self.paths_by_use -= usize::from(cell.is_path_by_use());
            if let Some(gauge) = cell.gauge()
                && let Some(cells) = self.rates.get_mut(&gauge)
            {
                cells.remove(&cell);
                if cells.is_empty() {
                    self.rates.remove(&gauge);
                }
            }
            if let Some(table) = cell.table()
                && let Some(about) = self.tables.get_mut(table)
            {
                *about.count_of(&cell) -= 1;
                if about.keys + about.whole == 0 {
                    self.tables.remove(table);
                }
            }
            for input in inputs {
                self.at(input).made_of_it.remove(&id);
                unwanted.push(input);
            }
        }
    }
}

/// Reports whether these writes, the only ones to a table, have changed its keys or values.
fn differs(table: &Name, writes: &[Write], before: &Snapshot, next: &Snapshot) -> bool {
    let at = |state: &Snapshot, key: &Value| state.table(table).and_then(|rows| rows.get(key)).cloned();
    writes.iter().any(|write| match write {
        Write::Table { table: of, key, .. } => of == table && at(before, key) != at(next, key),
        _ => false,
    })
}
