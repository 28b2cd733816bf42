//! A controller on a free port, and switches that are written down message by message.

#![allow(dead_code, unused_imports, reason = "`alone` and `over_tls` use a part of it")]

pub mod schema;
#[path = "../../../../tests/skip.rs"]
mod skip;
pub mod tls;

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use maple_controller::status::SwitchStatus;
use maple_controller::tls::Tls;
use maple_controller::{Controller, ControllerOptions, Deadlines, Handle, file_limit};
use maple_core::{Net, PacketHandle, Route};
use maple_wire::msg::stats::{Desc, FlowStats};
use maple_wire::msg::{
    ErrorMsg, Features, Header, Hello, HelloElement, NO_BUFFER, PacketIn, PacketInReason, ReplyBody, RequestBody,
    StatsReply, SwitchConfig,
};
use maple_wire::{Dpid, Field, Match, Message, Port, PortNo, Version};

pub use skip::missing;

/// A time that nothing here exceeds, even on a busy machine.
pub const LONG: Duration = Duration::from_secs(10);
/// A time that is long enough to see that something does not happen.
pub const SHORT: Duration = Duration::from_millis(150);

/// Reports whether switches speak TLS. They do in `over_tls`, which has a copy of this module.
pub fn speaks_tls() -> bool {
    module_path!().contains("over_tls::")
}

/// The settings with which both ends begin TLS.
static TLS: LazyLock<(Arc<Tls>, Arc<rustls::ClientConfig>)> = LazyLock::new(|| {
    let authority = tls::Authority::new("common");
    let own = authority.sign("switch", 2);
    (authority.tls(), authority.client(Some(&own), &tls::versions()))
});

/// A running controller.
pub struct Maple {
    pub handle: Handle,
    pub address: SocketAddr,
    _controller: Controller,
}

impl Maple {
    /// Starts a controller that floods, with one shard and the usual deadlines.
    pub fn start() -> Maple {
        Maple::with(|_| {})
    }

    /// Starts a controller that floods, with options changed.
    pub fn with(change: impl FnOnce(&mut ControllerOptions)) -> Maple {
        let mut options = ControllerOptions::new(Arc::new(|_: &PacketHandle, _: &Net| Route::flood()));
        options.openflow.listen = vec![SocketAddr::from(([127, 0, 0, 1], 0))];
        options.workers.count = 1;
        options.workers.pin = false;
        if speaks_tls() {
            options.openflow.listen_tls = std::mem::take(&mut options.openflow.listen);
            options.openflow.tls = Some(Arc::clone(&TLS.0));
        }
        change(&mut options);
        let controller = Controller::start(options).expect("the controller starts");
        let handle = controller.handle();
        Maple { address: handle.addresses()[0], handle, _controller: controller }
    }

    /// Starts a controller with these deadlines.
    pub fn impatient(deadlines: Deadlines) -> Maple {
        Maple::with(|options| options.openflow.deadlines = deadlines)
    }

    /// Returns a counter's value.
    pub fn count(&self, name: &str) -> u64 {
        let stats = self.handle.stats().unwrap();
        stats.total.counters.iter().find(|(n, _)| *n == name).unwrap_or_else(|| panic!("no counter {name}")).1
    }

    /// Waits until a counter is at least `least`.
    pub fn wait_for(&self, name: &str, least: u64) {
        eventually(&format!("{name} >= {least}"), || self.count(name) >= least);
    }

    /// Returns the switches with a control connection.
    pub fn connected(&self) -> Vec<SwitchStatus> {
        self.handle.switches().unwrap().into_iter().filter(|switch| switch.unreachable.is_none()).collect()
    }

    /// Returns all notices since the last call, as text.
    pub fn notices(&self) -> Vec<String> {
        self.handle.notices().try_iter().map(|notice| notice.to_string()).collect()
    }
}

/// The maximum number of descriptors that the tests that run at the same time have open, and the test framework.
const DESCRIPTORS_OF_OTHERS: u64 = 3_000;

