//! Watches of tracked state: what a place holds, at once and again after each change, as server-sent events.
//!
//! A watch waits as transactions do, for a change of the cell that it read, and costs no thread meanwhile. Then a
//! thread of the lane of watches makes the answer that the place's own route would give. The client gets the newest
//! one: changes that follow each other quickly are one event. So a slow client costs one answer, and no other request
//! waits for it: watches wait for each other only, for threads and for the memory of what is not sent.
//!
//! A place that is deleted has the value null, and its watch goes on: it sends the next value as well. A watch ends
//! with an event that says why ([`StreamEnd`]). The reader may not read any more, the controller ends, or there is no
//! such place any more: another policy may give a table keys of another type.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::{Duration, Instant, SystemTime};

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use futures_util::future::select;
use futures_util::stream;
use maple_core::state::WaiterId;
use serde_json::{Value, json};
use siphasher::sip128::SipHasher13;
use tokio::sync::{Notify, watch};

use super::super::request::RequestError;
use super::super::state::{StatePlace, cell_in_use, known_cell, place_with_writers};
use super::api::{Api, failed};
use super::connections::InProgress;
use super::events::CountedReader;
use super::problem::Problem;
use super::stream_end::StreamEnd;
use crate::control::Handle;

/// The minimum time between two events. Chosen: a table that changes more often can't be read.
const SPACING: Duration = Duration::from_millis(100);
/// The divisor of the share of time that making answers takes: at most one part in this many. Chosen: a large table
/// that changes all the time must not take a core.
const SHARE: u32 = 10;
/// The time after which a watch checks again whether its reader may go on, while nothing changes. Chosen: a token that
/// is withdrawn ends its watches within about a second.
const READER_POLL: Duration = Duration::from_secs(1);
/// The maximum number of such checks for which a watch is silent: then a comment shows that it is open. Chosen: 15
/// seconds, less than the idle time after which common proxies end a connection.
const SILENCE: u32 = 15;

/// The parameters that name the place to watch, with what they are.
pub(super) const PARAMETERS: &[(&str, &str)] = &[
    ("table", "the table to watch, in place of all events"),
    ("key", "its key to watch, as in the path of a key"),
    ("var", "the variable to watch, in place of all events"),
];

/// Takes the place to watch out of a query; `None` if there is none.
///
/// # Errors
/// [`Problem`] if it is not a place.
pub(super) fn place(query: &mut BTreeMap<String, String>) -> Result<Option<StatePlace>, Problem> {
    let wrong = |name: &str, why: &str| Problem::field(StatusCode::BAD_REQUEST, name, format!("{name}: {why}"));
    match (query.remove("table"), query.remove("key"), query.remove("var")) {
        (None, None, None) => Ok(None),
        (Some(table), None, None) => Ok(Some(StatePlace::Table(table))),
        (Some(table), Some(key), None) => Ok(Some(StatePlace::Key(table, json!({ "word": key })))),
        (None, None, Some(name)) => Ok(Some(StatePlace::Var(name))),
        (None, Some(_), _) => Err(wrong("key", "it needs its table")),
        (Some(_), _, Some(_)) => Err(wrong("var", "a table is watched, or a variable")),
    }
}

