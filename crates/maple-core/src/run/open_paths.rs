//! Paths whose end a look-up found, and of which a run has observed no more than that it is there.
//!
//! f may return such a path: then one decision is for all places that the look-up finds. If f reads the path, or the route
//! is more than the path, the run observes the end, at that moment: what a run asks next must follow from what it has
//! asked before. f reads a path through the route, which knows no run. So this thread's runs are noted here.

use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use super::{RequestedPath, Run, RunState};
use crate::route::PathReads;

/// The maximum number of runs of a thread that are noted. Runs of a batch may be under way at the same time. Chosen:
/// far more than a batch has packets, and a bound on memory if runs never end.
const MAX_RUNS: usize = 1 << 16;

thread_local! {
    static RUNS: RefCell<Vec<Weak<RefCell<Option<RunState>>>>> = const { RefCell::new(Vec::new()) };
}

/// Notes a run that has made a path whose end a look-up found.
pub(super) fn note_run(run: &Run) {
    RUNS.with_borrow_mut(|runs| {
        let is_it = |noted: &Weak<_>| Weak::as_ptr(noted) == Rc::as_ptr(&run.state);
        if runs.last().is_some_and(is_it) {
            return;
        }
        runs.retain(|noted| noted.upgrade().is_some_and(|state| !matches!(state.try_borrow().as_deref(), Ok(None))));
        if runs.len() < MAX_RUNS {
            runs.push(Rc::downgrade(&run.state));
        }
    });
}

/// Lets the run that made a path observe the path's end, because f reads the path. If that run is not this thread's,
/// [`RunState::has_unobserved_reads`] says so when it ends.
pub(super) fn on_read(reads: &Arc<PathReads>) {
    let runs = RUNS.with_borrow(Clone::clone);
    for run in runs.iter().rev().filter_map(Weak::upgrade) {
        let Ok(mut state) = run.try_borrow_mut() else { continue };
        if let Some(state) = state.as_mut()
            && state.observe_end(reads)
        {
            return;
        }
    }
}

impl RunState {
    /// Observes the end of a path that f made in this run. Returns whether it did so by now.
    fn observe_end(&mut self, of: &Arc<PathReads>) -> bool {
        let Some(index) = self.routes.paths.iter().position(|path| Arc::ptr_eq(&path.reads, of)) else { return false };
        self.observe_end_of(index);
        true
    }

    fn observe_end_of(&mut self, index: usize) {
        let path = &mut self.routes.paths[index];
        if let Some(open) = path.reads.open_end().filter(|_| !path.is_end_observed) {
            path.is_end_observed = true;
            let (field, place) = (open.field, open.place);
            self.read_found(field, place, None);
        }
    }

    /// Observes the ends of all paths that f made.
    pub(super) fn observe_ends(&mut self) {
        (0..self.routes.paths.len()).for_each(|index| self.observe_end_of(index));
    }

    /// Reports whether f has read a path whose end the run has not observed, because that happened elsewhere than in the
    /// run's thread. Then the trace says too little.
    pub(super) fn has_unobserved_reads(&self) -> bool {
        let is_read = |path: &RequestedPath| path.reads.open_end().is_some() && path.reads.are_any();
        self.routes.paths.iter().any(|path| is_read(path) && !path.is_end_observed)
    }
}
