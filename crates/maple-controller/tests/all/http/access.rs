//! Access: who may ask what, and what browsers are kept from.

use std::io::{BufReader, Write as _};
use std::net::SocketAddr;
use std::sync::Arc;

use maple_controller::control::HttpOptions;
use maple_controller::tls::{Tls, TlsFiles};
use maple_controller::{Controller, ControllerOptions};
use maple_core::Route;
use maple_core::policy::{Net, PacketHandle};
use serde_json::json;

use super::{ADMIN, Ask, READ, STATE, Said, Served, TOKENS, http_options, private_file};
use crate::common::tls::{Authority, connect, versions};
use crate::common::{Maple, eventually};

const WRITE: &str = "/v1/state/variables/mode";

fn status(served: &Served, ask: &Ask<'_>) -> u16 {
    served.ask(ask).status
}

#[test]
fn without_tokens_clients_only_read() {
    let served = Served::new("", |_| {});
    assert_eq!(status(&served, &Ask::new("GET", "/v1/hosts", "")), 200);
    let body = json!({ "value": 1, "create": true });
    let write = served.ask(&Ask::new("PUT", WRITE, "").json(&body));
    assert_eq!(write.refusal(), (403, String::new()));
    assert!(write.body.contains("--http-tokens"), "{}", write.body);
    assert_eq!(status(&served, &Ask::new("POST", "/v1/rollback", "")), 403);
    assert_eq!(served.maple.handle.snapshot().var("mode"), None);
}

#[test]
fn each_role_may_do_what_it_is_for() {
    let served = Served::new(TOKENS, |_| {});
    let body = json!({ "value": 1, "create": true });
    for (token, read, write, rule) in
        [("", 401, 401, 401), (READ, 200, 403, 403), (STATE, 200, 200, 403), (ADMIN, 200, 200, 200)]
    {
        assert_eq!(status(&served, &Ask::new("GET", "/v1/hosts", token)), read, "{token}");
        assert_eq!(status(&served, &Ask::new("GET", "/v1/openapi.json", token)), read, "{token}");
        assert_eq!(status(&served, &Ask::new("PUT", WRITE, token).json(&body)), write, "{token}");
        assert_eq!(status(&served, &Ask::new("POST", "/v1/invalidate", token).json(&json!("all"))), rule, "{token}");
    }
    let no_token = served.ask(&Ask::new("GET", "/v1/hosts", ""));
    assert_eq!(no_token.header("www-authenticate"), Some("Bearer realm=\"maple\""));
}

#[test]
fn a_change_that_the_role_does_not_allow_is_in_the_log_with_the_path_as_it_was_sent() {
    let served = Served::new(TOKENS, |_| {});
    let path = "/v1/state/tables/t/x%2C%20refused%3A%20no";
    assert_eq!(status(&served, &Ask::new("PUT", path, READ).json(&json!({ "value": 1 }))), 403);
    let log = served.read("/v1/log?area=control");
    let why = "r has the role read, and this needs state";
    assert_eq!(log["rows"][0]["text"], format!("r at 127.0.0.1: PUT {path}, refused: {why}"));
    let policy = "no.py, refused: all is well";
    let plan = Ask::new("POST", "/v1/reload", ADMIN).json(&json!({ "name": policy, "tolerate": { "count": 0 } }));
    assert_eq!(status(&served, &plan), 409);
    let log = served.read("/v1/log?area=control");
    let text = log["rows"][1]["text"].as_str().expect("a text");
    assert!(
        text.starts_with("a at 127.0.0.1: POST /v1/reload of \"no.py, refused: all is well\", refused: "),
        "{text}"
    );
}

/// Returns the lines of the log about changes, from this one on.
fn lines(served: &Served, from: usize) -> Vec<String> {
    let log = served.read("/v1/log?area=control");
    let rows = log["rows"].as_array().expect("rows").iter().skip(from);
    rows.map(|row| row["text"].as_str().expect("a text").to_owned()).collect()
}

