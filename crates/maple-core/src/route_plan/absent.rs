//! Places that are not there: what a route leaves out, and when it fails for that reason.
//!
//! Places come from configuration and tables, and the network may lack them. A place is *absent* if its switch is not
//! there, if the switch has no such port, or if the port leads to another switch: then no packet can leave the network
//! there. A route leaves out its absent places, with the hops that only lead to them. A multicast goes to its other
//! places, if there are any. Any other route fails if all its places are absent. A port that is down, new or shut is
//! there: it gets nothing, and that is not reported.
//!
//! A plan reads whether a place is there, like everything that it depends on, so it resolves again when that changes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use maple_wire::{Dpid, PortNo};

use super::{FarEnd, HopWay, RouteError, RouteTopology, of_switch};
use crate::network::{Hop, Location, PortInfo, PortKind};

/// The reason why a place is absent.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Absence {
    /// The place's switch is not there.
    Switch,
    /// The place's switch has other ports: these.
    Port(Vec<PortNo>),
    /// The place leads to this switch.
    Link(Dpid),
}

impl Absence {
    /// Returns the reason why a place with this port information is absent; `None` if it is there. `ports` returns
    /// those of its switch.
    pub(crate) fn from_port(info: Option<PortInfo>, ports: impl FnOnce() -> Vec<PortNo>) -> Option<Absence> {
        match info {
            Some(PortInfo { kind: PortKind::Link(far), .. }) => Some(Absence::Link(far.switch)),
            Some(_) => None,
            None => Some(match ports() {
                ports if ports.is_empty() => Absence::Switch,
                ports => Absence::Port(ports),
            }),
        }
    }
}

impl fmt::Display for Absence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Absence::Switch => f.write_str("its switch is not there"),
            Absence::Port(ports) => {
                let ports: Vec<String> = ports.iter().map(ToString::to_string).collect();
                write!(f, "its switch has the ports {}", ports.join(", "))
            }
            Absence::Link(far) => write!(f, "it leads to switch {far}"),
        }
    }
}

/// A place that a route leaves out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OmittedPlace {
    /// The place.
    pub at: Location,
    /// The reason why it is absent.
    pub why: Absence,
}

/// The hops of a route.
pub(super) type Ways = BTreeMap<Hop, HopWay>;

/// Removes the hops that only lead to `absent`, the hops that were left out, and the hops after those.
pub(super) fn remove_ways_to(absent: &[Hop], ways: &mut Ways, ingress: Dpid) {
    if absent.is_empty() {
        return;
    }
    let mut lost: BTreeSet<Dpid> = absent.iter().map(|hop| hop.switch).collect();
    loop {
        let leads_nowhere = |way: &HopWay| match way.far {
            FarEnd::Switch(far) => lost.contains(&far.switch) && of_switch(ways, far.switch).next().is_none(),
            _ => false,
        };
        let useless: Vec<Hop> = ways.iter().filter(|(_, way)| leads_nowhere(way)).map(|(hop, _)| *hop).collect();
        if useless.is_empty() {
            break;
        }
        useless.iter().for_each(|hop| drop(ways.remove(hop)));
        lost.extend(useless.iter().map(|hop| hop.switch));
    }
    let reached = reached(ways, ingress);
    ways.retain(|hop, _| reached.contains(&hop.switch));
}

/// Returns the switches that hops lead to from the ingress.
fn reached(ways: &Ways, ingress: Dpid) -> BTreeSet<Dpid> {
    let (mut reached, mut next) = (BTreeSet::from([ingress]), vec![ingress]);
    while let Some(switch) = next.pop() {
        for (_, way) in of_switch(ways, switch) {
            if let FarEnd::Switch(far) = way.far
                && reached.insert(far.switch)
            {
                next.push(far.switch);
            }
        }
    }
    reached
}

/// Returns the error of a route whose places are all absent: `absent` is the first of them.
pub(super) fn error(absent: Hop, topology: &mut impl RouteTopology) -> RouteError {
    match topology.port(absent.location()).map(|info| info.kind) {
        Some(PortKind::Link(far)) => RouteError::EndsAtLink { hop: absent, next: far.switch },
        _ => RouteError::NoSuchPort { hop: absent, ports: topology.ports_of(absent.switch) },
    }
}
