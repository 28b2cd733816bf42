//! Discoveries of several shards with wires between their switches, in simulated time.

use maple_wire::PortNo;

use std::collections::BTreeSet;

use super::*;
use crate::time::after as later;

const KEY: Key = Key([7; 16]);
const MS: Duration = Duration::from_millis(1);

/// Shards, wires, and what was found.
struct World {
    now: Time,
    shards: Vec<Discovery>,
    /// Where a frame that leaves by a port comes in. One entry a direction.
    wires: BTreeMap<Location, Location>,
    /// Plain bridges: the ports that each joins, and whether it passes LLDP.
    bridges: Vec<(BTreeSet<Location>, bool)>,
    /// How long a frame takes.
    delay: Duration,
    /// Frames under way: when they come in, where, and what.
    flying: Vec<(Time, Location, Vec<u8>)>,
    kinds: BTreeMap<Location, Behind>,
    odd: Vec<(Location, Odd)>,
    /// When which probe left.
    sent: Vec<(Time, Location)>,
    /// Whether the forms of a probe overtake each other.
    turns_round: bool,
    /// How long after it was asked for a probe leaves.
    late: Duration,
    /// A shard that is held up: it reads nothing and does nothing.
    busy: Option<usize>,
    /// Frames that wait for it.
    unread: Vec<(Location, Vec<u8>)>,
    /// What it was told meanwhile.
    mail: Vec<(Location, Tell)>,
}

impl World {
    /// This many shards; switch `n` belongs to shard `n % shards`.
    fn new(shards: usize) -> World {
        World {
            now: Time(1_000_000_000),
            shards: (0..shards).map(|n| Discovery::new(KEY, Timing::default(), n as u64)).collect(),
            wires: BTreeMap::new(),
            bridges: Vec::new(),
            delay: MS,
            flying: Vec::new(),
            kinds: BTreeMap::new(),
            odd: Vec::new(),
            sent: Vec::new(),
            turns_round: false,
            late: Duration::ZERO,
            busy: None,
            unread: Vec::new(),
            mail: Vec::new(),
        }
    }

    /// Two switches with a wire between their first ports, which are up and have had their chance.
    fn linked() -> World {
        let mut world = World::new(2);
        world.wire(at(1, 1), at(2, 1));
        world.up(1, 2);
        world.up(2, 2);
        world.run(500 * MS);
        world
    }

    fn wire(&mut self, a: Location, b: Location) {
        self.wires.insert(a, b);
        self.wires.insert(b, a);
    }

    fn cut(&mut self, a: Location, b: Location) {
        self.wires.remove(&a);
        self.wires.remove(&b);
    }

    /// A plain bridge joins these ports.
    fn bridge(&mut self, ports: &[Location], passes_lldp: bool) {
        self.bridges.push((ports.iter().copied().collect(), passes_lldp));
    }

    /// Where a frame comes in that leaves by a port.
    fn reached_from(&self, at: Location, frame: &[u8]) -> Vec<Location> {
        let is_lldp = frame[12..14] == [0x88, 0xcc];
        let passes = |(ports, lldp): &&(BTreeSet<Location>, bool)| ports.contains(&at) && (*lldp || !is_lldp);
        let bridged = self.bridges.iter().filter(passes).flat_map(|(ports, _)| ports.iter().copied());
        self.wires.get(&at).copied().into_iter().chain(bridged.filter(|to| *to != at)).collect()
    }

    fn shard(&self, dpid: Dpid) -> usize {
        dpid.0 as usize % self.shards.len()
    }

    fn up(&mut self, dpid: u64, ports: u32) {
        let ports: Vec<Port> = (1..=ports).map(port).collect();
        let (now, shard) = (self.now, self.shard(Dpid(dpid)));
        self.with(shard, |discovery, out| discovery.switch_up(now, Dpid(dpid), &ports, out));
    }

    fn down(&mut self, dpid: u64) {
        let (now, shard) = (self.now, self.shard(Dpid(dpid)));
        self.with(shard, |discovery, out| discovery.switch_down(now, Dpid(dpid), out));
    }

