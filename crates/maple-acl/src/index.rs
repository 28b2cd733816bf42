//! An index of cubes, which finds those that overlap a given one.
//!
//! # What
//!
//! An interval tree over several fields. A node divides its cubes by a field and a value: those whose interval lies
//! below the value, those above it, and those that contain it or don't constrain the field. The last group is divided
//! by another field. Each node knows the hull of its cubes and the lowest of their numbers, so a question skips nodes
//! that have no answer.
//!
//! # Cost
//!
//! Building sorts the cubes once for each field and level of the tree. A question visits the nodes whose hull overlaps
//! its cube: few where lists name subnets, all of them if no field separates the cubes. Crossing cubes
//! ([`CubeIndex::crossing`]) are found one by one, and nodes inside of the cube are skipped.

use std::cmp::Ordering;
use std::collections::{BTreeSet, BinaryHeap};

use maple_wire::Field;

use crate::cube::{Cube, Interval};

/// The maximum number of cubes in a node that is not divided. More would make each search compare more cubes; fewer
/// would take more nodes, and more time to build.
const MAX_UNDIVIDED: usize = 8;

/// An index of numbered cubes.
#[derive(Debug)]
pub struct CubeIndex {
    root: IndexNode,
}

#[derive(Debug)]
struct IndexNode {
    /// The hull of all cubes of the node.
    hull: Cube,
    /// The lowest number of its cubes.
    min_number: usize,
    content: NodeContent,
}

#[derive(Debug)]
enum NodeContent {
    Cubes(Vec<usize>),
    Nodes(Vec<IndexNode>),
}

/// A piece of the search that is left: a node, or a cube. The heap's first one has the lowest number.
#[derive(Debug)]
struct PendingItem<'a> {
    /// The cube's number, or the lowest in the node.
    number: usize,
    /// The index of the asked cube.
    asked: usize,
    node: Option<&'a IndexNode>,
}

impl CubeIndex {
    /// Creates an index of these cubes, numbered from 0.
    pub fn new(cubes: &[&Cube]) -> CubeIndex {
        let fields: BTreeSet<Field> = cubes.iter().flat_map(|cube| cube.intervals()).map(|i| i.field).collect();
        let fields: Vec<Field> = fields.into_iter().collect();
        CubeIndex { root: IndexNode::new(cubes, (0..cubes.len()).collect(), &fields) }
    }

    /// Returns the cubes with numbers below `below` that overlap this one, in order. `cubes` returns the cube of a
    /// number.
    pub fn overlapping<'a>(
        &self,
        cube: &Cube,
        below: usize,
        cubes: impl Fn(usize) -> &'a Cube,
    ) -> Vec<(usize, &'a Cube)> {
        let (mut found, mut pending) = (Vec::new(), vec![&self.root]);
        while let Some(node) = pending.pop() {
            if node.min_number >= below || !node.hull.overlaps(cube) {
                continue;
            }
            match &node.content {
                NodeContent::Nodes(nodes) => pending.extend(nodes),
                NodeContent::Cubes(all) => {
                    let all = all.iter().take_while(|at| **at < below).map(|at| (*at, cubes(*at)));
                    found.extend(all.filter(|(_, other)| other.overlaps(cube)));
                }
            }
        }
        found.sort_unstable_by_key(|(at, _)| *at);
        found
    }

    /// Reports whether a cube with a number below `below` contains this one. `cubes` returns the cube of a number.
    pub fn contains<'a>(&self, cube: &Cube, below: usize, cubes: impl Fn(usize) -> &'a Cube) -> bool {
        let mut pending = vec![&self.root];
        while let Some(node) = pending.pop() {
            if node.min_number >= below || !node.hull.contains(cube) {
                continue;
            }
            match &node.content {
                NodeContent::Nodes(nodes) => pending.extend(nodes),
                NodeContent::Cubes(all) if all.iter().any(|at| *at < below && cubes(*at).contains(cube)) => {
                    return true;
                }
                NodeContent::Cubes(_) => {}
            }
        }
        false
    }

    /// Returns the numbers of those cubes below `below` that are wanted, overlap an asked cube and are not inside it,
    /// in order, each with the index of the asked cube. `cubes` returns the cube of a number.
    pub fn crossing<'a>(
        &self,
        asked: &[&Cube],
        below: usize,
        is_wanted: impl Fn(usize) -> bool,
        cubes: impl Fn(usize) -> &'a Cube,
    ) -> impl Iterator<Item = (usize, usize)> {
        let crosses = |cube: &Cube, other: &Cube| other.overlaps(cube) && !cube.contains(other);
        let root = |asked| PendingItem { number: self.root.min_number, asked, node: Some(&self.root) };
        let mut pending: BinaryHeap<PendingItem<'_>> = (0..asked.len()).map(root).collect();
        std::iter::from_fn(move || {
            while let Some(PendingItem { number, asked: by, node }) = pending.pop() {
                if number >= below {
                    return None;
                }
                let Some(IndexNode { hull, content, .. }) = node else { return Some((number, by)) };
                match content {
                    // A cube that contains the hull contains all cubes of the node.
                    _ if !crosses(asked[by], hull) => {}
                    NodeContent::Nodes(nodes) => {
                        pending.extend(nodes.iter().map(|node| PendingItem {
                            number: node.min_number,
                            asked: by,
                            node: Some(node),
                        }));
                    }
                    NodeContent::Cubes(all) => {
                        let there = all.iter().filter(|at| is_wanted(**at) && crosses(asked[by], cubes(**at)));
                        pending.extend(there.map(|at| PendingItem { number: *at, asked: by, node: None }));
                    }
                }
            }
            None
        })
    }
}

