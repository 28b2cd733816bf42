//! The switches of a shard: those with a connection, those that come back, and those without one.
//!
//! What a session reports of its switch arrives here ([`Switches::on_up`], [`Switches::on_message`],
//! [`Switches::on_rules`]) and becomes events of the engine, in [`Context::events`]; `turn.rs` passes them on. The
//! engine's messages to a switch leave here, too ([`Switches::send`]).

use std::sync::Arc;

use maple_core::engine::{Engine, Event, ReportedRule, ShardId, Time};
use maple_core::network::Location;
use maple_wire::msg::{NO_BUFFER, PacketOut};
use maple_wire::{Action, Dpid, Message, Port, PortNo};

use super::away::{AwaySwitches, ClosedConnections, ConnectionUse, DepartedSwitch, port_changes};
use super::connection::{ConnectedSwitch, Connection};
use super::context::Context;
use super::io::Io;
use super::links::Links;
use super::mailbox::ShardMessage;
use super::registry::{ConnectionId, DpidOwner};
use super::to_switch;
use crate::discovery::is_probe;
use crate::notice::Notice;
use crate::session::{CloseReason, ProtocolWarning, RoleNews, SwitchInfo, apply_port_status};
use crate::tls::Tls;

/// The switches of a shard. A connected switch is known by the slot of its connection.
pub(super) struct Switches {
    /// The certificates, and which switches need one.
    tls: Option<Arc<Tls>>,
    pub links: Links,
    /// The switches that have no connection, or come back.
    pub away: AwaySwitches,
    pub closed: ClosedConnections,
    /// Whether discovery is to get the new declaration, once the engine knows it.
    is_declared: bool,
    /// The connections that go to the shards that have their switches.
    leaving: Vec<(ConnectionId, ShardId)>,
}

impl Switches {
    pub fn new(tls: Option<Arc<Tls>>, links: Links, away: AwaySwitches) -> Switches {
        Switches { tls, links, away, closed: ClosedConnections::default(), is_declared: false, leaving: Vec::new() }
    }

    // A switch connects.

    /// Claims a datapath id for a connection. If another connection owns the id, that one is challenged. If another
    /// shard has the switch, the connection goes there.
    pub fn claim(&mut self, slot: usize, dpid: Dpid, engine: &Engine, io: &mut Io, ctx: &mut Context) {
        let Some(connection) = io.present(slot) else { return };
        debug_assert!(
            connection.is_open(),
            "a connection that has ended claims nothing: its claim would never be released"
        );
        let claimant = connection.id;
        if let Err(refusal) = connection.socket.admit(self.tls.as_deref(), dpid) {
            return self.close(slot, refusal.into(), engine, io, ctx);
        }
        match ctx.registry.claim(dpid, claimant) {
            Ok(()) => {
                (connection.dpid, connection.claims) = (Some(dpid), None);
                if let Some((session, outputs)) = io.session(slot) {
                    session.admit(ctx.now, outputs);
                }
            }
            Err(DpidOwner::Connection(owner)) => {
                ctx.outgoing.send(owner.shard, ShardMessage::Challenge { dpid, owner, claimant });
            }
            Err(DpidOwner::Shard(shard)) => {
                connection.claims = Some(dpid);
                self.leaving.push((claimant, shard));
            }
        }
    }

    /// Sends the connections away that go to the shards that have their switches.
    pub fn send_leaving(&mut self, io: &mut Io, ctx: &mut Context) {
        for (connection, to) in self.leaving.drain(..) {
            // It may have ended over what followed the claim, and closes here then.
            if io.connections_mut().get_exactly(connection).is_some_and(|connection| connection.is_open()) {
                io.migrate(connection.slot, to, ctx);
            }
        }
    }

    /// Checks whether our connection `owner` is alive, because another connection claims its switch.
    pub fn on_challenge(
        &mut self,
        dpid: Dpid,
        owner: ConnectionId,
        claimant: ConnectionId,
        io: &mut Io,
        ctx: &mut Context,
    ) {
        if let Some(claimants) = self.away.claimants_of(owner) {
            return claimants.push(claimant);
        }
        let slot = owner.slot;
        let owner = io.connections_mut().get_exactly(owner).filter(|connection| connection.dpid == Some(dpid));
        match owner.filter(|connection| connection.is_open()) {
            Some(connection) => {
                connection.claimants.push(claimant);
                let is_first = connection.claimants.len() == 1;
                if let Some((session, outputs)) = io.session(slot).filter(|_| is_first) {
                    session.challenge(ctx.now, outputs);
                }
            }
            // It has ended, or migrated, since the other shard asked the registry.
            None => {
                ctx.outgoing.send(claimant.shard, ShardMessage::ChallengeResult { dpid, claimant, alive: false });
            }
        }
    }

