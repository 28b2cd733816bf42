//! Tables, variables and counters with Rust types, for policies, handlers and background threads alike.

use std::marker::PhantomData;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use maple_wire::Dpid;

use super::{Access, Cell, CellValue, Kind, Name, Read, Types, Value, Write};
use crate::network::{Location, Mac};

/// A type whose values tables and variables can hold.
pub trait Stored: Sized {
    /// Converts the value to the form in which it is kept.
    fn to_value(&self) -> Value;

    /// Converts a kept value back; `None` if it is something else.
    fn from_value(value: &Value) -> Option<Self>;

    /// Returns the type with which tables and variables of it are declared.
    #[must_use]
    fn kind() -> Kind {
        Kind::Any
    }
}

/// A table of tracked state. Names are global: two tables of one name are one.
#[derive(Debug)]
pub struct Table<K, V> {
    name: Name,
    types: PhantomData<fn(K) -> V>,
}

/// A variable of tracked state.
#[derive(Clone, Debug)]
pub struct Var<V> {
    name: Name,
    initial: V,
}

/// A variable that is added to. An addition does not read the sum, so additions never conflict.
#[derive(Clone, Debug)]
pub struct Counter {
    name: Name,
}

/// The error for a cell that holds something which its table or variable cannot hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place} holds {value}, which is not of type {wanted}")]
pub struct WrongType {
    /// The table with the key, or the variable.
    pub place: String,
    /// The value that is there.
    pub value: Value,
    /// The Rust type that was asked for.
    pub wanted: &'static str,
}

impl<K: Stored, V: Stored> Table<K, V> {
    /// Creates a handle to the table of this name.
    #[must_use]
    pub fn new(name: &str) -> Table<K, V> {
        Table { name: name.into(), types: PhantomData }
    }

