//! Access lists between groups of addresses: switches look the groups up, so rules grow with addresses and not with
//! pairs of them. Whatever a switch can look up, packets get the answer of the list, also while another list takes its
//! place.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use maple_acl::List;
use maple_core::access::{AccessAction, AccessEntry, AccessGroup, AccessList, AccessRule};
use maple_core::engine::Options;
use maple_core::policy::{Net, PacketHandle, Policy, PolicyError, SamplePacket};
use maple_core::route::Route;
use maple_core::trace::{Cond, Source};
use maple_core::{Composition, LOOK_UP_TABLES};
use maple_sim::seeds::Seeds;
use maple_sim::{Choices, SimNetwork, SimSwitch};
use maple_switch::Outgoing;
use maple_wire::packet::build::Frame;
use maple_wire::{Constraint, Dpid, Field, Message, PortNo, Version};

use crate::look_ups::packet_ins;
use crate::scripts::{at, flow_mods};

const ONE: Dpid = Dpid(1);
/// The port by which packets enter. The ports before it are those of answers.
const INGRESS: u32 = 9;
/// The number of addresses that packets have.
const HOSTS: u8 = 5;

/// A packet: the hosts that it comes from and goes to, and its port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sent {
    from: u8,
    to: u8,
    port: u16,
}

fn all_packets() -> impl Iterator<Item = Sent> {
    let pairs = (0..HOSTS).flat_map(|from| (0..HOSTS).map(move |to| (from, to)));
    pairs.flat_map(|(from, to)| [80, 443].map(|port| Sent { from, to, port }))
}

fn ip(host: u8) -> [u8; 4] {
    [10, 0, 0, host]
}

fn address(host: u8) -> u128 {
    u32::from_be_bytes(ip(host)).into()
}

impl Sent {
    fn frame(self) -> Vec<u8> {
        let frame = Frame::ethernet([2, 0, 0, 0, 0, self.to], [2, 0, 0, 0, 0, self.from]);
        frame.ipv4(ip(self.from), ip(self.to)).udp(1000, self.port).payload(b"hello")
    }
}

/// A rule: the packets from and to hosts of a group, or from a prefix, and to a port.
#[derive(Clone, Debug)]
struct Line {
    from: Option<usize>,
    to: Option<usize>,
    prefix: Option<(u8, u32)>,
    port: Option<u16>,
    /// The port by which allowed packets leave.
    exit: Option<u32>,
}

/// A list, as one would write it.
#[derive(Clone, Debug)]
struct Written {
    groups: Vec<BTreeSet<u8>>,
    lines: Vec<Line>,
}

impl Line {
    fn any(random: &mut Choices) -> Line {
        let group = |random: &mut Choices| (!random.one_in(4)).then(|| random.below(3));
        Line {
            from: group(random),
            to: group(random),
            prefix: random.one_in(4).then(|| (random.below(usize::from(HOSTS)) as u8, 30 + random.below(3) as u32)),
            port: random.one_in(3).then(|| *random.pick(&[80, 443])),
            exit: (!random.one_in(3)).then(|| 1 + random.below(8) as u32),
        }
    }

    fn has(&self, groups: &[BTreeSet<u8>], Sent { from, to, port }: Sent) -> bool {
        self.from.is_none_or(|group| groups[group].contains(&from))
            && self.to.is_none_or(|group| groups[group].contains(&to))
            && self.prefix.is_none_or(|(host, length)| (host ^ from) >> (32 - length) == 0)
            && self.port.is_none_or(|wanted| wanted == port)
    }
}

impl Written {
    fn any(random: &mut Choices) -> Written {
        let groups = (0..3).map(|_| (0..HOSTS).filter(|_| random.one_in(2)).collect()).collect();
        let lines = (0..1 + random.below(5)).map(|_| Line::any(random)).collect();
        Written { groups, lines }
    }

