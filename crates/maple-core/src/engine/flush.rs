//! The flush at the end of a batch: each source of rules records what changed, and [`super::tables`] sends it. The
//! sources are the ingress tree, the labels, the routes, the hosts, and the engine's own rules.

use std::collections::BTreeMap;

use maple_wire::{Dpid, Instruction};

use super::classifier::{classifier, table_miss};
use super::cookies::cookie;
use super::leaf::LeafState;
use super::switch::{CLASSIFIER, INGRESS, LABELS, ROUTES, Switch};
use super::tables::{Requests, Source, Waiter};
use super::timers::Timer;
use super::{Effect, Engine};
use crate::compile::LeafAction;
use crate::ids::LeafId;
use crate::labels::LabelRuleChanges;
use crate::rule::Rule;
use crate::update::key_of;

impl Engine {
    /// Updates the switches that changed in this batch.
    pub(super) fn flush_all(&mut self) {
        let dirty: Vec<Dpid> = std::mem::take(&mut self.ctx.dirty).into_iter().collect();
        for dpid in dirty {
            self.flush(dpid);
        }
    }

    fn flush(&mut self, dpid: Dpid) {
        if self.switches.get(&dpid).is_some_and(|switch| switch.restoring.is_some()) {
            return self.flush_restoring(dpid);
        }
        if !self.with_switch(dpid, Engine::prepare) {
            return;
        }
        if !self.with_switch(dpid, |engine, switch| switch.fits(engine.ctx.now, switch.tables.has_waiting_additions()))
        {
            self.refuse_waiting(dpid);
            self.with_switch(dpid, Engine::prepare);
            if !self.with_switch(dpid, |engine, switch| switch.fits(engine.ctx.now, false)) {
                self.evict_all(dpid);
                self.with_switch(dpid, Engine::prepare);
            }
        }
        self.with_switch(dpid, |engine, switch| {
            let mut requests = Requests::new();
            engine.suspend_live(switch);
            switch.tables.send_update(engine.ctx.now, switch.three_tables.then_some(CLASSIFIER), &mut requests);
            engine.send_requests(switch, requests);
            true
        });
        self.evict_for_hosts(dpid);
    }

    /// Takes a switch out of the map while `work` runs on it. Returns what `work` returns, or `false` if there is no
    /// such switch.
    pub(super) fn with_switch(&mut self, dpid: Dpid, work: impl FnOnce(&mut Engine, &mut Switch) -> bool) -> bool {
        let Some(mut switch) = self.switches.remove(&dpid) else { return false };
        let outcome = work(self, &mut switch);
        self.switches.insert(dpid, switch);
        outcome
    }

    fn send_requests(&mut self, switch: &mut Switch, requests: Requests) {
        let dpid = switch.dpid;
        let meters = switch.make_meters(&requests);
        let all = meters.into_iter().chain(requests);
        self.send_in_turn(switch, all.map(|(xid, message)| Effect::Send { dpid, xid, message }));
    }

    /// Finds the changes for an update, unless that has to wait. First finishes an earlier update. Returns whether the
    /// update may go on.
    pub(super) fn prepare(&mut self, switch: &mut Switch) -> bool {
        if switch.unreachable.is_some() {
            self.collect(switch);
            return false;
        }
        let mut requests = Requests::new();
        let is_paced = self.ctx.options.flow_mod_rate.is_some();
        let mut may_go_on = switch.tables.begin_update(self.ctx.now, &mut requests);
        may_go_on &= !is_paced || switch.tables.has_confirmed_all();
        self.send_requests(switch, requests);
        if may_go_on {
            self.collect(switch);
        }
        may_go_on
    }

    /// Takes the changes of all sources.
    pub(super) fn collect(&mut self, switch: &mut Switch) {
        self.collect_labels(switch);
        self.collect_ingress(switch);
        switch.tables.record_changes(ROUTES, switch.route_rules.take_changes());
        self.collect_own(switch);
        if !switch.tables.is_synchronised() {
            let mut all = BTreeMap::new();
            if switch.three_tables {
                all.insert(CLASSIFIER, switch.host_rules.rules().collect());
                all.insert(INGRESS, switch.table.rules());
                all.insert(ROUTES, switch.route_rules.all().cloned().collect());
            }
            switch.tables.compare_all(switch.shared_table(), all);
        }
    }

