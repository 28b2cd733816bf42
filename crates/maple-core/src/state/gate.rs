//! Whether tables and variables can be written, and how much at once.
//!
//! A store whose tables and variables are kept by others too, as those of several controllers are, can't always be
//! written, and not everything at once. The gate is part of the snapshot. So a transaction that began before the gate
//! was shut does not commit after it: [`Store::close`] returns when the last commit is done.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::double_buffer::DoubleBuffer;
use super::last_writes::Author;
use super::{Cell, Commit, Mismatch, Snapshot, Store, Value, Write, Written};

/// The limits of the commits of a store.
#[derive(Debug)]
pub struct CommitLimits {
    /// The maximum number of keys and variables that one commit writes.
    pub rows: usize,
    /// The maximum number of bytes that these take with their values, in the form in which they are kept.
    pub bytes: usize,
    /// The reason why there are these limits, for people.
    pub why: &'static str,
    is_full: AtomicBool,
}

impl CommitLimits {
    /// Creates limits.
    pub fn new(rows: usize, bytes: usize, why: &'static str) -> CommitLimits {
        CommitLimits { rows, bytes, why, is_full: AtomicBool::new(false) }
    }

    /// Sets whether no further commit may begin, because too many wait to be kept. Those that have begun may still
    /// come.
    pub fn set_full(&self, is_full: bool) {
        self.is_full.store(is_full, Ordering::Relaxed);
    }

    fn check(&self, writes: &[&Write]) -> Result<(), String> {
        if self.is_full.load(Ordering::Relaxed) {
            return Err("too many writes wait until they are kept".into());
        }
        let CommitLimits { rows, bytes, why, .. } = self;
        if writes.len() > *rows {
            return Err(format!("one transaction writes at most {rows} rows ({why})"));
        }
        if writes.iter().map(|write| size(write)).sum::<usize>() > *bytes {
            return Err(format!("one transaction writes at most {bytes} bytes ({why})"));
        }
        Ok(())
    }
}

/// Returns the number of bytes of a row, and more for an addition than it takes.
fn size(write: &Write) -> usize {
    let (cell, value) = match write {
        Write::Table { table, key, value } => (Cell::Table(table.clone(), key.clone()), value.as_ref()),
        Write::Var { name, value } => (Cell::Var(name.clone()), value.as_ref()),
        Write::Add { name, .. } => (Cell::Var(name.clone()), Some(&Value::Int(i128::MAX))),
        _ => return 0,
    };
    // A value without a form counts as too large.
    let of_cell = postcard::experimental::serialized_size(&cell).unwrap_or(usize::MAX / 4);
    of_cell + value.map_or(0, |value| postcard::experimental::serialized_size(value).unwrap_or(usize::MAX / 4))
}

/// Whether a state can be written.
#[derive(Clone, Debug, Default)]
pub(super) enum Gate {
    #[default]
    Open,
    Limited(Arc<CommitLimits>),
    /// The state can't be written, for this reason.
    Closed(Arc<str>),
}

impl Gate {
    /// Checks that one commit can make all these writes.
    ///
    /// # Errors
    /// [`Mismatch::Closed`], if one is of a table or a variable and can't be made.
    pub fn check<'a>(&self, writes: impl Iterator<Item = &'a Write>) -> Result<(), Mismatch> {
        if matches!(self, Gate::Open) {
            return Ok(());
        }
        let writes: Vec<(String, &Write)> = writes.filter_map(|write| Some((place(write)?, write))).collect();
        let Some((first, _)) = writes.last() else { return Ok(()) };
        let why = match self {
            Gate::Open => return Ok(()),
            Gate::Limited(limits) => {
                let writes: Vec<&Write> = writes.iter().map(|(_, write)| *write).collect();
                match limits.check(&writes) {
                    Ok(()) => return Ok(()),
                    Err(why) => why.into(),
                }
            }
            Gate::Closed(why) => Arc::clone(why),
        };
        Err(Mismatch::Closed { place: first.clone(), why })
    }

    /// Reports whether nothing can be written.
    pub fn is_closed(&self) -> bool {
        matches!(self, Gate::Closed(_))
    }
}

/// Names the table or variable of a write, for people.
fn place(write: &Write) -> Option<String> {
    match write {
        Write::Table { table, .. } => Some(format!("the table {table}")),
        Write::Var { name, .. } | Write::Add { name, .. } => Some(format!("the variable {name}")),
        _ => None,
    }
}

impl Snapshot {
    /// Checks that one commit can make all these writes: that tables and variables can be written, and that the writes
    /// are within the limits of a commit.
    ///
    /// # Errors
    /// [`Mismatch::Closed`] with the reason.
    pub fn check_commit<'a>(&self, writes: impl IntoIterator<Item = &'a Write>) -> Result<(), Mismatch> {
        self.declared().gate.check(writes.into_iter())
    }

    /// Returns the writes that put all that tables and variables hold.
    pub fn contents(&self) -> Vec<Write> {
        self.changes_since(&Snapshot::default())
    }
}

impl Store {
    /// Refuses each write to a table or a variable from now on, for this reason ([`Mismatch::Closed`]): those of
    /// transactions, which panic as for a value of another type, and those of [`Store::change`]. A transaction that has
    /// written already does not commit: when this returns, the last one has. What is there stays, and can be read.
    pub fn close(&self, why: &str) {
        self.set_gate(Gate::Closed(why.into()));
    }

