//! Listening sockets and their owners: `/proc/net/tcp` has an inode for each, and `/proc/PID/fd` has the inodes of a
//! process.

use std::net::SocketAddr;
use std::path::Path;

use procfs::net::TcpState;
use procfs::process::{FDTarget, Process};

use super::{DoctorReport, Endpoint, Finding, FindingId, Severity};
use maple_controller::control::doctor::quoted;

/// Finds other programs on the addresses on which a controller would listen. `own`: the controller's own process.
pub fn look(wanted: &[Endpoint], own: Option<u32>, report: &mut DoctorReport) {
    let addresses = wanted.iter().map(|one| one.address.to_string()).collect::<Vec<_>>().join(", ");
    let Ok(sockets) = procfs::net::tcp() else {
        return report.add_unchecked(format!("who listens on {addresses}"), "/proc/net/tcp can't be read");
    };
    let mut sockets = [sockets, procfs::net::tcp6().unwrap_or_default()].concat();
    sockets.retain(|socket| socket.state == TcpState::Listen);
    report.add_checked(format!("who listens on {addresses}"));
    for one in wanted {
        let Some(taken) = sockets.iter().find(|socket| clash(socket.local_address, one.address)) else { continue };
        let owner = owner(taken.inode);
        // systemd may hold the port open for a service, and passes it on.
        if owner.as_ref().is_some_and(|(pid, _)| *pid == 1 || Some(*pid) == own) {
            continue;
        }
        report.add(in_use(one, taken.local_address, owner));
    }
}

fn in_use(wanted: &Endpoint, taken: SocketAddr, owner: Option<(u32, String)>) -> Finding {
    let Endpoint { address, has_tls } = *wanted;
    let found = |severity, who: &str| {
        Finding::new(severity, FindingId::PortInUse, format!("address {address}"))
            .what(format!("{who} listens on {taken}"))
    };
    let lost = "a controller can't start there, and switches reach the other program";
    match owner {
        Some((pid, name)) if is_maple(pid, &name) => found(Severity::Note, &format!("a controller (process {pid})"))
            .consequence("it was not asked: its control socket is another one")
            .mend("maple doctor --control SOCKET"),
        Some((pid, name)) => {
            let other = SocketAddr::new(address.ip(), if address.port() == 6653 { 6633 } else { 6653 });
            let tls = if has_tls { "tls:" } else { "" };
            found(Severity::Error, &format!("process {pid} ({name})"))
                .consequence(lost)
                .mend(format!("maple run POLICY --listen {}", quoted(format!("{tls}{other}"))))
        }
        // The process may be a controller of that user.
        None => found(Severity::Warning, "a process of another user").consequence(lost).mend("sudo maple doctor"),
    }
}

/// Reports whether a process is a controller: the program, or Python that runs it.
fn is_maple(pid: u32, name: &str) -> bool {
    let process = i32::try_from(pid).ok().and_then(|pid| Process::new(pid).ok());
    let command = process.and_then(|process| process.cmdline().ok()).unwrap_or_default();
    let is_program = |argument: &String| Path::new(argument).file_name().is_some_and(|name| name == "maple");
    name == "maple" || command.iter().take(3).any(is_program)
}

/// Reports whether listening on one address excludes listening on the other.
fn clash(one: SocketAddr, other: SocketAddr) -> bool {
    let is_any = |address: SocketAddr| address.ip().is_unspecified();
    // A socket for all IPv6 addresses usually includes all IPv4 addresses.
    let both = one.is_ipv4() == other.is_ipv4();
    one.port() == other.port()
        && (one.ip() == other.ip() || both && (is_any(one) || is_any(other)) || is_any(one) && is_any(other))
}

/// Returns the process that has a socket, and its name. `None` if it belongs to another user.
fn owner(inode: u64) -> Option<(u32, String)> {
    let has = |process: &Process| {
        process.fd().into_iter().flatten().flatten().any(|file| file.target == FDTarget::Socket(inode))
    };
    // The lowest comes first, since a child has its parent's sockets too.
    let mut all: Vec<Process> = procfs::process::all_processes().ok()?.flatten().collect();
    all.sort_unstable_by_key(Process::pid);
    let process = all.into_iter().find(has)?;
    let name = process.stat().map(|stat| stat.comm).unwrap_or_default();
    Some((process.pid().unsigned_abs(), name))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn at(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn a_wildcard_address_clashes_with_the_addresses_that_it_covers() {
        assert!(clash(at("0.0.0.0:1"), at("127.0.0.1:1")) && clash(at("127.0.0.1:1"), at("0.0.0.0:1")));
        assert!(clash(at("[::]:1"), at("0.0.0.0:1")));
        assert!(!clash(at("127.0.0.1:1"), at("127.0.0.2:1")) && !clash(at("0.0.0.0:1"), at("0.0.0.0:2")));
        assert!(!clash(at("[::1]:1"), at("0.0.0.0:1")));
    }

    #[test]
    fn a_socket_of_this_process_is_found() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("it has one");
        let mut report = DoctorReport::default();
        look(&[Endpoint { address, has_tls: false }], None, &mut report);
        let text = report.findings()[0].plain();
        assert!(text.contains(&format!("process {} (", std::process::id())), "{text}");
        let mut report = DoctorReport::default();
        look(&[Endpoint { address, has_tls: false }], Some(std::process::id()), &mut report);
        assert!(report.findings().is_empty(), "it is the controller itself");
    }
}
