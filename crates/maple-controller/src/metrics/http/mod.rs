//! A small HTTP server: one thread, one page, and bounds on everything.
//!
//! # What
//!
//! `GET` and `HEAD` of `/metrics` are answered with the text of a scrape, in OpenMetrics if the client accepts it.
//! Everything else is answered with an error. A connection has one request. Its answer says so, and then the connection
//! ends.
//!
//! # Bounds
//!
//! | of | bound | then |
//! | --- | --- | --- |
//! | connections | [`MAX_CLIENTS`] | one gives way to the new one: first the oldest whose request is not complete |
//! | the bytes of a request | [`MAX_REQUEST`] | 431 |
//! | the time of a connection | [`CLIENT_TIMEOUT`] | it is closed |
//! | the time that scrapes take | one part in [`REUSE_FACTOR`] | clients get the text of the scrape before |
//!
//! So incomplete requests, however many, never keep a complete one out: a client that sends its request at once waits
//! for no other. A client that does not read its answer keeps the text of one scrape, which others may share.
//!
//! # Why not a library
//!
//! Prometheus asks for one page. A library for more than that would bring a runtime and threads of its own.

use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token, Waker};

use super::classic::{CLASSIC, classic};

/// The maximum number of clients at a time.
const MAX_CLIENTS: usize = 32;
/// The maximum number of bytes of a request.
const MAX_REQUEST: usize = 8 * 1024;
/// The maximum number of bytes that are read after a request.
const MAX_DRAINED: usize = 64 * 1024;
/// The time that a client may take, from its connection to the end of its answer.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(10);
/// The number of connections that are accepted before clients are looked after, so that new ones cannot starve them.
const ACCEPT_SHARE: usize = 64;
/// The time for which accepting pauses when the system is out of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// The text of a scrape answers further requests for this many times as long as the scrape took. So scrapes take at most
/// a twentieth of the time of this thread.
const REUSE_FACTOR: u32 = 20;
/// The maximum time for which it does: a busy shard answers late.
const MAX_REST: Duration = Duration::from_secs(5);

const LISTENER: Token = Token(MAX_CLIENTS);
const WAKER: Token = Token(MAX_CLIENTS + 1);

/// The content type of OpenMetrics.
pub(super) const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// The content type of refusals.
const PLAIN: &str = "text/plain; charset=utf-8";

/// The server.
pub(super) struct HttpServer {
    poll: Poll,
    listener: TcpListener,
    /// Until when accepting is paused.
    paused_until: Option<Instant>,
    /// Whether there may be connections to accept.
    can_accept: bool,
    clients: [Option<HttpClient>; MAX_CLIENTS],
    scraped: Option<Scraped>,
}

/// The text of the last scrape, and until when it answers requests.
pub(super) struct Scraped {
    text: Arc<str>,
    until: Instant,
}

/// One connection.
struct HttpClient {
    stream: TcpStream,
    began: Instant,
    state: ClientState,
}

/// The phases of a connection, in the order in which they give way to new ones.
enum ClientState {
    /// The request is not complete.
    Reading(Vec<u8>),
    /// The answer is sent. What the client still sends is read, because the system would otherwise discard the end of
    /// the answer. The number counts the bytes that were read.
    Draining(usize),
    Writing(HttpAnswer),
}

/// An answer that is being written.
struct HttpAnswer {
    head: Vec<u8>,
    body: Arc<str>,
    written: usize,
}

/// The next step of a connection.
#[derive(Debug, PartialEq, Eq)]
enum NextStep {
    Wait,
    Close,
}

impl HttpServer {
    /// Listens on this address.
    ///
    /// # Errors
    /// The system's error if it can't listen on the address.
    pub fn open(address: SocketAddr) -> io::Result<HttpServer> {
        let poll = Poll::new()?;
        let mut listener = TcpListener::bind(address)?;
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        let clients = [const { None }; MAX_CLIENTS];
        Ok(HttpServer { poll, listener, paused_until: None, can_accept: false, clients, scraped: None })
    }

    /// Returns the address that it listens on.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Returns what wakes [`HttpServer::run`], so that it sees that it is to end.
    pub fn waker(&self) -> io::Result<Arc<Waker>> {
        Waker::new(self.poll.registry(), WAKER).map(Arc::new)
    }

