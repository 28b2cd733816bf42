//! Keys and values as people write them, by the types of their tables; and rows that a configuration declares.
//!
//! Values are JSON as in `storage/state_json.rs`. `{"word": "…"}` is a word of a command line, or a key of a
//! configuration. It takes the type that the place was declared with; without a declared type it is JSON if it parses,
//! and otherwise text.

use maple_core::network::{HostInfo, split_place};
use maple_core::state::{Name, Snapshot, Store, Value as Stored, Write};
use serde_json::{Value, json};

use crate::names::Names;
use crate::storage::{from_json, parse_dpid};

/// A row of a table, or the value of a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The table or the variable.
    pub name: String,
    /// The key as text; `None` for a variable.
    pub key: Option<String>,
    /// The value.
    pub value: Value,
}

impl Row {
    /// Reports whether the policy has declared the table or variable.
    pub fn is_declared(&self, store: &Store) -> bool {
        let (table, var) = (store.tables(), store.vars());
        if self.key.is_some() { table.contains(self.name.as_str()) } else { var.contains(self.name.as_str()) }
    }

    /// Returns the write of this row, with the declared types.
    ///
    /// # Errors
    /// A text that says what is wrong, if the key or the value does not have its type.
    pub fn write(&self, store: &Store, names: &Names) -> Result<Write, String> {
        let name: Name = self.name.as_str().into();
        Ok(match &self.key {
            None => Write::Var { value: Some(var_of(store, names, &name, &self.value)?), name },
            Some(key) => {
                let key = key_of(store, names, &self.name, &json!({ "word": key }))?;
                Write::Table { key, value: Some(value_of(store, names, &name, &self.value)?), table: name }
            }
        })
    }
}

/// Decodes a key. It takes the table's declared type. In a table without a declared type, text becomes an address if
/// the table's other keys are addresses.
pub(super) fn key_of(store: &Store, names: &Names, table: &str, key: &Value) -> Result<Stored, String> {
    let ids = |text: &str| ids_of(names, &store.snapshot(), text);
    if let Some(types) = store.snapshot().types(table) {
        let table = table.into();
        return typed(key, &ids, |key| types.key(&table, key).map_err(|error| error.to_string()));
    }
    let plain = untyped(key, names)?;
    let (Stored::Str(text), Some(example)) = (&plain, store.example_key(table)) else { return Ok(plain) };
    let named = || only(ids(text).iter().filter_map(|id| like(&example, id))).ok();
    let address = like(&example, text).or_else(named);
    Ok(address.unwrap_or(plain))
}

/// Parses an address of the kind of an example.
fn like(example: &Stored, text: &str) -> Option<Stored> {
    match example {
        Stored::Mac(_) => text.parse().ok().map(Stored::Mac),
        Stored::Ipv4(_) => text.parse().ok().map(Stored::Ipv4),
        Stored::Ipv6(_) => text.parse().ok().map(Stored::Ipv6),
        Stored::Switch(_) => parse_dpid(text).ok().map(Stored::Switch),
        Stored::Location(_) => text.parse().ok().map(Stored::Location),
        _ => None,
    }
}

/// Decodes a value of a table.
pub(super) fn value_of(store: &Store, names: &Names, table: &Name, value: &Value) -> Result<Stored, String> {
    let state = store.snapshot();
    let ids = |text: &str| ids_of(names, &state, text);
    match state.types(table) {
        Some(types) => typed(value, &ids, |value| types.value(table, value).map_err(|error| error.to_string())),
        None => untyped(value, names),
    }
}

/// Decodes a value of a variable.
pub(super) fn var_of(store: &Store, names: &Names, name: &Name, value: &Value) -> Result<Stored, String> {
    let state = store.snapshot();
    let ids = |text: &str| ids_of(names, &state, text);
    typed(value, &ids, |value| state.normal_var(name, value.clone()).map_err(|error| error.to_string()))
}

