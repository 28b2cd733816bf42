//! The moments of rest: the frames that came out since the last one are compared with f's answers, and the switches'
//! tables with what the engines believe.

use std::sync::Arc;

use maple_core::check::Observation;
use maple_core::engine::{ListenerPacket, ReportedRule, Stats};
use maple_core::network::PROBE_MAC;
use maple_core::network::PortKind;
use maple_core::policy::{Policy, PolicyError};
use maple_core::route::{Resolved, RouteError};
use maple_core::rule::Rule;
use maple_core::run::Run;
use maple_core::state::{Snapshot, Txn};
use maple_sim::{Delivery, SimSwitch};
use maple_wire::eth_type::value::LLDP;
use maple_wire::packet::text;
use maple_wire::{Dpid, Field, Instruction, Packet, Version};

use super::connections::of10_can_say;
use super::guards::{Judged, Judgement};
use super::play::{Play, Sent};

/// The events since the last rest.
struct SinceRest {
    sent: Vec<Sent>,
    delivered: Vec<Delivery>,
    heard: Vec<ListenerPacket>,
    /// The states that held.
    states: Vec<Arc<Snapshot>>,
    /// The policies that ran.
    policies: Vec<Arc<dyn Policy>>,
    /// Whether packets may be lost.
    lossy: bool,
    /// Whether packets that must keep their way were dropped, because no rule led them along it.
    lost_ways: bool,
}

