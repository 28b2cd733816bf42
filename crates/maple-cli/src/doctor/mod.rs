//! `maple doctor`: finds what will go wrong on this host and in its controller, and how to mend it. It changes nothing.
//!
//! Each source is a module with a function that queries and one that judges the answer, so that judgements are tested
//! on captured answers. A source that can't be queried is reported: silence would look like health. All queries have a
//! time limit.
//!
//! ```text
//!  ovs-vsctl ───────────► ovs ─────────┐
//!  control socket ──────► controller ──┼─► DoctorReport: findings, looked at, not looked at ──► people, JSON, status
//!  /proc, /sys, files ──► host ────────┘
//! ```

mod ask_programs;

mod ovs;

mod controller;
mod host;

mod configured;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use maple_controller::control::socket::default_path;
use maple_controller::names::Names;

use self::configured::ConfiguredOptions;
use self::controller::{Controller, Silence, silent};
use self::host::Process;
use self::ovs::{Database, Expected};
use maple_controller::control::doctor::{DoctorReport, FindingId, Severity};
use maple_wire::counted;

use crate::options::{DoctorArgs, default_control};
use crate::output::{Colour, Painted, json_text, print_line, print_painted};

/// The exit status if there is a warning or an error. It must be another than 1, which stands for a failed command.
const FOUND: u8 = 2;
/// The name of the check of this host's ports.
const LISTENERS: &str = "who listens on the controller's addresses";
/// The service's state file.
const SERVICE_STATE: &str = "/var/lib/maple/state.redb";
/// The control socket of the system's controller.
const SYSTEM_SOCKET: &str = "/run/maple/control.sock";

/// Prints the findings. `has_python`: Python runs this command.
///
/// # Errors
/// If standard output can't be written.
pub fn main(args: &DoctorArgs, has_python: bool) -> anyhow::Result<u8> {
    if args.list {
        FindingId::ALL.iter().for_each(|id| print_line(format_args!("{:<24} {}", id.name(), id.meaning())));
        return Ok(0);
    }
    let mut report = DoctorReport::default();
    let configured = ConfiguredOptions::read(args.config.as_deref(), &mut report);
    let control =
        args.control.clone().or_else(|| configured.control().map(Path::to_owned)).unwrap_or_else(default_control);
    let names = visit(args, &control, &configured, has_python, &mut report);
    report.sort();
    if control != default_control() {
        report.name_control(&control);
    }
    if args.json {
        print_line(json_text(&report.to_json()));
    } else {
        let mut text = Painted::for_terminal();
        write(&mut text, &report, &names);
        print_painted(&text)?;
    }
    let is_bad = report.findings().iter().any(|finding| finding.severity() < Severity::Note);
    Ok(if is_bad { FOUND } else { 0 })
}

/// Checks everything. Returns the names of switches.
fn visit(
    args: &DoctorArgs,
    control: &Path,
    configured: &ConfiguredOptions,
    has_python: bool,
    report: &mut DoctorReport,
) -> Names {
    let asked = Controller::ask(control);
    if let Err(silence) = &asked {
        if let Silence::Silent(why) = silence {
            report.add(silent(control, why));
        }
        report.add_unchecked("the controller", silence.why());
    }
    let is_absent = matches!(asked, Err(Silence::Absent(_)));
    let controller = asked.ok();
    let controller = controller.as_ref();
    if let Some(controller) = controller {
        controller.look(control, report);
    }
    let of_another = is_of_another(args, configured);
    let none = ConfiguredOptions::default();
    let expected = expected(controller, if of_another { &none } else { configured });
    let open_vswitch = open_vswitch(args, &expected, controller, report);
    report_remote_switches(controller, open_vswitch.as_ref(), report);
    files(control, controller, configured, open_vswitch.as_ref(), report);
    match controller {
        // A running controller has its addresses already; those of a configuration may be others.
        Some(_) if of_another => {}
        Some(controller) => wanted_ports(controller, configured, report),
        None if !is_absent => report.add_unchecked(LISTENERS, "a controller that does not answer may do so"),
        None if !expected.is_known => report.add_unchecked(LISTENERS, "no configuration of it says which these are"),
        None => host::look_at_ports(&expected.listening, None, report),
    }
    host(controller, open_vswitch.as_ref(), report);
    host::look_at_python(has_python, report);
    controller.map(Controller::names).unwrap_or_default()
}

