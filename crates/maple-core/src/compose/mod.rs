//! Policies made of policies.
//!
//! # What
//!
//! A [`Composition`] is a tree. Its leaves are policies, and it is a policy itself. A policy in it may answer
//! [`Route::pass`]: the next policy decides then, on the packet with the headers that the route set. So one kind of
//! composition in sequence ([`Composition::tiers`]) covers tiers, rewrites and limits.
//!
//! # Laws
//!
//! `a ; b` is `tiers([a, b])`, and `pass` is the policy that always passes.
//!
//! * `;` is associative: `(a ; b) ; c` is `a ; (b ; c)`.
//! * `pass` is neutral: `pass ; a` and `a ; pass` are `a`.
//! * A policy that never passes ends the tiers: `a ; b` is `a`.
//! * A restriction distributes: `only(c, a ; b)` is `only(c, a) ; only(c, b)` if `a` writes no field of `c`.
//! * A policy that never fails needs no fallback: `fallback(a, b)` is `a`.
//!
//! Two policies are the same here if they give equal routes to every packet in every state. Their traces may differ,
//! since they may ask in another order. `maple-sim` holds the laws against random policies.
//!
//! # Why it is correct
//!
//! All parts run in one run of the composed policy. Their questions form one trace, and their reads of the state form
//! one transaction. Fields that an earlier part wrote are constants to a later one (`run/changes.rs`). So the
//! composition is a function of what it observes, like any policy.
//!
//! # Cost
//!
//! A run costs a few branches and, for each part that runs, a clone of a small map. A part that another one excludes
//! does not run.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::access::{AccessAction, AccessList};
use crate::guard::{self, NO_LOOPS, RouteConstraint, RouteConstraints};
use crate::ids::Name;
use crate::policy::{Net, PacketHandle, Policy, PolicyError, SamplePacket};
use crate::policy_error::panic_text;
use crate::route::Route;
use crate::route_plan::Treatment;
use crate::run::Observe as _;
use crate::state::{Access, Cell, CellValue, Value};
use crate::trace::{Cond, Source};

mod canary;
mod slices;

pub use canary::Canary;
use slices::Tenant;
pub use slices::{Slice, SliceError};

/// A policy made of policies of type `P`.
#[derive(Clone, Debug)]
pub struct Composition<P>(PolicyNode<P>);

/// A composition of policies in Rust, which is itself a [`Policy`].
pub type Composed = Composition<Arc<dyn Policy>>;

#[derive(Clone, Debug)]
enum PolicyNode<P> {
    Policy(P),
    Named { name: Name, of: Box<PolicyNode<P>> },
    Tiers(Vec<PolicyNode<P>>),
    Beside { of: Box<PolicyNode<P>>, beside: Box<PolicyNode<P>> },
    Restrict { only: Vec<Cond>, at: Option<Source>, of: Box<PolicyNode<P>> },
    Lists { lists: Vec<Arc<AccessList>>, allowed: Box<PolicyNode<P>> },
    Choose { by: Choice, cases: Vec<(Value, PolicyNode<P>)>, otherwise: Box<PolicyNode<P>> },
    Fallback { of: Box<PolicyNode<P>>, on_error: Box<PolicyNode<P>> },
    Slices { tenants: Vec<(Tenant, PolicyNode<P>)>, at: Option<Source>, otherwise: Box<PolicyNode<P>> },
    Guard { of: Box<PolicyNode<P>>, constraints: Arc<RouteConstraints<P>> },
}

/// The cell whose value a choice depends on.
#[derive(Clone, Debug)]
pub struct Choice {
    /// A variable, or a table's key.
    pub cell: Cell,
    /// The value that stands for an unset cell.
    pub unset: Value,
}

/// One run of a composition.
struct Running<'a, P> {
    pkt: &'a PacketHandle,
    net: &'a Net,
    call: &'a mut Call<'a, P>,
}

/// A function that runs one of the policies that a composition is made of.
pub type Call<'a, P> = dyn FnMut(&P, &PacketHandle, &Net) -> Result<Route, PolicyError> + 'a;

type ComposedAnswer = Result<Route, PolicyError>;

impl<P> Composition<P> {
    /// Wraps a single policy.
    pub fn single(policy: P) -> Composition<P> {
        Composition(PolicyNode::Policy(policy))
    }

