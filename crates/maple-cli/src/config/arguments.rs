//! Options of `maple run` from a file. The keys are the options' own names, from the definition that parses the command
//! line, so each option is a key. `[SECTION]` groups options: `format` in `[log]` is `--log-format`.

use std::any::TypeId;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args as _, Command};
use toml_edit::Value;

use super::TABLES;
use super::document::{ConfigEntry, Section};
use crate::declared::Setting;
use crate::options::RunArgs;
use crate::values::with_values;

/// The prefixes of options that may be tables.
const SECTIONS: [&str; 5] = ["tls", "cluster", "metrics", "log", "max"];
/// Keys of tables whose options have other names: the table, its key, and the option.
const OTHER_NAMES: [(&str, &str, &str); 2] = [("cluster", "address", "cluster"), ("cluster", "name", "name")];
/// The options that only the command line can set.
const NOT_IN_FILE: [&str; 3] = ["config", "help", "version"];

/// Returns the definition of `maple run`.
pub fn definition() -> Command {
    with_values(RunArgs::augment_args(Command::new("run").no_binary_name(true).disable_help_flag(true)))
}

/// Returns the options that a file may set, with their keys.
pub fn keys(command: &Command) -> Vec<(String, &Arg)> {
    let is_open = |(key, _): &(String, &Arg)| !NOT_IN_FILE.contains(&key.as_str());
    command.get_arguments().map(|arg| (key_of(arg), arg)).filter(is_open).collect()
}

fn key_of(arg: &Arg) -> String {
    arg.get_long().map_or_else(|| arg.get_id().to_string(), str::to_owned)
}

/// Reads the options of a document.
pub fn read(root: &mut Section<'_>, folder: &Path) -> Vec<Setting> {
    let command = definition();
    let keys = keys(&command);
    let mut settings = Vec::new();
    for (key, arg) in &keys {
        let Some(entry) = root.get(key) else { continue };
        let is_group = || SECTIONS.contains(&key.as_str()) && !grouped(&keys, key).is_empty();
        if !entry.is_table() {
            settings.extend(setting(&command, arg, &entry, folder));
        } else if !TABLES.contains(&key.as_str()) && !is_group() {
            entry.wrong("must be a value, not a table");
        }
    }
    for name in SECTIONS {
        let inner = grouped(&keys, name);
        if inner.is_empty() {
            continue;
        }
        let Some(entry) = root.get(name).filter(ConfigEntry::is_table) else { continue };
        let Some(mut section) = entry.section() else { continue };
        for (key, arg) in inner {
            let Some(entry) = section.get(key) else { continue };
            if let Some(before) = settings.iter().find(|setting| setting.id == arg.get_id().as_str()) {
                entry.wrong(format!("{} in line {} is the same option", before.key, before.at.line));
            }
            settings.extend(setting(&command, arg, &entry, folder));
        }
        section.end();
    }
    settings
}

/// Reports whether an option is a flag, which takes no value.
pub fn is_flag(arg: &Arg) -> bool {
    arg.get_value_parser().type_id() == TypeId::of::<bool>()
}

/// Reports whether an option has this name.
pub fn is_option(name: &str) -> bool {
    keys(&definition()).iter().any(|(key, _)| key == name)
}

