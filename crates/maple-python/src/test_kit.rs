//! The functions of a laboratory that the test kit uses. `maple.testing` presents their results.

use std::sync::Arc;
use std::time::Duration;

use maple_controller::discovery::{self, Key, ParsedProbe, Probe};
use maple_controller::snoop::QUERIER_MAC;
use maple_core::check::{Claim, Counterexample, Examined, Host, PacketScope, ScopedClaim};
use maple_core::network::PROBE_MAC;
use maple_core::network::{Location, Mac};
use maple_core::state::Snapshot;
use maple_core::trace::{Cond, Source};
use maple_emulator::emulated::{Delivery, Outcome};
use maple_emulator::host::{FlowKind, Progress};
use maple_emulator::time::SECOND;
use maple_lab::Laboratory;
use maple_wire::{Dpid, Field, Packet, PortNo};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::assertion::condition;
use crate::host::laboratory_error;
use crate::kind::{FieldKind, from_raw};
use crate::laboratory::{Names, PyJourney, PyLaboratory, PyPlace, of_journey};
use crate::policy::PythonPolicy;

/// A test of the policy: file, line, text, the number of times it failed, the number of times it held.
type PyTest = (String, u32, String, u64, u64);
/// A line of the policy: file, line, the number of times it was reached.
type PyLine = (String, u32, u64);
/// A frame that a host got, and the switches of its path.
type PyReceived = (Vec<u8>, Vec<String>);
/// A counterexample: the frame, its switch and port, how it contradicts the claim, and each policy's observations, line
/// by line.
type PyCounterexample = (Vec<u8>, String, u32, String, Vec<String>, Vec<String>);
/// The result of a check: the counterexample, packets tried, distinct traces, and why the runs are not a proof.
type PyExamined = (Option<PyCounterexample>, u64, u64, Option<String>);
/// The observations of a run: questions and answers, line by line; the file and line of the route; whether it drops the
/// packet; the error if it failed.
type PyObserved = (Vec<String>, Option<(String, u32)>, bool, Option<String>);

/// Makes all hosts announce themselves.
#[pyfunction]
pub fn introduce_hosts(py: Python<'_>, laboratory: &PyLaboratory) -> PyResult<()> {
    laboratory.call(py, |_, world| world.introduce_hosts())?;
    laboratory.laboratory().forget_decisions();
    Ok(())
}

/// Sends a frame from a host; returns when all copies have come out.
#[pyfunction]
pub fn deliver(py: Python<'_>, laboratory: &PyLaboratory, host: String, frame: Vec<u8>) -> PyResult<PyJourney> {
    let names = laboratory.names();
    laboratory.call(py, move |runner, world| {
        runner.host(&host)?;
        world.deliver(&host, frame).map(|journey| of_journey(&names, journey))
    })
}

/// Returns the fields of a frame, by name.
#[pyfunction]
pub fn fields_of<'py>(py: Python<'py>, frame: &[u8]) -> PyResult<Bound<'py, PyDict>> {
    let packet = Packet::new(frame, 0);
    let fields = PyDict::new(py);
    for field in Field::ALL {
        if !matches!(field, Field::InPort | Field::InPhyPort)
            && let Some(value) = packet.get(field).and_then(|raw| from_raw(field, raw))
        {
            fields.set_item(field.name(), FieldKind::from_field(field).to_python(py, value)?)?;
        }
    }
    Ok(fields)
}

/// Returns a frame in one line, for people.
#[pyfunction]
pub fn summary(frame: &[u8]) -> String {
    maple_wire::packet::text::summary(&Packet::new(frame, 0))
}

