//! One socket with its session, and what a shard keeps for it.

use std::io::{self, Read};
use std::net::{Shutdown, SocketAddr};
use std::ops::ControlFlow;
use std::time::Duration;

use maple_core::engine::{Engine, Hits, Time};
use maple_wire::{Dpid, Header, Port, Version};
use mio::net::TcpStream;

use super::handled::packet_in;
use super::outbox::Outbox;
use super::registry::ConnectionId;
use crate::framing::Framer;
use crate::handler::Handler;
use crate::session::{CloseReason, ENGINE_XIDS, Output, Session};

/// How long a connection that was ended stays open so that the last message reaches the switch.
pub(super) const LINGER: Duration = Duration::from_secs(1);

/// One connection.
pub(crate) struct Connection {
    pub id: ConnectionId,
    pub socket: TcpStream,
    pub peer: SocketAddr,
    pub outbox: Outbox,
    pub life: Life,
    /// The switch at the other end, once its claim to the datapath id was granted.
    pub dpid: Option<Dpid>,
    /// What serves the switch where no policy does.
    pub handler: Option<Box<dyn Handler>>,
    /// Whole packet-ins that came before there was a handler, for it to see first.
    pub early: Vec<u8>,
    /// The transaction id of the handler's next request.
    pub next_xid: u32,
    /// When the handler wants to be woken.
    pub wake: Option<Time>,
    /// Known since the handshake.
    pub about: Option<About>,
    /// Bytes read in all.
    pub bytes_in: u64,
    /// Of these, how many were counted when shards were last compared.
    pub bytes_counted: u64,
    /// When it came from another shard.
    pub moved: Option<Time>,
    /// Whether the socket may have more to read.
    pub readable: bool,
    /// What it has to read came in since then; `None` if there was nothing left.
    pub waiting_since: Option<Time>,
    /// Whether the peer has closed its side, so that reads must go on to the end.
    pub read_closed: bool,
    /// Whether it stands in the list of those to read.
    pub queued_to_read: bool,
    /// Whether it stands in the list of those to write.
    pub queued_to_write: bool,
    /// Not read from, because too much waits to be written.
    pub paused: bool,
    /// The time of its entry in the timer heap that counts.
    pub timer: Option<Time>,
    /// Other connections that say they are this switch, and wait to hear whether this one is alive.
    pub claimants: Vec<ConnectionId>,
}

/// How far a connection is.
#[allow(clippy::large_enum_variant)] // nearly all connections are open
pub(crate) enum Life {
    /// In use.
    Open {
        /// The session.
        session: Session,
        /// What came in of the next message.
        framer: Framer,
    },
    /// Ended. What waits is still written, and what comes in is thrown away, until the peer closes or the time comes.
    Lingering(Time),
}

/// What is known of a switch that is up.
pub(crate) struct About {
    pub version: Version,
    pub tables: u8,
    pub description: String,
    /// Its ports as of the latest port-status.
    pub ports: Vec<Port>,
    /// Whether its rules were read, and so it is in use.
    pub in_use: bool,
}

/// Packet-ins that were answered where they lay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answered {
    /// How many.
    pub packets: u64,
    /// How many packet-outs that made.
    pub packet_outs: u64,
}

/// What answers packets where they lie, and where to.
struct Hitting<'a> {
    hits: Option<Hits<'a>>,
    outbox: &'a mut Vec<u8>,
    answered: Answered,
}

impl Hitting<'_> {
    /// Answers a message, if it is a packet that a leaf answers.
    fn answer(&mut self, version: Version, header: Header, message: &[u8]) -> bool {
        let Some(hits) = &mut self.hits else { return false };
        let answers = packet_in(version, header, message).and_then(|packet| hits.answer(&packet, self.outbox));
        let Some(answers) = answers else { return false };
        self.answered.packets += 1;
        self.answered.packet_outs += answers as u64;
        true
    }
}

/// What one read brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadResult {
    /// So much.
    Some {
        /// How many bytes.
        bytes: usize,
        /// How many messages are whole by them.
        messages: usize,
        /// Which of these are done with.
        answered: Answered,
    },
    /// Nothing now.
    Nothing,
}

