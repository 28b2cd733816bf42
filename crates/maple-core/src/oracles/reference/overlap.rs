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
//! number of views of its own group. Memory is the members times the views of their group. Groups of few members have
//! no views: looking at each member is cheaper, and where there are as many patterns as rules that is all there is.

use maple_wire::{Constraint, Field};
use rustc_hash::FxHashMap;

/// Up to how many members of a group are looked at one by one.
const FEW: usize = 8;

/// What is kept of the members of a group that look the same.
pub(super) trait Summary: Copy {
    /// Takes in another member.
    fn absorb(&mut self, other: Self);
}

/// A set of matches, each with something that is to be known of it.
pub(super) struct Overlaps<S> {
    /// The group of each shape that was ever seen, empty where it was only asked for.
    groups: Vec<Group<S>>,
    /// Where a shape's group stands.
    by_shape: FxHashMap<Shape, usize>,
}

/// Fields with the bits that count in each, in OXM order.
type Shape = Vec<(Field, u128)>;

struct Group<S> {
    shape: Shape,
    members: Vec<(Vec<Constraint>, S)>,
    views: Vec<View<S>>,
    /// Which view answers matches of a shape, by where that shape's group stands.
    view_for: Vec<Option<usize>>,
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
        let at = self.group_of(all);
        let group = &mut self.groups[at];
        for view in &mut group.views {
            view.insert(all, summary);
        }
        group.members.push((all.to_vec(), summary));
    }

    /// Calls `seen` with summaries of the members that overlap `all`, and whether each member that is in the summary
    /// takes every packet that `all` takes.
    pub(super) fn overlapping(&mut self, all: &[Constraint], mut seen: impl FnMut(&S, bool)) {
        let asking = self.group_of(all);
        let shape = self.groups[asking].shape.clone();
        let mut values = Vec::with_capacity(all.len());
        for group in &mut self.groups {
            if group.members.len() <= FEW {
                for (member, summary) in group.members.iter().filter(|(member, _)| overlap(member, all)) {
                    seen(summary, covers(member, all));
                }
                continue;
            }
            let view = group.view(asking, &shape);
            let view = &group.views[view];
            view.values(all, &mut values);
            if let Some(summary) = view.by_values.get(&values) {
                seen(summary, view.common == group.shape);
            }
        }
    }

    /// Where the group of a match's shape stands.
    fn group_of(&mut self, all: &[Constraint]) -> usize {
        let shape: Shape = all.iter().map(|c| (c.field, c.mask)).collect();
        *self.by_shape.entry(shape).or_insert_with_key(|shape| {
            let shape = shape.clone();
            self.groups.push(Group { shape, members: Vec::new(), views: Vec::new(), view_for: Vec::new() });
            self.groups.len() - 1
        })
    }
}

impl<S: Summary> Group<S> {
    /// The view for matches of a shape, whose group stands at `asking`; made at its first use.
    fn view(&mut self, asking: usize, shape: &Shape) -> usize {
        if let Some(Some(at)) = self.view_for.get(asking) {
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
        if self.view_for.len() <= asking {
            self.view_for.resize(asking + 1, None);
        }
        self.view_for[asking] = Some(at);
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

/// Whether a packet can fit both matches: they agree in the bits that both fix.
fn overlap(a: &[Constraint], b: &[Constraint]) -> bool {
    let mut rest = b.iter().peekable();
    a.iter().all(|x| {
        while rest.next_if(|y| y.field < x.field).is_some() {}
        rest.peek().is_none_or(|y| y.field != x.field || (x.value ^ y.value) & x.mask & y.mask == 0)
    })
}

/// Whether `a`, which overlaps `b`, takes every packet that `b` takes: it fixes no other bits.
fn covers(a: &[Constraint], b: &[Constraint]) -> bool {
    let mut rest = b.iter();
    a.iter().all(|x| rest.find(|y| y.field == x.field).is_some_and(|y| x.mask & y.mask == x.mask))
}

fn common(a: &Shape, b: &Shape) -> Shape {
    let both = a.iter().filter_map(|(field, mask)| {
        let other = b.iter().find(|(f, _)| f == field)?;
        Some((*field, mask & other.1))
    });
    both.filter(|(_, mask)| *mask != 0).collect()
}
