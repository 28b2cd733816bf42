//! The parts of compositions of policies.

use std::sync::Arc;

use maple_core::route::Route;
use pyo3::prelude::*;

/// A part of a composition of policies.
#[derive(Clone)]
pub enum Part {
    /// A function of packet and network.
    Function(Arc<Py<PyAny>>),
    /// A function of packet, route and network: a constraint of the user's own.
    Constraint(Arc<Py<PyAny>>),
    /// A route for all packets.
    Route(Route),
}
