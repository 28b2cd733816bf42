//! The cookies of our rules: which run of the controller made a rule, and for which leaf, plan or label.

use rustc_hash::FxHashMap;

use crate::ids::{DependentId, LeafId};
use crate::labels::LabelTable;

/// The bits that the cookies of all of Maple's rules have in common: their value, and their mask.
pub const OWN_COOKIES: (u64, u64) = (TAG << 56, 0xff << 56);

/// The first byte of our cookies: the letter M of Maple. It distinguishes our rules from those of other programs.
const TAG: u64 = 0x4d;

/// The number that replaces the subject in cookies of the engine's own rules: all 40 bits are set.
const NO_SUBJECT: u64 = 0xff_ffff_ffff;

/// The number that replaces the subject in cookies of rules that copy packets to the controller. No leaf of a shard has
/// it.
const COPY: u64 = 0xff_ffff_fffe;

/// The first of the 32 numbers that replace the subject in cookies of temporary rules, which copy watched packets.
const LIVE: u64 = 0xff_ffff_ffc0;

/// The leaf, plan or label that a rule serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::engine) enum Subject {
    /// A leaf, or the plan of a route.
    Dependent(DependentId),
    /// A label, by its serial number.
    Label(u64),
}

impl From<LeafId> for Subject {
    fn from(leaf: LeafId) -> Subject {
        Subject::Dependent(leaf.into())
    }
}

/// Returns a cookie: 8 bits tag, 16 bits epoch, 40 bits for the subject or what replaces it.
fn cookie(epoch: u16, number: u64) -> u64 {
    TAG << 56 | u64::from(epoch) << 40 | number & NO_SUBJECT
}

/// Returns the cookie of rules that serve the engine itself.
pub(in crate::engine) fn own_cookie(epoch: u16) -> u64 {
    cookie(epoch, NO_SUBJECT)
}

/// Reports whether rules with this cookie serve the engine itself, in this run of the controller or an earlier one.
pub(in crate::engine) fn is_own(cookie: u64) -> bool {
    is_ours(cookie) && cookie & NO_SUBJECT == NO_SUBJECT
}

/// Returns the cookie of the rules of a leaf or plan.
pub(in crate::engine) fn dependent_cookie(epoch: u16, dependent: impl Into<DependentId>) -> u64 {
    cookie(epoch, dependent.into().0)
}

/// Returns the cookie of the rules of a label. `number` is what the label's table has for it
/// ([`LabelTable::of_cookie`] reads it back).
pub(in crate::engine) fn label_cookie(epoch: u16, number: u64) -> u64 {
    cookie(epoch, number)
}

/// Returns the cookie of rules that copy packets to the controller and also forward them.
pub(in crate::engine) fn copy_cookie(epoch: u16) -> u64 {
    cookie(epoch, COPY)
}

/// Reports whether a rule with this cookie copies packets to the controller, for this run of the controller or an
/// earlier one.
pub(in crate::engine) fn is_copy(cookie: u64) -> bool {
    is_ours(cookie) && cookie & NO_SUBJECT == COPY
}

/// Returns the cookie of the temporary rule of a watch. `number` is that of the watch, and less than 32.
pub(in crate::engine) fn live_cookie(epoch: u16, number: u8) -> u64 {
    cookie(epoch, LIVE + u64::from(number))
}

/// Reports whether a rule with this cookie is the temporary one of a watch, of this run of the controller or an earlier
/// one.
pub(in crate::engine) fn is_of_watch(cookie: u64) -> bool {
    is_ours(cookie) && (LIVE..LIVE + 32).contains(&(cookie & NO_SUBJECT))
}

/// Returns the number of the watch whose temporary rule has this cookie in this epoch.
pub(in crate::engine) fn watch_number(epoch: u16, cookie: u64) -> Option<u8> {
    (is_of_watch(cookie) && cookie >> 40 == TAG << 16 | u64::from(epoch))
        .then(|| (cookie & NO_SUBJECT) as u8 - LIVE as u8)
}

/// Cookies of rules that an earlier run of the controller made, and that are right for this one. The switch keeps such
/// rules with their old cookies.
#[derive(Clone, Debug, Default)]
pub(in crate::engine) struct TranslatedCookies(FxHashMap<u64, u64>);

impl TranslatedCookies {
    /// Adds cookies, each with the one that its rules have in this run. A cookie that is known already keeps its
    /// meaning.
    pub fn extend(&mut self, renamed: impl IntoIterator<Item = (u64, u64)>) {
        for (old, new) in renamed {
            self.0.entry(old).or_insert(new);
        }
    }

    /// Returns the cookie that a rule on the switch has in this run.
    pub fn current(&self, cookie: u64) -> u64 {
        self.0.get(&cookie).copied().unwrap_or(cookie)
    }
}

/// Reports whether a rule with this cookie is ours, from this run of the controller or an earlier one.
pub(in crate::engine) fn is_ours(cookie: u64) -> bool {
    cookie & OWN_COOKIES.1 == OWN_COOKIES.0
}

/// Returns the leaf, plan or label that a cookie of this epoch names.
pub(in crate::engine) fn subject_of(epoch: u16, cookie: u64) -> Option<Subject> {
    let number = cookie & NO_SUBJECT;
    let is_ours = cookie >> 40 == TAG << 16 | u64::from(epoch) && number < LIVE;
    let subject = || LabelTable::of_cookie(number).map_or(Subject::Dependent(DependentId(number)), Subject::Label);
    is_ours.then(subject)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::ShardId;

    #[test]
    fn temporary_rules_are_told_from_all_others() {
        for epoch in [0, 7, u16::MAX] {
            for number in 0..32 {
                let cookie = live_cookie(epoch, number);
                assert_eq!((watch_number(epoch, cookie), watch_number(epoch ^ 1, cookie)), (Some(number), None));
                assert!(is_of_watch(cookie) && is_ours(cookie) && !is_copy(cookie));
                assert_eq!(subject_of(epoch, cookie), None);
            }
            let others = [own_cookie(epoch), copy_cookie(epoch), cookie(epoch, LIVE - 1), 0, u64::MAX];
            assert!(others.into_iter().all(|cookie| !is_of_watch(cookie)));
        }
    }

    #[test]
    fn leaves_of_the_last_shard_are_told_from_labels() {
        let last = DependentId((ShardId::MAX_COUNT as u64 - 1) << 32 | 0xffff_ffff);
        assert_eq!(subject_of(7, dependent_cookie(7, last)), Some(Subject::Dependent(last)));
        let past_it = DependentId((ShardId::MAX_COUNT as u64) << 32 | 5);
        assert_eq!(subject_of(7, dependent_cookie(7, past_it)), Some(Subject::Label(5)), "so no shard has this number");
    }
}
