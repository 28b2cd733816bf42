//! Registers: the bits of a switch's metadata that say what look-ups found.

mod entry;
mod remembered;
mod successors;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use maple_wire::{Constraint, Field};
use serde::{Deserialize, Serialize};

use super::value_classes::Classes;
use super::{Component, LookUp};
use crate::ids::Name;
use crate::report::Lowered;
use crate::state::Value;
use crate::trace::ReadMetadata;
use entry::{ClaimedPaths, LookUpEntry, LookUpState, Register};

/// The bit of the metadata that says that the source of the packet is known to be where the packet came in. The
/// classifier's rules of hosts write it, so this question takes no table.
pub(crate) const SOURCE_IS_HERE: u64 = 1;

/// The number of bits of the metadata (OpenFlow 1.3 §7.2.3.7).
const METADATA_BITS: u8 = 64;
/// The maximum number of components that are remembered because they have no register. Further ones have none either.
/// Chosen: far more than a policy asks for, and a bound on what one that makes up look-ups costs.
const MAX_LOWERED: usize = 256;

/// The registers of a switch, shared with the runs of f for its packets.
pub(crate) type SharedRegisters = Arc<Mutex<Registers>>;

/// The registers of a switch: where its metadata says what look-ups found.
///
/// A component for which there is no table or no bits when it is first asked for is *lowered*: it is read as the key's
/// fields. So what a question records depends on the question alone, and traces form a tree. A look-up that has
/// registers is lowered by [`Registers::lower`], together with the leaves that have asked it.
///
/// A look-up that is lowered, or that no leaf asks any more ([`Registers::retire`]), keeps its table and bits until no
/// rule has to do with them. Then [`Registers::vacate`] makes room for others.
#[derive(Clone, Debug)]
pub(crate) struct Registers {
    max_look_ups: usize,
    /// The maximum number of classes of a component.
    max_classes: u16,
    /// By [`LookUpNumber`].
    look_ups: Vec<LookUpEntry>,
    lowered: BTreeSet<(LookUp, Component)>,
    /// The look-ups that were lowered, in order, and how much of that was reported.
    lowerings: Vec<(LookUp, Lowered)>,
    reported: usize,
    /// Whether a run has asked whether the source of its packet is where it came in.
    is_source_asked: bool,
    /// Whether that question is lowered.
    is_source_lowered: bool,
    /// The reason why all look-ups are lowered, those included that nobody has asked yet.
    all_lowered: Option<Lowered>,
    /// Whether one decision may be for all places that a look-up finds.
    may_open: bool,
    /// The look-ups that the candidate policy asks in the place of others, with the numbers of these.
    successors: Vec<(LookUp, usize)>,
}

/// The number of a look-up at a switch: that of its table, counted from the first table of look-ups on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LookUpNumber(pub usize);

/// The best paths from a switch by a link attribute, or by hop count.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct OpenPaths {
    /// The link attribute.
    pub costs: Option<Name>,
}

/// The answer to the question for a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Classified {
    /// The constraint that the packet's metadata meets.
    As(Constraint),
    /// Look-ups of this component are reads of the key's fields.
    Lowered,
    /// Classes exceed their maximum number. No rule can stand for this packet.
    TooMany,
}

impl Registers {
    /// Creates the registers of a switch with this number of tables for look-ups, and of classes in each.
    pub fn new(max_look_ups: usize, max_classes: u16) -> Registers {
        Registers {
            max_look_ups,
            max_classes,
            look_ups: Vec::new(),
            lowered: BTreeSet::new(),
            lowerings: Vec::new(),
            reported: 0,
            is_source_asked: false,
            is_source_lowered: false,
            all_lowered: None,
            may_open: false,
            successors: Vec::new(),
        }
    }

    /// Lets one decision be for all places that a look-up finds.
    #[must_use]
    pub fn with_open_paths(self, may_open: bool) -> Registers {
        Registers { may_open, ..self }
    }

    /// Reports whether one decision may be for all places that a look-up finds.
    pub fn may_open(&self) -> bool {
        self.may_open
    }

