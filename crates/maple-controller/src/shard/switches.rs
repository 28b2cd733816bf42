//! From what sessions say to what the engine and discovery are told.

use maple_core::Location;
use maple_core::engine::{Event, Time};
use maple_wire::msg::PacketIn;
use maple_wire::{Dpid, Message};

use super::Shard;
use super::connection::{About, Life};
use super::post::Letter;
use super::registry::ConnectionId;
use crate::discovery::{Handled, is_probe};
use crate::notice::Notice;
use crate::session::{CloseReason, Note, Output, SwitchInfo, apply_port_status};

/// A switch whose connection has ended. Its datapath id is not free before the engine knows: the engine deletes what the
/// state says of the switch, and that must not be what a new connection has written, perhaps at another shard.
#[derive(Debug)]
pub(super) struct Departure {
    dpid: Dpid,
    pub connection: ConnectionId,
    /// Other connections that say they are this switch.
    pub claimants: Vec<ConnectionId>,
}

impl Shard {
    /// Does what a connection's session has asked for, and sets its timer.
    pub(super) fn act(&mut self, now: Time, slot: usize) {
        let mut outputs = std::mem::take(&mut self.outputs);
        for output in outputs.drain(..) {
            self.act_on(now, slot, output);
        }
        // Acting may have made the session say more, for instance when its claim was granted.
        while !self.outputs.is_empty() {
            std::mem::swap(&mut outputs, &mut self.outputs);
            for output in outputs.drain(..) {
                self.act_on(now, slot, output);
            }
        }
        self.outputs = outputs;
        self.arm(slot);
    }

    fn act_on(&mut self, now: Time, slot: usize, output: Output) {
        match output {
            Output::Deliver { xid, message } => self.deliver(now, slot, xid, message),
            // What a session says can be said in each version.
            Output::Send { xid, message } => drop(self.send(slot, xid, &message)),
            Output::Claim(dpid) => self.claim(now, slot, dpid),
            Output::Up(info) => self.up(now, slot, *info),
            Output::Flows(flows) => self.flows(now, slot, flows),
            Output::Alive => self.verdict(slot, true),
            Output::Note { note, first } => self.note(slot, note, first),
            Output::Close(reason) => self.close(now, slot, reason),
        }
    }

    /// Puts a message into a connection's outbox.
    ///
    /// # Errors
    /// That of the codec if the switch's version can't say it; it is counted and reported, and nothing is sent.
    pub(super) fn send(&mut self, slot: usize, xid: u32, message: &Message) -> Result<(), maple_wire::Error> {
        let Some(connection) = self.connections.get(slot) else { return Ok(()) };
        let Some(session) = connection.session() else { return Ok(()) };
        let version = session.version();
        connection.outbox.borrow(&mut self.spare);
        let pushed = connection.outbox.push(version, xid, message);
        match &pushed {
            Ok(()) => {
                self.counters.of_messages_out += 1;
                self.want_write(slot);
            }
            Err(error) => {
                self.counters.of_unsendable += 1;
                tracing::error!(peer = %connection.peer, %error, "a message can't be sent");
            }
        }
        pushed
    }

    /// A message for the engine.
    fn deliver(&mut self, now: Time, slot: usize, xid: u32, message: Message) {
        let Some(connection) = self.connections.get(slot) else { return };
        let Some(dpid) = connection.dpid else { return };
        if connection.handler.is_some() {
            return self.tell_handler(now, slot, xid, message);
        }
        let event = match message {
            Message::PacketIn(packet_in) => {
                self.counters.of_packet_ins += 1;
                if is_probe(&packet_in.data) && self.probe(now, slot, dpid, &packet_in) {
                    return;
                }
                Event::PacketIn { dpid, packet_in }
            }
            Message::PortStatus(status) => {
                self.counters.of_port_status += 1;
                if let Some(about) = &mut connection.about {
                    apply_port_status(&mut about.ports, status.clone());
                    if about.in_use {
                        self.discovery.port_status(now, dpid, &status, &mut self.found);
                    }
                }
                Event::PortStatus { dpid, status }
            }
            Message::FlowRemoved(removed) => {
                self.counters.of_flow_removed += 1;
                Event::FlowRemoved { dpid, removed }
            }
            Message::Error(error) => {
                self.counters.of_errors += 1;
                Event::SwitchError { dpid, xid, error }
            }
            Message::BarrierReply => Event::BarrierReply { dpid, xid },
            Message::StatsReply(reply) => Event::FlowStats { dpid, xid, reply },
            _ => return,
        };
        self.events.push(event);
    }

