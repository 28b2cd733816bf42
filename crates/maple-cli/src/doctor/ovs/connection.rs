//! The targets of bridges, and whether they reach the controller.

use maple_controller::OPENFLOW_PORT;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use super::{Bridge, ControllerTarget, Endpoint, Expected, Finding, at};
use maple_controller::control::doctor::{FindingId, Severity, quoted};

/// The relation of a target to a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TargetFit {
    /// The target is an address of the controller. `tls`: whether the controller speaks TLS there.
    Yes { tls: bool },
    /// The target is another port of this host.
    OtherPort,
    /// The target is another host, or a name.
    Elsewhere,
}

/// Returns the faults of all bridges' connections. `named`: the user named the bridges, so they should be Maple's.
/// Otherwise only bridges that are Maple's already are judged: another program may need the others as they are.
pub fn findings(bridges: &[Bridge], expected: &Expected, named: bool) -> Vec<Finding> {
    let is_any_ours = bridges.iter().any(|bridge| is_ours(bridge, expected));
    let mut found = Vec::new();
    for bridge in bridges {
        match &bridge.targets[..] {
            [] if named => found.push(without_controller(bridge, expected, is_any_ours)),
            targets if named || is_ours(bridge, expected) => {
                let judged = targets.iter().filter(|target| !is_of_member(target, expected));
                found.extend(judged.filter_map(|target| of_target(bridge, target, expected)));
                found.extend(match targets {
                    [_] if expected.in_cluster => Some(only_one(bridge)),
                    [_, _, ..] if !expected.in_cluster => Some(several(bridge, expected)),
                    _ => None,
                });
            }
            _ => found.extend(of_another(bridge, expected)),
        }
    }
    found
}

/// Reports whether a bridge connects to the controller of this host. If nothing is known of that controller, any
/// controller on another host counts.
pub fn is_ours(bridge: &Bridge, expected: &Expected) -> bool {
    let is_known = expected.runs || expected.is_known;
    let may_be = |target: &ControllerTarget| match fit(target, expected) {
        TargetFit::Yes { .. } => true,
        TargetFit::OtherPort => !is_known && !target.is_connected,
        TargetFit::Elsewhere => !is_known,
    };
    is_served(bridge, expected) || bridge.targets.iter().any(may_be)
}

/// Reports whether this controller serves a bridge, by whatever address the bridge knows it: the bridge's only
/// connection is to the controller.
fn is_served(bridge: &Bridge, expected: &Expected) -> bool {
    matches!(&bridge.targets[..], [only] if only.is_connected) && is_connected_here(bridge, expected)
}

/// Reports whether the controller has a switch with the bridge's datapath id.
fn is_connected_here(bridge: &Bridge, expected: &Expected) -> bool {
    bridge.dpid.is_some_and(|dpid| expected.connected.contains(&dpid))
}

/// Returns the finding about a bridge that seems to have another controller, or none. It suggests no command that would
/// change that by mistake.
fn of_another(bridge: &Bridge, expected: &Expected) -> Option<Finding> {
    let targets: Vec<&str> = bridge.targets.iter().map(|target| target.target.as_str()).collect();
    let (id, what) = match targets.is_empty() {
        true => (FindingId::OvsNoController, "it has no controller".to_owned()),
        false if expected.runs || expected.is_known => {
            (FindingId::OvsTarget, format!("its controller is {}, not the one on this host", targets.join(", ")))
        }
        false => return None,
    };
    Some(
        Finding::new(Severity::Note, id, at(bridge))
            .what(what)
            .consequence("no policy of the controller on this host holds there, and nothing else of it was judged")
            .mend(format!("if it is to be Maple's: maple doctor --bridge {}", quoted(&bridge.name))),
    )
}

/// Finds a missing certificate: Open vSwitch has one certificate for all its bridges. Other findings report bridges
/// that speak TLS by mistake.
pub fn without_certificate(bridges: &[&Bridge], expected: &Expected) -> Option<Finding> {
    let needs = |target: &ControllerTarget| {
        target.target.starts_with("ssl:") && !matches!(fit(target, expected), TargetFit::Yes { tls: false })
    };
    let bridge = bridges.iter().find(|bridge| bridge.targets.iter().any(needs))?;
    Some(
        Finding::new(Severity::Error, FindingId::OvsTls, "Open vSwitch")
            .what(format!("bridge {} speaks TLS to its controller, and Open vSwitch has no certificate", bridge.name))
            .consequence("no connection with TLS begins")
            .mend("ovs-vsctl set-ssl KEY CERTIFICATE AUTHORITY"),
    )
}

fn without_controller(bridge: &Bridge, expected: &Expected, is_any_ours: bool) -> Finding {
    // If other bridges are Maple's, or nothing is known, this one may have no controller on purpose.
    let is_expected = (expected.runs || expected.is_known) && !is_any_ours;
    let severity = if is_expected { Severity::Warning } else { Severity::Note };
    Finding::new(severity, FindingId::OvsNoController, at(bridge))
        .what("it has no controller")
        .consequence(
            "the policy does not hold there: it forwards like a plain switch, or in fail mode secure not at all",
        )
        .mend(set_controller(bridge, expected))
}

