//! The Unix socket of `maple show` and `maple state`: one JSON request a line in, one JSON answer a line out.
//!
//! An answer is `{"ok": …}` or `{"error": "…"}`; to a watch there is one after the other. Only the controller's user and
//! root are answered, and only they are asked (`private.rs`). One thread accepts, and each client has one of a few more; none of them is a shard, so a
//! slow client delays nobody's packets.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};

pub use super::json::{Invalidate, Request, Show};
use super::json::{answer, request};
pub use super::schema::SCHEMA;
use super::state;
pub use super::state::{Place, State};
use super::{Handle, private};

/// Most clients at a time.
const CLIENTS: usize = 16;
/// How long a client may be silent, or not read its answer.
const PATIENCE: Duration = Duration::from_secs(30);
/// Longest request in bytes.
const LONGEST: u64 = 64 * 1024;

/// Why a question to the control socket has no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// No controller listens there.
    #[error("no controller at {path}: {error}")]
    NotThere {
        /// The socket's path.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Another user listens there.
    #[error("{path} belongs to user {user}, who is neither root nor who asks; nothing is asked")]
    Stranger {
        /// The socket's path.
        path: PathBuf,
        /// The user's number.
        user: u32,
    },
    /// The connection failed.
    #[error("the controller does not answer: {0}")]
    Io(#[from] io::Error),
    /// The answer is not JSON.
    #[error("the controller's answer is not understood: {0}")]
    Garbled(#[from] serde_json::Error),
    /// The controller refused the request.
    #[error("{0}")]
    Refused(String),
    /// The controller closed the connection without an answer, or, while it was followed, behind the last one.
    #[error("the controller closed the connection: it has stopped, or is about to")]
    Closed,
}

/// Where the control socket stands unless another place is asked for: in a folder of the user's own.
pub fn default_path() -> PathBuf {
    private::folder().join("control.sock")
}

/// Asks the controller behind a control socket.
///
/// # Errors
/// [`AskError`] if there is no controller, or it refuses the request.
pub fn ask(path: &Path, request: &Request) -> Result<Value, AskError> {
    let stream = send(path, request)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut text = String::new();
    match BufReader::new(stream).read_line(&mut text)? {
        0 => Err(AskError::Closed),
        _ => understood(&text),
    }
}

/// Asks for something that has many answers, and hands out each as it comes, until `each` says that it is enough.
///
/// # Errors
/// [`AskError`] if there is no controller, it refuses the request, or it stops.
pub fn follow(path: &Path, request: &Request, mut each: impl FnMut(Value) -> bool) -> Result<(), AskError> {
    let mut reader = BufReader::new(send(path, request)?);
    let mut text = String::new();
    while reader.read_line(&mut text)? > 0 {
        if !each(understood(&text)?) {
            return Ok(());
        }
        text.clear();
    }
    Err(AskError::Closed)
}

fn send(path: &Path, request: &Request) -> Result<UnixStream, AskError> {
    let mut stream = UnixStream::connect(path).map_err(|error| AskError::NotThere { path: path.to_owned(), error })?;
    if let Some(user) = private::stranger(&stream)? {
        return Err(AskError::Stranger { path: path.to_owned(), user });
    }
    let mut line = serde_json::to_string(request)?;
    line.push('\n');
    match stream.write_all(line.as_bytes()) {
        // Who was turned away can still read why.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(stream),
    }
}

fn understood(text: &str) -> Result<Value, AskError> {
    let mut answer: Value = serde_json::from_str(text)?;
    match answer.get("error").and_then(Value::as_str) {
        Some(error) => Err(AskError::Refused(error.to_owned())),
        None => Ok(answer["ok"].take()),
    }
}

/// A control socket that is open. Dropping it closes and removes it.
pub(crate) struct ControlSocket {
    path: PathBuf,
    closing: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl ControlSocket {
    /// Opens the socket; one that a dead controller left behind is replaced.
    pub fn open(path: &Path, handle: Handle) -> io::Result<ControlSocket> {
        if UnixStream::connect(path).is_ok() {
            return Err(io::Error::new(io::ErrorKind::AddrInUse, "another controller listens on it"));
        }
        let folder = private::folder();
        if path.parent() == Some(&folder) {
            private::make_private(&folder)?;
        }
        let listener = private::bind(path)?;
        let closing = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&closing);
        let thread =
            std::thread::Builder::new().name("control".into()).spawn(move || serve(&listener, &handle, &seen))?;
        Ok(ControlSocket { path: path.to_owned(), closing, thread: Some(thread) })
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        self.closing.store(true, Ordering::Relaxed);
        // The thread waits for a client; this is one. If it can't be reached it has ended already.
        let reached = UnixStream::connect(&self.path).is_ok();
        if let Some(thread) = self.thread.take().filter(|_| reached)
            && thread.join().is_err()
        {
            tracing::error!("the control thread panicked");
        }
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::debug!(path = %self.path.display(), %error, "can't remove the control socket");
        }
    }
}

/// Accepts clients until the socket closes.
fn serve(listener: &UnixListener, handle: &Handle, closing: &AtomicBool) {
    let clients = Arc::new(AtomicUsize::new(0));
    for stream in listener.incoming() {
        if closing.load(Ordering::Relaxed) {
            return;
        }
        let stream = match stream {
            Ok(stream) => stream,
            Err(error) => {
                tracing::warn!(%error, "can't accept a control client");
                std::thread::sleep(Duration::from_millis(100));
                continue;
            }
        };
        if clients.fetch_add(1, Ordering::Relaxed) >= CLIENTS {
            clients.fetch_sub(1, Ordering::Relaxed);
            tracing::warn!("a control client was turned away: {CLIENTS} are connected");
            turn_away(stream);
            continue;
        }
        let (handle, counted) = (handle.clone(), Arc::clone(&clients));
        let client = move || {
            if let Err(error) = converse(&handle, stream) {
                tracing::debug!(%error, "a control client's connection failed");
            }
            counted.fetch_sub(1, Ordering::Relaxed);
        };
        if let Err(error) = std::thread::Builder::new().name("control-client".into()).spawn(client) {
            clients.fetch_sub(1, Ordering::Relaxed);
            tracing::warn!(%error, "can't serve a control client");
        }
    }
}

/// Tells a client why it is not served. It may have asked already or not: the answer is the same.
fn turn_away(mut stream: UnixStream) {
    let error = format!("{CLIENTS} programs are connected to the controller, and it serves no more at a time");
    // A few bytes into an empty buffer: this does not wait.
    if let Err(error) = write_line(&mut stream, &json!({ "error": error })) {
        tracing::debug!(%error, "a control client's connection failed");
    }
}

/// Answers one client's requests until it closes.
fn converse(handle: &Handle, mut stream: UnixStream) -> io::Result<()> {
    if let Some(user) = private::stranger(&stream)? {
        tracing::warn!(user, "another user's control client was turned away");
        return write_line(&mut stream, &json!({ "error": "only the controller's user and root are answered" }));
    }
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut writer = stream.try_clone()?;
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    loop {
        line.clear();
        reader.by_ref().take(LONGEST).read_line(&mut line)?;
        if !line.ends_with('\n') {
            return Ok(());
        }
        match request(&line) {
            Ok(Request::State(State::Watch(place))) => return watch(handle, &place, &mut writer),
            request => write_line(&mut writer, &answer(handle, request))?,
        }
    }
}

/// Tells one client of each change until it closes.
fn watch(handle: &Handle, place: &Place, writer: &mut UnixStream) -> io::Result<()> {
    let mut failure = Ok(());
    let watched = state::watch(handle, place, |value| {
        failure = match value {
            Some(value) => write_line(writer, &json!({ "ok": value })),
            None => still_there(writer),
        };
        failure.is_ok()
    });
    match watched {
        Ok(()) => failure,
        Err(refusal) => write_line(writer, &refusal.to_json()),
    }
}

/// An error if the client has closed.
fn still_there(stream: &mut UnixStream) -> io::Result<()> {
    stream.set_nonblocking(true)?;
    let read = stream.read(&mut [0; 64]);
    stream.set_nonblocking(false)?;
    match read {
        Ok(0) => Err(io::ErrorKind::ConnectionAborted.into()),
        Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
        _ => Ok(()),
    }
}

fn write_line(writer: &mut UnixStream, answer: &Value) -> io::Result<()> {
    writer.write_all(format!("{answer}\n").as_bytes())
}
