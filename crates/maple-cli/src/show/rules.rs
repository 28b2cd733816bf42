//! `maple show rules`: the selection of rules, and their number.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::IpAddr;

use anyhow::bail;
use maple_controller::names::Names;
use maple_core::Mac;
use serde_json::Value;

use super::{items, plain, retain};

/// The maximum number of rules that are shown by default. Chosen: some screens; beyond it only sums are shown, and
/// `--all` shows the rules.
const DEFAULT_SHOWN: usize = 500;

/// The selection of rules.
#[derive(Debug)]
pub struct RuleSelection<'a> {
    table: Option<u8>,
    /// A host's addresses in the form that rules have.
    host: Option<Vec<String>>,
    /// The end of a line's name.
    line: Option<&'a str>,
}

impl<'a> RuleSelection<'a> {
    /// Creates a selection. `hosts`: the hosts that the controller knows, with their addresses.
    ///
    /// # Errors
    /// If `host` is neither a name, nor a MAC or IP address.
    pub fn new(
        names: &Names,
        hosts: &Value,
        table: Option<u8>,
        host: Option<&str>,
        line: Option<&'a str>,
    ) -> anyhow::Result<RuleSelection<'a>> {
        let host = match host {
            None => None,
            Some(text) => match (text.parse::<IpAddr>(), text.parse::<Mac>(), names.host(text)) {
                (Ok(ip), ..) => Some(vec![ip.to_string()]),
                (_, Ok(mac), _) => Some(vec![mac.to_string()]),
                (.., Ok(mac)) => Some(addresses(&mac.to_string(), hosts)),
                _ => {
                    bail!(
                        "--host {text:?}: that is neither a host's name, nor a MAC address such as 00:00:00:00:00:01, nor an IP address"
                    )
                }
            },
        };
        Ok(RuleSelection { table, host, line })
    }

    /// Reports whether the selection leaves anything out.
    pub fn is_some(&self) -> bool {
        self.table.is_some() || self.host.is_some() || self.line.is_some()
    }

    /// Removes all other rules, and switches that have none left.
    pub fn choose(&self, answer: &mut Value) {
        if !self.is_some() {
            return;
        }
        for switch in answer.as_array_mut().into_iter().flatten() {
            retain(&mut switch["rules"], |rule| self.wants(rule));
        }
        retain(answer, |switch| items(&switch["rules"]).next().is_some());
    }

    fn wants(&self, rule: &Value) -> bool {
        let (flow, why) = (rule["flow"].as_str().unwrap_or_default(), rule["why"].as_str().unwrap_or_default());
        let value = |part: &str| part.split_once('=').map(|(_, value)| value.to_owned());
        self.table.is_none_or(|wanted| wanted == table(flow))
            && self.host.as_ref().is_none_or(|host| parts(flow).filter_map(value).any(|value| host.contains(&value)))
            && self.line.is_none_or(|line| why.split(", ").any(|place| place.ends_with(line)))
    }
}

/// Returns all addresses of the host with this hardware address.
fn addresses(mac: &str, hosts: &Value) -> Vec<String> {
    let host = items(hosts).filter(|host| host["mac"] == *mac);
    let others = host.flat_map(|host| items(&host["ipv4"]).chain(items(&host["ipv6"]))).map(plain);
    [mac.to_owned()].into_iter().chain(others).collect()
}

/// Returns the parts of a rule's match, in the form of `ovs-ofctl`.
fn parts(flow: &str) -> impl Iterator<Item = &str> {
    let matching = flow.split(" actions=").next().unwrap_or_default();
    matching.split([',', ' ']).filter(|part| !part.is_empty())
}

fn table(flow: &str) -> u8 {
    parts(flow).find_map(|part| part.strip_prefix("table=")?.parse().ok()).unwrap_or_default()
}

/// Writes the number of rules by switch and table, and the rules if they are few or if `all` is set.
pub fn text(answer: &Value, all: bool) -> String {
    let count: usize = items(answer).map(|switch| items(&switch["rules"]).count()).sum();
    let mut text: String = items(answer).map(summary).collect();
    if all || count <= DEFAULT_SHOWN {
        text.extend(items(answer).map(rules));
    } else {
        let _ = writeln!(text, "{count} rules: a SWITCH, --table, --host or --line chooses some, --all shows them");
    }
    text
}

fn summary(switch: &Value) -> String {
    let mut tables: BTreeMap<u8, usize> = BTreeMap::new();
    for rule in items(&switch["rules"]) {
        *tables.entry(table(rule["flow"].as_str().unwrap_or_default())).or_default() += 1;
    }
    let each: Vec<String> = tables.iter().map(|(table, count)| format!("{count} in table {table}")).collect();
    let total: usize = tables.values().sum();
    let rules = if total == 1 { "rule" } else { "rules" };
    // A request for rules makes the controller ask the switch for counters. They are older only if the switch was busy.
    let age = match switch["counted_seconds_ago"].as_f64() {
        Some(age) if age > 3.0 => format!(" (counted {age:.0} s ago)"),
        _ => String::new(),
    };
    format!(
        "switch {}: {total} {rules}{}{}{age}\n",
        plain(&switch["switch"]),
        if each.is_empty() { "" } else { ", " },
        each.join(", ")
    )
}

