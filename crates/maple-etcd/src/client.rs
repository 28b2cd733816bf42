//! Requests: which server gets them, what becomes of them, and the token that shows who asks.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Request, Response};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::address::Endpoint;
use crate::config::Config;
use crate::connection::{Connection, connect};
use crate::error::{EtcdError, Failure, FailureReason, Refusal, Verdict, code, judge};
use crate::json::{ErrorBody, StreamLine, error_body, stream_line};

/// Maximum number of connections to a server that are kept while nothing is asked.
const MAX_IDLE: usize = 4;
/// Maximum number of characters of a server's words that are told.
const MAX_WORDS: usize = 300;
/// The header by which a server that has no leader says so at once, instead of when its patience is over.
const NEEDS_LEADER: &str = "grpc-metadata-hasleader";

/// What a request does.
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

/// A client of one etcd. Clones share connections. It needs a runtime of tokio's with I/O and time.
#[derive(Clone, Debug)]
pub struct Client {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    config: Config,
    /// The server that answered last, which is asked first.
    first: AtomicUsize,
    /// Connections on which nothing is asked, by server.
    idle: Mutex<Vec<Vec<Connection>>>,
    /// Asked for when it is first needed, and again when a server does not know it any more.
    token: tokio::sync::Mutex<Option<HeaderValue>>,
}

