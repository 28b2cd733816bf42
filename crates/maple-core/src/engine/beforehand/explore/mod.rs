//! Exploration: decisions before the first packet, for all packets that known hosts can send.
//!
//! # What
//!
//! A trace tree says where no run has been yet: a test without one of its sides, a read without some of its values. For
//! such a place exploration makes up a packet that a known host could send and that gets there: it changes the witness
//! packet of a leaf nearby until it gives the wanted answers (`packets.rs`). f runs on it as if it had come, and the
//! answer becomes a leaf. So with look-ups, whose values are few, a packet of a known host soon finds its rule.
//!
//! Which answers are wanted:
//!
//! * the other side of a test, unless the test is an entry of a list ([`samples`](super::samples) are for those);
//! * of a look-up, the class of each key that a packet can have here, and the absence of a key;
//! * of a read of the port, each port with hosts;
//! * of a read of few bits, each value; of other reads, the values that other places of the tree have.
//!
//! A pass goes on until no packet is left to try. It follows when the tree, the classes of keys or the hosts of a
//! switch have changed, and begins at most once in [`MIN_PASS_PAUSE`]. Where one decision is for all places that a
//! look-up finds, a pass also wants the ways to these places. What stays open is kept for people ([`Exploration`]):
//! reads of values that nobody knows, places that no packet was found for, and packets for which f writes, waits or
//! fails.
//!
//! # Why it is correct
//!
//! The leaf is that of an ordinary run on an ordinary packet, which enters at an edge port of the switch. A run that
//! writes makes no leaf, and its writes are not committed; nor does one that prints, and its output is kept back. That
//! the packet gets to the wanted place is not needed for that; it is only what makes the run useful.
//!
//! # Bounds
//!
//! A shard tries [`MAX_PACKETS_AT_ONCE`] packets at a time, its switches in turn, so that packets are served in
//! between. A turn that was long, because f is slow or others need the shard, is followed by a rest and by smaller
//! ones. A switch that has not confirmed what was sent to it is left alone. Nothing is explored where the switch has
//! [`Options::explored_leaves`](crate::engine::Options) leaves or half of its room for rules is used, and no way is
//! wanted where it has as many: these are for packets that come, and so is the last table for look-ups. Packets without
//! a leaf are tried again after ever longer rests. Switches without tables for look-ups are not explored, nor are
//! policies with reads that are known not to be tracked, or that take too long.

mod open_places;
mod packets;

use std::collections::VecDeque;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use maple_wire::Dpid;
use rustc_hash::FxHasher;

use crate::check::Sample;
use crate::engine::context::options::Options;
use crate::engine::context::timers::Timer;
use crate::engine::decisions::Decisions;
use crate::engine::decisions::runs::RunOutcome;
use crate::engine::fabric::Fabric;
use crate::engine::messages::received_packet::ReceivedPacket;
use crate::engine::one_switch::Switch;
use crate::engine::one_switch::ingress::exploration::{
    Exploration, ExplorationBound, ExplorationPass, NoLeaf, OpenQuestion, SeenState,
};
use crate::ids::{LeafId, Time};
use crate::look_ups::KeyRules;
use crate::policy::Policy;
use crate::run::{Run, RunResult};
use open_places::{open_questions, wanted};
use packets::{Packets, received};

