//! Which pieces overlap a given set, found without comparing all pairs: a tuple space that forgets as well.
//!
//! # What
//!
//! Sets with the same masks form a *group*. Two sets overlap exactly if they agree in the bits that both fix. Seen from
//! a set with certain masks, the bits in common with a group are the same for all its members, so a large group keeps
//! hash tables (*views*), each from the values of some bits to the members that have them. A view of fewer bits than are
//! common finds a few members too many, which a comparison sorts out; so a group has few views, and a new one is only
//! made where those that are there would find many. Members of small groups stand in one list and are looked at one by
//! one.
//!
//! # Cost
//!
//! Rules come in few mask patterns, however many they are: a question costs a look-up a large group and a comparison a
//! member of a small one, an insertion or a removal the number of views of its own group.

use std::collections::hash_map::Entry;
use std::hash::{Hash, Hasher};

use rustc_hash::{FxHashMap, FxHasher};

use super::PieceId;
use super::sets::{Store, overlap};

/// Up to how many members of a group are looked at one by one.
const FEW: usize = 24;

/// How many members a look-up in a view may find on average, so that it serves in place of a more exact one.
const CANDIDATES: usize = 4;

/// The pieces of a table by their sets.
#[derive(Debug, Default)]
pub(super) struct Index {
    groups: Vec<Group>,
    by_masks: FxHashMap<Box<[u64]>, u32>,
    /// The group that was last asked for: often the next too.
    last: u32,
    /// The large groups.
    large: Vec<u32>,
    /// Members of small groups.
    loose: Vec<PieceId>,
    /// By piece: its group, and where it stands in that group or, if that is small, among the loose ones.
    places: Vec<(u32, u32)>,
}

#[derive(Debug, Default)]
struct Group {
    masks: Box<[u64]>,
    size: usize,
    /// None while the group is small.
    members: Vec<PieceId>,
    views: Vec<View>,
    /// Which view answers sets of a group, and how large this group was when that was decided.
    view_for: FxHashMap<u32, (usize, usize)>,
}

#[derive(Debug)]
struct View {
    /// The bits that count, word by word.
    masks: Box<[u64]>,
    by_values: FxHashMap<u64, Found>,
}

/// Members with the same values.
#[derive(Debug)]
enum Found {
    One(PieceId),
    Several(Vec<PieceId>),
}

impl Index {
    /// Adds a piece whose set is in the store.
    pub(super) fn insert(&mut self, store: &Store, piece: PieceId) {
        let at = self.group_of(store.get(piece));
        let group = &mut self.groups[at as usize];
        group.size += 1;
        if self.places.len() <= piece as usize {
            self.places.resize(piece as usize + 1, (0, 0));
        }
        if group.members.is_empty() {
            self.places[piece as usize] = (at, self.loose.len() as u32);
            self.loose.push(piece);
            if group.size > FEW {
                self.enlarge(at);
            }
            return;
        }
        self.places[piece as usize] = (at, group.members.len() as u32);
        group.members.push(piece);
        group.views.iter_mut().for_each(|view| view.insert(store.get(piece), piece));
    }

    /// Takes out a piece whose set is still in the store.
    pub(super) fn remove(&mut self, store: &Store, piece: PieceId) {
        let (at, place) = self.places[piece as usize];
        let group = &mut self.groups[at as usize];
        group.size -= 1;
        let is_loose = group.members.is_empty();
        let list = if is_loose { &mut self.loose } else { &mut group.members };
        list.swap_remove(place as usize);
        if let Some(moved) = list.get(place as usize) {
            self.places[*moved as usize].1 = place;
        }
        group.views.iter_mut().for_each(|view| view.remove(store.get(piece), piece));
        if !is_loose && group.size == 0 {
            group.views.clear();
            group.view_for.clear();
            self.large.retain(|large| *large != at);
        }
    }

    /// Calls `seen` with all pieces that overlap a set.
    pub(super) fn overlapping(&mut self, store: &Store, set: &[u64], mut seen: impl FnMut(PieceId)) {
        let asking = self.group_of(set);
        let mut check = |piece: &PieceId| {
            if overlap(store.get(*piece), set) {
                seen(*piece);
            }
        };
        self.loose.iter().for_each(&mut check);
        for at in &self.large {
            let group = &mut self.groups[*at as usize];
            match group.view(store, asking, set) {
                None => group.members.iter().for_each(&mut check),
                Some(view) => {
                    let view = &group.views[view];
                    view.by_values.get(&view.key(set)).into_iter().flat_map(Found::members).for_each(&mut check);
                }
            }
        }
    }

    fn group_of(&mut self, set: &[u64]) -> u32 {
        let is_same = |group: &Group| group.masks.iter().eq(set.iter().skip(1).step_by(2));
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
        self.groups.push(Group { masks, ..Group::default() });
        at
    }

