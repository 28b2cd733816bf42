//! The walk order of nodes, as a list with labels: two loads say which of two nodes comes first.
//!
//! # What
//!
//! All nodes of a tree are in one list, in the order in which a walk decides. The yes-side of a test comes first, then
//! the test itself (where its barrier entry belongs), then its no-side. A `V` node comes before its children, of which
//! the newest is first. Each node has a 64-bit label, and labels ascend along the list. A node's place never changes
//! while it exists; its label may.
//!
//! # Why it is correct
//!
//! A node is inserted where the tree was unexplored, next to its parent. So a subtree is always one stretch of the
//! list. If the labels of its neighbours leave no room, the smallest aligned block of labels around them that is sparse
//! enough gets even gaps. (The method is that of Bender and others, *Two simplified algorithms for maintaining order in
//! a list*, ESA 2002.)
//!
//! # Cost
//!
//! A comparison is two loads. An insertion costs the logarithm of the number of nodes on average, and O(1) at the end
//! of the list, where chains of tests grow. A node takes 16 bytes.

use maple_prefetch::prefetch;

use super::NodeId;

/// The nodes in walk order.
#[derive(Clone, Debug, Default)]
pub(super) struct Order {
    /// The places by node. Those of nodes that are not in the list mean nothing.
    places: Vec<OrderSlot>,
}

#[derive(Clone, Copy, Debug)]
struct OrderSlot {
    label: u64,
    before: Option<NodeId>,
    after: Option<NodeId>,
}

/// The position at which a node is inserted.
#[derive(Clone, Copy, Debug)]
pub(super) enum InsertionPoint {
    /// The node becomes the only one.
    Alone,
    /// The node comes right before this one.
    Before(NodeId),
    /// The node comes right after this one.
    After(NodeId),
    /// The node comes right after this one, and more nodes will be inserted between them.
    First(NodeId),
}

/// The distance between labels at the ends of the list. From the first node the list can grow by 2^31 steps to each
/// side, and each gap takes 32 insertions in one place.
const STEP: u64 = 1 << 32;

/// The divisor for the gap in which a new child of a `V` node is inserted. One part of the gap is left after the child,
/// and all others before it, where the next child is inserted. So a gap takes hundreds of children, not 32.
const GAP_DIVISOR: u64 = 32;

impl Order {
    /// Returns the label of a node in the list. It is higher than the labels of all nodes before it, until the next
    /// insertion.
    pub(super) fn label(&self, node: NodeId) -> u64 {
        self.place(node).label
    }

    /// Inserts a node.
    pub(super) fn insert(&mut self, node: NodeId, at: InsertionPoint) {
        let (before, after) = match at {
            InsertionPoint::Alone => (None, None),
            InsertionPoint::Before(after) => (self.place(after).before, Some(after)),
            InsertionPoint::After(before) | InsertionPoint::First(before) => (Some(before), self.place(before).after),
        };
        let share = if matches!(at, InsertionPoint::First(_)) { GAP_DIVISOR } else { 2 };
        let label = match self.room(before, after, share) {
            Some(label) => label,
            None => {
                self.spread(before.or(after).expect("the list is not empty, since there is no room"));
                self.room(before, after, share).expect("the block was given gaps")
            }
        };
        if self.places.len() <= node.index() {
            self.places.resize(node.index() + 1, OrderSlot { label: 0, before: None, after: None });
        }
        self.places[node.index()] = OrderSlot { label, before, after };
        if let Some(before) = before {
            self.places[before.index()].after = Some(node);
        }
        if let Some(after) = after {
            self.places[after.index()].before = Some(node);
        }
    }

    /// Prefetches a node's place in the list.
    pub(super) fn prefetch(&self, node: NodeId) {
        prefetch(self.place(node));
    }

    /// Prefetches the places of a node's neighbours.
    pub(super) fn prefetch_around(&self, node: NodeId) {
        let OrderSlot { before, after, .. } = self.place(node);
        before.iter().chain(after).for_each(|other| prefetch(self.place(*other)));
    }

    /// Removes a node.
    pub(super) fn remove(&mut self, node: NodeId) {
        let OrderSlot { before, after, .. } = *self.place(node);
        if let Some(before) = before {
            self.places[before.index()].after = after;
        }
        if let Some(after) = after {
            self.places[after.index()].before = before;
        }
    }

