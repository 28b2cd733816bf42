//! Judgements about Open vSwitch, on output of `ovs-vsctl` about two bridges that a controller served (`captured/`),
//! with one change at a time.

use serde_json::{Value, json};

use super::*;

const ROOT: &str = include_str!("captured/Open_vSwitch.json");
const TABLES: [(&str, &str); 4] = [
    ("Bridge", include_str!("captured/Bridge.json")),
    ("Controller", include_str!("captured/Controller.json")),
    ("Port", include_str!("captured/Port.json")),
    ("Interface", include_str!("captured/Interface.json")),
];

/// A value in a column of a row of a table. Rows of `Controller` are those of s1 and s2.
type Change = (&'static str, usize, &'static str, Value);

fn changed(name: &str, text: &str, changes: &[Change]) -> String {
    let mut table: Value = serde_json::from_str(text).expect("it was captured");
    for (_, row, column, value) in changes.iter().filter(|(changed, ..)| *changed == name) {
        let names = table["headings"].as_array().expect("names");
        let at = names.iter().position(|name| name == column).expect("there is such a column");
        table["data"][*row][at] = value.clone();
    }
    table.to_string()
}

fn database(changes: &[Change], more: [&str; 2]) -> Database {
    let tables = TABLES.map(|(name, text)| changed(name, text, changes));
    let [bridges, controllers, ports, interfaces] = &tables;
    let root = changed("Open_vSwitch", ROOT, changes);
    Database::from_output(&root, [bridges, controllers, ports, interfaces], more).expect("these are tables")
}

/// Returns the facts about a controller that listens at an address.
fn at(address: &str, tls: bool) -> Expected {
    let listening = vec![Endpoint { address: address.parse().expect("an address"), has_tls: tls }];
    Expected { listening, runs: true, is_known: true, connected: Vec::new(), in_cluster: false }
}

/// Returns the ids of the findings with their places and remedies, the worst first. The note about the datapath is left
/// out.
fn found_in(database: &Database, expected: &Expected) -> Vec<String> {
    let mut report = DoctorReport::default();
    let port = |number: u32, kind: &str| json!({ "port": number, "name": "", "up": true, "kind": kind });
    let switches = json!([
        { "switch": "0000000000000001", "ports": [port(1, "edge"), port(2, "link")] },
        { "switch": "0000000000000002", "ports": [port(1, "link")] },
    ]);
    let controller = Controller::from_answers(json!({}), switches, json!({}), json!([]));
    database.look(expected, Some(&controller), true, &mut report);
    report.sort();
    let line = |finding: &Finding| {
        let text = finding.plain();
        let mend = text.lines().find_map(|line| line.strip_prefix("  mend: ")).unwrap_or_default().to_owned();
        let (id, rest) = text.split_once(": ").expect("an id");
        let (place, _) = rest.split_once(": ").expect("a place");
        format!("{id}: {place}: {mend}")
    };
    report.findings().iter().map(line).filter(|line| !line.contains("ovs-datapath-type")).collect()
}

fn check(changes: &[Change], expected: &Expected, wanted: &[&str]) {
    assert_eq!(found_in(&database(changes, ["", ""]), expected), wanted, "{changes:?}");
}

const HERE: &str = "127.0.0.1:16653";

#[test]
fn bridges_that_are_in_order_have_no_finding() {
    check(&[], &at(HERE, false), &[]);
    check(&[], &at("0.0.0.0:16653", false), &[]);
    let mut report = DoctorReport::default();
    database(&[], ["", ""]).look(&at(HERE, false), None, true, &mut report);
    assert!(report.findings().is_empty(), "without the kernel's datapath nothing is better");
    let with_kernel = Database { has_kernel: true, ..database(&[], ["", ""]) };
    let mut report = DoctorReport::default();
    with_kernel.look(&at(HERE, false), None, true, &mut report);
    let text = report.findings()[0].plain();
    assert!(text.starts_with("note ovs-datapath-type: bridges s1, s2: "), "{text}");
    let mend =
        "mend: ovs-vsctl set bridge s1 datapath_type=system -- set bridge s2 datapath_type=system  # interrupts ";
    assert!(text.contains(mend), "{text}");
    assert_eq!(report.checked(), ["Open vSwitch 3.1.0 on this host, with 2 bridges"]);
    assert_eq!(report.unchecked().len(), 1, "links are not known");
}