    /// Takes the members of a group out of the loose ones.
    fn enlarge(&mut self, at: u32) {
        let mut kept = Vec::with_capacity(self.loose.len());
        for piece in std::mem::take(&mut self.loose) {
            let place = &mut self.places[piece as usize];
            let list = if place.0 == at { &mut self.groups[at as usize].members } else { &mut kept };
            place.1 = list.len() as u32;
            list.push(piece);
        }
        self.loose = kept;
        self.large.push(at);
    }
}

impl Group {
    /// The view for a set whose group stands at `asking`. `None` where it has no bits in common with the group's.
    fn view(&mut self, store: &Store, asking: u32, set: &[u64]) -> Option<usize> {
        if let Some((view, size)) = self.view_for.get(&asking)
            && self.size <= 2 * size
        {
            return Some(*view);
        }
        let common: Box<[u64]> = self.masks.iter().zip(set.iter().skip(1).step_by(2)).map(|(a, b)| a & b).collect();
        if common.iter().all(|word| *word == 0) {
            return None;
        }
        let size = self.size;
        let serves = |view: &View| {
            let is_part = view.masks.iter().zip(&common).all(|(a, b)| a & !b == 0);
            view.masks == common || is_part && size <= CANDIDATES * view.by_values.len()
        };
        let at = self.views.iter().position(serves).unwrap_or_else(|| {
            let mut view = View { masks: common, by_values: FxHashMap::default() };
            self.members.iter().for_each(|piece| view.insert(store.get(*piece), *piece));
            self.views.push(view);
            self.views.len() - 1
        });
        self.view_for.insert(asking, (at, size));
        Some(at)
    }
}

impl Found {
    fn members(&self) -> &[PieceId] {
        match self {
            Found::One(piece) => std::slice::from_ref(piece),
            Found::Several(pieces) => pieces,
        }
    }

    fn insert(&mut self, piece: PieceId) {
        match self {
            Found::One(other) => *self = Found::Several(vec![*other, piece]),
            Found::Several(pieces) => pieces.push(piece),
        }
    }

    /// Takes a member out; says whether none is left.
    fn remove(&mut self, piece: PieceId) -> bool {
        match self {
            Found::One(other) => *other == piece,
            Found::Several(pieces) => {
                if let Some(place) = pieces.iter().position(|other| *other == piece) {
                    pieces.swap_remove(place);
                }
                pieces.is_empty()
            }
        }
    }
}

impl View {
    fn insert(&mut self, set: &[u64], piece: PieceId) {
        self.by_values.entry(self.key(set)).and_modify(|found| found.insert(piece)).or_insert(Found::One(piece));
    }

    fn remove(&mut self, set: &[u64], piece: PieceId) {
        let key = self.key(set);
        if let Entry::Occupied(mut there) = self.by_values.entry(key)
            && there.get_mut().remove(piece)
        {
            there.remove();
        }
    }

    /// A number for the values of the bits that count, which other values may share.
    fn key(&self, set: &[u64]) -> u64 {
        let mut hasher = FxHasher::default();
        set.iter().step_by(2).zip(&self.masks).for_each(|(value, mask)| (value & mask).hash(&mut hasher));
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

    /// A set by the number of its masks and the bits that its values are taken from.
    fn set(masks: usize, bits: u64) -> [u64; 4] {
        let [a, b] = MASKS[masks];
        [bits & a, a, bits >> 8 & b, b]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(60))]

        #[test]
        fn the_index_finds_what_looking_at_each_piece_finds(
            steps in vec((0..MASKS.len(), any::<u16>(), any::<bool>()), 1..400),
            thin in any::<u16>(),
        ) {
            let (mut store, mut index, mut there) = (Store::default(), Index::default(), BTreeSet::new());
            store.lengthen(4, 0);
            for (number, (masks, bits, is_removed)) in steps.iter().enumerate() {
                let (id, asked) = (number as PieceId, set(*masks, u64::from(*bits)));
                // Few values, so that many sets overlap.
                store.put(id, &set(*masks, u64::from(bits & thin)));
                index.insert(&store, id);
                there.insert(id);
                if let Some(other) = there.range(PieceId::from(bits % 400)..).next().copied().filter(|_| *is_removed) {
                    index.remove(&store, other);
                    there.remove(&other);
                }
                let mut found = Vec::new();
                index.overlapping(&store, &asked, |id| found.push(id));
                found.sort_unstable();
                let all: Vec<PieceId> = there.iter().copied().filter(|id| overlap(store.get(*id), &asked)).collect();
                prop_assert_eq!(found, all);
            }
        }
    }
}
