//! Tests of the hosts' part by itself: packets, messages, timers and statistics in, actions out. The fixture carries
//! out the writes.

use std::sync::Arc;

use maple_wire::msg::stats::{AggregateStats, FlowStats, ReplyBody, StatsReply};
use maple_wire::packet::build::Frame;
use maple_wire::{Dpid, Field, Match, Packet, Version};

use super::*;
use crate::engine::messages::mail::FindHost;
use crate::engine::messages::received_packet::from_port;
use crate::network::{Facts, HostFacts, PortInfo};
use crate::state::{Store, SwitchInfo, Write};

const SHARD: ShardId = ShardId(0);
const GATEWAY: Mac = Mac([2, 0, 0, 0, 0, 1]);
const OTHER: Mac = Mac([2, 0, 0, 0, 0, 2]);

fn at(port: u32) -> Location {
    Location::new(Dpid(1), PortNo(port))
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn mac(number: u32) -> Mac {
    Mac::from_bits(0x0200_0000_0000 + u128::from(number))
}

/// A switch with edge ports 1 to 4, and the part that keeps track of its hosts.
struct Fixture {
    hosts: Hosts,
    store: Arc<Store>,
    now: Time,
    /// The counter of each host.
    packets: BTreeMap<Mac, u64>,
    xid: u32,
    timers: BTreeSet<(Time, Timer)>,
    has_counters: bool,
}

impl Fixture {
    fn new(options: &Options) -> Fixture {
        let store = Store::new();
        let info = Some(SwitchInfo { shard: SHARD, version: Version::Of13 });
        let port = |n| Write::Port { at: at(n), info: Some(PortInfo { up: true, kind: PortKind::Edge }) };
        store.update(|_| [Write::Switch { dpid: Dpid(1), info }].into_iter().chain((1..=4).map(port)).collect());
        Fixture {
            hosts: Hosts::new(options),
            store,
            now: Time(1_000_000_000_000),
            packets: BTreeMap::new(),
            xid: 0,
            timers: BTreeSet::new(),
            has_counters: true,
        }
    }

    fn ask<T>(
        &mut self,
        ask: impl FnOnce(&mut Hosts, Time, &Snapshot, &mut Vec<HostAction>) -> T,
    ) -> (T, Vec<HostAction>) {
        let mut actions = Vec::new();
        let answer = ask(&mut self.hosts, self.now, &self.store.snapshot(), &mut actions);
        let mut all = Vec::new();
        for action in actions {
            all.push(action.clone());
            all.extend(self.perform(action));
        }
        (answer, all)
    }

    fn packet(&mut self, mac: Mac, port: u32, announces: Option<&str>) -> (SourceCheck, Vec<HostAction>) {
        let sender = Sender { mac, at: at(port), announces: announces.map(ip) };
        self.ask(|hosts, now, state, out| hosts.on_packet(now, state, sender, out))
    }

    /// Carries out an action as the engine would. Returns the further actions that follow.
    fn perform(&mut self, action: HostAction) -> Vec<HostAction> {
        let place = |mac: Mac, location, change: &dyn Fn(&mut HostInfo)| {
            self.store.update(|state| {
                let none = HostInfo { location, ipv4: BTreeSet::new(), ipv6: BTreeSet::new() };
                let mut info = state.host(mac).cloned().unwrap_or(none);
                info.location = location;
                change(&mut info);
                vec![Write::Host { mac, info: Some(info) }]
            });
        };
        match action {
            HostAction::Learn { mac, at, ip } => place(mac, at, &|info| ip.into_iter().for_each(|ip| info.insert(ip))),
            HostAction::Bind { mac, at, ip, instead } => place(mac, at, &|info| {
                instead.into_iter().for_each(|old| info.remove(old));
                info.insert(ip);
            }),
            HostAction::Unbind { mac, at, ip } => place(mac, at, &|info| info.remove(ip)),
            HostAction::Move { mac, from, to, .. } => {
                place(mac, to, &|_| ());
                self.hosts.on_departure(mac, from);
                return self.ask(|hosts, now, state, out| hosts.on_arrival(now, state, mac, to, out)).1;
            }
            HostAction::Forget { mac, .. } => drop(self.store.update(|_| vec![Write::Host { mac, info: None }])),
            HostAction::Find { mac, at, named } => {
                let question = FindHost { mac, at, named, asker: SHARD };
                return self.ask(|hosts, now, state, out| hosts.on_find(now, state, question, out)).1;
            }
            HostAction::ReportSearch { mac, at, found, .. } => {
                return self.ask(|hosts, now, _, out| hosts.on_found(now, mac, at, found, out)).1;
            }
            HostAction::Count { at, mac } => return self.count(at, mac),
            HostAction::Wake(time, timer) => drop(self.timers.insert((time, timer))),
            _ => {}
        }
        Vec::new()
    }

    fn count(&mut self, at: Location, mac: Option<Mac>) -> Vec<HostAction> {
        self.xid += 1;
        let xid = self.xid;
        self.hosts.on_counting(xid, at, mac);
        if !self.has_counters {
            return self.ask(|hosts, now, _, out| hosts.on_stats_refused(now, Dpid(1), xid, out)).1;
        }
        let body = match mac {
            Some(mac) => ReplyBody::Aggregate(AggregateStats {
                packet_count: self.packets.get(&mac).copied().unwrap_or_default(),
                byte_count: 0,
                flow_count: 1,
            }),
            None => ReplyBody::Flow(self.packets.iter().map(|(mac, count)| line(at, *mac, *count)).collect()),
        };
        let reply = StatsReply { flags: 0, body };
        self.ask(|hosts, now, _, out| hosts.on_stats(now, Dpid(1), xid, &reply, out)).1
    }

    /// Lets time pass, and calls `each` every tenth of a second.
    fn wait(&mut self, seconds: u32, mut each: impl FnMut(&mut Fixture)) -> Vec<HostAction> {
        let mut all = Vec::new();
        for _ in 0..seconds * 10 {
            self.now = self.now + Duration::from_millis(100);
            each(self);
            while let Some((_, timer)) = self.timers.first().copied().filter(|(time, _)| *time <= self.now) {
                self.timers.pop_first();
                let (_, actions) = self.ask(|hosts, now, _, out| match timer {
                    Timer::Search(mac) => hosts.on_search_timer(now, mac, out),
                    Timer::Guard(at) => hosts.on_guard_timer(now, at, out),
                    Timer::Muted(at, mac) => hosts.on_muted_timer(at, mac, out),
                    Timer::Hosts(dpid) => hosts.on_round_timer(now, dpid, out),
                    other => panic!("{other:?} is no timer of hosts"),
                });
                all.extend(actions);
            }
        }
        all
    }

    fn place(&self, mac: Mac) -> Option<Location> {
        self.store.snapshot().host(mac).map(|host| host.location)
    }
}

fn line(at: Location, mac: Mac, packet_count: u64) -> FlowStats {
    FlowStats {
        table_id: 0,
        duration_sec: 0,
        duration_nsec: 0,
        priority: 0,
        idle_timeout: 0,
        hard_timeout: 0,
        flags: 0,
        cookie: 0,
        packet_count,
        byte_count: 0,
        matching: Match::any().with(from_port(at.port)).exact(Field::EthSrc, mac.bits()),
        instructions: Vec::new(),
    }
}

fn moved(actions: &[HostAction]) -> Option<MoveReason> {
    actions.iter().find_map(|action| if let HostAction::Move { why, .. } = action { Some(*why) } else { None })
}

#[test]
fn a_host_that_answers_stays_and_is_asked_by_its_latest_addresses() {
    let mut fixture = Fixture::new(&Options::default());
    for announced in ["10.0.0.9", "10.0.0.1"] {
        fixture.packet(GATEWAY, 1, Some(announced));
    }
    let (check, actions) = fixture.packet(GATEWAY, 2, None);
    assert_eq!(check, SourceCheck::Elsewhere);
    let asked: Vec<u128> = actions
        .iter()
        .filter_map(|action| match action {
            HostAction::Emit { frame, at: to } => Packet::new(frame, 0).get(Field::ArpTpa).filter(|_| *to == at(1)),
            _ => None,
        })
        .collect();
    assert_eq!(asked, [0x0a00_0001, 0x0a00_0009]);
    fixture.packet(GATEWAY, 1, Some("10.0.0.1"));
    assert_eq!(moved(&fixture.wait(20, |fixture| drop(fixture.packet(GATEWAY, 2, None)))), Some(MoveReason::NoAnswer));
    assert_eq!(fixture.place(GATEWAY), Some(at(2)), "it answered only the first time");
}

/// Returns the addresses that a host is asked for at port 1.
fn asked_for(actions: &[HostAction]) -> Vec<String> {
    let asked = actions.iter().filter_map(|action| match action {
        HostAction::Emit { frame, at: to } if *to == at(1) => Some(Packet::new(frame, 0)),
        _ => None,
    });
    let name = |packet: Packet<'_>| match packet.get(Field::ArpTpa) {
        Some(ip) => std::net::Ipv4Addr::from(ip as u32).to_string(),
        None => std::net::Ipv6Addr::from(packet.get(Field::Ipv6NdTarget).unwrap_or_default()).to_string(),
    };
    asked.map(name).collect()
}

