//! The tables of one switch: what they have, what they are to have, and the ordered update between the two.
//!
//! # In and out
//!
//! Everybody who has an interest in a table says what changed ([`Tables::say`]; where several share a table, [`Union`] decides
//! between them). What may be otherwise than the switch has it is *pending*. An update ([`Tables::send_update`]) sends the
//! difference, with a barrier request behind it; whoever waits for rules to come in or go ([`Waiter`]) waits for the reply
//! ([`Tables::confirm`]). Of a switch of which we only just learned what it has, all entries are compared
//! ([`Tables::compare_all`]).
//!
//! # What the switch has
//!
//! `installed` is what the switch has when it has done all that was sent. When it refuses something ([`Tables::refuse`]) we no
//! longer know, so its rules are read ([`Tables::ask_again`], [`Tables::read`]). Nothing is sent meanwhile.
//!
//! # Two steps
//!
//! The order of changes (`update.rs`) is safe after each prefix. It is not where a switch refuses one of them in the
//! middle, and goes on: a barrier rule that found no room does not shield what is changed or deleted after it. So where an
//! update has both, its additions go first, with a barrier request of their own, and the rest follows when they are
//! confirmed. What is wanted meanwhile waits until then. If an addition was refused, the rest is not sent; the rules are
//! read, and compared anew. Additions themselves may be refused from any point on: each of them only follows such as
//! lie above it.
//!
//! What the *door* sends on (the classifier, where there are other tables) comes last, after the rest: a host that was just
//! found must not meet rules that knew nothing of it. Until then its packets come to the controller, which is always right.

use std::collections::{BTreeMap, VecDeque};

use maple_wire::Version;
use maple_wire::msg::{FlowMod, Message};

use super::Time;
use super::routes::RouteId;
use crate::ids::LeafId;
use crate::rule::Rule;
use crate::update::{Change, EntryKey, Installed, changes, key_of};

mod removals;
mod union;

use removals::Removals;
pub(super) use union::Source;
use union::{Pending, SharedTable};

/// The tables.
pub(super) struct Tables {
    /// By table.
    installed: BTreeMap<u8, Installed>,
    /// By table.
    pending: BTreeMap<u8, Pending>,
    /// The table that several share.
    shared: SharedTable,
    /// The engine's own rules as they were last said, by table.
    own: BTreeMap<u8, Vec<Rule>>,
    /// Whether `pending` has all that may be otherwise than it is.
    synchronised: bool,
    phase: Phase,
    /// Whether `installed` is known; nothing is sent before.
    ready: bool,
    first_xid: u32,
    next_xid: u32,
    /// Sent and not yet confirmed, oldest first.
    unconfirmed: VecDeque<(u32, Unconfirmed)>,
    /// Rules that were deleted of late.
    removals: Removals,
    /// Who waits for the barrier of the next update.
    waiting: Vec<Waiter>,
}

/// How far an update of two steps is.
#[derive(Default)]
enum Phase {
    #[default]
    One,
    /// The additions are on their way; the barrier request with this id tells when they are there. Then the rest follows,
    /// and these wait for it.
    Adding(u32, Vec<Waiter>),
    /// The additions are there.
    Added(Vec<Waiter>),
}

enum Unconfirmed {
    FlowMod { table: u8, rule: Rule },
    Barrier(Vec<Waiter>),
}

impl Unconfirmed {
    fn waiters(&self) -> &[Waiter] {
        match self {
            Unconfirmed::Barrier(waiters) => waiters,
            Unconfirmed::FlowMod { .. } => &[],
        }
    }
}

/// Who waits for a barrier, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Waiter {
    /// Labels, by their serial numbers, whose rules came in or went out.
    Labels(Vec<u64>),
    /// A leaf's ingress rule was taken out, or leads another way than this route, with which the leaf stays or not.
    RuleRemoved { via: RouteId, stays: bool },
    /// No rule leads along a former course of a route any more.
    FormerPath { via: RouteId, serial: u64 },
    /// A leaf's ingress rule came in.
    RuleAdded(LeafId),
    /// Somebody wants to know that all before is done.
    Barriers(u64),
}

/// Messages to the switch, with their transaction ids.
pub(super) type Requests = Vec<(u32, Message)>;

