//! The barrier rules that are saved if a leaf keeps only a part of its packets: when that pays, and which part.
//!
//! Many barrier entries may be required because of one forwarding entry, each of them a rule. Suppose that the entry
//! kept only the packets that agree with one of them in some leading bits of a field. Then barrier entries that differ
//! in these bits would not be required because of it. That pays if
//!
//! * enough barrier entries are required because of it, also in proportion to the table: saving that many rules is
//!   worth a miss;
//! * but they are not nearly all rules: other leaves would require the same ones;
//! * a few bits save half of them;
//! * the part finds a level in use. On the yes-side of a test, the test's barrier entry replaces the forwarding entry
//!   for the packets that are given up. So the part must find a level in use above that one. No level is added.
//!
//! Among all such bits, those that save most rules are chosen. Each block of packets that they make counts as a rule,
//! because each may get a leaf of its own. The numbers are in [`Tuning`](crate::compile::tuning::Tuning).

use maple_wire::{Constraint, Field};

use super::EntryTable;
use super::entry_store::{EntryId, EntryVerdict};
use super::levels::UNPLACED;
use super::packed::{meet, overlap};

impl EntryTable {
    /// Reports whether the table is large enough for savings at all.
    pub(in crate::compile) fn is_large(&self) -> bool {
        self.store.len() > self.tuning.specialise_from
    }

    /// Reports whether enough entries take precedence over one for savings to pay.
    pub(in crate::compile) fn yields_to_many(&self, id: EntryId) -> bool {
        self.overlaps.earlier(id).len() >= self.fewest_barriers()
    }

    /// Reports whether enough entries overlap a match for savings to pay.
    pub(in crate::compile) fn overlaps_many(&mut self, all: &[Constraint]) -> bool {
        let mut set = std::mem::take(&mut self.scratch);
        let count = if self.store.pack(all, &mut set) { self.overlaps.count_overlapping(&set) } else { 0 };
        self.scratch = set;
        count >= self.fewest_barriers()
    }

    /// Finds the read that saves most rules if a leaf keeps only the packets that fit it, if that pays. `id` is the
    /// leaf's forwarding entry.
    ///
    /// If `is_yes_side`, the barrier entry of a test replaces that entry for the other packets. `value` is the value of
    /// a field in one of the leaf's packets. `can_be_stated` reports whether the switch can match the leaf's packets
    /// then.
    pub(in crate::compile) fn find_saving_read(
        &self,
        id: EntryId,
        is_yes_side: bool,
        value: &dyn Fn(Field) -> Option<u128>,
        can_be_stated: &dyn Fn(&Constraint) -> bool,
    ) -> Option<Constraint> {
        let barriers = self.necessities.required_by(&self.store, &self.overlaps, id);
        let is_most = || barriers.len() * 100 > self.rule_count() * self.tuning.specialise_max_percent;
        if barriers.len() < self.fewest_barriers() || is_most() {
            return None;
        }
        let set = self.store.matching(id);
        let (mut block, mut best) = (Vec::new(), None);
        for field in self.store.fields() {
            let Some(value) = value(field) else { continue };
            let stated = self
                .store
                .unpack(set)
                .find(|constraint| constraint.field == field)
                .map_or(0, |constraint| constraint.mask);
            for bits in 1..=self.tuning.specialise_max_bits.min(field.bits() - stated.count_ones()) {
                let length = stated.count_ones() + bits;
                let mask = field.full_mask() & !field.full_mask().checked_shr(length).unwrap_or(0);
                let read = Constraint::masked(field, value, mask);
                if stated & !mask != 0 || !self.store.pack(&[read], &mut block) {
                    break;
                }
                let saved = barriers.iter().filter(|other| !overlap(self.store.matching(**other), &block)).count();
                let gain = saved.saturating_sub((1 << bits) >> self.tuning.specialise_discount);
                if saved * 2 >= barriers.len()
                    && gain > best.map_or(0, |(most, _)| most)
                    && can_be_stated(&read)
                    && (!is_yes_side || self.has_a_level_above(id, &meet(set, &block)))
                {
                    best = Some((gain, read));
                }
            }
        }
        best.map(|(_, read)| read)
    }

    /// Returns the minimum number of barrier entries that must be required because of a forwarding entry.
    fn fewest_barriers(&self) -> usize {
        self.tuning.specialise_from.max(self.store.len() / self.tuning.specialise_entries_per_barrier)
    }

    /// Reports whether there is a level in use, above that of an entry, where a part of the entry could be.
    fn has_a_level_above(&self, id: EntryId, part: &[u64]) -> bool {
        let below = |other: &EntryId| {
            let level = self.levels.level_of(*other);
            let meets = level != UNPLACED && overlap(self.store.matching(*other), part);
            // The verdict of the part is not known yet, so it is told apart from all.
            meets.then(|| level + self.store.verdict(*other).gap(EntryVerdict::Unexplored))
        };
        let from = self.overlaps.earlier(id).iter().filter_map(below).max().unwrap_or(0);
        self.levels.has_between(from, self.levels.level_of(id))
    }

    fn rule_count(&self) -> usize {
        self.store.ids().filter(|id| self.necessities.is_rule(&self.store, *id)).count()
    }
}
