//! The reasons why a run of a policy gives no route.

use std::any::Any;
use std::sync::Arc;

use crate::ids::Name;
use crate::network::Mac;
use crate::route_plan::RouteError;
use crate::state::Stop;
use crate::trace::Source;

/// The reason why a run of f gave no route. The packet is dropped, the error is reported once and counted, and nothing
/// is cached.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// f failed: the text with its traceback, as f's language prints it.
    #[error("{0}")]
    Exception(Arc<str>),
    /// f returned something that is not a route. The text says what it was and where, and what f may return, in the
    /// words of f's language.
    #[error("{0}")]
    WrongReturn(Arc<str>),
    /// f can't answer until something that it read has changed.
    #[error("the packet waits until something that the policy read changes")]
    Retry,
    /// f ran longer than allowed: the text with its traceback, as f's language prints it.
    #[error("{0}")]
    TimeLimit(Arc<str>),
    /// f returned a route that can't be followed.
    #[error("{}{error}", line(.made_at.as_ref()))]
    Route {
        /// The fault of the route.
        error: RouteError,
        /// The line that made the route, if known.
        made_at: Option<Source>,
    },
    /// A tier of a composed policy failed.
    #[error("{tier}: {error}")]
    InTier {
        /// The name of the tier.
        tier: Name,
        /// The error of the tier.
        error: Box<PolicyError>,
    },
    /// A constraint of the policy refuses the route. The text is the reason.
    #[error("the route is refused: {0}")]
    Violates(Arc<str>),
    /// A constraint failed, so whether the route satisfies it is not known.
    #[error("{constraint} failed, and the packet is dropped: {error}")]
    InConstraint {
        /// The constraint.
        constraint: Arc<str>,
        /// The error of the constraint.
        error: Box<PolicyError>,
    },
    /// f asked for a path by costs that no link has.
    #[error("links have no costs named {name:?}; {}", names(.known))]
    NoSuchCosts {
        /// The name that f gave.
        name: Name,
        /// The names that links have.
        known: Vec<Name>,
    },
    /// f asked where a host is, but hosts are not tracked.
    #[error("net.locate({0}) needs host tracking, which is off")]
    HostsNotTracked(Mac),
    /// f asked for something that needs snooping, which is off: what it asked for, and the protocols on which to snoop.
    #[error("{0} needs snooping on {1}, which is off (docs/snooping.md says how to turn it on)")]
    NotSnooped(&'static str, &'static str),
}

impl PolicyError {
    /// Returns the error as that of a tier of a composition. An error that already names its tier keeps it.
    pub(crate) fn in_tier(self, tier: &Name) -> PolicyError {
        match self {
            PolicyError::Retry | PolicyError::InTier { .. } => self,
            PolicyError::Route { error, made_at: Some(line) } => {
                PolicyError::Route { error, made_at: Some(line.in_tier(tier)) }
            }
            error => PolicyError::InTier { tier: Arc::clone(tier), error: Box::new(error) },
        }
    }
}

impl PolicyError {
    /// Reports whether this is the error of a constraint. No fallback takes the place of such an error.
    pub(crate) fn is_of_constraint(&self) -> bool {
        match self {
            PolicyError::InTier { error, .. } => error.is_of_constraint(),
            error => matches!(error, PolicyError::InConstraint { .. }),
        }
    }

    /// Reports whether the policy, or a tier of it, ran longer than allowed.
    #[must_use]
    pub fn is_time_limit(&self) -> bool {
        match self {
            PolicyError::InTier { error, .. } | PolicyError::InConstraint { error, .. } => error.is_time_limit(),
            error => matches!(error, PolicyError::TimeLimit(_)),
        }
    }
}

impl From<Stop> for PolicyError {
    fn from(stop: Stop) -> PolicyError {
        match stop {
            Stop::Retry => PolicyError::Retry,
            Stop::Cancel => PolicyError::Exception("the policy cancelled its transaction".into()),
        }
    }
}

/// Returns the line that an error is about, as the beginning of its text.
fn line(at: Option<&Source>) -> String {
    at.map(|at| format!("{at}: ")).unwrap_or_default()
}

/// Lists the names of costs that links have, as the end of an error's text.
fn names(known: &[Name]) -> String {
    let known: Vec<String> = known.iter().map(|name| format!("{name:?}")).collect();
    if known.is_empty() { "there are none of any name".into() } else { format!("known: {}", known.join(", ")) }
}

/// Returns the text of a panic in `who`.
pub(crate) fn panic_text(who: &str, panic: &(dyn Any + Send)) -> Arc<str> {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a message");
    format!("{who} panicked: {text}").into()
}
