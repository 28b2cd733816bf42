//! One switch as its shard knows it, and how its tables follow what is wanted.
//!
//! # What
//!
//! `flush.rs` brings a switch's tables up to date, with a barrier request behind the changes. Everything that waits for
//! rules to arrive or leave waits for that barrier's reply.
//!
//! # What the switch has
//!
//! `installed` is what the switch has when it has done all that was sent. When it refuses something (an error with one
//! of our transaction ids) we no longer know, so its rules are read and become the new `installed`.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use maple_wire::msg::{ErrorMsg, FlowRemoved};
use maple_wire::{Constraint, Dpid, Match, PortNo, Version, print};

use super::event::Refusal;
use super::flush::Wanted;
use super::hit::Recent;
use super::leaf::{Arrived, cookie, has_three_tables, is_ours, leaf_of};
use super::location::MAX_COMPILED;
use super::new_port::Undecided;
use super::room::Room;
use super::timers::Timer;
use super::transit::Transit;
use super::{Effect, Engine, InstalledFlow, Options, Time};
use crate::capabilities::Capabilities;
use crate::compile::{Rule, Table, Target};
use crate::report::Report;
use crate::tree::LeafId;
use crate::update::{Installed, is_same_match};

/// The table of the classifier, and the only one of switches without three.
pub(super) const CLASSIFIER: u8 = 0;
/// The table of packets that enter here.
pub(super) const INGRESS: u8 = 1;
/// The table of packets from other switches.
pub(super) const TRANSIT: u8 = 2;

/// How long after a rule was deleted the switch may tell so. Open vSwitch does so behind the barrier's reply.
const REMOVAL_NEWS: Duration = Duration::from_secs(5);

/// One switch.
pub(super) struct Switch {
    pub dpid: Dpid,
    pub capabilities: Capabilities,
    pub three_tables: bool,
    /// The traces of the packets that enter here, and their rules.
    pub table: Table,
    /// The leaves of `table` that may have to be treated otherwise since the last flush.
    pub acting: BTreeSet<LeafId>,
    pub transit: Transit,
    /// By table.
    pub(super) installed: BTreeMap<u8, Installed>,
    /// What the tables are to have.
    pub(super) wanted: Wanted,
    /// Whether `installed` is known; nothing is sent before.
    pub(super) ready: bool,
    pub stale: Stale,
    next_xid: u32,
    /// Sent and not yet confirmed, oldest first.
    pub(super) unconfirmed: VecDeque<(u32, Sent)>,
    /// When which rules of which table were deleted, as far as the switch may still tell that they are gone.
    pub(super) deleted: VecDeque<(Time, u8, Rule)>,
    /// What waits for the barrier of the next flush.
    pub waiting: Vec<Waiter>,
    /// Leaves whose rules are on their way out of the ingress table, and how many times over.
    pub leaving: BTreeMap<LeafId, u32>,
    /// Leaves that wait for that.
    pub blocked: BTreeSet<LeafId>,
    /// Packets from other switches that wait for rules under way.
    pub held: Vec<(Time, Arrived)>,
    /// Packets that wait until it is known what is behind their ports.
    pub undecided: Undecided,
    pub room: Room,
    /// Hosts that are where their packets come from.
    pub believed: Recent,
    /// The switch refuses again and again: until then nothing new is put in.
    pub full_until: Option<Time>,
    /// How often in a row it refused something.
    full_count: u32,
    /// Tables, priorities and matches of rules that it refused of late.
    pub(super) refused: Vec<(u8, u16, Match)>,
}

/// Which tables no longer show what is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stale {
    pub classifier: bool,
    pub transit: bool,
}

impl Stale {
    pub const ALL: Stale = Stale { classifier: true, transit: true };
}

pub(super) enum Sent {
    FlowMod { table: u8, rule: Rule },
    Barrier(Vec<Waiter>),
}

/// Who waits for a barrier, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Waiter {
    /// A part of another switch's leaf was put in.
    Part { leaf: LeafId, attempt: u32 },
    /// A leaf's ingress rule was taken out, or sends its packets another way; these parts of it are to go.
    Left { leaf: LeafId, others: Vec<(Dpid, PortNo)> },
    /// Ingress rules came in.
    Fresh(Vec<LeafId>),
    /// Somebody wants to know that all before is done.
    Settled(u64),
}

