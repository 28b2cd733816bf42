//! The state of an app: its store, its tables and variables, and what of them survives restarts.

use std::path::PathBuf;
use std::sync::Arc;

use maple_controller::StartError;
use maple_core::state::{Attempt, Migrate, RowMap, Store, Stored, Table, Tx, Var, version_of};

use super::App;
use crate::state::Tracked;

impl App {
    /// Keeps the program's state in this store, which may have contents. The app does not start if state was declared
    /// or written before ([`StartError::LateStore`]), since this store does not have it.
    ///
    /// ```
    /// # use maple::testing::*;
    /// let store = maple::state::Store::new();
    /// let open = Var::new("open", false);
    /// let app = App::new(flood).store(store.clone()).with_state(|tx| open.set(tx, &true));
    /// assert!(open.get(&store.view()));
    ///
    /// let late = App::new(flood).var(&open).store(store);
    /// assert!(matches!(late.start(), Err(maple::controller::StartError::LateStore)));
    /// ```
    pub fn store(mut self, store: Arc<Store>) -> App {
        self.options.store = store;
        let declared = if self.has_state { Err(StartError::LateStore) } else { Ok(()) };
        self.declared(declared)
    }

    /// Writes tracked state before the first packet.
    ///
    /// ```
    /// use maple::prelude::*;
    ///
    /// let blocked = Table::<Mac, bool>::new("blocked");
    /// let policy = |_: &Packet, net: &Net| net.flood();
    /// let app = App::new(policy).table(&blocked).with_state(|tx| blocked.set(tx, &Mac([2, 0, 0, 0, 0, 1]), &true));
    /// assert_eq!(blocked.get(&app.options().store.view(), &Mac([2, 0, 0, 0, 0, 1])), Some(true));
    /// ```
    ///
    /// # Panics
    /// If it writes a value of a type other than its table or variable is declared with.
    pub fn with_state(mut self, write: impl FnMut(&Tx)) -> App {
        write_now(self.store_in_use(), write);
        self
    }

    /// Sets the file for state that survives restarts: see [`App::keep`].
    ///
    /// ```
    /// # use maple::testing::*;
    /// let app = App::new(flood).state_file("/var/lib/maple/state");
    /// assert_eq!(app.options().memory.state_file, Some("/var/lib/maple/state".into()));
    /// ```
    pub fn state_file(mut self, path: impl Into<PathBuf>) -> App {
        self.options.memory.state_file = Some(path.into());
        self
    }

    /// Makes a table, a variable or a counter survive restarts, in the file of [`App::state_file`].
    ///
    /// ```
    /// use maple::prelude::*;
    ///
    /// # let path = std::env::temp_dir().join(format!("maple-keep-{}.redb", std::process::id()));
    /// # let app = || App::new(|_: &Packet, net: &Net| net.flood()).listen(([127, 0, 0, 1], 0)).workers(1);
    /// let packets = Counter::new("packets");
    /// let controller = app().keep(&packets).state_file(&path).with_state(|tx| packets.add(tx, 7)).start()?;
    /// controller.stop();
    ///
    /// let again = app().keep(&packets).state_file(&path).start()?;
    /// assert_eq!(packets.get(&again.handle().store().view()), 7);
    /// # drop(again);
    /// # std::fs::remove_file(&path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// The app does not start if another version of the table is declared.
    pub fn keep(mut self, what: &impl Tracked) -> App {
        self.store_in_use().keep(what.name());
        self.versioned(what.name(), None)
    }

    /// Declares this program's version of a table.
    fn versioned(mut self, name: &str, migrate: Option<Migrate>) -> App {
        let (table, version) = version_of(name);
        let declared = self.store_in_use().declare_version(table, version, migrate);
        self.declared(declared.map_err(StartError::Version))
    }

    /// Returns the store, for state that is declared or written.
    pub(super) fn store_in_use(&mut self) -> &Arc<Store> {
        self.has_state = true;
        &self.options.store
    }

