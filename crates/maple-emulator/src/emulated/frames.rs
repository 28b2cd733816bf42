//! The way of frames: from hosts, over wires, through switches, to hosts.

use maple_switch::time::Nanoseconds;
use maple_switch::{Outgoing, PassedTable};
use maple_wire::msg::Message;
use maple_wire::{Dpid, PortNo};

use super::agenda::Event;
use super::channel::ChannelId;
use super::log::{Delivery, Drop, EnteredFrame, FrameId, Hop, Origin, Outcome};
use super::{EmulatedNetwork, NetworkError, Wire};
use crate::host::{ATTEMPTS, FlowId, FlowKind, StreamId, StreamSpec};
use crate::pairs;

/// One copy of a frame between two places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct InFlight {
    pub id: FrameId,
    pub frame: Vec<u8>,
    pub path: Vec<Hop>,
}

/// The frame whose arrival at a switch caused something.
#[derive(Clone, Debug)]
pub(super) struct Cause {
    pub flight: InFlight,
    pub in_port: PortNo,
}

impl EmulatedNetwork {
    /// Puts a frame into the network at a switch's port, as a device plugged in there would.
    ///
    /// # Errors
    /// [`NetworkError`] if there is no such port.
    pub fn inject(&mut self, dpid: Dpid, port: PortNo, frame: Vec<u8>) -> Result<FrameId, NetworkError> {
        let node = self.nodes.get(&dpid).ok_or(NetworkError::NoSwitch(dpid))?;
        if !node.switch.ports().contains_key(&port) {
            return Err(NetworkError::NoPort(dpid, port));
        }
        Ok(self.enter(Origin::Port(dpid, port), frame, self.options.host_delay))
    }

    /// Puts a frame into the network as if this host had sent it.
    ///
    /// # Errors
    /// [`NetworkError`] if there is no such host.
    pub fn inject_from(&mut self, host: &str, frame: Vec<u8>) -> Result<FrameId, NetworkError> {
        let spec = self.host(host).ok_or_else(|| NetworkError::NoHost(host.to_string()))?.spec();
        let (dpid, port) = (spec.switch, spec.port);
        self.inject(dpid, port, frame)
    }

    /// Makes a host open a flow to another host, over IPv4 or, with `ipv6`, over IPv6.
    ///
    /// # Errors
    /// [`NetworkError`] if one of them does not exist.
    pub fn open_flow(&mut self, src: &str, dst: &str, kind: FlowKind, ipv6: bool) -> Result<FlowId, NetworkError> {
        self.open_flow_with(src, dst, kind, ipv6, ATTEMPTS)
    }

    /// Opens a flow as [`EmulatedNetwork::open_flow`] does, with at most `patience` attempts for each packet.
    ///
    /// # Errors
    /// [`NetworkError`] if one of them does not exist.
    pub fn open_flow_with(
        &mut self,
        src: &str,
        dst: &str,
        kind: FlowKind,
        ipv6: bool,
        patience: u32,
    ) -> Result<FlowId, NetworkError> {
        let find = |name: &str| {
            let at = self.host_names.get(name).copied();
            at.ok_or_else(|| NetworkError::NoHost(name.to_string()))
        };
        let (src, dst) = (find(src)?, find(dst)?);
        let spec = self.hosts[dst].host.spec();
        let to = if ipv6 { spec.ipv6.into() } else { spec.ipv4.into() };
        let mut out = Vec::new();
        let id = self.hosts[src].host.open_with(self.now, to, kind, patience, &mut out);
        self.host_sends(src, out);
        Ok(id)
    }

    /// Makes a host send UDP datagrams at a rate to another, whose hardware address it knows.
    ///
    /// # Errors
    /// [`NetworkError`] if one of them does not exist, or the first does not know the other.
    pub fn start_stream(&mut self, src: &str, dst: &str, stream: StreamSpec) -> Result<StreamId, NetworkError> {
        let to = self.host(dst).ok_or_else(|| NetworkError::NoHost(dst.to_string()))?.spec().ipv4;
        let at = *self.host_names.get(src).ok_or_else(|| NetworkError::NoHost(src.to_string()))?;
        let id = self.hosts[at].host.stream(self.now, to.into(), stream);
        let id = id.ok_or_else(|| NetworkError::NoNeighbour(src.to_string(), dst.to_string()))?;
        self.schedule_host(at);
        Ok(id)
    }

