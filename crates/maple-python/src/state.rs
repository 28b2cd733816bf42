//! Tables and variables, inside runs of the policy (where reads are dependencies and writes belong to the run's
//! transaction) and outside (where each use is a transaction of its own).

use std::collections::BTreeMap;
use std::sync::Arc;

use maple_core::network::{LinkName, Mac as CoreMac};
use maple_core::state::{
    Cell, CellValue, Commit, DeclareError, Float, Kind, Migrate, Name, RowMap, Store, Types, Value, Write, versioned,
};
use maple_wire::Dpid;
use pyo3::exceptions::{PyKeyError, PyOverflowError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};

use crate::address::{Ip, Mac};
use crate::field::FieldRef;
use crate::route::PyLocation;
use crate::told::described;
use crate::types::kind_of;
use crate::{current, host, source, thread, transaction};

/// A table of tracked state.
#[pyclass(frozen, generic, module = "maple")]
pub struct Table {
    name: Name,
    /// The types that this object declared.
    types: Option<Arc<Types>>,
}

/// A variable of tracked state.
#[pyclass(frozen, generic, module = "maple")]
pub struct Var {
    name: Name,
    default: Value,
    /// The type that this object declared.
    kind: Option<Arc<Kind>>,
}

impl Var {
    /// Returns the variable's cell, and its value while the cell is not set.
    pub fn cell_and_default(&self) -> (Cell, Value) {
        (Cell::Var(self.name.clone()), self.default.clone())
    }
}

/// A variable that is added to.
#[pyclass(frozen, module = "maple")]
pub struct Counter {
    name: Name,
}

/// Reads in the current run or transaction of this thread, or else the newest state.
pub fn read(cell: Cell) -> CellValue {
    match current::net() {
        Some(net) => net.read(cell),
        None => transaction::read(&cell).unwrap_or_else(|| cell.evaluate(&host::store().snapshot())),
    }
}

fn write(py: Python<'_>, writes: Vec<Write>) -> PyResult<()> {
    match current::net() {
        Some(net) => {
            let at = source::here(py);
            writes.into_iter().for_each(|w| net.write(w, at.clone()));
            Ok(())
        }
        None => match transaction::write(py, writes) {
            Some(writes) => {
                let written = thread::written(py, source::here(py));
                py.detach(|| host::publish(writes, written))
            }
            None => Ok(()),
        },
    }
}

/// A declaration: a change of the store.
type Declare<'a> = &'a (dyn Fn(&Store) -> Result<Commit, DeclareError> + Sync);

/// Declares a table or a variable, and makes it survive restarts if `persist` is set. A run declares nothing, and must
/// not set `persist`: a query runs in the middle of a commit, and can't ask the store for more.
fn made(py: Python<'_>, name: &str, persist: bool, declare: Declare<'_>) -> PyResult<()> {
    if current::net().is_some() {
        return if persist {
            Err(PyRuntimeError::new_err(format!("{name:?} is to be kept, so make it outside of the policy")))
        } else {
            Ok(())
        };
    }
    py.detach(|| {
        let commit = declare(&host::store()).map_err(|error| PyTypeError::new_err(error.to_string()))?;
        // A commit without changes converted no value, so no leaf has to be invalidated.
        if commit == Commit::default() { Ok(()) } else { host::acknowledge(commit) }
    })?;
    if persist && !py.detach(|| host::keep(name)) {
        return Err(PyRuntimeError::new_err(format!(
            "{name:?} must survive a restart; name a file for it with `maple run --state FILE`"
        )));
    }
    Ok(())
}

/// Declares a version of a table. Returns its name in the state.
fn declared_version(py: Python<'_>, table: &str, version: u32, migrate: Option<Bound<'_, PyAny>>) -> PyResult<Name> {
    if table.contains('#') {
        return Err(PyValueError::new_err(format!(
            "{table:?}: a name has no #, which stands before the version of a table: Table(…, version=2)"
        )));
    }
    if version == 0 {
        return Err(PyValueError::new_err(format!("Table({table:?}, version=0): versions are counted from 1")));
    }
    if let Some(migrate) = migrate.as_ref().filter(|migrate| !migrate.is_callable()) {
        let what = described(migrate);
        return Err(PyTypeError::new_err(format!(
            "Table({table:?}, migrate={what}): a function of the version and the rows that there are"
        )));
    }
    if version == 1 && migrate.is_some() {
        return Err(PyValueError::new_err(format!(
            "Table({table:?}, migrate=…): there is no version before 1; give version=2"
        )));
    }
    if current::net().is_none() {
        let migrate = migrate.map(|function| migration(function.unbind()));
        let declare = || host::store().declare_version(table, version, migrate);
        py.detach(declare).map_err(|error| PyValueError::new_err(error.to_string()))?;
    }
    Ok(versioned(table, version))
}

