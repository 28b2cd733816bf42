//! The leaves of a shard: their ids, what they share, which of them are stale, and the remembered answers to their
//! packets.
//!
//! The only access to a leaf that can change it is [`Leaves::get_mut`], and that forgets the leaf's answer. So a
//! remembered answer is always the one that the leaf would give now.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::Decisions;
use super::leaf::Leaf;
use crate::engine::fabric::Fabric;
use crate::engine::messages::cause::Origin;
use crate::engine::messages::received_packet::ReceivedPacket;
use crate::engine::tools::versioned_cache::VersionedCache;
use crate::ids::{DependentId, LeafId, ShardId};
use crate::trace::{Source, Trace};

/// The maximum number of remembered answers. Leaves with equal answers share one. Chosen: a bound on memory. Beyond it
/// all are forgotten, and made again as they are needed.
const MAX_TEMPLATES: usize = 1 << 16;

/// The number of ids to try one by one before searching all leaves for the next one. Chosen: ids have gaps where leaves
/// were removed, most of them short, and a search visits every leaf.
const NEAR_IDS: u64 = 64;

/// The leaves. The map has no order: callers that visit all leaves sort them.
#[derive(Clone, Debug, Default)]
pub(in crate::engine) struct Leaves {
    /// Boxed, because the map moves its values when it grows.
    all: FxHashMap<LeafId, Box<Leaf>>,
    /// The number of the newest id.
    newest: u32,
    source_lines: SourceLines,
    origins: FxHashSet<Arc<Origin>>,
    /// The number of the answer of each leaf.
    answers: VersionedCache,
    templates: Vec<Arc<AnswerTemplate>>,
    template_numbers: FxHashMap<Arc<AnswerTemplate>, u32>,
    /// The leaves that came, changed or went since the set was last taken. `None` if nobody remembers leaves.
    changed: Option<BTreeSet<LeafId>>,
}

/// The answer to every packet of a leaf.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(in crate::engine) struct AnswerTemplate {
    /// The packet-out, without the frame. Its length, transaction id and input port are filled in for each packet.
    /// Empty if packets are dropped.
    pub bytes: Vec<u8>,
    /// Whether the controller sends the packet straight out of its egress ports.
    pub by_controller: bool,
}

impl Leaves {
    /// Starts without leaves. `remember`: keep a set of those that come, change and go.
    pub fn new(remember: bool) -> Leaves {
        Leaves { changed: remember.then(BTreeSet::new), ..Leaves::default() }
    }

    /// Removes and returns the leaves that came, changed or went since the last time, if there are any.
    pub fn take_changed(&mut self) -> Option<BTreeSet<LeafId>> {
        self.changed.as_mut().filter(|changed| !changed.is_empty()).map(std::mem::take)
    }

    /// Unmarks leaves whose changes have been dealt with.
    pub fn unmark_changed(&mut self, ids: impl IntoIterator<Item = LeafId>) {
        if let Some(changed) = &mut self.changed {
            for id in ids {
                changed.remove(&id);
            }
        }
    }

    /// Marks a leaf whose remembered part has changed.
    pub fn mark_changed(&mut self, id: LeafId) {
        if let Some(changed) = &mut self.changed {
            changed.insert(id);
        }
    }

    /// Marks all leaves, because all of them are to be published again.
    pub fn mark_all_changed(&mut self) {
        if let Some(changed) = &mut self.changed {
            changed.extend(self.all.keys().copied());
        }
    }

    /// Returns a leaf to be changed, and forgets its answer.
    pub fn get_mut(&mut self, id: &LeafId) -> Option<&mut Leaf> {
        self.answers.forget(id.0);
        self.all.get_mut(id).map(|leaf| &mut **leaf)
    }

    /// Removes and returns the packets that wait for the installation of leaves.
    pub fn take_held(&mut self) -> Vec<ReceivedPacket> {
        let held = self.all.iter_mut().filter_map(|(id, leaf)| leaf.held.take().map(|held| (*id, held.packets)));
        let by_leaf: BTreeMap<LeafId, Vec<ReceivedPacket>> = held.collect();
        by_leaf.into_values().flatten().collect()
    }

    /// Adds a leaf.
    pub fn insert(&mut self, id: LeafId, leaf: Leaf) {
        self.mark_changed(id);
        self.answers.forget(id.0);
        self.all.insert(id, Box::new(leaf));
    }

    /// Removes a leaf.
    pub fn remove(&mut self, id: &LeafId) -> Option<Leaf> {
        self.mark_changed(*id);
        self.answers.forget(id.0);
        self.all.remove(id).map(|leaf| *leaf)
    }

    /// Creates an id that no leaf has. `is_taken` reports which other ids are in use.
    fn new_id(&mut self, shard: ShardId, is_taken: impl Fn(DependentId) -> bool) -> DependentId {
        loop {
            self.newest = self.newest.checked_add(1).unwrap_or(1);
            let id = DependentId(u64::from(shard.0) << 32 | u64::from(self.newest));
            // The numbers wrap around after four billion.
            if !self.all.contains_key(&id.possible_leaf()) && !is_taken(id) {
                return id;
            }
        }
    }

    /// Returns the trace in its smallest form: leaves with equal lists of source lines share one list.
    pub fn intern(&mut self, mut trace: Trace) -> Trace {
        trace.items.shrink_to_fit();
        Trace { sources: self.source_lines.share(trace.sources), ..trace }
    }