    /// A frame of discovery's kinds: its own, unless another device made it.
    fn probe(&mut self, now: Time, slot: usize, dpid: Dpid, packet_in: &PacketIn) -> bool {
        let Some(port) = packet_in.in_port() else { return false };
        let since = self.connections.get(slot).and_then(|connection| connection.waiting_since).unwrap_or(now);
        let at = Location::new(dpid, port);
        self.discovery.on_lldp(now, since, at, &packet_in.data, &mut self.found) == Handled::Ours
    }

    /// A connection says which switch it is: the registry decides, or the connection that has the switch now.
    pub(super) fn claim(&mut self, now: Time, slot: usize, dpid: Dpid) {
        let Some(connection) = self.connections.get(slot) else { return };
        let claimant = connection.id;
        match self.registry.claim(dpid, claimant) {
            Ok(()) => {
                connection.dpid = Some(dpid);
                if let Life::Open { session, .. } = &mut connection.life {
                    session.admit(now, &mut self.outputs);
                }
            }
            Err(owner) => self.post.send(owner.shard, Letter::Challenge { dpid, owner, claimant }),
        }
    }

    /// The handshake is done.
    fn up(&mut self, now: Time, slot: usize, info: SwitchInfo) {
        let Some(connection) = self.connections.get(slot) else { return };
        let dpid = info.features.dpid;
        self.by_dpid.insert(dpid, slot);
        self.counters.of_dp_connections += 1;
        connection.about = Some(About {
            version: info.version,
            tables: info.features.n_tables,
            description: info.text(),
            ports: info.ports.clone(),
            in_use: false,
        });
        self.notices.tell(Notice::Connected {
            dpid,
            peer: connection.peer,
            version: info.version,
            description: info.text(),
        });
        if self.handlers.is_some() {
            return self.up_with_handler(now, slot, &info);
        }
        let SwitchInfo { version, features, ports, description } = info;
        self.events.push(Event::SwitchUp { dpid, version, features, description, ports });
    }

    /// A switch's rules were read: the engine compares them with its own, and discovery begins.
    fn flows(&mut self, now: Time, slot: usize, flows: Vec<maple_core::engine::InstalledFlow>) {
        let Some(connection) = self.connections.get(slot) else { return };
        let (Some(dpid), Some(about)) = (connection.dpid, &mut connection.about) else { return };
        if !std::mem::replace(&mut about.in_use, true) {
            self.discovery.switch_up(now, dpid, &about.ports, &mut self.found);
        }
        self.events.push(Event::FlowsRead { dpid, flows });
    }

    /// Answers those who say that they are the switch of this connection.
    pub(super) fn verdict(&mut self, slot: usize, alive: bool) {
        let Some(connection) = self.connections.get(slot) else { return };
        let Some(dpid) = connection.dpid else { return };
        for claimant in connection.claimants.drain(..) {
            self.post.send(claimant.shard, Letter::Verdict { dpid, claimant, alive });
        }
    }

