//! Puts a new leaf into its switch's tree.

use super::Engine;
use super::drops::Origin;
use super::leaf::{Leaf, LeafState, source_lines};
use super::received_packet::ReceivedPacket;
use crate::compile::{LeafAction, Table};
use crate::ids::LeafId;
use crate::route::Goal;
use crate::trace::Trace;
use crate::tree::Augmented;

impl Engine {
    /// Puts a leaf into its switch's tree. Returns the leaf that is now there for its packets: this one, or an equal
    /// one.
    pub(super) fn cache_leaf(&mut self, id: LeafId, mut leaf: Leaf) -> LeafId {
        let ingress = leaf.ingress();
        if !self.switches.contains_key(&ingress) {
            self.ctx.store.forget(id);
            return id;
        }
        let action = self.prepare_leaf(id, &mut leaf);
        let Some(switch) = self.switches.get_mut(&ingress) else { return id };
        match insert(&mut switch.table, id, &mut leaf, action.clone()) {
            Augmented::Added => {}
            Augmented::Existing(old) => {
                let current = self.ctx.store.is_current(old);
                if current && self.leaves.get(&old).is_some_and(|there| *there.goal() == leaf.answer) {
                    self.ctx.store.forget(id);
                    self.discard_prepared(id, &mut leaf);
                    return old;
                }
                if current {
                    self.inconsistent(old, &shown(&leaf));
                }
                self.withdraw(old);
                if let Some(switch) = self.switches.get_mut(&ingress) {
                    insert(&mut switch.table, id, &mut leaf, action);
                }
            }
            Augmented::Replaced { removed, .. } => {
                for old in removed {
                    if self.ctx.store.is_current(old) {
                        self.inconsistent(old, &shown(&leaf));
                    }
                    self.withdraw(old);
                }
            }
        }
        self.register_leaf(id, leaf);
        id
    }

    pub(super) fn new_leaf(&mut self, trace: Trace, (answer, origin): (Goal, Origin), witness: ReceivedPacket) -> Leaf {
        Leaf {
            trace: self.leaves.intern(trace),
            specialisation: Box::default(),
            answer,
            origin: self.leaves.intern_origin(origin),
            route_id: None,
            witness,
            state: LeafState::Waiting { by_controller: false, since: self.ctx.now },
            held: None,
        }
    }

    /// Counts and reports that the leaf `old` and the leaf `new`, in the form of [`shown`], cannot both be right.
    pub(super) fn inconsistent(&mut self, old: LeafId, new: &str) {
        self.ctx.stats.inconsistent_runs += 1;
        let Some(old) = self.leaves.get(&old) else { return };
        let what = format!("first {}, now {new}", shown(old));
        self.not_a_function(&what, "not a function");
    }
}

/// The observations of a leaf's run, and the source lines that decided, as text.
pub(super) fn shown(leaf: &Leaf) -> String {
    let items: Vec<String> = leaf.trace.steps().map(|step| step.to_string()).collect();
    format!("[{}] at {}", items.join("; "), source_lines(&leaf.trace))
}

/// Adds a leaf's trace to its ingress table. The walk follows the tree for as long as the trace asks the same
/// questions.
pub(super) fn insert(table: &mut Table, id: LeafId, leaf: &mut Leaf, action: LeafAction) -> Augmented {
    let packet = leaf.witness.packet();
    let mut run = table.begin_replay();
    run.observe(&packet, &leaf.trace);
    let run = run.finish(&packet);
    let outcome = table.insert_replayed(run, id, action, &packet);
    leaf.specialisation = table.tree().specialisation(id).into();
    outcome
}