impl Switch {
    pub fn new(dpid: Dpid, capabilities: Capabilities, options: &Options) -> Switch {
        let three_tables = has_three_tables(capabilities.version, capabilities.tables);
        Switch {
            dpid,
            table: table(Vec::new(), &capabilities, options),
            capabilities,
            three_tables,
            acting: BTreeSet::new(),
            transit: Transit::default(),
            installed: BTreeMap::new(),
            wanted: Wanted::default(),
            ready: false,
            stale: Stale::ALL,
            next_xid: options.first_xid,
            unconfirmed: VecDeque::new(),
            deleted: VecDeque::new(),
            waiting: Vec::new(),
            leaving: BTreeMap::new(),
            blocked: BTreeSet::new(),
            held: Vec::new(),
            undecided: Undecided::default(),
            room: Room::default(),
            believed: Recent::default(),
            full_until: None,
            full_count: 0,
            refused: Vec::new(),
        }
    }

    pub fn version(&self) -> Version {
        self.capabilities.version
    }

    /// How many rules it has in a table, or in all.
    pub fn count(&self, table: Option<u8>) -> usize {
        let counted = self.installed.iter().filter(|(id, _)| table.is_none_or(|table| table == **id));
        counted.map(|(_, installed)| installed.len()).sum()
    }

    pub fn installed(&self) -> impl Iterator<Item = (u8, &Rule)> {
        self.installed.iter().flat_map(|(table, installed)| installed.rules().map(|rule| (*table, rule)))
    }

    /// The leaves whose rules were on their way out, and their other parts.
    pub fn leavings(&self) -> impl Iterator<Item = (LeafId, &[(Dpid, PortNo)])> {
        let sent = self.unconfirmed.iter().filter_map(|(_, sent)| match sent {
            Sent::Barrier(waiters) => Some(waiters),
            Sent::FlowMod { .. } => None,
        });
        sent.flatten().chain(self.wanted.held_back()).chain(&self.waiting).filter_map(|waiter| match waiter {
            Waiter::Left { leaf, others } => Some((*leaf, others.as_slice())),
            Waiter::Part { .. } | Waiter::Fresh(_) | Waiter::Settled(_) => None,
        })
    }

    /// A leaf's rule is on its way out; these parts of it follow.
    pub fn await_leaving(&mut self, leaf: LeafId, others: Vec<(Dpid, PortNo)>) {
        *self.leaving.entry(leaf).or_default() += 1;
        self.waiting.push(Waiter::Left { leaf, others });
    }

    /// What [`Switch::await_leaving`] was told of is out.
    pub fn has_left(&mut self, leaf: LeafId) {
        if let Entry::Occupied(mut times) = self.leaving.entry(leaf) {
            *times.get_mut() -= 1;
            if *times.get() == 0 {
                times.remove();
            }
        }
    }

    /// Whether something was sent, or is to be, that the switch has not confirmed.
    pub fn is_unconfirmed(&self) -> bool {
        !self.unconfirmed.is_empty() || !self.waiting.is_empty() || !self.ready || self.wanted.is_half_way()
    }

    /// Whether somebody is about to come in.
    pub fn brings_in(&self) -> bool {
        self.waiting.iter().any(|waiter| !matches!(waiter, Waiter::Left { .. } | Waiter::Settled(_)))
    }

    /// The id for the next message.
    pub fn take_xid(&mut self, first: u32) -> u32 {
        let xid = self.next_xid;
        self.next_xid = xid.checked_add(1).unwrap_or(first);
        xid
    }
}

impl Engine {
    /// Everything sent to the switch before the barrier `xid` is done.
    pub(super) fn barrier_reply(&mut self, dpid: Dpid, xid: u32) {
        let Some(switch) = self.switches.get_mut(&dpid) else { return };
        let is_it = |(id, sent): &(u32, Sent)| *id == xid && matches!(sent, Sent::Barrier(_));
        let Some(at) = switch.unconfirmed.iter().position(is_it) else { return };
        let done: Vec<(u32, Sent)> = switch.unconfirmed.drain(..=at).collect();
        for (_, sent) in done {
            let Sent::Barrier(waiters) = sent else { continue };
            for waiter in waiters {
                self.wake(dpid, waiter);
            }
        }
        self.additions_done(dpid, xid);
        self.try_held(dpid);
    }

