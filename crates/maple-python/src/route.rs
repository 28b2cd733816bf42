//! Routes as Python objects.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::ops::RangeInclusive;
use std::sync::OnceLock;

use maple_core::network::{BadLocation, Hop, Location};
use maple_core::policy::PolicyError;
use maple_core::route::{FRAME_BYTES, Limit, Route, choose_by};
use maple_core::run::{HostLocation, Observe as _};
use maple_wire::{Dpid, Field, PortNo};
use pyo3::basic::CompareOp;
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyInt, PyString, PyTuple};

use crate::current::{self, Ticket};
use crate::error_text::described;
use crate::field::FieldRef;
use crate::kind::{named, operand};
use crate::source;

/// The highest queue that a route can name: the next number means all queues (OpenFlow 1.3 §7.3.5.8).
const LAST_QUEUE: u32 = 0xffff_fffe;
/// The highest meter that a route can name (OpenFlow 1.3 §7.3.4.4, `OFPM_MAX`).
const LAST_METER: u32 = 0xffff_0000;

/// Returns the number by which a route names a queue or a meter. Errors mention `what`.
fn number(what: &str, object: &Bound<'_, PyAny>, range: RangeInclusive<u32>) -> PyResult<u32> {
    let object = plain(object)?;
    if object.cast::<PyInt>().is_err() {
        return Err(PyTypeError::new_err(format!("a {what} is a number, not {}", described(&object))));
    }
    object.extract::<u32>().ok().filter(|number| range.contains(number)).ok_or_else(|| {
        PyValueError::new_err(format!("a {what} is a number from {} to {}, not {object}", range.start(), range.end()))
    })
}

/// The answer of a policy.
#[pyclass(frozen, name = "Route", module = "maple")]
pub struct PyRoute(pub Route);

impl PyRoute {
    /// Creates a route whose source is the running line of Python.
    pub fn here(py: Python<'_>, route: Route) -> PyRoute {
        PyRoute(route.from_line(source::here(py)))
    }
}

/// A limit for the packets of the routes under it.
#[pyclass(frozen, name = "Limit", module = "maple", eq, hash)]
#[derive(PartialEq, Eq, Hash)]
pub struct PyLimit(Limit);

#[pymethods]
impl PyLimit {
    #[new]
    #[pyo3(signature = (name, *, kbps = None, pps = None, burst = 0))]
    fn new(name: &str, kbps: Option<u32>, pps: Option<u32>, burst: u32) -> PyResult<PyLimit> {
        let limit = match (kbps, pps) {
            (Some(rate), None) => Limit::kilobits(name, rate),
            (None, Some(rate)) => Limit::packets(name, rate),
            _ => return Err(PyTypeError::new_err("a Limit has a rate: either kbps=… or pps=…")),
        };
        if limit.rate == 0 {
            return Err(PyValueError::new_err("a Limit's rate is 1 or more; drop() lets nothing pass"));
        }
        Ok(PyLimit(Limit { burst, ..limit }))
    }

    /// Name of the limit, which is its key.
    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    fn __repr__(&self) -> String {
        format!("<limit {}>", self.0)
    }
}

/// A port of a switch: where a host is, or one end of a link.
#[pyclass(frozen, name = "Location", module = "maple")]
#[derive(Clone)]
pub struct PyLocation(Place);

/// A location, or what it takes to learn it.
#[derive(Clone)]
enum Place {
    /// A location that is known.
    At(Location),
    /// The place where the packet of a run came in, which is where its source is. What the policy uses of it is read.
    OfSource { run: Ticket, known: OnceLock<Location> },
    /// The place where a look-up by a field of the packet finds a host. What the policy uses of it is observed.
    Found { run: Ticket, field: Field, known: OnceLock<Location> },
}

impl From<Location> for PyLocation {
    fn from(at: Location) -> PyLocation {
        PyLocation(Place::At(at))
    }
}

impl PyLocation {
    /// Creates the location of a packet's source that is known to be where the packet came in.
    pub fn of_source(run: Ticket) -> PyLocation {
        PyLocation(Place::OfSource { run, known: OnceLock::new() })
    }

