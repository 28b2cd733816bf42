//! Connections in memory, for shards in simulated time. [`ControllerEnd`] is the controller's
//! [`Socket`](super::connection_socket::Socket), and a test holds the other end, the [`SwitchEnd`].

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;

use maple_core::engine::Time;
use parking_lot::{Mutex, MutexGuard};

/// A connection in memory. One mutex holds both directions. The two ends are used alternately, never at once.
#[derive(Debug, Default)]
struct Buffers {
    to_controller: VecDeque<u8>,
    to_switch: Vec<u8>,
    /// The time at which the oldest unread data for the controller arrived.
    since: Option<Time>,
    /// Whether the switch's end has closed its direction.
    is_ended: bool,
    /// Whether the switch's end is broken: writing to it fails.
    is_broken: bool,
    /// Whether the controller's end has closed its direction, or is dropped.
    is_closed: bool,
}

fn lock(buffers: &Mutex<Buffers>) -> MutexGuard<'_, Buffers> {
    buffers.lock()
}

/// Opens a connection.
pub(crate) fn open() -> (ControllerEnd, SwitchEnd) {
    let buffers = Arc::default();
    (ControllerEnd(Arc::clone(&buffers)), SwitchEnd(buffers))
}

/// The controller's end of a connection.
#[derive(Debug)]
pub struct ControllerEnd(Arc<Mutex<Buffers>>);

impl ControllerEnd {
    /// Ends the stream to the switch.
    pub(super) fn close_writing(&self) {
        lock(&self.0).is_closed = true;
    }

    /// Returns the number of bytes that the controller has not read.
    pub(super) fn unread(&self) -> u64 {
        lock(&self.0).to_controller.len() as u64
    }

    /// Reads what the switch has sent, as a socket that does not block.
    pub(super) fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut buffers = lock(&self.0);
        if buffers.to_controller.is_empty() && !buffers.is_ended {
            return Err(ErrorKind::WouldBlock.into());
        }
        let read = buffers.to_controller.read(buffer)?;
        if buffers.to_controller.is_empty() {
            buffers.since = None;
        }
        Ok(read)
    }

    /// Writes to the switch, as a socket that does not block.
    pub(super) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut buffers = lock(&self.0);
        if buffers.is_broken {
            return Err(ErrorKind::BrokenPipe.into());
        }
        buffers.to_switch.write(bytes)
    }

    /// Returns when data to read arrived, and whether the stream has ended; `None` if there is nothing to read.
    pub(super) fn readable(&self) -> Option<(Option<Time>, bool)> {
        let buffers = lock(&self.0);
        (buffers.since.is_some() || buffers.is_ended).then_some((buffers.since, buffers.is_ended))
    }
}

impl Drop for ControllerEnd {
    fn drop(&mut self) {
        self.close_writing();
    }
}

/// The switch's end of a connection.
#[derive(Clone, Debug)]
pub struct SwitchEnd(Arc<Mutex<Buffers>>);

impl SwitchEnd {
    /// Sends bytes to the controller; they arrive at once.
    pub fn send(&self, now: Time, bytes: &[u8]) {
        let mut buffers = lock(&self.0);
        buffers.to_controller.extend(bytes);
        buffers.since.get_or_insert(now);
    }

    /// Closes the connection. Sent bytes are still read; further writes of the controller fail.
    pub fn hang_up(&self) {
        let mut buffers = lock(&self.0);
        (buffers.is_ended, buffers.is_broken) = (true, true);
    }

    /// Breaks the connection silently. Further writes of the controller fail, but it gets no end of the stream.
    pub fn break_off(&self) {
        lock(&self.0).is_broken = true;
    }

    /// Takes the bytes that the controller has written since the last call.
    pub fn take(&self) -> Vec<u8> {
        std::mem::take(&mut lock(&self.0).to_switch)
    }

    /// Reports whether the controller has closed the connection.
    pub fn is_closed(&self) -> bool {
        lock(&self.0).is_closed
    }

    /// Returns the number of bytes that the controller has not read.
    pub fn unread(&self) -> usize {
        lock(&self.0).to_controller.len()
    }
}