#[test]
fn a_host_without_a_known_address_that_roams_is_asked_by_the_one_that_it_announces() {
    for is_announced_first in [true, false] {
        let mut fixture = Fixture::new(&Options::default());
        fixture.packet(GATEWAY, 1, None);
        if !is_announced_first {
            assert_eq!(asked_for(&fixture.packet(GATEWAY, 2, None).1), [""; 0]);
            assert_eq!(moved(&fixture.wait(1, |_| ())), None);
        }
        let (check, actions) = fixture.packet(GATEWAY, 2, Some("10.0.0.7"));
        assert_eq!(check, SourceCheck::Elsewhere);
        assert_eq!(asked_for(&actions), ["10.0.0.7", "fe80::ff:fe00:1"], "{is_announced_first}");
        assert_eq!(moved(&fixture.wait(2, |_| ())), Some(MoveReason::NoAnswer), "{is_announced_first}");
        assert_eq!(fixture.place(GATEWAY), Some(at(2)));
    }
}

#[test]
fn naming_an_address_takes_no_place_of_a_host_that_is_there() {
    // It answers.
    let mut fixture = Fixture::new(&Options::default());
    fixture.packet(GATEWAY, 1, None);
    let (_, actions) = fixture.packet(GATEWAY, 2, Some("10.0.0.7"));
    assert_eq!(asked_for(&actions).len(), 2);
    fixture.packet(GATEWAY, 1, Some("10.0.0.7"));
    assert_eq!((moved(&fixture.wait(1, |_| ())), fixture.place(GATEWAY)), (None, Some(at(1))));
    // It does not have that address, but rules carry what it sends.
    let mut fixture = Fixture::new(&Options::default());
    fixture.packet(GATEWAY, 1, None);
    let actions = fixture.wait(20, |fixture| {
        fixture.packet(GATEWAY, 2, Some("10.0.0.7"));
        *fixture.packets.entry(GATEWAY).or_default() += 1;
    });
    assert_eq!((moved(&actions), fixture.place(GATEWAY)), (None, Some(at(1))));
    // It has an address that is known, or the named one is another host's: only what is known counts.
    for (own, known) in [(Some("10.0.0.1"), vec!["10.0.0.1"]), (None, vec![])] {
        let mut fixture = Fixture::new(&Options::default());
        fixture.packet(OTHER, 3, Some("10.0.0.7"));
        fixture.packet(GATEWAY, 1, own);
        assert_eq!(asked_for(&fixture.packet(GATEWAY, 2, Some("10.0.0.7")).1), known);
    }
}

