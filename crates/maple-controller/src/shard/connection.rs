//! One connection: its socket, its session, and the state that its shard keeps for it.

use std::io::{self, Read};
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use arrayvec::ArrayVec;
use maple_core::engine::{Engine, Hits, MAX_HITS, Time};
use maple_wire::msg::PacketInView;
use maple_wire::{Dpid, Header, Port, Version};

use super::handler_io::packet_in;
use super::outbox::Outbox;
use super::registry::ConnectionId;
use super::socket::Socket;
use crate::counters::SwitchCounters;
use crate::framing::{Cut, Framer};
use crate::handler::Handler;
use crate::session::{CloseReason, ENGINE_XIDS, Output, Session, SwitchInfo};
use crate::time::after;

/// How long an ended connection stays open so that the last message reaches the switch.
pub(super) const LINGER: Duration = Duration::from_secs(1);

/// The time after which a deadline that passed while data lay unread is checked again.
const LATE_RETRY: Duration = Duration::from_millis(10);

/// One connection.
pub(crate) struct Connection {
    pub id: ConnectionId,
    pub socket: Socket,
    pub peer: SocketAddr,
    pub outbox: Outbox,
    pub state: ConnectionState,
    /// The switch at the other end, once its claim of the datapath id is granted.
    pub dpid: Option<Dpid>,
    /// The switch that it claims, while it is on its way to the shard that has that switch.
    pub claims: Option<Dpid>,
    /// The handler that serves the switch instead of a policy.
    pub handler: Option<Box<dyn Handler>>,
    /// The whole packet-ins that came before the handler existed. The handler gets them first.
    pub early: Vec<u8>,
    /// The transaction id of the handler's next request.
    pub next_xid: u32,
    /// The time at which the handler's timer is due.
    pub wake: Option<Time>,
    /// The switch, once the handshake is done.
    pub switch: Option<ConnectedSwitch>,
    /// The counters of this connection.
    pub counters: SwitchCounters,
    /// Bytes read so far.
    pub bytes_in: u64,
    /// Bytes read up to the last load measurement.
    pub bytes_counted: u64,
    /// The time of the last migration.
    pub migrated: Option<Time>,
    /// Whether the socket may have more to read.
    pub readable: bool,
    /// The earliest time at which unread data can have arrived; `None` if everything is read.
    pub waiting_since: Option<Time>,
    /// Whether it was logged that the switch's version cannot express a message.
    pub is_unencodable_told: bool,
    /// Whether the peer has closed its side. Then reading continues to the end of the stream.
    pub read_closed: bool,
    /// Whether it is in the list of connections to read.
    pub queued_to_read: bool,
    /// Whether it is in the list of connections to write.
    pub queued_to_write: bool,
    /// Whether it is not read, because too much output waits.
    pub paused: bool,
    /// The time of its valid entry in the timer heap.
    pub timer: Option<Time>,
    /// The overdue deadline, while data that may be the answer lies unread.
    pub overdue: Option<Overdue>,
    /// Other connections that claim this switch and wait to learn whether this one is alive.
    pub claimants: Vec<ConnectionId>,
}

/// A deadline that passed while data lay unread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Overdue {
    /// The deadline counts once this many bytes have been taken in all.
    up_to: u64,
    /// The time of the next check.
    next: Time,
}

/// The phases of a connection.
#[allow(clippy::large_enum_variant)] // nearly all connections are open
pub(crate) enum ConnectionState {
    /// The connection is in use, including its handshake.
    Open {
        /// The session.
        session: Session,
        /// The start of the next message.
        framer: Framer,
    },
    /// The connection has ended. Waiting output is still written and input is discarded, until the peer closes or until
    /// this time.
    Lingering(Time),
}

/// A switch whose handshake is done.
pub(crate) struct ConnectedSwitch {
    pub version: Version,
    pub tables: u8,
    pub has_bundles: bool,
    pub description: String,
    /// The switch's description of itself, without its ports.
    pub info: SwitchInfo,
    /// The switch's ports as of the latest port-status.
    pub ports: Arc<Vec<Port>>,
    /// Whether its rules were read, so that discovery and the engine use it.
    pub in_use: bool,
}

impl ConnectedSwitch {
    /// Returns the switch's description of itself, with its ports.
    pub fn into_info(self) -> SwitchInfo {
        SwitchInfo { ports: Arc::unwrap_or_clone(self.ports), ..self.info }
    }
}

