//! The faults that a check has found. Packets with the same fault are counted together.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::observe::{Observation, RunDifference};
use super::sample_packets::Sample;
use crate::policy::PolicyError;
use crate::run::Violation;
use crate::trace::Source;

/// The maximum number of different failure texts that are kept: texts can have values of packets in them. Chosen: far
/// more than people read, and a bound on memory.
const MAX_FAILURES: usize = 1000;

/// The faults that a check has found so far. [`Check::faults`](super::Check::faults) returns them.
#[derive(Debug, Default)]
pub struct Faults {
    findings: BTreeMap<FindingKey, Finding>,
    failures: BTreeMap<String, Counted>,
    goes_back: BTreeMap<Arc<str>, Counted>,
    /// Packets for which the policy writes each time, by the line that writes.
    writes_each: BTreeMap<Arc<str>, Counted>,
    /// Routes that constraints refused, by constraint and line.
    violations: BTreeMap<(Arc<str>, Option<Source>), (Violation, Counted)>,
}

/// The key under which findings are counted together: the line, and whether the traces are equal and only their ends
/// differ.
type FindingKey = (Option<(Arc<str>, u32)>, bool);

/// A place where f reads something that is not tracked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The place where two runs differed, and how, for the first packet that showed it.
    pub difference: RunDifference,
    /// The first packet that showed it.
    pub sample: Sample,
    /// The number of comparisons that showed it.
    pub count: u64,
}

/// Packets with the same fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counted {
    /// The first of them.
    pub sample: Sample,
    /// The number of such packets.
    pub count: u64,
}

impl Counted {
    /// Creates a count of none, whose first packet will be `sample`.
    fn from_first(sample: &Sample) -> Counted {
        Counted { sample: sample.clone(), count: 0 }
    }
}

impl Faults {
    /// Returns the places where runs differed, by file and line.
    pub fn findings(&self) -> impl Iterator<Item = &Finding> {
        self.findings.values()
    }

    /// Returns the error texts of f, at most 1,000, each with the packets on which it failed in that way.
    pub fn failures(&self) -> impl Iterator<Item = (&str, &Counted)> {
        self.failures.iter().map(|(error, counted)| (&**error, counted))
    }

    /// Returns the lines that made routes whose only port is the one where the packet came in, and the packets.
    /// Switches send nothing out of that port.
    pub fn routes_back(&self) -> impl Iterator<Item = (&str, &Counted)> {
        self.goes_back.iter().map(|(place, counted)| (&**place, counted))
    }

    /// Returns the lines that write for a packet, and again for the next one like it, and those packets: they can have
    /// no rules.
    pub fn writes_each(&self) -> impl Iterator<Item = (&str, &Counted)> {
        self.writes_each.iter().map(|(place, counted)| (&**place, counted))
    }

    /// Returns the routes that constraints refused: the first one for each constraint and line, with the number of
    /// packets.
    pub fn violations(&self) -> impl Iterator<Item = (&Violation, &Counted)> {
        self.violations.values().map(|(violation, counted)| (violation, counted))
    }

    /// Counts what a run shows by itself: refused routes, a failure, a route that only leads back.
    pub(super) fn count(&mut self, sample: &Sample, run: &Observation) {
        let new = || Counted::from_first(sample);
        for violation in &run.violations {
            let key = (Arc::clone(&violation.constraint), violation.place.clone());
            self.violations.entry(key).or_insert_with(|| (violation.clone(), new())).1.count += 1;
        }
        match &run.answer {
            Err(PolicyError::Retry) => {}
            Err(error) => {
                let text = error.to_string();
                if self.failures.len() < MAX_FAILURES || self.failures.contains_key(&text) {
                    self.failures.entry(text).or_insert_with(new).count += 1;
                }
            }
            Ok(_) => {
                if let Some(place) = &run.goes_back {
                    self.goes_back.entry(Arc::clone(place)).or_insert_with(new).count += 1;
                }
            }
        }
    }

    /// Counts a run that wrote again (`next`) after f had written for the same packet (`first`).
    pub(super) fn count_write(&mut self, sample: &Sample, first: &Observation, next: &Observation) {
        let place = next.wrote_at.as_ref().or(first.wrote_at.as_ref()).map_or("the policy".into(), ToString::to_string);
        self.writes_each.entry(place.into()).or_insert_with(|| Counted::from_first(sample)).count += 1;
    }

    /// Counts a difference between two runs on a packet, if there is one.
    pub(super) fn compare(&mut self, sample: &Sample, first: &Observation, later: &Observation) {
        let Some(difference) = first.difference(later) else { return };
        let place = difference.at.clone().map(|Source { file, line, .. }| (file, line));
        let is_end = first.trace.asks_like(&later.trace);
        let new = || Finding { difference, sample: sample.clone(), count: 0 };
        self.findings.entry((place, is_end)).or_insert_with(new).count += 1;
    }
}
