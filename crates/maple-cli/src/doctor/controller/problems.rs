//! What the recent errors of a controller say about places. Their texts are the only form that the socket has them in.

use std::collections::BTreeMap;

use serde_json::Value;

use super::counters::count;
use super::{Finding, Id, Level, items, text};

/// What is in the text of a host that seems to be at several ports.
const HOSTS: [&str; 2] = [" comes and goes between ", "dropped: the host answers at "];
/// What is in the text of a rule that a switch refuses, after the switch.
const REFUSED: &str = " refused a rule: ";
/// How the text of a rule for a full table ends: with OpenFlow's name of that error.
const FULL: &str = "_FULL";
/// What is in the text of packets that are not limited.
const METERS: &str = "are not limited there";

/// What the errors say.
pub fn findings(errors: &Value, stats: &Value) -> Vec<Finding> {
    let with = |parts: &[&str]| -> Vec<&str> {
        items(errors)
            .map(|error| text(&error["text"]))
            .filter(|text| parts.iter().any(|part| text.contains(part)))
            .collect()
    };
    let mut found = Vec::new();
    let hosts = with(&HOSTS);
    let spoofed = count(stats, "spoofed_drops");
    if !hosts.is_empty() || spoofed > 0 {
        let example = hosts.last().map_or(String::new(), |text| format!("; the last one: {text}"));
        let what = match spoofed {
            0 => format!("hosts come and go between ports{example}"),
            _ => format!("since its start {spoofed} packets came from hosts that are at another port{example}"),
        };
        found.push(
            Finding::new(Level::Warning, Id::HostAtSeveralPorts, "the controller")
                .what(what)
                .so("these packets are dropped: somebody forges, or a middlebox passes packets on")
                .mend("maple show errors"),
        );
    }
    if let Some(text) = with(&[METERS]).last() {
        found.push(
            Finding::new(Level::Warning, Id::NoMeters, "the controller")
                .what(text)
                .so("packets that the policy limits pass there without a limit")
                .mend("use a switch with meters at the edge; Open vSwitch has them in OpenFlow 1.3"),
        );
    }
    // The last one of each switch. Full tables are counted, and told otherwise.
    let refused: BTreeMap<&str, &str> = with(&[REFUSED])
        .into_iter()
        .filter(|text| !text.ends_with(FULL))
        .filter_map(|text| text.split_once(REFUSED))
        .collect();
    found.extend(refused.into_iter().map(|(switch, what)| {
        Finding::new(Level::Warning, Id::RulesRefused, switch)
            .what(format!("it refuses rules; the last one: {what}"))
            .so("packets that these rules were for go through the controller")
            .mend("maple show errors")
    }));
    found
}

#[cfg(test)]
mod tests {
    use maple_core::Location;
    use maple_core::network::Mac;
    use maple_core::report::Report;
    use maple_wire::{Dpid, PortNo};
    use serde_json::json;

    use super::*;

    fn ids(report: &Report, stats: &Value) -> Vec<String> {
        let errors = json!([{ "text": report.to_string() }]);
        findings(&errors, stats)
            .iter()
            .map(|one| one.plain().split([' ', ':']).nth(1).unwrap_or_default().to_owned())
            .collect()
    }

    #[test]
    fn errors_are_recognised_by_the_words_that_the_controller_uses() {
        let (mac, at) = (Mac([0, 0, 0, 0, 0, 1]), |port| Location::new(Dpid(1), PortNo(port)));
        let none = json!({});
        assert_eq!(ids(&Report::HostFlips { mac, a: at(1), b: at(2) }, &none), ["host-at-several-ports"]);
        assert_eq!(ids(&Report::HostSpoofed { mac, at: at(1), seen: at(2) }, &none), ["host-at-several-ports"]);
        let why = "it has none".into();
        assert_eq!(ids(&Report::NotMetered { switch: Dpid(1), why }, &none), ["no-meters"]);
        assert!(ids(&Report::SwitchUp(Dpid(1)), &none).is_empty());
        let full = json!({ "engine": { "capacity_refusals": 1 } });
        assert_eq!(ids(&Report::RuleRefused { switch: Dpid(1), what: "no".into() }, &full), ["rules-refused"]);
        let text = "priority=1 actions=, error OFPFMFC_TABLE_FULL";
        assert!(ids(&Report::RuleRefused { switch: Dpid(1), what: text.into() }, &none).is_empty());
    }
}
