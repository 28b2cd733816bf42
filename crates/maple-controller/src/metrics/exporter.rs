//! Asks the shards for copies of their counts, and writes them as metrics.

use std::fmt;
use std::sync::Arc;

use maple_core::engine::Histogram;
use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, LabelSetEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

use super::families::{self, Description, MetricKind};
use super::metric_rows::{Lines, Listed, SwitchRow, port_rows, switch_rows, switches};
use super::process::Process;
use crate::control::{Handle, LateShard};
use crate::status::{ShardMetrics, ShardStats, SwitchMetrics};

/// Exports the counts of a controller. If a shard does not answer, nothing is exported.
pub(super) struct Exporter {
    handle: Handle,
    /// The shard that did not answer the latest scrape, if one did not.
    late: Arc<Mutex<Option<LateShard>>>,
    /// The policy lines that have rows of their own.
    lines: Mutex<Lines>,
}

impl Exporter {
    /// Creates the metrics of a controller. Writes into `late` which shard did not answer a scrape.
    pub fn new(handle: Handle, late: Arc<Mutex<Option<LateShard>>>) -> Exporter {
        Exporter { handle, late, lines: Mutex::default() }
    }
}

impl fmt::Debug for Exporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Exporter")
    }
}

impl Collector for Exporter {
    fn encode(&self, encoder: DescriptorEncoder) -> fmt::Result {
        let mut shards = self.handle.shard_metrics().map_err(|late| {
            *self.late.lock() = Some(late);
            fmt::Error
        })?;
        let mut out = MetricsEncoder(encoder);
        let is_connected = |switch: &&SwitchMetrics| switch.now.is_some();
        let connected = |shard: &ShardMetrics| shard.switches.iter().filter(is_connected).count() as u64;
        let connected: Vec<u64> = shards.iter().map(connected).collect();
        write_switches(&mut out, &switch_rows(switches(&mut shards), &self.handle.names()))?;
        self.write_controller(&mut out, &shards, &connected)?;
        let mut total = ShardStats::default();
        for shard in &shards {
            total.counters += shard.stats.counters;
            total.engine += shard.stats.engine;
        }
        self.write_policy(&mut out, &shards, total.engine.policy_errors)?;
        write_process(&mut out, Process::read())?;
        self.handle.gauges().read(|gauge, values| out.registered(gauge.name, gauge.meaning, gauge.label, &values))?;
        let values = total.counters.iter().chain(total.engine.iter()).map(|(_, value)| value);
        for ((name, kind, meaning), value) in families::counts().into_iter().zip(values) {
            out.count(&name, kind, meaning, value)?;
        }
        Ok(())
    }
}

