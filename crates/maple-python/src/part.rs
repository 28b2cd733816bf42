//! What compositions of policies are made of.

use std::sync::Arc;

use maple_core::route::Route;
use pyo3::prelude::*;

/// A policy that compositions are made of.
#[derive(Clone)]
pub enum Part {
    /// A function of packet and network.
    Function(Arc<Py<PyAny>>),
    /// A function of packet, route and network: an own constraint.
    Constraint(Arc<Py<PyAny>>),
    /// The same route for all packets.
    Route(Route),
}
