//! The Python form of field values: numbers, MAC addresses and IP addresses.
//!
//! The core knows a field's value as a `u128`. A policy sees an `int`, a [`Mac`] or an [`Ip`], and `None` where the
//! packet has no such field. [`operand`] is the other direction: it accepts the values that a policy may compare a
//! field with.

use maple_wire::Field;
use maple_wire::field::{VLAN_PRESENT, ValueKind};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyInt, PyString};

use crate::address::{Ip, Mac};
use crate::error_text::described;

/// The Python type of a field's value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FieldKind {
    /// An `int`.
    Number,
    /// A [`Mac`].
    Mac,
    /// An [`Ip`] of version 4.
    Ipv4,
    /// An [`Ip`] of version 6.
    Ipv6,
}

impl FieldKind {
    /// Returns the kind of the values of `field`.
    pub const fn from_field(field: Field) -> FieldKind {
        match field.kind() {
            ValueKind::Mac => FieldKind::Mac,
            ValueKind::Ipv4 => FieldKind::Ipv4,
            ValueKind::Ipv6 => FieldKind::Ipv6,
            _ => FieldKind::Number,
        }
    }

    /// Returns the name of such a value in messages.
    const fn noun(self) -> &'static str {
        match self {
            FieldKind::Number => "a number",
            FieldKind::Mac => "a MAC address",
            FieldKind::Ipv4 => "an IPv4 address",
            FieldKind::Ipv6 => "an IPv6 address",
        }
    }

    /// Returns the Python object for `value`.
    ///
    /// # Errors
    /// The error of Python if it can't make the object.
    pub fn to_python<'py>(self, py: Python<'py>, value: u128) -> PyResult<Bound<'py, PyAny>> {
        Ok(match self {
            FieldKind::Number => value.into_pyobject(py)?.into_any(),
            FieldKind::Mac => Mac::cached(py, value as u64)?.into_any(),
            FieldKind::Ipv4 => Ip::cached(py, Ip::v4(value as u32))?.into_any(),
            FieldKind::Ipv6 => Ip::cached(py, Ip::v6(value))?.into_any(),
        })
    }
}

/// Returns the largest value that a policy can see in `field`. The presence bit of `vlan_vid` is not shown.
pub const fn largest(field: Field) -> u128 {
    match field {
        Field::VlanVid => 0xfff,
        _ => field.full_mask(),
    }
}

/// Returns the core's form of a policy's value: `vlan_vid` gets its presence bit.
pub const fn to_raw(field: Field, value: u128) -> u128 {
    match field {
        Field::VlanVid => value | VLAN_PRESENT,
        _ => value,
    }
}

/// Returns the policy's form of the core's value. `None` for the `vlan_vid` of a packet without a tag.
pub fn from_raw(field: Field, raw: u128) -> Option<u128> {
    match field {
        Field::VlanVid => (raw & VLAN_PRESENT != 0).then_some(raw & 0xfff),
        _ => Some(raw),
    }
}

/// Returns the field of this name. The error mentions the function `what`.
///
/// # Errors
/// `TypeError` if there is no such field.
pub fn named(name: &Bound<'_, PyAny>, what: &str) -> PyResult<Field> {
    // Names in a program have a stored hash, so a dictionary costs less than comparing texts.
    static FIELDS: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
    let py = name.py();
    let fields = FIELDS.get_or_try_init(py, || {
        let fields = PyDict::new(py);
        for field in Field::ALL {
            fields.set_item(PyString::intern(py, field.name()), field.oxm())?;
        }
        PyResult::Ok(fields.unbind())
    })?;
    if let Ok(name) = name.cast::<PyString>()
        && let Some(number) = fields.bind(py).get_item(name)?
        && let Some(field) = Field::from_oxm(number.extract()?)
    {
        return Ok(field);
    }
    let name: String = name.extract()?;
    Err(PyTypeError::new_err(format!("{what} got an unknown field {name:?}")))
}

