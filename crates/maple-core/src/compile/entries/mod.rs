//! The entries of a table: matches in an order of precedence, their levels, and which of them are rules.
//!
//! # What
//!
//! A *entry* is a match that belongs to a node of the tree. It is an *answer* (a leaf's instructions) or a *barrier*: a
//! yes-side that is unexplored, or known in part. EntryTable take precedence as their nodes do ([`Tree::rank`]). A entry
//! that earlier ones cover altogether is *shadowed*, and counts for nothing.
//!
//! * *Levels* (`levels.rs`): of two entries that overlap, the earlier one has the smaller number. Two answers that do the
//!   same, or two barriers over explored yes-sides, may share one, so that the later does not hide the earlier.
//! * *Rules* (`needs.rs`): every answer is a rule. A barrier is one where it is *needed*: where a packet of it finds
//!   behind it an answer as the very next entry that takes it, and before it no answer at all. So of several barriers
//!   over a packet the last one stands for all, and a wide one for the specialise ones before it.
//!
//! # Necessity it is correct
//!
//! Let `x1, x2, …` be the entries that take a packet, in order of precedence. The packet is to get what `x1` says, or go
//! to the controller. If `x1` is an answer, it is a rule, and what lies below it or does the same can't contradict it.
//! If `x1` is a barrier, let `xm` be the first answer; then `x(m-1)` is a barrier and is needed, so it is a rule, above
//! `xm` and all later answers. If there is no answer, no rule but a barrier takes the packet. Rules whose level lies
//! below the lowest priority are left out; all that must yield to them lies lower still.
//!
//! # Cost
//!
//! Each entry has two lists of those that overlap it: the earlier and the later ones, in order of precedence. A new
//! entry finds its neighbours with one question to the index, and puts itself into their lists; one that goes stays in them
//! until new ones need its number (`neighbours.rs`), and counts for nothing. [`EntryTable::settle`] looks
//! at the entries that came, went or changed and at their neighbours. How much that was is counted in
//! [`EntryTable::visited`]. The lists take 8 bytes for each pair of entries that overlap.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use maple_wire::{Constraint, Instruction};

use crate::tree::{LeafId, NodeId, Tree};

mod shadowing;

mod redundancy;
mod specialisation;

mod compaction;
mod levels;
mod priority_plan;

mod change_log;

mod overlap_lists;

mod actions;
mod overlap_index;
mod packed;
mod work_queue;

pub(super) use actions::ActionId;
use actions::Actions;
use change_log::{EntryPlace, Taken};
use overlap_index::Index;
use overlap_lists::OverlapLists;
use packed::{Layout, Row, Store};
pub(super) use redundancy::Checks;
use redundancy::Necessity;
use work_queue::WorkQueue;

/// Names a entry while it lives.
pub(super) type EntryId = u32;

/// What a entry says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nobody knows yet; it may become an answer.
    Unexplored,
    /// The controller knows more than a match can say.
    PartiallyExplored,
    /// The leaf's instructions, by their name.
    Forward(ActionId),
}

/// What a entry counts for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EntryState {
    /// It has gone: lists may name it still.
    Gone,
    /// Nothing: it is shadowed, or was not there yet.
    Shadowed,
    Barrier,
    Forward,
}

#[derive(Debug)]
struct Entry {
    leaf: Option<LeafId>,
    shadowed: bool,
    /// Whether it waits for being looked at.
    waits: bool,
    /// Whether the level that it has may not do any more.
    strays: bool,
    /// What it counted for when things were last settled, if it is to be settled.
    was: Option<EntryState>,
    /// Whether that has changed more than once since.
    wavers: bool,
    /// The rule that stood for it when changes were last taken.
    taken: Option<Taken>,
    /// Whether its rule may have changed since.
    changed: bool,
    /// The entries that overlap it and take precedence, and those that yield, in order of precedence. Some have gone.
    earlier: Vec<EntryId>,
    later: Vec<EntryId>,
}

/// What its neighbours most often ask of a entry.
#[derive(Clone, Copy, Debug)]
struct EntryHot {
    node: NodeId,
    says: Verdict,
    /// From 0 at the top.
    level: u32,
    /// Where it stands among the entries of its level, if it has one.
    seat: Option<u32>,
}

