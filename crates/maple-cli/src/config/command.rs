//! `maple config`: checks a configuration, and prints the one in effect.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Subcommand};
use maple_core::network::{Facts, PortSet};
use maple_wire::{Dpid, counted};

use super::arguments::is_flag;
use super::{Config, arguments};
use crate::declared::{DeclaredNetwork, Setting};
use crate::options::RunArgs;
use crate::output::{print_error_line, print_line};

/// `maple config`.
#[derive(Debug, Args)]
pub struct ConfigArgs {
    /// The action.
    #[command(subcommand)]
    pub command: ConfigCommand,
}

/// An action of `maple config`.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Say what is wrong in a configuration, with file, line and key
    Check {
        /// The file
        file: PathBuf,
    },
    /// Print the configuration that `maple run` with these arguments would have, and where each value is from
    Show(Box<RunArgs>),
}

/// Runs `maple config check`.
///
/// # Errors
/// If the file can't be read.
pub fn check(file: &Path) -> anyhow::Result<u8> {
    let text = std::fs::read_to_string(file).with_context(|| format!("can't read {}", file.display()))?;
    match Config::parse(file, text) {
        Ok(config) => {
            let DeclaredNetwork { facts, costs, rows, .. } = &config.network;
            print_line(format_args!(
                "{}: {}, {}, {}, {}, {}",
                file.display(),
                counted(config.settings.len(), "option"),
                counted(facts.switches().count(), "switch"),
                counted(facts.hosts().count(), "host"),
                counted(costs.len(), "cost"),
                counted(rows.len(), "row"),
            ));
            Ok(0)
        }
        Err(problems) => {
            problems.iter().for_each(print_error_line);
            Ok(1)
        }
    }
}

/// The options of `maple run` with their sources, and the declarations of a file.
#[derive(Debug, Default)]
pub struct Origins {
    options: Vec<Origin>,
    network: DeclaredNetwork,
}

#[derive(Debug)]
struct Origin {
    key: String,
    /// The value; `None` if the program has none, but may choose one.
    value: Option<String>,
    from: String,
}

impl Origins {
    /// Returns the origins of options: `given` are the arguments of the command line, `all` are these and those of the
    /// file.
    pub fn from_arguments(given: &ArgMatches, all: &ArgMatches, config: Config) -> Origins {
        let command = arguments::definition();
        let origin_of = |(key, arg): (String, &Arg)| origin(key, arg, given, all, &config.settings);
        let options = arguments::keys(&command).into_iter().map(origin_of).collect();
        Origins { options, network: config.network }
    }
}

fn origin(key: String, arg: &Arg, given: &ArgMatches, all: &ArgMatches, settings: &[Setting]) -> Origin {
    let id = arg.get_id().as_str();
    let source = |matches: &ArgMatches| matches.value_source(id).filter(|_| matches.contains_id(id));
    let setting = settings.iter().find(|setting| setting.id == id);
    let (value, from) = match (source(given), setting) {
        (Some(ValueSource::CommandLine), _) => (Some(value(arg, given)), "command line".to_owned()),
        (_, Some(setting)) => (Some(value(arg, all)), setting.at.to_string()),
        _ => {
            let has_value = !is_flag(arg) && source(all).is_some();
            let chosen = if has_value { Some(value(arg, all)) } else { default(arg) };
            (chosen, "default".to_owned())
        }
    };
    Origin { key, value, from }
}

/// Writes a value as TOML.
fn value(arg: &Arg, matches: &ArgMatches) -> String {
    if is_flag(arg) {
        return matches.get_flag(arg.get_id().as_str()).to_string();
    }
    let raw = matches.get_raw(arg.get_id().as_str()).into_iter().flatten();
    let values: Vec<String> = raw.map(|value| toml_string(&value.to_string_lossy())).collect();
    let is_array = matches!(arg.get_action(), clap::ArgAction::Append);
    if is_array { format!("[{}]", values.join(", ")) } else { values.join(", ") }
}

fn toml_string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Returns the default that the help text names.
fn default(arg: &Arg) -> Option<String> {
    if is_flag(arg) {
        return Some("false".into());
    }
    let help = arg.get_help()?.to_string();
    let (_, default) = help.rsplit_once("[default: ")?;
    Some(format!("({})", default.trim_end_matches(']').split_whitespace().collect::<Vec<_>>().join(" ")))
}

/// Runs `maple config show`.
pub fn show(origins: &Origins) -> u8 {
    print_line(text(origins).trim_end());
    0
}

