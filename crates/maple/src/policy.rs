//! Policies: functions of a packet and the network that return a route.

use std::ops::Deref;
use std::sync::Arc;

use maple_core::route::Route;
use maple_core::{Net as CoreNet, PacketHandle};

use crate::net::Net;
use crate::packet::Packet;

/// The reason why a policy has no answer for a packet.
///
/// ```
/// use maple::policy::PolicyError;
///
/// assert_eq!(PolicyError::from(maple::state::Stop::Retry), PolicyError::Retry);
/// ```
#[doc(inline)]
pub use maple_core::policy::PolicyError;

/// A packet that a policy wants to be decided before one comes.
///
/// ```
/// use maple::testing::tcp;
///
/// let telnet = maple::policy::SamplePacket::new(tcp(1024, 23));
/// assert!(telnet.frame.len() > 50);
/// ```
#[doc(inline)]
pub use maple_core::policy::SamplePacket;

/// The file and line of a decision.
///
/// ```
/// #[track_caller]
/// fn question() -> u32 {
///     maple::policy::Source::here().line
/// }
/// assert_eq!(question(), line!());
/// ```
#[doc(inline)]
pub use maple_core::trace::Source;

/// An access list that decides before a policy does.
///
/// ```
/// use std::sync::Arc;
///
/// use maple::policy::AccessList;
/// use maple::prelude::*;
///
/// let lists: Vec<Arc<AccessList>> = (|_: &Packet, net: &Net| net.flood()).access_lists();
/// assert!(lists.is_empty());
/// ```
#[doc(inline)]
pub use maple_core::access::AccessList;

/// A function of a packet and the network. Closures and functions are policies. A type with a state of its own
/// implements the trait.
///
/// A policy runs on several threads in parallel, and only on packets without a rule. Its answer must depend only on
/// what it asks its arguments. Maple does not see a clock, a random number or a plain global variable change.
///
/// ```
/// use maple::testing::*;
///
/// struct Gateway {
///     at: Location,
/// }
///
/// impl Policy for Gateway {
///     fn decide(&self, pkt: &Packet, net: &Net) -> Result<Route, PolicyError> {
///         Ok(net.shortest_path(Location::new(pkt.switch(), pkt.in_port().get()), self.at))
///     }
/// }
///
/// let bench = Bench::new().switch(1, 1..=2);
/// let gateway = Gateway { at: Location::new(Dpid(1), PortNo(2)) };
/// let decision = bench.decide(&gateway, &tcp(1024, 80), bench.port(1, 1));
/// assert_eq!(decision.exits(), [bench.port(1, 2)]);
/// ```
pub trait Policy: Send + Sync {
    /// Decides where `pkt` goes.
    ///
    /// ```
    /// use maple::testing::*;
    ///
    /// struct Drop;
    ///
    /// impl Policy for Drop {
    ///     fn decide(&self, _: &Packet, _: &Net) -> Result<Route, PolicyError> {
    ///         Ok(Route::drop())
    ///     }
    /// }
    ///
    /// let bench = Bench::new().switch(1, 1..=2);
    /// assert!(bench.decide(&Drop, &tcp(1024, 80), bench.port(1, 1)).exits().is_empty());
    /// ```
    ///
    /// # Errors
    /// A [`PolicyError`] drops the packet, and nothing is cached. A panic does the same.
    fn decide(&self, pkt: &Packet, net: &Net) -> Result<Route, PolicyError>;