/// The number of packets that a shard tries at a time, so that others are served in between. Chosen: at some
/// microseconds a run, packets that come meanwhile wait for less than a millisecond.
const MAX_PACKETS_AT_ONCE: usize = 64;
/// The maximum number of packets of a pass that are tried for each leaf that a switch may have. Chosen: some runs give
/// no leaf or one that is there already; a pass in which most do is not worth its time.
const RUNS_OF_LEAF: usize = 4;
/// The time between two batches of a shard. Chosen: so short that it costs no time, and long enough that the engine
/// handles what has come in between.
const BATCH_INTERVAL: Duration = Duration::from_micros(100);
/// The time between a change and the pass that follows it: changes seldom come alone. Chosen: nobody notices it, and a
/// burst of changes of one event is one pass.
const DELAY_AFTER_CHANGE: Duration = Duration::from_millis(20);
/// The minimum time between the end of a pass and the next one. Chosen: a network that changes all the time is explored
/// once a second, and the rest of the shard is for packets.
const MIN_PASS_PAUSE: Duration = Duration::from_secs(1);
/// The delay beyond which a turn comes after a long one. Chosen: a turn that others notice as a delay; ordinary ones
/// take far less.
const LONG_TURN: Duration = Duration::from_millis(5);
/// The rest after a long turn, as a multiple of it. So exploration takes at most a fifth of a shard that is busy.
const REST_PER_LONG_TURN: u32 = 4;
/// The time after which switches are looked at again that had not confirmed what was sent to them. Chosen: a look costs
/// little, and the switch's pass waits for nothing else.
const CONFIRMATION_POLL: Duration = Duration::from_millis(5);
/// The number of runs of a pass that may take too long. At that many the pass ends. Chosen: each holds up its shard for
/// the whole limit of f, and three show that it was no accident.
const MAX_TOO_LONG: usize = 3;
/// The maximum time after which packets without a leaf are tried again. Chosen: what has become possible without a
/// change that the engine sees is found within about a minute.
const MAX_REST: Duration = Duration::from_secs(64);

/// The explorations of a shard's switches.
#[derive(Clone, Debug)]
pub(in crate::engine) struct Explorer {
    /// Whether the policy reads nothing that is not tracked, as far as its language can tell. Others are not explored:
    /// what they decide about a made-up packet need not hold for one that comes.
    is_tracked: bool,
    /// The switches with a pass under way, the next one first.
    turns: VecDeque<Dpid>,
    /// Whether a timer is set for the next turn, as it is while there are any.
    is_awake: bool,
    /// The number of packets of the next turn.
    batch: usize,
    /// The time when that turn is due.
    due: Time,
    /// Whether it comes after a rest.
    has_rested: bool,
}

impl Explorer {
    /// Starts with nothing explored under a policy.
    pub fn new(policy: &dyn Policy, options: &Options) -> Explorer {
        let is_tracked = options.explored_leaves == 0 || policy.untracked_reads().is_empty();
        let (batch, due, has_rested) = (MAX_PACKETS_AT_ONCE, Time::default(), false);
        Explorer { is_tracked, turns: VecDeque::new(), is_awake: false, batch, due, has_rested }
    }

    /// Copies the explorer, for a copy of the engine, without the passes under way.
    pub fn copy(&self) -> Explorer {
        Explorer { turns: VecDeque::new(), is_awake: false, ..self.clone() }
    }

    /// Lets a pass begin soon if something has changed at a switch since the last one.
    pub fn follow(&self, fabric: &mut Fabric, dpid: Dpid) {
        let (now, is_on) = (fabric.ctx.now(), fabric.ctx.options.explored_leaves > 0);
        let Some(switch) = fabric.switches.known_mut(dpid).filter(|switch| is_on && can_be_explored(switch)) else {
            return;
        };
        let state = seen_state(switch);
        let exploration = &mut switch.ingress.exploration;
        if exploration.is_due || exploration.pass.is_some() || exploration.seen == Some(state) {
            return;
        }
        if !self.is_tracked {
            let stopped = Some(ExplorationBound::Untracked);
            exploration.result = Some(Exploration { is_current: true, stopped, open: Vec::new() });
            exploration.seen = Some(state);
            return;
        }
        exploration.is_due = true;
        let from = exploration.not_before.max(now + DELAY_AFTER_CHANGE);
        fabric.ctx.wake_at(from, Timer::Explore(dpid));
    }

