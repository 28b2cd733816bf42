//! Waits until rules that are being removed are gone.
//!
//! A withdrawn leaf loses its ingress rule with the next flush, and no other rule reads headers. To know that nothing
//! of it is left, a caller asks all shards [`BARRIER_ROUNDS`] times. After the first round of answers, the shards have
//! sent each other what to withdraw. After the second one, all ingress rules are gone. Labels may still be in
//! quarantine, but no packet that enters after that gets them. If nothing is being removed, a round is one message and
//! its answer.

use std::collections::{BTreeMap, BTreeSet};

use maple_wire::Dpid;

use super::Decisions;
use super::leaves::Leaves;
use crate::engine::fabric::Fabric;
use crate::engine::fabric::routes::Routes;
use crate::engine::messages::event::Effect;
use crate::engine::one_switch::Switch;
use crate::engine::one_switch::tables::Waiter;
use crate::ids::{DependentId, Time};
use crate::report::Awaited;

/// The number of rounds. In each round, the caller asks every shard and waits until all have answered. The essay above
/// says why two are needed and enough.
pub const BARRIER_ROUNDS: u64 = 2;

/// The minimum size from which the threshold for the next search counts: finished changes of paths are not searched for
/// until there are twice as many. Chosen: a search looks at all changes, so it must not follow each of a few.
const MIN_TIDIED: usize = 64;

/// A change of path: the packets of a leaf, or of a route that follows a plan, move to another path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::engine) struct PathChange {
    /// The switch where the packets enter.
    pub ingress: Dpid,
    /// The leaf, or the plan of the route.
    pub dependent: DependentId,
    /// The time when the change has to be over. It distinguishes the changes of one dependent.
    pub until: Time,
}

/// The changes of paths that go on, and the waits for removals.
///
/// A change of path can end in many ways, and none of them announces the end. Instead, each wait checks whether the
/// change still goes on, so no way can be forgotten.
#[derive(Debug, Default)]
pub(in crate::engine) struct BarrierWaits {
    /// Changes that began. Some may be over.
    path_changes: BTreeSet<PathChange>,
    /// The number of changes at which those that are over are removed.
    tidy_at: usize,
    waits: Vec<BarrierWait>,
}

/// A wait until what was being removed when it began is gone.
#[derive(Debug)]
struct BarrierWait {
    token: u64,
    since: Time,
    /// The switches with barriers that are not answered yet, and the number of these barriers.
    switches: BTreeMap<Dpid, usize>,
    /// The changes of paths that are not over yet.
    path_changes: BTreeSet<PathChange>,
}

/// Something that a wait is waiting for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsettled {
    /// The switch that has not confirmed something.
    pub switch: Dpid,
    /// The time when the first wait for the switch began.
    pub since: Time,
    /// The things that it has not confirmed.
    pub what: Awaited,
}

impl BarrierWaits {
    /// Records a change of path. `is_in_progress` reports whether a change is not over yet.
    pub fn begin_path_change(&mut self, change: PathChange, is_in_progress: impl Fn(&PathChange) -> bool) {
        if self.path_changes.len() >= self.tidy_at {
            self.path_changes.retain(is_in_progress);
            self.tidy_at = 2 * self.path_changes.len().max(MIN_TIDIED);
        }
        self.path_changes.insert(change);
    }

    /// Forgets the changes of paths at a switch that are over. Returns whether any goes on there.
    pub fn forget_path_changes(&mut self, dpid: Dpid, is_in_progress: impl Fn(&PathChange) -> bool) -> bool {
        let first = PathChange { ingress: dpid, dependent: DependentId(0), until: Time(0) };
        let at_switch = |change: &&PathChange| change.ingress == dpid;
        let over: Vec<PathChange> = self
            .path_changes
            .range(first..)
            .take_while(at_switch)
            .take_while(|change| !is_in_progress(change))
            .copied()
            .collect();
        for change in &over {
            self.path_changes.remove(change);
        }
        self.path_changes.range(first..).next().is_some_and(|change| change.ingress == dpid)
    }

