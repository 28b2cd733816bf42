//! Routes: what a policy answers.

/// The answer of a policy for a packet: where it goes, and what changes in it.
///
/// ```
/// use maple::testing::*;
///
/// let bench = Bench::new().switch(1, 1..=3);
/// let policy = |pkt: &Packet, _: &Net| Route::to([PortNo(2), PortNo(3)]).set(pkt.eth_dst(), Mac([2, 0, 0, 0, 0, 9]));
/// let decision = bench.decide(&policy, &tcp(1024, 80), bench.port(1, 1));
/// assert_eq!(decision.exits(), [bench.port(1, 2), bench.port(1, 3)]);
/// assert!(decision.copies().iter().all(|(_, frame)| frame.starts_with(&[2, 0, 0, 0, 0, 9])));
///
/// // Flows are spread over both ports, by the bits of their source ports that decide.
/// let spread = |pkt: &Packet, _: &Net| Route::ecmp([2, 3].map(|port| Route::to([PortNo(port)])), pkt, &[Field::TcpSrc]);
/// let exits = |src| bench.decide(&spread, &tcp(src, 80), bench.port(1, 1)).exits();
/// assert!((1..20).any(|src| exits(src) != exits(0)));
/// ```
#[doc(inline)]
pub use maple_core::route::Route;

/// A field that a route can set, and the type of its value.
///
/// ```
/// use maple::testing::*;
///
/// // A packet's field takes values of its type, and naming it records nothing.
/// let bench = Bench::new().switch(1, 1..=2);
/// let policy = |pkt: &Packet, _: &Net| Route::to([PortNo(2)]).set(pkt.tcp_dst(), 8080);
/// let decision = bench.decide(&policy, &tcp(1024, 80), bench.port(1, 1));
/// assert!(decision.trace().iter().all(|line| !line.contains("tcp_dst=80")), "{:?}", decision.trace());
/// ```
#[doc(inline)]
pub use maple_core::route::RewrittenField;

/// A rate that the packets of routes together do not exceed.
///
/// ```
/// use maple::prelude::*;
/// use maple::route::Limit;
///
/// let floods = Limit::kilobits("floods", 10_000);
/// assert_ne!(floods, Limit::kilobits("floods", 5_000));
/// let policy = move |_: &Packet, net: &Net| net.flood().limit(floods.clone());
/// # use maple::testing::{Bench, tcp};
/// # let bench = Bench::new().switch(1, 1..=2);
/// assert_eq!(bench.decide(&policy, &tcp(1024, 80), bench.port(1, 1)).exits(), [bench.port(1, 2)]);
/// ```
#[doc(inline)]
pub use maple_core::route::Limit;

/// The unit of a limit: thousands of bits, or packets.
///
/// ```
/// use maple::route::{Limit, Unit};
///
/// assert_eq!(Limit::kilobits("floods", 10_000).unit, Unit::Kilobits);
/// ```
#[doc(inline)]
pub use maple_core::route::Unit;

/// The reason why a route cannot be followed.
///
/// ```
/// use maple::policy::PolicyError;
/// use maple::route::{Route, RouteError};
/// use maple::testing::{Bench, tcp};
///
/// let bench = Bench::new().switch(1, 1..=2);
/// let nowhere = |_: &maple::Packet, _: &maple::Net| Route::to([maple::net::PortNo(9)]);
/// let decision = bench.decide(&nowhere, &tcp(1024, 80), bench.port(1, 1));
/// assert!(matches!(decision.error(), Some(PolicyError::Route { error: RouteError::NoSuchPort { .. }, .. })));
/// ```
#[doc(inline)]
pub use maple_core::route::RouteError;