/// Returns the command that connects a bridge to the controller of this host.
fn set_controller(bridge: &Bridge, expected: &Expected) -> String {
    format!("ovs-vsctl set-controller {} {}", quoted(&bridge.name), quoted(wanted(expected)))
}

fn of_target(bridge: &Bridge, target: &ControllerTarget, expected: &Expected) -> Option<Finding> {
    let ControllerTarget { target: address, last_error, .. } = target;
    if is_served(bridge, expected) {
        return None;
    }
    let is_connected = is_connected(bridge, target, expected);
    let is_any_connected = bridge.targets.iter().any(|target| self::is_connected(bridge, target, expected));
    let mend = || set_controller(bridge, expected);
    match fit(target, expected) {
        TargetFit::Yes { tls } if tls != address.starts_with("ssl:") => {
            let (it, controller) = if tls { ("no TLS", "TLS") } else { ("TLS", "no TLS") };
            Some(
                Finding::new(Severity::Error, FindingId::OvsTls, at(bridge))
                    .what(format!("it speaks {it} to {address}, where the controller speaks {controller}"))
                    .consequence("they never understand each other, and it stays without rules")
                    .mend(mend()),
            )
        }
        TargetFit::OtherPort if expected.is_known && !is_connected => Some(
            Finding::new(Severity::Error, FindingId::OvsTarget, at(bridge))
                .what(format!(
                    "it connects to {address}, and the controller listens on {}",
                    listening_in_words(&expected.listening)
                ))
                .consequence("the controller never sees this switch")
                .mend(mend()),
        ),
        TargetFit::OtherPort | TargetFit::Elsewhere if is_connected && expected.runs => Some(
            Finding::new(Severity::Note, FindingId::OvsTarget, at(bridge))
                .what(format!("its controller is {address}, not the one on this host"))
                .consequence("the policy of the controller on this host does not hold there")
                .mend(mend()),
        ),
        _ if is_any_connected => None,
        fit => {
            let why = last_error.as_ref().map(|error| format!(": {error}")).unwrap_or_default();
            let mend = match fit {
                TargetFit::Yes { .. } if expected.runs => "maple show errors".to_owned(),
                TargetFit::Yes { .. } => run(&expected.listening),
                TargetFit::OtherPort => {
                    let own = parse(address).map(|own| Endpoint { address: own, has_tls: address.starts_with("ssl:") });
                    run(own.as_slice())
                }
                TargetFit::Elsewhere if expected.runs => mend(),
                TargetFit::Elsewhere => format!("maple doctor  # on the host of {address}"),
            };
            Some(
                Finding::new(Severity::Error, FindingId::OvsNotConnected, at(bridge))
                    .what(format!("it is not connected to {address}{why}"))
                    .consequence("it gets no new rules; what it forwards now is up to its fail mode")
                    .mend(mend),
            )
        }
    }
}

/// Reports whether a connection is up. Open vSwitch updates its own status only every few seconds; the controller knows
/// at once.
fn is_connected(bridge: &Bridge, target: &ControllerTarget, expected: &Expected) -> bool {
    target.is_connected || matches!(fit(target, expected), TargetFit::Yes { .. }) && is_connected_here(bridge, expected)
}

/// Reports whether a target may be another controller of the cluster, which is judged on its own host.
fn is_of_member(target: &ControllerTarget, expected: &Expected) -> bool {
    expected.in_cluster && !matches!(fit(target, expected), TargetFit::Yes { .. })
}

fn only_one(bridge: &Bridge) -> Finding {
    let only = bridge.targets.first().map(|target| target.target.as_str()).unwrap_or_default();
    Finding::new(Severity::Warning, FindingId::OvsOneController, at(bridge))
        .what(format!("{only} is its only controller, and that is one of a cluster"))
        .consequence("if that controller ends, no other one takes this switch over")
        .mend(format!("ovs-vsctl set-controller {} {only} tcp:OTHER:6653", quoted(&bridge.name)))
}

fn several(bridge: &Bridge, expected: &Expected) -> Finding {
    let targets: Vec<&str> = bridge.targets.iter().map(|target| target.target.as_str()).collect();
    Finding::new(Severity::Warning, FindingId::OvsSeveralControllers, at(bridge))
        .what(format!("it has several controllers: {}", targets.join(", ")))
        .consequence("each changes the rules of the others: Maple does not share a switch")
        .mend(set_controller(bridge, expected))
}

