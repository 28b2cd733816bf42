//! Finds which rules of an earlier run (`engine/reruns/restore.rs`) are right but for their cookies, and so which
//! labels are ready already.

use super::shared_table::PendingRules;
use super::{Tables, Waiter};
use crate::rule::Rule;
use crate::update::key_of;

impl Tables {
    /// Returns the labels that wait for the next update.
    pub fn labels_to_confirm(&self) -> Vec<u64> {
        let serials = |waiter: &Waiter| if let Waiter::Labels(serials) = waiter { serials.clone() } else { Vec::new() };
        self.sent.waiters.iter().flat_map(serials).collect()
    }

    /// Removes these labels from those that wait for the next update.
    pub fn confirm_labels(&mut self, ready: &[u64]) {
        for waiter in &mut self.sent.waiters {
            if let Waiter::Labels(serials) = waiter {
                serials.retain(|serial| !ready.contains(serial));
            }
        }
        self.sent.waiters.retain(|waiter| !matches!(waiter, Waiter::Labels(serials) if serials.is_empty()));
    }

    /// Reports whether the switch has the instructions of a rule at its priority and match, whatever the cookie is.
    /// `None` if it has no rule there.
    pub fn has_but_for_cookie(&self, table: u8, rule: &Rule) -> Option<bool> {
        let installed_rule = self.installed.get(&table)?.get(&key_of(rule))?;
        Some(installed_rule.has_instructions(&rule.instructions))
    }

    /// Reports whether the switch has all of the engine's own rules, whatever their cookies are.
    pub fn has_own_rules(&self) -> bool {
        let mut own = self.own.iter().flat_map(|(table, rules)| rules.iter().map(move |rule| (*table, rule)));
        !self.own.is_empty() && own.all(|(table, rule)| self.has_but_for_cookie(table, rule) == Some(true))
    }

    /// Returns the cookies of the rules that the switch has.
    pub fn cookies(&self) -> impl Iterator<Item = u64> {
        self.installed
            .values()
            .flat_map(|installed| installed.keys().filter_map(|key| Some(installed.get(key)?.cookie)))
    }

    /// Returns the cookies of rules that are right but for them, each with the cookie that the rule is to have.
    pub fn cookies_to_rename(&self) -> Vec<(u64, u64)> {
        let of_table = |(table, pending): (&u8, &PendingRules)| {
            self.installed.get(table).map(|installed| pending.cookies_to_rename(installed)).unwrap_or_default()
        };
        self.pending.iter().flat_map(of_table).collect()
    }

    /// Lets all rules be compared with those of the switch again, those of keys before the others.
    pub fn compare_again(&mut self) {
        self.reading.is_synchronised = false;
    }

    /// Replaces the cookies of all rules that the switch has by those of this run.
    pub fn translate_cookies(&mut self, translate: impl Fn(u64) -> u64) {
        self.installed.values_mut().for_each(|installed| installed.translate_cookies(&translate));
    }
}
