//! Keeps up what look-ups find: their subscriptions to tables, and the rules of keys.

use std::collections::BTreeSet;
use std::time::Duration;

use maple_wire::{Dpid, Field, PortNo};

use super::Decisions;
use crate::engine::context::Context;
use crate::engine::context::timers::Timer;
use crate::engine::fabric::Fabric;
use crate::engine::fabric::routes::Routes;
use crate::engine::one_switch::Switch;
use crate::engine::one_switch::cookies::own_cookie;
use crate::engine::one_switch::layout::CLASSIFIER;
use crate::engine::one_switch::look_up_tables::{Involved, LeafRules};
use crate::ids::{DependentId, LeafId};
use crate::look_ups::{LookUp, LookUpNumber, SOURCE_IS_HERE};
use crate::network::{Location, Mac};
use crate::report::{Lowered, Report, ReportSubject};
use crate::state::Cell;
use crate::trace::{Item, ReadMetadata, Trace};

/// The time after which keys' rules look again whether the rules of leaves are at rest. The confirmation of an update
/// makes them look too, so this is only for changes of routes that end without one. Chosen: a host that has moved waits
/// at most that long, and a look changes nothing if it comes too early.
const AT_REST_AGAIN: Duration = Duration::from_millis(20);

/// The divisor of the share of a switch's rules that those of keys may be: one in this many. Chosen: most of the
/// capacity is left for leaves; keys without a rule are answered by the controller.
const MAX_PART_OF_RULES: usize = 4;

impl Decisions {
    /// Lets the look-ups of a switch find what the newest state has, also those that a run has just recorded. Lowers
    /// those for which the switch has too few classes or rules.
    pub fn follow_tables(&mut self, fabric: &mut Fabric, dpid: Dpid) {
        self.lower_for_pairs(fabric, dpid);
        let Some(switch) = fabric.switches.get(&dpid) else { return };
        // A switch without tables for look-ups shows what it was asked, and that is no news to report.
        if switch.layout().look_ups().is_empty() {
            return;
        }
        if switch.ingress.look_ups.are_in_use() {
            self.follow_tables_in_use(fabric, dpid);
        }
        // Where all were lowered before one was in use, what is asked since is reported too.
        report_lowered(fabric, dpid);
    }

    fn follow_tables_in_use(&mut self, fabric: &mut Fabric, dpid: Dpid) {
        let version = fabric.ctx.store.snapshot().version();
        if !fabric.switches.get(&dpid).is_some_and(|switch| switch.ingress.look_ups.is_of(version)) {
            self.add_look_ups(fabric, dpid);
            self.follow_sources(fabric, dpid);
            self.follow_outdated(fabric, dpid);
            if let Some(switch) = fabric.switches.get_mut(&dpid) {
                switch.ingress.look_ups.note_version(version);
            }
        }
        self.follow_ways(fabric, dpid);
        self.free_classes(fabric, dpid);
        self.free_tables(fabric, dpid);
    }

    /// Puts the look-ups that the policy has announced in the place of those of the policy before it.
    pub fn succeed_look_ups(&mut self, fabric: &mut Fabric, dpid: Dpid) {
        let Some(switch) = fabric.switches.known_mut(dpid) else { return };
        let succeeded = switch.ingress.look_ups.succeed();
        if !succeeded.is_empty() {
            fabric.switches.note_classes_changed();
        }
        for number in succeeded {
            self.classify_keys(fabric, dpid, number);
        }
    }

    /// Ends the look-ups of a switch that no leaf asks, because another policy decides. While a switch is restored, it
    /// is not known what its leaves will ask.
    pub fn retire_look_ups(&mut self, fabric: &mut Fabric, dpid: Dpid) {
        let Some(switch) = fabric.switches.known(dpid).filter(|switch| switch.restoring.is_none()) else { return };
        let asked = |all: u64, leaf: LeafId| all | self.leaves.get(&leaf).map_or(0, |leaf| leaf.metadata().mask);
        let asked = switch.tree().leaves().fold(0, asked);
        let look_ups = &switch.ingress.look_ups;
        let all = look_ups.dependents().map(|(number, ..)| (number, look_ups.mask(number)));
        let unasked: Vec<(LookUpNumber, u64)> = all.filter(|(_, mask)| mask & asked == 0).collect();
        for (number, mask) in unasked {
            let Some(switch) = fabric.switches.known_mut(dpid) else { return };
            let dependent = switch.ingress.look_ups.retire(number);
            self.end_look_up(fabric, dpid, dependent, mask);
        }
    }

