//! Plans: what of a route its hops come from, and what that comes to in a state of the network.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use maple_wire::{Dpid, PortNo};
use rustc_hash::FxHasher;

use super::{Branch, Meter, Part, Resolved, RouteError, Treatment};
use crate::network::{Hop, Location, PortKind};
use crate::state::{Cell, CellValue, Snapshot, Txn};

/// A route and where it begins: what its hops come to depends on nothing else but the topology.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Plan(Arc<PlanOf>);

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hops: Vec<Hop> = self.0.branches.iter().flat_map(|branch| branch.hops.iter().copied()).collect();
        write!(f, "from {} by {hops:?}", self.0.ingress)?;
        let mut paths = self.0.branches.iter().filter_map(|branch| branch.path.as_ref());
        paths.try_for_each(|path| write!(f, ", {path:?}"))
    }
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct PlanOf {
    /// Of the rest.
    hash: u64,
    ingress: Dpid,
    branches: Vec<Branch>,
    meter: Option<Meter>,
}

impl Hash for Plan {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash.hash(state);
    }
}

/// Where a packet goes: f's answer, as far as it lasts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Goal {
    /// Wherever the plan leads, as the topology changes.
    Plan(Plan),
    /// Just there: the packet's headers have a part in it.
    Fixed(Arc<Resolved>),
}

impl Goal {
    /// The meter that packets pass where they enter.
    pub fn meter(&self) -> Option<&Meter> {
        match self {
            Goal::Plan(plan) => plan.0.meter.as_ref(),
            Goal::Fixed(resolved) => resolved.meter.as_ref(),
        }
    }

    /// What it comes to in a state.
    pub fn now(&self, state: &Snapshot) -> Result<Arc<Resolved>, RouteError> {
        match self {
            Goal::Plan(plan) => plan.now(state),
            Goal::Fixed(resolved) => Ok(Arc::clone(resolved)),
        }
    }
}

impl Plan {
    /// The plan of a route with these branches for packets that enter at `ingress`.
    pub(super) fn new(ingress: Dpid, branches: Vec<Branch>, meter: Option<Meter>) -> Plan {
        let mut hasher = FxHasher::default();
        (ingress, &branches, &meter).hash(&mut hasher);
        Plan(Arc::new(PlanOf { hash: hasher.finish(), ingress, branches, meter }))
    }

    /// What it comes to in a state.
    pub(crate) fn now(&self, state: &Snapshot) -> Result<Arc<Resolved>, RouteError> {
        match Cell::Route(self.clone()).evaluate(state) {
            CellValue::Route(resolved) => resolved,
            _ => Err(RouteError::NotAtIngress { ingress: self.0.ingress }),
        }
    }

    /// What it comes to in a state, and the cells that this rests on.
    pub(crate) fn resolve(&self, state: &Snapshot) -> (CellValue, Arc<[(Cell, CellValue)]>) {
        let mut txn = Txn::new(Arc::new(state.clone()));
        let resolved = CellValue::Route(self.0.resolve(&mut txn).map(Arc::new));
        (resolved, txn.reads().map(|(cell, value)| (cell.clone(), value.clone())).collect())
    }
}

impl PlanOf {
    fn resolve(&self, txn: &mut Txn) -> Result<Resolved, RouteError> {
        let ingress = self.ingress;
        let hops = self.all_hops(txn);
        let mut resolved = Resolved { meter: self.meter.clone(), ..Resolved::default() };
        let mut queue = VecDeque::from([(ingress, None)]);
        let mut reached = BTreeSet::from([ingress]);
        if !hops.is_empty() && hops.keys().all(|hop| hop.switch != ingress) {
            return Err(RouteError::NotAtIngress { ingress });
        }
        while let Some((switch, arrives)) = queue.pop_front() {
            let mut part = Part { arrives, ..Part::default() };
            for (hop, (treatment, from_flood)) in of_switch(&hops, switch) {
                match look(*hop, switch == ingress, *from_flood, txn)? {
                    Behind::Nothing => {}
                    Behind::Hosts => {
                        if !part.edges.is_empty() && part.treatment != *treatment {
                            return Err(RouteError::MixedTreatment(switch));
                        }
                        part.treatment = treatment.clone();
                        part.edges.insert(hop.port);
                    }
                    Behind::Switch(far) => {
                        if !reached.insert(far.switch) {
                            return Err(RouteError::Loop(far.switch));
                        }
                        if of_switch(&hops, far.switch).next().is_none() {
                            return Err(RouteError::EndsAtLink { hop: *hop, next: far.switch });
                        }
                        part.links.insert(hop.port, far);
                        queue.push_back((far.switch, Some(far.port)));
                    }
                }
            }
            resolved.parts.insert(switch, part);
        }
        match hops.keys().find(|hop| !reached.contains(&hop.switch)) {
            Some(lost) => Err(RouteError::NotConnected(*lost)),
            None => Ok(resolved.pruned(ingress)),
        }
    }

