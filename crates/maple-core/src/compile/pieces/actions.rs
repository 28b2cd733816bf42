//! The instructions of a table's answers, each kept once and named by a number.

use std::sync::Arc;

use maple_wire::Instruction;
use rustc_hash::FxHashMap;

use super::{Says, Word};

/// Names instructions while somebody holds them. Equal instructions have one name.
pub(super) type ActionId = u32;

/// The instructions that are held.
#[derive(Debug, Default)]
pub(super) struct Actions {
    /// With how often each is held.
    all: Vec<(Arc<[Instruction]>, u32)>,
    by_instructions: FxHashMap<Arc<[Instruction]>, ActionId>,
    free: Vec<ActionId>,
}

impl Actions {
    /// What is said, in short. An answer is held once more.
    pub(super) fn word(&mut self, says: &Says) -> Word {
        let instructions = match says {
            Says::Unknown => return Word::Unknown,
            Says::Partial => return Word::Partial,
            Says::Answer(instructions) => instructions,
        };
        let word = Word::Answer(match self.by_instructions.get(instructions) {
            Some(id) => *id,
            None => self.add(instructions.clone()),
        });
        self.hold(word);
        word
    }

    /// The instructions of a name.
    pub(super) fn get(&self, id: ActionId) -> &[Instruction] {
        &self.all[id as usize].0
    }

    /// Holds an answer once more.
    pub(super) fn hold(&mut self, word: Word) {
        if let Word::Answer(id) = word {
            self.all[id as usize].1 += 1;
        }
    }

    /// Holds an answer once less.
    pub(super) fn release(&mut self, word: Word) {
        let Word::Answer(id) = word else { return };
        let (instructions, held) = &mut self.all[id as usize];
        *held -= 1;
        if *held == 0 {
            self.by_instructions.remove(instructions);
            *instructions = Arc::default();
            self.free.push(id);
        }
    }

    fn add(&mut self, instructions: Arc<[Instruction]>) -> ActionId {
        let entry = (instructions.clone(), 0);
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
