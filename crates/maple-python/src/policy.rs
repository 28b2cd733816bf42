//! Runs Python policies: enters the interpreter once for a batch of misses, and turns results into routes or errors.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use maple_core::access::AccessList;
use maple_core::compose::Composition;
use maple_core::policy::{Net, PacketHandle, Policy, PolicyError, SamplePacket};
use maple_core::route::Route;
use maple_core::run::Run;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::compose::PyComposition;
use crate::current::{Entered, Ticket};
use crate::error_text::{ErrorTexts, described};
use crate::guard::{self, PyRouteView};
use crate::host;
use crate::interrupt::{PolicyTimeout, Watched};
use crate::net::PyNet;
use crate::packet::PyPacket;
use crate::policy_part::Part;
use crate::route::PyRoute;
use crate::transaction::Retry;

/// A policy made of Python functions, usually of one.
pub struct PythonPolicy {
    policy: Composition<Part>,
    limit: Duration,
    reported: ErrorTexts,
    /// The object that `@policy` made, or the composed policy.
    object: Py<PyAny>,
    untracked_reads: OnceLock<Vec<Arc<str>>>,
}

impl PythonPolicy {
    /// Creates the policy that calls `policy(pkt, net)`, or the policy that `policy` is composed of. A run may take
    /// `limit`.
    ///
    /// For an object that `@policy` made, the function itself is called, so that tracebacks begin there.
    pub fn new(policy: &Bound<'_, PyAny>, limit: Duration) -> PythonPolicy {
        let py = policy.py();
        let (reported, object, untracked_reads) =
            (ErrorTexts::new("the policy", limit), policy.clone().unbind(), OnceLock::new());
        let composition = policy.getattr(intern!(py, "composition")).ok();
        if let Some(composition) = composition.as_ref().and_then(|object| object.cast::<PyComposition>().ok()) {
            let policy = composition.get().0.clone();
            return PythonPolicy { policy, limit, reported, object, untracked_reads };
        }
        let function = policy.getattr(intern!(py, "function")).unwrap_or_else(|_| policy.clone());
        let policy = Composition::single(Part::Function(Arc::new(function.unbind())));
        PythonPolicy { policy, limit, reported, object, untracked_reads }
    }

    fn decide_one(&self, py: Python<'_>, pkt: &PacketHandle, net: &Net) -> Result<Route, PolicyError> {
        let entered = Entered::new(pkt.clone(), net.clone());
        let ticket = entered.ticket();
        let arguments = (PyPacket::new(ticket), PyNet::new(ticket)).into_pyobject(py);
        let arguments = arguments.map_err(|error| PolicyError::Exception(self.reported.text(py, &error)))?;
        let mut watched = None;
        self.policy.decide_by(pkt, net, &mut |part, pkt, _| match part {
            Part::Function(function) => self.answer(function.bind(py), &arguments, &mut watched, pkt),
            Part::Constraint(function) => self.judge(function.bind(py), entered.ticket(), &mut watched, pkt),
            Part::Route(route) => Ok(route.clone()),
        })
    }

