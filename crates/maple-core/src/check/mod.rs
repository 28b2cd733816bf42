//! The checker of policies: runs f repeatedly on many packets, and reports differences although nothing tracked
//! changed.
//!
//! # What
//!
//! A [`Check`] takes packets (given, or made: see `vary`) and runs f on each twice, one run right after the other. Some
//! time later the caller may call [`Check::again`], which runs f once more on all packets, in another order. All runs
//! on a packet use the same snapshot, so everything that f may read is the same. If two runs differ
//! ([`Observation::difference`]), f read something that is not tracked: a global that changes, a clock, a random
//! number, a file.
//!
//! A run that wrote is committed once, after its comparison, as in the network: later packets see what f learned. So
//! the check also finds the later paths of a policy that learns.
//!
//! A policy that writes again after its own write ([`Faults::writes_each`]) has no rule for such packets: each of them
//! comes to the controller.
//!
//! Packets on which f fails are grouped by the error text. Routes that only lead back are grouped by their lines.
//!
//! # What it can't see
//!
//! The check can't see reads of anything that stays the same while it runs: the hour of the day, a file. It finds
//! faults, and does not prove that there are none.
//!
//! # Cost
//!
//! A check costs two runs of f for each packet, and one more for each round. A new trace of n questions makes about n
//! more packets to try, for the first few traces of each shape (questions and answers without the values read).

mod observe;

mod cost;
mod coverage;
mod examine;
mod faults;
mod proof;
mod queue;
mod sample_packets;

mod packet_scope;
mod timing;
mod vary;

#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use maple_wire::{Dpid, Field, PortNo};

use crate::network::{HostInfo, Location, Mac, PortKind};
use crate::policy::{Policy, PolicyError};
use crate::run::Run;
use crate::state::{Snapshot, Store, Txn, Write};
use crate::trace::Cond;

pub use cost::{MadeLookUp, Per, Wide};
pub use coverage::{Coverage, OneSided};
pub use examine::{Claim, Counterexample, Examined, ScopedClaim, examine};
pub use faults::{Counted, Faults, Finding};
pub use observe::{Observation, RunDifference};
pub use packet_scope::PacketScope;
pub use proof::Open;
pub use sample_packets::Sample;

pub(crate) use sample_packets::Headers;
pub(crate) use vary::{failing, fitting};

use cost::Costs;
use coverage::{MergedTraces, keys};
use proof::Explored;
use queue::SampleQueue;
use sample_packets::first_packets;
use timing::Timing;
use vary::{TriedValues, variants};

/// The maximum number of packets that are tried again each time the state has changed. Chosen: one packet for each
/// distinct trace of most policies, without doubling the time of a check of a larger one.
const MAX_REPEATED: usize = 256;
/// The maximum number of packets of the policy's own that are tried at each edge port. Chosen: enough for an access
/// list of as many entries; beyond that the samples would leave no time for other packets.
const MAX_SAMPLES_OF_PORT: usize = 10_000;
/// The time that f should take for a packet at most. Chosen: meanwhile the engine decides nothing else, and ten
/// milliseconds are a hundred new flows a second.
pub const SLOW_RUN: Duration = Duration::from_millis(10);

/// The caller's clock: returns the time since some moment, as far as it can tell. Core itself reads no clock.
pub type Clock = Box<dyn Fn() -> Duration + Send>;

/// One check of a policy.
pub struct Check {
    policy: Arc<dyn Policy>,
    store: Arc<Store>,
    track_hosts: bool,
    timing: Timing,
    random: Rng,
    queue: SampleQueue,
    hosts: Vec<Host>,
    tried: Vec<Tried>,
    values: TriedValues,
    merged: MergedTraces,
    faults: Faults,
    costs: Costs,
    /// The merged traces of each switch, if a proof about all packets is wanted.
    explored: Option<Explored>,
    coverage: Coverage,
}

