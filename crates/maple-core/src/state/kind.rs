//! The types of values that tables and variables are declared to hold.
//!
//! A declaration is part of the state, so every writer is held to it. It never changes once it is there, and whether a
//! value fits is a function of the value alone: no run depends on it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::gate::Gate;
use super::names::outside_of_slices;
use super::nesting_limit::nested;
use super::{Float, Name, Value, Write};

/// A type of values.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Kind {
    /// All values.
    Any,
    /// Nothing.
    None,
    /// Truth values.
    Bool,
    /// Integers.
    Int,
    /// Floating-point numbers.
    Float,
    /// Text.
    Str,
    /// Bytes.
    Bytes,
    /// Hardware addresses.
    Mac,
    /// IP addresses of both versions.
    Ip,
    /// IPv4 addresses.
    Ipv4,
    /// IPv6 addresses.
    Ipv6,
    /// Switches.
    Switch,
    /// Ports of switches.
    Location,
    /// Values by key, of any type.
    Map,
    /// A fixed number of values, each of its own type.
    Tuple(#[serde(deserialize_with = "nested")] Arc<[Kind]>),
    /// Any number of values of a type.
    List(#[serde(deserialize_with = "nested")] Arc<Kind>),
    /// Values of a type, or nothing.
    Optional(#[serde(deserialize_with = "nested")] Arc<Kind>),
}

/// The types of a table.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Types {
    /// The type of its keys.
    pub key: Kind,
    /// The type of its values.
    pub value: Kind,
}

/// The error for a write that its place does not take: mostly a value that is not of the declared type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Mismatch {
    /// A key of a table has another type.
    #[error("the table {table} is declared with keys of type {kind}, and {value} is not one")]
    Key {
        /// The table.
        table: Name,
        /// The type of its keys.
        kind: Kind,
        /// The key.
        value: Value,
    },
    /// A value of a table has another type.
    #[error("the table {table} is declared with values of type {kind}, and {value} is not one")]
    Value {
        /// The table.
        table: Name,
        /// The type of its values.
        kind: Kind,
        /// The value.
        value: Value,
    },
    /// The value of a variable has another type.
    #[error("the variable {name} is declared with the type {kind}, and {value} is none of it")]
    Var {
        /// The variable.
        name: Name,
        /// The variable's type.
        kind: Kind,
        /// The value.
        value: Value,
    },
    /// No table and no variable can be written ([`super::Store::close`]), or the writes exceed what one commit may have
    /// ([`super::Store::open`]).
    #[error("{place} can't be written: {why}")]
    Closed {
        /// The table or variable.
        place: String,
        /// The reason.
        why: Arc<str>,
    },
}

/// The reason why a declaration is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeclareError {
    /// The place is already declared with another type.
    #[error("{place} is declared twice: with the type {before}, and with {now}")]
    Twice {
        /// The table or the variable.
        place: String,
        /// The type that it has.
        before: String,
        /// The type that it was to have.
        now: String,
    },
    /// The place already holds a value of another type.
    #[error("{0} already")]
    Holds(#[from] Mismatch),
    /// The value of the place would have to be converted, and is larger than can be written at once.
    #[error(transparent)]
    TooLarge(Mismatch),
    /// Two keys that the table holds become one by this declaration.
    #[error("the table {table} holds two values at the key {key}, which was spelled differently")]
    TwoSpellings {
        /// The table.
        table: Name,
        /// The key.
        key: Value,
    },
    /// The policy has looked up keys that the table cannot have.
    #[error(
        "{0}; the policy has asked for that key before it was declared: declare it where the policy's file makes it"
    )]
    Asked(Mismatch),
}

