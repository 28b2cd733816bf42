//! The causes of drops: the line of the policy that decides so, or the engine's reason.

use std::fmt;
use std::sync::Arc;

use maple_wire::Dpid;

use crate::network::Location;
use crate::run::RunResult;
use crate::trace::Source;

/// The maximum length of an error's text that is kept, in bytes. Chosen: a line for people to read. One text is kept
/// for each kind of drop, and hosts can cause many.
const MAX_ERROR: usize = 200;

/// The cause for which packets are dropped.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DropCause {
    /// f drops them, or a constraint refused f's route.
    Policy(Arc<Origin>),
    /// f failed. The text is the last line of the error that is not empty, cut off at 200 bytes.
    Failed(Arc<str>),
    /// f waited for a change (`retry`) that did not come before other packets had to wait.
    Waited(Arc<Origin>),
    /// A constraint demands the packet's way, and there was no rule that leads along it.
    NoRuleForWay(Arc<Origin>),
    /// The packet's source is a host at this other port.
    Elsewhere(Location),
    /// The packet's port admits no packets, or its source is a host at another port.
    NotAdmissible,
    /// The packet's port or switch has its maximum number of hosts.
    TooManyHosts,
    /// The configuration closes the port.
    Closed,
    /// The hosts of the port's segment use another port.
    Shut,
    /// The port is closed, or the hosts of its segment use another port: the switch drops it.
    ShutOrClosed,
    /// Discovery did not find the port to be an edge port, or not in time.
    NewPort,
    /// The packet came over a link without a label that is known.
    UnknownLabel,
    /// Only the packet's beginning was captured, and the switch did not keep the rest.
    Truncated,
    /// The packet's port does not exist, or is down.
    NoPort,
    /// The packet was to leave at this switch, which has no connection to the controller, and there is no label to it.
    Unreachable(Dpid),
    /// Drops of further kinds than are kept for one port and minute.
    Others,
}

/// The origin of a decision of f.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    /// The line that made the route; without it, the last line that asked something.
    pub line: Option<Source>,
    /// The constraint that refused f's route, if one did: it drops the packet.
    pub constraint: Option<Arc<str>>,
}

impl Origin {
    /// Returns the origin of a run's decision.
    pub fn from_result(finished: &RunResult) -> Origin {
        let asked = || finished.trace.steps().filter_map(|step| step.source().cloned()).last();
        let refused = finished.violations.last();
        let by_refused = refused.and_then(|violation| violation.place.clone());
        Origin {
            line: by_refused.or_else(|| finished.made_at.clone()).or_else(asked),
            constraint: refused.map(|violation| Arc::clone(&violation.constraint)),
        }
    }
}

impl DropCause {
    /// Returns the cause for an error of f.
    pub(in crate::engine) fn failed(error: &str) -> DropCause {
        let first = error.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default().trim();
        let end = (0..=first.len().min(MAX_ERROR)).rev().find(|at| first.is_char_boundary(*at)).unwrap_or_default();
        DropCause::Failed(first[..end].into())
    }

    /// Returns the line of the policy that drops the packet, if there is one.
    pub fn line(&self) -> Option<&Source> {
        match self {
            DropCause::Policy(origin) | DropCause::Waited(origin) | DropCause::NoRuleForWay(origin) => {
                origin.line.as_ref()
            }
            _ => None,
        }
    }

    /// Returns the constraint, if one drops the packet.
    pub fn constraint(&self) -> Option<&Arc<str>> {
        if let DropCause::Policy(origin) = self { origin.constraint.as_ref() } else { None }
    }
}

impl fmt::Display for DropCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DropCause::Policy(origin) => match &origin.constraint {
                Some(constraint) => write!(f, "the constraint {constraint} refuses the route"),
                None => f.write_str("the policy drops it"),
            },
            DropCause::Failed(error) => write!(f, "the policy failed: {error}"),
            DropCause::Waited(_) => f.write_str("the policy waited for a change that did not come in time"),
            DropCause::NoRuleForWay(_) => f.write_str("a constraint demands its way, and there is no rule for that"),
            DropCause::Elsewhere(at) => write!(f, "the host is at another port ({:x}:{})", at.switch.0, at.port),
            DropCause::NotAdmissible => f.write_str("the host is at another port"),
            DropCause::TooManyHosts => f.write_str("the port or the switch has too many hosts"),
            DropCause::Closed => f.write_str("the port is closed by the configuration"),
            DropCause::Shut => f.write_str("the hosts of this segment use another port"),
            DropCause::ShutOrClosed => {
                f.write_str("the port is closed by the configuration, or the hosts of its segment use another port")
            }
            DropCause::NewPort => f.write_str("discovery did not find an edge port there in time"),
            DropCause::UnknownLabel => f.write_str("it came over a link without a label that is known"),
            DropCause::Truncated => f.write_str("only the beginning of the packet came to the controller"),
            DropCause::Unreachable(switch) => {
                write!(f, "switch {switch} is unreachable for the controller, and there is no label to its port")
            }
            DropCause::NoPort => f.write_str("the port does not exist or is down"),
            DropCause::Others => f.write_str("more kinds of drops at this port than are kept"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_an_error_is_its_last_line_and_short() {
        let text = |error: &str| DropCause::failed(error).to_string();
        assert_eq!(text("Traceback:\n  policy.py:3\nKeyError: 7\n"), "the policy failed: KeyError: 7");
        let long = "ä".repeat(MAX_ERROR);
        assert!(text(&long).len() <= MAX_ERROR + "the policy failed: ".len());
        assert_eq!(text(""), "the policy failed: ");
    }
}
