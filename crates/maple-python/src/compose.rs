//! Compositions of policies, as `python/maple/_compose.py` builds them.

use std::ffi::CString;
use std::sync::Arc;

use maple_acl::{AclError, List};
use maple_core::compose::{Choice, Composition};
use maple_core::state::{Cell, Value};
use maple_core::trace::{Cond, Source};
use pyo3::exceptions::{PyTypeError, PyUserWarning, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::assertion::condition;
use crate::error_text::described;
use crate::guard::PyConstraint;
use crate::policy_part::Part;
use crate::route::PyRoute;
use crate::slices::Described;
use crate::state::{Table, Var};
use crate::value::to_value;

/// A policy made of functions and routes.
#[pyclass(frozen, name = "Composition", module = "maple._maple")]
pub struct PyComposition(pub Composition<Part>);

#[pymethods]
impl PyComposition {
    /// Creates a composition of one function.
    #[staticmethod]
    fn function(function: Py<PyAny>) -> PyComposition {
        PyComposition(Composition::single(Part::Function(Arc::new(function))))
    }

    /// Creates a composition with one route for all packets.
    #[staticmethod]
    fn route(route: &Bound<'_, PyRoute>) -> PyComposition {
        PyComposition(Composition::single(Part::Route(route.get().0.clone())))
    }

    /// Creates a composition that decides as the first tier which does not pass.
    #[staticmethod]
    fn tiers(tiers: Vec<Bound<'_, PyComposition>>) -> PyComposition {
        PyComposition(Composition::tiers(tiers.iter().map(|tier| tier.get().0.clone())))
    }

    /// Chooses by the value of a variable, or of a pair of a table and a key.
    #[staticmethod]
    fn choose(
        by: &Bound<'_, PyAny>,
        cases: Vec<(Bound<'_, PyAny>, Bound<'_, PyComposition>)>,
        otherwise: &Bound<'_, PyComposition>,
    ) -> PyResult<PyComposition> {
        let by = choice(by)?;
        let case = |(value, policy): &(Bound<'_, PyAny>, Bound<'_, PyComposition>)| {
            Ok::<_, PyErr>((to_value(value)?, policy.get().0.clone()))
        };
        let cases = cases.iter().map(case).collect::<PyResult<Vec<_>>>()?;
        Ok(PyComposition(Composition::choose(by, cases, otherwise.get().0.clone())))
    }

    /// Creates a composition of access lists, each given as its text and its file's name, over what decides about
    /// allowed packets.
    ///
    /// Raises `ValueError` with file, line and column. Warns of replies that may open connections.
    #[staticmethod]
    fn lists(lists: Vec<(String, String)>, allowed: &Bound<'_, PyComposition>) -> PyResult<PyComposition> {
        let wrong = |error: AclError| PyValueError::new_err(error.to_string());
        let read = |(text, file): &(String, String)| List::read(text, file).and_then(List::verified).map_err(wrong);
        let lists = lists.iter().map(read).collect::<PyResult<Vec<List>>>()?;
        for (list, found) in lists.iter().flat_map(|list| list.open_replies().into_iter().map(move |one| (list, one))) {
            let text = CString::new(format!("{}:{}: {}", list.file(), found.place.line, found.text))?;
            PyErr::warn(allowed.py(), &allowed.py().get_type::<PyUserWarning>(), &text, 2)?;
        }
        Ok(PyComposition(maple_acl::composition(&lists, allowed.get().0.clone())))
    }

    /// Creates a composition that decides as the slice that a packet belongs to, or as another one, as the line
    /// `file:line` says.
    #[staticmethod]
    fn slices(
        py: Python<'_>,
        slices: Vec<(Described<'_>, Bound<'_, PyComposition>)>,
        otherwise: &Bound<'_, PyComposition>,
        file: &str,
        line: u32,
    ) -> PyResult<PyComposition> {
        let slice =
            |(slice, policy): &(Described<'_>, Bound<'_, PyComposition>)| slice.slice(py, policy.get().0.clone());
        let slices = slices.iter().map(slice).collect::<PyResult<Vec<_>>>()?;
        let built = Composition::slices(slices, otherwise.get().0.clone(), Some(Source::new(file, line)));
        Ok(PyComposition(built.map_err(|error| PyValueError::new_err(error.to_string()))?))
    }

    /// Names the composition.
    fn named(&self, name: &str) -> PyComposition {
        PyComposition(self.0.clone().named(name))
    }

    /// Adds copies to where another composition sends.
    fn observed_by(&self, beside: &Bound<'_, PyComposition>) -> PyComposition {
        PyComposition(self.0.clone().observed_by(beside.get().0.clone()))
    }

    /// Restricts the composition to packets that fit one of the conditions, as the line `file:line` says.
    fn only(&self, conditions: Vec<Bound<'_, PyDict>>, file: &str, line: u32) -> PyResult<PyComposition> {
        let conditions = conditions.iter().map(condition).collect::<PyResult<Vec<Cond>>>()?;
        Ok(PyComposition(self.0.clone().only(conditions, Some(Source::new(file, line)))))
    }

    /// Adds the composition that decides where this one fails.
    fn or_on_error(&self, on_error: &Bound<'_, PyComposition>) -> PyComposition {
        PyComposition(self.0.clone().or_on_error(on_error.get().0.clone()))
    }

    /// Puts the composition under constraints.
    fn guarded(&self, constraints: Vec<Bound<'_, PyConstraint>>) -> PyComposition {
        let constraints = constraints.iter().map(|constraint| constraint.get().0.clone());
        PyComposition(self.0.clone().guarded(constraints))
    }

    /// Returns the functions of the composition, in order.
    fn functions(&self, py: Python<'_>) -> Vec<Py<PyAny>> {
        let function_of = |part: &Part| match part {
            Part::Function(function) | Part::Constraint(function) => Some(function.clone_ref(py)),
            Part::Route(_) => None,
        };
        self.0.parts().into_iter().filter_map(function_of).collect()
    }
}

/// Returns the cell by which `choose` chooses: a variable, or a key of a table.
fn choice(by: &Bound<'_, PyAny>) -> PyResult<Choice> {
    if let Ok(var) = by.cast::<Var>() {
        let (cell, unset) = var.get().cell_and_default();
        return Ok(Choice { cell, unset });
    }
    let wrong = || PyTypeError::new_err(format!("choose() takes a Var or a pair (table, key), not {}", described(by)));
    let pair = by.cast::<PyTuple>().map_err(|_| wrong())?;
    if pair.len() != 2 {
        return Err(wrong());
    }
    let table = pair.get_item(0)?;
    let table = table.cast::<Table>().map_err(|_| wrong())?;
    let key = table.get().key(&pair.get_item(1)?)?;
    Ok(Choice { cell: Cell::Table(table.get().cell_name(), key), unset: Value::None })
}