    fn port_goes(&mut self, at: Location, up: bool) {
        let mut port = port(at.port.0);
        port.state = u32::from(!up);
        let status = PortStatus { reason: PortReason::Modify, port };
        let (now, shard) = (self.now, self.shard(at.switch));
        self.with(shard, |discovery, out| discovery.port_status(now, at.switch, &status, out));
    }

    fn comes_in(&mut self, at: Location, frame: &[u8]) {
        if self.is_busy(self.shard(at.switch)) {
            return self.unread.push((at, frame.to_vec()));
        }
        self.read(self.now, at, frame);
    }

    /// A frame that came in since this time is read.
    fn read(&mut self, since: Time, at: Location, frame: &[u8]) {
        let (now, shard) = (self.now, self.shard(at.switch));
        self.with(shard, |discovery, out| {
            discovery.on_lldp(now, since, at, frame, out);
        });
    }

    fn is_busy(&self, shard: usize) -> bool {
        self.busy == Some(shard)
    }

    /// A shard is busy with something else for so long. Then it reads letters and frames, as a turn of a shard does.
    fn is_held_up(&mut self, shard: usize, duration: Duration) {
        let since = self.now;
        self.busy = Some(shard);
        self.run(duration);
        self.busy = None;
        let (asked, told): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.mail).into_iter().partition(|(_, tell)| matches!(tell, Tell::Unanswered { .. }));
        let now = self.now;
        for (to, tell) in told {
            self.with(shard, |discovery, out| discovery.on_tell(now, to, tell, out));
        }
        for (at, frame) in std::mem::take(&mut self.unread) {
            self.read(since, at, &frame);
        }
        for (to, tell) in asked {
            self.with(shard, |discovery, out| discovery.on_tell(now, to, tell, out));
        }
        self.run(Duration::ZERO);
    }

    /// Lets a discovery do something, and does what it and those it tells things want.
    fn with(&mut self, shard: usize, act: impl FnOnce(&mut Discovery, &mut Vec<Found>)) {
        let mut todo = Vec::new();
        act(&mut self.shards[shard], &mut todo);
        while !todo.is_empty() {
            for found in std::mem::take(&mut todo) {
                self.follow(found, &mut todo);
            }
        }
    }

    fn follow(&mut self, found: Found, todo: &mut Vec<Found>) {
        match found {
            Found::Send { at } => {
                self.sent.push((self.now, at));
                let (shard, leaves) = (self.shard(at.switch), later(self.now, self.late));
                let mut frames = self.shards[shard].frames(leaves, at);
                if self.turns_round {
                    frames.reverse();
                }
                for frame in frames {
                    for to in self.reached_from(at, &frame) {
                        self.flying.push((later(leaves, self.delay), to, frame.clone()));
                    }
                }
            }
            Found::Tell { to, tell } => {
                let shard = self.shard(to.switch);
                if self.is_busy(shard) {
                    self.mail.push((to, tell));
                } else {
                    self.shards[shard].on_tell(self.now, to, tell, todo);
                }
            }
            Found::Kind { at, kind, before } => {
                assert_eq!(self.kinds.insert(at, kind).unwrap_or(Behind::New), before);
            }
            Found::Odd { at, what, .. } => self.odd.push((at, what)),
        }
    }

    /// Lets this much time pass.
    fn run(&mut self, duration: Duration) {
        let end = later(self.now, duration);
        loop {
            let frame = self.flying.iter().map(|(time, ..)| *time).min();
            let awake = (0..self.shards.len()).filter(|shard| !self.is_busy(*shard));
            let timer = awake.filter_map(|shard| self.shards[shard].deadline()).min();
            let Some(next) = frame.into_iter().chain(timer).min().filter(|next| *next <= end) else { break };
            self.now = self.now.max(next);
            if frame == Some(next) {
                let first = self.flying.iter().position(|(time, ..)| *time == next).unwrap();
                let (_, at, frame) = self.flying.remove(first);
                self.comes_in(at, &frame);
            } else {
                let now = self.now;
                for shard in (0..self.shards.len()).filter(|shard| !self.is_busy(*shard)).collect::<Vec<_>>() {
                    self.with(shard, |discovery, out| discovery.on_timer(now, out));
                }
            }
        }
        self.now = end;
    }

    fn kind(&self, at: Location) -> Behind {
        self.kinds.get(&at).cloned().unwrap_or(Behind::New)
    }

    /// A probe that the controller really sends out of this port now.
    fn probe(&self, from: Location) -> Vec<u8> {
        Probe { from, sent: self.now }.frame(KEY, Cast::Lldp, [2; 6], MS)
    }
}

