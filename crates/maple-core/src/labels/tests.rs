//! Tests of label tables by themselves: several switches whose tables exchange messages, with delays, losses and few
//! ids.
//!
//! The oracle is naive: a packet carries the place where it must come out, and follows the rules that switches have.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use maple_wire::{Action, Dpid, Field, Instruction, PortNo, Version};

use super::suffix::Exit;
use super::{
    Acquire, Holder, LabelEffect, LabelIds, LabelKey, LabelRange, LabelTable, News, Quarantine, Refusal, Suffix,
};
use crate::ids::{ShardId, Time};
use crate::network::Location;
use crate::route_plan::Treatment;
use crate::update::Change;

const SWITCHES: u64 = 4;
const MILLISECOND: u64 = 1_000_000;
const QUARANTINE: Quarantine =
    Quarantine { confirmed: Duration::from_millis(50), unconfirmed: Duration::from_millis(500) };

/// The first edge port. Below it, port d of switch s leads to port s of switch d.
const EDGE: u32 = 10;

fn at(switch: u64, port: u64) -> Location {
    Location::new(Dpid(switch), PortNo(port as u32))
}

/// Returns a path over some of the switches, in any order, to an edge port of the last.
fn suffix(random: &mut Rng) -> Arc<Suffix> {
    let mut left: Vec<u64> = (1..=SWITCHES).collect();
    let path: Vec<u64> = (0..1 + random.usize(..3)).map(|_| left.remove(random.usize(..left.len()))).collect();
    let edges = BTreeSet::from([PortNo(EDGE + random.usize(..2) as u32)]);
    let exit = Exit { edges, treatment: Treatment::default(), tagged: false, replaced: None, needs: Vec::new() };
    let mut exit = Some(exit);
    let mut made: Option<(u64, Arc<Suffix>)> = None;
    for switch in path.into_iter().rev() {
        let link = |(next, suffix): (u64, Arc<Suffix>)| (PortNo(next as u32), at(next, switch), suffix);
        let links = made.take().map(link).into_iter().collect();
        made = Some((switch, Arc::new(Suffix::new(Dpid(switch), links, exit.take()))));
    }
    made.expect("a switch at least").1
}

/// One switch: its table, and the rules that it really has.
struct TestSwitch {
    labels: LabelTable,
    ids: LabelIds,
    rules: BTreeMap<LabelKey, Vec<Instruction>>,
    /// The changes that the switch has not made yet, with the labels that are confirmed then.
    behind: VecDeque<(Vec<Change>, Vec<u64>)>,
}

/// A packet in flight: where it is, under which label, and where it must come out.
struct Packet {
    arrives: Location,
    label: u16,
    exits: Vec<Location>,
    sent: Time,
}

/// A sender of packets.
struct Sender {
    at: Location,
    suffix: Arc<Suffix>,
    label: Option<u16>,
    ready: bool,
}

struct LabelNetwork {
    now: Time,
    random: Rng,
    range: LabelRange,
    switches: BTreeMap<Dpid, TestSwitch>,
    only_scoped: bool,
    /// The switch that takes longer for its changes than labels are kept for packets in flight.
    slow: Option<Dpid>,
    senders: BTreeMap<Holder, Sender>,
    letters: VecDeque<LabelEffect>,
    packets: Vec<Packet>,
    serial: u64,
    delivered: u64,
    lost: u64,
    refused: u64,
}

impl LabelNetwork {
    fn new(seed: u64) -> LabelNetwork {
        let mut random = Rng::with_seed(seed);
        let last = random.choice([6, 8, 14, 400]).expect("there are some");
        let only_scoped = random.usize(..100) < 30;
        let slow = (random.usize(..100) < 40).then(|| Dpid(1 + random.usize(..SWITCHES as usize) as u64));
        let mut world = LabelNetwork {
            now: Time(1),
            random,
            range: LabelRange::new(5..=last).expect("VLAN ids"),
            switches: BTreeMap::new(),
            only_scoped,
            slow,
            senders: BTreeMap::new(),
            letters: VecDeque::new(),
            packets: Vec::new(),
            serial: 0,
            delivered: 0,
            lost: 0,
            refused: 0,
        };
        (1..=SWITCHES).for_each(|switch| world.connect(Dpid(switch), LabelIds::default()));
        world
    }