    /// Creates a handle to version `version` of the table of this name. Its rows have another shape than those of
    /// earlier versions ([`super::versioned`]).
    #[must_use]
    pub fn versioned(name: &str, version: u32) -> Table<K, V> {
        Table { name: super::versioned(name, version), types: PhantomData }
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the types of its keys and values, for [`crate::state::Store::declare_types`].
    #[must_use]
    pub fn types() -> Types {
        Types { key: K::kind(), value: V::kind() }
    }

    /// Returns the value at `key`.
    ///
    /// # Panics
    /// If the value is not a `V`: others can write tables too. [`Table::try_get`] returns an error instead. Also if the
    /// table is declared with keys of another type. In a policy a panic is an error of this packet.
    #[track_caller]
    pub fn get(&self, state: &impl Read, key: &K) -> Option<V> {
        self.try_get(state, key).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Returns the value at `key`.
    ///
    /// # Errors
    /// [`WrongType`] if the value is not a `V`.
    ///
    /// # Panics
    /// If the table is declared with keys of another type.
    #[track_caller]
    pub fn try_get(&self, state: &impl Read, key: &K) -> Result<Option<V>, WrongType> {
        let key = key.to_value();
        let Some(value) = state.at(&self.name, &key) else { return Ok(None) };
        V::from_value(&value).map(Some).ok_or_else(|| wrong::<V>(format!("{}[{key}]", self.name), value))
    }

    /// Reports whether there is a value at `key`.
    ///
    /// # Panics
    /// If the table is declared with keys of another type.
    #[track_caller]
    pub fn contains(&self, state: &impl Read, key: &K) -> bool {
        state.at(&self.name, &key.to_value()).is_some()
    }

    /// Returns the number of keys.
    #[track_caller]
    pub fn len(&self, state: &impl Read) -> usize {
        match state.cell(Cell::TableLen(self.name.clone())) {
            CellValue::Len(len) => len,
            _ => 0,
        }
    }

    /// Reports whether there are no keys.
    #[track_caller]
    pub fn is_empty(&self, state: &impl Read) -> bool {
        self.len(state) == 0
    }

    /// Returns all keys and values, by key. They are a dependency on the whole table.
    ///
    /// # Panics
    /// If a key is not a `K`, or a value is not a `V`.
    #[track_caller]
    pub fn entries(&self, state: &impl Read) -> Vec<(K, V)> {
        let CellValue::Table(all) = state.cell(Cell::TableAll(self.name.clone())) else { return Vec::new() };
        let key = |key: &Value| K::from_value(key).ok_or_else(|| wrong::<K>(self.name.to_string(), key.clone()));
        let value =
            |value: &Value| V::from_value(value).ok_or_else(|| wrong::<V>(self.name.to_string(), value.clone()));
        let entry = |(k, v)| Ok((key(k)?, value(v)?));
        all.iter().map(entry).collect::<Result<_, WrongType>>().unwrap_or_else(|error| panic!("{error}"))
    }

    /// Puts a value at `key`.
    ///
    /// # Panics
    /// If the table is declared with other types.
    #[track_caller]
    pub fn set(&self, state: &impl Access, key: &K, value: &V) {
        state.put(Write::Table { table: self.name.clone(), key: key.to_value(), value: Some(value.to_value()) });
    }

    /// Removes `key`.
    ///
    /// # Panics
    /// If the table is declared with keys of another type.
    #[track_caller]
    pub fn delete(&self, state: &impl Access, key: &K) {
        state.put(Write::Table { table: self.name.clone(), key: key.to_value(), value: None });
    }
}

impl<V: Stored + Clone> Var<V> {
    /// Creates a handle to the variable of this name, which is `initial` until it is set.
    pub fn new(name: &str, initial: V) -> Var<V> {
        Var { name: name.into(), initial }
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the value until it is set.
    pub fn initial(&self) -> &V {
        &self.initial
    }

    /// Returns the value.
    ///
    /// # Panics
    /// If the value that is there is not a `V`.
    #[track_caller]
    pub fn get(&self, state: &impl Read) -> V {
        match state.cell(Cell::Var(self.name.clone())) {
            CellValue::Value(Some(value)) => {
                V::from_value(&value).unwrap_or_else(|| panic!("{}", wrong::<V>(self.name.to_string(), value)))
            }
            _ => self.initial.clone(),
        }
    }

    /// Sets the variable.
    ///
    /// # Panics
    /// If the variable is declared with another type.
    #[track_caller]
    pub fn set(&self, state: &impl Access, value: &V) {
        state.put(Write::Var { name: self.name.clone(), value: Some(value.to_value()) });
    }
}

impl Counter {
    /// Creates a handle to the counter of this name, which starts at 0.
    #[must_use]
    pub fn new(name: &str) -> Counter {
        Counter { name: name.into() }
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Adds to the counter, without learning the sum.
    ///
    /// # Panics
    /// If a variable of this name is declared with a type other than an integer.
    #[track_caller]
    pub fn add(&self, state: &impl Access, amount: i128) {
        state.put(Write::Add { name: self.name.clone(), amount });
    }

    /// Returns the sum. It is a dependency, which each addition changes.
    #[track_caller]
    pub fn get(&self, state: &impl Read) -> i128 {
        match state.cell(Cell::Var(self.name.clone())) {
            CellValue::Value(Some(value)) => value.as_int().unwrap_or_default(),
            _ => 0,
        }
    }
}

impl<K, V> Clone for Table<K, V> {
    fn clone(&self) -> Table<K, V> {
        Table { name: self.name.clone(), types: PhantomData }
    }
}

fn wrong<T>(place: String, value: Value) -> WrongType {
    WrongType { place, value, wanted: std::any::type_name::<T>() }
}

macro_rules! stored {
    ($($type:ty => $variant:ident),* $(,)?) => {
        $(impl Stored for $type {
            fn kind() -> Kind {
                Kind::$variant
            }

            fn to_value(&self) -> Value {
                Value::from(self.clone())
            }

            fn from_value(value: &Value) -> Option<$type> {
                match value {
                    Value::$variant(inner) => inner.clone().try_into().ok(),
                    _ => None,
                }
            }
        })*
    };
}

stored! {
    bool => Bool,
    i128 => Int,
    i64 => Int,
    i32 => Int,
    u64 => Int,
    u32 => Int,
    Mac => Mac,
    Ipv4Addr => Ipv4,
    Ipv6Addr => Ipv6,
    Dpid => Switch,
    Location => Location,
}

impl Stored for () {
    fn kind() -> Kind {
        Kind::None
    }

    fn to_value(&self) -> Value {
        Value::None
    }

    fn from_value(value: &Value) -> Option<()> {
        (*value == Value::None).then_some(())
    }
}

impl Stored for Value {
    fn to_value(&self) -> Value {
        self.clone()
    }

    fn from_value(value: &Value) -> Option<Value> {
        Some(value.clone())
    }
}

impl Stored for f64 {
    fn kind() -> Kind {
        Kind::Float
    }

    fn to_value(&self) -> Value {
        Value::from(*self)
    }

    fn from_value(value: &Value) -> Option<f64> {
        match value {
            Value::Float(number) => Some(number.get()),
            _ => None,
        }
    }
}

impl Stored for String {
    fn kind() -> Kind {
        Kind::Str
    }

    fn to_value(&self) -> Value {
        Value::from(self.as_str())
    }

    fn from_value(value: &Value) -> Option<String> {
        match value {
            Value::Str(text) => Some(text.to_string()),
            _ => None,
        }
    }
}

impl Stored for Arc<str> {
    fn kind() -> Kind {
        Kind::Str
    }

    fn to_value(&self) -> Value {
        Value::Str(self.clone())
    }

    fn from_value(value: &Value) -> Option<Arc<str>> {
        match value {
            Value::Str(text) => Some(text.clone()),
            _ => None,
        }
    }
}

impl<T: Stored> Stored for Vec<T> {
    fn kind() -> Kind {
        Kind::List(T::kind().into())
    }

    fn to_value(&self) -> Value {
        Value::Tuple(self.iter().map(Stored::to_value).collect())
    }

    fn from_value(value: &Value) -> Option<Vec<T>> {
        match value {
            Value::Tuple(items) => items.iter().map(T::from_value).collect(),
            _ => None,
        }
    }
}

impl<T: Stored> Stored for Option<T> {
    fn kind() -> Kind {
        Kind::Optional(T::kind().into())
    }

    fn to_value(&self) -> Value {
        self.as_ref().map_or(Value::None, Stored::to_value)
    }

    fn from_value(value: &Value) -> Option<Option<T>> {
        if *value == Value::None { Some(None) } else { T::from_value(value).map(Some) }
    }
}

impl<A: Stored, B: Stored> Stored for (A, B) {
    fn kind() -> Kind {
        Kind::Tuple([A::kind(), B::kind()].into())
    }

    fn to_value(&self) -> Value {
        Value::Tuple([self.0.to_value(), self.1.to_value()].into())
    }

    fn from_value(value: &Value) -> Option<(A, B)> {
        match value {
            Value::Tuple(items) => match &**items {
                [a, b] => Some((A::from_value(a)?, B::from_value(b)?)),
                _ => None,
            },
            _ => None,
        }
    }
}
