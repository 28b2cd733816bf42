//! Requests for all rules of a switch, in pieces.
//!
//! A switch that reports many rules may do nothing else meanwhile. Open vSwitch in user space forwards no packet while
//! it writes an answer, which takes about 4 µs a rule: for three switches with 3,300 rules each, 40 ms, in which the
//! queues of their ports overflow. So a 1.3 switch, which selects rules by the bits of their cookies, is asked for a
//! piece of its rules at a time. After each answer it rests, and forwards packets, for a time between [`MIN_REST`] and
//! [`MAX_REST`] that is proportional to its answer's. Without rests, reading the rules of three switches took a
//! third of the time of the thread that forwards their packets, for a tenth of a second.
//!
//! To find the rules of one piece, Open vSwitch inspects all of its rules, in about 0.1 µs each. So there are at most
//! [`SAMPLED`] pieces: 256 pieces of 29,000 rules at each of three switches kept its thread busy for 2 s.
//!
//! Maple numbers its cookies, so each value of the lowest bits has about as many rules. A sample, which is requested
//! first, shows how many: the rules with one of [`SAMPLED`] values. A switch that ignores the cookie reports others in
//! the sample too, and is asked for everything at once, as a 1.0 switch is.

use std::time::Duration;

use maple_core::engine::Time;
use maple_wire::msg::stats::{FlowStats, FlowStatsRequest, MORE, ReplyBody, RequestBody};
use maple_wire::msg::{ErrorMsg, StatsReply};
use maple_wire::{Message, Version};

use super::describe::stats_request;
use super::{Output, ProtocolWarning, Session};
use crate::time::{after, until};

/// The minimum rest of a switch between two pieces. Chosen: short because people wait for counters, and long enough for
/// a switch in user space to forward what came meanwhile.
pub(super) const MIN_REST: Duration = Duration::from_millis(8);
/// The maximum rest of a switch between two pieces. Chosen: with [`SAMPLED`] pieces a reading takes two seconds at
/// most, besides the switch's own time.
pub(super) const MAX_REST: Duration = Duration::from_millis(30);
/// The length of a rest between these limits, as a multiple of the answer's time. Chosen: three switches may share a
/// thread, which has other work too.
const REST_BY_ANSWER: u32 = 8;
/// The approximate number of rules in a piece, if [`SAMPLED`] pieces of this size suffice. Chosen: a switch is busy
/// with one for less than a millisecond, and each piece costs a message.
const RULES_PER_PIECE: u64 = 128;
/// The number of values of the lowest bits, one of which is the sample's, and the maximum number of pieces. Chosen: the
/// essay above says what more pieces cost a switch.
const SAMPLED: u64 = 64;
/// The value that is sampled. It is not the lowest, because other controllers often use cookie 0 for all their rules.
const SAMPLE: u64 = 0x1a;

/// The progress of a request for all rules.
#[derive(Clone, Copy, Debug)]
pub(super) struct RulePieces {
    /// The values of these bits of the cookie divide the rules.
    mask: u64,
    /// The value of these bits in the last request.
    value: u64,
    /// The time of the last request.
    asked: Time,
    /// The number of rules in the sample so far; `None` after it.
    sampled: Option<usize>,
    ignores_cookies: bool,
}

/// The step after a part of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Another part of the answer follows.
    Part,
    /// Another request is to be sent.
    Piece,
    /// The switch has reported all rules.
    Nothing,
}

impl RulePieces {
    /// Begins with the sample if the switch can select rules by cookie.
    pub fn new(can_select: bool) -> RulePieces {
        let (mask, value, sampled) = if can_select { (SAMPLED - 1, SAMPLE, Some(0)) } else { (0, 0, None) };
        RulePieces { mask, value, asked: Time(0), sampled, ignores_cookies: false }
    }

    /// Returns the next request, and records its time.
    pub fn request(&mut self, now: Time) -> RequestBody {
        self.asked = now;
        RequestBody::Flow(FlowStatsRequest { cookie: self.value, cookie_mask: self.mask, ..FlowStatsRequest::all() })
    }

    /// Reports whether the open request is the one for the sample. The sample's rules are reported again later.
    pub fn is_sample(&self) -> bool {
        self.sampled.is_some()
    }

    /// Returns how long the switch rests after a piece whose answer ends at `now`.
    pub fn rest(&self, now: Time) -> Duration {
        (until(self.asked, now) * REST_BY_ANSWER).clamp(MIN_REST, MAX_REST)
    }

    /// Reports whether the switch has reported rules that it was not asked for.
    pub fn ignores_cookies(&self) -> bool {
        self.ignores_cookies
    }

    /// Takes a part of an answer. `more` says that another part of it follows.
    pub fn on_part(&mut self, flows: &[FlowStats], more: bool) -> Next {
        if let Some(sampled) = &mut self.sampled {
            *sampled += flows.len();
            self.ignores_cookies |= flows.iter().any(|flow| flow.cookie & self.mask != self.value);
        }
        if more {
            return Next::Part;
        }
        if let Some(sampled) = self.sampled.take() {
            let pieces = (sampled as u64 * SAMPLED / RULES_PER_PIECE).next_power_of_two().min(SAMPLED);
            (self.mask, self.value) = (if self.ignores_cookies { 0 } else { pieces - 1 }, 0);
            return Next::Piece;
        }
        if self.value == self.mask {
            return Next::Nothing;
        }
        self.value += 1;
        Next::Piece
    }
}

