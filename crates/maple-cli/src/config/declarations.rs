//! The network in a configuration: switches and hosts with their names, costs of links, initial rows of tables.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::RangeInclusive;

use maple_controller::control::rows::Row;
use maple_controller::names::{Named, Names};
use maple_core::network::{Facts, HostFacts, LinkName, Mac, PortRole, PortSet, SwitchFacts};
use maple_core::state::Write;
use maple_wire::{Dpid, PortNo};
use toml_edit::Value;

use super::arguments;
use super::document::{ConfigEntry, Section, to_json};
use crate::declared::{Cost, DeclaredNetwork, FileLine};

/// Reads the tables about the network.
pub fn read(root: &mut Section<'_>) -> DeclaredNetwork {
    let mut names = Names::new();
    let mut places = BTreeMap::new();
    let mut switches = BTreeMap::new();
    let mut certificates = Vec::new();
    for entry in tables(root, "switches") {
        let Some((dpid, facts, certificate)) = switch(&entry) else { continue };
        if entry.ok(names.add(&entry.name, Named::Switch(dpid))).is_some() {
            switches.insert(dpid, facts);
            certificates.extend(certificate.map(|certificate| (dpid, certificate)));
            places.insert(entry.name.clone(), entry.at);
        }
    }
    // The roles of ports, against which hosts are checked.
    let roles = Facts::new(switches.clone(), BTreeMap::new());
    let mut hosts: BTreeMap<Mac, HostFacts> = BTreeMap::new();
    let mut owners: BTreeMap<IpAddr, String> = BTreeMap::new();
    for entry in tables(root, "hosts") {
        let Some((mac, facts)) = host(&entry, &names, &roles, &mut owners) else { continue };
        if entry.ok(names.add(&entry.name, Named::Host(mac))).is_some() {
            hosts.insert(mac, facts);
            places.insert(entry.name.clone(), entry.at);
        }
    }
    let costs = costs(root, &names);
    DeclaredNetwork { facts: Facts::new(switches, hosts), certificates, costs, rows: rows(root), names, places }
}

/// Returns the tables in this table, if it is one: `costs` may also be the option with a file's name.
fn tables<'a>(root: &mut Section<'a>, name: &str) -> Vec<ConfigEntry<'a>> {
    let Some(entry) = root.get(name) else { return Vec::new() };
    if !entry.is_table() {
        // An option may have this name; then its value was read before.
        if !arguments::is_option(name) {
            entry.wrong(format!("must be a table: [{name}.NAME]"));
        }
        return Vec::new();
    }
    entry.section().map(Section::all).unwrap_or_default()
}

fn switch(entry: &ConfigEntry<'_>) -> Option<(Dpid, SwitchFacts, Option<String>)> {
    let mut section = entry.section()?;
    let dpid = section.need("dpid", entry).and_then(|dpid| {
        let text = dpid.text()?;
        dpid.ok(crate::values::dpid(text))
    });
    let mut ports_in = |name| section.get(name).map(|entry| ports(&entry));
    let (used, edge, link) = (ports_in("ports"), ports_in("edge"), ports_in("link"));
    let certificate = section.get("certificate").and_then(|entry| Some(entry.text()?.to_owned()));
    let max_hosts = section.get("max-hosts-per-port").map(|entry| max_hosts(&entry)).unwrap_or_default();
    section.end();
    let facts = SwitchFacts { ports: used, edge: edge.unwrap_or_default(), link: link.unwrap_or_default(), max_hosts };
    if let Some(port) = facts.edge.common(&facts.link) {
        entry.wrong(format!("port {port} is an edge port and a link port"));
    }
    let is_closed = |range: &RangeInclusive<u32>| facts.ports.as_ref().is_some_and(|used| !used.covers(range));
    if let Some(range) = facts.edge.0.iter().chain(&facts.link.0).find(|range| is_closed(range)) {
        entry.wrong(format!("not all of the ports {}-{} are in `ports`", range.start(), range.end()));
    }
    Some((dpid?, facts, certificate))
}

/// Reads ports: `3`, `"1-24"`, `[1, 2, "5-8"]`.
fn ports(entry: &ConfigEntry<'_>) -> PortSet {
    let range = |value: &Value| match value {
        Value::Integer(number) => port_range(&number.value().to_string()),
        Value::String(text) => port_range(text.value()),
        _ => Err("ports are numbers, or ranges such as \"1-24\"".to_owned()),
    };
    PortSet(entry.items().into_iter().filter_map(|value| entry.ok(range(value))).collect())
}

fn port_range(text: &str) -> Result<RangeInclusive<u32>, String> {
    let invalid = || format!("{text:?} is not a port, nor a range of ports such as \"1-24\"");
    let is_port = |port: &PortNo| port.is_ordinary_or_local();
    let port = |text: &str| text.trim().parse().ok().filter(is_port).map(|PortNo(number)| number).ok_or_else(invalid);
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (port(first)?, port(last)?);
    if first <= last { Ok(first..=last) } else { Err(invalid()) }
}

