//! Reports for people: events, and conditions that last and are counted.

mod awaited;
mod lowered;

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use maple_wire::{Dpid, counted};
use serde::{Deserialize, Serialize};

use crate::network::{Location, Mac};
use crate::route_plan::Absence;

pub use awaited::Awaited;
pub(crate) use awaited::rule_line;
pub use lowered::Lowered;

/// The counters of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum CounterKind {
    /// The packets and bytes of its ports.
    Ports,
    /// The packets and bytes of its rules.
    Rules,
}

impl fmt::Display for CounterKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CounterKind::Ports => "ports",
            CounterKind::Rules => "rules",
        })
    }
}

/// The subject of a report. Hosts and peers can cause any number of reports about a port or a switch, so each subject
/// has a bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReportSubject {
    /// The policy: its author makes these reports.
    Policy,
    /// A switch.
    Switch(Dpid),
    /// A port.
    Port(Location),
}

impl fmt::Display for ReportSubject {
    /// Says where it is, as the end of a text; nothing if it is the policy.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReportSubject::Policy => Ok(()),
            ReportSubject::Switch(dpid) => write!(f, " at switch {dpid}"),
            ReportSubject::Port(at) => write!(f, " at {at}"),
        }
    }
}

/// A kind of report that is made once for each distinct case, such as each distinct error of the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum ReportKind {
    /// [`Report::HostFlips`].
    HostFlips,
    /// [`Report::PolicyFailed`].
    PolicyFailed,
    /// [`Report::PolicyWrites`].
    PolicyWrites,
    /// [`Report::PolicyNotAFunction`].
    PolicyNotAFunction,
    /// [`Report::RouteGoesBack`].
    RouteGoesBack,
    /// [`Report::PlaceAbsent`].
    PlaceAbsent,
    /// [`Report::NoRuleForWay`].
    NoRuleForWay,
    /// [`Report::NotLabelled`].
    NotLabelled,
    /// [`Report::NotMetered`].
    NotMetered,
    /// [`Report::RulesLost`].
    RulesLost,
    /// [`Report::RuleRefused`] and [`Report::BundleRefused`].
    Refused,
    /// [`Report::SegmentOfLinks`].
    SegmentOfLinks,
    /// [`Report::LookUpLowered`].
    LookUpLowered,
}

impl fmt::Display for ReportKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ReportKind::HostFlips => "hosts that come and go between ports",
            ReportKind::PolicyFailed => "errors of the policy",
            ReportKind::PolicyWrites => "places where the policy writes for each packet",
            ReportKind::PolicyNotAFunction => "reads of the policy that are not tracked",
            ReportKind::RouteGoesBack => "routes that lead back",
            ReportKind::PlaceAbsent => "places of routes that are not there",
            ReportKind::NoRuleForWay => "ways without rules",
            ReportKind::NotLabelled => "routes without labels",
            ReportKind::NotMetered => "limits without meters",
            ReportKind::RulesLost => "lost rules",
            ReportKind::Refused => "refused rules",
            ReportKind::SegmentOfLinks => "segments of link ports",
            ReportKind::LookUpLowered => "look-ups that are reads",
        })
    }
}

