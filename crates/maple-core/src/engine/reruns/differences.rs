//! The differences between a candidate's decisions and those of the policy that runs, for people.
//!
//! Two answers are compared by what they do to packets in the present state: the edge ports where packets leave, the
//! path there, and their treatment. A path that f asked for and the same hops that f spelled out do not differ.

use std::collections::{BTreeMap, BTreeSet};

use maple_wire::counted;

use crate::engine::decisions::leaf::{Leaf, source_lines};
use crate::engine::messages::received_packet::ReceivedPacket;
use crate::engine::messages::trial::{DecidedPacket, DecisionSummary, Difference, DifferenceKind};
use crate::labels::outline;
use crate::network::{Location, Mac};
use crate::route::{Resolved, RouteView};
use crate::state::Snapshot;
use crate::trace::Trace;

impl DifferenceKind {
    /// Returns the difference between two routes of a packet; `None` if they are equal.
    pub(in crate::engine) fn between(before: &Resolved, after: &Resolved) -> Option<DifferenceKind> {
        if before == after {
            return None;
        }
        let (old, new) = (exits(before), exits(after));
        let keeps = |from: &BTreeSet<Location>, to: &BTreeSet<Location>| from.is_subset(to);
        Some(match (keeps(&old, &new), keeps(&new, &old)) {
            (true, true) if way(before) == way(after) => DifferenceKind::Treated,
            (true, true) => DifferenceKind::Moves,
            (true, false) => DifferenceKind::Gains,
            (false, true) => DifferenceKind::Loses,
            (false, false) => DifferenceKind::GoesElsewhere,
        })
    }
}

impl DecisionSummary {
    /// Describes a route and the run that chose it.
    pub(in crate::engine) fn from_run(route: &Resolved, ingress: Location, trace: &Trace) -> DecisionSummary {
        let exits = exits(route).into_iter().collect();
        DecisionSummary { route: route_text(route, ingress), exits, lines: source_lines(trace) }
    }
}

impl Difference {
    /// Creates the difference between a leaf's present decision and the decision `after`.
    pub(in crate::engine) fn new(
        kind: DifferenceKind,
        leaf: &Leaf,
        after: DecisionSummary,
        state: &Snapshot,
    ) -> Difference {
        let before = leaf.hops_of_witness(state).unwrap_or_default();
        let before = DecisionSummary::from_run(&before, leaf.witness.at, &leaf.trace);
        Difference::between(kind, &leaf.witness, before, after)
    }

    /// Creates the difference between two decisions about a packet.
    pub(in crate::engine) fn between(
        kind: DifferenceKind,
        packet: &ReceivedPacket,
        before: DecisionSummary,
        after: DecisionSummary,
    ) -> Difference {
        Difference { kind, packet: DecidedPacket::from_received(packet), before, after }
    }
}

impl DecidedPacket {
    /// Describes a packet for people.
    pub(in crate::engine) fn from_received(received: &ReceivedPacket) -> DecidedPacket {
        let packet = received.packet();
        let address = |field| Mac::from_bits(packet.switch_value(field).unwrap_or_default());
        let (from, to) = (address(maple_wire::Field::EthSrc), address(maple_wire::Field::EthDst));
        let (at, is_made_up) = (received.at, received.is_made_up);
        DecidedPacket { at, from, to, summary: maple_wire::packet::text::summary(&packet), is_made_up }
    }
}

fn exits(route: &Resolved) -> BTreeSet<Location> {
    let all = route.switches.iter();
    all.flat_map(|(dpid, hops)| hops.edges.iter().map(|port| Location::new(*dpid, *port))).collect()
}

fn way(route: &Resolved) -> BTreeSet<(Location, Location)> {
    let all = route.switches.iter();
    all.flat_map(|(dpid, hops)| hops.links.iter().map(|(port, far)| (Location::new(*dpid, *port), *far))).collect()
}

/// Returns a route as text: the hops of one path, or the edge ports of several.
fn route_text(route: &Resolved, ingress: Location) -> String {
    let view = RouteView::from_resolved(route, ingress.switch, || ingress.port);
    let place = match &view.deliveries[..] {
        [] => "drop".to_owned(),
        [one] => {
            one.path.iter().map(|hop| Location::new(hop.switch, hop.port).to_string()).collect::<Vec<_>>().join(", ")
        }
        several => outline(several.iter().map(|one| one.at).collect()),
    };
    let mut parts = vec![place];
    // Mostly all edge ports have the same treatment.
    let treatments: BTreeMap<String, ()> =
        route.switches.values().filter(|hops| !hops.edges.is_empty()).map(|hops| (hops.treatment.text(), ())).collect();
    parts.extend(treatments.into_keys().filter(|text| !text.is_empty()));
    parts.extend(route.meter.iter().map(|meter| format!("meter {meter}")));
    parts.extend((!route.own.is_empty()).then(|| format!("and {} of its own", counted(route.own.len(), "frame"))));
    parts.join(" ")
}

#[cfg(test)]
mod tests {
    use maple_wire::{Dpid, PortNo};

    use super::*;
    use crate::route::{SwitchHops, Treatment};

    fn at(switch: u64, port: u32) -> Location {
        Location::new(Dpid(switch), PortNo(port))
    }

    /// Returns a route out of these edge ports of switch 2, which switch 1 reaches by this link port.
    fn route(link: u32, edges: &[u32]) -> Resolved {
        let first = SwitchHops { links: [(PortNo(link), at(2, link))].into(), ..SwitchHops::default() };
        let edges = edges.iter().copied().map(PortNo).collect();
        let second = SwitchHops { arrives: Some(PortNo(link)), edges, ..SwitchHops::default() };
        Resolved { switches: [(Dpid(1), first), (Dpid(2), second)].into(), ..Resolved::default() }
    }

    #[test]
    fn a_difference_is_named_by_who_receives_the_packet() {
        let drop = Resolved::default();
        let between = DifferenceKind::between;
        assert_eq!(between(&drop, &drop), None);
        assert_eq!(between(&route(1, &[5]), &drop), Some(DifferenceKind::Loses));
        assert_eq!(between(&route(1, &[5, 6]), &route(1, &[5])), Some(DifferenceKind::Loses), "one of two");
        assert_eq!(between(&drop, &route(1, &[5])), Some(DifferenceKind::Gains));
        assert_eq!(between(&route(1, &[5]), &route(1, &[6])), Some(DifferenceKind::GoesElsewhere));
        assert_eq!(between(&route(1, &[5]), &route(2, &[5])), Some(DifferenceKind::Moves));
        let mut queued = route(1, &[5]);
        if let Some(hops) = queued.switches.get_mut(&Dpid(2)) {
            hops.treatment = Treatment { queue: Some(3), ..Treatment::default() };
        }
        assert_eq!(between(&route(1, &[5]), &queued), Some(DifferenceKind::Treated));
        assert_eq!(route_text(&queued, at(1, 9)), format!("{}, {} queue 3", at(1, 1), at(2, 5)));
        assert_eq!(route_text(&route(1, &[5, 6]), at(1, 9)), format!("out of {}, {}", at(2, 5), at(2, 6)));
        assert_eq!(route_text(&drop, at(1, 9)), "drop");
    }
}
