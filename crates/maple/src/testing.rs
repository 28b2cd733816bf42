//! A bench for policies: an imaginary network that takes one packet at a time and shows what each run observed. The
//! names of the [prelude](crate::prelude) are here too.
//!
//! ```
//! use maple::testing::*;
//!
//! let policy = |pkt: &Packet, net: &Net| if pkt.tcp_dst() == 22 { Route::drop() } else { net.flood() };
//! let bench = Bench::new().switch(1, 1..=3);
//!
//! let decision = bench.decide(&policy, &tcp(1024, 80), bench.port(1, 1));
//! assert_eq!(decision.exits(), [bench.port(1, 2), bench.port(1, 3)]);
//! assert_eq!(decision.trace()[0], "test eth_type=0x800, ip_proto=6, tcp_dst=22: no");
//! ```

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use maple_core::ShardId;
use maple_core::network::{HostInfo, PortInfo, PortKind};
use maple_core::policy::Policy as _;
use maple_core::run::Run;
use maple_core::state::{Store, SwitchInfo, Write};
use maple_core::trace::Source;
use maple_wire::Version;
use maple_wire::packet::Frame;

use crate::app::state::write_now;
use crate::policy::PolicyAdapter;

pub use crate::prelude::*;

/// A network that consists of state only.
///
/// ```
/// use maple::testing::Bench;
///
/// let bench = Bench::new().switch(1, 1..=2).switch(2, 1..=2).link((1, 2), (2, 2));
/// bench.run(|_, net| assert_eq!(net.links().len(), 1));
/// ```
#[must_use]
pub struct Bench {
    store: Arc<Store>,
    track_hosts: bool,
}

impl fmt::Debug for Bench {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bench")
            .field("switches", &self.store.snapshot().switches().map(|(dpid, _)| dpid).collect::<Vec<_>>())
            .field("track_hosts", &self.track_hosts)
            .finish_non_exhaustive()
    }
}

/// The result of one run.
///
/// ```
/// use maple::testing::*;
///
/// let bench = Bench::new().switch(1, 1..=2);
/// let decision = bench.decide(&|_: &Packet, net: &Net| net.flood(), &tcp(1024, 80), bench.port(1, 1));
/// assert!(decision.route().is_ok_and(|route| route.floods()));
/// // A flood leaves out what bridges never forward, so it asks for that much of the destination.
/// assert!(decision.trace().iter().all(|step| step.contains("eth_dst")) && !decision.wrote());
/// ```
#[derive(Debug)]
pub struct Decision {
    route: Result<Route, PolicyError>,
    copies: Vec<(Location, Vec<u8>)>,
    trace: Vec<String>,
    sources: Vec<Option<Source>>,
    reads: Vec<String>,
    wrote: bool,
}

impl Default for Bench {
    fn default() -> Bench {
        Bench::new()
    }
}

impl Bench {
    /// Creates a network without switches.
    ///
    /// ```
    /// maple::testing::Bench::new().run(|_, net| assert!(net.switches().is_empty()));
    /// ```
    pub fn new() -> Bench {
        Bench { store: Store::new(), track_hosts: true }
    }

    /// Turns host tracking off.
    ///
    /// ```
    /// use maple::testing::*;
    ///
    /// let bench = Bench::new().switch(1, 1..=2).without_hosts();
    /// let policy = |pkt: &Packet, net: &Net| net.shortest_path(net.locate(pkt.eth_src()), None::<maple::net::Location>);
    /// let decision = bench.decide(&policy, &tcp(1024, 80), bench.port(1, 1));
    /// assert!(matches!(decision.route(), Err(PolicyError::HostsNotTracked(_))));
    /// ```
    pub fn without_hosts(mut self) -> Bench {
        self.track_hosts = false;
        self
    }

    /// Adds a switch with these edge ports.
    ///
    /// ```
    /// let bench = maple::testing::Bench::new().switch(1, [1, 2, 7]);
    /// bench.run(|pkt, net| assert_eq!(net.edge_ports(pkt.switch()).len(), 3));
    /// ```
    pub fn switch(self, dpid: impl Into<Dpid>, ports: impl IntoIterator<Item = u32>) -> Bench {
        let dpid = dpid.into();
        let info = SwitchInfo { shard: ShardId(0), version: Version::Of13 };
        let ports = ports.into_iter().map(|number| port(Location::new(dpid, PortNo(number)), PortKind::Edge));
        self.write([Write::Switch { dpid, info: Some(info) }].into_iter().chain(ports).collect())
    }

