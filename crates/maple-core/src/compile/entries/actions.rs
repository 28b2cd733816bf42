//! The instructions of a table's leaves, each kept once and named by a number.

use std::collections::hash_map::Entry;
use std::hash::BuildHasher;
use std::sync::Arc;

use maple_wire::Instruction;
use rustc_hash::{FxBuildHasher, FxHashMap};

use super::entry_store::EntryVerdict;
use crate::rule::to_controller;

/// The name of instructions while they are held. Equal instructions have one name.
pub(in crate::compile) type ActionId = u32;

#[derive(Clone, Debug)]
pub(super) struct Actions {
    all: Vec<HeldInstructions>,
    /// The newest of the held instructions with each hash.
    by_hash: FxHashMap<u64, ActionId>,
    free: Vec<ActionId>,
    /// The instructions of barrier rules.
    to_controller: Arc<[Instruction]>,
}

/// Instructions, with the number of their holders, and of those holders that are entries.
#[derive(Clone, Debug)]
struct HeldInstructions {
    instructions: Arc<[Instruction]>,
    hash: u64,
    /// Earlier instructions with the same hash.
    other: Option<ActionId>,
    held: u32,
    entries: u32,
}

impl Default for Actions {
    fn default() -> Actions {
        let (all, by_hash, free) = Default::default();
        Actions { all, by_hash, free, to_controller: to_controller() }
    }
}

impl Actions {
    /// Returns the name of these instructions, and holds them once more.
    pub(super) fn intern(&mut self, instructions: Vec<Instruction>) -> ActionId {
        let hash = FxBuildHasher.hash_one(&instructions);
        self.intern_by(hash, instructions)
    }

    fn intern_by(&mut self, hash: u64, instructions: Vec<Instruction>) -> ActionId {
        let id = self.find(hash, |held| *held.instructions == *instructions);
        let id = id.unwrap_or_else(|| self.add(instructions.into(), hash));
        self.hold(EntryVerdict::Forward(id));
        id
    }

    /// Returns the instructions of a name, or of barrier rules.
    pub(super) fn get(&self, id: Option<ActionId>) -> &Arc<[Instruction]> {
        id.map_or(&self.to_controller, |id| &self.all[id as usize].instructions)
    }

    /// Holds the instructions of a verdict once more.
    pub(super) fn hold(&mut self, verdict: EntryVerdict) {
        if let EntryVerdict::Forward(id) = verdict {
            self.all[id as usize].held += 1;
        }
    }

    /// Holds the instructions of an entry's verdict once more.
    pub(super) fn hold_for_entry(&mut self, verdict: EntryVerdict) {
        self.hold(verdict);
        if let EntryVerdict::Forward(id) = verdict {
            self.all[id as usize].entries += 1;
        }
    }

    /// Releases the instructions of an entry's former verdict.
    pub(super) fn release_from_entry(&mut self, verdict: EntryVerdict) {
        if let EntryVerdict::Forward(id) = verdict {
            self.all[id as usize].entries -= 1;
        }
        self.release(verdict);
    }

    /// Reports whether several entries have these instructions.
    pub(super) fn is_of_several_entries(&self, id: ActionId) -> bool {
        self.all[id as usize].entries > 1
    }

    /// Holds the instructions of a verdict once less.
    pub(super) fn release(&mut self, verdict: EntryVerdict) {
        let EntryVerdict::Forward(id) = verdict else { return };
        let held = &mut self.all[id as usize];
        held.held -= 1;
        if held.held == 0 {
            held.instructions = Arc::default();
            let (hash, other) = (held.hash, held.other.take());
            self.forget(id, hash, other);
            self.free.push(id);
        }
    }

    /// Finds the instructions with this hash for which `is` holds.
    fn find(&self, hash: u64, is: impl Fn(&HeldInstructions) -> bool) -> Option<ActionId> {
        let first = self.by_hash.get(&hash).copied();
        std::iter::successors(first, |id| self.all[*id as usize].other).find(|id| is(&self.all[*id as usize]))
    }

    fn add(&mut self, instructions: Arc<[Instruction]>, hash: u64) -> ActionId {
        let entry = HeldInstructions { instructions, hash, other: None, held: 0, entries: 0 };
        let id = match self.free.pop() {
            Some(id) => {
                self.all[id as usize] = entry;
                id
            }
            None => {
                self.all.push(entry);
                (self.all.len() - 1) as ActionId
            }
        };
        self.all[id as usize].other = self.by_hash.insert(hash, id);
        id
    }

    /// Removes instructions from the list of their hash, in which `other` came before.
    fn forget(&mut self, id: ActionId, hash: u64, other: Option<ActionId>) {
        let Entry::Occupied(mut newest) = self.by_hash.entry(hash) else { return };
        match other {
            None if *newest.get() == id => _ = newest.remove(),
            Some(other) if *newest.get() == id => _ = newest.insert(other),
            other => {
                let after = self.find(hash, |held| held.other == Some(id));
                after.into_iter().for_each(|after| self.all[after as usize].other = other);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use maple_wire::{Action, PortNo};
    use proptest::prelude::*;

    use super::*;

    fn to_port(port: u8) -> Vec<Instruction> {
        vec![Instruction::ApplyActions(vec![Action::output(PortNo(port.into()))])]
    }

    proptest! {
        #[test]
        fn equal_instructions_have_one_name_while_they_are_held(steps in prop::collection::vec((0u8..12, any::<bool>()), 1..200)) {
            let (mut actions, mut held) = (Actions::default(), HashMap::<u8, (ActionId, u32)>::new());
            for (port, comes) in steps {
                if comes {
                    // Everything has one of three hashes.
                    let id = actions.intern_by(u64::from(port % 3), to_port(port));
                    let (there, times) = held.entry(port).or_insert((id, 0));
                    prop_assert_eq!(*there, id);
                    *times += 1;
                } else if let Some((id, times)) = held.get_mut(&port) {
                    actions.release(EntryVerdict::Forward(*id));
                    *times -= 1;
                    if *times == 0 {
                        held.remove(&port);
                    }
                }
                for (port, (id, times)) in &held {
                    prop_assert_eq!(&actions.get(Some(*id))[..], &to_port(*port)[..]);
                    prop_assert_eq!(actions.all[*id as usize].held, *times);
                }
                prop_assert_eq!(actions.all.len() - actions.free.len(), held.len());
                let hashes: std::collections::HashSet<u8> = held.keys().map(|port| port % 3).collect();
                prop_assert_eq!(actions.by_hash.len(), hashes.len());
            }
        }
    }
}
