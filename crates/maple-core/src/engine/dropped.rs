//! Drops, counted where they happen: by the controller, and from what switches say about their rules.
//!
//! [`super::drops`] keeps the counts. A leaf drops if its answer sends packets nowhere, whatever the topology is. The
//! path of a plan that leads nowhere for now is no drop of f's.

use std::sync::Arc;

use maple_wire::msg::FlowRemoved;
use maple_wire::msg::stats::FlowStats;
use maple_wire::{Dpid, Field, Instruction, Match, PortNo, Version};

use super::Engine;
use super::classifier::drops_by_priority;
use super::cookies::{Subject, cookie, is_ours, subject_of};
use super::drops::{DropCause, DropLeaf, Dropped, Origin, RuleReport};
use super::leaf::Leaf;
use super::received_packet::ReceivedPacket;
use super::switch::{CLASSIFIER, Switch};
use super::traffic::ingress_table;
use crate::ids::LeafId;
use crate::network::{Location, PortKind};
use crate::state::Snapshot;
use crate::update::entry_key;

/// The value of a counter that the switch does not have.
const UNCOUNTED: u64 = u64::MAX;

/// A rule with its counter, from a reading or from its removal.
struct Counted<'a> {
    table: u8,
    priority: u16,
    matching: &'a Match,
    /// `None` for a rule that was removed.
    instructions: Option<&'a [Instruction]>,
    /// As the switch has it.
    reported: u64,
    packets: u64,
}

impl Engine {
    /// The drops at a switch in this minute and those before, in all `minutes` of them; empty if this shard does not
    /// serve it.
    pub fn drops(&self, dpid: Dpid, minutes: u64) -> Vec<Dropped> {
        self.switches.get(&dpid).map(|switch| switch.drops.of_last(self.now, dpid, minutes)).unwrap_or_default()
    }

    /// The controller drops a packet.
    pub(super) fn drop_packet(&mut self, received: &ReceivedPacket, cause: DropCause) {
        let now = self.now;
        if let Some(switch) = self.switches.get_mut(&received.at.switch) {
            switch.drops.count_packet(now, &received.packet(), cause);
        }
    }

    /// The controller drops a packet because of its leaf, if that drops.
    pub(super) fn drop_by_leaf(&mut self, id: LeafId, received: &ReceivedPacket) {
        let origin = self.leaves.get(&id).filter(|leaf| leaf.drops()).map(|leaf| Arc::clone(&leaf.origin));
        if let Some(origin) = origin {
            self.drop_packet(received, DropCause::Policy(origin));
        }
    }

    /// Where a leaf's answer comes from.
    pub(super) fn origin_of(&self, id: LeafId) -> Arc<Origin> {
        self.leaves.get(&id).map(|leaf| Arc::clone(&leaf.origin)).unwrap_or_default()
    }

    /// A leaf is withdrawn: what its rules still report is counted for it.
    pub(super) fn keep_dropping_leaf(&mut self, id: LeafId, leaf: &Leaf) {
        if leaf.drops()
            && let Some(switch) = self.switches.get_mut(&leaf.ingress())
        {
            switch.drops.withdraw(id, drop_leaf(leaf));
        }
    }

    /// A switch says what its rules have counted.
    pub(super) fn read_drops(&mut self, dpid: Dpid, flows: &[FlowStats]) {
        let own = flows.iter().filter(|flow| is_ours(flow.cookie));
        for flow in own {
            self.read_drop(
                dpid,
                &Counted {
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

    /// A switch has said so of all its rules.
    pub(super) fn end_drop_reading(&mut self, dpid: Dpid) {
        self.switches.get_mut(&dpid).into_iter().for_each(|switch| switch.drops.end_reading());
    }

    /// A rule was removed. This is the last that is known of its counter.
    pub(super) fn read_removed_drop(&mut self, dpid: Dpid, removed: &FlowRemoved) {
        let counted = Counted {
            table: removed.table_id,
            priority: removed.priority,
            matching: &removed.matching,
            instructions: None,
            reported: removed.cookie,
            packets: removed.packet_count,
        };
        self.read_drop(dpid, &counted);
    }

    fn read_drop(&mut self, dpid: Dpid, counted: &Counted<'_>) {
        let (now, epoch) = (self.now, self.options.epoch);
        let Some(switch) = self.switches.get_mut(&dpid).filter(|_| counted.packets != UNCOUNTED) else { return };
        switch.drops.begin_again(switch.tables.take_altered());
        // OpenFlow 1.0 has one table, whatever number a switch gives it.
        let table = if switch.version() == Version::Of10 { CLASSIFIER } else { counted.table };
        let current = switch.renamed.current(counted.reported);
        let key = entry_key(counted.priority, counted.matching);
        let report = RuleReport {
            table,
            key: &key,
            matching: counted.matching,
            packets: counted.packets,
            is_removed: counted.instructions.is_none(),
            from_earlier: current != counted.reported,
        };
        match subject_of(epoch, current) {
            Some(Subject::Leaf(id)) if table == ingress_table(switch) => {
                let leaf = self.leaves.get(&id).filter(|leaf| leaf.drops()).map(|leaf| drop_leaf(leaf));
                if let Some(leaf) = leaf.or_else(|| switch.drops.withdrawn(id).cloned()) {
                    switch.drops.read_leaf(now, &leaf, report);
                }
            }
            None if table == CLASSIFIER && current == cookie(epoch, None) => {
                let is_drop = counted.instructions.is_none_or(sends_nowhere);
                let state = self.store.snapshot();
                let cause = is_drop.then(|| classifier_cause(switch, &state, counted)).flatten();
                if let Some(cause) = cause {
                    switch.drops.read_classifier(now, cause, report);
                }
            }
            _ => {}
        }
    }
}

fn drop_leaf(leaf: &Leaf) -> DropLeaf {
    DropLeaf { origin: Arc::clone(&leaf.origin), witness: leaf.witness.clone() }
}

fn sends_nowhere(instructions: &[Instruction]) -> bool {
    instructions.iter().all(|one| matches!(one, Instruction::ApplyActions(actions) if actions.is_empty()))
}

/// Why a rule of the classifier drops.
fn classifier_cause(switch: &Switch, state: &Snapshot, counted: &Counted<'_>) -> Option<DropCause> {
    if drops_by_priority(counted.priority, switch.three_tables)? {
        return Some(DropCause::TooManyHosts);
    }
    let mut all = counted.matching.constraints();
    let port = all.find(|constraint| constraint.field == Field::InPort)?.value;
    let at = Location::new(switch.dpid, PortNo(port as u32));
    let is_shut = matches!(state.port(at).map(|port| port.kind), Some(PortKind::Shared { .. }));
    Some(if is_shut { DropCause::Shut } else { DropCause::Closed })
}
