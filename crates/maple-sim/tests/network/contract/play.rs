//! The play of a case: its steps happen in the simulation, and the frames that come out are compared with f's answers.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use maple_core::check::Observation;
use maple_core::engine::LabelRange;
use maple_core::engine::{Event, InstalledFlow, ListenerPacket, Options, PROBE_MAC, Stats};
use maple_core::network::{Location, Mac, PortKind};
use maple_core::policy::{Policy, PolicyError};
use maple_core::route::{Resolved, RouteError};
use maple_core::run::Run;
use maple_core::state::{Name, Snapshot, Txn, Write};
use maple_sim::cases::{Change, Network, Step, host};
use maple_sim::{Delivery, Sim, SimSwitch};
use maple_wire::{Dpid, Field, Instruction, PortNo, Version};

use super::case::Case;
use super::connections::of10_can_say;
use super::guards::{Judged, Judgement};
use super::shape::LINK_PORTS;
use crate::rehearsal::reload_as_rehearsed;

/// The Ethernet type of LLDP.
const LLDP: u128 = 0x88cc;

/// A packet that entered, and whether its host was where the controller believed.
pub(super) struct Sent {
    pub frame: Vec<u8>,
    pub at: Location,
    pub true_place: bool,
}

pub struct Play<'a> {
    pub(super) case: &'a Case,
    /// The policy that runs; `former` has those that may also have run since the last rest.
    pub(super) policy: Arc<dyn Policy>,
    former: Vec<Arc<dyn Policy>>,
    /// Whether `policy` is the case's other policy.
    pub(super) is_other: bool,
    pub sim: Sim,
    /// The packets since the last rest.
    sent: Vec<Sent>,
    /// Whether something broke since the last rest, so that packets may be lost.
    pub(super) lossy: bool,
    /// The number of packets that were sent, which each frame ends with.
    number: u64,
    truth: BTreeMap<Mac, Location>,
    /// The number of packets that the engines dropped because they did not know the label.
    pub(super) dropped: u64,
    /// The number of packets that were dropped so far because no rule led them along their way.
    pub(super) way_drops: u64,
    /// Whether some switch may be full.
    pub(super) shrunk: bool,
    pub tally: Tally,
}

/// The counts of what a test has covered.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Cases.
    pub cases: u64,
    /// Packets that had to come out completely.
    pub exact: u64,
    /// Packets that may have come out incompletely.
    pub lossy: u64,
    /// Frames that came out.
    pub delivered: u64,
    /// Packet-ins from where packets entered.
    pub packet_ins: u64,
    /// Labels that exist at the end.
    pub labelled: u64,
    /// Times that a route was refused a label.
    pub refused: u64,
    /// Routes that constraints refused.
    pub violations: u64,
    /// Rules of look-ups, at each moment of rest.
    pub look_ups: u64,
    /// Packets that were explained, those of them that the switches forward without the controller, and alternatives
    /// that were found.
    pub explained: u64,
    pub agreed: u64,
    pub alternatives: u64,
    /// The steps, by name.
    pub happened: BTreeMap<&'static str, u64>,
}

impl std::iter::Sum for Tally {
    fn sum<I: Iterator<Item = Tally>>(all: I) -> Tally {
        all.fold(Tally::default(), |mut sum, one| {
            one.happened.iter().for_each(|(name, n)| *sum.happened.entry(name).or_default() += n);
            Tally {
                cases: sum.cases + one.cases,
                exact: sum.exact + one.exact,
                lossy: sum.lossy + one.lossy,
                delivered: sum.delivered + one.delivered,
                packet_ins: sum.packet_ins + one.packet_ins,
                labelled: sum.labelled + one.labelled,
                refused: sum.refused + one.refused,
                violations: sum.violations + one.violations,
                look_ups: sum.look_ups + one.look_ups,
                explained: sum.explained + one.explained,
                agreed: sum.agreed + one.agreed,
                alternatives: sum.alternatives + one.alternatives,
                happened: sum.happened,
            }
        })
    }
}

