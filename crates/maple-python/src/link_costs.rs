//! Costs of links, by name, which a policy's file sets.

use maple_core::network::LinkName;
use maple_core::state::Write;
use maple_wire::Dpid;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error_text::described;
use crate::route::PyLocation;
use crate::state::write;

/// Sets the costs of links by a name. Other links cost 1.
#[pyfunction]
pub fn costs(py: Python<'_>, name: &str, costs: &Bound<'_, PyDict>) -> PyResult<()> {
    let mut writes = vec![Write::CostName(name.into())];
    for (link, cost) in costs.iter() {
        let cost: u64 = cost.extract().ok().filter(|cost| *cost > 0).ok_or_else(|| {
            PyValueError::new_err(format!("costs({name:?}): the cost of {link} must be a positive number, not {cost}"))
        })?;
        for link in link_names(&link, costs)? {
            writes.push(Write::Cost { name: name.into(), link, cost: Some(cost) });
        }
    }
    write(py, writes)
}

/// Returns the links that a key of `costs` means: one direction of one link by its `Location`, or all links between
/// two switches. These are meant in both directions, unless the other direction is given too.
fn link_names(link: &Bound<'_, PyAny>, costs: &Bound<'_, PyDict>) -> PyResult<Vec<LinkName>> {
    if let Some(at) = PyLocation::unpaired(link)? {
        return Ok(vec![LinkName::Port(at)]);
    }
    let Ok((a, b)) = link.extract::<(u64, u64)>() else {
        return Err(PyTypeError::new_err(format!(
            "costs(): a link is a pair of switches or a Location, not {}",
            described(link)
        )));
    };
    let mut names = vec![LinkName::Switches(Dpid(a), Dpid(b))];
    if !costs.contains((b, a))? {
        names.push(LinkName::Switches(Dpid(b), Dpid(a)));
    }
    Ok(names)
}
