//! A switch's connection to the controller: the start of a message that came, and the bytes that wait.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;

use maple_wire::{Message, Version};
use rustls::ClientConfig;

use crate::error::LoadError;
use crate::socket::Socket;

/// A connection.
pub(crate) struct Channel {
    /// The switch's number, from 1.
    pub id: u64,
    pub socket: Socket,
    /// Whether there can be more to read.
    pub is_readable: bool,
    pub version: Version,
    /// The bytes to write.
    pub waiting: Vec<u8>,
    /// The start of a message that has not arrived completely.
    partial: Vec<u8>,
}

impl Channel {
    /// Connects switch `id`, from 1, with TLS if it is configured.
    ///
    /// # Errors
    /// [`LoadError::Connect`] if the controller can't be reached.
    pub fn connect(
        address: SocketAddr,
        tls: Option<&Arc<ClientConfig>>,
        id: u32,
        version: Version,
    ) -> Result<Channel, LoadError> {
        let connected = Socket::connect(address, tls);
        let socket = connected.map_err(|error| LoadError::Connect { switch: id, address, error })?;
        Ok(Channel { id: id.into(), socket, is_readable: true, version, waiting: Vec::new(), partial: Vec::new() })
    }

    /// Queues a message.
    ///
    /// # Errors
    /// [`LoadError::Malformed`] if this version can't encode it.
    pub fn say(&mut self, xid: u32, message: &Message) -> Result<(), LoadError> {
        message.encode(self.version, xid, &mut self.waiting).map_err(|error| self.malformed(error))
    }

    /// Reports whether the socket has not accepted all bytes.
    pub fn is_behind(&self) -> bool {
        !self.waiting.is_empty() || self.socket.is_behind()
    }

    /// Reads once. Returns the length of the buffer's contents, from the start of a message. `None` if nothing came.
    ///
    /// # Errors
    /// [`LoadError::Closed`] if the controller has closed the connection, or if reading fails.
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<Option<usize>, LoadError> {
        let held = self.partial.len();
        buffer[..held].copy_from_slice(&self.partial);
        match self.socket.read(&mut buffer[held..]) {
            Ok(0) => Err(self.closed("end of the stream")),
            Ok(read) => {
                self.is_readable = held + read == buffer.len();
                Ok(Some(held + read))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.is_readable = false;
                Ok(None)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(None),
            Err(error) => Err(self.closed(&error.to_string())),
        }
    }

    /// Keeps the start of a message until the rest of it comes.
    pub fn keep(&mut self, rest: &[u8]) {
        self.partial.clear();
        self.partial.extend_from_slice(rest);
    }

    /// Writes bytes after those that wait, as far as the socket accepts them.
    ///
    /// # Errors
    /// [`LoadError::Closed`] if the socket takes nothing, or if writing fails.
    pub fn send(&mut self, bytes: &[u8]) -> Result<(), LoadError> {
        let taken = if self.waiting.is_empty() { self.write(bytes)? } else { 0 };
        self.waiting.extend_from_slice(&bytes[taken..]);
        Ok(())
    }

    /// Writes queued bytes, as far as the socket accepts them.
    ///
    /// # Errors
    /// [`LoadError::Closed`] if the socket takes nothing, or if writing fails.
    pub fn flush(&mut self) -> Result<(), LoadError> {
        let waiting = std::mem::take(&mut self.waiting);
        let taken = self.write(&waiting)?;
        self.waiting = waiting;
        self.waiting.drain(..taken);
        self.socket.flush().map_err(|error| self.closed(&error.to_string()))
    }

    fn write(&mut self, bytes: &[u8]) -> Result<usize, LoadError> {
        let mut taken = 0;
        while taken < bytes.len() {
            match self.socket.write(&bytes[taken..]) {
                Ok(0) => return Err(self.closed("it takes nothing")),
                Ok(more) => taken += more,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.closed(&error.to_string())),
            }
        }
        Ok(taken)
    }

    /// Creates the error for a connection that the controller has closed.
    pub fn closed(&self, why: &str) -> LoadError {
        LoadError::Closed { switch: self.id, why: why.to_owned() }
    }

    /// Creates the error for an inconsistent message.
    pub fn malformed(&self, error: maple_wire::Error) -> LoadError {
        LoadError::Malformed { switch: self.id, error }
    }
}
