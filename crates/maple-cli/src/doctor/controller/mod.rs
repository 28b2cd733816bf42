//! The controller: its answers over the control socket. What is wrong with them, the controller's own code judges.

use std::io::ErrorKind;
use std::path::Path;
use std::time::{Duration, Instant};

use maple_controller::Endpoint;
use maple_controller::control::doctor::{
    ControllerAnswers, DoctorReport, Finding, FindingId, Severity, is_open_vswitch, is_standby, items, text,
};
use maple_controller::control::socket::{AskError, Request, Show, ask, process};
use maple_controller::names::Names;
use maple_wire::parse_hex;
use serde_json::Value;

use super::ask_programs::within;

/// The maximum time for all answers. Chosen: a person waits for the report, which is of use without these answers too.
const TIME_LIMIT: Duration = Duration::from_secs(10);

/// The answers of a controller.
#[derive(Clone, Debug, Default)]
pub struct Controller {
    answers: ControllerAnswers,
    names: Value,
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
        let Controller { answers, names } = said;
        Ok(Controller { answers: with_tables(control, answers), names })
    }

    /// Creates a controller with these answers.
    #[cfg(test)]
    pub fn from_answers(about: Value, switches: Value, stats: Value, errors: Value) -> Controller {
        let process = about["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok());
        let answers = ControllerAnswers { about, switches, stats, errors, process, ..ControllerAnswers::default() };
        Controller { answers, names: Value::Null }
    }

    /// Returns the names of its switches.
    pub fn names(&self) -> Names {
        Names::from_json(&self.names)
    }

    /// Returns the id of its process, if that is visible from here: a container's process has another id than it
    /// reports, or none.
    pub fn pid(&self) -> Option<u32> {
        self.answers.process
    }

    /// Reports whether the controller is one of several.
    pub fn is_in_cluster(&self) -> bool {
        self.answers.about["cluster"].is_object()
    }

    /// Returns the number of its workers.
    pub fn shards(&self) -> usize {
        self.answers.stats["shards"].as_u64().unwrap_or_default() as usize
    }

    /// Returns the number of switches that are connected, or connecting.
    pub fn connections(&self) -> u64 {
        self.answers.stats["connections"].as_u64().unwrap_or_default()
    }

    /// Returns the state file, if it has one.
    pub fn state_file(&self) -> Option<&Path> {
        self.answers.about["state_file"].as_str().map(Path::new)
    }

    /// Returns the expiry of its certificate, in seconds since 1970.
    pub fn certificate_expires(&self) -> Option<u64> {
        self.answers.about["certificate_expires"].as_u64()
    }

    /// Returns the expiry of the certificate of its HTTP API, in seconds since 1970.
    pub fn http_certificate_expires(&self) -> Option<u64> {
        self.answers.about["http_certificate_expires"].as_u64()
    }

    /// Returns the seconds by which the clock was set since the controller started.
    pub fn clock_stepped(&self) -> Option<f64> {
        self.answers.about["clock_stepped"].as_f64()
    }

    /// Returns the addresses on which it listens; `None` if it is too old to report them.
    pub fn listening(&self) -> Option<Vec<Endpoint>> {
        self.answers.listening()
    }

    /// Returns the numbers of a switch's ports of this kind.
    pub fn ports(&self, dpid: u64, kind: &str) -> Vec<i64> {
        let switches = items(&self.answers.switches).filter(|switch| number_of(switch) == Some(dpid));
        let ports = switches.flat_map(|switch| items(&switch["ports"]));
        ports.filter(|port| port["kind"] == kind).filter_map(|port| port["port"].as_i64()).collect()
    }

    /// Returns the switches that are connected.
    pub fn switches(&self) -> Vec<u64> {
        items(&self.answers.switches).filter_map(number_of).collect()
    }

    /// Returns the switches that report that they are Open vSwitch, by number and id.
    pub fn open_vswitches(&self) -> Vec<(u64, String)> {
        items(&self.answers.switches)
            .filter(|switch| is_open_vswitch(switch))
            .filter_map(|one| Some((number_of(one)?, text(&one["switch"]).to_owned())))
            .collect()
    }

    /// Checks all answers. `control`: the path of its socket.
    pub fn look(&self, control: &Path, report: &mut DoctorReport) {
        self.answers.look(Some(control), report);
    }
}

/// Returns the finding for a controller that exists, but does not answer.
pub fn silent(control: &Path, why: &str) -> Finding {
    Finding::new(Severity::Error, FindingId::ControllerSilent, format!("the controller at {}", control.display()))
        .what(why)
        .consequence("nobody learns what it does, and perhaps it does nothing: its shards or its control socket hang")
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
    let about = optional(Show::Controller)?;
    let answers = ControllerAnswers {
        stats: show(Show::Stats)?,
        switches: if is_standby(&about) { Value::Null } else { show(Show::Switches)? },
        about,
        errors: show(Show::Errors)?,
        process: process(path).ok().filter(|pid| *pid != 0),
        ..ControllerAnswers::default()
    };
    Ok(Controller { answers, names: optional(Show::Names)? })
}

/// Asks switches for their tables, one after the other, within a time limit.
fn with_tables(control: &Path, mut answers: ControllerAnswers) -> ControllerAnswers {
    let end = Instant::now() + TIME_LIMIT;
    let switches = answers.other_switches();
    for (at, switch) in switches.iter().enumerate() {
        let (path, request) = (control.to_owned(), Request::Show(Show::Tables(Some(switch.clone()))));
        let rest = end.saturating_duration_since(Instant::now());
        match within(rest, move || ask(&path, &request)) {
            None => {
                answers.tables_left = switches.len() - at;
                break;
            }
            // A controller that does not know the request is older, and will not know it for other switches.
            Some(Err(AskError::RefusedByOlder { .. })) => break,
            // The switch has disconnected meanwhile.
            Some(Err(_)) => {}
            Some(Ok(answer)) => answers.tables.extend(items(&answer).cloned()),
        }
    }
    answers
}

fn number_of(switch: &Value) -> Option<u64> {
    parse_hex(text(&switch["switch"]))
}

#[cfg(test)]
mod tests;
