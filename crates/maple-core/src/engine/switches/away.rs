//! Switches without a connection.

use maple_wire::Dpid;

use super::Switches;
use crate::engine::context::Context;
use crate::engine::one_switch::Switch;

/// The maximum number of waits for changes of an unreachable switch's rules. A route that changes its path adds one.
/// Chosen: a bound on memory that a network reaches only if paths change for hours.
const MAX_WAITING: usize = 1 << 18;

impl Switches {
    /// Returns the switches without a connection for which too much waits. They count as gone.
    pub fn away_for_too_long(&self) -> Vec<Dpid> {
        let is_full = |switch: &Switch| switch.is_unreachable() && switch.tables.count_waiters() > MAX_WAITING;
        self.values().filter(|switch| is_full(switch)).map(|switch| switch.dpid()).collect()
    }

    /// Reports whether this shard has the switch, and the switch has no connection.
    pub fn is_unreachable(&self, dpid: Dpid) -> bool {
        self.get(&dpid).is_some_and(|switch| switch.is_unreachable())
    }

    /// Reports whether some shard has the switch, and the switch has no connection.
    pub fn is_unreachable_anywhere(ctx: &Context, dpid: Dpid) -> bool {
        ctx.store.restoring(|all| all.unreachable.contains(&dpid))
    }
}