    /// Calls a function and returns its route. One time limit covers all functions of a run, but the replacement of a
    /// function that failed gets a whole limit of its own.
    fn answer<'py>(
        &self,
        function: &Bound<'py, PyAny>,
        arguments: &Bound<'py, PyTuple>,
        watched: &mut Option<Watched<'py>>,
        pkt: &PacketHandle,
    ) -> Result<Route, PolicyError> {
        let answer = self.called(function, arguments, watched)?;
        match answer.cast::<PyRoute>() {
            Ok(route) => Ok(route.get().0.clone()),
            Err(_) => Err(PolicyError::WrongReturn(wrong_return(function, &answer, pkt).into())),
        }
    }

    /// Asks a constraint of the user's own about the route that the packet would take.
    fn judge<'py>(
        &self,
        function: &Bound<'py, PyAny>,
        ticket: Ticket,
        watched: &mut Option<Watched<'py>>,
        pkt: &PacketHandle,
    ) -> Result<Route, PolicyError> {
        let py = function.py();
        let view = PyRouteView(pkt.judged_route().unwrap_or_default());
        let arguments = (PyPacket::new(ticket), view, PyNet::new(ticket)).into_pyobject(py);
        let arguments = arguments.map_err(|error| PolicyError::Exception(self.reported.text(py, &error)))?;
        guard::verdict(&self.called(function, &arguments, watched)?)
    }

    /// Calls a function within the time limit of the run.
    fn called<'py>(
        &self,
        function: &Bound<'py, PyAny>,
        arguments: &Bound<'py, PyTuple>,
        watched: &mut Option<Watched<'py>>,
    ) -> Result<Bound<'py, PyAny>, PolicyError> {
        let py = function.py();
        let mut call = || {
            if watched.is_none() {
                *watched = Some(Watched::new(py, self.limit)?);
            }
            let answer = function.call1(arguments);
            if answer.is_err() {
                *watched = None;
            }
            answer
        };
        match call() {
            Ok(answer) => Ok(answer),
            Err(error) if error.is_instance_of::<Retry>(py) => Err(PolicyError::Retry),
            Err(error) if error.is_instance_of::<PolicyTimeout>(py) => {
                Err(PolicyError::TimeLimit(self.reported.text(py, &error)))
            }
            Err(error) => Err(PolicyError::Exception(self.reported.text(py, &error))),
        }
    }
}

/// Returns the error about an answer that is not a route: which function returned it, and after which line that
/// observed the packet.
fn wrong_return(function: &Bound<'_, PyAny>, answer: &Bound<'_, PyAny>, pkt: &PacketHandle) -> String {
    let place = || -> PyResult<String> {
        let code = function.getattr("__code__")?;
        let (file, line) = (code.getattr("co_filename")?, code.getattr("co_firstlineno")?);
        Ok(format!("File \"{file}\", line {line}, in {}: ", code.getattr("co_name")?))
    };
    let after = pkt.last_source().map(|source| format!(" after line {}", source.line)).unwrap_or_default();
    format!(
        "{}the policy returned {}{after}, which is not a route; routes are drop(), flood(), to(port), hops([…]), \
         multicast([…]), pass_(), net.shortest_path(src, dst) and net.path(src, dst, cost=…)",
        place().unwrap_or_default(),
        described(answer),
    )
}

impl Policy for PythonPolicy {
    fn decide(&self, pkt: &PacketHandle, net: &Net) -> Result<Route, PolicyError> {
        Python::attach(|py| self.decide_one(py, pkt, net))
    }

    fn decide_batch(&self, runs: &[Run]) -> Vec<Result<Route, PolicyError>> {
        Python::attach(|py| {
            let decide = |run: &Run| {
                // A panic in a call from Python comes through Python to here. It fails this packet only.
                let decide = AssertUnwindSafe(|| self.decide_one(py, &run.packet(), &run.net()));
                catch_unwind(decide).unwrap_or_else(|_| Err(PolicyError::Exception("the policy panicked".into())))
            };
            Run::decide_each(runs, decide)
        })
    }

    fn samples(&self) -> Vec<SamplePacket> {
        self.policy.samples()
    }

    fn access_lists(&self) -> Vec<Arc<AccessList>> {
        self.policy.access_lists()
    }

    fn constraints(&self) -> Vec<Arc<str>> {
        self.policy.constraints()
    }

    fn untracked_reads(&self) -> Vec<Arc<str>> {
        let find = |py: Python<'_>| -> PyResult<Vec<String>> {
            py.import("maple._check")?.call_method1("untracked_reads", (self.object.bind(py),))?.extract()
        };
        let found = || match Python::attach(find) {
            Ok(found) => found.into_iter().map(Arc::from).collect(),
            Err(error) => vec![format!("its source can't be looked through: {error}").into()],
        };
        self.untracked_reads.get_or_init(found).clone()
    }

    /// Keeps the thread attached to the interpreter, so that a batch only has to take the lock.
    fn on_thread(&self, worker: &mut (dyn FnMut() + Send)) {
        Python::attach(|py| host::on_worker(py, worker));
    }
}
