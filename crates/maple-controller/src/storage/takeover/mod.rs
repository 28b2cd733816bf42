//! Take-over: another process goes on with the connections of this one, so that no switch reconnects.
//!
//! # How
//!
//! The new process loads its policy, and asks on the control socket of the old one, twice:
//!
//! 1. For a copy of its knowledge ([`Takeover::ask`]): tables and variables, what a restart needs to know, and the
//!    switches with their descriptions and rules. The old one goes on, and notes from then on what changes. The new one
//!    gets ready (`controller/change_process.rs`): it presumes that everything is where it was, and f decides all
//!    remembered packets.
//! 2. For the changes since then, and the sockets (`Takeover::finish`). Only then the old one stops: its shards end,
//!    and it sends its sockets (`SCM_RIGHTS`) at once. The new one goes on with them. Then the old one closes the state
//!    file, and the stream when that is done. The new one opens the file then; until then its writes wait in memory.
//!
//! Packets that have no answer yet come with their connections: those that wait for their rules, or for the policy. The
//! new process treats them as if their switches had just sent them. All shards of the old process stop reading before
//! the first one gives up its sockets, so that no packet is on its way between two of them.
//!
//! The new one asks each switch for its features and description again, over the same connection. So of the old session
//! it needs only the version, and the start of a message that had not arrived whole.
//!
//! # What a switch sees
//!
//! A TLS session can't be handed over: such a connection ends, and its switch connects again by itself.
//!
//! Other switches see a pause, and then some requests. What they send meanwhile waits in the socket. Answers to
//! requests of the old process come before the answer to the new one's first request, because a switch answers in
//! order.
//!
//! # What may fail
//!
//! If the new process ends before it asks the second time, the old one goes on, and forgets what it noted. If one of
//! them ends later, the state file is as after a crash of a controller, and a new one can be started with it.
//!
//! # The messages
//!
//! A line, as for every answer of the control socket: `{"ok": N}`. Then N bytes: a value (`format.rs`), which is the
//! copy or a row (`socket_values.rs`). After the second answer one byte for each 64 descriptors that come with it:
//! listening sockets first, then connections. The first request has the number of this form. A process of another form
//! refuses it and goes on.

mod descriptors;
mod socket_values;

use std::borrow::Cow;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use maple_core::memory::Surroundings;
use maple_core::state::{Cell, Name, Snapshot, Store, Write as StateWrite};
use maple_wire::msg::PacketIn;
use maple_wire::{Dpid, Version};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::discovery::Key;
use crate::endpoint::{Endpoint, HandedListener};
use crate::storage::format::{Damaged, bytes, read};
use crate::storage::remember::{Archive, Archived, Rows};
pub(crate) use socket_values::CopiedSwitch;
use socket_values::{ConnectionRow, SecondAnswer};

/// Returns the first request of a process that wants to take over, with or without certificates for TLS.
pub(crate) fn request(has_tls: bool) -> &'static str {
    if has_tls { r#"{"takeover":{"tls":true,"form":4}}"# } else { r#"{"takeover":{"tls":false,"form":4}}"# }
}

/// The second request, when that process is ready.
pub(crate) const READY: &str = r#"{"takeover":"sockets"}"#;

/// The refusal of a process with TLS to one without, or the reverse.
pub(crate) const OTHER_TLS: &str = "one of the two has TLS and the other has not, so its listening sockets would be of no \
                                    use; start it again instead";
/// The maximum length of a line, in bytes. Chosen: as long as a request at the control socket may be.
const MAX_LINE: usize = 64 * 1024;
/// The maximum length of a value, in bytes. Chosen: the state of a large network fits; a length beyond it means that
/// the two do not speak the same protocol.
const MAX_BYTES: usize = 1 << 30;
/// The time that the old process may take to answer. It must exceed the time that a shard may take to stop, five
/// seconds.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// The time that the new process may take to get ready. It must exceed the time for which it prepares the decisions of
/// remembered packets, 60 seconds, and that of loading its policy.
pub(crate) const READINESS: Duration = Duration::from_secs(120);

