//! `maple completions` and `maple man`, generated from the definitions that parse the command line.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, Command};
use clap_complete::Shell;

use crate::output::print_own;

/// `maple completions`.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub shell: Shell,
}

/// `maple man`.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// The folder; it is made if it is not there
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
}

/// Prints the completions for a shell.
///
/// # Errors
/// If standard output can't be written.
pub fn completions(mut command: Command, shell: Shell) -> anyhow::Result<u8> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command, "maple", &mut text);
    print_own(&text)?;
    Ok(0)
}

/// Writes a manual page for each command: `maple.1`, `maple-run.1`, `maple-show-rules.1`.
///
/// # Errors
/// If the folder can't be created or written.
pub fn man(command: Command, folder: &Path) -> anyhow::Result<u8> {
    let context = || format!("can't write manual pages into {}", folder.display());
    std::fs::create_dir_all(folder).with_context(context)?;
    clap_mangen::generate_to(command, folder).with_context(context)?;
    Ok(0)
}
