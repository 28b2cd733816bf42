//! Leaves that are withdrawn on request.

use std::collections::BTreeSet;

use maple_wire::Constraint;
use serde::{Deserialize, Serialize};

use super::Cell;
use crate::ids::LeafId;
use crate::network::{Location, Mac};

/// The leaves to withdraw (the paper's `invalidate`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LeafSelection {
    /// All leaves.
    All,
    /// Leaves whose packets can have all of these field values.
    Fields(Vec<Constraint>),
    /// Leaves whose packets can come from or go to this host.
    Host(Mac),
    /// Leaves whose packets come in by this port or whose route leaves by it.
    Port(Location),
    /// Leaves that read this cell.
    Cell(Cell),
    /// A set of leaves, by their ids.
    Leaves(BTreeSet<LeafId>),
}
