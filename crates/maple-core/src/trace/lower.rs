//! Rewriting a trace for a switch that can't match all of its items.
//!
//! # What
//!
//! A masked read of a field that takes no such mask becomes a read of the whole field. A test with a mask that can't be
//! stated, or with ranges of too many blocks, is split: the parts before become a test, and reads of the part's field
//! then decide whether the part holds. Items that have become redundant are left out. Fields that the switch can't
//! match at all stay as they are: the compiler leaves everything under them to the controller.
//!
//! # Why it is correct
//!
//! What replaces an item says more than the item, so a packet that passes the new items passes the old ones. What is
//! asked depends only on the items before and on the switch, not on the packet. So lowered traces of one policy form a
//! tree as the traces did, as long as all traces of a tree are lowered for the same switch.
//!
//! # Which form
//!
//! A range of one block stays a range. For any other range, the packet's field is read bit by bit from the highest,
//! until it is decided whether the value lies within. So the block of the range that holds the value becomes a value
//! that the policy read: one rule. For a value outside, the rest of the field is read too, as in the paper. Its block
//! would be a wider region for the items after it, and would need barrier rules for everything that the policy asks
//! there. If the field takes no such masks, the exact value is read. `docs/algorithm.md` counts the rules for this and
//! other forms.

use std::sync::Arc;

use maple_wire::{Constraint, Field};

use super::knowledge::{ChainPrefix, Knowledge, KnownAnswer};
use super::{Cond, Fields, Item, Range, Region, Source, Trace, TraceStep};
use crate::capabilities::Capabilities;

/// A trace that is lowered item by item, as questions are asked; [`Trace::lower`] lowers a whole trace. The packet and
/// the capabilities must be the same at every call.
#[derive(Debug, Default)]
pub(crate) struct LoweredTrace<'t> {
    /// The new items, and what follows from them.
    known: Knowledge<'t>,
    /// The number of passed tests that are not among these items.
    passed: usize,
    sources: Vec<Option<Source>>,
    /// The region that the items so far state, as far as a match can state it.
    region: Region,
}

/// The maximum number of matches that may state a test's region, if it has ranges. Chosen: with one, a test takes one
/// entry of the table; with more, the packet's bits are read, and its block becomes one rule.
const MAX_STATED: usize = 1;

/// A packet whose trace is lowered for a switch.
struct Lowering<'a, 't, P: ?Sized> {
    packet: &'a P,
    capabilities: &'a Capabilities,
    done: &'a mut LoweredTrace<'t>,
}

impl Trace {
    /// Returns the trace with items that the switch can't match turned into narrower ones that it can, given the packet
    /// that made the trace.
    ///
    /// Every trace of a tree must be lowered for the same capabilities.
    pub fn lower<P: Fields + ?Sized>(&self, packet: &P, capabilities: &Capabilities) -> Trace {
        let mut lowered = LoweredTrace::default();
        let mut lowering = Lowering { packet, capabilities, done: &mut lowered };
        for step in self.steps() {
            match step {
                TraceStep::Item(Item::Read(constraint), source) => lowering.read(constraint, &source.cloned()),
                TraceStep::Item(Item::Test { cond, .. }, source) => _ = lowering.test(cond, &source.cloned()),
                TraceStep::List(answer) => {
                    answer.asked().iter().for_each(|cond| _ = lowering.test(cond, &answer.source));
                }
            }
        }
        let LoweredTrace { known, sources, .. } = lowered;
        Trace {
            items: known.into_items(),
            lists: Vec::new(),
            sources: Arc::new(sources),
            read_switch: self.read_switch,
            reads_missing_bytes: self.reads_missing_bytes,
            needs_controller: self.needs_controller,
        }
    }
}

