//! How the ways to the places that an open look-up finds begin.

use maple_wire::Dpid;

use super::Decisions;
use crate::engine::fabric::Fabric;
use crate::engine::fabric::routes::RouteKey;
use crate::ids::RouteId;
use crate::labels::Carriage;
use crate::network::Location;
use crate::route::OpenGoal;

impl Decisions {
    /// Lets the ways of a switch follow the places that the keys of its open look-up have.
    pub fn follow_ways(&mut self, fabric: &mut Fabric, dpid: Dpid) {
        let Some(switch) = fabric.switches.known_mut(dpid).filter(|switch| switch.layout().has_action_sets()) else {
            return;
        };
        let look_ups = &mut switch.ingress.look_ups;
        look_ups.open_ways();
        let Some((number, ..)) = look_ups.open() else { return self.end_ways(fabric, dpid) };
        let mut changed = look_ups.take_changed_places(number);
        changed.extend(self.ways.take_lost(dpid).into_iter().map(|place| (place, true)));
        for (place, has_key) in changed {
            match self.ways.to((dpid, place)) {
                None if has_key => drop(self.way_to(fabric, dpid, place)),
                Some(way) if !has_key => drop(self.end_way(fabric, way)),
                _ => {}
            }
        }
    }

    /// Returns the way to a place that the open look-up of a switch finds, which follows its plan in the newest state. `None`
    /// if f's path can't be followed now.
    pub fn way_to(&mut self, fabric: &mut Fabric, dpid: Dpid, place: Location) -> Option<RouteId> {
        if let Some(way) = self.ways.to((dpid, place)) {
            // It may turn out that it can't be followed any more.
            self.follow_plan(fabric, way);
            return self.ways.to((dpid, place));
        }
        let switch = fabric.switches.get(&dpid)?;
        let (_, _, paths) = switch.ingress.look_ups.open()?;
        let goal = OpenGoal { ingress: dpid, paths }.ending_at(place);
        let key = RouteKey { ingress: dpid, version: switch.version(), goal, carriage: Carriage::default() };
        if let Some(route) = fabric.routes.of_key(&key) {
            self.follow_plan(fabric, route);
        }
        let way = match fabric.routes.join_as_way(&key) {
            Some(way) => way,
            None => self.create_route(fabric, None, key)?,
        };
        self.ways.insert((dpid, place), way);
        self.update_way(fabric, way);
        Some(way)
    }
}
