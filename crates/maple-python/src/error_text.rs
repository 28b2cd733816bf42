//! Errors of Python code as text: with a traceback, and one text for all errors of a place.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pyo3::prelude::*;

use crate::interrupt::PolicyTimeout;

/// The number of parts that stay at each end of a shortened traceback. Chosen: a deep recursion shows where it began
/// and where it failed.
const ENDS: usize = 12;

/// The maximum number of errors that are remembered, by place. Chosen: a policy has fewer places that fail, and memory
/// is bounded.
const REMEMBERED: usize = 256;

/// The texts of errors, by kind and place. All errors of a place get one text, so that they count as one error although
/// their messages can mention other packets.
pub struct ErrorTexts {
    /// The code that fails, in words: "the policy".
    whose: &'static str,
    /// The time limit of a run, for the text of a timeout.
    limit: Duration,
    texts: Mutex<HashMap<String, Arc<str>>>,
}

impl ErrorTexts {
    /// Starts without errors, for the code `whose`, whose runs may take `limit`.
    pub fn new(whose: &'static str, limit: Duration) -> ErrorTexts {
        ErrorTexts { whose, limit, texts: Mutex::default() }
    }

    /// Returns the error with its traceback, in the words of the first error from this place.
    pub fn text(&self, py: Python<'_>, error: &PyErr) -> Arc<str> {
        let place = place(py, error);
        let texts = self.texts.lock();
        if let Some(text) = texts.get(&place) {
            return text.clone();
        }
        // Formatting runs code of the policy, which can let other threads run.
        drop(texts);
        let mut text = traceback(py, error);
        if error.is_instance_of::<PolicyTimeout>(py) {
            text.push_str(&format!(": {} ran longer than {} ms", self.whose, self.limit.as_millis()));
        }
        let mut texts = self.texts.lock();
        if texts.len() >= REMEMBERED {
            return text.into();
        }
        texts.entry(place).or_insert_with(|| text.into()).clone()
    }
}

/// Returns the kind and place of an error: its type, and the lines of its traceback. A run that took too long is
/// stopped at any line of a loop, so for timeouts only the functions count.
fn place(py: Python<'_>, error: &PyErr) -> String {
    let mut place = error.get_type(py).to_string();
    let is_timeout = error.is_instance_of::<PolicyTimeout>(py);
    let mut trace = error.traceback(py).map(Bound::into_any);
    while let Some(entry) = trace {
        let step = || -> PyResult<String> {
            let code = entry.getattr("tb_frame")?.getattr("f_code")?;
            let line = if is_timeout { code.getattr("co_firstlineno")? } else { entry.getattr("tb_lineno")? };
            Ok(format!(" {}:{line}", code.getattr("co_filename")?))
        };
        place.push_str(&step().unwrap_or_default());
        trace = entry.getattr("tb_next").ok().filter(|next| !next.is_none());
    }
    place
}

/// Returns the error as Python prints it, without the middle of a long traceback.
fn traceback(py: Python<'_>, error: &PyErr) -> String {
    let format = || -> PyResult<String> {
        let parts = (error.get_type(py), error.value(py), error.traceback(py));
        let lines = py.import("traceback")?.call_method1("format_exception", parts)?;
        Ok(without_middle(lines.extract()?))
    };
    // Formatting runs the policy's own __str__ and __repr__, which can fail.
    let text = format().unwrap_or_else(|_| format!("{} (its traceback can't be formatted)", error.get_type(py)));
    text.trim_end().to_string()
}

/// Joins the parts of a traceback, each of some lines, without the middle. Functions that call each other without end
/// have a thousand parts.
fn without_middle(mut parts: Vec<String>) -> String {
    let left_out = parts.len().saturating_sub(2 * ENDS);
    if left_out > 1 {
        parts.splice(ENDS..ENDS + left_out, [format!("  [{left_out} calls are left out here]\n")]);
    }
    parts.concat()
}

/// Returns an object in the form of error texts: `'ssh' (str)`.
pub fn described(object: &Bound<'_, PyAny>) -> String {
    let kind = object.get_type().name().map(|n| n.to_string()).unwrap_or_else(|_| "an object".to_string());
    let shown = object.repr().map(|r| r.to_string()).unwrap_or_default();
    if shown.chars().count() > 60 || shown.is_empty() { format!("a {kind}") } else { format!("{shown} ({kind})") }
}
