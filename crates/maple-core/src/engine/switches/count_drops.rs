//! Drops at the switches, as the controller and people count them.

use std::ops::Range;

use maple_wire::Dpid;

use super::Switches;
use crate::engine::context::Context;
use crate::engine::messages::cause::DropCause;
use crate::engine::messages::received_packet::ReceivedPacket;
use crate::engine::one_switch::counters::drops::Dropped;

impl Switches {
    /// Returns the drops at a switch in the last `minutes` minutes, the current one included; empty if this shard does
    /// not serve the switch.
    pub fn drops(&self, ctx: &Context, dpid: Dpid, minutes: u64) -> Vec<Dropped> {
        self.get(&dpid).map(|switch| switch.counters.drops.of_last(ctx.now(), dpid, minutes)).unwrap_or_default()
    }

    /// Returns the drops at a switch in these minutes since time 0, as far as they are kept; empty if this shard does
    /// not serve the switch.
    pub fn drops_of_minutes(&self, dpid: Dpid, minutes: Range<u64>) -> Vec<Dropped> {
        self.get(&dpid).map(|switch| switch.counters.drops.of_minutes(dpid, minutes)).unwrap_or_default()
    }

    /// Counts a packet that the controller drops.
    pub fn drop_packet(&mut self, ctx: &mut Context, received: &ReceivedPacket, cause: DropCause) {
        let now = ctx.now();
        if let Some(switch) = self.get_mut(&received.at.switch) {
            switch.counters.drops.count_packet(now, &received.packet(), cause);
        }
    }
}
