//! The tables and variables that survive a restart, and the journal that receives writes to them.
//!
//! Core itself writes no file. A [`Journal`] does: it receives the kept writes of each commit, in the order of commits,
//! before any reader can see what was written.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::task::Waker;

use super::last_writes::Author;
use super::names::{is_named, outside_of_slices};
use super::versions::{version_of, version_var};
use super::{Name, Snapshot, Store, Write, Written};

/// A receiver of the writes that are to survive a restart.
pub trait Journal: Send + Sync {
    /// Receives the writes of the commit that makes this version: tables and variables, as they are after it. Called
    /// under the store's lock, so it must neither wait nor use the store.
    fn append(&self, version: u64, writes: &[Write]);
}

/// The kept names, and the journal that receives writes to them.
#[derive(Default)]
pub(super) struct KeptNames {
    names: BTreeSet<Name>,
    /// Whether all names are kept.
    all: bool,
    journal: Option<Arc<dyn Journal>>,
}

impl fmt::Debug for KeptNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(&self.names).finish()
    }
}

impl KeptNames {
    /// Gives the journal the kept writes of a commit. Returns the version to wait for, if there were any.
    pub fn record(&self, writes: &[Write], next: &Snapshot) -> Option<u64> {
        let journal = self.journal.as_ref()?;
        let kept: Vec<Write> =
            writes.iter().filter(|write| self.has(write)).map(|write| as_whole_value(write, next)).collect();
        if kept.is_empty() {
            return None;
        }
        journal.append(next.version, &kept);
        Some(next.version)
    }

    fn has(&self, write: &Write) -> bool {
        match write {
            Write::Table { table: name, .. } | Write::Var { name, .. } | Write::Add { name, .. } => {
                self.all || self.has_name(name)
            }
            _ => false,
        }
    }

    /// Takes the journal, so that it does not receive a commit.
    pub fn take_journal(&mut self) -> Option<Arc<dyn Journal>> {
        self.journal.take()
    }

    /// Puts the journal back.
    pub fn put_journal(&mut self, journal: Option<Arc<dyn Journal>>) {
        self.journal = journal;
    }

    /// Reports whether this name is kept, as it stands or without its slice.
    fn has_name(&self, name: &str) -> bool {
        self.names.contains(name) || outside_of_slices(name).is_some_and(|name| self.names.contains(name))
    }
}

impl Store {
    /// Makes the table and the variable of this name survive restarts, and those that slices call by this name, if the
    /// controller keeps state at all. For a later version of a table, the number of the version in use is kept too.
    pub fn keep(&self, name: &str) {
        if let (table, 2..) = version_of(name) {
            self.keep(&version_var(table));
        }
        let mut inner = self.lock();
        if inner.kept.names.insert(name.into())
            && let Some(journal) = &inner.kept.journal
        {
            let state = self.snapshot();
            journal.append(state.version, &contents(&state, &name.into()));
        }
    }

    /// Returns the kept names.
    pub fn kept(&self) -> Vec<Name> {
        self.lock().kept.names.iter().cloned().collect()
    }

    /// Reports whether the table and the variable of this name are kept.
    pub fn keeps(&self, name: &str) -> bool {
        self.lock().kept.has_name(name)
    }

    /// Starts to give `journal` each write to a kept name. First replaces the contents of the names that the journal
    /// `knows` by `kept`, and keeps these names too. For each other kept name the journal receives the present
    /// contents. `written` says who wrote what is restored, and when.
    pub fn keep_in(&self, journal: Arc<dyn Journal>, knows: &[Name], kept: Vec<Write>, written: Written) {
        let mut inner = self.lock();
        let state = self.snapshot();
        let before = knows.iter().flat_map(|name| contents(&state, name)).map(without_value);
        let writes: Vec<Write> = before.chain(kept).collect();
        // The journal does not receive these writes: it has them already.
        self.record_writes(&inner, true, &writes);
        let author = Author::Known(Box::new(written), Vec::new());
        let (_, wake) = self.publish(&mut inner, self.newest(), writes, &author);
        let new: Vec<Write> = inner
            .kept
            .names
            .iter()
            .filter(|name| !knows.contains(name))
            .flat_map(|name| contents(&state, name))
            .collect();
        journal.append(self.snapshot().version, &new);
        inner.kept.names.extend(knows.iter().cloned());
        inner.kept.journal = Some(journal);
        drop(inner);
        wake.into_iter().for_each(Waker::wake);
    }
}

impl Store {
    /// Starts to give `journal` each write to any table and any variable, but none of [`Store::follow`].
    pub fn share(&self, journal: Arc<dyn Journal>) {
        let mut inner = self.lock();
        inner.kept.all = true;
        inner.kept.journal = Some(journal);
    }

