//! The instructions of a table's answers, each kept once and named by a number.

use std::cell::RefCell;
use std::sync::Arc;

use maple_wire::Instruction;
use rustc_hash::FxHashMap;

use super::Says;

/// Names instructions while somebody holds them. Equal instructions have one name.
pub(in crate::compile) type ActionId = u32;

/// The instructions that are held.
#[derive(Debug, Default)]
pub(super) struct Actions {
    all: Vec<Held>,
    by_instructions: FxHashMap<Arc<[Instruction]>, ActionId>,
    free: Vec<ActionId>,
    /// What was last given to be named, though it had a name, with that name: the rule that will do it needs a copy.
    spare: RefCell<Option<(ActionId, Vec<Instruction>)>>,
}

/// Instructions, with how often they are held, and how many of the holders are pieces that say them.
#[derive(Debug)]
struct Held {
    instructions: Arc<[Instruction]>,
    held: u32,
    said: u32,
}

impl Actions {
    /// The name of instructions, which are held once more.
    pub(super) fn name(&mut self, instructions: Vec<Instruction>) -> ActionId {
        let id = match self.by_instructions.get(&instructions[..]) {
            Some(id) => {
                *self.spare.get_mut() = Some((*id, instructions));
                *id
            }
            None => self.add(instructions.into()),
        };
        self.hold(Says::Answer(id));
        id
    }

    /// The instructions of a name.
    pub(super) fn get(&self, id: ActionId) -> &[Instruction] {
        &self.all[id as usize].instructions
    }

    /// A copy of the instructions of a name.
    pub(super) fn copy(&self, id: ActionId) -> Vec<Instruction> {
        match self.spare.borrow_mut().take_if(|(of, _)| *of == id) {
            Some((_, instructions)) => instructions,
            None => self.get(id).to_vec(),
        }
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
        // What is kept may be of a name that is given out anew here.
        *self.spare.get_mut() = None;
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
