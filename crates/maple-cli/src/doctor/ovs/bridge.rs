//! A bridge of Open vSwitch, and what is wrong with its own settings.

use super::database::DatabaseRow;
use super::{Finding, at};
use maple_controller::control::doctor::{FindingId, Severity, quoted};
use maple_wire::parse_hex;

/// The maximum time that a bridge waits before it connects again, by default, in milliseconds (`max_backoff`,
/// ovs-vswitchd.conf.db(5)).
const DEFAULT_BACKOFF: i64 = 8000;

/// A bridge.
#[derive(Clone, Debug)]
pub struct Bridge {
    /// The random id of its row in Open vSwitch's database.
    id: String,
    pub name: String,
    pub dpid: Option<u64>,
    /// The datapath id that its configuration requests.
    wanted_dpid: Option<String>,
    fail_mode: Option<String>,
    pub protocols: Vec<String>,
    pub datapath_type: Option<String>,
    spanning_tree: Option<&'static str>,
    pub targets: Vec<ControllerTarget>,
    pub interfaces: Vec<Interface>,
    /// The settings of its tables: number, limit, and overflow policy.
    flow_tables: Vec<(i64, Option<i64>, Option<String>)>,
}

/// A controller that a bridge connects to.
#[derive(Clone, Debug)]
pub struct ControllerTarget {
    /// The id of its row, as `ovs-vsctl` accepts it.
    record: String,
    pub target: String,
    pub is_connected: bool,
    pub last_error: Option<String>,
    max_backoff: Option<i64>,
    inactivity_probe: Option<i64>,
}

/// A port, or one of several interfaces of it.
#[derive(Clone, Debug)]
pub struct Interface {
    pub name: String,
    pub number: Option<i64>,
    pub mtu: Option<i64>,
    error: Option<String>,
}

impl Bridge {
    /// Creates a bridge from its row and the rows of other tables.
    pub fn from_rows(
        row: &DatabaseRow,
        controllers: &[DatabaseRow],
        ports: &[DatabaseRow],
        interfaces: &[DatabaseRow],
        tables: &[DatabaseRow],
    ) -> Bridge {
        fn find<'a>(rows: &'a [DatabaseRow], ids: &[String]) -> Vec<&'a DatabaseRow> {
            rows.iter().filter(|row| ids.contains(&row.id())).collect()
        }
        let name = row.text("name").unwrap_or_default();
        let is_only = row.ids("controller").len() == 1;
        let target = |row: &DatabaseRow| ControllerTarget {
            record: if is_only { quoted(&name) } else { row.id() },
            target: row.text("target").unwrap_or_default(),
            is_connected: row.is("is_connected"),
            last_error: row.entry("status", "last_error"),
            max_backoff: row.number("max_backoff"),
            inactivity_probe: row.number("inactivity_probe"),
        };
        let interface = |row: &DatabaseRow| Interface {
            name: row.text("name").unwrap_or_default(),
            number: row.number("ofport").filter(|number| *number > 0),
            mtu: row.number("mtu"),
            error: row.text("error"),
        };
        // Targets of other kinds listen, for ovs-ofctl.
        let is_active =
            |target: &ControllerTarget| target.target.starts_with("tcp:") || target.target.starts_with("ssl:");
        let mut targets: Vec<ControllerTarget> =
            find(controllers, &row.ids("controller")).into_iter().map(target).filter(is_active).collect();
        targets.sort_by(|a, b| a.target.cmp(&b.target));
        let inside = find(ports, &row.ids("ports")).into_iter().flat_map(|port| port.ids("interfaces"));
        let inside: Vec<String> = inside.collect();
        let mut interfaces: Vec<Interface> = find(interfaces, &inside).into_iter().map(interface).collect();
        interfaces.sort_by(|a, b| a.name.cmp(&b.name));
        let table = |(number, id): (i64, String)| {
            let row = tables.iter().find(|row| row.id() == id)?;
            Some((number, row.number("flow_limit"), row.text("overflow_policy")))
        };
        let protocols = [("stp_enable", "stp_enable"), ("rstp_enable", "rstp_enable")];
        Bridge {
            id: row.id(),
            dpid: row.text("datapath_id").and_then(|id| parse_hex(&id)),
            wanted_dpid: row.entry("other_config", "datapath-id"),
            fail_mode: row.text("fail_mode"),
            protocols: row.texts("protocols"),
            datapath_type: row.text("datapath_type"),
            spanning_tree: protocols.into_iter().find(|(column, _)| row.is(column)).map(|(_, name)| name),
            targets,
            interfaces,
            flow_tables: row.numbered_ids("flow_tables").into_iter().filter_map(table).collect(),
            name,
        }
    }

    /// Reports whether the bridge has a controller.
    pub fn has_controller(&self) -> bool {
        !self.targets.is_empty()
    }
}

