//! Questions of a policy about the network. Every answer is a dependency of the run.

use std::net::IpAddr;

use maple_core::engine::LeafSelection;
use maple_core::network::{Location, Mac as CoreMac};
use maple_core::policy::PolicyError;
use maple_core::route::Route;
use maple_core::run::HostLocation;
use maple_core::snooping::{Lease, MulticastGroup};
use maple_wire::{Constraint, Dpid, Field, PortNo};
use pyo3::exceptions::{PyAttributeError, PyLookupError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyDict;

use crate::address::{Ip, Mac};
use crate::current::{self, Ticket};
use crate::error_text::described;
use crate::field::FieldRef;
use crate::kind::{FieldKind, named, operand, to_raw};
use crate::measured_load::PyLoad;
use crate::route::{PyLocation, PyRoute, frame_bytes};
use crate::source;
use crate::transaction;

/// The network, as one run of the policy sees it.
#[pyclass(frozen, name = "Net", module = "maple")]
pub struct PyNet {
    ticket: Ticket,
}

impl PyNet {
    /// Creates the network of the run that `ticket` names.
    pub fn new(ticket: Ticket) -> PyNet {
        PyNet { ticket }
    }

    /// Returns all links. A dependency of the run.
    ///
    /// # Errors
    /// `RuntimeError` if the run is over.
    pub fn all_links(&self) -> PyResult<Vec<(Location, Location)>> {
        current::with_net(self.ticket, |net| net.links())
    }

    /// Returns the path to an absent place; `None` if the place is there. A dependency of the run.
    ///
    /// # Errors
    /// `RuntimeError` if the run is over.
    pub fn path_to_absent(&self, src: Location, dst: Location) -> PyResult<Option<Route>> {
        current::with_net(self.ticket, |net| net.path_to_absent(src, dst))
    }

    /// Returns the hardware address of a host, given by that or by an IP address. `None` if a field is absent or the
    /// host is not known.
    fn host_address(&self, object: &Bound<'_, PyAny>) -> PyResult<Option<CoreMac>> {
        let object = FieldRef::value_of(object)?.unwrap_or_else(|| object.clone());
        match Ip::from_object(&object) {
            Ok(ip) => current::with_net(self.ticket, |net| net.locate_ip(ip.0).map(|(mac, _)| mac)),
            Err(_) => hardware_address(&object),
        }
    }

    fn path_between(&self, src: &Bound<'_, PyAny>, dst: &Bound<'_, PyAny>, cost: Option<&str>) -> PyResult<PyRoute> {
        let py = src.py();
        let (Some(src), Some(dst)) = (start(src)?, PathEnd::of(dst, self.ticket)?) else {
            return Ok(PyRoute(Route::unreachable()));
        };
        let route = current::with_net(self.ticket, |net| {
            let dst = match dst {
                PathEnd::At(at) => Some(HostLocation::from(at)),
                // It asks nothing that has not been asked.
                PathEnd::Found(field) => net.locate_by(field, None).ok().flatten(),
            };
            match (dst, cost) {
                (Some(dst), Some(cost)) => net.try_path(src, dst, cost),
                (Some(dst), None) => Ok(net.shortest_path(src, dst)),
                (None, _) => Ok(Route::unreachable()),
            }
        })?;
        let where_from = "costs() in the policy, `--costs FILE` and links of an emulated topology give costs names";
        Ok(PyRoute::here(py, route.map_err(|error| PyLookupError::new_err(format!("{error} ({where_from})")))?))
    }
}

/// Returns a location, or `None` for the `None` of a host that was not found.
///
/// # Errors
/// `TypeError` or `ValueError` if the object is not a location.
pub fn place(object: &Bound<'_, PyAny>) -> PyResult<Option<Location>> {
    if object.is_none() { Ok(None) } else { PyLocation::from_object(object).map(Some) }
}

/// Returns the location from which a path starts, or `None` for the `None` of a host that was not found. Its switch is
/// what counts.
fn start(object: &Bound<'_, PyAny>) -> PyResult<Option<Location>> {
    match object.cast::<PyLocation>() {
        Ok(location) => location.get().start().map(Some),
        Err(_) => place(object),
    }
}

/// The end of a path.
enum PathEnd {
    At(Location),
    /// The place where a look-up by this field of the run's packet finds a host.
    Found(Field),
}

impl PathEnd {
    /// Returns the end of a path in a run, or `None` for the `None` of a host that was not found.
    ///
    /// # Errors
    /// `TypeError` or `ValueError` if the object is not a location, `RuntimeError` if it is one of an earlier run that
    /// was not read there.
    fn of(object: &Bound<'_, PyAny>, run: Ticket) -> PyResult<Option<PathEnd>> {
        let found = object.cast::<PyLocation>().ok().and_then(|location| location.get().found_by(run));
        match found {
            Some(field) => Ok(Some(PathEnd::Found(field))),
            None => Ok(place(object)?.map(PathEnd::At)),
        }
    }
}

/// Returns a hardware address given as a field, `Mac` or text. `None` if the field is absent.
fn hardware_address(object: &Bound<'_, PyAny>) -> PyResult<Option<CoreMac>> {
    let object = FieldRef::value_of(object)?.unwrap_or_else(|| object.clone());
    if object.is_none() { Ok(None) } else { Ok(Some(CoreMac::from_bits(u128::from(Mac::from_object(&object)?.0)))) }
}

/// An IP or a hardware address.
enum Address {
    Ip(IpAddr),
    Mac(CoreMac),
}

/// Returns an address given as a field, `Mac`, `Ip` or text. `None` if the field is absent.
fn address(object: &Bound<'_, PyAny>) -> PyResult<Option<Address>> {
    let object = FieldRef::value_of(object)?.unwrap_or_else(|| object.clone());
    if object.is_none() {
        return Ok(None);
    }
    if let Ok(ip) = Ip::from_object(&object) {
        return Ok(Some(Address::Ip(ip.0)));
    }
    let mac = |mac: Mac| Address::Mac(CoreMac::from_bits(mac.0.into()));
    match Mac::from_object(&object) {
        Ok(found) => Ok(Some(mac(found))),
        Err(error) if error.is_instance_of::<PyTypeError>(object.py()) => {
            Err(PyTypeError::new_err(format!("an IP or MAC address is a str, not {}", described(&object))))
        }
        Err(_) => Err(PyValueError::new_err(format!("{} is not an IP or MAC address", object.repr()?))),
    }
}

/// Returns the field if it has addresses and a switch may look them up.
fn key_field(object: &Bound<'_, PyAny>) -> Option<Field> {
    let field = object.cast::<FieldRef>().ok()?.get().as_key()?;
    (FieldKind::from_field(field) != FieldKind::Number).then_some(field)
}

/// Returns the fields with a hardware and an IP address, if both objects are such fields and a switch may look them up.
fn key_fields(host: &Bound<'_, PyAny>, ip: &Bound<'_, PyAny>) -> Option<(Field, Field)> {
    let (host, ip) = (key_field(host)?, key_field(ip)?);
    let is_mac = |field| FieldKind::from_field(field) == FieldKind::Mac;
    (is_mac(host) && !is_mac(ip)).then_some((host, ip))
}

/// Returns an IP address given as a field, `Ip` or text. `None` if the field is absent.
fn ip_address(object: &Bound<'_, PyAny>) -> PyResult<Option<IpAddr>> {
    let object = FieldRef::value_of(object)?.unwrap_or_else(|| object.clone());
    if object.is_none() { Ok(None) } else { Ok(Some(Ip::from_object(&object)?.0)) }
}

fn not_snooped(error: PolicyError) -> PyErr {
    PyTypeError::new_err(error.to_string())
}

/// Returns a lease as a named tuple.
fn lease_tuple(py: Python<'_>, lease: Lease) -> PyResult<Bound<'_, PyAny>> {
    static LEASE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let shape = LEASE.import(py, "maple._shapes", "Lease")?;
    let mac = Mac::cached(py, lease.mac.bits() as u64)?;
    shape.call1((mac, Ip::cached(py, lease.ip.into())?, PyLocation::from(lease.location), lease.ends))
}

/// Returns the constraints of packets with these field values.
fn constraints(fields: &Bound<'_, PyDict>) -> PyResult<Vec<Constraint>> {
    let constraint = |(name, value): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
        let field = named(&name, "invalidate()")?;
        let value = FieldRef::value_of(&value)?.unwrap_or(value);
        Ok(Constraint::exact(field, to_raw(field, operand(field, &value)?)))
    };
    fields.iter().map(constraint).collect()
}

#[pymethods]
impl PyNet {
    /// Raises an error that names what there is, for a name that is not an attribute.
    fn __getattr__(&self, py: Python<'_>, name: &str) -> PyResult<Py<PyAny>> {
        let reported = py.import("maple._spelling")?.call_method1("unknown_question", (name,))?;
        Err(PyAttributeError::new_err(reported.unbind()))
    }

    /// Sends a frame that the policy made out of an edge port, in addition to the route of the packet.
    fn send(&self, frame: &Bound<'_, PyAny>, at: &Bound<'_, PyAny>) -> PyResult<()> {
        let (at, frame) = (PyLocation::from_object(at)?, frame_bytes(frame)?);
        let sent = current::with_net(self.ticket, |net| net.try_send(frame, at))?;
        sent.map_err(|error| PyValueError::new_err(error.to_string()))
    }

    /// Sends a frame that the policy made to where the packet came from, in addition to the route of the packet.
    fn reply(&self, frame: &Bound<'_, PyAny>) -> PyResult<()> {
        let frame = frame_bytes(frame)?;
        current::with_net(self.ticket, |net| net.reply(frame))
    }

    /// Returns the location of the host with this hardware address. `None` if the host is not known.
    fn locate(&self, mac: &Bound<'_, PyAny>) -> PyResult<Option<PyLocation>> {
        let at = match mac.cast::<FieldRef>() {
            Ok(field) if FieldKind::from_field(field.get().field()) == FieldKind::Mac => {
                let (field, source) = (field.get().field(), source::here(mac.py()));
                let known = |at: HostLocation<'_>| match (at.known(), at.found_by()) {
                    (Some(at), _) => at.into(),
                    (None, Some(field)) => PyLocation::found(self.ticket, field),
                    (None, None) => PyLocation::of_source(self.ticket),
                };
                let at = current::with_net(self.ticket, |net| Ok(net.locate_by(field, source)?.map(known)))?;
                return at.map_err(|error: PolicyError| PyTypeError::new_err(error.to_string()));
            }
            _ => match hardware_address(mac)? {
                Some(mac) => current::with_net(self.ticket, |net| net.try_locate(mac))?,
                None => return Ok(None),
            },
        };
        Ok(at.map_err(|e| PyTypeError::new_err(e.to_string()))?.map(PyLocation::from))
    }

    /// Returns the host that uses this IP address, and where it is. `None` if it is not known.
    fn locate_ip<'py>(&self, ip: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = ip.py();
        let Some(ip) = ip_address(ip)? else { return Ok(None) };
        let found = current::with_net(self.ticket, |net| net.locate_ip(ip))?;
        found.map(|(mac, at)| host(py, mac, at)).transpose()
    }

    /// Reports whether this IP address is that of the host with this hardware address.
    fn is_bound(&self, host: &Bound<'_, PyAny>, ip: &Bound<'_, PyAny>) -> PyResult<bool> {
        let source = source::here(host.py());
        if let Some((host, ip)) = key_fields(host, ip) {
            return current::with_net(self.ticket, |net| net.is_bound_by(host, ip, source));
        }
        let (host, ip) = (hardware_address(host)?, ip_address(ip)?);
        let Some((host, ip)) = host.zip(ip) else { return Ok(false) };
        current::with_net(self.ticket, |net| net.is_bound(host, ip))
    }

    /// Returns all hosts, and where they are.
    fn hosts<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let hosts = current::with_net(self.ticket, |net| net.hosts())?;
        hosts.into_iter().map(|(mac, at)| host(py, mac, at)).collect()
    }

    /// Returns the IP addresses that a host announced last. `None` for an unknown host.
    fn addresses<'py>(&self, mac: &Bound<'py, PyAny>) -> PyResult<Option<Vec<Bound<'py, Ip>>>> {
        let py = mac.py();
        let Some(mac) = hardware_address(mac)? else { return Ok(None) };
        let Some((v4, v6)) = current::with_net(self.ticket, |net| net.host_addresses(mac))? else { return Ok(None) };
        let all = v4.into_iter().map(Into::into).chain(v6.into_iter().map(Into::into));
        Ok(Some(all.map(|ip| Ip::cached(py, ip)).collect::<PyResult<_>>()?))
    }

    /// Returns the edge ports with members of a multicast group.
    fn members(&self, group: &Bound<'_, PyAny>) -> PyResult<Vec<PyLocation>> {
        let members = match key_field(group) {
            Some(field) => {
                let source = source::here(group.py());
                current::with_net(self.ticket, |net| net.try_members_by(field, source))?
            }
            None => {
                let group = match address(group)? {
                    Some(Address::Ip(ip)) => MulticastGroup::Ip(ip),
                    Some(Address::Mac(mac)) => MulticastGroup::Mac(mac),
                    None => return Ok(Vec::new()),
                };
                current::with_net(self.ticket, |net| net.try_members(group))?
            }
        };
        Ok(members.map_err(not_snooped)?.into_iter().map(PyLocation::from).collect())
    }

    /// Returns the DHCP lease of a host, given by its hardware address or its IP address.
    fn lease<'py>(&self, host: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let found = match address(host)? {
            Some(Address::Ip(IpAddr::V4(ip))) => current::with_net(self.ticket, |net| net.try_lease(ip))?,
            Some(Address::Mac(mac)) => current::with_net(self.ticket, |net| net.try_lease_of(mac))?,
            // Maple does not snoop on DHCP for IPv6.
            Some(Address::Ip(IpAddr::V6(_))) | None => Ok(None),
        };
        found.map_err(not_snooped)?.map(|lease| lease_tuple(host.py(), lease)).transpose()
    }

    /// Reports whether DHCP gave this IPv4 address to the host with this hardware address last, at the port where it
    /// is.
    fn is_leased(&self, host: &Bound<'_, PyAny>, ip: &Bound<'_, PyAny>) -> PyResult<bool> {
        let source = source::here(host.py());
        let is_leased = match key_fields(host, ip) {
            Some((host, ip)) => current::with_net(self.ticket, |net| net.try_is_leased_by(host, ip, source))?,
            None => match (hardware_address(host)?, ip_address(ip)?) {
                (Some(host), Some(IpAddr::V4(ip))) => {
                    current::with_net(self.ticket, |net| net.try_is_leased(host, ip))?
                }
                // Maple does not snoop on DHCP for IPv6.
                _ => Ok(false),
            },
        };
        is_leased.map_err(not_snooped)
    }

    /// Returns all DHCP leases that are known.
    fn leases<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let leases = current::with_net(self.ticket, |net| net.try_leases())?;
        leases.map_err(not_snooped)?.into_iter().map(|lease| lease_tuple(py, lease)).collect()
    }

    /// Returns the datapath ids of all switches.
    fn switches(&self) -> PyResult<Vec<u64>> {
        current::with_net(self.ticket, |net| net.switches().into_iter().map(|dpid| dpid.0).collect())
    }

    /// Returns all links, each once.
    fn links<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        static LINK: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let link = LINK.import(py, "maple._shapes", "Link")?;
        let ends = self.all_links()?.into_iter();
        ends.map(|(a, b)| link.call1((PyLocation::from(a), PyLocation::from(b)))).collect()
    }

    /// Returns the edge ports of a switch.
    fn edge_ports(&self, switch: u64) -> PyResult<Vec<u32>> {
        current::with_net(self.ticket, |net| {
            net.edge_ports(Dpid(switch)).into_iter().map(|PortNo(number)| number).collect()
        })
    }

    /// Reports whether packets can pass a port. A host that was not found is nowhere, so no packet can get to it.
    fn is_up(&self, place: &Bound<'_, PyAny>) -> PyResult<bool> {
        let Some(at) = self::place(place)? else { return Ok(false) };
        current::with_net(self.ticket, |net| net.is_up(at))
    }

    /// Returns the path with the fewest hops between two places.
    fn shortest_path(&self, src: &Bound<'_, PyAny>, dst: &Bound<'_, PyAny>) -> PyResult<PyRoute> {
        self.path_between(src, dst, None)
    }

    /// Returns the path of least cost by the costs of this name.
    #[pyo3(signature = (src, dst, cost))]
    fn path(&self, src: &Bound<'_, PyAny>, dst: &Bound<'_, PyAny>, cost: &str) -> PyResult<PyRoute> {
        self.path_between(src, dst, Some(cost))
    }

    /// Returns the traffic that a port sends.
    #[pyo3(signature = (switch, port = None, *, capacity = None))]
    fn port_load(
        &self,
        switch: &Bound<'_, PyAny>,
        port: Option<&Bound<'_, PyAny>>,
        capacity: Option<f64>,
    ) -> PyResult<PyLoad> {
        let at = PyLocation::from_arguments(switch, port)?;
        let load = current::with_net(self.ticket, |net| net.port_load(at))?;
        PyLoad::new(self.ticket, &load, capacity)
    }

    /// Returns the traffic of a switch to the next one, over the busiest link between them.
    #[pyo3(signature = (a, b, *, capacity = None))]
    fn link_load(&self, a: &Bound<'_, PyAny>, b: &Bound<'_, PyAny>, capacity: Option<f64>) -> PyResult<PyLoad> {
        let load = match (a.extract::<u64>(), b.extract::<u64>()) {
            (Ok(a), Ok(b)) => current::with_net(self.ticket, |net| net.link_load(Dpid(a), Dpid(b)))?,
            _ => {
                let (a, b) = (PyLocation::from_object(a)?, PyLocation::from_object(b)?);
                current::with_net(self.ticket, |net| net.link_load_at(a, b))?
            }
        };
        PyLoad::new(self.ticket, &load, capacity)
    }

    /// Returns the traffic of one host to another.
    #[pyo3(signature = (src, dst, *, capacity = None))]
    fn traffic(&self, src: &Bound<'_, PyAny>, dst: &Bound<'_, PyAny>, capacity: Option<f64>) -> PyResult<PyLoad> {
        let load = match (self.host_address(src)?, self.host_address(dst)?) {
            (Some(src), Some(dst)) => current::with_net(self.ticket, |net| net.try_traffic(src, dst))?,
            _ => Ok(current::with_net(self.ticket, |net| net.no_load())?),
        };
        PyLoad::new(self.ticket, &load.map_err(|error| PyTypeError::new_err(error.to_string()))?, capacity)
    }

    /// Calls `function` as a part of the run: its writes take effect all, or not at all if it raises.
    fn atomically(&self, py: Python<'_>, function: Py<PyAny>) -> PyResult<Py<PyAny>> {
        current::with_net(self.ticket, |_| ())?;
        transaction::atomically(py, function, None)
    }

    /// Runs `first`, and if that calls retry(), `second` instead.
    fn or_else(&self, py: Python<'_>, first: Py<PyAny>, second: Py<PyAny>) -> PyResult<Py<PyAny>> {
        current::with_net(self.ticket, |_| ())?;
        transaction::or_else(py, first, second)
    }

    /// Makes the packet wait until something that the run has read changes.
    fn retry(&self) -> PyResult<()> {
        current::with_net(self.ticket, |_| ())?;
        transaction::retry()
    }

    /// Decides again for packets from or to a host, through a port, or with these field values.
    #[pyo3(signature = (*, host = None, switch = None, port = None, fields = None))]
    fn invalidate(
        &self,
        host: Option<&Bound<'_, PyAny>>,
        switch: Option<u64>,
        port: Option<u32>,
        fields: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        let mut selections = Vec::new();
        if let Some(mac) = host.map(hardware_address).transpose()?.flatten() {
            selections.push(LeafSelection::Host(mac));
        }
        match (switch, port) {
            (Some(switch), Some(port)) => {
                selections.push(LeafSelection::Port(Location::new(Dpid(switch), PortNo(port))));
            }
            (None, None) => {}
            _ => return Err(PyTypeError::new_err("invalidate() takes switch and port together")),
        }
        if let Some(fields) = fields {
            selections.push(LeafSelection::Fields(constraints(fields)?));
        }
        if selections.is_empty() && host.is_none() {
            return Err(PyTypeError::new_err("invalidate() needs host=, switch= and port=, or fields="));
        }
        current::with_net(self.ticket, |net| selections.into_iter().for_each(|selection| net.invalidate(selection)))
    }

    fn __repr__(&self) -> &'static str {
        "<net>"
    }
}

/// Returns a host and where it is, as a named tuple.
fn host(py: Python<'_>, mac: CoreMac, at: Location) -> PyResult<Bound<'_, PyAny>> {
    static HOST: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let host = HOST.import(py, "maple._shapes", "Host")?;
    host.call1((Mac::cached(py, mac.bits() as u64)?, PyLocation::from(at)))
}