/// Returns the conversion of an earlier version's rows by this function.
fn migration(function: Py<PyAny>) -> Migrate {
    let call = move |version: u32, rows: RowMap| {
        Python::attach(|py| {
            let old = PyDict::new(py);
            rows.iter().try_for_each(|(key, value)| old.set_item(to_python(py, key)?, to_python(py, value)?))?;
            let new = function.bind(py).call1((version, old))?;
            let what = || PyTypeError::new_err(format!("it returned {} and not a dict of all rows", described(&new)));
            let new = new.cast::<PyDict>().map_err(|_| what())?;
            new.iter().map(|(key, value)| Ok((to_value(&key)?, to_value(&value)?))).collect::<PyResult<RowMap>>()
        })
    };
    Arc::new(move |version, rows| call(version, rows).map_err(|error| error.to_string()))
}

impl Table {
    /// Returns the types of the table, wherever they were declared.
    fn types(&self) -> Option<Arc<Types>> {
        if self.types.is_some() {
            return self.types.clone();
        }
        match current::net() {
            Some(net) => net.types(&self.name),
            None => transaction::looked_up(|txn| txn.types(&self.name).cloned())
                .unwrap_or_else(|| host::store().snapshot().types(&self.name).cloned()),
        }
    }

    /// Returns the table's name in the state.
    pub fn cell_name(&self) -> Name {
        self.name.clone()
    }

    /// Returns the key that an object means.
    ///
    /// # Errors
    /// `TypeError` if the object has another type than the table's keys, or can't be stored.
    pub fn key(&self, key: &Bound<'_, PyAny>) -> PyResult<Value> {
        match self.types().filter(|types| types.key != Kind::Any) {
            Some(types) => {
                types.key(&self.name, &to_value(key)?).map_err(|error| PyTypeError::new_err(error.to_string()))
            }
            None => to_key(key),
        }
    }

    /// Returns the key, or `None` for `None` (an absent field) if the table cannot have such a key.
    fn sought(&self, key: &Bound<'_, PyAny>) -> PyResult<Option<Value>> {
        let is_none = key.is_none() || FieldRef::value_of(key)?.is_some_and(|value| value.is_none());
        if is_none && self.types().is_some_and(|types| !types.key.admits(&Value::None)) {
            return Ok(None);
        }
        self.key(key).map(Some)
    }

    /// Returns the key and the value to store.
    fn entry(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<(Value, Value)> {
        let stored = to_value(value)?;
        let stored = match self.types() {
            Some(types) => types.value(&self.name, &stored).map_err(|error| PyTypeError::new_err(error.to_string()))?,
            None => stored,
        };
        Ok((self.key(key)?, stored))
    }

    /// Returns the key as it is stored, and its value.
    fn found(&self, key: &Bound<'_, PyAny>) -> PyResult<Option<(Value, Value)>> {
        let Some(key) = self.sought(key)? else { return Ok(None) };
        match read(Cell::Table(self.name.clone(), key.clone())) {
            CellValue::Value(Some(value)) => Ok(Some((key, value))),
            _ => Ok(None),
        }
    }

    fn value(&self, key: &Bound<'_, PyAny>) -> PyResult<Option<Value>> {
        Ok(self.found(key)?.map(|(_, value)| value))
    }

    fn all(&self) -> Vec<(Value, Value)> {
        match read(Cell::TableAll(self.name.clone())) {
            CellValue::Table(all) => all.iter().map(|(k, v)| (k.clone(), v.clone())).collect(),
            _ => Vec::new(),
        }
    }

    fn put(&self, key: Value, value: Option<Value>) -> Write {
        Write::Table { table: self.name.clone(), key, value }
    }
}

#[pymethods]
impl Table {
    #[new]
    #[pyo3(signature = (name, *, key = None, value = None, persist = false, version = 1, migrate = None))]
    fn new(
        py: Python<'_>,
        name: &str,
        key: Option<&Bound<'_, PyAny>>,
        value: Option<&Bound<'_, PyAny>>,
        persist: bool,
        version: u32,
        migrate: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Table> {
        let name = &*declared_version(py, name, version, migrate)?;
        let kind = |object: Option<&Bound<'_, PyAny>>, what: &str| {
            object.map_or(Ok(Kind::Any), |object| kind_of(object, &format!("Table({name:?}, {what}=…)")))
        };
        let types = (key.is_some() || value.is_some())
            .then(|| Ok::<_, PyErr>(Types { key: kind(key, "key")?, value: kind(value, "value")? }))
            .transpose()?;
        made(py, name, persist, &|store| match &types {
            Some(types) => store.declare_types(name, types.clone()),
            None => {
                store.declare_table(name);
                Ok(Commit::default())
            }
        })?;
        Ok(Table { name: name.into(), types: types.map(Arc::new) })
    }

