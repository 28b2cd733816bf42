//! `maple state`: reads, changes and watches tracked state of a running controller.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, Subcommand};
use maple_controller::control::socket::{Place, Request, State, ask, follow};
use serde_json::{Value, json};

use crate::args::default_control;
use crate::show::hint;

/// `maple state`.
#[derive(Debug, Args)]
#[command(after_help = "Keys and values are JSON, and whatever is not is text: 80, true, null, \"80\", day, [1, 2]. \
    Addresses as values in tables of Rust policies, and as the first keys: mac:00:00:00:00:00:01, ip:10.0.0.1, switch:1, location:1:3")]
pub struct StateArgs {
    #[command(subcommand)]
    what: What,
    /// The controller's Unix socket [default: as in `maple run`]
    #[arg(long, value_name = "PATH", global = true)]
    control: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Print a table, the value at a key, or a variable
    Get(Where),
    /// Set the value at a key, or a variable; returns when no packet is answered from the old value any more
    Set {
        #[command(flatten)]
        place: Where,
        /// The value
        #[arg(value_name = "VALUE")]
        value: Option<String>,
        /// Return when, besides, no switch has a rule that depends on the old value
        #[arg(long)]
        settled: bool,
    },
    /// Take a key or a variable away; returns as `set`
    Delete {
        #[command(flatten)]
        place: Where,
        /// As in `set`
        #[arg(long)]
        settled: bool,
    },
    /// Print a table, the value at a key, or a variable, now and whenever it changes
    Watch(Where),
}

#[derive(Debug, Args)]
struct Where {
    /// The table, or with --var the variable
    name: String,
    /// The key
    key: Option<String>,
    /// It is a variable
    #[arg(long)]
    var: bool,
}

/// Does it, and prints what is asked for.
pub fn main(args: StateArgs) -> anyhow::Result<u8> {
    let path = args.control.unwrap_or_else(default_control);
    let answer = match args.what {
        What::Get(place) => ask(&path, &Request::State(State::Get(place.place()?))).map_err(hint)?,
        What::Set { place, value, settled } => {
            let (place, value) = place.with_value(value)?;
            let name = match &place {
                Place::Var(name) => format!("variable {name}"),
                Place::Table(name) | Place::Key(name, _) => format!("table {name}"),
            };
            let done = ask(&path, &Request::State(State::Set { place, value, settled })).map_err(hint)?;
            if done["new"] == true {
                eprintln!("note: the {name} is new; nothing in the controller has asked for it yet");
            }
            return Ok(0);
        }
        What::Delete { place, settled } => {
            ask(&path, &Request::State(State::Delete { place: place.place()?, settled })).map_err(hint)?;
            return Ok(0);
        }
        What::Watch(place) => {
            let mut printed = Ok(());
            follow(&path, &Request::State(State::Watch(place.place()?)), |value| {
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

impl Where {
    fn place(self) -> anyhow::Result<Place> {
        match (self.var, self.key) {
            (true, None) => Ok(Place::Var(self.name)),
            (true, Some(key)) => anyhow::bail!("the variable {} has no keys such as {key:?}", self.name),
            (false, None) => Ok(Place::Table(self.name)),
            (false, Some(key)) => Ok(Place::Key(self.name, value(&key))),
        }
    }

    /// Behind a variable's name comes the value; behind a table's the key, and the value.
    fn with_value(mut self, last: Option<String>) -> anyhow::Result<(Place, Value)> {
        let text = if self.var { self.key.take() } else { last.clone() };
        anyhow::ensure!(!self.var || last.is_none(), "the variable {} takes one value", self.name);
        let text = text.with_context(|| format!("to what is {} to be set?", self.name))?;
        Ok((self.place()?, value(&text)))
    }
}

/// What a word of the command line means.
fn value(text: &str) -> Value {
    for kind in ["mac", "ip", "switch"] {
        if let Some(rest) = text.strip_prefix(kind).and_then(|rest| rest.strip_prefix(':')) {
            return json!({ kind: rest });
        }
    }
    if let Some((switch, port)) = text.strip_prefix("location:").and_then(|at| at.split_once(':'))
        && let Ok(port) = port.parse::<u32>()
    {
        return json!({ "location": [switch, port] });
    }
    serde_json::from_str(text).unwrap_or_else(|_| Value::from(text))
}

/// Prints a value, or a line for each key of a table.
fn print(value: &Value) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{value}")?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_json_or_addresses_or_text() {
        for (word, meant) in [
            ("80", json!(80)),
            ("true", json!(true)),
            ("\"80\"", json!("80")),
            ("day", json!("day")),
            ("00:00:00:00:00:01", json!("00:00:00:00:00:01")),
            ("mac:00:00:00:00:00:01", json!({ "mac": "00:00:00:00:00:01" })),
            ("ip:10.0.0.1", json!({ "ip": "10.0.0.1" })),
            ("location:1:3", json!({ "location": ["1", 3] })),
            ("[1,2]", json!([1, 2])),
        ] {
            assert_eq!(value(word), meant, "{word}");
        }
    }

    #[test]
    fn a_variable_has_a_value_where_a_table_has_a_key() {
        let place = |name: &str, key: Option<&str>, var| Where { name: name.into(), key: key.map(Into::into), var };
        let set = place("mode", Some("night"), true).with_value(None).expect("it is complete");
        assert_eq!(set, (Place::Var("mode".into()), json!("night")));
        let set = place("blocked", Some("7"), false).with_value(Some("true".into())).expect("it is complete");
        assert_eq!(set, (Place::Key("blocked".into(), json!(7)), json!(true)));
        assert!(place("mode", Some("night"), true).with_value(Some("x".into())).is_err());
        assert!(place("blocked", Some("7"), false).with_value(None).is_err());
    }
}
