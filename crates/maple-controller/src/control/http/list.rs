//! Lists: rows of an answer, filtered, sorted, and in pages.
//!
//! A page is named by the row after which it begins, not by a number of rows. So a row that comes or goes meanwhile
//! moves no other row to another page.
//!
//! Rows become text one at a time ([`List`]), and the answer is sent from that text in parts ([`ListText`]).

use std::cell::LazyCell;
use std::cmp::Ordering;
use std::collections::BTreeMap;

use axum::http::StatusCode;
use serde_json::{Number, Value, json};
use siphasher::sip128::SipHasher13;

use super::columns::Columns;
use super::list_text::{ListText, RowText, RowTexts};
use super::problem::Problem;
use super::routes::Rows;

/// The part of the rows that a client asks for.
#[derive(Debug, PartialEq)]
pub(super) struct Page {
    limit: Option<usize>,
    after: Option<Cursor>,
    /// The parameter `sort`, which a cursor repeats.
    order: String,
    sort: Vec<SortKey>,
    filters: Vec<(String, String)>,
}

/// The row after which a page begins.
#[derive(Debug, PartialEq)]
enum Cursor {
    /// The row with this key, whether or not it is there still.
    Key(Vec<Value>),
    /// The row whose key has this digest.
    Digest(String),
}

/// The maximum length of a key in a cursor, in bytes. Chosen: cursors come in the head of a request, so longer keys are
/// a digest.
const MAX_KEY: usize = 1024;
/// The beginning of a cursor that is a digest.
const DIGEST: &str = "digest-";
/// The maximum number of columns by which rows are sorted. Chosen: the values of all of them are copied for each row,
/// and tables have about as many columns.
const MAX_SORT: usize = 8;

/// A column by which rows are sorted.
#[derive(Debug, PartialEq)]
struct SortKey {
    column: String,
    descends: bool,
}

impl Page {
    /// Takes the parameters of lists out of a query. What remains are filters: columns with the value that they are to
    /// have.
    ///
    /// # Errors
    /// [`Problem`] if one is wrong, or is not a column.
    pub fn take<'a>(
        rows: Rows,
        query: &mut BTreeMap<String, String>,
        columns: impl FnOnce() -> Columns<'a>,
    ) -> Result<Page, Problem> {
        let columns = LazyCell::new(columns);
        let wrong =
            |field: &str, text: String| Problem::field(StatusCode::BAD_REQUEST, field, format!("{field}: {text}"));
        let order = query.remove("sort").unwrap_or_else(|| rows.sort.to_owned());
        let mut sort: Vec<SortKey> = Vec::new();
        for key in order.split(',').filter(|key| !key.is_empty()) {
            let column = key.strip_prefix('-').unwrap_or(key);
            columns.check(column).map_err(|text| wrong("sort", text))?;
            if sort.len() == MAX_SORT || sort.iter().any(|there| there.column == column) {
                return Err(wrong("sort", format!("at most {MAX_SORT} columns, each once")));
            }
            sort.push(SortKey { column: column.to_owned(), descends: key.starts_with('-') });
        }
        let limit = query.remove("limit").map(|text| match text.parse() {
            Ok(limit @ 1..) => Ok(limit),
            _ => Err(wrong("limit", format!("{text:?} is not a whole number from 1 on"))),
        });
        let after = query.remove("after").map(|text| {
            read_cursor(&text, &order, sort.len() + rows.key.len())
                .ok_or_else(|| wrong("after", "this is not what an answer with this order had under next".to_owned()))
        });
        let filters: Vec<(String, String)> = std::mem::take(query).into_iter().collect();
        for (column, _) in &filters {
            columns.check(column).map_err(|text| wrong(column, text))?;
        }
        Ok(Page { limit: limit.transpose()?, after: after.transpose()?, order, sort, filters })
    }

    /// Begins a list of the rows of an answer.
    pub fn list(&self, rows: Rows) -> List<'_> {
        List { page: self, rows, texts: RowTexts::default(), all: Vec::new() }
    }

    /// Reports whether a row has the values that its columns are to have.
    fn selects(&self, row: &Value) -> bool {
        self.filters.iter().all(|(column, text)| column_of(row, column).is_some_and(|value| is(value, text)))
    }

    /// Returns what a row is sorted by: the columns of `sort`, and then those that tell rows apart.
    fn key(&self, rows: Rows, row: &Value) -> Vec<Value> {
        let columns = self.sort.iter().map(|key| key.column.as_str()).chain(rows.key.iter().copied());
        columns.map(|column| column_of(row, column).cloned().unwrap_or_default()).collect()
    }

    fn compare(&self, a: &[Value], b: &[Value]) -> Ordering {
        let each = a.iter().zip(b).enumerate().map(|(at, (a, b))| {
            let order = compare(a, b);
            if self.sort.get(at).is_some_and(|key| key.descends) { order.reverse() } else { order }
        });
        each.into_iter().find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    }
}