impl Connection {
    /// A connection that has just been accepted.
    pub fn new(id: ConnectionId, socket: TcpStream, peer: SocketAddr, session: Session) -> Connection {
        Connection {
            id,
            socket,
            peer,
            outbox: Outbox::default(),
            life: Life::Open { session, framer: Framer::default() },
            dpid: None,
            handler: None,
            early: Vec::new(),
            next_xid: ENGINE_XIDS,
            wake: None,
            about: None,
            bytes_in: 0,
            bytes_counted: 0,
            moved: None,
            readable: true,
            waiting_since: None,
            read_closed: false,
            queued_to_read: false,
            queued_to_write: false,
            paused: false,
            timer: None,
            claimants: Vec::new(),
        }
    }

    /// The session, while the connection is open.
    pub fn session(&mut self) -> Option<&mut Session> {
        match &mut self.life {
            Life::Open { session, .. } => Some(session),
            Life::Lingering(_) => None,
        }
    }

    /// When something is due.
    pub fn deadline(&self) -> Option<Time> {
        match &self.life {
            Life::Open { session, .. } => session.deadline().into_iter().chain(self.wake).min(),
            Life::Lingering(until) => Some(*until),
        }
    }

    /// Reads once into `buffer`, and gives how many bytes came in; `None` if there are none now. An end of the stream is an
    /// error here.
    pub fn fill(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let read = match self.socket.read(buffer) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.readable = false;
                return Ok(None);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(None),
            Err(error) => return Err(error),
        };
        // A read that did not fill the buffer emptied the socket, unless the end of the stream is behind it.
        self.readable = read == buffer.len() || self.read_closed;
        self.bytes_in += read as u64;
        Ok(Some(read))
    }

    /// Reads once into `buffer`. Packets that a leaf of the engine answers are answered where they lie, all else goes to the
    /// session. An end of the stream is an error here.
    pub fn read(
        &mut self,
        now: Time,
        buffer: &mut [u8],
        engine: &mut Engine,
        out: &mut Vec<Output>,
    ) -> io::Result<ReadResult> {
        let Some(read) = self.fill(buffer)? else { return Ok(ReadResult::Nothing) };
        let Life::Open { session, framer } = &mut self.life else {
            return Ok(ReadResult::Some { bytes: read, messages: 0, answered: Answered::default() });
        };
        let hits = self.dpid.filter(|_| session.is_up()).and_then(|dpid| engine.hits(now, dpid));
        let mut desk = Hitting { hits, outbox: self.outbox.buffer(), answered: Answered::default() };
        let messages = take_in(session, framer, now, &buffer[..read], &mut desk, out);
        if desk.answered.packets > 0 {
            session.on_progress(now);
        }
        Ok(ReadResult::Some { bytes: read, messages, answered: desk.answered })
    }

    /// Begins to linger: the peer sees the end of the stream behind the last message.
    pub fn linger(&mut self, until: Time) {
        self.life = Life::Lingering(until);
        if self.outbox.is_empty() {
            self.close_writing();
        }
    }

    /// Tells the peer that nothing more will be written.
    pub fn close_writing(&self) {
        // It fails only if the peer is gone already, and then there is nobody to tell.
        let _ = self.socket.shutdown(Shutdown::Write);
    }

    /// Why a connection on which reading failed has ended.
    pub fn reason(&self, error: &io::Error) -> CloseReason {
        match error.kind() {
            _ if self.bytes_in == 0 => CloseReason::Probe,
            io::ErrorKind::UnexpectedEof => CloseReason::ByPeer,
            kind => CloseReason::Io(kind),
        }
    }
}

/// A connection on its way to a shard that has ended in the meantime is dropped with its handler.
impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(handler) = &mut self.handler {
            handler.switch_down();
        }
    }
}

/// Cuts bytes into messages and hands them to the session, up to its end. Gives how many there were.
fn take_in(
    session: &mut Session,
    framer: &mut Framer,
    now: Time,
    bytes: &[u8],
    desk: &mut Hitting<'_>,
    out: &mut Vec<Output>,
) -> usize {
    let mut messages = 0;
    let version = session.version();
    let result = framer.feed(bytes, |header, message| {
        messages += 1;
        if desk.answer(version, header, message) {
            return ControlFlow::Continue(());
        }
        session.on_message(now, header, message, out);
        if matches!(out.last(), Some(Output::Close(_))) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    match result {
        Ok(ControlFlow::Break(())) => {}
        Ok(ControlFlow::Continue(())) => {
            if let Some(header) = framer.pending() {
                session.on_header(header, out);
            }
        }
        Err(error) => session.on_garbage(error, out),
    }
    messages
}