impl Kind {
    /// Converts a value to the form in which a place of this type keeps it. Text that spells an address becomes the
    /// address, and an integer becomes a floating-point number if those are kept. Returns `None` if the value is of
    /// another type.
    pub fn normalise(&self, value: &Value) -> Option<Value> {
        Some(match (self, value) {
            (Kind::Optional(_), Value::None) => Value::None,
            (Kind::Optional(kind), value) => kind.normalise(value)?,
            (Kind::Float, Value::Int(number)) => Value::Float(Float::new(*number as f64)),
            (Kind::Mac, Value::Str(text)) => Value::Mac(text.parse().ok()?),
            (Kind::Ipv4, Value::Str(text)) => Value::Ipv4(text.parse().ok()?),
            (Kind::Ipv6, Value::Str(text)) => Value::Ipv6(text.parse().ok()?),
            (Kind::Ip, Value::Str(_)) => Kind::Ipv4.normalise(value).or_else(|| Kind::Ipv6.normalise(value))?,
            (Kind::Switch, Value::Str(text)) => Value::Switch(text.parse().ok()?),
            (Kind::Location, Value::Str(text)) => Value::Location(text.parse().ok()?),
            (Kind::Tuple(kinds), Value::Tuple(items)) if kinds.len() == items.len() => {
                let parts = kinds.iter().zip(&**items).map(|(kind, item)| kind.normalise(item));
                Value::Tuple(parts.collect::<Option<_>>()?)
            }
            (Kind::List(kind), Value::Tuple(items)) => {
                Value::Tuple(items.iter().map(|item| kind.normalise(item)).collect::<Option<_>>()?)
            }
            (kind, value) if kind.is_of(value) => value.clone(),
            _ => return None,
        })
    }

    /// Converts a value to the form in which the variable `name` keeps it.
    ///
    /// # Errors
    /// [`Mismatch`] if the value is of another type.
    pub fn value(&self, name: &Name, value: &Value) -> Result<Value, Mismatch> {
        self.normalise(value).ok_or_else(|| no_value_of(name, self, value))
    }

    /// Reports whether a value without parts is of this type as it stands.
    fn is_of(&self, value: &Value) -> bool {
        matches!(
            (self, value),
            (Kind::Any, _)
                | (Kind::None, Value::None)
                | (Kind::Bool, Value::Bool(_))
                | (Kind::Int, Value::Int(_))
                | (Kind::Float, Value::Float(_))
                | (Kind::Str, Value::Str(_))
                | (Kind::Bytes, Value::Bytes(_))
                | (Kind::Mac, Value::Mac(_))
                | (Kind::Ip, Value::Ipv4(_) | Value::Ipv6(_))
                | (Kind::Ipv4, Value::Ipv4(_))
                | (Kind::Ipv6, Value::Ipv6(_))
                | (Kind::Switch, Value::Switch(_))
                | (Kind::Location, Value::Location(_))
                | (Kind::Map, Value::Map(_))
        )
    }

    /// Reports whether the value is of this type, in the form in which it is kept.
    pub fn admits(&self, value: &Value) -> bool {
        match (self, value) {
            (Kind::Optional(_), Value::None) => true,
            (Kind::Optional(kind), value) => kind.admits(value),
            (Kind::Tuple(kinds), Value::Tuple(items)) => {
                kinds.len() == items.len() && kinds.iter().zip(&**items).all(|(kind, item)| kind.admits(item))
            }
            (Kind::List(kind), Value::Tuple(items)) => items.iter().all(|item| kind.admits(item)),
            (kind, value) => kind.is_of(value),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Any => "any",
            Kind::None => "None",
            Kind::Bool => "bool",
            Kind::Int => "int",
            Kind::Float => "float",
            Kind::Str => "str",
            Kind::Bytes => "bytes",
            Kind::Mac => "Mac",
            Kind::Ip => "Ip",
            Kind::Ipv4 => "Ipv4",
            Kind::Ipv6 => "Ipv6",
            Kind::Switch => "switch",
            Kind::Location => "Location",
            Kind::Map => "dict",
            Kind::Tuple(kinds) => {
                let kinds: Vec<String> = kinds.iter().map(Kind::to_string).collect();
                return write!(f, "({})", kinds.join(", "));
            }
            Kind::List(kind) => return write!(f, "({kind}, ...)"),
            Kind::Optional(kind) => return write!(f, "{kind} | None"),
        })
    }
}

impl fmt::Display for Types {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} -> {}", self.key, self.value)
    }
}

