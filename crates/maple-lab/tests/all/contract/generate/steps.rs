//! The steps of a case: packets and events.

use std::collections::BTreeMap;
use std::sync::Arc;

use maple_core::Location;
use maple_core::network::{Facts, HostFacts, PortSet, SwitchFacts};
use maple_emulator::network::ControlFaults;
use maple_emulator::time::{MICROSECOND, MILLISECOND};
use maple_sim::cases::World;
use maple_wire::{Dpid, PortNo};

use super::{Dice, Flavour};
use crate::contract::case::{Case, Event, Step, host_mac};

impl Dice {
    /// Adds packets and events, some close together and some far apart.
    pub(super) fn steps(&mut self, case: &mut Case, flavour: Flavour) {
        let world = &case.world();
        for _ in 0..self.below(6) {
            let cost = world.cost(&mut self.random);
            case.steps.push(Step::Do(Event::Write(cost)));
        }
        let count = 6 + self.below(14);
        let mut slow = false;
        // If everything is thrown away again and again, nothing gets old enough to be wrong.
        let thorough = self.one_in(2);
        for _ in 0..count {
            let burst = if self.one_in(3) { 1 + self.below(4) } else { 1 };
            for _ in 0..burst {
                case.steps.push(Step::Send(self.below(case.packets.len() as u64) as usize));
            }
            if thorough && self.one_in(2) {
                self.volley(case);
            }
            if self.one_in(3) {
                let packet = self.below(case.packets.len() as u64) as usize;
                let (times, gap) = (2 + self.below(30), 1 + self.below(120 * MICROSECOND));
                case.steps.push(Step::Stream { packet, times, gap });
            }
            let wait = match self.below(4) {
                0 => 0,
                1 => self.below(300 * MICROSECOND),
                2 => self.below(20 * MILLISECOND),
                _ => 700 * MILLISECOND,
            };
            case.steps.push(Step::Wait(wait));
            if self.one_in(2) {
                let event = if !slow && self.one_in(4) {
                    slow = true;
                    let (delay, jitter) = (self.below(3 * MILLISECOND), self.below(2 * MILLISECOND));
                    let faults = ControlFaults { delay, jitter, ..ControlFaults::default() };
                    Event::Slow(self.dpid(case), faults)
                } else {
                    self.event(case, world, flavour)
                };
                case.steps.push(Step::Do(event));
                if self.one_in(3) {
                    case.steps.push(Step::Wait(self.below(5 * MILLISECOND)));
                }
            }
        }
    }

    /// Sends every packet once, in any order and soon after each other, mostly all of them new to the tables.
    fn volley(&mut self, case: &mut Case) {
        if !self.one_in(6) {
            case.steps.extend([Step::Do(Event::InvalidateAll), Step::Wait(MILLISECOND + self.below(MILLISECOND))]);
        }
        let mut left: Vec<usize> = (0..case.packets.len()).collect();
        while !left.is_empty() {
            let packet = left.swap_remove(self.below(left.len() as u64) as usize);
            case.steps.extend([Step::Send(packet), Step::Wait(self.below(250 * MICROSECOND))]);
        }
    }

    /// Makes facts that agree with the network. Where anything may happen, some of them also close ports or say that
    /// hosts are elsewhere.
    fn facts(&mut self, case: &Case, flavour: Flavour) -> Arc<Facts> {
        let is_hard = flavour == Flavour::Hard;
        let some = |dice: &mut Dice, ports: &[PortNo]| {
            PortSet(ports.iter().filter(|_| dice.one_in(2)).map(|port| port.0..=port.0).collect())
        };
        let mut switches = BTreeMap::new();
        for dpid in case.dpids().into_iter().filter(|_| self.one_in(2)).collect::<Vec<_>>() {
            let of = |at: &Location| (at.switch == dpid).then_some(at.port);
            let hosts: Vec<PortNo> = case.hosts.iter().filter_map(of).collect();
            let links: Vec<PortNo> =
                case.links.iter().flat_map(|link| [link.a, link.b]).filter_map(|at| of(&at)).collect();
            let (edge, link) = (some(self, &hosts), some(self, &links));
            // A link with one end closed looks like hosts at the other end, and nothing comes out there.
            let used =
                edge.0.iter().cloned().chain(some(self, &hosts).0).chain(links.iter().map(|port| port.0..=port.0));
            let ports = (is_hard && self.one_in(4)).then(|| PortSet(used.collect()));
            switches.insert(dpid, SwitchFacts { ports, edge, link, max_hosts: Vec::new() });
        }
        let mut hosts = BTreeMap::new();
        for host in (0..case.hosts.len()).filter(|_| self.one_in(3)).collect::<Vec<_>>() {
            let place = if is_hard && self.one_in(3) { self.pick(&case.hosts) } else { case.hosts[host] };
            hosts.insert(host_mac(host), HostFacts { at: case.track_hosts.then_some(place), ..HostFacts::default() });
        }
        Arc::new(Facts::new(switches, hosts))
    }

    fn event(&mut self, case: &Case, world: &World, flavour: Flavour) -> Event {
        if self.one_in(8) {
            return Event::Declare(self.facts(case, flavour));
        }
        if flavour != Flavour::Hard || self.one_in(3) {
            return match self.below(10) {
                0 => Event::InvalidateAll,
                8.. => Event::Write(world.cost(&mut self.random)),
                1 => Event::InvalidateHost(self.below(case.hosts.len() as u64) as usize),
                2 => Event::InvalidatePort(Location::new(self.dpid(case), PortNo(1 + self.below(5) as u32))),
                _ => Event::Write(world.outside_write(&mut self.random)),
            };
        }
        let dpid = self.dpid(case);
        match self.below(13) {
            12 => Event::Lose(dpid, self.below(20) as usize),
            0..4 if !case.links.is_empty() => {
                let link = self.pick(&case.links);
                Event::Link(link.a.switch, link.b.switch, self.one_in(2))
            }
            4..7 => {
                let ends: Vec<Location> =
                    case.links.iter().flat_map(|l| [l.a, l.b]).chain(case.hosts.iter().copied()).collect();
                Event::Port(self.pick(&ends), self.one_in(2))
            }
            7..9 => {
                let to = Location::new(dpid, PortNo(20 + self.below(2) as u32));
                Event::Move(self.below(case.hosts.len() as u64) as usize, to)
            }
            9 => Event::Restart(dpid),
            10 => self.pick(&[Event::Cut(dpid), Event::Cut(dpid), Event::HalfOpen(dpid)]),
            _ => Event::Mend(dpid),
        }
    }

    fn dpid(&mut self, case: &Case) -> Dpid {
        Dpid(1 + self.below(case.switches))
    }
}
