//! A shard's sockets: accepts, reads, writes and closes them.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::{self, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use maple_core::engine::{Event, Time};
use maple_wire::Dpid;
use maple_wire::msg::PacketIn;
use mio::net::{TcpListener, TcpStream};
use mio::{Interest, Token};

use super::connection::{Connection, ConnectionState, LINGER, ReadResult};
use super::mailbox::{Released, ShardMessage};
use super::socket::Socket;
use super::tls_socket::TlsSocket;
use super::{FIRST_CONNECTION, FIRST_LISTENER, Shard};
use crate::memory::takeover::HandedConnection;
use crate::session::{CloseReason, MAX_EARLY, Session};
use crate::time::{after, until};
use crate::tls::Tls;

/// Maximum number of connections accepted in one turn.
const ACCEPT_SHARE: usize = 64;
/// Maximum number of connections whose TLS handshake makes progress in one turn. Each may take some milliseconds, and
/// the others wait.
const HANDSHAKE_SHARE: usize = 4;
/// How long waiting output is written before connections are handed over.
const LAST_WRITE: Duration = Duration::from_millis(500);
/// How long accepting pauses after an error, such as a lack of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Returns the token of the connection in this slot.
pub(super) fn token(slot: usize) -> Token {
    Token(FIRST_CONNECTION + slot)
}

/// A listening socket, with its certificates if its connections begin with TLS.
pub(crate) type ListeningSocket = (TcpListener, Option<Arc<Tls>>);

/// The listening sockets. One shard accepts for all.
pub(super) struct Listeners {
    sockets: Vec<ListeningSocket>,
    /// Whether there may be connections to accept.
    ready: bool,
    /// The time until which accepting is paused.
    paused_until: Option<Time>,
}

impl Listeners {
    pub fn new(sockets: Vec<ListeningSocket>, registry: &mio::Registry) -> io::Result<Listeners> {
        let mut listeners = Listeners { ready: false, sockets: Vec::new(), paused_until: None };
        listeners.add(sockets, registry)?;
        Ok(listeners)
    }

    /// Accepts at these sockets too.
    fn add(&mut self, sockets: Vec<ListeningSocket>, registry: &mio::Registry) -> io::Result<()> {
        for (mut socket, tls) in sockets {
            registry.register(&mut socket, Token(FIRST_LISTENER + self.sockets.len()), Interest::READABLE)?;
            self.sockets.push((socket, tls));
        }
        Ok(())
    }

    /// Takes the sockets, each with whether its connections begin with TLS. Accepting ends with that.
    fn release(&mut self, registry: &mio::Registry) -> Vec<(net::TcpListener, bool)> {
        let sockets = std::mem::take(&mut self.sockets).into_iter();
        let released = sockets.filter_map(|(mut socket, tls)| {
            registry.deregister(&mut socket).ok()?;
            Some((owned(&socket).ok()?.into(), tls.is_some()))
        });
        released.collect()
    }

    /// Reports whether a socket may have a connection, and accepting is not paused.
    fn are_ready(&self) -> bool {
        self.ready && self.paused_until.is_none()
    }

    /// Returns the time at which accepting resumes.
    pub fn deadline(&self) -> Option<Time> {
        self.paused_until
    }

