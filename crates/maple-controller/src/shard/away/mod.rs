//! The switches of a shard that have no connection, and those that come back. The engine has such switches; here is
//! what it learns of their ends and returns.
//!
//! | file | its switches |
//! | --- | --- |
//! | `closed` | connections that have ended: what is counted and reported of them |
//! | `departed` | switches whose end the engine has not handled yet |
//! | `unreachable` | those whose connection has ended, until they have one again or are forgotten |
//! | `announced` | those that another process hands over |
//! | `returns` | those that come back after a restart, or after they were forgotten |
//!
//! [`AwaySwitches`] is the door: the other parts of a shard call it, and what it hands out.

mod announced;
mod closed;
mod departed;
mod returns;
mod unreachable;

use std::collections::BTreeSet;
use std::sync::Arc;

use maple_core::engine::{Engine, Event, ReportedRule, Time};
use maple_wire::Dpid;

use crate::session::SwitchInfo;
use crate::shard::connection::Connection;
use crate::shard::context::Context;
use crate::shard::io::Io;
use crate::shard::links::Links;
use crate::shard::mailbox::ShardMessage;
use crate::shard::registry::ConnectionId;
use crate::shard::to_switch;
use crate::storage::Departed;
use announced::{AnnouncedSwitch, AnnouncedSwitches, up};
use returns::{ExpectedSwitch, attachment};

pub(super) use announced::port_changes;
pub(super) use closed::{ClosedConnections, ConnectionUse};
pub(super) use departed::DepartedSwitch;
pub(super) use returns::{ReturningSwitches, announce_presumed};
pub use unreachable::FORGET_SWITCH_AFTER;
pub(super) use unreachable::Unreachable;

/// The switches that have no connection, or come back.
pub(super) struct AwaySwitches {
    /// The known switches that come back.
    pub returns: ReturningSwitches,
    /// The switches that another process hands over.
    pub announced: AnnouncedSwitches,
    /// The engine's switches without a connection.
    pub unreachable: Unreachable,
    /// The switches without a connection whose end the engine has not handled yet.
    departures: Vec<DepartedSwitch>,
}

impl AwaySwitches {
    pub fn new(returns: ReturningSwitches, unreachable: Unreachable) -> AwaySwitches {
        AwaySwitches { returns, announced: AnnouncedSwitches::default(), unreachable, departures: Vec::new() }
    }

    /// Takes a switch whose handshake is done. If the engine has it, and it describes itself as before, it continues.
    /// Otherwise it begins anew.
    pub fn on_up(&mut self, slot: usize, info: SwitchInfo, links: &mut Links, io: &mut Io, ctx: &mut Context) {
        let dpid = info.features.dpid;
        if let Some(announced) = self.announced.take(dpid) {
            if is_unchanged(&announced.info, &info) {
                return self.on_announced_up(slot, announced, &info, links, io, ctx);
            }
            ctx.events.push(Event::SwitchDown { dpid });
        }
        if let Some(before) = self.unreachable.take(dpid) {
            if is_unchanged(&before, &info) {
                return on_unreachable_back(slot, &before, &info, links, io, ctx);
            }
            links.on_switch_down(ctx.now, dpid);
            ctx.events.push(Event::SwitchDown { dpid });
        }
        ctx.events.push(up(info));
    }

    /// Takes an announced switch, whose connection another process has handed over.
    fn on_announced_up(
        &mut self,
        slot: usize,
        announced: AnnouncedSwitch,
        info: &SwitchInfo,
        links: &mut Links,
        io: &mut Io,
        ctx: &mut Context,
    ) {
        let dpid = info.features.dpid;
        let changes = port_changes(&announced.info.ports, &info.ports);
        ctx.events.extend(changes.into_iter().map(|status| Event::PortStatus { dpid, status }));
        let Some((id, _, switch)) = io.up(slot) else { return };
        match self.returns.state().filter(|_| announced.is_restored) {
            Some(state) => {
                switch.is_in_use = true;
                links.on_switch_back(ctx.now, dpid, &switch.ports, |at| attachment(&state, at));
            }
            None => self.returns.connect(dpid, id),
        }
        if let Some((session, outputs)) = io.session(slot) {
            session.read_flows(ctx.now, outputs);
        }
        for (xid, packet) in &announced.packets {
            to_switch::send(slot, *xid, packet, io, ctx);
        }
    }

