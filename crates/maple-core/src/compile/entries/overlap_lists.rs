//! Neighbours: which pieces overlap which, in order of precedence.
//!
//! A piece that comes finds its neighbours with one question to the index, and enters their lists. One that goes is not
//! sought in the lists that it is in: each of them would have to be searched, and there are hundreds in a dense table. It
//! stays there, and whoever reads a list passes over it, since it counts for nothing ([`Role::Gone`]).
//!
//! New pieces put lists in order. When many pieces have gone a *round* begins: each piece that comes has some lists put
//! in order, from the first piece to the last. Pieces that had gone before are in no list after the round, as no list
//! gets one that has gone, and their numbers may be given out again: so a list never names another piece than was meant. Nor
//! does the reason of a barrier, which rests on neighbours. A table that only shrinks does none of this, and needs no more
//! memory than it had.
//!
//! Where a piece that goes may have been the reason for something, that is noted for the next settling.

use super::needs::Why;
use super::{Piece, PieceId, Pieces, Role};
use crate::tree::{NodeId, Tree};

/// A round begins when one in so many numbers is that of a piece that has gone.
const SHARE: usize = 8;

/// So many numbers at least have their lists put in order when a piece comes, and so many entries are looked at.
const AT_A_TIME: usize = 4;
const ENTRIES: usize = 128;

/// The pieces that have gone and may be in lists still.
#[derive(Debug, Default)]
pub(super) struct Ties {
    /// Those that went before the round that is under way began, and those since.
    before: Vec<PieceId>,
    since: Vec<PieceId>,
    /// Which piece's lists are the next to be put in order.
    next: PieceId,
    /// For each piece, by which number it was last marked.
    marks: Vec<u32>,
    mark: u32,
}

impl Ties {
    /// Makes room for one more piece.
    pub(super) fn add(&mut self) {
        self.marks.push(0);
    }

    /// Marks these pieces, and no others.
    pub(super) fn mark(&mut self, pieces: &[PieceId]) {
        self.mark = self.mark.wrapping_add(1);
        if self.mark == 0 {
            self.marks.fill(0);
            self.mark = 1;
        }
        pieces.iter().for_each(|id| self.marks[*id as usize] = self.mark);
    }

    pub(super) fn is_marked(&self, id: PieceId) -> bool {
        self.marks[id as usize] == self.mark
    }
}

impl Pieces {
    pub(super) fn is_gone(&self, id: PieceId) -> bool {
        self.role(id) == Role::Gone
    }

    /// Finds the pieces that overlap a new one, and puts it into their lists.
    pub(super) fn meet_neighbours(
        &mut self,
        tree: &Tree,
        id: PieceId,
        node: NodeId,
        set: &[u64],
    ) -> (Vec<PieceId>, Vec<PieceId>) {
        let rank = tree.rank(node);
        let (mut earlier, mut later) = (Vec::new(), Vec::new());
        let spots = &self.spots;
        let rank_of = |other: PieceId| tree.rank(spots[other as usize].node);
        self.index.overlapping(&self.store, set, |other| {
            let there = rank_of(other);
            if there < rank { earlier.push((there, other)) } else { later.push((there, other)) }
        });
        self.visited += (earlier.len() + later.len()) as u64 + 1;
        let ids = |mut ranked: Vec<(u64, PieceId)>| {
            ranked.sort_unstable();
            ranked.into_iter().map(|(_, other)| other).collect::<Vec<_>>()
        };
        let (earlier, later) = (ids(earlier), ids(later));
        for (others, is_later) in [(&earlier, true), (&later, false)] {
            for other in others {
                let there = self.pieces[*other as usize].as_mut().expect("a neighbour lives");
                let list = if is_later { &mut there.later } else { &mut there.earlier };
                list.insert(place_in(list, &self.roles, |at| rank_of(at) < rank), id);
            }
        }
        (earlier, later)
    }

    /// Notes that a piece, which counted for `role`, has gone, and for which of its neighbours that may matter. What is
    /// shadowed matters to none: what covers it covers all that it might cover.
    ///
    /// Nor does a barrier that is not needed: if one before it came to be needed for a packet, being now the last piece before
    /// an answer, this one was the last before that answer, and needed. But one that is doubted is perhaps needed.
    pub(super) fn part(&mut self, id: PieceId, piece: &Piece, role: Role) {
        self.ties.since.push(id);
        if role == Role::Nothing {
            return;
        }
        self.visited += (piece.earlier.len() + piece.later.len()) as u64 + 1;
        if self.shadowed > 0 {
            let is_shadowed = |other: &PieceId| self.roles[*other as usize] == Role::Nothing;
            self.bared.extend(piece.later.iter().copied().filter(is_shadowed));
        }
        let why = self.whys[id as usize];
        // One that has changed may have been either when things were last settled.
        let has_changed = piece.was.is_some();
        if role == Role::Answer || has_changed || matches!(why, Why::Presumed) {
            self.answer_fell(id, &piece.earlier, &piece.later);
        }
        if has_changed || role == Role::Barrier && !why.is_idle() {
            self.barrier_fell(&piece.earlier, &piece.later);
        }
    }

