//! Paths that are computed in parallel, and the network as seen outside of runs.

use maple::paths::{AllPaths, ParallelPaths};
use maple_core::route::Route;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::address::Mac;
use crate::host;
use crate::net::{PyNet, place};
use crate::route::{PyLocation, PyRoute};

/// Shortest paths, computed by several threads.
#[pyclass(frozen, name = "ParallelPaths", module = "maple")]
pub struct PyParallelPaths(ParallelPaths);

#[pymethods]
impl PyParallelPaths {
    #[new]
    #[pyo3(signature = (threads = 0))]
    fn new(threads: usize) -> PyResult<PyParallelPaths> {
        let paths = ParallelPaths::new(threads).map_err(|error| PyOSError::new_err(error.to_string()))?;
        Ok(PyParallelPaths(paths))
    }

    /// Returns the path with the fewest hops. It is computed without the interpreter's lock.
    fn shortest_path(
        &self,
        py: Python<'_>,
        net: &PyNet,
        src: &Bound<'_, PyAny>,
        dst: &Bound<'_, PyAny>,
    ) -> PyResult<PyRoute> {
        let (Some(src), Some(dst)) = (place(src)?, place(dst)?) else { return Ok(PyRoute(Route::unreachable())) };
        if let Some(route) = net.path_to_absent(src, dst)? {
            return Ok(PyRoute::here(py, route));
        }
        let links = net.all_links()?;
        let paths: std::sync::Arc<AllPaths> = py.detach(|| self.0.for_links(links));
        Ok(PyRoute::here(py, paths.route(src, dst)))
    }
}

/// Returns the switches, the links and the hosts that are known now.
#[pyfunction]
#[allow(clippy::type_complexity, reason = "Python takes it apart at once")]
pub fn known_network(py: Python<'_>) -> PyResult<(Vec<u64>, Vec<(PyLocation, PyLocation)>, Bound<'_, PyDict>)> {
    let state = host::store().snapshot();
    let switches = state.switches().map(|(dpid, _)| dpid.0).collect();
    let links = state.links().map(|(a, b)| (a.into(), b.into())).collect();
    let hosts = PyDict::new(py);
    for (mac, info) in state.hosts() {
        hosts.set_item(Mac::cached(py, mac.bits() as u64)?, PyLocation::from(info.location))?;
    }
    Ok((switches, links, hosts))
}
