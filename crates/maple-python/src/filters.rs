//! `bench/rules/python.py`: filter sets interpreted by a Python function (feature `bench`, which no release has).
//!
//! The function asks an ordinary `pkt`, with one difference: this packet is an abstract header, which has ports
//! whatever its protocol.

use std::error::Error;
use std::ffi::OsString;
use std::rc::Rc;
use std::sync::Arc;

use maple_bench::{FilterPolicy, FilterSet, FiveTuple, Language, Ranges};
use maple_core::run::Run;
use maple_core::state::Store;
use maple_core::{Replay, Trace};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyRange};

use crate::current::Entered;
use crate::packet::PyPacket;

type Failure = Box<dyn Error + Send + Sync>;

/// Runs `maple-bench` with policies in Python, which `interpreter` makes of conditions; without one with policies in
/// Rust. Returns the exit status.
#[pyfunction]
#[pyo3(name = "_bench", signature = (arguments, interpreter))]
pub fn bench(py: Python<'_>, arguments: Vec<OsString>, interpreter: Option<Py<PyAny>>) -> u8 {
    py.detach(|| match interpreter {
        Some(interpreter) => maple_bench::main(arguments, &PythonFilters { interpreter }),
        None => maple_bench::main(arguments, &maple_bench::Rust),
    })
}

/// Makes policies that interpret a filter set by a Python function.
struct PythonFilters {
    interpreter: Py<PyAny>,
}

/// A function that interprets a filter set.
struct FilterFunction {
    function: Py<PyAny>,
    store: Arc<Store>,
}

impl Language for PythonFilters {
    fn filter_policy(&self, set: &FilterSet, ranges: Ranges) -> Result<Box<dyn FilterPolicy>, Failure> {
        Python::attach(|py| {
            let filters = set.filters.iter().map(|filter| conditions(py, filter, ranges));
            let filters = filters.collect::<PyResult<Vec<_>>>()?;
            let function = self.interpreter.bind(py).call1((filters,))?.unbind();
            Ok(Box::new(FilterFunction { function, store: Store::new() }) as Box<dyn FilterPolicy>)
        })
    }
}

impl FilterPolicy for FilterFunction {
    fn run(&mut self, header: &FiveTuple, replay: &mut Replay<'_>) -> Result<Option<usize>, Failure> {
        let (filter, trace) = self.record(header)?;
        replay.observe(header, &trace);
        Ok(filter)
    }

    fn run_alone(&mut self, header: &FiveTuple) -> Result<Option<usize>, Failure> {
        self.record(header).map(|(filter, _)| filter)
    }
}

impl FilterFunction {
    /// Runs the function, and returns what it observed.
    fn record(&self, header: &FiveTuple) -> Result<(Option<usize>, Trace), Failure> {
        let run = Run::of_headers(Rc::new(*header), self.store.begin());
        let filter = Python::attach(|py| {
            let entered = Entered::new(run.packet(), run.net());
            self.function.bind(py).call1((PyPacket::new(entered.ticket()),))?.extract::<Option<usize>>()
        })?;
        let finished = run.finish().ok_or("the run ended early")?;
        Ok((filter, finished.trace))
    }
}

/// A port field, and the range that the policy compares its value with.
type PortRead = (&'static str, u16, u16);

/// Returns a filter as arguments of `pkt.matches`, and the ports to read and compare where these hold.
fn conditions<'py>(
    py: Python<'py>,
    filter: &maple_bench::Filter,
    ranges: Ranges,
) -> PyResult<(Bound<'py, PyDict>, Vec<PortRead>)> {
    let (asked, mut reads) = (PyDict::new(py), Vec::new());
    if let Some(proto) = filter.proto {
        asked.set_item("ip_proto", proto)?;
    }
    for (name, prefix) in [("ipv4_src", filter.src), ("ipv4_dst", filter.dst)] {
        if prefix.length > 0 {
            let text = format!("{}/{}", std::net::Ipv4Addr::from(prefix.address), prefix.length);
            asked.set_item(name, py.import("maple")?.getattr("Prefix")?.call1((text,))?)?;
        }
    }
    for (name, ports) in [("tcp_src", filter.src_ports), ("tcp_dst", filter.dst_ports)] {
        match ranges {
            _ if ports.is_all() => {}
            _ if ports.lo == ports.hi => asked.set_item(name, ports.lo)?,
            Ranges::Auto => {
                asked.set_item(name, PyRange::new(py, ports.lo as isize, ports.hi as isize + 1)?)?;
            }
            Ranges::Exact => reads.push((name, ports.lo, ports.hi)),
        }
    }
    Ok((asked, reads))
}
