//! What a connection reads from and writes to: a TCP socket, or two buffers in memory where tests drive a shard.
//!
//! Only builds with the feature `testing` have the second kind; in others there is nothing to choose.

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
    /// A socket of the system, which the shard's poll watches.
    Tcp(TcpStream),
    /// Buffers in memory, of which the simulation knows when they are ready.
    #[cfg(feature = "simulation")]
    Memory(NearEnd),
}

impl Socket {
    /// Has a poll watch it from now on.
    pub fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        match self {
            Socket::Tcp(stream) => registry.register(stream, token, INTEREST),
            #[cfg(feature = "simulation")]
            Socket::Memory(_) => Ok(()),
        }
    }

    /// Ends that.
    pub fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        match self {
            Socket::Tcp(stream) => registry.deregister(stream),
            #[cfg(feature = "simulation")]
            Socket::Memory(_) => Ok(()),
        }
    }

    /// Sends small messages at once.
    pub fn set_nodelay(&self) -> io::Result<()> {
        match self {
            Socket::Tcp(stream) => stream.set_nodelay(true),
            #[cfg(feature = "simulation")]
            Socket::Memory(_) => Ok(()),
        }
    }

    /// How many bytes have come in that were not read.
    pub fn unread(&self) -> io::Result<u64> {
        match self {
            Socket::Tcp(stream) => Ok(rustix::io::ioctl_fionread(stream)?),
            #[cfg(feature = "simulation")]
            Socket::Memory(line) => Ok(line.unread()),
        }
    }

    /// Tells the peer that nothing more will be written.
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
