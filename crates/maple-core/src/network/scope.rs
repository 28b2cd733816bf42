//! The part of a network that a slice has: edge ports, hosts and links.
//!
//! Paths and floods are computed for the [`Reduced`] network, as if it had nothing else. A scope belongs to the
//! identity of each path, flood and route that it restricts. So scopes are compared often, by hash first.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use maple_wire::{Dpid, PortNo};
use rustc_hash::FxHasher;

use super::graph::Graph;
use super::{LinkName, Location, Mac, PortInfo, PortKind};
use crate::ids::Name;

/// The part of a network that a slice has, and the slice's name. Without limits it is the whole network.
#[derive(Clone)]
pub struct Scope(Arc<ScopeOf>);

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct ScopeLimits {
    name: Name,
    ports: Option<BTreeSet<Location>>,
    hosts: Option<BTreeSet<Mac>>,
    /// The sets of links; a link must be in each of them.
    links: Vec<BTreeSet<LinkName>>,
}

struct ScopeOf {
    /// The hash of `limits`.
    hash: u64,
    limits: ScopeLimits,
}

impl Scope {
    /// Creates the scope of the whole network, for the slice of this name.
    pub fn new(name: impl Into<Name>) -> Scope {
        Scope::from_limits(ScopeLimits { name: name.into(), ports: None, hosts: None, links: Vec::new() })
    }

    /// Limits the scope to these edge ports.
    #[must_use]
    pub fn with_ports(&self, ports: impl IntoIterator<Item = Location>) -> Scope {
        Scope::from_limits(ScopeLimits { ports: Some(ports.into_iter().collect()), ..self.0.limits.clone() })
    }

    /// Limits the scope to these hosts, while they are at its ports.
    #[must_use]
    pub fn with_hosts(&self, hosts: impl IntoIterator<Item = Mac>) -> Scope {
        Scope::from_limits(ScopeLimits { hosts: Some(hosts.into_iter().collect()), ..self.0.limits.clone() })
    }

    /// Limits the scope to these links. A port names the link at it, and two switches name all links between them; both
    /// directions are meant.
    #[must_use]
    pub fn with_links(&self, links: impl IntoIterator<Item = LinkName>) -> Scope {
        Scope::from_limits(ScopeLimits { links: vec![links.into_iter().collect()], ..self.0.limits.clone() })
    }

    fn from_limits(limits: ScopeLimits) -> Scope {
        let mut hasher = FxHasher::default();
        limits.hash(&mut hasher);
        Scope(Arc::new(ScopeOf { hash: hasher.finish(), limits }))
    }

    /// Returns the intersection of this scope and an outer one: the scope of the slice `outer/inner`.
    #[must_use]
    pub(crate) fn inside(&self, outer: &Scope) -> Scope {
        let (here, outer) = (&self.0.limits, &outer.0.limits);
        let name = format!("{}/{}", outer.name, here.name).into();
        Scope::from_limits(ScopeLimits { name, ..here.common(outer) })
    }

    /// Limits this scope to another one, unless it lies in that one already.
    #[must_use]
    pub(crate) fn limited_to(&self, to: &Scope) -> Scope {
        let is_part = self.name() == to.name() || to.owns(self.name());
        let limits = self.0.limits.common(&to.0.limits);
        if limits == self.0.limits && is_part {
            self.clone()
        } else {
            Scope::from_limits(ScopeLimits { name: to.name().clone(), ..limits })
        }
    }

    /// Returns the slice's name, which begins with the names of the slices that it is in.
    pub fn name(&self) -> &Name {
        &self.0.limits.name
    }

    /// Returns the name that a table, a variable or link costs of the slice have in the state.
    pub fn own(&self, name: &str) -> Name {
        format!("{}/{name}", self.name()).into()
    }

    /// Reports whether `name` is the name in the state of something that the slice owns.
    pub(crate) fn owns(&self, name: &str) -> bool {
        name.strip_prefix(&**self.name()).is_some_and(|rest| rest.starts_with('/'))
    }

    /// Returns the names in the state that the slice's `name` for link costs can mean: its own, those of the slices
    /// that it is in, and those of the network. The first that exists counts. A name with a slash is the slice's own,
    /// because otherwise it could mean the costs of another slice.
    pub(crate) fn cost_names(&self, name: &str) -> Vec<Name> {
        let mut all = vec![self.own(name)];
        if !name.contains('/') {
            let outer = self.name().rmatch_indices('/').map(|(end, _)| &self.name()[..end]);
            all.extend(outer.map(|outer| format!("{outer}/{name}").into()));
            all.push(name.into());
        }
        all
    }

    /// Returns the names by which the slice knows costs, of those that exist.
    pub(crate) fn known_cost_names(&self, all: &[Name]) -> Vec<Name> {
        let last = |name: &Name| name.rsplit('/').next().unwrap_or_default().to_owned();
        let own_name = |name: &Name| Some(name.strip_prefix(&**self.name())?.strip_prefix('/')?.to_owned());
        let outer = |name: &Name| Some(last(name)).filter(|short| self.cost_names(short).contains(name));
        let known: BTreeSet<String> = all.iter().filter_map(|name| own_name(name).or_else(|| outer(name))).collect();
        known.into_iter().map(Name::from).collect()
    }

    /// Returns the scope as it affects paths; `None` if paths may take all links.
    pub(crate) fn of_links(&self) -> Option<Scope> {
        (!self.0.limits.links.is_empty()).then(|| self.clone())
    }

    /// Returns the scope as it affects floods; `None` if floods may take all ports and links.
    pub(crate) fn of_ports_and_links(&self) -> Option<Scope> {
        (self.0.limits.ports.is_some() || !self.0.limits.links.is_empty()).then(|| self.clone())
    }