/// Returns the stream of what a place holds. It ends soon after `is_good` says that the reader may not go on, and when
/// there is no such place any more; its last event says why.
///
/// # Errors
/// [`Problem`] if there is no such place, or too many readers.
pub(super) async fn stream(
    api: Arc<Api>,
    place: StatePlace,
    in_progress: InProgress,
    is_good: Box<dyn Fn() -> bool + Send>,
) -> Result<Response, Problem> {
    let (counted, news) = (api.events.count_reader()?, api.events.news());
    let mut reader = PlaceReader {
        api,
        place: Arc::new(place),
        news,
        subscription: None,
        last: None,
        earliest: Instant::now(),
        is_good,
        has_ended: false,
        _held: (counted, in_progress),
    };
    // What is refused is refused before the stream begins.
    if reader.api.lanes.are_watches_full() {
        return Err(Problem::busy("too many events wait for clients that do not read them"));
    }
    let first = reader.look().await?;
    let parts = stream::unfold((reader, first), |(mut reader, first)| async move {
        let part = match first {
            Some(part) => part,
            None => reader.next_part().await?,
        };
        Some((Ok::<_, Infallible>(part), (reader, None)))
    });
    let mut response = Response::new(Body::from_stream(parts));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// One reader of a place.
struct PlaceReader {
    api: Arc<Api>,
    place: Arc<StatePlace>,
    news: watch::Receiver<u64>,
    /// The watch that wakes the reader, from the moment on at which the last answer was made.
    subscription: Option<PlaceWatch>,
    /// The digest of the last event.
    last: Option<[u8; 16]>,
    /// The time when the next answer may be made.
    earliest: Instant,
    is_good: Box<dyn Fn() -> bool + Send>,
    /// Whether the last event has come.
    has_ended: bool,
    _held: (CountedReader, InProgress),
}

impl PlaceReader {
    /// Waits for the next event, or for the time of a comment; `None` ends the stream.
    async fn next_part(&mut self) -> Option<Bytes> {
        if self.has_ended {
            return None;
        }
        let mut silent = 0;
        while silent < SILENCE {
            let mut looked = Ok(None);
            if self.wait().await {
                self.rest().await;
                if !self.api.events.has_ended() {
                    looked = self.look().await;
                }
            } else {
                silent += 1;
            }
            if self.api.events.has_ended() {
                return Some(self.end(&StreamEnd::Controller));
            }
            if !(self.is_good)() {
                return Some(self.end(&StreamEnd::Token));
            }
            match looked {
                Ok(Some(part)) => return Some(part),
                Ok(None) => {}
                Err(why) if self.has_new_policy() => return Some(self.end(&StreamEnd::Policy(why))),
                Err(why) => return Some(self.end(&StreamEnd::Place(why))),
            }
        }
        Some(Bytes::from_static(b":\n\n"))
    }

    /// Ends the watch with an event that says why.
    fn end(&mut self, why: &StreamEnd) -> Bytes {
        self.has_ended = true;
        self.api.lanes.part_of_watch(why.event().into_bytes())
    }

    /// Reports whether another policy runs than when the last answer was made.
    fn has_new_policy(&self) -> bool {
        let loaded = self.api.handle.policy_loaded();
        self.subscription.as_ref().is_some_and(|subscription| subscription.policy != loaded)
    }

    /// Waits until the place may have changed, or for a short time. Returns whether it may have.
    async fn wait(&mut self) -> bool {
        if self.api.lanes.are_watches_full() {
            tokio::time::sleep(READER_POLL).await;
            return false;
        }
        let Some(subscription) = &self.subscription else {
            tokio::time::sleep(SPACING).await;
            return true;
        };
        let events = &self.api.events;
        let woken = pin!(subscription.woken.0.notified());
        let ended = pin!(self.news.wait_for(|_| events.has_ended()));
        let is_woken = tokio::time::timeout(READER_POLL, select(woken, ended)).await.is_ok();
        // Another policy may have another version of the table, or other types.
        let handle = &self.api.handle;
        let has_new_policy = handle.policy_loaded() != subscription.policy;
        is_woken || self.place.in_use(handle) != subscription.place || has_new_policy
    }

    /// Waits until the next answer may be made, or the controller ends.
    async fn rest(&mut self) {
        let events = &self.api.events;
        let ended = self.news.wait_for(|_| events.has_ended());
        // Either way it is over.
        let _ = tokio::time::timeout_at(self.earliest.into(), ended).await;
    }

    /// Makes the answer, and subscribes to what changes it. Returns the event unless it is the same as the last one.
    async fn look(&mut self) -> Result<Option<Bytes>, Problem> {
        let permit = self.api.lanes.enter_watches().await;
        let (api, place, last) = (Arc::clone(&self.api), Arc::clone(&self.place), self.last);
        let is_first = self.subscription.is_none();
        let began = Instant::now();
        let made = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            let looked = PlaceWatch::new(&api.handle, &place, is_first).map_err(|refusal| refused(&place, &refusal))?;
            let (subscription, answer) = looked;
            let text = format!("event: value\ndata: {answer}\n\n");
            let digest = SipHasher13::new().hash(text.as_bytes()).as_bytes();
            let part = (last != Some(digest)).then(|| api.lanes.part_of_watch(text.into_bytes()));
            Ok::<_, Problem>((subscription, digest, part))
        });
        let (subscription, digest, part) = made.await.map_err(failed)??;
        (self.subscription, self.last) = (Some(subscription), Some(digest));
        self.earliest = Instant::now() + SPACING.max(SHARE * began.elapsed());
        Ok(part)
    }
}

