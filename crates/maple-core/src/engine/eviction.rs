//! Refusals and evictions for lack of capacity: carries out what [`super::capacity`] decides.

use maple_wire::Dpid;
use maple_wire::msg::Message;
use maple_wire::msg::stats::{FlowStatsRequest, ReplyBody, RequestBody, StatsReply, StatsRequest};

use super::capacity::UsageQuery;
use super::cookies::{Subject, subject_of};
use super::leaf::LeafState;
use super::tables::Waiter;
use super::timers::Timer;
use super::{Effect, Engine};
use crate::ids::LeafId;
use crate::labels::Refusal;

impl Engine {
    /// Reports whether a leaf may try to install at a switch. If not, evictions will follow.
    pub(super) fn check_capacity(&mut self, dpid: Dpid) -> bool {
        let Some(switch) = self.switches.get_mut(&dpid) else { return false };
        if switch.capacity.has_capacity(self.ctx.now, |table| switch.tables.count(table)) {
            return true;
        }
        switch.capacity.on_rules_refused();
        self.ctx.stats.capacity_refusals += 1;
        self.ask_for_statistics(dpid);
        false
    }

    /// Reports whether a tree may have one more leaf. If not, evictions will follow.
    pub(super) fn check_capacity_for_trace(&mut self, dpid: Dpid) -> bool {
        let Some(switch) = self.switches.get_mut(&dpid) else { return false };
        if switch.capacity.has_capacity_for_trace(switch.table.tree().len()) {
            return true;
        }
        switch.capacity.on_trace_refused();
        self.ctx.stats.capacity_refusals += 1;
        self.ask_for_statistics(dpid);
        false
    }

    /// Asks for evictions if hosts lacked capacity for their rules.
    pub(super) fn evict_for_hosts(&mut self, dpid: Dpid) {
        let Some(switch) = self.switches.get_mut(&dpid) else { return };
        if switch.host_rules.take_is_short() {
            switch.capacity.on_rules_refused();
            self.ctx.stats.capacity_refusals += 1;
            self.ask_for_statistics(dpid);
        }
    }

    /// Refuses the leaves and labels whose rules were to be added with the next update.
    pub(super) fn refuse_waiting(&mut self, dpid: Dpid) {
        let Some(switch) = self.switches.get_mut(&dpid) else { return };
        let waiting = switch.tables.take_waiting();
        for waiter in waiting {
            match waiter {
                Waiter::RuleAdded(leaf, _) => self.evict_leaf(leaf),
                Waiter::Labels(serials) => {
                    let why = Refusal::Full(dpid);
                    serials.iter().for_each(|serial| self.refuse_label_for_capacity(dpid, *serial, why));
                    // Labels that are installed already, and labels that are being removed, still wait.
                    if let Some(switch) = self.switches.get_mut(&dpid) {
                        switch.tables.wait(Waiter::Labels(serials));
                    }
                }
                left @ (Waiter::RuleRemoved { .. } | Waiter::FormerPath { .. } | Waiter::Barriers(_)) => {
                    if let Some(switch) = self.switches.get_mut(&dpid) {
                        switch.tables.wait(left);
                    }
                    continue;
                }
            }
            if let Some(switch) = self.switches.get_mut(&dpid) {
                switch.capacity.on_rules_refused();
            }
            self.ctx.stats.capacity_refusals += 1;
        }
        self.ask_for_statistics(dpid);
    }

    /// Evicts all leaves and labels, because required rules do not fit.
    pub(super) fn evict_all(&mut self, dpid: Dpid) {
        for subject in self.all_subjects_at(dpid) {
            self.evict(dpid, subject);
        }
    }

    /// Lets a leaf's packets go through the controller until there is capacity. Withdraws a leaf that is being
    /// rerouted.
    pub(super) fn evict_leaf(&mut self, id: LeafId) {
        if self.leaves.get(&id).is_some_and(|leaf| leaf.is_rerouting()) {
            return self.withdraw(id);
        }
        let from = self.ctx.now + self.ctx.options.eviction_period;
        self.uninstall(id, LeafState::NoCapacity { from });
    }

    /// Asks which rules are in use, now or as soon as that is allowed again.
    pub(super) fn ask_for_statistics(&mut self, dpid: Dpid) {
        let Some(switch) = self.switches.get_mut(&dpid) else { return };
        match switch.capacity.next_query(self.ctx.now) {
            UsageQuery::No => return,
            UsageQuery::At(time) => {
                self.ctx.timers.insert((time, Timer::Capacity(dpid)));
                return;
            }
            UsageQuery::Now => {}
        }
        let xid = switch.tables.take_xid();
        switch.capacity.on_asked(xid);
        self.ctx.stats.stats_requests += 1;
        let message = Message::StatsRequest(StatsRequest::new(RequestBody::Flow(FlowStatsRequest::all())));
        self.ctx.after.push(Effect::Send { dpid, xid, message });
    }