/// A list that becomes an answer. A row is text as soon as it is there: of a long list only the text and what it is
/// sorted by are in memory.
#[derive(Debug)]
pub(super) struct List<'a> {
    page: &'a Page,
    rows: Rows,
    texts: RowTexts,
    /// The values by which each row is sorted, with its text.
    all: Vec<(Vec<Value>, RowText)>,
}

impl List<'_> {
    /// Adds a row, if it is one of those that are asked for.
    pub fn add(&mut self, row: &Value) {
        if self.page.selects(row) {
            self.all.push((self.page.key(self.rows, row), self.texts.add(row)));
        }
    }

    /// Adds the rows of an answer. Rows inside of objects get the other members of their object.
    pub fn add_all(&mut self, answer: Value) {
        let Value::Array(all) = answer else { return };
        let Some(member) = self.rows.nested else { return all.into_iter().for_each(|row| self.add(&row)) };
        for mut object in all {
            let inner = object.as_object_mut().and_then(|members| members.remove(member));
            let Some(Value::Array(inner)) = inner else { continue };
            for mut row in inner {
                for (name, value) in object.as_object().into_iter().flatten() {
                    row[name.as_str()] = value.clone();
                }
                self.add(&row);
            }
        }
    }

    /// Returns the answer: `{"rows": […], "total": …, "next": …}`.
    ///
    /// # Errors
    /// [`Problem`] if the page begins after a row that is gone, and of which only the digest is known.
    pub fn finish(self) -> Result<ListText, Problem> {
        let List { page, texts, mut all, .. } = self;
        all.sort_by(|(a, _), (b, _)| page.compare(a, b));
        number_equals(&mut all);
        let total = all.len();
        let first = match &page.after {
            Some(Cursor::Key(after)) => all.partition_point(|(key, _)| page.compare(key, after) != Ordering::Greater),
            Some(Cursor::Digest(digest)) => {
                let found = all.iter().position(|(key, _)| digest_of(&page.order, key) == *digest);
                found.map(|at| at + 1).ok_or_else(|| {
                    let text = "after: the row after which this page begins is gone; begin again";
                    Problem::field(StatusCode::CONFLICT, "after", text)
                })?
            }
            None => 0,
        };
        let last = page.limit.map_or(total, |limit| total.min(first.saturating_add(limit)));
        let next =
            all.get(last.wrapping_sub(1)).filter(|_| last < total).map(|(key, _)| write_cursor(&page.order, key));
        let rows = all.drain(first..last).map(|(_, text)| text).collect();
        Ok(ListText::new(texts, rows, &json!(next), total))
    }
}

/// Adds to the key of each row how many rows before it have an equal one.
fn number_equals<T>(all: &mut [(Vec<Value>, T)]) {
    let mut number: u64 = 0;
    for at in 0..all.len() {
        let (before, rest) = all.split_at_mut(at);
        let key = &mut rest[0].0;
        let equals = |last: &[Value]| last.iter().zip(&*key).all(|(a, b)| compare(a, b).is_eq());
        let is_equal = before.last().is_some_and(|(last, _)| equals(last));
        number = if is_equal { number + 1 } else { 0 };
        key.push(number.into());
    }
}

/// Returns a column of a row: names and numbers of members, with dots between them.
fn column_of<'a>(row: &'a Value, column: &str) -> Option<&'a Value> {
    column.split('.').try_fold(row, |value, part| match value {
        Value::Array(items) => items.get(part.parse::<usize>().ok()?),
        value => value.get(part),
    })
}

