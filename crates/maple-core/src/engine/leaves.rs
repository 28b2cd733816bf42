//! The leaves of a shard: their names, what they share, which of them are in doubt, and what is remembered of the answers to
//! their packets.
//!
//! Whoever is to change a leaf gets it from [`Leaves::get_mut`], which forgets its answer; there is no other way. So an answer
//! that is remembered is the one that the leaf would give now, whatever the engine has done since it was made.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::ShardId;
use super::cache::VersionedCache;
use super::leaf::Leaf;
use crate::ids::LeafId;
use crate::trace::{Source, Trace};

/// Most answers that are kept. Leaves share them: those to one port have one.
const MAX_TEMPLATES: usize = 1 << 16;

/// How many numbers are tried one by one before all leaves are looked at for the next one.
const NEAR: u64 = 64;

/// The leaves. Whoever goes through all of them puts them in order.
#[derive(Debug, Default)]
pub(super) struct Leaves {
    /// Boxed, as the map moves what it holds when it grows.
    all: FxHashMap<LeafId, Box<Leaf>>,
    /// The number of the newest name.
    newest: u32,
    source_lines: SourceLines,
    /// Those that may no longer be what f would answer.
    stale: BTreeSet<LeafId>,
    /// Under a leaf the number of its answer.
    answers: VersionedCache,
    templates: Vec<Arc<AnswerTemplate>>,
    template_numbers: FxHashMap<Arc<AnswerTemplate>, u32>,
}

/// How all packets of a leaf are answered.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct AnswerTemplate {
    /// The packet-out, but for the frame, its length, its transaction id and the port where the packet came in; empty where
    /// packets are dropped.
    pub bytes: Vec<u8>,
    /// Whether the packet goes straight out of its egress ports, past the rules.
    pub by_controller: bool,
}

impl Leaves {
    /// A leaf, to be changed.
    pub fn get_mut(&mut self, id: &LeafId) -> Option<&mut Leaf> {
        self.answers.forget(id.0);
        self.all.get_mut(id).map(|leaf| &mut **leaf)
    }

    /// Puts a leaf in.
    pub fn insert(&mut self, id: LeafId, leaf: Leaf) {
        self.answers.forget(id.0);
        self.all.insert(id, Box::new(leaf));
    }

    /// Takes a leaf out.
    pub fn remove(&mut self, id: &LeafId) -> Option<Leaf> {
        self.answers.forget(id.0);
        self.all.remove(id).map(|leaf| *leaf)
    }

    /// A name that no leaf has, and nothing else that is named as leaves are.
    pub fn new_id(&mut self, shard: ShardId, is_taken: impl Fn(LeafId) -> bool) -> LeafId {
        loop {
            self.newest = self.newest.checked_add(1).unwrap_or(1);
            let name = LeafId(u64::from(shard.0) << 32 | u64::from(self.newest));
            // Numbers begin again after four billion.
            if !self.all.contains_key(&name) && !is_taken(name) {
                return name;
            }
        }
    }

    /// The trace, as small as it can be kept: leaves with equal lists of source lines share one.
    pub fn intern(&mut self, mut trace: Trace) -> Trace {
        trace.items.shrink_to_fit();
        Trace { sources: self.source_lines.share(trace.sources), ..trace }
    }

    /// These may no longer be what f would answer; among them may be names of what is no leaf.
    pub fn mark_stale(&mut self, names: impl IntoIterator<Item = LeafId>) {
        self.stale.extend(names);
    }

    /// Whether none is in doubt.
    pub fn has_no_stale(&self) -> bool {
        self.stale.is_empty()
    }

    /// Those in doubt, which somebody is about to see to.
    pub fn take_stale(&mut self) -> BTreeSet<LeafId> {
        std::mem::take(&mut self.stale)
    }

    /// The first leaf from this number on, or else the first of all.
    pub fn next_from(&self, from: LeafId) -> Option<(LeafId, &Leaf)> {
        // Numbers are given out one after the other, so mostly it is near.
        let near = (from.0..from.0.saturating_add(NEAR)).map(LeafId).find(|id| self.all.contains_key(id));
        let id = near.or_else(|| self.all.keys().copied().min_by_key(|id| (*id < from, *id)))?;
        Some((id, self.all.get(&id)?))
    }

