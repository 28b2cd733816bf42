//! Whether no packet can pass two traces.

use maple_wire::Constraint;

use crate::trace::Item;

/// Whether a packet certainly can't pass both traces.
///
/// Looks at single items: two reads or tests that contradict each other, or a test that one trace's reads answer
/// otherwise. So `false` may be wrong, `true` is not.
pub(super) fn are_disjoint(a: &[Item], b: &[Item]) -> bool {
    let (known_a, known_b) = (known(a), known(b));
    let contradict =
        |x: &Constraint| known_b.iter().any(|y| x.field == y.field && (x.value ^ y.value) & x.mask & y.mask != 0);
    known_a.iter().any(contradict) || denies(a, b, &known_b) || denies(b, a, &known_a)
}

/// What a trace says of fields for sure.
fn known(items: &[Item]) -> Vec<Constraint> {
    let mut all = Vec::new();
    for item in items {
        match item {
            Item::Read(constraint) => all.push(*constraint),
            Item::Test { cond, outcome: true } => all.extend(cond.all.iter().copied()),
            Item::Test { .. } => {}
        }
    }
    all
}

/// Whether an item of `a` is answered otherwise by what `b` knows.
fn denies(a: &[Item], b: &[Item], known_b: &[Constraint]) -> bool {
    a.iter().any(|item| {
        let Item::Test { cond, outcome } = item else { return false };
        let opposite = |other: &Item| matches!(other, Item::Test { cond: c, outcome: o } if c == cond && o != outcome);
        if b.iter().any(opposite) {
            return true;
        }
        let bits = |field| {
            known_b
                .iter()
                .filter(|c| c.field == field)
                .fold((0, 0), |(value, mask), c| (value | c.value, mask | c.mask))
        };
        let implied = cond.all.iter().all(|c| {
            let (value, mask) = bits(c.field);
            c.mask & !mask == 0 && value & c.mask == c.value
        });
        // Whether each range's value is known, and if so whether it lies within.
        let mut ranges = cond.ranges.iter().map(|range| {
            let (value, mask) = bits(range.field);
            (mask == range.field.full_mask()).then(|| range.holds(value))
        });
        if *outcome { ranges.any(|within| within == Some(false)) } else { implied && ranges.all(|w| w == Some(true)) }
    })
}
