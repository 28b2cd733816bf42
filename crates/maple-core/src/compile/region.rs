//! A set of packets as a conjunction, and the matches that state it.

use maple_wire::{Constraint, Field};

use crate::capabilities::Capabilities;
use crate::trace::{Cond, Range, prefix_length};

/// In how many matches a region may be stated. Two wide ranges of ports have hundreds of blocks together; rules are
/// dearer than the misses they save.
const MAX_MATCHES: usize = 64;

/// How many values a range may have on a field that takes no mask, to be stated value by value.
const MAX_VALUES: u128 = 8;

/// The packets that fit all constraints and all ranges.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Region {
    /// At most one a field, in OXM order.
    all: Vec<Constraint>,
    /// At most one a field, in OXM order; `all` may constrain the same field, though not exactly.
    ranges: Vec<Range>,
}

impl Region {
    /// All packets.
    pub(crate) fn any() -> Region {
        Region::default()
    }

    /// The constraints, without the ranges.
    pub(crate) fn constraints(&self) -> &[Constraint] {
        &self.all
    }

    /// The packets of this region that fit `constraint` too; `None` where there can't be any.
    pub(crate) fn with(&self, constraint: &Constraint) -> Option<Region> {
        let mut region = self.clone();
        region.constrain(constraint)?;
        Some(region)
    }

    /// The packets of this region that fit `cond` too; `None` where there can't be any.
    pub(crate) fn and(&self, cond: &Cond) -> Option<Region> {
        let mut region = self.clone();
        for constraint in &cond.all {
            region.constrain(constraint)?;
        }
        if let Some(range) = cond.range {
            region.confine(range)?;
        }
        Some(region)
    }

    /// The matches that together take exactly the packets of this region, each in OXM order; `None` where the switch
    /// can't match it, or only with too many rules.
    pub(crate) fn matches(&self, capabilities: &Capabilities) -> Option<Vec<Vec<Constraint>>> {
        let mut matches = vec![self.all.clone()];
        for range in &self.ranges {
            let blocks = blocks(range, capabilities)?;
            if matches.len() * blocks.len() > MAX_MATCHES {
                return None;
            }
            let stated = |all: &Vec<Constraint>| {
                let stated = blocks.iter().filter_map(|block| merged(all, block));
                stated.collect::<Vec<_>>()
            };
            matches = matches.iter().flat_map(stated).collect();
        }
        matches.iter().all(|all| capabilities.can_match_all(all)).then_some(matches)
    }

    fn constrain(&mut self, constraint: &Constraint) -> Option<()> {
        self.all = merged(&self.all, constraint)?;
        let at = self.ranges.iter().position(|range| range.field == constraint.field);
        at.map_or(Some(()), |at| self.settle(at))
    }

    fn confine(&mut self, range: Range) -> Option<()> {
        let at = match self.ranges.binary_search_by_key(&range.field, |r| r.field) {
            Ok(at) => {
                let there = &mut self.ranges[at];
                (there.lo, there.hi) = (there.lo.max(range.lo), there.hi.min(range.hi));
                at
            }
            Err(at) => {
                self.ranges.insert(at, range);
                at
            }
        };
        self.settle(at)
    }

    /// Brings a range and the constraint on its field together: nothing is left of the range where the constraint says
    /// it all, and of both where they contradict each other.
    fn settle(&mut self, at: usize) -> Option<()> {
        let Range { field, lo, hi } = self.ranges[at];
        if let Some(c) = self.all.iter().find(|c| c.field == field) {
            let rest = field.full_mask() & !c.mask;
            // With a prefix these are the ends of a block; with another mask only bounds of what fits.
            let (first, last) = (c.value, c.value | rest);
            if last < lo || hi < first {
                return None;
            }
            if lo <= first && last <= hi {
                self.ranges.remove(at);
                return Some(());
            }
            if prefix_length(field, c.mask).is_some() {
                self.ranges[at] = Range { field, lo: lo.max(first), hi: hi.min(last) };
            }
        }
        if lo > hi { None } else { Some(()) }
    }
}

/// The constraints with one more, in OXM order; `None` where that contradicts one of them.
fn merged(all: &[Constraint], constraint: &Constraint) -> Option<Vec<Constraint>> {
    let mut all = all.to_vec();
    match all.binary_search_by_key(&constraint.field, |c| c.field) {
        Ok(at) => {
            let there = &mut all[at];
            if (there.value ^ constraint.value) & there.mask & constraint.mask != 0 {
                return None;
            }
            there.value |= constraint.value;
            there.mask |= constraint.mask;
        }
        Err(at) => all.insert(at, *constraint),
    }
    Some(all)
}

/// The range as masked values, as few as can be; as single values where the field takes no prefix mask. `None` where
/// these would be too many.
fn blocks(range: &Range, capabilities: &Capabilities) -> Option<Vec<Constraint>> {
    let Range { field, lo, hi } = *range;
    if capabilities.prefixes.contains(field) {
        return Some(prefixes(field, lo, hi));
    }
    (hi - lo < MAX_VALUES).then(|| (lo..=hi).map(|value| Constraint::exact(field, value)).collect())
}

/// The fewest prefixes that together are the range, ascending.
fn prefixes(field: Field, lo: u128, hi: u128) -> Vec<Constraint> {
    let mut blocks = Vec::new();
    let mut first = lo;
    loop {
        // The largest block that starts here and does not pass the end.
        let mut size_bits = first.trailing_zeros().min(field.bits());
        while size_bits > 0 && hi - first < u128::MAX >> (128 - size_bits) {
            size_bits -= 1;
        }
        let rest = if size_bits == 0 { 0 } else { u128::MAX >> (128 - size_bits) };
        blocks.push(Constraint { field, value: first, mask: field.full_mask() & !rest });
        match (first | rest).checked_add(1) {
            Some(next) if next <= hi => first = next,
            _ => return blocks,
        }
    }
}