/// An event or condition that is worth a line in the log. The engine reports it when it begins, and counts repetitions
/// in [`crate::engine::Stats`].
///
/// Its text says what happened. What people may do about it is added by those who print it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Report {
    /// A host was seen for the first time.
    #[error("host {mac} found at {at}")]
    HostFound {
        /// The address of the host.
        mac: Mac,
        /// The location of the host.
        at: Location,
    },
    /// A host has moved to another port.
    #[error("host {mac} moved from {from} to {to}: {why}")]
    HostMoved {
        /// The address of the host.
        mac: Mac,
        /// The old location.
        from: Location,
        /// The new location.
        to: Location,
        /// The reason why the move was believed.
        why: MoveReason,
    },
    /// A packet was dropped because its source is located at another port, as far as is known so far. At most one
    /// report a minute for each port where such packets come from.
    #[error(
        "packet from {mac} at {seen} dropped: its source is located at {at}, which is asked whether it is there{}",
        before(.seen, .unreported)
    )]
    HostElsewhere {
        /// The source.
        mac: Mac,
        /// The known location of the host.
        at: Location,
        /// The port where the packet came in.
        seen: Location,
        /// The number of such packets at that port since the last report that were not reported.
        unreported: u64,
    },
    /// Packets with a known host's source address come from another port, and the host still answers at the old one.
    /// The packets are dropped.
    #[error("packets from {mac} at {seen} dropped: the host answers at {at}")]
    HostSpoofed {
        /// The address.
        mac: Mac,
        /// The location of the host.
        at: Location,
        /// The port where the packets come in.
        seen: Location,
    },
    /// Packets with the source of a host that has a fixed place come from another port, and are dropped. One report for
    /// each sender of a port, for a bounded number of senders.
    #[error("packets from {mac} at {seen} dropped: the configuration says that the host is at {at}")]
    HostMisplaced {
        /// The address.
        mac: Mac,
        /// The declared place of the host.
        at: Location,
        /// The port where the packets come in.
        seen: Location,
    },
    /// A host announces an address that the configuration gives to another one. It is ignored. One report for each host
    /// of a port, for a bounded number of hosts.
    #[error(
        "host {mac} at {at} announces {ip}, which is ignored: the configuration says that it is an address of {owner}"
    )]
    AddressOfAnother {
        /// The host.
        mac: Mac,
        /// The location of the host.
        at: Location,
        /// The address.
        ip: IpAddr,
        /// The host to which the configuration gives the address.
        owner: Mac,
    },
    /// A host seems to move to and fro between two ports. A transparent middlebox may forward its packets. One report
    /// for each host and pair of ports.
    #[error("host {mac} comes and goes between {a} and {b}, and packets of it are dropped meanwhile")]
    HostFlips {
        /// The host.
        mac: Mac,
        /// The one port.
        a: Location,
        /// The other port.
        b: Location,
    },
    /// A port, or its switch, has its maximum number of hosts. Packets of further hosts there are dropped. One report
    /// for each port.
    #[error("port {at} sends more than {most} addresses: what new ones send there is dropped")]
    TooManyHosts {
        /// The port.
        at: Location,
        /// The maximum number of hosts.
        most: usize,
    },
    /// A host announces more addresses than are kept for a host. The oldest one is dropped. One report for each host.
    #[error("host {mac} at {at} announces more than {most} IP addresses of a kind: the oldest give way")]
    TooManyAddresses {
        /// The host.
        mac: Mac,
        /// The location of the host.
        at: Location,
        /// The maximum number of addresses of a kind.
        most: usize,
    },
    /// A host is gone with its port or switch, or was silent for too long.
    #[error("host {mac} at {at} lost")]
    HostLost {
        /// The address of the host.
        mac: Mac,
        /// The last location of the host.
        at: Location,
    },
    /// Several ports of switches share a segment, with hosts or with each other. One of them is the segment's way in
    /// and out.
    #[error(
        "a plain bridge joins {}{}: its hosts enter and leave by {at} only, and packets from switch to switch over it go \
         through the controller",
        list(.at, .others),
        .host.map(|mac| format!(" and host {mac}")).unwrap_or_default()
    )]
    SegmentShared {
        /// The port that is the segment's way in and out.
        at: Location,
        /// The other ports, which are shut.
        others: Vec<Location>,
        /// The host that was heard between two switches, if that revealed the segment.
        host: Option<Mac>,
    },
    /// Several ports of switches share a segment, and all of them are declared link ports, so none can be its way in
    /// and out. The segment is not used.
    #[error(
        "a plain bridge joins {}, which are declared link ports: it is not used, as hosts on it would need an edge port",
        list(.at, .others)
    )]
    SegmentOfLinks {
        /// One of the ports.
        at: Location,
        /// The others.
        others: Vec<Location>,
    },
    /// A switch has connected.
    #[error("switch {0} up")]
    SwitchUp(Dpid),
    /// A switch is gone.
    #[error("switch {0} down")]
    SwitchDown(Dpid),
    /// A switch has lost its connection. It is assumed to forward packets as before.
    #[error("switch {0} unreachable: its links, hosts and rules stand")]
    SwitchUnreachable(Dpid),
    /// A switch has a connection again.
    #[error("switch {0} reachable again")]
    SwitchReachable(Dpid),
    /// A link was found.
    #[error("link {0} - {1} up")]
    LinkUp(Location, Location),
    /// A link is gone.
    #[error("link {0} - {1} down")]
    LinkDown(Location, Location),
    /// f failed, and the packet was dropped. One report for each distinct error.
    #[error("policy failed on a packet at {at}: {error}")]
    PolicyFailed {
        /// The error with its traceback, as f's language prints it.
        error: Arc<str>,
        /// The port where the packet entered.
        at: Location,
    },
    /// Reports of a kind exceed the number that is made. [`crate::engine::Stats`] counts the others
    /// (`reports_suppressed`).
    #[error("there are more {kind}{about} than are reported")]
    Suppressed {
        /// The kind of the reports.
        kind: ReportKind,
        /// The subject of the reports.
        about: ReportSubject,
    },
    /// f writes state for all such packets, so they always come to the controller. One report for each place in f.
    #[error("the policy writes for each such packet, so all of them come to the controller: {what}")]
    PolicyWrites {
        /// The cell that f writes, and the source line, if known.
        what: Arc<str>,
    },
    /// A route's only port is the one by which the packet came in. A switch sends nothing there. One report for each
    /// place in f.
    #[error(
        "{place}: the route's only port is the one that the packet came in by ({at}), and a switch sends nothing back there"
    )]
    RouteGoesBack {
        /// The port where the packet entered.
        at: Location,
        /// The source line that made the route, if known.
        place: Arc<str>,
    },
    /// A route has a place that is absent, which gets nothing. One report for each place, and one for an absent switch.
    #[error("{place}: the route leaves out {}", absence(.at, .why))]
    PlaceAbsent {
        /// The place.
        at: Location,
        /// The reason why it is absent.
        why: Absence,
        /// The source line that made the route, if known.
        place: Arc<str>,
    },
    /// A constraint refused a route, and the packet was dropped. One report for each constraint and line.
    #[error("{place}: the route of a packet at {at} violates {constraint}: {why}; such packets are dropped")]
    ConstraintViolated {
        /// The constraint, with its line, if known.
        constraint: Arc<str>,
        /// The fault of the route.
        why: Arc<str>,
        /// The source line that made the route, if known.
        place: Arc<str>,
        /// The port where the packet entered.
        at: Location,
    },
    /// A packet that a constraint binds to the switches of its path was dropped, because no rule leads along the path:
    /// the rules are still being sent, or cannot be installed. One report for each port.
    #[error(
        "a packet at {at} was dropped: a constraint says which switches it passes, and no rule leads it along them"
    )]
    NoRuleForWay {
        /// The port where the packet entered.
        at: Location,
    },
    /// A packet was decided by a rule that logs.
    #[error("{what}: {packet} at {at}{}", more(.unreported))]
    AccessLogged {
        /// The decision, and the rule that made it.
        what: Arc<str>,
        /// The packet in one line.
        packet: Arc<str>,
        /// The port where the packet entered.
        at: Location,
        /// The number of packets of this rule since the last report that were not reported.
        unreported: u64,
    },
    /// f gave different answers although it observed the same: it reads something that is not tracked.
    #[error("the policy depends on untracked state: {}{what}", join_reads(.reads))]
    PolicyNotAFunction {
        /// Both traces, with source lines.
        what: Arc<str>,
        /// The reads in the source that can't be tracked, as far as they can be found.
        reads: Arc<[Arc<str>]>,
    },
    /// A route can't have the labels that it needs. The controller forwards its packets. One report for each reason.
    #[error("packets that enter at switch {ingress} go through the controller, without a label: {why}")]
    NotLabelled {
        /// The switch where its packets enter.
        ingress: Dpid,
        /// The reason.
        why: Arc<str>,
    },
    /// A switch refused a rule. The controller forwards the packets of that rule.
    #[error("switch {switch} refused a rule: {what}")]
    RuleRefused {
        /// The switch.
        switch: Dpid,
        /// The error of the switch, and the rule that it is about.
        what: Arc<str>,
    },
    /// A switch can't do a look-up: there, the policy reads the fields of its key. One report for each look-up and
    /// reason.
    #[error("switch {switch} does not look up {look_up}, but reads {fields}: {why}")]
    LookUpLowered {
        /// The switch.
        switch: Dpid,
        /// The look-up, as policies write it.
        look_up: Arc<str>,
        /// The fields of its key.
        fields: Arc<str>,
        /// The reason.
        why: Lowered,
    },
    /// A switch announced more tables than it takes rules in: it refused a rule that each table must have. It is used
    /// with those before.
    #[error(
        "switch {switch} says that it has more tables than it takes rules in: from now on {} used, and it connects \
         again; it refused {what}", used(.tables)
    )]
    FewerTables {
        /// The switch.
        switch: Dpid,
        /// The number of tables that are used.
        tables: u8,
        /// The error of the switch, and the rule that it is about.
        what: Arc<str>,
    },
    /// A switch refuses rules which write or clear the action sets of packets. No decision is for all places there.
    #[error(
        "switch {switch} refuses action sets: from now on there is a decision for each place, and it connects again; it \
         said so about {what}"
    )]
    NoActionSets {
        /// The switch.
        switch: Dpid,
        /// The error of the switch, and the rule that it is about.
        what: Arc<str>,
    },
    /// A switch announced bundles, but refused one. Its updates take two steps instead.
    #[error("switch {switch} refused a bundle of changes ({why}); its updates take two steps from now on")]
    BundleRefused {
        /// The switch.
        switch: Dpid,
        /// The error of the switch.
        why: Arc<str>,
    },
    /// A switch can't limit packets that a route limits there. They pass without the limit. One report for each reason.
    #[error("switch {switch} can't have the meters of routes: {why}; packets are not limited there")]
    NotMetered {
        /// The switch.
        switch: Dpid,
        /// The reason.
        why: Arc<str>,
    },
    /// A switch does not report its counters, so rates that f asks for are 0.
    #[error("switch {switch} does not tell what its {what} have counted: rates are 0 there")]
    CountersRefused {
        /// The switch.
        switch: Dpid,
        /// The counters that it was asked for.
        what: CounterKind,
    },
    /// An audit found wrong rules in a switch, and a later audit found that they were put right.
    #[error(
        "switch {switch} did not have the rules that it is to have: {missing} were missing, {altered} altered, {unknown} \
         unknown; put right, for example {example}"
    )]
    RulesRepaired {
        /// The switch.
        switch: Dpid,
        /// The number of rules that the switch lacked.
        missing: usize,
        /// The number of rules that did something else.
        altered: usize,
        /// The number of rules that had our cookies but were not ours.
        unknown: usize,
        /// One of these rules.
        example: Box<str>,
    },
    /// A switch still, or again, has wrong rules after they were put right. The repair is tried again.
    #[error(
        "switch {switch} does not have the rules that it is to have, although they were sent: {count} are wrong, for \
         example {example}; somebody else changes them, or the switch does not do what it confirms"
    )]
    RulesNotRepaired {
        /// The switch.
        switch: Dpid,
        /// The number of wrong rules.
        count: usize,
        /// One of the wrong rules.
        example: Box<str>,
    },
    /// The meters of a switch were not those that Maple made, and were put right.
    #[error(
        "switch {switch} did not have the meters that Maple made: {missing} were missing, {altered} altered; made again"
    )]
    MetersRepaired {
        /// The switch.
        switch: Dpid,
        /// The number of meters that the switch lacked.
        missing: usize,
        /// The number of meters that did something else.
        altered: usize,
    },
    /// A rule that another controller or person made takes packets from ours.
    #[error(
        "switch {switch} has a rule that is not Maple's and takes packets from {taken_from} of Maple's rules: {foreign}; \
         the first of these is {first}"
    )]
    ForeignRule {
        /// The switch.
        switch: Dpid,
        /// The rule that is not ours.
        foreign: Box<str>,
        /// The number of our rules that it takes packets from.
        taken_from: usize,
        /// The first of our rules that it takes packets from.
        first: Box<str>,
    },
    /// The rules of access lists are being installed, which takes a while.
    #[error(
        "installing the rules of access lists: {entries} of {of} entries ({} %) at {}",
        .entries * 100 / (*.of).max(1),
        counted(.switches, "switch")
    )]
    ListsInstalling {
        /// The number of entries that were decided, all switches together.
        entries: usize,
        /// The number of entries to decide, all switches together.
        of: usize,
        /// The number of switches.
        switches: usize,
    },
    /// The rules of access lists were decided and sent, which took a while.
    #[error(
        "the rules of access lists are sent: {} at {} in {:.1} s",
        counted(.entries, "entry"),
        counted(.switches, "switch"),
        .took.as_secs_f64()
    )]
    ListsInstalled {
        /// The number of entries, all switches together.
        entries: usize,
        /// The number of switches.
        switches: usize,
        /// The time that it took.
        took: Duration,
    },
    /// A switch lost rules that we did not delete, and they were sent again.
    #[error("switch {switch} lost {}; sent again", counted(.count, "rule"))]
    RulesLost {
        /// The switch.
        switch: Dpid,
        /// The number of rules.
        count: usize,
    },
}

