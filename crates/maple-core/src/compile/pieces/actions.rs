//! The instructions of a table's answers, each kept once and named by a number.

use std::sync::Arc;

use maple_wire::Instruction;
use rustc_hash::FxHashMap;

use super::Says;
use crate::compile::to_controller;

/// Names instructions while somebody holds them. Equal instructions have one name.
pub(in crate::compile) type ActionId = u32;

/// The instructions that are held.
#[derive(Debug)]
pub(super) struct Actions {
    all: Vec<Held>,
    by_instructions: FxHashMap<Arc<[Instruction]>, ActionId>,
    free: Vec<ActionId>,
    /// What barriers do.
    to_controller: Arc<[Instruction]>,
}

/// Instructions, with how often they are held, and how many of the holders are pieces that say them.
#[derive(Debug)]
struct Held {
    instructions: Arc<[Instruction]>,
    held: u32,
    said: u32,
}

impl Default for Actions {
    fn default() -> Actions {
        let (all, by_instructions, free) = Default::default();
        Actions { all, by_instructions, free, to_controller: to_controller() }
    }
}

impl Actions {
    /// The name of instructions, which are held once more.
    pub(super) fn name(&mut self, instructions: Vec<Instruction>) -> ActionId {
        let id = match self.by_instructions.get(&instructions[..]) {
            Some(id) => *id,
            None => self.add(instructions.into()),
        };
        self.hold(Says::Answer(id));
        id
    }

    /// The instructions of a name, or of barriers.
    pub(super) fn get(&self, id: Option<ActionId>) -> &Arc<[Instruction]> {
        id.map_or(&self.to_controller, |id| &self.all[id as usize].instructions)
    }

    /// Holds an answer once more.
    pub(super) fn hold(&mut self, says: Says) {
        if let Says::Answer(id) = says {
            self.all[id as usize].held += 1;
        }
    }

    /// Holds what a piece says from now on.
    pub(super) fn say(&mut self, says: Says) {
        self.hold(says);
        if let Says::Answer(id) = says {
            self.all[id as usize].said += 1;
        }
    }

    /// Releases what a piece says no more.
    pub(super) fn unsay(&mut self, says: Says) {
        if let Says::Answer(id) = says {
            self.all[id as usize].said -= 1;
        }
        self.release(says);
    }

    /// Whether several pieces give this answer.
    pub(super) fn is_said_by_several(&self, id: ActionId) -> bool {
        self.all[id as usize].said > 1
    }

    /// Holds an answer once less.
    pub(super) fn release(&mut self, says: Says) {
        let Says::Answer(id) = says else { return };
        let Held { instructions, held, .. } = &mut self.all[id as usize];
        *held -= 1;
        if *held == 0 {
            self.by_instructions.remove(instructions);
            *instructions = Arc::default();
            self.free.push(id);
        }
    }

    fn add(&mut self, instructions: Arc<[Instruction]>) -> ActionId {
        let entry = Held { instructions: instructions.clone(), held: 0, said: 0 };
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
        self.by_instructions.insert(instructions, id);
        id
    }
}
