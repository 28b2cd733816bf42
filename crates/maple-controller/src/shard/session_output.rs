//! Acts on the outputs of sessions: events for the engine, messages for discovery, connections that begin and end.

use std::sync::Arc;

use maple_core::Location;
use maple_core::engine::{Event, Time};
use maple_wire::msg::PacketIn;
use maple_wire::{Dpid, Message, Port};

use super::Shard;
use super::announced::port_changes;
use super::connection::{ConnectedSwitch, ConnectionState};
use super::mailbox::ShardMessage;
use super::registry::{ConnectionId, Owner};
use crate::discovery::{ProbeOrigin, is_probe};
use crate::notice::Notice;
use crate::session::{CloseReason, Output, ProtocolWarning, SwitchInfo, TableSize, apply_port_status};

/// A switch whose connection has ended, or that is forgotten. Its datapath id stays taken until the engine has handled
/// that. The engine may delete the switch's state, and must not delete state that a new connection has written, perhaps
/// on another shard.
#[derive(Debug)]
pub(super) struct DepartedSwitch {
    dpid: Dpid,
    pub connection: Option<ConnectionId>,
    /// The switch's description of itself, with its ports, if the engine has the switch.
    info: Option<Box<SwitchInfo>>,
    /// Other connections that claim this switch.
    pub claimants: Vec<ConnectionId>,
}

impl DepartedSwitch {
    /// Creates the departure of an announced switch whose connection has not come, or has ended at once.
    pub fn announced(dpid: Dpid, info: SwitchInfo) -> DepartedSwitch {
        DepartedSwitch { info: Some(Box::new(info)), ..DepartedSwitch::forgotten(dpid) }
    }

    /// Creates the departure of a switch that has had no connection for too long.
    pub fn forgotten(dpid: Dpid) -> DepartedSwitch {
        DepartedSwitch { dpid, connection: None, info: None, claimants: Vec::new() }
    }
}

impl Shard {
    /// Acts on the outputs of a connection's session, and sets its timer.
    pub(super) fn act(&mut self, now: Time, slot: usize) {
        let mut outputs = std::mem::take(&mut self.outputs);
        for output in outputs.drain(..) {
            self.act_on(now, slot, output);
        }
        // Acting may have produced more outputs, for example when a claim was granted.
        while !self.outputs.is_empty() {
            std::mem::swap(&mut outputs, &mut self.outputs);
            for output in outputs.drain(..) {
                self.act_on(now, slot, output);
            }
        }
        self.outputs = outputs;
        for (connection, to) in std::mem::take(&mut self.leaving) {
            if self.connections.get_exactly(connection).is_some() {
                self.migrate(connection.slot, to);
            }
        }
        self.arm(slot);
    }

    fn act_on(&mut self, now: Time, slot: usize, output: Output) {
        match output {
            Output::Deliver { xid, message } => self.deliver(now, slot, xid, message),
            // A session's own messages can be encoded in every version.
            Output::Send { xid, message } => drop(self.send(slot, xid, &message)),
            Output::Claim(dpid) => self.claim(now, slot, dpid),
            Output::Up(info) => self.switch_up(now, slot, *info),
            Output::Flows(flows) => self.flows_read(now, slot, flows),
            Output::TableSizes(tables) => self.table_sizes_read(slot, &tables),
            Output::Ports(ports) => self.ports_read(now, slot, &ports),
            Output::Alive => self.answer_claimants(slot, true),
            Output::Silent(is_silent) => self.set_silent(now, slot, is_silent),
            Output::Warning { warning, first } => self.warn(slot, warning, first),
            Output::Close(reason) => self.close(now, slot, reason),
        }
    }

    /// Encodes a message into a connection's outbox.
    ///
    /// # Errors
    /// The codec's error, if the switch's version cannot express the message. It is counted and logged; nothing is
    /// sent.
    pub(super) fn send(&mut self, slot: usize, xid: u32, message: &Message) -> Result<(), maple_wire::Error> {
        let Some(connection) = self.connections.get(slot) else { return Ok(()) };
        let Some(session) = connection.session() else { return Ok(()) };
        let version = session.version();
        connection.outbox.borrow(&mut self.spare_buffer);
        let pushed = connection.outbox.push(version, xid, message);
        match &pushed {
            Ok(()) => {
                self.counters.of_messages_out += 1;
                connection.counters.flow_messages += u64::from(is_flow_message(message));
                self.want_write(slot);
            }
            Err(error) => {
                self.counters.of_unencodable += 1;
                // The counter shows how often.
                match std::mem::replace(&mut connection.is_unencodable_told, true) {
                    false => tracing::error!(peer = %connection.peer, %error, "cannot encode a message"),
                    true => tracing::debug!(peer = %connection.peer, %error, "cannot encode a message"),
                }
            }
        }
        pushed
    }