/// Returns the faults of each of these bridges. `has_kernel`: the kernel has a datapath.
pub fn findings(bridges: &[&Bridge], has_kernel: bool) -> Vec<Finding> {
    let mut found: Vec<Finding> = bridges.iter().flat_map(|bridge| of_bridge(bridge, has_kernel)).collect();
    found.extend(duplicates(bridges));
    found
}

fn of_bridge(bridge: &Bridge, has_kernel: bool) -> Vec<Finding> {
    let mut found: Vec<Finding> =
        bridge.interfaces.iter().filter_map(|interface| port_error(bridge, interface, has_kernel)).collect();
    found.extend(fail_mode(bridge));
    found.extend(protocols(bridge));
    found.extend(datapath_id(bridge));
    found.extend(bridge.spanning_tree.map(|name| {
        Finding::new(Severity::Warning, FindingId::OvsSpanningTree, at(bridge))
            .what(format!("{name} is true"))
            .consequence("the spanning tree blocks ports, and Maple takes these for links that are down; paths are longer than need be")
            .mend(format!("ovs-vsctl set bridge {} {name}=false", quoted(&bridge.name)))
    }));
    found.extend(bridge.targets.iter().flat_map(|target| session(bridge, target)));
    found.extend(flow_tables(bridge));
    found
}

fn port_error(bridge: &Bridge, interface: &Interface, has_kernel: bool) -> Option<Finding> {
    let error = interface.error.as_ref()?;
    let finding =
        Finding::new(Severity::Error, FindingId::OvsPortError, format!("port {} of {}", interface.name, at(bridge)));
    let is_own = interface.name == bridge.name;
    let mend = if is_own && !has_kernel && bridge.datapath_type.as_deref() != Some("netdev") {
        format!("ovs-vsctl set bridge {} datapath_type=netdev", quoted(&bridge.name))
    } else {
        // Deleting a port deletes its settings, so the user must decide on it.
        let more = if is_own { "" } else { "  # and delete the port if it is gone for good" };
        format!("ovs-vsctl list interface {}{more}", quoted(&interface.name))
    };
    Some(finding.what(error).consequence("the switch does not have this port: nothing behind it is reached").mend(mend))
}

fn fail_mode(bridge: &Bridge) -> Option<Finding> {
    // Without a controller the change would delete the rules by which the bridge forwards.
    if bridge.fail_mode.as_deref() == Some("secure") || !bridge.has_controller() {
        return None;
    }
    let mode = bridge.fail_mode.as_deref().unwrap_or("standalone, the default");
    Some(
        Finding::new(Severity::Warning, FindingId::OvsFailMode, at(bridge))
            .what(format!("its fail mode is {mode}"))
            .consequence("seconds after the controller is gone, it deletes all rules and forwards like a plain switch: the policy no longer \
                 holds, rings of switches become loops, and Maple takes its rules to stand")
            .mend(format!("ovs-vsctl set-fail-mode {} secure", quoted(&bridge.name))),
    )
}

fn protocols(bridge: &Bridge) -> Option<Finding> {
    // Without a setting all versions are enabled.
    let speaks = |version: &str| bridge.protocols.is_empty() || bridge.protocols.iter().any(|one| one == version);
    if speaks("OpenFlow13") {
        return None;
    }
    let (severity, what, consequence) = if speaks("OpenFlow10") {
        (
            Severity::Note,
            "it speaks OpenFlow 1.0 only, of the versions that Maple speaks".to_owned(),
            "one table, no metadata and no bundles: more rules, updates in two steps, and no limits of packets",
        )
    } else {
        (
            Severity::Error,
            format!("it speaks {} only; Maple speaks OpenFlow10 and OpenFlow13", bridge.protocols.join(", ")),
            "it and the controller find no common version, and it stays without rules",
        )
    };
    let mend = format!("ovs-vsctl add bridge {} protocols OpenFlow13", quoted(&bridge.name));
    Some(Finding::new(severity, FindingId::OvsProtocols, at(bridge)).what(what).consequence(consequence).mend(mend))
}