    /// Every hop with its treatment, and whether it comes from the flood query (which has looked at the ports).
    fn all_hops(&self, txn: &mut Txn) -> BTreeMap<Hop, (Treatment, bool)> {
        let ingress = self.ingress;
        let mut all = BTreeMap::new();
        for branch in &self.branches {
            if branch.flood
                && let CellValue::Hops(Some(hops)) = txn.read(Cell::Flood(ingress))
            {
                all.extend(hops.iter().map(|hop| (*hop, (branch.treatment.clone(), true))));
            }
            let ports = branch.ports.iter().map(|port| Hop::new(ingress, *port));
            let mut hops: Vec<Hop> = ports.chain(branch.hops.iter().copied()).collect();
            if let Some(path) = &branch.path
                && let CellValue::Hops(Some(found)) = txn.read(path.cell())
            {
                hops.extend(found.iter().copied().chain([path.last()]));
            }
            all.extend(hops.into_iter().map(|hop| (hop, (branch.treatment.clone(), false))));
        }
        for branch in &self.branches {
            if let Some(place) = branch.copy_to {
                let hops = self.way_to_copy(&all, place, txn);
                all.extend(hops.into_iter().map(|hop| (hop, (branch.treatment.clone(), false))));
            }
        }
        all
    }

    /// The hops that lead a copy from the route to a place; none where it passes there anyway, or there is no way.
    ///
    /// They begin at the switch of the route that is nearest: a way from there meets no other switch of the route, as that
    /// would be nearer. So what was a tree stays one.
    fn way_to_copy<T>(&self, all: &BTreeMap<Hop, T>, place: Location, txn: &mut Txn) -> Vec<Hop> {
        let last = Hop::new(place.switch, place.port);
        let CellValue::Port(Some(info)) = txn.read(Cell::Port(place)) else { return Vec::new() };
        if all.contains_key(&last) || info.kind != PortKind::Edge {
            return Vec::new();
        }
        let on_route: BTreeSet<Dpid> = all.keys().map(|hop| hop.switch).chain([self.ingress]).collect();
        let way = |from: &Dpid| match txn.read(Cell::Path { from: *from, to: place.switch, weight: None }) {
            CellValue::Hops(Some(found)) => Some(found),
            _ => None,
        };
        let nearest = on_route.iter().filter_map(way).min_by_key(|way| way.len());
        nearest.into_iter().flat_map(|way| way.iter().copied().chain([last]).collect::<Vec<_>>()).collect()
    }
}

/// The hops that leave a switch.
fn of_switch<T>(hops: &BTreeMap<Hop, T>, switch: Dpid) -> impl Iterator<Item = (&Hop, &T)> {
    hops.range(Hop::new(switch, PortNo(0))..=Hop::new(switch, PortNo(u32::MAX)))
}

/// What is behind a hop's port.
enum Behind {
    Nothing,
    Hosts,
    Switch(Location),
}

fn look(hop: Hop, is_ingress: bool, from_flood: bool, txn: &mut Txn) -> Result<Behind, RouteError> {
    let at = hop.location();
    if hop.port == PortNo::IN_PORT && is_ingress {
        return Ok(Behind::Hosts);
    }
    if from_flood && txn.peek().peer(at).is_none() {
        return Ok(Behind::Hosts);
    }
    let CellValue::Port(Some(info)) = txn.read(Cell::Port(at)) else {
        let ports = txn.peek().ports_of(hop.switch).map(|(port, _)| port).collect();
        return Err(RouteError::NoSuchPort { hop, ports });
    };
    match info.kind {
        PortKind::New | PortKind::Shared { .. } => Ok(Behind::Nothing),
        PortKind::Edge | PortKind::Middlebox => Ok(Behind::Hosts),
        PortKind::Link(far) => {
            txn.read(Cell::Port(far));
            Ok(txn.peek().peer(at).map_or(Behind::Nothing, Behind::Switch))
        }
    }
}
