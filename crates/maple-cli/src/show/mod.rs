//! `maple show`: queries a running controller over its Unix socket.

mod access_list;
mod counters;
mod history;
mod log;
mod rules;
mod time;
mod topology;

use std::fmt::Write as _;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use maple_controller::control::socket::{AskError, PROTOCOL, Reach, Request, Show, ask};
use maple_controller::names::Names;
use maple_controller::timestamp;
use maple_wire::counted;
use serde_json::Value;

use crate::options::{ShowArgs, ShowWhat, controller_to_ask};
use crate::output::{json_text, print_text};
use counters::Counters;
pub use counters::scaled;

/// Prints the answer to a query. `own`: the controller of this process, if the query is for it.
///
/// # Errors
/// If the controller does not answer, or if standard output can't be written.
pub fn main(args: ShowArgs, own: Option<&dyn Reach>) -> anyhow::Result<u8> {
    let controller = &*controller_to_ask(args.control, own);
    let what = match &args.what {
        ShowWhat::Topology { watch } => return topology::main(controller, *watch, args.json),
        ShowWhat::Rules { switch, .. } => Show::Rules(switch.clone()),
        ShowWhat::Tree { switch } => Show::Tree(switch.clone()),
        ShowWhat::Labels { switch } => Show::Labels(switch.clone()),
        ShowWhat::Tables { switch } => Show::Tables(switch.clone()),
        ShowWhat::Ports { switch, watch } => {
            return Counters::Ports(switch.clone()).show(controller, *watch, args.json);
        }
        ShowWhat::Flows { switch, top, watch } => {
            return Counters::Flows(switch.clone(), *top as usize).show(controller, *watch, args.json);
        }
        ShowWhat::AccessList { .. } => Show::AccessLists,
        ShowWhat::Switches => Show::Switches,
        ShowWhat::Names => Show::Names,
        ShowWhat::Links => Show::Links,
        ShowWhat::Hosts => Show::Hosts,
        ShowWhat::Groups => Show::Groups,
        ShowWhat::Leases => Show::Leases,
        ShowWhat::Controller => Show::Controller,
        ShowWhat::Cluster => Show::Cluster,
        ShowWhat::History { .. } => Show::History,
        ShowWhat::Time { at, from, to } => time::question(at.as_deref(), from.as_deref(), to.as_deref())?,
        ShowWhat::Stats => Show::Stats,
        ShowWhat::Errors => Show::Errors,
        ShowWhat::Version => Show::Version,
        ShowWhat::Log { follow: true } => return log::follow(controller, args.json),
        ShowWhat::Log { follow: false } => Show::Log(false),
    };
    let mut answer = ask(controller, &Request::Show(what.clone())).map_err(hint)?;
    let names = names(controller);
    let text = match &args.what {
        ShowWhat::Rules { switch, table, host, line, all } => {
            let hosts = match host {
                Some(_) => ask(controller, &Request::Show(Show::Hosts)).map_err(hint)?,
                None => Value::Null,
            };
            let wanted = rules::RuleSelection::new(&names, &hosts, *table, host.as_deref(), line.as_deref())?;
            wanted.choose(&mut answer);
            if args.json {
                pretty(&answer)
            } else {
                names.in_text(&rules::text(&answer, *all || switch.is_some() || wanted.is_some()))
            }
        }
        ShowWhat::AccessList { file } => {
            access_list::choose(&mut answer, file.as_deref())?;
            if args.json { pretty(&answer) } else { access_list::text(&answer) }
        }
        ShowWhat::History { who, of, policies, last } => {
            let (who, of, last) = (who.as_deref(), of.as_deref(), *last as usize);
            history::Chosen { who, of, policies: *policies, last }.choose(&mut answer);
            if args.json { pretty(&answer) } else { names.in_text(&history::text(&answer)) }
        }
        _ if args.json => pretty(&answer),
        _ => text(&what, &answer, &names),
    };
    print_text(&text)?;
    Ok(0)
}

