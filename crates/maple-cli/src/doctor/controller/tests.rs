//! Questions to a controller, and findings from its answers.

use serde_json::json;

use super::*;

#[test]
fn facts_about_a_controller_are_read_from_its_answers() {
    let listening = json!([{ "address": "0.0.0.0:6653", "tls": false }]);
    let about = json!({ "pid": 7, "state_file": "/var/lib/maple/state.redb", "listening": listening });
    let ports = json!([{ "port": 3, "name": "eth3", "up": true, "kind": "edge" }]);
    let switches = json!([{ "switch": "0000000000000001", "description": "Open vSwitch 3.1.0", "ports": ports }]);
    let one = Controller::from_answers(about, switches, json!({ "connections": 1, "shards": 2 }), json!([]));
    assert_eq!((one.pid(), one.shards(), one.connections()), (Some(7), 2, 1));
    assert_eq!(one.state_file(), Some(Path::new("/var/lib/maple/state.redb")));
    let address = "0.0.0.0:6653".parse().expect("an address");
    assert_eq!(one.listening(), Some(vec![Endpoint { address, has_tls: false }]));
    assert_eq!((one.switches(), one.open_vswitches()), (vec![1], vec![(1, "0000000000000001".to_owned())]));
    assert_eq!((one.ports(1, "edge"), one.ports(1, "link")), (vec![3], vec![]));
}

#[test]
fn nobody_at_the_socket_is_no_finding_and_one_who_is_silent_is() {
    let silence = Controller::ask(Path::new("/nonexistent/control.sock")).expect_err("there is none");
    assert!(matches!(silence, Silence::Absent(why) if why.starts_with("no controller at /nonexistent/control.sock: ")));
    let text = silent(Path::new("/run/c"), "it does not answer within 10 s").plain();
    assert!(text.starts_with("error controller-silent: the controller at /run/c: it does not answer"), "{text}");
}
