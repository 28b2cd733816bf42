//! Places that are not there, named in every possible way, while ports and switches come and go: the deliveries are
//! those that a plain reading of the guide gives.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use maple_core::engine::Options;
use maple_core::network::{Hop, Location};
use maple_core::policy::{Net, PacketHandle};
use maple_core::report::Report;
use maple_core::route::Route;
use maple_core::route_plan::Absence;
use maple_sim::seeds::seeds;
use maple_sim::{Choices, Delivery, SimNetwork};
use maple_wire::{Dpid, Field, PortNo, Version};

use crate::scripts::{A, B, at, ring, ring_with, send, udp};

/// The number of switches of the ring. Ports 1 and 2 lead to the neighbours.
const SWITCHES: u64 = 3;

/// The answer of a policy for some packets.
#[derive(Clone, Debug)]
enum Wish {
    To(Vec<u32>),
    Path(Location),
    /// Sends to the first place that is there.
    OneOf(Vec<Location>),
    /// Sends to the place, or everywhere if it is not there.
    PathOrFlood(Location),
    Multicast(Vec<Location>),
    /// Sends to a port of this switch and to one of the next.
    Hops(u32, u32),
    Copy(Location, Location),
    /// Sends a frame of f's own to a place, and the packet to some others.
    Send(Location, Vec<Location>),
}

/// The frame of f's own.
const OWN: [u8; 20] = [0xee; 20];

impl Wish {
    fn random(random: &mut Choices) -> Wish {
        let some = |random: &mut Choices| (0..1 + random.below(4)).map(|_| place(random)).collect::<Vec<_>>();
        match random.below(8) {
            0 => Wish::To((0..1 + random.below(3)).map(|_| place(random).port.0).collect()),
            1 => Wish::Path(place(random)),
            2 => Wish::OneOf(some(random)),
            3 => Wish::PathOrFlood(place(random)),
            4 => Wish::Multicast(some(random)),
            5 => Wish::Hops(3 + random.below(3) as u32, 3 + random.below(3) as u32),
            6 => Wish::Copy(place(random), place(random)),
            _ => Wish::Send(place(random), some(random)),
        }
    }

    fn route(&self, pkt: &PacketHandle, net: &Net) -> Route {
        let here = Location::new(pkt.switch(), PortNo(0));
        let to = |place: &Location| net.shortest_path(here, *place);
        match self {
            Wish::To(ports) => Route::to(ports.iter().map(|port| PortNo(*port))),
            Wish::Path(place) => to(place),
            Wish::OneOf(places) => Route::ecmp(places.iter().map(to), pkt, &[Field::UdpSrc]),
            Wish::PathOrFlood(place) => {
                Some(to(place)).filter(|way| !way.is_unreachable()).unwrap_or_else(Route::flood)
            }
            Wish::Multicast(places) => Route::multicast(places.iter().map(to)),
            Wish::Hops(near, far) => {
                let next = Dpid(here.switch.0 % SWITCHES + 1);
                let hops = [(here.switch, *near), (here.switch, 2), (next, *far)];
                Route::hops(hops.map(|(switch, port)| Hop::new(switch, PortNo(port))))
            }
            Wish::Copy(place, watcher) => to(place).copy_to(*watcher),
            Wish::Send(place, places) => {
                net.send(OWN.into(), *place);
                Route::multicast(places.iter().map(to))
            }
        }
    }
}

/// Returns a port of a switch, either of which may not be there.
fn place(random: &mut Choices) -> Location {
    at(1 + random.below(4) as u64, 1 + random.below(5) as u32)
}

/// Adds a port, at which discovery finds no link.
fn add_port(sim: &mut SimNetwork, at: Location) {
    sim.add_port(at);
    sim.run();
    sim.rediscover(at);
    sim.run();
}

/// The switches and ports that are there, as the test knows them.
struct SwitchModel {
    /// The ports of switches that are there, and whether they are up.
    ports: BTreeMap<Location, bool>,
}

impl SwitchModel {
    /// Reports whether a place is there. A port to a neighbour is a place while the neighbour is away.
    fn is_place(&self, at: &Location) -> bool {
        let neighbour = match at.port.0 {
            1 => Some((at.switch.0 + SWITCHES - 2) % SWITCHES + 1),
            2 => Some(at.switch.0 % SWITCHES + 1),
            _ => None,
        };
        self.ports.contains_key(at) && neighbour.is_none_or(|dpid| !self.ports.contains_key(&self::at(dpid, 1)))
    }

    fn gets(&self, at: &Location) -> bool {
        at.port.0 > 2 && self.ports.get(at) == Some(&true)
    }

