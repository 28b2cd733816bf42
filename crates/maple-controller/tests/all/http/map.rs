//! The map: each switch and link, at places that stay.

use maple_emulator::{Emulation, EmulationOptions, Topology};
use maple_wire::{Dpid, Version};
use serde_json::{Value, json};

use super::{Served, TOKENS};
use crate::common::eventually;

/// Returns the name and place of each switch.
fn places(map: &Value) -> Vec<(Value, f64, f64)> {
    let all = map["switches"].as_array().expect("switches").iter();
    all.map(|one| (one["switch"].clone(), one["x"].as_f64().expect("a place"), one["y"].as_f64().expect("a place")))
        .collect()
}

#[test]
fn a_map_has_all_switches_and_links_and_shows_a_link_that_is_down() {
    let served = Served::new(TOKENS, |_| {});
    let topology = Topology::parse("ring:4").expect("a topology");
    let emulation =
        Emulation::start(EmulationOptions::new(topology, served.maple.address, Version::Of13)).expect("it starts");
    eventually("the links are found", || served.maple.handle.links().len() == 4);
    eventually("the hosts are seen", || {
        for name in ["h1", "h2"] {
            emulation.with_network(|network| network.announce(name)).expect("it runs").expect("there is such a host");
        }
        served.maple.handle.hosts().len() == 2
    });
    let map = served.read("/v1/map");
    let before = places(&map);
    assert_eq!(before.len(), 4);
    for (at, (_, x, y)) in before.iter().enumerate() {
        assert!(before[at + 1..].iter().all(|(_, u, v)| (x - u).hypot(y - v) >= 5.0), "{before:?}");
    }
    let hosts: Vec<&Value> = map["switches"].as_array().expect("switches").iter().map(|one| &one["hosts"]).collect();
    assert_eq!(hosts, [1, 1, 0, 0]);
    assert!(map["switches"].as_array().expect("switches").iter().all(|one| one["connected"] == true));
    let link = &map["links"][0];
    assert_eq!((&link["from"]["switch"], &link["up"]), (&json!("0000000000000001"), &json!(true)));
    assert_eq!(link["bits_per_second"], Value::Null, "nobody has asked for counters");

    served.read("/v1/ports");
    eventually("counters are read twice", || {
        served.read("/v1/ports");
        served.read("/v1/map")["links"][0]["bits_per_second"].is_number()
    });

    emulation.link_down(Dpid(1), Dpid(2)).expect("there is such a link");
    eventually("the link is down", || served.maple.handle.links().len() == 3);
    let map = served.read("/v1/map");
    assert_eq!(places(&map), before);
    let down: Vec<bool> = map["links"].as_array().expect("links").iter().map(|link| link["up"] == false).collect();
    assert_eq!(down.iter().filter(|is_down| **is_down).count(), 1, "{map}");
    emulation.link_up(Dpid(1), Dpid(2)).expect("there is such a link");
    eventually("the link is up", || served.maple.handle.links().len() == 4);
    let map = served.read("/v1/map");
    assert!(map["links"].as_array().expect("links").iter().all(|link| link["up"] == true), "{map}");
    assert_eq!(places(&map), before);
}