#[test]
fn settings_of_a_bridge_are_found_with_the_mend() {
    let none = || json!(["set", []]);
    let of_bridge = |column, value, wanted: &[&str]| check(&[("Bridge", 0, column, value)], &at(HERE, false), wanted);
    let secure = "warning ovs-fail-mode: bridge s1: ovs-vsctl set-fail-mode s1 secure";
    of_bridge("fail_mode", none(), &[secure]);
    of_bridge("fail_mode", json!("standalone"), &[secure]);
    let add = "ovs-protocols: bridge s1: ovs-vsctl add bridge s1 protocols OpenFlow13";
    of_bridge("protocols", json!("OpenFlow14"), &[&format!("error {add}")]);
    of_bridge("protocols", json!("OpenFlow10"), &[&format!("note {add}")]);
    of_bridge("protocols", json!(["set", ["OpenFlow13", "OpenFlow14"]]), &[]);
    let rstp = "warning ovs-spanning-tree: bridge s1: ovs-vsctl set bridge s1 rstp_enable=false";
    of_bridge("rstp_enable", json!(true), &[rstp]);
    let fixed = "ovs-datapath-id: bridge s1: ovs-vsctl set bridge s1 other-config:datapath-id=0000000000000001";
    of_bridge("other_config", json!(["map", []]), &[&format!("note {fixed}")]);
    of_bridge("other_config", json!(["map", [["datapath-id", "1"]]]), &[&format!("warning {fixed}")]);
    of_bridge("other_config", json!(["map", [["datapath-id", "0x+1"]]]), &[&format!("warning {fixed}")]);
    of_bridge("other_config", json!(["map", [["datapath-id", "0x1"]]]), &[]);
    let twice = "error duplicate-dpid: bridge s2: ovs-vsctl set bridge s2 other-config:datapath-id=c8016e9f0d644abd";
    let same = json!("0000000000000002");
    let wanted = json!(["map", [["datapath-id", "0000000000000002"]]]);
    let changes = [("Bridge", 0, "datapath_id", same), ("Bridge", 0, "other_config", wanted)];
    assert_eq!(found_in(&database(&changes, ["", ""]), &at(HERE, false)), [twice]);
}

#[test]
fn connections_are_found_with_the_mend() {
    let check_all = |changes: &[Change], expected: &Expected, wanted: &[&str]| check(changes, expected, wanted);
    let down = ("Controller", 0, "is_connected", json!(false));
    let target = |text: &str| ("Controller", 0, "target", json!(text));
    let set = "ovs-vsctl set-controller s1 tcp:127.0.0.1:16653";
    check_all(
        &[target("tcp:127.0.0.1:6633"), down.clone()],
        &at(HERE, false),
        &[&format!("error ovs-target: bridge s1: {set}")],
    );
    check_all(&[target("tcp:192.0.2.9:6653")], &at(HERE, false), &[&format!("note ovs-target: bridge s1: {set}")]);
    check_all(&[target("ssl:127.0.0.1:16653")], &at(HERE, false), &[&format!("error ovs-tls: bridge s1: {set}")]);
    let set_tls = "error ovs-tls: bridge s2: ovs-vsctl set-controller s2 ssl:127.0.0.1:16653";
    let certificate = "error ovs-tls: Open vSwitch: ovs-vsctl set-ssl KEY CERTIFICATE AUTHORITY";
    check_all(&[target("ssl:127.0.0.1:16653")], &at(HERE, true), &[certificate, set_tls]);
    check_all(
        std::slice::from_ref(&down),
        &at(HERE, false),
        &["error ovs-not-connected: bridge s1: maple show errors"],
    );
    check_all(std::slice::from_ref(&down), &Expected { connected: vec![1], ..at(HERE, false) }, &[]);
    let absent = Expected { runs: false, ..at(HERE, false) };
    let run = "error ovs-not-connected: bridge s1: maple run POLICY --listen 127.0.0.1:16653";
    check_all(std::slice::from_ref(&down), &absent, &[run]);
    let guess = Expected { is_known: false, ..absent };
    let start = "error ovs-not-connected: bridge s1: maple run POLICY --listen 127.0.0.1:6633";
    check_all(&[target("tcp:127.0.0.1:6633"), down.clone()], &guess, &[start]);
    let away = "error ovs-not-connected: bridge s1: maple doctor  # on the host of tcp:192.0.2.9:6653";
    check_all(&[target("tcp:192.0.2.9:6653"), down], &guess, &[away]);
    let alone = ("Bridge", 0, "controller", json!(["set", []]));
    check_all(std::slice::from_ref(&alone), &at(HERE, false), &[&format!("note ovs-no-controller: bridge s1: {set}")]);
    let both = [alone, ("Bridge", 1, "controller", json!(["set", []]))];
    let set_2 = "ovs-vsctl set-controller s2 tcp:127.0.0.1:16653";
    let wanted =
        [("s1", set), ("s2", set_2)].map(|(name, set)| format!("warning ovs-no-controller: bridge {name}: {set}"));
    check_all(&both, &at(HERE, false), &wanted.each_ref().map(String::as_str));
    let nobody = Expected { runs: false, is_known: false, ..at(HERE, false) };
    let notes = ["s1", "s2"]
        .map(|name| format!("note ovs-no-controller: bridge {name}: ovs-vsctl set-controller {name} tcp:ADDRESS:6653"));
    check_all(&both, &nobody, &notes.each_ref().map(String::as_str));
}

