//! The MTU of links: a packet between switches carries a label of four bytes.

use super::{Bridge, Controller, Finding, Interface};
use maple_controller::control::doctor::{FindingId, Severity, quoted};

/// The MTU of hosts if none is known, in bytes: that of Ethernet (IEEE 802.3 §3.2.7).
const HOSTS: i64 = 1500;
/// The length of a label, in bytes: that of a tag (IEEE 802.1Q §9.3).
const LABEL: i64 = 4;

/// Finds links with a smaller MTU than ports with hosts need.
pub fn findings(bridges: &[&Bridge], controller: &Controller) -> Vec<Finding> {
    let interfaces_of_kind = |kind: &str| -> Vec<(&Bridge, &Interface, i64)> {
        let ports_of = |bridge: &&'_ Bridge| -> Vec<i64> {
            bridge.dpid.map(|dpid| controller.ports(dpid, kind)).unwrap_or_default()
        };
        let mut found = Vec::new();
        for bridge in bridges {
            let numbers = ports_of(bridge);
            let interfaces =
                bridge.interfaces.iter().filter(|one| one.number.is_some_and(|number| numbers.contains(&number)));
            found.extend(interfaces.filter_map(|one| Some((*bridge, one, one.mtu?))));
        }
        found
    };
    let longest = interfaces_of_kind("edge").iter().map(|(_, _, mtu)| *mtu).max().unwrap_or(HOSTS);
    let short = interfaces_of_kind("link").into_iter().filter(|(_, _, mtu)| *mtu < longest);
    let finding = |(bridge, interface, mtu): (&Bridge, &Interface, i64)| {
        Finding::new(Severity::Warning, FindingId::OvsMtu, format!("port {} of bridge {}", interface.name, bridge.name))
            .what(format!(
                "its MTU is {mtu}, and it is a link; hosts send frames of {longest}, and a label adds {LABEL} bytes"
            ))
            .consequence(format!("packets of more than {mtu} bytes are lost between switches, without a word"))
            .mend(format!("ip link set dev {} mtu {}", quoted(&interface.name), longest + LABEL))
    };
    short.map(finding).collect()
}