impl fmt::Debug for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Check")
            .field("tried", &self.tried.len())
            .field("waiting", &self.queue.len())
            .field("findings", &self.faults.findings().count())
            .finish_non_exhaustive()
    }
}

/// A host of the network that sends and receives packets.
pub type Host = (Mac, HostInfo);

/// A packet that f decided, and the state in which it did.
struct Tried {
    sample: Sample,
    state: Arc<Snapshot>,
    first: Observation,
}

impl Check {
    /// Creates a check of `policy` on the content of `store`, including switches and links, with packets between
    /// `hosts`. The policy's writes go into the store too. All random choices follow from `seed`. `clock` measures runs
    /// of f.
    ///
    /// With `track_hosts` the hosts are put into the store.
    pub fn new(
        policy: Arc<dyn Policy>,
        store: Arc<Store>,
        hosts: Vec<Host>,
        track_hosts: bool,
        seed: u64,
        clock: Clock,
    ) -> Check {
        if track_hosts {
            store.update(|_| {
                hosts.iter().map(|(mac, info)| Write::Host { mac: *mac, info: Some(info.clone()) }).collect()
            });
        } else {
            store.know_no_hosts();
        }
        let state = store.snapshot();
        let values = TriedValues::from_network(&hosts, &state);
        let first = first_packets(&hosts);
        let mut check = Check {
            policy,
            store,
            track_hosts,
            timing: Timing::new(clock),
            random: Rng::with_seed(seed),
            queue: SampleQueue::new(state.version()),
            hosts,
            tried: Vec::new(),
            values,
            merged: MergedTraces::default(),
            faults: Faults::default(),
            costs: Costs::default(),
            explored: None,
            coverage: Coverage::default(),
        };
        first.into_iter().for_each(|sample| check.offer(sample, false));
        check.offer_samples();
        check
    }

    /// Counts the rules of switches that have at most this number of tables for look-ups. Without this call they have
    /// none.
    pub fn with_look_up_tables(mut self, tables: u8) -> Check {
        self.costs.set_look_up_tables(tables);
        self
    }

    /// Explores the policy so thoroughly that something can be said about all packets: at each switch even if it does
    /// not ask for the switch, and with all values of reads that have few.
    pub fn for_all_packets(&mut self) {
        self.explored = Some(Explored::default());
    }

    /// Explores a policy that decides only some packets, as [`Check::for_all_packets`] does. Nothing is claimed about
    /// packets that fail one of these tests, each of which is asked last at its switch.
    fn for_packets_that_pass(&mut self, last_tests: BTreeSet<(Dpid, Cond)>) {
        self.explored = Some(Explored::with_last_tests(last_tests));
    }

    /// Returns the names of the constraints that the policy's routes must satisfy.
    pub fn constraints(&self) -> Vec<Arc<str>> {
        self.policy.constraints()
    }

    /// Returns the packets that f decided so far, in order, each with the state and the observation of the first run.
    pub fn decided(&self) -> impl Iterator<Item = (&Sample, &Arc<Snapshot>, &Observation)> {
        self.tried.iter().map(|tried| (&tried.sample, &tried.state, &tried.first))
    }

    /// Returns the faults that were found.
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// Checks that what was seen holds for all packets that can enter the network in its present state.
    ///
    /// # Errors
    /// [`Open`]: what was not explored. Without a call of [`Check::for_all_packets`] before, that is an error whenever
    /// the network has edge ports.
    pub fn is_complete(&self) -> Result<(), Open> {
        if self.faults.findings().next().is_some() {
            return Err(Open::Untracked);
        }
        if self.coverage.failed > 0 {
            return Err(Open::Failed(self.coverage.failed));
        }
        if self.coverage.waiting > 0 {
            return Err(Open::Waits(self.coverage.waiting));
        }
        let none = Explored::default();
        self.explored.as_ref().unwrap_or(&none).is_complete(&self.store.snapshot(), self.track_hosts)
    }