/// Lets this process open this many descriptors besides those of tests that run at the same time. Returns `false`, and
/// prints so, if the system does not allow it.
pub fn descriptors(wanted: u64) -> bool {
    let wanted = wanted + DESCRIPTORS_OF_OTHERS;
    let limit = file_limit::raise();
    let is_enough = limit.is_none_or(|limit| limit >= wanted);
    if !is_enough {
        missing(&format!("{wanted} descriptors; the hard limit is {limit:?}"));
    }
    is_enough
}

/// Returns how many times as long as usual floods and storms are to be: `MAPLE_STRESS`.
pub fn longer() -> u32 {
    std::env::var("MAPLE_STRESS").map_or(1, |text| text.parse().expect("MAPLE_STRESS is a number"))
}

/// Waits until something holds.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < LONG, "not within {LONG:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The switch's end of a connection to the controller.
pub struct Peer {
    pub stream: TcpStream,
    pub version: Version,
    pub dpid: Dpid,
    pub auxiliary_id: u8,
    pub ports: Vec<Port>,
    /// The rules that it reports.
    pub flows: Vec<FlowStats>,
    /// All messages that were not part of the handshake, in order.
    pub seen: Vec<(u32, Message)>,
    buffer: Vec<u8>,
}

impl Peer {
    /// Opens a connection, and sends nothing.
    pub fn connect(address: SocketAddr) -> Peer {
        let stream = TcpStream::connect(address).expect("the controller accepts");
        Peer::on(if speaks_tls() { tls::speak(stream, &TLS.1) } else { stream })
    }

    /// Makes a peer on an open connection.
    pub fn on(stream: TcpStream) -> Peer {
        stream.set_nodelay(true).unwrap();
        Peer {
            stream,
            version: Version::Of13,
            dpid: Dpid(0),
            auxiliary_id: 0,
            ports: Vec::new(),
            flows: Vec::new(),
            seen: Vec::new(),
            buffer: Vec::new(),
        }
    }

    /// Opens a connection and says hello in this version, without a bitmap.
    pub fn greeted(address: SocketAddr, version: Version) -> Peer {
        let mut peer = Peer::connect(address);
        peer.version = version;
        peer.send(1, &hello(version as u8, None));
        peer
    }

    /// Begins the handshake of a switch with two ports.
    pub fn begin(address: SocketAddr, version: Version, dpid: u64) -> Peer {
        Peer::greeted(address, version).become_switch(dpid)
    }

    /// Begins the handshake of a switch with two ports on an open connection, in OpenFlow 1.3.
    pub fn begin_on(stream: TcpStream, dpid: u64) -> Peer {
        let mut peer = Peer::on(stream);
        peer.send(1, &hello(peer.version as u8, None));
        peer.become_switch(dpid)
    }

    fn become_switch(self, dpid: u64) -> Peer {
        let mut peer = self;
        peer.dpid = Dpid(dpid);
        peer.ports = vec![port(1), port(2)];
        peer
    }

    /// Brings up a switch with two ports, which has got its first rules.
    pub fn up(maple: &Maple, version: Version, dpid: u64) -> Peer {
        let mut peer = Peer::begin(maple.address, version, dpid);
        peer.finish();
        peer
    }

    /// Answers requests until the first barrier request.
    pub fn finish(&mut self) {
        let done = self.pump(LONG, |_, message| matches!(message, Message::BarrierRequest));
        assert!(done, "switch {} came up; it saw {:?}", self.dpid, self.seen);
    }

    /// Sends a message.
    pub fn send(&mut self, xid: u32, message: &Message) {
        let bytes = message.to_bytes(self.version, xid).expect("it can be said");
        self.send_bytes(&bytes);
    }

