//! One connection: its socket, its session, and the state that its shard keeps for it.
//!
//! [`Connection::read`] is the first step of a packet-in: it reads the socket, and `message_dispatch/` passes the
//! messages to the [`Session`], whose outputs the shard acts on (`event_loop.rs`). [`Connection::write`] is the last
//! step of its answer.

use std::io::{self, Read as _, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use maple_core::engine::{Engine, Time};
use maple_wire::{Dpid, Message, Port, Version};

use super::connection_socket::Socket;
use super::message_dispatch::{AnsweredInPlace, MessageDispatch};
use super::outbox::{Outbox, QueueLimits};
use super::registry::ConnectionId;
use crate::counters::{Counters, SwitchCounters};
use crate::framing::Framer;
use crate::program::{MigrationCandidate, Program, ProgramConnection, Progress};
use crate::session::{CloseReason, Output, Session, SwitchInfo};
use crate::time::{after, until};

/// The time for which an ended connection stays open so that the last message reaches the switch. Chosen: several round
/// trips, however far the switch is.
pub(super) const LINGER: Duration = Duration::from_secs(1);

/// The time after which a deadline that passed while data lay unread is checked again. Chosen: the shard reads in
/// between, and no deadline is shorter than a second.
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
    /// Other connections that claim this switch and wait to learn whether this one is alive.
    pub claimants: Vec<ConnectionId>,
    /// The program that serves the switch instead of a policy.
    pub program: Option<Box<dyn Program>>,
    /// The switch, once the handshake is done.
    pub switch: Option<ConnectedSwitch>,
    /// The counters of this connection.
    pub counters: SwitchCounters,
    pub input: Input,
    pub queued: Queued,
    pub moves: MigrationState,
    /// Whether it was logged that the switch's version cannot express a message.
    is_unencodable_reported: bool,
}

/// The reading of a connection: what has been read, and what has not.
#[derive(Debug, Default)]
pub(crate) struct Input {
    /// Bytes read so far.
    pub bytes: u64,
    /// Whether the socket may have more to read.
    pub is_readable: bool,
    /// The earliest time at which unread data can have arrived; `None` if everything is read.
    pub waiting_since: Option<Time>,
    /// Whether the peer has closed its side. Then reading continues to the end of the stream.
    pub is_closed: bool,
    /// Whether it is not read, because too much output waits.
    pub is_paused: bool,
    /// The overdue deadline, while data that may be the answer lies unread.
    overdue: Option<Overdue>,
}

/// A connection's entries in the lists of its shard.
#[derive(Debug, Default)]
pub(crate) struct Queued {
    /// Whether it is in the list of connections to read.
    pub to_read: bool,
    /// Whether it is in the list of connections to write.
    pub to_write: bool,
    /// The time of its valid entry in the timer heap.
    pub timer: Option<Time>,
}

/// The facts that decide whether a connection moves to another shard.
#[derive(Debug, Default)]
pub(crate) struct MigrationState {
    /// Bytes read up to the last load measurement.
    bytes_counted: u64,
    /// The time of the last migration.
    pub last: Option<Time>,
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
#[allow(clippy::large_enum_variant, reason = "nearly all connections are open")]
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
    pub is_in_use: bool,
}

impl ConnectedSwitch {
    /// Creates the record of a switch that has described itself, and that nothing uses yet.
    pub fn new(info: &SwitchInfo) -> ConnectedSwitch {
        ConnectedSwitch {
            version: info.version,
            tables: info.features.n_tables,
            has_bundles: info.has_bundles,
            description: info.text(),
            info: SwitchInfo { ports: Vec::new(), ..info.clone() },
            ports: Arc::new(info.ports.clone()),
            is_in_use: false,
        }
    }

    /// Returns the switch's description of itself, with its ports.
    pub fn into_info(self) -> SwitchInfo {
        SwitchInfo { ports: Arc::unwrap_or_clone(self.ports), ..self.info }
    }
}

/// The yield of one read: nothing, if no data was there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReadOutcome {
    /// The number of bytes.
    pub bytes: usize,
    /// The number of messages that they completed.
    pub messages: usize,
    /// The packet-ins among these messages that are answered.
    pub answered: AnsweredInPlace,
}

impl Connection {
    /// Creates a newly accepted connection.
    pub fn new(
        id: ConnectionId,
        socket: Socket,
        peer: SocketAddr,
        session: Session,
        program: Option<Box<dyn Program>>,
    ) -> Connection {
        Connection {
            id,
            socket,
            peer,
            outbox: Outbox::default(),
            state: ConnectionState::Open { session, framer: Framer::default() },
            dpid: None,
            claims: None,
            claimants: Vec::new(),
            program,
            switch: None,
            counters: SwitchCounters::default(),
            input: Input { is_readable: true, ..Input::default() },
            queued: Queued::default(),
            moves: MigrationState::default(),
            is_unencodable_reported: false,
        }
    }

