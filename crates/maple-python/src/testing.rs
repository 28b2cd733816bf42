//! A bench for policies: an imaginary network that takes one packet at a time and shows what each run observed.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use maple_core::network::{Gauge, HostInfo, Location, PortInfo, PortKind};
use maple_core::policy::{Policy, PolicyError};
use maple_core::route::Route;
use maple_core::run::Run;
use maple_core::snooping::{self, Lease};
use maple_core::state::{Cell, DeclareError, Snapshot, Store, SwitchInfo, Write};
use maple_core::{Mac as CoreMac, ShardId};
use maple_wire::{Dpid, PortNo, Version};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use crate::address::{Ip, Mac};
use crate::host;
use crate::measured_load;
use crate::policy::PythonPolicy;
use crate::route::{PyLocation, PyRoute};
use crate::snoop;

/// A network that exists only as state. A new one replaces the store of the process.
#[pyclass(frozen, module = "maple.testing")]
pub struct Bench {
    store: Arc<Store>,
    track_hosts: bool,
}

/// The result of one run.
#[pyclass(frozen, get_all, module = "maple.testing")]
pub struct Decision {
    /// The route. `None` if the run failed.
    route: Option<Py<PyRoute>>,
    /// The reason why it failed.
    error: Option<String>,
    /// The places where copies of the packet leave the network, and their bytes.
    copies: Vec<(PyLocation, Vec<u8>)>,
    /// The observations of its packet, in order.
    trace: Vec<String>,
    /// The line of the policy that each item of the trace comes from.
    lines: Vec<Option<u32>>,
    /// The cells of state that it read.
    reads: Vec<String>,
    /// The paths that its route takes, wherever they lead.
    follows: Vec<String>,
    /// Whether it wrote state or invalidated rules.
    wrote: bool,
    /// Whether each packet of the kind comes to the controller, because the policy sends frames of its own or looked at
    /// the whole frame.
    each: bool,
    /// Whether it asked for the switch.
    read_switch: bool,
    /// The constraints that refused its route, and why.
    violations: Vec<(String, String)>,
}

impl Bench {
    fn write(&self, writes: Vec<Write>) {
        // A commit can ask queries, which need the interpreter's lock.
        Python::attach(|py| py.detach(|| self.store.update(|_| writes)));
    }

    /// Writes groups or leases as snooping would.
    fn learn(&self, groups: bool, writes: impl FnOnce(&Snapshot) -> Vec<Write> + Send) -> PyResult<()> {
        let learn = || {
            snooping::declare(&self.store, groups, !groups)?;
            self.store.update(writes);
            Ok(())
        };
        let learned: Result<(), DeclareError> = Python::attach(|py| py.detach(learn));
        learned.map_err(|error| PyValueError::new_err(error.to_string()))
    }

    fn up_port(at: Location, kind: PortKind) -> Write {
        Write::Port { at, info: Some(PortInfo { up: true, kind }) }
    }

    /// Refuses a switch that the network does not have.
    fn need_switch(&self, dpid: Dpid) -> PyResult<()> {
        let state = self.store.snapshot();
        if state.switch(dpid).is_some() {
            return Ok(());
        }
        let all: Vec<String> = state.switches().map(|(dpid, _)| dpid.0.to_string()).collect();
        let known = if all.is_empty() { "none".to_owned() } else { all.join(", ") };
        Err(PyValueError::new_err(format!("there is no switch {} (add it with switch(); there are: {known})", dpid.0)))
    }

    /// Refuses a port that is not an edge port.
    fn need_edge_port(&self, at: Location) -> PyResult<()> {
        self.need_switch(at.switch)?;
        let state = self.store.snapshot();
        let Location { switch: Dpid(switch), port } = at;
        match state.port(at).map(|port| port.kind) {
            Some(PortKind::Edge) => Ok(()),
            Some(_) => Err(PyValueError::new_err(format!(
                "port {port} of switch {switch} is an end of a link: hosts are, and packets enter, at edge ports"
            ))),
            None => {
                let all: Vec<String> = state.ports_of(at.switch).map(|(port, _)| port.to_string()).collect();
                Err(PyValueError::new_err(format!(
                    "switch {switch} has no port {port}; it has the ports {}",
                    all.join(", ")
                )))
            }
        }
    }
}

#[pymethods]
impl Bench {
    #[new]
    #[pyo3(signature = (track_hosts = true))]
    fn new(track_hosts: bool) -> Bench {
        let store = Store::new();
        host::use_store(store.clone());
        Bench { store, track_hosts }
    }

