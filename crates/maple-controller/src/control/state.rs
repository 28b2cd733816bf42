//! `maple state`: tracked state for other programs, as JSON.
//!
//! Values are `null`, truth values, numbers, text and arrays as JSON has them. What JSON has not is an object with one
//! member: `{"mac": "00:…"}`, `{"ip": "10.0.0.1"}`, `{"switch": "1"}`, `{"location": ["1", 3]}`, `{"bytes": "00ff"}`,
//! `{"map": [[key, value], …]}`, `{"float": "NaN"}`. `{"word": "…"}` is what a word of the command line means where it
//! stands: by the type that the place was declared with, else JSON, else text.

use std::sync::Arc;
use std::time::Duration;

use maple_core::network::Location;
use maple_core::state::{Cell, CellValue, Float, Name, Patience, Read, Value as Stored, Write};
use maple_wire::PortNo;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Handle;
use super::json::{Refusal, dpid};
use super::transactions::Waiting;

/// How long the switches may take where whoever asks waits for them.
const SETTLING: Duration = Duration::from_secs(20);
/// How often a watcher looks whether its client is still there.
const LOOK_UP: Duration = Duration::from_millis(500);

/// What to do with tracked state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum State {
    /// The value of a place; of a whole table an array of pairs.
    Get(Place),
    /// Sets a place. The answer comes when no packet is answered from the old value any more.
    Set {
        /// Which.
        place: Place,
        /// To what.
        value: Value,
        /// Whether the answer is to come when, besides, every rule that depended on the old value is gone.
        #[serde(default)]
        settled: bool,
    },
    /// Takes a place away. As `Set`.
    Delete {
        /// Which.
        place: Place,
        /// As in `Set`.
        #[serde(default)]
        settled: bool,
    },
    /// The value of a place now, and again whenever it has changed: one answer a line, until the client closes.
    Watch(Place),
    /// All tables and variables that are known, each with the types that it was declared with.
    List,
}

/// A place in tracked state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    /// A variable, by its name.
    Var(String),
    /// A whole table.
    Table(String),
    /// A key of a table.
    Key(String, Value),
}

/// The answer to a request that has one answer.
pub(super) fn answer(handle: &Handle, request: &State) -> Result<Value, Refusal> {
    match request {
        State::Get(place) | State::Watch(place) => {
            let at = if matches!(request, State::Get(_)) { "state.get" } else { "state.watch" };
            if !is_known(handle, place) {
                return Err(Refusal::at(at, unknown(handle, place)));
            }
            Ok(shown_at(handle, place, &handle.store().view().cell(cell(handle, place, at)?)))
        }
        State::Set { place, value, settled } => {
            let place = meant(handle, place, "state.set.place")?;
            let value = value_of(handle, &place, value).map_err(|error| Refusal::at("state.set.value", error))?;
            change(handle, &place, Some(value), *settled, "state.set")
        }
        State::Delete { place, settled } => {
            let place = meant(handle, place, "state.delete.place")?;
            change(handle, &place, None, *settled, "state.delete")
        }
        State::List => Ok(list(handle)),
    }
}

/// A place that can be written.
enum Slot {
    Var(Name),
    Key(Name, Stored),
}

fn meant(handle: &Handle, place: &Place, at: &str) -> Result<Slot, Refusal> {
    match place {
        Place::Var(name) => Ok(Slot::Var(name.as_str().into())),
        Place::Key(table, key) => {
            let key = key_of(handle, table, key).map_err(|error| Refusal::at(&format!("{at}.key[1]"), error))?;
            Ok(Slot::Key(table.as_str().into(), key))
        }
        Place::Table(name) => {
            Err(Refusal::at(&format!("{at}.table"), format!("a key of {name} is changed, not the whole table")))
        }
    }
}

