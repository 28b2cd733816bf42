//! Asks switches for the counters of single rules, for people who want to know them at once.
//!
//! A question names a rule by its table, match and cookie, so a switch of thousands of rules answers at once. A
//! question that can't be answered (the connection is busy, the switch refuses, too many questions are open) gets an
//! answer without counters.

use maple_wire::msg::stats::{FlowStatsRequest, ReplyBody, RequestBody, StatsReply, StatsRequest};
use maple_wire::{Dpid, Message, Version};

use super::Switches;
use crate::engine::context::Context;
use crate::engine::messages::event::Effect;
use crate::engine::one_switch::Switch;
use crate::engine::one_switch::counters::rule_counts::OpenCount;
use crate::rule::Rule;
use crate::update::key_of;

/// The maximum number of questions that are open at a switch. Chosen: people ask one at a time, and a program that asks
/// more gets the answer that the switch is busy.
const MAX_OPEN: usize = 64;

impl Switches {
    /// Asks a switch what a rule has counted. The answer carries the asker's `token`.
    pub fn count_rule(&mut self, ctx: &mut Context, dpid: Dpid, token: u64, table: u8, rule: &Rule) {
        let open = |switches: &mut Switches| {
            let is_free =
                |switch: &Switch| !switch.is_unreachable() && switch.counters.rule_counts.open.len() < MAX_OPEN;
            let switch = switches.get_mut(&dpid).filter(|switch| is_free(switch))?;
            let request =
                FlowStatsRequest { table_id: table, matching: rule.matching.clone(), ..FlowStatsRequest::all() };
            // 1.0 can't ask by cookie.
            let request = match switch.version() {
                Version::Of10 => request,
                Version::Of13 => FlowStatsRequest { cookie: rule.cookie, cookie_mask: u64::MAX, ..request },
            };
            let xid = switch.tables.take_xid();
            switch.counters.rule_counts.open.insert(xid, OpenCount { token, table, entry: key_of(rule), found: None });
            let message = Message::StatsRequest(StatsRequest::new(RequestBody::Flow(request)));
            Some(Effect::Poll { dpid, xid, message })
        };
        let effect = open(self).unwrap_or(Effect::RuleCounted { token, count: None });
        ctx.add_after_rules(effect);
    }

    /// Handles an answer, or a part of it.
    pub fn on_rule_counted(&mut self, ctx: &mut Context, dpid: Dpid, xid: u32, reply: &StatsReply) {
        if let (Some(switch), ReplyBody::Flow(flows)) = (self.get_mut(&dpid), &reply.body) {
            let has_one_table = switch.version() == Version::Of10;
            switch.counters.rule_counts.take(xid, flows, has_one_table);
        }
        if !reply.more() {
            self.end_rule_count(ctx, dpid, xid);
        }
    }

    /// Ends a question, and answers the asker with what was found.
    pub fn end_rule_count(&mut self, ctx: &mut Context, dpid: Dpid, xid: u32) {
        let switch = self.get_mut(&dpid);
        if let Some(question) = switch.and_then(|switch| switch.counters.rule_counts.open.remove(&xid)) {
            let OpenCount { token, found, .. } = question;
            ctx.add_after_rules(Effect::RuleCounted { token, count: found });
        }
    }
}
