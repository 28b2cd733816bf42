//! Tests a switch whose table gets full while updates are on their way. With bundles, at each moment every packet is
//! treated as before or after an update, or comes to the controller.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use fastrand::Rng;
use maple_switch::{Outgoing, Switch, SwitchOptions};
use maple_wire::msg::{ErrorMsg, Message};
use maple_wire::packet::build::Frame;
use maple_wire::{Action, Dpid, Field, Instruction, Match, PortNo, Version};

use super::super::{RefusedRequest, Requests, Tables, Waiter};
use crate::forwarding::to_controller;
use crate::ids::Time;
use crate::rule::Rule;
use crate::update::changes;

/// The table that the rules are in.
const TABLE: u8 = 0;
/// The number of destinations in which packets differ.
const DESTINATIONS: u8 = 3;
/// The port where packets come in.
const IN_PORT: PortNo = PortNo(9);

enum Answer {
    Error(u32, ErrorMsg),
    Barrier(u32),
    Flows(Vec<(u8, Rule)>),
}

struct Play {
    random: Rng,
    switch: Switch,
    tables: Tables,
    /// The rules that the table was to have, oldest first, from the last update that is confirmed.
    wanted: VecDeque<(u64, Vec<Rule>)>,
    updates: u64,
    /// A request to read the rules is `None`.
    to_switch: VecDeque<Option<(u32, Message)>>,
    answers: VecDeque<Answer>,
    wrong: usize,
    refused: usize,
}

impl Play {
    fn new(seed: u64, bundles: bool) -> Play {
        let options = SwitchOptions { table_size: 5, bundles, ..SwitchOptions::default() };
        let mut switch = Switch::new(Dpid(1), Version::Of13, options);
        for port in [1, 2, IN_PORT.0] {
            switch.add_port(0, PortNo(port));
        }
        let mut tables = Tables::new(1, Version::Of13, bundles);
        tables.read(std::iter::empty());
        tables.compare_all(1, BTreeMap::new());
        Play {
            random: Rng::with_seed(seed),
            switch,
            tables,
            wanted: VecDeque::from([(0, Vec::new())]),
            updates: 0,
            to_switch: VecDeque::new(),
            answers: VecDeque::new(),
            wrong: 0,
            refused: 0,
        }
    }

    /// Makes a random table with few rules, each with a priority of its own.
    fn table(&mut self) -> Vec<Rule> {
        let mut rules = Vec::new();
        for priority in 1..=8 {
            if self.random.usize(..3) > 0 {
                continue;
            }
            let matching = match u128::from(self.random.u8(..=DESTINATIONS)) {
                0 => Match::any(),
                dst => Match::any().exact(Field::EthDst, dst),
            };
            let instructions = match self.random.u32(..3) {
                0 => to_controller(),
                port => vec![Instruction::ApplyActions(vec![Action::output(PortNo(port))])],
            };
            rules.push(Rule { priority, matching, instructions: instructions.into(), cookie: 7 });
        }
        rules
    }

    fn latest(&self) -> Vec<Rule> {
        self.wanted.back().map(|(_, rules)| rules.clone()).unwrap_or_default()
    }

    /// Begins an update of the table to these rules.
    fn want(&mut self, rules: Vec<Rule>) {
        self.tables.record_changes(TABLE, changes(&self.latest(), &rules));
        self.updates += 1;
        self.tables.wait(Waiter::Barriers(self.updates));
        self.wanted.push_back((self.updates, rules));
        self.flush();
    }

    fn flush(&mut self) {
        let mut out = Requests::new();
        if self.tables.begin_update(Time(1), &mut out) {
            if !self.tables.is_synchronised() {
                self.tables.compare_all(1, BTreeMap::from([(TABLE, self.latest())]));
            }
            self.tables.send_update(Time(1), None, &mut out);
        }
        self.to_switch.extend(out.into_iter().map(Some));
    }

