//! Overlap lists: which entries overlap which, in order of precedence.
//!
//! # What
//!
//! New entries wait until the lists are asked for ([`OverlapLists::settle`]). Then each of them finds the entries that
//! overlap it with one question to the index, and is added to their lists. If there are many beside those that have
//! lists, all lists are built anew from all overlaps at once (`overlap_join.rs`).
//!
//! A removed entry stays in those lists: in a dense table there are hundreds of them, and each would have to be
//! searched. Readers skip it, because its state is [`EntryState::Gone`].
//!
//! New entries clean the lists up. When many entries have been removed, a *sweep* begins: each new entry sweeps the
//! lists of a few others, from the first number to the last. No list gets a removed entry. So after the sweep, entries
//! removed before it are in no list, and their numbers may be reused.
//!
//! # Cost
//!
//! 8 bytes for each pair of entries that overlap. After many removals it is more, until new entries come.

use maple_prefetch::prefetch;

use super::Effort;
use super::entry_store::{EntryId, EntryState, EntryStore};
use super::neighbours::Neighbours;
use super::overlap_index::OverlapIndex;
use super::overlap_join::{PlaceSet, each_overlap};
use super::packed::PackedRow;
use crate::tree::Tree;

/// The divisor of the share of removed entries at which a sweep begins: one in this many numbers. Chosen: at most an
/// eighth of the numbers and of the lists is waste before a sweep, and each sweep frees enough to pay for itself.
const GONE_SHARE: usize = 8;

/// The minimum of numbers that are swept when an entry is added. It must exceed 1, or new entries would come faster
/// than the sweep goes on.
const NUMBERS_AT_A_TIME: usize = 4;
/// The minimum of entries in the lists of these numbers. Chosen: where lists are short, more numbers are swept at a
/// time, so that the sweep ends sooner.
const ENTRIES_AT_A_TIME: usize = 128;

/// The minimum length of a list whose beginning is tried before its middle. Chosen: in a shorter one a binary search
/// takes at most six steps, of which trying the beginning would spare few.
const MIN_LEN_TO_TRY_FRONT: usize = 64;

/// All lists are built anew only if at least this many entries wait. Chosen: below it, one question for each entry
/// costs less than any preparation.
const MIN_WAITING_TO_REBUILD: usize = 4;
/// All lists are built anew only if there are at most this many entries with lists for each waiting one. Chosen:
/// building them again must not cost more than the questions of the entries that wait.
const SETTLED_PER_WAITING: usize = 4;

/// The overlaps of entries.
#[derive(Clone, Debug, Default)]
pub(super) struct OverlapLists {
    index: OverlapIndex,
    /// The lists of each entry. Empty while it waits.
    lists: Vec<Neighbours>,
    /// The entries that are in no list yet, in the order in which they came, and some that were removed.
    waiting: Vec<EntryId>,
    /// Whether each entry waits.
    waits: Vec<bool>,
    /// Entries removed before the current sweep. Empty if there is no sweep.
    gone_before: Vec<EntryId>,
    /// Entries removed since the sweep began.
    gone_since: Vec<EntryId>,
    /// The number whose lists are swept next.
    next: EntryId,
    /// A scratch list of entries with their ranks, kept to reuse its allocation.
    found: Vec<(u64, EntryId)>,
}

impl OverlapLists {
    /// Adds an entry. It is in no list before the lists are settled.
    pub(super) fn insert(&mut self, id: EntryId) {
        if self.lists.len() <= id as usize {
            self.lists.resize_with(id as usize + 1, Neighbours::default);
            self.waits.resize(id as usize + 1, false);
        }
        self.waiting.push(id);
        self.waits[id as usize] = true;
    }

    /// Puts the entries that wait into the lists.
    pub(super) fn settle(&mut self, store: &EntryStore, tree: &Tree, effort: &Effort) {
        let mut waiting = std::mem::take(&mut self.waiting);
        if waiting.len() >= MIN_WAITING_TO_REBUILD.max(store.len() / SETTLED_PER_WAITING) {
            waiting.clear();
            self.waits.fill(false);
            self.build(store, tree, effort);
        }
        for id in waiting.drain(..) {
            if std::mem::take(&mut self.waits[id as usize]) {
                self.put(store, tree, id, effort);
            }
        }
        self.waiting = waiting;
    }

    /// Finds the entries that overlap a new one, and adds the new one to their lists.
    fn put(&mut self, store: &EntryStore, tree: &Tree, id: EntryId, effort: &Effort) {
        let rank = store.rank(tree, id);
        let mut found = std::mem::take(&mut self.found);
        found.clear();
        self.index.overlapping(store.matching(id), |other| found.push((store.rank(tree, other), other)));
        effort.add(found.len() + 1);
        found.sort_unstable();
        let (earlier, later) = found.split_at(found.partition_point(|(there, _)| *there < rank));
        let lists = Neighbours::new(earlier, later);
        self.found = found;
        let place = |list: &[EntryId]| place_in(list, store, |other| store.rank(tree, other) < rank);
        for other in lists.earlier() {
            let theirs = &mut self.lists[*other as usize];
            theirs.insert_later(place(theirs.later()), id);
        }
        for other in lists.later() {
            let theirs = &mut self.lists[*other as usize];
            theirs.insert_earlier(place(theirs.earlier()), id);
        }
        self.lists[id as usize] = lists;
        self.index.insert(store.matches(), id);
    }

