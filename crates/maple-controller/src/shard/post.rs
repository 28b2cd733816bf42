//! Mail between shards, and from other threads to shards.
//!
//! Each shard has one bounded mailbox and a waker. A shard collects what it has to say to another during a turn and hands
//! it over at the turn's end in one piece: one operation on the channel and one wake-up, however many letters. Where the
//! other's mailbox is full the piece stays here, in order, and the shard stops reading its sockets until it is gone, so
//! what can pile up is bounded by what was read before. Nobody ever waits in a send, so full mailboxes can't deadlock.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use maple_core::engine::{Counted, Event, Mail, PortCount, ShardId, TableRule, Traffic};
use maple_core::network::Location;
use maple_wire::Dpid;
use mio::Waker;

use super::connection::Connection;
use super::registry::ConnectionId;
use super::socket::Socket;
use super::sync::{self, Fault};
use crate::control::{ShardStats, SwitchStatus};
use crate::discovery::Tell;

/// How many pieces a mailbox holds.
const MAILBOX: usize = 1024;

/// One thing that a shard is told.
pub(crate) enum Letter {
    /// Serve this connection.
    Connection(Socket, SocketAddr),
    /// Serve this connection from now on, with all that belongs to it.
    Move(Box<Connection>),
    /// From another shard's engine.
    Mail(Mail),
    /// For the engine, from outside.
    Event(Box<Event>),
    /// From another shard's discovery.
    Tell(Location, Tell),
    /// Find out whether this connection of yours is alive: `claimant` says that the switch is now there.
    Challenge {
        /// The switch.
        dpid: Dpid,
        /// Your connection.
        owner: ConnectionId,
        /// Who asks.
        claimant: ConnectionId,
    },
    /// What came of it; your connection `claimant` may claim again unless the other is alive.
    Verdict {
        /// The switch.
        dpid: Dpid,
        /// Your connection.
        claimant: ConnectionId,
        /// Whether the other connection is alive.
        alive: bool,
    },
    /// Answer these questions.
    Ask(Question),
    /// Say so when this turn has ended and all that it sends to other shards is on its way.
    Fence(Sender<()>),
    /// Say so when all rules that are on their way out of your switches are gone.
    Settle(Sender<()>),
    /// Close everything and end.
    Stop,
    /// Give this switch away, if you have it.
    #[cfg(test)]
    Part(Dpid, ShardId),
}

/// A question from another thread, with where to send the answer. Nobody listens any more if sending fails.
pub(crate) enum Question {
    /// The rules of a switch, and how old what they have counted is.
    Rules(Dpid, Sender<(Vec<TableRule>, Option<Duration>)>),
    /// How old what your switches, or this one of them, have counted is; they are watched from now on.
    Watch(Counted, Option<Dpid>, Sender<Vec<Option<Duration>>>),
    /// What ports have counted, and how old that is.
    Ports(Sender<Vec<(PortCount, Duration)>>),
    /// What hosts send to each other, and how old that is.
    Traffic(Sender<Vec<(Traffic, Duration)>>),
    /// All counts.
    Stats(Sender<ShardStats>),
    /// The policy's errors, each with the number of packets dropped because of it.
    Failures(Sender<Vec<(Arc<str>, u64)>>),
    /// The switches.
    Switches(Sender<Vec<SwitchStatus>>),
}

/// The way to one shard's mailbox.
#[derive(Clone)]
pub(crate) struct Mailbox {
    sender: Sender<Vec<Letter>>,
    waker: Arc<Waker>,
}

impl Mailbox {
    /// A mailbox, and the end that its shard reads.
    pub fn new(waker: Arc<Waker>) -> (Mailbox, Receiver<Vec<Letter>>) {
        Mailbox::with_room(waker, MAILBOX)
    }

    /// One for this many pieces.
    pub(super) fn with_room(waker: Arc<Waker>, pieces: usize) -> (Mailbox, Receiver<Vec<Letter>>) {
        let (sender, receiver) = bounded(pieces);
        (Mailbox { sender, waker }, receiver)
    }

    /// Puts a letter into the mailbox; if it is full, gives it back.
    #[cfg(test)]
    pub(super) fn offer(&self, letter: Letter) -> Result<(), Box<Letter>> {
        sync::step();
        match self.sender.try_send(vec![letter]) {
            Ok(()) | Err(TrySendError::Disconnected(_)) => {
                sync::step();
                self.waker.wake().expect("the shard's poll is there");
                Ok(())
            }
            Err(TrySendError::Full(mut letters)) => Err(Box::new(letters.remove(0))),
        }
    }

    /// Sends a letter from a thread that is no shard; waits while the mailbox is full. `false` if the shard has ended.
    pub fn post(&self, letter: Letter) -> bool {
        self.sender.send(vec![letter]).is_ok() && self.waker.wake().is_ok()
    }
}

/// One shard's outgoing mail.
pub(crate) struct Post {
    me: ShardId,
    boxes: Vec<Mailbox>,
    /// What goes to each shard at the end of the turn.
    collected: Vec<Vec<Letter>>,
    /// What did not fit into a mailbox, oldest first, for each shard.
    waiting: Vec<VecDeque<Vec<Letter>>>,
}

