//! Ryu's paths: switches answer them, and what would write says what to do instead.

use maple_controller::ControllerOptions;
use maple_emulator::host::FlowKind;
use maple_emulator::{Emulation, EmulationOptions, Topology};
use maple_wire::Version;
use serde_json::{Value, json};

use super::{ADMIN, Ask, READ, Served, TOKENS};
use crate::common::{Peer, eventually};

fn with_ryu(options: &mut ControllerOptions) {
    options.control.http.as_mut().expect("it is there").ryu = true;
}

/// Creates a controller with two switches, and hosts that have spoken.
fn network(version: Version) -> (Served, Emulation) {
    let served = Served::new(TOKENS, with_ryu);
    let topology = Topology::parse("linear:2").expect("a topology");
    let emulation =
        Emulation::start(EmulationOptions::new(topology, served.maple.address, version)).expect("it starts");
    eventually("the link is found", || served.maple.handle.links().len() == 1);
    emulation.open_flow("h1", "h2", FlowKind::Ping).expect("there are such hosts");
    eventually("the hosts are seen", || served.maple.handle.hosts().len() == 2);
    (served, emulation)
}

/// Returns the names of an object's members.
fn names(value: &Value) -> Vec<&str> {
    value.as_object().expect("an object").keys().map(String::as_str).collect()
}

#[test]
fn switches_answer_in_ryus_form() {
    let (served, _emulation) = network(Version::Of13);
    let read = |target: &str| served.read(target);
    assert_eq!(read("/stats/switches"), json!([1, 2]));
    let desc = read("/stats/desc/1");
    assert_eq!(read("/stats/desc/0x1"), desc, "as in Ryu, in any system of numbers");
    assert_eq!(read("/stats/port/1/0x2")["1"][0]["port_no"], 2);
    assert_eq!(names(&desc["1"]), ["dp_desc", "hw_desc", "mfr_desc", "serial_num", "sw_desc"]);
    let flows = read("/stats/flow/1");
    let flows = flows["1"].as_array().expect("rules");
    let members = [
        "actions",
        "byte_count",
        "cookie",
        "duration_nsec",
        "duration_sec",
        "flags",
        "hard_timeout",
        "idle_timeout",
        "length",
        "match",
        "packet_count",
        "priority",
        "table_id",
    ];
    assert!(flows.iter().all(|flow| names(flow) == members), "{flows:?}");
    let of_link_probes = flows.iter().find(|flow| flow["match"]["dl_type"] == 0x88cc).expect("LLDP has a rule");
    assert_eq!(of_link_probes["actions"], json!(["OUTPUT:CONTROLLER"]));
    assert!(of_link_probes["length"].as_u64() >= Some(56), "{of_link_probes}");
    let sums = read("/stats/aggregateflow/1");
    assert_eq!(sums["1"][0]["flow_count"], flows.len());
    let tables = read("/stats/table/1");
    let counted: u64 =
        tables["1"].as_array().expect("tables").iter().filter_map(|table| table["active_count"].as_u64()).sum();
    assert_eq!(counted, flows.len() as u64);
    let ports = read("/stats/port/1");
    let numbers: Vec<&Value> = ports["1"].as_array().expect("ports").iter().map(|port| &port["port_no"]).collect();
    assert!(numbers.contains(&&json!(1)), "{numbers:?}");
    let one = read("/stats/port/1/1");
    assert_eq!((one["1"].as_array().map(Vec::len), &one["1"][0]["port_no"]), (Some(1), &json!(1)));
    let descriptions = read("/stats/portdesc/1");
    assert_eq!(descriptions["1"].as_array().map(Vec::len), ports["1"].as_array().map(Vec::len));
    assert!(descriptions["1"][0]["curr_speed"].is_u64(), "{descriptions}");
    for empty in ["queue/1", "queue/1/ALL", "queue/1/1/ALL", "group/1", "groupdesc/1", "meter/1"] {
        let answer = served.get(&format!("/stats/{empty}"));
        let is_there = answer.status == 200 && answer.json()["1"].is_array();
        assert!(is_there || answer.status == 501, "{empty}: {answer:?}");
    }
}

#[test]
fn switches_of_1_0_answer_what_they_know() {
    let (served, _emulation) = network(Version::Of10);
    let flows = served.read("/stats/flow/2");
    let flows = flows["2"].as_array().expect("rules");
    assert!(flows.iter().all(|flow| flow.get("flags").is_none() && flow["table_id"] == 0), "{flows:?}");
    assert!(flows.iter().any(|flow| flow["match"]["dl_type"] == 0x88cc), "{flows:?}");
    assert!(served.read("/stats/table/2")["2"][0]["wildcards"].is_array());
    assert!(served.read("/stats/portdesc/2")["2"][0].get("curr_speed").is_none());
    for missing in ["group", "groupdesc", "meter", "role"] {
        assert_eq!(served.get(&format!("/stats/{missing}/2")).refusal().0, 501, "{missing}");
    }
}