    /// Makes a host send a gratuitous ARP, as after a move.
    ///
    /// # Errors
    /// [`NetworkError`] if there is no such host.
    pub fn announce(&mut self, host: &str) -> Result<(), NetworkError> {
        let at = self.host_names.get(host).copied();
        let at = at.ok_or_else(|| NetworkError::NoHost(host.to_string()))?;
        let mut out = Vec::new();
        self.hosts[at].host.announce(&mut out);
        self.host_sends(at, out);
        Ok(())
    }

    pub(super) fn host_sends(&mut self, at: usize, frames: Vec<Vec<u8>>) {
        let spec = self.hosts[at].host.spec();
        let origin = Origin::Port(spec.switch, spec.port);
        for frame in frames {
            if let Some(key) = pairs::classify(&frame, |mac| self.host_with(mac)) {
                self.records.pairs.entry(key).or_default().sent += 1;
            }
            self.enter(origin, frame, self.options.host_delay);
        }
        self.schedule_host(at);
    }

    fn host_with(&self, mac: [u8; 6]) -> Option<String> {
        self.host_macs.get(&mac).map(|at| self.hosts[*at].host.spec().name.clone())
    }

    fn enter(&mut self, origin: Origin, frame: Vec<u8>, delay: u64) -> FrameId {
        let flight = self.new_frame(origin, frame);
        let id = flight.id;
        if let Origin::Port(dpid, port) = origin {
            self.at(self.now + delay, Event::AtSwitch(dpid, port, flight));
        }
        id
    }

    /// Gives a frame its id, and adds it to the log.
    pub(super) fn new_frame(&mut self, origin: Origin, frame: Vec<u8>) -> InFlight {
        self.frames += 1;
        let id = FrameId(self.frames);
        self.records.log.enter(EnteredFrame { id, origin, at: self.now, frame: frame.clone() });
        InFlight { id, frame, path: Vec::new() }
    }

    pub(super) fn frame_at_switch(&mut self, dpid: Dpid, port: PortNo, flight: InFlight) {
        if flight.path.len() >= self.options.max_hops {
            self.note(&flight, Outcome::Dropped(dpid, Drop::Loop));
            return;
        }
        let now = self.now;
        let Some(node) = self.nodes.get_mut(&dpid) else { return };
        let outgoing = node.switch.receive(now, port, flight.frame.as_slice());
        self.carry_out(dpid, outgoing, Some(Cause { flight, in_port: port }));
    }

    /// Carries out a switch's outputs, on behalf of the frame that caused them, if there is one.
    pub(super) fn carry_out(&mut self, dpid: Dpid, outgoing: Vec<Outgoing>, cause: Option<Cause>) {
        let record = self.nodes[&dpid].switch.record().clone();
        for item in outgoing {
            match item {
                Outgoing::Message { controller, xid, message } => {
                    if let (Message::PacketIn(packet_in), Some(cause)) = (&message, &cause) {
                        let flight = through(cause, dpid, &record.steps, None, cause.flight.frame.clone());
                        self.note(&flight, Outcome::Controller(dpid));
                        self.punted.put(&packet_in.data, flight);
                    }
                    self.send_to_controller(ChannelId { dpid, controller }, xid, &message);
                }
                Outgoing::Frame { port, queue, frame } => {
                    if let Some(cause) = &cause {
                        let flight = through(cause, dpid, &record.steps, Some(port), frame);
                        self.leave(dpid, port, queue, flight);
                    }
                }
                Outgoing::Close(controller) => self.closed_by_switch(ChannelId { dpid, controller }),
            }
        }
        if let Some(cause) = &cause {
            let flight = through(cause, dpid, &record.steps, None, cause.flight.frame.clone());
            for why in record.lost {
                self.note(&flight, Outcome::Dropped(dpid, Drop::Switch(why)));
            }
        }
        self.schedule_switch(dpid);
    }

