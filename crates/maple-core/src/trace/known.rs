//! What is known of every packet that passes the items recorded so far (the paper's `knownRange`, Algorithm 4).
//!
//! # What
//!
//! For each field: bits that are known, and values that are ruled out. Ruled-out values are kept as disjoint intervals,
//! in which everything ordered meets: an exact value, a prefix and a range that failed are one interval each; a prefix
//! or range that held rules out what is below and above it. Masks that are no prefix have sets of their own. A failed
//! conjunction of which more than one part is open rules out nothing in any one field; it is kept under its last part
//! with the other parts as *guards*, and counts once the guards hold.
//!
//! # Why it is correct
//!
//! [`Known::cond`] says `Holds` or `Fails` only where every packet that passes the items agrees. It may say `Open` where
//! a cleverer observer would know: that costs an item, nothing else. Where it says anything of a field, the field is
//! there: the recorder puts prerequisites in front of every item.
//!
//! # Cost
//!
//! Look-ups are logarithmic in the number of intervals of one field, so a run of ten thousand tests is not quadratic.

use std::collections::BTreeMap;

use maple_wire::field::Prerequisite;
use maple_wire::{Constraint, Field};
use rustc_hash::{FxHashMap, FxHashSet};

use super::recorder::constraint_of;
use super::{Cond, Item, Range, prefix_length};

/// What is known of a question's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Every packet that passes fits.
    Holds,
    /// No packet that passes fits.
    Fails,
    /// Some may fit and some not.
    Open,
}

/// What is known of the packets that pass a list of items.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    fields: FxHashMap<Field, FieldKnown>,
    /// Failed conjunctions: the last part, and for each time it failed the other parts.
    guarded: FxHashMap<Part, Vec<Vec<Part>>>,
}

/// One part of a conjunction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Part {
    Masked(Constraint),
    Range(Range),
}

/// What is known of one field.
#[derive(Clone, Debug, Default)]
struct FieldKnown {
    /// Which bits are known, and their values.
    mask: u128,
    value: u128,
    /// Values ruled out.
    excluded: Intervals,
    /// Values ruled out under masks that are no prefix.
    holes: Vec<(u128, FxHashSet<u128>)>,
}

/// A set of numbers as disjoint intervals that don't touch: start to end, both inclusive.
#[derive(Clone, Debug, Default)]
struct Intervals(BTreeMap<u128, u128>);

impl Known {
    /// The field's value under `mask`, if those bits are known.
    pub(crate) fn value(&self, field: Field, mask: u128) -> Option<u128> {
        if mask == 0 {
            return Some(0);
        }
        let known = self.fields.get(&field)?;
        (known.mask & mask == mask).then_some(known.value & mask)
    }

    /// Whether packets that pass have the field. `Holds` only where the items *state* a prerequisite alternative, bit by
    /// bit: a match on the field must state it too, so that it follows from what is ruled out is not enough.
    pub(crate) fn presence(&self, field: Field) -> Verdict {
        let mut alternatives = field.prerequisites().iter();
        if alternatives.clone().any(|all| all.iter().all(|part| self.states(&constraint_of(part)))) {
            Verdict::Holds
        } else if alternatives.all(|all| self.alternative(all) == Verdict::Fails) {
            Verdict::Fails
        } else {
            Verdict::Open
        }
    }

    /// The first part of a prerequisite alternative of `field` that is to be read to settle its presence.
    pub(crate) fn open_prerequisite(&self, field: Field) -> Option<Prerequisite> {
        let possible = field.prerequisites().iter().find(|all| self.alternative(all) != Verdict::Fails)?;
        possible.iter().find(|part| !self.states(&constraint_of(part))).copied()
    }

    /// Whether packets that pass fit `cond`.
    pub(crate) fn cond(&self, cond: &Cond) -> Verdict {
        let mut all_hold = true;
        for part in parts(cond) {
            match self.part(part) {
                Verdict::Fails => return Verdict::Fails,
                Verdict::Open => all_hold = false,
                Verdict::Holds => continue,
            }
            let implied =
                |guard: &Part| self.part(*guard) == Verdict::Holds || parts(cond).any(|part| implies(&part, guard));
            if self.guarded.get(&part).is_some_and(|failures| failures.iter().any(|all| all.iter().all(implied))) {
                return Verdict::Fails;
            }
        }
        if all_hold { Verdict::Holds } else { Verdict::Open }
    }

    /// Whether the items state a part of the condition already.
    pub(crate) fn states_any(&self, cond: &Cond) -> bool {
        cond.all.iter().any(|c| self.states(c))
            || cond.ranges.iter().any(|r| self.part(Part::Range(*r)) == Verdict::Holds)
    }

