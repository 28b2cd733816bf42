//! Tables and variables, inside runs of the policy (where reads are dependencies and writes belong to the run's
//! transaction) and outside (where each use is a transaction of its own).

use std::collections::BTreeMap;
use std::sync::Arc;

use maple_core::look_ups::{KeyField, KeyForm, LookUp};
use maple_core::policy::{Net, PacketHandle};
use maple_core::run::Observe as _;
use maple_core::state::{
    Cell, CellValue, Commit, DeclareError, Kind, Migrate, Name, RowMap, Store, Types, Value, Write, versioned,
};
use maple_wire::Field;
use pyo3::exceptions::{PyKeyError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::error_text::described;
use crate::field::FieldRef;
use crate::kind::FieldKind;
use crate::types::kind_of;
use crate::value::{to_key, to_python, to_value};
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

/// Writes in the current run or transaction of this thread, or else in a transaction of its own.
///
/// # Errors
/// The error of the transaction.
pub fn write(py: Python<'_>, writes: Vec<Write>) -> PyResult<()> {
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
        match self.look_up(key) {
            Some((net, look_up)) => Ok(net.look_up(&look_up, source::here(key.py()))),
            None => Ok(self.found(key)?.map(|(_, value)| value)),
        }
    }

    /// Returns the look-up that a key means: a field of the packet, or a tuple of fields. `None` for other keys, and if
    /// the packet's switch does no look-ups.
    fn look_up(&self, key: &Bound<'_, PyAny>) -> Option<(Net, LookUp)> {
        let of_field = |key: &Bound<'_, PyAny>| key.cast::<FieldRef>().ok()?.get().as_key();
        let types = || self.types().map_or(Kind::Any, |types| types.key.clone());
        if let Some(field) = of_field(key) {
            let net = current::net()?;
            let look_up = LookUp::by(self.name.clone(), key_field(&types(), field)?);
            return (can_look_up(&net, &look_up) && is_key(key.py(), &types(), field)).then_some((net, look_up));
        }
        let parts = key.cast::<PyTuple>().ok()?.iter().map(|part| of_field(&part)).collect::<Option<Vec<Field>>>()?;
        let net = current::net().filter(|_| !parts.is_empty())?;
        let kinds: Vec<Kind> = match types() {
            Kind::Tuple(kinds) if kinds.len() == parts.len() => kinds.to_vec(),
            Kind::Any => vec![Kind::Any; parts.len()],
            _ => return None,
        };
        let fields =
            kinds.iter().zip(&parts).map(|(kind, field)| key_field(kind, *field)).collect::<Option<Vec<_>>>()?;
        let look_up = LookUp::by_tuple(self.name.clone(), fields);
        let are_keys = || kinds.iter().zip(parts).all(|(kind, field)| is_key(key.py(), kind, field));
        (can_look_up(&net, &look_up) && are_keys()).then_some((net, look_up))
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

/// Reports whether the packet's switch does look-ups. If not, it is to say that it does not do this one.
fn can_look_up(net: &Net, look_up: &LookUp) -> bool {
    if !net.can_look_up() {
        net.note_without_tables(look_up);
    }
    net.can_look_up()
}

/// Returns a field with the form that its values have in keys of this type. `None` if no key has that type.
fn key_field(kind: &Kind, field: Field) -> Option<KeyField> {
    let form = match (kind, FieldKind::from_field(field)) {
        (Kind::Optional(kind), _) => return key_field(kind, field),
        (Kind::Any | Kind::Int, FieldKind::Number) => KeyForm::Int,
        (Kind::Any, FieldKind::Mac) => KeyForm::MacText,
        (Kind::Any, FieldKind::Ipv4) => KeyForm::Ipv4Text,
        (Kind::Any, FieldKind::Ipv6) => KeyForm::Ipv6Text,
        (Kind::Mac, FieldKind::Mac) => KeyForm::Mac,
        (Kind::Ip | Kind::Ipv4, FieldKind::Ipv4) => KeyForm::Ipv4,
        (Kind::Ip | Kind::Ipv6, FieldKind::Ipv6) => KeyForm::Ipv6,
        _ => return None,
    };
    Some(KeyField { field, form })
}

/// Reports whether a field is a part of a key that a switch can look up. The key of a packet without the field is
/// `None`, which a table may have. A test, if it may.
fn is_key(py: Python<'_>, kind: &Kind, field: Field) -> bool {
    let is_there = |packet: PacketHandle| packet.present(field, source::here(py));
    !kind.admits(&Value::None) || current::packet().is_some_and(is_there)
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

    /// Name of the table.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// Returns the value at `key`, or `default`.
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

    /// Returns all keys of the table.
    fn keys<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        self.all().iter().map(|(key, _)| to_python(py, key)).collect()
    }

    /// Returns all values, in the order of their keys.
    fn values<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        self.all().iter().map(|(_, value)| to_python(py, value)).collect()
    }

    /// Returns all pairs of key and value.
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
        match self.look_up(key) {
            Some((net, look_up)) => Ok(net.has_key(&look_up, source::here(key.py()))),
            None => Ok(self.found(key)?.is_some()),
        }
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

    /// Name of the variable.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// Value of the variable.
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

    /// Name of the counter.
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

    /// Value of the counter: in a policy a dependency, which each addition changes.
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
