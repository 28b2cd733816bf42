//! `maple state`: reads, changes and watches tracked state of a running controller.

mod load_rows;

use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, Subcommand};
use maple_controller::control::explain::written;
use maple_controller::control::socket::{Reach, Request, StatePlace, StateRequest, ask, follow, schema};
use serde_json::{Value, json};

use crate::options::controller_to_ask;
use crate::output::{json_line, json_text, print_line, print_text};
use crate::show::hint;
use maple_wire::counted;

/// `maple state`.
#[derive(Debug, Args)]
#[command(
    after_help = "Keys and values are what the table or the variable was declared to hold (see `maple state list`). \
    Without a declaration they are JSON, and anything else is text: 80, true, null, \"80\", day, [1, 2]. Addresses as values in tables of Rust policies, and as the first keys: mac:00:00:00:00:00:01, ip:10.0.0.1, switch:1, location:1:3. \
    Where an address, a switch or a place is wanted, the name of a host or a switch stands for it: h1, s1, s1:2, mac:h1"
)]
pub struct StateArgs {
    #[command(subcommand)]
    command: StateCommand,
    /// The controller's Unix socket [default: as in `maple run`]
    #[arg(long, value_name = "PATH", global = true)]
    control: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum StateCommand {
    /// Print a table, the value at a key, or a variable
    Get {
        #[command(flatten)]
        place: StateTarget,
        /// Also print who wrote it last, and when; of a table a line for each key
        #[arg(long)]
        who: bool,
    },
    /// Set the value at a key, or a variable; returns when no packet is decided by the old value any more
    Set {
        #[command(flatten)]
        place: StateTarget,
        /// The value
        #[arg(value_name = "VALUE")]
        value: Option<String>,
        /// Also wait until no switch has a rule that depends on the old value
        #[arg(long)]
        settled: bool,
        /// Make a table or variable of this name if there is none
        #[arg(long)]
        create: bool,
    },
    /// Delete a key or a variable; returns as `set`
    Delete {
        #[command(flatten)]
        place: StateTarget,
        /// As in `set`
        #[arg(long)]
        settled: bool,
    },
    /// Set all that a file has: of tables and variables as JSON, or of one table as CSV; all rows are checked first
    Load(load_rows::StateLoadArgs),
    /// Print a table, the value at a key, or a variable, now and after each change
    Watch(StateTarget),
    /// Print the known tables and variables with their declared types
    List {
        /// Also print who wrote last, and when
        #[arg(long)]
        who: bool,
    },
}

#[derive(Debug, Args)]
struct StateTarget {
    /// The table, or with --var the variable
    name: String,
    /// The key
    key: Option<String>,
    /// The name is that of a variable
    #[arg(long)]
    var: bool,
}

/// Runs the command, and prints the answer. `own`: the controller of this process, if the query is for it.
///
/// # Errors
/// If the controller does not answer or refuses, or if standard output can't be written.
pub fn main(args: StateArgs, own: Option<&dyn Reach>) -> anyhow::Result<u8> {
    let controller = &*controller_to_ask(args.control, own);
    let answer = match args.command {
        StateCommand::Get { place, who: false } => {
            ask(controller, &Request::State(StateRequest::Get(place.place()?))).map_err(hint)?
        }
        StateCommand::Get { place, who: true } => {
            let answer = ask(controller, &Request::State(StateRequest::Written(place.place()?))).map_err(hint)?;
            print_text(&with_writers(&answer))?;
            return Ok(0);
        }
        StateCommand::Set { place, value, settled, create } => {
            let (place, value) = place.with_value(value)?;
            ask(controller, &Request::State(StateRequest::Set { place, value, settled, create })).map_err(hint)?;
            return Ok(0);
        }
        StateCommand::Load(args) => return load_rows::main(controller, &args),
        StateCommand::Delete { place, settled } => {
            ask(controller, &Request::State(StateRequest::Delete { place: place.place()?, settled })).map_err(hint)?;
            return Ok(0);
        }
        StateCommand::List { who } => {
            let items = ask(controller, &Request::State(StateRequest::List)).map_err(hint)?;
            print_text(&rows_text(&items, who))?;
            return Ok(0);
        }
        StateCommand::Watch(place) => {
            let mut printed = Ok(());
            follow(controller, &Request::State(StateRequest::Watch(place.place()?)), |value| {
                printed = print(&value);
                printed.is_ok()
            })
            .map_err(hint)?;
            printed?;
            return Ok(0);
        }
    };
    print(&answer)?;
    Ok(0)
}

impl StateTarget {
    fn place(self) -> anyhow::Result<StatePlace> {
        match (self.var, self.key) {
            (true, None) => Ok(StatePlace::Var(self.name)),
            (true, Some(key)) => anyhow::bail!("the variable {} has no keys such as {key:?}", self.name),
            (false, None) => Ok(StatePlace::Table(self.name)),
            (false, Some(key)) => Ok(StatePlace::Key(self.name, word(&key))),
        }
    }