#[test]
fn a_host_that_keeps_answering_stays_and_the_forger_is_reported_once() {
    let mut fixture = Fixture::new(&Options::default());
    fixture.packet(GATEWAY, 1, Some("10.0.0.1"));
    let actions = fixture.wait(60, |fixture| {
        let (_, actions) = fixture.packet(GATEWAY, 2, None);
        if actions.iter().any(|action| matches!(action, HostAction::Emit { .. })) {
            fixture.packet(GATEWAY, 1, Some("10.0.0.1"));
        }
    });
    assert_eq!((moved(&actions), fixture.place(GATEWAY)), (None, Some(at(1))));
    assert!(fixture.hosts.size() < 12, "{:?}", fixture.hosts);
}

#[test]
fn a_host_that_does_not_answer_stays_while_rules_count_its_packets() {
    let mut fixture = Fixture::new(&Options::default());
    fixture.packet(GATEWAY, 1, Some("10.0.0.1"));
    let mut reported = Vec::new();
    let actions = fixture.wait(30, |fixture| {
        *fixture.packets.entry(GATEWAY).or_default() += 1;
        reported.extend(fixture.packet(GATEWAY, 2, None).1);
    });
    reported.extend(actions);
    assert_eq!((moved(&reported), fixture.place(GATEWAY)), (None, Some(at(1))));
    let lies =
        reported.iter().filter(|action| matches!(action, HostAction::Report(Report::HostSpoofed { .. }))).count();
    assert_eq!(lies, 1);
    // It leaves, and two rounds later it is at the port that claims it.
    let gone = fixture.wait(5, |fixture| drop(fixture.packet(GATEWAY, 2, None)));
    assert_eq!(moved(&gone), Some(MoveReason::NoAnswer));
}

