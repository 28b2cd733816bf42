//! Traffic: pairs of hosts that talk, the kinds of their flows, and the results.

use std::collections::BTreeMap;

use maple_switch::time::{Nanoseconds, SECOND};

use crate::emulated::{EmulatedNetwork, NetworkError};
use crate::host::{FlowKind, Progress};
pub use crate::pairs::{PairCounters, PairKey};
use crate::random::Random;

/// The results of a generator's flows from one host to another, of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowCounters {
    /// Flows opened.
    pub opened: u64,
    /// Opened flows that are expected to succeed.
    pub expected: u64,
    /// Flows whose dialogue ended as it should.
    pub done: u64,
    /// Flows that were given up.
    pub failed: u64,
    /// Flows whose end was not the expected one.
    pub unexpected: u64,
}

/// The parameters of traffic.
#[derive(Clone, Debug, PartialEq)]
pub struct TrafficOptions {
    /// Flows opened per second, in the whole network.
    pub flows_per_second: u32,
    /// The time in which flows are opened, in nanoseconds.
    pub duration: Nanoseconds,
    /// The kinds of flows. One of these is drawn for each flow.
    pub kinds: Vec<FlowKind>,
    /// The share of flows over IPv6, 0.0 to 1.0.
    pub ipv6: f64,
    /// The seed that chooses the hosts of each flow.
    pub seed: u64,
}

impl Default for TrafficOptions {
    /// Returns twenty flows a second for twenty seconds: pings, ssh, web, DNS; one in ten over IPv6.
    fn default() -> TrafficOptions {
        TrafficOptions {
            flows_per_second: 20,
            duration: 20 * SECOND,
            kinds: vec![
                FlowKind::Ping,
                FlowKind::Tcp(22),
                FlowKind::Tcp(80),
                FlowKind::Tcp(443),
                FlowKind::Tcp(8080),
                FlowKind::Udp(53),
            ],
            ipv6: 0.1,
            seed: 1,
        }
    }
}

/// The expectation of a flow, by source, destination and kind: `true` if it must succeed.
pub type Expectation = Box<dyn Fn(&str, &str, FlowKind) -> bool + Send>;

/// Opens flows at random between the hosts of a network, and counts their results.
pub struct Traffic {
    options: TrafficOptions,
    random: Random,
    hosts: Vec<String>,
    started: Nanoseconds,
    opened: u64,
    running: Vec<(PairKey, crate::host::FlowId)>,
    counters: BTreeMap<PairKey, FlowCounters>,
    expectation: Option<Expectation>,
}

impl Traffic {
    /// Creates a generator that starts now. Every flow is expected to succeed unless `expectation` says otherwise.
    ///
    /// It does nothing in a network of fewer than two hosts, or without kinds of flows.
    pub fn new(network: &EmulatedNetwork, options: TrafficOptions, expectation: Option<Expectation>) -> Traffic {
        Traffic {
            random: Random::new(options.seed),
            hosts: network.hosts().map(|h| h.spec().name.clone()).collect(),
            started: network.now(),
            opened: 0,
            running: Vec::new(),
            counters: BTreeMap::new(),
            options,
            expectation,
        }
    }

    /// Returns the time to open the next flow; `None` once all are open.
    pub fn next_flow(&self) -> Option<Nanoseconds> {
        let rate = Nanoseconds::from(self.options.flows_per_second);
        if self.hosts.len() < 2 || self.options.kinds.is_empty() || rate == 0 {
            return None;
        }
        let after = self.opened * SECOND / rate;
        (after < self.options.duration).then_some(self.started + after)
    }

    /// Opens due flows, and checks open ones. Call it whenever time has passed.
    ///
    /// # Errors
    /// [`NetworkError`] if the generator was made for another network.
    pub fn poll(&mut self, network: &mut EmulatedNetwork) -> Result<(), NetworkError> {
        while self.next_flow().is_some_and(|at| at <= network.now()) {
            self.open(network)?;
        }
        let mut still_running = Vec::new();
        for (key, id) in std::mem::take(&mut self.running) {
            let flow = network.host(&key.src).and_then(|host| host.flow(id));
            let flow = flow.ok_or_else(|| NetworkError::NoHost(key.src.clone()))?;
            let expected = self.expectation.as_ref().is_none_or(|f| f(&key.src, &key.dst, key.kind));
            let done = match flow.progress {
                Progress::Running => {
                    still_running.push((key, id));
                    continue;
                }
                Progress::Done => true,
                Progress::NoNeighbour | Progress::NoAnswer => false,
            };
            let counters = self.counters.entry(key).or_default();
            counters.done += u64::from(done);
            counters.failed += u64::from(!done);
            counters.unexpected += u64::from(done != expected);
        }
        self.running = still_running;
        Ok(())
    }

    /// Runs the network, with this traffic, until a time.
    ///
    /// # Errors
    /// [`NetworkError`] if the generator was made for another network.
    pub fn run_until(&mut self, network: &mut EmulatedNetwork, until: Nanoseconds) -> Result<(), NetworkError> {
        while let Some(at) = self.next_flow().filter(|at| *at <= until) {
            network.run_until(at);
            self.poll(network)?;
        }
        network.run_until(until);
        self.poll(network)
    }

    /// Reports whether all flows have been opened and have ended.
    pub fn is_over(&self) -> bool {
        self.next_flow().is_none() && self.running.is_empty()
    }

    /// Returns the results of the flows, by hosts and kind.
    pub fn counters(&self) -> &BTreeMap<PairKey, FlowCounters> {
        &self.counters
    }

    /// Returns the results of all flows together.
    pub fn total(&self) -> FlowCounters {
        self.counters.values().fold(FlowCounters::default(), |sum, c| FlowCounters {
            opened: sum.opened + c.opened,
            expected: sum.expected + c.expected,
            done: sum.done + c.done,
            failed: sum.failed + c.failed,
            unexpected: sum.unexpected + c.unexpected,
        })
    }

    fn open(&mut self, network: &mut EmulatedNetwork) -> Result<(), NetworkError> {
        let count = self.hosts.len() as u64;
        let src = self.random.below(count);
        let dst = (src + 1 + self.random.below(count - 1)) % count;
        let kind = self.options.kinds[self.random.below(self.options.kinds.len() as u64) as usize];
        let ipv6 = self.random.chance(self.options.ipv6);
        let (src, dst) = (self.hosts[src as usize].clone(), self.hosts[dst as usize].clone());
        let id = network.open_flow(&src, &dst, kind, ipv6)?;
        let expected = self.expectation.as_ref().is_none_or(|f| f(&src, &dst, kind));
        let key = PairKey { src, dst, kind };
        let counters = self.counters.entry(key.clone()).or_default();
        counters.opened += 1;
        counters.expected += u64::from(expected);
        self.running.push((key, id));
        self.opened += 1;
        Ok(())
    }
}
