//! Sessions: a token becomes a cookie, which changes nothing by itself.

use std::io::{BufRead as _, BufReader, Write as _};

use serde_json::{Value, json};

use super::{ADMIN, Ask, READ, Said, Served, TOKENS, private_file};
use crate::common::eventually;

const WRITE: &str = "/v1/state/variables/mode";

/// Signs in. Returns the cookie and the CSRF token.
fn sign_in(served: &Served, token: &str) -> (String, String) {
    let said = served.ask(&Ask::new("POST", "/v1/session", "").json(&json!({ "token": token })));
    assert_eq!(said.status, 200, "{said:?}");
    let cookie = said.header("set-cookie").expect("it is there");
    let (cookie, attributes) = cookie.split_once("; ").expect("it has attributes");
    assert_eq!(attributes, "Path=/; Max-Age=43200; HttpOnly; SameSite=Strict");
    assert_eq!(said.header("cache-control"), Some("no-store"));
    (cookie.to_owned(), said.json()["csrf"].as_str().expect("a text").to_owned())
}

fn with_cookie<'a>(method: &'a str, target: &'a str, cookie: &str) -> Ask<'a> {
    Ask::new(method, target, "").with("Cookie", cookie)
}

#[test]
fn a_session_may_do_what_its_token_may_and_shows_its_csrf_token_with_changes() {
    let served = Served::new(TOKENS, |_| {});
    let (cookie, csrf) = sign_in(&served, ADMIN);
    let who = served.ask(&with_cookie("GET", "/v1/session", &cookie));
    assert_eq!(who.json(), json!({ "name": "a", "role": "admin", "csrf": null }));
    assert_eq!(served.ask(&with_cookie("GET", "/v1/hosts", &cookie)).status, 200);
    let write = with_cookie("PUT", WRITE, &cookie).json(&json!({ "value": 1, "create": true }));
    for shown in ["", "0", &csrf[1..], &"0".repeat(csrf.len())] {
        let refused = served.ask(&write.clone().with("X-CSRF-Token", shown));
        assert_eq!(refused.refusal(), (403, "X-CSRF-Token".to_owned()), "{shown}");
    }
    assert_eq!(served.ask(&write).refusal().0, 403);
    assert_eq!(served.maple.handle.snapshot().var("mode"), None);
    assert_eq!(served.ask(&write.with("X-CSRF-Token", &csrf)).status, 200);
    let (other, _) = sign_in(&served, READ);
    assert_eq!(served.ask(&with_cookie("GET", "/v1/session", &other)).json()["role"], "read");
    let foreign = with_cookie("PUT", WRITE, &other).json(&json!({ "value": 1 })).with("X-CSRF-Token", &csrf);
    assert_eq!(served.ask(&foreign).refusal().0, 403, "it is another session's");
    let log = served.read("/v1/log?area=control");
    let texts: Vec<&str> =
        log["rows"].as_array().expect("rows").iter().filter_map(|row| row["text"].as_str()).collect();
    assert!(texts.contains(&"a at 127.0.0.1: POST /v1/session"), "{texts:?}");
    let forged = format!("a at 127.0.0.1: PUT {WRITE}, refused: a request with a session's cookie shows");
    assert!(texts.iter().any(|text| text.starts_with(&forged)), "whose session it was: {texts:?}");
}

