//! Compares the deliveries of an emulated network with f, packet by packet.
//!
//! # What
//! For every frame that a host sent, f runs afresh on the state that the controller had then. Its route is resolved to
//! edge ports and rewritten bytes. The frame must have left there, with these bytes, once at each port. Frames with
//! equal bytes that enter at one port at the same time are judged together. Frames of f's own, such as ARP answers, are
//! not judged. Frames that end at the controller, such as answers to its probes of hosts, must not leave anywhere.
//!
//! # Why it is sound
//! Neither trees nor rules nor the compiler take part: only f, the state, and the route's meaning do. While the state
//! changes, a packet can meet f's answer before or after the change. So every state that the controller had from the
//! frame's entry to its last copy is accepted, and no other ([`super::past_states`]).
//!
//! # Cost
//! Mostly one run of f for each frame. Frames wait here until they have had time to arrive. Time in which the
//! controller does not answer does not count: it can be busy, and send them later.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use maple_controller::Handle;
use maple_core::check::Observation;
use maple_core::network::is_the_controllers;
use maple_core::network::{Location, PortKind};
use maple_core::policy::Policy;
use maple_core::route_plan::Resolved;
use maple_core::run::Run;
use maple_core::state::{Snapshot, Txn};
use maple_emulator::emulated::{Delivery, Drop, EnteredFrame, FrameId, Origin, Outcome};
use maple_emulator::switch::Lost;
use maple_emulator::{EmulatedNetwork, Emulation};
use maple_wire::{Dpid, Packet, PortNo};

use super::past_states::History;

/// The time for which a correctly delivered frame is watched for further copies. Chosen: a copy takes another path of
/// the same network, which takes no longer than the first, or goes through the controller.
const SETTLED: Duration = Duration::from_millis(500);
/// The maximum time for a frame to leave the network. It must exceed the time that a host's packet may wait for a
/// decision on a loaded machine.
const MAX_FLIGHT_TIME: Duration = Duration::from_secs(4);
/// The maximum time to wait for the last frames if the controller is busy. Chosen: a run that nobody can judge must
/// end.
const MAX_BUSY_WAIT: Duration = Duration::from_secs(60);
/// The time between two checks for the last frames. Chosen: a person does not notice it.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// The time for which packets may be lost after a switch restarts, or a part of it fails or returns, in nanoseconds. It
/// must exceed the time that a silent link takes to be found and a route to be changed.
const MAX_OUTAGE: u64 = 5_000_000_000;
/// The number of examples for each kind of fault. Chosen: each is a line, and the faults of one kind mostly have one
/// cause.
const EXAMPLES: usize = 3;

/// The port by which a frame leaves the network, and its bytes.
type Egress = (Dpid, PortNo, Vec<u8>);

/// Judges the frames of one run.
pub struct Checker {
    policy: Arc<dyn Policy>,
    track_hosts: bool,
    history: History,
    pending: BTreeMap<EnteringFrame, WatchedFrames>,
    /// The kinds of the pending frames.
    kinds: BTreeMap<FrameId, EnteringFrame>,
    verdicts: Verdicts,
}

/// The verdicts on the frames.
#[derive(Default)]
pub struct Verdicts {
    /// Frames that left exactly as f decided.
    pub right: u64,
    /// Frames that did not leave everywhere that f decided.
    pub lost: Tally,
    /// Frames that left elsewhere, with other bytes, or twice.
    pub wrong: Tally,
    /// Frames of which the network itself lost a copy: by links, queues, meters, failures; and frames that had to keep
    /// their path, and came before its rules. Their other copies left as f decided.
    pub excused: u64,
    /// Frames that entered before discovery knew their port, that left when the state at their entry was forgotten, or
    /// of which the network's log may have lost a copy because it was full.
    pub unchecked: u64,
}

/// Frames with the same fault.
#[derive(Default)]
pub struct Tally {
    /// The number of frames.
    pub count: u64,
    /// The first ones, as text.
    pub examples: Vec<String>,
}

/// The kind of a frame: the place where it entered, and its bytes.
type EnteringFrame = (Location, Arc<[u8]>);

