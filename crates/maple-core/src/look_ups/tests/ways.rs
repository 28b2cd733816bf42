//! The ways that keys' rules write: to the places that keys have, as they are wanted, ready, and refused.

use std::collections::{BTreeMap, BTreeSet};

use maple_wire::{Action, Dpid, Field, Instruction, PortNo};
use proptest::prelude::*;
use rustc_hash::FxHashMap;

use super::super::{Classified, Component, KeyRules, KeyTarget, LookUp, OpenPaths, Registers};
use super::{FIRST, TABLE, Take, apply, look_up};
use crate::network::Location;
use crate::rule::Rule;
use crate::state::Memorable;

/// Returns a place, by the number of its port.
fn place(port: u32) -> Location {
    Location::new(Dpid(1), PortNo(port))
}

/// Returns the way that the rule of a key writes, if the switch has one.
fn way(switch: &[Rule], key: u16) -> Option<Vec<Action>> {
    let is_for_key = |rule: &&Rule| rule.matching.get(Field::TcpDst).is_some_and(|of| of.value == u128::from(key));
    // The way for IPv4; that for IPv6 is the same.
    let rule = switch.iter().find(is_for_key)?;
    let written = rule.instructions.iter().find_map(|instruction| match instruction {
        Instruction::WriteActions(actions) => Some(actions.clone()),
        _ => None,
    });
    let leads_on = rule.instructions.iter().any(|instruction| matches!(instruction, Instruction::GotoTable(_)));
    leads_on.then(|| written.unwrap_or_default())
}

/// Something that happens to keys with ways.
#[derive(Clone, Debug)]
enum WayStep {
    /// A key has another place, or none.
    Move(u16, Option<u32>),
    /// The way to a place is ready, by this port, or is not.
    Way(u32, Option<u32>),
    /// Somebody wants the way to a place.
    Want(u32),
    Take(Take),
}

