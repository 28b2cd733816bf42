//! The Unix socket of `maple show` and `maple state`: each line in is a JSON request, each line out a JSON answer.
//!
//! An answer is `{"ok": …}` or `{"error": "…"}`, with the version of the protocol; a watch has many answers. Both ends
//! talk only to the same user and to root (`socket_access.rs`). One thread accepts clients, and each client has a
//! thread of its own, up to a limit. None of these threads is a shard, so a slow client delays no packets.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use serde_json::{Value, json};

use super::answer::{answer, log_line};
use super::asker::Asker;
pub use super::live::Live;
pub use super::membership::ClusterRequest;
pub use super::plan::Fingerprint;
pub use super::protocol::{PROTOCOL, Protocol};
pub use super::reload::{CanaryAt, Tolerance};
pub use super::request::{Invalidate, PortText, Reload, Request, Show, TimeSpan};
use super::request::{RequestError, parse};
pub use super::schema::schema;
use super::socket_access::PeerProcess;
pub use super::state::{StatePlace, StateRequest};
use super::{Handle, live, membership, socket_access, state};
use crate::kept_files::KeptFile;
use crate::storage::takeover::{OTHER_TLS, READINESS, READY, Successor, request};

/// The maximum number of clients at a time. Chosen: each has a thread, and an operator has a few terminals.
const MAX_CLIENTS: usize = 16;
/// The time for which a client may be silent or leave its answer unread. It holds one of [`MAX_CLIENTS`] places
/// meanwhile. It must exceed the time that the slowest answer takes: 20 seconds for a change that waits for the
/// switches.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(30);
/// The name of the control socket.
const SOCKET: &str = "control.sock";
/// The time between two checks that a client which follows the log is still there. Chosen: its place is free again
/// within half a second.
const LOG_CHECK: Duration = Duration::from_millis(500);
/// The time between two checks that the socket is still at its path. Chosen: a socket that somebody deleted is back
/// before people try again.
const SOCKET_CHECK: Duration = Duration::from_secs(1);
/// The maximum length of a request, in bytes. `maple state load` sends its rows in parts that fit. Chosen: a plan with
/// its decisions fits, and clients take at most a megabyte together.
pub(super) const MAX_REQUEST: u64 = 64 * 1024;

/// The reason why a request to the control socket has no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// No controller listens on the socket.
    #[error("no controller at {path}: {error}")]
    Unreachable {
        /// The socket's path.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// Another user listens on the socket.
    #[error("{path} belongs to user {user}, who is neither root nor the current user; no request was sent")]
    OtherUser {
        /// The socket's path.
        path: PathBuf,
        /// The user's id.
        user: u32,
    },
    /// The connection failed.
    #[error("the controller does not answer: {0}")]
    Io(#[from] io::Error),
    /// The answer is not JSON.
    #[error("the controller's answer is not valid JSON: {0}")]
    InvalidAnswer(#[from] serde_json::Error),
    /// The controller refused the request.
    #[error("{error}")]
    Refused {
        /// The reason.
        error: String,
        /// The member of the request that is wrong, with dots between the names.
        field: String,
    },
    /// The controller refused the request, and does not know what this program's version of the protocol adds.
    #[error("{error} (the controller speaks version {controller} of the control protocol, and this program {program})")]
    RefusedByOlder {
        /// The reason.
        error: String,
        /// The version that the controller speaks.
        controller: Protocol,
        /// The version that this program speaks.
        program: Protocol,
    },
    /// The controller's version of the protocol has other requests and answers than this program's.
    #[error(
        "the controller speaks version {controller} of the control protocol, and this program {program}; use the `maple` \
         that the controller was started with"
    )]
    OtherProtocol {
        /// The version that the controller speaks.
        controller: Protocol,
        /// The version that this program speaks.
        program: Protocol,
    },
    /// The controller closed the connection before it answered, or while a watch was open.
    #[error("the controller closed the connection: it has stopped or is stopping")]
    Closed,
}

/// Returns the default path of the control socket, in a folder of the user's own.
pub fn default_path() -> PathBuf {
    socket_access::folder().join(SOCKET)
}

