//! Decisions: f's answers as leaves, and the packets that wait for one.

use std::sync::Arc;

use super::Effect;
use super::access_hits::AccessHits;
use super::await_barriers::BarrierWaits;
use super::context::Context;
use super::leaves::Leaves;
use super::recheck::Rechecks;
use super::waiting::Waiting;
use crate::policy::Policy;

/// What f has decided at this shard.
pub(super) struct Decisions {
    pub policy: Arc<dyn Policy>,
    /// The packets that the rules of the policy's access lists have decided.
    pub access_hits: AccessHits,
    pub leaves: Leaves,
    pub waiting: Waiting,
    pub rechecks: Rechecks,
    pub barrier_waits: BarrierWaits,
}

impl Decisions {
    /// Creates the decisions of a shard before the first packet. `remember`: the engine publishes its leaves.
    pub fn new(policy: Arc<dyn Policy>, remember: bool) -> Decisions {
        Decisions {
            access_hits: AccessHits::new(&*policy),
            policy,
            leaves: Leaves::new(remember),
            waiting: Waiting::default(),
            rechecks: Rechecks::default(),
            barrier_waits: BarrierWaits::default(),
        }
    }

    /// Publishes the leaves that came, changed or went since the last time ([`Effect::Remember`]).
    pub fn publish(&mut self, ctx: &mut Context) {
        if let Some(changed) = self.leaves.take_changed() {
            let witness = |id| (id, self.leaves.get(&id).map(|leaf| leaf.remembered()));
            ctx.out.push(Effect::Remember(changed.into_iter().map(witness).collect()));
        }
    }
}
