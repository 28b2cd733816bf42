//! The tables of one switch: the rules that it has, the rules that it is to have, and the ordered update from one to
//! the other.
//!
//! # In and out
//!
//! Each source of rules records what changed ([`Tables::record_changes`]). If several sources share a table,
//! [`SharedTable`] decides between them. Everything that may differ from the switch is *pending*. An update
//! ([`Tables::send_update`]) sends the differences and a barrier request. A [`Waiter`] waits for that barrier's reply
//! ([`Tables::on_barrier_reply`]). After the rules of a switch were read, everything is compared
//! ([`Tables::compare_all`]).
//!
//! # What the switch has
//!
//! `installed` has the rules that the switch has once it has done all that was sent. After a refusal
//! ([`Tables::on_refused`]) that is not known. So the rules are read ([`Tables::begin_reread`], [`Tables::read`]), and
//! nothing is sent meanwhile.
//!
//! # Two steps
//!
//! The order of changes (`update.rs`) is safe after every prefix. It is not safe if a switch refuses one change and
//! does the later ones: a barrier rule that was refused does not shield what is modified or deleted after it. So if an
//! update has additions and other changes, the additions go first, with a barrier request of their own. The rest
//! follows when they are confirmed. Changes that are recorded meanwhile wait. If an addition was refused, the rest is
//! not sent; the rules are read and compared again. Additions alone are safe: each one depends only on those above it,
//! which were sent before. An update without additions waits as well, for those of an earlier update.
//!
//! Entries that lead to a rule of another table which changes take a detour in the first step (`detours.rs`).
//!
//! If the switch has bundles, an update of different changes is one bundle instead (`bundle.rs`). Then its second step
//! is the commit, and a refused change leaves everything as it was.
//!
//! The additions to the *last table* (the classifier, if there are other tables) come after everything else. A host
//! that was just found must not match rules that were made without it. Until then its packets come to the controller,
//! which is always right.
//!
//! The *table-miss rule of the first table*, which sends them there, comes before everything else. A switch without it
//! drops them, and other rules may leave no room for it.
//!
//! # Cost
//!
//! An update costs what changed; only a comparison after reading costs the whole table.

use std::collections::{BTreeMap, VecDeque};

use maple_wire::Version;
use maple_wire::msg::Message;
use rustc_hash::FxHashSet;

use crate::engine::one_switch::action_sets::ActionSets;
use crate::engine::one_switch::layout::{Layout, is_first_table_miss};
use crate::ids::{LeafId, RouteId, Time};
use crate::rule::Rule;
use crate::update::{Change, EntryKey, InstalledRules, changes, key_of};
use bundle::Bundle;
use deletions::{ByCookie, again, flow_mod};
use removals::Removals;
use reported_rules::RuleAudit;
use shared_table::{PendingRules, SharedTable};

pub(in crate::engine) use answers::{ConfirmedRequests, RefusedRequest};
pub(in crate::engine) use postponed::Postponed;
pub(in crate::engine) use reported_rules::{AuditFindings, place};
pub(in crate::engine) use shared_table::RuleSource;

mod answers;
mod bundle;
mod contents;
mod deletions;
mod detours;
mod earlier_run;
mod postponed;
mod removals;
mod reported_rules;
mod shared_table;
mod unreachable;

/// The maximum number of entries that are noted because they began to drop packets, or ceased to. Chosen: more than an
/// update changes in most networks; the drops of further ones are known from the next report on.
const MAX_ALTERED: usize = 1 << 16;

/// The tables of one switch.
#[derive(Clone)]
pub(in crate::engine) struct Tables {
    version: Version,
    /// Whether the switch takes bundles.
    has_bundles: bool,
    /// The tables where packets may have an action set.
    action_sets: ActionSets,
    /// The rules that the switch has, by table.
    installed: BTreeMap<u8, InstalledRules>,
    /// The entries that may differ from the switch, by table.
    pending: BTreeMap<u8, PendingRules>,
    /// The table that several sources share.
    shared: SharedTable,
    /// The engine's own rules as they were last set, by table.
    own: BTreeMap<u8, Vec<Rule>>,
    reading: RuleReading,
    sent: SentMessages,
    deletions: Deletions,
    /// The entries that began to drop packets, or ceased to, by [`place`].
    altered: FxHashSet<u64>,
}

