//! Knowledge about one field, compared with all values that it can have.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

/// A field of six bits.
const FIELD: Field = Field::IpDscp;
const VALUES: u128 = 64;

/// Draws a prefix, or a range.
fn conds() -> impl Strategy<Value = Cond> {
    let prefix = (0..VALUES, 1..7u32).prop_map(|(value, length)| {
        Cond::default().and(Constraint::masked(FIELD, value, FIELD.full_mask() & !(FIELD.full_mask() >> length)))
    });
    let range = (0..VALUES, 0..VALUES)
        .prop_map(|(a, b)| Cond::default().within(Range { field: FIELD, lo: a.min(b), hi: a.max(b) }));
    prop_oneof![prefix, range]
}

fn fits(cond: &Cond, value: u128) -> bool {
    cond.constraints.iter().all(|c| c.holds(value)) && cond.ranges.iter().all(|range| range.holds(value))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn everything_that_follows_from_prefixes_and_ranges_of_one_field_is_known(
        items in vec((conds(), 0..3), 0..12),
        asked in vec(conds(), 30),
    ) {
        let mut known = Knowledge::default();
        for (cond, outcome) in items {
            known.learn(Item::Test { cond: Arc::new(cond), outcome: outcome == 0 });
            let passes = |item: &Item, value| matches!(item, Item::Test { cond, outcome } if fits(cond, value) == *outcome);
            let left: Vec<u128> =
                (0..VALUES).filter(|value| known.items().iter().all(|item| passes(item, *value))).collect();
            if left.is_empty() {
                break;
            }
            for cond in &asked {
                let wanted = match left.iter().filter(|value| fits(cond, **value)).count() {
                    0 => KnownAnswer::Fails,
                    all if all == left.len() => KnownAnswer::Holds,
                    _ => KnownAnswer::Open,
                };
                prop_assert_eq!(known.cond(cond), wanted, "{} of {:?}", cond, left);
            }
        }
    }
}
