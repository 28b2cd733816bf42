//! The confirmation of rules by their switch, and the removal of rules by it.

use std::time::Duration;

use maple_wire::Dpid;
use maple_wire::msg::FlowRemoved;

use super::Decisions;
use crate::engine::fabric::Fabric;
use crate::engine::messages::event::Effect;
use crate::engine::one_switch::Switch;
use crate::engine::one_switch::cookies::is_ours;
use crate::engine::one_switch::look_up_tables::LookUps;
use crate::engine::one_switch::tables::{ConfirmedRequests, Waiter};
use crate::ids::LeafId;
use crate::report::{Report, ReportSubject};
use crate::update::entry_key;

impl Decisions {
    /// Handles a barrier reply: everything sent to the switch before the barrier `xid` is done.
    pub fn on_barrier_reply(&mut self, fabric: &mut Fabric, dpid: Dpid, xid: u32) {
        let Some(switch) = fabric.switches.known_mut(dpid) else { return };
        // Nothing waits for the barrier after the rule of a watch.
        let Some(ConfirmedRequests { waiters, has_second_step }) = switch.tables.on_barrier_reply(xid) else { return };
        switch.use_route_table();
        waiters.into_iter().for_each(|waiter| self.wake_waiter(fabric, dpid, waiter));
        let switch = fabric.switches.get(&dpid);
        let waits = |of: &LookUps| of.are_changing() || of.has_ended() || !of.exhausted().is_empty();
        if has_second_step || switch.is_some_and(|switch| waits(&switch.ingress.look_ups)) {
            fabric.mark_dirty(dpid);
        }
        fabric.switches.make_postponed_poll(&mut fabric.ctx, dpid);
        if fabric.ctx.options.flow_mod_rate.is_some() {
            fabric.mark_dirty(dpid);
        }
    }

    fn wake_waiter(&mut self, fabric: &mut Fabric, dpid: Dpid, waiter: Waiter) {
        match waiter {
            Waiter::Labels(serials) => fabric.on_labels_confirmed(dpid, &serials),
            Waiter::RuleRemoved { route_id, stays } => fabric.finish_route_use(route_id, stays, true),
            Waiter::WayEnded { route_id, stays } => fabric.finish_way_use(route_id, stays, true),
            Waiter::FormerPath { route_id, serial } => fabric.release_former_path(route_id, serial, true),
            Waiter::LookUps => {
                let Some(switch) = fabric.switches.known_mut(dpid) else { return };
                switch.ingress.look_ups.confirm();
                switch.tables.end_holding_back();
                fabric.mark_dirty(dpid);
            }
            Waiter::Barriers(token) => self.on_confirmed(fabric, dpid, token),
            Waiter::RuleAdded(_, since) => {
                let took = fabric.ctx.now().0.saturating_sub(since.0);
                fabric.ctx.count_installation(Duration::from_nanos(took));
                if let Some(switch) = fabric.switches.get_mut(&dpid) {
                    switch.room.note_confirmed();
                }
            }
        }
    }

    /// Handles the removal of a rule by its switch. If we did not delete it, the next flush adds it again.
    pub fn on_flow_removed(&mut self, fabric: &mut Fabric, dpid: Dpid, removed: &FlowRemoved) {
        if is_ours(removed.cookie) {
            self.read_removed_count(fabric, dpid, removed);
        }
        let Some(switch) = fabric.switches.get_mut(&dpid).filter(|_| is_ours(removed.cookie)) else { return };
        let key = entry_key(removed.priority, &removed.matching);
        let cookie = switch.current_cookie(removed.cookie);
        if switch.tables.on_rule_removed(fabric.ctx.now(), removed.table_id, cookie, key) {
            let report = Report::RulesLost { switch: dpid, count: 1 };
            fabric.ctx.report_once(ReportSubject::Switch(dpid), &dpid.to_string(), report);
            fabric.mark_dirty(dpid);
        }
    }

    /// Withdraws what a switch that is gone had, and ends what waits for it.
    pub fn on_switch_gone(&mut self, fabric: &mut Fabric, switch: Switch, departed: Option<Effect>) {
        let dpid = switch.dpid();
        let lost = switch.tree().leaves().collect::<Vec<LeafId>>();
        self.withdraw_all(fabric, lost);
        self.end_ways(fabric, dpid);
        self.ways.forget_switch(dpid);
        self.report_departed(fabric, departed);
        self.end_waits_for(fabric, dpid);
        // These barriers will not be answered.
        for waiter in switch.tables.waiters() {
            match waiter {
                Waiter::RuleRemoved { route_id, stays } => fabric.finish_route_use(*route_id, *stays, false),
                Waiter::WayEnded { route_id, stays } => fabric.finish_way_use(*route_id, *stays, false),
                Waiter::FormerPath { route_id, serial } => fabric.release_former_path(*route_id, *serial, false),
                Waiter::Labels(_) | Waiter::RuleAdded(..) | Waiter::LookUps | Waiter::Barriers(_) => {}
            }
        }
        for dependent in switch.ingress.look_ups.subscribed() {
            fabric.switches.forget_look_up(dependent);
            fabric.ctx.store.forget(dependent);
        }
        fabric.close_all_labels(switch.paths.labels, dpid);
        self.drop_undecided(fabric, dpid);
    }

    /// Publishes what is known of a switch that is gone. Its leaves are gone too, but they are still remembered.
    fn report_departed(&mut self, fabric: &mut Fabric, departed: Option<Effect>) {
        if let Some(Effect::Departed { leaves, .. }) = &departed {
            self.leaves.unmark_changed(leaves.iter().map(|(id, _)| *id));
        }
        fabric.ctx.add_effects(departed);
    }
}
