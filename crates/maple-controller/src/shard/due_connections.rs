//! The connections of a shard that have something to do: to be read, to be written, or at a time.
//!
//! The lists name connections by their slots, and may outlive them. An entry whose connection has ended has no effect.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use maple_core::engine::Time;

use super::connection::Connection;
use super::slots::Slots;

/// The maximum number of connections whose TLS handshake makes progress in one turn. Chosen: each may take some
/// milliseconds, and the others wait.
const HANDSHAKE_SHARE: usize = 4;

/// The lists of connections that have something to do.
#[derive(Debug, Default)]
pub(super) struct DueConnections {
    to_read: VecDeque<usize>,
    to_write: Vec<usize>,
    /// The deadlines by slot. An entry is valid only if the connection's `timer` has the same time.
    timers: BinaryHeap<Reverse<(Time, usize)>>,
}

/// The rest of a turn's share of reading.
pub(super) struct ReadShare {
    sockets: usize,
    handshakes: usize,
}

impl DueConnections {
    /// Queues a connection for reading, if it has data.
    pub fn want_read(&mut self, connection: &mut Connection) {
        let is_due = connection.input.is_readable && !connection.input.is_paused;
        if is_due && !std::mem::replace(&mut connection.queued.to_read, true) {
            self.to_read.push_back(connection.id.slot);
        }
    }

    /// Queues a connection for writing, if it has output.
    pub fn want_write(&mut self, connection: &mut Connection) {
        let is_due = !connection.outbox.is_empty() || connection.socket.has_output();
        if is_due && !std::mem::replace(&mut connection.queued.to_write, true) {
            self.to_write.push(connection.id.slot);
        }
    }

    /// Adds a connection's next deadline to the heap, unless the heap has an earlier one.
    pub fn arm(&mut self, connection: &mut Connection) {
        if let Some(deadline) = connection.deadline()
            && connection.queued.timer.is_none_or(|timer| deadline < timer)
        {
            connection.queued.timer = Some(deadline);
            self.timers.push(Reverse((deadline, connection.id.slot)));
        }
    }

    /// Returns the number of connections to read.
    pub fn reads(&self) -> usize {
        self.to_read.len()
    }

    /// Returns a turn's share of reading: each socket that is ready now, once.
    pub fn read_share(&self) -> ReadShare {
        ReadShare { sockets: self.to_read.len(), handshakes: HANDSHAKE_SHARE }
    }

    /// Takes the next connection to read. A TLS handshake beyond the share is put off.
    pub fn next_to_read(&mut self, share: &mut ReadShare, connections: &mut Slots) -> Option<usize> {
        while share.sockets > 0 {
            share.sockets -= 1;
            let slot = self.to_read.pop_front()?;
            // It may have ended since it was queued.
            let Some(connection) = connections.get(slot) else { continue };
            if connection.socket.is_shaking_hands() {
                if share.handshakes == 0 {
                    self.to_read.push_back(slot);
                    continue;
                }
                share.handshakes -= 1;
            }
            connection.queued.to_read = false;
            if connection.input.is_readable && !connection.input.is_paused {
                return Some(slot);
            }
        }
        None
    }

    /// Takes the connections to write.
    pub fn take_to_write(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.to_write)
    }

    /// Takes back the buffer of connections to write, for its memory.
    pub fn give_back_to_write(&mut self, mut buffer: Vec<usize>) {
        // Closing a connection meanwhile may have queued more output.
        buffer.append(&mut self.to_write);
        self.to_write = buffer;
    }

    /// Returns the time of the next timer.
    pub fn deadline(&self) -> Option<Time> {
        self.timers.peek().map(|Reverse((time, _))| *time)
    }

    /// Takes the next connection whose timer is due.
    pub fn next_due<'a>(&mut self, now: Time, connections: &'a mut Slots) -> Option<&'a mut Connection> {
        loop {
            let Reverse((time, slot)) = self.timers.peek().copied().filter(|Reverse((time, _))| *time <= now)?;
            self.timers.pop();
            let timer = connections.get(slot).map(|connection| &mut connection.queued.timer);
            if timer.is_some_and(|timer| timer.take_if(|timer| *timer == time).is_some()) {
                return connections.get(slot);
            }
        }
    }
}
