//! The pieces of a table: matches in an order of precedence, their levels, and which of them are rules.
//!
//! # What
//!
//! A *piece* is a match that belongs to a node of the tree. It is an *answer* (a leaf's instructions) or a *barrier*: a
//! yes-side that is unexplored, or known in part. Pieces take precedence as their nodes do ([`Tree::rank`]). A piece
//! that earlier ones cover altogether is *shadowed*, and counts for nothing.
//!
//! * *Levels* (`levels.rs`): of two pieces that overlap, the earlier one has the smaller number. Two answers that do the
//!   same, or two barriers over explored yes-sides, may share one, so that the later does not hide the earlier.
//! * *Rules* (`needs.rs`): every answer is a rule. A barrier is one where it is *needed*: where a packet of it finds
//!   behind it an answer as the very next piece that takes it, and before it no answer at all. So of several barriers
//!   over a packet the last one stands for all, and a wide one for the narrow ones before it.
//!
//! # Why it is correct
//!
//! Let `x1, x2, …` be the pieces that take a packet, in order of precedence. The packet is to get what `x1` says, or go
//! to the controller. If `x1` is an answer, it is a rule, and what lies below it or does the same can't contradict it.
//! If `x1` is a barrier, let `xm` be the first answer; then `x(m-1)` is a barrier and is needed, so it is a rule, above
//! `xm` and all later answers. If there is no answer, no rule but a barrier takes the packet. Rules whose level lies
//! below the lowest priority are left out; all that must yield to them lies lower still.
//!
//! # Cost
//!
//! Each piece has two lists of those that overlap it: the earlier and the later ones, in order of precedence. A new
//! piece finds its neighbours with one question to the index, and puts itself into their lists; one that goes stays in them
//! until new ones need its number (`neighbours.rs`), and counts for nothing. [`Pieces::settle`] looks
//! at the pieces that came, went or changed and at their neighbours. How much that was is counted in
//! [`Pieces::visited`]. The lists take 8 bytes for each pair of pieces that overlap.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use maple_wire::{Constraint, Instruction};

use crate::tree::{LeafId, NodeId, Tree};

mod shadows;

mod narrow;
mod needs;

mod draft;
mod levels;
mod shift;

mod changes;

mod neighbours;

mod actions;
mod index;
mod sets;
mod turns;

pub(super) use actions::ActionId;
use actions::Actions;
use changes::{EntryPlace, Taken};
use index::Index;
pub(super) use needs::Tidy;
use needs::Why;
use neighbours::Ties;
use sets::{Layout, Row, Store};
use turns::Turns;

/// Names a piece while it lives.
pub(super) type PieceId = u32;

/// What a piece says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Says {
    /// Nobody knows yet; it may become an answer.
    Unknown,
    /// The controller knows more than a match can say.
    Partial,
    /// The leaf's instructions, by their name.
    Answer(ActionId),
}

/// What a piece counts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// It has gone: lists may name it still.
    Gone,
    /// Nothing: it is shadowed, or was not there yet.
    Nothing,
    Barrier,
    Answer,
}

#[derive(Debug)]
struct Piece {
    leaf: Option<LeafId>,
    shadowed: bool,
    /// Whether it waits for being looked at.
    waits: bool,
    /// Whether the level that it has may not do any more.
    strays: bool,
    /// What it counted for when things were last settled, if it is to be settled.
    was: Option<Role>,
    /// Whether that has changed more than once since.
    wavers: bool,
    /// The rule that stood for it when changes were last taken.
    taken: Option<Taken>,
    /// Whether its rule may have changed since.
    changed: bool,
    /// The pieces that overlap it and take precedence, and those that yield, in order of precedence. Some have gone.
    earlier: Vec<PieceId>,
    later: Vec<PieceId>,
}

/// What its neighbours most often ask of a piece.
#[derive(Clone, Copy, Debug)]
struct Spot {
    node: NodeId,
    says: Says,
    /// From 0 at the top.
    level: u32,
    /// Where it stands among the pieces of its level, if it has one.
    seat: Option<u32>,
}

