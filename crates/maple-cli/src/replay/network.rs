//! The network at the end of a replay: `maple replay RECORDING --until TIME --network`.

use std::fmt::Write as _;

use maple_controller::replay::Replayed;
use maple_core::network::{Location, PortKind};
use maple_wire::counted;
use serde_json::{Value, json};

/// Returns the switches with their ports and rules, the links and the hosts at the end of a replay.
pub fn network(replayed: &Replayed) -> Value {
    let state = replayed.store.snapshot();
    let switch = |dpid| {
        let engine =
            replayed.engines.iter().map(|engine| engine.view()).find(|view| view.switch_counts(dpid).is_some());
        let ports: Vec<_> = state.ports_of(dpid).map(|(_, port)| port).collect();
        let up = ports.iter().filter(|port| port.up).count();
        let links = ports.iter().filter(|port| port.up && matches!(port.kind, PortKind::Link(_))).count();
        json!({
            "switch": dpid.to_string(),
            "connected": engine.is_some_and(|view| !view.is_unreachable(dpid)),
            "ports": ports.len(),
            "up": up,
            "links": links,
            "rules": engine.map(|view| view.rules(dpid).len()),
        })
    };
    let place = |at: Location| json!({ "switch": at.switch.to_string(), "port": at.port.to_string() });
    let links = state.links().map(|(from, to)| json!({ "from": place(from), "to": place(to) }));
    let hosts = state.hosts().map(|(mac, host)| {
        let (ipv4, ipv6) = (host.ipv4.iter().map(ToString::to_string), host.ipv6.iter().map(ToString::to_string));
        let (ipv4, ipv6): (Vec<String>, Vec<String>) = (ipv4.collect(), ipv6.collect());
        json!({ "mac": mac.to_string(), "at": place(host.location), "ipv4": ipv4, "ipv6": ipv6 })
    });
    json!({
        "switches": state.switches().map(|(dpid, _)| switch(dpid)).collect::<Value>(),
        "links": links.collect::<Value>(),
        "hosts": hosts.collect::<Value>(),
    })
}

/// Writes the network for people, a line for each part.
pub fn text(network: &Value) -> String {
    let mut text = String::new();
    for switch in items(&network["switches"]) {
        let state = if switch["connected"] == true { "connected" } else { "not connected" };
        let rules =
            switch["rules"].as_u64().map_or_else(|| "no worker had it".to_owned(), |rules| counted(rules, "rule"));
        let (up, ports, links) = (&switch["up"], &switch["ports"], counted(&switch["links"], "link"));
        let _ =
            writeln!(text, "switch {}: {state}, {up} of {ports} ports up, {links}, {rules}", plain(&switch["switch"]));
    }
    for link in items(&network["links"]) {
        let _ = writeln!(text, "link {} - {}", place(&link["from"]), place(&link["to"]));
    }
    for host in items(&network["hosts"]) {
        let addresses: String =
            items(&host["ipv4"]).chain(items(&host["ipv6"])).map(|address| format!(" {}", plain(address))).collect();
        let _ = writeln!(text, "host {} at {}{addresses}", plain(&host["mac"]), place(&host["at"]));
    }
    text
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn plain(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn place(at: &Value) -> String {
    format!("{}:{}", plain(&at["switch"]), plain(&at["port"]))
}
