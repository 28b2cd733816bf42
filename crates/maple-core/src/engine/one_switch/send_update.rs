//! The update of a switch: what is sent, in order, with its meters first.
//!
//! Next on a packet's way: [`crate::engine::one_switch::pacing`].

use std::collections::BTreeMap;

use maple_wire::Instruction;

use super::Switch;
use super::classifier::{classifier, pass_on, table_miss};
use super::cookies::{label_cookie, own_cookie};
use super::layout::{CLASSIFIER, ENTRY};
use super::tables::{Requests, RuleSource, Waiter};
use crate::compile::LeafAction;
use crate::engine::context::Context;
use crate::ids::{LeafId, Time};
use crate::labels::LabelRuleChanges;
use crate::rule::Rule;
use crate::update::{Change, key_of};

impl Switch {
    /// Finishes an earlier update. Returns whether the next one may begin.
    pub fn begin_update(&mut self, ctx: &mut Context) -> bool {
        if self.is_unreachable {
            return false;
        }
        let mut requests = Requests::new();
        let is_paced = ctx.options.flow_mod_rate.is_some();
        let may_go_on = self.tables.begin_update(ctx.now(), &mut requests);
        let may_go_on = may_go_on && (!is_paced || self.tables.has_confirmed_all());
        self.send_with_meters(ctx, requests);
        may_go_on
    }

    /// Sends the changes that were collected.
    pub fn send_update(&mut self, ctx: &mut Context) {
        let mut requests = Requests::new();
        self.tables.send_update(ctx.now(), self.has_pipeline().then_some(CLASSIFIER), &mut requests);
        self.send_with_meters(ctx, requests);
    }

    /// Sends requests, after those for the meters that their rules name.
    fn send_with_meters(&mut self, ctx: &mut Context, requests: Requests) {
        let mut all = self.make_meters(&requests);
        all.extend(requests);
        self.request_in_turn(ctx, all);
    }

    /// Collects the changes of labels' rules, if there may be any.
    pub fn collect_labels(&mut self, epoch: u16) {
        if !std::mem::take(&mut self.stale.labels) {
            return;
        }
        let cookie = |number| label_cookie(epoch, number);
        let LabelRuleChanges { changes, confirms } = self.paths.labels.take_changes(cookie);
        self.tables.record_shared_changes(self.shared_table(), RuleSource::Labels, changes);
        if !confirms.is_empty() {
            self.tables.wait(Waiter::Labels(confirms));
        }
    }

    /// Collects the changes of the ingress table, after giving leaves these actions.
    pub fn collect_ingress(&mut self, now: Time, actions: Vec<(LeafId, LeafAction)>) {
        for (leaf, action) in actions {
            self.ingress.table.set_action(leaf, action);
        }
        if self.room.capacity.is_short(now, |table| self.tables.count(table)) {
            self.ingress.table.remove_redundant();
        }
        let mut changes = std::mem::take(&mut self.ingress.carried);
        changes.extend(self.ingress.table.take_changes());
        if self.has_pipeline() {
            self.tables.record_changes(self.layout.ingress(), changes);
        } else {
            self.tables.record_shared_changes(self.shared_table(), RuleSource::Ingress, changes);
        }
    }

    /// Takes the changes of the engine's own rules, by table.
    pub fn collect_own(&mut self, ctx: &Context) -> BTreeMap<u8, Vec<Change>> {
        if !std::mem::take(&mut self.stale.classifier) {
            return BTreeMap::new();
        }
        let rules = self.own_rules(ctx);
        self.tables.set_own_rules(rules)
    }

    /// Reports whether there are rules that let further hosts into the ingress table.
    pub fn has_further_hosts(&self) -> bool {
        self.has_pipeline() && self.ports.host_rules.has_additions()
    }

    /// Records the changes of the engine's own rules, and takes those of the rules for hosts.
    pub fn collect_hosts(&mut self, now: Time, mut own: BTreeMap<u8, Vec<Change>>, is_held: bool) {
        let capacity = self.room.capacity.of_hosts(now, |table| self.tables.count(table));
        own.entry(CLASSIFIER).or_default().extend(self.ports.host_rules.take_changes(capacity, is_held));
        let shared_table = self.shared_table();
        for (table, changes) in own {
            if table == shared_table {
                self.tables.record_shared_changes(table, RuleSource::Own, changes);
            } else {
                self.tables.record_changes(table, changes);
            }
        }
    }

    /// Compares all rules with those that the switch has, if it has just reported them.
    pub fn compare_all(&mut self) {
        if self.tables.is_synchronised() {
            return;
        }
        let mut all = BTreeMap::new();
        if self.has_pipeline() {
            all.insert(CLASSIFIER, self.ports.host_rules.rules().collect());
            all.extend(self.ingress.look_ups.rules());
            all.insert(self.layout.ingress(), self.ingress.table.rules());
            all.insert(self.layout.routes(), self.paths.route_rules.all().cloned().collect());
        }
        self.tables.compare_all(self.shared_table(), all);
    }

    /// Returns the addition of the first table's table-miss rule, if the switch lacks it and has not just refused it.
    pub fn missing_first_miss(&self, ctx: &Context) -> Option<Change> {
        let miss = table_miss(own_cookie(ctx.options.epoch));
        let is_there = self.tables.has_instructions(CLASSIFIER, &key_of(&miss), &miss.instructions);
        (!is_there && !self.room.is_postponed(CLASSIFIER, &miss)).then_some(Change::Add(miss))
    }

    /// Returns the engine's own rules, by table: the classifier and the table-miss rules.
    fn own_rules(&mut self, ctx: &Context) -> BTreeMap<u8, Vec<Rule>> {
        let own = own_cookie(ctx.options.epoch);
        let state = ctx.store.snapshot();
        let mut first = classifier(self, &state, &ctx.options, own);
        // A rule that was just refused is tried again later (`retry_refused_rules`), not now.
        let is_refused = |table: u8, rule: &Rule| self.room.is_postponed(table, rule);
        let miss = |table: u8| Some(table_miss(own)).filter(|rule| !is_refused(table, rule));
        // Packets without a classifier rule come to the controller, which is slow but right.
        first.retain(|rule| !is_refused(CLASSIFIER, rule));
        // A table without its table-miss rule drops unknown packets, so no packet may be sent there.
        let layout = self.layout;
        let look_up_miss = |table: u8| Some(pass_on(table, own)).filter(|rule| !is_refused(table, rule));
        let is_usable =
            miss(layout.ingress()).is_some() && layout.look_ups().all(|table| look_up_miss(table).is_some());
        for (table, is_usable) in [(ENTRY, is_usable), (layout.labels(), miss(layout.labels()).is_some())] {
            if !is_usable {
                first.retain(|rule| rule.instructions[..] != [Instruction::GotoTable(table)]);
            }
        }
        first.extend(miss(CLASSIFIER));
        if !self.has_pipeline() {
            return BTreeMap::from([(CLASSIFIER, first)]);
        }
        let mut all = BTreeMap::from([(CLASSIFIER, first)]);
        let others = [layout.ingress(), layout.labels()].into_iter().chain(self.route_table());
        all.extend(others.map(|table| (table, miss(table).into_iter().collect())));
        all.extend(layout.look_ups().map(|table| (table, look_up_miss(table).into_iter().collect())));
        self.ports.host_rules.set_usable(is_usable);
        all
    }
}
