//! The entries that overlap a given match: a tuple space (`tuple_space.rs`) that entries can leave.
//!
//! # What
//!
//! Matches with the same masks form a *group*. Two matches overlap if and only if they agree in the bits that both
//! state. A match has the same bits in common with all members of a group. So a large group keeps hash tables
//! (*views*), each from the values of some bits to the members that have them.
//!
//! * A view of fewer bits than are in common finds a few members too many, and a comparison sorts them out. So a group
//!   has few views.
//! * A new view is made only if the others would find many members, and matches with such masks were looked up before.
//!   The first time, members are compared one by one. This costs less than a view that is never used again.
//! * Members of small groups are in one list, and are compared one by one.
//!
//! Views are not updated when an entry is removed. Members of views have the *stamp* of the entry, which changes when
//! the entry is removed. Outdated members are dropped when they are next read. If there are more of them than of the
//! others, all views of the group are dropped when the group is next asked or gets a member.
//!
//! # Cost
//!
//! Rules have few mask patterns, however many rules there are. A question costs one look-up for each large group and
//! one comparison for each member of the small groups. An insertion costs the views of its own group, and a removal a
//! few steps.

use std::hash::{Hash, Hasher};

use maple_prefetch::prefetch;
use rustc_hash::{FxHashMap, FxHasher};

use super::packed::{PackedMatches, overlap};
use super::store::EntryId;
use crate::tuple_space::OneOrMany;

/// The maximum number of members of a small group.
const MAX_SMALL: usize = 24;

/// The maximum number of members that a look-up in a view may find on average, if the view is to replace a more exact
/// one.
const CANDIDATES: usize = 4;

/// The entries of a table by their matches.
#[derive(Clone, Debug, Default)]
pub(super) struct OverlapIndex {
    groups: Vec<MaskGroup>,
    by_masks: FxHashMap<Box<[u64]>, u32>,
    /// The group that was last asked for. It is often the next one too.
    last: u32,
    /// The large groups.
    large: Vec<u32>,
    /// The members of small groups, and their matches one after the other. Most questions look at all of them.
    loose: Vec<EntryId>,
    loose_sets: Vec<u64>,
    /// The place of each entry.
    places: Vec<Stamped>,
}

/// The place of an entry. The stamp belongs to the number of the entry, and stays when the entry is removed.
#[derive(Clone, Copy, Debug, Default)]
struct Stamped {
    group: u32,
    /// The entry's index in that group or, if the group is small, among the loose ones.
    at: u32,
    /// The number of times that an entry with this number was removed.
    stamp: u32,
}

#[derive(Clone, Debug, Default)]
struct MaskGroup {
    masks: Box<[u64]>,
    size: usize,
    /// Empty while the group is small.
    members: Vec<EntryId>,
    views: Vec<GroupView>,
    /// The number of members removed since the first view was made.
    gone: usize,
    /// The way in which the group answers, by the group of the match that asks.
    view_for: FxHashMap<u32, GroupAnswer>,
}

/// The way in which a group answers matches with certain masks.
#[derive(Clone, Copy, Debug)]
enum GroupAnswer {
    /// The group answers by the view with the first number. The second number is the size of the group when that was
    /// decided.
    ByView(usize, usize),
    /// The group answers by a comparison with each member, this time.
    ByComparison,
}

#[derive(Clone, Debug)]
struct GroupView {
    masks: Masks,
    by_values: FxHashMap<u64, EqualMembers>,
}

/// The bits that count in a view, word by word.
#[derive(Clone, Debug)]
struct Masks(Box<[u64]>);

/// Members with the same values.
type EqualMembers = OneOrMany<IndexMember>;

/// An entry. It is a member as long as it has this stamp.
#[derive(Clone, Copy, Debug)]
struct IndexMember {
    entry: EntryId,
    stamp: u32,
}

impl OverlapIndex {
    /// Adds an entry whose set is in the matches.
    pub(super) fn insert(&mut self, matches: &PackedMatches, entry: EntryId) {
        let at = self.group_of(matches.get(entry));
        let group = &mut self.groups[at as usize];
        group.forget_views_of_the_gone();
        group.size += 1;
        if self.places.len() <= entry as usize {
            self.places.resize(entry as usize + 1, Stamped::default());
        }
        let place = &mut self.places[entry as usize];
        place.group = at;
        if group.members.is_empty() {
            place.at = self.loose.len() as u32;
            self.loose.push(entry);
            self.loose_sets.extend_from_slice(matches.get(entry));
            if group.size > MAX_SMALL {
                self.enlarge(matches, at);
            }
            return;
        }
        place.at = group.members.len() as u32;
        group.members.push(entry);
        let member = IndexMember { entry, stamp: place.stamp };
        group.views.iter_mut().for_each(|view| view.insert(matches.get(entry), member));
    }

