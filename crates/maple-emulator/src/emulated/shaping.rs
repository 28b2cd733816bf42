//! Links that lose or delay frames, and ports whose rate is bounded or shared by queues.

use maple_switch::time::Nanoseconds;
use maple_switch::{Lost, QueueRates};
use maple_wire::{Dpid, PortNo};

use super::agenda::Event;
use super::egress::{Egress, Limits};
use super::frames::InFlight;
use super::log::{Drop, FrameId, Outcome};
use super::{EmulatedNetwork, Link, NetworkError};

/// The waiting frames of a port, and its limits.
#[derive(Debug)]
pub(super) struct ShapedPort {
    limits: Limits,
    egress: Egress<InFlight>,
}

impl EmulatedNetwork {
    /// Sets the delay of frames on the links between two switches, in nanoseconds.
    ///
    /// # Errors
    /// [`NetworkError`] if there is no link between them.
    pub fn set_link_delay(&mut self, a: Dpid, b: Dpid, delay: Nanoseconds) -> Result<(), NetworkError> {
        self.change_links(a, b, |link| link.spec.delay = delay)
    }

    /// Sets the share of frames, 0.0 to 1.0, that the links between two switches lose.
    ///
    /// # Errors
    /// [`NetworkError`] if there is no link between them, or if the share is outside 0.0 to 1.0.
    pub fn set_link_loss(&mut self, a: Dpid, b: Dpid, loss: f64) -> Result<(), NetworkError> {
        if !(0.0..=1.0).contains(&loss) {
            return Err(NetworkError::BadLoss(loss));
        }
        self.change_links(a, b, |link| link.spec.loss = loss)
    }

    /// Sets or removes the maximum rate of the links between two switches in each direction, in bits a second.
    ///
    /// # Errors
    /// [`NetworkError`] if there is no link between them.
    pub fn set_link_rate(&mut self, a: Dpid, b: Dpid, rate: Option<u64>) -> Result<(), NetworkError> {
        self.change_links(a, b, |link| link.spec.rate = rate)?;
        let between = |link: &&Link| [(a, b), (b, a)].contains(&(link.spec.a.0, link.spec.b.0));
        let ends: Vec<_> = self.links.iter().filter(between).flat_map(|link| [link.spec.a, link.spec.b]).collect();
        ends.into_iter().try_for_each(|(dpid, port)| self.set_port_rate(dpid, port, rate))
    }

    fn change_links(&mut self, a: Dpid, b: Dpid, change: impl FnMut(&mut Link)) -> Result<(), NetworkError> {
        let between = |link: &&mut Link| [(a, b), (b, a)].contains(&(link.spec.a.0, link.spec.b.0));
        let changed = self.links.iter_mut().filter(between).map(change).count();
        if changed == 0 { Err(NetworkError::NoLink(a, b)) } else { Ok(()) }
    }

    /// Sets or removes the maximum rate at which frames leave a switch by a port, in bits a second.
    ///
    /// # Errors
    /// [`NetworkError`] if there is no such port.
    pub fn set_port_rate(&mut self, dpid: Dpid, port: PortNo, rate: Option<u64>) -> Result<(), NetworkError> {
        self.with_port(dpid, port, |switch| switch.set_port_rate(port, rate))?;
        self.reshape(dpid, port);
        Ok(())
    }

    /// Adds, changes or removes a queue of a port.
    ///
    /// # Errors
    /// [`NetworkError`] if there is no such port.
    pub fn set_queue(
        &mut self,
        dpid: Dpid,
        port: PortNo,
        queue: u32,
        rates: Option<QueueRates>,
    ) -> Result<(), NetworkError> {
        let now = self.now;
        self.with_port(dpid, port, |switch| {
            switch.set_queue(now, port, queue, rates);
            Vec::new()
        })?;
        self.reshape(dpid, port);
        Ok(())
    }

    /// Updates the limits of a port from its switch's settings.
    fn reshape(&mut self, dpid: Dpid, port: PortNo) {
        let Some(switch) = self.nodes.get(&dpid).map(|node| &node.switch) else { return };
        let queues = switch.queues().filter(|((at, _), _)| *at == port).map(|((_, id), queue)| (id, queue.rates));
        let limits = Limits { rate: switch.ports().get(&port).and_then(|port| port.rate), queues: queues.collect() };
        let shaped = self.shaped.entry((dpid, port));
        shaped.or_insert_with(|| ShapedPort { limits: Limits::default(), egress: Egress::new() }).limits = limits;
        self.drain(dpid, port);
    }

    /// Queues a frame at a port with a bounded rate.
    pub(super) fn queue_up(&mut self, dpid: Dpid, port: PortNo, queue: Option<u32>, flight: InFlight) {
        let Some(ShapedPort { limits, egress }) = self.shaped.get_mut(&(dpid, port)) else { return };
        let queue = queue.filter(|queue| limits.queues.contains_key(queue));
        let bytes = flight.frame.len();
        if let Err(flight) = egress.put(self.now, queue, bytes, flight) {
            if let Some(node) = self.nodes.get_mut(&dpid) {
                node.switch.queue_dropped(port, queue, bytes);
            }
            self.note(&flight, Outcome::Dropped(dpid, Drop::QueueFull));
        }
        self.drain(dpid, port);
    }

    /// Reports whether a copy of this frame waits at a port with a bounded rate.
    pub(super) fn waits_at_port(&self, id: FrameId) -> bool {
        self.shaped.values().any(|shaped| shaped.egress.frames().any(|flight| flight.id == id))
    }

    /// Sends the frames that may leave by a port now, and schedules the next check.
    pub(super) fn drain(&mut self, dpid: Dpid, port: PortNo) {
        let now = self.now;
        loop {
            let Some(ShapedPort { limits, egress }) = self.shaped.get_mut(&(dpid, port)) else { return };
            if egress.timer.is_some_and(|timer| timer <= now) {
                egress.timer = None;
            }
            let Some(leaving) = egress.next(now, limits) else { break };
            let Some(node) = self.nodes.get_mut(&dpid) else { return };
            if node.switch.ports().get(&port).is_some_and(|port| port.description.is_up()) {
                node.switch.queue_sent(port, leaving.queue, leaving.bytes);
                self.send_out(dpid, port, leaving.frame, leaving.takes);
            } else {
                node.switch.queue_dropped(port, leaving.queue, leaving.bytes);
                self.note(&leaving.frame, Outcome::Dropped(dpid, Drop::Switch(Lost::PortDown(port))));
            }
        }
        let Some(ShapedPort { limits, egress }) = self.shaped.get_mut(&(dpid, port)) else { return };
        match egress.due() {
            None if *limits == Limits::default() => drop(self.shaped.remove(&(dpid, port))),
            Some(at) if egress.timer.is_none_or(|timer| at < timer) => {
                egress.timer = Some(at);
                self.at(at, Event::Egress(dpid, port));
            }
            _ => {}
        }
    }
}
