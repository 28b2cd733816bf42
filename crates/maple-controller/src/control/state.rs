//! `maple state`: other programs read, write and watch tracked state.
//!
//! Values are JSON as in [`crate::state_json`]. `{"word": "…"}` is a word of a command line. It takes the type that the
//! place was declared with; without a declared type it is JSON if it parses, and otherwise text.

use std::time::Duration;

use maple_core::state::{Cell, CellValue, Name, Patience, Read, Value as Stored, Write};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Handle;
use super::request::RequestError;
use super::transactions::ThreadWaiter;
use crate::state_json::{from_json, parse_dpid, to_json};

/// How long a `settled` request waits for the switches.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(20);
/// How often a watch checks that its client is still connected.
const CLIENT_CHECK: Duration = Duration::from_millis(500);

/// An operation on tracked state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum StateRequest {
    /// Reads a place. A whole table is an array of pairs.
    Get(Place),
    /// Writes a place. The answer comes when no packet is handled by the old value any more.
    Set {
        /// The place.
        place: Place,
        /// The new value.
        value: Value,
        /// Whether the answer also waits until every rule that depended on the old value is gone.
        #[serde(default)]
        settled: bool,
    },
    /// Deletes a place. Otherwise like `Set`.
    Delete {
        /// The place.
        place: Place,
        /// As in `Set`.
        #[serde(default)]
        settled: bool,
    },
    /// Reads a place now and after each change: one answer a line, until the client closes the connection.
    Watch(Place),
    /// Lists all known tables and variables with their declared types.
    List,
}

/// A place in tracked state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// A variable, by name.
    Var(String),
    /// A whole table.
    Table(String),
    /// A key of a table.
    Key(String, Value),
}

impl Place {
    /// The place, in the version of its table that is in use.
    pub(super) fn in_use(&self, handle: &Handle) -> Place {
        let in_use = |table: &String| handle.store().table_in_use(table).to_string();
        match self {
            Place::Var(name) => Place::Var(name.clone()),
            Place::Table(table) => Place::Table(in_use(table)),
            Place::Key(table, key) => Place::Key(in_use(table), key.clone()),
        }
    }
}

/// Answers a request that has one answer.
pub(super) fn answer(handle: &Handle, request: &StateRequest) -> Result<Value, RequestError> {
    match request {
        StateRequest::Get(place) | StateRequest::Watch(place) => {
            let at = if matches!(request, StateRequest::Get(_)) { "state.get" } else { "state.watch" };
            let place = &place.in_use(handle);
            if !is_known(handle, place) {
                return Err(RequestError::at(at, unknown(handle, place)));
            }
            Ok(place_to_json(handle, place, &handle.store().view().cell(cell(handle, place, at)?)))
        }
        StateRequest::Set { place, value, settled } => {
            let place = target(handle, place, "state.set.place")?;
            let value = value_of(handle, &place, value).map_err(|error| RequestError::at("state.set.value", error))?;
            change(handle, &place, Some(value), *settled, "state.set")
        }
        StateRequest::Delete { place, settled } => {
            let place = target(handle, place, "state.delete.place")?;
            change(handle, &place, None, *settled, "state.delete")
        }
        StateRequest::List => Ok(list(handle)),
    }
}

/// A place that can be written.
enum Target {
    Var(Name),
    Key(Name, Stored),
}

fn target(handle: &Handle, place: &Place, at: &str) -> Result<Target, RequestError> {
    match &place.in_use(handle) {
        Place::Var(name) => Ok(Target::Var(name.as_str().into())),
        Place::Key(table, key) => {
            let key = key_of(handle, table, key).map_err(|error| RequestError::at(&format!("{at}.key[1]"), error))?;
            Ok(Target::Key(table.as_str().into(), key))
        }
        Place::Table(name) => {
            Err(RequestError::at(&format!("{at}.table"), format!("a key of {name} is changed, not the whole table")))
        }
    }
}

