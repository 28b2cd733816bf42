//! Servers that break off: a write is repeated only where it certainly did not happen.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use maple_etcd::{
    Change, Client, Compare, Config, Credentials, Endpoint, EtcdError, FailureReason, Keys, LeaseId, Limits, Operation,
    Transaction, WatchEvent,
};

use crate::server::{run, until};

/// A request that a server was sent.
struct Request {
    path: String,
    token: Option<String>,
    body: String,
}

/// Starts a server that gives each connection's first request this answer and closes it, unless the
/// answer says `keep-alive`, or never answers. Each request is reported before.
fn server(answer: Option<String>) -> (Endpoint, Receiver<Request>) {
    scripted(vec![answer])
}

/// Starts a server that gives the first request of each connection the next of these answers, and
/// the last one again and again.
fn scripted(answers: Vec<Option<String>>) -> (Endpoint, Receiver<Request>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let endpoint = Endpoint { host: "127.0.0.1".into(), port: listener.local_addr().expect("it is bound").port() };
    let (report, requests) = channel();
    std::thread::spawn(move || {
        let mut open = Vec::new();
        let mut count = 0;
        while let Ok((mut stream, _)) = listener.accept() {
            let Some(request) = read_request(&mut stream) else { continue };
            // Before the answer, so that whoever has that finds this.
            if report.send(request).is_err() {
                return;
            }
            let answer = &answers[count.min(answers.len() - 1)];
            count += 1;
            if let Some(answer) = answer {
                // A client that has given up hears nothing.
                let _ = stream.write_all(answer.as_bytes());
            }
            if answer.as_ref().is_none_or(|answer| answer.contains("keep-alive")) {
                open.push(stream);
            }
        }
    });
    (endpoint, requests)
}

/// Reads a request with its body.
fn read_request(stream: &mut TcpStream) -> Option<Request> {
    let mut text = String::new();
    let mut bytes = [0; 4096];
    loop {
        let count = stream.read(&mut bytes).ok().filter(|count| *count > 0)?;
        text.push_str(&String::from_utf8_lossy(&bytes[..count]));
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).expect("requests have a body");
        if body.len() >= length.parse().expect("a number") {
            let path = head.split(' ').nth(1).expect("a request has a path").to_owned();
            let token = head.lines().find_map(|line| line.strip_prefix("authorization: ")).map(str::to_owned);
            return Some(Request { path, token, body: body.to_owned() });
        }
    }
}

/// Returns the paths of the requests that were sent so far.
fn paths(asked: &Receiver<Request>) -> Vec<String> {
    asked.try_iter().map(|request| request.path).collect()
}

/// Returns a port at which nobody listens: its own connections come from elsewhere.
fn nobody() -> Endpoint {
    Endpoint { host: "127.93.1.1".into(), port: 9 }
}

/// Returns a whole answer.
fn answer(status: &str, body: &str) -> Option<String> {
    Some(format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len()))
}