    /// Builds all lists anew.
    fn build(&mut self, store: &EntryStore, tree: &Tree, effort: &Effort) {
        let mut order: Vec<(u64, EntryId)> = store.ids().map(|id| (store.rank(tree, id), id)).collect();
        order.sort_unstable();
        let mut matches = PackedRow::default();
        order.iter().for_each(|(_, id)| matches.push(store.matching(*id), *id));
        // By place in the order: the numbers of entries that overlap one, and where the next of them goes in its list.
        let (mut earlier, mut later) = (vec![0u32; order.len()], vec![0u32; order.len()]);
        each_overlap(&matches, |first, second| {
            earlier[second as usize] += 1;
            later[first as usize] += 1;
        });
        let mut lists: Vec<Vec<u32>> = earlier.iter().zip(&later).map(|(a, b)| vec![0; (a + b) as usize]).collect();
        let mut next = [vec![0u32; order.len()], earlier.clone()];
        let mut add = |side: usize, to: u32, place: u32| {
            let free = &mut next[side][to as usize];
            lists[to as usize][*free as usize] = place;
            *free += 1;
        };
        each_overlap(&matches, |first, second| {
            add(0, second, first);
            add(1, first, second);
        });
        let mut set = PlaceSet::new(order.len());
        self.index = OverlapIndex::default();
        for ((id, mut list), earlier) in matches.items().iter().zip(lists).zip(earlier) {
            effort.add(earlier as usize + 1);
            let (before, after) = list.split_at_mut(earlier as usize);
            set.sort(before);
            set.sort(after);
            list.iter_mut().for_each(|place| *place = matches.items()[*place as usize]);
            self.lists[*id as usize] = Neighbours::of(list, earlier);
            self.index.insert(store.matches(), *id);
        }
    }

    /// Removes an entry. Returns its lists, which are empty if it waits.
    pub(super) fn remove(&mut self, id: EntryId) -> Neighbours {
        if !std::mem::take(&mut self.waits[id as usize]) {
            self.index.remove(id);
        }
        self.gone_since.push(id);
        std::mem::take(&mut self.lists[id as usize])
    }

    /// Returns the entries that overlap one and take precedence.
    pub(super) fn earlier(&self, id: EntryId) -> &[EntryId] {
        debug_assert!(!self.waits[id as usize], "lists are settled before they are asked for");
        self.lists[id as usize].earlier()
    }

    /// Returns the entries that overlap one and yield.
    pub(super) fn later(&self, id: EntryId) -> &[EntryId] {
        debug_assert!(!self.waits[id as usize], "lists are settled before they are asked for");
        self.lists[id as usize].later()
    }

    /// Returns the number of entries that overlap one, including removed entries that are still in the lists.
    pub(super) fn degree(&self, id: EntryId) -> usize {
        self.lists[id as usize].len()
    }

    /// Returns the number of entries that overlap a packed match.
    pub(super) fn count_overlapping(&mut self, set: &[u64]) -> usize {
        let mut count = 0;
        self.index.overlapping(set, |_| count += 1);
        count
    }

    /// Rebuilds the index, because matches have become longer.
    pub(super) fn rebuild_index(&mut self, store: &EntryStore) {
        self.index = OverlapIndex::default();
        store.ids().filter(|id| !self.waits[*id as usize]).for_each(|id| self.index.insert(store.matches(), id));
    }

    /// Sweeps some lists, if many entries have been removed. Calls `swept` with each entry whose lists were swept.
    /// Returns the numbers that may be reused.
    pub(super) fn sweep(&mut self, store: &EntryStore, mut swept: impl FnMut(EntryId)) -> Vec<EntryId> {
        let is_gone = |id: EntryId| store.state(id) == EntryState::Gone;
        if self.gone_before.is_empty() {
            if self.gone_since.len() * GONE_SHARE < store.numbers() || self.gone_since.is_empty() {
                return Vec::new();
            }
            std::mem::swap(&mut self.gone_before, &mut self.gone_since);
            self.next = 0;
        }
        let (mut numbers, mut entries) = (0, 0);
        while numbers < NUMBERS_AT_A_TIME || entries < ENTRIES_AT_A_TIME {
            let Some(lists) = self.lists.get_mut(self.next as usize) else {
                return std::mem::take(&mut self.gone_before);
            };
            (numbers, entries) = (numbers + 1, entries + 1);
            if !is_gone(self.next) {
                entries += lists.len();
                lists.retain(|other| !is_gone(other));
                swept(self.next);
            }
            self.next += 1;
        }
        Vec::new()
    }

    /// Prefetches what [`OverlapLists::remove`] reads of an entry.
    pub(super) fn prefetch_removal(&self, id: EntryId) {
        prefetch(&self.lists[id as usize]);
        self.index.prefetch_removal(id);
    }

