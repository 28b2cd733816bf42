//! Rules before the first packet (the paper's proactive installer, §3).
//!
//! # What
//!
//! A policy may know packets whose decision depends on tests and lists only ([`crate::Policy::samples`]): an access
//! list has one for each entry. As soon as packets can enter at a switch, f runs on these samples there, as if they had
//! come, and its decisions become leaves. So packets that a list denies never come to the controller.
//!
//! A sample makes a leaf only if the run read nothing of the packet: a value that was read holds for this sample, and
//! there may be many others. What it looked up in tables that never change it may have read: a list has a sample for
//! each class that it tells apart. It makes no leaf if a constraint refused its route, so that the first packet of a
//! host reports that. Nor does it if the switch cannot match the list's entry as a whole, such as a block of ports. A
//! switch with one table has no such leaves, since its rules match the location.
//!
//! # Why it is correct
//!
//! The leaf is that of an ordinary run on an ordinary packet, which enters at an edge port of the switch.
//!
//! # Cost
//!
//! A run for each sample and switch. A shard decides [`MAX_SAMPLES_AT_ONCE`] samples at a time, its switches in turn,
//! so that packets are served in between. When another port becomes an edge port, samples without a leaf are tried
//! again, at most once in 10 seconds (`one_switch/ingress/sample_pass.rs`).
//!
//! Passes that take longer than [`REPORT_INTERVAL`] are reported, and again each [`REPORT_INTERVAL`] while they go on.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use maple_wire::Dpid;

use crate::engine::context::timers::Timer;
use crate::engine::decisions::Decisions;
use crate::engine::decisions::runs::RunOutcome;
use crate::engine::fabric::Fabric;
use crate::engine::messages::received_packet::ReceivedPacket;
use crate::engine::one_switch::ingress::sample_pass::BATCH_INTERVAL;
use crate::ids::Time;
use crate::network::{Location, PortKind};
use crate::policy::SamplePacket;
use crate::report::Report;
use crate::run::Run;
use crate::state::Snapshot;
use crate::trace::{Cond, Item, ListAnswer, Trace};

/// The number of samples that a shard decides at a time, so that packets are served in between. Chosen: at some
/// microseconds a run, packets that come meanwhile wait for less than a millisecond.
const MAX_SAMPLES_AT_ONCE: usize = 128;

/// The time between two reports on the progress of the passes. Chosen: shorter passes need no report, and in longer
/// ones somebody who waits sees that they go on.
const REPORT_INTERVAL: Duration = Duration::from_secs(2);

/// The samples of a policy, and the passes over them.
#[derive(Debug)]
pub(in crate::engine) struct Samples {
    packets: Arc<[SamplePacket]>,
    /// The switches with a pass under way, the next one first. A timer is set while there are any.
    turns: VecDeque<Dpid>,
    newest_batch: SampleBatch,
    /// The progress of all passes together, while there are any.
    progress: Option<PassProgress>,
}

/// The samples that are decided at one time.
#[derive(Debug, Default)]
struct SampleBatch {
    at: Time,
    decided: usize,
}

/// Passes at several switches that go on at the same time.
#[derive(Debug)]
struct PassProgress {
    began: Time,
    /// The time when the progress is reported next.
    next_report: Time,
    is_reported: bool,
    /// The number of passes that are over.
    ended: usize,
}

impl Samples {
    pub fn new(packets: Vec<SamplePacket>) -> Samples {
        Samples {
            packets: packets.into(),
            turns: VecDeque::new(),
            newest_batch: SampleBatch::default(),
            progress: None,
        }
    }

    /// Begins a pass at a switch, because a port became an edge port.
    pub fn begin_pass(&mut self, decisions: &mut Decisions, fabric: &mut Fabric, dpid: Dpid) {
        if self.packets.is_empty() {
            return;
        }
        let now = fabric.ctx.now();
        let Some(switch) = fabric.switches.get_mut(&dpid).filter(|switch| switch.has_pipeline()) else { return };
        match switch.ingress.sample_pass.begin() {
            None => {}
            Some(from) if from <= now => self.take_turns(decisions, fabric, dpid),
            Some(from) => fabric.ctx.wake_at(from, Timer::Samples(dpid)),
        }
    }

