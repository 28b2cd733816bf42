//! The options of engines in a recording.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use maple_core::compile::{RuleTable, TableTarget};
use maple_core::engine::{LabelRange, Options, Time};
use maple_core::network::{Facts, Location};
use maple_core::trace::Cond;
use serde::{Deserialize, Serialize};

/// The fields of [`Options`], all but those that the header has: the compiler's name, the tables for
/// look-ups, and how much is explored.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Options")]
pub(super) struct OptionsForm {
    track_hosts: bool,
    labels: LabelRange,
    #[serde(skip, default = "compiler")]
    new_table: fn(TableTarget) -> RuleTable,
    epoch: u16,
    wall_clock: SystemTime,
    /// A replay has no clock.
    #[serde(skip)]
    stopwatch: Option<fn() -> Time>,
    remember: bool,
    first_xid: u32,
    held_packets: usize,
    parked_packets: usize,
    held_bytes: usize,
    reroute_timeout: Duration,
    hold: Duration,
    new_port_hold: Duration,
    quarantine: Duration,
    lost_quarantine: Duration,
    facts: Arc<Facts>,
    middleboxes: BTreeSet<Location>,
    probe_timeout: Duration,
    silence: Duration,
    max_hosts_per_port: usize,
    max_hosts: usize,
    host_timeout: Duration,
    max_rules: Option<usize>,
    max_traces: Option<usize>,
    #[serde(skip)]
    look_up_tables: u8,
    #[serde(skip)]
    open_routes: bool,
    #[serde(skip)]
    explored_leaves: usize,
    /// Controllers leave it as it is.
    #[serde(skip, default = "max_classes")]
    max_classes: u16,
    eviction_period: Duration,
    poll: Duration,
    audit: Duration,
    flow_mod_rate: Option<NonZeroU32>,
    max_reruns: u32,
    listener_filters: Arc<[Cond]>,
    max_reconsidered: usize,
    check_rate: u32,
}

fn max_classes() -> u16 {
    Options::default().max_classes
}

/// Returns the compiler of engines that nobody has given another.
fn compiler() -> fn(TableTarget) -> RuleTable {
    Options::default().new_table
}
