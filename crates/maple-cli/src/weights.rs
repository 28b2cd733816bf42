//! Link costs by name, from a JSON file or from an emulated topology.
//!
//! ```json
//! {"secure": {"1-2": 10, "3:1": 5}}
//! ```
//!
//! `"1-2"` are all links between switches 1 and 2, in both directions unless `"2-1"` is given too; `"3:1"` is the link
//! that leaves switch 3 by port 1, in that direction. Switches are numbers, or 16 hex digits. Other links cost 1.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, bail};
use maple_core::network::{LinkName, Location};
use maple_core::state::Write;
use maple_emulator::Topology;
use maple_wire::{Dpid, PortNo};

/// The costs in a file.
pub fn read(path: &Path) -> anyhow::Result<Vec<Write>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("can't read {}", path.display()))?;
    parse(&text).with_context(|| path.display().to_string())
}

fn parse(text: &str) -> anyhow::Result<Vec<Write>> {
    let all: BTreeMap<String, BTreeMap<String, u64>> = serde_json::from_str(text)?;
    let mut writes = Vec::new();
    for (name, costs) in &all {
        for (link, cost) in costs {
            let context = || format!("{name:?}: {link:?}");
            if *cost == 0 {
                bail!("{}: a cost is at least 1", context());
            }
            for link in links(link, costs).with_context(context)? {
                writes.push(Write::Cost { name: name.as_str().into(), link, cost: Some(*cost) });
            }
        }
    }
    Ok(writes)
}

/// The links that a key names.
fn links(key: &str, costs: &BTreeMap<String, u64>) -> anyhow::Result<Vec<LinkName>> {
    if let Some((switch, port)) = key.split_once(':') {
        let port = port.parse().ok().map(PortNo).filter(|port| port.is_physical()).context("no such port")?;
        return Ok(vec![LinkName::Port(Location::new(dpid(switch)?, port))]);
    }
    let (a, b) = key.split_once('-').context("a link is SWITCH-SWITCH or SWITCH:PORT")?;
    let (from, to) = (dpid(a)?, dpid(b)?);
    let mut names = vec![LinkName::Switches(from, to)];
    if !costs.contains_key(&format!("{b}-{a}")) {
        names.push(LinkName::Switches(to, from));
    }
    Ok(names)
}

/// A switch as a decimal number, or as 16 hex digits.
fn dpid(text: &str) -> anyhow::Result<Dpid> {
    let parsed = if text.len() == 16 { text.parse().ok() } else { text.parse().ok().map(Dpid) };
    parsed.with_context(|| format!("{text:?} is no switch (a number, or 16 hex digits)"))
}

/// The costs that a topology's link attributes say, rounded up to whole numbers.
pub fn of(topology: &Topology) -> Vec<Write> {
    let mut writes = Vec::new();
    for link in &topology.links {
        for (name, value) in &link.attributes {
            let cost = Some((value.ceil().max(1.0)) as u64);
            for (switch, port) in [link.a, link.b] {
                let link = LinkName::Port(Location::new(switch, port));
                writes.push(Write::Cost { name: name.as_str().into(), link, cost });
            }
        }
    }
    writes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_of_switches_means_both_directions() {
        let writes = parse(r#"{"secure": {"1-2": 10, "3:1": 5, "4-5": 2, "5-4": 3}}"#).unwrap();
        let found: Vec<String> = writes
            .iter()
            .map(|write| match write {
                Write::Cost { link, cost: Some(cost), .. } => format!("{link:?} {cost}"),
                other => panic!("{other:?}"),
            })
            .collect();
        let switches = |a: u64, b: u64, cost| format!("Switches({}, {}) {cost}", Dpid(a), Dpid(b));
        assert_eq!(
            found,
            [
                switches(1, 2, 10),
                switches(2, 1, 10),
                format!("Port({}:1) 5", Dpid(3)),
                switches(4, 5, 2),
                switches(5, 4, 3)
            ]
        );
    }

    #[test]
    fn mistakes_are_named() {
        let error = |text| format!("{:#}", parse(text).unwrap_err());
        assert_eq!(error(r#"{"w": {"1-x": 1}}"#), r#""w": "1-x": "x" is no switch (a number, or 16 hex digits)"#);
        assert_eq!(error(r#"{"w": {"12": 1}}"#), r#""w": "12": a link is SWITCH-SWITCH or SWITCH:PORT"#);
        assert_eq!(error(r#"{"w": {"1:0": 1}}"#), r#""w": "1:0": no such port"#);
        assert_eq!(error(r#"{"w": {"1-2": 0}}"#), r#""w": "1-2": a cost is at least 1"#);
    }
}
