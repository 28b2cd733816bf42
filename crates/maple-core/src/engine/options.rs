//! What can be chosen, and what is counted.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::polls::RuleCount;
use crate::compile::{Table, Target};
use crate::ids::LeafId;
use crate::labels::LabelRange;
use crate::network::Location;
use crate::rule::Rule;
use crate::trace::Cond;

/// What can be chosen.
#[derive(Clone, Debug)]
pub struct Options {
    /// Learn where hosts are and check it. Off, `net.locate` is an error.
    pub track_hosts: bool,
    /// The VLAN ids that labels on links may have.
    pub labels: LabelRange,
    /// Makes the empty table of a switch: [`Table::new`], unless the rules are to come from another compiler.
    pub new_table: fn(Target) -> Table,
    /// Marks the rules of this run of the controller apart from those of an earlier one: 16 bits of the cookie.
    pub epoch: u16,
    /// The lowest transaction id that engines use; they wrap around to it.
    pub first_xid: u32,
    /// How many packets wait for one leaf's installation or labels, and at one switch because its ports are
    /// new; of further ones the first go through the controller at once, the others are dropped.
    pub held_packets: usize,
    /// How many packets of a shard may wait for a change of what f read (`retry`); the oldest makes room.
    pub parked_packets: usize,
    /// How many bytes of packets from new ports wait at one switch; further ones are dropped.
    pub held_bytes: usize,
    /// How long a leaf that gets another route may have rules of the old one; then it is withdrawn.
    pub reroute_timeout: Duration,
    /// How long a packet may wait for rules under way; then it goes through the controller.
    pub hold: Duration,
    /// How long a packet may wait until it is known what is behind its port. Longer than discovery takes for a port that
    /// came up.
    pub new_port_hold: Duration,
    /// How long a label keeps its rule after the last rule that leads to it is gone, and its id is not used again after
    /// that. Longer than packets take to cross the network, and than switches take to do what they have confirmed.
    pub quarantine: Duration,
    /// The same where the switch that has the last rule is gone, so that it can't confirm anything.
    pub lost_quarantine: Duration,
    /// Ports with a transparent middlebox behind them: it passes packets on with their sources as they are, so no host is
    /// learned or checked there, and port_guards leave them out.
    pub middleboxes: BTreeSet<Location>,
    /// How long a round takes in which a host is looked for at its old port; there are two at least.
    pub probe_timeout: Duration,
    /// How long a host that announced no address must have been silent before a move is believed.
    pub silence: Duration,
    /// The most hosts that a port may have; what others send there is dropped.
    pub max_hosts_per_port: usize,
    /// The most hosts that a switch may have; ports share them.
    pub max_hosts: usize,
    /// How long a host may be silent before it is forgotten.
    pub host_timeout: Duration,
    /// The most rules that a switch may have, in all its tables. The engine's own (some a port and host) come in always.
    pub max_rules: Option<usize>,
    /// The most leaves that a switch's tree may have.
    pub max_traces: Option<usize>,
    /// How often, at most, a switch is asked which rules are in use, and leaves are evicted.
    pub eviction_period: Duration,
    /// How often a switch is asked for the counters that f asks about; zero: never, so that all rates are 0.
    pub poll: Duration,
    /// How often a run whose state changed under it is repeated before its packet is dropped.
    pub max_reruns: u32,
    /// The packets that handlers hear of: each one that enters the network and fits one of these, as if f asked. At most 64.
    pub heard: Arc<[Cond]>,
    /// Of how many leaves whose state changed f is asked again at once; further ones are withdrawn, and f is asked when a
    /// packet comes.
    pub max_reconsidered: usize,
    /// How many cached leaves a second are checked by another run of f; 0: none.
    pub check_rate: u32,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            track_hosts: true,
            labels: LabelRange::ALL,
            new_table: Table::new,
            epoch: 1,
            first_xid: 0x8000_0000,
            held_packets: 64,
            parked_packets: 1024,
            held_bytes: 256 * 1024,
            reroute_timeout: Duration::from_secs(2),
            hold: Duration::from_millis(100),
            new_port_hold: Duration::from_secs(1),
            quarantine: Duration::from_millis(100),
            lost_quarantine: Duration::from_secs(10),
            middleboxes: BTreeSet::new(),
            probe_timeout: Duration::from_millis(500),
            silence: Duration::from_secs(10),
            max_hosts_per_port: 1024,
            max_hosts: 16_384,
            host_timeout: Duration::from_secs(300),
            max_rules: None,
            max_traces: None,
            eviction_period: Duration::from_secs(1),
            poll: Duration::from_secs(10),
            max_reruns: 16,
            heard: [].into(),
            max_reconsidered: 1024,
            check_rate: 0,
        }
    }
}