fn change(
    handle: &Handle,
    target: &Target,
    value: Option<Stored>,
    settled: bool,
    at: &str,
) -> Result<Value, RequestError> {
    let is_new = !match target {
        Target::Var(name) => is_known(handle, &Place::Var(name.to_string())),
        Target::Key(table, _) => is_known(handle, &Place::Table(table.to_string())),
    };
    let write = match target {
        Target::Var(name) => Write::Var { name: name.clone(), value },
        Target::Key(table, key) => Write::Table { table: table.clone(), key: key.clone(), value },
    };
    // A declared name stays known when it becomes empty again.
    match target {
        Target::Key(table, _) if is_new => handle.store().declare_table(table),
        Target::Var(name) if is_new => handle.store().declare_var(name, Stored::None),
        _ => {}
    }
    handle.change(vec![write]).map_err(|error| RequestError::at(at, error.to_string()))?;
    if settled && !handle.settled(SETTLE_TIMEOUT) {
        let why = "the state is changed, but not all switches have confirmed that their old rules are gone";
        return Err(RequestError::at(at, why.to_owned()));
    }
    Ok(json!({ "settled": settled, "new": is_new }))
}

/// All known tables and variables, tables first.
fn list(handle: &Handle) -> Value {
    let (store, state) = (handle.store(), handle.snapshot());
    let text = |kind: Option<String>| kind.map_or(Value::Null, Value::from);
    let tables = store.tables().into_iter().map(|name| {
        let types = state.types(&name);
        json!({
            "table": &*name,
            "key": text(types.map(|types| types.key.to_string())),
            "value": text(types.map(|types| types.value.to_string())),
            "keys": state.table(&name).map_or(0, |rows| rows.len()),
            "kept": store.keeps(&name),
        })
    });
    let vars = store.vars().into_iter().map(|name| {
        json!({ "var": &*name, "value": text(state.kind(&name).map(ToString::to_string)), "kept": store.keeps(&name) })
    });
    tables.chain(vars).collect()
}

/// Whether a table or variable is known.
fn is_known(handle: &Handle, place: &Place) -> bool {
    let (store, state) = (handle.store(), handle.snapshot());
    match place {
        Place::Var(name) => state.var(name).is_some() || store.vars().contains(name.as_str()),
        Place::Table(name) | Place::Key(name, _) => {
            state.table(name).is_some() || store.tables().contains(name.as_str())
        }
    }
}

fn unknown(handle: &Handle, place: &Place) -> String {
    let (kind, name, known) = match place {
        Place::Var(name) => ("variable", name, handle.store().vars()),
        Place::Table(name) | Place::Key(name, _) => ("table", name, handle.store().tables()),
    };
    let known: Vec<&str> = known.iter().map(|name| &**name).collect();
    match known.as_slice() {
        [] => format!("there is no {kind} {name}, nor any other"),
        known => format!("there is no {kind} {name}; there are {}", known.join(", ")),
    }
}

/// Decodes a key. It takes the table's declared type. In a table without a declared type, text becomes an address if
/// the table's other keys are addresses.
fn key_of(handle: &Handle, table: &str, key: &Value) -> Result<Stored, String> {
    if let Some(types) = handle.snapshot().types(table) {
        let table = table.into();
        return typed(key, |key| types.key(&table, key).map_err(|error| error.to_string()));
    }
    let plain = untyped(key)?;
    let Stored::Str(text) = &plain else { return Ok(plain) };
    let address = match handle.store().example_key(table) {
        Some(Stored::Mac(_)) => text.parse().ok().map(Stored::Mac),
        Some(Stored::Ipv4(_)) => text.parse().ok().map(Stored::Ipv4),
        Some(Stored::Ipv6(_)) => text.parse().ok().map(Stored::Ipv6),
        Some(Stored::Switch(_)) => parse_dpid(text).ok().map(Stored::Switch),
        _ => None,
    };
    Ok(address.unwrap_or(plain))
}

/// Decodes a value by the type of its place.
fn value_of(handle: &Handle, target: &Target, value: &Value) -> Result<Stored, String> {
    let state = handle.snapshot();
    match target {
        Target::Key(table, _) => match state.types(table) {
            Some(types) => typed(value, |value| types.value(table, value).map_err(|error| error.to_string())),
            None => untyped(value),
        },
        Target::Var(name) => {
            typed(value, |value| state.normal_var(name, value.clone()).map_err(|error| error.to_string()))
        }
    }
}

/// Decodes a value of a declared type. A word is parsed as JSON if the result has that type; otherwise it is text.
fn typed(value: &Value, normalise: impl Fn(&Stored) -> Result<Stored, String>) -> Result<Stored, String> {
    let Some(text) = word(value) else { return normalise(&from_json(value)?) };
    let as_json = untyped(value).and_then(|value| normalise(&value));
    as_json.or_else(|error| normalise(&Stored::from(text)).map_err(|_| error))
}

