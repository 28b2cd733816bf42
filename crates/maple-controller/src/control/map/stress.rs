//! The layout of a network with circles: two switches are as far apart on the map as in links.
//!
//! The stress of a layout is the sum of (distance on the map - distance in links)² / (distance in links)² over pairs.
//! It is made small by moving one pair after the other to its distance, by ever smaller steps (Zheng, Pawar, Goodman:
//! Graph Drawing by Stochastic Gradient Descent, 2018). A network of more pairs than [`MAX_PAIRS`] uses those of some
//! switches that lie evenly in it. Numbers that are random in the paper are the same each time here.
//!
//! Switches that are not free stay, and pull and push the others.

use fastrand::Rng;

use super::graph::NumberedGraph;
use super::places::{APART, Point};

/// The maximum number of pairs. Chosen: all pairs of 700 switches; a layout of more must not take a multiple of the
/// time.
const MAX_PAIRS: usize = 250_000;
/// The number of times that each pair is moved. Chosen: the step shrinks by a constant factor in each, and more rounds
/// move switches by less than what is seen.
const ROUNDS: i32 = 24;
/// The last and smallest step of neighbours, as a share of the distance that is missing. Chosen: by then no switch
/// visibly moves.
const LAST_STEP: f64 = 0.05;
/// The maximum distance of switches from the middle, on average, in a layout that is made larger: this times the square
/// root of their number, in units of the map. Chosen: as dense as a square with room around each switch.
const MAX_REACH: f64 = 1.5 * APART;
/// The number of switches whose room is looked at. Chosen: a sample shows how dense a layout is, and each look compares
/// with all others.
const LOOKED_AT: usize = 256;

/// Two switches and the number of links between them. The first is free.
#[derive(Clone, Copy, Debug)]
struct Pair {
    a: u32,
    b: u32,
    distance: f32,
}

/// Moves the free switches of a connected network. `unit`: the length of a link.
pub(super) fn stress_layout(graph: &NumberedGraph, places: &mut [Point], is_free: &[bool], unit: f64) {
    let mut random = Rng::with_seed(1);
    let mut pairs = pairs(graph, is_free);
    random.shuffle(&mut pairs);
    let farthest = pairs.iter().map(|pair| f64::from(pair.distance)).fold(1.0, f64::max);
    place_free(graph, places, is_free, farthest * unit, &mut random);
    let first_step = farthest * farthest;
    let shrink = (LAST_STEP / first_step).powf(1.0 / f64::from(ROUNDS - 1));
    for round in 0..ROUNDS {
        let step = first_step * shrink.powi(round);
        for Pair { a, b, distance } in &pairs {
            let (a, b, distance) = (*a as usize, *b as usize, f64::from(*distance));
            let (mut x, mut y) = (places[a].x - places[b].x, places[a].y - places[b].y);
            let mut length = (x * x + y * y).sqrt();
            if length < 1e-9 {
                (x, y, length) = (1e-3, 0.0, 1e-3);
            }
            let strength = (step / (distance * distance)).min(1.0);
            let part = strength * (distance * unit - length) / length * if is_free[b] { 0.5 } else { 1.0 };
            places[a] = places[a].plus(x * part, y * part);
            if is_free[b] {
                places[b] = places[b].plus(-x * part, -y * part);
            }
        }
    }
}

/// Makes a layout so large that most switches have room.
pub(super) fn enlarge(places: &mut [Point]) {
    let step = places.len().div_ceil(LOOKED_AT).max(1);
    let room = |at: usize| {
        let others = places.iter().enumerate().filter(|(other, _)| *other != at);
        others.map(|(_, other)| places[at].to(*other)).fold(f64::INFINITY, f64::min)
    };
    let mut rooms: Vec<f64> = (0..places.len()).step_by(step).map(room).collect();
    rooms.sort_by(f64::total_cmp);
    let Some(little) = rooms.get(rooms.len() / 10) else { return };
    let count = places.len() as f64;
    let reach = places.iter().map(|place| place.x.hypot(place.y)).sum::<f64>() / count;
    let largest = MAX_REACH * count.sqrt() / reach.max(APART);
    let scale = (APART * 1.1 / little).min(largest).max(1.0);
    for place in places {
        *place = Point { x: place.x * scale, y: place.y * scale };
    }
}

/// Puts free switches near fixed ones; if none is fixed, anywhere.
fn place_free(graph: &NumberedGraph, places: &mut [Point], is_free: &[bool], size: f64, random: &mut Rng) {
    let near = graph.walk((0..graph.len() as u32).filter(|at| !is_free[*at as usize]));
    let mut anywhere = |size: f64| Point { x: (random.f64() - 0.5) * size, y: (random.f64() - 0.5) * size };
    if near.order.is_empty() {
        places.iter_mut().for_each(|place| *place = anywhere(size));
        return;
    }
    for at in near.order.into_iter().filter(|at| is_free[*at as usize]) {
        let Point { x, y } = anywhere(APART);
        places[at as usize] = places[near.parent[at as usize] as usize].plus(x, y);
    }
}

/// Returns pairs with a free switch: all of them, or those of some switches, and neighbours.
fn pairs(graph: &NumberedGraph, is_free: &[bool]) -> Vec<Pair> {
    let free: Vec<u32> = (0..graph.len() as u32).filter(|at| is_free[*at as usize]).collect();
    let is_all = free.len().saturating_mul(graph.len()) <= 2 * MAX_PAIRS;
    let sources = if is_all {
        free
    } else {
        let order = graph.walk([0]).order;
        let wanted = (MAX_PAIRS / graph.len()).max(1);
        order.iter().copied().step_by(order.len().div_ceil(wanted)).collect()
    };
    let mut pairs = Vec::new();
    let mut is_done = vec![false; graph.len()];
    let mut add = |a: u32, b: u32, distance: f32| match (is_free[a as usize], is_free[b as usize]) {
        (true, _) => pairs.push(Pair { a, b, distance }),
        (false, true) => pairs.push(Pair { a: b, b: a, distance }),
        (false, false) => {}
    };
    for source in sources {
        is_done[source as usize] = true;
        let walk = graph.walk([source]);
        for to in walk.order.into_iter().filter(|to| !is_done[*to as usize]) {
            add(source, to, walk.distance[to as usize] as f32);
        }
    }
    graph.links().filter(|(a, b)| !is_done[*a as usize] && !is_done[*b as usize]).for_each(|(a, b)| add(a, b, 1.0));
    pairs
}
