//! The options of an engine.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::compile::{RuleTable, TableTarget};
use crate::ids::Time;
use crate::labels::LabelRange;
use crate::network::{Facts, Location};
use crate::trace::Cond;

/// The number of tables that controllers leave for look-ups unless an option says otherwise. Few policies have more:
/// three values take 48 of the 63 bits of the metadata that look-ups may have.
pub const LOOK_UP_TABLES: u8 = 4;

/// The options of an engine. All shards of a controller have equal ones.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whether the engine learns and checks where hosts are. If `false`, `net.locate` is an error.
    pub track_hosts: bool,
    /// The VLAN ids that labels on links may have.
    pub labels: LabelRange,
    /// Makes the empty table of a switch: [`RuleTable::new`], or the table of another compiler.
    pub new_table: fn(TableTarget) -> RuleTable,
    /// Distinguishes the rules of this run of the controller from those of an earlier one: 16 bits of the cookie.
    pub epoch: u16,
    /// The wall-clock time at the engine's time 0, because the times of f's writes are kept as wall-clock times.
    pub wall_clock: SystemTime,
    /// A clock that never goes back, by which runs of f are timed for people; `None`: they aren't. What the engine
    /// decides never depends on it.
    pub stopwatch: Option<fn() -> Time>,
    /// Whether the engine publishes its leaves for the next run of the controller
    /// ([`crate::engine::Effect::Remember`]).
    pub remember: bool,
    /// The lowest transaction id that engines use. After the highest one they continue here.
    pub first_xid: u32,
    /// The maximum number of packets that wait for one leaf, and of packets that wait at one switch because their ports
    /// are new. Further packets of a leaf go through the controller; further packets from new ports are dropped.
    pub held_packets: usize,
    /// The maximum number of packets of a shard that wait for a change of what f read (`retry`). A further one replaces
    /// the oldest.
    pub parked_packets: usize,
    /// The maximum number of bytes of packets from new ports that wait at one switch. Further packets are dropped.
    pub held_bytes: usize,
    /// The time for which a leaf that gets another route may keep the rule of the old one. After that it is withdrawn.
    pub reroute_timeout: Duration,
    /// The time for which a packet may wait for its rules. After that it goes through the controller.
    pub hold: Duration,
    /// The time for which a packet may wait until discovery knows the kind of its port. This must exceed the time that
    /// discovery takes for a port that came up.
    pub new_port_hold: Duration,
    /// The time for which a label keeps its rule after the last rule that leads to it is gone, and then the time for
    /// which its id is not reused. This must exceed the time that packets take to cross the network, and the time that
    /// a switch takes to carry out what it has confirmed.
    pub quarantine: Duration,
    /// The time that replaces `quarantine` if the switch with the last rule has disconnected, so that it cannot confirm
    /// anything.
    pub lost_quarantine: Duration,
    /// The ports and hosts that the configuration declares at the start. [`crate::engine::Event::Declare`] changes
    /// them.
    pub facts: Arc<Facts>,
    /// Ports with a transparent middlebox behind them. A middlebox forwards packets without changing their source. So
    /// no host is learned or checked at these ports, and floods leave them out.
    pub middleboxes: BTreeSet<Location>,
    /// The length of a round in the search for a host at its old port. A search has at least two rounds.
    pub probe_timeout: Duration,
    /// The time for which a host that announced no address must have been silent before a move is accepted.
    pub silence: Duration,
    /// The maximum number of hosts at a port. Packets of further hosts are dropped.
    pub max_hosts_per_port: usize,
    /// The maximum number of hosts at a switch. Its ports share them.
    pub max_hosts: usize,
    /// The time for which a host may be silent before it is forgotten.
    pub host_timeout: Duration,
    /// The maximum number of rules in all tables of a switch. The engine's own rules, a few for each port and host, are
    /// always installed.
    pub max_rules: Option<usize>,
    /// The maximum number of a switch's tables that are for look-ups. Without them, a look-up by a field of the packet
    /// is a read of the field.
    pub look_up_tables: u8,
    /// Whether one decision may be for all places that a look-up finds. Then rules of keys write the way there, where a
    /// switch has tables for look-ups.
    pub open_routes: bool,
    /// The maximum number of different values of a table that look-ups of a switch can tell apart.
    pub max_classes: u16,
    /// The number of leaves of a switch up to which it is explored, so that packets find rules before the first one of
    /// their kind has come; 0: nothing is explored.
    pub explored_leaves: usize,
    /// The maximum number of leaves in a switch's tree.
    pub max_traces: Option<usize>,
    /// The minimum time between two requests for the counters of a switch's rules, and between two evictions there.
    pub eviction_period: Duration,
    /// The time between two questions to a switch for the counters that f reads. Zero: it is never asked, so that all
    /// rates are 0.
    pub poll: Duration,
    /// The time between two comparisons of the rules of a switch with those that it is to have. Zero: they are never
    /// compared, except when it connects.
    pub audit: Duration,
    /// The maximum number of rule changes that a switch is sent per second; `None`: all at once. With a rate, the next
    /// update waits until the switch has confirmed the one before.
    pub flow_mod_rate: Option<NonZeroU32>,
    /// The maximum number of times that a run is repeated because the state changed under it. The next run has the
    /// store to itself.
    pub max_reruns: u32,
    /// The packets that listeners want: each packet that enters the network and fits one of these conditions, as
    /// if f had tested them. At most 64.
    pub listener_filters: Arc<[Cond]>,
    /// The maximum number of leaves that are decided again immediately after a change. Further leaves are withdrawn,
    /// and f runs when a packet comes.
    pub max_reconsidered: usize,
    /// The number of cached leaves per second that are checked by another run of f; 0: none.
    pub check_rate: u32,
}

