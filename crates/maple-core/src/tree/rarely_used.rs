//! The leaves that were not used for a long time, and the memory that a tree takes. Both serve to keep a tree bounded.
//!
//! Time is counted in periods, which the owner of the tree begins. A leaf remembers the last period in which a look-up
//! found it, in an array of 4 bytes for each node. A caller that learns in another way that a leaf's packets were seen
//! (from a switch's counters, say) may report it.

use super::{LeafId, Node, NodeId, Tree};

impl Tree {
    /// Begins a new period: leaves that are used in it count as more recently used than all others.
    pub fn begin_period(&self) {
        self.period.set(self.period.get().saturating_add(1));
    }

    /// Notes that packets of a leaf were seen. A leaf that does not exist is ignored.
    pub fn mark_used(&self, leaf: LeafId) {
        if let Some(node) = self.leaves.get(&leaf) {
            self.use_leaf(*node);
        }
    }

    /// Returns the `count` leaves (or all, if there are fewer) that have not been used for the longest time. The least
    /// recently used comes first, and among equals the older one. Costs one step for each leaf of the tree, so ask for
    /// many leaves together.
    pub fn least_recently_used(&self, count: usize) -> Vec<LeafId> {
        let mut all: Vec<(u32, LeafId)> =
            self.leaves.iter().map(|(leaf, node)| (self.used[node.index()].get(), *leaf)).collect();
        if count < all.len() {
            all.select_nth_unstable(count);
            all.truncate(count);
        }
        all.sort_unstable();
        all.into_iter().map(|(_, leaf)| leaf).collect()
    }

    /// Returns the approximate memory of the tree, in bytes: what it has allocated, whether in use or kept for later.
    /// The conditions of tests, which traces share, are counted once for each test. Lists for invalidations are not
    /// counted.
    pub fn bytes(&self) -> usize {
        let Tree { nodes, slots, used, free, leaves, wide, memos, .. } = self;
        let lists = size_of_val(&used[..]) + size_of_val(&free[..]) + memos.bytes();
        let arrays = size_of_val(&nodes[..]) + size_of_val(&slots[..]) + lists;
        let maps = leaves.capacity() * (size_of::<(LeafId, NodeId)>() + 1) + wide.capacity() * 33;
        let below = nodes.iter().map(|node| match node {
            Node::Leaf(_) => 0,
            Node::Value(values) => values.bytes(),
            Node::Test { cond, .. } => {
                2 * size_of::<usize>()
                    + size_of_val(&**cond)
                    + size_of_val(&cond.constraints[..])
                    + size_of_val(&cond.ranges[..])
            }
        });
        arrays + maps + below.sum::<usize>() + self.order.bytes() + self.chains.bytes()
    }

    /// Notes that a leaf is used in this period.
    pub(super) fn use_leaf(&self, node: NodeId) {
        // Most leaves were already used in this period. Memory that is not written stays clean in the cache.
        let (used, period) = (&self.used[node.index()], self.period.get());
        if used.get() != period {
            used.set(period);
        }
    }
}
