//! Look-ups against a table that is searched row by row, and the rules of keys against every prefix of their changes.

use std::collections::{BTreeMap, HashMap};

use maple_wire::packet::Frame;
use maple_wire::{Dpid, Field, Instruction, Packet, PortNo};
use proptest::prelude::*;
use rustc_hash::FxHashMap;

use super::registers::SOURCE_IS_HERE;
use super::{Classified, Component, KeyBits, KeyField, KeyForm, KeyRules, KeyTarget, LookUp, LookUpNumber, Registers};
use crate::network::{HostInfo, Location, Mac};
use crate::report::Lowered;
use crate::rule::{Rule, is_to_controller_only};
use crate::state::{Memorable, Store, Value, Write};
use crate::trace::{Fields, ReadMetadata};
use crate::update::Change;

mod ways;

const TABLE: u8 = 2;
const FIRST: LookUpNumber = LookUpNumber(0);

fn look_up() -> LookUp {
    LookUp::by("ports", KeyField { field: Field::TcpDst, form: KeyForm::Int })
}

fn frame(tcp_dst: u16) -> Vec<u8> {
    Frame::ethernet([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2])
        .ipv4([10, 0, 0, 1], [10, 0, 0, 2])
        .tcp(1000, tcp_dst)
        .build()
}

/// The state of a packet after the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Controller,
    Metadata(u64),
}

/// Passes a packet through rules of which at most one matches.
fn pass(rules: &[Rule], packet: &Packet<'_>) -> Outcome {
    let fits = |rule: &&Rule| rule.matching.constraints().all(|c| packet.value(c.field).is_some_and(|v| c.holds(v)));
    let mut matching = rules.iter().filter(fits);
    let found = matching.next();
    assert!(matching.next().is_none(), "two rules match a packet");
    match found.map(|rule| &rule.instructions[..]) {
        None => Outcome::Metadata(0),
        Some(instructions) if is_to_controller_only(instructions) => Outcome::Controller,
        Some([Instruction::WriteMetadata { metadata, mask }, Instruction::GotoTable(next)]) => {
            assert!((metadata & !mask, *next) == (0, TABLE + 1));
            Outcome::Metadata(*metadata)
        }
        Some(other) => panic!("{other:?}"),
    }
}

fn apply(rules: &mut Vec<Rule>, change: &Change) {
    let (Change::Add(rule) | Change::Modify(rule) | Change::Delete(rule)) = change;
    let there = rules.iter().position(|of| of.matching == rule.matching);
    assert_eq!(there.is_none(), matches!(change, Change::Add(_)), "{change:?}");
    there.into_iter().for_each(|at| drop(rules.remove(at)));
    if !matches!(change, Change::Delete(_)) {
        rules.push(rule.clone());
    }
}

