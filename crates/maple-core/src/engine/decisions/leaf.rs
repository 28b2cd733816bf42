//! A leaf: f's answer for one kind of packet, with all that is needed to install, withdraw and explain it.

use std::sync::Arc;

use maple_wire::{Constraint, Dpid, Field};

use crate::engine::messages::cause::Origin;
use crate::engine::messages::received_packet::ReceivedPacket;
use crate::ids::{RouteId, Time};
use crate::memory::Witness;
use crate::network::Mac;
use crate::route::{Goal, Resolved};
use crate::state::Snapshot;
use crate::trace::{ReadMetadata, Trace};

/// f's answer for the packets that pass a trace. It lives at the shard of the ingress switch.
#[derive(Clone, Debug)]
pub(in crate::engine) struct Leaf {
    /// The observations of f's run.
    pub trace: Trace,
    /// Constraints that make the leaf narrower than its trace. Other packets that pass the trace have leaves of their
    /// own.
    pub extra_reads: Box<[Constraint]>,
    /// f's answer, as the leaf's rule follows it.
    pub goal: Goal,
    /// The origin of the answer.
    pub origin: Arc<Origin>,
    /// The route that the leaf has joined; `None` before that, and if the leaf has no route.
    pub route_id: Option<RouteId>,
    /// The witness packet: f ran on it. Exploration may have made it up.
    pub witness: ReceivedPacket,
    pub state: LeafState,
    /// The packets that wait for the installation.
    pub held: Option<Box<HeldPackets>>,
}

/// Packets that wait, and the end of their wait.
#[derive(Clone, Debug)]
pub(in crate::engine) struct HeldPackets {
    pub packets: Vec<ReceivedPacket>,
    pub until: Time,
}

/// The state of a leaf's installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::engine) enum LeafState {
    /// The route's labels are not ready; the wait began at the time `since`. The packets wait, or go through the
    /// controller.
    Waiting { by_controller: bool, since: Time },
    /// The ingress switch has the rule, or gets it with the next flush.
    Active,
    /// The ingress switch has the rule of the old route. The labels of the new one are not ready; if they are not ready
    /// in time, the leaf is withdrawn.
    Rerouting(Box<Reroute>),
    /// The tables have no capacity for the leaf's rules. The first packet after this time tries again.
    NoCapacity { from: Time },
    /// The packets go through the controller.
    ByController,
}

/// A leaf's change to another route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::engine) struct Reroute {
    pub to: Goal,
    pub route_id: RouteId,
    /// The time when the state began.
    pub since: Time,
    pub until: Time,
}

impl Leaf {
    /// Returns the switch where the leaf's packets enter.
    pub fn ingress(&self) -> Dpid {
        self.witness.at.switch
    }

    /// Reports whether the leaf sends packets nowhere, whatever the topology is.
    pub fn drops(&self) -> bool {
        self.goal.sends_nowhere()
    }

    /// Reports whether the leaf sends packets to whatever place a look-up finds.
    pub fn has_open_route(&self) -> bool {
        self.goal.as_open().is_some()
    }

    /// Returns the hops of the witness packet in a state. `None` if the route can't be followed, or the packet's
    /// destination has gone.
    pub fn hops_of_witness(&self, state: &Snapshot) -> Option<Arc<Resolved>> {
        let goal = self.newest_goal();
        let Some(open) = goal.as_open() else { return goal.now(state) };
        let destination = Mac::from_bits(self.witness.packet().switch_value(Field::EthDst)?);
        open.ending_at(state.host(destination)?.location).now(state)
    }

    /// Returns the bits of the metadata that the leaf's packets have.
    pub fn metadata(&self) -> ReadMetadata {
        let read = self.trace.metadata();
        let extra = self.extra_reads.iter().filter(|read| read.field == Field::Metadata);
        extra.fold(read, |all, read| ReadMetadata {
            value: all.value | read.value as u64,
            mask: all.mask | read.mask as u64,
        })
    }

    /// Returns the part of the leaf that the next run of the controller is to know.
    pub fn remembered(&self) -> Witness {
        let ReceivedPacket { frame, total_len, at, is_made_up, buffer_id: _ } = &self.witness;
        let extra_reads = self.extra_reads.clone();
        Witness {
            at: *at,
            frame: Arc::clone(frame),
            total_len: *total_len,
            extra_reads,
            metadata: self.trace.metadata(),
            is_made_up: *is_made_up,
        }
    }

    /// Reports whether the leaf has its rules, or gets them with the next update.
    pub fn has_rule(&self) -> bool {
        matches!(self.state, LeafState::Active | LeafState::Rerouting(_))
    }

    /// Lets a packet wait until this time, or until the earlier packets go. Returns whether it is the first.
    pub fn hold(&mut self, packet: ReceivedPacket, until: Time) -> bool {
        let is_first = self.held.is_none();
        let held = self.held.get_or_insert_with(|| Box::new(HeldPackets { packets: Vec::new(), until }));
        held.packets.push(packet);
        is_first
    }

    /// Returns the number of packets that wait.
    pub fn count_held(&self) -> usize {
        self.held.as_ref().map_or(0, |held| held.packets.len())
    }

    /// Returns since when the leaf waits for its route; `now` if it does not wait.
    pub fn waiting_since(&self, now: Time) -> Time {
        if let LeafState::Waiting { since, .. } = self.state { since } else { now }
    }

    /// Reports whether the leaf is changing to another route.
    pub fn is_rerouting(&self) -> bool {
        matches!(self.state, LeafState::Rerouting(_))
    }

    /// Returns the time at which its change to another route has to be over, if it is changing.
    pub fn reroute_until(&self) -> Option<Time> {
        if let LeafState::Rerouting(reroute) = &self.state { Some(reroute.until) } else { None }
    }

    /// Returns the route that the leaf has or is changing to.
    pub fn newest_goal(&self) -> &Goal {
        if let LeafState::Rerouting(reroute) = &self.state { &reroute.to } else { &self.goal }
    }
}

/// Returns the observations of a run, and the source lines that decided, as text.
pub(in crate::engine) fn trace_text(trace: &Trace) -> String {
    let items: Vec<String> = trace.steps().map(|step| step.to_string()).collect();
    format!("[{}] at {}", items.join("; "), source_lines(trace))
}

/// Returns the source lines that decided, each once, in order.
pub(in crate::engine) fn source_lines(trace: &Trace) -> String {
    let mut lines: Vec<String> = Vec::new();
    for source in trace.steps().filter_map(|step| step.source()) {
        let line = source.to_string();
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines.join(", ")
}
