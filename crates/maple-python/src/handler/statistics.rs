//! Statistics: requests of handlers, and answers of switches.

use maple_wire::msg::ALL_GROUPS;
use maple_wire::msg::ALL_TABLES;
use maple_wire::msg::stats::{FlowStatsRequest, QueueStatsRequest, ReplyBody, RequestBody, StatsReply, StatsRequest};
use maple_wire::msg::stats::{GroupDesc, MeterConfig};
use maple_wire::{Instruction, Match, Message, PortNo};
use maple_wire::{Version, msg};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyList;
use pyo3::{PyClass, PyClassInitializer};

use super::action::Action;
use super::groups::{PyBand, PyBucket, kind_name};
use super::matching::PyMatch;
use super::messages::message_text;

/// Any group, all queues, all meters (`OFPG_ANY`, `OFPQ_ALL`, `OFPM_ALL`).
const ANY: u32 = 0xffff_ffff;

/// Asks the switch for statistics.
#[pyclass(frozen, name = "StatsRequest", module = "maple.openflow", eq)]
#[derive(PartialEq)]
pub struct PyStatsRequest(Message);

/// Statistics, or a part of them.
#[pyclass(frozen, get_all, name = "Stats", module = "maple.openflow")]
pub struct PyStats {
    /// The subject of the statistics.
    kind: &'static str,
    /// One for each rule, port and so on.
    entries: Py<PyList>,
    /// Whether other parts follow.
    more: bool,
}