/// Returns where a controller is found: at the default path, or where the system's controller is.
pub fn find() -> PathBuf {
    let (own, system) = (default_path(), Path::new(socket_access::SYSTEM_FOLDER).join(SOCKET));
    if !own.exists() && system.exists() { system } else { own }
}

/// A way to reach a controller.
pub trait Reach {
    /// Opens a connection to the controller, as to its control socket.
    ///
    /// # Errors
    /// [`AskError`] if the controller is not reached.
    fn connect(&self) -> Result<UnixStream, AskError>;
}

/// Connects to the controller's socket at this path.
impl Reach for Path {
    fn connect(&self) -> Result<UnixStream, AskError> {
        let stream =
            UnixStream::connect(self).map_err(|error| AskError::Unreachable { path: self.to_owned(), error })?;
        match socket_access::untrusted_peer(&stream)?.filter(|user| !socket_access::is_system_service(self, *user)) {
            Some(user) => Err(AskError::OtherUser { path: self.to_owned(), user }),
            None => Ok(stream),
        }
    }
}

impl Reach for PathBuf {
    fn connect(&self) -> Result<UnixStream, AskError> {
        self.as_path().connect()
    }
}

impl<R: Reach + ?Sized> Reach for &R {
    fn connect(&self) -> Result<UnixStream, AskError> {
        (**self).connect()
    }
}

/// Connects to the controller in the same process, without a socket file.
impl Reach for Handle {
    fn connect(&self) -> Result<UnixStream, AskError> {
        let (stream, of_client) = UnixStream::pair()?;
        serve_one(self, of_client, &Arc::default());
        Ok(stream)
    }
}

/// Sends a request to this controller, and returns its answer.
///
/// # Errors
/// [`AskError`] if there is no controller, or it refuses the request.
pub fn ask(controller: &(impl Reach + ?Sized), request: &Request) -> Result<Value, AskError> {
    let stream = send(controller, request)?;
    // A policy may take long to load and to be tried.
    let timeout = (!matches!(request, Request::Reload(_))).then_some(CLIENT_TIMEOUT);
    stream.set_read_timeout(timeout)?;
    let mut text = String::new();
    match BufReader::new(stream).read_line(&mut text)? {
        0 => Err(AskError::Closed),
        _ => parse_answer(&text),
    }
}

/// Returns the id of the controller's process at this path. A controller in another container has another id here than
/// there. From inside a container, processes outside have none: the result is 0 or an error.
///
/// # Errors
/// The system's error, if the socket can't be reached or does not report its process.
pub fn process(path: &Path) -> io::Result<u32> {
    socket_access::peer_process(UnixStream::connect(path)?)
}

/// Sends a request that has many answers. Calls `each` with every answer until it returns `false`.
///
/// # Errors
/// [`AskError`] if there is no controller, it refuses the request, or it stops.
pub fn follow(
    controller: &(impl Reach + ?Sized),
    request: &Request,
    mut each: impl FnMut(Value) -> bool,
) -> Result<(), AskError> {
    let mut reader = BufReader::new(send(controller, request)?);
    let mut text = String::new();
    while reader.read_line(&mut text)? > 0 {
        if !each(parse_answer(&text)?) {
            return Ok(());
        }
        text.clear();
    }
    Err(AskError::Closed)
}

fn send(controller: &(impl Reach + ?Sized), request: &Request) -> Result<UnixStream, AskError> {
    let mut stream = controller.connect()?;
    let mut line = serde_json::to_string(request)?;
    line.push('\n');
    match stream.write_all(line.as_bytes()) {
        // A client that the controller refused can still read the reason.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(stream),
    }
}

fn parse_answer(text: &str) -> Result<Value, AskError> {
    answer_for(PROTOCOL, text)
}