/// The knowledge about the rules that the switch has.
#[derive(Clone, Default)]
struct RuleReading {
    /// Whether `installed` is known. Nothing is sent before.
    is_known: bool,
    /// Whether the switch has no connection. Nothing is sent meanwhile.
    is_unreachable: bool,
    /// Whether `pending` has all that may differ.
    is_synchronised: bool,
    /// Whether the pending changes follow from a reading, so that the switch may have rules of others' making.
    is_after_reading: bool,
    /// The rules that were removed while the rules are read.
    removed_meanwhile: Vec<(u8, u64, EntryKey)>,
    audit: Option<RuleAudit>,
}

/// The messages to the switch that it has not confirmed.
#[derive(Clone, Default)]
struct SentMessages {
    first_xid: u32,
    next_xid: u32,
    phase: UpdatePhase,
    /// The messages, oldest first.
    unconfirmed: VecDeque<(u32, Unconfirmed)>,
    /// The waiters for the barrier of the next update.
    waiters: Vec<Waiter>,
    /// The waiters for the update after the next.
    held_back: Vec<Waiter>,
}

/// Deletions that need care.
#[derive(Clone, Default)]
struct Deletions {
    /// Deletions that the switch has refused.
    refused: Postponed,
    /// Rules of an earlier layout that packets don't reach, to be deleted with the next update.
    unreached: BTreeMap<EntryKey, Rule>,
    /// The rules that were deleted lately.
    lately: Removals,
}

/// The progress of an update in two steps.
#[derive(Clone, Default)]
enum UpdatePhase {
    /// No update has a second step.
    #[default]
    Idle,
    /// The first step has been sent. The reply to the barrier request with this id confirms it.
    First(u32, SecondStep),
    /// The first step is confirmed.
    Second(SecondStep),
}

/// The second step of an update.
#[derive(Clone)]
struct SecondStep {
    /// The prepared bundle that is to be committed. Without one, the additions were the first step, and the other
    /// changes follow.
    bundle: Option<Bundle>,
    /// The waiters for this step.
    waiters: Vec<Waiter>,
}

#[derive(Clone)]
enum Unconfirmed {
    FlowMod {
        table: u8,
        change: Change,
    },
    /// A request to open or commit a bundle.
    Bundle,
    Barrier(Vec<Waiter>),
}

impl Unconfirmed {
    fn waiters(&self) -> &[Waiter] {
        match self {
            Unconfirmed::Barrier(waiters) => waiters,
            Unconfirmed::FlowMod { .. } | Unconfirmed::Bundle => &[],
        }
    }
}

/// The purpose for which a barrier reply is awaited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::engine) enum Waiter {
    /// The labels, by serial number, whose rules were added or removed.
    Labels(Vec<u64>),
    /// The route of a leaf whose ingress rule was removed, or leads along another route. `stays`: the leaf remains a
    /// member of this route.
    RuleRemoved { route_id: RouteId, stays: bool },
    /// A route that was the way of keys' rules, which lead elsewhere now. `stays`: it is the way again when it is
    /// ready.
    WayEnded { route_id: RouteId, stays: bool },
    /// The former path of a route, along which no rule leads.
    FormerPath { route_id: RouteId, serial: u64 },
    /// A leaf whose ingress rule was added, and the time when it was decided.
    RuleAdded(LeafId, Time),
    /// The rules of keys, which have changed in an update of their own.
    LookUps,
    /// A wait for everything sent before.
    Barriers(u64),
}

