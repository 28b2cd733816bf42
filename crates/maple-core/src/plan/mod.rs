//! Plans: the part of a route that determines its hops, and what that resolves to in a network.

mod error;
mod limit;
mod resolved;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use maple_wire::{Dpid, PortNo};
use rustc_hash::FxHasher;

pub use error::{FRAME_BYTES, FrameError, MOST_FRAMES, RouteError};
pub use limit::{Limit, Meter, Unit};
pub use resolved::{Resolved, SwitchHops, Treatment, is_settable};

use crate::ids::Name;
use crate::network::{Hop, Location, PortInfo, PortKind, Scope};

/// What a plan asks of the network. Each answer is noted, unless stated otherwise, as the plan's hops depend on it.
pub(crate) trait Topology {
    /// The hops of a flood that starts at a switch, in a part of the network; `None` if the switch is not there.
    fn flood(&mut self, from: Dpid, within: Option<&Scope>) -> Option<Arc<[Hop]>>;

    /// The best path between two switches, by a link attribute or by hop count, in a part of the network; `None` if
    /// there is none.
    fn path(&mut self, from: Dpid, to: Dpid, weight: Option<&Name>, within: Option<&Scope>) -> Option<Arc<[Hop]>>;

    /// What is known of a port.
    fn port(&mut self, at: Location) -> Option<PortInfo>;

    /// The far end of a link that both ends know of. It follows from [`Topology::port`] of both, so it is not noted.
    fn peer(&self, at: Location) -> Option<Location>;

    /// The ports of a switch, for the text of an error. Not noted.
    fn ports_of(&self, switch: Dpid) -> Vec<PortNo>;
}

/// A route and where it begins: its hops depend on this and on the topology alone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Plan(Arc<PlanOf>);

/// Places to send the packet to, all with the same treatment.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(crate) struct Branch {
    pub flood: Flood,
    pub ports: BTreeSet<PortNo>,
    pub hops: BTreeSet<Hop>,
    pub path: Option<PathTo>,
    /// A copy goes there, from the switch of the route that is nearest.
    pub copy_to: Option<Location>,
    pub treatment: Treatment,
    /// The slice whose policy sends there: all hops are in it.
    pub within: Option<Scope>,
}

/// Whether a branch goes to all edge ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum Flood {
    /// It does not.
    #[default]
    No,
    /// Packets for reserved addresses don't, so a run asks its packet ([`crate::run::Run::with_floods`]). A plan has
    /// [`Flood::All`] in its place: its packets were asked.
    UnlessReserved,
    /// Whatever the packet is for.
    All,
}

impl Flood {
    /// Whether any packet goes to all edge ports.
    pub fn is_on(self) -> bool {
        self != Flood::No
    }
}

/// As a yes or no, since numbers of routes are hashes, and switches keep them from version to version.
impl Hash for Flood {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.is_on().hash(state);
    }
}

/// The best path to a port, as it is at the time.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PathTo {
    pub from: Dpid,
    pub to: Location,
    pub weight: Option<Name>,
    /// Over the links of this part of the network.
    pub within: Option<Scope>,
}

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
    /// The hash of the other fields.
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

impl Plan {
    /// The plan of a route with these branches for packets that enter at `ingress`.
    pub(crate) fn new(ingress: Dpid, branches: Vec<Branch>, meter: Option<Meter>) -> Plan {
        let mut hasher = FxHasher::default();
        (ingress, &branches, &meter).hash(&mut hasher);
        Plan(Arc::new(PlanOf { hash: hasher.finish(), ingress, branches, meter }))
    }
}

impl Plan {
    /// What it resolves to in a network.
    pub(crate) fn resolve(&self, topology: &mut impl Topology) -> Result<Resolved, RouteError> {
        self.0.resolve(topology)
    }

    /// The switch where its packets enter.
    pub(crate) fn ingress(&self) -> Dpid {
        self.0.ingress
    }

    /// Whether its packets go nowhere, in whatever network.
    pub(crate) fn sends_nowhere(&self) -> bool {
        self.0.branches.iter().all(|branch| branch.is_empty() && branch.path.is_none())
    }

