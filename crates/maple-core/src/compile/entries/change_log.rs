//! From entries to rules, and what has changed in them since that was last asked.

use std::cmp::Ordering;

use maple_wire::{Constraint, Match, MatchField};

use super::actions::ActionId;
use super::packed::Row;
use super::{EntryId, EntryTable, Verdict};
use crate::rule::Rule;
use crate::tree::LeafId;
use crate::update::Change;

/// What distinguishes the rules that a entry may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Taken {
    priority: u16,
    /// `None` is to the controller.
    action: Option<ActionId>,
    leaf: Option<LeafId>,
}

impl EntryTable {
    /// The rules as they are, by falling priority.
    pub(in crate::compile) fn rules(&self, cookie: &dyn Fn(Option<LeafId>) -> u64) -> Vec<Rule> {
        let ids = (0..self.entries.len() as EntryId).filter(|id| self.entries[*id as usize].is_some());
        let rule = |id| Some(self.rule(self.store.get(id), self.wanted(id)?, cookie));
        let mut rules: Vec<Rule> = ids.filter_map(rule).collect();
        let key = |rule: &Rule| (std::cmp::Reverse(rule.priority), rule.matching.constraints().copied().collect());
        rules.sort_by_cached_key(|rule| -> (_, Vec<Constraint>) { key(rule) });
        rules
    }

    /// What has changed since this was last asked, in an order whose every prefix is safe.
    pub(in crate::compile) fn take_changes(&mut self, cookie: &dyn Fn(Option<LeafId>) -> u64) -> Vec<Change> {
        if self.changed.is_empty() && self.gone.items().is_empty() {
            return Vec::new();
        }
        if let Some((id, wanted)) = self.take_only_addition() {
            self.levels.send(1);
            return vec![Change::Add(self.rule(self.store.get(id), wanted, cookie))];
        }
        let (mut old, mut new) = (std::mem::take(&mut self.gone), std::mem::take(&mut self.came));
        let mut modified = std::mem::take(&mut self.modified);
        let mut changed = std::mem::take(&mut self.changed);
        for id in changed.drain(..) {
            // A entry that has gone may have left its number to another.
            let Some(entry) = self.entries[id as usize].as_mut().filter(|entry| entry.changed) else { continue };
            entry.changed = false;
            let wanted = self.wanted(id);
            let taken = std::mem::replace(&mut self.piece_mut(id).taken, wanted);
            if taken == wanted {
                continue;
            }
            let set = self.store.get(id);
            wanted.into_iter().for_each(|wanted| self.actions.hold(wanted.says()));
            match (taken, wanted) {
                // No other entry has or had this entry.
                (Some(taken), Some(wanted)) if taken.priority == wanted.priority => {
                    if self.differs(taken, wanted, cookie) {
                        modified.push(set, wanted);
                    }
                    self.actions.release(taken.says());
                }
                _ => {
                    wanted.into_iter().for_each(|wanted| new.push(set, wanted));
                    taken.into_iter().for_each(|taken| old.push(set, taken));
                }
            }
        }
        self.changed = changed;
        let (mut was, mut is) = std::mem::take(&mut self.places);
        let changes = self.changes_between((&old, &mut was), (&new, &mut is), &mut modified, cookie);
        self.places = (was, is);
        old.items().iter().for_each(|taken| self.actions.release(taken.says()));
        old.clear();
        new.clear();
        modified.clear();
        (self.gone, self.came, self.modified) = (old, new, modified);
        self.levels.send(changes.len());
        changes
    }

    /// What has changed, if that is one entry alone, which had no rule and has one now.
    fn take_only_addition(&mut self) -> Option<(EntryId, Taken)> {
        let [id] = self.changed[..] else { return None };
        if !self.gone.items().is_empty() {
            return None;
        }
        self.entries[id as usize].as_ref().filter(|entry| entry.changed && entry.taken.is_none())?;
        let wanted = self.wanted(id)?;
        let entry = self.piece_mut(id);
        (entry.changed, entry.taken) = (false, Some(wanted));
        self.actions.hold(wanted.says());
        self.changed.clear();
        Some((id, wanted))
    }

