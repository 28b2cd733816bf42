//! Counts of a policy's tests and answers in a laboratory, line by line.

use std::collections::BTreeMap;
use std::sync::Arc;

use maple_core::network::RESERVED;
use maple_core::policy::{Net, PacketHandle, Policy, PolicyError};
use maple_core::route::Route;
use maple_core::run::Run;
use maple_core::trace::{Cond, Item, Source, TraceStep};
use maple_wire::{Constraint, Field};
use parking_lot::Mutex;

/// The maximum number of tests, and of lines, that are counted separately, which bounds memory.
const MAX_COUNTED: usize = 10_000;

/// A file and a line of it.
type Place = (Arc<str>, u32);

/// A test: its file and line, and its condition without the fields that only say what kind of packet has the others.
pub type TestKey = (Arc<str>, u32, String);

/// The decisions of a policy, counted.
#[derive(Clone, Debug, Default)]
pub struct Decisions {
    /// The number of runs.
    pub runs: u64,
    /// Outcomes of each test, by file, line and test.
    pub tests: BTreeMap<TestKey, TestCounts>,
    /// The number of times that each line asked a test or made the route.
    pub lines: BTreeMap<(Arc<str>, u32), u64>,
}

/// The numbers of packets that failed and passed a test.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TestCounts {
    /// Packets that did not fit.
    pub no: u64,
    /// Packets that fitted.
    pub yes: u64,
}

/// Returns the condition of a test without the prerequisites of its fields.
fn subject(cond: &Cond) -> String {
    let is_kind = |field: Field| matches!(field, Field::EthType | Field::IpProto);
    let own: Vec<_> = cond.constraints.iter().filter(|constraint| !is_kind(constraint.field)).copied().collect();
    if own.is_empty() && cond.ranges.is_empty() {
        return cond.to_string();
    }
    Cond { constraints: own, ranges: cond.ranges.clone() }.to_string()
}

/// Reports whether floods ask this test by themselves, because bridges never forward these addresses. Tests of a policy
/// need not answer such a test both ways.
fn is_of_floods(cond: &Cond) -> bool {
    let is_reserved = |one: &Constraint| one.field == Field::EthDst && RESERVED.contains(&(one.value, one.mask));
    cond.ranges.is_empty() && cond.constraints.len() == 1 && cond.constraints.iter().all(is_reserved)
}

/// A policy whose decisions are counted.
pub(crate) struct CountedPolicy {
    policy: Arc<dyn Policy>,
    decisions: Mutex<Decisions>,
}

impl Decisions {
    fn line(&mut self, source: &Source) {
        let place: Place = (Arc::clone(&source.file), source.line);
        if self.lines.len() < MAX_COUNTED || self.lines.contains_key(&place) {
            *self.lines.entry(place).or_default() += 1;
        }
    }

    fn answered(&mut self, question: Option<(TestKey, bool)>) {
        let Some((key, fits)) = question else { return };
        if self.tests.len() < MAX_COUNTED || self.tests.contains_key(&key) {
            let asked = self.tests.entry(key).or_default();
            *(if fits { &mut asked.yes } else { &mut asked.no }) += 1;
        }
    }

    fn take(&mut self, run: &Run, route: &Result<Route, PolicyError>) {
        self.runs += 1;
        let trace = run.observed();
        // The question that the last steps belong to, and whether the packet fits.
        let mut open: Option<(TestKey, bool)> = None;
        for step in trace.steps() {
            let test = match step {
                TraceStep::Item(Item::Test { cond, outcome }, Some(source)) if !is_of_floods(cond) => {
                    Some(((Arc::clone(&source.file), source.line, subject(cond)), *outcome))
                }
                _ => None,
            };
            step.source().into_iter().for_each(|source| self.line(source));
            match (&mut open, test) {
                // Such a repeated test is about IPv4 and then about IPv6, or about two places of a list.
                (Some((key, fits)), Some((same, outcome))) if *key == same && !*fits => *fits = outcome,
                (_, test) => {
                    self.answered(open.take());
                    open = test;
                }
            }
        }
        self.answered(open);
        if let Some(made_at) = route.as_ref().ok().and_then(Route::made_at) {
            self.line(made_at);
        }
    }
}

impl CountedPolicy {
    pub fn new(policy: Arc<dyn Policy>) -> CountedPolicy {
        CountedPolicy { policy, decisions: Mutex::default() }
    }

    pub fn decisions(&self) -> Decisions {
        self.decisions.lock().clone()
    }

    pub fn forget(&self) {
        *self.decisions.lock() = Decisions::default();
    }

    /// Returns the policy itself; runs through it are not counted.
    pub fn inner(&self) -> &Arc<dyn Policy> {
        &self.policy
    }
}

impl Policy for CountedPolicy {
    fn decide(&self, pkt: &PacketHandle, net: &Net) -> Result<Route, PolicyError> {
        self.policy.decide(pkt, net)
    }

    fn decide_batch(&self, runs: &[Run]) -> Vec<Result<Route, PolicyError>> {
        let routes = self.policy.decide_batch(runs);
        let mut decisions = self.decisions.lock();
        runs.iter().zip(&routes).for_each(|(run, route)| decisions.take(run, route));
        routes
    }

    fn wrapped(&self) -> Option<&dyn Policy> {
        Some(&*self.policy)
    }
}
