//! Claims about all packets of a scope: is one delivered where it must not be, or not where it must?
//!
//! # What
//!
//! [`examine`] explores the policy with packets of the scope, and judges one packet of each distinct trace. Packets
//! with equal traces get the same route, so that is enough. The first packet that contradicts the claim is the
//! counterexample. If there is none and the tree of traces is complete ([`Open`]), the claim holds for all packets of
//! the scope, in the network and the state as they are.
//!
//! # Why it is correct
//!
//! The run itself asks whether the packet is in the scope ([`super::packet_scope`]), so all packets of a trace are in
//! the scope or none is. The judge considers what the route means for every packet of the trace: a port that the packet
//! may have come in by counts as a port that it leaves by, unless it is the sender's own. If a policy is compared with
//! another one, both run in one run, so that traces hold the observations of both.

use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::sync::Arc;

use super::coverage::keys;
use super::packet_scope::{PacketScope, Scoped};
use super::proof::Open;
use super::sample_packets::first_packets;
use super::{Check, Clock, Coverage, Host, Observation, Sample};
use crate::network::Location;
use crate::policy::{Policy, PolicyError};
use crate::route_plan::{Resolved, RouteError};
use crate::run::Run;
use crate::state::{Snapshot, Store, Txn};

/// The maximum number of pairs of hosts for which packets are made at first. Chosen: it covers each ordered pair of
/// eight hosts, and the rest of the packets are made from what f asks of these.
const MAX_FIRST_PAIRS: usize = 64;
/// The number of packets that are tried before the claim is judged again. Chosen: a judgement looks at all packets so
/// far, so it must be rarer than a run; a counterexample ends the search soon all the same.
const PACKETS_PER_JUDGEMENT: u64 = 256;

/// A claim about all packets of a scope.
#[derive(Debug)]
pub struct ScopedClaim {
    /// The packets that the claim is about.
    pub scope: PacketScope,
    /// The claim.
    pub claim: Claim,
}

/// The kinds of claims about packets.
#[derive(Clone, Debug)]
pub enum Claim {
    /// No copy leaves the network by one of these ports.
    NeverAt(BTreeSet<Location>),
    /// A copy arrives at the receiver that the scope names.
    Arrives,
    /// No route passes a switch twice.
    NoLoops,
    /// Another policy gives the same routes.
    SameAs(Arc<dyn Policy>),
}

/// The result of an examination.
#[derive(Debug)]
pub struct Examined {
    /// A packet that contradicts the claim.
    pub counterexample: Option<Counterexample>,
    /// The counts of what was tried.
    pub coverage: Coverage,
    /// The reason why the runs are not a proof; `None` if they are one.
    pub open: Option<Open>,
}

/// A packet that contradicts a claim.
pub struct Counterexample {
    /// The packet.
    pub sample: Sample,
    /// The state in which it does so. If the policy writes, that is later than the network's.
    pub state: Arc<Snapshot>,
    /// The contradiction in words.
    pub why: String,
    /// The policy's questions and answers, line by line.
    pub lines: Vec<String>,
    /// The questions and answers of the other policy, if there is one.
    pub other: Vec<String>,
}

impl fmt::Debug for Counterexample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counterexample")
            .field("sample", &self.sample)
            .field("why", &self.why)
            .field("lines", &self.lines)
            .field("other", &self.other)
            .finish_non_exhaustive()
    }
}

/// Explores a policy until a packet contradicts the claim, everything is explored, or `packets` packets were tried.
///
/// The policy writes into the store, so pass a copy of the network's. `hosts` are those of the network. `clock`
/// measures runs of the policy.
pub fn examine(
    policy: &Arc<dyn Policy>,
    store: &Arc<Store>,
    hosts: Vec<Host>,
    track_hosts: bool,
    question: ScopedClaim,
    packets: u64,
    clock: Clock,
) -> Examined {
    let ScopedClaim { scope, claim } = question;
    let samples = seeds(&scope, &hosts);
    let other = match &claim {
        Claim::SameAs(other) => Some(Arc::clone(other)),
        _ => None,
    };
    let scope = Arc::new(scope);
    let scoped = Scoped { scope: Arc::clone(&scope), policy: Arc::clone(policy), other };
    let mut check = Check::new(Arc::new(scoped), Arc::clone(store), hosts, track_hosts, 1, clock);
    samples.into_iter().rev().for_each(|sample| check.give(sample));
    check.for_packets_that_pass(scope.last_tests());
    let mut judge = ClaimJudge { policy, scope: &scope, claim: &claim, track_hosts, judged: HashSet::new(), passed: 0 };
    let mut counterexample = None;
    let mut limit = 0;
    while counterexample.is_none() && limit < packets {
        limit = (limit + PACKETS_PER_JUDGEMENT).min(packets);
        check.explore(limit);
        counterexample = judge.first_contradiction(&check);
        if check.coverage().packets < limit {
            break;
        }
    }
    let coverage = check.coverage();
    Examined { counterexample, open: check.is_complete().err(), coverage }
}