#[test]
fn a_host_without_an_address_moves_after_a_long_silence() {
    for has_counters in [true, false] {
        let mut fixture = Fixture::new(&Options::default());
        fixture.has_counters = has_counters;
        fixture.packet(GATEWAY, 1, None);
        let claim = |fixture: &mut Fixture| drop(fixture.packet(GATEWAY, 2, None));
        assert_eq!(moved(&fixture.wait(9, claim)), None);
        assert_eq!(
            moved(&fixture.wait(3, claim)),
            Some(MoveReason::Silent),
            "the switch reports its counters: {has_counters}"
        );
    }
}

#[test]
fn a_search_ends_even_if_the_switch_never_answers() {
    let mut fixture = Fixture::new(&Options::default());
    fixture.packet(GATEWAY, 1, Some("10.0.0.1"));
    let sender = Sender { mac: GATEWAY, at: at(2), announces: None };
    let mut actions = Vec::new();
    fixture.hosts.on_packet(fixture.now, &fixture.store.snapshot(), sender, &mut actions);
    let question = FindHost { mac: GATEWAY, at: at(1), named: None, asker: SHARD };
    fixture.hosts.on_find(fixture.now, &fixture.store.snapshot(), question, &mut actions);
    fixture.timers.extend(actions.iter().filter_map(|action| match action {
        HostAction::Wake(time, timer) => Some((*time, *timer)),
        _ => None,
    }));
    assert_eq!(moved(&fixture.wait(15, |_| ())), None);
    assert_eq!(moved(&fixture.wait(10, |_| ())), Some(MoveReason::NoAnswer));
}