    /// Queues the policy's own sample packets, at a port of each switch.
    fn offer_samples(&mut self) {
        let ports = edge_ports(&self.store.snapshot());
        for sample in self.policy.samples().into_iter().take(MAX_SAMPLES_OF_PORT) {
            for at in &ports {
                let at = Location { port: sample.port.unwrap_or(at.port), ..*at };
                if sample.switch.is_none_or(|switch| switch == at.switch) {
                    self.offer(Sample { at, frame: Arc::clone(&sample.frame) }, true);
                }
            }
        }
    }

    /// Queues a packet in front of those that are made.
    pub fn give(&mut self, sample: Sample) {
        self.queue.give(sample);
    }

    /// Tries packets until `packets` have been tried or none is left.
    pub fn explore(&mut self, packets: u64) {
        while self.coverage.packets < packets
            && !self.gave_up()
            && let Some((sample, made)) = self.next_sample()
        {
            self.coverage.packets += 1;
            self.coverage.made += u64::from(made);
            self.try_on(sample);
        }
    }

    /// Removes and returns the next packet to be tried, and whether it was made. If there are none, but the state has
    /// changed since, one packet of each trace is tried again: f's writes may have opened other paths.
    fn next_sample(&mut self) -> Option<(Sample, bool)> {
        if self.queue.len() == 0 && self.queue.begin_pass(self.store.snapshot().version()) {
            let mut kinds = HashSet::new();
            let distinct = self.tried.iter().filter(|tried| kinds.insert(keys(&tried.first.trace)));
            self.queue.repeat(distinct.take(MAX_REPEATED).map(|tried| tried.sample.clone()));
        }
        self.queue.pop()
    }

    /// Runs f once more on every packet, in another order, each on the state of its first run.
    pub fn again(&mut self) {
        let tried = std::mem::take(&mut self.tried);
        let mut order: Vec<usize> = (0..tried.len()).collect();
        self.random.shuffle(&mut order);
        for Tried { sample, state, first } in order.into_iter().map(|index| &tried[index]) {
            if self.gave_up() {
                break;
            }
            let later = self.observe(sample, state);
            self.faults.compare(sample, first, &later);
        }
        self.tried = tried;
    }

    /// Returns the runs that make the number of the policy's rules grow, one entry for each kind, those with the most
    /// rules last.
    pub fn costs(&self) -> impl Iterator<Item = &Wide> {
        self.costs.all()
    }

    /// Returns the look-ups that the policy makes on switches with tables for them, in order.
    pub fn look_ups(&self) -> impl Iterator<Item = &MadeLookUp> {
        self.costs.look_ups()
    }

    /// Returns the average time that f takes for a packet, if that is longer than [`SLOW_RUN`].
    pub fn slow(&self) -> Option<Duration> {
        self.timing.slow()
    }

    /// Reports whether no more packets are tried, because f exceeded its time limit too often or took too long.
    pub fn gave_up(&self) -> bool {
        self.timing.gave_up()
    }

    /// Returns the coverage so far.
    pub fn coverage(&self) -> Coverage {
        let mut coverage = Coverage { runs: self.timing.runs(), ..self.coverage.clone() };
        self.merged.report(&mut coverage);
        coverage
    }

    fn try_on(&mut self, sample: Sample) {
        let state = self.store.snapshot();
        let first = self.observe(&sample, &state);
        let second = self.observe(&sample, &state);
        self.faults.compare(&sample, &first, &second);
        self.count_faults(&sample, &first);
        let is_new_here = self.explored.as_mut().is_some_and(|all| all.take(sample.at.switch, &first));
        let is_new = self.merged.take(&first);
        if is_new {
            self.count_costs(&sample, &state, &first);
        }
        if is_new_here || is_new && self.merged.count_shape(&first) {
            self.values.learn(&first, &state);
            let made = variants(&sample, &first, &self.values, &mut self.random, self.explored.is_some());
            made.into_iter().for_each(|made| {
                let moved = made.at != sample.at;
                self.offer(made, moved)
            });
        }
        if first.trace.read_switch || is_new_here {
            // Packets that enter at other switches may take other paths.
            edge_ports(&state).into_iter().for_each(|at| self.offer(Sample { at, ..sample.clone() }, true));
        }
        if first.answer.is_ok() && !first.writes.is_empty() {
            self.store.update(|_| first.writes.clone());
            self.look_for_writes(&sample, &first);
        }
        self.tried.push(Tried { sample, state, first });
    }

