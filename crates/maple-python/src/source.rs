//! The source of a trace item: file and line of the innermost Python frame.
//!
//! Asked once for each recorded item, so only on the path of a miss.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use maple_core::trace::Source;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::{Py, PyAny, Python, intern};

thread_local! {
    /// File names already seen, so that items of one file share one text.
    static FILES: RefCell<HashMap<String, Arc<str>>> = RefCell::default();
}

/// File and line of the Python code that is running now, if there is any.
pub fn here(py: Python<'_>) -> Option<Source> {
    let frame = frame(py)?;
    let line = frame.getattr(intern!(py, "f_lineno")).ok()?.extract().ok()?;
    let code = frame.getattr(intern!(py, "f_code")).ok()?;
    let name = code.getattr(intern!(py, "co_filename")).ok()?.extract::<String>().ok()?;
    let file = FILES.with_borrow_mut(|files| match files.get(&name) {
        Some(file) => file.clone(),
        None => {
            let file: Arc<str> = name.as_str().into();
            files.insert(name, file.clone());
            file
        }
    });
    Some(Source::new(file, line))
}

/// The innermost Python frame of this thread.
pub fn frame(py: Python<'_>) -> Option<Bound<'_, PyAny>> {
    static GETFRAME: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    GETFRAME.import(py, "sys", "_getframe").ok()?.call0().ok()
}
