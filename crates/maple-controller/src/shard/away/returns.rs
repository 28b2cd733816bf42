//! Switches that come back: after a restart of the controller, or after they disconnected
//! (`storage/known_switches.rs`).
//!
//! When the switches that wait for each other are up, one shard has its engine presume what was around them. When the
//! engine has done so, the shard notifies all shards, after the mail of that turn. Each shard asks its engine to
//! restore the switches that it *expects*, and its discovery takes for granted what the engine presumes. Rules that
//! were read before are *held* here meanwhile.

use std::collections::BTreeSet;
use std::sync::Arc;

use maple_core::engine::{Event, ReportedRule, Time};
use maple_core::ids::LeafId;
use maple_core::memory::{Surroundings, Witness};
use maple_core::network::{Location, PortKind};
use maple_core::state::Snapshot;
use maple_wire::Dpid;

use crate::discovery::Attachment;
use crate::shard::context::Context;
use crate::shard::mailbox::ShardMessage;
use crate::shard::registry::ConnectionId;
use crate::storage::{Departed, KnownSwitches, RestoreWay};

/// The switches of this shard that come back.
#[derive(Debug, Default)]
pub(in crate::shard) struct ReturningSwitches {
    known: Option<KnownSwitches>,
    expected: Vec<ExpectedSwitch>,
    /// The switches whose surroundings the engine is to presume, and has not presumed yet.
    presumed: Vec<Arc<BTreeSet<Dpid>>>,
    /// The number of the journal's requests for all leaves, when they were last reported.
    announced: u64,
}

/// A switch that waits for others, or until its surroundings are presumed.
#[derive(Debug)]
pub(in crate::shard) struct ExpectedSwitch {
    /// The connection; `None` while another process is to hand it over.
    pub connection: Option<ConnectionId>,
    pub dpid: Dpid,
    /// The switch's rules, if they were read.
    pub rules: Option<Vec<ReportedRule>>,
}

impl ReturningSwitches {
    pub fn new(known: Option<KnownSwitches>) -> ReturningSwitches {
        ReturningSwitches { known, ..ReturningSwitches::default() }
    }

    /// Records that the engine knows that a switch is up. If it is the last one that others have waited for, returns
    /// these with the switch itself.
    pub fn arrive(&mut self, connection: Option<ConnectionId>, dpid: Dpid) -> Option<BTreeSet<Dpid>> {
        let KnownSwitches { restart, .. } = self.known.as_ref()?;
        let complete = match restart.arrive(dpid) {
            RestoreWay::Alone => return None,
            RestoreWay::Waits => None,
            RestoreWay::Complete(switches) => Some(switches),
        };
        self.expected.push(ExpectedSwitch { connection, dpid, rules: None });
        complete
    }

    /// Takes the rules of a switch that is not in use yet. If something is remembered of the switch, its rules are
    /// held, and none are returned.
    ///
    /// The second value is the switch, if its surroundings are to be presumed alone.
    pub fn hold(
        &mut self,
        connection: ConnectionId,
        dpid: Dpid,
        rules: Vec<ReportedRule>,
    ) -> (Option<Vec<ReportedRule>>, Option<BTreeSet<Dpid>>) {
        if let Some(expected) = self.expected.iter_mut().find(|expected| expected.connection == Some(connection)) {
            expected.rules = Some(rules);
            return (None, None);
        }
        if !self.known.as_ref().is_some_and(|known| known.restart.knows(dpid)) {
            return (Some(rules), None);
        }
        self.expected.push(ExpectedSwitch { connection: Some(connection), dpid, rules: Some(rules) });
        (None, Some([dpid].into()))
    }

    /// Handles the end of a connection. If its switch waits for others, it stops waiting. Otherwise it stays expected,
    /// because the engine has to learn that it will not be restored.
    pub fn on_connection_end(&mut self, connection: ConnectionId) {
        if let Some(KnownSwitches { restart, .. }) = &self.known {
            self.expected.retain(|expected| expected.connection != Some(connection) || !restart.leave(expected.dpid));
        }
    }

