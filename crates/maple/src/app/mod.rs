//! A policy or handlers, the settings that they run with, and the controller that runs them.

pub(crate) mod state;

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use maple_controller::listener::Subscription;
use maple_controller::snoop::Snooping;
use maple_controller::{Controller, ControllerOptions, Handle, StartError, Stopped};
use maple_core::network::{LinkName, Location};
use maple_core::state::Write;
use maple_handlers::{HandlerFactory, Handlers};
use maple_wire::Dpid;

use crate::policy::{Policy, PolicyAdapter};

/// A function that [`App::on_start`] calls when the controller runs.
///
/// ```
/// let hook: maple::StartHook = Box::new(|controller| assert_ne!(controller.addresses()[0].port(), 0));
/// let app = maple::App::new(|_: &maple::Packet, net: &maple::Net| net.flood()).listen(([127, 0, 0, 1], 0)).workers(1);
/// app.on_start(hook).start()?;
/// # Ok::<(), maple::controller::StartError>(())
/// ```
pub type StartHook = Box<dyn FnOnce(Handle)>;

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
/// # Ok::<(), maple::controller::StartError>(())
/// ```
#[must_use = "an app does nothing until it runs or starts"]
pub struct App {
    options: ControllerOptions,
    listens: bool,
    started: Vec<StartHook>,
    /// Whether state was declared or written.
    has_state: bool,
    /// The first declaration that failed.
    failed: Option<StartError>,
}

impl fmt::Debug for App {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("App")
            .field("options", &self.options)
            .field("started", &self.started.len())
            .finish_non_exhaustive()
    }
}

