//! Discovery at this shard: gives [`Discovery`] what comes from switches, and performs its outputs.
//!
//! Probes leave after the engine's rules, so that a switch has the rule for LLDP before it sees any.

use std::sync::Arc;

use maple_core::engine::{Event, Time};
use maple_core::network::{Facts, Location};
use maple_wire::msg::{PacketIn, PortStatus};
use maple_wire::{Dpid, Port};

use super::context::Context;
use super::mailbox::ShardMessage;
use crate::discovery::{Anomaly, Attachment, Discovery, DiscoveryOutput, PeerMessage, ProbeOrigin};
use crate::notice::Notice;

/// Finds what the ports of a shard's switches are attached to.
pub(super) struct Links {
    discovery: Discovery,
    outputs: Vec<DiscoveryOutput>,
    /// The ports that probes leave by in this turn.
    probes: Vec<Location>,
    /// Messages for discovery that wait until everything their switch has sent is read.
    deferred: Vec<(Location, PeerMessage)>,
}

impl Links {
    /// Creates the links of a shard that has no switches.
    pub fn new(discovery: Discovery) -> Links {
        Links { discovery, outputs: Vec::new(), probes: Vec::new(), deferred: Vec::new() }
    }

    /// Begins to probe the ports of a switch.
    pub fn on_switch_up(&mut self, now: Time, dpid: Dpid, ports: &[Port]) {
        self.discovery.on_switch_up(now, dpid, ports, &mut self.outputs);
    }

    /// Begins to probe the ports of a switch whose attachments are known.
    pub fn on_switch_back(&mut self, now: Time, dpid: Dpid, ports: &[Port], known: impl Fn(Location) -> Attachment) {
        self.discovery.on_switch_back(now, dpid, ports, known, &mut self.outputs);
    }

    /// Forgets a switch.
    pub fn on_switch_down(&mut self, now: Time, dpid: Dpid) {
        self.discovery.on_switch_down(now, dpid, &mut self.outputs);
    }

    /// Concludes nothing from missing probes of a switch until [`Links::resume`].
    pub fn suspend(&mut self, dpid: Dpid) {
        self.discovery.suspend(dpid);
    }

    /// Probes a switch again.
    pub fn resume(&mut self, now: Time, dpid: Dpid) {
        self.discovery.resume(now, dpid, &mut self.outputs);
    }

    /// Handles the change of a port.
    pub fn on_port_status(&mut self, now: Time, dpid: Dpid, status: &PortStatus) {
        self.discovery.on_port_status(now, dpid, status, &mut self.outputs);
    }

    /// Takes an LLDP frame or broadcast probe, which came after `since`. Returns `false` if another device made it.
    pub fn take_probe(&mut self, now: Time, since: Time, dpid: Dpid, packet_in: &PacketIn) -> bool {
        // A packet without a port is the engine's to refuse.
        packet_in.in_port().is_some_and(|port| {
            let at = Location::new(dpid, port);
            self.discovery.on_lldp(now, since, at, &packet_in.data, &mut self.outputs) == ProbeOrigin::Own
        })
    }

    /// Handles a message of another shard. That a probe is not answered waits until the switch is read empty.
    pub fn on_message(&mut self, now: Time, at: Location, message: PeerMessage) {
        match message {
            PeerMessage::Unanswered { .. } => self.deferred.push((at, message)),
            message => self.discovery.on_peer_message(now, at, message, &mut self.outputs),
        }
    }

    /// Handles the deferred messages about switches whose sockets are read empty.
    pub fn deliver_deferred(&mut self, now: Time, mut is_waiting: impl FnMut(Dpid) -> bool) {
        for (at, message) in std::mem::take(&mut self.deferred) {
            if is_waiting(at.switch) {
                self.deferred.push((at, message));
            } else {
                self.discovery.on_peer_message(now, at, message, &mut self.outputs);
            }
        }
    }

