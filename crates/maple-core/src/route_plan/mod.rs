//! Plans: the part of a route that determines its hops, and its resolution in a network.

mod absent;
mod error;
mod limit;
mod resolved;

use std::cmp::Ordering;
use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use maple_wire::{Dpid, PortNo};
use rustc_hash::FxHasher;

pub use absent::{Absence, OmittedPlace};
pub use error::{FRAME_BYTES, FrameError, MAX_FRAMES, RouteError};
pub use limit::{Limit, Meter, Unit};
pub use resolved::{Resolved, SwitchHops, Treatment, is_settable};

use absent::Ways;

use crate::ids::Name;
use crate::network::{Hop, Location, PortInfo, PortKind, Scope};

/// A plan's questions about the network. Each answer is recorded, unless stated otherwise, because the plan's hops
/// depend on it.
pub(crate) trait RouteTopology {
    /// Returns the hops of a flood that starts at a switch, in a part of the network; `None` if the switch is not
    /// there.
    fn flood(&mut self, from: Dpid, within: Option<&Scope>) -> Option<Arc<[Hop]>>;

    /// Returns the best path between two switches, by a link attribute or by hop count, in a part of the network;
    /// `None` if there is none.
    fn path(&mut self, from: Dpid, to: Dpid, costs: Option<&Name>, within: Option<&Scope>) -> Option<Arc<[Hop]>>;

    /// Returns the information about a port; `None` if the port does not exist.
    fn port(&mut self, at: Location) -> Option<PortInfo>;

    /// Returns the far end of a link that both ends know of. It follows from [`RouteTopology::port`] of both, so it is
    /// not recorded.
    fn peer(&self, at: Location) -> Option<Location>;

    /// Returns the ports of a switch, for the text of an error. They are not recorded.
    fn ports_of(&self, switch: Dpid) -> Vec<PortNo>;
}

/// A route and the switch where it begins. Its hops depend on these and on the topology alone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RoutePlan(Arc<RoutePlanOf>);

/// Places to send the packet to, with one treatment for all.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(crate) struct Branch {
    pub flood: Flood,
    pub ports: BTreeSet<PortNo>,
    pub hops: BTreeSet<Hop>,
    pub path: Option<PathTo>,
    /// The place that gets a copy, from the nearest switch of the route.
    pub copy_to: Option<Location>,
    pub treatment: Treatment,
    /// The slice whose policy made the branch: all hops must be in it.
    pub within: Option<Scope>,
}

/// Whether a branch goes to all edge ports.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum Flood {
    /// The branch does not flood.
    #[default]
    No,
    /// Packets go to all edge ports unless they are for a reserved address, so a run asks its packet
    /// ([`crate::run::Run::with_floods`]). A plan has [`Flood::All`] instead, because its packets were asked.
    UnlessReserved,
    /// Packets go to all edge ports. A run asked its packet, which is not for a reserved address.
    Unreserved,
    /// All packets go to all edge ports.
    All,
}

impl Flood {
    /// Reports whether any packet goes to all edge ports.
    pub fn is_on(self) -> bool {
        self != Flood::No
    }

    /// Returns the place in the order. Whether the packet was asked makes no other route.
    fn rank(self) -> u8 {
        match self {
            Flood::No => 0,
            Flood::UnlessReserved | Flood::Unreserved => 1,
            Flood::All => 2,
        }
    }
}

impl PartialEq for Flood {
    fn eq(&self, other: &Flood) -> bool {
        self.rank() == other.rank()
    }
}

impl Eq for Flood {}

impl PartialOrd for Flood {
    fn partial_cmp(&self, other: &Flood) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Flood {
    fn cmp(&self, other: &Flood) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}

/// Hashes only whether the branch floods: routes have hashes as numbers, which switches keep across versions of Maple.
impl Hash for Flood {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.is_on().hash(state);
    }
}

/// The best path to a port, which changes with the network.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PathTo {
    pub from: Dpid,
    pub to: Location,
    pub costs: Option<Name>,
    /// The part of the network whose links the path may take; `None` for all links.
    pub within: Option<Scope>,
}

