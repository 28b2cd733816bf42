//! Random requests of three controllers: [`Switch`] gives and refuses roles as Open vSwitch does, refuses the same
//! changes, and notifies the same controllers of changes of ports and of masters.

use std::collections::BTreeMap;

use maple_switch::{ControllerId, Outgoing, Switch, SwitchOptions};
use maple_wire::msg::{
    AsyncConfig, BundleAdd, BundleControl, ErrorMsg, Experimenter, FlowMod, FlowModCommand, Hello, NO_BUFFER,
    PacketOut, PortMod, PortStatus, ReplyBody, RequestBody, Role, StatsRequest, SwitchConfig,
};
use maple_wire::{Dpid, Field, Match, Message, PortNo, Version};

use crate::bridge::{Bridge, Connection, Daemons, PORTS};
use crate::generate::Random;
use crate::{number, seed};

/// The number of requests of a usual run, for each version.
const REQUESTS: u64 = 600;
/// The number of controllers.
const CONTROLLERS: usize = 3;
/// A bit of a port's configuration that changes nothing else of it: no packet is forwarded to it.
const NO_FORWARD: u32 = 1 << 5;

/// The hardware addresses of a switch's ports.
type Addresses = BTreeMap<PortNo, [u8; 6]>;

/// A request. The address of a port is each switch's own.
#[derive(Debug)]
enum Request {
    Message(Message),
    Port(PortNo, u32),
    /// Opens a bundle and adds a rule.
    Bundle(u32, FlowMod),
    /// The controller connects anew.
    Connect,
}

impl Request {
    fn messages(&self, addresses: &Addresses) -> Vec<Message> {
        vec![match self {
            Request::Message(message) => message.clone(),
            Request::Bundle(bundle, rule) => {
                let (bundle, flags, kind) = (*bundle, 0, BundleControl::OPEN);
                let open = Message::BundleControl(BundleControl { bundle, kind, flags });
                let message = Box::new(Message::FlowMod(rule.clone()));
                return vec![open, Message::BundleAdd(BundleAdd { bundle, flags, message })];
            }
            Request::Port(port, config) => Message::PortMod(PortMod {
                port: *port,
                hw_addr: addresses[port],
                config: *config,
                mask: NO_FORWARD,
                advertise: 0,
            }),
            Request::Connect => return Vec::new(),
        }]
    }
}

/// Draws a request, the `serial`th one. Generations are close to each other, or far apart. The number of a bundle is
/// used once, because Open vSwitch answers otherwise than the specification if one is opened twice.
fn request(random: &mut Random, version: Version, serial: u32) -> Request {
    let generation = match random.below(8) {
        0 => 1 << 63,
        1 => u64::MAX,
        near => near,
    };
    let of10 = version == Version::Of10;
    let flow_mod = |cookie| FlowMod {
        cookie,
        ..FlowMod::new(FlowModCommand::Add, 1, Match::any().exact(Field::InPort, 1), vec![])
    };
    Request::Message(match random.below(20) {
        0 | 11 => return Request::Connect,
        1..=4 => {
            return Request::Port(PortNo(1 + random.below(PORTS.into()) as u32), NO_FORWARD * random.below(2) as u32);
        }
        5 => Message::FlowMod(flow_mod(random.below(9))),
        6 => Message::PacketOut(PacketOut {
            buffer_id: NO_BUFFER,
            in_port: PortNo::ANY,
            actions: vec![],
            data: vec![0; 60],
        }),
        12 => {
            // Not what becomes of fragments: on a connection that is not the bridge's own, a slave may choose it.
            let flags = if of10 { 4 * random.below(2) as u16 } else { 0 };
            Message::SetConfig(SwitchConfig { flags, miss_send_len: [0xffff, 200][random.below(2) as usize] })
        }
        13 => Message::GetConfigRequest,
        7 if !of10 => Message::GetAsyncRequest,
        8 if !of10 => {
            let mut masks = || [random.below(8) as u32, random.below(8) as u32];
            Message::SetAsync(AsyncConfig { packet_in: masks(), port_status: masks(), flow_removed: masks() })
        }
        9 if !of10 => {
            let kind = [BundleControl::COMMIT, BundleControl::DISCARD][random.below(2) as usize];
            let bundle = serial.saturating_sub(random.below(30) as u32);
            Message::BundleControl(BundleControl { bundle, kind, flags: 0 })
        }
        10 if !of10 => return Request::Bundle(serial, flow_mod(9)),
        kind if of10 || kind == 14 => {
            let role = random.below(4) as u32;
            let body = [10, role].iter().flat_map(|number| number.to_be_bytes()).collect();
            Message::Experimenter(Experimenter { id: Experimenter::NICIRA, body })
        }
        _ => Message::RoleRequest(Role { role: random.below(5) as u32, generation_id: generation }),
    })
}