#[test]
fn a_port_that_claims_every_host_does_not_hinder_other_ports() {
    let mut fixture = Fixture::new(&Options::default());
    (0..200).for_each(|n| drop(fixture.packet(mac(n), 1, Some("10.0.0.1"))));
    let looks =
        |actions: &[HostAction]| actions.iter().filter(|action| matches!(action, HostAction::Find { .. })).count();
    let by_2: usize = (0..200).map(|n| looks(&fixture.packet(mac(n), 2, None).1)).sum();
    let by_3 = looks(&fixture.packet(mac(150), 3, None).1);
    assert_eq!((by_2, by_3), (32, 1));
}

#[test]
fn a_host_whose_port_is_gone_moves_at_once() {
    let mut fixture = Fixture::new(&Options::default());
    fixture.packet(GATEWAY, 1, Some("10.0.0.1"));
    fixture.store.update(|_| vec![Write::Port { at: at(1), info: None }]);
    let (check, actions) = fixture.packet(GATEWAY, 2, None);
    assert_eq!((check, moved(&actions)), (SourceCheck::Accepted, Some(MoveReason::PortGone)));
}

#[test]
fn a_port_has_a_maximum_of_hosts_and_drops_further_ones_for_a_while() {
    let options = Options { max_hosts_per_port: 10, ..Options::default() };
    let mut fixture = Fixture::new(&options);
    let mut guards = 0;
    let mut reports = 0;
    for n in 0..100_000 {
        let (check, actions) = fixture.packet(mac(n), 1, Some("10.0.0.1"));
        assert_eq!(check, if n < 10 { SourceCheck::Accepted } else { SourceCheck::TooManyHosts });
        guards += actions.iter().filter(|action| matches!(action, HostAction::Guard { on: true, .. })).count();
        reports += actions.iter().filter(|action| matches!(action, HostAction::Report(_))).count();
    }
    assert_eq!((guards, reports), (1, 1));
    assert!(fixture.hosts.size() < 40 && fixture.timers.len() < 5, "{:?}", fixture.hosts);
    assert_eq!(fixture.packet(mac(3), 1, None).0, SourceCheck::Accepted, "a host that was known before");
    assert_eq!(fixture.packet(mac(500_000), 2, None).0, SourceCheck::Accepted, "and at other ports");
    let actions = fixture.wait(11, |_| ());
    assert!(actions.contains(&HostAction::Guard { at: at(1), on: false }));
    let (_, actions) = fixture.packet(mac(11), 1, None);
    assert!(actions.contains(&HostAction::Guard { at: at(1), on: true }), "the port is as full as before");
}

#[test]
fn ports_that_flood_share_the_capacity_and_others_get_theirs() {
    let options = Options { max_hosts: 30, max_hosts_per_port: 20, ..Options::default() };
    let mut fixture = Fixture::new(&options);
    for port in [1, 2] {
        (0..100).for_each(|n| drop(fixture.packet(mac(1000 * port + n), port, None)));
    }
    for n in 0..5 {
        assert_eq!(fixture.packet(mac(9000 + n), 3, None).0, SourceCheck::Accepted);
    }
    let count = |port| fixture.hosts.at_port(at(port)).count();
    assert_eq!((count(1), count(2), count(3)), (12, 13, 5));
}

#[test]
fn silent_hosts_are_forgotten_and_hosts_with_counted_packets_stay() {
    let options = Options { host_timeout: Duration::from_secs(60), ..Options::default() };
    for has_counters in [true, false] {
        let mut fixture = Fixture::new(&options);
        fixture.has_counters = has_counters;
        [GATEWAY, OTHER].into_iter().for_each(|mac| drop(fixture.packet(mac, 1, None)));
        let actions = fixture.wait(200, |fixture| *fixture.packets.entry(GATEWAY).or_default() += 1);
        assert!(actions.contains(&HostAction::Forget { mac: OTHER, at: at(1) }));
        let is_there = fixture.place(GATEWAY).is_some();
        assert_eq!(
            (is_there, fixture.place(OTHER)),
            (has_counters, None),
            "the switch reports its counters: {has_counters}"
        );
        fixture.wait(300, |_| ());
        assert_eq!(fixture.hosts.size(), 0, "{:?}", fixture.hosts);
    }
}