    fn connect(&mut self, dpid: Dpid, ids: LabelIds) {
        let labels = LabelTable::new(dpid, Version::Of13, self.only_scoped, QUARANTINE);
        self.switches.insert(dpid, TestSwitch { labels, ids, rules: BTreeMap::new(), behind: VecDeque::new() });
    }

    /// Lets a table do something, and sends the effects.
    fn with(&mut self, dpid: Dpid, work: impl FnOnce(&mut TestSwitch, Time, &mut Vec<LabelEffect>)) {
        let Some(switch) = self.switches.get_mut(&dpid) else { return };
        let mut effects = Vec::new();
        work(switch, self.now, &mut effects);
        let unmade = switch.labels.take_changes(|label| label);
        if !unmade.confirms.is_empty() || !unmade.changes.is_empty() {
            switch.behind.push_back((unmade.changes, unmade.confirms));
        }
        self.letters.extend(effects);
    }

    fn deliver_letter(&mut self) {
        let Some(letter) = self.letters.pop_front() else { return };
        match letter {
            LabelEffect::Ask(asked) => {
                let range = self.range;
                self.with(asked.at.switch, |switch, now, out| {
                    switch.labels.acquire(now, asked, &mut switch.ids, range, out);
                });
            }
            LabelEffect::Release { at, holder, confirmed } => {
                self.with(at, |switch, now, out| switch.labels.release(now, holder, confirmed, out));
            }
            LabelEffect::Tell(Holder::Label { switch, serial, port }, news) => {
                self.with(switch, |switch, _, out| switch.labels.learn(serial, port, &news, out));
            }
            LabelEffect::Tell(holder, news) => self.hear(holder, &news),
            LabelEffect::Wake(_) => {}
        }
    }

    fn hear(&mut self, holder: Holder, news: &News) {
        let Some(sender) = self.senders.get_mut(&holder) else { return };
        match news {
            News::Allocated(label) => sender.label = Some(*label),
            News::Ready => sender.ready = true,
            News::Refused(_) => {
                self.refused += 1;
                self.stop(holder);
            }
        }
    }

    fn start(&mut self) {
        self.serial += 1;
        let suffix = suffix(&mut self.random);
        let arrives = at(suffix.switch.0, 20 + self.random.usize(..2) as u64);
        let holder = Holder::Route { shard: ShardId(0), serial: self.serial, port: PortNo(1) };
        self.senders.insert(holder, Sender { at: arrives, suffix: suffix.clone(), label: None, ready: false });
        self.letters.push_back(LabelEffect::Ask(Acquire { at: arrives, suffix, holder }));
    }

    fn stop(&mut self, holder: Holder) {
        if let Some(sender) = self.senders.remove(&holder) {
            let at = sender.at.switch;
            self.letters.push_back(LabelEffect::Release { at, holder, confirmed: true });
        }
    }

    /// Sends a packet from every sender that is ready.
    fn send(&mut self) {
        for sender in self.senders.values().filter(|sender| sender.ready) {
            let label = sender.label.expect("who is ready knows the label");
            let (arrives, exits) = (sender.at, sender.suffix.exits());
            self.packets.push(Packet { arrives, label, exits, sent: self.now });
        }
    }

