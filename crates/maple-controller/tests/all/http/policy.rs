//! The lines of the policy, with what rests on each.

use std::sync::Arc;

use maple_core::Route;
use maple_core::policy::{Net, PacketHandle};
use maple_emulator::host::FlowKind;
use maple_emulator::{Emulation, EmulationOptions, Topology};
use maple_wire::{Field, PortNo, Version};
use serde_json::{Value, json};

use super::{Served, TOKENS};
use crate::common::eventually;

/// Drops IPv4 and floods everything else, and asks at two lines for that.
fn policy(packet: &PacketHandle, _: &Net) -> Route {
    if packet.get(Field::EthType) != Some(0x0800) {
        return Route::flood();
    }
    packet.get(Field::Ipv4Dst);
    Route::drop()
}

/// Returns the line of this file that has this text.
fn line_of(text: &str) -> u64 {
    let own = include_str!("policy.rs");
    1 + own.lines().position(|line| line.contains(text)).expect("it is there") as u64
}

#[test]
fn each_line_of_the_policy_is_listed_with_its_leaves_rules_and_drops() {
    let served = Served::new(TOKENS, |options| options.policy = Arc::new(policy));
    let topology = Topology::parse("single:2").expect("a topology");
    let emulation =
        Emulation::start(EmulationOptions::new(topology, served.maple.address, Version::Of13)).expect("it starts");
    eventually("the switch is there", || served.maple.handle.snapshot().switches().count() == 1);
    let lines = || {
        let answer = served.read("/v1/policy");
        assert_eq!((&answer["policy"], &answer["complete"]), (&Value::Null, &json!(true)));
        let files = answer["files"].as_array().expect("files").clone();
        let own = files.into_iter().find(|file| file["file"].as_str().is_some_and(|name| name.ends_with("policy.rs")));
        own.map(|file| file["lines"].as_array().expect("lines").clone()).unwrap_or_default()
    };
    let at = |number: u64| lines().into_iter().find(|line| line["line"] == number).unwrap_or_default();
    emulation.open_flow("h1", "h2", FlowKind::Ping).expect("there are such hosts");
    let drops = line_of("Route::drop()");
    eventually("a packet is dropped", || {
        emulation.open_flow("h1", "h2", FlowKind::Ping).expect("there are such hosts");
        at(drops)["drops"].as_u64() >= Some(1)
    });
    let decided = at(drops);
    let (misses, runs) = (decided["misses"].as_u64().expect("a count"), decided["runs"].as_u64().expect("a count"));
    assert!(misses >= 1 && runs >= misses && decided["seconds"].as_f64() > Some(0.0), "{decided}");
    let all = lines();
    let sum = |name: &str| all.iter().map(|line| line[name].as_u64().expect("a count")).sum::<u64>();
    let counts = served.maple.handle.stats().expect("the shards answer").total.engine;
    assert!(sum("misses") <= counts.misses && sum("runs") <= counts.runs, "{all:?} and {counts:?}");
    let (both, dropped) = (at(line_of("packet.get(Field::EthType)")), at(line_of("packet.get(Field::Ipv4Dst)")));
    assert_eq!(dropped["drops"], 0, "this line asked, and another one dropped");
    assert!(dropped["leaves"].as_u64() >= Some(1) && dropped["rules"].as_u64() >= Some(1), "{dropped}");
    assert!(both["leaves"].as_u64() > dropped["leaves"].as_u64(), "{both} and {dropped}");
    assert_eq!((&dropped["misses"], &dropped["runs"], &dropped["seconds"]), (&json!(0), &json!(0), &json!(0.0)));
    eventually("its rules have counted packets", || {
        emulation.open_flow("h1", "h2", FlowKind::Ping).expect("there are such hosts");
        at(line_of("packet.get(Field::Ipv4Dst)"))["packets"].as_u64() >= Some(1)
    });
}

#[test]
fn rules_and_flows_name_the_line_that_decided() {
    let served = Served::new(TOKENS, |options| options.policy = Arc::new(policy));
    let topology = Topology::parse("single:2").expect("a topology");
    let emulation =
        Emulation::start(EmulationOptions::new(topology, served.maple.address, Version::Of13)).expect("it starts");
    eventually("the switch is there", || served.maple.handle.snapshot().switches().count() == 1);
    let is_line_of = |line: &Value, text: &str| {
        line.as_str().is_some_and(|line| line.ends_with(&format!("policy.rs:{}", line_of(text))))
    };
    eventually("a flow is dropped", || {
        emulation.open_flow("h1", "h2", FlowKind::Ping).expect("there are such hosts");
        let flows = served.read("/v1/flows");
        let rows = flows["rows"].as_array().expect("rows");
        rows.iter()
            .any(|row| is_line_of(&row["lines"][0], "Route::drop()") || is_line_of(&row["lines"][1], "Route::drop()"))
    });
    let rules = served.read("/v1/rules");
    let rows = rules["rows"].as_array().expect("rows");
    let (decided, own): (Vec<&Value>, Vec<&Value>) = rows.iter().partition(|row| !row["leaf"].is_null());
    assert!(own.iter().all(|row| row["line"].is_null()), "{own:?}");
    let drops = |row: &&&Value| row["actions"] == "drop";
    assert!(decided.iter().filter(drops).count() > 0, "{decided:?}");
    assert!(decided.iter().filter(drops).all(|row| is_line_of(&row["line"], "Route::drop()")), "{decided:?}");
    assert!(decided.iter().any(|row| is_line_of(&row["line"], "return Route::flood()")), "{decided:?}");
}

/// Sends IPv4 to a port that no switch has, and floods everything else.
fn astray(packet: &PacketHandle, _: &Net) -> Route {
    if packet.get(Field::EthType) != Some(0x0800) {
        return Route::flood();
    }
    Route::to([PortNo(99)])
}

#[test]
fn a_line_has_the_packets_on_which_it_failed() {
    let served = Served::new(TOKENS, |options| options.policy = Arc::new(astray));
    let topology = Topology::parse("single:2").expect("a topology");
    let emulation =
        Emulation::start(EmulationOptions::new(topology, served.maple.address, Version::Of13)).expect("it starts");
    eventually("the switch is there", || served.maple.handle.snapshot().switches().count() == 1);
    eventually("a packet has failed", || {
        emulation.open_flow("h1", "h2", FlowKind::Ping).expect("there are such hosts");
        served.maple.handle.stats().expect("the shards answer").total.engine.policy_errors >= 1
    });
    let answer = served.read("/v1/policy");
    let files = answer["files"].as_array().expect("files");
    let lines = files.iter().flat_map(|file| file["lines"].as_array().expect("lines"));
    let failed: Vec<&Value> = lines.filter(|line| line["errors"] != 0).collect();
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert_eq!((&failed[0]["line"], &failed[0]["misses"]), (&json!(line_of("Route::to([PortNo(99)])")), &json!(0)));
    assert!(failed[0]["runs"].as_u64() >= failed[0]["errors"].as_u64(), "{failed:?}");
}