fn change(handle: &Handle, slot: &Slot, value: Option<Stored>, settled: bool, at: &str) -> Result<Value, Refusal> {
    let is_new = !match slot {
        Slot::Var(name) => is_known(handle, &Place::Var(name.to_string())),
        Slot::Key(table, _) => is_known(handle, &Place::Table(table.to_string())),
    };
    let write = match slot {
        Slot::Var(name) => Write::Var { name: name.clone(), value },
        Slot::Key(table, key) => Write::Table { table: table.clone(), key: key.clone(), value },
    };
    // Known from now on, also when it is empty again.
    match slot {
        Slot::Key(table, _) if is_new => handle.store().declare_table(table),
        Slot::Var(name) if is_new => handle.store().declare_var(name, Stored::None),
        _ => {}
    }
    handle.change(vec![write]).map_err(|error| Refusal::at(at, error.to_string()))?;
    if settled && !handle.settled(SETTLING) {
        let why = "the state is changed, but not all switches have confirmed that its old rules are gone";
        return Err(Refusal::at(at, why.to_owned()));
    }
    Ok(json!({ "settled": settled, "new": is_new }))
}

/// All that is known, tables first.
fn list(handle: &Handle) -> Value {
    let (store, state) = (handle.store(), handle.snapshot());
    let kept = store.kept();
    let text = |kind: Option<String>| kind.map_or(Value::Null, Value::from);
    let tables = store.tables().into_iter().map(|name| {
        let types = state.types(&name);
        json!({
            "table": &*name,
            "key": text(types.map(|types| types.key.to_string())),
            "value": text(types.map(|types| types.value.to_string())),
            "keys": state.table(&name).map_or(0, |rows| rows.len()),
            "kept": kept.contains(&name),
        })
    });
    let vars = store.vars().into_iter().map(|name| {
        json!({ "var": &*name, "value": text(state.kind(&name).map(ToString::to_string)), "kept": kept.contains(&name) })
    });
    tables.chain(vars).collect()
}

/// Whether anything is known of a table or a variable.
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

/// The key that is meant: by the type that the table was declared with, or else, text that is an address is that address
/// where the table's keys are.
fn key_of(handle: &Handle, table: &str, key: &Value) -> Result<Stored, String> {
    if let Some(types) = handle.snapshot().types(table) {
        let table = table.into();
        return normal(key, |key| types.key(&table, key).map_err(|error| error.to_string()));
    }
    let plain = plain(key)?;
    let Stored::Str(text) = &plain else { return Ok(plain) };
    let meant = match handle.store().example_key(table) {
        Some(Stored::Mac(_)) => text.parse().ok().map(Stored::Mac),
        Some(Stored::Ipv4(_)) => text.parse().ok().map(Stored::Ipv4),
        Some(Stored::Ipv6(_)) => text.parse().ok().map(Stored::Ipv6),
        Some(Stored::Switch(_)) => dpid(text).ok().map(Stored::Switch),
        _ => None,
    };
    Ok(meant.unwrap_or(plain))
}

/// The value that is meant.
fn value_of(handle: &Handle, slot: &Slot, value: &Value) -> Result<Stored, String> {
    let state = handle.snapshot();
    match slot {
        Slot::Key(table, _) => match state.types(table) {
            Some(types) => normal(value, |value| types.value(table, value).map_err(|error| error.to_string())),
            None => plain(value),
        },
        Slot::Var(name) => {
            normal(value, |value| state.normal_var(name, value.clone()).map_err(|error| error.to_string()))
        }
    }
}

/// What JSON means where values are brought to a type. A word is JSON where the type has it, and else text.
fn normal(value: &Value, normalise: impl Fn(&Stored) -> Result<Stored, String>) -> Result<Stored, String> {
    let Some(text) = word(value) else { return normalise(&stored(value)?) };
    let as_json = plain(value).and_then(|value| normalise(&value));
    as_json.or_else(|error| normalise(&Stored::from(text)).map_err(|_| error))
}

/// What JSON means where nothing was declared.
fn plain(value: &Value) -> Result<Stored, String> {
    stored(&word(value).map_or_else(|| value.clone(), guess))
}

/// The word of a command line, if it is one.
fn word(value: &Value) -> Option<&str> {
    value.as_object().filter(|members| members.len() == 1)?.get("word")?.as_str()
}

