//! The controller: its answers over the control socket, and what is wrong with them.

mod counters;
mod problems;
mod switches;
mod tables;

use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use maple_controller::control::socket::{AskError, Request, Show, ask, process};
use maple_controller::names::Names;
use serde_json::Value;

use super::command::within;
use super::finding::{Finding, FindingId, Level, Report, quoted};
use super::ovs::Listening;
use tables::Tables;

/// The maximum time for all answers.
const TIME_LIMIT: Duration = Duration::from_secs(10);

/// The answers of a controller.
#[derive(Clone, Debug, Default)]
pub struct Controller {
    /// The controller's description of itself; `Null` if it is too old to give one.
    about: Value,
    switches: Value,
    stats: Value,
    errors: Value,
    names: Value,
    tables: Tables,
    /// The id of its process, if that is visible from here.
    process: Option<u32>,
}

/// The reason why a controller does not answer.
#[derive(Debug)]
pub enum Silence {
    /// No controller listens at this socket.
    Absent(String),
    /// The controller refuses this user.
    Closed(String),
    /// The controller is there, but does not answer.
    Silent(String),
}

impl Silence {
    /// Describes the reason.
    pub fn why(&self) -> &str {
        let (Silence::Absent(why) | Silence::Closed(why) | Silence::Silent(why)) = self;
        why
    }
}

impl Controller {
    /// Queries a controller, within a time limit.
    ///
    /// # Errors
    /// [`Silence`] if the controller does not answer.
    pub fn ask(control: &Path) -> Result<Controller, Silence> {
        let path = control.to_owned();
        let answers = within(TIME_LIMIT, move || answers(&path));
        let timed_out = || Silence::Silent(format!("it does not answer within {} s", TIME_LIMIT.as_secs()));
        let said = answers.ok_or_else(timed_out)?.map_err(|error| match &error {
            AskError::Unreachable { error: cause, .. } if cause.kind() != ErrorKind::PermissionDenied => {
                Silence::Absent(error.to_string())
            }
            AskError::Unreachable { .. }
            | AskError::OtherUser { .. }
            | AskError::Refused { .. }
            | AskError::RefusedByOlder { .. }
            | AskError::OtherProtocol { .. } => Silence::Closed(error.to_string()),
            AskError::Io(_) | AskError::InvalidAnswer(_) | AskError::Closed => Silence::Silent(error.to_string()),
        })?;
        let tables = Tables::ask(control, &said.other_switches());
        Ok(Controller { tables, ..said })
    }