    /// Counts the rules that a new trace makes, on switches that have the tables for look-ups that were given.
    fn count_costs(&mut self, sample: &Sample, state: &Arc<Snapshot>, first: &Observation) {
        let Some(registers) = self.costs.registers_for(sample.at.switch, first) else {
            if first.answer.is_ok() {
                self.costs.take(sample, first);
            }
            return;
        };
        let run = self.run_on(sample, state).with_registers(registers);
        let with_look_ups = Observation::from_run(&*self.policy, &run);
        if with_look_ups.answer.is_ok() {
            self.costs.take(sample, &with_look_ups);
        }
    }

    /// Runs f once more on a packet for which it wrote, as the network does, to see whether it writes again.
    fn look_for_writes(&mut self, sample: &Sample, first: &Observation) {
        let state = self.store.snapshot();
        let next = self.observe(sample, &state);
        if next.answer.is_ok() && !next.writes.is_empty() {
            self.faults.count_write(sample, first, &next);
        }
    }

    fn count_faults(&mut self, sample: &Sample, run: &Observation) {
        self.faults.count(sample, run);
        match &run.answer {
            Err(PolicyError::Retry) => self.coverage.waiting += 1,
            Err(error) => {
                self.coverage.failed += 1;
                if error.is_time_limit() {
                    self.timing.count_too_long();
                }
            }
            Ok(_) => {}
        }
    }

    fn observe(&mut self, sample: &Sample, state: &Arc<Snapshot>) -> Observation {
        let run = self.run_on(sample, state);
        self.timing.measure(|| Observation::from_run(&*self.policy, &run))
    }

    fn run_on(&self, sample: &Sample, state: &Arc<Snapshot>) -> Run {
        let txn = Txn::new(state.clone());
        Run::new(sample.frame.clone(), sample.frame.len(), sample.at, txn, self.track_hosts)
    }

    /// Queues a packet that could occur in the network. With host tracking, f sees packets of a host only from its
    /// location. So a packet that was `moved` to another port gets the source of a host there, and any other enters
    /// where its source is.
    fn offer(&mut self, sample: Sample, moved: bool) {
        let source = sample.packet().get(Field::EthSrc).map(Mac::from_bits);
        let placed = if !self.track_hosts {
            Some(sample).filter(|sample| is_edge(&self.store.snapshot(), sample.at))
        } else if moved {
            let host = self.hosts.iter().find(|(_, info)| info.location == sample.at);
            host.map(|(mac, _)| sample.with(&Headers::from([(Field::EthSrc, mac.bits())])))
        } else {
            let host = self.hosts.iter().find(|(mac, _)| Some(*mac) == source);
            host.map(|(_, info)| Sample { at: info.location, ..sample })
        };
        if let Some(sample) = placed {
            self.queue.add_made(sample);
        }
    }
}

fn is_edge(state: &Snapshot, at: Location) -> bool {
    state.port(at).is_some_and(|port| port.up && port.kind == PortKind::Edge)
}

/// Returns ports where packets enter: at most one for each switch, and at most 16.
fn edge_ports(state: &Snapshot) -> Vec<Location> {
    let first = |dpid| {
        let mut ports = state.ports_of(dpid).map(|(port, _): (PortNo, _)| Location::new(dpid, port));
        ports.find(|at| is_edge(state, *at))
    };
    state.switches().filter_map(|(dpid, _)| first(dpid)).take(16).collect()
}