    fn collect_labels(&self, switch: &mut Switch) {
        if !std::mem::take(&mut switch.stale.labels) {
            return;
        }
        let cookie = |label| cookie(self.ctx.options.epoch, Some(LeafId(label)));
        let LabelRuleChanges { changes, confirms } = switch.labels.take_changes(cookie);
        switch.tables.record_shared_changes(switch.shared_table(), Source::Labels, changes);
        if !confirms.is_empty() {
            switch.tables.wait(Waiter::Labels(confirms));
        }
    }

    fn collect_ingress(&self, switch: &mut Switch) {
        for leaf in std::mem::take(&mut switch.changed_actions) {
            switch.table.set_action(leaf, self.ingress_action(leaf));
        }
        if switch.capacity.is_short(self.ctx.now, |table| switch.tables.count(table)) {
            switch.table.remove_redundant();
        }
        let mut changes = std::mem::take(&mut switch.carried);
        changes.extend(switch.table.take_changes());
        match switch.three_tables {
            true => switch.tables.record_changes(INGRESS, changes),
            false => {
                switch.tables.record_shared_changes(switch.shared_table(), Source::Ingress, changes);
            }
        }
    }

    /// Takes the changes of the engine's own rules and of the hosts' rules.
    fn collect_own(&mut self, switch: &mut Switch) {
        let mut own = BTreeMap::new();
        if std::mem::take(&mut switch.stale.classifier) {
            let rules = self.own_rules(switch);
            own = switch.tables.set_own_rules(rules);
        }
        let held = self.holds_hosts(switch);
        let capacity = switch.capacity.of_hosts(self.ctx.now, |table| switch.tables.count(table));
        own.entry(CLASSIFIER).or_default().extend(switch.host_rules.take_changes(capacity, held));
        let shared_table = switch.shared_table();
        for (table, changes) in own {
            match table == shared_table {
                true => switch.tables.record_shared_changes(table, Source::Own, changes),
                false => switch.tables.record_changes(table, changes),
            }
        }
    }

    /// Reports whether rules that let further hosts into the ingress table have to wait, because its rules are about to
    /// change.
    fn holds_hosts(&mut self, switch: &mut Switch) -> bool {
        if !switch.three_tables || !switch.host_rules.has_additions() {
            return false;
        }
        let (now, longest) = (self.ctx.now, self.ctx.options.reroute_timeout);
        let Some(until) = switch.host_rules.hold(now, self.is_moving(switch.dpid), longest) else { return false };
        self.ctx.timers.insert((until, Timer::Refused(switch.dpid)));
        true
    }

    /// The engine's own rules, by table: the classifier and the table-miss rules.
    fn own_rules(&self, switch: &mut Switch) -> BTreeMap<u8, Vec<Rule>> {
        let own = cookie(self.ctx.options.epoch, None);
        let state = self.ctx.store.snapshot();
        let mut first = classifier(switch, &state, &self.ctx.options, own);
        // A rule that was just refused is tried again later (`retry_refused_rules`), not now.
        let is_refused = |table: u8, rule: &Rule| switch.refused.has(table, &key_of(rule));
        let miss = |table: u8| Some(table_miss(own)).filter(|rule| !is_refused(table, rule));
        // Packets without a classifier rule come to the controller, which is slow but right.
        first.retain(|rule| !is_refused(CLASSIFIER, rule));
        // A table without its table-miss rule drops unknown packets, so no packet may be sent there.
        for table in [INGRESS, LABELS] {
            if miss(table).is_none() {
                first.retain(|rule| rule.instructions[..] != [Instruction::GotoTable(table)]);
            }
        }
        let (is_open, last) = (miss(INGRESS).is_some(), miss(INGRESS));
        first.extend(miss(CLASSIFIER));
        if !switch.three_tables {
            return BTreeMap::from([(CLASSIFIER, first)]);
        }
        switch.host_rules.set_open(is_open);
        let mut all = BTreeMap::from([(CLASSIFIER, first), (INGRESS, last.into_iter().collect())]);
        all.insert(LABELS, miss(LABELS).into_iter().collect());
        if switch.has_four_tables() {
            all.insert(ROUTES, miss(ROUTES).into_iter().collect());
        }
        all
    }

    /// The action of the ingress switch for a leaf's packets.
    pub(super) fn ingress_action(&self, id: LeafId) -> LeafAction {
        let leaf = self.leaves.get(&id);
        let leaf = leaf.filter(|leaf| matches!(leaf.state, LeafState::Active | LeafState::Rerouting(_)));
        let Some(route) = leaf.and_then(|leaf| self.routes.get(leaf.route_id?)) else { return LeafAction::Controller };
        route.action()
    }
}
