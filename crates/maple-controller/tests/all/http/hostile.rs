//! Clients that send anything, nothing, or read nothing.

use std::io::{BufReader, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use maple_core::policy::{Net, PacketHandle};
use maple_core::{Route, state};
use maple_emulator::{Emulation, EmulationOptions, Topology};
use maple_wire::Version;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use super::{ADMIN, Ask, Said, Served, TOKENS};
use crate::common::{descriptors, eventually};

/// Returns what comes back for these bytes until the server closes.
fn returned(served: &Served, bytes: &[u8]) -> String {
    let mut stream = served.connect();
    // The server may close before it has read everything.
    let _ = stream.write_all(bytes).and_then(|()| stream.shutdown(Shutdown::Write));
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

fn parts() -> impl Strategy<Value = (String, String, Vec<(String, String)>, Vec<u8>)> {
    let method = prop_oneof![Just("GET"), Just("PUT"), Just("POST"), Just("DELETE")].prop_map(str::to_owned);
    let method = prop_oneof![8 => method, 1 => "[ -~]{0,8}"];
    let path = prop::sample::select(vec![
        "/v1/hosts",
        "/v1/rules",
        "/v1/switches/1/rules",
        "/v1/drops",
        "/v1/state",
        "/v1/state/tables/blocked",
        "/v1/state/tables/blocked/00:00:00:00:00:07",
        "/v1/state/variables/mode",
        "/v1/state/transactions",
        "/v1/explain",
        "/v1/invalidate",
        "/v1/log",
        "/v1/openapi.json",
        "/",
    ]);
    let path = prop_oneof![4 => path.prop_map(str::to_owned), 1 => "/v1(/[!-~]{0,8}){0,4}", 1 => "\\PC{0,20}"];
    let query = "(\\?(limit|after|sort|mac|minutes|settled|[a-z.]{1,6})=[!-~]{0,8}(&[!-~]{0,8})?)?";
    let header = prop::sample::select(vec![
        "Origin",
        "Content-Type",
        "If-None-Match",
        "Content-Length",
        "Transfer-Encoding",
        "Expect",
    ]);
    let value =
        prop_oneof![Just("application/json".to_owned()), Just("chunked".to_owned()), "[ -~]{0,12}", "[0-9]{1,20}"];
    let headers = prop::collection::vec((header.prop_map(str::to_owned), value), 0..3);
    let json = "(\\{\"(value|packet|rows|place|host|name|settled)\":([0-9]{1,30}|null|\\[\\]|\\{\\}|\"[!-~&&[^\"]]{0,9}\")\\}|[\\[\\]{}\",:a-z0-9]{0,30})";
    let body = prop_oneof![3 => json.prop_map(String::into_bytes), 1 => prop::collection::vec(any::<u8>(), 0..60)];
    (method, (path, query).prop_map(|(path, query)| path + &query), headers, body)
}

#[test]
fn whatever_comes_the_answer_is_no_fault_of_the_server() {
    let served = Served::new(TOKENS, |_| {});
    let mut runner =
        TestRunner::new(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() });
    let ran = runner.run(&parts(), |(method, target, headers, body)| {
        let mut ask = Ask::new(&method, &target, ADMIN);
        for (name, value) in &headers {
            ask = ask.with(name, value);
        }
        let mut bytes = ask.to_text().into_bytes();
        if !headers.iter().any(|(name, _)| name == "Content-Length" || name == "Transfer-Encoding") {
            bytes.truncate(bytes.len() - 2);
            bytes.extend_from_slice(
                format!("Content-Type: application/json\r\nContent-Length: {}\r\n\r\n", body.len()).as_bytes(),
            );
        }
        bytes.extend_from_slice(&body);
        let answer = returned(&served, &bytes);
        let is_fault = answer.lines().any(|line| line.starts_with("HTTP/1.1 5"));
        prop_assert!(!is_fault, "{}\n{}", String::from_utf8_lossy(&bytes), answer);
        Ok(())
    });
    ran.unwrap_or_else(|error| panic!("{error}"));
    let mut bytes =
        TestRunner::new(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() });
    let ran = bytes.run(&prop::collection::vec(any::<u8>(), 0..300), |bytes| {
        prop_assert!(!returned(&served, &bytes).contains("HTTP/1.1 5"));
        Ok(())
    });
    ran.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(served.get("/v1/hosts").status, 200);
}