/// Returns what a controller sees of a message. `None` for what the answer to each request has in both switches.
fn seen(message: Message) -> Option<String> {
    match message {
        Message::Error(error) => {
            let nicira = if error.kind == ErrorMsg::NICIRA { &error.data[4..8] } else { &[] };
            Some(format!("error {} {} {nicira:?}", error.kind, error.code))
        }
        Message::PortStatus(PortStatus { reason, port }) => {
            Some(format!("{reason:?} {} {:#x}", port.number, port.config))
        }
        Message::Hello(_) | Message::EchoReply(_) => None,
        other => Some(format!("{other:?}")),
    }
}

/// Both switches.
struct Pair<'a> {
    version: Version,
    bridge: Bridge<'a>,
    connections: Vec<Connection>,
    addresses: Addresses,
    switch: Switch,
}

impl<'a> Pair<'a> {
    fn new(daemons: &'a Daemons, version: Version) -> Pair<'a> {
        let options = SwitchOptions { open_vswitch: true, ..SwitchOptions::default() };
        let mut switch = Switch::new(Dpid(1), version, options);
        (1..=PORTS).for_each(|number| drop(switch.add_port(0, PortNo(number))));
        let name = if version == Version::Of10 { "roles10" } else { "roles13" };
        let mut bridge = daemons.bridge(name, version);
        let addresses = addresses(&mut bridge, version);
        let connections = (0..CONTROLLERS).map(|_| bridge.connect()).collect();
        let mut pair = Pair { version, bridge, connections, addresses, switch };
        (0..CONTROLLERS).for_each(|at| pair.connect(at));
        pair
    }

    fn connect(&mut self, at: usize) {
        let Pair { version, switch, .. } = self;
        switch.connect_to(ControllerId(at as u16));
        let hello = Message::Hello(Hello::offering(*version as u8, &[*version as u8]));
        assert_eq!(switch.receive_bytes_from(ControllerId(at as u16), 0, &hello.to_bytes(*version, 0).unwrap()), []);
        self.connections[at] = self.bridge.connect();
        // A connection to this socket gets messages without a request only once it has said how long packets may be.
        let config = Message::SetConfig(SwitchConfig { flags: 0, miss_send_len: 0xffff });
        self.ask(at, &Request::Message(config));
    }

    /// Gives both switches a request, and compares what all controllers see.
    fn ask(&mut self, at: usize, request: &Request) -> Vec<Vec<String>> {
        let mut ours = vec![Vec::new(); CONTROLLERS];
        let own: Addresses =
            self.switch.ports().iter().map(|(number, port)| (*number, port.description.hw_addr)).collect();
        for message in request.messages(&own) {
            let bytes = message.to_bytes(self.version, 0).expect("the version has it");
            for item in self.switch.receive_bytes_from(ControllerId(at as u16), 0, &bytes) {
                let Outgoing::Message { controller, message, .. } = item else { panic!("{item:?}") };
                ours[usize::from(controller.0)].extend(seen(message));
            }
        }
        for message in request.messages(&self.addresses) {
            self.connections[at].send(&message);
        }
        let mut theirs = vec![Vec::new(); CONTROLLERS];
        for other in (at..CONTROLLERS).chain(0..at) {
            let echo = self.connections[other].send(&Message::EchoRequest(vec![]));
            loop {
                match self.connections[other].receive() {
                    (header, Message::EchoReply(_)) if header.xid == echo => break,
                    (_, message) => theirs[other].extend(seen(message)),
                }
            }
        }
        assert_eq!(ours, theirs, "ours, Open vSwitch's: {at} asks {request:?}");
        ours
    }
}

/// Asks a bridge for the hardware addresses of its ports.
fn addresses(bridge: &mut Bridge<'_>, version: Version) -> Addresses {
    let ports = if version == Version::Of10 {
        bridge.features().ports
    } else {
        let request = bridge.send(&Message::StatsRequest(StatsRequest::new(RequestBody::PortDesc)));
        loop {
            match bridge.receive() {
                (header, Message::StatsReply(reply)) if header.xid == request => match reply.body {
                    ReplyBody::PortDesc(ports) => break ports,
                    other => panic!("{other:?}"),
                },
                _ => {}
            }
        }
    };
    ports.into_iter().map(|port| (port.number, port.hw_addr)).collect()
}

#[test]
fn random_controllers_get_the_roles_that_open_vswitch_gives_them() {
    let Some(daemons) = Daemons::start() else { return };
    let (seed, requests) = (seed(), number("MAPLE_REQUESTS").unwrap_or(REQUESTS));
    for version in [Version::Of10, Version::Of13] {
        println!("{version:?}: MAPLE_SEED={seed}, {requests} requests");
        let mut random = Random::new(seed);
        let mut pair = Pair::new(&daemons, version);
        let (mut refused, mut reported) = (0, 0);
        for serial in 0..requests {
            let at = random.below(CONTROLLERS as u64) as usize;
            match request(&mut random, version, serial as u32) {
                Request::Connect => pair.connect(at),
                request => {
                    let seen = pair.ask(at, &request);
                    refused += u64::from(seen[at].iter().any(|text| text.starts_with("error")));
                    reported += u64::from((0..CONTROLLERS).any(|other| other != at && !seen[other].is_empty()));
                }
            }
        }
        println!("{refused} requests were refused, and others were told of {reported}");
        assert!(refused * 20 > requests && reported > 0, "no request had an effect");
    }
}
