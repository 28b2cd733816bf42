//! Leaves: f's answer for one kind of packet, with all that is needed to install, withdraw and explain it.

use maple_wire::{Constraint, Dpid};

use super::Time;
use super::received_packet::ReceivedPacket;
use super::routes::RouteId;
use crate::route::Goal;
use crate::trace::Trace;

/// f's answer for the packets that pass a trace. Lives at the shard of the ingress switch.
#[derive(Debug)]
pub(super) struct Leaf {
    /// What f observed.
    pub trace: Trace,
    /// What its packets have in common besides: other packets that f would observe the same of have leaves of their own.
    pub specialisation: Box<[Constraint]>,
    /// What f answered.
    pub route: Goal,
    /// The route that the leaf has joined; `None` before that, and where the ingress switch does all by itself.
    pub via: Option<RouteId>,
    /// The packet that f ran on.
    pub witness: ReceivedPacket,
    pub state: LeafState,
    /// Packets that wait for the installation, if there are some.
    pub held: Option<Box<HeldPackets>>,
}

/// Packets that wait, and how long they may.
#[derive(Debug)]
pub(super) struct HeldPackets {
    pub packets: Vec<ReceivedPacket>,
    pub until: Time,
}

/// How far a leaf has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LeafState {
    /// The route's labels are not ready. Packets wait, or go or go through the controller.
    Waiting { by_controller: bool },
    /// The ingress switch has the rule, or gets it with the next flush.
    Active,
    /// The ingress switch has the rule of the route as it was. The new one's labels are not ready; they have to be `until`
    /// then.
    Rerouting(Box<Reroute>),
    /// There is no room for its rules; a packet that comes from then on asks again.
    NoCapacity { from: Time },
    /// The packets go through the controller.
    ByController,
}

/// A leaf's way to another route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reroute {
    pub to: Goal,
    pub via: RouteId,
    pub until: Time,
}

impl Leaf {
    /// The switch where the leaf's packets enter.
    pub fn ingress(&self) -> Dpid {
        self.witness.at.switch
    }

    /// How many packets wait.
    pub fn count_held(&self) -> usize {
        self.held.as_ref().map_or(0, |held| held.packets.len())
    }

    /// Whether it is on its way to another route.
    pub fn is_rerouting(&self) -> bool {
        matches!(self.state, LeafState::Rerouting(_))
    }

    /// The route that the leaf has, or is about to have.
    pub fn goal(&self) -> &Goal {
        if let LeafState::Rerouting(reroute) = &self.state { &reroute.to } else { &self.route }
    }
}

/// A human's view of what decided: the source lines of a trace, each once, in order.
pub(super) fn source_lines(trace: &Trace) -> String {
    let mut lines: Vec<String> = Vec::new();
    for source in trace.sources.iter().flatten() {
        let line = source.to_string();
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines.join(", ")
}
