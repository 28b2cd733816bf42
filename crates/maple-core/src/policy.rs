//! What a policy is: the [`Policy`] trait, which closures implement; and what it may ask: [`PacketHandle`] and [`Net`].

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::policy_error::panic_text;
use crate::route::Route;
use crate::run::Run;

pub use crate::load::Load;
pub use crate::policy_error::PolicyError;
pub use crate::run::{Net, PacketHandle};

/// The user's f.
pub trait Policy: Send + Sync {
    /// Decides where `pkt` goes. The answer must depend only on what it reads through its arguments.
    ///
    /// # Errors
    /// [`PolicyError`] drops the packet; nothing is cached.
    fn decide(&self, pkt: &PacketHandle, net: &Net) -> Result<Route, PolicyError>;

    /// Decides several packets, in order, with one answer each. Bindings to a language with a global lock take it once
    /// here.
    ///
    /// A panic in [`Policy::decide`] is the error of that packet alone.
    fn decide_batch(&self, runs: &[Run]) -> Vec<Result<Route, PolicyError>> {
        let decide = |run: &Run| {
            let decided = catch_unwind(AssertUnwindSafe(|| self.decide(&run.packet(), &run.net())));
            decided.unwrap_or_else(|panic| Err(PolicyError::Exception(panic_text("the policy", &*panic))))
        };
        runs.iter().map(decide).collect()
    }

    /// Runs `worker`, which is the whole work of a thread that calls this policy. Bindings to languages that register
    /// their threads do so here once, instead of for each batch.
    fn on_thread(&self, worker: &mut (dyn FnMut() + Send)) {
        worker();
    }
}

impl<F> Policy for F
where
    F: Fn(&PacketHandle, &Net) -> Route + Send + Sync,
{
    fn decide(&self, pkt: &PacketHandle, net: &Net) -> Result<Route, PolicyError> {
        Ok(self(pkt, net))
    }
}