impl fmt::Debug for RoutePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hops: Vec<Hop> = self.0.branches.iter().flat_map(|branch| branch.hops.iter().copied()).collect();
        write!(f, "from {} by {hops:?}", self.0.ingress)?;
        let mut paths = self.0.branches.iter().filter_map(|branch| branch.path.as_ref());
        paths.try_for_each(|path| write!(f, ", {path:?}"))
    }
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct RoutePlanOf {
    /// The hash of the other fields.
    hash: u64,
    ingress: Dpid,
    branches: Vec<Branch>,
    /// Whether the plan resolves even if all its places are absent, as a multicast.
    is_multicast: bool,
    meter: Option<Meter>,
}

impl Hash for RoutePlan {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash.hash(state);
    }
}

impl RoutePlan {
    /// Creates the plan of a route with these branches for packets that enter at `ingress`. A multicast does not fail
    /// if all its places are absent.
    pub(crate) fn new(ingress: Dpid, branches: Vec<Branch>, is_multicast: bool, meter: Option<Meter>) -> RoutePlan {
        let mut hasher = FxHasher::default();
        (ingress, &branches, &meter).hash(&mut hasher);
        if is_multicast {
            is_multicast.hash(&mut hasher);
        }
        RoutePlan(Arc::new(RoutePlanOf { hash: hasher.finish(), ingress, branches, is_multicast, meter }))
    }
}

impl RoutePlan {
    /// Resolves the plan in a network.
    ///
    /// # Errors
    /// [`RouteError`] if the route can't be followed.
    pub(crate) fn resolve(&self, topology: &mut impl RouteTopology) -> Result<Resolved, RouteError> {
        self.0.resolve(topology)
    }

    /// Returns the switch where the plan's packets enter.
    pub(crate) fn ingress(&self) -> Dpid {
        self.0.ingress
    }

    /// Returns the places that the plan leaves out because they are absent. A hop may lead to another switch.
    pub(crate) fn left_out(&self, absence: impl Fn(Location) -> Option<Absence>) -> Vec<OmittedPlace> {
        let ingress = self.0.ingress;
        let mut all = Vec::new();
        for branch in &self.0.branches {
            let ports = branch.ports.iter().map(|port| Location::new(ingress, *port));
            let ends = ports.chain(branch.path.as_ref().map(|path| path.to)).chain(branch.copy_to);
            let hops = branch.hops.iter().map(|hop| hop.location());
            for (at, is_end) in ends.map(|at| (at, true)).chain(hops.map(|at| (at, false))) {
                let is_link_of_a_later_hop = |why: &Absence| !is_end && matches!(why, Absence::Link(_));
                let is_there = at == Location::new(ingress, PortNo::IN_PORT);
                all.extend(
                    absence(at)
                        .filter(|why| !is_there && !is_link_of_a_later_hop(why))
                        .map(|why| OmittedPlace { at, why }),
                );
            }
        }
        all.sort_unstable();
        all.dedup();
        all
    }

    /// Reports whether the plan's packets go nowhere, in any network.
    pub(crate) fn sends_nowhere(&self) -> bool {
        self.0.branches.iter().all(|branch| branch.is_empty() && branch.path.is_none())
    }

    /// Returns the meter that packets pass at the ingress.
    pub(crate) fn meter(&self) -> Option<&Meter> {
        self.0.meter.as_ref()
    }
}

impl Branch {
    /// Reports whether the branch sends the packet nowhere, apart from its path.
    pub fn is_empty(&self) -> bool {
        !self.flood.is_on() && self.ports.is_empty() && self.hops.is_empty() && self.copy_to.is_none()
    }

