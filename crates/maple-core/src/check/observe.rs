//! The observation of one run of f, and the difference between two runs that should be equal.

use std::fmt;

use std::sync::Arc;

use crate::network::OwnFrame;
use crate::policy::{Policy, PolicyError};
use crate::route::{Goal, Resolved};
use crate::run::{Run, Violation};
use crate::state::{Cell, Write};
use crate::trace::{Source, Trace};

/// The observations of one run of f, and its result.
#[derive(Clone, Debug)]
pub struct Observation {
    /// The observations of the packet, with the lines that asked.
    pub trace: Trace,
    /// The cells that f read, in the order of cells.
    pub reads: Vec<Cell>,
    /// The writes of f.
    pub writes: Vec<Write>,
    /// The line that wrote first, if known.
    pub wrote_at: Option<Source>,
    /// The route of the packet, or the reason why the run failed.
    pub answer: Result<Arc<Resolved>, PolicyError>,
    /// The part of the answer that a leaf would keep.
    pub(crate) goal: Option<Goal>,
    /// The line that made the route, if known.
    pub made_at: Option<Source>,
    /// The line that made the route, if the route's only port is the one where the packet came in.
    pub goes_back: Option<Arc<str>>,
    /// The routes that constraints refused.
    pub violations: Vec<Violation>,
    /// Whether the route floods.
    pub floods: bool,
}

/// The place where two runs of f on the same packet and state differ, although they should be equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunDifference {
    /// The line of the first difference: that of a trace item, or else the one that made the route. If neither is
    /// known, the last line before it.
    pub at: Option<Source>,
    /// The last line at which both runs asked the same question.
    pub after: Option<Source>,
    /// The first run's step there.
    pub first: String,
    /// The second run's step there.
    pub second: String,
}

impl Observation {
    /// Lets `policy` decide, and ends the run. Nothing is committed.
    pub fn from_run(policy: &dyn Policy, run: &Run) -> Observation {
        let missing = || Err(PolicyError::Exception("the policy gave no answer".into()));
        let answer = policy.decide_batch(std::slice::from_ref(run)).pop().unwrap_or_else(missing);
        let made_at = answer.as_ref().ok().and_then(|route| route.made_at().cloned());
        let floods = answer.as_ref().is_ok_and(|route| run.with_floods(route).floods());
        let (goal, resolved) = match answer.and_then(|route| run.resolve(&route)) {
            Ok((goal, resolved)) => (Some(goal), Ok(resolved)),
            Err(error) => (None, Err(error)),
        };
        let Some(finished) = run.finish() else {
            let ended = PolicyError::Exception("the policy ended its own run".into());
            let (trace, reads, writes) = Default::default();
            return Observation {
                trace,
                reads,
                writes,
                wrote_at: None,
                answer: Err(ended),
                goal: None,
                made_at,
                goes_back: None,
                violations: Vec::new(),
                floods: false,
            };
        };
        Observation {
            trace: finished.trace,
            reads: finished.txn.reads().map(|(cell, _)| cell.clone()).collect(),
            writes: finished.txn.writes().to_vec(),
            wrote_at: finished.wrote_at,
            answer: finished.error.map_or(resolved, Err),
            goal,
            made_at,
            goes_back: finished.goes_back,
            violations: finished.violations,
            floods,
        }
    }

    /// Returns the run's questions and answers, line by line, for people.
    pub fn lines(&self) -> Vec<String> {
        let with_source = |source: Option<&Source>, text: &str| match source {
            Some(source) => format!("{source}: {text}"),
            None => text.to_owned(),
        };
        let asked = self.trace.steps().filter(|step| step.source().is_some());
        let mut lines: Vec<String> = asked.map(|step| with_source(step.source(), &step.to_string())).collect();
        lines.push(with_source(self.made_at.as_ref(), &self.end()));
        lines
    }