    /// Composes policies in sequence: the first that does not pass decides, on the packet as those before it have
    /// changed it. If all pass, or there are none, the whole passes.
    pub fn tiers(tiers: impl IntoIterator<Item = Composition<P>>) -> Composition<P> {
        Composition(PolicyNode::Tiers(tiers.into_iter().map(|tier| tier.0).collect()))
    }

    /// Lets `next` decide where this policy passes.
    #[must_use]
    pub fn then(self, next: Composition<P>) -> Composition<P> {
        Composition::tiers([self, next])
    }

    /// Gives the policy a name, which errors and the comments of rules carry.
    #[must_use]
    pub fn named(self, name: impl Into<Name>) -> Composition<P> {
        let name = name.into();
        let inner = Box::new(self.0.within(&name));
        Composition(PolicyNode::Named { name, of: inner })
    }

    /// Adds a copy of the packet wherever `beside` would send it, treated as `beside` says. `beside` may send to ports,
    /// along paths, or where its route makes copies.
    #[must_use]
    pub fn observed_by(self, beside: Composition<P>) -> Composition<P> {
        Composition(PolicyNode::Beside { of: Box::new(self.0), beside: Box::new(beside.0) })
    }

    /// Restricts this policy to packets that fit one of the conditions; others pass. `at` is the line that says so.
    #[must_use]
    pub fn only(self, conditions: impl IntoIterator<Item = Cond>, at: Option<Source>) -> Composition<P> {
        Composition(PolicyNode::Restrict { only: conditions.into_iter().collect(), at, of: Box::new(self.0) })
    }

    /// Composes access lists with a policy, the first list first. A packet that a list denies is dropped, one that it
    /// allows is decided by `allowed`, and one that it passes is up to the next list. A packet that all lists pass,
    /// passes.
    pub fn lists(lists: impl IntoIterator<Item = Arc<AccessList>>, allowed: Composition<P>) -> Composition<P> {
        Composition(PolicyNode::Lists { lists: lists.into_iter().collect(), allowed: Box::new(allowed.0) })
    }

    /// Chooses the policy of the first case whose value the cell has, or else `otherwise`. A change of the cell decides
    /// again.
    pub fn choose(
        by: Choice,
        cases: impl IntoIterator<Item = (Value, Composition<P>)>,
        otherwise: Composition<P>,
    ) -> Composition<P> {
        let cases = cases.into_iter().map(|(value, policy)| (value, policy.0)).collect();
        Composition(PolicyNode::Choose { by, cases, otherwise: Box::new(otherwise.0) })
    }

    /// Lets `on_error` decide where this policy fails or panics, or where its route can't be followed. The writes of
    /// this policy are taken back. Waiting ([`PolicyError::Retry`]) is not a failure.
    ///
    /// Whether a route can be followed depends on the network. So the decision is made again when the route's hops
    /// change, even if no policy read them.
    #[must_use]
    pub fn or_on_error(self, on_error: Composition<P>) -> Composition<P> {
        Composition(PolicyNode::Fallback { of: Box::new(self.0), on_error: Box::new(on_error.0) })
    }

    /// Returns packets whose decision the access lists determine, so that rules can be installed before such packets
    /// come ([`Policy::samples`]).
    pub fn samples(&self) -> Vec<SamplePacket> {
        let mut samples = Vec::new();
        self.0.visit_nodes(&mut |node| {
            if let PolicyNode::Lists { lists, .. } = node {
                lists.iter().for_each(|list| samples.extend_from_slice(list.samples()));
            }
        });
        samples
    }

    /// Returns the access lists, in order.
    pub fn access_lists(&self) -> Vec<Arc<AccessList>> {
        let mut all = Vec::new();
        self.0.visit_nodes(&mut |node| {
            if let PolicyNode::Lists { lists, .. } = node {
                all.extend(lists.iter().cloned());
            }
        });
        all
    }

    /// Puts this policy under constraints ([`crate::guard`]): a packet whose route violates one is dropped, and that
    /// is reported. If the route passes, its copies are judged.
    #[must_use]
    pub fn guarded(self, constraints: impl IntoIterator<Item = RouteConstraint<P>>) -> Composition<P> {
        let constraints = Arc::new(RouteConstraints::new(constraints));
        Composition(PolicyNode::Guard { of: Box::new(self.0), constraints })
    }