    /// Passes a message to the engine as an event, or to the switch's handler.
    fn deliver(&mut self, now: Time, slot: usize, xid: u32, message: Message) {
        let Some(connection) = self.connections.get(slot) else { return };
        let Some(dpid) = connection.dpid else { return };
        if connection.handler.is_some() {
            return self.handler_message(now, slot, xid, message);
        }
        let event = match message {
            Message::PacketIn(packet_in) => {
                self.counters.of_packet_ins += 1;
                connection.counters.packet_ins += 1;
                if is_probe(&packet_in.data) && self.take_probe(now, slot, dpid, &packet_in) {
                    return;
                }
                Event::PacketIn { dpid, packet_in }
            }
            Message::PortStatus(status) => {
                self.counters.of_port_status += 1;
                if let Some(switch) = &mut connection.switch {
                    apply_port_status(Arc::make_mut(&mut switch.ports), status.clone());
                    if switch.in_use {
                        self.discovery.port_status(now, dpid, &status, &mut self.discovered);
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
                connection.counters.errors += 1;
                Event::SwitchError { dpid, xid, error }
            }
            Message::BarrierReply => Event::BarrierReply { dpid, xid },
            Message::StatsReply(reply) => Event::FlowStats { dpid, xid, reply },
            _ => return,
        };
        self.events.push(event);
    }

    /// Passes an LLDP frame or broadcast probe to discovery. Returns `false` if another device made it.
    fn take_probe(&mut self, now: Time, slot: usize, dpid: Dpid, packet_in: &PacketIn) -> bool {
        let Some(port) = packet_in.in_port() else { return false };
        let since = self.connections.get(slot).and_then(|connection| connection.waiting_since).unwrap_or(now);
        let at = Location::new(dpid, port);
        self.discovery.on_lldp(now, since, at, &packet_in.data, &mut self.discovered) == ProbeOrigin::Own
    }

    /// Claims a datapath id for a connection. If another connection owns the id, that one is challenged. If another
    /// shard has the switch, the connection goes there.
    pub(super) fn claim(&mut self, now: Time, slot: usize, dpid: Dpid) {
        let Some(connection) = self.connections.get(slot) else { return };
        let claimant = connection.id;
        if let Err(refusal) = connection.socket.admit(self.tls.as_deref(), dpid) {
            return self.close(now, slot, refusal.into());
        }
        match self.registry.claim(dpid, claimant) {
            Ok(()) => {
                (connection.dpid, connection.claims) = (Some(dpid), None);
                if let ConnectionState::Open { session, .. } = &mut connection.state {
                    session.admit(now, &mut self.outputs);
                }
            }
            Err(Owner::Connection(owner)) => {
                self.outgoing.send(owner.shard, ShardMessage::Challenge { dpid, owner, claimant });
            }
            Err(Owner::Shard(shard)) => {
                connection.claims = Some(dpid);
                self.leaving.push((claimant, shard));
            }
        }
    }

    /// Handles the end of a handshake: publishes the switch, and passes it to its handler or the engine.
    fn switch_up(&mut self, now: Time, slot: usize, info: SwitchInfo) {
        let Some(connection) = self.connections.get(slot) else { return };
        let dpid = info.features.dpid;
        self.by_dpid.insert(dpid, slot);
        self.counters.of_dp_connections += 1;
        connection.counters.connections += 1;
        connection.switch = Some(ConnectedSwitch {
            version: info.version,
            tables: info.features.n_tables,
            has_bundles: info.has_bundles,
            description: info.text(),
            info: SwitchInfo { ports: Vec::new(), ..info.clone() },
            ports: Arc::new(info.ports.clone()),
            in_use: false,
        });
        self.notices.publish(Notice::Connected {
            dpid,
            peer: connection.peer,
            version: info.version,
            description: info.text(),
        });
        if self.handlers.is_some() {
            return self.start_handler(now, slot, &info);
        }
        let Some(info) = self.known_switch_up(now, slot, info) else { return };
        let Some(info) = self.unreachable_is_back(now, slot, info) else { return };
        let SwitchInfo { version, features, ports, description, has_bundles } = info;
        self.events.push(Event::SwitchUp { dpid, version, features, description, ports, has_bundles });
    }

    /// Handles the rules that were read from a switch. The engine compares them with its own, and discovery begins.
    fn flows_read(&mut self, now: Time, slot: usize, flows: Vec<maple_core::engine::InstalledFlow>) {
        let Some(connection) = self.connections.get(slot) else { return };
        let (Some(dpid), Some(switch)) = (connection.dpid, &connection.switch) else { return };
        let flows = match switch.in_use {
            true => flows,
            false => {
                let (flows, complete) = self.returns.hold(connection.id, dpid, flows);
                complete.into_iter().for_each(|switches| self.presume(switches));
                let Some(flows) = flows else { return };
                flows
            }
        };
        let Some(switch) = self.connections.get(slot).and_then(|connection| connection.switch.as_mut()) else { return };
        if !std::mem::replace(&mut switch.in_use, true) {
            self.discovery.switch_up(now, dpid, &switch.ports, &mut self.discovered);
        }
        self.events.push(Event::FlowsRead { dpid, flows });
    }

    /// Handles the ports that were read from a switch again. Differences from the known ports count as if the switch
    /// had reported them.
    fn ports_read(&mut self, now: Time, slot: usize, ports: &[Port]) {
        let Some(connection) = self.connections.get(slot) else { return };
        let Some(switch) = &connection.switch else { return };
        for status in port_changes(&switch.ports, ports) {
            self.deliver(now, slot, 0, Message::PortStatus(status));
        }
    }

    /// Answers the threads that wait for the sizes of a switch's tables.
    fn table_sizes_read(&mut self, slot: usize, tables: &[TableSize]) {
        let Some(connection) = self.connections.get(slot).map(|connection| connection.id) else { return };
        for (_, to) in self.sizing.extract_if(.., |(of, _)| *of == connection) {
            // The thread may have stopped waiting.
            let _ = to.send(tables.to_vec());
        }
    }

    /// Tells the claimants of this connection's switch whether the connection is alive.
    pub(super) fn answer_claimants(&mut self, slot: usize, alive: bool) {
        let Some(connection) = self.connections.get(slot) else { return };
        let Some(dpid) = connection.dpid else { return };
        for claimant in connection.claimants.drain(..) {
            self.outgoing.send(claimant.shard, ShardMessage::ChallengeResult { dpid, claimant, alive });
        }
    }

    fn warn(&mut self, slot: usize, warning: ProtocolWarning, first: bool) {
        let Some(connection) = self.connections.get(slot) else { return };
        match warning {
            ProtocolWarning::UnknownType(_) => self.counters.of_unknown_messages += 1,
            ProtocolWarning::UnexpectedReply(_) => self.counters.of_unexpected_replies += 1,
            ProtocolWarning::EarlyPacketIn => self.counters.of_early_packet_ins += 1,
            ProtocolWarning::Refused(..) => {
                self.counters.of_errors += 1;
                connection.counters.errors += 1;
            }
            ProtocolWarning::RulesUnreadable => {}
        }
        if !first {
            return;
        }
        // Packets during the handshake are normal, and so is a switch that does not support an optional request.
        match warning {
            ProtocolWarning::EarlyPacketIn | ProtocolWarning::Refused(..) => {
                tracing::debug!(peer = %connection.peer, "{warning}")
            }
            _ => self.notices.publish(Notice::Protocol { peer: connection.peer, warning }),
        }
    }

    /// Reports the end of a connection to the engine, discovery, the handler, the claimants and the log, once.
    pub(super) fn announce_end(&mut self, now: Time, slot: usize, reason: CloseReason) {
        let Some(connection) = self.connections.get(slot) else { return };
        if matches!(connection.state, ConnectionState::Lingering(_)) {
            return;
        }
        let id = connection.id;
        self.announced_ended(now, id);
        let Some(connection) = self.connections.get(slot) else { return };
        let (peer, switch) = (connection.peer, connection.switch.take());
        let up = switch.is_some();
        self.returns.leave(id);
        let handler = connection.handler.take();
        let is_claimed = !connection.claimants.is_empty();
        let waiting = connection.outbox.len();
        let reason = match (reason, connection.dpid) {
            (CloseReason::EchoTimeout(_), Some(dpid)) if is_claimed => CloseReason::Replaced(dpid),
            (CloseReason::EchoTimeout(_) | CloseReason::RequestTimeout(_), _) if connection.paused => {
                CloseReason::NotReading(waiting)
            }
            (reason, _) => reason,
        };
        if let Some(dpid) = connection.dpid {
            let claimants = std::mem::take(&mut connection.claimants);
            let info = switch.filter(|switch| switch.in_use).map(|switch| Box::new(switch.into_info()));
            let departure = DepartedSwitch { dpid, connection: Some(id), info, claimants };
            if up {
                self.by_dpid.remove(&dpid);
                connection.counters.disconnections += 1;
                self.former.add(dpid, connection.counters);
            }
            match handler {
                None if up => {
                    // A switch that is to have another layout begins anew when it is back.
                    let goes = matches!(reason, CloseReason::Stopping | CloseReason::OneTable);
                    let stays = departure.info.is_some() && self.unreachable.keeps() && !goes;
                    self.events.push(match stays {
                        true => Event::SwitchUnreachable { dpid },
                        false => Event::SwitchDown { dpid },
                    });
                    self.departed.push(departure);
                }
                handler => {
                    handler.into_iter().for_each(|mut handler| handler.switch_down());
                    self.free(now, departure);
                }
            }
        }
        self.count_end(&reason, up);
        let dpid = self.connections.get(slot).and_then(|connection| connection.dpid);
        match dpid {
            _ if matches!(reason, CloseReason::Silent | CloseReason::Stopping) => tracing::debug!(%peer, "{reason}"),
            Some(dpid) if up => self.notices.publish(Notice::Disconnected { dpid, peer, reason }),
            _ if self.refusals.is_new(now, peer, &reason) => self.notices.publish(Notice::Refused { peer, reason }),
            _ => tracing::debug!(%peer, "connection ended: {reason}"),
        }
    }

    /// Frees the datapath ids of switches whose end the engine has handled.
    pub(super) fn free_departed(&mut self, now: Time) {
        for departure in std::mem::take(&mut self.departed) {
            self.free(now, departure);
        }
    }

    /// Frees a datapath id for a new connection, and tells its claimants. If the engine keeps the switch, the switch
    /// stays at this shard.
    fn free(&mut self, now: Time, departure: DepartedSwitch) {
        let DepartedSwitch { dpid, connection, info, claimants } = departure;
        let stays = self.engine.is_unreachable(dpid);
        if !stays && !self.unreachable.has(dpid) && info.is_some() {
            self.discovery.switch_down(now, dpid, &mut self.discovered);
        }
        connection.into_iter().for_each(|connection| self.registry.release(dpid, connection, stays));
        match info {
            Some(info) if stays => self.keep_unreachable(now, *info),
            _ if !stays => self.drop_unreachable(now, dpid),
            _ => {}
        }
        for claimant in claimants {
            self.outgoing.send(claimant.shard, ShardMessage::ChallengeResult { dpid, claimant, alive: false });
        }
    }

    fn count_end(&mut self, reason: &CloseReason, up: bool) {
        let counters = &mut self.counters;
        match reason {
            CloseReason::Silent => counters.of_silent_connections += 1,
            _ if up => counters.of_dp_disconnections += 1,
            _ => counters.of_handshake_failures += 1,
        }
        match reason {
            CloseReason::Tls(_) => counters.of_tls_failures += 1,
            CloseReason::NotThisSwitch(_) => counters.of_wrong_certificates += 1,
            CloseReason::Malformed(_) => counters.of_malformed += 1,
            CloseReason::Duplicate(_) => counters.of_duplicate_dpids += 1,
            CloseReason::Replaced(_) => counters.of_replaced_connections += 1,
            CloseReason::NotReading(_) => counters.of_not_reading += 1,
            CloseReason::HandshakeTimeout { .. } | CloseReason::RequestTimeout(_) | CloseReason::EchoTimeout(_) => {
                counters.of_timeouts += 1;
            }
            _ => {}
        }
    }
}

/// Reports whether a message changes rules or sends a packet.
fn is_flow_message(message: &Message) -> bool {
    matches!(message, Message::FlowMod(_) | Message::BundleAdd(_) | Message::PacketOut(_))
}
