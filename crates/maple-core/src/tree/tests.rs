//! Random edits: what a tree reports about them, and what it finds, against a list of traces.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use maple_wire::{Constraint, Field};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::capabilities::Capabilities;
use crate::trace::{LoweredTrace, Range, Recorder};

/// A packet that has these fields, whatever their prerequisites.
#[derive(Debug)]
pub(super) struct Headers([(Field, u128); 3]);

impl Headers {
    /// Creates a packet with these values of [`FIELDS`].
    pub(super) fn new(values: [u128; 3]) -> Headers {
        Headers([0, 1, 2].map(|i| (FIELDS[i], values[i])))
    }
}

impl Fields for Headers {
    fn value(&self, field: Field) -> Option<u128> {
        self.0.iter().find(|(there, _)| *there == field).map(|(_, value)| *value)
    }

    fn is_captured(&self, _: Field) -> bool {
        true
    }
}

const FIELDS: [Field; 3] = [Field::Ipv4Src, Field::TcpDst, Field::Ipv6Src];

/// Returns packets whose fields have one of four values, the same for all fields.
pub(super) fn packets() -> impl Strategy<Value = Headers> {
    [0..4u128, 0..4u128, 0..4u128].prop_map(Headers::new)
}

fn constraints() -> impl Strategy<Value = Constraint> {
    (select(FIELDS.to_vec()), 0..4u128, 1..4u128).prop_map(|(field, value, bits)| {
        let mask = if bits == 3 { field.full_mask() } else { bits };
        Constraint::masked(field, value, mask)
    })
}

pub(super) fn conditions() -> impl Strategy<Value = Arc<Cond>> {
    (vec(constraints(), 1..3), 0..3u128, 0..2u128).prop_map(|(mut all, lo, width)| {
        all.sort_by_key(|c| c.field);
        all.dedup_by_key(|c| c.field);
        let field = Field::TcpDst;
        let ranges =
            if all.iter().any(|c| c.field == field) { vec![] } else { vec![Range { field, lo, hi: lo + width }] };
        Arc::new(Cond { constraints: all, ranges })
    })
}

fn items() -> impl Strategy<Value = Item> {
    prop_oneof![
        constraints().prop_map(Item::Read),
        (conditions(), any::<bool>()).prop_map(|(cond, outcome)| Item::Test { cond, outcome }),
    ]
}

/// Draws chains of tests that fail, and one that holds.
fn chains() -> impl Strategy<Value = Vec<Item>> {
    vec(conditions(), 1..24).prop_map(|conds| {
        let last = conds.len() - 1;
        let test = |(i, cond)| Item::Test { cond, outcome: i == last };
        conds.into_iter().enumerate().map(test).collect()
    })
}

/// An edit: a leaf is removed, or a trace is added that begins like one in the tree, up to some place.
#[derive(Clone, Debug)]
enum Step {
    Remove(prop::sample::Index),
    Augment { like: prop::sample::Index, turn: prop::sample::Index, rest: Vec<Item> },
}

fn steps() -> impl Strategy<Value = Step> {
    use prop::sample::Index;
    prop_oneof![
        1 => any::<Index>().prop_map(Step::Remove),
        2 => (any::<Index>(), any::<Index>(), vec(items(), 0..6))
            .prop_map(|(like, turn, rest)| Step::Augment { like, turn, rest }),
        2 => (any::<Index>(), any::<Index>(), chains())
            .prop_map(|(like, turn, rest)| Step::Augment { like, turn, rest }),
    ]
}

/// A tree, the traces that should be in it, and its nodes as its edits report them.
#[derive(Default)]
struct Grown {
    tree: Tree,
    traces: BTreeMap<LeafId, Vec<Item>>,
    nodes: BTreeSet<NodeId>,
    next: u64,
}

impl Grown {
    fn step(&mut self, step: &Step) {
        match step {
            Step::Remove(which) if !self.traces.is_empty() => {
                let leaf = *self.traces.keys().nth(which.index(self.traces.len())).unwrap();
                assert!(self.tree.remove(leaf) && self.traces.remove(&leaf).is_some());
            }
            Step::Remove(_) => assert!(!self.tree.remove(LeafId(0))),
            Step::Augment { like, turn, rest } => {
                let old = self.traces.values().nth(like.index(self.traces.len().max(1))).cloned().unwrap_or_default();
                self.augment(branched(old, *turn, rest));
            }
        }
        self.check_edit();
    }

