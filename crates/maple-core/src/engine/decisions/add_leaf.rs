//! Puts a new leaf into its switch's tree.
//!
//! Next on a packet's way: [`crate::engine::decisions::route_news`].

use super::Decisions;
use super::leaf::{Leaf, LeafState, trace_text};
use crate::compile::{LeafAction, RuleTable};
use crate::engine::context::reports::Novelty;
use crate::engine::fabric::Fabric;
use crate::engine::messages::cause::Origin;
use crate::engine::messages::received_packet::ReceivedPacket;
use crate::engine::one_switch::look_up_tables::WithMetadata;
use crate::engine::tools::expected::Expected;
use crate::ids::LeafId;
use crate::report::{Report, ReportKind, ReportSubject};
use crate::route::Goal;
use crate::run::RunResult;
use crate::trace::Trace;
use crate::tree::Augmented;

/// The leaf that answers the packets of a run.
pub(in crate::engine) struct AdoptedLeaf {
    /// The leaf.
    pub leaf: LeafId,
    /// Whether the run made it. If not, it was there, and answers alike.
    pub is_new: bool,
}

impl Decisions {
    /// Makes a leaf from a run whose packet does not wait (remembered, sampled, explored or decided again). The caller
    /// has checked that the answer lasts. Reports left-out places and violations. `None` if something that the run read
    /// has changed.
    pub fn adopt(
        &mut self,
        fabric: &mut Fabric,
        goal: Goal,
        finished: RunResult,
        witness: ReceivedPacket,
    ) -> Option<AdoptedLeaf> {
        let id = self.new_leaf_id(fabric);
        let origin = Origin::from_result(&finished);
        let RunResult { trace, txn, violations, left_out, made_at, .. } = finished;
        fabric.ctx.store.commit(txn, Some(id.into())).ok()?;
        fabric.ctx.report_left_out(left_out, made_at.as_ref());
        fabric.ctx.report_violations(violations, witness.at);
        let leaf = self.new_leaf(fabric, trace, goal, origin, witness);
        let leaf = self.cache_leaf(fabric, id, leaf);
        Some(AdoptedLeaf { leaf, is_new: leaf == id })
    }

    /// Puts a leaf into its switch's tree. Returns the leaf that is now there for its packets: this one, or an equal
    /// one.
    pub fn cache_leaf(&mut self, fabric: &mut Fabric, id: LeafId, mut leaf: Leaf) -> LeafId {
        let ingress = leaf.ingress();
        if !fabric.switches.contains_key(&ingress) {
            fabric.ctx.store.forget(id);
            return id;
        }
        let action = self.prepare_leaf(fabric, id, &mut leaf);
        let Some(switch) = fabric.switches.known_mut(ingress) else { return id };
        match insert(&mut switch.ingress.table, id, &mut leaf, action.clone()) {
            Augmented::Added => {}
            Augmented::Existing(old) => {
                let current = fabric.ctx.store.is_current(old);
                if current && self.leaves.get(&old).is_some_and(|there| *there.newest_goal() == leaf.goal) {
                    fabric.ctx.store.forget(id);
                    Decisions::discard_prepared(fabric, id, &mut leaf);
                    return old;
                }
                if current {
                    self.report_inconsistency(fabric, old, &trace_text(&leaf.trace));
                }
                self.withdraw(fabric, old);
                if let Some(switch) = fabric.switches.get_mut(&ingress) {
                    insert(&mut switch.ingress.table, id, &mut leaf, action);
                }
            }
            Augmented::Replaced { removed, .. } => {
                for old in removed {
                    if fabric.ctx.store.is_current(old) {
                        self.report_inconsistency(fabric, old, &trace_text(&leaf.trace));
                    }
                    self.withdraw(fabric, old);
                }
            }
        }
        self.register_leaf(fabric, id, leaf);
        id
    }

    /// Creates a leaf that is not in the tree yet.
    pub fn new_leaf(
        &mut self,
        fabric: &mut Fabric,
        trace: Trace,
        goal: Goal,
        origin: Origin,
        witness: ReceivedPacket,
    ) -> Leaf {
        Leaf {
            trace: self.leaves.intern(trace),
            extra_reads: Box::default(),
            goal,
            origin: self.leaves.intern_origin(origin),
            route_id: None,
            witness,
            state: LeafState::Waiting { by_controller: false, since: fabric.ctx.now() },
            held: None,
        }
    }

    /// Adds a leaf that has been put into its tree to the leaves of this shard.
    fn register_leaf(&mut self, fabric: &mut Fabric, id: LeafId, leaf: Leaf) {
        let ingress = leaf.ingress();
        self.leaves.insert(id, leaf);
        fabric.mark_dirty(ingress);
    }

    /// Counts and reports that the leaf `old` and the leaf `new`, in the form of [`trace_text`], cannot both be right.
    pub fn report_inconsistency(&mut self, fabric: &mut Fabric, old: LeafId, new: &str) {
        fabric.ctx.stats.inconsistent_runs += 1;
        let Some(old) = self.leaves.get(&old).expected() else { return };
        let what = format!("first {}, now {new}", trace_text(&old.trace));
        self.report_nondeterminism(fabric, &what, "not a function");
    }

    /// Reports, once for each key, that f reads something that is not tracked.
    pub fn report_nondeterminism(&mut self, fabric: &mut Fabric, what: &str, key: &str) {
        let novelty = fabric.ctx.reports_mut().note(ReportKind::PolicyNotAFunction, ReportSubject::Policy, key);
        if novelty != Novelty::Known {
            let reads = self.policy.untracked_reads().into();
            let report = Report::PolicyNotAFunction { what: what.into(), reads };
            fabric.ctx.report_novel(ReportSubject::Policy, novelty, report);
        }
    }
}

/// Adds a leaf's trace to its ingress table. The walk follows the tree for as long as the trace asks the same
/// questions.
pub(in crate::engine) fn insert(table: &mut RuleTable, id: LeafId, leaf: &mut Leaf, action: LeafAction) -> Augmented {
    // The leaf is for packets of the classes that its run observed, whatever class its witness packet is in by now.
    let metadata = leaf.trace.metadata().value;
    let packet = WithMetadata { packet: leaf.witness.packet(), metadata };
    let mut run = table.begin_replay();
    run.observe(&packet, &leaf.trace);
    let run = run.finish(&packet);
    let outcome = table.insert_replayed(run, id, action, &packet);
    leaf.extra_reads = table.tree().extra_reads(id).into();
    outcome
}
