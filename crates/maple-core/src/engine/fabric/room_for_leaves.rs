//! The capacity of the switches: whether a rule fits, and which rules are in use.

use maple_wire::Dpid;
use maple_wire::msg::Message;
use maple_wire::msg::stats::{FlowStatsRequest, RequestBody, StatsRequest};

use super::Fabric;
use crate::engine::context::timers::Timer;
use crate::engine::messages::event::Effect;
use crate::engine::one_switch::room::capacity::UsageQuery;

impl Fabric {
    /// Asks for evictions if a leaf of a switch may not install a rule. Returns whether it may.
    pub fn make_room_for_rule(&mut self, dpid: Dpid) -> bool {
        let Some(switch) = self.switches.known_mut(dpid) else { return false };
        if switch.room.capacity.has_capacity(self.ctx.now(), |table| switch.tables.count(table)) {
            return true;
        }
        switch.room.capacity.on_rules_refused();
        self.refuse_for_capacity(dpid);
        false
    }

    /// Asks for evictions if the tree of a switch may not have one more leaf. Returns whether it may.
    pub fn make_room_for_trace(&mut self, dpid: Dpid) -> bool {
        let Some(switch) = self.switches.known_mut(dpid) else { return false };
        if switch.room.capacity.has_capacity_for_trace(switch.tree().len()) {
            return true;
        }
        switch.room.capacity.on_trace_refused();
        self.refuse_for_capacity(dpid);
        false
    }

    /// Asks for evictions if hosts lacked capacity for their rules.
    pub fn evict_for_hosts(&mut self, dpid: Dpid) {
        let Some(switch) = self.switches.known_mut(dpid) else { return };
        if switch.ports.host_rules.take_is_short() {
            switch.room.capacity.on_rules_refused();
            self.refuse_for_capacity(dpid);
        }
    }

    /// Counts that something did not fit, and asks which rules are in use, so that evictions follow.
    fn refuse_for_capacity(&mut self, dpid: Dpid) {
        self.ctx.stats.capacity_refusals += 1;
        self.ask_for_statistics(dpid);
    }

    /// Asks which rules are in use, now or as soon as that is allowed again.
    pub fn ask_for_statistics(&mut self, dpid: Dpid) {
        let Some(switch) = self.switches.known_mut(dpid) else { return };
        match switch.room.capacity.next_query(self.ctx.now()) {
            UsageQuery::No => return,
            UsageQuery::At(time) => {
                self.ctx.wake_at(time, Timer::Capacity(dpid));
                return;
            }
            UsageQuery::Now => {}
        }
        let xid = switch.tables.take_xid();
        switch.room.capacity.on_asked(xid);
        self.ctx.stats.stats_requests += 1;
        let message = Message::StatsRequest(StatsRequest::new(RequestBody::Flow(FlowStatsRequest::all())));
        self.ctx.add_after_rules(Effect::Send { dpid, xid, message });
    }
}