/// Writes the rules of a switch, each below its purpose.
fn rules(switch: &Value) -> String {
    let mut text = format!("switch {}\n", plain(&switch["switch"]));
    let mut last = &Value::Null;
    for rule in items(&switch["rules"]) {
        if rule["why"] != *last && !plain(&rule["why"]).is_empty() {
            let _ = writeln!(text, "  # {}", plain(&rule["why"]));
        }
        last = &rule["why"];
        let _ = writeln!(text, "  {}", counted(rule));
    }
    text
}

/// Writes the rule in the form of `ovs-ofctl`, with its counters if they are known.
fn counted(rule: &Value) -> String {
    let flow = plain(&rule["flow"]).trim_start().to_owned();
    let at = flow.find("send_flow_rem").or_else(|| flow.find("priority="));
    match (rule["n_packets"].as_u64(), rule["n_bytes"].as_u64(), at) {
        (Some(packets), Some(bytes), Some(at)) => {
            format!("{}n_packets={packets}, n_bytes={bytes}, {}", &flow[..at], &flow[at..])
        }
        _ => flow,
    }
}

#[cfg(test)]
mod tests {
    use maple_controller::names::Named;
    use serde_json::json;

    use super::*;

    fn answer() -> Value {
        let rule = |flow: &str, why: &str| json!({"flow": flow, "why": why});
        json!([
            {"switch": "1", "rules": [
                rule(" cookie=0x1, priority=5 actions=goto_table:1", "maple: everything else"),
                rule(" cookie=0x1, table=1, priority=7,dl_src=00:00:00:00:00:01 actions=output:2", "a.py:4, a.py:14"),
                rule(" cookie=0x2, table=1, priority=6,ip,nw_dst=10.0.0.1 actions=output:1", ""),
            ]},
            {"switch": "2", "rules": [rule(" cookie=0x1, priority=5 actions=drop", "maple: everything else")]},
        ])
    }

    fn chosen(table: Option<u8>, host: Option<&str>, line: Option<&str>) -> Vec<usize> {
        let mut answer = answer();
        let mut names = Names::new();
        names.add("h1", Named::Host(Mac([0, 0, 0, 0, 0, 1]))).expect("a name");
        let hosts = json!([{"mac": "00:00:00:00:00:01", "ipv4": ["10.0.0.1"], "ipv6": []}]);
        RuleSelection::new(&names, &hosts, table, host, line).expect("an address").choose(&mut answer);
        items(&answer).map(|switch| items(&switch["rules"]).count()).collect()
    }

    #[test]
    fn rules_are_chosen_by_table_host_and_line() {
        assert_eq!(chosen(None, None, None), [3, 1]);
        assert_eq!(chosen(Some(1), None, None), [2]);
        assert_eq!(chosen(None, Some("00:00:00:00:00:01"), None), [1]);
        assert_eq!(chosen(None, Some("10.0.0.1"), None), [1]);
        assert_eq!(chosen(None, Some("10.0.0.2"), None), [0; 0]);
        assert_eq!(chosen(None, Some("h1"), None), [2], "by each of its addresses");
        assert_eq!(chosen(None, None, Some("a.py:4")), [1]);
        assert_eq!(chosen(None, None, Some("py:1")), [0; 0], "a whole line's number");
        let error = RuleSelection::new(&Names::new(), &Value::Null, None, Some("h1"), None)
            .expect_err("no address")
            .to_string();
        assert!(error.contains("nor a MAC address"), "{error}");
    }

    #[test]
    fn rules_say_what_they_took_where_that_is_known() {
        let mut answer = answer();
        answer[0]["counted_seconds_ago"] = json!(61.4);
        (answer[0]["rules"][1]["n_packets"], answer[0]["rules"][1]["n_bytes"]) = (json!(3), json!(180));
        let reported = text(&answer, false);
        assert!(
            reported.starts_with("switch 1: 3 rules, 1 in table 0, 2 in table 1 (counted 61 s ago)\n"),
            "{reported}"
        );
        assert!(reported.contains("  cookie=0x1, table=1, n_packets=3, n_bytes=180, priority=7,dl_src="), "{reported}");
        assert!(reported.contains("  cookie=0x1, priority=5 actions=goto_table:1"), "{reported}");
    }

    #[test]
    fn the_summary_comes_first_and_no_empty_comment() {
        let reported = text(&answer(), false);
        assert!(
            reported.starts_with(
                "switch 1: 3 rules, 1 in table 0, 2 in table 1\nswitch 2: 1 rule, 1 in table 0\nswitch 1\n"
            )
        );
        assert!(!reported.lines().any(|line| line.trim() == "#"), "{reported}");
        let many = json!([{"switch": "1", "rules": vec![json!({"flow": "priority=1 actions=drop", "why": "x"}); DEFAULT_SHOWN + 1]}]);
        assert!(text(&many, false).contains("501 rules: a SWITCH"));
        assert_eq!(text(&many, true).lines().count(), 1 + 1 + 1 + 501);
    }
}
