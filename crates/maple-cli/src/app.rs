//! Runs a policy that is a program of its own, with the options of `maple run`.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use maple::App;
use maple_controller::Handle;

use crate::command_line::ParseError;
use crate::config::Merged;
use crate::explain::ExplainArgs;
use crate::options::{CheckOptions, ReplayArgs, RunOptions};
use crate::output::{exit_status, print_usage};
use crate::values::with_values;
use crate::{check, config, explain, replay, run as run_command};

#[derive(Debug, Parser)]
#[command(version, about = "A program for Maple: the options are those of `maple run`", max_term_width = 100)]
#[command(args_conflicts_with_subcommands = true)]
struct Program {
    #[command(subcommand)]
    command: Option<ProgramCommand>,
    #[command(flatten)]
    options: RunOptions,
}

#[derive(Debug, Subcommand)]
enum ProgramCommand {
    /// Search for reads of the policy that Maple cannot track, as `maple check` does
    Check(CheckOptions),
    /// Run a recording of this program again, without a network, as `maple replay` does
    Replay(ReplayArgs),
    /// Explain what the network does with a packet, as `maple explain` does; also in a recording of this program
    Explain(Box<ExplainArgs>),
}

/// Runs an app with the options of `maple run` from the program's command line, until it stops. The subcommands
/// `check`, `replay` and `explain` do what those of `maple` do, with the program's policy.
///
/// ```no_run
/// use maple::prelude::*;
///
/// fn main() -> std::process::ExitCode {
///     maple_cli::run(App::new(|_: &Packet, net: &Net| net.flood()))
/// }
/// ```
pub fn run(app: App) -> ExitCode {
    let Program { command, options } = match parse(std::env::args_os().collect()) {
        Ok(program) => program,
        Err(ParseError::Usage(error)) => return print_usage(&error).into(),
        Err(ParseError::Config(error)) => return exit_status(Err(error)).into(),
    };
    if let Some(error) = options.refusal() {
        return print_usage(&error).into();
    }
    let (controller, started) = match app.into_parts() {
        Ok(parts) => parts,
        Err(error) => return exit_status(Err(error.into())).into(),
    };
    let started = Box::new(move |handle: Handle| started.into_iter().for_each(|started| started(handle.clone())));
    let is_handlers = controller.programs.is_some();
    let unrecorded = || Err(anyhow::anyhow!("handlers can't be recorded, so there is no recording of this program"));
    exit_status(match command {
        Some(ProgramCommand::Check(_)) if is_handlers => {
            Err(anyhow::anyhow!("handlers can't be checked: what they read is not tracked"))
        }
        Some(ProgramCommand::Check(options)) => check::check_loaded(&options, controller, &[]),
        Some(ProgramCommand::Replay(_)) if is_handlers => unrecorded(),
        Some(ProgramCommand::Replay(args)) => replay::with(&args, None, Some(controller.policy)),
        Some(ProgramCommand::Explain(_)) if is_handlers => unrecorded(),
        Some(ProgramCommand::Explain(args)) => explain::main(&args, None, Some(controller.policy)),
        None if is_handlers => run_command::handlers::run(&options, controller, started),
        None => run_command::run_policy(options, controller, started, None),
    })
    .into()
}

/// Parses the program's command line, and the configuration that it names.
fn parse(arguments: Vec<OsString>) -> Result<Program, ParseError> {
    let definition = || with_values(Program::command());
    let (given, missing) = config::parse_given(definition(), &arguments)?;
    match config::merge(arguments, 1, &given).map_err(ParseError::Config)? {
        None => match missing {
            Some(error) => Err(error.into()),
            None => Ok(Program::from_arg_matches(&given)?),
        },
        Some(Merged { arguments, config, configured }) => {
            let mut program = Program::from_arg_matches(&definition().try_get_matches_from(arguments)?)?;
            program.options.network = config.network;
            program.options.configured = Some(configured);
            Ok(program)
        }
    }
}