    /// Adds a link between two ports, each given as a location or as a pair of switch and port.
    ///
    /// ```
    /// let bench = maple::testing::Bench::new().switch(1, 1..=2).switch(2, 1..=2).link((1, 2), (2, 2));
    /// bench.run(|_, net| assert_eq!(net.links().len(), 1));
    /// ```
    pub fn link(self, a: impl Into<Location>, b: impl Into<Location>) -> Bench {
        let (a, b) = (a.into(), b.into());
        self.write(vec![port(a, PortKind::Link(b)), port(b, PortKind::Link(a))])
    }

    /// Takes an edge port down, or up again.
    ///
    /// ```
    /// let bench = maple::testing::Bench::new().switch(1, 1..=2);
    /// let at = bench.port(1, 2);
    /// let bench = bench.set_up(at, false);
    /// bench.run(|_, net| assert!(!net.is_up(at)));
    /// ```
    pub fn set_up(self, at: Location, up: bool) -> Bench {
        // After a port was down, Maple finds out again what is behind it.
        let kind = if up { PortKind::Edge } else { PortKind::New };
        self.write(vec![Write::Port { at, info: Some(PortInfo { up, kind }) }])
    }

    /// Adds or moves a host.
    ///
    /// ```
    /// let bench = maple::testing::Bench::new().switch(1, 1..=2);
    /// let at = bench.port(1, 2);
    /// let bench = bench.host("00:00:00:00:00:02", at);
    /// bench.run(|pkt, net| assert_eq!(net.locate(pkt.eth_dst()).map(|host| host.location()), Some(at)));
    /// ```
    ///
    /// # Panics
    /// If the text is not a hardware address.
    pub fn host(self, mac: &str, location: Location) -> Bench {
        let mac: Mac = mac.parse().unwrap_or_else(|error| panic!("{error}"));
        let info = HostInfo { location, ipv4: BTreeSet::new(), ipv6: BTreeSet::new() };
        self.write(vec![Write::Host { mac, info: Some(info) }])
    }

    /// Writes tracked state.
    ///
    /// ```
    /// use maple::testing::*;
    ///
    /// let blocked = Table::<Mac, bool>::new("blocked");
    /// let bench = Bench::new().with_state(|tx| blocked.set(tx, &Mac([0, 0, 0, 0, 0, 1]), &true));
    /// bench.run(|pkt, net| assert!(blocked.contains(net, &pkt.eth_src().get())));
    /// ```
    ///
    /// # Panics
    /// If it writes a value of a type other than its table or variable is declared with.
    pub fn with_state(self, write: impl FnMut(&Tx)) -> Bench {
        write_now(&self.store, write);
        self
    }

    fn write(self, writes: Vec<Write>) -> Bench {
        self.store.update(|_| writes);
        self
    }

    /// Returns the location of a port of a switch.
    ///
    /// ```
    /// let at = maple::testing::Bench::new().port(1, 2);
    /// assert_eq!((at.switch.0, at.port.0), (1, 2));
    /// ```
    pub fn port(&self, dpid: impl Into<Dpid>, port: u32) -> Location {
        Location::new(dpid.into(), PortNo(port))
    }

    /// Runs a policy on a frame that enters at a port, and commits its writes. If the network would refuse the route,
    /// the decision has an error.
    ///
    /// ```
    /// use maple::testing::*;
    ///
    /// let bench = Bench::new().switch(1, 1..=2);
    /// let decision = bench.decide(&|_: &Packet, _: &Net| Route::to([PortNo(9)]), &tcp(1, 2), bench.port(1, 1));
    /// assert!(decision.error().is_some());
    /// ```
    ///
    /// # Panics
    /// If another thread writes to this bench's state at the same time.
    pub fn decide(&self, policy: &impl Policy, frame: &[u8], ingress: Location) -> Decision {
        let run = Run::new(frame.into(), frame.len(), ingress, self.store.begin(), self.track_hosts);
        // The batch turns a panic into an error.
        let decided = PolicyAdapter(policy).decide_batch(std::slice::from_ref(&run)).remove(0);
        let decided = decided.and_then(|route| Ok((run.resolved(&route)?, run.with_floods(&route))));
        let finished = run.finish().expect("nothing else ends this run");
        let decided = finished.error.map_or(decided, Err);
        let copies = decided.as_ref().map(|(resolved, _)| resolved.copies(frame, ingress)).unwrap_or_default();
        let decision = Decision {
            route: decided.map(|(_, route)| route),
            copies,
            trace: finished.trace.steps().map(|step| step.to_string()).collect(),
            sources: finished.trace.steps().map(|step| step.source().cloned()).collect(),
            reads: finished.txn.reads().map(|(cell, _)| format!("{cell:?}")).collect(),
            wrote: finished.txn.wrote(),
        };
        if decision.route.is_ok() {
            self.store.commit(finished.txn, None).expect("only the bench writes to this store");
        }
        decision
    }

