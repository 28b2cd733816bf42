//! The candidate policy's look-ups that take the place of those before them.
//!
//! An access list that was edited has tables with the names of those before, and other rows. While the policy that has
//! it is tried, its runs record their look-ups in the registers that the old ones have. Values that both have are of
//! the same classes, so leaves for these stay. When the policy is adopted, the new rows take the place of the old ones,
//! and the keys whose values differ change as they do in any table.

use super::entry::LookUpEntry;
use super::{LookUpNumber, Registers};
use crate::look_ups::LookUp;

impl Registers {
    /// Returns the number of the look-up whose place this one is to take.
    pub(super) fn position_before(&self, look_up: &LookUp) -> Option<usize> {
        let (_, index) = self.successors.iter().find(|(of, _)| of == look_up)?;
        let before = &self.look_ups[*index];
        (before.is_in_use() && before.look_up.is_succeeded_by(look_up)).then_some(*index)
    }

    /// Lets the candidate policy's look-ups take over the registers of look-ups in the same table with other rows.
    /// Their values have the same classes. Forgets what was said of another policy. Returns whether that changes
    /// anything.
    pub fn announce(&mut self, coming: &[LookUp]) -> bool {
        let before = std::mem::take(&mut self.successors);
        for look_up in coming {
            let has_place = |entry: &LookUpEntry| entry.is_in_use() && entry.look_up.is_succeeded_by(look_up);
            let goes = |entry: &LookUpEntry| has_place(entry) && !coming.contains(&entry.look_up);
            let mut all = (0..self.look_ups.len()).filter(|index| goes(&self.look_ups[*index]));
            let is_alone = coming.iter().filter(|other| other.is_succeeded_by(look_up)).count() == 0;
            if let (Some(index), None, true, None) = (all.next(), all.next(), is_alone, self.position(look_up)) {
                self.successors.push((look_up.clone(), index));
            }
        }
        self.successors != before
    }

    /// Puts the look-ups that were announced in the place of those before them, which nobody asks any more. Returns
    /// them with their numbers.
    pub fn succeed(&mut self) -> Vec<(LookUpNumber, LookUp)> {
        let mut succeeded = Vec::new();
        for (look_up, _) in self.successors.clone() {
            if let Some(index) = self.position_before(&look_up) {
                self.look_ups[index].look_up = look_up.clone();
                succeeded.push((LookUpNumber(index), look_up));
            }
        }
        self.successors.clear();
        succeeded
    }
}