/// Returns the explanation why a number with OpenFlow's presence bit is not a VLAN id. Empty for other numbers.
fn with_tag_bit(number: i128) -> String {
    match number {
        0x1000..=0x1fff => format!(": OpenFlow's bit 0x1000 is not part of the id, which is {}", number & 0xfff),
        _ => String::new(),
    }
}

/// Returns the number of `other`, which a policy compares `field` with or sets it to.
///
/// # Errors
/// `TypeError` if `other` has a wrong type, `ValueError` if it is a value that the field can't have; both name the
/// field.
pub fn operand(field: Field, other: &Bound<'_, PyAny>) -> PyResult<u128> {
    match FieldKind::from_field(field) {
        FieldKind::Number => {
            let number = signed_operand(field, other)?;
            u128::try_from(number).ok().filter(|n| *n <= largest(field)).ok_or_else(|| {
                let why = if field == Field::VlanVid { with_tag_bit(number) } else { String::new() };
                PyValueError::new_err(format!("{field} is 0 to {}; it can't be {other}{why}", largest(field)))
            })
        }
        FieldKind::Mac => Mac::from_object(other).map(|mac| u128::from(mac.0)).map_err(|e| refuse(field, other, e)),
        kind @ (FieldKind::Ipv4 | FieldKind::Ipv6) => {
            let ip = Ip::from_object(other).map_err(|e| refuse(field, other, e))?;
            if ip.is_v4() == (kind == FieldKind::Ipv4) {
                Ok(ip.number())
            } else {
                Err(PyValueError::new_err(format!("{field} is {}; it can't be {ip}", kind.noun())))
            }
        }
    }
}

/// Returns the number of `other` for an order comparison, in which it can lie outside the field's range.
///
/// # Errors
/// The errors of [`operand`], and `TypeError` for MAC addresses, which have no order.
pub fn bound(field: Field, other: &Bound<'_, PyAny>) -> PyResult<Bounded> {
    match FieldKind::from_field(field) {
        FieldKind::Number => Ok(match signed_operand(field, other)? {
            n if n < 0 => Bounded::Below,
            n if n as u128 > largest(field) => Bounded::Above,
            n => Bounded::At(n as u128),
        }),
        FieldKind::Mac => Err(PyTypeError::new_err(format!(
            "{field} is a MAC address, and these have no order; \
             to test some of its bits write {field} in Prefix(\"01:00:5e:00:00:00/25\")"
        ))),
        FieldKind::Ipv4 | FieldKind::Ipv6 => operand(field, other).map(Bounded::At),
    }
}

/// A limit, relative to the range of values that a field can have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bounded {
    /// Below all values.
    Below,
    /// One of the values.
    At(u128),
    /// Above all values.
    Above,
}

fn signed_operand(field: Field, other: &Bound<'_, PyAny>) -> PyResult<i128> {
    let Ok(number) = other.cast::<PyInt>() else {
        let what = if other.is_instance_of::<PyString>() { other.repr()?.to_string() } else { described(other) };
        return Err(PyTypeError::new_err(format!(
            "{field} is a number from 0 to {}; it can't be compared with {what}",
            largest(field)
        )));
    };
    // A number of more than 128 bits is outside every field's range, on the side of its sign.
    number.extract().or_else(|_| Ok(if number.lt(0)? { i128::MIN } else { i128::MAX }))
}

/// Adds the field to the error of a conversion.
fn refuse(field: Field, other: &Bound<'_, PyAny>, error: PyErr) -> PyErr {
    let py = other.py();
    let noun = FieldKind::from_field(field).noun();
    if error.is_instance_of::<PyTypeError>(py) {
        PyTypeError::new_err(format!("{field} is {noun}; it can't be compared with {}", described(other)))
    } else {
        PyValueError::new_err(format!("{field} is {noun}: {}", error.value(py)))
    }
}
