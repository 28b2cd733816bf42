//! The index against a linear scan.

use maple_wire::Constraint;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::trace::Range;

/// A packet that has some of four fields, whatever their prerequisites.
#[derive(Clone, Debug)]
struct Headers([Option<u128>; 4]);

const FIELDS: [Field; 4] = [Field::IpProto, Field::Ipv4Src, Field::TcpDst, Field::Ipv6Dst];

impl Fields for Headers {
    fn value(&self, field: Field) -> Option<u128> {
        self.0[FIELDS.iter().position(|there| *there == field)?]
    }

    fn is_captured(&self, _: Field) -> bool {
        true
    }
}

/// Draws one of a few values of a field, at both of its ends.
fn values(field: Field) -> impl Strategy<Value = u128> {
    (0..3u128, any::<bool>()).prop_map(move |(low, high)| low | if high { 1 << (field.bits() - 1) } else { 0 })
}

fn packets() -> impl Strategy<Value = Headers> {
    let value = |i: usize| prop::option::weighted(0.9, values(FIELDS[i]));
    [value(0), value(1), value(2), value(3)].prop_map(Headers)
}

fn parts(field: Field) -> impl Strategy<Value = Option<Result<Constraint, Range>>> {
    let masks = select(vec![0, 1, 2, 1 << (field.bits() - 1), field.full_mask(), field.full_mask()]);
    prop_oneof![
        2 => Just(None),
        3 => (values(field), masks)
            .prop_map(move |(value, mask)| Some(Ok(Constraint { field, value: value & mask, mask }))),
        1 => (values(field), 0..3u128).prop_map(move |(lo, width)| Some(Err(Range { field, lo, hi: lo + width }))),
    ]
}

fn conditions() -> impl Strategy<Value = Arc<Cond>> {
    FIELDS.map(parts).prop_map(|parts| {
        let all = parts.iter().flatten().filter_map(|part| part.ok()).collect();
        let ranges = parts.iter().flatten().filter_map(|part| part.err()).collect();
        Arc::new(Cond { constraints: all, ranges })
    })
}

fn check(index: &ConditionIndex, oracle: &[Arc<Cond>], packets: &[Headers]) {
    for packet in packets {
        assert_eq!(index.first(packet), oracle.iter().position(|cond| cond.holds(packet)), "{packet:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    fn the_first_condition_is_found_as_conditions_come_and_go(
        edits in vec((vec(conditions(), 0..12), 0..12usize), 1..5),
        packets in vec(packets(), 12),
    ) {
        let (mut index, mut oracle) = (ConditionIndex::default(), Vec::new());
        for (new, gone) in edits {
            for cond in new {
                index.push(cond.clone());
                oracle.push(cond);
            }
            check(&index, &oracle, &packets);
            (0..gone).for_each(|_| index.pop());
            oracle.truncate(oracle.len().saturating_sub(gone));
            check(&index, &oracle, &packets);
        }
    }
}

#[test]
fn a_list_with_more_shapes_than_a_segment_holds_has_several() {
    let mut index = ConditionIndex::default();
    let cond = |i: u128| {
        let on = |field, bits| Constraint::masked(field, u128::MAX, bits);
        let all = vec![on(Field::IpProto, 1 + i % 200), on(Field::Ipv4Src, 1 + i / 5)];
        Arc::new(Cond { constraints: all, ranges: Vec::new() })
    };
    let conds: Vec<_> = (0..3000).map(cond).collect();
    conds.iter().for_each(|cond| index.push(cond.clone()));
    assert!(index.segments.len() > 1);
    let packets: Vec<_> = (0..4000).map(|i| Headers([Some(i * 7 % 256), Some(i * 13 % 1024), None, None])).collect();
    check(&index, &conds, &packets);
    for left in [2000, 700, 1, 0] {
        (index.len..3000).for_each(|at| index.push(conds[at].clone()));
        (left..3000).for_each(|_| index.pop());
        check(&index, &conds[..left], &packets);
        assert!(index.segments.iter().all(|segment| segment.gone <= segment.entries.len() + MAX_GROUPS));
    }
    assert_eq!((index.len, index.segments.len()), (0, 0));
}
