//! Keys and values as people write them, by the types of their tables; and rows that a configuration declares.
//!
//! Values are JSON as in `state_json.rs`. `{"word": "…"}` is a word of a command line, or a key of a
//! configuration. It takes the type that the place was declared with; without a declared type it is JSON if it parses,
//! and otherwise text.

use maple_core::network::split_place;
use maple_core::state::{Name, Store, Value as Stored, Write};
use serde_json::{Value, json};

use crate::names::Names;
use crate::state_json::{from_json, parse_dpid};

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
    /// Whether the policy has declared the table or variable.
    pub fn is_declared(&self, store: &Store) -> bool {
        let (table, var) = (store.tables(), store.vars());
        if self.key.is_some() { table.contains(self.name.as_str()) } else { var.contains(self.name.as_str()) }
    }

    /// The write of this row, with the declared types.
    ///
    /// # Errors
    /// If the key or the value is not of its type.
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
    if let Some(types) = store.snapshot().types(table) {
        let table = table.into();
        return typed(key, names, |key| types.key(&table, key).map_err(|error| error.to_string()));
    }
    let plain = untyped(key)?;
    let Stored::Str(text) = &plain else { return Ok(plain) };
    let address = match store.example_key(table) {
        Some(Stored::Mac(_)) => text.parse().ok().map(Stored::Mac),
        Some(Stored::Ipv4(_)) => text.parse().ok().map(Stored::Ipv4),
        Some(Stored::Ipv6(_)) => text.parse().ok().map(Stored::Ipv6),
        Some(Stored::Switch(_)) => parse_dpid(text).ok().map(Stored::Switch),
        Some(Stored::Location(_)) => names.location(text).ok().map(Stored::Location),
        _ => None,
    };
    Ok(address.unwrap_or(plain))
}

/// Decodes a value of a table.
pub(super) fn value_of(store: &Store, names: &Names, table: &Name, value: &Value) -> Result<Stored, String> {
    match store.snapshot().types(table) {
        Some(types) => typed(value, names, |value| types.value(table, value).map_err(|error| error.to_string())),
        None => untyped(value),
    }
}

/// Decodes a value of a variable.
pub(super) fn var_of(store: &Store, names: &Names, name: &Name, value: &Value) -> Result<Stored, String> {
    let state = store.snapshot();
    typed(value, names, |value| state.normal_var(name, value.clone()).map_err(|error| error.to_string()))
}

/// Decodes a value of a declared type. A word is parsed as JSON if the result has that type; otherwise it is text. What is
/// no such value may be a name of one.
fn typed(
    value: &Value,
    names: &Names,
    normalise: impl Fn(&Stored) -> Result<Stored, String>,
) -> Result<Stored, String> {
    let plain = match word(value) {
        None => normalise(&from_json(value)?),
        Some(text) => {
            let as_json = untyped(value).and_then(|value| normalise(&value));
            as_json.or_else(|error| normalise(&Stored::from(text)).map_err(|_| error))
        }
    };
    let id = || names.id_of(word(value).or(value.as_str())?);
    plain.or_else(|error| id().and_then(|id| normalise(&Stored::from(id.as_str())).ok()).ok_or(error))
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
    if let Some((switch, port)) = word.strip_prefix("location:").and_then(split_place) {
        return json!({ "location": [switch, port.0] });
    }
    serde_json::from_str(word).unwrap_or_else(|_| Value::from(word))
}

#[cfg(test)]
mod tests {
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
            assert_eq!(interpret(word), expected, "{word}");
        }
    }

    #[test]
    fn a_word_takes_the_type_of_its_place() {
        let as_text = |value: &Stored| match value {
            Stored::Str(_) => Ok(value.clone()),
            other => Err(format!("{other} is no text")),
        };
        assert_eq!(typed(&json!({ "word": "80" }), &Names::new(), as_text), Ok(Stored::from("80")));
        assert_eq!(typed(&json!(80), &Names::new(), as_text), Err("80 is no text".to_owned()));
        let refuse = |value: &Stored| Err(format!("{value} is wrong"));
        assert_eq!(typed(&json!({ "word": "80" }), &Names::new(), refuse), Err("80 is wrong".to_owned()));
    }

    #[test]
    fn a_name_is_the_id_of_what_it_names_where_an_id_is_wanted() {
        let mut names = Names::new();
        let mac = maple_core::Mac([0, 0, 0, 0, 0, 1]);
        names.add("alice", Named::Host(mac)).expect("a name");
        let as_mac = |value: &Stored| match value {
            Stored::Str(text) => text.parse().map(Stored::Mac).map_err(|error| format!("{error}")),
            other => Err(format!("{other} is no address")),
        };
        for value in [json!({ "word": "alice" }), json!("alice")] {
            assert_eq!(typed(&value, &names, as_mac), Ok(Stored::Mac(mac)));
        }
        assert_eq!(
            typed(&json!("alice"), &names, |value| Ok(value.clone())),
            Ok(Stored::from("alice")),
            "of a table of text"
        );
        assert!(typed(&json!("bob"), &names, as_mac).is_err());
    }
}
