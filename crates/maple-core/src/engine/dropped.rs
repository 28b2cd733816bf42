//! Drops by the controller. Those by switches are counted in `count_reports.rs`; [`super::drops`] keeps both.
//!
//! A leaf drops if its answer sends packets nowhere, whatever the topology is. The
//! path of a plan that leads nowhere for now is no drop of f's.

use std::sync::Arc;

use maple_wire::Dpid;

use super::Engine;
use super::drops::{DropCause, Dropped, Origin};
use super::received_packet::ReceivedPacket;
use crate::ids::LeafId;

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
}