/// Writes the counts and the state of each switch, and its ports.
fn write_switches(out: &mut MetricsEncoder<'_>, listed: &Listed<SwitchRow>) -> fmt::Result {
    let rows = &listed.rows;
    let dp = |value: fn(&SwitchRow) -> u64| rows.iter().map(move |row| ([&*row.dp_id, &*row.dp_name], value(row)));
    out.rows(&families::DP_STATUS, dp(|row| row.metrics.now.is_some().into()))?;
    out.rows(&families::OF_DP_CONNECTIONS, dp(|row| row.metrics.counters.connections))?;
    out.rows(&families::OF_DP_DISCONNECTIONS, dp(|row| row.metrics.counters.disconnections))?;
    out.rows(&families::OF_PACKET_INS, dp(|row| row.metrics.counters.packet_ins))?;
    out.rows(&families::OF_IGNORED_PACKET_INS, dp(|row| row.metrics.counters.shed).filter(|(_, shed)| *shed > 0))?;
    out.rows(&families::OF_FLOWMSGS_SENT, dp(|row| row.metrics.counters.flow_messages))?;
    out.rows(&families::OF_ERRORS, dp(|row| row.metrics.counters.errors))?;
    let ports = port_rows(rows);
    let port_labels = ports
        .rows
        .iter()
        .map(|port| ([&*port.switch.dp_id, &*port.switch.dp_name, &*port.number, &*port.name], u64::from(port.up)));
    out.rows(&families::PORT_STATUS, port_labels)?;

    let connected = || rows.iter().filter_map(|row| Some((row, row.metrics.now.as_ref()?)));
    let counted = || connected().filter_map(|(row, now)| Some((&*row.dp_id, now.counts.as_ref()?)));
    let tables: Vec<String> = (0..=u8::MAX).map(|table| table.to_string()).collect();
    let rules =
        counted().flat_map(|(dp_id, counts)| counts.rules.iter().map(move |(table, rules)| (dp_id, table, rules)));
    let rules = rules.map(|(dp_id, table, rules)| ([dp_id, &*tables[usize::from(*table)]], *rules));
    out.rows(&families::SWITCH_RULES, rules)?;
    out.rows(&families::SWITCH_BARRIER_RULES, counted().map(|(dp_id, counts)| ([dp_id], counts.barrier_rules)))?;
    out.rows(&families::SWITCH_LABELS, counted().map(|(dp_id, counts)| ([dp_id], counts.labels)))?;
    out.rows(&families::SWITCH_LEAVES, counted().map(|(dp_id, counts)| ([dp_id], counts.leaves)))?;
    let waiting =
        connected().map(|(row, now)| ([&*row.dp_id], now.waiting_bytes as u64)).filter(|(_, bytes)| *bytes > 0);
    out.rows(&families::SWITCH_WAITING_BYTES, waiting)?;
    out.rows(&families::ROWS_LEFT_OUT, [(["switches"], listed.left_out), (["ports"], ports.left_out)])
}

/// Writes the system's facts about the process.
fn write_process(out: &mut MetricsEncoder<'_>, process: Process) -> fmt::Result {
    out.number(&families::PROCESS_START, process.start)?;
    out.number(&families::PROCESS_CPU, process.cpu)?;
    out.number(&families::PROCESS_MEMORY, process.resident)?;
    out.number(&families::PROCESS_FDS, process.open_fds)?;
    out.number(&families::PROCESS_MAX_FDS, process.max_fds)
}

impl Exporter {
    /// Writes metrics of the network, of the shards, and of how long things take.
    fn write_controller(
        &self,
        out: &mut MetricsEncoder<'_>,
        shards: &[ShardMetrics],
        connected: &[u64],
    ) -> fmt::Result {
        out.info(&families::BUILD, [("version", env!("CARGO_PKG_VERSION"))])?;
        let names: Vec<String> = (0..shards.len()).map(|shard| shard.to_string()).collect();
        out.rows(&families::SWITCHES, names.iter().zip(connected).map(|(shard, count)| ([&**shard], *count)))?;
        let unreachable = shards.iter().map(|shard| shard.unreachable);
        out.rows(&families::UNREACHABLE, names.iter().zip(unreachable).map(|(shard, count)| ([&**shard], count)))?;
        out.rows(&families::CONNECTIONS, [([], self.handle.connections() as u64)])?;
        let state = self.handle.snapshot();
        out.rows(&families::LINKS, [([], state.links().count() as u64)])?;
        out.rows(&families::HOSTS, [([], state.hosts().count() as u64)])?;
        let queues = names
            .iter()
            .zip(shards)
            .flat_map(|(name, shard)| shard.queues.iter().map(move |(queue, depth)| ([&**name, *queue], *depth)));
        out.rows(&families::QUEUE_DEPTH, queues)?;
        let (mut decide, mut install) = (Histogram::default(), Histogram::default());
        for shard in shards {
            decide += shard.decide_times;
            install += shard.install_times;
        }
        out.histogram(&families::DECIDE, &decide)?;
        out.histogram(&families::INSTALL, &install)?;
        let transactions = self.handle.store().counts();
        out.rows(&families::TRANSACTIONS, [([], transactions.commits)])?;
        out.rows(&families::TRANSACTION_ABORTS, [([], transactions.conflicts)])
    }