    /// Moves every packet by one hop.
    fn hop(&mut self, seed: u64) {
        for packet in std::mem::take(&mut self.packets) {
            let Some(switch) = self.switches.get(&packet.arrives.switch) else { continue };
            let scopes = [Some(packet.arrives.port), None];
            let keys = scopes.map(|port| LabelKey { port, id: packet.label });
            // A switch that has no rule asks the controller, which knows the label.
            let rule = keys.iter().find_map(|key| switch.rules.get(key)).map(Vec::as_slice);
            let Some(rule) = rule.or_else(|| switch.labels.answer(packet.arrives.port, packet.label)) else {
                self.lost += 1;
                continue;
            };
            let [Instruction::ApplyActions(actions)] = rule else { panic!("{rule:?}") };
            let mut label = packet.label;
            for action in actions {
                match action {
                    Action::SetField(set) if set.field == Field::VlanVid => label = set.value as u16 & 0xfff,
                    Action::PopVlan => label = 0,
                    Action::Output { port, .. } if port.0 >= EDGE => {
                        let out = Location::new(packet.arrives.switch, *port);
                        assert!(
                            label == 0 && packet.exits.contains(&out),
                            "seed {seed}: {out}, not {:?}",
                            packet.exits
                        );
                        self.delivered += 1;
                    }
                    Action::Output { port, .. } => {
                        let arrives = at(u64::from(port.0), packet.arrives.switch.0);
                        self.packets.push(Packet { arrives, label, exits: packet.exits.clone(), sent: packet.sent });
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
        // A packet that finds its way takes no longer than a few hops.
        let now = self.now;
        self.packets.retain(|packet| now < packet.sent + Duration::from_millis(40));
    }

    /// Lets a switch make some of the changes that it was sent.
    fn follow(&mut self, dpid: Dpid) {
        let Some(switch) = self.switches.get_mut(&dpid) else { return };
        let Some((changes, confirms)) = switch.behind.pop_front() else { return };
        for change in changes {
            let rule = change.rule();
            let vlan = rule.matching.get(Field::VlanVid).expect("a label").value as u16 & 0xfff;
            let port = rule.matching.get(Field::InPort).map(|port| PortNo(port.value as u32));
            let key = LabelKey { port, id: vlan };
            match &change {
                Change::Add(rule) => {
                    let there = switch.rules.insert(key, rule.instructions.to_vec());
                    assert!(there.is_none(), "a label means one thing at a time: {key:?}");
                }
                Change::Delete(_) => drop(switch.rules.remove(&key)),
                Change::Modify(_) => panic!("labels are never modified"),
            }
        }
        self.with(dpid, |switch, now, out| switch.labels.confirm(now, &confirms, &mut switch.ids, out));
    }

    /// Removes a switch with all its rules, and lets it come back without any.
    fn restart(&mut self, dpid: Dpid) {
        let Some(mut switch) = self.switches.remove(&dpid) else { return };
        let mut effects = Vec::new();
        switch.labels.shut(self.now, &mut switch.ids, &mut effects);
        self.letters.extend(effects);
        self.connect(dpid, switch.ids);
    }

    fn step(&mut self, seed: u64) {
        let dpid = Dpid(1 + self.random.usize(..SWITCHES as usize) as u64);
        match self.random.usize(..100) {
            0..6 => self.start(),
            6..10 => {
                let all: Vec<Holder> = self.senders.keys().copied().collect();
                if !all.is_empty() {
                    let holder = self.random.choice(all).expect("there are some");
                    self.stop(holder);
                }
            }
            10..50 => self.deliver_letter(),
            50..75 if self.slow != Some(dpid) || self.random.usize(..100) < 3 => self.follow(dpid),
            75..80 => self.send(),
            80 if self.random.usize(..100) < 10 => self.restart(dpid),
            _ => {
                self.now = self.now + Duration::from_nanos(MILLISECOND);
                self.hop(seed);
                for dpid in (1..=SWITCHES).map(Dpid) {
                    self.with(dpid, |switch, now, out| switch.labels.expire(now, &mut switch.ids, out));
                }
            }
        }
    }

    /// Lets everything finish: two seconds of simulated time without new requests.
    fn rest(&mut self) {
        for _ in 0..2000 {
            while !self.letters.is_empty() {
                self.deliver_letter();
            }
            (1..=SWITCHES).for_each(|dpid| self.follow(Dpid(dpid)));
            self.now = self.now + Duration::from_nanos(MILLISECOND);
            for dpid in (1..=SWITCHES).map(Dpid) {
                self.with(dpid, |switch, now, out| switch.labels.expire(now, &mut switch.ids, out));
            }
        }
    }
}

#[test]
fn a_packet_under_a_label_comes_out_where_the_label_meant_or_nowhere() {
    let (mut delivered, mut lost, mut refused) = (0, 0, 0);
    for seed in 0..400 {
        let mut world = LabelNetwork::new(seed);
        (0..3000).for_each(|_| world.step(seed));
        world.packets.clear();
        world.rest();
        // A sender that is still there and was not refused is ready, and its packets arrive.
        assert!(world.senders.values().all(|sender| sender.ready), "seed {seed}");
        let before = (world.delivered, world.lost);
        world.send();
        (0..SWITCHES).for_each(|_| world.hop(seed));
        let arrived = world.delivered - before.0;
        assert_eq!((arrived, world.lost), (world.senders.len() as u64, before.1), "seed {seed}");
        // When all senders have stopped, nothing is left.
        let all: Vec<Holder> = world.senders.keys().copied().collect();
        all.into_iter().for_each(|holder| world.stop(holder));
        world.rest();
        for (dpid, switch) in &world.switches {
            assert_eq!((switch.labels.len(), switch.rules.len()), (0, 0), "seed {seed}: switch {dpid}");
        }
        (delivered, lost, refused) = (delivered + world.delivered, lost + world.lost, refused + world.refused);
    }
    assert!(delivered > 20_000 && refused > 1_000 && lost * 10 < delivered, "{delivered}, {lost}, {refused}");
}

#[test]
fn equal_suffixes_share_a_label_and_a_label_that_is_asked_for_again_in_quarantine_stays() {
    let mut world = LabelNetwork::new(1);
    world.only_scoped = false;
    (1..=SWITCHES).for_each(|switch| world.connect(Dpid(switch), LabelIds::default()));
    let edges = BTreeSet::from([PortNo(EDGE)]);
    let exit = Exit { edges, treatment: Treatment::default(), tagged: false, replaced: None, needs: Vec::new() };
    let make = || Arc::new(Suffix::new(Dpid(1), Vec::new(), Some(exit.clone())));
    let holder = |serial| Holder::Route { shard: ShardId(0), serial, port: PortNo(1) };
    let ask = |world: &mut LabelNetwork, serial| {
        let (at, suffix) = (at(1, 20 + serial), make());
        let sender = Sender { at, suffix: suffix.clone(), label: None, ready: false };
        world.senders.insert(holder(serial), sender);
        world.letters.push_back(LabelEffect::Ask(Acquire { at, suffix, holder: holder(serial) }));
        world.deliver_letter();
        world.follow(Dpid(1));
        while !world.letters.is_empty() {
            world.deliver_letter();
        }
        world.senders[&holder(serial)].label
    };
    let first = ask(&mut world, 1);
    assert_eq!((first, ask(&mut world, 2), world.switches[&Dpid(1)].rules.len()), (Some(5), Some(5), 1));
    [1, 2].into_iter().for_each(|serial| world.stop(holder(serial)));
    while !world.letters.is_empty() {
        world.deliver_letter();
    }
    world.now = world.now + Duration::from_millis(30);
    assert_eq!(ask(&mut world, 3), first);
    world.rest();
    assert_eq!(world.switches[&Dpid(1)].rules.len(), 1, "the end of its quarantine is none of its own now");
}

/// Creates a world of one switch, and the function that requests its labels.
fn one_switch(only_scoped: bool) -> (LabelNetwork, impl Fn(&mut LabelNetwork, u64, u64)) {
    let mut world = LabelNetwork::new(1);
    world.only_scoped = only_scoped;
    world.range = LabelRange::new(5..=60).expect("VLAN ids");
    (1..=SWITCHES).for_each(|switch| world.connect(Dpid(switch), LabelIds::default()));
    let edges = BTreeSet::from([PortNo(EDGE)]);
    let exit = Exit { edges, treatment: Treatment::default(), tagged: false, replaced: None, needs: Vec::new() };
    let suffix = Arc::new(Suffix::new(Dpid(1), Vec::new(), Some(exit)));
    let ask = move |world: &mut LabelNetwork, serial: u64, port: u64| {
        let (at, holder) = (at(1, port), Holder::Route { shard: ShardId(0), serial, port: PortNo(1) });
        let sender = Sender { at, suffix: suffix.clone(), label: None, ready: false };
        world.senders.insert(holder, sender);
        world.letters.push_back(LabelEffect::Ask(Acquire { at, suffix: suffix.clone(), holder }));
        world.post();
    };
    (world, ask)
}

impl LabelNetwork {
    /// Delivers all letters.
    fn post(&mut self) {
        while !self.letters.is_empty() {
            self.deliver_letter();
        }
    }

    fn is_ready(&self, serial: u64) -> bool {
        self.senders[&Holder::Route { shard: ShardId(0), serial, port: PortNo(1) }].ready
    }
}

#[test]
fn a_late_confirmation_of_a_rule_is_not_taken_for_that_of_its_deletion() {
    let (mut world, ask) = one_switch(false);
    ask(&mut world, 1, 20);
    world.stop(Holder::Route { shard: ShardId(0), serial: 1, port: PortNo(1) });
    world.post();
    // The clock advances by more than the quarantine, and the switch has not confirmed the rule.
    world.now = world.now + Duration::from_millis(80);
    world.with(Dpid(1), |switch, now, out| switch.labels.expire(now, &mut switch.ids, out));
    world.follow(Dpid(1));
    assert_eq!((world.switches[&Dpid(1)].labels.len(), world.switches[&Dpid(1)].rules.len()), (1, 1));
    world.follow(Dpid(1));
    assert_eq!((world.switches[&Dpid(1)].labels.len(), world.switches[&Dpid(1)].rules.len()), (0, 0));
}

#[test]
fn a_label_is_ready_for_a_further_port_only_when_the_switch_has_confirmed_what_goes_with_it() {
    let (mut world, ask) = one_switch(false);
    ask(&mut world, 1, 20);
    world.follow(Dpid(1));
    world.post();
    assert!(world.is_ready(1));
    ask(&mut world, 2, 21);
    assert!(!world.is_ready(2), "the classifier does not know the port yet");
    world.follow(Dpid(1));
    world.post();
    assert!(world.is_ready(2));
    ask(&mut world, 3, 21);
    assert!(world.is_ready(3));
}

#[test]
fn a_label_that_waits_for_a_classifier_waits_for_the_next_one_when_ports_change() {
    let (mut world, ask) = one_switch(false);
    ask(&mut world, 1, 20);
    world.follow(Dpid(1));
    world.post();
    // A holder asks, and ports change, before anything is sent to the switch.
    let holder = Holder::Route { shard: ShardId(0), serial: 1, port: PortNo(1) };
    let (at, suffix) = (at(1, 21), world.senders[&holder].suffix.clone());
    let holder = Holder::Route { shard: ShardId(0), serial: 2, port: PortNo(1) };
    world.senders.insert(holder, Sender { at, suffix: suffix.clone(), label: None, ready: false });
    let range = world.range;
    world.with(Dpid(1), |switch, now, out| {
        switch.labels.acquire(now, Acquire { at, suffix, holder }, &mut switch.ids, range, out);
        switch.labels.forget_arrivals();
    });
    world.post();
    assert!(!world.is_ready(2));
    world.follow(Dpid(1));
    world.post();
    assert!(world.is_ready(2), "nobody tells it otherwise");
}

#[test]
fn a_label_that_is_in_use_stays_where_there_is_no_room_for_what_goes_with_a_further_port() {
    let (mut world, ask) = one_switch(false);
    ask(&mut world, 1, 20);
    world.follow(Dpid(1));
    world.post();
    ask(&mut world, 2, 21);
    let serial = world.switches[&Dpid(1)].labels.installed().next().expect("there is one");
    world.with(Dpid(1), |switch, _, out| switch.labels.refuse_unless_confirmed(serial, Refusal::Full(Dpid(1)), out));
    world.post();
    assert!(world.is_ready(1) && world.refused == 0);
    world.follow(Dpid(1));
    world.post();
    assert!(world.is_ready(2));
}

#[test]
fn labels_of_a_port_that_is_a_link_no_more_lose_their_rules_at_once() {
    let (mut world, ask) = one_switch(true);
    [(1, 20), (2, 21)].into_iter().for_each(|(serial, port)| ask(&mut world, serial, port));
    [1, 2].into_iter().for_each(|_| world.follow(Dpid(1)));
    world.post();
    world.with(Dpid(1), |switch, _, out| switch.labels.close_port(PortNo(20), out));
    world.post();
    world.follow(Dpid(1));
    let ports: Vec<_> = world.switches[&Dpid(1)].rules.keys().map(|key| key.port).collect();
    assert_eq!(ports, [Some(PortNo(21))]);
    assert!(world.is_ready(2) && world.refused == 1);
}

#[test]
fn the_meaning_of_a_label_has_the_same_number_in_every_build() {
    let (edges, needs) = ([PortNo(3)].into(), Vec::new());
    let exit = Exit { edges, treatment: Treatment::default(), tagged: false, replaced: None, needs };
    let last = Arc::new(Suffix::new(Dpid(2), Vec::new(), Some(exit)));
    let first = Suffix::new(Dpid(1), vec![(PortNo(2), at(2, 1), Arc::clone(&last))], None);
    // With other numbers, labels would be given anew at the first start of a new release.
    assert_eq!([first.meaning(), last.meaning()], [1_337_102_813_237_505_400, 6_410_594_419_128_093_574]);
}