/// The reason why a host's move was believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MoveReason {
    /// The host's old port is down, or has become another kind of port.
    PortGone,
    /// The configuration says that the host is at the new port.
    Declared,
    /// The host did not answer a probe at its old port.
    NoAnswer,
    /// The host was silent for so long that the move needs no other proof, and no address was known for a probe.
    Silent,
}

impl Report {
    /// Returns the kind of a report that is made once for each key; `None` for one that is made each time.
    #[must_use]
    pub fn kind(&self) -> Option<ReportKind> {
        Some(match self {
            Report::HostFlips { .. } => ReportKind::HostFlips,
            Report::PolicyFailed { .. } => ReportKind::PolicyFailed,
            Report::PolicyWrites { .. } => ReportKind::PolicyWrites,
            Report::PolicyNotAFunction { .. } => ReportKind::PolicyNotAFunction,
            Report::RouteGoesBack { .. } => ReportKind::RouteGoesBack,
            Report::PlaceAbsent { .. } => ReportKind::PlaceAbsent,
            Report::NoRuleForWay { .. } => ReportKind::NoRuleForWay,
            Report::NotLabelled { .. } => ReportKind::NotLabelled,
            Report::NotMetered { .. } => ReportKind::NotMetered,
            Report::RulesLost { .. } => ReportKind::RulesLost,
            Report::RuleRefused { .. } | Report::BundleRefused { .. } => ReportKind::Refused,
            Report::SegmentOfLinks { .. } => ReportKind::SegmentOfLinks,
            Report::LookUpLowered { .. } => ReportKind::LookUpLowered,
            _ => return None,
        })
    }
}

