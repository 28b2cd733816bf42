//! The control channels between switches and controller.

use maple_wire::msg::Message;
use maple_wire::{Dpid, PortNo};

use super::agenda::Event;
use super::channel::Direction;
use super::frames::{Cause, InFlight};
use super::log::Origin;
use super::{ControlEvent, EmulatedNetwork, NetworkError};

/// The type byte of a packet-out, in 1.0 and 1.3.
const PACKET_OUT: u8 = 13;

impl EmulatedNetwork {
    /// Makes a switch connect now, if it is not connected and no fault prevents it. Used in networks without
    /// [`super::NetworkOptions::connects`].
    ///
    /// # Errors
    /// [`NetworkError`] if there is no such switch.
    pub fn connect(&mut self, dpid: Dpid) -> Result<(), NetworkError> {
        let epoch = self.nodes.get(&dpid).ok_or(NetworkError::NoSwitch(dpid))?.channel.epoch;
        self.try_connect(dpid, epoch);
        Ok(())
    }

    /// Closes a connection from the controller's side. The switch connects again if it connects by itself
    /// ([`super::NetworkOptions::connects`]).
    ///
    /// # Errors
    /// [`NetworkError`] if there is no such switch.
    pub fn disconnect(&mut self, dpid: Dpid) -> Result<(), NetworkError> {
        let node = self.nodes.get(&dpid).ok_or(NetworkError::NoSwitch(dpid))?;
        if node.channel.up {
            self.hang_up(dpid, false);
            self.reconnect_later(dpid);
        }
        Ok(())
    }

    /// Reports whether the switch has a connection, as the switch sees it.
    pub fn is_connected(&self, dpid: Dpid) -> bool {
        self.nodes.get(&dpid).is_some_and(|node| node.channel.up)
    }

    /// Reports whether a fault keeps the switch from connecting.
    pub fn is_cut(&self, dpid: Dpid) -> bool {
        self.nodes.get(&dpid).is_some_and(|node| node.channel.cut)
    }

    /// The events of a switch since the last call, in order.
    pub fn take_control(&mut self, dpid: Dpid) -> Vec<ControlEvent> {
        self.nodes.get_mut(&dpid).map(|node| node.channel.events.drain(..).collect()).unwrap_or_default()
    }

    /// Returns the messages that a switch has sent since the last call; openings and closings are discarded.
    pub fn to_controller(&mut self, dpid: Dpid) -> Vec<Vec<u8>> {
        let message = |event| match event {
            ControlEvent::Message(bytes) => Some(bytes),
            ControlEvent::Opened | ControlEvent::Closed => None,
        };
        self.take_control(dpid).into_iter().filter_map(message).collect()
    }

    /// Sends bytes from the controller to a switch: whole messages or pieces of them. If the switch is not connected
    /// they are lost, as in a socket.
    ///
    /// # Errors
    /// [`NetworkError`] if there is no such switch.
    pub fn from_controller(&mut self, dpid: Dpid, bytes: &[u8]) -> Result<(), NetworkError> {
        let (now, delay) = (self.now, self.options.control_delay);
        let channel = &mut self.nodes.get_mut(&dpid).ok_or(NetworkError::NoSwitch(dpid))?.channel;
        if !channel.up {
            return Ok(());
        }
        let epoch = channel.epoch;
        let mut arriving = Vec::new();
        for message in channel.messages(bytes) {
            let times = channel.arrivals(now, delay, Direction::ToSwitch, &mut self.random);
            arriving.extend(times.into_iter().map(|at| (at, message.clone())));
        }
        for (at, message) in arriving {
            self.at(at, Event::ControlToSwitch(dpid, epoch, message));
        }
        Ok(())
    }

    pub(super) fn control_at_switch(&mut self, dpid: Dpid, epoch: u64, bytes: &[u8]) {
        let now = self.now;
        let Some(node) = self.nodes.get_mut(&dpid) else { return };
        if !node.channel.up || node.channel.epoch != epoch || node.channel.half_open {
            return;
        }
        let outgoing = node.switch.receive_bytes(now, bytes);
        let cause = self.packet_out_cause(dpid, bytes);
        self.carry_out(dpid, outgoing, cause);
        // The message may have been a port-mod, which neighbours see by the loss of light.
        self.update_carriers(dpid);
    }

