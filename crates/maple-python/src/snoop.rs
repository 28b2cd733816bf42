//! The snooping that a policy requests by `@policy(snoop=…)`.

use maple_controller::snoop::Snooping;
use maple_core::network::Location;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use crate::host;
use crate::route::PyLocation;

/// Checks the requested snooping, and lets policies use it.
#[pyfunction]
pub fn snoop(
    py: Python<'_>,
    protocols: Vec<String>,
    dhcp_servers: Vec<Bound<'_, PyAny>>,
    querier: bool,
) -> PyResult<()> {
    let snooping = of_parts(&protocols, &dhcp_servers, querier)?;
    py.detach(|| {
        let commits = snooping.declare(&host::store()).map_err(|error| PyValueError::new_err(error.to_string()))?;
        commits.into_iter().try_for_each(host::acknowledge)
    })
}

/// Returns the snooping that this policy requests.
///
/// # Errors
/// `ValueError` if the requested snooping is not possible, and the errors of Python for wrong attributes.
pub fn snooping_of(policy: &Bound<'_, PyAny>) -> PyResult<Snooping> {
    // A plain function requests none.
    let Ok(protocols) = policy.getattr("snoop") else { return Ok(Snooping::default()) };
    let servers: Vec<Bound<'_, PyAny>> = policy.getattr("dhcp_servers")?.extract()?;
    of_parts(&protocols.extract::<Vec<String>>()?, &servers, policy.getattr("querier")?.extract()?)
}

fn of_parts(protocols: &[String], servers: &[Bound<'_, PyAny>], querier: bool) -> PyResult<Snooping> {
    let servers = servers.iter().map(PyLocation::from_object).collect::<PyResult<Vec<Location>>>()?;
    Snooping::default()
        .with_names(protocols, &servers, querier)
        .map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Marks the requested snooping as active in a store, so that the policy can use it.
///
/// # Errors
/// The errors of [`snooping_of`], and `RuntimeError` if the store has tables of these names with other types.
pub fn declare(policy: &Bound<'_, PyAny>, store: &maple_core::Store) -> PyResult<()> {
    let snooping = snooping_of(policy)?;
    // No listener follows the commits of such a store.
    let declared = policy.py().detach(|| snooping.declare(store));
    declared.map(drop).map_err(|error| PyRuntimeError::new_err(error.to_string()))
}
