//! The layout of a network without circles: rings around its middle, without crossings.
//!
//! Each switch has a wedge, and its own children share it by their numbers of leaves. Wedges of a ring are disjoint, so
//! only links of one wedge could cross, and these begin at the same switch. A link stays in the ring between its ends
//! if it does not cut the inner circle. So a wedge is at most as wide as the tangents at the switch allow. A ring is as
//! far out as its narrowest wedge demands.

use std::f64::consts::{PI, TAU};

use super::graph::NumberedGraph;
use super::places::{APART, LINK, Point};

/// The distance of neighbours in a ring: a little more than the least one, because places are rounded.
const GAP: f64 = APART * 1.1;

/// The part of a ring that belongs to a switch and what is behind it.
#[derive(Clone, Copy, Debug)]
struct Wedge {
    middle: f64,
    width: f64,
}

/// Returns a place for each switch of a tree.
pub(super) fn tree_layout(tree: &NumberedGraph) -> Vec<Point> {
    let mut places = vec![Point::default(); tree.len()];
    let Some(root) = middle(tree) else { return places };
    let walk = tree.walk([root]);
    let mut leaves = vec![0u32; tree.len()];
    for at in walk.order.iter().rev() {
        let own = leaves[*at as usize].max(1);
        leaves[*at as usize] = own;
        let parent = walk.parent[*at as usize];
        if parent != *at {
            leaves[parent as usize] += own;
        }
    }
    let children = |of: u32| {
        let parents = &walk.parent;
        tree.neighbours(of).iter().copied().filter(move |next| parents[*next as usize] == of)
    };
    let share = |of: u32, parent: u32| f64::from(leaves[of as usize]) / f64::from(leaves[parent as usize]);
    let mut ring = vec![(root, Wedge { middle: 0.0, width: TAU })];
    let mut radius = 0.0;
    loop {
        let mut next_radius = radius + LINK;
        let widest = |next_radius: f64| if radius > 0.0 { 2.0 * f64::acos(radius / next_radius) } else { TAU };
        let narrowest = |most: f64| {
            let narrowest_of = |(parent, wedge): &(u32, Wedge)| {
                let shares = children(*parent).map(|child| share(child, *parent));
                wedge.width.min(most) * shares.fold(f64::INFINITY, f64::min)
            };
            ring.iter().map(narrowest_of).fold(TAU, f64::min)
        };
        while 2.0 * next_radius * (narrowest(widest(next_radius)).min(PI) / 2.0).sin() < GAP {
            next_radius *= 1.1;
        }
        let mut next_ring = Vec::new();
        for (parent, wedge) in &ring {
            let width = wedge.width.min(widest(next_radius));
            let mut begin = wedge.middle - width / 2.0;
            for child in children(*parent) {
                let own = width * share(child, *parent);
                let wedge = Wedge { middle: begin + own / 2.0, width: own };
                places[child as usize] = Point::polar(wedge.middle, next_radius);
                next_ring.push((child, wedge));
                begin += own;
            }
        }
        if next_ring.is_empty() {
            return places;
        }
        (ring, radius) = (next_ring, next_radius);
    }
}

/// Returns the switch in the middle of a tree, from which the farthest one is nearest.
fn middle(tree: &NumberedGraph) -> Option<u32> {
    let mut open: Vec<usize> = (0..tree.len() as u32).map(|at| tree.neighbours(at).len()).collect();
    let mut ends: Vec<u32> = (0..tree.len() as u32).filter(|at| open[*at as usize] <= 1).collect();
    let mut left = tree.len();
    while left > 2 {
        left -= ends.len();
        let mut next = Vec::new();
        for end in &ends {
            for other in tree.neighbours(*end) {
                open[*other as usize] = open[*other as usize].saturating_sub(1);
                if open[*other as usize] == 1 {
                    next.push(*other);
                }
            }
        }
        ends = next;
    }
    ends.into_iter().min()
}
