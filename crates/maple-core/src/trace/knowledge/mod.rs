//! The knowledge about every packet that passes the items recorded so far (the paper's `knownRange`, Algorithm 4).
//!
//! # What
//!
//! For each field: bits that are known, and values that are ruled out. Ruled-out values are kept as disjoint intervals:
//! an exact value, a prefix or a range that failed is one interval. A prefix or range that held leaves a lowest and a
//! highest value. Masks that are not prefixes have sets of their own.
//!
//! A failed conjunction with more than one open part rules out nothing in any one field. It is remembered as a whole,
//! under the sum of its parts' hashes, not counting parts on fields that are prerequisites of others (unless it has no
//! other parts). A condition that has these parts, perhaps with more, and implies or is known to have the
//! prerequisites, fails too; it is looked up under the sums of all subsets of its parts.
//!
//! A tree may have a chain of hundreds of tests that failed one after the other. These are not collected again for each
//! run that passes them: the chain keeps its [`FailedChain`], and a run uses as many of them as it has passed
//! ([`ChainPrefix`]). Only failed tests of one part are learned one by one; chains have few of them.
//!
//! # Why it is correct
//!
//! [`Knowledge::cond`] returns `Holds` or `Fails` only if every packet that passes the items agrees. It may return
//! `Open` when a more precise analysis would know: that costs an item, nothing else. Whenever it says anything of a
//! field, the field is there: the recorder puts prerequisites before every item.
//!
//! # Cost
//!
//! Look-ups are logarithmic in the number of intervals of one field, so a run of ten thousand tests is not quadratic. A
//! conjunction on fields of which nothing is known costs a hash for each part. For each subset of its parts it costs a
//! sum, and a load that says whether a failed conjunction can have these parts. Conditions in practice have at most
//! four parts that count. Each chain that was passed costs such loads as well.

use std::collections::BTreeMap;
use std::sync::Arc;

use maple_wire::field::{FieldSet, Prerequisite};
use maple_wire::{Constraint, Field};
use rustc_hash::FxHashSet;

use super::recorder::constraint_of;
use super::{Cond, Item, Range};

#[cfg(test)]
mod tests;

/// The answer to a question, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KnownAnswer {
    /// Every packet that passes the items fits.
    Holds,
    /// No packet that passes the items fits.
    Fails,
    /// Some packets that pass may fit, and some not.
    Open,
}

/// A list of items, and the knowledge about the packets that pass them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Knowledge<'t> {
    /// The failed tests that were passed before the items, or among the first of them.
    passed: Vec<ChainPrefix<'t>>,
    items: Vec<Item>,
    /// The fields of which something is known.
    about: FieldSet,
    fields: Vec<(Field, FieldKnowledge)>,
    failed: FailedConjunctions,
}

/// A list of tests that all failed. A run uses those that it has passed, from the first on.
#[derive(Clone, Debug, Default)]
pub(crate) struct FailedChain {
    failed: FailedConjunctions,
    /// The places of tests of one part, ascending.
    single: Vec<u32>,
}

/// The first tests of a list, which all failed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChainPrefix<'t> {
    /// The failures of the whole list.
    pub(crate) failures: &'t FailedChain,
    /// The tests that were passed.
    pub(crate) conds: &'t [Arc<Cond>],
}

/// Failed conjunctions of several open parts: a hash table from sums of hashes.
#[derive(Clone, Debug, Default)]
struct FailedConjunctions {
    list: Vec<FailedConjunction>,
    /// The newest failure for each value of a sum's upper bits: its place in `list` plus 1, or 0. The length is a power
    /// of two, and so large that most slots are 0: most sums that are looked up belong to no failed conjunction.
    newest: Vec<u32>,
    /// Whether a failure has parts on prerequisites only.
    any_bare: bool,
}

/// A failed conjunction.
#[derive(Clone, Copy, Debug)]
struct FailedConjunction {
    sum: u64,
    /// The number of its item.
    item: u32,
    /// The next older failure in the same slot, as in [`FailedConjunctions::newest`].
    older: u32,
}

