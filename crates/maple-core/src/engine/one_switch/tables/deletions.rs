//! Deletes rules that a switch has reported and that nothing wants, by their cookies.
//!
//! A rule may be another one than its text says. Open vSwitch (3.1) keeps a rule for untagged packets that was made in
//! OpenFlow 1.0 as another rule than one made in 1.3, and reports both alike in 1.3. There a strict deletion with the
//! match as it was reported deletes nothing. So in 1.3, a rule that was not made by what was sent since the last
//! reading is deleted by its exact cookie, with all that its match covers. If a rule that is to stay has the same
//! cookie and is covered, the deletion is strict after all. An audit finds what is left. If what is covered is to be
//! deleted too, its turn may come later, after that of rules which it shields. Then the deletion is strict in its turn,
//! and is made again by cookie after all others.
//!
//! OpenFlow 1.0 cannot select rules by cookie, and has one table. If a switch had several in another version, its rules
//! in the others are not reached, but take space. A deletion in 1.0 is for all tables, so it also takes a rule of the
//! first one that has the same priority and match: that one is sent again. Rules that a deletion in 1.0 does not take
//! for another reason stay there.

use maple_wire::Version;
use maple_wire::msg::{FlowMod, FlowModCommand};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{Requests, Tables};
use crate::engine::one_switch::action_sets::ActionSets;
use crate::ids::Time;
use crate::rule::Rule;
use crate::update::{Change, EntryKey, key_of};

/// The maximum number of rules with one cookie that are deleted by it. If there are more, they are deleted strictly.
/// Chosen: each deletion is compared with all others of its cookie.
const MAX_OF_ONE_COOKIE: usize = 64;

/// The number of the only table of a layout with one table (1.3 §5.1).
const FIRST_TABLE: u8 = 0;

/// The cookies by which entries are deleted, by table.
pub(super) type Cookies = FxHashMap<(u8, EntryKey), u64>;

/// The deletions of an update that are made by cookie.
#[derive(Debug, Default)]
pub(super) struct ByCookie {
    /// The deletions that take nothing else, in their turn.
    pub in_turn: Cookies,
    /// The deletions that would also take rules whose turn comes later. They are strict in their turn, and made again
    /// by cookie in the end.
    pub at_last: Cookies,
}

/// Another rule with a cookie: its entry, and whether it is to be deleted.
type SameCookieRule = (EntryKey, bool);

impl Tables {
    /// Selects the deletions among these changes that are made by cookie. All others are strict.
    pub(super) fn deletions_by_cookie(&self, changes: &[(u8, Change)]) -> ByCookie {
        let mut by_cookie = ByCookie::default();
        if !self.reading.is_after_reading || self.version == Version::Of10 {
            return by_cookie;
        }
        let mut deleted = Cookies::default();
        for (table, change) in changes {
            let Change::Delete(rule) = change else { continue };
            let key = key_of(rule);
            if let Some(installed_rule) = self.installed.get(table).and_then(|installed| installed.get(&key)) {
                deleted.insert((*table, key), installed_rule.reported);
            }
        }
        let others = self.with_cookies(changes, &deleted);
        for (at, cookie) in deleted {
            let of_cookie = others.get(&(at.0, cookie)).map_or(&[][..], Vec::as_slice);
            if of_cookie.len() > MAX_OF_ONE_COOKIE {
                continue;
            }
            let matching = at.1.matching();
            let mut covered = of_cookie.iter().filter(|(key, _)| *key != at.1 && matching.covers(&key.matching()));
            match (covered.clone().next().is_some(), covered.all(|(_, is_deleted)| *is_deleted)) {
                (false, _) => drop(by_cookie.in_turn.insert(at, cookie)),
                (true, true) => drop(by_cookie.at_last.insert(at, cookie)),
                (true, false) => {}
            }
        }
        by_cookie
    }

    /// Returns the rules that have one of these cookies, by table and cookie.
    fn with_cookies(&self, changes: &[(u8, Change)], deleted: &Cookies) -> FxHashMap<(u8, u64), Vec<SameCookieRule>> {
        let named: FxHashSet<(u8, u64)> = deleted.iter().map(|((table, _), cookie)| (*table, *cookie)).collect();
        let mut all: FxHashMap<(u8, u64), Vec<SameCookieRule>> = FxHashMap::default();
        if named.is_empty() {
            return all;
        }
        for (table, installed) in &self.installed {
            for key in installed.keys() {
                let cookie = installed.get(key).map(|installed_rule| installed_rule.reported);
                if let Some(of) = cookie.map(|cookie| (*table, cookie)).filter(|of| named.contains(of)) {
                    let is_deleted = deleted.contains_key(&(*table, key.clone()));
                    all.entry(of).or_default().push((key.clone(), is_deleted));
                }
            }
        }
        for (table, change) in changes {
            if let Change::Add(rule) | Change::Modify(rule) = change
                && named.contains(&(*table, rule.cookie))
            {
                all.entry((*table, rule.cookie)).or_default().push((key_of(rule), false));
            }
        }
        all
    }

    /// Sets the rules of an earlier layout that the switch has, which packets don't reach. `has_other`: somebody else
    /// has a rule at an entry, which a deletion would take too.
    pub fn set_unreached(&mut self, rules: Vec<Rule>, has_other: impl Fn(&EntryKey) -> bool) {
        let keyed = rules.into_iter().map(|rule| (key_of(&rule), rule));
        self.deletions.unreached = keyed.filter(|(key, _)| !has_other(key)).collect();
    }

    /// Deletes the rules that packets don't reach. Returns whether there were any.
    pub(super) fn delete_unreached(&mut self, now: Time, out: &mut Requests) -> bool {
        let mut unreached = std::mem::take(&mut self.deletions.unreached);
        unreached.retain(|key, _| !self.deletions.refused.has(FIRST_TABLE, key));
        let has_any = !unreached.is_empty();
        let deletions = unreached.into_values().map(|rule| (FIRST_TABLE, Change::Delete(rule)));
        self.send_changes(now, deletions.collect(), out);
        has_any
    }
}

/// Returns the message that makes a change in a table. The switch reports when the rule is gone.
pub(super) fn flow_mod(table: u8, change: &Change, cookies: &Cookies, sets: &ActionSets) -> FlowMod {
    let mut flow_mod = change.flow_mod(table);
    if !matches!(change, Change::Delete(_)) {
        flow_mod.instructions = sets.to_switch(table, flow_mod.instructions);
        flow_mod.flags |= FlowMod::SEND_FLOW_REM;
    } else if !cookies.is_empty()
        && let Some(cookie) = cookies.get(&(table, key_of(change.rule())))
    {
        flow_mod.command = FlowModCommand::Delete;
        (flow_mod.cookie, flow_mod.cookie_mask) = (*cookie, u64::MAX);
    }
    flow_mod
}

/// Returns the deletions among these changes that are made again by these cookies.
pub(super) fn again(changes: &[(u8, Change)], cookies: &Cookies) -> Vec<(u8, Change)> {
    if cookies.is_empty() {
        return Vec::new();
    }
    changes.iter().filter(|(table, change)| cookies.contains_key(&(*table, key_of(change.rule())))).cloned().collect()
}