    /// Writes failures and violations, by the policy lines that they are about.
    fn write_policy(&self, out: &mut MetricsEncoder<'_>, shards: &[ShardMetrics], failed: u64) -> fmt::Result {
        let mut lines = self.lines.lock();
        let failures = lines.failures(shards, failed);
        out.rows(&families::POLICY_ERRORS, failures.iter().map(|(line, count)| ([&**line], *count)))?;
        let violations = lines.violations(shards);
        let violations = violations.iter().map(|((constraint, line), count)| ([&**constraint, &**line], *count));
        out.rows(&families::VIOLATIONS, violations)?;
        out.rows(&families::HANDLER_FAILURES, [([], self.handle.operations().handler_failures())])
    }
}

/// The labels of a row: names and values.
struct Labels<'a, const N: usize>(&'static [&'static str], [&'a str; N]);

impl<const N: usize> EncodeLabelSet for Labels<'_, N> {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        let labels = self.0.iter().copied().zip(self.1);
        labels.into_iter().try_for_each(|label| (&[label][..]).encode(encoder))
    }
}

/// The encoder to which metrics are written.
struct MetricsEncoder<'a>(DescriptorEncoder<'a>);

impl MetricsEncoder<'_> {
    /// Writes the rows of a counter or gauge, each with the values of the labels.
    fn rows<'a, const N: usize>(
        &mut self,
        of: &Description,
        rows: impl IntoIterator<Item = ([&'a str; N], u64)>,
    ) -> fmt::Result {
        debug_assert_eq!(of.labels.len(), N, "{}", of.name);
        let mut metric = self.0.encode_descriptor(of.name, of.meaning, None, of.kind.metric_type())?;
        for (labels, value) in rows {
            let labels = Labels(of.labels, labels);
            let mut row = metric.encode_family(&labels)?;
            match of.kind {
                MetricKind::Counter => row.encode_counter::<NoLabelSet, u64, u64>(&value, None)?,
                _ => row.encode_gauge(&value)?,
            }
        }
        Ok(())
    }

    /// Writes a number without labels, if it is known.
    fn number(&mut self, of: &Description, value: Option<f64>) -> fmt::Result {
        let mut metric = self.0.encode_descriptor(of.name, of.meaning, None, of.kind.metric_type())?;
        match (of.kind, value) {
            (_, None) => Ok(()),
            (MetricKind::Counter, Some(value)) => metric.encode_counter::<NoLabelSet, f64, u64>(&value, None),
            (_, Some(value)) => metric.encode_gauge(&value),
        }
    }

    /// Writes one of the counts of `maple show stats`.
    fn count(&mut self, name: &str, kind: MetricKind, meaning: &str, value: u64) -> fmt::Result {
        let mut metric = self.0.encode_descriptor(name, meaning, None, kind.metric_type())?;
        match kind {
            MetricKind::Counter if name.ends_with(families::SECONDS) => {
                metric.encode_counter::<NoLabelSet, f64, u64>(&(value as f64 / 1e9), None)
            }
            MetricKind::Counter => metric.encode_counter::<NoLabelSet, u64, u64>(&value, None),
            _ => metric.encode_gauge(&value),
        }
    }

    fn info<const N: usize>(&mut self, of: &Description, facts: [(&str, &str); N]) -> fmt::Result {
        self.0.encode_descriptor(of.name, of.meaning, None, MetricType::Info)?.encode_info(&facts)
    }

    fn histogram(&mut self, of: &Description, times: &Histogram) -> fmt::Result {
        let buckets: Vec<(f64, u64)> = times.buckets().collect();
        let mut metric = self.0.encode_descriptor(of.name, of.meaning, None, MetricType::Histogram)?;
        metric.encode_histogram::<NoLabelSet>(times.sum(), times.count(), &buckets, None)
    }

    /// Writes a gauge that another part of the program has registered.
    fn registered(
        &mut self,
        name: &str,
        meaning: &str,
        label: Option<&'static str>,
        values: &[(String, f64)],
    ) -> fmt::Result {
        let mut metric = self.0.encode_descriptor(name, meaning, None, MetricType::Gauge)?;
        for (of, value) in values {
            match label {
                Some(label) => metric.encode_family(&[(label, of.as_str())])?.encode_gauge(value)?,
                None => metric.encode_gauge(value)?,
            }
        }
        Ok(())
    }
}
