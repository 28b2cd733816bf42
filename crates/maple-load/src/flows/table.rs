//! A flow table that stays fast with a hundred thousand rules: tuple space search (Srinivasan and others, SIGCOMM
//! 1999).
//!
//! Rules that match the same bits of the same fields form a *shape* and share a hash table. A look-up visits the shapes
//! from the highest priority down, and stops when no later shape can do better. So it costs one hash per shape, not one
//! comparison per rule. The few fields that the shapes match are read from the frame once.
//!
//! The emulator's table is the plain reference that this one is tested against.

use std::rc::Rc;

use maple_wire::msg::FlowMod;
use maple_wire::{Constraint, Field, Instruction, Match, MatchField, Packet};
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};
use std::hash::Hasher;

/// One rule.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub priority: u16,
    pub cookie: u64,
    pub flags: u16,
    /// Sorted by field.
    pub matching: Match,
    /// In the order of execution.
    pub instructions: Rc<[Instruction]>,
    pub packets: u64,
    pub bytes: u64,
}

/// The fields of one packet at one switch, each read at its first use.
#[derive(Debug)]
pub(crate) struct Fields {
    known: u64,
    present: u64,
    values: [u128; 64],
}

impl Fields {
    pub fn new() -> Fields {
        Fields { known: 0, present: 0, values: [0; 64] }
    }

    /// Forgets the packet.
    pub fn clear(&mut self) {
        (self.known, self.present) = (0, 0);
    }

    /// Sets a field that is not in the frame.
    pub fn set(&mut self, field: Field, value: u128) {
        let bit = 1 << field as u8;
        self.known |= bit;
        self.present |= bit;
        self.values[field as usize] = value;
    }

    fn get(&mut self, field: Field, packet: &Packet<'_>) -> Option<u128> {
        let bit = 1u64 << field as u8;
        if self.known & bit == 0 {
            self.known |= bit;
            if let Some(value) = packet.switch_value(field) {
                self.present |= bit;
                self.values[field as usize] = value;
            }
        }
        (self.present & bit != 0).then(|| self.values[field as usize])
    }
}

/// The rules that match the same bits.
#[derive(Debug)]
struct Shape {
    masks: Vec<(Field, u128)>,
    /// An upper bound of the priorities of the shape's rules.
    highest: u16,
    /// The rules by the hash of their values, so a look-up needs no key.
    rules: FxHashMap<u64, Vec<Rule>>,
}

/// A flow table.
#[derive(Debug, Default)]
pub(crate) struct Table {
    /// The shapes, in descending order of `highest`.
    shapes: Vec<Shape>,
    count: usize,
    /// Instructions that rules share: most rules have the same actions as another one.
    shared: FxHashSet<Rc<[Instruction]>>,
}

/// The position of a rule.
type Place = (usize, u64, usize);

impl Table {
    /// The number of rules.
    pub fn len(&self) -> usize {
        self.count
    }

    /// All rules, in arbitrary order.
    pub fn rules(&self) -> impl Iterator<Item = &Rule> {
        self.shapes.iter().flat_map(|shape| shape.rules.values().flatten())
    }

    /// Returns the rule that takes the packet. Among several with the same priority the choice is arbitrary: a
    /// controller must not rely on it.
    pub fn look_up(&mut self, fields: &mut Fields, packet: &Packet<'_>) -> Option<&mut Rule> {
        let mut best: Option<(u16, Place)> = None;
        for (at, shape) in self.shapes.iter().enumerate() {
            if best.is_some_and(|(priority, _)| priority >= shape.highest) {
                break;
            }
            let Some(hash) = shape.hash_of(fields, packet) else { continue };
            for (place, rule) in shape.rules.get(&hash).into_iter().flatten().enumerate() {
                let is_better = best.is_none_or(|(priority, _)| rule.priority > priority);
                let mut holds = |c: &Constraint| fields.get(c.field, packet).is_some_and(|value| c.holds(value));
                if is_better && rule.matching.constraints().all(&mut holds) {
                    best = Some((rule.priority, (at, hash, place)));
                }
            }
        }
        let (_, (at, hash, place)) = best?;
        self.shapes[at].rules.get_mut(&hash)?.get_mut(place)
    }

    /// Adds a rule, or replaces the one of the same match and priority, whose counters it takes over. Returns `false`
    /// if the match has an unknown field.
    pub fn add(&mut self, request: FlowMod) -> bool {
        let Some(matching) = canonical(request.matching) else { return false };
        let (masks, hash) = shape_of(&matching);
        let mut rule = Rule {
            priority: request.priority,
            cookie: request.cookie,
            flags: request.flags,
            matching,
            instructions: self.share(request.instructions),
            packets: 0,
            bytes: 0,
        };
        let at = self.shape(masks, rule.priority);
        let bucket = self.shapes[at].rules.entry(hash).or_insert_with(|| Vec::with_capacity(1));
        match bucket.iter_mut().find(|old| old.priority == rule.priority && old.matching == rule.matching) {
            Some(old) => {
                (rule.packets, rule.bytes) = (old.packets, old.bytes);
                *old = rule;
            }
            None => {
                bucket.push(rule);
                self.count += 1;
            }
        }
        true
    }