    /// Creates the location of a host that a look-up by a field of the packet found.
    pub fn found(run: Ticket, field: Field) -> PyLocation {
        PyLocation(Place::Found { run, field, known: OnceLock::new() })
    }

    /// Returns the field by which a look-up of this run found it, if the policy has used no more of it.
    pub fn found_by(&self, run: Ticket) -> Option<Field> {
        match &self.0 {
            Place::Found { run: of, field, known } if *of == run && known.get().is_none() => Some(*field),
            _ => None,
        }
    }

    /// Returns the location in the core's form. A read of `in_port`, if it is that of the packet's source. Observes
    /// what a look-up found, if that is the location.
    ///
    /// # Errors
    /// `RuntimeError` if it is that of a host of an earlier packet and was not read.
    pub fn location(&self, py: Python<'_>) -> PyResult<Location> {
        let (run, known) = match &self.0 {
            Place::At(at) => return Ok(*at),
            Place::OfSource { run, known } => (*run, known),
            Place::Found { run, field, known } => return found(py, *run, *field, known),
        };
        if let Some(at) = known.get() {
            return Ok(*at);
        }
        let at = current::with_packet(run, "a location", |packet| {
            let port = packet.read(Field::InPort, Field::InPort.full_mask(), source::here(py)).unwrap_or_default();
            Location::new(packet.switch(), PortNo(port as u32))
        })?;
        Ok(*known.get_or_init(|| at))
    }

    /// Returns the location from which a path starts: its switch counts, its port may be any.
    ///
    /// # Errors
    /// The errors of [`PyLocation::location`].
    pub fn start(&self) -> PyResult<Location> {
        match &self.0 {
            Place::At(at) => Ok(*at),
            Place::OfSource { run, known } => match known.get() {
                Some(at) => Ok(*at),
                None => current::with_packet(*run, "a location", |packet| Location::new(packet.switch(), PortNo(0))),
            },
            Place::Found { run, field, known } => Python::attach(|py| found(py, *run, *field, known)),
        }
    }

    /// Returns the location of `object`: a `Location`, text as it is printed, or a pair of switch and port.
    ///
    /// # Errors
    /// `TypeError` for another object, `ValueError` for a text or a pair that is not a location.
    pub fn from_object(object: &Bound<'_, PyAny>) -> PyResult<Location> {
        if let Some(at) = PyLocation::unpaired(object)? {
            return Ok(at);
        }
        let wrong = || {
            PyTypeError::new_err(format!(
                "a location is a pair (switch, port) or text such as '1:LOCAL', not {}",
                described(object)
            ))
        };
        let pair = object.cast::<PyTuple>().map_err(|_| wrong())?;
        if pair.len() != 2 {
            return Err(wrong());
        }
        Ok(Location::new(Dpid(plain(&pair.get_item(0)?)?.extract()?), port(&pair.get_item(1)?)?))
    }

    /// Returns the location of a `Location` or of text as it is printed (`1:3`, `a1:LOCAL`), whose datapath id is in
    /// hex. `None` for any other object, because a pair may mean something else.
    ///
    /// # Errors
    /// `ValueError` for a text that is not a location.
    pub fn unpaired(object: &Bound<'_, PyAny>) -> PyResult<Option<Location>> {
        if let Ok(location) = object.cast::<PyLocation>() {
            return location.get().location(object.py()).map(Some);
        }
        let Ok(text) = object.cast::<PyString>() else { return Ok(None) };
        let at = text.to_cow()?.parse();
        at.map(Some).map_err(|wrong: BadLocation| PyValueError::new_err(wrong.to_string()))
    }

    /// Returns the location of two arguments, a switch and its port, or of a place alone.
    ///
    /// # Errors
    /// The errors of [`PyLocation::from_object`].
    pub fn from_arguments(switch: &Bound<'_, PyAny>, port: Option<&Bound<'_, PyAny>>) -> PyResult<Location> {
        match port {
            Some(port) => PyLocation::from_object((switch, port).into_pyobject(switch.py())?.as_any()),
            None => PyLocation::from_object(switch),
        }
    }
}

