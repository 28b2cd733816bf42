//! One switch as its shard knows it, and what the shard does with what the switch says.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use maple_wire::msg::{ErrorMsg, FlowRemoved};
use maple_wire::{Dpid, Instruction, Match, PortNo, Version, print};

use super::cache::VersionedCache;
use super::capacity::Capacity;
use super::classifier::COMPILED;
use super::host_rules::HostRules;
use super::labels::quarantine;
use super::leaf::{Subject, cookie, copy_cookie, is_ours, subject_of};
use super::meters::Meters;
use super::new_port::NewPortPackets;
use super::polls::Polls;
use super::route_rules::RouteRules;
use super::tables::{Confirmed, Tables, Waiter};
use super::timers::Timer;
use super::{Effect, Engine, InstalledFlow, Options, Time};
use crate::capabilities::Capabilities;
use crate::compile::{Table, Target};
use crate::ids::LeafId;
use crate::labels::{LabelTable, Refusal};
use crate::network::Mac;
use crate::report::Report;
use crate::rule::Rule;
use crate::update::entry_key;

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
    pub changed_actions: BTreeSet<LeafId>,
    /// The labels that packets from other switches arrive under.
    pub labels: LabelTable,
    /// Its tables, as they are and as they are to be.
    pub tables: Tables,
    /// The rules that hosts have in the classifier.
    pub host_rules: HostRules,
    pub stale: Stale,
    /// Packets that wait until it is known what is behind their ports.
    pub new_port_packets: NewPortPackets,
    /// The addresses of its own ports.
    pub addresses: BTreeMap<PortNo, Mac>,
    /// Since when which of its ports are edge ports.
    pub edges: BTreeMap<PortNo, Time>,
    /// Since when which of its ports are link ports.
    pub linked: BTreeMap<PortNo, Time>,
    pub capacity: Capacity,
    /// What Maple made for the limits of routes.
    pub meters: Meters,
    /// What it has counted.
    pub polls: Polls,
    /// Hosts that are where their packets come from.
    pub verified_hosts: VersionedCache,
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
            changed_actions: BTreeSet::new(),
            tables: Tables::new(options.first_xid),
            host_rules: HostRules::new(three_tables, (cookie(options.epoch, None), copy_cookie(options.epoch))),
            stale: Stale::ALL,
            new_port_packets: NewPortPackets::default(),
            addresses: BTreeMap::new(),
            edges: BTreeMap::new(),
            linked: BTreeMap::new(),
            capacity: Capacity::new(three_tables, options),
            meters: Meters::default(),
            polls: Polls::default(),
            verified_hosts: VersionedCache::default(),
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

    /// Whether what is pending fits, with or without a reserve that stays free.
    pub fn fits(&self, now: Time, with_reserve: bool) -> bool {
        self.capacity.fits(now, with_reserve, |table| self.tables.count(table), |table| self.tables.additions(table))
    }

    /// The switch has confirmed something: perhaps that the table of routes drops nothing.
    fn open_route_table(&mut self) {
        if self.route_table == RouteTable::Closed && self.has_four_tables() && self.tables.is_confirmed(ROUTES) {
            self.route_table = RouteTable::Open;
        }
    }
}

impl Engine {
    /// Everything sent to the switch before the barrier `xid` is done.
    pub(super) fn barrier_reply(&mut self, dpid: Dpid, xid: u32) {
        let Some(switch) = self.switches.get_mut(&dpid) else { return };
        let Some(Confirmed { waiters, has_second_step }) = switch.tables.confirm(xid) else { return };
        switch.open_route_table();
        waiters.into_iter().for_each(|waiter| self.wake(dpid, waiter));
        if has_second_step {
            self.mark(dpid, Stale::default());
        }
        self.poll_postponed(dpid);
    }