    /// Starts to give `journal` each write to a kept name. The journal already holds what the store has of the names
    /// that it `knows`, and these are kept too. For each other kept name it receives the present contents.
    pub fn attach_journal(&self, journal: Arc<dyn Journal>, knows: &[Name]) {
        let mut inner = self.lock();
        let state = self.snapshot();
        let others = inner.kept.names.iter().filter(|name| !knows.contains(name));
        let new: Vec<Write> = others.flat_map(|name| contents(&state, name)).collect();
        journal.append(state.version, &new);
        inner.kept.names.extend(knows.iter().cloned());
        inner.kept.journal = Some(journal);
    }

    /// Returns the kept names, and the writes that put all that they hold.
    pub fn kept_contents(&self) -> (Vec<Name>, Vec<Write>) {
        let (names, state) = (self.kept(), self.snapshot());
        let all = names.iter().flat_map(|name| contents(&state, name)).collect();
        (names, all)
    }

    /// Replaces the contents of the names `knows` by `kept`, without making the names survive restarts.
    pub fn load_kept(&self, knows: &[Name], kept: Vec<Write>) {
        self.update(|state| {
            let before = knows.iter().flat_map(|name| contents(state, name)).map(without_value);
            before.chain(kept).collect()
        });
    }
}

impl Snapshot {
    /// Returns the writes to tables and variables that lead here from an earlier snapshot of the same store.
    ///
    /// ```
    /// use maple_core::{Store, state::Write};
    /// let store = Store::new();
    /// let before = store.snapshot();
    /// store.update(|_| vec![Write::Var { name: "mode".into(), value: Some("night".into()) }]);
    /// let changes = store.snapshot().changes_since(&before);
    /// assert_eq!(changes, [Write::Var { name: "mode".into(), value: Some("night".into()) }]);
    /// ```
    pub fn changes_since(&self, earlier: &Snapshot) -> Vec<Write> {
        let empty = super::Rows::default();
        let names: BTreeSet<&Name> = earlier.tables().chain(self.tables()).collect();
        let mut changes = Vec::new();
        for table in names {
            let (old, new) = (earlier.table(table).unwrap_or(&empty), self.table(table).unwrap_or(&empty));
            if old.is_unchanged_since(new) && old.len() == new.len() {
                continue;
            }
            let row = |key: &super::Value, value: Option<&super::Value>| Write::Table {
                table: table.clone(),
                key: key.clone(),
                value: value.cloned(),
            };
            changes.extend(old.keys().filter(|key| new.get(key).is_none()).map(|key| row(key, None)));
            let is_news = |(key, value): &(&super::Value, &super::Value)| old.get(key) != Some(*value);
            changes.extend(new.iter().filter(is_news).map(|(key, value)| row(key, Some(value))));
        }
        let vars: BTreeSet<&Name> = earlier.vars().chain(self.vars()).collect();
        let is_news = |name: &&Name| earlier.var(name) != self.var(name);
        let var = |name: &Name| Write::Var { name: name.clone(), value: self.var(name).cloned() };
        changes.extend(vars.into_iter().filter(is_news).map(var));
        changes
    }
}

/// Returns the writes that put all that the table and the variable of a name hold, and those that slices call so.
fn contents<'a>(state: &'a Snapshot, name: &Name) -> Vec<Write> {
    let row = |table: &Name, (key, value): (&super::Value, &super::Value)| Write::Table {
        table: table.clone(),
        key: key.clone(),
        value: Some(value.clone()),
    };
    let rows = |table: &'a Name| state.table(table).into_iter().flatten().map(move |entry| row(table, entry));
    let var = |var: &Name| {
        let value = state.var(var)?.clone();
        Some(Write::Var { name: var.clone(), value: Some(value) })
    };
    let tables = state.tables().filter(|table| is_named(table, name));
    let vars = state.vars().filter(|var| is_named(var, name));
    tables.flat_map(rows).chain(vars.filter_map(var)).collect()
}

/// Returns the write that removes what this one puts.
fn without_value(write: Write) -> Write {
    match write {
        Write::Table { table, key, .. } => Write::Table { table, key, value: None },
        Write::Var { name, .. } => Write::Var { name, value: None },
        other => other,
    }
}

/// Returns the write in a form that does not depend on the state before it: for an addition, the value after it.
fn as_whole_value(write: &Write, next: &Snapshot) -> Write {
    match write {
        Write::Add { name, .. } => Write::Var { name: name.clone(), value: next.var(name).cloned() },
        other => other.clone(),
    }
}
