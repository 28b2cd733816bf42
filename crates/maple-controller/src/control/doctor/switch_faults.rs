//! Faults of the connected switches.

use crate::session::OPENFLOW_PORT;
use serde_json::Value;

use super::{Finding, FindingId, Severity, items, text};
use crate::endpoint::Endpoint;

/// The tables with which Maple looks things up: classifier, keys of a look-up, ingress, labels, routes.
const TABLES: u64 = 5;
/// The tables with which decisions share a rule for their route: all but those of keys.
const TABLES_WITH_ROUTES: u64 = 4;
/// The number of bytes waiting for a switch from which the switch counts as slow. Chosen: thousands of flow-mods, more
/// than an update of most tables; ordinary bursts are written in the next turn.
const WAITING: u64 = 1 << 20;

/// Returns the faults, for all switches of a kind together. `listening`: the address where the controller expects them.
pub fn findings(switches: &Value, listening: Option<Endpoint>) -> Vec<Finding> {
    let none = items(switches).all(is_away).then(|| no_switch(listening));
    let found = none.into_iter().chain(unreachable(switches));
    found.chain(limitations(switches)).chain(slow(switches)).collect()
}

fn is_away(switch: &Value) -> bool {
    switch["unreachable"].is_number()
}

fn no_switch(listening: Option<Endpoint>) -> Finding {
    let (kind, port) =
        listening.map_or(("tcp", OPENFLOW_PORT), |one| (if one.has_tls { "ssl" } else { "tcp" }, one.address.port()));
    Finding::new(Severity::Warning, FindingId::NoSwitch, "the controller")
        .what("no switch is connected")
        .consequence("the policy runs for nobody")
        .mend(format!("ovs-vsctl set-controller BRIDGE {kind}:ADDRESS:{port}"))
}

fn unreachable(switches: &Value) -> Option<Finding> {
    let place = those(switches, is_away)?;
    let longest = items(switches).filter_map(|switch| switch["unreachable"].as_f64()).fold(0.0, f64::max);
    Some(
        Finding::new(Severity::Warning, FindingId::SwitchUnreachable, place)
            .what(format!("no control connection, the longest for {longest:.0} s"))
            .consequence("links, hosts and rules there stand, and are not changed; what needs a new rule there goes another way, \
                 through the controller, or waits")
            .mend("restore the control network; maple run --unreachable forget gives such switches up at once"),
    )
}

/// Returns what switches can't do that others can.
fn limitations(switches: &Value) -> impl Iterator<Item = Finding> {
    let is_1_0 = |switch: &Value| text(&switch["version"]) == "1.0";
    let tables = |switch: &Value| switch["tables"].as_u64().unwrap_or_default();
    let old = those(switches, is_1_0).map(|place| {
        Finding::new(Severity::Note, FindingId::OpenFlow10, place)
            .what("OpenFlow 1.0 is spoken")
            .consequence(
                "one table, no look-ups and no bundles: a rule for each pair of hosts, updates in two steps, and no limits \
                 of packets",
            )
            .mend("ovs-vsctl add bridge BRIDGE protocols OpenFlow13")
    });
    let few_tables = |place: String, wanted: u64, consequence: &str| {
        Finding::new(Severity::Note, FindingId::FewTables, place)
            .what(format!("there are fewer than {wanted} tables"))
            .consequence(consequence)
            .mend("raise the number of tables in the switch's own configuration")
    };
    let has_routes = |switch: &Value| tables(switch) >= TABLES_WITH_ROUTES;
    let no_keys = those(switches, |switch| !is_1_0(switch) && has_routes(switch) && tables(switch) < TABLES)
        .map(|place| few_tables(place, TABLES, "there are no look-ups: a rule for each value of the fields they ask"));
    let few = those(switches, |switch| !is_1_0(switch) && !has_routes(switch)).map(|place| {
        let consequence = "there are no look-ups, and decisions share no rule for their route: when a link fails, each \
                           of their rules changes";
        few_tables(place, TABLES_WITH_ROUTES, consequence)
    });
    let none = those(switches, |switch| !is_1_0(switch) && switch["bundles"] == Value::Bool(false)).map(|place| {
        Finding::new(Severity::Note, FindingId::NoBundles, place)
            .what("there are no bundles (ONF extension 230)")
            .consequence("updates take two steps; if a table is full, packets may meet a lower rule for one round trip")
            .mend("upgrade the switch's software; Open vSwitch has bundles")
    });
    [old, no_keys, few, none].into_iter().flatten()
}

fn slow(switches: &Value) -> Option<Finding> {
    let waiting = |switch: &Value| switch["waiting_bytes"].as_u64().unwrap_or_default();
    let place = those(switches, |switch| waiting(switch) >= WAITING)?;
    let most = items(switches).map(waiting).max().unwrap_or_default();
    Some(
        Finding::new(Severity::Warning, FindingId::SwitchSlow, place)
            .what(format!("{most} bytes wait, because the switch does not read them"))
            .consequence("its rules are late, and when too much waits the connection is closed")
            .mend("maple run POLICY --flow-mod-rate 200"),
    )
}

/// Lists the switches for which this holds, as [`joined`] does.
fn those(switches: &Value, holds: impl Fn(&Value) -> bool) -> Option<String> {
    joined(items(switches).filter(|switch| holds(switch)))
}

/// Lists switches: `switch 1`, `switches 1, 2`; `None` if there are none.
fn joined<'a>(switches: impl Iterator<Item = &'a Value>) -> Option<String> {
    let ids: Vec<&str> = switches.map(|switch| text(&switch["switch"])).collect();
    Some(match ids.len() {
        0 => return None,
        1 => format!("switch {}", ids[0]),
        2..=8 => format!("switches {}", ids.join(", ")),
        more => format!("switches {} and {} more", ids[..8].join(", "), more - 8),
    })
}
