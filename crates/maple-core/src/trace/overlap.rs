//! The exact decision whether two conditions can hold for one packet, with an example.
//!
//! A condition is a conjunction. With the prerequisites of its fields spelled out (`stated.rs`), it says of each field
//! by itself which values fit: those that have some bits and lie in a range. So two conditions overlap if for one
//! choice of prerequisites each field has a value that fits both, and the least such values are an example.

use std::fmt;

use maple_wire::field::VLAN_PRESENT;
use maple_wire::{Constraint, Field};

use super::prerequisites::{meet, plain, with_prerequisites};
use super::{Cond, Range, field_value_text};

/// A packet, as far as conditions ask: values of fields, in OXM order. Other fields may have any value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Example(pub Vec<(Field, u128)>);

/// Returns a packet that fits both conditions; `None` if no packet can.
///
/// ```
/// use maple_core::Cond;
/// use maple_core::trace::example_of_both;
/// use maple_wire::{Constraint, Field};
///
/// let ssh = Cond::default().and(Constraint::exact(Field::TcpDst, 22));
/// let lab = Cond::default().and(Constraint::masked(Field::Ipv4Src, 10 << 24, 0xff00_0000));
/// let both = example_of_both(&ssh, &lab).expect("SSH from the lab");
/// assert_eq!(both.to_string(), "eth_type=0x800, ip_proto=6, ipv4_src=10.0.0.0, tcp_dst=22");
/// let dns = Cond::default().and(Constraint::exact(Field::UdpDst, 53));
/// assert_eq!(example_of_both(&ssh, &dns), None);
/// ```
pub fn example_of_both(a: &Cond, b: &Cond) -> Option<Example> {
    let both = conjunction(plain(a)?, plain(b)?)?;
    with_prerequisites(&both, Field::prerequisites).iter().find_map(example)
}

/// Combines two conditions; `None` if they contradict each other about a field.
fn conjunction(a: Cond, b: Cond) -> Option<Cond> {
    let mut both = b.constraints.into_iter().try_fold(a, meet)?;
    for range in b.ranges {
        let stated = both.ranges.iter().find(|stated| stated.field == range.field).copied();
        let (lo, hi) = stated.map_or((range.lo, range.hi), |stated| (stated.lo.max(range.lo), stated.hi.min(range.hi)));
        if lo > hi {
            return None;
        }
        both = both.within(Range { lo, hi, ..range });
    }
    Some(both)
}

/// Finds a packet that fits a condition which states its prerequisites.
fn example(cond: &Cond) -> Option<Example> {
    let mut fields: Vec<Field> =
        cond.constraints.iter().map(|c| c.field).chain(cond.ranges.iter().map(|r| r.field)).collect();
    fields.sort_unstable();
    fields.dedup();
    let value = |field: Field| {
        let constraint = cond.constraints.iter().find(|c| c.field == field);
        let constraint = constraint.copied().unwrap_or(Constraint { field, value: 0, mask: 0 });
        let range = cond.ranges.iter().find(|r| r.field == field);
        let (lo, hi) = range.map_or((0, field.full_mask()), |range| (range.lo, range.hi));
        let value = match (field, least(lo, &constraint)?) {
            // Without a tag all bits are 0 (1.3 §7.2.3.7).
            (Field::VlanVid, 1..VLAN_PRESENT) => least(lo.max(VLAN_PRESENT), &constraint)?,
            (_, value) => value,
        };
        (value <= hi.min(field.full_mask())).then_some((field, value))
    };
    fields.into_iter().map(value).collect::<Option<Vec<_>>>().map(Example)
}

/// Finds the least value, from `lo` on, that fits a constraint.
fn least(lo: u128, constraint: &Constraint) -> Option<u128> {
    let Constraint { value, mask, .. } = *constraint;
    if lo & mask == value {
        return Some(lo);
    }
    // A greater value has the same bits as `lo` above a bit that is 1 instead of 0. The lower that bit, the less it is.
    (0..u128::BITS).find_map(|bit| {
        let (one, above) = (1u128 << bit, !(u128::MAX >> (u128::BITS - 1 - bit)));
        let agrees = (lo ^ value) & mask & above == 0;
        let rises = lo & one == 0 && (mask & one == 0 || value & one != 0);
        (agrees && rises).then_some(lo & above | one | value & (one - 1))
    })
}

