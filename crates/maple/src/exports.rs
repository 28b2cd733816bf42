//! Exports of other crates of Maple, with examples of their use in this one.

// The network.

/// ```
/// use maple::{Dpid, Hop, Location, PortNo};
///
/// let hop = Hop::new(Dpid(1), PortNo(2));
/// assert_eq!(hop.location(), Location::new(Dpid(1), PortNo(2)));
/// ```
#[doc(inline)]
pub use maple_core::network::Hop;

/// ```
/// use maple::prelude::*;
/// use maple::testing::{Bench, tcp};
///
/// /// Drops what comes from a host at another switch than its peer.
/// fn near(pkt: &Packet, net: &Net) -> Route {
///     match (net.locate(pkt.eth_src()), net.locate(pkt.eth_dst())) {
///         (Some(src), Some(dst)) if src.switch() == dst.switch() => net.shortest_path(src, dst),
///         _ => Route::drop(),
///     }
/// }
///
/// let bench = Bench::new().switch(1, 1..=2);
/// let (a, b) = (bench.port(1, 1), bench.port(1, 2));
/// let bench = bench.host("00:00:00:00:00:01", a).host("00:00:00:00:00:02", b);
/// assert_eq!(bench.decide(&near, &tcp(1024, 80), a).exits(), [b]);
/// ```
#[doc(inline)]
pub use maple_core::run::HostLocation;

/// ```
/// use maple::{Dpid, LinkName, Location, PortNo};
///
/// let both = LinkName::Switches(Dpid(1), Dpid(2));
/// let one = LinkName::Port(Location::new(Dpid(1), PortNo(2)));
/// assert_ne!(both, one);
/// ```
#[doc(inline)]
pub use maple_core::network::LinkName;

/// ```
/// use maple::{Dpid, Location, PortNo};
///
/// let at = Location::new(Dpid(1), PortNo(3));
/// assert_eq!(at.to_string(), "0000000000000001:3");
/// ```
#[doc(inline)]
pub use maple_core::network::Location;

/// ```
/// use maple::Mac;
///
/// let mac: Mac = "00-11-22-33-44-55".parse()?;
/// assert_eq!(mac.to_string(), "00:11:22:33:44:55");
/// assert!(mac.is_host() && !Mac([0xff; 6]).is_host());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(inline)]
pub use maple_core::network::Mac;

/// ```
/// use maple::prelude::*;
/// use maple::testing::{Bench, tcp};
///
/// /// Around links that are full.
/// fn policy(pkt: &Packet, net: &Net) -> Route {
///     net.path(net.locate(pkt.eth_src()), net.locate(pkt.eth_dst()), maple::UTILISATION)
/// }
///
/// let bench = Bench::new().switch(1, 1..=2);
/// let (a, b) = (bench.port(1, 1), bench.port(1, 2));
/// let bench = bench.host("00:00:00:00:00:01", a).host("00:00:00:00:00:02", b);
/// assert_eq!(bench.decide(&policy, &tcp(1024, 80), a).exits(), [b]);
/// ```
#[doc(inline)]
pub use maple_core::network::UTILISATION;

/// ```
/// assert_eq!(maple::Dpid(0xab).to_string(), "00000000000000ab");
/// ```
#[doc(inline)]
pub use maple_wire::Dpid;

/// ```
/// use maple::PortNo;
///
/// assert!(PortNo(1).is_physical() && !PortNo::CONTROLLER.is_physical());
/// ```
#[doc(inline)]
pub use maple_wire::PortNo;

/// ```
/// use maple::prelude::*;
/// use maple::testing::{Bench, tcp};
///
/// /// Large flows leave the shortest path: from more than 50 Mbit/s on, until they are at 20 or below.
/// fn policy(pkt: &Packet, net: &Net) -> Route {
///     let (src, dst) = (net.locate(pkt.eth_src()), net.locate(pkt.eth_dst()));
///     let is_large = net.traffic(pkt.eth_src(), pkt.eth_dst()).is_above(50_000_000, 20_000_000);
///     if is_large { net.path(src, dst, "long") } else { net.shortest_path(src, dst) }
/// }
///
/// let bench = Bench::new().switch(1, 1..=2);
/// let (a, b) = (bench.port(1, 1), bench.port(1, 2));
/// let bench = bench.host("00:00:00:00:00:01", a).host("00:00:00:00:00:02", b);
/// assert_eq!(bench.decide(&policy, &tcp(1024, 80), a).exits(), [b], "nothing was measured yet");
/// ```
#[doc(inline)]
pub use maple_core::policy::Load;

