//! Watches: what changes, in order, without a gap.
//!
//! A watch knows the revision from which it wants changes. It loses nothing when a connection breaks: the next one
//! begins where the former one ended, at another server. If the changes since then are not to be had any more, it says
//! so ([`WatchEvent::Missed`]), and whoever watches reads everything and watches from there.
//!
//! A server on which nothing changes is silent, and so is one that is paused, or cut off. So after some silence the
//! watch makes the same server read something, for which it needs the other servers too. It does so at once if the
//! server knows less than what the watch has reported.
//!
//! A stream begins one revision before the first change that is wanted, and what was reported is left out. etcd 3.4
//! does not report a deletion at the revision to which it was compacted if the stream begins there. So that revision is
//! always one that was reported, or the server says that it was compacted. After a snapshot servers may also report a
//! change again.

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::header::HeaderValue;
use serde::Deserialize;
use serde_json::{Map, json};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};

use crate::client::{Attempt, Client, Question, attempt, in_short, is_acknowledged, lost, read_error};
use crate::connection::connect;
use crate::error::{EtcdError, FailureReason, Refusal, Verdict, code, judge};
use crate::json::{Answer, Header, StreamLine, number, stream_line};
use crate::keys::{KeyValue, Keys, RangeBody, range_request};

/// A change of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The key was written; this is what it is now.
    Put(KeyValue),
    /// The key was deleted, or ended with its lease.
    Delete {
        /// The key.
        key: Vec<u8>,
        /// The revision of the deletion.
        revision: u64,
    },
}

/// An event of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchEvent {
    /// Changes, in the order of their revisions. Those of one revision are never in two events.
    Changes(Vec<Change>),
    /// Nothing changed up to this revision besides what was reported.
    Progress(u64),
    /// Changes can't be had any more: they were compacted, or there are more at once than the limit of an answer, or
    /// the store is older than the watch, as after a backup was put back. The watch is over. Read everything, and watch
    /// from there.
    Missed,
}

/// A watch of some keys.
#[derive(Debug)]
pub struct Watch {
    client: Client,
    keys: Keys,
    /// The revision of the first change that was not reported.
    next: u64,
    /// Whether changes were missed.
    is_over: bool,
    stream: Option<Stream>,
}

