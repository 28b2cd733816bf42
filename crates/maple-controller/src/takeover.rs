//! Take-over: another process goes on with the connections of this one, so that no switch reconnects.
//!
//! # How
//!
//! The new process loads its policy, and asks on the control socket. The old one ends as ever: its shards stop, and what
//! it remembers is written into the state file. Only its sockets stay open. Once the file is closed, it sends the
//! sockets (`SCM_RIGHTS`), with what is to be known of them, and ends. The new process begins with these connections as
//! with switches that have come back (`restart.rs`). It asks each for its features and description again, over
//! the same connection, so nothing about the old session has to be known but its version, and the start of a message
//! that had not arrived whole.
//!
//! # What a switch sees
//!
//! A session of TLS can't be handed over: such a connection ends, and its switch comes back by itself. To others:
//!
//! A pause, and then some requests. What it sends meanwhile waits in the socket. Answers to requests of the old process
//! come before the answer to the new one's first request, because a switch answers in order.
//!
//! # The messages
//!
//! A line, as for every answer of the control socket: `{"ok": N}`. Then N bytes of JSON (`Contents`), and then one
//! byte for each `BATCH` descriptors that come with it: listening sockets first, then connections.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::iter::repeat;
use std::mem::MaybeUninit;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use maple_core::state::{Cell, Name, Store, Write as StateWrite};
use maple_wire::Version;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::state_json::{from_json, to_json};

/// What a process that wants to take over says, without or with certificates for TLS.
pub(crate) fn request(has_tls: bool) -> &'static str {
    if has_tls { r#"{"takeover":"tls"}"# } else { r#"{"takeover":null}"# }
}

/// Why a process with TLS hands nothing over to one without, or the reverse.
pub(crate) const OTHER_TLS: &str = "one of the two has TLS and the other has not, so its listening sockets would be of no \
                                    use; start it again instead";
/// How many descriptors go with a byte.
const BATCH: usize = 64;
/// The most bytes of JSON.
const MAX_BYTES: usize = 1 << 30;
/// How long the old process may take to end.
const PATIENCE: Duration = Duration::from_secs(30);

/// What one process hands over to another.
#[derive(Debug, Default)]
pub struct HandedOver {
    /// Each with whether its connections begin with TLS.
    pub(crate) listeners: Vec<(TcpListener, bool)>,
    pub(crate) connections: Vec<HandedConnection>,
    /// The tables and variables that are known, and what they hold.
    pub(crate) names: Vec<Name>,
    pub(crate) state: Vec<StateWrite>,
}

/// A connection whose handshake was done.
#[derive(Debug)]
pub(crate) struct HandedConnection {
    pub socket: TcpStream,
    pub version: Version,
    /// The start of a message.
    pub partial: Vec<u8>,
}

#[derive(Serialize, Deserialize)]
struct Contents {
    listeners: usize,
    /// Whether connections of each begin with TLS.
    #[serde(default)]
    tls: Vec<bool>,
    /// The version of each connection, and the start of a message.
    connections: Vec<(u8, Vec<u8>)>,
    names: Vec<String>,
    /// Names, keys and values of tables; a variable has no key.
    state: Vec<(String, Option<Value>, Value)>,
}

impl HandedOver {
    /// The number of connections to switches.
    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    /// The same with these listening sockets, each with whether its connections begin with TLS, unless there are some.
    pub fn listening(mut self, listeners: Vec<(TcpListener, bool)>) -> HandedOver {
        if self.listeners.is_empty() {
            self.listeners = listeners;
        }
        self
    }