/// Reads an answer for a program that speaks this version.
fn answer_for(program: Protocol, text: &str) -> Result<Value, AskError> {
    let mut answer: Value = serde_json::from_str(text)?;
    let controller = Protocol::from_answer(&answer);
    if controller.major != program.major {
        return Err(AskError::OtherProtocol { controller, program });
    }
    match answer.get("error").and_then(Value::as_str) {
        Some(error) if controller < program => {
            Err(AskError::RefusedByOlder { error: error.to_owned(), controller, program })
        }
        Some(error) => {
            let field = answer["field"].as_str().unwrap_or_default().to_owned();
            Err(AskError::Refused { error: error.to_owned(), field })
        }
        None => Ok(answer["ok"].take()),
    }
}

/// An open control socket. Dropping it closes and removes it.
pub(crate) struct ControlSocket {
    path: PathBuf,
    /// The thread ends when the other end of this is closed.
    running: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl ControlSocket {
    /// Opens the socket. It replaces one that a dead controller has left.
    ///
    /// # Errors
    /// The system's; or `AddrInUse` if another controller listens on the socket.
    pub fn open(path: &Path, handle: Handle) -> io::Result<ControlSocket> {
        let (running, closing) = UnixStream::pair()?;
        handle.operations().files().keep(KeptFile::ControlSocket, path);
        let place = Listening::at(path)?;
        let of_thread = path.to_owned();
        let thread = std::thread::Builder::new()
            .name("control".into())
            .spawn(move || serve(&of_thread, place, &handle, &closing))?;
        Ok(ControlSocket { path: path.to_owned(), running: Some(running), thread: Some(thread) })
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        self.running.take();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the control thread panicked; {} may be left", self.path.display());
        }
    }
}

/// A socket that is listened at, and the identity of its file.
struct Listening {
    listener: UnixListener,
    device: u64,
    inode: u64,
}

impl Listening {
    /// Listens at a path. Replaces a socket that nobody listens at.
    fn at(path: &Path) -> io::Result<Listening> {
        if UnixStream::connect(path).is_ok() {
            return Err(io::Error::new(io::ErrorKind::AddrInUse, "another controller listens on it"));
        }
        let folder = socket_access::folder();
        if path.parent() == Some(&folder) {
            socket_access::create_private_folder(&folder)?;
        }
        let listener = socket_access::bind(path)?;
        listener.set_nonblocking(true)?;
        let found = std::fs::symlink_metadata(path)?;
        Ok(Listening { listener, device: found.dev(), inode: found.ino() })
    }

    /// Reports whether this socket is still the file at the path.
    fn is_at(&self, path: &Path) -> bool {
        std::fs::symlink_metadata(path).is_ok_and(|found| (found.dev(), found.ino()) == (self.device, self.inode))
    }

