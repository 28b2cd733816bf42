//! Questions of people that a switch answers by itself: statistics as they are, and this controller's role.
//!
//! Each question is a request of its own. A few are open at a time; the oldest gives way, as nobody waits for it by
//! then.

use std::collections::VecDeque;

use maple_wire::msg::stats::{ReplyBody, RequestBody};
use maple_wire::msg::{Role, StatsReply};
use maple_wire::{Message, Version};

use super::describe::stats_request;
use super::{Output, Session};

/// The maximum number of open questions, and of those that have ended and whose further parts are ignored. Chosen:
/// twice as many as HTTP clients may ask of switches at a time; the oldest ends.
const MAX_OPEN: usize = 8;
/// The maximum number of bytes of an answer: some 80,000 rules. Chosen: a bound on what a switch can make us keep.
const MAX_ANSWER: usize = 8 << 20;

/// A question to a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SwitchQuestion {
    /// Statistics.
    Statistics(RequestBody),
    /// The role that the switch gives this controller (1.3).
    Role,
}

/// The answer of a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SwitchAnswer {
    /// The parts of the statistics.
    Statistics(Vec<ReplyBody>),
    /// The role.
    Role(Role),
    /// The switch does not answer this, or its version has no such question.
    Unsupported,
    /// The answer is too long, or too many later questions are open.
    TooMuch,
}

/// The questions to a switch.
#[derive(Debug, Default)]
pub(super) struct Questions {
    open: VecDeque<OpenQuestion>,
    /// The latest that ended before their answer did.
    ended: VecDeque<u32>,
}

/// A question without a whole answer.
#[derive(Debug)]
struct OpenQuestion {
    xid: u32,
    parts: Vec<ReplyBody>,
    bytes: usize,
}

impl SwitchQuestion {
    /// Returns the request in a version, if it has one.
    fn request(self, version: Version) -> Option<Message> {
        let is_in_10 = match &self {
            SwitchQuestion::Role => false,
            SwitchQuestion::Statistics(body) => matches!(
                body,
                RequestBody::Desc
                    | RequestBody::Flow(_)
                    | RequestBody::Aggregate(_)
                    | RequestBody::Table
                    | RequestBody::Port(_)
                    | RequestBody::Queue(_)
            ),
        };
        let message = match self {
            SwitchQuestion::Statistics(body) => stats_request(body),
            SwitchQuestion::Role => Message::RoleRequest(Role { role: Role::NOCHANGE, generation_id: 0 }),
        };
        let is_expressible = || message.to_bytes(version, 0).is_ok();
        ((version == Version::Of13 || is_in_10) && is_expressible()).then_some(message)
    }
}

impl Session {
    /// Asks the switch. [`Output::Answered`] with the returned number follows, if it answers.
    ///
    /// # Errors
    /// The answer, if the switch is not asked.
    pub fn ask(&mut self, question: SwitchQuestion, out: &mut Vec<Output>) -> Result<u32, SwitchAnswer> {
        let message = question.request(self.version).ok_or(SwitchAnswer::Unsupported)?;
        let oldest = self.questions.open.front().filter(|_| self.questions.open.len() == MAX_OPEN).map(|of| of.xid);
        oldest.into_iter().for_each(|xid| self.end_question(xid, SwitchAnswer::TooMuch, out));
        let xid = self.request(message, out);
        self.questions.open.push_back(OpenQuestion { xid, parts: Vec::new(), bytes: 0 });
        Ok(xid)
    }

    /// Reports whether an answer with this id belongs to a question, which may have ended.
    pub(super) fn is_question(&self, xid: u32) -> bool {
        self.questions.open.iter().any(|open| open.xid == xid) || self.questions.ended.contains(&xid)
    }

    /// Handles a part of statistics, which has this many bytes.
    pub(super) fn on_answer_part(&mut self, xid: u32, reply: StatsReply, bytes: usize, out: &mut Vec<Output>) {
        let Some(open) = self.questions.open.iter_mut().find(|open| open.xid == xid) else { return };
        let is_last = !reply.more();
        open.bytes += bytes + size_of::<ReplyBody>();
        open.parts.push(reply.body);
        if open.bytes > MAX_ANSWER {
            self.end_question(xid, SwitchAnswer::TooMuch, out);
        } else if is_last {
            let parts = std::mem::take(&mut open.parts);
            self.end_question(xid, SwitchAnswer::Statistics(parts), out);
        }
    }

    /// Ends all questions without an answer.
    pub(super) fn abandon_questions(&mut self, out: &mut Vec<Output>) {
        let open: Vec<u32> = self.questions.open.iter().map(|open| open.xid).collect();
        open.into_iter().for_each(|xid| self.end_question(xid, SwitchAnswer::Unsupported, out));
    }

    /// Ends a question with this answer, unless it has ended. Further parts of it are ignored.
    pub(super) fn end_question(&mut self, xid: u32, answer: SwitchAnswer, out: &mut Vec<Output>) {
        let Questions { open, ended } = &mut self.questions;
        let Some(at) = open.iter().position(|open| open.xid == xid) else { return };
        open.remove(at);
        if ended.len() == MAX_OPEN {
            ended.pop_front();
        }
        ended.push_back(xid);
        out.push(Output::Answered(xid, answer));
    }
}