    /// Handles the result of a challenge: refuses our connection `claimant` if the owner is alive; otherwise claims
    /// again.
    pub fn on_challenge_result(
        &mut self,
        dpid: Dpid,
        claimant: ConnectionId,
        alive: bool,
        engine: &Engine,
        io: &mut Io,
        ctx: &mut Context,
    ) {
        // The claimant may have ended meanwhile.
        if !io.connections_mut().get_exactly(claimant).is_some_and(|connection| connection.is_open()) {
            return;
        }
        match io.session(claimant.slot) {
            Some((session, outputs)) if alive => session.refuse(CloseReason::Duplicate(dpid), outputs),
            _ => self.claim(claimant.slot, dpid, engine, io, ctx),
        }
    }

    /// Tells the claimants of this connection's switch that the connection is alive.
    pub fn answer_claimants(&mut self, slot: usize, io: &mut Io, ctx: &mut Context) {
        let Some(connection) = io.present(slot) else { return };
        let Some(dpid) = connection.dpid else {
            return debug_assert!(connection.claimants.is_empty(), "nobody claims a switch of nobody");
        };
        for claimant in connection.claimants.drain(..) {
            ctx.outgoing.send(claimant.shard, ShardMessage::ChallengeResult { dpid, claimant, alive: true });
        }
    }

    /// Handles the end of a handshake: publishes the switch.
    pub fn on_up(&mut self, slot: usize, info: &SwitchInfo, io: &mut Io, ctx: &mut Context) {
        let dpid = info.features.dpid;
        io.connections_mut().connect(dpid, slot);
        let Some(connection) = io.present(slot) else { return };
        ctx.counters.of_dp_connections += 1;
        connection.counters.connections += 1;
        // It was, as long as another controller was its master.
        ctx.registry.set_silent(dpid, false);
        connection.switch = Some(ConnectedSwitch::new(info));
        ctx.notices.publish(Notice::Connected {
            dpid,
            peer: connection.peer,
            version: info.version,
            description: info.text(),
        });
    }

    /// Handles what has become of the role at a claimed switch, if this controller is one of several.
    pub fn on_role(&mut self, slot: usize, news: RoleNews, io: &mut Io, ctx: &mut Context) {
        let Some(connection) = io.present(slot) else { return };
        let (peer, Some(dpid)) = (connection.peer, connection.dpid) else {
            return debug_assert!(false, "a session tells nothing of its role before its claim is granted");
        };
        if news == RoleNews::Lost {
            self.on_mastery_lost(slot, io, ctx);
        }
        ctx.notices.publish(Notice::Role { dpid, peer, news });
    }

    /// Handles that this controller is not master of a switch any more. For the engine and for discovery the switch has
    /// no connection from now on; but the connection stays, and the claim.
    fn on_mastery_lost(&mut self, slot: usize, io: &mut Io, ctx: &mut Context) {
        let Some((id, dpid, _)) = io.up(slot) else { return };
        self.away.on_connection_end(id, &mut self.links, ctx);
        io.connections_mut().disconnect(dpid);
        let Some(connection) = io.present(slot) else { return };
        ctx.counters.of_dp_disconnections += 1;
        connection.counters.disconnections += 1;
        self.closed.counters.add(dpid, std::mem::take(&mut connection.counters));
        let info =
            connection.switch.take().filter(|switch| switch.is_in_use).map(|switch| Box::new(switch.into_info()));
        ctx.registry.set_silent(dpid, true);
        self.away.depart(DepartedSwitch { info, ..DepartedSwitch::forgotten(dpid) }, true, ctx);
    }

    /// Passes a switch whose handshake is done to the engine. A switch that the engine has continues if it describes
    /// itself as before.
    pub fn begin(&mut self, slot: usize, info: SwitchInfo, io: &mut Io, ctx: &mut Context) {
        self.away.on_up(slot, info, &mut self.links, io, ctx);
    }