fn at(switch: u64, port: u32) -> Location {
    Location::new(Dpid(switch), PortNo(port))
}

fn port(number: u32) -> Port {
    Port::new(PortNo(number), [2, 0, 0, 0, 0, number as u8], "eth")
}

#[test]
fn a_link_is_found_at_both_ends_and_other_ports_become_edges() {
    let world = World::linked();
    assert_eq!(world.kind(at(1, 1)), Behind::Link(at(2, 1)));
    assert_eq!(world.kind(at(2, 1)), Behind::Link(at(1, 1)));
    assert_eq!(world.kind(at(1, 2)), Behind::Edge);
    assert_eq!(world.kind(at(2, 2)), Behind::Edge);
    assert_eq!(world.odd, []);
}

#[test]
fn a_new_port_is_neither_edge_nor_link_until_it_had_its_chance() {
    let mut world = World::new(1);
    world.up(1, 1);
    world.run(299 * MS);
    assert_eq!(world.kind(at(1, 1)), Behind::New);
    world.run(MS);
    assert_eq!(world.kind(at(1, 1)), Behind::Edge);
}

#[test]
fn a_port_is_an_edge_soon_also_where_its_probes_leave_late() {
    for late in [1, 20, 99] {
        let mut world = World::new(1);
        world.late = late * MS;
        world.up(1, 1);
        world.run((299 + late) * MS);
        assert_eq!(world.kind(at(1, 1)), Behind::New, "the last probe has its chance");
        world.run(MS);
        assert_eq!(world.kind(at(1, 1)), Behind::Edge, "{late} ms late");
    }
}

#[test]
fn a_link_is_found_within_milliseconds_of_the_second_switch_though_the_first_ports_are_edges() {
    let mut world = World::new(2);
    world.wire(at(1, 1), at(2, 1));
    world.up(1, 1);
    world.run(Duration::from_secs(3));
    assert_eq!(world.kind(at(1, 1)), Behind::Edge);
    world.up(2, 1);
    world.run(5 * MS);
    assert_eq!(world.kind(at(1, 1)), Behind::Link(at(2, 1)));
    assert_eq!(world.kind(at(2, 1)), Behind::Link(at(1, 1)));
}

#[test]
fn a_link_that_works_stays_for_hours_without_an_edge_in_between() {
    let mut world = World::linked();
    let before = world.kinds.clone();
    world.run(Duration::from_secs(3 * 3600));
    assert_eq!(world.kinds, before);
    assert_eq!(world.odd, []);
}

#[test]
fn probes_go_out_at_once_three_times_quickly_and_then_every_few_seconds() {
    let mut world = World::new(1);
    let start = world.now;
    world.up(1, 1);
    world.run(Duration::from_secs(60));
    let times: Vec<u64> = world.sent.iter().map(|(time, _)| (time.0 - start.0) / 1_000_000).collect();
    assert_eq!(times[..4], [0, 100, 200, 300]);
    let pauses: Vec<u64> = times[3..].windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(pauses.iter().all(|pause| (4500..=5500).contains(pause)), "{pauses:?}");
    assert!(pauses.iter().any(|pause| *pause != pauses[0]), "they spread: {pauses:?}");
}