    /// Lets other look-ups have the tables and bits of those that have ended, once the switch has confirmed that no
    /// rule has to do with these. Withdraws the leaves that read fields in place of a look-up that can have a table
    /// now, or that asked a list in its place.
    fn free_tables(&mut self, fabric: &mut Fabric, dpid: Dpid) {
        let Some(switch) = fabric.switches.known_mut(dpid).filter(|switch| switch.may_vacate()) else { return };
        let wanting = switch.ingress.look_ups.vacate();
        let is_key = |item: &Item| match item {
            Item::Read(read) => wanting.iter().any(|look_up| look_up.fields().any(|field| field == read.field)),
            _ => false,
        };
        let is_of_lists = wanting.iter().any(LookUp::is_fixed);
        let asks = |trace: &Trace| trace.items.iter().any(is_key) || is_of_lists && !trace.lists.is_empty();
        let reads = |leaf: &LeafId| self.leaves.get(leaf).is_some_and(|leaf| asks(&leaf.trace));
        let leaves: Vec<LeafId> = switch.tree().leaves().filter(reads).collect();
        fabric.switches.note_classes_changed();
        self.withdraw_all(fabric, leaves);
    }

    /// Lets the look-ups among these dependents find what the newest state has. That may withdraw leaves, so it comes
    /// before leaves are decided again.
    pub fn follow_stale_tables(&mut self, fabric: &mut Fabric, stale: &BTreeSet<DependentId>) {
        let dpids: BTreeSet<Dpid> = stale.iter().filter_map(|of| fabric.switches.of_look_up(*of)).collect();
        dpids.into_iter().for_each(|dpid| self.follow_tables(fabric, dpid));
    }

    /// Gives the look-ups that runs have recorded their tables.
    fn add_look_ups(&mut self, fabric: &mut Fabric, dpid: Dpid) {
        let Some(switch) = fabric.switches.known(dpid) else { return };
        let (layout, cookie) = (switch.layout(), own_cookie(fabric.ctx.options.epoch));
        for (number, has_ended) in switch.ingress.look_ups.new_look_ups() {
            let dependent = (!has_ended).then(|| self.new_look_up(fabric, dpid));
            if let Some(switch) = fabric.switches.get_mut(&dpid) {
                switch.ingress.look_ups.add(number, dependent, layout, cookie);
            }
        }
    }

    /// Finds the classes of keys again for look-ups whose table or registers have changed.
    fn follow_outdated(&mut self, fabric: &mut Fabric, dpid: Dpid) {
        let Some(switch) = fabric.switches.known(dpid) else { return };
        let extended = switch.ingress.look_ups.extended();
        let is_outdated = |(number, dependent, _): &(LookUpNumber, DependentId, &LookUp)| {
            extended.contains(number) || !fabric.ctx.store.is_current(*dependent)
        };
        let all = switch.ingress.look_ups.dependents().filter(is_outdated);
        let outdated: Vec<LookUpNumber> = all.map(|(number, ..)| number).collect();
        for number in outdated {
            self.classify_keys(fabric, dpid, number);
        }
    }

    /// Finds the classes of a look-up's keys in the newest state. Lowers it if its keys have too many rules.
    fn classify_keys(&mut self, fabric: &mut Fabric, dpid: Dpid, number: LookUpNumber) {
        let Fabric { ctx, switches, .. } = fabric;
        let Some(switch) = switches.known_mut(dpid) else { return };
        let look_ups = &mut switch.ingress.look_ups;
        let Some((dependent, look_up)) = look_ups.dependent(number) else { return };
        let state = ctx.subscribe(dependent, |txn| {
            look_up.all_cells().into_iter().for_each(|cell| drop(txn.read(cell)));
            txn.base()
        });
        let max_rules = ctx.options.max_rules.map(|most| most / MAX_PART_OF_RULES);
        let is_changed = look_ups.set_classes(number, &state);
        if max_rules.is_some_and(|most| look_ups.max_rules() > most) {
            return self.lower_look_up(fabric, dpid, number, Lowered::TooManyKeys);
        }
        if is_changed {
            fabric.mark_dirty(dpid);
        }
    }

