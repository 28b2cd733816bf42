//! The flush at the end of a batch: each source of rules records what changed, and the tables of the switch
//! ([`crate::engine::one_switch::tables`]) send it. The sources are the ingress tree, the labels, the routes, the hosts,
//! and the engine's own rules.

use maple_wire::Dpid;

use super::Decisions;
use crate::compile::LeafAction;
use crate::engine::context::timers::Timer;
use crate::engine::fabric::Fabric;
use crate::engine::one_switch::Switch;
use crate::ids::LeafId;

impl Decisions {
    /// Finds the changes for an update, and refuses or evicts what does not fit. Returns whether the update may go on.
    pub fn prepare_update(&mut self, fabric: &mut Fabric, dpid: Dpid) -> bool {
        if !self.prepare(fabric, dpid) {
            return false;
        }
        let now = fabric.ctx.now();
        let has_additions = |switch: &Switch| switch.tables.has_waiting_additions();
        if !fabric.switches.get(&dpid).is_some_and(|switch| switch.fits(now, has_additions(switch))) {
            self.refuse_additions(fabric, dpid);
            self.prepare(fabric, dpid);
            if !fabric.switches.get(&dpid).is_some_and(|switch| switch.fits(now, false)) {
                self.evict_all(fabric, dpid);
                self.prepare(fabric, dpid);
            }
        }
        true
    }

    /// Finds the changes for an update, unless that has to wait. First finishes an earlier update. Returns whether the
    /// update may go on.
    pub fn prepare(&mut self, fabric: &mut Fabric, dpid: Dpid) -> bool {
        self.follow_tables(fabric, dpid);
        let Some(switch) = fabric.switches.known_mut(dpid) else { return false };
        let is_away = switch.is_unreachable();
        let may_go_on = switch.begin_update(&mut fabric.ctx);
        if may_go_on && !self.collect_look_ups(fabric, dpid) {
            return fabric.switches.get(&dpid).is_some_and(|switch| switch.tables.is_for_look_ups());
        }
        if is_away || may_go_on {
            self.collect(fabric, dpid);
        }
        may_go_on
    }

    /// Takes the changes of all sources of a switch's rules.
    pub fn collect(&mut self, fabric: &mut Fabric, dpid: Dpid) {
        let Some(switch) = fabric.switches.known_mut(dpid) else { return };
        let changed = std::mem::take(&mut switch.ingress.changed_actions);
        let actions: Vec<(LeafId, LeafAction)> =
            changed.into_iter().map(|leaf| (leaf, self.ingress_action(fabric, leaf))).collect();
        let Some(switch) = fabric.switches.known_mut(dpid) else { return };
        switch.collect_labels(fabric.ctx.options.epoch);
        switch.collect_ingress(fabric.ctx.now(), actions);
        switch.tables.record_changes(switch.layout().routes(), switch.paths.route_rules.take_changes());
        let own = switch.collect_own(&fabric.ctx);
        let is_held = switch.has_further_hosts() && self.hold_hosts(fabric, dpid);
        let Some(switch) = fabric.switches.known_mut(dpid) else { return };
        switch.collect_hosts(fabric.ctx.now(), own, is_held);
        switch.compare_all();
    }

    /// Holds the rules that let further hosts into the ingress table if its rules are about to change. Returns whether it
    /// does.
    fn hold_hosts(&mut self, fabric: &mut Fabric, dpid: Dpid) -> bool {
        let is_moving = self.forget_path_changes(fabric, dpid);
        let now = fabric.ctx.now();
        let longest = fabric.ctx.options.reroute_timeout;
        let Some(switch) = fabric.switches.known_mut(dpid) else { return false };
        let Some(until) = switch.ports.host_rules.hold(now, is_moving, longest) else { return false };
        fabric.ctx.wake_at(until, Timer::RetryRules(dpid));
        true
    }

    /// Records what changes for switches without a connection, so that it is known whether their rules have to change.
    pub fn record_for_unreachable(&mut self, fabric: &mut Fabric) {
        let away: Vec<Dpid> = fabric.ctx.dirty().filter(|dpid| fabric.switches.is_unreachable(*dpid)).collect();
        for dpid in away {
            fabric.ctx.unmark_dirty(dpid);
            self.prepare(fabric, dpid);
        }
    }
}