    /// Returns the edge ports of the scope; `None` for all.
    pub(crate) fn ports(&self) -> Option<&BTreeSet<Location>> {
        self.0.limits.ports.as_ref()
    }

    /// Reports whether the scope has an edge port.
    pub fn has_port(&self, at: Location) -> bool {
        self.ports().is_none_or(|ports| ports.contains(&at))
    }

    /// Reports whether the scope has every host that is at one of its ports.
    pub(crate) fn has_all_hosts(&self) -> bool {
        self.0.limits.hosts.is_none()
    }

    /// Reports whether the scope has a host that is at this port.
    pub fn has_host(&self, mac: Mac, at: Location) -> bool {
        self.has_port(at) && self.0.limits.hosts.as_ref().is_none_or(|hosts| hosts.contains(&mac))
    }

    /// Reports whether the scope has the link between two ports.
    pub fn has_link(&self, a: Location, b: Location) -> bool {
        let (there, back) = (LinkName::Switches(a.switch, b.switch), LinkName::Switches(b.switch, a.switch));
        let names = [LinkName::Port(a), LinkName::Port(b), there, back];
        self.0.limits.links.iter().all(|links| names.iter().any(|name| links.contains(name)))
    }

    /// Reports whether the scope has a port: the link at it, or else the port itself.
    pub(crate) fn has(&self, at: Location, info: &PortInfo) -> bool {
        match info.kind {
            PortKind::Link(peer) => self.has_link(at, peer),
            _ => self.has_port(at),
        }
    }
}

impl ScopeLimits {
    /// Returns the intersection of both limits.
    fn common(&self, other: &ScopeLimits) -> ScopeLimits {
        let mut links = self.links.clone();
        links.extend(other.links.iter().filter(|set| !self.links.contains(set)).cloned());
        let name = self.name.clone();
        ScopeLimits {
            name,
            ports: intersection(&self.ports, &other.ports),
            hosts: intersection(&self.hosts, &other.hosts),
            links,
        }
    }
}

fn intersection<T: Ord + Clone>(a: &Option<BTreeSet<T>>, b: &Option<BTreeSet<T>>) -> Option<BTreeSet<T>> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.intersection(b).cloned().collect()),
        (some, None) | (None, some) => some.clone(),
    }
}

impl Hash for Scope {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash.hash(state);
    }
}

impl PartialEq for Scope {
    fn eq(&self, other: &Scope) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.hash == other.0.hash && self.0.limits == other.0.limits
    }
}

impl Eq for Scope {}

impl PartialOrd for Scope {
    fn partial_cmp(&self, other: &Scope) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Scope {
    fn cmp(&self, other: &Scope) -> Ordering {
        if Arc::ptr_eq(&self.0, &other.0) { Ordering::Equal } else { self.0.limits.cmp(&other.0.limits) }
    }
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "slice {}", self.name())
    }
}

/// A network reduced to a scope's part of it.
pub(crate) struct Reduced<'a, G> {
    pub network: &'a G,
    pub scope: &'a Scope,
}

impl<G: Graph> Graph for Reduced<'_, G> {
    fn has_switch(&self, switch: Dpid) -> bool {
        self.network.has_switch(switch)
    }

    fn links_of(&self, switch: Dpid) -> impl Iterator<Item = (Location, Location)> {
        self.network.links_of(switch).filter(|(out, peer)| self.scope.has_link(*out, *peer))
    }

    fn ports_of(&self, switch: Dpid) -> impl Iterator<Item = (PortNo, PortInfo)> {
        self.network.ports_of(switch).filter(move |(port, info)| self.scope.has(Location::new(switch, *port), info))
    }

    fn cost(&self, costs: &Name, from: Location, to: Dpid) -> u64 {
        self.network.cost(costs, from, to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(all: &[&str]) -> Vec<Name> {
        all.iter().map(|name| Name::from(*name)).collect()
    }

    #[test]
    fn costs_of_other_slices_have_no_name() {
        let inner = Scope::new("inner").inside(&Scope::new("red"));
        assert_eq!(inner.cost_names("cost"), names(&["red/inner/cost", "red/cost", "cost"]));
        assert_eq!(inner.cost_names("blue/cost"), names(&["red/inner/blue/cost"]));
        let all = names(&["blue/cost", "cost", "red/far", "red/inner/own", "red/other/x"]);
        assert_eq!(inner.known_cost_names(&all), names(&["cost", "far", "own"]));
    }

    #[test]
    fn a_slice_in_a_slice_has_what_both_have() {
        let at = |switch, port| Location::new(Dpid(switch), PortNo(port));
        let outer = Scope::new("red").with_ports([at(1, 1), at(1, 2)]).with_links([LinkName::Port(at(1, 9))]);
        let links = [LinkName::Switches(Dpid(2), Dpid(1))];
        let inner = Scope::new("web").with_ports([at(1, 2), at(1, 3)]).with_links(links).inside(&outer);
        assert_eq!(&**inner.name(), "red/web");
        assert_eq!([1, 2, 3].map(|port| inner.has_port(at(1, port))), [false, true, false]);
        assert!(inner.has_link(at(2, 9), at(1, 9)) && inner.has_link(at(1, 9), at(2, 9)));
        assert!(!inner.has_link(at(1, 8), at(2, 8)) && !inner.has_link(at(1, 9), at(3, 9)));
        assert_eq!(inner.limited_to(&outer), inner);
        let other = Scope::new("blue").with_ports([at(1, 3)]);
        let leaked = inner.limited_to(&other);
        assert_eq!((&**leaked.name(), leaked.has_port(at(1, 2)), leaked.has_port(at(1, 3))), ("blue", false, false));
    }
}
