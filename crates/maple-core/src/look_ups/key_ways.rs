//! The ways to the places that the keys of an open look-up have: which are wanted, and by which actions packets take
//! them.
//!
//! A way costs labels at other switches. So a place has one only if somebody wants it: a packet has gone there, or
//! exploration foresees that. A key that moves takes its wish along, since its packets are mostly still coming.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use maple_wire::Action;
use rustc_hash::FxHashMap;

use super::KeyBits;
use crate::network::Location;

/// The ways to places, where one decision is for all of them. There are at most as many as keys.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyWays {
    /// The actions by which packets go to a place. Those for other places go to the controller.
    ready: FxHashMap<Location, Arc<[Action]>>,
    /// The actions that the switch has refused. A way by others is tried.
    refused: FxHashMap<Location, Arc<[Action]>>,
    /// The keys that have each place.
    keys: BTreeMap<Location, BTreeSet<KeyBits>>,
    /// The places to which ways are wanted. A key has each.
    wanted: BTreeSet<Location>,
    /// The places that have come to be wanted, or are so no longer.
    changed: BTreeSet<Location>,
}

/// Returns the way of packets that the controller sends.
pub(super) fn by_controller() -> Arc<[Action]> {
    [Action::to_controller()].into()
}

impl KeyWays {
    /// Notes that a key has another place.
    pub fn move_key(&mut self, key: &KeyBits, from: Option<Location>, to: Option<Location>) {
        if from == to {
            return;
        }
        let mut is_wanted = false;
        if let Some(place) = from
            && let Some(keys) = self.keys.get_mut(&place)
        {
            is_wanted = self.wanted.contains(&place);
            keys.remove(key);
            if keys.is_empty() {
                self.keys.remove(&place);
                self.refused.remove(&place);
                self.unwant(place);
            }
        }
        if let Some(place) = to {
            self.keys.entry(place).or_default().insert(key.clone());
            if is_wanted {
                self.want(place);
            }
        }
    }

    /// Wants the way to a place, if a key has it. Returns whether one has.
    pub fn want(&mut self, place: Location) -> bool {
        let is_of_key = self.keys.contains_key(&place);
        if is_of_key && self.wanted.insert(place) {
            self.changed.insert(place);
        }
        is_of_key
    }

    /// Wants the ways to further places, at most this many and up to a number in all. Returns how many.
    pub fn want_further(&mut self, count: usize, in_all: usize) -> usize {
        let room = in_all.saturating_sub(self.wanted.len()).min(count);
        if room == 0 || self.wanted.len() == self.keys.len() {
            return 0;
        }
        let unwanted = self.keys.keys().copied().filter(|place| !self.wanted.contains(place));
        let further: Vec<Location> = unwanted.take(room).collect();
        self.wanted.extend(&further);
        self.changed.extend(&further);
        further.len()
    }

    fn unwant(&mut self, place: Location) {
        if self.wanted.remove(&place) {
            self.changed.insert(place);
        }
    }

    /// Wants no way any more.
    pub fn unwant_all(&mut self) {
        self.changed.append(&mut self.wanted);
    }

    /// Reports whether the way to a place is wanted.
    pub fn is_wanted(&self, place: Location) -> bool {
        self.wanted.contains(&place)
    }

    /// Removes and returns the places that have come to be wanted, or are so no longer, each with whether it is.
    pub fn take_changed(&mut self) -> Vec<(Location, bool)> {
        let changed = std::mem::take(&mut self.changed);
        changed.into_iter().map(|place| (place, self.wanted.contains(&place))).collect()
    }

    /// Sets the way to a place; `None`: it is not ready. Returns the keys that have the place.
    pub fn set(&mut self, place: Location, way: Option<Arc<[Action]>>) -> BTreeSet<KeyBits> {
        match way {
            Some(actions) if self.refused.get(&place) == Some(&actions) => drop(self.ready.remove(&place)),
            Some(actions) => {
                self.refused.remove(&place);
                self.ready.insert(place, actions);
            }
            None => drop(self.ready.remove(&place)),
        }
        self.keys.get(&place).cloned().unwrap_or_default()
    }

    /// Notes that the switch has refused the way to a place. Returns the keys that have the place.
    pub fn refuse(&mut self, place: Location) -> BTreeSet<KeyBits> {
        self.refused.extend(self.ready.remove(&place).map(|actions| (place, actions)));
        self.keys.get(&place).cloned().unwrap_or_default()
    }

    /// Returns the actions that the rule of a key of this place is to write.
    pub fn to(&self, place: Option<Location>) -> Arc<[Action]> {
        place.and_then(|place| self.ready.get(&place)).map_or_else(by_controller, Arc::clone)
    }

    /// Reports whether packets to a place go the way that is known.
    pub fn is_ready(&self, place: Location) -> bool {
        self.ready.contains_key(&place)
    }

    /// Returns the number of places that keys have and to which no way is ready.
    pub fn count_unready(&self) -> usize {
        self.keys.keys().filter(|place| !self.ready.contains_key(place)).count()
    }
}
