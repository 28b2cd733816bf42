//! Topology discovery: sends probes out of every port, to find out which ports lead to hosts and which to switches.
//!
//! A state machine without I/O. Each shard has one, for the ports of its own switches. A port that comes up is *new*.
//! It is probed at once, a few times more in quick succession, and then every few seconds. If no switch is found after
//! the quick probes, it is an *edge port*. A probe that arrives at a port shows which port reaches this one. The
//! sender's discovery gets a message ([`PeerMessage::ProbeReceived`]), so it learns which port *its* port reaches. When
//! both directions agree, the port is a *link port*. A port with one known direction is neither: nothing is learned
//! from it, and nothing is sent by it.
//!
//! Each end of a link draws its own conclusions. A link ends at once when the port or the switch at either end goes
//! down ([`PeerMessage::PortGone`]). A peer that is known in one direction only does not affect an existing link.
//!
//! *Bridges.* Compliant bridges do not forward LLDP, so probes also go out as broadcasts ([`ProbeForm`]): the first
//! ones of a port, one in a few later, and every one if another switch receives nothing else. If a port has a link with
//! one other port, a bridge may be between them. If it has several peers, there certainly is one
//! ([`Attachment::Segment`]). The engine decides how to use a segment (`maple_core`, `engine/topology/segments/`).
//!
//! A switch without a connection is *unreachable*: nothing is concluded from probes that do not arrive there or come
//! from there. Its links end by what their other ends report. If a port had a link with that switch, went down and came
//! up again, it stays new: the other end can't be asked. When the switch is back, its waits begin anew.
//!
//! A link also ends when several probes in a row did not arrive at its other end, but never because this controller was
//! late. The sender counts probes that have left, not time, so a shard that a slow policy delays misses nothing. Before
//! a link ends, the sender asks the other end ([`PeerMessage::Unanswered`]). The other shard delivers this message only
//! when it has read everything that the switch had sent. Messages between two shards stay in order, so an answer that
//! was on its way arrives first.
//!
//! What hosts can do: a probe carries an authentication code and the time when it was sent (`frame.rs`). A modified or
//! forged probe is counted and ignored, whatever port it arrives at. So is a probe that was older than
//! [`Timing::flight`] on arrival. Each form of a probe counts once at each port. A host that is attached twice and
//! forwards everything at once in both directions is a wire, and looks like one.
//!
//! Cost: one heap entry for each port; O(log ports) for each probe sent or received.

mod declare;
mod discovery_output;
mod frame;
mod port;
mod unreachable;

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::Arc;
use std::time::Duration;

use maple_core::engine::Time;
use maple_core::network::{Facts, Location, PortRole};
use maple_wire::msg::{PortReason, PortStatus};
use maple_wire::{Dpid, Port};

use discovery_output::gone;
pub use discovery_output::{Anomaly, DiscoveryOutput, PeerMessage, ProbeOrigin};
pub use frame::{Key, ParsedProbe, Probe, ProbeForm, is_probe};
pub use port::Attachment;
use port::PortState;

use crate::time::after;
pub use unreachable::IsUnreachable;

/// The intervals of probes, and the times for which findings are valid.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// The time between the quick probes of a port that has come up.
    pub fast: Duration,
    /// The number of quick probes. After one more such interval, a port without a peer is an edge port.
    pub fast_probes: u32,
    /// The time between later probes. Each time it is up to a tenth longer or shorter, so that probes spread.
    pub interval: Duration,
    /// The number of probes in a row that may stay unanswered before the other end is asked.
    pub missed: u32,
    /// The longest time that a probe can take. Older probes count as replayed.
    pub flight: Duration,
}

impl Default for Timing {
    fn default() -> Timing {
        // Chosen: the kind of a port that comes up is known within half a second, and a switch of 48 ports sends ten
        // probes a second afterwards. A link that carries probes in one direction only is found after 15 s. A probe
        // takes milliseconds, and longer only through a controller or a switch that is busy.
        Timing {
            fast: Duration::from_millis(100),
            fast_probes: 3,
            interval: Duration::from_secs(5),
            missed: 3,
            flight: Duration::from_secs(2),
        }
    }
}

