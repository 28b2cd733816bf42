//! One route, which all leaves with the same goal share: its paths, its members, and the rules that it makes.

use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use maple_wire::{Action, Constraint, Dpid, Field, Instruction, Match, Version};
use rustc_hash::FxHashSet;
use siphasher::sip::SipHasher13;

use super::PlanChange;
use super::path::{LabelledPath, PathState};
use crate::compile::LeafAction;
use crate::forwarding;
use crate::forwarding::Forwarding;
use crate::ids::{DependentId, LeafId, Time};
use crate::labels::Carriage;
use crate::network::Location;
use crate::route::{Goal, Resolved, RoutePlan, SwitchHops};
use crate::rule::Rule;

/// The priority of all rules in the table of routes. No two of them match the same packet, so one above that of the
/// default rule is enough.
const PRIORITY: u16 = 1;

/// The key of a route. Leaves whose keys are equal share one route.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::engine) struct RouteKey {
    pub ingress: Dpid,
    /// The OpenFlow version of the ingress.
    pub version: Version,
    pub goal: Goal,
    pub carriage: Carriage,
}

impl RouteKey {
    /// Returns the hash of the key, which very likely no other route has. It is the same in every build of the program
    /// for machines alike in words and byte order:
    /// the rules of a switch outlive the controller that made them.
    pub fn number(&self) -> u64 {
        let mut hasher = SipHasher13::new();
        self.hash(&mut hasher);
        hasher.finish()
    }
}

/// A route, for all leaves that use it.
#[derive(Clone, Debug)]
pub(in crate::engine) struct SharedRoute {
    pub(super) key: Arc<RouteKey>,
    /// The route's id as a subscriber in the store, if it follows a plan.
    pub(super) subscription: Option<DependentId>,
    /// The resolution of f's decision, as far as this shard knows.
    pub(super) resolved: Arc<Resolved>,
    pub(super) path: LabelledPath,
    /// The path that will replace the current one when it is ready, and the time by which it has to be.
    pub(super) next: Option<(LabelledPath, Time)>,
    /// Earlier paths that rules may still lead along.
    pub(super) former: Vec<LabelledPath>,
    /// The meter of the route's packets at the ingress.
    pub(super) meter: Option<u32>,
    /// The table of routes, if the ingress has one and the route follows a plan.
    pub(super) route_table: Option<u8>,
    /// The metadata number of that rule, if there is one. Then the rules of the route's leaves lead there.
    pub(super) metadata: Option<u64>,
    pub(super) rule_condition: RuleCondition,
    /// The number of refusals of labels in a row.
    pub(super) refusals: u32,
    /// The number of times that leaves have joined the route and not left.
    pub(super) members: usize,
    /// The leaves that use it or wait for it.
    pub(super) leaves: FxHashSet<LeafId>,
    pub(super) uses: RouteUses,
    /// The leaves that wait for it to be ready.
    pub(super) waiting_leaves: BTreeSet<LeafId>,
}

/// The condition on which a route gets a rule of its own in the table of routes.
#[derive(Clone, Copy, Debug)]
pub(in crate::engine) struct RuleCondition {
    /// The number of leaves from which it gets one, if its path crosses links.
    pub min_leaves: usize,
    /// Whether an earlier run of the controller gave it one. Then it gets one in any case.
    pub had_rule: bool,
}

/// The rules at the ingress switch that may lead along a route.
#[derive(Clone, Copy, Debug)]
pub(super) struct RouteUses {
    /// The number of leaves for which there may be rules, and of uses by the rules of keys. A use ends when the switch
    /// has confirmed that.
    pub count: usize,
    /// The number of uses by the rules of keys among these.
    pub of_keys: usize,
    /// Whether rules of keys may lead along it, if it is the way to a place that an open look-up finds.
    pub way: Option<WayState>,
}

/// Whether rules of keys may lead along a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum WayState {
    /// Rules of keys may not lead along the route, which is not ready.
    Waiting,
    /// Rules of keys may lead along the route.
    Used,
}

impl SharedRoute {
    /// Reports whether packets may be sent along the route, and no other path is to follow.
    pub fn is_ready(&self) -> bool {
        self.path.state == PathState::Ready && self.next.is_none()
    }

    /// Reports whether a label was refused.
    pub fn is_refused(&self) -> bool {
        matches!(self.path.state, PathState::Refused { .. })
    }

