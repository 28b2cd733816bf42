//! Searches side by side: many packets go down the tree together, one step each in turn.
//!
//! In a large tree nearly every step of a search waits for memory: for the node, then for its children. What one step needs is
//! known only after the step before, so a search alone waits for each in turn; but searches of several packets do not depend on
//! each other. So a packet that gets to a node has the node prefetched and steps aside for the others; when its turn comes, the node
//! says which of its children's memory to prefetch, and only in the turn after that the packet goes on. A batch waits about as
//! long as one packet would. What each packet finds is what [`Tree::search`] finds.

use arrayvec::ArrayVec;
use maple_prefetch::{prefetch, prefetch_all};

use super::{LeafId, Node, NodeId, Step, Tree};
use crate::trace::Fields;

/// Most packets that are looked up together.
pub const MAX_BATCH: usize = 64;

impl Tree {
    /// The leaves that these packets, at most [`MAX_BATCH`], get to.
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
            under_way.iter().for_each(|(_, packet, at)| self.prefetch_step(*at, *packet));
            under_way.retain(|(number, packet, at)| match self.step(*at, *packet) {
                Some(Step::To(next)) => {
                    prefetch_all(self.node(next));
                    *at = next;
                    true
                }
                Some(Step::Leaf(leaf)) => {
                    found[*number] = Some(leaf);
                    false
                }
                None => false,
            });
        }
        found
    }

    /// Has what a step from this node reads besides the node on its way.
    #[inline(always)]
    fn prefetch_step<P: Fields>(&self, at: NodeId, packet: &P) {
        match self.node(at) {
            Node::Leaf(_) => prefetch(&self.used[at.index()]),
            Node::Value(values) => values.prefetch(packet),
            Node::Test { cond, .. } => prefetch(&cond.all[..]),
        }
    }
}
