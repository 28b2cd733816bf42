//! The history of changes: who, what and when, in pages, and over a restart.

use maple_core::state::{Value as Stored, Write};
use serde_json::{Value, json};

use super::{ADMIN, Ask, STATE, Served, TOKENS};
use crate::common::eventually;
use crate::control::fill;

const KEY: &str = "/v1/state/tables/blocked/00:00:00:00:00:07";

/// Returns the rows of an answer.
fn rows(answer: &Value) -> &[Value] {
    answer["rows"].as_array().expect("a list")
}

/// Returns these members of each row.
fn members(answer: &Value, names: &[&str]) -> Vec<Vec<Value>> {
    rows(answer).iter().map(|row| names.iter().map(|name| row[*name].clone()).collect()).collect()
}

#[test]
fn the_history_has_each_change_with_its_author_and_the_former_value() {
    let served = Served::new(TOKENS, |_| {});
    let _emulation = fill(&served.maple);
    assert_eq!(served.ask(&Ask::new("PUT", KEY, STATE).json(&json!({ "value": true }))).status, 200);
    assert_eq!(served.ask(&Ask::new("PUT", KEY, ADMIN).json(&json!({ "value": false }))).status, 200);
    assert_eq!(served.ask(&Ask::new("DELETE", KEY, STATE)).status, 200);
    let (one, two) = (json!({ "key": ["blocked", "00:00:00:00:00:01"] }), json!({ "var": "mode" }));
    let both = json!({ "rows": [[one, true], [two, "night"]] });
    assert_eq!(served.ask(&Ask::new("POST", "/v1/state/transactions", ADMIN).json(&both)).status, 200);
    let reload = json!({ "name": null, "tolerate": { "count": 0 } });
    assert_eq!(served.ask(&Ask::new("POST", "/v1/reload", ADMIN).json(&reload)).status, 200);

    let of_key = served.read("/v1/history?table=blocked&key.mac=00:00:00:00:00:07&sort=number");
    let expected = [
        [json!("s"), json!("set"), Value::Null, json!(true)],
        [json!("a"), json!("set"), json!(true), json!(false)],
        [json!("s"), json!("delete"), json!(false), Value::Null],
    ];
    assert_eq!(members(&of_key, &["who", "what", "old", "new"]), expected);
    let times = members(&of_key, &["time"]);
    assert!(times.iter().all(|time| time[0].as_u64() > Some(1_700_000_000_000)), "{times:?}");

    let newest = served.read("/v1/history?limit=1");
    let policy = ["what", "who", "by", "policy"];
    assert_eq!(members(&newest, &policy), [["reload", "a", "a over HTTP", "drop.py"]]);
    let of_one = served.read("/v1/history?who=a&kind=client&what=set&sort=number");
    let versions = members(&of_one, &["version"]);
    assert_eq!((versions.len(), versions[1] == versions[2], versions[0] == versions[1]), (3, true, false));
    let threads = served.read("/v1/history?kind=thread&var=mode");
    assert_eq!(threads["total"], 1, "the test itself wrote it first");

    let next = newest["next"].as_str().expect("there are more");
    let second = served.read(&format!("/v1/history?limit=2&after={next}"));
    assert_eq!(rows(&second).len(), 2);
    assert!(rows(&second)[0]["number"].as_u64() < rows(&newest)[0]["number"].as_u64());
}

#[test]
fn the_history_is_there_after_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("state");
    let serve = || Served::new(TOKENS, |options| options.memory.state_file = Some(file.clone()));
    let set = |served: &Served, value: i64| {
        let ask = Ask::new("PUT", "/v1/state/variables/mode", STATE);
        assert_eq!(served.ask(&ask.json(&json!({ "value": value, "create": true }))).status, 200);
    };
    for round in 0..3 {
        let served = serve();
        let values = || members(&served.read("/v1/history?sort=number"), &["new", "who"]);
        // The file is read by the thread that writes it.
        let expected: Vec<Vec<Value>> = (0..round).map(|value: i64| vec![json!(value), json!("s")]).collect();
        eventually("the history of earlier runs is read", || values() == expected);
        set(&served, round);
        assert_eq!(values().len() as i64, round + 1);
    }
}

#[test]
fn a_policy_that_writes_much_pushes_out_nothing_that_people_did() {
    let served = Served::new(TOKENS, |_| {});
    let _emulation = fill(&served.maple);
    assert_eq!(served.ask(&Ask::new("PUT", KEY, STATE).json(&json!({ "value": true }))).status, 200);
    let store = served.maple.handle.store();
    for number in 0..3000i64 {
        let by = maple_core::state::Written {
            by: maple_core::state::Writer::Policy(None),
            at: std::time::SystemTime::now(),
        };
        let write = Write::Table { table: "seen".into(), key: number.into(), value: Some(Stored::from(true)) };
        let commit = store.change_as(vec![write], by).expect("any type");
        assert_eq!(served.maple.handle.operations().committed(commit), Ok(()));
    }
    assert_eq!(served.read("/v1/history?who=s")["total"], 1);
    let of_policy = served.read("/v1/history?kind=policy&limit=1");
    assert_eq!((&of_policy["total"], &rows(&of_policy)[0]["key"]), (&json!(1024), &json!(2999)));
}