#[test]
fn a_link_ages_out_at_both_ends_when_its_probes_are_lost() {
    let mut world = World::linked();
    world.cut(at(1, 1), at(2, 1));
    world.run(Duration::from_secs(9));
    assert_eq!(world.kind(at(1, 1)), Behind::Link(at(2, 1)), "one or two lost rounds are no reason");
    world.run(Duration::from_secs(15));
    assert_eq!((world.kind(at(1, 1)), world.kind(at(2, 1))), (Behind::New, Behind::New));
    world.run(Duration::from_secs(40));
    assert_eq!((world.kind(at(1, 1)), world.kind(at(2, 1))), (Behind::Edge, Behind::Edge));
}

#[test]
fn a_link_stays_while_the_shard_of_either_end_or_of_both_is_held_up_for_minutes() {
    for shards in [1, 2] {
        for shard in 0..shards {
            let mut world = World::new(shards);
            world.wire(at(1, 1), at(2, 1));
            world.up(1, 1);
            world.up(2, 1);
            world.run(Duration::from_secs(1));
            let before = world.kinds.clone();
            assert_eq!(before.len(), 2);
            for seconds in [3, 1, 18, 2, 30, 120] {
                world.is_held_up(shard, Duration::from_secs(seconds));
                assert_eq!(world.kinds, before, "{seconds} s, shard {shard} of {shards}");
                world.run(100 * MS);
                assert_eq!(world.kinds, before, "after {seconds} s, shard {shard} of {shards}");
            }
            world.run(Duration::from_secs(60));
            assert_eq!((&world.kinds, &world.odd[..]), (&before, &[][..]), "shard {shard} of {shards}");
        }
    }
}

#[test]
fn a_link_that_is_cut_goes_also_when_a_shard_is_held_up_again_and_again() {
    let mut world = World::linked();
    world.cut(at(1, 1), at(2, 1));
    for _ in 0..12 {
        world.is_held_up(0, Duration::from_secs(3));
        world.run(100 * MS);
    }
    assert_eq!((world.kind(at(1, 1)), world.kind(at(2, 1))), (Behind::New, Behind::New));
}

#[test]
fn a_probe_that_waited_for_us_is_no_replay_and_one_that_came_late_is() {
    let mut world = World::linked();
    let probe = world.probe(at(2, 2));
    let sent = world.now;
    world.run(Duration::from_secs(3));
    world.read(later(sent, 1999 * MS), at(1, 2), &probe);
    assert_eq!(world.odd, []);
    let probe = world.probe(at(2, 2));
    let sent = world.now;
    world.run(Duration::from_secs(3));
    world.read(later(sent, 2001 * MS), at(1, 2), &probe);
    assert_eq!(world.odd, [(at(1, 2), Odd::Replayed)]);
}

#[test]
fn a_link_vanishes_at_the_other_end_at_once_when_a_port_goes_down_and_returns_with_it() {
    let mut world = World::linked();
    world.port_goes(at(1, 1), false);
    world.kinds.remove(&at(1, 1));
    assert_eq!(world.kind(at(2, 1)), Behind::New);
    world.run(Duration::from_secs(10));
    assert_eq!(world.kind(at(2, 1)), Behind::New, "no edge port while the other switch may still forward");
    world.port_goes(at(1, 1), true);
    world.run(250 * MS);
    assert_eq!(world.kind(at(1, 1)), Behind::Link(at(2, 1)));
    assert_eq!(world.kind(at(2, 1)), Behind::Link(at(1, 1)));
}

#[test]
fn a_link_vanishes_at_once_when_a_switch_goes_and_returns_with_it() {
    let mut world = World::linked();
    world.down(2);
    world.kinds.retain(|at, _| at.switch != Dpid(2));
    assert_eq!(world.kind(at(1, 1)), Behind::New);
    world.run(Duration::from_secs(1));
    world.up(2, 2);
    world.run(250 * MS);
    assert_eq!(world.kind(at(1, 1)), Behind::Link(at(2, 1)));
    assert_eq!(world.kind(at(2, 1)), Behind::Link(at(1, 1)));
}

