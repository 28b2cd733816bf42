//! A switch's connection to the controller.

use std::io::{self, Read, Write};
use std::net::SocketAddr;

use maple_wire::{Message, Version};
use mio::net::TcpStream;

use crate::error::LoadError;

/// A connection.
pub(crate) struct Channel {
    /// The switch's number, from 1.
    id: u64,
    pub socket: TcpStream,
    /// Whether there can be more to read.
    pub is_readable: bool,
    version: Version,
    /// The start of a message that has not arrived completely.
    partial: Vec<u8>,
    /// The bytes to write.
    waiting: Vec<u8>,
}

impl Channel {
    /// Connects switch `id`, from 1.
    ///
    /// # Errors
    /// [`LoadError::Connect`] if the controller can't be reached.
    pub fn connect(address: SocketAddr, id: u32, version: Version) -> Result<Channel, LoadError> {
        let connected = std::net::TcpStream::connect(address).and_then(|socket| {
            socket.set_nodelay(true)?;
            socket.set_nonblocking(true)?;
            Ok(TcpStream::from_std(socket))
        });
        let socket = connected.map_err(|error| LoadError::Connect { switch: id, address, error })?;
        Ok(Channel { id: id.into(), socket, is_readable: true, version, partial: Vec::new(), waiting: Vec::new() })
    }

    /// Queues a message.
    ///
    /// # Errors
    /// [`LoadError::Malformed`] if this version can't encode it.
    pub fn say(&mut self, xid: u32, message: &Message) -> Result<(), LoadError> {
        message.encode(self.version, xid, &mut self.waiting).map_err(|error| self.malformed(error))
    }

    /// The number of queued bytes.
    pub fn unsent(&self) -> usize {
        self.waiting.len()
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

    /// Writes queued bytes, as far as the socket accepts them.
    ///
    /// # Errors
    /// [`LoadError::Closed`] if the socket takes nothing, or if writing fails.
    pub fn flush(&mut self) -> Result<(), LoadError> {
        let mut taken = 0;
        while taken < self.waiting.len() {
            match self.socket.write(&self.waiting[taken..]) {
                Ok(0) => return Err(self.closed("it takes nothing")),
                Ok(more) => taken += more,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.closed(&error.to_string())),
            }
        }
        self.waiting.drain(..taken);
        Ok(())
    }

    /// The error for a connection that the controller has closed.
    pub fn closed(&self, why: &str) -> LoadError {
        LoadError::Closed { switch: self.id, why: why.to_owned() }
    }

    /// The error for an inconsistent message.
    pub fn malformed(&self, error: maple_wire::Error) -> LoadError {
        LoadError::Malformed { switch: self.id, error }
    }
}
