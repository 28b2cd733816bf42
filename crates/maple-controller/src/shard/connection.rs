//! One socket with its session, and what a shard keeps for it.

use std::io::{self, Read};
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::time::Duration;

use arrayvec::ArrayVec;
use maple_core::engine::{Engine, Hits, MAX_HITS, Time};
use maple_wire::msg::PacketInView;
use maple_wire::{Dpid, Header, Port, Version};

use super::handled::packet_in;
use super::outbox::Outbox;
use super::registry::ConnectionId;
use super::socket::Socket;
use crate::framing::{Cut, Framer};
use crate::handler::Handler;
use crate::session::{CloseReason, ENGINE_XIDS, Output, Session};
use crate::time::after;

/// How long a connection that was ended stays open so that the last message reaches the switch.
pub(super) const LINGER: Duration = Duration::from_secs(1);

/// How soon a deadline that passed while something lay unread is looked at again.
const LATE_RETRY: Duration = Duration::from_millis(10);

/// One connection.
pub(crate) struct Connection {
    pub id: ConnectionId,
    pub socket: Socket,
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
    /// A deadline has passed while something lay unread.
    pub overdue: Option<Overdue>,
    /// Other connections that say they are this switch, and wait to hear whether this one is alive.
    pub claimants: Vec<ConnectionId>,
}

/// A deadline has passed while something lay unread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Overdue {
    /// How many bytes must have been read in all before it counts.
    up_to: u64,
    /// When to look again.
    next: Time,
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

/// Where the messages of one read go.
struct Desk<'a, 'b> {
    now: Time,
    session: &'a mut Session,
    /// What answers packets where they lie, if anything does now.
    hits: Option<Hits<'a>>,
    outbox: &'a mut Vec<u8>,
    out: &'a mut Vec<Output>,
    /// Packet-ins on end, of which the hits are not told from the others yet.
    batch: ArrayVec<PacketInView<'b>, MAX_HITS>,
    /// The same, as they came.
    waiting: ArrayVec<(Header, &'b [u8]), MAX_HITS>,
    messages: usize,
    answered: Answered,
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
    pub fn new(id: ConnectionId, socket: Socket, peer: SocketAddr, session: Session) -> Connection {
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
            overdue: None,
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
            Life::Open { session, .. } => {
                let session = session.deadline().map(|at| self.overdue.map_or(at, |overdue| at.max(overdue.next)));
                session.into_iter().chain(self.wake).min()
            }
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
        let (batch, waiting, answered) = (ArrayVec::new(), ArrayVec::new(), Answered::default());
        let outbox = self.outbox.buffer();
        let mut desk = Desk { now, session, hits, outbox, out, batch, waiting, messages: 0, answered };
        desk.take_in(framer, &buffer[..read]);
        let Desk { session, messages, answered, .. } = desk;
        if answered.packets > 0 {
            session.on_progress(now);
        }
        Ok(ReadResult::Some { bytes: read, messages, answered })
    }

    /// Whether the session's deadlines may be judged now. What lay in the socket when one passed may be the answer, and came
    /// in time: it is we who are late. So exactly that is read first, however much follows.
    pub fn is_fair_to_judge(&mut self, now: Time) -> bool {
        let Life::Open { session, .. } = &self.life else { return true };
        // One that does not read its own messages is not read from; the bytes that it has sent are no excuse.
        if self.paused || session.deadline().is_none_or(|deadline| deadline > now) {
            return true;
        }
        let up_to = match self.overdue {
            Some(overdue) => overdue.up_to,
            // A socket that can't tell will fail when it is read.
            None => self.bytes_in + self.socket.unread().unwrap_or(0),
        };
        let is_fair = self.bytes_in >= up_to;
        self.overdue = (!is_fair).then(|| Overdue { up_to, next: after(now, LATE_RETRY) });
        is_fair
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
        let _ = self.socket.close_writing();
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

impl<'b> Desk<'_, 'b> {
    /// Cuts bytes into messages and deals with them, up to the session's end.
    fn take_in(&mut self, framer: &mut Framer, mut bytes: &'b [u8]) {
        let version = self.session.version();
        loop {
            let flow = match framer.next(&mut bytes) {
                Ok(Cut::Whole(header, message)) => self.whole(version, header, message),
                Ok(Cut::Begun(header, message)) => self.begun(version, header, message),
                Ok(Cut::Rest(header)) => {
                    if self.settle().is_continue() {
                        header.into_iter().for_each(|header| self.session.on_header(header, self.out));
                    }
                    return;
                }
                Err(error) => {
                    if self.settle().is_continue() {
                        self.session.on_garbage(error, self.out);
                    }
                    return;
                }
            };
            if flow.is_break() {
                return;
            }
        }
    }

    /// Deals with a message that lies in the read: a packet-in waits for more.
    #[inline]
    fn whole(&mut self, version: Version, header: Header, message: &'b [u8]) -> ControlFlow<()> {
        self.messages += 1;
        let packet = if self.hits.is_some() { packet_in(version, header, message) } else { None };
        let Some(packet) = packet else {
            self.settle()?;
            return self.tell(header, message);
        };
        self.batch.push(packet);
        self.waiting.push((header, message));
        if self.batch.is_full() { self.settle() } else { ControlFlow::Continue(()) }
    }

    /// Deals with a message that earlier reads began, and nothing waits before it.
    fn begun(&mut self, version: Version, header: Header, message: &[u8]) -> ControlFlow<()> {
        self.messages += 1;
        if let Some(hits) = &mut self.hits
            && let Some(packet) = packet_in(version, header, message)
        {
            let hit = hits.answer(&[packet], self.outbox);
            self.answered.add(hit);
            if hit.packets != 0 {
                return ControlFlow::Continue(());
            }
        }
        self.tell(header, message)
    }

    /// Answers those of the packets that wait that are hits, and tells the session of the others, in their order.
    fn settle(&mut self) -> ControlFlow<()> {
        let Some(hits) = self.hits.as_mut().filter(|_| !self.batch.is_empty()) else {
            return ControlFlow::Continue(());
        };
        let hit = hits.answer(&self.batch, self.outbox);
        self.answered.add(hit);
        self.batch.clear();
        for (n, (header, message)) in std::mem::take(&mut self.waiting).into_iter().enumerate() {
            if hit.packets & 1 << n == 0 && self.tell(header, message).is_break() {
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }

    /// Tells the session of a message. Breaks off at its end.
    fn tell(&mut self, header: Header, message: &[u8]) -> ControlFlow<()> {
        self.session.on_message(self.now, header, message, self.out);
        if matches!(self.out.last(), Some(Output::Close(_))) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}

impl Answered {
    fn add(&mut self, hit: maple_core::engine::Answered) {
        self.packets += u64::from(hit.packets.count_ones());
        self.packet_outs += hit.packet_outs as u64;
    }
}

#[cfg(test)]
mod tests;
