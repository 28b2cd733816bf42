//! The server against clients that send other requests or none.

use std::io::{BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::atomic::AtomicUsize;
use std::thread::JoinHandle;

use proptest::prelude::*;

use super::*;

/// A server that counts its scrapes, and ends when it is dropped.
struct Running {
    address: SocketAddr,
    scrapes: Arc<AtomicUsize>,
    closing: Arc<AtomicBool>,
    waker: Arc<Waker>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    fn new(text: &'static str) -> Running {
        let mut server = HttpServer::open(([127, 0, 0, 1], 0).into()).expect("it listens");
        let (address, waker) = (server.address().expect("it has one"), server.waker().expect("it has one"));
        let (scrapes, closing) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (counted, ends) = (Arc::clone(&scrapes), Arc::clone(&closing));
        let scrape = move || {
            counted.fetch_add(1, Ordering::Relaxed);
            (!text.is_empty()).then(|| text.to_owned())
        };
        let thread = std::thread::spawn(move || server.run(scrape, &ends).expect("it runs"));
        Running { address, scrapes, closing, waker, thread: Some(thread) }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("it accepts");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("it has a time limit");
        stream
    }

    /// Returns the answer to these bytes, up to the end of the connection.
    fn ask(&self, request: &[u8]) -> String {
        let mut stream = self.connect();
        stream.write_all(request).expect("it reads");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("it answers and ends");
        String::from_utf8(answer).expect("it is text")
    }

    fn status(&self, request: &[u8]) -> String {
        self.ask(request).lines().next().unwrap_or_default().to_owned()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.closing.store(true, Ordering::Relaxed);
        self.waker.wake().expect("it is there");
        let ended = self.thread.take().map(JoinHandle::join);
        assert!(ended.is_some_and(|ended| ended.is_ok()), "the server ran to its end");
    }
}

const GET: &[u8] =
    b"GET /metrics HTTP/1.1\r\nHost: here\r\nAccept: application/openmetrics-text; version=1.0.0\r\n\r\n";

#[test]
fn a_scrape_is_answered_with_its_text_and_length() {
    let server = Running::new("up 1\n# EOF\n");
    let answer = server.ask(GET);
    let (head, body) = answer.split_once("\r\n\r\n").expect("it has a head");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains("Content-Length: 11\r\n"), "{head}");
    assert!(head.contains(OPENMETRICS) && head.ends_with("Connection: close"), "{head}");
    assert_eq!(body, "up 1\n# EOF\n");
    let head = server.ask(b"HEAD /metrics HTTP/1.0\naccept: text/plain,application/openmetrics-text\n\n");
    assert!(head.contains("Content-Length: 11\r\n") && head.ends_with("\r\n\r\n"), "{head}");
}

#[test]
fn who_does_not_ask_for_openmetrics_gets_the_older_format() {
    let server = Running::new("up 1\n# EOF\n");
    for accept in ["", "Accept: text/plain;version=0.0.4\r\n", "Accept: */*\r\n"] {
        let answer = server.ask(format!("GET /metrics?x=/y HTTP/1.1\r\n{accept}\r\n").as_bytes());
        let (head, body) = answer.split_once("\r\n\r\n").expect("it has a head");
        assert!(head.contains("Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"), "{head}");
        assert!(head.contains("Content-Length: 5\r\n") && body == "up 1\n", "{answer}");
    }
}

#[test]
fn everything_else_is_refused_without_a_scrape() {
    let server = Running::new("up 1\n");
    for (request, status) in [
        (&b"GET / HTTP/1.1\r\n\r\n"[..], "HTTP/1.1 404 Not Found"),
        (b"GET /metrics/x HTTP/1.1\r\n\r\n", "HTTP/1.1 404 Not Found"),
        (b"POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", "HTTP/1.1 405 Method Not Allowed"),
        (b"get /metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 405 Method Not Allowed"),
        (b"GET /metrics\r\n\r\n", "HTTP/1.1 400 Bad Request"),
        (b"GET http://x/metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 400 Bad Request"),
        (b"GET /metrics HTTP/2.0\r\n\r\n", "HTTP/1.1 400 Bad Request"),
        (b"\xff\xfe\r\n\r\n", "HTTP/1.1 400 Bad Request"),
        (b"\n\n", "HTTP/1.1 400 Bad Request"),
        (&[b'x'; MAX_REQUEST + 1000], "HTTP/1.1 431 Request Header Fields Too Large"),
    ] {
        assert_eq!(server.status(request), status, "{}", String::from_utf8_lossy(&request[..request.len().min(40)]));
    }
    assert_eq!(server.scrapes.load(Ordering::Relaxed), 0);
}