/// Reports whether a value is this text, or the JSON that this text is. A list is what one of its items is.
fn is(value: &Value, text: &str) -> bool {
    match value {
        Value::String(own) => own == text,
        Value::Array(items) => items.iter().any(|item| is(item, text)),
        value => serde_json::from_str::<Value>(text).is_ok_and(|read| compare(&read, value).is_eq()),
    }
}

/// Compares values of any kind: numbers by their size, text by its characters, lists and objects by their parts.
fn compare(a: &Value, b: &Value) -> Ordering {
    let kind = |value: &Value| match value {
        Value::Null => 0,
        Value::Bool(_) => 1,
        Value::Number(_) => 2,
        Value::String(_) => 3,
        Value::Array(_) => 4,
        Value::Object(_) => 5,
    };
    match (a, b) {
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Number(a), Value::Number(b)) => numbers(a, b),
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Array(a), Value::Array(b)) => parts(a.iter().map(|v| ("", v)), b.iter().map(|v| ("", v))),
        (Value::Object(a), Value::Object(b)) => {
            parts(a.iter().map(|(n, v)| (n.as_str(), v)), b.iter().map(|(n, v)| (n.as_str(), v)))
        }
        (a, b) => kind(a).cmp(&kind(b)),
    }
}

/// Compares numbers by what they are, so that the order of whole numbers and others is one.
fn numbers(a: &Number, b: &Number) -> Ordering {
    let float = |number: &Number| number.as_f64().unwrap_or_default();
    match (a.as_i128(), b.as_i128()) {
        (Some(a), Some(b)) => a.cmp(&b),
        (Some(a), None) => whole_and_float(a, float(b)),
        (None, Some(b)) => whole_and_float(b, float(a)).reverse(),
        (None, None) => float(a).partial_cmp(&float(b)).unwrap_or(Ordering::Equal),
    }
}

fn whole_and_float(whole: i128, float: f64) -> Ordering {
    // A float beyond 128 bits becomes the nearest whole number there is, and those of JSON have at most 64.
    whole.cmp(&(float.trunc() as i128)).then_with(|| 0.0.partial_cmp(&float.fract()).unwrap_or(Ordering::Equal))
}

fn parts<'a>(a: impl Iterator<Item = (&'a str, &'a Value)>, b: impl Iterator<Item = (&'a str, &'a Value)>) -> Ordering {
    let (a, b): (Vec<_>, Vec<_>) = (a.collect(), b.collect());
    let each = a.iter().zip(&b).map(|((m, v), (n, w))| m.cmp(n).then_with(|| compare(v, w)));
    each.into_iter().find(|order| order.is_ne()).unwrap_or_else(|| a.len().cmp(&b.len()))
}

/// Writes the key of a row as text that clients only hand back.
fn write_cursor(order: &str, key: &[Value]) -> String {
    let text = json!([order, key]).to_string();
    if text.len() <= MAX_KEY { hex::encode(text) } else { digest_of(order, key) }
}

fn digest_of(order: &str, key: &[Value]) -> String {
    let digest = SipHasher13::new().hash(json!([order, key]).to_string().as_bytes());
    format!("{DIGEST}{}", hex::encode(digest.as_bytes()))
}