    /// Removes an entry.
    pub(super) fn remove(&mut self, entry: EntryId) {
        let Stamped { group: of, at, stamp } = self.places[entry as usize];
        self.places[entry as usize].stamp = stamp.wrapping_add(1);
        let group = &mut self.groups[of as usize];
        group.size -= 1;
        let is_loose = group.members.is_empty();
        let list = if is_loose { &mut self.loose } else { &mut group.members };
        list.swap_remove(at as usize);
        if let Some(moved) = list.get(at as usize) {
            self.places[*moved as usize].at = at;
        }
        if is_loose {
            let stride = self.loose_sets.len() / (self.loose.len() + 1);
            let last = self.loose_sets.len() - stride;
            self.loose_sets.copy_within(last.., at as usize * stride);
            self.loose_sets.truncate(last);
            return;
        }
        group.gone += usize::from(!group.views.is_empty());
        if group.size == 0 {
            self.large.retain(|large| *large != of);
        }
    }

    /// Calls `seen` with each entry that overlaps a match.
    pub(super) fn overlapping(&mut self, matches: &PackedMatches, set: &[u64], mut seen: impl FnMut(EntryId)) {
        let asking = self.group_of(set);
        self.loose_overlapping(set, &mut seen);
        let OverlapIndex { groups, large, places, .. } = self;
        let mut check = |entry: &EntryId| {
            if overlap(matches.get(*entry), set) {
                seen(*entry);
            }
        };
        for at in large {
            let group = &mut groups[*at as usize];
            let Some(view) = group.view(matches, places, asking, set) else {
                group.members.iter().for_each(&mut check);
                continue;
            };
            let view = &mut group.views[view];
            if let Some(found) = view.by_values.get_mut(&view.masks.key(set)) {
                if let OneOrMany::Many(members) = found {
                    members.retain(|member| member.is_there(places));
                }
                let members = found.items().iter().filter(|member| member.is_there(places));
                members.for_each(|member| check(&member.entry));
            }
        }
    }

    /// Calls `seen` with each loose entry that overlaps a match.
    fn loose_overlapping(&self, set: &[u64], mut seen: impl FnMut(EntryId)) {
        if let Ok(set) = <&[u64; 4]>::try_from(set) {
            // The usual length needs no loop.
            let (sets, _) = self.loose_sets.as_chunks::<4>();
            let hits = self.loose.iter().zip(sets).filter(|(_, there)| overlap(&there[..], set));
            return hits.for_each(|(entry, _)| seen(*entry));
        }
        for (at, entry) in self.loose.iter().enumerate() {
            if overlap(&self.loose_sets[at * set.len()..][..set.len()], set) {
                seen(*entry);
            }
        }
    }

    /// Prefetches what [`OverlapIndex::remove`] reads of an entry.
    pub(super) fn prefetch_removal(&self, entry: EntryId) {
        prefetch(&self.places[entry as usize]);
    }

    fn group_of(&mut self, set: &[u64]) -> u32 {
        let is_same = |group: &MaskGroup| group.masks.iter().eq(set.iter().skip(1).step_by(2));
        if self.groups.get(self.last as usize).is_some_and(is_same) {
            return self.last;
        }
        self.last = self.find_group(set);
        self.last
    }

    fn find_group(&mut self, set: &[u64]) -> u32 {
        let masks: Box<[u64]> = set.iter().skip(1).step_by(2).copied().collect();
        if let Some(at) = self.by_masks.get(&masks) {
            return *at;
        }
        let at = self.groups.len() as u32;
        self.by_masks.insert(masks.clone(), at);
        self.groups.push(MaskGroup { masks, ..MaskGroup::default() });
        at
    }

    /// Moves the members of a group out of the loose ones.
    fn enlarge(&mut self, matches: &PackedMatches, at: u32) {
        let mut kept = Vec::with_capacity(self.loose.len());
        self.loose_sets.clear();
        for entry in std::mem::take(&mut self.loose) {
            let place = &mut self.places[entry as usize];
            let list = if place.group == at {
                &mut self.groups[at as usize].members
            } else {
                self.loose_sets.extend_from_slice(matches.get(entry));
                &mut kept
            };
            place.at = list.len() as u32;
            list.push(entry);
        }
        self.loose = kept;
        self.large.push(at);
    }
}

impl MaskGroup {
    /// Drops the views if more members have been removed than are left.
    fn forget_views_of_the_gone(&mut self) {
        if self.gone > self.size {
            self.views.clear();
            self.view_for.clear();
            self.gone = 0;
        }
    }