#[test]
fn each_change_that_is_refused_is_in_the_log_whatever_the_reason() {
    let served = Served::new(TOKENS, |options| {
        options.control.http.as_mut().expect("it is there").ryu = true;
    });
    let value = json!({ "value": 1 });
    let text = |body: &str| {
        let mut ask = Ask::new("PUT", WRITE, STATE).with("Content-Type", "text/plain");
        ask.body = Some(body.to_owned());
        ask
    };
    let long = json!({ "value": "x".repeat(70_000) });
    let cases = [
        (Ask::new("PUT", WRITE, "").json(&value), 401, "an unknown client", WRITE, "a token is needed"),
        (
            Ask::new("PUT", WRITE, "not-a-token").json(&value),
            401,
            "an unknown client",
            WRITE,
            "this token is not known",
        ),
        (
            Ask::new("PUT", WRITE, STATE).json(&value).with("Origin", "http://evil.example"),
            403,
            "s",
            WRITE,
            "a page of another site",
        ),
        (
            Ask::new("PUT", WRITE, "").json(&value).with("Origin", "http://evil.example"),
            403,
            "an unknown client",
            WRITE,
            "a page of another site",
        ),
        (Ask::new("PUT", "/v1/state/variables/mode?x=1", STATE).json(&value), 400, "s", WRITE, "x: there is no such"),
        (Ask::new("PUT", WRITE, STATE).json(&long), 413, "s", WRITE, "a body has at most"),
        (text("{}"), 415, "s", WRITE, "the body has to be JSON"),
        (Ask::new("PUT", WRITE, STATE).json(&json!({ "place": {} })), 400, "s", WRITE, "the path says it already"),
        (Ask::new("PUT", WRITE, STATE).json(&json!({})), 400, "s", WRITE, "missing field"),
        (
            Ask::new("POST", "/v1/session", "").json(&json!({ "token": "not-a-token" })),
            401,
            "an unknown client",
            "/v1/session",
            "this token is not known",
        ),
        (Ask::new("DELETE", "/v1/session", ""), 401, "an unknown client", "/v1/session", "a token is needed"),
        (Ask::new("POST", "/stats/flowentry/add", READ), 501, "r", "/stats/flowentry/add", "Maple writes the rules"),
    ];
    for (at, (ask, expected, who, path, why)) in cases.iter().enumerate() {
        assert_eq!(status(&served, ask), *expected, "{ask:?}");
        let lines = lines(&served, at);
        let begins = format!("{who} at 127.0.0.1: {} {path}, refused: ", ask.method);
        assert!(lines.len() == 1 && lines[0].starts_with(&begins) && lines[0].contains(why), "{ask:?}: {lines:?}");
    }
    assert_eq!(status(&served, &Ask::new("GET", "/v1/hosts?x=1", READ)), 400);
    assert_eq!(lines(&served, cases.len()), Vec::<String>::new(), "what only reads is not noted");
}

#[test]
fn an_address_that_is_locked_out_writes_no_more_lines() {
    let served = Served::new(TOKENS, |_| ());
    let guess = Ask::new("PUT", WRITE, "not-a-token").json(&json!({ "value": 1 }));
    let refused: Vec<u16> = (0..200).map(|_| status(&served, &guess)).collect();
    let guesses = refused.iter().filter(|status| **status == 401).count();
    assert!((1..20).contains(&guesses) && refused.last() == Some(&429), "{refused:?}");
    // Each guess has a line, and so has that the address is locked out.
    assert_eq!(lines(&served, 0).len(), guesses + 1);
}

#[test]
fn an_address_with_too_many_wrong_tokens_is_locked_out() {
    let served = Served::new(TOKENS, |_| {});
    for _ in 0..10 {
        assert_eq!(status(&served, &Ask::new("GET", "/v1/hosts", "not-a-token")), 401);
    }
    let refused = served.ask(&Ask::new("GET", "/v1/hosts", "not-a-token"));
    assert_eq!((refused.status, refused.header("retry-after")), (429, Some("60")));
    assert_eq!(served.get("/v1/hosts").status, 200, "a right token may come from the same address");
    let reported = served.maple.notices().into_iter().filter(|text| text.contains("wrong tokens")).count();
    assert_eq!(reported, 1);
}

#[test]
fn tokens_are_read_again_when_their_file_changes() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = private_file(&folder, "tokens", TOKENS);
    let served = Served::new("", |options| {
        options.control.http.as_mut().expect("it is there").tokens = Some(path.clone());
    });
    assert_eq!(status(&served, &Ask::new("GET", "/v1/hosts", READ)), 200);
    std::fs::write(&path, "read r").expect("it is written");
    eventually("the error is reported", || {
        assert_eq!(status(&served, &Ask::new("GET", "/v1/hosts", READ)), 200, "the tokens before go on");
        served.maple.notices().iter().any(|text| text.contains("three words"))
    });
    std::fs::write(&path, "read new another-token-of-readers").expect("it is written");
    eventually("the old token is forgotten", || status(&served, &Ask::new("GET", "/v1/hosts", READ)) == 401);
    assert_eq!(status(&served, &Ask::new("GET", "/v1/hosts", "another-token-of-readers")), 200);
}