/// Frames of one kind whose copies can still be in flight.
struct WatchedFrames {
    ids: Vec<FrameId>,
    /// The time when the first of them entered.
    first_entry: Instant,
    /// The time when the last of them entered.
    last_entry: Instant,
    came_out: BTreeMap<Egress, usize>,
    /// The time when the last copy left.
    last_exit: Instant,
    /// Whether the network itself lost a copy.
    excused: bool,
    /// Whether copies may be missing because the network's log was full.
    is_incomplete: bool,
}

impl Checker {
    /// Creates a checker for this controller and policy.
    ///
    /// # Errors
    /// The system's error, if it refuses a thread.
    pub fn new(policy: Arc<dyn Policy>, track_hosts: bool, controller: &Handle) -> std::io::Result<Checker> {
        let history = History::follow(controller)?;
        let (pending, kinds, verdicts) = (BTreeMap::new(), BTreeMap::new(), Verdicts::default());
        Ok(Checker { policy, track_hosts, history, pending, kinds, verdicts })
    }

    /// Reads the new events, and judges the frames that are due.
    ///
    /// # Errors
    /// If the emulation has ended.
    pub fn look(&mut self, emulation: &Emulation) -> anyhow::Result<()> {
        let answered = self.history.answered();
        self.take(emulation)?;
        let now = Instant::now();
        self.judge(answered);
        let waits = self.pending.values().map(|watched| watched.first_entry).min();
        self.history.forget_before(waits.unwrap_or(now).checked_sub(MAX_FLIGHT_TIME).unwrap_or(now));
        Ok(())
    }

    /// Waits for the frames that are in flight, and returns the verdicts.
    ///
    /// # Errors
    /// If the emulation has ended.
    pub fn finish(mut self, emulation: &Emulation) -> anyhow::Result<Verdicts> {
        let began = Instant::now();
        self.look(emulation)?;
        while !self.pending.is_empty()
            && began.elapsed() < MAX_BUSY_WAIT
            && self.history.answered() < began + MAX_FLIGHT_TIME
        {
            self.look(emulation)?;
            std::thread::sleep(CHECK_INTERVAL);
        }
        self.judge(Instant::now() + MAX_FLIGHT_TIME);
        Ok(self.verdicts)
    }

    /// Takes over the network's log.
    fn take(&mut self, emulation: &Emulation) -> anyhow::Result<()> {
        let (entries, deliveries, excused, is_incomplete) = emulation.with_network(|network| {
            let log = network.log();
            let entries: Vec<EnteredFrame> = log.entries().cloned().collect();
            let deliveries: Vec<_> = log
                .deliveries()
                .filter_map(|d| match &d.outcome {
                    Outcome::Egress { dpid, port, .. } => Some((d.id, d.at, (*dpid, *port, d.frame.clone()))),
                    _ => None,
                })
                .collect();
            let lost = log.deliveries().filter(|d| is_the_networks(d, network)).map(|d| d.id);
            let (excused, is_incomplete): (Vec<FrameId>, bool) = (lost.collect(), log.is_incomplete);
            network.clear_log();
            (entries, deliveries, excused, is_incomplete)
        })?;
        for entry in entries {
            if let Origin::Port(dpid, port) = entry.origin {
                let entered = emulation.moment(entry.at);
                let kind: EnteringFrame = (Location::new(dpid, port), entry.frame.into());
                let new = || WatchedFrames {
                    ids: Vec::new(),
                    first_entry: entered,
                    last_entry: entered,
                    came_out: BTreeMap::new(),
                    last_exit: entered,
                    excused: false,
                    is_incomplete: false,
                };
                let watched = self.pending.entry(kind.clone()).or_insert_with(new);
                watched.ids.push(entry.id);
                watched.last_entry = entered;
                self.kinds.insert(entry.id, kind);
            }
        }
        for (id, at, place) in deliveries {
            if let Some(watched) = self.kinds.get(&id).and_then(|kind| self.pending.get_mut(kind)) {
                *watched.came_out.entry(place).or_default() += 1;
                watched.last_exit = emulation.moment(at);
            }
        }
        if is_incomplete {
            self.pending.values_mut().for_each(|watched| watched.is_incomplete = true);
        }
        for id in excused {
            if let Some(watched) = self.kinds.get(&id).and_then(|kind| self.pending.get_mut(kind)) {
                watched.excused = true;
            }
        }
        Ok(())
    }