    /// Returns packets to decide before any packet comes, at each switch where packets can enter. A decision becomes
    /// rules at once if all that it observes of its packet are tests and the answers of access lists.
    ///
    /// ```
    /// use maple::testing::*;
    ///
    /// struct NoTelnet;
    ///
    /// impl Policy for NoTelnet {
    ///     fn decide(&self, pkt: &Packet, net: &Net) -> Result<Route, PolicyError> {
    ///         Ok(if pkt.tcp_dst() == 23 { Route::drop() } else { net.flood() })
    ///     }
    ///
    ///     fn samples(&self) -> Vec<maple::policy::SamplePacket> {
    ///         vec![maple::policy::SamplePacket::new(tcp(1024, 23))]
    ///     }
    /// }
    ///
    /// assert_eq!(NoTelnet.samples().len(), 1);
    /// ```
    fn samples(&self) -> Vec<SamplePacket> {
        Vec::new()
    }

    /// Returns the policy's access lists, in the order in which they are asked. Policies that
    /// [`access_lists`](crate::compose::access_lists) makes return their lists; other policies have none.
    fn access_lists(&self) -> Vec<Arc<AccessList>> {
        Vec::new()
    }

    /// Returns the names of the constraints that the policy's routes are under. Policies that
    /// [`Compose::guarded`](crate::compose::Compose::guarded) makes implement this; policies of your own need not.
    ///
    /// ```
    /// use maple::guard::{HostGroup, max_hops};
    /// use maple::prelude::*;
    ///
    /// let short = (|_: &Packet, net: &Net| net.flood()).guarded([max_hops(3, &HostGroup::all())]);
    /// let names = short.constraints();
    /// assert!(&*names[0] == "no_loops" && names[1].starts_with("max_hops"));
    /// ```
    fn constraints(&self) -> Vec<Arc<str>> {
        Vec::new()
    }
}

/// The result of a closure that is a policy: a [`Route`], or a [`Result`] of one, so that it can use `?`.
///
/// ```
/// use maple::testing::*;
///
/// let bench = Bench::new().switch(1, 1..=2);
/// let picky = |pkt: &Packet, _: &Net| {
///     let Some(port) = pkt.tcp_dst().value() else {
///         return Err(PolicyError::Exception("only TCP is understood here".into()));
///     };
///     Ok(if port == 22 { Route::flood() } else { Route::drop() })
/// };
/// let udp = bench.decide(&picky, &udp(1024, 53), bench.port(1, 1));
/// assert_eq!(udp.error().unwrap().to_string(), "only TCP is understood here");
/// ```
pub trait IntoRoute {
    /// Returns the route.
    ///
    /// ```
    /// use maple::Route;
    /// use maple::policy::IntoRoute as _;
    ///
    /// assert!(Route::drop().into_route().unwrap().is_drop());
    /// ```
    ///
    /// # Errors
    /// [`PolicyError`] if there is no route.
    fn into_route(self) -> Result<Route, PolicyError>;
}

impl IntoRoute for Route {
    fn into_route(self) -> Result<Route, PolicyError> {
        Ok(self)
    }
}

impl<E: Into<PolicyError>> IntoRoute for Result<Route, E> {
    fn into_route(self) -> Result<Route, PolicyError> {
        self.map_err(Into::into)
    }
}

impl<F, R> Policy for F
where
    F: Fn(&Packet, &Net) -> R + Send + Sync,
    R: IntoRoute,
{
    fn decide(&self, pkt: &Packet, net: &Net) -> Result<Route, PolicyError> {
        self(pkt, net).into_route()
    }
}

/// Adapts a policy to the form that the engine runs.
pub(crate) struct PolicyAdapter<P>(pub P);

impl<P: Deref<Target: Policy> + Send + Sync> maple_core::Policy for PolicyAdapter<P> {
    fn decide(&self, pkt: &PacketHandle, net: &CoreNet) -> Result<Route, PolicyError> {
        self.0.decide(&Packet::from_handle(pkt), &Net::from_handle(net))
    }

    fn samples(&self) -> Vec<SamplePacket> {
        self.0.samples()
    }

    fn access_lists(&self) -> Vec<Arc<AccessList>> {
        self.0.access_lists()
    }

    fn constraints(&self) -> Vec<Arc<str>> {
        self.0.constraints()
    }
}
