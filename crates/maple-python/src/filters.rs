//! `maple bench rules --lang python`: filter sets interpreted by a Python function (`maple._filters`).
//!
//! The function asks an ordinary `pkt`, with one difference: this packet is an abstract header, which has ports
//! whatever its protocol.

use std::error::Error;
use std::rc::Rc;
use std::sync::Arc;

use maple_bench::{FilterPolicy, FilterSet, FiveTuple, OtherLanguage, Ranges};
use maple_core::run::Run;
use maple_core::state::Store;
use maple_core::{Replay, Trace};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyRange};

use crate::current::Entered;
use crate::packet::PyPacket;

type Failure = Box<dyn Error + Send + Sync>;

/// Makes policies that interpret a filter set by a Python function.
pub struct PythonFilters;

/// A function that interprets a filter set.
struct PythonPolicy {
    function: Py<PyAny>,
    store: Arc<Store>,
}

impl OtherLanguage for PythonFilters {
    fn filter_policy(&self, set: &FilterSet, ranges: Ranges) -> Result<Box<dyn FilterPolicy>, Failure> {
        Python::attach(|py| {
            let filters = set.filters.iter().map(|filter| conditions(py, filter, ranges));
            let filters = filters.collect::<PyResult<Vec<_>>>()?;
            let function = py.import("maple._filters")?.getattr("interpreter")?.call1((filters,))?.unbind();
            Ok(Box::new(PythonPolicy { function, store: Store::new() }) as Box<dyn FilterPolicy>)
        })
    }
}

impl FilterPolicy for PythonPolicy {
    fn run(&mut self, header: &FiveTuple, replay: &mut Replay<'_>) -> Result<Option<usize>, Failure> {
        let (filter, trace) = self.record(header)?;
        replay.observe(header, &trace);
        Ok(filter)
    }

    fn run_alone(&mut self, header: &FiveTuple) -> Result<Option<usize>, Failure> {
        self.record(header).map(|(filter, _)| filter)
    }
}

impl PythonPolicy {
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