/// The way in which changes are taken.
#[derive(Clone, Copy, Debug)]
enum Take {
    Extend,
    Divert,
    Finish,
    Learn,
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn at_each_moment_a_packet_is_in_the_former_class_or_the_new_one_or_comes_to_the_controller(
        steps in proptest::collection::vec(
            (
                proptest::collection::hash_map(0..6u16, proptest::option::weighted(0.9, 1..4u64), 0..6),
                prop_oneof![Just(Take::Extend), Just(Take::Divert), Just(Take::Finish), Just(Take::Learn)],
                any::<bool>(),
            ),
            1..30,
        ),
    ) {
        let (mut rules, mut switch) = (KeyRules::new(look_up(), TABLE, 7), Vec::new());
        let frames: Vec<Vec<u8>> = (0..6).map(frame).collect();
        let packets: Vec<Packet<'_>> = frames.iter().map(|frame| Packet::new(frame, 1)).collect();
        rules.set_all(0xff, FxHashMap::default());
        let mut classes_before = HashMap::new();
        for (classes, take, sets_all) in steps {
            let wanted = |packet: &Packet<'_>| match classes.get(&(packet.value(Field::TcpDst).unwrap_or(0) as u16)) {
                None => Some(0),
                Some(class) => *class,
            };
            let before: Vec<Outcome> = packets.iter().map(|packet| pass(&switch, packet)).collect();
            let as_key = |key: &u16| vec![u128::from(*key)].into_boxed_slice();
            let has_due = if sets_all {
                rules.set_all(0xff, classes.iter().map(|(key, class)| (as_key(key), KeyTarget::from_class(*class))).collect())
            } else {
                let class = |key: &u16| classes.get(key).copied().unwrap_or(Some(0));
                let is_new = |key: &u16| classes_before.get(key).copied().unwrap_or(Some(0)) != class(key);
                rules.set((0..6).filter(is_new).map(|key| (as_key(&key), KeyTarget::from_class(class(&key)))))
            };
            prop_assert_eq!(has_due, rules.has_due());
            classes_before.clone_from(&classes);
            prop_assert!(packets.iter().all(|packet| rules.metadata(packet) == wanted(packet)));
            let changes = match take {
                // No leaf's rule matches anything yet.
                Take::Extend => rules.extend(),
                Take::Divert => rules.divert(),
                Take::Finish => rules.finish(),
                Take::Learn => {
                    let others = rules.learn(switch.clone());
                    prop_assert!(others.is_empty(), "{others:?}");
                    rules.divert()
                }
            };
            for change in &changes {
                apply(&mut switch, change);
                for (packet, before) in packets.iter().zip(&before) {
                    let now = pass(&switch, packet);
                    let is_new = wanted(packet).is_some_and(|class| now == Outcome::Metadata(class));
                    prop_assert!(now == *before || is_new || now == Outcome::Controller, "{change:?}");
                }
            }
            let is_done = |packet: &Packet<'_>| match wanted(packet) {
                Some(class) => pass(&switch, packet) == Outcome::Metadata(class),
                None => pass(&switch, packet) == Outcome::Controller,
            };
            let all_done = packets.iter().all(is_done);
            prop_assert_eq!(rules.has_due(), !all_done);
            if matches!(take, Take::Finish) {
                prop_assert!(all_done);
            }
            let mut believed: Vec<String> = rules.rules().map(|rule| format!("{rule:?}")).collect();
            let mut there: Vec<String> = switch.iter().map(|rule| format!("{rule:?}")).collect();
            believed.sort();
            there.sort();
            prop_assert_eq!(believed, there);
        }
    }

    #[test]
    fn a_look_up_finds_what_a_search_of_the_rows_finds(
        rows in proptest::collection::vec(((0..4i64), (0..4i64), 0..5i64), 0..20),
        is_tuple: bool,
    ) {
        let fields = [Field::TcpDst, Field::InPort].map(|field| KeyField { field, form: KeyForm::Int });
        let look_up =
            if is_tuple { LookUp::by_tuple("ports", fields) } else { LookUp::by("ports", fields[0]) };
        let store = Store::new();
        let key = |a: i64, b: i64| {
            if is_tuple { Value::from(vec![Value::from(a), Value::from(b)]) } else { Value::from(a) }
        };
        let put = |(a, b, value): (i64, i64, i64)| Write::Table {
            table: "ports".into(),
            key: key(a, b),
            value: Some(Value::from(value)),
        };
        store.update(|_| rows.into_iter().map(put).collect());
        // No packet has these.
        store.update(|_| {
            let odd = [Value::from(-1i64), Value::from(1i64 << 40), Value::from("80"), Value::from(vec![Value::from(1i64)])];
            let put = |key| Write::Table { table: "ports".into(), key, value: Some(Value::from(1i64)) };
            odd.map(put).into()
        });
        let (state, mut registers) = (store.snapshot(), Registers::new(1, u16::MAX));
        registers.classify(&look_up, Component::Value, None);
        let classes: FxHashMap<_, _> =
            look_up.entries(&state).into_iter().map(|(key, value)| (key, KeyTarget::from_class(registers.bits(FIRST, &value)))).collect();
        let mut rules = KeyRules::new(look_up.clone(), TABLE, 7);
        rules.set_all(registers.mask(FIRST), classes);
        for (tcp_dst, in_port) in (0..4u16).flat_map(|a| (0..4u32).map(move |b| (a, b))) {
            let frame = frame(tcp_dst);
            let packet = Packet::new(&frame, in_port);
            let bits = look_up.key_of(&packet).expect("the packet has the fields");
            let found = LookUp::value(look_up.cell(&bits).evaluate(&state));
            let row = state.table("ports").and_then(|rows| rows.get(&key(i64::from(tcp_dst), i64::from(in_port))));
            prop_assert_eq!(found.as_ref(), row);
            let Classified::As(class) = registers.classify(&look_up, Component::Value, row) else { panic!("it has a register") };
            prop_assert_eq!(rules.metadata(&packet).map(u128::from), Some(class.value));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_keys_written_since_a_version_are_all_that_differ(
        commits in proptest::collection::vec(proptest::collection::vec((0..5i64, proptest::option::of(0..3i64)), 0..4), 1..12),
        pick: prop::sample::Index,
    ) {
        let (store, look_up) = (Store::new(), look_up());
        let mut states = vec![store.snapshot()];
        for commit in commits {
            let put = |(key, value): (i64, Option<i64>)| {
                let location = |value| Location::new(Dpid(1), PortNo(value as u32));
                let host = |value| HostInfo { location: location(value), ipv4: [].into(), ipv6: [].into() };
                let mac = Write::Host { mac: Mac::from_bits(key as u128), info: value.map(host) };
                [Write::Table { table: "ports".into(), key: key.into(), value: value.map(Value::from) }, mac]
            };
            store.update(|_| commit.into_iter().flat_map(put).collect());
            states.push(store.snapshot());
        }
        let (earlier, now) = (pick.get(&states), &states[states.len() - 1]);
        for look_up in [look_up, LookUp::of_host(Field::EthDst)] {
            let entries = |state| look_up.entries(state).into_iter().collect::<HashMap<KeyBits, Value>>();
            let (mut followed, all) = (entries(earlier), entries(now));
            let keys: Vec<KeyBits> = followed.keys().cloned().collect();
            match look_up.written_since(now, earlier.version(), keys.iter()) {
                Some(written) => {
                    for (key, value) in written {
                        match value {
                            Some(value) => drop(followed.insert(key, value)),
                            None => drop(followed.remove(&key)),
                        }
                    }
                    prop_assert_eq!(followed, all);
                }
                // A table without keys does not exist, so what was in it is not known.
                None => prop_assert!(look_up != LookUp::of_host(Field::EthDst)),
            }
        }
    }
}

#[test]
fn a_rule_that_only_looks_like_that_of_a_key_is_of_none() {
    let mut rules = KeyRules::new(look_up(), TABLE, 7);
    rules.set_all(0xff, [([80].into(), KeyTarget::from_class(Some(3)))].into_iter().collect());
    rules.finish();
    let there: Vec<Rule> = rules.rules().collect();
    let narrower = |rule: &Rule| Rule { matching: rule.matching.clone().exact(Field::InPort, 1), ..rule.clone() };
    let higher = |rule: &Rule| Rule { priority: rule.priority + 1, ..rule.clone() };
    let strangers: Vec<Rule> = there.iter().map(narrower).chain(there.iter().map(higher)).collect();
    let others = rules.learn([there, strangers.clone()].concat());
    assert_eq!(others, strangers);
    assert!(!rules.has_due(), "the rules of the key stay");
}

#[test]
fn a_component_without_a_register_never_gets_one() {
    let mut registers = Registers::new(1, u16::MAX);
    let other = LookUp::by("hosts", KeyField { field: Field::EthSrc, form: KeyForm::Mac });
    let value = Value::from(1i64);
    assert!(matches!(registers.classify(&look_up(), Component::Presence, None), Classified::As(_)));
    assert_eq!(registers.classify(&other, Component::Value, Some(&value)), Classified::Lowered, "there is one table");
    for component in [Component::Value, Component::Presence] {
        assert!(matches!(registers.classify(&look_up(), component, Some(&value)), Classified::As(_)));
    }
    assert_eq!(registers.take_lowered(), [(other, Lowered::NoTable)]);
    registers.lower(FIRST, Lowered::TableFull);
    assert_eq!(registers.classify(&look_up(), Component::Value, Some(&value)), Classified::Lowered);
    assert_eq!(registers.take_lowered(), [(look_up(), Lowered::TableFull)]);
    assert!(
        registers.mask(FIRST) == 0 && registers.look_ups().len() == 1,
        "it keeps its table, and others keep theirs"
    );
}

#[test]
fn a_look_up_that_nobody_asks_any_more_keeps_its_table_until_no_rule_has_to_do_with_it() {
    let mut registers = Registers::new(1, u16::MAX);
    let other = LookUp::by("hosts", KeyField { field: Field::EthSrc, form: KeyForm::Mac });
    let value = Value::from(1i64);
    let Classified::As(first) = registers.classify(&look_up(), Component::Value, Some(&value)) else { panic!() };
    assert_eq!(registers.classify(&other, Component::Value, Some(&value)), Classified::Lowered);
    assert_eq!((registers.retire(FIRST), registers.ended_bits()), (Some(look_up()), Some(first.mask as u64)));
    for _ in 0..2 {
        assert_eq!(registers.classify(&look_up(), Component::Value, Some(&value)), Classified::TooMany, "no leaf");
        assert_eq!(registers.classify(&other, Component::Value, Some(&value)), Classified::Lowered);
        // The next run of the controller knows that too, but for what was lowered for want of a table.
        let bytes = registers.clone().shared().bytes();
        let mut next = Registers::new(1, u16::MAX);
        next.adopt(&bytes);
        assert!(next.keeps_table(FIRST));
        assert_eq!(next.take_lowered(), []);
        assert!(matches!(next.classify(&look_up(), Component::Value, Some(&value)), Classified::As(_)), "in its table");
    }
    assert_eq!(registers.vacate(), std::slice::from_ref(&other));
    assert_eq!((registers.ended_bits(), registers.take_lowered()), (None, Vec::new()));
    assert_eq!(registers.classify(&other, Component::Value, Some(&value)), Classified::As(first), "in its place");
    assert_eq!(
        registers.classify(&look_up(), Component::Value, Some(&value)),
        Classified::Lowered,
        "there is one table"
    );
}

/// Registers against a list of which bits belong to whom.
#[test]
fn registers_and_rules_of_ended_look_ups_never_share_bits() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let mut registers = Registers::new(5, u16::MAX);
    let (mut given, mut ended) = (BTreeMap::<(LookUp, Component), u64>::new(), 0_u64);
    let mut vacated = 0;
    for _ in 0..3_000 {
        let name =
            LookUp::by(format!("t{}", random.u8(..8)).as_str(), KeyField { field: Field::EthSrc, form: KeyForm::Mac });
        let component = if random.bool() { Component::Presence } else { Component::Value };
        match random.u8(..10) {
            0 => {
                let is_given =
                    |(_, of): &(LookUpNumber, &LookUp)| **of == name && given.keys().any(|(of, _)| *of == name);
                let number = registers.look_ups().find(is_given).map(|(number, _)| number);
                let Some(number) = number.filter(|number| !registers.has_ended(*number)) else { continue };
                ended |= registers.mask(number);
                assert_eq!(registers.retire(number), Some(name.clone()));
                given.retain(|(of, _), _| *of != name);
            }
            1 => {
                vacated += u32::from(ended != 0);
                registers.vacate();
                ended = 0;
            }
            _ => {
                if let Classified::As(class) = registers.classify(&name, component, None) {
                    let mask = class.mask as u64;
                    let before = given.insert((name.clone(), component), mask);
                    assert!(before.is_none_or(|before| before == mask), "{name} {component:?}");
                    let others = given.iter().filter(|(of, _)| **of != (name.clone(), component));
                    assert!(mask & (SOURCE_IS_HERE | ended) == 0 && others.into_iter().all(|(_, of)| of & mask == 0));
                }
            }
        }
        assert_eq!(registers.ended_bits().unwrap_or(0), ended);
    }
    assert!(vacated > 20, "{vacated}");
}