/// What a barrier reply confirms.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Confirmed {
    pub waiters: Vec<Waiter>,
    /// Whether the second step of an update may follow.
    pub has_second_step: bool,
}

impl Tables {
    /// Tables of which nothing is known. Transaction ids begin with this one.
    pub fn new(first_xid: u32) -> Tables {
        Tables {
            installed: BTreeMap::new(),
            pending: BTreeMap::new(),
            shared: SharedTable::default(),
            own: BTreeMap::new(),
            synchronised: false,
            phase: Phase::One,
            ready: false,
            first_xid,
            next_xid: first_xid,
            unconfirmed: VecDeque::new(),
            removals: Removals::default(),
            waiting: Vec::new(),
        }
    }

    /// Whether it is known what the switch has.
    pub fn is_ready(&self) -> bool {
        self.ready
    }

    /// How many rules it has in a table, or in all.
    pub fn count(&self, table: Option<u8>) -> usize {
        let counted = self.installed.iter().filter(|(id, _)| table.is_none_or(|table| table == **id));
        counted.map(|(_, installed)| installed.len()).sum()
    }

    /// How many rules come in, of one table or all.
    pub fn additions(&self, table: Option<u8>) -> usize {
        let chosen = self.pending.iter().filter(|(id, _)| table.is_none_or(|table| table == **id));
        chosen.map(|(table, pending)| pending.additions(self.installed.get(table))).sum()
    }

    /// Its rules, by table and falling priority.
    pub fn installed(&self) -> impl Iterator<Item = (u8, Rule)> {
        self.installed.iter().flat_map(|(table, installed)| installed.rules().into_iter().map(|rule| (*table, rule)))
    }

    /// Whether the switch has rules in a table and has confirmed all that was sent for it.
    pub fn is_confirmed(&self, table: u8) -> bool {
        let is_of_it =
            |(_, sent): &(u32, Unconfirmed)| matches!(sent, Unconfirmed::FlowMod { table: of, .. } if *of == table);
        self.count(Some(table)) > 0 && !self.unconfirmed.iter().any(is_of_it)
    }

    /// Whether the second step of an update is still to come.
    pub fn has_second_step(&self) -> bool {
        !matches!(self.phase, Phase::One)
    }

    /// Whether something was sent, or is to be, that the switch has not confirmed.
    pub fn is_unconfirmed(&self) -> bool {
        !self.unconfirmed.is_empty() || !self.waiting.is_empty() || !self.ready || self.has_second_step()
    }

    /// The id for the next message.
    pub fn take_xid(&mut self) -> u32 {
        let xid = self.next_xid;
        self.next_xid = xid.checked_add(1).unwrap_or(self.first_xid);
        xid
    }

    /// Somebody waits for the barrier of the next update.
    pub fn wait(&mut self, waiter: Waiter) {
        self.waiting.push(waiter);
    }

    /// Those who wait for the next update wait no more.
    pub fn take_waiting(&mut self) -> Vec<Waiter> {
        std::mem::take(&mut self.waiting)
    }

    /// Whether somebody is about to come in.
    pub fn has_waiting_additions(&self) -> bool {
        self.waiting.iter().any(|waiter| matches!(waiter, Waiter::Labels(_) | Waiter::RuleAdded(_)))
    }

    /// All who wait for a barrier's reply.
    pub fn waiters(&self) -> impl Iterator<Item = &Waiter> {
        let held_back: &[Waiter] = match &self.phase {
            Phase::One => &[],
            Phase::Adding(_, waiting) | Phase::Added(waiting) => waiting,
        };
        self.unconfirmed.iter().flat_map(|(_, sent)| sent.waiters()).chain(held_back).chain(&self.waiting)
    }

    /// Begins an update: what an earlier one has still to do is done first. `false` if nothing may be sent now.
    pub fn begin_update(&mut self, now: Time, out: &mut Requests) -> bool {
        if !self.ready {
            return false;
        }
        match std::mem::take(&mut self.phase) {
            Phase::Adding(xid, waiting) => {
                self.phase = Phase::Adding(xid, waiting);
                return false;
            }
            Phase::Added(waiting) => {
                let rest = self.changes();
                self.send_changes(now, rest, out);
                self.end_update(waiting, out);
            }
            Phase::One => {}
        }
        true
    }

