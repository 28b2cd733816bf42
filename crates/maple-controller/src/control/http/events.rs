//! Events: lines of the log and commits of tracked state as they come, as server-sent events.
//!
//! One thread reads what Maple publishes already, and numbers it. The newest [`KEPT`] events stay. A reader has a place
//! among them and nothing else, so a slow one costs no memory. When the events after its place are gone, it hears how
//! many it missed.
//!
//! An id is the number of the controller's run and that of the event in it. A client that comes back with the id of an
//! earlier run hears that it missed something as well.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, header};
use axum::response::Response;
use futures_util::stream;
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::super::answer::log_line;
use super::connections::InProgress;
use super::problem::Problem;
use super::stream_end::StreamEnd;
use crate::control::Handle;
use crate::log::LogEntry;

/// The number of events that are kept. Chosen: as many as lines of the log are kept, so that a reader that comes back
/// misses nothing which the log still has.
const KEPT: usize = 1024;
/// The maximum number of readers at a time. Chosen: half of the connections, so that readers leave room for requests.
const MAX_READERS: usize = 256;
/// The maximum number of events that a reader gets in one part. Chosen: one write for many events, and a part stays far
/// below what may wait for a reader.
const PART: usize = 64;
/// The time after which the thread looks again for commits of tracked state, and whether it is to end. Chosen: readers
/// hear of a commit within milliseconds, and a look compares two numbers.
const COMMIT_POLL: Duration = Duration::from_millis(10);
/// The minimum time between two events about commits. Chosen: a page that shows the state need not be drawn more than
/// ten times a second.
const SPACING: Duration = Duration::from_millis(100);
/// The time after which a stream looks again whether its reader may go on, while nothing comes. Chosen: a token that is
/// withdrawn ends its streams within about a second.
const LOOK_AT_READER: Duration = Duration::from_secs(1);
/// The maximum number of such looks for which a stream is silent: then the event `alive` comes. Chosen: 15 seconds,
/// less than the idle time after which common proxies end a connection.
const SILENCE: u32 = 15;

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Event {
    kind: &'static str,
    data: Arc<str>,
}

/// The newest events.
#[derive(Debug)]
pub(super) struct EventStreams {
    /// The number of the run in ids.
    run: String,
    latest: Mutex<LatestEvents>,
    /// The number of the next event, for those who wait for it.
    next: watch::Sender<u64>,
    readers: Arc<AtomicUsize>,
    ended: AtomicBool,
}

#[derive(Debug, Default)]
struct LatestEvents {
    kept: VecDeque<Event>,
    next: u64,
}

/// Which commits of tracked state become events: the first one after a while at once, and the newest of those that
/// follow each other quickly.
struct Commits {
    reported: u64,
    earliest: Instant,
}

impl Commits {
    /// Reports whether the newest commit becomes an event now. Then it counts as reported.
    fn announce(&mut self, newest: u64, now: Instant) -> bool {
        let is_due = newest != self.reported && now >= self.earliest;
        if is_due {
            (self.reported, self.earliest) = (newest, now + SPACING);
        }
        is_due
    }
}

/// The next part of a reader's stream.
#[derive(Debug, PartialEq, Eq)]
struct EventChunk {
    text: String,
    next: u64,
}

impl EventStreams {
    /// Creates the streams of a run with this number, without events.
    pub fn new(run: u64) -> EventStreams {
        let (next, _) = watch::channel(0);
        EventStreams {
            run: format!("{run:016x}"),
            latest: Mutex::default(),
            next,
            readers: Arc::default(),
            ended: AtomicBool::new(false),
        }
    }

    /// Reads what the controller publishes, until the end.
    pub fn follow(&self, handle: &Handle) {
        let (mut line, mut looked) = (0, Instant::now());
        let mut commits = Commits { reported: handle.snapshot().version(), earliest: looked };
        while !self.has_ended() {
            for entry in handle.operations().log_since(line, COMMIT_POLL.saturating_sub(looked.elapsed())) {
                self.add_line(line, &entry);
                line = entry.number + 1;
            }
            if looked.elapsed() < COMMIT_POLL {
                continue;
            }
            looked = Instant::now();
            let newest = handle.snapshot().version();
            if commits.announce(newest, looked) {
                self.add("state", &json!({ "version": newest }));
            }
        }
    }

    /// Adds a line of the log, and before it what is missing since the line of this number.
    fn add_line(&self, from: u64, entry: &LogEntry) {
        let missed = entry.number.saturating_sub(from);
        if missed > 0 && from > 0 {
            self.add("missed", &missing(Some(missed)));
        }
        self.add("log", &log_line(entry));
    }