impl<'a> Play<'a> {
    pub fn new(case: &'a Case) -> Play<'a> {
        let policy = case.whole();
        let Case { labels, track_hosts, compiler, capacity: (max_rules, max_traces), .. } = *case;
        // In some cases hosts are forgotten at each rest.
        let host_timeout = Duration::from_secs(if case.seed.is_multiple_of(5) { 20 } else { 300 });
        let heard = case.shape.heard.clone().into();
        let options = Options {
            labels,
            track_hosts,
            new_table: compiler.new_table(),
            max_rules,
            max_traces,
            host_timeout,
            listener_filters: heard,
            look_up_tables: case.look_up_tables,
            flow_mod_rate: if case.seed.is_multiple_of(5) { NonZeroU32::new(1_000) } else { None },
            ..Options::default()
        };
        let mut sim = Sim::new(policy, case.shape.shards, &options, case.seed);
        let Network { links, edges, hosts, .. } = &case.scenario.network;
        for ((dpid, version), tables) in (1..).map(Dpid).zip(&case.shape.versions).zip(&case.shape.tables) {
            let mut switch = SimSwitch::new(dpid, *version);
            switch.tables = *tables;
            (switch.refuses_table, switch.takes_metadata) = case.shape.refused;
            switch.takes_meters = case.shape.takes_meters;
            switch.takes_bundles = *version == Version::Of13 && case.has_bundles(dpid);
            if let Some(capture) = case.shape.capture {
                (switch.send_len, switch.buffers) = capture;
            }
            let edges = edges.iter().filter(|at| at.switch == dpid).map(|at| at.port);
            sim.connect(switch, (1..=LINK_PORTS).map(PortNo).chain(edges));
        }
        sim.run();
        for link in links {
            sim.add_link(link.a, link.b);
        }
        sim.run();
        sim.settle_ports();
        sim.run();
        let mut truth = BTreeMap::new();
        for (number, at) in hosts.iter().enumerate() {
            let mac = host(number).mac;
            sim.place_host(mac, *at);
            truth.insert(mac, *at);
        }
        let last = sim.history.pop();
        sim.history = last.into_iter().collect();
        Play {
            case,
            policy: case.sliced(false),
            former: Vec::new(),
            is_other: false,
            sim,
            sent: Vec::new(),
            lossy: false,
            number: 0,
            truth,
            dropped: 0,
            way_drops: 0,
            shrunk: false,
            tally: Tally { cases: 1, ..Tally::default() },
        }
    }

    /// Makes a step of the case.
    ///
    /// # Errors
    /// The first deviation from the contract, in words.
    pub fn step(&mut self, step: &Step) -> Result<(), String> {
        match step {
            Step::Send(packet) => {
                let (mac, frame) = self.frame(*packet);
                self.send(mac, self.truth[&mac], &frame);
            }
            Step::Forge { packet, from } => {
                let (mac, frame) = self.frame(*packet);
                // A host that was not seen yet can be impersonated, so the frame is sent only if it was.
                if self.sim.store.snapshot().host(mac).is_some() {
                    self.send(mac, *from, &frame);
                }
            }
            Step::Flap(packet) => {
                self.lossy = true;
                let (mac, frame) = self.frame(*packet);
                let at = self.truth[&mac];
                self.sim.set_port(at, false);
                self.sim.set_port(at, true);
                self.send(mac, at, &frame);
                self.sim.run_for(Duration::from_millis(5));
                self.sim.rediscover(at);
            }
            Step::Link(at, is_up) => {
                self.lossy = true;
                self.sim.set_port(*at, *is_up);
                if *is_up {
                    self.sim.run_for(Duration::from_millis(5));
                    self.sim.rediscover(*at);
                }
            }
            Step::Move { host: number, to } => {
                self.lossy = true;
                let mac = host(*number).mac;
                self.truth.insert(mac, *to);
                self.sim.place_host(mac, *to);
            }
            Step::RemovePort(at) | Step::AddPort(at) => {
                let at = *at;
                match (step, self.sim.edge_ports().contains(&at)) {
                    (Step::RemovePort(_), true) => self.sim.remove_port(at),
                    (Step::AddPort(_), false) => {
                        self.sim.add_port(at);
                        self.sim.run_for(Duration::from_millis(5));
                        self.sim.rediscover(at);
                    }
                    _ => return Ok(()),
                }
                self.lossy = true;
            }
            Step::Write(change) => {
                if self.case.sliced {
                    self.sim.tell(in_red(change.event()));
                }
                self.sim.tell(change.event());
            }
            Step::WriteTogether(changes) => {
                let writes = || Event::Write(changes.iter().map(Change::write).collect());
                if self.case.sliced {
                    self.sim.tell(in_red(writes()));
                }
                self.sim.tell(writes());
            }
            Step::Reload => {
                if let Some(case) = self.swap_policies() {
                    self.sim.reload(case.whole());
                }
            }
            Step::ReloadAsRehearsed => {
                self.rest()?;
                let Some(swapped) = self.case.swapped() else { return Ok(()) };
                self.is_other = !self.is_other;
                let case = if self.is_other { &swapped } else { self.case };
                let former = std::mem::replace(&mut self.policy, case.sliced(false));
                if self.sim.is_any_away() {
                    self.former.push(former);
                }
                let reloaded = reload_as_rehearsed(&mut self.sim, &case.whole(), false);
                // A rehearsal can't know the counters by which a full switch evicts, which route gets the last label in
                // time, or what a switch will refuse.
                let has_refusals = |stats: Stats| stats.labels_refused + stats.labels_gone > 0;
                let is_refused = self.sim.engines().iter().any(|engine| has_refusals(engine.stats()));
                let is_free = !self.shrunk && self.case.capacity == (None, None) && self.case.labels == LabelRange::ALL;
                let takes_all = self.case.shape.refused == (None, true) && self.case.shape.takes_meters;
                // A switch without a connection gets its rules later.
                if is_free && !is_refused && takes_all && !self.sim.is_any_away() {
                    reloaded?;
                }
            }
            Step::Invalidate(leaves) => self.sim.tell(Event::Invalidate(leaves.clone())),
            Step::Reconnect { .. }
            | Step::LoseConnection(_)
            | Step::RegainConnection { .. }
            | Step::RestartController { .. } => self.change_connections(step),
            Step::LoseRule(dpid, index) => {
                // The lost rule may have shielded another, and nothing can be done about that. So everything rests
                // first.
                self.rest()?;
                self.sim.lose_rule(*dpid, *index);
                self.sim.run();
            }
            Step::Shrink(dpid, capacity) => {
                self.shrunk = true;
                if let Some(switch) = self.sim.switch(*dpid) {
                    // The rules that every switch has must fit, even if it comes back without any or in 1.3.
                    let own = if switch.version == Version::Of13 || self.case.changes_versions() { 12 } else { 6 };
                    switch.capacity = (*capacity).max(own).max(switch.flows().len());
                }
            }
            Step::Settle => drop(self.sim.begin_wait()),
            Step::Rest => self.rest()?,
            Step::Wait(span) => self.sim.run_for(*span),
            Step::Stream { .. } | Step::Port(..) | Step::Declare(_) | Step::HalfOpen(_) | Step::Slow { .. } => {
                unreachable!("the driver does not ask for {step:?}")
            }
        }
        // The next step mostly comes while rules are being sent, and sometimes after they have arrived.
        self.sim.run_for(Duration::from_micros(if self.case.seed.is_multiple_of(3) { 5000 } else { 300 }));
        Ok(())
    }

    /// Lets the case's other policy decide. Returns the case with that policy.
    pub(super) fn swap_policies(&mut self) -> Option<Case> {
        let swapped = self.case.swapped()?;
        self.is_other = !self.is_other;
        let case = if self.is_other { swapped } else { self.case.clone() };
        self.former.push(std::mem::replace(&mut self.policy, case.sliced(false)));
        Some(case)
    }

    /// Returns the next copy of a packet, and its sender.
    fn frame(&mut self, packet: usize) -> (Mac, Vec<u8>) {
        self.number += 1;
        let packet = &self.case.scenario.packets[packet];
        (host(packet.from).mac, packet.frame(self.number))
    }

    fn send(&mut self, mac: Mac, at: Location, frame: &[u8]) {
        let state = self.sim.store.snapshot();
        let true_place = state.host(mac).is_none_or(|host| host.location == at) && self.truth[&mac] == at;
        self.sent.push(Sent { frame: frame.to_vec(), at, true_place });
        self.sim.inject(at, frame.to_vec());
    }

    /// Waits until everything is at rest, and checks the frames that came out since the last rest.
    ///
    /// # Errors
    /// The first deviation from the contract, in words.
    pub fn rest(&mut self) -> Result<(), String> {
        self.sim.run();
        self.sim.check_settled()?;
        let delivered = std::mem::take(&mut self.sim.delivered);
        let states = std::mem::take(&mut self.sim.history);
        // A switch without a connection may follow any answer of f since the connection ended, also for a moment after
        // it is back.
        let is_any_away = self.sim.is_any_away();
        self.sim.history = if is_any_away { states.clone() } else { states.last().cloned().into_iter().collect() };
        let dropped: u64 = self.sim.engines().iter().map(|engine| engine.stats().link_drops).sum();
        let way_drops: u64 = self.sim.engines().iter().map(|engine| engine.stats().way_drops).sum();
        // Without rules, packets that must keep their way are dropped.
        let lost_ways = way_drops > std::mem::replace(&mut self.way_drops, way_drops);
        let lossy_here = dropped > std::mem::replace(&mut self.dropped, dropped);
        let sent = std::mem::take(&mut self.sent);
        let former = if is_any_away { self.former.clone() } else { std::mem::take(&mut self.former) };
        // A full switch may lose rules without warning.
        let lossy = std::mem::replace(&mut self.lossy, is_any_away) || lossy_here && self.shrunk;
        self.tally.delivered += delivered.len() as u64;
        let mut rest: Vec<&Delivery> = delivered.iter().collect();
        let heard = std::mem::take(&mut self.sim.heard);
        for packet in &sent {
            let mark = &packet.frame[packet.frame.len() - 4..];
            let (mut got, others): (Vec<&Delivery>, Vec<&Delivery>) =
                rest.into_iter().partition(|d| d.frame.ends_with(mark));
            rest = others;
            got.sort_unstable();
            // A label makes the frame longer.
            let cut = self.case.shape.capture.map(|(len, _)| len).filter(|len| packet.frame.len() + 4 > *len);
            let may_lose = lossy || !packet.true_place || cut.is_some();
            *(if may_lose { &mut self.tally.lossy } else { &mut self.tally.exact }) += 1;
            // If f reads bytes that the controller did not get, it decides without them.
            let seen = [Some(packet.frame.len()), cut.map(|len| len.min(packet.frame.len()))];
            let policies: Vec<&dyn Policy> = former.iter().chain([&self.policy]).map(|policy| &**policy).collect();
            let all = || {
                let seen = || seen.into_iter().flatten();
                let states = states.iter().flat_map(move |state| seen().map(move |len| (state, len)));
                states.flat_map(|(state, len)| policies.iter().map(move |policy| (*policy, state, len)))
            };
            let fits = all().any(|(policy, state, len)| {
                let (want, keeps_way) = self.expected(policy, packet, len, state);
                if may_lose || keeps_way && lost_ways {
                    contains_all(&want, &got)
                } else {
                    want.iter().eq(got.iter().copied())
                }
            });
            if !may_lose {
                self.check_heard(packet, &heard, !got.is_empty())?;
            }
            if !fits {
                let wanted: Vec<_> =
                    all().map(|(policy, state, len)| self.expected(policy, packet, len, state).0).collect();
                return Err(format!(
                    "packet {} at {}: came out {got:?}, wanted one of {wanted:?} (may lose: {may_lose})",
                    maple_wire::packet::text::summary(&maple_wire::Packet::new(&packet.frame, packet.at.port.0)),
                    packet.at
                ));
            }
        }
        // A host's answer to a probe comes from nobody here. A switch that has lost the rule for such answers, and its
        // connection before it got the rule again, takes them for packets like any other.
        let is_answer = |frame: &[u8]| {
            let to = maple_wire::Packet::new(frame, 0).get(Field::EthDst);
            lossy && to == Some(PROBE_MAC.bits())
        };
        if let Some(stray) = rest.iter().find(|stray| !is_answer(&stray.frame)) {
            return Err(format!("nobody sent {stray:?}"));
        }
        self.sim.remember_surroundings();
        if !is_any_away {
            self.check_explained(&sent)?;
        }
        self.check_tables()
    }

    /// Checks that listeners got a packet once if they want it. A packet that did not come out may not have reached
    /// them.
    fn check_heard(&self, packet: &Sent, heard: &[ListenerPacket], came_out: bool) -> Result<(), String> {
        let view = maple_wire::Packet::new(&packet.frame, packet.at.port.0);
        let wanted = self.case.shape.heard.iter().any(|cond| cond.holds(&view));
        let times = heard.iter().filter(|heard| heard.frame[..] == packet.frame[..]).count();
        let fits = if wanted && came_out { times == 1 } else { times <= usize::from(wanted) };
        if fits { Ok(()) } else { Err(format!("packet at {} was heard of {times} times ({wanted})", packet.at)) }
    }

    /// Returns where f, run from scratch on the first `len` bytes, sends the packet in a state, sorted; and whether the
    /// packet must keep its way.
    pub(super) fn expected(
        &self,
        policy: &dyn Policy,
        packet: &Sent,
        len: usize,
        state: &Arc<Snapshot>,
    ) -> (Vec<Delivery>, bool) {
        if state.port(packet.at).is_none_or(|port| port.kind != PortKind::Edge) {
            return (Vec::new(), false);
        }
        // Discovery takes these packets, and f does not see them.
        let view = maple_wire::Packet::new(&packet.frame, packet.at.port.0);
        let is = |field, value| view.get(field) == Some(value);
        if is(Field::EthType, LLDP) || self.case.track_hosts && is(Field::EthDst, PROBE_MAC.bits()) {
            return (Vec::new(), false);
        }
        let captured: Arc<[u8]> = packet.frame[..len].into();
        let run = || {
            Run::new(
                Arc::clone(&captured),
                packet.frame.len(),
                packet.at,
                Txn::new(state.clone()),
                self.case.track_hosts,
            )
        };
        let resolved = match Observation::of(policy, &run()).answer {
            Ok(resolved) => resolved,
            // A guard refuses loops. The frames of f's own are still sent.
            Err(PolicyError::Route { error: RouteError::Loop(_), .. }) if !self.case.guards.is_empty() => {
                let run = run();
                let route = policy.decide(&run.packet(), &run.net()).expect("it was decided before");
                match run.resolved(&route.refused()) {
                    Ok(resolved) => resolved,
                    Err(_) => return (Vec::new(), false),
                }
            }
            Err(_) => return (Vec::new(), false),
        };
        let judged = Judged {
            frame: &packet.frame[..len],
            total_len: packet.frame.len(),
            came_in: packet.at,
            state,
            track_hosts: self.case.track_hosts,
            route: &resolved,
        };
        let keeps_way = judged.keeps_way(&self.case.guards);
        let resolved = match judged.verdict(&self.case.guards) {
            Judgement::Allowed => resolved,
            Judgement::Refused => Arc::new(Resolved { own: resolved.own.clone(), ..Resolved::default() }),
            Judgement::Failed => return (Vec::new(), false),
        };
        let copies = resolved.copies(&packet.frame, packet.at).into_iter();
        (copies.map(|(at, frame)| Delivery { at, frame }).collect(), keeps_way)
    }

    /// Checks, at rest, that the switches have the rules that the engines assume, and that f was consistent.
    fn check_tables(&mut self) -> Result<(), String> {
        for dpid in self.sim.dpids() {
            // It is not known which of the last messages the switch followed before its connection ended.
            if self.sim.is_away(dpid) {
                continue;
            }
            let mut believed: Vec<String> = Vec::new();
            for engine in self.sim.engines() {
                believed.extend(engine.rules(dpid).iter().map(|r| format!("{} {:?}", r.table_id, r.rule)));
            }
            let Some(switch) = self.sim.switch(dpid) else { continue };
            let is_of_look_up = |flow: &&InstalledFlow| {
                let leads_on =
                    |to: &Instruction| matches!(to, Instruction::GotoTable(next) if *next == flow.table_id + 1);
                flow.table_id > 0 && flow.priority > 0 && flow.instructions.iter().any(leads_on)
            };
            self.tally.look_ups += switch.flows().iter().filter(is_of_look_up).count() as u64;
            let mut there: Vec<String> = Vec::new();
            // Packets don't reach rules in other tables, and 1.0 can't express their deletion.
            let counts =
                |flow: &&InstalledFlow| switch.version == Version::Of13 || flow.table_id == 0 || of10_can_say(flow);
            for flow in switch.flows().iter().filter(counts) {
                let rule = maple_core::rule::Rule {
                    priority: flow.priority,
                    matching: flow.matching.clone(),
                    instructions: flow.instructions[..].into(),
                    cookie: flow.cookie,
                };
                there.push(format!("{} {rule:?}", flow.table_id));
            }
            believed.sort();
            there.sort();
            believed.dedup();
            if believed != there {
                return Err(format!("switch {dpid} has {there:#?}, the engine believes {believed:#?}"));
            }
        }
        let inconsistent: u64 = self.sim.engines().iter().map(|engine| engine.stats().inconsistent_runs).sum();
        if inconsistent > 0 { Err("a function was called none".to_owned()) } else { Ok(()) }
    }
}

/// Reports whether `got` is a part of `want`, counting repetitions.
fn contains_all(want: &[Delivery], got: &[&Delivery]) -> bool {
    let mut left: Vec<&Delivery> = want.iter().collect();
    got.iter().all(|delivery| left.iter().position(|one| one == delivery).map(|at| left.swap_remove(at)).is_some())
}

/// Turns writes into writes to the state of the slice `red`.
fn in_red(event: Event) -> Event {
    let own = |name: &Name| Name::from(format!("red/{name}"));
    let write = |write: Write| match write {
        Write::Table { table, key, value } => Write::Table { table: own(&table), key, value },
        Write::Var { name, value } => Write::Var { name: own(&name), value },
        Write::Cost { name, link, cost } => Write::Cost { name: own(&name), link, cost },
        other => other,
    };
    match event {
        Event::Write(writes) => Event::Write(writes.into_iter().map(write).collect()),
        other => other,
    }
}