/// What one shard has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Packet-ins handled.
    pub packet_ins: u64,
    /// Of these, answered from the tree.
    pub hits: u64,
    /// Of these, decided by f.
    pub misses: u64,
    /// Runs of f, repeated and speculative ones included.
    pub runs: u64,
    /// Runs repeated because the state changed under them.
    pub conflicts: u64,
    /// Packets dropped because f failed on them.
    pub policy_errors: u64,
    /// Runs after which the packet waits until something that f read has changed.
    pub waits: u64,
    /// Packets dropped while they waited so, because too many did or their switch went.
    pub wait_drops: u64,
    /// Decisions not cached because f writes state whenever it sees such a packet.
    pub writing_runs: u64,
    /// Decisions not cached because f looked at bytes that were not captured.
    pub short_captures: u64,
    /// Leaves installed.
    pub leaves_installed: u64,
    /// Leaves withdrawn.
    pub leaves_withdrawn: u64,
    /// Leaves of which f, asked again after a change, said the same as before.
    pub leaves_confirmed: u64,
    /// Leaves that got another route without a miss.
    pub leaves_rerouted: u64,
    /// Routes that got another course, for all their leaves together.
    pub routes_rerouted: u64,
    /// Leaves that were evicted to make room.
    pub leaves_evicted: u64,
    /// Labels that were evicted to make room.
    pub labels_evicted: u64,
    /// Times a leaf found no room at a switch, or in a tree.
    pub capacity_refusals: u64,
    /// Times a switch was asked which rules are in use.
    pub stats_requests: u64,
    /// Times a switch was asked for its counters.
    pub polls: u64,
    /// Times that had to wait, as the switch was busy.
    pub polls_postponed: u64,
    /// Leaves looked at to find those that an invalidation means.
    pub leaves_examined: u64,
    /// Leaves that can't be installed.
    pub aborts: u64,
    /// Times a route was refused a label, so that its packets go through the controller.
    pub labels_refused: u64,
    /// Packets sent straight out of the egress ports.
    pub sent_by_controller: u64,
    /// Packet-ins from link ports.
    pub link_packet_ins: u64,
    /// Of these, dropped because nothing was known of them.
    pub link_drops: u64,
    /// Packets dropped because it did not turn out, or too late, that their port is an edge port.
    pub new_port_drops: u64,
    /// Packets that came by a port that is shut because another one is its segment's way in.
    pub segment_drops: u64,
    /// Packets dropped because their source is a host that is elsewhere.
    pub spoofed_drops: u64,
    /// Packets dropped because their port, or its switch, has as many hosts as it may have.
    pub host_limit_drops: u64,
    /// Times a switch was told to drop what unknown hosts send at a port.
    pub port_guards: u64,
    /// Hosts forgotten because they were silent, or gave way to others.
    pub hosts_aged: u64,
    /// Copies of what hosts announced.
    pub announcements: u64,
    /// Packets dropped because only their beginning was captured and the switch did not keep the rest.
    pub truncated_drops: u64,
    /// Packet-ins from ports that don't exist or are down, or without a port.
    pub bad_packet_ins: u64,
    /// Flow-mods sent.
    pub flow_mods: u64,
    /// Rules that switches refused.
    pub refused_rules: u64,
    /// Times the tree disagreed with a new trace though the state was the same.
    pub inconsistent_runs: u64,
    /// Cached leaves on which f was run again.
    pub rechecks: u64,
    /// Of these, leaves on which f did otherwise than before though the state was the same.
    pub rechecks_failed: u64,
    /// Leaves that live now.
    pub leaves: u64,
    /// Rules that switches of this shard have now.
    pub rules: u64,
    /// Labels that switches of this shard have now.
    pub labels: u64,
    /// Routes that leaves take now.
    pub routes: u64,
}

