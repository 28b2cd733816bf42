//! Constraints on routes, as `python/maple/_guard.py` builds them.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use maple_core::compose::Composition;
use maple_core::guard::{HostGroup, Member, Requirement, RouteConstraint};
use maple_core::network::{LinkName, Location, Mac as CoreMac};
use maple_core::policy::PolicyError;
use maple_core::route::{Route, RouteView};
use maple_core::trace::Source;
use maple_wire::Dpid;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyInt, PyList, PyString};

use crate::address::{Family, Ip, Mac, Prefix};
use crate::assertion::condition;
use crate::error_text::described;
use crate::policy_part::Part;
use crate::route::PyLocation;
use crate::slices::Described;
use crate::state::Table;

/// A condition on every route of a policy.
#[pyclass(frozen, name = "Constraint", module = "maple")]
pub struct PyConstraint(pub RouteConstraint<Part>);

/// The places where a route leads.
#[pyclass(frozen, name = "RouteView", module = "maple")]
pub struct PyRouteView(pub Arc<RouteView>);

/// Returns the link that an object means: a pair of switches, or one end of the link.
fn link(object: &Bound<'_, PyAny>) -> PyResult<LinkName> {
    if let Some(at) = PyLocation::unpaired(object)? {
        return Ok(LinkName::Port(at));
    }
    match object.extract::<(u64, u64)>() {
        Ok((a, b)) => Ok(LinkName::Switches(Dpid(a), Dpid(b))),
        Err(_) => {
            Err(PyTypeError::new_err(format!("a link is a pair of switches or a Location, not {}", described(object))))
        }
    }
}

/// Returns the group that an object means: one member, or a list of members.
fn group(object: &Bound<'_, PyAny>) -> PyResult<HostGroup> {
    let is_one = object.is_instance_of::<PyString>() || object.is_instance_of::<PyDict>();
    let is_one = is_one || object.is_instance_of::<PyLocation>() || member(object).is_ok();
    if is_one {
        return Ok(HostGroup::new([member(object)?]));
    }
    let Ok(members) = object.try_iter() else { return Err(wrong_member(object)) };
    let members = members.map(|one| member(&one?)).collect::<PyResult<Vec<_>>>()?;
    if members.is_empty() {
        return Err(PyValueError::new_err("a group needs at least one member"));
    }
    Ok(HostGroup::new(members))
}

fn wrong_member(object: &Bound<'_, PyAny>) -> PyErr {
    PyTypeError::new_err(format!(
        "a member of a group is an address, a prefix, a location (switch, port), or a condition such as \
         {{\"tcp_dst\": 22}}, not {}",
        described(object)
    ))
}

fn member(object: &Bound<'_, PyAny>) -> PyResult<Member> {
    if let Ok(fields) = object.cast::<PyDict>() {
        return Ok(Member::Fits(condition(fields)?));
    }
    if let Ok(at) = PyLocation::from_object(object) {
        return Ok(Member::Place(at));
    }
    if let Ok(mac) = Mac::from_object(object)
        && object.cast::<PyInt>().is_err()
    {
        return Ok(Member::Mac(CoreMac::from_bits(mac.0.into())));
    }
    if let Ok(ip) = Ip::from_object(object) {
        return Ok(Member::Ip(ip.0, if ip.is_v4() { 32 } else { 128 }));
    }
    let is_text = object.is_instance_of::<PyString>();
    let prefix = match Prefix::from_object(object) {
        Ok(prefix) => prefix,
        Err(_) if is_text => {
            let text = object.str()?;
            let what =
                format!("{text:?} is not an IP or MAC address, a prefix such as 10.0.0.0/8, or a port such as 1:3");
            return Err(PyValueError::new_err(what));
        }
        Err(_) => return Err(wrong_member(object)),
    };
    Ok(match prefix.family {
        Family::Ipv4 => Member::Ip(IpAddr::V4((prefix.value as u32).into()), prefix.length as u8),
        Family::Ipv6 => Member::Ip(IpAddr::V6(prefix.value.into()), prefix.length as u8),
        Family::Mac => {
            let what =
                "a prefix of MAC addresses is not a member; write a condition, such as {\"eth_src\": \"02:…/8\"}";
            return Err(PyValueError::new_err(what));
        }
    })
}