    fn augment(&mut self, items: Vec<Item>) {
        self.next += 1;
        let leaf = LeafId(self.next);
        match self.tree.augment(&items, leaf) {
            Augmented::Added => {}
            Augmented::Existing(old) => return assert_eq!(self.traces[&old], items),
            Augmented::Replaced { removed, depth } => {
                for old in removed {
                    assert_eq!(self.traces.remove(&old).unwrap()[..depth], items[..depth]);
                }
            }
        }
        self.traces.insert(leaf, items);
    }

    fn check_edit(&mut self) {
        let Edit { place, removed, added } = self.tree.last_edit().clone();
        assert!(
            removed.iter().all(|node| self.nodes.remove(node)) && added.iter().all(|node| self.nodes.insert(*node))
        );
        assert_eq!(self.nodes.len(), self.tree.nodes());
        if let Some((first, rest)) = added.split_first() {
            assert_eq!(self.tree.parent(*first), place);
            for (above, below) in added.iter().zip(rest) {
                assert_eq!(
                    self.tree.node(*above).branches().iter().map(|(_, child)| *child).collect::<Vec<_>>(),
                    [*below]
                );
            }
            assert_eq!(added.last().copied(), self.tree.leaf_node(LeafId(self.next)));
        }
    }

    fn check(&self, packets: &[Headers]) {
        assert!(self.tree.leaves().eq(self.traces.keys().copied()));
        for (leaf, items) in &self.traces {
            assert_eq!(self.tree.path(*leaf).as_ref(), Some(items));
        }
        for packet in packets {
            let passes = |items: &Vec<Item>| items.iter().all(|item| item.holds(packet));
            let wanted = self.traces.iter().find(|(_, items)| passes(items)).map(|(leaf, _)| *leaf);
            assert_eq!(self.tree.search(packet), wanted, "{}", self.tree.render());
            assert_eq!(self.tree.walk(packet), wanted);
        }
        for some in packets.chunks(MAX_BATCH) {
            let alone: Vec<_> = some.iter().map(|packet| self.tree.search(packet)).collect();
            assert_eq!(self.tree.search_batch(some.iter())[..], alone);
        }
        packets.iter().take(2).for_each(|packet| self.check_touching(packet));
        assert_eq!(in_order(&self.tree), self.nodes.len());
    }
}

/// Returns the bits of a field that a trace's reads and passed tests state.
fn stated(items: &[Item], field: Field) -> Vec<Constraint> {
    let constraints = |item: &Item| match item {
        Item::Read(c) => vec![*c],
        Item::Test { cond, outcome: true } => cond.constraints.clone(),
        Item::Test { outcome: false, .. } => vec![],
    };
    items.iter().flat_map(constraints).filter(|c| c.field == field).collect()
}

fn contradict(a: &Constraint, b: &Constraint) -> bool {
    (a.value ^ b.value) & a.mask & b.mask != 0
}

impl Grown {
    /// Checks that exactly the leaves are named whose traces don't contradict the question. Traces that contradict
    /// themselves, which no packet passes, may or may not be named.
    fn check_touching(&self, packet: &Headers) {
        for (field, value) in packet.0 {
            for mask in [field.full_mask(), 2] {
                let asked = Constraint::masked(field, value, mask);
                let named = self.tree.leaves_fitting(&asked);
                assert!(named.is_sorted_by(|a, b| a < b));
                for (leaf, items) in &self.traces {
                    let all = stated(items, field);
                    let possible = all.iter().all(|a| all.iter().all(|b| !contradict(a, b)));
                    let fits = all.iter().all(|c| !contradict(c, &asked));
                    assert!(!possible || named.contains(leaf) == fits, "{asked:?} {}", self.tree.render());
                }
                assert!(named.iter().all(|leaf| self.traces.contains_key(leaf)));
            }
        }
    }
}

