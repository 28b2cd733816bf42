//! Reads a configuration again while the controller runs.

use std::collections::BTreeMap;

use anyhow::anyhow;
use clap::FromArgMatches as _;

use super::{Config, arguments, parse_given};
use crate::declared::{Configured, FileLine, Setting};
use crate::options::RunArgs;

/// A configuration that was read again.
pub struct RereadConfig {
    /// The options with which a controller would start.
    pub args: RunArgs,
    /// The source of these options.
    pub configured: Configured,
    /// The changed options, by their ids, with their keys. Options that the command line sets are not among them.
    pub changed: BTreeMap<String, String>,
}

impl Configured {
    /// Returns the place where the file sets this option, or else the start of the file.
    pub fn place_of(&self, id: &str) -> FileLine {
        let setting = self.settings.iter().find(|setting| setting.id == id);
        setting.map_or(FileLine { file: self.file.clone(), line: 1 }, |setting| setting.at.clone())
    }
}

/// Reads a configuration again, and compares its options with those of `before`.
///
/// # Errors
/// All faults, a line for each.
pub fn read_again(before: &Configured) -> anyhow::Result<RereadConfig> {
    let config = Config::read(&before.file)?;
    let wrong = |error: clap::Error| {
        let text = error.to_string();
        // The lines after the first paragraph are about the command line.
        let lines: Vec<&str> = text.lines().take_while(|line| !line.is_empty()).map(str::trim).collect();
        let text = lines.join(" ");
        let text = text.trim_start_matches("error: ");
        anyhow!("{}: {text}", before.file.display())
    };
    let (given, _) = parse_given(arguments::definition(), &before.given).map_err(wrong)?;
    let mut all = arguments::arguments(&config.settings, &given);
    all.extend(before.given.iter().cloned());
    let matches = arguments::definition().try_get_matches_from(all).map_err(wrong)?;
    let mut args = RunArgs::from_arg_matches(&matches).map_err(wrong)?;
    if let Some(refusal) = args.options.refusal() {
        return Err(wrong(refusal));
    }
    let changed = changes(&before.settings, &config.settings).into_iter();
    let changed = changed.filter(|(id, _)| !arguments::is_given(&given, id)).collect();
    args.options.network = config.network;
    let configured = Configured { settings: config.settings, ..before.clone() };
    Ok(RereadConfig { args, configured, changed })
}

/// Returns the options that differ: their ids, with their keys.
fn changes(before: &[Setting], now: &[Setting]) -> BTreeMap<String, String> {
    let says = |all: &[Setting], of: &Setting| {
        all.iter().find(|setting| setting.id == of.id).map(|setting| setting.arguments.clone()).unwrap_or_default()
    };
    let differs = |of: &&Setting| says(before, of) != says(now, of);
    before.iter().chain(now).filter(differs).map(|of| (of.id.clone(), of.key.clone())).collect()
}
