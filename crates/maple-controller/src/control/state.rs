//! `maple state`: other programs read, write and watch tracked state.
//!
//! Values are JSON as in `storage/state_json.rs`. `{"word": "…"}` is a word of a command line. It takes the type that
//! the place was declared with; without a declared type it is JSON if it parses, and otherwise text.

use std::time::{Duration, SystemTime};

use maple_core::state::{
    Cell, CellValue, Mismatch, Name, Patience, Read, Snapshot, Value as Stored, Write, Writer, Written,
};
use maple_wire::nearest;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Handle;
use super::answer::milliseconds;
use super::asker::Asker;
use super::expected::Expected;
use super::request::{RefusalKind, RequestError};
use super::rows::{key_of, value_of, var_of};
use super::schema::StateValue;
use super::transactions::{ChangeError, ThreadWaiter};
use crate::storage::to_json;

/// The time for which a request with `settled` waits for the switches. It must be less than the time that a client
/// waits for its answer, 30 seconds.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(20);
/// The time between two checks of a watch that its client is still connected. Chosen: its place is free again within
/// half a second.
const CLIENT_CHECK: Duration = Duration::from_millis(500);

/// An operation on tracked state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
#[schemars(rename = "state")]
pub enum StateRequest {
    /// Reads a place. A whole table is an array of pairs.
    Get(StatePlace),
    /// Writes a place. The answer comes when every shard uses the new value.
    Set {
        /// The place.
        place: StatePlace,
        /// The new value.
        #[schemars(with = "StateValue")]
        value: Value,
        /// Whether the answer also waits until every rule that depended on the old value is gone.
        #[serde(default)]
        settled: bool,
        /// Whether a name that is not known becomes a new table or variable. Otherwise that is an error.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        create: bool,
    },
    /// Writes many places in one transaction: all of them or none. The answer comes as for `set`.
    Load {
        /// The places, and their new values.
        #[schemars(with = "Vec<(StatePlace, StateValue)>")]
        rows: Vec<(StatePlace, Value)>,
        /// The values that places have to hold before; `null` means nothing. If one holds something
        /// else, nothing is written.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        #[schemars(with = "Vec<(StatePlace, StateValue)>")]
        expect: Vec<(StatePlace, Value)>,
        /// The places to delete in the same transaction.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        delete: Vec<StatePlace>,
        /// Whether the rows are only checked.
        #[serde(default)]
        check: bool,
        /// Whether the answer also waits until every rule that depended on an old value is gone.
        #[serde(default)]
        settled: bool,
        /// Whether a name that is not known becomes a new table or variable. Otherwise that is an error.
        #[serde(default)]
        create: bool,
    },
    /// Deletes a place. The answer comes as for `set`.
    Delete {
        /// The place.
        place: StatePlace,
        /// Whether the answer also waits until every rule that depended on the old value is gone.
        #[serde(default)]
        settled: bool,
    },
    /// Reads a place at once and after each change: one answer a line, until the client closes the connection.
    Watch(StatePlace),
    /// Reads a place with its last writer. A whole table is an array with an object for each key.
    Written(StatePlace),
    /// Lists all known tables and variables with their declared types.
    List,
}