macro_rules! entries {
    ($($(#[$about:meta])* $rust:ident $name:literal { $($(#[$what:meta])* $field:ident: $type:ty,)* })*) => { $(
        $(#[$about])*
        #[pyclass(frozen, get_all, name = $name, module = "maple.openflow")]
        pub struct $rust { $($(#[$what])* $field: $type,)* }
    )* };
}

entries! {
    /// The counters and properties of a rule.
    PyFlowStats "FlowStats" {
        /// Which packets it takes.
        r#match: Py<PyMatch>,
        /// Its priority.
        priority: u16,
        /// Its table.
        table: u8,
        /// Its cookie.
        cookie: u64,
        /// Its timeouts in seconds. 0 is never.
        idle_timeout: u16,
        /// See `idle_timeout`.
        hard_timeout: u16,
        /// Its immediate actions.
        actions: Vec<Py<Action>>,
        /// The next table of its packets.
        goto: Option<u8>,
        /// The meter that they pass.
        meter: Option<u32>,
        /// Seconds since it was added.
        duration: f64,
        /// Packets it took.
        packets: u64,
        /// Their bytes.
        bytes: u64,
    }
    /// The sums of counters of rules.
    PyAggregateStats "AggregateStats" {
        /// The number of rules.
        flows: u32,
        /// Packets.
        packets: u64,
        /// Bytes.
        bytes: u64,
    }
    /// Counters of a table: how full and how busy it is.
    PyTableStats "TableStats" {
        /// The table.
        table: u8,
        /// The number of its rules.
        active: u32,
        /// Packets looked up.
        lookups: u64,
        /// Packets that a rule took.
        matched: u64,
        /// Its maximum number of rules. Unknown in 1.3.
        max_entries: Option<u32>,
    }
    /// The counters of a port. A counter that the switch does not have is all ones.
    PyPortStats "PortStats" {
        /// The port.
        port: u32,
        /// Packets received.
        rx_packets: u64,
        /// Packets sent.
        tx_packets: u64,
        /// Bytes received.
        rx_bytes: u64,
        /// Bytes sent.
        tx_bytes: u64,
        /// Received packets dropped.
        rx_dropped: u64,
        /// Packets dropped that were to be sent.
        tx_dropped: u64,
        /// Receive errors.
        rx_errors: u64,
        /// Send errors.
        tx_errors: u64,
    }
    /// The counters of a queue.
    PyQueueStats "QueueStats" {
        /// Its port.
        port: u32,
        /// Its number there.
        queue: u32,
        /// Packets sent.
        tx_packets: u64,
        /// Bytes sent.
        tx_bytes: u64,
        /// Packets dropped because the queue was full.
        tx_errors: u64,
    }
    /// The counters of a group.
    PyGroupStats "GroupStats" {
        /// The group.
        group: u32,
        /// The number of rules and groups that use it.
        users: u32,
        /// Packets.
        packets: u64,
        /// Bytes.
        bytes: u64,
        /// Seconds it has been there.
        duration: f64,
        /// Packets and bytes of each bucket.
        buckets: Vec<(u64, u64)>,
    }
    /// The configuration of a group.
    PyGroupDesc "GroupDesc" {
        /// The group.
        group: u32,
        /// Its type.
        r#type: &'static str,
        /// Its buckets.
        buckets: Vec<Py<PyBucket>>,
    }
    /// The counters of a meter.
    PyMeterStats "MeterStats" {
        /// The meter.
        meter: u32,
        /// The number of rules that use it.
        users: u32,
        /// Packets that came in.
        packets: u64,
        /// Bytes that came in.
        bytes: u64,
        /// Seconds it has been there.
        duration: f64,
        /// Packets and bytes that each band applied to.
        bands: Vec<(u64, u64)>,
    }
    /// The configuration of a meter.
    PyMeterConfig "MeterConfig" {
        /// The meter.
        meter: u32,
        /// Whether rates are in packets per second, instead of kilobits.
        packets: bool,
        /// Its bands.
        bands: Vec<Py<PyBand>>,
    }
}

impl PyStatsRequest {
    /// Returns the message for a switch of this version. In 1.0 another number means the queues of all ports.
    pub(super) fn message(&self, version: Version) -> Message {
        match &self.0 {
            Message::StatsRequest(StatsRequest { flags, body: RequestBody::Queue(asked) })
                if version == Version::Of10 && asked.port == PortNo::ANY =>
            {
                let body = RequestBody::Queue(QueueStatsRequest { port: PortNo::ALL, ..*asked });
                Message::StatsRequest(StatsRequest { flags: *flags, body })
            }
            message => message.clone(),
        }
    }

    fn new(body: RequestBody) -> PyStatsRequest {
        PyStatsRequest(Message::StatsRequest(StatsRequest::new(body)))
    }
}

/// Returns the selection of rules that these arguments mean.
fn rules(
    matching: Option<&Bound<'_, PyMatch>>,
    table: Option<u8>,
    out_port: Option<u32>,
    out_group: Option<u32>,
    cookie: u64,
    cookie_mask: u64,
) -> FlowStatsRequest {
    FlowStatsRequest {
        table_id: table.unwrap_or(ALL_TABLES),
        out_port: out_port.map_or(PortNo::ANY, PortNo),
        out_group: out_group.unwrap_or(ANY),
        cookie,
        cookie_mask,
        matching: matching.map_or_else(Match::any, |matching| matching.get().0.clone()),
    }
}

#[pymethods]
impl PyStatsRequest {
    /// Asks for rules and their counters.
    #[staticmethod]
    #[pyo3(signature = (r#match = None, *, table = None, out_port = None, out_group = None, cookie = 0, cookie_mask = 0))]
    fn flows(
        r#match: Option<&Bound<'_, PyMatch>>,
        table: Option<u8>,
        out_port: Option<u32>,
        out_group: Option<u32>,
        cookie: u64,
        cookie_mask: u64,
    ) -> PyStatsRequest {
        PyStatsRequest::new(RequestBody::Flow(rules(r#match, table, out_port, out_group, cookie, cookie_mask)))
    }

    /// Asks for the sums over rules.
    #[staticmethod]
    #[pyo3(signature = (r#match = None, *, table = None, out_port = None, out_group = None, cookie = 0, cookie_mask = 0))]
    fn aggregate(
        r#match: Option<&Bound<'_, PyMatch>>,
        table: Option<u8>,
        out_port: Option<u32>,
        out_group: Option<u32>,
        cookie: u64,
        cookie_mask: u64,
    ) -> PyStatsRequest {
        PyStatsRequest::new(RequestBody::Aggregate(rules(r#match, table, out_port, out_group, cookie, cookie_mask)))
    }

    /// Asks for the number of rules in the tables.
    #[staticmethod]
    fn tables() -> PyStatsRequest {
        PyStatsRequest::new(RequestBody::Table)
    }

    /// Asks for the counters of a port, or all.
    #[staticmethod]
    #[pyo3(signature = (port = None))]
    fn ports(port: Option<u32>) -> PyStatsRequest {
        PyStatsRequest::new(RequestBody::Port(port.map_or(PortNo::ANY, PortNo)))
    }

    /// Asks for the counters of queues.
    #[staticmethod]
    #[pyo3(signature = (port = None, queue = None))]
    fn queues(port: Option<u32>, queue: Option<u32>) -> PyStatsRequest {
        let asked = QueueStatsRequest { port: port.map_or(PortNo::ANY, PortNo), queue: queue.unwrap_or(ANY) };
        PyStatsRequest::new(RequestBody::Queue(asked))
    }

    /// Asks for the counters of a group, or all.
    #[staticmethod]
    #[pyo3(signature = (group = None))]
    fn groups(group: Option<u32>) -> PyStatsRequest {
        PyStatsRequest::new(RequestBody::Group(group.unwrap_or(ALL_GROUPS)))
    }

    /// Asks for the configuration of groups.
    #[staticmethod]
    fn group_descriptions() -> PyStatsRequest {
        PyStatsRequest::new(RequestBody::GroupDesc)
    }

    /// Asks for the counters of a meter, or all.
    #[staticmethod]
    #[pyo3(signature = (meter = None))]
    fn meters(meter: Option<u32>) -> PyStatsRequest {
        PyStatsRequest::new(RequestBody::Meter(meter.unwrap_or(ANY)))
    }

    /// Asks for the configuration of meters.
    #[staticmethod]
    #[pyo3(signature = (meter = None))]
    fn meter_configs(meter: Option<u32>) -> PyStatsRequest {
        PyStatsRequest::new(RequestBody::MeterConfig(meter.unwrap_or(ANY)))
    }

    fn __repr__(&self) -> String {
        format!("<StatsRequest {}>", message_text(&self.0))
    }
}

#[pymethods]
impl PyStats {
    fn __repr__(&self, py: Python<'_>) -> String {
        let more = if self.more { ", more to come" } else { "" };
        format!("<Stats {}: {} entries{more}>", self.kind, self.entries.bind(py).len())
    }
}

impl PyStats {
    /// Converts the answer of a switch. `None` for a kind that handlers cannot request.
    pub(super) fn new(py: Python<'_>, version: Version, reply: &StatsReply) -> PyResult<Option<PyStats>> {
        let (kind, entries) = match &reply.body {
            ReplyBody::Flow(all) => ("flows", list(py, all, |one| PyFlowStats::new(py, one))?),
            ReplyBody::Aggregate(sum) => {
                let (flows, packets, bytes) = (sum.flow_count, sum.packet_count, sum.byte_count);
                ("aggregate", list(py, &[()], |()| Ok(PyAggregateStats { flows, packets, bytes }))?)
            }
            ReplyBody::Table(all) => ("tables", list(py, all, |one| Ok(PyTableStats::new(version, one)))?),
            ReplyBody::Port(all) => ("ports", list(py, all, |one| Ok(PyPortStats::new(one)))?),
            ReplyBody::Queue(all) => ("queues", list(py, all, |one| Ok(PyQueueStats::new(one)))?),
            ReplyBody::Group(all) => ("groups", list(py, all, |one| Ok(PyGroupStats::new(one)))?),
            ReplyBody::GroupDesc(all) => ("group_descriptions", list(py, all, |one| PyGroupDesc::new(py, one))?),
            ReplyBody::Meter(all) => ("meters", list(py, all, |one| Ok(PyMeterStats::new(one)))?),
            ReplyBody::MeterConfig(all) => ("meter_configs", list(py, all, |one| PyMeterConfig::new(py, one))?),
            _ => return Ok(None),
        };
        Ok(Some(PyStats { kind, entries, more: reply.more() }))
    }
}

/// Converts the entries of an answer.
fn list<E, T>(py: Python<'_>, entries: &[E], convert: impl Fn(&E) -> PyResult<T>) -> PyResult<Py<PyList>>
where
    T: PyClass + Into<PyClassInitializer<T>>,
{
    let list = PyList::empty(py);
    entries.iter().try_for_each(|entry| list.append(Py::new(py, convert(entry)?)?))?;
    Ok(list.unbind())
}

fn seconds(sec: u32, nsec: u32) -> f64 {
    f64::from(sec) + f64::from(nsec) / 1e9
}

impl PyTableStats {
    fn new(version: Version, table: &msg::stats::TableStats) -> PyTableStats {
        PyTableStats {
            table: table.table_id,
            active: table.active_count,
            lookups: table.lookup_count,
            matched: table.matched_count,
            max_entries: (version == Version::Of10).then_some(table.max_entries),
        }
    }
}

impl PyQueueStats {
    fn new(queue: &msg::stats::QueueStats) -> PyQueueStats {
        PyQueueStats {
            port: queue.port.0,
            queue: queue.queue,
            tx_packets: queue.tx_packets,
            tx_bytes: queue.tx_bytes,
            tx_errors: queue.tx_errors,
        }
    }
}

impl PyGroupStats {
    fn new(group: &msg::stats::GroupStats) -> PyGroupStats {
        PyGroupStats {
            group: group.group,
            users: group.ref_count,
            packets: group.packet_count,
            bytes: group.byte_count,
            duration: seconds(group.duration_sec, group.duration_nsec),
            buckets: group.buckets.iter().map(|bucket| (bucket.packet_count, bucket.byte_count)).collect(),
        }
    }
}

impl PyMeterStats {
    fn new(meter: &msg::stats::MeterStats) -> PyMeterStats {
        PyMeterStats {
            meter: meter.meter,
            users: meter.flow_count,
            packets: meter.packet_in_count,
            bytes: meter.byte_in_count,
            duration: seconds(meter.duration_sec, meter.duration_nsec),
            bands: meter.bands.iter().map(|band| (band.packet_count, band.byte_count)).collect(),
        }
    }
}

impl PyFlowStats {
    fn new(py: Python<'_>, flow: &msg::stats::FlowStats) -> PyResult<PyFlowStats> {
        let (mut actions, mut goto, mut meter) = (Vec::new(), None, None);
        for instruction in &flow.instructions {
            match instruction {
                Instruction::ApplyActions(all) | Instruction::WriteActions(all) => {
                    actions.extend(all.iter().map(|action| Py::new(py, Action::from_wire(action.clone()))));
                }
                Instruction::GotoTable(table) => goto = Some(*table),
                Instruction::Meter(number) => meter = Some(*number),
                _ => {}
            }
        }
        Ok(PyFlowStats {
            r#match: Py::new(py, PyMatch(flow.matching.clone()))?,
            priority: flow.priority,
            table: flow.table_id,
            cookie: flow.cookie,
            idle_timeout: flow.idle_timeout,
            hard_timeout: flow.hard_timeout,
            actions: actions.into_iter().collect::<PyResult<_>>()?,
            goto,
            meter,
            duration: seconds(flow.duration_sec, flow.duration_nsec),
            packets: flow.packet_count,
            bytes: flow.byte_count,
        })
    }
}

impl PyPortStats {
    fn new(stats: &msg::stats::PortStats) -> PyPortStats {
        PyPortStats {
            port: stats.port.0,
            rx_packets: stats.rx_packets,
            tx_packets: stats.tx_packets,
            rx_bytes: stats.rx_bytes,
            tx_bytes: stats.tx_bytes,
            rx_dropped: stats.rx_dropped,
            tx_dropped: stats.tx_dropped,
            rx_errors: stats.rx_errors,
            tx_errors: stats.tx_errors,
        }
    }
}

impl PyGroupDesc {
    fn new(py: Python<'_>, group: &GroupDesc) -> PyResult<PyGroupDesc> {
        let buckets = group.buckets.iter().map(|bucket| Py::new(py, PyBucket(bucket.clone())));
        let r#type = kind_name(group.kind);
        Ok(PyGroupDesc { group: group.group, r#type, buckets: buckets.collect::<PyResult<_>>()? })
    }
}

impl PyMeterConfig {
    fn new(py: Python<'_>, meter: &MeterConfig) -> PyResult<PyMeterConfig> {
        let bands = meter.bands.iter().map(|band| Py::new(py, PyBand(band.clone()))).collect::<PyResult<_>>()?;
        Ok(PyMeterConfig { meter: meter.meter, packets: meter.flags & super::groups::PER_PACKET != 0, bands })
    }
}

/// Decodes a statistics reply for a bench: an encoded message of this version.
pub(super) fn decoded(version: Version, message: &[u8]) -> PyResult<Message> {
    let wrong = |what: String| PyValueError::new_err(format!("no statistics reply of OpenFlow {version}: {what}"));
    match Message::decode(message) {
        Ok((header, message @ Message::StatsReply(_))) if header.version == version as u8 => Ok(message),
        Ok((header, _)) => Err(wrong(format!("version {}, type {}", header.version, header.kind))),
        Err(error) => Err(wrong(error.to_string())),
    }
}