    /// Replaces what is declared of ports.
    pub fn declare<'a>(&mut self, now: Time, facts: &Arc<Facts>, switches: impl Iterator<Item = (Dpid, &'a [Port])>) {
        self.discovery.declare(now, facts, switches, &mut self.outputs);
    }

    /// Returns the time of the next deadline.
    pub fn deadline(&self) -> Option<Time> {
        self.discovery.deadline()
    }

    /// Handles the deadline, if it has passed.
    pub fn on_timer(&mut self, now: Time) {
        if self.discovery.deadline().is_some_and(|deadline| deadline <= now) {
            self.discovery.on_timer(now, &mut self.outputs);
        }
    }

    /// Performs discovery's outputs. Probes wait until the engine's messages of this turn are sent.
    pub fn follow(&mut self, ctx: &mut Context) {
        let mut outputs = std::mem::take(&mut self.outputs);
        while !outputs.is_empty() {
            for output in outputs.drain(..) {
                self.perform(output, ctx);
            }
            std::mem::swap(&mut outputs, &mut self.outputs);
        }
        self.outputs = outputs;
    }

    fn perform(&mut self, output: DiscoveryOutput, ctx: &mut Context) {
        match output {
            DiscoveryOutput::Probe { at } => self.probes.push(at),
            DiscoveryOutput::Message { to, message } => match ctx.registry.shard_of(to.switch) {
                Some(shard) if shard == ctx.id && !matches!(message, PeerMessage::Unanswered { .. }) => {
                    self.discovery.on_peer_message(ctx.now, to, message, &mut self.outputs)
                }
                Some(shard) => ctx.outgoing.send(shard, ShardMessage::Discovery(to, message)),
                // The switch has gone meanwhile, and its ports with it.
                None => {}
            },
            DiscoveryOutput::Attachment { at, now, before } => ctx.events.push(event_of(at, now, &before)),
            DiscoveryOutput::Anomaly { at, anomaly, first } => report(at, anomaly, first, ctx),
        }
    }

    /// Takes the frames of this turn's probes, each with the port that it leaves by.
    pub fn take_probes(&mut self, now: Time, mut send: impl FnMut(Location, Vec<u8>)) {
        let mut probes = std::mem::take(&mut self.probes);
        for at in probes.drain(..) {
            for frame in self.discovery.frames(now, at) {
                send(at, frame);
            }
        }
        self.probes = probes;
    }

    /// Reports whether probes are to leave in this turn.
    pub fn has_probes(&self) -> bool {
        !self.probes.is_empty()
    }
}

/// Counts an anomaly, and reports the first of its kind at a port.
fn report(at: Location, anomaly: Anomaly, first: bool, ctx: &mut Context) {
    let counters = &mut ctx.counters;
    match anomaly {
        Anomaly::Forged => counters.lldp_forged += 1,
        Anomaly::Replayed => counters.lldp_replayed += 1,
        Anomaly::Reflected => counters.lldp_reflected += 1,
        Anomaly::TooManyPeers => counters.lldp_too_many_peers += 1,
        Anomaly::OneWay => counters.lldp_one_way += 1,
        Anomaly::Bridged => counters.lldp_bridged += 1,
        Anomaly::AtEdge => counters.lldp_at_edge += 1,
        Anomaly::NoLink => counters.lldp_no_link += 1,
    }
    if first {
        ctx.notices.publish(Notice::Discovery { at, anomaly });
    }
}

/// Returns the engine's event for a change of what is attached to a port.
fn event_of(at: Location, now: Attachment, before: &Attachment) -> Event {
    match (now, before) {
        (Attachment::Edge, _) => Event::PortIsEdge { port: at },
        (Attachment::Link(peer), _) => Event::LinkUp { a: at, b: peer },
        (Attachment::Segment(others), _) => Event::Segment { ports: others.into_iter().chain([at]).collect() },
        (Attachment::New, Attachment::Link(peer)) => Event::LinkDown { a: at, b: *peer },
        (Attachment::New, Attachment::Segment(_)) => Event::SegmentLeft { port: at },
        (Attachment::New, _) => Event::PortIsNew { port: at },
    }
}
