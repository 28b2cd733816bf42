//! Runs a case and judges what the network did with every frame.
//!
//! A frame may come out exactly where the oracle says, on the way that f said, for one state that the controller knew
//! between the frame's entry and its end, or shortly before (a decision is in force only a moment later:
//! [`Case::lag`]). If the state did not change meanwhile there is one such answer. Less may come out only for one of
//! the reasons in [`Excuse`], each of which needs its evidence; they are counted. More, or twice, or elsewhere, never.
//!
//! When all is over and the network has come to rest, every packet is sent twice more. It must come out exactly where
//! the oracle says, with the oracle's state afterwards. The second time it must do so without the controller, where f's
//! answer can be cached. Then the tables must contain what the engine believes, and the other program's rule must still
//! be there.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use maple_core::Mac;
use maple_core::engine::Stats;
use maple_core::network::Location;
use maple_emulator::emulated::{Delivery, FrameId, Origin, Outcome};
use maple_emulator::time::{MILLISECOND, Nanoseconds};
use maple_sim::cases::Step;
use maple_wire::{Dpid, Field, Version};

use crate::contract::case::Case;
use crate::contract::judged::{Excuse, JudgedFrame, show, strays, trail};
use crate::contract::oracle::{Arrival, Decided, How, verdict};
use crate::contract::state::State;
use crate::contract::world::ContractRun;

/// The time that the network gets for one packet when nothing else happens.
const QUIET: Nanoseconds = 300 * MILLISECOND;

/// The time after a host's last packet until it is known whether it has moved. The engine's counters are read every
/// `probe_timeout`, must have stood still for two, and that is found at the next reading; and some more.
const MOVE: Nanoseconds = 2100 * MILLISECOND;

/// The counts of what was checked.
#[derive(Clone, Debug, Default)]
pub struct MessageCounts {
    /// Frames for which there was one answer.
    pub exact: u64,
    /// Frames that could be treated as before or after a change.
    pub choice: u64,
    /// Frames of which less came out, by reason.
    pub excused: BTreeMap<Excuse, u64>,
    /// Frames that could not be distinguished from others.
    pub skipped: u64,
    /// Packets that were sent twice at rest.
    pub repeated: u64,
    /// Those of them that had to go without the controller.
    pub cached: u64,
    /// Frames that came out somewhere.
    pub delivered: u64,
    /// Frames at rest, by how f's answers came about.
    pub how: BTreeMap<How, u64>,
    /// The number of times that a route was refused a label.
    pub refused: u64,
    /// The steps, by name.
    pub happened: BTreeMap<&'static str, u64>,
}

/// A check that failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The name of the check.
    pub kind: &'static str,
    /// The events that show it.
    pub text: String,
}

impl Failure {
    fn new(kind: &'static str, text: impl Into<String>) -> Failure {
        Failure { kind, text: text.into() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.text)
    }
}

impl MessageCounts {
    /// Adds the counts of another run.
    pub fn add(&mut self, other: &MessageCounts) {
        self.exact += other.exact;
        self.choice += other.choice;
        self.skipped += other.skipped;
        self.repeated += other.repeated;
        self.cached += other.cached;
        self.delivered += other.delivered;
        self.refused += other.refused;
        other.excused.iter().for_each(|(excuse, n)| *self.excused.entry(*excuse).or_default() += n);
        other.happened.iter().for_each(|(name, n)| *self.happened.entry(name).or_default() += n);
        other.how.iter().for_each(|(how, n)| *self.how.entry(*how).or_default() += n);
    }

    /// Returns the number of frames that were excused.
    pub fn excuses(&self) -> u64 {
        self.excused.values().sum()
    }
}

/// Runs a case and checks it.
pub fn run(case: &Case) -> Result<MessageCounts, Failure> {
    let mut world = ContractRun::new(case);
    let mut counts = MessageCounts::default();
    world.settle().map_err(|text| Failure::new("never ready", text))?;
    world.plant_foreign_rules();
    world.run_for(case.lag());
    let foreign: BTreeSet<Dpid> = case.dpids().into_iter().filter(|dpid| world.has_foreign_rule(*dpid)).collect();
    for step in &case.scenario.steps {
        *counts.happened.entry(step.name()).or_default() += 1;
        world.step(step);
    }
    world.settle().map_err(|text| Failure::new("never settles", text))?;
    world.run_for(MOVE);
    check_tables(&mut world, &foreign)?;
    at_rest(&mut world, &mut counts)?;
    check_tables(&mut world, &foreign)?;
    check_counts(&world, &mut counts)?;
    check_log(&world, &mut counts)?;
    Ok(counts)
}