/// ```
/// use std::net::Ipv4Addr;
///
/// use maple::{Mac, MulticastGroup};
///
/// // One group, and all groups whose frames go to one hardware address.
/// let one = MulticastGroup::from(Ipv4Addr::new(239, 1, 2, 3));
/// let all = MulticastGroup::from(Mac([1, 0, 0x5e, 1, 2, 3]));
/// assert_ne!(one, all);
/// ```
#[doc(inline)]
pub use maple_core::snooped::MulticastGroup;

/// ```
/// use std::net::Ipv4Addr;
///
/// use maple::prelude::*;
/// use maple::{Lease, Stored as _};
///
/// let at = Location::new(Dpid(1), PortNo(2));
/// let lease = Lease { mac: Mac([2, 0, 0, 0, 0, 1]), ip: Ipv4Addr::new(10, 0, 0, 1), location: at, ends: None };
/// assert_eq!(Lease::from_value(&lease.to_value()), Some(lease), "tables can hold leases");
/// ```
#[doc(inline)]
pub use maple_core::snooped::Lease;

// Routes and errors, and the parts of a question to a packet.

/// ```
/// use maple::prelude::*;
/// use maple::testing::{Bench, tcp};
///
/// let bench = Bench::new().switch(1, 1..=3);
/// let policy = |_: &Packet, _: &Net| Route::to([PortNo(2), PortNo(3)]).set(Field::EthDst, Mac([2, 0, 0, 0, 0, 9]).bits());
/// let decision = bench.decide(&policy, &tcp(1024, 80), bench.port(1, 1));
/// assert_eq!(decision.exits(), [bench.port(1, 2), bench.port(1, 3)]);
/// assert!(decision.copies().iter().all(|(_, frame)| frame.starts_with(&[2, 0, 0, 0, 0, 9])));
///
/// // Flows are spread over both ports, by the bits of their source ports that decide.
/// let spread = |pkt: &Packet, _: &Net| Route::one_of([2, 3].map(|port| Route::to([PortNo(port)])), pkt, &[Field::TcpSrc]);
/// let exits = |src| bench.decide(&spread, &tcp(src, 80), bench.port(1, 1)).exits();
/// assert!((1..20).any(|src| exits(src) != exits(0)));
/// ```
#[doc(inline)]
pub use maple_core::route::Route;

/// ```
/// use maple::prelude::*;
/// use maple::Limit;
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

/// ```
/// use maple::prelude::*;
/// use maple::{RowMap, Value};
///
/// /// Makes the rows of version 2 of a table, whose values are texts, from those of version 1.
/// fn migrate(_from: u32, rows: RowMap) -> Result<RowMap, String> {
///     Ok(rows.into_iter().map(|(key, value)| (key, Value::from(value.to_string()))).collect())
/// }
///
/// let rows = RowMap::from([(Value::from("a"), Value::from(true))]);
/// assert_eq!(migrate(1, rows), Ok(RowMap::from([(Value::from("a"), Value::from("true"))])));
/// ```
#[doc(inline)]
pub use maple_core::state::RowMap;

/// ```
/// use maple::PolicyError;
///
/// assert_eq!(PolicyError::from(maple::Stop::Retry), PolicyError::Retry);
/// ```
#[doc(inline)]
pub use maple_core::policy::PolicyError;

/// ```
/// use maple::testing::tcp;
///
/// let telnet = maple::SamplePacket::new(tcp(1024, 23));
/// assert!(telnet.frame.len() > 50);
/// ```
#[doc(inline)]
pub use maple_core::policy::SamplePacket;

/// ```
/// use maple::{Cond, Constraint, Field, Range};
///
/// let low_tcp_ports = Cond::default()
///     .and(Constraint::exact(Field::IpProto, 6))
///     .within(Range { field: Field::TcpDst, lo: 1, hi: 1023 });
/// assert_eq!(low_tcp_ports.to_string(), "ip_proto=6, tcp_dst=1..1023");
/// ```
#[doc(inline)]
pub use maple_core::trace::Cond;