/// One part of a conjunction.
#[derive(Clone, Copy, Debug)]
enum Part<'a> {
    Masked(&'a Constraint),
    Range(&'a Range),
}

/// The number of slots that [`FailedConjunctions::newest`] has at first. Chosen: enough for most runs, so that few
/// build the table again.
const INITIAL_SLOTS: usize = 64;
/// The minimum number of slots in [`FailedConjunctions::newest`] for each failed conjunction. Chosen: at most a
/// quarter of the table is in use, so most slots lead to one failure or none.
const SLOTS_PER_FAILURE: usize = 4;

/// Fields on whose values the presence of others depends ([`Field::prerequisites`]).
const PREREQUISITES: FieldSet =
    FieldSet::from_fields(&[Field::EthType, Field::VlanVid, Field::IpProto, Field::Icmpv6Type]);

/// The maximum number of parts of which all subsets are looked up. Of more parts, only the whole is. Chosen: five parts
/// have 31 subsets, which are looked up for each question; the fields of a filter are five.
const MAX_SUBSETS: usize = 5;

/// The hashes of some of a condition's parts; if there are more than fit, the sum of all.
#[derive(Default)]
struct Hashes {
    hashes: [u64; MAX_SUBSETS],
    len: usize,
}

/// The knowledge about one field.
#[derive(Clone, Debug)]
struct FieldKnowledge {
    /// The bits that are known, and their values.
    mask: u128,
    value: u128,
    /// The lowest and the highest value that are not ruled out by what held.
    lo: u128,
    hi: u128,
    /// Values ruled out by what failed.
    excluded: Intervals,
    /// Values ruled out under masks that are not prefixes.
    holes: Vec<(u128, FxHashSet<u128>)>,
}

/// A set of numbers as disjoint intervals that don't touch: start to end, both inclusive.
#[derive(Clone, Debug, Default)]
struct Intervals(BTreeMap<u128, u128>);

impl FailedChain {
    /// Adds a test at the end of the list.
    pub(crate) fn push(&mut self, cond: &Cond, place: usize) {
        match parts(cond).take(2).count() {
            0 => {}
            1 => self.single.push(place as u32),
            _ => self.failed.learn(cond, place),
        }
    }

    /// Removes the last test, which stood at this place.
    pub(crate) fn pop(&mut self, place: usize) {
        self.single.pop_if(|last| *last as usize == place);
        self.failed.pop(place);
    }

    /// Returns the size in bytes.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&self.single[..]) + size_of_val(&self.failed.list[..]) + size_of_val(&self.failed.newest[..])
    }
}