    /// What [`crate::update::changes`] says of two rows of rules, each made into a [`Rule`] once and only if it is sent.
    /// Those that are `modified` besides are in neither. Rules of one priority come in an order that only their matches decide. The
    /// places are kept for their memory.
    fn changes_between(
        &self,
        (old, was): (&Row<Taken>, &mut Vec<EntryPlace>),
        (new, is): (&Row<Taken>, &mut Vec<EntryPlace>),
        modified: &mut Row<Taken>,
        cookie: &dyn Fn(Option<LeafId>) -> u64,
    ) -> Vec<Change> {
        let taken = |row: &Row<Taken>, place: EntryPlace| row.items()[place.at()];
        let rule = |row: &Row<Taken>, place: EntryPlace| self.rule(row.get(place.at()), taken(row, place), cookie);
        by_entry(old, was);
        by_entry(new, is);
        let mut changes = Vec::with_capacity(was.len() + is.len() + modified.items().len());
        // From the last entries on; those of `was` that stay are struck out.
        let (mut olds, mut news) = (was.len(), is.len());
        while news > 0 {
            let after = is[news - 1];
            let before = olds.checked_sub(1).map(|last| was[last]);
            let order = before.map_or(Ordering::Less, |before| before.entry(old).cmp(&after.entry(new)));
            if order == Ordering::Less {
                changes.push(Change::Add(rule(new, after)));
            }
            if let (Ordering::Equal, Some(before)) = (order, before) {
                was[olds - 1] = EntryPlace::NONE;
                if self.differs(taken(old, before), taken(new, after), cookie) {
                    modified.push(new.get(after.at()), taken(new, after));
                }
            }
            olds -= usize::from(order != Ordering::Less);
            news -= usize::from(order != Ordering::Greater);
        }
        by_entry(modified, is);
        changes.extend(is.iter().map(|place| Change::Modify(rule(modified, *place))));
        let gone = was.iter().filter(|place| **place != EntryPlace::NONE);
        changes.extend(gone.map(|place| Change::Delete(rule(old, *place))));
        changes
    }

    /// Whether two rules of one entry are not the same.
    fn differs(&self, old: Taken, new: Taken, cookie: &dyn Fn(Option<LeafId>) -> u64) -> bool {
        let does = |taken: Taken| self.actions.get(taken.action);
        old.action != new.action && does(old) != does(new) || cookie(old.leaf) != cookie(new.leaf)
    }

    /// The rule that a entry should have.
    fn wanted(&self, id: EntryId) -> Option<Taken> {
        let entry = self.entry(id);
        let spot = self.spot(id);
        let action = match spot.says {
            Verdict::Forward(action) => Some(action),
            Verdict::Unexplored | Verdict::PartiallyExplored => None,
        };
        let is_rule = self.is_rule(id) && spot.is_placed() && self.levels.has(spot.level);
        is_rule.then(|| Taken { priority: self.levels.priority(spot.level), action, leaf: entry.leaf })
    }

    fn rule(&self, set: &[u64], taken: Taken, cookie: &dyn Fn(Option<LeafId>) -> u64) -> Rule {
        let Taken { priority, action, leaf } = taken;
        let instructions = self.actions.get(action).clone();
        let mut fields = Vec::with_capacity(self.layout.fields());
        fields.extend(self.layout.unpack(set).map(MatchField::Known));
        Rule { priority, matching: Match { fields }, instructions, cookie: cookie(leaf) }
    }
}

/// Where a rule stands in a row, behind what comes first in the order of entries: the priority, and some bits that the set is
/// mixed to. One number, since those are sorted fast.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct EntryPlace(u64);

impl EntryPlace {
    /// In place of the place of a rule that is not deleted.
    const NONE: EntryPlace = EntryPlace(u64::MAX);

    fn new(at: usize, row: &Row<Taken>) -> EntryPlace {
        let mixed = row.get(at).iter().fold(0, |mixed: u64, word| (mixed.rotate_left(5) ^ word).wrapping_mul(MIX));
        EntryPlace(u64::from(row.items()[at].priority) << 48 | mixed >> 48 << 32 | at as u64)
    }

    fn at(self) -> usize {
        self.0 as u32 as usize
    }

    /// What comes first in the order of entries, as far as it is in the number.
    fn begin(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// What makes two rules the same entry, to be compared.
    fn entry(self, row: &Row<Taken>) -> (u32, &[u64]) {
        (self.begin(), row.get(self.at()))
    }
}

/// Odd, with bits all over it.
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

/// The places of rules in a row, in ascending order of their entries.
fn by_entry(row: &Row<Taken>, places: &mut Vec<EntryPlace>) {
    places.clear();
    places.extend((0..row.items().len()).map(|at| EntryPlace::new(at, row)));
    places.sort_unstable();
    for alike in places.chunk_by_mut(|a, b| a.begin() == b.begin()).filter(|alike| alike.len() > 1) {
        alike.sort_by_key(|place| place.entry(row));
    }
}

impl Taken {
    /// Its answer, as far as that is held.
    pub(super) fn says(self) -> Verdict {
        self.action.map_or(Verdict::Unexplored, Verdict::Forward)
    }
}
