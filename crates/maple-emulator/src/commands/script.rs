//! Scripts: commands in a file, one on each line.

use super::{Command, CommandError, CommandRunner, Ground};

/// The reason why a script ended early.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// The script could not be read.
    #[error("{file}: {error}")]
    Read {
        /// The file.
        file: String,
        /// The system's error.
        error: std::io::Error,
    },
    /// A line is not a command. Nothing was run.
    #[error("{file}:{line}: {error}")]
    Wrong {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// The problem.
        error: CommandError,
    },
    /// A command failed. The following ones were not run.
    #[error("{file}:{line}: {error}")]
    Failed {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// The reason.
        error: CommandError,
    },
}

/// Runs the commands of a file, and reports each with its result, until the first that fails. All are parsed before the
/// first one runs. `exit` ends the script.
///
/// # Errors
/// [`ScriptError`] with file and line, if the file can't be read, a line is not a command, or a command fails.
pub fn run_script(
    runner: &CommandRunner,
    ground: &mut impl Ground,
    file: &str,
    print: &mut impl FnMut(&str),
) -> Result<(), ScriptError> {
    let text = std::fs::read_to_string(file).map_err(|error| ScriptError::Read { file: file.into(), error })?;
    let mut commands = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        let wrong = |error| ScriptError::Wrong { file: file.into(), line, error };
        let Some(command) = Command::parse(text).map_err(wrong)? else { continue };
        runner.check(ground, &command).map_err(wrong)?;
        commands.push((line, text.trim(), command));
    }
    for (line, text, command) in commands {
        if command == Command::Exit {
            break;
        }
        print(&format!("> {text}"));
        match runner.run(ground, &command) {
            Ok(answer) if answer.is_empty() => {}
            Ok(answer) => print(&answer),
            Err(error) => return Err(ScriptError::Failed { file: file.into(), line, error }),
        }
    }
    Ok(())
}
