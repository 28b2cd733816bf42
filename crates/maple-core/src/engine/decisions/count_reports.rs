//! Evaluates the counters that switches report for their rules: the drops of rules
//! ([`crate::engine::one_switch::counters::drops`]), and the packets that rules of access lists have decided
//! ([`crate::engine::context::access_hits`]).

use std::sync::Arc;

use maple_wire::msg::FlowRemoved;
use maple_wire::msg::stats::{FlowStats, ReplyBody, StatsReply};
use maple_wire::{Dpid, Field, Instruction, Match, PortNo, Version};

use super::Decisions;
use super::leaf::Leaf;
use crate::access::AccessList;
use crate::engine::context::access_hits::AccessHits;
use crate::engine::fabric::Fabric;
use crate::engine::messages::cause::{DropCause, Origin};
use crate::engine::messages::received_packet::ReceivedPacket;
use crate::engine::one_switch::Switch;
use crate::engine::one_switch::classifier::drops_by_priority;
use crate::engine::one_switch::cookies::{Subject, is_ours, own_cookie, subject_of};
use crate::engine::one_switch::counters::rule_growth::{CountedLeaf, RuleReport};
use crate::engine::one_switch::counters::senders::OpenDrop;
use crate::engine::one_switch::layout::CLASSIFIER;
use crate::engine::switches::traffic::UNCOUNTED;
use crate::ids::{LeafId, Time};
use crate::network::{Location, PortKind};
use crate::state::Snapshot;
use crate::update::entry_key;

/// A rule with its counter, from a reading or from its removal.
struct RuleCounter<'a> {
    table: u8,
    priority: u16,
    matching: &'a Match,
    /// `None` for a rule that was removed.
    instructions: Option<&'a [Instruction]>,
    /// The cookie, as the switch has it.
    reported: u64,
    packets: u64,
}

impl Decisions {
    /// Returns the access lists of the policy, each with the packets that its rules have decided here, in the order of
    /// [`AccessList::rules`].
    pub fn access_hits(&self) -> Vec<(Arc<AccessList>, Vec<u64>)> {
        self.access_hits.all().map(|(list, packets)| (Arc::clone(list), packets.to_vec())).collect()
    }

    /// Counts a packet of a leaf that the controller answers.
    pub fn count_access_hit(&mut self, id: LeafId) {
        if let Some(leaf) = self.leaves.get(&id) {
            self.access_hits.count_packet(&leaf.trace);
        }
    }

    /// Keeps what a withdrawn leaf counts for, since its rules still report packets.
    pub fn keep_counting_leaf(&mut self, fabric: &mut Fabric, id: LeafId, leaf: &Leaf) {
        if let Some(counted) = counted_leaf(&self.access_hits, leaf)
            && let Some(switch) = fabric.switches.get_mut(&leaf.ingress())
        {
            switch.counters.growth.withdraw(id, counted);
        }
    }

    /// Puts the rules of a reply into the tables of our layout, reads what they have counted, and gives them the
    /// cookies that they are to have.
    pub fn read_reply(&mut self, fabric: &mut Fabric, dpid: Dpid, reply: &mut StatsReply) {
        let ReplyBody::Flow(flows) = &mut reply.body else { return };
        if let Some(switch) = fabric.switches.get(&dpid) {
            switch.arrange(flows);
        }
        self.read_counts(fabric, dpid, flows);
        if let Some(switch) = fabric.switches.get(&dpid) {
            flows.iter_mut().for_each(|flow| flow.cookie = switch.current_cookie(flow.cookie));
        }
    }

    /// Reads the counters that a switch reports for its rules.
    fn read_counts(&mut self, fabric: &mut Fabric, dpid: Dpid, flows: &[FlowStats]) {
        let own = flows.iter().filter(|flow| is_ours(flow.cookie));
        for flow in own {
            self.read_count(
                fabric,
                dpid,
                &RuleCounter {
                    table: flow.table_id,
                    priority: flow.priority,
                    matching: &flow.matching,
                    instructions: Some(&flow.instructions),
                    reported: flow.cookie,
                    packets: flow.packet_count,
                },
            );
        }
    }

    /// Reads the counter of a rule that was removed, for the last time.
    pub fn read_removed_count(&mut self, fabric: &mut Fabric, dpid: Dpid, removed: &FlowRemoved) {
        let counted = RuleCounter {
            table: removed.table_id,
            priority: removed.priority,
            matching: &removed.matching,
            instructions: None,
            reported: removed.cookie,
            packets: removed.packet_count,
        };
        self.read_count(fabric, dpid, &counted);
    }

