//! Copies of engines, for rehearsals.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::Engine;
use crate::engine::context::options::Options;
use crate::engine::context::timers::Timer;

/// A copy of an engine, which does nothing by itself.
pub struct EngineCopy(pub(in crate::engine) Engine);

impl EngineCopy {
    /// Copies an engine for a [`Rehearsal`], without the packets that wait.
    pub(super) fn from_engine(engine: &Engine) -> EngineCopy {
        let options = quiet(&engine.fabric.ctx.options);
        let mut copy = Engine::new(
            engine.fabric.ctx.shard,
            Arc::clone(engine.fabric.ctx.store.shared()),
            Arc::clone(&engine.decisions.policy),
            options,
        );
        copy.fabric.ctx.now = engine.fabric.ctx.now;
        copy.topology.address_kinds = engine.topology.address_kinds;
        copy.decisions.leaves = engine.decisions.leaves.clone();
        drop(copy.decisions.leaves.take_held());
        copy.fabric.copy_routes(&engine.fabric);
        copy.reload.former = engine.reload.former.clone();
        copy.fabric.switches = engine.fabric.switches.copy(&copy.fabric.ctx.options);
        copy.fabric.ctx.stale = engine.fabric.ctx.stale.clone();
        copy.fabric.ctx.heard = engine.fabric.ctx.heard;
        // Changes that are held back for these switches are not among those that a candidate makes.
        let held_back = engine.fabric.switches.values().filter(|switch| switch.unreachable.is_some());
        let dirty = engine.fabric.ctx.dirty().chain(held_back.map(|switch| switch.dpid));
        dirty.for_each(|dpid| copy.fabric.ctx.mark_dirty(dpid));
        copy.fabric.ctx.inbox = engine.fabric.ctx.inbox.clone();
        // Hosts, counters and refused rules are other matters.
        let is_kept = |timer: &Timer| {
            use Timer::{EarlyRequests, Labels, Leaf, NextPath, Routes};
            matches!(timer, Leaf(_) | Labels(_) | Routes | NextPath(_) | EarlyRequests)
        };
        copy.fabric.ctx.copy_timers(&engine.fabric.ctx, is_kept);
        EngineCopy(copy)
    }
}

/// Options with which an engine does nothing by itself.
pub(in crate::engine) fn quiet(options: &Options) -> Options {
    let (poll, audit, flow_mod_rate) = (Duration::ZERO, Duration::ZERO, None);
    Options { poll, audit, flow_mod_rate, check_rate: 0, remember: false, ..options.clone() }
}

impl fmt::Debug for EngineCopy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EngineCopy").field("shard", &self.0.fabric.ctx.shard).finish_non_exhaustive()
    }
}