/// Packet-ins that a leaf of the engine answered in place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answered {
    /// The number of packet-ins.
    pub packets: u64,
    /// The number of packet-outs.
    pub packet_outs: u64,
}

/// Dispatches the messages of one read: packet-ins that hit a leaf are answered in place, all others go to the session.
struct MessageDispatch<'a, 'b> {
    now: Time,
    session: &'a mut Session,
    /// The leaves that answer packet-ins in place, if the switch has leaves in use.
    hits: Option<Hits<'a>>,
    outbox: &'a mut Vec<u8>,
    out: &'a mut Vec<Output>,
    /// Consecutive packet-ins that have not been looked up yet.
    batch: ArrayVec<PacketInView<'b>, MAX_HITS>,
    /// The packet-ins of the batch as messages.
    undecoded: ArrayVec<(Header, &'b [u8]), MAX_HITS>,
    messages: usize,
    answered: Answered,
}

/// The result of one read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadResult {
    /// Data has arrived.
    Some {
        /// The number of bytes.
        bytes: usize,
        /// The number of messages that they completed.
        messages: usize,
        /// The packet-ins among these messages that are answered.
        answered: Answered,
    },
    /// No data is available.
    Nothing,
}

impl Connection {
    /// Creates a newly accepted connection.
    pub fn new(id: ConnectionId, socket: Socket, peer: SocketAddr, session: Session) -> Connection {
        Connection {
            id,
            socket,
            peer,
            outbox: Outbox::default(),
            state: ConnectionState::Open { session, framer: Framer::default() },
            dpid: None,
            claims: None,
            handler: None,
            early: Vec::new(),
            next_xid: ENGINE_XIDS,
            wake: None,
            switch: None,
            counters: SwitchCounters::default(),
            bytes_in: 0,
            bytes_counted: 0,
            migrated: None,
            readable: true,
            waiting_since: None,
            read_closed: false,
            queued_to_read: false,
            queued_to_write: false,
            paused: false,
            timer: None,
            overdue: None,
            claimants: Vec::new(),
            is_unencodable_told: false,
        }
    }

    /// Returns the session, while the connection is open.
    pub fn session(&mut self) -> Option<&mut Session> {
        match &mut self.state {
            ConnectionState::Open { session, .. } => Some(session),
            ConnectionState::Lingering(_) => None,
        }
    }

    /// Returns the time of the next deadline or timer.
    pub fn deadline(&self) -> Option<Time> {
        match &self.state {
            ConnectionState::Open { session, .. } => {
                let session = session.deadline().map(|at| self.overdue.map_or(at, |overdue| at.max(overdue.next)));
                session.into_iter().chain(self.wake).min()
            }
            ConnectionState::Lingering(until) => Some(*until),
        }
    }

