//! Processes that want to take over: one of them gets a copy, and takes the place of this one when it is ready.

use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use maple_core::state::Snapshot;

use super::Handle;
use crate::shard::mailbox::ShardQuery;
use crate::takeover::{Copied, Successor, send_copy};

/// Processes that want to take over.
#[derive(Debug, Default)]
pub(crate) struct Succession {
    /// Whether the program would let them.
    is_served: AtomicBool,
    /// Whether one of them has a copy.
    is_begun: AtomicBool,
    ready: Mutex<Option<Successor>>,
}

/// While a process that wants to take over has a copy: what changes is noted for it.
pub(crate) struct Noting<'a> {
    handle: &'a Handle,
    is_over: bool,
}

impl Noting<'_> {
    /// The process is ready, so this one is to end.
    pub fn succeed(mut self, successor: Successor) {
        self.is_over = true;
        *self.handle.shared.succession.ready.lock().unwrap_or_else(PoisonError::into_inner) = Some(successor);
    }
}

impl Drop for Noting<'_> {
    /// The process has gone before it was ready.
    fn drop(&mut self) {
        if !self.is_over {
            self.handle.shared.archive.iter().for_each(|archive| drop(archive.journal.end_copy()));
            self.handle.shared.succession.is_begun.store(false, Ordering::Relaxed);
        }
    }
}

impl Handle {
    /// From now on [`Handle::successor`] is looked at.
    pub fn serve_successors(&self) {
        self.shared.succession.is_served.store(true, Ordering::Relaxed);
    }

    /// The process that is ready to take over ([`crate::Controller::hand_over`]).
    pub fn successor(&self) -> Option<Successor> {
        self.shared.succession.ready.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Another process wants to take over. `None` if the program hands nothing over, or another one was quicker.
    pub(crate) fn begin_succession(&self) -> Option<Noting<'_>> {
        let Succession { is_served, is_begun, .. } = &self.shared.succession;
        let may_begin = is_served.load(Ordering::Relaxed) && !is_begun.swap(true, Ordering::Relaxed);
        may_begin.then_some(Noting { handle: self, is_over: false })
    }

    /// Sends a process that wants to take over a copy. Returns the state that it has.
    ///
    /// # Errors
    /// If something can't be read, a worker is late ([`LateShard`](super::queries::LateShard)), or that process has gone.
    pub(crate) fn send_copy(&self, to: &mut UnixStream) -> io::Result<Arc<Snapshot>> {
        let copies = self.query_all(ShardQuery::Copies).map_err(io::Error::other)?;
        let copied = Copied {
            listening: self.shared.about.listening().to_vec(),
            state_file: self.shared.about.state_file().map(Path::to_owned),
            archive: self.shared.archive.as_deref(),
            probe_key: self.shared.about.probe_key(),
            switches: copies.into_iter().flatten().collect(),
        };
        send_copy(to, self.store(), copied)
    }
}
