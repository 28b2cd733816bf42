//! Sets of packets as conjunctions of constraints: do they overlap, does one cover another, do many.
//!
//! Constraints stand in OXM order, one a field. A packet has a value for every field here, so answers err on the side
//! of *overlaps* and *is not covered*: that a packet without a VLAN tag has no other VLAN bits, say, is not known.

use maple_wire::{Constraint, Field};

/// How many regions are looked at before a question of what many sets cover is answered with "perhaps not".
const BUDGET: usize = 400;

/// How free bits are chosen in the packets that are looked at.
const SAMPLES: [u128; 4] = [0, u128::MAX, u128::MAX / 3, u128::MAX / 3 * 2];

/// Whether a packet can fit both: they agree in the bits that both fix.
pub(super) fn overlap(a: &[Constraint], b: &[Constraint]) -> bool {
    let (mut i, mut j) = (0, 0);
    while i < a.len() && j < b.len() {
        let (x, y) = (&a[i], &b[j]);
        if x.field == y.field {
            if (x.value ^ y.value) & x.mask & y.mask != 0 {
                return false;
            }
            (i, j) = (i + 1, j + 1);
        } else if x.field < y.field {
            i += 1;
        } else {
            j += 1;
        }
    }
    true
}

/// Whether `a` takes every packet that `b` takes.
pub(super) fn covers(a: &[Constraint], b: &[Constraint]) -> bool {
    let mut rest = b.iter();
    a.iter().all(|x| {
        rest.find(|y| y.field == x.field)
            .is_some_and(|y| x.mask & y.mask == x.mask && (x.value ^ y.value) & x.mask == 0)
    })
}

/// The packets that fit both, which must overlap.
pub(super) fn meet(a: &[Constraint], b: &[Constraint]) -> Vec<Constraint> {
    let mut both = a.to_vec();
    for y in b {
        match both.binary_search_by_key(&y.field, |x| x.field) {
            Ok(at) => {
                both[at].value |= y.value;
                both[at].mask |= y.mask;
            }
            Err(at) => both.insert(at, *y),
        }
    }
    both
}

/// Some packets of `all` that none of `cover` takes; `None` where it takes all of them.
///
/// First looks at a few packets of it. Then takes the sets of the cover away one after the other, and cuts what is left of a region into regions, bit by bit.
/// Where that gets long, the answer is a region of which some packet is perhaps not covered.
pub(super) fn uncovered(all: &[Constraint], cover: &[&[Constraint]]) -> Option<Vec<Constraint>> {
    if cover.iter().any(|set| covers(set, all)) {
        return None;
    }
    if let Some(packet) = SAMPLES.into_iter().find_map(|bits| sample(all, cover, bits)) {
        return Some(packet);
    }
    let mut open = vec![(all.to_vec(), 0)];
    let mut budget = BUDGET;
    while let Some((region, from)) = open.pop() {
        let Some(at) = (from..cover.len()).find(|at| overlap(cover[*at], &region)) else { return Some(region) };
        budget -= 1;
        if budget == 0 {
            return Some(region);
        }
        cut(region, cover[at], |rest| open.push((rest, at + 1)));
    }
    None
}

/// The packet of `all` that has these bits where it has a choice, if no set of the cover takes it; as far as they look.
fn sample(all: &[Constraint], cover: &[&[Constraint]], bits: u128) -> Option<Vec<Constraint>> {
    let value = |field: Field| {
        let fixed = all.iter().find(|c| c.field == field);
        fixed.map_or(bits, |c| c.value | bits & !c.mask) & field.full_mask()
    };
    let takes = |set: &[Constraint]| set.iter().all(|c| c.holds(value(c.field)));
    if cover.iter().any(|set| takes(set)) {
        return None;
    }
    let mut fields: Vec<Field> = cover.iter().copied().flatten().chain(all).map(|c| c.field).collect();
    fields.sort_unstable();
    fields.dedup();
    Some(fields.into_iter().map(|field| Constraint::exact(field, value(field))).collect())
}

/// Cuts what `set` does not take of `region` into regions.
fn cut(mut region: Vec<Constraint>, set: &[Constraint], mut rest: impl FnMut(Vec<Constraint>)) {
    for constraint in set {
        let at = match region.binary_search_by_key(&constraint.field, |c| c.field) {
            Ok(at) => at,
            Err(at) => {
                region.insert(at, Constraint { field: constraint.field, value: 0, mask: 0 });
                at
            }
        };
        let mut open = constraint.mask & !region[at].mask;
        while open != 0 {
            let bit = 1u128 << (127 - open.leading_zeros());
            open ^= bit;
            region[at].mask |= bit;
            region[at].value |= !constraint.value & bit;
            rest(region.clone());
            region[at].value ^= bit;
        }
    }
}
