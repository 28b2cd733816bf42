//! Answers of all routes against the description that the API gives of itself.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{ADMIN, Ask, Served, TOKENS};
use crate::common::eventually;
use crate::common::schema::matches;
use crate::control::fill;

/// The methods that a path may have.
const METHODS: [&str; 4] = ["GET", "PUT", "POST", "DELETE"];

/// Returns the description of the API, with references as the control socket's schema has them.
fn description(served: &Served) -> (Value, Value) {
    let text = served.get("/v1/openapi.json").body.replace("#/components/schemas/", "#/$defs/");
    let described: Value = serde_json::from_str(&text).expect("it is JSON");
    let definitions = json!({ "$defs": described["components"]["schemas"] });
    (described, definitions)
}

/// Returns the path of a request, with values for its parameters.
fn with_values(path: &str) -> String {
    path.replace("{switch}", "1")
        .replace("{table}", "blocked")
        .replace("{key}", "00:00:00:00:00:07")
        .replace("{name}", "mode")
}

/// Returns a body for each route that has one.
fn bodies() -> BTreeMap<&'static str, Value> {
    let key = json!({ "key": ["blocked", "00:00:00:00:00:07"] });
    BTreeMap::from([
        ("PUT /v1/state/variables/{name}", json!({ "value": "night" })),
        ("PUT /v1/state/tables/{table}/{key}", json!({ "value": true, "settled": true })),
        ("POST /v1/state/transactions", json!({ "rows": [[key, true]] })),
        ("POST /v1/session", json!({ "token": ADMIN })),
        ("POST /v1/explain", json!({ "packet": { "from": "00:00:00:00:00:01", "to": "00:00:00:00:00:02" } })),
        ("POST /v1/invalidate", json!("all")),
        ("POST /v1/reload", json!({ "name": null, "tolerate": { "count": 0 } })),
        ("POST /v1/plan", json!({ "name": null })),
        ("POST /v1/apply", json!({ "name": "drop.py", "sources": "1", "changes": "2" })),
    ])
}

#[test]
fn each_route_answers_as_it_is_described_and_every_other_method_is_refused() {
    let served = Served::new(TOKENS, |_| {});
    let _emulation = fill(&served.maple);
    let other_key =
        Ask::new("PUT", "/v1/state/tables/blocked/00:00:00:00:00:08", ADMIN).json(&json!({ "value": true }));
    assert_eq!(served.ask(&other_key).status, 200);
    let (described, definitions) = description(&served);
    let mut bodies = bodies();
    let mut wrote = BTreeSet::new();
    for (path, operations) in described["paths"].as_object().expect("paths") {
        let target = with_values(path);
        let listed: BTreeSet<String> =
            operations.as_object().expect("methods").keys().map(|name| name.to_ascii_uppercase()).collect();
        for method in METHODS {
            let mut ask = Ask::new(method, &target, ADMIN);
            if let Some(body) = bodies.remove(&*format!("{method} {path}")) {
                ask = ask.json(&body);
            }
            let said = served.ask(&ask);
            if !listed.contains(method) {
                assert_eq!(said.refusal().0, 405, "{method} {path}");
                let allowed: BTreeSet<String> =
                    said.header("allow").expect("it is there").split(',').map(str::to_owned).collect();
                let has_head = if listed.contains("GET") { vec!["HEAD".to_owned()] } else { Vec::new() };
                assert_eq!(allowed, listed.iter().cloned().chain(has_head).collect(), "{path}");
                continue;
            }
            if path == "/v1/cluster/step-down" {
                assert_eq!(said.refusal().0, 409, "it is the only controller");
                continue;
            }
            assert_eq!(said.status, 200, "{method} {path}: {}", said.body);
            wrote.insert(format!("{method} {path}"));
            let content = &operations[method.to_ascii_lowercase()]["responses"]["200"]["content"];
            let (kind, content) = content.as_object().and_then(|all| all.iter().next()).expect("a type");
            assert!(said.header("content-type").is_some_and(|own| own.starts_with(kind)), "{path}: {:?}", said.headers);
            if kind != "application/json" {
                continue;
            }
            let answer = said.json();
            assert!(matches(&answer, &content["schema"], &definitions), "{method} {path}: {answer}");
            if let Some(rows) = answer["rows"].as_array() {
                // Labels end with the policy that was applied before.
                let may_be_empty = ["/v1/errors", "/v1/drops", "/v1/access-lists"];
                let may_be_empty = may_be_empty.contains(&path.as_str()) || path.ends_with("/labels");
                assert!(!rows.is_empty() || may_be_empty, "{path} shows nothing");
                assert_eq!(answer["total"], rows.len());
            }
        }
    }
    assert!(bodies.is_empty(), "{bodies:?}");
    assert!(wrote.len() > 35, "{wrote:?}");
}