/// The reason why an [`App`] ended other than by [`Handle::stop`].
///
/// ```
/// use maple::prelude::*;
/// use maple::Error;
/// use maple::controller::StartError;
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
    /// # use maple::testing::*;
    /// let app = App::new(flood);
    /// assert_eq!(app.options().openflow.listen, [([0, 0, 0, 0], 6653).into()]);
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
    /// let app = App::handlers(|_: &SwitchInfo| Deaf);
    /// assert!(app.options().programs.is_some());
    /// ```
    pub fn handlers(factory: impl HandlerFactory + 'static) -> App {
        App::from_options(ControllerOptions::for_programs(Arc::new(Handlers::new(factory))))
    }

    fn from_options(options: ControllerOptions) -> App {
        App { options, listens: false, started: Vec::new(), has_state: false, failed: None }
    }

    /// Listens on this address for switches. Each further call adds an address. Port 0 means any free port; see
    /// [`Handle::addresses`]. The default is port 6653 of all addresses.
    ///
    /// ```
    /// # use maple::testing::*;
    /// let app = App::new(flood).listen(([127, 0, 0, 1], 6653)).listen(([192, 0, 2, 1], 6653));
    /// assert_eq!(app.options().openflow.listen, [([127, 0, 0, 1], 6653).into(), ([192, 0, 2, 1], 6653).into()]);
    /// ```
    pub fn listen(mut self, address: impl Into<SocketAddr>) -> App {
        if !std::mem::replace(&mut self.listens, true) {
            self.options.openflow.listen.clear();
        }
        self.options.openflow.listen.push(address.into());
        self
    }

    /// Serves switches in this many threads, at most 255. 0 means one thread for each core.
    ///
    /// ```
    /// # use maple::testing::*;
    /// let app = App::new(flood).workers(4);
    /// assert_eq!(app.options().workers.count, 4);
    /// ```
    pub fn workers(mut self, workers: usize) -> App {
        self.options.workers.count = workers;
        self
    }

    /// Answers `maple show` and `maple state` on this Unix socket.
    ///
    /// ```
    /// # use maple::testing::*;
    /// let app = App::new(flood).control_socket("/run/maple.sock");
    /// assert_eq!(app.options().control.socket, Some("/run/maple.sock".into()));
    /// ```
    pub fn control_socket(mut self, path: impl Into<PathBuf>) -> App {
        self.options.control.socket = Some(path.into());
        self
    }

    /// Exports metrics for Prometheus at this address.
    ///
    /// ```
    /// # use maple::testing::*;
    /// let app = App::new(flood).metrics(([127, 0, 0, 1], 9653));
    /// assert_eq!(app.options().control.metrics, Some(([127, 0, 0, 1], 9653).into()));
    /// ```
    pub fn metrics(mut self, address: impl Into<SocketAddr>) -> App {
        self.options.control.metrics = Some(address.into());
        self
    }

    /// Changes any other option of the controller.
    ///
    /// ```
    /// # use maple::testing::*;
    /// let app = App::new(flood).configure(|options| options.engine.max_rules = Some(2000));
    /// assert_eq!(app.options().engine.max_rules, Some(2000));
    /// ```
    pub fn configure(mut self, change: impl FnOnce(&mut ControllerOptions)) -> App {
        change(&mut self.options);
        self
    }

    /// Returns the options that the controller will have.
    ///
    /// ```
    /// # use maple::testing::*;
    /// assert_eq!(App::new(flood).options().engine.max_rules, None);
    /// ```
    #[must_use]
    pub fn options(&self) -> &ControllerOptions {
        &self.options
    }

    /// Turns host tracking off. Then [`Net::locate`](crate::Net::locate) is an error.
    ///
    /// ```
    /// # use maple::testing::*;
    /// let app = App::new(flood).without_hosts();
    /// assert!(!app.options().engine.track_hosts);
    /// ```
    pub fn without_hosts(mut self) -> App {
        self.options.engine.track_hosts = false;
        self
    }

    /// Sends events to the listener of this subscription, which runs beside the policy.
    /// [`subscribe`](crate::listener::subscribe) makes both.
    ///
    /// ```
    /// # use maple::testing::*;
    /// use maple::listener::{ListenerError, NetworkEvent};
    /// use std::time::Duration;
    ///
    /// let (subscription, listener) = maple::listener::subscribe(Vec::new())?;
    /// let follower = std::thread::spawn(move || {
    ///     loop {
    ///         match listener.next(Duration::MAX) {
    ///             Ok(NetworkEvent::SwitchUp(switch)) => println!("switch {switch} is there"),
    ///             Ok(_) => {}
    ///             Err(end) => break end,
    ///         }
    ///     }
    /// });
    /// let app = App::new(flood).listen(([127, 0, 0, 1], 0)).workers(1).subscription(subscription);
    /// app.start()?.stop();
    /// assert_eq!(follower.join().unwrap(), ListenerError::Ended);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn subscription(mut self, subscription: Subscription) -> App {
        self.options.subscriptions.push(subscription);
        self
    }

    /// Learns multicast groups, DHCP leases or both from packets of hosts, for `net.members` and `net.lease`.
    ///
    /// ```
    /// # use maple::testing::*;
    /// use maple::snoop::{SnoopedProtocol, Snooping};
    ///
    /// let snooping = Snooping::new([SnoopedProtocol::Igmp, SnoopedProtocol::Mld], [])?.with_querier()?;
    /// let app = App::new(flood).snoop(snooping.clone());
    /// assert_eq!(app.options().snooping, snooping);
    /// # Ok::<(), maple::snoop::SnoopingError>(())
    /// ```
    pub fn snoop(mut self, snooping: Snooping) -> App {
        self.options.snooping = snooping;
        self
    }

    /// Sets the cost named `name` of the links between two switches, in both directions. Other links cost 1.
    ///
    /// ```
    /// # use maple::testing::*;
    /// let app = App::new(flood).link_cost("secure", 1, 2, 10);
    /// let state = app.options().store.snapshot();
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
    /// # use maple::testing::*;
    /// let at = Location::new(Dpid(1), PortNo(2));
    /// let app = App::new(flood).port_cost("secure", at, 10);
    /// assert_eq!(app.options().store.snapshot().cost("secure", at, Dpid(2)), 10);
    /// ```
    pub fn port_cost(self, name: &str, at: Location, cost: u64) -> App {
        self.write(vec![Write::Cost { name: name.into(), link: LinkName::Port(at), cost: Some(cost) }])
    }

    fn write(mut self, writes: Vec<Write>) -> App {
        // No leaf depends on the state yet, so none is invalidated.
        self.store_in_use().update(|_| writes);
        self
    }

    /// Calls `started` when the controller runs. Its argument is a handle that can write tracked state.
    ///
    /// ```
    /// # use maple::testing::*;
    /// let open = Var::new("open", false);
    /// let store = maple::state::Store::new();
    /// let app = App::new(flood).listen(([127, 0, 0, 1], 0)).workers(1).store(store.clone());
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
    /// # use maple::testing::*;
    /// let controller = App::new(flood).listen(([127, 0, 0, 1], 0)).workers(1).start()?;
    /// assert_eq!(controller.handle().failure(), None);
    /// # Ok::<(), maple::controller::StartError>(())
    /// ```
    ///
    /// # Errors
    /// [`StartError`] if a declaration failed, an address is in use, or the system refuses another resource. Then
    /// nothing runs.
    pub fn start(self) -> Result<Controller, StartError> {
        let (options, started) = self.into_parts()?;
        let controller = Controller::start(options)?;
        for started in started {
            started(controller.handle());
        }
        Ok(controller)
    }

    /// Starts the controller and waits for [`Handle::stop`]. Messages for people go to `tracing`.
    ///
    /// ```
    /// # use maple::testing::*;
    /// let stop = |controller: maple::controller::Handle| controller.stop();
    /// assert!(App::new(flood).listen(([127, 0, 0, 1], 0)).workers(1).on_start(stop).run().is_ok());
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
    /// # use maple::testing::*;
    /// let (options, started) = App::new(flood).workers(2).into_parts()?;
    /// assert_eq!((options.workers.count, started.len()), (2, 0));
    /// # Ok::<(), maple::controller::StartError>(())
    /// ```
    ///
    /// # Errors
    /// [`StartError`] if the declaration of a table or a variable failed.
    pub fn into_parts(self) -> Result<(ControllerOptions, Vec<StartHook>), StartError> {
        self.failed.map_or(Ok((self.options, self.started)), Err)
    }
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
    fn state_written_before_the_start_holds_from_the_start() {
        let costs = app().link_cost("secure", 1, 2, 10);
        let controller = costs.start().unwrap();
        assert!(controller.handle().snapshot().has_costs("secure"));
    }
}
