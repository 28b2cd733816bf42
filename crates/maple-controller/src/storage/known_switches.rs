//! Switches that this controller has known before: in an earlier run, or before they disconnected.
//!
//! # What
//!
//! Such a switch is *departed*. Its leaves and surroundings ([`Departed`]) are kept here until it comes back, and then
//! the engine restores it (`maple_core`, `engine/reruns/restore.rs`).
//!
//! In a cluster, what a former master knew of its switches comes here when this controller takes its place.
//!
//! After a restart of the controller most switches come back within moments, and f's decisions for one may depend on
//! others. So they wait for each other: nothing is presumed before the last one has come back, or [`RECONNECT_TIME`] is
//! over. Their rules may be read before or after that. A switch that comes later is restored alone, when its rules are
//! read: until the rules of such a switch are known, no switch gets new labels.
//!
//! # Bounds
//!
//! Not more than [`MAX_SWITCHES`] departed switches and [`MAX_LEAVES`] of their leaves are remembered. Beyond that,
//! switches are forgotten when they disconnect.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use maple_core::engine::Time;
use maple_core::memory::{Surroundings, Witness};
use maple_core::state::Store;
use maple_wire::Dpid;
use parking_lot::{Mutex, MutexGuard};

use crate::time::after;

/// The time for which switches wait for each other after the start. It must exceed 8 seconds, after which Open vSwitch
/// tries to connect again at the latest.
const RECONNECT_TIME: Duration = Duration::from_secs(10);

/// The time for which switches wait for each other after their former master, for those that are connected. It must
/// exceed some round trips to the slowest of them.
const HANDSHAKE_TIME: Duration = Duration::from_secs(2);

/// The maximum number of departed switches. Anyone that reaches the controller's port can claim datapath ids, unless
/// TLS asks for certificates. Chosen: more than a network has.
const MAX_SWITCHES: usize = 4096;
/// The maximum number of leaves of departed switches. Chosen: a bound on memory and on the state file; a switch whose
/// leaves do not fit decides its packets afresh.
const MAX_LEAVES: usize = 1 << 20;

/// The leaves and surroundings of a departed switch.
#[derive(Debug, Default)]
pub(crate) struct Departed {
    /// Its leaves, oldest first.
    pub leaves: Vec<Witness>,
    /// The rows of these leaves in the state file, in the same order.
    pub rows: Vec<u64>,
    /// The links, edge ports, hosts and labels around it, and its model.
    pub surroundings: Surroundings,
}

/// The way to restore a switch that has connected.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RestoreWay {
    /// Nothing is remembered of it, or it comes late: it is restored when its rules are read.
    Alone,
    /// The switch waits for others.
    Waits,
    /// All awaited switches are back, these ones: the caller presumes what was around them.
    Complete(BTreeSet<Dpid>),
}

/// The departed switches, for all shards.
#[derive(Debug)]
pub(crate) struct Restart {
    store: Arc<Store>,
    /// Whether switches wait for each other. Shards read this in every turn.
    is_waited: AtomicBool,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    departed: BTreeMap<Dpid, Departed>,
    leaves: usize,
    /// The time until which switches wait for each other; `None` when they do not.
    until: Option<Time>,
    /// The switches that wait for each other.
    awaited: BTreeSet<Dpid>,
    /// Those of them that are back.
    waiting: BTreeSet<Dpid>,
}

impl Restart {
    /// Starts with the switches of an earlier run, which all wait for each other.
    pub fn new(now: Time, store: Arc<Store>, departed: BTreeMap<Dpid, Departed>) -> Restart {
        let all = departed.keys().copied().collect();
        Restart::from_departed(now, store, departed, all)
    }

    /// Starts with the switches of an earlier run, of which those in `awaited` wait for each other.
    pub fn from_departed(
        now: Time,
        store: Arc<Store>,
        departed: BTreeMap<Dpid, Departed>,
        mut awaited: BTreeSet<Dpid>,
    ) -> Restart {
        awaited.retain(|dpid| departed.contains_key(dpid));
        let leaves = departed.values().map(|switch| switch.leaves.len()).sum();
        let until = (!awaited.is_empty()).then(|| after(now, RECONNECT_TIME));
        let inner = Inner { departed, leaves, until, awaited, waiting: BTreeSet::new() };
        Restart { store, is_waited: AtomicBool::new(inner.until.is_some()), inner: Mutex::new(inner) }
    }