    /// The condition without the parts that the items state already.
    pub(crate) fn reduce(&self, mut cond: Cond) -> Cond {
        cond.all.retain(|c| !self.states(c));
        cond.ranges.retain(|r| self.part(Part::Range(*r)) != Verdict::Holds);
        cond
    }

    /// Takes in an item that packets now pass. Its condition must be reduced.
    pub(crate) fn learn(&mut self, item: &Item) {
        match item {
            Item::Read(constraint) => self.field(constraint.field).confine(constraint),
            Item::Test { cond, outcome: true } => {
                for constraint in &cond.all {
                    self.field(constraint.field).confine(constraint);
                }
                for range in &cond.ranges {
                    self.field(range.field).confine_to(range.lo, range.hi, range.field.full_mask());
                }
            }
            Item::Test { cond, outcome: false } => self.learn_failure(cond),
        }
    }

    /// Whether all bits of the constraint are known, and as it says.
    fn states(&self, c: &Constraint) -> bool {
        self.value(c.field, c.mask) == Some(c.value)
    }

    fn learn_failure(&mut self, cond: &Cond) {
        let mut guards: Vec<Part> = parts(cond).collect();
        let Some(last) = guards.pop() else { return };
        match last {
            _ if !guards.is_empty() => self.guarded.entry(last).or_default().push(guards),
            Part::Masked(constraint) => self.field(constraint.field).exclude(&constraint),
            Part::Range(range) => self.field(range.field).excluded.insert(range.lo, range.hi),
        }
    }

    fn field(&mut self, field: Field) -> &mut FieldKnown {
        self.fields.entry(field).or_default()
    }

    fn alternative(&self, all: &[Prerequisite]) -> Verdict {
        self.cond(&Cond { all: all.iter().map(constraint_of).collect(), ranges: Vec::new() })
    }

    fn part(&self, part: Part) -> Verdict {
        match part {
            Part::Masked(c) => self.fields.get(&c.field).map_or(Verdict::Open, |known| known.masked(&c)),
            Part::Range(r) => {
                let known = self.fields.get(&r.field);
                known.map_or(Verdict::Open, |known| known.range(r.lo, r.hi, r.field.full_mask()))
            }
        }
    }
}

impl FieldKnown {
    fn masked(&self, c: &Constraint) -> Verdict {
        let common = self.mask & c.mask;
        if (self.value ^ c.value) & common != 0 {
            return Verdict::Fails;
        }
        if common == c.mask {
            return Verdict::Holds;
        }
        if self.holes.iter().any(|(mask, values)| mask & c.mask == *mask && values.contains(&(c.value & mask))) {
            return Verdict::Fails;
        }
        match prefix_length(c.field, c.mask) {
            Some(_) => self.range(c.value, c.value | (c.field.full_mask() & !c.mask), c.field.full_mask()),
            None => Verdict::Open,
        }
    }

    fn range(&self, lo: u128, hi: u128, max: u128) -> Verdict {
        if self.mask == max {
            return if lo <= self.value && self.value <= hi { Verdict::Holds } else { Verdict::Fails };
        }
        if self.excluded.covers(lo, hi) {
            return Verdict::Fails;
        }
        let below = lo == 0 || self.excluded.covers(0, lo - 1);
        let above = hi == max || self.excluded.covers(hi + 1, max);
        if below && above { Verdict::Holds } else { Verdict::Open }
    }

    /// Takes in that the field fits `c`.
    fn confine(&mut self, c: &Constraint) {
        self.mask |= c.mask;
        self.value |= c.value;
        if prefix_length(c.field, c.mask).is_some() {
            self.confine_to(c.value, c.value | (c.field.full_mask() & !c.mask), c.field.full_mask());
        }
    }

    /// Takes in that the field lies between `lo` and `hi`.
    fn confine_to(&mut self, lo: u128, hi: u128, max: u128) {
        if lo > 0 {
            self.excluded.insert(0, lo - 1);
        }
        if hi < max {
            self.excluded.insert(hi + 1, max);
        }
    }

    /// Takes in that the field does not fit `c`.
    fn exclude(&mut self, c: &Constraint) {
        if prefix_length(c.field, c.mask).is_some() {
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
        // The last interval that starts in or right behind the new one touches it unless it ends before it.
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

fn parts(cond: &Cond) -> impl Iterator<Item = Part> {
    cond.all.iter().copied().map(Part::Masked).chain(cond.ranges.iter().copied().map(Part::Range))
}

/// Whether every value that fits `a` fits `b`. `false` where that takes more than a look at both.
fn implies(a: &Part, b: &Part) -> bool {
    match (a, b) {
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