impl Play<'_> {
    /// Waits until everything is at rest, and checks the frames that came out since the last rest.
    ///
    /// # Errors
    /// The first deviation from the contract, in words.
    pub fn rest(&mut self) -> Result<(), String> {
        self.sim.run();
        self.sim.check_settled()?;
        let since = self.take_since_rest();
        self.tally.delivered += since.delivered.len() as u64;
        let mut rest: Vec<&Delivery> = since.delivered.iter().collect();
        for packet in &since.sent {
            let (mut came, others): (Vec<_>, Vec<_>) =
                rest.into_iter().partition(|delivery| delivery.frame.ends_with(packet.mark()));
            rest = others;
            came.sort_unstable();
            self.check_delivery(packet, &came, &since)?;
        }
        if let Some(stray) = rest.iter().find(|stray| !(since.lossy && answers_probe(&stray.frame))) {
            return Err(format!("nobody sent {stray:?}"));
        }
        self.sim.remember_surroundings();
        if !self.sim.is_any_away() {
            self.check_explained(&since.sent)?;
        }
        self.check_tables()
    }

    /// Takes what happened since the last rest. A switch without a connection may follow any answer of f since the
    /// connection ended, also for a moment after it is back. So states and policies count again at the next rest.
    fn take_since_rest(&mut self) -> SinceRest {
        let is_any_away = self.sim.is_any_away();
        let states = std::mem::take(&mut self.sim.history);
        self.sim.history = if is_any_away { states.clone() } else { states.last().cloned().into_iter().collect() };
        let former = if is_any_away { self.former.clone() } else { std::mem::take(&mut self.former) };
        let (dropped, way_drops) = (self.sum(|stats| stats.link_drops), self.sum(|stats| stats.way_drops));
        let dropped_here = dropped > std::mem::replace(&mut self.dropped, dropped);
        let lossy = std::mem::replace(&mut self.lossy, is_any_away);
        SinceRest {
            sent: std::mem::take(&mut self.sent),
            delivered: std::mem::take(&mut self.sim.delivered),
            heard: std::mem::take(&mut self.sim.answers.heard),
            states,
            policies: former.into_iter().chain([Arc::clone(&self.policy)]).collect(),
            // A full switch may lose rules without warning.
            lossy: lossy || dropped_here && self.shrunk,
            lost_ways: way_drops > std::mem::replace(&mut self.way_drops, way_drops),
        }
    }

    /// Returns the sum of a count over all engines.
    fn sum(&self, count: impl Fn(&Stats) -> u64) -> u64 {
        self.sim.engines().iter().map(|engine| count(&engine.view().stats())).sum()
    }

    /// Checks that a packet came out as f says in one of the states and with one of the policies since the last rest.
    fn check_delivery(&mut self, packet: &Sent, came: &[&Delivery], since: &SinceRest) -> Result<(), String> {
        // A label makes the frame longer.
        let cut = self.case.shape.capture.map(|(len, _)| len).filter(|len| packet.frame.len() + 4 > *len);
        let may_lose = since.lossy || !packet.true_place || cut.is_some();
        *(if may_lose { &mut self.tally.lossy } else { &mut self.tally.exact }) += 1;
        if !may_lose {
            self.check_heard(packet, &since.heard, !came.is_empty())?;
        }
        // If f reads bytes that the controller did not get, it decides without them.
        let seen = [Some(packet.frame.len()), cut.map(|len| len.min(packet.frame.len()))];
        let seen = || seen.into_iter().flatten();
        let answers = since.states.iter().flat_map(|state| seen().map(move |len| (state, len)));
        let answers = answers.flat_map(|(state, len)| since.policies.iter().map(move |policy| (&**policy, state, len)));
        let mut wanted = Vec::new();
        for (policy, state, len) in answers {
            let (want, must_follow_hops) = self.expected(policy, packet, len, state);
            // Without rules, packets that must keep their way are dropped.
            let may_lose = may_lose || must_follow_hops && since.lost_ways;
            if if may_lose { contains_all(&want, came) } else { want.iter().eq(came.iter().copied()) } {
                return Ok(());
            }
            wanted.push(want);
        }
        let (text, at) = (text::summary(&packet.view()), packet.at);
        Err(format!("packet {text} at {at}: came out {came:?}, wanted one of {wanted:?} (may lose: {may_lose})"))
    }

    /// Checks that listeners got a packet once if they want it. A packet that did not come out may not have reached
    /// them.
    fn check_heard(&self, packet: &Sent, heard: &[ListenerPacket], came_out: bool) -> Result<(), String> {
        let wanted = self.case.shape.heard.iter().any(|cond| cond.holds(&packet.view()));
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
        let nothing = (Vec::new(), false);
        if !self.is_for_the_policy(packet, state) {
            return nothing;
        }
        let Some(resolved) = self.answer(policy, packet, len, state) else { return nothing };
        let judged = Judged {
            frame: &packet.frame[..len],
            total_len: packet.frame.len(),
            came_in: packet.at,
            state,
            track_hosts: self.case.track_hosts,
            route: &resolved,
        };
        let must_follow_hops = judged.must_follow_hops(&self.case.guards);
        let resolved = match judged.verdict(&self.case.guards) {
            Judgement::Allowed => resolved,
            Judgement::Refused => Arc::new(Resolved { own: resolved.own.clone(), ..Resolved::default() }),
            Judgement::Failed => return nothing,
        };
        let copies = resolved.copies(&packet.frame, packet.at).into_iter();
        (copies.map(|(at, frame)| Delivery { at, frame }).collect(), must_follow_hops)
    }

    /// Reports whether a packet enters the network, and is not one that discovery takes.
    fn is_for_the_policy(&self, packet: &Sent, state: &Snapshot) -> bool {
        let is = |field, value| packet.view().get(field) == Some(value);
        let is_discovery = is(Field::EthType, LLDP) || self.case.track_hosts && is(Field::EthDst, PROBE_MAC.bits());
        state.port(packet.at).is_some_and(|port| port.kind == PortKind::Edge) && !is_discovery
    }

    /// Returns f's answer, run from scratch; `None` if it fails.
    fn answer(&self, policy: &dyn Policy, packet: &Sent, len: usize, state: &Arc<Snapshot>) -> Option<Arc<Resolved>> {
        let (captured, total_len) = (Arc::from(&packet.frame[..len]), packet.frame.len());
        let run = || {
            let txn = Txn::new(Arc::clone(state));
            Run::new(Arc::clone(&captured), total_len, packet.at, txn, self.case.track_hosts)
        };
        match Observation::from_run(policy, &run()).answer {
            Ok(resolved) => Some(resolved),
            // A guard refuses loops. The frames of f's own are still sent.
            Err(PolicyError::Route { error: RouteError::Loop(_), .. }) if !self.case.guards.is_empty() => {
                let run = run();
                let route = policy.decide(&run.packet(), &run.net()).expect("it was decided before");
                run.resolved(&route.refused()).ok()
            }
            Err(_) => None,
        }
    }

    /// Checks, at rest, that the switches have the rules that the engines assume, and that f was consistent.
    fn check_tables(&mut self) -> Result<(), String> {
        for dpid in self.sim.dpids() {
            // It is not known which of the last messages the switch followed before its connection ended.
            if self.sim.is_away(dpid) {
                continue;
            }
            let believed = self.believed(dpid);
            let Some(switch) = self.sim.switch(dpid) else { continue };
            let there = rules_of(switch);
            self.tally.look_ups += count_look_ups(switch);
            if believed != there {
                return Err(format!("switch {dpid} has {there:#?}, the engine believes {believed:#?}"));
            }
        }
        let inconsistent = self.sum(|stats| stats.inconsistent_runs);
        if inconsistent > 0 { Err("a function was called none".to_owned()) } else { Ok(()) }
    }

    /// Returns the rules that the engines believe a switch to have, sorted.
    fn believed(&self, dpid: Dpid) -> Vec<String> {
        let rules = self.sim.engines().iter().flat_map(|engine| engine.view().rules(dpid));
        let mut believed: Vec<String> = rules.map(|one| format!("{} {:?}", one.table_id, one.rule)).collect();
        believed.sort();
        believed.dedup();
        believed
    }
}

