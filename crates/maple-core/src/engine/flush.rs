//! How a switch's tables follow what is wanted.
//!
//! # What
//!
//! Everything that has an interest in a table says what changed: the ingress tree, the labels, the engine's own rules. [`Wanted`] holds, for each table, the entries that may be otherwise than the switch
//! has them ([`Pending`]); where several share a table, [`Union`] decides between them. Of a switch of which we only just
//! learned what it has, all entries are compared.
//!
//! # Two steps
//!
//! The order of changes (`update.rs`) is safe after each prefix. It is not where a switch refuses one of them in the
//! middle, and goes on: a barrier that found no room does not shield what is changed or deleted after it. So where an
//! update has both, its additions go first, with a barrier request of their own, and the rest follows when they are
//! confirmed. What is wanted meanwhile waits until then. If an addition was refused, the rest is not sent; the rules are
//! read, and compared anew. Additions themselves may be refused from any point on: each of them only follows such as
//! lie above it.
//!
//! What the classifier sends on comes last, behind the rest: a host that was just found must not meet rules that knew
//! nothing of it. Until then its packets come to the controller, which is always right.

use std::collections::BTreeMap;

use maple_wire::msg::{FlowMod, Message};
use maple_wire::{Dpid, Instruction};

use super::leaf::{LeafState, cookie};
use super::location::{classifier, table_miss};
use super::switch::{CLASSIFIER, INGRESS, LABELS, ROUTES, Sent, Stale, Switch, Waiter};
use super::union::{Pending, Source, Union};
use super::{Effect, Engine};
use crate::compile::{LeafAction, Rule};
use crate::labels::Unmade;
use crate::tree::LeafId;
use crate::update::{Change, Installed, changes, key_of};

/// What a switch's tables are to have, as far as that is known here.
#[derive(Default)]
pub(super) struct Wanted {
    /// By table.
    pending: BTreeMap<u8, Pending>,
    /// The table that several share: that of labels, or the only one.
    shared: Union,
    /// The engine's own rules as they were last said, by table.
    own: BTreeMap<u8, Vec<Rule>>,
    /// Whether `pending` has all that may be otherwise than it is.
    in_step: bool,
    step: Step,
}

/// How far an update of two steps is.
#[derive(Default)]
enum Step {
    #[default]
    One,
    /// The additions are on their way; the barrier request with this id tells when they are there. Then the rest follows,
    /// and these wait for it.
    Adding(u32, Vec<Waiter>),
    /// The additions are there.
    Added(Vec<Waiter>),
}

impl Wanted {
    /// What the switch has is not what we thought: all is compared.
    pub fn lost_step(&mut self) {
        self.in_step = false;
    }

    /// Ends an update that is half-way; returns who waited for its end.
    pub fn give_up(&mut self) -> Vec<Waiter> {
        match std::mem::take(&mut self.step) {
            Step::One => Vec::new(),
            Step::Adding(_, waiting) | Step::Added(waiting) => waiting,
        }
    }

    /// Whether the second step of an update is still to come.
    pub fn is_half_way(&self) -> bool {
        !matches!(self.step, Step::One)
    }

    /// Who waits for the second step.
    pub fn held_back(&self) -> &[Waiter] {
        match &self.step {
            Step::One => &[],
            Step::Adding(_, waiting) | Step::Added(waiting) => waiting,
        }
    }

    /// How many rules come in, of one table or all.
    pub fn additions(&self, table: Option<u8>, installed: &BTreeMap<u8, Installed>) -> usize {
        let chosen = self.pending.iter().filter(|(id, _)| table.is_none_or(|table| table == **id));
        chosen.map(|(table, pending)| pending.additions(installed.get(table))).sum()
    }
}

impl Engine {
    /// Brings the switches that changed in this batch up to date.
    pub(super) fn flush_all(&mut self) {
        let dirty: Vec<Dpid> = std::mem::take(&mut self.dirty).into_iter().collect();
        for dpid in dirty {
            self.flush(dpid);
        }
    }

    fn flush(&mut self, dpid: Dpid) {
        if !self.with(dpid, Engine::prepare) {
            return;
        }
        if !self.with(dpid, |engine, switch| engine.fits(switch, switch.brings_in())) {
            self.turn_away(dpid);
            self.with(dpid, Engine::prepare);
            if !self.with(dpid, |engine, switch| engine.fits(switch, false)) {
                self.clear_out(dpid);
                self.with(dpid, Engine::prepare);
            }
        }
        self.with(dpid, Engine::send_update);
        self.make_room_for_hosts(dpid);
    }