/// Messages to the switch, with their transaction ids.
pub(in crate::engine) type Requests = Vec<(u32, Message)>;

impl Tables {
    /// Creates the tables of a switch of this version, which has bundles or not. Nothing is known of its rules. The
    /// first transaction id is `first_xid`.
    pub fn new(first_xid: u32, version: Version, has_bundles: bool) -> Tables {
        Tables {
            version,
            has_bundles,
            action_sets: ActionSets::default(),
            installed: BTreeMap::new(),
            pending: BTreeMap::new(),
            shared: SharedTable::default(),
            own: BTreeMap::new(),
            reading: RuleReading::default(),
            sent: SentMessages { first_xid, next_xid: first_xid, ..SentMessages::default() },
            deletions: Deletions::default(),
            altered: FxHashSet::default(),
        }
    }

    /// Lets packets have an action set in the tables where this layout says so.
    pub fn with_action_sets(self, layout: Layout) -> Tables {
        let tables = layout.has_action_sets().then(|| layout.look_ups().start..=layout.ingress());
        Tables { action_sets: ActionSets::in_tables(tables), ..self }
    }

    /// Returns the tables where packets may have an action set.
    pub fn action_sets(&self) -> &ActionSets {
        &self.action_sets
    }

    /// Reports whether it is known which rules the switch has, and it can be sent others.
    pub fn is_ready(&self) -> bool {
        self.reading.is_known && !self.reading.is_unreachable
    }

    /// Reports whether it is known which rules the switch has, or had when its connection ended.
    pub fn is_known(&self) -> bool {
        self.reading.is_known
    }

    /// Reports whether the second step of an update is still to come.
    pub fn has_second_step(&self) -> bool {
        !matches!(self.sent.phase, UpdatePhase::Idle)
    }

    /// Reports whether something was sent, or is to be sent, that the switch has not confirmed.
    pub fn is_unconfirmed(&self) -> bool {
        let is_held_back = || self.reading.is_unreachable && self.has_changes();
        !self.sent.unconfirmed.is_empty()
            || !self.sent.waiters.is_empty()
            || !self.sent.held_back.is_empty()
            || !self.reading.is_known
            || self.has_second_step()
            || is_held_back()
    }

    /// Returns the oldest change that the switch has not confirmed, with its table.
    pub fn first_unconfirmed(&self) -> Option<(u8, &Change)> {
        self.sent.unconfirmed.iter().find_map(|(_, sent)| match sent {
            Unconfirmed::FlowMod { table, change } => Some((*table, change)),
            Unconfirmed::Bundle | Unconfirmed::Barrier(_) => None,
        })
    }

    /// Reports whether the switch has confirmed all that was sent.
    pub fn has_confirmed_all(&self) -> bool {
        self.sent.unconfirmed.is_empty()
    }

    /// Skips `count` transaction ids, as if they were taken.
    pub fn skip_xids(&mut self, count: u64) {
        let (first, span) = (u64::from(self.sent.first_xid), u64::from(u32::MAX - self.sent.first_xid) + 1);
        let next = first + (u64::from(self.sent.next_xid) - first + count % span) % span;
        self.sent.next_xid = next as u32;
    }

    /// Takes the transaction id for the next message.
    pub fn take_xid(&mut self) -> u32 {
        let xid = self.sent.next_xid;
        self.sent.next_xid = xid.checked_add(1).unwrap_or(self.sent.first_xid);
        xid
    }

    /// Returns the ids of the barrier requests that the switch has not answered.
    pub fn unanswered(&self) -> Vec<u32> {
        let is_barrier = |sent: &&(u32, Unconfirmed)| matches!(sent.1, Unconfirmed::Barrier(_));
        self.sent.unconfirmed.iter().filter(is_barrier).map(|(xid, _)| *xid).collect()
    }

    /// Adds a waiter for the barrier of the next update.
    pub fn wait(&mut self, waiter: Waiter) {
        self.sent.waiters.push(waiter);
    }

