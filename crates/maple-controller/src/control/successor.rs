//! Takeover by another process: one process gets a copy, and takes the place of this one when it is ready.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use maple_core::state::Snapshot;
use parking_lot::Mutex;

use super::{Handle, Operations};
use crate::shard::mailbox::ShardQuery;
use crate::storage::takeover::{Copied, Successor, send_copy};

/// The state of takeovers by other processes.
#[derive(Debug, Default)]
pub(crate) struct TakeoverState {
    /// Whether the program allows takeovers.
    is_served: AtomicBool,
    /// Whether a process has a copy.
    is_begun: AtomicBool,
    ready: Mutex<Option<Successor>>,
}

/// A takeover that has begun: a process has a copy, and the changes since are noted for it.
pub(crate) struct NotedTakeover<'a> {
    handle: &'a Handle,
    is_over: bool,
}

impl NotedTakeover<'_> {
    /// Passes on the process, which is ready, to the program, which then ends.
    pub fn succeed(mut self, successor: Successor) {
        self.is_over = true;
        *self.handle.shared.succession.takeover.ready.lock() = Some(successor);
    }
}

impl Drop for NotedTakeover<'_> {
    /// Stops noting changes, if the process has gone before it was ready.
    fn drop(&mut self) {
        if !self.is_over {
            if let Some(archive) = &self.handle.shared.kept.archive {
                drop(archive.journal.end_copy());
            }
            self.handle.shared.succession.takeover.is_begun.store(false, Ordering::Relaxed);
        }
    }
}

impl Handle {
    /// Begins a takeover by another process. Returns `None` if the program allows none, or one has begun already.
    pub(crate) fn begin_takeover(&self) -> Option<NotedTakeover<'_>> {
        let TakeoverState { is_served, is_begun, .. } = &self.shared.succession.takeover;
        let may_begin = is_served.load(Ordering::Relaxed) && !is_begun.swap(true, Ordering::Relaxed);
        may_begin.then_some(NotedTakeover { handle: self, is_over: false })
    }

    /// Sends a copy to a process that wants to take over. Returns the state in the copy.
    ///
    /// # Errors
    /// The system's error, if something can't be read or that process has gone; or that of a shard that is late
    /// ([`LateShard`](super::queries::LateShard)).
    pub(crate) fn send_copy(&self, to: &mut UnixStream) -> io::Result<Arc<Snapshot>> {
        let copies = self.query_all(ShardQuery::Copies).map_err(io::Error::other)?;
        let copied = Copied {
            listening: self.shared.about.listening().to_vec(),
            state_file: self.shared.about.state_file().map(Path::to_owned),
            archive: self.shared.kept.archive.as_deref(),
            probe_key: self.shared.about.probe_key(),
            switches: copies.into_iter().flatten().collect(),
        };
        send_copy(to, self.store(), copied)
    }
}

impl Operations<'_> {
    /// Allows takeovers. The program then has to check [`Operations::successor`]. A controller that is one of several
    /// allows none: a process that takes its connections over would not know its roles.
    pub fn serve_successors(&self) {
        if self.handle.shared.succession.role.is_some() {
            return;
        }
        self.handle.shared.succession.takeover.is_served.store(true, Ordering::Relaxed);
    }

    /// Returns the process that is ready to take over, once ([`crate::Controller::hand_over`]).
    pub fn successor(&self) -> Option<Successor> {
        self.handle.shared.succession.takeover.ready.lock().take()
    }
}