    /// Returns the policies that the composition is made of, and the functions of its constraints, in order.
    pub fn parts(&self) -> Vec<&P> {
        let mut parts = Vec::new();
        self.0.visit(&mut |policy| parts.push(policy));
        parts
    }

    /// Returns the names of the constraints, each once, in order.
    pub fn constraints(&self) -> Vec<Arc<str>> {
        let mut names = Vec::new();
        self.0.constraints(&mut names);
        names
    }

    /// Runs the composition, with `call` for each of its policies.
    ///
    /// # Errors
    /// The error of the first policy that fails, unless a fallback is there for it.
    pub fn decide_by(&self, pkt: &PacketHandle, net: &Net, call: &mut Call<'_, P>) -> Result<Route, PolicyError> {
        Running { pkt, net, call: &mut |policy, pkt, net| call(policy, pkt, net) }.decide(&self.0)
    }
}

impl<P> PolicyNode<P> {
    /// Puts `outer` before the names of all tiers in the node.
    fn within(self, outer: &Name) -> PolicyNode<P> {
        let inside = |node: Box<PolicyNode<P>>| Box::new(node.within(outer));
        match self {
            PolicyNode::Policy(policy) => PolicyNode::Policy(policy),
            PolicyNode::Named { name, of } => {
                PolicyNode::Named { name: format!("{outer}/{name}").into(), of: inside(of) }
            }
            PolicyNode::Tiers(tiers) => PolicyNode::Tiers(tiers.into_iter().map(|tier| tier.within(outer)).collect()),
            PolicyNode::Beside { of, beside } => PolicyNode::Beside { of: inside(of), beside: inside(beside) },
            PolicyNode::Restrict { only, at, of } => PolicyNode::Restrict { only, at, of: inside(of) },
            PolicyNode::Lists { lists, allowed } => PolicyNode::Lists { lists, allowed: inside(allowed) },
            PolicyNode::Choose { by, cases, otherwise } => {
                let cases = cases.into_iter().map(|(value, policy)| (value, policy.within(outer))).collect();
                PolicyNode::Choose { by, cases, otherwise: inside(otherwise) }
            }
            PolicyNode::Fallback { of, on_error } => {
                PolicyNode::Fallback { of: inside(of), on_error: inside(on_error) }
            }
            PolicyNode::Slices { tenants, at, otherwise } => {
                let tenants = tenants.into_iter().map(|(tenant, policy)| (tenant, policy.within(outer))).collect();
                PolicyNode::Slices { tenants, at, otherwise: inside(otherwise) }
            }
            PolicyNode::Guard { of, constraints } => PolicyNode::Guard { of: inside(of), constraints },
        }
    }

