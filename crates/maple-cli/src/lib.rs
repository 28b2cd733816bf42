//! The `maple` command as a library, and what policies in Rust are written with.
//!
//! ```no_run
//! use maple::{Field, Net, PacketHandle, Route};
//!
//! fn secure_routing(pkt: &PacketHandle, net: &Net) -> Route {
//!     if pkt.is_multicast() {
//!         return Route::flood();
//!     }
//!     let (Some(dst), Some(src)) = (net.locate(pkt.eth_dst()), net.locate(pkt.eth_src())) else {
//!         return Route::flood();
//!     };
//!     if pkt.is(Field::TcpDst, 22) { net.path(src, dst, "secure") } else { net.shortest_path(src, dst) }
//! }
//!
//! fn main() -> std::process::ExitCode {
//!     maple::App::new(secure_routing).weight("secure", 1, 2, 10).run()
//! }
//! ```
//!
//! The program then takes the options of `maple run`. One that needs nothing around it says `maple::run(policy)`, one that
//! has handlers instead [`run_handlers`]. The Python wheel calls [`main_with`] with a [`PolicyLoader`]; the Rust-only binary
//! calls it without one.

mod args;

mod run;

mod bench;
mod check;

mod builtin;
mod console;
mod descriptors;
mod emulate;
mod load;
mod show;
mod state;
mod weights;

pub mod decode;
pub mod laboratory;
/// What [`laboratory`] is made of: networks, hosts, links, and commands on them.
pub mod lab {
    pub use maple_emulator::lab::{Ground, Lab, LabError};
    pub use maple_emulator::network::{Hop, Link};
    pub use maple_emulator::{Host, Topology};
}
pub mod paths;

mod app;
mod signal;
mod wrong;

use std::ffi::OsString;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;

pub use app::App;
pub use maple_bench as benchmarks;
pub use maple_controller::control::transactions::{ChangeError, Waiting};
pub use maple_controller::handler::ask_for_packets;
pub use maple_controller::listen::{self, Listening};
pub use maple_controller::session::SwitchInfo;
pub use maple_controller::snoop::{Snooping, SnoopingError};
pub use maple_controller::{Handle, Handler, HandlerFactory, Replies};
pub use maple_core::network::{Hop, LinkName, Location, Mac, UTILISATION};
pub use maple_core::policy::{Load, Net, PacketHandle, Policy, PolicyError};
pub use maple_core::query::{Query, QueryError};
pub use maple_core::route::Route;
pub use maple_core::state::{Access, Attempt, Counter, Read, Stop, Store, Stored, Table, Tx, Value, Var, Write};
pub use maple_core::trace::{Cond, Range};
pub use maple_wire::msg;
pub use maple_wire::msg::PacketInView;
pub use maple_wire::{Action, Constraint, Dpid, Field, Instruction, Match, Message, Packet, PortNo};

use args::{Command, CommandLine};

/// A policy that is ready to run.
pub struct LoadedPolicy {
    /// The policy.
    pub policy: Arc<dyn Policy>,
    /// The state that it works on, with what was written to it already.
    pub store: Arc<Store>,
    /// Whether it wants to know where hosts are.
    pub track_hosts: bool,
    /// Who hears what happens beside it.
    pub listening: Option<Listening>,
    /// What it wants snooped on.
    pub snooping: Snooping,
}

/// What a file has to run.
pub enum Loaded {
    /// A policy.
    Policy(LoadedPolicy),
    /// Handlers: a program for each switch.
    Handlers(LoadedHandlers),
}

/// Handlers that are ready to run.
pub struct LoadedHandlers {
    /// Makes one for each switch.
    pub factory: Arc<dyn HandlerFactory>,
    /// The state that they share, with what was written to it already.
    pub store: Arc<Store>,
}

/// A place in a policy's source that looks like a read of something that Maple can't track.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suspicion {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// What is read there, and what to use instead.
    pub text: String,
}

/// Loads policies and handlers that are written in another language than Rust.
pub trait PolicyLoader: Sync {
    /// Loads the policy or handler called `name` (or the only one) from a file. A run of it may take `time_limit`.
    ///
    /// # Errors
    /// Whatever makes the file neither, as its language tells it.
    fn load(&self, file: &Path, name: Option<&str>, time_limit: Duration) -> anyhow::Result<Loaded>;

