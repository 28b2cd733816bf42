//! Neighbours: which pieces overlap which, in order of precedence.
//!
//! A piece that comes finds its neighbours with one question to the index, and enters their lists. One that goes is not
//! sought in the lists that it is in: each of them would have to be searched, and there are hundreds in a dense table. Its
//! neighbours only count one more that has gone. Whoever reads a list passes over those, which count for nothing
//! ([`Role::Nothing`]); a piece of whose neighbours half have gone has its lists put in order. The number of a piece is
//! given out again when it is in no list any more: so a list never names another piece than was meant.
//!
//! Where a piece that goes may have been the reason for something, that is noted for the next settling.

use super::needs::Why;
use super::{Piece, PieceId, Pieces, Role};
use crate::tree::{NodeId, Tree};

/// Which number of a piece's neighbours must have gone before its lists are perhaps put in order; and each multiple of it.
const MANY: u32 = 32;

/// Set in the tie of a piece that has gone.
const GONE: u32 = 1 << 31;

/// How pieces hang together with pieces that have gone.
#[derive(Debug, Default)]
pub(super) struct Ties {
    /// Of a piece: how many in its lists have gone. Of one that has gone: in how many lists it is, and [`GONE`].
    ties: Vec<u32>,
    /// For each piece, by which number it was last marked.
    marks: Vec<u32>,
    mark: u32,
}

impl Ties {
    /// Makes room for one more piece.
    pub(super) fn add(&mut self) {
        self.ties.push(0);
        self.marks.push(0);
    }

    /// Reads the tie of a piece.
    pub(super) fn touch(&self, id: PieceId) -> u32 {
        self.ties[id as usize]
    }

    fn is_gone(&self, id: PieceId) -> bool {
        self.ties[id as usize] & GONE != 0
    }

    /// Takes a piece that has gone out of one list. Says whether it was the last.
    fn untie(&mut self, id: PieceId) -> bool {
        self.ties[id as usize] -= 1;
        self.ties[id as usize] == GONE
    }

    /// Marks these pieces, and no others.
    fn mark(&mut self, pieces: &[PieceId]) {
        self.mark = self.mark.wrapping_add(1);
        if self.mark == 0 {
            self.marks.fill(0);
            self.mark = 1;
        }
        pieces.iter().for_each(|id| self.marks[*id as usize] = self.mark);
    }

    fn is_marked(&self, id: PieceId) -> bool {
        self.marks[id as usize] == self.mark
    }
}

impl Pieces {
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
        self.ties.ties[id as usize] = 0;
        for (others, is_later) in [(&earlier, true), (&later, false)] {
            for other in others {
                let there = self.pieces[*other as usize].as_mut().expect("a neighbour lives");
                let list = if is_later { &mut there.later } else { &mut there.earlier };
                list.insert(place_in(list, &self.ties, |at| rank_of(at) < rank), id);
            }
        }
        (earlier, later)
    }

    /// Notes that a piece, which counted for `role`, has gone, and for which of its neighbours that may matter.
    pub(super) fn part(&mut self, id: PieceId, piece: &Piece, role: Role) {
        self.visited += (piece.earlier.len() + piece.later.len()) as u64 + 1;
        self.leave_lists(id, piece);
        let behind = self.with_roles(&piece.later);
        if role != Role::Nothing {
            self.ties.mark(&piece.later);
            for other in &piece.earlier {
                let why = self.whys[*other as usize];
                if self.role(*other) == Role::Barrier && self.loses_later(*other, why, id, &behind) {
                    self.doubtful.push(*other);
                    // What is named may be gone. A need stays until it is looked at: so it is seen whether that changes.
                    if !why.is_needed() {
                        self.whys[*other as usize] = Why::Nothing;
                    }
                }
            }
        }
        for other in &piece.later {
            if self.role(*other) == Role::Nothing && !self.ties.is_gone(*other) {
                self.bared.push(*other);
            }
        }
        if role == Role::Answer {
            for (at, (other, counts)) in behind.iter().enumerate() {
                if *counts == Role::Barrier && self.may_be_taken(*other, &behind[at + 1..]) {
                    self.doubtful.push(*other);
                }
            }
        }
    }

    /// Counts a piece that goes with each of its neighbours, and puts the lists of some in order.
    fn leave_lists(&mut self, id: PieceId, piece: &Piece) {
        let (mut lists, mut crowded) = (0, Vec::new());
        for other in piece.earlier.iter().chain(&piece.later) {
            if self.ties.is_gone(*other) {
                if self.ties.untie(*other) {
                    self.free.push(*other);
                }
                continue;
            }
            lists += 1;
            let gone = &mut self.ties.ties[*other as usize];
            *gone += 1;
            if gone.is_multiple_of(MANY) {
                crowded.push(*other);
            }
        }
        self.ties.ties[id as usize] = GONE | lists;
        if lists == 0 {
            self.free.push(id);
        }
        crowded.into_iter().for_each(|other| self.put_in_order(other));
    }

    /// Takes what has gone out of a piece's lists if that is half of them.
    fn put_in_order(&mut self, id: PieceId) {
        let Pieces { pieces, ties, free, .. } = self;
        let piece = pieces[id as usize].as_mut().expect("a neighbour lives");
        if (ties.ties[id as usize] as usize) < (piece.earlier.len() + piece.later.len()) / 2 {
            return;
        }
        let mut stays = |other: &PieceId| {
            let is_gone = ties.is_gone(*other);
            if is_gone && ties.untie(*other) {
                free.push(*other);
            }
            !is_gone
        };
        piece.earlier.retain(&mut stays);
        piece.later.retain(&mut stays);
        ties.ties[id as usize] = 0;
    }

    /// Whether a barrier may be needed otherwise now that a later piece is gone. What lies behind that is `behind`, and
    /// marked.
    fn loses_later(&self, barrier: PieceId, why: Why, gone: PieceId, behind: &[(PieceId, Role)]) -> bool {
        match why {
            Why::Needed(answer) => answer == gone,
            // What lies behind the one that stands for it does not matter. That one covers the barrier, so it overlaps what
            // is gone.
            Why::Covered(by) => by == gone || self.ties.is_marked(by) && self.may_be_taken(barrier, behind),
            Why::Nothing => self.may_be_taken(barrier, behind),
        }
    }
}

