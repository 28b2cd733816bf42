//! The results of a check for each constraint of a policy.

use std::io::Write;
use std::sync::Arc;

use maple_core::check::{Check, Counted, Open};
use maple_core::guard::Violation;
use serde_json::{Value, json};

use super::print_findings::{packets, sample_json, shown};

/// The result for one constraint.
pub struct ConstraintResult {
    constraint: Arc<str>,
    /// The routes that the constraint refused: the first one of each line, with the packets.
    violations: Vec<(Violation, Counted)>,
    /// Whether the runs covered all possible ones; the error says why not.
    complete: Result<(), String>,
}

/// Returns the verdicts on all constraints, in order. `is_suspicious`: the source reads something that is not tracked.
pub fn verdicts(check: &Check, is_suspicious: bool) -> Vec<ConstraintResult> {
    let complete = match check.is_complete() {
        Ok(()) if is_suspicious => Err("the policy reads something that is not tracked".to_owned()),
        complete => complete.map_err(|open: Open| open.to_string()),
    };
    let verdict = |constraint: Arc<str>| {
        let of_it = check.faults().violations().filter(|(violation, _)| violation.constraint == constraint);
        let violations = of_it.map(|(violation, counted)| (violation.clone(), counted.clone())).collect();
        ConstraintResult { constraint, violations, complete: complete.clone() }
    };
    check.constraints().into_iter().map(verdict).collect()
}

impl ConstraintResult {
    /// Reports whether a packet violates the constraint.
    pub fn is_violated(&self) -> bool {
        !self.violations.is_empty()
    }

    /// Prints the verdict. `tried`: the number of packets that were tried.
    ///
    /// # Errors
    /// If `out` can't be written.
    pub fn write(&self, out: &mut dyn Write, tried: u64) -> std::io::Result<()> {
        let constraint = &self.constraint;
        for (violation, counted) in &self.violations {
            let place = violation.place.as_ref().map_or_else(|| "in the policy".into(), ToString::to_string);
            let count = packets(counted.count);
            writeln!(out, "{place}: the route of {count} violates {constraint}: {}", violation.why)?;
            writeln!(out, "    packet  {}", shown(counted))?;
        }
        match &self.complete {
            _ if self.is_violated() => Ok(()),
            Ok(()) => writeln!(out, "{constraint}: proved for all packets, in this network as it is"),
            Err(why) => writeln!(out, "{constraint}: no packet of {tried} violates it, which is not a proof: {why}"),
        }
    }

    /// Returns the verdict as JSON.
    pub fn json(&self) -> Value {
        let violation = |(violation, counted): &(Violation, Counted)| {
            let at = violation.place.as_ref().map(ToString::to_string);
            json!({"at": at, "why": &*violation.why, "packet": sample_json(&counted.sample), "count": counted.count})
        };
        json!({
            "constraint": &*self.constraint,
            "violations": self.violations.iter().map(violation).collect::<Vec<_>>(),
            "proved": !self.is_violated() && self.complete.is_ok(),
            "open": self.complete.as_ref().err(),
        })
    }
}
