//! The store against maps that are copied whole: snapshots that a reader holds stay as they were, whatever is changed
//! in place meanwhile, and transactions read what they wrote.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;

use super::super::{Cell, CellValue, Name, Savepoint, Snapshot, Store, Txn, Value, Write};

const TABLES: [&str; 2] = ["s", "t"];
const VARS: [&str; 2] = ["v", "w"];

/// Tables without empty ones, and variables.
#[derive(Clone, Debug, Default, PartialEq)]
struct Model {
    tables: BTreeMap<Name, BTreeMap<Value, Value>>,
    vars: BTreeMap<Name, Value>,
}

impl Model {
    fn from_snapshot(state: &Snapshot) -> Model {
        let rows = |name: &Name| state.table(name).into_iter().flatten().map(|(k, v)| (k.clone(), v.clone())).collect();
        let var = |name: &Name| (name.clone(), state.var(name).cloned().expect("it is set"));
        Model {
            tables: state.tables().map(|name| (name.clone(), rows(name))).collect(),
            vars: state.vars().map(var).collect(),
        }
    }

    fn apply(&mut self, write: &Write) {
        match write {
            Write::Table { table, key, value } => {
                let rows = self.tables.entry(table.clone()).or_default();
                rows.remove(key);
                rows.extend(value.iter().map(|value| (key.clone(), value.clone())));
                self.tables.retain(|_, rows| !rows.is_empty());
            }
            Write::Var { name, value } => {
                self.vars.remove(name);
                self.vars.extend(value.iter().map(|value| (name.clone(), value.clone())));
            }
            Write::Add { name, amount } => {
                let before = self.vars.get(name).and_then(Value::as_int).unwrap_or_default();
                self.vars.insert(name.clone(), Value::Int(before + amount));
            }
            other => panic!("the model has no {other:?}"),
        }
    }

    fn read(&self, cell: &Cell) -> Option<Value> {
        match cell {
            Cell::Table(table, key) => self.tables.get(table)?.get(key).cloned(),
            Cell::Var(name) => self.vars.get(name).cloned(),
            Cell::TableLen(table) => Some(Value::from(self.tables.get(table).map_or(0, |rows| rows.len() as i64))),
            other => panic!("the model has no {other:?}"),
        }
    }
}

/// An event at the store.
#[derive(Clone, Debug)]
enum Step {
    Commit(Vec<Write>),
    /// Holds the newest snapshot.
    Hold,
    /// Drops a held snapshot.
    Drop(usize),
}

/// An operation of a transaction.
#[derive(Clone, Debug)]
enum Act {
    Write(Write),
    Read(Cell),
    Save,
    RollBack,
}

fn any_write() -> impl Strategy<Value = Write> {
    let key = || (0..40i64).prop_map(Value::from);
    let value = || proptest::option::of((0..5i64).prop_map(Value::from));
    prop_oneof![
        4 => (0..2usize, key(), value())
            .prop_map(|(table, key, value)| Write::Table { table: TABLES[table].into(), key, value }),
        1 => (0..2usize, value()).prop_map(|(var, value)| Write::Var { name: VARS[var].into(), value }),
        1 => (0..2usize, -3..3i128).prop_map(|(var, amount)| Write::Add { name: VARS[var].into(), amount }),
    ]
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => proptest::collection::vec(any_write(), 1..4).prop_map(Step::Commit),
        1 => proptest::collection::vec(any_write(), 50..90).prop_map(Step::Commit),
        1 => Just(Step::Hold),
        1 => any::<usize>().prop_map(Step::Drop),
    ]
}

fn any_act() -> impl Strategy<Value = Act> {
    let cell = prop_oneof![
        (0..2usize, 0..40i64).prop_map(|(table, key)| Cell::Table(TABLES[table].into(), Value::from(key))),
        (0..2usize).prop_map(|var| Cell::Var(VARS[var].into())),
        (0..2usize).prop_map(|table| Cell::TableLen(TABLES[table].into())),
    ];
    prop_oneof![
        5 => any_write().prop_map(Act::Write),
        3 => cell.prop_map(Act::Read),
        1 => Just(Act::Save),
        1 => Just(Act::RollBack),
    ]
}

/// Does an operation to a transaction and to a model of it.
fn act(act: Act, txn: &mut Txn, model: &mut Model, saved: &mut Vec<(Savepoint, Model)>) {
    match act {
        Act::Write(write) => {
            model.apply(&write);
            txn.write(write);
        }
        Act::Read(cell) => {
            let read = match txn.read(cell.clone()) {
                CellValue::Value(value) => value,
                CellValue::Len(len) => Some(Value::from(len as i64)),
                other => panic!("{cell:?} is {other:?}"),
            };
            assert_eq!(read, model.read(&cell), "{cell:?}");
        }
        Act::Save => saved.push((txn.savepoint(), model.clone())),
        Act::RollBack => {
            if let Some((savepoint, before)) = saved.pop() {
                txn.roll_back(savepoint);
                *model = before;
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_snapshot_stays_as_it_was_while_somebody_holds_it(steps in proptest::collection::vec(any_step(), 1..60)) {
        let (store, mut model, mut held) = (Store::new(), Model::default(), Vec::<(Arc<Snapshot>, Model)>::new());
        for step in steps {
            match step {
                Step::Commit(writes) => {
                    writes.iter().for_each(|write| model.apply(write));
                    store.update(|_| writes);
                }
                Step::Hold => held.push((store.snapshot(), model.clone())),
                Step::Drop(which) if !held.is_empty() => drop(held.swap_remove(which % held.len())),
                Step::Drop(_) => {}
            }
            let newest = store.snapshot();
            prop_assert_eq!(&Model::from_snapshot(&newest), &model);
            for (snapshot, then) in &held {
                prop_assert_eq!(&Model::from_snapshot(snapshot), then);
                for table in TABLES {
                    let cell = Cell::TableAll(table.into());
                    let still = |seen: &Snapshot, now| cell.still(&cell.evaluate(seen), Some(seen.version()), now);
                    let same = model.tables.get(table) == then.tables.get(table);
                    prop_assert_eq!(still(snapshot, &newest), same);
                    prop_assert_eq!(still(&newest, snapshot), same, "asked of an older snapshot");
                }
            }
        }
    }

    #[test]
    fn a_transaction_reads_what_it_wrote(
        before in proptest::collection::vec(any_write(), 0..30),
        acts in proptest::collection::vec(any_act(), 1..60),
    ) {
        let (store, mut model, mut saved) = (Store::new(), Model::default(), Vec::new());
        before.iter().for_each(|write| model.apply(write));
        store.update(|_| before);
        let mut txn = store.begin();
        acts.into_iter().for_each(|one| act(one, &mut txn, &mut model, &mut saved));
        prop_assert_eq!(&Model::from_snapshot(txn.peek()), &model);
        prop_assert!(store.commit(txn, None).is_ok());
        prop_assert_eq!(&Model::from_snapshot(&store.snapshot()), &model);
    }
}
