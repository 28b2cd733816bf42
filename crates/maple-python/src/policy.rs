//! Runs Python policies: takes the interpreter once a batch of misses, and turns what comes back into routes or errors.

use std::sync::Arc;
use std::time::Duration;

use maple_core::policy::{Net, PacketHandle, Policy, PolicyError};
use maple_core::route::Route;
use maple_core::run::Run;
use pyo3::intern;
use pyo3::prelude::*;

use crate::current::Entered;
use crate::interrupt::{PolicyTimeout, Watched};
use crate::kind::described;
use crate::net::PyNet;
use crate::packet::PyPacket;
use crate::route::PyRoute;

/// A policy whose f is a Python function.
pub struct PythonPolicy {
    function: Py<PyAny>,
    limit: Duration,
}

impl PythonPolicy {
    /// The policy that calls `policy(pkt, net)`; a run may take `limit`.
    ///
    /// Of an object that `@policy` made the function itself is called, so that tracebacks begin there.
    pub fn new(policy: &Bound<'_, PyAny>, limit: Duration) -> PythonPolicy {
        let function = policy.getattr(intern!(policy.py(), "function")).unwrap_or_else(|_| policy.clone());
        PythonPolicy { function: function.unbind(), limit }
    }

    fn decide_one(&self, py: Python<'_>, pkt: &PacketHandle, net: &Net) -> Result<Route, PolicyError> {
        match self.call(py, pkt, net) {
            Ok(answer) => match answer.cast::<PyRoute>() {
                Ok(route) => Ok(route.get().0.clone()),
                Err(_) => Err(PolicyError::WrongReturn(described(&answer).into())),
            },
            Err(error) if error.is_instance_of::<PolicyTimeout>(py) => Err(self.timeout(py, &error)),
            Err(error) => Err(PolicyError::Exception(traceback(py, &error))),
        }
    }

    fn call<'py>(&self, py: Python<'py>, pkt: &PacketHandle, net: &Net) -> PyResult<Bound<'py, PyAny>> {
        let entered = Entered::new(pkt.clone(), net.clone());
        let ticket = entered.ticket();
        let arguments = (PyPacket::new(ticket), PyNet::new(ticket));
        let watched = Watched::new(py, self.limit)?;
        let answer = self.function.bind(py).call1(arguments);
        drop(watched);
        answer
    }

    /// The error of a run that took too long, with the place where it was stopped.
    fn timeout(&self, py: Python<'_>, error: &PyErr) -> PolicyError {
        let place = traceback(py, error);
        let place = place.trim_end().strip_suffix("maple.PolicyTimeout").unwrap_or(&place).trim_end();
        let limit = self.limit.as_millis();
        PolicyError::Exception(format!("{place}\nmaple.PolicyTimeout: the policy ran longer than {limit} ms").into())
    }
}

impl Policy for PythonPolicy {
    fn decide(&self, pkt: &PacketHandle, net: &Net) -> Result<Route, PolicyError> {
        Python::attach(|py| self.decide_one(py, pkt, net))
    }

    fn decide_batch(&self, runs: &[Run]) -> Vec<Result<Route, PolicyError>> {
        Python::attach(|py| runs.iter().map(|run| self.decide_one(py, &run.packet(), &run.net())).collect())
    }
}

/// The error as Python prints it.
pub fn traceback(py: Python<'_>, error: &PyErr) -> Arc<str> {
    let format = || -> PyResult<String> {
        let parts = (error.get_type(py), error.value(py), error.traceback(py));
        let lines = py.import("traceback")?.call_method1("format_exception", parts)?;
        Ok(lines.extract::<Vec<String>>()?.concat())
    };
    // Formatting runs the policy's own __str__ and __repr__, which may fail like anything else.
    format().unwrap_or_else(|_| format!("{} (its traceback can't be formatted)", error.get_type(py))).trim_end().into()
}