impl<'t> LoweredTrace<'t> {
    /// Starts a lowering that has passed these failed tests and these items, which were lowered already.
    pub(crate) fn after(passed: Vec<ChainPrefix<'t>>, items: Vec<Item>) -> LoweredTrace<'t> {
        let number = passed.iter().map(|passed| passed.conds.len()).sum();
        let mut lowered = LoweredTrace { known: Knowledge::after(passed), passed: number, ..LoweredTrace::default() };
        items.into_iter().for_each(|item| lowered.push(item, None));
        lowered
    }

    /// Asks whether the packet fits a conjunction, as [`super::Recorder::fits`] does. If it is known to fit, its
    /// constraints are read, because later questions may rest on them. Returns whether the last new item is a test that
    /// asks for everything that was open.
    pub(crate) fn fits<P: Fields + ?Sized>(
        &mut self,
        packet: &P,
        capabilities: &Capabilities,
        cond: &Arc<Cond>,
    ) -> bool {
        Lowering { packet, capabilities, done: self }.test(cond, &None)
    }

    /// Reads a field under a mask, as [`super::Recorder::read_there`] does.
    pub(crate) fn read_there<P: Fields + ?Sized>(
        &mut self,
        packet: &P,
        capabilities: &Capabilities,
        field: Field,
        mask: u128,
    ) -> u128 {
        let value = packet.value(field).unwrap_or(0);
        let read = Constraint::masked(field, value, mask);
        Lowering { packet, capabilities, done: self }.read(&read, &None);
        read.value
    }

    /// Returns the condition without the parts that the items state already: what remains to be asked.
    fn open(&self, cond: &Arc<Cond>) -> Arc<Cond> {
        if self.known.states_any(cond) { Arc::new(self.known.reduce((**cond).clone())) } else { cond.clone() }
    }

    /// Reports whether no packet that passes the items fits a condition. Asking for it then adds nothing.
    pub(crate) fn denies(&self, cond: &Cond) -> bool {
        self.known.cond(cond) == KnownAnswer::Fails
    }

    /// Returns the number of items so far, with the passed tests.
    pub(crate) fn depth(&self) -> usize {
        self.passed + self.known.items().len()
    }

    /// Returns the items from a depth on, which must not lie among the tests that were passed to
    /// [`LoweredTrace::after`].
    pub(crate) fn items_from(&self, depth: usize) -> &[Item] {
        &self.known.items()[depth - self.passed..]
    }

    /// Returns the verdict on a condition, and whether the items state a part of it.
    #[cfg(test)]
    pub(crate) fn verdict(&self, cond: &Cond) -> (KnownAnswer, bool) {
        (self.known.cond(cond), self.known.states_any(cond))
    }

    fn push(&mut self, item: Item, source: Option<Source>) {
        let region = match &item {
            Item::Read(constraint) => self.region.with(constraint),
            Item::Test { cond, outcome: true } => self.region.and(cond),
            Item::Test { outcome: false, .. } => None,
        };
        if let Some(region) = region {
            self.region = region;
        }
        self.known.learn(item);
        self.sources.push(source);
    }
}

impl<P: Fields + ?Sized> Lowering<'_, '_, P> {
    fn read(&mut self, constraint: &Constraint, source: &Option<Source>) {
        let Constraint { field, mask, .. } = *constraint;
        if self.done.known.value(field, mask).is_some() {
            return;
        }
        let stated = if self.capabilities.can_mask(constraint) {
            *constraint
        } else {
            Constraint::exact(field, self.packet.value(field).unwrap_or(constraint.value))
        };
        self.done.push(Item::Read(stated), source.clone());
    }

