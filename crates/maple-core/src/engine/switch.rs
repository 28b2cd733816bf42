//! The state of one switch in its shard, and the handling of its barrier replies, of rules read back, and of rules
//! removed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use maple_wire::msg::FlowRemoved;
use maple_wire::msg::stats::FlowStats;
use maple_wire::{Constraint, Dpid, PortNo, Version};

use super::audit::Audits;
use super::backoff::Backoff;
use super::cache::VersionedCache;
use super::capacity::Capacity;
use super::context::Context;
use super::cookies::{Renamed, cookie, copy_cookie, is_ours, live_number};
use super::decisions::Decisions;
use super::drops::Drops;
use super::fabric::Fabric;
use super::host_rules::HostRules;
use super::labels::quarantine;
use super::meters::Meters;
use super::new_port::NewPortPackets;
use super::pacing::Pacing;
use super::polls::Polls;
use super::proactive::Proactive;
use super::restore::Restoring;
use super::route_rules::RouteRules;
use super::rule_counts::RuleCounts;
use super::rule_growth::RuleGrowth;
use super::switches::Switches;
use super::tables::{Confirmed, Postponed, Requests, Tables, Waiter};
use super::{Effect, InstalledFlow, Options, Time};
use crate::capabilities::Capabilities;
use crate::compile::{Table, Target};
use crate::ids::LeafId;
use crate::labels::LabelTable;
use crate::network::Mac;
use crate::report::{Report, ReportKind, ReportSubject};
use crate::rule::{COMPILED, Rule};
use crate::update::{Change, EntryKey, entry_key};

/// The classifier, or the only table of a switch without three tables.
pub(super) const CLASSIFIER: u8 = 0;
/// The table for packets that enter here.
pub(super) const INGRESS: u8 = 1;
/// The table for labelled packets.
pub(super) const LABELS: u8 = 2;
/// The table of routes, to which rules of the ingress table lead, if the switch has a fourth table.
pub(super) const ROUTES: u8 = 3;

/// A switch of this shard.
pub(super) struct Switch {
    pub dpid: Dpid,
    pub capabilities: Capabilities,
    /// The number of tables that the switch announces. It may turn out to have one (`refusals.rs`).
    pub announced_tables: u8,
    pub three_tables: bool,
    /// The rules in the table of routes.
    pub route_rules: RouteRules,
    /// Whether rules may lead to the table of routes.
    pub route_table: RouteTable,
    /// The trace tree of the packets that enter here, and its rules.
    pub table: Table,
    /// The changes that rebuilding `table` made to its rules since the last flush.
    pub carried: Vec<Change>,
    /// The priorities of rules that `table` had before it was rebuilt, and has not now.
    pub former_priorities: Vec<(Vec<Constraint>, u16)>,
    /// Leaves of `table` whose action may have changed since the last flush.
    pub changed_actions: BTreeSet<LeafId>,
    /// The labels of packets that arrive from other switches.
    pub labels: LabelTable,
    /// The rules that the switch has, and the rules that it is to have.
    pub tables: Tables,
    /// The effects that wait to be sent.
    pub pacing: Pacing,
    /// Cookies of rules that an earlier run made.
    pub renamed: Renamed,
    /// The state of a restore, while the switch keeps the rules of an earlier run.
    pub restoring: Option<Restoring>,
    /// Since when the switch has no connection; `None` while it has one.
    pub unreachable: Option<Time>,
    /// The rules for hosts in the classifier.
    pub host_rules: HostRules,
    pub stale: Stale,
    /// Packets from ports whose kind is not known yet.
    pub new_port_packets: NewPortPackets,
    /// The hardware addresses of its ports.
    pub addresses: BTreeMap<PortNo, Mac>,
    /// The edge ports, each with the time since when it is one.
    pub edges: BTreeMap<PortNo, Time>,
    /// The link ports, each with the time since when it is one.
    pub linked: BTreeMap<PortNo, Time>,
    pub capacity: Capacity,
    /// The state of the pass over the policy's samples.
    pub proactive: Proactive,
    /// The meters for the limits of routes.
    pub meters: Meters,
    /// Its counters, and when to ask for them.
    pub polls: Polls,
    pub audits: Audits,
    /// The pauses between questions for the switch's ports.
    pub port_questions: Backoff,
    /// Questions about single rules.
    pub rule_counts: RuleCounts,
    /// The drops here in the last minutes.
    pub drops: Drops,
    /// The growth of the counters of its rules.
    pub growth: RuleGrowth,
    /// Hosts whose location was verified for hits.
    pub verified_hosts: VersionedCache,
    /// The time until which the switch gets no new rules, because it refuses again and again.
    pub full_until: Option<Time>,
    /// The number of updates in a row in which it refused something.
    pub full_count: u32,
    /// The engine's own rules that the switch refused lately.
    pub refused: Postponed,
}