    /// Records the connection of a switch that another process has handed over, if the switch is still to be restored.
    pub fn connect(&mut self, dpid: Dpid, connection: ConnectionId) {
        let mut expected = self.expected.iter_mut();
        if let Some(expected) = expected.find(|expected| expected.dpid == dpid && expected.connection.is_none()) {
            expected.connection = Some(connection);
        }
    }

    /// Returns the tracked state, if anything is remembered.
    pub fn state(&self) -> Option<Arc<Snapshot>> {
        Some(self.known.as_ref()?.restart.store().snapshot())
    }

    /// Returns the time at which the switches stop waiting for each other.
    pub fn deadline(&self) -> Option<Time> {
        self.known.as_ref()?.restart.deadline()
    }

    /// Asks the engine to presume what was around these switches.
    pub fn presume(&mut self, switches: BTreeSet<Dpid>, ctx: &mut Context) {
        let Some(KnownSwitches { restart, .. }) = &self.known else {
            return debug_assert!(false, "nothing is remembered, so no switch waits");
        };
        let earlier = Arc::new(restart.around(&switches));
        self.presumed.push(Arc::new(switches.clone()));
        ctx.events.push(Event::Presume { earlier, switches });
    }

    /// Asks the engine to presume what was around the switches that have waited for long enough.
    pub fn on_timer(&mut self, ctx: &mut Context) {
        if let Some(KnownSwitches { restart, .. }) = &self.known
            && let Some(switches) = restart.on_deadline(ctx.now)
        {
            self.presume(switches, ctx);
        }
    }

    /// Takes those of these switches that are expected here, with what is remembered of each. Their leaves of the
    /// earlier run are outdated.
    pub fn take_due(&mut self, switches: &BTreeSet<Dpid>) -> Vec<(ExpectedSwitch, Departed)> {
        let Some(KnownSwitches { restart, journal }) = &self.known else {
            debug_assert!(self.expected.is_empty(), "only switches that are remembered are expected");
            return Vec::new();
        };
        let due = self.expected.extract_if(.., |one| switches.contains(&one.dpid));
        let with_memory = due.map(|expected| {
            let mut departed = restart.take(expected.dpid).unwrap_or_default();
            journal.outdate(std::mem::take(&mut departed.rows));
            (expected, departed)
        });
        with_memory.collect()
    }

    /// Takes the switches whose surroundings the engine presumes, once it has handled all its events.
    pub fn take_presumed(&mut self) -> Vec<Arc<BTreeSet<Dpid>>> {
        std::mem::take(&mut self.presumed)
    }

    /// Reports whether the journal has asked for all leaves since the last call.
    pub fn is_to_announce_all(&mut self) -> bool {
        let wanted = self.known.as_ref().map_or(0, |known| known.journal.wanted());
        std::mem::replace(&mut self.announced, wanted) != wanted
    }

    /// Records leaves for the next run.
    pub fn note(&self, leaves: Vec<(LeafId, Option<Witness>)>) {
        if let Some(KnownSwitches { journal, .. }) = &self.known {
            journal.note(leaves);
        }
    }

    /// Records the leaves and the surroundings of a switch that has disconnected.
    pub fn on_departed(&self, dpid: Dpid, leaves: Vec<(LeafId, Witness)>, surroundings: Surroundings) {
        if let Some(KnownSwitches { restart, journal }) = &self.known {
            let switch = journal.departed(leaves, surroundings);
            let rows = switch.rows.clone();
            if !restart.depart(dpid, switch) {
                journal.outdate(rows);
            }
        }
    }
}

/// Tells all shards what the engine has presumed.
pub(in crate::shard) fn announce_presumed(presumed: Vec<Arc<BTreeSet<Dpid>>>, ctx: &mut Context) {
    for switches in presumed {
        ctx.outgoing.send_all(|| ShardMessage::Restore(Arc::clone(&switches)));
    }
}

/// Returns the attachment of a port that discovery takes for granted.
pub(in crate::shard) fn attachment(state: &Snapshot, at: Location) -> Attachment {
    match state.port(at).map(|port| port.kind) {
        Some(PortKind::Link(peer)) => Attachment::Link(peer),
        Some(PortKind::Edge | PortKind::Middlebox) => Attachment::Edge,
        _ => Attachment::New,
    }
}