    /// Asks the controller with this control socket for what it has. It ends then. `has_tls` says whether this process
    /// has certificates for TLS.
    ///
    /// # Errors
    /// If there is none, or it refuses; then it goes on.
    pub fn ask(control: &Path, has_tls: bool) -> io::Result<HandedOver> {
        let mut stream = UnixStream::connect(control)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        writeln!(stream, "{}", request(has_tls))?;
        let mut line = Vec::new();
        // Not a byte more, because descriptors come with later ones.
        while line.last() != Some(&b'\n') {
            let mut byte = [0];
            stream.read_exact(&mut byte)?;
            line.push(byte[0]);
        }
        let answer: Value = serde_json::from_slice(&line)?;
        if let Some(refusal) = answer["error"].as_str() {
            return Err(io::Error::other(refusal.to_owned()));
        }
        let length = answer["ok"].as_u64().and_then(|length| usize::try_from(length).ok());
        let length = length.filter(|length| *length <= MAX_BYTES).ok_or_else(|| invalid("no length"))?;
        let mut text = vec![0; length];
        stream.read_exact(&mut text)?;
        let Contents { listeners, tls, connections, names, state } = serde_json::from_slice(&text)?;
        let mut sockets = receive(&stream, listeners + connections.len())?;
        let of_switches = sockets.split_off(listeners);
        let connection = |((version, partial), socket): ((u8, Vec<u8>), OwnedFd)| {
            let version = [Version::Of10, Version::Of13].into_iter().find(|known| *known as u8 == version);
            let version = version.ok_or_else(|| invalid("an unknown version of OpenFlow"))?;
            Ok(HandedConnection { socket: socket.into(), version, partial })
        };
        Ok(HandedOver {
            listeners: sockets.into_iter().map(TcpListener::from).zip(tls.into_iter().chain(repeat(false))).collect(),
            connections: connections.into_iter().zip(of_switches).map(connection).collect::<io::Result<_>>()?,
            names: names.into_iter().map(Name::from).collect(),
            state: state.into_iter().map(state_write).collect::<Option<_>>().ok_or_else(|| invalid("no state"))?,
        })
    }

    /// Sends everything to the process that has asked on this stream.
    ///
    /// # Errors
    /// If that process has gone.
    pub fn send(self, mut stream: UnixStream) -> io::Result<()> {
        let contents = Contents {
            listeners: self.listeners.len(),
            tls: self.listeners.iter().map(|(_, is_tls)| *is_tls).collect(),
            connections: self.connections.iter().map(|one| (one.version as u8, one.partial.clone())).collect(),
            names: self.names.iter().map(ToString::to_string).collect(),
            state: self.state.iter().filter_map(state_row).collect(),
        };
        let text = serde_json::to_vec(&contents)?;
        writeln!(stream, "{}", json!({ "ok": text.len() }))?;
        stream.write_all(&text)?;
        let listeners = self.listeners.iter().map(|(listener, _)| listener.as_fd());
        let sockets: Vec<BorrowedFd<'_>> =
            listeners.chain(self.connections.iter().map(|one| one.socket.as_fd())).collect();
        for batch in sockets.chunks(BATCH) {
            let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(BATCH))];
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            if !ancillary.push(SendAncillaryMessage::ScmRights(batch)) {
                return Err(invalid("too many descriptors"));
            }
            sendmsg(&stream, &[IoSlice::new(&[0])], &mut ancillary, SendFlags::empty())?;
        }
        Ok(())
    }
}

/// Receives so many descriptors.
fn receive(stream: &UnixStream, count: usize) -> io::Result<Vec<OwnedFd>> {
    let mut sockets = Vec::new();
    while sockets.len() < count {
        let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(BATCH))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        let received = recvmsg(stream, &mut [IoSliceMut::new(&mut byte)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
        if received.bytes == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let before = sockets.len();
        for message in ancillary.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                sockets.extend(rights);
            }
        }
        if sockets.len() == before {
            return Err(invalid("fewer sockets than were announced"));
        }
    }
    if sockets.len() > count { Err(invalid("more sockets than were announced")) } else { Ok(sockets) }
}

/// The tables and variables that are known, and what they hold.
pub(crate) fn state_of(store: &Store) -> (Vec<Name>, Vec<StateWrite>) {
    let names = store.tables().into_iter().chain(store.vars()).collect();
    let state = &*store.snapshot();
    let rows = state.tables().flat_map(|table| {
        let rows = state.table(table).into_iter().flatten();
        rows.map(|(key, value)| StateWrite::Table {
            table: table.clone(),
            key: key.clone(),
            value: Some(value.clone()),
        })
    });
    let var = |name| Some(StateWrite::Var { name: std::clone::Clone::clone(name), value: state.var(name).cloned() });
    (names, rows.chain(state.vars().filter_map(var)).collect())
}

