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
use crate::engine::context::expected::Expected;
use crate::engine::context::timers::Timer;
use crate::engine::fabric::Fabric;
use crate::engine::one_switch::tables::Waiter;
use crate::ids::LeafId;
use crate::route::Goal;

impl Decisions {
    /// Begins to reroute an active leaf.
    pub(in crate::engine) fn begin_reroute(&mut self, fabric: &mut Fabric, id: LeafId, to: Goal) {
        let Some(route_id) = self.join_goal(fabric, id, &to) else { return self.withdraw(fabric, id) };
        let Some(leaf) = self.leaves.get_mut(&id).expected() else { return };
        let until = fabric.ctx.now + fabric.ctx.options.reroute_timeout;
        leaf.state = LeafState::Rerouting(Box::new(Reroute { to, route_id, since: fabric.ctx.now, until }));
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

    /// Modifies the leaf's rule, because the new route is ready.
    pub(in crate::engine) fn end_reroute(&mut self, fabric: &mut Fabric, id: LeafId) {
        let Some(leaf) = self.leaves.get_mut(&id).expected() else { return };
        let LeafState::Rerouting(reroute) = std::mem::replace(&mut leaf.state, LeafState::Active) else { return };
        let Reroute { to, route_id, since, .. } = *reroute;
        leaf.answer = to;
        let (ingress, old) = (leaf.ingress(), leaf.route_id.replace(route_id));
        fabric.routes.begin_use(route_id);
        fabric.routes.stop_waiting(route_id, id);
        fabric.ctx.stats.leaves_rerouted += 1;
        old.into_iter().filter(|old| *old != route_id).for_each(|old| fabric.routes.detach(old, id));
        if let (Some(route_id), Some(switch)) = (old, fabric.switches.get_mut(&ingress)) {
            switch.tables.wait(Waiter::RuleRemoved { route_id, stays: false });
        }
        Decisions::request_rule(fabric, ingress, id, since);
        self.forward_held(fabric, id);
    }
}
