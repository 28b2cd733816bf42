//! The sender of a request: a process on the control socket, or a client of the HTTP API.

use std::sync::Arc;

use maple_core::state::Writer;

use super::socket_access::PeerProcess;
use crate::storage::history::Changer;

/// The sender of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Asker {
    /// A process on the control socket.
    Process(PeerProcess),
    /// A client of the HTTP API, by the name of its token.
    Client(Arc<str>),
}

impl Asker {
    /// Returns the writer of what it writes by a request `state.VERB`.
    pub fn writer(&self, verb: &'static str) -> Writer {
        match self {
            Asker::Process(peer) => Writer::Command { verb, pid: peer.pid, user: peer.user },
            Asker::Client(name) => Writer::Client(Arc::clone(name)),
        }
    }

    /// Returns the one who makes another policy run.
    pub fn changer(&self) -> Changer {
        match self {
            Asker::Process(peer) => Changer::Process { pid: peer.pid, user: peer.user },
            Asker::Client(name) => Changer::Client(Arc::clone(name)),
        }
    }
}
