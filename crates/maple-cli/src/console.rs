//! Commands for an emulated network, from a console or a script.

use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::path::Path;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};

use maple_emulator::lab::{Ground, Lab, LabError, ScriptError, run_script};
use maple_emulator::time::MILLISECOND;

use crate::options::EmulationArgs;
use crate::output::print_line;
use crate::usage_error::usage_error;

/// The interval of handling events while the prompt waits.
const IDLE: u64 = 20 * MILLISECOND;

/// Runs the commands of a script, or those that are typed, until the end.
///
/// # Errors
/// If a command of a script is invalid or fails.
pub fn run(lab: &Lab, ground: &mut impl Ground, args: &EmulationArgs) -> anyhow::Result<()> {
    match &args.script {
        Some(file) => script(lab, ground, file),
        None => typed(lab, ground),
    }
}

fn script(lab: &Lab, ground: &mut impl Ground, file: &Path) -> anyhow::Result<()> {
    match run_script(lab, ground, &file.to_string_lossy(), &mut |line: &str| print_line(line)) {
        // After a stop the rest of the commands is not run.
        Ok(()) | Err(ScriptError::Failed { error: LabError::Stopped, .. }) => Ok(()),
        Err(error @ (ScriptError::Read { .. } | ScriptError::Wrong { .. })) => Err(usage_error(error)),
        Err(error) => Err(error.into()),
    }
}

fn typed(lab: &Lab, ground: &mut impl Ground) -> anyhow::Result<()> {
    let prompts = std::io::stdin().is_terminal();
    let lines = lines()?;
    loop {
        if prompts {
            print!("maple> ");
            std::io::stdout().flush()?;
        }
        let Some(line) = next(ground, &lines)? else { return Ok(()) };
        match lab.line(ground, &line?) {
            Ok(answer) if answer.is_empty() => {}
            Ok(answer) => print_line(answer),
            Err(LabError::Stopped) => return Ok(()),
            Err(error @ LabError::Emulation(_)) => return Err(error.into()),
            Err(error) => print_line(error),
        }
    }
}

/// The next line that the user types. `None` at the end, or when the program is stopped.
fn next(
    ground: &mut impl Ground,
    lines: &Receiver<std::io::Result<String>>,
) -> anyhow::Result<Option<std::io::Result<String>>> {
    loop {
        match lines.try_recv() {
            Ok(line) => return Ok(Some(line)),
            Err(TryRecvError::Disconnected) => return Ok(None),
            Err(TryRecvError::Empty) => match ground.pass(IDLE) {
                Ok(()) => {}
                Err(LabError::Stopped) => return Ok(None),
                Err(error) => return Err(error.into()),
            },
        }
    }
}

/// The lines that are typed. The reading thread blocks in the kernel and ends with the program.
fn lines() -> anyhow::Result<Receiver<std::io::Result<String>>> {
    let (sender, lines) = sync_channel(16);
    std::thread::Builder::new().name("console".into()).spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let is_last = line.is_err();
            if sender.send(line).is_err() || is_last {
                return;
            }
        }
    })?;
    Ok(lines)
}
