//! Cubes: sets of packets that are an interval in each of some fields.
//!
//! # What
//!
//! An entry of an access list is a cube. Questions about lists reduce to finding a packet that lies in one cube and
//! outside others: a witness for an entry, a packet on which two lists differ, or a counterexample of a test. To find
//! one, cubes are subtracted from each other, which gives disjoint cubes.
//!
//! A cube requires each of its fields to be present; the prerequisites of a field ([`Field::prerequisites`]) are
//! constrained too. So a difference, which reads fields in OXM order, never reads a field of a packet that lacks it.
//!
//! # Cost
//!
//! A subtraction makes at most two cubes for each field. A search ([`Cube::divide`]) visits the parts of a cube one
//! after the other, and carries along only the other cubes that overlap the part. It visits at most [`BUDGET`] parts,
//! and says so if that was not enough.

use std::collections::BTreeMap;
use std::fmt;

use maple_core::trace::{Cond, Range};
use maple_wire::field::VLAN_PRESENT;
use maple_wire::{Constraint, Field};

/// Stands for the switch where a packet enters. Entering packets have no metadata, so no list tests that field.
pub const SWITCH: Field = Field::Metadata;

/// The maximum number of parts that a search visits. Ranges of many rules can overlap in very many parts, so a search
/// gives up here, and its caller says so. Chosen: more would find more, and take longer.
pub const BUDGET: usize = 200_000;

/// The maximum number of blocks that an entry is installed as in advance. Chosen: two ranges of ports may take 900.
pub const MAX_BLOCKS: usize = 1_000;

/// An interval of a field's values, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Interval {
    pub field: Field,
    pub lo: u128,
    pub hi: u128,
}

/// The packets that have all these fields, within these intervals. Sorted by OXM order, one interval for each field.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Cube(Vec<Interval>);

/// The result of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found<T> {
    One(T),
    None,
    /// The search gave up.
    Unknown,
}

impl<T> Found<T> {
    /// Returns what was found. `None` also if the search gave up.
    pub fn one(self) -> Option<T> {
        if let Found::One(found) = self { Some(found) } else { None }
    }
}

/// Values of fields.
pub type Point = BTreeMap<Field, u128>;

impl Interval {
    fn is_whole(&self) -> bool {
        self.lo == 0 && self.hi == self.field.full_mask()
    }
}

impl Cube {
    /// Returns all packets.
    pub fn all() -> Cube {
        Cube::default()
    }

    /// Restricts the cube to packets whose field lies from `lo` to `hi`; `None` if there are none.
    pub fn with(mut self, field: Field, lo: u128, hi: u128) -> Option<Cube> {
        match self.0.binary_search_by_key(&field, |interval| interval.field) {
            Ok(at) => {
                let there = &mut self.0[at];
                (there.lo, there.hi) = (there.lo.max(lo), there.hi.min(hi));
                if there.lo > there.hi {
                    return None;
                }
            }
            Err(at) => self.0.insert(at, Interval { field, lo, hi }),
        }
        Some(self)
    }

    /// Restricts the cube to packets whose field has this value; `None` if there are none.
    pub fn is(self, field: Field, value: u128) -> Option<Cube> {
        self.with(field, value, value)
    }

    /// Returns the intervals, in OXM order.
    pub fn intervals(&self) -> &[Interval] {
        &self.0
    }

    /// Returns the interval of a field.
    pub fn get(&self, field: Field) -> Option<Interval> {
        let at = self.0.binary_search_by_key(&field, |interval| interval.field).ok()?;
        Some(self.0[at])
    }

    /// Returns the intersection; `None` if it is empty.
    pub fn and(&self, other: &Cube) -> Option<Cube> {
        if !self.overlaps(other) {
            return None;
        }
        other.0.iter().try_fold(self.clone(), |cube, i| cube.with(i.field, i.lo, i.hi))
    }

    /// Returns the smallest cube that contains both.
    pub fn hull(&self, other: &Cube) -> Cube {
        let both = |i: &Interval| {
            let there = other.get(i.field)?;
            Some(Interval { field: i.field, lo: i.lo.min(there.lo), hi: i.hi.max(there.hi) })
        };
        Cube(self.0.iter().filter_map(both).collect())
    }

