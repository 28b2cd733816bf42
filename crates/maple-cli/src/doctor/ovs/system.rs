//! Settings that apply to all bridges of an Open vSwitch.

use super::{Bridge, DatabaseRow, Finding, joined};
use maple_controller::control::doctor::{FindingId, Severity, quoted};

/// The oldest version that Maple is tested with: that of Debian 12, which the system tests run.
const TESTED: (u32, u32) = (3, 1);

/// The number of flows in the datapath below which a limit is too low. The default is twenty times as many.
const FLOWS: u64 = 10_000;

/// Returns the faults of Open vSwitch itself.
pub fn findings(root: &DatabaseRow) -> Vec<Finding> {
    let mut found = Vec::new();
    let version = root.text("ovs_version").unwrap_or_default();
    if parse(&version).is_some_and(|version| version < TESTED) {
        let (major, minor) = TESTED;
        found.push(
            Finding::new(Severity::Note, FindingId::OvsVersion, "Open vSwitch")
                .what(format!("its version is {version}; Maple is tested with {major}.{minor}"))
                .consequence("older versions may lack bundles in OpenFlow 1.3, or behave otherwise; nobody has tried")
                .mend(format!("install Open vSwitch {major}.{minor} or newer")),
        );
    }
    if let Some(limit) = root.entry("other_config", "vlan-limit").filter(|limit| limit != "1") {
        found.push(
            Finding::new(Severity::Warning, FindingId::OvsVlanLimit, "Open vSwitch")
                .what(format!("vlan-limit is {limit}"))
                .consequence("of packets with two VLAN tags, switches see fields that the policy does not see: rules for others may take them")
                .mend("ovs-vsctl remove Open_vSwitch . other_config vlan-limit"),
        );
    }
    let flows = root.entry("other_config", "flow-limit").and_then(|limit| limit.parse::<u64>().ok());
    if let Some(limit) = flows.filter(|limit| *limit < FLOWS) {
        found.push(
            Finding::new(Severity::Note, FindingId::OvsFlowTables, "Open vSwitch")
                .what(format!("flow-limit is {limit}: its datapath keeps at most that many flows"))
                .consequence("with more flows than that, packets of known flows go to ovs-vswitchd again and again")
                .mend("ovs-vsctl remove Open_vSwitch . other_config flow-limit"),
        );
    }
    found
}

/// Returns the note about several bridges together, if the kernel has a datapath.
pub fn of_all(bridges: &[&Bridge], root: &DatabaseRow) -> Option<Finding> {
    let is_slow = |bridge: &&&Bridge| bridge.datapath_type.as_deref() == Some("netdev");
    let slow: Vec<&Bridge> = bridges.iter().filter(is_slow).copied().collect();
    if slow.is_empty() || root.is("dpdk_initialized") {
        return None;
    }
    let set = |bridge: &&Bridge| format!("set bridge {} datapath_type=system", quoted(&bridge.name));
    let mend =
        format!("ovs-vsctl {}  # interrupts their traffic", slow.iter().map(set).collect::<Vec<_>>().join(" -- "));
    Some(
        Finding::new(Severity::Note, FindingId::OvsDatapathType, joined(slow.iter().copied()))
            .what("the datapath is in user space (netdev), without DPDK")
            .consequence(
                "one process copies every packet, which is slower than the kernel's datapath, and hosts must not \
                  leave checksums to their interfaces",
            )
            .mend(mend),
    )
}

/// Parses the first two numbers of a version.
fn parse(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.split('.').map(|number| number.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        assert_eq!(parse("2.17.9"), Some((2, 17)));
        assert!(parse("2.17.9") < Some(TESTED) && parse("3.1.0") == Some(TESTED) && parse("3.10.0") > Some(TESTED));
        assert_eq!(parse("new"), None);
    }
}