    /// Removes and returns the waiters for the next update.
    pub fn take_waiters(&mut self) -> Vec<Waiter> {
        std::mem::take(&mut self.sent.waiters)
    }

    /// Lets the next update be of the rules of keys alone: all other waiters wait for the one after it.
    pub fn hold_back_for_look_ups(&mut self) {
        self.sent.held_back.append(&mut self.sent.waiters);
        self.sent.waiters.push(Waiter::LookUps);
    }

    /// Reports whether the next update is of the rules of keys alone.
    pub fn is_for_look_ups(&self) -> bool {
        self.sent.waiters.contains(&Waiter::LookUps)
    }

    /// Reports whether the rules of keys were sent and the switch has not confirmed them. It is not so if the switch
    /// has refused something of them, or its connection has ended: then they are compared again.
    pub fn awaits_look_ups(&self) -> bool {
        let step = match &self.sent.phase {
            UpdatePhase::Idle => &[][..],
            UpdatePhase::First(_, step) | UpdatePhase::Second(step) => &step.waiters,
        };
        let sent = self.sent.unconfirmed.iter().flat_map(|(_, sent)| sent.waiters());
        sent.chain(step).any(|waiter| *waiter == Waiter::LookUps)
    }

    /// Begins to compare the rules of keys with those that were read, before all others. Other changes are found again
    /// when all rules are compared.
    pub fn begin_with_look_ups(&mut self) {
        self.pending.clear();
        self.sent.waiters.retain(|waiter| *waiter != Waiter::LookUps);
        self.end_holding_back();
    }

    /// Lets waiters that were held back wait for the next update.
    pub fn end_holding_back(&mut self) {
        self.sent.waiters.append(&mut self.sent.held_back);
    }

    /// Reports whether the next update is to add rules of leaves or labels.
    pub fn has_waiting_additions(&self) -> bool {
        self.sent.waiters.iter().any(|waiter| matches!(waiter, Waiter::Labels(_) | Waiter::RuleAdded(..)))
    }

    /// Returns all waiters for a barrier reply.
    pub fn waiters(&self) -> impl Iterator<Item = &Waiter> {
        let held_back: &[Waiter] = match &self.sent.phase {
            UpdatePhase::Idle => &[],
            UpdatePhase::First(_, step) | UpdatePhase::Second(step) => &step.waiters,
        };
        let sent = self.sent.unconfirmed.iter().flat_map(|(_, sent)| sent.waiters());
        sent.chain(held_back).chain(&self.sent.waiters).chain(&self.sent.held_back)
    }

    /// Begins an update, after finishing an earlier one. Returns `false` if nothing may be sent now.
    pub fn begin_update(&mut self, now: Time, out: &mut Requests) -> bool {
        if !self.is_ready() {
            return false;
        }
        match std::mem::take(&mut self.sent.phase) {
            UpdatePhase::First(xid, step) => {
                self.sent.phase = UpdatePhase::First(xid, step);
                return false;
            }
            UpdatePhase::Second(SecondStep { bundle, waiters }) => {
                match bundle {
                    Some(bundle) => self.commit(now, bundle, out),
                    None => {
                        let rest = self.changes();
                        self.send_changes(now, rest, out);
                        self.end_pending();
                    }
                }
                self.send_barrier(waiters, out);
            }
            UpdatePhase::Idle => {}
        }
        true
    }

    /// Records changes of a table that has one source.
    pub fn record_changes(&mut self, table: u8, changes: Vec<Change>) {
        if !changes.is_empty() {
            self.pending.entry(table).or_default().take(changes);
        }
    }

    /// Records changes of one source of the shared table.
    pub fn record_shared_changes(&mut self, table: u8, source: RuleSource, changes: Vec<Change>) {
        if !changes.is_empty() {
            self.shared.take(self.version, source, changes, self.pending.entry(table).or_default());
        }
    }

