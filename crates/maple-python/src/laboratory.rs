//! Policies on emulated networks in simulated time. `maple._emulate` turns the results into objects.

use std::sync::Arc;
use std::time::Duration;

use maple_controller::control::explain::{Explain, to_text};
use maple_core::snooping;
use maple_core::state::{Store, Write};
use maple_emulator::Topology;
use maple_emulator::commands::{CommandError, CommandRunner, Ground as _};
use maple_lab::{FrameFate, Laboratory, LaboratoryOptions, World, seconds};
use maple_wire::packet::text::mac_text;
use maple_wire::{Dpid, Version};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::host::{self, Stage, laboratory_error};
use crate::policy::PythonPolicy;
use crate::snoop::snooping_of;

/// A network under a policy. A new one takes tables, variables and costs along, and has them from then on.
#[pyclass(frozen, name = "Laboratory", module = "maple._maple")]
pub struct PyLaboratory(Arc<Laboratory>);

/// A hop: the switch's name, the port where the frame came in, the port where it left.
type PyHop = (String, u32, Option<u32>);
/// A copy: its path, the host that got it, the reason why no host got it, its bytes.
type PyCopy = (Vec<PyHop>, Option<String>, Option<String>, Vec<u8>);
/// A frame and its copies.
pub(crate) type PyJourney = (Vec<u8>, Vec<PyCopy>);
/// A host: name, MAC, IPv4, IPv6, switch, port.
type PyHost = (String, String, String, String, String, u32);
/// A link: both ends, whether it is up, delay in seconds, loss as a share from 0 to 1, rate in bits per second.
type PyLink = ((String, u32), (String, u32), bool, f64, f64, Option<u64>);

impl PyLaboratory {
    pub fn call<R: Send + 'static>(
        &self,
        py: Python<'_>,
        f: impl FnOnce(&CommandRunner, &mut World) -> Result<R, CommandError> + Send + 'static,
    ) -> PyResult<R> {
        host::wait(py, self.0.ask(f))
    }

    fn dpid(&self, name: &str) -> PyResult<Dpid> {
        CommandRunner::new(self.0.topology().clone()).switch(name).map_err(laboratory_error)
    }
}

#[pymethods]
impl PyLaboratory {
    #[new]
    #[pyo3(signature = (topology, policy, version, seed, track_hosts, time_limit, place = None, tables = 254))]
    #[allow(clippy::too_many_arguments, reason = "`maple.emulate` is what people call")]
    fn new(
        py: Python<'_>,
        topology: &str,
        policy: &Bound<'_, PyAny>,
        version: &str,
        seed: u64,
        track_hosts: bool,
        time_limit: f64,
        place: Option<&PyPlace>,
        tables: u8,
    ) -> PyResult<PyLaboratory> {
        let topology = Topology::parse(topology).map_err(|e| PyValueError::new_err(e.to_string()))?;
        let wrong = |_| PyValueError::new_err(format!("version is \"1.0\" or \"1.3\", not {version:?}"));
        let version: Version = version.parse().map_err(wrong)?;
        if !(1..=254).contains(&tables) {
            return Err(PyValueError::new_err(format!("tables is 1 to 254, not {tables}")));
        }
        let limit = Duration::try_from_secs_f64(time_limit)
            .map_err(|_| PyValueError::new_err("time_limit is a positive number of seconds"))?;
        let snooping = snooping_of(policy)?;
        let policy = Arc::new(PythonPolicy::new(policy, limit));
        let options = LaboratoryOptions { topology, version, tables, seed, track_hosts, snooping };
        let place = place.map_or_else(with_users_state, |place| Arc::clone(&place.0));
        host::use_place(Arc::clone(&place));
        let store = Arc::clone(place.store());
        let laboratory = py.detach(|| Laboratory::start(options, policy, store)).map_err(laboratory_error)?;
        let laboratory = Arc::new(laboratory);
        place.use_laboratory(&laboratory);
        Ok(PyLaboratory(laboratory))
    }

    /// Does a command of the console.
    fn command(&self, py: Python<'_>, line: String) -> PyResult<String> {
        self.call(py, move |runner, world| runner.line(world, &line))
    }