/// Where a piece comes into a list: behind all pieces of which `is_first` says so. Those that have gone are not asked.
fn place_in(list: &[PieceId], ties: &Ties, is_first: impl Fn(PieceId) -> bool) -> usize {
    let (mut low, mut high) = (0, list.len());
    // Most come in at the end.
    let mut middle = high.saturating_sub(1);
    while low < high {
        match (middle..high).find(|at| !ties.is_gone(list[*at])) {
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

    use super::super::sets::overlap;
    use super::super::{Says, Tidy};
    use super::*;
    use crate::trace::Item;
    use crate::tree::LeafId;

    /// How many nodes pieces may belong to: enough that lists are put in order.
    const NODES: u64 = 160;

    fn tree() -> Tree {
        let mut tree = Tree::new();
        for node in 0..NODES {
            let read = Item::Read(Constraint::exact(Field::Ipv4Src, node.into()));
            tree.augment(&[read], LeafId(node));
        }
        tree
    }

    /// Checks the lists of all pieces against comparing each two, and what is known of those that have gone against all
    /// lists.
    fn check(pieces: &Pieces, tree: &Tree) {
        let all = || 0..pieces.pieces.len() as PieceId;
        let lives = |id: &PieceId| pieces.pieces[*id as usize].is_some();
        let rank = |id: PieceId| pieces.rank(tree, id);
        let mut named = vec![0; pieces.pieces.len()];
        for id in all().filter(lives) {
            let meets = |other: &PieceId| overlap(pieces.store.get(id), pieces.store.get(*other));
            let mut others: Vec<PieceId> = all().filter(lives).filter(|other| *other != id && meets(other)).collect();
            others.sort_by_key(|other| rank(*other));
            let (earlier, later): (Vec<_>, Vec<_>) = others.iter().partition(|other| rank(**other) < rank(id));
            let piece = pieces.piece(id);
            assert!(piece.earlier.iter().copied().filter(lives).eq(earlier));
            assert!(piece.later.iter().copied().filter(lives).eq(later));
            let gone = piece.earlier.iter().chain(&piece.later).filter(|other| !lives(other));
            assert_eq!(
                pieces.ties.ties[id as usize] as usize,
                gone.inspect(|other| named[**other as usize] += 1).count()
            );
        }
        for id in all().filter(|id| !lives(id)) {
            assert_eq!(pieces.ties.ties[id as usize], GONE | named[id as usize]);
            assert_eq!(pieces.free.iter().filter(|free| **free == id).count(), usize::from(named[id as usize] == 0));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(15))]

        #[test]
        fn lists_name_all_neighbours_and_numbers_that_no_list_names_are_free(
            steps in vec((0..NODES, any::<u8>(), prop::sample::select(vec![0u8, 0, 1, 3, 0x83]), 0..20u8), 1..500),
        ) {
            let (tree, mut pieces) = (tree(), Pieces::new(&(1..=u16::MAX)));
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