    /// The meter that its packets pass there.
    pub(crate) fn meter(&self) -> Option<&Meter> {
        self.0.meter.as_ref()
    }
}

impl Branch {
    /// Whether it sends the packet nowhere.
    pub fn is_empty(&self) -> bool {
        !self.flood.is_on() && self.ports.is_empty() && self.hops.is_empty() && self.copy_to.is_none()
    }

    /// Checks that hops are in the slice whose policy gave them. Those of a flood always are.
    fn check(&self, hops: &[Hop], ingress: Dpid, topology: &mut impl Topology) -> Result<(), RouteError> {
        let Some(scope) = &self.within else { return Ok(()) };
        for hop in hops {
            if hop.port == PortNo::IN_PORT && hop.switch == ingress {
                continue;
            }
            match topology.port(hop.location()) {
                Some(info) if !scope.has(hop.location(), &info) => {
                    let is_link = matches!(info.kind, PortKind::Link(_));
                    return Err(RouteError::NotInSlice { hop: *hop, slice: scope.name().clone(), is_link });
                }
                _ => {}
            }
        }
        Ok(())
    }

    pub fn text(&self) -> String {
        let listed = |texts: Vec<String>| texts.join(", ");
        let mut parts = Vec::new();
        if self.flood.is_on() {
            parts.push("flood".to_owned());
        }
        if !self.ports.is_empty() {
            parts.push(format!("to {}", listed(self.ports.iter().map(ToString::to_string).collect())));
        }
        if !self.hops.is_empty() {
            let hop = |hop: &Hop| format!("{:x}:{}", hop.switch.0, hop.port);
            parts.push(format!("by {}", listed(self.hops.iter().map(hop).collect())));
        }
        parts.extend(self.copy_to.map(|at| format!("copy to {:x}:{}", at.switch.0, at.port)));
        parts.extend(Some(self.treatment.text()).filter(|text| !text.is_empty()));
        parts.join(" ")
    }
}

impl PathTo {
    /// The hop out of the network.
    pub fn last(&self) -> Hop {
        Hop::new(self.to.switch, self.to.port)
    }
}

impl fmt::Debug for PathTo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the path from {} to {}", self.from, self.to)?;
        self.weight.iter().try_for_each(|name| write!(f, " by {name:?}"))
    }
}

impl PlanOf {
    fn resolve(&self, topology: &mut impl Topology) -> Result<Resolved, RouteError> {
        let ingress = self.ingress;
        let hops = self.all_hops(topology)?;
        let mut resolved = Resolved { meter: self.meter.clone(), ..Resolved::default() };
        let mut queue = VecDeque::from([(ingress, None)]);
        let mut reached = BTreeSet::from([ingress]);
        if !hops.is_empty() && hops.keys().all(|hop| hop.switch != ingress) {
            return Err(RouteError::NotAtIngress { ingress });
        }
        while let Some((switch, arrives)) = queue.pop_front() {
            let mut here = SwitchHops { arrives, ..SwitchHops::default() };
            for (hop, (treatment, from_flood)) in of_switch(&hops, switch) {
                match look(*hop, switch == ingress, *from_flood, topology)? {
                    FarEnd::Nothing => {}
                    FarEnd::Hosts => {
                        if !here.edges.is_empty() && here.treatment != *treatment {
                            return Err(RouteError::MixedTreatment(switch));
                        }
                        here.treatment = treatment.clone();
                        here.edges.insert(hop.port);
                    }
                    FarEnd::Switch(far) => {
                        if !reached.insert(far.switch) {
                            return Err(RouteError::Loop(far.switch));
                        }
                        if of_switch(&hops, far.switch).next().is_none() {
                            return Err(RouteError::EndsAtLink { hop: *hop, next: far.switch });
                        }
                        here.links.insert(hop.port, far);
                        queue.push_back((far.switch, Some(far.port)));
                    }
                }
            }
            resolved.switches.insert(switch, here);
        }
        match hops.keys().find(|hop| !reached.contains(&hop.switch)) {
            Some(lost) => Err(RouteError::NotConnected(*lost)),
            None => Ok(resolved.pruned(ingress)),
        }
    }