    /// Asks for a condition. Returns whether the last new item is a test that asks for everything that was open.
    fn test(&mut self, cond: &Arc<Cond>, source: &Option<Source>) -> bool {
        match self.done.known.cond(cond) {
            KnownAnswer::Open => {}
            KnownAnswer::Fails => return false,
            KnownAnswer::Holds => {
                self.state(cond, source);
                return false;
            }
        }
        let mut before = Vec::new();
        for constraint in &cond.constraints {
            if self.capabilities.can_mask(constraint) {
                before.push(*constraint);
            } else if !self.holds(std::mem::take(&mut before), source) || !self.reads_fitting(constraint, source) {
                return false;
            }
        }
        if !self.has_too_many_blocks(cond) {
            if before.len() == cond.constraints.len() {
                self.ask_open(cond, source);
                return true;
            }
            self.ask(&Cond { constraints: before, ranges: cond.ranges.clone() }.into(), source);
            return false;
        }
        if self.holds(before, source) {
            // Fields are read as long as the packet fits: the first that does not fit is the last one read.
            let _ = cond.ranges.iter().all(|range| self.reads_within(range, source));
        }
        false
    }

    /// Reports whether the condition can be stated without its ranges, but with them takes more than [`MAX_STATED`]
    /// matches or cannot be stated.
    fn has_too_many_blocks(&self, cond: &Cond) -> bool {
        if cond.ranges.is_empty() {
            return false;
        }
        let matches = |cond: &Cond| self.done.region.and(cond).and_then(|region| region.matches(self.capabilities));
        let mut cuts = cond.ranges.iter().map(|range| self.done.region.cuts(range, self.capabilities));
        let many =
            cuts.try_fold(1, |all: usize, cuts| Some(all.saturating_mul(cuts?))).is_some_and(|all| all > MAX_STATED);
        (many || matches(cond).is_none_or(|matches| matches.len() > MAX_STATED))
            && matches(&Cond { constraints: cond.constraints.clone(), ranges: Vec::new() }).is_some()
    }

    /// Asks for a conjunction.
    fn holds(&mut self, all: Vec<Constraint>, source: &Option<Source>) -> bool {
        self.ask(&Arc::new(Cond { constraints: all, ranges: Vec::new() }), source)
    }

    /// Asks for a condition, which is shared with the item if nothing of it is known.
    fn ask(&mut self, cond: &Arc<Cond>, source: &Option<Source>) -> bool {
        match self.done.known.cond(cond) {
            KnownAnswer::Holds => {
                self.state(cond, source);
                true
            }
            KnownAnswer::Fails => false,
            KnownAnswer::Open => self.ask_open(cond, source),
        }
    }

    /// Asks for a condition that is known neither to hold nor to fail.
    fn ask_open(&mut self, cond: &Arc<Cond>, source: &Option<Source>) -> bool {
        let cond = self.done.open(cond);
        let outcome = cond.holds(self.packet);
        self.done.push(Item::Test { cond, outcome }, source.clone());
        outcome
    }

    /// Reads the constraints of a condition that is known to hold. Later items may rest on it as their prerequisite,
    /// and what only follows from failed tests can't be stated in a match.
    fn state(&mut self, cond: &Cond, source: &Option<Source>) {
        cond.constraints.iter().for_each(|constraint| self.read(constraint, source));
    }

    /// Reads the whole field that a constraint is about, and returns whether it fits.
    fn reads_fitting(&mut self, constraint: &Constraint, source: &Option<Source>) -> bool {
        let value = self.packet.value(constraint.field).unwrap_or(0);
        self.read(&Constraint::exact(constraint.field, value), source);
        constraint.holds(value)
    }

    /// Reads as many leading bits of a range's field as it takes to decide whether it fits; if it does not fit, all
    /// bits.
    fn reads_within(&mut self, range: &Range, source: &Option<Source>) -> bool {
        let Range { field, .. } = *range;
        let value = self.packet.value(field).unwrap_or(0);
        let asked = Cond { constraints: Vec::new(), ranges: vec![*range] };
        for length in 1..=field.bits() {
            if self.done.known.cond(&asked) != KnownAnswer::Open {
                break;
            }
            // If the field takes no such mask, this reads all of it.
            let mask = field.full_mask() & !field.full_mask().checked_shr(length).unwrap_or(0);
            self.read(&Constraint::masked(field, value, mask), source);
        }
        let holds = range.holds(value);
        if !holds {
            self.read(&Constraint::exact(field, value), source);
        }
        holds
    }
}