/// Whether the table of routes may be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum RouteTable {
    /// There is no such table, or the switch has not confirmed the rule that sends everything else there to the
    /// controller.
    #[default]
    Closed,
    Open,
    /// The switch refused a rule of the table.
    Refused,
}

/// The rules of a switch that have to be computed again.
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
            // A bundle is committed at once, however many changes a second a switch is to get.
            tables: Tables::new(
                options.first_xid,
                capabilities.version,
                capabilities.bundles && options.flow_mod_rate.is_none(),
            ),
            pacing: Pacing::default(),
            announced_tables: capabilities.tables,
            capabilities,
            three_tables,
            route_rules: RouteRules::default(),
            route_table: RouteTable::default(),
            carried: Vec::new(),
            former_priorities: Vec::new(),
            changed_actions: BTreeSet::new(),
            renamed: Renamed::default(),
            restoring: None,
            unreachable: None,
            host_rules: HostRules::new(
                three_tables,
                (cookie(options.epoch, None), copy_cookie(options.epoch)),
                options.facts.placed_at(dpid).collect(),
            ),
            stale: Stale::ALL,
            new_port_packets: NewPortPackets::default(),
            addresses: BTreeMap::new(),
            edges: BTreeMap::new(),
            linked: BTreeMap::new(),
            capacity: Capacity::new(three_tables, options),
            proactive: Proactive::default(),
            meters: Meters::default(),
            polls: Polls::default(),
            audits: Audits::default(),
            port_questions: Backoff::default(),
            rule_counts: RuleCounts::default(),
            drops: Drops::default(),
            growth: RuleGrowth::default(),
            verified_hosts: VersionedCache::default(),
            full_until: None,
            full_count: 0,
            refused: Postponed::default(),
        }
    }

    /// Copies the switch, without packets that wait, and without counters. While the switch keeps the rules of an
    /// earlier run, the copy does not know its rules. If the switch has no connection, the copy behaves as if it had
    /// one.
    pub fn copy(&self, options: &Options) -> Switch {
        let unknown = || Tables::new(options.first_xid, self.version(), false);
        Switch {
            three_tables: self.three_tables,
            route_rules: self.route_rules.clone(),
            route_table: self.route_table,
            table: self.table.clone(),
            carried: self.carried.clone(),
            former_priorities: self.former_priorities.clone(),
            changed_actions: self.changed_actions.clone(),
            renamed: self.renamed.clone(),
            labels: self.labels.clone(),
            tables: if self.restoring.is_some() { unknown() } else { self.tables.presumed_reachable() },
            host_rules: self.host_rules.clone(),
            stale: self.stale,
            addresses: self.addresses.clone(),
            edges: self.edges.clone(),
            linked: self.linked.clone(),
            capacity: self.capacity.clone(),
            meters: self.meters.clone(),
            full_until: self.full_until,
            full_count: self.full_count,
            refused: self.refused.clone(),
            ..Switch::new(self.dpid, self.capabilities.clone(), options)
        }
    }

    pub fn version(&self) -> Version {
        self.capabilities.version
    }

    /// Translates the number of the table in which the switch reports a rule into that of this layout. `None`: packets
    /// don't reach the rule.
    ///
    /// OpenFlow 1.0 has one table, whatever number a switch gives it. Open vSwitch has the tables of 1.3 in 1.0 too,
    /// and reports which one a rule is in; 1.0 uses the first.
    pub fn table_of_report(&self, table: u8) -> Option<u8> {
        match self.version() {
            Version::Of13 => Some(table),
            Version::Of10 if self.capabilities.narrow && table != 0 => None,
            Version::Of10 => Some(0),
        }
    }

    /// Leaves out the rules that packets don't reach, and puts the others into the tables of this layout.
    pub fn arrange(&self, flows: &mut Vec<FlowStats>) {
        flows.retain_mut(|flow| {
            let table = self.table_of_report(flow.table_id);
            flow.table_id = table.unwrap_or_default();
            table.is_some()
        });
    }

    /// The table whose rules come from several sources.
    pub fn shared_table(&self) -> u8 {
        if self.three_tables { LABELS } else { CLASSIFIER }
    }

    /// Reports whether the switch has enough tables for a table of routes.
    pub fn has_four_tables(&self) -> bool {
        self.three_tables && self.capabilities.tables > ROUTES
    }

    /// Reports whether the pending rules fit, with or without the reserve.
    pub fn fits(&self, now: Time, with_reserve: bool) -> bool {
        self.capacity.fits(now, with_reserve, |table| self.tables.count(table), |table| self.tables.additions(table))
    }

    /// Opens the table of routes after a confirmation, if its table-miss rule is there.
    pub fn open_route_table(&mut self) {
        if self.route_table == RouteTable::Closed && self.has_four_tables() && self.tables.is_confirmed(ROUTES) {
            self.route_table = RouteTable::Open;
        }
    }
}

