//! A reload, and then a restart of the controller: the rules change by what the policies differ in, and no more.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use maple_core::access::{AccessAction, AccessEntry, AccessList, AccessRule};
use maple_core::engine::Options;
use maple_core::network::{Location, Mac};
use maple_core::policy::{Net, PacketHandle, Policy, PolicyError, SamplePacket};
use maple_core::route::Route;
use maple_core::trace::Cond;
use maple_sim::{Choices, SimNetwork};
use maple_wire::packet::build::Frame;
use maple_wire::{Constraint, Dpid, Field, PortNo, Version};

use crate::scripts::flow_mods;

/// The number of switches in the ring, and of hosts in the network.
const SWITCHES: u64 = 4;
const HOSTS: u8 = 17;

/// An access list in front of the shortest path.
struct Guarded(AccessList);

impl Policy for Guarded {
    fn decide(&self, pkt: &PacketHandle, net: &Net) -> Result<Route, PolicyError> {
        if self.0.ask(pkt).action == AccessAction::Deny {
            return Ok(Route::drop());
        }
        let place = |mac: Mac| net.locate(mac);
        Ok(match (place(pkt.eth_src()), place(pkt.eth_dst())) {
            (Some(src), Some(dst)) => net.shortest_path(src, dst),
            _ => Route::flood(),
        })
    }

    fn samples(&self) -> Vec<SamplePacket> {
        self.0.samples().to_vec()
    }
}

fn address(host: u8) -> [u8; 4] {
    [10, 0, host % 4, host]
}

fn mac(host: u8) -> Mac {
    Mac([0, 0, 0, 0, 0, host])
}

/// A flow of TCP: both hosts, and the port that it goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Flow {
    from: u8,
    to: u8,
    port: u16,
}

impl Flow {
    fn any(random: &mut Choices) -> Flow {
        let mut host = || 1 + random.below(usize::from(HOSTS)) as u8;
        let (from, to) = (host(), host());
        Flow { from, to, port: *random.pick(&[22, 53, 80, 443, 8080, 8443]) }
    }

    fn frame(self) -> Vec<u8> {
        let frame = Frame::ethernet(mac(self.to).0, mac(self.from).0);
        frame.ipv4(address(self.from), address(self.to)).tcp(1000, self.port).payload(b"hello")
    }

    fn at(self) -> Location {
        place(self.from)
    }
}

fn place(host: u8) -> Location {
    let number = u64::from(host) - 1;
    Location::new(Dpid(1 + number % SWITCHES), PortNo(3 + (number / SWITCHES) as u32))
}

fn constraint(field: Field, value: u32, bits: u32) -> Constraint {
    let mask = field.full_mask() & !field.full_mask().checked_shr(bits).unwrap_or(0);
    Constraint::masked(field, u128::from(value) & mask, mask)
}

/// Returns an entry of a list: some of the hosts, or some of the ports.
fn entry(random: &mut Choices) -> Cond {
    let mut cond = Cond::default().and(Constraint::exact(Field::EthType, 0x800));
    let host = |random: &mut Choices, field: Field, bits: u32, cond: Cond| {
        let value = u32::from_be_bytes(address(1 + random.below(usize::from(HOSTS)) as u8));
        if bits == 0 { cond } else { cond.and(constraint(field, value, bits)) }
    };
    let (from, to) = (*random.pick(&[0, 24, 30, 32]), *random.pick(&[0, 24, 30, 32]));
    cond = host(random, Field::Ipv4Src, from, cond);
    cond = host(random, Field::Ipv4Dst, to, cond);
    // A line about everything would leave nothing to those after it.
    if from + to < 48 || random.chance(60) {
        let port = Flow::any(random).port;
        cond = cond.and(Constraint::exact(Field::IpProto, 6)).and(Constraint::exact(Field::TcpDst, port.into()));
    }
    cond
}

type Lines = Vec<(Cond, AccessAction)>;

fn lines(random: &mut Choices, count: usize) -> Lines {
    let action = |random: &mut Choices| if random.chance(40) { AccessAction::Deny } else { AccessAction::Allow };
    (0..count).map(|_| (entry(random), action(random))).collect()
}

/// Returns the list with one line changed.
fn with_another_line(random: &mut Choices, lines: &Lines) -> Lines {
    let (mut other, at) = (lines.clone(), random.below(lines.len()));
    match random.below(4) {
        0 => drop(other.remove(at)),
        1 => other.insert(at, self::lines(random, 1).remove(0)),
        2 => other[at] = self::lines(random, 1).remove(0),
        _ => {
            other[at].1 = match other[at].1 {
                AccessAction::Deny => AccessAction::Allow,
                _ => AccessAction::Deny,
            }
        }
    }
    other
}

fn policy(lines: &Lines, default: AccessAction) -> Arc<dyn Policy> {
    let rule = |action| AccessRule { action, source: None, carries: None, log: false };
    let entries = lines.iter().enumerate().map(|(at, (cond, _))| AccessEntry {
        cond: cond.clone(),
        groups: Vec::new(),
        switch: None,
        rule: at as u32,
    });
    let rules = lines.iter().map(|(_, action)| rule(*action)).collect();
    Arc::new(Guarded(AccessList::new(entries, rules, rule(default), Vec::new())))
}