    /// Checks that hops are in the slice whose policy gave them. Those of a flood always are.
    ///
    /// # Errors
    /// [`RouteError::NotInSlice`] for the first hop that is not.
    fn check(
        &self,
        hops: impl IntoIterator<Item = Hop>,
        ingress: Dpid,
        topology: &mut impl RouteTopology,
    ) -> Result<(), RouteError> {
        let Some(scope) = &self.within else { return Ok(()) };
        for hop in hops {
            if hop.port == PortNo::IN_PORT && hop.switch == ingress {
                continue;
            }
            match topology.port(hop.location()) {
                Some(info) if !scope.has(hop.location(), &info) => {
                    let is_link = matches!(info.kind, PortKind::Link(_));
                    return Err(RouteError::NotInSlice { hop, slice: scope.name().clone(), is_link });
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
    /// Returns the hop that leaves the network.
    pub fn last(&self) -> Hop {
        Hop::new(self.to.switch, self.to.port)
    }

    fn end(&self) -> (Hop, HopName) {
        (self.last(), HopName::AsEnd)
    }
}

impl fmt::Debug for PathTo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the path from {} to {}", self.from, self.to)?;
        self.costs.iter().try_for_each(|name| write!(f, " by {name:?}"))
    }
}

impl RoutePlanOf {
    fn resolve(&self, topology: &mut impl RouteTopology) -> Result<Resolved, RouteError> {
        let ingress = self.ingress;
        let ways = self.ways(topology)?;
        let mut resolved = Resolved { meter: self.meter.clone(), ..Resolved::default() };
        let mut queue = VecDeque::from([(ingress, None)]);
        let mut reached = BTreeSet::from([ingress]);
        if !ways.is_empty() && ways.keys().all(|hop| hop.switch != ingress) {
            return Err(RouteError::NotAtIngress { ingress });
        }
        while let Some((switch, arrives)) = queue.pop_front() {
            let mut here = SwitchHops { arrives, ..SwitchHops::default() };
            for (hop, way) in of_switch(&ways, switch) {
                match way.far {
                    FarEnd::Nothing => {}
                    FarEnd::Hosts => {
                        if !here.edges.is_empty() && here.treatment != way.treatment {
                            return Err(RouteError::MixedTreatment(switch));
                        }
                        here.treatment = way.treatment.clone();
                        here.edges.insert(hop.port);
                    }
                    FarEnd::Switch(far) => {
                        if !reached.insert(far.switch) {
                            return Err(RouteError::Loop(far.switch));
                        }
                        if of_switch(&ways, far.switch).next().is_none() {
                            return Err(RouteError::EndsAtLink { hop: *hop, next: far.switch });
                        }
                        here.links.insert(hop.port, far);
                        queue.push_back((far.switch, Some(far.port)));
                    }
                }
            }
            resolved.switches.insert(switch, here);
        }
        match ways.keys().find(|hop| !reached.contains(&hop.switch)) {
            Some(lost) => Err(RouteError::NotConnected(*lost)),
            None => Ok(resolved.pruned(ingress)),
        }
    }

    /// Returns every hop but those that lead only to absent places.
    fn ways(&self, topology: &mut impl RouteTopology) -> Result<Ways, RouteError> {
        let ingress = self.ingress;
        let (mut ways, mut absent) = (Ways::new(), Vec::new());
        // Whether the route may go nowhere without being wrong.
        let mut may_be_empty = self.is_multicast;
        for branch in &self.branches {
            let mut add = |hop, far: Option<FarEnd>| match far {
                Some(far) => drop(ways.insert(hop, HopWay { treatment: branch.treatment.clone(), far })),
                None => absent.push(hop),
            };
            if branch.flood.is_on() {
                may_be_empty = true;
                for hop in topology.flood(ingress, branch.within.as_ref()).iter().flat_map(|hops| hops.iter()) {
                    add(*hop, self.far_end(*hop, HopName::ByFlood, topology));
                }
            }
            let ports = branch.ports.iter().map(|port| (Hop::new(ingress, *port), HopName::AsEnd));
            let mut hops: Vec<_> = ports.chain(branch.hops.iter().map(|hop| (*hop, HopName::AsHop))).collect();
            if let Some(path) = &branch.path {
                match topology.path(path.from, path.to.switch, path.costs.as_ref(), path.within.as_ref()) {
                    Some(found) => hops.extend(found.iter().map(|hop| (*hop, HopName::AsHop)).chain([path.end()])),
                    None if topology.port(path.to).is_none() => hops.push(path.end()),
                    None => may_be_empty = true,
                }
            }
            branch.check(hops.iter().map(|(hop, _)| *hop), ingress, topology)?;
            hops.into_iter().for_each(|(hop, named)| add(hop, self.far_end(hop, named, topology)));
        }
        absent::remove_ways_to(&absent, &mut ways, ingress);
        if let Some(first) = absent.iter().min().filter(|_| ways.is_empty() && !may_be_empty) {
            return Err(absent::error(*first, topology));
        }
        self.add_copies(&mut ways, topology)?;
        Ok(ways)
    }

    /// Adds the hops that take copies from the route to their places.
    fn add_copies(&self, ways: &mut Ways, topology: &mut impl RouteTopology) -> Result<(), RouteError> {
        for branch in &self.branches {
            let Some(place) = branch.copy_to else { continue };
            branch.check([Hop::new(place.switch, place.port)], self.ingress, topology)?;
            for hop in self.way_to_copy(ways, place, branch.within.as_ref(), topology) {
                let far = self.far_end(hop, HopName::AsHop, topology);
                ways.extend(far.map(|far| (hop, HopWay { treatment: branch.treatment.clone(), far })));
            }
        }
        Ok(())
    }

    /// Returns the hops that take a copy from the route to a place; none if the route goes there anyway, or if there is
    /// no path.
    ///
    /// They begin at the nearest switch of the route. A path from there meets no other switch of the route, because
    /// that one would be nearer. So the hops still form a tree.
    fn way_to_copy(
        &self,
        ways: &Ways,
        place: Location,
        within: Option<&Scope>,
        topology: &mut impl RouteTopology,
    ) -> Vec<Hop> {
        let last = Hop::new(place.switch, place.port);
        let Some(info) = topology.port(place) else { return Vec::new() };
        if ways.contains_key(&last) || info.kind != PortKind::Edge {
            return Vec::new();
        }
        let on_route: BTreeSet<Dpid> = ways.keys().map(|hop| hop.switch).chain([self.ingress]).collect();
        let way = |from: &Dpid| topology.path(*from, place.switch, None, within);
        let nearest = on_route.iter().filter_map(way).min_by_key(|way| way.len());
        nearest.into_iter().flat_map(|way| way.iter().copied().chain([last]).collect::<Vec<_>>()).collect()
    }

    /// Returns what is at the far end of a hop's port; `None` if it is absent.
    fn far_end(&self, hop: Hop, named: HopName, topology: &mut impl RouteTopology) -> Option<FarEnd> {
        let at = hop.location();
        if hop.port == PortNo::IN_PORT && hop.switch == self.ingress
            || matches!(named, HopName::ByFlood) && topology.peer(at).is_none()
        {
            return Some(FarEnd::Hosts);
        }
        match topology.port(at)?.kind {
            PortKind::New | PortKind::Shut { .. } => Some(FarEnd::Nothing),
            PortKind::Edge | PortKind::Middlebox => Some(FarEnd::Hosts),
            PortKind::Link(_) if matches!(named, HopName::AsEnd) => None,
            PortKind::Link(far) => {
                topology.port(far);
                Some(topology.peer(at).map_or(FarEnd::Nothing, FarEnd::Switch))
            }
        }
    }
}

/// Returns the hops that leave a switch.
fn of_switch(ways: &Ways, switch: Dpid) -> impl Iterator<Item = (&Hop, &HopWay)> {
    ways.range(Hop::new(switch, PortNo(0))..=Hop::new(switch, PortNo(u32::MAX)))
}

/// The treatment and the far end of a hop.
struct HopWay {
    treatment: Treatment,
    far: FarEnd,
}

/// The way in which a route names a hop.
enum HopName {
    /// The route names the place where packets leave the network.
    AsEnd,
    /// The route names the hop among others.
    AsHop,
    /// The flood query gave the hop, and has checked its port.
    ByFlood,
}

/// The far end of a hop's port.
enum FarEnd {
    Nothing,
    Hosts,
    Switch(Location),
}