/// ```
/// use maple::{Field, Range};
///
/// let low = Range { field: Field::TcpDst, lo: 1, hi: 1023 };
/// assert!(low.holds(22) && !low.holds(8080));
/// ```
#[doc(inline)]
pub use maple_core::trace::Range;

/// ```
/// #[track_caller]
/// fn question() -> u32 {
///     maple::Source::here().line
/// }
/// assert_eq!(question(), line!());
/// ```
#[doc(inline)]
pub use maple_core::trace::Source;

/// ```
/// use maple::{Constraint, Field};
///
/// let ten = Constraint::masked(Field::Ipv4Src, 0x0a00_0000, 0xff00_0000);
/// assert!(ten.holds(0x0a01_0203) && !ten.is_exact());
/// ```
#[doc(inline)]
pub use maple_wire::Constraint;

/// ```
/// use maple::Field;
///
/// assert_eq!((Field::TcpDst.name(), Field::TcpDst.full_mask()), ("tcp_dst", 0xffff));
/// ```
#[doc(inline)]
pub use maple_wire::Field;

// State.

/// ```
/// use maple::prelude::*;
/// use maple::testing::Bench;
///
/// /// Counts, in a policy or in a transaction of a thread.
/// fn count(packets: &Counter, state: &impl Access) {
///     packets.add(state, 1);
/// }
///
/// let packets = Counter::new("packets");
/// Bench::new().with_state(|tx| count(&packets, tx)).run(|_, net| {
///     count(&packets, net);
///     assert_eq!(packets.get(net), 2);
/// });
/// ```
#[doc(inline)]
pub use maple_core::state::Access;

/// ```
/// use maple::{Attempt, Store, Var};
///
/// let (store, open) = (Store::new(), Var::new("open", false));
/// let attempt = store.attempt(|tx| Ok(open.set(tx, &true)));
/// assert!(matches!(attempt, Attempt::Done((), _)));
/// ```
#[doc(inline)]
pub use maple_core::state::Attempt;

/// ```
/// use maple::testing::Bench;
/// use maple::Counter;
///
/// let packets = Counter::new("packets");
/// Bench::new().run(|_, net| {
///     packets.add(net, 2);
///     assert_eq!(packets.get(net), 2);
/// });
/// ```
#[doc(inline)]
pub use maple_core::state::Counter;

/// ```
/// use maple::{Read, Table};
///
/// /// How many hosts are blocked: in a run, in a transaction, or as the store is now.
/// fn blocked(table: &Table<maple::Mac, bool>, state: &impl Read) -> usize {
///     table.len(state)
/// }
/// assert_eq!(blocked(&Table::new("blocked"), &maple::Store::new().view()), 0);
/// ```
#[doc(inline)]
pub use maple_core::state::Read;

/// ```
/// use maple::Stop;
///
/// let take = |free: i64| {
///     Stop::unless(free > 0)?;
///     Ok(free - 1)
/// };
/// assert_eq!((take(1), take(0)), (Ok(0), Err(Stop::Retry)));
/// ```
#[doc(inline)]
pub use maple_core::state::Stop;

/// ```
/// use maple::handlers::SwitchInfo;
/// use maple::{App, Store, Table};
/// # use maple::handlers::{Handler, Replies};
/// # struct Deaf;
/// # impl Handler for Deaf {
/// #     fn packet_in(&mut self, _: &maple::wire::msg::PacketInView<'_>, _: &mut Replies) {}
/// # }
///
/// // What all handlers share.
/// let store = Store::new();
/// let blocked = Table::<maple::Mac, bool>::new("blocked");
/// assert!(blocked.is_empty(&store.view()));
/// let app = App::handlers(|_: &SwitchInfo| Deaf).store(store);
/// ```
#[doc(inline)]
pub use maple_core::state::Store;

/// ```
/// use maple::{Mac, Stored};
///
/// let pair = (Mac([2, 0, 0, 0, 0, 1]), vec![80_u32, 443]);
/// assert_eq!(<(Mac, Vec<u32>)>::from_value(&pair.to_value()), Some(pair));
/// ```
#[doc(inline)]
pub use maple_core::state::Stored;

