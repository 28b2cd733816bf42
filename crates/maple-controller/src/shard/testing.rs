//! Helpers for tests of whole shards: a shard whose program numbers its answers, and a switch that never blocks in the
//! kernel.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crossbeam_channel::Receiver;
use maple_core::engine::{Engine, Options, ShardId, Time};
use maple_core::policy::{Net, PacketHandle};
use maple_core::route::Route;
use maple_core::state::Store;
use maple_wire::msg::stats::{Desc, ReplyBody};
use maple_wire::msg::{Features, Hello, NO_BUFFER, PacketIn, PacketOut, RequestBody, StatsReply, SwitchConfig, kind};
use maple_wire::{Dpid, Header, Message, PortNo, Version};
use mio::Poll;
use mio::net::TcpListener;

use super::mailbox::{Outgoing, ShardMessage};
use super::registry::Registry;
use super::{Context, FORGET_SWITCH_AFTER, IoParts, ListeningSocket, QueueLimits, Shard, ShardParts, sync};
use crate::discovery::{Discovery, Key, Timing};
use crate::framing::{Framer, StreamPart};
use crate::listener::Subscriptions;
use crate::notice::Notices;
use crate::program::{Balancer, Program, ProgramConnection, ProgramErrors, ProgramFactory, Progress};
use crate::session::{Deadlines, SwitchInfo};
use crate::time::Clock;

/// The parts of a shard that differ between tests.
pub(super) struct Setting {
    pub id: ShardId,
    pub poll: Poll,
    pub clock: Clock,
    pub listeners: Vec<TcpListener>,
    pub registry: Arc<Registry>,
    pub inbox: Receiver<Vec<ShardMessage>>,
    pub outgoing: Outgoing,
    pub notices: Notices,
}

impl Setting {
    /// Creates the parts of a shard with these programs.
    pub fn parts(self, programs: Arc<dyn ProgramFactory>) -> ShardParts {
        let Setting { id, poll, clock, listeners, registry, inbox, outgoing, notices } = self;
        let listeners = listeners.into_iter().map(|listener| ListeningSocket { listener, tls: None }).collect();
        let (deadlines, limits, programs) = (Deadlines::default(), QueueLimits::default(), Some(programs));
        ShardParts {
            ctx: Context::new(id, clock, registry, inbox, outgoing, notices),
            io: IoParts { poll, deadlines, limits, listeners, programs, write_each: false, balancer: None },
            tls: None,
            discovery: Discovery::new(Key([0; 16]), Timing::default(), 1),
            subscriptions: Subscriptions::default(),
            forget_after: Some(FORGET_SWITCH_AFTER),
            known: None,
            recorder: None,
        }
    }
}

/// Creates the shard, in the thread that runs it.
pub(super) fn shard(parts: ShardParts) -> std::io::Result<Shard> {
    let policy = Arc::new(|_: &PacketHandle, _: &Net| Route::drop());
    let engine = Engine::new(parts.ctx.id, Store::new(), policy, Options::default());
    Shard::new(parts, engine)
}

/// Creates programs that number their answers and count their ends. Switches do not migrate by themselves.
pub(super) fn numbering(downs: &Arc<AtomicU64>) -> Arc<dyn ProgramFactory> {
    Arc::new(Numberings(Arc::clone(downs)))
}

struct Numberings(Arc<AtomicU64>);

impl ProgramFactory for Numberings {
    fn program(&self, _: &ProgramErrors, _: bool) -> Box<dyn Program> {
        Box::new(Numbering { answered: 0, is_up: false, early: Vec::new(), downs: Arc::clone(&self.0) })
    }

    fn balancers(&self, _: usize, _: Duration) -> Vec<Box<dyn Balancer>> {
        Vec::new()
    }
}

/// A program that numbers its answers.
struct Numbering {
    answered: u32,
    is_up: bool,
    /// The transaction ids of packets that came before the handshake was done.
    early: Vec<u32>,
    downs: Arc<AtomicU64>,
}

impl Numbering {
    fn take(&mut self, header: Header, message: &[u8], line: &mut ProgramConnection<'_>) {
        match header.kind {
            kind::PACKET_IN if self.is_up => self.answer(header.xid, line),
            kind::PACKET_IN => self.early.push(header.xid),
            _ => line.session.on_message(line.now, header, message, line.outputs),
        }
    }

    fn answer(&mut self, xid: u32, line: &mut ProgramConnection<'_>) {
        self.answered += 1;
        let data = self.answered.to_be_bytes().to_vec();
        let answer = PacketOut { buffer_id: NO_BUFFER, in_port: PortNo(1), actions: vec![], data };
        Message::PacketOut(answer).encode(Version::Of10, xid, line.waiting).expect("1.0 can express it");
    }
}

impl Program for Numbering {
    fn read(&mut self, rest: &mut &[u8], framer: &mut Framer, mut line: ProgramConnection<'_>) -> Progress {
        while line.outputs.is_empty() {
            match framer.next(rest).expect("switches of tests send messages") {
                StreamPart::Whole(header, message) => self.take(header, message, &mut line),
                StreamPart::Completed(header, message) => self.take(header, message, &mut line),
                StreamPart::Rest(_) => return Progress::Done,
            }
        }
        Progress::Act
    }

