//! When a silent switch is asked whether it is there, and when it is given up.
//!
//! Any message is a sign of life. A switch that works through hundreds of flow-mods may be silent for longer than an echo
//! may take, so while a request of ours waits for its answer it is that request's deadline that counts. A switch answers in
//! order, so the time for a request begins when the one before it is answered: a switch that makes progress is kept however
//! much it has to do, and one that makes none is given up in the time for one request.

use std::collections::VecDeque;
use std::time::Duration;

use maple_core::engine::Time;

use super::{CloseReason, Deadlines};
use crate::time::after;

/// What is due.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// Nothing yet.
    Nothing,
    /// An echo request.
    Echo,
    /// The end.
    Dead(CloseReason),
}

/// What was heard and what is waited for.
#[derive(Debug)]
pub(super) struct Keepalive {
    /// When the last whole message came.
    last_heard: Time,
    /// When an echo request went out that nothing has followed.
    echo_sent: Option<Time>,
    /// The echo request that decides whether this connection is dead, and its deadline.
    challenge: Option<(u32, Time)>,
    /// Requests of the engine's without an answer, oldest first, and when they were sent.
    awaited: VecDeque<(u32, Time)>,
    /// When the oldest request of its time was last answered.
    progress: Time,
}

impl Keepalive {
    pub(super) fn new(now: Time) -> Keepalive {
        Keepalive { last_heard: now, echo_sent: None, challenge: None, awaited: VecDeque::new(), progress: now }
    }

    /// A whole message came in: the switch lives.
    pub(super) fn heard(&mut self, now: Time) {
        self.last_heard = now;
        self.echo_sent = None;
    }

    pub(super) fn echo_sent(&mut self, now: Time) {
        self.echo_sent = Some(now);
    }

    /// Waits for the answer to this request.
    pub(super) fn expect(&mut self, xid: u32, now: Time) {
        self.awaited.push_back((xid, now));
    }

    pub(super) fn is_expected(&self, xid: u32) -> bool {
        self.awaited.iter().any(|(awaited, _)| *awaited == xid)
    }

    /// Waits no longer for this answer, which has just come; whether it was waited for. Answers come in order, so the
    /// search is short.
    pub(super) fn answered(&mut self, xid: u32) -> bool {
        let Some(at) = self.awaited.iter().position(|(awaited, _)| *awaited == xid) else { return false };
        self.awaited.remove(at);
        if at == 0 {
            self.progress = self.last_heard;
        }
        true
    }

    pub(super) fn challenge(&mut self, xid: u32, deadline: Time) {
        self.challenge = Some((xid, deadline));
    }

    /// Whether this echo reply answers the challenge. Other messages do not: they may have been under way for long.
    pub(super) fn challenge_answered(&mut self, xid: u32) -> bool {
        self.challenge.take_if(|(asked, _)| *asked == xid).is_some()
    }

    /// Until when the oldest request must be answered.
    fn answer_due(&self, request: Duration) -> Option<Time> {
        self.awaited.front().map(|(_, sent)| after(self.progress.max(*sent), request))
    }

    /// When something is due. `is_busy`: an answer is waited for besides, with a deadline of its own.
    pub(super) fn deadline(&self, deadlines: &Deadlines, is_busy: bool) -> Time {
        let silence = match self.echo_sent {
            Some(_) if is_busy || !self.awaited.is_empty() => Time(u64::MAX),
            Some(sent) => after(sent, deadlines.echo),
            None => after(self.last_heard, deadlines.idle),
        };
        let challenge = self.challenge.map(|(_, deadline)| deadline);
        challenge.into_iter().chain(self.answer_due(deadlines.request)).fold(silence, Time::min)
    }

    pub(super) fn due(&self, now: Time, deadlines: &Deadlines, is_busy: bool) -> Due {
        if self.challenge.is_some_and(|(_, deadline)| deadline <= now) {
            return Due::Dead(CloseReason::EchoTimeout(deadlines.challenge));
        }
        if self.answer_due(deadlines.request).is_some_and(|deadline| deadline <= now) {
            return Due::Dead(CloseReason::RequestTimeout(deadlines.request));
        }
        if self.deadline(deadlines, is_busy) > now {
            return Due::Nothing;
        }
        match self.echo_sent {
            Some(_) => Due::Dead(CloseReason::EchoTimeout(deadlines.echo)),
            None => Due::Echo,
        }
    }
}