fn fit(target: &ControllerTarget, expected: &Expected) -> TargetFit {
    let Some(address) = parse(&target.target) else { return TargetFit::Elsewhere };
    let accepts_target = |listening: &&Endpoint| {
        let own = listening.address;
        own.port() == address.port()
            && (own.ip() == address.ip() || own.ip().is_unspecified() && is_local(address.ip()))
    };
    match expected.listening.iter().find(accepts_target) {
        Some(listening) => TargetFit::Yes { tls: listening.has_tls },
        None if is_local(address.ip()) => TargetFit::OtherPort,
        None => TargetFit::Elsewhere,
    }
}

/// Parses the address of a target. `None` if it is a name.
fn parse(target: &str) -> Option<SocketAddr> {
    let (_, rest) = target.split_once(':')?;
    let bare = |ip: &str| Some(SocketAddr::new(ip.trim_matches(['[', ']']).parse().ok()?, OPENFLOW_PORT));
    rest.parse().ok().or_else(|| bare(rest))
}

/// Reports whether an address belongs to this host: a socket can bind to it. If sockets can bind to any address (for
/// addresses that move between hosts), a packet to the address must also leave from it.
fn is_local(ip: IpAddr) -> bool {
    let leaves_from = |socket: UdpSocket| {
        socket.connect((ip, OPENFLOW_PORT)).is_ok() && socket.local_addr().is_ok_and(|own| own.ip() == ip)
    };
    let any: IpAddr = if ip.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    ip.is_loopback()
        || UdpSocket::bind((ip, 0)).is_ok() && (!binds_others(ip) || UdpSocket::bind((any, 0)).is_ok_and(leaves_from))
}

/// Reports whether the kernel lets sockets bind to addresses of other hosts.
fn binds_others(ip: IpAddr) -> bool {
    let family = if ip.is_ipv4() { "ipv4" } else { "ipv6" };
    std::fs::read_to_string(format!("/proc/sys/net/{family}/ip_nonlocal_bind")).is_ok_and(|text| text.trim() != "0")
}

/// Returns the target that a bridge of this host should have.
fn wanted(expected: &Expected) -> String {
    let first = expected.listening.first().filter(|_| expected.runs || expected.is_known);
    // Without a controller on this host it may be anywhere.
    let Some(Endpoint { address, has_tls }) = first else { return format!("tcp:ADDRESS:{OPENFLOW_PORT}") };
    let address = match address.ip() {
        IpAddr::V6(ip) if ip == Ipv6Addr::UNSPECIFIED => SocketAddr::new(Ipv6Addr::LOCALHOST.into(), address.port()),
        ip if ip.is_unspecified() => SocketAddr::new([127, 0, 0, 1].into(), address.port()),
        _ => *address,
    };
    format!("{}:{address}", if *has_tls { "ssl" } else { "tcp" })
}

/// Returns the command that starts the controller.
fn run(listening: &[Endpoint]) -> String {
    let one = |one: &Endpoint| format!(" --listen {}{}", if one.has_tls { "tls:" } else { "" }, one.address);
    format!("maple run POLICY{}", listening.iter().map(one).collect::<String>())
}

fn listening_in_words(listening: &[Endpoint]) -> String {
    listening.iter().map(|one| one.address.to_string()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_addresses_with_a_port_or_without() {
        let parsed = |text| parse(text).map(|address| address.to_string());
        assert_eq!(parsed("tcp:127.0.0.1:6633").as_deref(), Some("127.0.0.1:6633"));
        assert_eq!(parsed("ssl:10.0.0.1").as_deref(), Some("10.0.0.1:6653"));
        assert_eq!(parsed("tcp:[::1]:6633").as_deref(), Some("[::1]:6633"));
        assert_eq!(parsed("tcp:[::1]").as_deref(), Some("[::1]:6653"));
        assert_eq!(parsed("tcp:controller.example:6653"), None);
    }

    #[test]
    fn a_controller_is_started_where_bridges_look_for_it() {
        let at = |address: &str, tls| Endpoint { address: address.parse().expect("an address"), has_tls: tls };
        let command = run(&[at("127.0.0.1:6633", false), at("[::]:6653", true)]);
        assert_eq!(command, "maple run POLICY --listen 127.0.0.1:6633 --listen tls:[::]:6653");
    }

    #[test]
    fn a_bridge_is_told_the_address_that_it_can_reach() {
        let listening_at = |address: &str, tls| Expected {
            listening: vec![Endpoint { address: address.parse().expect("an address"), has_tls: tls }],
            is_known: true,
            ..Expected::default()
        };
        assert_eq!(wanted(&listening_at("0.0.0.0:6653", false)), "tcp:127.0.0.1:6653");
        assert_eq!(wanted(&listening_at("[::]:6653", true)), "ssl:[::1]:6653");
        assert_eq!(wanted(&listening_at("192.0.2.1:1", false)), "tcp:192.0.2.1:1");
        assert_eq!(wanted(&Expected { is_known: false, ..listening_at("0.0.0.0:6653", false) }), "tcp:ADDRESS:6653");
    }
}
