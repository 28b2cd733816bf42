//! This host: ports, files, limits, cores, the kernel, the clock, the service.

mod certificates;
mod clock;
mod cores;
mod files;
mod process;
mod sockets;
mod surroundings;

pub use certificates::look as look_at_certificates;
pub use clock::look as look_at_clock;
pub use cores::look as look_at_cores;
pub use files::{look_at_control_sockets, look_at_state_file};
pub use process::Process;
pub use sockets::look as look_at_ports;
pub use surroundings::{look as look_at_service, look_at_python};

use super::controller::Controller;
use maple_controller::BACKLOG;
use maple_controller::Endpoint;
use maple_controller::control::doctor::{DoctorReport, Finding, FindingId, Severity};

/// The number of a controller's descriptors that are not connections of switches: standard streams, polls of shards,
/// files. Chosen: with room to spare.
const OTHER_FILES: u64 = 64;
/// The minimum number of files that a controller should be able to open if switches can't be counted. Chosen: the
/// default of most systems, with which a network of hundreds of switches works.
const FEW_FILES: u64 = 1024;

/// Checks the limit of open files of the controller's process, or of one that would start here.
pub fn look_at_open_files(process: Option<&Process>, connections: u64, report: &mut DoctorReport) {
    match process.map(|process| process.open_files) {
        Some(Some(limit)) => {
            report.add_checked(format!("the controller's limit of open files, {limit}"));
            report.extend(file_limit(limit, connections, "the controller"));
        }
        Some(None) => report.add_unchecked("the controller's limit of open files", "its process can't be read here"),
        None => {
            let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum.unwrap_or(u64::MAX);
            report.add_checked("the limit of open files here");
            report.extend(file_limit(limit, 0, "programs started here"));
        }
    }
}

/// Checks the settings of the kernel.
pub fn look_at_kernel(report: &mut DoctorReport) {
    match std::fs::read_to_string("/proc/sys/net/core/somaxconn").map(|text| text.trim().parse()) {
        Ok(Ok(waiting)) => {
            report.add_checked("net.core.somaxconn");
            report.extend(listen_backlog(waiting));
        }
        _ => report.add_unchecked("net.core.somaxconn", "the kernel does not say it here"),
    }
}

fn file_limit(limit: u64, connections: u64, place: &str) -> Option<Finding> {
    let finding = |severity| Finding::new(severity, FindingId::FileLimit, place);
    let room = limit.saturating_sub(OTHER_FILES);
    let mend = "systemctl edit maple  # and there: [Service] LimitNOFILE=65536";
    // The threshold is four fifths, because the rest is soon used up when switches reconnect.
    if connections > 0 && connections >= room / 5 * 4 {
        return Some(
            finding(Severity::Warning)
                .what(format!("{limit} files may be open, and {connections} connections of switches are"))
                .consequence("further switches are not accepted")
                .mend(mend),
        );
    }
    (limit < FEW_FILES).then(|| {
        finding(Severity::Note)
            .what(format!("{limit} files may be open"))
            .consequence(format!("more than {room} switches are not accepted"))
            .mend(mend)
    })
}

fn listen_backlog(waiting: u64) -> Option<Finding> {
    (waiting < u64::from(BACKLOG)).then(|| {
        Finding::new(Severity::Note, FindingId::ListenBacklog, "this host")
            .what(format!("net.core.somaxconn is {waiting}; a controller lets {BACKLOG} connections wait"))
            .consequence(
                "if more switches than that reconnect at once, some are refused and wait for their next attempt",
            )
            .mend(format!("sysctl -w net.core.somaxconn={BACKLOG}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_compared_with_what_is_connected() {
        let severity = |limit, connections| file_limit(limit, connections, "x").map(|finding| finding.severity());
        assert_eq!(severity(65_536, 10), None);
        assert_eq!(severity(512, 10), Some(Severity::Note));
        assert_eq!(severity(1088, 900), Some(Severity::Warning));
        assert_eq!(severity(u64::MAX, 0), None);
        assert!(listen_backlog(4096).is_none() && listen_backlog(128).is_some());
    }
}