    /// Handles the end of a connection. If an announced switch had it, that switch has none. A switch that waits for
    /// others stops waiting.
    pub fn on_connection_end(&mut self, connection: ConnectionId, links: &mut Links, ctx: &mut Context) {
        self.forget_announced(Some(connection), links, ctx);
        self.returns.on_connection_end(connection);
    }

    /// Takes the rules of a switch that is not in use yet. They are held, and not returned, until what was around the
    /// switch is presumed.
    pub fn hold(
        &mut self,
        connection: ConnectionId,
        dpid: Dpid,
        rules: Vec<ReportedRule>,
        ctx: &mut Context,
    ) -> Option<Vec<ReportedRule>> {
        let (rules, alone) = self.returns.hold(connection, dpid, rules);
        if let Some(switches) = alone {
            self.returns.presume(switches, ctx);
        }
        rules
    }

    /// Returns those that claim the switch of this ended connection, if the engine has not handled the end yet.
    pub fn claimants_of(&mut self, connection: ConnectionId) -> Option<&mut Vec<ConnectionId>> {
        let departure = self.departures.iter_mut().find(|departure| departure.connection == Some(connection));
        departure.map(|departure| &mut departure.claimants)
    }

    /// Returns the time of the next deadline.
    pub fn deadline(&self) -> Option<Time> {
        self.returns.deadline().into_iter().chain(self.unreachable.deadline()).min()
    }

    /// Handles the deadlines that have passed.
    pub fn on_timer(&mut self, engine: &Engine, ctx: &mut Context) {
        self.returns.on_timer(ctx);
        self.forget_unreachable(engine, ctx);
    }

    /// Records that the engine knows a switch, and has asked for its rules. If the switch is the last one that others
    /// wait for, what was around them is presumed.
    pub fn on_switch_known(&mut self, connection: Option<ConnectionId>, dpid: Dpid, ctx: &mut Context) {
        if let Some(switches) = self.returns.arrive(connection, dpid) {
            self.returns.presume(switches, ctx);
        }
    }

    /// Asks the engine to restore the switches among these that are expected here.
    pub fn restore(&mut self, switches: &BTreeSet<Dpid>, links: &mut Links, io: &mut Io, ctx: &mut Context) {
        for (ExpectedSwitch { connection, dpid, rules }, departed) in self.returns.take_due(switches) {
            let announced = self.announced.note_restored(dpid);
            // If the connection has ended meanwhile, the engine finds no such switch.
            let connection = connection.and_then(|connection| io.connections_mut().get_exactly(connection));
            let switch = connection.and_then(Connection::up);
            if let Some(((.., switch), state)) = switch.zip(self.returns.state()) {
                switch.is_in_use = true;
                links.on_switch_back(ctx.now, dpid, &switch.ports, |at| attachment(&state, at));
            }
            let Departed { leaves: witnesses, surroundings, .. } = departed;
            ctx.events.push(Event::Restore { dpid, rules: announced, witnesses, earlier: Arc::new(surroundings) });
            ctx.events.extend(rules.map(|rules| Event::RulesRead { dpid, rules }));
        }
    }

    /// Handles the end of the takeover: announced switches without a connection get none.
    pub fn on_all_resumed(&mut self, links: &mut Links, ctx: &mut Context) {
        self.forget_announced(None, links, ctx);
    }

    /// Ends the announcement of the switches with this connection, or of those with none. The switches that the engine
    /// restores are unreachable; the others are gone.
    fn forget_announced(&mut self, connection: Option<ConnectionId>, links: &mut Links, ctx: &mut Context) {
        for (dpid, AnnouncedSwitch { info, is_restored, .. }) in self.announced.take_without(connection) {
            match self.returns.state().filter(|_| is_restored && self.unreachable.keeps()) {
                Some(state) => {
                    links.on_switch_back(ctx.now, dpid, &info.ports, |at| attachment(&state, at));
                    ctx.events.push(Event::SwitchUnreachable { dpid });
                    self.departures.push(DepartedSwitch::announced(dpid, info));
                }
                None => ctx.events.push(Event::SwitchDown { dpid }),
            }
        }
    }