/// The entries of a table.
#[derive(Debug)]
pub(super) struct EntryTable {
    entries: Vec<Option<Entry>>,
    /// What each counts for, and where it is, in little memory: most questions are about that.
    roles: Vec<EntryState>,
    /// How many count for nothing, though they are there.
    shadowed: usize,
    spots: Vec<EntryHot>,
    /// Necessity each is a rule, or none, if it is a barrier; and the packets that one is needed for.
    whys: Vec<Necessity>,
    needed_for: Store,
    /// Whether some barrier was ever needed for it.
    is_reason: Vec<bool>,
    ties: OverlapLists,
    /// Numbers that no entry has, nor any list names; and how many entries there are.
    free: Vec<EntryId>,
    live: usize,
    layout: Layout,
    store: Store,
    index: Index,
    actions: Actions,
    levels: levels::Levels,
    /// EntryTable that came or changed since the last settling; and whether some of them have gone.
    touched: Vec<EntryId>,
    withered: bool,
    /// EntryTable that may be shadowed no more.
    bared: Vec<EntryId>,
    /// Barriers of which it is to be seen whether they are needed. In both may be some more that have gone.
    doubtful: Vec<EntryId>,
    /// Barriers that are rules, perhaps without need, and some entries that are none any more.
    waiting: VecDeque<EntryId>,
    /// The places of entries that went: a entry with the same match takes the level.
    vacant: Row<u32>,
    /// EntryTable whose rules may have changed since changes were last taken, and some that are gone.
    changed: Vec<EntryId>,
    /// Rules of entries that are gone.
    gone: Row<Taken>,
    /// Kept for their memory.
    came: Row<Taken>,
    modified: Row<Taken>,
    places: (Vec<EntryPlace>, Vec<EntryPlace>),
    /// A packed set, kept for its memory.
    scratch: Vec<u64>,
    /// EntryTable that came or changed, with what they counted for before, and entries behind one; kept for their memory.
    turned: Vec<(EntryId, EntryState)>,
    behind: Vec<(EntryId, EntryState)>,
    /// EntryTable before an answer, and what they count for; kept for its memory.
    before: Row<(EntryId, EntryState)>,
    /// No turns, kept for their memory.
    turns: WorkQueue,
    /// How many entries were looked at.
    visited: u64,
}

impl EntryTable {
    /// No entries, for a table with these priorities.
    pub(super) fn new(priorities: &RangeInclusive<u16>) -> EntryTable {
        EntryTable {
            entries: Vec::new(),
            roles: Vec::new(),
            shadowed: 0,
            spots: Vec::new(),
            whys: Vec::new(),
            needed_for: Store::default(),
            is_reason: Vec::new(),
            ties: OverlapLists::default(),
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
            turns: WorkQueue::default(),
            visited: 0,
        }
    }

    /// The name of instructions, which are held until it is released.
    pub(super) fn name(&mut self, instructions: Vec<Instruction>) -> ActionId {
        self.actions.name(instructions)
    }

    /// Holds the instructions of a name once less.
    pub(super) fn release(&mut self, action: ActionId) {
        self.actions.release(Verdict::Forward(action));
    }