/// Checks Open vSwitch on this host, if it answers.
fn open_vswitch(
    args: &DoctorArgs,
    expected: &Expected,
    controller: Option<&Controller>,
    report: &mut DoctorReport,
) -> Option<Database> {
    let asked = Database::ask().map_err(|why| report.add_unchecked("Open vSwitch on this host", why));
    let mut database = asked.ok()?;
    for name in database.choose(&args.bridge) {
        report.add_unchecked(format!("bridge {name}"), "Open vSwitch has none of this name");
    }
    database.look(expected, controller, !args.bridge.is_empty(), report);
    Some(database)
}

/// Checks who listens on the addresses that the configuration gives a running controller.
fn wanted_ports(controller: &Controller, configured: &ConfiguredOptions, report: &mut DoctorReport) {
    let wanted = configured.given_listening();
    match controller.pid().filter(|pid| Process::read(*pid).is_some()) {
        _ if wanted.is_empty() => {}
        None => report.add_unchecked(LISTENERS, "its process is not visible from here"),
        own => host::look_at_ports(&wanted, own, report),
    }
}

/// Reports whether the configuration belongs to another controller than the one that was named.
fn is_of_another(args: &DoctorArgs, configured: &ConfiguredOptions) -> bool {
    args.control.as_deref().is_some_and(|control| match configured.control() {
        Some(its) => its != control,
        None => args.config.is_none(),
    })
}

/// Returns the addresses on which the controller of this host listens, and its switches.
fn expected(controller: Option<&Controller>, configured: &ConfiguredOptions) -> Expected {
    let of_controller = controller.and_then(Controller::listening);
    let is_known = of_controller.is_some() || configured.is_given();
    let listening = of_controller.unwrap_or_else(|| configured.listening());
    let connected = controller.map(Controller::switches).unwrap_or_default();
    let in_cluster = controller.is_some_and(Controller::is_in_cluster);
    Expected { listening, runs: controller.is_some(), is_known, connected, in_cluster }
}

/// Records which switches run on other hosts, because OpenFlow does not reveal their settings.
fn report_remote_switches(controller: Option<&Controller>, open_vswitch: Option<&Database>, report: &mut DoctorReport) {
    let switches = controller.map(Controller::open_vswitches).unwrap_or_default();
    let is_away = |dpid: u64| open_vswitch.is_none_or(|database| !database.has(dpid));
    let away: Vec<String> = switches.into_iter().filter(|(dpid, _)| is_away(*dpid)).map(|(_, id)| id).collect();
    if !away.is_empty() {
        let (shown, more) = (away.len().min(8), away.len().saturating_sub(8));
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        report.add_unchecked(
            format!("Open vSwitch of switches {}{more}", away[..shown].join(", ")),
            "it is not on this host, or not among the bridges that were named: run `maple doctor` there",
        );
    }
}

/// Returns the process of a controller, if it is visible.
fn process(controller: Option<&Controller>) -> Option<Process> {
    controller.and_then(Controller::pid).and_then(Process::read)
}

/// Checks the files of a controller, and certificates.
fn files(
    control: &Path,
    controller: Option<&Controller>,
    configured: &ConfiguredOptions,
    open_vswitch: Option<&Database>,
    report: &mut DoctorReport,
) {
    let sockets = BTreeSet::from([control.to_owned(), default_path(), PathBuf::from(SYSTEM_SOCKET)]);
    host::look_at_control_sockets(&sockets, report);
    let process = process(controller);
    let service = Path::new(SERVICE_STATE).parent().filter(|folder| folder.exists()).map(|_| Path::new(SERVICE_STATE));
    match controller {
        None => match configured.state_file().or(service) {
            Some(path) => host::look_at_state_file(path, None, report),
            None => report.add_unchecked("a state file", "neither a controller nor a configuration names one"),
        },
        Some(controller) => match (controller.state_file(), &process) {
            (Some(path), Some(_)) => host::look_at_state_file(path, process.as_ref(), report),
            (Some(path), None) => {
                report.add_unchecked(
                    format!("the state file {}", path.display()),
                    "it is not known which user writes it",
                );
            }
            (None, _) => {}
        },
    }
    let mut certificates = configured.certificates();
    certificates.extend(open_vswitch.map(Database::certificates).into_iter().flatten().map(PathBuf::from));
    let of_controller = [
        ("the controller's certificate", controller.and_then(Controller::certificate_expires)),
        ("the certificate of the HTTP API", controller.and_then(Controller::http_certificate_expires)),
    ];
    host::look_at_certificates(of_controller, &certificates, report);
}