impl Sent {
    fn view(&self) -> Packet<'_> {
        Packet::new(&self.frame, self.at.port.0)
    }

    /// Returns the last bytes of the frame, by which its copies are found.
    fn mark(&self) -> &[u8] {
        &self.frame[self.frame.len() - 4..]
    }
}

/// Returns the number of rules of look-ups.
fn count_look_ups(switch: &SimSwitch) -> u64 {
    let is_of_look_up = |flow: &ReportedRule| {
        let leads_on = |to: &Instruction| matches!(to, Instruction::GotoTable(next) if *next == flow.table_id + 1);
        flow.table_id > 0 && flow.priority > 0 && flow.instructions.iter().any(leads_on)
    };
    switch.flows().iter().filter(|flow| is_of_look_up(flow)).count() as u64
}

/// Returns the rules of a switch, sorted. Packets don't reach rules in other tables than 1.0's, and
/// 1.0 can't express their deletion.
fn rules_of(switch: &SimSwitch) -> Vec<String> {
    let counts =
        |flow: &&ReportedRule| switch.model.version() == Version::Of13 || flow.table_id == 0 || of10_can_say(flow);
    let shown = |flow: &ReportedRule| {
        let rule = Rule {
            priority: flow.priority,
            matching: flow.matching.clone(),
            instructions: flow.instructions[..].into(),
            cookie: flow.cookie,
        };
        format!("{} {rule:?}", flow.table_id)
    };
    let mut there: Vec<String> = switch.flows().iter().filter(counts).map(shown).collect();
    there.sort();
    there
}

/// Reports whether a frame is a host's answer to a probe, which comes from nobody here. A switch that has lost the rule
/// for such answers, and its connection before it got the rule again, takes them for packets like any other.
fn answers_probe(frame: &[u8]) -> bool {
    Packet::new(frame, 0).get(Field::EthDst) == Some(PROBE_MAC.bits())
}

/// Reports whether `came` is a part of `want`, counting repetitions.
fn contains_all(want: &[Delivery], came: &[&Delivery]) -> bool {
    let mut left: Vec<&Delivery> = want.iter().collect();
    came.iter().all(|delivery| left.iter().position(|one| one == delivery).map(|at| left.swap_remove(at)).is_some())
}
