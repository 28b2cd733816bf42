//! Searches side by side: many packets go down the tree together, one step each in turn.
//!
//! In a large tree nearly every step of a search waits for memory: for the node, then for its children. What one step needs is
//! known only after the step before, so a search alone waits for each in turn; but searches of several packets do not depend on
//! each other. So before each step what the next nodes of all packets need is touched: their lines are on the way together,
//! and a batch waits about as long as one packet would. What each packet finds is what [`Tree::search`] finds.

use arrayvec::ArrayVec;

use super::{LeafId, Node, NodeId, Step, Tree};
use crate::trace::Fields;

/// Most packets that are looked up together.
pub const TOGETHER: usize = 64;

impl Tree {
    /// The leaves that these packets, at most [`TOGETHER`], get to.
    pub fn search_all<'p, P: Fields + 'p>(
        &self,
        packets: impl Iterator<Item = &'p P>,
    ) -> ArrayVec<Option<LeafId>, TOGETHER> {
        let mut found = ArrayVec::new();
        let mut under_way: ArrayVec<(usize, &P, NodeId), TOGETHER> = ArrayVec::new();
        for (number, packet) in packets.enumerate() {
            found.push(None);
            under_way.extend(self.root.map(|root| (number, packet, root)));
        }
        while !under_way.is_empty() {
            // Nothing waits for what was read, but it is not left out either.
            std::hint::black_box(under_way.iter().fold(0, |all, (_, _, at)| all ^ self.touch_node(*at)));
            under_way.retain(|(number, packet, at)| match self.step(*at, *packet) {
                Some(Step::To(next)) => {
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

    /// Reads a word of each thing that a step from this node reads.
    #[inline(always)]
    fn touch_node(&self, at: NodeId) -> u32 {
        match self.node(at) {
            Node::Leaf(_) => self.used[at.index()].get(),
            Node::Value(values) => values.touch(),
            Node::Test { cond, .. } => cond.all.len() as u32,
        }
    }
}
