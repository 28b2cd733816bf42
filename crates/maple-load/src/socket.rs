//! The socket of a switch, with or without TLS. It reads and writes plain bytes.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;

use mio::net::TcpStream;
use rustls::{ClientConfig, ClientConnection};

use crate::tls;

/// A connected socket, with a TLS session if it is configured.
pub(crate) struct Socket {
    stream: TcpStream,
    session: Option<ClientConnection>,
}

impl Socket {
    /// Connects, and begins a TLS session if there is a configuration.
    ///
    /// # Errors
    /// The system's error, or that of an invalid TLS configuration.
    pub fn connect(address: SocketAddr, config: Option<&Arc<ClientConfig>>) -> io::Result<Socket> {
        let stream = std::net::TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let session = config.map(tls::session).transpose().map_err(io::Error::other)?;
        Ok(Socket { stream: TcpStream::from_std(stream), session })
    }

    /// Returns the TCP stream, for registration with the poll.
    pub fn stream(&mut self) -> &mut TcpStream {
        &mut self.stream
    }

    /// Reports whether the socket holds bytes that the system has not accepted.
    pub fn is_behind(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.wants_write())
    }

    /// Reports whether the last TLS session was resumed.
    pub fn is_resumed(&self) -> bool {
        let kind = self.session.as_ref().and_then(|session| session.handshake_kind());
        kind == Some(rustls::HandshakeKind::Resumed)
    }
}

impl Read for Socket {
    /// Fills the buffer, as far as bytes have arrived.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(session) = &mut self.session else { return self.stream.read(buffer) };
        let mut filled = 0;
        loop {
            while filled < buffer.len() {
                match session.reader().read(&mut buffer[filled..]) {
                    Ok(0) => return Ok(filled),
                    Ok(count) => filled += count,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                    Err(error) => return Err(error),
                }
            }
            if filled == buffer.len() {
                return Ok(filled);
            }
            match session.read_tls(&mut self.stream) {
                Ok(0) => return Ok(filled),
                Ok(_) => {
                    let processed = session.process_new_packets();
                    // The bytes are a part of the handshake, or an alert that says why it failed.
                    while session.wants_write() && session.write_tls(&mut self.stream).is_ok() {}
                    processed.map_err(io::Error::other)?;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && filled > 0 => return Ok(filled),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Write for Socket {
    /// Accepts as much as the system does, and one buffer more.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.flush()?;
        let Some(session) = &mut self.session else { return self.stream.write(bytes) };
        if session.is_handshaking() || session.wants_write() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let taken = session.writer().write(bytes)?;
        self.flush()?;
        Ok(taken)
    }

    /// Writes encrypted bytes, as far as the system accepts them.
    fn flush(&mut self) -> io::Result<()> {
        let Some(session) = &mut self.session else { return Ok(()) };
        while session.wants_write() {
            match session.write_tls(&mut self.stream) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
