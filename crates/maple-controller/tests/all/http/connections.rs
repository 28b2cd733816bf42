//! Connections: which one gives way, and what becomes of those that take too long.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use maple_controller::control::HttpDeadlines;
use maple_controller::control::reload::ReloadTask;
use maple_core::state;
use serde_json::json;

use super::{ADMIN, Ask, Said, Served, TOKENS};
use crate::common::{descriptors, eventually};

/// The path of a variable that is longer than what the system holds of an answer.
const LONG: &str = "/v1/state/variables/long";
const LENGTH: usize = 24 << 20;
const SHORT: Duration = Duration::from_millis(200);

fn write_long(served: &Served) {
    let write = state::Write::Var { name: "long".into(), value: Some("x".repeat(LENGTH).as_str().into()) };
    served.maple.handle.change(vec![write]).expect("it is acknowledged");
}

fn impatient(change: impl FnOnce(&mut HttpDeadlines)) -> Served {
    Served::new(TOKENS, |options| change(&mut options.control.http.as_mut().expect("it is there").deadlines))
}

/// Sends a part of a request.
fn begin(served: &Served, text: &str) -> TcpStream {
    let mut stream = served.connect();
    // The server may have closed it already.
    let _ = stream.write_all(text.as_bytes());
    stream
}

/// Returns the head of a request whose body never comes.
fn unfinished() -> String {
    let head = "PUT /v1/state/variables/mode HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n";
    format!("{head}Authorization: Bearer {ADMIN}\r\nContent-Type: application/json\r\n\r\n{{")
}

#[test]
fn clients_whose_bodies_do_not_end_keep_nobody_out() {
    if !descriptors(4 * 600) {
        return;
    }
    let served = Served::new(TOKENS, |_| {});
    let halves: Vec<TcpStream> = (0..600).map(|_| begin(&served, &unfinished())).collect();
    assert_eq!(served.get("/v1/hosts").status, 200);
    drop(halves);
}

#[test]
fn a_client_that_reads_slowly_gets_its_whole_answer_whoever_else_comes() {
    if !descriptors(4 * 1200) {
        return;
    }
    let served = Served::new(TOKENS, |_| {});
    write_long(&served);
    let mut slow = BufReader::new(begin(&served, &Ask::get(LONG).to_text()));
    let (status, _) = Said::head(&mut slow);
    assert_eq!(status, 200);
    let others: Vec<TcpStream> = (0..1100).map(|_| begin(&served, "GET /v1/hosts HTTP/1.1\r\n")).collect();
    assert_eq!(served.get("/v1/hosts").status, 200, "all of them were accepted");
    let mut body = Vec::new();
    slow.read_to_end(&mut body).expect("it comes");
    assert!(body.len() > LENGTH, "{} bytes", body.len());
    drop(others);
}

#[test]
fn slow_and_silent_connections_are_closed() {
    let served = impatient(|deadlines| deadlines.head = 5 * SHORT);
    for beginning in ["", "GET /v1/hosts HTTP/1.1\r\nHost: "] {
        let mut answer = String::new();
        let mut stream = begin(&served, beginning);
        stream.read_to_string(&mut answer).expect("it is closed");
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 408 "), "{answer}");
    }
    let kept = Ask::get("/v1/version").to_text().replace("Connection: close", "Connection: keep-alive");
    let mut silent = BufReader::new(begin(&served, &kept));
    let (status, _) = Said::head(&mut silent);
    assert_eq!(status, 200);
    silent.read_to_end(&mut Vec::new()).expect("it is closed");

    let served = impatient(|deadlines| deadlines.body = SHORT);
    let said = Said::read(&mut BufReader::new(begin(&served, &unfinished())));
    assert_eq!(said.refusal(), (408, String::new()));
}

#[test]
fn an_answer_that_is_not_read_is_cut_off() {
    let served = impatient(|deadlines| deadlines.stall = SHORT);
    write_long(&served);
    let mut patience = SHORT;
    eventually("it is cut off", || {
        let mut stream = begin(&served, &Ask::get(LONG).to_text());
        std::thread::sleep(patience);
        patience *= 2;
        let mut answer = Vec::new();
        let read = stream.read_to_end(&mut answer);
        read.is_err() || answer.len() < LENGTH
    });
}

#[test]
fn a_request_in_progress_is_answered_though_the_controller_ends() {
    let served = impatient(|deadlines| deadlines.end = Duration::from_secs(20));
    let reloads = served.maple.handle.operations().serve_reloads();
    let ask = Ask::new("POST", "/v1/promote", ADMIN);
    let stream = begin(&served, &ask.to_text());
    let mut events = BufReader::new(begin(&served, &Ask::get("/v1/events").to_text()));
    assert_eq!(Said::head(&mut events).0, 200);
    let request = reloads.recv().expect("it comes");
    assert!(matches!(request.task, ReloadTask::Promote));
    let ends = std::thread::spawn(move || drop(served));
    // A stream of events ends when the server does.
    while events.read_line(&mut String::new()).expect("the stream ends") > 0 {}
    request.answer(Err("not now".to_owned()));
    let said = Said::read(&mut BufReader::new(stream));
    assert_eq!((said.status, &said.json()["detail"]), (409, &json!("not now")));
    ends.join().expect("it ends");
}
