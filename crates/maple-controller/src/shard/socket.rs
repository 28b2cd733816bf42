//! The socket of a connection: TCP, or buffers in memory where a simulation drives the shard.
//!
//! Only builds with the feature `simulation` have the second kind.

use std::io::{self, Read, Write};
use std::net::Shutdown;

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};

#[cfg(feature = "simulation")]
use super::simulation::NearEnd;

/// What a connection waits for.
const INTEREST: Interest = Interest::READABLE.add(Interest::WRITABLE);

/// The controller's end of a connection.
#[derive(Debug)]
pub(crate) enum Socket {
    /// A TCP socket, which the shard's poll watches.
    Tcp(TcpStream),
    /// Buffers in memory. The simulation knows when they are ready.
    #[cfg(feature = "simulation")]
    Memory(NearEnd),
}

impl Socket {
    /// Registers the socket with a poll.
    pub fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        match self {
            Socket::Tcp(stream) => registry.register(stream, token, INTEREST),
            #[cfg(feature = "simulation")]
            Socket::Memory(_) => Ok(()),
        }
    }

    /// Removes the socket from a poll.
    pub fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        match self {
            Socket::Tcp(stream) => registry.deregister(stream),
            #[cfg(feature = "simulation")]
            Socket::Memory(_) => Ok(()),
        }
    }

    /// Disables Nagle's algorithm, so that small messages are sent at once.
    pub fn set_nodelay(&self) -> io::Result<()> {
        match self {
            Socket::Tcp(stream) => stream.set_nodelay(true),
            #[cfg(feature = "simulation")]
            Socket::Memory(_) => Ok(()),
        }
    }

    /// The number of received bytes that are not read yet.
    pub fn unread(&self) -> io::Result<u64> {
        match self {
            Socket::Tcp(stream) => Ok(rustix::io::ioctl_fionread(stream)?),
            #[cfg(feature = "simulation")]
            Socket::Memory(line) => Ok(line.unread()),
        }
    }

    /// Signals the end of the stream to the peer.
    pub fn close_writing(&self) -> io::Result<()> {
        match self {
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
            #[cfg(feature = "simulation")]
            Socket::Memory(line) => line.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
