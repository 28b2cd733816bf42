//! `maple acl`: checks, tests and compares access lists, without a network.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, Subcommand};
use maple_acl::{AccessDecision, Comparison, Decided, Entry, List};
use maple_wire::counted;
use serde_json::json;

use crate::output::{json_line, print_line};
use crate::plan::difference_of_lists;
use crate::policy::PolicyLoader;
use crate::usage_error::OrUsageError as _;

/// `maple acl`.
#[derive(Debug, Args)]
pub struct AclArgs {
    /// The action
    #[command(subcommand)]
    command: AclCommand,
}

#[derive(Debug, Subcommand)]
enum AclCommand {
    /// Search for rules that never match, twins and conflicts. Exit status 1: some rule never matches
    Lint {
        /// The lists
        #[arg(value_name = "LIST.yaml", required = true)]
        files: Vec<PathBuf>,
        /// Print JSON, one object a line
        #[arg(long)]
        json: bool,
    },
    /// Run the tests that lists have. Exit status 1: a test fails
    Test {
        /// The lists
        #[arg(value_name = "LIST.yaml", required = true)]
        files: Vec<PathBuf>,
    },
    /// Print which rules of a list decide about packets between two places, offline
    Explain {
        /// The list
        #[arg(value_name = "LIST.yaml")]
        file: PathBuf,
        /// The sender: an address, a prefix, a group of the list, or any
        from: String,
        /// The receiver, likewise
        to: String,
        /// The service: one of the list, or one written out, such as tcp/22 [default: any IP packet]
        service: Option<String>,
        /// Print JSON, one object a line
        #[arg(long)]
        json: bool,
    },
    /// Print the packets that two lists treat differently. Exit status 0: none; 2: some; 1: an error
    Diff {
        /// The list now
        #[arg(value_name = "OLD.yaml")]
        old: PathBuf,
        /// The list in its place
        #[arg(value_name = "NEW.yaml")]
        new: PathBuf,
        /// Print JSON, one object a line
        #[arg(long)]
        json: bool,
    },
    /// Convert lists that exist into access lists: aerleon, kubernetes or faucet, then FILE… and options (`--help`)
    #[command(disable_help_flag = true)]
    Import {
        /// aerleon, kubernetes or faucet, the files, and options such as `-o OUT`
        #[arg(value_name = "KIND FILE… OPTIONS", trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
    /// Print the JSON schema of access lists, for editors
    Schema,
}

/// Runs the command. Returns the exit status.
///
/// # Errors
/// If a file can't be read or is not an access list, or if a question is wrong.
pub fn run(args: &AclArgs, loader: Option<&dyn PolicyLoader>) -> anyhow::Result<u8> {
    match &args.command {
        AclCommand::Lint { files, json } => all(files, |list| lint(list, *json)),
        AclCommand::Test { files } => all(files, test),
        AclCommand::Explain { file, from, to, service, json } => {
            explain(file, &format!("{from} -> {to} {}", service.as_deref().unwrap_or_default()), *json)
        }
        // Not a usage error: its status is that of lists that differ.
        AclCommand::Diff { old, new, json } => diff(&List::load(old)?, &List::load(new)?, *json),
        AclCommand::Import { arguments } => {
            let loader = loader.context("this `maple` was built without Python, which the importers are written in")?;
            loader.import_lists(arguments)
        }
        AclCommand::Schema => {
            print_line(maple_acl::SCHEMA.trim_end());
            Ok(0)
        }
    }
}

fn load(file: &Path) -> anyhow::Result<List> {
    List::load(file).or_usage_error()
}

/// Runs `check` on each list. Returns 1 if it finds something in any.
fn all(files: &[PathBuf], check: impl Fn(&List) -> bool) -> anyhow::Result<u8> {
    let lists = files.iter().map(|file| load(file)).collect::<anyhow::Result<Vec<List>>>()?;
    let failed = lists.iter().filter(|list| check(list)).count();
    Ok(u8::from(failed > 0))
}

/// Prints what is suspicious. Reports whether some rule never matches.
fn lint(list: &List, json: bool) -> bool {
    let findings = list.findings();
    for finding in &findings {
        let (file, line, kind) = (list.file(), finding.place.line, finding.kind.name());
        if json {
            let reported = json!({"file": file, "line": line, "kind": kind, "text": finding.text});
            print_line(json_line(&reported))
        } else {
            print_line(format_args!("{file}:{line}: {kind}: {}", finding.text))
        }
    }
    if !json {
        let (rules, entries) = (list.rules().len(), list.entries().iter().map(Entry::count).sum::<usize>());
        print_line(format_args!(
            "{}: {}, {}, {}",
            list.file(),
            counted(rules, "rule"),
            counted(entries, "entry"),
            counted(findings.len(), "finding")
        ));
    }
    findings.iter().any(|finding| finding.kind.is_error())
}

/// Prints the tests that fail, and those that do not hold for fragments. Reports whether any fail.
fn test(list: &List) -> bool {
    let failed = list.failed_tests();
    for test in &failed {
        print_line(format_args!("{}:{}: {test}", list.file(), test.place));
    }
    for note in list.fragment_notes() {
        let what = format_args!("{}:{}: {}", list.file(), note.line, note.text);
        print_line(format_args!("{what}: not for fragments, in which switches see no ports: {}", note.decision));
    }
    print_line(format_args!("{}: {}, {} failed", list.file(), counted(list.tests().len(), "test"), failed.len()));
    !failed.is_empty()
}

/// Prints which rules decide about the packets of a question, in their order.
fn explain(file: &Path, question: &str, json: bool) -> anyhow::Result<u8> {
    let text = std::fs::read_to_string(file).with_context(|| format!("can't read {}", file.display()))?;
    let (list, all) = List::explain(&text, &file.to_string_lossy(), question).or_usage_error()?;
    for Decided { rule, part, parts } in &all {
        let (action, by) = (list.action(*rule).to_string(), list.describe(*rule));
        if json {
            let reported = json!({ "action": action, "rule": by, "packets": part, "parts": parts });
            print_line(json_line(&reported));
            continue;
        }
        let more = if *parts > 1 { format!(" (and {} more like it)", parts - 1) } else { String::new() };
        // A single rule decides about all of them.
        let part = if all.len() > 1 { format!(": {part}{more}") } else { String::new() };
        print_line(format_args!("{action} by {by}{part}"));
    }
    Ok(0)
}

fn diff(old: &List, new: &List, json: bool) -> anyhow::Result<u8> {
    let Comparison { differences, complete } = old.compare(new);
    for one in &differences {
        let side = |AccessDecision { action, rule }| json!({ "action": action.to_string(), "rule": rule });
        let reported = json!({
            "packets": one.packets.to_string(), "cubes": one.cubes,
            "old": side(old.decision(one.before)), "new": side(new.decision(one.after)),
        });
        if json { print_line(json_line(&reported)) } else { print_line(difference_of_lists(&reported).trim_end()) }
    }
    anyhow::ensure!(complete, "the lists are too different to list all differences; those above are some");
    if differences.is_empty() && !json {
        print_line("no packet is treated differently");
    }
    Ok(if differences.is_empty() { 0 } else { 2 })
}