    /// Returns the frame that a packet-out sends, identified with the frame that came to the controller.
    fn packet_out_cause(&mut self, dpid: Dpid, bytes: &[u8]) -> Option<Cause> {
        if bytes.get(1) != Some(&PACKET_OUT) {
            return None;
        }
        let Ok((_, Message::PacketOut(packet_out))) = Message::decode(bytes) else { return None };
        // If the controller sends these bytes by the switch by which it first sent them, they are a new frame, not the
        // same one.
        let is_sent_again = |known: &InFlight| {
            known.path.first().is_some_and(|hop| hop.dpid == dpid && hop.in_port == PortNo::CONTROLLER)
        };
        let flight = match self.punted.get(&packet_out.data).filter(|known| !is_sent_again(known)) {
            Some(known) => InFlight { frame: packet_out.data, ..known.clone() },
            None => self.new_frame(Origin::Controller(dpid), packet_out.data),
        };
        Some(Cause { flight, in_port: PortNo::CONTROLLER })
    }

    pub(super) fn send_to_controller(&mut self, dpid: Dpid, xid: u32, message: &Message) {
        let (now, delay) = (self.now, self.options.control_delay);
        let Some(node) = self.nodes.get_mut(&dpid) else { return };
        let mut bytes = Vec::new();
        message
            .encode(node.switch.version(), xid, &mut bytes)
            .expect("a switch says only what its version of OpenFlow can say");
        if !node.channel.up {
            return;
        }
        let epoch = node.channel.epoch;
        for at in node.channel.arrivals(now, delay, Direction::ToController, &mut self.random) {
            self.at(at, Event::ControlToController(dpid, epoch, bytes.clone()));
        }
    }

    pub(super) fn control_at_controller(&mut self, dpid: Dpid, epoch: u64, bytes: Vec<u8>) {
        let Some(node) = self.nodes.get_mut(&dpid) else { return };
        if node.channel.up && node.channel.epoch == epoch {
            node.channel.events.push_back(ControlEvent::Message(bytes));
        }
    }

    pub(super) fn try_connect(&mut self, dpid: Dpid, epoch: u64) {
        let Some(node) = self.nodes.get_mut(&dpid) else { return };
        let channel = &mut node.channel;
        if channel.up || channel.cut || channel.epoch != epoch {
            return;
        }
        channel.up = true;
        channel.epoch += 1;
        channel.input.clear();
        channel.forget_arrivals();
        channel.events.push_back(ControlEvent::Opened);
        let hello = node.switch.connect();
        self.carry_out(dpid, hello, None);
    }

    /// Closes a connection from the switch's side. The switch's earlier messages still arrive.
    pub(super) fn closed_by_switch(&mut self, dpid: Dpid) {
        self.hang_up(dpid, true);
        self.reconnect_later(dpid);
    }

    /// Ends a connection. Messages in flight to the controller arrive first if `delivering`, and are lost otherwise.
    pub(super) fn hang_up(&mut self, dpid: Dpid, delivering: bool) {
        let Some(node) = self.nodes.get_mut(&dpid) else { return };
        if !node.channel.up {
            return;
        }
        node.channel.up = false;
        let told = !node.channel.half_open;
        let epoch = node.channel.epoch;
        node.switch.disconnect();
        if delivering && told {
            let to_here = |event: &Event| match event {
                Event::ControlToController(to, of, bytes) if (*to, *of) == (dpid, epoch) => Some(bytes.clone()),
                _ => None,
            };
            let rest: Vec<Vec<u8>> = self.agenda.in_order().into_iter().filter_map(to_here).collect();
            let events = &mut self.nodes.get_mut(&dpid).expect("it was there above").channel.events;
            events.extend(rest.into_iter().map(ControlEvent::Message));
        }
        if told {
            let events = &mut self.nodes.get_mut(&dpid).expect("it was there above").channel.events;
            events.push_back(ControlEvent::Closed);
        }
    }

    pub(super) fn reconnect_later(&mut self, dpid: Dpid) {
        if self.options.connects {
            let epoch = self.nodes[&dpid].channel.epoch;
            self.at(self.now + self.options.reconnect_delay, Event::Connect(dpid, epoch));
        }
    }
}