    /// Delivers the next message to the switch.
    fn at_switch(&mut self) {
        let Some(next) = self.to_switch.pop_front() else { return };
        let Some((xid, message)) = next else {
            let rule = |rule: &maple_switch::Rule| Rule {
                priority: rule.priority,
                matching: rule.matching.clone(),
                instructions: Arc::clone(&rule.instructions),
                cookie: rule.cookie,
            };
            let rules = self.switch.tables()[usize::from(TABLE)].iter().map(|there| (TABLE, rule(there))).collect();
            return self.answers.push_back(Answer::Flows(rules));
        };
        let bytes = message.to_bytes(Version::Of13, xid).expect("1.3 has all of them");
        for answer in self.switch.receive_bytes(0, &bytes) {
            let Outgoing::Message { xid, message, .. } = answer else { panic!("{answer:?}") };
            match message {
                Message::BarrierReply => self.answers.push_back(Answer::Barrier(xid)),
                Message::Error(error) => {
                    self.refused += 1;
                    self.answers.push_back(Answer::Error(xid, error));
                }
                Message::BundleControl(_) => {}
                other => panic!("{other:?}"),
            }
        }
        self.check();
    }

    /// Delivers the next answer of the switch to the engine. After a refusal the table is to be as it was, or empty.
    fn at_engine(&mut self) {
        match self.answers.pop_front() {
            Some(Answer::Barrier(xid)) => {
                let confirmed = self.tables.on_barrier_reply(xid).expect("it was asked for");
                for waiter in confirmed.waiters {
                    let Waiter::Barriers(update) = waiter else { continue };
                    self.wanted.retain(|(other, _)| *other >= update);
                }
            }
            Some(Answer::Error(xid, error)) => {
                let Some(refused) = self.tables.on_refused(xid, error.kind == 0xffff) else { return };
                assert_ne!(refused, RefusedRequest::Bundle);
                let mut out = Requests::new();
                if self.tables.begin_reread(&mut out) {
                    self.to_switch.extend(out.into_iter().map(Some).chain([None]));
                }
                // The table as it was may not fit either, because additions come before deletions.
                let before = self.wanted.front().filter(|_| self.random.bool()).map(|(_, rules)| rules.clone());
                self.want(before.unwrap_or_default());
            }
            Some(Answer::Flows(rules)) => self.tables.read(rules.into_iter()),
            None => return,
        }
        self.flush();
    }

    /// Counts packets that leave by a port by which they must not leave.
    fn check(&mut self) {
        for dst in 1..=DESTINATIONS {
            let frame = Frame::ethernet([0, 0, 0, 0, 0, dst], [2; 6]).raw(0x9000, b"");
            let out = self.switch.receive(0, IN_PORT, frame);
            let answer = out.into_iter().find_map(|out| match out {
                Outgoing::Frame { port, .. } => Some(port),
                _ => None,
            });
            let first = |rules: &Vec<Rule>| {
                let dst = Some(u128::from(dst));
                let fits = rules.iter().filter(|rule| rule.matching.holds(|_| dst));
                fits.max_by_key(|rule| rule.priority).map(|rule| rule.instructions.clone())
            };
            let forwards = |port| vec![Instruction::ApplyActions(vec![Action::output(port)])];
            let is_right = |port| self.wanted.iter().any(|(_, rules)| first(rules).as_deref() == Some(&forwards(port)));
            self.wrong += usize::from(answer.is_some_and(|port| !is_right(port)));
        }
    }

    fn play(mut self) -> (usize, usize) {
        for _ in 0..150 {
            match self.random.u8(..6) {
                0 => {
                    let rules = self.table();
                    self.want(rules);
                }
                1..4 => self.at_switch(),
                _ => self.at_engine(),
            }
        }
        while !self.to_switch.is_empty() || !self.answers.is_empty() {
            self.at_switch();
            self.at_engine();
        }
        assert_eq!(self.wanted.len(), 1, "all is confirmed");
        (self.wrong, self.refused)
    }
}

#[test]
fn with_bundles_a_switch_that_gets_full_gives_no_packet_a_wrong_answer() {
    let play = |bundles: bool| {
        let plays = (0..400).map(|seed| Play::new(seed, bundles).play());
        plays.fold((0, 0), |(wrong, refused), one| (wrong + one.0, refused + one.1))
    };
    let (wrong, refused) = play(true);
    assert!(wrong == 0 && refused > 400, "{wrong} wrong answers, {refused} errors");
    // Without bundles, rules that shield others may be missing until the controller hears of it.
    let (wrong, refused) = play(false);
    assert!(wrong > 0 && refused > 400, "{wrong} wrong answers, {refused} errors");
}
