//! The configuration file of `maple run`: a TOML document (docs/configuration.md). The command line has precedence over
//! it, and it has precedence over the program or policy.
//!
//! The options in it become arguments in front of those of the command line. So only the parser of the command line
//! knows which values an option may have.

mod arguments;
mod command;
mod declarations;
mod document;
mod reread;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::error::ErrorKind;
use clap::{ArgMatches, Command, Error, FromArgMatches as _};

use crate::declared::{Configured, DeclaredNetwork, Setting};
use crate::options::{RunArgs, RunOptions};
use crate::usage_error::OrUsageError as _;
pub use command::{ConfigArgs, ConfigCommand, Origins, check, show};
pub use document::Problem;
pub use reread::{RereadConfig, read_again};

/// The tables of the network.
const TABLES: [&str; 5] = ["switches", "hosts", "costs", "tables", "variables"];
/// The file that `maple run` without a policy reads if it exists.
pub const DEFAULT_FILE: &str = "/etc/maple/maple.toml";

/// A file that was read.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The options.
    pub settings: Vec<Setting>,
    /// The network.
    pub network: DeclaredNetwork,
}

impl Config {
    /// Reads a file.
    ///
    /// # Errors
    /// If the file can't be read, or if it has faults, with a line for each.
    pub fn read(file: &Path) -> anyhow::Result<Config> {
        let text = std::fs::read_to_string(file).with_context(|| format!("can't read {}", file.display()))?;
        Config::parse(file, text).or_else(|problems| {
            bail!("{}", problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\nmaple: "))
        })
    }

    /// Parses the content of a file.
    ///
    /// # Errors
    /// All faults of the file.
    pub fn parse(file: &Path, text: String) -> Result<Config, Vec<Problem>> {
        let document = document::Document::parse(file, text).map_err(|problem| vec![problem])?;
        let mut root = document.root();
        let settings = arguments::read(&mut root, document.folder());
        let network = declarations::read(&mut root);
        root.end();
        match document.problems() {
            problems if problems.is_empty() => Ok(Config { settings, network }),
            problems => Err(problems),
        }
    }
}

/// A command line together with the configuration that it names.
pub struct Merged {
    /// The arguments to parse in the place of the given ones.
    pub arguments: Vec<OsString>,
    /// The configuration.
    pub config: Config,
    /// The source of the configuration.
    pub configured: Configured,
}

/// Parses a command line before its configuration is read. An option may need another one that only the configuration
/// has; so the error that it is missing is returned beside what there is, and stands if there is no configuration.
///
/// # Errors
/// Any other error.
pub fn parse_given(command: Command, arguments: &[OsString]) -> Result<(ArgMatches, Option<Error>), Error> {
    match command.clone().try_get_matches_from(arguments) {
        Ok(matches) => Ok((matches, None)),
        Err(error) if error.kind() == ErrorKind::MissingRequiredArgument => {
            Ok((command.ignore_errors(true).try_get_matches_from(arguments)?, Some(error)))
        }
        Err(error) => Err(error),
    }
}

/// Reads the configuration that a command line names. Returns it with the arguments to parse in place of the given
/// ones: those of the file stand at `place`, before the given ones. `None` if the command line names no file.
///
/// # Errors
/// The faults of the file.
pub fn merge(mut arguments: Vec<OsString>, place: usize, given: &ArgMatches) -> anyhow::Result<Option<Merged>> {
    let Some(file) = file(given) else { return Ok(None) };
    let config = Config::read(&file).or_usage_error()?;
    let of_file = arguments::arguments(&config.settings, given);
    let configured = Configured { file, settings: config.settings.clone(), given: arguments[place..].to_vec() };
    arguments.splice(place..place, of_file);
    Ok(Some(Merged { arguments, config, configured }))
}

/// Reads the options of `maple run` from a file.
///
/// # Errors
/// The faults of the file, or options that do not fit together.
pub fn run_options(file: &Path) -> anyhow::Result<RunOptions> {
    let config = Config::read(file)?;
    let none = arguments::definition().try_get_matches_from(std::iter::empty::<OsString>())?;
    let all = arguments::definition().try_get_matches_from(arguments::arguments(&config.settings, &none))?;
    let options = RunArgs::from_arg_matches(&all)?.options;
    Ok(RunOptions { network: config.network, ..options })
}

/// Returns the file that the command line names. Without one and without a policy, returns the default file if it
/// exists.
fn file(given: &ArgMatches) -> Option<PathBuf> {
    if let Some(file) = given.get_one::<PathBuf>("config") {
        return Some(file.clone());
    }
    let has_policy = given.try_contains_id("policy").is_ok_and(|has| has);
    let default = Path::new(DEFAULT_FILE);
    (given.try_contains_id("policy").is_ok() && !has_policy && default.exists()).then(|| default.to_owned())
}

#[cfg(test)]
mod tests;