    /// Handles the rules that were read from a switch. The engine compares them with its own, and discovery begins.
    pub fn on_rules(&mut self, slot: usize, rules: Vec<ReportedRule>, io: &mut Io, ctx: &mut Context) {
        let Some((id, dpid, switch)) = io.up(slot) else { return };
        // Rules that are held reach the engine when it restores the switch.
        let rules = if switch.is_in_use { Some(rules) } else { self.away.hold(id, dpid, rules, ctx) };
        if let Some(rules) = rules {
            if !std::mem::replace(&mut switch.is_in_use, true) {
                self.links.on_switch_up(ctx.now, dpid, &switch.ports);
            }
            ctx.events.push(Event::RulesRead { dpid, rules });
        }
    }

    // A connected switch reports something.

    /// Passes a message of a switch to the engine as an event, or to the program that serves the switch.
    pub fn on_message(&mut self, slot: usize, xid: u32, message: Message, io: &mut Io, ctx: &mut Context) {
        let Some(connection) = io.present(slot) else { return };
        let Some(dpid) = connection.dpid else {
            return debug_assert!(false, "a session delivers nothing before its claim is granted");
        };
        count(connection, &message, ctx);
        if let (Message::PortStatus(status), Some(switch)) = (&message, &mut connection.switch) {
            apply_port_status(Arc::make_mut(&mut switch.ports), status.clone());
            if switch.is_in_use {
                self.links.on_port_status(ctx.now, dpid, status);
            }
        }
        if connection.is_served() {
            return io.call_program(slot, ctx, |program, line| program.message(xid, message, line));
        }
        let event = match message {
            Message::PacketIn(packet_in) => {
                let since = connection.input.waiting_since.unwrap_or(ctx.now);
                if is_probe(&packet_in.data) && self.links.take_probe(ctx.now, since, dpid, &packet_in) {
                    return;
                }
                Event::PacketIn { dpid, packet_in }
            }
            Message::PortStatus(status) => Event::PortStatus { dpid, status },
            Message::FlowRemoved(removed) => Event::FlowRemoved { dpid, removed },
            Message::Error(error) => Event::SwitchError { dpid, xid, error },
            Message::BarrierReply => Event::BarrierReply { dpid, xid },
            Message::StatsReply(reply) => Event::FlowStats { dpid, xid, reply },
            message => return debug_assert!(false, "a session delivers no such message: {message:?}"),
        };
        ctx.events.push(event);
    }

    /// Handles the ports that were read from a switch again. Differences from the known ports count as if the switch
    /// had reported them.
    pub fn on_ports(&mut self, slot: usize, ports: &[Port], io: &mut Io, ctx: &mut Context) {
        let Some((.., switch)) = io.up(slot) else { return };
        for status in port_changes(&switch.ports, ports) {
            self.on_message(slot, 0, Message::PortStatus(status), io, ctx);
        }
    }

    /// Records whether a connected switch is silent. While it is, missing probes say nothing about the wires.
    pub fn set_silent(&mut self, slot: usize, is_silent: bool, io: &mut Io, ctx: &mut Context) {
        // A switch that is not in use yet, perhaps because its handshake is not done, is not probed.
        if let Some((_, dpid, ConnectedSwitch { is_in_use: true, .. })) = io.present(slot).and_then(Connection::up) {
            ctx.registry.set_silent(dpid, is_silent);
            if is_silent { self.links.suspend(dpid) } else { self.links.resume(ctx.now, dpid) }
        }
    }

