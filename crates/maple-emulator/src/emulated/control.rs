//! The control channels between switches and controller.

use maple_switch::ControllerId;
use maple_wire::msg::Message;
use maple_wire::{Dpid, PortNo};

use super::agenda::Event;
use super::channel::{Channel, ChannelId, Direction};
use super::frames::{Cause, InFlight};
use super::log::Origin;
use super::{ControlEvent, EmulatedNetwork, NetworkError};

/// The type of a packet-out, in 1.0 (§5.1) and in 1.3 (§7.1).
const PACKET_OUT: u8 = 13;

impl EmulatedNetwork {
    /// Makes a switch connect to the first controller now, if it is not connected and no fault prevents it. Used in
    /// networks without [`super::NetworkOptions::connects`].
    ///
    /// # Errors
    /// [`NetworkError`] if there is no such switch.
    pub fn connect(&mut self, dpid: Dpid) -> Result<(), NetworkError> {
        self.connect_to(dpid, ControllerId::FIRST)
    }

    /// Makes a switch connect to a controller, as [`EmulatedNetwork::connect`] does to the first one.
    ///
    /// # Errors
    /// [`NetworkError`] if there is no such switch, or no such controller.
    pub fn connect_to(&mut self, dpid: Dpid, controller: ControllerId) -> Result<(), NetworkError> {
        let id = ChannelId { dpid, controller };
        let epoch = self.channel(id)?.epoch;
        self.try_connect(id, epoch);
        Ok(())
    }

    /// Closes the connection to the first controller from the controller's side. The switch connects again if it
    /// connects by itself ([`super::NetworkOptions::connects`]).
    ///
    /// # Errors
    /// [`NetworkError`] if there is no such switch.
    pub fn disconnect(&mut self, dpid: Dpid) -> Result<(), NetworkError> {
        self.disconnect_from(dpid, ControllerId::FIRST)
    }

    /// Closes the connection to a controller, as [`EmulatedNetwork::disconnect`] does that to the first one.
    ///
    /// # Errors
    /// [`NetworkError`] if there is no such switch, or no such controller.
    pub fn disconnect_from(&mut self, dpid: Dpid, controller: ControllerId) -> Result<(), NetworkError> {
        let id = ChannelId { dpid, controller };
        if self.channel(id)?.up {
            self.hang_up(id, false);
            self.reconnect_later(id);
        }
        Ok(())
    }

    /// Reports whether the switch has a connection, as the switch sees it.
    pub fn is_connected(&self, dpid: Dpid) -> bool {
        self.nodes.get(&dpid).is_some_and(|node| node.channels.iter().any(|channel| channel.up))
    }

    /// Reports whether a fault keeps the switch from connecting.
    pub fn is_cut(&self, dpid: Dpid) -> bool {
        self.nodes.get(&dpid).is_some_and(|node| node.channels.iter().any(|channel| channel.cut))
    }

    /// Returns the events of a switch for the first controller since the last call, in order.
    pub fn take_control(&mut self, dpid: Dpid) -> Vec<ControlEvent> {
        self.take_control_for(dpid, ControllerId::FIRST)
    }

    /// Returns the events of a switch for a controller since the last call, in order.
    pub fn take_control_for(&mut self, dpid: Dpid, controller: ControllerId) -> Vec<ControlEvent> {
        self.channel_mut(ChannelId { dpid, controller })
            .map(|channel| channel.events.drain(..).collect())
            .unwrap_or_default()
    }

    /// Returns the messages that a switch has sent to the first controller since the last call; openings and closings
    /// are discarded.
    pub fn to_controller(&mut self, dpid: Dpid) -> Vec<Vec<u8>> {
        let message = |event| match event {
            ControlEvent::Message(bytes) => Some(bytes),
            ControlEvent::Opened | ControlEvent::Closed => None,
        };
        self.take_control(dpid).into_iter().filter_map(message).collect()
    }

    /// Sends bytes from the first controller to a switch: whole messages or pieces of them. If the switch is not
    /// connected they are lost, as in a socket.
    ///
    /// # Errors
    /// [`NetworkError`] if there is no such switch.
    pub fn from_controller(&mut self, dpid: Dpid, bytes: &[u8]) -> Result<(), NetworkError> {
        self.bytes_from(dpid, ControllerId::FIRST, bytes)
    }