#[test]
fn the_next_packet_of_an_expiring_host_is_awaited() {
    let options = Options { host_timeout: Duration::from_secs(60), ..Options::default() };
    let mut fixture = Fixture::new(&options);
    fixture.packet(GATEWAY, 1, None);
    fixture.wait(40, |_| ());
    assert!(fixture.hosts.awaits(GATEWAY));
    fixture.packet(GATEWAY, 1, None);
    assert!(!fixture.hosts.awaits(GATEWAY));
    fixture.wait(50, |_| ());
    assert_eq!(fixture.place(GATEWAY), Some(at(1)));
}

#[test]
fn too_many_addresses_replace_the_oldest_and_are_reported_once() {
    let mut fixture = Fixture::new(&Options::default());
    let mut reports = 0;
    for n in 0..40 {
        fixture.now = fixture.now + Duration::from_secs(1);
        let (_, actions) = fixture.packet(GATEWAY, 1, Some(&format!("10.0.0.{}", n + 1)));
        reports += actions.iter().filter(|action| matches!(action, HostAction::Report(_))).count();
    }
    fixture.packet(GATEWAY, 1, Some("fe80::1"));
    let state = fixture.store.snapshot();
    let host = state.host(GATEWAY).expect("it is known");
    let last: Vec<String> = host.addresses().map(|ip| ip.to_string()).collect();
    let want: Vec<String> = (25..=40).map(|n| format!("10.0.0.{n}")).chain(["fe80::1".to_owned()]).collect();
    assert_eq!((last, reports), (want, 1));
}

#[test]
fn a_host_is_asked_for_an_address_before_it_is_forgotten() {
    let options = Options { host_timeout: Duration::from_secs(60), ..Options::default() };
    let mut fixture = Fixture::new(&options);
    fixture.packet(GATEWAY, 1, Some("10.0.0.1"));
    fixture.packet(GATEWAY, 1, Some("10.0.0.2"));
    let is_asked = |action: &HostAction| matches!(action, HostAction::Emit { .. });
    let actions = fixture.wait(300, |fixture| {
        *fixture.packets.entry(GATEWAY).or_default() += 1;
        // It still has one of its two addresses.
        if fixture.hosts.rounds[&Dpid(1)].asking.is_none() && fixture.xid % 2 == 1 {
            fixture.packet(GATEWAY, 1, Some("10.0.0.2"));
        }
    });
    assert!(actions.iter().any(is_asked));
    assert!(actions.contains(&HostAction::Unbind { mac: GATEWAY, at: at(1), ip: ip("10.0.0.1") }));
    assert_eq!(fixture.store.snapshot().host_by_ip(ip("10.0.0.2")), Some(GATEWAY));
}

#[test]
fn a_host_that_announces_too_much_is_muted_for_a_while() {
    let mut fixture = Fixture::new(&Options::default());
    let mut actions = Vec::new();
    (0..1000u32).for_each(|n| actions.extend(fixture.packet(GATEWAY, 1, Some(&format!("10.0.{}.1", n % 200))).1));
    let binds = actions.iter().filter(|action| matches!(action, HostAction::Bind { .. })).count();
    let mutes = actions.iter().filter(|action| matches!(action, HostAction::Mute { on: true, .. })).count();
    assert_eq!((binds, mutes), (20, 1));
    let again = fixture.wait(11, |_| ());
    assert!(again.contains(&HostAction::Mute { mac: GATEWAY, at: at(1), on: false }));
}

