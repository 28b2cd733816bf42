//! Chains: tests of which each is on the no-side of the one before. Long chains have an index.
//!
//! A chain changes only at its lower end. New nodes are added where the tree was unexplored: after the last test, or in
//! yes-sides, which are not part of the chain. A test is removed when nothing is left below it, or with all that is
//! below it.

use std::num::NonZeroU32;
use std::sync::Arc;

use super::chain_questions::ChainQuestions;
use super::{Node, NodeId, Tree, TreeBranch};
use crate::trace::{ChainPrefix, Cond, ConditionIndex, FailedChain, Fields, Item};

/// The minimum number of tests of a chain that gets an index. Chosen: shorter ones are walked as fast.
const MIN_INDEXED_TESTS: usize = 8;

/// The minimum number of tests of a chain that keeps its index. It must be less than [`MIN_INDEXED_TESTS`], or a chain
/// that grows and shrinks by one test would get and lose its index each time. Chosen: half of it.
const MIN_KEPT_TESTS: usize = 4;

/// The name of a chain within its tree while the chain exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChainId(NonZeroU32);

/// The chains that have an index.
#[derive(Clone, Debug, Default)]
pub(super) struct Chains {
    chains: Vec<Chain>,
    free: Vec<ChainId>,
}

/// A complete run of tests, from the first one, which is not on the no-side of another test.
#[derive(Clone, Debug, Default)]
struct Chain {
    nodes: Vec<NodeId>,
    conds: Vec<Arc<Cond>>,
    index: ConditionIndex,
    /// The knowledge that follows when its tests have failed.
    failures: FailedChain,
    /// The questions of runs that fail one test after the other.
    questions_ahead: ChainQuestions,
}

/// A long chain, for a packet that reaches its first test.
#[derive(Clone, Copy, Debug)]
pub(super) struct LongChain<'t> {
    /// Its tests.
    pub(super) nodes: &'t [NodeId],
    /// The questions of runs that fail one test after the other.
    pub(super) questions_ahead: &'t ChainQuestions,
    /// The number of tests that the packet fails before it fits one.
    pub(super) fails: usize,
}

impl ChainId {
    fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

impl Chains {
    /// Returns the first test of the chain that the packet fits, with `true`; otherwise the last test, with `false`.
    pub(super) fn first<P: Fields + ?Sized>(&self, chain: ChainId, packet: &P) -> Option<(NodeId, bool)> {
        let Chain { nodes, index, .. } = &self.chains[chain.index()];
        match index.first(packet) {
            Some(first) => Some((nodes[first], true)),
            None => nodes.last().map(|last| (*last, false)),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        let lists = |chain: &Chain| size_of_val(&chain.nodes[..]) + size_of_val(&chain.conds[..]);
        let chain = |chain: &Chain| {
            size_of_val(chain)
                + lists(chain)
                + chain.index.bytes()
                + chain.failures.bytes()
                + chain.questions_ahead.bytes()
        };
        self.chains.iter().map(chain).sum()
    }

    fn create(&mut self) -> ChainId {
        self.free.pop().unwrap_or_else(|| {
            self.chains.push(Chain::default());
            let number = u32::try_from(self.chains.len()).ok().and_then(NonZeroU32::new);
            ChainId(number.expect("a tree has fewer chains than nodes"))
        })
    }

    fn drop(&mut self, chain: ChainId) -> Vec<NodeId> {
        self.free.push(chain);
        std::mem::take(&mut self.chains[chain.index()]).nodes
    }
}

impl Tree {
    /// Returns the long chain that begins with a node, if there is one, and the number of its tests that a packet
    /// fails. May look at more fields than the walk would.
    pub(super) fn enter<P: Fields + ?Sized>(&self, node: NodeId, packet: &P) -> Option<LongChain<'_>> {
        let Chain { nodes, index, questions_ahead, .. } = &self.chains.chains[self.slot(node).chain?.index()];
        let begins = nodes.first() == Some(&node);
        begins.then(|| LongChain { nodes, questions_ahead, fails: index.first(packet).unwrap_or(nodes.len()) })
    }

    /// Returns the tests on the way from the root to a branch of a node, or to the root: the beginnings of long chains,
    /// and the other items in their order.
    pub(super) fn passed_to(&self, place: Option<(NodeId, TreeBranch)>) -> (Vec<ChainPrefix<'_>>, Vec<Item>) {
        let (mut passed, mut items, mut place) = (Vec::new(), Vec::new(), place);
        while let Some((node, branch)) = place {
            let mut first = node;
            match self.slot(node).chain.filter(|_| branch == TreeBranch::Outcome(false)) {
                Some(chain) => {
                    let Chain { nodes, conds, failures, .. } = &self.chains.chains[chain.index()];
                    // Each test of a chain comes after the one above it.
                    let rank = self.rank(node);
                    let number = nodes.partition_point(|test| self.rank(*test) <= rank);
                    passed.push(ChainPrefix { failures, conds: &conds[..number] });
                    first = nodes[0];
                }
                None => items.push(self.node(node).item(branch)),
            }
            place = self.parent(first);
        }
        items.reverse();
        (passed, items)
    }

    /// Adds a new test, which has no children yet, to its chain.
    pub(super) fn enter_chain(&mut self, test: NodeId) {
        let Some((above, TreeBranch::Outcome(false))) = self.parent(test) else { return };
        if let Some(chain) = self.slot(above).chain {
            return self.push_to_chain(chain, test);
        }
        let mut run = vec![test, above];
        while let Some((above, TreeBranch::Outcome(false))) = self.parent(run[run.len() - 1]) {
            run.push(above);
        }
        if run.len() >= MIN_INDEXED_TESTS {
            let chain = self.chains.create();
            run.into_iter().rev().for_each(|test| self.push_to_chain(chain, test));
        }
    }

    fn push_to_chain(&mut self, chain: ChainId, test: NodeId) {
        let Node::Test { cond, .. } = self.node(test) else { return };
        let cond = cond.clone();
        let Chain { nodes, conds, index, failures, .. } = &mut self.chains.chains[chain.index()];
        failures.push(&cond, nodes.len());
        nodes.push(test);
        conds.push(cond.clone());
        index.push(cond);
        self.slots[test.index()].chain = Some(chain);
    }

    /// Adds the questions that are asked before new nodes to the questions of their chains.
    pub(super) fn extend_chain_questions(&mut self) {
        let Tree { edit, slots, chains, memos, .. } = self;
        for chain in edit.added.iter().filter_map(|node| slots[node.index()].chain) {
            let Chain { nodes, conds, questions_ahead, .. } = &mut chains.chains[chain.index()];
            for index in questions_ahead.tests()..nodes.len() {
                questions_ahead.push(&conds[index], memos.at_node(nodes[index]));
            }
        }
    }

    /// Removes a node from its chain, because it is removed from the tree. Nothing is below it.
    pub(super) fn leave_chain(&mut self, node: NodeId) {
        let Some(chain) = self.slots[node.index()].chain.take() else { return };
        let Chain { nodes, conds, index, failures, questions_ahead } = &mut self.chains.chains[chain.index()];
        debug_assert_eq!(nodes.last(), Some(&node), "a chain ends where its last test is");
        nodes.pop();
        failures.pop(nodes.len());
        conds.pop();
        index.pop();
        questions_ahead.truncate(nodes.len());
        if nodes.len() < MIN_KEPT_TESTS {
            for node in self.chains.drop(chain) {
                self.slots[node.index()].chain = None;
            }
        }
    }
}