    /// Accepts the next connection, if there is one.
    fn accept(&mut self) -> io::Result<Option<(Socket, SocketAddr)>> {
        for (socket, tls) in &self.sockets {
            loop {
                match socket.accept() {
                    Ok((stream, peer)) => {
                        let Some(tls) = tls else { return Ok(Some((Socket::Tcp(stream), peer))) };
                        let socket = TlsSocket::new(stream, Arc::clone(tls)).map_err(io::Error::other)?;
                        return Ok(Some((Socket::Tls(Box::new(socket)), peer)));
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    // The peer closed before it was accepted.
                    Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                    Err(error) => return Err(error),
                }
            }
        }
        self.ready = false;
        Ok(None)
    }
}

/// Creates another descriptor of a socket.
fn owned(socket: &impl AsFd) -> io::Result<OwnedFd> {
    socket.as_fd().try_clone_to_owned()
}

impl Shard {
    /// Records the readiness of a socket.
    pub(super) fn note_ready(&mut self, event: &mio::event::Event) {
        let Some(slot) = event.token().0.checked_sub(FIRST_CONNECTION) else {
            self.listeners.ready |= event.token().0 >= FIRST_LISTENER;
            return;
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
    pub(super) fn note_readable(&mut self, slot: usize, since: Time, is_over: bool) {
        let Some(connection) = self.connections.get(slot) else { return };
        connection.readable = true;
        connection.waiting_since.get_or_insert(since);
        connection.read_closed |= is_over;
        self.want_read(slot);
    }

    /// Reports whether there may be connections to accept.
    pub(super) fn accepts(&self) -> bool {
        self.listeners.are_ready() && self.finishing.is_none()
    }

    /// Accepts a bounded number of connections, and assigns each to the shard with the fewest.
    pub(super) fn accept(&mut self, now: Time) {
        self.listeners.paused_until.take_if(|until| *until <= now);
        if !self.accepts() {
            return;
        }
        for _ in 0..ACCEPT_SHARE {
            match self.listeners.accept() {
                Ok(Some((socket, peer))) => {
                    self.counters.of_connections += 1;
                    let to = self.registry.assign();
                    if to == self.id {
                        self.adopt(now, socket, peer);
                    } else {
                        self.outgoing.send(to, ShardMessage::Connection(socket, peer));
                    }
                }
                Ok(None) => return,
                Err(error) => {
                    tracing::error!(%error, "can't accept connections; trying again in {ACCEPT_PAUSE:?}");
                    self.listeners.paused_until = Some(after(now, ACCEPT_PAUSE));
                    return;
                }
            }
        }
    }

    /// Serves a new connection.
    pub(super) fn adopt(&mut self, now: Time, mut socket: Socket, peer: SocketAddr) {
        let id = self.connections.reserve();
        let registered = socket.set_nodelay().and_then(|()| socket.register(self.poll.registry(), token(id.slot)));
        let session = Session::new(now, self.deadlines, &mut self.outputs);
        self.connections.insert(Box::new(Connection::new(id, socket, peer, session)));
        self.act(now, id.slot);
        self.want_read(id.slot);
        if let Err(error) = registered {
            self.close(now, id.slot, CloseReason::of(error.kind()));
        }
    }

    /// Accepts connections at these sockets.
    pub(super) fn listen(&mut self, sockets: Vec<ListeningSocket>) {
        if let Err(error) = self.listeners.add(sockets, self.poll.registry()) {
            tracing::error!("can't accept connections: {error}");
        }
    }

    /// Adopts a connection that another process handed over, and asks its switch for its features again.
    pub(super) fn resume(&mut self, now: Time, handed: HandedConnection) {
        let HandedConnection { socket, dpid, version, partial, packets } = handed;
        let (peer, set) = (socket.peer_addr(), socket.set_nonblocking(true));
        let (Ok(peer), Ok(())) = (peer, set) else {
            tracing::warn!("a connection ended while it was handed over");
            return self.registry.remove_connection(self.id);
        };
        let id = self.connections.reserve();
        let mut socket = Socket::Tcp(TcpStream::from_std(socket));
        let registered = socket.register(self.poll.registry(), token(id.slot));
        let session = Session::resumed(now, self.deadlines, version, packets, &mut self.outputs);
        let mut connection = Box::new(Connection::new(id, socket, peer, session));
        if let ConnectionState::Open { framer, .. } = &mut connection.state {
            framer.begin_with(&partial);
        }
        self.connections.insert(connection);
        self.announced.note_connection(dpid, id);
        self.act(now, id.slot);
        self.want_read(id.slot);
        if let Err(error) = registered {
            self.close(now, id.slot, CloseReason::of(error.kind()));
        }
    }

    /// Hands the sockets over when the shard ends, if another process has asked for them.
    pub(super) fn hand_over(&mut self) {
        let Some(to) = self.handing_over.take() else { return };
        let listeners = self.listeners.release(self.poll.registry());
        let mut packets: BTreeMap<Dpid, Vec<PacketIn>> = BTreeMap::new();
        for (dpid, packet) in self.take_unanswered() {
            packets.entry(dpid).or_default().push(packet);
        }
        self.write_last();
        let slots: Vec<usize> = self.connections.iter().map(|connection| connection.id.slot).collect();
        let connections = slots.into_iter().filter_map(|slot| self.release(slot, &mut packets)).collect();
        // If the other thread has given up, the sockets are closed.
        drop(to.send(Released { listeners, connections }));
    }

    /// Takes the packets that were read and have no answer yet, oldest first.
    fn take_unanswered(&mut self) -> Vec<(Dpid, PacketIn)> {
        let mut packets = self.engine.take_unanswered();
        packets.extend(std::mem::take(&mut self.events).into_iter().filter_map(|event| match event {
            Event::PacketIn { dpid, packet_in } => Some((dpid, packet_in)),
            _ => None,
        }));
        packets.extend(std::iter::from_fn(|| self.backlog.pop()));
        packets
    }

    /// Writes the output that waits for the switches, as far as they take it within [`LAST_WRITE`] for all of them.
    fn write_last(&mut self) {
        let began = self.clock.now();
        loop {
            let mut waits = false;
            for Connection { outbox, socket, .. } in self.connections.iter_mut().filter(|one| !one.outbox.is_empty()) {
                // A connection that fails keeps its output, and is not handed over.
                waits |= outbox.write_to(socket).is_ok() && !outbox.is_empty();
            }
            if !waits || until(began, self.clock.now()) >= LAST_WRITE {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Takes a connection without ending it, with its switch's packets. Returns `None` unless all output is written,
    /// the connection has no TLS, and a policy serves the switch.
    fn release(&mut self, slot: usize, packets: &mut BTreeMap<Dpid, Vec<PacketIn>>) -> Option<HandedConnection> {
        let connection = self.connections.get(slot)?;
        let ConnectionState::Open { session, framer } = &connection.state else { return None };
        if !session.is_up() || connection.handler.is_some() || connection.read_closed {
            return None;
        }
        let (version, partial) = (session.version(), framer.started().to_vec());
        let (id, dpid, is_written) = (connection.id, connection.dpid?, connection.outbox.is_empty());
        let socket = match &mut connection.socket {
            Socket::Tcp(stream) if is_written => owned(stream).ok()?,
            _ => return None,
        };
        // Closing our descriptor does not end the connection, because there is another one.
        let mut connection = self.connections.remove(slot)?;
        connection.socket.deregister(self.poll.registry()).ok()?;
        self.registry.release(dpid, id, false);
        self.registry.remove_connection(self.id);
        let mut packets = packets.remove(&dpid).unwrap_or_default();
        packets.truncate(MAX_EARLY);
        Some(HandedConnection { socket: socket.into(), dpid, version, partial, packets })
    }

    /// Reports whether sockets are read in this turn.
    pub(super) fn reads(&self) -> bool {
        !self.outgoing.is_congested() && self.finishing.is_none()
    }

    /// Reads each ready socket once.
    pub(super) fn read_sockets(&mut self, now: Time) {
        if !self.reads() {
            return;
        }
        let mut handshakes = 0;
        for _ in 0..self.to_read.len() {
            let Some(slot) = self.to_read.pop_front() else { break };
            if let Some(connection) = self.connections.get(slot) {
                if connection.socket.is_shaking_hands() {
                    handshakes += 1;
                    if handshakes > HANDSHAKE_SHARE {
                        self.to_read.push_back(slot);
                        continue;
                    }
                }
                connection.queued_to_read = false;
                self.read(now, slot);
            }
        }
    }

    fn read(&mut self, now: Time, slot: usize) {
        let Some(connection) = self.connections.get(slot) else { return };
        if connection.paused || !connection.readable {
            return;
        }
        if self.handlers.is_some() {
            return self.read_in_place(now, slot);
        }
        connection.outbox.borrow(&mut self.spare_buffer);
        let mut has_answers = false;
        match connection.read(now, &mut self.buffer, &mut self.engine, &mut self.outputs) {
            Ok(ReadResult::Some { bytes, messages, answered }) => {
                has_answers = answered.packet_outs > 0;
                self.counters.of_bytes_in += bytes as u64;
                self.counters.of_messages_in += messages as u64;
                self.counters.of_packet_ins += answered.packets;
                self.counters.of_packet_outs += answered.packet_outs;
                self.counters.of_messages_out += answered.packet_outs;
                if let Some(recorder) = &mut self.recorder
                    && let Some(dpid) = connection.dpid.filter(|_| answered.packet_outs > 0)
                {
                    recorder.note_hits(dpid, answered.packet_outs);
                }
            }
            Ok(ReadResult::Nothing) => {}
            Err(error) => {
                let reason = connection.read_error_reason(&error);
                return self.drop_connection(now, slot, reason);
            }
        }
        self.act(now, slot);
        let Some(connection) = self.connections.get(slot) else { return };
        if !connection.readable {
            connection.waiting_since = None;
        }
        self.after_tls(now, slot);
        if has_answers {
            self.write(now, slot);
        }
        self.want_read(slot);
    }

    /// Follows up a read with TLS: queues what TLS has to send, and restarts the time for the hello after each part of
    /// the handshake.
    fn after_tls(&mut self, now: Time, slot: usize) {
        let Some(connection) = self.connections.get(slot).filter(|connection| connection.socket.is_tls()) else {
            return;
        };
        if connection.socket.take_flight()
            && let Some(session) = connection.session()
        {
            session.restart_hello(now);
            self.arm(slot);
        }
        self.want_write(slot);
    }

    /// Reads one socket, and handles its messages in the read buffer.
    fn read_in_place(&mut self, now: Time, slot: usize) {
        let Some(connection) = self.connections.get(slot) else { return };
        // The shard lends the buffer out, so that messages can stay in it while the shard acts on them.
        let mut buffer = std::mem::take(&mut self.buffer);
        match connection.fill(&mut buffer) {
            Ok(Some(bytes)) => {
                self.counters.of_bytes_in += bytes as u64;
                self.serve(now, slot, &buffer[..bytes]);
                self.want_read(slot);
            }
            Ok(None) => self.want_read(slot),
            Err(error) => {
                let reason = connection.read_error_reason(&error);
                self.drop_connection(now, slot, reason);
            }
        }
        self.buffer = buffer;
        self.after_tls(now, slot);
    }

    /// Writes once to each socket with waiting output.
    pub(super) fn write_sockets(&mut self, now: Time) {
        let mut slots = std::mem::take(&mut self.to_write);
        for slot in slots.drain(..) {
            self.write(now, slot);
        }
        // Closing a connection meanwhile may have queued more output.
        slots.append(&mut self.to_write);
        self.to_write = slots;
    }

    /// Writes a socket's waiting output, once.
    pub(super) fn write(&mut self, now: Time, slot: usize) {
        let Some(connection) = self.connections.get(slot) else { return };
        connection.queued_to_write = false;
        let waited = connection.outbox.len();
        let flushed = connection.socket.flush();
        let taken = match flushed.and_then(|()| connection.outbox.write_to(&mut connection.socket)) {
            Ok(taken) => taken,
            Err(error) => {
                let failure = connection.socket.tls_failure().map(CloseReason::Tls);
                return self.drop_connection(now, slot, failure.unwrap_or(CloseReason::of(error.kind())));
            }
        };
        self.counters.of_bytes_out += taken as u64;
        match &mut connection.state {
            ConnectionState::Open { session, .. } if taken > 0 && connection.paused => session.on_progress(now),
            ConnectionState::Lingering(_) if waited > 0 && connection.outbox.is_empty() => connection.close_writing(),
            _ => {}
        }
        connection.outbox.give_back(&mut self.spare_buffer);
        self.enforce_limits(now, slot);
    }

    /// Enforces [`QueueLimits`](super::QueueLimits): pauses or resumes reading, and disconnects a switch that does not
    /// read.
    fn enforce_limits(&mut self, now: Time, slot: usize) {
        let Some(connection) = self.connections.get(slot) else { return };
        let waiting = connection.outbox.len();
        if waiting > self.limits.disconnect {
            return self.drop_connection(now, slot, CloseReason::NotReading(waiting));
        }
        // A handler's switch is paused as soon as any answer waits.
        let pause = if connection.handler.is_some() { 0 } else { self.limits.pause };
        if !connection.paused && waiting > pause {
            connection.paused = true;
            self.counters.of_paused += 1;
        } else if connection.paused && waiting <= pause / 2 {
            connection.paused = false;
            self.want_read(slot);
        }
    }

    /// Queues a connection for reading, if it has data.
    pub(super) fn want_read(&mut self, slot: usize) {
        if let Some(connection) = self.connections.get(slot)
            && connection.readable
            && !connection.paused
            && !std::mem::replace(&mut connection.queued_to_read, true)
        {
            self.to_read.push_back(slot);
        }
    }

    /// Queues a connection for writing, if it has output.
    pub(super) fn want_write(&mut self, slot: usize) {
        if let Some(connection) = self.connections.get(slot)
            && (!connection.outbox.is_empty() || connection.socket.has_output())
            && !std::mem::replace(&mut connection.queued_to_write, true)
        {
            self.to_write.push(slot);
        }
    }

    /// Ends a connection. Waiting output is still sent.
    pub(super) fn close(&mut self, now: Time, slot: usize, reason: CloseReason) {
        self.announce_end(now, slot, reason);
        let Some(connection) = self.connections.get(slot) else { return };
        connection.linger(after(now, LINGER));
        connection.paused = false;
        self.want_write(slot);
        self.want_read(slot);
        self.arm(slot);
    }

    /// Ends a connection at once. Waiting output is dropped.
    fn drop_connection(&mut self, now: Time, slot: usize, reason: CloseReason) {
        self.announce_end(now, slot, reason);
        self.remove(slot);
    }

    fn remove(&mut self, slot: usize) {
        let Some(mut connection) = self.connections.remove(slot) else { return };
        if let Err(error) = connection.socket.deregister(self.poll.registry()) {
            tracing::debug!(peer = %connection.peer, %error, "can't deregister a socket");
        }
        self.registry.remove_connection(self.id);
    }

    /// Handles a connection's timer, if this is its valid entry in the heap.
    pub(super) fn connection_due(&mut self, now: Time, slot: usize, time: Time) {
        let Some(connection) = self.connections.get(slot) else { return };
        if connection.timer != Some(time) {
            return;
        }
        connection.timer = None;
        let may_enforce = connection.may_enforce_deadline(now);
        match &mut connection.state {
            ConnectionState::Open { session, .. } => {
                if may_enforce {
                    session.on_timer(now, &mut self.outputs);
                    self.act(now, slot);
                }
                self.wake_handler(now, slot);
                self.arm(slot);
            }
            ConnectionState::Lingering(until) if *until <= now => self.remove(slot),
            ConnectionState::Lingering(_) => self.arm(slot),
        }
    }

    /// Ends all connections when the shard ends.
    pub(super) fn close_all(&mut self) {
        let now = self.clock.now();
        let slots: Vec<usize> = self.connections.iter().map(|connection| connection.id.slot).collect();
        for slot in slots {
            self.drop_connection(now, slot, CloseReason::Stopping);
        }
        self.free_departed(now);
    }
}
