//! The end of a shard, and what it does before: decide the packets that it has read, if another process will go on with
//! its connections.

use std::time::Duration;

use crossbeam_channel::Sender;
use maple_core::engine::Time;

use super::mailbox::ReleasedSockets;
use crate::time::{Clock, until};

/// The time for which a shard that has stopped reading decides the packets that it has read. Chosen: as long as a turn
/// should take at most. The rest are handed over.
const LAST_WORK: Duration = Duration::from_millis(20);

/// Whether a shard ends, and who goes on.
#[derive(Debug, Default)]
pub(super) struct ShardEnd {
    is_stopping: bool,
    /// The state of the last work, if another process will go on with the connections. Nothing is read from sockets
    /// then.
    finishing: Option<Finishing>,
    /// The receiver of the sockets, if another process goes on with the connections.
    heir: Option<Sender<ReleasedSockets>>,
}

#[derive(Debug)]
struct Finishing {
    since: Time,
    /// The thread that waits until it is done.
    to: Option<Sender<()>>,
}

impl ShardEnd {
    /// Ends the shard after this turn.
    pub fn stop(&mut self) {
        self.is_stopping = true;
    }

    /// Ends the shard after this turn, and gives its sockets away.
    pub fn hand_over(&mut self, to: Sender<ReleasedSockets>) {
        (self.is_stopping, self.heir) = (true, Some(to));
    }

    /// Stops reading sockets. The thread is answered when the last work is done.
    pub fn finish(&mut self, now: Time, to: Sender<()>) {
        self.finishing = Some(Finishing { since: now, to: Some(to) });
    }

    /// Reports whether the shard ends after this turn.
    pub fn is_stopping(&self) -> bool {
        self.is_stopping
    }

    /// Reports whether sockets are no longer read.
    pub fn is_finishing(&self) -> bool {
        self.finishing.is_some()
    }

    /// Answers the thread that waits for the last work, if that is done or takes too long.
    pub fn end_turn(&mut self, clock: &Clock, is_done: bool) {
        if let Some(finishing) = &mut self.finishing
            && (is_done || until(finishing.since, clock.now()) >= LAST_WORK)
            && let Some(to) = finishing.to.take()
        {
            _ = to.send(());
        }
    }

    /// Takes the receiver of the sockets.
    pub fn take_heir(&mut self) -> Option<Sender<ReleasedSockets>> {
        self.heir.take()
    }
}