impl Timing {
    /// Returns how long a finding is valid.
    fn validity(&self) -> Duration {
        self.interval * self.missed + self.interval / 2
    }

    /// Returns how long a new port waits for peers.
    fn grace_period(&self) -> Duration {
        self.fast * self.fast_probes
    }
}

/// Discovery for the switches of one shard.
#[derive(Debug)]
pub struct Discovery {
    key: Key,
    /// The key of the controller that this one took over from, and until when probes of that one may arrive.
    former: Option<(Key, Time)>,
    timing: Timing,
    ports: BTreeMap<Location, PortState>,
    /// Switches without a connection: no probe leaves or arrives there, which says nothing about their links.
    unreachable: BTreeSet<Dpid>,
    /// Asks whether a switch is unreachable at any shard.
    is_unreachable: IsUnreachable,
    /// The peers of ports that went down or lost their link, until something else is found there.
    former_peers: BTreeMap<Location, BTreeSet<Location>>,
    /// Ports that are never probed, because what is attached would forward probes.
    unprobed: BTreeSet<Location>,
    /// The declared roles of ports.
    facts: Arc<Facts>,
    /// Declared edge ports that are up, and whether LLDP at them was reported. They are not probed.
    edges: BTreeMap<Location, bool>,
    /// Deadlines by port. An entry is valid only if the port still has this time.
    schedule: BinaryHeap<Reverse<(Time, Location)>>,
    /// The random generator that spreads probes.
    spread: fastrand::Rng,
}

impl Discovery {
    /// Creates a discovery without switches. `seed` starts the random generator that spreads probes.
    pub fn new(key: Key, timing: Timing, seed: u64) -> Discovery {
        Discovery {
            key,
            former: None,
            timing,
            ports: BTreeMap::new(),
            unreachable: BTreeSet::new(),
            is_unreachable: IsUnreachable::default(),
            former_peers: BTreeMap::new(),
            unprobed: BTreeSet::new(),
            facts: Arc::default(),
            edges: BTreeMap::new(),
            schedule: BinaryHeap::new(),
            spread: fastrand::Rng::with_seed(seed),
        }
    }

    /// Excludes these ports from probing. They are edge ports as soon as they are up.
    pub fn without(self, unprobed: BTreeSet<Location>) -> Discovery {
        Discovery { unprobed, ..self }
    }

    /// Asks `is_unreachable` whether a switch is unreachable at any shard.
    #[must_use]
    pub fn asking(self, is_unreachable: IsUnreachable) -> Discovery {
        Discovery { is_unreachable, ..self }
    }

    /// Takes over from a controller with this key, if there is one. Its probes that still arrive soon after a switch
    /// has come are not forgeries. They are ignored, because their times are of another clock.
    pub fn in_place_of(self, former: Option<Key>) -> Discovery {
        Discovery { former: former.map(|key| (key, Time(0))), ..self }
    }

    /// Applies declared roles of ports. A declared edge port is one as soon as it is up, and never becomes a link. A
    /// link port is never an edge port. A closed port is not probed.
    pub fn with_facts(self, facts: Arc<Facts>) -> Discovery {
        Discovery { facts, ..self }
    }

    /// Adds a switch that connected, with these ports.
    pub fn on_switch_up(&mut self, now: Time, dpid: Dpid, ports: &[Port], out: &mut Vec<DiscoveryOutput>) {
        self.on_switch_down(now, dpid, out);
        if let Some((_, until)) = &mut self.former {
            *until = after(now, self.timing.flight);
        }
        for port in ports {
            self.on_port_up(now, dpid, port, out);
        }
    }

    /// Adds a switch that connected again. `known` returns what was found at a port before. If that is not found again
    /// soon, it ends in the ordinary way.
    pub fn on_switch_back(
        &mut self,
        now: Time,
        dpid: Dpid,
        ports: &[Port],
        known: impl Fn(Location) -> Attachment,
        out: &mut Vec<DiscoveryOutput>,
    ) {
        self.on_switch_up(now, dpid, ports, out);
        for port in ports {
            let at = Location::new(dpid, port.number);
            if let Some(port) = self.ports.get_mut(&at) {
                port.presume(now, known(at));
            }
        }
    }

