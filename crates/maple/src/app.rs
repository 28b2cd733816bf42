//! A policy or handlers, the settings that they run with, and the controller that runs them.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use maple_controller::listen::Subscription;
use maple_controller::snoop::Snooping;
use maple_controller::{Controller, ControllerOptions, Handle, StartError, Stopped};
use maple_core::network::{LinkName, Location};
use maple_core::state::{Attempt, Counter, Migrate, RowMap, Store, Stored, Table, Tx, Var, Write, version_of};
use maple_handlers::{HandlerFactory, Handlers};
use maple_wire::Dpid;

use crate::policy::{Policy, PolicyAdapter};

/// A function that [`App::on_start`] calls when the controller runs.
///
/// ```
/// let tell: maple::Started = Box::new(|controller| assert_ne!(controller.addresses()[0].port(), 0));
/// let app = maple::App::new(|_: &maple::Packet, net: &maple::Net| net.flood()).listen(([127, 0, 0, 1], 0)).workers(1);
/// app.on_start(tell).start()?;
/// # Ok::<(), maple::StartError>(())
/// ```
pub type Started = Box<dyn FnOnce(Handle)>;

/// A program for the network: a policy or handlers, with link costs, initial tables and threads.
///
/// ```
/// use std::net::Ipv4Addr;
///
/// use maple::prelude::*;
///
/// let app = App::new(|_: &Packet, net: &Net| net.flood()).listen((Ipv4Addr::LOCALHOST, 0)).workers(1);
/// let controller = app.start()?;
/// assert_ne!(controller.handle().addresses()[0].port(), 0);
/// controller.stop();
/// # Ok::<(), maple::StartError>(())
/// ```
#[must_use = "an app does nothing until it runs or starts"]
pub struct App {
    options: ControllerOptions,
    listens: bool,
    started: Vec<Started>,
}

impl fmt::Debug for App {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("App")
            .field("options", &self.options)
            .field("started", &self.started.len())
            .finish_non_exhaustive()
    }
}

/// State that has a name: a [`Table`], a [`Var`] or a [`Counter`].
///
/// ```
/// use maple::{Counter, Tracked as _};
///
/// assert_eq!(Counter::new("packets").name(), "packets");
/// ```
pub trait Tracked {
    /// Returns the name by which people and other programs find this state.
    ///
    /// ```
    /// use maple::{Tracked, Var};
    ///
    /// assert_eq!(Tracked::name(&Var::new("open", false)), "open");
    /// ```
    fn name(&self) -> &str;
}

impl<K: Stored, V: Stored> Tracked for Table<K, V> {
    fn name(&self) -> &str {
        Table::name(self)
    }
}

impl<V: Stored + Clone> Tracked for Var<V> {
    fn name(&self) -> &str {
        Var::name(self)
    }
}

impl Tracked for Counter {
    fn name(&self) -> &str {
        Counter::name(self)
    }
}

/// The reason why an [`App`] ended other than by [`Handle::stop`].
///
/// ```
/// use maple::prelude::*;
/// use maple::{Error, StartError};
///
/// let app = App::new(|_: &Packet, net: &Net| net.flood()).workers(1000);
/// assert!(matches!(app.run(), Err(Error::Start(StartError::TooManyWorkers(1000)))));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The controller could not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The controller stopped by itself.
    #[error(transparent)]
    Stopped(#[from] Stopped),
}

impl App {
    /// Creates a program that runs this policy.
    ///
    /// ```
    /// # use maple::prelude::*;
    /// # let policy = |_: &Packet, net: &Net| net.flood();
    /// let (options, _) = App::new(policy).into_parts();
    /// assert_eq!(options.listen, [([0, 0, 0, 0], 6653).into()]);
    /// ```
    pub fn new(policy: impl Policy + 'static) -> App {
        App::from_options(ControllerOptions::new(Arc::new(PolicyAdapter(Box::new(policy)))))
    }