impl<'t> Knowledge<'t> {
    /// Starts with the knowledge about packets that passed these tests.
    pub(crate) fn after(passed: Vec<ChainPrefix<'t>>) -> Knowledge<'t> {
        let mut known = Knowledge { passed, ..Knowledge::default() };
        for index in 0..known.passed.len() {
            let ChainPrefix { failures, conds } = known.passed[index];
            let single = failures.single.iter().map_while(|place| conds.get(*place as usize));
            single.for_each(|cond| known.learn_failure(cond));
        }
        known
    }

    /// Returns the field's value under `mask`, if those bits are known.
    pub(crate) fn value(&self, field: Field, mask: u128) -> Option<u128> {
        if mask == 0 {
            return Some(0);
        }
        let known = self.known_field(field)?;
        (known.mask & mask == mask).then_some(known.value & mask)
    }

    /// Reports whether packets that pass have the field. The verdict is `Holds` only if the items *state* a
    /// prerequisite alternative, bit by bit. A match on the field must state it too, so it is not enough that it
    /// follows from what is ruled out.
    pub(crate) fn presence(&self, field: Field) -> KnownAnswer {
        let mut alternatives = field.prerequisites().iter();
        if alternatives.clone().any(|all| all.iter().all(|part| self.states(&constraint_of(part)))) {
            KnownAnswer::Holds
        } else if alternatives.all(|all| self.alternative(all) == KnownAnswer::Fails) {
            KnownAnswer::Fails
        } else {
            KnownAnswer::Open
        }
    }

    /// Returns the first part of a prerequisite alternative of `field` that must be read to decide its presence.
    pub(crate) fn open_prerequisite(&self, field: Field) -> Option<Prerequisite> {
        let possible = field.prerequisites().iter().find(|all| self.alternative(all) != KnownAnswer::Fails)?;
        possible.iter().find(|part| !self.states(&constraint_of(part))).copied()
    }

    /// Reports whether packets that pass fit `cond`.
    pub(crate) fn cond(&self, cond: &Cond) -> KnownAnswer {
        // Most conditions that are known to fail contradict known bits.
        if cond.constraints.iter().any(|c| self.known_field(c.field).is_some_and(|known| known.contradicts(c))) {
            return KnownAnswer::Fails;
        }
        if self.is_about(cond) {
            let mut all_hold = true;
            for part in parts(cond) {
                match self.part(part) {
                    KnownAnswer::Fails => return KnownAnswer::Fails,
                    KnownAnswer::Open => all_hold = false,
                    KnownAnswer::Holds => {}
                }
            }
            if all_hold {
                return KnownAnswer::Holds;
            }
        } else if cond.is_always() {
            return KnownAnswer::Holds;
        }
        if self.has_failed(cond) { KnownAnswer::Fails } else { KnownAnswer::Open }
    }

    /// Reports whether anything is known of a field in the condition.
    fn is_about(&self, cond: &Cond) -> bool {
        let known = cond.constraints.iter().filter(|c| self.about.contains(c.field)).count();
        known > 0 || cond.ranges.iter().any(|r| self.about.contains(r.field))
    }

    /// Reports whether the condition implies one that failed.
    fn has_failed(&self, cond: &Cond) -> bool {
        let all = || self.passed.iter().map(|passed| &passed.failures.failed).chain([&self.failed]);
        if all().all(|failed| failed.list.is_empty()) {
            return false;
        }
        let may_have = |sum: u64| all().any(|failed| failed.may_have(sum));
        let found = |hashes: Hashes| hashes.any_sum(|sum| may_have(sum) && self.implies_failed(cond, sum));
        found(Hashes::from_parts(cond, false))
            || all().any(|failed| failed.any_bare) && found(Hashes::from_parts(cond, true))
    }

    /// Reports whether the condition implies a failed one that has this sum.
    fn implies_failed(&self, cond: &Cond, sum: u64) -> bool {
        let implied = |wanted: Part| {
            parts(cond).any(|part: Part| part.implies(wanted)) || self.part(wanted) == KnownAnswer::Holds
        };
        let is_implied = |failed: &Cond| parts(failed).all(implied);
        let is_item_implied =
            |item: u32| matches!(&self.items[item as usize], Item::Test { cond, .. } if is_implied(cond));
        let has_implied_test = |passed: &ChainPrefix| {
            let is_place_implied = |place: u32| passed.conds.get(place as usize).is_some_and(|cond| is_implied(cond));
            passed.failures.failed.items_with_sum(sum).any(is_place_implied)
        };
        self.failed.items_with_sum(sum).any(is_item_implied) || self.passed.iter().any(has_implied_test)
    }

    /// Reports whether the items state a part of the condition already.
    pub(crate) fn states_any(&self, cond: &Cond) -> bool {
        self.is_about(cond) && cond.constraints.iter().any(|c| self.states(c))
            || cond.ranges.iter().any(|r| self.part(Part::Range(r)) == KnownAnswer::Holds)
    }

    /// Removes the parts of a condition that the items state already.
    pub(crate) fn reduce(&self, mut cond: Cond) -> Cond {
        cond.constraints.retain(|c| !self.states(c));
        cond.ranges.retain(|r| self.part(Part::Range(r)) != KnownAnswer::Holds);
        cond
    }

    /// Adds an item, so packets that pass must pass it too. Its condition must be reduced.
    pub(crate) fn learn(&mut self, item: Item) {
        match &item {
            Item::Read(constraint) => self.field(constraint.field).confine(constraint),
            Item::Test { cond, outcome: true } => self.suppose(cond),
            Item::Test { cond, outcome: false } => self.learn_failure(cond),
        }
        self.items.push(item);
    }

    /// Learns that packets that pass fit a condition.
    pub(crate) fn suppose(&mut self, cond: &Cond) {
        for constraint in &cond.constraints {
            self.field(constraint.field).confine(constraint);
        }
        for range in &cond.ranges {
            self.field(range.field).confine_to(range.lo, range.hi);
        }
    }

    /// Returns the items so far.
    pub(crate) fn items(&self) -> &[Item] {
        &self.items
    }

    /// Returns the items.
    pub(crate) fn into_items(self) -> Vec<Item> {
        self.items
    }

    /// Reports whether all bits of the constraint are known, and agree with it.
    fn states(&self, c: &Constraint) -> bool {
        self.value(c.field, c.mask) == Some(c.value)
    }

    /// Learns that packets that pass fail a condition. Must be called before the item is in the list.
    fn learn_failure(&mut self, cond: &Cond) {
        let mut all = parts(cond);
        match (all.next(), all.next()) {
            (None, _) => {}
            (Some(Part::Masked(constraint)), None) => self.field(constraint.field).exclude(constraint),
            (Some(Part::Range(range)), None) => self.field(range.field).excluded.insert(range.lo, range.hi),
            (Some(_), Some(_)) => self.failed.learn(cond, self.items.len()),
        }
    }

    fn known_field(&self, field: Field) -> Option<&FieldKnowledge> {
        if !self.about.contains(field) {
            return None;
        }
        self.fields.iter().find(|(there, _)| *there == field).map(|(_, known)| known)
    }

    fn field(&mut self, field: Field) -> &mut FieldKnowledge {
        let index = self.fields.iter().position(|(there, _)| *there == field);
        let index = index.unwrap_or_else(|| {
            self.about.insert(field);
            self.fields.push((field, FieldKnowledge::default()));
            self.fields.len() - 1
        });
        &mut self.fields[index].1
    }

    fn alternative(&self, all: &[Prerequisite]) -> KnownAnswer {
        self.cond(&Cond { constraints: all.iter().map(constraint_of).collect(), ranges: Vec::new() })
    }

    fn part(&self, part: Part) -> KnownAnswer {
        match part {
            Part::Masked(c) => self.known_field(c.field).map_or(KnownAnswer::Open, |known| known.masked(c)),
            Part::Range(r) => self
                .known_field(r.field)
                .map_or(KnownAnswer::Open, |known| known.range(r.lo, r.hi, r.field.full_mask())),
        }
    }
}

impl FailedConjunctions {
    /// Reports whether there may be a failure under this sum.
    #[inline]
    fn may_have(&self, sum: u64) -> bool {
        !self.newest.is_empty() && self.newest[self.slot(sum)] != 0
    }