    fn switch_up(&mut self, _: &SwitchInfo, mut line: ProgramConnection<'_>) {
        self.is_up = true;
        std::mem::take(&mut self.early).into_iter().for_each(|xid| self.answer(xid, &mut line));
    }

    fn message(&mut self, _: u32, _: Message, _: ProgramConnection<'_>) {}

    fn wake(&self) -> Option<Time> {
        None
    }

    fn timer(&mut self, _: ProgramConnection<'_>) {}

    fn end(&mut self) {
        if self.is_up {
            self.downs.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The error of a read for which nothing has arrived.
pub(super) struct Nothing;

/// A switch at the other end of a connection.
pub(super) struct Client {
    pub stream: TcpStream,
    buffer: Vec<u8>,
    dpid: Dpid,
}

impl Client {
    /// Opens a connection of the switch `dpid`, and sends its hello.
    pub fn connect(address: SocketAddr, dpid: Dpid) -> Client {
        let stream = TcpStream::connect(address).expect("the backlog has room");
        stream.set_nodelay(true).and_then(|()| stream.set_nonblocking(true)).expect("a socket can");
        let mut client = Client { stream, buffer: Vec::new(), dpid };
        client.send(1, &Message::Hello(Hello { version: Version::Of10 as u8, elements: vec![] }));
        client
    }

    pub fn send(&mut self, xid: u32, message: &Message) {
        let bytes = message.to_bytes(Version::Of10, xid).expect("1.0 can express it");
        self.write(&bytes);
    }

    pub fn write(&mut self, bytes: &[u8]) {
        sync::step();
        // The controller may have closed already; then there is nothing to read.
        if let Ok(written) = self.stream.write(bytes) {
            assert_eq!(written, bytes.len(), "so little always fits");
        }
    }

    /// Waits for the next message that is not answered here. Returns `None` at the end of the stream.
    pub fn next(&mut self) -> Option<(Header, Message)> {
        loop {
            sync::step();
            if let Ok(found) = self.try_next() {
                return found;
            }
        }
    }

    /// Returns the message that [`Client::next`] waits for, if it has arrived.
    pub fn try_next(&mut self) -> Result<Option<(Header, Message)>, Nothing> {
        loop {
            while let Some(length) = Header::peek(&self.buffer).expect("a header").map(|h| usize::from(h.length))
                && self.buffer.len() >= length
            {
                let bytes: Vec<u8> = self.buffer.drain(..length).collect();
                let (header, message) = Message::decode(&bytes).expect("a message");
                let Some(reply) = reply(self.dpid, &message) else { return Ok(Some((header, message))) };
                self.send(header.xid, &reply);
            }
            let mut chunk = [0; 1024];
            match self.stream.read(&mut chunk) {
                Ok(0) => return Ok(None),
                Ok(read) => self.buffer.extend_from_slice(&chunk[..read]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Err(Nothing),
                Err(_) => return Ok(None),
            }
        }
    }

    /// Waits for a packet-out. Returns its transaction id and its data.
    pub fn answer(&mut self) -> (u32, Vec<u8>) {
        loop {
            match self.next().expect("the connection lasts") {
                (header, Message::PacketOut(answer)) => return (header.xid, answer.data),
                _ => continue,
            }
        }
    }
}

/// Returns the reply of a switch without ports to a request of the handshake or an echo request.
pub(crate) fn reply(dpid: Dpid, message: &Message) -> Option<Message> {
    Some(match message {
        Message::FeaturesRequest => Message::FeaturesReply(features(dpid)),
        Message::EchoRequest(data) => Message::EchoReply(data.clone()),
        Message::GetConfigRequest => Message::GetConfigReply(SwitchConfig { flags: 0, miss_send_len: 0 }),
        Message::StatsRequest(request) => Message::StatsReply(StatsReply::new(match request.body {
            RequestBody::PortDesc => ReplyBody::PortDesc(vec![]),
            RequestBody::Flow(_) => ReplyBody::Flow(vec![]),
            _ => ReplyBody::Desc(Desc::default()),
        })),
        _ => return None,
    })
}

fn features(dpid: Dpid) -> Features {
    let ports = vec![];
    Features { ports, ..Features::new(dpid, 1) }
}

/// Encodes a packet-in of OpenFlow 1.0 from port 1.
pub(super) fn packet(xid: u32) -> Vec<u8> {
    let frame = maple_wire::packet::build::Frame::ethernet([2; 6], [4; 6]).ipv4([10; 4], [11; 4]).udp(1, 2).build();
    packet_in(Version::Of10, xid, NO_BUFFER, 1, &frame)
}

/// Encodes a packet-in.
pub(crate) fn packet_in(version: Version, xid: u32, buffer_id: u32, in_port: u32, frame: &[u8]) -> Vec<u8> {
    let message = Message::PacketIn(PacketIn { buffer_id, ..PacketIn::new(in_port, frame.to_vec()) });
    message.to_bytes(version, xid).expect("every version can express it")
}
