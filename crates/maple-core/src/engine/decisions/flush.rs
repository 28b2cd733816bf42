//! The flush at the end of a batch: each source of rules records what changed, and the tables of the switch
//! ([`crate::engine::one_switch::tables`]) send it. The sources are the ingress tree, the labels, the routes, the
//! hosts, and the engine's own rules.
//!
//! Next on a packet's way: [`crate::engine::one_switch::send_update`].

use maple_wire::Dpid;

use super::Decisions;
use crate::engine::context::Context;
use crate::engine::context::timers::Timer;
use crate::engine::fabric::Fabric;
use crate::engine::fabric::routes::Routes;
use crate::engine::one_switch::Switch;

impl Decisions {
    /// Finds the changes for an update, and refuses or evicts what does not fit. Returns whether the update may go on.
    pub fn prepare_update(&mut self, fabric: &mut Fabric, dpid: Dpid) -> bool {
        if !self.collect_if_possible(fabric, dpid) {
            return false;
        }
        let now = fabric.ctx.now();
        let has_additions = |switch: &Switch| switch.tables.has_waiting_additions();
        if !fabric.switches.get(&dpid).is_some_and(|switch| switch.fits(now, has_additions(switch))) {
            self.refuse_additions(fabric, dpid);
            self.collect_if_possible(fabric, dpid);
            if !fabric.switches.get(&dpid).is_some_and(|switch| switch.fits(now, false)) {
                self.evict_all(fabric, dpid);
                self.collect_if_possible(fabric, dpid);
            }
        }
        true
    }

    /// Finds the changes for an update, unless that has to wait. First finishes an earlier update. Returns whether the
    /// update may go on.
    pub fn collect_if_possible(&mut self, fabric: &mut Fabric, dpid: Dpid) -> bool {
        self.follow_tables(fabric, dpid);
        let Fabric { ctx, switches, routes, .. } = fabric;
        let Some(switch) = switches.known_mut(dpid) else { return false };
        let is_away = switch.is_unreachable();
        let may_go_on = switch.begin_update(ctx);
        if may_go_on && !self.collect_look_ups(ctx, routes, switch) {
            return switch.tables.is_for_look_ups();
        }
        if is_away || may_go_on {
            self.collect(fabric, dpid);
        }
        may_go_on
    }

    /// Takes the changes of all sources of a switch's rules.
    pub fn collect(&mut self, fabric: &mut Fabric, dpid: Dpid) {
        let Fabric { ctx, switches, routes, .. } = fabric;
        let Some(switch) = switches.known_mut(dpid) else { return };
        let changed = std::mem::take(&mut switch.ingress.changed_actions);
        let actions = changed.into_iter().map(|leaf| (leaf, self.ingress_action(routes, leaf))).collect();
        switch.collect_labels(ctx.options.epoch);
        switch.collect_ingress(ctx.now(), actions);
        switch.tables.record_changes(switch.layout().routes(), switch.paths.route_rules.take_changes());
        let own = switch.collect_own(ctx);
        let is_held = switch.has_further_hosts() && self.hold_hosts(ctx, routes, switch);
        switch.collect_hosts(ctx.now(), own, is_held);
        switch.compare_all();
    }

    /// Holds the rules that let further hosts into the ingress table if its rules are about to change. Returns whether
    /// it does.
    fn hold_hosts(&mut self, ctx: &mut Context, routes: &Routes, switch: &mut Switch) -> bool {
        let is_moving = self.forget_path_changes(routes, switch.dpid());
        let longest = ctx.options.reroute_timeout;
        let Some(until) = switch.ports.host_rules.hold(ctx.now(), is_moving, longest) else { return false };
        ctx.wake_at(until, Timer::RetryRules(switch.dpid()));
        true
    }

    /// Records what changes for switches without a connection, so that it is known whether their rules have to change.
    pub fn record_for_unreachable(&mut self, fabric: &mut Fabric) {
        let away: Vec<Dpid> = fabric.ctx.dirty().filter(|dpid| fabric.switches.is_unreachable(*dpid)).collect();
        for dpid in away {
            fabric.ctx.unmark_dirty(dpid);
            self.collect_if_possible(fabric, dpid);
        }
    }
}