/// The pieces of a table.
#[derive(Debug)]
pub(super) struct Pieces {
    pieces: Vec<Option<Piece>>,
    /// What each counts for, and where it is, in little memory: most questions are about that.
    roles: Vec<Role>,
    /// How many count for nothing, though they are there.
    shadowed: usize,
    spots: Vec<Spot>,
    /// Why each is a rule, or none, if it is a barrier; and the packets that one is needed for.
    whys: Vec<Why>,
    needed_for: Store,
    /// Whether some barrier was ever needed for it.
    is_reason: Vec<bool>,
    ties: Ties,
    /// Numbers that no piece has, nor any list names; and how many pieces there are.
    free: Vec<PieceId>,
    live: usize,
    layout: Layout,
    store: Store,
    index: Index,
    actions: Actions,
    levels: levels::Levels,
    /// Pieces that came or changed since the last settling; and whether some of them have gone.
    touched: Vec<PieceId>,
    withered: bool,
    /// Pieces that may be shadowed no more.
    bared: Vec<PieceId>,
    /// Barriers of which it is to be seen whether they are needed. In both may be some more that have gone.
    doubtful: Vec<PieceId>,
    /// Barriers that are rules, perhaps without need, and some pieces that are none any more.
    waiting: VecDeque<PieceId>,
    /// The places of pieces that went: a piece with the same match takes the level.
    vacant: Row<u32>,
    /// Pieces whose rules may have changed since changes were last taken, and some that are gone.
    changed: Vec<PieceId>,
    /// Rules of pieces that are gone.
    gone: Row<Taken>,
    /// Kept for their memory.
    came: Row<Taken>,
    modified: Row<Taken>,
    places: (Vec<EntryPlace>, Vec<EntryPlace>),
    /// A packed set, kept for its memory.
    scratch: Vec<u64>,
    /// Pieces that came or changed, with what they counted for before, and pieces behind one; kept for their memory.
    turned: Vec<(PieceId, Role)>,
    behind: Vec<(PieceId, Role)>,
    /// Pieces before an answer, and what they count for; kept for its memory.
    before: Row<(PieceId, Role)>,
    /// No turns, kept for their memory.
    turns: Turns,
    /// How many pieces were looked at.
    visited: u64,
}

impl Pieces {
    /// No pieces, for a table with these priorities.
    pub(super) fn new(priorities: &RangeInclusive<u16>) -> Pieces {
        Pieces {
            pieces: Vec::new(),
            roles: Vec::new(),
            shadowed: 0,
            spots: Vec::new(),
            whys: Vec::new(),
            needed_for: Store::default(),
            is_reason: Vec::new(),
            ties: Ties::default(),
            free: Vec::new(),
            live: 0,
            layout: Layout::default(),
            store: Store::default(),
            index: Index::default(),
            actions: Actions::default(),
            levels: levels::Levels::new(priorities),
            touched: Vec::new(),
            withered: false,
            bared: Vec::new(),
            doubtful: Vec::new(),
            waiting: VecDeque::new(),
            vacant: Row::default(),
            changed: Vec::new(),
            gone: Row::default(),
            came: Row::default(),
            modified: Row::default(),
            places: Default::default(),
            scratch: Vec::new(),
            turned: Vec::new(),
            behind: Vec::new(),
            before: Row::default(),
            turns: Turns::default(),
            visited: 0,
        }
    }

    /// The name of instructions, which are held until it is released.
    pub(super) fn name(&mut self, instructions: Vec<Instruction>) -> ActionId {
        self.actions.name(instructions)
    }

    /// Holds the instructions of a name once less.
    pub(super) fn release(&mut self, action: ActionId) {
        self.actions.release(Says::Answer(action));
    }

    /// Puts a piece in. The match has at most one constraint a field, in OXM order.
    pub(super) fn insert(
        &mut self,
        tree: &Tree,
        all: &[Constraint],
        node: NodeId,
        leaf: Option<LeafId>,
        says: Says,
    ) -> PieceId {
        let mut set = std::mem::take(&mut self.scratch);
        self.pack(all, &mut set);
        self.put_in_order();
        let id = self.free.pop().unwrap_or_else(|| {
            self.pieces.push(None);
            self.roles.push(Role::Gone);
            self.whys.push(Why::Nothing);
            self.is_reason.push(false);
            self.ties.add();
            self.spots.push(Spot { node, says: Says::Unknown, level: 0, seat: None });
            PieceId::try_from(self.pieces.len() - 1).expect("a table has fewer than 2^32 pieces")
        });
        self.store.put(id, &set);
        let (earlier, later) = self.meet_neighbours(tree, id, node, &set);
        self.scratch = set;
        self.index.insert(&self.store, id);
        self.actions.say(says);
        self.live += 1;
        self.spots[id as usize] = Spot { node, says, level: 0, seat: None };
        self.pieces[id as usize] = Some(Piece {
            leaf,
            shadowed: false,
            waits: false,
            strays: false,
            was: Some(Role::Nothing),
            wavers: false,
            taken: None,
            changed: false,
            earlier,
            later,
        });
        (self.whys[id as usize], self.is_reason[id as usize]) = (Why::Nothing, false);
        self.note_role(id);
        self.touched.push(id);
        id
    }