#[test]
fn sessions_and_several_controllers_are_found_with_the_mend() {
    let check_column =
        |column, value, wanted: &[&str]| check(&[("Controller", 0, column, value)], &at(HERE, false), wanted);
    check_column(
        "max_backoff",
        json!(60_000),
        &["warning ovs-max-backoff: bridge s1: ovs-vsctl set controller s1 max_backoff=1000"],
    );
    check_column("max_backoff", json!(8000), &[]);
    let probe = "warning ovs-inactivity-probe: bridge s1: ovs-vsctl set controller s1 inactivity_probe=5000";
    check_column("inactivity_probe", json!(0), &[probe]);
    // The rows are its own controller and that of the other bridge; a listener would not count.
    let table: Value = serde_json::from_str(TABLES[1].1).expect("it was captured");
    let ids = json!(["set", [table["data"][0][0], table["data"][1][0]]]);
    let several = "warning ovs-several-controllers: bridge s1: ovs-vsctl set-controller s1 tcp:127.0.0.1:16653";
    check(&[("Bridge", 0, "controller", ids.clone())], &at(HERE, false), &[several]);
    // Bridges of a cluster are to have all its controllers.
    let one = "warning ovs-one-controller: bridge s2: ovs-vsctl set-controller s2 tcp:127.0.0.1:16653 tcp:OTHER:6653";
    let in_cluster = Expected { in_cluster: true, ..at(HERE, false) };
    check(&[("Bridge", 0, "controller", ids.clone())], &in_cluster, &[one]);
    let elsewhere = ("Controller", 1, "target", json!("tcp:192.0.2.9:6653"));
    // Where another one listens is judged on its own host.
    let one = "warning ovs-one-controller: bridge s2: ovs-vsctl set-controller s2 tcp:192.0.2.9:6653 tcp:OTHER:6653";
    check(&[("Bridge", 0, "controller", ids.clone()), elsewhere], &in_cluster, &[one]);
    check(
        &[("Bridge", 0, "controller", ids), ("Controller", 1, "target", json!("ptcp:6654"))],
        &at(HERE, false),
        &["note ovs-no-controller: bridge s2: ovs-vsctl set-controller s2 tcp:127.0.0.1:16653"],
    );
}

#[test]
fn ports_and_the_whole_of_open_vswitch_are_judged() {
    let error = json!("could not open network device dv1 (No such device)");
    let port = "error ovs-port-error: port dv1 of bridge s1: ovs-vsctl list interface dv1  # and delete the port if it is gone for good";
    check(&[("Interface", 2, "error", error)], &at(HERE, false), &[port]);
    let datapath = "error ovs-port-error: port s1 of bridge s1: ovs-vsctl set bridge s1 datapath_type=netdev";
    check(
        &[
            ("Interface", 3, "error", json!("could not add network device s1 to ofproto")),
            ("Bridge", 0, "datapath_type", json!("system")),
        ],
        &at(HERE, false),
        &[datapath],
    );
    let short = "warning ovs-mtu: port dl2 of bridge s2: ip link set dev dl2 mtu 1504";
    check(&[("Interface", 1, "mtu", json!(1400))], &at(HERE, false), &[short]);
    let long = ["dl1 of bridge s1", "dl2 of bridge s2"]
        .map(|place| format!("warning ovs-mtu: port {place}: ip link set dev {} mtu 9004", &place[..3]));
    check(&[("Interface", 2, "mtu", json!(9000))], &at(HERE, false), &long.each_ref().map(String::as_str));
    let limit = json!(["map", [["vlan-limit", "2"]]]);
    let remove = "warning ovs-vlan-limit: Open vSwitch: ovs-vsctl remove Open_vSwitch . other_config vlan-limit";
    check(&[("Open_vSwitch", 0, "other_config", limit)], &at(HERE, false), &[remove]);
    let few = json!(["map", [["flow-limit", "1000"]]]);
    let flows = "note ovs-flow-tables: Open vSwitch: ovs-vsctl remove Open_vSwitch . other_config flow-limit";
    check(&[("Open_vSwitch", 0, "other_config", few)], &at(HERE, false), &[flows]);
    let old = "note ovs-version: Open vSwitch: install Open vSwitch 3.1 or newer";
    check(&[("Open_vSwitch", 0, "ovs_version", json!("2.17.9"))], &at(HERE, false), &[old]);
}