/// Sends every packet twice, one at a time, and checks what comes out.
fn at_rest(world: &mut ContractRun, counts: &mut MessageCounts) -> Result<(), Failure> {
    for packet in 0..world.case.scenario.packets.len() {
        let mut expected = None;
        for round in 0..2 {
            expected = send_at_rest(world, packet, round, expected, counts)?;
        }
    }
    Ok(())
}

/// Sends a packet and checks what comes out. `expected` is the state after the last packet, if nothing else entered
/// with it. Returns the same of this packet.
fn send_at_rest(
    world: &mut ContractRun,
    packet: usize,
    round: usize,
    expected: Option<State>,
    counts: &mut MessageCounts,
) -> Result<Option<State>, Failure> {
    let before = world.state().clone();
    let entered = world.network.log().entries().count();
    let id = world.send(packet);
    world.run_for(world.case.lag() + QUIET);
    let log = world.network.log();
    let is_alone = log.entries().skip(entered).filter(|e| matches!(e.origin, Origin::Port(..))).count() == 1;
    let entry = log.entries().find(|entry| entry.id == id).expect("the log is long enough");
    let Origin::Port(dpid, port) = entry.origin else { unreachable!("hosts send by ports") };
    let arrival = Arrival { at: Location::new(dpid, port), frame: &entry.frame };
    if !before.ports.get(&arrival.at).is_some_and(|info| info.up) {
        return Ok(expected);
    }
    let said = verdict(world.program(), world.case.track_hosts, &before, arrival);
    let is_moving = said.how == How::NotAsked("host elsewhere");
    same_at_rest(world, packet, round, id, arrival, &said)?;
    if is_alone && !is_moving {
        same_state(world, packet, id, &said)?;
    }
    *counts.how.entry(said.how).or_default() += 1;
    counts.repeated += 1;
    if expected.as_ref() == Some(&before) && said.how == How::Pure && is_cacheable(world, arrival, &before) {
        no_packet_in(world, packet, id, counts)?;
    }
    if is_moving || !is_alone {
        world.run_for(MOVE);
    }
    Ok(is_alone.then_some(said.after))
}

/// Checks that a packet came out where the oracle says, once and by the route.
fn same_at_rest(
    world: &ContractRun,
    packet: usize,
    round: usize,
    id: FrameId,
    arrival: Arrival,
    said: &Decided,
) -> Result<(), Failure> {
    let log = world.network.log();
    let failure = |kind, what: String| {
        let (at, how, time) = (arrival.at, said.how, round + 1);
        let (out, came, trail) = (show(&said.out), show(&log.egress(id)), trail(log.of_frame(id)));
        let text =
            format!("packet #{packet} at rest, time {time}, at {at:?}, {how:?}\nsaid {out}\ncame {came}\n{trail}");
        Err(Failure::new(kind, what + &text))
    };
    if log.egress(id) != said.out {
        return failure("wrong at rest", String::new());
    }
    if log.copies(id) != said.out.len() {
        return failure("twice at rest", String::new());
    }
    let deliveries: Vec<&Delivery> = log.of_frame(id).collect();
    match strays(said, &deliveries) {
        Some((dpid, port)) => failure("wrong way at rest", format!("not by {}:{port}\n", dpid.0)),
        None => Ok(()),
    }
}

/// Checks that the state after a packet that entered alone is as the oracle says.
fn same_state(world: &ContractRun, packet: usize, id: FrameId, said: &Decided) -> Result<(), Failure> {
    let (now, after) = (world.state(), &said.after);
    if now == after {
        return Ok(());
    }
    let trail = trail(world.network.log().of_frame(id));
    Err(Failure::new("wrong state", format!("packet #{packet} at rest\n{trail}\nsaid {after:#?}\nis {now:#?}")))
}

/// Reports whether the second packet must do without the controller: the switches can match everything, the host can be
/// known, there is room, and labels can carry the routes.
fn is_cacheable(world: &ContractRun, arrival: Arrival, state: &State) -> bool {
    let source = Mac::from_bits(arrival.get(Field::EthSrc).unwrap_or(0));
    let known = !world.case.track_hosts || state.hosts.get(&source) == Some(&arrival.at);
    let stats = world.stats();
    let undisturbed =
        |s: &Stats| s.labels_refused + s.labels_gone + s.aborts + s.refused_rules + s.capacity_refusals == 0;
    // Where rules are few, hosts share them.
    let roomy = world.case.room.0.is_none();
    known && roomy && world.case.version == Version::Of13 && stats.iter().all(undisturbed)
}