#[test]
fn a_port_that_flaps_while_probes_are_under_way_is_no_cause_for_alarm() {
    let mut world = World::linked();
    world.delay = 30 * MS;
    for _ in 0..20 {
        world.port_goes(at(1, 1), false);
        world.kinds.remove(&at(1, 1));
        world.run(7 * MS);
        world.port_goes(at(1, 1), true);
        world.run(45 * MS);
    }
    world.run(Duration::from_secs(6));
    assert_eq!(world.kind(at(1, 1)), Behind::Link(at(2, 1)));
    assert_eq!(world.kind(at(2, 1)), Behind::Link(at(1, 1)));
    assert_eq!(world.odd, []);
}

#[test]
fn a_wire_of_one_direction_is_no_link_and_its_ends_are_no_edges() {
    let mut world = World::new(2);
    world.wires.insert(at(1, 1), at(2, 1));
    world.up(1, 1);
    world.up(2, 1);
    world.run(Duration::from_secs(10));
    assert_eq!((world.kind(at(1, 1)), world.kind(at(2, 1))), (Behind::New, Behind::New));
    assert_eq!(world.odd, []);
    world.run(Duration::from_secs(60));
    assert_eq!(world.odd.len(), 2, "said once at each end: {:?}", world.odd);
    assert!(world.odd.iter().all(|(_, what)| *what == Odd::OneWay));
    assert_eq!((world.kind(at(1, 1)), world.kind(at(2, 1))), (Behind::New, Behind::New));
}

#[test]
fn a_host_that_forges_probes_makes_no_link() {
    let mut world = World::linked();
    let made_up = Probe { from: at(2, 2), sent: world.now }.frame(Key([1; 16]), Cast::Lldp, [2; 6], MS);
    let mut changed = world.probe(at(2, 1));
    let port_byte = changed.len() - 2 - 16 - 8 - 1;
    changed[port_byte] ^= 3;
    for frame in [&made_up, &changed, &made_up] {
        world.comes_in(at(1, 2), frame);
    }
    assert_eq!(world.odd, [(at(1, 2), Odd::Forged); 3]);
    assert_eq!((world.kind(at(1, 2)), world.kind(at(2, 2))), (Behind::Edge, Behind::Edge));
}

#[test]
fn a_host_that_replays_old_probes_makes_no_link() {
    let mut world = World::linked();
    let heard_at_its_own_port = world.probe(at(2, 2));
    world.run(Duration::from_secs(3));
    world.comes_in(at(1, 2), &heard_at_its_own_port);
    assert_eq!(world.odd, [(at(1, 2), Odd::Replayed)]);
    assert_eq!((world.kind(at(1, 2)), world.kind(at(2, 2))), (Behind::Edge, Behind::Edge));
}

#[test]
fn the_forms_of_a_probe_may_come_in_in_any_order() {
    let mut world = World::linked();
    world.turns_round = true;
    world.run(Duration::from_secs(60));
    assert_eq!((world.kind(at(1, 1)), &world.odd[..]), (Behind::Link(at(2, 1)), &[][..]));
    let (now, shard) = (world.now, world.shard(Dpid(1)));
    let lldp = world.shards[shard].frames(now, at(1, 1)).swap_remove(0);
    let Reading::Ours(probe, Cast::Lldp) = Probe::read(KEY, &lldp) else { panic!("it is ours") };
    let broadcast = probe.frame(KEY, Cast::Broadcast, [2; 6], MS);
    for frame in [&broadcast, &lldp, &broadcast, &lldp] {
        world.comes_in(at(2, 1), frame);
    }
    assert_eq!(world.odd, [(at(2, 1), Odd::Replayed); 2], "each form once");
}

#[test]
fn a_host_that_replays_fresh_probes_again_and_again_makes_no_link() {
    let mut world = World::linked();
    // The probes of 2:2 reach a host that is attached to 1:2 as well, and sends each in there a hundred times.
    world.wires.insert(at(2, 2), at(1, 2));
    world.run(Duration::from_secs(6));
    let replay = world.probe(at(2, 2));
    for _ in 0..100 {
        world.comes_in(at(1, 2), &replay);
        world.run(MS);
    }
    assert!(!matches!(world.kind(at(1, 2)), Behind::Link(_)), "the other direction was never seen");
    assert!(!matches!(world.kind(at(2, 2)), Behind::Link(_)));
    assert!(world.odd.iter().filter(|odd| **odd == (at(1, 2), Odd::Replayed)).count() >= 99);
}