    /// Remembers the first declaration that failed: the app does not start then.
    fn declared<T>(mut self, declared: Result<T, StartError>) -> App {
        self.failed = self.failed.or(declared.err());
        self
    }

    /// Converts the rows of an earlier version of a table, which an earlier program left in the file of
    /// [`App::state_file`]. `migrate` gets the earlier version and its rows, and returns all rows in their present
    /// form. The app does not start if that returns an error, a text for people, or if another version of the table is
    /// declared.
    ///
    /// ```
    /// use maple::prelude::*;
    ///
    /// # let path = std::env::temp_dir().join(format!("maple-migrate-{}.redb", std::process::id()));
    /// # let app = || App::new(|_: &Packet, net: &Net| net.flood()).listen(([127, 0, 0, 1], 0)).workers(1).state_file(&path);
    /// // Version 1 had `true` for each blocked host; version 2 has a reason.
    /// let (host, before) = (Mac([2, 0, 0, 0, 0, 1]), Table::<Mac, bool>::versioned("blocked", 1));
    /// app().keep(&before).with_state(|tx| before.set(tx, &host, &true)).start()?.stop();
    ///
    /// let blocked = Table::<Mac, String>::versioned("blocked", 2);
    /// let app = app().keep(&blocked).migrate(&blocked, |_version, rows| {
    ///     Ok(rows.into_keys().map(|host| (host, "unknown".into())).collect())
    /// });
    /// let controller = app.start()?;
    /// assert_eq!(blocked.get(&controller.handle().store().view(), &host), Some("unknown".to_owned()));
    /// # drop(controller);
    /// # std::fs::remove_file(&path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn migrate<K: Stored, V: Stored>(
        self,
        table: &Table<K, V>,
        migrate: impl Fn(u32, RowMap) -> Result<RowMap, String> + Send + Sync + 'static,
    ) -> App {
        self.versioned(table.name(), Some(Arc::new(migrate)))
    }

    /// Sets the types of a table's keys and values. `maple state` shows them, converts its arguments to them, and
    /// refuses values of other types. The app does not start if the table is declared with other types or another
    /// version, or if something else was written to it.
    ///
    /// ```
    /// # use maple::testing::*;
    /// # use maple::controller::StartError;
    /// let app = App::new(flood).table(&Table::<Mac, bool>::new("blocked"));
    /// assert_eq!(app.options().store.snapshot().types("blocked").unwrap().to_string(), "Mac -> bool");
    ///
    /// let otherwise = app.table(&Table::<Mac, String>::new("blocked"));
    /// assert!(matches!(otherwise.start(), Err(StartError::Declaration(_))));
    /// ```
    pub fn table<K: Stored, V: Stored>(mut self, table: &Table<K, V>) -> App {
        // No leaf depends on the table yet, so none is invalidated.
        let declared = self.store_in_use().declare_types(table.name(), Table::<K, V>::types());
        self.declared(declared.map_err(StartError::Declaration)).versioned(table.name(), None)
    }

    /// Sets the initial value and the type of a variable, for people who look at the state from outside. The app
    /// does not start if the variable is declared with another type, or holds a value of another type.
    ///
    /// ```
    /// # use maple::testing::*;
    /// let app = App::new(flood).var(&Var::new("open", false));
    /// assert_eq!(app.options().store.snapshot().kind("open").unwrap().to_string(), "bool");
    /// ```
    pub fn var<V: Stored + Clone>(mut self, var: &Var<V>) -> App {
        let store = self.store_in_use();
        store.declare_var(var.name(), var.initial().to_value());
        let declared = store.declare_kind(var.name(), V::kind());
        self.declared(declared.map_err(StartError::Declaration))
    }
}

/// Runs a transaction on a store that no controller follows.
pub(crate) fn write_now(store: &Store, mut write: impl FnMut(&Tx)) {
    // If another thread wrote what the transaction read, the transaction runs again.
    let mut attempt = || {
        store.attempt(|tx| {
            write(tx);
            Ok(())
        })
    };
    while !matches!(attempt(), Attempt::Done((), _)) {}
}
