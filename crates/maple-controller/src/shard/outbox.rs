//! Encoded messages that wait to be written to one socket.

use std::io::{self, Write};

use maple_wire::{Message, Version};

/// The size in bytes from which on a buffer is freed once it is empty. Chosen: four times a read, whose answers usually
/// fit.
const MAX_KEPT: usize = 256 * 1024;

/// Encoded messages that wait to be written.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    bytes: Vec<u8>,
    written: usize,
}

/// The limits of the output that waits for a switch.
#[derive(Clone, Copy, Debug)]
pub struct QueueLimits {
    /// The number of waiting bytes above which the switch is not read, until at most half of this number waits.
    pub pause: usize,
    /// The number of waiting bytes above which the switch is disconnected.
    pub disconnect: usize,
}

impl Default for QueueLimits {
    fn default() -> QueueLimits {
        QueueLimits { pause: 512 * 1024, disconnect: 128 * 1024 * 1024 }
    }
}

impl Outbox {
    /// Appends a message.
    ///
    /// # Errors
    /// The codec's error if the version cannot express the message.
    pub fn push(&mut self, version: Version, xid: u32, message: &Message) -> Result<(), maple_wire::Error> {
        message.encode(version, xid, &mut self.bytes)
    }

    /// Returns the buffer, to append encoded messages to.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Takes the memory of `spare`, if this outbox has none.
    pub fn borrow(&mut self, spare: &mut Vec<u8>) {
        if self.bytes.capacity() == 0 {
            std::mem::swap(&mut self.bytes, spare);
        }
    }

    /// Gives up the memory if nothing is waiting. `spare` becomes the larger of the two buffers.
    pub fn give_back(&mut self, spare: &mut Vec<u8>) {
        if self.bytes.is_empty() {
            let bytes = std::mem::take(&mut self.bytes);
            if bytes.capacity() > spare.capacity() {
                *spare = bytes;
            }
        }
    }

    /// Returns the number of waiting bytes.
    pub fn len(&self) -> usize {
        self.bytes.len() - self.written
    }

    /// Reports whether nothing is waiting.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes once, and returns how many bytes the socket took.
    ///
    /// # Errors
    /// The system's error, or `WriteZero` if the socket takes nothing. A full socket is not an error.
    pub fn write_to(&mut self, mut socket: impl Write) -> io::Result<usize> {
        if self.is_empty() {
            return Ok(0);
        }
        let taken = match socket.write(&self.bytes[self.written..]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(taken) => taken,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => 0,
            Err(error) => return Err(error),
        };
        self.written += taken;
        self.reclaim();
        Ok(taken)
    }

    /// Reclaims the space of written bytes. Each byte is moved at most once.
    fn reclaim(&mut self) {
        if self.is_empty() {
            self.written = 0;
            if self.bytes.capacity() > MAX_KEPT { self.bytes = Vec::new() } else { self.bytes.clear() }
        } else if self.written > self.bytes.len() / 2 {
            self.bytes.drain(..self.written);
            self.written = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A socket that takes a limited number of bytes for each write.
    struct Narrow(usize, Vec<u8>);

    impl Write for Narrow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.0 == 0 {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let taken = bytes.len().min(self.0);
            self.1.extend_from_slice(&bytes[..taken]);
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn bytes_leave_in_order_however_few_at_a_time() {
        let (mut outbox, mut socket, mut expected) = (Outbox::default(), Narrow(3, Vec::new()), Vec::new());
        for xid in 0..50 {
            let message = Message::EchoReply(vec![xid as u8; xid as usize]);
            outbox.push(Version::Of13, xid, &message).unwrap();
            message.encode(Version::Of13, xid, &mut expected).unwrap();
            outbox.write_to(&mut socket).unwrap();
        }
        while !outbox.is_empty() {
            outbox.write_to(&mut socket).unwrap();
        }
        assert_eq!(socket.1, expected);
    }

    #[test]
    fn a_full_socket_is_no_error_and_loses_nothing() {
        let mut outbox = Outbox::default();
        outbox.push(Version::Of13, 1, &Message::BarrierRequest).unwrap();
        assert_eq!((outbox.write_to(Narrow(0, Vec::new())).unwrap(), outbox.len()), (0, 8));
    }

    #[test]
    fn a_large_buffer_is_freed() {
        let mut outbox = Outbox::default();
        for xid in 0..10 {
            outbox.push(Version::Of13, xid, &Message::EchoReply(vec![0; 60_000])).unwrap();
        }
        outbox.write_to(Narrow(usize::MAX, Vec::new())).unwrap();
        assert_eq!(outbox.bytes.capacity(), 0);
    }
}