    /// Begins a pass at a switch.
    pub fn begin_pass(&mut self, fabric: &mut Fabric, dpid: Dpid) {
        let now = fabric.ctx.now();
        // The switch may have gone.
        let Some(switch) = fabric.switches.get_mut(&dpid) else { return };
        let exploration = &mut switch.ingress.exploration;
        if !std::mem::take(&mut exploration.is_due) {
            return;
        }
        if exploration.again_at <= now {
            exploration.without_leaf.clear();
            exploration.rest = (2 * exploration.rest).clamp(MIN_PASS_PAUSE, MAX_REST);
            exploration.again_at = now + exploration.rest;
        }
        let tried = exploration.without_leaf.keys().copied().collect();
        exploration.pass = Some(ExplorationPass { tried, ..ExplorationPass::default() });
        if !self.turns.contains(&dpid) {
            self.turns.push_back(dpid);
        }
        self.wake(fabric);
    }

    /// Explores the switch whose turn it is. Each turn is a batch of its own, so that packets are served in between.
    pub fn explore_next(&mut self, decisions: &mut Decisions, fabric: &mut Fabric) {
        self.is_awake = false;
        let late = Duration::from_nanos(fabric.ctx.now().0.saturating_sub(self.due.0));
        if late > LONG_TURN && !self.has_rested {
            (self.batch, self.has_rested) = ((self.batch / 2).max(1), true);
            return self.wake_after(fabric, REST_PER_LONG_TURN * late);
        }
        if !std::mem::take(&mut self.has_rested) {
            self.batch = (2 * self.batch).min(MAX_PACKETS_AT_ONCE);
        }
        let Some(at) = self.turns.iter().position(|dpid| may_be_changed(fabric, *dpid)) else {
            return self.wake_after(fabric, CONFIRMATION_POLL);
        };
        if let Some(dpid) = self.turns.remove(at) {
            match explore(decisions, fabric, dpid, self.batch) {
                None => end_pass(fabric, dpid),
                Some(0) => {}
                Some(_) => self.turns.push_back(dpid),
            }
        }
        self.wake(fabric);
    }

    fn wake(&mut self, fabric: &mut Fabric) {
        self.wake_after(fabric, BATCH_INTERVAL);
    }

    fn wake_after(&mut self, fabric: &mut Fabric, span: Duration) {
        if !self.turns.is_empty() && !std::mem::replace(&mut self.is_awake, true) {
            self.due = fabric.ctx.now() + span;
            fabric.ctx.wake_at(self.due, Timer::ExploreTurn);
        }
    }
}

/// Reports whether a switch has confirmed all that was sent to it, so that further rules keep nothing waiting. One that
/// has gone has no pass.
fn may_be_changed(fabric: &Fabric, dpid: Dpid) -> bool {
    let Some(switch) = fabric.switches.get(&dpid) else { return true };
    switch.tables.has_confirmed_all() && !switch.ingress.look_ups.are_changing()
}

/// Reports whether a switch is explored: it does what f decides by rules that know look-ups.
fn can_be_explored(switch: &Switch) -> bool {
    !switch.layout().look_ups().is_empty() && switch.restoring.is_none() && !switch.is_unreachable()
}

/// Returns the number of open questions at a switch. The bound that has stopped exploration there counts as one, and so
/// do changes since then, and places to which no way is ready.
pub(in crate::engine) fn count_open(options: &Options, switch: &Switch) -> u64 {
    if options.explored_leaves == 0 || !can_be_explored(switch) {
        return 0;
    }
    let exploration = &switch.ingress.exploration;
    let is_outdated = exploration.seen != Some(seen_state(switch));
    let found = exploration.result.as_ref().map_or(0, |of| of.open.len() as u64 + u64::from(of.stopped.is_some()));
    found + u64::from(is_outdated) + u64::from(switch.ingress.look_ups.count_unready_ways() > 0)
}