    /// Returns the origin in its smallest form: equal origins share one value.
    pub fn intern_origin(&mut self, origin: Origin) -> Arc<Origin> {
        if let Some(known) = self.origins.get(&origin) {
            return Arc::clone(known);
        }
        if self.origins.len() >= SourceLines::MAX_LISTS {
            self.origins.clear();
        }
        let origin = Arc::new(origin);
        self.origins.insert(Arc::clone(&origin));
        origin
    }

    /// Returns the first leaf with at least this id, or else the first of all.
    pub fn next_from(&self, from: LeafId) -> Option<(LeafId, &Leaf)> {
        // Ids are given out in order, so the next one is usually near.
        let near = (from.0..from.0.saturating_add(NEAR_IDS)).map(LeafId).find(|id| self.all.contains_key(id));
        let id = near.or_else(|| self.all.keys().copied().min_by_key(|id| (*id < from, *id)))?;
        Some((id, self.all.get(&id)?))
    }

    /// Forgets all answers, because the routes of leaves have changed.
    pub fn forget_answers(&mut self) {
        self.answers.clear();
    }

    /// Sets the version of the state under which answers are read and remembered.
    pub fn begin(&mut self, version: u64) {
        self.answers.begin(version);
    }

    /// Prefetches a leaf's answer.
    pub fn prefetch(&self, id: LeafId) {
        self.answers.prefetch(id.0);
    }

    /// Returns the answer to a leaf's packets, if it was remembered under this version.
    pub fn template(&self, id: LeafId) -> Option<&AnswerTemplate> {
        self.answers.get(id.0).map(|number| &*self.templates[number as usize])
    }

    /// Returns a leaf's answer, remembered under any version.
    pub fn remembered(&self, id: LeafId) -> Option<&AnswerTemplate> {
        self.answers.get_any_version(id.0).map(|number| &*self.templates[number as usize])
    }

    /// Reports whether an answer was remembered under any version, and if so remembers it under this one too. The
    /// caller has checked that the leaf is current.
    pub fn renew(&mut self, id: LeafId) -> bool {
        let Some(number) = self.answers.get_any_version(id.0) else { return false };
        self.answers.put(id.0, number);
        true
    }

    /// Remembers a leaf's answer.
    pub fn remember(&mut self, id: LeafId, template: AnswerTemplate) {
        if self.templates.len() >= MAX_TEMPLATES {
            self.answers.clear();
            self.templates.clear();
            self.template_numbers.clear();
        }
        let number = self.template_numbers.get(&template).copied().unwrap_or_else(|| {
            let number = self.templates.len() as u32;
            let template = Arc::new(template);
            self.templates.push(Arc::clone(&template));
            self.template_numbers.insert(template, number);
            number
        });
        self.answers.put(id.0, number);
    }
}

/// Reading leaves works as with any map.
impl Deref for Leaves {
    type Target = FxHashMap<LeafId, Box<Leaf>>;

    fn deref(&self) -> &FxHashMap<LeafId, Box<Leaf>> {
        &self.all
    }
}

impl Decisions {
    /// Creates an id for a leaf.
    pub fn new_leaf_id(&mut self, fabric: &Fabric) -> LeafId {
        self.new_dependent_id(fabric).possible_leaf()
    }

    /// Creates an id for a leaf, a parked packet or the plan of a route.
    pub fn new_dependent_id(&mut self, fabric: &Fabric) -> DependentId {
        self.leaves.new_id(fabric.ctx.shard(), |id| {
            self.undecided.has(id)
                || fabric.routes.of_subscription(id).is_some()
                || fabric.switches.of_look_up(id).is_some()
        })
    }
}

/// Lists of source lines. Leaves have few different ones, so equal lists are kept once.
#[derive(Clone, Debug, Default)]
struct SourceLines(FxHashSet<Arc<Vec<Option<Source>>>>);

impl SourceLines {
    /// The maximum number of lists kept. Chosen: a bound on memory, if f takes ever new ways through its lines. Beyond
    /// it all are forgotten.
    const MAX_LISTS: usize = 1 << 12;

    /// Returns the list that represents all equal ones.
    fn share(&mut self, lines: Arc<Vec<Option<Source>>>) -> Arc<Vec<Option<Source>>> {
        if let Some(known) = self.0.get(&lines) {
            return Arc::clone(known);
        }
        if self.0.len() >= SourceLines::MAX_LISTS {
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
    fn ids_wrap_around_and_skip_those_in_use() {
        let mut leaves = Leaves { newest: u32::MAX - 1, ..Leaves::default() };
        let shard = ShardId(3);
        let id = |number: u32| DependentId(3 << 32 | u64::from(number));
        let is_taken = |taken: DependentId| [id(1), id(2)].contains(&taken);
        assert_eq!(leaves.new_id(shard, is_taken), id(u32::MAX));
        assert_eq!(leaves.new_id(shard, is_taken), id(3));
        assert_eq!(ShardId::owning(id(3)), shard);
    }

    #[test]
    fn equal_lists_of_lines_are_shared_and_their_number_is_bounded() {
        let mut lines = SourceLines::default();
        let list = |line| Arc::new(vec![Some(Source::new("policy.py", line)), None]);
        let first = lines.share(list(1));
        assert!(Arc::ptr_eq(&first, &lines.share(list(1))));
        assert!(!Arc::ptr_eq(&first, &lines.share(list(2))));
        (0..2 * SourceLines::MAX_LISTS as u32).for_each(|line| drop(lines.share(list(line))));
        assert!(lines.0.len() <= SourceLines::MAX_LISTS);
    }
}
