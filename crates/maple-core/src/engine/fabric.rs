//! The fabric: this shard's switches, the routes and labels that lead packets between them, and the context.

use super::context::Context;
use super::routes::Routes;
use super::switches::Switches;
use crate::labels::Acquire;

/// What the decisions and the topology of a shard work on. The labels that routes use at a switch are in
/// [`Switch::labels`](super::switch::Switch::labels).
pub(super) struct Fabric {
    pub ctx: Context,
    pub switches: Switches,
    pub routes: Routes,
    /// Requests for labels that came before all rules of an earlier run were known.
    pub early_requests: Vec<Acquire>,
}

impl Fabric {
    /// Creates the fabric of a shard without switches.
    pub fn new(ctx: Context) -> Fabric {
        Fabric { routes: Routes::new(ctx.shard), ctx, switches: Switches::default(), early_requests: Vec::new() }
    }
}