#[test]
fn a_standby_refuses_what_is_about_the_network_at_every_path() {
    let served = Served::new(TOKENS, |options| {
        options.openflow.in_cluster = true;
        options.control.http.as_mut().expect("it is served").ryu = true;
    });
    let standby = "this controller is a standby, and knows nothing of the network";
    let assert_refused = |target: &str| {
        let said = served.get(target);
        assert_eq!((said.refusal(), said.json()["detail"].as_str()), ((409, String::new()), Some(standby)), "{target}");
    };
    let paths = [
        "/v1/switches",
        "/v1/rules",
        "/v1/switches/1/ports",
        "/v1/drops",
        "/v1/hosts?limit=1",
        "/v1/map",
        "/stats/switches",
    ];
    paths.into_iter().for_each(assert_refused);
    let own =
        ["/v1/controller", "/v1/stats", "/v1/errors", "/v1/log", "/v1/doctor", "/v1/version", "/v1/state", "/metrics"];
    own.into_iter().for_each(|target| assert_eq!(served.get(target).status, 200, "{target}"));
}

#[test]
fn wrong_requests_are_refused_with_the_name_of_what_is_wrong() {
    let served = Served::new(TOKENS, |_| {});
    let _emulation = fill(&served.maple);
    let (_, definitions) = description(&served);
    let value = json!({ "value": true });
    let blocked = "/v1/state/tables/blocked/00:00:00:00:00:07";
    let cases = [
        (Ask::get("/v1/nothing"), (404, "")),
        (Ask::get("/nothing"), (404, "")),
        (Ask::get("/v1/switches/"), (404, "")),
        (Ask::get("/v1/switches//rules"), (404, "switch")),
        (Ask::get("/v1/switches/zz/rules"), (404, "switch")),
        (Ask::get("/v1/switches/9/rules"), (404, "switch")),
        (Ask::get("/v1/switches/%ff/rules"), (400, "")),
        (Ask::get("/v1/hosts?colour=red"), (400, "colour")),
        (Ask::get("/v1/hosts?limit=0"), (400, "limit")),
        (Ask::get("/v1/hosts?limit=1&limit=2"), (400, "limit")),
        (Ask::get("/v1/hosts?sort=-mac,colour"), (400, "sort")),
        (Ask::get("/v1/hosts?after=00"), (400, "after")),
        (Ask::get("/v1/hosts?mac=%ff"), (400, "")),
        (Ask::get("/v1/stats?limit=1"), (400, "limit")),
        (Ask::get("/v1/drops?minutes=x"), (400, "minutes")),
        (Ask::get("/v1/drops?minutes=0"), (400, "minutes")),
        (Ask::get("/v1/state/tables/none"), (404, "table")),
        (Ask::get("/v1/state/tables/blocked/banana"), (404, "key")),
        (Ask::get("/v1/hosts?sort=mac,-mac"), (400, "sort")),
        (Ask::get("/v1/state/variables/none"), (404, "name")),
        (Ask::new("PUT", "/v1/state/tables/none/1", ADMIN).json(&value), (404, "table")),
        (Ask::new("PUT", blocked, ADMIN).json(&json!({ "value": 7 })), (400, "value")),
        (Ask::new("PUT", blocked, ADMIN).json(&json!({ "value": true, "valeu": 1 })), (400, "valeu")),
        (Ask::new("PUT", blocked, ADMIN).json(&json!({ "value": true, "place": { "var": "mode" } })), (400, "place")),
        (Ask::new("PUT", blocked, ADMIN).json(&json!({})), (400, "")),
        (Ask::new("PUT", blocked, ADMIN).json(&json!([])), (400, "")),
        (Ask::new("PUT", blocked, ADMIN), (415, "Content-Type")),
        (Ask::new("PUT", blocked, ADMIN).json(&json!("x".repeat(70_000))), (413, "")),
        (Ask::new("DELETE", "/v1/state/variables/mode?settled=perhaps", ADMIN), (400, "settled")),
        (Ask::new("POST", "/v1/explain", ADMIN).json(&json!({ "packet": { "from": "nobody" } })), (400, "packet.from")),
        (Ask::new("POST", "/v1/explain", ADMIN).json(&json!({ "packets": {} })), (400, "")),
        (Ask::new("POST", "/v1/invalidate", ADMIN).json(&json!({ "host": "x" })), (400, "host")),
        (Ask::new("POST", "/v1/plan", ADMIN).json(&json!({ "nam": null })), (400, "nam")),
        (Ask::new("POST", "/v1/promote", ADMIN).json(&json!({})), (400, "")),
    ];
    for (ask, expected) in cases {
        let said = served.ask(&ask);
        let (status, field) = said.refusal();
        assert_eq!((status, field.as_str()), expected, "{ask:?}: {}", said.body);
        assert!(matches(&said.json(), &definitions["$defs"]["problem"], &definitions), "{}", said.body);
    }
}