    /// Frees classes that nothing has any more where a value had none. If that does not make room, lowers the look-up.
    /// Leaves for values that no key has are withdrawn before. Waits until the switch has confirmed all that was sent:
    /// then no rule there has a class that is free here.
    fn free_classes(&mut self, fabric: &mut Fabric, dpid: Dpid) {
        let Some(switch) = fabric.switches.known(dpid) else { return };
        let exhausted = switch.ingress.look_ups.exhausted();
        if exhausted.is_empty() || switch.restoring.is_some() {
            return;
        }
        for number in &exhausted {
            self.withdraw_without_key(fabric, dpid, *number);
        }
        let Some(switch) = fabric.switches.known(dpid).filter(|switch| switch.is_at_rest()) else { return };
        let of_leaves = switch.tree().leaves().filter_map(|leaf| Some(self.leaves.get(&leaf)?.metadata()));
        let in_use: Vec<ReadMetadata> = of_leaves.chain(switch.metadata_of_rules()).collect();
        for number in exhausted {
            let Some(switch) = fabric.switches.known_mut(dpid) else { return };
            let has_room = switch.ingress.look_ups.free_classes(number, &in_use);
            fabric.switches.note_classes_changed();
            if has_room {
                self.classify_keys(fabric, dpid, number);
            } else {
                self.lower_look_up(fabric, dpid, number, Lowered::TooManyValues);
            }
        }
    }

    /// Withdraws the leaves for values of a look-up that no key has.
    fn withdraw_without_key(&mut self, fabric: &mut Fabric, dpid: Dpid, number: LookUpNumber) {
        let Some(switch) = fabric.switches.known(dpid) else { return };
        let has_key = switch.ingress.look_ups.is_of_a_key(number);
        let is_outdated = |leaf: &LeafId| self.leaves.get(leaf).is_some_and(|leaf| !has_key(leaf.metadata()));
        let outdated: Vec<LeafId> = switch.tree().leaves().filter(is_outdated).collect();
        self.withdraw_all(fabric, outdated);
    }

    /// Creates the dependent that a look-up of a switch is.
    fn new_look_up(&self, fabric: &mut Fabric, dpid: Dpid) -> DependentId {
        let is_taken = |id: DependentId| {
            let is_leaf = self.leaves.get(&id.possible_leaf()).is_some();
            is_leaf || self.undecided.has(id) || fabric.routes.of_subscription(id).is_some()
        };
        fabric.switches.add_look_up(fabric.ctx.shard(), dpid, is_taken)
    }

    /// Deletes the rules of hosts that are elsewhere in the newest state, if leaves may rest on where sources are.
    /// Another shard may have moved a host, and its message may still be on the way here.
    fn follow_sources(&mut self, fabric: &mut Fabric, dpid: Dpid) {
        let Some(switch) = fabric.switches.get(&dpid) else { return };
        let is_new = switch.ingress.look_ups.has_new_sources();
        let Some(dependent) =
            (if is_new { Some(self.new_look_up(fabric, dpid)) } else { switch.ingress.look_ups.sources() })
        else {
            return;
        };
        if !is_new && fabric.ctx.store.is_current(dependent) {
            return;
        }
        let state = fabric.ctx.subscribe(dependent, |txn| {
            txn.read(Cell::HostsOf(dpid));
            txn.base()
        });
        let Some(switch) = fabric.switches.known_mut(dpid) else { return };
        switch.ingress.look_ups.follow_sources(dependent);
        let is_here = |(port, mac): &(PortNo, Mac)| {
            state.host(*mac).is_some_and(|host| host.location == Location::new(dpid, *port))
        };
        let departed: Vec<(PortNo, Mac)> = switch.ports.host_rules.present().filter(|host| !is_here(host)).collect();
        for (port, mac) in departed {
            switch.ports.host_rules.set_host(port, mac, false);
            fabric.ctx.mark_dirty(dpid);
        }
    }

    /// Lowers the look-ups that have to do with a refused rule.
    pub fn give_up_look_ups(&mut self, fabric: &mut Fabric, dpid: Dpid, involved: Involved, why: Lowered) {
        for number in involved.look_ups {
            self.lower_look_up(fabric, dpid, number, why);
        }
        if involved.sources {
            self.lower_sources(fabric, dpid);
        }
        fabric.switches.reread(&mut fabric.ctx, dpid);
        report_lowered(fabric, dpid);
    }

    /// Lowers all look-ups of a switch if f wants the rates of pairs of hosts there.
    fn lower_for_pairs(&mut self, fabric: &mut Fabric, dpid: Dpid) {
        let Some(switch) = fabric.switches.get(&dpid).filter(|switch| switch.counters.polls.wants_pairs()) else {
            return;
        };
        let layout = switch.layout();
        if layout.look_ups().is_empty() || !switch.ingress.look_ups.lower_further(Lowered::Traffic) {
            return;
        }
        let all = layout.look_ups().filter_map(|table| layout.look_up_of(table));
        all.for_each(|number| self.lower_look_up(fabric, dpid, number, Lowered::Traffic));
        self.lower_sources(fabric, dpid);
    }