#[test]
fn the_topology_is_in_ryus_form() {
    let (served, _emulation) = network(Version::Of13);
    let switches = served.read("/v1.0/topology/switches");
    assert_eq!(switches.as_array().map(Vec::len), Some(2));
    assert_eq!(switches[0]["dpid"], "0000000000000001");
    let port = &switches[0]["ports"][0];
    assert_eq!(names(port), ["dpid", "hw_addr", "name", "port_no"]);
    assert_eq!((&port["dpid"], &port["port_no"]), (&json!("0000000000000001"), &json!("00000001")));
    assert_eq!(served.read("/v1.0/topology/switches/0000000000000002"), json!([switches[1]]));
    assert_eq!(served.read("/v1.0/topology/switches/0000000000000009"), json!([]));
    let links = served.read("/v1.0/topology/links");
    assert_eq!(links.as_array().map(Vec::len), Some(2), "one for each direction");
    assert_eq!((&links[0]["src"], &links[0]["dst"]), (&links[1]["dst"], &links[1]["src"]));
    assert_eq!(served.read("/v1.0/topology/links/0000000000000001"), json!([links[0]]));
    let hosts = served.read("/v1.0/topology/hosts");
    assert_eq!(names(&hosts[0]), ["ipv4", "ipv6", "mac", "port"]);
    assert_eq!((hosts.as_array().map(Vec::len), &hosts[0]["port"]["dpid"]), (Some(2), &json!("0000000000000001")));
    assert_eq!(served.read("/v1.0/topology/hosts/0000000000000002"), json!([hosts[1]]));
}

#[test]
fn a_switch_that_is_late_is_no_late_worker() {
    let served = Served::new(TOKENS, with_ryu);
    // It answers no statistics.
    let _switch = Peer::up(&served.maple, Version::Of13, 7);
    let said = served.get("/stats/desc/7");
    assert_eq!(said.refusal().0, 503);
    assert!(said.json().get("shard").is_none() && said.body.contains("the switch does not answer"), "{said:?}");
    assert_eq!(served.read("/stats/switches"), json!([7]));
}

/// Returns the form of an answer: members, and texts with `x` for each digit. Names and addresses of IP have any.
fn form(value: &Value) -> Value {
    match value {
        Value::Object(all) => {
            let is_free = |name: &str| matches!(name, "name" | "ipv4" | "ipv6");
            let kind = |value: &Value| json!(if value.is_array() { "list" } else { "text" });
            let one = |(name, value): (&String, &Value)| {
                (name.clone(), if is_free(name) { kind(value) } else { form(value) })
            };
            all.iter().map(one).collect::<serde_json::Map<_, _>>().into()
        }
        Value::Array(all) => {
            let mut forms: Vec<Value> = all.iter().map(form).collect();
            forms.dedup();
            forms.into()
        }
        Value::String(text) => {
            text.chars().map(|c| if c.is_ascii_hexdigit() { 'x' } else { c }).collect::<String>().into()
        }
        other => other.clone(),
    }
}

#[test]
fn the_topology_has_the_form_of_recorded_answers() {
    let recorded: Value = serde_json::from_str(include_str!("../../recorded/ryu-4.34.json")).expect("JSON");
    let (served, _emulation) = network(Version::Of13);
    let cases = recorded["topology"].as_array().expect("cases");
    assert_eq!(cases.len(), 7);
    for case in cases {
        let path = case["path"].as_str().expect("a text");
        assert_eq!(form(&served.read(path)), form(&case["answer"]), "{path}");
    }
}

#[test]
fn wrong_paths_and_writes_are_refused() {
    let (served, _emulation) = network(Version::Of13);
    for (target, expected) in [
        ("/stats/flow/9", (404, "dpid")),
        ("/stats/flow/x", (400, "dpid")),
        ("/stats/port/1/x", (400, "port")),
        ("/v1.0/topology/links/1", (400, "dpid")),
        ("/stats/nothing/1", (404, "")),
    ] {
        let (status, field) = served.get(target).refusal();
        assert_eq!((status, field.as_str()), expected, "{target}");
    }
    let flow = json!({ "dpid": 1, "actions": [] });
    for (method, target) in [
        ("POST", "/stats/flowentry/add"),
        ("POST", "/stats/flowentry/delete_strict"),
        ("POST", "/stats/groupentry/add"),
        ("POST", "/stats/meterentry/modify"),
        ("POST", "/stats/portdesc/modify"),
        ("POST", "/stats/role"),
        ("DELETE", "/stats/flowentry/clear/1"),
    ] {
        let said = served.ask(&Ask::new(method, target, ADMIN).json(&flow));
        assert_eq!(said.refusal().0, 501, "{method} {target}");
        assert!(said.body.contains("policy"), "{}", said.body);
    }
    for target in ["/stats/flow/1", "/stats/aggregateflow/1"] {
        let filter = json!({ "table_id": 0, "match": { "dl_type": 2048 } });
        let said = served.ask(&Ask::new("POST", target, READ).json(&filter));
        assert_eq!(said.refusal().0, 501, "{target}");
        assert!(said.body.contains("/v1/switches/{switch}/rules"), "{}", said.body);
    }
    assert_eq!(served.read("/stats/switches?_=1790000000000"), json!([1, 2]), "as Ryu, whatever the query");
    assert_eq!(served.ask(&Ask::new("GET", "/stats/switches", "")).refusal().0, 401);
    assert_eq!(Served::new(TOKENS, |_| {}).get("/stats/switches").refusal().0, 404, "only if it is asked for");
}
