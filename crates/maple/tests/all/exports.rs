//! Names that a program has that depends on `maple` alone. If a signature of the library has a type
//! of the crates behind it, this file names that type by a path of the library.

use std::net::Ipv4Addr;
use std::sync::Arc;

use maple::controller::{
    ClusterRole, ControlOptions, Controller, ControllerOptions, Deadlines, EngineOptions, Handle, MemoryOptions,
    OpenFlowOptions, QueueLimits, RecordOptions, ShardDeadlines, StartError, Stopped, Timing, Tls, WorkerOptions,
};
use maple::crates::{maple_controller, maple_core};
use maple::field::{Cond, Constraint, Field, FieldValue, PacketField, PrefixError, Range};
use maple::guard::{Delivery, HostGroup, RouteConstraint, RouteView};
use maple::listener::{Listener, ListenerPacket, NetworkEvent, PortReason, Subscription};
use maple::net::{BadDpid, BadLocation, BadMac, BadPort, Hop, HostLocation, LinkName, Load, Operand, Place};
use maple::policy::{AccessList, IntoRoute, SamplePacket, Source};
use maple::prelude::*;
use maple::route::{Limit, RouteError, Unit};
use maple::snoop::{Lease, MulticastGroup, SnoopedProtocol, Snooping};
use maple::state::{
    Attempt, DeclareError, Kind, Mismatch, QueryError, Read, RowMap, Snapshot, Store, Stored, Types, Value,
    VersionError, WrongType,
};

/// A policy that writes down all that its trait mentions.
struct Spelled;

impl Policy for Spelled {
    fn decide(&self, pkt: &Packet, net: &Net) -> Result<Route, PolicyError> {
        let source: PacketField<'_, Mac> = pkt.eth_src();
        let at: Option<HostLocation<'_>> = net.locate(source);
        let load: Option<Load> = at.map(|at| net.port_load(at.location()));
        let _: Option<Location> = Place::place(at);
        let lease: Option<Lease> = if load.is_none() { None } else { net.lease(Ipv4Addr::LOCALHOST) };
        let limit: Limit = Limit { unit: Unit::Kilobits, ..Limit::kilobits("all", 1000) };
        Ok(lease.map_or(net.flood(), |lease| net.shortest_path(at, lease.location)).limit(limit))
    }

    fn samples(&self) -> Vec<SamplePacket> {
        vec![SamplePacket::new(maple::testing::tcp(1, 2))]
    }

    fn access_lists(&self) -> Vec<Arc<AccessList>> {
        Vec::new()
    }
}

/// Returns options that are set in each group.
fn with_all_groups(options: &mut ControllerOptions, tls: Option<Arc<Tls>>, record: Option<RecordOptions>) {
    let (deadlines, limits, timing) = (Deadlines::default(), QueueLimits::default(), Timing::default());
    options.engine = EngineOptions::default();
    let _: fn(&Handle) -> Option<ClusterRole> = Handle::role;
    options.openflow = OpenFlowOptions { tls, deadlines, limits, timing, ..OpenFlowOptions::default() };
    options.workers = WorkerOptions { count: 1, pin: false, ..WorkerOptions::default() };
    options.memory = MemoryOptions { record, ..MemoryOptions::default() };
    options.control = ControlOptions { deadlines: ShardDeadlines::default(), ..ControlOptions::default() };
    options.openflow.listen = vec![(Ipv4Addr::LOCALHOST, 0).into()];
}

#[test]
fn a_program_that_depends_on_maple_alone_starts_a_controller_and_asks_it() {
    let app = App::new(Spelled).configure(|options| with_all_groups(options, None, None));
    let controller: Controller = app.start().unwrap_or_else(|error: StartError| panic!("{error}"));
    let handle: Handle = controller.handle();
    let hosts: Vec<(Mac, maple_core::network::HostInfo)> = handle.hosts();
    let switches: Result<Vec<maple_controller::status::SwitchStatus>, maple_controller::LateShard> = handle.switches();
    assert!(hosts.is_empty() && switches.is_ok_and(|switches| switches.is_empty()));
    let state: Arc<Snapshot> = handle.snapshot();
    assert!(state.host(Mac([2, 0, 0, 0, 0, 1])).is_none());
    handle.stop();
    let ended: Result<(), Stopped> = controller.wait();
    assert_eq!(ended, Ok(()));
}

#[test]
fn a_declaration_that_fails_is_an_error_of_the_start_and_no_panic() {
    let (numbers, texts) = (Table::<Mac, u32>::new("rows"), Table::<Mac, String>::new("rows"));
    let app = || App::new(Spelled).listen((Ipv4Addr::LOCALHOST, 0)).workers(1);
    let error = app().table(&numbers).table(&texts).start().expect_err("the types differ");
    assert!(matches!(&error, StartError::Declaration(DeclareError::Twice { .. })), "{error:?}");
    let (first, second) = (Table::<Mac, u32>::versioned("rows", 1), Table::<Mac, u32>::versioned("rows", 2));
    let error = app().keep(&first).keep(&second).start().expect_err("the versions differ");
    assert!(matches!(&error, StartError::Version(VersionError::Twice { .. })), "{error:?}");
    let error = app().var(&Var::new("open", true)).var(&Var::new("open", 1_u32)).start().expect_err("the types differ");
    assert!(matches!(&error, StartError::Declaration(_)), "{error:?}");
}

#[test]
fn errors_of_parsing_have_names() {
    let mac: Result<Mac, BadMac> = "none".parse();
    let switch: Result<Dpid, BadDpid> = "none".parse();
    let port: Result<PortNo, BadPort> = "none".parse();
    let location: Result<Location, BadLocation> = "none".parse();
    let prefix: Result<Prefix<Ipv4Addr>, PrefixError> = "none".parse();
    assert!(mac.is_err() && switch.is_err() && port.is_err() && location.is_err() && prefix.is_err());
}

/// The types that signatures mention and no test above makes.
#[allow(dead_code, reason = "that it compiles is the test")]
struct Named<T: FieldValue + Operand<T>, S: Stored, A: Access, R: Read, I: IntoRoute> {
    parameters: (T, S, A, R, I),
    questions: (Cond, Constraint, Field, Range, Source),
    routes: (Delivery, RouteView, RouteConstraint, HostGroup, Hop, LinkName, RouteError),
    state: (Attempt<()>, Kind, Types, Value, RowMap, Arc<Store>, Tx),
    errors: (Mismatch, QueryError, WrongType),
    events: (Listener, Subscription, NetworkEvent, ListenerPacket, PortReason),
    snooping: (Snooping, SnoopedProtocol, MulticastGroup),
    handlers: (maple::handlers::SwitchInfo, maple::wire::Message, maple::wire::Version),
}