    /// Lowers a look-up of a switch: from now on f reads the fields of its key there.
    fn lower_look_up(&mut self, fabric: &mut Fabric, dpid: Dpid, number: LookUpNumber, why: Lowered) {
        let Some(switch) = fabric.switches.known_mut(dpid) else { return };
        let mask = switch.ingress.look_ups.mask(number);
        // A full table refuses many rules.
        if mask != 0 {
            let dependent = switch.ingress.look_ups.lower(number, why);
            self.end_look_up(fabric, dpid, dependent, mask);
        }
    }

    /// Lowers the question where the sources of packets are.
    fn lower_sources(&mut self, fabric: &mut Fabric, dpid: Dpid) {
        let Some(switch) = fabric.switches.known_mut(dpid) else { return };
        let dependent = switch.ingress.look_ups.lower_sources();
        switch.ports.host_rules.stop_marking_sources();
        self.end_look_up(fabric, dpid, dependent, SOURCE_IS_HERE);
    }

    /// Forgets the dependent that a look-up was, and withdraws the leaves that depend on its bits of the metadata.
    fn end_look_up(&mut self, fabric: &mut Fabric, dpid: Dpid, dependent: Option<DependentId>, mask: u64) {
        if let Some(dependent) = dependent {
            fabric.switches.forget_look_up(dependent);
            fabric.ctx.store.forget(dependent);
        }
        fabric.switches.note_classes_changed();
        let Some(switch) = fabric.switches.known(dpid) else { return };
        let depends = |leaf: &LeafId| self.leaves.get(leaf).is_some_and(|leaf| leaf.metadata().mask & mask != 0);
        let leaves: Vec<LeafId> = switch.tree().leaves().filter(depends).collect();
        self.withdraw_all(fabric, leaves);
        fabric.mark_dirty(dpid);
    }

    /// Takes the changes of keys' rules, if there are any. Returns whether the rules of leaves, and all others, may
    /// change in this update.
    pub fn collect_look_ups(&mut self, ctx: &mut Context, routes: &Routes, switch: &mut Switch) -> bool {
        let is_moving = self.forget_path_changes(routes, switch.dpid());
        if switch.layout().look_ups().is_empty() {
            return true;
        }
        // The switch may refuse what was sent last, and the other rules rely on it.
        let is_synchronised = switch.tables.is_synchronised();
        let is_unconfirmed = switch.ingress.look_ups.is_unconfirmed();
        debug_assert!(is_unconfirmed || !switch.tables.awaits_look_ups(), "what was sent is noted as sent");
        if is_unconfirmed && (is_synchronised || switch.tables.awaits_look_ups()) {
            return false;
        }
        // The rules of keys follow the newest state. So no other rule may follow an earlier one: a key that has changed
        // and changed back does not send to the controller.
        let are_leaves_current = !switch.ingress.look_ups.are_in_use() || ctx.are_leaves_current(switch.dpid());
        let is_changing = switch.ingress.look_ups.are_changing() || switch.has_departures();
        if is_synchronised && !is_changing {
            return are_leaves_current && switch.ingress.look_ups.let_leaves_change();
        }
        let ingress = &switch.ingress;
        let are_leaves_changing = is_moving
            || !are_leaves_current
            || !is_synchronised
            || !ingress.changed_actions.is_empty()
            || !ingress.carried.is_empty()
            || ingress.table.may_have_changes()
            || !switch.has_confirmed_leaves();
        let changes =
            switch.take_look_up_changes(if are_leaves_changing { LeafRules::Changing } else { LeafRules::AtRest });
        if changes.is_empty() {
            if switch.ingress.look_ups.are_changing() {
                ctx.wake_at(ctx.now() + AT_REST_AGAIN, Timer::LookUps(switch.dpid()));
            }
            return are_leaves_current && switch.ingress.look_ups.let_leaves_change();
        }
        for (table, changes) in changes {
            switch.tables.record_changes(table, changes);
        }
        // Where the rules were just read, nothing else of the classifier is in this update.
        if let Some(miss) = switch.missing_first_miss(ctx) {
            switch.tables.record_changes(CLASSIFIER, vec![miss]);
        }
        switch.ingress.look_ups.note_sent();
        switch.tables.hold_back_for_look_ups();
        false
    }
}

/// Reports what was lowered at a switch, once for each switch, look-up and reason.
fn report_lowered(fabric: &mut Fabric, dpid: Dpid) {
    let Some(switch) = fabric.switches.known(dpid) else { return };
    for (look_up, why) in switch.ingress.look_ups.take_lowered() {
        let fields: Vec<&str> = look_up.fields().map(Field::name).collect();
        let (key, fields) = (format!("{dpid} {look_up} {why}"), fields.join(", ").into());
        let report = Report::LookUpLowered { switch: dpid, look_up: look_up.to_string().into(), fields, why };
        fabric.ctx.report_once(ReportSubject::Switch(dpid), &key, report);
    }
}