    /// Finds a label between two neighbours, if there is one. One part in `share` of the gap is left after it.
    fn room(&self, before: Option<NodeId>, after: Option<NodeId>, share: u64) -> Option<u64> {
        let low = before.map(|node| self.label(node));
        let high = after.map(|node| self.label(node));
        match (low, high) {
            (None, None) => Some(1 << 63),
            (Some(low), None) => {
                Some(low.checked_add(STEP).unwrap_or(low + (u64::MAX - low) / 2)).filter(|label| *label > low)
            }
            (None, Some(high)) => Some(high.checked_sub(STEP).unwrap_or(high / 2)).filter(|label| *label < high),
            (Some(low), Some(high)) => (high - low > 1).then(|| high - (high - low).div_ceil(share)),
        }
    }

    /// Gives even gaps to the smallest aligned block of labels around a node that is sparse enough.
    fn spread(&mut self, node: NodeId) {
        let label = self.label(node);
        let (mut first, mut last, mut count) = (node, node, 1u64);
        for bits in 4..=64 {
            let rest = u64::MAX >> (64 - bits);
            let (low, high) = (label & !rest, label | rest);
            while let Some(before) = self.place(first).before.filter(|node| self.label(*node) >= low) {
                (first, count) = (before, count + 1);
            }
            while let Some(after) = self.place(last).after.filter(|node| self.label(*node) <= high) {
                (last, count) = (after, count + 1);
            }
            // A block of 2^b labels may hold 2^(2b/3) nodes. So larger blocks are sparser, and all of them have gaps.
            if count < 1 << (2 * bits / 3) {
                return self.number(first, count, low, rest / (count + 1));
            }
        }
        unreachable!("2^32 nodes are sparse among 2^64 labels");
    }

    /// Labels `count` nodes from `first` on with multiples of a gap above `low`.
    fn number(&mut self, first: NodeId, count: u64, low: u64, gap: u64) {
        let mut next = Some(first);
        for i in 1..=count {
            let Some(node) = next else { return };
            self.places[node.index()].label = low + i * gap;
            next = self.place(node).after;
        }
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&self.places[..])
    }

    fn place(&self, node: NodeId) -> &OrderSlot {
        &self.places[node.index()]
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// Checks that the labels ascend along the list, given as a plain vector.
    fn check(order: &Order, oracle: &[NodeId]) {
        let labels: Vec<u64> = oracle.iter().map(|node| order.label(*node)).collect();
        assert!(labels.is_sorted_by(|a, b| a < b), "{labels:?}");
    }

    fn insert(order: &mut Order, oracle: &mut Vec<NodeId>, node: NodeId, place: usize, before: bool) {
        if oracle.is_empty() {
            order.insert(node, InsertionPoint::Alone);
            oracle.push(node);
        } else if before {
            order.insert(node, InsertionPoint::Before(oracle[place]));
            oracle.insert(place, node);
        } else {
            let at = if node.index().is_multiple_of(3) {
                InsertionPoint::First(oracle[place])
            } else {
                InsertionPoint::After(oracle[place])
            };
            order.insert(node, at);
            oracle.insert(place + 1, node);
        }
    }

    proptest! {
        #[test]
        fn labels_ascend_along_the_list(
            edits in vec((any::<prop::sample::Index>(), any::<bool>(), 0..5), 1..200),
        ) {
            let (mut order, mut oracle) = (Order::default(), Vec::new());
            for (i, (place, before, kind)) in edits.iter().enumerate() {
                if *kind == 0 && !oracle.is_empty() {
                    order.remove(oracle.remove(place.index(oracle.len())));
                } else {
                    let place = if oracle.is_empty() { 0 } else { place.index(oracle.len()) };
                    insert(&mut order, &mut oracle, NodeId::at(i), place, *before);
                }
                check(&order, &oracle);
            }
        }
    }

    #[test]
    fn many_nodes_come_in_at_one_place() {
        for (place, before) in [(0, true), (0, false), (usize::MAX, true), (usize::MAX, false)] {
            let (mut order, mut oracle) = (Order::default(), Vec::new());
            for i in 0..20_000 {
                let last = oracle.len().saturating_sub(1);
                insert(&mut order, &mut oracle, NodeId::at(i), place.min(last), before);
            }
            check(&order, &oracle);
        }
    }
}
