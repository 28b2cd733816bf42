//! A policy in Rust as a program of its own.

use std::process::ExitCode;
use std::sync::Arc;

use clap::{Parser, Subcommand};
use maple_controller::Handle;
use maple_controller::listen::Listening;
use maple_controller::snoop::Snooping;
use maple_core::network::{LinkName, Location};
use maple_core::policy::Policy;
use maple_core::state::{Store, Stored, Table, Var, Write};
use maple_wire::Dpid;

use crate::args::{CheckOptions, RunOptions};
use crate::run::{self, Started};
use crate::{LoadedHandlers, LoadedPolicy, check, finish, usage};

/// A policy with what it needs around it: link costs, first contents of tables, threads of its own.
pub struct App {
    policy: Arc<dyn Policy>,
    store: Arc<Store>,
    track_hosts: bool,
    listening: Option<Listening>,
    snooping: Snooping,
    started: Started<'static>,
}

#[derive(Debug, Parser)]
#[command(version, about = "A program for Maple: the options are those of `maple run`", max_term_width = 100)]
#[command(args_conflicts_with_subcommands = true)]
struct Alone {
    #[command(subcommand)]
    command: Option<AloneCommand>,
    #[command(flatten)]
    options: RunOptions,
}

#[derive(Debug, Subcommand)]
enum AloneCommand {
    /// Look for what the policy reads and Maple can't track, as `maple check` does
    Check(CheckOptions),
}

/// The program's command line, or the status to end with.
fn command_line() -> Result<Alone, ExitCode> {
    let alone = Alone::try_parse().map_err(|error| usage(&error))?;
    match alone.options.refusal() {
        Some(error) => Err(usage(&error).into()),
        None => Ok(alone),
    }
}

/// Runs handlers with the options of the program's command line, until it is told to stop.
pub(crate) fn run_handlers(handlers: LoadedHandlers) -> ExitCode {
    match command_line() {
        Ok(Alone { command: None, options }) => finish(run::handlers::run(&options, handlers, Box::new(|_| {}))).into(),
        Ok(_) => finish(Err(anyhow::anyhow!("handlers can't be checked: what they read is not tracked"))).into(),
        Err(status) => status,
    }
}

impl App {
    /// A program that runs this policy.
    pub fn new(policy: impl Policy + 'static) -> App {
        App {
            policy: Arc::new(policy),
            store: Store::new(),
            track_hosts: true,
            listening: None,
            snooping: Snooping::default(),
            started: Box::new(|_| {}),
        }
    }

    /// The same without learning where hosts are.
    #[must_use]
    pub fn without_hosts(mut self) -> App {
        self.track_hosts = false;
        self
    }

    /// Tells a listener what happens beside the policy: [`maple_controller::listen::listen`] makes both ends.
    #[must_use]
    pub fn listening(mut self, listening: Listening) -> App {
        self.listening = Some(listening);
        self
    }

    /// Learns groups, leases or both from what hosts say, for `net.members` and `net.lease`.
    #[must_use]
    pub fn snoop(mut self, snooping: Snooping) -> App {
        self.snooping = snooping;
        self
    }

    /// Says what the links between two switches cost by `name`, in both directions; other links cost 1.
    #[must_use]
    pub fn weight(self, name: &str, a: u64, b: u64, cost: u64) -> App {
        let write = |from, to| {
            let link = LinkName::Switches(Dpid(from), Dpid(to));
            Write::Cost { name: name.into(), link, cost: Some(cost) }
        };
        self.write(vec![write(a, b), write(b, a)])
    }

    /// Says what the link that leaves by a port costs by `name`, in that direction.
    #[must_use]
    pub fn port_weight(self, name: &str, at: Location, cost: u64) -> App {
        self.write(vec![Write::Cost { name: name.into(), link: LinkName::Port(at), cost: Some(cost) }])
    }

    /// Writes tracked state before the first packet.
    #[must_use]
    pub fn write(self, writes: Vec<Write>) -> App {
        // Nobody reads yet, so nobody has to be told.
        self.store.update(|_| writes);
        self
    }

    /// Has the table and the variable of this name survive restarts, in the file that `--state` says.
    #[must_use]
    pub fn keep(self, name: &str) -> App {
        self.store.keep(name);
        self
    }

    /// Says of which types a table's keys and values are: `maple state` shows them, brings what it is given to them, and
    /// refuses what is of another type.
    ///
    /// # Panics
    /// If the table was declared with other types, or something else was written to it.
    #[must_use]
    pub fn table<K: Stored, V: Stored>(self, table: &Table<K, V>) -> App {
        // Nobody reads yet, so nobody has to be told.
        if let Err(error) = self.store.declare_types(table.name(), Table::<K, V>::types()) {
            panic!("{error}");
        }
        self
    }

    /// Says what a variable is until it is set, and of which type, for people who look at it from outside.
    ///
    /// # Panics
    /// As [`App::table`].
    #[must_use]
    pub fn var<V: Stored + Clone>(self, var: &Var<V>) -> App {
        self.store.declare_var(var.name(), var.initial().to_value());
        if let Err(error) = self.store.declare_kind(var.name(), V::kind()) {
            panic!("{error}");
        }
        self
    }

    /// Calls `started` when the controller runs, with a handle that can write tracked state.
    #[must_use]
    pub fn on_start(mut self, started: impl FnOnce(Handle) + 'static) -> App {
        self.started = Box::new(started);
        self
    }

    /// Runs it with the options of the program's command line, until it is told to stop.
    pub fn run(self) -> ExitCode {
        let Alone { command, options } = match command_line() {
            Ok(alone) => alone,
            Err(status) => return status,
        };
        let App { policy, store, track_hosts, listening, snooping, started } = self;
        let loaded = LoadedPolicy { policy, store, track_hosts, listening, snooping };
        if let Some(AloneCommand::Check(options)) = command {
            return finish(check::with(&options, loaded, &[])).into();
        }
        finish(run::with(options, loaded, started)).into()
    }
}
