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

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use maple_wire::msg::{ErrorMsg, FlowRemoved};
use maple_wire::{Dpid, Match, Version, print};

use super::flush::Wanted;
use super::hit::Recent;
use super::host_rules::HostRules;
use super::labels::quarantine;
use super::leaf::{Subject, cookie, copy_cookie, is_ours, subject_of};
use super::location::COMPILED;
use super::new_port::Undecided;
use super::removals::Removals;
use super::room::Room;
use super::route_rules::RouteRules;
use super::routes::RouteId;
use super::timers::Timer;
use super::{Effect, Engine, InstalledFlow, Options, Time};
use crate::capabilities::Capabilities;
use crate::compile::{Rule, Table, Target};
use crate::labels::{LabelTable, Refusal};
use crate::report::Report;
use crate::tree::LeafId;
use crate::update::{Installed, entry_key};

/// The table of the classifier, and the only one of switches without three.
pub(super) const CLASSIFIER: u8 = 0;
/// The table of packets that enter here.
pub(super) const INGRESS: u8 = 1;
/// The table of labelled packets.
pub(super) const LABELS: u8 = 2;
/// The table of routes, which rules for packets that enter here lead to, where the switch has so many.
pub(super) const ROUTES: u8 = 3;

/// How long a switch that refused a host's rule is sent none: longer than it counts as full.
const HOSTS_CLOSED_FOR: Duration = Duration::from_secs(61);

/// One switch.
pub(super) struct Switch {
    pub dpid: Dpid,
    pub capabilities: Capabilities,
    pub three_tables: bool,
    /// The rules of routes.
    pub route_rules: RouteRules,
    /// Whether it has a table for these, which sends what it does not know to the controller.
    pub route_table: RouteTable,
    /// The traces of the packets that enter here, and their rules.
    pub table: Table,
    /// The leaves of `table` that may have to be treated otherwise since the last flush.
    pub acting: BTreeSet<LeafId>,
    /// The labels that packets from other switches arrive under.
    pub labels: LabelTable,
    /// By table.
    pub(super) installed: BTreeMap<u8, Installed>,
    /// What the tables are to have.
    pub(super) wanted: Wanted,
    /// The rules that hosts have in the classifier.
    pub host_rules: HostRules,
    /// Whether `installed` is known; nothing is sent before.
    pub(super) ready: bool,
    pub stale: Stale,
    next_xid: u32,
    /// Sent and not yet confirmed, oldest first.
    pub(super) unconfirmed: VecDeque<(u32, Sent)>,
    /// Rules that were deleted of late.
    pub(super) removals: Removals,
    /// What waits for the barrier of the next flush.
    pub waiting: Vec<Waiter>,
    /// Packets that wait until it is known what is behind their ports.
    pub undecided: Undecided,
    pub room: Room,
    /// Hosts that are where their packets come from.
    pub believed: Recent,
    /// The switch refuses again and again: until then nothing new is put in.
    pub full_until: Option<Time>,
    /// Of how many updates in a row it refused something.
    full_count: u32,
    /// Tables, priorities and matches of rules that it refused of late.
    pub(super) refused: Vec<(u8, u16, Match)>,
}

/// How far a switch's table of routes is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum RouteTable {
    /// It is not confirmed that packets which no route takes come to the controller, or there is none.
    #[default]
    Closed,
    Open,
    /// The switch refused a rule.
    Refused,
}

/// Which tables no longer show what is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stale {
    pub classifier: bool,
    pub labels: bool,
}

impl Stale {
    pub const ALL: Stale = Stale { classifier: true, labels: true };
}

pub(super) enum Sent {
    FlowMod { table: u8, rule: Rule },
    Barrier(Vec<Waiter>),
}

impl Sent {
    fn take_waiters(&mut self) -> Vec<Waiter> {
        match self {
            Sent::Barrier(waiters) => std::mem::take(waiters),
            Sent::FlowMod { .. } => Vec::new(),
        }
    }
}