    /// Returns the time of the network, in seconds.
    fn now(&self, py: Python<'_>) -> PyResult<f64> {
        self.call(py, |_, world| Ok(world.now() as f64 / 1e9))
    }

    /// Lets time pass.
    fn run(&self, py: Python<'_>, span: f64) -> PyResult<()> {
        let span = seconds(span).map_err(laboratory_error)?;
        self.call(py, move |_, world| world.pass(span))
    }

    /// Pings from one host to another. Returns the time of each answer, in seconds, and the journey of the last
    /// request.
    fn ping(
        &self,
        py: Python<'_>,
        src: String,
        dst: String,
        count: u32,
    ) -> PyResult<(Vec<Option<f64>>, String, Option<PyJourney>)> {
        let names = self.names();
        self.call(py, move |runner, world| {
            let began = world.now();
            let pinged = runner.ping(world, &src, &dst, count)?;
            let times = pinged.answers.iter().map(|answer| answer.map(|time| time as f64 / 1e9)).collect();
            let journey = world.last_journey(&src, &dst, began).map(|journey| of_journey(&names, journey));
            Ok((times, pinged.to_string(), journey))
        })
    }

    /// Pings between all hosts. Returns the number of pings, and the pairs without an answer.
    fn ping_all(&self, py: Python<'_>) -> PyResult<(usize, Vec<(String, String)>)> {
        self.call(py, |runner, world| runner.ping_all(world).map(|all| (all.sent, all.failed)))
    }

    /// Sends a stream from one host to another. Returns the received rate in bits a second, the frames sent, the frames
    /// lost, and all as text.
    fn iperf(
        &self,
        py: Python<'_>,
        src: String,
        dst: String,
        span: f64,
        rate: u64,
    ) -> PyResult<(u64, u64, u64, String)> {
        let span = seconds(span).map_err(laboratory_error)?;
        self.call(py, move |runner, world| {
            let streamed = runner.iperf(world, &src, &dst, span, rate)?;
            Ok((streamed.rate(), streamed.sent, streamed.lost(), streamed.to_string()))
        })
    }

    /// Sends a frame from a host.
    fn send(&self, py: Python<'_>, host: String, frame: Vec<u8>) -> PyResult<PyJourney> {
        let names = self.names();
        self.call(py, move |runner, world| {
            runner.host(&host)?;
            world.send(&host, frame).map(|journey| of_journey(&names, journey))
        })
    }

    /// Explains why a packet goes where it goes. Returns the answer to a question of the control socket, as JSON and as
    /// text.
    fn explain(&self, py: Python<'_>, question: &str) -> PyResult<(String, String)> {
        let question: Explain = serde_json::from_str(question).map_err(|e| PyValueError::new_err(e.to_string()))?;
        self.call(py, move |_, world| {
            let answer = world.explain(&question)?;
            Ok((answer.to_string(), to_text(&answer, world.names())))
        })
    }

    /// Returns the names of the switches, and their datapath ids.
    fn switches(&self) -> Vec<(String, u64)> {
        self.0.topology().switches.iter().map(|switch| (switch.name.clone(), switch.dpid.0)).collect()
    }

    /// Returns the hosts and where they are now.
    fn hosts(&self, py: Python<'_>) -> PyResult<Vec<PyHost>> {
        let names = self.names();
        self.call(py, move |_, world| {
            let one = |host: &maple_emulator::Host| {
                let spec = host.spec();
                let mac = mac_text(&spec.mac);
                let (ipv4, ipv6) = (spec.ipv4.to_string(), spec.ipv6.to_string());
                (spec.name.clone(), mac, ipv4, ipv6, names.switch_name(spec.switch), spec.port.0)
            };
            Ok(world.network().hosts().map(one).collect())
        })
    }

