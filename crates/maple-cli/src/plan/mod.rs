//! `maple plan`: the changes that a policy would make in a running controller, for people and as a file; and `maple
//! apply`, which makes them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context as _, anyhow, bail};
use maple_controller::control::plan::FORMAT;
use maple_controller::control::socket::{CanaryAt, Fingerprint, Reload, Request, ask};
use maple_controller::names::Names;
use serde_json::Value;

use crate::options::{ApplyArgs, PlanArgs, default_control};
use crate::output::{Colour, Painted, json_text, print_line, print_painted};
use crate::policy::{PolicyLoader, absolute};
use crate::reload::{reported, warn};
use crate::show::{hint, names};
use maple_wire::counted;

mod offline;

/// The exit status if something would change: that of `terraform plan -detailed-exitcode`.
const CHANGES: u8 = 2;
/// The number of packets of a group, and of rules of a switch, that are shown by default. Chosen: a plan fits a screen
/// or two; `--all` shows the others.
const DEFAULT_SHOWN: usize = 10;

/// The kinds of differences, with their meanings for people.
const KINDS: [(&str, &str, Mark); 7] = [
    ("loses", "lose: these packets leave by fewer edge ports, mostly none", Mark::Delete),
    ("gains", "gain: these packets leave by more edge ports", Mark::Add),
    ("goes_elsewhere", "go elsewhere: these packets leave by other edge ports", Mark::Change),
    ("moves", "move: these packets take another way", Mark::Change),
    ("treated_otherwise", "are treated otherwise: rewrites, queues or limits of these packets", Mark::Change),
    ("waits", "wait: the policy has no answer for these packets now", Mark::Delete),
    ("fails", "fail: the policy has an error on these packets, which are dropped", Mark::Delete),
];

/// The kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    Add,
    Change,
    Delete,
}

/// Runs `maple plan`. Every error has status 1, because 2 means that something would change.
///
/// # Errors
/// If the policy can't be loaded, or if the controller or the state file can't answer.
pub fn main(args: &PlanArgs, loader: Option<&dyn PolicyLoader>) -> anyhow::Result<u8> {
    let name = args.policy.as_deref().map(absolute).transpose()?;
    let plan = match (&args.state, &args.from, name) {
        (Some(state), Some(from), Some(name)) => offline::plan(state, from, &name, loader)?,
        (_, _, name) => {
            let control = args.control.clone().unwrap_or_else(default_control);
            ask(&control, &Request::Reload(Reload::Plan { name })).map_err(hint)?
        }
    };
    let document = json_text(&plan);
    if let Some(path) = &args.out {
        std::fs::write(path, format!("{document}\n")).with_context(|| format!("can't write {}", path.display()))?;
    }
    if args.json {
        print_line(document);
    } else {
        warn(&plan);
        let control = args.control.clone().unwrap_or_else(default_control);
        let names = if args.state.is_some() { Names::new() } else { names(&control) };
        let mut text = Painted::for_terminal();
        write(&mut text, &plan, args.all, &names);
        print_painted(&text)?;
    }
    let is_change = items(&plan["rules"]).next().is_some() || count(&plan["counts"]) > 0 || differs_in_lists(&plan);
    Ok(if is_change { CHANGES } else { 0 })
}

/// Runs `maple apply`.
///
/// # Errors
/// If the plan can't be read, or if the controller refuses it.
pub fn apply(args: &ApplyArgs) -> anyhow::Result<u8> {
    let canary = match args.percent {
        Some(percent) => Some(CanaryAt::Percent(percent)),
        None => Some(args.canary.clone()).filter(|all| !all.is_empty()).map(CanaryAt::Switches),
    };
    let request = match &args.plan {
        None => Reload::Promote,
        Some(path) => {
            let Planned { name, sources, changes, decided } = read(path)?;
            Reload::Apply { name, sources, changes, decided, canary }
        }
    };
    reported("applied", request, args.control.as_deref(), args.json)
}