    /// Judges frames for which the controller has had enough time. `now`: the time until which it has handled
    /// everything.
    fn judge(&mut self, now: Instant) {
        let is_due = |watched: &WatchedFrames| now.saturating_duration_since(watched.last_entry) > SETTLED;
        let due: Vec<EnteringFrame> =
            self.pending.iter().filter(|(_, watched)| is_due(watched)).map(|(kind, _)| kind.clone()).collect();
        for kind in due {
            let Some(watched) = self.pending.remove(&kind) else { continue };
            if self.is_judged(&kind, &watched, now) {
                watched.ids.iter().for_each(|id| drop(self.kinds.remove(id)));
            } else {
                self.pending.insert(kind, watched);
            }
        }
    }

    /// Judges frames, unless they can still turn out correct. Reports whether it has judged them.
    fn is_judged(&mut self, kind: &EnteringFrame, watched: &WatchedFrames, now: Instant) -> bool {
        let count = watched.ids.len();
        let states = self.history.between(watched.first_entry, watched.last_exit.max(watched.last_entry));
        let Some(states) = states.filter(|states| states.iter().any(|state| is_known(state, kind.0))) else {
            self.verdicts.unchecked += count as u64;
            return true;
        };
        // Usually the newest state explains everything. There can be thousands of states, with floods to thousands of
        // hosts.
        let explains = |state| is_right(&[self.expected(state, kind)], &watched.came_out, count);
        if states.iter().rev().any(explains) {
            self.verdicts.right += count as u64;
            return true;
        }
        let answers: Vec<BTreeSet<Egress>> = states.iter().map(|state| self.expected(state, kind)).collect();
        if is_right(&answers, &watched.came_out, count) {
            self.verdicts.right += count as u64;
            return true;
        }
        if now.saturating_duration_since(watched.last_entry) < MAX_FLIGHT_TIME {
            return false;
        }
        let admitted: BTreeSet<&Egress> = answers.iter().flatten().collect();
        let too_much = |(place, copies): (&Egress, &usize)| *copies > count || !admitted.contains(place);
        let wrong = watched.came_out.iter().any(too_much);
        if !wrong && watched.is_incomplete {
            self.verdicts.unchecked += count as u64;
            return true;
        }
        let must_follow_hops =
            || states.iter().any(|state| self.resolved(state, kind).is_some_and(|route| route.must_follow_hops));
        if !wrong && (watched.excused || must_follow_hops()) {
            self.verdicts.excused += count as u64;
            return true;
        }
        let tally = if wrong { &mut self.verdicts.wrong } else { &mut self.verdicts.lost };
        tally.count += count as u64;
        if tally.examples.len() < EXAMPLES {
            tally.examples.push(describe(kind, watched, &admitted));
        }
        true
    }

    /// Runs f afresh on this state, and returns where the frame must leave: nowhere if f fails, or if the frame is not
    /// one of f's packets.
    fn expected(&self, state: &Arc<Snapshot>, kind: &EnteringFrame) -> BTreeSet<Egress> {
        if is_the_controllers(&Packet::new(&kind.1, kind.0.port.0), self.track_hosts) {
            return BTreeSet::new();
        }
        let Some(resolved) = self.resolved(state, kind) else { return BTreeSet::new() };
        let (ingress, frame) = (kind.0, &kind.1);
        // Frames of f's own count as the controller's in the network, which does not know which frame they answer.
        let routed = Resolved { own: Vec::new(), ..Resolved::clone(&resolved) };
        routed.copies(frame, ingress).into_iter().map(|(at, bytes)| (at.switch, at.port, bytes)).collect()
    }

    fn resolved(&self, state: &Arc<Snapshot>, (ingress, frame): &EnteringFrame) -> Option<Arc<Resolved>> {
        let run = Run::new(frame.clone(), frame.len(), *ingress, Txn::new(state.clone()), self.track_hosts);
        Observation::from_run(&*self.policy, &run).answer.ok()
    }
}

