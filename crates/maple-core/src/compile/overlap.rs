//! Which matches overlap a given one, found without comparing all pairs.
//!
//! # What
//!
//! A tuple space: matches with the same masks on the same fields form a *group*. Two matches overlap exactly if they
//! agree in the bits that both of them fix. Seen from a match with certain masks, the bits in common with a group are
//! the same for all its members, so the group keeps, for each set of common bits that was ever asked for, a hash table
//! (a *view*) from these bits' values to a summary of the members that have them. A question costs one look-up a
//! group.
//!
//! # Cost
//!
//! Rules come in few mask patterns, however many they are: a question costs the number of patterns, an insertion the
//! number of views of its own group. Memory is the members times the views of their group.

use maple_wire::{Constraint, Field};
use rustc_hash::FxHashMap;

/// What is kept of the members of a group that look the same.
pub(super) trait Summary: Copy {
    /// Takes in another member.
    fn absorb(&mut self, other: Self);
}

/// A set of matches, each with something that is to be known of it.
pub(super) struct Overlaps<S> {
    groups: Vec<Group<S>>,
    by_shape: FxHashMap<Shape, usize>,
}

/// Fields with the bits that count in each, in OXM order.
type Shape = Vec<(Field, u128)>;

struct Group<S> {
    shape: Shape,
    members: Vec<(Vec<Constraint>, S)>,
    views: Vec<View<S>>,
    /// Which view answers matches of a shape.
    view_for: FxHashMap<Shape, usize>,
}

struct View<S> {
    common: Shape,
    by_values: FxHashMap<Vec<u128>, S>,
}

impl<S: Summary> Overlaps<S> {
    pub(super) fn new() -> Overlaps<S> {
        Overlaps { groups: Vec::new(), by_shape: FxHashMap::default() }
    }

    /// Adds a match: constraints in OXM order, one a field.
    pub(super) fn insert(&mut self, all: &[Constraint], summary: S) {
        let shape = shape_of(all);
        let at = *self.by_shape.entry(shape).or_insert_with_key(|shape| {
            let group =
                Group { shape: shape.clone(), members: Vec::new(), views: Vec::new(), view_for: FxHashMap::default() };
            self.groups.push(group);
            self.groups.len() - 1
        });
        let group = &mut self.groups[at];
        for view in &mut group.views {
            view.insert(all, summary);
        }
        group.members.push((all.to_vec(), summary));
    }

    /// Calls `seen` with a summary of the members of each group that overlap `all`, and whether each of these members
    /// takes every packet that `all` takes.
    pub(super) fn overlapping(&mut self, all: &[Constraint], mut seen: impl FnMut(&S, bool)) {
        let shape = shape_of(all);
        let mut values = Vec::with_capacity(all.len());
        for group in &mut self.groups {
            let view = group.view(&shape);
            let view = &group.views[view];
            view.values(all, &mut values);
            if let Some(summary) = view.by_values.get(&values) {
                seen(summary, view.common.len() == group.shape.len() && view.common == group.shape);
            }
        }
    }
}

impl<S: Summary> Group<S> {
    /// The view for matches of a shape, made at its first use.
    fn view(&mut self, shape: &Shape) -> usize {
        if let Some(at) = self.view_for.get(shape) {
            return *at;
        }
        let common = common(&self.shape, shape);
        let there = self.views.iter().position(|view| view.common == common);
        let at = there.unwrap_or_else(|| {
            let mut view = View { common, by_values: FxHashMap::default() };
            for (all, summary) in &self.members {
                view.insert(all, *summary);
            }
            self.views.push(view);
            self.views.len() - 1
        });
        self.view_for.insert(shape.clone(), at);
        at
    }
}

impl<S: Summary> View<S> {
    fn insert(&mut self, all: &[Constraint], summary: S) {
        let mut values = Vec::with_capacity(self.common.len());
        self.values(all, &mut values);
        self.by_values.entry(values).and_modify(|there| there.absorb(summary)).or_insert(summary);
    }

    /// The values of the common bits in a match that fixes them.
    fn values(&self, all: &[Constraint], values: &mut Vec<u128>) {
        values.clear();
        let mut rest = all.iter();
        for (field, mask) in &self.common {
            // Both are in OXM order, and the match has every field of the view.
            if let Some(constraint) = rest.find(|c| c.field == *field) {
                values.push(constraint.value & mask);
            }
        }
    }
}

fn shape_of(all: &[Constraint]) -> Shape {
    all.iter().map(|c| (c.field, c.mask)).collect()
}

fn common(a: &Shape, b: &Shape) -> Shape {
    let both = a.iter().filter_map(|(field, mask)| {
        let other = b.iter().find(|(f, _)| f == field)?;
        Some((*field, mask & other.1))
    });
    both.filter(|(_, mask)| *mask != 0).collect()
}
