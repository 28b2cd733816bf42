//! The stored form of Python objects: what tables, variables and queries hold.

use std::collections::BTreeMap;
use std::sync::Arc;

use maple_core::network::Mac as CoreMac;
use maple_core::state::{Float, Value};
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};

use crate::address::{Ip, Mac};
use crate::error_text::described;
use crate::field::FieldRef;
use crate::route::PyLocation;

/// Returns the stored form of a Python object.
///
/// # Errors
/// `TypeError` or `OverflowError` if the object can't be stored.
pub fn to_value(object: &Bound<'_, PyAny>) -> PyResult<Value> {
    if object.is_none() {
        return Ok(Value::None);
    }
    if let Some(plain) = FieldRef::value_of(object)? {
        return to_value(&plain);
    }
    if let Ok(truth) = object.cast::<PyBool>() {
        Ok(Value::Bool(truth.is_true()))
    } else if let Ok(number) = object.cast::<PyInt>() {
        let number =
            number.extract().map_err(|_| PyOverflowError::new_err("tables hold integers of up to 127 bits"))?;
        Ok(Value::Int(number))
    } else if let Ok(number) = object.cast::<PyFloat>() {
        Ok(Value::Float(Float::new(number.value())))
    } else if let Ok(text) = object.cast::<PyString>() {
        Ok(Value::Str(Arc::from(&*text.to_cow()?)))
    } else if let Ok(bytes) = object.cast::<PyBytes>() {
        Ok(Value::Bytes(Arc::from(bytes.as_bytes())))
    } else if let Ok(mac) = object.cast::<Mac>() {
        Ok(Value::Mac(CoreMac::from_bits(u128::from(mac.get().0))))
    } else if let Ok(ip) = object.cast::<Ip>() {
        Ok(match ip.get().0 {
            std::net::IpAddr::V4(ip) => Value::Ipv4(ip),
            std::net::IpAddr::V6(ip) => Value::Ipv6(ip),
        })
    } else if let Ok(location) = object.cast::<PyLocation>() {
        Ok(Value::Location(location.get().location(object.py())?))
    } else if let Ok(dict) = object.cast::<PyDict>() {
        let pairs = dict.iter().map(|(k, v)| Ok((to_key(&k)?, to_value(&v)?))).collect::<PyResult<BTreeMap<_, _>>>()?;
        Ok(Value::Map(Arc::new(pairs)))
    } else if object.is_instance_of::<PyTuple>() || object.is_instance_of::<PyList>() {
        let items = object.try_iter()?.map(|item| to_value(&item?)).collect::<PyResult<Vec<_>>>()?;
        Ok(Value::Tuple(items.into()))
    } else {
        Err(PyTypeError::new_err(format!(
            "tables and variables hold None, numbers, text, bytes, addresses, locations, tuples and dicts, not {}",
            described(object)
        )))
    }
}

/// Returns the stored form of a key. Objects that are equal in Python have one form: addresses are stored as text,
/// truth values and whole floats as integers.
///
/// # Errors
/// `TypeError` or `OverflowError` if the object can't be stored.
pub fn to_key(object: &Bound<'_, PyAny>) -> PyResult<Value> {
    Ok(canonical(to_value(object)?))
}

fn canonical(value: Value) -> Value {
    match value {
        Value::Bool(truth) => Value::Int(i128::from(truth)),
        Value::Float(f) if f.get().fract() == 0.0 && f.get().abs() < 1e30 => Value::Int(f.get() as i128),
        Value::Mac(mac) => Value::Str(mac.to_string().into()),
        Value::Ipv4(ip) => Value::Str(ip.to_string().into()),
        Value::Ipv6(ip) => Value::Str(ip.to_string().into()),
        Value::Tuple(items) => Value::Tuple(items.iter().cloned().map(canonical).collect()),
        other => other,
    }
}

/// Returns the Python object for a stored value.
///
/// # Errors
/// The error of Python if it can't make the object.
pub fn to_python<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::None => py.None().into_bound(py),
        Value::Bool(truth) => PyBool::new(py, *truth).to_owned().into_any(),
        Value::Int(number) => number.into_pyobject(py)?.into_any(),
        Value::Float(number) => PyFloat::new(py, number.get()).into_any(),
        Value::Str(text) => PyString::new(py, text).into_any(),
        Value::Bytes(bytes) => PyBytes::new(py, bytes).into_any(),
        Value::Mac(mac) => Mac::cached(py, mac.bits() as u64)?.into_any(),
        Value::Ipv4(ip) => Ip::cached(py, (*ip).into())?.into_any(),
        Value::Ipv6(ip) => Ip::cached(py, (*ip).into())?.into_any(),
        Value::Switch(dpid) => dpid.0.into_pyobject(py)?.into_any(),
        Value::Location(at) => Bound::new(py, PyLocation::from(*at))?.into_any(),
        Value::Tuple(items) => {
            let items = items.iter().map(|item| to_python(py, item)).collect::<PyResult<Vec<_>>>()?;
            PyTuple::new(py, items)?.into_any()
        }
        Value::Map(map) => {
            let dict = PyDict::new(py);
            for (key, value) in map.iter() {
                dict.set_item(to_python(py, key)?, to_python(py, value)?)?;
            }
            dict.into_any()
        }
    })
}
