//! Neighbours: which pieces overlap which, in order of precedence.
//!
//! A piece that comes finds its neighbours with one question to the index; one that goes leaves the lists of all that it
//! was in, and where it may have been the reason for something, that is noted for the next settling.

use super::needs::Why;
use super::{Piece, PieceId, Pieces, Role};
use crate::tree::{NodeId, Tree};

/// How many pieces of a list are compared at a time.
const AT_A_TIME: usize = 32;

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
        for (others, is_later) in [(&earlier, true), (&later, false)] {
            for other in others {
                let there = self.pieces[*other as usize].as_mut().expect("a neighbour lives");
                let list = if is_later { &mut there.later } else { &mut there.earlier };
                let at = match list.last() {
                    Some(last) if rank_of(*last) > rank => list.partition_point(|at| rank_of(*at) < rank),
                    _ => list.len(),
                };
                list.insert(at, id);
            }
        }
        (earlier, later)
    }

    /// Takes a piece that is gone out of its neighbours' lists, and notes for which of them that may matter.
    pub(super) fn part(&mut self, id: PieceId, piece: &Piece, role: Role) {
        self.visited += (piece.earlier.len() + piece.later.len()) as u64 + 1;
        let behind = self.with_roles(&piece.later);
        for other in &piece.earlier {
            let there = self.pieces[*other as usize].as_mut().expect("a neighbour lives");
            let at = take_out(&mut there.later, id);
            let is_lost = self.roles[*other as usize] == Role::Barrier && loses_later(there, id, at, role);
            if is_lost && (there.why.names(id) || self.may_be_taken(*other, &behind)) {
                self.doubtful.insert(*other);
                // What is named may be gone. A need stays until it is looked at: so it is seen whether that changes.
                let there = self.piece_mut(*other);
                if !there.why.is_needed() {
                    there.why = Why::Nothing;
                }
            }
        }
        for (at, (other, _)) in behind.iter().enumerate() {
            let there = self.pieces[*other as usize].as_mut().expect("a neighbour lives");
            take_out(&mut there.earlier, id);
            if there.shadowed {
                self.bared.insert(*other);
            } else if role == Role::Answer
                && self.role(*other) == Role::Barrier
                && self.may_be_taken(*other, &behind[at + 1..])
            {
                self.doubtful.insert(*other);
            }
        }
    }
}

/// Whether a barrier may be needed otherwise now that the piece `id`, which stood at `at` among the later ones and
/// counted for `role`, is gone.
fn loses_later(barrier: &Piece, id: PieceId, at: usize, role: Role) -> bool {
    if role == Role::Nothing {
        return false;
    }
    match &barrier.why {
        Why::Needed { answer, .. } => *answer == id,
        // What lies behind the one that stands for it does not matter.
        Why::Covered(by) => *by == id || !barrier.later[..at].contains(by),
        Why::Nothing => true,
    }
}

/// Takes a piece out of a list, and says where it stood.
fn take_out(list: &mut Vec<PieceId>, id: PieceId) -> usize {
    let at = place_of(list, id).expect("neighbours know each other");
    list.remove(at);
    at
}

/// Where a piece stands in a list; sought from the end, many at a time, which is what most of a removal is.
fn place_of(list: &[PieceId], id: PieceId) -> Option<usize> {
    let mut end = list.len();
    for chunk in list.rchunks(AT_A_TIME) {
        end -= chunk.len();
        if chunk.contains(&id) {
            return chunk.iter().position(|other| *other == id).map(|at| end + at);
        }
    }
    None
}