#[test]
fn an_answer_that_a_client_has_is_not_sent_again() {
    let served = Served::new(TOKENS, |_| {});
    let _emulation = fill(&served.maple);
    let first = served.get("/v1/hosts");
    let tag = first.header("etag").expect("it is there").to_owned();
    for known in [tag.clone(), format!("\"other\", W/{tag}"), "*".to_owned()] {
        let again = served.ask(&Ask::get("/v1/hosts").with("If-None-Match", &known));
        assert_eq!((again.status, again.body.as_str(), again.header("etag")), (304, "", Some(&*tag)), "{known}");
    }
    let other = served.ask(&Ask::get("/v1/hosts").with("If-None-Match", "\"other\""));
    assert_eq!((other.status, other.body), (200, first.body.clone()));
    let head = served.ask(&Ask::new("HEAD", "/v1/hosts", ADMIN));
    assert_eq!((head.status, head.body.as_str()), (200, ""));
    assert_eq!(head.header("content-length"), Some(&*first.body.len().to_string()));
}

#[test]
fn values_that_a_client_writes_are_read_with_its_name() {
    let served = Served::new(TOKENS, |_| {});
    let _emulation = fill(&served.maple);
    let path = "/v1/state/tables/blocked/00:00:00:00:00:07";
    let put = served.ask(&Ask::new("PUT", path, super::STATE).json(&json!({ "value": true })));
    assert_eq!(put.json(), json!({ "settled": false, "new": false }));
    let read = served.read(path);
    assert_eq!((&read["value"], &read["written"]["by"]), (&json!(true), &json!("s over HTTP")));
    let rows = served.read("/v1/state/tables/blocked");
    assert_eq!(rows["rows"][0]["key"], json!({ "mac": "00:00:00:00:00:07" }));
    assert_eq!(served.ask(&Ask::new("DELETE", path, super::STATE)).status, 200);
    assert_eq!(served.read(path)["value"], Value::Null);
    let log = served.read("/v1/log?area=control");
    let texts: Vec<&str> =
        log["rows"].as_array().expect("rows").iter().filter_map(|row| row["text"].as_str()).collect();
    let expected = ["PUT", "DELETE"].map(|method| format!("s at 127.0.0.1: {method} {path}"));
    assert_eq!(texts, expected);
}

#[test]
fn labels_say_where_their_packets_leave_and_whether_they_are_ready() {
    let served = Served::new(TOKENS, |_| {});
    let _emulation = fill(&served.maple);
    let mut all = Value::Null;
    eventually("a label leads out of the second switch", || {
        all = served.read("/v1/labels?stage=ready&to.0.switch=0000000000000002");
        all["total"] != 0
    });
    let label = &all["rows"][0];
    assert_eq!((&label["switch"], &label["refused"]), (&json!("0000000000000002"), &Value::Null), "{label}");
    assert!(label["holders"].as_u64() >= Some(1) && label["id"].as_u64().is_some_and(|id| (1..4095).contains(&id)));
    let of_two = served.read("/v1/switches/2/labels?limit=1");
    assert_eq!((&of_two["rows"][0]["switch"], of_two["rows"].as_array().map(Vec::len)), (&label["switch"], Some(1)));
    assert_eq!(served.get("/v1/switches/9/labels").refusal(), (404, "switch".to_owned()));
}

#[test]
fn a_transaction_writes_only_what_it_expected() {
    let served = Served::new(TOKENS, |_| {});
    let _emulation = fill(&served.maple);
    let transact = |body: &Value| served.ask(&Ask::new("POST", "/v1/state/transactions", ADMIN).json(body));
    let (one, two) =
        (json!({ "key": ["blocked", "00:00:00:00:00:01"] }), json!({ "key": ["blocked", "00:00:00:00:00:02"] }));
    let first = json!({ "rows": [[one, true], [two, true]], "expect": [[one, null], [{ "var": "mode" }, "day"]] });
    assert_eq!(transact(&first).json(), json!({ "settled": false, "rows": 2 }));
    let again = transact(&first);
    assert_eq!(again.refusal(), (409, "expect[0]".to_owned()), "{}", again.body);
    let wrong = json!({ "rows": [[one, false]], "expect": [[two, true], [{ "var": "mode" }, "night"]] });
    assert_eq!(transact(&wrong).refusal(), (409, "expect[1]".to_owned()));
    assert_eq!(
        transact(&json!({ "rows": [], "expect": [[{ "var": "none" }, 1]] })).refusal(),
        (400, "expect[0]".to_owned())
    );
    assert_eq!(served.read("/v1/state/tables/blocked/00:00:00:00:00:01")["value"], true);
    let refused = json!({ "rows": [[{ "key": ["new", "1"] }, true]], "expect": [[one, null]], "create": true });
    assert_eq!(transact(&refused).refusal(), (409, "expect[0]".to_owned()));
    let unknown = served.get("/v1/state/tables/new");
    assert_eq!(unknown.status, 404, "what is refused makes no table: {}", unknown.body);
    let last = json!({ "rows": [[one, false]], "delete": [two], "expect": [[two, true]] });
    assert_eq!(transact(&last).status, 200);
    let rows = served.read("/v1/state/tables/blocked");
    assert_eq!((&rows["total"], &rows["rows"][0]["value"]), (&json!(1), &json!(false)));
}