fn text(Origins { options, network }: &Origins) -> String {
    let mut text = String::new();
    for Origin { key, value, from } in options {
        // An option without value and default is off.
        if let Some(value) = value {
            line(&mut text, &format!("{key} = {value}"), from);
        }
    }
    let at = |name: &str| network.places.get(name).map(ToString::to_string).unwrap_or_default();
    for (dpid, _) in network.facts.switches() {
        let name = network.names.of_switch(*dpid).unwrap_or_default();
        line(&mut text, &format!("switch {name}: {}", switch(&network.facts, *dpid)), &at(name));
    }
    for (dpid, certificate) in &network.certificates {
        let name = network.names.of_switch(*dpid).unwrap_or_default();
        line(&mut text, &format!("switch {name}: certificate {certificate}"), &at(name));
    }
    for (mac, facts) in network.facts.hosts() {
        let name = network.names.of_host(*mac).unwrap_or_default();
        let place = facts.at.map_or("anywhere".to_owned(), |at| network.names.in_text(&at.to_string()));
        let addresses: String = facts.addresses.iter().map(|ip| format!(", {ip}")).collect();
        line(&mut text, &format!("host {name}: {mac}, {place}{addresses}"), &at(name));
    }
    for cost in &network.costs {
        line(&mut text, &format!("cost {}", cost.text), &cost.at.to_string());
    }
    for (place, row) in &network.rows {
        let what = match &row.key {
            Some(key) => format!("table {}: {key} = {}", row.name, row.value),
            None => format!("variable {} = {}", row.name, row.value),
        };
        line(&mut text, &what, &place.to_string());
    }
    text
}

fn switch(facts: &Facts, dpid: Dpid) -> String {
    let Some((_, facts)) = facts.switches().find(|(known, _)| **known == dpid) else { return dpid.to_string() };
    let mut text = dpid.to_string();
    let sets = [("ports", facts.ports.as_ref()), ("edge", Some(&facts.edge)), ("link", Some(&facts.link))];
    for (name, set) in sets.into_iter().filter_map(|(name, set)| Some((name, set.filter(|set| !set.0.is_empty())?))) {
        let _ = write!(text, ", {name} {}", ranges(set));
    }
    for (set, most) in &facts.max_hosts {
        let place = if set.0 == [0..=u32::MAX] { String::new() } else { format!(" at {}", ranges(set)) };
        let _ = write!(text, ", at most {most} hosts{place}");
    }
    text
}

fn ranges(set: &PortSet) -> String {
    let range = |range: &std::ops::RangeInclusive<u32>| match (range.start(), range.end()) {
        (first, last) if first == last => first.to_string(),
        (first, last) => format!("{first}-{last}"),
    };
    set.0.iter().map(range).collect::<Vec<_>>().join(",")
}

fn line(text: &mut String, what: &str, from: &str) {
    let _ = writeln!(text, "{what:<60}  # {from}");
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;
    use crate::config::{Merged, merge};

    #[test]
    fn each_value_has_its_origin() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("m.toml");
        let content =
            "policy = \"p.py\"\nlisten = [\"6633\"]\nworkers = 2\n[hosts.alice]\nmac = \"00:00:00:00:00:01\"\n";
        std::fs::write(&file, content).expect("a file");
        let arguments: Vec<OsString> = vec!["--config".into(), file.clone().into(), "--workers".into(), "4".into()];
        let given = arguments::definition().try_get_matches_from(&arguments).expect("they are right");
        let Merged { arguments: all, config, .. } = merge(arguments, 0, &given).expect("a right file").expect("a file");
        let all = arguments::definition().try_get_matches_from(all).expect("they are right");
        let text = text(&Origins::from_arguments(&given, &all, config));
        let origin_of = |start: &str| {
            let line = text.lines().find(|line| line.starts_with(start)).unwrap_or_else(|| panic!("{start}: {text}"));
            line.split_once("# ").expect("an origin").1.to_owned()
        };
        assert_eq!(origin_of(&format!("policy = {:?}", folder.path().join("p.py"))), format!("{}:1", file.display()));
        assert_eq!(origin_of("listen = [\"6633\"]"), format!("{}:2", file.display()));
        assert_eq!(origin_of("workers = \"4\""), "command line");
        assert_eq!(origin_of("max-hosts-per-port = (1024)"), "default");
        assert_eq!(origin_of("policy-time-limit = \"1s\""), "default");
        assert_eq!(origin_of("watch = false"), "default");
        assert_eq!(origin_of("host alice: 00:00:00:00:00:01, anywhere"), format!("{}:4", file.display()));
    }
}
