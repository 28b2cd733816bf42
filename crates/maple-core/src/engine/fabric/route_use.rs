//! The use of routes: rules that lead along them, holders of their labels, their rules in the table of routes.

use std::collections::BTreeSet;

use super::Fabric;
use super::routes::SharedRoute;
use crate::engine::context::timers::Timer;
use crate::engine::one_switch::Stale;
use crate::engine::one_switch::cookies::dependent_cookie;
use crate::ids::{LeafId, RouteId};

impl Fabric {
    /// Ends a use of a route: the ingress switch has no rule that leads the leaf's packets along it. `confirmed`: the
    /// switch has confirmed that.
    pub fn finish_route_use(&mut self, route_id: RouteId, stays: bool, confirmed: bool) {
        let mut effects = Vec::new();
        self.routes.end_use(route_id, self.ctx.now, confirmed, &mut effects);
        if !stays {
            self.routes.leave(route_id, confirmed, &mut effects);
        }
        self.apply_label_effects(effects, Timer::Routes);
    }

    /// Removes a leaf from a route that it does not use.
    pub fn leave_route(&mut self, leaf: LeafId, route_id: RouteId) {
        let mut effects = Vec::new();
        self.routes.stop_waiting(route_id, leaf);
        self.routes.detach(route_id, leaf);
        self.routes.leave(route_id, true, &mut effects);
        self.apply_label_effects(effects, Timer::Routes);
    }

    /// Asks again for labels that were refused.
    pub fn retry_routes(&mut self) {
        let mut effects = Vec::new();
        self.routes.retry(self.ctx.now, &mut effects);
        self.apply_label_effects(effects, Timer::Routes);
    }

    /// Releases a former path, along which no rule leads. `confirmed`: the switch has confirmed that.
    pub fn release_former_path(&mut self, route_id: RouteId, serial: u64, confirmed: bool) {
        let mut effects = Vec::new();
        self.routes.release_former(route_id, serial, confirmed, &mut effects);
        self.apply_label_effects(effects, Timer::Routes);
    }

    /// Updates the rules in the tables of routes.
    pub fn sync_route_rules(&mut self) {
        for (ingress, id) in self.routes.take_dirty() {
            // A route ends after its switch.
            let Some(switch) = self.switches.get_mut(&ingress) else { continue };
            let epoch = self.ctx.options.epoch;
            let rule = self.routes.get(id).and_then(|route| route.rule(|dependent| dependent_cookie(epoch, dependent)));
            switch.paths.route_rules.set(id, rule);
            self.switches.mark_dirty(&mut self.ctx, ingress, Stale::default());
        }
        for dependent in self.routes.take_ended() {
            self.ctx.store.forget(dependent);
        }
    }

    /// The leaves that use these routes or wait for them.
    pub fn leaves_of_routes(&self, routes: &BTreeSet<RouteId>) -> BTreeSet<LeafId> {
        routes.iter().filter_map(|id| self.routes.get(*id)).flat_map(SharedRoute::leaves).collect()
    }
}
