//! Keeps up what look-ups find: their subscriptions to tables, and the rules of keys.

use std::time::Duration;

use maple_wire::{Dpid, PortNo};

use super::Decisions;
use crate::engine::context::timers::Timer;
use crate::engine::fabric::Fabric;
use crate::engine::one_switch::cookies::own_cookie;
use crate::engine::one_switch::look_ups::LeafRules;
use crate::ids::{DependentId, LeafId};
use crate::look_ups::LookUp;
use crate::network::{Location, Mac};
use crate::state::Cell;

/// How long keys' rules wait before they look again whether the rules of leaves are at rest. The confirmation of an
/// update makes them look too, so this is only for changes of routes that end without one.
const AT_REST_AGAIN: Duration = Duration::from_millis(20);

impl Decisions {
    /// Lets the look-ups of a switch find what the newest state has, also those that a run has just recorded.
    pub fn follow_tables(&mut self, fabric: &mut Fabric, dpid: Dpid) {
        let Some(switch) = fabric.switches.get(&dpid) else { return };
        if switch.layout.look_ups().is_empty() || !switch.ingress.look_ups.are_in_use() {
            return;
        }
        let version = fabric.ctx.store.snapshot().version();
        if switch.ingress.look_ups.is_of(version) {
            return;
        }
        let (layout, cookie) = (switch.layout, own_cookie(fabric.ctx.options.epoch));
        for look_up in switch.ingress.look_ups.new_look_ups() {
            let dependent = self.new_look_up(fabric, dpid);
            if let Some(switch) = fabric.switches.get_mut(&dpid) {
                switch.ingress.look_ups.add(look_up, dependent, layout, cookie);
            }
        }
        self.follow_sources(fabric, dpid);
        let Some(switch) = fabric.switches.get(&dpid) else { return };
        let extended = switch.ingress.look_ups.extended();
        let is_outdated = |(number, dependent, _): &(usize, DependentId, &LookUp)| {
            extended.contains(number) || !fabric.ctx.store.is_current(*dependent)
        };
        let outdated: Vec<(usize, DependentId, LookUp)> = switch
            .ingress
            .look_ups
            .dependents()
            .filter(is_outdated)
            .map(|(number, dependent, look_up)| (number, dependent, look_up.clone()))
            .collect();
        for (number, dependent, look_up) in outdated {
            let state = fabric.ctx.subscribe(dependent, |txn| {
                txn.read(look_up.all_cells());
                txn.base()
            });
            let Some(switch) = fabric.switches.known_mut(dpid) else { return };
            if switch.ingress.look_ups.set_classes(number, &state) {
                fabric.mark_dirty(dpid);
            }
        }
        if let Some(switch) = fabric.switches.get_mut(&dpid) {
            switch.ingress.look_ups.note_version(version);
        }
    }

    /// Creates the dependent that a look-up of a switch is.
    fn new_look_up(&self, fabric: &mut Fabric, dpid: Dpid) -> DependentId {
        let is_taken = |id: DependentId| {
            let is_leaf = self.leaves.get(&id.possible_leaf()).is_some();
            is_leaf || self.undecided.has(id) || fabric.routes.of_subscription(id).is_some()
        };
        fabric.switches.add_look_up(fabric.ctx.shard, dpid, is_taken)
    }

    /// Lets the rules of hosts go that are no longer where they were in the newest state, if leaves may rest on where
    /// sources are. Another shard may have moved a host, and its message may still be on the way here.
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

    /// Closes all look-ups of a switch that refuses their rules.
    pub fn give_up_look_ups(&mut self, fabric: &mut Fabric, dpid: Dpid) {
        let Some(switch) = fabric.switches.known_mut(dpid) else { return };
        let dependents = switch.ingress.look_ups.close();
        switch.ports.host_rules.stop_marking_sources();
        let leaves: Vec<LeafId> = switch.tree().leaves().collect();
        for dependent in dependents {
            fabric.switches.forget_look_up(dependent);
            fabric.ctx.store.forget(dependent);
        }
        self.withdraw_all(fabric, leaves);
        fabric.switches.reread(&mut fabric.ctx, dpid);
    }

    /// Takes the changes of keys' rules, if there are any. Returns whether the rules of leaves, and all others, may
    /// change in this update.
    pub fn collect_look_ups(&mut self, fabric: &mut Fabric, dpid: Dpid) -> bool {
        let is_moving = self.has_path_changes(fabric, dpid);
        let Some(switch) = fabric.switches.known_mut(dpid) else { return true };
        if switch.layout.look_ups().is_empty() {
            return true;
        }
        let is_changing = switch.ingress.look_ups.are_changing() || switch.has_departures();
        if switch.tables.is_synchronised() && !is_changing {
            return switch.ingress.look_ups.let_leaves_change();
        }
        if switch.tables.is_synchronised() && switch.ingress.look_ups.is_unconfirmed() {
            return false;
        }
        // Leaves may rest on what was read in a state before the one that keys are of, and nobody has said so yet.
        let has_heard_all = fabric.ctx.has_heard_all();
        let ingress = &switch.ingress;
        let is_changing = is_moving
            || !has_heard_all
            || !switch.tables.is_synchronised()
            || !ingress.changed_actions.is_empty()
            || !ingress.carried.is_empty()
            || ingress.table.may_have_changes();
        let changes = switch.take_look_up_changes(if is_changing { LeafRules::Changing } else { LeafRules::AtRest });
        if changes.is_empty() {
            if switch.ingress.look_ups.are_changing() {
                fabric.ctx.wake_at(fabric.ctx.now + AT_REST_AGAIN, Timer::LookUps(dpid));
            }
            return switch.ingress.look_ups.let_leaves_change();
        }
        for (table, changes) in changes {
            switch.tables.record_changes(table, changes);
        }
        switch.ingress.look_ups.note_sent();
        switch.tables.hold_back_for_look_ups();
        false
    }
}