impl fmt::Display for Example {
    /// Writes text such as `eth_type=0x800, ip_proto=6, tcp_dst=22`. For `vlan_vid` it shows the id, as policies see
    /// it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("any packet");
        }
        for (i, (field, value)) in self.0.iter().enumerate() {
            write!(f, "{}{field}={}", if i > 0 { ", " } else { "" }, field_value_text(*field, *value))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::super::Fields;
    use super::*;

    /// Values of fields. A field is there if its prerequisites hold.
    struct Headers(BTreeMap<Field, u128>);

    impl Fields for Headers {
        fn value(&self, field: Field) -> Option<u128> {
            let holds = |field: Field| self.value(field);
            let alternatives = field.prerequisites();
            let all = |all: &&[maple_wire::field::Prerequisite]| {
                all.iter().all(|part| holds(part.field).is_some_and(|value| value & part.mask == part.value))
            };
            let is_there = alternatives.is_empty() || alternatives.iter().any(all);
            is_there.then(|| self.0.get(&field).copied().unwrap_or(0))
        }

        fn is_captured(&self, _: Field) -> bool {
            true
        }
    }

    const FIELDS: [Field; 7] =
        [Field::EthType, Field::VlanVid, Field::VlanPcp, Field::IpProto, Field::Ipv4Src, Field::TcpDst, Field::UdpDst];

    /// Returns values of which one fits each condition that any value fits: see `cond`.
    fn values(field: Field) -> Vec<u128> {
        match field {
            Field::EthType => vec![0x800, 0x86dd, 0x806, 0x88cc],
            Field::VlanVid => [0].into_iter().chain(VLAN_PRESENT..VLAN_PRESENT + 16).collect(),
            Field::VlanPcp => (0..8).collect(),
            Field::IpProto => vec![1, 6, 17],
            _ => (0..16).collect(),
        }
    }

    /// Draws conditions about the low bits of fields, exact or by mask or range.
    fn cond() -> impl Strategy<Value = Cond> {
        let part =
            (0..FIELDS.len(), 0..4u8, 0..8u128, 0..8u128, any::<bool>()).prop_map(|(field, kind, x, y, rest)| {
                let field = FIELDS[field];
                let base = if field == Field::VlanVid && rest { VLAN_PRESENT } else { 0 };
                let pick = |values: &[u128]| values[x as usize % values.len()];
                let range = |lo: u128, hi: u128| Cond::default().within(Range { field, lo, hi });
                match (field, kind) {
                    (Field::EthType | Field::IpProto, 0..3) => {
                        Cond::default().and(Constraint::exact(field, pick(&values(field))))
                    }
                    (Field::EthType, _) => range(0x800, 0x806),
                    (Field::IpProto, _) => range(2, 17),
                    (_, 0) => Cond::default().and(Constraint::exact(field, base | x)),
                    (_, 1) => Cond::default().and(Constraint::masked(field, x, y)),
                    (_, 2) => range(base | x.min(y), base | x.max(y)),
                    _ => range(x, field.full_mask()),
                }
            });
        proptest::collection::vec(part, 0..4).prop_map(|parts| {
            let mut all = Cond::default();
            for part in parts {
                // One field is in one of the two lists.
                let free = |field: Field| {
                    all.constraints.iter().all(|c| c.field != field) && all.ranges.iter().all(|r| r.field != field)
                };
                match (&part.constraints[..], &part.ranges[..]) {
                    ([c], _) if free(c.field) => all = all.and(*c),
                    (_, [r]) if free(r.field) => all = all.within(*r),
                    _ => {}
                }
            }
            all
        })
    }

    /// Reports whether some packet fits both, by trying all. Fields that no condition names stay 0.
    fn tried(a: &Cond, b: &Cond) -> bool {
        let named: Vec<Field> = FIELDS
            .into_iter()
            .filter(|field| {
                let about = |cond: &Cond| {
                    cond.constraints.iter().any(|c| c.field == *field) || cond.ranges.iter().any(|r| r.field == *field)
                };
                about(a) || about(b) || matches!(field, Field::EthType | Field::IpProto | Field::VlanVid)
            })
            .collect();
        fn all(named: &[Field], headers: &mut Headers, fits: &dyn Fn(&Headers) -> bool) -> bool {
            let [field, rest @ ..] = named else { return fits(headers) };
            values(*field).into_iter().any(|value| {
                headers.0.insert(*field, value);
                all(rest, headers, fits)
            })
        }
        all(&named, &mut Headers(BTreeMap::new()), &|headers| a.holds(headers) && b.holds(headers))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(600))]

        #[test]
        fn two_conditions_overlap_exactly_if_some_packet_fits_both(a in cond(), b in cond()) {
            let found = example_of_both(&a, &b);
            prop_assert_eq!(found.is_some(), tried(&a, &b), "{} | {}: {:?}", a, b, found);
            if let Some(Example(fields)) = found {
                let headers = Headers(fields.into_iter().collect());
                prop_assert!(a.holds(&headers) && b.holds(&headers), "{} | {}: {:?}", a, b, headers.0);
            }
        }

        #[test]
        fn the_least_value_that_fits_is_the_first(lo in 0..64u128, value in 0..64u128, mask in 0..64u128) {
            let constraint = Constraint::masked(Field::TcpDst, value, mask);
            let first = (lo..256).find(|value| constraint.holds(*value));
            prop_assert_eq!(least(lo, &constraint), first);
        }
    }

    #[test]
    fn no_value_lies_above_the_greatest_value() {
        let even = Constraint { field: Field::Ipv6Src, value: 0, mask: 1 };
        assert_eq!(least(u128::MAX, &even), None);
        assert_eq!(least(u128::MAX - 1, &even), Some(u128::MAX - 1));
    }

    #[test]
    fn an_example_is_shown_as_policies_write_fields() {
        let vlan =
            Cond::default().within(Range { field: Field::VlanVid, lo: VLAN_PRESENT | 10, hi: VLAN_PRESENT | 20 });
        let from = Cond::default().and(Constraint::exact(Field::Ipv4Src, 0x0a00_0001));
        let both = example_of_both(&vlan, &from).expect("nothing against it");
        assert_eq!(both.to_string(), "eth_type=0x800, vlan_vid=10, ipv4_src=10.0.0.1");
        assert_eq!(example_of_both(&Cond::default(), &Cond::default()).expect("all").to_string(), "any packet");
    }
}