    /// Waits for a client, for a short time. Returns `None` if none has come.
    fn accept(&self, closing: &UnixStream) -> io::Result<Option<UnixStream>> {
        let mut ends = [PollFd::new(&self.listener, PollFlags::IN), PollFd::new(closing, PollFlags::IN)];
        let time = Timespec { tv_sec: SOCKET_CHECK.as_secs() as i64, tv_nsec: 0 };
        match poll(&mut ends, Some(&time)) {
            Err(Errno::INTR) => return Ok(None),
            done => done?,
        };
        match self.listener.accept() {
            Ok((stream, _)) => Ok(Some(stream)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// Reports whether the other end of a stream, on which nothing is sent, is closed.
fn is_closed(mut stream: &UnixStream) -> bool {
    let is_set = stream.set_nonblocking(true).is_ok();
    !is_set || stream.read(&mut [0]).is_ok()
}

/// The answer to a controller that wants to take over and can't.
const NO_TAKEOVER: &str = "this controller hands nothing over: it serves emulated switches or handlers, or another \
                           process is taking over already";

/// Accepts clients until `closing` closes. Another program may delete the socket, such as one that tidies up: then the
/// socket is created again.
fn serve(path: &Path, mut place: Listening, handle: &Handle, closing: &UnixStream) {
    let clients = Arc::new(AtomicUsize::new(0));
    while !is_closed(closing) {
        match place.accept(closing) {
            Ok(Some(stream)) => serve_one(handle, stream, &clients),
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(%error, "can't accept a control client");
                std::thread::sleep(Duration::from_millis(100));
            }
        }
        if !place.is_at(path) {
            // The next client finds the new socket. A failed attempt is repeated with each check.
            match Listening::at(path) {
                Ok(again) => {
                    handle.operations().files().fails(KeptFile::ControlSocket, path, "it was deleted or replaced");
                    handle.operations().files().mended(KeptFile::ControlSocket, "");
                    place = again;
                }
                Err(error) => handle.operations().files().fails(KeptFile::ControlSocket, path, error.to_string()),
            }
        }
    }
    if place.is_at(path)
        && let Err(error) = std::fs::remove_file(path)
    {
        tracing::debug!(path = %path.display(), %error, "can't remove the control socket");
    }
}

/// A client's place among those that are counted. It is free when this is dropped, also if the client's thread panics.
struct ClientPlace(Arc<AtomicUsize>);

impl Drop for ClientPlace {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Serves a client in a thread of its own, unless there are too many.
fn serve_one(handle: &Handle, stream: UnixStream, clients: &Arc<AtomicUsize>) {
    let place = ClientPlace(Arc::clone(clients));
    if clients.fetch_add(1, Ordering::Relaxed) >= MAX_CLIENTS {
        tracing::warn!("refused a control client: {MAX_CLIENTS} are connected");
        return refuse_client(stream);
    }
    let handle = handle.clone();
    let client = move || {
        let _place = place;
        if let Err(error) = serve_client(&handle, stream) {
            tracing::debug!(%error, "a control client's connection failed");
        }
    };
    if let Err(error) = std::thread::Builder::new().name("control-client".into()).spawn(client) {
        tracing::warn!(%error, "can't serve a control client");
    }
}

/// Tells a client why it is not served. The answer is the same whether or not it has sent a request.
fn refuse_client(mut stream: UnixStream) {
    let error = format!("the controller serves at most {MAX_CLIENTS} programs at a time, and as many are connected");
    // A few bytes into an empty buffer do not block.
    if let Err(error) = write_line(&mut stream, json!({ "error": error })) {
        tracing::debug!(%error, "a control client's connection failed");
    }
}

/// Answers one client's requests until it closes.
fn serve_client(handle: &Handle, mut stream: UnixStream) -> io::Result<()> {
    let peer = PeerProcess::from_socket(&stream)?;
    if !peer.is_trusted() {
        tracing::warn!(user = peer.user, "refused a control client of another user");
        return write_line(&mut stream, json!({ "error": "only the controller's user and root may connect" }));
    }
    stream.set_read_timeout(Some(CLIENT_TIMEOUT))?;
    stream.set_write_timeout(Some(CLIENT_TIMEOUT))?;
    let asker = Asker::Process(peer);
    let mut writer = stream.try_clone()?;
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    loop {
        line.clear();
        reader.by_ref().take(MAX_REQUEST).read_line(&mut line)?;
        if line.len() as u64 == MAX_REQUEST && !line.ends_with('\n') {
            return write_line(&mut writer, json!({ "error": format!("a request has at most {MAX_REQUEST} bytes") }));
        }
        if !line.ends_with('\n') {
            return Ok(());
        }
        // This request has no JSON answer: sockets come back, which only another controller can use.
        if line.trim_end() == request(!handle.has_tls()) {
            return write_line(&mut writer, json!({ "error": OTHER_TLS }));
        }
        if line.trim_end() == request(handle.has_tls()) {
            return be_succeeded(handle, reader, writer);
        }
        let request = parse(&line).and_then(|request| membership::check_answers(handle, &request).map(|()| request));
        match request {
            Ok(Request::Show(Show::Log(true))) => return follow_log(handle, &mut writer),
            Ok(Request::Show(Show::Live(question))) => {
                return send_news(&mut writer, |send| live::follow(handle, &question, send));
            }
            Ok(Request::State(StateRequest::Watch(place))) => {
                return send_news(&mut writer, |send| state::watch(handle, &place.in_use(handle), send));
            }
            request => write_line(&mut writer, answer(handle, &asker, request))?,
        }
    }
}

/// Serves another controller that wants to take over: sends it a copy, and passes it on to the program when it is
/// ready.
fn be_succeeded(handle: &Handle, mut reader: BufReader<UnixStream>, mut writer: UnixStream) -> io::Result<()> {
    let Some(noting) = handle.begin_takeover() else {
        return write_line(&mut writer, json!({ "error": NO_TAKEOVER }));
    };
    let base = match handle.send_copy(&mut writer) {
        Ok(base) => base,
        Err(error) => return write_line(&mut writer, json!({ "error": error.to_string() })),
    };
    reader.get_ref().set_read_timeout(Some(READINESS))?;
    let mut line = String::new();
    reader.by_ref().take(MAX_REQUEST).read_line(&mut line)?;
    if line.trim_end() == READY {
        noting.succeed(Successor { stream: writer, base });
    }
    Ok(())
}

/// Sends one client the news that `follow` has, until it closes: a change of a place, or a packet that it watches.
fn send_news(
    writer: &mut UnixStream,
    follow: impl FnOnce(&mut dyn FnMut(Option<Value>) -> bool) -> Result<(), RequestError>,
) -> io::Result<()> {
    let mut failure = Ok(());
    let followed = follow(&mut |news| {
        failure = match news {
            Some(news) => write_line(writer, json!({ "ok": news })),
            None => check_open(writer),
        };
        failure.is_ok()
    });
    match followed {
        Ok(()) => failure,
        Err(refusal) => write_line(writer, refusal.to_json()),
    }
}

/// Sends one client the log so far and each new line, until it closes.
fn follow_log(handle: &Handle, writer: &mut UnixStream) -> io::Result<()> {
    let mut next = 0;
    loop {
        let entries = handle.operations().log_since(next, LOG_CHECK);
        for entry in &entries {
            write_line(writer, json!({ "ok": log_line(entry) }))?;
            next = entry.number + 1;
        }
        check_open(writer)?;
    }
}

/// Returns an error if the client has closed.
fn check_open(stream: &mut UnixStream) -> io::Result<()> {
    stream.set_nonblocking(true)?;
    let read = stream.read(&mut [0; 64]);
    stream.set_nonblocking(false)?;
    match read {
        Ok(0) => Err(io::ErrorKind::ConnectionAborted.into()),
        Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
        _ => Ok(()),
    }
}

fn write_line(writer: &mut UnixStream, mut answer: Value) -> io::Result<()> {
    answer["protocol"] = PROTOCOL.to_string().into();
    writer.write_all(format!("{answer}\n").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reported(program: &str, answer: &str) -> String {
        answer_for(program.parse().expect("a version"), answer)
            .map_or_else(|error| error.to_string(), |ok| ok.to_string())
    }

    #[test]
    fn a_program_and_a_controller_of_other_versions_say_so() {
        let old =
            r#"{"error":"show: must be one of switches, links, not \"weather\"","field":"show","protocol":"1.0"}"#;
        let refusal = r#"show: must be one of switches, links, not "weather""#;
        assert_eq!(reported("1.0", old), refusal);
        assert_eq!(
            reported("1.2", old),
            format!("{refusal} (the controller speaks version 1.0 of the control protocol, and this program 1.2)")
        );
        let other = |controller, program| {
            format!(
                "the controller speaks version {controller} of the control protocol, and this program {program}; use the \
                 `maple` that the controller was started with"
            )
        };
        // A major version that differs is refused even if the answer could be read: it may mean something else.
        for answer in [r#"{"ok":[],"protocol":"2.0"}"#, r#"{"error":"no","protocol":"2.0"}"#, r#"{"protocol":"2.0"}"#] {
            assert_eq!(reported("1.3", answer), other("2.0", "1.3"));
        }
        assert_eq!(reported("2.0", r#"{"ok":[],"protocol":"1.3"}"#), other("1.3", "2.0"));
        assert_eq!(reported("1.0", r#"{"ok":[],"protocol":"1.7"}"#), "[]", "what is added does not disturb");
        assert_eq!(reported("1.0", r#"{"ok":[]}"#), "[]", "the first controllers did not say");
    }
}
