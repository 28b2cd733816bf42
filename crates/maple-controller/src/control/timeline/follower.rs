//! The follower, which makes the kept network follow the real one: by what fits the budgets, and
//! without taking what is not seen as gone.
//!
//! Switches, ports and hosts have a budget each, and take turns within it: a look goes on after the last key of the
//! look before. So a host that moves all the time delays other hosts by one turn, and switches not at all.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};

use maple_core::network::{HostInfo, Location, Mac, PortInfo, PortKind};
use maple_core::state::Snapshot;
use maple_wire::Dpid;

use super::budget::{Budget, Rate};
use super::entry::{Known, LOOK_ENTRY_BYTES};
use super::network::{NetworkChange, NetworkThen, put};

/// The bounds of what is followed.
#[derive(Clone, Copy, Debug)]
pub(super) struct FollowLimits {
    /// The number of switches, of ports, and of hosts.
    pub parts: usize,
    pub switches: Rate,
    pub ports: Rate,
    pub hosts: Rate,
}

/// Follows a network.
#[derive(Debug)]
pub(super) struct Follower {
    switches: Followed<Dpid>,
    ports: Followed<Location>,
    hosts: Followed<Mac>,
    most: usize,
}

impl Follower {
    /// Creates a follower of a network of which nothing is kept.
    pub fn new(limits: &FollowLimits) -> Follower {
        Follower {
            switches: Followed::new(limits.switches),
            ports: Followed::new(limits.ports),
            hosts: Followed::new(limits.hosts),
            most: limits.parts,
        }
    }

    /// Takes a network over from an earlier run. What this run does not see stays as it is until
    /// [`Follower::give_up_unseen`], and no switch is connected before it is seen.
    pub fn take_over(&mut self, network: &mut NetworkThen) {
        network.switches.values_mut().for_each(|is_connected| *is_connected = false);
        self.switches.unseen.extend(network.switches.keys());
        self.ports.unseen.extend(network.ports.keys());
        self.hosts.unseen.extend(network.hosts.keys());
    }

    /// Takes what has not been seen for gone, from now on.
    pub fn give_up_unseen(&mut self) {
        self.switches.unseen.clear();
        self.ports.unseen.clear();
        self.hosts.unseen.clear();
    }

    /// Counts what an earlier run has kept.
    pub fn spent(&mut self, now: u64, change: &NetworkChange) {
        let budget = match change {
            NetworkChange::Switch(..) => &mut self.switches.budget,
            NetworkChange::Port(..) => &mut self.ports.budget,
            NetworkChange::Host(..) => &mut self.hosts.budget,
        };
        budget.spent(now, change.size());
    }

    /// Changes the network towards a snapshot, as far as there is room: wholly, if that takes none (`is_free`). Returns
    /// what has changed.
    pub fn look(
        &mut self,
        now: u64,
        is_free: bool,
        network: &mut NetworkThen,
        state: &Snapshot,
        is_away: impl Fn(Dpid) -> bool,
    ) -> (Vec<NetworkChange>, Known) {
        let (mut all, mut known) = (Vec::new(), Known { version: state.version(), ..Known::default() });
        let switches = state.switches().map(|(dpid, _)| (dpid, !is_away(dpid)));
        let ports = |dpid| state.ports_of(dpid).map(move |(port, info)| (Location::new(dpid, port), info));
        let ports = state.switches().flat_map(|(dpid, _)| ports(dpid));
        let hosts = state.hosts().map(|(mac, info)| (*mac, info));
        // Discovery needs a while to find out what is behind a port.
        let is_vague = |port: &PortInfo| port.up && port.kind == PortKind::New;
        let mut turn = Turn { now, is_free, most: self.most, known: &mut known, all: &mut all };
        turn.follow(&mut self.switches, &mut network.switches, switches, NetworkChange::Switch, |_| false);
        turn.follow(&mut self.ports, &mut network.ports, ports, NetworkChange::Port, is_vague);
        turn.follow(&mut self.hosts, &mut network.hosts, hosts, NetworkChange::Host, |_: &HostInfo| false);
        (all, known)
    }
}

/// The state of following one kind of parts.
#[derive(Debug)]
struct Followed<K> {
    budget: Budget,
    /// The last key that was kept: the next look goes on after it.
    last: Option<K>,
    /// The keys that an earlier run kept, and that this one has not seen.
    unseen: BTreeSet<K>,
}

impl<K: Ord> Followed<K> {
    fn new(rate: Rate) -> Followed<K> {
        Followed { budget: Budget::new(rate), last: None, unseen: BTreeSet::new() }
    }
}

/// One look, at one kind of parts after the other.
struct Turn<'a> {
    now: u64,
    /// Whether changes take nothing of the budgets.
    is_free: bool,
    most: usize,
    known: &'a mut Known,
    all: &'a mut Vec<NetworkChange>,
}

impl Turn<'_> {
    /// Follows parts to the present ones, which are in order. A part that is vague may be as an earlier run knew it.
    fn follow<K: Ord + Copy, V: PartialEq + Clone>(
        &mut self,
        followed: &mut Followed<K>,
        kept: &mut BTreeMap<K, V>,
        present: impl Iterator<Item = (K, impl Borrow<V>)>,
        change: fn(K, Option<V>) -> NetworkChange,
        is_vague: impl Fn(&V) -> bool,
    ) {
        let (mut wanted, mut added) = (Vec::new(), Vec::new());
        let mut before = kept.iter().peekable();
        let is_gone = |unseen: &BTreeSet<K>, key: &K| !unseen.contains(key);
        for (key, value) in present {
            let value = value.borrow();
            while let Some((gone, _)) = before.next_if(|(other, _)| **other < key) {
                wanted.extend(is_gone(&followed.unseen, gone).then_some((*gone, None)));
            }
            match before.next_if(|(other, _)| **other == key) {
                Some(_) if is_vague(value) && followed.unseen.contains(&key) => {}
                Some((_, old)) => {
                    followed.unseen.remove(&key);
                    wanted.extend((old != value).then(|| (key, Some(value.clone()))));
                }
                None => added.push((key, Some(value.clone()))),
            }
        }
        wanted.extend(before.filter(|(gone, _)| is_gone(&followed.unseen, gone)).map(|(gone, _)| (*gone, None)));
        // Those that are kept stay: a new one never takes the place of another.
        let room = self.most.saturating_sub(kept.len());
        self.known.beyond += added.len().saturating_sub(room) as u64;
        added.truncate(room);
        wanted.extend(added);
        wanted.sort_by_key(|(key, _)| (followed.last.is_some_and(|last| *key <= last), *key));
        let begin = self.all.len();
        for (key, value) in wanted.iter().cloned() {
            let change = change(key, value.clone());
            let entry = if self.all.is_empty() { LOOK_ENTRY_BYTES } else { 0 };
            if !self.is_free && !followed.budget.spend(self.now, entry + change.size()) {
                break;
            }
            put(kept, key, value);
            followed.last = Some(key);
            self.all.push(change);
        }
        self.known.pending += (wanted.len() - (self.all.len() - begin)) as u64;
        self.known.unseen += followed.unseen.len() as u64;
    }
}