fn pretty(answer: &Value) -> String {
    json_text(answer) + "\n"
}

/// Keeps the items of an array for which `keep` holds.
fn retain(value: &mut Value, keep: impl FnMut(&Value) -> bool) {
    if let Some(items) = value.as_array_mut() {
        items.retain(keep);
    }
}

/// Adds a hint about the controller's socket to an error.
pub fn hint(error: AskError) -> anyhow::Error {
    match error {
        AskError::Unreachable { .. } => anyhow::anyhow!(
            "{error}; is `maple run` running, as the same user? (with --emulate only `--control PATH` makes a socket)"
        ),
        error => error.into(),
    }
}

fn text(what: &Show, answer: &Value, names: &Names) -> String {
    let each = |line: fn(&Value) -> String| names.in_text(&items(answer).map(line).collect::<String>());
    match what {
        Show::Rules(_) => names.in_text(&rules::text(answer, true)),
        Show::Switches | Show::Ports(_) | Show::Flows(_) => items(answer).map(|one| switch(one, names)).collect(),
        Show::Tables(_) => names.in_text(&items(answer).map(tables).collect::<String>()),
        Show::Labels(_) => names.in_text(&items(answer).map(labels).collect::<String>()),
        Show::Tree(_) => items(answer).map(|one| tree(one, names)).collect(),
        Show::Names => [("switches", "switch"), ("hosts", "mac")].map(|(kind, id)| name_of(&answer[kind], id)).concat(),
        Show::Links => each(|link| format!("{} - {}\n", location(&link[0]), location(&link[1]))),
        Show::Hosts => items(answer).map(|one| host(one, names)).collect(),
        Show::Groups => each(group),
        Show::Leases => items(answer).map(|one| names.in_text(&lease(one, SystemTime::now()))).collect(),
        Show::Controller => controller(answer),
        Show::Cluster => cluster(answer),
        Show::History => history::text(answer),
        Show::Stats => stats(answer),
        Show::Errors => each(error),
        Show::Version => version(answer),
        Show::Log(_) => items(answer).map(log::line).collect(),
        Show::AccessLists => access_list::text(answer),
        // `maple explain` queries these, or programs.
        Show::Dropped(_) | Show::Live(_) | Show::Map | Show::Policy | Show::Doctor => answer.to_string(),
        Show::Time => time::overview(answer),
        // No name takes the place of a part of the command.
        Show::TimeAt(_) => names.in_text(&time::moment(answer)) + &time::exactly(answer),
        Show::TimeChanges(_) => names.in_text(&time::changes(answer)),
    }
}

pub fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Describes a switch in one line, with the numbers of its ports by state and kind.
fn switch(switch: &Value, names: &Names) -> String {
    let up = |port: &&Value| port["up"] == Value::Bool(true);
    let kind = |port: &Value, kind: &str| port["kind"].as_str().is_some_and(|text| text.starts_with(kind));
    let count = |name: &str| items(&switch["ports"]).filter(up).filter(|port| kind(port, name)).count();
    let place = match switch["unreachable"].as_f64() {
        Some(seconds) => format!("unreachable for {seconds:.0} s"),
        None if switch["silent"] == Value::Bool(true) => format!("at {}, which is silent", plain(&switch["peer"])),
        None => format!("at {}", plain(&switch["peer"])),
    };
    format!(
        "switch {} {place}, OpenFlow {}, {}: {} of {} ports up, {} links, {} edge ports\n",
        with_name(names, &switch["switch"]),
        plain(&switch["version"]),
        plain(&switch["description"]),
        items(&switch["ports"]).filter(up).count(),
        items(&switch["ports"]).count(),
        count("link"),
        count("edge"),
    )
}