impl Switches {
    /// Asks the switch which rules it has. Until it answers, nothing is sent.
    pub(super) fn reread(&mut self, ctx: &mut Context, dpid: Dpid) {
        let mut requests = Requests::new();
        let Some(switch) = self.get_mut(&dpid) else { return };
        if switch.tables.begin_reread(&mut requests) {
            switch.request_in_turn(ctx, requests);
            switch.send_in_turn(ctx, [Effect::ReadFlows { dpid }]);
        }
    }

    /// Makes these rules the ones that a switch is known to have.
    pub(super) fn take_flows(&mut self, ctx: &mut Context, dpid: Dpid, flows: Vec<InstalledFlow>) {
        let Some(switch) = self.get_mut(&dpid) else { return };
        // A temporary rule of this run is looked after elsewhere. One of an earlier run is deleted.
        let epoch = ctx.options.epoch;
        let is_temporary = |cookie| live_number(epoch, cookie).is_some();
        let (ours, others): (Vec<_>, Vec<_>) = flows.into_iter().partition(|flow| is_ours(flow.cookie));
        let rules = ours.into_iter().filter(|flow| !is_temporary(flow.cookie)).map(|flow| {
            let InstalledFlow { table_id, priority, cookie, matching, instructions } = flow;
            (table_id, Rule { priority, matching, instructions: instructions.into(), cookie })
        });
        let can_say = |rule: &Rule| {
            let all: Vec<Constraint> = rule.matching.constraints().copied().collect();
            switch.capabilities.can_match_all(&all)
        };
        let (mut reached, mut unreached) = (Vec::new(), Vec::new());
        for (table, rule) in rules {
            match switch.table_of_report(table) {
                Some(table) => reached.push((table, rule)),
                // A rule that its version can't express can't be deleted, and only takes space.
                None if can_say(&rule) => unreached.push(rule),
                None => {}
            }
        }
        switch.tables.read(reached.into_iter());
        let others: BTreeSet<EntryKey> = others.iter().map(|flow| entry_key(flow.priority, &flow.matching)).collect();
        switch.tables.set_unreached(unreached, |key| others.contains(key));
        switch.tables.translate_cookies(|cookie| switch.renamed.current(cookie));
        let Switch { capacity, tables, .. } = &mut *switch;
        capacity.on_tables_read(ctx.now, |table| tables.count(Some(table)));
    }