    /// Sets the engine's own rules, by table. Returns the changes.
    pub fn set_own_rules(&mut self, new: BTreeMap<u8, Vec<Rule>>) -> BTreeMap<u8, Vec<Change>> {
        let before = |table: &u8| self.own.get(table).map_or(&[][..], Vec::as_slice);
        let changed = new.iter().map(|(table, rules)| (*table, changes(before(table), rules))).collect();
        self.own = new;
        changed
    }

    /// Reports whether the switch has the rules that it was thought to have, so that only recorded changes have to be
    /// compared.
    pub fn is_synchronised(&self) -> bool {
        self.reading.is_synchronised
    }

    /// Compares the rules of the switch with these rules, the engine's own, and in `shared_table` the rules of its
    /// sources.
    pub fn compare_all(&mut self, shared_table: u8, rules: BTreeMap<u8, Vec<Rule>>) {
        let mut all: BTreeMap<u8, Vec<Rule>> = self.installed.keys().map(|table| (*table, Vec::new())).collect();
        for (table, rules) in self.own.iter().map(|(table, rules)| (*table, rules.clone())).chain(rules) {
            all.entry(table).or_default().extend(rules);
        }
        all.insert(shared_table, self.shared.rules().collect());
        let compare = |(table, rules): (u8, Vec<Rule>)| {
            (table, PendingRules::all(rules, self.installed.entry(table).or_default()))
        };
        self.pending = all.into_iter().map(compare).collect();
        (self.reading.is_synchronised, self.reading.is_after_reading) = (true, true);
    }

    /// Forgets the pending changes, all of which were sent.
    fn end_pending(&mut self) {
        self.pending.clear();
        self.reading.is_after_reading = false;
    }

    /// Postpones a deletion that the switch has refused. Returns when it is tried again.
    pub fn postpone_deletion(&mut self, now: Time, table: u8, rule: &Rule) -> Time {
        self.deletions.refused.refuse(now, table, key_of(rule))
    }

    /// Lets refused deletions be tried again if their pause is over. Returns whether there are any.
    pub fn retry_deletions(&mut self, now: Time) -> bool {
        let is_due = self.deletions.refused.end(now);
        self.reading.is_synchronised &= !is_due;
        is_due
    }

    /// Sends the changes of an update, or its first step. Additions to `last_table` come last.
    pub fn send_update(&mut self, now: Time, last_table: Option<u8>, out: &mut Requests) {
        let has_deleted = self.delete_unreached(now, out);
        let changes = self.changes();
        let waiters = std::mem::take(&mut self.sent.waiters);
        let is_addition = |(_, change): &(u8, Change)| matches!(change, Change::Add(_));
        let is_last =
            |(table, change): &(u8, Change)| Some(*table) == last_table && !is_first_table_miss(*table, change.rule());
        let (mut additions, rest): (Vec<_>, Vec<_>) =
            changes.into_iter().partition(|change| is_addition(change) && !is_last(change));
        let changed = self.changed_targets();
        let detours = self.detours(&changed);
        if additions.is_empty() && rest.is_empty() && waiters.is_empty() && detours.is_empty() && !has_deleted {
            return self.end_pending();
        }
        if self.needs_bundle(!detours.is_empty(), additions.iter().chain(&rest).map(|(_, change)| change)) {
            let bundle = Some(self.prepare(additions.into_iter().chain(rest).collect(), out));
            self.end_pending();
            let xid = self.send_barrier(Vec::new(), out);
            self.sent.phase = UpdatePhase::First(xid, SecondStep { bundle, waiters });
            return;
        }
        let takes_detours = changed.divert(&mut additions) || !detours.is_empty();
        let relies_on_additions = !additions.is_empty() || self.has_unconfirmed_additions();
        let is_one = !takes_detours && (!relies_on_additions || rest.iter().all(is_addition));
        self.send_changes(now, detours, out);
        self.send_changes(now, additions, out);
        if is_one {
            self.send_changes(now, rest, out);
            self.end_pending();
            self.send_barrier(waiters, out);
        } else {
            let xid = self.send_barrier(Vec::new(), out);
            self.sent.phase = UpdatePhase::First(xid, SecondStep { bundle: None, waiters });
        }
    }