#[test]
fn a_session_ends_when_it_is_ended_and_when_its_token_is_withdrawn() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = private_file(&folder, "tokens", TOKENS);
    let served = Served::new("", |options| {
        options.control.http.as_mut().expect("it is there").tokens = Some(path.clone());
    });
    let (first, csrf) = sign_in(&served, ADMIN);
    let (second, _) = sign_in(&served, ADMIN);
    assert_eq!(served.ask(&with_cookie("DELETE", "/v1/session", &first)).refusal().0, 403);
    let ended = served.ask(&with_cookie("DELETE", "/v1/session", &first).with("X-CSRF-Token", &csrf));
    assert_eq!((ended.status, ended.json()), (200, json!({ "ended": true })));
    assert!(ended.header("set-cookie").is_some_and(|cookie| cookie.contains("=; Path=/; Max-Age=0")));
    assert_eq!(served.ask(&with_cookie("GET", "/v1/session", &first)).refusal().0, 401);
    assert_eq!(served.ask(&with_cookie("GET", "/v1/session", &second)).status, 200);

    let mut streams = [with_cookie("GET", "/v1/events", &second), Ask::new("GET", "/v1/events", ADMIN)].map(|ask| {
        let mut stream = served.connect();
        stream.write_all(ask.to_text().as_bytes()).expect("it reads");
        let mut reader = BufReader::new(stream);
        assert_eq!(Said::head(&mut reader).0, 200);
        reader
    });
    std::fs::write(&path, "read new another-token-of-readers").expect("it is written");
    eventually("the session has ended", || served.ask(&with_cookie("GET", "/v1/session", &second)).status == 401);
    for stream in &mut streams {
        // A stream that goes on reaches the time limit of reading, which is an error.
        let mut line = String::new();
        while stream.read_line(&mut line).expect("the stream ends") > 0 {
            line.clear();
        }
    }
}

#[test]
fn sessions_at_two_controllers_of_a_machine_leave_each_other_alone() {
    let both = [Served::new(TOKENS, |_| {}), Served::new(TOKENS, |_| {})];
    let [(one, _), (other, _)] = [sign_in(&both[0], ADMIN), sign_in(&both[1], READ)];
    // A browser keeps one cookie of a name for all ports, and sends all cookies to each.
    assert_ne!(one.split('=').next(), other.split('=').next());
    for (served, role) in both.iter().zip(["admin", "read"]) {
        let who = served.ask(&with_cookie("GET", "/v1/session", &format!("{one}; {other}")));
        assert_eq!(who.json()["role"], role);
    }
}

#[test]
fn clients_without_a_session_can_ask_for_their_name_and_role() {
    let served = Served::new(TOKENS, |_| {});
    assert_eq!(served.get("/v1/session").json(), json!({ "name": "a", "role": "admin", "csrf": null }));
    assert_eq!(served.ask(&Ask::new("DELETE", "/v1/session", ADMIN)).json(), json!({ "ended": false }));
    let name = format!("maple_session_{}", served.address.port());
    for cookie in [format!("{name}="), format!("{name}=00"), "other=1".to_owned()] {
        assert_eq!(served.ask(&with_cookie("GET", "/v1/session", &cookie)).refusal().0, 401, "{cookie}");
    }
    let begin = |body: Value| served.ask(&Ask::new("POST", "/v1/session", "").json(&body));
    for (body, expected) in [
        (json!({}), (400, "")),
        (json!({ "token": 7 }), (400, "token")),
        (json!({ "token": ADMIN, "for": 1 }), (400, "for")),
        (json!({ "token": "wrong" }), (401, "")),
    ] {
        let (status, field) = begin(body.clone()).refusal();
        assert_eq!((status, field.as_str()), expected, "{body}");
    }
    let foreign =
        Ask::new("POST", "/v1/session", "").json(&json!({ "token": ADMIN })).with("Origin", "http://evil.example");
    assert_eq!(served.ask(&foreign).refusal().0, 403);
    (0..9).for_each(|_| drop(begin(json!({ "token": "wrong" }))));
    assert_eq!(begin(json!({ "token": "wrong" })).refusal().0, 429);

    let open = Served::new("", |_| {});
    let said = open.ask(&Ask::new("GET", "/v1/session", ""));
    assert_eq!(said.json(), json!({ "name": null, "role": "read", "csrf": null }));
    assert_eq!(open.ask(&Ask::new("POST", "/v1/session", "").json(&json!({ "token": ADMIN }))).refusal().0, 409);
}
