//! Field objects: the values of attributes such as `pkt.tcp_dst`.
//!
//! Getting the attribute records nothing. The use of the object is recorded: comparing is a *test*, which needs one
//! rule for all packets with the same answer; hashing, `int()`, `str()`, formatting and arithmetic are *reads*, which
//! learn the value. Every operation answers as it would on the plain value (`int`, [`Mac`](crate::address::Mac),
//! [`Ip`](crate::address::Ip), or `None` where the packet has no such field). One differs: an order comparison with an
//! absent field is false, where `None` would raise.

use std::sync::OnceLock;

use maple_core::network::RESERVED;
use maple_core::run::Observe as _;
use maple_wire::Field;
use maple_wire::field::VLAN_PRESENT;
use pyo3::basic::CompareOp;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyInt;

use crate::address::{Family, FieldFunctions, Prefix};
use crate::current::{self, Ticket};
use crate::kind::{Bounded, FieldKind, bound, from_raw, largest, operand, to_raw};
use crate::source;
use crate::spelling;

/// A field of the packet that a policy is deciding.
#[pyclass(frozen, name = "Field", module = "maple")]
pub struct FieldRef {
    field: Field,
    ticket: Ticket,
    /// The value, once it has been read. It outlives the run, so that a field can be a key in a dictionary.
    known: OnceLock<Option<u128>>,
}

/// The functions by which fields take the place of addresses.
pub const AS_ADDRESSES: FieldFunctions = FieldFunctions { value: FieldRef::value_of, is_under };

/// Reports whether `object` is a field that lies under `prefix`, by a test. `None` if it is not a field.
fn is_under(object: &Bound<'_, PyAny>, prefix: &Prefix) -> PyResult<Option<bool>> {
    object.cast::<FieldRef>().ok().map(|field| field.get().in_prefix(object.py(), prefix)).transpose()
}

impl FieldRef {
    /// Creates the object for `field` in the run of `ticket`.
    pub fn new(field: Field, ticket: Ticket) -> FieldRef {
        FieldRef { field, ticket, known: OnceLock::new() }
    }

    /// Returns which field this is.
    pub fn field(&self) -> Field {
        self.field
    }

    /// Returns the field if it can be the key of a look-up: it belongs to the current run, and its value, which the
    /// policy has not read, is what a switch has in that field.
    pub fn as_key(&self) -> Option<Field> {
        let is_unread = self.ticket.is_valid() && self.known.get().is_none();
        (is_unread && self.field != Field::VlanVid).then_some(self.field)
    }

