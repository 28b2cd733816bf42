//! Policies made of policies: tiers, rewrites, mirrored copies, restrictions, choice by state, fallbacks.
//!
//! ```
//! use maple::testing::*;
//!
//! let admin = |pkt: &Packet, _: &Net| if pkt.tcp_dst() == 23 { Route::drop() } else { Route::pass() };
//! let tenant = |_: &Packet, _: &Net| Route::to([PortNo(2)]);
//! let campus = admin.named("admin").then(tenant.named("tenant"));
//!
//! let bench = Bench::new().switch(1, 1..=2);
//! assert!(bench.decide(&campus, &tcp(1024, 23), bench.port(1, 1)).exits().is_empty());
//! assert_eq!(bench.decide(&campus, &tcp(1024, 80), bench.port(1, 1)).exits(), [bench.port(1, 2)]);
//! ```

mod slices;

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use maple_core::compose::{Choice, Composition};
use maple_core::route::Route;
use maple_core::state::{Cell, Stored, Var};

use crate::field::Cond;
use crate::guard::RouteConstraint;
use crate::net::Net;
use crate::packet::Packet;
use crate::policy::{AccessList, Policy, PolicyError, SamplePacket, Source};

pub use slices::{Slice, SliceError, slices};

/// A policy made of policies. It is used like any other policy, in further compositions too.
///
/// ```
/// use maple::testing::*;
///
/// let telnet = |pkt: &Packet, _: &Net| if pkt.tcp_dst() == 23 { Route::drop() } else { Route::pass() };
/// let composed: maple::compose::Composed = telnet.named("no telnet").then(|_: &Packet, net: &Net| net.flood());
/// let bench = Bench::new().switch(1, 1..=2);
/// assert_eq!(bench.decide(&composed, &tcp(1024, 23), bench.port(1, 1)).exits(), []);
/// assert_eq!(bench.decide(&composed, &tcp(1024, 80), bench.port(1, 1)).exits(), [bench.port(1, 2)]);
/// ```
#[derive(Clone)]
#[must_use = "a composition is a policy, which decides nothing until it runs"]
pub struct Composed(pub(crate) Composition<Arc<dyn Policy>>);

impl fmt::Debug for Composed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Composed of {} policies", self.0.parts().len())
    }
}

impl Policy for Composed {
    fn decide(&self, pkt: &Packet, net: &Net) -> Result<Route, PolicyError> {
        let mut call = |policy: &Arc<dyn Policy>, pkt: &_, net: &_| {
            policy.decide(&Packet::from_handle(pkt), &Net::from_handle(net))
        };
        self.0.decide_by(pkt.handle(), net.handle(), &mut call)
    }

    fn samples(&self) -> Vec<SamplePacket> {
        self.0.samples()
    }

    fn access_lists(&self) -> Vec<Arc<AccessList>> {
        self.0.access_lists()
    }

    fn constraints(&self) -> Vec<Arc<str>> {
        let mut names = self.0.constraints();
        for name in self.0.parts().into_iter().flat_map(|part| part.constraints()) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }
}

/// Lets the first of these policies that does not pass decide, on the packet as the policies before it changed it. If
/// all pass, the composition passes; a packet that every policy passes is dropped.
///
/// ```
/// use maple::testing::*;
///
/// let pass = |_: &Packet, _: &Net| Route::pass();
/// let all = maple::compose::tiers([pass.named("admin"), pass.named("tenant"), (|_: &Packet, net: &Net| net.flood()).named("rest")]);
/// let bench = Bench::new().switch(1, 1..=2);
/// assert_eq!(bench.decide(&all, &tcp(1024, 80), bench.port(1, 1)).exits(), [bench.port(1, 2)]);
/// ```
pub fn tiers(tiers: impl IntoIterator<Item = Composed>) -> Composed {
    Composed(Composition::tiers(tiers.into_iter().map(|tier| tier.0)))
}