    fn constraints(&self, names: &mut Vec<Arc<str>>) {
        self.visit_nodes(&mut |node| {
            let PolicyNode::Guard { constraints, .. } = node else { return };
            for name in std::iter::once(NO_LOOPS.into()).chain(constraints.iter().map(RouteConstraint::name)) {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
        });
    }

    fn visit<'a>(&'a self, see: &mut impl FnMut(&'a P)) {
        self.visit_nodes(&mut |node| match node {
            PolicyNode::Policy(policy) => see(policy),
            PolicyNode::Guard { constraints, .. } => {
                constraints.iter().filter_map(RouteConstraint::function).for_each(&mut *see)
            }
            _ => {}
        });
    }

    /// Visits this node and all below it, in the order in which they run.
    fn visit_nodes<'a>(&'a self, see: &mut impl FnMut(&'a PolicyNode<P>)) {
        see(self);
        match self {
            PolicyNode::Policy(_) => {}
            PolicyNode::Named { of, .. }
            | PolicyNode::Restrict { of, .. }
            | PolicyNode::Lists { allowed: of, .. }
            | PolicyNode::Guard { of, .. } => of.visit_nodes(see),
            PolicyNode::Tiers(tiers) => tiers.iter().for_each(|tier| tier.visit_nodes(see)),
            PolicyNode::Beside { of, beside: other } | PolicyNode::Fallback { of, on_error: other } => {
                of.visit_nodes(see);
                other.visit_nodes(see);
            }
            PolicyNode::Choose { cases, otherwise, .. } => {
                cases.iter().for_each(|(_, policy)| policy.visit_nodes(see));
                otherwise.visit_nodes(see);
            }
            PolicyNode::Slices { tenants, otherwise, .. } => {
                tenants.iter().for_each(|(_, policy)| policy.visit_nodes(see));
                otherwise.visit_nodes(see);
            }
        }
    }
}

/// Each step, unless it fails, leaves the packet as it found it, with the changes that were made before.
impl<P> Running<'_, P> {
    fn decide(&mut self, node: &PolicyNode<P>) -> ComposedAnswer {
        match node {
            PolicyNode::Policy(policy) => self.call(policy),
            PolicyNode::Named { name, of } => self.in_tier(name, of),
            PolicyNode::Tiers(tiers) => self.tiers(tiers),
            PolicyNode::Beside { of, beside } => {
                let (route, beside) = (self.decide(of)?, self.decide(beside)?);
                let made_at = beside.made_at().cloned();
                let with_copies = route.with_copies(beside, self.pkt.ingress());
                with_copies.map_err(|error| PolicyError::Route { error, made_at })
            }
            PolicyNode::Restrict { only, at, of } => {
                if only.iter().any(|cond| self.pkt.fits(cond, at.clone())) {
                    self.decide(of)
                } else {
                    Ok(Route::pass_with(Treatment::default()))
                }
            }
            PolicyNode::Lists { lists, allowed } => self.in_lists(lists, allowed),
            PolicyNode::Choose { by, cases, otherwise } => {
                let value = match self.net.read(by.cell.clone()) {
                    CellValue::Value(Some(value)) => value,
                    _ => by.unset.clone(),
                };
                let case = cases.iter().find(|(case, _)| *case == value);
                self.decide(case.map_or(&**otherwise, |(_, policy)| policy))
            }
            PolicyNode::Fallback { of, on_error } => self.with_fallback(of, on_error),
            PolicyNode::Slices { tenants, at, otherwise } => self.slices(tenants, otherwise, at.as_ref()),
            PolicyNode::Guard { of, constraints } => {
                let is_named = constraints.ask_who_sends(self.pkt);
                let (savepoint, refused) = (self.net.savepoint(), self.pkt.violations());
                let inner = self.decide(of)?;
                let refused_inside = self.pkt.violations() - refused;
                let route = guard::guarded(self.pkt, self.net, inner, constraints, is_named, self.call)?;
                if self.pkt.violations() > refused + refused_inside {
                    // The packet is dropped, so the state that the policy wrote for it does not hold.
                    self.net.take_back_writes(savepoint);
                }
                Ok(route)
            }
        }
    }

    /// Runs a policy, and checks that the packet, as changed so far, has the fields that the policy writes.
    fn call(&mut self, policy: &P) -> ComposedAnswer {
        let route = self.pkt.with_floods((self.call)(policy, self.pkt, self.net)?);
        let route = self.net.slice().iter().fold(route, Route::in_slice);
        if !route.passes() {
            let error = |error| PolicyError::Route { error, made_at: route.made_at().cloned() };
            route.rewrites().try_for_each(|rewrites| self.pkt.check_rewrites(rewrites)).map_err(error)?;
            return Ok(route);
        }
        let (before, route) = (self.pkt.changes(), route.after(Route::pass_with(Treatment::default())));
        self.write(&route)?;
        self.pkt.set_changes(before);
        Ok(route)
    }

    /// Applies the rewrites of a route that passes to the packet.
    fn write(&self, route: &Route) -> Result<(), PolicyError> {
        let Some(treatment) = route.passed() else { return Ok(()) };
        let error = |error| PolicyError::Route { error, made_at: route.made_at().cloned() };
        self.pkt.change(treatment).map_err(error)
    }

    fn in_tier(&mut self, name: &Name, of: &PolicyNode<P>) -> ComposedAnswer {
        let (outer, error_before) = (self.pkt.enter_tier(Some(Arc::clone(name))), self.net.take_error());
        let answer = self.decide(of);
        self.pkt.enter_tier(outer);
        let error = error_before.or_else(|| self.net.take_error().map(|error| error.in_tier(name)));
        self.net.set_error(error);
        match answer {
            Ok(route) => {
                let made_at = route.made_at().cloned().map(|line| line.in_tier(name));
                Ok(route.from_line(made_at))
            }
            Err(error) => Err(error.in_tier(name)),
        }
    }