    /// Reports whether the cubes may share a packet.
    pub fn overlaps(&self, other: &Cube) -> bool {
        let (mut at, mut with) = (self.0.iter().peekable(), other.0.iter().peekable());
        while let (Some(a), Some(b)) = (at.peek(), with.peek()) {
            match a.field.cmp(&b.field) {
                std::cmp::Ordering::Less => _ = at.next(),
                std::cmp::Ordering::Greater => _ = with.next(),
                std::cmp::Ordering::Equal => {
                    if a.lo > b.hi || b.lo > a.hi {
                        return false;
                    }
                    at.next();
                    with.next();
                }
            }
        }
        true
    }

    /// Reports whether this cube contains all packets of `other`.
    pub fn contains(&self, other: &Cube) -> bool {
        self.0.iter().all(|i| other.get(i.field).is_some_and(|o| i.lo <= o.lo && o.hi <= i.hi))
    }

    /// Returns the packets that are not in `other`, as disjoint cubes.
    pub fn minus(&self, other: &Cube) -> Vec<Cube> {
        if !self.overlaps(other) {
            return vec![self.clone()];
        }
        let (mut rest, mut pieces) = (self.clone(), Vec::new());
        for out in &other.0 {
            let Interval { lo, hi, .. } =
                rest.get(out.field).unwrap_or(Interval { field: out.field, lo: 0, hi: out.field.full_mask() });
            // The upper side comes first: experimental types and protocols are large numbers.
            if let Some((lo, hi)) = (out.hi < hi).then(|| possible(out.field, out.hi + 1, hi)).flatten() {
                pieces.extend(rest.clone().with(out.field, lo, hi));
            }
            if let Some((lo, hi)) = (lo < out.lo).then(|| possible(out.field, lo, out.lo - 1)).flatten() {
                pieces.extend(rest.clone().with(out.field, lo, hi));
            }
            let Some(inside) = rest.with(out.field, out.lo, out.hi) else { break };
            rest = inside;
        }
        pieces
    }

    /// Searches for a part of the cube that is outside all others.
    pub fn outside<'a>(&self, others: impl IntoIterator<Item = (usize, &'a Cube)>) -> Found<Cube> {
        let (mut found, mut budget) = (None, BUDGET);
        let is_covered = |part: &Cube, others: &[(usize, &Cube)]| others.iter().any(|(_, other)| other.contains(part));
        let is_known = self.search(others, &mut budget, is_covered, &mut |part, other| {
            if other.is_none() {
                found = Some(part);
            }
            found.is_none()
        });
        match found {
            Some(part) => Found::One(part),
            None if is_known => Found::None,
            None => Found::Unknown,
        }
    }

    /// Divides the cube into disjoint parts. `see` gets each part with the number of the first of the others that
    /// contains it, or `None` if none of them overlaps it, and returns whether to continue. Each part takes one from
    /// the budget. Returns whether the budget was enough.
    pub fn divide<'a>(
        &self,
        others: impl IntoIterator<Item = (usize, &'a Cube)>,
        budget: &mut usize,
        see: &mut impl FnMut(Cube, Option<usize>) -> bool,
    ) -> bool {
        self.search(others, budget, |_, _| false, see)
    }

    /// Divides the cube as [`Cube::divide`] does, without the parts for which `is_left_out` holds; that gets the others
    /// that overlap the part, too.
    fn search<'a>(
        &self,
        others: impl IntoIterator<Item = (usize, &'a Cube)>,
        budget: &mut usize,
        is_left_out: impl Fn(&Cube, &[(usize, &Cube)]) -> bool,
        see: &mut impl FnMut(Cube, Option<usize>) -> bool,
    ) -> bool {
        let overlapping = others.into_iter().filter(|(_, other)| self.overlaps(other));
        // The remaining parts, each with the others that overlap it.
        let mut open: Vec<(Cube, Vec<(usize, &Cube)>)> = vec![(self.clone(), overlapping.collect())];
        while let Some((cube, others)) = open.pop() {
            if is_left_out(&cube, &others) {
                continue;
            }
            let Some(((at, first), rest)) = others.split_first() else {
                if !see(cube, None) {
                    return true;
                }
                continue;
            };
            if cube.and(first).is_some_and(|part| !see(part, Some(*at))) {
                return true;
            }
            let pieces = cube.minus(first);
            let Some(left) = budget.checked_sub(1 + pieces.len()) else { return false };
            *budget = left;
            open.extend(pieces.into_iter().rev().map(|piece| {
                let overlapping = rest.iter().filter(|(_, other)| piece.overlaps(other)).copied().collect();
                (piece, overlapping)
            }));
        }
        true
    }

    /// Returns the same packets as cubes whose intervals are aligned blocks, which switches can match; `None` if there
    /// are more than `MAX_BLOCKS`.
    pub fn in_blocks(&self) -> Option<Vec<Cube>> {
        let mut cubes = vec![Cube::all()];
        for interval in &self.0 {
            let parts: Vec<(u128, u128)> = blocks(interval.lo, interval.hi).collect();
            if parts.len() * cubes.len() > MAX_BLOCKS {
                return None;
            }
            let narrowed = |(cube, (lo, hi)): (&Cube, &(u128, u128))| cube.clone().with(interval.field, *lo, *hi);
            cubes = cubes.iter().flat_map(|cube| parts.iter().filter_map(move |part| narrowed((cube, part)))).collect();
        }
        Some(cubes)
    }

    /// Returns the equivalent condition, without the switch.
    pub fn cond(&self) -> Cond {
        self.0.iter().filter(|i| i.field != SWITCH).fold(Cond::default(), |cond, i| match block(i) {
            Some(block) => cond.and(block),
            None => cond.within(Range { field: i.field, lo: i.lo, hi: i.hi }),
        })
    }

    /// Returns one value for each constrained field: the highest where `high` has its bit, the lowest elsewhere.
    pub fn point(&self, high: u64) -> Point {
        let value = |(at, i): (usize, &Interval)| (i.field, if high >> (at % 64) & 1 == 1 { i.hi } else { i.lo });
        self.0.iter().enumerate().map(value).collect()
    }
}

