//! The path of a packet through the network, by the rules that the switches have.

use std::collections::{BTreeSet, VecDeque};

use maple_wire::Dpid;

use super::{EnteringPacket, ExplainedNetwork, Passage, PassageOutcome};
use crate::network::{Location, PortKind};
use crate::state::Snapshot;

/// The maximum number of hops that a packet is followed for: switches, each as often as a copy comes there. Chosen:
/// more than a broadcast makes in a network of hundreds of switches, and a bound on the time of an explanation.
pub const MAX_HOPS: usize = 1000;

/// A packet, or a copy of it, at one switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JourneyHop {
    /// The port where it comes in.
    pub at: Location,
    /// The rules that take it there, and the copies that leave.
    pub passage: Passage,
}

/// A copy that leaves the network.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Arrival {
    /// The edge port.
    pub at: Location,
    /// The bytes of the copy.
    pub frame: Vec<u8>,
}

/// The path of a packet and of its copies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Journey {
    /// The hops, in the order in which the packet takes them.
    pub hops: Vec<JourneyHop>,
    /// The copies that leave the network, in order.
    pub arrivals: Vec<Arrival>,
    /// The places where copies are lost, and why.
    pub lost: Vec<(Location, String)>,
    /// Whether a copy comes to a port for the second time with the same bytes, or there are too many hops.
    pub has_loop: bool,
}

impl Journey {
    /// Follows a packet that enters the network.
    pub fn follow(network: &mut dyn ExplainedNetwork, state: &Snapshot, packet: &EnteringPacket) -> Journey {
        let mut journey = Journey::default();
        let mut seen = BTreeSet::new();
        let mut to_follow = VecDeque::from([(packet.at, packet.frame.to_vec())]);
        while let Some((at, frame)) = to_follow.pop_front() {
            if journey.hops.len() >= MAX_HOPS || !seen.insert((at, frame.clone())) {
                journey.has_loop = true;
                continue;
            }
            let Some(passage) = network.pass(at, &frame) else {
                journey.lost.push((at, "the switch is not connected".into()));
                continue;
            };
            for outcome in &passage.outcomes {
                if let PassageOutcome::Port(port, frame) = outcome {
                    journey.leave(state, Location::new(at.switch, *port), frame.clone(), &mut to_follow);
                }
            }
            journey.hops.push(JourneyHop { at, passage });
        }
        journey.arrivals.sort();
        journey
    }

    /// Follows a copy that leaves a switch by a port.
    fn leave(
        &mut self,
        state: &Snapshot,
        from: Location,
        frame: Vec<u8>,
        to_follow: &mut VecDeque<(Location, Vec<u8>)>,
    ) {
        match state.port(from).filter(|port| port.up).map(|port| port.kind) {
            Some(PortKind::Link(to)) => to_follow.push_back((to, frame)),
            Some(PortKind::Edge | PortKind::Middlebox | PortKind::New) => {
                self.arrivals.push(Arrival { at: from, frame });
            }
            // The segment's hosts receive it once.
            Some(PortKind::Shut { .. }) => self.arrivals.push(Arrival { at: from, frame }),
            None => self.lost.push((from, "the port is down".into())),
        }
    }

    /// Reports whether some switch on the path asks the controller about the packet.
    pub fn asks_controller(&self) -> bool {
        self.hops.iter().any(|hop| hop.passage.asks_controller())
    }

    /// Reports whether the switch where the packet enters asks the controller.
    pub fn begins_at_controller(&self) -> bool {
        self.hops.first().is_some_and(|hop| hop.passage.asks_controller())
    }

    /// Returns the switches that the packet passes, in order.
    pub fn switches(&self) -> impl Iterator<Item = Dpid> {
        self.hops.iter().map(|hop| hop.at.switch)
    }

    /// Returns the rules that are not ours and take the packet, each with the switch.
    pub fn foreign_rules(&self) -> impl Iterator<Item = (Dpid, &super::PassedRule)> {
        self.hops.iter().flat_map(move |hop| {
            hop.passage.rules.iter().filter(|rule| rule.is_foreign).map(move |rule| (hop.at.switch, rule))
        })
    }
}
