//! What a policy is: the [`Policy`] trait, which closures implement; and what it may ask: [`PacketHandle`] and [`Net`].

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::access::AccessList;
use crate::policy_error::panic_text;
use crate::route::Route;
use crate::run::Run;

pub use crate::load::Load;
pub use crate::policy_error::PolicyError;
pub use crate::run::{Net, PacketHandle};
pub use crate::sample::SamplePacket;

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

    /// Packets that the policy decides by nothing but lists and tests. The engine decides them before such packets come,
    /// at each switch where packets can enter (the paper's proactive installer, §3).
    fn samples(&self) -> Vec<SamplePacket> {
        Vec::new()
    }

    /// The access lists that it asks, in order: what people want to see counters and differences of.
    fn access_lists(&self) -> Vec<Arc<AccessList>> {
        Vec::new()
    }

    /// The constraints that its routes are under, by name: see [`crate::portal`].
    fn constraints(&self) -> Vec<Arc<str>> {
        Vec::new()
    }

    /// Reads in its source that can't be tracked, as far as its language can find them: `file:line: text`. A report that
    /// the policy depends on such a read names them.
    fn untracked_reads(&self) -> Vec<Arc<str>> {
        Vec::new()
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