    #[cfg(test)]
    pub(super) fn gone(&self) -> impl Iterator<Item = EntryId> {
        self.gone_before.iter().chain(&self.gone_since).copied()
    }
}

/// Returns the place of an entry in a list: after all entries for which `is_first` holds. Removed entries are skipped.
fn place_in(list: &[EntryId], store: &EntryStore, is_first: impl Fn(EntryId) -> bool) -> usize {
    let (mut low, mut high) = (0, list.len());
    // Most entries belong at the end. Those of an access list belong at the beginning of long lists.
    let (mut middle, mut is_beginning_next) = (high.saturating_sub(1), high >= MIN_LEN_TO_TRY_FRONT);
    while low < high {
        match (middle..high).find(|at| store.state(list[*at]) != EntryState::Gone) {
            Some(at) if is_first(list[at]) => low = at + 1,
            Some(_) | None => high = middle,
        }
        middle = if std::mem::take(&mut is_beginning_next) { low } else { low + (high - low) / 2 };
    }
    low
}

#[cfg(test)]
mod tests {
    use maple_wire::{Constraint, Field};
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::super::packed::{covers, overlap};
    use super::super::redundancy::Necessity;
    use super::super::{Checks, EntryTable, EntryVerdict, tree_of};
    use super::*;
    use crate::compile::tuning::Tuning;
    use crate::tree::LeafId;

    /// The number of nodes that entries may belong to. It is enough for lists to be swept.
    const NODES: u64 = 160;

    /// Checks the lists of all entries against comparing each pair. Also checks that no list and no reason names a free
    /// number.
    fn check(entries: &EntryTable, tree: &Tree) {
        let EntryTable { store, overlaps, necessities, .. } = entries;
        let is_there = |id: &EntryId| store.state(*id) != EntryState::Gone;
        let rank = |id: EntryId| store.rank(tree, id);
        let gone: Vec<EntryId> = overlaps.gone().collect();
        for id in store.ids() {
            let meets = |other: &EntryId| overlap(store.matching(id), store.matching(*other));
            let mut others: Vec<EntryId> = store.ids().filter(|other| *other != id && meets(other)).collect();
            others.sort_by_key(|other| rank(*other));
            let (earlier, later): (Vec<_>, Vec<_>) = others.iter().partition(|other| rank(**other) < rank(id));
            assert!(overlaps.earlier(id).iter().copied().filter(is_there).eq(earlier));
            assert!(overlaps.later(id).iter().copied().filter(is_there).eq(later));
            let mut named = overlaps.earlier(id).iter().chain(overlaps.later(id)).filter(|other| !is_there(other));
            assert!(named.all(|other| gone.contains(other)));
            let necessity = necessities.necessity_of(id);
            if let (EntryState::Barrier, Necessity::Redundant { covered_by: Some(by) }) = (store.state(id), necessity) {
                assert!(gone.contains(&by) || is_there(&by) && covers(store.matching(by), store.matching(id)));
            }
        }
        let mut kept: Vec<EntryId> = store.free().iter().copied().chain(gone).collect();
        kept.sort_unstable();
        let none = (0..store.numbers() as EntryId).filter(|id| !is_there(id));
        assert!(kept.into_iter().eq(none), "each number of no entry is kept once");
    }

    /// Generates a node whose entry comes, with a value, a mask, and what says whether it forwards; or goes, if there
    /// is one.
    fn steps() -> impl Strategy<Value = (u64, u8, u8, u8)> {
        (0..NODES, any::<u8>(), prop::sample::select(vec![0u8, 0, 1, 3, 0x83]), 0..20u8)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        #[test]
        fn lists_name_all_overlapping_entries_and_numbers_that_no_list_names_are_free(
            batches in vec((vec(steps(), 1..8), vec(steps(), 0..100), any::<u8>()), 1..60),
        ) {
            let (tree, mut entries) = (tree_of(NODES), EntryTable::new(&(1..=u16::MAX), Tuning::for_small_tables()));
            let mut there = vec![None; NODES as usize];
            for (few, many, kind) in batches {
                // Sometimes enough entries wait for all lists to be built anew.
                let steps = few.into_iter().chain(many.into_iter().filter(|_| kind < 40));
                for (node, value, mask, action) in steps {
                    let slot: &mut Option<EntryId> = &mut there[node as usize];
                    if let Some(id) = slot.take() {
                        entries.prefetch_removal(id);
                        entries.remove(id);
                        continue;
                    }
                    let (mask, value) = (u128::from(mask), u128::from(value & mask));
                    let all = [Constraint { field: Field::IpProto, value, mask }];
                    let forward = action < 10;
                    let verdict =
                        if forward { EntryVerdict::Forward(entries.intern(Vec::new())) } else { EntryVerdict::Unexplored };
                    let place = tree.leaf_node(LeafId(node)).expect("the leaf is there");
                    *slot = Some(entries.insert(&all[..usize::from(mask != 0)], place, None, verdict));
                }
                entries.recompute(&tree, if kind % 2 == 0 { Checks::Now } else { Checks::Deferred });
                check(&entries, &tree);
            }
        }
    }
}