    fn ports_of(&self, dpid: Dpid) -> Vec<Location> {
        let all = self.ports.range(Location::new(dpid, maple_wire::PortNo(0))..);
        all.map(|(at, _)| *at).take_while(|at| at.switch == dpid).collect()
    }

    /// Removes a switch that is gone.
    pub fn on_switch_down(&mut self, now: Time, dpid: Dpid, out: &mut Vec<DiscoveryOutput>) {
        self.unreachable.remove(&dpid);
        for at in self.ports_of(dpid) {
            self.on_port_down(now, at, out);
        }
        self.edges.retain(|at, _| at.switch != dpid);
        self.former_peers.retain(|at, _| at.switch != dpid);
    }

    /// Handles a port that was added, deleted or changed.
    pub fn on_port_status(&mut self, now: Time, dpid: Dpid, status: &PortStatus, out: &mut Vec<DiscoveryOutput>) {
        let at = Location::new(dpid, status.port.number);
        if status.reason == PortReason::Delete || !status.port.is_up() {
            self.on_port_down(now, at, out);
        } else if status.reason == PortReason::Add || !self.knows(at) {
            self.on_port_down(now, at, out);
            self.on_port_up(now, dpid, &status.port, out);
        }
    }

    /// Reports whether a port is known to be up.
    fn knows(&self, at: Location) -> bool {
        self.ports.contains_key(&at) || self.edges.contains_key(&at)
    }

    /// Handles an LLDP frame or broadcast probe ([`is_probe`]) that arrived at `since` or later.
    pub fn on_lldp(
        &mut self,
        now: Time,
        since: Time,
        at: Location,
        frame: &[u8],
        out: &mut Vec<DiscoveryOutput>,
    ) -> ProbeOrigin {
        let parsed = Probe::parse(self.key, frame);
        let is_former = parsed == ParsedProbe::Forged
            && self.former.is_some_and(|(key, until)| {
                since.min(now) <= until && matches!(Probe::parse(key, frame), ParsedProbe::Own(..))
            });
        if let Some(reported) = self.edges.get_mut(&at) {
            let first = !std::mem::replace(reported, true);
            out.push(DiscoveryOutput::Anomaly { at, anomaly: Anomaly::AtEdge, first });
            // The other end leads to a port of ours, so it is not an edge port.
            if let ParsedProbe::Own(probe, _) = parsed
                && probe.from != at
                && since.min(now) <= after(probe.sent, self.timing.flight)
            {
                let message = PeerMessage::ProbeReceived { by: at, sent: probe.sent };
                out.push(DiscoveryOutput::Message { to: probe.from, message });
            }
        }
        if parsed == ParsedProbe::Foreign {
            return ProbeOrigin::Foreign;
        }
        if let Some(port) = self.ports.get_mut(&at) {
            match parsed {
                ParsedProbe::Own(probe, form) => self.on_probe(now, since, at, probe, form, out),
                _ if is_former => {}
                _ => port.report(at, Anomaly::Forged, out),
            }
        }
        ProbeOrigin::Own
    }

    /// Handles a probe with a valid code.
    fn on_probe(
        &mut self,
        now: Time,
        since: Time,
        at: Location,
        probe: Probe,
        form: ProbeForm,
        out: &mut Vec<DiscoveryOutput>,
    ) {
        let Some(port) = present(&mut self.ports, at) else { return };
        if probe.from == at {
            return port.report(at, Anomaly::Reflected, out);
        }
        if after(probe.sent, self.timing.flight) < since.min(now) || port.was_received(probe, form) {
            return port.report(at, Anomaly::Replayed, out);
        }
        if !port.record_received(now, probe, form, &self.timing) {
            return port.report(at, Anomaly::TooManyPeers, out);
        }
        out.push(DiscoveryOutput::Message {
            to: probe.from,
            message: PeerMessage::ProbeReceived { by: at, sent: probe.sent },
        });
        self.conclude(now, at, out);
        // The other end came up after this port's last probe, so do not make it wait for the next one.
        if self.ports.get(&at).is_some_and(|port| port.wants_answer(now, probe.from, &self.timing)) {
            self.probe(now, at, out);
        }
    }

