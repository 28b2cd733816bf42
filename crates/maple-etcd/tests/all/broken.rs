//! Servers that break off: a write is repeated only where it certainly did not happen.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use maple_etcd::{Client, Config, Endpoint, EtcdError, Keys, LeaseId, Limits};

use crate::server::run;

/// A server that gives each connection's first request this answer and closes it, or never answers. Each request is
/// reported.
fn server(answer: Option<String>) -> (Endpoint, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let endpoint = Endpoint { host: "127.0.0.1".into(), port: listener.local_addr().expect("it is bound").port() };
    let (report, requests) = channel();
    std::thread::spawn(move || {
        let mut silent = Vec::new();
        while let Ok((mut stream, _)) = listener.accept() {
            let Some(request) = read_request(&mut stream) else { continue };
            let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
            match &answer {
                Some(answer) => stream.write_all(answer.as_bytes()).expect("the client reads"),
                None => silent.push(stream),
            }
            if report.send(path).is_err() {
                return;
            }
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
    answer("503 Service Unavailable", &format!(r#"{{"code":14,"message":"etcdserver: {message}"}}"#))
}

/// What can go wrong at a server, and whether it is certain then that it did nothing.
fn faults() -> [(Option<String>, bool); 8] {
    [
        (cut(), false),
        // It closes the connection without an answer.
        (Some(String::new()), false),
        // It never answers.
        (None, false),
        (unavailable("request timed out"), false),
        (answer("200 OK", "hello"), false),
        (answer("502 Bad Gateway", "hello"), false),
        (unavailable("no leader"), true),
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
