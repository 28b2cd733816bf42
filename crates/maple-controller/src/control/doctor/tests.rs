//! Judgements about a controller, on its answers.

use serde_json::json;

use super::*;

/// Returns what a controller answers, for findings to be looked for in.
fn answered(about: Value, switches: Value, stats: Value, errors: Value) -> ControllerAnswers {
    let process = about["pid"].as_u64().and_then(|pid| u32::try_from(pid).ok());
    ControllerAnswers { about, switches, stats, errors, process, ..ControllerAnswers::default() }
}

/// Returns the description of a controller without any trouble.
fn about() -> Value {
    json!({
        "version": env!("CARGO_PKG_VERSION"), "pid": 7, "shards": 2, "state_file": "/var/lib/maple/state.redb",
        "listening": [{ "address": "0.0.0.0:6653", "tls": false }], "certificate_expires": null, "started": 1_790_000_000,
        "clock_stepped": 0.0,
    })
}

fn switch(version: &str, tables: u32, bundles: bool, waiting: u64) -> Value {
    json!({
        "switch": "0000000000000001", "peer": "127.0.0.1:4000", "unreachable": null, "silent": false, "version": version, "description": "Nicira, Inc. Open vSwitch 3.1.0",
        "tables": tables, "bundles": bundles, "shard": 0, "waiting_bytes": waiting, "ports": [],
    })
}

/// Returns the levels and ids of the findings.
fn found_in(controller: &ControllerAnswers) -> Vec<String> {
    let mut report = DoctorReport::default();
    controller.look(Some(Path::new("/run/c")), &mut report);
    report.findings().iter().map(|one| one.plain().split(':').next().unwrap_or_default().to_owned()).collect()
}

fn check(about: Value, switches: Value, stats: Value, wanted: &[&str]) {
    assert_eq!(found_in(&answered(about, switches, stats, json!([]))), wanted);
}

#[test]
fn a_controller_in_order_has_no_finding_and_says_where_it_is() {
    let stats =
        json!({ "connections": 1, "shards": 2, "controller": { "of_timeouts": 0 }, "engine": { "policy_errors": 0 } });
    check(about(), json!([switch("1.3", 254, true, 0)]), stats.clone(), &[]);
    let one = answered(about(), json!([switch("1.3", 254, true, 0)]), stats, json!([]));
    assert_eq!(one.state_file(), Some(Path::new("/var/lib/maple/state.redb")));
    let listening = one.listening().expect("it says so");
    assert_eq!(listening, [Endpoint { address: "0.0.0.0:6653".parse().expect("an address"), has_tls: false }]);
    let mut report = DoctorReport::default();
    one.look(Some(Path::new("/run/c")), &mut report);
    assert_eq!(report.checked(), ["the controller (process 7) with 1 switch: its counters, errors and switches"]);
}

/// Returns the description of a controller of a cluster.
fn in_cluster(role: &str, members: &[&str], master: Value, trouble: Value, connections: u64) -> Value {
    let mut about = about();
    about["state_file"] = Value::Null;
    about["cluster"] = json!({
        "cluster": "campus", "name": "n1", "role": role, "master": master, "generation": 7, "members": members,
        "lease": true, "etcd": ["a:2379", "b:2379"], "trouble": trouble, "connections": connections,
        "copy": { "of": "n2", "trouble": null },
    });
    about
}

#[test]
fn a_cluster_is_judged_by_what_one_of_it_says() {
    let (switches, both) = (json!([switch("1.3", 254, true, 0)]), ["n1", "n2"]);
    check(in_cluster("master", &both, json!("n1"), json!(null), 1), switches.clone(), json!({}), &[]);
    let alone = in_cluster("master", &["n1"], json!("n1"), json!(null), 1);
    check(alone, switches.clone(), json!({}), &["warning no-standby"]);
    let away = in_cluster("master", &both, json!("n1"), json!("a:2379: connection refused"), 1);
    check(away, switches, json!({}), &["error etcd-away"]);
    // A standby has no switch, and that is not a fault; but switches have to be connected to it.
    check(in_cluster("standby", &both, json!("n2"), json!(null), 3), Value::Null, json!({}), &[]);
    let unlisted = in_cluster("standby", &both, json!("n2"), json!(null), 0);
    check(unlisted, Value::Null, json!({}), &["error standby-unlisted"]);
    check(in_cluster("standby", &both, json!(null), json!(null), 3), Value::Null, json!({}), &["error no-master"]);
    let with_copy = |role: &str, copy: Value| {
        let mut about = in_cluster(role, &both, json!("n2"), json!(null), 3);
        about["cluster"]["copy"] = copy;
        about
    };
    check(with_copy("standby", json!(null)), Value::Null, json!({}), &["note no-copy"]);
    let away = json!({ "of": null, "trouble": "n2:6654: connection refused" });
    check(with_copy("standby", away), Value::Null, json!({}), &["warning no-copy"]);
    check(with_copy("master", json!(null)), json!([switch("1.3", 254, true, 0)]), json!({}), &[]);
    let mut report = DoctorReport::default();
    let standby =
        answered(in_cluster("standby", &both, json!("n2"), json!(null), 3), Value::Null, json!({}), json!([]));
    standby.look(Some(Path::new("/run/c")), &mut report);
    assert_eq!(report.checked(), ["the controller (process 7), which is a standby: its cluster, counters and errors"]);
}