fn datapath_id(bridge: &Bridge) -> Option<Finding> {
    let dpid = bridge.dpid?;
    let finding = |severity| Finding::new(severity, FindingId::OvsDpid, at(bridge));
    let set = |dpid: u64| format!("ovs-vsctl set bridge {} other-config:datapath-id={dpid:016x}", quoted(&bridge.name));
    match &bridge.wanted_dpid {
        None => Some(
            finding(Severity::Note)
                .what(format!("its datapath id {dpid:016x} is made of the lowest hardware address of its ports"))
                .consequence("when ports come or go the id may change, and the bridge is another switch to Maple")
                .mend(set(dpid)),
        ),
        Some(wanted) if parse_dpid(wanted) != Some(dpid) => Some(
            finding(Severity::Warning)
                .what(format!("other-config:datapath-id is {wanted:?}, which is not a datapath id: it has {dpid:016x}"))
                .consequence("what is configured for the wanted id does not hold for this switch")
                // Usually leading zeros are missing.
                .mend(set(parse_hex(wanted).filter(|wanted| *wanted != 0).unwrap_or(dpid))),
        ),
        Some(_) => None,
    }
}

/// Parses a datapath id like Open vSwitch: 16 hex digits, or any number of them after `0x`.
fn parse_dpid(text: &str) -> Option<u64> {
    let digits = match text.strip_prefix("0x") {
        Some(digits) if digits.len() <= 16 => digits,
        None if text.len() == 16 => text,
        _ => return None,
    };
    parse_hex(digits).filter(|dpid| *dpid != 0)
}

fn session(bridge: &Bridge, target: &ControllerTarget) -> Vec<Finding> {
    let record = &target.record;
    let mut found = Vec::new();
    if let Some(wait) = target.max_backoff.filter(|wait| *wait > DEFAULT_BACKOFF) {
        found.push(
            Finding::new(Severity::Warning, FindingId::OvsMaxBackoff, at(bridge))
                .what(format!("it waits up to {} s before it connects again to {}", wait / 1000, target.target))
                .consequence("after a restart of the controller, new flows have no answer for that long")
                .mend(format!("ovs-vsctl set controller {record} max_backoff=1000")),
        );
    }
    if target.inactivity_probe == Some(0) {
        found.push(
            Finding::new(Severity::Warning, FindingId::OvsInactivityProbe, at(bridge))
                .what(format!("it never probes whether {} is still there", target.target))
                .consequence("if the controller's machine or the network between fails, it does not notice for a quarter of an hour or more")
                .mend(format!("ovs-vsctl set controller {record} inactivity_probe=5000")),
        );
    }
    found
}

fn flow_tables(bridge: &Bridge) -> Option<Finding> {
    let limits =
        bridge.flow_tables.iter().find(|(_, limit, policy)| limit.is_some() || policy.as_deref() == Some("evict"))?;
    let (number, limit, policy) = limits;
    let evicts = policy.as_deref() == Some("evict");
    let limit = limit.map_or("has no limit".to_owned(), |limit| format!("holds at most {limit} rules"));
    let what =
        format!("table {number} {limit}{}", if evicts { ", and deletes rules by itself when it is full" } else { "" });
    let (severity, consequence) = if evicts {
        (Severity::Warning, "it may delete a barrier rule; packets are misrouted until Maple has put that right")
    } else {
        (Severity::Note, "flows that do not fit are forwarded by the controller, slowly")
    };
    let mend =
        format!("ovs-vsctl clear bridge {} flow_tables  # unless somebody wants the limit", quoted(&bridge.name));
    Some(Finding::new(severity, FindingId::OvsFlowTables, at(bridge)).what(what).consequence(consequence).mend(mend))
}

/// Finds bridges with the datapath id of an earlier one.
fn duplicates(bridges: &[&Bridge]) -> Vec<Finding> {
    let mut found = Vec::new();
    for (index, bridge) in bridges.iter().enumerate() {
        let Some(dpid) = bridge.dpid else { continue };
        let Some(first) = bridges[..index].iter().find(|earlier| earlier.dpid == Some(dpid)) else { continue };
        // No other switch of the network may have the new id, so it consists of random digits, which the bridge has
        // already.
        let other: String = bridge.id.chars().filter(|c| *c != '-').take(16).collect();
        found.push(
            Finding::new(Severity::Error, FindingId::DuplicateDpid, at(bridge))
                .what(format!("it has the datapath id {dpid:016x} of bridge {}", first.name))
                .consequence("the controller serves one of the two, and refuses the other")
                .mend(format!("ovs-vsctl set bridge {} other-config:datapath-id={other}", quoted(&bridge.name))),
        );
    }
    found
}