impl Post {
    /// The outgoing mail of the shard `me`.
    pub fn new(me: ShardId, boxes: Vec<Mailbox>) -> Post {
        let collected = boxes.iter().map(|_| Vec::new()).collect();
        let waiting = boxes.iter().map(|_| VecDeque::new()).collect();
        Post { me, boxes, collected, waiting }
    }

    /// Sends a letter at the end of the turn, to this shard itself as well.
    pub fn send(&mut self, to: ShardId, letter: Letter) {
        if let Some(letters) = self.collected.get_mut(usize::from(to.0)) {
            letters.push(letter);
        }
    }

    /// Takes the letters to this shard itself.
    pub fn own(&mut self) -> Vec<Letter> {
        std::mem::take(&mut self.collected[usize::from(self.me.0)])
    }

    /// Whether there are letters to this shard itself.
    pub fn has_own(&self) -> bool {
        !self.collected[usize::from(self.me.0)].is_empty()
    }

    /// Whether some mailbox was full.
    pub fn is_congested(&self) -> bool {
        self.waiting.iter().any(|waiting| !waiting.is_empty())
    }

    /// Hands over what was collected.
    pub fn flush(&mut self) {
        for to in 0..self.boxes.len() {
            if to == usize::from(self.me.0) {
                continue;
            }
            if !self.collected[to].is_empty() {
                self.waiting[to].push_back(std::mem::take(&mut self.collected[to]));
            }
            self.hand_over(to);
        }
    }

    /// Puts as many pieces into a mailbox as fit. A shard that has ended takes everything and does nothing with it.
    fn hand_over(&mut self, to: usize) {
        if sync::has(Fault::WakesFirst) && !self.waiting[to].is_empty() {
            self.wake(to);
        }
        let mut sent = false;
        while let Some(letters) = self.waiting[to].pop_front() {
            sync::step();
            match self.boxes[to].sender.try_send(letters) {
                Ok(()) => sent = true,
                Err(TrySendError::Full(letters)) => {
                    self.waiting[to].push_front(letters);
                    break;
                }
                Err(TrySendError::Disconnected(_)) => self.waiting[to].clear(),
            }
        }
        if sent && !sync::has(Fault::WakesFirst) {
            self.wake(to);
        }
    }

    fn wake(&self, to: usize) {
        sync::step();
        if let Err(error) = self.boxes[to].waker.wake() {
            tracing::error!(shard = to, %error, "can't wake a shard");
        }
    }
}

#[cfg(test)]
mod tests {
    use mio::{Poll, Token};

    use super::*;

    /// The post of shard 0, and the mailbox of shard 1 with its poll.
    fn post() -> (Post, Receiver<Vec<Letter>>, Poll) {
        let poll = Poll::new().unwrap();
        let waker = Arc::new(Waker::new(poll.registry(), Token(0)).unwrap());
        let ((own, _), (other, inbox)) = (Mailbox::new(Arc::clone(&waker)), Mailbox::new(waker));
        (Post::new(ShardId(0), vec![own, other]), inbox, poll)
    }

    fn tell(n: u64) -> Letter {
        let at = Location::new(Dpid(n), maple_wire::PortNo(1));
        Letter::Tell(at, Tell::Gone { peer: at, when: maple_core::engine::Time(n) })
    }

    fn number(letter: &Letter) -> u64 {
        match letter {
            Letter::Tell(at, _) => at.switch.0,
            _ => panic!("not what was sent"),
        }
    }

    #[test]
    fn a_turns_letters_arrive_in_one_piece_and_in_order() {
        let (mut post, inbox, _poll) = post();
        (0..5).for_each(|n| post.send(ShardId(1), tell(n)));
        assert!(inbox.is_empty(), "nothing before the turn's end");
        post.flush();
        let piece: Vec<u64> = inbox.try_recv().unwrap().iter().map(number).collect();
        assert_eq!((piece, inbox.len()), (vec![0, 1, 2, 3, 4], 0));
    }

    #[test]
    fn a_full_mailbox_loses_nothing_and_nobody_waits_for_it() {
        let (mut post, inbox, _poll) = post();
        let all = 2 * MAILBOX as u64;
        for n in 0..all {
            post.send(ShardId(1), tell(n));
            post.flush();
        }
        assert!(post.is_congested());
        let mut got = Vec::new();
        while post.is_congested() || !inbox.is_empty() {
            got.extend(inbox.try_iter().flatten().map(|letter| number(&letter)));
            post.flush();
        }
        assert_eq!(got, (0..all).collect::<Vec<_>>());
    }

    #[test]
    fn a_shard_that_has_ended_takes_everything() {
        let (mut post, inbox, _poll) = post();
        drop(inbox);
        post.send(ShardId(1), tell(1));
        post.flush();
        assert!(!post.is_congested());
    }

    #[test]
    fn letters_to_oneself_need_no_mailbox() {
        let (mut post, _inbox, _poll) = post();
        post.send(ShardId(0), tell(7));
        assert!(post.has_own());
        assert_eq!(post.own().iter().map(number).collect::<Vec<_>>(), [7]);
    }
}
