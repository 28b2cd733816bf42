//! The pieces of a table: matches in an order of precedence, their levels, and which of them are rules.
//!
//! # What
//!
//! A *piece* is a match that belongs to a node of the tree. It is an *answer* (a leaf's instructions) or a *barrier*: a
//! yes-side that is unexplored, or known in part. Pieces take precedence as their nodes do ([`Tree::rank`]). A piece
//! that earlier ones cover altogether is *shadowed*, and counts for nothing.
//!
//! * *Levels* (`levels.rs`): of two pieces that overlap, the earlier one has the smaller number. Two answers that do the
//!   same may share one; two barriers over explored yes-sides need no order.
//! * *Rules* (`needs.rs`): every answer is a rule. A barrier is one where it is *needed*: where a packet of it finds
//!   behind it an answer as the very next piece that takes it, and before it no answer at all. So of several barriers
//!   over a packet the last one stands for all, and a wide one for the narrow ones before it.
//!
//! # Why it is correct
//!
//! Let `x1, x2, …` be the pieces that take a packet, in order of precedence. The packet is to get what `x1` says, or go
//! to the controller. If `x1` is an answer, it is a rule, and what lies below it or does the same can't contradict it.
//! If `x1` is a barrier, let `xm` be the first answer; then `x(m-1)` is a barrier and is needed, so it is a rule, above
//! `xm` and all later answers. If there is no answer, no rule but a barrier takes the packet. Pieces below the lowest
//! priority are no rules; all that must yield to them lies lower still.
//!
//! # Cost
//!
//! [`Pieces::settle`] looks at the pieces that came, went or changed and at those that overlap them. How much that was
//! is counted in [`Pieces::visited`].

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::sync::Arc;

use maple_wire::{Constraint, Instruction, Match};
use rustc_hash::FxHashMap;

use super::{Rule, to_controller};
use crate::tree::{LeafId, NodeId, Tree};
use crate::update::{Change, changes};

mod index;
mod levels;
mod needs;
mod sets;

use index::Index;
use sets::{covers, uncovered};

/// Names a piece while it lives.
pub(super) type PieceId = u32;

/// What a piece says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Says {
    /// Nobody knows yet; it may become an answer.
    Unknown,
    /// The controller knows more than a match can say.
    Partial,
    /// The leaf's instructions.
    Answer(Arc<[Instruction]>),
}

/// What a piece counts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Nothing,
    Barrier,
    Answer,
}

#[derive(Debug)]
struct Piece {
    all: Box<[Constraint]>,
    node: NodeId,
    leaf: Option<LeafId>,
    says: Says,
    /// From 0 at the top.
    level: u32,
    shadowed: bool,
    need: Option<Need>,
    /// The rule that stood for it when changes were last taken.
    taken: Option<Rule>,
}

/// Why a barrier is a rule.
#[derive(Debug)]
struct Need {
    /// Packets that would otherwise go to `answer`.
    packets: Vec<Constraint>,
    answer: PieceId,
}

/// The level of a piece that has none yet.
const UNPLACED: u32 = u32::MAX;

/// The pieces of a table.
#[derive(Debug)]
pub(super) struct Pieces {
    pieces: Vec<Option<Piece>>,
    free: Vec<PieceId>,
    index: Index,
    levels: levels::Levels,
    /// Pieces that came or changed since the last settling, and what they counted for before.
    touched: BTreeMap<PieceId, Role>,
    /// Pieces that may be shadowed no more.
    bared: BTreeSet<PieceId>,
    /// Barriers of which it is to be seen whether they are needed.
    doubtful: BTreeSet<PieceId>,
    /// The places of pieces that went: a piece with the same match takes the level.
    vacant: Vec<(Box<[Constraint]>, u32)>,
    /// Pieces whose rules may have changed since changes were last taken.
    changed: BTreeSet<PieceId>,
    /// Rules of pieces that are gone.
    gone: Vec<Rule>,
    /// The pieces around those that were looked at, as long as none comes or goes.
    around: FxHashMap<PieceId, Arc<[PieceId]>>,
    /// How many pieces were looked at.
    visited: u64,
}

impl Pieces {
    /// No pieces, for a table with these priorities.
    pub(super) fn new(priorities: &RangeInclusive<u16>) -> Pieces {
        Pieces {
            pieces: Vec::new(),
            free: Vec::new(),
            index: Index::default(),
            levels: levels::Levels::new(priorities),
            touched: BTreeMap::new(),
            bared: BTreeSet::new(),
            doubtful: BTreeSet::new(),
            vacant: Vec::new(),
            changed: BTreeSet::new(),
            gone: Vec::new(),
            around: FxHashMap::default(),
            visited: 0,
        }
    }

