//! Counts the drops by the controller. `count_reports.rs` counts those by switches; [`super::drops`] keeps both.
//!
//! A leaf drops if its answer sends packets nowhere, whatever the topology is. A plan whose path leads nowhere for now
//! is not a drop by f.

use std::sync::Arc;

use maple_wire::Dpid;

use super::Engine;
use super::drops::{DropCause, Dropped, Origin};
use super::received_packet::ReceivedPacket;
use crate::ids::LeafId;

impl Engine {
    /// The drops at a switch in the last `minutes` minutes, the current one included; empty if this shard does not
    /// serve the switch.
    pub fn drops(&self, dpid: Dpid, minutes: u64) -> Vec<Dropped> {
        self.switches.get(&dpid).map(|switch| switch.drops.of_last(self.ctx.now, dpid, minutes)).unwrap_or_default()
    }

    /// Counts a packet that the controller drops.
    pub(super) fn drop_packet(&mut self, received: &ReceivedPacket, cause: DropCause) {
        let now = self.ctx.now;
        if let Some(switch) = self.switches.get_mut(&received.at.switch) {
            switch.drops.count_packet(now, &received.packet(), cause);
        }
    }

    /// Counts a packet that the controller drops because of its leaf. Does nothing if the leaf does not drop.
    pub(super) fn drop_by_leaf(&mut self, id: LeafId, received: &ReceivedPacket) {
        let origin = self.leaves.get(&id).filter(|leaf| leaf.drops()).map(|leaf| Arc::clone(&leaf.origin));
        if let Some(origin) = origin {
            self.drop_packet(received, DropCause::Policy(origin));
        }
    }

    /// The origin of a leaf's answer.
    pub(super) fn origin_of(&self, id: LeafId) -> Arc<Origin> {
        self.leaves.get(&id).map(|leaf| Arc::clone(&leaf.origin)).unwrap_or_default()
    }
}