    /// Takes what a former master knew of its switches in the place of what is remembered. Those in `awaited` are
    /// connected, and wait for each other. Returns the rows of what was remembered before.
    pub fn replace(&self, now: Time, mut departed: BTreeMap<Dpid, Departed>, mut awaited: BTreeSet<Dpid>) -> Vec<u64> {
        bound(&mut departed);
        awaited.retain(|dpid| departed.contains_key(dpid));
        let leaves = departed.values().map(|switch| switch.leaves.len()).sum();
        let until = (!awaited.is_empty()).then(|| after(now, HANDSHAKE_TIME));
        let mut inner = self.lock();
        let new = Inner { departed, leaves, until, awaited, waiting: BTreeSet::new() };
        let before = std::mem::replace(&mut *inner, new);
        self.is_waited.store(inner.until.is_some(), Ordering::Relaxed);
        before.departed.into_values().flat_map(|switch| switch.rows).collect()
    }

    /// Returns the leaves of all departed switches, with their rows.
    pub fn departed_rows(&self) -> Vec<(u64, Witness)> {
        let inner = self.lock();
        let rows =
            |switch: &Departed| switch.rows.iter().copied().zip(switch.leaves.iter().cloned()).collect::<Vec<_>>();
        inner.departed.values().flat_map(rows).collect()
    }

    /// Notes that a switch is up, whose rules are not known yet, and says how to restore it.
    pub fn arrive(&self, dpid: Dpid) -> RestoreWay {
        let mut inner = self.lock();
        if inner.until.is_none() || !inner.awaited.contains(&dpid) || !inner.departed.contains_key(&dpid) {
            return RestoreWay::Alone;
        }
        inner.waiting.insert(dpid);
        if inner.awaited.iter().all(|dpid| inner.waiting.contains(dpid)) {
            inner.until = None;
            self.is_waited.store(false, Ordering::Relaxed);
            return RestoreWay::Complete(std::mem::take(&mut inner.waiting));
        }
        RestoreWay::Waits
    }

    /// Adds what has become known of the earlier run: these leaves by their rows, and where everything is. Returns what
    /// belongs to switches that are restored already.
    pub fn learn(
        &self,
        leaves: impl IntoIterator<Item = (u64, Witness)>,
        surroundings: Surroundings,
    ) -> BTreeMap<Dpid, Departed> {
        let (mut inner, mut others) = (self.lock(), BTreeMap::<Dpid, Departed>::new());
        for (dpid, part) in by_switch(surroundings) {
            match inner.departed.get_mut(&dpid) {
                Some(switch) => switch.surroundings = part,
                None => others.entry(dpid).or_default().surroundings = part,
            }
        }
        for (row, witness) in leaves {
            let dpid = witness.at.switch;
            let switch = match inner.departed.get_mut(&dpid) {
                Some(switch) => switch,
                None => others.entry(dpid).or_default(),
            };
            switch.leaves.push(witness);
            switch.rows.push(row);
        }
        inner.leaves = inner.departed.values().map(|switch| switch.leaves.len()).sum();
        others
    }

    /// Reports whether none of these switches is still to be restored.
    pub fn has_restored<'a>(&self, mut switches: impl Iterator<Item = &'a Dpid>) -> bool {
        let inner = self.lock();
        switches.all(|dpid| !inner.departed.contains_key(dpid))
    }

    /// Reports whether something is remembered of a switch that was not restored yet.
    pub fn knows(&self, dpid: Dpid) -> bool {
        self.lock().departed.contains_key(&dpid)
    }

    /// Notes that a switch has disconnected. Returns whether it was still waiting for others, and so is not to be
    /// restored.
    pub fn leave(&self, dpid: Dpid) -> bool {
        self.lock().waiting.remove(&dpid)
    }

    /// Returns when the switches that are back stop waiting.
    pub fn deadline(&self) -> Option<Time> {
        if self.is_waited.load(Ordering::Relaxed) { self.lock().until } else { None }
    }

    /// Returns the switches to restore because the others have not come in time.
    pub fn on_deadline(&self, now: Time) -> Option<BTreeSet<Dpid>> {
        self.deadline().filter(|until| *until <= now)?;
        let mut inner = self.lock();
        // Another shard may have been quicker.
        inner.until.take()?;
        self.is_waited.store(false, Ordering::Relaxed);
        Some(std::mem::take(&mut inner.waiting))
    }

    /// Returns the combined surroundings of these switches.
    pub fn around(&self, switches: &BTreeSet<Dpid>) -> Surroundings {
        let (inner, mut all) = (self.lock(), Surroundings::default());
        switches.iter().filter_map(|dpid| inner.departed.get(dpid)).for_each(|switch| all.extend(&switch.surroundings));
        all
    }

    /// Removes and returns what is remembered of a switch.
    pub fn take(&self, dpid: Dpid) -> Option<Departed> {
        let mut inner = self.lock();
        let taken = inner.departed.remove(&dpid)?;
        inner.leaves -= taken.leaves.len();
        Some(taken)
    }

    /// Adds a switch that has disconnected. Returns `false` if too much is remembered already.
    pub fn depart(&self, dpid: Dpid, switch: Departed) -> bool {
        let mut inner = self.lock();
        let is_one_more = !inner.departed.contains_key(&dpid);
        if inner.leaves + switch.leaves.len() > MAX_LEAVES || is_one_more && inner.departed.len() >= MAX_SWITCHES {
            return false;
        }
        inner.leaves += switch.leaves.len();
        match inner.departed.get_mut(&dpid) {
            // The switch left again before it was restored, so all that was known of it still holds.
            Some(before) => {
                before.leaves.extend(switch.leaves);
                before.rows.extend(switch.rows);
            }
            None => drop(inner.departed.insert(dpid, switch)),
        }
        true
    }

    /// Returns where everything is, including the surroundings of departed switches.
    pub fn surroundings(&self) -> Surroundings {
        let mut all = Surroundings::from_store(&self.store);
        self.lock().departed.values().for_each(|switch| all.extend(&switch.surroundings));
        all
    }

    /// Returns the tracked state.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }
}