/// Chooses a policy by a variable: the policy of the first case with the variable's value, or else `otherwise`. When
/// the variable changes, packets whose decision depended on it are decided again.
///
/// ```
/// use maple::testing::*;
///
/// let mode = Var::new("mode", "open".to_owned());
/// let closed = (|_: &Packet, _: &Net| Route::drop()).named("closed");
/// let network = maple::compose::choose(&mode, [("closed".to_owned(), closed)], |_: &Packet, net: &Net| net.flood());
/// let exits = |bench: &Bench| bench.decide(&network, &tcp(1024, 80), bench.port(1, 1)).exits().len();
/// let bench = Bench::new().switch(1, 1..=2);
/// assert_eq!(exits(&bench), 1);
/// assert_eq!(exits(&bench.with_state(|tx| mode.set(tx, &"closed".to_owned()))), 0);
/// ```
pub fn choose<V: Stored + Clone>(
    var: &Var<V>,
    cases: impl IntoIterator<Item = (V, Composed)>,
    otherwise: impl Policy + 'static,
) -> Composed {
    let by = Choice { cell: Cell::Var(var.name().into()), unset: var.initial().to_value() };
    let cases = cases.into_iter().map(|(value, policy)| (value.to_value(), policy.0));
    Composed(Composition::choose(by, cases, composition(otherwise)))
}

/// Asks access lists in this order, and lets `allowed` decide about packets that one of them allows. Packets that all
/// lists pass are passed on. Packets that a list denies are dropped by rules that are installed before the first such
/// packet.
///
/// ```
/// use maple::acl::List;
/// use maple::testing::*;
///
/// let list = List::read("version: 1\ndefault: allow\nrules: [{action: deny, service: tcp/23}]", "a.yaml")?.verified()?;
/// let campus = maple::compose::access_lists(&[list], |_: &Packet, _: &Net| Route::to([PortNo(2)]));
/// let bench = Bench::new().switch(1, 1..=2);
/// assert!(bench.decide(&campus, &tcp(1024, 23), bench.port(1, 1)).exits().is_empty());
/// assert_eq!(bench.decide(&campus, &tcp(1024, 80), bench.port(1, 1)).exits(), [bench.port(1, 2)]);
/// # Ok::<(), maple::acl::AclError>(())
/// ```
pub fn access_lists(lists: &[maple_acl::List], allowed: impl Policy + 'static) -> Composed {
    Composed(maple_acl::composition(lists, composition(allowed)))
}

