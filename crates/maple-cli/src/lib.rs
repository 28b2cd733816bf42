//! The `maple` command as a library, for the Python wheel and for Rust programs that use its command line.
//!
//! [`run()`] gives an [`App`](maple::App) the options of `maple run`. The wheel calls [`main_with`] with a
//! [`PolicyLoader`]; the Rust-only binary calls it without one.

#![warn(clippy::match_bool)]

mod link_costs;
mod moment;
mod service;
mod signal;
mod usage_error;
mod values;

mod output;

mod declared;
mod logging;
mod options;

mod config;

mod builtin;
mod policy;
mod test_command;

mod decode;

mod acl;
mod check;
mod doctor;
mod load;
mod show;

mod cluster;
mod explain;
mod plan;
mod reload;
mod replay;
mod state;
mod top;

mod console;
mod emulate;

mod run;

mod manual;

mod command_line;

mod app;
pub mod reference;

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

pub use app::run;
pub use logging::print_plain;
pub use policy::{Loaded, PolicyLoader, Suspicion};

use command_line::{Command, CommandLine, ParseError};
use config::{ConfigArgs, ConfigCommand};
use output::{exit_status, print_usage};

/// The commands for which the exit status 2 says that something would change, or was found. A usage error is 1 there.
const COMMANDS_WITH_STATUS_2: [&str; 3] = ["plan", "doctor", "replay"];

/// Runs the `maple` command. `arguments` begin with the program's name; Python policies need a `loader`. Returns the
/// exit status: 0 for success, 1 for a failure, 2 for a usage error.
pub fn main_with(arguments: impl IntoIterator<Item = OsString>, loader: Option<&dyn PolicyLoader>) -> u8 {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let is_2_taken = arguments.get(1).is_some_and(|given| COMMANDS_WITH_STATUS_2.iter().any(|one| given == one));
    let command_line = match command_line::parse(arguments) {
        Ok(command_line) => command_line,
        Err(ParseError::Usage(error)) if is_2_taken => return print_usage(&error).min(1),
        Err(ParseError::Usage(error)) => return print_usage(&error),
        Err(ParseError::Config(error)) => return exit_status(Err(error)),
    };
    match command_line.command.refusal() {
        Some(error) => print_usage(&error),
        None => exit_status(execute(command_line, loader)),
    }
}

fn execute(command_line: CommandLine, loader: Option<&dyn PolicyLoader>) -> anyhow::Result<u8> {
    match command_line.command {
        Command::Run(args) => {
            if args.options.count_heap {
                maple_heap::count_all();
            }
            run::main(*args, loader)
        }
        Command::Reload(args) => reload::main(&args),
        Command::Plan(args) => plan::main(&args, loader),
        Command::Replay(args) => replay::main(&args, loader),
        Command::Apply(args) => plan::apply(&args),
        Command::Rollback(args) => reload::rollback(&args),
        Command::Check(args) => check::main(args, loader),
        Command::Test(args) => test_command::main(&args, loader),
        Command::Emulate(args) => emulate::main(args),
        Command::Load(args) => load::main(&args),
        Command::Decode(args) => decoded(args),
        Command::Show(args) => show::main(args, None),
        Command::Top(args) => top::main(args),
        Command::Explain(args) => explain::main(&args, loader, None),
        Command::Doctor(args) => doctor::main(&args, loader.is_some()),
        Command::Config(ConfigArgs { command: ConfigCommand::Check { file } }) => config::check(&file),
        Command::Config(ConfigArgs { command: ConfigCommand::Show(_) }) => Ok(config::show(&command_line.origins)),
        Command::Cluster(args) => cluster::main(args),
        Command::State(args) => state::main(args, None),
        Command::Acl(args) => acl::run(&args, loader),
        Command::Schema => state::print_schema(),
        Command::Completions(args) => manual::completions(command_line::definition(), args.shell),
        Command::Man(args) => manual::man(command_line::definition(), &args.folder),
    }
}

fn decoded(args: decode::DecodeArgs) -> anyhow::Result<u8> {
    let (mut out, mut notes) = (output::text_out(), output::text_notes());
    let status = decode::run(args, &mut out, &mut notes)?;
    out.flush()?;
    notes.flush()?;
    Ok(u8::from(status != ExitCode::SUCCESS))
}
