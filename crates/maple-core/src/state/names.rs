//! Which tables and variables there are, for people who look from outside.
//!
//! State needs no declarations: a table is there when somebody writes to it. So a name is known if it was declared (bindings
//! do that, and tell what a variable is until it is set), if something has it, or if a leaf depends on it.

use std::collections::{BTreeMap, BTreeSet};

use super::{Cell, Name, Store, Value};

/// What was declared.
#[derive(Debug, Default)]
pub(super) struct Declared {
    tables: BTreeSet<Name>,
    vars: BTreeMap<Name, Value>,
}

impl Store {
    /// Says that there is a table of this name.
    pub fn declare_table(&self, name: &str) {
        self.lock().declared.tables.insert(name.into());
    }

    /// Says that there is a variable of this name, and what it is until it is set.
    pub fn declare_var(&self, name: &str, initial: Value) {
        self.lock().declared.vars.insert(name.into(), initial);
    }

    /// What a declared variable is until it is set.
    pub fn initial(&self, name: &str) -> Option<Value> {
        self.lock().declared.vars.get(name).cloned()
    }

    /// The tables that are known, by name. Looks at all cells that leaves depend on.
    pub fn tables(&self) -> BTreeSet<Name> {
        let (books, snapshot) = (self.lock(), self.snapshot());
        let read = books.readers.cells().filter_map(Cell::table);
        snapshot.tables().chain(&books.declared.tables).chain(read).cloned().collect()
    }

    /// The variables that are known, by name. Looks at all cells that leaves depend on.
    pub fn vars(&self) -> BTreeSet<Name> {
        let (books, snapshot) = (self.lock(), self.snapshot());
        let read = books.readers.cells().filter_map(|cell| match cell {
            Cell::Var(name) => Some(name),
            _ => None,
        });
        snapshot.vars().chain(books.declared.vars.keys()).chain(read).cloned().collect()
    }

    /// A key that a table has, or one that a leaf asked it for: what kind of keys it has.
    pub fn example_key(&self, table: &str) -> Option<Value> {
        let first = |state: &super::Snapshot| Some(state.table(table)?.first_key()?.clone());
        first(&self.snapshot()).or_else(|| {
            let asked = |cell: &Cell| match cell {
                Cell::Table(name, key) if **name == *table => Some(key.clone()),
                _ => None,
            };
            self.lock().readers.cells().find_map(asked)
        })
    }
}