    /// Serves until `closing` is set and the waker was called. `scrape` makes the text; `None` if it fails.
    ///
    /// # Errors
    /// The system's error if it can't wait for events.
    pub fn run(&mut self, scrape: impl Fn() -> Option<String>, closing: &AtomicBool) -> io::Result<()> {
        let mut ready = Events::with_capacity(MAX_CLIENTS + 2);
        while !closing.load(Ordering::Relaxed) {
            match self.poll.poll(&mut ready, self.timeout(Instant::now())) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                result => result?,
            }
            let now = Instant::now();
            self.close_late(now);
            for event in ready.iter() {
                match event.token() {
                    LISTENER => self.can_accept = true,
                    Token(slot) if slot < MAX_CLIENTS => self.advance(slot, &scrape),
                    _ => {}
                }
            }
            self.accept(now, &scrape);
        }
        Ok(())
    }

    /// Returns how long there is nothing to do; `None`: until the next event.
    fn timeout(&self, now: Instant) -> Option<Duration> {
        if self.can_accept && self.paused_until.is_none() {
            return Some(Duration::ZERO);
        }
        let deadlines = self.clients.iter().flatten().map(|client| client.began + CLIENT_TIMEOUT);
        deadlines.chain(self.paused_until).min().map(|deadline| deadline.saturating_duration_since(now))
    }

    /// Closes the connections that have taken too long.
    fn close_late(&mut self, now: Instant) {
        for client in &mut self.clients {
            client.take_if(|client| now >= client.began + CLIENT_TIMEOUT);
        }
    }

    /// Accepts a bounded number of connections.
    fn accept(&mut self, now: Instant, scrape: &impl Fn() -> Option<String>) {
        self.paused_until.take_if(|until| *until <= now);
        if !self.can_accept || self.paused_until.is_some() {
            return;
        }
        for _ in 0..ACCEPT_SHARE {
            match self.listener.accept() {
                Ok((stream, _)) => self.admit(now, stream, scrape),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.can_accept = false;
                    return;
                }
                Err(error) if matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::Interrupted) => {}
                Err(error) => {
                    tracing::warn!(%error, "can't accept a client of metrics");
                    self.paused_until = Some(now + ACCEPT_PAUSE);
                    return;
                }
            }
        }
    }

    /// Serves a new connection. If there are too many, another one gives way.
    fn admit(&mut self, now: Instant, mut stream: TcpStream, scrape: &impl Fn() -> Option<String>) {
        let free = self.clients.iter().position(Option::is_none);
        let key = |slot: &usize| self.clients[*slot].as_ref().map(|client| (client.state.rank(), client.began));
        let Some(slot) = free.or_else(|| (0..MAX_CLIENTS).min_by_key(key)) else { return };
        self.clients[slot] = None;
        let interest = Interest::READABLE | Interest::WRITABLE;
        if let Err(error) = self.poll.registry().register(&mut stream, Token(slot), interest) {
            return tracing::warn!(%error, "can't serve a client of metrics");
        }
        self.clients[slot] = Some(HttpClient { stream, began: now, state: ClientState::Reading(Vec::new()) });
        // The request may be there already.
        self.advance(slot, scrape);
    }

    /// Does what a connection is ready for.
    fn advance(&mut self, slot: usize, scrape: &impl Fn() -> Option<String>) {
        let Some(client) = &mut self.clients[slot] else { return };
        let answer = |request: &str| respond(request, || scraped(&mut self.scraped, scrape));
        // A connection that failed is only closed: no client is left to answer.
        if client.advance(answer).unwrap_or(NextStep::Close) == NextStep::Close {
            self.clients[slot] = None;
        }
    }
}

/// Returns the text of a scrape: that of the last one, if it is still valid. `None`: the scrape failed.
pub(super) fn scraped(last: &mut Option<Scraped>, scrape: &impl Fn() -> Option<String>) -> Option<Arc<str>> {
    let began = Instant::now();
    if let Some(Scraped { text, until }) = last
        && began < *until
    {
        return Some(Arc::clone(text));
    }
    *last = None;
    let text: Arc<str> = scrape()?.into();
    let ended = Instant::now();
    *last = Some(Scraped { text: Arc::clone(&text), until: ended + ((ended - began) * REUSE_FACTOR).min(MAX_REST) });
    Some(text)
}

impl ClientState {
    /// Returns the rank of a connection. Lower ones give way first.
    fn rank(&self) -> u8 {
        match self {
            ClientState::Reading(_) => 0,
            ClientState::Draining(_) => 1,
            ClientState::Writing(_) => 2,
        }
    }
}

