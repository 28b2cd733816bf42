//! Listening sockets and their owners: `/proc/net/tcp` has an inode for each, and `/proc/PID/fd` has the inodes of a
//! process.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use super::super::finding::quoted;
use super::{Finding, Id, Level, Listening, Report};

/// The state of a listening socket.
const LISTEN: &str = "0A";

/// A listening socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Socket {
    address: SocketAddr,
    inode: u64,
}

/// Finds other programs on the addresses on which a controller would listen. `own`: the controller's own process.
pub fn look(wanted: &[Listening], own: Option<u32>, report: &mut Report) {
    let addresses = wanted.iter().map(|one| one.address.to_string()).collect::<Vec<_>>().join(", ");
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let Some(text) = read("/proc/net/tcp") else {
        return report.not_looked_at(format!("who listens on {addresses}"), "/proc/net/tcp can't be read");
    };
    let sockets = [listening(&text), listening(&read("/proc/net/tcp6").unwrap_or_default())].concat();
    report.looked_at(format!("who listens on {addresses}"));
    for one in wanted {
        let Some(taken) = sockets.iter().find(|socket| clash(socket.address, one.address)) else { continue };
        let owner = owner(taken.inode);
        // systemd may hold the port open for a service, and passes it on.
        if owner.as_ref().is_some_and(|(pid, _)| *pid == 1 || Some(*pid) == own) {
            continue;
        }
        report.found(in_use(one, taken.address, owner));
    }
}

fn in_use(wanted: &Listening, taken: SocketAddr, owner: Option<(u32, String)>) -> Finding {
    let Listening { address, tls } = *wanted;
    let found = |level, who: &str| {
        Finding::new(level, Id::PortInUse, format!("address {address}")).what(format!("{who} listens on {taken}"))
    };
    let lost = "a controller can't start there, and switches reach the other program";
    match owner {
        Some((pid, name)) if is_maple(pid, &name) => found(Level::Note, &format!("a controller (process {pid})"))
            .so("it was not asked: its control socket is another one")
            .mend("maple doctor --control SOCKET"),
        Some((pid, name)) => {
            let other = SocketAddr::new(address.ip(), if address.port() == 6653 { 6633 } else { 6653 });
            let tls = if tls { "tls:" } else { "" };
            found(Level::Error, &format!("process {pid} ({name})"))
                .so(lost)
                .mend(format!("maple run POLICY --listen {}", quoted(format!("{tls}{other}"))))
        }
        // The process may be a controller of that user.
        None => found(Level::Warning, "a process of another user").so(lost).mend("sudo maple doctor"),
    }
}

/// Reports whether a process is a controller: the program, or Python that runs it.
fn is_maple(pid: u32, name: &str) -> bool {
    let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let command = String::from_utf8_lossy(&command);
    let is_it = |argument: &str| Path::new(argument).file_name().is_some_and(|name| name == "maple");
    name == "maple" || command.split('\0').take(3).any(is_it)
}

/// Reports whether listening on one address excludes listening on the other.
fn clash(one: SocketAddr, other: SocketAddr) -> bool {
    let is_any = |address: SocketAddr| address.ip().is_unspecified();
    // A socket for all IPv6 addresses usually includes all IPv4 addresses.
    let both = one.is_ipv4() == other.is_ipv4();
    one.port() == other.port()
        && (one.ip() == other.ip() || both && (is_any(one) || is_any(other)) || is_any(one) && is_any(other))
}

/// Returns the listening sockets of `/proc/net/tcp` or `tcp6`.
fn listening(text: &str) -> Vec<Socket> {
    let socket = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (local, state, inode) = (words.get(1)?, words.get(3)?, words.get(9)?);
        (*state == LISTEN).then_some(())?;
        Some(Socket { address: address(local)?, inode: inode.parse().ok()? })
    };
    text.lines().skip(1).filter_map(socket).collect()
}

/// Parses `0100007F:19FD`: four-byte words in this machine's byte order, and the port.
fn address(text: &str) -> Option<SocketAddr> {
    let (ip, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| Some(u32::from_str_radix(ip.get(at..at + 8)?, 16).ok()?.to_ne_bytes());
    let ip: IpAddr = match ip.len() {
        8 => Ipv4Addr::from(word(0)?).into(),
        32 => {
            let words = [word(0)?, word(8)?, word(16)?, word(24)?].concat();
            Ipv6Addr::from(<[u8; 16]>::try_from(words).ok()?).into()
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

/// Returns the process that has a socket, and its name. `None` if it belongs to another user.
fn owner(inode: u64) -> Option<(u32, String)> {
    let wanted = format!("socket:[{inode}]");
    let has = |pid: &u32| {
        let files = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        files.filter_map(|file| std::fs::read_link(file.path()).ok()).any(|link| link.as_os_str() == wanted.as_str())
    };
    let entries = std::fs::read_dir("/proc").ok()?.flatten();
    // The lowest comes first, since a child has its parent's sockets too.
    let pids: BTreeSet<u32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    let pid = pids.into_iter().find(has)?;
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    Some((pid, name.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn at(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn sockets_that_listen_are_read() {
        let text = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
            \x20  0: 0100007F:19FD 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 41023 1 0000000000000000 100\n\
            \x20  1: 0100007F:19FD 0100007F:D2AE 01 00000000:00000000 00:00000000 00000000  1000        0 41024 1 0000000000000000 20\n";
        assert_eq!(listening(text), [Socket { address: at("127.0.0.1:6653"), inode: 41023 }]);
        assert_eq!(address("00000000000000000000000001000000:0016"), Some(at("[::1]:22")));
        assert_eq!(address("0100007F"), None);
    }

    #[test]
    fn all_addresses_clash_with_each() {
        assert!(clash(at("0.0.0.0:1"), at("127.0.0.1:1")) && clash(at("127.0.0.1:1"), at("0.0.0.0:1")));
        assert!(clash(at("[::]:1"), at("0.0.0.0:1")));
        assert!(!clash(at("127.0.0.1:1"), at("127.0.0.2:1")) && !clash(at("0.0.0.0:1"), at("0.0.0.0:2")));
        assert!(!clash(at("[::1]:1"), at("0.0.0.0:1")));
    }

    #[test]
    fn a_socket_of_this_process_is_found() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("it has one");
        let mut report = Report::default();
        look(&[Listening { address, tls: false }], None, &mut report);
        let text = report.findings()[0].plain();
        assert!(text.contains(&format!("process {} (", std::process::id())), "{text}");
        let mut report = Report::default();
        look(&[Listening { address, tls: false }], Some(std::process::id()), &mut report);
        assert!(report.findings().is_empty(), "it is the controller itself");
    }
}
