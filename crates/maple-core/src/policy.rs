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

impl<F> Policy for F
where
    F: Fn(&PacketHandle, &Net) -> Route + Send + Sync,
{
    fn decide(&self, pkt: &PacketHandle, net: &Net) -> Result<Route, PolicyError> {
        Ok(self(pkt, net))
    }
}