fn way_steps() -> impl Strategy<Value = Vec<WayStep>> {
    let takes = prop_oneof![Just(Take::Extend), Just(Take::Divert), Just(Take::Finish), Just(Take::Learn)];
    let step = prop_oneof![
        (0..4u16, proptest::option::weighted(0.8, 0..3u32)).prop_map(|(key, to)| WayStep::Move(key, to)),
        (0..3u32, proptest::option::of(0..3u32)).prop_map(|(to, port)| WayStep::Way(to, port)),
        (0..3u32).prop_map(WayStep::Want),
        takes.prop_map(WayStep::Take),
    ];
    proptest::collection::vec(step, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn keys_rules_write_the_way_to_the_place_that_the_key_has(steps in way_steps()) {
        let (mut rules, mut switch) = (KeyRules::new(look_up(), TABLE, 7), Vec::new());
        rules.set_all(1, FxHashMap::default());
        rules.begin_ways();
        // The naive form: which place each key has, and which way each place.
        let (mut places, mut ways) = (BTreeMap::new(), BTreeMap::new());
        // A wish ends with the last key of its place, and goes along with a key that moves.
        let mut of_somebody = BTreeSet::new();
        let wanted = |places: &BTreeMap<u16, u32>, ways: &BTreeMap<u32, u32>, key: u16| {
            let to = places.get(&key)?;
            let action = ways.get(to).map_or_else(Action::to_controller, |port| Action::output(PortNo(*port)));
            Some(vec![action])
        };
        for step in steps.into_iter().chain([WayStep::Take(Take::Finish)]) {
            let take = match step {
                WayStep::Move(key, to) => {
                    let from: Option<u32> = places.remove(&key);
                    let goes_along = from != to && from.is_some_and(|from| of_somebody.contains(&from));
                    if from != to {
                        of_somebody.retain(|place| Some(*place) != from || places.values().any(|of| of == place));
                    }
                    places.extend(to.map(|to| (key, to)));
                    of_somebody.extend(to.filter(|_| goes_along));
                    let target = to.map_or(KeyTarget::ABSENT, |to| KeyTarget { class: Some(1), place: Some(place(to)) });
                    rules.set([(vec![u128::from(key)].into_boxed_slice(), target)]);
                    continue;
                }
                WayStep::Way(to, port) => {
                    ways.remove(&to);
                    ways.extend(port.map(|port| (to, port)));
                    rules.set_way(place(to), port.map(|port| [Action::output(PortNo(port))].into()));
                    continue;
                }
                WayStep::Want(to) => {
                    let is_there = places.values().any(|of| *of == to);
                    prop_assert_eq!(rules.ways_mut().map(|ways| ways.want(place(to))), Some(is_there));
                    of_somebody.extend(is_there.then_some(to));
                    continue;
                }
                WayStep::Take(take) => take,
            };
            if matches!(take, Take::Extend) {
                // Leaves' rules may match all that the rules write.
                rules.let_leaves_match_all();
            }
            let before: Vec<_> = (0..4).map(|key| way(&switch, key)).collect();
            let changes = match take {
                Take::Extend => rules.extend(),
                Take::Divert => rules.divert(),
                Take::Finish => rules.finish(),
                Take::Learn => {
                    prop_assert!(rules.learn(switch.clone()).is_empty());
                    rules.divert()
                }
            };
            changes.iter().for_each(|change| apply(&mut switch, change));
            for key in 0..4 {
                let (now, is_new) = (way(&switch, key), way(&switch, key) == wanted(&places, &ways, key));
                prop_assert!(now == before[usize::from(key)] || now.is_none() || is_new, "key {key}: {now:?}");
                prop_assert!(!matches!(take, Take::Finish) || is_new, "key {key}: {now:?}");
            }
        }
        let all: BTreeSet<Location> = of_somebody.iter().map(|to| place(*to)).collect();
        let reported = rules.ways_mut().map(|ways| ways.take_changed()).unwrap_or_default();
        let wanted = reported.into_iter().filter(|(_, is_wanted)| *is_wanted).map(|(place, _)| place).collect();
        prop_assert_eq!(all, wanted, "each way that is wanted is reported");
        prop_assert_eq!(rules.ways_mut().map(|ways| ways.take_changed()), Some(Vec::new()));
    }
}

#[test]
fn a_way_changes_while_leaves_are_at_rest_and_to_the_controller_at_once() {
    let (mut rules, mut switch) = (KeyRules::new(look_up(), TABLE, 7), Vec::new());
    let at = |port: u32| KeyTarget { class: Some(1), place: Some(place(port)) };
    let key = || vec![80].into_boxed_slice();
    let actions = |port: u32| Some([Action::output(PortNo(port))].into());
    rules.set_all(1, [(key(), at(1))].into_iter().collect());
    rules.begin_ways();
    rules.set_way(place(1), actions(1));
    rules.set_way(place(2), actions(2));
    rules.finish().iter().for_each(|change| apply(&mut switch, change));
    rules.let_leaves_match_all();
    // Another way to the place, and another place of the same class.
    for moves in [false, true] {
        if moves {
            rules.set([(key(), at(2))]);
        } else {
            rules.set_way(place(1), actions(3));
        }
        assert_eq!(rules.extend(), []);
        assert!(rules.has_due());
        let changes = rules.finish();
        assert_eq!(changes.len(), switch.len(), "{changes:?}");
        assert!(!rules.has_due());
    }
    // No way any more.
    rules.set_way(place(2), None);
    let changes = rules.extend();
    assert_eq!(changes.len(), switch.len(), "{changes:?}");
    assert!(!rules.has_due());
    // A way that becomes ready is another one.
    rules.set_way(place(2), actions(2));
    assert_eq!(rules.extend(), []);
    assert!(rules.has_due());
}

#[test]
fn the_rules_of_leaves_do_not_wait_for_ways_that_become_ready() {
    let (mut rules, mut switch) = (KeyRules::new(look_up(), TABLE, 7), Vec::new());
    let at = |port: u32| KeyTarget { class: Some(1), place: Some(place(port)) };
    let key = |number: u16| vec![u128::from(number)].into_boxed_slice();
    rules.set_all(1, (1..=3).map(|number| (key(number), at(u32::from(number)))).collect());
    rules.begin_ways();
    rules.finish().iter().for_each(|change| apply(&mut switch, change));
    rules.let_leaves_match_all();
    for number in 1..=2 {
        rules.set_way(place(number), Some([Action::output(PortNo(number))].into()));
        assert!(rules.has_due() && rules.are_diverted());
        assert_eq!((rules.extend(), rules.divert()), (Vec::new(), Vec::new()));
    }
    // A key that goes has to send to the controller first, and those whose way is ready stay as they are.
    rules.set([(key(3), KeyTarget::ABSENT)]);
    assert!(!rules.are_diverted());
    assert_eq!(rules.divert().len(), 2, "for IPv4 and IPv6");
    assert!(rules.are_diverted());
    // So does one that has a way, and gets another.
    rules.finish();
    rules.set_way(place(1), Some([Action::output(PortNo(9))].into()));
    assert!(!rules.are_diverted());
}

#[test]
fn a_way_that_the_switch_refuses_is_not_tried_again_before_it_is_another() {
    let (mut rules, mut switch) = (KeyRules::new(look_up(), TABLE, 7), Vec::new());
    let by = |port: u32| Some([Action::output(PortNo(port))].into());
    let target = KeyTarget { class: Some(1), place: Some(place(1)) };
    rules.set_all(1, [(vec![80].into_boxed_slice(), target)].into_iter().collect());
    rules.begin_ways();
    rules.set_way(place(1), by(1));
    rules.finish().iter().for_each(|change| apply(&mut switch, change));
    let controller = Some(vec![Action::to_controller()]);
    let refused = switch.clone();
    assert!(rules.refuse_way(&refused[0]) && !rules.ways().is_some_and(|ways| ways.is_ready(place(1))));
    for _ in 0..2 {
        rules.finish().iter().for_each(|change| apply(&mut switch, change));
        assert_eq!(way(&switch, 80), controller);
        rules.set_way(place(1), by(1));
    }
    assert!(!rules.has_due());
    rules.set_way(place(1), by(2));
    rules.set_way(place(1), by(1));
    rules.finish().iter().for_each(|change| apply(&mut switch, change));
    assert_eq!(way(&switch, 80), Some(vec![Action::output(PortNo(1))]));
}

#[test]
fn the_first_paths_that_are_asked_for_have_the_look_up_until_it_ends() {
    let by = |costs: Option<&str>| OpenPaths { costs: costs.map(Into::into) };
    let of_host = LookUp::of_host(Field::EthDst);
    let mut registers = Registers::new(1, u16::MAX).with_open_paths(true);
    assert!(!registers.claim_paths(&of_host, by(None)), "nobody has asked for it");
    assert!(matches!(registers.classify(&of_host, Component::Presence, None), Classified::As(_)));
    assert!(registers.claim_paths(&of_host, by(Some("long"))) && registers.claim_paths(&of_host, by(Some("long"))));
    assert!(
        !registers.has_refused_paths(FIRST)
            && !registers.claim_paths(&of_host, by(None))
            && registers.has_refused_paths(FIRST)
    );
    let mut freed = registers.clone();
    freed.release_paths(FIRST);
    assert!(
        !freed.has_refused_paths(FIRST)
            && freed.claim_paths(&of_host, by(None))
            && !freed.claim_paths(&of_host, by(Some("long")))
    );
    let mut next = Registers::new(1, u16::MAX).with_open_paths(true);
    next.adopt(&std::sync::Mutex::new(registers.clone()).bytes());
    assert!(
        next.claim_paths(&of_host, by(Some("long"))) && !next.claim_paths(&of_host, by(None)),
        "a restart keeps it"
    );
    let mut closed = Registers::new(1, u16::MAX);
    closed.adopt(&std::sync::Mutex::new(registers.clone()).bytes());
    assert!(!closed.claim_paths(&of_host, by(Some("long"))) && closed.open_paths(FIRST).is_none());
    registers.retire(FIRST);
    assert_eq!(registers.open_paths(FIRST), None);
    registers.vacate();
    assert!(matches!(registers.classify(&of_host, Component::Presence, None), Classified::As(_)));
    assert!(registers.claim_paths(&of_host, by(None)));
}