    /// Reads once into `buffer`. Returns the number of bytes; `None` if there are none yet. The end of the stream is an
    /// error here.
    pub fn fill(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let read = match self.socket.read(buffer) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.readable = self.socket.has_more();
                return Ok(None);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(None),
            Err(error) => return Err(error),
        };
        // The end of the stream may follow.
        self.readable = !self.socket.is_drained_by(read, buffer.len()) || self.read_closed;
        self.bytes_in += read as u64;
        Ok(Some(read))
    }

    /// Reads once into `buffer`. Packet-ins that hit a leaf of the engine are answered in place; all other messages go
    /// to the session. The end of the stream is an error here.
    pub fn read(
        &mut self,
        now: Time,
        buffer: &mut [u8],
        engine: &mut Engine,
        out: &mut Vec<Output>,
    ) -> io::Result<ReadResult> {
        let Some(read) = self.fill(buffer)? else { return Ok(ReadResult::Nothing) };
        let ConnectionState::Open { session, framer } = &mut self.state else {
            return Ok(ReadResult::Some { bytes: read, messages: 0, answered: Answered::default() });
        };
        let hits = self.dpid.filter(|_| session.is_up()).and_then(|dpid| engine.hits(now, dpid));
        let (batch, undecoded, answered) = (ArrayVec::new(), ArrayVec::new(), Answered::default());
        let outbox = self.outbox.buffer();
        let mut dispatch = MessageDispatch { now, session, hits, outbox, out, batch, undecoded, messages: 0, answered };
        dispatch.dispatch(framer, &buffer[..read]);
        let MessageDispatch { session, messages, answered, .. } = dispatch;
        if answered.packets > 0 {
            session.on_progress(now);
        }
        self.counters.packet_ins += answered.packets;
        self.counters.flow_messages += answered.packet_outs;
        Ok(ReadResult::Some { bytes: read, messages, answered })
    }

    /// Reports whether the session's deadlines may be enforced at `now`. When one passes, unread data in the socket may
    /// be the answer, which arrived in time: then this shard is late, not the switch. So exactly that data is read
    /// first, however much follows.
    pub fn may_enforce_deadline(&mut self, now: Time) -> bool {
        let ConnectionState::Open { session, .. } = &self.state else { return true };
        // A paused connection is not read, so its unread data does not count.
        if self.paused || session.deadline().is_none_or(|deadline| deadline > now) {
            return true;
        }
        let up_to = match self.overdue {
            Some(overdue) => overdue.up_to,
            // If the socket can't report that, reading it will fail.
            None => self.taken() + self.socket.unread().unwrap_or(0),
        };
        let is_read = self.taken() >= up_to;
        self.overdue = (!is_read).then(|| Overdue { up_to, next: after(now, LATE_RETRY) });
        is_read
    }

    /// Returns the number of bytes that were taken from the system.
    fn taken(&self) -> u64 {
        self.socket.taken().unwrap_or(self.bytes_in)
    }

    /// Ends the connection: the peer sees the end of the stream after the last message.
    pub fn linger(&mut self, until: Time) {
        self.state = ConnectionState::Lingering(until);
        if self.outbox.is_empty() {
            self.close_writing();
        }
    }

    /// Signals the end of the stream to the peer.
    pub fn close_writing(&mut self) {
        // This fails only if the peer is gone already.
        let _ = self.socket.close_writing();
    }

    /// Returns the reason for the end of a connection on which reading failed.
    pub fn read_error_reason(&self, error: &io::Error) -> CloseReason {
        if let Some(failure) = self.socket.tls_failure() {
            return CloseReason::Tls(failure);
        }
        match error.kind() {
            _ if self.bytes_in == 0 => CloseReason::Silent,
            kind => CloseReason::of(kind),
        }
    }
}

/// Reports the end to the handler of a connection that was migrating to a shard that has ended. Such a connection is
/// dropped here.
impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(handler) = &mut self.handler {
            handler.switch_down();
        }
    }
}

impl<'b> MessageDispatch<'_, 'b> {
    /// Splits bytes into messages and dispatches them, up to the session's end.
    fn dispatch(&mut self, framer: &mut Framer, mut bytes: &'b [u8]) {
        let version = self.session.version();
        loop {
            let flow = match framer.next(&mut bytes) {
                Ok(Cut::Whole(header, message)) => self.on_whole(version, header, message),
                Ok(Cut::Completed(header, message)) => self.on_completed(version, header, message),
                Ok(Cut::Rest(header)) => {
                    if self.answer_batch().is_continue() {
                        header.into_iter().for_each(|header| self.session.on_header(header, self.out));
                    }
                    return;
                }
                Err(error) => {
                    if self.answer_batch().is_continue() {
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

    /// Handles a message that lies whole in the read. A packet-in is collected into the batch.
    #[inline]
    fn on_whole(&mut self, version: Version, header: Header, message: &'b [u8]) -> ControlFlow<()> {
        self.messages += 1;
        let packet = if self.hits.is_some() { packet_in(version, header, message) } else { None };
        let Some(packet) = packet else {
            self.answer_batch()?;
            return self.pass_to_session(header, message);
        };
        self.batch.push(packet);
        self.undecoded.push((header, message));
        if self.batch.is_full() { self.answer_batch() } else { ControlFlow::Continue(()) }
    }

    /// Handles a message that began in an earlier read. The batch is empty then.
    fn on_completed(&mut self, version: Version, header: Header, message: &[u8]) -> ControlFlow<()> {
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
        self.pass_to_session(header, message)
    }

    /// Looks up the batch: answers the hits, and passes the other messages to the session in order.
    fn answer_batch(&mut self) -> ControlFlow<()> {
        let Some(hits) = self.hits.as_mut().filter(|_| !self.batch.is_empty()) else {
            return ControlFlow::Continue(());
        };
        let hit = hits.answer(&self.batch, self.outbox);
        self.answered.add(hit);
        self.batch.clear();
        for (n, (header, message)) in std::mem::take(&mut self.undecoded).into_iter().enumerate() {
            if hit.packets & 1 << n == 0 && self.pass_to_session(header, message).is_break() {
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }

    /// Passes a message to the session. Breaks if the session has ended.
    fn pass_to_session(&mut self, header: Header, message: &[u8]) -> ControlFlow<()> {
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