/// Reports whether a frame that a host got is the controller's own, and not the policy's. It may be a probe of
/// discovery, a question whether the host is still there, or a query for members of groups.
#[pyfunction]
pub fn is_the_controllers(frame: &[u8]) -> bool {
    // Any key serves here: a probe of Maple's under another key is still distinguished from other devices' LLDP.
    let is_probe = || !matches!(Probe::parse(Key([0; 16]), frame), ParsedProbe::Foreign);
    let sender = Packet::new(frame, 0).get(Field::EthSrc);
    let is_asking = || [PROBE_MAC, Mac(QUERIER_MAC)].iter().any(|mac| sender == Some(mac.bits()));
    discovery::is_probe(frame) && is_probe() || is_asking()
}

/// Returns the frames that a host got since a time, in nanoseconds; and the time now.
#[pyfunction]
pub fn received(
    py: Python<'_>,
    laboratory: &PyLaboratory,
    host: String,
    since: u64,
) -> PyResult<(Vec<PyReceived>, u64)> {
    let names = laboratory.names();
    laboratory.call(py, move |runner, world| {
        runner.host(&host)?;
        let log = world.network().log();
        let came = log.deliveries().filter(|delivery| {
            delivery.at >= since
                && matches!(&delivery.outcome, Outcome::Egress { host: Some(there), .. } if *there == host)
        });
        let via = |delivery: &Delivery| delivery.path.iter().map(|hop| names.switch_name(hop.dpid)).collect();
        let frames = came.map(|delivery| (delivery.frame.clone(), via(delivery))).collect();
        Ok((frames, world.now() + 1))
    })
}

/// Takes a switch down, with its ports and its connection, or up again.
#[pyfunction]
pub fn switch_power(py: Python<'_>, laboratory: &PyLaboratory, switch: String, on: bool) -> PyResult<()> {
    laboratory.call(py, move |runner, world| {
        let dpid = runner.switch(&switch)?;
        world.switch_power(dpid, on)
    })
}

/// Returns what the policy would do with a frame that enters at this place now.
#[pyfunction]
pub fn observe(
    py: Python<'_>,
    laboratory: &PyLaboratory,
    switch: u64,
    port: u32,
    frame: Vec<u8>,
) -> PyResult<PyObserved> {
    let laboratory = Arc::clone(laboratory.laboratory());
    let at = Location::new(Dpid(switch), PortNo(port));
    let run = py.detach(move || laboratory.observe(at, &frame));
    let place = run.made_at.as_ref().map(|Source { file, line, .. }| (file.to_string(), *line));
    let drops = run.answer.as_ref().is_ok_and(|route| route.switches.is_empty() && route.own.is_empty());
    Ok((run.lines(), place, drops, run.answer.as_ref().err().map(ToString::to_string)))
}

/// Returns what the policy has asked and answered so far: tests, lines, and the number of runs.
#[pyfunction]
pub fn decisions(laboratory: &PyLaboratory) -> (Vec<PyTest>, Vec<PyLine>, u64) {
    let decisions = laboratory.laboratory().decisions();
    let test = |((file, line, test), asked): (&(Arc<str>, u32, String), &maple_lab::TestCounts)| {
        (file.to_string(), *line, test.clone(), asked.no, asked.yes)
    };
    let tests = decisions.tests.iter().map(test).collect();
    let lines = decisions.lines.iter().map(|((file, line), count)| (file.to_string(), *line, *count)).collect();
    (tests, lines, decisions.runs)
}

/// Opens a connection, or sends a datagram, from one host to another. `None` if that worked, else why not.
#[pyfunction]
pub fn open_flow(
    py: Python<'_>,
    laboratory: &PyLaboratory,
    src: String,
    dst: String,
    kind: &str,
    port: u16,
    ipv6: bool,
) -> PyResult<Option<String>> {
    let kind = match kind {
        "tcp" => FlowKind::Tcp(port),
        "udp" => FlowKind::Udp(port),
        _ => return Err(PyValueError::new_err(format!("a flow is \"tcp\" or \"udp\", not {kind:?}"))),
    };
    laboratory.call(py, move |runner, world| {
        runner.host(&src)?;
        runner.host(&dst)?;
        Ok(match world.flow(&src, &dst, kind, ipv6, 10 * SECOND)? {
            Progress::Done => None,
            Progress::NoNeighbour => Some(format!("the address of {dst} was not resolved")),
            Progress::NoAnswer => Some(format!("{dst} does not answer")),
            Progress::Running => Some("it did not come to an end".to_owned()),
        })
    })
}

