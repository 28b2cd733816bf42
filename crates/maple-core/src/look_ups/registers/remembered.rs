//! The form in which registers are remembered, for the next run of the controller.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::entry::{ClaimedPaths, LookUpEntry, LookUpState, Register};
use super::{METADATA_BITS, OpenPaths, Registers, SOURCE_IS_HERE, is_for_want};
use crate::look_ups::{Component, LookUp};
use crate::report::Lowered;
use crate::state::Memorable;

/// The registers, in the form in which they are remembered.
#[derive(Serialize, Deserialize)]
struct RememberedRegisters {
    look_ups: Vec<RememberedLookUp>,
    is_source_asked: bool,
    /// Those that are lowered for good. Others without registers are asked by nobody.
    lowered: Vec<LookUp>,
}

/// A look-up that has a table, in the form in which it is remembered.
#[derive(Serialize, Deserialize)]
struct RememberedLookUp {
    look_up: LookUp,
    /// None if it has ended.
    registers: BTreeMap<Component, Register>,
}

impl Memorable for Mutex<Registers> {
    fn bytes(&self) -> Vec<u8> {
        let registers = self.lock().unwrap_or_else(PoisonError::into_inner);
        if registers.look_ups.is_empty() && !registers.is_source_asked {
            return Vec::new();
        }
        let is_for_good = |(look_up, why): &&(LookUp, Lowered)| !is_for_want(*why) && registers.is_lowered(look_up);
        let lowered = registers.lowerings.iter().filter(is_for_good).map(|(look_up, _)| look_up.clone()).collect();
        let remembered = |entry: &LookUpEntry| RememberedLookUp {
            look_up: entry.look_up.clone(),
            registers: entry.registers().map(|(component, register)| (component, register.clone())).collect(),
        };
        let look_ups = registers.look_ups.iter().map(remembered).collect();
        let paths = |entry: &LookUpEntry| entry.claim().map(|claim| claim.paths.clone());
        let open: Vec<Option<OpenPaths>> = registers.look_ups.iter().map(paths).collect();
        let is_source_asked = registers.is_source_asked;
        // What can't be written is not remembered.
        let bytes = postcard::to_stdvec(&RememberedRegisters { look_ups, is_source_asked, lowered });
        match bytes {
            Ok(bytes) if open.iter().any(Option::is_some) => postcard::to_extend(&open, bytes).unwrap_or_default(),
            bytes => bytes.unwrap_or_default(),
        }
    }
}

impl Registers {
    /// Takes over the registers and classes of an earlier run, in the form of [`Memorable::bytes`], if no run has
    /// recorded anything and they fit. Damaged ones do not.
    pub fn adopt(&mut self, bytes: &[u8]) {
        let Ok((remembered, rest)) = postcard::take_from_bytes(bytes) else { return };
        let RememberedRegisters { look_ups, is_source_asked, lowered } = remembered;
        // Runs from before there were open paths have written nothing here.
        let open: Vec<Option<OpenPaths>> = postcard::from_bytes(rest).unwrap_or_default();
        let is_new = self.look_ups.is_empty() && self.lowered.is_empty();
        if !is_new || look_ups.len() > self.max_look_ups || !are_whole(&look_ups) {
            return;
        }
        let open = open.into_iter().map(|paths| paths.filter(|_| self.may_open)).chain(std::iter::repeat(None));
        let entry = |(RememberedLookUp { look_up, registers }, paths): (_, Option<OpenPaths>)| {
            let paths = paths.map(|paths| ClaimedPaths { paths, has_refused: false });
            let is_in_use = !registers.is_empty();
            let state =
                if is_in_use { LookUpState::InUse { registers, paths } } else { LookUpState::Ended { bits: 0 } };
            LookUpEntry { look_up, state }
        };
        self.look_ups = look_ups.into_iter().zip(open).map(entry).collect();
        for look_up in lowered {
            self.lower_all_of(&look_up);
            self.lowerings.push((look_up, Lowered::Earlier));
        }
        self.is_source_asked |= is_source_asked;
    }
}

/// Reports whether registers are as [`Registers`] makes them.
fn are_whole(look_ups: &[RememberedLookUp]) -> bool {
    let mut used = SOURCE_IS_HERE;
    for (index, RememberedLookUp { look_up, registers }) in look_ups.iter().enumerate() {
        let is_same = |other: &RememberedLookUp| other.look_up == *look_up && !other.registers.is_empty();
        if !registers.is_empty() && look_ups[..index].iter().any(is_same) {
            return false;
        }
        for (component, Register { shift, width, classes }) in registers {
            let fits = shift.checked_add(*width).is_some_and(|end| end <= METADATA_BITS);
            if !fits || *width != look_up.class_bits(*component) || classes.last() >> width != 0 {
                return false;
            }
            let mask = ((1 << width) - 1) << shift;
            if used & mask != 0 {
                return false;
            }
            used |= mask;
        }
    }
    true
}