    /// Begins a wait for all removals that go on, including those of rules at these switches.
    pub fn begin(
        &mut self,
        token: u64,
        since: Time,
        switches: BTreeSet<Dpid>,
        is_in_progress: impl Fn(&PathChange) -> bool,
    ) {
        self.path_changes.retain(is_in_progress);
        let switches = switches.into_iter().map(|dpid| (dpid, 1)).collect();
        self.waits.push(BarrierWait { token, since, switches, path_changes: self.path_changes.clone() });
    }

    /// Reports whether there are no waits.
    fn is_idle(&self) -> bool {
        self.waits.is_empty()
    }

    /// Removes the changes of paths that are over from all waits. Their rules change with the next update of the
    /// ingress switch, so the waits then wait for that switch. Returns these switches, each with the token of a wait.
    pub fn end_path_changes(&mut self, is_in_progress: impl Fn(&PathChange) -> bool) -> Vec<(Dpid, u64)> {
        let mut ended = Vec::new();
        for wait in &mut self.waits {
            let all = std::mem::take(&mut wait.path_changes);
            let (on, over): (BTreeSet<PathChange>, BTreeSet<PathChange>) = all.into_iter().partition(&is_in_progress);
            wait.path_changes = on;
            let switches: BTreeSet<Dpid> = over.iter().map(|change| change.ingress).collect();
            for dpid in switches {
                *wait.switches.entry(dpid).or_default() += 1;
                ended.push((dpid, wait.token));
            }
        }
        ended
    }

    /// Records that a switch has done all that was sent before the wait's barrier.
    fn on_confirmed(&mut self, dpid: Dpid, token: u64) {
        for wait in self.waits.iter_mut().filter(|wait| wait.token == token) {
            if let Some(open) = wait.switches.get_mut(&dpid) {
                *open -= 1;
                if *open == 0 {
                    wait.switches.remove(&dpid);
                }
            }
        }
    }

    /// Removes a disconnected switch from all waits, with the changes of paths whose packets enter there.
    pub fn forget_switch(&mut self, dpid: Dpid) {
        for wait in &mut self.waits {
            wait.switches.remove(&dpid);
            wait.path_changes.retain(|change| change.ingress != dpid);
        }
    }

    /// Removes and returns the waits that are over.
    fn take_finished(&mut self) -> Vec<u64> {
        let mut over = Vec::new();
        self.waits.retain(|wait| {
            let waits = !wait.switches.is_empty() || !wait.path_changes.is_empty();
            over.extend((!waits).then_some(wait.token));
            waits
        });
        over
    }
}

impl Decisions {
    /// Records that the packets of a leaf, or of a route with this subscription, are about to take another path.
    pub fn begin_path_change(&mut self, fabric: &mut Fabric, change: PathChange) {
        self.barrier_waits.begin_path_change(change, |change| is_in_progress(&self.leaves, &fabric.routes, change));
    }

    /// Forgets the changes of paths at a switch that are over. Returns whether packets that enter there are changing to
    /// another path still.
    pub fn forget_path_changes(&mut self, routes: &Routes, dpid: Dpid) -> bool {
        self.barrier_waits.forget_path_changes(dpid, |change| is_in_progress(&self.leaves, routes, change))
    }

    /// Records that a switch has confirmed all that was sent before this barrier.
    pub fn on_confirmed(&mut self, fabric: &mut Fabric, dpid: Dpid, token: u64) {
        self.barrier_waits.on_confirmed(dpid, token);
        self.report_finished_waits(fabric);
    }

    /// Moves the waits for finished changes of paths to the next update of their switches, which confirms them. Call
    /// this before switches are updated.
    pub fn end_path_changes(&mut self, fabric: &mut Fabric) {
        if self.barrier_waits.is_idle() {
            return;
        }
        for (dpid, token) in
            self.barrier_waits.end_path_changes(|change| is_in_progress(&self.leaves, &fabric.routes, change))
        {
            if fabric.switches.contains_key(&dpid) {
                await_barrier(fabric, dpid, token);
            } else {
                self.barrier_waits.forget_switch(dpid);
            }
        }
        self.report_finished_waits(fabric);
    }

    /// Ends all waits for a switch that has disconnected.
    pub fn end_waits_for(&mut self, fabric: &mut Fabric, dpid: Dpid) {
        self.barrier_waits.forget_switch(dpid);
        self.report_finished_waits(fabric);
    }

