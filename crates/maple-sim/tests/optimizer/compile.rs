//! Trees and tables against the oracle: either they give a packet the policy's answer, or they do not know it.

use std::collections::BTreeMap;

use maple_core::{Augmented, Capabilities, Change, LeafAction, LeafId, Rule, Tree};
use maple_sim::oracles::ReferenceCompiler;
use maple_wire::msg::{Features, Message, Version};
use maple_wire::{Constraint, Dpid, Field};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::policy::{CONTROLLER, Headers, Program, action, packets, programs, scan};

/// A policy's tree for one switch, grown packet by packet.
pub struct Learner<'a> {
    pub program: &'a Program,
    pub capabilities: Capabilities,
    /// Whether traces are lowered to what the switch can match before they go into the tree.
    pub lower: bool,
    pub tree: Tree,
    pub answers: BTreeMap<LeafId, u32>,
}

impl<'a> Learner<'a> {
    pub fn new(program: &'a Program, capabilities: Capabilities, lower: bool) -> Learner<'a> {
        Learner { program, capabilities, lower, tree: Tree::new(), answers: BTreeMap::new() }
    }

    pub fn learn(&mut self, packet: &Headers) {
        let (answer, mut trace) = self.program.run(packet);
        if self.lower {
            trace = trace.lower(packet, &self.capabilities);
        }
        let leaf = LeafId(self.answers.len() as u64);
        self.answers.insert(leaf, answer);
        let known = self.tree.search(packet);
        match self.tree.augment(&trace.items, leaf) {
            Augmented::Added => {
                assert_eq!(known, None, "a packet that was known made a new trace");
                assert_eq!(self.tree.path(leaf), Some(trace.items));
                assert_eq!(self.tree.search(packet), Some(leaf));
            }
            Augmented::Existing(there) => assert_eq!((Some(there), answer), (known, self.answers[&there])),
            Augmented::Replaced { .. } => panic!("the policy is a function\n{}", self.tree.render()),
        }
    }

    pub fn rules(&self, under: &[Constraint], priorities: std::ops::RangeInclusive<u16>) -> Vec<Rule> {
        let leaf = |leaf| action(self.answers[&leaf]);
        let cookie = |leaf: Option<LeafId>| leaf.map_or(0, |leaf| leaf.0 + 1);
        ReferenceCompiler::new().compile(&self.tree, under, &self.capabilities, priorities, &leaf, &cookie)
    }

    /// Checks tree and table for a packet.
    fn check(&self, rules: &[Rule], packet: &Headers, strict: bool) {
        let (wanted, got) = (self.program.eval(packet), scan(rules, packet));
        assert!(got == wanted || got == CONTROLLER, "{got} for {wanted}: {packet:?}\n{}", self.show(rules));
        if let Some(leaf) = self.tree.search(packet) {
            assert_eq!(self.answers[&leaf], wanted, "{packet:?}\n{}", self.show(rules));
            assert!(!strict || got == wanted, "{packet:?} went to the controller\n{}", self.show(rules));
        }
    }

    fn show(&self, rules: &[Rule]) -> String {
        let rules: Vec<String> = rules.iter().map(|rule| format!("{rule:?}\n")).collect();
        format!("{}{}", self.tree.render(), rules.concat())
    }
}

pub fn of13() -> Capabilities {
    Capabilities::from_features(Version::Of13, &features())
}

/// Returns capabilities without the limits of Open vSwitch's structures, because the test's packets have ARP operations
/// that frames can't have.
pub fn of13_masked_ports() -> Capabilities {
    Capabilities { refuses_large_numbers: false, ..of13().of_open_vswitch() }
}

pub fn of10() -> Capabilities {
    Capabilities::from_features(Version::Of10, &features())
}

fn features() -> Features {
    Features::new(Dpid(1), 254)
}

/// Asserts that a rule can be sent: the codec refuses what a version can't express, including missing prerequisites.
fn assert_can_be_sent(rule: &Rule, version: Version) {
    let message = Message::FlowMod(Change::Add(rule.clone()).flow_mod(0));
    let bytes = message.to_bytes(version, 7).unwrap_or_else(|error| panic!("{error}: {rule:?}"));
    let (_, read) = Message::decode(&bytes).unwrap_or_else(|error| panic!("{error}: {rule:?}"));
    let Message::FlowMod(read) = read else { panic!("{read:?} is no flow-mod") };
    assert_eq!(
        (&read.matching, read.priority, read.cookie, &read.instructions[..]),
        (&rule.matching, rule.priority, rule.cookie, &rule.instructions[..])
    );
}

/// Reports whether the table of a 1.0 switch must answer a packet that the tree knows. 1.0 has no IPv6. If it can't
/// express something about other packets, it may leave them to the controller, together with all packets of the same
/// Ethernet type.
fn of10_tells_apart(program: &Program, packet: &Headers) -> bool {
    packet.0[&Field::EthType] != 0x86dd && !program.mentions(&[Field::IpEcn, Field::ArpOp])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn tables_give_the_policys_answer_or_the_controller(
        program in programs(),
        training in vec(packets(), 15),
        probes in vec(packets(), 30),
        removals in vec(any::<prop::sample::Index>(), 0..6),
    ) {
        for (capabilities, lower) in
            [(of13(), true), (of13_masked_ports(), true), (of10(), true), (of13(), false), (of10(), false)]
        {
            let is_13 = capabilities.version == Version::Of13;
            let mut learner = Learner::new(&program, capabilities, lower);
            training.iter().for_each(|packet| learner.learn(packet));
            let check_all = |learner: &Learner| {
                let rules = learner.rules(&[], 1..=u16::MAX);
                for rule in &rules {
                    let all: Vec<Constraint> = rule.matching.constraints().copied().collect();
                    assert!(learner.capabilities.can_match_all(&all), "{rule:?}");
                    assert_can_be_sent(rule, learner.capabilities.version);
                }
                for packet in training.iter().chain(&probes) {
                    learner.check(&rules, packet, lower && (is_13 || of10_tells_apart(&program, packet)));
                }
            };
            check_all(&learner);
            for index in &removals {
                let leaves: Vec<LeafId> = learner.tree.leaves().collect();
                if !leaves.is_empty() {
                    let leaf = leaves[index.index(leaves.len())];
                    assert!(learner.tree.remove(leaf) && !learner.tree.remove(leaf));
                    assert_eq!(learner.tree.path(leaf), None);
                }
            }
            check_all(&learner);
        }
    }

    #[test]
    fn tables_under_a_port_say_nothing_of_other_ports(
        program in programs(),
        training in vec(packets(), 15),
        probes in vec(packets(), 30),
    ) {
        let mut learner = Learner::new(&program, of13(), true);
        training.iter().for_each(|packet| learner.learn(packet));
        let rules = learner.rules(&[Constraint::exact(Field::InPort, 2)], 1..=u16::MAX);
        for packet in training.iter().chain(&probes) {
            learner.check(&rules, packet, packet.0[&Field::InPort] == 2);
            if packet.0[&Field::InPort] != 2 {
                assert_eq!(scan(&rules, packet), CONTROLLER);
            }
        }
    }

    #[test]
    fn removing_all_leaves_leaves_nothing(program in programs(), training in vec(packets(), 20)) {
        let mut learner = Learner::new(&program, of13(), true);
        training.iter().for_each(|packet| learner.learn(packet));
        for leaf in learner.tree.leaves().collect::<Vec<_>>() {
            learner.tree.remove(leaf);
        }
        prop_assert_eq!((learner.tree.nodes(), learner.tree.is_empty()), (0, true));
        prop_assert_eq!(learner.tree.render(), "Ω\n");
        prop_assert_eq!(learner.rules(&[], 1..=u16::MAX), Vec::new());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// The policy is not a function of its observations: here it sometimes becomes another one.
    #[test]
    fn a_tree_that_is_contradicted_stays_a_tree_of_the_traces_that_it_keeps(
        programs in vec(programs(), 2..4),
        runs in vec((any::<prop::sample::Index>(), packets()), 1..40),
    ) {
        let mut tree = Tree::new();
        let mut traces = BTreeMap::new();
        for (number, (program, packet)) in runs.iter().enumerate() {
            let run = || programs[program.index(programs.len())].run(packet).1.items;
            let (items, leaf) = (run(), LeafId(number as u64));
            match tree.augment(&items, leaf) {
                Augmented::Added => prop_assert_eq!(traces.insert(leaf, items), None),
                Augmented::Existing(there) => prop_assert_eq!(&traces[&there], &items),
                Augmented::Replaced { removed, depth } => {
                    prop_assert!(!removed.is_empty());
                    for old in removed {
                        let old = traces.remove(&old).expect("a removed leaf was in the tree");
                        prop_assert_eq!(&old[..depth], &items[..depth]);
                    }
                    traces.insert(leaf, items);
                }
            }
            prop_assert_eq!(tree.search(packet).map(|leaf| &traces[&leaf]), Some(&run()));
            prop_assert!(tree.leaves().eq(traces.keys().copied()));
        }
        for (leaf, items) in &traces {
            prop_assert_eq!(tree.path(*leaf), Some(items.clone()));
        }
        for leaf in traces.keys() {
            prop_assert!(tree.remove(*leaf));
        }
        prop_assert_eq!(tree.nodes(), 0);
    }
}

#[test]
fn a_leaf_for_the_controller_is_a_barrier_only_over_rules_below() {
    let ask = |no| Program::Ask {
        question: crate::policy::Question::Equals { field: Field::EthSrc, value: 1, mask: Field::EthSrc.full_mask() },
        yes: Box::new(Program::Answer(CONTROLLER)),
        no: Box::new(Program::Answer(no)),
    };
    let packet = |eth_src| Headers(BTreeMap::from([(Field::EthSrc, eth_src)]));
    for (no, rules) in [(1, 2), (CONTROLLER, 0)] {
        let program = ask(no);
        let mut learner = Learner::new(&program, of13(), true);
        learner.learn(&packet(1));
        learner.learn(&packet(2));
        let table = learner.rules(&[], 1..=100);
        assert_eq!(table.len(), rules);
        assert!(table.first().is_none_or(|barrier| barrier.cookie == 1), "the barrier leads back to its leaf");
        assert_eq!(action(CONTROLLER), LeafAction::Controller);
    }
}
