//! Runs f again on cached leaves, now and then: a check that f looks at nothing but what is tracked (design §10).
//!
//! Leaves are taken in turn, one every 1/[`super::Options::check_rate`] s, each with the packet that it was made of. The
//! run works on the newest snapshot; what it writes is thrown away. A leaf that is current *after* the run was so all
//! the time, since a leaf that was withdrawn does not come back under its id: all cells that it read have had one value
//! from its own run up to now, so f should do again what it did then. Where it does not, the leaf is wrong, or will be:
//! it goes, and people are told once a place.
//!
//! Cost: a run of f and a comparison each time; nothing while there is no leaf.

use std::time::Duration;

use super::leaf::{Leaf, source_lines};
use super::leaves::Leaves;
use super::timers::Timer;
use super::{Engine, Time};
use crate::check::Observation;
use crate::ids::LeafId;
use crate::report::Report;
use crate::trace::Trace;

/// When the next leaf is looked at, and which one that is: the first from this number on.
#[derive(Debug, Default)]
pub(super) struct Rechecks {
    due: Time,
    next: u64,
}

impl Rechecks {
    /// Whether it is time, with so many a second (0: never); if so, when it is the next time.
    fn take_turn(&mut self, now: Time, rate: u32) -> Option<Time> {
        if rate == 0 || now < self.due {
            return None;
        }
        self.due = now + Duration::from_secs(1) / rate;
        Some(self.due)
    }

    /// The leaf whose turn it is.
    fn take_next<'a>(&mut self, leaves: &'a Leaves) -> Option<(LeafId, &'a Leaf)> {
        let (id, leaf) = leaves.next_from(LeafId(self.next))?;
        self.next = id.0 + 1;
        Some((id, leaf))
    }
}

impl Engine {
    /// Checks the next leaf, if it is time.
    pub(super) fn recheck(&mut self) {
        if self.leaves.is_empty() {
            return;
        }
        let Some(due) = self.rechecks.take_turn(self.now, self.options.check_rate) else { return };
        self.timers.insert((due, Timer::Recheck));
        let Some((id, leaf)) = self.rechecks.take_next(&self.leaves) else { return };
        let first = self.as_observed(leaf);
        if let Some(again) = self.run_again(id) {
            self.compare(id, first, &again);
        }
    }

    /// What f does with the leaf's packet now; `None` where that packet would not come to f.
    fn run_again(&mut self, id: LeafId) -> Option<Observation> {
        let run = self.admissible_run(&self.leaves.get(&id)?.witness)?;
        self.stats.rechecks += 1;
        Some(Observation::of(&*self.policy, &run))
    }

    /// The run that a leaf was made of, as far as the leaf knows it.
    fn as_observed(&self, leaf: &Leaf) -> Observation {
        let (trace, answer) = (leaf.trace.clone(), Ok(self.resolved(leaf).unwrap_or_default()));
        let goal = Some(leaf.goal().clone());
        Observation {
            trace,
            reads: Vec::new(),
            writes: Vec::new(),
            answer,
            goal,
            made_at: None,
            goes_back: None,
            floods: false,
        }
    }

    fn compare(&mut self, id: LeafId, first: Observation, again: &Observation) {
        // A leaf does not know the cells that it read by itself; that it is current says what is needed of them.
        let first = Observation { reads: again.reads.clone(), ..first };
        // What a plan comes to is no business of the leaf's.
        let is_same = first.goal.is_some() && first.goal == again.goal;
        let first = if is_same { Observation { answer: again.answer.clone(), ..first } } else { first };
        let Some(difference) = first.difference(again).filter(|_| self.store.is_current(id)) else { return };
        self.stats.rechecks_failed += 1;
        let what = format!("{difference}; first {}, now {}", shown(&first.trace), shown(&again.trace));
        let place = difference.at.map(|at| at.to_string()).unwrap_or_default();
        self.report_once(Report::PolicyNotAFunction { what: what.into() }, &format!("recheck {place}"));
        self.withdraw(id);
    }
}

fn shown(trace: &Trace) -> String {
    let items: Vec<String> = trace.items.iter().map(ToString::to_string).collect();
    format!("[{}] at {}", items.join("; "), source_lines(trace))
}
