//! Refusals and evictions for lack of capacity: carries out what [`crate::engine::one_switch::room::capacity`] decides.

use std::collections::BTreeSet;

use maple_wire::Dpid;
use maple_wire::msg::stats::{ReplyBody, StatsReply};

use super::Decisions;
use super::leaf::LeafState;
use crate::engine::fabric::Fabric;
use crate::engine::one_switch::cookies::{Subject, subject_of};
use crate::engine::one_switch::tables::Waiter;
use crate::ids::LeafId;
use crate::labels::Refusal;

impl Decisions {
    /// Refuses the leaves and labels whose rules were to be added with the next update.
    pub fn refuse_additions(&mut self, fabric: &mut Fabric, dpid: Dpid) {
        let Some(switch) = fabric.switches.known_mut(dpid) else { return };
        let waiters = switch.tables.take_waiters();
        for waiter in waiters {
            match waiter {
                Waiter::RuleAdded(leaf, _) => self.evict_leaf(fabric, leaf),
                Waiter::Labels(serials) => {
                    let why = Refusal::Full(dpid);
                    serials.iter().for_each(|serial| fabric.refuse_label_for_capacity(dpid, *serial, why));
                    // Labels that are installed already, and labels that are being removed, still wait.
                    fabric.switches.wait(dpid, Waiter::Labels(serials));
                }
                left @ (Waiter::RuleRemoved { .. }
                | Waiter::WayEnded { .. }
                | Waiter::FormerPath { .. }
                | Waiter::LookUps
                | Waiter::Barriers(_)) => {
                    fabric.switches.wait(dpid, left);
                    continue;
                }
            }
            if let Some(switch) = fabric.switches.get_mut(&dpid) {
                switch.room.capacity.on_rules_refused();
            }
            fabric.ctx.stats.capacity_refusals += 1;
        }
        fabric.ask_for_statistics(dpid);
    }

    /// Evicts all leaves and labels, because required rules do not fit.
    pub fn evict_all(&mut self, fabric: &mut Fabric, dpid: Dpid) {
        for subject in Decisions::all_subjects_at(fabric, dpid) {
            self.evict(fabric, dpid, subject);
        }
    }

    /// Reads which rules are in use, for evictions.
    pub fn on_usage_read(&mut self, fabric: &mut Fabric, dpid: Dpid, reply: &StatsReply) {
        let epoch = fabric.ctx.options.epoch;
        let Some(switch) = fabric.switches.known_mut(dpid) else { return };
        if let ReplyBody::Flow(flows) = &reply.body {
            let of_rule = |(subject, packets)| Some((subject?, packets));
            let packets = flows.iter().map(|flow| (subject_of(epoch, flow.cookie), flow.packet_count));
            switch.room.capacity.on_counters(packets.filter_map(of_rule));
        }
        if !reply.more() {
            self.end_round(fabric, dpid);
        }
    }

    /// Evicts leaves and labels by the known use of their rules.
    pub fn end_round(&mut self, fabric: &mut Fabric, dpid: Dpid) {
        let Some(switch) = fabric.switches.known_mut(dpid) else { return };
        let round = switch.room.capacity.end_round(fabric.ctx.now());
        let tree = switch.tree();
        tree.begin_period();
        tree.leaves().filter(|leaf| round.used(&Subject::from(*leaf)) > 0).for_each(|leaf| tree.mark_used(leaf));
        let coldest = tree.least_recently_used(tree.len());
        let has_rules = |leaf: &LeafId| self.leaves.get(leaf).is_some_and(|leaf| leaf.state == LeafState::Active);
        let leaves = coldest.iter().copied().filter(has_rules).map(Subject::from);
        let with_rules = leaves.chain(switch.paths.labels.installed().map(Subject::Label)).collect();
        let traces = coldest.iter().copied().map(Subject::from).collect();
        round.choose(with_rules, traces).into_iter().for_each(|subject| self.evict(fabric, dpid, subject));
    }

    /// Evicts a leaf or label. The leaves that use a label stop first.
    fn evict(&mut self, fabric: &mut Fabric, dpid: Dpid, subject: Subject) {
        match subject {
            Subject::Label(serial) => {
                fabric.ctx.stats.labels_evicted += 1;
                fabric.revoke_label(dpid, serial, Refusal::Full(dpid));
            }
            // The eviction of a label has withdrawn it.
            Subject::Dependent(id) if !self.leaves.contains_key(&id.possible_leaf()) => {}
            Subject::Dependent(id) => {
                let leaf = id.possible_leaf();
                fabric.ctx.stats.leaves_evicted += 1;
                // If the waiting packets were decided again, they would make the same leaf again.
                self.send_held(fabric, leaf);
                self.withdraw(fabric, leaf);
            }
        }
    }

    /// Returns all leaves and labels with rules at a switch, or with rules to be added there.
    pub fn all_subjects_at(fabric: &Fabric, dpid: Dpid) -> BTreeSet<Subject> {
        let Some(switch) = fabric.switches.known(dpid) else { return BTreeSet::new() };
        let leaves = switch.tree().leaves().map(Subject::from);
        leaves.chain(switch.paths.labels.installed().map(Subject::Label)).collect()
    }
}
