//! Places of switches on the map: each is pinned once it has a place.
//!
//! People keep a map in their heads, so a switch moves only when it has to: it has got a neighbour that it did not have
//! before, and more of its neighbours are new than are those that its place was chosen for. A link that goes, or flaps,
//! moves nothing. A switch that goes keeps its place, so it comes back where it was.
//!
//! The layout is a function of the networks that it was given, one after the other.

use std::collections::{BTreeMap, BTreeSet};

use maple_wire::Dpid;

use super::graph::NumberedGraph;
use super::places::{APART, LINK, Point, Rooms, TakenPlaces};
use super::stress::{enlarge, stress_layout};
use super::tree::tree_layout;

/// The maximum number of switches that are away whose places are kept. Chosen: a part of a network that is switched off
/// comes back where it was, and memory is bounded.
pub(super) const MAX_AWAY: usize = 1024;
/// The number of earlier neighbours beyond which a switch's are forgotten. Chosen: a switch that is wired anew a few
/// times keeps its place, and memory is bounded.
const MAX_EARLIER: usize = 64;

/// A switch that has a place.
#[derive(Clone, Debug)]
struct Pinned {
    at: Point,
    /// Its present and former neighbours, and whether the place was chosen for them.
    neighbours: BTreeMap<Dpid, bool>,
    /// The number of the update since which it is away; `None` while it is here.
    away: Option<u64>,
}

/// The places of all switches.
#[derive(Clone, Debug, Default)]
pub(super) struct MapLayout {
    pinned: BTreeMap<Dpid, Pinned>,
    updates: u64,
}

impl MapLayout {
    /// Returns the place of a switch.
    pub fn place(&self, dpid: Dpid) -> Option<Point> {
        self.pinned.get(&dpid).map(|pinned| pinned.at)
    }

    /// Reports whether no switch has a place.
    pub fn is_empty(&self) -> bool {
        self.pinned.is_empty()
    }

    /// Follows the network. Unless `settles`, new switches get a place for the time being, and all others stay: more of
    /// the network is about to be found.
    pub fn update(&mut self, switches: &BTreeSet<Dpid>, links: &BTreeSet<(Dpid, Dpid)>, settles: bool) {
        self.updates += 1;
        self.note_away(switches);
        let ids: Vec<Dpid> = switches.iter().copied().collect();
        let number = |dpid: &Dpid| ids.binary_search(dpid).ok().map(|number| number as u32);
        let numbered = links.iter().filter_map(|(a, b)| number(a).zip(number(b)));
        let graph = NumberedGraph::new(ids.len(), if settles { numbered.collect() } else { Vec::new() });
        let moves: Vec<bool> =
            (0u32..).zip(&ids).map(|(at, dpid)| self.moves(*dpid, &ids, graph.neighbours(at))).collect();
        if moves.contains(&true) {
            self.place_those(&ids, &graph, &moves);
        }
        if settles {
            for ((at, dpid), moved) in (0u32..).zip(&ids).zip(moves) {
                self.note_neighbours(*dpid, &ids, graph.neighbours(at), moved);
            }
        }
    }

    /// Notes which switches are away. The places of those that are away longest are forgotten first.
    fn note_away(&mut self, here: &BTreeSet<Dpid>) {
        let mut away = BTreeSet::new();
        for (dpid, pinned) in &mut self.pinned {
            pinned.away = if here.contains(dpid) { None } else { pinned.away.or(Some(self.updates)) };
            away.extend(pinned.away.map(|since| (since, *dpid)));
        }
        let over = away.len().saturating_sub(MAX_AWAY);
        away.iter().take(over).for_each(|(_, dpid)| drop(self.pinned.remove(dpid)));
    }

    /// Reports whether a switch with these neighbours gets another place.
    fn moves(&self, dpid: Dpid, ids: &[Dpid], neighbours: &[u32]) -> bool {
        let Some(pinned) = self.pinned.get(&dpid) else { return true };
        let known: Vec<Option<bool>> =
            neighbours.iter().map(|other| pinned.neighbours.get(&ids[*other as usize]).copied()).collect();
        let chosen_for = known.iter().filter(|known| **known == Some(true)).count();
        known.contains(&None) && known.len() - chosen_for > chosen_for
    }

