//! Neighbours: which entries overlap which, in order of precedence.
//!
//! A entry that comes finds its neighbours with one question to the index, and enters their lists. One that goes is not
//! sought in the lists that it is in: each of them would have to be searched, and there are hundreds in a dense table. It
//! stays there, and whoever reads a list passes over it, since it counts for nothing ([`EntryState::Gone`]).
//!
//! New entries put lists in order. When many entries have gone a *round* begins: each entry that comes has some lists put
//! in order, from the first entry to the last. EntryTable that had gone before are in no list after the round, as no list
//! gets one that has gone, and their numbers may be given out again: so a list never names another entry than was meant. Nor
//! does the reason of a barrier, which rests on neighbours. A table that only shrinks does none of this, and needs no more
//! memory than it had.
//!
//! Where a entry that goes may have been the reason for something, that is noted for the next settling.

use super::redundancy::Necessity;
use super::{Entry, EntryId, EntryState, EntryTable};
use crate::tree::{NodeId, Tree};

/// A round begins when one in so many numbers is that of a entry that has gone.
const SHARE: usize = 8;

/// So many numbers at least have their lists put in order when a entry comes, and so many entries are looked at.
const AT_A_TIME: usize = 4;
const ENTRIES: usize = 128;

/// The entries that have gone and may be in lists still.
#[derive(Debug, Default)]
pub(super) struct OverlapLists {
    /// Those that went before the round that is under way began, and those since.
    before: Vec<EntryId>,
    since: Vec<EntryId>,
    /// Which entry's lists are the next to be put in order.
    next: EntryId,
    /// For each entry, by which number it was last marked.
    marks: Vec<u32>,
    mark: u32,
}

impl OverlapLists {
    /// Makes room for one more entry.
    pub(super) fn add(&mut self) {
        self.marks.push(0);
    }

    /// Marks these entries, and no others.
    pub(super) fn mark(&mut self, entries: &[EntryId]) {
        self.mark = self.mark.wrapping_add(1);
        if self.mark == 0 {
            self.marks.fill(0);
            self.mark = 1;
        }
        entries.iter().for_each(|id| self.marks[*id as usize] = self.mark);
    }

    pub(super) fn is_marked(&self, id: EntryId) -> bool {
        self.marks[id as usize] == self.mark
    }
}

impl EntryTable {
    pub(super) fn is_gone(&self, id: EntryId) -> bool {
        self.role(id) == EntryState::Gone
    }

    /// Finds the entries that overlap a new one, and puts it into their lists.
    pub(super) fn meet_neighbours(
        &mut self,
        tree: &Tree,
        id: EntryId,
        node: NodeId,
        set: &[u64],
    ) -> (Vec<EntryId>, Vec<EntryId>) {
        let rank = tree.rank(node);
        let (mut earlier, mut later) = (Vec::new(), Vec::new());
        let spots = &self.spots;
        let rank_of = |other: EntryId| tree.rank(spots[other as usize].node);
        self.index.overlapping(&self.store, set, |other| {
            let there = rank_of(other);
            if there < rank { earlier.push((there, other)) } else { later.push((there, other)) }
        });
        self.visited += (earlier.len() + later.len()) as u64 + 1;
        let ids = |mut ranked: Vec<(u64, EntryId)>| {
            ranked.sort_unstable();
            ranked.into_iter().map(|(_, other)| other).collect::<Vec<_>>()
        };
        let (earlier, later) = (ids(earlier), ids(later));
        for (others, is_later) in [(&earlier, true), (&later, false)] {
            for other in others {
                let there = self.entries[*other as usize].as_mut().expect("a neighbour lives");
                let list = if is_later { &mut there.later } else { &mut there.earlier };
                list.insert(place_in(list, &self.roles, |at| rank_of(at) < rank), id);
            }
        }
        (earlier, later)
    }

    /// Notes that a entry, which counted for `role`, has gone, and for which of its neighbours that may matter. What is
    /// shadowed matters to none: what covers it covers all that it might cover.
    ///
    /// Nor does a barrier that is not needed: if one before it came to be needed for a packet, being now the last entry before
    /// an answer, this one was the last before that answer, and needed. But one that is doubted is perhaps needed.
    pub(super) fn part(&mut self, id: EntryId, entry: &Entry, role: EntryState) {
        self.ties.since.push(id);
        if role == EntryState::Shadowed {
            return;
        }
        self.visited += (entry.earlier.len() + entry.later.len()) as u64 + 1;
        if self.shadowed > 0 {
            let is_shadowed = |other: &EntryId| self.roles[*other as usize] == EntryState::Shadowed;
            self.bared.extend(entry.later.iter().copied().filter(is_shadowed));
        }
        let why = self.whys[id as usize];
        // One that has changed may have been either when things were last settled.
        let has_changed = entry.was.is_some();
        if role == EntryState::Forward || has_changed || matches!(why, Necessity::AssumedRequired) {
            self.answer_fell(id, &entry.earlier, &entry.later);
        }
        if has_changed || role == EntryState::Barrier && !why.is_idle() {
            self.barrier_fell(&entry.earlier, &entry.later);
        }
    }

