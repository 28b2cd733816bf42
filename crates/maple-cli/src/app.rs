//! A program of its own with the command line of `maple run`.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use maple::App;
use maple_controller::Handle;

use crate::options::{CheckOptions, RunOptions};
use crate::output::{exit_status, print_usage};
use crate::{check, run as program};

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

/// Runs an app with the options of `maple run` from the program's command line, until it is told to stop. With the word
/// `check` it does what `maple check` does.
///
/// ```no_run
/// use maple::prelude::*;
///
/// fn main() -> std::process::ExitCode {
///     maple_cli::run(App::new(|_: &Packet, net: &Net| net.flood()))
/// }
/// ```
pub fn run(app: App) -> ExitCode {
    let Alone { command, options } = match Alone::try_parse() {
        Ok(alone) => alone,
        Err(error) => return print_usage(&error).into(),
    };
    if let Some(error) = options.refusal() {
        return print_usage(&error).into();
    }
    let (controller, started) = app.into_parts();
    let started = Box::new(move |handle: Handle| started.into_iter().for_each(|started| started(handle.clone())));
    let is_handlers = controller.handlers.is_some();
    exit_status(match command {
        Some(AloneCommand::Check(_)) if is_handlers => {
            Err(anyhow::anyhow!("handlers can't be checked: what they read is not tracked"))
        }
        Some(AloneCommand::Check(options)) => check::with(&options, controller, &[]),
        None if is_handlers => program::handlers::run(&options, controller, started),
        None => program::with(options, controller, started),
    })
    .into()
}
