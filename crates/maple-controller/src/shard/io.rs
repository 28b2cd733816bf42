//! The sockets of a shard: what it reads, what it writes, and its timers.
//!
//! ```text
//!  poll ──► DueConnections ──► Connection::read ──► session outputs ──► the shard acts on them (event_loop.rs)
//!  poll ◄── DueConnections ◄── outboxes ◄────────── Io::send ◄───────── to_switch.rs
//! ```
//!
//! A connection that fails is not ended here: the failure is returned, and the end is announced first (`switches.rs`).
//!
//! The poll names connections by their slots. An event of a connection that has ended has no effect.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use maple_core::engine::{Engine, ShardId, Time};
use maple_wire::msg::PacketIn;
use maple_wire::{Dpid, Message};
use mio::net::TcpStream;
use mio::{Events, Poll, Token};

use super::connection::{ConnectedSwitch, Connection, ConnectionState, LINGER, Queued, ReadOutcome};
use super::connection_socket::Socket;
use super::context::Context;
use super::due_connections::{DueConnections, ReadShare};
use super::listeners::{FIRST_CONNECTION, Listeners, ListeningSocket, WAKER};
use super::mailbox::{ReleasedSockets, ShardMessage};
use super::outbox::QueueLimits;
use super::registry::ConnectionId;
use super::release_sockets;
use super::slots::Slots;
use super::sync::{self, Fault};
use crate::framing::READ_SHARE;
use crate::program::{Balancer, Program, ProgramConnection, ProgramErrors, ProgramFactory, Progress};
use crate::session::{CloseReason, Deadlines, Output, Session};
use crate::storage::takeover::HandedConnection;
use crate::time::{after, before, until};

/// The maximum number of socket events that one turn takes from the poll. The others come with the next turn. Chosen:
/// more than a shard has switches in most networks.
pub(super) const POLL_EVENTS: usize = 1024;

/// The sockets, and what their connections need.
pub(crate) struct IoParts {
    pub poll: Poll,
    pub deadlines: Deadlines,
    pub limits: QueueLimits,
    pub listeners: Vec<ListeningSocket>,
    /// The programs that serve switches instead of a policy.
    pub programs: Option<Arc<dyn ProgramFactory>>,
    /// Whether programs write each answer separately.
    pub write_each: bool,
    pub balancer: Option<Box<dyn Balancer>>,
}

/// The sockets of a shard.
pub(super) struct Io {
    poll: Poll,
    deadlines: Deadlines,
    limits: QueueLimits,
    listeners: Listeners,
    programs: Option<Arc<dyn ProgramFactory>>,
    write_each: bool,
    balancer: Option<Box<dyn Balancer>>,
    connections: Slots,
    /// The connections that have something to do.
    due: DueConnections,
    /// The read buffer of all sockets.
    buffer: Vec<u8>,
    /// A write buffer that no connection is using.
    spare_buffer: Vec<u8>,
    /// The outputs of sessions that the shard has not acted on.
    outputs: Vec<Output>,
    /// The earliest time at which data that the poll reports in this turn can have arrived: the poll returns at once,
    /// so the data came during the previous turn at the earliest.
    arrivals_since: Time,
}

/// A connection that was opened or taken over.
pub(super) struct OpenedConnection {
    pub id: ConnectionId,
    /// The reason why the connection has failed at once.
    pub failure: Option<CloseReason>,
}

impl OpenedConnection {
    fn new(id: ConnectionId, registered: io::Result<()>) -> OpenedConnection {
        OpenedConnection { id, failure: registered.err().map(|error| CloseReason::from_socket_error(error.kind())) }
    }
}

fn token(slot: usize) -> Token {
    Token(FIRST_CONNECTION + slot)
}