    /// Sends bytes. A connection that the controller has closed already is not a failure.
    pub fn send_bytes(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// Receives the next message; `None` at the end of the stream or of the time.
    pub fn receive(&mut self, within: Duration) -> Option<(Header, Message)> {
        let deadline = Instant::now() + within;
        loop {
            if let Some(header) = Header::peek(&self.buffer).expect("the controller sends whole headers")
                && self.buffer.len() >= usize::from(header.length)
            {
                let bytes: Vec<u8> = self.buffer.drain(..usize::from(header.length)).collect();
                return Some(Message::decode(&bytes).expect("the controller sends whole messages"));
            }
            if !self.fill(deadline) {
                return None;
            }
        }
    }

    /// Reads more. Returns `false` at the end of the stream or of the time.
    fn fill(&mut self, deadline: Instant) -> bool {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        self.stream.set_read_timeout(Some(left)).unwrap();
        let mut chunk = [0; 65536];
        match self.stream.read(&mut chunk) {
            Ok(0) => false,
            Ok(read) => {
                self.buffer.extend_from_slice(&chunk[..read]);
                true
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => true,
            Err(_) => false,
        }
    }

    /// Behaves like a switch until a message for which `until` holds has come (and been answered), or the time is over.
    /// Returns whether it has come.
    pub fn pump(&mut self, within: Duration, mut until: impl FnMut(u32, &Message) -> bool) -> bool {
        let deadline = Instant::now() + within;
        while let Some((header, message)) = self.receive(deadline.saturating_duration_since(Instant::now())) {
            self.answer(header.xid, &message);
            let done = until(header.xid, &message);
            self.seen.push((header.xid, message));
            if done {
                return true;
            }
        }
        false
    }

    /// Answers a request as a switch would.
    pub fn answer(&mut self, xid: u32, message: &Message) {
        let reply = match message {
            Message::FeaturesRequest => Message::FeaturesReply(self.features()),
            Message::EchoRequest(data) => Message::EchoReply(data.clone()),
            Message::GetConfigRequest => Message::GetConfigReply(SwitchConfig { flags: 0, miss_send_len: 128 }),
            Message::BarrierRequest => Message::BarrierReply,
            Message::StatsRequest(request) => Message::StatsReply(StatsReply::new(match request.body {
                RequestBody::PortDesc => ReplyBody::PortDesc(self.ports.clone()),
                RequestBody::Desc => ReplyBody::Desc(desc()),
                RequestBody::Flow(_) => ReplyBody::Flow(self.flows.clone()),
                _ => return,
            })),
            _ => return,
        };
        self.send(xid, &reply);
    }

    /// Sends an echo request, and waits for the answer.
    pub fn echo(&mut self) {
        self.send(77, &Message::EchoRequest(vec![1, 2, 3]));
        let answered = self.pump(LONG, |xid, message| xid == 77 && *message == Message::EchoReply(vec![1, 2, 3]));
        assert!(answered, "switch {} is served", self.dpid);
    }

    /// Returns the next error that the controller sends.
    pub fn error(&mut self) -> Option<ErrorMsg> {
        let mut error = None;
        self.pump(LONG, |_, message| {
            if let Message::Error(found) = message {
                error = Some(found.clone());
            }
            error.is_some()
        });
        error
    }

    /// Reports whether the controller ends the connection.
    pub fn is_closed(&mut self) -> bool {
        let deadline = Instant::now() + LONG;
        while self.receive(deadline.saturating_duration_since(Instant::now())).is_some() {}
        Instant::now() < deadline
    }

    fn features(&self) -> Features {
        let ports = if self.version == Version::Of10 { self.ports.clone() } else { Vec::new() };
        let (dpid, auxiliary_id) = (self.dpid, self.auxiliary_id);
        Features { auxiliary_id, actions: 0xfff, ports, ..Features::new(dpid, 254) }
    }

    /// Returns the number of flow-mods that came so far.
    pub fn flow_mods(&self) -> usize {
        self.seen.iter().filter(|(_, message)| matches!(message, Message::FlowMod(_))).count()
    }
}

/// Makes a hello.
pub fn hello(version: u8, bitmap: Option<u32>) -> Message {
    let elements = bitmap.into_iter().map(|bits| HelloElement::VersionBitmap(vec![bits])).collect();
    Message::Hello(Hello { version, elements })
}

/// Makes a port that is up.
pub fn port(number: u32) -> Port {
    Port::new(PortNo(number), [2, 0, 0, 0, 0, number as u8], &format!("eth{number}"))
}

/// Makes a packet-in of a whole frame.
pub fn packet_in(in_port: u32, data: Vec<u8>) -> Message {
    Message::PacketIn(PacketIn::new(in_port, data))
}

fn desc() -> Desc {
    let text = |text: &str| text.into();
    Desc {
        manufacturer: text("Test"),
        hardware: text("peer"),
        software: text("1"),
        serial: text(""),
        datapath: text(""),
    }
}