#[test]
fn a_scrape_that_fails_is_no_empty_answer() {
    assert_eq!(Running::new("").status(GET), "HTTP/1.1 503 Service Unavailable");
}

#[test]
fn a_request_may_come_in_pieces() {
    let server = Running::new("up 1\n");
    let mut stream = server.connect();
    for byte in GET {
        stream.write_all(&[*byte]).expect("it reads");
    }
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    assert!(answer.ends_with("\r\n\r\nup 1\n"), "{answer}");
}

#[test]
fn half_requests_keep_nobody_out_and_are_bounded() {
    let server = Running::new("up 1\n");
    let mut halves = Vec::new();
    for round in 0..10 {
        for _ in 0..2 * MAX_CLIENTS {
            let mut half = server.connect();
            // The server may have closed it already.
            let _ = half.write_all(b"GET /metrics HTTP/1.1\r\nHost: ");
            halves.push(half);
        }
        assert_eq!(server.status(GET), "HTTP/1.1 200 OK", "round {round}");
    }
    // All but the newest were closed to make way, long before their time was over.
    let old = halves.len() - 2 * MAX_CLIENTS;
    for half in &mut halves[..old] {
        // An end or an error; waiting for the time limit would be another error.
        match half.read(&mut [0; 1]) {
            Ok(count) => assert_eq!(count, 0),
            Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
        }
    }
}

#[test]
fn clients_that_do_not_read_keep_nobody_out() {
    let long: &'static str = Box::leak("x".repeat(8 << 20).into_boxed_str());
    let server = Running::new(long);
    let mut silent: Vec<TcpStream> = (0..2 * MAX_CLIENTS).map(|_| server.connect()).collect();
    silent.iter_mut().for_each(|stream| drop(stream.write_all(GET)));
    let mut reader = BufReader::new(server.connect());
    reader.get_mut().write_all(GET).expect("it reads");
    let mut answer = Vec::new();
    reader.read_to_end(&mut answer).expect("it answers");
    assert!(answer.len() > long.len() && answer.ends_with(b"xxx"));
}

#[test]
fn a_long_scrape_is_not_repeated_at_once() {
    let (mut last, count) = (None, AtomicUsize::new(0));
    let scrape = || {
        count.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(Duration::from_secs(1));
        Some("up 1\n".to_owned())
    };
    for _ in 0..1000 {
        assert_eq!(scraped(&mut last, &scrape).as_deref(), Some("up 1\n"));
    }
    assert_eq!(count.load(Ordering::Relaxed), 1);
    last.as_mut().expect("it is there").until = Instant::now();
    scraped(&mut last, &scrape);
    assert_eq!(count.load(Ordering::Relaxed), 2, "when its time is over");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_request_has_an_answer_and_only_the_right_ones_scrape(
        method in "GET|HEAD|POST|[ -~]{0,8}", target in "/metrics|/metrics\\?[a-z]{0,3}|[ -~]{0,12}", rest in "\\PC{0,40}",
    ) {
        let request = format!("{method} {target} HTTP/1.1{rest}\r\n\r\n");
        let mut scraped = false;
        let answer = respond(&request, || { scraped = true; Some("text".into()) });
        let head = String::from_utf8(answer.head.clone()).unwrap();
        prop_assert!(head.starts_with("HTTP/1.1 ") && head.ends_with("\r\n\r\n"));
        prop_assert_eq!(scraped, head.starts_with("HTTP/1.1 200 OK\r\n"));
        let is_right = ["GET", "HEAD"].contains(&&*method) && target.split('?').next() == Some("/metrics");
        prop_assert!(!scraped || is_right);
        prop_assert_eq!(answer.body.is_empty(), method == "HEAD" && !head.starts_with("HTTP/1.1 400"));
    }
}