    fn note_neighbours(&mut self, dpid: Dpid, ids: &[Dpid], neighbours: &[u32], has_moved: bool) {
        let Some(pinned) = self.pinned.get_mut(&dpid) else { return };
        if has_moved {
            pinned.neighbours.clear();
        }
        for other in neighbours {
            pinned.neighbours.entry(ids[*other as usize]).or_insert(has_moved);
        }
        if pinned.neighbours.len() > neighbours.len() + MAX_EARLIER {
            let is_now = |other: &Dpid| neighbours.iter().any(|now| ids[*now as usize] == *other);
            pinned.neighbours.retain(|other, _| is_now(other));
        }
    }

    /// Gives places to the switches that move. All others stay.
    fn place_those(&mut self, ids: &[Dpid], graph: &NumberedGraph, moves: &[bool]) {
        let (mut taken, mut rooms) = (TakenPlaces::default(), Rooms::default());
        let number_of = |dpid: &Dpid| ids.binary_search(dpid).ok();
        for (dpid, pinned) in &self.pinned {
            match number_of(dpid).map(|number| moves[number]) {
                Some(true) => {}
                Some(false) => taken.add(pinned.at),
                None => {
                    taken.add(pinned.at);
                    rooms.add([pinned.at]);
                }
            }
        }
        let (mut new, mut alone) = (Vec::new(), Vec::new());
        for component in graph.components() {
            let is_free: Vec<bool> = component.iter().map(|at| moves[*at as usize]).collect();
            if is_free.iter().all(|is_free| *is_free) {
                if component.len() == 1 {
                    alone.extend(component)
                } else {
                    new.push(component)
                }
                continue;
            }
            let mut places: Vec<Point> =
                component.iter().map(|at| self.place(ids[*at as usize]).unwrap_or_default()).collect();
            if is_free.contains(&true) {
                let part = graph.part(&component);
                let unit = length_of_links(&part, &places, &is_free);
                stress_layout(&part, &mut places, &is_free, unit);
                for (place, _) in places.iter_mut().zip(&is_free).filter(|(_, is_free)| **is_free) {
                    *place = taken.take(*place);
                }
                self.pin(ids, &component, &places);
            }
            rooms.add(places);
        }
        new.sort_by_key(|component| std::cmp::Reverse(component.len()));
        for component in new {
            self.place_together(ids, &component, from_nothing(&graph.part(&component)), &mut taken, &mut rooms);
        }
        let columns = (alone.len() as f64).sqrt().ceil().max(1.0) as usize;
        let block = (0..alone.len()).map(|at| ((at % columns) as f64, (at / columns) as f64));
        let block: Vec<Point> = block.map(|(x, y)| Point { x: x * LINK, y: y * LINK }).collect();
        self.place_together(ids, &alone, block, &mut taken, &mut rooms);
    }

    /// Places switches as they lie to each other, where there is room for all of them.
    fn place_together(
        &mut self,
        ids: &[Dpid],
        of: &[u32],
        mut places: Vec<Point>,
        taken: &mut TakenPlaces,
        rooms: &mut Rooms,
    ) {
        let (x, y) = rooms.find(&places);
        places.iter_mut().for_each(|place| *place = taken.take(place.plus(x, y)));
        self.pin(ids, of, &places);
    }

    fn pin(&mut self, ids: &[Dpid], of: &[u32], places: &[Point]) {
        for (number, at) in of.iter().zip(places) {
            let new = Pinned { at: *at, neighbours: BTreeMap::new(), away: None };
            self.pinned.entry(ids[*number as usize]).or_insert(new).at = *at;
        }
    }
}

/// Returns a layout of a connected network none of whose switches has a place.
fn from_nothing(graph: &NumberedGraph) -> Vec<Point> {
    if graph.is_tree() {
        return tree_layout(graph);
    }
    let mut places = vec![Point::default(); graph.len()];
    stress_layout(graph, &mut places, &vec![true; graph.len()], LINK);
    enlarge(&mut places);
    places
}

/// Returns how long links are between the switches that stay.
fn length_of_links(graph: &NumberedGraph, places: &[Point], is_free: &[bool]) -> f64 {
    let [a_end, b_end] = [|link: &(u32, u32)| link.0 as usize, |link: &(u32, u32)| link.1 as usize];
    let stays = |link: &(u32, u32)| !is_free[a_end(link)] && !is_free[b_end(link)];
    let mut lengths: Vec<f64> =
        graph.links().filter(stays).map(|link| places[a_end(&link)].to(places[b_end(&link)])).collect();
    lengths.sort_by(f64::total_cmp);
    lengths.get(lengths.len() / 2).map_or(LINK, |length| length.clamp(APART, 4.0 * LINK))
}
