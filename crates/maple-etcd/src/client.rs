//! Requests: which server gets them, and what becomes of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Request, Response};
use parking_lot::Mutex;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use crate::address::Endpoint;
use crate::config::Config;
use crate::connection::{Connection, connect};
use crate::error::{EtcdError, Failure, FailureReason, Refusal, Verdict, code, judge};
use crate::json::{Answer, ErrorBody, StreamLine, error_body, stream_line};
use crate::token::Tokens;

/// Maximum number of connections to a server that are kept while nothing is asked. Chosen: about as many as a member
/// has requests open at a time, for its lease, its key and the tracked state.
const MAX_IDLE: usize = 4;
/// Maximum number of characters of a server's words that an error quotes. Chosen: messages of etcd are shorter, and a
/// page of something else at this address does not fill the log.
const MAX_WORDS: usize = 300;
/// The header by which a server that has no leader says so at once, instead of when its patience is over.
const NEEDS_LEADER: &str = "grpc-metadata-hasleader";

/// The effect of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Nothing, or the same again if it is sent twice.
    Read,
    /// A change, which must not be sent twice.
    Write,
}

/// The form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Single,
    /// The first line of a stream.
    Stream,
}

/// The content of a request.
#[derive(Debug)]
pub(crate) struct Question<'a> {
    path: &'a str,
    body: Bytes,
    form: Form,
    /// Whether the server needs a leader for the answer, and for a token.
    needs_leader: bool,
}

/// An answer, with where it is from.
#[derive(Debug)]
pub(crate) struct Answered<T> {
    pub answer: T,
    /// The server.
    pub at: usize,
    /// The moment before the question was sent.
    pub before: Instant,
}

/// A client of one etcd. Clones share connections. It needs a runtime of tokio's with I/O and time.
#[derive(Clone, Debug)]
pub struct Client {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    config: Config,
    /// The server that is asked first: the one that answered last.
    first: AtomicUsize,
    /// Connections on which nothing is asked, by server.
    idle: Mutex<Vec<Vec<Connection>>>,
    tokens: Tokens,
}

/// The outcome of a request at one server.
#[derive(Debug)]
pub(crate) enum Attempt {
    /// The request certainly was not carried out there.
    NotBegun(FailureReason),
    /// The request may have been carried out there.
    Lost(FailureReason),
    Refused(Refusal, String),
}

impl Client {
    /// Creates a client. It connects when it is asked something.
    ///
    /// # Panics
    /// If the configuration has no server.
    pub fn new(config: Config) -> Client {
        assert!(!config.endpoints.is_empty(), "a client of etcd needs a server");
        let idle = config.endpoints.iter().map(|_| Vec::new()).collect();
        let tokens = Tokens::new(config.endpoints.len());
        let shared = Shared { config, first: AtomicUsize::new(0), idle: Mutex::new(idle), tokens };
        Client { shared: Arc::new(shared) }
    }

    /// Returns the servers, as configured.
    pub fn endpoints(&self) -> &[Endpoint] {
        &self.shared.config.endpoints
    }

    pub(crate) fn config(&self) -> &Config {
        &self.shared.config
    }

    pub(crate) fn tokens(&self) -> &Tokens {
        &self.shared.tokens
    }

    /// Returns the servers, beginning with the one that is preferred.
    pub(crate) fn order(&self) -> impl Iterator<Item = usize> + use<> {
        let (first, count) = (self.shared.first.load(Ordering::Relaxed), self.endpoints().len());
        (0..count).map(move |step| (first + step) % count)
    }

