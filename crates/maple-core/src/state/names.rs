//! The names of the tables and variables, for users who look from outside.
//!
//! State needs no declarations: a table exists once something is written to it. So a name is known if it was declared,
//! if it holds something, or if a leaf depends on it. (Bindings declare names, and what a variable is until it is set.)
//! A declaration may state the types of keys and values; then no other values are accepted.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::task::Waker;

use super::last_writes::Author;
use super::{Cell, Commit, DeclareError, Kind, Mismatch, Name, Snapshot, Store, Types, Value, Write};

/// Returns the part of a name after its slice: `limits` for `red/limits`. `None` if the name has no slice.
pub(super) fn outside_of_slices(name: &str) -> Option<&str> {
    name.rsplit_once('/').map(|(_, name)| name)
}

/// Reports whether a name is `of`, or what a slice calls so.
pub(super) fn is_named(name: &str, of: &str) -> bool {
    name == of || outside_of_slices(name) == Some(of)
}

/// The declared names.
#[derive(Clone, Debug, Default)]
pub(super) struct DeclaredNames {
    tables: BTreeSet<Name>,
    vars: BTreeMap<Name, Value>,
}

impl Store {
    /// Declares a table of this name.
    pub fn declare_table(&self, name: &str) {
        self.lock().declared.tables.insert(name.into());
    }

    /// Declares a variable of this name, and its value until it is set.
    pub fn declare_var(&self, name: &str, initial: Value) {
        self.lock().declared.vars.insert(name.into(), initial);
    }

    /// Declares a table of this name with the types of its keys and values. What it holds is converted to these types:
    /// an address that was spelled as text becomes the address.
    ///
    /// # Errors
    /// [`DeclareError`] if the table was declared with other types, or if a key or value that it holds does not fit
    /// these. Also if a key that a leaf depends on does not fit them.
    pub fn declare_types(&self, name: &str, types: Types) -> Result<Commit, DeclareError> {
        self.declare_table(name);
        let (table, types): (Name, _) = (name.into(), Arc::new(types));
        let mut inner = self.lock();
        let newest = self.newest();
        if let Some(before) = newest.declared().own_table(name) {
            return same(before, &types, || format!("the table {name}"));
        }
        let is_meant = |of: &Name| *of == table || is_named(of, &table) && newest.types(of).is_none();
        let asked = inner.dependents.cells().filter_map(|cell| match cell {
            Cell::Table(of, key) if is_meant(of) => Some((of, key)),
            _ => None,
        });
        for (of, key) in asked {
            if !types.key.admits(key) {
                let value = key.clone();
                let mismatch = Mismatch::Key { table: of.clone(), kind: types.key.clone(), value };
                return Err(DeclareError::Asked(mismatch));
            }
        }
        let mut writes = Vec::new();
        for of in newest.tables().filter(|of| is_meant(of)) {
            writes.extend(converted(&newest, of, &types)?);
        }
        writes.push(Write::Types { table, types });
        // A standby converts for itself.
        if !newest.declared().gate.is_closed() {
            newest.check_commit(&writes).map_err(DeclareError::TooLarge)?;
        }
        self.record_writes(&inner, true, &writes);
        let (commit, wake) = self.publish(&mut inner, newest, writes, &Author::AsBefore);
        drop(inner);
        wake.into_iter().for_each(Waker::wake);
        Ok(commit)
    }

    /// Declares the type of a variable, in addition to [`Store::declare_var`].
    ///
    /// # Errors
    /// [`DeclareError`] if it was declared with another type, or holds a value of another type.
    pub fn declare_kind(&self, name: &str, kind: Kind) -> Result<Commit, DeclareError> {
        let (name, kind): (Name, _) = (name.into(), Arc::new(kind));
        let mut inner = self.lock();
        let newest = self.newest();
        if let Some(before) = newest.declared().own_var(&name) {
            return same(before, &kind, || format!("the variable {name}"));
        }
        let mut writes = vec![Write::Kind { name: name.clone(), kind: Arc::clone(&kind) }];
        let is_meant = |of: &Name| *of == name || is_named(of, &name) && newest.kind(of).is_none();
        for of in newest.vars().filter(|of| is_meant(of)) {
            if let Some(value) = newest.var(of).filter(|value| !kind.admits(value)) {
                writes.push(Write::Var { name: of.clone(), value: Some(kind.value(of, value)?) });
            }
        }
        // A standby converts for itself.
        if !newest.declared().gate.is_closed() {
            newest.check_commit(&writes).map_err(DeclareError::TooLarge)?;
        }
        self.record_writes(&inner, true, &writes);
        let (commit, wake) = self.publish(&mut inner, newest, writes, &Author::AsBefore);
        drop(inner);
        wake.into_iter().for_each(Waker::wake);
        Ok(commit)
    }

