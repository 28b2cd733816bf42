//! Reads all rules of a switch, in pieces that may arrive in many parts. Deletes Maple's rules if the switch does not
//! report them.
//!
//! A switch that refuses to report its rules may still have some of an earlier run. So the session deletes every rule
//! that may be Maple's: in 1.3 those with Maple's cookies; in 1.0, which cannot select by cookie, all rules. The rules
//! are gone when the switch answers the barrier request that follows.

use std::time::Duration;

use maple_core::engine::{OWN_COOKIES, ReportedRule, Time};
use maple_wire::msg::ALL_TABLES;
use maple_wire::msg::stats::{FlowStats, ReplyBody};
use maple_wire::msg::{FlowMod, FlowModCommand, StatsReply};
use maple_wire::{Action, Constraint, Instruction, Match, Message, Version};

use super::describe::stats_request;
use super::rule_pieces::{Next, PieceTurn, RulePieces};
use super::{CloseReason, Output, ProtocolWarning, Session};
use crate::time::after;

/// The maximum memory for a switch's rules while they are read, in bytes. A connection that sends more is closed.
/// Chosen: about a million rules.
const MAX_BYTES: usize = 128 * 1024 * 1024;

/// A read in progress.
#[derive(Debug)]
pub(super) struct RuleReading {
    turn: PieceTurn,
    pieces: RulePieces,
    flows: Vec<ReportedRule>,
    /// The memory of `flows`, in bytes.
    bytes: usize,
    /// The time by which the next part must come, while the switch does not rest.
    part_due: Time,
    /// Whether the rules are being deleted, because the switch did not report them. The awaited answer is then that to
    /// the barrier request.
    is_deleting: bool,
}

impl RuleReading {
    /// Returns the time at which the next piece is requested, or by which the switch must have answered.
    pub(super) fn deadline(&self) -> Time {
        self.turn.rest_until().unwrap_or(self.part_due)
    }

    /// Reports whether a reply with this id answers the read.
    pub(super) fn is_answer(&self, xid: u32) -> bool {
        self.turn == PieceTurn::Answer(xid) && !self.is_deleting
    }

    /// Reports whether an answer with this id confirms the deletion.
    pub(super) fn is_deleted_by(&self, xid: u32) -> bool {
        self.turn == PieceTurn::Answer(xid) && self.is_deleting
    }
}

impl Session {
    /// Requests all rules; [`Output::Rules`] follows. A read in progress starts again.
    pub fn read_flows(&mut self, now: Time, out: &mut Vec<Output>) {
        let mut pieces = self.first_piece();
        let xid = self.request(stats_request(pieces.request(now)), out);
        self.begin_reading(now, xid, pieces, false);
    }

    fn begin_reading(&mut self, now: Time, xid: u32, pieces: RulePieces, is_deleting: bool) {
        let (turn, part_due) = (PieceTurn::Answer(xid), after(now, self.deadlines.request));
        self.reading = Some(RuleReading { turn, pieces, flows: Vec::new(), bytes: 0, part_due, is_deleting });
    }

    /// Asks for the next piece, if a rest is over.
    pub(super) fn continue_reading(&mut self, now: Time, out: &mut Vec<Output>) {
        let is_due = |reading: &mut RuleReading| reading.turn.rest_until().is_some_and(|until| until <= now);
        if let Some(mut reading) = self.reading.take_if(is_due) {
            reading.turn = PieceTurn::Answer(self.request(stats_request(reading.pieces.request(now)), out));
            reading.part_due = after(now, self.deadlines.request);
            self.reading = Some(reading);
        }
    }

    /// Handles one part of the rules.
    pub(super) fn on_flows_part(&mut self, now: Time, reply: StatsReply, out: &mut Vec<Output>) {
        let Some(reading) = &mut self.reading else {
            return debug_assert!(false, "an answer belongs to a read");
        };
        let more = reply.more();
        // Statistics of another kind are not the answer: the read goes on waiting, up to its deadline.
        let ReplyBody::Flow(part) = reply.body else { return self.warn(ProtocolWarning::OtherStatistics, out) };
        let is_sample = reading.pieces.is_sample();
        let next = reading.pieces.on_part(&part, more);
        for flow in part.into_iter().filter(|_| !is_sample).map(installed) {
            reading.bytes += size(&flow);
            reading.flows.push(flow);
        }
        if reading.bytes > MAX_BYTES {
            return self.end(CloseReason::TooMany("bytes of rules", MAX_BYTES), out);
        }
        reading.part_due = after(now, self.deadlines.request);
        self.ignores_cookies |= reading.pieces.ignores_cookies();
        match next {
            Next::Part => {}
            Next::Piece => {
                let rest = if is_sample { Duration::ZERO } else { reading.pieces.rest(now) };
                reading.turn = PieceTurn::Ask(after(now, rest));
                self.continue_reading(now, out);
            }
            Next::Nothing => self.end_reading(out),
        }
    }

    /// Handles the refusal of a switch to report its rules: deletes those that may be Maple's. If it was asked for the
    /// sample, it may only be unable to select rules, and is asked for all.
    pub(super) fn on_flows_refused(&mut self, now: Time, out: &mut Vec<Output>) {
        if self.reading.as_ref().is_some_and(|reading| reading.pieces.is_sample()) {
            self.ignores_cookies = true;
            return self.read_flows(now, out);
        }
        self.warn(ProtocolWarning::RulesUnreadable, out);
        let mut delete = FlowMod::new(FlowModCommand::Delete, 0, Match::any(), Vec::new());
        if self.version == Version::Of13 {
            (delete.cookie, delete.cookie_mask) = OWN_COOKIES;
            delete.table_id = ALL_TABLES;
        }
        self.request(Message::FlowMod(delete), out);
        let barrier = self.request(Message::BarrierRequest, out);
        self.begin_reading(now, barrier, self.first_piece(), true);
    }

    /// Ends the read: all rules are read or deleted.
    pub(super) fn end_reading(&mut self, out: &mut Vec<Output>) {
        if let Some(reading) = self.reading.take() {
            out.push(Output::Rules(reading.flows));
        }
    }
}

/// Converts a reported rule to the engine's form.
fn installed(flow: FlowStats) -> ReportedRule {
    ReportedRule {
        table_id: flow.table_id,
        priority: flow.priority,
        cookie: flow.cookie,
        matching: flow.matching,
        instructions: flow.instructions,
    }
}

/// Estimates the memory of a rule, in bytes.
fn size(flow: &ReportedRule) -> usize {
    let actions = |instruction: &Instruction| match instruction {
        Instruction::WriteActions(actions) | Instruction::ApplyActions(actions) => actions.len(),
        _ => 0,
    };
    let count = flow.instructions.iter().map(actions).sum::<usize>();
    size_of::<ReportedRule>()
        + size_of_val::<[Instruction]>(&flow.instructions)
        + flow.matching.constraints().count() * size_of::<Constraint>()
        + count * size_of::<Action>()
}