/// Decodes a value of a declared type. A word is parsed as JSON if the result has that type; otherwise it is text. A
/// text that is not such a value may be the name of one.
fn typed(
    value: &Value,
    ids: &dyn Fn(&str) -> Vec<String>,
    normalise: impl Fn(&Stored) -> Result<Stored, String>,
) -> Result<Stored, String> {
    let text = word(value).or(value.as_str());
    let plain = match word(value) {
        None => normalise(&from_json(value)?),
        Some(text) => {
            let as_json = untyped(value, &Names::new()).and_then(|value| normalise(&value));
            as_json.or_else(|error| normalise(&Stored::from(text)).map_err(|_| error))
        }
    };
    plain.or_else(|error| {
        let ids = text.map(ids).unwrap_or_default();
        let named = ids.iter().filter_map(|id| normalise(&Stored::from(id.as_str())).ok());
        only(named).map_err(|several| several.unwrap_or(error))
    })
}

/// Returns the only value. Without any, the error is `None`; with several, it names them.
fn only(values: impl Iterator<Item = Stored>) -> Result<Stored, Option<String>> {
    let mut values: Vec<Stored> = values.collect();
    match (values.pop(), values.as_slice()) {
        (Some(one), []) => Ok(one),
        (None, _) => Err(None),
        (Some(last), others) => {
            let others: Vec<String> = others.iter().map(ToString::to_string).collect();
            Err(Some(format!("this has more than one address: {} and {last}", others.join(", "))))
        }
    }
}

/// Returns the ids of what has this name, as text. For a host, these are its hardware address and its known IP
/// addresses.
fn ids_of(names: &Names, state: &Snapshot, text: &str) -> Vec<String> {
    let info = names.host(text).ok().and_then(|mac| state.host(mac));
    let addresses = info.into_iter().flat_map(HostInfo::addresses).map(|ip| ip.to_string());
    names.id_of(text).into_iter().chain(addresses).collect()
}

/// Decodes a value without a declared type.
fn untyped(value: &Value, names: &Names) -> Result<Stored, String> {
    from_json(&word(value).map_or_else(|| value.clone(), |word| interpret(word, names)))
}

/// Returns the word of a command line, if the value is one.
fn word(value: &Value) -> Option<&str> {
    value.as_object().filter(|members| members.len() == 1)?.get("word")?.as_str()
}