    /// Returns the connection's id and its switch, if the handshake is done and the end is not announced.
    pub fn up(&mut self) -> Option<(ConnectionId, Dpid, &mut ConnectedSwitch)> {
        Some((self.id, self.dpid?, self.switch.as_mut()?))
    }

    /// Reports whether the connection is in use: it has not ended.
    pub fn is_open(&self) -> bool {
        matches!(self.state, ConnectionState::Open { .. })
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
                let of_session =
                    session.deadline().map(|at| self.input.overdue.map_or(at, |overdue| at.max(overdue.next)));
                of_session.into_iter().chain(self.program.as_ref().and_then(|program| program.wake())).min()
            }
            ConnectionState::Lingering(until) => Some(*until),
        }
    }

    /// Reads once into `buffer`. Returns the number of bytes, which is 0 if there are none yet. The end of the stream
    /// is an error here.
    pub fn fill(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = match self.socket.read(buffer) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.input.is_readable = self.socket.has_more();
                return Ok(0);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(0),
            Err(error) => return Err(error),
        };
        // The end of the stream may follow.
        self.input.is_readable = !self.socket.is_drained_by(read, buffer.len()) || self.input.is_closed;
        self.input.bytes += read as u64;
        Ok(read)
    }

    /// Reads once into `buffer`. Packet-ins that hit a leaf of the engine are answered in place; all other messages go
    /// to the session. The end of the stream is an error here.
    pub fn read(
        &mut self,
        now: Time,
        buffer: &mut [u8],
        engine: &mut Engine,
        out: &mut Vec<Output>,
    ) -> io::Result<ReadOutcome> {
        let bytes = self.fill(buffer)?;
        match &mut self.state {
            ConnectionState::Open { session, framer } if bytes > 0 => {
                let hits = self.dpid.filter(|_| session.is_up()).and_then(|dpid| engine.hits(now, dpid));
                let dispatch = MessageDispatch::new(now, session, hits, self.outbox.buffer(), out);
                let (messages, answered) = dispatch.dispatch(framer, &buffer[..bytes]);
                self.counters.packet_ins += answered.packets;
                self.counters.flow_messages += answered.packet_outs;
                Ok(ReadOutcome { bytes, messages, answered })
            }
            // What comes on a connection that has ended is discarded.
            _ => Ok(ReadOutcome { bytes, ..ReadOutcome::default() }),
        }
    }

    /// Encodes a message into the outbox, which takes the memory of `spare` if it has none. Nothing is sent on a
    /// connection that has ended, for example because its claim was refused before its session's later outputs.
    ///
    /// # Errors
    /// The codec's error, if the switch's version cannot express the message. It is counted and logged; nothing is
    /// sent.
    pub fn send(
        &mut self,
        xid: u32,
        message: &Message,
        spare: &mut Vec<u8>,
        counters: &mut Counters,
    ) -> Result<(), maple_wire::Error> {
        let Some(version) = self.session().map(|session| session.version()) else { return Ok(()) };
        self.outbox.borrow(spare);
        let pushed = self.outbox.push(version, xid, message);
        match &pushed {
            Ok(()) => {
                counters.of_messages_out += 1;
                self.counters.flow_messages += u64::from(is_flow_message(message));
            }
            Err(error) => {
                counters.of_unencodable += 1;
                // The counter shows how often.
                if std::mem::replace(&mut self.is_unencodable_reported, true) {
                    tracing::debug!(peer = %self.peer, %error, "cannot encode a message");
                } else {
                    tracing::error!(peer = %self.peer, %error, "cannot encode a message");
                }
            }
        }
        pushed
    }

    /// Writes waiting output, once. Pauses or resumes reading, as the limits say.
    ///
    /// # Errors
    /// [`CloseReason`], which says why the connection has to end.
    pub fn write(&mut self, now: Time, limits: QueueLimits, counters: &mut Counters) -> Result<(), CloseReason> {
        let waited = self.outbox.len();
        let flushed = self.socket.flush();
        let taken = flushed.and_then(|()| self.outbox.write_to(&mut self.socket)).map_err(|error| {
            let failure = self.socket.tls_failure().map(CloseReason::Tls);
            failure.unwrap_or(CloseReason::from_socket_error(error.kind()))
        })?;
        counters.of_bytes_out += taken as u64;
        match &mut self.state {
            ConnectionState::Open { session, .. } if taken > 0 && self.input.is_paused => session.on_progress(now),
            ConnectionState::Lingering(_) if waited > 0 && self.outbox.is_empty() => self.close_writing(),
            _ => {}
        }
        let waiting = self.outbox.len();
        if waiting > limits.disconnect {
            return Err(CloseReason::NotReading(waiting));
        }
        // A program's switch is paused as soon as any answer waits.
        let pause = if self.is_served() { 0 } else { limits.pause };
        if !self.input.is_paused && waiting > pause {
            self.input.is_paused = true;
            counters.of_paused += 1;
        } else if self.input.is_paused && waiting <= pause / 2 {
            self.input.is_paused = false;
        }
        Ok(())
    }

    /// Handles messages from the front of `rest` by the connection's program, which serves the switch instead of a
    /// policy.
    pub fn run_program(
        &mut self,
        now: Time,
        rest: &mut &[u8],
        counters: &mut Counters,
        out: &mut Vec<Output>,
    ) -> Progress {
        let before = flow_counts(counters);
        // The session may have ended over an earlier message of the read.
        let ConnectionState::Open { session, framer } = &mut self.state else { return Progress::Done };
        let Some(program) = &mut self.program else {
            debug_assert!(false, "an open connection has its program until its end is announced");
            return Progress::Done;
        };
        let connection = ProgramConnection { now, session, outputs: out, waiting: self.outbox.buffer(), counters };
        let progress = program.read(rest, framer, connection);
        self.count_program(before, counters);
        progress
    }

    /// Calls the connection's program.
    pub fn call_program(
        &mut self,
        now: Time,
        counters: &mut Counters,
        out: &mut Vec<Output>,
        call: impl FnOnce(&mut dyn Program, ProgramConnection<'_>),
    ) {
        let before = flow_counts(counters);
        let (ConnectionState::Open { session, .. }, Some(program)) = (&mut self.state, &mut self.program) else {
            return debug_assert!(false, "a program is called only while its connection is open");
        };
        call(
            program.as_mut(),
            ProgramConnection { now, session, outputs: out, waiting: self.outbox.buffer(), counters },
        );
        self.count_program(before, counters);
    }

    /// Counts for this switch what its program has counted for the shard since `before`.
    fn count_program(&mut self, before: (u64, u64), counters: &Counters) {
        let after = flow_counts(counters);
        self.counters.packet_ins += after.0 - before.0;
        self.counters.flow_messages += after.1 - before.1;
    }

    /// Ends the program. Nothing happens if it has ended.
    pub fn end_program(&mut self) {
        if let Some(mut program) = self.program.take() {
            program.end();
        }
    }

    /// Reports whether a program serves the switch, whose handshake is done.
    pub fn is_served(&self) -> bool {
        self.program.is_some() && self.switch.is_some()
    }

    /// Returns the work of a switch that can migrate, since the last call. It is called for other switches too, to keep
    /// their count.
    pub fn work(&mut self, now: Time) -> Option<MigrationCandidate> {
        let work = self.input.bytes - std::mem::replace(&mut self.moves.bytes_counted, self.input.bytes);
        let stayed = self.moves.last.map(|last| until(last, now));
        let can_migrate = self.is_open() && self.is_served() && self.claimants.is_empty();
        can_migrate.then_some(MigrationCandidate { slot: self.id.slot, work, stayed })
    }

    /// Reports whether the session's deadlines may be enforced at `now`. When one passes, unread data in the socket may
    /// be the answer, which arrived in time: then this shard is late, not the switch. So exactly that data is read
    /// first, however much follows.
    pub fn may_enforce_deadline(&mut self, now: Time) -> bool {
        let deadline = self.session().and_then(|session| session.deadline());
        // A paused connection is not read, so its unread data does not count.
        if self.input.is_paused || deadline.is_none_or(|deadline| deadline > now) {
            return true;
        }
        let up_to = match self.input.overdue {
            Some(overdue) => overdue.up_to,
            // If the socket can't report that, reading it will fail.
            None => self.taken() + self.socket.unread().unwrap_or(0),
        };
        let is_read = self.taken() >= up_to;
        self.input.overdue = (!is_read).then(|| Overdue { up_to, next: after(now, LATE_RETRY) });
        is_read
    }

    /// Returns the number of bytes that were taken from the system.
    fn taken(&self) -> u64 {
        self.socket.taken().unwrap_or(self.input.bytes)
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
            _ if self.input.bytes == 0 => CloseReason::Silent,
            kind => CloseReason::from_socket_error(kind),
        }
    }
}

/// Reports the end to the program of a connection that was migrating to a shard that has ended. Such a connection is
/// dropped here.
impl Drop for Connection {
    fn drop(&mut self) {
        self.end_program();
    }
}

/// Returns the numbers of packet-ins, and of flow-mods with packet-outs.
fn flow_counts(counters: &Counters) -> (u64, u64) {
    (counters.of_packet_ins, counters.of_flow_mods + counters.of_packet_outs)
}

/// Reports whether a message changes rules or sends a packet.
fn is_flow_message(message: &Message) -> bool {
    matches!(message, Message::FlowMod(_) | Message::BundleAdd(_) | Message::PacketOut(_))
}