/// Writes a line for each of a switch's tables, or reports that the switch does not describe them; and one for each
/// look-up.
fn tables(switch: &Value) -> String {
    let id = plain(&switch["switch"]);
    let known = |value: &Value| value.as_u64().map_or_else(|| "?".to_owned(), |number| number.to_string());
    let line = |table: &Value| {
        let (rules, most) = (known(&table["rules"]), known(&table["most"]));
        format!("switch {id} table {}: {rules} of at most {most} rules\n", plain(&table["table"]))
    };
    let look_up = |of: &Value| {
        let at = of["table"].as_u64().map(|table| format!("table {table}"));
        let lowered = of["lowered"].as_str().map(|why| format!("lowered to reads: {why}"));
        let said: Vec<String> = at.into_iter().chain(lowered).collect();
        format!("switch {id} look-up {}: {}\n", plain(&of["look_up"]), said.join(", and "))
    };
    let tables = match switch["tables"].as_array() {
        Some(tables) => tables.iter().map(line).collect(),
        None => format!("switch {id} does not say how large its tables are\n"),
    };
    let look_ups: String = items(&switch["look_ups"]).map(look_up).collect();
    let refused = switch["action_sets"].as_bool() == Some(false);
    let action_sets = format!("switch {id} refuses action sets: a decision for each place, and none for all\n");
    tables + &look_ups + if refused { &action_sets } else { "" }
}

/// Writes a line for each label of a switch.
fn labels(switch: &Value) -> String {
    let line = |label: &Value| {
        let from =
            label["port"].as_null().map_or_else(|| format!(" by port {}", plain(&label["port"])), |()| String::new());
        let to: Vec<String> = items(&label["to"]).map(location).collect();
        let to = if to.is_empty() { "to nowhere".to_owned() } else { format!("out of {}", to.join(", ")) };
        let why = label["refused"].as_str().map(|why| format!(": {why}")).unwrap_or_default();
        let (id, stage, holders) = (plain(&label["id"]), plain(&label["stage"]), counted(&label["holders"], "holder"));
        format!("switch {} label {id}{from}: {to}; {stage}, {holders}{why}\n", plain(&switch["switch"]))
    };
    items(&switch["labels"]).map(line).collect()
}

/// Writes a switch's trace tree, and what is unexplored.
fn tree(switch: &Value, names: &Names) -> String {
    let id = with_name(names, &switch["switch"]);
    let exploration = &switch["exploration"];
    let state = if exploration.is_null() {
        "not explored".to_owned()
    } else if exploration["complete"] == Value::Bool(true) {
        "complete: no packet of a known host comes to the controller".to_owned()
    } else {
        let stopped = exploration["stopped"].as_str().map(|why| format!("exploration has stopped, because {why}"));
        let is_current = exploration["current"] == Value::Bool(true);
        let explored = if is_current { "explored, but for what is open" } else { "being explored" };
        stopped.unwrap_or_else(|| explored.to_owned())
    };
    let question = |open: &Value| {
        let line = open["line"].as_str().map(|line| format!("{line}: ")).unwrap_or_default();
        let count = open["count"].as_u64().filter(|count| *count > 1).map(|count| format!(" ({count} times)"));
        format!("  open: {line}{}{}\n", plain(&open["what"]), count.unwrap_or_default())
    };
    let open: String = items(&exploration["open"]).map(question).collect();
    let tree: String = plain(&switch["tree"]).lines().map(|line| format!("  {line}\n")).collect();
    format!("switch {id}: {state}\n{open}{tree}")
}

/// Writes an id with its name.
pub fn with_name(names: &Names, id: &Value) -> String {
    let id = plain(id);
    match names.in_text(&id) {
        name if name == id => id,
        name => format!("{name} ({id})"),
    }
}

/// Writes names with their ids, a line each.
fn name_of(all: &Value, id: &str) -> String {
    items(all).map(|one| format!("{} is {}\n", plain(&one["name"]), plain(&one[id]))).collect()
}

/// Returns the names that a controller has. An older controller has none.
pub fn names(controller: &(impl Reach + ?Sized)) -> Names {
    ask(controller, &Request::Show(Show::Names)).map(|answer| Names::from_json(&answer)).unwrap_or_default()
}