    /// The name.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// The value at `key`, or `default`.
    #[pyo3(signature = (key, default = None))]
    fn get<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(match self.value(key)? {
            Some(value) => Some(to_python(key.py(), &value)?),
            None => default,
        })
    }

    /// Takes `key` away and returns its value, or `default`.
    #[pyo3(signature = (key, default = None))]
    fn pop<'py>(
        &self,
        key: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let Some((found, value)) = self.found(key)? else { return Ok(default) };
        write(key.py(), vec![self.put(found, None)])?;
        Ok(Some(to_python(key.py(), &value)?))
    }

    /// Sets the keys and values of `other` in one transaction.
    fn update(&self, other: &Bound<'_, PyDict>) -> PyResult<()> {
        let writes: PyResult<Vec<Write>> = other
            .iter()
            .map(|(key, value)| self.entry(&key, &value).map(|(key, value)| self.put(key, Some(value))))
            .collect();
        write(other.py(), writes?)
    }

    /// Makes the keys and values those of `other`, in one transaction. Equal ones are not written.
    fn replace(&self, other: &Bound<'_, PyDict>) -> PyResult<()> {
        let wanted =
            other.iter().map(|(key, value)| self.entry(&key, &value)).collect::<PyResult<BTreeMap<Value, Value>>>()?;
        let have: BTreeMap<Value, Value> = self.all().into_iter().collect();
        let gone = have.keys().filter(|key| !wanted.contains_key(key)).map(|key| self.put(key.clone(), None));
        let new = wanted.iter().filter(|(key, value)| have.get(key) != Some(value));
        let writes: Vec<Write> =
            gone.chain(new.map(|(key, value)| self.put(key.clone(), Some(value.clone())))).collect();
        if writes.is_empty() { Ok(()) } else { write(other.py(), writes) }
    }

    /// Takes all keys away, in one transaction.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        let writes: Vec<Write> = self.all().into_iter().map(|(key, _)| self.put(key, None)).collect();
        if writes.is_empty() { Ok(()) } else { write(py, writes) }
    }

    /// All keys.
    fn keys<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        self.all().iter().map(|(key, _)| to_python(py, key)).collect()
    }

    /// All values, in the order of their keys.
    fn values<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        self.all().iter().map(|(_, value)| to_python(py, value)).collect()
    }

    /// All pairs of key and value.
    fn items<'py>(&self, py: Python<'py>) -> PyResult<Vec<(Bound<'py, PyAny>, Bound<'py, PyAny>)>> {
        self.all().iter().map(|(key, value)| Ok((to_python(py, key)?, to_python(py, value)?))).collect()
    }

    fn __getitem__<'py>(&self, key: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        match self.value(key)? {
            Some(value) => to_python(key.py(), &value),
            None => Err(PyKeyError::new_err(key.clone().unbind())),
        }
    }

    fn __setitem__(&self, key: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let (stored_key, stored) = self.entry(key, value)?;
        write(key.py(), vec![self.put(stored_key, Some(stored))])
    }

    fn __delitem__(&self, key: &Bound<'_, PyAny>) -> PyResult<()> {
        let Some((found, _)) = self.found(key)? else { return Err(PyKeyError::new_err(key.clone().unbind())) };
        write(key.py(), vec![self.put(found, None)])
    }

    fn __contains__(&self, key: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(self.value(key)?.is_some())
    }

    fn __len__(&self) -> usize {
        match read(Cell::TableLen(self.name.clone())) {
            CellValue::Len(len) => len,
            _ => 0,
        }
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.keys(py)?.into_pyobject(py)?.call_method0("__iter__")
    }

    fn __repr__(&self) -> String {
        format!("Table({:?})", &*self.name)
    }
}

#[pymethods]
impl Var {
    #[new]
    #[pyo3(signature = (name, default = None, *, value = None, persist = false))]
    fn new(
        py: Python<'_>,
        name: &str,
        default: Option<&Bound<'_, PyAny>>,
        value: Option<&Bound<'_, PyAny>>,
        persist: bool,
    ) -> PyResult<Var> {
        let default = default.map(to_value).transpose()?.unwrap_or(Value::None);
        let kind = value.map(|object| kind_of(object, &format!("Var({name:?}, value=…)"))).transpose()?;
        let default = match &kind {
            Some(kind) => kind.normalise(&default).ok_or_else(|| {
                let hint = if default == Value::None { ": give another, or declare `value=… | None`" } else { "" };
                PyTypeError::new_err(format!("Var({name:?}): the default {default} is not of the type {kind}{hint}"))
            })?,
            None => default,
        };
        made(py, name, persist, &|store| {
            let declared = kind.as_ref().map_or(Ok(Commit::default()), |kind| store.declare_kind(name, kind.clone()));
            store.declare_var(name, default.clone());
            declared
        })?;
        Ok(Var { name: name.into(), default, kind: kind.map(Arc::new) })
    }

