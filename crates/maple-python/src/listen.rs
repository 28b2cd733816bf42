//! Events for `@on` functions, and their frames: `maple._on` calls them from its own thread.

use std::sync::Arc;
use std::time::Duration;

use maple_cli::print_plain;
use maple_controller::control::COUNT_TIMEOUT;
use maple_controller::listener::{Listener, ListenerError, NetworkEvent};
use maple_controller::log::Level;
use maple_controller::{Handle, LateShard};
use maple_core::engine::{CounterKind, ListenerPacket, PortCount, Time, Traffic};
use maple_wire::msg::PortReason;
use maple_wire::print;
use maple_wire::{Field, Packet};
use parking_lot::Mutex;
use pyo3::exceptions::{PyRuntimeError, PyTimeoutError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::address::Mac;
use crate::host;
use crate::kind::{FieldKind, from_raw};
use crate::route::{PyLocation, frame_bytes};

/// A packet that entered the network and that an `@on` function asked for.
#[pyclass(frozen, name = "PacketEvent", module = "maple")]
pub struct PyHeard(ListenerPacket);

/// The source of events.
#[pyclass(frozen, name = "Listener", module = "maple")]
pub struct PyListener(Mutex<Listener>);

impl PyListener {
    /// Wraps this listener.
    pub fn new(listener: Listener) -> PyListener {
        PyListener(Mutex::new(listener))
    }
}

impl PyHeard {
    fn packet(&self) -> Packet<'_> {
        Packet::with_wire_len(&self.0.frame, self.0.at.port.0, self.0.total_len)
    }

    fn get<'py>(&self, py: Python<'py>, field: Field) -> PyResult<Option<Bound<'py, PyAny>>> {
        let value = self.packet().get(field).and_then(|raw| from_raw(field, raw));
        value.map(|value| FieldKind::from_field(field).to_python(py, value)).transpose()
    }
}

#[pymethods]
impl PyListener {
    /// Waits this number of seconds for the next event, and returns its name and parameters. `("nothing",)` if there
    /// was none, and `("end",)` when the controller has stopped.
    fn next<'py>(&self, py: Python<'py>, timeout: f64) -> PyResult<Bound<'py, PyTuple>> {
        let timeout = Duration::try_from_secs_f64(timeout).map_err(|e| PyValueError::new_err(e.to_string()))?;
        let next = py.detach(|| self.0.lock().next(timeout));
        match next {
            Err(ListenerError::Timeout) => ("nothing",).into_pyobject(py),
            Err(ListenerError::Ended) => ("end",).into_pyobject(py),
            Ok(NetworkEvent::Packet(heard)) => ("packet_in", heard.by, PyHeard(heard)).into_pyobject(py),
            Ok(NetworkEvent::Port { at, name, is_up, reason }) => {
                let reason = match reason {
                    PortReason::Add => "add",
                    PortReason::Delete => "delete",
                    PortReason::Modify | PortReason::Other(_) => "modify",
                };
                ("port_status", PyLocation::from(at), name, is_up, reason).into_pyobject(py)
            }
            Ok(NetworkEvent::Violation { constraint, why, place, at }) => {
                ("violation", &*constraint, &*why, &*place, PyLocation::from(at)).into_pyobject(py)
            }
            Ok(NetworkEvent::SwitchUp(dpid)) => ("switch_up", dpid.0).into_pyobject(py),
            Ok(NetworkEvent::SwitchDown(dpid)) => ("switch_down", dpid.0).into_pyobject(py),
            Ok(NetworkEvent::SwitchUnreachable(dpid)) => ("switch_unreachable", dpid.0).into_pyobject(py),
            Ok(NetworkEvent::SwitchReachable(dpid)) => ("switch_reachable", dpid.0).into_pyobject(py),
            // Other events are those of a newer controller.
            Ok(_) => ("nothing",).into_pyobject(py),
        }
    }
}

/// Sends a frame out of an edge port of the running network.
#[pyfunction]
pub fn send_frame(py: Python<'_>, frame: &Bound<'_, PyAny>, at: &Bound<'_, PyAny>) -> PyResult<()> {
    let (at, frame) = (PyLocation::from_object(at)?, frame_bytes(frame)?);
    let Some(controller) = host::controller() else { return Err(PyRuntimeError::new_err("no controller runs")) };
    py.detach(|| controller.send_frame(frame, at)).map_err(|error| PyRuntimeError::new_err(error.to_string()))
}