fn host(host: &Value, names: &Names) -> String {
    let addresses: Vec<String> = items(&host["ipv4"]).chain(items(&host["ipv6"])).map(plain).collect();
    let at = names.in_text(&location(&host["at"]));
    format!("{} at {at} {}\n", with_name(names, &host["mac"]), addresses.join(" ")).replace(" \n", "\n")
}

fn group(group: &Value) -> String {
    let at: Vec<String> = items(&group["at"]).map(location).collect();
    format!("{} at {}\n", plain(&group["group"]), at.join(" "))
}

/// Writes a lease with its remaining time.
fn lease(lease: &Value, now: SystemTime) -> String {
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let ends = match lease["ends"].as_u64() {
        Some(ends) => format!("for {} s", ends.saturating_sub(now)),
        None => "for ever".to_owned(),
    };
    format!("{} is {} at {} {ends}\n", plain(&lease["ip"]), plain(&lease["mac"]), location(&lease["at"]))
}

/// Writes an error, with the number of packets that were dropped because of it.
fn error(error: &Value) -> String {
    let time = error["time"].as_u64().map(|time| UNIX_EPOCH + Duration::from_millis(time));
    let time = time.map(|time| format!("{} ", timestamp(time))).unwrap_or_default();
    let text = format!("{time}{}", plain(&error["text"]));
    match error["packets"].as_u64() {
        Some(packets) => format!("{text}\n  ({packets} {} dropped)\n", if packets == 1 { "packet" } else { "packets" }),
        None => format!("{text}\n"),
    }
}

/// Writes the versions of the controller and of this program, which may differ after an upgrade.
fn version(of: &Value) -> String {
    format!(
        "controller: Maple {}, control protocol {}, formats: state {}, leaves in the state file {}, plans {}\n\
         this program: Maple {}, control protocol {PROTOCOL}\n",
        plain(&of["maple"]),
        plain(&of["protocol"]),
        plain(&of["state"]),
        plain(&of["leaves"]),
        plain(&of["plan"]),
        env!("CARGO_PKG_VERSION"),
    )
}

/// Describes the cluster of a controller.
fn cluster(answer: &Value) -> String {
    if answer.is_null() {
        return "this controller is the only one: it was not started with --cluster\n".to_owned();
    }
    let all = |name: &str| items(&answer[name]).map(plain).collect::<Vec<_>>().join(", ");
    let master = answer["master"].as_str().map_or_else(
        || "none".to_owned(),
        |master| format!("{master}, in generation {}", plain(&answer["generation"])),
    );
    let connected = counted(answer["connections"].as_u64().unwrap_or_default(), "switch");
    let lease = if answer["lease"] == true { "its lease is good" } else { "it has no good lease" };
    let own = answer["name"].as_str().map(|name| format!("{name}, ")).unwrap_or_default();
    let or_none = |name: &str| answer[name].as_str().unwrap_or("none: the program says who leads").to_owned();
    let lines = [
        ("cluster", or_none("cluster")),
        ("master", master),
        ("controllers", all("members")),
        ("this controller", format!("{}{}: {connected} connected, {lease}", own, plain(&answer["role"]))),
        ("etcd", all("etcd")),
    ];
    let trouble = answer["trouble"].as_str().map(|trouble| ("trouble with etcd", trouble.to_owned()));
    let state = ("tables and variables", answer["closed"].as_str().unwrap_or("can be written here").to_owned());
    let copy = ("decisions for standbys", copy(answer));
    lines.into_iter().chain([state, copy]).chain(trouble).map(|(name, value)| format!("{name:<32} {value}\n")).collect()
}

/// Describes what standbys get of the master's decisions, or what this one has got.
fn copy(answer: &Value) -> String {
    let copy = &answer["copy"];
    if copy.is_null() {
        return "none: --cluster-listen is not given, so a take-over decides everything anew".to_owned();
    }
    let trouble = copy["trouble"].as_str().map(|why| format!("; nothing comes now: {why}")).unwrap_or_default();
    let (Some(leaves), Some(hosts)) = (copy["leaves"].as_u64(), copy["hosts"].as_u64()) else {
        return format!("not here yet{trouble}");
    };
    let age = copy["age"].as_f64().unwrap_or_default();
    let what = format!("{} and {}, {age:.1} s old", counted(leaves, "decision"), counted(hosts, "host"));
    if answer["role"] == "master" { what } else { format!("{what}, of {}{trouble}", plain(&copy["of"])) }
}

