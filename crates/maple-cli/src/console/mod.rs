//! Commands for an emulated network and its controller, from a console or a script.

mod asking;
mod complete;
mod editor;
mod keys;
mod lines;
mod screen;
mod terminal;

use std::path::Path;
use std::time::Duration;

use maple_controller::Handle;
use maple_emulator::commands::{CommandError, CommandRunner, Ground, ScriptError, run_script};

use crate::options::EmulationArgs;
use crate::output::print_line;
use crate::usage_error::usage_error;
use asking::GroundWithController;
use lines::CommandLines;

/// The time between two looks for events while the prompt or a command waits. Chosen: a person does not notice it, and
/// the looks cost little.
const IDLE: Duration = Duration::from_millis(20);

/// Runs the commands of a script, or those that are typed, until the end. `controller`: the controller of this process,
/// if there is one.
///
/// # Errors
/// If a command of a script is invalid or fails.
pub fn run(
    runner: &CommandRunner,
    ground: &mut impl Ground,
    args: &EmulationArgs,
    controller: Option<&Handle>,
) -> anyhow::Result<()> {
    let mut ground = GroundWithController { ground, controller };
    match &args.script {
        Some(file) => script(runner, &mut ground, file),
        None => typed(runner, &mut ground),
    }
}

fn script(runner: &CommandRunner, ground: &mut impl Ground, file: &Path) -> anyhow::Result<()> {
    match run_script(runner, ground, &file.to_string_lossy(), &mut |line: &str| print_line(line)) {
        // After a stop the remaining commands are not run.
        Ok(()) | Err(ScriptError::Failed { error: CommandError::Stopped, .. }) => Ok(()),
        Err(error @ (ScriptError::Read { .. } | ScriptError::Wrong { .. })) => Err(usage_error(error)),
        Err(error) => Err(error.into()),
    }
}

fn typed<G: Ground>(runner: &CommandRunner, ground: &mut GroundWithController<'_, G>) -> anyhow::Result<()> {
    let mut lines = CommandLines::open(runner, ground.controller.is_some())?;
    while let Some(line) = lines.next(ground)? {
        match runner.line(ground, &line) {
            Ok(answer) if answer.is_empty() => {}
            Ok(answer) => print_line(answer),
            Err(CommandError::Stopped) => return Ok(()),
            Err(error @ CommandError::Emulation(_)) => return Err(error.into()),
            Err(error) => print_line(error),
        }
    }
    Ok(())
}
