//! Requests for all rules of a switch, in pieces.
//!
//! A switch that reports many rules may do nothing else meanwhile. Open vSwitch in user space forwards no packet while
//! it writes an answer, which takes about 4 µs a rule: of three switches with 3,300 rules each, 40 ms, in which the
//! queues of their ports run over. So a switch with 1.3, which selects rules by the bits of their cookies, is asked for
//! some hundreds at a time. After each answer it rests, and forwards packets: [`REST`], or as long as is proportional to
//! its answer. Without rests, reading the rules of three switches took a third of the time of the thread that forwards
//! their packets, for a tenth of a second.
//!
//! To find the rules of one piece, Open vSwitch looks at all of them, about 0.1 µs each. So there are few pieces
//! ([`SAMPLED`]): 256 pieces of 29,000 rules at each of three switches kept its thread busy for 2 s.
//!
//! Maple numbers its cookies, so each value of the lowest bits has about as many rules. How many there are shows a
//! sample, which is asked for first: the rules with one of [`SAMPLED`] values. A switch that ignores the cookie reports
//! others in the sample too, and is asked for everything at once, as one with 1.0 is.

use std::time::Duration;

use maple_core::engine::Time;
use maple_wire::msg::stats::{FlowStats, FlowStatsRequest, MORE, ReplyBody, RequestBody};
use maple_wire::msg::{ErrorMsg, StatsReply};
use maple_wire::{Message, Version};

use super::describe::stats_request;
use super::{Output, Session};
use crate::time::{after, until};

/// How long a switch is asked for nothing between two pieces, at least and at most: people wait for counters.
pub(super) const REST: Duration = Duration::from_millis(8);
pub(super) const LONGEST_REST: Duration = Duration::from_millis(30);
/// How long it rests between these, in times of its answer. Three switches may share a thread, which has other work too.
const REST_BY_ANSWER: u32 = 8;
/// About so many rules are asked for at once, if there are not more than so many for each piece.
const RULES_A_PIECE: u64 = 128;
/// The sample is the rules with one of so many values of the lowest bits, and there are at most so many pieces.
const SAMPLED: u64 = 64;
/// The value that is sampled. It is not the lowest, because others often number nothing, with cookie 0.
const SAMPLE: u64 = 0x1a;

/// How far a request for all rules is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pieces {
    /// The values of these bits of the cookie divide the rules.
    mask: u64,
    /// The value that was asked for.
    value: u64,
    /// When it was asked for.
    asked: Time,
    /// How many rules the sample has so far; `None` after it.
    sampled: Option<usize>,
    ignores_cookies: bool,
}

/// What follows a part of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Another part of it.
    Part,
    /// The answer to another request, which is to be sent.
    Piece,
    /// Nothing: the switch has reported all rules.
    Nothing,
}

impl Pieces {
    /// Begins with the sample if the switch can select rules by cookie.
    pub fn new(can_select: bool) -> Pieces {
        let (mask, value, sampled) = if can_select { (SAMPLED - 1, SAMPLE, Some(0)) } else { (0, 0, None) };
        Pieces { mask, value, asked: Time(0), sampled, ignores_cookies: false }
    }

    /// What the switch is asked for now.
    pub fn request(&mut self, now: Time) -> RequestBody {
        self.asked = now;
        RequestBody::Flow(FlowStatsRequest { cookie: self.value, cookie_mask: self.mask, ..FlowStatsRequest::all() })
    }

    /// Whether the switch is asked for the sample. Its rules are reported again later.
    pub fn is_sample(&self) -> bool {
        self.sampled.is_some()
    }

    /// How long the switch rests after a piece that has come now.
    pub fn rest(&self, now: Time) -> Duration {
        (until(self.asked, now) * REST_BY_ANSWER).clamp(REST, LONGEST_REST)
    }

    /// Whether the switch reports rules that it was not asked for.
    pub fn ignores_cookies(&self) -> bool {
        self.ignores_cookies
    }

    /// A part of an answer has come. `more` says that another part of it follows.
    pub fn on_part(&mut self, flows: &[FlowStats], more: bool) -> Next {
        if let Some(sampled) = &mut self.sampled {
            *sampled += flows.len();
            self.ignores_cookies |= flows.iter().any(|flow| flow.cookie & self.mask != self.value);
        }
        if more {
            return Next::Part;
        }
        if let Some(sampled) = self.sampled.take() {
            let pieces = (sampled as u64 * SAMPLED / RULES_A_PIECE).next_power_of_two().min(SAMPLED);
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

/// A request of the engine's for all rules.
#[derive(Clone, Copy, Debug)]
pub(super) struct AllRules {
    /// Its transaction id.
    xid: u32,
    turn: Turn,
    pieces: Pieces,
}

/// What comes next of a request in pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// The answer with this transaction id.
    Answer(u32),
    /// The next piece, which the switch is asked for at this time.
    Ask(Time),
}

impl Turn {
    /// When the switch is asked again.
    pub fn rest_until(self) -> Option<Time> {
        match self {
            Turn::Answer(_) => None,
            Turn::Ask(at) => Some(at),
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

    pub(super) fn first_piece(&self) -> Pieces {
        Pieces::new(self.version == Version::Of13 && !self.ignores_cookies)
    }

    fn ask_for_piece(&mut self, now: Time, pieces: &mut Pieces, out: &mut Vec<Output>) -> Turn {
        let xid = self.request(stats_request(pieces.request(now)), out);
        self.expect(now, xid);
        Turn::Answer(xid)
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

    /// When the first of these is asked for.
    pub(super) fn next_piece(&self) -> Option<Time> {
        self.all_rules.iter().filter_map(|request| request.turn.rest_until()).min()
    }

    /// The engine's request that an answer with this id belongs to.
    fn all_rules_of(&self, open: u32) -> Option<usize> {
        self.all_rules.iter().position(|request| request.turn == Turn::Answer(open))
    }

    /// Whether an answer with this id belongs to a request of the engine's for all rules.
    pub(super) fn is_piece(&self, xid: u32) -> bool {
        self.all_rules_of(xid).is_some()
    }

    /// Handles a part of a piece.
    pub(super) fn piece_part(&mut self, now: Time, open: u32, reply: StatsReply, out: &mut Vec<Output>) {
        let Some(at) = self.all_rules_of(open) else { return };
        let ReplyBody::Flow(flows) = &reply.body else { return };
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
        self.keepalive.answered(open);
        let turn = match next {
            Next::Piece if is_sample => self.ask_for_piece(now, &mut pieces, out),
            Next::Piece => Turn::Ask(after(now, pieces.rest(now))),
            Next::Part | Next::Nothing => {
                self.all_rules.remove(at);
                return;
            }
        };
        self.all_rules[at] = AllRules { xid, turn, pieces };
    }

    /// The switch refuses to report rules. If it was asked for the sample, it may not know how to select rules.
    pub(super) fn piece_refused(&mut self, now: Time, open: u32, error: ErrorMsg, out: &mut Vec<Output>) {
        let Some(at) = self.all_rules_of(open) else { return };
        self.keepalive.answered(open);
        let AllRules { xid, pieces, .. } = self.all_rules.remove(at);
        if pieces.is_sample() {
            self.ignores_cookies = true;
            return self.ask_for_all_rules(now, xid, out);
        }
        out.push(Output::Deliver { xid, message: Message::Error(error) });
    }
}
