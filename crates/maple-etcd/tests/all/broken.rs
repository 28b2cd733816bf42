//! Servers that break off: a write is repeated only where it certainly did not happen.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use maple_etcd::{Client, Config, Credentials, Endpoint, EtcdError, FailureReason, Keys, LeaseId, Limits};

use crate::server::run;

/// A server that gives each connection's first request this answer and closes it, or never answers. The path of each
/// request is reported before.
fn server(answer: Option<String>) -> (Endpoint, Receiver<String>) {
    scripted(vec![answer])
}

/// A server that gives the first request of each connection the next of these answers, and the last one again and again.
fn scripted(answers: Vec<Option<String>>) -> (Endpoint, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let endpoint = Endpoint { host: "127.0.0.1".into(), port: listener.local_addr().expect("it is bound").port() };
    let (report, requests) = channel();
    std::thread::spawn(move || {
        let mut silent = Vec::new();
        let mut count = 0;
        while let Ok((mut stream, _)) = listener.accept() {
            let Some(request) = read_request(&mut stream) else { continue };
            let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
            // Before the answer, so that whoever has that finds this.
            if report.send(path).is_err() {
                return;
            }
            match &answers[count.min(answers.len() - 1)] {
                // A client that has given up hears nothing.
                Some(answer) => drop(stream.write_all(answer.as_bytes())),
                None => silent.push(stream),
            }
            count += 1;
        }
    });
    (endpoint, requests)
}

/// Reads a request with its body.
fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut text = String::new();
    let mut bytes = [0; 4096];
    loop {
        let count = stream.read(&mut bytes).ok().filter(|count| *count > 0)?;
        text.push_str(&String::from_utf8_lossy(&bytes[..count]));
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).expect("requests have a body");
        if body.len() >= length.parse().expect("a number") {
            return Some(text);
        }
    }
}

/// A port at which nobody listens: its own connections come from elsewhere.
fn nobody() -> Endpoint {
    Endpoint { host: "127.93.1.1".into(), port: 9 }
}

/// A whole answer.
fn answer(status: &str, body: &str) -> Option<String> {
    Some(format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len()))
}

fn good() -> Option<String> {
    answer("200 OK", r#"{"header":{"revision":"17"}}"#)
}

/// An answer that ends too early.
fn cut() -> Option<String> {
    Some("HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{\"header\"".into())
}

fn unavailable(message: &str) -> Option<String> {
    refused("503 Service Unavailable", 14, &format!("etcdserver: {message}"))
}

fn refused(status: &str, code: u32, message: &str) -> Option<String> {
    answer(status, &format!(r#"{{"code":{code},"message":"{message}"}}"#))
}

/// The error of a stream that ended before its first line.
fn nested(status: &str, code_is: &str, code: u32, message: &str) -> Option<String> {
    answer(status, &format!(r#"{{"error":{{"{code_is}":{code},"message":"{message}"}}}}"#))
}

/// What can go wrong at a server, and whether it is certain then that it did nothing.
fn faults() -> [(Option<String>, bool); 13] {
    [
        (cut(), false),
        // It closes the connection without an answer.
        (Some(String::new()), false),
        // It never answers.
        (None, false),
        (unavailable("request timed out"), false),
        (answer("200 OK", "hello"), false),
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
            assert_eq!(asked.recv().unwrap(), "/v3/kv/put");
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

/// An answer with a token.
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
            assert_eq!(asked.try_iter().collect::<Vec<_>>(), [authenticate, renew, authenticate, renew]);
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
