//! What the recent errors of a controller say about places. Their texts are the only form that the socket has them in.

use serde_json::Value;

use super::counters::count;
use super::{Finding, Id, Level, items, text};

/// What is in the text of a host that seems to be at several ports.
const HOSTS: [&str; 2] = [" comes and goes between ", "dropped: the host answers at "];
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
        found.push(
            Finding::new(Level::Warning, Id::HostAtSeveralPorts, "the controller")
                .what(format!("since its start {spoofed} packets came from hosts that are at another port{example}"))
                .so("these packets are dropped: somebody forges, or a middlebox passes packets on")
                .mend("maple run POLICY --middlebox SWITCH:PORT"),
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
    let refused = count(stats, "refused_rules");
    if refused > 0 && count(stats, "capacity_refusals") == 0 {
        found.push(
            Finding::new(Level::Warning, Id::RulesRefused, "the controller")
                .what(format!("since its start switches refused {refused} rules, and no table was full"))
                .so("packets that these rules were for go through the controller")
                .mend("maple show errors"),
        );
    }
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
        let refused = json!({ "engine": { "refused_rules": 2, "capacity_refusals": 0 } });
        assert_eq!(ids(&Report::SwitchUp(Dpid(1)), &refused), ["rules-refused"]);
    }
}