impl HttpClient {
    /// Reads and writes as much as it can. `answer` answers a request.
    fn advance(&mut self, answer: impl FnOnce(&str) -> HttpAnswer) -> io::Result<NextStep> {
        if let ClientState::Reading(request) = &mut self.state {
            let end = loop {
                if let Some(end) = end_of_head(request) {
                    break end;
                }
                if request.len() >= MAX_REQUEST {
                    break 0;
                }
                let mut buffer = [0; 2048];
                let most = buffer.len().min(MAX_REQUEST - request.len());
                match read(&mut self.stream, &mut buffer[..most])? {
                    None => return Ok(NextStep::Wait),
                    Some(0) => return Ok(NextStep::Close),
                    Some(count) => request.extend_from_slice(&buffer[..count]),
                }
            };
            let head = std::str::from_utf8(&request[..end]).unwrap_or_default();
            let answer = if end == 0 { refusal("431 Request Header Fields Too Large", false) } else { answer(head) };
            self.state = ClientState::Writing(answer);
        }
        if let ClientState::Writing(answer) = &mut self.state {
            while let Some(rest) = answer.rest() {
                match self.stream.write(rest) {
                    Ok(0) => return Ok(NextStep::Close),
                    Ok(count) => answer.written += count,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(NextStep::Wait),
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
            self.stream.shutdown(std::net::Shutdown::Write)?;
            self.state = ClientState::Draining(0);
        }
        self.drain()
    }

    /// Reads what a client sends after its request, up to a limit.
    fn drain(&mut self) -> io::Result<NextStep> {
        let ClientState::Draining(drained) = &mut self.state else { return Ok(NextStep::Wait) };
        while *drained < MAX_DRAINED {
            match read(&mut self.stream, &mut [0; 2048])? {
                None => return Ok(NextStep::Wait),
                Some(0) => break,
                Some(count) => *drained += count,
            }
        }
        Ok(NextStep::Close)
    }
}

/// Reads once; `None` if there is nothing to read yet.
fn read(stream: &mut TcpStream, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    loop {
        match stream.read(buffer) {
            Ok(count) => return Ok(Some(count)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Returns where the head of a request ends; `None` if it is not complete.
fn end_of_head(request: &[u8]) -> Option<usize> {
    let end = |empty: &[u8]| request.windows(empty.len()).position(|bytes| bytes == empty).map(|at| at + empty.len());
    end(b"\r\n\r\n").into_iter().chain(end(b"\n\n")).min()
}

/// Answers a request. `scrape` makes the text; `None` if it fails.
fn respond(request: &str, scrape: impl FnOnce() -> Option<Arc<str>>) -> HttpAnswer {
    let line = request.lines().next().unwrap_or_default();
    let words: Vec<&str> = line.split(' ').collect();
    let [method, target, version] = words[..] else { return refusal("400 Bad Request", false) };
    if !version.starts_with("HTTP/1.") || !target.starts_with('/') {
        return refusal("400 Bad Request", false);
    }
    let is_head = method == "HEAD";
    if target.split('?').next() != Some("/metrics") {
        return refusal("404 Not Found", is_head);
    }
    if !is_head && method != "GET" {
        return refusal("405 Method Not Allowed", false);
    }
    match scrape() {
        Some(text) if accepts_openmetrics(request) => HttpAnswer::new("200 OK", OPENMETRICS, text, is_head),
        Some(text) => HttpAnswer::new("200 OK", CLASSIC, classic(&text).into(), is_head),
        // A shard does not answer, so its counters would be missing.
        None => refusal("503 Service Unavailable", is_head),
    }
}

/// Reports whether a client accepts OpenMetrics. Prometheus says that it does. A client that does not say so gets the
/// older format, which every collector understands.
fn accepts_openmetrics(request: &str) -> bool {
    let accepts = |line: &str| {
        let (name, value) = line.split_once(':').unwrap_or_default();
        name.eq_ignore_ascii_case("accept") && value.contains("application/openmetrics-text")
    };
    request.lines().skip(1).any(accepts)
}

/// Makes an answer without metrics.
fn refusal(status: &str, is_head: bool) -> HttpAnswer {
    HttpAnswer::new(status, PLAIN, format!("{status}: GET /metrics is what there is\n").into(), is_head)
}

impl HttpAnswer {
    /// Makes an answer, with its body only if the request was not for the head.
    fn new(status: &str, kind: &str, body: Arc<str>, is_head: bool) -> HttpAnswer {
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nAllow: GET, HEAD\r\n\
             Cache-Control: no-store\r\nConnection: close\r\n\r\n"
        );
        HttpAnswer { head: head.into_bytes(), body: if is_head { "".into() } else { body }, written: 0 }
    }

    /// Returns what is to be written next.
    fn rest(&self) -> Option<&[u8]> {
        let head = self.head.get(self.written..).filter(|rest| !rest.is_empty());
        head.or_else(|| self.body.as_bytes().get(self.written - self.head.len()..).filter(|rest| !rest.is_empty()))
    }
}

#[cfg(test)]
mod tests;