    /// Returns the items of the failures under this sum, newest first.
    fn items_with_sum(&self, sum: u64) -> impl Iterator<Item = u32> {
        let get = |index: u32| Some(index).filter(|index| *index != 0).map(|index| self.list[index as usize - 1]);
        let newest = if self.newest.is_empty() { 0 } else { self.newest[self.slot(sum)] };
        let all = std::iter::successors(get(newest), move |failure| get(failure.older));
        all.filter(move |failure| failure.sum == sum).map(|failure| failure.item)
    }

    /// Adds a conjunction of several parts.
    fn learn(&mut self, cond: &Cond, item: usize) {
        let significant = Hashes::from_parts(cond, false);
        let bare = significant.len == 0;
        self.any_bare |= bare;
        self.insert(if bare { Hashes::from_parts(cond, true).sum() } else { significant.sum() }, item as u32);
    }

    /// Removes the last failure, if it belongs to this item.
    fn pop(&mut self, item: usize) {
        if let Some(last) = self.list.pop_if(|last| last.item as usize == item) {
            let slot = self.slot(last.sum);
            self.newest[slot] = last.older;
        }
    }

    fn insert(&mut self, sum: u64, item: u32) {
        self.list.push(FailedConjunction { sum, item, older: 0 });
        if self.list.len() * SLOTS_PER_FAILURE > self.newest.len() {
            self.newest = vec![0; INITIAL_SLOTS.max(self.newest.len() * 2)];
            (0..self.list.len()).for_each(|index| self.link(index));
        } else {
            self.link(self.list.len() - 1);
        }
    }

