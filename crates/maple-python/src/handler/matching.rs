//! Matches: which packets a rule takes.

use maple_wire::field::Prerequisite;
use maple_wire::{Constraint, Field, Match, Version, print};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};

use crate::address::Prefix;
use crate::kind::{FieldKind, from_raw, named, operand, to_raw};

/// Which packets a rule takes.
#[pyclass(frozen, name = "Match", module = "maple.openflow", eq, hash)]
#[derive(PartialEq, Eq, Hash)]
pub struct PyMatch(pub Match);

/// Returns the condition that a value means.
fn constraint(field: Field, value: &Bound<'_, PyAny>) -> PyResult<Constraint> {
    if value.is_none() && field == Field::VlanVid {
        return Ok(Constraint::exact(field, 0));
    }
    if let Ok(pair) = value.cast_exact::<PyTuple>() {
        let (value, mask): (Bound<'_, PyAny>, Bound<'_, PyAny>) = pair.extract().map_err(|_| {
            PyTypeError::new_err(format!("{field} is a value or a pair of value and mask, not {} values", pair.len()))
        })?;
        let mask = operand(field, &mask)?;
        return masked(field, to_raw(field, operand(field, &value)?), to_raw(field, mask));
    }
    let is_prefix_text = value.cast_exact::<PyString>().is_ok_and(|text| text.to_cow().is_ok_and(|t| t.contains('/')));
    if FieldKind::from_field(field) != FieldKind::Number && (is_prefix_text || value.is_exact_instance_of::<Prefix>()) {
        let prefix = Prefix::from_object(value)?;
        if prefix.family.bits() != field.bits() {
            return Err(PyValueError::new_err(format!(
                "{field} can't be in {prefix}: that is another kind of address"
            )));
        }
        return masked(field, prefix.value, prefix.mask());
    }
    Ok(Constraint::exact(field, to_raw(field, operand(field, value)?)))
}

fn masked(field: Field, value: u128, mask: u128) -> PyResult<Constraint> {
    let constraint = Constraint::masked(field, value, mask);
    if constraint.is_exact() || field.is_maskable() {
        Ok(constraint)
    } else {
        Err(PyValueError::new_err(format!("{field} can't be matched under a mask")))
    }
}

/// Adds the prerequisites of these fields (1.3 §7.2.3.8) if there is only one choice.
fn completed(mut matching: Match) -> PyResult<Match> {
    loop {
        let mut open = None;
        let mut grew = false;
        for field in Field::ALL.into_iter().filter(|field| matching.get(*field).is_some()).collect::<Vec<_>>() {
            let alternatives = field.prerequisites();
            let fits =
                |p: &Prerequisite| matching.get(p.field).is_none_or(|c| (c.value ^ p.value) & c.mask & p.mask == 0);
            let mut fitting = alternatives.iter().filter(|all| all.iter().all(fits));
            match (fitting.next(), fitting.next()) {
                (None, _) => return Err(PyValueError::new_err(format!("no packet has {field} and the other fields"))),
                (Some(_), Some(_)) => open = open.or(alternatives[0].first().map(|p| (field, p.field))),
                (Some(all), None) => {
                    for p in all.iter() {
                        if matching.get(p.field).is_none() {
                            matching = matching.with(Constraint::masked(p.field, p.value, p.mask));
                            grew = true;
                        }
                    }
                }
            }
        }
        match open {
            _ if grew => {}
            Some((field, needed)) => {
                return Err(PyValueError::new_err(format!(
                    "{field} needs {needed} beside it, as several kinds of packets have it"
                )));
            }
            None => return Ok(matching),
        }
    }
}

/// Returns the match without masks of zeros, which ask for nothing once the prerequisites are there. With some of them
/// Open vSwitch makes a different rule, which it shows like the rule without, and 1.0 has no form for most.
fn without_empty_masks(matching: Match) -> Match {
    Match::from_constraints(matching.constraints().filter(|constraint| constraint.mask != 0).copied())
}

impl PyMatch {
    /// Returns the Python form of a condition: a value, a pair of value and mask, or `None` for "no VLAN tag".
    fn shown<'py>(py: Python<'py>, constraint: &Constraint) -> PyResult<Bound<'py, PyAny>> {
        let Constraint { field, value, mask } = *constraint;
        if constraint.is_exact() {
            return match from_raw(field, value) {
                Some(value) => FieldKind::from_field(field).to_python(py, value),
                None => Ok(py.None().into_bound(py)),
            };
        }
        let kind = FieldKind::from_field(field);
        Ok((kind.to_python(py, value)?, kind.to_python(py, mask)?).into_pyobject(py)?.into_any())
    }
}

#[pymethods]
impl PyMatch {
    #[new]
    #[pyo3(signature = (**fields))]
    fn new(fields: Option<&Bound<'_, PyDict>>) -> PyResult<PyMatch> {
        let mut matching = Match::any();
        for (name, value) in fields.into_iter().flatten() {
            matching = matching.with(constraint(named(&name, "Match")?, &value)?);
        }
        completed(matching).map(without_empty_masks).map(PyMatch)
    }

    /// Returns the value of a field, or a pair of value and mask. `default` if the match does not name the field.
    #[pyo3(signature = (name, default = None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        name: &Bound<'py, PyAny>,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match self.0.get(named(name, "get")?) {
            Some(constraint) => PyMatch::shown(py, constraint),
            None => Ok(default.unwrap_or_else(|| py.None().into_bound(py))),
        }
    }

    /// Returns all fields that the match names.
    #[getter]
    fn fields<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let fields = PyDict::new(py);
        for constraint in self.0.constraints() {
            fields.set_item(constraint.field.name(), PyMatch::shown(py, constraint)?)?;
        }
        Ok(fields)
    }

    fn __repr__(&self) -> String {
        format!("<Match {}>", print::matching(Version::Of13, &self.0))
    }
}
