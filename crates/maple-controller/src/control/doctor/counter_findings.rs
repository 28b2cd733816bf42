//! Counters that indicate trouble if they are not zero.

use serde_json::Value;

use super::problems::{refusals, since_and_last, without_label};
use super::{Finding, FindingId, Severity};

/// The trouble that counters indicate.
struct TroubleSign {
    severity: Severity,
    id: FindingId,
    /// The counters, all in `maple show stats`; their sum counts.
    counters: &'static [&'static str],
    /// Counters that other findings report, and that are included in the sum.
    without: &'static [&'static str],
    /// A description of the trouble, after the number.
    what: &'static str,
    consequence: &'static str,
    mend: &'static str,
}

/// The number of forged or repeated probes that is normal: after a take-over, probes of the previous controller arrive.
/// Chosen: a probe or two of each port in a small network; forgers send more.
const PROBES: u64 = 100;

const SIGNS: &[TroubleSign] = &[
    TroubleSign {
        severity: Severity::Error,
        id: FindingId::DuplicateDpid,
        counters: &["of_duplicate_dpids"],
        without: &[],
        what: "connections were refused because a connected switch has the same datapath id",
        consequence: "the controller serves one of the two, and refuses the other",
        mend: "ovs-vsctl set bridge BRIDGE other-config:datapath-id=ID",
    },
    TroubleSign {
        severity: Severity::Warning,
        id: FindingId::HandshakesFail,
        counters: &["of_handshake_failures"],
        without: &["of_tls_failures", "of_wrong_certificates", "of_duplicate_dpids", "of_malformed"],
        what: "connections ended before a switch was known",
        consequence: "whatever connects there is not served; perhaps it speaks other versions than 1.0 and 1.3",
        mend: "maple show errors  # who connects, and why it ends; maple show log says when",
    },
    TroubleSign {
        severity: Severity::Warning,
        id: FindingId::HandshakesFail,
        counters: &["of_malformed"],
        without: &[],
        what: "connections ended because of messages that are not OpenFlow",
        consequence: "whatever connects there is not served, or a switch has to connect again",
        mend: "maple show errors",
    },
    TroubleSign {
        severity: Severity::Note,
        id: FindingId::HandshakesFail,
        counters: &["of_unknown_messages"],
        without: &[],
        what: "messages were of a type that no switch sends; their connections went on",
        consequence: "they are ignored; perhaps a switch has extensions that Maple does not know",
        mend: "maple show errors",
    },
    TroubleSign {
        severity: Severity::Warning,
        id: FindingId::TlsRefused,
        counters: &["of_tls_failures", "of_wrong_certificates"],
        without: &[],
        what: "connections failed in TLS, or had the certificate of another switch",
        consequence: "these switches stay without a controller",
        mend: "maple show errors",
    },
    TroubleSign {
        severity: Severity::Warning,
        id: FindingId::ConnectionsLost,
        counters: &["of_timeouts", "of_not_reading"],
        without: &[],
        what: "connections were closed because the switch did not answer or did not read",
        consequence: "its flows stop changing until it is back: it, its machine or the way to it is too slow",
        mend: "maple show errors",
    },
    TroubleSign {
        severity: Severity::Warning,
        id: FindingId::TableFull,
        counters: &["capacity_refusals"],
        without: &[],
        what: "times a switch had no room for a decision, a label or a host",
        consequence: "flows that do not fit are forwarded by the controller, slowly",
        mend: "maple check POLICY",
    },
    TroubleSign {
        severity: Severity::Warning,
        id: FindingId::RulesChanged,
        counters: &["rules_repaired", "foreign_rules"],
        without: &[],
        what: "rules were missing, altered, or not Maple's: somebody else writes rules",
        consequence: "until the next audit packets go where the other one wants; foreign rules do that for ever",
        mend: "maple show errors",
    },
    TroubleSign {
        severity: Severity::Warning,
        id: FindingId::LabelsUsedUp,
        counters: &["labels_used_up"],
        without: &[],
        what: "times a route was refused a label, because a switch had none left",
        consequence: "its packets go through the controller, slowly, until a label is free",
        mend: "maple run POLICY --labels 1-4094  # if hosts and equipment between switches use no VLAN tags",
    },
    TroubleSign {
        severity: Severity::Warning,
        id: FindingId::TooManyHosts,
        counters: &["host_limit_drops"],
        without: &[],
        what: "packets were dropped because their port or switch has its maximum of hosts",
        consequence: "further hosts there do not reach anybody",
        mend: "maple show errors",
    },
    TroubleSign {
        severity: Severity::Warning,
        id: FindingId::LinkOneWay,
        counters: &["lldp_one_way"],
        without: &[],
        what: "ports saw probes in one direction only",
        consequence: "such a link is not used: a fibre is broken, or equipment between drops frames",
        mend: "maple show errors",
    },
    TroubleSign {
        severity: Severity::Warning,
        id: FindingId::ProbesForged,
        counters: &["lldp_forged", "lldp_replayed"],
        without: &[],
        what: "probes were forged or repeated",
        consequence: "they are ignored, and make no link; but a host, or another controller, tries to",
        mend: "maple show errors",
    },
    TroubleSign {
        severity: Severity::Warning,
        id: FindingId::LinksNotAsDeclared,
        counters: &["lldp_at_edge", "lldp_no_link"],
        without: &[],
        what: "declared edge ports saw probes, or declared link ports saw none",
        consequence: "a cable is not where the configuration says, and no packet takes it",
        mend: "maple show errors",
    },
    TroubleSign {
        severity: Severity::Warning,
        id: FindingId::PolicyFails,
        counters: &["policy_errors"],
        without: &[],
        what: "packets were dropped because the policy failed on them",
        consequence: "such packets are dropped each time",
        mend: "maple show errors",
    },
    TroubleSign {
        severity: Severity::Warning,
        id: FindingId::PolicySlow,
        counters: &["of_shed"],
        without: &[],
        what: "packets were dropped because the policy is too slow for their rate",
        consequence: "new flows lose their first packets while many begin",
        mend: "maple check POLICY",
    },
    TroubleSign {
        severity: Severity::Warning,
        id: FindingId::PolicyUntracked,
        counters: &["rechecks_failed", "inconsistent_runs"],
        without: &[],
        what: "times the policy decided otherwise although nothing that it had read had changed",
        consequence: "rules stay that the policy would no longer make: it reads a clock, a random number, a global or a file",
        mend: "maple check POLICY",
    },
];