fn state_row(write: &StateWrite) -> Option<(String, Option<Value>, Value)> {
    match write {
        StateWrite::Table { table, key, value } => {
            Some((table.to_string(), Some(to_json(key)), to_json(value.as_ref()?)))
        }
        StateWrite::Var { name, value } => Some((name.to_string(), None, to_json(value.as_ref()?))),
        _ => None,
    }
}

fn state_write((name, key, value): (String, Option<Value>, Value)) -> Option<StateWrite> {
    let value = Some(from_json(&value).ok()?);
    Some(match key {
        Some(key) => StateWrite::Table { table: name.into(), key: from_json(&key).ok()?, value },
        None => StateWrite::Var { name: name.into(), value },
    })
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the other controller sent something unexpected: {what}"))
}

/// What a cell is called, for messages.
pub(crate) fn place(write: &StateWrite) -> Option<Cell> {
    match write {
        StateWrite::Table { table, key, .. } => Some(Cell::Table(table.clone(), key.clone())),
        StateWrite::Var { name, .. } => Some(Cell::Var(name.clone())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufRead as _;

    use super::*;

    fn pair() -> (TcpListener, TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let near = TcpStream::connect(listener.local_addr().expect("an address")).expect("it listens");
        let far = listener.accept().expect("it was connected").0;
        (listener, near, far)
    }

    /// What another process receives of this, when it asks.
    fn handed(handed: HandedOver) -> io::Result<HandedOver> {
        let folder = std::env::temp_dir().join(format!(
            "maple-takeover-{}-{:?}",
            std::process::id(),
            std::thread::current().id()
        ));
        let _ = std::fs::remove_file(&folder);
        let socket = std::os::unix::net::UnixListener::bind(&folder).expect("a socket");
        let sender = std::thread::spawn(move || {
            let (stream, _) = socket.accept().expect("it asks");
            let mut line = String::new();
            io::BufReader::new(stream.try_clone().expect("a descriptor")).read_line(&mut line).expect("a line");
            assert_eq!(line.trim_end(), request(false));
            handed.send(stream)
        });
        let received = HandedOver::ask(&folder, false);
        sender.join().expect("it sends").expect("it is received");
        std::fs::remove_file(&folder).expect("it is there");
        received
    }

    #[test]
    fn sockets_arrive_open_and_in_order_with_what_is_to_be_known_of_them() {
        let (listener, ..) = pair();
        let address = listener.local_addr().expect("an address");
        let (mut far, mut connections) = (Vec::new(), Vec::new());
        // More than go with one byte.
        for n in 0..150u8 {
            let (_, near, other) = pair();
            let version = if n.is_multiple_of(3) { Version::Of10 } else { Version::Of13 };
            connections.push(HandedConnection { socket: near, version, partial: vec![n; usize::from(n % 4)] });
            far.push(other);
        }
        let state = vec![
            StateWrite::Table { table: "t".into(), key: 1.into(), value: Some("one".into()) },
            StateWrite::Var { name: "v".into(), value: Some(true.into()) },
        ];
        let names: Vec<Name> = vec!["empty".into(), "t".into(), "v".into()];
        let sent =
            HandedOver { listeners: vec![(listener, true)], connections, names: names.clone(), state: state.clone() };
        let received = handed(sent).expect("all of it");
        assert_eq!((&received.names, &received.state), (&names, &state));
        let HandedOver { listeners, connections, .. } = received;
        assert!(listeners[0].1);
        assert_eq!(listeners[0].0.local_addr().expect("an address"), address);
        TcpStream::connect(address).expect("it listens still");
        for (n, (connection, mut far)) in (0u8..).zip(connections.into_iter().zip(far)) {
            assert_eq!(
                (connection.partial.len(), connection.version == Version::Of10),
                (usize::from(n % 4), n % 3 == 0)
            );
            far.write_all(&[n]).expect("it is open");
            let mut byte = [0];
            (&connection.socket).read_exact(&mut byte).expect("it is open");
            assert_eq!(byte, [n]);
        }
        assert!(handed(HandedOver::default()).expect("nothing").connections.is_empty());
    }

    #[test]
    fn nobody_to_take_over_from_is_an_error() {
        assert!(HandedOver::ask(Path::new("/nowhere/control"), false).is_err());
    }
}