#[test]
fn so_is_a_host_that_announces_the_declared_address_of_another() {
    let owner = HostFacts { at: None, addresses: [ip("10.0.0.1")].into() };
    let facts = Facts::new(BTreeMap::new(), [(OTHER, owner)].into());
    let mut fixture = Fixture::new(&Options { facts: Arc::new(facts), ..Options::default() });
    let mut actions = Vec::new();
    (0..1000).for_each(|_| actions.extend(fixture.packet(GATEWAY, 1, Some("10.0.0.1")).1));
    let binds = actions.iter().filter(|action| matches!(action, HostAction::Bind { .. })).count();
    let mutes = actions.iter().filter(|action| matches!(action, HostAction::Mute { on: true, .. })).count();
    assert_eq!((binds, mutes), (0, 1));
}

#[test]
fn only_the_owner_of_an_address_announces_it() {
    let (own, other) = (GATEWAY.0, OTHER.0);
    let frame = || Frame::ethernet([0xff; 6], own);
    let v4 = |last| std::net::Ipv4Addr::new(10, 0, 0, last);
    let said = |frame: &[u8]| {
        let packet = Packet::new(frame, 1);
        assert!(announcement(&packet).is_none() || is_announcement(&packet));
        announcement(&packet).map(|ip| ip.to_string())
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(said(&frame().arp_request(v4(1), v4(2))), some("10.0.0.1"));
    assert_eq!(said(&frame().vlan(5).arp_reply(v4(1), v4(2))), some("10.0.0.1"));
    assert_eq!(said(&frame().arp(1, other, v4(1), [0; 6], v4(2))), None, "for another");
    assert_eq!(said(&frame().arp_request([0, 0, 0, 0], v4(2))), None, "duplicate address detection");
    assert_eq!(said(&frame().ipv4([1, 1, 1, 1], [10, 0, 0, 1]).udp(1, 2).build()), None, "routed");
    let ip6 = |text: &str| text.parse::<std::net::Ipv6Addr>().expect("an address");
    assert_eq!(said(&frame().neighbor_solicit(ip6("fe80::1"), ip6("fe80::2"))), some("fe80::1"));
    assert_eq!(said(&frame().neighbor_solicit(ip6("::"), ip6("fe80::2"))), None);
    assert_eq!(said(&frame().neighbor_advert(ip6("fe80::7"), ip6("fe80::2"))), some("fe80::7"));
}

#[test]
fn a_dhcp_client_announces_the_address_that_it_has_or_asks_for() {
    let dhcp = |op: u8, kind: u8, client: [u8; 6], has: [u8; 4], asks: Option<[u8; 4]>| {
        let mut message = vec![0u8; 236];
        (message[0], message[1], message[2]) = (op, 1, 6);
        message[12..16].copy_from_slice(&has);
        message[28..34].copy_from_slice(&client);
        message.extend([99, 130, 83, 99, 53, 1, kind]);
        asks.into_iter().for_each(|ip| message.extend([0, 50, 4, ip[0], ip[1], ip[2], ip[3]]));
        message.push(255);
        let frame = Frame::ethernet([0xff; 6], GATEWAY.0).ipv4([0, 0, 0, 0], [255, 255, 255, 255]);
        let frame = frame.udp(68, 67).payload(&message);
        let whole = announcement(&Packet::new(&frame, 1));
        for cut in 0..frame.len() {
            announcement(&Packet::with_wire_len(&frame[..cut], 1, frame.len()));
        }
        whole.map(|ip| ip.to_string())
    };
    let (own, some) = (GATEWAY.0, Some("10.0.0.7".to_owned()));
    assert_eq!(dhcp(1, 3, own, [0; 4], Some([10, 0, 0, 7])), some);
    assert_eq!(dhcp(1, 3, own, [10, 0, 0, 7], None), some);
    assert_eq!(dhcp(1, 3, OTHER.0, [10, 0, 0, 7], None), None, "for another");
    assert_eq!(dhcp(1, 1, own, [0; 4], Some([10, 0, 0, 7])), None, "a client that looks for a server");
    assert_eq!(dhcp(2, 5, own, [10, 0, 0, 7], None), None, "a server's acknowledgement");
    assert_eq!(dhcp(1, 3, own, [0; 4], None), None);
}
