//! Commands in a file, one a line.

use super::{Command, Ground, Lab, LabError};

/// Why a script ended early.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    /// It could not be read.
    #[error("{file}: {error}")]
    Read {
        /// The file.
        file: String,
        /// The system's error.
        error: std::io::Error,
    },
    /// A line is no command. Nothing was run.
    #[error("{file}:{line}: {error}")]
    Wrong {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// The problem.
        error: LabError,
    },
    /// A command failed. The following ones were not run.
    #[error("{file}:{line}: {error}")]
    Failed {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// Why.
        error: LabError,
    },
}

/// Does the commands of a file, telling each with what came of it, until the first that fails. All are read before the
/// first is done. `exit` ends it.
///
/// # Errors
/// [`ScriptError`], naming file and line.
pub fn run_script(
    lab: &Lab,
    ground: &mut impl Ground,
    file: &str,
    tell: &mut impl FnMut(&str),
) -> Result<(), ScriptError> {
    let text = std::fs::read_to_string(file).map_err(|error| ScriptError::Read { file: file.into(), error })?;
    let mut commands = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        let wrong = |error| ScriptError::Wrong { file: file.into(), line, error };
        let Some(command) = Command::parse(text).map_err(wrong)? else { continue };
        lab.check(ground, &command).map_err(wrong)?;
        commands.push((line, text.trim(), command));
    }
    for (line, text, command) in commands {
        if command == Command::Exit {
            break;
        }
        tell(&format!("> {text}"));
        match lab.run(ground, &command) {
            Ok(answer) if answer.is_empty() => {}
            Ok(answer) => tell(&answer),
            Err(error) => return Err(ScriptError::Failed { file: file.into(), line, error }),
        }
    }
    Ok(())
}
