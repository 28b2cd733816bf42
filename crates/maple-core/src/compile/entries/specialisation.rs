//! When it pays to specialise an answer.
//!
//! # What
//!
//! For one answer many barriers may be needed, each a rule, that nothing else needs. If it kept only those packets that agree
//! with one of them in some leading bits of a field, barriers that differ there would not be needed for it. It is narrowed
//! where
//!
//! * at least [`FEWEST`] barriers are needed for it, and one for each [`PIECES`] entries of the table: for that many rules a
//!   miss may be spent;
//! * but not more than [`MOST`] of the rules: in a table that is nearly nothing but barriers for this one answer others will
//!   need the same ones;
//! * the bits, [`BITS`] at most, spare half of them;
//! * and if it is on the yes-side of a test, whose barrier takes its place for what it gives up, it finds a level in use above
//!   that. So this makes no level more.
//!
//! Of all such bits those are taken that spare most, where each block of packets that they make, and which may come to have a
//! leaf of its own, counts as a rule.

use maple_wire::{Constraint, Field};

use super::packed::{meet, overlap};
use super::redundancy::Necessity;
use super::{EntryId, EntryState, EntryTable, Verdict};

/// How many barriers must be needed for an answer, and for how many entries of the table there must be one. (Fewer in tests,
/// where tables are small.)
const FEWEST: usize = if cfg!(test) { 2 } else { 32 };
const PIECES: usize = 10;

/// Which part of the rules they may be, in tenths.
const MOST: usize = if cfg!(test) { 9 } else { 4 };

/// How many bits more an answer may state.
const BITS: u32 = 8;

/// How many rules must be spared for so many bits: each block of packets that so many bits make may come to have a leaf. (Less in tests, where
/// tables are small.)
const fn price(bits: u32) -> usize {
    if cfg!(test) { bits as usize } else { 1 << bits }
}

impl EntryTable {
    /// Whether there are so many entries that answers may be narrowed.
    pub(in crate::compile) fn are_many(&self) -> bool {
        self.live > FEWEST
    }

    /// How many barriers must be needed for an answer.
    fn fewest(&self) -> usize {
        FEWEST.max(self.live / PIECES)
    }

    /// Whether a entry yields to so many that it may pay to specialise it.
    pub(in crate::compile) fn is_behind_many(&self, id: EntryId) -> bool {
        self.entry(id).earlier.len() >= self.fewest()
    }

    /// Whether a match overlaps so many entries that it may pay to specialise it.
    pub(in crate::compile) fn overlap_many(&mut self, all: &[Constraint]) -> bool {
        let (mut set, mut count) = (std::mem::take(&mut self.scratch), 0);
        if self.layout.pack(all, &mut set) {
            self.index.overlapping(&self.store, &set, |_| count += 1);
        }
        self.scratch = set;
        count >= self.fewest()
    }

    /// What an answer's packets should have in common besides, if that pays. `stands_for_more`: a barrier takes its place for
    /// the others. `value` says what one of its packets has in a field, `can_be_told` whether the answer can be narrowed so.
    pub(in crate::compile) fn narrower(
        &self,
        id: EntryId,
        stands_for_more: bool,
        value: &dyn Fn(Field) -> Option<u128>,
        can_be_told: &dyn Fn(&Constraint) -> bool,
    ) -> Option<Constraint> {
        if !self.is_reason[id as usize] {
            return None;
        }
        let is_for_it = |other: &EntryId| {
            let is_needed = matches!(self.whys[*other as usize], Necessity::Required(answer) if answer == id);
            is_needed && self.role(*other) == EntryState::Barrier
        };
        let barriers: Vec<EntryId> = self.entry(id).earlier.iter().copied().filter(is_for_it).collect();
        if barriers.len() < self.fewest() || barriers.len() * 10 > self.rule_count() * MOST {
            return None;
        }
        let set = self.store.get(id);
        let (mut block, mut best) = (Vec::new(), None);
        for field in self.layout.all() {
            let Some(value) = value(field) else { continue };
            let stated = self.layout.unpack(set).find(|there| there.field == field).map_or(0, |there| there.mask);
            for bits in 1..=BITS.min(field.bits() - stated.count_ones()) {
                let length = stated.count_ones() + bits;
                let mask = field.full_mask() & !field.full_mask().checked_shr(length).unwrap_or(0);
                let read = Constraint::masked(field, value, mask);
                if stated & !mask != 0 || !self.layout.pack(&[read], &mut block) {
                    break;
                }
                let spared = barriers.iter().filter(|other| !overlap(self.store.get(**other), &block)).count();
                let gain = spared.saturating_sub(price(bits));
                if spared * 2 >= barriers.len()
                    && gain > best.map_or(0, |(most, _)| most)
                    && can_be_told(&read)
                    && (!stands_for_more || self.finds_a_level_above(id, &meet(set, &block)))
                {
                    best = Some((gain, read));
                }
            }
        }
        best.map(|(_, read)| read)
    }

    /// Whether there is a level in use above that of a entry where this part of it could be.
    fn finds_a_level_above(&self, id: EntryId, part: &[u64]) -> bool {
        let spot = self.spot(id);
        let under = |other: &EntryId| {
            let there = self.spot(*other);
            let meets = there.is_placed() && overlap(self.store.get(*other), part);
            // Its answer may not be the one that it will have.
            meets.then(|| there.level + there.says.gap(Verdict::Unexplored))
        };
        let from = self.entry(id).earlier.iter().filter_map(under).max().unwrap_or(0);
        from < spot.level && self.levels.used.range(from..spot.level).next().is_some()
    }

    fn rule_count(&self) -> usize {
        (0..self.entries.len() as EntryId).filter(|id| self.is_rule(*id)).count()
    }
}
