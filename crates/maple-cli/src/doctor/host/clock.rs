//! The clock: whether it was set while the controller ran, and whether it is synchronised.

use super::super::ask_programs::output;
use super::{Controller, DoctorReport, Finding, FindingId, Severity};

/// The size of a step below which it does not matter, in seconds. Chosen: times in logs and certificates have seconds,
/// and NTP often steps by less.
const SMALL: f64 = 1.0;

/// Checks the clock.
pub fn look(controller: Option<&Controller>, report: &mut DoctorReport) {
    match controller.map(Controller::clock_stepped) {
        Some(Some(seconds)) => {
            report.add_checked("steps of the clock since the controller's start");
            report.extend(stepped(seconds));
        }
        Some(None) => report.add_unchecked("steps of the clock", "the controller is older, and does not say"),
        None => report.add_unchecked("steps of the clock", "only a running controller knows"),
    }
    match output("timedatectl", &["show", "--property=NTPSynchronized", "--value"]) {
        Ok(text) => {
            report.add_checked("whether the clock is synchronised");
            report.extend((text.trim() == "no").then(not_synchronised));
        }
        Err(why) => report.add_unchecked("whether the clock is synchronised", why),
    }
}

fn stepped(seconds: f64) -> Option<Finding> {
    if seconds.abs() < SMALL {
        return None;
    }
    let way = if seconds < 0.0 { "back" } else { "forward" };
    Some(
        // Usually the clock was set once when the machine started, which corrected it.
        Finding::new(Severity::Note, FindingId::ClockStepped, "this host")
            .what(format!(
                "the clock went {way} by {:.0} s while the controller ran: it was set, or the machine slept",
                seconds.abs()
            ))
            .consequence(
                "times in the log do not fit together, and DHCP leases and certificates end too early or too late",
            )
            .mend("timedatectl set-ntp true"),
    )
}

fn not_synchronised() -> Finding {
    Finding::new(Severity::Note, FindingId::ClockNotSynchronised, "this host")
        .what("nothing synchronises the clock")
        .consequence("certificates are judged by a wrong time, and logs of several machines do not fit together")
        .mend("timedatectl set-ntp true")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_steps_are_nothing_and_others_a_note() {
        let severity = |seconds| stepped(seconds).map(|finding| finding.severity());
        assert_eq!((severity(0.2), severity(-0.2)), (None, None));
        assert_eq!((severity(2.0), severity(-3600.0)), (Some(Severity::Note), Some(Severity::Note)));
        assert!(stepped(-2.0).expect("a step").plain().contains("went back by 2 s"));
    }
}