    /// Creates a controller with these answers.
    #[cfg(test)]
    pub fn from_answers(about: Value, switches: Value, stats: Value, errors: Value) -> Controller {
        let process = about["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok());
        Controller { about, switches, stats, errors, names: Value::Null, tables: Tables::default(), process }
    }

    /// Returns the names of its switches.
    pub fn names(&self) -> Names {
        Names::from_json(&self.names)
    }

    /// Returns the id of its process, if that is visible from here: a container's process has another id than it
    /// reports, or none.
    pub fn pid(&self) -> Option<u32> {
        self.process
    }

    /// Returns the number of its workers.
    pub fn shards(&self) -> usize {
        self.stats["shards"].as_u64().unwrap_or_default() as usize
    }

    /// Returns the number of switches that are connected, or connecting.
    pub fn connections(&self) -> u64 {
        self.stats["connections"].as_u64().unwrap_or_default()
    }

    /// Returns the state file, if it has one.
    pub fn state_file(&self) -> Option<&Path> {
        self.about["state_file"].as_str().map(Path::new)
    }

    /// Returns the expiry of its certificate, in seconds since 1970.
    pub fn certificate_expires(&self) -> Option<u64> {
        self.about["certificate_expires"].as_u64()
    }

    /// Returns the seconds by which the clock was set since the controller started.
    pub fn clock_stepped(&self) -> Option<f64> {
        self.about["clock_stepped"].as_f64()
    }

    /// Returns the addresses on which it listens; `None` if it is too old to report them.
    pub fn listening(&self) -> Option<Vec<Listening>> {
        let one = |value: &Value| {
            Some(Listening {
                address: value["address"].as_str()?.parse().ok()?,
                tls: value["tls"] == Value::Bool(true),
            })
        };
        Some(self.about["listening"].as_array()?.iter().filter_map(one).collect())
    }

    /// Returns the numbers of a switch's ports of this kind.
    pub fn ports(&self, dpid: u64, kind: &str) -> Vec<i64> {
        let switches = items(&self.switches).filter(|switch| number_of(switch) == Some(dpid));
        let ports = switches.flat_map(|switch| items(&switch["ports"]));
        ports.filter(|port| port["kind"] == kind).filter_map(|port| port["port"].as_i64()).collect()
    }

    /// Returns the switches that are connected.
    pub fn switches(&self) -> Vec<u64> {
        items(&self.switches).filter_map(number_of).collect()
    }

    /// Returns the switches that report that they are Open vSwitch, by number and id.
    pub fn open_vswitches(&self) -> Vec<(u64, String)> {
        items(&self.switches)
            .filter(|switch| is_open_vswitch(switch))
            .filter_map(|one| Some((number_of(one)?, text(&one["switch"]).to_owned())))
            .collect()
    }

    /// Returns the ids of the switches that do not report that they are Open vSwitch.
    fn other_switches(&self) -> Vec<String> {
        let others = items(&self.switches).filter(|switch| !is_open_vswitch(switch));
        others.map(|switch| text(&switch["switch"]).to_owned()).collect()
    }

    /// Checks all answers. `control`: the path of its socket.
    pub fn look(&self, control: &Path, report: &mut Report) {
        let count = items(&self.switches).count();
        let pid = self.pid().map(|pid| format!(" (process {pid})")).unwrap_or_default();
        let switches = if count == 1 { "switch" } else { "switches" };
        report.looked_at(format!("the controller{pid} with {count} {switches}: its counters, errors and switches"));
        report.all(self.of_itself(control));
        let listening = self.listening().and_then(|all| all.first().copied());
        report.all(switches::findings(&self.switches, listening));
        self.tables.checked().into_iter().for_each(|seen| report.looked_at(seen));
        report.all(self.tables.findings());
        report.all(counters::findings(&self.stats, &self.errors));
        report.all(problems::findings(&self.errors, &self.stats));
    }

    fn of_itself(&self, control: &Path) -> Vec<Finding> {
        let mut found = Vec::new();
        let (own, its) = (env!("CARGO_PKG_VERSION"), text(&self.about["version"]));
        if own != its {
            let is_newer = numbers(its) > numbers(own);
            let its = if its.is_empty() { "an older version, which does not say which" } else { its };
            let so = if is_newer {
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
            found.push(
                Finding::new(Level::Warning, FindingId::VersionDiffers, "the controller")
                    .what(format!("it is of {its}, and this command of {own}"))
                    .so(so)
                    .mend(mend),
            );
        }
        if self.about.is_object() && self.state_file().is_none() {
            found.push(
                Finding::new(Level::Note, FindingId::NoStateFile, "the controller")
                    .what("it has no state file")
                    .so("after a restart it knows nothing of what it had decided, and all rules are made anew")
                    .mend("maple run POLICY --state /var/lib/maple/state.redb"),
            );
        }
        found.extend(items(&self.about["files"]).filter_map(not_kept));
        found
    }
}

/// Returns the finding for a file that the controller can't write at present, if there is one.
fn not_kept(file: &Value) -> Option<Finding> {
    let why = file["fails"].as_str()?;
    let path = Path::new(text(&file["path"]));
    let folder = path.parent().unwrap_or(path);
    let full = format!("df {}  # is it full, or read-only?", quoted(folder));
    let (level, so, mend) = match text(&file["file"]) {
        "state" => (Level::Error, "what changes is only in memory: a restart loses it; it is tried again", full),
        "recording" => {
            (Level::Warning, "the recording ends, or has ended; a new start or a take-over begins another", full)
        }
        "log" => {
            (Level::Warning, "lines of the log are missing; the newest ones are kept", "maple show log".to_owned())
        }
        "switches" => {
            (Level::Warning, "certificates that are trusted first are only in memory; it is tried again", full)
        }
        "certificates" => (
            Level::Warning,
            "TLS goes on with the files as they were; they are read again when they are right",
            format!("ls -l {}", quoted(path)),
        ),
        "tokens" => (
            Level::Warning,
            "the tokens that were read before go on; the file is read again when it changes",
            format!("ls -l {}", quoted(path)),
        ),
        _ => (Level::Warning, "other programs do not find it; it is tried again", full),
    };
    let place = format!("{} {}", text(&file["file"]).replace("state", "state file"), path.display());
    Some(Finding::new(level, FindingId::FileNotKept, place).what(why).so(so).mend(mend))
}

/// Returns the finding for a controller that exists, but does not answer.
pub fn silent(control: &Path, why: &str) -> Finding {
    Finding::new(Level::Error, FindingId::ControllerSilent, format!("the controller at {}", control.display()))
        .what(why)
        .so("nobody learns what it does, and perhaps it does nothing: its shards or its control socket hang")
        .mend("systemctl restart maple  # if it is the service")
}

fn answers(path: &Path) -> Result<Controller, AskError> {
    let show = |what| ask(path, &Request::Show(what));
    let optional = |what| match show(what) {
        // A controller that does not know the request is older.
        Err(AskError::RefusedByOlder { .. }) => Ok(Value::Null),
        Err(AskError::Refused { error: why, .. }) if why.starts_with("show: ") || why.starts_with("not a request") => {
            Ok(Value::Null)
        }
        answer => answer,
    };
    Ok(Controller {
        stats: show(Show::Stats)?,
        about: optional(Show::Controller)?,
        switches: show(Show::Switches)?,
        errors: show(Show::Errors)?,
        names: optional(Show::Names)?,
        tables: Tables::default(),
        process: process(path).ok().filter(|pid| *pid != 0),
    })
}

/// Returns the numbers of a version; none for other text.
fn numbers(version: &str) -> Vec<u64> {
    let release = version.split(['-', '+']).next().unwrap_or_default();
    release.split('.').map_while(|number| number.parse().ok()).collect()
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn is_open_vswitch(switch: &Value) -> bool {
    text(&switch["description"]).contains("Open vSwitch")
}

fn number_of(switch: &Value) -> Option<u64> {
    u64::from_str_radix(text(&switch["switch"]), 16).ok()
}

#[cfg(test)]
mod tests;
