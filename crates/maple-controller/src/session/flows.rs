//! Reading all rules of a switch, which may take many parts; and deleting ours where it does not tell them.
//!
//! A switch that refuses to tell its rules may have some of an earlier life of the controller, which nobody knows. So all
//! that may be ours is deleted: in 1.3 what has our cookies, in 1.0, which can't choose by cookie, everything. The switch
//! has no rules once it has answered the barrier behind that.

use maple_core::engine::{InstalledFlow, OWN_COOKIES, Time};
use maple_wire::msg::stats::{FlowStats, FlowStatsRequest, ReplyBody, RequestBody};
use maple_wire::msg::{FlowMod, FlowModCommand, StatsReply};
use maple_wire::{Action, Constraint, Instruction, Match, Message, Version};

use super::describe::stats_request;
use super::{CloseReason, Note, Output, Session};
use crate::time::after;

/// Most bytes that a switch's rules may take here while they are read.
const MAX_BYTES: usize = 128 * 1024 * 1024;
/// `OFPTT_ALL`, in a deletion.
const ALL_TABLES: u8 = 0xff;

/// A reading in progress.
#[derive(Debug)]
pub(super) struct FlowReading {
    /// The request that waits for its answer.
    xid: u32,
    flows: Vec<InstalledFlow>,
    /// What they take.
    bytes: usize,
    /// Until when the next part must be there.
    deadline: Time,
    /// The switch does not tell its rules: it is the barrier behind their deletion that waits.
    is_deleting: bool,
}

impl FlowReading {
    pub(super) fn deadline(&self) -> Time {
        self.deadline
    }

    /// Whether a reply with this id is a part of the rules.
    pub(super) fn is_about(&self, xid: u32) -> bool {
        self.xid == xid && !self.is_deleting
    }

    /// Whether an answer with this id means that our rules are deleted.
    pub(super) fn is_deleted_by(&self, xid: u32) -> bool {
        self.xid == xid && self.is_deleting
    }
}

impl Session {
    /// Asks for all rules; [`Output::Flows`] follows. A reading that is in progress is begun again.
    pub fn read_flows(&mut self, now: Time, out: &mut Vec<Output>) {
        let xid = self.request(stats_request(RequestBody::Flow(FlowStatsRequest::all())), out);
        self.begin_reading(now, xid, false);
    }

    fn begin_reading(&mut self, now: Time, xid: u32, is_deleting: bool) {
        let deadline = after(now, self.deadlines.request);
        self.reading = Some(FlowReading { xid, flows: Vec::new(), bytes: 0, deadline, is_deleting });
    }

    /// One part of the rules.
    pub(super) fn flows_part(&mut self, now: Time, reply: StatsReply, out: &mut Vec<Output>) {
        let Some(reading) = &mut self.reading else { return };
        let more = reply.more();
        let ReplyBody::Flow(part) = reply.body else { return };
        for flow in part.into_iter().map(installed) {
            reading.bytes += size(&flow);
            reading.flows.push(flow);
        }
        if reading.bytes > MAX_BYTES {
            return self.end(CloseReason::TooMany("bytes of rules", MAX_BYTES), out);
        }
        reading.deadline = after(now, self.deadlines.request);
        if !more {
            self.end_reading(out);
        }
    }

    /// The switch does not tell its rules: deletes what may be ours.
    pub(super) fn flows_refused(&mut self, now: Time, out: &mut Vec<Output>) {
        self.note(Note::RulesUntold, out);
        let mut delete = FlowMod::new(FlowModCommand::Delete, 0, Match::any(), Vec::new());
        if self.version == Version::Of13 {
            (delete.cookie, delete.cookie_mask) = OWN_COOKIES;
            delete.table_id = ALL_TABLES;
        }
        self.request(Message::FlowMod(delete), out);
        let barrier = self.request(Message::BarrierRequest, out);
        self.begin_reading(now, barrier, true);
    }

    /// All rules are read, or deleted.
    pub(super) fn end_reading(&mut self, out: &mut Vec<Output>) {
        if let Some(reading) = self.reading.take() {
            out.push(Output::Flows(reading.flows));
        }
    }
}

fn installed(flow: FlowStats) -> InstalledFlow {
    InstalledFlow {
        table_id: flow.table_id,
        priority: flow.priority,
        cookie: flow.cookie,
        matching: flow.matching,
        instructions: flow.instructions,
    }
}

/// About what a rule takes in memory.
fn size(flow: &InstalledFlow) -> usize {
    let actions = |instruction: &Instruction| match instruction {
        Instruction::WriteActions(actions) | Instruction::ApplyActions(actions) => actions.len(),
        _ => 0,
    };
    let count = flow.instructions.iter().map(actions).sum::<usize>();
    size_of::<InstalledFlow>()
        + size_of_val::<[Instruction]>(&flow.instructions)
        + flow.matching.constraints().count() * size_of::<Constraint>()
        + count * size_of::<Action>()
}