    /// Puts a piece in. The match has at most one constraint a field, in OXM order.
    pub(super) fn insert(&mut self, all: Vec<Constraint>, node: NodeId, leaf: Option<LeafId>, says: Says) -> PieceId {
        let all = all.into_boxed_slice();
        let id = self.free.pop().unwrap_or_else(|| {
            self.pieces.push(None);
            PieceId::try_from(self.pieces.len() - 1).expect("a table has fewer than 2^32 pieces")
        });
        self.around.clear();
        self.index.insert(&all, id);
        let piece = Piece { all, node, leaf, says, level: UNPLACED, shadowed: false, need: None, taken: None };
        self.pieces[id as usize] = Some(piece);
        self.touched.insert(id, Role::Nothing);
        id
    }

    /// Whether this is the match of a piece.
    pub(super) fn is(&self, id: PieceId, all: &[Constraint]) -> bool {
        *self.piece(id).all == *all
    }

    /// Has a piece say something else, or lead to another leaf.
    pub(super) fn say(&mut self, id: PieceId, leaf: Option<LeafId>, says: Says) {
        let role = self.role(id);
        let piece = self.piece_mut(id);
        if piece.says == says && piece.leaf == leaf {
            return;
        }
        (piece.leaf, piece.says) = (leaf, says);
        self.touched.entry(id).or_insert(role);
    }

    /// Takes a piece out.
    pub(super) fn remove(&mut self, id: PieceId) {
        let role = self.role(id);
        let around = self.overlapping(id);
        let Some(piece) = self.pieces[id as usize].take() else { return };
        self.around.clear();
        self.index.remove(&piece.all, id);
        self.free.push(id);
        for other in around.iter().copied() {
            let there = self.piece(other);
            if there.shadowed {
                self.bared.insert(other);
            } else if role != Role::Nothing && self.role(other) == Role::Barrier {
                let lost = there.need.as_ref().is_none_or(|need| need.answer == id);
                if lost {
                    self.doubtful.insert(other);
                }
            }
        }
        self.gone.extend(piece.taken);
        if piece.level != UNPLACED {
            self.levels.leave(piece.level);
            self.vacant.push((piece.all, piece.level));
        }
        self.touched.remove(&id);
        self.bared.remove(&id);
        self.doubtful.remove(&id);
        self.changed.remove(&id);
    }

    /// Brings levels and needs up to date with what came, went and changed.
    pub(super) fn settle(&mut self, tree: &Tree) {
        let touched: Vec<PieceId> = self.touched.keys().chain(&self.bared).copied().collect();
        self.settle_shadows(tree, touched);
        self.settle_levels(tree);
        self.settle_needs(tree);
        self.changed.extend(std::mem::take(&mut self.touched).into_keys());
        self.vacant.clear();
        self.around.clear();
        self.bared.clear();
    }

    /// The rules as they are, by falling priority.
    pub(super) fn rules(&self, rule: &dyn Fn(Option<LeafId>) -> u64) -> Vec<Rule> {
        let ids = (0..self.pieces.len() as PieceId).filter(|id| self.pieces[*id as usize].is_some());
        let mut rules: Vec<Rule> = ids.filter_map(|id| self.rule(id, rule)).collect();
        let key = |rule: &Rule| (std::cmp::Reverse(rule.priority), rule.matching.constraints().copied().collect());
        rules.sort_by_cached_key(|rule| -> (_, Vec<Constraint>) { key(rule) });
        rules
    }

    /// What has changed since this was last asked, in an order whose every prefix is safe.
    pub(super) fn take_changes(&mut self, cookie: &dyn Fn(Option<LeafId>) -> u64) -> Vec<Change> {
        let mut old = std::mem::take(&mut self.gone);
        let mut new = Vec::new();
        for id in std::mem::take(&mut self.changed) {
            let rule = self.rule(id, cookie);
            let piece = self.piece_mut(id);
            if piece.taken == rule {
                continue;
            }
            new.extend(rule.clone());
            old.extend(std::mem::replace(&mut piece.taken, rule));
        }
        changes(&old, &new)
    }

    /// How many pieces were looked at so far, each time counted.
    pub(super) fn visited(&self) -> u64 {
        self.visited
    }