    /// Does something with a switch that is taken out for so long. `false` if it is not there.
    fn with(&mut self, dpid: Dpid, work: impl FnOnce(&mut Engine, &mut Switch) -> bool) -> bool {
        let Some(mut switch) = self.switches.remove(&dpid) else { return false };
        let outcome = work(self, &mut switch);
        self.switches.insert(dpid, switch);
        outcome
    }

    /// Finds out what is to be changed, unless that has to wait; what an update has still to do is done first.
    fn prepare(&mut self, switch: &mut Switch) -> bool {
        if !switch.ready {
            return false;
        }
        match std::mem::take(&mut switch.wanted.step) {
            Step::Adding(xid, waiting) => {
                switch.wanted.step = Step::Adding(xid, waiting);
                return false;
            }
            Step::Added(waiting) => {
                let rest = self.changes(switch);
                self.send_changes(switch, rest);
                self.end_update(switch, waiting);
            }
            Step::One => {}
        }
        self.collect(switch);
        true
    }

    /// Sends what is to be changed, or its first step.
    fn send_update(&mut self, switch: &mut Switch) -> bool {
        let changes = self.changes(switch);
        let waiting = std::mem::take(&mut switch.waiting);
        let is_addition = |(_, change): &(u8, Change)| matches!(change, Change::Add(_));
        let is_door = |(table, _): &(u8, Change)| switch.three_tables && *table == CLASSIFIER;
        let (additions, rest): (Vec<_>, Vec<_>) =
            changes.into_iter().partition(|change| is_addition(change) && !is_door(change));
        if additions.is_empty() && rest.is_empty() && waiting.is_empty() {
            switch.wanted.pending.clear();
            return true;
        }
        let is_one = additions.is_empty() || rest.iter().all(is_addition);
        self.send_changes(switch, additions);
        if is_one {
            self.send_changes(switch, rest);
            self.end_update(switch, waiting);
        } else {
            let xid = self.send_barrier(switch, Vec::new());
            switch.wanted.step = Step::Adding(xid, waiting);
        }
        true
    }

    /// The additions of an update are there: the rest may follow.
    pub(super) fn additions_done(&mut self, dpid: Dpid, barrier: u32) {
        let Some(switch) = self.switches.get_mut(&dpid) else { return };
        switch.wanted.step = match std::mem::take(&mut switch.wanted.step) {
            Step::Adding(xid, waiting) if xid == barrier => Step::Added(waiting),
            other => return switch.wanted.step = other,
        };
        self.mark(dpid, Stale::default());
    }

    /// All that is to be changed, later tables first, so that nothing is sent on before its rules are there.
    fn changes(&self, switch: &mut Switch) -> Vec<(u8, Change)> {
        let Switch { wanted, installed, .. } = switch;
        let tables = wanted.pending.iter().rev();
        let of_table = |(table, pending): (&u8, &Pending)| {
            let changes = pending.changes(installed.entry(*table).or_default());
            changes.into_iter().map(|change| (*table, change)).collect::<Vec<_>>()
        };
        tables.flat_map(of_table).collect()
    }

    fn send_changes(&mut self, switch: &mut Switch, changes: Vec<(u8, Change)>) {
        for (table, change) in changes {
            switch.installed.entry(table).or_default().apply(&change);
            let mut flow_mod = change.flow_mod(table);
            if !matches!(change, Change::Delete(_)) {
                flow_mod.flags |= FlowMod::SEND_FLOW_REM;
            }
            let xid = switch.take_xid(self.options.first_xid);
            switch.unconfirmed.push_back((xid, Sent::FlowMod { table, rule: change.rule().clone() }));
            if let Change::Delete(rule) = change {
                switch.removals.expect(self.now, (table, rule.cookie, key_of(&rule)));
            }
            self.stats.flow_mods += 1;
            self.out.push(Effect::Send { dpid: switch.dpid, xid, message: Message::FlowMod(flow_mod) });
        }
    }

    /// All changes are sent: what is wanted is what the switch will have.
    fn end_update(&mut self, switch: &mut Switch, waiting: Vec<Waiter>) {
        switch.wanted.pending.clear();
        self.send_barrier(switch, waiting);
    }

    fn send_barrier(&mut self, switch: &mut Switch, waiting: Vec<Waiter>) -> u32 {
        let xid = switch.take_xid(self.options.first_xid);
        switch.unconfirmed.push_back((xid, Sent::Barrier(waiting)));
        self.out.push(Effect::Send { dpid: switch.dpid, xid, message: Message::BarrierRequest });
        xid
    }

