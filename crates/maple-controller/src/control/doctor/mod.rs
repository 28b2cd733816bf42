//! Faults of a running controller, by its answers: for `maple doctor`, which asks its control
//! socket, and for the HTTP API.
//!
//! Judgements read the answers as any client gets them, so that `maple doctor` judges controllers of other versions
//! too, and judgements are tested on captured answers.

mod cluster_findings;
mod counter_findings;
mod finding;
mod problems;
mod switch_faults;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

pub use self::finding::{DoctorReport, Finding, FindingId, Severity, quoted};
use super::Handle;
use super::answer::answer_to;
use super::asker::Asker;
use super::request::{Request, RequestError, Show};
use crate::endpoint::Endpoint;

/// The time after which no further switch is asked for its tables. Chosen: a person waits for the findings, and those
/// of the other switches are worth reporting.
const TIME_LIMIT: Duration = Duration::from_secs(10);
/// The share of a table's capacity, in percent, from which it is nearly full. Chosen: there is time to act before flows
/// go through the controller, and ordinary growth raises no alarm.
const NEARLY_FULL: u64 = 90;

/// The answers of a controller to requests of its control socket.
#[derive(Clone, Debug, Default)]
pub struct ControllerAnswers {
    /// Its description of itself; `Null` if it is too old to give one.
    pub about: Value,
    /// Its switches; `Null` if it is a standby, which has none.
    pub switches: Value,
    /// Its counters.
    pub stats: Value,
    /// Its errors.
    pub errors: Value,
    /// The tables of switches: one object for each that answered.
    pub tables: Vec<Value>,
    /// The number of switches that were not asked for their tables for want of time.
    pub tables_left: usize,
    /// The id of its process, if the asker can see it.
    pub process: Option<u32>,
}

/// Answers with the findings about this controller.
pub(super) fn answer(handle: &Handle, asker: &Asker) -> Result<Value, RequestError> {
    let show = |what| answer_to(handle, asker, &Request::Show(what));
    let about = show(Show::Controller)?;
    let mut answers = ControllerAnswers {
        switches: if is_standby(&about) { Value::Null } else { show(Show::Switches)? },
        about,
        stats: show(Show::Stats)?,
        errors: show(Show::Errors)?,
        process: Some(std::process::id()),
        ..ControllerAnswers::default()
    };
    let (end, others) = (Instant::now() + TIME_LIMIT, answers.other_switches());
    for (index, switch) in others.iter().enumerate() {
        if Instant::now() >= end {
            answers.tables_left = others.len() - index;
            break;
        }
        // The switch may have gone meanwhile.
        match show(Show::Tables(Some(switch.clone()))) {
            Ok(tables) => answers.tables.extend(items(&tables).cloned()),
            Err(refusal) if refusal.is_wrong() => {}
            Err(refusal) => return Err(refusal),
        }
    }
    let mut report = DoctorReport::default();
    answers.look(None, &mut report);
    report.sort();
    Ok(report.to_json())
}

impl ControllerAnswers {
    /// Returns the state file, if it has one.
    pub fn state_file(&self) -> Option<&Path> {
        self.about["state_file"].as_str().map(Path::new)
    }

    /// Returns the addresses on which it listens; `None` if it is too old to report them.
    pub fn listening(&self) -> Option<Vec<Endpoint>> {
        let one = |value: &Value| {
            Some(Endpoint {
                address: value["address"].as_str()?.parse().ok()?,
                has_tls: value["tls"] == Value::Bool(true),
            })
        };
        Some(self.about["listening"].as_array()?.iter().filter_map(one).collect())
    }

    /// Returns the ids of the switches that do not report that they are Open vSwitch. Open vSwitch is not asked for its
    /// tables: these have room for a million rules unless its database says otherwise, and its answer is long.
    pub fn other_switches(&self) -> Vec<String> {
        let others = items(&self.switches).filter(|switch| !is_open_vswitch(switch));
        others.map(|switch| text(&switch["switch"]).to_owned()).collect()
    }

    /// Checks all answers. `control`: the path of the socket that gave them, if another program asks.
    pub fn look(&self, control: Option<&Path>, report: &mut DoctorReport) {
        let count = items(&self.switches).count();
        let pid = self.process.map(|pid| format!(" (process {pid})")).unwrap_or_default();
        let is_standby = is_standby(&self.about);
        if is_standby {
            report.add_checked(format!("the controller{pid}, which is a standby: its cluster, counters and errors"));
        } else {
            let switches = if count == 1 { "switch" } else { "switches" };
            report
                .add_checked(format!("the controller{pid} with {count} {switches}: its counters, errors and switches"));
        }
        report.extend(cluster_findings::findings(&self.about));
        report.extend(control.and_then(|control| self.of_another_version(control)));
        report.extend(self.of_its_files());
        let listening = self.listening().and_then(|all| all.first().copied());
        if !is_standby {
            report.extend(switch_faults::findings(&self.switches, listening));
        }
        self.tables_checked().into_iter().for_each(|seen| report.add_checked(seen));
        report.extend(self.nearly_full_tables());
        report.extend(counter_findings::findings(&self.stats, &self.errors));
        report.extend(problems::findings(&self.errors, &self.stats));
    }

