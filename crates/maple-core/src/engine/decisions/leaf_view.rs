//! A view of the decisions of a shard about one packet: its leaf, and its way through the rules.

use std::sync::Arc;

use maple_wire::{Field, Version};

use super::Decisions;
use super::leaf::{Leaf, LeafState};
use super::rule_view::TableRule;
use crate::engine::fabric::Fabric;
use crate::engine::messages::received_packet::ReceivedPacket;
use crate::engine::one_switch::Switch;
use crate::explain::{EnteringPacket, LeafView, Passage, PassedRule, TableRules};
use crate::ids::LeafId;
use crate::look_ups::SOURCE_IS_HERE;
use crate::network::Location;
use crate::rule::Rule;
use crate::trace::{ReadMetadata, constraint_text};

impl Decisions {
    /// Returns the leaf that answers a packet, if there is one. `is_learned`: it teaches first that its source is where
    /// it comes in.
    pub fn leaf_view(&self, fabric: &Fabric, packet: &EnteringPacket, is_learned: bool) -> Option<LeafView> {
        let EnteringPacket { at, frame } = packet;
        let received = ReceivedPacket::new(Arc::clone(frame), frame.len(), *at);
        let here = if is_learned { SOURCE_IS_HERE } else { 0 };
        let id = fabric.switches.find_leaf_with(&received, ReadMetadata { value: here, mask: here })?;
        let leaf = self.leaves.get(&id)?;
        let specialised_to = leaf.extra_reads.iter().map(constraint_text).collect();
        let is_made_up = leaf.witness.is_made_up;
        let under_way = under_way(fabric, id, leaf).or_else(|| way_under_way(fabric, leaf, &received));
        Some(LeafView { id, under_way, specialised_to, is_made_up })
    }

    /// Returns the witness packet of a leaf: f ran on it.
    pub fn witness(&self, leaf: LeafId) -> Option<EnteringPacket> {
        let witness = &self.leaves.get(&leaf)?.witness;
        Some(EnteringPacket { at: witness.at, frame: Arc::clone(&witness.frame) })
    }

    /// Passes a frame that comes in by a port through the rules that the switch has. `None` if this shard does not
    /// serve the switch.
    pub fn passage(&self, fabric: &Fabric, at: Location, frame: &[u8]) -> Option<Passage> {
        let switch = fabric.switches.get(&at.switch)?;
        Some(Passage::through(&SwitchRules { decisions: self, fabric, switch }, at.port, frame))
    }
}

/// Returns the progress of a leaf's installation, in words. `None` if the switch has confirmed it.
fn under_way(fabric: &Fabric, id: LeafId, leaf: &Leaf) -> Option<String> {
    if !fabric.ctx.store.is_current(id) {
        return Some("something that it depends on has changed, and it is being decided again".into());
    }
    let text = match &leaf.state {
        LeafState::Waiting { by_controller: false, .. } => "the rules of its route are being installed",
        LeafState::Waiting { by_controller: true, .. } => {
            "the rules of its route are being installed; the controller forwards its packets meanwhile"
        }
        LeafState::Rerouting(_) => "its route is changing to another one",
        LeafState::NoCapacity { .. } => "the switch has no room for its rule, so the controller answers its packets",
        LeafState::ByController => "no rule can do that, so the controller answers its packets",
        LeafState::Active => {
            let switch = fabric.switches.get(&leaf.ingress())?;
            if switch.tables.has_confirmed_all() && !fabric.ctx.is_dirty(switch.dpid()) {
                return None;
            }
            "the switch has not confirmed its latest changes"
        }
    };
    Some(text.to_owned())
}

/// Returns why the controller forwards a packet of a decision for all places, in words. `None` if the switch does.
fn way_under_way(fabric: &Fabric, leaf: &Leaf, received: &ReceivedPacket) -> Option<String> {
    let look_ups = &fabric.switches.get(&leaf.ingress()).filter(|_| leaf.has_open_route())?.ingress.look_ups;
    let place = look_ups.open_place(&received.packet())?;
    (!look_ups.is_way_ready(place))
        .then(|| format!("the way to {place} is not ready, so the controller forwards its packets"))
}

/// The rules of a switch: ours, and the foreign ones that the last audit saw.
struct SwitchRules<'a> {
    decisions: &'a Decisions,
    fabric: &'a Fabric,
    switch: &'a Switch,
}

impl TableRules for SwitchRules<'_> {
    fn version(&self) -> Version {
        self.switch.version()
    }

    fn find(&self, table: u8, value: &dyn Fn(Field) -> Option<u128>) -> Option<PassedRule> {
        let ours = self.switch.tables.find(table, value);
        let foreign = self
            .switch
            .counters
            .audits
            .foreign()
            .iter()
            .filter(|(of, rule)| *of == table && rule.matching.holds(value));
        let foreign = foreign.map(|(_, rule)| rule).max_by_key(|rule| rule.priority);
        let is_higher = |foreign: &&Rule| ours.as_ref().is_none_or(|ours| foreign.priority >= ours.priority);
        if let Some(rule) = foreign.filter(is_higher) {
            let why = "a rule of others".to_owned();
            return Some(PassedRule { table, rule: rule.clone(), why, leaf: None, is_foreign: true });
        }
        let TableRule { rule, leaf, why, .. } = self.decisions.table_rule(self.fabric, self.switch, table, ours?);
        Some(PassedRule { table, rule, why, leaf, is_foreign: false })
    }
}
