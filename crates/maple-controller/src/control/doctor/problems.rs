//! Recent errors of a controller that name places. The socket has them only as texts.

use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};

use crate::timestamp;
use serde_json::Value;

use super::counter_findings::count;
use super::{Finding, FindingId, Severity, items, text};
use maple_wire::counted;

/// Parts of the text about a host that seems to be at several ports.
const HOSTS: [&str; 2] = [" comes and goes between ", "dropped: the host answers at "];
/// The part after the switch in the text about a rule that a switch refuses.
const REFUSED: &str = " refused a rule: ";
/// The end of the text about a rule for a full table: OpenFlow's name of that error.
const FULL: &str = "_FULL";
/// The part after the switch in the text about a look-up that a switch can't do.
const LOWERED: &str = " does not look up ";
/// The part after the switch in the text about a switch without action sets, and the words before the rule there.
const ACTION_SETS: [&str; 2] = [" refuses action sets: ", "; it said so about "];
/// A part of the text about packets that are not limited.
const METERS: &str = "are not limited there";

/// Returns the findings that the errors imply.
pub fn findings(errors: &Value, stats: &Value) -> Vec<Finding> {
    let texts_with = |parts: &[&str]| -> Vec<&str> {
        items(errors)
            .map(|error| text(&error["text"]))
            .filter(|text| parts.iter().any(|part| text.contains(part)))
            .collect()
    };
    let mut found = Vec::new();
    let hosts = texts_with(&HOSTS);
    let spoofed = count(stats, "spoofed_drops");
    if !hosts.is_empty() || spoofed > 0 {
        let example = hosts.last().map_or(String::new(), |text| format!("; the last one: {text}"));
        let what = match spoofed {
            0 => format!("hosts come and go between ports{example}"),
            _ => format!(
                "since its start {} came from hosts that are at another port{example}",
                counted(spoofed, "packet")
            ),
        };
        found.push(
            Finding::new(Severity::Warning, FindingId::HostAtSeveralPorts, "the controller")
                .what(what)
                .consequence("these packets are dropped: somebody forges, or a middlebox passes packets on")
                .mend("maple show errors"),
        );
    }
    if let Some(text) = texts_with(&[METERS]).last() {
        found.push(
            Finding::new(Severity::Warning, FindingId::NoMeters, "the controller")
                .what(text)
                .consequence("packets that the policy limits pass there without a limit")
                .mend("use a switch with meters at the edge; Open vSwitch has them in OpenFlow 1.3"),
        );
    }
    // Of each switch and reason, the last look-up counts.
    let lowered: BTreeMap<(&str, &str), &str> = texts_with(&[LOWERED])
        .into_iter()
        .filter_map(|text| text.split_once(LOWERED))
        .filter_map(|(switch, what)| Some(((switch, what.split_once(": ")?.1), what)))
        .collect();
    found.extend(lowered.into_iter().map(|((switch, _), what)| {
        Finding::new(Severity::Warning, FindingId::LookUpLowered, switch)
            .what(format!("it does not look up {what}"))
            .consequence(
                "there is a rule for each value of these fields there, and not one for all that have the same answer",
            )
            .mend("maple show tables")
    }));
    let no_sets: BTreeMap<&str, &str> = texts_with(&ACTION_SETS[..1])
        .into_iter()
        .filter_map(|text| text.split_once(ACTION_SETS[0]))
        .filter_map(|(switch, what)| Some((switch, what.split_once(ACTION_SETS[1])?.1)))
        .collect();
    found.extend(no_sets.into_iter().map(|(switch, what)| {
        Finding::new(Severity::Note, FindingId::NoActionSets, switch)
            .what(format!("it refuses rules with action sets: {what}"))
            .consequence(
                "a policy that sends packets to wherever their destination is has a decision for each place there",
            )
            .mend("maple show tables")
    }));
    // Of each switch, the last refused rule counts. Full tables are counted and reported elsewhere.
    let refused: BTreeMap<&str, &str> = texts_with(&[REFUSED])
        .into_iter()
        .filter(|text| !text.ends_with(FULL))
        .filter_map(|text| text.split_once(REFUSED))
        .collect();
    found.extend(refused.into_iter().map(|(switch, what)| {
        Finding::new(Severity::Warning, FindingId::RulesRefused, switch)
            .what(format!("it refuses rules; the last one: {what}"))
            .consequence("packets that these rules were for go through the controller")
            .mend("maple show errors")
    }));
    found
}

/// Returns the errors about connections without a known switch that this counter counts.
pub fn refusals<'a>(errors: &'a Value, counter: &str) -> Vec<&'a Value> {
    let is_counted = |error: &&Value| {
        let error = text(&error["text"]);
        let reason = error.strip_prefix("connection from ").and_then(|rest| Some(rest.split_once(" ended: ")?.1));
        reason.is_some_and(|reason| counter_of(reason) == counter)
    };
    items(errors).filter(is_counted).collect()
}

/// Returns the errors about packets without a label. They name the switch where these enter, and the switch without
/// labels.
pub fn without_label(errors: &Value) -> Vec<&Value> {
    items(errors).filter(|error| text(&error["text"]).contains(", without a label: ")).collect()
}

/// Describes the first and the last of such errors: `, the first at 2026-01-02T03:04:05.000Z; the last one: …`. Empty
/// if there are none.
pub fn since_and_last(errors: &[&Value]) -> String {
    let (Some(first), Some(last)) = (errors.first(), errors.last()) else { return String::new() };
    let since = first["time"].as_u64().map(|time| UNIX_EPOCH + Duration::from_millis(time));
    let since = since.map(|since| format!(", the first at {}", timestamp(since))).unwrap_or_default();
    format!("{since}; the last one: {}", text(&last["text"]))
}

