//! What a policy asked and answered in a laboratory, line by line.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use maple_core::policy::{Net, PacketHandle, Policy, PolicyError, SamplePacket};
use maple_core::route::Route;
use maple_core::run::Run;
use maple_core::trace::{Item, Source, Step};

/// The maximum number of questions, and of lines, that are told apart.
const MOST: usize = 10_000;

/// A file and a line of it.
type Place = (Arc<str>, u32);

/// The decisions of a policy, counted.
#[derive(Clone, Debug, Default)]
pub struct Decisions {
    /// The number of runs.
    pub runs: u64,
    /// How often each test was asked, by file, line and test.
    pub tests: BTreeMap<(Arc<str>, u32, String), Asked>,
    /// How often each line asked a question, or made the route.
    pub lines: BTreeMap<(Arc<str>, u32), u64>,
}

/// How often a test failed and held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// The packet did not fit.
    pub no: u64,
    /// It did.
    pub yes: u64,
}

/// A policy whose decisions are counted.
pub(crate) struct Counted {
    policy: Arc<dyn Policy>,
    decisions: Mutex<Decisions>,
}

impl Decisions {
    fn line(&mut self, source: &Source) {
        let place: Place = (Arc::clone(&source.file), source.line);
        if self.lines.len() < MOST || self.lines.contains_key(&place) {
            *self.lines.entry(place).or_default() += 1;
        }
    }

    fn take(&mut self, run: &Run, route: &Result<Route, PolicyError>) {
        self.runs += 1;
        let trace = run.observed();
        for step in trace.steps() {
            let Some(source) = step.source() else { continue };
            self.line(source);
            let Step::Item(Item::Test { cond, outcome }, _) = step else { continue };
            let key = (Arc::clone(&source.file), source.line, cond.to_string());
            if self.tests.len() < MOST || self.tests.contains_key(&key) {
                let asked = self.tests.entry(key).or_default();
                *(if *outcome { &mut asked.yes } else { &mut asked.no }) += 1;
            }
        }
        if let Some(made_at) = route.as_ref().ok().and_then(Route::made_at) {
            self.line(made_at);
        }
    }
}

impl Counted {
    pub fn new(policy: Arc<dyn Policy>) -> Counted {
        Counted { policy, decisions: Mutex::default() }
    }

    pub fn decisions(&self) -> Decisions {
        self.decisions.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn forget(&self) {
        *self.decisions.lock().unwrap_or_else(PoisonError::into_inner) = Decisions::default();
    }

    /// The policy itself, whose decisions are not counted.
    pub fn inner(&self) -> &Arc<dyn Policy> {
        &self.policy
    }
}

impl Policy for Counted {
    fn decide(&self, pkt: &PacketHandle, net: &Net) -> Result<Route, PolicyError> {
        self.policy.decide(pkt, net)
    }

    fn decide_batch(&self, runs: &[Run]) -> Vec<Result<Route, PolicyError>> {
        let routes = self.policy.decide_batch(runs);
        let mut decisions = self.decisions.lock().unwrap_or_else(PoisonError::into_inner);
        runs.iter().zip(&routes).for_each(|(run, route)| decisions.take(run, route));
        routes
    }

    fn samples(&self) -> Vec<SamplePacket> {
        self.policy.samples()
    }

    fn constraints(&self) -> Vec<Arc<str>> {
        self.policy.constraints()
    }

    fn on_thread(&self, worker: &mut (dyn FnMut() + Send)) {
        self.policy.on_thread(worker);
    }
}
