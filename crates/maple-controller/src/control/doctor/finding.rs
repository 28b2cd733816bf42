//! Findings, with the lists of what was checked and what could not be checked.

use std::path::Path;

use crate::log::printable_lines;
use crate::names::Names;
use serde_json::{Value, json};

/// The page that explains each id under a heading of its own.
const PAGE: &str = "docs/doctor.md";

/// The severity of a finding, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// A switch, a host or the controller does not work because of the finding.
    Error,
    /// Everything works, but something will go wrong, or goes wrong at times.
    Warning,
    /// Something may be intended, but could be better.
    Note,
}

impl Severity {
    /// Returns the severity's name, as JSON has it.
    pub fn name(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        }
    }
}

/// Generates the ids from one table, in the order of the page.
macro_rules! ids {
    ($($(#[doc = $doc:literal])* $name:ident $id:literal),* $(,)?) => {
        /// The ids of findings.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum FindingId {
            $($(#[doc = $doc])* $name,)*
        }

        impl FindingId {
            /// All ids, in the order of the page.
            pub const ALL: &[FindingId] = &[$(FindingId::$name),*];

            /// Returns the id's name for people and programs. It never changes.
            pub fn name(self) -> &'static str {
                match self {
                    $(FindingId::$name => $id,)*
                }
            }

            /// Returns the meaning of the id in a sentence.
            pub fn meaning(self) -> &'static str {
                match self {
                    $(FindingId::$name => concat!($($doc),*).trim_ascii(),)*
                }
            }
        }
    };
}

ids! {
    /// Open vSwitch can't use a port of a bridge.
    OvsPortError "ovs-port-error",
    /// Two switches have the same datapath id.
    DuplicateDpid "duplicate-dpid",
    /// The datapath id of a bridge is not fixed, or is not the one that was asked for.
    OvsDpid "ovs-datapath-id",
    /// A bridge has no controller.
    OvsNoController "ovs-no-controller",
    /// A bridge connects to another address than that of the controller.
    OvsTarget "ovs-target",
    /// A bridge and the controller disagree about TLS.
    OvsTls "ovs-tls",
    /// A bridge speaks no OpenFlow version that Maple speaks, or only 1.0.
    OvsProtocols "ovs-protocols",
    /// A bridge is not connected to its controller.
    OvsNotConnected "ovs-not-connected",
    /// A bridge has several controllers, and no cluster.
    OvsSeveralControllers "ovs-several-controllers",
    /// A bridge of a cluster has one controller only.
    OvsOneController "ovs-one-controller",
    /// A bridge forwards by itself when the controller is away.
    OvsFailMode "ovs-fail-mode",
    /// A bridge waits long before it connects again.
    OvsMaxBackoff "ovs-max-backoff",
    /// A bridge never notices that its controller is gone.
    OvsInactivityProbe "ovs-inactivity-probe",
    /// A spanning tree protocol blocks ports of a bridge.
    OvsSpanningTree "ovs-spanning-tree",
    /// The tables of a bridge are made smaller than they could be, or drop rules by themselves.
    OvsFlowTables "ovs-flow-tables",
    /// Open vSwitch looks after more VLAN tags than Maple.
    OvsVlanLimit "ovs-vlan-limit",
    /// Links between switches take shorter frames than ports with hosts.
    OvsMtu "ovs-mtu",
    /// A bridge forwards in user space.
    OvsDatapathType "ovs-datapath-type",
    /// Open vSwitch is older than what Maple is tested with.
    OvsVersion "ovs-version",
    /// A controller does not answer.
    ControllerSilent "controller-silent",
    /// No switch is connected.
    NoSwitch "no-switch",
    /// etcd does not answer a controller of a cluster.
    EtcdAway "etcd-away",
    /// No controller of a cluster is master.
    NoMaster "no-master",
    /// A cluster has one controller only.
    NoStandby "no-standby",
    /// No switch is connected to a standby.
    StandbyUnlisted "standby-unlisted",
    /// A standby does not get what the master of its cluster has decided.
    NoCopy "no-copy",
    /// A switch that was connected has no control connection.
    SwitchUnreachable "switch-unreachable",
    /// The controller is of another version than this command.
    VersionDiffers "version-differs",
    /// No file keeps what the network has decided over a restart.
    NoStateFile "no-state-file",
    /// The controller can't keep one of its files.
    FileNotKept "file-not-kept",
    /// Connections of switches fail before they are used.
    HandshakesFail "handshakes-fail",
    /// Sessions of TLS fail.
    TlsRefused "tls-refused",
    /// Connections of switches end because they do not answer.
    ConnectionsLost "connections-lost",
    /// A switch does not read what it is sent.
    SwitchSlow "switch-slow",
    /// A switch speaks OpenFlow 1.0.
    OpenFlow10 "openflow-10",
    /// A switch has too few tables for all that Maple can do.
    FewTables "few-tables",
    /// A switch makes changes of rules one by one.
    NoBundles "no-bundles",
    /// A switch can't limit packets as the policy demands.
    NoMeters "no-meters",
    /// A table is nearly full.
    TableNearlyFull "table-nearly-full",
    /// A table is full.
    TableFull "table-full",
    /// A switch refuses rules.
    RulesRefused "rules-refused",
    /// A switch can't do a look-up.
    LookUpLowered "look-up-lowered",
    /// A switch can't have one decision for all places.
    NoActionSets "no-action-sets",
    /// Somebody else changes rules.
    RulesChanged "rules-changed",
    /// A switch has no labels left.
    LabelsUsedUp "labels-used-up",
    /// A host is at several ports.
    HostAtSeveralPorts "host-at-several-ports",
    /// A port has more hosts than it may have.
    TooManyHosts "too-many-hosts",
    /// A link carries probes in one direction only.
    LinkOneWay "link-one-way",
    /// Somebody sends forged or repeated probes.
    ProbesForged "probes-forged",
    /// Links are not where the configuration declares them.
    LinksNotAsDeclared "links-not-as-declared",
    /// The policy fails on packets.
    PolicyFails "policy-fails",
    /// The policy is too slow.
    PolicySlow "policy-slow",
    /// The policy reads what Maple can't track.
    PolicyUntracked "policy-untracked",
    /// The configuration is wrong.
    Configuration "configuration",
    /// Another program listens where the controller would.
    PortInUse "port-in-use",
    /// Nobody listens on a control socket.
    StaleSocket "stale-socket",
    /// The controller may not write its state file.
    StateFile "state-file",
    /// Files for TLS are wrong.
    TlsFiles "tls-files",
    /// A certificate expires.
    CertificateExpires "certificate-expires",
    /// The controller may open files for fewer switches than it has.
    FileLimit "file-limit",
    /// The controller's workers share cores.
    CoresShared "cores-shared",
    /// The controller may use less processor time than it has workers for.
    CpuQuota "cpu-quota",
    /// The kernel keeps few connections waiting.
    ListenBacklog "listen-backlog",
    /// The clock was set while the controller ran.
    ClockStepped "clock-stepped",
    /// The clock is not synchronised.
    ClockNotSynchronised "clock-not-synchronised",
    /// The service failed, or is started again and again.
    ServiceFailed "service-failed",
    /// Python is too old for policies.
    PythonVersion "python-version",
}

impl FindingId {
    /// Returns the page and heading that explain it.
    pub fn page(self) -> String {
        format!("{PAGE}#{}", self.name())
    }
}

/// A present or future fault. Its texts have no control characters, whatever their source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    severity: Severity,
    id: FindingId,
    place: String,
    what: String,
    consequence: String,
    mend: String,
}

