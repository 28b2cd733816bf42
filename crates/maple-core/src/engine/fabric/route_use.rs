//! The use of routes: rules that lead along them, holders of their labels, their rules in the table of routes.

use std::collections::BTreeSet;

use super::Fabric;
use super::routes::{Routes, SharedRoute};
use crate::engine::context::timers::Timer;
use crate::engine::one_switch::tables::Waiter;
use crate::engine::tools::expected::Expected;
use crate::ids::{LeafId, RouteId, Time};
use crate::labels::LabelEffect;

impl Fabric {
    /// Notes that the ingress switch gets a rule for a leaf of a route. The rules of the route's other leaves may
    /// change, to lead to the table of routes.
    pub fn begin_route_use(&mut self, route_id: RouteId, leaf: LeafId) {
        let Some(ingress) = self.routes.get(route_id).map(|route| route.ingress()).expected() else { return };
        let others = self.routes.begin_use(route_id, leaf);
        others.into_iter().for_each(|other| self.change_action(ingress, other));
    }

    /// Ends the use of a route as the way of keys' rules, which change with the next update of the ingress switch.
    /// `stays`: it is the way again when it is ready.
    pub fn end_way(&mut self, route_id: RouteId, stays: bool) {
        let Some(ingress) = self.routes.get(route_id).map(|route| route.ingress()).expected() else { return };
        if !self.routes.end_way(route_id, stays) {
            if !stays {
                self.with_routes(|routes, _, out| routes.leave(route_id, true, out));
            }
            return;
        }
        match self.switches.get_mut(&ingress) {
            Some(switch) => {
                switch.tables.wait(Waiter::WayEnded { route_id, stays });
                self.mark_dirty(ingress);
            }
            None => self.finish_way_use(route_id, stays, false),
        }
    }

    /// Changes the routes, and then carries out what they ask for.
    pub fn with_routes<T>(&mut self, work: impl FnOnce(&mut Routes, Time, &mut Vec<LabelEffect>) -> T) -> T {
        let mut effects = Vec::new();
        let result = work(&mut self.routes, self.ctx.now(), &mut effects);
        self.apply_label_effects(effects, Timer::Routes);
        result
    }

    /// Ends a use of a route: the ingress switch has no rule that leads the leaf's packets along it. `confirmed`: the
    /// switch has confirmed that.
    pub fn finish_route_use(&mut self, route_id: RouteId, stays: bool, confirmed: bool) {
        self.with_routes(|routes, now, out| {
            routes.end_use(route_id, now, confirmed, out);
            if !stays {
                routes.leave(route_id, confirmed, out);
            }
        });
    }

    /// Ends a use of a route as the way of keys' rules, as [`Fabric::finish_route_use`] ends that of a leaf.
    pub fn finish_way_use(&mut self, route_id: RouteId, stays: bool, confirmed: bool) {
        self.routes.end_key_use(route_id);
        self.finish_route_use(route_id, stays, confirmed);
    }

    /// Removes a leaf from a route that it does not use.
    pub fn leave_route(&mut self, leaf: LeafId, route_id: RouteId) {
        self.routes.stop_waiting(route_id, leaf);
        self.routes.detach(route_id, leaf);
        self.with_routes(|routes, _, out| routes.leave(route_id, true, out));
    }

    /// Asks again for labels that were refused.
    pub fn retry_routes(&mut self) {
        self.with_routes(|routes, now, out| routes.retry(now, out));
    }

    /// Releases a former path, along which no rule leads. `confirmed`: the switch has confirmed that.
    pub fn release_former_path(&mut self, route_id: RouteId, serial: u64, confirmed: bool) {
        self.with_routes(|routes, _, out| routes.release_former(route_id, serial, confirmed, out));
    }

    /// Returns the leaves that use a route or wait for it.
    pub fn leaves_of_route(&self, id: RouteId) -> BTreeSet<LeafId> {
        self.routes.get(id).into_iter().flat_map(SharedRoute::leaves).collect()
    }
}
