//! A set of packets as a conjunction, and the matches that state it.

use std::borrow::Cow;

use maple_wire::field::VLAN_PRESENT;
use maple_wire::{Constraint, Field};

use super::{Cond, Range};
use crate::capabilities::Capabilities;

/// The maximum number of matches that state a region. Two wide ranges of ports together have hundreds of blocks, and
/// their rules would cost more than the misses that they save.
const MAX_MATCHES: usize = 64;

/// The maximum number of values of a range that are stated one by one, on a field that takes no prefix mask.
const MAX_VALUES: u128 = 8;

/// The packets that fit all constraints and all ranges.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Region {
    /// The constraints, at most one for each field, in OXM order.
    constraints: Vec<Constraint>,
    /// The ranges, at most one for each field, in OXM order. `constraints` may constrain the same field, though not
    /// exactly.
    ranges: Vec<Range>,
}

impl Region {
    /// Returns the region of all packets.
    pub fn any() -> Region {
        Region::default()
    }

    /// Returns the constraints, without the ranges.
    pub fn constraints(&self) -> &[Constraint] {
        &self.constraints
    }

    /// Returns the packets of this region that fit `constraint` too; `None` if there can't be any.
    pub fn with(&self, constraint: &Constraint) -> Option<Region> {
        let mut region = self.with_room(1);
        region.constrain(constraint)?;
        Some(region)
    }

    /// Becomes the packets of `whole` that fit `constraint` too. Returns whether there can be any. Reuses its own
    /// memory.
    pub(crate) fn become_part(&mut self, whole: &Region, constraint: &Constraint) -> bool {
        self.constraints.clone_from(&whole.constraints);
        self.ranges.clone_from(&whole.ranges);
        self.constrain(constraint).is_some()
    }

    /// Returns the packets of this region that fit `cond` too; `None` if there can't be any.
    pub fn and(&self, cond: &Cond) -> Option<Region> {
        let mut region = self.with_room(cond.constraints.len());
        for constraint in &cond.constraints {
            region.constrain(constraint)?;
        }
        for range in &cond.ranges {
            region.confine(*range)?;
        }
        Some(region)
    }

    /// Returns the matches that together take exactly the packets of this region, each in OXM order; `None` if the
    /// switch can't match it, or only with too many rules.
    pub fn matches(&self, capabilities: &Capabilities) -> Option<Vec<Vec<Constraint>>> {
        self.stated_matches(capabilities).map(Cow::into_owned)
    }

