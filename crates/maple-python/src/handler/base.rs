//! The class that handlers in Python are derived from.

use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use super::packet_in::PyPacketIn;
use super::statistics::PyStats;
use super::switch::{PyFlowRemoved, PyPort, PySwitch, SwitchError};
use crate::error_text::described;
use crate::interrupt::Watched;

/// The value of `wish` while no call of `timer` is requested.
const NEVER: u64 = u64::MAX;

thread_local! {
    /// The switch whose handler this thread is making.
    static SWITCH: RefCell<Option<Py<PySwitch>>> = const { RefCell::new(None) };
}

/// The base class of handlers: one object for each switch.
#[pyclass(frozen, subclass, name = "Handler", module = "maple")]
pub struct PyHandler {
    switch: Option<Py<PySwitch>>,
    /// Nanoseconds until the requested call of `timer`.
    wish: AtomicU64,
}

/// Makes the handler of a switch within the time limit.
pub(super) fn born<'py>(
    py: Python<'py>,
    class: &Bound<'py, PyAny>,
    switch: &Py<PySwitch>,
    limit: Duration,
) -> PyResult<Bound<'py, PyAny>> {
    let outer = SWITCH.replace(Some(switch.clone_ref(py)));
    let object = Watched::new(py, limit).and_then(|watched| {
        let object = class.call0();
        drop(watched);
        object
    });
    SWITCH.replace(outer);
    let object = object?;
    if object.is_instance_of::<PyHandler>() {
        Ok(object)
    } else {
        Err(PyTypeError::new_err(format!("a handler is derived from maple.Handler, not {}", described(&object))))
    }
}

impl PyHandler {
    /// Takes the time until the requested call of `timer`, if there was a request since the last call.
    pub(super) fn take_wish(&self) -> Option<Duration> {
        match self.wish.load(Ordering::Relaxed) {
            NEVER => None,
            _ => Some(Duration::from_nanos(self.wish.swap(NEVER, Ordering::Relaxed))),
        }
    }
}

#[pymethods]
impl PyHandler {
    #[new]
    #[pyo3(signature = (*_args, **_kwargs))]
    fn new(py: Python<'_>, _args: &Bound<'_, PyTuple>, _kwargs: Option<&Bound<'_, PyDict>>) -> PyHandler {
        let switch = SWITCH.with_borrow(|switch| switch.as_ref().map(|switch| switch.clone_ref(py)));
        PyHandler { switch, wish: AtomicU64::new(NEVER) }
    }

    /// Whether switches are asked for packets that no rule matches.
    #[classattr]
    #[allow(non_upper_case_globals, reason = "it is named as Python names attributes")]
    const table_miss: bool = true;

    /// The switch.
    #[getter]
    fn switch(&self, py: Python<'_>) -> PyResult<Py<PySwitch>> {
        self.switch.as_ref().map(|switch| switch.clone_ref(py)).ok_or_else(|| {
            PyRuntimeError::new_err(
                "this handler has no switch: `maple run` makes one for each switch; maple.testing.HandlerBench does in tests",
            )
        })
    }

    /// Requests a call of `timer` after this number of seconds. The last request counts.
    fn wake_after(&self, seconds: f64) -> PyResult<()> {
        let time = Duration::try_from_secs_f64(seconds)
            .map_err(|_| PyValueError::new_err(format!("wake_after takes a number of seconds, not {seconds}")))?;
        let nanoseconds = u64::try_from(time.as_nanos()).unwrap_or(NEVER - 1).min(NEVER - 1);
        self.wish.store(nanoseconds, Ordering::Relaxed);
        Ok(())
    }

    /// Runs when the switch has finished its handshake. Does nothing unless it is overridden, like all of these.
    fn switch_up(&self) {}

    /// Runs when the switch has sent a packet.
    #[pyo3(signature = (_pkt, /), text_signature = "($self, pkt, /)")]
    fn packet_in(&self, _pkt: &Bound<'_, PyPacketIn>) {}

    /// Runs when a port came, went or changed.
    #[pyo3(signature = (_port, _reason, /), text_signature = "($self, port, reason, /)")]
    fn port_status(&self, _port: &Bound<'_, PyPort>, _reason: &str) {}

    /// Runs when a rule was removed.
    #[pyo3(signature = (_removed, /), text_signature = "($self, removed, /)")]
    fn flow_removed(&self, _removed: &Bound<'_, PyFlowRemoved>) {}

    /// Runs when the switch has refused a message.
    #[pyo3(signature = (_error, /), text_signature = "($self, error, /)")]
    fn error(&self, _error: &Bound<'_, SwitchError>) {}

    /// Runs when the switch has done all that was sent before the oldest barrier that it had not answered.
    fn barrier(&self) {}

    /// Runs when the switch has answered a statistics request, or has sent a part of the answer.
    #[pyo3(signature = (_stats, /), text_signature = "($self, stats, /)")]
    fn stats(&self, _stats: &Bound<'_, PyStats>) {}

    /// Runs when the time that `wake_after` asked for has come.
    fn timer(&self) {}

    /// Runs when the connection is closed.
    fn switch_down(&self) {}
}