/// Looks for a packet that contradicts a claim: `never` (at these hosts), `arrives`, `no_loops` or `same_as`.
#[pyfunction]
#[pyo3(signature = (laboratory, claim, senders, receivers, only, except_, packets, other = None, time_limit = 1.0))]
#[allow(clippy::too_many_arguments, reason = "`maple.testing` is what people call")]
pub fn examine(
    py: Python<'_>,
    laboratory: &PyLaboratory,
    claim: &str,
    senders: Vec<String>,
    receivers: Vec<String>,
    only: &Bound<'_, PyDict>,
    except_: Vec<Bound<'_, PyDict>>,
    packets: u64,
    other: Option<(Bound<'_, PyAny>, PyRef<'_, PyPlace>)>,
    time_limit: f64,
) -> PyResult<PyExamined> {
    let inner = Arc::clone(laboratory.laboratory());
    let known = py.detach(|| inner.hosts()).map_err(laboratory_error)?;
    let except = except_.iter().map(condition).collect::<PyResult<Vec<Cond>>>()?;
    let mut scope = scope(&inner, &known, &senders, condition(only)?, except)?;
    let receivers = hosts(&known, &receivers)?;
    let state: Option<Arc<Snapshot>> = other.as_ref().map(|(_, place)| place.0.store().snapshot());
    let claim = match (claim, other) {
        ("never", _) => Claim::NeverAt(receivers.into_iter().map(|(_, info)| info.location).collect()),
        ("arrives", _) => {
            (scope.receivers, scope.is_addressed) = (Some(receivers), true);
            Claim::Arrives
        }
        ("no_loops", _) => Claim::NoLoops,
        ("same_as", Some((other, _))) => {
            let limit = Duration::try_from_secs_f64(time_limit);
            let limit = limit.map_err(|_| PyValueError::new_err("time_limit is a positive number of seconds"))?;
            Claim::SameAs(Arc::new(PythonPolicy::new(&other, limit)))
        }
        (claim, _) => return Err(PyValueError::new_err(format!("there is no claim {claim:?}, or it lacks a policy"))),
    };
    let question = ScopedClaim { scope, claim };
    let examined = py.detach(|| inner.examine(question, state.as_deref(), packets)).map_err(laboratory_error)?;
    Ok(of_examined(examined, &laboratory.names()))
}

fn of_examined(examined: Examined, names: &Names) -> PyExamined {
    let counterexample = examined.counterexample.map(|Counterexample { sample, why, lines, other, .. }| {
        (sample.frame.to_vec(), names.switch_name(sample.at.switch), sample.at.port.0, why, lines, other)
    });
    let open = examined.open.map(|open| open.to_string());
    (counterexample, examined.coverage.packets, examined.coverage.traces, open)
}

fn scope(
    laboratory: &Laboratory,
    known: &[(String, Host)],
    senders: &[String],
    only: Cond,
    except: Vec<Cond>,
) -> PyResult<PacketScope> {
    let destinations: Vec<Mac> = known.iter().map(|(_, (mac, _))| *mac).collect();
    let senders = hosts(known, senders)?;
    let by_address = laboratory.tracks_hosts();
    Ok(PacketScope { senders, by_address, only, except, destinations, ..PacketScope::default() })
}

fn hosts(known: &[(String, Host)], names: &[String]) -> PyResult<Vec<Host>> {
    let host = |name: &String| {
        let found = known.iter().find(|(known, _)| known == name).map(|(_, host)| host.clone());
        found.ok_or_else(|| PyValueError::new_err(format!("there is no host {name}")))
    };
    names.iter().map(host).collect()
}