/// Reads one maximum for all ports, or one for each range of ports.
fn max_hosts(entry: &ConfigEntry<'_>) -> Vec<(PortSet, usize)> {
    if !entry.is_table() {
        let most = entry.number(1);
        return most.map(|most| (PortSet(vec![0..=u32::MAX]), most as usize)).into_iter().collect();
    }
    let limit =
        |entry: ConfigEntry<'_>| Some((PortSet(vec![entry.ok(port_range(&entry.name))?]), entry.number(1)? as usize));
    entry.section().map(Section::all).unwrap_or_default().into_iter().filter_map(limit).collect()
}

fn host(
    entry: &ConfigEntry<'_>,
    names: &Names,
    roles: &Facts,
    owners: &mut BTreeMap<IpAddr, String>,
) -> Option<(Mac, HostFacts)> {
    let mut section = entry.section()?;
    let mac = section.need("mac", entry).and_then(|mac| {
        let text = mac.text()?;
        let found = mac.ok(text.parse::<Mac>())?;
        if !found.is_host() {
            mac.wrong("no host can have this address");
        }
        Some(found)
    });
    let mut facts = HostFacts::default();
    if let Some(at) = section.get("at")
        && let Some(text) = at.text().filter(|text| *text != "anywhere")
        && let Some(place) = at.ok(names.location(text))
    {
        facts.at = Some(place);
        match roles.role(place) {
            PortRole::Any | PortRole::Edge => {}
            PortRole::Link => at.wrong(format!("port {text} is declared a link port")),
            PortRole::Closed => at.wrong(format!("port {text} is not in the switch's `ports`")),
        }
    }
    if let Some(addresses) = section.get("addresses") {
        for value in addresses.items() {
            let ip = value.as_str().and_then(|text| text.parse::<IpAddr>().ok());
            let Some(ip) = addresses.ok(ip.ok_or_else(|| format!("{} is not an IP address", to_json(value)))) else {
                continue;
            };
            match owners.insert(ip, entry.name.clone()) {
                Some(other) if other != entry.name => addresses.wrong(format!("{ip} is an address of {other} too")),
                _ => drop(facts.addresses.insert(ip)),
            }
        }
    }
    section.end();
    Some((mac?, facts))
}

/// Reads `[[costs.NAME]]`: the costs that `--costs FILE` has, with names.
fn costs(root: &mut Section<'_>, names: &Names) -> Vec<Cost> {
    let mut all = Vec::new();
    for named in tables(root, "costs") {
        for (entry, section) in named.sections() {
            all.extend(cost(&named.name, &entry, section, names));
        }
    }
    all
}

fn cost(name: &str, entry: &ConfigEntry<'_>, mut section: Section<'_>, names: &Names) -> Option<Cost> {
    let ends = ["a", "b", "at"].map(|key| section.get(key));
    let (cost, one_way) = (section.need("cost", entry), section.get("one-way"));
    section.end();
    let one_way = one_way.is_some_and(|entry| match entry.json() {
        Some(serde_json::Value::Bool(one_way)) => one_way,
        _ => {
            entry.wrong("must be true or false");
            false
        }
    });
    let cost = cost?.number(1)?;
    let named_switch = |entry: &ConfigEntry<'_>| entry.ok(names.switch(entry.text()?));
    let (links, text) = match ends {
        [Some(a), Some(b), None] => {
            let (from, to) = (named_switch(&a)?, named_switch(&b)?);
            let back = (!one_way).then_some(LinkName::Switches(to, from));
            let arrow = if one_way { "->" } else { "-" };
            let links: Vec<LinkName> = [LinkName::Switches(from, to)].into_iter().chain(back).collect();
            (links, format!("{} {arrow} {}: {cost}", a.text()?, b.text()?))
        }
        [None, None, Some(at)] => {
            let place = at.ok(names.location(at.text()?))?;
            (vec![LinkName::Port(place)], format!("{}: {cost}", at.text()?))
        }
        _ => {
            entry.wrong("this has either a and b, two switches, or at, a port such as core1:3");
            return None;
        }
    };
    let named = [Write::CostName(name.into())];
    let costs = links.into_iter().map(|link| Write::Cost { name: name.into(), link, cost: Some(cost.into()) });
    Some(Cost {
        at: entry.at.clone(),
        writes: named.into_iter().chain(costs).collect(),
        text: format!("{name}: {text}"),
    })
}

/// Reads `[tables.NAME]` with a value for each key, and `[variables]`.
fn rows(root: &mut Section<'_>) -> Vec<(FileLine, Row)> {
    let mut rows = Vec::new();
    for table in tables(root, "tables") {
        for entry in table.section().map(Section::all).unwrap_or_default() {
            let value = entry.json();
            let row = |value| Row { name: table.name.clone(), key: Some(entry.name.clone()), value };
            rows.extend(value.map(|value| (entry.at.clone(), row(value))));
        }
    }
    for entry in tables(root, "variables") {
        let row = |value| Row { name: entry.name.clone(), key: None, value };
        rows.extend(entry.json().map(|value| (entry.at.clone(), row(value))));
    }
    rows
}
