//! The types of tables and variables, as Python names them.

use maple_core::state::Kind;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::type_object::PyTypeInfo;
use pyo3::types::{PyBool, PyBytes, PyDict, PyEllipsis, PyFloat, PyInt, PyList, PyString, PyTuple, PyType};

use crate::address::{Ip, Mac};
use crate::error_text::described;
use crate::route::PyLocation;

/// Returns the type that this object names: a class, a tuple of types, `tuple[…]`, `list[…]`, or `… | None`. The error
/// mentions `what`.
///
/// # Errors
/// `TypeError` if the object names no type that tables and variables can have.
pub fn kind_of(object: &Bound<'_, PyAny>, what: &str) -> PyResult<Kind> {
    let py = object.py();
    let plain = [
        (PyBool::type_object(py), Kind::Bool),
        (PyInt::type_object(py), Kind::Int),
        (PyFloat::type_object(py), Kind::Float),
        (PyString::type_object(py), Kind::Str),
        (PyBytes::type_object(py), Kind::Bytes),
        (Mac::type_object(py), Kind::Mac),
        (Ip::type_object(py), Kind::Ip),
        (PyLocation::type_object(py), Kind::Location),
        (PyDict::type_object(py), Kind::Map),
    ];
    if let Some((_, kind)) = plain.into_iter().find(|(class, _)| object.is(class)) {
        return Ok(kind);
    }
    if let Ok(parts) = object.cast::<PyTuple>() {
        return tuple(parts, what);
    }
    // `X | None` has arguments, but its origin is not a class of its own.
    if let Ok(arguments) = object.getattr("__args__")
        && let Ok(arguments) = arguments.cast::<PyTuple>()
        && !arguments.is_empty()
    {
        let origin = object.getattr("__origin__").ok();
        let is = |class: Bound<'_, PyType>| origin.as_ref().is_some_and(|origin| origin.is(&class));
        if is(PyTuple::type_object(py)) {
            return tuple(arguments, what);
        }
        if is(PyList::type_object(py)) {
            return Ok(Kind::List(kind_of(&arguments.get_item(0)?, what)?.into()));
        }
        let none = py.None().into_bound(py).get_type();
        let others: Vec<_> = arguments.iter().filter(|argument| !argument.is(&none)).collect();
        if let [only] = others.as_slice()
            && arguments.len() == 2
        {
            return Ok(Kind::Optional(kind_of(only, what)?.into()));
        }
    }
    Err(PyTypeError::new_err(format!(
        "{what} is a type: Mac, Ip, Location, int, str, bool, float, bytes, dict, a tuple of types such as (Mac, int), \
         or one of these `| None`, not {}",
        described(object)
    )))
}

/// Returns the type of a tuple from the types of its parts. A single part followed by `...` means any number of them.
fn tuple(parts: &Bound<'_, PyTuple>, what: &str) -> PyResult<Kind> {
    if parts.len() == 2 && parts.get_item(1)?.is_instance_of::<PyEllipsis>() {
        return Ok(Kind::List(kind_of(&parts.get_item(0)?, what)?.into()));
    }
    let kinds = parts.iter().map(|part| kind_of(&part, what)).collect::<PyResult<Vec<_>>>()?;
    Ok(Kind::Tuple(kinds.into()))
}