    /// What changed in a table that has one source.
    pub fn record_changes(&mut self, table: u8, changes: Vec<Change>) {
        if !changes.is_empty() {
            self.pending.entry(table).or_default().take(changes);
        }
    }

    /// What changed in a table's rules from one of several sources.
    pub fn record_shared_changes(&mut self, table: u8, version: Version, source: Source, changes: Vec<Change>) {
        if !changes.is_empty() {
            self.shared.take(version, source, changes, self.pending.entry(table).or_default());
        }
    }

    /// The engine's own rules from now on, by table: what changed.
    pub fn set_own_rules(&mut self, new: BTreeMap<u8, Vec<Rule>>) -> BTreeMap<u8, Vec<Change>> {
        let before = |table: &u8| self.own.get(table).map_or(&[][..], Vec::as_slice);
        let changed = new.iter().map(|(table, rules)| (*table, changes(before(table), rules))).collect();
        self.own = new;
        changed
    }

    /// Whether what the switch has is as we thought, so that what was said is all that has to be compared.
    pub fn is_synchronised(&self) -> bool {
        self.synchronised
    }

    /// Compares everything with what the switch has: these rules, the engine's own, and in `shared_table` what its sources
    /// have said.
    pub fn compare_all(&mut self, shared_table: u8, rules: BTreeMap<u8, Vec<Rule>>) {
        let mut all: BTreeMap<u8, Vec<Rule>> = self.installed.keys().map(|table| (*table, Vec::new())).collect();
        for (table, rules) in self.own.iter().map(|(table, rules)| (*table, rules.clone())).chain(rules) {
            all.entry(table).or_default().extend(rules);
        }
        all.insert(shared_table, self.shared.rules().collect());
        let compare =
            |(table, rules): (u8, Vec<Rule>)| (table, Pending::all(rules, self.installed.entry(table).or_default()));
        self.pending = all.into_iter().map(compare).collect();
        self.synchronised = true;
    }

    /// Sends what is to be changed, or its first step.
    pub fn send_update(&mut self, now: Time, last_table: Option<u8>, out: &mut Requests) {
        let changes = self.changes();
        let waiting = std::mem::take(&mut self.waiting);
        let is_addition = |(_, change): &(u8, Change)| matches!(change, Change::Add(_));
        let is_last = |(table, _): &(u8, Change)| Some(*table) == last_table;
        let (additions, rest): (Vec<_>, Vec<_>) =
            changes.into_iter().partition(|change| is_addition(change) && !is_last(change));
        if additions.is_empty() && rest.is_empty() && waiting.is_empty() {
            return self.pending.clear();
        }
        let is_one = additions.is_empty() || rest.iter().all(is_addition);
        self.send_changes(now, additions, out);
        if is_one {
            self.send_changes(now, rest, out);
            self.end_update(waiting, out);
        } else {
            let xid = self.send_barrier(Vec::new(), out);
            self.phase = Phase::Adding(xid, waiting);
        }
    }

    /// All that is to be changed, later tables first, so that nothing is sent on before its rules are there.
    fn changes(&mut self) -> Vec<(u8, Change)> {
        let Tables { pending, installed, .. } = self;
        let of_table = |(table, pending): (&u8, &Pending)| {
            let changes = pending.changes(installed.entry(*table).or_default());
            changes.into_iter().map(|change| (*table, change)).collect::<Vec<_>>()
        };
        pending.iter().rev().flat_map(of_table).collect()
    }

    fn send_changes(&mut self, now: Time, changes: Vec<(u8, Change)>, out: &mut Requests) {
        for (table, change) in changes {
            self.installed.entry(table).or_default().apply(&change);
            let mut flow_mod = change.flow_mod(table);
            if !matches!(change, Change::Delete(_)) {
                flow_mod.flags |= FlowMod::SEND_FLOW_REM;
            }
            let xid = self.take_xid();
            if let Change::Delete(rule) = &change {
                self.removals.expect(now, (table, rule.cookie, key_of(rule)));
            }
            let (Change::Add(rule) | Change::Modify(rule) | Change::Delete(rule)) = change;
            self.unconfirmed.push_back((xid, Unconfirmed::FlowMod { table, rule }));
            out.push((xid, Message::FlowMod(flow_mod)));
        }
    }