    /// Packs a match, whose fields get room if they have none.
    fn pack(&mut self, all: &[Constraint], set: &mut Vec<u64>) {
        if !self.layout.pack(all, set) {
            if self.layout.admit(all) {
                self.lengthen();
            }
            self.layout.pack(all, set);
        }
    }

    /// Gives sets the words that the layout has.
    fn lengthen(&mut self) {
        let stride = self.layout.stride();
        self.store.lengthen(stride, self.pieces.len());
        self.needed_for.lengthen(stride, self.pieces.len());
        self.index = Index::default();
        self.vacant.lengthen(stride);
        self.gone.lengthen(stride);
        for (id, piece) in self.pieces.iter().enumerate() {
            if piece.is_some() {
                self.index.insert(&self.store, id as PieceId);
            }
        }
    }

    /// Whether this is the match of a piece.
    pub(super) fn is(&mut self, id: PieceId, all: &[Constraint]) -> bool {
        let mut set = std::mem::take(&mut self.scratch);
        self.pack(all, &mut set);
        let is = *self.store.get(id) == *set;
        self.scratch = set;
        is
    }

    /// Has a piece say something else, or lead to another leaf.
    pub(super) fn say(&mut self, id: PieceId, leaf: Option<LeafId>, says: Says) {
        let old = self.spot(id).says;
        if old == says && self.piece(id).leaf == leaf {
            return;
        }
        let strays = self.needs_more_room(old, says);
        self.actions.say(says);
        let (role, is_touched) = (self.role(id), self.piece(id).was.is_some());
        self.touch(id);
        self.spots[id as usize].says = says;
        self.note_role(id);
        let wavers = is_touched && self.role(id) != role;
        let piece = self.piece_mut(id);
        piece.leaf = leaf;
        piece.strays |= strays;
        piece.wavers |= wavers;
        self.actions.unsay(old);
    }

    /// Reads something of all that [`Pieces::remove`] will read of a piece.
    pub(super) fn touch_all(&self, id: PieceId) -> u64 {
        let piece = self.piece(id);
        let ends = piece.earlier.len() + piece.later.len() + usize::from(piece.taken.is_some());
        let around = self.spot(id).level ^ self.index.touch(id);
        ends as u64 ^ u64::from(around) ^ u64::from(self.is_rule(id)) ^ self.store.get(id).first().unwrap_or(&0)
    }

    /// Whether a piece that says something else may have to be told apart from pieces that it need not be told apart from
    /// so far ([`Says::gap`]).
    fn needs_more_room(&self, old: Says, new: Says) -> bool {
        match old {
            _ if old == new => false,
            Says::Unknown => false,
            Says::Partial => true,
            Says::Answer(action) => self.actions.is_said_by_several(action),
        }
    }

    /// Takes a piece out.
    pub(super) fn remove(&mut self, id: PieceId) {
        let (role, Spot { says, level, seat, .. }) = (self.role(id), self.spot(id));
        self.displace(id);
        let Some(piece) = self.pieces[id as usize].take() else { return };
        self.index.remove(id);
        self.put_role(id, Role::Gone);
        self.part(id, &piece, role);
        self.actions.unsay(says);
        self.live -= 1;
        if let Some(taken) = piece.taken {
            self.gone.push(self.store.get(id), taken);
        }
        if seat.is_some() {
            self.vacant.push(self.store.get(id), level);
        }
        self.withered |= piece.was.is_some();
    }

    /// Brings rules and levels up to date with what came, went and changed.
    pub(super) fn settle(&mut self, tree: &Tree, tidy: Tidy) {
        if std::mem::take(&mut self.withered) {
            let Pieces { touched, roles, .. } = &mut *self;
            touched.retain(|id| roles[*id as usize] != Role::Gone);
        }
        if !self.settle_one_alone() {
            self.settle_shadows(tree);
            self.settle_needs(tree, tidy);
            self.settle_levels(tree);
        }
        if tidy == Tidy::AtOnce {
            // Where leaves go levels become free as it is.
            self.give_up_a_level(tree);
        }
        let mut touched = std::mem::take(&mut self.touched);
        for id in touched.drain(..) {
            let piece = self.piece_mut(id);
            (piece.was, piece.wavers, piece.strays) = (None, false, false);
            self.change(id);
        }
        self.touched = touched;
        self.vacant.clear();
        self.bared.clear();
    }

