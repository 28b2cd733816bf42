//! The meaning of labels, and how they carry a route.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use maple_wire::field::Prerequisite;
use maple_wire::{Constraint, Dpid, Field, Packet, PortNo, Version};
use rustc_hash::{FxHashMap, FxHasher};

use crate::network::Location;
use crate::route_plan::{Resolved, SwitchHops, Treatment, is_settable};
use crate::trace::Fields;

/// The path of a packet from a switch on: a subtree of a route's hops, with the treatment of each switch where the
/// packet leaves.
///
/// Equality compares hashes first, and compares further suffixes only if they are not the same object.
#[derive(Debug)]
pub(crate) struct Suffix {
    /// The hash of all other fields.
    hash: u64,
    /// The switch where it begins.
    pub switch: Dpid,
    /// The links that packets go on by, the far end of each, and the suffix from there on.
    pub links: Vec<(PortNo, Location, Arc<Suffix>)>,
    /// The exit of packets at this switch, if they leave the network here.
    pub exit: Option<Exit>,
}

/// The exit of packets from the network at a switch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Exit {
    /// The edge ports.
    pub edges: BTreeSet<PortNo>,
    /// The treatment of packets before they leave.
    pub treatment: Treatment,
    /// Whether packets have a VLAN tag of their own; known only if the treatment rewrites the VLAN id.
    pub tagged: bool,
    /// The VLAN id that the label replaces.
    pub replaced: Option<u16>,
    /// The constraints that all these packets fit, and that a rule must match before it rewrites them (1.3 §7.2.5).
    pub needs: Vec<Constraint>,
}

/// The way in which labels carry a route: the ingress rewrites what all copies share, and leaves the rest to others.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub(crate) struct Carriage {
    /// The rewrites of the ingress, in all copies.
    pub shared: BTreeMap<Field, u128>,
    /// The VLAN id that labels replace (at an OpenFlow 1.0 ingress).
    pub replaced: Option<u16>,
    /// Whether packets have a VLAN tag of their own; known only if the tag is rewritten.
    pub tagged: bool,
    /// Whether only packets without a VLAN tag can be carried this way.
    pub untagged_only: bool,
    needs: Vec<Constraint>,
}

impl Suffix {
    /// Creates the suffix of a route at a switch, from what follows over its links and what leaves the network there.
    pub(super) fn new(switch: Dpid, links: Vec<(PortNo, Location, Arc<Suffix>)>, exit: Option<Exit>) -> Suffix {
        let mut hasher = FxHasher::default();
        switch.hash(&mut hasher);
        for (port, far, next) in &links {
            (port, far, next.hash).hash(&mut hasher);
        }
        exit.hash(&mut hasher);
        Suffix { hash: hasher.finish(), switch, links, exit }
    }

    /// Returns a number that, very likely, only equal suffixes have, in every build of the program: it is kept over a
    /// restart.
    pub fn meaning(&self) -> u64 {
        self.hash
    }

    /// Returns the edge ports where packets leave, with their switches, in no particular order.
    pub fn exits(&self) -> Vec<Location> {
        let (mut found, mut next) = (Vec::new(), vec![self]);
        while let Some(here) = next.pop() {
            let edges = here.exit.iter().flat_map(|exit| &exit.edges);
            found.extend(edges.map(|port| Location::new(here.switch, *port)));
            next.extend(here.links.iter().map(|(_, _, further)| &**further));
        }
        found
    }
}

impl PartialEq for Suffix {
    fn eq(&self, other: &Suffix) -> bool {
        let same = |a: &(PortNo, Location, Arc<Suffix>), b: &(PortNo, Location, Arc<Suffix>)| {
            (a.0, a.1) == (b.0, b.1) && (Arc::ptr_eq(&a.2, &b.2) || a.2 == b.2)
        };
        self.hash == other.hash
            && self.switch == other.switch
            && self.links.len() == other.links.len()
            && self.links.iter().zip(&other.links).all(|(a, b)| same(a, b))
            && self.exit == other.exit
    }
}

impl Eq for Suffix {}

impl Hash for Suffix {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.hash.hash(state);
    }
}

impl Carriage {
    /// Returns how labels carry the route of a packet from a switch of this version. Returns `None` if they can't:
    /// switches after the ingress would have to rewrite headers that they can't see.
    pub fn for_route(route: &Resolved, ingress: Dpid, version: Version, packet: &Packet<'_>) -> Option<Carriage> {
        let crosses_links = route.switches.get(&ingress).is_some_and(|hops| !hops.links.is_empty());
        if !crosses_links {
            return Some(Carriage::default());
        }
        let vlan = packet.switch_value(Field::VlanVid).filter(|vid| *vid != 0).map(|vid| vid as u16 & 0xfff);
        let replaced = vlan.filter(|_| version == Version::Of10);
        let mut carriage = Carriage { replaced, ..Carriage::default() };
        let treated = || route.switches.values().filter(|hops| !hops.edges.is_empty()).map(|hops| &hops.treatment);
        if treated().all(|treatment| treatment.rewrites.is_empty()) {
            return Some(carriage);
        }
        carriage.shared = shared(treated(), version);
        carriage.tagged = route.switches.values().any(|hops| hops.tagged);
        let behind = || route.switches.iter().filter(|(dpid, hops)| **dpid != ingress && !hops.edges.is_empty());
        let here = route.switches.get(&ingress).map(|hops| carriage.left(hops)).unwrap_or_default();
        if version == Version::Of13 && vlan.is_some() && here.rewrites.keys().any(|field| is_vlan(*field)) {
            // After removing the label, a switch can't tell that there is another tag.
            return None;
        }
        if behind().all(|(_, hops)| carriage.left(hops).rewrites.is_empty()) {
            return Some(carriage);
        }
        // A tag between the label and the other headers would hide these headers.
        carriage.shared.retain(|field, _| !is_vlan(*field));
        let left: BTreeSet<Field> = behind().flat_map(|(_, hops)| carriage.left(hops).rewrites.into_keys()).collect();
        // A switch parses only the first tag, which is the label.
        if replaced.is_none() && (vlan.is_some() || !packet.is_captured(Field::VlanVid)) {
            return None;
        }
        carriage.untagged_only = version == Version::Of13;
        carriage.needs = needs(&left, packet)?;
        Some(carriage)
    }

