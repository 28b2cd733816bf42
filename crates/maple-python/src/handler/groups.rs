//! Groups and meters (OpenFlow 1.3 §5.6, §5.7), and the messages that change them.

use maple_wire::msg::ALL_GROUPS;
use maple_wire::msg::command::{ADD, DELETE, MODIFY};
use maple_wire::msg::{Band, BandKind, Bucket, GroupMod, MeterMod};
use maple_wire::{Message, PortNo};
use maple_wire::{Version, print};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use super::action::{self, Action};
use super::messages::message_text;
use crate::error_text::described;

/// Any group (`OFPG_ANY`), or all meters (`OFPM_ALL`).
const ANY: u32 = 0xffff_ffff;
/// The names of the group types `OFPGT_*`, by number.
const KINDS: [&str; 4] = ["all", "select", "indirect", "ff"];
/// The meter flags `OFPMF_KBPS`, `OFPMF_PKTPS`, `OFPMF_BURST`, `OFPMF_STATS`.
const PER_KILOBIT: u16 = 1;
/// The flag of a meter with rates in packets a second, `OFPMF_PKTPS` (1.3 §7.3.4.4).
pub(super) const PER_PACKET: u16 = 2;
/// The flag of a meter with a size of bursts, `OFPMF_BURST`.
const BURST: u16 = 4;
/// The flag of a meter that collects statistics, `OFPMF_STATS`.
const STATISTICS: u16 = 8;

/// One of the action lists of a group.
#[pyclass(frozen, name = "Bucket", module = "maple.openflow", eq)]
#[derive(Clone, PartialEq)]
pub struct PyBucket(pub(super) Bucket);

/// The action of a meter above a rate.
#[pyclass(frozen, name = "Band", module = "maple.openflow", eq)]
#[derive(Clone, PartialEq)]
pub struct PyBand(pub(super) Band);

/// Adds, changes or deletes a group.
#[pyclass(frozen, name = "GroupMod", module = "maple.openflow", eq)]
#[derive(PartialEq)]
pub struct PyGroupMod(Message);

/// Adds, changes or deletes a meter.
#[pyclass(frozen, name = "MeterMod", module = "maple.openflow", eq)]
#[derive(PartialEq)]
pub struct PyMeterMod(Message);

/// Returns the name of a group type.
pub(super) fn kind_name(kind: u8) -> &'static str {
    KINDS.get(usize::from(kind)).copied().unwrap_or("other")
}

#[pymethods]
impl PyBucket {
    #[new]
    #[pyo3(signature = (actions, *, weight = 0, watch_port = None, watch_group = None))]
    fn new(
        actions: &Bound<'_, PyAny>,
        weight: u16,
        watch_port: Option<u32>,
        watch_group: Option<u32>,
    ) -> PyResult<PyBucket> {
        let (watch_port, watch_group) = (watch_port.map_or(PortNo::ANY, PortNo), watch_group.unwrap_or(ANY));
        Ok(PyBucket(Bucket { weight, watch_port, watch_group, actions: action::actions(actions)? }))
    }

    /// Actions of the bucket.
    #[getter]
    fn actions(&self) -> Vec<Action> {
        self.0.actions.iter().cloned().map(Action::from_wire).collect()
    }

    /// Share of the packets that the bucket gets in a `"select"` group.
    #[getter]
    fn weight(&self) -> u16 {
        self.0.weight
    }

    /// Port that must be up for the bucket to be used.
    #[getter]
    fn watch_port(&self) -> Option<u32> {
        (self.0.watch_port != PortNo::ANY).then_some(self.0.watch_port.0)
    }

    /// Group that must be live for the bucket to be used.
    #[getter]
    fn watch_group(&self) -> Option<u32> {
        (self.0.watch_group != ANY).then_some(self.0.watch_group)
    }

    fn __repr__(&self) -> String {
        format!("<Bucket weight={} actions={}>", self.0.weight, print::actions(Version::Of13, &self.0.actions))
    }
}

#[pymethods]
impl PyBand {
    /// Drops what is above the rate.
    #[staticmethod]
    #[pyo3(signature = (rate, burst = 0))]
    fn drop(rate: u32, burst: u32) -> PyBand {
        PyBand(Band { rate, burst, kind: BandKind::Drop })
    }

    /// Raises the drop precedence of what is above the rate.
    #[staticmethod]
    #[pyo3(signature = (rate, levels = 1, burst = 0))]
    fn remark(rate: u32, levels: u8, burst: u32) -> PyBand {
        PyBand(Band { rate, burst, kind: BandKind::DscpRemark(levels) })
    }

    /// The rate, in kilobits or packets per second.
    #[getter]
    fn rate(&self) -> u32 {
        self.0.rate
    }

    /// The burst size, in kilobits or packets.
    #[getter]
    fn burst(&self) -> u32 {
        self.0.burst
    }