    /// Returns the links as they are now.
    fn links(&self, py: Python<'_>) -> PyResult<Vec<PyLink>> {
        let names = self.names();
        self.call(py, move |_, world| {
            let one = |link: &maple_emulator::emulated::Link| {
                let end = |(dpid, port): (Dpid, maple_wire::PortNo)| (names.switch_name(dpid), port.0);
                let spec = &link.spec;
                (end(spec.a), end(spec.b), link.up, spec.delay as f64 / 1e9, spec.loss, spec.rate)
            };
            Ok(world.network().links().iter().map(one).collect())
        })
    }

    /// Returns the trace tree of a switch as text.
    fn tree(&self, py: Python<'_>, switch: &str) -> PyResult<String> {
        let dpid = self.dpid(switch)?;
        self.call(py, move |_, world| Ok(world.tree(dpid)))
    }

    /// Returns the errors of the policy and the violated constraints, and the number of packets of each.
    fn errors(&self, py: Python<'_>) -> PyResult<Vec<(String, u64)>> {
        self.call(py, |_, world| {
            let failures = world.failures().into_iter().map(|(text, count)| (text.to_string(), count));
            let violations = world.violations().into_iter();
            let violations = violations.map(|((what, line), count)| (format!("{line}: violates {what}"), count));
            Ok(failures.chain(violations).collect())
        })
    }
}

/// Creates a place for a new network, with the tables, variables and costs of the network before.
fn with_users_state() -> Arc<Stage> {
    let mut users = host::store().snapshot().of_users();
    users.retain(|write| !snooping::is_learned(write));
    let store = Store::new();
    store.update(|_| users);
    Stage::from_store(store)
}

/// The place where the tables, variables and costs of one network live. A new one is empty.
#[pyclass(frozen, name = "Place", module = "maple._maple")]
pub struct PyPlace(pub Arc<Stage>);

#[pymethods]
impl PyPlace {
    #[new]
    fn new() -> PyPlace {
        PyPlace(Stage::from_store(Store::new()))
    }

    /// Returns the place where the tables of all threads live that have entered no other.
    #[staticmethod]
    fn current() -> PyPlace {
        PyPlace(host::current_place())
    }

    /// Returns a new place with the declared types and the costs of links of this one, and without what was written to
    /// tables.
    fn declarations(&self) -> PyPlace {
        let mut writes = self.0.store().snapshot().of_users();
        writes.retain(|write| !matches!(write, Write::Table { .. } | Write::Var { .. }));
        let store = Store::new();
        store.update(|_| writes);
        PyPlace(Stage::from_store(store))
    }

    /// Lets the tables of all threads that have entered no place live here.
    #[pyo3(name = "use")]
    fn make_current(&self) {
        host::use_place(Arc::clone(&self.0));
    }

    /// Lets the tables of this thread live here, until it leaves.
    fn enter(&self) {
        host::enter(Arc::clone(&self.0));
    }

    /// Ends what the last `enter` of this thread began.
    fn leave(&self) {
        host::leave();
    }
}

/// The names of switches.
#[derive(Clone)]
pub struct Names(Vec<(Dpid, String)>);

impl Names {
    pub fn switch_name(&self, dpid: Dpid) -> String {
        let found = self.0.iter().find(|(known, _)| *known == dpid);
        found.map_or_else(|| dpid.to_string(), |(_, name)| name.clone())
    }
}

impl PyLaboratory {
    /// Returns the laboratory.
    pub fn laboratory(&self) -> &Arc<Laboratory> {
        &self.0
    }

    /// Returns the names of the laboratory's switches.
    pub fn names(&self) -> Names {
        Names(self.0.topology().switches.iter().map(|switch| (switch.dpid, switch.name.clone())).collect())
    }
}

pub(crate) fn of_journey(names: &Names, journey: FrameFate) -> PyJourney {
    let copies = journey.copies.into_iter().map(|copy| {
        let hop = |hop: &maple_emulator::emulated::Hop| {
            (names.switch_name(hop.dpid), hop.in_port.0, hop.out_port.map(|port| port.0))
        };
        let (host, why) = match copy.end {
            Ok(host) => (Some(host), None),
            Err(why) => (None, Some(why)),
        };
        (copy.path.iter().map(hop).collect(), host, why, copy.frame)
    });
    (journey.frame, copies.collect())
}