/// Checks limits, cores, the clock and the service of this host.
fn host(controller: Option<&Controller>, open_vswitch: Option<&Database>, report: &mut DoctorReport) {
    let process = process(controller);
    match (controller.map(Controller::pid), &process) {
        (Some(Some(pid)), None) => {
            report.add_unchecked(format!("limits and cores of process {pid}"), "it is hidden from this user");
        }
        (Some(None), _) => {
            report.add_unchecked("limits and cores of the controller", "its process is not visible from here");
        }
        _ => {}
    }
    let (connections, workers) = controller.map_or((0, 0), |one| (one.connections(), one.shards()));
    if controller.is_none() || process.is_some() {
        host::look_at_open_files(process.as_ref(), connections, report);
    }
    host::look_at_kernel(report);
    host::look_at_cores(process.as_ref(), workers, open_vswitch.and_then(Database::busy_cores).as_deref(), report);
    host::look_at_clock(controller, report);
    host::look_at_service(report);
}

/// Writes the report for people, the worst first.
fn write(out: &mut Painted, report: &DoctorReport, names: &Names) {
    for finding in report.findings() {
        let (severity, colour) = (finding.severity().name(), colour(finding.severity()));
        let text = finding.text(severity, names);
        match text.strip_prefix(severity) {
            Some(rest) => {
                out.push_in(colour, severity);
                out.push(rest);
            }
            None => out.push(&text),
        }
        out.push("\n");
    }
    let count = |severity| report.findings().iter().filter(|finding| finding.severity() == severity).count();
    let [errors, warnings, notes] = [Severity::Error, Severity::Warning, Severity::Note].map(count);
    out.push("looked at:\n");
    report.checked().iter().for_each(|what| out.push(&format!("  {}\n", names.in_text(what))));
    if !report.unchecked().is_empty() {
        out.push("not looked at:\n");
        for (what, why) in report.unchecked() {
            out.push(&format!("  {}, because {why}\n", names.in_text(what)));
        }
    }
    out.push(&match errors + warnings + notes {
        0 if report.unchecked().is_empty() => "nothing was found\n".to_owned(),
        0 => "nothing was found in what was looked at\n".to_owned(),
        _ => format!("{}, {}, {}\n", counted(errors, "error"), counted(warnings, "warning"), counted(notes, "note")),
    });
}

fn colour(severity: Severity) -> Colour {
    match severity {
        Severity::Error => Colour::Red,
        Severity::Warning => Colour::Yellow,
        Severity::Note => Colour::Cyan,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use maple_controller::control::doctor::Finding;

    fn text(report: &DoctorReport, names: &Names, has_colours: bool) -> String {
        let mut text = Painted::new(has_colours);
        write(&mut text, report, names);
        text.as_str().to_owned()
    }

    #[test]
    fn a_report_ends_with_what_was_checked_and_how_much_was_found() {
        let mut report = DoctorReport::default();
        report.add_checked("this");
        assert_eq!(text(&report, &Names::new(), false), "looked at:\n  this\nnothing was found\n");
        report.add_unchecked("that", "it is not there");
        assert!(text(&report, &Names::new(), false).ends_with("\nnothing was found in what was looked at\n"));
        report.add(
            Finding::new(Severity::Error, FindingId::NoSwitch, "the controller").what("a").consequence("b").mend("c"),
        );
        let reported = text(&report, &Names::new(), false);
        assert!(reported.starts_with(
            "error no-switch: the controller: a\n  then: b\n  mend: c\n  page: docs/doctor.md#no-switch\n\n"
        ));
        assert!(reported.ends_with("not looked at:\n  that, because it is not there\n1 error, 0 warnings, 0 notes\n"));
        assert!(text(&report, &Names::new(), true).starts_with("\x1b[31merror\x1b[0m no-switch"));
    }
}