/// An answer that goes on.
#[derive(Debug)]
struct Stream {
    at: usize,
    body: Incoming,
    /// The bytes after the last whole line.
    buffer: Vec<u8>,
    /// The number of its bytes that are known to have no end of a line.
    searched: usize,
    /// The time when the server said something last.
    heard: Instant,
    /// The question whether the server is still there, and what revision it has. It goes on while nobody waits.
    question: JoinSet<Result<u64, Attempt>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WatchBody {
    header: Header,
    created: bool,
    canceled: bool,
    #[serde(deserialize_with = "number")]
    compact_revision: u64,
    cancel_reason: String,
    events: Vec<EventBody>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct EventBody {
    /// Absent for a write.
    #[serde(rename = "type")]
    kind: EventKind,
    kv: KeyValue,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
enum EventKind {
    #[default]
    Put,
    Delete,
}

impl From<EventBody> for Change {
    fn from(EventBody { kind, kv }: EventBody) -> Change {
        match kind {
            EventKind::Put => Change::Put(kv),
            EventKind::Delete => Change::Delete { key: kv.key, revision: kv.mod_revision },
        }
    }
}

impl Client {
    /// Watches keys for changes from this revision on, which is the one after the revision of a read. It connects when
    /// it is asked for the first event.
    pub fn watch(&self, keys: Keys, from_revision: u64) -> Watch {
        Watch { client: self.clone(), keys, next: from_revision.max(1), is_over: false, stream: None }
    }
}

impl Watch {
    /// Returns the revision of the first change that was not reported.
    pub fn next_revision(&self) -> u64 {
        self.next
    }

    /// Waits for the next event. It may be dropped at any time, and nothing is lost. After [`WatchEvent::Missed`] it
    /// says nothing else.
    ///
    /// # Errors
    /// [`EtcdError::WatchEnded`] if the server broke off, is silent, or has lost the others, and
    /// [`EtcdError::Unreachable`] if no server can be asked. The watch is still good: the next call goes on at the next
    /// server. [`EtcdError::Refused`] if the user may not read these keys.
    pub async fn next(&mut self) -> Result<WatchEvent, EtcdError> {
        while !self.is_over {
            if self.stream.is_none() {
                match self.open().await {
                    Ok(stream) => self.stream = Some(stream),
                    Err(error) if error.refusal() == Some(Refusal::Compacted) => {
                        self.is_over = true;
                        break;
                    }
                    Err(error) => return Err(error),
                }
            }
            let Some(stream) = &mut self.stream else { continue };
            let (at, limits) = (stream.at, self.client.config().limits);
            let event = if stream.question.is_empty() {
                let silence_ends = stream.heard + limits.silence;
                match timeout_at(silence_ends, stream.line(limits.answer)).await {
                    Ok(Ok(line)) => stream_line(&line).map_err(malformed).and_then(|line| self.on_line(line)),
                    Ok(Err(Attempt::Lost(FailureReason::TooLong(_)))) => Ok(Some(WatchEvent::Missed)),
                    Ok(Err(attempt)) => Err(attempt),
                    // A part of a line may have come.
                    Err(_) if stream.heard + limits.silence > Instant::now() => continue,
                    Err(_) => {
                        stream.ask(&self.client, &self.keys);
                        continue;
                    }
                }
            } else {
                match stream.question.join_next().await.expect("one was asked").expect("it has no bugs") {
                    Ok(revision) if revision + 1 < self.next => Ok(Some(WatchEvent::Missed)),
                    Ok(_) => {
                        stream.heard = Instant::now();
                        continue;
                    }
                    Err(attempt) => Err(attempt),
                }
            };
            match event {
                Ok(None) => {}
                Ok(Some(WatchEvent::Missed)) => {
                    self.is_over = true;
                    self.stream = None;
                }
                Ok(Some(event)) => return Ok(event),
                Err(attempt) => {
                    self.stream = None;
                    self.client.avoid(at);
                    return Err(match attempt {
                        Attempt::NotBegun(reason) | Attempt::Lost(reason) => {
                            EtcdError::WatchEnded(self.client.failure(at, reason))
                        }
                        Attempt::Refused(refusal, message) => self.client.refused(at, refusal, message),
                    });
                }
            }
        }
        Ok(WatchEvent::Missed)
    }

    /// Begins the stream at the first server that answers.
    async fn open(&self) -> Result<Stream, EtcdError> {
        let mut failures = Vec::new();
        for at in self.client.order() {
            let trying = self.client.trying(at);
            match self.open_at(at).await {
                Ok(stream) => {
                    trying.answered();
                    return Ok(stream);
                }
                Err(Attempt::Refused(refusal, message)) => {
                    trying.answered();
                    return Err(self.client.refused(at, refusal, message));
                }
                Err(Attempt::NotBegun(reason) | Attempt::Lost(reason)) => {
                    failures.push(self.client.failure(at, reason));
                }
            }
        }
        Err(EtcdError::Unreachable(failures))
    }

    /// Begins the stream at one server, with a new token if it does not know the one that there is.
    async fn open_at(&self, at: usize) -> Result<Stream, Attempt> {
        let within = self.client.config().limits.attempt();
        let deadline = Instant::now() + within;
        let opening = async {
            let token = self.client.token(at, deadline).await?;
            match self.open_with(at, token.clone()).await {
                Err(Attempt::Refused(refusal, _)) if self.client.forgets_token(refusal, token.as_ref()) => {
                    self.open_with(at, self.client.token(at, deadline).await?).await
                }
                opened => opened,
            }
        };
        let timed_out = |_| Err(Attempt::Lost(FailureReason::TimedOut(within)));
        timeout_at(deadline, opening).await.unwrap_or_else(timed_out)
    }

    async fn open_with(&self, at: usize, token: Option<HeaderValue>) -> Result<Stream, Attempt> {
        let limits = self.client.config().limits;
        let mut create = Map::new();
        self.keys.write(&mut create);
        create.insert("start_revision".into(), (self.next - 1).max(1).to_string().into());
        create.insert("progress_notify".into(), true.into());
        let body = json!({ "create_request": create }).to_string();
        let request = self.client.request(at, "/v3/watch", body.into(), token, true);
        let endpoint = &self.client.endpoints()[at];
        let mut connection = connect(self.client.config(), endpoint).await.map_err(Attempt::NotBegun)?;
        let answer = connection.send_request(request).await.map_err(lost)?;
        if !answer.status().is_success() {
            return Err(read_error(answer, limits.answer).await);
        }
        let mut stream = Stream::new(at, answer.into_body());
        // The first line says whether the watch was created.
        match stream_line::<WatchBody>(&stream.line(limits.answer).await?).map_err(malformed)? {
            StreamLine::Error(error) => Err(attempt(error)),
            StreamLine::Result(body) if body.created && !body.canceled => {
                if body.header.revision + 1 < self.next {
                    stream.ask(&self.client, &self.keys);
                }
                Ok(stream)
            }
            StreamLine::Result(body) if body.canceled => Err(cancelled(body)),
            StreamLine::Result(_) => Err(Attempt::Lost(FailureReason::Malformed("it created no watch".into()))),
        }
    }

    fn on_line(&mut self, line: StreamLine<WatchBody>) -> Result<Option<WatchEvent>, Attempt> {
        let body = match line {
            StreamLine::Error(error) => return Err(attempt(error)),
            StreamLine::Result(body) => body,
        };
        if body.compact_revision > 0 {
            return Ok(Some(WatchEvent::Missed));
        }
        if body.canceled {
            return Err(cancelled(body));
        }
        let Some(last) = body.events.iter().map(|event| event.kv.mod_revision).max() else {
            // A server that is behind may know less than what was reported.
            if body.header.revision < self.next {
                return Ok(None);
            }
            self.next = body.header.revision + 1;
            return Ok(Some(WatchEvent::Progress(body.header.revision)));
        };
        let is_new = |event: &EventBody| event.kv.mod_revision >= self.next;
        let changes: Vec<_> = body.events.into_iter().filter(is_new).map(Change::from).collect();
        self.next = self.next.max(last + 1);
        Ok(if changes.is_empty() { None } else { Some(WatchEvent::Changes(changes)) })
    }
}

fn malformed(error: serde_json::Error) -> Attempt {
    Attempt::Lost(FailureReason::Malformed(error.to_string()))
}

/// Returns why a server ended a watch.
fn cancelled(body: WatchBody) -> Attempt {
    match judge(code::UNKNOWN, &body.cancel_reason) {
        Verdict::Refused(Refusal::Other) | Verdict::NotBegun | Verdict::Unknown | Verdict::NoSpace => {
            Attempt::Lost(FailureReason::Unavailable(in_short(&body.cancel_reason)))
        }
        Verdict::Refused(refusal) => Attempt::Refused(refusal, in_short(&body.cancel_reason)),
    }
}

impl Stream {
    fn new(at: usize, body: Incoming) -> Stream {
        Stream { at, body, buffer: Vec::new(), searched: 0, heard: Instant::now(), question: JoinSet::new() }
    }

    /// Asks the server what revision it has, for which it needs the other servers.
    fn ask(&mut self, client: &Client, keys: &Keys) {
        let (at, client, request) = (self.at, client.clone(), range_request(keys, 1, 0));
        self.question.spawn(async move {
            let question = Question::new("/v3/kv/range", &request);
            Ok(client.ask_at::<RangeBody>(at, &question, &is_acknowledged).await?.revision())
        });
    }

    /// Returns the next line. If it is dropped before, nothing of the line is lost.
    async fn line(&mut self, at_most: usize) -> Result<Bytes, Attempt> {
        loop {
            if let Some(end) = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n') {
                let rest = self.buffer.split_off(self.searched + end + 1);
                let line = std::mem::replace(&mut self.buffer, rest);
                self.searched = 0;
                return Ok(line.into());
            }
            self.searched = self.buffer.len();
            if self.buffer.len() > at_most {
                return Err(Attempt::Lost(FailureReason::TooLong(at_most)));
            }
            match self.body.frame().await {
                None => return Err(Attempt::Lost(FailureReason::Ended)),
                Some(Err(error)) => return Err(Attempt::Lost(error.into())),
                Some(Ok(frame)) => {
                    self.heard = Instant::now();
                    if let Ok(data) = frame.into_data() {
                        self.buffer.extend_from_slice(&data);
                    }
                }
            }
        }
    }
}