#[test]
fn statements_of_a_controller_about_itself_become_findings() {
    let mut other = about();
    other["version"] = json!("0.0.9");
    let switches = json!([switch("1.3", 254, true, 0)]);
    check(other.clone(), switches.clone(), json!({}), &["warning version-differs"]);
    let mend = |about: &Value| {
        let mut report = DoctorReport::default();
        answered(about.clone(), switches.clone(), json!({}), json!([])).look(Some(Path::new("/run/c")), &mut report);
        report.findings()[0].plain()
    };
    let text = mend(&other);
    assert!(
        text.contains(": maple run POLICY --takeover --state /var/lib/maple/state.redb --control /run/c\n"),
        "{text}"
    );
    other["version"] = json!("99.0.0");
    assert!(!mend(&other).contains("takeover"), "this command is the older one");
    let mut forgets = about();
    forgets["state_file"] = Value::Null;
    check(forgets, switches.clone(), json!({}), &["note no-state-file"]);
    let mut fails = about();
    let file =
        |file: &str, fails: Value| json!({ "file": file, "path": "/var/lib/maple/x", "fails": fails, "since": 1 });
    fails["files"] = json!([file("state", json!("No space left on device")), file("log", Value::Null)]);
    check(fails.clone(), switches.clone(), json!({}), &["error file-not-kept"]);
    assert!(mend(&fails).starts_with("error file-not-kept: state file /var/lib/maple/x: No space left on device\n"));
    fails["files"] = ["recording", "log", "switches", "certificates", "control-socket", "tokens"]
        .map(|name| file(name, json!("no")))
        .into_iter()
        .collect();
    check(fails, switches.clone(), json!({}), &["warning file-not-kept"; 6]);
    // An older controller does not know the request.
    check(Value::Null, switches, json!({}), &["warning version-differs"]);
    check(about(), json!([]), json!({}), &["warning no-switch"]);
}

#[test]
fn switches_are_judged_by_what_they_can_do() {
    let check_switch = |switch: Value, wanted: &[&str]| check(about(), json!([switch]), json!({}), wanted);
    check_switch(switch("1.0", 254, false, 0), &["note openflow-10"]);
    check_switch(switch("1.3", 3, true, 0), &["note few-tables"]);
    check_switch(switch("1.3", 4, true, 0), &["note few-tables"]);
    check_switch(switch("1.3", 5, true, 0), &[]);
    check_switch(switch("1.3", 254, false, 0), &["note no-bundles"]);
    check_switch(switch("1.3", 254, true, 2 << 20), &["warning switch-slow"]);
}

#[test]
fn counters_that_are_not_zero_are_reported() {
    let stats = json!({
        "controller": { "of_duplicate_dpids": 3, "of_timeouts": 1, "of_not_reading": 1, "lldp_one_way": 0 },
        "engine": { "policy_errors": 2, "spoofed_drops": 5, "rules_repaired": 1 },
    });
    let one = answered(about(), json!([switch("1.3", 254, true, 0)]), stats, json!([]));
    let wanted = [
        "error duplicate-dpid",
        "warning connections-lost",
        "warning rules-changed",
        "warning policy-fails",
        "warning host-at-several-ports",
    ];
    assert_eq!(found_in(&one), wanted);
    let mut report = DoctorReport::default();
    one.look(Some(Path::new("/run/c")), &mut report);
    let text = report.findings()[1].plain();
    assert!(text.contains("since its start 2 connections were closed"), "{text}");
}

#[test]
fn tables_that_are_nearly_full_are_reported_with_their_sizes() {
    let said = |rules: Value, most: Value| {
        let tables = json!([{ "table": 0, "rules": 3, "most": 4000 }, { "table": 1, "rules": rules, "most": most }]);
        let mut all = answered(about(), json!([switch("1.3", 5, true, 0)]), json!({}), json!([]));
        all.tables = vec![json!({ "switch": "0000000000000002", "tables": tables })];
        all
    };
    for (rules, most) in
        [(json!(899), json!(1000)), (json!(0), json!(0)), (json!(null), json!(10)), (json!(5), json!(null))]
    {
        assert_eq!(found_in(&said(rules, most)), [""; 0]);
    }
    let full = said(json!(900), json!(1000));
    assert_eq!(found_in(&full), ["warning table-nearly-full"]);
    let mut report = DoctorReport::default();
    full.look(Some(Path::new("/run/c")), &mut report);
    let text = report.findings()[0].plain();
    assert!(text.contains("switch 0000000000000002: table 1 has 900 of at most 1000 rules"), "{text}");
    assert_eq!(report.checked()[1], "how full tables are: 1 of 1 switches say it");
    let silent = vec![json!({ "switch": "0000000000000002", "tables": null })];
    let silent = ControllerAnswers { tables: silent, ..ControllerAnswers::default() };
    assert_eq!(silent.tables_checked().as_deref(), Some("how full tables are: 0 of 1 switches say it"));
    let late = ControllerAnswers { tables_left: 2, ..ControllerAnswers::default() };
    let text = "how full tables are: 0 of 2 switches say it, 2 were not asked for want of time";
    assert_eq!(late.tables_checked().as_deref(), Some(text));
    assert_eq!(ControllerAnswers::default().tables_checked(), None);
}

#[test]
fn open_vswitch_is_not_asked_for_its_tables() {
    let mut other = switch("1.3", 4, true, 0);
    (other["description"], other["switch"]) = (json!("Zodiac FX"), json!("0000000000000009"));
    let one = answered(about(), json!([switch("1.3", 254, true, 0), other]), json!({}), json!([]));
    assert_eq!(one.other_switches(), ["0000000000000009"]);
}