    /// Returns the value of a declared variable until it is set.
    pub fn initial(&self, name: &str) -> Option<Value> {
        let inner = self.lock();
        let vars = &inner.declared.vars;
        vars.get(name).or_else(|| vars.get(outside_of_slices(name)?)).cloned()
    }

    /// Returns the known tables, by name. Goes through all cells that leaves depend on.
    pub fn tables(&self) -> BTreeSet<Name> {
        let (inner, snapshot) = (self.lock(), self.snapshot());
        let read = inner.dependents.cells().filter_map(Cell::table);
        snapshot.tables().chain(&inner.declared.tables).chain(read).cloned().collect()
    }

    /// Returns the known variables, by name. Goes through all cells that leaves depend on.
    pub fn vars(&self) -> BTreeSet<Name> {
        let (inner, snapshot) = (self.lock(), self.snapshot());
        let read = inner.dependents.cells().filter_map(|cell| match cell {
            Cell::Var(name) => Some(name),
            _ => None,
        });
        snapshot.vars().chain(inner.declared.vars.keys()).chain(read).cloned().collect()
    }

    /// Returns a key that the table has, or one that a leaf looked up, as an example of its keys.
    pub fn example_key(&self, table: &str) -> Option<Value> {
        let first = |state: &super::Snapshot| Some(state.table(table)?.first_key()?.clone());
        first(&self.snapshot()).or_else(|| {
            let asked = |cell: &Cell| match cell {
                Cell::Table(name, key) if **name == *table => Some(key.clone()),
                _ => None,
            };
            self.lock().dependents.cells().find_map(asked)
        })
    }
}

/// Returns the result of declaring a place that was declared before.
fn same<T: PartialEq + ToString>(before: &T, now: &T, place: impl Fn() -> String) -> Result<Commit, DeclareError> {
    if before == now {
        return Ok(Commit::default());
    }
    Err(DeclareError::Twice { place: place(), before: before.to_string(), now: now.to_string() })
}