    /// Puts a entry in. The match has at most one constraint a field, in OXM order.
    pub(super) fn insert(
        &mut self,
        tree: &Tree,
        all: &[Constraint],
        node: NodeId,
        leaf: Option<LeafId>,
        says: Verdict,
    ) -> EntryId {
        let mut set = std::mem::take(&mut self.scratch);
        self.pack(all, &mut set);
        self.put_in_order();
        let id = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            self.roles.push(EntryState::Gone);
            self.whys.push(Necessity::Nothing);
            self.is_reason.push(false);
            self.ties.add();
            self.spots.push(EntryHot { node, says: Verdict::Unexplored, level: 0, seat: None });
            EntryId::try_from(self.entries.len() - 1).expect("a table has fewer than 2^32 entries")
        });
        self.store.put(id, &set);
        let (earlier, later) = self.meet_neighbours(tree, id, node, &set);
        self.scratch = set;
        self.index.insert(&self.store, id);
        self.actions.say(says);
        self.live += 1;
        self.spots[id as usize] = EntryHot { node, says, level: 0, seat: None };
        self.entries[id as usize] = Some(Entry {
            leaf,
            shadowed: false,
            waits: false,
            strays: false,
            was: Some(EntryState::Shadowed),
            wavers: false,
            taken: None,
            changed: false,
            earlier,
            later,
        });
        (self.whys[id as usize], self.is_reason[id as usize]) = (Necessity::Nothing, false);
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
        self.store.lengthen(stride, self.entries.len());
        self.needed_for.lengthen(stride, self.entries.len());
        self.index = Index::default();
        self.vacant.lengthen(stride);
        self.gone.lengthen(stride);
        for (id, entry) in self.entries.iter().enumerate() {
            if entry.is_some() {
                self.index.insert(&self.store, id as EntryId);
            }
        }
    }

    /// Whether this is the match of a entry.
    pub(super) fn is(&mut self, id: EntryId, all: &[Constraint]) -> bool {
        let mut set = std::mem::take(&mut self.scratch);
        self.pack(all, &mut set);
        let is = *self.store.get(id) == *set;
        self.scratch = set;
        is
    }

    /// Has a entry say something else, or lead to another leaf.
    pub(super) fn say(&mut self, id: EntryId, leaf: Option<LeafId>, says: Verdict) {
        let old = self.spot(id).says;
        if old == says && self.entry(id).leaf == leaf {
            return;
        }
        let strays = self.needs_more_room(old, says);
        self.actions.say(says);
        let (role, is_touched) = (self.role(id), self.entry(id).was.is_some());
        self.touch(id);
        self.spots[id as usize].says = says;
        self.note_role(id);
        let wavers = is_touched && self.role(id) != role;
        let entry = self.piece_mut(id);
        entry.leaf = leaf;
        entry.strays |= strays;
        entry.wavers |= wavers;
        self.actions.unsay(old);
    }

    /// Reads something of all that [`EntryTable::remove`] will read of a entry.
    pub(super) fn touch_all(&self, id: EntryId) -> u64 {
        let entry = self.entry(id);
        let ends = entry.earlier.len() + entry.later.len() + usize::from(entry.taken.is_some());
        let around = self.spot(id).level ^ self.index.touch(id);
        ends as u64 ^ u64::from(around) ^ u64::from(self.is_rule(id)) ^ self.store.get(id).first().unwrap_or(&0)
    }

    /// Whether a entry that says something else may have to be told apart from entries that it need not be told apart from
    /// so far ([`Verdict::gap`]).
    fn needs_more_room(&self, old: Verdict, new: Verdict) -> bool {
        match old {
            _ if old == new => false,
            Verdict::Unexplored => false,
            Verdict::PartiallyExplored => true,
            Verdict::Forward(action) => self.actions.is_said_by_several(action),
        }
    }

    /// Takes a entry out.
    pub(super) fn remove(&mut self, id: EntryId) {
        let (role, EntryHot { says, level, seat, .. }) = (self.role(id), self.spot(id));
        self.displace(id);
        let Some(entry) = self.entries[id as usize].take() else { return };
        self.index.remove(id);
        self.put_role(id, EntryState::Gone);
        self.part(id, &entry, role);
        self.actions.unsay(says);
        self.live -= 1;
        if let Some(taken) = entry.taken {
            self.gone.push(self.store.get(id), taken);
        }
        if seat.is_some() {
            self.vacant.push(self.store.get(id), level);
        }
        self.withered |= entry.was.is_some();
    }

    /// Brings rules and levels up to date with what came, went and changed.
    pub(super) fn recompute(&mut self, tree: &Tree, remove_redundant: Checks) {
        if std::mem::take(&mut self.withered) {
            let EntryTable { touched, roles, .. } = &mut *self;
            touched.retain(|id| roles[*id as usize] != EntryState::Gone);
        }
        if !self.settle_one_alone() {
            self.settle_shadows(tree);
            self.settle_needs(tree, remove_redundant);
            self.settle_levels(tree);
        }
        if remove_redundant == Checks::Now {
            // Where leaves go levels become free as it is.
            self.give_up_a_level(tree);
        }
        let mut touched = std::mem::take(&mut self.touched);
        for id in touched.drain(..) {
            let entry = self.piece_mut(id);
            (entry.was, entry.wavers, entry.strays) = (None, false, false);
            self.change(id);
        }
        self.touched = touched;
        self.vacant.clear();
        self.bared.clear();
    }

    /// Where all that is to be settled is one new entry that nothing overlaps, that is soon done: it has no shadow, no
    /// need of barriers, and the highest level in use. Returns whether it was so.
    fn settle_one_alone(&mut self) -> bool {
        let [id] = self.touched[..] else { return false };
        let entry = self.entry(id);
        let is_alone = entry.earlier.is_empty() && entry.later.is_empty();
        let is_new = entry.was == Some(EntryState::Shadowed) && !self.spot(id).is_placed();
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

    /// How many entries were looked at so far, each time counted.
    pub(super) fn visited(&self) -> u64 {
        self.visited + self.levels.savings.visited.get()
    }

    fn role(&self, id: EntryId) -> EntryState {
        self.roles[id as usize]
    }

    fn spot(&self, id: EntryId) -> EntryHot {
        self.spots[id as usize]
    }

    /// Brings up to date what a entry counts for.
    fn note_role(&mut self, id: EntryId) {
        let role = match self.spot(id).says {
            _ if self.entry(id).shadowed => EntryState::Shadowed,
            Verdict::Forward(_) => EntryState::Forward,
            Verdict::Unexplored | Verdict::PartiallyExplored => EntryState::Barrier,
        };
        self.put_role(id, role);
    }

    fn put_role(&mut self, id: EntryId, role: EntryState) {
        let old = std::mem::replace(&mut self.roles[id as usize], role);
        self.shadowed += usize::from(role == EntryState::Shadowed);
        self.shadowed -= usize::from(old == EntryState::Shadowed);
    }

    /// Whether a entry is a rule, if there is a priority for it.
    fn is_rule(&self, id: EntryId) -> bool {
        match self.role(id) {
            EntryState::Gone | EntryState::Shadowed => false,
            EntryState::Barrier => self.whys[id as usize].is_rule(),
            EntryState::Forward => true,
        }
    }

    /// Notes what a entry counts for before that changes.
    fn touch(&mut self, id: EntryId) {
        let role = self.role(id);
        let entry = self.piece_mut(id);
        if entry.was.is_none() {
            entry.was = Some(role);
            self.touched.push(id);
        }
    }

    /// Notes that a entry's rule may have changed.
    fn change(&mut self, id: EntryId) {
        let entry = self.piece_mut(id);
        if !entry.changed {
            entry.changed = true;
            self.changed.push(id);
        }
    }

    fn rank(&self, tree: &Tree, id: EntryId) -> u64 {
        tree.rank(self.spot(id).node)
    }

    fn entry(&self, id: EntryId) -> &Entry {
        self.entries[id as usize].as_ref().expect("a entry that is named lives")
    }

    fn piece_mut(&mut self, id: EntryId) -> &mut Entry {
        self.entries[id as usize].as_mut().expect("a entry that is named lives")
    }
}

impl EntryState {
    /// Whether a entry counts for anything.
    fn counts(self) -> bool {
        matches!(self, EntryState::Barrier | EntryState::Forward)
    }
}

impl EntryHot {
    /// Whether it has a level.
    fn is_placed(self) -> bool {
        self.seat.is_some()
    }
}

impl Verdict {
    /// By how many levels the later of two rules that overlap must at least lie below the earlier. Where both do the
    /// same it may not lie above, or it might hide the other.
    fn gap(self, other: Verdict) -> u32 {
        match (self, other) {
            (Verdict::PartiallyExplored, Verdict::PartiallyExplored) => 0,
            (Verdict::Forward(a), Verdict::Forward(b)) => u32::from(a != b),
            _ => 1,
        }
    }
}

/// A tree with so many leaves, for entries that belong to these: they come in the order of their numbers.
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
