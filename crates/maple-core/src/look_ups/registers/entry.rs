//! The hold of one look-up on its table and on bits of the metadata.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::OpenPaths;
use crate::look_ups::value_classes::Classes;
use crate::look_ups::{Component, LookUp};
use crate::state::Value;

/// A look-up that has a table, or the last one that had it.
#[derive(Clone, Debug)]
pub(super) struct LookUpEntry {
    pub look_up: LookUp,
    pub state: LookUpState,
}

/// The hold that a look-up has on its table and on bits of the metadata.
#[derive(Clone, Debug)]
pub(super) enum LookUpState {
    /// Runs ask it, and have asked for at least one component.
    InUse {
        registers: BTreeMap<Component, Register>,
        /// The paths that one decision may follow to all places that it finds, if there is such a decision.
        paths: Option<ClaimedPaths>,
    },
    /// The look-up is lowered, or no leaf asks it any more. Rules may still have these bits of its
    /// registers, so nobody else has its table. 0: that was in an earlier run of the controller.
    /// Then it goes on in its table if it is asked again.
    Ended { bits: u64 },
    /// No rule has to do with it any more, so another may have its table.
    Vacant,
}

/// Paths that have a look-up.
#[derive(Clone, Debug)]
pub(super) struct ClaimedPaths {
    pub paths: OpenPaths,
    /// Whether a run has asked for other paths since.
    pub has_refused: bool,
}

/// Bits that hold the class of one component.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Register {
    pub shift: u8,
    pub width: u8,
    /// The number of each value's class.
    pub classes: Classes,
}

impl Register {
    pub fn mask(&self) -> u64 {
        ((1 << self.width) - 1) << self.shift
    }

    /// Returns the bits of a value's class, as they are in the metadata. `None`: there are too many classes.
    pub fn bits(&mut self, component: Component, value: Option<&Value>, max_classes: u16) -> Option<u64> {
        let class = match (component, value) {
            (_, None) => 0,
            (Component::Presence, Some(_)) => 1,
            (Component::Value, Some(value)) => {
                self.classes.number(value, max_classes.min(((1_u32 << self.width) - 1) as u16))?
            }
        };
        Some(class << self.shift)
    }
}

impl LookUpEntry {
    /// Returns the registers; none if the look-up has ended.
    pub fn registers(&self) -> impl Iterator<Item = (Component, &Register)> {
        let registers = if let LookUpState::InUse { registers, .. } = &self.state { Some(registers) } else { None };
        registers.into_iter().flatten().map(|(component, register)| (*component, register))
    }

    /// Returns the registers, to be changed; none if the look-up has ended.
    pub fn registers_mut(&mut self) -> impl Iterator<Item = (Component, &mut Register)> {
        let registers = if let LookUpState::InUse { registers, .. } = &mut self.state { Some(registers) } else { None };
        registers.into_iter().flatten().map(|(component, register)| (*component, register))
    }

    pub fn register(&self, component: Component) -> Option<&Register> {
        self.registers().find(|(of, _)| *of == component).map(|(_, register)| register)
    }

    /// Adds a register. A look-up that had none is in use then.
    pub fn add_register(&mut self, component: Component, register: Register) {
        match &mut self.state {
            LookUpState::InUse { registers, .. } => drop(registers.insert(component, register)),
            LookUpState::Ended { .. } | LookUpState::Vacant => {
                let registers = BTreeMap::from([(component, register)]);
                self.state = LookUpState::InUse { registers, paths: None };
            }
        }
    }

    /// Returns the bits of the metadata that nobody else may have.
    pub fn bits(&self) -> u64 {
        match &self.state {
            LookUpState::InUse { registers, .. } => registers.values().fold(0, |all, register| all | register.mask()),
            LookUpState::Ended { bits } => *bits,
            LookUpState::Vacant => 0,
        }
    }

    /// Returns the paths that have the look-up.
    pub fn claim(&self) -> Option<&ClaimedPaths> {
        if let LookUpState::InUse { paths, .. } = &self.state { paths.as_ref() } else { None }
    }

    pub fn is_in_use(&self) -> bool {
        matches!(self.state, LookUpState::InUse { .. })
    }

    pub fn is_vacant(&self) -> bool {
        matches!(self.state, LookUpState::Vacant)
    }
}
