//! The surroundings of a controller: systemd's service, and the interpreter of policies.

use std::path::Path;

use super::super::ask_programs::output;
use super::{DoctorReport, Finding, FindingId, Severity};
use maple_wire::counted;

/// The service of `contrib/systemd`.
const SERVICE: &str = "maple.service";
/// The oldest Python version that can run policies: that of `requires-python` in `pyproject.toml`.
const PYTHON: (u32, u32) = (3, 10);

/// Checks the service, if systemd runs here.
pub fn look(report: &mut DoctorReport) {
    if !Path::new("/run/systemd/system").exists() {
        return report.add_unchecked(format!("the service {SERVICE}"), "systemd does not run this host");
    }
    match output("systemctl", &["show", SERVICE, "--property=LoadState,ActiveState,Result,NRestarts"]) {
        Ok(text) => {
            report.add_checked(format!("the service {SERVICE}"));
            report.extend(state(&text));
        }
        Err(why) => report.add_unchecked(format!("the service {SERVICE}"), why),
    }
}

/// Judges the output of `systemctl show`.
fn state(text: &str) -> Option<Finding> {
    let value =
        |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('=')).unwrap_or_default();
    if value("LoadState") != "loaded" {
        return None;
    }
    let restarts: u64 = value("NRestarts").parse().unwrap_or_default();
    let finding = |severity| Finding::new(severity, FindingId::ServiceFailed, SERVICE);
    if value("ActiveState") == "failed" {
        return Some(
            finding(Severity::Error)
                .what(format!("it failed ({})", value("Result")))
                .consequence("no controller runs; switches do what their fail mode says")
                .mend("journalctl -u maple -n 50"),
        );
    }
    (restarts > 0).then(|| {
        finding(Severity::Warning)
            .what(format!("systemd has started it again {}", counted(restarts, "time")))
            .consequence("each time new flows wait, and without a state file all rules are made anew")
            .mend("journalctl -u maple -p warning")
    })
}

/// Checks Python. `runs_this`: Python runs this command, so it is new enough.
pub fn look_at_python(runs_this: bool, report: &mut DoctorReport) {
    if runs_this {
        return report.add_checked("the version of Python, which runs this command");
    }
    match output("python3", &["--version"]) {
        Ok(text) => {
            report.add_checked("the version of Python");
            report.extend(python(&text));
        }
        Err(why) => report.add_unchecked("the version of Python", why),
    }
}

fn python(text: &str) -> Option<Finding> {
    let version = text.trim().strip_prefix("Python ")?;
    let mut numbers = version.split('.').map(|number| number.parse().ok());
    let found = (numbers.next()??, numbers.next()??);
    (found < PYTHON).then(|| {
        Finding::new(Severity::Note, FindingId::PythonVersion, "python3")
            .what(format!("its version is {version}; policies in Python need {}.{}", PYTHON.0, PYTHON.1))
            .consequence("the package can't be installed there; policies in Rust need no Python")
            .mend("apt-get install python3.11")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_that_failed_or_restarts_is_reported() {
        let severity = |active: &str, restarts: u32| {
            state(&format!("Result=exit-code\nLoadState=loaded\nActiveState={active}\nNRestarts={restarts}\n"))
                .map(|one| one.severity())
        };
        assert_eq!(
            (severity("active", 0), severity("active", 3), severity("failed", 5)),
            (None, Some(Severity::Warning), Some(Severity::Error))
        );
        assert_eq!(state("LoadState=not-found\nActiveState=inactive\nNRestarts=0\n"), None);
    }

    #[test]
    fn an_old_python_is_reported() {
        assert!(python("Python 3.9.2\n").expect("it is old").plain().contains("3.9.2; policies in Python need 3.10"));
        assert_eq!((python("Python 3.10.0"), python("Python 3.13.1\n"), python("?")), (None, None, None));
    }
}