    fn wake(&mut self, dpid: Dpid, waiter: Waiter) {
        match waiter {
            Waiter::Part { leaf, attempt } => self.part_installed(dpid, leaf, attempt),
            Waiter::Left { leaf, others } => self.ingress_left(dpid, leaf, &others),
            Waiter::Settled(token) => self.confirmed(dpid, token),
            Waiter::Fresh(_) => {
                if let Some(switch) = self.switches.get_mut(&dpid)
                    && switch.full_until.is_none()
                {
                    switch.full_count = 0;
                }
            }
        }
    }

    /// The switch refused something that we sent: what came with it is taken back, so that the rest, which it had
    /// before, stands for itself.
    pub(super) fn switch_error(&mut self, dpid: Dpid, xid: u32, error: &ErrorMsg) {
        let Some(switch) = self.switches.get_mut(&dpid) else { return };
        let Some((_, Sent::FlowMod { table, rule })) = switch.unconfirmed.iter().find(|(id, _)| *id == xid) else {
            return self.statistics_refused(dpid, xid);
        };
        let (table, rule) = (*table, rule.clone());
        let what = refusal(switch.version(), table, &rule, error);
        let full = is_table_full(error, switch.version());
        switch.refused.push((table, rule.priority, rule.matching.clone()));
        switch.stale.classifier = true;
        switch.full_count += 1;
        // Whoever refuses again and again gets nothing for a while.
        let hopeless = switch.full_count > 3;
        let until = self.now + backoff(switch.full_count);
        if full {
            switch.room.full.push(table);
        }
        if hopeless {
            switch.full_until = Some(until);
        }
        self.timers.insert((until, Timer::Full(dpid)));
        self.stats.refused_rules += 1;
        self.report_once(Report::RuleRefused { switch: dpid, what: what.into() }, &format!("refused {dpid}"));
        let culprit = leaf_of(self.options.epoch, rule.cookie);
        let suspects = if hopeless { self.all_leaves_at(dpid) } else { self.unconfirmed_leaves_at(dpid) };
        let innocent = |leaf: &LeafId| !full && !hopeless && culprit.is_some_and(|culprit| culprit != *leaf);
        for leaf in suspects.into_iter().chain(culprit).filter(|leaf| !innocent(leaf)) {
            if self.leaves.get(&leaf).is_none_or(|leaf| leaf.ingress() != dpid) {
                let why =
                    if full { Refusal::Full } else { Refusal::Impossible("the switch refused its rule".to_owned()) };
                self.refuse_part(dpid, leaf, why);
            } else if hopeless {
                self.withdraw(leaf);
            } else if full {
                self.crowd_out(leaf);
            } else {
                self.go_direct(leaf, None);
            }
        }
        self.reread(dpid);
    }

    /// The leaves whose rules the switch has not confirmed yet.
    fn unconfirmed_leaves_at(&self, dpid: Dpid) -> BTreeSet<LeafId> {
        let Some(switch) = self.switches.get(&dpid) else { return BTreeSet::new() };
        let sent = switch.unconfirmed.iter().filter_map(|(_, sent)| match sent {
            Sent::Barrier(waiters) => Some(waiters),
            Sent::FlowMod { .. } => None,
        });
        let mut leaves = BTreeSet::new();
        for waiter in sent.flatten().chain(switch.wanted.held_back()).chain(&switch.waiting) {
            match waiter {
                Waiter::Fresh(fresh) => leaves.extend(fresh.iter().copied()),
                Waiter::Part { leaf, .. } => leaves.extend([*leaf]),
                Waiter::Left { .. } | Waiter::Settled(_) => {}
            }
        }
        leaves
    }

    pub(super) fn all_leaves_at(&self, dpid: Dpid) -> BTreeSet<LeafId> {
        let Some(switch) = self.switches.get(&dpid) else { return BTreeSet::new() };
        switch.table.tree().leaves().chain(switch.transit.leaves()).collect()
    }

    /// Asks the switch what it has; until it answers, nothing is sent.
    pub(super) fn reread(&mut self, dpid: Dpid) {
        let Some(switch) = self.switches.get_mut(&dpid) else { return };
        if switch.ready {
            switch.ready = false;
            // What was to follow on what the switch perhaps has not done starts afresh.
            let held_back = switch.wanted.give_up();
            switch.waiting.splice(0..0, held_back);
            self.out.push(Effect::ReadFlows { dpid });
        }
    }

