//! Watches: what changes, in order, without a gap.
//!
//! A watch knows the revision from which it wants changes. It loses nothing when a connection breaks: the next one
//! begins where the former one ended, at another server. If the changes since then are not to be had any more, it says
//! so ([`WatchEvent::Missed`]), and whoever watches reads everything and watches from there.
//!
//! A server on which nothing changes is silent, and so is one that is paused, or cut off. So after some silence the watch
//! makes the same server read something, for which it needs the other servers too.

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::header::HeaderValue;
use serde::Deserialize;
use serde_json::{Map, json};

use crate::client::{Attempt, Client, attempt, in_short, lost, read_error};
use crate::connection::connect;
use crate::error::{EtcdError, FailureReason, Refusal, Verdict, code, judge};
use crate::json::{Header, StreamLine, number, stream_line};
use crate::keys::{KeyValue, Keys, Range, RangeBody, range_request};

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

/// What a watch has to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchEvent {
    /// Changes, in the order of their revisions. Those of one revision are never in two events.
    Changes(Vec<Change>),
    /// Nothing changed up to this revision besides what was told.
    Progress(u64),
    /// Changes can't be had any more: they were compacted, or there are more at once than the limit of an answer, or the
    /// store is older than the watch, as after a backup was put back. The watch is over. Read everything, and watch from
    /// there.
    Missed,
}

/// A watch of some keys.
#[derive(Debug)]
pub struct Watch {
    client: Client,
    keys: Keys,
    /// The revision of the first change that was not told.
    next: u64,
    stream: Option<Stream>,
}

/// An answer that goes on.
#[derive(Debug)]
struct Stream {
    at: usize,
    body: Incoming,
    /// What came after the last whole line.
    buffer: Vec<u8>,
    /// How much of the buffer is known to have no end of a line.
    searched: usize,
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
    /// Watches keys for changes from this revision on, which is the one after the revision of a read. It connects when it
    /// is asked for the first event.
    pub fn watch(&self, keys: Keys, from_revision: u64) -> Watch {
        Watch { client: self.clone(), keys, next: from_revision.max(1), stream: None }
    }
}

impl Watch {
    /// Returns the revision of the first change that was not told.
    pub fn next_revision(&self) -> u64 {
        self.next
    }

    /// Waits for the next event. It may be dropped at any time, and nothing is lost.
    ///
    /// # Errors
    /// [`EtcdError::Unreachable`] if the server broke off, is silent, or has lost the others. The watch is still good:
    /// the next call goes on at the next server. [`EtcdError::Refused`] if the user may not read these keys.
    pub async fn next(&mut self) -> Result<WatchEvent, EtcdError> {
        loop {
            if self.stream.is_none() {
                self.stream = Some(self.open().await?);
            }
            let Some(stream) = &mut self.stream else { continue };
            let limits = self.client.config().limits;
            let at = stream.at;
            let event = match tokio::time::timeout(limits.silence, stream.line(limits.answer)).await {
                Ok(Ok(line)) => stream_line(&line).map_err(malformed).and_then(|line| self.on_line(line)),
                Ok(Err(Attempt::Lost(FailureReason::TooLong(_)))) => Ok(Some(WatchEvent::Missed)),
                Ok(Err(attempt)) => Err(attempt),
                Err(_) => self.on_silence(at).await,
            };
            match event {
                Ok(None) => {}
                Ok(Some(event)) => return Ok(event),
                Err(attempt) => {
                    self.stream = None;
                    self.client.prefer((at + 1) % self.client.endpoints().len());
                    return Err(self.error(at, attempt));
                }
            }
        }
    }

    fn error(&self, at: usize, attempt: Attempt) -> EtcdError {
        match attempt {
            Attempt::NotBegun(reason) | Attempt::Lost(reason) => {
                EtcdError::Unreachable(vec![self.client.failure(at, reason)])
            }
            Attempt::Refused(refusal, message) => self.client.refused(at, refusal, message),
        }
    }