/// Decodes a value without a declared type.
fn untyped(value: &Value) -> Result<Stored, String> {
    from_json(&word(value).map_or_else(|| value.clone(), interpret))
}

/// The word of a command line, if the value is one.
fn word(value: &Value) -> Option<&str> {
    value.as_object().filter(|members| members.len() == 1)?.get("word")?.as_str()
}

/// Interprets a word without a declared type.
fn interpret(word: &str) -> Value {
    for kind in ["mac", "ip", "switch"] {
        if let Some(rest) = word.strip_prefix(kind).and_then(|rest| rest.strip_prefix(':')) {
            return json!({ kind: rest });
        }
    }
    if let Some((switch, port)) = word.strip_prefix("location:").and_then(|at| at.split_once(':'))
        && let Ok(port) = port.parse::<u32>()
    {
        return json!({ "location": [switch, port] });
    }
    serde_json::from_str(word).unwrap_or_else(|_| Value::from(word))
}

/// Calls `send` with the value of a place, now and after each change, until it returns `false`. Between changes it
/// calls `send` with `None`, to check whether the client is still connected.
pub(super) fn watch(
    handle: &Handle,
    place: &Place,
    mut send: impl FnMut(Option<Value>) -> bool,
) -> Result<(), RequestError> {
    let cell = cell(handle, place, "state.watch")?;
    let mut sent = None;
    loop {
        let mut txn = handle.store().begin();
        let value = txn.read(cell.clone());
        if sent.as_ref() != Some(&value) {
            if !send(Some(place_to_json(handle, place, &value))) {
                return Ok(());
            }
            sent = Some(value);
        }
        let waiting = ThreadWaiter::new(Some(CLIENT_CHECK));
        if let Some(waiter) = handle.store().watch(&txn, waiting.waker()) {
            let changed = waiting.wait();
            handle.store().unwatch(waiter);
            if !changed && !send(None) {
                return Ok(());
            }
        }
    }
}

fn cell(handle: &Handle, place: &Place, at: &str) -> Result<Cell, RequestError> {
    Ok(match place {
        Place::Var(name) => Cell::Var(name.as_str().into()),
        Place::Table(name) => Cell::TableAll(name.as_str().into()),
        Place::Key(table, key) => {
            let key = key_of(handle, table, key).map_err(|error| RequestError::at(&format!("{at}.key[1]"), error))?;
            Cell::Table(table.as_str().into(), key)
        }
    })
}

/// Encodes what is at a place. A variable that was never written has its declared initial value.
fn place_to_json(handle: &Handle, place: &Place, value: &CellValue) -> Value {
    match (place, value) {
        (Place::Var(name), CellValue::Value(None)) => {
            handle.store().initial(name).as_ref().map_or(Value::Null, to_json)
        }
        _ => cell_to_json(value),
    }
}

fn cell_to_json(value: &CellValue) -> Value {
    match value {
        CellValue::Value(value) => value.as_ref().map_or(Value::Null, to_json),
        CellValue::Table(table) => table.iter().map(|(key, value)| json!([to_json(key), to_json(value)])).collect(),
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn untyped_words_are_json_or_addresses_or_text() {
        for (word, expected) in [
            ("80", json!(80)),
            ("true", json!(true)),
            ("\"80\"", json!("80")),
            ("day", json!("day")),
            ("00:00:00:00:00:01", json!("00:00:00:00:00:01")),
            ("mac:00:00:00:00:00:01", json!({ "mac": "00:00:00:00:00:01" })),
            ("ip:10.0.0.1", json!({ "ip": "10.0.0.1" })),
            ("location:1:3", json!({ "location": ["1", 3] })),
            ("[1,2]", json!([1, 2])),
        ] {
            assert_eq!(interpret(word), expected, "{word}");
        }
    }

    #[test]
    fn a_word_takes_the_type_of_its_place() {
        let as_text = |value: &Stored| match value {
            Stored::Str(_) => Ok(value.clone()),
            other => Err(format!("{other} is no text")),
        };
        assert_eq!(typed(&json!({ "word": "80" }), as_text), Ok(Stored::from("80")));
        assert_eq!(typed(&json!(80), as_text), Err("80 is no text".to_owned()));
        let refuse = |value: &Stored| Err(format!("{value} is wrong"));
        assert_eq!(typed(&json!({ "word": "80" }), refuse), Err("80 is wrong".to_owned()));
    }
}