    /// Returns the pending changes. Later tables come first, so that no rule leads to a table before its rules are
    /// there; but the addition of the first table's table-miss rule comes before all.
    fn changes(&mut self) -> Vec<(u8, Change)> {
        let Tables { pending, installed, deletions, .. } = self;
        let of_table = |(table, pending): (&u8, &PendingRules)| {
            let changes = pending.changes(installed.entry(*table).or_default());
            let is_sent = |change: &Change| match change {
                Change::Delete(rule) => !deletions.refused.has(*table, &key_of(rule)),
                Change::Add(_) | Change::Modify(_) => true,
            };
            changes.into_iter().filter(is_sent).map(|change| (*table, change)).collect::<Vec<_>>()
        };
        let mut all: Vec<(u8, Change)> = pending.iter().rev().flat_map(of_table).collect();
        let adds_first_miss = |(table, change): &(u8, Change)| {
            matches!(change, Change::Add(_)) && is_first_table_miss(*table, change.rule())
        };
        if let Some(at) = all.iter().rposition(adds_first_miss) {
            all[..=at].rotate_right(1);
        }
        all
    }

    fn send_changes(&mut self, now: Time, changes: Vec<(u8, Change)>, out: &mut Requests) {
        let ByCookie { in_turn, at_last } = self.deletions_by_cookie(&changes);
        let again = again(&changes, &at_last);
        for (table, change) in changes {
            let xid = self.take_xid();
            out.push((xid, Message::FlowMod(flow_mod(table, &change, &in_turn, &self.action_sets))));
            self.note(now, xid, table, change);
        }
        for (table, change) in again {
            let xid = self.take_xid();
            out.push((xid, Message::FlowMod(flow_mod(table, &change, &at_last, &self.action_sets))));
            self.sent.unconfirmed.push_back((xid, Unconfirmed::FlowMod { table, change }));
        }
    }

    /// Notes that the switch makes a change that the message with this id asks for.
    fn note(&mut self, now: Time, xid: u32, table: u8, change: Change) {
        self.note_altered(table, &change);
        self.installed.entry(table).or_default().apply(&change);
        self.changes_during_audit(table, &key_of(change.rule()));
        if let Change::Delete(rule) = &change {
            self.deletions.lately.expect(now, (table, rule.cookie, key_of(rule)));
        }
        self.sent.unconfirmed.push_back((xid, Unconfirmed::FlowMod { table, change }));
    }

    /// Notes an entry that begins to drop packets, or ceases to, and goes on counting.
    fn note_altered(&mut self, table: u8, change: &Change) {
        let Change::Modify(rule) = change else { return };
        let key = key_of(rule);
        // The switch may have removed the rule since the change was found.
        let Some(installed_rule) = self.installed.get(&table).and_then(|installed| installed.get(&key)) else { return };
        let drops = rule.instructions.is_empty() || installed_rule.has_instructions(&[]);
        if drops && !installed_rule.has_instructions(&rule.instructions) && self.altered.len() < MAX_ALTERED {
            self.altered.insert(place(table, &key));
        }
    }

    /// Removes and returns the places of entries that began to drop packets, or ceased to, since this was last called.
    pub fn take_altered(&mut self) -> FxHashSet<u64> {
        std::mem::take(&mut self.altered)
    }

    fn send_barrier(&mut self, waiters: Vec<Waiter>, out: &mut Requests) -> u32 {
        let xid = self.take_xid();
        self.sent.unconfirmed.push_back((xid, Unconfirmed::Barrier(waiters)));
        out.push((xid, Message::BarrierRequest));
        xid
    }
}

#[cfg(test)]
mod tests;
