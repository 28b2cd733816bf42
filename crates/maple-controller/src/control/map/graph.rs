//! The network as numbered switches and their neighbours: what a layout asks of it.

use std::collections::{BTreeSet, VecDeque};

/// Switches from 0 on, with the neighbours of each. Several links between two switches are one here.
#[derive(Clone, Debug, Default)]
pub(super) struct NumberedGraph {
    neighbours: Vec<Vec<u32>>,
}

/// A walk through a graph, nearest first.
#[derive(Clone, Debug)]
pub(super) struct Walk {
    /// The switches that are reached, in order.
    pub order: Vec<u32>,
    /// The number of links that each node is away; `u32::MAX` if it is not reached.
    pub distance: Vec<u32>,
    /// The node from which each is reached; itself for those where the walk begins.
    pub parent: Vec<u32>,
}

impl NumberedGraph {
    /// Creates a graph of this many switches.
    pub fn new(switches: usize, links: impl IntoIterator<Item = (u32, u32)>) -> NumberedGraph {
        let mut neighbours = vec![BTreeSet::new(); switches];
        for (a, b) in links.into_iter().filter(|(a, b)| a != b) {
            neighbours[a as usize].insert(b);
            neighbours[b as usize].insert(a);
        }
        NumberedGraph { neighbours: neighbours.into_iter().map(Vec::from_iter).collect() }
    }

    /// Returns the number of switches.
    pub fn len(&self) -> usize {
        self.neighbours.len()
    }

    /// Returns the neighbours of a switch in order.
    pub fn neighbours(&self, of: u32) -> &[u32] {
        &self.neighbours[of as usize]
    }

    /// Returns the links, each once, the lower end first.
    pub fn links(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        (0u32..).zip(&self.neighbours).flat_map(|(a, all)| all.iter().filter(move |b| a < **b).map(move |b| (a, *b)))
    }

    /// Reports whether there is one way between any two switches, if the graph is connected.
    pub fn is_tree(&self) -> bool {
        self.links().count() + 1 == self.len()
    }

    /// Walks through all that can be reached from these switches.
    pub fn walk(&self, from: impl IntoIterator<Item = u32>) -> Walk {
        let unknown = vec![u32::MAX; self.len()];
        let mut walk = Walk { order: Vec::with_capacity(self.len()), distance: unknown.clone(), parent: unknown };
        let mut queue: VecDeque<u32> = VecDeque::new();
        for begin in from {
            (walk.distance[begin as usize], walk.parent[begin as usize]) = (0, begin);
            queue.push_back(begin);
        }
        while let Some(at) = queue.pop_front() {
            walk.order.push(at);
            let farther = walk.distance[at as usize] + 1;
            for next in self.neighbours(at) {
                let distance = &mut walk.distance[*next as usize];
                if *distance == u32::MAX {
                    *distance = farther;
                    walk.parent[*next as usize] = at;
                    queue.push_back(*next);
                }
            }
        }
        walk
    }

    /// Returns the connected components, each in order.
    pub fn components(&self) -> Vec<Vec<u32>> {
        let mut is_seen = vec![false; self.len()];
        let mut components = Vec::new();
        for begin in 0..self.len() as u32 {
            if is_seen[begin as usize] {
                continue;
            }
            let (mut component, mut next) = (Vec::new(), vec![begin]);
            is_seen[begin as usize] = true;
            while let Some(at) = next.pop() {
                component.push(at);
                for other in self.neighbours(at) {
                    if !std::mem::replace(&mut is_seen[*other as usize], true) {
                        next.push(*other);
                    }
                }
            }
            component.sort_unstable();
            components.push(component);
        }
        components
    }

    /// Returns the graph of these switches, which are in order, with numbers of their own from 0 on.
    pub fn part(&self, of: &[u32]) -> NumberedGraph {
        let own_number = |number: &u32| of.binary_search(number).ok().map(|own| own as u32);
        let neighbours = of.iter().map(|at| self.neighbours(*at).iter().filter_map(own_number).collect());
        NumberedGraph { neighbours: neighbours.collect() }
    }
}
