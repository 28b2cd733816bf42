//! Versions of tables, for policies whose tables have rows of another shape than those of the policy before.
//!
//! Version 2 of the table `blocked` is the table `blocked#2`. So while a new policy is tried, it has its own rows, and
//! the policy that runs has those that it always had. The variable `blocked#version` says which version is in use; 1 if
//! it is not set. It is committed together with the rows, and kept with them.
//!
//! The new rows are made from those in use ([`Store::migrate`]): when a policy is to be tried, and once more just
//! before it takes over ([`Store::adopt_versions`]). The old policy may have written meanwhile, and the new one too, if
//! it already decides at some switches. So when rows are made again, only those that differ from the ones made before
//! are written. The old rows stay until another policy takes over, for a way back ([`Store::roll_back_versions`]), but
//! not over a restart. Slices have the versions of the tables that they call by the same name.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::names::{is_named, outside_of_slices};
use super::{Commit, Mismatch, Name, Snapshot, Store, Value, Write};

/// The rows of a table.
pub type RowMap = BTreeMap<Value, Value>;

/// A function that makes rows of a version of a table from those of an earlier version, whose number it gets. The error
/// is a text for people.
pub type Migrate = Arc<dyn Fn(u32, RowMap) -> Result<RowMap, String> + Send + Sync>;

/// The reason why a version of a table cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VersionError {
    /// The policy declares two versions of the table.
    #[error("the table {table} is declared twice: with version {before}, and with version {now}")]
    Twice {
        /// The table, without a version.
        table: Name,
        /// The version that was declared first.
        before: u32,
        /// The version that was declared second.
        now: u32,
    },
    /// The rows are of a later version than the policy's.
    #[error(
        "the table {table} has rows of version {there}, and this policy is for version {wanted}: run the policy that \
         made them, or a later one"
    )]
    Later {
        /// The table, without a version.
        table: Name,
        /// The version of its rows.
        there: u32,
        /// The policy's version.
        wanted: u32,
    },
    /// No function makes the new rows.
    #[error(
        "the table {table} has rows of version {there}, and nothing says how to make those of version {wanted} from them"
    )]
    NoWay {
        /// The table, without a version.
        table: Name,
        /// The version of its rows.
        there: u32,
        /// The policy's version.
        wanted: u32,
    },
    /// The new rows cannot be made.
    #[error("the rows of the table {table} cannot be made from those of version {there}: {error}")]
    Failed {
        /// The table, without a version.
        table: Name,
        /// The version of its rows.
        there: u32,
        /// The text of the function that makes the rows.
        error: String,
    },
    /// The rows of the table have changed each time while new ones were made from them.
    #[error(
        "the rows of the table {table} changed while new ones were made from them, {MAX_ATTEMPTS} times in a row: stop what \
         writes them, or try again"
    )]
    Busy {
        /// The table, without a version.
        table: Name,
    },
    /// A row that was made is not of the type that the table was declared with.
    #[error("a row that was made from an earlier version of its table is of another type: {0}")]
    Type(#[from] Mismatch),
}

/// The number of times that new rows are made of rows that change meanwhile. Other writers cannot be made to wait,
/// because the policy's own code makes the rows and may write too.
const MAX_ATTEMPTS: u32 = Store::PATIENT;

/// The versions that policies declare.
#[derive(Clone, Debug, Default)]
pub(super) struct Versions {
    /// The versions of the policy that runs or is loaded, by table without a version.
    declared: BTreeMap<Name, Version>,
    /// The versions of the policy that runs, while another is loaded and tried.
    aside: Option<BTreeMap<Name, Version>>,
    /// The versions of the policy that ran before.
    former: BTreeMap<Name, Version>,
    /// The rows that were made for the policy that is loaded, by table.
    made: BTreeMap<Name, RowMap>,
}

/// The writes that make the rows of versions.
#[derive(Default)]
struct MigratedRows {
    writes: Vec<Write>,
    /// The tables that they were made from.
    from: Vec<Name>,
    rows: BTreeMap<Name, RowMap>,
}

#[derive(Clone)]
struct Version {
    number: u32,
    migrate: Option<Migrate>,
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.number.fmt(f)
    }
}

/// Returns the name of a version of a table.
pub fn versioned(table: &str, version: u32) -> Name {
    if version <= 1 { table.into() } else { format!("{table}#{version}").into() }
}