/// What a word means by itself.
fn guess(word: &str) -> Value {
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

/// Tells a place's value, and again whenever it has changed, as long as `tell` says that somebody listens.
pub(super) fn watch(
    handle: &Handle,
    place: &Place,
    mut tell: impl FnMut(Option<Value>) -> bool,
) -> Result<(), Refusal> {
    let cell = cell(handle, place, "state.watch")?;
    let mut told = None;
    loop {
        let mut txn = handle.store().begin();
        let value = txn.read(cell.clone());
        if told.as_ref() != Some(&value) {
            if !tell(Some(shown_at(handle, place, &value))) {
                return Ok(());
            }
            told = Some(value);
        }
        let waiting = Waiting::here(Some(LOOK_UP));
        if let Some(waiter) = handle.store().watch(&txn, waiting.waker()) {
            let changed = waiting.wait();
            handle.store().unwatch(waiter);
            if !changed && !tell(None) {
                return Ok(());
            }
        }
    }
}

fn cell(handle: &Handle, place: &Place, at: &str) -> Result<Cell, Refusal> {
    Ok(match place {
        Place::Var(name) => Cell::Var(name.as_str().into()),
        Place::Table(name) => Cell::TableAll(name.as_str().into()),
        Place::Key(table, key) => {
            let key = key_of(handle, table, key).map_err(|error| Refusal::at(&format!("{at}.key[1]"), error))?;
            Cell::Table(table.as_str().into(), key)
        }
    })
}

/// What is at a place; a variable that was never set is what it was declared to be.
fn shown_at(handle: &Handle, place: &Place, value: &CellValue) -> Value {
    match (place, value) {
        (Place::Var(name), CellValue::Value(None)) => handle.store().initial(name).as_ref().map_or(Value::Null, shown),
        _ => show(value),
    }
}

fn show(value: &CellValue) -> Value {
    match value {
        CellValue::Value(value) => value.as_ref().map_or(Value::Null, shown),
        CellValue::Table(table) => table.iter().map(|(key, value)| json!([shown(key), shown(value)])).collect(),
        _ => Value::Null,
    }
}

/// A stored value as JSON.
pub fn shown(value: &Stored) -> Value {
    match value {
        Stored::None => Value::Null,
        Stored::Bool(truth) => json!(truth),
        Stored::Int(number) => {
            serde_json::Number::from_i128(*number).map_or_else(|| json!({ "int": number.to_string() }), Value::Number)
        }
        Stored::Float(number) => serde_json::Number::from_f64(number.get())
            .map_or_else(|| json!({ "float": number.get().to_string() }), Value::Number),
        Stored::Str(text) => Value::from(&**text),
        Stored::Bytes(bytes) => json!({ "bytes": bytes.iter().map(|b| format!("{b:02x}")).collect::<String>() }),
        Stored::Mac(mac) => json!({ "mac": mac.to_string() }),
        Stored::Ipv4(ip) => json!({ "ip": ip }),
        Stored::Ipv6(ip) => json!({ "ip": ip }),
        Stored::Switch(dpid) => json!({ "switch": dpid.to_string() }),
        Stored::Location(at) => json!({ "location": [at.switch.to_string(), at.port.0] }),
        Stored::Tuple(items) => items.iter().map(shown).collect(),
        Stored::Map(map) => {
            json!({ "map": map.iter().map(|(key, value)| json!([shown(key), shown(value)])).collect::<Value>() })
        }
    }
}

/// The stored value that JSON means.
pub fn stored(value: &Value) -> Result<Stored, String> {
    Ok(match value {
        Value::Null => Stored::None,
        Value::Bool(truth) => Stored::Bool(*truth),
        Value::Number(number) => match number.as_i128() {
            Some(number) => Stored::Int(number),
            None => Stored::Float(Float::new(number.as_f64().ok_or_else(|| format!("{number} is too large"))?)),
        },
        Value::String(text) => Stored::from(text.as_str()),
        Value::Array(items) => Stored::Tuple(items.iter().map(stored).collect::<Result<_, _>>()?),
        Value::Object(members) => match members.iter().next().filter(|_| members.len() == 1) {
            Some((kind, inner)) => {
                tagged(kind, inner).ok_or_else(|| format!("{value} is no value of tracked state"))?
            }
            None => return Err(format!("{value} is no value of tracked state: it has not exactly one member")),
        },
    })
}

fn tagged(kind: &str, inner: &Value) -> Option<Stored> {
    let text = inner.as_str();
    Some(match kind {
        "int" => Stored::Int(text?.parse().ok()?),
        "float" => Stored::Float(Float::new(text?.parse().ok()?)),
        "mac" => Stored::Mac(text?.parse().ok()?),
        "ip" => match text?.parse().ok()? {
            std::net::IpAddr::V4(ip) => Stored::Ipv4(ip),
            std::net::IpAddr::V6(ip) => Stored::Ipv6(ip),
        },
        "switch" => Stored::Switch(dpid(text?).ok()?),
        "location" => match inner.as_array()?.as_slice() {
            [switch, port] => {
                let port = u32::try_from(port.as_u64()?).ok()?;
                Stored::Location(Location::new(dpid(switch.as_str()?).ok()?, PortNo(port)))
            }
            _ => return None,
        },
        "bytes" => Stored::Bytes(bytes(text?)?),
        "map" => {
            let pair = |pair: &Value| match pair.as_array()?.as_slice() {
                [key, value] => Some((stored(key).ok()?, stored(value).ok()?)),
                _ => None,
            };
            Stored::Map(Arc::new(inner.as_array()?.iter().map(pair).collect::<Option<_>>()?))
        }
        _ => return None,
    })
}

/// Bytes from hex digits.
fn bytes(text: &str) -> Option<Arc<[u8]>> {
    if !text.len().is_multiple_of(2) || !text.is_ascii() {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_what_they_were_behind_their_json() {
        let all = [
            Stored::None,
            Stored::Bool(true),
            Stored::Int(-5),
            Stored::Int(i128::MAX),
            Stored::Float(Float::new(1.5)),
            Stored::Float(Float::new(f64::NAN)),
            Stored::from("text"),
            Stored::Bytes([0, 255].into()),
            Stored::Mac("00:00:00:00:00:0a".parse().expect("an address")),
            Stored::Ipv4([10, 0, 0, 1].into()),
            Stored::Ipv6("fe80::1".parse().expect("an address")),
            Stored::Switch(maple_wire::Dpid(0xab)),
            Stored::Location(Location::new(maple_wire::Dpid(1), PortNo(3))),
            Stored::Tuple([Stored::Int(1), Stored::None].into()),
            Stored::Map(Arc::new([(Stored::Int(1), Stored::from("x"))].into())),
        ];
        for value in all {
            let text = shown(&value).to_string();
            assert_eq!(stored(&serde_json::from_str(&text).expect("JSON")), Ok(value), "{text}");
        }
    }

    #[test]
    fn words_are_json_or_addresses_or_text() {
        for (word, meant) in [
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
            assert_eq!(guess(word), meant, "{word}");
        }
    }

    #[test]
    fn a_word_means_what_its_place_can_hold() {
        let as_text = |value: &Stored| match value {
            Stored::Str(_) => Ok(value.clone()),
            other => Err(format!("{other} is no text")),
        };
        assert_eq!(normal(&json!({ "word": "80" }), as_text), Ok(Stored::from("80")));
        assert_eq!(normal(&json!(80), as_text), Err("80 is no text".to_owned()));
        let nothing = |value: &Stored| Err(format!("{value} is wrong"));
        assert_eq!(normal(&json!({ "word": "80" }), nothing), Err("80 is wrong".to_owned()));
    }

    #[test]
    fn what_is_no_value_is_refused_with_its_text() {
        for wrong in [r#"{"mac":"x"}"#, r#"{"a":1,"b":2}"#, r#"{"bytes":"0"}"#, r#"{"location":["1"]}"#, r#"{"ip":3}"#]
        {
            let error = stored(&serde_json::from_str(wrong).expect("JSON")).expect_err(wrong);
            assert!(error.contains(wrong), "{error}");
        }
    }
}