impl Stats {
    /// Name and value of each count, in the order above.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        [
            ("packet_ins", self.packet_ins),
            ("hits", self.hits),
            ("misses", self.misses),
            ("runs", self.runs),
            ("conflicts", self.conflicts),
            ("policy_errors", self.policy_errors),
            ("waits", self.waits),
            ("wait_drops", self.wait_drops),
            ("writing_runs", self.writing_runs),
            ("short_captures", self.short_captures),
            ("leaves_installed", self.leaves_installed),
            ("leaves_withdrawn", self.leaves_withdrawn),
            ("leaves_confirmed", self.leaves_confirmed),
            ("leaves_rerouted", self.leaves_rerouted),
            ("routes_rerouted", self.routes_rerouted),
            ("leaves_evicted", self.leaves_evicted),
            ("labels_evicted", self.labels_evicted),
            ("capacity_refusals", self.capacity_refusals),
            ("stats_requests", self.stats_requests),
            ("polls", self.polls),
            ("polls_postponed", self.polls_postponed),
            ("leaves_examined", self.leaves_examined),
            ("aborts", self.aborts),
            ("labels_refused", self.labels_refused),
            ("sent_by_controller", self.sent_by_controller),
            ("link_packet_ins", self.link_packet_ins),
            ("link_drops", self.link_drops),
            ("new_port_drops", self.new_port_drops),
            ("segment_drops", self.segment_drops),
            ("spoofed_drops", self.spoofed_drops),
            ("host_limit_drops", self.host_limit_drops),
            ("port_guards", self.port_guards),
            ("hosts_aged", self.hosts_aged),
            ("announcements", self.announcements),
            ("truncated_drops", self.truncated_drops),
            ("bad_packet_ins", self.bad_packet_ins),
            ("flow_mods", self.flow_mods),
            ("refused_rules", self.refused_rules),
            ("inconsistent_runs", self.inconsistent_runs),
            ("rechecks", self.rechecks),
            ("rechecks_failed", self.rechecks_failed),
            ("leaves", self.leaves),
            ("rules", self.rules),
            ("labels", self.labels),
            ("routes", self.routes),
        ]
        .into_iter()
    }
}

impl std::ops::AddAssign for Stats {
    /// Adds another shard's counts.
    fn add_assign(&mut self, other: Stats) {
        let Stats {
            packet_ins,
            hits,
            misses,
            runs,
            conflicts,
            policy_errors,
            waits,
            wait_drops,
            writing_runs,
            short_captures,
            leaves_installed,
            leaves_withdrawn,
            leaves_confirmed,
            leaves_rerouted,
            routes_rerouted,
            leaves_evicted,
            labels_evicted,
            capacity_refusals,
            stats_requests,
            polls,
            polls_postponed,
            leaves_examined,
            aborts,
            labels_refused,
            sent_by_controller,
            link_packet_ins,
            link_drops,
            new_port_drops,
            segment_drops,
            spoofed_drops,
            host_limit_drops,
            port_guards,
            hosts_aged,
            announcements,
            truncated_drops,
            bad_packet_ins,
            flow_mods,
            refused_rules,
            inconsistent_runs,
            rechecks,
            rechecks_failed,
            leaves,
            rules,
            labels,
            routes,
        } = other;
        self.packet_ins += packet_ins;
        self.hits += hits;
        self.misses += misses;
        self.runs += runs;
        self.conflicts += conflicts;
        self.policy_errors += policy_errors;
        self.waits += waits;
        self.wait_drops += wait_drops;
        self.writing_runs += writing_runs;
        self.short_captures += short_captures;
        self.leaves_installed += leaves_installed;
        self.leaves_withdrawn += leaves_withdrawn;
        self.leaves_confirmed += leaves_confirmed;
        self.leaves_rerouted += leaves_rerouted;
        self.routes_rerouted += routes_rerouted;
        self.leaves_evicted += leaves_evicted;
        self.labels_evicted += labels_evicted;
        self.capacity_refusals += capacity_refusals;
        self.stats_requests += stats_requests;
        self.polls += polls;
        self.polls_postponed += polls_postponed;
        self.leaves_examined += leaves_examined;
        self.aborts += aborts;
        self.labels_refused += labels_refused;
        self.sent_by_controller += sent_by_controller;
        self.link_packet_ins += link_packet_ins;
        self.link_drops += link_drops;
        self.new_port_drops += new_port_drops;
        self.segment_drops += segment_drops;
        self.spoofed_drops += spoofed_drops;
        self.host_limit_drops += host_limit_drops;
        self.port_guards += port_guards;
        self.hosts_aged += hosts_aged;
        self.announcements += announcements;
        self.truncated_drops += truncated_drops;
        self.bad_packet_ins += bad_packet_ins;
        self.flow_mods += flow_mods;
        self.refused_rules += refused_rules;
        self.inconsistent_runs += inconsistent_runs;
        self.rechecks += rechecks;
        self.rechecks_failed += rechecks_failed;
        self.leaves += leaves;
        self.rules += rules;
        self.labels += labels;
        self.routes += routes;
    }
}

/// A rule as the engine holds it to be in a switch, with what it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableRule {
    /// The table.
    pub table_id: u8,
    /// The rule.
    pub rule: Rule,
    /// The leaf it is for; `None` for the engine's own rules (classifier, barriers, table-miss).
    pub leaf: Option<LeafId>,
    /// What it took, as the switch said last; `None` if it has not said.
    pub counted: Option<RuleCount>,
    /// What it is for, in words: the source lines that decided, or the engine's reason.
    pub why: String,
}