fn switches(object: &Bound<'_, PyAny>) -> PyResult<BTreeSet<Dpid>> {
    if let Ok(one) = object.extract::<u64>() {
        return Ok([Dpid(one)].into());
    }
    let wrong =
        || PyTypeError::new_err(format!("switches are datapath ids such as 1 or [1, 2], not {}", described(object)));
    let all: Vec<u64> = object
        .try_iter()
        .map_err(|_| wrong())?
        .map(|one| one?.extract())
        .collect::<PyResult<_>>()
        .map_err(|_| wrong())?;
    if all.is_empty() {
        return Err(PyValueError::new_err("there must be at least one switch"));
    }
    Ok(all.into_iter().map(Dpid).collect())
}

/// Converts the answer of a constraint of the user's own.
///
/// # Errors
/// [`PolicyError::Violates`] if it refuses the route; [`PolicyError::WrongReturn`] if the answer is not a verdict.
pub fn verdict(answer: &Bound<'_, PyAny>) -> Result<Route, PolicyError> {
    if let Ok(text) = answer.cast::<PyString>() {
        return Err(PolicyError::Violates(text.to_string().into()));
    }
    match answer.cast::<PyBool>() {
        Ok(is_allowed) if is_allowed.is_true() => Ok(Route::pass()),
        Ok(_) => Err(PolicyError::Violates("the function says no".into())),
        Err(_) => {
            let what =
                format!("a constraint returns True, False or why it refuses the route, not {}", described(answer));
            Err(PolicyError::WrongReturn(what.into()))
        }
    }
}

impl PyConstraint {
    fn with_requirement(place: (&str, &str, u32), requirement: Requirement<Part>) -> PyConstraint {
        let (text, file, line) = place;
        PyConstraint(RouteConstraint::new(text, Some(Source::new(file, line)), requirement))
    }
}

type CodePlace<'a> = (&'a str, &'a str, u32);

/// Each is made with its text, and with the file and line that made it.
#[pymethods]
impl PyConstraint {
    #[staticmethod]
    #[pyo3(name = "_waypoint")]
    fn waypoint(
        place: CodePlace<'_>,
        src: &Bound<'_, PyAny>,
        dst: &Bound<'_, PyAny>,
        via: &Bound<'_, PyAny>,
    ) -> PyResult<PyConstraint> {
        let requirement = Requirement::Waypoint { src: group(src)?, dst: group(dst)?, via: switches(via)? };
        Ok(PyConstraint::with_requirement(place, requirement))
    }

    #[staticmethod]
    #[pyo3(name = "_isolate")]
    fn isolate(place: CodePlace<'_>, a: &Bound<'_, PyAny>, b: &Bound<'_, PyAny>) -> PyResult<PyConstraint> {
        Ok(PyConstraint::with_requirement(place, Requirement::Isolate(group(a)?, group(b)?)))
    }

    #[staticmethod]
    #[pyo3(name = "_never")]
    fn never(place: CodePlace<'_>, port: &Bound<'_, PyAny>, src: &Bound<'_, PyAny>) -> PyResult<PyConstraint> {
        let requirement = Requirement::Never { port: PyLocation::from_object(port)?, src: group(src)? };
        Ok(PyConstraint::with_requirement(place, requirement))
    }

    #[staticmethod]
    #[pyo3(name = "_max_hops")]
    fn max_hops(place: CodePlace<'_>, most: usize, of: &Bound<'_, PyAny>) -> PyResult<PyConstraint> {
        if most == 0 {
            return Err(PyValueError::new_err("max_hops() takes 1 or more: each packet passes a switch"));
        }
        Ok(PyConstraint::with_requirement(place, Requirement::MaxHops { max: most, src: group(of)? }))
    }

