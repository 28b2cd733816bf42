//! When a silent switch is asked whether it is there, and when it is given up.

use std::collections::VecDeque;

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
    /// Requests of the engine's without an answer, oldest first, with their deadlines.
    awaited: VecDeque<(u32, Time)>,
}

impl Keepalive {
    pub(super) fn new(now: Time) -> Keepalive {
        Keepalive { last_heard: now, echo_sent: None, challenge: None, awaited: VecDeque::new() }
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
    pub(super) fn expect(&mut self, xid: u32, deadline: Time) {
        self.awaited.push_back((xid, deadline));
    }

    pub(super) fn is_expected(&self, xid: u32) -> bool {
        self.awaited.iter().any(|(awaited, _)| *awaited == xid)
    }

    /// Waits no longer for this answer; whether it was waited for. Answers come in order, so the search is short.
    pub(super) fn answered(&mut self, xid: u32) -> bool {
        match self.awaited.iter().position(|(awaited, _)| *awaited == xid) {
            Some(at) => self.awaited.remove(at).is_some(),
            None => false,
        }
    }

    pub(super) fn challenge(&mut self, xid: u32, deadline: Time) {
        self.challenge = Some((xid, deadline));
    }

    /// Whether this echo reply answers the challenge. Other messages do not: they may have been under way for long.
    pub(super) fn challenge_answered(&mut self, xid: u32) -> bool {
        self.challenge.take_if(|(asked, _)| *asked == xid).is_some()
    }

    pub(super) fn deadline(&self, deadlines: &Deadlines) -> Time {
        let silence = match self.echo_sent {
            Some(sent) => after(sent, deadlines.echo),
            None => after(self.last_heard, deadlines.idle),
        };
        let others = self.challenge.iter().chain(self.awaited.front()).map(|(_, deadline)| *deadline);
        others.fold(silence, Time::min)
    }

    pub(super) fn due(&self, now: Time, deadlines: &Deadlines) -> Due {
        if self.challenge.is_some_and(|(_, deadline)| deadline <= now) {
            return Due::Dead(CloseReason::EchoTimeout(deadlines.challenge));
        }
        if self.awaited.front().is_some_and(|(_, deadline)| *deadline <= now) {
            return Due::Dead(CloseReason::RequestTimeout(deadlines.request));
        }
        match self.echo_sent {
            Some(sent) if after(sent, deadlines.echo) <= now => Due::Dead(CloseReason::EchoTimeout(deadlines.echo)),
            None if after(self.last_heard, deadlines.idle) <= now => Due::Echo,
            _ => Due::Nothing,
        }
    }
}
