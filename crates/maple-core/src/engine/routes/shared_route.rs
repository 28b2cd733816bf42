//! A route that leaves share.

use super::PlanChange;
use super::path::{LabelledPath, PathState};
use std::collections::BTreeSet;
use std::sync::Arc;

use maple_wire::{Action, Constraint, Dpid, Field, Instruction, Match, Version};
use rustc_hash::FxHashSet;

use crate::compile::LeafAction;
use crate::engine::switch::ROUTES;
use crate::forwarding::{self, Forwarding};
use crate::ids::{LeafId, Time};
use crate::labels::Carriage;
use crate::network::Location;
use crate::route::{Goal, Plan, Resolved, SwitchHops};
use crate::rule::Rule;

/// The priority of rules in the table of routes, no two of which take the same packet.
const PRIORITY: u16 = 1;

/// What makes two routes the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::engine) struct RouteKey {
    pub ingress: Dpid,
    /// What the ingress speaks.
    pub version: Version,
    pub goal: Goal,
    pub carriage: Carriage,
}

/// A route, for all leaves that take it.
#[derive(Debug)]
pub(in crate::engine) struct SharedRoute {
    pub(super) key: Arc<RouteKey>,
    /// What stands for it in the store, where it follows a plan.
    pub(super) subscription: Option<LeafId>,
    /// What f's answer comes to, as far as it is known here.
    pub(super) resolved: Arc<Resolved>,
    pub(super) path: LabelledPath,
    /// The path that it takes as soon as that is ready, which has to be by then.
    pub(super) next: Option<(LabelledPath, Time)>,
    /// Courses that rules may still lead along.
    pub(super) former: Vec<LabelledPath>,
    /// The number of the meter that its packets pass at the ingress.
    pub(super) meter: Option<u32>,
    /// Whether its leaves' rules lead to an entry of its own; and the number of that, if there is one.
    pub(super) uses_route_table: bool,
    pub(super) metadata: Option<u64>,
    /// How often in a row labels were refused.
    pub(super) refusals: u32,
    /// How often leaves have joined it and not left.
    pub(super) members: usize,
    /// The leaves that take it or are about to.
    pub(super) leaves: FxHashSet<LeafId>,
    /// Of how many leaves the ingress switch may have rules.
    pub(super) users: usize,
    /// Leaves that wait for it to be ready.
    pub(super) waiting: BTreeSet<LeafId>,
}

impl SharedRoute {
    /// Whether packets may be sent, and nothing else is about to hold.
    pub fn is_ready(&self) -> bool {
        self.path.state == PathState::Ready && self.next.is_none()
    }

    /// Whether a label was refused.
    pub fn is_refused(&self) -> bool {
        matches!(self.path.state, PathState::Refused { .. })
    }

    /// What f said, once for all its leaves.
    pub fn goal(&self) -> &Goal {
        &self.key.goal
    }

    /// The leaves that take it or are about to.
    pub fn leaves(&self) -> impl Iterator<Item = LeafId> {
        self.leaves.iter().copied()
    }

    /// Where its packets enter.
    pub fn ingress(&self) -> Dpid {
        self.key.ingress
    }

    /// The plan that it follows, and what stands for it in the store.
    pub fn plan(&self) -> Option<(LeafId, &Plan)> {
        match &self.key.goal {
            Goal::Plan(plan) => Some((self.subscription?, plan)),
            Goal::Fixed(_) => None,
        }
    }

    /// What f's answer comes to, as far as it is known here.
    pub fn resolved(&self) -> &Arc<Resolved> {
        &self.resolved
    }

    /// Those that waited, if the route is ready.
    pub(super) fn take_ready(&mut self) -> PlanChange {
        if self.is_ready() { PlanChange::Ready(std::mem::take(&mut self.waiting)) } else { PlanChange::Nothing }
    }

    /// The edge ports where packets leave.
    pub fn exits(&self) -> Vec<Location> {
        let switches = self.path.resolved.switches.iter();
        switches.flat_map(|(dpid, hops)| hops.edges.iter().map(|port| Location::new(*dpid, *port))).collect()
    }

    /// Whether only packets without a VLAN tag can take it.
    pub fn is_for_untagged(&self) -> bool {
        self.key.carriage.untagged_only
    }

    /// What the ingress does with packets; nothing is to drop.
    pub fn actions(&self) -> Vec<Action> {
        let RouteKey { ingress, version, carriage, .. } = &*self.key;
        let none = SwitchHops::default();
        let hops = self.path.resolved.switches.get(ingress).unwrap_or(&none);
        let links = self.path.onward.labels().unwrap_or_default();
        let treatment = carriage.left(hops);
        let forwarding = Forwarding {
            links: &links,
            edges: &hops.edges,
            treatment: &treatment,
            tagged: hops.tagged || carriage.tagged,
            replaced: carriage.replaced,
        };
        forwarding::at_ingress(*version, &carriage.shared, &forwarding)
    }

    fn instructions(&self) -> Vec<Instruction> {
        forwarding::instructions(self.key.version, self.actions(), self.meter)
    }

    /// What its leaves' rules do with packets.
    pub fn action(&self) -> LeafAction {
        if let Some(metadata) = self.metadata {
            let carry = Instruction::WriteMetadata { metadata, mask: u64::MAX };
            return LeafAction::Apply(vec![carry, Instruction::GotoTable(ROUTES)]);
        }
        match self.is_for_untagged() {
            true => LeafAction::ApplyTo(Constraint::exact(Field::VlanVid, 0), self.instructions()),
            false => LeafAction::Apply(self.instructions()),
        }
    }

    /// Its rule in the table of routes, if it has one.
    pub fn rule(&self, cookie: impl Fn(LeafId) -> u64) -> Option<Rule> {
        let matching = Match::any().exact(Field::Metadata, u128::from(self.metadata?));
        let instructions = self.instructions().into();
        Some(Rule { priority: PRIORITY, matching, instructions, cookie: cookie(self.subscription?) })
    }
}
