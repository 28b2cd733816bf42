//! The [`Policy`] trait, which closures implement, and what a policy may ask: [`PacketHandle`] and [`Net`].

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::access::AccessList;
use crate::policy_error::panic_text;
use crate::route::Route;
use crate::run::Run;

pub use crate::measured_load::Load;
pub use crate::policy_error::PolicyError;
pub use crate::run::{Net, PacketHandle};
pub use crate::sample_packet::SamplePacket;

/// The user's f.
pub trait Policy: Send + Sync {
    /// Decides where `pkt` goes. The answer must depend only on what it reads through its arguments.
    ///
    /// # Errors
    /// [`PolicyError`] if the run gives no route: the packet is dropped, and nothing is cached.
    fn decide(&self, pkt: &PacketHandle, net: &Net) -> Result<Route, PolicyError>;

    /// Decides several packets, in order, and returns one result for each. Bindings to a language with a global lock
    /// take it once here, before [`Run::decide_each`].
    ///
    /// A panic in [`Policy::decide`] is the error of that packet alone.
    fn decide_batch(&self, runs: &[Run]) -> Vec<Result<Route, PolicyError>> {
        let decide = |run: &Run| {
            let decided = catch_unwind(AssertUnwindSafe(|| self.decide(&run.packet(), &run.net())));
            decided.unwrap_or_else(|panic| Err(PolicyError::Exception(panic_text("the policy", &*panic))))
        };
        Run::decide_each(runs, decide)
    }

    /// Returns the policy that this one runs for its answers and only adds to, if there is one. What a policy says of
    /// itself, by the methods below, is what that one says, unless it overrides them.
    fn wrapped(&self) -> Option<&dyn Policy> {
        None
    }

    /// Returns packets that the policy decides by nothing but lists and tests. The engine decides them before such
    /// packets come, at each switch where packets can enter (the paper's proactive installer, §3).
    fn samples(&self) -> Vec<SamplePacket> {
        self.wrapped().map_or_else(Vec::new, Policy::samples)
    }

    /// Returns the access lists that the policy asks, in order. Their counters and differences are shown to people.
    fn access_lists(&self) -> Vec<Arc<AccessList>> {
        self.wrapped().map_or_else(Vec::new, Policy::access_lists)
    }

    /// Returns the names of the constraints that the policy's routes must satisfy: see [`crate::guard`].
    fn constraints(&self) -> Vec<Arc<str>> {
        self.wrapped().map_or_else(Vec::new, Policy::constraints)
    }

    /// Returns the reads in the policy's source that can't be tracked, as far as its language can find them:
    /// `file:line: text`. A report that the policy depends on such a read names them.
    fn untracked_reads(&self) -> Vec<Arc<str>> {
        self.wrapped().map_or_else(Vec::new, Policy::untracked_reads)
    }

    /// Runs `worker`, which is the whole work of a thread that calls this policy. Bindings to languages that register
    /// their threads do so here once, instead of for each batch.
    fn on_thread(&self, worker: &mut (dyn FnMut() + Send)) {
        match self.wrapped() {
            Some(policy) => policy.on_thread(worker),
            None => worker(),
        }
    }
}

impl fmt::Debug for dyn Policy + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Policy")
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