    /// Returns instructions in the order of execution, shared by all rules that have them.
    fn share(&mut self, mut instructions: Vec<Instruction>) -> Rc<[Instruction]> {
        instructions.sort_by_key(Instruction::rank);
        match self.shared.get(instructions.as_slice()) {
            Some(shared) => Rc::clone(shared),
            None => {
                let shared: Rc<[Instruction]> = instructions.into();
                self.shared.insert(Rc::clone(&shared));
                shared
            }
        }
    }

    /// Returns the index of the shape with these masks, for a rule of this priority. Creates the shape if it does not
    /// exist.
    fn shape(&mut self, masks: Vec<(Field, u128)>, priority: u16) -> usize {
        let at = match self.shapes.iter().position(|shape| shape.masks == masks) {
            Some(at) if self.shapes[at].highest >= priority => return at,
            Some(at) => {
                self.shapes[at].highest = priority;
                at
            }
            None => {
                self.shapes.push(Shape { masks, highest: priority, rules: FxHashMap::default() });
                self.shapes.len() - 1
            }
        };
        let shape = self.shapes.remove(at);
        let to = self.shapes.partition_point(|other| other.highest >= priority);
        self.shapes.insert(to, shape);
        to
    }

    /// Sets the instructions of the rules that the request selects. Returns their number.
    pub fn modify(&mut self, request: &FlowMod, strict: bool) -> usize {
        let instructions = self.share(request.instructions.clone());
        let mut changed = 0;
        self.each(request, strict, |rule| {
            rule.instructions = Rc::clone(&instructions);
            changed += 1;
            true
        });
        changed
    }

    /// Removes the rules that the request selects, and returns them.
    pub fn delete(&mut self, request: &FlowMod, strict: bool) -> Vec<Rule> {
        let mut gone = Vec::new();
        let restricted = |rule: &Rule| Instruction::lead_to(&rule.instructions, request.out_port, request.out_group);
        self.each(request, strict, |rule| {
            let goes = restricted(rule);
            if goes {
                gone.push(rule.clone());
            }
            !goes
        });
        self.count -= gone.len();
        gone
    }

    /// Visits the rules that a request selects by match, cookie and, if `strict`, priority. Removes those for which
    /// `keep` is false; the caller updates the count.
    fn each(&mut self, request: &FlowMod, strict: bool, mut keep: impl FnMut(&mut Rule) -> bool) {
        let Some(matching) = canonical(request.matching.clone()) else { return };
        let selects = |rule: &Rule| {
            let by_match = if strict {
                rule.priority == request.priority && rule.matching == matching
            } else {
                matching.covers(&rule.matching)
            };
            by_match && rule.cookie & request.cookie_mask == request.cookie & request.cookie_mask
        };
        if !strict {
            for shape in &mut self.shapes {
                shape.rules.retain(|_, bucket| {
                    bucket.retain_mut(|rule| !selects(rule) || keep(rule));
                    !bucket.is_empty()
                });
            }
            return;
        }
        let (masks, hash) = shape_of(&matching);
        let Some(shape) = self.shapes.iter_mut().find(|shape| shape.masks == masks) else { return };
        let Some(bucket) = shape.rules.get_mut(&hash) else { return };
        bucket.retain_mut(|rule| !selects(rule) || keep(rule));
        if bucket.is_empty() {
            shape.rules.remove(&hash);
        }
    }
}

impl Shape {
    /// The hash of a packet's values in the matched bits. `None` if it lacks a field.
    fn hash_of(&self, fields: &mut Fields, packet: &Packet<'_>) -> Option<u64> {
        let mut hasher = FxHasher::default();
        for (field, mask) in &self.masks {
            hasher.write_u128(fields.get(*field, packet)? & mask);
        }
        Some(hasher.finish())
    }
}

/// The masks of a match and the hash of its values.
fn shape_of(matching: &Match) -> (Vec<(Field, u128)>, u64) {
    let mut hasher = FxHasher::default();
    let masks = matching.constraints().map(|c| {
        hasher.write_u128(c.value);
        (c.field, c.mask)
    });
    (masks.collect(), hasher.finish())
}

/// The match sorted by field. `None` if it has an unknown entry.
fn canonical(mut matching: Match) -> Option<Match> {
    let is_known = |field: &MatchField| matches!(field, MatchField::Known(_));
    matching.fields.sort_unstable_by_key(|field| match field {
        MatchField::Known(constraint) => Some(constraint.field),
        MatchField::Unknown { .. } => None,
    });
    matching.fields.shrink_to_fit();
    matching.fields.iter().all(is_known).then_some(matching)
}
