//! `maple._maple`: Python policies on Maple's engine.
//!
//! Only this crate knows the interpreter and its lock. The lock is taken once for a batch of packets that miss
//! ([`policy`]), and never for packets that the tables or the tree answer. For [`handler`]s it is taken once for each
//! read.

mod policy;

mod current;
mod error_text;
mod interrupt;
mod snoop;
mod source;
mod thread;

mod assertion;
mod field;
mod frame;
mod kind;
mod packet;
mod spelling;

mod address;
mod link_costs;
mod net;
mod paths;
mod query;
mod route;
mod state;
mod transaction;
mod types;
mod value;

mod compose;
#[cfg(feature = "bench")]
mod filters;
mod guard;
mod handler;
mod listen;
mod policy_part;
mod slices;

mod command;
mod host;
mod laboratory;
mod measured_load;
mod start;
mod test_kit;
mod testing;

use maple_heap::Heap;

/// The allocator of Rust code. The interpreter uses its own.
#[global_allocator]
static HEAP: Heap = Heap;

/// Python policies on Maple's engine; use it through the package `maple`.
#[pyo3::pymodule]
mod _maple {
    use pyo3::prelude::*;
    use pyo3::types::PyFrozenSet;

    #[pymodule_export]
    use crate::address::{Ip, Mac, Prefix};
    #[pymodule_export]
    use crate::command::main;
    #[pymodule_export]
    use crate::compose::PyComposition;
    #[pymodule_export]
    use crate::current::keeps_output_back;
    #[pymodule_export]
    use crate::field::FieldRef;
    #[pymodule_export]
    use crate::frame::{frame, test_frame};
    #[pymodule_export]
    use crate::guard::{PyConstraint, PyRouteView};
    #[pymodule_export]
    use crate::handler::{
        Action, Barrier, HandlerBench, PyAggregateStats, PyBand, PyBucket, PyFlowMod, PyFlowRemoved, PyFlowStats,
        PyGroupDesc, PyGroupMod, PyGroupStats, PyHandler, PyMatch, PyMeterConfig, PyMeterMod, PyMeterStats, PyPacketIn,
        PyPacketOut, PyPort, PyPortStats, PyQueueStats, PyStats, PyStatsRequest, PySwitch, PyTableStats, SwitchError,
    };
    #[pymodule_export]
    use crate::interrupt::PolicyTimeout;
    #[pymodule_export]
    use crate::laboratory::{PyLaboratory, PyPlace};
    #[pymodule_export]
    use crate::link_costs::costs;
    #[pymodule_export]
    use crate::listen::{PyHeard, PyListener, listener_failed, port_counts, send_frame, traffic_counts};
    #[pymodule_export]
    use crate::measured_load::PyLoad;
    #[pymodule_export]
    use crate::net::PyNet;
    #[pymodule_export]
    use crate::packet::PyPacket;
    #[pymodule_export]
    use crate::paths::{PyParallelPaths, known_network};
    #[pymodule_export]
    use crate::query::Query;
    #[pymodule_export]
    use crate::route::{PyLimit, PyLocation, PyRoute, answer, drop, ecmp, flood, hops, multicast, pass_, to};
    #[pymodule_export]
    use crate::snoop::snoop;
    #[pymodule_export]
    use crate::state::{Counter, Table, Var};
    #[pymodule_export]
    use crate::test_kit::{
        decisions, deliver, examine, fields_of, introduce_hosts, is_the_controllers, observe, open_flow, received,
        summary, switch_power,
    };
    #[pymodule_export]
    use crate::testing::{Bench, Decision};
    #[pymodule_export]
    use crate::transaction::{Retry, atomically, or_else, retry, settled};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::address::accept_fields(crate::field::AS_ADDRESSES);
        // An attribute, and no name that the module exports: the stub is that of releases.
        #[cfg(feature = "bench")]
        module.setattr("_bench", wrap_pyfunction!(crate::filters::bench, module)?)?;
        module.add("FIELDS", PyFrozenSet::new(module.py(), crate::packet::FIELDS)?)
    }
}
