//! The packet that a policy decides: one attribute for each field, by its OXM name.

#![allow(unsafe_op_in_unsafe_fn, reason = "PyO3's own code for __getattr__, where a macro makes the methods")]

use std::sync::Arc;

use maple_core::policy::PacketHandle;
use maple_core::run::Observe as _;
use maple_wire::packet::text::summary_of_fields;
use maple_wire::{Field, Packet};
use pyo3::exceptions::{PyAttributeError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::assertion::conjunction;
use crate::current::{self, Ticket};
use crate::field::FieldRef;
use crate::source;

/// The packet that a policy is asked about.
#[pyclass(frozen, name = "Packet", module = "maple")]
pub struct PyPacket {
    ticket: Ticket,
}

impl PyPacket {
    /// Creates the packet of the run that `ticket` names.
    pub fn new(ticket: Ticket) -> PyPacket {
        PyPacket { ticket }
    }
}

/// Returns the bytes of the whole packet, or an error that mentions `what`.
fn whole(ticket: Ticket, what: &str) -> PyResult<Arc<[u8]>> {
    let frame = current::with_packet(ticket, what, PacketHandle::frame)?;
    frame.ok_or_else(|| PyRuntimeError::new_err(format!("{what}: the switch sent only the beginning of the packet")))
}

macro_rules! fields {
    ($(#[doc = $doc:literal] $name:ident => $field:ident $facts:tt;)*) => {
        /// The names of all fields, in the order of their OXM numbers.
        pub const FIELDS: [&str; Field::COUNT] = [$(stringify!($name)),*];

        #[pymethods]
        impl PyPacket {
            /// Datapath id of the switch where the packet entered the network.
            #[getter]
            fn switch(&self) -> PyResult<u64> {
                current::with_packet(self.ticket, "pkt.switch", |p| p.switch().0)
            }

            /// The whole frame, from the Ethernet header on. Then each such packet comes to the controller.
            #[getter]
            fn frame<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
                Ok(PyBytes::new(py, &whole(self.ticket, "pkt.frame")?))
            }

            /// The bytes after the innermost header, as with `frame`.
            #[getter]
            fn payload<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
                Ok(PyBytes::new(py, Packet::new(&whole(self.ticket, "pkt.payload")?, 0).payload()))
            }

            /// Reports whether the packet matches all of these conditions: one test.
            #[pyo3(signature = (**fields))]
            fn matches(&self, py: Python<'_>, fields: Option<&Bound<'_, PyDict>>) -> PyResult<bool> {
                let Some(cond) = conjunction(fields)? else { return Ok(false) };
                current::with_packet(self.ticket, "pkt.matches", |p| p.fits(&cond, source::here(py)))
            }

            fn __repr__(&self) -> &'static str {
                "<packet>"
            }

            /// Returns the packet in one line, which reads the fields that it shows.
            fn __str__(&self, py: Python<'_>) -> PyResult<String> {
                let line = source::here(py);
                current::with_packet(self.ticket, "str(pkt)", |p| {
                    summary_of_fields(&|field| p.read(field, field.full_mask(), line.clone()))
                })
            }

            /// Raises an error that names the fields that there are, for a name that is not an attribute.
            fn __getattr__(&self, py: Python<'_>, name: &str) -> PyResult<Py<PyAny>> {
                let reported = py.import("maple._spelling")?.call_method1("unknown_field", (name,))?;
                Err(PyAttributeError::new_err(reported.unbind()))
            }

            $(#[doc = $doc]
            #[getter]
            fn $name(&self) -> FieldRef {
                FieldRef::new(Field::$field, self.ticket)
            })*
        }
    };
}

maple_wire::for_all_fields!(fields);