impl fmt::Display for MoveReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            MoveReason::PortGone => "its old port is gone",
            MoveReason::Declared => "the configuration says so",
            MoveReason::NoAnswer => "it does not answer at its old port",
            MoveReason::Silent => "it was silent at its old port",
        })
    }
}

/// Returns how many packets like one at `seen` came before it unreported, as the end of its text.
fn before(seen: &Location, unreported: &u64) -> String {
    if *unreported > 0 { format!(" ({unreported} more such packets at {seen} before)") } else { String::new() }
}

/// Returns how many tables are used, in words.
fn used(tables: &u8) -> String {
    if *tables == 1 { "one is".to_owned() } else { format!("{tables} are") }
}

/// Returns how many packets like one came before it unreported, as the end of its text.
fn more(unreported: &u64) -> String {
    if *unreported > 0 { format!(", and {unreported} more packets before") } else { String::new() }
}

fn list(first: &Location, others: &[Location]) -> String {
    let all: Vec<String> = std::iter::once(first).chain(others).map(Location::to_string).collect();
    all.join(", ")
}

/// Returns the reads, if any are known, as the beginning of what follows.
fn join_reads(reads: &[Arc<str>]) -> String {
    if reads.is_empty() { String::new() } else { format!("{}; ", reads.join("; ")) }
}

/// Returns what a route leaves out, and why.
fn absence(at: &Location, why: &Absence) -> String {
    match why {
        Absence::Switch => format!("the ports of switch {}, which is not there", at.switch),
        why => format!("{at}, where no packet can leave the network: {why}"),
    }
}