    /// Returns the places that get the packet, and the one that gets f's own frame, if there is one; `None` if f fails.
    fn delivered(&self, wish: &Wish, from: Location) -> Option<(BTreeSet<Location>, Option<Location>)> {
        let those = |places: &mut dyn Iterator<Item = Location>| {
            places.filter(|at| self.gets(at) && *at != from).collect::<BTreeSet<_>>()
        };
        let only = |place: &Location| self.is_place(place).then(|| those(&mut [*place].into_iter()));
        Some(match wish {
            Wish::To(ports) => {
                let places = || ports.iter().map(|port| Location::new(from.switch, PortNo(*port)));
                places().any(|at| self.is_place(&at)).then(|| (those(&mut places()), None))?
            }
            Wish::Path(place) => (only(place)?, None),
            // All places are equally good, so the choice does not matter, only whether one is there.
            Wish::OneOf(_) => return None,
            Wish::PathOrFlood(place) => {
                let everywhere = || those(&mut self.ports.keys().copied().filter(|at| at.port.0 > 2));
                (only(place).unwrap_or_else(everywhere), None)
            }
            Wish::Multicast(places) => (those(&mut places.iter().copied()), None),
            Wish::Hops(near, far) => {
                let next = from.switch.0 % SWITCHES + 1;
                let (near, far) = (Location::new(from.switch, PortNo(*near)), at(next, *far));
                let has_next = self.ports.contains_key(&at(next, 1));
                // A port to a neighbour that is away counts as there.
                let is_something = !has_next || self.is_place(&near) || self.is_place(&far);
                is_something.then(|| (those(&mut [near, far].into_iter()), None))?
            }
            Wish::Copy(place, watcher) => {
                only(place)?;
                (those(&mut [*place, *watcher].into_iter()), None)
            }
            Wish::Send(place, places) => {
                only(place)?;
                (those(&mut places.iter().copied()), Some(*place).filter(|at| self.gets(at)))
            }
        })
    }
}

/// A network whose policy follows one of these wishes, chosen by the packet's destination port.
struct NetworkWithGaps {
    sim: SimNetwork,
    model: SwitchModel,
    /// The ports of the last switch, while it is not connected.
    away: BTreeMap<Location, bool>,
    wishes: Arc<Vec<Wish>>,
}

impl NetworkWithGaps {
    fn new(random: &mut Choices) -> NetworkWithGaps {
        let wishes: Arc<Vec<Wish>> = Arc::new((0..6).map(|_| Wish::random(random)).collect());
        let own = Arc::clone(&wishes);
        let policy = move |pkt: &PacketHandle, net: &Net| {
            let number = pkt.get(Field::UdpDst).unwrap_or_default() as usize;
            own.get(number).map_or_else(Route::drop, |wish| wish.route(pkt, net))
        };
        let version = *random.pick(&[Version::Of10, Version::Of13]);
        let options = Options { track_hosts: false, ..Options::default() };
        let sim = ring_with(&options, Arc::new(policy), SWITCHES, 1 + random.below(2) as u8, version);
        let ports = sim.dpids().into_iter().flat_map(|dpid| sim.ports_of(dpid)).map(|at| (at, true)).collect();
        NetworkWithGaps { sim, model: SwitchModel { ports }, away: BTreeMap::new(), wishes }
    }

    /// Lets something come or go, and everything come to rest.
    fn change(&mut self, random: &mut Choices) {
        let port = at(1 + random.below(3) as u64, 3 + random.below(3) as u32);
        let last = Dpid(SWITCHES);
        let is_away = !self.away.is_empty();
        if random.one_in(6) {
            if is_away {
                self.sim.restart(last);
                self.sim.run();
                self.sim.ports_of(last).into_iter().for_each(|at| self.sim.rediscover(at));
                self.model.ports.append(&mut self.away);
            } else {
                self.sim.disconnect(last);
                self.away = self.model.ports.split_off(&at(last.0, 0));
            }
        } else if is_away && port.switch == last {
            return;
        } else if self.model.ports.get(&port) == Some(&true) && random.one_in(2) {
            self.sim.set_port(port, false);
            self.model.ports.insert(port, false);
        } else if self.model.ports.remove(&port).is_some() {
            self.sim.remove_port(port);
        } else {
            add_port(&mut self.sim, port);
            self.model.ports.insert(port, true);
        }
        self.sim.run();
    }

    /// Sends a packet of each kind from some port, and checks where it arrives.
    fn check(&mut self, random: &mut Choices) {
        let edges: Vec<Location> = self.model.ports.keys().copied().filter(|at| self.model.gets(at)).collect();
        if edges.is_empty() {
            return;
        }
        for (number, wish) in self.wishes.clone().iter().enumerate() {
            let from = *random.pick(&edges);
            let before = self.sim.stats().policy_errors;
            let got = send(&mut self.sim, from, udp(A, B, number as u16));
            let failed = self.sim.stats().policy_errors > before;
            let places = |own: bool| -> Vec<Location> {
                let mut all: Vec<_> = got.iter().filter(|one| (one.frame == OWN) == own).map(|one| one.at).collect();
                all.sort_unstable();
                all
            };
            if let Wish::OneOf(choices) = wish {
                let there: Vec<_> = choices.iter().filter(|at| self.model.is_place(at)).collect();
                assert_eq!(failed, there.is_empty(), "{wish:?} from {from}");
                assert!(places(false).iter().all(|at| there.contains(&at)), "{wish:?} from {from}: {got:?}");
                let all_get = there.iter().all(|at| **at != from && self.model.gets(at));
                assert!(there.is_empty() || !all_get || got.len() == 1, "{wish:?} from {from}: {got:?}");
                continue;
            }
            let said = self.model.delivered(wish, from);
            assert_eq!(failed, said.is_none(), "{wish:?} from {from}, {:?}", self.model.ports);
            let (packets, own) = said.unwrap_or_default();
            assert_eq!(places(false), packets.into_iter().collect::<Vec<_>>(), "{wish:?} from {from}");
            assert_eq!(places(true), own.into_iter().collect::<Vec<_>>(), "{wish:?} from {from}");
        }
    }
}

