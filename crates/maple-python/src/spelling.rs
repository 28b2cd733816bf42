//! Refuses `pkt.tcp_dst in range(…)`, which Python would turn into one comparison for each number.
//!
//! A field only sees that it is compared with some number. So when this first happens at an instruction,
//! `maple._spelling` looks at the source there, and its result is kept for the instruction.

use std::cell::RefCell;
use std::collections::HashMap;

use maple_wire::Field;
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use crate::kind::largest;
use crate::source;

/// The maximum number of instructions that a thread remembers. Chosen: more than a policy has places that ask, and a
/// bound on memory.
const REMEMBERED: usize = 4096;

thread_local! {
    /// Instructions (address of the code object, offset) that don't ask for a range, with the code object, so that its
    /// address stays in use.
    static INNOCENT: RefCell<HashMap<(usize, i64), Py<PyAny>>> = RefCell::default();
}

/// Refuses the running instruction if it is `field in range(…)`.
///
/// # Errors
/// `TypeError` that shows the better spelling, and the errors of the check itself.
pub fn refuse_range(py: Python<'_>, field: Field) -> PyResult<()> {
    static CHECK: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let Some(frame) = source::frame(py) else { return Ok(()) };
    let code = frame.getattr(intern!(py, "f_code"))?;
    let instruction = (code.as_ptr() as usize, frame.getattr(intern!(py, "f_lasti"))?.extract()?);
    if INNOCENT.with_borrow(|innocent| innocent.contains_key(&instruction)) {
        return Ok(());
    }
    let check = CHECK.import(py, "maple._spelling", "compared_in_range")?;
    match check.call1((frame,))?.extract::<Option<bool>>()? {
        Some(true) => Err(PyTypeError::new_err(format!(
            "`pkt.{field} in range(a, b)` would compare with one number after the other; \
             write `a <= pkt.{field} < b` (numbers from 0 to {})",
            largest(field)
        ))),
        Some(false) => {
            let forgotten = INNOCENT.with_borrow_mut(|innocent| {
                let full = innocent.len() >= REMEMBERED;
                let forgotten = if full { std::mem::take(innocent) } else { HashMap::new() };
                innocent.insert(instruction, code.unbind());
                forgotten
            });
            drop(forgotten);
            Ok(())
        }
        None => Ok(()),
    }
}