/// The counters of a port: received packets, bytes, dropped and bad packets, then these four for sent packets.
type Counters = [Option<u64>; 8];

/// Returns the counters of all ports, and the time of their switches' answers, in seconds.
#[pyfunction]
pub fn port_counts(py: Python<'_>) -> PyResult<Vec<(PyLocation, f64, Counters)>> {
    let one = |(count, _): (PortCount, Duration)| {
        let c = count.counters;
        let all =
            [c.rx_packets, c.rx_bytes, c.rx_dropped, c.rx_errors, c.tx_packets, c.tx_bytes, c.tx_dropped, c.tx_errors];
        (count.at.into(), seconds(count.time), all.map(|value| (value != u64::MAX).then_some(value)))
    };
    Ok(counted(py, CounterKind::Ports, Handle::port_counts)?.into_iter().map(one).collect())
}

/// A switch, and the source and destination of the traffic at it.
type Pair<'py> = (u64, Option<Bound<'py, Mac>>, Option<Bound<'py, Mac>>);

/// Returns the traffic between hosts at its ingress: packets and bytes, after the time of the switch's answer, in
/// seconds.
#[pyfunction]
pub fn traffic_counts(py: Python<'_>) -> PyResult<Vec<(Pair<'_>, f64, u64, u64)>> {
    let host = |mac: Option<maple_core::Mac>| mac.map(|mac| Mac::cached(py, mac.bits() as u64)).transpose();
    let one = |(count, _): (Traffic, Duration)| {
        let pair = (count.switch.0, host(count.from.host())?, host(count.to.host())?);
        Ok((pair, seconds(count.time), count.packets, count.bytes))
    };
    counted(py, CounterKind::Rules, Handle::traffic)?.into_iter().map(one).collect()
}

/// Returns what the controller knows when switches have sent these counters; nothing if no controller runs.
fn counted<T: Send>(
    py: Python<'_>,
    kind: CounterKind,
    read: fn(&Handle) -> Result<Vec<T>, LateShard>,
) -> PyResult<Vec<T>> {
    let Some(controller) = host::controller() else { return Ok(Vec::new()) };
    let counts = py.detach(|| {
        controller.count(kind, None, COUNT_TIMEOUT)?;
        read(&controller)
    });
    counts.map_err(|late| PyTimeoutError::new_err(late.to_string()))
}

fn seconds(time: Time) -> f64 {
    time.0 as f64 / 1e9
}

/// Reports that a function failed, with a traceback.
#[pyfunction]
pub fn listener_failed(error: String) {
    match host::controller() {
        Some(controller) => controller.operations().listener_failed(Arc::from(error)),
        None => print_plain(Level::Error, &format!("a listener failed: {error}")),
    }
}

macro_rules! getters {
    ($(#[doc = $doc:literal] $name:ident => $field:ident $facts:tt;)*) => {
        #[pymethods]
        impl PyHeard {
            $(#[doc = $doc]
            #[getter]
            fn $name<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
                self.get(py, Field::$field)
            })*

            /// Location where the packet entered.
            #[getter]
            fn at(&self) -> PyLocation {
                self.0.at.into()
            }

            /// The frame, or its first bytes.
            #[getter]
            fn frame<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
                PyBytes::new(py, &self.0.frame)
            }

            /// The length of the whole frame, in bytes.
            #[getter]
            fn total_len(&self) -> usize {
                self.0.total_len
            }

            /// The bytes after the innermost header.
            #[getter]
            fn payload<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
                PyBytes::new(py, self.packet().payload())
            }

            /// Sends a frame to where the packet came from.
            fn reply(&self, py: Python<'_>, frame: &Bound<'_, PyAny>) -> PyResult<()> {
                send_frame(py, frame, &Bound::new(py, PyLocation::from(self.0.at))?.into_any())
            }

            fn __repr__(&self) -> String {
                format!("<packet at {}: {}>", self.0.at, print::frame(&self.0.frame))
            }
        }
    };
}

maple_wire::for_all_fields!(getters);