/// Reports whether the network itself lost a copy, whatever f decides: on a link, in a full queue, by a meter, or
/// because something at the switch failed or returned shortly before.
fn is_the_networks(delivery: &Delivery, network: &EmulatedNetwork) -> bool {
    let is_disturbed = |dpid: &Dpid| {
        let since = network.disturbed(*dpid);
        since.is_some_and(|at| (at.saturating_sub(MAX_OUTAGE)..at + MAX_OUTAGE).contains(&delivery.at))
    };
    match &delivery.outcome {
        Outcome::Dropped(_, Drop::Loss | Drop::QueueFull | Drop::Switch(Lost::Metered(_))) => true,
        Outcome::Dropped(
            dpid,
            Drop::LinkDown | Drop::Switch(Lost::PortDown(_) | Lost::NoController | Lost::NoRule),
        )
        | Outcome::Controller(dpid) => is_disturbed(dpid),
        Outcome::Dropped(..) | Outcome::Egress { .. } => false,
    }
}

/// Reports whether discovery knows this port as an edge port.
fn is_known(state: &Snapshot, at: Location) -> bool {
    state.port(at).is_some_and(|port| matches!(port.kind, PortKind::Edge | PortKind::Middlebox))
}

/// Reports whether frames of one kind left as f decided, given its answers on the states of their time. A single frame
/// met one of these. Several frames can each have met a different one.
fn is_right(answers: &[BTreeSet<Egress>], came_out: &BTreeMap<Egress, usize>, count: usize) -> bool {
    if count == 1 {
        return answers.iter().any(|places| places.iter().map(|place| (place, &1)).eq(came_out));
    }
    let any = |place| answers.iter().any(|places| places.contains(place));
    let all = |place| answers.iter().all(|places| places.contains(place));
    came_out.iter().all(|(place, copies)| *copies <= count && any(place))
        && answers.iter().flatten().all(|place| !all(place) || came_out.get(place) == Some(&count))
}

fn describe((at, frame): &EnteringFrame, watched: &WatchedFrames, admitted: &BTreeSet<&Egress>) -> String {
    let ports = |places: &mut dyn Iterator<Item = (&Egress, usize)>| {
        let text: Vec<String> = places
            .map(|((dpid, port, _), copies)| {
                let at = Location::new(*dpid, *port);
                if copies == 1 { at.to_string() } else { format!("{at} ({copies} times)") }
            })
            .collect();
        if text.is_empty() { "nowhere".to_string() } else { text.join(" ") }
    };
    let times = if watched.ids.len() == 1 { String::new() } else { format!(" {} times", watched.ids.len()) };
    format!(
        "{} entered at {at}{times}, came out at {}; f says {}",
        maple_wire::packet::text::summary(&Packet::new(frame, at.port.0)),
        ports(&mut watched.came_out.iter().map(|(place, copies)| (place, *copies))),
        ports(&mut admitted.iter().map(|place| (*place, 1))),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(ports: &[u32]) -> BTreeSet<Egress> {
        ports.iter().map(|port| (Dpid(1), PortNo(*port), vec![])).collect()
    }

    fn out(ports: &[(u32, usize)]) -> BTreeMap<Egress, usize> {
        ports.iter().map(|(port, copies)| ((Dpid(1), PortNo(*port), vec![]), *copies)).collect()
    }

    #[test]
    fn deliveries_are_right_only_if_a_single_answer_of_f_explains_them() {
        let answers = [places(&[1, 2]), places(&[3])];
        assert!(is_right(&answers, &out(&[(1, 1), (2, 1)]), 1));
        assert!(is_right(&answers, &out(&[(3, 1)]), 1));
        for wrong in [&[][..], &[(1, 1)], &[(1, 1), (2, 2)], &[(1, 1), (2, 1), (3, 1)]] {
            assert!(!is_right(&answers, &out(wrong), 1), "{wrong:?}");
        }
        assert!(is_right(&[places(&[])], &out(&[]), 1));
    }

    #[test]
    fn equal_frames_come_out_as_often_as_they_went_in() {
        assert!(is_right(&[places(&[1, 2])], &out(&[(1, 2), (2, 2)]), 2));
        assert!(!is_right(&[places(&[1, 2])], &out(&[(1, 2), (2, 1)]), 2));
        assert!(!is_right(&[places(&[1, 2])], &out(&[(1, 2), (2, 3)]), 2));
        // The state changed between the two: port 1 for both, port 2 for one of them.
        assert!(is_right(&[places(&[1, 2]), places(&[1])], &out(&[(1, 2), (2, 1)]), 2));
    }
}
