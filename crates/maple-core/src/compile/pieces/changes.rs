//! From pieces to rules, and what has changed in them since that was last asked.

use maple_wire::{Constraint, Match, MatchField};

use super::actions::ActionId;
use super::{PieceId, Pieces, Word};
use crate::compile::{Rule, to_controller};
use crate::tree::LeafId;
use crate::update::{Change, changes_of};

/// What distinguishes the rules that a piece may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Taken {
    priority: u16,
    /// `None` is to the controller.
    action: Option<ActionId>,
    leaf: Option<LeafId>,
}

impl Pieces {
    /// The rules as they are, by falling priority.
    pub(in crate::compile) fn rules(&self, cookie: &dyn Fn(Option<LeafId>) -> u64) -> Vec<Rule> {
        let ids = (0..self.pieces.len() as PieceId).filter(|id| self.pieces[*id as usize].is_some());
        let rule = |id| Some(self.rule(self.store.get(id), self.wanted(id)?, cookie));
        let mut rules: Vec<Rule> = ids.filter_map(rule).collect();
        let key = |rule: &Rule| (std::cmp::Reverse(rule.priority), rule.matching.constraints().copied().collect());
        rules.sort_by_cached_key(|rule| -> (_, Vec<Constraint>) { key(rule) });
        rules
    }

    /// What has changed since this was last asked, in an order whose every prefix is safe.
    pub(in crate::compile) fn take_changes(&mut self, cookie: &dyn Fn(Option<LeafId>) -> u64) -> Vec<Change> {
        let (mut old, mut new) = (Vec::new(), Vec::new());
        for (set, taken) in std::mem::take(&mut self.gone) {
            old.push(self.rule(&set, taken, cookie));
            self.actions.release(taken.word());
        }
        let mut changed = std::mem::take(&mut self.changed);
        for id in changed.drain(..) {
            // A piece that has gone may have left its number to another.
            let Some(piece) = self.pieces[id as usize].as_mut().filter(|piece| piece.changed) else { continue };
            piece.changed = false;
            let wanted = self.wanted(id);
            let taken = std::mem::replace(&mut self.piece_mut(id).taken, wanted);
            if taken == wanted {
                continue;
            }
            let set = self.store.get(id);
            new.extend(wanted.map(|wanted| self.rule(set, wanted, cookie)));
            old.extend(taken.map(|taken| self.rule(set, taken, cookie)));
            wanted.into_iter().for_each(|wanted| self.actions.hold(wanted.word()));
            taken.into_iter().for_each(|taken| self.actions.release(taken.word()));
        }
        self.changed = changed;
        let changes = changes_of(old, new);
        self.levels.send(changes.len());
        changes
    }

    /// The rule that a piece should have.
    fn wanted(&self, id: PieceId) -> Option<Taken> {
        let piece = self.piece(id);
        let spot = self.spot(id);
        let action = match spot.says {
            Word::Answer(action) => Some(action),
            Word::Unknown | Word::Partial => None,
        };
        let is_rule = self.is_rule(id) && spot.is_placed() && self.levels.has(spot.level);
        is_rule.then(|| Taken { priority: self.levels.priority(spot.level), action, leaf: piece.leaf })
    }

    fn rule(&self, set: &[u64], taken: Taken, cookie: &dyn Fn(Option<LeafId>) -> u64) -> Rule {
        let Taken { priority, action, leaf } = taken;
        let instructions = action.map_or_else(to_controller, |action| self.actions.get(action).to_vec());
        let matching = Match { fields: self.layout.unpack(set).map(MatchField::Known).collect() };
        Rule { priority, matching, instructions, cookie: cookie(leaf) }
    }
}

impl Taken {
    /// Its answer, as far as that is held.
    pub(super) fn word(self) -> Word {
        self.action.map_or(Word::Unknown, Word::Answer)
    }
}
