//! Detours: entries whose packets go to the controller while a rule that they lead to changes its meaning.
//!
//! An entry of the ingress table writes metadata and leads to the rule of that metadata in the table of routes. The
//! order of changes (`update.rs`) is safe within each table. Across both it is not: if the route's rule changes, and an
//! entry begins or ceases to lead there, a packet of that entry meets the route's other path between the two changes. f
//! never decided that path for it. Such entries are left by an earlier run of the controller
//! (`engine/reruns/restore.rs`), found when rules are read, and made by leaves that leave a route which changes at
//! once. They send to the controller first. Once the switch has confirmed that, the rest is sent.

use std::collections::BTreeMap;

use maple_wire::{Field, Instruction};

use super::{PendingRules, Tables};
use crate::rule::{Rule, to_controller};
use crate::update::{Change, EntryKey};

/// A target of entries: a table, and the metadata that a rule of it matches.
type DetourTarget = (u8, u64);

/// The targets whose rules are to change, and whether the switch has a rule there already.
pub(super) struct ChangedTargets(BTreeMap<DetourTarget, bool>);

impl Tables {
    /// Finds the targets whose rules are to do something else than the switch does there.
    pub(super) fn changed_targets(&self) -> ChangedTargets {
        let target = |table: u8, key: &EntryKey, wanted: Option<&Rule>| {
            let rule = wanted?;
            let metadata = rule.matching.get(Field::Metadata).filter(|of| of.is_exact())?.value as u64;
            let installed_rule = self.installed.get(&table).and_then(|installed| installed.get(key));
            let differs =
                installed_rule.is_none_or(|installed_rule| !installed_rule.has_instructions(&rule.instructions));
            differs.then_some(((table, metadata), installed_rule.is_some()))
        };
        let of_table = |(table, pending): (&u8, &PendingRules)| -> Vec<(DetourTarget, bool)> {
            pending.entries().filter_map(|(key, wanted)| target(*table, key, wanted)).collect()
        };
        ChangedTargets(self.pending.iter().flat_map(of_table).collect())
    }

    /// Returns the changes by which entries that are to lead elsewhere cease to lead to changed targets.
    pub(super) fn detours(&self, changed: &ChangedTargets) -> Vec<(u8, Change)> {
        let detour = |table: u8, key: &EntryKey, wanted: Option<&Rule>| {
            let installed_rule = self.installed.get(&table)?.get(key)?.at(key);
            let before = target_of(&installed_rule.instructions).filter(|target| changed.0.contains_key(target))?;
            let is_to_stay = wanted.is_some_and(|rule| target_of(&rule.instructions) == Some(before));
            (!is_to_stay).then(|| (table, Change::Modify(Rule { instructions: to_controller(), ..installed_rule })))
        };
        if changed.0.is_empty() {
            return Vec::new();
        }
        let of_table = |(table, pending): (&u8, &PendingRules)| -> Vec<(u8, Change)> {
            pending.entries().filter_map(|(key, wanted)| detour(*table, key, wanted)).collect()
        };
        self.pending.iter().flat_map(of_table).collect()
    }
}

impl ChangedTargets {
    /// Makes additions send to the controller if they would lead to a rule before it changes. Returns whether there are
    /// any.
    pub fn divert(&self, additions: &mut [(u8, Change)]) -> bool {
        let mut any = false;
        for (_, change) in additions {
            let Change::Add(rule) = change else { continue };
            if target_of(&rule.instructions).and_then(|target| self.0.get(&target)) == Some(&true) {
                rule.instructions = to_controller();
                any = true;
            }
        }
        any
    }
}

