//! One switch of a shard: the state of its parts, and what needs nothing but this switch.

pub(super) mod action_sets;
pub(super) mod cookies;
pub(super) mod layout;
pub(super) mod priorities;

pub(super) mod tables;

pub(super) mod counters;
pub(super) mod pacing;
pub(super) mod paths;

pub(super) mod look_up_tables;
pub(super) mod ports;

pub(super) mod ingress;
pub(super) mod restoring;
pub(super) mod room;

pub(super) mod classifier;
pub(super) mod involved;
pub(super) mod switch_counts;

pub(super) mod send_update;

use maple_wire::msg::stats::FlowStats;
use maple_wire::{Dpid, Version};

use crate::capabilities::Capabilities;
use crate::engine::context::options::Options;
use crate::ids::Time;
use crate::tree::Tree;
use cookies::{TranslatedCookies, is_own, own_cookie};
use counters::Counters;
use ingress::Ingress;
use layout::{CLASSIFIER, Layout};
use pacing::Pacing;
use paths::{Paths, RouteTable};
use ports::Ports;
use restoring::Restoring;
use room::Room;
use tables::Tables;

/// A switch of this shard.
pub(super) struct Switch {
    dpid: Dpid,
    capabilities: Capabilities,
    layout: Layout,
    /// The decisions of f about packets that enter here.
    pub ingress: Ingress,
    /// The ways by which packets go on from here, and what arrives from other switches.
    pub paths: Paths,
    pub ports: Ports,
    pub room: Room,
    pub counters: Counters,
    /// The rules that the switch has, and the rules that it is to have.
    pub tables: Tables,
    /// The state of a restore, while the switch keeps the rules of an earlier run.
    pub restoring: Option<Restoring>,
    /// The effects that wait to be sent.
    pacing: Pacing,
    /// Cookies of rules that an earlier run made.
    renamed: TranslatedCookies,
    is_unreachable: bool,
    stale: Stale,
}

/// The rules of a switch that have to be computed again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stale {
    pub classifier: bool,
    pub labels: bool,
}

impl Stale {
    pub const ALL: Stale = Stale { classifier: true, labels: true };
    pub const CLASSIFIER: Stale = Stale { classifier: true, labels: false };
    pub const LABELS: Stale = Stale { classifier: false, labels: true };
}

impl Switch {
    /// Creates a switch that has just connected, whose rules are not known.
    pub fn new(dpid: Dpid, capabilities: Capabilities, options: &Options) -> Switch {
        let layout = Layout::new(&capabilities, options);
        let has_pipeline = layout.has_pipeline();
        // A bundle is committed at once, however many changes a second a switch is to get.
        let bundles = capabilities.bundles && options.flow_mod_rate.is_none();
        Switch {
            dpid,
            layout,
            ingress: Ingress::new(&capabilities, layout, options),
            paths: Paths::new(dpid, capabilities.version, has_pipeline, options),
            ports: Ports::new(dpid, layout, options),
            room: Room::new(has_pipeline, options),
            counters: Counters::default(),
            tables: Tables::new(options.first_xid, capabilities.version, bundles).with_action_sets(layout),
            pacing: Pacing::default(),
            renamed: TranslatedCookies::default(),
            restoring: None,
            is_unreachable: false,
            stale: Stale::ALL,
            capabilities,
        }
    }