    /// Marks a switch whose tables have to be updated.
    pub(super) fn mark_dirty(&mut self, ctx: &mut Context, dpid: Dpid, stale: Stale) {
        if let Some(switch) = self.get_mut(&dpid) {
            switch.stale.classifier |= stale.classifier;
            switch.stale.labels |= stale.labels;
            ctx.dirty.insert(dpid);
        }
    }
}

impl Decisions {
    /// Handles a barrier reply: everything sent to the switch before the barrier `xid` is done.
    pub(super) fn barrier_reply(&mut self, fabric: &mut Fabric, dpid: Dpid, xid: u32) {
        let Some(switch) = fabric.switches.get_mut(&dpid) else { return };
        let Some(Confirmed { waiters, has_second_step }) = switch.tables.confirm(xid) else { return };
        switch.open_route_table();
        waiters.into_iter().for_each(|waiter| self.wake_waiter(fabric, dpid, waiter));
        if has_second_step {
            fabric.switches.mark_dirty(&mut fabric.ctx, dpid, Stale::default());
        }
        fabric.switches.poll_postponed(&mut fabric.ctx, dpid);
        if fabric.ctx.options.flow_mod_rate.is_some() {
            fabric.switches.mark_dirty(&mut fabric.ctx, dpid, Stale::default());
        }
    }

    fn wake_waiter(&mut self, fabric: &mut Fabric, dpid: Dpid, waiter: Waiter) {
        match waiter {
            Waiter::Labels(serials) => fabric.labels_confirmed(dpid, &serials),
            Waiter::RuleRemoved { route_id, stays } => fabric.finish_route_use(route_id, stays, true),
            Waiter::FormerPath { route_id, serial } => fabric.release_former_path(route_id, serial, true),
            Waiter::Barriers(token) => self.confirmed(fabric, dpid, token),
            Waiter::RuleAdded(_, since) => {
                let took = fabric.ctx.now.0.saturating_sub(since.0);
                fabric.ctx.install_times.record(Duration::from_nanos(took), 1);
                if let Some(switch) = fabric.switches.get_mut(&dpid)
                    && switch.full_until.is_none()
                {
                    switch.full_count = 0;
                }
            }
        }
    }

    /// Handles the removal of a rule by its switch. If we did not delete it, the next flush adds it again.
    pub(super) fn flow_removed(&mut self, fabric: &mut Fabric, dpid: Dpid, removed: &FlowRemoved) {
        if is_ours(removed.cookie) {
            self.read_removed_count(fabric, dpid, removed);
        }
        let Some(switch) = fabric.switches.get_mut(&dpid).filter(|_| is_ours(removed.cookie)) else { return };
        let (key, cookie) = (entry_key(removed.priority, &removed.matching), switch.renamed.current(removed.cookie));
        if switch.tables.is_lost(fabric.ctx.now, removed.table_id, cookie, key) {
            let report = Report::RulesLost { switch: dpid, count: 1 };
            fabric.ctx.report_once(ReportKind::RulesLost, ReportSubject::Switch(dpid), &dpid.to_string(), report);
            fabric.switches.mark_dirty(&mut fabric.ctx, dpid, Stale::default());
        }
    }
}

/// Creates an empty tree with its rules.
pub(super) fn table(capabilities: &Capabilities, options: &Options) -> Table {
    let epoch = options.epoch;
    let cookie = Arc::new(move |leaf| cookie(epoch, leaf));
    let target = Target { under: Vec::new(), capabilities: capabilities.clone(), priorities: COMPILED, cookie };
    (options.new_table)(target)
}

/// Reports whether a switch has the three logical tables.
fn has_three_tables(version: Version, tables: u8) -> bool {
    version == Version::Of13 && tables >= 3
}
