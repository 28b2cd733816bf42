//! Rules before the first packet (the paper's proactive installer, §3).
//!
//! # What
//!
//! A policy may know packets whose decision nothing but tests and lists determines ([`crate::Policy::samples`]): an
//! access list has one for each entry. As soon as packets can enter at a switch, f runs on these samples there, as if
//! they had come, and its answers become leaves. So packets that a list denies never come to the controller.
//!
//! A sample makes a leaf only if the run read nothing of the packet: a value that was read holds for this sample, and
//! there may be many others. A switch with one table has no such leaves, since its rules match the location.
//!
//! # Why it is correct
//!
//! The leaf is that of an ordinary run on an ordinary packet, which enters at an edge port of the switch.
//!
//! # Cost
//!
//! A run for each sample and switch, [`BATCH`] at a time, so that packets are served in between. When another port
//! becomes an edge port, samples without a leaf are tried again, at most once in [`PAUSE`].

use std::sync::Arc;
use std::time::Duration;

use maple_wire::Dpid;
use maple_wire::msg::NO_BUFFER;

use super::decide::{Outcome, outcome};
use super::received_packet::ReceivedPacket;
use super::timers::Timer;
use super::{Engine, Time};
use crate::network::{Location, PortKind};
use crate::policy::SamplePacket;
use crate::run::Run;
use crate::state::Snapshot;
use crate::trace::Item;

/// How many samples are decided at a time.
const BATCH: usize = 256;
/// The time between two batches of a switch.
const STEP: Duration = Duration::from_micros(100);
/// The minimum time between the end of a pass and the next one.
const PAUSE: Duration = Duration::from_secs(10);

/// How far a switch has got.
#[derive(Debug, Default)]
pub(super) struct Proactive {
    /// The next sample; `None` between passes.
    next: Option<usize>,
    /// No pass begins before.
    not_before: Time,
    /// Another port became an edge port during the pass.
    again: bool,
    /// The pass follows another one at once.
    is_repeated: bool,
}

impl Engine {
    /// Begins a pass at a switch, because a port became an edge port.
    pub(super) fn install_samples(&mut self, dpid: Dpid) {
        if self.samples.is_empty() {
            return;
        }
        let now = self.now;
        let Some(switch) = self.switches.get_mut(&dpid).filter(|switch| switch.three_tables) else { return };
        if switch.proactive.next.is_some() {
            switch.proactive.again = true;
            return;
        }
        switch.proactive.next = Some(0);
        match switch.proactive.not_before {
            // At once, since packets of the port may be waiting.
            from if from <= now => self.decide_samples(dpid),
            from => _ = self.timers.insert((from, Timer::Samples(dpid))),
        }
    }

    /// Decides the next samples of a switch.
    pub(super) fn decide_samples(&mut self, dpid: Dpid) {
        let Some(at) = self.edge_port(dpid) else { return self.end_pass(dpid) };
        let Some(switch) = self.switches.get_mut(&dpid) else { return };
        let Some(from) = switch.proactive.next else { return };
        let has_capacity =
            switch.full_until.is_none() && switch.capacity.has_capacity_for_trace(switch.table.tree().len());
        if from >= self.samples.len() || !has_capacity {
            return self.end_pass(dpid);
        }
        let to = self.samples.len().min(from + BATCH);
        switch.proactive.next = Some(to);
        self.timers.insert((self.now + STEP, Timer::Samples(dpid)));
        let (samples, state) = (Arc::clone(&self.samples), self.store.snapshot());
        let received = |sample: &SamplePacket| {
            let at = sample.port.map_or(at, |port| Location::new(dpid, port));
            let enters = is_edge(&state, at) && sample.switch.is_none_or(|switch| switch == dpid);
            let (frame, total_len) = (Arc::clone(&sample.frame), sample.frame.len());
            enters.then_some(ReceivedPacket { frame, total_len, buffer_id: NO_BUFFER, at })
        };
        let runs: Vec<(Run, ReceivedPacket)> = samples[from..to]
            .iter()
            .filter_map(received)
            .filter(|received| self.lookup(received).is_none())
            .filter_map(|received| Some((self.admissible_run(&received)?, received)))
            .collect();
        for (run, received, answer) in self.run_policy(runs) {
            self.cache_sample(outcome(&run, answer), received);
        }
    }

    fn cache_sample(&mut self, outcome: Outcome, received: ReceivedPacket) {
        let Outcome::Answer((goal, _), finished) = outcome else { return };
        let has_read = finished.trace.items.iter().any(|item| matches!(item, Item::Read(_)));
        if has_read || !finished.trace.lasts() || finished.txn.wrote() || self.lookup(&received).is_some() {
            return;
        }
        let (id, at) = (self.new_leaf_id(), received.at);
        if self.store.commit(finished.txn, Some(id)).is_ok() {
            self.report_violations(finished.violations, at);
            let leaf = self.new_leaf(finished.trace, goal, received);
            self.cache_leaf(id, leaf);
            self.stats.leaves_foreseen += 1;
        }
    }

    fn end_pass(&mut self, dpid: Dpid) {
        let Some(switch) = self.switches.get_mut(&dpid) else { return };
        // Ports that become edge ports together get their rules together: only the pass after that waits.
        let (again, is_repeated) = (switch.proactive.again, switch.proactive.is_repeated);
        let wait = if again && !is_repeated { STEP } else { PAUSE };
        let (next, not_before) = (again.then_some(0), self.now + wait);
        switch.proactive = Proactive { next, not_before, again: false, is_repeated: again };
        if again {
            self.timers.insert((not_before, Timer::Samples(dpid)));
        }
    }

    /// The first port of a switch where packets enter.
    fn edge_port(&self, dpid: Dpid) -> Option<Location> {
        let state = self.store.snapshot();
        state.ports_of(dpid).map(|(port, _)| Location::new(dpid, port)).find(|at| is_edge(&state, *at))
    }
}

fn is_edge(state: &Snapshot, at: Location) -> bool {
    state.port(at).is_some_and(|port| port.up && port.kind == PortKind::Edge)
}