#[test]
fn tables_with_limits_and_certificates_are_found() {
    let ssl = r#"{"headings":["_uuid","certificate","ca_cert"],"data":[[["uuid","1"],"/etc/ovs/sc-cert.pem","/etc/ovs/cacert.pem"]]}"#;
    let tables = |policy: &str| {
        format!(r#"{{"headings":["_uuid","flow_limit","overflow_policy"],"data":[[["uuid","77"],200,{policy}]]}}"#)
    };
    let flows = ("Bridge", 0, "flow_tables", json!(["map", [[1, ["uuid", "77"]]]]));
    let with_policy = |policy| database(std::slice::from_ref(&flows), [ssl, &tables(policy)]);
    let mend = "ovs-flow-tables: bridge s1: ovs-vsctl clear bridge s1 flow_tables  # unless somebody wants the limit";
    assert_eq!(found_in(&with_policy("\"evict\""), &at(HERE, false)), [format!("warning {mend}")]);
    assert_eq!(found_in(&with_policy("[\"set\",[]]"), &at(HERE, false)), [format!("note {mend}")]);
    assert_eq!(with_policy("\"refuse\"").certificates(), ["/etc/ovs/sc-cert.pem", "/etc/ovs/cacert.pem"]);
}

#[test]
fn only_bridges_that_were_named_are_checked() {
    let mut chosen = database(&[("Bridge", 0, "fail_mode", json!("standalone"))], ["", ""]);
    assert_eq!(chosen.choose(&["s2".into(), "s9".into()]), ["s9"]);
    assert!(found_in(&chosen, &at(HERE, false)).is_empty());
    assert!(chosen.has(2) && !chosen.has(1));
}

/// Returns the findings if nobody has named the bridges.
fn found_without_names(changes: &[Change], expected: &Expected) -> Vec<String> {
    let mut report = DoctorReport::default();
    database(changes, ["", ""]).look(expected, None, false, &mut report);
    report.findings().iter().map(Finding::plain).collect()
}

#[test]
fn bridges_that_may_be_of_others_get_no_command_unless_they_are_named() {
    let target = |text: &str| ("Controller", 0, "target", json!(text));
    let standalone = ("Bridge", 0, "fail_mode", json!("standalone"));
    let alone = ("Bridge", 0, "controller", json!(["set", []]));
    for other in [target("tcp:127.0.0.1:6633"), target("tcp:192.0.2.9:6653"), alone] {
        let found = found_without_names(&[other, standalone.clone()], &at(HERE, false));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("note ovs-"), "{found:?}");
        assert!(found[0].contains("mend: if it is to be Maple's: maple doctor --bridge s1\n"), "{found:?}");
    }
    let ours = found_without_names(std::slice::from_ref(&standalone), &at(HERE, false));
    assert!(ours[0].contains("mend: ovs-vsctl set-fail-mode s1 secure\n"), "{ours:?}");
    // If nothing is known, another program on this host keeps its bridge.
    let nothing = Expected { runs: false, is_known: false, ..at("0.0.0.0:6653", false) };
    assert!(found_without_names(&[standalone, target("tcp:127.0.0.1:6633")], &nothing).is_empty());
}

#[test]
fn a_bridge_that_the_controller_serves_is_its_own_by_whatever_address() {
    let served = Expected { connected: vec![1], ..at(HERE, false) };
    let target = |text: &str| ("Controller", 0, "target", json!(text));
    check(&[target("tcp:controller.example:6653")], &served, &[]);
    check(&[target("tcp:192.0.2.9:6653")], &served, &[]);
}

#[test]
fn names_are_quoted_and_a_listener_makes_the_name_of_a_bridge_ambiguous() {
    let changes = [("Bridge", 0, "name", json!("a;b")), ("Bridge", 0, "fail_mode", json!("standalone"))];
    check(&changes, &at(HERE, false), &["warning ovs-fail-mode: bridge a;b: ovs-vsctl set-fail-mode 'a;b' secure"]);
    let table: Value = serde_json::from_str(TABLES[1].1).expect("it was captured");
    let ids = json!(["set", [table["data"][0][0], table["data"][1][0]]]);
    let changes = [
        ("Bridge", 0, "controller", ids),
        ("Bridge", 1, "controller", json!(["set", []])),
        ("Controller", 1, "target", json!("ptcp:6654")),
        ("Controller", 0, "inactivity_probe", json!(0)),
    ];
    let found = found_in(&database(&changes, ["", ""]), &at(HERE, false));
    let probe = "ovs-vsctl set controller 569a62f9-3221-4f5e-8f21-b1fc789bf6ed inactivity_probe=5000";
    assert!(found[0].ends_with(probe), "{found:?}");
}