impl Finding {
    /// Creates a finding at a place: `bridge s1`, a file, `the controller`.
    pub fn new(severity: Severity, id: FindingId, place: impl AsRef<str>) -> Finding {
        let (what, consequence, mend) = Default::default();
        Finding { severity, id, place: clean(place.as_ref()), what, consequence, mend }
    }

    /// Sets the description of the fault.
    pub fn what(self, text: impl AsRef<str>) -> Finding {
        Finding { what: clean(text.as_ref()), ..self }
    }

    /// Sets the consequence.
    pub fn consequence(self, text: impl AsRef<str>) -> Finding {
        Finding { consequence: clean(text.as_ref()), ..self }
    }

    /// Sets the remedy: a command if there is one.
    pub fn mend(self, text: impl AsRef<str>) -> Finding {
        Finding { mend: clean(text.as_ref()), ..self }
    }

    /// Returns the severity.
    pub fn severity(&self) -> Severity {
        self.severity
    }

    /// Writes the finding in a few lines, with the severity as given, and with names in place of ids. Commands keep
    /// ids, because they need them.
    pub fn text(&self, severity: &str, names: &Names) -> String {
        let Finding { id, place, what, consequence, mend, .. } = self;
        let (place, what, consequence) = (names.in_text(place), names.in_text(what), names.in_text(consequence));
        let (name, page) = (id.name(), id.page());
        format!("{severity} {name}: {place}: {what}\n  then: {consequence}\n  mend: {mend}\n  page: {page}\n")
    }

    /// Writes the finding without names.
    pub fn plain(&self) -> String {
        self.text(self.severity.name(), &Names::new())
    }

    fn to_json(&self) -> Value {
        let Finding { severity, id, place, what, consequence, mend } = self;
        json!({
            "id": id.name(), "level": severity.name(), "what": what, "where": place, "consequence": consequence, "mend": mend,
            "page": id.page(),
        })
    }
}

/// Puts text into one line, without control characters.
fn clean(text: &str) -> String {
    printable_lines(text.trim()).replace('\n', " ")
}