    /// Handles a message from the other end about this discovery's port `at`.
    pub fn on_peer_message(&mut self, now: Time, at: Location, message: PeerMessage, out: &mut Vec<DiscoveryOutput>) {
        let Some(port) = self.ports.get_mut(&at) else {
            if let PeerMessage::Unanswered { peer, .. } = message {
                out.push(gone(peer, at, now));
            }
            return;
        };
        match message {
            PeerMessage::ProbeReceived { by, sent } => {
                if port.is_from_before(sent) {
                    return;
                }
                if !port.accepts(by, sent) {
                    // Not an anomaly if the probe is old: it arrived in time, but this report or this shard was late.
                    if now <= after(sent, self.timing.flight) && !port.is_reported(by, sent) {
                        port.report(at, Anomaly::Replayed, out);
                    }
                    return;
                }
                if !port.record_reported(now, by, sent, &self.timing) {
                    return port.report(at, Anomaly::TooManyPeers, out);
                }
            }
            PeerMessage::Unanswered { peer, sent } => {
                // While the switch had no connection, probes that arrived there could not be reported.
                if port.received_after(peer, sent) || port.is_deaf(now) || self.unreachable.contains(&at.switch) {
                    return;
                }
                // A port that ends a link sends this message by itself.
                if !port.attachment.peers().contains(&peer) {
                    out.push(gone(peer, at, now));
                }
                if !port.forget(peer, now) {
                    return;
                }
            }
            PeerMessage::PortGone { peer, when } => {
                if !port.forget(peer, when) {
                    return;
                }
                self.restart(now, at, out);
            }
        }
        self.conclude(now, at, out);
    }

    /// Returns the latest time for the next call of [`Discovery::on_timer`].
    pub fn deadline(&self) -> Option<Time> {
        self.schedule.peek().map(|Reverse((time, _))| *time)
    }

    /// Runs the deadlines that have passed.
    pub fn on_timer(&mut self, now: Time, out: &mut Vec<DiscoveryOutput>) {
        while let Some(Reverse((time, at))) = self.schedule.peek().copied() {
            if time > now {
                break;
            }
            self.schedule.pop();
            let is_asleep = self.unreachable.contains(&at.switch);
            if !is_asleep && self.ports.get(&at).is_some_and(|port| port.next == time) {
                self.conclude(now, at, out);
                self.ask_peers(now, at, out);
                self.probe_after_grace(now, at, out);
            }
        }
    }

    /// Probes a port, unless it is a new port whose grace period ends soon because its last quick probe left late. Then
    /// waits for that, so that the conclusion does not come a whole interval later.
    fn probe_after_grace(&mut self, now: Time, at: Location, out: &mut Vec<DiscoveryOutput>) {
        let Some(port) = present(&mut self.ports, at) else { return };
        match port.grace_ends_soon(now, &self.timing) {
            Some(end) => {
                port.next = end;
                self.schedule.push(Reverse((end, at)));
            }
            None => self.probe(now, at, out),
        }
    }

    /// Asks the other ends of a link whether they receive probes, after too many without an answer.
    fn ask_peers(&mut self, now: Time, at: Location, out: &mut Vec<DiscoveryOutput>) {
        let Some(port) = present(&mut self.ports, at) else { return };
        for (peer, sent) in port.unanswered(now, &self.timing) {
            out.push(DiscoveryOutput::Message { to: peer, message: PeerMessage::Unanswered { peer: at, sent } });
        }
    }

    /// Returns the frames of a probe that leaves by this port at `now`, LLDP first; none if the port has gone down
    /// since the probe was due.
    pub fn frames(&mut self, now: Time, at: Location) -> Vec<Vec<u8>> {
        let Some(port) = self.ports.get_mut(&at) else { return Vec::new() };
        let (sent, forms) = port.stamp(now);
        port.wait_until(after(now, self.timing.fast));
        let (key, hw_addr, validity) = (self.key, port.hw_addr, self.timing.validity());
        forms.into_iter().map(|form| Probe { from: at, sent }.frame(key, form, hw_addr, validity)).collect()
    }