    /// Drops the packets of a switch that wait for something that f read.
    pub fn drop_undecided(&mut self, fabric: &mut Fabric, dpid: Dpid) {
        let parked = self.undecided.forget_switch(dpid);
        fabric.ctx.drop_parked(parked);
    }

    /// Returns everything that waits are waiting for, by switch.
    pub fn unsettled(&self, fabric: &Fabric) -> Vec<Unsettled> {
        let of_wait = |wait: &BarrierWait| {
            let since = wait.since;
            let changes = wait.path_changes.iter().map(|change| (change.ingress, self.awaited_path(fabric, change)));
            let switches = wait.switches.keys().map(|dpid| (*dpid, awaited_of_switch(fabric, *dpid)));
            let all: Vec<Unsettled> =
                changes.chain(switches).map(|(switch, what)| Unsettled { switch, since, what }).collect();
            all
        };
        let mut all: Vec<Unsettled> = self.barrier_waits.waits.iter().flat_map(of_wait).collect();
        // What several waits are waiting for is the same text, and is reported with the first of them.
        all.sort_by_cached_key(|one| (one.switch, one.what.to_string(), one.since));
        all.dedup_by(|later, first| (later.switch, &later.what) == (first.switch, &first.what));
        all
    }

    fn awaited_path(&self, fabric: &Fabric, change: &PathChange) -> Awaited {
        let leaf = fabric.routes.of_subscription(change.dependent).and_then(|id| fabric.routes.get(id)?.leaves().min());
        let leaf = self.leaves.get(&leaf.unwrap_or(change.dependent.possible_leaf()));
        let packet = leaf.map(|leaf| maple_wire::packet::text::summary(&leaf.witness.packet()).into());
        Awaited::Path { packet }
    }

    fn report_finished_waits(&mut self, fabric: &mut Fabric) {
        fabric.ctx.add_effects(self.barrier_waits.take_finished().into_iter().map(Effect::BarriersDone));
    }

    /// Begins a wait for all removals that go on, which the switches without a connection have recorded.
    pub fn await_all_barriers(&mut self, fabric: &mut Fabric, token: u64) {
        let is_awaited = |dpid: Dpid, switch: &Switch| fabric.ctx.is_dirty(dpid) || switch.tables.is_unconfirmed();
        let awaited = fabric.switches.iter().filter(|(dpid, switch)| is_awaited(**dpid, switch)).map(|(dpid, _)| *dpid);
        let awaited: BTreeSet<Dpid> = awaited.collect();
        let is_in_progress = |change: &PathChange| is_in_progress(&self.leaves, &fabric.routes, change);
        self.barrier_waits.begin(token, fabric.ctx.now(), awaited.clone(), is_in_progress);
        awaited.into_iter().for_each(|dpid| await_barrier(fabric, dpid, token));
        self.report_finished_waits(fabric);
    }
}

fn awaited_of_switch(fabric: &Fabric, dpid: Dpid) -> Awaited {
    let Some(switch) = fabric.switches.get(&dpid) else { return Awaited::Departure };
    match switch.tables.first_unconfirmed() {
        _ if switch.is_unreachable() => Awaited::Connection,
        _ if switch.restoring.is_some() => Awaited::Comparison,
        _ if !switch.tables.is_ready() => Awaited::Reading,
        Some((table, change)) => Awaited::Change { version: switch.version(), table, change: change.clone() },
        None => Awaited::BarrierReply,
    }
}

fn await_barrier(fabric: &mut Fabric, dpid: Dpid, token: u64) {
    fabric.switches.wait(dpid, Waiter::Barriers(token));
    fabric.mark_dirty(dpid);
}