/// Splits a name into its table and version.
pub fn version_of(name: &str) -> (&str, u32) {
    let parts = name.rsplit_once('#').and_then(|(table, version)| Some((table, version.parse().ok()?)));
    parts.unwrap_or((name, 1))
}

/// Returns the name of the variable that holds the version in use.
pub fn version_var(table: &str) -> Name {
    format!("{table}#version").into()
}

/// Returns the version of a table that is in use. A table of a slice has that of the table outside, unless its own is
/// set.
fn in_use(state: &Snapshot, table: &str) -> u32 {
    let number = |table: &str| state.var(&version_var(table)).and_then(Value::as_int);
    let number = number(table).or_else(|| number(outside_of_slices(table)?));
    number.and_then(|number| u32::try_from(number).ok()).unwrap_or(1)
}

fn rows(state: &Snapshot, table: &str) -> RowMap {
    state.table(table).into_iter().flatten().map(|(key, value)| (key.clone(), value.clone())).collect()
}

impl Store {
    /// Declares that the policy has this version of a table. `migrate` makes its rows from those of an earlier version.
    ///
    /// # Errors
    /// [`VersionError::Twice`] if the policy has declared another version of the table.
    pub fn declare_version(&self, table: &str, version: u32, migrate: Option<Migrate>) -> Result<(), VersionError> {
        let declared = &mut self.versions().declared;
        let Version { number: before, migrate: known } =
            declared.entry(table.into()).or_insert(Version { number: version, migrate: None });
        if *before != version {
            return Err(VersionError::Twice { table: table.into(), before: *before, now: version });
        }
        *known = migrate.or(known.take());
        Ok(())
    }

    /// Returns the name of the version of a table that is in use; the table's own name if it has no versions.
    pub fn table_in_use(&self, table: &str) -> Name {
        versioned(table, in_use(&self.snapshot(), table))
    }

    /// Returns a table of which the policy has a later version than the first, or such a version is in use.
    pub fn versioned_table(&self) -> Option<Name> {
        let (versions, state) = (self.versions(), self.snapshot());
        let declared =
            versions.declared.iter().filter(|(_, version)| version.number > 1).map(|(table, _)| table.clone());
        let used = state.vars().filter_map(|var| Some(Name::from(var.strip_suffix("#version")?)));
        declared.chain(used).next()
    }

    /// Reports whether the declared versions of all tables are those that are in use.
    pub fn uses_declared_versions(&self) -> bool {
        let (declared, state) = (&self.versions().declared, self.snapshot());
        declared.iter().all(|(table, version)| in_use(&state, table) == version.number)
    }

    /// Starts collecting the versions that a candidate policy declares.
    pub fn begin_versions(&self) {
        let versions = &mut *self.versions();
        let declared = std::mem::take(&mut versions.declared);
        versions.aside.get_or_insert(declared);
        versions.made.clear();
    }

    /// Makes the rows of declared versions that are not in use.
    ///
    /// # Errors
    /// [`VersionError`] if the rows cannot be made; no rows are changed then.
    pub fn migrate(&self) -> Result<Commit, VersionError> {
        self.make_versions(|_, _| Vec::new())
    }

    /// Puts the declared versions in use, for the policy that is about to run. With `can_go_back` the rows of the
    /// versions that were in use stay.
    ///
    /// # Errors
    /// [`VersionError`] if the rows cannot be made; nothing is changed then.
    pub fn adopt_versions(&self, can_go_back: bool) -> Result<Commit, VersionError> {
        let commit = self.make_versions(|state, declared| {
            let mut writes = Vec::new();
            for (table, version) in declared {
                let used = in_use(state, table);
                writes.extend((used != version.number).then(|| uses(table, version.number)));
                let is_old = |number: &u32| *number != used || !can_go_back;
                writes.extend((1..version.number).filter(is_old).flat_map(|number| emptied(state, table, number)));
            }
            writes
        })?;
        let versions = &mut *self.versions();
        versions.former = versions.aside.take().unwrap_or_default();
        versions.made.clear();
        Ok(commit)
    }