    /// Adds a switch with these edge ports.
    fn switch(&self, dpid: u64, ports: Vec<u32>) {
        let dpid = Dpid(dpid);
        let ports = ports.into_iter().map(|port| Bench::up_port(Location::new(dpid, PortNo(port)), PortKind::Edge));
        let switch = Write::Switch { dpid, info: Some(SwitchInfo { shard: ShardId(0), version: Version::Of13 }) };
        self.write([switch].into_iter().chain(ports).collect());
    }

    /// Adds a link between two ports.
    fn link(&self, a: &Bound<'_, PyAny>, b: &Bound<'_, PyAny>) -> PyResult<()> {
        let (a, b) = (PyLocation::from_object(a)?, PyLocation::from_object(b)?);
        self.need_switch(a.switch)?;
        self.need_switch(b.switch)?;
        self.write(vec![Bench::up_port(a, PortKind::Link(b)), Bench::up_port(b, PortKind::Link(a))]);
        Ok(())
    }

    /// Adds or moves a host.
    #[pyo3(signature = (mac, switch, port = None, ip = None))]
    fn host(
        &self,
        mac: &Bound<'_, PyAny>,
        switch: &Bound<'_, PyAny>,
        port: Option<&Bound<'_, PyAny>>,
        ip: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let mac = CoreMac::from_bits(u128::from(Mac::from_object(mac)?.0));
        let location = PyLocation::from_arguments(switch, port)?;
        let mut info = HostInfo { location, ipv4: Default::default(), ipv6: Default::default() };
        self.need_edge_port(info.location)?;
        match ip.map(Ip::from_object).transpose()?.map(|ip| ip.0) {
            Some(std::net::IpAddr::V4(ip)) => drop(info.ipv4.insert(ip)),
            Some(std::net::IpAddr::V6(ip)) => drop(info.ipv6.insert(ip)),
            None => {}
        }
        self.write(vec![Write::Host { mac, info: Some(info) }]);
        Ok(())
    }

    /// Takes an edge port down, or up again.
    #[pyo3(signature = (switch, port = None, *, up))]
    fn port(&self, switch: &Bound<'_, PyAny>, port: Option<&Bound<'_, PyAny>>, up: bool) -> PyResult<()> {
        let at = PyLocation::from_arguments(switch, port)?;
        let is_down = self.store.snapshot().port(at).is_some_and(|port| port.kind == PortKind::New);
        if !is_down {
            self.need_edge_port(at)?;
        }
        // After a port was down, Maple finds out again what is behind it.
        let kind = if up { PortKind::Edge } else { PortKind::New };
        self.write(vec![Write::Port { at, info: Some(PortInfo { up, kind }) }]);
        Ok(())
    }

    /// Adds a measurement: the sent and received traffic of a port, and its capacity, in Mbit/s.
    #[pyo3(signature = (switch, port = None, *, sent = None, received = None, speed = None))]
    fn load(
        &self,
        switch: &Bound<'_, PyAny>,
        port: Option<&Bound<'_, PyAny>>,
        sent: Option<f64>,
        received: Option<f64>,
        speed: Option<f64>,
    ) -> PyResult<()> {
        let at = PyLocation::from_arguments(switch, port)?;
        self.need_switch(at.switch)?;
        if self.store.snapshot().port(at).is_none() {
            return Err(PyValueError::new_err(format!("switch {} has no port {}", at.switch.0, at.port)));
        }
        let mut writes = Vec::new();
        for (gauge, mbps, name) in [(Gauge::Sent(at), sent, "sent"), (Gauge::Received(at), received, "received")] {
            if let Some(mbps) = mbps {
                writes.push(Write::Rate { gauge, rate: Some(measured_load::bits(mbps, name)?) });
            }
        }
        if let Some(speed) = speed {
            writes.push(Write::Speed { at, speed: Some(measured_load::bits(speed, "speed")?) });
        }
        self.write(writes);
        Ok(())
    }

    /// Adds a measurement: the traffic of a host to another, in Mbit/s.
    fn traffic(&self, src: &Bound<'_, PyAny>, dst: &Bound<'_, PyAny>, mbps: f64) -> PyResult<()> {
        let mac = |mac: &Bound<'_, PyAny>| Ok::<_, PyErr>(CoreMac::from_bits(u128::from(Mac::from_object(mac)?.0)));
        let gauge = Gauge::Traffic { from: mac(src)?, to: mac(dst)? };
        self.write(vec![Write::Rate { gauge, rate: Some(measured_load::bits(mbps, "mbps")?) }]);
        Ok(())
    }

    /// Makes these edge ports the members of a multicast group, in place of those that were.
    fn members(&self, group: &Bound<'_, PyAny>, ports: Vec<Bound<'_, PyAny>>) -> PyResult<()> {
        let group = Ip::from_object(group)?.0;
        let mut members = ports.iter().map(PyLocation::from_object).collect::<PyResult<Vec<Location>>>()?;
        members.iter().try_for_each(|at| self.need_edge_port(*at))?;
        members.sort();
        self.learn(true, |state| snooping::members(state, group, &members))
    }