    /// Counts a violation of the protocol, and reports the first of its kind.
    pub fn warn(&mut self, slot: usize, warning: ProtocolWarning, first: bool, io: &mut Io, ctx: &mut Context) {
        let Some(connection) = io.present(slot) else { return };
        match warning {
            ProtocolWarning::UnknownType(_) => ctx.counters.of_unknown_messages += 1,
            ProtocolWarning::UnexpectedReply(_) | ProtocolWarning::OtherStatistics => {
                ctx.counters.of_unexpected_replies += 1
            }
            ProtocolWarning::EarlyPacketIn => ctx.counters.of_early_packet_ins += 1,
            ProtocolWarning::Refused(..) => {
                ctx.counters.of_errors += 1;
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
            _ => ctx.notices.publish(Notice::Protocol { peer: connection.peer, warning }),
        }
    }

    // The engine wants something of a switch.

    /// Sends a message of the engine. Nothing is sent if the switch has disconnected; the engine will get that event.
    /// Returns the switch's slot if its session has outputs.
    pub fn send(&mut self, dpid: Dpid, xid: u32, message: &Message, io: &mut Io, ctx: &mut Context) -> Option<usize> {
        match io.connections().slot_of(dpid) {
            Some(slot) => {
                to_switch::send(slot, xid, message, io, ctx);
                to_switch::reads_all_rules(message).then_some(slot)
            }
            None => {
                self.away.announced.note_sent(dpid, xid, message);
                None
            }
        }
    }

    /// Sends a request of the engine that can wait, unless much output waits for the switch.
    pub fn poll(&mut self, dpid: Dpid, xid: u32, message: &Message, io: &mut Io, ctx: &mut Context) -> Option<usize> {
        let slot = io.connections().slot_of(dpid);
        let must_wait = slot.map_or(self.away.announced.has(dpid), |slot| to_switch::is_busy(slot, io));
        if must_wait {
            ctx.events.push(Event::Unsent { dpid, xid });
            return None;
        }
        self.send(dpid, xid, message, io, ctx)
    }

    /// Begins to read a switch's rules. If the switch is the last one that others wait for, what was around them is
    /// presumed. Returns the switch's slot, if it is connected.
    pub fn read_flows(&mut self, dpid: Dpid, io: &mut Io, ctx: &mut Context) -> Option<usize> {
        let slot = io.connections().slot_of(dpid);
        match slot.and_then(|slot| io.session(slot)) {
            Some((session, outputs)) => session.read_flows(ctx.now, outputs),
            None if self.away.announced.has(dpid) => self.away.on_switch_known(None, dpid, ctx),
            // It has disconnected; the engine will get that event.
            None => {}
        }
        slot
    }

    /// Records that the engine knows a connected switch, and has asked for its rules.
    pub fn on_flows_asked(&mut self, slot: usize, io: &mut Io, ctx: &mut Context) {
        if let Some((id, dpid, ConnectedSwitch { is_in_use: false, .. })) = io.up(slot) {
            self.away.on_switch_known(Some(id), dpid, ctx);
        }
    }

    /// Asks a switch for its ports. Returns the switch's slot, if it is connected.
    pub fn ask_ports(&mut self, dpid: Dpid, io: &mut Io) -> Option<usize> {
        let slot = io.connections().slot_of(dpid)?;
        if let Some((session, outputs)) = io.session(slot) {
            session.ask_for_ports(outputs);
        }
        Some(slot)
    }

    /// Sends the probes of this turn.
    pub fn send_probes(&mut self, io: &mut Io, ctx: &mut Context) {
        self.links.follow(ctx);
        if !self.links.has_probes() {
            return;
        }
        // The engine may have taken long, so read the clock again.
        self.links.take_probes(ctx.clock.now(), |at, frame| {
            ctx.counters.lldp_probes += 1;
            packet_out(at, frame, io, ctx);
        });
    }

    /// Notes that the engine gets a new declaration in this turn.
    pub fn note_declared(&mut self) {
        self.is_declared = true;
    }

    /// Passes a declaration to discovery, once the engine knows it: until then the engine refuses what was declared
    /// otherwise before. Discovery gets the switches later that are not in use yet.
    pub fn follow_declaration(&mut self, engine: &Engine, io: &Io, ctx: &Context) {
        if !std::mem::take(&mut self.is_declared) {
            return;
        }
        let facts = Arc::clone(engine.store().snapshot().facts());
        let ports_in_use = |connection: &Connection| {
            let (dpid, switch) = (connection.dpid?, connection.switch.as_ref()?);
            let is_known = switch.is_in_use && io.connections().slot_of(dpid) == Some(connection.id.slot);
            is_known.then(|| (dpid, Arc::clone(&switch.ports)))
        };
        let mut switches: Vec<_> = io.connections().iter().filter_map(ports_in_use).collect();
        let unreachable = self.away.unreachable.infos();
        switches.extend(unreachable.map(|info| (info.features.dpid, Arc::new(info.ports.clone()))));
        let switches = switches.iter().map(|(dpid, ports)| (*dpid, &ports[..]));
        self.links.declare(ctx.now, &facts, switches);
    }

    // Time passes.

    /// Returns the time of the next deadline.
    pub fn deadline(&self) -> Option<Time> {
        self.links.deadline().into_iter().chain(self.away.deadline()).min()
    }

    /// Handles the deadlines that have passed.
    pub fn on_timer(&mut self, engine: &Engine, ctx: &mut Context) {
        self.away.on_timer(engine, ctx);
        self.links.on_timer(ctx.now);
    }

    /// Handles the deferred messages for discovery about switches that are read empty.
    pub fn deliver_deferred(&mut self, io: &mut Io, ctx: &Context) {
        self.links.deliver_deferred(ctx.now, |dpid| {
            let connection = io.connections_mut().of_switch(dpid);
            connection.is_some_and(|connection| connection.input.waiting_since.is_some())
        });
    }

    // A connection ends.

    /// Ends a connection. Waiting output is still sent.
    pub fn close(&mut self, slot: usize, reason: CloseReason, engine: &Engine, io: &mut Io, ctx: &mut Context) {
        self.announce_end(slot, reason, engine, io, ctx);
        io.linger(slot, ctx.now);
    }

    /// Ends a connection at once. Waiting output is dropped.
    pub fn drop_connection(
        &mut self,
        slot: usize,
        reason: CloseReason,
        engine: &Engine,
        io: &mut Io,
        ctx: &mut Context,
    ) {
        self.announce_end(slot, reason, engine, io, ctx);
        io.remove(slot, ctx);
    }

    /// Reports the end of a connection to the engine, discovery, the program, the claimants and the log, once.
    fn announce_end(&mut self, slot: usize, reason: CloseReason, engine: &Engine, io: &mut Io, ctx: &mut Context) {
        let Some(connection) = io.present(slot) else { return };
        if !connection.is_open() {
            return;
        }
        let (id, peer, dpid) = (connection.id, connection.peer, connection.dpid);
        self.away.on_connection_end(id, &mut self.links, ctx);
        let (is_served, switch) = (connection.is_served(), connection.switch.take());
        let is_standby = connection.session().is_some_and(|session| session.is_standby());
        let (up, counters) = (switch.is_some(), &mut connection.counters);
        counters.disconnections += u64::from(up);
        let counters = *counters;
        let reason = refined(reason, connection);
        let claimants = std::mem::take(&mut connection.claimants);
        connection.end_program();
        if let Some(dpid) = dpid {
            let info = switch.filter(|switch| switch.is_in_use).map(|switch| Box::new(switch.into_info()));
            let departure = DepartedSwitch { dpid, connection: Some(id), info, claimants };
            if up {
                io.connections_mut().disconnect(dpid);
                self.closed.counters.add(dpid, counters);
            }
            if up && !is_served {
                // A switch that is to have another layout begins anew when it is back.
                let may_stay = !matches!(reason, CloseReason::Stopping | CloseReason::OneTable);
                self.away.depart(departure, may_stay, ctx);
            } else if let Some(open) = self.away.departure_of(dpid) {
                // It was lost to another controller in this turn.
                (open.connection, open.claimants) = (departure.connection, departure.claimants);
            } else {
                self.away.free(departure, engine, &mut self.links, ctx);
            }
        }
        self.closed.report(peer, dpid, ConnectionUse { up, is_standby }, reason, ctx);
    }
}

/// Returns why a connection really ends.
fn refined(reason: CloseReason, connection: &Connection) -> CloseReason {
    match (reason, connection.dpid) {
        (CloseReason::EchoTimeout(_), Some(dpid)) if !connection.claimants.is_empty() => CloseReason::Replaced(dpid),
        (CloseReason::EchoTimeout(_) | CloseReason::RequestTimeout(_), _) if connection.input.is_paused => {
            CloseReason::NotReading(connection.outbox.len())
        }
        (reason, _) => reason,
    }
}

/// Counts a message that a session delivers.
fn count(connection: &mut Connection, message: &Message, ctx: &mut Context) {
    match message {
        Message::PacketIn(_) => {
            ctx.counters.of_packet_ins += 1;
            connection.counters.packet_ins += 1;
        }
        Message::PortStatus(_) => ctx.counters.of_port_status += 1,
        Message::FlowRemoved(_) => ctx.counters.of_flow_removed += 1,
        Message::Error(_) => {
            ctx.counters.of_errors += 1;
            connection.counters.errors += 1;
        }
        _ => {}
    }
}

/// Sends a frame out of a port.
fn packet_out(at: Location, data: Vec<u8>, io: &mut Io, ctx: &mut Context) {
    // The switch may have disconnected since the probe was due.
    let slot = io.connections().slot_of(at.switch);
    let sender = slot.and_then(|slot| Some((slot, io.session(slot)?.0.take_xid())));
    if let Some((slot, xid)) = sender {
        let actions = vec![Action::output(at.port)];
        let message = PacketOut { buffer_id: NO_BUFFER, in_port: PortNo::CONTROLLER, actions, data };
        // An error is counted and logged.
        let _ = io.send(slot, xid, &Message::PacketOut(message), ctx);
    }
}
