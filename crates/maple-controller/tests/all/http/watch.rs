//! Watches of tracked state: at once, after each change, and no longer than the reader may read.

use std::sync::atomic::{AtomicBool, Ordering};

use maple_core::state::{Value as Stored, Write};
use serde_json::{Value, json};

use super::events::Events;
use super::{ADMIN, Ask, READ, STATE, Served, TOKENS, private_file};
use crate::common::{LONG, eventually};
use crate::control::fill;

const KEY: &str = "/v1/state/tables/blocked/00:00:00:00:00:07";

fn watch(served: &Served, query: &str) -> Events {
    Events::of_request(served, &Ask::new("GET", &format!("/v1/events?{query}"), READ))
}

/// Writes with the token of the role `state`.
fn put(served: &Served, target: &str, value: Value) {
    let said = served.ask(&Ask::new("PUT", target, STATE).json(&json!({ "value": value })));
    assert_eq!(said.status, 200, "{}", said.body);
}

/// Returns the data of events up to the first one that fulfils the condition.
fn until(events: &mut Events, is_so: impl Fn(&Value) -> bool) -> Value {
    loop {
        let data = events.of("value").data;
        if is_so(&data) {
            return data;
        }
    }
}

#[test]
fn a_key_a_table_and_a_variable_are_watched() {
    let served = Served::new(TOKENS, |_| {});
    let _emulation = fill(&served.maple);
    let mut key = watch(&served, "table=blocked&key=00:00:00:00:00:07");
    let mut table = watch(&served, "table=blocked");
    let mut var = watch(&served, "var=mode");
    assert_eq!(key.next().data, json!({ "value": null, "written": null }));
    assert_eq!(table.next().data, json!({ "rows": [] }));
    assert_eq!(var.next().data["value"], "day");
    put(&served, KEY, json!(true));
    let of_key = until(&mut key, |data| data["value"] == true);
    assert_eq!(of_key["written"]["by"], "s over HTTP");
    assert_eq!(of_key, served.read(KEY), "as its own path says");
    let of_table = until(&mut table, |data| data["rows"] != json!([]));
    assert_eq!(of_table["rows"], served.read("/v1/state/tables/blocked")["rows"]);
    put(&served, "/v1/state/variables/mode", json!("night"));
    assert_eq!(until(&mut var, |data| data["value"] != "day")["value"], "night");
    assert_eq!(served.ask(&Ask::new("DELETE", KEY, STATE)).status, 200);
    assert_eq!(until(&mut key, |data| data["value"] != true)["value"], Value::Null);
    assert_eq!(until(&mut table, |data| data["rows"] == json!([])), json!({ "rows": [] }));
}

#[test]
fn a_watch_hears_of_its_place_only_and_ends_with_the_newest_value() {
    let served = Served::new(TOKENS, |_| {});
    let _emulation = fill(&served.maple);
    put(&served, KEY, json!(true));
    let mut key = watch(&served, "table=blocked&key=00:00:00:00:00:07");
    assert_eq!(key.next().data["value"], true);
    let set = |name: &str, number: i64| {
        let write = Write::Var { name: name.into(), value: Some(Stored::from(number)) };
        served.maple.handle.change(vec![write]).expect("it is acknowledged");
    };
    (0..200).for_each(|number| set("other", number));
    put(&served, "/v1/state/tables/blocked/00:00:00:00:00:08", json!(true));
    put(&served, KEY, json!(true));
    put(&served, KEY, json!(false));
    assert_eq!(key.next().data["value"], false, "nothing else was news");
    let mut other = watch(&served, "var=other");
    assert_eq!(other.next().data["value"], 199);
    (200..1000).for_each(|number| set("other", number));
    let mut values = vec![199];
    while values.last() != Some(&999) {
        values.push(other.next().data["value"].as_i64().expect("a number"));
    }
    assert!(values.is_sorted_by(|a, b| a < b), "{values:?}");
}

#[test]
fn a_watch_of_what_is_deleted_goes_on_and_ends_with_the_controller() {
    let served = Served::new(TOKENS, |options| {
        options.control.http.as_mut().expect("it is there").deadlines.end = LONG;
    });
    let set = |value: Option<&str>| {
        let write = Write::Var { name: "mode".into(), value: value.map(Stored::from) };
        served.maple.handle.change(vec![write]).expect("it is acknowledged");
    };
    set(Some("day"));
    let mut mode = watch(&served, "var=mode");
    assert_eq!(mode.next().data["value"], "day");
    assert_eq!(served.ask(&Ask::new("DELETE", "/v1/state/variables/mode", STATE)).status, 200);
    let deleted = until(&mut mode, |data| data["value"] != "day");
    assert_eq!(deleted["value"], Value::Null);
    assert_eq!(deleted["written"]["by"], "s over HTTP", "who deleted it");
    set(Some("night"));
    assert_eq!(until(&mut mode, |data| !data["value"].is_null())["value"], "night");
    drop(served);
    assert_eq!(mode.gone_within(3)["reason"], "controller");
}

#[test]
fn an_invalid_place_to_watch_is_refused_by_name() {
    let served = Served::new(TOKENS, |_| {});
    let _emulation = fill(&served.maple);
    for (query, refusal) in [
        ("table=none", (404, "table")),
        ("table=blocked&key=banana", (404, "key")),
        ("var=none", (404, "var")),
        ("key=7", (400, "key")),
        ("table=blocked&var=mode", (400, "var")),
        ("table=blocked&limit=1", (400, "limit")),
    ] {
        let said = served.get(&format!("/v1/events?{query}"));
        assert_eq!(said.refusal(), (refusal.0, refusal.1.to_owned()), "{query}: {}", said.body);
    }
    assert_eq!(served.ask(&Ask::new("GET", "/v1/events?var=mode", "")).status, 401);
}

#[test]
fn a_watch_ends_with_its_token_and_leaves_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = private_file(&folder, "tokens", TOKENS);
    let served = Served::new("", |options| {
        options.control.http.as_mut().expect("it is there").tokens = Some(path.clone());
    });
    let write = Write::Var { name: "mode".into(), value: Some(Stored::from("day")) };
    served.maple.handle.change(vec![write]).expect("it is acknowledged");
    let watched = || served.maple.handle.store().subscriptions().1;
    let before = watched();
    let mut events = watch(&served, "var=mode");
    assert_eq!(events.next().data["value"], "day");
    assert_eq!(watched(), before + 1);
    std::fs::write(&path, format!("admin a {ADMIN}\n")).expect("it is written");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // The place goes on changing.
        scope.spawn(|| {
            for number in 0.. {
                if is_over.load(Ordering::Relaxed) {
                    return;
                }
                let write = Write::Var { name: "mode".into(), value: Some(Stored::from(format!("{number}").as_str())) };
                served.maple.handle.change(vec![write]).expect("it is acknowledged");
                std::thread::yield_now();
            }
        });
        let gone = events.gone_within(300);
        is_over.store(true, Ordering::Relaxed);
        assert_eq!((&gone["reason"], &gone["status"]), (&json!("token"), &json!(401)), "{gone}");
    });
    eventually("nothing is left of it", || watched() == before);
}