    /// Creates a program that runs handlers: `factory` makes one for each switch. [`crate::handlers`] has an example.
    ///
    /// ```
    /// use maple::App;
    /// use maple::handlers::{Handler, Replies, SwitchInfo};
    /// use maple::wire::msg::PacketInView;
    ///
    /// struct Deaf;
    ///
    /// impl Handler for Deaf {
    ///     fn packet_in(&mut self, _: &PacketInView<'_>, _: &mut Replies) {}
    /// }
    ///
    /// let (options, _) = App::handlers(|_: &SwitchInfo| Deaf).into_parts();
    /// assert!(options.programs.is_some());
    /// ```
    pub fn handlers(factory: impl HandlerFactory + 'static) -> App {
        App::from_options(ControllerOptions::for_programs(Arc::new(Handlers::new(factory))))
    }

    fn from_options(options: ControllerOptions) -> App {
        App { options, listens: false, started: Vec::new() }
    }

    /// Keeps the program's state in this store, which may have contents. Call this before anything that writes to the
    /// store.
    ///
    /// ```
    /// # use maple::prelude::*;
    /// # let policy = |_: &Packet, net: &Net| net.flood();
    /// let store = maple::Store::new();
    /// let open = Var::new("open", false);
    /// let app = App::new(policy).store(store.clone()).with_state(|tx| open.set(tx, &true));
    /// assert!(open.get(&store.view()));
    /// ```
    pub fn store(mut self, store: Arc<Store>) -> App {
        self.options.store = store;
        self
    }

    /// Listens on this address for switches. Each further call adds an address. Port 0 means any free port; see
    /// [`Handle::addresses`]. The default is port 6653 of all addresses.
    ///
    /// ```
    /// # use maple::prelude::*;
    /// # let policy = |_: &Packet, net: &Net| net.flood();
    /// let (options, _) = App::new(policy).listen(([127, 0, 0, 1], 6653)).listen(([192, 0, 2, 1], 6653)).into_parts();
    /// assert_eq!(options.listen, [([127, 0, 0, 1], 6653).into(), ([192, 0, 2, 1], 6653).into()]);
    /// ```
    pub fn listen(mut self, address: impl Into<SocketAddr>) -> App {
        if !std::mem::replace(&mut self.listens, true) {
            self.options.listen.clear();
        }
        self.options.listen.push(address.into());
        self
    }

    /// Serves switches in this many threads, at most 255. 0 means one thread for each core.
    ///
    /// ```
    /// # use maple::prelude::*;
    /// # let policy = |_: &Packet, net: &Net| net.flood();
    /// let (options, _) = App::new(policy).workers(4).into_parts();
    /// assert_eq!(options.workers, 4);
    /// ```
    pub fn workers(mut self, workers: usize) -> App {
        self.options.workers = workers;
        self
    }

    /// Sets the file for state that survives restarts: see [`App::keep`].
    ///
    /// ```
    /// # use maple::prelude::*;
    /// # let policy = |_: &Packet, net: &Net| net.flood();
    /// let (options, _) = App::new(policy).state_file("/var/lib/maple/state").into_parts();
    /// assert_eq!(options.state_file, Some("/var/lib/maple/state".into()));
    /// ```
    pub fn state_file(mut self, path: impl Into<PathBuf>) -> App {
        self.options.state_file = Some(path.into());
        self
    }

    /// Answers `maple show` and `maple state` on this Unix socket.
    ///
    /// ```
    /// # use maple::prelude::*;
    /// # let policy = |_: &Packet, net: &Net| net.flood();
    /// let (options, _) = App::new(policy).control_socket("/run/maple.sock").into_parts();
    /// assert_eq!(options.control, Some("/run/maple.sock".into()));
    /// ```
    pub fn control_socket(mut self, path: impl Into<PathBuf>) -> App {
        self.options.control = Some(path.into());
        self
    }

    /// Exports metrics for Prometheus at this address.
    ///
    /// ```
    /// # use maple::prelude::*;
    /// # let policy = |_: &Packet, net: &Net| net.flood();
    /// let (options, _) = App::new(policy).metrics(([127, 0, 0, 1], 9653)).into_parts();
    /// assert_eq!(options.metrics, Some(([127, 0, 0, 1], 9653).into()));
    /// ```
    pub fn metrics(mut self, address: impl Into<SocketAddr>) -> App {
        self.options.metrics = Some(address.into());
        self
    }