    /// Claims a look-up for a decision that follows these paths to all places that it finds. The first paths that are
    /// claimed have the look-up, until it ends or [`Registers::release_paths`] frees it. Returns whether these have it.
    pub fn claim_paths(&mut self, look_up: &LookUp, wanted: OpenPaths) -> bool {
        let Some(index) = self.position(look_up).filter(|_| self.may_open) else { return false };
        let LookUpState::InUse { paths, .. } = &mut self.look_ups[index].state else { return false };
        let claim = paths.get_or_insert_with(|| ClaimedPaths { paths: wanted.clone(), has_refused: false });
        let has_wanted_paths = claim.paths == wanted;
        claim.has_refused |= !has_wanted_paths;
        has_wanted_paths
    }

    /// Reports whether a run has asked for other paths to the places that a look-up finds than those that have it.
    pub fn has_refused_paths(&self, number: LookUpNumber) -> bool {
        self.entry(number).and_then(LookUpEntry::claim).is_some_and(|claim| claim.has_refused)
    }

    /// Frees a look-up for other paths to the places that it finds. The caller withdraws the leaves that follow the
    /// former paths to all places, and those that have observed a place because of them. Returns the bits that say the
    /// place.
    pub fn release_paths(&mut self, number: LookUpNumber) -> u64 {
        let Some(entry) = self.look_ups.get_mut(number.0) else { return 0 };
        if let LookUpState::InUse { paths, .. } = &mut entry.state {
            *paths = None;
        }
        entry.register(Component::Value).map_or(0, Register::mask)
    }

    /// Returns the paths to all places that a look-up finds, if one decision follows them.
    pub fn open_paths(&self, number: LookUpNumber) -> Option<&OpenPaths> {
        self.entry(number)?.claim().map(|claim| &claim.paths)
    }

    fn entry(&self, number: LookUpNumber) -> Option<&LookUpEntry> {
        self.look_ups.get(number.0)
    }

    /// Creates registers that runs of f can share.
    pub fn shared(self) -> SharedRegisters {
        Arc::new(Mutex::new(self))
    }

    /// Returns the class of what a look-up found, as a part of the packet's metadata.
    pub fn classify(&mut self, look_up: &LookUp, component: Component, value: Option<&Value>) -> Classified {
        let max_classes = self.max_classes;
        let is_same_fixed = |index: &usize| look_up.is_fixed() && self.look_ups[*index].look_up == *look_up;
        if let Some(index) = self.position(look_up).filter(is_same_fixed) {
            // One that is remembered from an earlier run has rows of its own, and comparing these takes time.
            self.look_ups[index].look_up = look_up.clone();
        }
        let state = self.position(look_up).map(|index| &self.look_ups[index].state);
        let is_ending = matches!(state, Some(LookUpState::Ended { bits }) if *bits != 0);
        if is_ending && !self.lowered.contains(&(look_up.clone(), component)) {
            // Soon it may have a table again.
            return Classified::TooMany;
        }
        let Some(register) = self.register(look_up, component) else { return Classified::Lowered };
        match register.bits(component, value, max_classes) {
            Some(bits) => {
                let mask = u128::from(register.mask());
                Classified::As(Constraint { field: Field::Metadata, value: u128::from(bits), mask })
            }
            None => Classified::TooMany,
        }
    }

    /// Reports whether a packet that nobody has sent may ask a question: another look-up can have a table too
    /// afterwards. A list leaves one in any case.
    pub fn may_foresee(&self, look_up: &LookUp, component: Component) -> bool {
        let is_lowered = self.all_lowered.is_some() || self.lowered.contains(&(look_up.clone(), component));
        self.position(look_up).is_some() || is_lowered || look_up.is_fixed() || self.free_tables() > 1
    }

    /// Returns the number of tables that no look-up has.
    fn free_tables(&self) -> usize {
        self.max_look_ups - self.look_ups.iter().filter(|entry| !entry.is_vacant()).count()
    }

    /// Returns what a look-up found, by the bits of a packet's metadata. `None` if it is not among these bits. Of a key
    /// that is only known to be there, the value is [`Value::None`].
    pub fn found(&self, look_up: &LookUp, component: Component, metadata: ReadMetadata) -> Option<Option<Value>> {
        let register = self.look_ups[self.position(look_up)?].register(component)?;
        let mask = register.mask();
        if mask & metadata.mask != mask {
            return None;
        }
        match ((metadata.value & mask) >> register.shift, component) {
            (0, _) => Some(None),
            (_, Component::Presence) => Some(Some(Value::None)),
            (class, Component::Value) => register.classes.value(class).map(|value| Some(value.clone())),
        }
    }