    /// Begins the stream at the first server that answers.
    async fn open(&self) -> Result<Stream, EtcdError> {
        let mut failures = Vec::new();
        for at in self.client.order() {
            let mut opened = self.open_at(at).await;
            if let Err((Attempt::Refused(refusal, _), token)) = &opened
                && self.client.forgets_token(*refusal, token.as_ref()).await
            {
                opened = self.open_at(at).await;
            }
            match opened {
                Ok(stream) => return Ok(stream),
                Err((Attempt::Refused(refusal, message), _)) => return Err(self.client.refused(at, refusal, message)),
                Err((Attempt::NotBegun(reason) | Attempt::Lost(reason), _)) => {
                    failures.push(self.client.failure(at, reason));
                }
            }
        }
        Err(EtcdError::Unreachable(failures))
    }

    /// Begins the stream at one server. An error comes with the token that was used.
    async fn open_at(&self, at: usize) -> Result<Stream, (Attempt, Option<HeaderValue>)> {
        let token = self.client.token(at).await.map_err(|attempt| (attempt, None))?;
        self.open_with(at, token.clone()).await.map_err(|attempt| (attempt, token))
    }

    async fn open_with(&self, at: usize, token: Option<HeaderValue>) -> Result<Stream, Attempt> {
        let limits = self.client.config().limits;
        let mut create = Map::new();
        self.keys.write(&mut create);
        create.insert("start_revision".into(), self.next.to_string().into());
        create.insert("progress_notify".into(), true.into());
        let body = json!({ "create_request": create }).to_string();
        let request = self.client.request(at, "/v3/watch", body.into(), token, true);
        let opening = async {
            let endpoint = &self.client.endpoints()[at];
            let mut connection = connect(self.client.config(), endpoint).await.map_err(Attempt::NotBegun)?;
            let answer = connection.send_request(request).await.map_err(lost)?;
            if !answer.status().is_success() {
                return Err(read_error(answer, limits.answer).await);
            }
            let mut stream = Stream { at, body: answer.into_body(), buffer: Vec::new(), searched: 0 };
            // The first line says whether the watch was created.
            match stream_line::<WatchBody>(&stream.line(limits.answer).await?).map_err(malformed)? {
                StreamLine::Error(error) => Err(attempt(error)),
                StreamLine::Result(body) if body.canceled => Err(cancelled(body)),
                StreamLine::Result(body) if body.created => Ok(stream),
                StreamLine::Result(_) => Err(malformed_text(b"a watch that was not created")),
            }
        };
        let timed_out = |_| Err(Attempt::Lost(FailureReason::TimedOut(limits.request)));
        tokio::time::timeout(limits.request, opening).await.unwrap_or_else(timed_out)
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
        let Some(last) = body.events.last() else {
            // A server that is behind may say less than what was told.
            if body.header.revision < self.next {
                return Ok(None);
            }
            self.next = body.header.revision + 1;
            return Ok(Some(WatchEvent::Progress(body.header.revision)));
        };
        self.next = last.kv.mod_revision + 1;
        Ok(Some(WatchEvent::Changes(body.events.into_iter().map(Change::from).collect())))
    }

    /// Makes a server read, after it was silent.
    async fn on_silence(&mut self, at: usize) -> Result<Option<WatchEvent>, Attempt> {
        let range: Result<RangeBody, _> =
            self.client.ask_only(at, "/v3/kv/range", &range_request(&self.keys, 1, 0)).await;
        match range.map(Range::from) {
            Ok(range) if range.revision + 1 < self.next => Ok(Some(WatchEvent::Missed)),
            Ok(_) => Ok(None),
            Err(attempt) => Err(attempt),
        }
    }
}

fn malformed(error: serde_json::Error) -> Attempt {
    Attempt::Lost(FailureReason::Malformed(error.to_string()))
}

fn malformed_text(text: &[u8]) -> Attempt {
    Attempt::Lost(FailureReason::Malformed(String::from_utf8_lossy(&text[..text.len().min(200)]).into_owned()))
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
                    if let Ok(data) = frame.into_data() {
                        self.buffer.extend_from_slice(&data);
                    }
                }
            }
        }
    }
}