    /// Gives a host at an edge port a DHCP lease. `ends` is in seconds since 1970, `None` is never.
    #[pyo3(signature = (mac, ip, switch, port = None, ends = None))]
    fn lease(
        &self,
        mac: &Bound<'_, PyAny>,
        ip: &Bound<'_, PyAny>,
        switch: &Bound<'_, PyAny>,
        port: Option<&Bound<'_, PyAny>>,
        ends: Option<u64>,
    ) -> PyResult<()> {
        let mac = CoreMac::from_bits(u128::from(Mac::from_object(mac)?.0));
        let IpAddr::V4(ip) = Ip::from_object(ip)?.0 else {
            return Err(PyValueError::new_err("leases are of IPv4 addresses"));
        };
        let location = PyLocation::from_arguments(switch, port)?;
        self.need_edge_port(location)?;
        self.learn(false, |_| snooping::lease(&Lease { mac, ip, location, ends }))
    }

    /// Runs `policy` on a frame that enters at a port, port 1 or switch 1 where none is given, and commits its writes.
    /// A route that the network would refuse is an error of the decision, in the network's words.
    #[pyo3(signature = (policy, frame, switch = None, port = None, time_limit = 1.0))]
    fn decide(
        &self,
        py: Python<'_>,
        policy: &Bound<'_, PyAny>,
        frame: &[u8],
        switch: Option<&Bound<'_, PyAny>>,
        port: Option<&Bound<'_, PyAny>>,
        time_limit: f64,
    ) -> PyResult<Decision> {
        let limit = Duration::try_from_secs_f64(time_limit)
            .map_err(|_| PyValueError::new_err("time_limit is a positive number of seconds"))?;
        let first = 1u64.into_pyobject(py)?.into_any();
        let switch = switch.unwrap_or(&first);
        let is_number = switch.extract::<u64>().is_ok();
        let ingress = PyLocation::from_arguments(switch, port.or(is_number.then_some(&first)))?;
        self.need_edge_port(ingress)?;
        snoop::declare(policy, &self.store)?;
        let run = Run::new(frame.into(), frame.len(), ingress, self.store.begin(), self.track_hosts);
        let answer = PythonPolicy::new(policy, limit).decide(&run.packet(), &run.net());
        let answer: Result<_, PolicyError> =
            answer.and_then(|route| Ok((run.resolved(&route)?, run.with_floods(&route))));
        let finished = run.finish().ok_or_else(|| PyRuntimeError::new_err("the run ended early"))?;
        let answer = finished.error.map_or(answer, Err);
        let copies = answer.as_ref().map(|(resolved, _)| resolved.copies(frame, ingress)).unwrap_or_default();
        let answer = answer.map(|(_, route)| route);
        // If the hops of the route are a dependency, the decision follows no paths.
        let follows = !finished.txn.reads().any(|(cell, _)| matches!(cell, Cell::Route(_)));
        let decision = Decision {
            route: answer.as_ref().ok().map(|route| Py::new(py, PyRoute(route.clone()))).transpose()?,
            error: answer.as_ref().err().map(ToString::to_string),
            copies: copies.into_iter().map(|(at, frame)| (at.into(), frame)).collect(),
            trace: finished.trace.steps().map(|step| step.to_string()).collect(),
            lines: finished.trace.steps().map(|step| step.source().map(|source| source.line)).collect(),
            follows: answer.iter().filter(|_| follows).flat_map(Route::paths).map(|path| format!("{path:?}")).collect(),
            reads: finished.txn.reads().map(|(cell, _)| format!("{cell:?}")).collect(),
            wrote: finished.txn.wrote(),
            each: finished.trace.needs_controller,
            read_switch: finished.trace.read_switch,
            violations: finished
                .violations
                .iter()
                .map(|violation| (violation.constraint.to_string(), violation.why.to_string()))
                .collect(),
        };
        if answer.is_ok() {
            let committed = py.detach(|| self.store.commit(finished.txn, None));
            committed.map_err(|e| PyRuntimeError::new_err(e.to_string()))?;
        }
        Ok(decision)
    }
}

#[pymethods]
impl Decision {
    fn __repr__(&self) -> String {
        let answer = match (&self.route, &self.error) {
            (Some(route), _) => format!("route: {}", route.get().0),
            (None, error) => {
                let error = error.as_deref().unwrap_or_default();
                format!("error: {}", error.trim_end().lines().next_back().unwrap_or_default())
            }
        };
        let trace = if self.trace.is_empty() { "nothing".to_owned() } else { self.trace.join("; ") };
        format!("<decision {answer}; looked at {trace}{}>", if self.wrote { "; wrote" } else { "" })
    }
}