impl Types {
    /// Converts a key to the form in which `table` keeps it.
    ///
    /// # Errors
    /// [`Mismatch`] if the key is of another type.
    pub fn key(&self, table: &Name, key: &Value) -> Result<Value, Mismatch> {
        self.key.normalise(key).ok_or_else(|| self.no_key(table, key))
    }

    /// Converts a value to the form in which `table` keeps it.
    ///
    /// # Errors
    /// [`Mismatch`] if the value is of another type.
    pub fn value(&self, table: &Name, value: &Value) -> Result<Value, Mismatch> {
        self.value.normalise(value).ok_or_else(|| self.no_value(table, value))
    }

    fn no_key(&self, table: &Name, key: &Value) -> Mismatch {
        Mismatch::Key { table: table.clone(), kind: self.key.clone(), value: key.clone() }
    }

    fn no_value(&self, table: &Name, value: &Value) -> Mismatch {
        Mismatch::Value { table: table.clone(), kind: self.value.clone(), value: value.clone() }
    }
}

/// All types that were declared.
#[derive(Clone, Default, Debug)]
pub(super) struct Declarations {
    tables: BTreeMap<Name, Arc<Types>>,
    vars: BTreeMap<Name, Arc<Kind>>,
    /// Whether tables and variables can be written.
    pub gate: Gate,
}

impl Declarations {
    /// Returns the types of a table. A table of a slice has those of the table with the same name outside of slices,
    /// unless it was declared itself.
    pub fn table(&self, name: &str) -> Option<&Arc<Types>> {
        self.tables.get(name).or_else(|| self.tables.get(outside_of_slices(name)?))
    }

    /// Returns the types that this table itself was declared with.
    pub fn own_table(&self, name: &str) -> Option<&Arc<Types>> {
        self.tables.get(name)
    }

    /// Returns the type that this variable itself was declared with.
    pub fn own_var(&self, name: &str) -> Option<&Arc<Kind>> {
        self.vars.get(name)
    }

    /// Returns the type of a variable. A variable of a slice has that of the variable with the same name outside of
    /// slices, unless it was declared itself.
    pub fn var(&self, name: &str) -> Option<&Arc<Kind>> {
        self.vars.get(name).or_else(|| self.vars.get(outside_of_slices(name)?))
    }

    pub fn put_table(&mut self, name: &Name, types: &Arc<Types>) {
        self.tables.insert(name.clone(), Arc::clone(types));
    }

    pub fn put_var(&mut self, name: &Name, kind: &Arc<Kind>) {
        self.vars.insert(name.clone(), Arc::clone(kind));
    }