    fn link(&mut self, index: usize) {
        let slot = self.slot(self.list[index].sum);
        self.list[index].older = std::mem::replace(&mut self.newest[slot], index as u32 + 1);
    }

    #[inline]
    fn slot(&self, sum: u64) -> usize {
        (sum >> (64 - self.newest.len().trailing_zeros())) as usize
    }
}

impl Default for FieldKnowledge {
    fn default() -> FieldKnowledge {
        FieldKnowledge { mask: 0, value: 0, lo: 0, hi: u128::MAX, excluded: Intervals::default(), holes: Vec::new() }
    }
}

impl FieldKnowledge {
    /// Reports whether the known bits say that the constraint fails.
    #[inline]
    fn contradicts(&self, c: &Constraint) -> bool {
        (self.value ^ c.value) & self.mask & c.mask != 0
    }

    fn masked(&self, c: &Constraint) -> KnownAnswer {
        if self.contradicts(c) {
            return KnownAnswer::Fails;
        }
        if self.mask & c.mask == c.mask {
            return KnownAnswer::Holds;
        }
        if self.holes.iter().any(|(mask, values)| mask & c.mask == *mask && values.contains(&(c.value & mask))) {
            return KnownAnswer::Fails;
        }
        match c.field.prefix_length(c.mask) {
            Some(_) => self.range(c.value, c.value | (c.field.full_mask() & !c.mask), c.field.full_mask()),
            None => KnownAnswer::Open,
        }
    }

    fn range(&self, lo: u128, hi: u128, max: u128) -> KnownAnswer {
        if self.mask == max {
            return if lo <= self.value && self.value <= hi { KnownAnswer::Holds } else { KnownAnswer::Fails };
        }
        if self.excludes(lo, hi) {
            return KnownAnswer::Fails;
        }
        let below = lo == 0 || self.excludes(0, lo - 1);
        let above = hi == max || self.excludes(hi + 1, max);
        if below && above { KnownAnswer::Holds } else { KnownAnswer::Open }
    }

    /// Reports whether all values from `lo` to `hi` are ruled out.
    fn excludes(&self, lo: u128, hi: u128) -> bool {
        let (lo, hi) = (lo.max(self.lo), hi.min(self.hi));
        lo > hi || self.excluded.covers(lo, hi)
    }

    /// Learns that the field fits `c`.
    fn confine(&mut self, c: &Constraint) {
        self.mask |= c.mask;
        self.value |= c.value;
        if c.field.prefix_length(c.mask).is_some() {
            self.confine_to(c.value, c.value | (c.field.full_mask() & !c.mask));
        }
    }

    /// Learns that the field lies between `lo` and `hi`.
    fn confine_to(&mut self, lo: u128, hi: u128) {
        (self.lo, self.hi) = (self.lo.max(lo), self.hi.min(hi));
    }

    /// Learns that the field does not fit `c`.
    fn exclude(&mut self, c: &Constraint) {
        if c.field.prefix_length(c.mask).is_some() {
            self.excluded.insert(c.value, c.value | (c.field.full_mask() & !c.mask));
            return;
        }
        match self.holes.iter_mut().find(|(mask, _)| *mask == c.mask) {
            Some((_, values)) => {
                values.insert(c.value);
            }
            None => self.holes.push((c.mask, FxHashSet::from_iter([c.value]))),
        }
    }
}

impl Intervals {
    fn covers(&self, lo: u128, hi: u128) -> bool {
        self.0.range(..=lo).next_back().is_some_and(|(_, end)| hi <= *end)
    }