#[test]
fn clients_that_say_nothing_keep_nobody_out() {
    if !descriptors(4 * 600) {
        return;
    }
    let served = Served::new(TOKENS, |_| {});
    let half = |text: &'static [u8]| {
        let mut stream = served.connect();
        // The server may have closed it already.
        let _ = stream.write_all(text);
        stream
    };
    let mut halves: Vec<TcpStream> = Vec::new();
    for _ in 0..2 {
        halves.extend(
            (0..600).map(|number| half(if number % 2 == 0 { b"" } else { b"GET /v1/hosts HTTP/1.1\r\nHost: " })),
        );
        assert_eq!(served.get("/v1/hosts").status, 200);
    }
    let mut first = [0];
    let mut is_closed = |mut stream: &TcpStream| matches!(stream.read(&mut first), Ok(0) | Err(_));
    assert!(is_closed(&halves[0]), "the oldest has given way");
}

#[test]
fn a_client_that_reads_nothing_keeps_nobody_waiting() {
    let served = Served::new(TOKENS, |_| {});
    let long = state::Value::from("x".repeat(4 << 20));
    let write = state::Write::Var { name: "long".into(), value: Some(long) };
    served.maple.handle.change(vec![write]).expect("it is acknowledged");
    let target = "/v1/state/variables/long";
    let silent: Vec<_> = (0..40)
        .map(|_| {
            let mut stream = served.connect();
            stream.write_all(Ask::get(target).to_text().as_bytes()).expect("it reads");
            let mut reader = BufReader::new(stream);
            assert_eq!(Said::head(&mut reader).0, 200);
            reader
        })
        .collect();
    let mut slow_body = served.connect();
    let half = "PUT /v1/state/variables/long HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n";
    slow_body.write_all(format!("{half}Authorization: Bearer {ADMIN}\r\n\r\n{{").as_bytes()).expect("it reads");
    let answer = served.get(target);
    assert!(answer.status == 200 && answer.body.len() > 4 << 20, "{}", answer.status);
    for mut reader in silent {
        let mut body = String::new();
        reader.read_to_string(&mut body).expect("the rest comes as soon as it is read");
        assert_eq!(body, answer.body);
    }
}

#[test]
fn a_late_worker_is_named_and_what_needs_none_is_answered() {
    let is_open = Arc::new(AtomicBool::new(false));
    let met = Arc::new(AtomicBool::new(false));
    let (opens, meets) = (Arc::clone(&is_open), Arc::clone(&met));
    let policy = move |_: &PacketHandle, _: &Net| {
        meets.store(true, Ordering::SeqCst);
        while !opens.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(5));
        }
        Route::flood()
    };
    let served = Served::new(TOKENS, |options| {
        options.policy = Arc::new(policy);
        options.control.deadlines.query = Duration::from_millis(500);
        options.control.http.as_mut().expect("it is there").ryu = true;
    });
    let topology = Topology::parse("linear:1").expect("a topology");
    let emulation =
        Emulation::start(EmulationOptions::new(topology, served.maple.address, Version::Of13)).expect("it starts");
    eventually("f runs", || {
        emulation.with_network(|network| network.announce("h1")).expect("it runs").expect("there is such a host");
        met.load(Ordering::SeqCst)
    });
    // More requests wait for the worker than are served at a time.
    let waiting: Vec<TcpStream> = (0..20)
        .map(|_| {
            let mut stream = served.connect();
            stream.write_all(Ask::get("/v1/switches").to_text().as_bytes()).expect("it reads");
            stream
        })
        .collect();
    assert_eq!(served.get("/v1/hosts").status, 200);
    let answers: Vec<Said> = waiting.into_iter().map(|stream| Said::read(&mut BufReader::new(stream))).collect();
    assert!(answers.iter().all(|said| said.status == 503 && said.header("retry-after").is_some()), "{answers:?}");
    let late: Vec<&Said> = answers.iter().filter(|said| said.json()["shard"] == 0).collect();
    assert!(!late.is_empty() && late.iter().all(|said| said.body.contains("worker 0 did not answer within 0.5 s")));
    for target in ["/metrics", "/stats/switches", "/stats/desc/1", "/v1.0/topology/links"] {
        let said = served.get(target);
        let (status, _) = said.refusal();
        assert_eq!((status, &said.json()["shard"]), (503, &0.into()), "{target}: {said:?}");
        assert!(said.header("retry-after").is_some() && said.body.contains("worker 0 did not answer"), "{said:?}");
    }
    is_open.store(true, Ordering::SeqCst);
    eventually("it answers again", || served.get("/v1/switches").status == 200);
}