    /// Returns the writes that make these declarations in another store.
    pub fn writes(&self) -> impl Iterator<Item = Write> + '_ {
        let table =
            |(table, types): (&Name, &Arc<Types>)| Write::Types { table: table.clone(), types: Arc::clone(types) };
        let var = |(name, kind): (&Name, &Arc<Kind>)| Write::Kind { name: name.clone(), kind: Arc::clone(kind) };
        self.tables.iter().map(table).chain(self.vars.iter().map(var))
    }

    /// Converts a write to the form in which its place keeps it; `None` if it has that form already.
    ///
    /// # Errors
    /// [`Mismatch`] if it puts a key or value of another type.
    pub fn normalise(&self, write: &Write) -> Result<Option<Write>, Mismatch> {
        match write {
            Write::Table { table, key, value } => match self.table(table) {
                Some(types) => {
                    let new_key = types.key(table, key)?;
                    let new_value = value.as_ref().map(|value| types.value(table, value)).transpose()?;
                    let is_same = new_key == *key && new_value == *value;
                    Ok((!is_same).then(|| Write::Table { table: table.clone(), key: new_key, value: new_value }))
                }
                None => Ok(None),
            },
            Write::Var { name, value: Some(value) } => match self.var(name) {
                Some(kind) => {
                    let normal = kind.value(name, value)?;
                    Ok((normal != *value).then(|| Write::Var { name: name.clone(), value: Some(normal) }))
                }
                None => Ok(None),
            },
            _ => Ok(None),
        }
    }

    /// Checks that the table can have this key.
    ///
    /// # Errors
    /// [`Mismatch`] if the key is not of the declared type.
    pub fn check_key(&self, table: &Name, key: &Value) -> Result<(), Mismatch> {
        match self.table(table) {
            Some(types) if !types.key.admits(key) => Err(types.no_key(table, key)),
            _ => Ok(()),
        }
    }

    /// Checks that the write puts what its place keeps.
    ///
    /// # Errors
    /// [`Mismatch`] if a key or value is not of the declared type.
    pub fn check(&self, write: &Write) -> Result<(), Mismatch> {
        match write {
            Write::Table { table, key, value } => {
                self.check_key(table, key)?;
                match (self.table(table), value) {
                    (Some(types), Some(value)) if !types.value.admits(value) => Err(types.no_value(table, value)),
                    _ => Ok(()),
                }
            }
            Write::Var { name, value: Some(value) } => match self.var(name) {
                Some(kind) if !kind.admits(value) => Err(no_value_of(name, kind, value)),
                _ => Ok(()),
            },
            Write::Add { name, .. } => match self.var(name) {
                Some(kind) if !matches!(**kind, Kind::Int | Kind::Any) => Err(no_value_of(name, kind, &Value::Int(0))),
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }
}

fn no_value_of(name: &Name, kind: &Kind, value: &Value) -> Mismatch {
    Mismatch::Var { name: name.clone(), kind: kind.clone(), value: value.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::from(text)
    }

    fn mac() -> Value {
        Value::Mac("00:00:0a:00:00:01".parse().expect("an address"))
    }

    #[test]
    fn an_address_in_any_spelling_is_the_address_and_other_text_is_none() {
        for spelling in ["00:00:0a:00:00:01", "00-00-0A-00-00-01", "0:0:a:0:0:1"] {
            assert_eq!(Kind::Mac.normalise(&text(spelling)), Some(mac()), "{spelling}");
        }
        for wrong in ["banana", "00:00:0a:00:00", "+0:00:0a:00:00:01"] {
            assert_eq!(Kind::Mac.normalise(&text(wrong)), None, "{wrong}");
        }
        assert_eq!(Kind::Ip.normalise(&text("fe80:0::1")), Kind::Ipv6.normalise(&text("fe80::1")));
        assert_eq!(Kind::Ipv4.normalise(&text("fe80::1")), None);
    }

    #[test]
    fn parts_are_normalised_and_none_may_be_missing() {
        let kind = Kind::Tuple([Kind::Mac, Kind::Optional(Kind::Float.into())].into());
        let pair = |second: Value| Value::Tuple([text("00-00-0a-00-00-01"), second].into());
        let normal = |second: Value| Some(Value::Tuple([mac(), second].into()));
        assert_eq!(kind.normalise(&pair(Value::Int(1))), normal(Value::from(1.0)));
        assert_eq!(kind.normalise(&pair(Value::None)), normal(Value::None));
        assert_eq!(kind.normalise(&pair(Value::Bool(true))), None);
        assert_eq!(kind.normalise(&Value::Tuple([mac()].into())), None);
        assert_eq!(kind.to_string(), "(Mac, float | None)");
    }

    #[test]
    fn normalised_values_are_admitted_and_normalise_to_themselves() {
        let kinds = [Kind::Any, Kind::Bool, Kind::Int, Kind::Float, Kind::Str, Kind::Mac, Kind::Ip, Kind::Switch];
        let lists = kinds.clone().map(|kind| Kind::List(kind.into()));
        let values =
            [Value::None, Value::Bool(true), Value::Int(7), Value::from(1.5), text("a"), text("10.0.0.1"), mac()];
        let tuples = values.clone().map(|value| Value::Tuple([value].into()));
        for kind in kinds.iter().chain(&lists) {
            for value in values.iter().chain(&tuples) {
                let Some(normal) = kind.normalise(value) else {
                    assert!(!kind.admits(value), "{kind}: {value}");
                    continue;
                };
                assert!(kind.admits(&normal), "{kind}: {value}");
                assert_eq!(kind.normalise(&normal), Some(normal), "{kind}: {value}");
            }
        }
    }
}