    /// Returns the list with one thing changed, which mostly is whether a host is in a group.
    fn changed(&self, random: &mut Choices) -> Written {
        let mut other = self.clone();
        let (line, group, host) = (random.below(other.lines.len()), random.below(3), random.below(usize::from(HOSTS)));
        match random.below(6) {
            0 => other.lines[line] = Line::any(random),
            1 => other.lines.insert(line, Line::any(random)),
            _ if !other.groups[group].remove(&(host as u8)) => drop(other.groups[group].insert(host as u8)),
            _ => {}
        }
        other
    }

    /// Returns the port by which a packet leaves, by a plain search.
    fn answer(&self, sent: Sent) -> Option<u32> {
        self.lines.iter().find(|line| line.has(&self.groups, sent))?.exit
    }

    fn policy(&self, samples: Vec<SamplePacket>) -> Arc<dyn Policy> {
        let group = |field, number: usize| AccessGroup {
            name: format!("group {number}").into(),
            field,
            addresses: self.groups[number].iter().map(|host| address(*host)).collect(),
        };
        let entry = |(line, rule): (&Line, u32)| {
            let from = line.from.map(|number| group(Field::Ipv4Src, number));
            let to = line.to.map(|number| group(Field::Ipv4Dst, number));
            let prefix = line.prefix.map(|(host, length)| {
                let mask = u128::from(u32::MAX << (32 - length));
                Constraint::masked(Field::Ipv4Src, address(host) & mask, mask)
            });
            let port = line.port.map(|port| Constraint::exact(Field::UdpDst, port.into()));
            let cond = [prefix, port].into_iter().flatten().fold(Cond::default(), Cond::and);
            AccessEntry { cond, groups: from.into_iter().chain(to).collect(), switch: None, rule }
        };
        let rule = |line: u32, exit: Option<u32>| {
            let action = if exit.is_some() { AccessAction::Allow } else { AccessAction::Deny };
            AccessRule { action, source: Some(Source::new("list.yaml", line)), carries: None, log: false }
        };
        let rules = self.lines.iter().zip(1..).map(|(line, number)| rule(number, line.exit)).collect();
        let list = AccessList::new(self.lines.iter().zip(0..).map(entry), rules, rule(0, None), Vec::new());
        Arc::new(ToExits { list: Arc::new(list), exits: self.lines.iter().map(|line| line.exit).collect(), samples })
    }
}

/// Sends packets where the rule of a list says.
struct ToExits {
    list: Arc<AccessList>,
    exits: Vec<Option<u32>>,
    samples: Vec<SamplePacket>,
}

impl Policy for ToExits {
    fn decide(&self, pkt: &PacketHandle, _: &Net) -> Result<Route, PolicyError> {
        let line = self.list.ask(pkt).source.as_ref().expect("it has one").line as usize;
        let exit = line.checked_sub(1).and_then(|index| self.exits[index]);
        Ok(exit.map_or_else(Route::drop, |port| Route::to([PortNo(port)])))
    }

    fn samples(&self) -> Vec<SamplePacket> {
        self.samples.clone()
    }

    fn access_lists(&self) -> Vec<Arc<AccessList>> {
        vec![Arc::clone(&self.list)]
    }
}

fn samples(random: &mut Choices) -> Vec<SamplePacket> {
    let count = random.below(20);
    all_packets().filter(|_| random.one_in(3)).take(count).map(|sent| SamplePacket::new(sent.frame())).collect()
}

/// Sends each packet. Compares where it comes out with the list.
fn check_all(sim: &mut SimNetwork, list: &Written) {
    for sent in all_packets() {
        sim.inject(at(1, INGRESS), sent.frame());
        sim.run();
        let exits: Vec<u32> = sim.delivered.drain(..).map(|delivery| delivery.at.port.0).collect();
        assert_eq!(exits, Vec::from_iter(list.answer(sent)), "{sent:?} by {list:?}");
    }
}