    fn wake(&mut self, dpid: Dpid, waiter: Waiter) {
        match waiter {
            Waiter::Labels(serials) => self.labels_confirmed(dpid, &serials),
            Waiter::RuleRemoved { via, stays } => self.finish_route_use(via, stays, true),
            Waiter::FormerPath { via, serial } => self.release_former_path(via, serial, true),
            Waiter::Barriers(token) => self.confirmed(dpid, token),
            Waiter::RuleAdded(_) => {
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
        if self.meter_refused(dpid, xid, error) {
            return;
        }
        let Some(switch) = self.switches.get_mut(&dpid) else { return };
        let Some((table, rule)) = switch.tables.refuse(xid) else { return self.statistics_refused(dpid, xid) };
        let what = refusal(switch.version(), table, &rule, error);
        let full = is_table_full(error, switch.version());
        if switch.host_rules.refuse(&rule, self.now + HOSTS_CLOSED_FOR) {
            return self.host_rule_refused(dpid, table, full, what);
        }
        let carries = |instruction: &Instruction| matches!(instruction, Instruction::WriteMetadata { .. });
        if switch.three_tables && (table == ROUTES || !full && rule.instructions.iter().any(carries)) {
            return self.route_rule_refused(dpid, (table, &rule), what);
        }
        switch.refused.push((table, rule.priority, rule.matching.clone()));
        switch.stale.classifier = true;
        // Whoever refuses something of one update after the other gets nothing for a while. Behind the first error of an update
        // the switch is asked what it has.
        switch.full_count += u32::from(switch.tables.is_ready());
        let hopeless = switch.full_count > 3;
        let until = self.now + backoff(switch.full_count);
        if full {
            switch.capacity.on_table_full(table);
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
                Subject::Leaf(leaf) if full => self.evict_leaf(leaf),
                Subject::Leaf(leaf) => self.forward_by_controller(leaf),
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
            switch.capacity.on_table_full(table);
        }
        self.reread(dpid);
    }

    /// The switch refused a rule of the table of routes, or one that leads there: from now on the rules of leaves do all
    /// themselves.
    fn route_rule_refused(&mut self, dpid: Dpid, (table, rule): (u8, &Rule), what: String) {
        self.stats.refused_rules += 1;
        self.report_once(Report::RuleRefused { switch: dpid, what: what.into() }, &format!("refused {dpid}"));
        if let Some(switch) = self.switches.get_mut(&dpid) {
            switch.route_table = RouteTable::Refused;
            if (table, rule.priority) == (ROUTES, 0) {
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
        for waiter in self.switches.get(&dpid).into_iter().flat_map(|switch| switch.tables.waiters()) {
            match waiter {
                Waiter::RuleAdded(leaf) => subjects.extend([Subject::Leaf(*leaf)]),
                Waiter::Labels(serials) => subjects.extend(serials.iter().copied().map(Subject::Label)),
                Waiter::RuleRemoved { .. } | Waiter::FormerPath { .. } | Waiter::Barriers(_) => {}
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
        if self.switches.get_mut(&dpid).is_some_and(|switch| switch.tables.begin_reread()) {
            self.out.push(Effect::ReadFlows { dpid });
        }
    }

    /// The switch says what it has.
    pub(super) fn flows_read(&mut self, dpid: Dpid, flows: Vec<InstalledFlow>) {
        let Some(switch) = self.switches.get_mut(&dpid) else { return };
        let ours = flows.into_iter().filter(|flow| is_ours(flow.cookie));
        switch.tables.read(ours.map(|flow| {
            let InstalledFlow { table_id, priority, cookie, matching, instructions } = flow;
            (table_id, Rule { priority, matching, instructions: instructions.into(), cookie })
        }));
        let Switch { capacity, tables, .. } = &mut **switch;
        capacity.on_tables_read(self.now, |table| tables.count(Some(table)));
        self.mark(dpid, Stale::default());
    }

    /// A rule is gone. If we did not delete it, it is sent again with the next flush.
    pub(super) fn flow_removed(&mut self, dpid: Dpid, removed: &FlowRemoved) {
        let Some(switch) = self.switches.get_mut(&dpid).filter(|_| is_ours(removed.cookie)) else { return };
        let key = entry_key(removed.priority, &removed.matching);
        if switch.tables.is_lost(self.now, removed.table_id, removed.cookie, key) {
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
    (options.new_table)(target)
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
