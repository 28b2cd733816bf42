//! The ways to the places that an open look-up finds: one decision is for all of them, and the rules of keys say where
//! each leads.

use std::sync::Arc;

use maple_wire::Action;

use super::LookUps;
use crate::look_ups::{LookUp, OpenPaths, lock};
use crate::network::Location;
use crate::trace::Fields;

impl LookUps {
    /// Lets the rules of keys say the ways to their places, for look-ups that runs have opened.
    pub fn open_ways(&mut self) {
        let registers = lock(&self.registers);
        for (number, of) in self.in_use.iter_mut().enumerate() {
            if registers.open_paths(number).is_some() && !of.rules.is_ending() {
                of.rules.open_ways();
            }
        }
    }

    /// Returns the look-up that one decision asks for all places, with the paths that this decision follows. Its rules of
    /// keys say the ways. There is at most one, since only one field is the destination of packets.
    pub fn open(&self) -> Option<(usize, LookUp, OpenPaths)> {
        let registers = lock(&self.registers);
        let open = |(number, of): (usize, &super::LookUpRules)| {
            let paths = registers.open_paths(number).filter(|_| of.rules.has_ways())?;
            Some((number, of.rules.look_up().clone(), paths.clone()))
        };
        self.in_use.iter().enumerate().find_map(open)
    }

    /// Removes and returns the places that keys of a look-up have begun to have, or have no more, each with whether a key
    /// has it.
    pub fn take_changed_places(&mut self, number: usize) -> Vec<(Location, bool)> {
        self.in_use.get_mut(number).map(|of| of.rules.take_changed_places()).unwrap_or_default()
    }

    /// Sets the way to a place; `None`: it is not ready. Returns whether rules have to change.
    pub fn set_way(&mut self, place: Location, way: Option<Vec<Action>>) -> bool {
        let way: Option<Arc<[Action]>> = way.map(Arc::from);
        let mut open = self.in_use.iter_mut().filter(|of| of.rules.has_ways());
        open.next().is_some_and(|of| of.rules.set_way(place, way))
    }

    /// Returns the place that the open look-up finds for a packet.
    pub fn open_place<P: Fields + ?Sized>(&self, packet: &P) -> Option<Location> {
        self.in_use.iter().find(|of| of.rules.has_ways())?.rules.place_of(packet)
    }
}