    /// Forgets all answers: the routes of leaves have changed.
    pub fn forget_answers(&mut self) {
        self.answers.clear();
    }

    /// Answers are asked for, and remembered, under this version of the state.
    pub fn begin(&mut self, version: u64) {
        self.answers.begin(version);
    }

    /// Has the memory of a leaf's answer on its way.
    pub fn prefetch(&self, id: LeafId) {
        self.answers.prefetch(id.0);
    }

    /// The answer to a leaf's packets, if it was remembered under this version.
    pub fn answer(&self, id: LeafId) -> Option<&AnswerTemplate> {
        self.answers.get(id.0).map(|number| &*self.templates[number as usize])
    }

    /// A leaf's answer, if it was remembered under any version.
    #[cfg(any(test, feature = "testing"))]
    pub fn remembered(&self, id: LeafId) -> Option<&AnswerTemplate> {
        self.answers.earlier(id.0).map(|number| &*self.templates[number as usize])
    }

    /// Whether a leaf's answer was remembered under an earlier version: then it still is its answer, if the leaf is current.
    pub fn renew(&mut self, id: LeafId) -> bool {
        let number = self.answers.earlier(id.0);
        number.into_iter().for_each(|number| self.answers.put(id.0, number));
        number.is_some()
    }

    /// Remembers a leaf's answer.
    pub fn remember(&mut self, id: LeafId, template: AnswerTemplate) {
        if self.templates.len() >= MAX_TEMPLATES {
            self.answers.clear();
            self.templates.clear();
            self.template_numbers.clear();
        }
        let number = self.template_numbers.get(&template).copied().unwrap_or_else(|| {
            let (number, template) = (self.templates.len() as u32, Arc::new(template));
            self.templates.push(Arc::clone(&template));
            self.template_numbers.insert(template, number);
            number
        });
        self.answers.put(id.0, number);
    }
}

/// Leaves are looked at as in any map.
impl Deref for Leaves {
    type Target = FxHashMap<LeafId, Box<Leaf>>;

    fn deref(&self) -> &FxHashMap<LeafId, Box<Leaf>> {
        &self.all
    }
}

/// Lists of source lines, of which leaves have few different ones. Equal ones are kept once.
#[derive(Debug, Default)]
struct SourceLines(FxHashSet<Arc<Vec<Option<Source>>>>);

impl SourceLines {
    /// Most lists that are known.
    const MOST: usize = 1 << 12;

    /// The list that stands for all that equal it.
    fn share(&mut self, lines: Arc<Vec<Option<Source>>>) -> Arc<Vec<Option<Source>>> {
        if let Some(known) = self.0.get(&lines) {
            return Arc::clone(known);
        }
        if self.0.len() >= SourceLines::MOST {
            self.0.clear();
        }
        let lines = Arc::new(lines.to_vec());
        self.0.insert(Arc::clone(&lines));
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_begin_again_after_the_last_number_and_none_that_is_in_use_is_given_out() {
        let mut leaves = Leaves { newest: u32::MAX - 1, ..Leaves::default() };
        let shard = ShardId(3);
        let name = |number: u32| LeafId(3 << 32 | u64::from(number));
        let is_taken = |taken: LeafId| [name(1), name(2)].contains(&taken);
        assert_eq!(leaves.new_id(shard, is_taken), name(u32::MAX));
        assert_eq!(leaves.new_id(shard, is_taken), name(3));
        assert_eq!(ShardId::of(name(3)), shard);
    }

    #[test]
    fn equal_lists_of_lines_are_one_and_only_so_many_are_known() {
        let mut lines = SourceLines::default();
        let list = |line| Arc::new(vec![Some(Source { file: "policy.py".into(), line }), None]);
        let first = lines.share(list(1));
        assert!(Arc::ptr_eq(&first, &lines.share(list(1))));
        assert!(!Arc::ptr_eq(&first, &lines.share(list(2))));
        (0..2 * SourceLines::MOST as u32).for_each(|line| drop(lines.share(list(line))));
        assert!(lines.0.len() <= SourceLines::MOST);
    }
}
