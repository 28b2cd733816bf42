//! f's decision about one packet, with everything that f asked.

use std::collections::BTreeMap;

use super::{EnteringPacket, PolicyTrial};
use crate::network::Location;
use crate::policy_error::PolicyError;
use crate::route::Route;
use crate::run::{AccountStep, RunResult, Violation};
use crate::state::{Cell, Write};
use crate::trace::{Source, Trace};

/// The fate of a packet by f's decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PacketFate {
    /// Copies leave the network, or f answers with frames of its own.
    Forwarded,
    /// The packet goes nowhere.
    Dropped,
    /// The packet waits until something that f read changes.
    Waits,
    /// f failed on the packet, so it is dropped.
    Failed(PolicyError),
}

/// f's decision about a packet.
#[derive(Debug)]
pub struct Decision {
    /// The fate of the packet.
    pub fate: PacketFate,
    /// Everything that f asked, in order.
    pub account: Vec<AccountStep>,
    /// The line that made the route, if it is known.
    pub made_at: Option<Source>,
    /// The route as text; empty if there is none.
    pub route: String,
    /// The places where copies of the packet leave the network, with their bytes, in order. `None` if f has no answer.
    pub copies: Option<Vec<(Location, Vec<u8>)>>,
    /// The routes that constraints refused.
    pub violations: Vec<Violation>,
    /// The observations of f.
    pub trace: Trace,
    /// The cells that f read.
    pub reads: Vec<Cell>,
    /// The writes of f. None of them was committed.
    pub writes: Vec<Write>,
}

impl PacketFate {
    /// Returns one word for the fate.
    pub fn word(&self) -> &'static str {
        match self {
            PacketFate::Forwarded => "forwarded",
            PacketFate::Dropped => "dropped",
            PacketFate::Waits => "waits",
            PacketFate::Failed(_) => "failed",
        }
    }
}

impl Decision {
    /// Runs the policy on a packet, as if these writes were made: those that the controller learns from the packet, and
    /// assumptions.
    pub fn from_trial(tried: &PolicyTrial<'_>, packet: &EnteringPacket, given: &[Write]) -> Decision {
        let run = tried.run(packet, given);
        let answer = tried.policy.decide_batch(std::slice::from_ref(&run)).pop();
        let answer = answer.unwrap_or_else(|| Err(PolicyError::Exception("the policy gave no answer".into())));
        let resolved = answer.and_then(|route| Ok((run.resolved(&route)?, run.with_floods(&route))));
        let Some(finished) = run.finish() else {
            return Decision::failed(PolicyError::Exception("the policy ended its own run".into()));
        };
        let RunResult { trace, txn, error, account, violations, .. } = finished;
        let resolved = match (resolved, error) {
            // The policy's error is more precise about the place than the error that was recorded for it.
            (Err(error), _) | (_, Some(error)) => Err(error),
            (Ok(resolved), None) => Ok(resolved),
        };
        let made_at = resolved.as_ref().ok().and_then(|(_, route)| route.made_at().cloned());
        let made_at = made_at.or_else(|| violations.last().and_then(|violation| violation.place.clone()));
        let copies = resolved.as_ref().ok().map(|(resolved, _)| resolved.copies(&packet.frame, packet.at));
        let fate = match (&resolved, &copies) {
            (Err(PolicyError::Retry), _) => PacketFate::Waits,
            (Err(error), _) => PacketFate::Failed(error.clone()),
            (Ok(_), Some(copies)) if copies.is_empty() => PacketFate::Dropped,
            (Ok(_), _) => PacketFate::Forwarded,
        };
        Decision {
            fate,
            account,
            made_at,
            route: resolved.as_ref().map(|(_, route)| text(route)).unwrap_or_default(),
            copies,
            violations,
            trace,
            reads: txn.reads().map(|(cell, _)| cell.clone()).collect(),
            writes: txn.writes().iter().skip(given.len()).cloned().collect(),
        }
    }

    fn failed(error: PolicyError) -> Decision {
        Decision {
            fate: PacketFate::Failed(error),
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

    /// Returns the line that decided: the one that made the route, or else the last one that asked something.
    pub fn line(&self) -> Option<&Source> {
        self.made_at.as_ref().or_else(|| self.account.iter().rev().find_map(|step| step.source.as_ref()))
    }

    /// Returns the places where copies leave and the number of copies at each.
    pub(super) fn exits(&self) -> Option<BTreeMap<Location, usize>> {
        let mut exits = BTreeMap::new();
        for (at, _) in self.copies.as_ref()? {
            *exits.entry(*at).or_default() += 1;
        }
        Some(exits)
    }
}

/// Returns a route as text. The run is over, so this does not count as reading its hops.
fn text(route: &Route) -> String {
    route.to_string()
}
