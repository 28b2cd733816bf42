//! Real Open vSwitch bridges, with its default protocols and with each version forced. These tests need root and a
//! running Open vSwitch. Without them they print that they are skipped; in CI they fail.

use std::process::Command;
use std::time::Duration;

use crate::common::{LONG, Maple, eventually, missing};
use maple_core::network::PortKind;
use maple_wire::Version;

/// A bridge that is deleted when it is dropped.
struct Bridge(String);

impl Drop for Bridge {
    fn drop(&mut self) {
        vsctl(&["--if-exists", "del-br", &self.0]);
    }
}

fn vsctl(arguments: &[&str]) -> bool {
    let output = Command::new("ovs-vsctl").arg("--timeout=30").args(arguments).output();
    output.is_ok_and(|output| output.status.success())
}

fn get(arguments: &[&str]) -> String {
    let output = Command::new("ovs-vsctl").arg("--timeout=30").args(arguments).output().expect("ovs-vsctl runs");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// Reports whether there is an Open vSwitch to test with; prints a message if not.
fn is_there() -> bool {
    let there = vsctl(&["show"]);
    if !there {
        missing("an Open vSwitch that this user may configure");
    }
    there
}

/// A name of this process's own, so that test runs beside each other do not collide.
fn own(name: &str) -> String {
    format!("ct{name}{}", std::process::id())
}

/// Creates a bridge that speaks these protocols (empty: the default) with this controller.
fn bridge(name: &str, protocols: &str, maple: &Maple) -> Bridge {
    let bridge = Bridge(own(name));
    let name = bridge.0.as_str();
    let target = format!("tcp:{}:{}", maple.address.ip(), maple.address.port());
    let setting = format!("protocols={protocols}");
    let mut arguments = vec!["--", "add-br", name, "--", "set", "bridge", name, "datapath_type=netdev"];
    arguments.push("fail_mode=secure");
    if !protocols.is_empty() {
        arguments.push(&setting);
    }
    arguments.extend(["--", "set-controller", name, &target]);
    assert!(vsctl(&arguments), "{name} is made");
    bridge
}

#[test]
fn open_vswitch_connects_and_stays_with_default_protocols_and_each_version_forced() {
    if !is_there() {
        return;
    }
    let maple = Maple::with(|options| {
        options.workers.count = 2;
        options.openflow.deadlines.idle = Duration::from_millis(400);
        options.openflow.deadlines.echo = LONG;
    });
    let wanted = [("d", "", Version::Of13), ("v10", "OpenFlow10", Version::Of10), ("v13", "OpenFlow13", Version::Of13)];
    let bridges: Vec<Bridge> = wanted.iter().map(|(name, protocols, _)| bridge(name, protocols, &maple)).collect();
    eventually("all are up", || maple.connected().len() == 3);
    for (bridge, (_, _, version)) in bridges.iter().zip(wanted) {
        let dpid = get(&["get", "bridge", &bridge.0, "datapath_id"]).trim_matches('"').parse().unwrap();
        let switch = maple.connected().into_iter().find(|switch| switch.dpid == dpid).expect("it is shown");
        assert_eq!(switch.version, version, "{}", bridge.0);
        assert!(switch.description.contains("Open vSwitch"), "{}", switch.description);
        eventually("it has its rules", || {
            let dump =
                Command::new("ovs-ofctl").args(["-O", protocol(version), "dump-flows", &bridge.0]).output().unwrap();
            String::from_utf8_lossy(&dump.stdout).contains("dl_type=0x88cc")
        });
    }
    // The connections stay through several rounds of echoes.
    maple.wait_for("of_messages_in", maple.count("of_messages_in") + 15);
    assert_eq!(maple.count("of_dp_connections"), 3);
    assert_eq!(maple.count("of_dp_disconnections"), 0);
    assert_eq!(maple.count("of_malformed"), 0);
    assert_eq!(maple.count("of_errors"), 0, "{:?}", maple.notices());
}

#[test]
fn open_vswitch_with_1_5_only_is_refused() {
    if !is_there() {
        return;
    }
    let maple = Maple::start();
    let _bridge = bridge("v15", "OpenFlow15", &maple);
    maple.wait_for("of_handshake_failures", 1);
    let notices = maple.notices();
    assert!(notices.iter().any(|notice| notice.contains("this switch offers only 1.5")), "{notices:?}");
    assert_eq!(maple.connected(), []);
}

#[test]
fn a_link_between_two_open_vswitch_bridges_is_found_and_vanishes_with_its_port() {
    if !is_there() {
        return;
    }
    for version in [Version::Of10, Version::Of13] {
        let maple = Maple::with(|options| options.workers.count = 2);
        let bridges = ["a", "b"].map(|name| bridge(name, protocol(version), &maple));
        let ports = ["p", "q"].map(own);
        for (i, bridge) in bridges.iter().enumerate() {
            let (port, peer) = (ports[i].as_str(), format!("options:peer={}", ports[1 - i]));
            let interface = ["--", "set", "interface", port, "type=patch", &peer];
            assert!(vsctl(&[&["add-port", &bridge.0, port][..], &interface].concat()));
        }
        eventually("the link is found", || maple.handle.links().len() == 1);
        let (end, _) = maple.handle.links()[0];
        assert!(matches!(maple.handle.snapshot().port(end).unwrap().kind, PortKind::Link(_)));
        assert!(vsctl(&["del-port", &bridges[1].0, &ports[1]]));
        eventually("the link is gone", || maple.handle.links().is_empty());
    }
}

fn protocol(version: Version) -> &'static str {
    match version {
        Version::Of10 => "OpenFlow10",
        Version::Of13 => "OpenFlow13",
    }
}