    #[staticmethod]
    #[pyo3(name = "_avoid")]
    fn avoid(place: CodePlace<'_>, taken: &Bound<'_, PyAny>, of: &Bound<'_, PyAny>) -> PyResult<PyConstraint> {
        Ok(PyConstraint::with_requirement(place, Requirement::Avoid { link: link(taken)?, src: group(of)? }))
    }

    #[staticmethod]
    #[pyo3(name = "_only_within")]
    fn only_within(place: CodePlace<'_>, within: &Bound<'_, PyAny>, of: &Bound<'_, PyAny>) -> PyResult<PyConstraint> {
        let requirement = Requirement::OnlyWithin { switches: switches(within)?, src: group(of)? };
        Ok(PyConstraint::with_requirement(place, requirement))
    }

    #[staticmethod]
    #[pyo3(name = "_only_within_slice")]
    fn only_within_slice(place: CodePlace<'_>, slice: Described<'_>, of: &Bound<'_, PyAny>) -> PyResult<PyConstraint> {
        let policy = Composition::single(Part::Route(Route::pass()));
        let scope = slice.slice(of.py(), policy)?.scope().clone();
        Ok(PyConstraint::with_requirement(place, Requirement::OnlyWithinScope { scope, src: group(of)? }))
    }

    #[staticmethod]
    #[pyo3(name = "_no_overload")]
    fn no_overload(
        place: CodePlace<'_>,
        reserved: &Bound<'_, Table>,
        taken: Option<&Bound<'_, PyAny>>,
        capacity: Option<u64>,
        of: &Bound<'_, PyAny>,
    ) -> PyResult<PyConstraint> {
        let link = taken.map(link).transpose()?;
        let requirement =
            Requirement::NoOverload { reserved: reserved.get().cell_name(), link, capacity, src: group(of)? };
        Ok(PyConstraint::with_requirement(place, requirement))
    }

    #[staticmethod]
    #[pyo3(name = "_own")]
    fn own(place: CodePlace<'_>, function: Py<PyAny>) -> PyConstraint {
        PyConstraint::with_requirement(place, Requirement::Custom(Part::Constraint(Arc::new(function))))
    }

    fn __repr__(&self) -> String {
        format!("<constraint {}>", self.0.name())
    }
}

#[pymethods]
impl PyRouteView {
    /// The switches that the packet passes, in order of their ids.
    #[getter]
    fn switches(&self) -> Vec<u64> {
        self.0.switches().into_iter().map(|switch| switch.0).collect()
    }

    /// Returns every hop, as switch and port.
    #[getter]
    fn hops(&self) -> Vec<(u64, u32)> {
        self.0.hops.iter().map(|hop| (hop.switch.0, hop.port.0)).collect()
    }

    /// The links that the packet takes.
    #[getter]
    fn links<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let pair = |(from, to): &(Location, Location)| (PyLocation::from(*from), PyLocation::from(*to));
        PyList::new(py, self.0.links.iter().map(pair))
    }

    /// The edge ports that the packet leaves by.
    #[getter]
    fn exits(&self) -> Vec<PyLocation> {
        self.0.deliveries.iter().map(|delivery| delivery.at.into()).collect()
    }

    /// Returns the hops to one of the exits.
    fn path_to(&self, exit: &Bound<'_, PyAny>) -> PyResult<Vec<(u64, u32)>> {
        let at = PyLocation::from_object(exit)?;
        let found = self.0.deliveries.iter().find(|delivery| delivery.at == at);
        let found = found.ok_or_else(|| PyValueError::new_err(format!("the route does not leave by {at}")))?;
        Ok(found.path.iter().map(|hop| (hop.switch.0, hop.port.0)).collect())
    }

    fn __repr__(&self) -> String {
        let exits: Vec<String> = self.0.deliveries.iter().map(|delivery| delivery.at.to_string()).collect();
        format!("<route to {}>", exits.join(", "))
    }
}