/// A request by the engine for all rules.
#[derive(Clone, Copy, Debug)]
pub(super) struct AllRules {
    /// The transaction id of the engine's request.
    xid: u32,
    turn: PieceTurn,
    pieces: RulePieces,
}

/// The next step of a request in pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PieceTurn {
    /// The answer with this transaction id is awaited.
    Answer(u32),
    /// The next piece is requested at this time.
    Ask(Time),
}

impl PieceTurn {
    /// Returns the time at which the next piece is requested, if the switch rests.
    pub fn rest_until(self) -> Option<Time> {
        match self {
            PieceTurn::Answer(_) => None,
            PieceTurn::Ask(at) => Some(at),
        }
    }
}

impl Session {
    /// Asks the switch for all its rules. The answer, or an error, is delivered with this transaction id.
    pub fn ask_for_all_rules(&mut self, now: Time, xid: u32, out: &mut Vec<Output>) {
        let mut pieces = self.first_piece();
        let turn = self.ask_for_piece(now, &mut pieces, out);
        self.all_rules.push(AllRules { xid, turn, pieces });
    }

    /// Returns the first piece of a read: the sample, if the switch can select rules by cookie.
    pub(super) fn first_piece(&self) -> RulePieces {
        RulePieces::new(self.version == Version::Of13 && !self.ignores_cookies)
    }

    fn ask_for_piece(&mut self, now: Time, pieces: &mut RulePieces, out: &mut Vec<Output>) -> PieceTurn {
        let xid = self.request(stats_request(pieces.request(now)), out);
        self.expect(now, xid);
        PieceTurn::Answer(xid)
    }

    /// Asks for the pieces whose rest is over.
    pub(super) fn ask_for_pieces(&mut self, now: Time, out: &mut Vec<Output>) {
        for at in 0..self.all_rules.len() {
            let AllRules { xid, turn, mut pieces } = self.all_rules[at];
            if turn.rest_until().is_some_and(|until| until <= now) {
                let turn = self.ask_for_piece(now, &mut pieces, out);
                self.all_rules[at] = AllRules { xid, turn, pieces };
            }
        }
    }

    /// Returns the time of the first request that is due after a rest.
    pub(super) fn next_piece(&self) -> Option<Time> {
        self.all_rules.iter().filter_map(|request| request.turn.rest_until()).min()
    }

    /// Finds the engine's request to which an answer with this id belongs.
    fn all_rules_of(&self, open: u32) -> Option<usize> {
        self.all_rules.iter().position(|request| request.turn == PieceTurn::Answer(open))
    }

    /// Reports whether an answer with this id belongs to a request by the engine for all rules.
    pub(super) fn is_piece(&self, xid: u32) -> bool {
        self.all_rules_of(xid).is_some()
    }

    /// Handles a part of a piece.
    pub(super) fn on_piece_part(&mut self, now: Time, open: u32, reply: StatsReply, out: &mut Vec<Output>) {
        let Some(at) = self.all_rules_of(open) else {
            return debug_assert!(false, "an answer belongs to a request");
        };
        // Statistics of another kind are not the answer: the request goes on waiting, up to its deadline.
        let ReplyBody::Flow(flows) = &reply.body else { return self.warn(ProtocolWarning::OtherStatistics, out) };
        let AllRules { xid, mut pieces, .. } = self.all_rules[at];
        let is_sample = pieces.is_sample();
        let next = pieces.on_part(flows, reply.more());
        self.ignores_cookies |= pieces.ignores_cookies();
        if !is_sample {
            let flags = if next == Next::Nothing { reply.flags } else { reply.flags | MORE };
            out.push(Output::Deliver { xid, message: Message::StatsReply(StatsReply { flags, ..reply }) });
        }
        if next == Next::Part {
            self.all_rules[at].pieces = pieces;
            return;
        }
        self.keepalive.on_answer(open);
        let turn = match next {
            Next::Piece if is_sample => self.ask_for_piece(now, &mut pieces, out),
            Next::Piece => PieceTurn::Ask(after(now, pieces.rest(now))),
            Next::Part | Next::Nothing => {
                self.all_rules.remove(at);
                return;
            }
        };
        self.all_rules[at] = AllRules { xid, turn, pieces };
    }

    /// Handles the refusal of a switch to report rules. If it was asked for the sample, it may only be unable to select
    /// rules, and is asked for all.
    pub(super) fn on_piece_refused(&mut self, now: Time, open: u32, error: ErrorMsg, out: &mut Vec<Output>) {
        let Some(at) = self.all_rules_of(open) else {
            return debug_assert!(false, "a refusal belongs to a request");
        };
        self.keepalive.on_answer(open);
        let AllRules { xid, pieces, .. } = self.all_rules.remove(at);
        if pieces.is_sample() {
            self.ignores_cookies = true;
            return self.ask_for_all_rules(now, xid, out);
        }
        out.push(Output::Deliver { xid, message: Message::Error(error) });
    }
}