    /// Makes the rows of declared versions that are not in use, in one commit with the writes of `more`. The rows that
    /// they are made from are the newest at that commit.
    fn make_versions(
        &self,
        more: impl Fn(&Snapshot, &BTreeMap<Name, Version>) -> Vec<Write>,
    ) -> Result<Commit, VersionError> {
        let mut changed = Name::default();
        for _ in 0..MAX_ATTEMPTS {
            let Versions { declared, made: last, .. } = self.versions().clone();
            let (state, mut made) = (self.snapshot(), MigratedRows::default());
            for (table, version) in declared.iter().filter(|(table, version)| in_use(&state, table) != version.number) {
                made.add(&state, table, version, &last)?;
            }
            let mut writes = more(&state, &declared);
            for write in made.writes {
                writes.push(state.normalise(&write)?.unwrap_or(write));
            }
            state.check_commit(&writes)?;
            let mut other = None;
            let commit = self.update(|newest| {
                other = made.from.iter().find(|table| rows(newest, table) != rows(&state, table));
                if other.is_none() { writes } else { Vec::new() }
            });
            match other {
                None => {
                    self.versions().made.extend(made.rows);
                    return Ok(commit);
                }
                Some(table) => changed = version_of(table).0.into(),
            }
        }
        Err(VersionError::Busy { table: changed })
    }

    /// Discards the versions and the new rows of the policy that was loaded, which is not to run.
    pub fn refuse_versions(&self) -> Commit {
        let versions = &mut *self.versions();
        let Some(aside) = versions.aside.take() else { return Commit::default() };
        let refused = std::mem::replace(&mut versions.declared, aside);
        versions.made.clear();
        self.update(|state| {
            let unused = refused.iter().filter(|(table, version)| in_use(state, table) < version.number);
            unused.flat_map(|(table, version)| emptied(state, table, version.number)).collect()
        })
    }

    /// Puts the versions of the former policy in use again, with the rows that they had.
    pub fn roll_back_versions(&self) -> Commit {
        let versions = &mut *self.versions();
        let former = std::mem::take(&mut versions.former);
        let left = std::mem::replace(&mut versions.declared, former);
        let back = &versions.declared;
        self.update(|state| {
            let mut writes = Vec::new();
            for (table, version) in &left {
                let number = back.get(table).map_or(1, |former| former.number);
                if number < version.number && in_use(state, table) == version.number {
                    writes.extend(emptied(state, table, version.number));
                    writes.push(uses(table, number));
                }
            }
            writes
        })
    }
}

fn uses(table: &Name, number: u32) -> Write {
    Write::Var { name: version_var(table), value: Some(Value::from(i64::from(number))) }
}

/// Returns the tables of a version: the one outside of slices, and those of slices.
fn tables_of(state: &Snapshot, table: &str, number: u32) -> Vec<Name> {
    let name = versioned(table, number);
    state.tables().filter(|of| is_named(of, &name)).cloned().collect()
}

/// Returns the writes that remove all rows of a version.
fn emptied(state: &Snapshot, table: &str, number: u32) -> Vec<Write> {
    let deletions = |table: Name| {
        let keys: Vec<Value> = state.table(&table).into_iter().flatten().map(|(key, _)| key.clone()).collect();
        keys.into_iter().map(move |key| Write::Table { table: table.clone(), key, value: None })
    };
    tables_of(state, table, number).into_iter().flat_map(deletions).collect()
}