    /// What makes benchmarks' policies in that language, if anything does.
    fn filters(&self) -> Option<&dyn maple_bench::OtherLanguage> {
        None
    }

    /// What in the source of the policy in this file looks like a read of something that Maple can't track.
    ///
    /// # Errors
    /// If the source can't be read.
    fn inspect(&self, file: &Path, name: Option<&str>) -> anyhow::Result<Vec<Suspicion>> {
        let _ = (file, name);
        Ok(Vec::new())
    }

    /// What policies print goes to standard error from now on: standard output is for what is found out about them.
    ///
    /// # Errors
    /// Of the language.
    fn print_aside(&self) -> anyhow::Result<()> {
        Ok(())
    }

    /// A policy is about to be loaded by this thread and run. Until [`PolicyLoader::started`] or [`PolicyLoader::ended`],
    /// other threads that its file starts are to be kept from the store: a state file is read into it in between.
    fn starting(&self);

    /// The controller runs now; commits on the store are to be given to it.
    fn started(&self, controller: Handle);

    /// What [`PolicyLoader::starting`] announced has ended, or has not come about.
    fn ended(&self);
}

/// Runs handlers with the options of `maple run` from the program's command line: `factory` makes one for each switch.
pub fn run_handlers(factory: impl HandlerFactory + 'static) -> ExitCode {
    run_handlers_with(Store::new(), factory)
}

/// The same with state that the handlers share, and that `maple state` shows and changes.
pub fn run_handlers_with(store: Arc<Store>, factory: impl HandlerFactory + 'static) -> ExitCode {
    app::run_handlers(LoadedHandlers { factory: Arc::new(factory), store })
}

/// Runs `policy` with the options of `maple run` from the program's command line.
pub fn run(policy: impl Policy + 'static) -> ExitCode {
    App::new(policy).run()
}

/// The `maple` command. `arguments` begin with the program's name; Python policies need a `loader`. The exit status:
/// 0 if all went well, 1 if something failed, 2 if the command line is wrong.
pub fn main_with(arguments: impl IntoIterator<Item = OsString>, loader: Option<&dyn PolicyLoader>) -> u8 {
    let command_line = match CommandLine::try_parse_from(arguments) {
        Ok(command_line) => command_line,
        Err(error) => return usage(&error),
    };
    let refusal = match &command_line.command {
        Command::Run(args) => args.options.refusal(),
        Command::Emulate(args) => args.refusal(),
        Command::Check(_) | Command::Decode(_) | Command::Show(_) => None,
        Command::State(_) | Command::Schema | Command::Load(_) | Command::Bench(_) => None,
    };
    if let Some(error) = refusal {
        return usage(&error);
    }
    if let Command::Run(args) = &command_line.command
        && args.options.count_heap
    {
        maple_heap::count_all();
    }
    finish(match command_line.command {
        Command::Run(args) => run::main(args, loader),
        Command::Check(args) => check::main(args, loader),
        Command::Emulate(args) => emulate::main(args),
        Command::Load(args) => load::main(&args),
        Command::Decode(args) => decoded(args),
        Command::Show(args) => show::main(args),
        Command::State(args) => state::main(args),
        Command::Schema => state::print_schema(),
        Command::Bench(args) => bench::main(args, loader.and_then(PolicyLoader::filters)),
    })
}

/// Prints help, version, or what is wrong with a command line.
fn usage(error: &clap::Error) -> u8 {
    // Whoever closed the terminal does not need to be told.
    let _ = error.print();
    error.exit_code() as u8
}

/// The exit status, after telling what went wrong.
fn finish(result: anyhow::Result<u8>) -> u8 {
    match result {
        Ok(status) => status,
        Err(error) if is_closed_pipe(&error) => 0,
        Err(error) => {
            eprintln!("maple: {error:#}");
            if error.is::<wrong::Wrong>() { 2 } else { 1 }
        }
    }
}

/// Prints a line on standard output. Whoever closed it has read enough, and what runs goes on.
fn say(line: impl std::fmt::Display) {
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}

/// Whether somebody such as `head` has read enough of the output.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
}

fn decoded(args: decode::DecodeArgs) -> anyhow::Result<u8> {
    let status = decode::run(args, &mut std::io::stdout().lock())?;
    Ok(u8::from(status != ExitCode::SUCCESS))
}