    fn read_count(&mut self, fabric: &mut Fabric, dpid: Dpid, counted: &RuleCounter<'_>) {
        let now = fabric.ctx.now();
        let epoch = fabric.ctx.options.epoch;
        let Some(switch) = fabric.switches.get_mut(&dpid).filter(|_| counted.packets != UNCOUNTED) else { return };
        switch.counters.growth.alter(switch.tables.take_altered());
        // OpenFlow 1.0 has one table, whatever number a switch gives it.
        let table = if switch.version() == Version::Of10 { CLASSIFIER } else { counted.table };
        let current = switch.current_cookie(counted.reported);
        let key = entry_key(counted.priority, counted.matching);
        let report = RuleReport {
            table,
            key: &key,
            packets: counted.packets,
            is_removed: counted.instructions.is_none(),
            from_earlier: current != counted.reported,
        };
        match subject_of(epoch, current) {
            Some(Subject::Dependent(id)) if table == switch.ingress_table() => {
                let id = id.possible_leaf();
                let leaf = self.leaves.get(&id).map(|leaf| counted_leaf(&self.access_hits, leaf));
                let Some(leaf) = leaf.unwrap_or_else(|| switch.counters.growth.withdrawn(id).cloned()) else { return };
                let grown = switch.counters.growth.grown(&report);
                if let Some((origin, witness)) = leaf.drop.as_ref().filter(|_| grown.as_it_is > 0) {
                    count_drop(switch, now, origin, witness, counted, grown.as_it_is);
                }
                self.access_hits.count(&leaf.asked, grown.packets);
            }
            None if table == CLASSIFIER && current == own_cookie(epoch) => {
                if let Some(entrance) =
                    counted.instructions.and_then(|_| switch.entrance(counted.priority, counted.matching))
                {
                    let grown = switch.counters.growth.grown(&report).packets;
                    return switch.counters.senders.let_in(entrance, grown);
                }
                let is_drop = counted.instructions.is_none_or(sends_nowhere);
                let state = fabric.ctx.store.snapshot();
                let cause = is_drop.then(|| classifier_cause(switch, &state, counted)).flatten();
                if let Some(cause) = cause {
                    let grown = switch.counters.growth.grown(&report).as_it_is;
                    if grown > 0 {
                        switch.counters.drops.count_classifier(now, cause, counted.matching, grown);
                    }
                }
            }
            _ => {}
        }
    }
}

/// Counts packets that a rule of a leaf has dropped. If it is for several hosts, who sent them is looked for when the
/// reading ends.
fn count_drop(
    switch: &mut Switch,
    now: Time,
    origin: &Arc<Origin>,
    witness: &ReceivedPacket,
    counted: &RuleCounter<'_>,
    packets: u64,
) {
    let (is_removed, matching) = (counted.instructions.is_none(), counted.matching.clone());
    let is_for_one = matching.get(Field::EthSrc).is_some_and(|source| source.is_exact());
    let look_for = OpenDrop { origin: Arc::clone(origin), matching, packets };
    if is_for_one || is_removed || !switch.has_pipeline() || switch.counters.senders.look_for(look_for).is_err() {
        switch.counters.drops.count_leaf(now, origin, witness, counted.matching, packets);
    }
}

/// Returns the drop and the rules of access lists for which the packets of a leaf's rules count; `None` if there are
/// neither.
fn counted_leaf(hits: &AccessHits, leaf: &Leaf) -> Option<CountedLeaf> {
    let drop = leaf.drops().then(|| (Arc::clone(&leaf.origin), leaf.witness.clone()));
    let asked = hits.rules_asked(&leaf.trace);
    (drop.is_some() || !asked.is_empty()).then_some(CountedLeaf { drop, asked })
}

fn sends_nowhere(instructions: &[Instruction]) -> bool {
    instructions.iter().all(|one| matches!(one, Instruction::ApplyActions(actions) if actions.is_empty()))
}

/// Returns the reason why a rule of the classifier drops; `None` if the classifier has no such rule.
fn classifier_cause(switch: &Switch, state: &Snapshot, counted: &RuleCounter<'_>) -> Option<DropCause> {
    if drops_by_priority(counted.priority, switch.has_pipeline())? {
        return Some(DropCause::TooManyHosts);
    }
    let mut all = counted.matching.constraints();
    let port = all.find(|constraint| constraint.field == Field::InPort)?.value;
    let at = Location::new(switch.dpid(), PortNo(port as u32));
    let is_shut = matches!(state.port(at).map(|port| port.kind), Some(PortKind::Shut { .. }));
    Some(if is_shut { DropCause::Shut } else { DropCause::Closed })
}