/// Returns what the counters of `maple show stats` indicate. For refused connections and labels the errors give the
/// time of the first, and the last one is quoted.
pub fn findings(stats: &Value, errors: &Value) -> Vec<Finding> {
    let finding_for = |sign: &TroubleSign| {
        let sum = |names: &[&str]| -> u64 { names.iter().map(|name| count(stats, name)).sum() };
        let count = sum(sign.counters).saturating_sub(sum(sign.without));
        // Probes that the previous controller sent before a take-over are nobody's fault.
        let few = if sign.id == FindingId::ProbesForged { PROBES } else { 0 };
        let finding = || {
            let reported = match sign.id {
                FindingId::LabelsUsedUp => without_label(errors),
                _ => sign.counters.first().map(|counter| refusals(errors, counter)).unwrap_or_default(),
            };
            let last = since_and_last(&reported);
            Finding::new(sign.severity, sign.id, "the controller")
                .what(format!("since its start {count} {}{last}", sign.what))
                .consequence(sign.consequence)
                .mend(sign.mend)
        };
        (count > few).then(finding)
    };
    SIGNS.iter().filter_map(finding_for).collect()
}

/// Returns a counter of the controller or of the engine.
pub fn count(stats: &Value, name: &str) -> u64 {
    ["controller", "engine"].iter().find_map(|part| stats[*part][name].as_u64()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use crate::Counters;
    use maple_core::engine::Stats;

    use super::*;

    #[test]
    fn each_sign_names_counters_that_exist() {
        let (controller, engine) = (Counters::default(), Stats::default());
        let known: BTreeSet<&str> = controller.iter().chain(engine.iter()).map(|(name, _)| name).collect();
        for sign in SIGNS {
            sign.counters.iter().chain(sign.without).for_each(|name| assert!(known.contains(name), "{name}"));
        }
    }
}
