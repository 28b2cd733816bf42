//! Link costs by name, from a JSON file.
//!
//! ```json
//! {"secure": [{"a": "1", "b": "2", "cost": 10}, {"switch": "3", "port": 1, "cost": 5}]}
//! ```
//!
//! `a` and `b` are two adjacent switches. The cost applies to all links between them in both directions; with
//! `"one_way": true`, only from `a` to `b`. `switch` and `port` name the link that leaves by this port, in that
//! direction. Datapath ids are hex digits. Other links cost 1.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;
use maple_controller::control::socket::PortText;
use maple_core::network::{LinkName, Location};
use maple_core::state::Write;
use maple_wire::Dpid;
use serde::Deserialize;

/// The links of an entry, and their cost.
#[derive(Debug, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum LinkCost {
    Switches {
        a: String,
        b: String,
        cost: u64,
        #[serde(default)]
        one_way: bool,
    },
    Port {
        switch: String,
        port: PortText,
        cost: u64,
    },
}

/// Reads the costs from a file.
///
/// # Errors
/// If the file can't be read, or if an entry is wrong.
pub fn read(path: &Path) -> anyhow::Result<Vec<Write>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("can't read {}", path.display()))?;
    parse(&text).with_context(|| path.display().to_string())
}

fn parse(text: &str) -> anyhow::Result<Vec<Write>> {
    let all: BTreeMap<String, Vec<serde_json::Value>> = serde_json::from_str(text)?;
    let mut writes = Vec::new();
    for (name, entries) in all {
        writes.push(Write::CostName(name.as_str().into()));
        for (index, value) in entries.into_iter().enumerate() {
            let context = || format!("{name}[{index}]: {value}");
            let entry = LinkCost::deserialize(&value)
                .ok()
                .with_context(context)
                .context("expected {\"a\": …, \"b\": …, \"cost\": …} or {\"switch\": …, \"port\": …, \"cost\": …}")?;
            let (links, cost) = entry.links().with_context(context)?;
            writes.extend(links.into_iter().map(|link| Write::Cost {
                name: name.as_str().into(),
                link,
                cost: Some(cost),
            }));
        }
    }
    Ok(writes)
}

impl LinkCost {
    fn links(&self) -> anyhow::Result<(Vec<LinkName>, u64)> {
        let (links, cost) = match self {
            LinkCost::Switches { a, b, cost, one_way } => {
                let (a, b) = (dpid(a)?, dpid(b)?);
                let back = (!one_way).then_some(LinkName::Switches(b, a));
                ([LinkName::Switches(a, b)].into_iter().chain(back).collect(), *cost)
            }
            LinkCost::Port { switch, port, cost } => {
                let port = port.port()?;
                anyhow::ensure!(port.is_ordinary_or_local(), "there is no port {port}");
                (vec![LinkName::Port(Location::new(dpid(switch)?, port))], *cost)
            }
        };
        anyhow::ensure!(cost > 0, "a cost is at least 1");
        Ok((links, cost))
    }
}

fn dpid(text: &str) -> anyhow::Result<Dpid> {
    text.parse().ok().with_context(|| format!("{text:?} is not a datapath id (hex digits)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn writes_text(writes: &[Write]) -> Vec<String> {
        let show = |write: &Write| match write {
            Write::CostName(name) => name.to_string(),
            Write::Cost { name, link, cost: Some(cost) } => format!("{name} {link:?} {cost}"),
            other => panic!("{other:?}"),
        };
        writes.iter().map(show).collect()
    }

    #[test]
    fn a_pair_of_switches_means_both_directions_unless_it_is_one_way() {
        let text = r#"{"w": [{"a": "1", "b": "2", "cost": 10}, {"a": "00:00:00:00:00:00:00:03", "b": "4", "cost": 2,
            "one_way": true}, {"switch": "ab", "port": 1, "cost": 5}]}"#;
        let switches = |a, b, cost| format!("w Switches({}, {}) {cost}", Dpid(a), Dpid(b));
        let port = format!("w Port({}:1) 5", Dpid(0xab));
        let costs = [switches(1, 2, 10), switches(2, 1, 10), switches(3, 4, 2), port];
        assert_eq!(writes_text(&parse(text).unwrap()), [vec!["w".into()], costs.into()].concat());
    }

    #[test]
    fn a_port_may_be_a_reserved_one() {
        let text = r#"{"w": [{"switch": "3", "port": "LOCAL", "cost": 5}, {"switch": "3", "port": "7", "cost": 5}]}"#;
        let port = |port: &str| format!("w Port({}:{port}) 5", Dpid(3));
        assert_eq!(writes_text(&parse(text).unwrap()), ["w".into(), port("LOCAL"), port("7")]);
    }

    #[test]
    fn mistakes_are_named() {
        let error = |entry: &str| format!("{:#}", parse(&format!(r#"{{"w": [{entry}]}}"#)).unwrap_err());
        assert!(error(r#"{"a": "x", "b": "2", "cost": 1}"#).ends_with(r#""x" is not a datapath id (hex digits)"#));
        assert!(error(r#"{"a": "1", "b": "2", "cost": 0}"#).ends_with("a cost is at least 1"));
        assert!(error(r#"{"switch": "1", "port": 0, "cost": 1}"#).ends_with("there is no port 0"));
        assert!(error(r#"{"a": "1", "cost": 1}"#).starts_with("expected {"));
    }
}
