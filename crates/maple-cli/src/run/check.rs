//! Compares what an emulated network delivers with what f says, packet by packet.
//!
//! # What
//! For every frame that a host sent, f is run afresh on the state that the controller had then, and its route is
//! resolved to edge ports and rewritten bytes. The frame must have come out exactly there and so, once at each port.
//!
//! # Why it is sound
//! Neither trees nor rules nor the compiler take part: f, the state, and the route's meaning do. While the state
//! changes a packet may meet f's answer before or after the change, so every state that the controller had from the
//! frame's entry to its last copy is admitted. States are sampled every few milliseconds; one that lasted less is not
//! known here, and a frame that met it alone would be called wrong.
//!
//! # Cost
//! One run of f a frame, mostly; frames wait here until they had time to arrive.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use maple_core::network::{Location, PortKind};
use maple_core::policy::Policy;
use maple_core::run::Run;
use maple_core::state::{Snapshot, Store, Txn};
use maple_emulator::Emulation;
use maple_emulator::network::{Entry, FrameId, Origin, Outcome};
use maple_wire::packet::rewrite;
use maple_wire::{Constraint, Dpid, Packet, PortNo};

/// How long a frame that came out right is watched for further copies.
const SETTLED: Duration = Duration::from_millis(500);
/// How long a frame may take to come out.
const LATE: Duration = Duration::from_secs(4);
/// How often the state is sampled.
const SAMPLE: Duration = Duration::from_millis(2);
/// How far the clocks of samples and frames may be apart.
const SLACK: Duration = Duration::from_millis(20);
/// Examples kept of each kind of fault.
const EXAMPLES: usize = 3;

/// Where a frame comes out and with which bytes.
type Place = (Dpid, PortNo, Vec<u8>);

/// Judges the frames of one run.
pub struct Checker {
    policy: Arc<dyn Policy>,
    store: Arc<Store>,
    track_hosts: bool,
    /// The states so far, with when each was first seen.
    history: VecDeque<(Instant, Arc<Snapshot>)>,
    pending: BTreeMap<FrameId, Watched>,
    verdicts: Verdicts,
}

/// What came of the frames.
#[derive(Default)]
pub struct Verdicts {
    /// Frames that came out exactly where f says.
    pub right: u64,
    /// Frames that did not come out everywhere that f says.
    pub lost: Tally,
    /// Frames that came out elsewhere, with other bytes, or twice.
    pub wrong: Tally,
    /// Frames that entered before discovery knew their port.
    pub unchecked: u64,
}

/// Frames with the same fault.
#[derive(Default)]
pub struct Tally {
    /// How many.
    pub count: u64,
    /// The first ones, in words.
    pub examples: Vec<String>,
}

/// A frame whose copies may still be under way.
struct Watched {
    at: Location,
    frame: Vec<u8>,
    entered: Instant,
    came_out: Vec<Place>,
    /// When the last copy came out.
    last: Instant,
}

impl Checker {
    /// A checker for networks that run this policy on this state.
    pub fn new(policy: Arc<dyn Policy>, store: Arc<Store>, track_hosts: bool) -> Checker {
        let history = VecDeque::from([(Instant::now(), store.snapshot())]);
        let (pending, verdicts) = (BTreeMap::new(), Verdicts::default());
        Checker { policy, store, track_hosts, history, pending, verdicts }
    }

    /// Takes what happened since the last look, judges what is due, and samples the state until `until`.
    pub fn look(&mut self, emulation: &Emulation, until: Instant) -> anyhow::Result<()> {
        self.take(emulation)?;
        self.judge(Instant::now());
        loop {
            self.sample();
            if Instant::now() + SAMPLE > until {
                return Ok(());
            }
            std::thread::sleep(SAMPLE);
        }
    }

    /// Waits for the frames that are under way and gives the verdicts.
    pub fn finish(mut self, emulation: &Emulation) -> anyhow::Result<Verdicts> {
        let deadline = Instant::now() + LATE;
        while Instant::now() < deadline && !self.pending.is_empty() {
            self.look(emulation, Instant::now() + Duration::from_millis(50))?;
        }
        self.judge(Instant::now() + LATE);
        Ok(self.verdicts)
    }

    /// Moves the network's log here.
    fn take(&mut self, emulation: &Emulation) -> anyhow::Result<()> {
        let (now, entries, deliveries) = emulation.with_network(|network| {
            let log = network.log();
            let entries: Vec<Entry> = log.entries().cloned().collect();
            let deliveries: Vec<_> = log
                .deliveries()
                .filter_map(|d| match &d.outcome {
                    Outcome::Egress { dpid, port, .. } => Some((d.id, d.at, (*dpid, *port, d.frame.clone()))),
                    _ => None,
                })
                .collect();
            network.clear_log();
            (network.now(), entries, deliveries)
        })?;
        let here = Instant::now();
        let moment = |at: u64| here.checked_sub(Duration::from_nanos(now.saturating_sub(at))).unwrap_or(here);
        for entry in entries {
            if let Origin::Port(dpid, port) = entry.origin {
                let (at, entered) = (Location::new(dpid, port), moment(entry.at));
                let watched = Watched { at, frame: entry.frame, entered, came_out: Vec::new(), last: entered };
                self.pending.insert(entry.id, watched);
            }
        }
        for (id, at, place) in deliveries {
            if let Some(watched) = self.pending.get_mut(&id) {
                watched.came_out.push(place);
                watched.last = moment(at);
            }
        }
        Ok(())
    }

