//! Decisions: f's answers as leaves, and the packets that wait for one.

// Each paragraph is a layer, the lowest first. No file knows one of a layer above, and no files know each other in a
// circle; tests/python/test_parts.py checks that.

// What is kept of leaves and packets.
pub(super) mod await_barriers;
pub(super) mod count_reports;
pub(super) mod disjoint;
pub(super) mod leaf;
pub(super) mod leaves;
pub(super) mod line_runs;
pub(super) mod undecided;

// f runs.
pub(super) mod runs;

// A leaf and its route: used, left, withdrawn. Packets that are sent.
pub(super) mod invalidate;
pub(super) mod leaf_route;
pub(super) mod place_ways;
pub(super) mod send;

// A leaf is installed. Its route changes.
pub(super) mod install;
pub(super) mod route_news;

// A leaf begins: it joins a route, and its tree.
pub(super) mod add_leaf;
pub(super) mod join_route;
pub(super) mod join_way;
pub(super) mod reroute;

// The rules of switches.
pub(super) mod confirm;
pub(super) mod eviction;
pub(super) mod flush;
pub(super) mod keep_look_ups;
pub(super) mod refused_rules;

// f decides, and decides again.
pub(super) mod decide;
pub(super) mod hit;
pub(super) mod recheck;
pub(super) mod reconsider;

// For people.
pub(super) mod leaf_view;
pub(super) mod line_view;
pub(super) mod rule_view;

use std::sync::Arc;

use crate::engine::context::Context;
use crate::engine::context::access_hits::AccessHits;
use crate::engine::messages::event::Effect;
use crate::policy::Policy;
use await_barriers::BarrierWaits;
use leaves::Leaves;
use line_runs::LineRuns;
use place_ways::PlaceWays;
use recheck::Rechecks;
use undecided::Undecided;

/// The decisions of f at this shard.
pub(super) struct Decisions {
    pub policy: Arc<dyn Policy>,
    /// The packets that the rules of the policy's access lists have decided.
    pub access_hits: AccessHits,
    /// The runs of the policy, for people.
    pub line_runs: LineRuns,
    pub leaves: Leaves,
    pub undecided: Undecided,
    pub rechecks: Rechecks,
    pub barrier_waits: BarrierWaits,
    pub ways: PlaceWays,
}

impl Decisions {
    /// Creates the decisions of a shard before the first packet. `remember`: the engine publishes its leaves.
    pub fn new(policy: Arc<dyn Policy>, remember: bool) -> Decisions {
        Decisions {
            access_hits: AccessHits::new(&*policy),
            policy,
            line_runs: LineRuns::default(),
            leaves: Leaves::new(remember),
            undecided: Undecided::default(),
            rechecks: Rechecks::default(),
            barrier_waits: BarrierWaits::default(),
            ways: PlaceWays::default(),
        }
    }

    /// Returns a copy without the packets that wait.
    pub fn copy(&self) -> Decisions {
        let mut leaves = self.leaves.clone();
        drop(leaves.take_held());
        Decisions { leaves, ways: self.ways.clone(), ..Decisions::new(Arc::clone(&self.policy), false) }
    }

    /// Publishes the leaves that came, changed or went since the last time ([`Effect::Remember`]).
    pub fn publish(&mut self, ctx: &mut Context) {
        if let Some(changed) = self.leaves.take_changed() {
            let witness = |id| (id, self.leaves.get(&id).map(|leaf| leaf.remembered()));
            ctx.add_effect(Effect::Remember(changed.into_iter().map(witness).collect()));
        }
    }
}