    /// Where all that is to be settled is one new piece that nothing overlaps, that is soon done: it has no shadow, no
    /// need of barriers, and the highest level in use. Returns whether it was so.
    fn settle_one_alone(&mut self) -> bool {
        let [id] = self.touched[..] else { return false };
        let piece = self.piece(id);
        let is_alone = piece.earlier.is_empty() && piece.later.is_empty();
        let is_new = piece.was == Some(Role::Nothing) && !self.spot(id).is_placed();
        let is_all = self.bared.is_empty() && self.doubtful.is_empty() && self.waiting.is_empty();
        if !is_alone || !is_new || !is_all || !self.vacant.items().is_empty() {
            return false;
        }
        let Some(level) = self.levels.used.keys().next().copied().filter(|level| self.levels.has(*level)) else {
            return false;
        };
        self.visited += 1;
        self.put(id, level);
        true
    }

    /// How many pieces were looked at so far, each time counted.
    pub(super) fn visited(&self) -> u64 {
        self.visited + self.levels.savings.visited.get()
    }

    fn role(&self, id: PieceId) -> Role {
        self.roles[id as usize]
    }

    fn spot(&self, id: PieceId) -> Spot {
        self.spots[id as usize]
    }

    /// Brings up to date what a piece counts for.
    fn note_role(&mut self, id: PieceId) {
        let role = match self.spot(id).says {
            _ if self.piece(id).shadowed => Role::Nothing,
            Says::Answer(_) => Role::Answer,
            Says::Unknown | Says::Partial => Role::Barrier,
        };
        self.put_role(id, role);
    }

    fn put_role(&mut self, id: PieceId, role: Role) {
        let old = std::mem::replace(&mut self.roles[id as usize], role);
        self.shadowed += usize::from(role == Role::Nothing);
        self.shadowed -= usize::from(old == Role::Nothing);
    }

    /// Whether a piece is a rule, if there is a priority for it.
    fn is_rule(&self, id: PieceId) -> bool {
        match self.role(id) {
            Role::Gone | Role::Nothing => false,
            Role::Barrier => self.whys[id as usize].is_rule(),
            Role::Answer => true,
        }
    }

    /// Notes what a piece counts for before that changes.
    fn touch(&mut self, id: PieceId) {
        let role = self.role(id);
        let piece = self.piece_mut(id);
        if piece.was.is_none() {
            piece.was = Some(role);
            self.touched.push(id);
        }
    }

    /// Notes that a piece's rule may have changed.
    fn change(&mut self, id: PieceId) {
        let piece = self.piece_mut(id);
        if !piece.changed {
            piece.changed = true;
            self.changed.push(id);
        }
    }

    fn rank(&self, tree: &Tree, id: PieceId) -> u64 {
        tree.rank(self.spot(id).node)
    }

    fn piece(&self, id: PieceId) -> &Piece {
        self.pieces[id as usize].as_ref().expect("a piece that is named lives")
    }

    fn piece_mut(&mut self, id: PieceId) -> &mut Piece {
        self.pieces[id as usize].as_mut().expect("a piece that is named lives")
    }
}

impl Role {
    /// Whether a piece counts for anything.
    fn counts(self) -> bool {
        matches!(self, Role::Barrier | Role::Answer)
    }
}

impl Spot {
    /// Whether it has a level.
    fn is_placed(self) -> bool {
        self.seat.is_some()
    }
}

impl Says {
    /// By how many levels the later of two rules that overlap must at least lie below the earlier. Where both do the
    /// same it may not lie above, or it might hide the other.
    fn gap(self, other: Says) -> u32 {
        match (self, other) {
            (Says::Partial, Says::Partial) => 0,
            (Says::Answer(a), Says::Answer(b)) => u32::from(a != b),
            _ => 1,
        }
    }
}

/// A tree with so many leaves, for pieces that belong to these: they come in the order of their numbers.
#[cfg(test)]
fn tree_of(leaves: u64) -> Tree {
    use crate::trace::Item;

    let mut tree = Tree::new();
    for leaf in 0..leaves {
        let read = Item::Read(Constraint::exact(maple_wire::Field::Ipv4Src, leaf.into()));
        tree.augment(&[read], LeafId(leaf));
    }
    tree
}