/// Returns a trace that begins like `old`, branches off at some place, and continues with `rest`.
fn branched(mut old: Vec<Item>, turn: prop::sample::Index, rest: &[Item]) -> Vec<Item> {
    old.truncate(turn.index(old.len() + 1));
    match old.last_mut() {
        Some(Item::Read(constraint)) => constraint.value = constraint.mask & (constraint.value + 1),
        Some(Item::Test { outcome, .. }) => *outcome = !*outcome,
        None => {}
    }
    old.extend(rest.iter().cloned());
    old
}

/// Checks that a walk meets nodes in the order that the tree reports. Returns their number.
fn in_order(tree: &Tree) -> usize {
    let (mut open, mut last, mut seen) = (vec![(tree.root(), false)], None, 0);
    while let Some((node, decided)) = open.pop() {
        let Some(node) = node else { continue };
        if let (Node::Test { yes, no, .. }, false) = (tree.node(node), decided) {
            open.extend([(*no, false), (Some(node), true), (*yes, false)]);
            continue;
        }
        assert!(last.is_none_or(|last| tree.rank(last) < tree.rank(node)), "{}", tree.render());
        (last, seen) = (Some(node), seen + 1);
        if let Node::Value(values) = tree.node(node) {
            // Children are in no particular order, but each one's subtree is one stretch.
            let mut children: Vec<NodeId> = values.sorted().into_iter().map(|(_, child)| child).collect();
            children.sort_by_key(|child| std::cmp::Reverse(tree.rank(*child)));
            open.extend(children.into_iter().map(|child| (Some(child), false)));
        }
    }
    seen
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn after_each_edit_a_tree_has_its_traces_in_order_and_says_what_changed(
        steps in vec(steps(), 1..40),
        packets in vec(packets(), 20),
    ) {
        let mut grown = Grown::default();
        for step in &steps {
            grown.step(step);
            grown.check(&packets);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// The oracle combines what all items on the path say, one by one.
    #[test]
    fn chains_keep_what_is_known_where_their_tests_have_failed(
        steps in vec(steps(), 1..30),
        asked in vec(conditions(), 30),
    ) {
        let mut grown = Grown::default();
        for step in &steps {
            grown.step(step);
            let places = grown.nodes.iter().map(|node| grown.tree.parent(*node));
            for place in places.filter(|place| place.is_some()) {
                let (passed, items) = grown.tree.passed_to(place);
                let plain = LoweredTrace::after(Vec::new(), grown.tree.items_to(place));
                let kept = LoweredTrace::after(passed, items);
                prop_assert_eq!(kept.depth(), plain.depth());
                for cond in &asked {
                    prop_assert_eq!(kept.verdict(cond), plain.verdict(cond), "{} in {}", cond, grown.tree.render());
                }
            }
        }
    }
}

#[test]
fn the_coldest_leaves_are_those_that_no_look_up_has_found_for_longest() {
    let mut tree = Tree::new();
    let packet = |value| Headers([(FIELDS[0], value), (FIELDS[1], 0), (FIELDS[2], 0)]);
    for value in 0..10 {
        let items = [Item::Read(Constraint::exact(FIELDS[0], value))];
        assert_eq!(tree.augment(&items, LeafId(value as u64)), Augmented::Added);
    }
    tree.begin_period();
    (0..8).for_each(|value| assert_eq!(tree.search(&packet(value)), Some(LeafId(value as u64))));
    tree.begin_period();
    tree.search(&packet(0));
    tree.mark_used(LeafId(9));
    assert_eq!(tree.least_recently_used(3), [LeafId(8), LeafId(1), LeafId(2)]);
    assert_eq!(tree.least_recently_used(20).last(), Some(&LeafId(9)));
    assert_eq!(tree.least_recently_used(0), []);
}

/// A question of a policy: a condition, which may end the run if the answer is yes, or a value.
#[derive(Clone, Debug)]
enum Question {
    Fits { cond: Arc<Cond>, ends: bool },
    Read(Constraint),
}

/// Draws questions, also with ranges of more blocks than a test may have.
fn questions() -> impl Strategy<Value = Vec<Question>> {
    let range = (0..4u128, 0..9u128).prop_map(|(lo, width)| Range { field: Field::TcpDst, lo, hi: lo + width });
    let ranges = (constraints(), range).prop_map(|(c, range)| {
        let all = Some(c).filter(|c| c.field != range.field).into_iter().collect();
        Arc::new(Cond { constraints: all, ranges: vec![range] })
    });
    let question = prop_oneof![
        3 => (conditions(), any::<bool>()).prop_map(|(cond, ends)| Question::Fits { cond, ends }),
        2 => (ranges, any::<bool>()).prop_map(|(cond, ends)| Question::Fits { cond, ends }),
        1 => constraints().prop_map(Question::Read),
    ];
    vec(question, 1..30)
}

/// Something that answers a run's questions.
trait Ask {
    fn fits(&mut self, packet: &Headers, cond: &Arc<Cond>) -> bool;
    fn read(&mut self, packet: &Headers, field: Field, mask: u128) -> u128;
}

impl Ask for Recorder {
    fn fits(&mut self, packet: &Headers, cond: &Arc<Cond>) -> bool {
        self.fits(packet, cond, None)
    }

    fn read(&mut self, packet: &Headers, field: Field, mask: u128) -> u128 {
        self.read_there(packet, field, mask, None)
    }
}

/// Writes a trace whose items are lowered immediately.
struct Writer(LoweredTrace<'static>, Capabilities);

impl Ask for Writer {
    fn fits(&mut self, packet: &Headers, cond: &Arc<Cond>) -> bool {
        self.0.fits(packet, &self.1, cond);
        cond.holds(packet)
    }

    fn read(&mut self, packet: &Headers, field: Field, mask: u128) -> u128 {
        self.0.read_there(packet, &self.1, field, mask)
    }
}

impl Ask for Replay<'_> {
    fn fits(&mut self, packet: &Headers, cond: &Arc<Cond>) -> bool {
        self.fits(packet, cond)
    }

    fn read(&mut self, packet: &Headers, field: Field, mask: u128) -> u128 {
        self.read_there(packet, field, mask)
    }
}

/// Runs a policy; returns its answers.
fn run(questions: &[Question], packet: &Headers, ask: &mut impl Ask) -> Vec<u128> {
    let mut answers = Vec::new();
    for question in questions {
        match question {
            Question::Fits { cond, ends } => {
                let fits = ask.fits(packet, cond);
                answers.push(u128::from(fits));
                if fits && *ends {
                    break;
                }
            }
            Question::Read(c) => answers.push(ask.read(packet, c.field, c.mask)),
        }
    }
    answers
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// Holds also if the policy sometimes changes.
    #[test]
    fn a_run_that_is_followed_gets_the_answers_and_makes_the_tree_that_writing_it_does(
        policies in vec(questions(), 1..3),
        runs in vec((any::<prop::sample::Index>(), packets(), any::<prop::sample::Index>(), 0..8), 1..40),
    ) {
        let (mut written, mut followed, mut lowered, mut replayed) =
            (Tree::new(), Tree::new(), Tree::new(), Tree::new());
        let can = Capabilities::of_abstract_headers();
        for (number, (policy, packet, gone, removes)) in runs.iter().enumerate() {
            let (policy, leaf) = (&policies[policy.index(policies.len())], LeafId(number as u64));
            let (mut writer, mut replay) = (Writer(Default::default(), can.clone()), followed.begin_replay(&can));
            let (mut recorder, mut replayer) = (Recorder::new(), replayed.begin_replay(&can));
            let answers = run(policy, packet, &mut recorder);
            prop_assert_eq!(&run(policy, packet, &mut writer), &answers);
            prop_assert_eq!(&run(policy, packet, &mut replay), &answers);
            let trace = recorder.finish();
            replayer.observe(packet, &trace);
            let (run, replay) = (replay.finish(packet), replayer.finish(packet));
            prop_assert_eq!(followed.insert_replayed(run, leaf), written.augment(writer.0.items_from(0), leaf));
            prop_assert_eq!(replayed.insert_replayed(replay, leaf), lowered.augment(&trace.lower(packet, &can).items, leaf));
            prop_assert_eq!(followed.render(), written.render());
            prop_assert_eq!(replayed.render(), lowered.render());
            if *removes == 0 && !written.is_empty() {
                let leaf = written.leaves().nth(gone.index(written.len())).unwrap();
                for (tree, other) in [(&mut written, &mut followed), (&mut lowered, &mut replayed)] {
                    prop_assert_eq!(tree.remove(leaf), other.remove(leaf));
                }
            }
        }
    }

    /// Two policies ask for one range, one of them after another range, which leaves little of the first to be asked.
    #[test]
    fn a_question_that_is_half_asked_is_not_taken_for_one_that_is_asked_there(values in vec(0..12u128, 1..8), first: bool) {
        let asks = |lo, hi| {
            let ranges = vec![Range { field: Field::TcpDst, lo, hi }];
            Question::Fits { cond: Arc::new(Cond { constraints: Vec::new(), ranges }), ends: false }
        };
        let policies = [vec![asks(3, 10)], vec![asks(1, 3), asks(3, 10)]];
        let (mut written, mut followed) = (Tree::new(), Tree::new());
        let can = Capabilities::of_abstract_headers();
        for (number, value) in values.into_iter().enumerate() {
            let policy = &policies[(number + usize::from(first)) % 2];
            let packet = Headers([(Field::Ipv4Src, 0), (Field::TcpDst, value), (Field::Ipv6Src, 0)]);
            let (mut writer, mut replay) = (Writer(Default::default(), can.clone()), followed.begin_replay(&can));
            prop_assert_eq!(run(policy, &packet, &mut writer), run(policy, &packet, &mut replay));
            let (run, leaf) = (replay.finish(&packet), LeafId(number as u64));
            prop_assert_eq!(followed.insert_replayed(run, leaf), written.augment(writer.0.items_from(0), leaf));
            prop_assert_eq!(followed.render(), written.render());
        }
    }

    /// One policy: a packet that gets to the leaf of another packet would have got the same answers.
    #[test]
    fn packets_that_get_to_a_leaf_of_a_followed_run_get_its_answers(
        policy in questions(),
        packets in vec(packets(), 1..40),
    ) {
        let (mut tree, mut answers) = (Tree::new(), Vec::new());
        let can = Capabilities::of_abstract_headers();
        for packet in &packets {
            let mut replay = tree.begin_replay(&can);
            let got = run(&policy, packet, &mut replay);
            let followed = replay.finish(packet);
            if let Some(leaf) = tree.search(packet) {
                prop_assert_eq!(tree.insert_replayed(followed, LeafId(u64::MAX)), Augmented::Existing(leaf));
                prop_assert_eq!(&answers[leaf.0 as usize], &got);
            } else {
                prop_assert_eq!(tree.insert_replayed(followed, LeafId(answers.len() as u64)), Augmented::Added);
                answers.push(got);
            }
        }
    }
}

/// Some questions have known answers, some begin with a test, and some are a test.
#[test]
fn a_run_that_asks_what_one_before_did_in_a_long_chain_is_answered_by_comparing_pointers() {
    let source = |value| Constraint::exact(Field::Ipv4Src, value);
    let ports = |lo| Range { field: Field::TcpDst, lo, hi: lo + 5 };
    let question = |i: u128| match i % 3 {
        0 => Cond::default().and(source(i)).within(ports(0)),
        1 => Cond::default().and(source(i - 1)).within(ports(8)),
        _ => Cond::default().and(source(i)),
    };
    let questions: Vec<Arc<Cond>> = (1..61).map(|i| Arc::new(question(i - 1))).collect();
    let packet = |value| Headers([(FIELDS[0], value), (FIELDS[1], 9), (FIELDS[2], 0)]);
    let (mut tree, can) = (Tree::new(), Capabilities::of_abstract_headers());
    for (leaf, source) in [(0, 1000), (1, 30)] {
        let mut run = tree.begin_replay(&can);
        let fitting: Vec<usize> = (0..60).filter(|i| run.fits(&packet(source), &questions[*i])).collect();
        assert_eq!(fitting, if source == 30 { vec![31] } else { vec![] });
        let run = run.finish(&packet(source));
        assert_eq!(tree.insert_replayed(run, LeafId(leaf)), Augmented::Added);
    }
    let mut run = tree.begin_replay(&can);
    assert!(!run.fits(&packet(1000), &questions[0]));
    assert_eq!(run.expected(), 59);
    assert!(questions[1..].iter().all(|cond| !run.fits(&packet(1000), cond)));
    assert_eq!(run.expected(), 0);
    let mut run = tree.begin_replay(&can);
    assert!(!run.fits(&packet(30), &questions[0]));
    assert_eq!(run.expected(), 29);
}