/// Another controller whose work this process takes over: it has a copy, and is to get the sockets.
#[derive(Debug)]
pub struct Takeover {
    stream: UnixStream,
    pub(crate) copy: Copy,
}

/// The copied knowledge of the other controller.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Copy {
    pub listening: Vec<Endpoint>,
    pub state_file: Option<PathBuf>,
    /// The tables and variables that are known.
    pub names: Vec<Name>,
    /// Those of them that are kept in the file.
    pub kept: Vec<Name>,
    /// The contents of tables and variables.
    pub state: Vec<StateWrite>,
    /// The leaves and surroundings that it keeps for a restart.
    pub remembered: Option<Archived>,
    /// The key that signs its probes.
    pub probe_key: Key,
    pub switches: Vec<CopiedSwitch>,
}

/// The sockets and changes that one process hands over to another.
#[derive(Debug, Default)]
pub(crate) struct HandedOver {
    pub listeners: Vec<HandedListener>,
    pub connections: Vec<HandedConnection>,
    /// The tables and variables that are known.
    pub names: Vec<Name>,
    /// Their changes since the copy.
    pub state: Vec<StateWrite>,
    /// The leaves that came, changed or went.
    pub leaves: Rows,
    /// The current surroundings of switches.
    pub surroundings: Option<Surroundings>,
}

/// A connection whose handshake was done.
#[derive(Debug)]
pub(crate) struct HandedConnection {
    pub socket: TcpStream,
    pub dpid: Dpid,
    pub version: Version,
    /// The start of a message that has not arrived whole.
    pub partial: Vec<u8>,
    /// Packets that have no answer yet.
    pub packets: Vec<PacketIn>,
}

/// A process that has a copy and wants the sockets. Dropping this reports to it that the state file is closed.
#[derive(Debug)]
pub struct Successor {
    pub(crate) stream: UnixStream,
    /// The state of its copy.
    pub(crate) base: Arc<Snapshot>,
}

impl Takeover {
    /// Asks the controller with this control socket for a copy of its knowledge. That controller goes on. `has_tls`
    /// says whether this process has certificates for TLS.
    ///
    /// # Errors
    /// The system's error if there is no such controller, or its refusal.
    pub fn ask(control: &Path, has_tls: bool) -> io::Result<Takeover> {
        let mut stream = UnixStream::connect(control)?;
        stream.set_read_timeout(Some(ANSWER_TIMEOUT))?;
        writeln!(stream, "{}", request(has_tls))?;
        let copy = decoded(&receive(&mut stream)?)?;
        Ok(Takeover { stream, copy })
    }

