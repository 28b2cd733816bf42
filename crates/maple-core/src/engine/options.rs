//! What can be chosen, and what is counted.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use crate::compile::{Table, Target};
use crate::labels::LabelRange;
use crate::network::Location;
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