    /// Handles statistics, or a part of them.
    pub(super) fn flow_stats(&mut self, dpid: Dpid, xid: u32, mut reply: StatsReply) {
        if let (Some(switch), ReplyBody::Flow(flows)) = (self.switches.get(&dpid), &mut reply.body) {
            switch.arrange(flows);
        }
        if let ReplyBody::Flow(flows) = &reply.body {
            self.read_counts(dpid, flows);
        }
        if let (Some(switch), ReplyBody::Flow(flows)) = (self.switches.get(&dpid), &mut reply.body) {
            flows.iter_mut().for_each(|flow| flow.cookie = switch.renamed.current(flow.cookie));
        }
        if self.is_audit(dpid, xid) {
            return self.audit_answered(dpid, &mut reply);
        }
        let reply = &reply;
        if self.is_meter_audit(dpid, xid) {
            return self.meters_read(dpid, reply);
        }
        if self.is_rule_count(dpid, xid) {
            return self.rule_count_answered(dpid, xid, reply);
        }
        if self.is_poll(dpid, xid) {
            return self.poll_answered(dpid, reply);
        }
        let epoch = self.ctx.options.epoch;
        let Some(switch) = self.switches.get_mut(&dpid).filter(|switch| switch.capacity.is_answer(xid)) else {
            return self.with_hosts(|hosts, now, actions| hosts.on_stats(now, dpid, xid, reply, actions));
        };
        if let ReplyBody::Flow(flows) = &reply.body {
            let of_rule = |(subject, packets)| Some((subject?, packets));
            let packets = flows.iter().map(|flow| (subject_of(epoch, flow.cookie), flow.packet_count));
            switch.capacity.on_counters(packets.filter_map(of_rule));
        }
        if !reply.more() {
            self.end_round(dpid);
        }
    }

    /// Handles a switch's refusal of statistics. If evictions waited for them, the least recently used leaves are
    /// evicted.
    pub(super) fn statistics_refused(&mut self, dpid: Dpid, xid: u32) {
        if self.is_meter_audit(dpid, xid) {
            self.meters_not_read(dpid, true);
        } else if self.is_audit(dpid, xid) {
            self.audit_failed(dpid, true);
        } else if self.is_rule_count(dpid, xid) {
            self.end_rule_count(dpid, xid);
        } else if self.is_poll(dpid, xid) {
            self.poll_refused(dpid);
        } else if self.switches.get(&dpid).is_some_and(|switch| switch.capacity.is_answer(xid)) {
            self.end_round(dpid);
        } else {
            self.with_hosts(|hosts, now, actions| hosts.on_stats_refused(now, dpid, xid, actions));
        }
    }

    /// Evicts leaves and labels by the known use of their rules.
    fn end_round(&mut self, dpid: Dpid) {
        let Some(switch) = self.switches.get_mut(&dpid) else { return };
        let round = switch.capacity.end_round(self.ctx.now);
        let tree = switch.table.tree();
        tree.begin_period();
        tree.leaves().filter(|leaf| round.used(&Subject::Leaf(*leaf)) > 0).for_each(|leaf| tree.mark_used(leaf));
        let coldest = tree.least_recently_used(tree.len());
        let has_rules = |leaf: &LeafId| self.leaves.get(leaf).is_some_and(|leaf| leaf.state == LeafState::Active);
        let leaves = coldest.iter().copied().filter(has_rules).map(Subject::Leaf);
        let with_rules = leaves.chain(switch.labels.installed().map(Subject::Label)).collect();
        let traces = coldest.iter().copied().map(Subject::Leaf).collect();
        round.choose(with_rules, traces).into_iter().for_each(|subject| self.evict(dpid, subject));
    }

    /// Evicts a leaf or label. The leaves that use a label stop first.
    fn evict(&mut self, dpid: Dpid, subject: Subject) {
        match subject {
            Subject::Label(serial) => {
                self.ctx.stats.labels_evicted += 1;
                self.revoke_label(dpid, serial, Refusal::Full(dpid));
            }
            Subject::Leaf(leaf) => {
                self.ctx.stats.leaves_evicted += 1;
                // If the waiting packets were decided again, they would make the same leaf again.
                self.send_held(leaf);
                self.withdraw(leaf);
            }
        }
    }
}
