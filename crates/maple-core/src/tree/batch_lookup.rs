//! Look-ups of many packets together: they go down the tree side by side, one step at a time.
//!
//! In a large tree, nearly every step of a search waits for memory: for the node, then for its children. What a step
//! needs is known only after the step before, so one search waits for each. But searches of several packets do not
//! depend on each other. So a packet that gets to a node has the node prefetched, and the others take their step. In
//! its next turn the node's children are prefetched, and in the turn after that the packet goes on. A batch waits about
//! as long as one packet would. Each packet finds what [`Tree::search`] finds.

use arrayvec::ArrayVec;
use maple_prefetch::{prefetch, prefetch_all};

use super::{Descent, LeafId, Node, NodeId, Tree};
use crate::trace::Fields;

/// The maximum number of packets that are looked up together. Chosen: enough for their reads of memory to overlap, and
/// few enough that what they read stays in the first cache.
pub const MAX_BATCH: usize = 64;

impl Tree {
    /// Returns the leaves that these packets reach; `None` for a packet that reaches none. There may be at most
    /// [`MAX_BATCH`] packets.
    pub fn search_batch<'p, P: Fields + 'p>(
        &self,
        packets: impl Iterator<Item = &'p P>,
    ) -> ArrayVec<Option<LeafId>, MAX_BATCH> {
        let mut found = ArrayVec::new();
        let mut under_way: ArrayVec<(usize, &P, NodeId), MAX_BATCH> = ArrayVec::new();
        for (number, packet) in packets.enumerate() {
            found.push(None);
            under_way.extend(self.root.map(|root| (number, packet, root)));
        }
        while !under_way.is_empty() {
            under_way.iter().for_each(|(_, packet, node)| self.prefetch_step(*node, *packet));
            under_way.retain(|(number, packet, node)| match self.step(*node, *packet) {
                Some(Descent::To(next)) => {
                    prefetch_all(self.node(next));
                    *node = next;
                    true
                }
                Some(Descent::Leaf(leaf)) => {
                    found[*number] = Some(leaf);
                    false
                }
                None => false,
            });
        }
        found
    }

    /// Prefetches what a step from this node reads besides the node.
    #[inline(always)]
    fn prefetch_step<P: Fields>(&self, node: NodeId, packet: &P) {
        match self.node(node) {
            Node::Leaf(_) => prefetch(&self.used[node.index()]),
            Node::Value(values) => values.prefetch(packet),
            Node::Test { cond, .. } => prefetch(&cond.constraints[..]),
        }
    }
}