/// Returns the location that a look-up by a field of the packet finds, and observes it.
fn found(py: Python<'_>, run: Ticket, field: Field, known: &OnceLock<Location>) -> PyResult<Location> {
    if let Some(at) = known.get() {
        return Ok(*at);
    }
    let source = source::here(py);
    current::with_packet(run, "a location", |_| ())?;
    let at = current::with_net(run, |net| Ok(net.locate_by(field, source)?.map(HostLocation::location)))?;
    let at = at.map_err(|error: PolicyError| PyTypeError::new_err(error.to_string()))?;
    let at = at.ok_or_else(|| PyRuntimeError::new_err("the policy has written where the host is meanwhile"))?;
    Ok(*known.get_or_init(|| at))
}

/// Returns a location as Python prints it.
fn printed(at: Location) -> String {
    format!("Location(switch={}, port={})", at.switch.0, at.port.0)
}

#[pymethods]
impl PyLocation {
    #[new]
    #[pyo3(signature = (switch, port = None))]
    fn new(switch: &Bound<'_, PyAny>, port: Option<u32>) -> PyResult<PyLocation> {
        match port {
            Some(port) => Ok(PyLocation::from(Location::new(Dpid(switch.extract()?), PortNo(port)))),
            None => PyLocation::from_object(switch).map(PyLocation::from),
        }
    }

    /// Datapath id.
    #[getter]
    fn switch(&self) -> PyResult<u64> {
        Ok(self.start()?.switch.0)
    }

    /// Port number.
    #[getter]
    fn port(&self, py: Python<'_>) -> PyResult<u32> {
        Ok(self.location(py)?.port.0)
    }

    /// Whether packets can pass the port now, which is a dependency of the run.
    #[getter]
    fn is_up(&self, py: Python<'_>) -> PyResult<bool> {
        let at = self.location(py)?;
        let net = current::net().ok_or_else(|| {
            PyRuntimeError::new_err(format!("{}.is_up asks the network: it is for policies", printed(at)))
        })?;
        Ok(net.is_up(at))
    }

    /// Returns the parts, so that `switch, port = location` works.
    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let at = self.location(py)?;
        (at.switch.0, at.port.0).into_pyobject(py)?.call_method0("__iter__")
    }

    fn __richcmp__<'py>(&self, other: &Bound<'py, PyAny>, op: CompareOp) -> PyResult<Bound<'py, PyAny>> {
        let py = other.py();
        let Ok(other) = other.cast::<PyLocation>() else { return Ok(py.NotImplemented().into_bound(py)) };
        let order = self.location(py)?.cmp(&other.get().location(py)?);
        Ok(PyBool::new(py, op.matches(order)).to_owned().into_any())
    }

    fn __hash__(&self, py: Python<'_>) -> PyResult<u64> {
        let mut hasher = DefaultHasher::new();
        self.location(py)?.hash(&mut hasher);
        Ok(hasher.finish())
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        match &self.0 {
            Place::OfSource { run, known } | Place::Found { run, known, .. }
                if known.get().is_none() && !run.is_valid() =>
            {
                Ok("<location of an earlier packet>".into())
            }
            _ => self.location(py).map(printed),
        }
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyTuple>> {
        let at = slf.get().location(slf.py())?;
        (slf.get_type(), (at.switch.0, at.port.0)).into_pyobject(slf.py())
    }
}

#[pymethods]
impl PyRoute {
    /// Returns the route with header fields rewritten where the packet leaves the network.
    #[pyo3(signature = (**fields))]
    fn set(&self, fields: Option<&Bound<'_, PyDict>>) -> PyResult<PyRoute> {
        let mut route = self.0.clone();
        for (name, value) in fields.into_iter().flatten() {
            let field = named(&name, "set()")?;
            // A VLAN id here is without the presence bit: 0 means no tag.
            route = route.set(field, operand(field, &plain(&value)?)?);
        }
        Ok(PyRoute(route))
    }

    /// Returns the route through this queue of the egress ports.
    fn queue(&self, queue: &Bound<'_, PyAny>) -> PyResult<PyRoute> {
        Ok(PyRoute(self.0.clone().queue(number("queue", queue, 0..=LAST_QUEUE)?)))
    }

