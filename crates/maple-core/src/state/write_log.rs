//! The log of who changed what. It receives the changes of tables and variables, with their writers.
//!
//! Core itself keeps no log. A [`WriteLog`] does: it receives each change of a key or a variable whose writer says who
//! it is, in the order of commits. What only counts (`Write::Add`) is not a change that people ask about, and what puts
//! the same value is none at all.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use super::last_writes::Author;
use super::{Name, Snapshot, Store, Value, Write, Writer};

/// A receiver of changes.
pub trait WriteLog: Send + Sync {
    /// Receives a change, just before any reader can see it. Called under the store's lock, so it must neither wait nor
    /// use the store.
    fn note(&self, change: &StateChange<'_>);
}

/// A change of a key of a table, or of a variable.
#[derive(Clone, Debug)]
pub struct StateChange<'a> {
    /// The version of the state that it makes. All changes of a transaction have the same.
    pub version: u64,
    /// The table or the variable.
    pub name: &'a Name,
    /// The key; `None` for a variable.
    pub key: Option<&'a Value>,
    /// The value before; `None` if there was none.
    pub old: Option<&'a Value>,
    /// The value now; `None` if there is none.
    pub new: Option<&'a Value>,
    /// The writer.
    pub by: Writer,
    /// The time of the write, by the writer's wall clock.
    pub at: SystemTime,
}

/// The log of a store, if it has one.
#[derive(Default)]
pub(super) struct StoreLog(Option<Arc<dyn WriteLog>>);

impl fmt::Debug for StoreLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StoreLog").field(&self.0.is_some()).finish()
    }
}

impl StoreLog {
    /// Records what the writes of a commit change.
    pub fn record(&self, writes: &[Write], author: &Author, before: &Snapshot, next: &Snapshot) {
        let (Some(log), Author::Known(written, lines)) = (&self.0, author) else { return };
        for (position, write) in writes.iter().enumerate() {
            let Some((name, key, old, new)) = change_of(write, before, next) else { continue };
            let line = lines.get(position).and_then(Option::as_ref);
            let by = written.by.at_line(line);
            log.note(&StateChange { version: next.version, name, key, old, new, by, at: written.at });
        }
    }
}

/// A place with what was there and what is there now.
type Differing<'a> = (&'a Name, Option<&'a Value>, Option<&'a Value>, Option<&'a Value>);

fn change_of<'a>(write: &'a Write, before: &'a Snapshot, next: &'a Snapshot) -> Option<Differing<'a>> {
    let (name, key, value, old, new) = match write {
        Write::Table { table, key, value } => {
            let row = |state: &'a Snapshot| state.table(table).and_then(|rows| rows.get(key));
            (table, Some(key), value, row(before), row(next))
        }
        Write::Var { name, value } => (name, None, value, before.var(name), next.var(name)),
        _ => return None,
    };
    // A later write of the commit may have put something else.
    (old != new && value.as_ref() == new).then_some((name, key, old, new))
}

impl Store {
    /// Starts to give `log` each change of tables and variables.
    pub fn log_writes_to(&self, log: Arc<dyn WriteLog>) {
        self.lock().write_log = StoreLog(Some(log));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::state::Written;
    use crate::trace::Source;

    #[derive(Default)]
    struct Lines(Mutex<Vec<String>>);

    impl WriteLog for Lines {
        fn note(&self, change: &StateChange<'_>) {
            let StateChange { version, name, key, old, new, by, .. } = change;
            let text = |value: &Option<&Value>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:?}"));
            let line = format!("{version} {name}[{}] {} -> {} by {by}", text(key), text(old), text(new));
            self.0.lock().expect("no test panics in it").push(line);
        }
    }

    fn key(key: i64, value: Option<i64>) -> Write {
        Write::Table { table: "t".into(), key: key.into(), value: value.map(Value::from) }
    }

    #[test]
    fn the_log_has_each_change_with_what_was_there_and_who_made_it() {
        let (store, lines) = (Store::new(), Arc::<Lines>::default());
        let by = Written { by: Writer::Client("ann".into()), at: SystemTime::UNIX_EPOCH };
        store.change_as(vec![key(9, Some(9))], by.clone()).expect("any type");
        store.log_writes_to(Arc::clone(&lines) as Arc<dyn WriteLog>);
        store.change_as(vec![key(1, Some(5)), key(9, Some(9)), key(9, None)], by.clone()).expect("any type");
        store.change_as(vec![key(1, Some(5)), key(2, None)], by.clone()).expect("any type");
        store.change_as(vec![Write::Add { name: "sum".into(), amount: 1 }], by).expect("any type");
        store.change(vec![key(3, Some(1))]).expect("any type");
        let mut txn = store.begin();
        txn.write_at(key(1, Some(6)), Some(Source::new("policy.py", 3)));
        txn.write(Write::Var { name: "mode".into(), value: Some(true.into()) });
        txn.sign(Written { by: Writer::Policy(None), at: SystemTime::UNIX_EPOCH });
        store.commit(txn, None).expect("nobody else");
        let version = |store: &Store| store.snapshot().version();
        let last = version(&store);
        let expected = [
            "2 t[1] - -> 5 by ann over HTTP".to_owned(),
            "2 t[9] 9 -> - by ann over HTTP".to_owned(),
            format!("{last} t[1] 5 -> 6 by the policy at policy.py:3"),
            format!("{last} mode[-] - -> true by the policy"),
        ];
        let reported = lines.0.lock().expect("no test panics in it").clone();
        assert_eq!(reported, expected);
    }
}