    /// Adds a switch to those that take turns.
    pub fn take_turns(&mut self, decisions: &mut Decisions, fabric: &mut Fabric, dpid: Dpid) {
        if self.turns.contains(&dpid) {
            return;
        }
        self.turns.push_back(dpid);
        // At once, since packets of the port may be waiting.
        self.decide_next(decisions, fabric);
    }

    /// Decides the next samples of the switches whose turn it is.
    pub fn decide_next(&mut self, decisions: &mut Decisions, fabric: &mut Fabric) {
        if self.newest_batch.at != fabric.ctx.now() {
            self.newest_batch = SampleBatch { at: fabric.ctx.now(), decided: 0 };
        }
        while self.newest_batch.decided < MAX_SAMPLES_AT_ONCE
            && let Some(dpid) = self.turns.pop_front()
        {
            // The switch may have connected again since, and not have begun a pass.
            if fabric.switches.get(&dpid).is_none_or(|switch| switch.ingress.sample_pass.next().is_none()) {
                continue;
            }
            match self.decide_samples_of(decisions, fabric, dpid, MAX_SAMPLES_AT_ONCE - self.newest_batch.decided) {
                0 => {
                    end_pass(fabric, dpid);
                    self.progress.iter_mut().for_each(|progress| progress.ended += 1);
                }
                count => {
                    self.newest_batch.decided += count;
                    self.turns.push_back(dpid);
                }
            }
        }
        self.report_progress(fabric);
        if !self.turns.is_empty() {
            fabric.ctx.wake_at(fabric.ctx.now() + BATCH_INTERVAL, Timer::SampleTurn);
        }
    }

    /// Reports from time to time how far the passes are, and in the end how long they took.
    fn report_progress(&mut self, fabric: &mut Fabric) {
        let now = fabric.ctx.now();
        let Samples { packets, turns, progress, .. } = self;
        let next = |dpid: &Dpid| {
            fabric.switches.get(dpid).and_then(|switch| switch.ingress.sample_pass.next()).unwrap_or_default()
        };
        if turns.is_empty() {
            let Some(PassProgress { began, is_reported: true, ended, .. }) = progress.take() else { return };
            let took = Duration::from_nanos(now.0.saturating_sub(began.0));
            let (entries, switches) = (ended * packets.len(), ended);
            return fabric.ctx.report(Report::ListsInstalled { entries, switches, took });
        }
        let new = || PassProgress { began: now, next_report: now + REPORT_INTERVAL, is_reported: false, ended: 0 };
        let progress = progress.get_or_insert_with(new);
        if progress.next_report <= now {
            (progress.next_report, progress.is_reported) = (now + REPORT_INTERVAL, true);
            let switches = progress.ended + turns.len();
            let entries = progress.ended * packets.len() + turns.iter().map(next).sum::<usize>();
            let all_entries = switches * packets.len();
            fabric.ctx.report(Report::ListsInstalling { entries, of: all_entries, switches });
        }
    }