/// Returns the writes that convert what a table holds to these types.
fn converted(state: &Snapshot, table: &Name, types: &Types) -> Result<Vec<Write>, DeclareError> {
    let mut writes = Vec::new();
    let mut keys = BTreeSet::new();
    for (key, value) in state.table(table).into_iter().flatten() {
        let (new_key, new_value) = (types.key(table, key)?, types.value(table, value)?);
        if !keys.insert(new_key.clone()) {
            return Err(DeclareError::TwoSpellings { table: table.clone(), key: new_key });
        }
        if new_key != *key {
            writes.push(Write::Table { table: table.clone(), key: key.clone(), value: None });
        }
        if new_key != *key || new_value != *value {
            writes.push(Write::Table { table: table.clone(), key: new_key, value: Some(new_value) });
        }
    }
    // Deletions come first: one key's old spelling may be another's new one.
    writes.sort_by_key(|write| matches!(write, Write::Table { value: Some(_), .. }));
    Ok(writes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::LeafId;
    use crate::network::Mac;
    use crate::state::{Table, Tx};

    fn blocked() -> Table<Mac, bool> {
        Table::new("blocked")
    }

    fn row(key: Value, value: impl Into<Value>) -> Write {
        Write::Table { table: "blocked".into(), key, value: Some(value.into()) }
    }

    fn mac() -> Mac {
        "00:00:0a:00:00:01".parse().expect("an address")
    }

    fn declare(store: &Store) -> Result<Commit, DeclareError> {
        store.declare_types("blocked", Table::<Mac, bool>::types())
    }

    #[test]
    fn declaring_a_table_brings_its_rows_to_the_declared_types() {
        let store = Store::new();
        store.update(|_| vec![row("00-00-0A-00-00-01".into(), true)]);
        declare(&store).expect("that is an address");
        assert_eq!(blocked().entries(&store.view()), [(mac(), true)]);
        declare(&store).expect("the same again");
        let error = store.declare_types("blocked", Table::<Mac, i64>::types()).expect_err("another type");
        let twice = "the table blocked is declared twice: with the type Mac -> bool, and with Mac -> int";
        assert_eq!(error.to_string(), twice);
    }

    #[test]
    fn a_table_that_holds_something_else_is_not_declared() {
        let store = Store::new();
        store.update(|_| vec![row("banana".into(), true)]);
        let error = declare(&store).expect_err("a banana");
        let text = "the table blocked is declared with keys of type Mac, and \"banana\" is not one already";
        assert_eq!(error.to_string(), text);
        store.update(|_| vec![Write::Table { table: "blocked".into(), key: "banana".into(), value: None }]);
        store.update(|_| vec![row("0:0:a:0:0:1".into(), true), row("00:00:0a:00:00:01".into(), false)]);
        let error = declare(&store).expect_err("which of the two?").to_string();
        assert_eq!(
            error,
            "the table blocked holds two values at the key 00:00:0a:00:00:01, which was spelled differently"
        );
        assert_eq!(store.snapshot().types("blocked"), None);
    }

    #[test]
    fn changes_are_brought_to_the_types_or_refused_whole() {
        let store = Store::new();
        declare(&store).expect("nothing is there");
        store.declare_kind("mode", Kind::Str).expect("nothing is there");
        store.change(vec![row("00-00-0a-00-00-01".into(), true)]).expect("an address");
        assert_eq!(blocked().get(&store.view(), &mac()), Some(true));
        let mode = |value: Value| Write::Var { name: "mode".into(), value: Some(value) };
        let error =
            store.change(vec![mode("day".into()), row(mac().into(), 7i64)]).expect_err("7 is not a truth value");
        assert_eq!(error.to_string(), "the table blocked is declared with values of type bool, and 7 is not one");
        assert_eq!(store.snapshot().var("mode"), None, "nothing of it happened");
        let error = store.change(vec![mode(Value::Int(1))]).expect_err("a number").to_string();
        assert_eq!(error, "the variable mode is declared with the type str, and 1 is none of it");
    }

    #[test]
    fn a_transaction_that_began_before_the_declaration_runs_again() {
        let store = Store::new();
        let tx = Tx::new(store.begin());
        Table::<String, bool>::new("blocked").set(&tx, &"banana".to_owned(), &true);
        declare(&store).expect("nothing is there");
        assert!(store.commit(tx.into_txn(), None).is_err());
        let tx = Tx::new(store.begin());
        blocked().set(&tx, &mac(), &true);
        assert!(store.commit(tx.into_txn(), None).is_ok());
    }

    #[test]
    fn no_leaf_waits_for_a_key_that_never_comes() {
        let store = Store::new();
        let read = |key: &str| {
            let tx = Tx::new(store.begin());
            assert!(!Table::<String, bool>::new("blocked").contains(&tx, &key.to_owned()));
            tx.into_txn()
        };
        let late = read("00:00:0a:00:00:01");
        declare(&store).expect("nobody depends on it");
        store.update(|_| vec![row(Value::Mac(mac()), true)]);
        assert!(store.commit(late, Some(LeafId(1))).is_err(), "it looked for text");
        let store = Store::new();
        let tx = Tx::new(store.begin());
        assert!(!Table::<String, bool>::new("blocked").contains(&tx, &"x".to_owned()));
        store.commit(tx.into_txn(), Some(LeafId(1))).expect("nothing has changed");
        assert!(matches!(declare(&store), Err(DeclareError::Asked(_))));
    }

    #[test]
    fn tables_and_variables_are_not_written_after_the_store_is_closed() {
        let store = Store::new();
        let mode = |value: &str| vec![Write::Var { name: "mode".into(), value: Some(value.into()) }];
        store.change(mode("day")).expect("it is open");
        let begun = |store: &Store| {
            let tx = Tx::new(store.begin());
            Table::<String, bool>::new("blocked").set(&tx, &"banana".to_owned(), &true);
            tx.into_txn()
        };
        let before = begun(&store);
        let version = store.snapshot().version();
        store.close("of a test");
        assert!(store.commit(before, None).is_err(), "it has written before");
        let error = store.change(mode("night")).expect_err("it is closed");
        assert_eq!(error.to_string(), "the variable mode can't be written: of a test");
        let added = store.change(vec![Write::Add { name: "sum".into(), amount: 1 }]).expect_err("it is closed");
        assert_eq!(added.to_string(), "the variable sum can't be written: of a test");
        let run = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(begun(&store))));
        let text = run.expect_err("it is closed").downcast::<String>().expect("a text");
        assert_eq!(*text, "the table blocked can't be written: of a test");
        // Costs and the network are not tables, and the state goes on from what it was.
        for _ in 0..3 {
            drop(store.change(vec![Write::CostName("secure".into())]).expect("it is no table"));
        }
        let state = store.snapshot();
        assert_eq!((state.var("mode"), state.has_costs("secure")), (Some(&"day".into()), true));
        assert!(state.version() > version && store.copy().change(mode("night")).is_err());
    }

    #[test]
    #[should_panic(expected = "the table blocked is declared with keys of type Mac, and \"banana\" is not one")]
    fn a_run_that_looks_for_a_key_of_another_type_fails() {
        let store = Store::new();
        declare(&store).expect("nothing is there");
        Table::<String, bool>::new("blocked").contains(&Tx::new(store.begin()), &"banana".to_owned());
    }
}
