//! Copies of engines, for rehearsals. Each part makes its own copy.

use std::fmt;

use super::Engine;
use crate::engine::beforehand::samples::Samples;
use crate::engine::live::LiveWatches;
use crate::engine::reruns::restore::Restore;

/// A copy of an engine, which does nothing by itself.
pub struct EngineCopy(pub(in crate::engine) Engine);

impl EngineCopy {
    /// Copies an engine for a [`Rehearsal`](crate::engine::Rehearsal), without the packets that wait.
    pub(super) fn from_engine(engine: &Engine) -> EngineCopy {
        let fabric = engine.fabric.copy();
        EngineCopy(Engine {
            topology: engine.topology.copy(&fabric.ctx.options),
            decisions: engine.decisions.copy(),
            samples: Samples::new(engine.decisions.policy.samples()),
            explorer: engine.explorer.copy(),
            fabric,
            reload: engine.reload.copy(),
            restore: Restore::default(),
            live: LiveWatches::default(),
        })
    }
}

impl fmt::Debug for EngineCopy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineCopy").field("shard", &self.0.fabric.ctx.shard()).finish_non_exhaustive()
    }
}