/// Writes a controller's description of itself, with the running policy and a line for each file that it keeps.
fn controller(answer: &Value) -> String {
    let mut rest = answer.clone();
    let mut take = |name: &str| rest.as_object_mut().and_then(|all| all.remove(name)).unwrap_or_default();
    let (policy, files, of_cluster) = (take("policy"), take("files"), take("cluster"));
    let moment = |seconds: Value| seconds.as_u64().map(|seconds| timestamp(UNIX_EPOCH + Duration::from_secs(seconds)));
    let started = moment(take("started"));
    let [expires, http_expires] = ["certificate_expires", "http_certificate_expires"].map(|name| moment(take(name)));
    let stepped = take("clock_stepped").as_f64().filter(|seconds| *seconds != 0.0);
    let listening = take("listening");
    let address =
        |one: &Value| format!("{}{}", plain(&one["address"]), if one["tls"] == true { " with TLS" } else { "" });
    let listening: Vec<String> = items(&listening).map(address).collect();
    let lines = [
        ("started", started),
        ("listening", Some(listening.join(", "))),
        ("certificate expires", expires),
        ("HTTP API's certificate expires", http_expires),
        ("clock set forward by", stepped.map(|seconds| format!("{seconds} s"))),
        ("state file", Some(take("state_file")).filter(|file| !file.is_null()).map(|file| plain(&file))),
    ];
    let lines = lines.into_iter().filter_map(|(name, value)| Some(format!("{name:<32} {}\n", value?)));
    let lines: String = lines.collect();
    let file = |file: &Value| {
        let fails = file["fails"].as_str().map_or(String::new(), |why| format!(" fails: {why}"));
        format!("{:<32} {}{fails}\n", format!("file {}", plain(&file["file"])), plain(&file["path"]))
    };
    let of_cluster = if of_cluster.is_object() { cluster(&of_cluster) } else { String::new() };
    stats(&rest) + &lines + &of_cluster + &policy_that_runs(&policy) + &items(&files).map(file).collect::<String>()
}

/// Describes the running policy in some lines; empty if there is none.
fn policy_that_runs(policy: &Value) -> String {
    if policy.is_null() {
        return String::new();
    }
    let since = UNIX_EPOCH + Duration::from_secs(policy["since"].as_u64().unwrap_or_default());
    let mut text = format!("{:<32} {}\n", "policy", plain(&policy["name"]));
    for (name, value) in [
        ("hash", plain(&policy["hash"])),
        ("since", timestamp(since)),
        ("by", plain(&policy["by"])),
        ("named by command line or file", plain(&policy["configured"]["name"])),
    ] {
        let _ = writeln!(text, "  {name:<30} {value}");
    }
    if let Some(canary) = policy["canary"].as_str() {
        let _ = writeln!(text, "  {:<30} {canary}", "canary");
    }
    text
}

/// Writes the counters that are not zero, by part.
fn stats(stats: &Value) -> String {
    let mut text = String::new();
    for (name, value) in stats.as_object().into_iter().flatten() {
        match value.as_object() {
            Some(counts) => {
                let _ = writeln!(text, "{name}");
                for (name, count) in counts.iter().filter(|(_, count)| count.as_u64() != Some(0)) {
                    let _ = writeln!(text, "  {name:<30} {}", plain(count));
                }
            }
            None => {
                let _ = writeln!(text, "{name:<32} {}", plain(value));
            }
        }
    }
    text
}

pub fn location(at: &Value) -> String {
    format!("{}:{}", plain(&at["switch"]), plain(&at["port"]))
}

/// Returns a value without quotes.
pub fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
