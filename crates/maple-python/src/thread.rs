//! The running Python thread, as a writer of tracked state.

use std::sync::Arc;
use std::time::SystemTime;

use maple_core::Source;
use maple_core::state::{Writer, Written};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::{Py, PyAny, Python};

/// Describes a write of this thread at this line, at the present time.
pub fn written(py: Python<'_>, line: Option<Source>) -> Written {
    Written { by: Writer::Thread { name: name(py), line }, at: SystemTime::now() }
}

/// Returns the thread's name in Python.
fn name(py: Python<'_>) -> Arc<str> {
    static CURRENT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let current = || CURRENT.import(py, "threading", "current_thread")?.call0()?.getattr("name")?.extract::<String>();
    current().map_or_else(|_| "without a name".into(), Into::into)
}