#[test]
fn a_probe_that_comes_back_to_its_port_makes_no_link() {
    let mut world = World::new(1);
    world.wires.insert(at(1, 1), at(1, 1));
    world.up(1, 1);
    world.run(Duration::from_secs(1));
    assert_eq!(world.kind(at(1, 1)), Behind::Edge);
    assert!(world.odd.iter().all(|odd| *odd == (at(1, 1), Odd::Reflected)) && !world.odd.is_empty());
}

#[test]
fn nobody_takes_over_a_link_that_is_alive() {
    let mut world = World::linked();
    world.run(Duration::from_secs(6));
    let stolen = world.probe(at(2, 2));
    world.comes_in(at(1, 1), &stolen);
    assert_eq!(world.kind(at(1, 1)), Behind::Link(at(2, 1)));
    assert_eq!(world.kind(at(2, 1)), Behind::Link(at(1, 1)));
    world.run(Duration::from_secs(60));
    assert_eq!(world.kind(at(2, 2)), Behind::Edge);
}

#[test]
fn a_wire_that_is_moved_to_another_switch_makes_a_new_link() {
    let mut world = World::linked();
    world.up(3, 1);
    world.run(Duration::from_secs(1));
    world.cut(at(1, 1), at(2, 1));
    world.port_goes(at(1, 1), false);
    world.port_goes(at(2, 1), false);
    world.kinds.remove(&at(1, 1));
    world.kinds.remove(&at(2, 1));
    world.wire(at(1, 1), at(3, 1));
    world.port_goes(at(1, 1), true);
    world.run(100 * MS);
    assert_eq!(world.kind(at(1, 1)), Behind::Link(at(3, 1)));
    assert_eq!(world.kind(at(3, 1)), Behind::Link(at(1, 1)));
}

#[test]
fn other_devices_lldp_is_left_to_the_policy() {
    let mut world = World::linked();
    let foreign = maple_wire::packet::build::Frame::ethernet(maple_wire::packet::lldp::MULTICAST, [2; 6])
        .lldp(&[maple_wire::packet::lldp::Tlv::Ttl(120)]);
    let mut out = Vec::new();
    assert_eq!(world.shards[1].on_lldp(world.now, world.now, at(1, 2), &foreign, &mut out), Handled::Foreign);
    assert_eq!(out, []);
}

#[test]
fn the_port_of_the_switchs_own_host_is_probed_and_becomes_an_edge_port() {
    let mut discovery = Discovery::new(KEY, Timing::default(), 0);
    let at = Location::new(Dpid(1), PortNo::LOCAL);
    let mut out = Vec::new();
    discovery.switch_up(Time(0), Dpid(1), &[Port { number: PortNo::LOCAL, ..port(1) }], &mut out);
    assert!(matches!(out.as_slice(), [Found::Send { at: from }] if *from == at));
    out.clear();
    while let Some(due) = discovery.deadline().filter(|due| *due < Time(1_000_000_000)) {
        discovery.on_timer(due, &mut out);
    }
    assert!(out.contains(&Found::Kind { at, kind: Behind::Edge, before: Behind::New }));
}

#[test]
fn reserved_ports_and_ports_that_are_down_are_not_probed() {
    let mut discovery = Discovery::new(KEY, Timing::default(), 0);
    let mut down = port(3);
    down.config = Port::CONFIG_DOWN;
    let reserved = Port { number: PortNo::NORMAL, ..port(1) };
    let mut out = Vec::new();
    discovery.switch_up(Time(0), Dpid(1), &[reserved, Port { number: PortNo(0), ..port(1) }, down], &mut out);
    assert_eq!((out, discovery.deadline()), (vec![], None));
}