    /// Asks the engine to forget the switches that have been away for too long.
    fn forget_unreachable(&mut self, engine: &Engine, ctx: &mut Context) {
        for dpid in self.unreachable.take_overdue(ctx.now) {
            if !engine.view().is_declared(dpid) {
                ctx.events.push(Event::SwitchDown { dpid });
                self.departures.push(DepartedSwitch::forgotten(dpid));
            }
        }
    }

    /// Asks the engine to forget all switches without a connection: another controller has been their master since.
    pub fn forget_all_unreachable(&mut self, ctx: &mut Context) {
        for dpid in self.unreachable.take_all() {
            ctx.events.push(Event::SwitchDown { dpid });
            self.departures.push(DepartedSwitch::forgotten(dpid));
        }
    }

    /// Drops a switch that the engine has forgotten.
    pub fn drop_unreachable(&mut self, dpid: Dpid, links: &mut Links, ctx: &mut Context) {
        if self.unreachable.take(dpid).is_some() {
            ctx.registry.forget(dpid, ctx.id);
            links.on_switch_down(ctx.now, dpid);
        }
    }

    /// Returns the departure of this switch that the engine has not handled yet.
    pub fn departure_of(&mut self, dpid: Dpid) -> Option<&mut DepartedSwitch> {
        self.departures.iter_mut().find(|departure| departure.dpid == dpid)
    }

    /// Tells the engine that a switch has lost its connection. If it may stay, and its rules were read, the engine
    /// keeps it.
    pub fn depart(&mut self, departure: DepartedSwitch, may_stay: bool, ctx: &mut Context) {
        let dpid = departure.dpid;
        let stays = departure.info.is_some() && self.unreachable.keeps() && may_stay;
        ctx.events.push(if stays { Event::SwitchUnreachable { dpid } } else { Event::SwitchDown { dpid } });
        self.departures.push(departure);
    }

    /// Frees the datapath ids of switches whose end the engine has handled.
    pub fn free_departed(&mut self, engine: &Engine, links: &mut Links, ctx: &mut Context) {
        for departure in std::mem::take(&mut self.departures) {
            self.free(departure, engine, links, ctx);
        }
    }

    /// Frees a datapath id for a new connection, and notifies its claimants. If the engine keeps the switch, the switch
    /// stays at this shard.
    pub fn free(&mut self, departure: DepartedSwitch, engine: &Engine, links: &mut Links, ctx: &mut Context) {
        let DepartedSwitch { dpid, connection, info, claimants } = departure;
        let stays = engine.view().is_unreachable(dpid);
        if !stays && !self.unreachable.has(dpid) && info.is_some() {
            links.on_switch_down(ctx.now, dpid);
        }
        if let Some(connection) = connection {
            ctx.registry.release(dpid, connection, stays);
        }
        match info {
            Some(info) if stays => {
                ctx.registry.keep(dpid, ctx.id);
                links.suspend(dpid);
                self.unreachable.keep(ctx.now, *info);
            }
            _ if !stays => self.drop_unreachable(dpid, links, ctx),
            _ => {}
        }
        for claimant in claimants {
            ctx.outgoing.send(claimant.shard, ShardMessage::ChallengeResult { dpid, claimant, alive: false });
        }
    }
}

/// Takes a switch that the engine has kept without a connection.
fn on_unreachable_back(
    slot: usize,
    before: &SwitchInfo,
    info: &SwitchInfo,
    links: &mut Links,
    io: &mut Io,
    ctx: &mut Context,
) {
    let dpid = info.features.dpid;
    ctx.events.push(Event::SwitchReachable { dpid });
    links.resume(ctx.now, dpid);
    for status in port_changes(&before.ports, &info.ports) {
        links.on_port_status(ctx.now, dpid, &status);
        ctx.events.push(Event::PortStatus { dpid, status });
    }
    if let Some((.., switch)) = io.up(slot) {
        switch.is_in_use = true;
    }
    if let Some((session, outputs)) = io.session(slot) {
        session.read_flows(ctx.now, outputs);
    }
}

/// Reports whether a switch describes itself as before, apart from its ports.
fn is_unchanged(before: &SwitchInfo, now: &SwitchInfo) -> bool {
    (SwitchInfo { ports: now.ports.clone(), ..before.clone() }) == *now
}
