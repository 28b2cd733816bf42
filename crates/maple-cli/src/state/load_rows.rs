//! `maple state load`: writes the rows of a file into tracked state.
//!
//! A JSON file is an object with a member for each table or variable. A table is an object, or an array of pairs as
//! `maple state get` prints it. A CSV file is one table: a key and a value a line.
//!
//! The controller checks all rows before it writes the first one. It writes as many at once as a request holds.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail, ensure};
use clap::Args;
use maple_controller::control::socket::{AskError, Reach, Request, StatePlace, StateRequest, ask};
use serde_json::Value;

use super::word;
use crate::output::print_line;
use crate::show::hint;
use maple_wire::counted;

/// The maximum size of the rows in a request, in bytes. A request may have 64 KiB, so a quarter is left for names and
/// punctuation.
const BATCH: usize = 48 * 1024;

/// `maple state load`.
#[derive(Debug, Args)]
pub struct StateLoadArgs {
    /// A JSON file with tables and variables, or a CSV file of a table's keys and values
    file: PathBuf,
    /// The table of a CSV file
    #[arg(long, value_name = "NAME")]
    table: Option<String>,
    /// Also wait until no switch has a rule that depends on an old value
    #[arg(long)]
    settled: bool,
    /// Make tables and variables of names that nobody has declared
    #[arg(long)]
    create: bool,
}

/// A row, with its place in the file.
struct Row {
    at: String,
    place: StatePlace,
    value: Value,
}

/// Runs the command.
///
/// # Errors
/// If the file can't be read or a row is wrong, or if the controller does not answer.
pub fn main(control: &dyn Reach, args: &StateLoadArgs) -> anyhow::Result<u8> {
    let rows = match &args.table {
        Some(table) => csv_rows(&args.file, table)?,
        None => json_rows(control, &args.file)?,
    };
    let batches = batches(&rows);
    for check in [true, false] {
        for (number, batch) in batches.iter().enumerate() {
            let settled = args.settled && !check && number + 1 == batches.len();
            send(control, batch, check, settled, args.create)?;
        }
    }
    print_line(format_args!("{} written", counted(rows.len(), "row")));
    Ok(0)
}

/// Sends rows that the controller must check or write.
fn send(control: &dyn Reach, batch: &[Row], check: bool, settled: bool, create: bool) -> anyhow::Result<()> {
    let rows = batch.iter().map(|row| (row.place.clone(), row.value.clone())).collect();
    let request =
        Request::State(StateRequest::Load { rows, expect: Vec::new(), delete: Vec::new(), check, settled, create });
    match ask(control, &request) {
        Ok(_) => Ok(()),
        Err(AskError::Refused { error, field }) => Err(located(&error, &field, batch)),
        Err(error) => Err(hint(error)),
    }
}

/// Returns the error for a refusal, with the place of the wrong row in the file.
fn located(why: &str, field: &str, batch: &[Row]) -> anyhow::Error {
    let number = field.strip_prefix("state.load.rows[").and_then(|rest| rest.split_once(']'));
    match number.and_then(|(number, _)| batch.get(number.parse::<usize>().ok()?)) {
        Some(row) => anyhow!("{}: {why}; nothing is written", row.at),
        None => anyhow!("{why}"),
    }
}

/// Divides the rows into parts that fit into a request.
fn batches(rows: &[Row]) -> Vec<&[Row]> {
    let size = |row: &Row| {
        let text = serde_json::to_string(&(&row.place, &row.value));
        text.map_or(0, |text| text.len() + 1)
    };
    let (mut batches, mut from, mut held) = (Vec::new(), 0, 0);
    for (number, row) in rows.iter().enumerate() {
        let more = size(row);
        if held + more > BATCH && number > from {
            batches.push(&rows[from..number]);
            (from, held) = (number, 0);
        }
        held += more;
    }
    if from < rows.len() {
        batches.push(&rows[from..]);
    }
    batches
}

/// Reads the rows of a CSV file: `key,value`. A first line of these two words is a heading.
fn csv_rows(file: &Path, table: &str) -> anyhow::Result<Vec<Row>> {
    let shown = file.display();
    let open = File::open(file).with_context(|| format!("can't read {shown}"))?;
    let mut lines = csv::ReaderBuilder::new().has_headers(false).flexible(true).trim(csv::Trim::All).from_reader(open);
    let mut rows = Vec::new();
    for line in lines.records() {
        let line = line.with_context(|| format!("can't read {shown}"))?;
        let at = format!("{shown}:{}", line.position().map_or(0, csv::Position::line));
        let columns: Vec<&str> = line.iter().collect();
        let [key, value] = columns[..] else {
            bail!("{at}: a line is a key and a value, and this one has {}", counted(columns.len(), "column"));
        };
        if rows.is_empty() && (key, value) == ("key", "value") {
            continue;
        }
        rows.push(Row { at, place: StatePlace::Key(table.to_owned(), word(key)), value: word(value) });
    }
    Ok(rows)
}

