//! The TCP connection of a switch to the controller, and its attempts to connect.

use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};

/// The time that a switch waits after the first failure: a controller that restarts is found again quickly.
const FIRST_WAIT: Duration = Duration::from_millis(100);
/// The maximum time that it waits. Each failure doubles the wait, so that thousands of switches do not keep a missing
/// controller's machine busy.
const MAX_WAIT: Duration = Duration::from_secs(5);
/// The maximum number of queued bytes for a controller that does not read. Chosen: a bound on memory. Then the
/// connection is closed.
const MAX_UNSENT: usize = 16 << 20;

/// A connection of one switch.
#[derive(Debug)]
pub(super) struct Connection {
    token: Token,
    state: State,
    wait: Duration,
    unsent: Vec<u8>,
    /// The number of bytes of `unsent` that were sent already.
    sent: usize,
    /// The number of TCP connections so far.
    pub count: u64,
}

#[derive(Debug)]
enum State {
    Waiting(Instant),
    Connecting(TcpStream),
    Open(TcpStream),
}

/// The result of a check of a connection.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ConnectionProgress {
    /// Nothing that concerns the switch.
    Nothing,
    /// The connection is open.
    Opened,
    /// The connection cannot be opened, for this reason. The switch will try again.
    Refused(ErrorKind),
    /// The connection was closed, and the switch will try again.
    Closed,
}

impl Connection {
    pub fn new(token: Token, now: Instant) -> Connection {
        Connection { token, state: State::Waiting(now), wait: FIRST_WAIT, unsent: Vec::new(), sent: 0, count: 0 }
    }

    /// Returns the time of the next attempt, if the switch waits for one.
    pub fn next_attempt(&self) -> Option<Instant> {
        match self.state {
            State::Waiting(at) => Some(at),
            _ => None,
        }
    }

    /// Tries to connect if it is time. After a failure the switch waits, as after a lost connection.
    pub fn attempt(&mut self, now: Instant, controller: SocketAddr, registry: &Registry) -> ConnectionProgress {
        if self.next_attempt().is_none_or(|at| at > now) {
            return ConnectionProgress::Nothing;
        }
        let connecting = TcpStream::connect(controller).and_then(|mut stream| {
            registry.register(&mut stream, self.token, Interest::READABLE | Interest::WRITABLE)?;
            Ok(stream)
        });
        match connecting {
            Ok(stream) => {
                self.state = State::Connecting(stream);
                ConnectionProgress::Nothing
            }
            Err(error) => self.refused(now, &error),
        }
    }

    /// Completes a connection attempt when its socket becomes ready.
    pub fn complete(&mut self, now: Instant) -> ConnectionProgress {
        let State::Connecting(stream) = &self.state else { return ConnectionProgress::Nothing };
        if let Some(error) = stream.take_error().unwrap_or_else(Some) {
            return self.refused(now, &error);
        }
        match stream.peer_addr() {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotConnected => return ConnectionProgress::Nothing,
            Err(error) => return self.refused(now, &error),
        }
        let State::Connecting(stream) = std::mem::replace(&mut self.state, State::Waiting(now)) else {
            return ConnectionProgress::Nothing;
        };
        // Otherwise small messages wait for acknowledgements. A system that refuses is only slower.
        let _ = stream.set_nodelay(true);
        self.state = State::Open(stream);
        self.count += 1;
        self.unsent.clear();
        self.sent = 0;
        ConnectionProgress::Opened
    }

    /// Reads everything available, and appends it to `into`.
    pub fn read(&mut self, now: Instant, into: &mut Vec<u8>, scratch: &mut [u8]) -> ConnectionProgress {
        while let State::Open(stream) = &mut self.state {
            match stream.read(scratch) {
                Ok(0) => return self.close(now),
                Ok(count) => {
                    self.wait = FIRST_WAIT;
                    into.extend_from_slice(&scratch[..count]);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return self.close(now),
            }
        }
        ConnectionProgress::Nothing
    }

    /// Queues bytes. The next [`Connection::write`] sends them.
    pub fn send(&mut self, bytes: &[u8]) {
        if matches!(self.state, State::Open(_)) {
            self.unsent.extend_from_slice(bytes);
        }
    }

    /// Writes as much of the queue as the socket accepts.
    pub fn write(&mut self, now: Instant) -> ConnectionProgress {
        while self.sent < self.unsent.len() {
            let State::Open(stream) = &mut self.state else { break };
            match stream.write(&self.unsent[self.sent..]) {
                Ok(0) => return self.close(now),
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return self.close(now),
            }
        }
        if self.sent == self.unsent.len() || self.sent > MAX_UNSENT {
            self.unsent.drain(..self.sent);
            self.sent = 0;
        }
        if self.unsent.len() - self.sent > MAX_UNSENT { self.close(now) } else { ConnectionProgress::Nothing }
    }

    /// Closes the connection from the switch's side. Queued bytes are written once, as far as possible.
    pub fn hang_up(&mut self, now: Instant) {
        self.write(now);
        if matches!(self.state, State::Open(_)) {
            self.wait_again(now);
        }
    }

    fn refused(&mut self, now: Instant, error: &io::Error) -> ConnectionProgress {
        self.wait_again(now);
        ConnectionProgress::Refused(error.kind())
    }

    fn close(&mut self, now: Instant) -> ConnectionProgress {
        self.wait_again(now);
        ConnectionProgress::Closed
    }

    fn wait_again(&mut self, now: Instant) {
        // Dropping the stream closes it and takes it out of the poll.
        self.state = State::Waiting(now + self.wait);
        self.wait = (self.wait * 2).min(MAX_WAIT);
        self.unsent.clear();
        self.sent = 0;
    }
}

/// Reports whether a poll's error only means that a signal arrived.
pub(super) fn is_interruption(error: &io::Error) -> bool {
    error.kind() == ErrorKind::Interrupted
}