impl Io {
    /// Creates the sockets of a shard.
    ///
    /// # Errors
    /// The system's error if a listening socket can't be registered with the poll.
    pub fn new(parts: IoParts, shard: ShardId) -> io::Result<Io> {
        let IoParts { poll, deadlines, limits, listeners, programs, write_each, balancer } = parts;
        Ok(Io {
            listeners: Listeners::new(listeners, poll.registry())?,
            poll,
            deadlines,
            limits,
            programs,
            write_each,
            balancer,
            connections: Slots::new(shard),
            due: DueConnections::default(),
            buffer: vec![0; READ_SHARE],
            spare_buffer: Vec::new(),
            outputs: Vec::new(),
            arrivals_since: Time(0),
        })
    }

    // The beginning of a turn.

    /// Waits for a socket, the waker or a timeout, and notes which sockets are ready. Returns whether all of them are
    /// noted; `None` if a signal has ended the wait.
    ///
    /// # Errors
    /// The system's error if polling fails.
    pub fn wait(
        &mut self,
        ready: &mut Events,
        timeout: Option<Duration>,
        ctx: &mut Context,
    ) -> io::Result<Option<bool>> {
        let took = until(ctx.now, ctx.clock.now());
        match sync::wait(&mut self.poll, ready, timeout) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(None),
            result => result?,
        }
        ctx.now = ctx.clock.now();
        self.arrivals_since = before(ctx.now, took);
        let mut count = 0;
        for event in ready.iter() {
            self.note_ready(event);
            count += 1;
        }
        // If the poll's list is full, there may be more.
        Ok(Some(count < POLL_EVENTS))
    }

    fn note_ready(&mut self, event: &mio::event::Event) {
        let slot = match event.token() {
            // The waker's event only ends the wait.
            WAKER => return,
            Token(number) if number < FIRST_CONNECTION => return self.listeners.note_ready(),
            Token(number) => number - FIRST_CONNECTION,
        };
        let is_over = event.is_read_closed() || event.is_error();
        if event.is_readable() || is_over {
            self.note_readable(slot, self.arrivals_since, is_over);
        }
        if event.is_writable() {
            self.want_write(slot);
        }
    }

    /// Records that a connection has data to read, which arrived after `since`, and whether the stream has ended.
    fn note_readable(&mut self, slot: usize, since: Time, is_over: bool) {
        if let Some(connection) = self.connections.get(slot) {
            connection.input.is_readable = true;
            connection.input.waiting_since.get_or_insert(since);
            connection.input.is_closed |= is_over;
            self.due.want_read(connection);
        }
    }

    /// Notes which connections in memory are ready, as [`Io::wait`] does for sockets.
    #[cfg(feature = "simulation")]
    pub fn note_memory(&mut self, now: Time) {
        let ready = self.connections.iter().filter_map(|connection| match &connection.socket {
            Socket::Memory(line) => line.readable().map(|(since, is_over)| (connection.id.slot, since, is_over)),
            Socket::Tcp(_) | Socket::Tls(_) => None,
        });
        for (slot, since, is_over) in ready.collect::<Vec<_>>() {
            self.note_readable(slot, since.unwrap_or(now), is_over);
        }
    }

    // Connections that come and go.

    /// Reports whether there may be connections to accept.
    pub fn accepts(&self) -> bool {
        self.listeners.are_ready()
    }

    /// Ends a pause of accepting that is over.
    pub fn resume_accepting(&mut self, now: Time) {
        self.listeners.resume(now);
    }

    /// Accepts the next connection, if there is one.
    pub fn accept(&mut self, now: Time) -> Option<(Socket, SocketAddr)> {
        if self.accepts() { self.listeners.accept(now) } else { None }
    }

    /// Accepts connections at these sockets too.
    pub fn listen(&mut self, sockets: Vec<ListeningSocket>) {
        if let Err(error) = self.listeners.add(sockets, self.poll.registry()) {
            tracing::error!("can't accept connections: {error}");
        }
    }

    /// Opens a new connection.
    pub fn open(&mut self, mut socket: Socket, peer: SocketAddr, ctx: &Context) -> OpenedConnection {
        let id = self.connections.reserve();
        let registered = socket.set_nodelay().and_then(|()| socket.register(self.poll.registry(), token(id.slot)));
        let session = Session::with_role(ctx.now, self.deadlines, ctx.role, &mut self.outputs);
        self.insert(id, socket, peer, session, ctx);
        OpenedConnection::new(id, registered)
    }

    /// Adopts a connection that another process handed over, and asks its switch for its features again. Returns
    /// `None`, after a report, if the connection has ended.
    pub fn resume(&mut self, handed: HandedConnection, ctx: &Context) -> Option<OpenedConnection> {
        let HandedConnection { socket, version, partial, packets, .. } = handed;
        let (Ok(peer), Ok(())) = (socket.peer_addr(), socket.set_nonblocking(true)) else {
            tracing::warn!("a connection ended while it was handed over");
            ctx.registry.remove_connection(ctx.id);
            return None;
        };
        let id = self.connections.reserve();
        let mut socket = Socket::Tcp(TcpStream::from_std(socket));
        let registered = socket.register(self.poll.registry(), token(id.slot));
        let session = Session::resumed(ctx.now, self.deadlines, version, packets, &mut self.outputs);
        if let ConnectionState::Open { framer, .. } = &mut self.insert(id, socket, peer, session, ctx).state {
            framer.begin_with(&partial);
        }
        Some(OpenedConnection::new(id, registered))
    }

    fn insert(
        &mut self,
        id: ConnectionId,
        socket: Socket,
        peer: SocketAddr,
        session: Session,
        ctx: &Context,
    ) -> &mut Connection {
        let errors = ProgramErrors::new(ctx.notices.clone());
        let program = self.programs.as_ref().map(|programs| programs.program(&errors, self.write_each));
        self.connections.insert(Box::new(Connection::new(id, socket, peer, session, program)))
    }

    /// Sends a connection to another shard. It leaves between two messages.
    pub fn migrate(&mut self, slot: usize, to: ShardId, ctx: &mut Context) {
        let Some(mut connection) = self.take(slot) else { return };
        connection.moves.last = Some(ctx.clock.now());
        if let Some(dpid) = connection.dpid {
            self.connections.disconnect(dpid);
        }
        ctx.registry.migrate(ctx.id, to);
        tracing::debug!(peer = %connection.peer, to = to.0, "a switch migrates");
        ctx.outgoing.send(to, ShardMessage::Migrate(connection));
    }

    /// Takes a connection that another shard sent. Returns the switch that it still claims, too.
    pub fn adopt(&mut self, mut connection: Box<Connection>, ctx: &mut Context) -> (OpenedConnection, Option<Dpid>) {
        let id = self.connections.reserve();
        let before = std::mem::replace(&mut connection.id, id);
        let registered = connection.socket.register(self.poll.registry(), token(id.slot));
        if let Some(dpid) = connection.dpid {
            if !sync::is_injected(Fault::KeepsOwner) {
                ctx.registry.rename(dpid, before, id);
            }
            self.connections.connect(dpid, id.slot);
        }
        // The other shard's list had it. Data may have arrived meanwhile, so read whatever the poll reports.
        connection.queued = Queued::default();
        connection.input.is_readable = true;
        let claims = connection.claims.take();
        if claims.is_none() {
            let took = until(connection.moves.last.unwrap_or(ctx.now), ctx.now);
            ctx.counters.of_migrated += 1;
            ctx.counters.of_migration_nanoseconds += took.as_nanos() as u64;
        }
        (connection.input.waiting_since, connection.moves.last) = (Some(ctx.now), Some(ctx.now));
        let connection = self.connections.insert(connection);
        self.due.want_read(connection);
        self.due.want_write(connection);
        self.due.arm(connection);
        (OpenedConnection::new(id, registered), claims)
    }

    /// Checks at the end of a turn whether a connection should move to another shard, and sends it there.
    pub fn balance(&mut self, ctx: &mut Context) {
        let now = ctx.clock.now();
        if let Some(balancer) = &mut self.balancer
            && balancer.end_turn(ctx.now, now)
        {
            let movable = self.connections.iter_mut().filter_map(|connection| connection.work(now));
            if let Some((slot, to)) = balancer.choose(&movable.collect::<Vec<_>>()) {
                self.migrate(slot, to, ctx);
            }
        }
    }

    /// Keeps an ended connection until its waiting output is sent.
    pub fn linger(&mut self, slot: usize, now: Time) {
        let Some(connection) = self.connections.present(slot) else { return };
        connection.linger(after(now, LINGER));
        connection.input.is_paused = false;
        self.due.want_write(connection);
        self.due.want_read(connection);
        self.due.arm(connection);
    }

    /// Closes a connection at once. Waiting output is dropped.
    pub fn remove(&mut self, slot: usize, ctx: &Context) {
        if self.take(slot).is_some() {
            ctx.registry.remove_connection(ctx.id);
        }
    }

    /// Takes a connection that cannot have ended, and its socket from the poll.
    fn take(&mut self, slot: usize) -> Option<Box<Connection>> {
        let taken = self.connections.remove(slot);
        debug_assert!(taken.is_some(), "slot {slot} has no connection");
        let mut connection = taken?;
        if let Err(error) = connection.socket.deregister(self.poll.registry()) {
            tracing::debug!(peer = %connection.peer, %error, "can't deregister a socket");
        }
        Some(connection)
    }

    /// Gives up the sockets with which another process can go on, with these packets, which have no answer yet.
    pub fn release(&mut self, packets: Vec<(Dpid, PacketIn)>, ctx: &Context) -> ReleasedSockets {
        let listeners = self.listeners.release(self.poll.registry());
        let connections = release_sockets::release(&mut self.connections, packets, self.poll.registry(), ctx);
        ReleasedSockets { listeners, connections }
    }

    // Reading.

    /// Returns the number of connections that wait to be read.
    pub fn waiting_reads(&self) -> usize {
        self.due.reads()
    }

    /// Returns a turn's share of reading: each socket that is ready now, once.
    pub fn read_share(&self) -> ReadShare {
        self.due.read_share()
    }

    /// Returns the next connection to read in this turn.
    pub fn next_to_read(&mut self, share: &mut ReadShare) -> Option<usize> {
        self.due.next_to_read(share, &mut self.connections)
    }

    /// Reports whether programs serve the switches.
    pub fn has_programs(&self) -> bool {
        self.programs.is_some()
    }

    /// Reads a socket once, and has the engine answer packets in place. Returns the switch that gets answers, and their
    /// number.
    ///
    /// # Errors
    /// [`CloseReason`], which says why the connection has ended.
    pub fn read(
        &mut self,
        slot: usize,
        engine: &mut Engine,
        ctx: &mut Context,
    ) -> Result<Option<(Dpid, u64)>, CloseReason> {
        let Some(connection) = self.connections.present(slot) else { return Ok(None) };
        connection.outbox.borrow(&mut self.spare_buffer);
        let read = connection.read(ctx.now, &mut self.buffer, engine, &mut self.outputs);
        let ReadOutcome { bytes, messages, answered } = read.map_err(|error| connection.read_error_reason(&error))?;
        ctx.counters.of_bytes_in += bytes as u64;
        ctx.counters.of_messages_in += messages as u64;
        ctx.counters.of_packet_ins += answered.packets;
        ctx.counters.of_packet_outs += answered.packet_outs;
        ctx.counters.of_messages_out += answered.packet_outs;
        Ok(connection.dpid.filter(|_| answered.packet_outs > 0).map(|dpid| (dpid, answered.packet_outs)))
    }

    /// Reads a socket once, for the program of its connection. `None` if no data was there. The buffer is lent with the
    /// number of bytes, so that messages can stay in it while the shard acts on them; [`Io::give_back`] returns it.
    ///
    /// # Errors
    /// [`CloseReason`], which says why the connection has ended.
    pub fn fill(&mut self, slot: usize, ctx: &mut Context) -> Result<Option<(Vec<u8>, usize)>, CloseReason> {
        let Some(connection) = self.connections.present(slot) else { return Ok(None) };
        let bytes = connection.fill(&mut self.buffer).map_err(|error| connection.read_error_reason(&error))?;
        ctx.counters.of_bytes_in += bytes as u64;
        Ok((bytes > 0).then(|| (std::mem::take(&mut self.buffer), bytes)))
    }

    /// Returns the read buffer.
    pub fn give_back(&mut self, buffer: Vec<u8>) {
        self.buffer = buffer;
    }

    /// Lets a connection's program handle messages from the front of `rest`. All are done if the connection has ended.
    pub fn run_program(&mut self, slot: usize, rest: &mut &[u8], ctx: &mut Context) -> Progress {
        // Writing the answers to earlier messages may have failed.
        let Some(connection) = self.connections.get(slot) else { return Progress::Done };
        connection.outbox.borrow(&mut self.spare_buffer);
        connection.run_program(ctx.now, rest, &mut ctx.counters, &mut self.outputs)
    }

    /// Calls the program that serves a switch.
    pub fn call_program(
        &mut self,
        slot: usize,
        ctx: &mut Context,
        call: impl FnOnce(&mut dyn Program, ProgramConnection<'_>),
    ) {
        let Io { connections, due, outputs, .. } = self;
        let Some(connection) = connections.present(slot) else { return };
        connection.call_program(ctx.now, &mut ctx.counters, outputs, call);
        due.want_write(connection);
        due.arm(connection);
    }

    /// Follows up a read: notes whether everything is read, queues what TLS has to send, and restarts the time for the
    /// hello after each part of a TLS handshake.
    pub fn end_read(&mut self, now: Time, slot: usize) {
        // It may have migrated, to the shard that has its switch.
        let Some(connection) = self.connections.get(slot) else { return };
        if !connection.input.is_readable && self.programs.is_none() {
            connection.input.waiting_since = None;
        }
        if !connection.socket.is_tls() {
            return;
        }
        if connection.socket.take_flight()
            && let Some(session) = connection.session()
        {
            session.restart_hello(now);
            self.due.arm(connection);
        }
        self.due.want_write(connection);
    }

    /// Queues a connection for reading, if it has data.
    pub fn want_read(&mut self, slot: usize) {
        if let Some(connection) = self.connections.get(slot) {
            self.due.want_read(connection);
        }
    }

    // Connections and their sessions.

    /// Returns the connections.
    pub fn connections(&self) -> &Slots {
        &self.connections
    }

    /// Returns the connections, to change what concerns their switches.
    pub fn connections_mut(&mut self) -> &mut Slots {
        &mut self.connections
    }

    /// Returns a connection; `None` if it has ended.
    pub fn get(&mut self, slot: usize) -> Option<&mut Connection> {
        self.connections.get(slot)
    }

    /// Returns a connection that cannot have ended, because something of it is being handled.
    pub fn present(&mut self, slot: usize) -> Option<&mut Connection> {
        self.connections.present(slot)
    }

    /// Returns the id and the switch of a connection that must be up, because its handshake was done and its end is not
    /// announced.
    pub fn up(&mut self, slot: usize) -> Option<(ConnectionId, Dpid, &mut ConnectedSwitch)> {
        let up = self.connections.present(slot).and_then(Connection::up);
        debug_assert!(up.is_some(), "the connection in slot {slot} is not up");
        up
    }

    /// Returns the session of a connection, if it is open, and where its outputs go. The shard acts on them next.
    pub fn session(&mut self, slot: usize) -> Option<(&mut Session, &mut Vec<Output>)> {
        let session = self.connections.get(slot)?.session()?;
        Some((session, &mut self.outputs))
    }

    /// Exchanges the sessions' outputs for an empty buffer. Returns `false` if there are none.
    pub fn take_outputs(&mut self, buffer: &mut Vec<Output>) -> bool {
        debug_assert!(buffer.is_empty(), "the outputs in the buffer would be lost");
        std::mem::swap(&mut self.outputs, buffer);
        !buffer.is_empty()
    }

    // Writing.

    /// Encodes a message into a connection's outbox. Nothing is sent on a connection that has ended.
    ///
    /// # Errors
    /// The codec's error, if the switch's version cannot express the message. It is counted and logged; nothing is
    /// sent.
    pub fn send(
        &mut self,
        slot: usize,
        xid: u32,
        message: &Message,
        ctx: &mut Context,
    ) -> Result<(), maple_wire::Error> {
        let Some(connection) = self.connections.present(slot) else { return Ok(()) };
        let sent = connection.send(xid, message, &mut self.spare_buffer, &mut ctx.counters);
        self.due.want_write(connection);
        sent
    }

    fn want_write(&mut self, slot: usize) {
        if let Some(connection) = self.connections.get(slot) {
            self.due.want_write(connection);
        }
    }

    /// Takes the connections with waiting output.
    pub fn take_to_write(&mut self) -> Vec<usize> {
        self.due.take_to_write()
    }

    /// Takes back the buffer of connections to write, for its memory.
    pub fn give_back_to_write(&mut self, buffer: Vec<usize>) {
        self.due.give_back_to_write(buffer);
    }

    /// Writes a socket's waiting output, once.
    ///
    /// # Errors
    /// [`CloseReason`], which says why the connection has to end.
    pub fn write(&mut self, slot: usize, ctx: &mut Context) -> Result<(), CloseReason> {
        // It may have ended since it was queued.
        let Some(connection) = self.connections.get(slot) else { return Ok(()) };
        connection.queued.to_write = false;
        let was_paused = connection.input.is_paused;
        connection.write(ctx.now, self.limits, &mut ctx.counters)?;
        connection.outbox.give_back(&mut self.spare_buffer);
        if was_paused && !connection.input.is_paused {
            self.due.want_read(connection);
        }
        Ok(())
    }

    // Timers.

    /// Returns the time of the next timer, or of the end of a pause of accepting.
    pub fn deadline(&self) -> Option<Time> {
        self.due.deadline().into_iter().chain(self.listeners.deadline()).min()
    }

    /// Sets the timer of a connection to its next deadline.
    pub fn arm(&mut self, slot: usize) {
        if let Some(connection) = self.connections.get(slot) {
            self.due.arm(connection);
        }
    }

    /// Returns the next open connection whose timer is due, after its session's deadline. Connections that have
    /// lingered are closed.
    pub fn next_due(&mut self, ctx: &Context) -> Option<usize> {
        while let Some(connection) = self.due.next_due(ctx.now, &mut self.connections) {
            let (slot, may_enforce) = (connection.id.slot, connection.may_enforce_deadline(ctx.now));
            match &mut connection.state {
                ConnectionState::Open { session, .. } => {
                    if may_enforce {
                        session.on_timer(ctx.now, &mut self.outputs);
                    }
                    return Some(slot);
                }
                ConnectionState::Lingering(until) if *until <= ctx.now => self.remove(slot, ctx),
                ConnectionState::Lingering(_) => self.due.arm(connection),
            }
        }
        None
    }

    /// Calls the timer of a connection's program, if it is due, and sets the next timer.
    pub fn end_due(&mut self, slot: usize, ctx: &mut Context) {
        let Some(connection) = self.connections.present(slot) else { return };
        if connection.program.as_ref().and_then(|program| program.wake()).is_some_and(|wake| wake <= ctx.now) {
            self.call_program(slot, ctx, |program, line| program.timer(line));
        }
        self.arm(slot);
    }
}