    /// Returns the matches of [`Region::matches`], without a copy if the region is its own single match.
    pub(crate) fn stated_matches(&self, capabilities: &Capabilities) -> Option<Cow<'_, [Vec<Constraint>]>> {
        if self.ranges.is_empty() {
            return capabilities
                .can_match_all(&self.constraints)
                .then_some(Cow::Borrowed(std::slice::from_ref(&self.constraints)));
        }
        let mut matches = vec![self.constraints.clone()];
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
        matches.iter().all(|all| capabilities.can_match_all(all)).then_some(Cow::Owned(matches))
    }

    /// Returns the number of matches into which a range cuts the region; `None` if that takes a closer look, as in
    /// [`Region::matches`].
    pub(crate) fn cuts(&self, range: &Range, capabilities: &Capabilities) -> Option<usize> {
        let Range { field, mut lo, mut hi } = *range;
        if self.ranges.iter().any(|range| range.field == field) {
            return None;
        }
        if let Some(c) = self.constraints.iter().find(|c| c.field == field) {
            field.prefix_length(c.mask)?;
            (lo, hi) = (lo.max(c.value), hi.min(c.value | (field.full_mask() & !c.mask)));
        }
        if lo > hi {
            None
        } else if capabilities.prefixes.contains(field) {
            Some(Prefixes { field, next: Some(lo), hi }.count())
        } else {
            usize::try_from(hi - lo).ok()?.checked_add(1)
        }
    }

    /// Returns a region that can be matched and holds all packets of this one that fit `cond`: this one, restricted by
    /// those parts of `cond` that can be stated. `None` if no such part restricts it.
    pub fn widened(&self, cond: &Cond, capabilities: &Capabilities) -> Option<Region> {
        let all = cond.constraints.iter().map(|c| Cond { constraints: vec![*c], ranges: Vec::new() });
        let ranges = cond.ranges.iter().map(|range| Cond { constraints: Vec::new(), ranges: vec![*range] });
        let mut wide: Option<Region> = None;
        for part in all.chain(ranges) {
            let within = wide.as_ref().unwrap_or(self);
            let narrower = within.and(&part).filter(|region| region != within);
            if let Some(region) = narrower.filter(|region| region.matches(capabilities).is_some()) {
                wide = Some(region);
            }
        }
        wide
    }

    /// Returns a copy with capacity for more constraints.
    fn with_room(&self, constraints: usize) -> Region {
        let mut all = Vec::with_capacity(self.constraints.len() + constraints);
        all.extend_from_slice(&self.constraints);
        Region { constraints: all, ranges: self.ranges.clone() }
    }

    fn constrain(&mut self, constraint: &Constraint) -> Option<()> {
        merge(&mut self.constraints, constraint)?;
        let index = self.ranges.iter().position(|range| range.field == constraint.field);
        index.map_or(Some(()), |index| self.settle(index))
    }

    fn confine(&mut self, range: Range) -> Option<()> {
        let index = match self.ranges.binary_search_by_key(&range.field, |r| r.field) {
            Ok(index) => {
                let there = &mut self.ranges[index];
                (there.lo, there.hi) = (there.lo.max(range.lo), there.hi.min(range.hi));
                index
            }
            Err(index) => {
                self.ranges.insert(index, range);
                index
            }
        };
        self.settle(index)
    }

    /// Combines a range with the constraint on its field. Drops the range if the constraint implies it; `None` if they
    /// contradict each other.
    fn settle(&mut self, index: usize) -> Option<()> {
        let Range { field, lo, hi } = self.ranges[index];
        if let Some(c) = self.constraints.iter().find(|c| c.field == field) {
            let rest = field.full_mask() & !c.mask;
            // With a prefix these are the ends of a block; with another mask only bounds of what fits.
            let (first, last) = (c.value, c.value | rest);
            if last < lo || hi < first {
                return None;
            }
            if lo <= first && last <= hi {
                self.ranges.remove(index);
                return Some(());
            }
            if field.prefix_length(c.mask).is_some() {
                self.ranges[index] = Range { field, lo: lo.max(first), hi: hi.min(last) };
            }
        }
        if lo > hi { None } else { Some(()) }
    }
}

/// Returns the constraints with one more, in OXM order; `None` if no packet fits all of them.
fn merged(all: &[Constraint], constraint: &Constraint) -> Option<Vec<Constraint>> {
    let mut all = all.to_vec();
    merge(&mut all, constraint)?;
    Some(all)
}

/// Adds a constraint; `None` if no packet fits all of them.
fn merge(all: &mut Vec<Constraint>, constraint: &Constraint) -> Option<()> {
    let index = match all.binary_search_by_key(&constraint.field, |c| c.field) {
        Ok(index) => {
            let there = &mut all[index];
            if (there.value ^ constraint.value) & there.mask & constraint.mask != 0 {
                return None;
            }
            there.value |= constraint.value;
            there.mask |= constraint.mask;
            index
        }
        Err(index) => {
            all.insert(index, *constraint);
            index
        }
    };
    let Constraint { field, value, mask } = all[index];
    if field == Field::VlanVid && mask & VLAN_PRESENT != 0 && value & VLAN_PRESENT == 0 {
        // Without a tag all bits are 0, and every switch accepts the whole value (1.3 §7.2.3.7).
        all[index] = Constraint::exact(field, 0);
        return (value == 0).then_some(());
    }
    Some(())
}

/// Returns the fewest masked values that make up the range, or its single values if the field takes no prefix mask.
/// `None` if there are more than [`MAX_VALUES`] of these.
fn blocks(range: &Range, capabilities: &Capabilities) -> Option<Vec<Constraint>> {
    let Range { field, lo, hi } = *range;
    if capabilities.prefixes.contains(field) {
        return Some(Prefixes { field, next: Some(lo), hi }.collect());
    }
    (hi - lo < MAX_VALUES).then(|| (lo..=hi).map(|value| Constraint::exact(field, value)).collect())
}

/// The fewest prefixes that together make up a range, ascending.
struct Prefixes {
    field: Field,
    /// The start of the next one.
    next: Option<u128>,
    hi: u128,
}

impl Iterator for Prefixes {
    type Item = Constraint;