/// Returns packets of the usual kinds from each sender to each receiver.
fn seeds(scope: &PacketScope, hosts: &[Host]) -> Vec<Sample> {
    let to = scope.receivers.as_deref().unwrap_or(hosts);
    let pairs = scope.senders.iter().flat_map(|from| to.iter().map(move |to| (from, to)));
    let pairs = pairs.filter(|(from, to)| from.0 != to.0).take(MAX_FIRST_PAIRS);
    pairs.flat_map(|(from, to)| first_packets(&[from.clone(), to.clone()])).collect()
}

/// The judge of packets that were decided.
struct ClaimJudge<'a> {
    policy: &'a Arc<dyn Policy>,
    scope: &'a PacketScope,
    claim: &'a Claim,
    track_hosts: bool,
    /// The traces that were judged, each with the version of its state.
    judged: HashSet<(u64, Vec<super::coverage::StepKey>)>,
    /// The number of packets that were judged or skipped.
    passed: usize,
}

impl ClaimJudge<'_> {
    /// Returns the first packet that contradicts the claim, among those that were not judged yet.
    fn first_contradiction(&mut self, check: &Check) -> Option<Counterexample> {
        for (sample, state, run) in check.decided().skip(self.passed) {
            self.passed += 1;
            // An equal trace may lead elsewhere in another state.
            let is_new = self.judged.insert((state.version(), keys(&run.trace)));
            if is_new
                && self.scope.holds(sample)
                && let Some(found) = self.judge(sample, state, run)
            {
                return Some(found);
            }
        }
        None
    }

    fn judge(&self, sample: &Sample, state: &Arc<Snapshot>, run: &Observation) -> Option<Counterexample> {
        let found = |why: String, lines: Vec<String>, other: Vec<String>| {
            Some(Counterexample { sample: sample.clone(), state: Arc::clone(state), why, lines, other })
        };
        match (self.claim, &run.answer) {
            (Claim::SameAs(other), _) => {
                let (first, second) = (self.observe(self.policy, sample, state), self.observe(other, sample, state));
                let is_same = match (&first.answer, &second.answer) {
                    (Ok(first), Ok(second)) => first == second,
                    (Err(_), Err(_)) => true,
                    _ => false,
                };
                if is_same { None } else { found("the routes differ".into(), first.lines(), second.lines()) }
            }
            (Claim::NeverAt(ports), Ok(route)) => {
                let at = self.exit_among(ports, route, sample)?;
                found(format!("a copy leaves at {at}"), run.lines(), Vec::new())
            }
            (Claim::Arrives, Ok(route)) => {
                let to = self.scope.receiver(sample)?;
                let arrives = route.copies(&sample.frame, sample.at).iter().any(|(at, _)| *at == to.1.location);
                if arrives { None } else { found("no copy comes to its receiver".into(), run.lines(), Vec::new()) }
            }
            (Claim::Arrives, Err(error)) => {
                let error = error.to_string();
                let why = format!("the policy fails: {}", error.lines().next_back().unwrap_or_default());
                found(why, run.lines(), Vec::new())
            }
            (Claim::NoLoops, Err(PolicyError::Route { error: error @ RouteError::Loop(_), .. })) => {
                found(error.to_string(), run.lines(), Vec::new())
            }
            (Claim::NeverAt(_), Err(_)) | (Claim::NoLoops, _) => None,
        }
    }

    /// Returns one of these ports by which a copy can leave, of any packet with this trace.
    fn exit_among(&self, ports: &BTreeSet<Location>, route: &Resolved, sample: &Sample) -> Option<Location> {
        let senders = self.scope.sender(sample).map(|(_, info)| info.location);
        let own = senders.unwrap_or(sample.at);
        let edges = route
            .switches
            .iter()
            .flat_map(|(dpid, hops)| hops.edges.iter().map(|port| Location { switch: *dpid, port: *port }));
        let mut exits = edges.chain(route.own.iter().map(|own| own.at));
        exits.find(|at| *at != own && ports.contains(at))
    }

    fn observe(&self, policy: &Arc<dyn Policy>, sample: &Sample, state: &Arc<Snapshot>) -> Observation {
        let txn = Txn::new(Arc::clone(state));
        let run = Run::new(Arc::clone(&sample.frame), sample.frame.len(), sample.at, txn, self.track_hosts);
        Observation::from_run(&**policy, &run)
    }
}