    fn sample(&mut self) {
        let newest = self.store.snapshot();
        if self.history.back().is_none_or(|(_, last)| last.version() != newest.version()) {
            self.history.push_back((Instant::now(), newest));
        }
        // The oldest stays while it was the newest for a frame that may still be judged.
        let old = Instant::now().checked_sub(2 * LATE);
        while self.history.len() > 1 && old.is_some_and(|old| self.history[1].0 < old) {
            self.history.pop_front();
        }
    }

    fn judge(&mut self, now: Instant) {
        let due: Vec<FrameId> = self
            .pending
            .iter()
            .filter(|(_, watched)| now.saturating_duration_since(watched.entered) > SETTLED)
            .map(|(id, _)| *id)
            .collect();
        for id in due {
            let Some(watched) = self.pending.remove(&id) else { continue };
            if let Some(watched) = self.judge_one(watched, now) {
                self.pending.insert(id, watched);
            }
        }
    }

    /// Judges a frame, or gives it back where it may still come out right.
    fn judge_one(&mut self, mut watched: Watched, now: Instant) -> Option<Watched> {
        watched.came_out.sort();
        let states = self.states(watched.entered, watched.last);
        if !states.iter().any(|state| is_known(state, watched.at)) {
            self.verdicts.unchecked += 1;
            return None;
        }
        let mut admitted = BTreeSet::new();
        for state in &states {
            let expected = self.expected(state, &watched);
            if expected.iter().eq(&watched.came_out) {
                self.verdicts.right += 1;
                return None;
            }
            admitted.extend(expected);
        }
        if now.saturating_duration_since(watched.entered) < LATE {
            return Some(watched);
        }
        let distinct: BTreeSet<&Place> = watched.came_out.iter().collect();
        let twice = distinct.len() < watched.came_out.len();
        let elsewhere = watched.came_out.iter().any(|place| !admitted.contains(place));
        let tally = if twice || elsewhere { &mut self.verdicts.wrong } else { &mut self.verdicts.lost };
        tally.count += 1;
        if tally.examples.len() < EXAMPLES {
            tally.examples.push(describe(&watched, &admitted));
        }
        None
    }

    /// The states that the controller had between two moments.
    fn states(&self, from: Instant, to: Instant) -> Vec<Arc<Snapshot>> {
        let from = from.checked_sub(SLACK).unwrap_or(from);
        let first = self.history.partition_point(|(since, _)| *since <= from).saturating_sub(1);
        let range = self.history.range(first..);
        range.take_while(|(since, _)| *since <= to + SLACK).map(|(_, state)| state.clone()).collect()
    }

    /// Where f, run afresh on this state, sends the frame. Nowhere if f fails.
    fn expected(&self, state: &Arc<Snapshot>, watched: &Watched) -> BTreeSet<Place> {
        let frame: Arc<[u8]> = watched.frame.as_slice().into();
        let ingress = watched.at;
        let run = Run::new(frame.clone(), frame.len(), ingress, Txn::new(state.clone()), self.track_hosts);
        let answer = self.policy.decide_batch(std::slice::from_ref(&run)).pop();
        let Some(mut finished) = run.finish() else { return BTreeSet::new() };
        let Some(Ok(route)) = answer.filter(|_| finished.error.is_none()) else { return BTreeSet::new() };
        let packet = Packet::new(&frame, ingress.port.0);
        let mut ask = |field, value, mask| packet.switch_value(field).is_some_and(|v: u128| v & mask == value & mask);
        let Ok(resolved) = route.resolve(ingress.switch, &mut finished.txn, &mut ask) else { return BTreeSet::new() };
        let mut places = BTreeSet::new();
        for (dpid, part) in resolved.parts {
            let mut bytes = watched.frame.clone();
            let fits = part
                .treatment
                .rewrites
                .iter()
                .all(|(field, value)| rewrite::set_field(&mut bytes, &Constraint::exact(*field, *value)).is_ok());
            let ports = part.edges.into_iter().filter(|port| Location::new(dpid, *port) != ingress);
            places.extend(ports.filter(|_| fits).map(|port| (dpid, port, bytes.clone())));
        }
        places
    }
}

/// Whether discovery knows that hosts are behind this port.
fn is_known(state: &Snapshot, at: Location) -> bool {
    state.port(at).is_some_and(|port| port.kind == PortKind::Edge)
}

fn describe(watched: &Watched, admitted: &BTreeSet<Place>) -> String {
    let packet = Packet::new(&watched.frame, watched.at.port.0);
    let ports = |places: &mut dyn Iterator<Item = &Place>| {
        let text: Vec<String> = places.map(|(dpid, port, _)| Location::new(*dpid, *port).to_string()).collect();
        if text.is_empty() { "nowhere".to_string() } else { text.join(" ") }
    };
    format!(
        "{} entered at {}, came out at {}; f says {}",
        maple_wire::packet::text::summary(&packet),
        watched.at,
        ports(&mut watched.came_out.iter()),
        ports(&mut admitted.iter()),
    )
}
