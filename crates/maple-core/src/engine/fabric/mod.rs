//! The fabric: this shard's switches, the routes and labels that lead packets between them, and the context.

pub(super) mod give_labels;
pub(super) mod label_effects;
pub(super) mod room_for_leaves;
pub(super) mod route_meters;
pub(super) mod route_use;
pub(super) mod routes;
pub(super) mod unreachable;

use maple_wire::Dpid;

use crate::engine::context::Context;
use crate::engine::one_switch::Stale;
use crate::engine::one_switch::counters::statistics::StatisticsQuestion;
use crate::engine::one_switch::ports::host_rules::HostRules;
use crate::engine::switches::Switches;
use crate::ids::LeafId;
use crate::labels::Acquire;
use routes::Routes;

/// The ground on which the decisions and the topology of a shard work. The labels that routes use
/// at a switch are in its [`Paths`](crate::engine::one_switch::paths::Paths).
pub(super) struct Fabric {
    pub ctx: Context,
    pub switches: Switches,
    pub routes: Routes,
    /// Requests for labels that came before all rules of an earlier run were known.
    early_requests: Vec<Acquire>,
}

impl Fabric {
    /// Creates the fabric of a shard without switches.
    pub fn new(ctx: Context) -> Fabric {
        Fabric { routes: Routes::new(ctx.shard()), ctx, switches: Switches::default(), early_requests: Vec::new() }
    }

    /// Returns a copy for a rehearsal. What is held back for switches without a connection goes into their rules at
    /// once, since it is not among what a candidate changes.
    pub fn copy(&self) -> Fabric {
        let mut ctx = self.ctx.copy();
        let held_back = self.switches.values().filter(|switch| switch.is_unreachable());
        held_back.for_each(|switch| ctx.mark_dirty(switch.dpid()));
        let (routes, early_requests) = (self.routes.clone(), self.early_requests.clone());
        Fabric { switches: self.switches.copy(&ctx.options), routes, early_requests, ctx }
    }

    /// Marks a switch whose tables have to be updated.
    pub fn mark_dirty(&mut self, dpid: Dpid) {
        self.mark_stale(dpid, Stale::default());
    }

    /// Marks a switch whose tables have to be updated, after these rules are computed again.
    pub fn mark_stale(&mut self, dpid: Dpid, stale: Stale) {
        if let Some(switch) = self.switches.get_mut(&dpid) {
            switch.mark_stale(stale);
            self.ctx.mark_dirty(dpid);
        }
    }

    /// Changes the rules for hosts of a switch, whose tables are updated afterwards.
    pub fn change_host_rules(&mut self, dpid: Dpid, change: impl FnOnce(&mut HostRules)) {
        if let Some(switch) = self.switches.get_mut(&dpid) {
            change(&mut switch.ports.host_rules);
            self.ctx.mark_dirty(dpid);
        }
    }

    /// Lets the rule of a leaf be computed again with the next update of its switch.
    pub fn change_action(&mut self, ingress: Dpid, leaf: LeafId) {
        if let Some(switch) = self.switches.get_mut(&ingress) {
            switch.ingress.changed_actions.insert(leaf);
        }
        self.mark_dirty(ingress);
    }

    /// Returns the question that was asked with this transaction id. The hosts know themselves which questions are
    /// theirs.
    pub fn question(&self, dpid: Dpid, xid: u32) -> StatisticsQuestion {
        self.switches.get(&dpid).map_or(StatisticsQuestion::Hosts, |switch| switch.question(xid))
    }
}
