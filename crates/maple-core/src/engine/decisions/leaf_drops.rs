//! Counts the drops by the controller. `count_reports.rs` counts those by switches; [`crate::engine::one_switch::drops`] keeps both.
//!
//! A leaf drops if its answer sends packets nowhere, whatever the topology is. A plan whose path leads nowhere for now
//! is not a drop by f.

use std::sync::Arc;

use super::Decisions;
use crate::engine::context::cause::{DropCause, Origin};
use crate::engine::context::received_packet::ReceivedPacket;
use crate::engine::fabric::Fabric;
use crate::ids::LeafId;

impl Decisions {
    /// Counts a packet that the controller drops because of its leaf. Does nothing if the leaf does not drop.
    pub(in crate::engine) fn drop_by_leaf(&mut self, fabric: &mut Fabric, id: LeafId, received: &ReceivedPacket) {
        let origin = self.leaves.get(&id).filter(|leaf| leaf.drops()).map(|leaf| Arc::clone(&leaf.origin));
        if let Some(origin) = origin {
            fabric.switches.drop_packet(&mut fabric.ctx, received, DropCause::Policy(origin));
        }
    }

    /// The origin of a leaf's answer.
    pub(in crate::engine) fn origin_of(&self, id: LeafId) -> Arc<Origin> {
        self.leaves.get(&id).map(|leaf| Arc::clone(&leaf.origin)).unwrap_or_default()
    }
}