/// Quotes a path or a name for a shell.
pub fn quoted(text: impl AsRef<Path>) -> String {
    let text = text.as_ref().display().to_string();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

/// The results of a visit.
#[derive(Debug, Default)]
pub struct DoctorReport {
    findings: Vec<Finding>,
    checked: Vec<String>,
    unchecked: Vec<(String, String)>,
}

impl DoctorReport {
    /// Adds a finding.
    pub fn add(&mut self, finding: Finding) {
        self.findings.push(finding);
    }

    /// Adds findings.
    pub fn extend(&mut self, findings: impl IntoIterator<Item = Finding>) {
        self.findings.extend(findings);
    }

    /// Records that something was checked.
    pub fn add_checked(&mut self, what: impl AsRef<str>) {
        self.checked.push(clean(what.as_ref()));
    }

    /// Records that something could not be checked, with the reason.
    pub fn add_unchecked(&mut self, what: impl AsRef<str>, why: impl AsRef<str>) {
        self.unchecked.push((clean(what.as_ref()), clean(why.as_ref())));
    }

    /// Sorts the findings, the worst first.
    pub fn sort(&mut self) {
        self.findings.sort_by(|a, b| (a.severity, a.id, &a.place).cmp(&(b.severity, b.id, &b.place)));
    }

    /// Adds the controller's socket to the commands that query it, because it is not at the default path.
    pub fn name_control(&mut self, control: &Path) {
        let asks = |finding: &&mut Finding| {
            finding.mend.starts_with("maple show ") || finding.mend.contains("maple doctor --bridge ")
        };
        for finding in self.findings.iter_mut().filter(asks) {
            finding.mend = clean(&format!("{} --control {}", finding.mend, quoted(control)));
        }
    }

    /// Returns the findings.
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// Returns the list of what was checked.
    pub fn checked(&self) -> &[String] {
        &self.checked
    }

    /// Returns the list of what could not be checked, with the reasons.
    pub fn unchecked(&self) -> &[(String, String)] {
        &self.unchecked
    }

    /// Returns the report as JSON.
    pub fn to_json(&self) -> Value {
        let unseen = |(what, why): &(String, String)| json!({ "what": what, "why": why });
        json!({
            "findings": self.findings.iter().map(Finding::to_json).collect::<Vec<_>>(),
            "looked_at": self.checked,
            "not_looked_at": self.unchecked.iter().map(unseen).collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    use crate::names::Named;
    use maple_wire::Dpid;

    #[test]
    fn each_finding_id_has_a_heading_on_the_page_and_each_heading_an_id() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(PAGE);
        let text = std::fs::read_to_string(&page).expect("the page is there");
        let headings: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("### ")).collect();
        let ids: Vec<&str> = FindingId::ALL.iter().map(|id| id.name()).collect();
        assert_eq!(headings, ids, "in this order");
        assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "each once");
        // The anchor of a heading is its text in lower case, with hyphens.
        assert!(
            ids.iter()
                .all(|id| id.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-' || byte.is_ascii_digit()))
        );
        assert_eq!(FindingId::OvsFailMode.page(), "docs/doctor.md#ovs-fail-mode");
    }

    #[test]
    fn names_take_the_place_of_ids_but_not_in_commands() {
        let mut names = Names::new();
        names.add("core1", Named::Switch(Dpid(1))).expect("a name");
        let id = "0000000000000001";
        let finding = Finding::new(Severity::Note, FindingId::FewTables, format!("switch {id}"))
            .what(id)
            .consequence(id)
            .mend(id);
        let page = "docs/doctor.md#few-tables";
        let wanted = format!("note few-tables: switch core1: core1\n  then: core1\n  mend: {id}\n  page: {page}\n");
        assert_eq!(finding.text("note", &names), wanted);
    }

    #[test]
    fn the_worst_comes_first_and_nothing_can_control_a_terminal() {
        let mut report = DoctorReport::default();
        report.add(Finding::new(Severity::Note, FindingId::OvsVersion, "b"));
        report.add(Finding::new(Severity::Warning, FindingId::OvsFailMode, "bridge s2"));
        report.add(
            Finding::new(Severity::Warning, FindingId::OvsFailMode, "bridge \u{1b}[31ms1\n")
                .what("\u{7}it\nis")
                .mend("m"),
        );
        report.sort();
        let reported: Vec<(Severity, &str)> =
            report.findings().iter().map(|one| (one.severity, one.place.as_str())).collect();
        let first = (Severity::Warning, "bridge \\u{1b}[31ms1");
        assert_eq!(reported, [first, (Severity::Warning, "bridge s2"), (Severity::Note, "b")]);
        assert_eq!(
            report.findings()[0].plain(),
            "warning ovs-fail-mode: bridge \\u{1b}[31ms1: \\u{7}it is\n  then: \n  mend: m\n  page: docs/doctor.md#ovs-fail-mode\n"
        );
    }
}
