//! Registers: the bits of a switch's metadata that say what look-ups found.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use maple_wire::{Constraint, Field};
use serde::{Deserialize, Serialize};

use super::classes::Classes;
use super::{Component, LookUp};
use crate::report::Lowered;
use crate::state::{Memorable, Value};
use crate::trace::ReadMetadata;

/// The bit of the metadata that says that the source of the packet is known to be where the packet came in. The
/// classifier's rules of hosts write it, so this question takes no table.
pub(crate) const SOURCE_IS_HERE: u64 = 1;

/// The number of bits of the metadata (OpenFlow 1.3 §7.2.3.7).
const METADATA_BITS: u8 = 64;
/// The number of bits for the class of a value.
const CLASS_BITS: u8 = u16::BITS as u8;
/// The maximum number of components that are remembered because they have no register. Further ones have none either.
const MAX_LOWERED: usize = 256;

/// The registers of a switch, shared with the runs of f for its packets.
pub(crate) type SharedRegisters = Arc<Mutex<Registers>>;

/// The registers of a switch: where its metadata says what look-ups found.
///
/// A component that has no register when it is first asked for never gets one: its look-ups are *lowered* to reads of
/// the key's fields. So what a question records depends on the question alone, and traces form a tree. A look-up that
/// has registers is lowered by [`Registers::lower`], together with the leaves that have asked it.
#[derive(Clone, Debug)]
pub(crate) struct Registers {
    max_look_ups: usize,
    /// The maximum number of classes of a component.
    max_classes: u16,
    look_ups: Vec<InUse>,
    used_bits: u8,
    lowered: BTreeSet<(LookUp, Component)>,
    /// What was lowered, in order, and how much of that was reported.
    lowerings: Vec<(LookUp, Lowered)>,
    reported: usize,
    /// Whether a run has asked whether the source of its packet is where it came in.
    is_source_asked: bool,
    /// Whether that question is lowered.
    is_source_lowered: bool,
    /// Why all look-ups are lowered, those included that nobody has asked yet.
    all_lowered: Option<Lowered>,
}

/// A look-up that has a table.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct InUse {
    look_up: LookUp,
    /// There are none if the look-up is lowered. It keeps its table, so that others keep theirs.
    registers: BTreeMap<Component, Register>,
}

/// Bits that hold the class of one component.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Register {
    shift: u8,
    width: u8,
    /// The number of each value's class.
    classes: Classes,
}

/// The answer to the question for a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Classified {
    /// The constraint that the packet's metadata meets.
    As(Constraint),
    /// Look-ups of this component are reads of the key's fields.
    Lowered,
    /// There are too many classes. No rule can stand for this packet.
    TooMany,
}

impl Component {
    fn width(self) -> u8 {
        match self {
            Component::Presence => 1,
            Component::Value => CLASS_BITS,
        }
    }
}

impl Register {
    fn mask(&self) -> u64 {
        ((1 << self.width) - 1) << self.shift
    }

    /// Returns the bits of a value's class, as they are in the metadata. `None`: there are too many classes.
    fn bits(&mut self, component: Component, value: Option<&Value>, max_classes: u16) -> Option<u64> {
        let class = match (component, value) {
            (_, None) => 0,
            (Component::Presence, Some(_)) => 1,
            (Component::Value, Some(value)) => self.classes.number(value, max_classes)?,
        };
        Some(class << self.shift)
    }
}

impl Registers {
    /// Creates the registers of a switch with this number of tables for look-ups, and of classes in each.
    pub fn new(max_look_ups: usize, max_classes: u16) -> Registers {
        Registers {
            max_look_ups,
            max_classes,
            look_ups: Vec::new(),
            used_bits: SOURCE_IS_HERE.count_ones() as u8,
            lowered: BTreeSet::new(),
            lowerings: Vec::new(),
            reported: 0,
            is_source_asked: false,
            is_source_lowered: false,
            all_lowered: None,
        }
    }

    /// Creates registers that runs of f can share.
    pub fn shared(self) -> SharedRegisters {
        Arc::new(Mutex::new(self))
    }

    /// Returns the class of what a look-up found, as a part of the packet's metadata.
    pub fn classify(&mut self, look_up: &LookUp, component: Component, value: Option<&Value>) -> Classified {
        let max_classes = self.max_classes;
        let Some(register) = self.register(look_up, component) else { return Classified::Lowered };
        match register.bits(component, value, max_classes) {
            Some(bits) => {
                let mask = u128::from(register.mask());
                Classified::As(Constraint { field: Field::Metadata, value: u128::from(bits), mask })
            }
            None => Classified::TooMany,
        }
    }