    /// The name.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// The value.
    #[getter]
    fn get_value<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match read(Cell::Var(self.name.clone())) {
            CellValue::Value(Some(value)) => to_python(py, &value),
            _ => to_python(py, &self.default),
        }
    }

    #[setter]
    fn set_value(&self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let stored = to_value(value)?;
        let stored = match self.kind.clone().or_else(|| declared_kind(&self.name)) {
            Some(kind) => kind.value(&self.name, &stored).map_err(|error| PyTypeError::new_err(error.to_string()))?,
            None => stored,
        };
        write(value.py(), vec![Write::Var { name: self.name.clone(), value: Some(stored) }])
    }

    fn __repr__(&self) -> String {
        format!("Var({:?})", &*self.name)
    }
}

#[pymethods]
impl Counter {
    #[new]
    #[pyo3(signature = (name, *, persist = false))]
    fn new(py: Python<'_>, name: &str, persist: bool) -> PyResult<Counter> {
        made(py, name, persist, &|store| {
            let declared = store.declare_kind(name, Kind::Int);
            store.declare_var(name, Value::from(0i64));
            declared
        })?;
        Ok(Counter { name: name.into() })
    }

    /// The name.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// Adds to it, without reading it.
    #[pyo3(signature = (amount = 1))]
    fn add(&self, py: Python<'_>, amount: i64) -> PyResult<()> {
        if let Some(kind) = declared_kind(&self.name) {
            kind.value(&self.name, &Value::from(amount)).map_err(|error| PyTypeError::new_err(error.to_string()))?;
        }
        write(py, vec![Write::Add { name: self.name.clone(), amount: i128::from(amount) }])
    }

    /// Its value: in a policy a dependency, which each addition changes.
    #[getter]
    fn value(&self) -> i128 {
        match read(Cell::Var(self.name.clone())) {
            CellValue::Value(Some(value)) => value.as_int().unwrap_or_default(),
            _ => 0,
        }
    }

    fn __repr__(&self) -> String {
        format!("Counter({:?})", &*self.name)
    }
}

/// Returns the type that a variable was declared with, wherever that was.
fn declared_kind(name: &Name) -> Option<Arc<Kind>> {
    match current::net() {
        Some(net) => net.kind(name),
        None => transaction::looked_up(|txn| txn.kind(name).cloned())
            .unwrap_or_else(|| host::store().snapshot().kind(name).cloned()),
    }
}

/// Sets the costs of links by a name. Other links cost 1.
#[pyfunction]
pub fn weights(py: Python<'_>, name: &str, costs: &Bound<'_, PyDict>) -> PyResult<()> {
    let mut writes = vec![Write::Weight(name.into())];
    for (link, cost) in costs.iter() {
        let cost: u64 = cost.extract().ok().filter(|cost| *cost > 0).ok_or_else(|| {
            PyValueError::new_err(format!(
                "weights({name:?}): the cost of {link} must be a positive number, not {cost}"
            ))
        })?;
        for link in link_names(&link, costs)? {
            writes.push(Write::Cost { name: name.into(), link, cost: Some(cost) });
        }
    }
    write(py, writes)
}

/// Returns the links that a key of `weights` means: one direction of one link by its `Location`, or all links between
/// two switches. These are meant in both directions, unless the other direction is given too.
fn link_names(link: &Bound<'_, PyAny>, costs: &Bound<'_, PyDict>) -> PyResult<Vec<LinkName>> {
    if let Some(at) = PyLocation::unpaired(link)? {
        return Ok(vec![LinkName::Port(at)]);
    }
    let Ok((a, b)) = link.extract::<(u64, u64)>() else {
        return Err(PyTypeError::new_err(format!(
            "weights(): a link is a pair of switches or a Location, not {}",
            described(link)
        )));
    };
    let mut names = vec![LinkName::Switches(Dpid(a), Dpid(b))];
    if !costs.contains((b, a))? {
        names.push(LinkName::Switches(Dpid(b), Dpid(a)));
    }
    Ok(names)
}

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
        Ok(Value::Location(location.get().location()))
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
fn to_key(object: &Bound<'_, PyAny>) -> PyResult<Value> {
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
