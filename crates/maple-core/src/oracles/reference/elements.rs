//! The elements that a walk of the tree lays down, in order of precedence: their levels, and which become rules.

use maple_wire::{Constraint, Instruction};

use super::overlap::{Overlaps, Summary};
use crate::tree::LeafId;

/// Elements in order of precedence.
pub(super) struct Elements {
    list: Vec<Element>,
    overlaps: Overlaps<Levels>,
    /// What leaves do, one entry a leaf.
    deeds: Vec<Vec<Instruction>>,
    /// Barriers around which no other barrier has been laid yet, ascending.
    outermost: Vec<usize>,
}

/// A rule, perhaps.
struct Element {
    all: Vec<Constraint>,
    leaf: Option<LeafId>,
    level: u32,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Does the instructions at this place in `deeds`.
    Apply { deed: usize },
    /// Sends to the controller, where that protects something before the element at `until`.
    Barrier { until: Option<usize> },
    /// Keeps a level free.
    Reserved,
}

/// An element that becomes a rule.
pub(super) struct Installed<'a> {
    pub(super) all: &'a [Constraint],
    pub(super) leaf: Option<LeafId>,
    /// From 0 at the top.
    pub(super) level: u32,
    /// `None` is to the controller.
    pub(super) instructions: Option<&'a [Instruction]>,
}

/// What a barrier stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Behind {
    /// A yes-side in which no trace has been.
    Unexplored,
    /// A yes-side that is known in part, or can't be matched.
    Partial,
    /// A leaf whose packets go to the controller.
    Leaf(LeafId),
}

/// The lowest levels (the highest numbers) among some elements.
#[derive(Clone, Copy)]
struct Levels {
    /// Of those that are answers or may become one: leaves, and barriers over unexplored yes-sides.
    answers: Option<u32>,
    /// Of the other barriers.
    barriers: Option<u32>,
    /// Whether one of the elements is more than a reservation.
    solid: bool,
}

impl Summary for Levels {
    fn absorb(&mut self, new: Levels) {
        self.answers = self.answers.max(new.answers);
        self.barriers = self.barriers.max(new.barriers);
        self.solid |= new.solid;
    }
}

impl Levels {
    /// The first level below all of these elements: for a barrier that stays one, below those that may be answers.
    fn below(&self, stays_barrier: bool) -> u32 {
        let lowest = if stays_barrier { self.answers } else { self.answers.max(self.barriers) };
        lowest.map_or(0, |level| level + 1)
    }
}

/// The first of some positions.
#[derive(Clone, Copy)]
struct First(usize);

impl Summary for First {
    fn absorb(&mut self, other: First) {
        self.0 = self.0.min(other.0);
    }
}

impl Elements {
    pub(super) fn new() -> Elements {
        Elements { list: Vec::new(), overlaps: Overlaps::new(), deeds: Vec::new(), outermost: Vec::new() }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// Lays down a leaf that does `instructions`.
    pub(super) fn apply(&mut self, matches: &[Vec<Constraint>], leaf: LeafId, instructions: Vec<Instruction>) {
        let deed = self.deeds.len();
        self.deeds.push(instructions);
        for all in matches {
            self.push(all, Some(leaf), Kind::Apply { deed }, false);
        }
    }

    /// Lays down a barrier behind the elements from `start` on, which lie within it.
    ///
    /// Where all of it comes to stand, the barriers within it need protect nothing behind it.
    pub(super) fn barrier(&mut self, matches: &[Vec<Constraint>], start: usize, behind: Behind) {
        let here = self.len();
        let leaf = match behind {
            Behind::Leaf(leaf) => Some(leaf),
            Behind::Unexplored | Behind::Partial => None,
        };
        for all in matches {
            self.push(all, leaf, Kind::Barrier { until: None }, behind != Behind::Unexplored);
        }
        if self.len() - here == matches.len() {
            while let Some(inner) = self.outermost.pop_if(|inner| *inner >= start) {
                self.list[inner].kind = Kind::Barrier { until: Some(here) };
            }
        }
        self.outermost.extend(here..self.len());
    }

    /// Keeps the level of a barrier that protects nothing yet.
    pub(super) fn reserve(&mut self, matches: &[Vec<Constraint>], behind: Behind) {
        for all in matches {
            self.push(all, None, Kind::Reserved, behind != Behind::Unexplored);
        }
    }

    /// The elements that become rules when there are `levels` priorities, in order of precedence.
    pub(super) fn installed(&self, levels: u32) -> Vec<Installed<'_>> {
        let mut answers = Overlaps::new();
        let mut installed = Vec::new();
        for (at, element) in self.list.iter().enumerate().rev() {
            if element.level >= levels {
                continue;
            }
            let instructions = match element.kind {
                Kind::Apply { deed } => {
                    answers.insert(&element.all, First(at));
                    Some(self.deeds[deed].as_slice())
                }
                Kind::Barrier { until } if protects(&mut answers, element, until) => None,
                Kind::Barrier { .. } | Kind::Reserved => continue,
            };
            installed.push(Installed { all: &element.all, leaf: element.leaf, level: element.level, instructions });
        }
        installed.reverse();
        installed
    }

    /// Lays down an element unless one before it covers it.
    fn push(&mut self, all: &[Constraint], leaf: Option<LeafId>, kind: Kind, stays_barrier: bool) {
        let (mut level, mut covered) = (0, false);
        self.overlaps.overlapping(all, |levels, cover| {
            level = level.max(levels.below(stays_barrier));
            covered |= cover && levels.solid;
        });
        if covered {
            return;
        }
        let solid = kind != Kind::Reserved;
        let (answers, barriers) = if stays_barrier { (None, Some(level)) } else { (Some(level), None) };
        self.overlaps.insert(all, Levels { answers, barriers, solid });
        self.list.push(Element { all: all.to_vec(), leaf, level, kind });
    }
}

/// Whether one of `answers` overlaps the element before `until`.
fn protects(answers: &mut Overlaps<First>, element: &Element, until: Option<usize>) -> bool {
    let mut first = usize::MAX;
    answers.overlapping(&element.all, |answer, _| first = first.min(answer.0));
    first < until.unwrap_or(usize::MAX)
}