/// What became of a request at one server.
#[derive(Debug)]
pub(crate) enum Attempt {
    /// It certainly was not carried out there.
    NotBegun(FailureReason),
    /// It may have been.
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
        let shared = Shared { config, first: AtomicUsize::new(0), idle: Mutex::new(idle), token: Default::default() };
        Client { shared: Arc::new(shared) }
    }

    /// Returns the servers, as configured.
    pub fn endpoints(&self) -> &[Endpoint] {
        &self.shared.config.endpoints
    }

    pub(crate) fn config(&self) -> &Config {
        &self.shared.config
    }

    /// Returns the servers, beginning with the one that answered last.
    pub(crate) fn order(&self) -> impl Iterator<Item = usize> + use<> {
        let (first, count) = (self.shared.first.load(Ordering::Relaxed), self.endpoints().len());
        (0..count).map(move |step| (first + step) % count)
    }

    /// Prefers this server from now on.
    pub(crate) fn prefer(&self, at: usize) {
        self.shared.first.store(at, Ordering::Relaxed);
    }

    pub(crate) fn failure(&self, at: usize, reason: FailureReason) -> Failure {
        Failure { endpoint: self.endpoints()[at].clone(), reason }
    }

    pub(crate) fn refused(&self, at: usize, refusal: Refusal, message: String) -> EtcdError {
        EtcdError::Refused { endpoint: self.endpoints()[at].clone(), refusal, message }
    }

    /// Asks, and returns the answer.
    pub(crate) async fn call<T: DeserializeOwned>(
        &self,
        path: &str,
        request: &Value,
        effect: Effect,
    ) -> Result<T, EtcdError> {
        self.ask(path, request, effect, Form::Single).await
    }

    /// Sends a request that may be repeated, and returns the first line of the stream that answers it.
    pub(crate) async fn call_stream<T: DeserializeOwned>(&self, path: &str, request: &Value) -> Result<T, EtcdError> {
        self.ask(path, request, Effect::Read, Form::Stream).await
    }

    async fn ask<T: DeserializeOwned>(
        &self,
        path: &str,
        request: &Value,
        effect: Effect,
        form: Form,
    ) -> Result<T, EtcdError> {
        let body = Bytes::from(request.to_string());
        let mut failures = Vec::new();
        for at in self.order() {
            match self.ask_with_token(at, path, &body, form).await {
                Ok(answer) => {
                    self.prefer(at);
                    return Ok(answer);
                }
                Err(Attempt::Refused(refusal, message)) => return Err(self.refused(at, refusal, message)),
                Err(Attempt::Lost(reason)) if effect == Effect::Write => {
                    // Whoever asks again begins with another server.
                    self.prefer((at + 1) % self.endpoints().len());
                    return Err(EtcdError::Uncertain(self.failure(at, reason)));
                }
                Err(Attempt::NotBegun(reason) | Attempt::Lost(reason)) => failures.push(self.failure(at, reason)),
            }
        }
        Err(EtcdError::Unreachable(failures))
    }

    /// Asks one server only, which needs no leader for the answer.
    pub(crate) async fn ask_one<T: DeserializeOwned>(
        &self,
        at: usize,
        path: &str,
        request: &Value,
    ) -> Result<T, Failure> {
        let body = Bytes::from(request.to_string());
        let answer = self.exchange(at, path, body, None, false).await.and_then(|answer| parse(&answer, Form::Single));
        answer.map_err(|attempt| match attempt {
            Attempt::NotBegun(reason) | Attempt::Lost(reason) => self.failure(at, reason),
            Attempt::Refused(_, message) => self.failure(at, FailureReason::Unavailable(message)),
        })
    }

    /// Asks one server only, as all requests are sent.
    pub(crate) async fn ask_only<T: DeserializeOwned>(
        &self,
        at: usize,
        path: &str,
        request: &Value,
    ) -> Result<T, Attempt> {
        self.ask_with_token(at, path, &Bytes::from(request.to_string()), Form::Single).await
    }

    /// Asks one server, with a new token if it does not know the one that there is.
    async fn ask_with_token<T: DeserializeOwned>(
        &self,
        at: usize,
        path: &str,
        body: &Bytes,
        form: Form,
    ) -> Result<T, Attempt> {
        let token = self.token(at).await?;
        let answer = self.exchange(at, path, body.clone(), token.clone(), true).await;
        match answer.and_then(|answer| parse(&answer, form)) {
            Err(Attempt::Refused(refusal, _)) if self.forgets_token(refusal, token.as_ref()).await => {
                let token = self.token(at).await?;
                let answer = self.exchange(at, path, body.clone(), token, true).await;
                answer.and_then(|answer| parse(&answer, form))
            }
            answer => answer,
        }
    }

    /// Reports whether a refusal means that the token is no longer good. Then the next request gets a new one.
    pub(crate) async fn forgets_token(&self, refusal: Refusal, used: Option<&HeaderValue>) -> bool {
        // Whoever enables authentication makes requests without a token fail.
        let is_stale = refusal == Refusal::Token || (refusal == Refusal::Credentials && used.is_none());
        if !is_stale || self.config().credentials.is_none() {
            return false;
        }
        let mut token = self.shared.token.lock().await;
        if token.as_ref() == used {
            *token = None;
        }
        true
    }

    /// Returns the token; asks this server for one if there is none, and a user is configured.
    pub(crate) async fn token(&self, at: usize) -> Result<Option<HeaderValue>, Attempt> {
        let Some(credentials) = &self.config().credentials else { return Ok(None) };
        // Others wait meanwhile: one question is enough.
        let mut token = self.shared.token.lock().await;
        if token.is_none() {
            let request = json!({ "name": credentials.user, "password": credentials.password }).to_string();
            let answer = self.exchange(at, "/v3/auth/authenticate", request.into(), None, true).await;
            let answer = answer.and_then(|answer| parse::<AuthenticateBody>(&answer, Form::Single));
            *token = match answer {
                Ok(body) => {
                    let mut value = HeaderValue::try_from(body.token).map_err(|_| {
                        Attempt::NotBegun(FailureReason::Malformed("a token with odd characters".into()))
                    })?;
                    value.set_sensitive(true);
                    Some(value)
                }
                // As etcd's own clients do: who asks nobody for a password gets none.
                Err(Attempt::Refused(_, message)) if message.contains("authentication is not enabled") => None,
                // Whatever became of this, the request itself was not sent.
                Err(Attempt::Lost(reason)) => return Err(Attempt::NotBegun(reason)),
                Err(attempt) => return Err(attempt),
            };
        }
        Ok(token.clone())
    }

    /// Sends one request to one server, and returns the body of the answer.
    async fn exchange(
        &self,
        at: usize,
        path: &str,
        body: Bytes,
        token: Option<HeaderValue>,
        needs_leader: bool,
    ) -> Result<Bytes, Attempt> {
        let limits = self.config().limits;
        let request = self.request(at, path, body, token, needs_leader);
        let mut connection = self.connection(at).await?;
        let answer = async {
            let answer = connection.send_request(request).await.map_err(lost)?;
            read_answer(answer, limits.answer).await
        };
        let timed_out = |_| Err(Attempt::Lost(FailureReason::TimedOut(limits.request)));
        let bytes = tokio::time::timeout(limits.request, answer).await.unwrap_or_else(timed_out)?;
        let mut idle = self.shared.idle.lock().unwrap_or_else(PoisonError::into_inner);
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
            let kept = self.shared.idle.lock().unwrap_or_else(PoisonError::into_inner)[at].pop();
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

/// Returns what it means that sending failed.
pub(crate) fn lost(error: hyper::Error) -> Attempt {
    // hyper cancels what it has not begun to send.
    if error.is_canceled() { Attempt::NotBegun(error.into()) } else { Attempt::Lost(error.into()) }
}

/// Reads the body of an answer. That of an error becomes one.
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