    /// Returns the plain value of `object` if it is a field, else `None`. A read.
    ///
    /// # Errors
    /// `RuntimeError` if the field's run is over and the field was not read in it.
    pub fn value_of<'py>(object: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        match object.cast::<FieldRef>() {
            Ok(field) => Ok(Some(field.get().plain(object.py())?)),
            Err(_) => Ok(None),
        }
    }

    /// Reads the field. `None` if the packet does not have it.
    fn read(&self, py: Python<'_>) -> PyResult<Option<u128>> {
        if let Some(known) = self.known.get() {
            return Ok(*known);
        }
        let mask = self.field.full_mask();
        let value =
            current::with_packet(self.ticket, self.field.name(), |p| p.read(self.field, mask, source::here(py)))?;
        let value = value.and_then(|raw| from_raw(self.field, raw));
        Ok(*self.known.get_or_init(|| value))
    }

    /// Reads the field as a Python object: `int`, `Mac`, `Ip` or `None`.
    fn plain<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match self.read(py)? {
            Some(value) => FieldKind::from_field(self.field).to_python(py, value),
            None => Ok(py.None().into_bound(py)),
        }
    }

    /// Tests whether the packet has the field.
    fn is_present(&self, py: Python<'_>) -> PyResult<bool> {
        if let Some(known) = self.known.get() {
            return Ok(known.is_some());
        }
        current::with_packet(self.ticket, self.field.name(), |p| match self.field {
            Field::VlanVid => p.equals(self.field, VLAN_PRESENT, VLAN_PRESENT, source::here(py)),
            field => p.present(field, source::here(py)),
        })
    }

    /// Tests whether the field has `value` in the bits of `mask`.
    fn equals(&self, py: Python<'_>, value: u128, mask: u128) -> PyResult<bool> {
        if let Some(known) = self.known.get() {
            return Ok(known.is_some_and(|v| v & mask == value & mask));
        }
        let (value, mask) = (to_raw(self.field, value), to_raw(self.field, mask));
        current::with_packet(self.ticket, self.field.name(), |p| p.equals(self.field, value, mask, source::here(py)))
    }

    /// Tests whether the field lies from `lo` to `hi`, both included.
    fn in_range(&self, py: Python<'_>, lo: u128, hi: u128) -> PyResult<bool> {
        if lo > hi {
            return Ok(false);
        }
        if let Some(known) = self.known.get() {
            return Ok(known.is_some_and(|v| lo <= v && v <= hi));
        }
        if lo == 0 && hi == largest(self.field) {
            return self.is_present(py);
        }
        let (lo, hi) = (to_raw(self.field, lo), to_raw(self.field, hi));
        current::with_packet(self.ticket, self.field.name(), |p| p.in_range(self.field, lo, hi, source::here(py)))
    }

    /// Tests whether the address lies under `prefix`.
    fn in_prefix(&self, py: Python<'_>, prefix: &Prefix) -> PyResult<bool> {
        if self.family()? != prefix.family {
            return Err(PyTypeError::new_err(format!("{} can't lie in {prefix}: that is of another kind", self.field)));
        }
        if prefix.mask() == 0 { self.is_present(py) } else { self.equals(py, prefix.value, prefix.mask()) }
    }

    fn family(&self) -> PyResult<Family> {
        match FieldKind::from_field(self.field) {
            FieldKind::Mac => Ok(Family::Mac),
            FieldKind::Ipv4 => Ok(Family::Ipv4),
            FieldKind::Ipv6 => Ok(Family::Ipv6),
            FieldKind::Number => Err(PyTypeError::new_err(format!(
                "{} is a number and has no prefixes; test it with lo <= pkt.{} <= hi",
                self.field, self.field
            ))),
        }
    }

    /// Compares with another field: two reads.
    fn compare_fields(&self, other: &Bound<'_, FieldRef>, op: CompareOp) -> PyResult<bool> {
        let py = other.py();
        let (kind, theirs) = (FieldKind::from_field(self.field), FieldKind::from_field(other.get().field));
        if kind != theirs {
            return Err(PyTypeError::new_err(format!(
                "{} can't be compared with {}: they are of different kinds",
                self.field,
                other.get().field
            )));
        }
        let (a, b) = (self.read(py)?, other.get().read(py)?);
        match op {
            CompareOp::Eq => Ok(a == b),
            CompareOp::Ne => Ok(a != b),
            _ if kind == FieldKind::Mac => {
                Err(PyTypeError::new_err(format!("{} is a MAC address: no order", self.field)))
            }
            _ => Ok(a.zip(b).is_some_and(|(a, b)| op.matches(a.cmp(&b)))),
        }
    }

    /// Compares by `<`, `<=`, `>` or `>=`: one range test.
    fn compare_order(&self, other: &Bound<'_, PyAny>, op: CompareOp) -> PyResult<bool> {
        let py = other.py();
        let top = largest(self.field);
        let limit = bound(self.field, other)?;
        let (lo, hi) = match (op, limit) {
            (CompareOp::Lt, Bounded::At(0)) | (CompareOp::Lt | CompareOp::Le, Bounded::Below) => return Ok(false),
            (CompareOp::Gt | CompareOp::Ge, Bounded::Above) => return Ok(false),
            (CompareOp::Lt, Bounded::At(n)) => (0, n - 1),
            (CompareOp::Le, Bounded::At(n)) => (0, n),
            (CompareOp::Gt, Bounded::At(n)) if n == top => return Ok(false),
            (CompareOp::Gt, Bounded::At(n)) => (n + 1, top),
            (CompareOp::Ge, Bounded::At(n)) => (n, top),
            _ => (0, top),
        };
        self.in_range(py, lo, hi)
    }

    /// Returns the plain value for arithmetic, or an error that names the field if it is absent.
    fn number<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match self.read(py)? {
            Some(value) => FieldKind::from_field(self.field).to_python(py, value),
            None => Err(PyTypeError::new_err(format!("this packet has no {}", self.field))),
        }
    }

    /// Computes `field op other` or `other op field` on the plain values, by a function of the module `operator`.
    fn arithmetic<'py>(&self, name: &str, other: &Bound<'py, PyAny>, swapped: bool) -> PyResult<Bound<'py, PyAny>> {
        let py = other.py();
        let mine = self.number(py)?;
        let theirs = match other.cast::<FieldRef>() {
            Ok(field) => field.get().number(py)?,
            Err(_) => other.clone(),
        };
        let function = py.import("operator")?.getattr(name)?;
        if swapped { function.call1((theirs, mine)) } else { function.call1((mine, theirs)) }
    }
}