/// Reads a cursor: a digest, or the key of a row with this many columns and the number among its equals.
fn read_cursor(text: &str, order: &str, columns: usize) -> Option<Cursor> {
    if text.starts_with(DIGEST) {
        return Some(Cursor::Digest(text.to_owned()));
    }
    let (of, key): (String, Vec<Value>) = serde_json::from_slice(&hex::decode(text).ok()?).ok()?;
    (of == order && key.len() == columns + 1).then_some(Cursor::Key(key))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn number() -> impl Strategy<Value = Value> {
        let near = prop_oneof![Just(0i64), Just(1 << 53), Just(i64::MAX), Just(i64::MIN)];
        let near = (near, -2i64..3).prop_map(|(of, by)| of.saturating_add(by));
        prop_oneof![
            near.clone().prop_map(Value::from),
            near.clone().prop_map(|number| json!(number as f64)),
            near.prop_map(|number| json!(number as f64 + 0.5)),
            Just(json!(u64::MAX)),
            Just(json!(-0.0)),
            Just(json!(1e300)),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn numbers_have_one_order(a in number(), b in number(), c in number()) {
            prop_assert_eq!(compare(&a, &b), compare(&b, &a).reverse());
            if compare(&a, &b).is_le() && compare(&b, &c).is_le() {
                prop_assert!(compare(&a, &c).is_le(), "{} {} {}", a, b, c);
            }
            if compare(&a, &b).is_eq() && compare(&b, &c).is_eq() {
                prop_assert!(compare(&a, &c).is_eq(), "{} {} {}", a, b, c);
            }
        }
    }

    const ROWS: Rows = Rows { nested: Some("inner"), key: &["name"], sort: "" };

    /// Generates an answer: objects with rows in them, of which several may have the same name.
    fn answer() -> impl Strategy<Value = Value> {
        let row = (0u8..40, 0u8..4, prop_oneof![39 => 0usize..40, 1 => 20_000usize..90_000]);
        let row =
            row.prop_map(|(name, kind, length)| json!({ "name": name, "kind": kind, "text": "é".repeat(length) }));
        let object = (0u8..3, prop::collection::vec(row, 0..30));
        let object = object.prop_map(|(of, inner)| json!({ "of": of, "inner": inner }));
        prop::collection::vec(object, 0..6).prop_map(Value::Array)
    }

    /// Returns a page of an answer, from all rows as they are.
    fn naive(page: &Page, answer: &Value) -> Value {
        let mut all: Vec<Value> = Vec::new();
        for object in answer.as_array().expect("objects") {
            for row in object["inner"].as_array().expect("rows") {
                let mut row = row.clone();
                row["of"] = object["of"].clone();
                all.push(row);
            }
        }
        all.retain(|row| page.selects(row));
        all.sort_by(|a, b| page.compare(&page.key(ROWS, a), &page.key(ROWS, b)));
        let mut keys: Vec<(Vec<Value>, ())> = all.iter().map(|row| (page.key(ROWS, row), ())).collect();
        number_equals(&mut keys);
        let is_before = |(key, ()): &&(Vec<Value>, ())| match &page.after {
            Some(Cursor::Key(after)) => page.compare(key, after).is_le(),
            _ => false,
        };
        let first = keys.iter().filter(is_before).count();
        let last = page.limit.map_or(all.len(), |limit| all.len().min(first + limit));
        let next = (last < all.len()).then(|| write_cursor(&page.order, &keys[last - 1].0));
        json!({ "rows": all[first..last], "total": all.len(), "next": next })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_text_of_each_page_is_that_of_all_rows_at_once(
            answer in answer(), limit in prop::option::of(1usize..50), kind in prop::option::of(0u8..4), descends: bool,
        ) {
            let sort = vec![SortKey { column: "kind".to_owned(), descends }];
            let filters = kind.map(|kind| ("kind".to_owned(), kind.to_string())).into_iter().collect();
            let mut page = Page { limit, after: None, order: "kind".to_owned(), sort, filters };
            loop {
                let mut list = page.list(ROWS);
                list.add_all(answer.clone());
                let text = list.finish().expect("it has no digest");
                let (length, digest) = (text.len(), text.digest());
                let whole: Vec<u8> = text.into_parts().flatten().collect();
                let expected = naive(&page, &answer);
                prop_assert_eq!(String::from_utf8_lossy(&whole), expected.to_string());
                prop_assert_eq!((length, digest), (whole.len(), SipHasher13::new().hash(&whole).as_bytes()));
                let Some(next) = expected["next"].as_str() else { break };
                page.after = Some(read_cursor(next, "kind", 2).expect("it is a cursor"));
            }
        }
    }

    #[test]
    fn a_long_key_makes_no_long_cursor() {
        let key = vec![json!("x".repeat(60_000)), json!(0)];
        let cursor = write_cursor("", &key);
        assert!(cursor.len() < 100);
        assert_eq!(read_cursor(&cursor, "", 1), Some(Cursor::Digest(cursor.clone())));
        assert_ne!(cursor, write_cursor("name", &key));
    }
}