    /// Ends [`EventStreams::follow`], and all streams.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
        self.next.send_modify(|_| {});
    }

    /// Reports whether all streams are to end.
    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// Returns what changes with each event, and at the end.
    pub fn news(&self) -> watch::Receiver<u64> {
        self.next.subscribe()
    }

    /// Counts a reader.
    ///
    /// # Errors
    /// [`Problem`] if there are too many.
    pub fn count_reader(&self) -> Result<CountedReader, Problem> {
        CountedReader::new(&self.readers)
            .ok_or_else(|| Problem::busy(format!("{MAX_READERS} clients read events, and there can be no more")))
    }

    fn add(&self, kind: &'static str, data: &Value) {
        let mut latest = self.lock();
        if latest.kept.len() == KEPT {
            latest.kept.pop_front();
        }
        latest.kept.push_back(Event { kind, data: data.to_string().into() });
        latest.next += 1;
        let next = latest.next;
        drop(latest);
        self.next.send_replace(next);
    }

    fn lock(&self) -> MutexGuard<'_, LatestEvents> {
        self.latest.lock()
    }

    /// Returns the stream of events after the one with this id; without one, of those that come. It ends soon after
    /// `is_good` says that the reader may not go on. Its last event says why it ends ([`StreamEnd`]).
    ///
    /// # Errors
    /// [`Problem`] if there are too many readers.
    pub fn stream(
        self: &Arc<EventStreams>,
        last: Option<&str>,
        in_progress: InProgress,
        is_good: Box<dyn Fn() -> bool + Send>,
    ) -> Result<Response, Problem> {
        let counted = self.count_reader()?;
        let (first, next) = self.begin(last);
        let news = self.news();
        let (events, has_ended) = (Arc::clone(self), false);
        let reader = StreamReader { events, news, next, first, is_good, has_ended, _held: (counted, in_progress) };
        let parts = stream::unfold(reader, |mut reader| async move {
            let text = reader.next_part().await?;
            Some((Ok::<_, Infallible>(Bytes::from(text)), reader))
        });
        let mut response = Response::new(Body::from_stream(parts));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        Ok(response)
    }

    /// Returns what a reader with this last id gets first, and the number of the event after that.
    fn begin(&self, last: Option<&str>) -> (String, u64) {
        let next = self.lock().next;
        let number_in_run =
            |id: &str| id.strip_prefix(&self.run)?.strip_prefix('-')?.parse::<u64>().ok().filter(|n| *n <= next);
        match last.map(number_in_run) {
            None => (format!("id: {}\nevent: begin\ndata: {{}}\n\n", self.id(next)), next),
            Some(Some(first)) => (String::new(), first),
            Some(None) => (self.missed(None, next), next),
        }
    }

    /// Returns events from this number on, or that they are gone.
    fn after(&self, next: u64) -> EventChunk {
        let latest = self.lock();
        let oldest = latest.next - latest.kept.len() as u64;
        if next < oldest {
            return EventChunk { text: self.missed(Some(oldest - next), oldest), next: oldest };
        }
        let (mut text, mut number) = (String::new(), next);
        for Event { kind, data } in latest.kept.iter().skip((next - oldest) as usize).take(PART) {
            text += &format!("id: {}\nevent: {kind}\ndata: {data}\n\n", self.id(number + 1));
            number += 1;
        }
        EventChunk { text, next: number }
    }

    /// Says that events before this number are gone: how many, if that is known.
    fn missed(&self, count: Option<u64>, next: u64) -> String {
        format!("id: {}\nevent: missed\ndata: {}\n\n", self.id(next), missing(count))
    }

    /// Returns the id after which a client goes on with the event of this number.
    fn id(&self, next: u64) -> String {
        format!("{}-{next}", self.run)
    }
}

/// Describes events that are gone: how many, if that is known.
fn missing(count: Option<u64>) -> Value {
    json!({ "missed": count, "advice": "read again" })
}

/// One reader's place among the events.
struct StreamReader {
    events: Arc<EventStreams>,
    news: watch::Receiver<u64>,
    /// The number of the event that comes next.
    next: u64,
    /// The text that comes before that event; empty if there is none.
    first: String,
    is_good: Box<dyn Fn() -> bool + Send>,
    /// Whether the last event has come.
    has_ended: bool,
    _held: (CountedReader, InProgress),
}

impl StreamReader {
    /// Waits for what comes next; `None` ends the stream.
    async fn next_part(&mut self) -> Option<String> {
        if self.has_ended {
            return None;
        }
        if !self.first.is_empty() {
            return Some(std::mem::take(&mut self.first));
        }
        for _ in 0..SILENCE {
            let (next, events) = (self.next, &self.events);
            let news = self.news.wait_for(|newest| *newest > next || events.has_ended());
            let has_come = tokio::time::timeout(LOOK_AT_READER, news).await.map(|news| news.is_ok());
            if self.events.has_ended() {
                return Some(self.end(&StreamEnd::Controller));
            }
            if !(self.is_good)() {
                return Some(self.end(&StreamEnd::Token));
            }
            match has_come {
                Ok(true) => {
                    let part = self.events.after(next);
                    self.next = part.next;
                    return Some(part.text);
                }
                // The server is gone.
                Ok(false) => return None,
                Err(_) => {}
            }
        }
        Some("event: alive\ndata: {}\n\n".to_owned())
    }

