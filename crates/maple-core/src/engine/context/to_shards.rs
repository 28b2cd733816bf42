//! Output of the engine to shards, itself among them: messages, and the work that a commit causes.

use std::collections::{BTreeMap, BTreeSet};

use maple_wire::Dpid;

use super::Context;
use crate::engine::messages::event::Effect;
use crate::engine::messages::mail::{EngineMessage, Mail, Refreshed};
use crate::ids::{DependentId, ShardId};
use crate::network::Location;
use crate::state::{Commit, LeafSelection, Snapshot, Write};

impl Context {
    /// Writes what `decide` returns for the newest state, and does what follows from that.
    pub fn write(&mut self, decide: impl FnOnce(&Snapshot) -> Vec<Write>) {
        let commit = self.store.update(decide);
        self.apply_commit(commit);
    }

    /// Carries out what a commit requires, here and at other shards.
    pub fn apply_commit(&mut self, commit: Commit) {
        let mut by_shard: BTreeMap<ShardId, BTreeSet<DependentId>> = BTreeMap::new();
        for dependent in commit.withdraw {
            by_shard.entry(ShardId::owning(dependent)).or_default().insert(dependent);
        }
        for (shard, dependents) in by_shard {
            if shard == self.shard {
                self.hear(dependents);
            } else {
                self.send_to_shard(shard, EngineMessage::Reconsider(dependents));
            }
        }
        let mut refreshed: BTreeMap<ShardId, Refreshed> = BTreeMap::new();
        let state = self.store.snapshot();
        let shard_of = |at: &Location| state.shard_of(at.switch);
        for at in commit.ports {
            if let Some(to) = shard_of(&at) {
                refreshed.entry(to).or_default().ports.insert(at);
            }
        }
        for (at, mac) in commit.hosts {
            if let Some(to) = shard_of(&at) {
                refreshed.entry(to).or_default().hosts.insert((at, mac));
            }
        }
        for (shard, refreshed) in refreshed {
            self.send_to_shard(shard, EngineMessage::Refresh(refreshed));
        }
        commit.invalidate.iter().for_each(|selection| self.invalidate(selection));
    }

    /// Withdraws the selected leaves at every shard.
    pub fn invalidate(&mut self, selection: &LeafSelection) {
        let state = self.store.snapshot();
        let shards: BTreeSet<ShardId> = state.switches().map(|(_, info)| info.shard).chain([self.shard]).collect();
        for shard in shards {
            self.send_to_shard(shard, EngineMessage::Withdraw(selection.clone()));
        }
    }

    /// Takes in a message from another shard.
    pub fn receive(&mut self, message: EngineMessage) {
        self.inbox.push_back(message);
    }

    /// Removes and returns the next message to this shard.
    pub fn next_message(&mut self) -> Option<EngineMessage> {
        self.inbox.pop_front()
    }

    /// Sends a message to a shard.
    pub fn send_to_shard(&mut self, to: ShardId, message: EngineMessage) {
        if to == self.shard {
            self.inbox.push_back(message);
        } else {
            let mail = Mail::new(self.shard, self.mails, message);
            self.mails += 1;
            self.out.push(Effect::Mail { to, mail });
        }
    }

    /// Sends a message to the shard that serves a switch. A switch that is gone needs no message: its links are gone
    /// too, and with them every leaf whose route used them.
    pub fn send_to_shard_of(&mut self, dpid: Dpid, message: EngineMessage) {
        if let Some(shard) = self.store.snapshot().shard_of(dpid) {
            self.send_to_shard(shard, message);
        }
    }
}
