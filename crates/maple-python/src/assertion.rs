//! `pkt.matches(…)`: several conditions on a packet, asked as one test.

use maple_core::trace::{Cond, Range};
use maple_wire::field::VLAN_PRESENT;
use maple_wire::{Constraint, Field};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyRange, PyString};

use crate::address::{Family, Prefix};
use crate::error_text::described;
use crate::field::FieldRef;
use crate::kind::{FieldKind, largest, named, operand, to_raw};

/// The meaning of a keyword argument.
enum KeywordPart {
    Constraint(Constraint),
    Range(Range),
    /// No value: a range without numbers.
    Nothing,
}

/// Returns the conjunction that keyword arguments such as `ipv4_src="10.0.0.0/8", tcp_dst=range(1024, 2048)` mean.
/// `None` if no packet can fit one of them.
///
/// # Errors
/// `TypeError` without arguments, for an unknown field, or for a value of a wrong type; `ValueError` for a value that
/// the field can't have. Errors about a value name the field.
pub fn conjunction(fields: Option<&Bound<'_, PyDict>>) -> PyResult<Option<Cond>> {
    let fields = fields.filter(|fields| !fields.is_empty());
    let fields = fields.ok_or_else(|| PyTypeError::new_err("pkt.matches() needs a condition, such as tcp_dst=22"))?;
    let (mut cond, mut possible) = (Cond::default(), true);
    for (name, value) in fields {
        match part(named(&name, "pkt.matches()")?, &value)? {
            KeywordPart::Constraint(constraint) => cond = cond.and(constraint),
            KeywordPart::Range(range) => cond = cond.within(range),
            KeywordPart::Nothing => possible = false,
        }
    }
    Ok(possible.then_some(cond))
}

/// Returns the condition of a dictionary of fields, as in `@on(packet_in={…})`. An empty dictionary means all packets.
///
/// # Errors
/// The errors of [`conjunction`], and `ValueError` if no packet can match.
pub fn condition(fields: &Bound<'_, PyDict>) -> PyResult<Cond> {
    if fields.is_empty() {
        return Ok(Cond::default());
    }
    conjunction(Some(fields))?.ok_or_else(|| PyValueError::new_err(format!("no packet can be {fields}")))
}

fn part(field: Field, value: &Bound<'_, PyAny>) -> PyResult<KeywordPart> {
    if value.is_none() {
        return Err(PyTypeError::new_err(format!(
            "pkt.matches({field}=None) would ask for an absent field; ask `pkt.{field} == None` by itself"
        )));
    }
    if let Ok(other) = value.cast::<FieldRef>() {
        return Err(PyTypeError::new_err(format!(
            "pkt.matches({field}=…) takes values, not {}; compare two fields by themselves with ==",
            other.get().field()
        )));
    }
    if let Ok(range) = value.cast::<PyRange>() {
        return numbers(field, range);
    }
    match prefix(field, value)? {
        Some(prefix) => Ok(KeywordPart::Constraint(Constraint::masked(field, prefix.value, prefix.mask()))),
        None => {
            let value = operand(field, value).map_err(|error| hint(field, value, error))?;
            Ok(KeywordPart::Constraint(Constraint::exact(field, to_raw(field, value))))
        }
    }
}

/// Returns the prefix that a value is, or `None` if it is not one.
fn prefix(field: Field, value: &Bound<'_, PyAny>) -> PyResult<Option<Prefix>> {
    let is_text = |text: &Bound<'_, PyString>| text.to_cow().is_ok_and(|text| text.contains('/'));
    let is_prefix = value.is_instance_of::<Prefix>()
        || value.cast::<PyString>().is_ok_and(is_text)
        || value.hasattr(intern!(value.py(), "prefixlen"))?;
    let family = match FieldKind::from_field(field) {
        _ if !is_prefix => return Ok(None),
        FieldKind::Mac => Family::Mac,
        FieldKind::Ipv4 => Family::Ipv4,
        FieldKind::Ipv6 => Family::Ipv6,
        FieldKind::Number => {
            let what = format!("{field} is a number and has no prefixes; write {field}=range(first, last + 1)");
            return Err(PyTypeError::new_err(what));
        }
    };
    let prefix = Prefix::from_object(value)
        .map_err(|error| PyValueError::new_err(format!("{field}: {}", error.value(value.py()))))?;
    if prefix.family != family {
        return Err(PyTypeError::new_err(format!("{field} can't lie in {prefix}: that is of another kind")));
    }
    Ok(Some(prefix))
}

/// Returns the condition of `range(first, last + 1)`. Numbers that the field cannot have are cut off.
fn numbers(field: Field, range: &Bound<'_, PyRange>) -> PyResult<KeywordPart> {
    if FieldKind::from_field(field) != FieldKind::Number {
        return Err(PyTypeError::new_err(format!("{field} is an address, not in a range; write {field}=\"…/length\"")));
    }
    if range.getattr("step")?.ne(1)? {
        return Err(PyValueError::new_err(format!(
            "{field}: {} has a step; a range of values has none",
            range.repr()?
        )));
    }
    let end = |name: &str| range.getattr(name)?.extract::<i128>();
    let (first, last) = (end("start")?.max(0), (end("stop")? - 1).min(largest(field) as i128));
    if first > last {
        return Ok(KeywordPart::Nothing);
    }
    let (first, last) = (first as u128, last as u128);
    Ok(match field {
        _ if (first, last) != (0, largest(field)) => {
            KeywordPart::Range(Range { field, lo: to_raw(field, first), hi: to_raw(field, last) })
        }
        // A range of all values tests whether the field is present.
        Field::VlanVid => KeywordPart::Constraint(Constraint::masked(field, VLAN_PRESENT, VLAN_PRESENT)),
        _ => KeywordPart::Constraint(Constraint { field, value: 0, mask: 0 }),
    })
}

/// Replaces the error by a hint if the user gave several values.
fn hint(field: Field, value: &Bound<'_, PyAny>, error: PyErr) -> PyErr {
    if value.try_iter().is_err() || value.is_instance_of::<PyString>() {
        return error;
    }
    PyTypeError::new_err(format!(
        "pkt.matches({field}=…) takes one value, a prefix or a range, not {}; ask for each value by itself",
        described(value)
    ))
}