    fn rule(&self, id: PieceId, cookie: &dyn Fn(Option<LeafId>) -> u64) -> Option<Rule> {
        let piece = self.piece(id);
        let instructions = match (self.role(id), &piece.says) {
            (Role::Answer, Says::Answer(instructions)) => instructions.to_vec(),
            (Role::Barrier, _) if piece.need.is_some() => to_controller(),
            _ => return None,
        };
        let matching = Match::from_constraints(piece.all.iter().copied());
        Some(Rule { priority: self.levels.priority(piece.level), matching, instructions, cookie: cookie(piece.leaf) })
    }

    fn role(&self, id: PieceId) -> Role {
        let piece = self.piece(id);
        match piece.says {
            _ if piece.shadowed || !self.levels.has(piece.level) => Role::Nothing,
            Says::Answer(_) => Role::Answer,
            Says::Unknown | Says::Partial => Role::Barrier,
        }
    }

    /// Finds out which of these pieces earlier ones cover, and which later ones they cover.
    fn settle_shadows(&mut self, tree: &Tree, touched: Vec<PieceId>) {
        let mut open: BTreeSet<(u64, PieceId)> = touched.into_iter().map(|id| (self.rank(tree, id), id)).collect();
        while let Some((rank, id)) = open.pop_first() {
            let is_new = self.piece(id).level == UNPLACED;
            if !is_new && !self.bared.contains(&id) {
                continue;
            }
            let around = self.overlapping(id);
            let is_before = |other: &&PieceId| self.rank(tree, **other) < rank && !self.piece(**other).shadowed;
            let before: Vec<&[Constraint]> = around.iter().filter(is_before).map(|o| &*self.piece(*o).all).collect();
            let shadowed = uncovered(&self.piece(id).all, &before).is_none();
            self.shadow(id, shadowed);
            if shadowed {
                continue;
            }
            for other in around.iter().copied() {
                let (there, here) = (self.piece(other), self.piece(id));
                let may_be = there.says == Says::Partial || covers(&here.all, &there.all);
                if may_be && !there.shadowed && self.rank(tree, other) > rank {
                    self.bared.insert(other);
                    open.insert((self.rank(tree, other), other));
                }
            }
        }
    }

    fn shadow(&mut self, id: PieceId, shadowed: bool) {
        let role = self.role(id);
        let piece = self.piece_mut(id);
        if piece.shadowed == shadowed {
            return;
        }
        piece.shadowed = shadowed;
        let level = std::mem::replace(&mut piece.level, UNPLACED);
        if level != UNPLACED {
            self.levels.leave(level);
        }
        self.touched.entry(id).or_insert(role);
    }

    /// The other pieces whose matches overlap that of a piece.
    fn overlapping(&mut self, id: PieceId) -> Arc<[PieceId]> {
        if let Some(around) = self.around.get(&id) {
            return around.clone();
        }
        let Some(piece) = &self.pieces[id as usize] else { return Arc::default() };
        let mut around = Vec::new();
        self.index.overlapping(&piece.all, |other| around.push(other));
        around.retain(|other| *other != id && sets::overlap(&self.piece(*other).all, &piece.all));
        self.visited += around.len() as u64 + 1;
        let around: Arc<[PieceId]> = around.into();
        self.around.insert(id, around.clone());
        around
    }

    /// The same, in order of precedence, with ranks; without those that count for nothing.
    fn in_order(&mut self, tree: &Tree, id: PieceId) -> Vec<(u64, PieceId)> {
        let around = self.overlapping(id);
        let counts = around.iter().copied().filter(|other| self.role(*other) != Role::Nothing);
        let mut ranked: Vec<(u64, PieceId)> = counts.map(|other| (self.rank(tree, other), other)).collect();
        ranked.sort_unstable();
        ranked
    }

    fn rank(&self, tree: &Tree, id: PieceId) -> u64 {
        tree.rank(self.piece(id).node)
    }

    fn piece(&self, id: PieceId) -> &Piece {
        self.pieces[id as usize].as_ref().expect("a piece that is named lives")
    }

    fn piece_mut(&mut self, id: PieceId) -> &mut Piece {
        self.pieces[id as usize].as_mut().expect("a piece that is named lives")
    }
}

impl Says {
    /// By how many levels the later of two pieces that overlap must at least lie below the earlier. Where both do the
    /// same it may not lie above, or it might hide the other.
    fn gap(&self, other: &Says) -> Option<u32> {
        match (self, other) {
            (Says::Partial, Says::Partial) => None,
            (Says::Answer(a), Says::Answer(b)) => Some(u32::from(!Arc::ptr_eq(a, b) && a != b)),
            _ => Some(1),
        }
    }
}