/// Reads the rows of a JSON file.
fn json_rows(control: &dyn Reach, file: &Path) -> anyhow::Result<Vec<Row>> {
    let shown = file.display();
    ensure!(file.extension().is_none_or(|kind| kind != "csv"), "{shown} is a table: --table NAME says which");
    let text = std::fs::read_to_string(file).with_context(|| format!("can't read {shown}"))?;
    let members: BTreeMap<String, Value> = serde_json::from_str(&text)
        .with_context(|| format!("{shown} is not a JSON object with a member for each table and variable"))?;
    let known = ask(control, &Request::State(StateRequest::List)).map_err(hint)?;
    let variables: Vec<&str> = known.as_array().into_iter().flatten().filter_map(|one| one["var"].as_str()).collect();
    let tables: Vec<&str> = known.as_array().into_iter().flatten().filter_map(|one| one["table"].as_str()).collect();
    let mut rows = Vec::new();
    for (name, value) in members {
        let at = format!("{shown}: {name}");
        let is_var = |name: &str| variables.contains(&name) || !tables.contains(&name) && !holds_rows(&value);
        if is_var(&name) {
            rows.push(Row { at, place: StatePlace::Var(name), value });
            continue;
        }
        let key = |key: Value, value: Value| {
            let at = format!("{at}[{key}]");
            Row { at, place: StatePlace::Key(name.clone(), key), value }
        };
        match value {
            Value::Object(members) => rows.extend(members.into_iter().map(|(text, value)| {
                let row = key(Value::String(text.clone()), value);
                Row { place: StatePlace::Key(name.clone(), word(&text)), ..row }
            })),
            Value::Array(pairs) => {
                for pair in pairs {
                    let Value::Array(pair) = pair else { bail!("{at} is a table, and {pair} is no [key, value]") };
                    let [of, value]: [Value; 2] = pair
                        .try_into()
                        .map_err(|pair| anyhow!("{at} is a table, and {} is no [key, value]", Value::Array(pair)))?;
                    rows.push(key(of, value));
                }
            }
            other => bail!("{at} is a table: an object or an array of [key, value], not {other}"),
        }
    }
    Ok(rows)
}

/// Reports whether a value looks like a table's rows.
fn holds_rows(value: &Value) -> bool {
    match value {
        Value::Object(_) => true,
        Value::Array(all) => all.iter().all(|pair| pair.as_array().is_some_and(|pair| pair.len() == 2)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_hold_all_rows_in_order_and_fit_into_requests() {
        let row = |number: usize| Row {
            at: number.to_string(),
            place: StatePlace::Key("blocked".into(), word(&"k".repeat(number % 900))),
            value: Value::Bool(true),
        };
        let rows: Vec<Row> = (0..2000).map(row).collect();
        let parts = batches(&rows);
        assert!(parts.len() > 10);
        assert_eq!(parts.iter().map(|part| part.len()).sum::<usize>(), rows.len());
        assert!(parts.iter().copied().flatten().map(|row| &row.at).eq(rows.iter().map(|row| &row.at)));
        for part in parts {
            let rows = part.iter().map(|row| (row.place.clone(), row.value.clone())).collect();
            let request = Request::State(StateRequest::Load {
                rows,
                expect: Vec::new(),
                delete: Vec::new(),
                check: true,
                settled: true,
                create: true,
            });
            assert!(serde_json::to_string(&request).expect("it can be written").len() < 64 * 1024);
        }
    }

    #[test]
    fn a_refusal_names_the_place_in_the_file() {
        let row = |at: &str| Row { at: at.into(), place: StatePlace::Var("mode".into()), value: Value::Null };
        let reported = located("7 is not a bool", "state.load.rows[1].value", &[row("a.csv:1"), row("a.csv:2")]);
        assert_eq!(reported.to_string(), "a.csv:2: 7 is not a bool; nothing is written");
        assert_eq!(located("the disk is full", "state.load", &[]).to_string(), "the disk is full");
    }
}