    fn of_another_version(&self, control: &Path) -> Option<Finding> {
        let (own, its) = (env!("CARGO_PKG_VERSION"), text(&self.about["version"]));
        if own == its {
            return None;
        }
        let is_newer = numbers(its) > numbers(own);
        let its = if its.is_empty() { "an older version, which does not say which" } else { its };
        let consequence = if is_newer {
            "this command does not know all that it says, and may judge it wrongly"
        } else {
            "it may refuse what this command asks, and lacks what the newer version mends"
        };
        let state = self.state_file().map(|file| format!(" --state {}", quoted(file))).unwrap_or_default();
        let mend = if is_newer {
            "use the `maple` that the controller was started with".to_owned()
        } else {
            format!("maple run POLICY --takeover{state} --control {}", quoted(control))
        };
        let finding = Finding::new(Severity::Warning, FindingId::VersionDiffers, "the controller");
        Some(finding.what(format!("it is of {its}, and this command of {own}")).consequence(consequence).mend(mend))
    }

    fn of_its_files(&self) -> Vec<Finding> {
        let mut found = Vec::new();
        // A controller of a cluster has none.
        if self.about.is_object() && self.state_file().is_none() && !self.about["cluster"].is_object() {
            found.push(
                Finding::new(Severity::Note, FindingId::NoStateFile, "the controller")
                    .what("it has no state file")
                    .consequence("after a restart it knows nothing of what it had decided, and all rules are made anew")
                    .mend("maple run POLICY --state /var/lib/maple/state.redb"),
            );
        }
        found.extend(items(&self.about["files"]).filter_map(not_kept));
        found
    }

    /// Describes what was checked of tables; `None` if no switch was asked.
    fn tables_checked(&self) -> Option<String> {
        let sized = self.tables.iter().filter(|switch| items(&switch["tables"]).any(|table| table["most"].is_u64()));
        let (asked, sized, left) = (self.tables.len() + self.tables_left, sized.count(), self.tables_left);
        let rest = if left > 0 { format!(", {left} were not asked for want of time") } else { String::new() };
        (asked > 0).then(|| format!("how full tables are: {sized} of {asked} switches say it{rest}"))
    }

    fn nearly_full_tables(&self) -> Vec<Finding> {
        let mut found = Vec::new();
        for switch in &self.tables {
            found.extend(items(&switch["tables"]).filter_map(|table| nearly_full(switch, table)));
        }
        found
    }
}

/// Reports whether a controller that says this of itself is a standby.
pub fn is_standby(about: &Value) -> bool {
    about["cluster"]["role"] == "standby"
}

/// Returns the finding for a table that is nearly full.
fn nearly_full(switch: &Value, table: &Value) -> Option<Finding> {
    let (rules, most) = (table["rules"].as_u64()?, table["most"].as_u64().filter(|most| *most > 0)?);
    let place = format!("switch {}", text(&switch["switch"]));
    let finding = Finding::new(Severity::Warning, FindingId::TableNearlyFull, place)
        .what(format!("table {} has {rules} of at most {most} rules", table["table"]))
        .consequence("when it is full, the controller forwards the flows that do not fit, slowly")
        .mend("maple check POLICY");
    (rules.saturating_mul(100) >= most.saturating_mul(NEARLY_FULL)).then_some(finding)
}

/// Returns the finding for a file that the controller can't write at present, if there is one.
fn not_kept(file: &Value) -> Option<Finding> {
    let why = file["fails"].as_str()?;
    let path = Path::new(text(&file["path"]));
    let folder = path.parent().unwrap_or(path);
    let full = format!("df {}  # is it full, or read-only?", quoted(folder));
    let (severity, consequence, mend) = match text(&file["file"]) {
        "state" => (Severity::Error, "what changes is only in memory: a restart loses it; it is tried again", full),
        "recording" => {
            (Severity::Warning, "the recording ends, or has ended; a new start or a take-over begins another", full)
        }
        "log" => {
            (Severity::Warning, "lines of the log are missing; the newest ones are kept", "maple show log".to_owned())
        }
        "switches" => {
            (Severity::Warning, "certificates that are trusted first are only in memory; it is tried again", full)
        }
        "certificates" => (
            Severity::Warning,
            "TLS goes on with the files as they were; they are read again when they are right",
            format!("ls -l {}", quoted(path)),
        ),
        "tokens" => (
            Severity::Warning,
            "the tokens that were read before go on; the file is read again when it changes",
            format!("ls -l {}", quoted(path)),
        ),
        "timeline" => {
            (Severity::Warning, "what happens waits in memory as long as there is room; it is tried again", full)
        }
        _ => (Severity::Warning, "other programs do not find it; it is tried again", full),
    };
    let place = format!("{} {}", text(&file["file"]).replace("state", "state file"), path.display());
    Some(Finding::new(severity, FindingId::FileNotKept, place).what(why).consequence(consequence).mend(mend))
}

/// Returns the numbers of a version; none for other text.
fn numbers(version: &str) -> Vec<u64> {
    let release = version.split(['-', '+']).next().unwrap_or_default();
    release.split('.').map_while(|number| number.parse().ok()).collect()
}

/// Returns the items of an array; none of another value.
pub fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Returns a text; an empty one of another value.
pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Reports whether a switch says that it is Open vSwitch.
pub fn is_open_vswitch(switch: &Value) -> bool {
    text(&switch["description"]).contains("Open vSwitch")
}