fn good() -> Option<String> {
    answer("200 OK", r#"{"header":{"revision":"17"}}"#)
}

/// Returns an answer that ends too early.
fn cut() -> Option<String> {
    Some("HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{\"header\"".into())
}

fn unavailable(message: &str) -> Option<String> {
    refused("503 Service Unavailable", 14, &format!("etcdserver: {message}"))
}

fn refused(status: &str, code: u32, message: &str) -> Option<String> {
    answer(status, &format!(r#"{{"code":{code},"message":"{message}"}}"#))
}

/// Returns the error of a stream that ended before its first line.
fn nested(status: &str, code_is: &str, code: u32, message: &str) -> Option<String> {
    answer(status, &format!(r#"{{"error":{{"{code_is}":{code},"message":"{message}"}}}}"#))
}

/// Returns the faults of a server, and whether it is certain then that it did nothing.
fn faults() -> [(Option<String>, bool); 15] {
    [
        (cut(), false),
        // It closes the connection without an answer.
        (Some(String::new()), false),
        // It never answers.
        (None, false),
        (unavailable("request timed out"), false),
        (answer("200 OK", "hello"), false),
        // Whoever answers like this is none of etcd's.
        (answer("200 OK", "{}"), false),
        (answer("200 OK", r#"{"header":{}}"#), false),
        (answer("502 Bad Gateway", "hello"), false),
        // The servers agree on a write before they look at the quota.
        (refused("429 Too Many Requests", 8, "etcdserver: mvcc: database space exceeded"), false),
        (refused("500 Internal Server Error", 0, "it broke"), false),
        (unavailable("no leader"), true),
        (unavailable("rpc not supported for learner"), true),
        (nested("503 Service Unavailable", "grpc_code", 14, "etcdserver: no leader"), true),
        (nested("503 Service Unavailable", "code", 14, "etcdserver: request timed out"), false),
        (answer("404 Not Found", "Not Found"), true),
    ]
}

fn client(endpoints: Vec<Endpoint>) -> Client {
    let limits = Limits { request: Duration::from_secs(2), ..Limits::default() };
    Client::new(Config { limits, ..Config::new(endpoints) })
}

#[test]
fn a_write_is_repeated_only_where_it_certainly_did_not_happen() {
    run(async {
        for (fault, is_certain) in faults() {
            let ((bad, asked), (good, repeated)) = (server(fault.clone()), server(good()));
            let written = client(vec![nobody(), bad.clone(), good]).put(b"a", b"", LeaseId::NONE).await;
            assert_eq!(paths(&asked), ["/v3/kv/put"]);
            assert_eq!(repeated.try_recv().is_ok(), is_certain, "{fault:?}");
            match written {
                Ok(written) => assert!(is_certain && written.revision == 17, "{fault:?}"),
                Err(EtcdError::Uncertain(failure)) => assert!(!is_certain && failure.endpoint == bad, "{fault:?}"),
                Err(error) => panic!("{fault:?}: {error}"),
            }
        }
    });
}

#[test]
fn a_read_goes_to_the_next_server_in_every_case() {
    run(async {
        for (fault, _) in faults() {
            let ((bad, _asked), (good, _repeated)) = (server(fault.clone()), server(good()));
            let client = client(vec![nobody(), bad, good]);
            let read = client.range(&Keys::Prefix(Vec::new()), 0).await.unwrap();
            assert_eq!(read.revision, 17, "{fault:?}");
        }
    });
}

#[test]
fn an_error_names_each_server_and_what_it_did() {
    run(async {
        let ((early, _a), (silent, _b), (other, _c)) =
            (server(cut()), server(None), server(answer("404 Not Found", "")));
        let error = client(vec![nobody(), early.clone(), silent.clone(), other.clone()]).get(b"a").await.unwrap_err();
        let text = error.to_string();
        let EtcdError::Unreachable(failures) = error else { panic!("{text}") };
        let endpoints: Vec<_> = failures.iter().map(|failure| failure.endpoint.clone()).collect();
        assert_eq!(endpoints, [nobody(), early, silent.clone(), other.clone()]);
        assert!(text.starts_with("no server of etcd answers: 127.93.1.1:9: can't connect: "), "{text}");
        assert!(text.contains(&format!("{silent}: no answer within 2s")), "{text}");
        assert!(text.ends_with(&format!("{other}: its answer makes no sense: HTTP 404 Not Found")), "{text}");
    });
}

#[test]
fn the_server_that_answered_is_asked_first_the_next_time() {
    run(async {
        let ((bad, asked), (good, answered)) = (server(unavailable("no leader")), server(good()));
        let client = client(vec![bad, good]);
        client.get(b"a").await.unwrap();
        client.get(b"a").await.unwrap();
        assert_eq!((asked.try_iter().count(), answered.try_iter().count()), (1, 2));
    });
}

#[test]
fn a_write_for_which_there_is_no_space_may_be_there() {
    run(async {
        let full = refused("429 Too Many Requests", 8, "etcdserver: mvcc: database space exceeded");
        let (endpoint, _asked) = server(full);
        let error = client(vec![endpoint]).put(b"a", b"", LeaseId::NONE).await.unwrap_err();
        let EtcdError::Uncertain(failure) = &error else { panic!("{error}") };
        assert!(matches!(failure.reason, FailureReason::NoSpace), "{error}");
        assert!(error.to_string().ends_with("it has no space left"), "{error}");
    });
}

/// Returns an answer with a token.
fn token(token: &str) -> Option<String> {
    answer("200 OK", &format!(r#"{{"header":{{"revision":"17"}},"token":"{token}"}}"#))
}

fn with_password(endpoints: Vec<Endpoint>) -> Client {
    let credentials = Some(Credentials { user: "maple".into(), password: "pw".into() });
    Client::new(Config { credentials, ..Config::new(endpoints) })
}

#[test]
fn the_renewal_of_a_lease_gets_a_new_token_when_the_server_does_not_know_the_old_one() {
    run(async {
        for code_is in ["grpc_code", "code"] {
            let unknown = nested("401 Unauthorized", code_is, 16, "etcdserver: invalid auth token");
            let kept = answer("200 OK", r#"{"result":{"header":{"revision":"17"},"ID":"5","TTL":"9"}}"#);
            let (endpoint, asked) = scripted(vec![token("old"), unknown, token("new"), kept]);
            let kept = with_password(vec![endpoint]).keep_alive(LeaseId(5)).await.unwrap().unwrap();
            assert_eq!((kept.lease, kept.left), (LeaseId(5), Duration::from_secs(9)));
            let (authenticate, renew) = ("/v3/auth/authenticate", "/v3/lease/keepalive");
            assert_eq!(paths(&asked), [authenticate, renew, authenticate, renew]);
        }
    });
}

#[test]
fn a_server_that_has_no_leader_is_named_with_its_reason() {
    run(async {
        let no_leader = nested("503 Service Unavailable", "grpc_code", 14, "etcdserver: no leader");
        let (endpoint, _asked) = server(no_leader);
        let client = client(vec![endpoint.clone()]);
        let wanted = format!("{endpoint}: etcdserver: no leader");
        let error = client.keep_alive(LeaseId(5)).await.unwrap_err().to_string();
        assert!(error.ends_with(&wanted), "{error}");
        let error = client.watch(Keys::Prefix(Vec::new()), 1).next().await.unwrap_err().to_string();
        assert!(error.ends_with(&wanted), "{error}");
    });
}

#[test]
fn a_server_s_words_are_cut_where_they_are_too_many_and_never_none() {
    run(async {
        for (words, wanted) in
            [(String::new(), "it gives no reason".to_owned()), ("é".repeat(400), "é".repeat(300) + "…")]
        {
            let (endpoint, _asked) = server(refused("400 Bad Request", 3, &words));
            let error = client(vec![endpoint.clone()]).get(b"a").await.unwrap_err().to_string();
            assert_eq!(error, format!("etcd at {endpoint} refuses: {wanted}"));
        }
    });
}

#[test]
fn whether_etcd_wants_a_password_is_asked_once() {
    run(async {
        let nobody_is_asked = refused("400 Bad Request", 9, "etcdserver: authentication is not enabled");
        let (endpoint, asked) = scripted(vec![nobody_is_asked, good()]);
        let client = with_password(vec![endpoint]);
        client.get(b"a").await.unwrap();
        client.get(b"a").await.unwrap();
        assert_eq!(paths(&asked), ["/v3/auth/authenticate", "/v3/kv/range", "/v3/kv/range"]);
    });
}

#[test]
fn a_client_that_waits_for_a_silent_servers_token_keeps_nobody_from_another_server() {
    run(async {
        let ((silent, asked), (other, _answered)) = (server(None), scripted(vec![token("t"), good()]));
        let limits = Limits { request: Duration::from_secs(100_000), ..Limits::default() };
        let credentials = Some(Credentials { user: "maple".into(), password: "pw".into() });
        let client = Client::new(Config { credentials, limits, ..Config::new(vec![silent, other]) });
        let first = client.clone();
        let first = tokio::spawn(async move { first.get(b"a").await });
        until(async || asked.try_recv().is_ok()).await;
        // Another one waits there as well, and gives up. So the other server is asked now.
        let second = client.clone();
        let second = tokio::spawn(async move { second.get(b"a").await });
        tokio::task::yield_now().await;
        second.abort();
        second.await.unwrap_err();
        client.get(b"a").await.unwrap();
        first.abort();
    });
}

#[test]
fn a_client_begins_with_the_next_server_after_a_dropped_request() {
    run(async {
        let ((silent, asked), (good, answered)) = (server(None), server(good()));
        let client = client(vec![silent.clone(), good.clone()]);
        let dropped = client.clone();
        let dropped = tokio::spawn(async move { dropped.put(b"a", b"", LeaseId::NONE).await });
        until(async || asked.try_recv().is_ok()).await;
        dropped.abort();
        dropped.await.unwrap_err();
        client.put(b"a", b"", LeaseId::NONE).await.unwrap();
        assert_eq!((paths(&asked).len(), paths(&answered).len()), (0, 1));
    });
}

#[test]
fn a_client_begins_with_the_next_server_after_a_watch_is_dropped_at_its_beginning() {
    run(async {
        let ((silent, asked), (good, answered)) = (server(None), server(good()));
        let client = client(vec![silent, good]);
        let mut watch = client.watch(Keys::Prefix(Vec::new()), 1);
        let dropped = tokio::spawn(async move { watch.next().await });
        until(async || asked.try_recv().is_ok()).await;
        dropped.abort();
        dropped.await.unwrap_err();
        client.get(b"a").await.unwrap();
        assert_eq!((paths(&asked).len(), paths(&answered).len()), (0, 1));
    });
}

#[test]
fn all_servers_are_asked_for_their_status_at_the_same_time() {
    run(async {
        // Each answers when the other one was asked.
        let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").expect("a port"));
        let port = |listener: &TcpListener| listener.local_addr().expect("it is bound").port();
        let endpoints = listeners.each_ref().map(|one| Endpoint { host: "127.0.0.1".into(), port: port(one) });
        std::thread::spawn(move || {
            let mut streams = listeners.map(|listener| listener.accept().expect("a client").0);
            for stream in &mut streams {
                read_request(stream).expect("a request");
            }
            for stream in &mut streams {
                let status = answer("200 OK", r#"{"version":"3.6.14"}"#).expect("an answer");
                stream.write_all(status.as_bytes()).expect("the client waits");
            }
        });
        let statuses = client(endpoints.to_vec()).statuses().await;
        for ((endpoint, status), wanted) in statuses.iter().zip(&endpoints) {
            assert_eq!((endpoint, &status.as_ref().unwrap().version[..]), (wanted, "3.6.14"));
        }
    });
}

#[test]
fn requests_for_the_status_carry_a_token_where_one_is_wanted() {
    run(async {
        let (unknown, status) = (
            refused("400 Bad Request", 3, "etcdserver: user name is empty"),
            answer("200 OK", r#"{"version":"3.6.14"}"#),
        );
        let (endpoint, asked) = scripted(vec![unknown, token("t"), status]);
        let client = with_password(vec![endpoint]);
        for _ in 0..2 {
            let [(_, status)] = &client.statuses().await[..] else { panic!() };
            assert_eq!(status.as_ref().unwrap().version, "3.6.14");
        }
        let asked: Vec<_> = asked.try_iter().map(|request| (request.path, request.token)).collect();
        let path = "/v3/maintenance/status".to_owned();
        let with_token = (path.clone(), Some("t".to_owned()));
        let authenticate = ("/v3/auth/authenticate".to_owned(), None);
        assert_eq!(asked, [(path, None), authenticate, with_token.clone(), with_token]);
    });
}

#[test]
fn a_transaction_that_only_reads_goes_to_the_next_server() {
    run(async {
        let range = r#"{"header":{"revision":"17"},"succeeded":true,"responses":[{"response_range":{}}]}"#;
        let reads = Transaction { then: vec![Operation::Range(Keys::One(b"a".to_vec()))], ..Transaction::default() };
        let compares = Transaction { compare: vec![Compare::CreatedAt(b"a".to_vec(), 1)], ..Transaction::default() };
        for (transaction, answers) in [(reads, 1), (compares, 0)] {
            let ((bad, _asked), (good, repeated)) = (server(cut()), server(answer("200 OK", range)));
            let answer = client(vec![bad, good]).transact(&transaction).await.unwrap();
            assert_eq!((answer.revision, answer.answers.len()), (17, answers));
            assert!(repeated.recv().unwrap().body.contains("request_range"), "without it a server asks nobody");
        }
    });
}

#[test]
fn an_answer_to_a_transaction_has_those_of_its_operations() {
    run(async {
        let put = Operation::Put { key: b"a".to_vec(), value: Vec::new(), lease: LeaseId::NONE };
        let transaction = Transaction { then: vec![put], ..Transaction::default() };
        for (responses, is_good) in [
            (r#"{"response_put":{}}"#, true),
            ("", false),
            (r#"{"response_put":{}},{"response_put":{}}"#, false),
            (r#"{"response_range":{}}"#, false),
        ] {
            let body = format!(r#"{{"header":{{"revision":"17"}},"succeeded":true,"responses":[{responses}]}}"#);
            let (endpoint, _asked) = server(answer("200 OK", &body));
            match client(vec![endpoint]).transact(&transaction).await {
                Ok(answer) => assert!(is_good && answer.answers.len() == 1, "{responses}"),
                Err(error) => assert!(!is_good && matches!(error, EtcdError::Uncertain(_)), "{responses}: {error}"),
            }
        }
    });
}

#[test]
fn a_lease_has_ended_if_it_has_no_time_at_its_renewal_or_a_negative_one() {
    run(async {
        for (time, left) in [("", Some(0)), (r#","TTL":"-1""#, None), (r#","TTL":"3""#, Some(3))] {
            let body = format!(r#"{{"header":{{"revision":"17"}},"ID":"5"{time}}}"#);
            let before = tokio::time::Instant::now();
            let (endpoint, _asked) = server(answer("200 OK", &body));
            let reported = client(vec![endpoint]).time_to_live(LeaseId(5)).await.unwrap();
            assert_eq!(reported.map(|reported| reported.left.as_secs()), left, "{time}");
            assert!(
                reported
                    .is_none_or(|reported| before <= reported.since && reported.since <= tokio::time::Instant::now())
            );
            let (endpoint, _asked) = server(answer("200 OK", &format!(r#"{{"result":{body}}}"#)));
            let kept = client(vec![endpoint]).keep_alive(LeaseId(5)).await.unwrap();
            assert_eq!(kept.map(|kept| kept.left.as_secs()), left.filter(|left| *left > 0), "{time}");
        }
        // One without a number can't be renewed.
        let (endpoint, _asked) = server(answer("200 OK", r#"{"header":{"revision":"17"},"TTL":"3"}"#));
        let error = client(vec![endpoint]).grant(3).await.unwrap_err();
        assert!(matches!(error, EtcdError::Uncertain(_)), "{error}");
    });
}

/// The line by which a server says that a watch was created, at revision 9.
const CREATED: &str = r#"{"result":{"header":{"revision":"9"},"created":true}}"#;

/// Lines of a watch, after which the stream stays open.
fn stream(lines: &[&str]) -> Option<String> {
    let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
    Some(format!("HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1000000\r\n\r\n{lines}"))
}

/// Returns a line with writes at these revisions.
fn writes(revisions: &[u64]) -> String {
    let events: Vec<_> =
        revisions.iter().map(|at| format!(r#"{{"kv":{{"key":"YQ==","mod_revision":"{at}"}}}}"#)).collect();
    format!(r#"{{"result":{{"header":{{"revision":"9"}},"events":[{}]}}}}"#, events.join(","))
}

#[test]
fn a_watch_tells_nothing_twice_and_never_goes_back() {
    run(async {
        let lines =
            [&writes(&[5, 4, 6])[..], &writes(&[5]), &writes(&[6, 8]), r#"{"error":{"code":14,"message":"x"}}"#];
        let (endpoint, asked) = server(stream(&[&[CREATED], &lines[..]].concat()));
        let mut watch = client(vec![endpoint.clone()]).watch(Keys::One(b"a".to_vec()), 6);
        for wanted in [6, 8] {
            let WatchEvent::Changes(changes) = watch.next().await.unwrap() else { panic!() };
            let [Change::Put(reported)] = &changes[..] else { panic!("{changes:?}") };
            assert_eq!((reported.mod_revision, watch.next_revision()), (wanted, wanted + 1));
        }
        assert_eq!(watch.next().await.unwrap_err().to_string(), format!("the watch ended at {endpoint}: x"));
        assert_eq!(watch.next_revision(), 9);
        assert!(asked.recv().unwrap().body.contains(r#""start_revision":"5""#), "one before what is wanted");
    });
}

#[test]
fn a_watch_asks_at_once_whether_a_server_that_knows_less_is_only_late() {
    run(async {
        // It is asked by the answer, not by the silence.
        let limits = Limits { silence: Duration::from_secs(100_000), ..Limits::default() };
        for (revision, is_missed) in [(17, true), (40, false)] {
            let range = answer("200 OK", &format!(r#"{{"header":{{"revision":"{revision}"}}}}"#));
            let later = writes(&[40]);
            let (endpoint, asked) = scripted(vec![stream(&[CREATED, &later]), range]);
            let client = Client::new(Config { limits, ..Config::new(vec![endpoint]) });
            let mut watch = client.watch(Keys::One(b"a".to_vec()), 30);
            let first = watch.next().await.unwrap();
            assert_eq!(first == WatchEvent::Missed, is_missed, "{first:?}");
            if is_missed {
                assert_eq!(watch.next().await.unwrap(), WatchEvent::Missed, "it is over");
            }
            assert_eq!(paths(&asked), ["/v3/watch", "/v3/kv/range"]);
        }
    });
}

#[test]
fn a_watch_that_is_asked_often_notices_a_silent_server_as_well() {
    run(async {
        let short = Duration::from_millis(200);
        let limits = Limits { silence: short, request: short, ..Limits::default() };
        let (endpoint, asked) = scripted(vec![stream(&[CREATED]), None]);
        let client = Client::new(Config { limits, ..Config::new(vec![endpoint.clone()]) });
        let mut watch = client.watch(Keys::One(b"a".to_vec()), 1);
        let mut error = None;
        until(async || {
            let next = tokio::time::timeout(Duration::from_millis(20), watch.next()).await;
            error = error.take().or(next.ok().and_then(Result::err));
            error.is_some()
        })
        .await;
        assert_eq!(error.unwrap().to_string(), format!("the watch ended at {endpoint}: no answer within 200ms"));
        assert!(paths(&asked).starts_with(&["/v3/watch".to_owned(), "/v3/kv/range".to_owned()]));
    });
}