    /// Returns the meaning of bits that [`Registers::classify`] or [`Registers::source`] gave: the question, and the
    /// answer, such as `hosts[eth_dst]` and `1:3`. `None` for other bits.
    pub fn describe(&self, metadata: ReadMetadata) -> Option<(String, String)> {
        let answer = |is_so: bool| (if is_so { "yes" } else { "no" }).to_owned();
        if metadata.mask == SOURCE_IS_HERE {
            return Some(("hosts[eth_src] is in_port".to_owned(), answer(metadata.value != 0)));
        }
        let asked = |entry: &LookUpEntry| {
            let (component, _) = entry.registers().find(|(_, register)| register.mask() == metadata.mask)?;
            Some((entry.look_up.clone(), component))
        };
        let (look_up, component) = self.look_ups.iter().find_map(asked)?;
        let found = self.found(&look_up, component, metadata)?;
        Some(match component {
            Component::Presence => (format!("key in {look_up}"), answer(found.is_some())),
            Component::Value => (look_up.to_string(), found.map_or("absent".to_owned(), |value| value.to_string())),
        })
    }

    /// Returns the meaning of all registers among these bits, each as [`Registers::describe`] does.
    pub fn describe_all(&self, metadata: ReadMetadata) -> impl Iterator<Item = (String, String)> {
        let of_look_ups = self.look_ups.iter().flat_map(LookUpEntry::registers).map(|(_, register)| register.mask());
        let present = [SOURCE_IS_HERE].into_iter().chain(of_look_ups).filter(move |mask| metadata.mask & mask == *mask);
        present.filter_map(move |mask| self.describe(ReadMetadata { value: metadata.value & mask, mask }))
    }

    /// Returns what a key's rule that writes these bits says, in words: the value, or that there is one.
    pub fn found_by(&self, look_up: &LookUp, metadata: u64, mask: u64) -> String {
        let read = ReadMetadata { value: metadata, mask };
        match self.found(look_up, Component::Value, read) {
            Some(Some(value)) => value.to_string(),
            _ => "there".to_owned(),
        }
    }

    /// Returns whether the source is where the packet came in, as a part of the packet's metadata.
    pub fn source(&mut self, is_here: bool) -> Classified {
        if self.is_source_lowered {
            return Classified::Lowered;
        }
        self.is_source_asked = true;
        let mask = u128::from(SOURCE_IS_HERE);
        Classified::As(Constraint { field: Field::Metadata, value: if is_here { mask } else { 0 }, mask })
    }

    /// Reports whether a run has asked whether the source of its packet is where it came in.
    pub fn is_source_asked(&self) -> bool {
        self.is_source_asked
    }

    /// Returns the index of a look-up that has a table.
    fn position(&self, look_up: &LookUp) -> Option<usize> {
        let holds_look_up = |entry: &LookUpEntry| entry.look_up == *look_up && !entry.is_vacant();
        // What an earlier run remembered may name it twice: once as ended.
        let in_use = self.look_ups.iter().position(|entry| holds_look_up(entry) && entry.is_in_use());
        in_use.or_else(|| self.position_before(look_up)).or_else(|| self.look_ups.iter().position(holds_look_up))
    }

    /// Returns the register of a component: a new one, if it has none and there are bits and tables.
    fn register(&mut self, look_up: &LookUp, component: Component) -> Option<&mut Register> {
        let index = self.position(look_up);
        let index = match index.filter(|index| self.look_ups[*index].register(component).is_some()) {
            Some(index) => index,
            None => {
                let shift = self.place_or_lower(look_up, component, index)?;
                let width = look_up.class_bits(component);
                let register = Register { shift, width, classes: Classes::default() };
                let index = index.unwrap_or_else(|| self.give_table(look_up));
                self.look_ups[index].add_register(component, register);
                index
            }
        };
        self.look_ups[index].registers_mut().find(|(of, _)| *of == component).map(|(_, register)| register)
    }

    /// Gives a look-up a table that no other has. It has no registers.
    fn give_table(&mut self, look_up: &LookUp) -> usize {
        let new = LookUpEntry { look_up: look_up.clone(), state: LookUpState::Vacant };
        match self.look_ups.iter().position(LookUpEntry::is_vacant) {
            Some(index) => {
                self.look_ups[index] = new;
                index
            }
            None => {
                self.look_ups.push(new);
                self.look_ups.len() - 1
            }
        }
    }