#[test]
fn a_ring_over_three_shards_is_found_whole() {
    let mut world = World::new(3);
    let n = 8;
    for switch in 0..n {
        world.wire(at(switch + 1, 1), at((switch + 1) % n + 1, 2));
        world.up(switch + 1, 3);
        world.run(13 * MS);
    }
    world.run(Duration::from_secs(1));
    for switch in 1..=n {
        assert_eq!(world.kind(at(switch, 1)), Behind::Link(at(switch % n + 1, 2)));
        assert_eq!(world.kind(at(switch % n + 1, 2)), Behind::Link(at(switch, 1)));
        assert_eq!(world.kind(at(switch, 3)), Behind::Edge);
    }
    assert_eq!(world.odd, []);
}

fn segment(ports: &[Location]) -> Behind {
    Behind::Segment(ports.iter().copied().collect())
}

#[test]
fn two_switches_find_each_other_through_a_bridge_that_filters_lldp_and_say_so_once() {
    let mut world = World::new(2);
    world.bridge(&[at(1, 1), at(2, 1)], false);
    world.up(1, 2);
    world.up(2, 2);
    world.run(50 * MS);
    assert_eq!(world.kind(at(1, 1)), Behind::Link(at(2, 1)));
    assert_eq!(world.kind(at(2, 1)), Behind::Link(at(1, 1)));
    world.run(Duration::from_secs(3600));
    assert_eq!(world.kind(at(1, 1)), Behind::Link(at(2, 1)));
    assert_eq!(world.odd, [(at(1, 1), Odd::Bridged), (at(2, 1), Odd::Bridged)]);
}

#[test]
fn a_switch_that_comes_late_to_a_bridge_that_filters_lldp_is_found_at_once() {
    let mut world = World::new(2);
    world.bridge(&[at(1, 1), at(2, 1)], false);
    world.up(1, 1);
    world.run(Duration::from_secs(60));
    assert_eq!(world.kind(at(1, 1)), Behind::Edge);
    world.up(2, 1);
    world.run(10 * MS);
    assert_eq!(world.kind(at(1, 1)), Behind::Link(at(2, 1)));
}

#[test]
fn three_switches_on_one_bridge_all_know_of_all() {
    for passes_lldp in [false, true] {
        let mut world = World::new(2);
        let ports = [at(1, 1), at(2, 1), at(3, 1)];
        world.bridge(&ports, passes_lldp);
        (1..=3).for_each(|switch| world.up(switch, 2));
        world.run(200 * MS);
        for me in ports {
            let others: Vec<Location> = ports.into_iter().filter(|other| *other != me).collect();
            assert_eq!(world.kind(me), segment(&others), "{me}, LLDP passes: {passes_lldp}");
            assert_ne!(world.kind(at(me.switch.0, 2)), segment(&others));
        }
        world.run(Duration::from_secs(3600));
        assert_eq!(world.kind(at(1, 1)), segment(&[at(2, 1), at(3, 1)]), "it stays");
        world.port_goes(at(3, 1), false);
        world.run(MS);
        assert_eq!(world.kind(at(1, 1)), Behind::Link(at(2, 1)), "two that are left have a link");
    }
}

#[test]
fn two_ports_of_one_switch_on_a_bridge_know_of_each_other() {
    let mut world = World::new(1);
    world.bridge(&[at(1, 1), at(1, 2)], false);
    world.up(1, 2);
    world.run(50 * MS);
    assert_eq!(world.kind(at(1, 1)), Behind::Link(at(1, 2)));
}

#[test]
fn a_port_keeps_few_of_the_many_switches_on_one_bridge_in_mind() {
    let mut world = World::new(1);
    let ports: Vec<Location> = (1..=70).map(|switch| at(switch, 1)).collect();
    world.bridge(&ports, false);
    (1..=70).for_each(|switch| world.up(switch, 1));
    world.run(Duration::from_secs(10));
    assert!(world.odd.iter().any(|(_, what)| *what == Odd::TooManyPeers));
    assert!(
        ports.iter().all(|me| world.kind(*me).peers().len() <= port::MOST_PEERS && world.kind(*me) != Behind::Edge)
    );
}