fn connected(policy: Arc<dyn Policy>, switch: SimSwitch, options: &Options) -> SimNetwork {
    let options = Options { track_hosts: false, ..options.clone() };
    let mut sim = SimNetwork::new(policy, 1, &options, 7);
    sim.connect(switch, (1..=INGRESS).map(PortNo));
    for _ in 0..2 {
        sim.run_for(Duration::from_secs(1));
        sim.settle_ports();
    }
    sim.run();
    sim
}

#[test]
fn packets_get_the_answer_of_one_list_after_each_message_of_a_reload() {
    // Keys are refused while a restarted controller takes over the rules of leaves for packets without a key.
    reload_under_watch(296_310_340_775);
    let Seeds { fixed, fresh } = Seeds::share(|all| all, 24, 12);
    let all: u64 = fixed.chain(fresh).map(reload_under_watch).sum();
    assert!(maple_sim::seeds::are_chosen() || all > 10_000, "{all} packets were answered in the middle of updates");
}

/// Changes a list again and again, while each packet passes the switch after each message. Returns the number of
/// packets that the switch answered by itself.
fn reload_under_watch(seed: u64) -> u64 {
    println!("MAPLE_SEED={seed}");
    let mut random = Choices::new(seed);
    let version = if random.one_in(8) { Version::Of10 } else { Version::Of13 };
    let mut switch = SimSwitch::new(ONE, version);
    let bundles = random.one_in(3);
    switch.model.change_options(|options| options.bundles = bundles);
    // The controller may restart, and a table may be full.
    let has_restarts = random.one_in(2);
    if random.one_in(2) {
        switch.model.set_table_size(1 + random.below(2) as u8, 2);
    }
    let max_classes = if random.one_in(4) { 1 + random.below(3) as u16 } else { u16::MAX };
    let look_up_tables = random.below(5) as u8;
    let list = Written::any(&mut random);
    let of_list = samples(&mut random);
    let options = Options { max_classes, look_up_tables, ..Options::default() };
    let mut sim = connected(list.policy(of_list), switch, &options);
    check_all(&mut sim, &list);
    let allowed: Arc<Mutex<Vec<BTreeSet<Option<u32>>>>> = Arc::default();
    let answered = Arc::new(Mutex::new(0));
    let (of_watch, count) = (Arc::clone(&allowed), Arc::clone(&answered));
    sim.watch = Some(Box::new(move |switch| {
        for (sent, allowed) in all_packets().zip(of_watch.lock().unwrap().iter()) {
            let answer = match &switch.receive(&sent.frame(), PortNo(INGRESS))[..] {
                [] => None,
                [Outgoing::Frame { port, .. }] => Some(port.0),
                [Outgoing::Message { message: Message::PacketIn(_), .. }] => continue,
                other => panic!("{other:?}"),
            };
            assert!(allowed.contains(&answer), "{sent:?}: {answer:?}, and not one of {allowed:?}");
            *count.lock().unwrap() += 1;
        }
    }));
    // The lists in the order of their reloads, without those that a restart has undone.
    let mut lists = vec![list];
    for _ in 0..6 {
        let mut states = vec![lists[lists.len() - 1].clone()];
        for _ in 0..1 + random.below(2) {
            let before = &states[states.len() - 1];
            let list = if random.one_in(6) { Written::any(&mut random) } else { before.changed(&mut random) };
            lists.push(list.clone());
            states.push(list.clone());
            let answers = |sent| states.iter().map(|list| list.answer(sent)).collect();
            *allowed.lock().unwrap() = all_packets().map(answers).collect();
            let of_list = samples(&mut random);
            sim.reload(list.policy(of_list));
            sim.run_for(Duration::from_micros(random.below(4_000) as u64));
        }
        if has_restarts && random.one_in(2) {
            let reloads = sim.restart_controller(1);
            lists.truncate(reloads + 1);
            sim.run_for(Duration::from_secs(3));
        }
        sim.run();
        let list = &lists[lists.len() - 1];
        check_all(&mut sim, list);
        sim.run_for(Duration::from_secs(1));
        check_all(&mut sim, list);
        assert_eq!(sim.stats().inconsistent_runs, 0, "{:?}", sim.reports);
    }
    sim.check_settled().unwrap();
    *answered.lock().unwrap()
}

