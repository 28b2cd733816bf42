//! Values that f keeps in tables and variables.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use maple_wire::Dpid;
use serde::{Deserialize, Serialize};

use super::nesting_limit::nested;
use crate::network::{Location, Mac};

/// A value in a table or variable, and a key of a table: ordered, hashable, and equal only to itself.
///
/// Two values of different variants are never equal (`Int(1)` is not `Bool(true)` nor `Float(1.0)`). A binding whose
/// language says otherwise must convert them to one form before it passes them here.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub enum Value {
    /// Nothing.
    #[default]
    None,
    /// A truth value.
    Bool(bool),
    /// An integer.
    Int(i128),
    /// A floating-point number.
    Float(Float),
    /// Text.
    Str(Arc<str>),
    /// Bytes.
    Bytes(Arc<[u8]>),
    /// A hardware address.
    Mac(Mac),
    /// An IPv4 address.
    Ipv4(Ipv4Addr),
    /// An IPv6 address.
    Ipv6(Ipv6Addr),
    /// A switch.
    Switch(Dpid),
    /// A port of a switch.
    Location(Location),
    /// Values in order.
    Tuple(#[serde(deserialize_with = "nested")] Arc<[Value]>),
    /// Values by key.
    Map(#[serde(deserialize_with = "nested")] Arc<BTreeMap<Value, Value>>),
}

/// A 64-bit floating-point number that is equal to itself bit by bit and ordered as `f64::total_cmp` says.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "f64", into = "f64")]
pub struct Float(u64);

impl Float {
    /// Creates a number; every NaN becomes the same one, and -0.0 becomes 0.0.
    #[must_use]
    pub fn new(number: f64) -> Float {
        let canonical = if number.is_nan() { f64::NAN } else { number + 0.0 };
        Float(canonical.to_bits())
    }

    /// Returns the number.
    #[must_use]
    pub fn get(self) -> f64 {
        f64::from_bits(self.0)
    }
}

impl From<f64> for Float {
    fn from(number: f64) -> Float {
        Float::new(number)
    }
}

impl From<Float> for f64 {
    fn from(number: Float) -> f64 {
        number.get()
    }
}

impl Value {
    /// Returns the integer, if it is one.
    #[must_use]
    pub fn as_int(&self) -> Option<i128> {
        match self {
            Value::Int(number) => Some(*number),
            _ => None,
        }
    }

    /// Reports whether the value takes no more than this many bytes. The answer takes no longer for a larger value.
    #[must_use]
    pub fn fits(&self, bytes: usize) -> bool {
        self.take_from(&mut { bytes })
    }

    /// Subtracts the value's size from `left`. Returns `false` if it is larger.
    fn take_from(&self, left: &mut usize) -> bool {
        let bytes = match self {
            Value::Str(text) => text.len(),
            Value::Bytes(bytes) => bytes.len(),
            _ => size_of::<Value>(),
        };
        let Some(rest) = left.checked_sub(bytes) else { return false };
        *left = rest;
        match self {
            Value::Tuple(all) => all.iter().all(|one| one.take_from(left)),
            Value::Map(all) => all.iter().all(|(key, value)| key.take_from(left) && value.take_from(left)),
            _ => true,
        }
    }
}

impl PartialOrd for Float {
    fn partial_cmp(&self, other: &Float) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Float {
    fn cmp(&self, other: &Float) -> std::cmp::Ordering {
        self.get().total_cmp(&other.get())
    }
}

impl fmt::Debug for Float {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.get())
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::None => f.write_str("None"),
            Value::Bool(v) => write!(f, "{v}"),
            Value::Int(v) => write!(f, "{v}"),
            Value::Float(v) => write!(f, "{v:?}"),
            Value::Str(v) => write!(f, "{v:?}"),
            Value::Bytes(v) => write!(f, "b{v:02x?}"),
            Value::Mac(v) => write!(f, "{v}"),
            Value::Ipv4(v) => write!(f, "{v}"),
            Value::Ipv6(v) => write!(f, "{v}"),
            Value::Switch(v) => write!(f, "{v}"),
            Value::Location(v) => write!(f, "{v}"),
            Value::Tuple(v) => {
                let mut tuple = f.debug_tuple("");
                v.iter().for_each(|item| {
                    tuple.field(item);
                });
                tuple.finish()
            }
            Value::Map(v) => f.debug_map().entries(v.iter()).finish(),
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

macro_rules! from {
    ($($type:ty => $make:expr),* $(,)?) => {
        $(impl From<$type> for Value {
            fn from(value: $type) -> Value {
                $make(value)
            }
        })*
    };
}

from! {
    bool => Value::Bool,
    i128 => Value::Int,
    i64 => |v| Value::Int(i128::from(v)),
    i32 => |v| Value::Int(i128::from(v)),
    u64 => |v| Value::Int(i128::from(v)),
    u32 => |v| Value::Int(i128::from(v)),
    f64 => |v| Value::Float(Float::new(v)),
    &str => |v: &str| Value::Str(v.into()),
    String => |v: String| Value::Str(v.into()),
    Mac => Value::Mac,
    Ipv4Addr => Value::Ipv4,
    Ipv6Addr => Value::Ipv6,
    Dpid => Value::Switch,
    Location => Value::Location,
    Vec<Value> => |v: Vec<Value>| Value::Tuple(v.into()),
    BTreeMap<Value, Value> => |v| Value::Map(Arc::new(v)),
}