#[test]
fn bits_that_a_further_component_would_need_are_missed_once() {
    let mut registers = Registers::new(9, u16::MAX);
    let look_up = |name: &str| LookUp::by(name, KeyField { field: Field::EthSrc, form: KeyForm::Mac });
    for name in ["a", "b", "c"] {
        assert!(matches!(registers.classify(&look_up(name), Component::Value, None), Classified::As(_)));
    }
    for _ in 0..2 {
        assert_eq!(registers.classify(&look_up("d"), Component::Value, None), Classified::Lowered);
    }
    assert!(
        matches!(registers.classify(&look_up("d"), Component::Presence, None), Classified::As(_)),
        "it takes one bit"
    );
    assert_eq!(registers.take_lowered(), [(look_up("d"), Lowered::NoBits)]);
}

/// Classes against a list of values with numbers, of which each number has one.
#[test]
fn numbers_of_values_that_nothing_has_any_more_become_free() {
    const MAX: u16 = 5;
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let (mut registers, mut numbers) = (Registers::new(1, MAX), BTreeMap::<i64, u128>::new());
    let mut freed = 0;
    for step in 0..2_000 {
        let value = random.i64(..4 + step / 200);
        match registers.classify(&look_up(), Component::Value, Some(&Value::from(value))) {
            Classified::As(of) => {
                let known = numbers.iter().find(|(_, number)| **number == of.value);
                assert!(known.is_none_or(|(of, _)| *of == value) && of.value != 0, "{value} {numbers:?} {of:?}");
                let read = ReadMetadata { value: of.value as u64, mask: of.mask as u64 };
                assert_eq!(registers.found(&look_up(), Component::Value, read), Some(Some(Value::from(value))));
                assert_eq!(*numbers.entry(value).or_insert(of.value), of.value);
            }
            Classified::TooMany => {
                assert!(numbers.len() == usize::from(MAX) && !numbers.contains_key(&value));
                assert_eq!(registers.exhausted(), [FIRST]);
                numbers.retain(|_, _| random.u8(..3) > 0);
                let mask = registers.mask(FIRST);
                let in_use: Vec<ReadMetadata> =
                    numbers.values().map(|value| ReadMetadata { value: *value as u64, mask }).collect();
                assert_eq!(registers.free_others(FIRST, &in_use), numbers.len() < usize::from(MAX));
                assert!(registers.exhausted().is_empty());
                freed += 1;
            }
            Classified::Lowered => panic!("it has a register"),
        }
        // Those of the next run of the controller are equal.
        if random.u8(..50) == 0 {
            let bytes = registers.shared().bytes();
            registers = Registers::new(1, MAX);
            registers.adopt(&bytes);
        }
    }
    assert!(freed > 10, "{freed}");
}

#[test]
fn classes_of_equal_values_are_equal_and_there_is_an_end_of_them() {
    let mut registers = Registers::new(4, u16::MAX);
    let mut class = |value: i64| registers.classify(&look_up(), Component::Value, Some(&Value::from(value)));
    assert_eq!(class(1), class(1));
    assert_ne!(class(1), class(2));
    assert!((0..65_535).all(|value| matches!(class(value), Classified::As(of) if of.value != 0)));
    assert_eq!(class(65_535), Classified::TooMany);
}