#[pymethods]
impl FieldRef {
    /// Returns the plain value of the field, by a read: `int`, `Mac`, `Ip`, or `None` if the packet has no such field.
    #[getter]
    fn value<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.plain(py)
    }

    /// Reports whether the packet has the field, by a test.
    #[getter(is_present)]
    fn present(&self, py: Python<'_>) -> PyResult<bool> {
        self.is_present(py)
    }

    /// The OXM name.
    #[getter]
    fn name(&self) -> &'static str {
        self.field.name()
    }

    /// Reports whether the address is a group address (for MAC addresses: the group bit is set), by a test.
    #[getter]
    fn is_multicast(&self, py: Python<'_>) -> PyResult<bool> {
        match self.family()? {
            Family::Mac => self.equals(py, 1 << 40, 1 << 40),
            Family::Ipv4 => self.equals(py, 0xe << 28, 0xf << 28),
            Family::Ipv6 => self.equals(py, 0xff << 120, 0xff << 120),
        }
    }

    /// Reports whether the field is a MAC address that bridges never forward, by a test for each of the two kinds.
    #[getter]
    fn is_reserved(&self, py: Python<'_>) -> PyResult<bool> {
        let Family::Mac = self.family()? else {
            return Err(PyTypeError::new_err(format!("{} is not a MAC address", self.field.name())));
        };
        for (value, mask) in RESERVED {
            if self.equals(py, value, mask)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the first `length` bits of the address, as a `Prefix`, by a read. `None` if the packet has no such
    /// field.
    fn prefix(&self, py: Python<'_>, length: u32) -> PyResult<Option<Prefix>> {
        let family = self.family()?;
        let mask = Prefix::from_value(py, family, u128::MAX, length)?.value;
        let value = match self.known.get() {
            Some(known) => *known,
            None if mask == 0 => self.is_present(py)?.then_some(0),
            None => {
                current::with_packet(self.ticket, self.field.name(), |p| p.read(self.field, mask, source::here(py)))?
            }
        };
        value.map(|value| Prefix::from_value(py, family, value, length)).transpose()
    }

    /// Reports whether the field has `value` in the bits of `mask`, by a test.
    fn matches(&self, py: Python<'_>, value: &Bound<'_, PyAny>, mask: &Bound<'_, PyAny>) -> PyResult<bool> {
        let (value, mask) = (operand(self.field, value)?, operand(self.field, mask)?);
        if value & !mask != 0 {
            return Err(PyValueError::new_err(format!("{}: the value has bits set outside the mask", self.field)));
        }
        if mask == 0 { self.is_present(py) } else { self.equals(py, value, mask) }
    }

    fn __richcmp__(&self, other: &Bound<'_, PyAny>, op: CompareOp) -> PyResult<bool> {
        let py = other.py();
        if let Ok(field) = other.cast::<FieldRef>() {
            return self.compare_fields(field, op);
        }
        match op {
            CompareOp::Eq | CompareOp::Ne if other.is_none() => Ok(self.is_present(py)? == matches!(op, CompareOp::Ne)),
            CompareOp::Eq | CompareOp::Ne => {
                if other.is_exact_instance_of::<PyInt>() {
                    spelling::refuse_range(py, self.field)?;
                }
                let value = operand(self.field, other)?;
                Ok(self.equals(py, value, largest(self.field))? == matches!(op, CompareOp::Eq))
            }
            _ if other.is_none() => Err(PyTypeError::new_err(format!("{} can't be ordered against None", self.field))),
            _ => self.compare_order(other, op),
        }
    }

    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        self.plain(py)?.hash()
    }

    fn __bool__(&self, py: Python<'_>) -> PyResult<bool> {
        match FieldKind::from_field(self.field) {
            FieldKind::Number => self.in_range(py, 1, largest(self.field)),
            _ => self.is_present(py),
        }
    }

    fn __int__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.number(py)?.call_method0("__int__")
    }

    fn __index__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match FieldKind::from_field(self.field) {
            FieldKind::Number => self.number(py),
            _ => Err(PyTypeError::new_err(format!("{} is an address, not an index", self.field))),
        }
    }

    fn __str__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(self.plain(py)?.str()?.to_string())
    }

    fn __format__<'py>(&self, py: Python<'py>, format_spec: &str) -> PyResult<Bound<'py, PyAny>> {
        self.plain(py)?.call_method1("__format__", (format_spec,))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        if self.known.get().is_none() && !self.ticket.is_valid() {
            return Ok(format!("<{} of an earlier packet>", self.field));
        }
        Ok(self.plain(py)?.repr()?.to_string())
    }

    fn __add__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.arithmetic("add", other, false)
    }

    fn __radd__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.arithmetic("add", other, true)
    }

    fn __sub__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.arithmetic("sub", other, false)
    }

    fn __rsub__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.arithmetic("sub", other, true)
    }

    fn __mul__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.arithmetic("mul", other, false)
    }

    fn __rmul__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.arithmetic("mul", other, true)
    }

    fn __floordiv__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.arithmetic("floordiv", other, false)
    }

    fn __rfloordiv__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.arithmetic("floordiv", other, true)
    }

    fn __mod__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.arithmetic("mod", other, false)
    }

    fn __rmod__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.arithmetic("mod", other, true)
    }

    fn __and__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.arithmetic("and_", other, false)
    }

    fn __rand__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.arithmetic("and_", other, true)
    }

    fn __or__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.arithmetic("or_", other, false)
    }

    fn __ror__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.arithmetic("or_", other, true)
    }

    fn __xor__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.arithmetic("xor", other, false)
    }

    fn __rxor__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.arithmetic("xor", other, true)
    }

    fn __lshift__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.arithmetic("lshift", other, false)
    }

    fn __rlshift__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.arithmetic("lshift", other, true)
    }

    fn __rshift__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.arithmetic("rshift", other, false)
    }

    fn __rrshift__<'py>(&self, other: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.arithmetic("rshift", other, true)
    }

    /// Returns the IP version, by which `ipaddress` networks find out whether they contain this address.
    #[getter]
    fn _version(&self) -> PyResult<u8> {
        self.version()
    }

    /// Returns the IP version, by which newer versions of `ipaddress` find that out.
    #[getter]
    fn version(&self) -> PyResult<u8> {
        Err(PyTypeError::new_err(format!(
            "`pkt.{0} in ip_network(…)` can't be traced; write `pkt.{0} in Prefix(\"10.0.0.0/8\")`",
            self.field
        )))
    }
}
