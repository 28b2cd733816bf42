//! The listening sockets. What they accept becomes a [`Socket`], which a [`Connection`](super::connection::Connection)
//! serves.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use maple_core::engine::Time;
use mio::net::TcpListener;
use mio::{Interest, Token};

use super::connection_socket::Socket;
use super::tls_socket::TlsSocket;
use crate::endpoint::HandedListener;
use crate::time::after;
use crate::tls::Tls;

/// The token of the waker.
pub(crate) const WAKER: Token = Token(0);
/// The first token of listening sockets. It must exceed that of the waker, [`WAKER`].
pub(super) const FIRST_LISTENER: usize = 1;
/// The number that is added to a connection's slot to get its token. It must exceed the number of listening sockets.
pub(super) const FIRST_CONNECTION: usize = 1 << 16;

/// The time for which accepting pauses after an error, such as a lack of descriptors. Chosen: the log gets at most ten
/// lines a second, and switches hardly notice it.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A listening socket.
pub(crate) struct ListeningSocket {
    pub listener: TcpListener,
    /// The certificates, if its connections begin with TLS.
    pub tls: Option<Arc<Tls>>,
}

/// The listening sockets. One shard accepts for all.
pub(super) struct Listeners {
    sockets: Vec<ListeningSocket>,
    /// Whether there may be connections to accept.
    ready: bool,
    /// The time until which accepting is paused.
    paused_until: Option<Time>,
}

impl Listeners {
    /// Registers listening sockets with the poll.
    pub fn new(sockets: Vec<ListeningSocket>, registry: &mio::Registry) -> io::Result<Listeners> {
        let mut listeners = Listeners { ready: false, sockets: Vec::new(), paused_until: None };
        listeners.add(sockets, registry)?;
        Ok(listeners)
    }

    /// Accepts at these sockets too.
    pub fn add(&mut self, sockets: Vec<ListeningSocket>, registry: &mio::Registry) -> io::Result<()> {
        for mut socket in sockets {
            let token = Token(FIRST_LISTENER + self.sockets.len());
            registry.register(&mut socket.listener, token, Interest::READABLE)?;
            self.sockets.push(socket);
        }
        Ok(())
    }

    /// Takes the sockets. Accepting ends with that.
    pub fn release(&mut self, registry: &mio::Registry) -> Vec<HandedListener> {
        let sockets = std::mem::take(&mut self.sockets).into_iter();
        let released = sockets.filter_map(|ListeningSocket { mut listener, tls }| {
            registry.deregister(&mut listener).ok()?;
            Some(HandedListener { socket: owned(&listener).ok()?.into(), has_tls: tls.is_some() })
        });
        released.collect()
    }

    /// Reports whether a socket may have a connection, and accepting is not paused.
    pub fn are_ready(&self) -> bool {
        self.ready && self.paused_until.is_none()
    }

    /// Returns the time at which accepting resumes.
    pub fn deadline(&self) -> Option<Time> {
        self.paused_until
    }

    /// Records that there may be connections to accept.
    pub fn note_ready(&mut self) {
        self.ready = true;
    }

    /// Ends a pause of accepting that is over.
    pub fn resume(&mut self, now: Time) {
        self.paused_until.take_if(|until| *until <= now);
    }

    /// Accepts the next connection, if there is one. After an error, such as a lack of descriptors, accepting pauses.
    pub fn accept(&mut self, now: Time) -> Option<(Socket, SocketAddr)> {
        self.try_accept().unwrap_or_else(|error| {
            tracing::error!(%error, "can't accept connections; trying again in {ACCEPT_PAUSE:?}");
            self.paused_until = Some(after(now, ACCEPT_PAUSE));
            None
        })
    }

    fn try_accept(&mut self) -> io::Result<Option<(Socket, SocketAddr)>> {
        for ListeningSocket { listener, tls } in &self.sockets {
            loop {
                match listener.accept() {
                    Ok((stream, peer)) => {
                        let socket = match tls {
                            None => Socket::Tcp(stream),
                            Some(tls) => {
                                let socket = TlsSocket::new(stream, Arc::clone(tls)).map_err(io::Error::other)?;
                                Socket::Tls(Box::new(socket))
                            }
                        };
                        return Ok(Some((socket, peer)));
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
pub(super) fn owned(socket: &impl AsFd) -> io::Result<OwnedFd> {
    socket.as_fd().try_clone_to_owned()
}
