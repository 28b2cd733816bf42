//! The open questions for the counters of single rules.

use std::collections::BTreeMap;

use maple_wire::msg::stats::FlowStats;

use crate::engine::messages::event::RuleCount;
use crate::engine::tools::expected::Expected;
use crate::update::{EntryKey, entry_key};

/// The open questions to a switch.
#[derive(Debug, Default)]
pub(in crate::engine) struct RuleCounts {
    /// The questions by transaction id, each with the asker's token, and the rule's table and entry.
    pub open: BTreeMap<u32, OpenCount>,
}

#[derive(Debug)]
pub(in crate::engine) struct OpenCount {
    pub token: u64,
    pub table: u8,
    pub entry: EntryKey,
    pub found: Option<RuleCount>,
}

impl RuleCounts {
    /// Reports whether the answer to this request is awaited here.
    pub fn awaits(&self, xid: u32) -> bool {
        self.open.contains_key(&xid)
    }

    /// Adds a part of the answer to this request.
    pub fn take(&mut self, xid: u32, flows: &[FlowStats], has_one_table: bool) {
        let Some(question) = self.open.get_mut(&xid).expected() else { return };
        let is_asked_rule = |flow: &&FlowStats| {
            (has_one_table || flow.table_id == question.table)
                && entry_key(flow.priority, &flow.matching) == question.entry
        };
        if let Some(flow) = flows.iter().find(is_asked_rule) {
            let FlowStats { cookie, packet_count: packets, byte_count: bytes, .. } = *flow;
            question.found = Some(RuleCount { cookie, packets, bytes });
        }
    }

    /// Removes all questions, and returns the askers' tokens.
    pub fn take_open(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.open).into_values().map(|question| question.token).collect()
    }
}
