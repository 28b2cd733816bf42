//! Asks switches for the counters of single rules, for people who want to know them at once.
//!
//! A question names a rule by its table, match and cookie, so a switch of thousands of rules answers at once. A
//! question that can't be answered (the connection is busy, the switch refuses, too many questions are open) gets an
//! answer without counters.

use std::collections::BTreeMap;

use maple_wire::msg::stats::{FlowStats, FlowStatsRequest, ReplyBody, RequestBody, StatsReply, StatsRequest};
use maple_wire::{Dpid, Message, Version};

use super::Effect;
use super::context::Context;
use super::polls::RuleCount;
use super::switch::Switch;
use super::switches::Switches;
use crate::rule::Rule;
use crate::update::{EntryKey, entry_key, key_of};

/// The maximum number of questions that are open at a switch.
const MOST_OPEN: usize = 64;

/// The open questions to a switch.
#[derive(Debug, Default)]
pub(super) struct RuleCounts {
    /// The questions by transaction id, each with the asker's token, and the rule's table and entry.
    open: BTreeMap<u32, Question>,
}

#[derive(Debug)]
struct Question {
    token: u64,
    table: u8,
    entry: EntryKey,
    found: Option<RuleCount>,
}

impl RuleCounts {
    /// Reports whether the answer to this request is awaited here.
    pub fn awaits(&self, xid: u32) -> bool {
        self.open.contains_key(&xid)
    }

    /// Adds a part of the answer to this request.
    fn take(&mut self, xid: u32, flows: &[FlowStats], has_one_table: bool) {
        let Some(question) = self.open.get_mut(&xid) else { return };
        let is_it = |flow: &&FlowStats| {
            (has_one_table || flow.table_id == question.table)
                && entry_key(flow.priority, &flow.matching) == question.entry
        };
        if let Some(flow) = flows.iter().find(is_it) {
            let FlowStats { cookie, packet_count: packets, byte_count: bytes, .. } = *flow;
            question.found = Some(RuleCount { cookie, packets, bytes });
        }
    }
}

impl RuleCounts {
    /// Removes all questions, and returns the askers' tokens.
    pub fn take_open(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.open).into_values().map(|question| question.token).collect()
    }
}

impl Switches {
    /// Asks a switch what a rule has counted. The answer carries the asker's `token`.
    pub(super) fn count_rule(&mut self, ctx: &mut Context, dpid: Dpid, token: u64, table: u8, rule: &Rule) {
        let open = |switches: &mut Switches| {
            let is_free =
                |switch: &Switch| switch.unreachable.is_none() && switch.counters.rule_counts.open.len() < MOST_OPEN;
            let switch = switches.get_mut(&dpid).filter(|switch| is_free(switch))?;
            let request =
                FlowStatsRequest { table_id: table, matching: rule.matching.clone(), ..FlowStatsRequest::all() };
            // 1.0 can't ask by cookie.
            let request = match switch.version() {
                Version::Of10 => request,
                Version::Of13 => FlowStatsRequest { cookie: rule.cookie, cookie_mask: u64::MAX, ..request },
            };
            let xid = switch.tables.take_xid();
            switch.counters.rule_counts.open.insert(xid, Question { token, table, entry: key_of(rule), found: None });
            let message = Message::StatsRequest(StatsRequest::new(RequestBody::Flow(request)));
            Some(Effect::Poll { dpid, xid, message })
        };
        let effect = open(self).unwrap_or(Effect::RuleCounted { token, count: None });
        ctx.after.push(effect);
    }

    /// Handles an answer, or a part of it.
    pub(super) fn rule_count_answered(&mut self, ctx: &mut Context, dpid: Dpid, xid: u32, reply: &StatsReply) {
        if let (Some(switch), ReplyBody::Flow(flows)) = (self.get_mut(&dpid), &reply.body) {
            let has_one_table = switch.version() == Version::Of10;
            switch.counters.rule_counts.take(xid, flows, has_one_table);
        }
        if !reply.more() {
            self.end_rule_count(ctx, dpid, xid);
        }
    }

    /// Ends a question, and answers the asker with what was found.
    pub(super) fn end_rule_count(&mut self, ctx: &mut Context, dpid: Dpid, xid: u32) {
        let switch = self.get_mut(&dpid);
        if let Some(question) = switch.and_then(|switch| switch.counters.rule_counts.open.remove(&xid)) {
            let Question { token, found, .. } = question;
            ctx.after.push(Effect::RuleCounted { token, count: found });
        }
    }
}