    /// Puts the lists of some pieces in order if many pieces have gone.
    pub(super) fn put_in_order(&mut self) {
        let Pieces { pieces, ties, free, whys, roles, .. } = self;
        let is_gone = |id: PieceId| roles[id as usize] == Role::Gone;
        if ties.before.is_empty() {
            if ties.since.len() * SHARE < pieces.len() || ties.since.is_empty() {
                return;
            }
            (ties.before, ties.since) = (std::mem::take(&mut ties.since), std::mem::take(&mut ties.before));
            ties.next = 0;
        }
        let (mut numbers, mut entries) = (0, 0);
        while numbers < AT_A_TIME || entries < ENTRIES {
            let Some(piece) = pieces.get_mut(ties.next as usize) else {
                free.append(&mut ties.before);
                return;
            };
            (numbers, entries) = (numbers + 1, entries + 1);
            if let Some(piece) = piece {
                entries += piece.earlier.len() + piece.later.len();
                piece.earlier.retain(|other| !is_gone(*other));
                piece.later.retain(|other| !is_gone(*other));
                let why = &mut whys[ties.next as usize];
                if matches!(*why, Why::Covered(by) if is_gone(by)) {
                    *why = Why::Nothing;
                }
            }
            ties.next += 1;
        }
    }
}

/// Where a piece comes into a list: behind all pieces of which `is_first` says so. Those that have gone are not asked.
fn place_in(list: &[PieceId], roles: &[Role], is_first: impl Fn(PieceId) -> bool) -> usize {
    let (mut low, mut high) = (0, list.len());
    // Most come in at the end.
    let mut middle = high.saturating_sub(1);
    while low < high {
        match (middle..high).find(|at| roles[list[*at] as usize] != Role::Gone) {
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

    use super::super::sets::{covers, overlap};
    use super::super::{Says, Tidy, tree_of};
    use super::*;
    use crate::tree::LeafId;

    /// How many nodes pieces may belong to: enough that lists are put in order.
    const NODES: u64 = 160;

    /// Checks the lists of all pieces against comparing each two, and that numbers of pieces that have gone are free only if
    /// no list and no reason names them.
    fn check(pieces: &Pieces, tree: &Tree) {
        let all = || 0..pieces.pieces.len() as PieceId;
        let lives = |id: &PieceId| pieces.pieces[*id as usize].is_some();
        let rank = |id: PieceId| pieces.rank(tree, id);
        let ties = &pieces.ties;
        let is_kept = |id: &PieceId| ties.before.contains(id) || ties.since.contains(id);
        for id in all().filter(lives) {
            let meets = |other: &PieceId| overlap(pieces.store.get(id), pieces.store.get(*other));
            let mut others: Vec<PieceId> = all().filter(lives).filter(|other| *other != id && meets(other)).collect();
            others.sort_by_key(|other| rank(*other));
            let (earlier, later): (Vec<_>, Vec<_>) = others.iter().partition(|other| rank(**other) < rank(id));
            let piece = pieces.piece(id);
            assert!(piece.earlier.iter().copied().filter(lives).eq(earlier));
            assert!(piece.later.iter().copied().filter(lives).eq(later));
            let mut gone = piece.earlier.iter().chain(&piece.later).filter(|other| !lives(other));
            assert!(gone.all(is_kept));
            if let (Role::Barrier, Why::Covered(by)) = (pieces.role(id), pieces.whys[id as usize]) {
                assert!(is_kept(&by) || lives(&by) && covers(pieces.store.get(by), pieces.store.get(id)));
            }
        }
        let mut kept: Vec<PieceId> = pieces.free.iter().chain(&ties.before).chain(&ties.since).copied().collect();
        kept.sort_unstable();
        assert!(kept.into_iter().eq(all().filter(|id| !lives(id))), "each number of none is kept once");
        assert!(all().all(|id| lives(&id) != pieces.is_gone(id)));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(15))]

        #[test]
        fn lists_name_all_neighbours_and_numbers_that_no_list_names_are_free(
            steps in vec((0..NODES, any::<u8>(), prop::sample::select(vec![0u8, 0, 1, 3, 0x83]), 0..20u8), 1..500),
        ) {
            let (tree, mut pieces) = (tree_of(NODES), Pieces::new(&(1..=u16::MAX)));
            let mut there = vec![None; NODES as usize];
            for (at, (node, value, mask, action)) in steps.into_iter().enumerate() {
                let slot: &mut Option<PieceId> = &mut there[node as usize];
                if let Some(id) = slot.take() {
                    pieces.remove(id);
                } else {
                    let (mask, value) = (u128::from(mask), u128::from(value & mask));
                    let all = [Constraint { field: Field::IpProto, value, mask }];
                    let says = if action < 10 { Says::Answer(pieces.name(Vec::new())) } else { Says::Unknown };
                    let place = tree.leaf_node(LeafId(node)).expect("the leaf is there");
                    *slot = Some(pieces.insert(&tree, &all[..usize::from(mask != 0)], place, None, says));
                }
                if at % 3 == 0 {
                    pieces.settle(&tree, if at % 2 == 0 { Tidy::AtOnce } else { Tidy::InTurn });
                    check(&pieces, &tree);
                }
            }
        }
    }
}
