//! The elements that a walk of the tree lays down, in order of precedence: their levels, and which become rules.

use maple_wire::{Constraint, Instruction};
use rustc_hash::FxHashMap;

use super::overlap::{Overlaps, Summary};
use crate::tree::LeafId;

/// Elements in order of precedence.
pub(super) struct Elements {
    list: Vec<Element>,
    overlaps: Overlaps<Levels>,
    /// Instruction lists by number, and their numbers.
    deeds: Vec<Vec<Instruction>>,
    numbers: FxHashMap<Vec<Instruction>, u32>,
    /// Barriers around which no other barrier has been laid yet.
    outermost: Vec<usize>,
    unexplored: u32,
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
    /// Does the instructions with this number.
    Apply { deed: u32 },
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

/// What an element does, as a number. 0 is to send to the controller; unexplored yes-sides each have one of their own.
type Deed = u32;
const CONTROLLER: Deed = 0;

/// The lowest levels (the highest numbers) among some elements.
#[derive(Clone, Copy)]
struct Levels {
    /// The lowest, and what the element does.
    lowest: (u32, Deed),
    /// The lowest of those that do something else.
    other: Option<u32>,
    /// Whether one of the elements is more than a reservation.
    solid: bool,
}

impl Summary for Levels {
    fn absorb(&mut self, new: Levels) {
        let (level, deed) = new.lowest;
        if deed == self.lowest.1 {
            self.lowest.0 = self.lowest.0.max(level);
        } else if level > self.lowest.0 {
            (self.other, self.lowest) = (Some(self.lowest.0), new.lowest);
        } else {
            self.other = self.other.max(Some(level));
        }
        self.other = self.other.max(new.other);
        self.solid |= new.solid;
    }
}

impl Levels {
    /// The first level below all elements that do something else than `deed`.
    fn below(&self, deed: Deed) -> u32 {
        if self.lowest.1 == deed { self.other.map_or(0, |level| level + 1) } else { self.lowest.0 + 1 }
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
        Elements {
            list: Vec::new(),
            overlaps: Overlaps::new(),
            deeds: Vec::new(),
            numbers: FxHashMap::default(),
            outermost: Vec::new(),
            unexplored: 0,
        }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// Lays down a leaf that does `instructions`.
    pub(super) fn apply(&mut self, matches: &[Vec<Constraint>], leaf: LeafId, instructions: Vec<Instruction>) {
        let count = self.deeds.len() as u32;
        let deed = *self.numbers.entry(instructions.clone()).or_insert(count);
        if deed == count {
            self.deeds.push(instructions);
        }
        for all in matches {
            // Numbers below this one stand for the controller.
            self.push(all, Some(leaf), Kind::Apply { deed }, deed + 1);
        }
    }

    /// Lays down a barrier behind the elements from `start` on, which lie within it.
    pub(super) fn barrier(&mut self, matches: &[Vec<Constraint>], start: usize, behind: Behind) {
        let here = self.len();
        while let Some(inner) = self.outermost.pop_if(|inner| *inner >= start) {
            self.list[inner].kind = Kind::Barrier { until: Some(here) };
        }
        let leaf = match behind {
            Behind::Leaf(leaf) => Some(leaf),
            Behind::Unexplored | Behind::Partial => None,
        };
        let deed = self.barrier_deed(behind);
        for all in matches {
            if self.push(all, leaf, Kind::Barrier { until: None }, deed) {
                self.outermost.push(self.len() - 1);
            }
        }
    }

    /// Keeps the level of a barrier that protects nothing yet.
    pub(super) fn reserve(&mut self, matches: &[Vec<Constraint>], behind: Behind) {
        let deed = self.barrier_deed(behind);
        for all in matches {
            self.push(all, None, Kind::Reserved, deed);
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
                    Some(self.deeds[deed as usize].as_slice())
                }
                Kind::Barrier { until } if protects(&mut answers, element, until) => None,
                Kind::Barrier { .. } | Kind::Reserved => continue,
            };
            installed.push(Installed { all: &element.all, leaf: element.leaf, level: element.level, instructions });
        }
        installed.reverse();
        installed
    }

    fn barrier_deed(&mut self, behind: Behind) -> Deed {
        match behind {
            Behind::Unexplored => {
                self.unexplored += 1;
                u32::MAX - self.unexplored
            }
            Behind::Partial | Behind::Leaf(_) => CONTROLLER,
        }
    }

    /// Lays down an element unless one before it covers it; says whether it did.
    fn push(&mut self, all: &[Constraint], leaf: Option<LeafId>, kind: Kind, deed: Deed) -> bool {
        let (mut level, mut covered) = (0, false);
        self.overlaps.overlapping(all, |levels, cover| {
            level = level.max(levels.below(deed));
            covered |= cover && levels.solid;
        });
        if covered {
            return false;
        }
        let solid = kind != Kind::Reserved;
        self.overlaps.insert(all, Levels { lowest: (level, deed), other: None, solid });
        self.list.push(Element { all: all.to_vec(), leaf, level, kind });
        true
    }
}

/// Whether one of `answers` overlaps the element before `until`.
fn protects(answers: &mut Overlaps<First>, element: &Element, until: Option<usize>) -> bool {
    let mut first = usize::MAX;
    answers.overlapping(&element.all, |answer, _| first = first.min(answer.0));
    first < until.unwrap_or(usize::MAX)
}