    /// Returns the place in the metadata where a component can have a register, or lowers it and returns `None`.
    /// `index`: that of the look-up, if it has a table.
    fn place_or_lower(&mut self, look_up: &LookUp, component: Component, index: Option<usize>) -> Option<u8> {
        let name = (look_up.clone(), component);
        if self.lowered.len() >= MAX_LOWERED || self.lowered.contains(&name) {
            return None;
        }
        // Lists leave a table to the policy behind them.
        let has_table = index.is_some() || self.free_tables() > usize::from(look_up.is_fixed());
        let why = match (self.all_lowered, self.gap(look_up.class_bits(component))) {
            (Some(why), _) => why,
            (None, _) if !has_table => Lowered::NoTable,
            (None, None) => Lowered::NoBits,
            (None, Some(shift)) => return Some(shift),
        };
        self.lowered.insert(name);
        self.lowerings.push((look_up.clone(), why));
        None
    }

    /// Returns the lowest place with this number of bits that no register has.
    fn gap(&self, width: u8) -> Option<u8> {
        let used = self.look_ups.iter().fold(SOURCE_IS_HERE, |all, entry| all | entry.bits());
        let wanted = (1 << width) - 1;
        (0..=METADATA_BITS - width).find(|shift| used & (wanted << shift) == 0)
    }

    /// Notes a look-up that a run has asked for at a switch that has no tables for look-ups.
    pub fn note_without_tables(&mut self, look_up: &LookUp) {
        if self.lowered.len() < MAX_LOWERED && self.lowered.insert((look_up.clone(), Component::Value)) {
            self.lowerings.push((look_up.clone(), Lowered::NoTables));
        }
    }

    /// Lowers a look-up that has registers. No leaf may depend on its classes afterwards.
    pub fn lower(&mut self, number: LookUpNumber, why: Lowered) {
        if let Some(look_up) = self.retire(number) {
            self.lower_all_of(&look_up);
            self.lowerings.push((look_up, why));
        }
    }

    fn lower_all_of(&mut self, look_up: &LookUp) {
        self.lowered.extend([Component::Presence, Component::Value].map(|component| (look_up.clone(), component)));
    }

    /// Ends a look-up that no leaf asks any more. If f asks it again, no leaf can rest on it before
    /// [`Registers::vacate`]. Returns it; `None` if it had ended.
    pub fn retire(&mut self, number: LookUpNumber) -> Option<LookUp> {
        let entry = self.look_ups.get_mut(number.0).filter(|entry| entry.is_in_use())?;
        entry.state = LookUpState::Ended { bits: entry.bits() };
        Some(entry.look_up.clone())
    }

    /// Reports whether a look-up has ended.
    pub fn has_ended(&self, number: LookUpNumber) -> bool {
        !self.entry(number).is_some_and(LookUpEntry::is_in_use)
    }

    /// Reports whether a look-up has ended and still keeps its table.
    pub fn keeps_table(&self, number: LookUpNumber) -> bool {
        matches!(self.entry(number), Some(LookUpEntry { state: LookUpState::Ended { .. }, .. }))
    }

    /// Returns the bits that rules may have of look-ups that have ended and still keep their tables. `None`: there are
    /// none.
    pub fn ended_bits(&self) -> Option<u64> {
        let ended = self.look_ups.iter().filter(|entry| matches!(entry.state, LookUpState::Ended { .. }));
        ended.map(LookUpEntry::bits).reduce(|all, bits| all | bits)
    }

