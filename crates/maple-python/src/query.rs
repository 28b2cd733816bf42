//! Queries in Python: functions of the state whose answers are remembered until something that they read changes.
//!
//! A commit can ask a query again: a thread then holds the store's lock and waits for the interpreter's. So nothing may
//! wait for the store while it holds the interpreter's lock.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use maple_core::policy::Net;
use maple_core::state::{CellValue, Function, QueryAnswer, Value};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::current::Entered;
use crate::error_text::ErrorTexts;
use crate::interrupt::Watched;
use crate::net::PyNet;
use crate::state::read;
use crate::transaction::Retry;
use crate::value::{to_python, to_value};

/// The time limit of a query outside of a policy's run, in milliseconds.
static LIMIT: AtomicU64 = AtomicU64::new(1000);

/// Sets the time limit of queries outside of a policy's run.
pub fn limit(time: Duration) {
    LIMIT.store(time.as_millis() as u64, Ordering::Relaxed);
}

/// A function of the state whose answers are remembered.
#[pyclass(frozen, generic, module = "maple")]
pub struct Query {
    function: Function,
    name: String,
}

#[pymethods]
impl Query {
    #[new]
    fn new(function: &Bound<'_, PyAny>) -> PyResult<Query> {
        let name: String = function.getattr("__qualname__")?.extract()?;
        let asked = Asked {
            function: function.clone().unbind(),
            reported: ErrorTexts::new("the query", Duration::from_secs(1)),
        };
        let ask = move |net: &Net, argument: &Value| Python::attach(|py| asked.answer(py, net, argument));
        Ok(Query { function: Function::new(&name, ask), name })
    }

    /// Returns the query's answer. A reader depends on the answer, not on the state that it comes from.
    #[pyo3(signature = (*arguments))]
    fn __call__<'py>(&self, py: Python<'py>, arguments: &Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        let cell = self.function.cell(to_value(arguments.as_any())?);
        match read(cell) {
            CellValue::Answer(Ok(value)) => to_python(py, &value),
            CellValue::Answer(Err(error)) => {
                Err(PyRuntimeError::new_err(format!("the query {} failed: {error}", self.name)))
            }
            other => Err(PyRuntimeError::new_err(format!("{other:?} is not an answer of the query {}", self.name))),
        }
    }

    fn __repr__(&self) -> String {
        format!("<query {}>", self.name)
    }
}

struct Asked {
    function: Py<PyAny>,
    reported: ErrorTexts,
}

impl Asked {
    fn answer(&self, py: Python<'_>, net: &Net, argument: &Value) -> QueryAnswer {
        self.call(py, net, argument).map_err(|error| {
            if error.is_instance_of::<Retry>(py) {
                return Arc::from("it calls retry(), and queries don't wait");
            }
            self.reported.text(py, &error)
        })
    }

    fn call(&self, py: Python<'_>, net: &Net, argument: &Value) -> PyResult<Value> {
        let entered = Entered::of_query(net.clone());
        let mut arguments = vec![Bound::new(py, PyNet::new(entered.ticket()))?.into_any()];
        if let Value::Tuple(all) = argument {
            for one in all.iter() {
                arguments.push(to_python(py, one)?);
            }
        }
        let watched = Watched::unless_it_is(py, Duration::from_millis(LIMIT.load(Ordering::Relaxed)))?;
        let answer = self.function.bind(py).call1(PyTuple::new(py, arguments)?)?;
        drop(watched);
        to_value(&answer)
    }
}