    /// Returns what a look-up found, by the bits of a packet's metadata. `None` if it is not among these bits. Of a key
    /// that is only known to be there, the value is [`Value::None`].
    pub fn found(&self, look_up: &LookUp, component: Component, metadata: ReadMetadata) -> Option<Option<Value>> {
        let register = self.look_ups.iter().find(|in_use| in_use.look_up == *look_up)?.registers.get(&component)?;
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
        let of = |in_use: &InUse| {
            let is_it = |(_, register): &(&Component, &Register)| register.mask() == metadata.mask;
            let (component, _) = in_use.registers.iter().find(is_it)?;
            Some((in_use.look_up.clone(), *component))
        };
        let (look_up, component) = self.look_ups.iter().find_map(of)?;
        let found = self.found(&look_up, component, metadata)?;
        Some(match component {
            Component::Presence => (format!("key in {look_up}"), answer(found.is_some())),
            Component::Value => (look_up.to_string(), found.map_or("absent".to_owned(), |value| value.to_string())),
        })
    }

    /// Returns the meaning of all registers among these bits, each as [`Registers::describe`] does.
    pub fn describe_all(&self, metadata: ReadMetadata) -> impl Iterator<Item = (String, String)> {
        let of_look_ups = self.look_ups.iter().flat_map(|of| of.registers.values()).map(Register::mask);
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

    /// Returns the register of a component: a new one, if it has none and there are bits and tables.
    fn register(&mut self, look_up: &LookUp, component: Component) -> Option<&mut Register> {
        let at = self.look_ups.iter().position(|in_use| in_use.look_up == *look_up);
        let is_lowered = |at: usize| self.look_ups[at].registers.is_empty();
        if at.is_some_and(is_lowered) {
            return None;
        }
        let has_register = at.is_some_and(|at| self.look_ups[at].registers.contains_key(&component));
        if !has_register && !self.may_have(look_up, component, at.is_some()) {
            return None;
        }
        let at = at.unwrap_or_else(|| {
            self.look_ups.push(InUse { look_up: look_up.clone(), registers: BTreeMap::new() });
            self.look_ups.len() - 1
        });
        let used_bits = &mut self.used_bits;
        Some(self.look_ups[at].registers.entry(component).or_insert_with(|| {
            let register = Register { shift: *used_bits, width: component.width(), classes: Classes::default() };
            *used_bits += register.width;
            register
        }))
    }

    /// Reports whether a component may get a register. If not, it is lowered.
    fn may_have(&mut self, look_up: &LookUp, component: Component, has_table: bool) -> bool {
        let name = (look_up.clone(), component);
        if self.lowered.len() >= MAX_LOWERED || self.lowered.contains(&name) {
            return false;
        }
        let why = if let Some(why) = self.all_lowered {
            why
        } else if !has_table && self.look_ups.len() >= self.max_look_ups {
            Lowered::NoTable
        } else if self.used_bits + component.width() > METADATA_BITS {
            Lowered::NoBits
        } else {
            return true;
        };
        self.lowered.insert(name);
        self.lowerings.push((look_up.clone(), why));
        false
    }

    /// Lowers a look-up that has registers. No leaf may depend on its classes afterwards. Its table and bits stay
    /// unused.
    pub fn lower(&mut self, number: usize, why: Lowered) {
        let Some(InUse { look_up, registers }) = self.look_ups.get_mut(number) else { return };
        if !registers.is_empty() {
            registers.clear();
            self.lowerings.push((look_up.clone(), why));
        }
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
    pub fn masks(&self, number: usize) -> Vec<u64> {
        self.look_ups.get(number).into_iter().flat_map(|of| of.registers.values()).map(Register::mask).collect()
    }

    /// Returns the numbers of look-ups that have had a value for which there was no class.
    pub fn exhausted(&self) -> Vec<usize> {
        let is_exhausted = |of: &InUse| of.registers.values().any(|register| register.classes.are_exhausted());
        let numbered = self.look_ups.iter().enumerate();
        numbered.filter(|(_, of)| is_exhausted(of)).map(|(number, _)| number).collect()
    }

    /// Frees the classes of a look-up that are not among these. Returns whether enough are free to go on.
    pub fn free_others(&mut self, number: usize, in_use: &[ReadMetadata]) -> bool {
        let max_classes = self.max_classes;
        let Some(of) = self.look_ups.get_mut(number) else { return true };
        of.registers.values_mut().all(|register| {
            let mask = register.mask();
            let of_register = in_use.iter().filter(|read| read.mask & mask == mask);
            let numbers: BTreeSet<u64> = of_register.map(|read| (read.value & mask) >> register.shift).collect();
            register.classes.free_others(&numbers, max_classes)
        })
    }

    /// Returns the look-ups that have tables, in the order of these.
    pub fn look_ups(&self) -> impl ExactSizeIterator<Item = &LookUp> {
        self.look_ups.iter().map(|in_use| &in_use.look_up)
    }

    /// Returns the bits of the metadata that a look-up's rules write.
    pub fn mask(&self, number: usize) -> u64 {
        self.masks(number).into_iter().fold(0, |all, mask| all | mask)
    }

    /// Reports whether a look-up that has a table is lowered.
    pub fn is_lowered(&self, number: usize) -> bool {
        self.look_ups.get(number).is_some_and(|of| of.registers.is_empty())
    }

    /// Returns these bits for a key with this value. `None`: there are too many classes.
    pub fn bits(&mut self, number: usize, value: &Value) -> Option<u64> {
        let max_classes = self.max_classes;
        let registers = self.look_ups.get_mut(number)?.registers.iter_mut();
        let bits = registers.map(|(component, register)| register.bits(*component, Some(value), max_classes));
        bits.into_iter().try_fold(0, |all, bits| Some(all | bits?))
    }
}

/// What is remembered of registers.
#[derive(Serialize, Deserialize)]
struct RememberedRegisters {
    look_ups: Vec<InUse>,
    is_source_asked: bool,
}

impl Memorable for Mutex<Registers> {
    fn bytes(&self) -> Vec<u8> {
        let registers = self.lock().unwrap_or_else(PoisonError::into_inner);
        if registers.look_ups.is_empty() && !registers.is_source_asked {
            return Vec::new();
        }
        let Registers { look_ups, is_source_asked, .. } = registers.clone();
        // What can't be written is not remembered.
        postcard::to_stdvec(&RememberedRegisters { look_ups, is_source_asked }).unwrap_or_default()
    }
}

impl Registers {
    /// Takes over the registers and classes of an earlier run, in the form of [`Memorable::bytes`], if no run has
    /// recorded anything and they fit. Damaged ones do not.
    pub fn adopt(&mut self, bytes: &[u8]) {
        let Ok(RememberedRegisters { look_ups, is_source_asked }) = postcard::from_bytes(bytes) else { return };
        let is_new = self.look_ups.is_empty() && self.lowered.is_empty();
        let Some(used_bits) = used_bits(&look_ups).filter(|_| is_new && look_ups.len() <= self.max_look_ups) else {
            return;
        };
        self.used_bits = used_bits;
        self.look_ups = look_ups;
        let lowered = self.look_ups.iter().filter(|of| of.registers.is_empty());
        self.lowerings = lowered.map(|of| (of.look_up.clone(), Lowered::Earlier)).collect();
        self.is_source_asked |= is_source_asked;
    }
}

/// Returns the number of bits of the metadata that registers use, with those between them. `None` if they are not as
/// this module makes them.
fn used_bits(look_ups: &[InUse]) -> Option<u8> {
    let mut used = SOURCE_IS_HERE;
    for (at, InUse { look_up, registers }) in look_ups.iter().enumerate() {
        if look_ups[..at].iter().any(|other| other.look_up == *look_up) {
            return None;
        }
        for (component, Register { shift, width, classes }) in registers {
            let is_whole = *width == component.width() && shift.checked_add(*width)? <= METADATA_BITS;
            if !is_whole || classes.last() >> width != 0 {
                return None;
            }
            let mask = ((1 << width) - 1) << shift;
            if used & mask != 0 {
                return None;
            }
            used |= mask;
        }
    }
    Some(METADATA_BITS - used.leading_zeros() as u8)
}

/// Locks registers. What a run did to them before it panicked is whole.
pub(crate) fn lock(registers: &SharedRegisters) -> MutexGuard<'_, Registers> {
    registers.lock().unwrap_or_else(PoisonError::into_inner)
}
