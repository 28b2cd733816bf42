//! A plan that moves entries to other levels, step by step. Each step can be taken back.
//!
//! A plan holds the levels of all entries. A step overwrites one of them, so a question costs one read. Going back
//! costs the steps in reverse.

use super::entry_store::EntryId;

/// Levels, some of them planned.
#[derive(Clone, Debug)]
pub(super) struct PriorityPlan {
    /// The level of each entry.
    levels: Vec<u32>,
    steps: Vec<PlanStep>,
    /// The number of entries that the plan moves, and of rules that are sent again for it.
    moved: usize,
    resent: u64,
}

/// A step of a plan: an entry takes a level.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlanStep {
    pub(super) id: EntryId,
    pub(super) level: u32,
    before: u32,
    /// Whether the plan had not moved the entry before.
    is_first: bool,
}

/// A point to go back to.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlanMark {
    steps: usize,
    moved: usize,
    resent: u64,
}

/// Steps that were taken back.
#[derive(Clone, Debug)]
pub(super) struct Steps {
    pub(super) steps: Vec<PlanStep>,
    /// The number of rules that the plan sends again, including these steps.
    pub(super) resent: u64,
}

impl PriorityPlan {
    /// Begins a plan that moves nothing yet.
    pub(super) fn new(levels: Vec<u32>) -> PriorityPlan {
        PriorityPlan { levels, steps: Vec::new(), moved: 0, resent: 0 }
    }

    /// Takes back all steps, and returns the levels as they were before the plan.
    pub(super) fn into_levels(mut self) -> Vec<u32> {
        self.take_back(PlanMark { steps: 0, moved: 0, resent: 0 });
        self.levels
    }

    /// Returns the level of an entry, as planned.
    #[inline]
    pub(super) fn level(&self, id: EntryId) -> u32 {
        self.levels[id as usize]
    }

    /// Reports whether the plan moves an entry.
    pub(super) fn moves(&self, id: EntryId) -> bool {
        self.steps.iter().any(|step| step.id == id)
    }

    /// Returns the number of entries that the plan moves.
    pub(super) fn moved(&self) -> usize {
        self.moved
    }

    /// Returns the number of rules that are sent again for the plan.
    pub(super) fn resent(&self) -> u64 {
        self.resent
    }

    /// Plans a level for an entry. This sends `resent` more rules again.
    pub(super) fn step(&mut self, id: EntryId, level: u32, resent: u64) {
        let is_first = !self.moves(id);
        let before = std::mem::replace(&mut self.levels[id as usize], level);
        self.steps.push(PlanStep { id, level, before, is_first });
        self.moved += usize::from(is_first);
        self.resent += resent;
    }

    /// Returns the current point of the plan.
    pub(super) fn mark(&self) -> PlanMark {
        PlanMark { steps: self.steps.len(), moved: self.moved, resent: self.resent }
    }

    /// Takes back all steps since a point, and returns them.
    pub(super) fn take_back(&mut self, mark: PlanMark) -> Steps {
        let resent = self.resent;
        let steps = self.steps.split_off(mark.steps);
        steps.iter().rev().for_each(|step| self.levels[step.id as usize] = step.before);
        (self.moved, self.resent) = (mark.moved, mark.resent);
        Steps { steps, resent }
    }

    /// Takes back all steps, and returns them.
    pub(super) fn take_back_all(&mut self) -> Steps {
        self.take_back(PlanMark { steps: 0, moved: 0, resent: 0 })
    }

    /// Repeats steps that were taken back to the current point of the plan.
    pub(super) fn redo(&mut self, steps: Steps) {
        for step in steps.steps {
            self.levels[step.id as usize] = step.level;
            self.moved += usize::from(step.is_first);
            self.steps.push(step);
        }
        self.resent = steps.resent;
    }
}
