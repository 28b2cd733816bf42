//! Which pieces are shadowed: covered altogether by earlier ones, so that no packet gets to them.

use super::sets::{covers, uncovered};
use super::{PieceId, Pieces, Role, Says};
use crate::tree::Tree;

impl Pieces {
    /// Finds out which of the new and bared pieces earlier ones cover, and which later ones new ones cover.
    pub(super) fn settle_shadows(&mut self, tree: &Tree) {
        let mut open = self.turns.take();
        let is_new = |pieces: &Pieces, id: PieceId| pieces.piece(id).was == Some(Role::Nothing);
        let bared = self.bared.iter().copied().filter(|id| self.pieces[*id as usize].is_some());
        let fresh = self.touched.iter().copied().filter(|id| is_new(self, *id)).chain(bared);
        fresh.for_each(|id| open.insert((self.rank(tree, id), id)));
        while let Some(id) = open.pop_first() {
            let piece = self.piece(id);
            let (was_there, set) = (!is_new(self, id) && !piece.shadowed, self.store.get(id));
            let before: Vec<PieceId> = piece.earlier.iter().copied().filter(|o| self.role(*o).counts()).collect();
            let shadowed = !before.is_empty() && uncovered(&self.store, set, &before).is_none();
            self.visited += before.len() as u64 + 1;
            self.shadow(id, shadowed);
            if shadowed || was_there {
                continue;
            }
            let (piece, set) = (self.piece(id), self.store.get(id));
            for other in &piece.later {
                if !self.role(*other).counts() {
                    continue;
                }
                if self.spot(*other).says == Says::Partial || covers(set, self.store.get(*other)) {
                    open.insert((self.rank(tree, *other), *other));
                }
            }
        }
        self.turns = open;
    }

    fn shadow(&mut self, id: PieceId, shadowed: bool) {
        if self.piece(id).shadowed != shadowed {
            self.touch(id);
            self.piece_mut(id).shadowed = shadowed;
            self.note_role(id);
        }
    }
}
