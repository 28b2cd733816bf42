//! Open vSwitch on this host: its database, queried with `ovs-vsctl`, and the faults in it.
//!
//! OpenFlow does not report these settings to a controller: the fail mode of a bridge, its targets, or the MTU of its
//! ports. So they can only be checked on the switch's host.

mod bridge;
mod connection;
mod database;
mod links;
mod system;

use std::path::Path;

use self::bridge::{Bridge, ControllerTarget, Interface};
use self::connection::is_ours;
use self::database::{DatabaseRow, rows};
use super::ask_programs::output;
use super::controller::Controller;
use maple_controller::Endpoint;
use maple_controller::control::doctor::{DoctorReport, Finding};

/// The tables that are rarely used.
const SSL: &str = "SSL";
const FLOW_TABLE: &str = "Flow_Table";
/// The path that exists if the kernel has a datapath.
const KERNEL: &str = "/sys/module/openvswitch";

/// The known facts about the controller of this host.
#[derive(Clone, Debug, Default)]
pub struct Expected {
    /// The addresses on which it listens.
    pub listening: Vec<Endpoint>,
    /// Whether the controller runs.
    pub runs: bool,
    /// Whether `listening` is certain: the controller runs, or a configuration names the addresses.
    pub is_known: bool,
    /// The switches that it serves.
    pub connected: Vec<u64>,
    /// Whether it is one of several, which bridges are to have all.
    pub in_cluster: bool,
}

/// The content of Open vSwitch's database.
#[derive(Clone, Debug, Default)]
pub struct Database {
    root: DatabaseRow,
    bridges: Vec<Bridge>,
    certificates: Vec<String>,
    /// Whether the kernel has a datapath.
    has_kernel: bool,
    /// Tables that could not be listed, with the reasons.
    unseen: Vec<(&'static str, String)>,
}

impl Database {
    /// Queries Open vSwitch.
    ///
    /// # Errors
    /// A text, if `ovs-vsctl` fails or prints something else than tables.
    pub fn ask() -> Result<Database, String> {
        let list = |table: &str| output("ovs-vsctl", &["--timeout=4", "--format=json", "list", table]);
        let root = list("Open_vSwitch")?;
        let [bridges, controllers, ports, interfaces] = ["Bridge", "Controller", "Port", "Interface"].map(list);
        let mut unseen = Vec::new();
        let [ssl, tables] =
            [SSL, FLOW_TABLE].map(|table| list(table).map_err(|why| unseen.push((table, why))).unwrap_or_default());
        let database =
            Database::from_output(&root, [&bridges?, &controllers?, &ports?, &interfaces?], [&ssl, &tables])?;
        Ok(Database { has_kernel: Path::new(KERNEL).exists(), unseen, ..database })
    }

    /// Creates the database from the output of `ovs-vsctl` for each table.
    fn from_output(
        root: &str,
        [bridges, controllers, ports, interfaces]: [&str; 4],
        more: [&str; 2],
    ) -> Result<Database, String> {
        let root = rows(root)?.into_iter().next().unwrap_or_default();
        let (controllers, ports, interfaces) = (rows(controllers)?, rows(ports)?, rows(interfaces)?);
        let [ssl, tables] = more.map(|text| rows(text).unwrap_or_default());
        let bridge = |row: &DatabaseRow| Bridge::from_rows(row, &controllers, &ports, &interfaces, &tables);
        let mut bridges: Vec<Bridge> = rows(bridges)?.iter().map(bridge).collect();
        bridges.sort_by(|a, b| a.name.cmp(&b.name));
        // With `bootstrap_ca_cert` Open vSwitch writes the authority's certificate itself at the first connection.
        let is_to_come = |row: &DatabaseRow, file: &str| row.is("bootstrap_ca_cert") && !Path::new(file).exists();
        let files =
            |row: &DatabaseRow| [row.text("certificate"), row.text("ca_cert").filter(|file| !is_to_come(row, file))];
        let certificates = ssl.iter().flat_map(files).flatten().collect();
        Ok(Database { root, bridges, certificates, ..Database::default() })
    }

    /// Keeps only these bridges. Returns the names that no bridge has.
    pub fn choose(&mut self, names: &[String]) -> Vec<String> {
        let missing = names.iter().filter(|name| !self.bridges.iter().any(|bridge| bridge.name == **name));
        let missing = missing.cloned().collect();
        if !names.is_empty() {
            self.bridges.retain(|bridge| names.contains(&bridge.name));
        }
        missing
    }

    /// Returns the files of its certificates.
    pub fn certificates(&self) -> &[String] {
        &self.certificates
    }

    /// Returns the mask of the cores that its polling threads occupy, if it has such threads.
    pub fn busy_cores(&self) -> Option<String> {
        self.root.entry("other_config", "pmd-cpu-mask")
    }

    /// Reports whether this switch is one of its bridges.
    pub fn has(&self, dpid: u64) -> bool {
        self.bridges.iter().any(|bridge| bridge.dpid == Some(dpid))
    }

    /// Checks everything. `named`: the user named the bridges, so all of them should be Maple's.
    pub fn look(&self, expected: &Expected, controller: Option<&Controller>, named: bool, report: &mut DoctorReport) {
        let names: Vec<&str> = self.bridges.iter().map(|bridge| bridge.name.as_str()).collect();
        let bridges = match names.len() {
            0 => "no bridge".to_owned(),
            1 => format!("the bridge {}", names[0]),
            count => format!("{count} bridges"),
        };
        let version = self.root.text("ovs_version").unwrap_or_default();
        report.add_checked(format!("Open vSwitch {version} on this host, with {bridges}"));
        if !self.bridges.is_empty() {
            report.extend(system::findings(&self.root));
        }
        for (table, why) in &self.unseen {
            report.add_unchecked(format!("the table {table} of Open vSwitch"), why);
        }
        let used: Vec<&Bridge> = self.bridges.iter().filter(|bridge| named || is_ours(bridge, expected)).collect();
        report.extend(connection::findings(&self.bridges, expected, named));
        if self.certificates.is_empty() && self.unseen.iter().all(|(table, _)| *table != SSL) {
            report.extend(connection::without_certificate(&used, expected));
        }
        report.extend(bridge::findings(&used, self.has_kernel));
        report.extend(system::of_all(&used, &self.root).filter(|_| self.has_kernel));
        match controller {
            Some(controller) => report.extend(links::findings(&used, controller)),
            None if used.is_empty() => {}
            None => report.add_unchecked("the MTU of links", "only a running controller knows which ports are links"),
        }
    }
}

/// Returns the place of a finding about a bridge.
fn at(bridge: &Bridge) -> String {
    format!("bridge {}", bridge.name)
}

/// Lists bridges by name.
fn joined<'a>(bridges: impl Iterator<Item = &'a Bridge>) -> String {
    let names: Vec<&str> = bridges.map(|bridge| bridge.name.as_str()).collect();
    match names.len() {
        1 => format!("bridge {}", names[0]),
        0..=8 => format!("bridges {}", names.join(", ")),
        more => format!("bridges {} and {} more", names[..8].join(", "), more - 8),
    }
}

#[cfg(test)]
mod tests;