    /// Parses the value, which follows a variable's name, or the key of a table.
    fn with_value(mut self, last: Option<String>) -> anyhow::Result<(StatePlace, Value)> {
        let text = if self.var { self.key.take() } else { last.clone() };
        anyhow::ensure!(!self.var || last.is_none(), "the variable {} takes one value", self.name);
        let text = text.with_context(|| match &self.key {
            Some(key) => format!("to what is {0}[{key}] to be set? If {0} is a variable, say --var", self.name),
            None => format!("to what is {} to be set?", self.name),
        })?;
        Ok((self.place()?, word(&text)))
    }
}

/// Returns a word as the controller expects it. The controller determines its type by its position.
fn word(text: &str) -> Value {
    json!({ "word": text })
}

/// Prints the schema of the control socket.
///
/// # Errors
/// If standard output can't be written.
pub fn print_schema() -> anyhow::Result<u8> {
    print_line(json_text(&schema()));
    Ok(0)
}

/// Writes a line for each table and each variable.
fn rows_text(items: &Value, who: bool) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("any").to_owned();
    let line = |item: &Value| {
        let kept = if item["kept"] == true { ", kept over a restart" } else { "" };
        let by = if who { format!(", {}", written(&item["written"])) } else { String::new() };
        match item["table"].as_str() {
            Some(name) => {
                let types = format!("{} -> {}", text(&item["key"]), text(&item["value"]));
                format!("table {name}: {types}, {}{kept}{by}\n", counted(&item["keys"], "key"))
            }
            None => format!("variable {}: {}{kept}{by}\n", text(&item["var"]), text(&item["value"])),
        }
    };
    items.as_array().into_iter().flatten().map(line).collect()
}

/// Writes the content of a place with its last writer: a line for each key of a table.
fn with_writers(answer: &Value) -> String {
    let line = |one: &Value| match one.get("key") {
        Some(key) => format!("{} {}  {}\n", json_line(key), json_line(&one["value"]), written(&one["written"])),
        None => format!("{}  {}\n", json_line(&one["value"]), written(&one["written"])),
    };
    match answer {
        Value::Array(rows) => rows.iter().map(line).collect(),
        one => line(one),
    }
}

/// Prints a value, or a line for each key of a table.
fn print(value: &Value) -> std::io::Result<()> {
    print_text(&(json_line(value) + "\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_names_types_and_what_is_kept() {
        let items = json!([
            { "table": "blocked", "key": "Mac", "value": "bool", "keys": 2, "kept": true },
            { "table": "seen", "key": null, "value": null, "keys": 0, "kept": false },
            { "var": "mode", "value": "str", "kept": false },
        ]);
        let text = "table blocked: Mac -> bool, 2 keys, kept over a restart\n\
                    table seen: any -> any, 0 keys\n\
                    variable mode: str\n";
        assert_eq!(rows_text(&items, false), text);
    }

    #[test]
    fn the_last_writer_is_described_in_words() {
        let by = json!({ "by": "`maple state set` (pid 4211)", "at": 1_500, "pid": 4211, "user": 0 });
        let said = "written 1970-01-01T00:00:01.500Z by `maple state set` (pid 4211)";
        assert_eq!(with_writers(&json!({ "value": 7, "written": by })), format!("7  {said}\n"));
        let rows = json!([{ "key": "a", "value": 1, "written": by }, { "key": "b", "value": 2, "written": null }]);
        assert_eq!(with_writers(&rows), format!("\"a\" 1  {said}\n\"b\" 2  written by an unknown writer\n"));
        let items = json!([{ "var": "mode", "value": "str", "kept": false, "written": by }]);
        assert_eq!(rows_text(&items, true), format!("variable mode: str, {said}\n"));
    }

    #[test]
    fn a_variable_has_a_value_where_a_table_has_a_key() {
        let place =
            |name: &str, key: Option<&str>, var| StateTarget { name: name.into(), key: key.map(Into::into), var };
        let set = place("mode", Some("night"), true).with_value(None).expect("it is complete");
        assert_eq!(set, (StatePlace::Var("mode".into()), word("night")));
        let set = place("blocked", Some("7"), false).with_value(Some("true".into())).expect("it is complete");
        assert_eq!(set, (StatePlace::Key("blocked".into(), word("7")), word("true")));
        assert!(place("mode", Some("night"), true).with_value(Some("x".into())).is_err());
        assert!(place("blocked", Some("7"), false).with_value(None).is_err());
    }
}
