//! f's reads and writes of its own state: tables, variables, costs of links.

use std::panic::Location as Caller;
use std::sync::Arc;

use super::{AccountItem, Net};
use crate::network::LinkName;
use crate::policy_error::PolicyError;
use crate::route::Route;
use crate::state::{Access, Cell, CellValue, Kind, LeafSelection, Read, Savepoint, Stop, Types, Value, Write};
use crate::trace::{Source, caller};

impl Net {
    /// Returns the value at a table's key.
    #[track_caller]
    pub fn get(&self, table: &str, key: &Value) -> Option<Value> {
        self.value(Cell::Table(table.into(), key.clone()))
    }

    /// Reports whether a table has a key. The run depends on the key's value.
    #[track_caller]
    pub fn contains(&self, table: &str, key: &Value) -> bool {
        self.get(table, key).is_some()
    }

    /// Returns the number of keys in a table.
    #[track_caller]
    pub fn len(&self, table: &str) -> usize {
        match self.read(Cell::TableLen(table.into())) {
            CellValue::Len(len) => len,
            _ => 0,
        }
    }

    /// Returns all keys and values of a table, by key. The run depends on the whole table.
    #[track_caller]
    pub fn entries(&self, table: &str) -> Vec<(Value, Value)> {
        match self.read(Cell::TableAll(table.into())) {
            CellValue::Table(all) => all.iter().map(|(k, v)| (k.clone(), v.clone())).collect(),
            _ => Vec::new(),
        }
    }

    /// Returns a variable's value.
    #[track_caller]
    pub fn var(&self, name: &str) -> Option<Value> {
        self.value(Cell::Var(name.into()))
    }

    /// Puts a value at a table's key.
    #[track_caller]
    pub fn set(&self, table: &str, key: Value, value: Value) {
        self.write(Write::Table { table: table.into(), key, value: Some(value) }, caller(Caller::caller()));
    }

    /// Removes a key from a table.
    #[track_caller]
    pub fn delete(&self, table: &str, key: Value) {
        self.write(Write::Table { table: table.into(), key, value: None }, caller(Caller::caller()));
    }

    /// Sets a variable.
    #[track_caller]
    pub fn set_var(&self, name: &str, value: Value) {
        self.write(Write::Var { name: name.into(), value: Some(value) }, caller(Caller::caller()));
    }

    /// Sets the cost of a link under an attribute.
    #[track_caller]
    pub fn set_cost(&self, costs: &str, link: LinkName, cost: u64) {
        self.write(Write::Cost { name: costs.into(), link, cost: Some(cost) }, caller(Caller::caller()));
    }

    /// Runs `f`, and takes all of its writes back if it fails. The whole run is one transaction anyway. This is for a
    /// part of it that may turn out to be impossible, and for code that background threads use too.
    ///
    /// # Errors
    /// The error that `f` returns. [`PolicyError::Retry`], or [`Net::retry`], then makes the packet wait.
    pub fn atomically<T>(&self, f: impl FnOnce(&Net) -> Result<T, Stop>) -> Result<T, Stop> {
        let before = self.savepoint();
        let done = f(self);
        if done.is_err() {
            self.roll_back(before);
        }
        done
    }

    /// Returns the answer of a run that can't decide yet: the packet waits until something that the run read has
    /// changed, and the run has no effect.
    pub fn retry(&self) -> Route {
        self.0.state().result.error.get_or_insert(PolicyError::Retry);
        Route::unreachable()
    }

    /// Withdraws rules when the run commits (the paper's explicit API; tracked state does not need it).
    pub fn invalidate(&self, selection: LeafSelection) {
        self.0.state().result.txn.invalidate(selection);
    }

    /// Makes a write, for bindings that know their own source lines.
    pub fn write(&self, write: Write, source: Option<Source>) {
        let mut state = self.0.state();
        state.note(source.as_ref(), || AccountItem::Wrote(write.clone()));
        let write = state.own_write(write);
        if state.result.txn.write_at(write, source.clone()) && state.result.wrote_at.is_none() {
            state.result.wrote_at = source;
        }
    }

    /// Returns the declared types of a table's keys and values, or `None` if none were declared.
    pub fn types(&self, table: &str) -> Option<Arc<Types>> {
        let state = self.0.state();
        state.result.txn.types(&state.own(table)).cloned()
    }

    /// Returns the declared type of a variable, or `None` if none was declared.
    pub fn kind(&self, var: &str) -> Option<Arc<Kind>> {
        let state = self.0.state();
        state.result.txn.kind(&state.own(var)).cloned()
    }

    #[track_caller]
    fn value(&self, cell: Cell) -> Option<Value> {
        match self.read(cell) {
            CellValue::Value(value) => value,
            _ => None,
        }
    }

    /// Checks that a table was declared; otherwise the run fails with this error. A declaration never changes, so the
    /// run does not depend on it.
    ///
    /// # Errors
    /// `error`, if the table was not declared.
    pub(crate) fn need_table(&self, table: &str, error: PolicyError) -> Result<(), PolicyError> {
        let mut state = self.0.state();
        if state.result.txn.types(table).is_some() {
            return Ok(());
        }
        state.result.error.get_or_insert_with(|| error.clone());
        Err(error)
    }
}

impl Read for Net {
    #[track_caller]
    fn cell(&self, cell: Cell) -> CellValue {
        self.read(cell)
    }
}

impl Access for Net {
    #[track_caller]
    fn put(&self, write: Write) {
        self.write(write, caller(Caller::caller()));
    }

    fn savepoint(&self) -> Savepoint {
        self.0.state().result.txn.savepoint()
    }

    fn roll_back(&self, to: Savepoint) {
        let mut state = self.0.state();
        state.result.txn.roll_back(to);
        if !state.result.txn.wrote() {
            state.result.wrote_at = None;
        }
    }
}