/// ```
/// use maple::testing::Bench;
/// use maple::{Mac, Table};
///
/// let blocked = Table::<Mac, bool>::new("blocked");
/// Bench::new().run(|pkt, net| {
///     blocked.set(net, &pkt.eth_src().get(), &true);
///     assert_eq!(blocked.get(net, &Mac([0, 0, 0, 0, 0, 1])), Some(true));
///     assert_eq!((blocked.len(net), blocked.entries(net).len()), (1, 1));
///     blocked.delete(net, &pkt.eth_src().get());
///     assert!(!blocked.contains(net, &pkt.eth_src().get()));
/// });
/// ```
#[doc(inline)]
pub use maple_core::state::Table;

/// ```
/// use std::time::Duration;
///
/// use maple::{App, ChangeError, Handle, Net, Packet, Stop, Tx, Var};
///
/// /// Takes one of what is free, and waits until something is.
/// fn take(controller: &Handle, free: &Var<i64>) -> Result<(), ChangeError> {
///     controller.atomically(Some(Duration::from_secs(1)), |tx: &Tx| {
///         let left = free.get(tx);
///         Stop::unless(left > 0)?;
///         Ok(free.set(tx, &(left - 1)))
///     })
/// }
///
/// let app = App::new(|_: &Packet, net: &Net| net.flood()).listen(([127, 0, 0, 1], 0)).workers(1);
/// let controller = app.start()?;
/// let free = Var::new("free", 3);
/// take(&controller.handle(), &free)?;
/// assert_eq!(free.get(&controller.handle().store().view()), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(inline)]
pub use maple_core::state::Tx;

/// ```
/// use maple::{Mac, Table, Value};
///
/// // A table whose values are of several types.
/// let notes = Table::<Mac, Value>::new("notes");
/// assert_eq!(Value::from("printer"), Value::Str("printer".into()));
/// ```
#[doc(inline)]
pub use maple_core::state::Value;

/// ```
/// use maple::testing::Bench;
/// use maple::Var;
///
/// let open = Var::new("open", false);
/// Bench::new().run(|_, net| {
///     assert!(!open.get(net));
///     open.set(net, &true);
///     assert!(open.get(net));
/// });
/// ```
#[doc(inline)]
pub use maple_core::state::Var;

/// ```
/// use maple::testing::Bench;
/// use maple::{Net, Query, QueryError};
///
/// let broken = Query::new("broken", |_: &Net, (): ()| -> bool { panic!("no idea") });
/// Bench::new().run(|_, net| assert!(matches!(broken.try_get(net, &()), Err(QueryError::Failed { .. }))));
/// ```
#[doc(inline)]
pub use maple_core::query::QueryError;

// The running controller.

/// ```
/// use maple::ChangeError;
///
/// /// Whether the change holds, though it may be lost over a restart.
/// fn holds(done: &Result<(), ChangeError>) -> bool {
///     matches!(done, Ok(()) | Err(ChangeError::NotKept))
/// }
/// assert!(holds(&Err(ChangeError::NotKept)) && !holds(&Err(ChangeError::Unconfirmed)));
/// ```
#[doc(inline)]
pub use maple_controller::control::transactions::ChangeError;

/// ```
/// use maple::prelude::*;
///
/// let app = App::new(|_: &Packet, net: &Net| net.flood()).listen(([127, 0, 0, 1], 0)).workers(1);
/// let controller: maple::Controller = app.start()?;
/// controller.handle().stop();
/// assert_eq!(controller.wait(), Ok(()));
/// # Ok::<(), maple::StartError>(())
/// ```
#[doc(inline)]
pub use maple_controller::Controller;

/// ```
/// use maple::prelude::*;
/// use std::time::Duration;
///
/// let app = App::new(|_: &Packet, net: &Net| net.flood()).configure(|options: &mut maple::ControllerOptions| {
///     options.engine.host_timeout = Duration::from_secs(60);
/// });
/// assert_eq!(app.into_parts().0.engine.host_timeout, Duration::from_secs(60));
/// ```
#[doc(inline)]
pub use maple_controller::ControllerOptions;

/// ```
/// use maple::prelude::*;
/// # let app = App::new(|_: &Packet, net: &Net| net.flood()).listen(([127, 0, 0, 1], 0)).workers(1);
///
/// let controller = app.start()?;
/// let handle: maple::Handle = controller.handle();
/// assert!(handle.switches()?.is_empty() && handle.failure().is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(inline)]
pub use maple_controller::Handle;