    /// Returns how labels carry a route without rewrites, wherever it leads.
    pub fn plain(version: Version, packet: &Packet<'_>) -> Carriage {
        let vlan = packet.switch_value(Field::VlanVid).filter(|vid| *vid != 0 && version == Version::Of10);
        Carriage { replaced: vlan.map(|vid| vid as u16 & 0xfff), ..Carriage::default() }
    }

    /// Returns the treatment that is left for a switch where packets leave.
    pub fn left(&self, hops: &SwitchHops) -> Treatment {
        let mut treatment = hops.treatment.clone();
        let untagged = self.shared.get(&Field::VlanVid) == Some(&0);
        // The priority is removed with the tag.
        let is_done = |field: &Field| self.shared.contains_key(field) || untagged && *field == Field::VlanPcp;
        treatment.rewrites.retain(|field, _| !is_done(field));
        treatment
    }

    /// Returns the suffixes that a route's packets follow from the ingress on, by the ingress' links.
    pub fn suffixes(&self, route: &Resolved, ingress: Dpid) -> Vec<(PortNo, Location, Arc<Suffix>)> {
        let mut made: FxHashMap<Dpid, Arc<Suffix>> = FxHashMap::default();
        let links = |hops: &SwitchHops, made: &FxHashMap<Dpid, Arc<Suffix>>| {
            let link = |(port, far): (&PortNo, &Location)| Some((*port, *far, Arc::clone(made.get(&far.switch)?)));
            hops.links.iter().filter_map(link).collect::<Vec<_>>()
        };
        for dpid in from_the_ends(route, ingress) {
            let hops = &route.switches[&dpid];
            made.insert(dpid, Arc::new(Suffix::new(dpid, links(hops, &made), self.exit(hops))));
        }
        route.switches.get(&ingress).map(|hops| links(hops, &made)).unwrap_or_default()
    }

    fn exit(&self, hops: &SwitchHops) -> Option<Exit> {
        let treatment = self.left(hops);
        let needs = if treatment.rewrites.is_empty() { Vec::new() } else { self.needs.clone() };
        let edges = hops.edges.clone();
        (!edges.is_empty()).then_some(Exit { edges, treatment, tagged: hops.tagged, replaced: self.replaced, needs })
    }
}

/// Returns the rewrites that all copies share and that a switch of this version can do before it pushes a label. In 1.0
/// the packet's tag becomes the label, so the tag is not among them.
fn shared<'a>(mut all: impl Iterator<Item = &'a Treatment>, version: Version) -> BTreeMap<Field, u128> {
    let can = |field: Field| is_settable(field, version) && !(version == Version::Of10 && is_vlan(field));
    let mut shared = all.next().map(|first| first.rewrites.clone()).unwrap_or_default();
    shared.retain(|field, _| can(*field));
    for treatment in all {
        shared.retain(|field, value| treatment.rewrites.get(field) == Some(value));
    }
    shared
}

fn is_vlan(field: Field) -> bool {
    matches!(field, Field::VlanVid | Field::VlanPcp)
}

/// Returns the prerequisites of these fields that a packet meets; `None` if it does not have a field. Those about its
/// VLAN tag are left out, because a label's rule states the label.
fn needs(fields: &BTreeSet<Field>, packet: &Packet<'_>) -> Option<Vec<Constraint>> {
    let mut needs = BTreeSet::new();
    for field in fields {
        let holds =
            |need: &Prerequisite| packet.switch_value(need.field).is_some_and(|value| value & need.mask == need.value);
        let alternative = field.prerequisites().iter().find(|all| all.iter().all(holds))?;
        let of_headers = alternative.iter().filter(|need| need.field != Field::VlanVid);
        needs.extend(of_headers.map(|need| Constraint { field: need.field, value: need.value, mask: need.mask }));
    }
    Some(needs.into_iter().collect())
}

/// Returns the switches after the ingress, each listed after all switches that packets reach from it.
fn from_the_ends(route: &Resolved, ingress: Dpid) -> Vec<Dpid> {
    let mut order = Vec::new();
    let mut next: Vec<Dpid> = vec![ingress];
    while let Some(dpid) = next.pop() {
        let further = route.switches.get(&dpid).into_iter().flat_map(|hops| hops.links.values());
        let further: Vec<Dpid> = further.map(|far| far.switch).filter(|far| route.switches.contains_key(far)).collect();
        order.extend_from_slice(&further);
        next.extend(further);
    }
    order.reverse();
    order
}