    /// Copies the switch, without packets that wait, and without counters. While the switch keeps the rules of an
    /// earlier run, the copy does not know its rules. If the switch has no connection, the copy behaves as if it had
    /// one.
    pub fn copy(&self, options: &Options) -> Switch {
        let unknown = || Tables::new(options.first_xid, self.version(), false).with_action_sets(self.layout);
        Switch {
            layout: self.layout,
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

    /// Returns the trace tree of the packets that enter here.
    pub fn tree(&self) -> &Tree {
        self.ingress.table.tree()
    }

    /// Returns the switch's datapath id.
    pub fn dpid(&self) -> Dpid {
        self.dpid
    }

    /// Returns what the switch can do.
    pub fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    /// Returns the numbers of the switch's tables.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Reports whether the switch has no connection.
    pub fn is_unreachable(&self) -> bool {
        self.is_unreachable
    }

    /// Suspends what needs a connection. What waits to be sent is forgotten: rules are read and compared afterwards.
    pub fn lose_connection(&mut self) {
        self.is_unreachable = true;
        self.tables.suspend();
        (self.pacing, self.counters.polls) = Default::default();
        self.counters.audits = std::mem::take(&mut self.counters.audits).suspended();
    }

    /// Goes on with a new connection.
    pub fn regain_connection(&mut self) {
        self.is_unreachable = false;
        self.tables.resume();
    }

    /// Marks rules that have to be computed again.
    pub fn mark_stale(&mut self, stale: Stale) {
        self.stale.classifier |= stale.classifier;
        self.stale.labels |= stale.labels;
    }

    /// Returns the cookie that a rule on the switch has in this run.
    pub fn current_cookie(&self, cookie: u64) -> u64 {
        self.renamed.current(cookie)
    }

    /// Gives rules that an earlier run made the cookies that they have in this run. Where one old cookie is to be two
    /// new ones, the rules of the second one are sent.
    pub fn rename_cookies(&mut self, epoch: u16) {
        let own = own_cookie(epoch);
        self.renamed.extend(self.tables.cookies().filter(|old| is_own(*old)).map(|old| (old, own)));
        self.renamed.extend(self.tables.cookies_to_rename());
        self.translate_cookies();
    }

    /// Puts the cookies of this run in place of those with which the switch keeps rules of an earlier run.
    pub fn translate_cookies(&mut self) {
        self.tables.translate_cookies(|cookie| self.renamed.current(cookie));
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
            Version::Of10 if self.capabilities.refuses_large_numbers && table != 0 => None,
            Version::Of10 => Some(0),
        }
    }

    /// Leaves out the rules that packets don't reach, and puts the others into the tables of this layout, in the form
    /// that rules have here.
    pub fn arrange(&self, flows: &mut Vec<FlowStats>) {
        let sets = self.tables.action_sets();
        flows.retain_mut(|flow| {
            let table = self.table_of_report(flow.table_id);
            flow.table_id = table.unwrap_or_default();
            flow.instructions = sets.of_switch(flow.table_id, std::mem::take(&mut flow.instructions));
            table.is_some()
        });
    }

    /// Reports whether the switch has the logical tables, and not one for all rules.
    pub fn has_pipeline(&self) -> bool {
        self.layout.has_pipeline()
    }

    /// Returns the table whose rules come from several sources.
    pub fn shared_table(&self) -> u8 {
        if self.has_pipeline() { self.layout.labels() } else { CLASSIFIER }
    }

    /// Returns the table that has the rules of leaves.
    pub fn ingress_table(&self) -> u8 {
        if self.has_pipeline() { self.layout.ingress() } else { CLASSIFIER }
    }

    /// Returns the table of routes, if the switch has enough tables for one.
    pub fn route_table(&self) -> Option<u8> {
        let table = self.layout.routes();
        (self.has_pipeline() && self.capabilities.tables > table).then_some(table)
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

    /// Returns the table of routes, if rules may lead there.
    pub fn usable_route_table(&self) -> Option<u8> {
        self.route_table().filter(|_| self.paths.route_table == RouteTable::Open)
    }

    /// Opens the table of routes after a confirmation, if its table-miss rule is there.
    pub fn use_route_table(&mut self) {
        let is_confirmed = |table| self.tables.is_confirmed(table);
        if self.paths.route_table == RouteTable::Closed && self.route_table().is_some_and(is_confirmed) {
            self.paths.route_table = RouteTable::Open;
        }
    }
}