    fn next(&mut self) -> Option<Constraint> {
        let first = self.next?;
        // The largest block that starts here and does not pass the end.
        let room = match (self.hi - first).checked_add(1) {
            Some(values) => values.ilog2(),
            None => u128::BITS,
        };
        let size_bits = first.trailing_zeros().min(self.field.bits()).min(room);
        let rest = u128::MAX.checked_shr(u128::BITS - size_bits).unwrap_or(0);
        self.next = (first | rest).checked_add(1).filter(|next| *next <= self.hi);
        Some(Constraint { field: self.field, value: first, mask: self.field.full_mask() & !rest })
    }
}

#[cfg(test)]
mod tests {
    use maple_wire::Dpid;
    use maple_wire::msg::{Features, Version};

    use super::*;

    fn capabilities() -> Capabilities {
        let features = Features::new(Dpid(1), 1);
        Capabilities::from_features(Version::Of13, &features).of_open_vswitch()
    }

    fn range(field: Field, lo: u128, hi: u128) -> Cond {
        Cond { constraints: Vec::new(), ranges: vec![Range { field, lo, hi }] }
    }

    fn tcp() -> Region {
        let all = vec![Constraint::exact(Field::EthType, 0x800), Constraint::exact(Field::IpProto, 6)];
        Region::any().and(&Cond { constraints: all, ranges: Vec::new() }).unwrap()
    }

    fn prefixes(field: Field, lo: u128, hi: u128) -> Vec<Constraint> {
        Prefixes { field, next: Some(lo), hi }.collect()
    }

    #[test]
    fn blocks_of_a_range_hold_exactly_its_values() {
        let ends = [0, 1, 2, 7, 8, 9, 1023, 1024, 32767, 32768, 65534, 65535];
        for (lo, hi) in ends.into_iter().flat_map(|lo| ends.into_iter().map(move |hi| (lo, hi))) {
            if lo <= hi {
                let blocks = prefixes(Field::TcpDst, lo, hi);
                let size: u128 = blocks.iter().map(|b| Field::TcpDst.full_mask() - b.mask + 1).sum();
                assert_eq!(size, hi - lo + 1, "{lo}..{hi}");
                for block in &blocks {
                    assert!(lo <= block.value && block.value | (0xffff & !block.mask) <= hi, "{lo}..{hi}: {block:?}");
                }
                assert!(blocks.len() <= 30);
            }
        }
    }

    #[test]
    fn blocks_reach_to_the_end_of_the_widest_fields() {
        assert_eq!(prefixes(Field::Ipv6Src, 0, u128::MAX).len(), 1);
        assert_eq!(prefixes(Field::Ipv6Src, 1, u128::MAX).len(), 128);
        assert_eq!(prefixes(Field::Ipv6Src, u128::MAX, u128::MAX), [Constraint::exact(Field::Ipv6Src, u128::MAX)]);
    }

    #[test]
    fn ranges_and_masks_of_one_field_narrow_each_other() {
        let region = tcp().and(&range(Field::TcpDst, 1000, 2000)).unwrap();
        assert_eq!(region.with(&Constraint::exact(Field::TcpDst, 80)), None);
        let exact = region.with(&Constraint::exact(Field::TcpDst, 1500)).unwrap();
        assert_eq!(exact, tcp().with(&Constraint::exact(Field::TcpDst, 1500)).unwrap());
        assert_eq!(region.and(&range(Field::TcpDst, 0, 999)), None);
        let block = region.with(&Constraint::masked(Field::TcpDst, 0, 0xfc00)).unwrap();
        assert_eq!(block.ranges, [Range { field: Field::TcpDst, lo: 1000, hi: 1023 }]);
        for all in block.matches(&capabilities()).unwrap() {
            let port = all.last().unwrap();
            assert!(port.value >= 1000 && port.value | (0xffff & !port.mask) <= 1023, "{port:?}");
        }
    }

    #[test]
    fn two_wide_ranges_have_too_many_matches() {
        let one = tcp().and(&range(Field::TcpSrc, 1, 65534)).unwrap();
        assert_eq!(one.matches(&capabilities()).map(|matches| matches.len()), Some(30));
        let two = one.and(&range(Field::TcpDst, 1, 65534)).unwrap();
        assert_eq!(two.matches(&capabilities()), None);
    }

    #[test]
    fn a_packet_without_a_tag_has_no_other_bit_of_vlan_vid() {
        let untagged = Region::any().with(&Constraint::masked(Field::VlanVid, 0, 0x1000)).unwrap();
        assert_eq!(untagged.constraints(), [Constraint::exact(Field::VlanVid, 0)]);
        assert_eq!(untagged.with(&Constraint::masked(Field::VlanVid, 1, 1)), None);
    }
}