    /// The increase of the drop precedence. `None` if packets are dropped.
    #[getter]
    fn levels(&self) -> Option<u8> {
        if let BandKind::DscpRemark(levels) = self.0.kind { Some(levels) } else { None }
    }

    fn __repr__(&self) -> String {
        format!("<Band {:?}>", self.0)
    }
}

impl PyGroupMod {
    /// Returns the group-mod.
    pub(super) fn message(&self) -> &Message {
        &self.0
    }

    fn set(command: u16, group: u32, kind: &str, buckets: &Bound<'_, PyAny>) -> PyResult<PyGroupMod> {
        let kind = KINDS.iter().position(|name| *name == kind).ok_or_else(|| {
            PyValueError::new_err(format!("the type of a group is one of {}, not {kind:?}", KINDS.join(", ")))
        })? as u8;
        let buckets = buckets.try_iter().map_err(|_| no_buckets(buckets))?.map(|bucket| bucket_of(&bucket?));
        let buckets = buckets.collect::<PyResult<_>>()?;
        Ok(PyGroupMod(Message::GroupMod(GroupMod { command, kind, group, buckets })))
    }
}

/// Returns the bucket that an object is, or a bucket with the actions that it means.
fn bucket_of(object: &Bound<'_, PyAny>) -> PyResult<Bucket> {
    match object.cast_exact::<PyBucket>() {
        Ok(bucket) => Ok(bucket.get().0.clone()),
        Err(_) => {
            Ok(Bucket { weight: 0, watch_port: PortNo::ANY, watch_group: ANY, actions: action::actions(object)? })
        }
    }
}

fn no_buckets(object: &Bound<'_, PyAny>) -> PyErr {
    PyTypeError::new_err(format!("buckets are a list of Bucket, or of actions, not {}", described(object)))
}

#[pymethods]
impl PyGroupMod {
    /// Adds a group.
    #[staticmethod]
    #[pyo3(signature = (group, buckets, *, r#type = "all"))]
    fn add(group: u32, buckets: &Bound<'_, PyAny>, r#type: &str) -> PyResult<PyGroupMod> {
        PyGroupMod::set(ADD, group, r#type, buckets)
    }

    /// Changes a group.
    #[staticmethod]
    #[pyo3(signature = (group, buckets, *, r#type = "all"))]
    fn modify(group: u32, buckets: &Bound<'_, PyAny>, r#type: &str) -> PyResult<PyGroupMod> {
        PyGroupMod::set(MODIFY, group, r#type, buckets)
    }

    /// Deletes a group, or all, and the rules that use them.
    #[staticmethod]
    #[pyo3(signature = (group = None))]
    fn delete(group: Option<u32>) -> PyGroupMod {
        let group = group.unwrap_or(ALL_GROUPS);
        PyGroupMod(Message::GroupMod(GroupMod { command: DELETE, kind: 0, group, buckets: Vec::new() }))
    }

    fn __repr__(&self) -> String {
        format!("<GroupMod {}>", message_text(&self.0))
    }
}

impl PyMeterMod {
    /// Returns the meter-mod.
    pub(super) fn message(&self) -> &Message {
        &self.0
    }

    fn set(command: u16, meter: u32, bands: Vec<Bound<'_, PyBand>>, packets: bool) -> PyMeterMod {
        let bands: Vec<Band> = bands.into_iter().map(|band| band.get().0.clone()).collect();
        let burst = if bands.iter().any(|band| band.burst > 0) { BURST } else { 0 };
        let flags = STATISTICS | burst | if packets { PER_PACKET } else { PER_KILOBIT };
        PyMeterMod(Message::MeterMod(MeterMod { command, flags, meter, bands }))
    }
}

#[pymethods]
impl PyMeterMod {
    /// Adds a meter.
    #[staticmethod]
    #[pyo3(signature = (meter, bands, *, packets = false))]
    fn add(meter: u32, bands: Vec<Bound<'_, PyBand>>, packets: bool) -> PyMeterMod {
        PyMeterMod::set(ADD, meter, bands, packets)
    }

    /// Changes a meter.
    #[staticmethod]
    #[pyo3(signature = (meter, bands, *, packets = false))]
    fn modify(meter: u32, bands: Vec<Bound<'_, PyBand>>, packets: bool) -> PyMeterMod {
        PyMeterMod::set(MODIFY, meter, bands, packets)
    }

    /// Deletes a meter, or all, and the rules that use them.
    #[staticmethod]
    #[pyo3(signature = (meter = None))]
    fn delete(meter: Option<u32>) -> PyMeterMod {
        let meter = meter.unwrap_or(ANY);
        PyMeterMod(Message::MeterMod(MeterMod { command: DELETE, flags: 0, meter, bands: Vec::new() }))
    }

    fn __repr__(&self) -> String {
        format!("<MeterMod {}>", message_text(&self.0))
    }
}
