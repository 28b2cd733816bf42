//! The questions of constraints about a route within the run that made it, and their findings.

use std::sync::Arc;

use maple_wire::Field;

use super::{Net, PacketHandle, RunState};
use crate::route::{Resolved, Route, RouteError, RouteView};
use crate::state::{Name, Savepoint, Value};
use crate::trace::Source;

/// A route that a constraint refused. The packet is dropped.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// The constraint as its user wrote it, with its line if that is known.
    pub constraint: Arc<str>,
    /// The fault of the route.
    pub why: Arc<str>,
    /// The line of the policy that made the route, if it is known.
    pub place: Option<Source>,
}

/// The questions and findings of constraints.
impl PacketHandle {
    /// Returns the hops of a route for the packet as changed so far. The run depends on them, and its leaf keeps
    /// exactly these: a route that follows its plan could reach a switch before the constraints have seen it.
    ///
    /// # Errors
    /// [`RouteError`] if the route can't be followed.
    pub(crate) fn hops_to_judge(&self, route: &Route) -> Result<Arc<Resolved>, RouteError> {
        let mut state = self.0.state();
        state.observe_ends();
        let RunState { ingress, changes, result, routes, .. } = &mut *state;
        routes.is_judged = true;
        changes.passed_on(route).hops_now(ingress.switch, &mut result.txn)
    }

    /// Reports whether a route has a loop now. This is not recorded as a question.
    pub(crate) fn loops(&self, route: &Route) -> bool {
        if !route.may_loop() {
            return false;
        }
        let mut state = self.0.state();
        state.observe_ends();
        state.changes.passed_on(route).loops_now(state.ingress.switch, &state.result.txn)
    }

    /// Records that the packet must pass the switches of the route that it gets.
    pub(crate) fn require_hops(&self) {
        self.0.state().routes.must_follow_hops = true;
    }

    /// Returns the route that a constraint which a user wrote is to judge.
    ///
    /// Only such a constraint has one: elsewhere this is `None`.
    pub fn judged_route(&self) -> Option<Arc<RouteView>> {
        self.0.state().routes.view.clone()
    }

    /// Returns the source address of the packet as changed so far, if an earlier question has revealed it. This is not
    /// recorded as a question.
    pub(crate) fn known_source(&self) -> Option<u128> {
        let state = self.0.state();
        state.changes.is_as_entered(Field::EthSrc).then(|| state.recorder.known(Field::EthSrc)).flatten()
    }

    /// Shows this route to the user's constraint that runs next.
    pub(crate) fn show_route(&self, view: Option<Arc<RouteView>>) {
        self.0.state().routes.view = view;
    }

    /// Records that a route was refused.
    pub(crate) fn note_violation(&self, violation: Violation) {
        let mut state = self.0.state();
        let place = match (violation.place, &state.tier) {
            (Some(line), Some(tier)) => Some(line.in_tier(tier)),
            (place, _) => place,
        };
        state.result.violations.push(Violation { place, ..violation });
    }

    /// Returns the number of routes that were refused so far.
    pub(crate) fn violations(&self) -> usize {
        self.0.state().result.violations.len()
    }

    /// Forgets the refusals after the first `count`, because the decisions that they were about are taken back.
    pub(crate) fn forget_violations(&self, count: usize) {
        self.0.state().result.violations.truncate(count);
    }
}

impl Net {
    /// Reports whether a table may have this key, by the types that it was declared with.
    pub(crate) fn may_have_key(&self, table: &Name, key: &Value) -> bool {
        let state = self.0.state();
        state.result.txn.peek().check_key(&state.own(table), key).is_ok()
    }

    /// Takes back the writes since a savepoint, but not the frames that were sent.
    pub(crate) fn take_back_writes(&self, to: Savepoint) {
        let mut state = self.0.state();
        state.result.txn.roll_back_state(to);
        if !state.result.txn.wrote() {
            state.result.wrote_at = None;
        }
    }

    /// Reports whether locations of hosts are tracked.
    pub(crate) fn tracks_hosts(&self) -> bool {
        self.0.state().track_hosts
    }
}