/// Reports whether a change of path is not over yet.
fn is_in_progress(leaves: &Leaves, routes: &Routes, change: &PathChange) -> bool {
    let of_leaf = leaves.get(&change.dependent.possible_leaf()).and_then(|leaf| leaf.reroute_until());
    let of_route = || routes.of_subscription(change.dependent).and_then(|id| routes.get(id)?.next_until());
    of_leaf.or_else(of_route) == Some(change.until)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Dpid = Dpid(1);
    const TWO: Dpid = Dpid(2);

    const FIVE: PathChange = PathChange { ingress: ONE, dependent: DependentId(5), until: Time(7) };

    /// Begins a wait for these switches, and for all changes of paths.
    fn begin(waits: &mut BarrierWaits, token: u64, switches: impl IntoIterator<Item = Dpid>) {
        waits.begin(token, Time(1), switches.into_iter().collect(), |_| true);
    }

    #[test]
    fn a_wait_ends_at_once_if_nothing_is_being_removed() {
        let mut barrier_waits = BarrierWaits::default();
        begin(&mut barrier_waits, 7, []);
        assert_eq!(barrier_waits.take_finished(), [7]);
        assert_eq!(barrier_waits.take_finished(), [0; 0], "and reported once");
    }

    #[test]
    fn a_wait_covers_all_switches_and_nothing_that_begins_later() {
        let mut barrier_waits = BarrierWaits::default();
        begin(&mut barrier_waits, 1, [ONE, TWO]);
        barrier_waits.on_confirmed(ONE, 1);
        begin(&mut barrier_waits, 2, [ONE]);
        barrier_waits.begin_path_change(FIVE, |_| true);
        assert_eq!(barrier_waits.take_finished(), [0; 0]);
        barrier_waits.on_confirmed(TWO, 1);
        assert_eq!(barrier_waits.take_finished(), [1]);
        barrier_waits.on_confirmed(ONE, 2);
        assert_eq!(barrier_waits.take_finished(), [2]);
    }

    #[test]
    fn a_wait_covers_a_reroute_and_then_its_switch() {
        let mut barrier_waits = BarrierWaits::default();
        barrier_waits.begin_path_change(FIVE, |_| true);
        begin(&mut barrier_waits, 3, []);
        assert_eq!(barrier_waits.end_path_changes(|_| true), []);
        assert_eq!(barrier_waits.take_finished(), [0; 0]);
        assert_eq!(barrier_waits.end_path_changes(|change| *change != FIVE), [(ONE, 3)]);
        assert_eq!(barrier_waits.take_finished(), [0; 0], "its rule is still there");
        barrier_waits.on_confirmed(ONE, 3);
        assert_eq!(barrier_waits.take_finished(), [3]);
        barrier_waits.begin(4, Time(2), BTreeSet::new(), |change| *change != FIVE);
        assert_eq!(barrier_waits.take_finished(), [4], "the reroute is over");
    }

    #[test]
    fn a_switch_that_is_awaited_twice_confirms_twice() {
        let mut barrier_waits = BarrierWaits::default();
        barrier_waits.begin_path_change(FIVE, |_| true);
        begin(&mut barrier_waits, 3, [ONE]);
        assert_eq!(barrier_waits.end_path_changes(|change| *change != FIVE), [(ONE, 3)]);
        barrier_waits.on_confirmed(ONE, 3);
        assert_eq!(barrier_waits.take_finished(), [0; 0], "that was sent before the reroute was over");
        barrier_waits.on_confirmed(ONE, 3);
        assert_eq!(barrier_waits.take_finished(), [3]);
    }

    #[test]
    fn changes_that_are_over_are_not_kept() {
        let mut barrier_waits = BarrierWaits::default();
        for n in 0..10_000 {
            let change = PathChange { until: Time(n), ..FIVE };
            barrier_waits.begin_path_change(change, |change| change.until.0 + 100 > n);
        }
        assert!(barrier_waits.path_changes.len() <= 300, "{}", barrier_waits.path_changes.len());
    }

    #[test]
    fn a_wait_leaves_out_a_switch_that_is_gone() {
        let mut barrier_waits = BarrierWaits::default();
        barrier_waits.begin_path_change(FIVE, |_| true);
        begin(&mut barrier_waits, 3, [ONE, TWO]);
        barrier_waits.forget_switch(ONE);
        assert_eq!(barrier_waits.take_finished(), [0; 0]);
        barrier_waits.on_confirmed(TWO, 3);
        assert_eq!(barrier_waits.take_finished(), [3]);
    }
}