    /// Lets tables and variables be written, by commits within these limits.
    pub fn open(&self, limits: &Arc<CommitLimits>) {
        self.set_gate(Gate::Limited(Arc::clone(limits)));
    }

    fn set_gate(&self, gate: Gate) {
        let mut inner = self.lock();
        let next = Arc::new(self.newest().with_gate(gate));
        // The snapshot before has other declarations, which no write repeats.
        inner.spare = DoubleBuffer::default();
        self.make_move(&mut inner, |_| self.current.store(next));
    }

    /// Writes what others have written that keep this state too, whether the gate is shut or not. The journal does not
    /// receive it. `decide` derives the writes from the newest snapshot; no other commit can come between.
    pub fn follow(&self, written: Written, decide: impl FnOnce(&Snapshot) -> Vec<Write>) -> Commit {
        let _pass = self.pass();
        let ((commit, wake), _) = self.use_locked(|inner| {
            let newest = self.newest();
            let writes = decide(&newest);
            self.record_writes(inner, true, &writes);
            let journal = inner.kept.take_journal();
            let published = self.publish(inner, newest, writes, &Author::Known(Box::new(written), Vec::new()));
            inner.kept.put_journal(journal);
            published
        });
        wake.into_iter().for_each(std::task::Waker::wake);
        commit
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::time::SystemTime;

    use super::*;
    use crate::state::{Journal, Table, Tx, Writer};

    fn mode(value: &str) -> Vec<Write> {
        vec![Write::Var { name: "mode".into(), value: Some(value.into()) }]
    }

    fn row(key: i64, value: &str) -> Write {
        Write::Table { table: "t".into(), key: key.into(), value: Some(value.into()) }
    }

    fn written() -> Written {
        Written { by: Writer::Cluster, at: SystemTime::UNIX_EPOCH }
    }

    #[derive(Default)]
    struct Recorded(Mutex<Vec<(u64, Vec<Write>)>>);

    impl Journal for Recorded {
        fn append(&self, version: u64, writes: &[Write]) {
            self.0.lock().expect("no test panics in it").push((version, writes.to_vec()));
        }
    }

    /// Writes `t[KEY] = "x"` for each of these keys in one transaction.
    fn sets(store: &Store, keys: std::ops::Range<i64>) -> Result<Commit, String> {
        let run = || {
            let tx = Tx::new(store.begin());
            keys.for_each(|key| Table::<i64, String>::new("t").set(&tx, &key, &"x".to_owned()));
            tx.into_txn()
        };
        let txn = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
        let txn = txn.map_err(|why| *why.downcast::<String>().expect("a text"))?;
        store.commit(txn, None).map_err(|error| error.to_string())
    }

    #[test]
    fn a_transaction_writes_no_more_than_the_limits_say() {
        let store = Store::new();
        store.open(&Arc::new(CommitLimits::new(3, 100, "so says a test")));
        sets(&store, 0..3).expect("three rows");
        let error = sets(&store, 10..14).expect_err("four rows");
        assert_eq!(error, "the table t can't be written: one transaction writes at most 3 rows (so says a test)");
        sets(&store, 0..4).expect("three of four are there already");
        let all = |count: i64| (20..20 + count).map(|key| row(key, "x")).collect();
        store.change(all(3)).expect("three rows");
        store.change(all(4)).expect_err("four rows");
        let long = "x".repeat(100);
        let error = store.change(vec![row(1, &long)]).expect_err("too long").to_string();
        assert_eq!(error, "the table t can't be written: one transaction writes at most 100 bytes (so says a test)");
        // A write to the network is not bounded, because the network is not a table.
        drop(store.change((0..9).map(|cost| Write::CostName(format!("c{cost}").into())).collect()).expect("no tables"));
        assert_eq!(store.snapshot().table("t").map(|rows| rows.len()), Some(7));
    }

    #[test]
    fn writes_are_refused_while_too_many_wait() {
        let (store, limits) = (Store::new(), Arc::new(CommitLimits::new(3, 100, "so says a test")));
        store.open(&limits);
        limits.set_full(true);
        let error = store.change(mode("day")).expect_err("it is full").to_string();
        assert_eq!(error, "the variable mode can't be written: too many writes wait until they are kept");
        limits.set_full(false);
        store.change(mode("day")).expect("it is not");
    }

    #[test]
    fn writes_of_others_pass_the_closed_gate_and_are_not_in_the_journal() {
        let (store, reported) = (Store::new(), Arc::<Recorded>::default());
        store.share(Arc::clone(&reported) as Arc<dyn Journal>);
        store.close("of a test");
        let commit = store.follow(written(), |_| mode("night"));
        assert_eq!((commit.kept, store.snapshot().var("mode")), (None, Some(&"night".into())));
        assert_eq!(store.last_write(&Cell::Var("mode".into())).map(|written| written.by), Some(Writer::Cluster));
        store.open(&Arc::new(CommitLimits::new(3, 100, "so says a test")));
        let commit = store.change(mode("day")).expect("it is open");
        let version = store.snapshot().version();
        assert_eq!(commit.kept, Some(version));
        assert_eq!(*reported.0.lock().expect("no test panics in it"), [(version, mode("day"))]);
        assert_eq!(store.snapshot().contents(), mode("day"));
    }
}
