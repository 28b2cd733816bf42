//! The source of a trace item: file and line of the innermost Python frame.
//!
//! The source is determined once for each recorded item, so only on the path of a miss.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use maple_core::trace::Source;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::{Py, PyAny, Python, ffi, intern};

/// A file name, as Python's object and as the text of sources.
type File = (Py<PyAny>, Arc<str>);

thread_local! {
    /// File names already seen, by the address of their object, so that items of one file share one text. Python keeps
    /// one object for all functions of a file.
    static FILES: RefCell<HashMap<usize, File>> = RefCell::default();
}

/// The maximum number of file names that a thread remembers. Chosen: more than a policy has files, and a bound on
/// memory.
const MAX_NAMES: usize = 10_000;

/// Returns the file and line of the Python code that runs, if there is any.
pub fn here(py: Python<'_>) -> Option<Source> {
    let (line, code) = line_and_code(py)?;
    let name = code.getattr(intern!(py, "co_filename")).ok()?;
    let at = name.as_ptr() as usize;
    let known = FILES.with_borrow(|files| files.get(&at).map(|(_, file)| file.clone()));
    if let Some(file) = known {
        return Some(Source::new(file, line));
    }
    let file: Arc<str> = name.extract::<String>().ok()?.into();
    FILES.with_borrow_mut(|files| {
        let same = files.values().find(|(_, text)| *text == file).map(|(_, text)| text.clone());
        let file = same.unwrap_or(file);
        if files.len() < MAX_NAMES {
            files.insert(at, (name.unbind(), file.clone()));
        }
        Some(Source::new(file, line))
    })
}

/// Returns the line that runs, and the code that it belongs to.
#[allow(unsafe_code, reason = "each observation asks for it, and as attributes of a frame it takes four times as long")]
fn line_and_code(py: Python<'_>) -> Option<(u32, Bound<'_, PyAny>)> {
    // SAFETY: this thread is attached, as `py` shows. The frame is borrowed, and outlives this call because it made the
    // call. `PyFrame_GetCode` returns a new reference, never null.
    let (line, code) = unsafe {
        let frame = ffi::PyEval_GetFrame();
        if frame.is_null() {
            return None;
        }
        let code = ffi::PyFrame_GetCode(frame);
        (ffi::PyFrame_GetLineNumber(frame), Bound::from_owned_ptr(py, code.cast()))
    };
    Some((u32::try_from(line).ok()?, code))
}

/// Returns the innermost Python frame of this thread.
pub fn frame(py: Python<'_>) -> Option<Bound<'_, PyAny>> {
    static GETFRAME: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    GETFRAME.import(py, "sys", "_getframe").ok()?.call0().ok()
}
