//! The tables of the switches: read again, taken over, marked for an update.

use std::collections::BTreeSet;

use maple_wire::{Constraint, Dpid};

use super::Switches;
use crate::engine::context::Context;
use crate::engine::messages::event::{Effect, Event, ReportedRule};
use crate::engine::one_switch::Switch;
use crate::engine::one_switch::cookies::{is_ours, watch_number};
use crate::engine::one_switch::tables::Requests;
use crate::rule::Rule;
use crate::update::{EntryKey, entry_key};

impl Switches {
    /// Asks the switch which rules it has. Until it answers, nothing is sent.
    pub fn reread(&mut self, ctx: &mut Context, dpid: Dpid) {
        let mut requests = Requests::new();
        let Some(switch) = self.known_mut(dpid) else { return };
        if switch.tables.begin_reread(&mut requests) {
            switch.request_in_turn(ctx, requests);
            switch.send_in_turn(ctx, [Effect::ReadRules { dpid }]);
        }
    }

    /// Makes these rules the ones that a switch is known to have.
    pub fn take_reported_rules(&mut self, ctx: &mut Context, dpid: Dpid, rules: Vec<ReportedRule>) {
        let Some(switch) = self.known_mut(dpid) else { return };
        // A temporary rule of this run is looked after elsewhere. One of an earlier run is deleted.
        let epoch = ctx.options.epoch;
        let is_temporary = |cookie| watch_number(epoch, cookie).is_some();
        let (ours, others): (Vec<_>, Vec<_>) = rules.into_iter().partition(|rule| is_ours(rule.cookie));
        let sets = switch.tables.action_sets();
        let rules = ours.into_iter().filter(|rule| !is_temporary(rule.cookie)).map(|rule| {
            let ReportedRule { table_id, priority, cookie, matching, instructions } = rule;
            let instructions = sets.of_switch(table_id, instructions);
            (table_id, Rule { priority, matching, instructions: instructions.into(), cookie })
        });
        let can_say = |rule: &Rule| {
            let all: Vec<Constraint> = rule.matching.constraints().copied().collect();
            switch.capabilities().can_match_all(&all)
        };
        let (mut reached, mut unreached) = (Vec::new(), Vec::new());
        for (table, rule) in rules {
            match switch.table_of_report(table) {
                Some(table) => reached.push((table, rule)),
                // A rule that its version can't express can't be deleted, and only takes space.
                None if can_say(&rule) => unreached.push(rule),
                None => {}
            }
        }
        switch.tables.read(reached.into_iter());
        let others: BTreeSet<EntryKey> = others.iter().map(|rule| entry_key(rule.priority, &rule.matching)).collect();
        switch.tables.set_unreached(unreached, |key| others.contains(key));
        switch.translate_cookies();
        let Switch { room, tables, .. } = &mut *switch;
        room.capacity.on_tables_read(ctx.now(), |table| tables.count(Some(table)));
    }

    /// Reports whether a switch that is being restored has not reported its rules yet.
    pub fn awaits_earlier_rules(&self, dpid: Dpid) -> bool {
        let restoring = self.get(&dpid).and_then(|switch| switch.restoring.as_ref());
        restoring.is_some_and(|restoring| !restoring.is_confirmed())
    }

    /// Returns the first switch whose rules are being read, or whose leaves of an earlier run are being restored.
    pub fn first_unread(&self) -> Option<Dpid> {
        let is_open = |switch: &Switch| !switch.tables.is_known() || switch.restoring.is_some();
        self.values().find(|switch| is_open(switch)).map(|switch| switch.dpid())
    }

    /// Returns the answers to all open barrier requests.
    pub fn unanswered(&self) -> impl Iterator<Item = Event> {
        let replies = |dpid: Dpid, xids: Vec<u32>| xids.into_iter().map(move |xid| Event::BarrierReply { dpid, xid });
        self.values().flat_map(move |switch| replies(switch.dpid(), switch.tables.unanswered()))
    }
}
