//! Advice about a report of the engine, in the words of the command line and the guide.

use maple_core::report::Report;

/// Returns the end of a notice's text: what to do, or where to read on. Empty if there is nothing to say.
pub(super) fn advice(report: &Report) -> String {
    let to_declare = "declare its ports (--middlebox";
    let without = "or do without host tracking (track_hosts=False)";
    match report {
        Report::HostSpoofed { seen, .. } => {
            format!("; if a transparent middlebox passes them on there, {to_declare} {seen},...) {without}")
        }
        Report::HostElsewhere { seen, .. } => format!(
            "; a host that has moved is accepted when it does not answer there; if a transparent middlebox passes its \
             packets on, {to_declare} {seen},...)"
        ),
        Report::HostFlips { .. } => {
            format!(": if a transparent middlebox passes them on, {to_declare} PORT,...) {without}")
        }
        Report::SegmentShared { .. } => {
            "; wires between the switches, or a bridge with two of them and no host, would \
                                         be faster (docs/networks.md)"
                .to_owned()
        }
        Report::SwitchUnreachable(_) => " (docs/control-network.md)".to_owned(),
        Report::Suppressed { .. } => ": `maple show stats` counts the others (reports_suppressed)".to_owned(),
        Report::PolicyWrites { .. } => "; write only what is not there yet".to_owned(),
        Report::RouteGoesBack { .. } => "; to(IN_PORT) does".to_owned(),
        Report::NoRuleForWay { .. } => " (docs/guarding.md)".to_owned(),
        Report::PolicyNotAFunction { reads, .. } if reads.is_empty() => "; `maple check` looks for the read".to_owned(),
        _ => String::new(),
    }
}
