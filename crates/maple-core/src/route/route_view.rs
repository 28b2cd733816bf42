//! The view of a route that constraints read: its hops and deliveries.

use maple_wire::{Dpid, PortNo};

use super::Resolved;
use crate::network::{Hop, Location};

/// The hops of a route in one state, the links between them, and the edge ports where the packet leaves.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct RouteView {
    /// Every hop, in order of switches and ports.
    pub hops: Vec<Hop>,
    /// Every link that the packet takes, as the port that it leaves by and the port that it arrives at.
    pub links: Vec<(Location, Location)>,
    /// Every edge port that the packet leaves by, in order.
    pub deliveries: Vec<Delivery>,
}

/// An edge port that the packet leaves by, and the path there.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Delivery {
    /// The edge port.
    pub at: Location,
    /// The hops from the switch where the packet entered; the last one is out of the edge port.
    pub path: Vec<Hop>,
}

impl RouteView {
    /// Returns the view of a route from the switch where its packets enter. `in_port` is called if the route sends a
    /// packet back by name ([`PortNo::IN_PORT`]).
    pub(crate) fn from_resolved(resolved: &Resolved, ingress: Dpid, mut in_port: impl FnMut() -> PortNo) -> RouteView {
        let mut view = RouteView::default();
        let mut named = |port: PortNo| if port == PortNo::IN_PORT { in_port() } else { port };
        // Routes are short, and a list is faster for them than a map.
        let mut arrives: Vec<(Dpid, Hop)> = Vec::new();
        for (switch, hops) in &resolved.switches {
            for (port, far) in &hops.links {
                arrives.push((far.switch, Hop::new(*switch, *port)));
                view.links.push((Location::new(*switch, *port), *far));
            }
            let ports = hops.links.keys().chain(&hops.edges);
            view.hops.extend(ports.map(|port| Hop::new(*switch, named(*port))));
        }
        view.hops.sort_unstable();
        arrives.sort_unstable();
        for (switch, hops) in &resolved.switches {
            for port in &hops.edges {
                let port = named(*port);
                let mut path = vec![Hop::new(*switch, port)];
                let mut at = *switch;
                // A route is a tree, so this ends at the ingress.
                while let Ok(place) = arrives.binary_search_by_key(&at, |(to, _)| *to)
                    && at != ingress
                {
                    let (_, before) = arrives[place];
                    path.push(before);
                    at = before.switch;
                }
                path.reverse();
                view.deliveries.push(Delivery { at: Location::new(*switch, port), path });
            }
        }
        view.deliveries.sort_unstable_by_key(|delivery| delivery.at);
        view
    }

    /// Returns the switches that the packet passes, each once, in order of their ids.
    #[must_use]
    pub fn switches(&self) -> Vec<Dpid> {
        let mut switches: Vec<Dpid> = self.hops.iter().map(|hop| hop.switch).collect();
        switches.dedup();
        switches
    }
}

impl Delivery {
    /// Reports whether the packet passes this switch on its way there.
    #[must_use]
    pub fn passes(&self, switch: Dpid) -> bool {
        self.path.iter().any(|hop| hop.switch == switch)
    }
}

#[cfg(test)]
mod tests {
    use super::super::SwitchHops;
    use super::*;

    #[test]
    fn a_delivery_has_the_way_from_the_ingress() {
        let at = |switch, port| Location::new(Dpid(switch), PortNo(port));
        let ingress = SwitchHops {
            links: [(PortNo(2), at(2, 1))].into(),
            edges: [PortNo(3), PortNo::IN_PORT].into(),
            ..SwitchHops::default()
        };
        let second = SwitchHops { edges: [PortNo(4)].into(), ..SwitchHops::default() };
        let switches = [(Dpid(1), ingress), (Dpid(2), second)].into();
        let view = RouteView::from_resolved(&Resolved { switches, ..Resolved::default() }, Dpid(1), || PortNo(9));
        let reported: Vec<(Location, usize)> = view.deliveries.iter().map(|one| (one.at, one.path.len())).collect();
        assert_eq!(reported, [(at(1, 3), 1), (at(1, 9), 1), (at(2, 4), 2)]);
        assert!(view.hops.contains(&Hop::new(Dpid(1), PortNo(9))), "{:?}", view.hops);
        assert_eq!(view.links, [(at(1, 2), at(2, 1))]);
        assert_eq!(view.switches(), [Dpid(1), Dpid(2)]);
        assert!(view.deliveries[2].passes(Dpid(1)) && !view.deliveries[0].passes(Dpid(2)));
    }
}
