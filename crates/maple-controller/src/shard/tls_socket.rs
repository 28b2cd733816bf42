//! A TCP socket with TLS on it. It reads and writes plain bytes; the handshake takes place meanwhile.
//!
//! # Memory
//!
//! Received bytes are decrypted at once, up to a record that is incomplete. Encrypted bytes are written at once, as far
//! as the system takes them. An idle session has a small buffer of the library, and the peer's certificates.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::sync::Arc;

use maple_wire::Dpid;
use mio::net::TcpStream;
use rustls::ServerConnection;

use crate::framing::READ_SHARE;
use crate::tls::{Identity, NotThisSwitch, Tls, error_in_words};

/// The maximum number of bytes that are read at a time. Chosen: about a record, so little of a record is left over.
const READ: usize = 16 * 1024;
/// The maximum length of a record's plaintext, in bytes (RFC 8446 §5.1). A read may complete a record that was begun
/// before.
const RECORD: usize = 16 * 1024;

/// A TCP socket with TLS on it. The module's documentation says how it uses memory.
#[derive(Debug)]
pub(crate) struct TlsSocket {
    pub stream: TcpStream,
    session: ServerConnection,
    tls: Arc<Tls>,
    /// The number of bytes that were read, encrypted.
    taken: u64,
    /// Whether the last read left nothing behind.
    is_drained: bool,
    /// Whether the peer has ended the session or the stream.
    is_ended: bool,
    /// Whether a part of the handshake was finished since the last call of [`TlsSocket::take_flight`].
    has_flown: bool,
    /// Whether the stream is to be shut down once all is written.
    is_closing: bool,
    /// The reason why the session has failed.
    failure: Option<String>,
}

impl TlsSocket {
    /// Creates the socket of a connection that was just accepted.
    ///
    /// # Errors
    /// The TLS library's error if it can't begin a session.
    pub fn new(stream: TcpStream, tls: Arc<Tls>) -> Result<TlsSocket, rustls::Error> {
        let session = ServerConnection::new(tls.config())?;
        Ok(TlsSocket {
            stream,
            session,
            tls,
            taken: 0,
            is_drained: false,
            is_ended: false,
            has_flown: false,
            is_closing: false,
            failure: None,
        })
    }

    /// Reports whether the handshake is in progress.
    pub fn is_shaking_hands(&self) -> bool {
        self.session.is_handshaking()
    }

    /// Reports whether encrypted bytes wait to be written.
    pub fn has_output(&self) -> bool {
        self.session.wants_write()
    }

    /// Returns the number of bytes that were read, encrypted.
    pub fn taken(&self) -> u64 {
        self.taken
    }

    /// Reports whether the last read left nothing behind, here or in the system.
    pub fn is_drained(&self) -> bool {
        self.is_drained
    }

    /// Returns why the session has failed. If the stream has ended, an unfinished handshake counts as a failure too.
    pub fn failure(&self) -> Option<String> {
        let unfinished = || "the switch ended the connection during the handshake".to_owned();
        self.failure.clone().or_else(|| (self.session.is_handshaking() && self.taken > 0).then(unfinished))
    }

    /// Checks that the peer's certificate allows it to be this switch.
    ///
    /// # Errors
    /// [`NotThisSwitch`] if the certificate does not allow that.
    pub fn admit(&self, dpid: Dpid) -> Result<(), NotThisSwitch> {
        // The session has verified the certificate, so it can be read.
        let certificate = self.session.peer_certificates().and_then(<[_]>::first);
        self.tls.admit(certificate.and_then(|it| Identity::from_certificate(it).ok()).as_ref(), dpid)
    }

    /// Reports whether a part of the handshake was finished since the last call. There are few parts.
    pub fn take_flight(&mut self) -> bool {
        std::mem::take(&mut self.has_flown)
    }

    /// Ends the session, and the stream once all is written.
    pub fn close_writing(&mut self) -> io::Result<()> {
        self.session.send_close_notify();
        self.is_closing = true;
        self.flush()
    }

    /// Decrypts bytes. The plaintext goes to `buffer`, which has room for it. Returns the number of plaintext bytes.
    fn decrypt(&mut self, mut bytes: &[u8], buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while !bytes.is_empty() {
            // Bytes after the end of the peer's session do not count.
            if self.session.read_tls(&mut bytes)? == 0 {
                self.is_ended = true;
                break;
            }
            let was_shaking = self.session.is_handshaking();
            match self.session.process_new_packets() {
                Ok(state) => self.is_ended |= state.peer_has_closed(),
                Err(error) => {
                    self.failure = Some(error_in_words(&error));
                    // The peer gets the reason, if it listens.
                    drop(self.flush());
                    break;
                }
            }
            self.has_flown |= was_shaking && (self.session.wants_write() || !self.session.is_handshaking());
            filled += take(&mut self.session, &mut buffer[filled..])?;
        }
        Ok(filled)
    }
}

/// Takes the plaintext that is available, and returns its number of bytes.
fn take(session: &mut ServerConnection, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match session.reader().read(&mut buffer[filled..]) {
            // The peer has ended the session.
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

impl Read for TlsSocket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // Records may be mostly padding, so encrypted bytes count too.
        let (mut filled, mut left) = (take(&mut self.session, buffer)?, READ_SHARE);
        let mut encrypted = [0; READ];
        self.is_drained = false;
        while self.failure.is_none() && !self.is_ended && left > 0 && buffer.len() - filled > READ + RECORD {
            match self.stream.read(&mut encrypted) {
                Ok(0) => self.is_ended = true,
                Ok(count) => {
                    self.taken += count as u64;
                    left = left.saturating_sub(count);
                    filled += self.decrypt(&encrypted[..count], &mut buffer[filled..])?;
                    if count < READ && filled > 0 {
                        self.is_drained = self.failure.is_none() && !self.is_ended;
                        break;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.is_drained = true;
                    break;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if filled == 0 => return Err(error),
                // The error comes again with the next read.
                Err(_) => break,
            }
        }
        let flushed = self.flush();
        match (filled, &self.failure) {
            (0, Some(_)) => Err(io::ErrorKind::InvalidData.into()),
            (0, None) if self.is_ended => Ok(0),
            (0, None) => flushed.and(Err(io::ErrorKind::WouldBlock.into())),
            // If flushing failed, writing will fail too.
            (filled, _) => Ok(filled),
        }
    }
}

impl Write for TlsSocket {
    /// Takes as many bytes as the system does, and one buffer more.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut taken = 0;
        self.flush()?;
        while taken < bytes.len() && !self.session.is_handshaking() && !self.session.wants_write() {
            taken += self.session.writer().write(&bytes[taken..])?;
            self.flush()?;
        }
        if taken == 0 && !bytes.is_empty() { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(taken) }
    }

    /// Writes encrypted bytes, as far as the system takes them.
    fn flush(&mut self) -> io::Result<()> {
        while self.session.wants_write() {
            match self.session.write_tls(&mut self.stream) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if std::mem::take(&mut self.is_closing) { self.stream.shutdown(Shutdown::Write) } else { Ok(()) }
    }
}