    /// Sends bytes from a controller to a switch, as [`EmulatedNetwork::from_controller`] does from the first one.
    ///
    /// # Errors
    /// [`NetworkError`] if there is no such switch, or no such controller.
    pub fn bytes_from(&mut self, dpid: Dpid, controller: ControllerId, bytes: &[u8]) -> Result<(), NetworkError> {
        let (now, delay, id) = (self.now, self.options.control_delay, ChannelId { dpid, controller });
        let node = self.nodes.get_mut(&dpid).ok_or(NetworkError::NoSwitch(dpid))?;
        let place = usize::from(controller.0);
        let channel = node.channels.get_mut(place).ok_or(NetworkError::NoController(controller.0))?;
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
            self.at(at, Event::ControlToSwitch(id, epoch, message));
        }
        Ok(())
    }

    fn channel(&self, id: ChannelId) -> Result<&Channel, NetworkError> {
        let node = self.nodes.get(&id.dpid).ok_or(NetworkError::NoSwitch(id.dpid))?;
        node.channels.get(usize::from(id.controller.0)).ok_or(NetworkError::NoController(id.controller.0))
    }

    fn channel_mut(&mut self, id: ChannelId) -> Option<&mut Channel> {
        self.nodes.get_mut(&id.dpid)?.channels.get_mut(usize::from(id.controller.0))
    }

    /// Returns the channels of a switch.
    pub(super) fn channels_of(&self, dpid: Dpid) -> impl Iterator<Item = ChannelId> + use<> {
        let count = self.options.controllers.max(1);
        (0..count).map(move |number| ChannelId { dpid, controller: ControllerId(number) })
    }

    pub(super) fn control_at_switch(&mut self, id: ChannelId, epoch: u64, bytes: &[u8]) {
        let (now, dpid) = (self.now, id.dpid);
        if !self.channel(id).is_ok_and(|channel| channel.up && channel.epoch == epoch && !channel.half_open) {
            return;
        }
        let Some(node) = self.nodes.get_mut(&dpid) else { return };
        let outgoing = node.switch.receive_bytes_from(id.controller, now, bytes);
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

    pub(super) fn send_to_controller(&mut self, id: ChannelId, xid: u32, message: &Message) {
        let (now, delay) = (self.now, self.options.control_delay);
        let Some(node) = self.nodes.get_mut(&id.dpid) else { return };
        let mut bytes = Vec::new();
        message
            .encode(node.switch.version(), xid, &mut bytes)
            .expect("a switch says only what its version of OpenFlow can say");
        let Some(channel) = node.channels.get_mut(usize::from(id.controller.0)).filter(|channel| channel.up) else {
            return;
        };
        let epoch = channel.epoch;
        for at in channel.arrivals(now, delay, Direction::ToController, &mut self.random) {
            self.at(at, Event::ControlToController(id, epoch, bytes.clone()));
        }
    }

    pub(super) fn control_at_controller(&mut self, id: ChannelId, epoch: u64, bytes: Vec<u8>) {
        if let Some(channel) = self.channel_mut(id).filter(|channel| channel.up && channel.epoch == epoch) {
            channel.events.push_back(ControlEvent::Message(bytes));
        }
    }

    pub(super) fn try_connect(&mut self, id: ChannelId, epoch: u64) {
        let Some(channel) = self.channel_mut(id).filter(|one| !one.up && !one.cut && one.epoch == epoch) else {
            return;
        };
        channel.up = true;
        channel.epoch += 1;
        channel.input.clear();
        channel.forget_arrivals();
        channel.events.push_back(ControlEvent::Opened);
        let Some(node) = self.nodes.get_mut(&id.dpid) else { return };
        let hello = node.switch.connect_to(id.controller);
        self.carry_out(id.dpid, hello, None);
    }

    /// Closes a connection from the switch's side. The switch's earlier messages still arrive.
    pub(super) fn closed_by_switch(&mut self, id: ChannelId) {
        self.hang_up(id, true);
        self.reconnect_later(id);
    }

    /// Ends all connections of a switch.
    pub(super) fn hang_up_all(&mut self, dpid: Dpid) {
        self.channels_of(dpid).for_each(|id| self.hang_up(id, false));
    }

    /// Ends a connection. Messages in flight to the controller arrive first if `delivering`, and are lost otherwise.
    fn hang_up(&mut self, id: ChannelId, delivering: bool) {
        let Some(channel) = self.channel_mut(id).filter(|channel| channel.up) else { return };
        channel.up = false;
        let (reported, epoch) = (!channel.half_open, channel.epoch);
        if let Some(node) = self.nodes.get_mut(&id.dpid) {
            node.switch.disconnect_from(id.controller);
        }
        if !reported {
            return;
        }
        let to_here = |event: &Event| match event {
            Event::ControlToController(to, of, bytes) if (*to, *of) == (id, epoch) => Some(bytes.clone()),
            _ => None,
        };
        let in_flight = if delivering { self.agenda.in_order() } else { Vec::new() };
        let rest: Vec<Vec<u8>> = in_flight.into_iter().filter_map(to_here).collect();
        if let Some(channel) = self.channel_mut(id) {
            channel.events.extend(rest.into_iter().map(ControlEvent::Message));
            channel.events.push_back(ControlEvent::Closed);
        }
    }

    /// Lets a switch connect again to all its controllers, later.
    pub(super) fn reconnect_all_later(&mut self, dpid: Dpid) {
        self.channels_of(dpid).for_each(|id| self.reconnect_later(id));
    }

    fn reconnect_later(&mut self, id: ChannelId) {
        if self.options.connects
            && let Ok(epoch) = self.channel(id).map(|channel| channel.epoch)
        {
            self.at(self.now + self.options.reconnect_delay, Event::Connect(id, epoch));
        }
    }
}