/// Returns the part of an interval whose values a packet can have. A VLAN id is 0 without a tag, or
/// has the bit of the tag.
fn possible(field: Field, lo: u128, hi: u128) -> Option<(u128, u128)> {
    if field != Field::VlanVid {
        return Some((lo, hi));
    }
    let (lo, hi) = (if lo == 0 { 0 } else { lo.max(VLAN_PRESENT) }, if hi < VLAN_PRESENT { 0 } else { hi });
    (lo <= hi).then_some((lo, hi))
}

/// Divides an interval into aligned blocks, as few as possible.
pub fn blocks(lo: u128, hi: u128) -> impl Iterator<Item = (u128, u128)> {
    let mut next = Some(lo);
    std::iter::from_fn(move || {
        let lo = next?;
        // The largest block that begins here and ends within the interval.
        let mut size = if lo == 0 { u128::MAX } else { (1_u128 << lo.trailing_zeros()) - 1 };
        while size > hi - lo {
            size >>= 1;
        }
        next = (lo + size < hi).then(|| lo + size + 1);
        Some((lo, lo + size))
    })
}

/// Returns the interval as one masked value, if it is an aligned block.
fn block(interval: &Interval) -> Option<Constraint> {
    let differ = interval.lo ^ interval.hi;
    let aligned = differ & differ.wrapping_add(1) == 0 && interval.lo & differ == 0;
    aligned.then(|| Constraint::masked(interval.field, interval.lo, interval.field.full_mask() & !differ))
}

impl fmt::Display for Cube {
    /// Writes, for example, `ipv4_src=10.0.0.0/8, tcp_dst=22`, without the fields that follow from others.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts: Vec<String> = Vec::new();
        for interval in &self.0 {
            let one = Cube(vec![*interval]);
            parts.push(match interval.field {
                _ if interval.is_whole() => continue,
                SWITCH if interval.lo == interval.hi => format!("switch={:x}", interval.lo),
                SWITCH => format!("switch={:x}..{:x}", interval.lo, interval.hi),
                _ => one.cond().to_string(),
            });
        }
        f.write_str(&if parts.is_empty() { "any packet".to_owned() } else { parts.join(", ") })
    }
}
