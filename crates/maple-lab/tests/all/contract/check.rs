//! Runs a case and judges what the network did with every frame.
//!
//! A frame may come out exactly where the oracle says, on the way that f said, for one state that the controller knew
//! between the frame's entry and its end, or shortly before (a decision is in force only a moment later:
//! [`Case::lag`]). If the state did not change meanwhile there is one such answer. Less may come out only for one of
//! the reasons in [`Excuse`], each of which needs its evidence; they are counted. More, or twice, or elsewhere, never.
//!
//! When all is over and the network has come to rest, every packet is sent twice more and must come out exactly where
//! the oracle says, with the oracle's state afterwards, and the second time without the controller where f's answer can
//! be cached. Then the tables must contain what the engine believes, and the other program's rule must still be there.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use maple_core::Mac;
use maple_core::engine::Stats;
use maple_core::network::{Location, PortKind, PortRole};
use maple_emulator::emulated::{Delivery, Drop, EnteredFrame, FrameId, Origin, Outcome};
use maple_emulator::switch::Lost;
use maple_emulator::time::{MILLISECOND, Time};
use maple_sim::cases::Step;
use maple_wire::{Dpid, Field, PortNo, Version};

use crate::contract::case::Case;
use crate::contract::oracle::{Arrival, Decided, How, Out, verdict};
use crate::contract::state::State;
use crate::contract::world::World;

/// The time that a packet may wait for rules under way: the engine's `hold`, and some more.
const HOLD: Time = 150 * MILLISECOND;
/// The time that the network gets for one packet when nothing else happens.
const QUIET: Time = 300 * MILLISECOND;

/// The time after a host's last packet until it is known whether it has moved. The engine's counters are read every
/// `probe_timeout`, must have stood still for two, and that is found at the next reading; and some more.
const MOVE: Time = 2100 * MILLISECOND;

/// A reason why less may come out than f says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Excuse {
    /// A link or port was down when a copy came to it.
    NetworkLost,
    /// A switch on the way was not under control: it was restarting, or its control channel was broken.
    OutOfControl,
    /// Ports or switches changed while the frame was under way.
    TopologyChanged,
}

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
    let mut world = World::new(case);
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
fn at_rest(world: &mut World, counts: &mut MessageCounts) -> Result<(), Failure> {
    for packet in 0..world.case.scenario.packets.len() {
        let mut expected = None;
        for round in 0..2 {
            let before = world.state().clone();
            let entered = world.network.log().entries().count();
            let id = world.send(packet);
            world.run_for(world.case.lag() + QUIET);
            let log = world.network.log();
            let alone = log.entries().skip(entered).filter(|e| matches!(e.origin, Origin::Port(..))).count() == 1;
            let entry = log.entries().find(|entry| entry.id == id).expect("the log is long enough");
            let Origin::Port(dpid, port) = entry.origin else { unreachable!("hosts send by ports") };
            let arrival = Arrival { at: Location::new(dpid, port), frame: &entry.frame };
            let said = verdict(world.program(), world.case.track_hosts, &before, arrival);
            let is_up = before.ports.get(&arrival.at).is_some_and(|info| info.up);
            if is_up {
                same_at_rest(world, packet, round, id, arrival, &said, alone)?;
                *counts.how.entry(said.how).or_default() += 1;
                counts.repeated += 1;
                if expected.as_ref() == Some(&before) && said.how == How::Pure && is_cacheable(world, arrival, &before)
                {
                    no_packet_in(world, packet, id, counts)?;
                }
                let moving = said.how == How::NotAsked("host elsewhere");
                expected = alone.then_some(said.after);
                if moving || !alone {
                    world.run_for(MOVE);
                }
            }
        }
    }
    Ok(())
}

/// Returns a port by which a copy of a frame left a switch, although f's route does not leave there.
fn strays(said: &Decided, deliveries: &[&Delivery]) -> Option<(Dpid, PortNo)> {
    let hops = deliveries.iter().flat_map(|delivery| &delivery.path);
    let mut left = hops.filter_map(|hop| Some((hop.dpid, hop.out_port?)));
    left.find(|(dpid, port)| !said.hops.get(dpid).is_some_and(|ports| ports.contains(port)))
}

fn same_at_rest(
    world: &World,
    packet: usize,
    round: usize,
    id: FrameId,
    arrival: Arrival,
    said: &Decided,
    alone: bool,
) -> Result<(), Failure> {
    let log = world.network.log();
    let about = || {
        format!(
            "packet #{packet} at rest, time {}, at {:?}, {:?}\nsaid {}\ncame {}\n{}",
            round + 1,
            arrival.at,
            said.how,
            show(&said.out),
            show(&log.egress(id)),
            trail(log.of_frame(id))
        )
    };
    if log.egress(id) != said.out {
        return Err(Failure::new("wrong at rest", about()));
    }
    if log.copies(id) != said.out.len() {
        return Err(Failure::new("twice at rest", about()));
    }
    let deliveries: Vec<&Delivery> = log.of_frame(id).collect();
    if let Some((dpid, port)) = strays(said, &deliveries) {
        return Err(Failure::new("wrong way at rest", format!("not by {}:{port}\n{}", dpid.0, about())));
    }
    let (now, after) = (world.state(), &said.after);
    let moving = said.how == How::NotAsked("host elsewhere");
    if alone && !moving && now != after {
        return Err(Failure::new("wrong state", format!("{}\nsaid {after:#?}\nis {now:#?}", about())));
    }
    Ok(())
}