/// The methods that compose policies. Every policy has them.
///
/// ```
/// use maple::testing::*;
///
/// let routing = |pkt: &Packet, net: &Net| net.shortest_path(net.locate(pkt.eth_src()), net.locate(pkt.eth_dst()));
/// let robust = routing.named("routing").or_on_error(|_: &Packet, net: &Net| net.flood());
/// let bench = Bench::new().switch(1, 1..=2).without_hosts();
/// assert_eq!(bench.decide(&robust, &tcp(1024, 80), bench.port(1, 1)).exits(), [bench.port(1, 2)]);
/// ```
pub trait Compose: Policy + Sized + 'static {
    /// Gives this policy a name, which errors and the comments of rules carry. Names of tiers inside it follow after a
    /// slash.
    ///
    /// ```
    /// use maple::testing::*;
    ///
    /// let broken = |_: &Packet, _: &Net| Err::<Route, _>(PolicyError::Exception("on purpose".into()));
    /// let bench = Bench::new().switch(1, 1..=2);
    /// let decision = bench.decide(&broken.named("inner").named("outer"), &tcp(1024, 80), bench.port(1, 1));
    /// assert_eq!(decision.error().unwrap().to_string(), "outer/inner: on purpose");
    /// ```
    fn named(self, name: &str) -> Composed {
        Composed(composition(self).named(name))
    }

    /// Lets `next` decide where this policy passes, on the packet as this policy changed it.
    ///
    /// ```
    /// use maple::testing::*;
    ///
    /// let translate = |pkt: &Packet, _: &Net| Route::pass().set(pkt.tcp_dst(), 8080);
    /// let server = |pkt: &Packet, _: &Net| if pkt.tcp_dst() == 8080 { Route::to([PortNo(2)]) } else { Route::drop() };
    /// let bench = Bench::new().switch(1, 1..=2);
    /// let decision = bench.decide(&translate.then(server), &tcp(1024, 80), bench.port(1, 1));
    /// assert_eq!(decision.exits(), [bench.port(1, 2)]);
    /// ```
    fn then(self, next: impl Policy + 'static) -> Composed {
        Composed(composition(self).then(composition(next)))
    }

    /// Adds copies to this policy's route: the packet also goes wherever `beside` would send it. `beside` answers with
    /// ports, paths or [`Route::copy_to`].
    ///
    /// ```
    /// use maple::testing::*;
    ///
    /// let to_the_server = |_: &Packet, _: &Net| Route::to([PortNo(2)]);
    /// let mirrored = to_the_server.observed_by(|_: &Packet, _: &Net| Route::to([PortNo(9)]));
    /// let bench = Bench::new().switch(1, [1, 2, 9]);
    /// assert_eq!(bench.decide(&mirrored, &tcp(1024, 80), bench.port(1, 1)).exits(), [bench.port(1, 2), bench.port(1, 9)]);
    /// ```
    fn observed_by(self, beside: impl Policy + 'static) -> Composed {
        Composed(composition(self).observed_by(composition(beside)))
    }

    /// Applies this policy only to packets that fit one of the conditions; others pass.
    ///
    /// ```
    /// use maple::testing::*;
    /// use maple::field::{Cond, Constraint};
    ///
    /// let telnet = Cond::default().and(Constraint::exact(Field::TcpDst, 23));
    /// let no_telnet = (|_: &Packet, _: &Net| Route::drop()).only([telnet]).then(|_: &Packet, net: &Net| net.flood());
    /// let bench = Bench::new().switch(1, 1..=2);
    /// let exits = |port| bench.decide(&no_telnet, &tcp(1024, port), bench.port(1, 1)).exits().len();
    /// assert_eq!((exits(23), exits(80)), (0, 1));
    /// ```
    #[track_caller]
    fn only(self, conditions: impl IntoIterator<Item = Cond>) -> Composed {
        Composed(composition(self).only(conditions, Some(Source::here())))
    }

    /// Puts this policy under constraints. A packet whose route violates one is dropped, and the violation is reported.
    /// When the network changes, routes are judged again.
    ///
    /// ```
    /// use maple::guard::{HostGroup, max_hops};
    /// use maple::testing::*;
    ///
    /// let short = (|_: &Packet, net: &Net| net.flood()).guarded([max_hops(1, &HostGroup::all())]);
    /// let bench = Bench::new().switch(1, 1..=3).switch(2, 1..=2).link((1, 3), (2, 2));
    /// assert!(bench.decide(&short, &tcp(1024, 80), bench.port(1, 1)).exits().is_empty(), "switch 2 is the second hop");
    /// ```
    fn guarded(self, constraints: impl IntoIterator<Item = RouteConstraint>) -> Composed {
        Composed(composition(self).guarded(constraints.into_iter().map(|constraint| constraint.0)))
    }

    /// Lets `on_error` decide where this policy fails or panics, or returns a route that can't be followed. The writes
    /// of the failed policy are undone. A policy that waits has not failed.
    ///
    /// ```
    /// use maple::testing::*;
    ///
    /// let broken = |_: &Packet, _: &Net| Err::<Route, _>(PolicyError::Exception("on purpose".into()));
    /// let bench = Bench::new().switch(1, 1..=2);
    /// let robust = broken.or_on_error(|_: &Packet, _: &Net| Route::to([PortNo(2)]));
    /// assert_eq!(bench.decide(&robust, &tcp(1024, 80), bench.port(1, 1)).exits(), [bench.port(1, 2)]);
    /// ```
    fn or_on_error(self, on_error: impl Policy + 'static) -> Composed {
        Composed(composition(self).or_on_error(composition(on_error)))
    }
}

impl<P: Policy + 'static> Compose for P {}

/// Turns a policy into a part of a composition. A composed policy keeps its structure and the names of its tiers.
pub(crate) fn composition<P: Policy + 'static>(policy: P) -> Composition<Arc<dyn Policy>> {
    let mut policy = Some(policy);
    let any: &mut dyn Any = &mut policy;
    match any.downcast_mut::<Option<Composed>>().and_then(Option::take) {
        Some(composed) => composed.0,
        None => Composition::tiers(policy.map(|policy| Composition::single(Arc::new(policy) as Arc<dyn Policy>))),
    }
}
