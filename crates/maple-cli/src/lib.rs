//! The `maple` command as a library: for the Python wheel, and for policies in Rust that want its command line.
//!
//! [`run`] gives an [`App`](maple::App) the options of `maple run`. The wheel calls [`main_with`] with a [`PolicyLoader`]; the
//! Rust-only binary calls it without one.

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
pub mod reference;

mod app;
mod signal;
mod wrong;

use std::ffi::OsString;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use maple_controller::{ControllerOptions, Handle};

pub use app::run;

use args::{Command, CommandLine};

/// What a file has to run: the controller's options, with the policy or the handlers and their state.
pub enum Loaded {
    /// A policy.
    Policy(ControllerOptions),
    /// Handlers: a program for each switch.
    Handlers(ControllerOptions),
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
