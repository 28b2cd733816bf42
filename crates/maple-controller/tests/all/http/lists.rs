//! Rows of answers against the whole answer: filtered, sorted and in pages.

use maple_core::state::Write;
use proptest::prelude::*;
use serde_json::Value;

use super::{Ask, Served, TOKENS};

/// Creates a controller with a table of these numbers.
fn with_table(numbers: &[u16]) -> Served {
    let served = Served::new(TOKENS, |_| {});
    let write = |(key, number): (usize, &u16)| Write::Table {
        table: "t".into(),
        key: (key as i64).into(),
        value: Some(i64::from(*number).into()),
    };
    served.maple.handle.change(numbers.iter().enumerate().map(write).collect()).expect("it is acknowledged");
    served
}

fn rows(answer: &Value) -> Vec<(i64, i64)> {
    let rows = answer["rows"].as_array().expect("rows").iter();
    rows.map(|row| (row["key"].as_i64().expect("a number"), row["value"].as_i64().expect("a number"))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn pages_together_are_the_rows_in_their_order(
        numbers in prop::collection::vec(0u16..4, 1..40), limit in 1usize..9, sort in prop::sample::select(vec!["", "value", "-value", "-key"]),
        only in prop::option::of(0i64..4),
    ) {
        let served = with_table(&numbers);
        let mut expected: Vec<(i64, i64)> = numbers.iter().enumerate().map(|(key, n)| (key as i64, i64::from(*n))).collect();
        expected.retain(|(_, value)| only.is_none_or(|only| only == *value));
        match sort {
            "value" => expected.sort_by_key(|(key, value)| (*value, *key)),
            "-value" => expected.sort_by_key(|(key, value)| (-*value, *key)),
            "-key" => expected.reverse(),
            _ => {}
        }
        let filter = only.map_or(String::new(), |only| format!("&value={only}"));
        let (mut found, mut after) = (Vec::new(), String::new());
        loop {
            let answer = served.read(&format!("/v1/state/tables/t?limit={limit}&sort={sort}{filter}{after}"));
            prop_assert_eq!(&answer["total"], expected.len());
            let page = rows(&answer);
            prop_assert!(page.len() <= limit);
            found.extend(page);
            let Some(next) = answer["next"].as_str() else { break };
            after = format!("&after={next}");
        }
        prop_assert_eq!(found, expected);
    }
}

#[test]
fn a_page_after_a_row_with_a_long_key_can_be_asked_for() {
    let served = Served::new(TOKENS, |_| {});
    let key = |letter: &str| letter.repeat(30_000);
    let write = |letter: &str, value: Option<i64>| Write::Table {
        table: "t".into(),
        key: key(letter).as_str().into(),
        value: value.map(Into::into),
    };
    served.maple.handle.change(vec![write("a", Some(1)), write("b", Some(2))]).expect("it is acknowledged");
    let first = served.read("/v1/state/tables/t?limit=1");
    let next = first["next"].as_str().expect("there is more");
    let target = format!("/v1/state/tables/t?limit=1&after={next}");
    assert_eq!(served.read(&target)["rows"][0]["value"], 2);
    served.maple.handle.change(vec![write("a", None)]).expect("it is acknowledged");
    assert_eq!(served.get(&target).refusal(), (409, "after".to_owned()), "its place is not known any more");
}

#[test]
fn a_long_list_comes_in_parts_with_its_length_and_tag() {
    let served = Served::new(TOKENS, |_| {});
    let write = |key: i64| Write::Table {
        table: "t".into(),
        key: key.into(),
        value: Some("é".repeat(150 + key as usize % 7).as_str().into()),
    };
    served.maple.handle.change((0..3000).map(write).collect()).expect("it is acknowledged");
    let whole = served.get("/v1/state/tables/t");
    assert_eq!(whole.header("content-length"), Some(whole.body.len().to_string().as_str()));
    assert!(whole.body.len() > 1 << 20, "it is more than a few parts and blocks");
    let rows = whole.json()["rows"].as_array().expect("rows").clone();
    let keys: Vec<i64> = rows.iter().map(|row| row["key"].as_i64().expect("a number")).collect();
    assert_eq!(keys, (0..3000).collect::<Vec<i64>>());
    assert!(rows.iter().enumerate().all(|(key, row)| row["value"] == "é".repeat(150 + key % 7)));
    let tag = whole.header("etag").expect("it has one").to_owned();
    let again = served.ask(&Ask::get("/v1/state/tables/t").with("If-None-Match", &tag));
    assert_eq!((again.status, again.body.as_str()), (304, ""));
}

#[test]
fn a_row_that_goes_moves_no_other_to_another_page() {
    let served = with_table(&[0, 1, 2, 3, 4, 5]);
    let first = served.read("/v1/state/tables/t?limit=2");
    let gone = [0i64, 1].map(|key| Write::Table { table: "t".into(), key: key.into(), value: None });
    served.maple.handle.change(gone.into()).expect("it is acknowledged");
    let next = first["next"].as_str().expect("there is more");
    let second = served.read(&format!("/v1/state/tables/t?limit=2&after={next}"));
    assert_eq!(rows(&second), [(2, 2), (3, 3)]);
}

#[test]
fn rows_are_chosen_by_what_is_inside_of_them() {
    let served = Served::new(TOKENS, |_| {});
    let _emulation = crate::control::fill(&served.maple);
    let count = |target: &str| served.read(target)["rows"].as_array().expect("rows").len();
    assert_eq!(count("/v1/hosts?at.switch=0000000000000001"), 1);
    assert_eq!(count("/v1/links?0.switch=0000000000000001"), 1);
    assert_eq!(count("/v1/links?0.switch=0000000000000002"), 0);
    assert_eq!(count("/v1/ports?switch=0000000000000001&kind=edge"), 1);
    assert_eq!(count("/v1/ports?kind=null"), count("/v1/ports?port=LOCAL"));
    let address = served.read("/v1/hosts?sort=mac&limit=1")["rows"][0]["ipv4"][0].as_str().map(str::to_owned);
    let address = address.expect("its ping has said it");
    assert_eq!(count(&format!("/v1/hosts?ipv4={address}")), 1);
}
