//! Which pieces overlap a given match, found without comparing all pairs: a tuple space that forgets as well.
//!
//! # What
//!
//! Matches with the same masks on the same fields form a *group*. Two matches overlap exactly if they agree in the bits
//! that both fix. Seen from a match with certain masks, the bits in common with a group are the same for all its
//! members, so a group of some size keeps, for each set of common bits that was asked for, a hash table (a *view*) from
//! these bits' values to the members that have them.
//!
//! # Cost
//!
//! Rules come in few mask patterns, however many they are: a question costs the number of patterns, an insertion or a
//! removal the number of views of its own group. Members of small groups are looked at one by one.

use std::hash::{Hash, Hasher};

use maple_wire::{Constraint, Field};
use rustc_hash::{FxHashMap, FxHasher};

use super::PieceId;

/// Up to how many members of a group are looked at one by one.
const FEW: usize = 12;

/// A set of matches, each with the number of its piece.
#[derive(Debug, Default)]
pub(super) struct Index {
    groups: Vec<Group>,
    by_shape: FxHashMap<Shape, usize>,
    /// By piece: where it stands among its group's members.
    places: Vec<u32>,
}

/// Fields with the bits that count in each, in OXM order.
type Shape = Box<[(Field, u128)]>;

#[derive(Debug)]
struct Group {
    shape: Shape,
    members: Vec<PieceId>,
    /// The members' values, field by field, one member behind the other.
    values: Vec<u128>,
    views: Vec<View>,
    /// Which view answers matches of a shape, by where that shape's group stands.
    view_for: Vec<Option<u32>>,
}

#[derive(Debug)]
struct View {
    /// Which of the group's fields, and which of their bits.
    common: Box<[(u8, u128)]>,
    by_values: FxHashMap<u64, Vec<PieceId>>,
}

impl Index {
    /// Adds a match.
    pub(super) fn insert(&mut self, all: &[Constraint], piece: PieceId) {
        let at = self.group_of(all);
        let group = &mut self.groups[at];
        if self.places.len() <= piece as usize {
            self.places.resize(piece as usize + 1, 0);
        }
        self.places[piece as usize] = group.members.len() as u32;
        group.members.push(piece);
        group.values.extend(all.iter().map(|c| c.value));
        for view in &mut group.views {
            view.by_values.entry(view.key(|at| all[at].value)).or_default().push(piece);
        }
    }

    /// Takes a match out.
    pub(super) fn remove(&mut self, all: &[Constraint], piece: PieceId) {
        let at = self.group_of(all);
        let group = &mut self.groups[at];
        for view in &mut group.views {
            let key = view.key(|at| all[at].value);
            let Some(there) = view.by_values.get_mut(&key) else { continue };
            if let Some(place) = there.iter().position(|other| *other == piece) {
                there.swap_remove(place);
            }
            if there.is_empty() {
                view.by_values.remove(&key);
            }
        }
        let place = self.places[piece as usize] as usize;
        group.members.swap_remove(place);
        if let Some(moved) = group.members.get(place) {
            self.places[*moved as usize] = place as u32;
        }
        let width = group.shape.len();
        let last = group.values.len() - width;
        group.values.copy_within(last.., place * width);
        group.values.truncate(last);
    }

    /// Calls `seen` with all pieces whose matches overlap `all`, and perhaps with a few more.
    pub(super) fn overlapping(&mut self, all: &[Constraint], mut seen: impl FnMut(PieceId)) {
        let asking = self.group_of(all);
        let shape = self.groups[asking].shape.clone();
        for group in &mut self.groups {
            if group.members.len() <= FEW {
                let width = group.shape.len();
                for (at, piece) in group.members.iter().enumerate() {
                    if agree(&group.shape, &group.values[at * width..], all) {
                        seen(*piece);
                    }
                }
                continue;
            }
            let Some(view) = group.view(asking, &shape) else {
                group.members.iter().for_each(|piece| seen(*piece));
                continue;
            };
            let view = &group.views[view];
            let value = |at: usize| {
                let field = group.shape[at].0;
                all.iter().find(|c| c.field == field).map_or(0, |c| c.value)
            };
            if let Some(there) = view.by_values.get(&view.key(value)) {
                there.iter().for_each(|piece| seen(*piece));
            }
        }
    }

    fn group_of(&mut self, all: &[Constraint]) -> usize {
        let shape: Shape = all.iter().map(|c| (c.field, c.mask)).collect();
        if let Some(at) = self.by_shape.get(&shape) {
            return *at;
        }
        let at = self.groups.len();
        self.by_shape.insert(shape.clone(), at);
        let (members, values, views, view_for) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        self.groups.push(Group { shape, members, values, views, view_for });
        at
    }
}

impl Group {
    /// The view for matches of a shape, whose group stands at `asking`; made at its first use. `None` where they have
    /// no bits in common with the group's, so that all members overlap.
    fn view(&mut self, asking: usize, shape: &[(Field, u128)]) -> Option<usize> {
        if let Some(Some(at)) = self.view_for.get(asking) {
            return Some(*at as usize);
        }
        let common = common(&self.shape, shape);
        if common.is_empty() {
            return None;
        }
        let there = self.views.iter().position(|view| view.common == common);
        let at = there.unwrap_or_else(|| {
            let mut view = View { common, by_values: FxHashMap::default() };
            let width = self.shape.len();
            for (at, piece) in self.members.iter().enumerate() {
                let key = view.key(|field| self.values[at * width + field]);
                view.by_values.entry(key).or_default().push(*piece);
            }
            self.views.push(view);
            self.views.len() - 1
        });
        if self.view_for.len() <= asking {
            self.view_for.resize(asking + 1, None);
        }
        self.view_for[asking] = u32::try_from(at).ok();
        Some(at)
    }
}

impl View {
    /// A number for the values of the common bits, which other values may share.
    fn key(&self, value: impl Fn(usize) -> u128) -> u64 {
        let mut hasher = FxHasher::default();
        for (at, mask) in &self.common {
            (value(usize::from(*at)) & mask).hash(&mut hasher);
        }
        hasher.finish()
    }
}

/// Whether a member with these values overlaps `all`.
fn agree(shape: &[(Field, u128)], values: &[u128], all: &[Constraint]) -> bool {
    let (mut i, mut j) = (0, 0);
    while i < shape.len() && j < all.len() {
        let ((field, mask), c) = (shape[i], &all[j]);
        if field == c.field {
            if (values[i] ^ c.value) & mask & c.mask != 0 {
                return false;
            }
            (i, j) = (i + 1, j + 1);
        } else if field < c.field {
            i += 1;
        } else {
            j += 1;
        }
    }
    true
}

fn common(of: &[(Field, u128)], with: &[(Field, u128)]) -> Box<[(u8, u128)]> {
    let both = of.iter().zip(0u8..).filter_map(|((field, mask), at)| {
        let (_, other) = with.iter().find(|(f, _)| f == field)?;
        Some((at, mask & other))
    });
    both.filter(|(_, mask)| *mask != 0).collect()
}
