//! Drafts: levels as a plan would have them, step by step, each of which can be taken back.
//!
//! Most entries that are asked for keep their levels. So the levels of all stand here once more in little memory, and a
//! step writes over one of them: to ask takes one read, to go back takes the steps in reverse.

use super::EntryId;

/// Levels, some of them planned.
#[derive(Debug, Default)]
pub(super) struct PriorityPlan {
    /// By entry, where it has a level.
    levels: Vec<u32>,
    steps: Vec<Step>,
    /// How many entries the plan moves, and how many rules are sent again for it.
    moved: usize,
    again: u64,
}

/// A entry takes a level.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub(super) id: EntryId,
    pub(super) level: u32,
    before: u32,
    /// Whether it had none planned before.
    is_first: bool,
}

/// A place to go back to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    steps: usize,
    moved: usize,
    again: u64,
}

/// The steps of a plan, or of its end.
#[derive(Debug)]
pub(super) struct Steps {
    pub(super) steps: Vec<Step>,
    /// How many rules are sent again for the whole plan.
    pub(super) again: u64,
}

impl PriorityPlan {
    /// Takes note of a entry's level.
    pub(super) fn put(&mut self, id: EntryId, level: u32) {
        if self.levels.len() <= id as usize {
            self.levels.resize(id as usize + 1, 0);
        }
        self.levels[id as usize] = level;
    }

    /// Begins a plan for so many entries.
    pub(super) fn begin(&mut self, entries: usize) {
        debug_assert!(self.steps.is_empty(), "one plan is made at a time");
        self.levels.resize(entries.max(self.levels.len()), 0);
        (self.moved, self.again) = (0, 0);
    }

    /// The level of a entry, or the one that is planned for it.
    #[inline]
    pub(super) fn level(&self, id: EntryId) -> u32 {
        self.levels[id as usize]
    }

    /// Whether the plan has a level for a entry.
    pub(super) fn is_planned(&self, id: EntryId) -> bool {
        self.steps.iter().any(|step| step.id == id)
    }

    /// How many entries the plan moves.
    pub(super) fn moved(&self) -> usize {
        self.moved
    }

    /// How many rules are sent again for it.
    pub(super) fn again(&self) -> u64 {
        self.again
    }

    /// Plans a level for a entry; `again` rules more are sent again for that.
    pub(super) fn step(&mut self, id: EntryId, level: u32, again: u64) {
        let is_first = !self.is_planned(id);
        let before = std::mem::replace(&mut self.levels[id as usize], level);
        self.steps.push(Step { id, level, before, is_first });
        self.moved += usize::from(is_first);
        self.again += again;
    }

    /// Where the plan is.
    pub(super) fn mark(&self) -> Mark {
        Mark { steps: self.steps.len(), moved: self.moved, again: self.again }
    }

    /// Takes back all steps since then, and gives them.
    pub(super) fn take_back(&mut self, mark: Mark) -> Steps {
        let again = self.again;
        let steps = self.steps.split_off(mark.steps);
        steps.iter().rev().for_each(|step| self.levels[step.id as usize] = step.before);
        (self.moved, self.again) = (mark.moved, mark.again);
        Steps { steps, again }
    }

    /// Makes steps again that were taken back to where the plan is.
    pub(super) fn make_again(&mut self, steps: Steps) {
        for step in steps.steps {
            self.levels[step.id as usize] = step.level;
            self.moved += usize::from(step.is_first);
            self.steps.push(step);
        }
        self.again = steps.again;
    }
}