    /// Returns the route with a copy of the packet, as the route sends it, to an edge port. There is no copy to `None`.
    fn copy_to(&self, place: &Bound<'_, PyAny>) -> PyResult<PyRoute> {
        let route = self.0.clone();
        if place.is_none() {
            return Ok(PyRoute(route));
        }
        Ok(PyRoute(route.copy_to(PyLocation::from_object(place)?)))
    }

    /// Returns the route under this limit at the switch where packets enter (OpenFlow 1.3).
    fn limit(&self, limit: &Bound<'_, PyLimit>) -> PyRoute {
        PyRoute(self.0.clone().limit(limit.get().0.clone()))
    }

    /// Returns the route through the meter of this number, which is at the ingress switch already (OpenFlow 1.3).
    fn meter(&self, meter: &Bound<'_, PyAny>) -> PyResult<PyRoute> {
        Ok(PyRoute(self.0.clone().meter(number("meter", meter, 1..=LAST_METER)?)))
    }

    /// The hops of the route that were given one by one, as pairs of switch and port.
    #[getter]
    fn hops(&self) -> Vec<(u64, u32)> {
        self.0.explicit_hops().map(|hop| (hop.switch.0, hop.port.0)).collect()
    }

    /// Reports whether there is a path: false only for the answer of a path query without a path.
    fn __bool__(&self) -> bool {
        !self.0.is_unreachable()
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        other.cast::<PyRoute>().is_ok_and(|route| route.get().0 == self.0)
    }

    fn __hash__(&self) -> PyResult<isize> {
        Err(PyTypeError::new_err("unhashable type: 'Route'"))
    }

    fn __repr__(&self) -> String {
        format!("<route: {}>", self.0)
    }
}

/// Sends the packet nowhere.
#[pyfunction]
pub fn drop(py: Python<'_>) -> PyRoute {
    PyRoute::here(py, Route::drop())
}

/// Leaves the decision to the next policy of a composition.
#[pyfunction]
pub fn pass_(py: Python<'_>) -> PyRoute {
    PyRoute::here(py, Route::pass())
}

/// Sends the packet out of every edge port of the network but the one it came in by.
#[pyfunction]
#[pyo3(signature = (*, reserved = false))]
pub fn flood(py: Python<'_>, reserved: bool) -> PyRoute {
    PyRoute::here(py, if reserved { Route::flood_reserved() } else { Route::flood() })
}

/// Sends the packet out of these edge ports of the switch where it came in; back out of the port that it came in by
/// only where `IN_PORT` or `pkt.in_port` says so.
#[pyfunction]
#[pyo3(signature = (*ports))]
pub fn to(ports: &Bound<'_, PyTuple>) -> PyResult<PyRoute> {
    if ports.is_empty() {
        return Err(PyTypeError::new_err("to() needs at least one port; drop() sends the packet nowhere"));
    }
    let route = Route::to(ports.iter().map(|object| port_or_back(&object)).collect::<PyResult<Vec<_>>>()?);
    Ok(PyRoute::here(ports.py(), route))
}

/// Sends the packet nowhere, and these frames of the policy's own out of the port that it came in by.
#[pyfunction]
#[pyo3(signature = (*frames))]
pub fn answer(frames: &Bound<'_, PyTuple>) -> PyResult<PyRoute> {
    if frames.is_empty() {
        return Err(PyTypeError::new_err("answer() needs at least one frame; drop() answers nothing"));
    }
    let route = Route::answer(frames.iter().map(|object| frame_bytes(&object)).collect::<PyResult<Vec<_>>>()?);
    Ok(PyRoute::here(frames.py(), route))
}

/// Returns the bytes of a frame to send.
///
/// # Errors
/// `TypeError` for an object other than bytes, `ValueError` for a frame that is too short or too long.
pub fn frame_bytes(object: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
    let wrong = || PyTypeError::new_err(format!("a frame is bytes, as frame(…) makes them, not {}", described(object)));
    let bytes = object.cast::<PyBytes>().map_err(|_| wrong())?.as_bytes();
    if !FRAME_BYTES.contains(&bytes.len()) {
        let (least, most) = (FRAME_BYTES.start(), FRAME_BYTES.end());
        return Err(PyValueError::new_err(format!("a frame has {least} to {most} bytes, not {}", bytes.len())));
    }
    Ok(bytes.to_vec())
}