impl MigratedRows {
    /// Makes the rows of a version from those in use. Only the differences from `last`, the rows that were made before,
    /// are written. A table without rows gets none.
    fn add(
        &mut self,
        state: &Snapshot,
        table: &Name,
        version: &Version,
        last: &BTreeMap<Name, RowMap>,
    ) -> Result<(), VersionError> {
        let (there, wanted) = (in_use(state, table), version.number);
        let table_name = || table.clone();
        if there > wanted {
            return Err(VersionError::Later { table: table_name(), there, wanted });
        }
        let mut from = tables_of(state, table, there);
        // A table that is empty by now may have had rows before.
        let before = last.keys().filter(|name| is_named(name, &versioned(table, wanted)));
        from.extend(before.map(|name| versioned(version_of(name).0, there)));
        from.sort_unstable();
        from.dedup();
        for source in from {
            let old = rows(state, &source);
            let target = versioned(version_of(&source).0, wanted);
            let new = match &version.migrate {
                _ if old.is_empty() => RowMap::new(),
                None => return Err(VersionError::NoWay { table: table_name(), there, wanted }),
                Some(migrate) => {
                    migrate(there, old).map_err(|error| VersionError::Failed { table: table_name(), there, error })?
                }
            };
            let before = last.get(&target).cloned().unwrap_or_else(|| rows(state, &target));
            let gone = before.keys().filter(|key| !new.contains_key(key)).map(|key| (key.clone(), None));
            let changed = new.iter().filter(|(key, value)| before.get(key) != Some(value));
            let changed = changed.map(|(key, value)| (key.clone(), Some(value.clone())));
            let write = |(key, value)| Write::Table { table: target.clone(), key, value };
            self.writes.extend(gone.chain(changed).map(write));
            self.rows.insert(target, new);
            self.from.push(source);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    fn put(store: &Store, table: &str, key: &str, value: impl Into<Value>) {
        let write = Write::Table { table: table.into(), key: key.into(), value: Some(value.into()) };
        drop(store.change(vec![write]).expect("it has no types"));
    }

    /// Makes version 2, which has each value with "since" the version that it was made from.
    fn since() -> Option<Migrate> {
        let with_origin = |from: u32, value: &Value| Value::from(format!("{value} since {from}"));
        Some(Arc::new(move |from, rows: RowMap| {
            Ok(rows.iter().map(|(key, value)| (key.clone(), with_origin(from, value))).collect())
        }))
    }

    fn text(store: &Store, table: &str) -> Vec<String> {
        rows(&store.snapshot(), table).iter().map(|(key, value)| format!("{key} {value}")).collect()
    }

    #[test]
    fn a_later_version_is_made_from_the_rows_in_use_and_then_used() {
        let store = Store::new();
        store.declare_version("t", 1, None).expect("once");
        put(&store, "t", "a", 1);
        store.begin_versions();
        store.declare_version("t", 2, since()).expect("of another policy");
        drop(store.migrate().expect("there is a way"));
        assert_eq!(
            (text(&store, "t"), text(&store, "t#2")),
            (vec!["\"a\" 1".to_owned()], vec!["\"a\" \"1 since 1\"".into()])
        );
        assert_eq!(&*store.table_in_use("t"), "t", "it is only tried");
        // The policy that runs goes on writing.
        put(&store, "t", "b", 2);
        drop(store.adopt_versions(true).expect("there is a way"));
        assert_eq!(text(&store, "t#2"), ["\"a\" \"1 since 1\"", "\"b\" \"2 since 1\""]);
        assert_eq!(&*store.table_in_use("t"), "t#2");
        // Declared again, the version makes nothing from old rows.
        put(&store, "t#2", "c", 3);
        store.begin_versions();
        store.declare_version("t", 2, since()).expect("as before");
        drop(store.migrate().expect("nothing to do"));
        drop(store.adopt_versions(true).expect("nothing to do"));
        assert_eq!(text(&store, "t#2").len(), 3);
        assert_eq!(text(&store, "t"), [""; 0], "two policies ago");
        // A third version skips none.
        store.begin_versions();
        store.declare_version("t", 3, since()).expect("of another policy");
        drop(store.migrate().expect("there is a way"));
        drop(store.adopt_versions(false).expect("there is a way"));
        assert_eq!(text(&store, "t#3")[2], "\"c\" \"3 since 2\"");
        assert_eq!(text(&store, "t#2"), [""; 0]);
    }

    #[test]
    fn rows_that_change_while_new_ones_are_made_are_made_again_but_not_for_ever() {
        for (changes, succeeds) in [(3, true), (u32::MAX, false)] {
            let store = Store::new();
            put(&store, "t", "a", 0);
            store.begin_versions();
            let (of_closure, runs) = (Arc::downgrade(&store), Arc::new(AtomicU32::new(0)));
            let count = Arc::clone(&runs);
            let migrate: Migrate = Arc::new(move |_, rows: RowMap| {
                let run = count.fetch_add(1, Ordering::Relaxed);
                if run < changes {
                    put(&of_closure.upgrade().expect("it is there"), "t", "a", i64::from(run) + 1);
                }
                Ok(rows)
            });
            store.declare_version("t", 2, Some(migrate)).expect("of another policy");
            let made = store.migrate();
            if succeeds {
                made.expect("it is at rest");
                assert_eq!(text(&store, "t#2"), ["\"a\" 3"], "from the newest");
                assert_eq!(runs.load(Ordering::Relaxed), 4);
            } else {
                assert_eq!(made.unwrap_err(), VersionError::Busy { table: "t".into() });
                assert_eq!((text(&store, "t#2"), runs.load(Ordering::Relaxed)), (Vec::new(), MAX_ATTEMPTS));
            }
        }
    }

    #[test]
    fn rows_that_both_policies_wrote_in_the_meantime_stay() {
        let store = Store::new();
        ["a", "b", "c"].into_iter().for_each(|key| put(&store, "t", key, 1));
        put(&store, "red/t", "r", 1);
        store.begin_versions();
        store.declare_version("t", 2, since()).expect("once");
        drop(store.migrate().expect("there is a way"));
        // The new policy decides at some switches already, and the old one at the others.
        put(&store, "t#2", "new", "own");
        put(&store, "t#2", "a", "own");
        put(&store, "t", "b", 2);
        drop(store.change(vec![Write::Table { table: "t".into(), key: "c".into(), value: None }]).expect("no types"));
        drop(store.adopt_versions(true).expect("there is a way"));
        assert_eq!(text(&store, "t#2"), ["\"a\" \"own\"", "\"b\" \"2 since 1\"", "\"new\" \"own\""]);
        assert_eq!(text(&store, "red/t#2"), ["\"r\" \"1 since 1\""], "slices have versions too");
        assert_eq!(&*store.table_in_use("red/t"), "red/t#2");
        drop(store.roll_back_versions());
        assert_eq!((text(&store, "red/t").len(), text(&store, "red/t#2").len()), (1, 0));
        assert_eq!(&*store.table_in_use("red/t"), "red/t");
    }

    #[test]
    fn rows_are_made_from_what_is_newest() {
        let store = Store::new();
        put(&store, "t", "a", 1);
        let (of, calls) = (Arc::downgrade(&store), std::sync::atomic::AtomicU32::new(0));
        // Somebody writes while rows are made.
        let slow: Migrate = Arc::new(move |_, rows| {
            if calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed) < 2 {
                put(&of.upgrade().expect("it is there"), "t", "late", 1);
            }
            Ok(rows)
        });
        store.declare_version("t", 2, Some(slow)).expect("once");
        drop(store.adopt_versions(false).expect("there is a way"));
        assert_eq!(text(&store, "t#2"), ["\"a\" 1", "\"late\" 1"]);
        assert_eq!(text(&store, "t"), [""; 0]);
    }

    #[test]
    fn a_policy_that_is_refused_leaves_nothing_and_a_way_back_has_the_old_rows() {
        let store = Store::new();
        put(&store, "t", "a", 1);
        store.begin_versions();
        store.declare_version("t", 2, since()).expect("once");
        drop(store.migrate().expect("there is a way"));
        drop(store.refuse_versions());
        assert_eq!((text(&store, "t").len(), text(&store, "t#2").len()), (1, 0));
        store.begin_versions();
        store.declare_version("t", 2, since()).expect("once");
        drop(store.adopt_versions(true).expect("there is a way"));
        assert_eq!((text(&store, "t").len(), text(&store, "t#2").len()), (1, 1));
        drop(store.roll_back_versions());
        assert_eq!((text(&store, "t").len(), text(&store, "t#2").len()), (1, 0));
        assert_eq!(&*store.table_in_use("t"), "t");
    }

    #[test]
    fn a_failed_migration_is_an_error_that_changes_nothing() {
        let store = Store::new();
        put(&store, "t", "a", 1);
        store.begin_versions();
        store.declare_version("t", 2, None).expect("once");
        let error = store.migrate().expect_err("no way").to_string();
        assert_eq!(
            error,
            "the table t has rows of version 1, and nothing says how to make those of version 2 from them"
        );
        assert!(store.declare_version("t", 3, None).is_err());
        store.declare_version("t", 2, Some(Arc::new(|_, _| Err("it is full".into())))).expect("the same");
        let error = store.migrate().expect_err("it fails").to_string();
        assert_eq!(error, "the rows of the table t cannot be made from those of version 1: it is full");
        drop(store.refuse_versions());
        store.begin_versions();
        store.declare_version("t", 3, since()).expect("once");
        drop(store.adopt_versions(true).expect("there is a way"));
        store.begin_versions();
        store.declare_version("t", 2, since()).expect("once");
        let error = store.migrate().expect_err("it is older").to_string();
        assert!(error.starts_with("the table t has rows of version 3, and this policy is for version 2"), "{error}");
        assert_eq!(text(&store, "t#3"), ["\"a\" \"1 since 1\""]);
    }

    #[test]
    fn rows_that_a_policy_makes_while_it_is_loaded_stay_if_there_were_none() {
        let store = Store::new();
        store.declare_version("t", 2, since()).expect("once");
        put(&store, "t#2", "a", 1);
        drop(store.migrate().expect("nothing to do"));
        drop(store.adopt_versions(false).expect("nothing to do"));
        assert_eq!((text(&store, "t#2").len(), &*store.table_in_use("t")), (1, "t#2"));
    }
}