/// Returns the counter of connections that ended for this reason before their switch was known.
fn counter_of(reason: &str) -> &'static str {
    if reason.starts_with("TLS: ") || reason.contains("certificate") || reason.contains("the file of switches") {
        "of_tls_failures"
    } else if reason.ends_with("belongs to another connection, which is alive") {
        "of_duplicate_dpids"
    } else if reason.starts_with("malformed message: ") {
        "of_malformed"
    } else {
        "of_handshake_failures"
    }
}

#[cfg(test)]
mod tests {
    use maple_core::Location;
    use maple_core::network::Mac;
    use maple_core::report::{Lowered, Report};
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
    fn packets_without_a_label_are_reported_with_their_switch() {
        let report = |dpid| Report::NotLabelled { ingress: Dpid(dpid), why: "switch 2 has no label left".into() };
        let errors = json!([{ "time": 1_767_225_600_000_u64, "text": report(7).to_string() }, { "text": report(9).to_string() }, { "text": "else" }]);
        let reported = without_label(&errors);
        let expected = format!(", the first at 2026-01-01T00:00:00.000Z; the last one: {}", report(9));
        assert_eq!(since_and_last(&reported), expected);
        assert_eq!(since_and_last(&[]), "");
    }

    #[test]
    fn the_last_refusal_of_each_kind_is_found() {
        use crate::session::CloseReason;
        use crate::tls::NotThisSwitch;

        let text = |reason: CloseReason| format!("connection from 10.0.0.9:1 ended: {reason}");
        let (dpid, certificate) = (Dpid(1), "CN=x".to_owned());
        let reasons = [
            (CloseReason::Tls("expired".into()), "of_tls_failures"),
            (NotThisSwitch::OtherCertificate { dpid, certificate: certificate.clone() }.into(), "of_tls_failures"),
            (NotThisSwitch::Unknown { dpid, certificate: certificate.clone() }.into(), "of_tls_failures"),
            (NotThisSwitch::Expired { dpid, certificate }.into(), "of_tls_failures"),
            (NotThisSwitch::NoCertificate { dpid }.into(), "of_tls_failures"),
            (NotThisSwitch::NotWritten { dpid, why: "full".into() }.into(), "of_tls_failures"),
            (CloseReason::Duplicate(dpid), "of_duplicate_dpids"),
            (CloseReason::Malformed(maple_wire::Error::BadLength { what: "hello", length: 3 }), "of_malformed"),
            (CloseReason::NotHello { version: 0x16, kind: 3 }, "of_handshake_failures"),
            (CloseReason::WrongVersion(9), "of_handshake_failures"),
            (CloseReason::RefusedByPeer("no".into()), "of_handshake_failures"),
        ];
        let all = |counter: &str| -> Vec<String> {
            reasons.iter().filter(|(_, of)| *of == counter).map(|(reason, _)| text(reason.clone())).collect()
        };
        let errors: Value = reasons.iter().map(|(reason, _)| json!({ "text": text(reason.clone()) })).collect();
        for counter in ["of_tls_failures", "of_duplicate_dpids", "of_malformed", "of_handshake_failures"] {
            let found: Vec<&str> =
                refusals(&errors, counter).into_iter().map(|error| super::text(&error["text"])).collect();
            assert_eq!(found, all(counter), "{counter}");
        }
        assert!(refusals(&errors, "of_timeouts").is_empty());
        assert!(refusals(&json!([]), "of_malformed").is_empty());
        // Each reason is tested alone, so that no later one hides it.
        for (reason, counter) in &reasons {
            let errors = json!([{ "text": text(reason.clone()) }]);
            assert!(!refusals(&errors, counter).is_empty(), "{reason}");
        }
    }

    #[test]
    fn errors_are_recognised_by_the_words_that_the_controller_uses() {
        let (mac, at) = (Mac([0, 0, 0, 0, 0, 1]), |port| Location::new(Dpid(1), PortNo(port)));
        let none = json!({});
        assert_eq!(ids(&Report::HostFlips { mac, a: at(1), b: at(2) }, &none), ["host-at-several-ports"]);
        assert_eq!(ids(&Report::HostSpoofed { mac, at: at(1), seen: at(2) }, &none), ["host-at-several-ports"]);
        let why = "it has none".into();
        assert_eq!(ids(&Report::NotMetered { switch: Dpid(1), why }, &none), ["no-meters"]);
        let lowered = |why| {
            let (look_up, fields) = ("ports[eth_dst]".into(), "eth_dst".into());
            Report::LookUpLowered { switch: Dpid(1), look_up, fields, why }
        };
        assert_eq!(ids(&lowered(Lowered::TableFull), &none), ["look-up-lowered"]);
        let no_sets = Report::NoActionSets { switch: Dpid(1), what: "table=1, error OFPBIC_UNSUP_INST".into() };
        assert_eq!(ids(&no_sets, &none), ["no-action-sets"]);
        assert!(ids(&Report::SwitchUp(Dpid(1)), &none).is_empty());
        let full = json!({ "engine": { "capacity_refusals": 1 } });
        assert_eq!(ids(&Report::RuleRefused { switch: Dpid(1), what: "no".into() }, &full), ["rules-refused"]);
        let text = "priority=1 actions=, error OFPFMFC_TABLE_FULL";
        assert!(ids(&Report::RuleRefused { switch: Dpid(1), what: text.into() }, &none).is_empty());
    }
}
