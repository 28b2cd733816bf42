//! Events: what comes, what a client that was away gets, and that slow ones cost nothing.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;

use maple_core::state::{Value as Stored, Write};
use serde_json::Value;

use super::{ADMIN, Ask, READ, Said, Served, TOKENS, private_file};
use crate::common::{LONG, descriptors};

/// An event.
#[derive(Debug)]
pub(super) struct Event {
    id: String,
    pub kind: String,
    pub data: Value,
}

/// A stream of events.
pub(super) struct Events(BufReader<TcpStream>);

impl Events {
    /// Reads events after this id; without one, those that come.
    fn open(served: &Served, last: Option<&str>) -> Events {
        let mut ask = Ask::new("GET", "/v1/events", READ);
        if let Some(last) = last {
            ask = ask.with("Last-Event-ID", last);
        }
        Events::of_request(served, &ask)
    }

    /// Reads the events that this request is answered with.
    pub fn of_request(served: &Served, ask: &Ask<'_>) -> Events {
        let mut stream = served.connect();
        stream.write_all(ask.to_text().as_bytes()).expect("it reads");
        let mut reader = BufReader::new(stream);
        assert_eq!(Said::head(&mut reader).0, 200);
        Events(reader)
    }

    pub fn next(&mut self) -> Event {
        let mut event = Event { id: String::new(), kind: String::new(), data: Value::Null };
        loop {
            let mut line = String::new();
            assert!(self.0.read_line(&mut line).expect("it comes") > 0, "it goes on");
            match line.trim_end().split_once(": ") {
                Some(("id", id)) => id.clone_into(&mut event.id),
                Some(("event", kind)) => kind.clone_into(&mut event.kind),
                Some(("data", data)) => event.data = serde_json::from_str(data).expect("it is JSON"),
                // Sizes of chunks, and empty lines.
                _ if event.data.is_null() => {}
                _ => return event,
            }
        }
    }

    /// Reads to the end of the stream, which comes after at most this many events. Returns the data of the last one,
    /// which says why there are no more.
    pub fn gone_within(mut self, most: usize) -> Value {
        let gone = (0..most).map(|_| self.next()).find(|event| event.kind == "gone").expect("it ends");
        assert_eq!(gone.id, "", "a reader that comes back goes on after what it had");
        let rest: Vec<String> = self.0.lines().map(|line| line.expect("it comes")).collect();
        assert!(rest.iter().all(|line| line.is_empty() || line == "0"), "nothing follows: {rest:?}");
        gone.data
    }

    /// Returns the next event of this kind.
    pub fn of(&mut self, kind: &str) -> Event {
        loop {
            let event = self.next();
            if event.kind == kind {
                return event;
            }
        }
    }
}

#[test]
fn state_events_come_only_for_changes_and_at_most_ten_times_a_second() {
    let served = Served::new(TOKENS, |_| {});
    let mut events = Events::open(&served, None);
    assert_eq!(events.next().kind, "begin");
    let begin = std::time::Instant::now();
    for number in 0..300 {
        announce(&served, number);
        change(&served, number as i64);
    }
    change(&served, -1);
    let version = served.maple.handle.snapshot().version();
    let mut versions = Vec::new();
    while versions.last() != Some(&version) {
        versions.push(events.of("state").data["version"].as_u64().expect("a number"));
    }
    assert!(versions.is_sorted_by(|a, b| a < b), "each tells of a change: {versions:?}");
    let most = 2 + begin.elapsed().as_millis() / 100;
    assert!(versions.len() as u128 <= most, "{versions:?} in {:?}", begin.elapsed());
}

fn change(served: &Served, number: i64) {
    let write = Write::Var { name: "mode".into(), value: Some(Stored::from(number)) };
    served.maple.handle.change(vec![write]).expect("it is acknowledged");
}

/// Makes a line of the log.
fn announce(served: &Served, number: usize) {
    served.maple.handle.operations().listener_failed(format!("error {number}").into());
}

/// Returns the number of an event, which its id ends with.
fn number(event: &Event) -> u64 {
    event.id.rsplit_once('-').and_then(|(_, number)| number.parse().ok()).expect("an id ends with a number")
}

#[test]
fn lines_of_the_log_and_changes_of_state_come_as_events() {
    let served = Served::new(TOKENS, |_| {});
    let mut events = Events::open(&served, None);
    assert_eq!(events.next().kind, "begin");
    announce(&served, 1);
    let line = events.of("log");
    assert_eq!(line.data["text"], "a listener failed: error 1");
    change(&served, 1);
    let state = events.of("state");
    assert!(state.data["version"].is_u64() && number(&state) > number(&line), "{state:?}");
}