#[test]
fn every_kind_of_route_uses_and_leaves_out_places_at_once_as_they_come_and_go() {
    for seed in seeds(150) {
        let mut random = Choices::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut world = NetworkWithGaps::new(&mut random);
        world.check(&mut random);
        for _ in 0..12 {
            world.change(&mut random);
            world.check(&mut random);
        }
        let reported = |report: &Report| match report {
            Report::PlaceAbsent { at, why, .. } => Some((at.switch, (*why != Absence::Switch).then_some(at.port))),
            _ => None,
        };
        let mut times: BTreeMap<_, usize> = BTreeMap::new();
        world.sim.reports.iter().filter_map(reported).for_each(|place| *times.entry(place).or_default() += 1);
        let shards = world.sim.engines().len();
        assert!(times.values().all(|times| *times <= shards), "each place is said once by each shard: {times:?}");
    }
}

/// Routes in a broadcast domain of three ports at switch 1, one of which is not there, and one at another switch.
fn domain(pkt: &PacketHandle, net: &Net) -> Route {
    let here = Location::new(pkt.switch(), pkt.in_port());
    let members = [at(1, 3), at(1, 4), at(1, 9), at(2, 3)];
    Route::multicast(members.into_iter().filter(|member| *member != here).map(|member| net.shortest_path(here, member)))
}

fn places(delivered: Vec<Delivery>) -> Vec<Location> {
    let mut all: Vec<Location> = delivered.into_iter().map(|delivery| delivery.at).collect();
    all.sort_unstable();
    all
}

#[test]
fn a_multicast_leaves_out_a_place_that_is_not_there_and_one_that_goes_while_it_runs() {
    let mut sim = ring(Arc::new(domain), 2, 1, Version::Of13);
    assert_eq!(places(send(&mut sim, at(1, 3), udp(A, B, 80))), [at(1, 4), at(2, 3)]);
    let reported = |sim: &SimNetwork| -> Vec<String> {
        let absent = sim.reports.iter().filter(|report| matches!(report, Report::PlaceAbsent { .. }));
        absent.map(ToString::to_string).collect()
    };
    let first = reported(&sim);
    assert_eq!(first.len(), 1, "{first:?}");
    assert!(first[0].contains("absent.rs:") && first[0].contains("leaves out 0000000000000001:9"), "{first:?}");
    assert!(first[0].ends_with("its switch has the ports 1, 2, 3, 4"), "{first:?}");
    let runs = sim.stats().runs;
    sim.remove_port(at(1, 4));
    sim.run();
    assert_eq!(places(send(&mut sim, at(1, 3), udp(A, B, 80))), [at(2, 3)]);
    add_port(&mut sim, at(1, 9));
    assert_eq!(places(send(&mut sim, at(1, 3), udp(A, B, 80))), [at(1, 9), at(2, 3)]);
    assert_eq!(sim.stats().runs, runs, "the leaf follows its plan");
    assert_eq!((sim.stats().policy_errors, reported(&sim).len()), (0, 2), "{:?}", reported(&sim));
    assert!(
        reported(&sim)[1].contains("absent.rs:"),
        "the line stands there also if f has not run: {:?}",
        reported(&sim)
    );
    sim.remove_port(at(1, 9));
    sim.disconnect(Dpid(2));
    sim.run();
    assert_eq!(send(&mut sim, at(1, 3), udp(A, B, 80)), [], "nobody is left");
    assert_eq!(sim.stats().policy_errors, 0);
    let last = reported(&sim).pop().unwrap_or_default();
    assert!(last.ends_with("the route leaves out the ports of switch 0000000000000002, which is not there"), "{last}");
}

#[test]
fn a_multicast_leaves_out_a_port_that_becomes_a_link() {
    let mut sim = ring(Arc::new(domain), 2, 1, Version::Of13);
    assert_eq!(places(send(&mut sim, at(1, 3), udp(A, B, 80))), [at(1, 4), at(2, 3)]);
    sim.add_link(at(1, 4), at(2, 4));
    sim.run();
    assert_eq!(places(send(&mut sim, at(1, 3), udp(A, B, 80))), [at(2, 3)]);
    assert_eq!(sim.stats().policy_errors, 0);
}
