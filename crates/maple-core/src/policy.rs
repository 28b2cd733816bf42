//! What a policy is, and what it may ask: the [`Policy`] trait, its handles [`PacketHandle`] and [`Net`], its errors.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::network::Mac;
use crate::route::{Route, RouteError};
use crate::run::Run;
use crate::state::{Name, Stop};
use crate::trace::Source;

pub use crate::load::Load;
pub use crate::run::{Net, PacketHandle};

/// The user's f.
pub trait Policy: Send + Sync {
    /// Says where `pkt` goes. Must depend on nothing but what it asks of its arguments.
    ///
    /// # Errors
    /// [`PolicyError`] drops the packet; nothing is cached.
    fn decide(&self, pkt: &PacketHandle, net: &Net) -> Result<Route, PolicyError>;

    /// Decides several packets, in order, one answer each. Bindings whose language has a lock take it once here.
    ///
    /// A panic in [`Policy::decide`] is that packet's error and nobody else's.
    fn decide_batch(&self, runs: &[Run]) -> Vec<Result<Route, PolicyError>> {
        let decide = |run: &Run| {
            let decided = catch_unwind(AssertUnwindSafe(|| self.decide(&run.packet(), &run.net())));
            decided.unwrap_or_else(|panic| Err(PolicyError::Exception(panic_text("the policy", &*panic))))
        };
        runs.iter().map(decide).collect()
    }

    /// Runs `worker`, which is all that a thread does that asks this policy. Bindings to languages that keep books
    /// about threads enter the thread there once, instead of for each batch.
    fn on_thread(&self, worker: &mut (dyn FnMut() + Send)) {
        worker();
    }
}

/// What a panic of `who` says.
pub(crate) fn panic_text(who: &str, panic: &(dyn Any + Send)) -> Arc<str> {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a message");
    format!("{who} panicked: {text}").into()
}

impl<F> Policy for F
where
    F: Fn(&PacketHandle, &Net) -> Route + Send + Sync,
{
    fn decide(&self, pkt: &PacketHandle, net: &Net) -> Result<Route, PolicyError> {
        Ok(self(pkt, net))
    }
}

/// Why a run of f gave no route. The packet is dropped, the error reported once and counted, nothing cached.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// f failed: the text with traceback, as its language prints it.
    #[error("{0}")]
    Exception(Arc<str>),
    /// f returned something that is no route: what it was and where, and what it may return, in its language's words.
    #[error("{0}")]
    WrongReturn(Arc<str>),
    /// f can't answer before something that it read has changed.
    #[error("the packet waits until something that the policy read changes")]
    Retry,
    /// f ran longer than it may: the text with traceback, as its language prints it.
    #[error("{0}")]
    TimeLimit(Arc<str>),
    /// f returned a route that can't be taken.
    #[error("{}{error}", line(.made_at.as_ref()))]
    Route {
        /// What is wrong with it.
        error: RouteError,
        /// The line that made it, where that is known.
        made_at: Option<Source>,
    },
    /// f asked for a path by costs that no link has.
    #[error("net.path(weight={name:?}): links have no costs of this name; {}", names(.known))]
    NoSuchWeight {
        /// The name.
        name: Name,
        /// The names that there are.
        known: Vec<Name>,
    },
    /// f asked where a host is, but hosts are not tracked.
    #[error("net.locate({0}) needs host tracking, which is off (track_hosts=False)")]
    HostsNotTracked(Mac),
    /// f asked for what nobody snoops on: what it asked, and which protocols tell it.
    #[error("{0} needs snooping of {1}, which is off (@policy(snoop=…) or --snoop)")]
    NotSnooped(&'static str, &'static str),
}

impl From<Stop> for PolicyError {
    fn from(stop: Stop) -> PolicyError {
        match stop {
            Stop::Retry => PolicyError::Retry,
            Stop::Cancel => PolicyError::Exception("the policy cancelled its transaction".into()),
        }
    }
}

/// The line that an error is about, as its beginning.
fn line(at: Option<&Source>) -> String {
    at.map(|at| format!("{at}: ")).unwrap_or_default()
}

/// The names that links have costs by, as the end of an error.
fn names(known: &[Name]) -> String {
    let known: Vec<String> = known.iter().map(|name| format!("{name:?}")).collect();
    let known =
        if known.is_empty() { "they have none of any name".into() } else { format!("known: {}", known.join(", ")) };
    format!("{known} (weights() in the policy, `--weights FILE` and links of an emulated topology give costs names)")
}