    /// Returns the difference between this run and a later one on the same packet and state, if there is one.
    ///
    /// Two runs that failed are equal, whatever their errors say, because error texts may contain times and addresses.
    pub fn difference(&self, later: &Observation) -> Option<RunDifference> {
        let part = self.trace.steps().zip(later.trace.steps()).take_while(|(a, b)| a == b).count();
        let is_whole = part == self.trace.steps().count() && part == later.trace.steps().count();
        if is_whole && self.reads == later.reads && self.writes == later.writes && self.answers_like(later) {
            return None;
        }
        let source = |run: &Observation, at: usize| run.trace.steps().nth(at).and_then(|step| step.source().cloned());
        let after = part.checked_sub(1).and_then(|last| source(self, last));
        let (first, second) = if is_whole { self.ends(later) } else { (self.step(part), later.step(part)) };
        let asked = source(self, part).or_else(|| source(later, part));
        let at = asked.or_else(|| self.made_at.clone()).or_else(|| later.made_at.clone()).or_else(|| after.clone());
        Some(RunDifference { at, after, first, second })
    }

    fn answers_like(&self, later: &Observation) -> bool {
        match (&self.answer, &later.answer) {
            (Ok(first), Ok(second)) => first == second,
            (Err(_), Err(_)) => true,
            _ => false,
        }
    }

    /// Returns the run's step at a position of its trace, or its end.
    fn step(&self, at: usize) -> String {
        match self.trace.steps().nth(at) {
            Some(step) => step.to_string(),
            None => self.end(),
        }
    }

    fn end(&self) -> String {
        match &self.answer {
            Ok(route) => route_text(route),
            Err(error) => {
                let text = error.to_string();
                format!("failed: {}", text.lines().next_back().unwrap_or_default())
            }
        }
    }

    /// Returns the difference between two runs with equal traces, as a text for each.
    fn ends(&self, later: &Observation) -> (String, String) {
        if !self.answers_like(later) {
            return (self.end(), later.end());
        }
        if self.writes != later.writes {
            return (listed("wrote", &self.writes), listed("wrote", &later.writes));
        }
        let only = |a: &[Cell], b: &[Cell]| {
            let only: Vec<&Cell> = a.iter().filter(|cell| !b.contains(cell)).collect();
            listed("read besides", &only)
        };
        (only(&self.reads, &later.reads), only(&later.reads, &self.reads))
    }
}

fn listed<T: fmt::Debug>(what: &str, things: &[T]) -> String {
    if things.is_empty() {
        return format!("{what} nothing");
    }
    let things: Vec<String> = things.iter().map(|thing| format!("{thing:?}")).collect();
    format!("{what} {}", things.join(", "))
}

/// Returns a route in one line: drop, or the ports that each switch sends the packet out of, with the rewrites.
fn route_text(route: &Resolved) -> String {
    let send_text = |own: &OwnFrame| format!("send {} bytes to {}", own.bytes.len(), own.at);
    let own: Vec<String> = route.own.iter().map(send_text).collect();
    if route.switches.is_empty() {
        return if own.is_empty() { "drop".into() } else { own.join(", ") };
    }
    let hops = |(dpid, hops): (&maple_wire::Dpid, &crate::route::SwitchHops)| {
        let ports: Vec<String> = hops.links.keys().chain(&hops.edges).map(ToString::to_string).collect();
        let set: Vec<String> = hops
            .treatment
            .rewrites
            .iter()
            .map(|(field, value)| format!(" set {field}={}", crate::trace::field_value_text(*field, *value)))
            .collect();
        let queue = hops.treatment.queue.map(|queue| format!(" queue {queue}")).unwrap_or_default();
        format!("{:x}:{}{}{queue}", dpid.0, ports.join(","), set.concat())
    };
    let meter = route.meter.as_ref().map(|meter| format!(" meter {meter}")).unwrap_or_default();
    let switches = route.switches.iter().map(hops).collect::<Vec<_>>().join(" ");
    std::iter::once(format!("route {switches}{meter}")).chain(own).collect::<Vec<_>>().join(", ")
}

impl fmt::Display for RunDifference {
    /// Shows the difference, such as `a.py:7 (after a.py:5): first test tcp_dst=22: yes, then drop`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.at {
            Some(at) => write!(f, "{at}")?,
            None => f.write_str("in the policy")?,
        }
        if let Some(after) = self.after.as_ref().filter(|after| self.at.as_ref() != Some(after)) {
            write!(f, " (after {after})")?;
        }
        write!(f, ": first {}, then {}", self.first, self.second)
    }
}