/// Reports whether the second packet must do without the controller: the switches can match everything, the host can be
/// known, there is room, and labels can carry the routes.
fn is_cacheable(world: &World, arrival: Arrival, state: &State) -> bool {
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
fn no_packet_in(world: &World, packet: usize, id: FrameId, counts: &mut MessageCounts) -> Result<(), Failure> {
    let deliveries: Vec<&Delivery> = world.network.log().of_frame(id).collect();
    if deliveries.iter().any(|delivery| matches!(delivery.outcome, Outcome::Controller(_))) {
        let text = format!("packet #{packet} came to the controller again\n{}", trail(deliveries.into_iter()));
        return Err(Failure::new("not cached", text));
    }
    counts.cached += 1;
    Ok(())
}

/// Checks that the tables contain what the engine believes, and the other program's rule, if it fitted at all.
fn check_tables(world: &mut World, foreign: &BTreeSet<Dpid>) -> Result<(), Failure> {
    for dpid in world.case.dpids() {
        let agree = |world: &World| world.tables(dpid).0 == world.tables(dpid).1;
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
fn check_counts(world: &World, counts: &mut MessageCounts) -> Result<(), Failure> {
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
fn check_log(world: &World, counts: &mut MessageCounts) -> Result<(), Failure> {
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
        let at = Location::new(dpid, port);
        let none = Vec::new();
        judge(world, entry, at, deliveries.get(&entry.id).unwrap_or(&none), counts)?;
    }
    Ok(())
}

fn judge(
    world: &World,
    entry: &EnteredFrame,
    at: Location,
    deliveries: &[&Delivery],
    counts: &mut MessageCounts,
) -> Result<(), Failure> {
    let arrival = Arrival { at, frame: &entry.frame };
    let mut came = Out::new();
    let mut copies = 0;
    for delivery in deliveries {
        if let Outcome::Egress { dpid, port, .. } = &delivery.outcome {
            came.insert((*dpid, *port, delivery.frame.clone()));
            copies += 1;
        }
    }
    let last = deliveries.iter().map(|delivery| delivery.at).max().unwrap_or(entry.at);
    let lag = world.case.lag();
    let end = last + lag + if came.is_empty() { HOLD } else { 0 };
    let begin = entry.at.saturating_sub(lag);
    let answers: Vec<Decided> = verdicts(world, arrival, begin, end);
    let explain = || {
        let said: Vec<String> = answers.iter().map(|v| format!("  {:?} {}", v.how, show(&v.out))).collect();
        format!(
            "frame {:?} (packet {:?}) entered at {at:?} at {} ns\nsaid one of\n{}\ncame {}\n{}",
            entry.id,
            world.sent.get(&entry.id),
            entry.at,
            said.join("\n"),
            show(&came),
            trail(deliveries.iter().copied())
        )
    };
    counts.delivered += u64::from(!came.is_empty());
    let outs: BTreeSet<&Out> = answers.iter().map(|answer| &answer.out).collect();
    let took = |answer: &&Decided| answer.out == came && strays(answer, deliveries).is_none();
    if copies == came.len() && answers.iter().find(took).is_some() {
        *if outs.len() == 1 { &mut counts.exact } else { &mut counts.choice } += 1;
        return Ok(());
    }
    match excuse(world, arrival, &answers, &came, deliveries, (begin, end)) {
        Some(excuse) => {
            *counts.excused.entry(excuse).or_default() += 1;
            Ok(())
        }
        None if copies > came.len() => Err(Failure::new("twice", explain())),
        None => Err(Failure::new("wrong", explain())),
    }
}

/// Returns the oracle's verdicts in all states that the controller knew between two times.
fn verdicts(world: &World, arrival: Arrival, begin: Time, end: Time) -> Vec<Decided> {
    let history = &world.history;
    let until = |at: usize| history.get(at + 1).map_or(Time::MAX, |(from, _)| *from);
    let valid = (0..history.len()).filter(|at| history[*at].0 <= end && until(*at) >= begin);
    valid.map(|at| verdict(world.program(), world.case.track_hosts, &history[at].1, arrival)).collect()
}

/// Returns why less may have come out, or something else where a switch was not under control.
fn excuse(
    world: &World,
    arrival: Arrival,
    answers: &[Decided],
    came: &Out,
    deliveries: &[&Delivery],
    (begin, end): (Time, Time),
) -> Option<Excuse> {
    let copies = deliveries.iter().filter(|delivery| matches!(delivery.outcome, Outcome::Egress { .. })).count();
    let less = copies == came.len() && answers.iter().any(|answer| came.is_subset(&answer.out));
    let lost = |why: &Drop| matches!(why, Drop::LinkDown | Drop::Switch(Lost::PortDown(_)));
    if less && deliveries.iter().any(|d| matches!(&d.outcome, Outcome::Dropped(_, why) if lost(why))) {
        return Some(Excuse::NetworkLost);
    }
    let route = answers.iter().flat_map(|answer| answer.hops.keys().copied());
    let passed = deliveries.iter().flat_map(|delivery| delivery.path.iter().map(|hop| hop.dpid));
    let switches: BTreeSet<Dpid> = route.chain(passed).chain([arrival.at.switch]).collect();
    let outages = switches.iter().filter_map(|dpid| world.outage(*dpid, begin, end));
    if let Some(since) = outages.map(|outage| outage.from).min() {
        let allowed = out_of_control(world, arrival, deliveries, (since, begin, end));
        let wild = |dpid: Dpid| world.outage(dpid, begin, end).is_some();
        // What such a switch sends on by its stale rules, perhaps under a label, goes wherever the others' rules say.
        let passed_wild = |copy: &(Dpid, PortNo, Vec<u8>)| {
            let is_it = |d: &Delivery| {
                let at = matches!(d.outcome, Outcome::Egress { dpid, port, .. } if (dpid, port) == (copy.0, copy.1));
                at && d.frame == copy.2
            };
            deliveries.iter().filter(|d| is_it(d)).all(|d| d.path.iter().any(|hop| wild(hop.dpid)))
        };
        if came.iter().all(|copy| wild(copy.0) || allowed.contains(copy) || passed_wild(copy)) {
            return Some(Excuse::OutOfControl);
        }
    }
    (less && topology_changed(world, begin, end)).then_some(Excuse::TopologyChanged)
}

/// Returns what may come out of the other switches while one is not under control. Its rules are what they were when
/// that began; and what it sends to switches under control enters the network there, for all that the controller can
/// know.
fn out_of_control(
    world: &World,
    arrival: Arrival,
    deliveries: &[&Delivery],
    (since, begin, end): (Time, Time, Time),
) -> Out {
    let lag = world.case.lag();
    let mut all: Out =
        verdicts(world, arrival, since.saturating_sub(lag), end).into_iter().flat_map(|verdict| verdict.out).collect();
    for delivery in deliveries {
        for hops in delivery.path.windows(2) {
            if world.outage(hops[0].dpid, begin, end).is_some() && hops[1].in_port.is_physical() {
                let at = Location::new(hops[1].dpid, hops[1].in_port);
                // The frame may bear the tag that the stale rules have for its path.
                for frame in [arrival.frame, &delivery.frame] {
                    all.extend(verdicts(world, Arrival { at, frame }, begin, end).into_iter().flat_map(|v| v.out));
                }
            }
        }
    }
    all
}

/// Reports whether a link or switch came or went, or a port was closed or opened, as the controller saw it.
fn topology_changed(world: &World, begin: Time, end: Time) -> bool {
    let skeleton = |state: &State| {
        let links: Vec<_> = state
            .ports
            .iter()
            .filter(|(_, info)| matches!(info.kind, PortKind::Link(_)))
            .map(|(a, b)| (*a, *b))
            .collect();
        // What is under way to a port that is closed is dropped there.
        let is_closed = |at: &&Location| state.facts.role(**at) == PortRole::Closed;
        let closed: Vec<_> = state.ports.keys().filter(is_closed).copied().collect();
        (state.switches.clone(), links, closed)
    };
    let times = || world.history.windows(2).filter(|pair| (begin..=end).contains(&pair[1].0));
    times().any(|pair| skeleton(&pair[0].1) != skeleton(&pair[1].1))
}

fn show(out: &Out) -> String {
    let one = |(dpid, port, frame): &(Dpid, PortNo, Vec<u8>)| {
        format!("{}:{port} {}", dpid.0, frame.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
    };
    if out.is_empty() { "nothing".to_owned() } else { out.iter().map(one).collect::<Vec<_>>().join(", ") }
}

/// Describes what became of a frame, one line a copy.
fn trail<'a>(deliveries: impl Iterator<Item = &'a Delivery>) -> String {
    let hop = |hop: &maple_emulator::emulated::Hop| {
        let steps: Vec<String> = hop.steps.iter().map(|step| format!("{step:?}")).collect();
        format!("{}[in {} {} out {:?}]", hop.dpid.0, hop.in_port, steps.join(" "), hop.out_port)
    };
    let line = |d: &Delivery| {
        let path: Vec<String> = d.path.iter().map(hop).collect();
        format!("  {} ns {:?} by {}", d.at, d.outcome, path.join(" "))
    };
    deliveries.map(line).collect::<Vec<_>>().join("\n")
}