    /// Finds the view for a match of the group at `asking`. `None` if all members are to be compared.
    fn view(&mut self, matches: &PackedMatches, places: &[Stamped], asking: u32, set: &[u64]) -> Option<usize> {
        self.forget_views_of_the_gone();
        let is_first = match self.view_for.get(&asking) {
            Some(GroupAnswer::ByView(view, size)) if self.size <= 2 * *size => return Some(*view),
            Some(GroupAnswer::ByView(..) | GroupAnswer::ByComparison) => false,
            None => true,
        };
        let common: Box<[u64]> = self.masks.iter().zip(set.iter().skip(1).step_by(2)).map(|(a, b)| a & b).collect();
        if common.iter().all(|word| *word == 0) {
            return None;
        }
        let size = self.size;
        let serves = |view: &GroupView| {
            let is_part = view.masks.0.iter().zip(&common).all(|(a, b)| a & !b == 0);
            view.masks.0 == common || is_part && size <= CANDIDATES * view.by_values.len()
        };
        let at = match self.views.iter().position(serves) {
            Some(at) => at,
            None if is_first => {
                self.view_for.insert(asking, GroupAnswer::ByComparison);
                return None;
            }
            None => self.add_view(matches, places, common),
        };
        self.view_for.insert(asking, GroupAnswer::ByView(at, size));
        Some(at)
    }

    /// Makes a view, and returns its index.
    fn add_view(&mut self, matches: &PackedMatches, places: &[Stamped], masks: Box<[u64]>) -> usize {
        let by_values = FxHashMap::with_capacity_and_hasher(self.members.len(), Default::default());
        let mut view = GroupView { masks: Masks(masks), by_values };
        for entry in &self.members {
            let member = IndexMember { entry: *entry, stamp: places[*entry as usize].stamp };
            view.insert(matches.get(*entry), member);
        }
        self.views.push(view);
        self.views.len() - 1
    }
}

impl IndexMember {
    fn is_there(self, places: &[Stamped]) -> bool {
        places[self.entry as usize].stamp == self.stamp
    }
}

impl GroupView {
    fn insert(&mut self, set: &[u64], member: IndexMember) {
        self.by_values.entry(self.masks.key(set)).or_default().push(member);
    }
}

impl Masks {
    /// A hash of the values of the bits that count.
    fn key(&self, set: &[u64]) -> u64 {
        let mut hasher = FxHasher::default();
        set.iter().step_by(2).zip(&self.0).for_each(|(value, mask)| (value & mask).hash(&mut hasher));
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// Masks of two words, some of them with no bits in common.
    const MASKS: [[u64; 2]; 6] = [[0xff, 0], [0xf0, 0xf], [0, 0xff], [0xff, 0xff], [0x3c, 0xf0], [0, 0]];

    /// Stores this many sets with the first masks.
    fn store_of(count: EntryId) -> PackedMatches {
        let mut matches = PackedMatches::default();
        matches.widen(4, 0);
        (0..count).for_each(|id| matches.set(id, &set(0, id.into())));
        matches
    }

    /// A set with these masks, whose values are taken from `bits`.
    fn set(masks: usize, bits: u64) -> [u64; 4] {
        let [a, b] = MASKS[masks];
        [bits & a, a, bits >> 8 & b, b]
    }

    #[test]
    fn views_of_pieces_that_have_gone_are_dropped_when_their_group_is_asked_or_grows() {
        let (matches, mut index) = (store_of(61), OverlapIndex::default());
        let asked = set(1, 0x10);
        for is_asked in [true, false] {
            (0..60).for_each(|id| index.insert(&matches, id));
            // The second question makes a view.
            (0..2).for_each(|_| index.overlapping(&matches, &asked, |_| {}));
            let views = |index: &OverlapIndex| index.groups.iter().map(|group| group.views.len()).sum::<usize>();
            assert_eq!(views(&index), 1);
            (0..40).for_each(|id| index.remove(id));
            assert_eq!(views(&index), 1, "not while entries go");
            if is_asked {
                index.overlapping(&matches, &asked, |_| {});
            } else {
                index.insert(&matches, 60);
                index.remove(60);
            }
            assert_eq!(views(&index), 0);
            (40..60).for_each(|id| index.remove(id));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        #[test]
        fn the_index_finds_what_looking_at_each_piece_finds(
            steps in vec((0..MASKS.len(), any::<u16>(), any::<bool>()), 1..400),
            thin in any::<u16>(),
        ) {
            let (mut matches, mut index, mut there) = (PackedMatches::default(), OverlapIndex::default(), BTreeSet::new());
            let mut free = Vec::new();
            matches.widen(4, 0);
            for (number, (masks, bits, is_removed)) in steps.iter().enumerate() {
                let id = free.pop().unwrap_or(number as EntryId);
                let asked = set(*masks, u64::from(*bits));
                // There are few values, so that many sets overlap.
                matches.set(id, &set(*masks, u64::from(bits & thin)));
                index.insert(&matches, id);
                there.insert(id);
                if let Some(other) = there.range(EntryId::from(bits % 400)..).next().copied().filter(|_| *is_removed) {
                    index.remove(other);
                    there.remove(&other);
                    free.push(other);
                }
                let mut found = Vec::new();
                index.overlapping(&matches, &asked, |id| found.push(id));
                found.sort_unstable();
                let all: Vec<EntryId> = there.iter().copied().filter(|id| overlap(matches.get(*id), &asked)).collect();
                prop_assert_eq!(found, all);
            }
        }
    }
}