/// Sends the packet along these hops, pairs of switch and port.
#[pyfunction]
pub fn hops(hops: &Bound<'_, PyAny>) -> PyResult<PyRoute> {
    let py = hops.py();
    let hops = hops
        .try_iter()?
        .map(|hop| PyLocation::from_object(&hop?).map(|at| Hop::new(at.switch, at.port)))
        .collect::<PyResult<Vec<_>>>()?;
    Ok(PyRoute::here(py, Route::hops(hops)))
}

/// Sends the packet along all of these routes, over each hop once.
#[pyfunction]
pub fn multicast(routes: &Bound<'_, PyAny>) -> PyResult<PyRoute> {
    Ok(PyRoute::here(routes.py(), Route::multicast(routes_in(routes, "multicast()")?)))
}

/// Returns one of several routes, the same one for packets that agree in these fields.
#[pyfunction]
#[pyo3(signature = (routes, *, by))]
pub fn ecmp(py: Python<'_>, routes: &Bound<'_, PyAny>, by: &Bound<'_, PyAny>) -> PyResult<PyRoute> {
    if by.is_instance_of::<PyString>() {
        let what = by.repr()?;
        return Err(PyTypeError::new_err(format!(
            "ecmp(by=…) takes names of fields, such as (\"ipv4_src\",), not {what}"
        )));
    }
    let by = by.try_iter()?.map(|name| named(&name?, "ecmp()")).collect::<PyResult<Vec<_>>>()?;
    if by.is_empty() {
        return Err(PyTypeError::new_err(
            "ecmp(by=…) needs at least one field: the same for all packets is not a choice",
        ));
    }
    let routes = routes_in(routes, "ecmp()")?;
    let line = source::here(py);
    let read = |field, mask| current::packet().and_then(|packet| packet.read(field, mask, line.clone()));
    if current::packet().is_none() {
        return Err(PyRuntimeError::new_err("ecmp() looks at a packet: it is for policies"));
    }
    Ok(PyRoute::here(py, choose_by(routes, read, &by)))
}

/// Returns the routes in an iterable.
fn routes_in(routes: &Bound<'_, PyAny>, what: &str) -> PyResult<Vec<Route>> {
    let mut all = Vec::new();
    for route in routes.try_iter()? {
        let route = route?;
        let Ok(route) = route.cast::<PyRoute>() else {
            return Err(PyTypeError::new_err(format!("{what} takes routes, not {}", described(&route))));
        };
        all.push(route.get().0.clone());
    }
    Ok(all)
}

/// Reads `object` if it is a field, and returns its value; returns any other object unchanged.
fn plain<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    Ok(FieldRef::value_of(object)?.unwrap_or_else(|| object.clone()))
}

/// Returns the port of `to()`: a number, or the ingress port, by name or as the packet's field.
fn port_or_back(object: &Bound<'_, PyAny>) -> PyResult<PortNo> {
    let is_field = object.cast::<FieldRef>().is_ok_and(|field| field.get().field() == Field::InPort);
    let is_name = || object.extract::<u32>().is_ok_and(|number| number == PortNo::IN_PORT.0);
    if is_field || is_name() { Ok(PortNo::IN_PORT) } else { port(object) }
}

fn port(object: &Bound<'_, PyAny>) -> PyResult<PortNo> {
    let object = plain(object)?;
    let Ok(number) = object.cast::<PyInt>() else {
        return Err(PyTypeError::new_err(format!("a port is a number, not {}", described(&object))));
    };
    match number.extract::<u32>().map(PortNo) {
        Ok(port) if port.is_ordinary_or_local() => Ok(port),
        _ => Err(PyValueError::new_err(format!(
            "there is no port {number}: ports are 1 to {}, and LOCAL",
            PortNo::MAX.0
        ))),
    }
}