/// Translates a refusal: a part of the place is wrong, or there is no such place.
fn refused(place: &StatePlace, refusal: &RequestError) -> Problem {
    let field = match place {
        StatePlace::Var(_) => "var",
        StatePlace::Key(..) if refusal.field.contains("key[1]") => "key",
        StatePlace::Key(..) | StatePlace::Table(_) => "table",
    };
    Problem::from_refusal(refusal, field, &format!("{field}: {}", refusal.text), true)
}

/// A wait for a change of a place. Dropping it ends the wait.
struct PlaceWatch {
    handle: Handle,
    /// The place, with the version of its table.
    place: StatePlace,
    /// The time when the policy was loaded that runs.
    policy: SystemTime,
    woken: Arc<Woken>,
    waiter: Option<WaiterId>,
}

impl PlaceWatch {
    /// Waits for a change of a place from now on. Also returns what it holds, as of this moment or a later one.
    ///
    /// # Errors
    /// [`RequestError`] if there can be no such place, and the first time also if there is none.
    fn new(handle: &Handle, place: &StatePlace, is_first: bool) -> Result<(PlaceWatch, Value), RequestError> {
        let policy = handle.policy_loaded();
        let find = if is_first { known_cell } else { cell_in_use };
        let (place, cell) = find(handle, place, "state.written")?;
        let mut txn = handle.store().begin();
        txn.read(cell.clone());
        let woken = Arc::<Woken>::default();
        let waiter = handle.store().watch(&txn, Waker::from(Arc::clone(&woken)));
        if waiter.is_none() {
            // It has changed already.
            woken.0.notify_one();
        }
        let answer = match place_with_writers(handle, &place, &cell) {
            Value::Array(rows) => json!({ "rows": rows }),
            one => one,
        };
        Ok((PlaceWatch { handle: handle.clone(), place, policy, woken, waiter }, answer))
    }
}

impl Drop for PlaceWatch {
    fn drop(&mut self) {
        if let Some(waiter) = self.waiter {
            self.handle.store().unwatch(waiter);
        }
    }
}

/// The waker of a watch, which a change wakes.
#[derive(Default)]
struct Woken(Notify);

impl Wake for Woken {
    fn wake(self: Arc<Woken>) {
        self.0.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_variable_or_a_table_or_a_key_of_it() {
        let read = |pairs: &[(&str, &str)]| {
            let mut query = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            place(&mut query).map_err(|problem| problem.detail().to_owned())
        };
        assert_eq!(read(&[("sort", "x")]), Ok(None));
        assert_eq!(read(&[("var", "mode")]), Ok(Some(StatePlace::Var("mode".into()))));
        assert_eq!(read(&[("table", "t")]), Ok(Some(StatePlace::Table("t".into()))));
        let key = StatePlace::Key("t".into(), json!({ "word": "7" }));
        assert_eq!(read(&[("table", "t"), ("key", "7")]), Ok(Some(key)));
        assert!(read(&[("key", "7")]).is_err_and(|why| why.starts_with("key: ")));
        assert!(read(&[("table", "t"), ("var", "mode")]).is_err_and(|why| why.starts_with("var: ")));
    }
}