/// Returns what exploration has found at a switch. `None` if the switch is not explored.
pub(in crate::engine) fn found(decisions: &Decisions, options: &Options, switch: &Switch) -> Option<Exploration> {
    if options.explored_leaves == 0 || !can_be_explored(switch) {
        return None;
    }
    let exploration = &switch.ingress.exploration;
    let is_current = exploration.seen == Some(seen_state(switch));
    let nothing_yet = Exploration { is_current, stopped: None, open: Vec::new() };
    let mut result = exploration.result.clone().unwrap_or(nothing_yet);
    let has_no_rule = |leaf: &LeafId| decisions.leaves.get(leaf).is_some_and(|leaf| !leaf.has_rule());
    let count = switch.tree().leaves().filter(has_no_rule).count();
    if switch.ports.host_rules.has_without_room() {
        let what = "hosts have no rule, for lack of room, and their packets come to the controller".to_owned();
        result.open.push(OpenQuestion { source: None, what, count: 1 });
    }
    if switch.ingress.look_ups.key_rules().any(KeyRules::has_unclassified) {
        let what = "keys have no class, and their packets come to the controller".to_owned();
        result.open.push(OpenQuestion { source: None, what, count: 1 });
    }
    let ways = switch.ingress.look_ups.count_unready_ways();
    if ways > 0 {
        let what = "the controller forwards packets to a place, because the way there is not ready (yet)".to_owned();
        result.open.push(OpenQuestion { source: None, what, count: ways });
    }
    if count > 0 {
        let what = "the controller forwards packets, because a decision has no rule (yet)".to_owned();
        result.open.push(OpenQuestion { source: None, what, count });
    }
    Some(Exploration { is_current, ..result })
}

fn seen_state(switch: &Switch) -> SeenState {
    (switch.tree().edits(), switch.ingress.look_ups.class_changes(), switch.ports.host_rules.moves())
}

/// Tries further packets at a switch. Returns how many; 0 if there is no pass, and `None` if the pass is over.
fn explore(decisions: &mut Decisions, fabric: &mut Fabric, dpid: Dpid, batch: usize) -> Option<usize> {
    let Some(switch) = fabric.switches.get_mut(&dpid) else { return Some(0) };
    if switch.ingress.exploration.pass.is_none() {
        return Some(0);
    }
    if !can_be_explored(switch) {
        // It begins again when the switch can be.
        (switch.ingress.exploration.pass, switch.ingress.exploration.seen) = (None, None);
        return Some(0);
    }
    decisions.follow_tables(fabric, dpid);
    let stopped = bound_reached(fabric, dpid);
    let untried = if stopped.is_none() { untried_packets(decisions, fabric, dpid, batch) } else { Vec::new() };
    let max_leaves = fabric.ctx.options.explored_leaves;
    let ways = if stopped.is_none() { decisions.foresee_ways(fabric, dpid, batch, max_leaves) } else { 0 };
    if untried.is_empty() && ways == 0 {
        let open = open_questions(decisions, fabric, dpid);
        let switch = fabric.switches.known_mut(dpid)?;
        switch.ingress.exploration.result = Some(Exploration { is_current: true, stopped, open });
        return None;
    }
    let count = untried.len() + ways;
    let run = |packet: ReceivedPacket| Some((Decisions::admissible_run(fabric, &packet)?, packet));
    let runs: Vec<(Run, ReceivedPacket)> = untried.into_iter().filter_map(run).collect();
    for (packet, outcome) in decisions.run_policy(fabric, runs) {
        let hash = hash_of(&Sample { at: packet.at, frame: Arc::clone(&packet.frame) });
        let is_too_long = matches!(&outcome, RunOutcome::Failed(error, _) if error.is_time_limit());
        let why = cache(decisions, fabric, outcome, packet);
        let exploration = &mut fabric.switches.known_mut(dpid)?.ingress.exploration;
        exploration.without_leaf.extend(why.map(|why| (hash, why)));
        let pass = exploration.pass.get_or_insert_default();
        pass.runs += 1;
        pass.too_long += usize::from(is_too_long);
    }
    Some(count)
}