/// Returns a list from some hosts to some servers, none of which have adjacent addresses, without one of the hosts.
fn hosts_to_servers(count: usize, without: Option<usize>) -> String {
    let all = |net: u8| (0..count).map(move |n| format!("10.{net}.{}.{}", n / 100, 2 * (n % 100)));
    let hosts = all(1).enumerate().filter(|(number, _)| Some(*number) != without).map(|(_, address)| address);
    format!(
        "version: 1\ngroups:\n  hosts: [{}]\n  servers: [{}]\nrules:\n  \
         - {{action: allow, from: hosts, to: servers, service: tcp/443}}\n",
        hosts.collect::<Vec<_>>().join(", "),
        all(2).collect::<Vec<_>>().join(", ")
    )
}

/// Returns a switch that does look-ups, under a policy that floods what a list allows.
fn flooded_by(text: &str) -> SimNetwork {
    let options = Options { look_up_tables: LOOK_UP_TABLES, ..Options::default() };
    connected(of_list(text), SimSwitch::new(ONE, Version::Of13), &options)
}

fn of_list(text: &str) -> Arc<dyn Policy> {
    let list = List::read(text, "campus.yaml").expect("a list");
    let flood: Arc<dyn Policy> = Arc::new(|_: &PacketHandle, _: &Net| Route::flood());
    Arc::new(maple_acl::composition(&[list], Composition::single(flood)))
}

#[test]
fn a_thousand_hosts_and_a_thousand_servers_take_few_more_rules_than_there_are() {
    const COUNT: usize = 1_000;
    let mut sim = flooded_by(&hosts_to_servers(COUNT, None));
    let rules = sim.switch(ONE).expect("a switch").flows().len();
    assert!(rules > 2 * COUNT && rules <= 2 * COUNT * 105 / 100, "{rules} rules");
    let before = packet_ins(&sim);
    let tcp =
        |from: [u8; 4], to: [u8; 4], port| Frame::ethernet([2; 6], [4; 6]).ipv4(from, to).tcp(1000, port).payload(b"");
    let mut arrives = |from, to, port| {
        sim.inject(at(1, INGRESS), tcp(from, to, port));
        sim.run();
        !std::mem::take(&mut sim.delivered).is_empty()
    };
    assert!(arrives([10, 1, 0, 0], [10, 2, 9, 198], 443) && arrives([10, 1, 5, 20], [10, 2, 0, 2], 443));
    assert!(!arrives([10, 1, 5, 20], [10, 2, 0, 2], 80), "another port");
    assert!(!arrives([10, 1, 5, 21], [10, 2, 0, 2], 443), "not one of the hosts");
    assert!(!arrives([10, 1, 5, 20], [10, 2, 0, 3], 443), "not one of the servers");
    assert!(!arrives([10, 2, 0, 2], [10, 1, 5, 20], 443), "the other way round");
    assert_eq!(packet_ins(&sim), before, "rules carry the packets");
}

#[test]
fn a_member_more_or_less_is_a_rule_more_or_less() {
    let with_all = hosts_to_servers(100, None);
    let mut sim = flooded_by(&with_all);
    sim.messages = Some(Vec::new());
    for text in [hosts_to_servers(100, Some(17)), with_all.clone(), with_all.replace("10.1.0.8,", "10.3.0.8,")] {
        drop(flow_mods(&mut sim));
        sim.reload(of_list(&text));
        sim.run();
        let changes = flow_mods(&mut sim).len();
        assert!((1..=2).contains(&changes), "{changes} changes");
    }
    sim.check_settled().unwrap();
}