    /// Every hop with its treatment, and whether it comes from the flood query (which has checked the ports).
    fn all_hops(&self, topology: &mut impl Topology) -> Result<BTreeMap<Hop, (Treatment, bool)>, RouteError> {
        let ingress = self.ingress;
        let mut all = BTreeMap::new();
        for branch in &self.branches {
            if branch.flood.is_on()
                && let Some(hops) = topology.flood(ingress, branch.within.as_ref())
            {
                all.extend(hops.iter().map(|hop| (*hop, (branch.treatment.clone(), true))));
            }
            let ports = branch.ports.iter().map(|port| Hop::new(ingress, *port));
            let mut hops: Vec<Hop> = ports.chain(branch.hops.iter().copied()).collect();
            if let Some(path) = &branch.path
                && let Some(found) =
                    topology.path(path.from, path.to.switch, path.weight.as_ref(), path.within.as_ref())
            {
                hops.extend(found.iter().copied().chain([path.last()]));
            }
            branch.check(&hops, ingress, topology)?;
            all.extend(hops.into_iter().map(|hop| (hop, (branch.treatment.clone(), false))));
        }
        for branch in &self.branches {
            if let Some(place) = branch.copy_to {
                branch.check(&[Hop::new(place.switch, place.port)], ingress, topology)?;
                let hops = self.way_to_copy(&all, place, branch.within.as_ref(), topology);
                all.extend(hops.into_iter().map(|hop| (hop, (branch.treatment.clone(), false))));
            }
        }
        Ok(all)
    }

    /// The hops that lead a copy from the route to a place; none if the route goes there anyway, or there is no path.
    ///
    /// They begin at the nearest switch of the route. A path from there meets no other switch of the route, as that one
    /// would be nearer. So the hops still form a tree.
    fn way_to_copy<T>(
        &self,
        all: &BTreeMap<Hop, T>,
        place: Location,
        within: Option<&Scope>,
        topology: &mut impl Topology,
    ) -> Vec<Hop> {
        let last = Hop::new(place.switch, place.port);
        let Some(info) = topology.port(place) else { return Vec::new() };
        if all.contains_key(&last) || info.kind != PortKind::Edge {
            return Vec::new();
        }
        let on_route: BTreeSet<Dpid> = all.keys().map(|hop| hop.switch).chain([self.ingress]).collect();
        let way = |from: &Dpid| topology.path(*from, place.switch, None, within);
        let nearest = on_route.iter().filter_map(way).min_by_key(|way| way.len());
        nearest.into_iter().flat_map(|way| way.iter().copied().chain([last]).collect::<Vec<_>>()).collect()
    }
}

/// The hops that leave a switch.
fn of_switch<T>(hops: &BTreeMap<Hop, T>, switch: Dpid) -> impl Iterator<Item = (&Hop, &T)> {
    hops.range(Hop::new(switch, PortNo(0))..=Hop::new(switch, PortNo(u32::MAX)))
}

/// What is behind a hop's port.
enum FarEnd {
    Nothing,
    Hosts,
    Switch(Location),
}

fn look(hop: Hop, is_ingress: bool, from_flood: bool, topology: &mut impl Topology) -> Result<FarEnd, RouteError> {
    let at = hop.location();
    if hop.port == PortNo::IN_PORT && is_ingress {
        return Ok(FarEnd::Hosts);
    }
    if from_flood && topology.peer(at).is_none() {
        return Ok(FarEnd::Hosts);
    }
    let Some(info) = topology.port(at) else {
        let ports = topology.ports_of(hop.switch);
        return Err(RouteError::NoSuchPort { hop, ports });
    };
    match info.kind {
        PortKind::New | PortKind::Shared { .. } => Ok(FarEnd::Nothing),
        PortKind::Edge | PortKind::Middlebox => Ok(FarEnd::Hosts),
        PortKind::Link(far) => {
            topology.port(far);
            Ok(topology.peer(at).map_or(FarEnd::Nothing, FarEnd::Switch))
        }
    }
}
