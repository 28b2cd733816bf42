//! Decides when to send a silent switch an echo request, and when to consider it dead.
//!
//! Any message shows that the switch is alive. A switch that processes hundreds of flow-mods may be silent for longer
//! than an echo may take. So while a request is open, only that request's deadline counts. A switch answers in order,
//! so the time for a request starts when the previous one is answered. A switch that makes progress stays connected,
//! however much it has to do. One that makes none is disconnected after the time for one request. Before that, a switch
//! that does not answer the echo request either is reported as *silent*: that nothing comes from it then means nothing.

use std::collections::VecDeque;
use std::time::Duration;

use maple_core::engine::Time;

use super::{CloseReason, Deadlines};
use crate::time::after;

/// The action that is due.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum KeepaliveAction {
    /// Nothing is due.
    Nothing,
    /// An echo request is due.
    Echo,
    /// The switch is to be reported as silent: it has not answered the echo request, and a request is open.
    Silent,
    /// The session is to be ended.
    Dead(CloseReason),
}

/// The times of messages, and the answers that are awaited.
#[derive(Debug)]
pub(super) struct Keepalive {
    /// The time at which the switch last sent or read some bytes.
    last_received: Time,
    /// The time of the echo request, if the switch has made no progress since.
    echo_sent: Option<Time>,
    /// Whether the switch was reported as silent, because the answer to the echo request is overdue.
    is_silent: bool,
    /// The echo request that decides whether this connection is dead, and its deadline.
    challenge: Option<(u32, Time)>,
    /// The open requests of the engine and handlers, oldest first, and the times at which they were sent.
    awaited: VecDeque<(u32, Time)>,
    /// The time at which the oldest open request was last answered.
    progress: Time,
}

impl Keepalive {
    /// Creates the times of a connection from which something came at `now`.
    pub(super) fn new(now: Time) -> Keepalive {
        Keepalive {
            last_received: now,
            echo_sent: None,
            is_silent: false,
            challenge: None,
            awaited: VecDeque::new(),
            progress: now,
        }
    }

    /// Records a whole message. Returns whether the switch was reported as silent.
    pub(super) fn on_message(&mut self, now: Time) -> bool {
        self.on_progress(now);
        std::mem::take(&mut self.is_silent)
    }

    /// Records that the switch has read or sent some bytes.
    pub(super) fn on_progress(&mut self, now: Time) {
        self.last_received = now;
        self.echo_sent = None;
    }

    /// Notes that the switch was reported as silent.
    pub(super) fn mark_silent(&mut self) {
        self.is_silent = true;
    }

    /// Notes that an echo request was sent.
    pub(super) fn on_echo_sent(&mut self, now: Time) {
        self.echo_sent = Some(now);
    }

    /// Records a request, whose answer is awaited.
    pub(super) fn expect(&mut self, xid: u32, now: Time) {
        self.awaited.push_back((xid, now));
    }

    /// Forgets the requests for which this does not hold. Their answers are not awaited any more.
    pub(super) fn retain(&mut self, holds: impl Fn(u32) -> bool) {
        self.awaited.retain(|(xid, _)| holds(*xid));
    }

    /// Reports whether the answer to a request is awaited.
    pub(super) fn is_expected(&self, xid: u32) -> bool {
        self.awaited.iter().any(|(awaited, _)| *awaited == xid)
    }

    /// Records the answer to a request. Returns whether the request was open. Answers come in order, so the search is
    /// short.
    pub(super) fn on_answer(&mut self, xid: u32) -> bool {
        let found = self.awaited.iter().position(|(awaited, _)| *awaited == xid);
        if let Some(at) = found {
            self.awaited.remove(at);
        }
        if found == Some(0) {
            self.progress = self.last_received;
        }
        found.is_some()
    }

    /// Notes the echo request that the switch must answer before the deadline, or else is dead.
    pub(super) fn challenge(&mut self, xid: u32, deadline: Time) {
        self.challenge = Some((xid, deadline));
    }

    /// Takes an echo reply, and returns whether it answers the challenge. Other messages do not count: they may have
    /// been sent before it.
    pub(super) fn on_challenge_answer(&mut self, xid: u32) -> bool {
        self.challenge.take_if(|(challenge, _)| *challenge == xid).is_some()
    }

    /// Returns the time by which the oldest request must be answered.
    fn answer_due(&self, request: Duration) -> Option<Time> {
        self.awaited.front().map(|(_, sent)| after(self.progress.max(*sent), request))
    }

    /// Returns the next deadline. `is_busy` says that a read of rules is open, which has its own deadline.
    pub(super) fn deadline(&self, deadlines: &Deadlines, is_busy: bool) -> Time {
        let silence = match self.echo_sent {
            Some(_) if self.is_silent && (is_busy || !self.awaited.is_empty()) => Time(u64::MAX),
            Some(sent) => after(sent, deadlines.echo),
            None => after(self.last_received, deadlines.idle),
        };
        let challenge = self.challenge.map(|(_, deadline)| deadline);
        challenge.into_iter().chain(self.answer_due(deadlines.request)).fold(silence, Time::min)
    }

    /// Returns the action that is due. `is_busy` says that a read of rules is open, which has its own deadline.
    pub(super) fn due_action(&self, now: Time, deadlines: &Deadlines, is_busy: bool) -> KeepaliveAction {
        if self.challenge.is_some_and(|(_, deadline)| deadline <= now) {
            return KeepaliveAction::Dead(CloseReason::EchoTimeout(deadlines.challenge));
        }
        if self.answer_due(deadlines.request).is_some_and(|deadline| deadline <= now) {
            return KeepaliveAction::Dead(CloseReason::RequestTimeout(deadlines.request));
        }
        if self.deadline(deadlines, is_busy) > now {
            return KeepaliveAction::Nothing;
        }
        match self.echo_sent {
            Some(_) if is_busy || !self.awaited.is_empty() => KeepaliveAction::Silent,
            Some(_) => KeepaliveAction::Dead(CloseReason::EchoTimeout(deadlines.echo)),
            None => KeepaliveAction::Echo,
        }
    }
}