/// Leaves out what is beyond the bounds: whole switches, and the newest leaves.
fn bound(departed: &mut BTreeMap<Dpid, Departed>) {
    while departed.len() > MAX_SWITCHES {
        departed.pop_last();
    }
    let mut left = MAX_LEAVES;
    for switch in departed.values_mut() {
        switch.leaves.truncate(left);
        switch.rows.truncate(left);
        left -= switch.leaves.len();
    }
}

/// Splits surroundings by switch.
pub(crate) fn by_switch(all: Surroundings) -> BTreeMap<Dpid, Surroundings> {
    let mut parts: BTreeMap<Dpid, Surroundings> = BTreeMap::new();
    for (a, b) in all.links {
        for end in [a, b] {
            parts.entry(end.switch).or_default().links.push((a, b));
        }
    }
    for at in all.edges {
        parts.entry(at.switch).or_default().edges.push(at);
    }
    for (mac, host) in all.hosts {
        parts.entry(host.location.switch).or_default().hosts.push((mac, host));
    }
    for label in all.labels {
        parts.entry(label.switch).or_default().labels.push(label);
    }
    for (dpid, look_ups) in all.look_ups {
        parts.entry(dpid).or_default().look_ups.push((dpid, look_ups));
    }
    // A switch of which only the model is known has nothing to restore.
    for (dpid, model) in all.models {
        parts.entry(dpid).and_modify(|part| part.models.push((dpid, model)));
    }
    parts
}

#[cfg(test)]
mod tests {
    use maple_core::memory::ReadMetadata;
    use maple_core::network::Location;
    use maple_wire::PortNo;

    use super::*;

    fn witness() -> Witness {
        let at = Location::new(Dpid(1), PortNo(1));
        Witness {
            at,
            frame: [].into(),
            total_len: 0,
            extra_reads: [].into(),
            metadata: ReadMetadata::default(),
            is_made_up: false,
        }
    }

    fn departed(dpids: impl IntoIterator<Item = u64>) -> BTreeMap<Dpid, Departed> {
        dpids.into_iter().map(|dpid| (Dpid(dpid), Departed::default())).collect()
    }

    #[test]
    fn switches_wait_for_each_other_and_late_ones_are_restored_alone() {
        let restart = Restart::new(Time(1), Store::new(), departed([1, 2, 3]));
        assert_eq!(restart.arrive(Dpid(9)), RestoreWay::Alone);
        assert!(!restart.knows(Dpid(9)));
        assert_eq!([1, 2].map(|dpid| restart.arrive(Dpid(dpid))), [RestoreWay::Waits, RestoreWay::Waits]);
        assert!(restart.leave(Dpid(2)));
        assert_eq!(restart.on_deadline(Time(2)), None);
        let deadline = restart.deadline().expect("they wait");
        assert_eq!(restart.on_deadline(deadline), Some([Dpid(1)].into()));
        assert!(restart.take(Dpid(1)).is_some() && restart.take(Dpid(1)).is_none());
        assert_eq!(restart.arrive(Dpid(2)), RestoreWay::Alone);
        assert!(restart.knows(Dpid(2)) && !restart.leave(Dpid(2)));
        assert_eq!((restart.deadline(), restart.on_deadline(deadline)), (None, None));
    }