    /// Asks for the sockets and for the changes since the copy. The other controller ends then. Also returns a function
    /// that waits until it has closed the state file.
    ///
    /// # Errors
    /// The system's error if the other controller has gone.
    pub(crate) fn finish(mut self) -> io::Result<(HandedOver, impl FnOnce() + Send + 'static)> {
        writeln!(self.stream, "{READY}")?;
        let row = receive(&mut self.stream)?;
        let SecondAnswer { listeners, connections, names, state, leaves, surroundings } = decoded(&row)?;
        let mut sockets = descriptors::receive(&self.stream, listeners.len() + connections.len())?;
        let of_switches = sockets.split_off(listeners.len());
        let connection = |(row, socket): (ConnectionRow<'_>, OwnedFd)| row.connection(TcpStream::from(socket));
        let listener = |(socket, has_tls)| HandedListener { socket, has_tls };
        let handed = HandedOver {
            listeners: sockets.into_iter().map(TcpListener::from).zip(listeners).map(listener).collect(),
            connections: connections.into_iter().zip(of_switches).map(connection).collect(),
            names: names.into_owned(),
            state: state.into_owned(),
            leaves: leaves.into_owned(),
            surroundings: surroundings.into_owned(),
        };
        let mut stream = self.stream;
        let released = move || match stream.read(&mut [0]) {
            Ok(_) => {}
            Err(error) => tracing::warn!("the other controller does not close the state file: {error}"),
        };
        Ok((handed, released))
    }
}

impl Successor {
    /// Sends the sockets and changes to the successor.
    ///
    /// # Errors
    /// The system's error if that process has gone.
    pub(crate) fn send(&mut self, handed: &HandedOver) -> io::Result<()> {
        let row = SecondAnswer {
            listeners: handed.listeners.iter().map(|listener| listener.has_tls).collect(),
            connections: handed.connections.iter().map(ConnectionRow::from_connection).collect(),
            names: Cow::Borrowed(&handed.names),
            state: Cow::Borrowed(&handed.state),
            leaves: Cow::Borrowed(&handed.leaves),
            surroundings: Cow::Borrowed(&handed.surroundings),
        };
        send(&mut self.stream, &row)?;
        let listeners = handed.listeners.iter().map(|listener| listener.socket.as_fd());
        let sockets: Vec<BorrowedFd<'_>> =
            listeners.chain(handed.connections.iter().map(|one| one.socket.as_fd())).collect();
        descriptors::send(&self.stream, &sockets)
    }
}

/// The copied knowledge of a controller, apart from its store.
pub(crate) struct Copied<'a> {
    pub listening: Vec<Endpoint>,
    pub state_file: Option<PathBuf>,
    pub archive: Option<&'a Archive>,
    pub probe_key: Key,
    pub switches: Vec<CopiedSwitch>,
}

/// Sends a copy to a process that has asked. Returns the state in the copy.
///
/// # Errors
/// An error if the state file can't be read, or that process has gone.
pub(crate) fn send_copy(stream: &mut UnixStream, store: &Store, copied: Copied<'_>) -> io::Result<Arc<Snapshot>> {
    let Copied { listening, state_file, archive, probe_key, switches } = copied;
    let remembered = archive.map(Archive::copy).transpose().map_err(io::Error::other)?;
    let base = store.snapshot();
    let copy = Copy {
        listening,
        state_file,
        names: names_of(store),
        kept: store.kept(),
        state: base.changes_since(&Snapshot::default()),
        remembered,
        probe_key,
        switches,
    };
    send(stream, &copy)?;
    Ok(base)
}

/// Returns the names of the tables and variables that are known.
pub(crate) fn names_of(store: &Store) -> Vec<Name> {
    store.tables().into_iter().chain(store.vars()).collect()
}

fn send(stream: &mut UnixStream, row: &impl Serialize) -> io::Result<()> {
    let row = bytes(row).map_err(|error| io::Error::other(format!("what is known can't be written: {error}")))?;
    writeln!(stream, "{}", json!({ "ok": row.len() }))?;
    stream.write_all(&row)
}

fn decoded<'a, T: Deserialize<'a>>(row: &'a [u8]) -> io::Result<T> {
    read(row).map_err(|Damaged(what)| invalid(what))
}

fn receive(stream: &mut UnixStream) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    // Not a byte more is read, because descriptors come with later ones.
    while line.last() != Some(&b'\n') {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        line.push(byte[0]);
        if line.len() > MAX_LINE {
            return Err(invalid("a line without end"));
        }
    }
    let answer: Value = serde_json::from_slice(&line)?;
    if let Some(refusal) = answer["error"].as_str() {
        return Err(io::Error::other(refusal.to_owned()));
    }
    let length = answer["ok"].as_u64().and_then(|length| usize::try_from(length).ok());
    let length = length.filter(|length| *length <= MAX_BYTES).ok_or_else(|| invalid("no length"))?;
    let mut row = vec![0; length];
    stream.read_exact(&mut row)?;
    Ok(row)
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the other controller sent something unexpected: {what}"))
}

/// Returns the cell of a write, for messages; `None` if it is not of a table or variable.
pub(crate) fn place(write: &StateWrite) -> Option<Cell> {
    match write {
        StateWrite::Table { table, key, .. } => Some(Cell::Table(table.clone(), key.clone())),
        StateWrite::Var { name, .. } => Some(Cell::Var(name.clone())),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