    /// Changes any other option of the controller.
    ///
    /// ```
    /// # use maple::prelude::*;
    /// # let policy = |_: &Packet, net: &Net| net.flood();
    /// let (options, _) = App::new(policy).configure(|options| options.engine.max_rules = Some(2000)).into_parts();
    /// assert_eq!(options.engine.max_rules, Some(2000));
    /// ```
    pub fn configure(mut self, change: impl FnOnce(&mut ControllerOptions)) -> App {
        change(&mut self.options);
        self
    }

    /// Turns host tracking off. Then [`Net::locate`](crate::Net::locate) is an error.
    ///
    /// ```
    /// # use maple::prelude::*;
    /// # let policy = |_: &Packet, net: &Net| net.flood();
    /// let (options, _) = App::new(policy).without_hosts().into_parts();
    /// assert!(!options.engine.track_hosts);
    /// ```
    pub fn without_hosts(mut self) -> App {
        self.options.engine.track_hosts = false;
        self
    }

    /// Sends events to a listener that runs beside the policy. [`listen`](crate::listen) makes both ends.
    ///
    /// ```
    /// # use maple::prelude::*;
    /// # let policy = |_: &Packet, net: &Net| net.flood();
    /// use maple::{ListenError, NetworkEvent};
    /// use std::time::Duration;
    ///
    /// let (listening, listener) = maple::listen(Vec::new())?;
    /// let follower = std::thread::spawn(move || {
    ///     loop {
    ///         match listener.next(Duration::MAX) {
    ///             Ok(NetworkEvent::SwitchUp(switch)) => println!("switch {switch} is there"),
    ///             Ok(_) => {}
    ///             Err(end) => break end,
    ///         }
    ///     }
    /// });
    /// let app = App::new(policy).listen(([127, 0, 0, 1], 0)).workers(1).listening(listening);
    /// app.start()?.stop();
    /// assert_eq!(follower.join().unwrap(), ListenError::Ended);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn listening(mut self, subscription: Subscription) -> App {
        self.options.subscriptions.push(subscription);
        self
    }

    /// Learns multicast groups, DHCP leases or both from packets of hosts, for `net.members` and `net.lease`.
    ///
    /// ```
    /// # use maple::prelude::*;
    /// # let policy = |_: &Packet, net: &Net| net.flood();
    /// use maple::{SnoopedProtocol, Snooping};
    ///
    /// let snooping = Snooping::new([SnoopedProtocol::Igmp, SnoopedProtocol::Mld], [])?.with_querier()?;
    /// let (options, _) = App::new(policy).snoop(snooping.clone()).into_parts();
    /// assert_eq!(options.snooping, snooping);
    /// # Ok::<(), maple::SnoopingError>(())
    /// ```
    pub fn snoop(mut self, snooping: Snooping) -> App {
        self.options.snooping = snooping;
        self
    }

    /// Sets the cost named `name` of the links between two switches, in both directions. Other links cost 1.
    ///
    /// ```
    /// # use maple::prelude::*;
    /// # let policy = |_: &Packet, net: &Net| net.flood();
    /// let (options, _) = App::new(policy).link_cost("secure", 1, 2, 10).into_parts();
    /// let state = options.store.snapshot();
    /// assert_eq!(state.cost("secure", Location::new(Dpid(1), PortNo(7)), Dpid(2)), 10);
    /// assert_eq!(state.cost("secure", Location::new(Dpid(1), PortNo(8)), Dpid(3)), 1);
    /// ```
    pub fn link_cost(self, name: &str, a: impl Into<Dpid>, b: impl Into<Dpid>, cost: u64) -> App {
        let (a, b) = (a.into(), b.into());
        let write = |from, to| {
            let link = LinkName::Switches(from, to);
            Write::Cost { name: name.into(), link, cost: Some(cost) }
        };
        self.write(vec![write(a, b), write(b, a)])
    }

    /// Sets the cost named `name` of the link that begins at a port, in this direction.
    ///
    /// ```
    /// # use maple::prelude::*;
    /// # let policy = |_: &Packet, net: &Net| net.flood();
    /// let at = Location::new(Dpid(1), PortNo(2));
    /// let (options, _) = App::new(policy).port_cost("secure", at, 10).into_parts();
    /// assert_eq!(options.store.snapshot().cost("secure", at, Dpid(2)), 10);
    /// ```
    pub fn port_cost(self, name: &str, at: Location, cost: u64) -> App {
        self.write(vec![Write::Cost { name: name.into(), link: LinkName::Port(at), cost: Some(cost) }])
    }

    /// Writes tracked state before the first packet.
    ///
    /// ```
    /// use maple::prelude::*;
    ///
    /// let blocked = Table::<Mac, bool>::new("blocked");
    /// let policy = |_: &Packet, net: &Net| net.flood();
    /// let app = App::new(policy).table(&blocked).with_state(|tx| blocked.set(tx, &Mac([2, 0, 0, 0, 0, 1]), &true));
    /// let (options, _) = app.into_parts();
    /// assert_eq!(blocked.get(&options.store.view(), &Mac([2, 0, 0, 0, 0, 1])), Some(true));
    /// ```
    ///
    /// # Panics
    /// If it writes a value of a type other than its table or variable is declared with.
    pub fn with_state(self, write: impl FnMut(&Tx)) -> App {
        write_now(&self.options.store, write);
        self
    }

    fn write(self, writes: Vec<Write>) -> App {
        // No leaf depends on the state yet, so none is invalidated.
        self.options.store.update(|_| writes);
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
    /// # Panics
    /// If another version of the table is declared.
    pub fn keep(self, what: &impl Tracked) -> App {
        self.options.store.keep(what.name());
        self.versioned(what.name(), None)
    }

    /// Declares this program's version of a table.
    fn versioned(self, name: &str, migrate: Option<Migrate>) -> App {
        let (table, version) = version_of(name);
        if let Err(error) = self.options.store.declare_version(table, version, migrate) {
            panic!("{error}");
        }
        self
    }

    /// Converts the rows of an earlier version of a table, which an earlier program left in the file of
    /// [`App::state_file`]. `migrate` gets the earlier version and its rows, and returns all rows in their present
    /// form. If it returns an error, a text for people, the app does not start.
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
    ///
    /// # Panics
    /// If another version of the table is declared.
    pub fn migrate<K: Stored, V: Stored>(
        self,
        table: &Table<K, V>,
        migrate: impl Fn(u32, RowMap) -> Result<RowMap, String> + Send + Sync + 'static,
    ) -> App {
        self.versioned(table.name(), Some(Arc::new(migrate)))
    }

    /// Sets the types of a table's keys and values. `maple state` shows them, converts its arguments to them, and
    /// refuses values of other types.
    ///
    /// ```
    /// # use maple::prelude::*;
    /// # let policy = |_: &Packet, net: &Net| net.flood();
    /// let (options, _) = App::new(policy).table(&Table::<Mac, bool>::new("blocked")).into_parts();
    /// assert_eq!(options.store.snapshot().types("blocked").unwrap().to_string(), "Mac -> bool");
    /// ```
    ///
    /// # Panics
    /// If the table was declared with other types or another version, or something else was written to it.
    pub fn table<K: Stored, V: Stored>(self, table: &Table<K, V>) -> App {
        // No leaf depends on the table yet, so none is invalidated.
        if let Err(error) = self.options.store.declare_types(table.name(), Table::<K, V>::types()) {
            panic!("{error}");
        }
        self.versioned(table.name(), None)
    }

    /// Sets the initial value and the type of a variable, for people who look at the state from outside.
    ///
    /// ```
    /// # use maple::prelude::*;
    /// # let policy = |_: &Packet, net: &Net| net.flood();
    /// let (options, _) = App::new(policy).var(&Var::new("open", false)).into_parts();
    /// assert_eq!(options.store.snapshot().kind("open").unwrap().to_string(), "bool");
    /// ```
    ///
    /// # Panics
    /// If the variable was declared with another type, or holds a value of another type.
    pub fn var<V: Stored + Clone>(self, var: &Var<V>) -> App {
        self.options.store.declare_var(var.name(), var.initial().to_value());
        if let Err(error) = self.options.store.declare_kind(var.name(), V::kind()) {
            panic!("{error}");
        }
        self
    }

    /// Calls `started` when the controller runs. Its argument is a handle that can write tracked state.
    ///
    /// ```
    /// # use maple::prelude::*;
    /// # let policy = |_: &Packet, net: &Net| net.flood();
    /// let open = Var::new("open", false);
    /// let store = maple::Store::new();
    /// let app = App::new(policy).listen(([127, 0, 0, 1], 0)).workers(1).store(store.clone());
    /// # let opened = open.clone();
    /// let app = app.on_start(move |controller| {
    ///     std::thread::spawn(move || {
    ///         let opens = controller.atomically(None, |tx| Ok(open.set(tx, &true)));
    ///         controller.stop();
    ///         opens
    ///     });
    /// });
    /// app.run()?;
    /// # let open = opened;
    /// assert!(open.get(&store.view()));
    /// # Ok::<(), maple::Error>(())
    /// ```
    pub fn on_start(mut self, started: impl FnOnce(Handle) + 'static) -> App {
        self.started.push(Box::new(started));
        self
    }

    /// Starts the controller and returns it. Dropping it stops the controller.
    ///
    /// ```
    /// # use maple::prelude::*;
    /// # let policy = |_: &Packet, net: &Net| net.flood();
    /// let controller = App::new(policy).listen(([127, 0, 0, 1], 0)).workers(1).start()?;
    /// assert_eq!(controller.handle().failure(), None);
    /// # Ok::<(), maple::StartError>(())
    /// ```
    ///
    /// # Errors
    /// [`StartError`] if an address is in use, or the system refuses another resource. Then nothing runs.
    pub fn start(self) -> Result<Controller, StartError> {
        let controller = Controller::start(self.options)?;
        for started in self.started {
            started(controller.handle());
        }
        Ok(controller)
    }

    /// Starts the controller and waits for [`Handle::stop`]. Messages for people go to `tracing`.
    ///
    /// ```
    /// # use maple::prelude::*;
    /// # let policy = |_: &Packet, net: &Net| net.flood();
    /// let stop = |controller: maple::Handle| controller.stop();
    /// assert!(App::new(policy).listen(([127, 0, 0, 1], 0)).workers(1).on_start(stop).run().is_ok());
    /// ```
    ///
    /// # Errors
    /// [`Error`] if the controller cannot start, or stops by itself.
    pub fn run(self) -> Result<(), Error> {
        Ok(self.start()?.wait()?)
    }

    /// Returns the controller's options and the functions to call when it runs. A program that starts the controller
    /// itself needs them, as the `maple` command does.
    ///
    /// ```
    /// # use maple::prelude::*;
    /// # let policy = |_: &Packet, net: &Net| net.flood();
    /// let (options, started) = App::new(policy).workers(2).into_parts();
    /// assert_eq!((options.workers, started.len()), (2, 0));
    /// ```
    #[must_use]
    pub fn into_parts(self) -> (ControllerOptions, Vec<Started>) {
        (self.options, self.started)
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

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use maple_core::route::Route;

    use super::*;
    use crate::{Net, Packet};

    fn flood(_: &Packet, net: &Net) -> Route {
        net.flood()
    }

    fn app() -> App {
        App::new(flood).listen((Ipv4Addr::LOCALHOST, 0)).workers(1)
    }

    #[test]
    fn a_program_runs_until_it_is_told_to_stop() {
        let stop = |controller: Handle| controller.stop();
        app().on_start(stop).run().unwrap();
    }

    #[test]
    fn an_app_shows_its_settings_and_no_more_than_that_there_is_a_policy() {
        let shown = format!("{:?}", app().on_start(|_| ()));
        assert!(shown.starts_with("App { options: ControllerOptions { listen: [127.0.0.1:0], "), "{shown}");
        assert!(shown.ends_with(", .. }, started: 1, .. }"), "{shown}");
    }

    #[test]
    fn an_address_that_is_taken_is_named() {
        let first = app().start().unwrap();
        let taken = first.handle().addresses()[0];
        let error = App::new(flood).listen(taken).run().unwrap_err();
        assert!(matches!(error, Error::Start(StartError::Listen { address, .. }) if address == taken), "{error}");
    }

    #[test]
    fn what_is_written_before_the_start_holds_from_the_start() {
        let costs = app().link_cost("secure", 1, 2, 10);
        let controller = costs.start().unwrap();
        assert!(controller.handle().snapshot().has_costs("secure"));
    }
}
