//! Slices, as `python/maple/_slices.py` describes them.

use maple_core::compose::{Composition, Slice};
use maple_core::network::{LinkName, Location, Mac as CoreMac};
use maple_core::trace::Cond;
use maple_wire::Dpid;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::address::Mac;
use crate::assertion::condition;
use crate::error_text::described;
use crate::route::PyLocation;

/// The description of a slice: its name and its conditions; then ports, hosts and links, or `None` for all of them.
#[derive(FromPyObject)]
pub struct Described<'py>(
    String,
    Vec<Bound<'py, PyDict>>,
    Option<Bound<'py, PyAny>>,
    Option<Bound<'py, PyAny>>,
    Option<Bound<'py, PyAny>>,
);

impl Described<'_> {
    /// Creates the described slice with this policy.
    ///
    /// # Errors
    /// `TypeError` or `ValueError`, with the name of the slice, for a wrong condition, port, host or link.
    pub fn slice<P>(&self, py: Python<'_>, policy: Composition<P>) -> PyResult<Slice<P>> {
        let Described(name, conditions, ports, hosts, links) = self;
        let conditions = conditions.iter().map(condition).collect::<PyResult<Vec<Cond>>>();
        let conditions = conditions.map_err(|error| self.named(py, "where", &error))?;
        let mut slice = Slice::new(name.as_str(), policy).only(conditions);
        if let Some(ports) = ports {
            slice = slice.ports(self.each(ports, "ports", PyLocation::from_object)?);
        }
        if let Some(hosts) = hosts {
            slice = slice.hosts(self.each(hosts, "hosts", host)?);
        }
        if let Some(links) = links {
            slice = slice.links(self.each(links, "links", link)?);
        }
        Ok(slice)
    }

    fn each<T>(
        &self,
        all: &Bound<'_, PyAny>,
        what: &str,
        one: impl Fn(&Bound<'_, PyAny>) -> PyResult<T>,
    ) -> PyResult<Vec<T>> {
        let each = || all.try_iter()?.map(|item| one(&item?)).collect::<PyResult<Vec<T>>>();
        each().map_err(|error| self.named(all.py(), what, &error))
    }

    fn named(&self, py: Python<'_>, what: &str, error: &PyErr) -> PyErr {
        let text = format!("the slice {:?}: {what}: {}", self.0, error.value(py));
        PyErr::from_type(error.get_type(py), text)
    }
}

fn host(object: &Bound<'_, PyAny>) -> PyResult<CoreMac> {
    Ok(CoreMac::from_bits(Mac::from_object(object)?.0.into()))
}

/// Returns a link given as a pair of switches, which means all links between them, as one of its ends, or as both ends.
fn link(object: &Bound<'_, PyAny>) -> PyResult<LinkName> {
    if let Some(at) = PyLocation::unpaired(object)? {
        return Ok(LinkName::Port(at));
    }
    if let Ok((a, b)) = object.extract::<(u64, u64)>() {
        return Ok(LinkName::Switches(Dpid(a), Dpid(b)));
    }
    let end = |at: usize| -> PyResult<Location> { PyLocation::from_object(&object.get_item(at)?) };
    match (object.len(), end(0), end(1)) {
        (Ok(2), Ok(a), Ok(_)) => Ok(LinkName::Port(a)),
        _ => Err(PyTypeError::new_err(format!(
            "a link is a pair of switches, a Location of one of its ends, or both ends, not {}",
            described(object)
        ))),
    }
}