    /// Lets others have the tables and bits of all look-ups that have ended: no rule has to do with them any more.
    /// Returns those that were lowered for want of a table or bits, and are so no longer; no leaf may rest on a read in
    /// their place.
    pub fn vacate(&mut self) -> Vec<LookUp> {
        for entry in self.look_ups.iter_mut().filter(|entry| !entry.is_in_use()) {
            entry.state = LookUpState::Vacant;
        }
        if self.lowered.len() >= MAX_LOWERED {
            // Others were lowered whose names are not known.
            return Vec::new();
        }
        let is_wanting = |(_, why): &(LookUp, Lowered)| is_for_want(*why);
        let unreported = self.lowerings.split_off(self.reported);
        let (mut wanting, reported): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.lowerings).into_iter().partition(is_wanting);
        let (further, unreported): (Vec<_>, Vec<_>) = unreported.into_iter().partition(is_wanting);
        wanting.extend(further);
        (self.reported, self.lowerings) = (reported.len(), [reported, unreported].concat());
        let wanting: Vec<LookUp> = wanting.into_iter().map(|(look_up, _)| look_up).collect();
        let stays = |look_up: &LookUp| self.lowerings.iter().any(|(of, _)| of == look_up);
        let wanting: Vec<LookUp> = wanting.into_iter().filter(|look_up| !stays(look_up)).collect();
        self.lowered.retain(|(look_up, _)| !wanting.contains(look_up));
        wanting
    }

    /// Lowers what nobody has asked yet. Returns whether that is new.
    pub fn lower_further(&mut self, why: Lowered) -> bool {
        self.is_source_lowered |= !self.is_source_asked;
        self.all_lowered.replace(why).is_none()
    }

    /// Lowers the question whether the source of a packet is where it came in. No leaf may depend on it afterwards.
    pub fn lower_source(&mut self) {
        self.is_source_asked = false;
        self.is_source_lowered = true;
    }

    /// Returns what was lowered since this was last called.
    pub fn take_lowered(&mut self) -> Vec<(LookUp, Lowered)> {
        let reported = std::mem::replace(&mut self.reported, self.lowerings.len());
        self.lowerings[reported..].to_vec()
    }

    /// Returns what is lowered, in order, with the reasons.
    pub fn lowered(&self) -> impl Iterator<Item = (&LookUp, Lowered)> {
        self.lowerings.iter().map(|(look_up, why)| (look_up, *why))
    }

    /// Returns the masks of a look-up's registers.
    pub fn masks(&self, number: LookUpNumber) -> Vec<u64> {
        self.entry(number).into_iter().flat_map(LookUpEntry::registers).map(|(_, register)| register.mask()).collect()
    }

    /// Returns the numbers of look-ups that have had a value for which there was no class.
    pub fn exhausted(&self) -> Vec<LookUpNumber> {
        let is_exhausted =
            |entry: &LookUpEntry| entry.registers().any(|(_, register)| register.classes.are_exhausted());
        let numbered = self.look_ups.iter().enumerate().filter(|(_, entry)| is_exhausted(entry));
        numbered.map(|(index, _)| LookUpNumber(index)).collect()
    }

    /// Frees the classes of a look-up that are not among these. Returns whether enough are free to go on.
    pub fn free_others(&mut self, number: LookUpNumber, in_use: &[ReadMetadata]) -> bool {
        let max_classes = self.max_classes;
        let Some(entry) = self.look_ups.get_mut(number.0) else { return true };
        entry.registers_mut().all(|(_, register)| {
            let mask = register.mask();
            let of_register = in_use.iter().filter(|read| read.mask & mask == mask);
            let numbers: BTreeSet<u64> = of_register.map(|read| (read.value & mask) >> register.shift).collect();
            register.classes.free_others(&numbers, max_classes)
        })
    }

    /// Returns the look-ups that have tables, or had them last, by number.
    pub fn look_ups(&self) -> impl ExactSizeIterator<Item = (LookUpNumber, &LookUp)> {
        self.look_ups.iter().enumerate().map(|(index, entry)| (LookUpNumber(index), &entry.look_up))
    }

    /// Returns the bits of the metadata that a look-up's rules write.
    pub fn mask(&self, number: LookUpNumber) -> u64 {
        self.masks(number).into_iter().fold(0, |all, mask| all | mask)
    }

    /// Reports whether a look-up is lowered as a whole.
    fn is_lowered(&self, look_up: &LookUp) -> bool {
        [Component::Presence, Component::Value].iter().all(|of| self.lowered.contains(&(look_up.clone(), *of)))
    }

    /// Returns these bits for a key with this value. `None`: there are too many classes.
    pub fn bits(&mut self, number: LookUpNumber, value: &Value) -> Option<u64> {
        let max_classes = self.max_classes;
        let registers = self.look_ups.get_mut(number.0)?.registers_mut();
        let bits = registers.map(|(component, register)| register.bits(component, Some(value), max_classes));
        bits.into_iter().try_fold(0, |all, bits| Some(all | bits?))
    }
}

/// Reports whether a look-up is lowered only for want of a table or bits.
fn is_for_want(why: Lowered) -> bool {
    matches!(why, Lowered::NoTable | Lowered::NoBits | Lowered::NoTables)
}

/// Locks registers. What a run did to them before it panicked is whole.
pub(crate) fn lock(registers: &SharedRegisters) -> MutexGuard<'_, Registers> {
    registers.lock().unwrap_or_else(PoisonError::into_inner)
}