    /// Begins to ask a server. Until it has answered, the next one is preferred if this is dropped: whoever gives up a
    /// request, and asks again, begins elsewhere.
    pub(crate) fn trying(&self, at: usize) -> Trying<'_> {
        Trying { client: self, at, has_answered: false }
    }

    /// Prefers the next server if this one was preferred.
    pub(crate) fn avoid(&self, at: usize) {
        let next = (at + 1) % self.endpoints().len();
        // If another one is preferred meanwhile, that is as good.
        let _ = self.shared.first.compare_exchange(at, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    pub(crate) fn failure(&self, at: usize, reason: FailureReason) -> Failure {
        Failure { endpoint: self.endpoints()[at].clone(), reason }
    }

    pub(crate) fn refused(&self, at: usize, refusal: Refusal, message: String) -> EtcdError {
        EtcdError::Refused { endpoint: self.endpoints()[at].clone(), refusal, message }
    }

    /// Asks, and returns the answer.
    pub(crate) async fn call<T: Answer>(
        &self,
        path: &str,
        request: &Value,
        effect: Effect,
    ) -> Result<Answered<T>, EtcdError> {
        self.ask(&Question::new(path, request), effect, &is_acknowledged).await
    }

    /// Sends a request that may be repeated, and returns the first line of the stream that answers it.
    pub(crate) async fn call_stream<T: Answer>(&self, path: &str, request: &Value) -> Result<Answered<T>, EtcdError> {
        let question = Question { form: Form::Stream, ..Question::new(path, request) };
        self.ask(&question, Effect::Read, &is_acknowledged).await
    }

    /// Asks the servers one after the other until one answers. An answer that fails the check makes no sense.
    pub(crate) async fn ask<T: DeserializeOwned>(
        &self,
        question: &Question<'_>,
        effect: Effect,
        check: &impl Fn(&T) -> Result<(), &'static str>,
    ) -> Result<Answered<T>, EtcdError> {
        let mut failures = Vec::new();
        for at in self.order() {
            let trying = self.trying(at);
            let before = Instant::now();
            match self.ask_at(at, question, check).await {
                Ok(answer) => {
                    trying.answered();
                    return Ok(Answered { answer, at, before });
                }
                Err(Attempt::Refused(refusal, message)) => {
                    trying.answered();
                    return Err(self.refused(at, refusal, message));
                }
                Err(Attempt::Lost(reason)) if effect == Effect::Write => {
                    return Err(EtcdError::Uncertain(self.failure(at, reason)));
                }
                Err(Attempt::NotBegun(reason) | Attempt::Lost(reason)) => failures.push(self.failure(at, reason)),
            }
        }
        Err(EtcdError::Unreachable(failures))
    }

    /// Asks one server, with a new token if it does not know the one that there is.
    pub(crate) async fn ask_at<T: DeserializeOwned>(
        &self,
        at: usize,
        question: &Question<'_>,
        check: &impl Fn(&T) -> Result<(), &'static str>,
    ) -> Result<T, Attempt> {
        let deadline = Instant::now() + self.config().limits.attempt();
        let ask = async |token| {
            let answer = self.exchange(at, question, token, deadline).await?;
            let answer = parse(&answer, question.form)?;
            check(&answer).map_err(|why| Attempt::Lost(FailureReason::Malformed(why.into())))?;
            Ok(answer)
        };
        // Without a leader a server gives no tokens.
        let token = if question.needs_leader { self.token(at, deadline).await? } else { self.tokens().kept() };
        match ask(token.clone()).await {
            Err(Attempt::Refused(refusal, _)) if self.forgets_token(refusal, token.as_ref()) => {
                ask(self.token(at, deadline).await?).await
            }
            answer => answer,
        }
    }

    /// Reports whether a refusal means that the token is no longer good. Then the next request gets a new one.
    pub(crate) fn forgets_token(&self, refusal: Refusal, used: Option<&HeaderValue>) -> bool {
        // Whoever enables authentication makes requests without a token fail.
        let is_stale = refusal == Refusal::Token || (refusal == Refusal::Credentials && used.is_none());
        if !is_stale || self.config().credentials.is_none() {
            return false;
        }
        self.tokens().forget(used);
        true
    }

    /// Returns the token; asks this server for one if it is not known whether one is needed, and a user is configured.
    pub(crate) async fn token(&self, at: usize, deadline: Instant) -> Result<Option<HeaderValue>, Attempt> {
        let Some(credentials) = &self.config().credentials else { return Ok(None) };
        let tokens = self.tokens();
        if !tokens.is_unknown() {
            return Ok(tokens.kept());
        }
        let timed_out = |_| Attempt::NotBegun(FailureReason::TimedOut(self.config().limits.attempt()));
        let _asking = timeout_at(deadline, tokens.asking(at)).await.map_err(timed_out)?;
        if !tokens.is_unknown() {
            return Ok(tokens.kept());
        }
        let request = json!({ "name": credentials.user, "password": credentials.password });
        let answer = self.exchange(at, &Question::new("/v3/auth/authenticate", &request), None, deadline).await;
        let token = match answer.and_then(|answer| parse::<AuthenticateBody>(&answer, Form::Single)) {
            Ok(body) => {
                let mut token = HeaderValue::try_from(body.token)
                    .map_err(|_| Attempt::NotBegun(FailureReason::Malformed("a token with odd characters".into())))?;
                token.set_sensitive(true);
                Some(token)
            }
            // As etcd's own clients do: who asks nobody for a password gets none.
            Err(Attempt::Refused(_, message)) if message.contains("authentication is not enabled") => None,
            // Whatever became of this, the request itself was not sent.
            Err(Attempt::Lost(reason)) => return Err(Attempt::NotBegun(reason)),
            Err(attempt) => return Err(attempt),
        };
        tokens.keep(token);
        Ok(tokens.kept())
    }

    /// Sends one request to one server, and returns the body of the answer.
    async fn exchange(
        &self,
        at: usize,
        question: &Question<'_>,
        token: Option<HeaderValue>,
        deadline: Instant,
    ) -> Result<Bytes, Attempt> {
        let limits = self.config().limits;
        let request = self.request(at, question.path, question.body.clone(), token, question.needs_leader);
        let too_late = |_| Err(Attempt::NotBegun(FailureReason::TimedOut(limits.attempt())));
        let mut connection = timeout_at(deadline, self.connection(at)).await.unwrap_or_else(too_late)?;
        let answer = async {
            let answer = connection.send_request(request).await.map_err(lost)?;
            read_answer(answer, limits.answer).await
        };
        let deadline = deadline.min(Instant::now() + limits.request);
        let timed_out = |_| Err(Attempt::Lost(FailureReason::TimedOut(limits.request)));
        let bytes = timeout_at(deadline, answer).await.unwrap_or_else(timed_out)?;
        let mut idle = self.shared.idle.lock();
        if idle[at].len() < MAX_IDLE {
            idle[at].push(connection);
        }
        Ok(bytes)
    }

    /// Makes a request to a server.
    pub(crate) fn request(
        &self,
        at: usize,
        path: &str,
        body: Bytes,
        token: Option<HeaderValue>,
        needs_leader: bool,
    ) -> Request<Full<Bytes>> {
        let mut request = Request::post(path).header(CONTENT_TYPE, "application/json");
        request = request.header(HOST, self.endpoints()[at].to_string());
        if needs_leader {
            request = request.header(NEEDS_LEADER, "true");
        }
        if let Some(token) = token {
            request = request.header(AUTHORIZATION, token);
        }
        request.body(Full::new(body)).expect("paths and names of hosts are those of URLs")
    }

    /// Returns a connection on which nothing is asked.
    async fn connection(&self, at: usize) -> Result<Connection, Attempt> {
        loop {
            let kept = self.shared.idle.lock()[at].pop();
            let Some(mut connection) = kept else { break };
            // One that the server closed meanwhile says so.
            if connection.ready().await.is_ok() {
                return Ok(connection);
            }
        }
        connect(self.config(), &self.endpoints()[at]).await.map_err(Attempt::NotBegun)
    }
}

#[derive(Deserialize)]
struct AuthenticateBody {
    token: String,
}

impl<'a> Question<'a> {
    /// Creates a request that a server needs a leader for, and answers in one piece.
    pub(crate) fn new(path: &'a str, request: &Value) -> Question<'a> {
        Question { path, body: request.to_string().into(), form: Form::Single, needs_leader: true }
    }

    /// Creates a request that a server answers without a leader.
    pub(crate) fn without_leader(path: &'a str, request: &Value) -> Question<'a> {
        Question { needs_leader: false, ..Question::new(path, request) }
    }
}

/// An attempt at one server.
#[derive(Debug)]
pub(crate) struct Trying<'a> {
    client: &'a Client,
    at: usize,
    has_answered: bool,
}

impl Trying<'_> {
    /// Prefers the server from now on.
    pub(crate) fn answered(mut self) {
        self.has_answered = true;
        self.client.shared.first.store(self.at, Ordering::Relaxed);
    }
}

impl Drop for Trying<'_> {
    fn drop(&mut self) {
        if !self.has_answered {
            self.client.avoid(self.at);
        }
    }
}