    /// The switch says what it has.
    pub(super) fn flows_read(&mut self, dpid: Dpid, flows: Vec<InstalledFlow>) {
        let Some(switch) = self.switches.get_mut(&dpid) else { return };
        switch.installed = BTreeMap::new();
        for flow in flows.into_iter().filter(|flow| is_ours(flow.cookie)) {
            let InstalledFlow { table_id, priority, cookie, matching, instructions } = flow;
            let rule = Rule { priority, matching, instructions: instructions.into(), cookie };
            switch.installed.entry(table_id).or_default().insert(rule);
        }
        switch.ready = true;
        let Switch { room, installed, .. } = switch;
        room.learn(self.now, |table| installed.get(&table).map_or(0, Installed::len));
        switch.wanted.lost_step();
        self.mark(dpid, Stale::default());
    }

    /// A rule is gone. If we did not delete it, it is sent again with the next flush.
    pub(super) fn flow_removed(&mut self, dpid: Dpid, removed: &FlowRemoved) {
        let Some(switch) = self.switches.get_mut(&dpid).filter(|_| is_ours(removed.cookie)) else { return };
        let is_it = |rule: &Rule| {
            (rule.priority, rule.cookie) == (removed.priority, removed.cookie)
                && is_same_match(&rule.matching, &removed.matching)
        };
        // A rule that we deleted, and may have sent again since.
        let now = self.now;
        switch.deleted.retain(|(at, ..)| now < *at + REMOVAL_NEWS);
        let own = switch.deleted.iter().position(|(_, table, rule)| *table == removed.table_id && is_it(rule));
        if let Some(at) = own {
            switch.deleted.remove(at);
            return;
        }
        // A switch that was not asked to is not there yet, or its rules are being read anyway.
        if !switch.ready {
            return;
        }
        let Some(installed) = switch.installed.get_mut(&removed.table_id) else { return };
        let count = installed.retain(|rule| !is_it(rule));
        if count > 0 {
            switch.wanted.lost_step();
            self.report_once(Report::RulesLost { switch: dpid, count }, &format!("lost {dpid}"));
            self.mark(dpid, Stale::default());
        }
    }

    /// The switch has something to be sent.
    pub(super) fn mark(&mut self, dpid: Dpid, stale: Stale) {
        if let Some(switch) = self.switches.get_mut(&dpid) {
            switch.stale.classifier |= stale.classifier;
            switch.stale.transit |= stale.transit;
            self.dirty.insert(dpid);
        }
    }

    pub(super) fn full_timer(&mut self, dpid: Dpid) {
        if let Some(switch) = self.switches.get_mut(&dpid)
            && switch.full_until.is_some_and(|until| until <= self.now)
        {
            switch.full_until = None;
        }
        if let Some(switch) = self.switches.get_mut(&dpid)
            && switch.full_until.is_none()
            && !std::mem::take(&mut switch.refused).is_empty()
        {
            self.mark(dpid, Stale { classifier: true, ..Stale::default() });
        }
    }
}

/// An empty table for packets that fit `under`.
pub(super) fn table(under: Vec<Constraint>, capabilities: &Capabilities, options: &Options) -> Table {
    let epoch = options.epoch;
    let cookie = Box::new(move |leaf| cookie(epoch, leaf));
    let target = Target { under, capabilities: capabilities.clone(), priorities: 1..=MAX_COMPILED, cookie };
    Table::new(options.compiler, target)
}

/// How long a switch that is full is spared, in the nth time in a row.
fn backoff(count: u32) -> std::time::Duration {
    std::time::Duration::from_secs(1 << count.min(6).saturating_sub(1))
}

/// Whether an error says that there is no room (1.0: `OFPFMFC_ALL_TABLES_FULL`; 1.3: `OFPFMFC_TABLE_FULL`).
/// What a switch said of which rule, in words for people.
fn refusal(version: Version, table: u8, rule: &Rule, error: &ErrorMsg) -> String {
    let Rule { priority, matching, instructions, cookie } = rule;
    let line = print::flow_line(version, table, *priority, *cookie, matching, instructions);
    format!("{}, error {}", line.trim_start(), print::error_name(version, error))
}

fn is_table_full(error: &ErrorMsg, version: Version) -> bool {
    match version {
        Version::Of10 => (error.kind, error.code) == (3, 0),
        Version::Of13 => (error.kind, error.code) == (5, 1),
    }
}