    #[test]
    fn a_switch_that_leaves_again_too_soon_is_known_as_before() {
        let around = Surroundings { edges: vec![Location::new(Dpid(1), PortNo(1))], ..Surroundings::default() };
        let known = Departed { leaves: vec![witness()], rows: vec![7], surroundings: around.clone() };
        let restart = Restart::new(Time(1), Store::new(), [(Dpid(1), known), (Dpid(2), Departed::default())].into());
        assert_eq!(restart.arrive(Dpid(1)), RestoreWay::Waits);
        assert!(restart.leave(Dpid(1)));
        assert!(restart.depart(Dpid(1), Departed { rows: vec![8], ..Departed::default() }));
        let switch = restart.take(Dpid(1)).expect("it is known");
        assert_eq!((switch.leaves.len(), switch.rows, switch.surroundings), (1, vec![7, 8], around));
    }

    #[test]
    fn leaves_learned_later_go_to_switches_that_wait_or_are_returned() {
        let around = |n| Surroundings { edges: vec![Location::new(Dpid(n), PortNo(1))], ..Surroundings::default() };
        let (mut both, mut second) = (around(1), witness());
        both.extend(&around(2));
        second.at.switch = Dpid(2);
        let restart = Restart::from_departed(Time(1), Store::new(), departed([1, 2]), [Dpid(2)].into());
        assert_eq!(restart.arrive(Dpid(2)), RestoreWay::Complete([Dpid(2)].into()), "it waits for no other");
        restart.take(Dpid(2));
        let others = restart.learn([(7, witness()), (8, second)], both);
        let contents = |switch: &Departed| (switch.rows.clone(), switch.surroundings.clone());
        assert_eq!(
            others.iter().map(|(dpid, switch)| (dpid.0, contents(switch))).collect::<Vec<_>>(),
            [(2, (vec![8], around(2)))]
        );
        assert_eq!(contents(&restart.take(Dpid(1)).expect("it is known")), (vec![7], around(1)));
        assert!(restart.has_restored([Dpid(1), Dpid(2)].iter()));
    }

    #[test]
    fn knowledge_of_a_former_master_replaces_the_remembered_switches() {
        let restart = Restart::new(Time(1), Store::new(), departed([]));
        assert!(restart.depart(Dpid(1), Departed { rows: vec![7], ..Departed::default() }));
        let known = Departed { leaves: vec![witness()], rows: vec![8], ..Departed::default() };
        let all = [(Dpid(2), known), (Dpid(3), Departed::default())].into();
        // One is not connected, and of another one nothing is known.
        assert_eq!(restart.replace(Time(1), all, [Dpid(2), Dpid(9)].into()), [7]);
        assert!(!restart.knows(Dpid(1)) && restart.knows(Dpid(3)));
        assert_eq!(restart.deadline(), Some(after(Time(1), HANDSHAKE_TIME)));
        assert_eq!(restart.arrive(Dpid(2)), RestoreWay::Complete([Dpid(2)].into()));
        assert_eq!(restart.departed_rows(), [(8, witness())]);
        assert_eq!(restart.replace(Time(2), departed([]), [Dpid(2)].into()), [8]);
        assert_eq!(restart.deadline(), None);
    }

    #[test]
    fn the_last_one_ends_the_wait() {
        let restart = Restart::new(Time(1), Store::new(), departed([1, 2]));
        assert_eq!(restart.arrive(Dpid(1)), RestoreWay::Waits);
        assert_eq!(restart.arrive(Dpid(2)), RestoreWay::Complete([Dpid(1), Dpid(2)].into()));
        assert_eq!(Restart::new(Time(1), Store::new(), departed([])).deadline(), None, "there is nobody to wait for");
    }

    #[test]
    fn the_number_of_remembered_switches_is_bounded() {
        let restart = Restart::new(Time(1), Store::new(), departed([]));
        let most = MAX_SWITCHES as u64;
        assert!((1..=most).all(|dpid| restart.depart(Dpid(dpid), Departed::default())));
        assert!(!restart.depart(Dpid(most + 1), Departed::default()));
        assert!(restart.depart(Dpid(1), Departed::default()), "it is one of them");
        restart.take(Dpid(1));
        assert!(restart.depart(Dpid(most + 1), Departed::default()));
    }

    #[test]
    fn the_number_of_remembered_leaves_is_bounded() {
        let restart = Restart::new(Time(1), Store::new(), departed([]));
        let many = |count| Departed { leaves: vec![witness(); count], ..Departed::default() };
        assert!(restart.depart(Dpid(1), many(MAX_LEAVES)));
        assert!(!restart.depart(Dpid(2), many(1)));
        restart.take(Dpid(1));
        assert!(restart.depart(Dpid(2), many(1)));
    }
}