impl PendingItem<'_> {
    /// Returns the order in which the heap hands out what is pending. A node comes before the cubes in it.
    fn turn(&self) -> (usize, usize, bool) {
        (self.number, self.asked, self.node.is_none())
    }
}

impl Ord for PendingItem<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        // A heap hands out the greatest first.
        other.turn().cmp(&self.turn())
    }
}

impl PartialOrd for PendingItem<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for PendingItem<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.turn() == other.turn()
    }
}

impl Eq for PendingItem<'_> {}

impl IndexNode {
    /// Creates a node of the cubes with these ascending numbers. It may divide them by these fields.
    fn new(cubes: &[&Cube], numbers: Vec<usize>, fields: &[Field]) -> IndexNode {
        let mut all = numbers.iter().map(|at| cubes[*at]);
        let first = all.next().cloned().unwrap_or_default();
        let hull = all.fold(first, |hull, cube| hull.hull(cube));
        let min_number = numbers.first().copied().unwrap_or(usize::MAX);
        let field = (numbers.len() > MAX_UNDIVIDED).then(|| most_divided(cubes, &numbers, fields)).flatten();
        let Some((field, middle)) = field else {
            return IndexNode { hull, min_number, content: NodeContent::Cubes(numbers) };
        };
        let (mut below, mut above, mut across) = (Vec::new(), Vec::new(), Vec::new());
        for at in numbers {
            match cubes[at].get(field) {
                Some(interval) if interval.hi < middle => below.push(at),
                Some(interval) if interval.lo > middle => above.push(at),
                _ => across.push(at),
            }
        }
        let rest: Vec<Field> = fields.iter().copied().filter(|other| *other != field).collect();
        let parts = [(below, fields), (above, fields), (across, &*rest)];
        let parts = parts.into_iter().filter(|(numbers, _)| !numbers.is_empty());
        let nodes = parts.map(|(numbers, fields)| IndexNode::new(cubes, numbers, fields)).collect();
        IndexNode { hull, min_number, content: NodeContent::Nodes(nodes) }
    }
}

/// Returns the field that separates most of these cubes, and the middle one of their values. `None` if none does.
fn most_divided(cubes: &[&Cube], numbers: &[usize], fields: &[Field]) -> Option<(Field, u128)> {
    let intervals = |field: &Field| {
        let mut all: Vec<Interval> = numbers.iter().filter_map(|at| cubes[*at].get(*field)).collect();
        all.sort_unstable();
        all
    };
    let different = |all: &[Interval]| all.chunk_by(|a, b| a == b).count();
    let best = fields.iter().map(intervals).max_by_key(|all| different(all)).filter(|all| different(all) > 1)?;
    let middle = best[best.len() / 2];
    Some((middle.field, middle.lo))
}