/// Returns the options whose names begin with `name`, with the rest of their names.
fn grouped<'a>(keys: &'a [(String, &'a Arg)], name: &str) -> Vec<(&'a str, &'a Arg)> {
    let rest = |key: &'a str| key.strip_prefix(name)?.strip_prefix('-');
    let other = |of: &str| {
        let known = OTHER_NAMES.iter().find(|(table, _, option)| *table == name && *option == of);
        known.map(|(_, key, _)| *key)
    };
    keys.iter().filter_map(|(key, arg)| Some((rest(key).or_else(|| other(key))?, *arg))).collect()
}

/// Reads one option; `None` if its value is wrong.
fn setting(command: &Command, arg: &Arg, entry: &ConfigEntry<'_>, folder: &Path) -> Option<Setting> {
    let values: Vec<String> =
        entry.items().into_iter().map(|value| text(arg, value)).collect::<Option<_>>().or_else(|| {
            entry.wrong("must be text, a number, true or false, or an array of these");
            None
        })?;
    let arguments: Vec<OsString> = if !is_flag(arg) {
        if entry.is_array() && !matches!(arg.get_action(), ArgAction::Append) {
            entry.wrong("must be one value, not an array");
            return None;
        }
        values.iter().map(|value| argument(arg, &placed(arg, value, folder))).collect()
    } else {
        match values.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["true"] => vec![format!("--{}", arg.get_long()?).into()],
            ["false"] => Vec::new(),
            _ => {
                entry.wrong("must be true or false");
                return None;
            }
        }
    };
    for argument in &arguments {
        if let Err(error) = command.clone().try_get_matches_from([argument])
            && let Some(text) = what_is_wrong(&error)
        {
            entry.wrong(text);
            return None;
        }
    }
    Some(Setting { id: arg.get_id().to_string(), key: key_of(arg), arguments, at: entry.at.clone() })
}

fn argument(arg: &Arg, value: &str) -> OsString {
    match arg.get_long() {
        Some(long) => format!("--{long}={value}").into(),
        None => value.into(),
    }
}

/// Writes a value as the command line has it.
fn text(arg: &Arg, value: &Value) -> Option<String> {
    let is_switch = arg.get_possible_values().iter().any(|possible| possible.get_name() == "on");
    Some(match value {
        Value::String(text) => text.value().clone(),
        Value::Integer(number) => number.value().to_string(),
        Value::Float(number) => number.value().to_string(),
        Value::Boolean(truth) if is_switch => if *truth.value() { "on" } else { "off" }.into(),
        Value::Boolean(truth) => truth.value().to_string(),
        Value::Datetime(_) | Value::Array(_) | Value::InlineTable(_) => return None,
    })
}

/// Resolves a path of the file relative to the file's folder, not to the folder of the program.
fn placed(arg: &Arg, value: &str, folder: &Path) -> String {
    let is_path = match arg.get_id().as_str() {
        "policy" => !value.starts_with("builtin:"),
        "emulate" => value.ends_with(".json"),
        _ => arg.get_value_parser().type_id() == TypeId::of::<PathBuf>() && value != "none",
    };
    if is_path { folder.join(value).to_string_lossy().into_owned() } else { value.to_owned() }
}

/// Returns what is wrong with a value; `None` if the error is about other options.
fn what_is_wrong(error: &clap::Error) -> Option<String> {
    use std::error::Error as _;
    let about_others = [ErrorKind::MissingRequiredArgument, ErrorKind::ArgumentConflict];
    if about_others.contains(&error.kind()) {
        return None;
    }
    if let Some(source) = error.source() {
        return Some(source.to_string());
    }
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        Some(ContextValue::Strings(all)) => Some(all.join(", ")),
        _ => None,
    };
    let known = context(ContextKind::ValidValue).map(|all| format!("; it is one of {all}"));
    match context(ContextKind::InvalidValue) {
        Some(value) => Some(format!("{value:?} is not known{}", known.unwrap_or_default())),
        None => error.to_string().lines().next().map(|line| line.trim_start_matches("error: ").to_owned()),
    }
}

/// Returns the arguments of those settings that the command line does not set.
pub fn arguments(settings: &[Setting], given: &ArgMatches) -> Vec<OsString> {
    settings
        .iter()
        .filter(|setting| !is_given(given, &setting.id))
        .flat_map(|setting| setting.arguments.clone())
        .collect()
}

/// Reports whether the command line sets this option.
pub fn is_given(given: &ArgMatches, id: &str) -> bool {
    given.try_contains_id(id).is_ok_and(|known| known) && given.value_source(id) == Some(ValueSource::CommandLine)
}