/// Returns the target of these instructions.
fn target_of(instructions: &[Instruction]) -> Option<DetourTarget> {
    let table = instructions
        .iter()
        .find_map(|instruction| if let Instruction::GotoTable(table) = instruction { Some(*table) } else { None });
    let metadata = instructions.iter().find_map(|instruction| match instruction {
        Instruction::WriteMetadata { metadata, .. } => Some(*metadata),
        _ => None,
    });
    table.zip(metadata)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::hash::{BuildHasher, RandomState};

    use fastrand::Rng;
    use maple_wire::msg::{FlowModCommand, Message};
    use maple_wire::{Action, Match, PortNo, Version};

    use super::super::Requests;
    use super::*;
    use crate::ids::Time;

    const INGRESS: u8 = 1;
    const ROUTES: u8 = 3;
    const KINDS: u128 = 5;

    /// The two tables of a switch. Each has at most one rule for a kind of packet.
    type Rules = BTreeMap<u8, Vec<Rule>>;

    fn random_rules(random: &mut Rng) -> Rules {
        let rule = |matching, instructions: Vec<Instruction>| Rule {
            priority: 10,
            matching,
            instructions: instructions.into(),
            cookie: 0,
        };
        let output = |port: usize| Instruction::ApplyActions(vec![Action::output(PortNo(port as u32 + 1))]);
        let mut ingress = Vec::new();
        for kind in 0..KINDS {
            let metadata = random.usize(..3) as u64;
            let instructions = match random.usize(..6) {
                0 => continue,
                1 => vec![output(random.usize(..3))],
                2 => to_controller().to_vec(),
                _ => vec![Instruction::WriteMetadata { metadata, mask: u64::MAX }, Instruction::GotoTable(ROUTES)],
            };
            ingress.push(rule(Match::any().exact(Field::EthDst, kind), instructions));
        }
        let mut routes = Vec::new();
        for metadata in 0..3 {
            if random.usize(..100) < 80 {
                let matching = Match::any().exact(Field::Metadata, metadata);
                routes.push(rule(matching, vec![output(random.usize(..3))]));
            }
        }
        BTreeMap::from([(INGRESS, ingress), (ROUTES, routes)])
    }

    /// Returns the port by which a packet of this kind leaves; `None`: it comes to the controller.
    fn answer(rules: &Rules, kind: u128) -> Option<PortNo> {
        let first = |table: u8, field: Field, value: u128| {
            let matches_value = |rule: &&Rule| rule.matching.get(field).is_some_and(|c| c.value == value);
            rules[&table].iter().find(matches_value).map(|rule| rule.instructions.to_vec())
        };
        let mut instructions = first(INGRESS, Field::EthDst, kind)?;
        if let Some((table, metadata)) = target_of(&instructions) {
            instructions = first(table, Field::Metadata, u128::from(metadata))?;
        }
        let [Instruction::ApplyActions(actions)] = &instructions[..] else { panic!("{instructions:?}") };
        let [Action::Output { port, .. }] = actions[..] else { panic!("{actions:?}") };
        Some(port).filter(|port| *port != PortNo::CONTROLLER)
    }

    /// Does what a switch does when it gets a message. Returns whether that was a change.
    fn obey(rules: &mut Rules, message: &Message) -> bool {
        let Message::FlowMod(flow_mod) = message else { return false };
        let table = rules.get_mut(&flow_mod.table_id).expect("one of the two tables");
        table.retain(|rule| rule.matching != flow_mod.matching);
        if flow_mod.command == FlowModCommand::Add {
            table.push(Rule {
                priority: flow_mod.priority,
                matching: flow_mod.matching.clone(),
                instructions: flow_mod.instructions.clone().into(),
                cookie: flow_mod.cookie,
            });
        }
        true
    }

    fn turn(tables: &mut Tables) -> Requests {
        let mut out = Requests::new();
        if tables.begin_update(Time(1), &mut out) {
            tables.send_update(Time(1), Some(0), &mut out);
        }
        out
    }

    #[test]
    fn between_two_changes_a_packet_gets_the_former_answer_or_the_next_or_comes_to_the_controller() {
        let seed = RandomState::new().hash_one(0);
        let (mut random, mut detours, mut ports) = (Rng::with_seed(seed), 0, BTreeSet::new());
        for _ in 0..2_000 {
            let (before, mut after) = (random_rules(&mut random), random_rules(&mut random));
            // What is wanted leads only to rules that are wanted.
            let has = |(table, metadata): DetourTarget| {
                let has_metadata =
                    |rule: &Rule| rule.matching.get(Field::Metadata).is_some_and(|c| c.value as u64 == metadata);
                after[&table].iter().any(has_metadata)
            };
            let is_complete = |rule: &Rule| target_of(&rule.instructions).is_none_or(has);
            let ingress = after[&INGRESS].iter().filter(|rule| is_complete(rule)).cloned().collect();
            after.insert(INGRESS, ingress);
            let mut switch = before.clone();
            let mut tables = Tables::new(1, Version::Of13, false);
            tables.read(before.iter().flat_map(|(table, rules)| rules.iter().map(|rule| (*table, rule.clone()))));
            tables.compare_all(2, after.clone());
            detours += tables.detours(&tables.changed_targets()).len();
            loop {
                let sent = turn(&mut tables);
                if sent.is_empty() {
                    break;
                }
                for (xid, message) in sent {
                    if !obey(&mut switch, &message) {
                        tables.on_barrier_reply(xid);
                        continue;
                    }
                    for kind in 0..KINDS {
                        let [now, former, next] = [&switch, &before, &after].map(|rules| answer(rules, kind));
                        let is_right = now.is_none() || now == former || now == next;
                        assert!(is_right, "seed {seed}: {kind}: {before:#?}\n{after:#?}\n{message:?}");
                        ports.insert(now);
                    }
                }
            }
            assert!((0..KINDS).all(|kind| answer(&switch, kind) == answer(&after, kind)), "seed {seed}");
        }
        assert!(detours > 100 && ports.len() == 4, "{detours} detours, {ports:?}");
    }
}