/// Returns the bound of exploration that a switch has reached.
fn bound_reached(fabric: &Fabric, dpid: Dpid) -> Option<ExplorationBound> {
    let switch = fabric.switches.known(dpid)?;
    let max_leaves = fabric.ctx.options.explored_leaves;
    if switch.tree().len() >= max_leaves {
        return Some(ExplorationBound::Leaves(max_leaves));
    }
    let (runs, too_long) = switch.ingress.exploration.pass.as_ref().map_or((0, 0), |pass| (pass.runs, pass.too_long));
    if too_long >= MAX_TOO_LONG {
        return Some(ExplorationBound::TooLong);
    }
    if runs >= RUNS_OF_LEAF * max_leaves {
        return Some(ExplorationBound::Runs(runs));
    }
    let has_room = switch.room.capacity.has_capacity_for_trace(2 * switch.tree().len());
    (free_half(switch) == 0 || switch.room.is_closed() || !has_room).then_some(ExplorationBound::Rules)
}

/// Returns the number of rules that half of a switch's room for rules has place for.
fn free_half(switch: &Switch) -> usize {
    switch.room.capacity.free_half(|table| switch.tables.count(table))
}

/// Returns packets that no leaf decides and that were not tried in this pass.
fn untried_packets(decisions: &Decisions, fabric: &mut Fabric, dpid: Dpid, batch: usize) -> Vec<ReceivedPacket> {
    let state = fabric.ctx.store.snapshot();
    let Some(pass) = fabric.switches.known_mut(dpid).and_then(|of| of.ingress.exploration.pass.as_mut()) else {
        return Vec::new();
    };
    let mut tried = std::mem::take(&mut pass.tried);
    let Some(switch) = fabric.switches.known(dpid) else { return Vec::new() };
    let packets = Packets::new(switch, &state, fabric.ctx.options.track_hosts);
    let room = fabric.ctx.options.explored_leaves.saturating_sub(switch.tree().len()).min(free_half(switch));
    let is_new = |packet: &Sample| tried.insert(hash_of(packet));
    let untried: Vec<ReceivedPacket> = wanted(decisions, switch, &packets)
        .filter(is_new)
        .map(received)
        .filter(|packet| fabric.switches.find_leaf(packet).is_none())
        .take(batch.min(room))
        .collect();
    if let Some(pass) = fabric.switches.known_mut(dpid).and_then(|of| of.ingress.exploration.pass.as_mut()) {
        pass.tried = tried;
    }
    untried
}

fn hash_of(packet: &Sample) -> u64 {
    let mut hasher = FxHasher::default();
    packet.hash(&mut hasher);
    hasher.finish()
}

/// Makes a leaf of a run. Returns why there is none.
fn cache(
    decisions: &mut Decisions,
    fabric: &mut Fabric,
    outcome: RunOutcome,
    packet: ReceivedPacket,
) -> Option<NoLeaf> {
    let (goal, finished) = match outcome {
        RunOutcome::Answer((goal, _), finished) => (goal, finished),
        RunOutcome::Waits(_) => return Some(NoLeaf::Waits),
        RunOutcome::Failed(..) => return Some(NoLeaf::Fails),
    };
    let why = why_not(&finished);
    // What an earlier run of the batch has decided needs no leaf.
    if why.is_none()
        && fabric.switches.find_leaf(&packet).is_none()
        && decisions.adopt(fabric, goal, *finished, packet).is_some()
    {
        fabric.ctx.stats.leaves_foreseen += 1;
    }
    why
}

fn why_not(finished: &RunResult) -> Option<NoLeaf> {
    if finished.txn.wrote() {
        Some(NoLeaf::Writes)
    } else if finished.has_output {
        Some(NoLeaf::Prints)
    } else if !finished.violations.is_empty() {
        Some(NoLeaf::Refused)
    } else if finished.asks_first {
        Some(NoLeaf::AsksFirst)
    } else {
        (!finished.lasts()).then_some(NoLeaf::NeedsController)
    }
}

fn end_pass(fabric: &mut Fabric, dpid: Dpid) {
    let now: Time = fabric.ctx.now();
    let Some(switch) = fabric.switches.known_mut(dpid) else { return };
    let seen = seen_state(switch);
    let exploration = &mut switch.ingress.exploration;
    (exploration.seen, exploration.pass, exploration.not_before) = (Some(seen), None, now + MIN_PASS_PAUSE);
}
