//! The state of one switch in its shard, and the handling of its barrier replies, of rules read back, and of rules
//! removed.

use std::collections::BTreeSet;
use std::time::Duration;

use maple_wire::msg::FlowRemoved;
use maple_wire::msg::stats::FlowStats;
use maple_wire::{Constraint, Dpid, Version};

use super::context::Context;
use super::cookies::{Renamed, is_ours, live_number};
use super::counters::Counters;
use super::decisions::Decisions;
use super::fabric::Fabric;
use super::ingress::Ingress;
use super::pacing::Pacing;
use super::paths::{Paths, RouteTable};
use super::ports::Ports;
use super::restore::Restoring;
use super::room::Room;
use super::switches::Switches;
use super::tables::{Confirmed, Requests, Tables, Waiter};
use super::{Effect, InstalledFlow, Options, Time};
use crate::capabilities::Capabilities;
use crate::report::{Report, ReportKind, ReportSubject};
use crate::rule::Rule;
use crate::update::{EntryKey, entry_key};

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
    /// What f decides about packets that enter here.
    pub ingress: Ingress,
    /// How packets go on from here, and what arrives from other switches.
    pub paths: Paths,
    pub ports: Ports,
    pub room: Room,
    pub counters: Counters,
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
    pub stale: Stale,
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
    /// Creates a switch that has just connected, whose rules are not known.
    pub fn new(dpid: Dpid, capabilities: Capabilities, options: &Options) -> Switch {
        let three_tables = has_three_tables(capabilities.version, capabilities.tables);
        // A bundle is committed at once, however many changes a second a switch is to get.
        let bundles = capabilities.bundles && options.flow_mod_rate.is_none();
        Switch {
            dpid,
            announced_tables: capabilities.tables,
            three_tables,
            ingress: Ingress::new(&capabilities, options),
            paths: Paths::new(dpid, capabilities.version, three_tables, options),
            ports: Ports::new(dpid, three_tables, options),
            room: Room::new(three_tables, options),
            counters: Counters::default(),
            tables: Tables::new(options.first_xid, capabilities.version, bundles),
            pacing: Pacing::default(),
            renamed: Renamed::default(),
            restoring: None,
            unreachable: None,
            stale: Stale::ALL,
            capabilities,
        }
    }

    /// Copies the switch, without packets that wait, and without counters. While the switch keeps the rules of an
    /// earlier run, the copy does not know its rules. If the switch has no connection, the copy behaves as if it had
    /// one.
    pub fn copy(&self, options: &Options) -> Switch {
        let unknown = || Tables::new(options.first_xid, self.version(), false);
        Switch {
            three_tables: self.three_tables,
            ingress: self.ingress.copy(),
            paths: self.paths.clone(),
            ports: self.ports.copy(),
            room: self.room.clone(),
            renamed: self.renamed.clone(),
            tables: if self.restoring.is_some() { unknown() } else { self.tables.presumed_reachable() },
            stale: self.stale,
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
        self.room.capacity.fits(
            now,
            with_reserve,
            |table| self.tables.count(table),
            |table| self.tables.additions(table),
        )
    }

    /// Opens the table of routes after a confirmation, if its table-miss rule is there.
    pub fn open_route_table(&mut self) {
        if self.paths.route_table == RouteTable::Closed && self.has_four_tables() && self.tables.is_confirmed(ROUTES) {
            self.paths.route_table = RouteTable::Open;
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
        let Switch { room, tables, .. } = &mut *switch;
        room.capacity.on_tables_read(ctx.now, |table| tables.count(Some(table)));
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
                    && switch.room.full_until.is_none()
                {
                    switch.room.full_count = 0;
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

/// Reports whether a switch has the three logical tables.
fn has_three_tables(version: Version, tables: u8) -> bool {
    version == Version::Of13 && tables >= 3
}