/// Checks that no switch sent the packet to the controller again.
fn no_packet_in(world: &ContractRun, packet: usize, id: FrameId, counts: &mut MessageCounts) -> Result<(), Failure> {
    let deliveries: Vec<&Delivery> = world.network.log().of_frame(id).collect();
    if deliveries.iter().any(|delivery| matches!(delivery.outcome, Outcome::Controller(_))) {
        let text = format!("packet #{packet} came to the controller again\n{}", trail(deliveries.into_iter()));
        return Err(Failure::new("not cached", text));
    }
    counts.cached += 1;
    Ok(())
}

/// Checks that the tables contain what the engine believes, and the other program's rule, if it fitted at all.
fn check_tables(world: &mut ContractRun, foreign: &BTreeSet<Dpid>) -> Result<(), Failure> {
    for dpid in world.case.dpids() {
        let agree = |world: &ContractRun| world.tables(dpid).0 == world.tables(dpid).1;
        // A full switch is tried again from time to time, and this may be such a moment.
        for _ in 0..3 {
            if world.is_tight() && !agree(world) {
                world.run_for(world.case.lag());
            }
        }
        let (real, believed) = world.tables(dpid);
        if real != believed {
            let lost: Vec<_> = believed.difference(&real).collect();
            let extra: Vec<_> = real.difference(&believed).collect();
            let text = format!("switch {dpid}: believed and not there {lost:#?}\nthere and not believed {extra:#?}");
            return Err(Failure::new("tables differ", text));
        }
        let restarted = |step: &Step| matches!(step, Step::Reconnect { dpid: of, .. } if *of == dpid);
        if foreign.contains(&dpid) && !world.has_foreign_rule(dpid) && !world.case.scenario.steps.iter().any(restarted)
        {
            return Err(Failure::new("foreign rule", format!("switch {dpid} lost a rule that is not ours")));
        }
    }
    Ok(())
}

/// Checks the counters of both sides for what must never happen.
fn check_counts(world: &ContractRun, counts: &mut MessageCounts) -> Result<(), Failure> {
    for stats in world.stats() {
        counts.refused += stats.labels_refused + stats.labels_gone;
        let refused = stats.refused_rules > 0 && !world.is_tight();
        if stats.inconsistent_runs > 0 || refused || stats.short_captures > 0 {
            let reports: Vec<String> = world.reports.iter().map(|(_, r)| r.to_string()).collect();
            return Err(Failure::new("counters", format!("{stats:#?}\n{reports:#?}")));
        }
    }
    for dpid in world.case.dpids() {
        let switch = world.network.switch(dpid).expect("the switch is in the network");
        if switch.counters().errors > 0 && !world.is_tight() {
            return Err(Failure::new("errors", format!("switch {dpid} refused {} requests", switch.counters().errors)));
        }
    }
    world.torn.clone().map_or(Ok(()), |text| Err(Failure::new("ambiguous match", text)))
}

/// Judges every frame that entered.
fn check_log(world: &ContractRun, counts: &mut MessageCounts) -> Result<(), Failure> {
    let log = world.network.log();
    assert_eq!(log.forgotten, 0, "the log is too short");
    let mut deliveries: BTreeMap<FrameId, Vec<&Delivery>> = BTreeMap::new();
    for delivery in log.deliveries() {
        deliveries.entry(delivery.id).or_default().push(delivery);
    }
    let mut bytes: BTreeMap<&[u8], u64> = BTreeMap::new();
    log.entries().for_each(|entry| *bytes.entry(&entry.frame).or_default() += 1);
    for entry in log.entries() {
        let Origin::Port(dpid, port) = entry.origin else { continue };
        if bytes[&*entry.frame] > 1 {
            counts.skipped += 1;
            continue;
        }
        let deliveries = deliveries.remove(&entry.id).unwrap_or_default();
        judge(&JudgedFrame::new(world, entry, Location::new(dpid, port), deliveries), counts)?;
    }
    Ok(())
}

fn judge(frame: &JudgedFrame, counts: &mut MessageCounts) -> Result<(), Failure> {
    counts.delivered += u64::from(!frame.came.is_empty());
    if frame.is_as_said() {
        *if frame.has_one_answer() { &mut counts.exact } else { &mut counts.choice } += 1;
        return Ok(());
    }
    match frame.excuse() {
        Some(excuse) => *counts.excused.entry(excuse).or_default() += 1,
        None if frame.is_repeated() => return Err(Failure::new("twice", frame.to_string())),
        None => return Err(Failure::new("wrong", frame.to_string())),
    }
    Ok(())
}
