//! Switches without a connection: what they do in the network is presumed to go on.
//!
//! # What
//!
//! Control and data are separate. When the connection to a switch ends, its datapath usually goes on. So the switch
//! becomes *unreachable*, not gone. Its links, hosts, labels and rules stand, and rules elsewhere that lead through it
//! stay. Only evidence about the wire ends a link: a port that a reachable neighbour reports down, or what discovery
//! and the configuration say. The shard decides when the switch is gone after all
//! ([`Event::SwitchDown`](crate::engine::Event::SwitchDown)).
//!
//! | what | meanwhile |
//! | --- | --- |
//! | changes of its rules | recorded, and sent when it is back; what waits for them ([`Waiter`](crate::engine::one_switch::tables::Waiter)) waits on |
//! | labels that its rules are confirmed for | used, also by new routes |
//! | other labels | refused ([`Refusal::Unreachable`]): packets go through the controller, and holders ask again |
//! | packets that the controller would send there | dropped, counted, and reported as [`DropCause::Unreachable`](crate::engine::DropCause::Unreachable) |
//! | its hosts | kept, and not aged; a host that is claimed elsewhere and can't be asked here has moved |
//!
//! When it is back, its rules are read and compared, as after a refusal, and only the difference is sent.
//!
//! # Why it is correct
//!
//! The switch has the rules that it had, so its packets are treated as f decided before the change. No label changes
//! its meaning: a label that one of its rules may lead to has a holder until the switch confirms that the rule is gone.
//! So nothing that leads to such a label is reused.
//!
//! # Bounds
//!
//! At most `MAX_WAITING` (`switches/mod.rs`) waits are kept for a switch. If more come, the switch counts as gone.

use maple_wire::{Dpid, Message};

use super::Fabric;
use crate::engine::messages::event::Effect;
use crate::engine::one_switch::Stale;
use crate::labels::Refusal;
use crate::report::Report;

impl Fabric {
    /// Suspends a switch whose connection has ended, and refuses the labels that it has not confirmed.
    pub fn suspend_switch(&mut self, dpid: Dpid) {
        let Some(switch) = self.switches.known_mut(dpid) else { return };
        switch.lose_connection();
        self.ctx.stats.new_port_drops += std::mem::take(&mut switch.ports.new_port_packets).len() as u64;
        let questions = switch.counters.rule_counts.take_open();
        let unready: Vec<u64> = switch.paths.labels.unready().collect();
        questions.into_iter().for_each(|token| self.ctx.add_after_rules(Effect::RuleCounted { token, count: None }));
        if switch.has_pipeline() {
            // If it refuses a table again, it needs another connection again: this one may have ended before.
            self.switches.forget_fewer_tables(dpid);
        }
        self.ctx.store.change_restoring(|all| all.unreachable.insert(dpid));
        for serial in unready {
            self.refuse_label_for_capacity(dpid, serial, Refusal::Unreachable(dpid));
        }
    }

    /// Resumes a switch whose connection is back. Returns whether it had none. The report of its rules follows.
    pub fn resume_switch(&mut self, dpid: Dpid) -> bool {
        let Some(switch) = self.switches.get_mut(&dpid).filter(|switch| switch.is_unreachable()) else {
            return false;
        };
        switch.regain_connection();
        self.expire_labels(dpid);
        self.ctx.store.change_restoring(|all| all.unreachable.remove(&dpid));
        true
    }

    /// Reports that a switch has been suspended, once all parts know.
    pub fn on_switch_suspended(&mut self, dpid: Dpid) {
        self.mark_dirty(dpid);
        self.ctx.report(Report::SwitchUnreachable(dpid));
    }

    /// Asks a switch that has been resumed for what it is to do, and reports it.
    pub fn on_switch_resumed(&mut self, dpid: Dpid) {
        self.mark_stale(dpid, Stale::ALL);
        self.switches.plan_first_audit(&mut self.ctx, dpid);
        self.switches.update_demand(&mut self.ctx);
        self.ctx.report(Report::SwitchReachable(dpid));
    }

    /// Removes, at the end of a batch, what would be sent to switches without a connection.
    pub fn withhold_from_unreachable(&mut self) {
        if !self.switches.values().any(|switch| switch.is_unreachable()) {
            return;
        }
        let (switches, mut dropped) = (&self.switches, 0);
        self.ctx.retain_effects(|effect: &Effect| {
            let (Effect::Send { dpid, .. } | Effect::Poll { dpid, .. } | Effect::ReadRules { dpid }) = effect else {
                return true;
            };
            let is_away = switches.is_unreachable(*dpid);
            if let Effect::Send { message: Message::PacketOut(_), .. } = effect {
                dropped += u64::from(is_away);
            }
            !is_away
        });
        self.ctx.stats.unreachable_drops += dropped;
    }
}