    /// Decides at most `most` further samples of a switch. Returns how many; 0 if the pass is over.
    fn decide_samples_of(&mut self, decisions: &mut Decisions, fabric: &mut Fabric, dpid: Dpid, most: usize) -> usize {
        // Runs of samples before these may have been the first to look up.
        decisions.follow_tables(fabric, dpid);
        let packets = Arc::clone(&self.packets);
        let state = fabric.ctx.store.snapshot();
        let edges: Vec<Location> = edge_ports(&state, dpid).collect();
        let Some(switch) = fabric.switches.known_mut(dpid) else { return 0 };
        let Some(from) = switch.ingress.sample_pass.next() else { return 0 };
        let has_capacity = !switch.room.is_closed() && switch.room.capacity.has_capacity_for_trace(switch.tree().len());
        if edges.is_empty() || from >= packets.len() || !has_capacity {
            return 0;
        }
        let to = packets.len().min(from + most);
        switch.ingress.sample_pass.advance(to);
        let undecided = packets[from..to].iter().filter_map(|sample| undecided(fabric, sample, dpid, &edges));
        let undecided: Vec<ReceivedPacket> = undecided.collect();
        let runs: Vec<(Run, ReceivedPacket)> = undecided
            .into_iter()
            .filter_map(|received| Some((Decisions::admissible_run(fabric, &received)?, received)))
            .collect();
        for (received, outcome) in decisions.run_policy(fabric, runs) {
            cache_sample(decisions, fabric, outcome, received);
        }
        to - from
    }
}

fn cache_sample(decisions: &mut Decisions, fabric: &mut Fabric, outcome: RunOutcome, received: ReceivedPacket) {
    let RunOutcome::Answer((goal, _), finished) = outcome else { return };
    let Some(switch) = fabric.switches.known(received.at.switch) else { return };
    let is_fixed = |item: &Item| switch.ingress.look_ups.is_fixed(item);
    let has_read = finished.trace.items.iter().any(|item| matches!(item, Item::Read(_)) && !is_fixed(item));
    let is_cacheable = !has_read && can_match_lists(fabric, &finished.trace, received.at.switch);
    let is_cacheable = is_cacheable && finished.lasts() && finished.violations.is_empty() && !finished.has_output;
    // An earlier run of the batch may have made the same leaf.
    if is_cacheable && decisions.adopt(fabric, goal, *finished, received).is_some_and(|adopted| adopted.is_new) {
        fabric.ctx.stats.leaves_foreseen += 1;
    }
}

/// Returns the sample as a packet that enters at a switch, if it can enter there and no leaf decides it.
fn undecided(fabric: &Fabric, sample: &SamplePacket, dpid: Dpid, edges: &[Location]) -> Option<ReceivedPacket> {
    if sample.switch.is_some_and(|switch| switch != dpid) {
        return None;
    }
    let received = |at: &Location| ReceivedPacket::made_up(&sample.frame, *at);
    let is_undecided = |received: &ReceivedPacket| fabric.switches.find_leaf(received).is_none();
    if let Some(port) = sample.port {
        let at = Location::new(dpid, port);
        return edges.contains(&at).then(|| received(&at)).filter(is_undecided);
    }
    match edges.iter().find(|at| !sample.not_at.contains(at)) {
        Some(at) => Some(received(at)).filter(is_undecided),
        None => edges.iter().map(received).find(is_undecided),
    }
}

/// Reports whether a switch can match the entries of the lists that decided. An entry with a block of ports might
/// need a rule for each port.
fn can_match_lists(fabric: &Fabric, trace: &Trace, dpid: Dpid) -> bool {
    let Some(switch) = fabric.switches.known(dpid) else { return false };
    let can_match = |cond: &Cond| {
        cond.ranges.is_empty() && cond.constraints.iter().all(|constraint| switch.capabilities().can_mask(constraint))
    };
    trace.lists.iter().filter_map(ListAnswer::cond).all(|cond| can_match(cond))
}

fn end_pass(fabric: &mut Fabric, dpid: Dpid) {
    let Some(switch) = fabric.switches.known_mut(dpid) else { return };
    let next = switch.ingress.sample_pass.end(fabric.ctx.now());
    if let Some(from) = next {
        fabric.ctx.wake_at(from, Timer::Samples(dpid));
    }
}

/// Returns the ports of a switch where packets enter.
fn edge_ports(state: &Snapshot, dpid: Dpid) -> impl Iterator<Item = Location> {
    let is_edge = |at: &Location| state.port(*at).is_some_and(|port| port.up && port.kind == PortKind::Edge);
    state.ports_of(dpid).map(move |(port, _)| Location::new(dpid, port)).filter(is_edge)
}