    fn tiers(&mut self, tiers: &[PolicyNode<P>]) -> ComposedAnswer {
        let before = self.pkt.changes();
        let mut so_far = Route::pass_with(Treatment::default());
        for tier in tiers {
            let route = self.decide(tier)?;
            self.write(&route)?;
            so_far = route.after(so_far);
            if !so_far.passes() {
                break;
            }
        }
        self.pkt.set_changes(before);
        Ok(so_far)
    }

    fn in_lists(&mut self, lists: &[Arc<AccessList>], allowed: &PolicyNode<P>) -> ComposedAnswer {
        let mut so_far = Route::pass_with(Treatment::default());
        for list in lists {
            let rule = list.ask(self.pkt);
            if rule.log {
                self.pkt.log(rule.action, rule.source.as_ref());
            }
            if rule.action == AccessAction::Deny {
                return Ok(Route::drop().from_line(rule.source.clone()));
            }
            if let Some(carries) = &rule.carries {
                let carries = self.net.slice().iter().fold(carries.clone(), Route::in_slice);
                so_far = carries.after(so_far);
            }
            if rule.action == AccessAction::Allow {
                return Ok(self.decide(allowed)?.after(so_far));
            }
        }
        Ok(so_far)
    }

    fn with_fallback(&mut self, of: &PolicyNode<P>, on_error: &PolicyNode<P>) -> ComposedAnswer {
        let (changes, savepoint, error_before) = (self.pkt.changes(), self.net.savepoint(), self.net.take_error());
        let violations = self.pkt.violations();
        let (tier, slice) = (self.pkt.enter_tier(None), self.net.slice());
        self.pkt.enter_tier(tier.clone());
        let answer = catch_unwind(AssertUnwindSafe(|| self.decide(of)))
            .unwrap_or_else(|panic| Err(PolicyError::Exception(panic_text("the policy", &*panic))));
        let error = self.net.take_error().or_else(|| answer.as_ref().err().cloned());
        self.net.set_error(error_before);
        let has_no_error = error.is_none();
        match error {
            Some(PolicyError::Retry) => return Err(PolicyError::Retry),
            // The constraint's verdict is not known, so no other route takes the place of this one.
            Some(error) if error.is_of_constraint() => return Err(error),
            _ => {}
        }
        self.pkt.set_changes(changes);
        match answer {
            Ok(route) if has_no_error && self.pkt.can_follow(&route) => Ok(route),
            _ => {
                self.pkt.enter_tier(tier);
                self.net.set_slice(slice);
                self.net.roll_back(savepoint);
                self.pkt.forget_violations(violations);
                self.decide(on_error)
            }
        }
    }
}

impl Policy for Composed {
    fn decide(&self, pkt: &PacketHandle, net: &Net) -> Result<Route, PolicyError> {
        self.decide_by(pkt, net, &mut |policy, pkt, net| policy.decide(pkt, net))
    }

    fn constraints(&self) -> Vec<Arc<str>> {
        let mut names = Composition::constraints(self);
        for name in self.parts().into_iter().flat_map(|part| part.constraints()) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    fn untracked_reads(&self) -> Vec<Arc<str>> {
        let reads = self.parts().into_iter().flat_map(|part| part.untracked_reads());
        reads.collect::<BTreeSet<_>>().into_iter().collect()
    }

    fn on_thread(&self, worker: &mut (dyn FnMut() + Send)) {
        in_all(&self.parts(), worker);
    }

    fn samples(&self) -> Vec<SamplePacket> {
        Composition::samples(self)
    }

    fn access_lists(&self) -> Vec<Arc<AccessList>> {
        Composition::access_lists(self)
    }
}

/// Runs `worker` as a thread of each of the policies.
fn in_all(policies: &[&Arc<dyn Policy>], worker: &mut (dyn FnMut() + Send)) {
    match policies {
        [] => worker(),
        [first, rest @ ..] => first.on_thread(&mut || in_all(rest, worker)),
    }
}
