//! The socket of a connection: TCP, TCP with TLS, or buffers in memory where a simulation drives the shard.
//!
//! Only builds with the feature `simulation` have the last kind.

use std::io::{self, Read, Write};
use std::net::Shutdown;

use maple_wire::Dpid;
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};

#[cfg(feature = "simulation")]
use super::memory_socket::ControllerEnd;
use super::tls_socket::TlsSocket;
use crate::tls::{NotThisSwitch, Tls};

/// The readiness that a connection waits for.
const INTEREST: Interest = Interest::READABLE.add(Interest::WRITABLE);

/// The controller's end of a connection.
#[derive(Debug)]
pub(crate) enum Socket {
    /// A TCP socket, which the shard's poll watches.
    Tcp(TcpStream),
    /// A TCP socket with TLS.
    Tls(Box<TlsSocket>),
    /// Buffers in memory. The simulation knows when they are ready.
    #[cfg(feature = "simulation")]
    Memory(ControllerEnd),
}

impl Socket {
    /// Registers the socket with a poll.
    pub fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        match self {
            Socket::Tcp(stream) => registry.register(stream, token, INTEREST),
            Socket::Tls(tls) => registry.register(&mut tls.stream, token, INTEREST),
            #[cfg(feature = "simulation")]
            Socket::Memory(_) => Ok(()),
        }
    }

    /// Removes the socket from a poll.
    pub fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        match self {
            Socket::Tcp(stream) => registry.deregister(stream),
            Socket::Tls(tls) => registry.deregister(&mut tls.stream),
            #[cfg(feature = "simulation")]
            Socket::Memory(_) => Ok(()),
        }
    }

    /// Disables Nagle's algorithm, so that small messages are sent at once.
    pub fn set_nodelay(&self) -> io::Result<()> {
        match self {
            Socket::Tcp(stream) => stream.set_nodelay(true),
            Socket::Tls(tls) => tls.stream.set_nodelay(true),
            #[cfg(feature = "simulation")]
            Socket::Memory(_) => Ok(()),
        }
    }

    /// Returns the number of received bytes that are not read yet. With TLS they are encrypted.
    pub fn unread(&self) -> io::Result<u64> {
        match self {
            Socket::Tcp(stream) => Ok(rustix::io::ioctl_fionread(stream)?),
            Socket::Tls(tls) => Ok(rustix::io::ioctl_fionread(&tls.stream)?),
            #[cfg(feature = "simulation")]
            Socket::Memory(line) => Ok(line.unread()),
        }
    }

    /// Returns the number of bytes that were read, counted as [`Socket::unread`] does; `None` if they are the bytes
    /// that reading returned.
    pub fn taken(&self) -> Option<u64> {
        match self {
            Socket::Tls(tls) => Some(tls.taken()),
            _ => None,
        }
    }

    /// Reports whether a read of `read` bytes into a buffer of `buffer` bytes left nothing to read.
    #[inline]
    pub fn is_drained_by(&self, read: usize, buffer: usize) -> bool {
        match self {
            Socket::Tls(tls) => tls.is_drained(),
            _ => read < buffer,
        }
    }

    /// Reports whether there may be more to read though reading returned nothing.
    pub fn has_more(&self) -> bool {
        matches!(self, Socket::Tls(tls) if !tls.is_drained())
    }

    /// Reports whether a part of a TLS handshake was finished since the last call.
    pub fn take_flight(&mut self) -> bool {
        if let Socket::Tls(tls) = self { tls.take_flight() } else { false }
    }

    /// Reports whether a TLS handshake is in progress.
    pub fn is_shaking_hands(&self) -> bool {
        matches!(self, Socket::Tls(tls) if tls.is_shaking_hands())
    }

    /// Reports whether bytes wait in the socket, to be written by [`Write::flush`].
    #[inline]
    pub fn has_output(&self) -> bool {
        matches!(self, Socket::Tls(tls) if tls.has_output())
    }

    /// Reports whether the socket has TLS.
    #[inline]
    pub fn is_tls(&self) -> bool {
        matches!(self, Socket::Tls(_))
    }

    /// Returns why TLS has failed, if it has.
    pub fn tls_failure(&self) -> Option<String> {
        match self {
            Socket::Tls(tls) => tls.failure(),
            _ => None,
        }
    }

    /// Checks that the peer may be this switch. Without TLS it may be any switch that is not bound to a certificate.
    ///
    /// # Errors
    /// [`NotThisSwitch`] if the peer may not be this switch.
    pub fn admit(&self, tls: Option<&Tls>, dpid: Dpid) -> Result<(), NotThisSwitch> {
        match self {
            Socket::Tls(tls) => tls.admit(dpid),
            _ => tls.map_or(Ok(()), |tls| tls.admit_plain(dpid)),
        }
    }

    /// Signals the end of the stream to the peer.
    pub fn close_writing(&mut self) -> io::Result<()> {
        match self {
            Socket::Tls(tls) => tls.close_writing(),
            Socket::Tcp(stream) => stream.shutdown(Shutdown::Write),
            #[cfg(feature = "simulation")]
            Socket::Memory(line) => {
                line.close_writing();
                Ok(())
            }
        }
    }
}

impl Read for Socket {
    #[inline]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.read(buffer),
            Socket::Tls(tls) => tls.read(buffer),
            #[cfg(feature = "simulation")]
            Socket::Memory(line) => line.read(buffer),
        }
    }
}

impl Write for Socket {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Tcp(stream) => stream.write(bytes),
            Socket::Tls(tls) => tls.write(bytes),
            #[cfg(feature = "simulation")]
            Socket::Memory(line) => line.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        if let Socket::Tls(tls) = self { tls.flush() } else { Ok(()) }
    }
}
