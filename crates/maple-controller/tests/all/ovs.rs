//! Bridges of an Open vSwitch that each test starts for itself, with its default protocols and with each version
//! forced.

use std::time::Duration;

use crate::bridge::Daemons;
use crate::common::{LONG, Maple, eventually};
use maple_core::network::PortKind;
use maple_wire::Version;

/// Creates a bridge that speaks these protocols (empty: the default) with this controller.
fn bridge(daemons: &Daemons, name: &str, protocols: &str, maple: &Maple) {
    let target = format!("tcp:{}:{}", maple.address.ip(), maple.address.port());
    let setting = format!("protocols={protocols}");
    let mut arguments = vec!["add-br", name, "--", "set", "bridge", name, "datapath_type=dummy", "fail_mode=secure"];
    if !protocols.is_empty() {
        arguments.push(&setting);
    }
    arguments.extend(["--", "set-controller", name, &target]);
    daemons.vsctl(&arguments);
}

#[test]
fn open_vswitch_connects_and_stays_with_default_protocols_and_each_version_forced() {
    let Some(daemons) = Daemons::start() else { return };
    let maple = Maple::with(|options| {
        options.workers.count = 2;
        options.openflow.deadlines.idle = Duration::from_millis(400);
        options.openflow.deadlines.echo = LONG;
    });
    let wanted = [("d", "", Version::Of13), ("v10", "OpenFlow10", Version::Of10), ("v13", "OpenFlow13", Version::Of13)];
    for (name, protocols, _) in wanted {
        bridge(&daemons, name, protocols, &maple);
    }
    eventually("all are up", || maple.connected().len() == 3);
    for (name, _, version) in wanted {
        let dpid = daemons.vsctl(&["get", "bridge", name, "datapath_id"]).trim().trim_matches('"').parse().unwrap();
        let switch = maple.connected().into_iter().find(|switch| switch.dpid == dpid).expect("it is shown");
        assert_eq!(switch.version, version, "{name}");
        assert!(switch.description.contains("Open vSwitch"), "{}", switch.description);
        eventually("it has its rules", || {
            let dump = daemons.run("ovs-ofctl", &["-O", protocol(version), "dump-flows", name]);
            dump.expect("its rules").contains("dl_type=0x88cc")
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
    let Some(daemons) = Daemons::start() else { return };
    let maple = Maple::start();
    bridge(&daemons, "v15", "OpenFlow15", &maple);
    maple.wait_for("of_handshake_failures", 1);
    let notices = maple.notices();
    assert!(notices.iter().any(|notice| notice.contains("this switch offers only 1.5")), "{notices:?}");
    assert_eq!(maple.connected(), []);
}

#[test]
fn a_link_between_two_open_vswitch_bridges_is_found_and_vanishes_with_its_port() {
    let Some(daemons) = Daemons::start() else { return };
    for version in [Version::Of10, Version::Of13] {
        let maple = Maple::with(|options| options.workers.count = 2);
        for (name, port, peer) in [("a", "p", "q"), ("b", "q", "p")] {
            bridge(&daemons, name, protocol(version), &maple);
            let peer = format!("options:peer={peer}");
            daemons.vsctl(&["add-port", name, port, "--", "set", "interface", port, "type=patch", &peer]);
        }
        eventually("the link is found", || maple.handle.links().len() == 1);
        let (end, _) = maple.handle.links()[0];
        assert!(matches!(maple.handle.snapshot().port(end).unwrap().kind, PortKind::Link(_)));
        daemons.vsctl(&["del-port", "b", "q"]);
        eventually("the link is gone", || maple.handle.links().is_empty());
        daemons.vsctl(&["del-br", "a", "--", "del-br", "b"]);
    }
}

fn protocol(version: Version) -> &'static str {
    match version {
        Version::Of10 => "OpenFlow10",
        Version::Of13 => "OpenFlow13",
    }
}
