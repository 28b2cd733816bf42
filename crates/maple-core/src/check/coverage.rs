//! The coverage of f: all traces merged, and the sides of tests that no packet took.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, HashMap};
use std::hash::{Hash, Hasher};

use super::observe::Observation;
use crate::trace::{Item, Source, Trace, TraceStep};

/// The number of traces of one shape from which other packets are made. Chosen: more would spend the check on reads
/// whose values alone differ, fewer would miss values on which f fails.
const SAME_SHAPE: u32 = 4;

/// All traces of one check merged into a tree.
#[derive(Default)]
pub(super) struct MergedTraces {
    /// The children of each node, by the step that leads to them; node 0 is the root. The maps are never iterated into
    /// output.
    nodes: Vec<HashMap<StepKey, usize>>,
    /// The parent of each node but the root, which is its own.
    parents: Vec<usize>,
    /// The number of `no` and of `yes` answers, for each line and question.
    questions: BTreeMap<(Option<Place>, String), [u64; 2]>,
    traces: u64,
    /// The number of runs of each shape: questions and answers without the values read.
    shapes: HashMap<u64, u32>,
}

/// The parts of a step that distinguish it from others.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) enum StepKey {
    Item(Item),
    /// The answer of a list of this length. The list is identified by its address.
    List {
        list: usize,
        length: usize,
        first: usize,
    },
}

impl StepKey {
    fn from_step(step: TraceStep<'_>) -> StepKey {
        match step {
            TraceStep::Item(item, _) => StepKey::Item(item.clone()),
            TraceStep::List(answer) => {
                let (list, first) = answer.key();
                StepKey::List { list, length: answer.list.conds().len(), first }
            }
        }
    }
}

/// Returns the keys of a trace's steps, which distinguish it from other traces.
pub(super) fn keys(trace: &Trace) -> Vec<StepKey> {
    trace.steps().map(StepKey::from_step).collect()
}

/// A source line, ordered by file and line.
type Place = (std::sync::Arc<str>, u32);

/// A test that gave the same answer each time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OneSided {
    /// The line that asks the test.
    pub at: Option<Source>,
    /// The question of the test.
    pub question: String,
    /// The answer that it always had.
    pub answer: bool,
    /// The number of times that it was asked.
    pub asked: u64,
}

/// The counts of what a check has tried.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Coverage {
    /// Packets that f decided.
    pub packets: u64,
    /// Packets among these that the checker made to take another path.
    pub made: u64,
    /// Runs of f.
    pub runs: u64,
    /// Packets on which f failed.
    pub failed: u64,
    /// Packets that wait for a change (`retry`).
    pub waiting: u64,
    /// Distinct traces.
    pub traces: u64,
    /// Sides of tests in the tree of all traces.
    pub branches: u64,
    /// Sides among these that no packet took (Ω in a trace tree).
    pub unexplored: u64,
    /// Tests that had only one answer, wherever they are in the tree, by file and line.
    pub one_sided: Vec<OneSided>,
}

impl MergedTraces {
    /// Counts a run of its shape. Returns whether at most [`SAME_SHAPE`] of them were seen so far.
    pub fn count_shape(&mut self, run: &Observation) -> bool {
        let mut hasher = DefaultHasher::new();
        for step in run.trace.steps() {
            match step {
                TraceStep::Item(Item::Read(read), _) => (read.field, read.mask).hash(&mut hasher),
                TraceStep::Item(Item::Test { cond, outcome }, _) => (cond, outcome).hash(&mut hasher),
                TraceStep::List(answer) => answer.key().hash(&mut hasher),
            }
        }
        let count = self.shapes.entry(hasher.finish()).or_default();
        *count += 1;
        *count <= SAME_SHAPE
    }

    /// Adds a run's trace. Returns whether it is new.
    pub fn take(&mut self, run: &Observation) -> bool {
        if self.nodes.is_empty() {
            self.nodes.push(HashMap::new());
            self.parents.push(0);
        }
        let (mut at, mut is_new) = (0, run.trace.steps().next().is_none() && self.traces == 0);
        for step in run.trace.steps() {
            if let TraceStep::Item(Item::Test { cond, outcome }, source) = step {
                let place = source.map(|source| (source.file.clone(), source.line));
                self.questions.entry((place, cond.to_string())).or_default()[usize::from(*outcome)] += 1;
            }
            let key = StepKey::from_step(step);
            at = match self.nodes[at].get(&key) {
                Some(next) => *next,
                None => {
                    is_new = true;
                    self.nodes.push(HashMap::new());
                    self.parents.push(at);
                    let next = self.nodes.len() - 1;
                    self.nodes[at].insert(key, next);
                    next
                }
            };
        }
        self.traces += u64::from(is_new);
        is_new
    }

    /// Returns each node, by its number, with the keys of the steps that follow it; a leaf has none. The steps are in
    /// no order.
    pub fn nodes(&self) -> impl Iterator<Item = (usize, impl Iterator<Item = &StepKey>)> {
        self.nodes.iter().map(HashMap::keys).enumerate()
    }

    /// Returns the items of the trace that lead to a node, in order, without the answers of lists.
    pub fn items_before(&self, node: usize) -> Vec<&Item> {
        let (mut at, mut items) = (node, Vec::new());
        while at != 0 {
            let parent = self.parents[at];
            let step = self.nodes[parent].iter().find(|(_, child)| **child == at);
            items.extend(step.and_then(|(key, _)| if let StepKey::Item(item) = key { Some(item) } else { None }));
            at = parent;
        }
        items.reverse();
        items
    }

    /// Returns the number of sides of tests, and of those that no trace took.
    fn branches(&self) -> (u64, u64) {
        let (mut sides, mut open) = (0, 0);
        for children in &self.nodes {
            for key in children.keys() {
                let StepKey::Item(Item::Test { cond, outcome }) = key else { continue };
                let opposite = Item::Test { cond: cond.clone(), outcome: !outcome };
                let other = children.contains_key(&StepKey::Item(opposite));
                // A test with both sides is counted twice here, once from each side.
                sides += if other { 1 } else { 2 };
                open += u64::from(!other);
            }
        }
        (sides, open)
    }

    /// Fills in the counts of the merged traces.
    pub fn report(&self, coverage: &mut Coverage) {
        coverage.traces = self.traces;
        (coverage.branches, coverage.unexplored) = self.branches();
        coverage.one_sided = self
            .questions
            .iter()
            .filter(|(_, [no, yes])| *no == 0 || *yes == 0)
            .map(|((place, question), [no, yes])| OneSided {
                at: place.clone().map(|(file, line)| Source::new(file, line)),
                question: question.clone(),
                answer: *no == 0,
                asked: no + yes,
            })
            .collect();
    }
}
