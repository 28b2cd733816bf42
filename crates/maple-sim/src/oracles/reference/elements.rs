//! The elements that a walk of the tree makes, in order of precedence: their levels, and which of them become rules.

use maple_core::tree::LeafId;
use maple_wire::{Constraint, Instruction};

/// Elements in order of precedence.
pub(super) struct Elements {
    list: Vec<Element>,
    /// The instructions of leaves, one item for each leaf.
    deeds: Vec<Vec<Instruction>>,
    /// The barriers that no other barrier contains yet, ascending.
    outermost: Vec<usize>,
}

/// A possible rule.
struct Element {
    all: Vec<Constraint>,
    leaf: Option<LeafId>,
    level: u32,
    kind: Kind,
    /// Whether the element is a barrier entry that will never forward.
    stays_barrier: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// An element that applies the instructions at this index of `deeds`.
    Apply { deed: usize },
    /// An element that sends to the controller, if it protects something before the element at `until`.
    Barrier { until: Option<usize> },
    /// An element that keeps a level free.
    Reserved,
}

/// An element that becomes a rule.
pub(super) struct Installed<'a> {
    pub(super) all: &'a [Constraint],
    pub(super) leaf: Option<LeafId>,
    /// The level of the element, counted from 0 at the top.
    pub(super) level: u32,
    /// The instructions of the element; `None` sends to the controller.
    pub(super) instructions: Option<&'a [Instruction]>,
}

/// The yes-side that a barrier covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CoveredYesSide {
    /// No trace has reached the yes-side.
    Unexplored,
    /// The yes-side is known in part, or can't be matched.
    Partial,
    /// The yes-side is a leaf whose packets go to the controller.
    Leaf(LeafId),
}

impl Elements {
    pub(super) fn new() -> Elements {
        Elements { list: Vec::new(), deeds: Vec::new(), outermost: Vec::new() }
    }

    /// Returns the number of elements.
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// Adds a leaf with these instructions.
    pub(super) fn apply(&mut self, matches: &[Vec<Constraint>], leaf: LeafId, instructions: Vec<Instruction>) {
        let deed = self.deeds.len();
        self.deeds.push(instructions);
        for all in matches {
            self.push(all, Some(leaf), Kind::Apply { deed }, false);
        }
    }

    /// Adds a barrier after the elements from `start` on, which lie within it.
    ///
    /// If the whole barrier is added, the barriers within it need not protect anything after it.
    pub(super) fn barrier(&mut self, matches: &[Vec<Constraint>], start: usize, behind: CoveredYesSide) {
        let here = self.len();
        let leaf = match behind {
            CoveredYesSide::Leaf(leaf) => Some(leaf),
            CoveredYesSide::Unexplored | CoveredYesSide::Partial => None,
        };
        for all in matches {
            self.push(all, leaf, Kind::Barrier { until: None }, behind != CoveredYesSide::Unexplored);
        }
        if self.len() - here == matches.len() {
            while let Some(inner) = self.outermost.pop_if(|inner| *inner >= start) {
                self.list[inner].kind = Kind::Barrier { until: Some(here) };
            }
        }
        self.outermost.extend(here..self.len());
    }

    /// Reserves the level of a barrier that protects nothing yet.
    pub(super) fn reserve(&mut self, matches: &[Vec<Constraint>], behind: CoveredYesSide) {
        for all in matches {
            self.push(all, None, Kind::Reserved, behind != CoveredYesSide::Unexplored);
        }
    }

    /// Returns the elements that become rules when there are `levels` priorities, in order of precedence.
    pub(super) fn installed(&self, levels: u32) -> Vec<Installed<'_>> {
        let mut installed = Vec::new();
        for (at, element) in self.list.iter().enumerate().rev() {
            if element.level >= levels {
                continue;
            }
            let instructions = match element.kind {
                Kind::Apply { deed } => Some(self.deeds[deed].as_slice()),
                Kind::Barrier { until } if self.protects(at, until, levels) => None,
                Kind::Barrier { .. } | Kind::Reserved => continue,
            };
            installed.push(Installed { all: &element.all, leaf: element.leaf, level: element.level, instructions });
        }
        installed.reverse();
        installed
    }

    /// Adds an element unless an earlier one covers it.
    fn push(&mut self, all: &[Constraint], leaf: Option<LeafId>, kind: Kind, stays_barrier: bool) {
        let mut level = 0;
        for there in self.list.iter().filter(|there| overlap(&there.all, all)) {
            if there.kind != Kind::Reserved && covers(&there.all, all) {
                return;
            }
            // Only two barrier entries that will never forward need no order.
            if !(stays_barrier && there.stays_barrier) {
                level = level.max(there.level + 1);
            }
        }
        self.list.push(Element { all: all.to_vec(), leaf, level, kind, stays_barrier });
    }

    /// Reports whether a forwarding rule after an element and before `until` overlaps the element.
    fn protects(&self, at: usize, until: Option<usize>, levels: u32) -> bool {
        let later = &self.list[at + 1..until.unwrap_or(self.list.len())];
        later.iter().any(|later| {
            matches!(later.kind, Kind::Apply { .. }) && later.level < levels && overlap(&later.all, &self.list[at].all)
        })
    }
}

/// Reports whether a packet can fit both matches: they agree in the bits that both fix.
fn overlap(a: &[Constraint], b: &[Constraint]) -> bool {
    let mut rest = b.iter().peekable();
    a.iter().all(|x| {
        while rest.next_if(|y| y.field < x.field).is_some() {}
        rest.peek().is_none_or(|y| y.field != x.field || (x.value ^ y.value) & x.mask & y.mask == 0)
    })
}

/// Reports whether `a`, which overlaps `b`, takes every packet that `b` takes: it fixes no further bits.
fn covers(a: &[Constraint], b: &[Constraint]) -> bool {
    let mut rest = b.iter();
    a.iter().all(|x| rest.find(|y| y.field == x.field).is_some_and(|y| x.mask & y.mask == x.mask))
}