/// Checks that an answer is one: each has the revision of the store, which is never 0.
pub(crate) fn is_acknowledged<T: Answer>(answer: &T) -> Result<(), &'static str> {
    if answer.revision() == 0 { Err("it has no revision") } else { Ok(()) }
}

/// Returns what it means that sending failed.
pub(crate) fn lost(error: hyper::Error) -> Attempt {
    // hyper cancels what it has not begun to send.
    if error.is_canceled() { Attempt::NotBegun(error.into()) } else { Attempt::Lost(error.into()) }
}

/// Reads the body of an answer. An unsuccessful answer becomes an error.
async fn read_answer(answer: Response<Incoming>, at_most: usize) -> Result<Bytes, Attempt> {
    if answer.status().is_success() {
        return read_body(answer, at_most).await;
    }
    Err(read_error(answer, at_most).await)
}

async fn read_body(answer: Response<Incoming>, at_most: usize) -> Result<Bytes, Attempt> {
    let body = Limited::new(answer.into_body(), at_most).collect().await.map_err(|error| {
        Attempt::Lost(match error.downcast::<hyper::Error>() {
            Ok(error) => FailureReason::Broken(*error),
            Err(error) if error.is::<LengthLimitError>() => FailureReason::TooLong(at_most),
            Err(error) => FailureReason::Malformed(error.to_string()),
        })
    })?;
    Ok(body.to_bytes())
}