    fn on_port_up(&mut self, now: Time, dpid: Dpid, port: &Port, out: &mut Vec<DiscoveryOutput>) {
        if !port.number.is_ordinary_or_local() || !port.is_up() {
            return;
        }
        let at = Location::new(dpid, port.number);
        match self.facts.role(at) {
            PortRole::Closed => return,
            PortRole::Edge => drop(self.edges.insert(at, false)),
            PortRole::Any | PortRole::Link => {}
        }
        if self.unprobed.contains(&at) || self.edges.contains_key(&at) {
            return out.push(DiscoveryOutput::Attachment { at, now: Attachment::Edge, before: Attachment::New });
        }
        self.ports.insert(at, PortState::new(port.hw_addr, now, after(now, self.timing.grace_period())));
        self.probe(now, at, out);
    }

    fn on_port_down(&mut self, now: Time, at: Location, out: &mut Vec<DiscoveryOutput>) {
        self.edges.remove(&at);
        // A port that is not probed has no peers.
        if let Some(port) = self.ports.remove(&at) {
            let linked = port.attachment.peers();
            self.keep_former(at, linked);
            out.extend(port.peers().into_iter().map(|peer| gone(peer, at, now)));
        }
    }

    /// Starts the quick probes again.
    fn restart(&mut self, now: Time, at: Location, out: &mut Vec<DiscoveryOutput>) {
        if let Some(port) = self.ports.get_mut(&at) {
            port.probes = 0;
            self.probe(now, at, out);
        }
    }

    /// Sends a probe and schedules the next one.
    fn probe(&mut self, now: Time, at: Location, out: &mut Vec<DiscoveryOutput>) {
        if self.unreachable.contains(&at.switch) {
            return;
        }
        let interval = self.next_interval();
        let Some(port) = present(&mut self.ports, at) else { return };
        port.latest = port.latest.max(now);
        port.probes = port.probes.saturating_add(1);
        port.next =
            if port.probes <= self.timing.fast_probes { after(now, self.timing.fast) } else { after(now, interval) };
        self.schedule.push(Reverse((port.next, at)));
        out.push(DiscoveryOutput::Probe { at });
    }

    /// Concludes what is attached to the port, and outputs the conclusion if it is new.
    fn conclude(&mut self, now: Time, at: Location, out: &mut Vec<DiscoveryOutput>) {
        // A port that is down, or at the edge by declaration, is not probed.
        let Some(port) = self.ports.get_mut(&at) else { return };
        let mut attachment = port.conclusion(now, &self.timing);
        if attachment == Attachment::Edge && self.facts.role(at) == PortRole::Link {
            attachment = Attachment::New;
            // The other switch may come later than this one.
            if port.probes > self.timing.fast_probes + self.timing.missed {
                port.report(at, Anomaly::NoLink, out);
            }
        }
        let former = self.former_peers.get(&at);
        if attachment == Attachment::Edge
            && former.is_some_and(|all| all.iter().any(|peer| self.is_unreachable.ask(peer.switch)))
        {
            attachment = Attachment::New;
        }
        let before = std::mem::replace(&mut port.attachment, attachment.clone());
        if port.is_one_way(now, &self.timing) {
            port.report(at, Anomaly::OneWay, out);
        }
        if port.is_lldp_filtered() {
            port.report(at, Anomaly::Bridged, out);
        }
        if attachment == before {
            return;
        }
        let lost: Vec<Location> = before.peers().difference(&attachment.peers()).copied().collect();
        if !lost.is_empty() {
            // This port stayed up, so the other switch may only have lost its connection: wait for it longer.
            port.wait_until(after(now, self.timing.validity()));
        }
        match &attachment {
            Attachment::New => self.keep_former(at, before.peers()),
            _ => drop(self.former_peers.remove(&at)),
        }
        out.push(DiscoveryOutput::Attachment { at, now: attachment, before });
        out.extend(lost.into_iter().map(|peer| gone(peer, at, now)));
    }

    /// Returns the time to the next probe: the interval, up to a tenth longer or shorter.
    fn next_interval(&mut self) -> Duration {
        let part = self.spread.u32(..2048);
        self.timing.interval * 9 / 10 + self.timing.interval / 5 * part / 2048
    }
}

/// Returns a port that must be probed, because something of it is being handled.
fn present(ports: &mut BTreeMap<Location, PortState>, at: Location) -> Option<&mut PortState> {
    let port = ports.get_mut(&at);
    debug_assert!(port.is_some(), "{at} is not probed");
    port
}
