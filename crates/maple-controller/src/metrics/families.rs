//! All metrics: name, type, labels and meaning.
//!
//! Names without the prefix `maple_` or `process_` are those of Faucet, and mean the same. The text format appends
//! `_total` to the names of counters and `_info` to those of facts.

use maple_core::engine::Stats;
use prometheus_client::metrics::MetricType;

use crate::counters::Counters;

/// The engine's counts that are gauges: they count what is there, and may go down.
const GAUGES: [&str; 5] = ["leaves", "rules", "labels", "routes", "open_questions"];

/// The labels of Faucet's metrics of a switch.
const DP: &[&str] = &["dp_id", "dp_name"];
/// The labels of Faucet's metrics of a port.
const PORT: &[&str] = &["dp_id", "dp_name", "port", "port_description"];
/// The label of Maple's own metrics of a switch.
const SWITCH: &[&str] = &["dp_id"];

/// A metric: all its values have these labels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Family {
    /// The name without the suffix of its type.
    pub name: String,
    /// The type.
    pub kind: MetricKind,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// The meaning, in a sentence.
    pub meaning: &'static str,
}

/// The end of the names of counts that are times. `maple show stats` has them in nanoseconds.
pub(super) const SECONDS: &str = "_seconds";

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// A count since the start.
    Counter,
    /// A current value.
    Gauge,
    /// The distribution of durations.
    Histogram,
    /// A fact, whose labels have the values.
    Info,
}

impl MetricKind {
    /// Returns the name in the text format.
    pub fn name(self) -> &'static str {
        match self {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
            MetricKind::Info => "info",
        }
    }

    pub(super) fn metric_type(self) -> MetricType {
        match self {
            MetricKind::Counter => MetricType::Counter,
            MetricKind::Gauge => MetricType::Gauge,
            MetricKind::Histogram => MetricType::Histogram,
            MetricKind::Info => MetricType::Info,
        }
    }
}

impl Family {
    /// Returns the names of its values in the text format.
    pub fn samples(&self) -> Vec<String> {
        let suffixes: &[&str] = match self.kind {
            MetricKind::Counter => &["_total"],
            MetricKind::Gauge => &[""],
            MetricKind::Histogram => &["_bucket", "_sum", "_count"],
            MetricKind::Info => &["_info"],
        };
        suffixes.iter().map(|suffix| format!("{}{suffix}", self.name)).collect()
    }
}

/// Generates a constant for each metric, and the list of them.
macro_rules! metrics {
    ($($constant:ident: $kind:ident $name:literal $labels:expr, $meaning:literal;)*) => {
        $(pub(super) const $constant: Description = Description {
            name: $name, kind: MetricKind::$kind, labels: $labels, meaning: $meaning,
        };)*

        const ALL: &[&Description] = &[$(&$constant),*];
    };
}

/// A metric of the list below.
pub(super) struct Description {
    pub name: &'static str,
    pub kind: MetricKind,
    pub labels: &'static [&'static str],
    pub meaning: &'static str,
}