    fn note(&mut self, slot: usize, note: Note, first: bool) {
        let Some(connection) = self.connections.get(slot) else { return };
        match note {
            Note::UnknownType(_) => self.counters.of_unknown_messages += 1,
            Note::UnexpectedReply(_) => self.counters.of_unexpected_replies += 1,
            Note::EarlyPacketIn => self.counters.of_early_packet_ins += 1,
            Note::Refused(..) => self.counters.of_errors += 1,
            Note::RulesUntold => {}
        }
        if !first {
            return;
        }
        // Packets that come during the handshake are normal, and so is a switch that lacks an optional request.
        match note {
            Note::EarlyPacketIn | Note::Refused(..) => tracing::debug!(peer = %connection.peer, "{note}"),
            _ => self.notices.tell(Notice::Odd { peer: connection.peer, note }),
        }
    }

    /// A connection ends: everybody who knew of it hears so, once.
    pub(super) fn leave(&mut self, now: Time, slot: usize, reason: CloseReason) {
        let Some(connection) = self.connections.get(slot) else { return };
        if matches!(connection.life, Life::Lingering(_)) {
            return;
        }
        let (id, peer, up) = (connection.id, connection.peer, connection.about.take().is_some());
        let handler = connection.handler.take();
        let claimed = !connection.claimants.is_empty();
        let waiting = connection.outbox.len();
        let reason = match (reason, connection.dpid) {
            (CloseReason::EchoTimeout(_), Some(dpid)) if claimed => CloseReason::Replaced(dpid),
            (CloseReason::EchoTimeout(_) | CloseReason::RequestTimeout(_), _) if connection.paused => {
                CloseReason::NotReading(waiting)
            }
            (reason, _) => reason,
        };
        if let Some(dpid) = connection.dpid {
            let claimants = std::mem::take(&mut connection.claimants);
            let departure = Departure { dpid, connection: id, claimants };
            if up {
                self.by_dpid.remove(&dpid);
            }
            match handler {
                None if up => {
                    self.discovery.switch_down(now, dpid, &mut self.found);
                    self.events.push(Event::SwitchDown { dpid });
                    self.departures.push(departure);
                }
                handler => {
                    handler.into_iter().for_each(|mut handler| handler.switch_down());
                    self.free(departure);
                }
            }
        }
        self.count_end(&reason, up);
        let dpid = self.connections.get(slot).and_then(|connection| connection.dpid);
        match dpid {
            _ if matches!(reason, CloseReason::Probe | CloseReason::Stopping) => tracing::debug!(%peer, "{reason}"),
            Some(dpid) if up => self.notices.tell(Notice::Disconnected { dpid, peer, reason }),
            _ if self.repeats.is_news(now, peer, &reason) => self.notices.tell(Notice::Refused { peer, reason }),
            _ => tracing::debug!(%peer, "connection ended: {reason}"),
        }
    }

    /// Frees the switches whose end the engine has dealt with.
    pub(super) fn free_departed(&mut self) {
        for departure in std::mem::take(&mut self.departures) {
            self.free(departure);
        }
    }

    /// The datapath id is free for other connections, and those that wait for it hear so.
    fn free(&mut self, departure: Departure) {
        let Departure { dpid, connection, claimants } = departure;
        self.registry.release(dpid, connection);
        for claimant in claimants {
            self.post.send(claimant.shard, Letter::Verdict { dpid, claimant, alive: false });
        }
    }

    fn count_end(&mut self, reason: &CloseReason, up: bool) {
        let counters = &mut self.counters;
        match reason {
            CloseReason::Probe => counters.of_probes += 1,
            _ if up => counters.of_dp_disconnections += 1,
            _ => counters.of_handshake_failures += 1,
        }
        match reason {
            CloseReason::Malformed(_) => counters.of_malformed += 1,
            CloseReason::Duplicate(_) => counters.of_duplicate_dpids += 1,
            CloseReason::Replaced(_) => counters.of_replaced_connections += 1,
            CloseReason::NotReading(_) => counters.of_cut_off += 1,
            CloseReason::HandshakeTimeout { .. } | CloseReason::RequestTimeout(_) | CloseReason::EchoTimeout(_) => {
                counters.of_timeouts += 1;
            }
            _ => {}
        }
    }
}
