//! Switches that come back: after a restart of the controller, or after they disconnected (`restart.rs`).
//!
//! The rules of such a switch are read and *held* here. When the switches that wait for each other are there, one shard
//! has its engine presume what was around them. Then it tells all shards, after the mail of that turn. Each shard has its
//! engine restore the switches that it holds, and its discovery takes for granted what the engine presumes.

use std::collections::BTreeSet;
use std::sync::Arc;

use maple_core::engine::{Event, InstalledFlow, Time};
use maple_core::ids::LeafId;
use maple_core::network::PortKind;
use maple_core::remembered::{Surroundings, Witness};
use maple_wire::Dpid;

use super::Shard;
use super::mailbox::ShardMessage;
use super::registry::ConnectionId;
use crate::discovery::Attachment;
use crate::remember::LeafJournal;
use crate::restart::{Arrival, Restart};

/// The switches of this shard that come back.
#[derive(Debug, Default)]
pub(super) struct Returns {
    known: Option<(Arc<Restart>, Arc<LeafJournal>)>,
    held: Vec<Held>,
    /// What was around these switches is presumed in this turn.
    presumed: Vec<Arc<BTreeSet<Dpid>>>,
}

/// A switch whose rules were read.
#[derive(Debug)]
struct Held {
    connection: ConnectionId,
    dpid: Dpid,
    flows: Vec<InstalledFlow>,
}

impl Returns {
    pub fn new(known: Option<(Arc<Restart>, Arc<LeafJournal>)>) -> Returns {
        Returns { known, ..Returns::default() }
    }

    /// A switch has connected, and its rules were read.
    pub fn arrive(&self, dpid: Dpid) -> Arrival {
        self.known.as_ref().map_or(Arrival::Unknown, |(restart, _)| restart.arrive(dpid))
    }

    /// Holds the rules of a switch.
    pub fn hold(&mut self, connection: ConnectionId, dpid: Dpid, flows: Vec<InstalledFlow>) {
        self.held.push(Held { connection, dpid, flows });
    }

    /// A connection has ended. If its switch still waits for others, it no longer does.
    pub fn leave(&mut self, connection: ConnectionId) {
        let Some((restart, _)) = &self.known else { return };
        self.held.retain(|held| held.connection != connection || !restart.leave(held.dpid));
    }

    /// When the switches no longer wait for each other.
    pub fn deadline(&self) -> Option<Time> {
        self.known.as_ref()?.0.deadline()
    }

    /// The switches that no longer wait.
    pub fn on_deadline(&self, now: Time) -> Option<BTreeSet<Dpid>> {
        self.known.as_ref()?.0.on_deadline(now)
    }

    /// The next run is to know of these leaves.
    pub fn note(&self, leaves: Vec<(LeafId, Option<Witness>)>) {
        if let Some((_, journal)) = &self.known {
            journal.note(leaves);
        }
    }

    /// A switch has disconnected.
    pub fn departed(&self, dpid: Dpid, leaves: Vec<(LeafId, Witness)>, surroundings: Surroundings) {
        let Some((restart, journal)) = &self.known else { return };
        let switch = journal.departed(leaves, surroundings);
        let rows = switch.rows.clone();
        if !restart.depart(dpid, switch) {
            journal.outdate(rows);
        }
    }
}

impl Shard {
    /// Has the engine presume what was around these switches.
    pub(super) fn presume(&mut self, switches: BTreeSet<Dpid>) {
        let Some((restart, _)) = &self.returns.known else { return };
        let earlier = Arc::new(restart.around(&switches));
        self.returns.presumed.push(Arc::new(switches.clone()));
        self.events.push(Event::Presume { earlier, switches });
    }

    /// Tells all shards what was presumed in this turn.
    pub(super) fn announce_presumed(&mut self) {
        for switches in std::mem::take(&mut self.returns.presumed) {
            self.outgoing.send_all(|| ShardMessage::Restore(Arc::clone(&switches)));
        }
    }

    /// Has the engine restore the switches among these whose rules are held here.
    pub(super) fn restore(&mut self, now: Time, switches: &BTreeSet<Dpid>) {
        let Some((restart, journal)) = self.returns.known.clone() else { return };
        let held = std::mem::take(&mut self.returns.held);
        for held in held {
            if !switches.contains(&held.dpid) {
                self.returns.held.push(held);
                continue;
            }
            let Held { connection, dpid, flows } = held;
            let state = restart.store().snapshot();
            let known = |at| match state.port(at).map(|port| port.kind) {
                Some(PortKind::Link(peer)) => Attachment::Link(peer),
                Some(PortKind::Edge | PortKind::Middlebox) => Attachment::Edge,
                _ => Attachment::New,
            };
            // If the connection has ended meanwhile, the engine finds no such switch.
            let connection = self.connections.get_exactly(connection);
            if let Some(switch) = connection.and_then(|connection| connection.switch.as_mut()) {
                switch.in_use = true;
                self.discovery.switch_back(now, dpid, &switch.ports, known, &mut self.discovered);
            }
            let departed = restart.take(dpid).unwrap_or_default();
            journal.outdate(departed.rows);
            let (witnesses, earlier) = (departed.leaves, Arc::new(departed.surroundings));
            self.events.push(Event::Restore { dpid, flows, witnesses, earlier });
        }
    }
}
