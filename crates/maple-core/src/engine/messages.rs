//! Messages between shards.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use maple_wire::Dpid;

use super::hosts::SearchResult;
use super::{Effect, Engine};
use crate::ids::{LeafId, ShardId};
use crate::labels::{Acquire, Holder, News};
use crate::network::{Location, Mac};
use crate::route::SwitchHops;
use crate::state::{Commit, Selection};

/// A message from one shard to another. Opaque: to be carried, in the order sent between any two shards, as
/// [`Event::Mail`].
#[derive(Clone, Debug)]
pub struct Mail(pub(super) EngineMessage);

/// What a mail says.
#[derive(Clone, Debug)]
pub(super) enum EngineMessage {
    /// Withdraw what this selects of your leaves.
    Withdraw(Selection),
    /// What these leaves of yours rest on has changed: perhaps they go, perhaps they stay.
    Reconsider(BTreeSet<LeafId>),
    /// Ports or hosts of switches of yours changed.
    Refresh(Refreshed),
    /// A label of a switch of yours is asked for.
    Acquire(Acquire),
    /// What became of a label of this switch that a route or label of yours asked for.
    LabelNews(Dpid, Holder, News),
    /// A label of a switch of yours is given back, and whether it is confirmed that no rule leads to it.
    Release { at: Dpid, holder: Holder, confirmed: bool },
    /// Send a frame out of a switch of yours.
    Emit { dpid: Dpid, hops: SwitchHops, frame: Arc<[u8]> },
    /// Find out whether a host is still at a port of yours.
    FindHost { mac: Mac, at: Location, asker: ShardId },
    /// What came of it.
    HostSearched { mac: Mac, at: Location, found: SearchResult },
    /// This port has gone down, with hosts that may be at ports of yours.
    Unplugged(Location),
    /// A host's packet came in at `seen`, the other end of the link at your port `at`.
    UnexpectedHost { mac: Mac, at: Location, seen: Location },
    /// Somebody depends on addresses of hosts.
    AddressesAreRead,
    /// Somebody wants something measured.
    LoadsAreRead,
}

/// Ports that changed, and hosts that came to a place or left it.
#[derive(Clone, Debug, Default)]
pub(super) struct Refreshed {
    pub ports: BTreeSet<Location>,
    pub hosts: BTreeSet<(Location, Mac)>,
}

impl Engine {
    pub(super) fn read_inbox(&mut self) {
        while let Some(message) = self.inbox.pop_front() {
            match message {
                EngineMessage::Withdraw(selection) => self.withdraw_selected(&selection),
                EngineMessage::Reconsider(leaves) => self.leaves.mark_stale(leaves),
                EngineMessage::Refresh(refreshed) => self.refresh(&refreshed),
                EngineMessage::Acquire(asked) => self.acquire_label(asked),
                EngineMessage::LabelNews(from, holder, news) => self.label_news(from, holder, &news),
                EngineMessage::Release { at, holder, confirmed } => self.release_label(at, holder, confirmed),
                EngineMessage::Emit { dpid, hops, frame } => self.emit(dpid, &hops, &frame),
                EngineMessage::FindHost { mac, at, asker } => self.look_for_host(mac, at, asker),
                EngineMessage::HostSearched { mac, at, found } => self.host_found(mac, at, found),
                EngineMessage::Unplugged(at) => self.seek_unplugged(at),
                EngineMessage::UnexpectedHost { mac, at, seen } => self.unexpected_host_seen(mac, at, seen),
                // All that there is to it is done after each batch.
                EngineMessage::AddressesAreRead | EngineMessage::LoadsAreRead => {}
            }
        }
    }

    /// Does what a commit made necessary, here and at other shards.
    pub(super) fn apply(&mut self, commit: Commit) {
        let mut by_shard: BTreeMap<ShardId, BTreeSet<LeafId>> = BTreeMap::new();
        for leaf in commit.withdraw {
            by_shard.entry(ShardId::of(leaf)).or_default().insert(leaf);
        }
        for (shard, leaves) in by_shard {
            if shard == self.shard {
                self.leaves.mark_stale(leaves);
            } else {
                self.send_to_shard(shard, EngineMessage::Reconsider(leaves));
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

    /// Withdraws what a selection says, at every shard.
    pub(super) fn invalidate(&mut self, selection: &Selection) {
        let state = self.store.snapshot();
        let shards: BTreeSet<ShardId> = state.switches().map(|(_, info)| info.shard).chain([self.shard]).collect();
        for shard in shards {
            self.send_to_shard(shard, EngineMessage::Withdraw(selection.clone()));
        }
    }

    /// Sends a message to a shard.
    pub(super) fn send_to_shard(&mut self, to: ShardId, message: EngineMessage) {
        if to == self.shard {
            self.inbox.push_back(message);
        } else {
            self.out.push(Effect::Mail { to, mail: Mail(message) });
        }
    }

    /// Sends a message to the shard that serves a switch. A switch that is gone needs none: its links are gone too, and
    /// with them the leaves that it had a part in.
    pub(super) fn send_to_shard_of(&mut self, dpid: Dpid, message: EngineMessage) {
        if let Some(shard) = self.store.snapshot().shard_of(dpid) {
            self.send_to_shard(shard, message);
        }
    }
}