    /// Asks everybody what changed.
    fn collect(&mut self, switch: &mut Switch) {
        for leaf in std::mem::take(&mut switch.acting) {
            switch.table.act(leaf, self.ingress_action(leaf));
        }
        if self.is_short_of_room(switch) {
            switch.table.tidy();
        }
        let (version, three_tables) = (switch.version(), switch.three_tables);
        let mut shared = Pending::default();
        let mut say = |wanted: &mut Wanted, source, changes| {
            wanted.shared.take(version, source, changes, &mut shared);
        };
        if std::mem::take(&mut switch.stale.labels) {
            let Unmade { changes, confirms } =
                switch.labels.take_changes(|label| cookie(self.options.epoch, Some(LeafId(label))));
            say(&mut switch.wanted, Source::Labels, changes);
            switch.waiting.extend((!confirms.is_empty()).then_some(Waiter::Labels(confirms)));
        }
        let mut ingress = switch.table.take_changes();
        if !three_tables {
            say(&mut switch.wanted, Source::Ingress, std::mem::take(&mut ingress));
        }
        let mut own = BTreeMap::new();
        if std::mem::take(&mut switch.stale.classifier) {
            let new = self.own_rules(switch);
            for (table, rules) in &new {
                own.insert(*table, changes(switch.wanted.own.get(table).map_or(&[], Vec::as_slice), rules));
            }
            switch.wanted.own = new;
        }
        let room = self.host_room(switch);
        own.entry(CLASSIFIER).or_default().extend(switch.host_rules.take_changes(room));
        let shared_table = if three_tables { LABELS } else { CLASSIFIER };
        say(&mut switch.wanted, Source::Own, own.remove(&shared_table).unwrap_or_default());
        own.entry(INGRESS).or_default().extend(ingress);
        own.entry(ROUTES).or_default().extend(switch.route_rules.take_changes());
        if switch.wanted.in_step {
            switch.wanted.pending.entry(shared_table).or_default().merge(shared);
            for (table, changes) in own.into_iter().filter(|(_, changes)| !changes.is_empty()) {
                switch.wanted.pending.entry(table).or_default().take(changes);
            }
        } else {
            self.compare_all(switch, shared_table);
        }
    }

    /// Everything is compared with what the switch has.
    fn compare_all(&self, switch: &mut Switch, shared_table: u8) {
        let Switch { wanted, installed, table, three_tables, host_rules, route_rules, .. } = switch;
        let mut all: BTreeMap<u8, Vec<Rule>> = installed.keys().map(|table| (*table, Vec::new())).collect();
        all.extend(wanted.own.clone());
        if *three_tables {
            all.entry(CLASSIFIER).or_default().extend(host_rules.rules());
        }
        all.insert(shared_table, wanted.shared.rules().collect());
        if *three_tables {
            all.entry(INGRESS).or_default().extend(table.rules());
            all.entry(ROUTES).or_default().extend(route_rules.all().cloned());
        }
        let compare =
            |(table, rules): (u8, Vec<Rule>)| (table, Pending::all(rules, installed.entry(table).or_default()));
        wanted.pending = all.into_iter().map(compare).collect();
        wanted.in_step = true;
    }

    /// The engine's own rules, by table: the classifier, and what becomes of packets that no other rule takes.
    fn own_rules(&self, switch: &mut Switch) -> BTreeMap<u8, Vec<Rule>> {
        let own = cookie(self.options.epoch, None);
        let state = self.store.snapshot();
        let mut first = classifier(switch, &state, &self.options, own);
        // What the switch has just refused is tried again when there may be room (`full_timer`), not at once.
        let is_refused = |table: u8, rule: &Rule| {
            switch.refused.iter().any(|(t, p, m)| (*t, *p, m) == (table, rule.priority, &rule.matching))
        };
        let miss = |table: u8| Some(table_miss(own)).filter(|rule| !is_refused(table, rule));
        // Packets without a classifier rule come to the controller: slow, never wrong.
        first.retain(|rule| !is_refused(CLASSIFIER, rule));
        // Nor may a packet come into a table that drops what it does not know.
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

    fn ingress_action(&self, id: LeafId) -> LeafAction {
        let leaf = self.leaves.get(&id);
        let leaf = leaf.filter(|leaf| matches!(leaf.state, LeafState::Active | LeafState::Moving(_)));
        let Some(route) = leaf.and_then(|leaf| self.routes.get(leaf.via?)) else { return LeafAction::Controller };
        route.action()
    }
}