    /// Runs `f` like a policy, on a TCP packet that enters at port 1 of switch 1, and commits its writes.
    ///
    /// ```
    /// let bench = maple::testing::Bench::new().switch(1, 1..=2);
    /// bench.run(|pkt, _| assert!(pkt.tcp_dst().is_present()));
    /// ```
    ///
    /// # Panics
    /// If `f` panics, or makes the run fail.
    pub fn run(&self, f: impl FnOnce(&Packet, &Net) + Send) {
        self.observe(&tcp(1024, 80), f);
    }

    fn observe(&self, frame: &[u8], f: impl FnOnce(&Packet, &Net)) -> Vec<String> {
        let run = Run::new(frame.into(), frame.len(), self.port(1, 1), self.store.begin(), self.track_hosts);
        f(&Packet::from_handle(&run.packet()), &Net::from_handle(&run.net()));
        let finished = run.finish().expect("nothing else ends this run");
        if let Some(error) = finished.error {
            panic!("{error}");
        }
        self.store.commit(finished.txn, None).expect("only the bench writes to this store");
        finished.trace.steps().map(|step| step.to_string()).collect()
    }
}

impl Decision {
    /// Returns the route.
    ///
    /// ```
    /// # use maple::testing::*;
    /// # let bench = Bench::new().switch(1, 1..=2);
    /// let decision = bench.decide(&|_: &Packet, _: &Net| Route::drop(), &tcp(1, 2), bench.port(1, 1));
    /// assert!(decision.route().is_ok_and(|route| route.is_drop()));
    /// ```
    ///
    /// # Errors
    /// The [`PolicyError`] that is the reason why there is no route.
    pub fn route(&self) -> Result<&Route, &PolicyError> {
        self.route.as_ref()
    }

    /// Returns the error if there is no route.
    ///
    /// ```
    /// # use maple::testing::*;
    /// # let bench = Bench::new().switch(1, 1..=2);
    /// let wrong = |_: &Packet, _: &Net| -> Route { panic!("no idea") };
    /// let decision = bench.decide(&wrong, &tcp(1, 2), bench.port(1, 1));
    /// assert_eq!(decision.error().unwrap().to_string(), "the policy panicked: no idea");
    /// ```
    #[must_use]
    pub fn error(&self) -> Option<&PolicyError> {
        self.route.as_ref().err()
    }

    /// Returns the ports where copies of the packet leave the network, in order.
    ///
    /// ```
    /// # use maple::testing::*;
    /// # let bench = Bench::new().switch(1, 1..=2);
    /// let decision = bench.decide(&|_: &Packet, net: &Net| net.flood(), &tcp(1, 2), bench.port(1, 1));
    /// assert_eq!(decision.exits(), [bench.port(1, 2)]);
    /// ```
    #[must_use]
    pub fn exits(&self) -> Vec<Location> {
        self.copies.iter().map(|(at, _)| *at).collect()
    }

    /// Returns the copies of the packet that leave the network: their ports and bytes.
    ///
    /// ```
    /// # use maple::testing::*;
    /// # let bench = Bench::new().switch(1, 1..=2);
    /// let frame = tcp(1, 2);
    /// let decision = bench.decide(&|_: &Packet, net: &Net| net.flood(), &frame, bench.port(1, 1));
    /// assert_eq!(decision.copies(), [(bench.port(1, 2), frame)]);
    /// ```
    #[must_use]
    pub fn copies(&self) -> &[(Location, Vec<u8>)] {
        &self.copies
    }

    /// Returns what the run observed of its packet, in order.
    ///
    /// ```
    /// # use maple::testing::*;
    /// # let bench = Bench::new().switch(1, 1..=2);
    /// let policy = |pkt: &Packet, net: &Net| if pkt.is_multicast() { net.flood() } else { Route::drop() };
    /// let decision = bench.decide(&policy, &tcp(1, 2), bench.port(1, 1));
    /// assert_eq!(decision.trace().len(), 1);
    /// ```
    #[must_use]
    pub fn trace(&self) -> &[String] {
        &self.trace
    }