    fn insert(&mut self, lo: u128, hi: u128) {
        let (mut lo, mut hi) = (lo, hi);
        // The last interval that starts in the new one, or right after it, touches it unless it ends before it.
        while let Some((&start, &end)) = self.0.range(..=hi.saturating_add(1)).next_back() {
            if end.saturating_add(1) < lo {
                break;
            }
            self.0.remove(&start);
            lo = lo.min(start);
            hi = hi.max(end);
        }
        self.0.insert(lo, hi);
    }
}

fn parts(cond: &Cond) -> impl Iterator<Item = Part<'_>> {
    cond.constraints.iter().map(Part::Masked).chain(cond.ranges.iter().map(Part::Range))
}

impl Hashes {
    /// Returns the hashes of a condition's parts on prerequisites of other fields, or of its other parts.
    #[inline]
    fn from_parts(cond: &Cond, prerequisites: bool) -> Hashes {
        let mut hashes = Hashes::default();
        for c in &cond.constraints {
            if PREREQUISITES.contains(c.field) == prerequisites {
                hashes.add(hash(c.field as u64, c.mask, c.value));
            }
        }
        for r in &cond.ranges {
            if !prerequisites {
                hashes.add(hash(r.field as u64 | 0x80, r.lo, r.hi));
            }
        }
        hashes
    }

    #[inline]
    fn add(&mut self, hash: u64) {
        match self.hashes.get_mut(self.len) {
            Some(slot) => {
                *slot = hash;
                self.len += 1;
            }
            None => self.hashes = [self.sum().wrapping_add(hash), 0, 0, 0, 0],
        }
    }

    #[inline]
    fn sum(&self) -> u64 {
        self.hashes[..self.len].iter().fold(0, |sum, hash| sum.wrapping_add(*hash))
    }

    /// Reports whether `found` holds for the sum of some of the hashes. The subsets are visited in Gray code order, so
    /// that each sum differs from the one before by one hash.
    #[inline]
    fn any_sum(&self, found: impl Fn(u64) -> bool) -> bool {
        let (mut sum, mut subset) = (0u64, 0usize);
        for step in 1..1usize << self.len {
            let index = step.trailing_zeros() as usize;
            subset ^= 1 << index;
            let there = subset >> index & 1 == 1;
            sum = if there { sum.wrapping_add(self.hashes[index]) } else { sum.wrapping_sub(self.hashes[index]) };
            if found(sum) {
                return true;
            }
        }
        false
    }
}

/// Returns a hash of one part. Equal parts have equal hashes.
#[inline]
fn hash(kind: u64, a: u128, b: u128) -> u64 {
    let fold = |x: u128| x as u64 ^ ((x >> 64) as u64).rotate_left(29);
    let mixed =
        ((fold(a) ^ kind << 48).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ fold(b)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    mixed ^ mixed >> 32
}

impl Part<'_> {
    /// Reports whether every value that fits this part fits `other`. The answer is `false` if that takes more than a
    /// comparison of the two.
    fn implies(self, other: Part) -> bool {
        match (self, other) {
            (Part::Masked(a), Part::Masked(b)) => {
                a.field == b.field && a.mask & b.mask == b.mask && a.value & b.mask == b.value
            }
            (Part::Masked(a), Part::Range(b)) => {
                let last = a.value | (a.field.full_mask() & !a.mask);
                a.field == b.field && b.lo <= a.value && last <= b.hi
            }
            (Part::Range(a), Part::Range(b)) => a.field == b.field && b.lo <= a.lo && a.hi <= b.hi,
            (Part::Range(_), Part::Masked(_)) => false,
        }
    }
}
