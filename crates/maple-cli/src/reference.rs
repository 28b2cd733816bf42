//! The reference of the command line as Markdown: the content of docs/reference/command-line.md.
//!
//! The text comes from the definitions that parse the command line, so it cannot disagree with the program. A test
//! compares the page with it.

use std::fmt::Write as _;

use clap::builder::PossibleValue;
use clap::{Arg, Command};

use crate::command_line::definition;

/// Returns the whole page.
///
/// ```
/// let page = maple_cli::reference::markdown();
/// assert!(page.starts_with("# Command line\n"));
/// assert!(page.contains("\n## maple run\n"));
/// ```
pub fn markdown() -> String {
    let mut maple = definition();
    maple.build();
    let mut page = String::from("# Command line\n\n");
    page.push_str("This page is made from the program's own definitions; `maple COMMAND --help` prints the same.\n\n");
    page.push_str("| command | does |\n| --- | --- |\n");
    for command in visible(&maple) {
        let (name, about) = (command.get_name(), about(command));
        let _ = writeln!(page, "| [`maple {name}`](#maple-{name}) | {about} |");
    }
    for command in visible(&maple) {
        section(&mut page, command, &format!("maple {}", command.get_name()), 2);
    }
    page
}

/// Appends the section of a command, and those of its subcommands.
fn section(page: &mut String, command: &Command, name: &str, level: usize) {
    let _ = write!(page, "\n{} {name}\n\n{}.\n\n", "#".repeat(level), about(command));
    let usage = command.clone().render_usage().to_string();
    let _ = write!(page, "```text\n{}\n```\n", usage.trim_start_matches("Usage: "));
    let (positional, options): (Vec<&Arg>, Vec<&Arg>) = command
        .get_arguments()
        .filter(|argument| !argument.is_hide_set() && argument.get_id() != "help")
        .partition(|argument| argument.is_positional());
    table(page, "argument", &positional);
    table(page, "option", &options);
    if let Some(after) = command.get_after_help() {
        let _ = write!(page, "\n{after}\n");
    }
    for inner in visible(command) {
        section(page, inner, &format!("{name} {}", inner.get_name()), level + 1);
    }
}

fn visible(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|inner| !inner.is_hide_set() && inner.get_name() != "help")
}

fn about(command: &Command) -> String {
    command.get_about().map(ToString::to_string).unwrap_or_default()
}

fn table(page: &mut String, kind: &str, arguments: &[&Arg]) {
    if arguments.is_empty() {
        return;
    }
    let _ = write!(page, "\n| {kind} | meaning |\n| --- | --- |\n");
    for argument in arguments {
        let _ = writeln!(page, "| <code>{}</code> | {} |", cell(&spelling(argument)), cell(&meaning(argument)));
    }
}

/// Returns the form of an argument, such as `--listen ADDR…`.
fn spelling(argument: &Arg) -> String {
    let values: Vec<&str> = argument.get_value_names().unwrap_or_default().iter().map(|name| name.as_str()).collect();
    let takes_values = argument.get_action().takes_values();
    let values = if takes_values { values.join(" ") } else { String::new() };
    let flags = [argument.get_short().map(|c| format!("-{c}")), argument.get_long().map(|long| format!("--{long}"))];
    let flags: Vec<String> = flags.into_iter().flatten().collect();
    match (flags.is_empty(), values.is_empty()) {
        (true, _) => values,
        (false, true) => flags.join(", "),
        (false, false) if argument.is_require_equals_set() => format!("{}[={values}]", flags.join(", ")),
        (false, false) => format!("{} {values}", flags.join(", ")),
    }
}

/// Returns the help of an argument, its possible values, and its default.
fn meaning(argument: &Arg) -> String {
    let help = argument.get_long_help().or_else(|| argument.get_help()).map(ToString::to_string).unwrap_or_default();
    let mut text = help.split_whitespace().collect::<Vec<_>>().join(" ");
    let choices = argument.get_possible_values();
    let are_spelled_out = spelling(argument).contains('|') && choices.iter().all(|choice| !explains(choice));
    if argument.get_action().takes_values() && !choices.is_empty() && !are_spelled_out {
        let names: Vec<String> = choices.iter().filter(|choice| !choice.is_hide_set()).map(choice_text).collect();
        let _ = write!(text, ". One of {}", names.join(", "));
    }
    let defaults: Vec<String> =
        argument.get_default_values().iter().map(|value| format!("`{}`", value.to_string_lossy())).collect();
    if argument.get_action().takes_values() && !argument.is_hide_default_value_set() && !defaults.is_empty() {
        let _ = write!(text, " (default: {})", defaults.join(", "));
    }
    text
}

fn choice_text(choice: &PossibleValue) -> String {
    match choice.get_help() {
        Some(help) if explains(choice) => format!("`{}` ({help})", choice.get_name()),
        _ => format!("`{}`", choice.get_name()),
    }
}

/// Reports whether a value's help adds something to its name.
fn explains(choice: &PossibleValue) -> bool {
    choice.get_help().is_some_and(|help| !help.to_string().eq_ignore_ascii_case(choice.get_name()))
}

/// Escapes text for a cell of a table.
fn cell(text: &str) -> String {
    text.replace('<', "&lt;").replace('|', "&#124;")
}