metrics! {
    DP_STATUS: Gauge "dp_status" DP, "1 if the switch is connected, 0 if it was.";
    OF_DP_CONNECTIONS: Counter "of_dp_connections" DP, "Connections of the switch that finished their handshake.";
    OF_DP_DISCONNECTIONS: Counter "of_dp_disconnections" DP, "Connections of the switch that ended.";
    OF_PACKET_INS: Counter "of_packet_ins" DP, "Packet-ins from the switch.";
    OF_IGNORED_PACKET_INS: Counter "of_ignored_packet_ins" DP,
        "Packet-ins from the switch dropped because the policy is too slow for their rate. No row while there are none.";
    OF_FLOWMSGS_SENT: Counter "of_flowmsgs_sent" DP, "Flow-mods and packet-outs sent to the switch.";
    OF_ERRORS: Counter "of_errors" DP, "Errors from the switch.";
    PORT_STATUS: Gauge "port_status" PORT, "1 if packets can pass the port, otherwise 0.";
    SWITCH_RULES: Gauge "maple_switch_rules" &["dp_id", "table"], "Rules of the switch by table.";
    SWITCH_BARRIER_RULES: Gauge "maple_switch_barrier_rules" SWITCH,
        "Barrier rules of the switch: they send packets to the controller so that lower rules cannot take them.";
    SWITCH_LABELS: Gauge "maple_switch_labels" SWITCH, "Labels of the switch.";
    SWITCH_LEAVES: Gauge "maple_switch_leaves" SWITCH, "Leaves whose packets enter at the switch.";
    SWITCH_WAITING_BYTES: Gauge "maple_switch_waiting_bytes" SWITCH,
        "Bytes that wait to be sent to the switch. No row while there are none.";
    ROWS_LEFT_OUT: Gauge "maple_rows_left_out" &["what"],
        "Switches, and ports of listed switches, that have no rows because there are too many.";
    BUILD: Info "maple_build" &["version"], "The program's version.";
    SWITCHES: Gauge "maple_switches" &["shard"], "Connected switches by shard.";
    UNREACHABLE: Gauge "maple_unreachable_switches" &["shard"],
        "Switches without a control connection whose links, hosts and rules stand, by shard.";
    CONNECTIONS: Gauge "maple_connections" &[], "Open connections of switches, including those in their handshake.";
    LINKS: Gauge "maple_links" &[], "Links between switches.";
    HOSTS: Gauge "maple_hosts" &[], "Known hosts.";
    QUEUE_DEPTH: Gauge "maple_queue_depth" &["shard", "queue"],
        "What waits. backlog: packets for the policy; mailbox: batches of messages from other threads; outgoing: batches \
         for shards whose mailbox is full; parked: packets that wait for a change (retry); reads: sockets to read.";
    DECIDE: Histogram "maple_decide_seconds" &[],
        "Time from the beginning of the turn in which the engine got a packet without a leaf, to the end of the policy's \
         decisions and the changes of rules of that turn.";
    INSTALL: Histogram "maple_install_seconds" &[],
        "Time from a leaf's decision, or the beginning of its change to another route, to the confirmation of its rule by \
         the switch.";
    TRANSACTIONS: Counter "maple_transactions" &[], "Transactions that committed, runs of the policy included.";
    TRANSACTION_ABORTS: Counter "maple_transaction_aborts" &[],
        "Transactions that were repeated because something that they had read had changed.";
    POLICY_ERRORS: Counter "maple_policy_errors_by_line" &["line"],
        "Packets dropped because the policy failed, by the line that failed. At most 64 lines have rows of their own.";
    VIOLATIONS: Counter "maple_violations_by_line" &["constraint", "line"],
        "Routes that a constraint refused, by constraint and by the line that made the route. At most 64 have rows of their \
         own.";
    HANDLER_FAILURES: Counter "maple_handler_failures" &[], "Failures of handlers and listeners.";
    PROCESS_START: Gauge "process_start_time_seconds" &[], "When the process started, in seconds since 1970.";
    PROCESS_CPU: Counter "process_cpu_seconds" &[], "Processor time that the process has used.";
    PROCESS_MEMORY: Gauge "process_resident_memory_bytes" &[], "Resident memory of the process.";
    PROCESS_FDS: Gauge "process_open_fds" &[], "Open file descriptors of the process.";
    PROCESS_MAX_FDS: Gauge "process_max_fds" &[], "How many file descriptors the process may have.";
}

/// Returns all metrics, in the order in which they are exported. Gauges that other parts of the program register are
/// not among them.
pub fn families() -> Vec<Family> {
    let own = ALL.iter().map(|all| Family {
        name: all.name.to_owned(),
        kind: all.kind,
        labels: all.labels,
        meaning: all.meaning,
    });
    own.chain(counts().into_iter().map(|(name, kind, meaning)| Family { name, kind, labels: &[], meaning })).collect()
}

/// Returns the metrics that are the counts of `maple show stats`: first the controller's, then the engine's.
pub(super) fn counts() -> Vec<(String, MetricKind, &'static str)> {
    let (controller, engine) = (Counters::default(), Stats::default());
    let controller = controller.iter().zip(Counters::meanings()).map(|((name, _), of)| (name, MetricKind::Counter, of));
    let engine = engine.iter().zip(Stats::meanings()).map(|((name, _), meaning)| {
        let kind = if GAUGES.contains(&name) { MetricKind::Gauge } else { MetricKind::Counter };
        (name, kind, meaning)
    });
    // Prometheus has times in seconds.
    let prefixed = |(name, kind, meaning): (&str, _, _)| match name.strip_suffix("_nanoseconds") {
        Some(of) => (format!("maple_{of}{SECONDS}"), kind, meaning),
        None => (format!("maple_{name}"), kind, meaning),
    };
    controller.chain(engine).map(prefixed).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_valid_and_each_is_there_once() {
        let all = families();
        let names: BTreeSet<&str> = all.iter().map(|family| family.name.as_str()).collect();
        assert_eq!(names.len(), all.len());
        for Family { name, labels, meaning, .. } in &all {
            let is_word = |text: &str| text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
            assert!(is_word(name) && labels.iter().all(|label| is_word(label)), "{name}");
            assert!(!["_total", "_info", "_bucket", "_sum", "_count"].iter().any(|end| name.ends_with(end)), "{name}");
            assert!(meaning.ends_with('.') && !meaning.contains(['"', '\\', '\n']), "{name}: {meaning}");
        }
    }

    #[test]
    fn no_metric_is_labelled_by_an_address() {
        let known = ["dp_id", "dp_name", "port", "port_description", "table", "what", "version", "shard", "queue"];
        let lines = ["line", "constraint"];
        for family in families() {
            assert!(family.labels.iter().all(|label| known.contains(label) || lines.contains(label)), "{family:?}");
        }
    }

    #[test]
    fn current_quantities_of_the_engine_are_gauges() {
        let gauges: BTreeSet<String> = GAUGES.iter().map(|name| format!("maple_{name}")).collect();
        let is_gauge = |(_, kind, _): &(String, MetricKind, &str)| *kind == MetricKind::Gauge;
        assert_eq!(counts().into_iter().filter(is_gauge).map(|(name, ..)| name).collect::<BTreeSet<_>>(), gauges);
    }
}
