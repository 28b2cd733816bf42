//! Loads of ports, links and pairs of hosts. Every answer is a dependency of the run.

use maple_core::network::Gauge;
use maple_core::policy::Load;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;

use crate::current::{self, Ticket};

/// The number of bits in a megabit.
const MEGABIT: f64 = 1e6;
/// The default of `until`, as a share of the threshold: a load stays high until it falls to this share.
const UNTIL: f64 = 0.8;

/// A measurement of a port, a link, or the traffic from a host to another.
#[pyclass(frozen, name = "Load", module = "maple")]
pub struct PyLoad {
    ticket: Ticket,
    gauges: Vec<Gauge>,
    /// The capacity that the policy gave, in Mbit/s.
    capacity: Option<f64>,
}

impl PyLoad {
    /// Creates the load that a run has asked for; `capacity` is in Mbit/s.
    ///
    /// # Errors
    /// `ValueError` if the capacity is not a positive number.
    pub fn new(ticket: Ticket, load: &Load, capacity: Option<f64>) -> PyResult<PyLoad> {
        let in_bits = capacity.map(|capacity| bits(capacity, "capacity")).transpose()?;
        if in_bits == Some(0) {
            return Err(PyValueError::new_err("capacity is a number of Mbit/s, and more than 0"));
        }
        Ok(PyLoad { ticket, gauges: load.gauges().to_vec(), capacity })
    }

    fn ask<T>(&self, question: impl FnOnce(Load) -> T) -> PyResult<T> {
        current::with_net(self.ticket, |net| {
            let load = net.load(self.gauges.clone());
            question(match self.capacity {
                Some(capacity) => load.relative_to(capacity),
                None => load,
            })
        })
    }

    /// Reports whether the policy must give a capacity, because no switch reports a speed for the measurement.
    fn needs_capacity(&self) -> bool {
        self.capacity.is_none() && self.gauges.iter().any(|gauge| matches!(gauge, Gauge::Traffic { .. }))
    }

    fn name(&self) -> String {
        match &self.gauges[..] {
            [] => "nothing".into(),
            gauges => gauges.iter().map(ToString::to_string).collect::<Vec<_>>().join(", or "),
        }
    }
}

/// Converts Mbit/s to bits per second.
///
/// # Errors
/// `ValueError`, which mentions `name`, for a negative or infinite number.
pub fn bits(mbps: f64, name: &str) -> PyResult<u64> {
    if !mbps.is_finite() || mbps < 0.0 {
        return Err(PyValueError::new_err(format!("{name} is a number of Mbit/s, 0 or more, not {mbps}")));
    }
    Ok((mbps * MEGABIT).round() as u64)
}

#[pymethods]
impl PyLoad {
    /// Load of the other direction.
    #[getter]
    fn received(&self) -> PyResult<PyLoad> {
        if self.gauges.iter().any(|gauge| matches!(gauge, Gauge::Traffic { .. })) {
            return Err(PyTypeError::new_err("net.traffic(src, dst) has one direction; ask for net.traffic(dst, src)"));
        }
        let gauges = self.ask(|load| load.received().gauges().to_vec())?;
        Ok(PyLoad { ticket: self.ticket, gauges, capacity: self.capacity })
    }

    /// Reports whether the load became more than this, and was not at most `until` since.
    #[pyo3(signature = (share = None, *, mbps = None, until = None))]
    fn is_above(&self, share: Option<f64>, mbps: Option<f64>, until: Option<f64>) -> PyResult<bool> {
        let from = match (share, mbps) {
            (Some(from), None) | (None, Some(from)) => from,
            _ => {
                return Err(PyTypeError::new_err(
                    "is_above() takes a share, such as is_above(0.8), or Mbit/s, such as is_above(mbps=50)",
                ));
            }
        };
        let until = until.unwrap_or(UNTIL * from);
        if !(0.0 <= until && until <= from && from.is_finite()) {
            return Err(PyValueError::new_err(format!(
                "is_above(): busy begins above {from} and ends at until={until}, which is between 0 and that"
            )));
        }
        if mbps.is_some() {
            return self.ask(|load| load.is_above_mbps(from, until));
        }
        if from > 1.0 {
            return Err(PyValueError::new_err(format!(
                "is_above({from}): a share is at most 1, all that can be sent; for Mbit/s write is_above(mbps={from})"
            )));
        }
        if self.needs_capacity() {
            return Err(PyValueError::new_err(
                "a share of what? net.traffic(src, dst, capacity=100) says Mbit/s, or ask is_above(mbps=…)",
            ));
        }
        self.ask(|load| load.is_above_share(from, until))
    }

    /// The used share of the capacity, in tenths.
    #[getter]
    fn utilisation(&self) -> PyResult<f64> {
        if self.needs_capacity() {
            return Err(PyValueError::new_err("utilisation of what? net.traffic(src, dst, capacity=100) says Mbit/s"));
        }
        self.ask(|load| load.utilisation())
    }

    /// The capacity, in Mbit/s.
    #[getter]
    fn capacity(&self) -> PyResult<Option<f64>> {
        self.ask(|load| load.capacity())
    }

    fn __bool__(&self) -> PyResult<bool> {
        Err(PyTypeError::new_err("a load is neither true nor false; ask .is_above(0.8) or .utilisation >= 0.5"))
    }

    fn __repr__(&self) -> String {
        format!("<load: {}>", self.name())
    }
}