    /// Returns the source line of each item of the trace.
    ///
    /// ```
    /// # use maple::testing::*;
    /// # let bench = Bench::new().switch(1, 1..=2);
    /// let line = line!() + 1;
    /// let policy = |pkt: &Packet, net: &Net| if pkt.is_multicast() { net.flood() } else { Route::drop() };
    /// let decision = bench.decide(&policy, &tcp(1, 2), bench.port(1, 1));
    /// assert_eq!(decision.sources()[0].as_ref().unwrap().line, line);
    /// ```
    #[must_use]
    pub fn sources(&self) -> &[Option<Source>] {
        &self.sources
    }

    /// Returns the state that the run depends on, as text.
    ///
    /// ```
    /// # use maple::testing::*;
    /// # let bench = Bench::new().switch(1, 1..=2);
    /// let policy = |pkt: &Packet, net: &Net| match net.locate(pkt.eth_dst()) {
    ///     Some(_) => Route::drop(),
    ///     None => net.flood(),
    /// };
    /// let decision = bench.decide(&policy, &tcp(1, 2), bench.port(1, 1));
    /// assert!(decision.reads().iter().any(|cell| cell.contains("00:00:00:00:00:02")));
    /// ```
    #[must_use]
    pub fn reads(&self) -> &[String] {
        &self.reads
    }

    /// Reports whether the run wrote tracked state.
    ///
    /// ```
    /// # use maple::testing::*;
    /// # let bench = Bench::new().switch(1, 1..=2);
    /// let counting = |_: &Packet, net: &Net| {
    ///     Counter::new("packets").add(net, 1);
    ///     net.flood()
    /// };
    /// assert!(bench.decide(&counting, &tcp(1, 2), bench.port(1, 1)).wrote());
    /// ```
    #[must_use]
    pub fn wrote(&self) -> bool {
        self.wrote
    }
}

/// Runs `f` like a policy, on a TCP packet that enters at port 1 of switch 1, which has one more port with the host
/// 00:00:00:00:00:02.
///
/// ```
/// maple::testing::run(|pkt, net| assert!(net.locate(pkt.eth_dst()).is_some()));
/// ```
///
/// # Panics
/// If `f` panics, or makes the run fail.
pub fn run(f: impl FnOnce(&Packet, &Net) + Send) {
    let bench = Bench::new().switch(1, 1..=2);
    let at = bench.port(1, 2);
    bench.host("00:00:00:00:00:02", at).run(f);
}

/// Floods every packet.
///
/// ```
/// use maple::testing::*;
///
/// let bench = Bench::new().switch(1, 1..=2);
/// assert_eq!(bench.decide(&flood, &tcp(1, 2), bench.port(1, 1)).exits(), [bench.port(1, 2)]);
/// ```
pub fn flood(_: &Packet, net: &Net) -> Route {
    net.flood()
}

/// Returns what questions to a packet record, as text. `f` asks a packet with these bytes.
///
/// ```
/// use maple::testing::{ask, tcp};
///
/// let trace = ask(&tcp(1024, 22), |pkt| assert!(pkt.tcp_dst() < 1024));
/// assert_eq!(trace, ["test eth_type=0x800, ip_proto=6, tcp_dst=0/0xfc00: yes"]);
/// ```
///
/// # Panics
/// If `f` panics, or makes the run fail.
pub fn ask(frame: &[u8], f: impl FnOnce(&Packet)) -> Vec<String> {
    Bench::new().observe(frame, |pkt, _| f(pkt))
}

/// Returns the bytes of a TCP packet with these ports, from 00:00:00:00:00:01 and 10.0.0.1 to 00:00:00:00:00:02 and
/// 10.0.0.2.
///
/// ```
/// # use maple::testing::{ask, tcp};
/// ask(&tcp(1024, 22), |pkt| assert_eq!(pkt.tcp_dst().value(), Some(22)));
/// ```
#[must_use]
pub fn tcp(src: u16, dst: u16) -> Vec<u8> {
    ethernet().ipv4([10, 0, 0, 1], [10, 0, 0, 2]).tcp(src, dst).build()
}

/// Returns the bytes of a UDP packet with these ports, and the addresses of [`tcp`].
///
/// ```
/// # use maple::testing::{ask, udp};
/// ask(&udp(1024, 53), |pkt| assert!(pkt.udp_dst() == 53 && !pkt.tcp_dst().is_present()));
/// ```
#[must_use]
pub fn udp(src: u16, dst: u16) -> Vec<u8> {
    ethernet().ipv4([10, 0, 0, 1], [10, 0, 0, 2]).udp(src, dst).build()
}

fn ethernet() -> Frame {
    Frame::ethernet([0, 0, 0, 0, 0, 2], [0, 0, 0, 0, 0, 1])
}

fn port(at: Location, kind: PortKind) -> Write {
    Write::Port { at, info: Some(PortInfo { up: true, kind }) }
}
