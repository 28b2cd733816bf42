//! Runs f again on cached leaves from time to time, to check that f observes only what is tracked.
//!
//! Leaves are checked in turn, [`crate::engine::Options::check_rate`] a second, each on its witness packet. The run
//! uses the newest snapshot, and its writes are thrown away. If a leaf is current *after* the run, it was current all
//! the time, because a withdrawn leaf never returns under its id. So all cells that it read have had one value since
//! its own run, and f must behave as it did then. If f behaves differently, the leaf is wrong or will be. It is
//! withdrawn, and a report says so once for each place.
//!
//! Cost: a run of f and a comparison for each check; nothing while there is no leaf.

use std::time::Duration;

use super::Decisions;
use super::leaf::{Leaf, trace_text};
use super::leaves::Leaves;
use crate::check::Observation;
use crate::engine::context::timers::Timer;
use crate::engine::fabric::Fabric;
use crate::engine::tools::expected::Expected;
use crate::ids::{LeafId, Time};
use crate::trace::Trace;

/// The time when the next leaf is checked, and the id from which to look for it.
#[derive(Debug, Default)]
pub(in crate::engine) struct Rechecks {
    due: Time,
    next: u64,
}

impl Rechecks {
    /// Returns the time of the next check if one is due, at `rate` checks per second (0: never).
    fn take_due(&mut self, now: Time, rate: u32) -> Option<Time> {
        if rate == 0 || now < self.due {
            return None;
        }
        self.due = now + Duration::from_secs(1) / rate;
        Some(self.due)
    }

    /// Returns the next leaf to check, in the order of ids.
    fn take_next<'a>(&mut self, leaves: &'a Leaves) -> Option<(LeafId, &'a Leaf)> {
        let (id, leaf) = leaves.next_from(LeafId(self.next))?;
        self.next = id.0 + 1;
        Some((id, leaf))
    }
}

impl Decisions {
    /// Checks the next leaf, if a check is due.
    pub fn recheck(&mut self, fabric: &mut Fabric) {
        if self.leaves.is_empty() {
            return;
        }
        let Some(due) = self.rechecks.take_due(fabric.ctx.now(), fabric.ctx.options.check_rate) else { return };
        fabric.ctx.wake_at(due, Timer::Recheck);
        let Some((id, leaf)) = self.rechecks.take_next(&self.leaves).expected() else { return };
        let first = observation_of(fabric, leaf);
        if let Some(again) = self.run_again(fabric, id) {
            self.compare(fabric, id, first, &again);
        }
    }

    /// Runs f on the leaf's witness packet. Returns `None` if that packet would not come to f.
    fn run_again(&mut self, fabric: &mut Fabric, id: LeafId) -> Option<Observation> {
        let run = Decisions::rerun(fabric, self.leaves.get(&id)?)?;
        fabric.ctx.stats.rechecks += 1;
        Some(Observation::from_run(&*self.policy, &run))
    }

    fn compare(&mut self, fabric: &mut Fabric, id: LeafId, first: Observation, again: &Observation) {
        // A leaf does not keep the cells that it read. That it is current says enough about them.
        let first = Observation { reads: again.reads.clone(), ..first };
        // A leaf does not depend on what its plan resolves to.
        let is_same = first.goal.is_some() && first.goal == again.goal;
        let first = if is_same { Observation { answer: again.answer.clone(), ..first } } else { first };
        let Some(difference) = first.difference(again).filter(|_| fabric.ctx.store.is_current(id)) else { return };
        fabric.ctx.stats.rechecks_failed += 1;
        let what = format!("{difference}{}", questions_in_words(&first.trace, &again.trace));
        let place = difference.at.map(|at| at.to_string()).unwrap_or_default();
        self.report_nondeterminism(fabric, &what, &format!("recheck {place}"));
        self.withdraw(fabric, id);
    }
}

/// Returns the observation of the run that made the leaf, as far as the leaf keeps it.
fn observation_of(fabric: &Fabric, leaf: &Leaf) -> Observation {
    Observation {
        trace: leaf.trace.clone(),
        reads: Vec::new(),
        writes: Vec::new(),
        wrote_at: None,
        answer: Ok(Decisions::resolved(fabric, leaf).unwrap_or_default()),
        goal: Some(leaf.newest_goal().clone()),
        made_at: None,
        goes_back: None,
        violations: Vec::new(),
        floods: false,
    }
}

/// Returns the questions of two runs, in words for people, if they differ.
fn questions_in_words(first: &Trace, again: &Trace) -> String {
    let asked = |trace: &Trace| trace.steps().next().map_or_else(|| "nothing".to_owned(), |_| trace_text(trace));
    if first.asks_like(again) {
        return String::new();
    }
    format!("; it asked {}, and now {}", asked(first), asked(again))
}
