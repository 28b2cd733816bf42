//! A quick test of whether two traces exclude each other.

use maple_wire::Constraint;

use crate::trace::Item;

/// Reports whether certainly no packet passes both traces.
///
/// It compares single items: two reads or tests that contradict each other, or a test that the other trace's reads
/// answer differently. So `true` is certain, and `false` may be wrong.
pub(in crate::engine) fn are_disjoint(a: &[Item], b: &[Item]) -> bool {
    let (known_a, known_b) = (known_constraints(a), known_constraints(b));
    let contradict =
        |x: &Constraint| known_b.iter().any(|y| x.field == y.field && (x.value ^ y.value) & x.mask & y.mask != 0);
    known_a.iter().any(contradict) || contradicts_test(a, b, &known_b) || contradicts_test(b, a, &known_a)
}

/// Returns the constraints that every packet of a trace fits.
fn known_constraints(items: &[Item]) -> Vec<Constraint> {
    let mut all = Vec::new();
    for item in items {
        match item {
            Item::Read(constraint) => all.push(*constraint),
            Item::Test { cond, outcome: true } => all.extend(cond.constraints.iter().copied()),
            Item::Test { .. } => {}
        }
    }
    all
}

/// Reports whether the constraints of `b` answer an item of `a` differently.
fn contradicts_test(a: &[Item], b: &[Item], known_b: &[Constraint]) -> bool {
    a.iter().any(|item| {
        let Item::Test { cond, outcome } = item else { return false };
        let opposite = |other: &Item| matches!(other, Item::Test { cond: c, outcome: o } if c == cond && o != outcome);
        if b.iter().any(opposite) {
            return true;
        }
        let bits = |field| {
            known_b
                .iter()
                .filter(|known| known.field == field)
                .fold((0, 0), |(value, mask), known| (value | known.value, mask | known.mask))
        };
        let implied = cond.constraints.iter().all(|asked| {
            let (value, mask) = bits(asked.field);
            asked.mask & !mask == 0 && value & asked.mask == asked.value
        });
        // For each range: whether the value is known to lie within it.
        let mut ranges = cond.ranges.iter().map(|range| {
            let (value, mask) = bits(range.field);
            (mask == range.field.full_mask()).then(|| range.holds(value))
        });
        if *outcome {
            ranges.any(|within| within == Some(false))
        } else {
            implied && ranges.all(|within| within == Some(true))
        }
    })
}