/// Reads an answer that is an error.
pub(crate) async fn read_error(answer: Response<Incoming>, at_most: usize) -> Attempt {
    let status = answer.status();
    let body = match read_body(answer, at_most).await {
        Ok(body) => body,
        Err(attempt) => return attempt,
    };
    match error_body(&body) {
        // The gateway's own errors always have a code. Who failed without one may have done something before.
        Ok(error) if error.code == 0 && !status.is_client_error() => {
            attempt(ErrorBody { code: code::UNKNOWN, ..error })
        }
        Ok(error) => attempt(error),
        // It is none of the gateway's.
        Err(_) if status.is_client_error() => Attempt::NotBegun(FailureReason::Malformed(format!("HTTP {status}"))),
        Err(_) => Attempt::Lost(FailureReason::Malformed(format!("HTTP {status}"))),
    }
}

/// Returns what an error of etcd's means for the request.
pub(crate) fn attempt(error: ErrorBody) -> Attempt {
    let message = in_short(&error.message);
    match judge(error.code, &error.message) {
        Verdict::Refused(refusal) => Attempt::Refused(refusal, message),
        Verdict::NotBegun => Attempt::NotBegun(FailureReason::Unavailable(message)),
        Verdict::Unknown => Attempt::Lost(FailureReason::Unavailable(message)),
        Verdict::NoSpace => Attempt::Lost(FailureReason::NoSpace),
    }
}

/// Returns a server's words, as far as they are for people to read.
pub(crate) fn in_short(message: &str) -> String {
    match message.char_indices().nth(MAX_WORDS) {
        _ if message.is_empty() => "it gives no reason".into(),
        Some((end, _)) => format!("{}…", &message[..end]),
        None => message.into(),
    }
}

fn parse<T: DeserializeOwned>(answer: &[u8], form: Form) -> Result<T, Attempt> {
    let malformed = |error: serde_json::Error| Attempt::Lost(FailureReason::Malformed(error.to_string()));
    if form == Form::Single {
        return serde_json::from_slice(answer).map_err(malformed);
    }
    let line = answer.split(|byte| *byte == b'\n').next().unwrap_or_default();
    match stream_line(line).map_err(malformed)? {
        StreamLine::Result(result) => Ok(result),
        StreamLine::Error(error) => Err(attempt(error)),
    }
}