impl Options {
    /// Returns the options of an engine that does nothing by itself.
    pub(in crate::engine) fn quiet(&self) -> Options {
        let (poll, audit, flow_mod_rate) = (Duration::ZERO, Duration::ZERO, None);
        Options { poll, audit, flow_mod_rate, check_rate: 0, explored_leaves: 0, remember: false, ..self.clone() }
    }
}

impl Default for Options {
    fn default() -> Options {
        Options {
            track_hosts: true,
            labels: LabelRange::ALL,
            new_table: RuleTable::new,
            epoch: 1,
            wall_clock: SystemTime::UNIX_EPOCH,
            stopwatch: None,
            remember: false,
            first_xid: 0x8000_0000,
            // Chosen: a host sends some dozen packets before the first answer, and a burst does not fill the memory.
            held_packets: 64,
            // Chosen: some megabytes of frames at most, and more runs than a policy lets wait.
            parked_packets: 1024,
            // Chosen: 64 packets of 1,500 bytes fit twice, and jumbo frames do not multiply the bound.
            held_bytes: 256 * 1024,
            // Chosen: switches confirm labels in milliseconds, so that only a failed one takes longer.
            reroute_timeout: Duration::from_secs(2),
            // Chosen: rules are confirmed in a few milliseconds, and a host hardly notices the wait.
            hold: Duration::from_millis(100),
            // Chosen: discovery needs three probes, at 100 ms each, and some time for their way.
            new_port_hold: Duration::from_secs(1),
            // Chosen: packets cross a network in a few milliseconds, and ids are soon free again.
            quarantine: Duration::from_millis(100),
            // Chosen: a switch that lost its connection has carried out by then what it had received.
            lost_quarantine: Duration::from_secs(10),
            facts: Arc::default(),
            middleboxes: BTreeSet::new(),
            // Chosen: hosts answer in milliseconds, unless they sleep, and a host that moved waits for two rounds.
            probe_timeout: Duration::from_millis(500),
            // Chosen: hosts that are in use send something in this time, and a cable is moved in less than a minute.
            silence: Duration::from_secs(10),
            // Chosen: few networks behind one port have more hosts, and a flood of forged addresses stays small.
            max_hosts_per_port: 1024,
            // Chosen: 16 full ports; a host has a few rules at its switch.
            max_hosts: 16_384,
            // Chosen: bridges remember addresses as long by default (IEEE 802.1D).
            host_timeout: Duration::from_secs(300),
            max_rules: None,
            look_up_tables: 0,
            open_routes: false,
            max_classes: u16::MAX,
            explored_leaves: 0,
            max_traces: None,
            // Chosen: a switch whose tables are full is not kept busy with its counters.
            eviction_period: Duration::from_secs(1),
            // Chosen: rates follow within seconds, and counters cost a switch little.
            poll: Duration::from_secs(10),
            audit: Duration::ZERO,
            flow_mod_rate: None,
            // Chosen: the state rarely changes under a run twice in a row, and 16 runs hold up a shard only shortly.
            max_reruns: 16,
            listener_filters: [].into(),
            // Chosen: f runs that often in some milliseconds, in which the shard handles nothing else.
            max_reconsidered: 1024,
            check_rate: 0,
        }
    }
}
