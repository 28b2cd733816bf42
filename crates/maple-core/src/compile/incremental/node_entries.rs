//! The entries of nodes: those of a leaf for its region, those of a test for its yes-region.

use std::borrow::Cow;

use maple_wire::Constraint;

use super::region_classes::{ClassId, UNMATCHABLE};
use super::{EntryIds, IncrementalCompiler, NodeInfo, NodeKind};
use crate::compile::entries::EntryVerdict;
use crate::trace::Region;
use crate::tree::{LeafId, Node, NodeId, TreeBranch};

/// The packets of its class that a leaf forwards.
enum Extent {
    All,
    Part(Vec<Vec<Constraint>>),
    Nothing,
}

impl IncrementalCompiler {
    /// Updates the entries of a leaf, and what its completeness means for the nodes above. If the leaf is the yes-side
    /// of a test that has the entries for it, returns the test, which must be updated next.
    pub(super) fn update_leaf(&mut self, node: NodeId) -> Option<NodeId> {
        let class = self.node(node).class;
        if class == UNMATCHABLE {
            return None;
        }
        let region = self.region_of_leaf(node, class);
        self.update_leaf_of(node, class, &region, None)
    }

    /// Updates the entries of a leaf as [`IncrementalCompiler::update_leaf`] does, for a class with this region.
    /// `matches` are the matches that state the region, if they are known.
    pub(super) fn update_leaf_of(
        &mut self,
        node: NodeId,
        class: ClassId,
        region: &Region,
        matches: Option<Cow<[Vec<Constraint>]>>,
    ) -> Option<NodeId> {
        let Node::Leaf(leaf) = *self.tree.node(node) else { return None };
        let test = self.test_of(node);
        let (extent, verdict) = self.verdict_of_leaf(node, region);
        let is_complete = matches!(extent, Extent::All);
        let own = match extent {
            Extent::All if test.is_none() => matches.or_else(|| region.stated_matches(&self.target.capabilities)),
            Extent::Part(matches) => Some(Cow::Owned(matches)),
            Extent::All | Extent::Nothing => None,
        };
        self.set_entries(node, &own.unwrap_or_default(), Some(leaf), verdict);
        match test {
            Some(_) => self.classes.set_complete(class, is_complete),
            None => self.set_complete(class, is_complete),
        }
        test
    }

    /// Returns the test whose yes-side a leaf is, if the test has the entries for it.
    pub(super) fn test_of(&self, leaf: NodeId) -> Option<NodeId> {
        let (above, branch) = self.tree.parent(leaf)?;
        (branch == TreeBranch::Outcome(true) && self.node(above).kind == NodeKind::Test).then_some(above)
    }

    /// Returns the packets of its class that a leaf forwards, and the verdict for them.
    fn verdict_of_leaf(&self, leaf: NodeId, region: &Region) -> (Extent, EntryVerdict) {
        let behaviour = &self.node(leaf).behaviour;
        let Some(action) = behaviour.action else { return (Extent::Nothing, EntryVerdict::Unexplored) };
        let extent = match &behaviour.only {
            None => Extent::All,
            Some(only) => match region.with(only) {
                Some(part) if part == *region => Extent::All,
                part => {
                    part.and_then(|part| part.matches(&self.target.capabilities)).map_or(Extent::Nothing, Extent::Part)
                }
            },
        };
        (extent, EntryVerdict::Forward(action))
    }

    /// Updates the entries of a test for its yes-side. `matches` are those of its yes-region, if they are known.
    pub(super) fn update_test(&mut self, node: NodeId, matches: Option<Vec<Vec<Constraint>>>) {
        let NodeInfo { class, kind, .. } = *self.node(node);
        let Node::Test { cond, yes, .. } = self.tree.node(node) else { return };
        let (whole, capabilities) = (self.classes.region(class), &self.target.capabilities);
        if kind == NodeKind::Wide {
            let wide = whole.widened(cond, capabilities).and_then(|wide| wide.matches(capabilities));
            return self.set_entries(node, &wide.unwrap_or_default(), None, EntryVerdict::PartiallyExplored);
        }
        if kind != NodeKind::Test {
            return;
        }
        let (has_entries, leaf, verdict) = match yes.map(|yes| (yes, self.tree.node(yes))) {
            None => (true, None, EntryVerdict::Unexplored),
            Some((yes, Node::Leaf(leaf))) => {
                match self.verdict_of_leaf(yes, self.classes.region(self.node(yes).class)) {
                    (Extent::All, verdict) => (true, Some(*leaf), verdict),
                    (Extent::Part(_), _) => (true, Some(*leaf), EntryVerdict::PartiallyExplored),
                    (Extent::Nothing, _) => (true, Some(*leaf), EntryVerdict::Unexplored),
                }
            }
            Some((yes, _)) => (!self.classes.is_complete(self.node(yes).class), None, EntryVerdict::PartiallyExplored),
        };
        if has_entries && !self.node(node).entries.ids().is_empty() {
            // The matches of a test's entries never change.
            let entries = std::mem::take(&mut self.node_mut(node).entries);
            entries.ids().iter().for_each(|id| self.entries.set_verdict(*id, leaf, verdict));
            self.node_mut(node).entries = entries;
            return;
        }
        let stated = || matches.or_else(|| whole.and(cond).and_then(|region| region.matches(capabilities)));
        let matches = if has_entries { stated() } else { None };
        self.set_entries(node, &matches.unwrap_or_default(), leaf, verdict);
    }

    /// Gives a node entries with these matches. Usually it already has them, or has none.
    fn set_entries(&mut self, node: NodeId, matches: &[Vec<Constraint>], leaf: Option<LeafId>, verdict: EntryVerdict) {
        let before = std::mem::take(&mut self.node_mut(node).entries);
        let ids = before.ids();
        let is_same =
            ids.len() == matches.len() && ids.iter().zip(matches).all(|(id, all)| self.entries.has_match(*id, all));
        let entries = if is_same {
            ids.iter().for_each(|id| self.entries.set_verdict(*id, leaf, verdict));
            before
        } else {
            ids.iter().for_each(|id| self.entries.remove(*id));
            let mut insert = |all: &Vec<_>| self.entries.insert(all, node, leaf, verdict);
            match matches {
                [] => EntryIds::None,
                [one] => EntryIds::One(insert(one)),
                several => EntryIds::Several(several.iter().map(insert).collect()),
            }
        };
        self.node_mut(node).entries = entries;
    }
}
