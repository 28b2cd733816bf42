//! Values derived from the topology: paths, floods, and resolved route plans.
//!
//! Each is a function of a snapshot, so nothing here is state. Results are remembered for the topology that the newest
//! snapshots share: a new flow over a known path costs a look-up, and all paths to a switch share one search. A change
//! of the topology drops the results that it may concern. Runs on an older snapshot compute their own.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use maple_wire::{Dpid, PortNo};
use rustc_hash::FxHashMap;

use super::{Cell, CellValue, Name, Snapshot, Txn, sync};
use crate::network::graph::{self, Distances, Graph};
use crate::network::{Hop, Location, PortInfo, Reduced, Scope};
use crate::route_plan::{Absence, OmittedPlace, Resolved, RouteError, RoutePlan, RouteTopology};

/// The moment at which something last changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LastChange {
    /// The commit that made the snapshot of this version.
    At(u64),
    /// Writes that are not committed.
    InDraft,
}

impl Default for LastChange {
    fn default() -> LastChange {
        LastChange::At(0)
    }
}

/// The cells that a value rests on, with the values that they had.
pub(super) type Inputs = Arc<[(Cell, CellValue)]>;

/// The remembered derived values.
#[derive(Debug, Default)]
pub(super) struct Derived {
    /// Values that depend on links alone.
    links: Mutex<RememberedValue>,
    /// Values that depend on links and edge ports.
    ports: Mutex<RememberedValue>,
}

#[derive(Debug, Default)]
struct RememberedValue {
    version: u64,
    values: FxHashMap<Cell, (CellValue, Inputs)>,
    distances: FxHashMap<(Dpid, Option<Name>, Option<Scope>), Arc<Distances>>,
}

impl RememberedValue {
    /// The maximum number of values, and of search results, that are remembered. Chosen: a bound on memory. Beyond it
    /// all are forgotten, and computed again.
    const MAX_RESULTS: usize = 1 << 17;

    /// Returns the results for this version, emptied first if they are of an older version or too many. `None` if they
    /// are of a newer version, or if `changed` is a draft.
    fn at(&mut self, changed: LastChange) -> Option<&mut RememberedValue> {
        let LastChange::At(version) = changed else { return None };
        if self.version < version
            || self.values.len() >= RememberedValue::MAX_RESULTS
            || self.distances.len() >= RememberedValue::MAX_RESULTS
        {
            *self = RememberedValue { version: self.version.max(version), ..RememberedValue::default() };
        }
        (self.version == version).then_some(self)
    }
}

impl Snapshot {
    /// Returns the value of a path, flood or route.
    pub(super) fn derive(&self, cell: &Cell) -> CellValue {
        self.derive_with_inputs(cell).0
    }

    /// Returns the value of a path, flood or route, and for a route the cells that it rests on.
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
            Cell::Path { from, to, costs, within } => {
                let distances = self.distances_to(*to, costs.as_ref(), within.as_ref());
                let hops = match within {
                    Some(scope) => {
                        let network = Reduced { network: self, scope };
                        graph::path_along(&network, *from, *to, costs.as_ref(), &distances)
                    }
                    None => graph::path_along(self, *from, *to, costs.as_ref(), &distances),
                };
                (CellValue::Hops(hops.map(Arc::from)), Inputs::default())
            }
            Cell::Flood(from, within) => {
                let hops = match within {
                    Some(scope) => graph::flood(&Reduced { network: self, scope }, *from),
                    None => graph::flood(self, *from),
                };
                (CellValue::Hops(Some(Arc::from(hops))), Inputs::default())
            }
            Cell::Route(plan) => self.resolve(plan),
            other => (other.evaluate(self), Inputs::default()),
        };
        if let Some(remembered) = sync::lock(of).at(changed) {
            remembered.values.insert(cell.clone(), made.clone());
        }
        made
    }

    /// Resolves the plan of a route.
    pub(crate) fn route(&self, plan: &RoutePlan) -> Result<Arc<Resolved>, RouteError> {
        match self.derive(&Cell::Route(plan.clone())) {
            CellValue::Route(resolved) => resolved,
            _ => Err(RouteError::NotAtIngress { ingress: plan.ingress() }),
        }
    }

    /// Returns the places that a route's plan leaves out because they are absent.
    pub(crate) fn left_out(&self, plan: &RoutePlan) -> Vec<OmittedPlace> {
        plan.left_out(|at| self.absence(at))
    }

    /// Returns the reason why a place is absent; `None` if it is present.
    pub(crate) fn absence(&self, at: Location) -> Option<Absence> {
        Absence::from_port(self.port(at), || self.ports_of(at.switch).map(|(port, _)| port).collect())
    }

    /// Resolves a plan. Returns the result, and the cells that it rests on.
    fn resolve(&self, plan: &RoutePlan) -> (CellValue, Inputs) {
        let mut txn = Txn::new(Arc::new(self.clone()));
        let resolved = CellValue::Route(plan.resolve(&mut txn).map(Arc::new));
        (resolved, txn.reads().map(|(cell, value)| (cell.clone(), value.clone())).collect())
    }

    fn distances_to(&self, to: Dpid, costs: Option<&Name>, within: Option<&Scope>) -> Arc<Distances> {
        let (key, changed) = ((to, costs.cloned(), within.cloned()), self.links_changed);
        let known = sync::lock(&self.derived.links).at(changed).and_then(|all| all.distances.get(&key).cloned());
        known.unwrap_or_else(|| {
            let made: Arc<BTreeMap<_, _>> = Arc::new(match within {
                Some(scope) => graph::distances_to(&Reduced { network: self, scope }, to, costs),
                None => graph::distances_to(self, to, costs),
            });
            if let Some(remembered) = sync::lock(&self.derived.links).at(changed) {
                remembered.distances.insert(key, Arc::clone(&made));
            }
            made
        })
    }
}

impl Graph for Snapshot {
    fn has_switch(&self, switch: Dpid) -> bool {
        self.shard_of(switch).is_some()
    }

    fn links_of(&self, switch: Dpid) -> impl Iterator<Item = (Location, Location)> {
        Snapshot::links_of(self, switch)
    }

    fn ports_of(&self, switch: Dpid) -> impl Iterator<Item = (PortNo, PortInfo)> {
        Snapshot::ports_of(self, switch)
    }

    fn cost(&self, costs: &Name, from: Location, to: Dpid) -> u64 {
        Snapshot::cost(self, costs, from, to)
    }
}

impl RouteTopology for Txn {
    fn flood(&mut self, from: Dpid, within: Option<&Scope>) -> Option<Arc<[Hop]>> {
        hops(self.read(Cell::Flood(from, within.and_then(Scope::of_ports_and_links))))
    }

    fn path(&mut self, from: Dpid, to: Dpid, costs: Option<&Name>, within: Option<&Scope>) -> Option<Arc<[Hop]>> {
        hops(self.read(Cell::Path { from, to, costs: costs.cloned(), within: within.and_then(Scope::of_links) }))
    }

    fn port(&mut self, at: Location) -> Option<PortInfo> {
        match self.read(Cell::Port(at)) {
            CellValue::Port(info) => info,
            _ => None,
        }
    }

    fn peer(&self, at: Location) -> Option<Location> {
        self.peek().peer(at)
    }

    fn ports_of(&self, switch: Dpid) -> Vec<PortNo> {
        self.peek().ports_of(switch).map(|(port, _)| port).collect()
    }
}

fn hops(value: CellValue) -> Option<Arc<[Hop]>> {
    match value {
        CellValue::Hops(hops) => hops,
        _ => None,
    }
}