fn network(policy: Arc<dyn Policy>, shards: u8, version: Version, seed: u64) -> SimNetwork {
    let mut sim = SimNetwork::new(policy, shards, &Options::default(), seed);
    let ports = 2 + u32::from(HOSTS).div_ceil(SWITCHES as u32);
    (1..=SWITCHES).for_each(|dpid| sim.add_switch(Dpid(dpid), version, ports));
    sim.run();
    for dpid in 1..=SWITCHES {
        let next = dpid % SWITCHES + 1;
        sim.add_link(Location::new(Dpid(dpid), PortNo(2)), Location::new(Dpid(next), PortNo(1)));
    }
    sim.settle();
    for host in 1..=HOSTS {
        sim.place_host(mac(host), place(host));
    }
    sim
}

/// A case: two policies that differ in a line, and the packets that hosts have sent under the first.
struct Case {
    seed: u64,
    random: Choices,
    version: Version,
    before: Arc<dyn Policy>,
    after: Arc<dyn Policy>,
}

impl Case {
    fn new(seed: u64) -> Case {
        let mut random = Choices::new(seed);
        let count = 5 + random.below(100);
        let before = lines(&mut random, count);
        let after = with_another_line(&mut random, &before);
        let default = if random.chance(50) { AccessAction::Deny } else { AccessAction::Allow };
        let version = if random.chance(15) { Version::Of10 } else { Version::Of13 };
        Case { seed, version, before: policy(&before, default), after: policy(&after, default), random }
    }

    /// Creates a network at rest under the first policy.
    fn network(&mut self) -> SimNetwork {
        self.random = Choices::new(!self.seed);
        let shards = 1 + self.random.below(2) as u8;
        let mut sim = network(Arc::clone(&self.before), shards, self.version, self.seed);
        for _ in 0..100 + self.random.below(500) {
            let flow = Flow::any(&mut self.random);
            sim.inject(flow.at(), flow.frame());
            sim.run_for(Duration::from_micros(self.random.below(2000) as u64));
        }
        sim.run();
        sim.messages = Some(Vec::new());
        sim
    }

    /// Starts another process of the controller. As at a take-over, it may get the rules from the first one.
    fn restart(&mut self, sim: &mut SimNetwork) {
        sim.restart_with_rules(self.random.one_in(2));
        sim.restart_controller(1 + self.random.below(2) as u8);
        sim.run();
    }
}

/// Returns seeds: some that are always the same, and some that are new each time.
fn seeds() -> Vec<u64> {
    if let Ok(seed) = std::env::var("CONTRACT_SEED") {
        return vec![seed.parse().expect("CONTRACT_SEED is a number")];
    }
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is later than 1970");
    let fresh = since.as_nanos() as u64;
    (1..40).chain(fresh..fresh + 20).collect()
}

#[test]
fn a_restart_with_the_policy_that_was_reloaded_changes_no_rule() {
    let (mut reloads, mut rounds, mut changed) = (0, 0, 0);
    for seed in seeds() {
        let mut case = Case::new(seed);
        let mut sim = case.network();
        case.restart(&mut sim);
        assert_eq!(flow_mods(&mut sim), [], "seed {seed}, without a reload");
        sim.reload(Arc::clone(&case.after));
        sim.run();
        reloads += usize::from(!flow_mods(&mut sim).is_empty());
        for _ in 0..2 {
            case.restart(&mut sim);
            rounds += 1;
            changed += usize::from(!flow_mods(&mut sim).is_empty());
        }
    }
    assert!(reloads > 0, "some reloads must change rules");
    // A rule for which others left no priority free may move once.
    assert!(changed * 10 <= rounds, "rules changed in {changed} of {rounds} restarts");
}

#[test]
fn a_restart_with_the_policy_before_takes_about_as_many_changes_as_its_reload() {
    let (mut total, mut by_reloads) = (0, 0);
    for seed in seeds() {
        let mut case = Case::new(seed);
        let mut twin = case.network();
        twin.reload(Arc::clone(&case.after));
        twin.run();
        drop(flow_mods(&mut twin));
        twin.reload(Arc::clone(&case.before));
        twin.run();
        let back = flow_mods(&mut twin).len();
        let mut sim = case.network();
        sim.reload(Arc::clone(&case.after));
        sim.run();
        drop(flow_mods(&mut sim));
        sim.succeed_by(Arc::clone(&case.before));
        case.restart(&mut sim);
        let restarted = flow_mods(&mut sim).len();
        total += restarted;
        by_reloads += back;
    }
    assert!(total > 0, "some policies must differ");
    // Rules that come back have lost their priorities with the process, and others may have to make way. Over all cases
    // together, these are not many.
    assert!(total <= 2 * by_reloads, "{total} changes, and {by_reloads} for the reloads");
}

#[test]
fn a_crash_during_a_reload_costs_about_as_much_as_the_reload() {
    let (mut is_half_way, mut total, mut by_reloads) = (0, 0, 0);
    for seed in seeds() {
        let mut case = Case::new(seed);
        let mut twin = case.network();
        twin.reload(Arc::clone(&case.after));
        twin.run();
        let whole = flow_mods(&mut twin).len();
        let mut sim = case.network();
        sim.reload(Arc::clone(&case.after));
        sim.run_for(Duration::from_micros(case.random.below(20_000) as u64));
        let sent = flow_mods(&mut sim).len();
        case.restart(&mut sim);
        let restarted = flow_mods(&mut sim).len();
        total += sent + restarted;
        by_reloads += whole;
        is_half_way += usize::from(sent > 0 && restarted > 0);
    }
    assert!(is_half_way > 0, "some crashes must come in the middle");
    // Half of an update may have been in vain.
    assert!(total <= 2 * by_reloads, "{total} changes with crashes, and {by_reloads} without");
}
