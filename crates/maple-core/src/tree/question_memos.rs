//! The questions that runs asked right before nodes, by node.

use super::NodeId;
use super::replay::QuestionMemo;

/// The memos of a tree's nodes. Many nodes have none.
#[derive(Clone, Debug, Default)]
pub(super) struct QuestionMemos {
    /// The number of each node's list, counted from 1; or 0.
    lists_of: Vec<u32>,
    lists: Vec<Vec<QuestionMemo>>,
    /// Empty lists that belong to no node.
    free: Vec<u32>,
}

impl QuestionMemos {
    /// Adds a node without memos.
    pub(super) fn add(&mut self) {
        self.lists_of.push(0);
    }

    pub(super) fn at_node(&self, node: NodeId) -> &[QuestionMemo] {
        match self.lists_of[node.index()] {
            0 => &[],
            list => &self.lists[list as usize - 1],
        }
    }

    /// Returns the memos of a node, for adding some.
    pub(super) fn of_mut(&mut self, node: NodeId) -> &mut Vec<QuestionMemo> {
        let list = &mut self.lists_of[node.index()];
        if *list == 0 {
            *list = self.free.pop().unwrap_or_else(|| {
                self.lists.push(Vec::new());
                u32::try_from(self.lists.len()).expect("a tree has fewer than 2^32 nodes")
            });
        }
        &mut self.lists[*list as usize - 1]
    }

    /// Forgets the memos of a node.
    pub(super) fn forget(&mut self, node: NodeId) {
        let list = std::mem::take(&mut self.lists_of[node.index()]);
        if list != 0 {
            self.lists[list as usize - 1].clear();
            self.free.push(list);
        }
    }

    /// Returns the number of memos.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.lists.iter().map(Vec::len).sum()
    }

    pub(super) fn bytes(&self) -> usize {
        let lists: usize =
            self.lists.iter().map(|list| size_of_val(list) + list.capacity() * size_of::<QuestionMemo>()).sum();
        size_of_val(&self.lists_of[..]) + lists + size_of_val(&self.free[..])
    }
}