/// Interprets a word without a declared type.
fn interpret(word: &str, names: &Names) -> Value {
    for kind in ["mac", "ip", "switch"] {
        if let Some(rest) = word.strip_prefix(kind).and_then(|rest| rest.strip_prefix(':')) {
            let id = names.id_of(rest).filter(|_| kind != "ip");
            return json!({ kind: id.as_deref().unwrap_or(rest) });
        }
    }
    if let Some((switch, port)) = word.strip_prefix("location:").and_then(split_place) {
        let id = names.id_of(switch);
        return json!({ "location": [id.as_deref().unwrap_or(switch), port.0] });
    }
    serde_json::from_str(word).unwrap_or_else(|_| Value::from(word))
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::sync::Arc;

    use maple_core::network::{Location, Mac};
    use maple_wire::{Dpid, PortNo};

    use super::*;
    use crate::names::Named;

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
            ("location:1:LOCAL", json!({ "location": ["1", 0xffff_fffe_u32] })),
            ("[1,2]", json!([1, 2])),
        ] {
            assert_eq!(interpret(word, &Names::new()), expected, "{word}");
        }
    }

    #[test]
    fn a_word_takes_the_type_of_its_place() {
        let no_ids = |_: &str| Vec::new();
        let as_text = |value: &Stored| match value {
            Stored::Str(_) => Ok(value.clone()),
            other => Err(format!("{other} is not text")),
        };
        assert_eq!(typed(&json!({ "word": "80" }), &no_ids, as_text), Ok(Stored::from("80")));
        assert_eq!(typed(&json!(80), &no_ids, as_text), Err("80 is not text".to_owned()));
        let refuse = |value: &Stored| Err(format!("{value} is wrong"));
        assert_eq!(typed(&json!({ "word": "80" }), &no_ids, refuse), Err("80 is wrong".to_owned()));
    }

    /// Creates a network in which the host alice has an IPv4 and an IPv6 address, with names for it and its switch.
    fn network() -> (Arc<Store>, Names) {
        let mut names = Names::new();
        names.add("alice", Named::Host(Mac([0, 0, 0, 0, 0, 1]))).expect("a name");
        names.add("core1", Named::Switch(Dpid(0x1f))).expect("a name");
        let store = Store::new();
        let info = HostInfo {
            ipv4: [[10, 0, 0, 1].into()].into_iter().collect(),
            ipv6: ["fd00::1".parse().expect("an address")].into_iter().collect(),
            location: Location::new(Dpid(0x1f), PortNo(1)),
        };
        store.update(|_| vec![Write::Host { mac: Mac([0, 0, 0, 0, 0, 1]), info: Some(info) }]);
        (store, names)
    }

    #[test]
    fn a_name_is_the_id_of_what_it_names_where_an_id_is_wanted() {
        let (store, names) = network();
        let state = store.snapshot();
        let ids = |text: &str| ids_of(&names, &state, text);
        let like = |example: Stored| {
            move |value: &Stored| match value {
                Stored::Str(text) => super::like(&example, text).ok_or_else(|| format!("{text} is something else")),
                other => Err(format!("{other} is not an address")),
            }
        };
        let mac = Stored::Mac(Mac([0, 0, 0, 0, 0, 1]));
        for value in [json!({ "word": "alice" }), json!("alice")] {
            assert_eq!(typed(&value, &ids, like(mac.clone())), Ok(mac.clone()));
        }
        let (ipv4, ipv6) = (Stored::Ipv4([10, 0, 0, 1].into()), Stored::Ipv6("fd00::1".parse().expect("an address")));
        assert_eq!(typed(&json!("alice"), &ids, like(ipv4.clone())), Ok(ipv4));
        assert_eq!(typed(&json!("alice"), &ids, like(ipv6.clone())), Ok(ipv6));
        let switch = Stored::Switch(Dpid(0x1f));
        assert_eq!(typed(&json!("core1"), &ids, like(switch.clone())), Ok(switch));
        let at = Stored::Location(Location::new(Dpid(0x1f), PortNo(3)));
        assert_eq!(typed(&json!("core1:3"), &ids, like(at.clone())), Ok(at));
        assert_eq!(typed(&json!("alice"), &ids, |value| Ok(value.clone())), Ok(Stored::from("alice")), "in a text");
        assert!(typed(&json!("bob"), &ids, like(mac)).is_err());
        let any = |value: &Stored| {
            let ip = if let Stored::Str(text) = value { text.parse().ok() } else { None };
            match ip.ok_or("no address")? {
                IpAddr::V4(ip) => Ok(Stored::Ipv4(ip)),
                IpAddr::V6(ip) => Ok(Stored::Ipv6(ip)),
            }
        };
        let error = typed(&json!("alice"), &ids, any).expect_err("it has two");
        assert_eq!(error, "this has more than one address: 10.0.0.1 and fd00::1");
    }

    #[test]
    fn a_name_is_an_id_also_where_no_type_is_declared() {
        let (store, names) = network();
        let key = |table: &str, text: &str| key_of(&store, &names, table, &json!({ "word": text }));
        assert_eq!(key("first", "mac:alice"), Ok(Stored::Mac(Mac([0, 0, 0, 0, 0, 1]))));
        assert_eq!(key("first", "switch:core1"), Ok(Stored::Switch(Dpid(0x1f))));
        assert_eq!(key("first", "location:core1:3"), Ok(Stored::Location(Location::new(Dpid(0x1f), PortNo(3)))));
        assert_eq!(key("first", "alice"), Ok(Stored::from("alice")));
        for (table, text, example) in [
            ("macs", "alice", Stored::Mac(Mac([0, 0, 0, 0, 0, 1]))),
            ("ips", "alice", Stored::Ipv4([10, 0, 0, 1].into())),
            ("switches", "core1", Stored::Switch(Dpid(0x1f))),
            ("places", "core1:3", Stored::Location(Location::new(Dpid(0x1f), PortNo(3)))),
        ] {
            let row = Write::Table { table: table.into(), key: example.clone(), value: Some(Stored::Bool(true)) };
            store.update(|_| vec![row]);
            assert_eq!(key(table, text), Ok(example));
            assert_eq!(key(table, "bob"), Ok(Stored::from("bob")));
        }
    }
}
