//! The runs of f by the line at which they ended: how many, how long they took, and how many packets they decided.
//!
//! These are for people who look for the lines that cost most. Nothing that the engine decides rests on them. The lines
//! are those of the policy's files, so their number is bounded. A new policy starts with counts of zero.

use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxHashMap;

use crate::policy_error::PolicyError;
use crate::route::Route;
use crate::run::Run;
use crate::trace::Source;

/// The runs that ended at a line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::engine) struct EndedRuns {
    pub runs: u64,
    pub time: Duration,
    pub misses: u64,
}

/// The runs of the policy so far, by file and line.
#[derive(Clone, Debug, Default)]
pub(in crate::engine) struct LineRuns(FxHashMap<Arc<str>, FxHashMap<u32, EndedRuns>>);

impl LineRuns {
    /// Counts a run that is not finished yet, with f's answer.
    pub fn count_run(&mut self, run: &Run, answer: &Result<Route, PolicyError>) {
        if let Some(line) = run.ended_at_line(answer) {
            let own = self.of(&line);
            own.runs += 1;
            own.time = own.time.saturating_add(run.took());
        }
    }

    /// Counts a packet that a run has decided.
    pub fn count_miss(&mut self, line: &Source) {
        self.of(line).misses += 1;
    }

    fn of(&mut self, Source { file, line, .. }: &Source) -> &mut EndedRuns {
        self.0.entry(Arc::clone(file)).or_default().entry(*line).or_default()
    }

    /// Returns all lines at which runs have ended, in no order.
    pub fn all(&self) -> impl Iterator<Item = (&Arc<str>, u32, EndedRuns)> {
        self.0.iter().flat_map(|(file, lines)| lines.iter().map(move |(line, own)| (file, *line, *own)))
    }
}
