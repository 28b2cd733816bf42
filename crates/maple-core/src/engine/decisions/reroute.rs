//! Rerouting: a leaf gets another route while its packets flow, without a miss.
//!
//! The leaf joins the new route and keeps its rule until that route is ready. Then its rule at the ingress is modified.
//! When the switch has confirmed that, the leaf leaves the old route. A packet follows the labels of the route by which
//! it entered to their end. So it is delivered once, by the old answer or the new one, whatever the two routes have in
//! common. Packets that come to the controller meanwhile wait for the new route. If the plan of the old route changes,
//! the leaf is withdrawn.

use super::Decisions;
use super::await_barriers::PathChange;
use super::leaf::{LeafState, Reroute};
use crate::engine::context::timers::Timer;
use crate::engine::fabric::Fabric;
use crate::engine::tools::expected::Expected;
use crate::ids::LeafId;
use crate::route::Goal;

impl Decisions {
    /// Begins to reroute an active leaf.
    pub fn begin_reroute(&mut self, fabric: &mut Fabric, id: LeafId, to: Goal) {
        let Some(route_id) = self.join_goal(fabric, id, &to) else { return self.withdraw(fabric, id) };
        let Some(leaf) = self.leaves.get_mut(&id).expected() else { return };
        let until = fabric.ctx.now() + fabric.ctx.options.reroute_timeout;
        leaf.state = LeafState::Rerouting(Box::new(Reroute { to, route_id, since: fabric.ctx.now(), until }));
        let change = PathChange { ingress: leaf.ingress(), dependent: id.into(), until };
        self.begin_path_change(fabric, change);
        match fabric.routes.get(route_id).map(|route| (route.is_ready(), route.is_refused())) {
            Some((true, _)) => self.end_reroute(fabric, id),
            Some((false, false)) => {
                fabric.routes.wait(route_id, id);
                fabric.ctx.wake_at(until, Timer::Leaf(id));
            }
            Some((_, true)) | None => self.withdraw(fabric, id),
        }
    }

    /// Reports whether a leaf can change its route to this goal while its packets flow.
    pub fn can_reroute(&self, fabric: &Fabric, id: LeafId, to: &Goal) -> bool {
        let Some(leaf) = self.leaves.get(&id).expected() else { return false };
        if leaf.has_open_route() || to.as_open().is_some() {
            return false;
        }
        let is_closed = fabric.switches.get(&leaf.ingress()).is_none_or(|switch| switch.room.is_closed());
        leaf.state == LeafState::Active && !is_closed
    }
}