    /// Puts the lists of some entries in order if many entries have gone.
    pub(super) fn put_in_order(&mut self) {
        let EntryTable { entries, ties, free, whys, roles, .. } = self;
        let is_gone = |id: EntryId| roles[id as usize] == EntryState::Gone;
        if ties.before.is_empty() {
            if ties.since.len() * SHARE < entries.len() || ties.since.is_empty() {
                return;
            }
            (ties.before, ties.since) = (std::mem::take(&mut ties.since), std::mem::take(&mut ties.before));
            ties.next = 0;
        }
        let (mut numbers, mut looked) = (0, 0);
        while numbers < AT_A_TIME || looked < ENTRIES {
            let Some(entry) = entries.get_mut(ties.next as usize) else {
                free.append(&mut ties.before);
                return;
            };
            (numbers, looked) = (numbers + 1, looked + 1);
            if let Some(entry) = entry {
                looked += entry.earlier.len() + entry.later.len();
                entry.earlier.retain(|other| !is_gone(*other));
                entry.later.retain(|other| !is_gone(*other));
                let why = &mut whys[ties.next as usize];
                if matches!(*why, Necessity::Covered(by) if is_gone(by)) {
                    *why = Necessity::Nothing;
                }
            }
            ties.next += 1;
        }
    }
}

/// Where a entry comes into a list: behind all entries of which `is_first` says so. Those that have gone are not asked.
fn place_in(list: &[EntryId], roles: &[EntryState], is_first: impl Fn(EntryId) -> bool) -> usize {
    let (mut low, mut high) = (0, list.len());
    // Most come in at the end.
    let mut middle = high.saturating_sub(1);
    while low < high {
        match (middle..high).find(|at| roles[list[*at] as usize] != EntryState::Gone) {
            Some(at) if is_first(list[at]) => low = at + 1,
            Some(_) | None => high = middle,
        }
        middle = low + (high - low) / 2;
    }
    low
}

#[cfg(test)]
mod tests {
    use maple_wire::{Constraint, Field};
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::super::packed::{covers, overlap};
    use super::super::{Checks, Verdict, tree_of};
    use super::*;
    use crate::tree::LeafId;

    /// How many nodes entries may belong to: enough that lists are put in order.
    const NODES: u64 = 160;

    /// Checks the lists of all entries against comparing each two, and that numbers of entries that have gone are free only if
    /// no list and no reason names them.
    fn check(entries: &EntryTable, tree: &Tree) {
        let all = || 0..entries.entries.len() as EntryId;
        let lives = |id: &EntryId| entries.entries[*id as usize].is_some();
        let rank = |id: EntryId| entries.rank(tree, id);
        let ties = &entries.ties;
        let is_kept = |id: &EntryId| ties.before.contains(id) || ties.since.contains(id);
        for id in all().filter(lives) {
            let meets = |other: &EntryId| overlap(entries.store.get(id), entries.store.get(*other));
            let mut others: Vec<EntryId> = all().filter(lives).filter(|other| *other != id && meets(other)).collect();
            others.sort_by_key(|other| rank(*other));
            let (earlier, later): (Vec<_>, Vec<_>) = others.iter().partition(|other| rank(**other) < rank(id));
            let entry = entries.entry(id);
            assert!(entry.earlier.iter().copied().filter(lives).eq(earlier));
            assert!(entry.later.iter().copied().filter(lives).eq(later));
            let mut gone = entry.earlier.iter().chain(&entry.later).filter(|other| !lives(other));
            assert!(gone.all(is_kept));
            if let (EntryState::Barrier, Necessity::Covered(by)) = (entries.role(id), entries.whys[id as usize]) {
                assert!(is_kept(&by) || lives(&by) && covers(entries.store.get(by), entries.store.get(id)));
            }
        }
        let mut kept: Vec<EntryId> = entries.free.iter().chain(&ties.before).chain(&ties.since).copied().collect();
        kept.sort_unstable();
        assert!(kept.into_iter().eq(all().filter(|id| !lives(id))), "each number of none is kept once");
        assert!(all().all(|id| lives(&id) != entries.is_gone(id)));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(15))]

        #[test]
        fn lists_name_all_neighbours_and_numbers_that_no_list_names_are_free(
            steps in vec((0..NODES, any::<u8>(), prop::sample::select(vec![0u8, 0, 1, 3, 0x83]), 0..20u8), 1..500),
        ) {
            let (tree, mut entries) = (tree_of(NODES), EntryTable::new(&(1..=u16::MAX)));
            let mut there = vec![None; NODES as usize];
            for (at, (node, value, mask, action)) in steps.into_iter().enumerate() {
                let slot: &mut Option<EntryId> = &mut there[node as usize];
                if let Some(id) = slot.take() {
                    entries.remove(id);
                } else {
                    let (mask, value) = (u128::from(mask), u128::from(value & mask));
                    let all = [Constraint { field: Field::IpProto, value, mask }];
                    let says = if action < 10 { Verdict::Forward(entries.name(Vec::new())) } else { Verdict::Unexplored };
                    let place = tree.leaf_node(LeafId(node)).expect("the leaf is there");
                    *slot = Some(entries.insert(&tree, &all[..usize::from(mask != 0)], place, None, says));
                }
                if at % 3 == 0 {
                    entries.recompute(&tree, if at % 2 == 0 { Checks::Now } else { Checks::Deferred });
                    check(&entries, &tree);
                }
            }
        }
    }
}