/// ```
/// use maple::prelude::*;
///
/// let first = App::new(|_: &Packet, net: &Net| net.flood()).listen(([127, 0, 0, 1], 0)).workers(1).start()?;
/// let taken = first.handle().addresses()[0];
/// let second = App::new(|_: &Packet, net: &Net| net.flood()).listen(taken).start();
/// assert!(matches!(second, Err(maple::StartError::Listen { address, .. }) if address == taken));
/// # Ok::<(), maple::StartError>(())
/// ```
#[doc(inline)]
pub use maple_controller::StartError;

/// ```
/// let error = maple::Error::from(maple::Stopped("a worker failed".into()));
/// assert_eq!(error.to_string(), "a worker failed");
/// ```
#[doc(inline)]
pub use maple_controller::Stopped;

/// ```
/// use maple::{Dpid, NetworkEvent};
///
/// fn text(happening: &NetworkEvent) -> String {
///     match happening {
///         NetworkEvent::SwitchUp(switch) => format!("switch {switch} is there"),
///         NetworkEvent::Port { at, is_up: false, .. } => format!("port {at} is down"),
///         other => format!("{other:?}"),
///     }
/// }
/// assert_eq!(text(&NetworkEvent::SwitchUp(Dpid(1))), "switch 0000000000000001 is there");
/// ```
#[doc(inline)]
pub use maple_controller::listen::NetworkEvent;

/// ```
/// use std::time::Duration;
///
/// let (listening, listener) = maple::listen(Vec::new())?;
/// assert!(listener.next(Duration::ZERO).is_err());
/// assert_eq!(listener.lost(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(inline)]
pub use maple_controller::listen::Listener;

/// ```
/// use std::time::Duration;
///
/// let (listening, listener) = maple::listen(Vec::new())?;
/// assert_eq!(listener.next(Duration::ZERO), Err(maple::ListenError::Timeout));
/// drop(listening);
/// assert_eq!(listener.next(Duration::ZERO), Err(maple::ListenError::Ended));
/// # Ok::<(), maple::TooManyConditions>(())
/// ```
#[doc(inline)]
pub use maple_controller::listen::ListenError;

/// ```
/// let error: maple::TooManyConditions = maple::listen(vec![maple::Cond::default(); 65]).unwrap_err();
/// assert_eq!(error.to_string(), "listeners can have at most 64 conditions together, not 65");
/// ```
#[doc(inline)]
pub use maple_controller::listen::TooManyConditions;

/// ```
/// use maple::prelude::*;
///
/// let (listening, listener) = maple::listen(Vec::new())?;
/// let app = App::new(|_: &Packet, net: &Net| net.flood()).listening(listening);
/// assert_eq!(app.into_parts().0.subscriptions.len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(inline)]
pub use maple_controller::listen::Subscription;

/// ```
/// use maple::{Cond, Constraint, Field};
///
/// // To hear of each ARP packet, and of all ports and switches.
/// let arp = Cond::default().and(Constraint::exact(Field::EthType, 0x0806));
/// assert!(maple::listen(vec![arp.clone()]).is_ok());
/// assert!(maple::listen(vec![arp; 65]).is_err(), "a packet has a bit for each of 64 conditions");
/// ```
#[doc(inline)]
pub use maple_controller::listen::listen;

/// ```
/// use maple::{Dpid, Location, PortNo, SnoopedProtocol, Snooping};
///
/// let server = Location::new(Dpid(1), PortNo(3));
/// let snooping = Snooping::new([SnoopedProtocol::Igmp, SnoopedProtocol::Dhcp], [server])?.with_querier()?;
/// assert!(snooping.is_on() && snooping.on_leases());
/// # Ok::<(), maple::SnoopingError>(())
/// ```
#[doc(inline)]
pub use maple_controller::snoop::Snooping;

/// ```
/// use maple::SnoopedProtocol;
///
/// assert_eq!("mld".parse(), Ok(SnoopedProtocol::Mld));
/// ```
#[doc(inline)]
pub use maple_controller::snoop::SnoopedProtocol;

/// ```
/// use maple::{SnoopedProtocol, Snooping, SnoopingError};
///
/// assert_eq!(Snooping::new([SnoopedProtocol::Dhcp], []), Err(SnoopingError::NoServers));
/// ```
#[doc(inline)]
pub use maple_controller::snoop::SnoopingError;