    /// All changes are sent: what is wanted is what the switch will have.
    fn end_update(&mut self, waiting: Vec<Waiter>, out: &mut Requests) {
        self.pending.clear();
        self.send_barrier(waiting, out);
    }

    fn send_barrier(&mut self, waiting: Vec<Waiter>, out: &mut Requests) -> u32 {
        let xid = self.take_xid();
        self.unconfirmed.push_back((xid, Unconfirmed::Barrier(waiting)));
        out.push((xid, Message::BarrierRequest));
        xid
    }

    /// Everything sent before the barrier request with this id is done. `None` if there was none.
    pub fn confirm(&mut self, xid: u32) -> Option<Confirmed> {
        let is_it = |(id, sent): &(u32, Unconfirmed)| *id == xid && matches!(sent, Unconfirmed::Barrier(_));
        let at = self.unconfirmed.iter().position(is_it)?;
        let done = self.unconfirmed.drain(..=at);
        let waiters =
            done.flat_map(|(_, sent)| if let Unconfirmed::Barrier(waiters) = sent { waiters } else { Vec::new() });
        let waiters = waiters.collect();
        self.phase = match std::mem::take(&mut self.phase) {
            Phase::Adding(awaited, waiting) if awaited == xid => Phase::Added(waiting),
            other => other,
        };
        Some(Confirmed { waiters, has_second_step: matches!(self.phase, Phase::Added(_)) })
    }

    /// The switch refuses the message with this id. Returns what that was, if it was a change.
    pub fn refuse(&mut self, xid: u32) -> Option<(u8, Rule)> {
        let is_it = |(id, sent): &(u32, Unconfirmed)| *id == xid && matches!(sent, Unconfirmed::FlowMod { .. });
        // It is out of the list from now on: the switch may refuse it as often as it likes.
        let at = self.unconfirmed.iter().position(is_it)?;
        let (_, Unconfirmed::FlowMod { table, rule }) = self.unconfirmed.remove(at)? else { return None };
        // Barriers that follow confirm nothing of it: who waits for them waits for what is sent when the rules were read.
        let mut waiters = Vec::new();
        for (_, sent) in self.unconfirmed.iter_mut().skip(at) {
            if let Unconfirmed::Barrier(waiting) = sent {
                waiters.append(waiting);
            }
        }
        self.waiting.splice(0..0, waiters);
        Some((table, rule))
    }

    /// It is not known any more what the switch has. Whether it has to be asked.
    pub fn begin_reread(&mut self) -> bool {
        if !std::mem::take(&mut self.ready) {
            return false;
        }
        // What was to follow on what the switch perhaps has not done starts afresh.
        if let Phase::Adding(_, held_back) | Phase::Added(held_back) = std::mem::take(&mut self.phase) {
            self.waiting.splice(0..0, held_back);
        }
        true
    }

    /// The switch says what it has, by table.
    pub fn read(&mut self, rules: impl Iterator<Item = (u8, Rule)>) {
        self.installed.clear();
        rules.for_each(|(table, rule)| self.installed.entry(table).or_default().insert(rule));
        (self.ready, self.synchronised) = (true, false);
    }

    /// The switch says that a rule is gone. Whether that is news: we neither deleted it nor are about to learn what is there.
    pub fn is_lost(&mut self, now: Time, table: u8, cookie: u64, key: EntryKey) -> bool {
        let removal = (table, cookie, key);
        // A rule that we deleted, and may have sent again since. A switch that was not asked to is not there yet, or its
        // rules are being read anyway.
        if self.removals.excuse(now, &removal) || !self.ready {
            return false;
        }
        let Some(installed) = self.installed.get_mut(&table) else { return false };
        let is_there = installed.get(&removal.2).is_some_and(|rule| rule.cookie == cookie);
        if is_there {
            installed.remove(&removal.2);
            self.synchronised = false;
        }
        is_there
    }
}

#[cfg(test)]
mod tests;