/// The policy of a plan in a file, with fingerprints of the policy's files and of the changes, and the decisions.
#[derive(Debug)]
struct Planned {
    name: String,
    sources: Fingerprint,
    changes: Fingerprint,
    /// The decisions; `None` in a plan of an earlier version of Maple.
    decided: Option<Vec<String>>,
}

fn read(path: &Path) -> anyhow::Result<Planned> {
    let text = std::fs::read_to_string(path).with_context(|| format!("can't read {}", path.display()))?;
    let what = || format!("{} is not a plan of `maple plan --out`", path.display());
    let plan: Value = serde_json::from_str(&text).with_context(what)?;
    if plan["format"] != FORMAT {
        bail!("{}, or of another version of Maple: make it again", what());
    }
    let part = |name: &str| plan[name].as_str().with_context(what);
    let fingerprint = |name: &str| serde_json::from_value(Value::from(part(name)?)).map_err(|error| anyhow!(error));
    let decided = serde_json::from_value(plan["decided"].clone()).with_context(what)?;
    let name = part("policy")?.to_owned();
    Ok(Planned { name, sources: fingerprint("sources")?, changes: fingerprint("changes")?, decided })
}

/// Sums the numbers of an object.
pub fn count(counts: &Value) -> u64 {
    counts.as_object().into_iter().flat_map(|all| all.values()).filter_map(Value::as_u64).sum()
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn plain(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Writes a plan for people: packets by their changes and by the deciding lines, then rules, then a summary.
fn write(out: &mut Painted, plan: &Value, all: bool, names: &Names) {
    out.push(&names.in_text(&lists(plan, all)));
    packets(out, plan, all, names);
    for switch in items(&plan["rules"]) {
        rules(out, switch, all, names);
    }
    out.push(&summary(plan));
}

/// Reports whether an access list treats any packet differently.
fn differs_in_lists(plan: &Value) -> bool {
    items(&plan["lists"]).any(|list| items(&list["differences"]).next().is_some())
}

/// Writes the differences of access lists, for all possible packets.
fn lists(plan: &Value, all: bool) -> String {
    let mut text = String::new();
    for list in items(&plan["lists"]).filter(|list| items(&list["differences"]).next().is_some()) {
        let differences: Vec<&Value> = items(&list["differences"]).collect();
        let _ = writeln!(text, "access list {} treats differently:", plain(&list["file"]));
        let shown = if all { differences.len() } else { DEFAULT_SHOWN };
        for one in differences.iter().take(shown) {
            text.extend(difference_of_lists(one).lines().map(|line| format!("  {line}\n")));
        }
        if differences.len() > shown {
            let _ = writeln!(text, "  and {} more (--all shows them)", differences.len() - shown);
        }
        if list["complete"] == Value::Bool(false) {
            text.push_str("  the lists are too different to list all differences; these are some\n");
        }
        text.push('\n');
    }
    text
}

/// Writes a difference of two lists, with the deciding rules.
pub fn difference_of_lists(one: &Value) -> String {
    let (old, new) = (&one["old"], &one["new"]);
    let more = one["cubes"].as_u64().unwrap_or_default().saturating_sub(1);
    let more = if more > 0 { format!(" (and {more} more like it)") } else { String::new() };
    format!(
        "{} → {}: {}{more}\n    was {}\n    now {}\n",
        plain(&old["action"]),
        plain(&new["action"]),
        plain(&one["packets"]),
        plain(&old["rule"]),
        plain(&new["rule"]),
    )
}

/// Writes the packets that a policy decides otherwise, by their changes and by the deciding lines.
pub fn packets(out: &mut Painted, plan: &Value, all: bool, names: &Names) {
    for (kind, meaning, mark) in KINDS {
        let total = plan["counts"][kind].as_u64().unwrap_or_default();
        if total > 0 {
            out.push_in(mark.colour(), &format!("{total} {meaning}"));
            let mut text = String::from("\n");
            group(&mut text, plan, kind, all);
            out.push(&names.in_text(&text));
        }
    }
    for error in items(&plan["errors"]) {
        let text = format!("fails {}: {}\n\n", counted(&error["packets"], "time"), plain(&error["text"]));
        out.push(&names.in_text(&text));
    }
}

/// Writes the packets of a kind, below the lines that decided before and after.
fn group(text: &mut String, plan: &Value, kind: &str, all: bool) {
    let mut by_lines: BTreeMap<(&str, &str), Vec<&Value>> = BTreeMap::new();
    for one in items(&plan["differences"]).filter(|one| one["kind"] == kind) {
        by_lines.entry((plain(&one["before"]["lines"]), plain(&one["after"]["lines"]))).or_default().push(one);
    }
    for ((before, after), packets) in by_lines {
        let named = |lines: &str| if lines.is_empty() { "(no line)".to_owned() } else { lines.to_owned() };
        let _ = if before == after {
            writeln!(text, "  {}", named(before))
        } else {
            writeln!(text, "  {} -> {}", named(before), named(after))
        };
        let shown = if all { packets.len() } else { DEFAULT_SHOWN };
        for one in packets.iter().take(shown) {
            // The errors are listed below.
            let after = if kind == "fails" { "an error" } else { plain(&one["after"]["route"]) };
            let made_up = if one["made_up"] == true { " (made up)" } else { "" };
            let _ = writeln!(
                text,
                "    {} at {}:{}{made_up}: {} -> {after}",
                plain(&one["packet"]),
                plain(&one["at"]["switch"]),
                one["at"]["port"],
                plain(&one["before"]["route"]),
            );
        }
        if packets.len() > shown {
            let _ = writeln!(text, "    and {} more (--all shows them)", packets.len() - shown);
        }
    }
    text.push('\n');
}

/// Writes the rules that change at a switch.
fn rules(out: &mut Painted, switch: &Value, all: bool, names: &Names) {
    out.push(&names.in_text(&format!("switch {}\n", plain(&switch["switch"]))));
    let line = |sign: char, rule: &Value| {
        // Rules of other origin than the policy have a purpose instead of a line.
        let why = Some(plain(&rule["why"])).filter(|why| !why.is_empty() && !why.starts_with("maple: "));
        let why = why.map(|why| format!("   # {why}")).unwrap_or_default();
        format!("  {sign} {}{why}", plain(&rule["flow"]).trim())
    };
    let added = items(&switch["add"]).map(|rule| (Mark::Add, vec![line('+', rule)]));
    let changed = items(&switch["change"]).map(|rule| {
        let before = format!("  ~ {}", plain(&rule["before"]["flow"]).trim());
        (Mark::Change, vec![before, line('→', &rule["after"])])
    });
    let deleted = items(&switch["delete"]).map(|rule| (Mark::Delete, vec![line('-', rule)]));
    let changes: Vec<(Mark, Vec<String>)> = added.chain(changed).chain(deleted).collect();
    let shown = if all { changes.len() } else { DEFAULT_SHOWN };
    for (mark, lines) in changes.iter().take(shown) {
        for line in lines {
            out.push_in(mark.colour(), &names.in_text(line));
            out.push("\n");
        }
    }
    if changes.len() > shown {
        out.push(&format!("  and {} more (--all shows them)\n", changes.len() - shown));
    }
    out.push("\n");
}

/// Writes a summary of the changes in two lines.
fn summary(plan: &Value) -> String {
    let (packets, changed) = (plan["packets"].as_u64().unwrap_or_default(), count(&plan["counts"]));
    let count_rules = |what: &str| items(&plan["rules"]).map(|switch| items(&switch[what]).count()).sum::<usize>();
    let (add, change, delete) = (count_rules("add"), count_rules("change"), count_rules("delete"));
    let switches = items(&plan["rules"]).count();
    let packets_are =
        format!("{changed} of {} that the network has decided about go otherwise", counted(packets, "packet"));
    if changed == 0 && switches == 0 && !differs_in_lists(plan) {
        return format!("no change: {packets_are}, and no rule changes\n");
    }
    let switches = counted(switches, "switch");
    format!("{packets_are}\nrules: {add} to add, {change} to change, {delete} to delete, at {switches}\n")
}

impl Mark {
    fn colour(self) -> Colour {
        match self {
            Mark::Add => Colour::Green,
            Mark::Change => Colour::Yellow,
            Mark::Delete => Colour::Red,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn text(plan: &Value, has_colours: bool) -> String {
        let mut text = Painted::new(has_colours);
        write(&mut text, plan, false, &Names::new());
        text.as_str().to_owned()
    }

    fn plan() -> Value {
        let rule = |flow: &str| json!({ "flow": flow, "why": "acl.py:7" });
        let difference = |port: u32| {
            json!({
                "kind": "loses", "at": { "switch": "1", "port": port }, "from": "a", "to": "b",
                "packet": format!("tcp 10.0.0.{port}:1000 > 10.0.0.3:80"),
                "before": { "route": "1:2, 3:1", "exits": [], "lines": "acl.py:9" },
                "after": { "route": "drop", "exits": [], "lines": "acl.py:7" },
            })
        };
        json!({
            "format": 1, "policy": "/tmp/acl.py", "sources": "aa", "changes": "bb", "packets": 20, "same": 18, "failed": 0,
            "errors": [], "counts": { "loses": 2 }, "warnings": [],
            "lists": [{
                "file": "acl.yaml", "complete": true,
                "differences": [{
                    "packets": "tcp 10.0.1.0/24 > 10.0.2.0/24:8443", "cubes": 3,
                    "old": { "action": "deny", "rule": "`default: deny` of acl.yaml" },
                    "new": { "action": "allow", "rule": "rule erp (acl.yaml:7)" },
                }],
            }],
            "differences": [difference(1), difference(2)],
            "rules": [{
                "switch": "1",
                "add": [rule("priority=5,tcp actions=drop")],
                "change": [{ "before": rule("priority=4 actions=1"), "after": rule("priority=4 actions=2") }],
                "delete": [],
            }],
        })
    }

    #[test]
    fn a_plan_is_reported_by_who_loses_and_by_rules() {
        let expected = "\
access list acl.yaml treats differently:
  deny → allow: tcp 10.0.1.0/24 > 10.0.2.0/24:8443 (and 2 more like it)
      was `default: deny` of acl.yaml
      now rule erp (acl.yaml:7)

2 lose: these packets leave by fewer edge ports, mostly none
  acl.py:9 -> acl.py:7
    tcp 10.0.0.1:1000 > 10.0.0.3:80 at 1:1: 1:2, 3:1 -> drop
    tcp 10.0.0.2:1000 > 10.0.0.3:80 at 1:2: 1:2, 3:1 -> drop

switch 1
  + priority=5,tcp actions=drop   # acl.py:7
  ~ priority=4 actions=1
  → priority=4 actions=2   # acl.py:7

2 of 20 packets that the network has decided about go otherwise
rules: 1 to add, 1 to change, 0 to delete, at 1 switch
";
        assert_eq!(text(&plan(), false), expected);
        assert!(text(&plan(), true).contains("\x1b[31m2 lose"));
        let none = json!({ "packets": 20, "counts": {}, "rules": [], "differences": [], "errors": [] });
        let reported =
            "no change: 0 of 20 packets that the network has decided about go otherwise, and no rule changes\n";
        assert_eq!(text(&none, false), reported);
    }

    #[test]
    fn a_file_that_is_no_plan_is_refused() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let read_text = |text: &str| {
            std::fs::write(&file, text).expect("it can be written");
            read(file.path()).map_err(|error| error.to_string())
        };
        assert!(read_text("plan").expect_err("it is not JSON").contains("is not a plan of `maple plan --out`"));
        assert!(read_text("{\"format\": 9}").expect_err("it is newer").contains("make it again"));
        let Planned { name, sources, decided, .. } = read_text(&plan().to_string()).expect("it is a plan");
        assert_eq!((name.as_str(), sources.to_string().as_str(), decided), ("/tmp/acl.py", "aa", None));
    }
}