    /// Ends the stream with an event that says why. It has no id: a reader that comes back goes on after what it had.
    fn end(&mut self, why: &StreamEnd) -> String {
        self.has_ended = true;
        why.event()
    }
}

/// A reader that is counted.
#[derive(Debug)]
pub(super) struct CountedReader(Arc<AtomicUsize>);

impl CountedReader {
    fn new(all: &Arc<AtomicUsize>) -> Option<CountedReader> {
        if all.fetch_add(1, Ordering::Relaxed) < MAX_READERS {
            return Some(CountedReader(Arc::clone(all)));
        }
        all.fetch_sub(1, Ordering::Relaxed);
        None
    }
}

impl Drop for CountedReader {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use proptest::prelude::*;

    use super::*;
    use crate::log::Level;

    /// Reads all events from a number on: their numbers, and how many were missed.
    fn read(events: &EventStreams, mut next: u64) -> (Vec<u64>, u64) {
        let (mut numbers, mut missed) = (Vec::new(), 0);
        while next < events.lock().next {
            let part = events.after(next);
            assert!(part.next > next, "it goes on");
            for line in part.text.lines().filter_map(|line| line.strip_prefix("data: ")) {
                let data: Value = serde_json::from_str(line).expect("it is JSON");
                match data["missed"].as_u64() {
                    Some(count) => missed += count,
                    None => numbers.push(data["number"].as_u64().expect("a number")),
                }
            }
            next = part.next;
        }
        (numbers, missed)
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_reader_gets_each_event_or_hears_that_it_missed_it(count in 0u64..3000, from in 0u64..3000) {
            let (events, from) = (EventStreams::new(1), from.min(count));
            (0..count).for_each(|number| events.add("log", &json!({ "number": number })));
            let (numbers, missed) = read(&events, from);
            let expected: Vec<u64> = (from.max(count.saturating_sub(KEPT as u64))..count).collect();
            prop_assert_eq!(missed, count - from - expected.len() as u64);
            prop_assert_eq!(numbers, expected);
            prop_assert!(events.lock().kept.len() <= KEPT);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_commit_is_reported_at_the_first_look_unless_one_was_reported_just_before(
            looks in prop::collection::vec((0u64..300, 0u64..2), 1..60),
        ) {
            let mut now = Instant::now();
            let (mut commits, mut newest) = (Commits { reported: 0, earliest: now }, 0);
            let mut reported: Vec<(u64, Instant)> = Vec::new();
            for (passed, more) in looks {
                (now, newest) = (now + Duration::from_millis(passed), newest + more);
                let (latest, when) = reported.last().map_or((0, None), |(version, when)| (*version, Some(*when)));
                let is_soon = when.is_some_and(|when| now - when < SPACING);
                prop_assert_eq!(commits.announce(newest, now), newest != latest && !is_soon);
                if newest != latest && !is_soon {
                    reported.push((newest, now));
                }
            }
            now += SPACING;
            let is_waiting = reported.last().map_or(0, |(version, _)| *version) != newest;
            prop_assert_eq!(commits.announce(newest, now), is_waiting, "the newest is reported in the end");
        }
    }

    #[test]
    fn lines_of_the_log_that_are_gone_are_reported() {
        let events = EventStreams::new(1);
        let line = |number| LogEntry {
            number,
            time: SystemTime::UNIX_EPOCH,
            level: Level::Info,
            area: "run",
            text: String::new(),
        };
        for (from, number) in [(0, 5), (6, 6), (7, 10)] {
            events.add_line(from, &line(number));
        }
        let kinds: Vec<&str> = events.lock().kept.iter().map(|event| event.kind).collect();
        assert_eq!(kinds, ["log", "log", "missed", "log"], "what was before the server is not missed");
        assert!(events.after(2).text.contains("{\"advice\":\"read again\",\"missed\":3}"));
    }

    #[test]
    fn ids_of_another_run_or_of_the_future_cannot_be_resumed() {
        let events = EventStreams::new(7);
        (0..3).for_each(|number| events.add("log", &json!({ "number": number })));
        assert_eq!(events.begin(Some("0000000000000007-2")), (String::new(), 2));
        for other in ["0000000000000007-4", "0000000000000008-2", "2", ""] {
            assert!(events.begin(Some(other)).0.contains("event: missed"), "{other}");
        }
    }
}
