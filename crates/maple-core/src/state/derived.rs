//! What follows from the topology: paths, floods, and what routes come to.
//!
//! Each is a function of a snapshot, so nothing here is state. It is remembered for the topology that the newest snapshots
//! share: a new flow over a known path costs a look-up, and all paths to a switch share one search. A change of the topology
//! empties what it may concern; runs on an older snapshot compute for themselves.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use maple_wire::Dpid;
use rustc_hash::FxHashMap;

use super::{Cell, CellValue, Name, Snapshot, sync};
use crate::network::graph::{self, Distances};

/// When something last changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Changed {
    /// In the snapshot of this version.
    At(u64),
    /// By writes that are not committed.
    InDraft,
}

impl Default for Changed {
    fn default() -> Changed {
        Changed::At(0)
    }
}

/// The cells that a value was made of, with the values that they had.
pub(super) type Inputs = Arc<[(Cell, CellValue)]>;

/// What was derived.
#[derive(Debug, Default)]
pub(super) struct Derived {
    /// Of links alone.
    links: Mutex<Remembered>,
    /// Of links and edge ports.
    ports: Mutex<Remembered>,
}

#[derive(Debug, Default)]
struct Remembered {
    version: u64,
    values: FxHashMap<Cell, (CellValue, Inputs)>,
    distances: FxHashMap<(Dpid, Option<Name>), Arc<Distances>>,
}

impl Remembered {
    /// Values that are remembered at most.
    const MOST: usize = 1 << 17;

    /// Itself, if it is about this version or may become so.
    fn at(&mut self, changed: Changed) -> Option<&mut Remembered> {
        let Changed::At(version) = changed else { return None };
        if self.version < version || self.values.len() >= Remembered::MOST || self.distances.len() >= Remembered::MOST {
            *self = Remembered { version: self.version.max(version), ..Remembered::default() };
        }
        (self.version == version).then_some(self)
    }
}

impl Snapshot {
    /// The value of a path, flood or route.
    pub(super) fn derive(&self, cell: &Cell) -> CellValue {
        self.derive_with_inputs(cell).0
    }

    /// The same, and for a route what it was made of.
    pub(super) fn derive_with_inputs(&self, cell: &Cell) -> (CellValue, Inputs) {
        let (of, changed) = match cell {
            Cell::Path { .. } => (&self.derived.links, self.links_changed),
            _ => (&self.derived.ports, self.ports_changed),
        };
        let known = sync::lock(of).at(changed).and_then(|remembered| remembered.values.get(cell).cloned());
        if let Some(known) = known {
            return known;
        }
        let made = match cell {
            Cell::Path { from, to, weight } => {
                let distances = self.distances_to(*to, weight.as_ref());
                let hops = graph::path_along(self, *from, *to, weight.as_ref(), &distances);
                (CellValue::Hops(hops.map(Arc::from)), Inputs::default())
            }
            Cell::Flood(from) => (CellValue::Hops(Some(Arc::from(graph::flood(self, *from)))), Inputs::default()),
            Cell::Route(plan) => plan.resolve(self),
            other => (other.evaluate(self), Inputs::default()),
        };
        if let Some(remembered) = sync::lock(of).at(changed) {
            remembered.values.insert(cell.clone(), made.clone());
        }
        made
    }

    fn distances_to(&self, to: Dpid, weight: Option<&Name>) -> Arc<Distances> {
        let (key, changed) = ((to, weight.cloned()), self.links_changed);
        let known = sync::lock(&self.derived.links).at(changed).and_then(|all| all.distances.get(&key).cloned());
        known.unwrap_or_else(|| {
            let made: Arc<BTreeMap<_, _>> = Arc::new(graph::distances_to(self, to, weight));
            if let Some(remembered) = sync::lock(&self.derived.links).at(changed) {
                remembered.distances.insert(key, Arc::clone(&made));
            }
            made
        })
    }
}