/// A place in tracked state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "place")]
pub enum StatePlace {
    /// A variable, by name.
    Var(String),
    /// A whole table.
    Table(String),
    /// A key of a table.
    Key(String, #[schemars(with = "StateValue")] Value),
}

impl StatePlace {
    /// Returns the place in the version of its table that is in use.
    pub(super) fn in_use(&self, handle: &Handle) -> StatePlace {
        let in_use = |table: &String| handle.store().table_in_use(table).to_string();
        match self {
            StatePlace::Var(name) => StatePlace::Var(name.clone()),
            StatePlace::Table(table) => StatePlace::Table(in_use(table)),
            StatePlace::Key(table, key) => StatePlace::Key(in_use(table), key.clone()),
        }
    }
}

/// Answers a request that has a single answer.
pub(super) fn answer(handle: &Handle, asker: &Asker, request: &StateRequest) -> Result<Value, RequestError> {
    match request {
        StateRequest::Get(place) => {
            let (place, cell) = known_cell(handle, place, "state.get")?;
            Ok(place_to_json(handle, &place, &handle.store().view().cell(cell)))
        }
        StateRequest::Watch(place) => {
            let (place, cell) = known_cell(handle, place, "state.watch")?;
            Ok(place_to_json(handle, &place, &handle.store().view().cell(cell)))
        }
        StateRequest::Written(place) => {
            let (place, cell) = known_cell(handle, place, "state.written")?;
            Ok(place_with_writers(handle, &place, &cell))
        }
        StateRequest::Set { place, value, settled, create } => {
            let write = write_of(handle, place, value, *create, "state.set")?;
            let is_new = declare(handle, &write);
            change(handle, vec![write], *settled, "set", asker)?;
            Ok(json!({ "settled": settled, "new": is_new }))
        }
        StateRequest::Load { rows, expect, delete, check, settled, create } => {
            let writes = writes_of(handle, rows, delete, *create)?;
            let expected = Expected::all(handle, expect)?;
            if *check {
                expected.check(&handle.snapshot())?;
            } else {
                // What is refused declares nothing.
                expected.check(&handle.snapshot())?;
                for write in &writes {
                    declare(handle, write);
                }
                change_if(handle, writes, &expected, *settled, "load", asker)?;
            }
            Ok(json!({ "settled": settled, "rows": rows.len() }))
        }
        StateRequest::Delete { place, settled } => {
            let write = deletion_of(handle, place, "state.delete.place")?;
            let is_new = declare(handle, &write);
            change(handle, vec![write], *settled, "delete", asker)?;
            Ok(json!({ "settled": settled, "new": is_new }))
        }
        StateRequest::List => Ok(list(handle)),
    }
}

/// A place that can be written.
pub(super) enum Target {
    Var(Name),
    Key(Name, Stored),
}

/// Returns the target of a request about this place. `at` names the member of the request that an error is about.
pub(super) fn target(handle: &Handle, place: &StatePlace, at: &str) -> Result<Target, RequestError> {
    match &place.in_use(handle) {
        StatePlace::Var(name) => Ok(Target::Var(name.as_str().into())),
        StatePlace::Key(table, key) => {
            let key = key_of(handle.store(), &handle.names(), table, key)
                .map_err(|error| RequestError::at(&format!("{at}.key[1]"), error))?;
            Ok(Target::Key(table.as_str().into(), key))
        }
        StatePlace::Table(name) => {
            Err(RequestError::at(&format!("{at}.table"), format!("a key of {name} is changed, not the whole table")))
        }
    }
}

/// Returns the write of a value to a place.
fn write_of(handle: &Handle, place: &StatePlace, value: &Value, create: bool, at: &str) -> Result<Write, RequestError> {
    if !create && !is_known(handle, &place.in_use(handle)) {
        return Err(RequestError::at(&format!("{at}.place"), unknown(handle, place)));
    }
    let wrong = |error| RequestError::at(&format!("{at}.value"), error);
    Ok(match target(handle, place, &format!("{at}.place"))? {
        Target::Key(table, key) => {
            let value = value_of(handle.store(), &handle.names(), &table, value).map_err(wrong)?;
            Write::Table { table, key, value: Some(value) }
        }
        Target::Var(name) => {
            let value = var_of(handle.store(), &handle.names(), &name, value).map_err(wrong)?;
            Write::Var { name, value: Some(value) }
        }
    })
}

/// Returns the writes of a request `load`.
fn writes_of(
    handle: &Handle,
    rows: &[(StatePlace, Value)],
    delete: &[StatePlace],
    create: bool,
) -> Result<Vec<Write>, RequestError> {
    let write = |(number, (place, value)): (usize, &(StatePlace, Value))| {
        write_of(handle, place, value, create, &format!("state.load.rows[{number}]"))
    };
    let deletion =
        |(number, place): (usize, &StatePlace)| deletion_of(handle, place, &format!("state.load.delete[{number}]"));
    rows.iter().enumerate().map(write).chain(delete.iter().enumerate().map(deletion)).collect()
}

/// Returns the write that deletes what a place holds.
fn deletion_of(handle: &Handle, place: &StatePlace, at: &str) -> Result<Write, RequestError> {
    Ok(match target(handle, place, at)? {
        Target::Var(name) => Write::Var { name, value: None },
        Target::Key(table, key) => Write::Table { table, key, value: None },
    })
}

/// Declares the name that a write changes, if it is new. Returns whether it is. It stays known when it becomes empty
/// again.
fn declare(handle: &Handle, write: &Write) -> bool {
    match write {
        Write::Var { name, .. } if !is_known(handle, &StatePlace::Var(name.to_string())) => {
            handle.store().declare_var(name, Stored::None);
            true
        }
        Write::Table { table, .. } if !is_known(handle, &StatePlace::Table(table.to_string())) => {
            handle.store().declare_table(table);
            true
        }
        _ => false,
    }
}

/// Writes for the one who sent the request `state.VERB`, and waits until the write is acknowledged; with `settled`,
/// until it is settled.
fn change(
    handle: &Handle,
    writes: Vec<Write>,
    settled: bool,
    verb: &'static str,
    asker: &Asker,
) -> Result<(), RequestError> {
    change_if(handle, writes, &Expected::default(), settled, verb, asker)
}

/// Writes as [`change`] does, if places hold what is expected.
fn change_if(
    handle: &Handle,
    writes: Vec<Write>,
    expected: &Expected,
    settled: bool,
    verb: &'static str,
    asker: &Asker,
) -> Result<(), RequestError> {
    let at = &format!("state.{verb}");
    let written = Written { by: asker.writer(verb), at: SystemTime::now() };
    let mut held = Ok(());
    let holds = |state: &Snapshot| {
        held = expected.check(state);
        held.is_ok()
    };
    handle.operations().change_if(writes, written, holds).map_err(|error| refusal(at, &error))?;
    held?;
    if !settled {
        return Ok(());
    }
    let unconfirmed =
        |why| RequestError::at(at, format!("the state is changed, but {why}")).of_kind(RefusalKind::Unconfirmed);
    handle.wait_until_settled(SETTLE_TIMEOUT).map_err(unconfirmed)
}

/// Returns the refusal of a change at this member of the request.
fn refusal(at: &str, error: &ChangeError) -> RequestError {
    let kind = match error {
        ChangeError::Unconfirmed | ChangeError::NotKept | ChangeError::NotShared => RefusalKind::Unconfirmed,
        ChangeError::Stopped(_) | ChangeError::Undone | ChangeError::Mismatch(Mismatch::Closed { .. }) => {
            RefusalKind::Conflict
        }
        ChangeError::Mismatch(_) => RefusalKind::Wrong,
    };
    RequestError::at(at, error.to_string()).of_kind(kind)
}

/// Lists all known tables and variables, tables first.
fn list(handle: &Handle) -> Value {
    let (store, state) = (handle.store(), handle.snapshot());
    let text = |kind: Option<String>| kind.map_or(Value::Null, Value::from);
    let tables = store.tables().into_iter().map(|name| {
        let types = state.types(&name);
        json!({
            "table": &*name,
            "key": text(types.map(|types| types.key.to_string())),
            "value": text(types.map(|types| types.value.to_string())),
            "keys": state.table(&name).map_or(0, |rows| rows.len()),
            "kept": store.keeps(&name),
            "written": written(store.last_write(&Cell::TableAll(name.clone()))),
        })
    });
    let vars = store.vars().into_iter().map(|name| {
        json!({
            "var": &*name,
            "value": text(state.kind(&name).map(ToString::to_string)),
            "kept": store.keeps(&name),
            "written": written(store.last_write(&Cell::Var(name.clone()))),
        })
    });
    tables.chain(vars).collect()
}

/// Returns the place in the version that is in use, and its cell. The place must be known.
pub(super) fn known_cell(handle: &Handle, place: &StatePlace, at: &str) -> Result<(StatePlace, Cell), RequestError> {
    let in_use = place.in_use(handle);
    if !is_known(handle, &in_use) {
        return Err(RequestError::at(at, unknown(handle, &in_use)));
    }
    cell_in_use(handle, place, at)
}

/// Returns the place in the version that is in use, and its cell, whether or not it is known.
pub(super) fn cell_in_use(handle: &Handle, place: &StatePlace, at: &str) -> Result<(StatePlace, Cell), RequestError> {
    let place = place.in_use(handle);
    let cell = cell(handle, &place, at)?;
    Ok((place, cell))
}

/// Encodes the value of a place with its last writer; for a table, the value and the last writer of each key.
pub(super) fn place_with_writers(handle: &Handle, place: &StatePlace, cell: &Cell) -> Value {
    let store = handle.store();
    match (place, store.view().cell(cell.clone())) {
        (StatePlace::Table(table), CellValue::Table(rows)) => {
            let table: Name = table.as_str().into();
            let row = |(key, value): (&Stored, &Stored)| {
                let cell = Cell::Table(table.clone(), key.clone());
                json!({ "key": to_json(key), "value": to_json(value), "written": written(store.last_write(&cell)) })
            };
            rows.iter().map(row).collect()
        }
        (_, value) => {
            json!({ "value": place_to_json(handle, place, &value), "written": written(store.last_write(cell)) })
        }
    }
}

/// Encodes the writer and the time of a write; null if they are not known.
pub(super) fn written(last: Option<Written>) -> Value {
    last.map_or(Value::Null, |Written { by, at }| {
        let mut written = json!({ "by": by.to_string(), "at": milliseconds(at) });
        if let Writer::Command { pid, user, .. } = by {
            written["pid"] = pid.into();
            written["user"] = user.into();
        }
        written
    })
}

/// Reports whether a table or variable is known.
pub(super) fn is_known(handle: &Handle, place: &StatePlace) -> bool {
    let (store, state) = (handle.store(), handle.snapshot());
    match place {
        StatePlace::Var(name) => state.var(name).is_some() || store.vars().contains(name.as_str()),
        StatePlace::Table(name) | StatePlace::Key(name, _) => {
            state.table(name).is_some() || store.tables().contains(name.as_str())
        }
    }
}

/// Says that a variable or table is not known, and what may be meant.
pub(super) fn unknown(handle: &Handle, place: &StatePlace) -> String {
    let (vars, tables) = (handle.store().vars(), handle.store().tables());
    let (kind, name, known, others) = match place {
        StatePlace::Var(name) => ("variable", name, vars, tables),
        StatePlace::Table(name) | StatePlace::Key(name, _) => ("table", name, tables, vars),
    };
    if others.contains(name.as_str()) {
        return match kind {
            "table" => format!("{name} is a variable, not a table: `--var` says so"),
            _ => format!("{name} is a table, not a variable: it takes a key, and no `--var`"),
        };
    }
    let known: Vec<&str> = known.iter().map(|name| &**name).collect();
    match (known.as_slice(), nearest(name, known.iter().copied())) {
        ([], _) => format!("there is no {kind} {name}, nor any other"),
        (_, Some(near)) => format!("there is no {kind} {name}; did you mean {near}?"),
        (known, None) => format!("there is no {kind} {name}; there are {}", known.join(", ")),
    }
}

/// Calls `send` with the value of a place, at once and after each change, until it returns `false`. Between changes it
/// calls `send` with `None`, to check whether the client is still connected.
pub(super) fn watch(
    handle: &Handle,
    place: &StatePlace,
    mut send: impl FnMut(Option<Value>) -> bool,
) -> Result<(), RequestError> {
    let cell = cell(handle, place, "state.watch")?;
    let mut sent = None;
    loop {
        let mut txn = handle.store().begin();
        let value = txn.read(cell.clone());
        if sent.as_ref() != Some(&value) {
            if !send(Some(place_to_json(handle, place, &value))) {
                return Ok(());
            }
            sent = Some(value);
        }
        let waiting = ThreadWaiter::new(Some(CLIENT_CHECK));
        if let Some(waiter) = handle.store().watch(&txn, waiting.waker()) {
            let changed = waiting.wait();
            handle.store().unwatch(waiter);
            if !changed && !send(None) {
                return Ok(());
            }
        }
    }
}

fn cell(handle: &Handle, place: &StatePlace, at: &str) -> Result<Cell, RequestError> {
    Ok(match place {
        StatePlace::Var(name) => Cell::Var(name.as_str().into()),
        StatePlace::Table(name) => Cell::TableAll(name.as_str().into()),
        StatePlace::Key(table, key) => {
            let key = key_of(handle.store(), &handle.names(), table, key)
                .map_err(|error| RequestError::at(&format!("{at}.key[1]"), error))?;
            Cell::Table(table.as_str().into(), key)
        }
    })
}

/// Encodes the value of a place. A variable that was never written has its declared initial value.
fn place_to_json(handle: &Handle, place: &StatePlace, value: &CellValue) -> Value {
    match (place, value) {
        (StatePlace::Var(name), CellValue::Value(None)) => {
            handle.store().initial(name).as_ref().map_or(Value::Null, to_json)
        }
        _ => cell_to_json(value),
    }
}

fn cell_to_json(value: &CellValue) -> Value {
    match value {
        CellValue::Value(value) => value.as_ref().map_or(Value::Null, to_json),
        CellValue::Table(table) => table.iter().map(|(key, value)| json!([to_json(key), to_json(value)])).collect(),
        _ => Value::Null,
    }
}