    /// Reports whether a label was refused, and no other path is to follow.
    pub fn has_lost_label(&self) -> bool {
        self.is_refused() && self.next.is_none()
    }

    /// Returns when the next path has to be ready, if one is to follow.
    pub fn next_until(&self) -> Option<Time> {
        self.next.as_ref().map(|(_, until)| *until)
    }

    /// Returns the decision of f, which is the same for all leaves of the route.
    pub fn goal(&self) -> &Goal {
        &self.key.goal
    }

    /// Reports whether it is to get a rule of its own in the table of routes: enough leaves use it, and its packets go
    /// to another switch. It keeps the rule when that changes.
    pub(super) fn is_to_get_rule(&self) -> bool {
        let users = self.uses.count - self.uses.of_keys;
        let RuleCondition { min_leaves, had_rule } = self.rule_condition;
        let is_worth_it = had_rule || users >= min_leaves && self.path.crosses_links(self.key.ingress);
        self.route_table.is_some() && self.metadata.is_none() && users > 0 && is_worth_it
    }

    /// Returns the leaves that use it or wait for it.
    pub fn leaves(&self) -> impl Iterator<Item = LeafId> {
        self.leaves.iter().copied()
    }

    /// Returns whether rules of keys may lead along it, if it is the way to a place that an open look-up finds.
    pub fn way(&self) -> Option<WayState> {
        self.uses.way
    }

    /// Returns the switch where its packets enter.
    pub fn ingress(&self) -> Dpid {
        self.key.ingress
    }

    /// Returns the plan that it follows, with its id as a dependent of the store.
    pub fn plan(&self) -> Option<(DependentId, &RoutePlan)> {
        match &self.key.goal {
            Goal::Plan(plan) => Some((self.subscription?, plan)),
            Goal::Fixed(_) | Goal::Open(_) => None,
        }
    }

    /// Returns the resolution of f's decision, as far as this shard knows.
    pub fn resolved(&self) -> &Arc<Resolved> {
        &self.resolved
    }

    /// Removes and returns the leaves that waited, if the route is ready.
    pub(super) fn take_ready(&mut self) -> PlanChange {
        if self.is_ready() { PlanChange::Ready(std::mem::take(&mut self.waiting_leaves)) } else { PlanChange::Nothing }
    }

    /// Returns the path whose labels an open request asked for, and whether it is the next one.
    pub(super) fn path_of_request(&mut self, serial: u64) -> Option<(&mut LabelledPath, bool)> {
        let is_next = self.next.as_ref().is_some_and(|(next, _)| next.serial == Some(serial));
        let path = match &mut self.next {
            Some((next, _)) if is_next => next,
            _ => &mut self.path,
        };
        let is_open = path.serial == Some(serial) && !matches!(path.state, PathState::Refused { .. });
        is_open.then_some((path, is_next))
    }

    /// Returns the edge ports where its packets leave.
    pub fn exits(&self) -> Vec<Location> {
        let switches = self.path.resolved.switches.iter();
        switches.flat_map(|(dpid, hops)| hops.edges.iter().map(|port| Location::new(*dpid, *port))).collect()
    }

    /// Reports whether only packets without a VLAN tag can take the route.
    pub fn is_for_untagged(&self) -> bool {
        self.key.carriage.untagged_only
    }

    /// Returns the actions of the ingress for the route's packets; empty if they are dropped.
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

    /// Returns the action of its leaves' rules.
    pub fn action(&self) -> LeafAction {
        if let Some((table, metadata)) = self.route_table.zip(self.metadata) {
            let carry = Instruction::WriteMetadata { metadata, mask: u64::MAX };
            return LeafAction::Apply(vec![carry, Instruction::GotoTable(table)]);
        }
        if self.is_for_untagged() {
            LeafAction::ApplyTo(Constraint::exact(Field::VlanVid, 0), self.instructions())
        } else {
            LeafAction::Apply(self.instructions())
        }
    }

    /// Returns the rule of the route in the table of routes, if it has one.
    pub fn rule(&self, cookie: impl Fn(DependentId) -> u64) -> Option<Rule> {
        let matching = Match::any().exact(Field::Metadata, u128::from(self.metadata?));
        let instructions = self.instructions().into();
        Some(Rule { priority: PRIORITY, matching, instructions, cookie: cookie(self.subscription?) })
    }
}
