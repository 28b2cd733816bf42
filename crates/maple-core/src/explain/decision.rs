//! What f decides about one packet, with everything that it asked.

use std::collections::BTreeMap;

use super::{Entering, Tried};
use crate::network::Location;
use crate::policy_error::PolicyError;
use crate::route::Route;
use crate::run::{AccountStep, Finished, Violation};
use crate::state::{Cell, Write};
use crate::trace::{Source, Trace};

/// What becomes of a packet by f's decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Copies leave the network, or f answers with frames of its own.
    Forwarded,
    /// It goes nowhere.
    Dropped,
    /// It waits until something that f read changes.
    Waits,
    /// f failed on it, so it is dropped.
    Failed(PolicyError),
}

/// What f decides about a packet.
#[derive(Debug)]
pub struct Decision {
    /// What becomes of the packet.
    pub verdict: Verdict,
    /// Everything that f asked, in order.
    pub account: Vec<AccountStep>,
    /// The line that made the route, if it is known.
    pub made_at: Option<Source>,
    /// The route as text; empty if there is none.
    pub route: String,
    /// Where copies of the packet leave the network, with their bytes, in order. `None` if f has no answer.
    pub copies: Option<Vec<(Location, Vec<u8>)>>,
    /// The routes that constraints refused.
    pub violations: Vec<Violation>,
    /// What f observed of the packet.
    pub trace: Trace,
    /// The cells that f read.
    pub reads: Vec<Cell>,
    /// What f wrote. Nothing of it was committed.
    pub writes: Vec<Write>,
}

impl Verdict {
    /// One word for it.
    pub fn word(&self) -> &'static str {
        match self {
            Verdict::Forwarded => "forwarded",
            Verdict::Dropped => "dropped",
            Verdict::Waits => "waits",
            Verdict::Failed(_) => "failed",
        }
    }
}

impl Decision {
    /// Runs the policy on a packet, as if these writes were made.
    pub fn of(tried: &Tried<'_>, packet: &Entering, assumed: &[Write]) -> Decision {
        let run = tried.run(packet, assumed);
        let answer = tried.policy.decide_batch(std::slice::from_ref(&run)).pop();
        let answer = answer.unwrap_or_else(|| Err(PolicyError::Exception("the policy gave no answer".into())));
        let resolved = answer.and_then(|route| Ok((run.resolved(&route)?, run.with_floods(&route))));
        let Some(finished) = run.finish() else {
            return Decision::failed(PolicyError::Exception("the policy ended its own run".into()));
        };
        let Finished { trace, txn, error, account, violations, .. } = finished;
        let resolved = match (resolved, error) {
            // The policy's error is more precise about the place than the error that was noted for it.
            (Err(error), _) | (_, Some(error)) => Err(error),
            (Ok(resolved), None) => Ok(resolved),
        };
        let made_at = resolved.as_ref().ok().and_then(|(_, route)| route.made_at().cloned());
        let made_at = made_at.or_else(|| violations.last().and_then(|violation| violation.place.clone()));
        let copies = resolved.as_ref().ok().map(|(resolved, _)| resolved.copies(&packet.frame, packet.at));
        let verdict = match (&resolved, &copies) {
            (Err(PolicyError::Retry), _) => Verdict::Waits,
            (Err(error), _) => Verdict::Failed(error.clone()),
            (Ok(_), Some(copies)) if copies.is_empty() => Verdict::Dropped,
            (Ok(_), _) => Verdict::Forwarded,
        };
        let own = tried.learned.len() + assumed.len();
        Decision {
            verdict,
            account,
            made_at,
            route: resolved.as_ref().map(|(_, route)| text(route)).unwrap_or_default(),
            copies,
            violations,
            trace,
            reads: txn.reads().map(|(cell, _)| cell.clone()).collect(),
            writes: txn.writes().iter().skip(own).cloned().collect(),
        }
    }

    fn failed(error: PolicyError) -> Decision {
        Decision {
            verdict: Verdict::Failed(error),
            account: Vec::new(),
            made_at: None,
            route: String::new(),
            copies: None,
            violations: Vec::new(),
            trace: Trace::default(),
            reads: Vec::new(),
            writes: Vec::new(),
        }
    }

    /// The line that decided: the one that made the route, or else the last that asked something.
    pub fn line(&self) -> Option<&Source> {
        self.made_at.as_ref().or_else(|| self.account.iter().rev().find_map(|step| step.source.as_ref()))
    }

    /// Where copies leave, without their bytes.
    pub(super) fn exits(&self) -> Option<BTreeMap<Location, usize>> {
        let mut exits = BTreeMap::new();
        for (at, _) in self.copies.as_ref()? {
            *exits.entry(*at).or_default() += 1;
        }
        Some(exits)
    }
}

/// A route as text. The run is over, so this is no look at its hops.
fn text(route: &Route) -> String {
    route.to_string()
}
