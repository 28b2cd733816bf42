//! Counts the drops by the controller. `count_reports.rs` counts those by switches; [`super::drops`] keeps both.
//!
//! A leaf drops if its answer sends packets nowhere, whatever the topology is. A plan whose path leads nowhere for now
//! is not a drop by f.

use std::sync::Arc;

use maple_wire::Dpid;

use super::context::Context;
use super::decisions::Decisions;
use super::drops::{DropCause, Dropped, Origin};
use super::fabric::Fabric;
use super::received_packet::ReceivedPacket;
use super::switches::Switches;
use crate::ids::LeafId;

impl Switches {
    /// The drops at a switch in the last `minutes` minutes, the current one included; empty if this shard does not
    /// serve the switch.
    pub(super) fn drops(&self, ctx: &Context, dpid: Dpid, minutes: u64) -> Vec<Dropped> {
        self.get(&dpid).map(|switch| switch.counters.drops.of_last(ctx.now, dpid, minutes)).unwrap_or_default()
    }

    /// Counts a packet that the controller drops.
    pub(super) fn drop_packet(&mut self, ctx: &mut Context, received: &ReceivedPacket, cause: DropCause) {
        let now = ctx.now;
        if let Some(switch) = self.get_mut(&received.at.switch) {
            switch.counters.drops.count_packet(now, &received.packet(), cause);
        }
    }
}

impl Decisions {
    /// Counts a packet that the controller drops because of its leaf. Does nothing if the leaf does not drop.
    pub(super) fn drop_by_leaf(&mut self, fabric: &mut Fabric, id: LeafId, received: &ReceivedPacket) {
        let origin = self.leaves.get(&id).filter(|leaf| leaf.drops()).map(|leaf| Arc::clone(&leaf.origin));
        if let Some(origin) = origin {
            fabric.switches.drop_packet(&mut fabric.ctx, received, DropCause::Policy(origin));
        }
    }

    /// The origin of a leaf's answer.
    pub(super) fn origin_of(&self, id: LeafId) -> Arc<Origin> {
        self.leaves.get(&id).map(|leaf| Arc::clone(&leaf.origin)).unwrap_or_default()
    }
}