#[test]
fn a_client_that_was_away_goes_on_where_it_was() {
    let served = Served::new(TOKENS, |_| {});
    let mut events = Events::open(&served, None);
    let begin = events.next();
    (0..30).for_each(|number| announce(&served, number));
    let all: Vec<Event> = (0..30).map(|_| events.of("log")).collect();
    for (from, first) in [(&begin.id, 0), (&all[9].id, 10), (&all[28].id, 29)] {
        let mut again = Events::open(&served, Some(from));
        for event in &all[first..] {
            let same = again.of("log");
            assert_eq!((&same.id, &same.data), (&event.id, &event.data));
        }
    }
}

#[test]
fn a_client_that_missed_something_hears_so() {
    let served = Served::new(TOKENS, |_| {});
    for other in ["0000000000000000-1", "nonsense", ""] {
        let missed = Events::open(&served, Some(other)).next();
        assert_eq!((missed.kind.as_str(), &missed.data["missed"]), ("missed", &Value::Null), "{other}");
    }
    let begin = Events::open(&served, None).next();
    let mut last = Events::open(&served, None);
    // The log has each change that a client asks for.
    for _ in 0..1100 {
        assert_eq!(served.ask(&Ask::new("POST", "/v1/promote", ADMIN).with("Connection", "close")).status, 409);
        last.of("log");
    }
    let mut late = Events::open(&served, Some(&begin.id));
    let missed = late.next();
    assert!(missed.kind == "missed" && missed.data["missed"].as_u64() >= Some(76), "{missed:?}");
    assert_ne!(late.next().kind, "missed");
}

#[test]
fn a_stream_says_that_the_controller_ends_or_its_token_has() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = private_file(&folder, "tokens", TOKENS);
    let served = Served::new("", |options| {
        let http = options.control.http.as_mut().expect("it is there");
        (http.tokens, http.deadlines.end) = (Some(path.clone()), LONG);
    });
    let events = Events::open(&served, None);
    std::fs::write(&path, format!("admin a {ADMIN}\n")).expect("it is written");
    let gone = events.gone_within(300);
    assert_eq!((&gone["reason"], &gone["status"]), (&"token".into(), &401.into()), "{gone}");
    let events = Events::of_request(&served, &Ask::new("GET", "/v1/events", ADMIN));
    drop(served);
    let gone = events.gone_within(300);
    assert_eq!((&gone["reason"], &gone["status"]), (&"controller".into(), &503.into()), "{gone}");
}

#[test]
fn a_stream_without_events_says_that_the_controller_is_alive() {
    let served = Served::new(TOKENS, |_| {});
    let mut events = Events::open(&served, None);
    events.0.get_ref().set_read_timeout(Some(6 * LONG)).expect("it has a time limit");
    let (begin, first, second) = (events.next(), events.next(), events.next());
    assert_eq!([&*begin.kind, &*first.kind, &*second.kind], ["begin", "alive", "alive"]);
    assert!(first.id.is_empty() && first.data == serde_json::json!({}), "{first:?}");
}

#[test]
fn readers_are_bounded_and_slow_ones_keep_nobody_waiting() {
    if !descriptors(4 * 300) {
        return;
    }
    let served = Served::new(TOKENS, |_| {});
    let mut slow: Vec<Events> = (0..256).map(|_| Events::open(&served, None)).collect();
    let refused = served.get("/v1/events");
    assert_eq!((refused.status, refused.header("retry-after")), (503, Some("1")));
    for number in 0..30 {
        assert_eq!(served.ask(&Ask::new("POST", "/v1/promote", ADMIN)).status, 409, "others are answered meanwhile");
        change(&served, number);
    }
    announce(&served, 1);
    for reader in &mut slow {
        // Each gets the last line, and between the first and the last event all, or that some are gone.
        let mut last = number(&reader.next());
        loop {
            let event = reader.next();
            let missed = event.data["missed"].as_u64().unwrap_or_default();
            let step = if event.kind == "missed" { missed } else { 1 };
            assert_eq!(number(&event), last + step, "{event:?}");
            last = number(&event);
            if event.data["text"] == "a listener failed: error 1" {
                break;
            }
        }
    }
    drop(slow);
    crate::common::eventually("there is room again", || served.get("/v1/events").status == 200);
}

#[test]
fn metrics_are_a_route_too() {
    let served = Served::new(TOKENS, |_| {});
    let classic = served.get("/metrics");
    assert!(classic.body.contains("\nmaple_connections ") && !classic.body.contains("# EOF"), "{}", classic.body);
    let open = served.ask(&Ask::get("/metrics").with("Accept", "application/openmetrics-text"));
    assert!(
        open.body.ends_with("# EOF\n") && open.header("content-type").is_some_and(|kind| kind.contains("openmetrics"))
    );
    assert_eq!(served.ask(&Ask::new("GET", "/metrics", "")).status, 401);
}