    /// Sends a copy out of a switch's port, directly or through its queue.
    fn leave(&mut self, dpid: Dpid, port: PortNo, queue: Option<u32>, flight: InFlight) {
        let copies = self.copies.entry(flight.id).or_default();
        *copies += 1;
        if *copies > self.options.max_copies {
            if *copies == self.options.max_copies + 1 {
                self.note(&flight, Outcome::Dropped(dpid, Drop::Storm));
            }
            return;
        }
        if self.copies.len() > COPIES_KEPT {
            self.copies.pop_first();
        }
        if self.shaped.contains_key(&(dpid, port)) {
            self.queue_up(dpid, port, queue, flight);
        } else {
            self.send_out(dpid, port, flight, 0);
        }
    }

    /// Puts a copy onto the wire of a port: to a link, to a host, or to nowhere. The line takes `takes` (in
    /// nanoseconds) for it.
    pub(super) fn send_out(&mut self, dpid: Dpid, port: PortNo, flight: InFlight, takes: Nanoseconds) {
        match self.wires.get(&(dpid, port)) {
            None => self.note(&flight, Outcome::Egress { dpid, port, host: None }),
            Some(Wire::Host(_)) => {
                self.at(self.now + takes + self.options.host_delay, Event::AtHost(dpid, port, flight));
            }
            Some(Wire::Link(link)) => {
                let link = &self.links[*link];
                if !link.up {
                    self.note(&flight, Outcome::Dropped(dpid, Drop::LinkDown));
                    return;
                }
                if link.spec.loss > 0.0 && self.random.chance(link.spec.loss) {
                    self.note(&flight, Outcome::Dropped(dpid, Drop::Loss));
                    return;
                }
                let (to, to_port) = if link.spec.a == (dpid, port) { link.spec.b } else { link.spec.a };
                self.at(self.now + takes + link.spec.delay, Event::AtSwitch(to, to_port, flight));
            }
        }
    }

    pub(super) fn frame_at_host(&mut self, dpid: Dpid, port: PortNo, flight: InFlight) {
        let Some(Wire::Host(at)) = self.wires.get(&(dpid, port)).copied() else {
            // The host was unplugged meanwhile.
            self.note(&flight, Outcome::Egress { dpid, port, host: None });
            return;
        };
        let spec = self.hosts[at].host.spec();
        let (name, mac) = (spec.name.clone(), spec.mac);
        if flight.frame.starts_with(&mac)
            && let Some(key) = pairs::classify(&flight.frame, |mac| self.host_with(mac))
        {
            self.records.pairs.entry(key).or_default().delivered += 1;
        }
        self.note(&flight, Outcome::Egress { dpid, port, host: Some(name) });
        let mut out = Vec::new();
        self.hosts[at].host.receive(self.now, &flight.frame, &mut out);
        self.host_sends(at, out);
    }

    pub(super) fn note(&mut self, flight: &InFlight, outcome: Outcome) {
        if let Outcome::Dropped(dpid, why) = outcome {
            *self.records.losses.entry((dpid, why)).or_default() += 1;
        }
        let InFlight { id, frame, path } = flight.clone();
        self.records.log.deliver(Delivery { id, at: self.now, outcome, frame, path });
    }
}

/// The number of frames whose copies are counted. Chosen: older ones have long arrived.
const COPIES_KEPT: usize = 10_000;

/// Returns the copy of a frame that has passed one more switch.
fn through(cause: &Cause, dpid: Dpid, steps: &[PassedTable], out_port: Option<PortNo>, frame: Vec<u8>) -> InFlight {
    let mut path = cause.flight.path.clone();
    path.push(Hop { dpid, in_port: cause.in_port, steps: steps.to_vec(), out_port });
    InFlight { id: cause.flight.id, frame, path }
}
