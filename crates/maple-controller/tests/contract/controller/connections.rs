//! Connections come and go: who speaks for which switch, and who hears of it.

use maple_controller::Deadlines;
use maple_controller::session::{CloseReason, Session};
use maple_core::engine::{Event, Time};
use maple_emulator::Network;
use maple_wire::Dpid;

use super::{Connection, Controller, Letter, Shard};

impl Controller {
    pub(super) fn opened(&mut self, now: Time, dpid: Dpid) {
        let (shard, at) = (self.any_shard(), self.connections.len());
        let mut out = Vec::new();
        let session = Session::new(now, Deadlines::default(), &mut out);
        self.connections.push(Connection {
            dpid,
            shard,
            opened: now,
            session,
            open: true,
            ports: None,
            in_use: false,
            claimants: Vec::new(),
        });
        self.current.insert(dpid, at);
        self.shards[shard].outputs.extend(out.into_iter().map(|output| (at, output)));
    }

    /// The first messages of connections that were opened since.
    pub fn greet(&mut self, now: Time, network: &mut Network) {
        for shard in 0..self.shards.len() {
            while let Some((at, output)) = self.shards[shard].outputs.pop_front() {
                self.act(now, at, vec![output], network);
            }
        }
    }

    pub(super) fn claim(&mut self, now: Time, at: usize, dpid: Dpid, network: &mut Network) {
        match self.owners.get(&dpid).copied() {
            Some(owner) if owner != at => {
                let (from, to) = (self.connections[at].shard, self.connections[owner].shard);
                self.post(now, from, to, Letter::Challenge { owner, claimant: at });
            }
            _ => {
                self.owners.insert(dpid, at);
                let mut out = Vec::new();
                self.connections[at].session.admit(now, &mut out);
                self.act(now, at, out, network);
            }
        }
    }

    pub(super) fn challenged(&mut self, now: Time, owner: usize, claimant: usize, network: &mut Network) {
        let connection = &mut self.connections[owner];
        if !connection.open || self.owners.get(&connection.dpid) != Some(&owner) {
            let (from, to) = (connection.shard, self.connections[claimant].shard);
            return self.post(now, from, to, Letter::Verdict { claimant, alive: false });
        }
        connection.claimants.push(claimant);
        if connection.claimants.len() == 1 {
            let mut out = Vec::new();
            connection.session.challenge(now, &mut out);
            self.act(now, owner, out, network);
        }
    }

    pub(super) fn judged(&mut self, now: Time, claimant: usize, alive: bool, network: &mut Network) {
        let connection = &mut self.connections[claimant];
        if !connection.open {
            return;
        }
        let dpid = connection.dpid;
        if alive {
            let mut out = Vec::new();
            connection.session.refuse(CloseReason::Duplicate(dpid), &mut out);
            self.act(now, claimant, out, network);
        } else {
            self.claim(now, claimant, dpid, network);
        }
    }

    pub(super) fn verdicts(&mut self, now: Time, at: usize, alive: bool) {
        for claimant in std::mem::take(&mut self.connections[at].claimants) {
            let (from, to) = (self.connections[at].shard, self.connections[claimant].shard);
            self.post(now, from, to, Letter::Verdict { claimant, alive });
        }
    }

    pub(super) fn close(&mut self, now: Time, at: usize, reason: &CloseReason, network: &mut Network) {
        let dpid = self.connections[at].dpid;
        self.ended.push((now, dpid, reason.to_string()));
        self.leave(now, at);
        if self.current.get(&dpid) == Some(&at) {
            self.current.remove(&dpid);
            network.disconnect(dpid).expect("the switch is in the network");
        }
    }

    /// A connection ends: everybody who knew of it hears so, once.
    pub(super) fn leave(&mut self, now: Time, at: usize) {
        let connection = &mut self.connections[at];
        if !std::mem::replace(&mut connection.open, false) {
            return;
        }
        let (dpid, shard, up) = (connection.dpid, connection.shard, connection.ports.take().is_some());
        if self.owners.get(&dpid) == Some(&at) {
            self.owners.remove(&dpid);
            self.verdicts(now, at, false);
            if up {
                let Shard { discovery, found, events, .. } = &mut self.shards[shard];
                discovery.switch_down(now, dpid, found);
                events.push(Event::SwitchDown { dpid });
            }
        }
    }
}