#[test]
fn pages_of_other_sites_are_refused() {
    let served = Served::new(TOKENS, |_| {});
    for (host, expected) in
        [("localhost:8653", 200), ("127.0.0.1", 200), ("[::1]:1", 200), ("evil.example", 421), ("10.0.0.1:80", 421)]
    {
        assert_eq!(status(&served, &Ask::get("/v1/hosts").with("Host", host)), expected, "{host}");
    }
    let body = json!({ "value": 1, "create": true });
    let write = Ask::new("PUT", WRITE, ADMIN).json(&body).with("Host", "localhost:1");
    for (name, value, expected) in [
        ("Origin", "http://localhost:1", 200),
        ("Origin", "http://evil.example", 403),
        ("Origin", "http://localhost:2", 403),
        ("Origin", "null", 403),
        ("Sec-Fetch-Site", "same-origin", 200),
        ("Sec-Fetch-Site", "cross-site", 403),
        ("Sec-Fetch-Site", "same-site", 403),
    ] {
        assert_eq!(status(&served, &write.clone().with(name, value)), expected, "{name}: {value}");
    }
    // A form can't send JSON.
    let mut form = Ask::new("PUT", WRITE, ADMIN).with("Content-Type", "text/plain");
    form.body = Some("{}".into());
    assert_eq!(status(&served, &form), 415);
    let said = served.ask(&Ask::get("/v1/hosts").with("Origin", "http://evil.example"));
    assert!(said.headers.iter().all(|(name, _)| !name.starts_with("access-control")), "{said:?}");
    for target in ["/v1/hosts", "/nothing"] {
        let said = served.get(target);
        assert_eq!(said.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(said.header("content-security-policy"), Some("default-src 'none'; frame-ancestors 'none'"));
    }
}

/// Returns the reason why a controller does not start with this HTTP API.
fn refusal(http: HttpOptions) -> String {
    let mut options = ControllerOptions::new(Arc::new(|_: &PacketHandle, _: &Net| Route::flood()));
    (options.openflow.listen, options.workers.pin) = (vec![SocketAddr::from(([127, 0, 0, 1], 0))], false);
    options.control.http = Some(http);
    Controller::start(options).expect_err("it is refused").to_string()
}

#[test]
fn beyond_the_loopback_interface_there_are_tls_and_tokens() {
    let authority = Authority::new("http");
    let own = authority.sign("controller", 1);
    let tls = Arc::new(Tls::open(TlsFiles::new(own.certificate, own.key)).expect("they are right"));
    let folder = tempfile::tempdir().expect("a folder");
    let tokens = private_file(&folder, "tokens", TOKENS);
    let address = SocketAddr::from(([0, 0, 0, 0], 0));
    for (tls, tokens) in [(None, None), (Some(Arc::clone(&tls)), None), (None, Some(tokens.clone()))] {
        let why = refusal(http_options(address, tls, tokens));
        assert!(why.contains("needs a certificate and tokens"), "{why}");
    }
    let missing = refusal(http_options(address, Some(Arc::clone(&tls)), Some("/no/such/file".into())));
    assert!(missing.contains("/no/such/file"), "{missing}");

    let maple = Maple::with(|options| {
        options.control.http = Some(http_options(address, Some(tls), Some(tokens)));
    });
    let port = maple.handle.operations().http_address().expect("it is served").port();
    let mut stream = connect(([127, 0, 0, 1], port).into(), &authority.client(None, &versions()));
    let ask = Ask::get("/v1/controller").with("Host", "maple.example");
    stream.write_all(ask.to_text().as_bytes()).expect("it reads");
    let said = Said::read(&mut BufReader::new(stream));
    assert_eq!(said.status, 200, "{said:?}");
    let about = said.json();
    assert!(about["http_certificate_expires"].as_u64() > Some(0) && about["certificate_expires"].is_null(), "{about}");
    assert!(maple.handle.operations().http_has_tls());
}