/// Who waits for a barrier, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Waiter {
    /// Labels, by their serial numbers, whose rules came in or went out.
    Labels(Vec<u64>),
    /// A leaf's ingress rule was taken out, or leads another way than this route, with which the leaf stays or not.
    Left { via: RouteId, stays: bool },
    /// No rule leads along a former course of a route any more.
    Former { via: RouteId, serial: u64 },
    /// A leaf's ingress rule came in.
    Fresh(LeafId),
    /// Somebody wants to know that all before is done.
    Settled(u64),
}

impl Switch {
    pub fn new(dpid: Dpid, capabilities: Capabilities, options: &Options) -> Switch {
        let three_tables = has_three_tables(capabilities.version, capabilities.tables);
        Switch {
            dpid,
            table: table(&capabilities, options),
            labels: LabelTable::new(dpid, capabilities.version, !three_tables, quarantine(options)),
            capabilities,
            three_tables,
            route_rules: RouteRules::default(),
            route_table: RouteTable::default(),
            acting: BTreeSet::new(),
            installed: BTreeMap::new(),
            wanted: Wanted::default(),
            host_rules: HostRules::new(three_tables, (cookie(options.epoch, None), copy_cookie(options.epoch))),
            ready: false,
            stale: Stale::ALL,
            next_xid: options.first_xid,
            unconfirmed: VecDeque::new(),
            removals: Removals::default(),
            waiting: Vec::new(),
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

    /// Whether it has so many tables that routes could have one.
    pub fn has_four_tables(&self) -> bool {
        self.three_tables && self.capabilities.tables > ROUTES
    }

    /// How many rules it has in a table, or in all.
    pub fn count(&self, table: Option<u8>) -> usize {
        let counted = self.installed.iter().filter(|(id, _)| table.is_none_or(|table| table == **id));
        counted.map(|(_, installed)| installed.len()).sum()
    }

    /// Its rules, by table and falling priority.
    pub fn installed(&self) -> impl Iterator<Item = (u8, Rule)> {
        self.installed.iter().flat_map(|(table, installed)| installed.rules().into_iter().map(|rule| (*table, rule)))
    }

    /// The switch has confirmed something: perhaps that the table of routes drops nothing.
    fn open_route_table(&mut self) {
        let of_routes = |(_, sent): &(u32, Sent)| matches!(sent, Sent::FlowMod { table: ROUTES, .. });
        if self.route_table == RouteTable::Closed
            && self.has_four_tables()
            && self.installed.get(&ROUTES).is_some_and(|installed| installed.len() > 0)
            && !self.unconfirmed.iter().any(of_routes)
        {
            self.route_table = RouteTable::Open;
        }
    }

    /// All who wait for a barrier's reply.
    pub fn waiters(&self) -> impl Iterator<Item = &Waiter> {
        let sent = self.unconfirmed.iter().filter_map(|(_, sent)| match sent {
            Sent::Barrier(waiters) => Some(waiters),
            Sent::FlowMod { .. } => None,
        });
        sent.flatten().chain(self.wanted.held_back()).chain(&self.waiting)
    }

    /// Whether something was sent, or is to be, that the switch has not confirmed.
    pub fn is_unconfirmed(&self) -> bool {
        !self.unconfirmed.is_empty() || !self.waiting.is_empty() || !self.ready || self.wanted.is_half_way()
    }

    /// Whether somebody is about to come in.
    pub fn brings_in(&self) -> bool {
        self.waiting.iter().any(|waiter| matches!(waiter, Waiter::Labels(_) | Waiter::Fresh(_)))
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
        switch.open_route_table();
        for (_, sent) in done {
            let Sent::Barrier(waiters) = sent else { continue };
            for waiter in waiters {
                self.wake(dpid, waiter);
            }
        }
        self.additions_done(dpid, xid);
    }

    fn wake(&mut self, dpid: Dpid, waiter: Waiter) {
        match waiter {
            Waiter::Labels(serials) => self.labels_confirmed(dpid, &serials),
            Waiter::Left { via, stays } => self.used_no_more(via, stays, true),
            Waiter::Former { via, serial } => self.end_former(via, serial, true),
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
        let is_it = |(id, sent): &(u32, Sent)| *id == xid && matches!(sent, Sent::FlowMod { .. });
        // It is out of the list from now on: the switch may refuse it as often as it likes.
        let at = switch.unconfirmed.iter().position(is_it);
        let Some((_, Sent::FlowMod { table, rule })) = at.and_then(|at| switch.unconfirmed.remove(at)) else {
            return self.statistics_refused(dpid, xid);
        };
        // Barriers that follow confirm nothing of it: who waits for them waits for what is sent when the rules were read.
        let later = switch.unconfirmed.iter_mut().skip(at.unwrap_or_default());
        let waiters: Vec<Waiter> = later.flat_map(|(_, sent)| sent.take_waiters()).collect();
        switch.waiting.splice(0..0, waiters);
        let what = refusal(switch.version(), table, &rule, error);
        let full = is_table_full(error, switch.version());
        if switch.host_rules.refuse(&rule, self.now + HOSTS_CLOSED_FOR) {
            return self.host_rule_refused(dpid, table, full, what);
        }
        if table == ROUTES && switch.three_tables {
            return self.route_rule_refused(dpid, &rule, what);
        }
        switch.refused.push((table, rule.priority, rule.matching.clone()));
        switch.stale.classifier = true;
        // Whoever refuses something of one update after the other gets nothing for a while. Behind the first error of an update
        // the switch is asked what it has.
        switch.full_count += u32::from(switch.ready);
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
        let culprit = subject_of(self.options.epoch, rule.cookie);
        let suspects = if hopeless { self.all_subjects_at(dpid) } else { self.unconfirmed_at(dpid) };
        let innocent = |subject: &Subject| !full && !hopeless && culprit.is_some_and(|culprit| culprit != *subject);
        for subject in suspects.into_iter().chain(culprit).filter(|subject| !innocent(subject)) {
            match subject {
                Subject::Label(serial) => {
                    let why = if full { Refusal::Full(dpid) } else { Refusal::RuleRefused(dpid) };
                    match hopeless && culprit != Some(subject) {
                        true => self.revoke_label(dpid, serial, why),
                        false => self.deny_label(dpid, serial, why),
                    }
                }
                Subject::Leaf(leaf) if hopeless => self.withdraw(leaf),
                Subject::Leaf(leaf) if full => self.crowd_out(leaf),
                Subject::Leaf(leaf) => self.go_direct(leaf),
            }
        }
        self.reread(dpid);
    }

    /// The switch refused a host's rule in the classifier: the host's packets come to the controller, and all else stays.
    fn host_rule_refused(&mut self, dpid: Dpid, table: u8, full: bool, what: String) {
        let until = self.now + HOSTS_CLOSED_FOR;
        self.timers.insert((until, Timer::Full(dpid)));
        self.stats.refused_rules += 1;
        self.report_once(Report::RuleRefused { switch: dpid, what: what.into() }, &format!("refused {dpid}"));
        if let Some(switch) = self.switches.get_mut(&dpid).filter(|_| full) {
            switch.room.full.push(table);
        }
        self.reread(dpid);
    }

    /// The switch refused a rule of the table of routes: from now on the rules of leaves do all themselves.
    fn route_rule_refused(&mut self, dpid: Dpid, rule: &Rule, what: String) {
        self.stats.refused_rules += 1;
        self.report_once(Report::RuleRefused { switch: dpid, what: what.into() }, &format!("refused {dpid}"));
        if let Some(switch) = self.switches.get_mut(&dpid) {
            switch.route_table = RouteTable::Refused;
            if rule.priority == 0 {
                switch.refused.push((ROUTES, 0, rule.matching.clone()));
                switch.stale.classifier = true;
                self.timers.insert((self.now + HOSTS_CLOSED_FOR, Timer::Full(dpid)));
            }
        }
        for route in self.routes.with_rules_at(dpid) {
            self.close_route(route);
            self.routes.drop_rule(route);
        }
        self.sync_route_rules();
        self.reread(dpid);
    }

    /// What the switch has not confirmed yet.
    fn unconfirmed_at(&self, dpid: Dpid) -> BTreeSet<Subject> {
        let mut subjects = BTreeSet::new();
        for waiter in self.switches.get(&dpid).into_iter().flat_map(Switch::waiters) {
            match waiter {
                Waiter::Fresh(leaf) => subjects.extend([Subject::Leaf(*leaf)]),
                Waiter::Labels(serials) => subjects.extend(serials.iter().copied().map(Subject::Label)),
                Waiter::Left { .. } | Waiter::Former { .. } | Waiter::Settled(_) => {}
            }
        }
        subjects
    }

    /// Everything that has rules at a switch, or is to have some.
    pub(super) fn all_subjects_at(&self, dpid: Dpid) -> BTreeSet<Subject> {
        let Some(switch) = self.switches.get(&dpid) else { return BTreeSet::new() };
        let leaves = switch.table.tree().leaves().map(Subject::Leaf);
        leaves.chain(switch.labels.installed().map(Subject::Label)).collect()
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
        let key = entry_key(removed.priority, &removed.matching);
        // A rule that we deleted, and may have sent again since.
        if switch.removals.excuse(self.now, &(removed.table_id, removed.cookie, key.clone())) {
            return;
        }
        // A switch that was not asked to is not there yet, or its rules are being read anyway.
        if !switch.ready {
            return;
        }
        let Some(installed) = switch.installed.get_mut(&removed.table_id) else { return };
        if installed.get(&key).is_some_and(|rule| rule.cookie == removed.cookie) {
            installed.remove(&key);
            switch.wanted.lost_step();
            self.report_once(Report::RulesLost { switch: dpid, count: 1 }, &format!("lost {dpid}"));
            self.mark(dpid, Stale::default());
        }
    }

    /// The switch has something to be sent.
    pub(super) fn mark(&mut self, dpid: Dpid, stale: Stale) {
        if let Some(switch) = self.switches.get_mut(&dpid) {
            switch.stale.classifier |= stale.classifier;
            switch.stale.labels |= stale.labels;
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
        if self.switches.get_mut(&dpid).is_some_and(|switch| switch.host_rules.reopen(self.now)) {
            self.mark(dpid, Stale::default());
        }
    }
}

/// An empty table for packets that enter.
fn table(capabilities: &Capabilities, options: &Options) -> Table {
    let epoch = options.epoch;
    let cookie = Box::new(move |leaf| cookie(epoch, leaf));
    let target = Target { under: Vec::new(), capabilities: capabilities.clone(), priorities: COMPILED, cookie };
    Table::new(options.compiler, target)
}

/// Whether a version has the three tables.
fn has_three_tables(version: Version, tables: u8) -> bool {
    version == Version::Of13 && tables >= 3
}

/// How long a switch that is full is spared, in the nth time in a row.
fn backoff(count: u32) -> std::time::Duration {
    std::time::Duration::from_secs(1 << count.min(6).saturating_sub(1))
}

/// What a switch said of which rule, in words for people.
fn refusal(version: Version, table: u8, rule: &Rule, error: &ErrorMsg) -> String {
    let Rule { priority, matching, instructions, cookie } = rule;
    let line = print::flow_line(version, table, *priority, *cookie, matching, instructions);
    format!("{}, error {}", line.trim_start(), print::error_name(version, error))
}

/// Whether an error says that there is no room (1.0: `OFPFMFC_ALL_TABLES_FULL`; 1.3: `OFPFMFC_TABLE_FULL`).
fn is_table_full(error: &ErrorMsg, version: Version) -> bool {
    match version {
        Version::Of10 => (error.kind, error.code) == (3, 0),
        Version::Of13 => (error.kind, error.code) == (5, 1),
    }
}

#[cfg(test)]
mod tests;
